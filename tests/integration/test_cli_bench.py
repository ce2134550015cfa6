"""`ridgeline bench` with real processes, real repositories and real files."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from ridgeline.agent.bench.request import read_sides
from ridgeline.graph.evidence import Comparison
from ridgeline.graph.limits import Limits
from ridgeline.graph.stats.noise import estimate_noise
from ridgeline.graph.stats.sequential import estimate_gain
from tests.projects import files as shell_files
from tests.text_project import files

QUICK = ("--max-minutes", 1, "--calibration-pairs", 6, "--json", "--quiet")
JITTER = """#!{python} -IS
import os, sys
name, base = sys.argv[1], float(sys.argv[2])
draw = lambda: 1 + 0.006 * (int.from_bytes(os.urandom(4)) / 2**32 - 0.5)
rows = [f"{{label}},{{base * scale * draw()}}" for label, scale in (("small", 1), ("large", 8))]
text = "label,ms\\n" + "\\n".join(rows) + "\\n"
if name == "print":
    print("warming up")
    print(text)
elif name == "rate":
    print(f"speed: {{1 / base * draw()}} GB/s")
else:
    open(name, "w").write(text)
"""
KEYS = {
    "schema_version", "verdict", "relation", "sentence", "ratio", "lower", "upper", "pairs", "alpha", "margin", "required", "sigma",
    "engine", "a", "b", "machine", "fingerprint", "unit", "shapes", "calibration", "blocks", "dropped_blocks", "lost_pairs", "ended",
    "seconds", "seed", "notes", "gate", "plot", "raw", "unwritten",
}  # fmt: skip
SHAPE_KEYS = {"label", "a", "b", "ratio", "lower", "upper", "slower"}
CALIBRATION_KEYS = {"pairs", "sd", "offset", "allowance", "smallest_visible_gain", "seconds"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a command that reports numbers it makes up, a tenth of a second each."""
    place = tmp_path / "here"
    place.mkdir()
    script = place / "report"
    script.write_text(JITTER.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def project(make_repository, git, monkeypatch):
    """A repository of three commits of a kernel: `main` is 5 % faster than `slow`, `same` says the same as `main`."""
    root = make_repository(files("speed 100\n"))
    git(root, "tag", "slow")
    (root / "kernel.txt").write_text("speed 105\n")
    git(root, "commit", "-qam", "faster")
    git(root, "tag", "same")
    (root / "notes.md").write_text("nothing of the kernel\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "notes")
    monkeypatch.chdir(root)
    return root


@pytest.mark.slow
def test_a_command_that_takes_two_thirds_of_the_time_is_faster(cli, here):
    said = cli("bench", "sleep 0.03", "sleep 0.01", *QUICK).json
    assert said["verdict"] == "faster", said["sentence"]
    assert said["ratio"] > said["lower"] > 1
    assert (said["engine"], said["unit"], said["ended"]) == ("wall", "us", "decided")
    assert said["shapes"][0]["a"] > said["shapes"][0]["b"] > 10_000
    assert any("whole processes" in note for note in said["notes"])


@pytest.mark.slow
def test_a_command_is_never_faster_than_itself(cli, here):
    said = cli("bench", "sleep 0.01", "sleep 0.01", *QUICK, "--max-pairs", 8).json
    assert said["verdict"] in ("not_faster", "undecided"), said["sentence"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "options", "unit"),
    [
        (("./report print 10.5", "./report print 10"), ("--csv", "ms"), {"small", "large"}),
        (("./report {csv} 10.5", "./report {csv} 10"), ("--csv", "ms", "--label", "label"), {"small", "large"}),
        (
            ("./report rate 10.5", "./report rate 10"),
            ("--metric-regex", r"speed: ([0-9.]+)", "--higher-is-better"),
            {"all"},
        ),
    ],
)
def test_what_commands_report_is_compared(cli, here, words, options, unit):
    said = cli("bench", *words, *options, *QUICK).json
    assert said["verdict"] == "faster", said["sentence"]
    assert said["ratio"] == pytest.approx(1.05, abs=0.01)
    assert {shape["label"] for shape in said["shapes"]} == unit
    assert said["shapes"][0]["a"] == pytest.approx(10.5 if len(unit) > 1 else 1 / 10.5, rel=0.02)
    assert said["unit"] == ""


@pytest.mark.slow
def test_the_answer_has_a_stable_shape_and_can_be_judged_again_from_the_raw_file(cli, here):
    raw, plot = here / "raw.json", here / "pairs.svg"
    options = ("--csv", "ms", "--seed", 7, "--raw", raw, "--plot", plot)
    said = cli("bench", "./report print 10.5", "./report print 10", *options, *QUICK).json
    assert set(said) == KEYS
    assert set(said["shapes"][0]) == SHAPE_KEYS
    assert set(said["calibration"]) == CALIBRATION_KEYS
    assert (said["seed"], said["alpha"], said["margin"], said["blocks"]) == (7, 0.01, 0.005, 1)
    kept = json.loads(raw.read_text())
    pairs = [Comparison.model_validate(pair) for pair in kept["comparisons"]]
    noise = estimate_noise([Comparison.model_validate(kept["calibration"])])
    again = estimate_gain(pairs, noise, Limits.model_validate(kept["limits"]))
    assert again.sd == said["sigma"]
    assert again.pairs == said["pairs"] == len(kept["timings"]["pairs"])
    assert plot.exists() == bool(find_spec("matplotlib"))


def test_without_json_there_is_a_sentence_a_table_and_lines_of_progress(cli, here):
    done = cli("bench", "./report print 11", "./report print 10", "--csv", "ms", "--calibration-pairs", 4)
    assert done.code == 0
    assert done.out.startswith("B is faster than A by ")
    assert done.out.splitlines()[2].split("  ")[0] == "SHAPE"
    assert "A, ms" in done.out.splitlines()[2], "the column that was compared"
    assert "B, ms" in done.out.splitlines()[2]
    unbounded = any(line.split()[-1:] == ["-"] for line in done.out.splitlines()[3:5])
    assert ("too few" in done.out) is unbounded, "chance decides how alike few identical pairs are"
    assert "pair   1:" in done.err
    assert "identical versions: 4 pairs" in done.err


def test_a_table_without_bounds_says_why(cli, here):
    words = ("./report print 11", "./report print 10", "--csv", "ms", "--calibration-pairs", 0, "--max-pairs", 2)
    done = cli("bench", *words)
    assert done.code == 0
    assert "-: 2 pairs are too few for a bound there" in done.out.splitlines()


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="draws")
@pytest.mark.slow
@pytest.mark.parametrize("pairs", [0, 4])
def test_a_picture_in_either_format(cli, here, pairs):
    for name, start in (("p.png", b"\x89PNG"), ("p.svg", b"<?xml")):
        options = ("--csv", "ms", "--calibration-pairs", pairs, "--plot", name, "--quiet", "--max-pairs", 3)
        assert cli("bench", "./report print 10.02", "./report print 10", *options).code == 0
        assert (here / name).read_bytes().startswith(start)


@pytest.mark.slow
def test_where_nothing_can_draw_everything_else_works(here):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'matplotlib' else find(name, *rest)\n"
        "from ridgeline.agent.cli.application import run; sys.exit(run(sys.argv[1:]))"
    )
    words = ("bench", "./report print 11", "./report print 10", "--csv", "ms", "--plot", "p.png", "--json")
    done = subprocess.run((sys.executable, "-c", code, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plot"] is None
    assert "--plot: matplotlib is not installed" in done.stderr
    assert not (here / "p.png").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nosuch", "true"), "A: 'nosuch' is no folder, no commit"),
        (("cmd:nosuch x", "true"), "A: program 'nosuch' not found"),
        (("dir:nowhere", "true"), "A: 'nowhere' is no folder"),
        (("commit:abc", "commit:abc"), "A: 'abc' is no commit, branch or tag that git knows in"),
        (("true", "."), "A is a command and B is a folder: they would be timed in two ways"),
        (("true", "true | cat"), "B: 'true | cat' uses the shell (|); put it into a script"),
        (("true", "true 'x"), 'B: "true \'x": no closing quotation; correct the quotes'),
        (("sleep", "true"), "A: 'sleep' is a command and a folder; write cmd:sleep or dir:sleep"),
        (("true", "sh -c 'echo no; exit 3'"), "B: `sh -c echo no; exit 3` ended with exit code 3: no"),
        (("true", "cmd:false"), "B: `false` ended with exit code 1, and printed nothing"),
        (("true", "sleep 9", "--timeout", 0.2), "B: `sleep 9` did not end within 0.2 s; allow more with --timeout"),
        (("true", "true", "--plot", "x.pdf"), "--plot: 'x.pdf' must end in .png or .svg"),
        (("true", "true", "--raw", "no/x.json"), "--raw: no/x.json cannot be written"),
        (("true", "true", "--alpha", 2), "--alpha: input should be less than 0.5"),
        (("true", "true", "--margin", -1), "--margin: input should be greater than or equal to 0"),
        (("true", "true", "--max-minutes", 0), "--max-minutes: is 0; give a number above 0"),
        (("true", "true", "--max-minutes", "nan"), "--max-minutes: is nan; give a number above 0"),
        (("true", "true", "--max-pairs", 1), "--max-pairs: is 1; give 2 or more"),
        (("true", "true", "--blocks", 0), "--blocks: is 0; give 1 or more"),
        (("true", "true", "--threads", 0), "--threads: is 0; give 1 or more"),
        (("true", "true", "--calibration-pairs", 1), "--calibration-pairs: is 1; give 0 for none, or 2 or more"),
        (("true", "true", "--metric-regex", "x"), "--metric-regex: 'x' has 0 groups"),
        (("true", "true", "--metric-regex", "("), "--metric-regex: '(': missing )"),
        (("true", "true", "--metric-regex", "(x)", "--csv", "y"), "--metric-regex and --csv: give one of them"),
        (("true", "true", "--label", "x"), "--label: says something of numbers that the commands report"),
        (("true", "true", "--higher-is-better"), "--higher-is-better: says something of numbers"),
        (("true", "true", "--csv", "ms", "--engine", "evnt"), "--engine: unknown engine 'evnt'; did you mean 'event'"),
        (("true", "true", "--cpu-time", "--gpu"), "--cpu-time: processor time does not see what a GPU does"),
        (("true", "true", "--csv", "ms", "--engine", "cpu", "--gpu"), "--engine cpu: processor time does not see"),
        (("true", "true", "--cpu-time", "--csv", "ms"), "--cpu-time: is compared instead of what the commands report"),
        (("true", "true", "--csv", "ms"), "A: --csv ms: the command neither wrote {csv} nor printed"),
        (("echo 1", "echo x", "--metric-regex", "([0-9x])"), "B: --metric-regex: 'x' is not a number"),
        (("true",), "Missing argument 'B'"),
        ((".", "."), "is not inside a git repository"),
    ],
)
def test_bad_input_is_one_line(cli, here, words, said):
    (here / "sleep").mkdir()
    done = cli("bench", *words, "--quiet")
    assert (done.code, done.out) == (2, "")
    assert said in done.complaint
    assert sorted(path.name for path in here.iterdir()) == ["report", "sleep"]


LOOP = """#include <stdlib.h>
int main(int count, char **words) {
    volatile unsigned sum = 0;
    for (long i = atol(words[count - 1]); i > 0; i--) sum += i;
    return 0;
}
"""


@pytest.fixture
def loop(here):
    """A C program that counts down from its argument: `loop(40)` is a command of 40 ms of this processor, starting it not counted."""
    (here / "loop.c").write_text(LOOP)
    subprocess.run(("cc", "-O1", "-o", "loop", "loop.c"), cwd=here, check=True)

    def measure(count):
        before = os.times()
        subprocess.run(("./loop", str(count)), cwd=here, check=True)
        return os.times().children_user - before.children_user

    count = 20_000_000
    while (took_s := min(measure(count) for _ in range(3))) < 0.1:  # os.times() counts hundredths of seconds
        count *= 2
    return lambda milliseconds: f"./loop {round(count * milliseconds / 1e3 / took_s)}"


@pytest.fixture
def busy_machine(whole_machine):
    """Four processes that never rest."""
    processes = [subprocess.Popen((sys.executable, "-ISc", "while True: pass")) for _ in range(4)]
    yield
    for process in processes:
        process.kill()
        process.wait()


def test_processor_time_is_of_the_whole_tree_and_says_what_it_does_not_see(cli, loop):
    words = (loop(60), f"sh -c 'sleep 0.1; {loop(40)}; true'")
    said = cli("bench", *words, "--cpu-time", *QUICK, "--max-pairs", 12).json
    assert (said["engine"], said["unit"]) == ("cpu", "us"), said["sentence"]
    assert said["verdict"] in ("faster", "undecided"), said["sentence"]
    assert said["upper"] > 1.2, said["sentence"]
    assert said["lower"] < 1.7, said["sentence"]
    assert "sleeping, waiting, threads that overlap and devices do not show" in said["sentence"]
    assert any(note.startswith("processor time was") for note in said["notes"])


@pytest.mark.slow
def test_on_a_busy_machine_processor_time_says_nothing_else_of_ten_per_cent(cli, loop, busy_machine):
    """Whether so few pairs settle it is the machine's affair: `make bench BENCH=busy`."""
    said = cli("bench", loop(44), loop(40), "--cpu-time", *QUICK, "--max-pairs", 8).json
    assert said["verdict"] in ("faster", "undecided"), said["sentence"]
    assert said["lower"] < 1.1 * 1.05, said["sentence"]
    assert said["upper"] > 1.1 / 1.05, said["sentence"]


@pytest.mark.slow
def test_on_a_busy_machine_identical_programs_do_not_differ_in_processor_time(cli, loop, busy_machine):
    said = cli("bench", loop(40), loop(40), "--cpu-time", *QUICK, "--max-pairs", 8).json
    assert said["lower"] < 1 + said["margin"], said["sentence"]
    assert said["upper"] > 1, said["sentence"]


def test_numbers_of_two_engines_are_never_compared(cli, here):
    words = [f"printf 'label,ms,engine\\na,1,{engine}\\n'" for engine in ("event", "graph")]
    done = cli("bench", *(f"cmd:{word}" for word in words), "--csv", "ms", "--quiet")
    assert done.code == 2
    assert "engine graph, those before by event; numbers of two engines are never compared" in done.complaint


@pytest.mark.slow
def test_commits_are_built_and_timed_by_their_contract_and_the_checkout_is_not_touched(cli, project, git):
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    said = cli("bench", "slow", "main", *QUICK).json
    assert said["verdict"] == "faster", said["sentence"]
    assert said["ratio"] == pytest.approx(1.05, abs=0.005)
    assert said["blocks"] == Limits().blocks
    assert said["a"] == f"commit slow ({git(project, 'rev-parse', 'slow')[:12]})"
    assert {shape["label"] for shape in said["shapes"]} == {"small", "large"}
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    again = cli("bench", "main", "same", *QUICK).json
    assert again["verdict"] == "not_faster", again["sentence"]
    assert any("notes.md" in note for note in again["notes"])


def test_a_word_that_is_a_program_too_is_a_commit_beside_a_commit(cli, project, monkeypatch):
    program = project.parent / "bin" / "HEAD"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert [side.kind for side in read_sides("HEAD~1", "HEAD", project)] == ["commit", "commit"]
    assert [side.kind for side in read_sides("HEAD", "main", project)] == ["commit", "commit"]
    assert "is a command and a commit" in cli("bench", "HEAD", "HEAD").complaint


@pytest.mark.slow
def test_of_two_contracts_in_a_folder_the_one_that_is_named_times_both(cli, project, git):
    (project / "second.yaml").write_text((project / "ridgeline.yaml").read_text())
    git(project, "add", "-A")
    git(project, "rm", "-q", "ridgeline.yaml")
    git(project, "commit", "-qm", "another contract")
    git(project, "tag", "fast")
    (project / "kernel.txt").write_text("speed 100\n")
    git(project, "commit", "-qam", "slower")
    said = cli("bench", "main", "fast", "--contract", "second.yaml", *QUICK).json
    assert said["verdict"] == "faster", said["sentence"]
    done = cli("bench", "commit:main", "commit:fast", "--contract", "third.yaml", "--quiet")
    assert (done.code, done.complaint.count("neither A nor B has a third.yaml")) == (2, 1)


@pytest.mark.slow
def test_a_folder_is_compared_as_it_stands(cli, project, git, tmp_path):
    git(project, "worktree", "add", "-q", tmp_path / "other", "slow")
    (tmp_path / "other" / "kernel.txt").write_text("speed 120\n")
    (tmp_path / "other" / "new.txt").write_text("untracked\n")
    index = (project / ".git" / "worktrees" / "other" / "index").read_bytes()
    objects = sorted(path.name for path in (project / ".git" / "objects").rglob("*"))
    said = cli("bench", "dir:.", tmp_path / "other", *QUICK).json
    assert said["verdict"] == "faster", said["sentence"]
    assert said["ratio"] == pytest.approx(120 / 105, abs=0.01)
    assert "at commit" in said["a"]
    assert said["b"].endswith("and 2 files changed since")
    assert (project / ".git" / "worktrees" / "other" / "index").read_bytes() == index
    assert sorted(path.name for path in (project / ".git" / "objects").rglob("*")) == objects
    assert git(tmp_path / "other", "status", "--short") == "M kernel.txt\n?? new.txt"


@pytest.mark.parametrize(
    ("change", "words", "said"),
    [
        ({}, ("start", "nosuch"), "B: 'nosuch' is no folder, no commit that git knows here and no program"),
        ({}, ("start", "true"), "A is a commit and B is a command"),
        ({}, ("start", "clash"), "B: 'clash' is a commit and a folder; write commit:clash or dir:clash"),
        ({}, ("start", "main", "--threads", 1), "--threads: is for commands"),
        (
            {"scoring": {"primary_metric": "GFLOPS", "engine": "event"}},
            ("start", "main"),
            "A is timed by wall and B by",
        ),
        ({"quick_command": "./bench.sh --csv {csv}"}, ("start", "main"), "A and B differ in quick_command"),
        (
            {"rebuild": {"required": True, "command": "false"}},
            ("main", "main"),
            "A: does not build: false: exit code 1",
        ),
        ({"test_comand": "x"}, ("start", "main"), "B: ridgeline.yaml: test_comand: unknown field"),
        (
            {"csv": "label,Check,GFLOPS,Time (ms)\nsmall,FAIL,1,2\n"},
            ("start", "main"),
            "B: Check is not PASS for small",
        ),
        ({"csv": "label,Check,GFLOPS,Time (ms)\nsmall,PASS,1,2\n"}, ("start", "main"), "A reports the shapes small, "),
    ],
)
@pytest.mark.slow
def test_versions_that_cannot_be_compared(cli, make_repository, git, monkeypatch, change, words, said):
    root = make_repository(shell_files())
    git(root, "tag", "start")
    git(root, "tag", "clash")
    for path, text in shell_files(**change).items():
        (root / path).write_text(text)
    git(root, "commit", "-qam", "changed", "--allow-empty")
    (root / "clash").mkdir()
    monkeypatch.chdir(root)
    done = cli("bench", *words, "--quiet")
    assert (done.code, done.out) == (2, "")
    assert said in done.complaint
    assert git(root, "status", "--short") == ""


@pytest.mark.slow
def test_ctrl_c_says_what_is_known_and_leaves_nothing_running(here):
    mark = f"sleep 0.1{os.getpid()}"
    argv = (sys.executable, "-m", "ridgeline", "bench", mark, mark, "--json", "--calibration-pairs", "0")
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        argv,
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a test run in the background of a shell inherits an ignored SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for line in process.stderr:
        if line.startswith("pair   1"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    said = json.loads(out)
    assert process.returncode == 130
    assert (said["verdict"], said["ended"]) == ("undecided", "interrupted")
    assert said["pairs"] >= 1
    assert err.strip().splitlines()[-1].startswith("ridgeline: interrupted")
    time.sleep(0.05)
    running = subprocess.run(("ps", "-eo", "args"), capture_output=True, text=True, check=True).stdout
    assert mark not in running.splitlines()


def test_a_planted_regression_ends_with_1_and_is_told_to_the_ci_system(cli, here):
    """Commands that report numbers of their own: no clock decides."""
    options = ("--csv", "ms", "--calibration-pairs", 4, "--fail-on", "slower:1.5%")
    told = ("--junit", "bench.xml", "--annotate", "github:kernel.c", "--json", "--quiet")
    slower = cli("bench", "./report print 10", "./report print 10.3", *options, *told)
    assert (slower.code, slower.json["gate"]["outcome"]) == (1, "failed")
    assert slower.json["relation"] in ("slower", "undecided")
    assert "::error file=kernel.c,title=ridgeline bench::" in slower.err
    told_as_file = (here / "bench.xml").read_text()
    assert "B is not slower than A by more than 1.5 %" in told_as_file
    assert '<failure type="failed"' in told_as_file, (
        "of the whole, or of a shape where other work left the whole undecided"
    )
    equal = cli("bench", "./report print 10", "./report print 10", *options, "--quiet")
    assert (equal.code, equal.out.splitlines()[-1]) == (0, "passed     B is not slower by more than 1.5 %")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--fail-on", "faster"), "--fail-on: 'faster' is not slower or slower:MARGIN"),
        (("--junit", "x.xml"), "--junit: tells whether something failed; add --fail-on slower or --expect FILE"),
        (("--annotate", "github"), "--annotate: tells whether something failed"),
        (("--fail-on", "slower", "--annotate", "gitlab"), "--annotate: 'gitlab' is not github or github:FILE"),
        (("--update",), "--update: writes the file of --expect, which is not given"),
        (("--expect", "none.json"), "--expect: none.json is no file; write it with --expect none.json --update"),
    ],
)
def test_bad_input_of_the_gate_is_one_line(cli, here, options, said):
    done = cli("bench", "true", "true", *options, "--quiet")
    assert (done.code, done.out) == (2, "")
    assert said in done.complaint
