"""Bad input of every kind: one clear line, the documented exit code, never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.agent.version import VERSION
from tests.projects import HEADER, ROWS, files

ROOT = Path(__file__).parents[2]
GOOD = "\n".join((HEADER, *ROWS)) + "\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "absent.yaml"), "absent.yaml: no such file"),
        (("check", "absent.yaml"), "absent.yaml: no such file"),
        (("run", "."), "has no ridgeline.yaml; write one with `ridgeline init .`"),
        (("run",), "Missing argument"),
        (("runn", "x"), "No such command 'runn'"),
        (("run", ".", "--max-rounds", "ten"), "--max-rounds"),
        (("run", ".", "--no-such-option"), "--no-such-option"),
        (("status",), "CAMPAIGN: none found here"),
        (("status", "nothing"), "nothing: no such campaign"),
        (("report", "nothing"), "nothing: no such campaign"),
        (("resume", "nothing"), "nothing: no such campaign"),
        (("stop", "nothing"), "nothing: no such campaign"),
        (("watch", "nothing"), "nothing: no such campaign"),
        (("resume", "."), ".: holds no campaign"),
        (("schema", "contrat"), "did you mean 'contract'?"),
        (("init", "absent"), "absent: no such folder"),
        (("init", "new", "--task", "matmul"), "--task: unknown task 'matmul'; did you mean 'matmul_c'?"),
        (("demo", "--task", "matmul"), "--task: unknown task 'matmul'; did you mean 'matmul_c'?"),
        (("memory", "list"), "none found here"),
    ],
)
def test_a_mistaken_command_line(cli, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.complaint
    assert [*tmp_path.iterdir()] == [], "a refused command leaves nothing behind"


@pytest.mark.parametrize("arguments", [(), ("memory",)])
def test_a_bare_command_shows_what_there_is(cli, arguments):
    assert cli(*arguments).err.startswith("Usage: ridgeline")


def test_the_version_is_one_word(cli):
    assert cli("--version").out.strip() == VERSION


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["memory", "read", "--help"], ["--version"]])
def test_help_loads_nothing_slow(arguments):
    load = "import sys; from ridgeline.agent.cli.application import run"
    code = f"{load}; code = run({arguments}); sys.exit(code or 'pydantic' in sys.modules)"
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(VERSION if arguments == ["--version"] else "Usage: ridgeline ")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"test_comand": "x"}, "ridgeline.yaml: test_comand: unknown field; did you mean 'test_command'?"),
        ({"test_command": "no-such-program"}, "ridgeline.yaml: test_command: program 'no-such-program' not found"),
        ({"editable": ["*.cu"]}, "ridgeline.yaml: editable: '*.cu' matches no file"),
        ({"max_iterations": 120}, "ridgeline.yaml: max_iterations: is 120; give 1 to 119"),
        (
            {"work": {"flops": "2*Q"}},
            "ridgeline.yaml: work.flops: unknown variable 'Q'; known: GFLOPS, Time (ms); correct",
        ),
        ({"work": {"bytes": "open('x')"}}, "ridgeline.yaml: work.bytes: function 'open' is not allowed"),
        ({"limits": {"margn": 1}}, "ridgeline.yaml: limits.margn: unknown setting 'margn'; did you mean 'margin'?"),
    ],
)
@pytest.mark.parametrize("command", [("run",), ("check",), ("check", "--static")])
def test_a_contract_that_cannot_be(cli, make_repository, command, changes, said):
    root = make_repository(files(**changes))
    done = cli(command[0], root, *command[1:])
    assert (done.code, done.out) == (2, "")
    assert said in done.complaint
    assert not (root / "agent").exists()


def test_the_options_are_bounded_like_the_contract(cli, make_repository):
    root = make_repository(files())
    assert "--max-rounds: is 120; give 1 to 119" in cli("run", root, "--max-rounds", 120).complaint
    assert "did you mean 'margin'?" in cli("run", root, "--set", "margn=1").complaint
    assert "--target: 'x' is not key=value" in cli("run", root, "--target", "x").complaint
    assert "--planner: 'oracle' is unknown" in cli("run", root, "--planner", "oracle").complaint
    assert not (root / "agent").exists()


def test_a_key_given_twice_is_refused_and_not_silently_the_last(cli, make_repository):
    text = files()["ridgeline.yaml"]
    root = make_repository({**files(), "ridgeline.yaml": f"{text}dtype: fp32\ndtype: fp16\n"})
    done = cli("check", root)
    place = text.count("\n") + 2
    assert (done.code, done.complaint) == (
        2,
        f"ridgeline.yaml:{place}:1: is not YAML: 'dtype' is given twice; correct that line",
    )


def left_by(git, root):
    """What a campaign could have left in a repository."""
    return [*root.glob("agent")], git(root, "for-each-ref", "--format=%(refname)"), git(root, "status", "--porcelain")


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.slow
def test_a_refused_start_clears_only_the_folder_it_was_given(cli, make_repository, tmp_path, git, existed):
    root, folder = make_repository(files(test="#!/bin/sh\nexit 7\n")), tmp_path / "new" / "campaign"
    if existed:
        folder.mkdir(parents=True)
    before = left_by(git, root)
    assert cli("run", root, "--dir", folder).code == 2
    assert left_by(git, root) == before
    assert folder.exists() == existed
    assert (tmp_path / "new").exists() == existed


@pytest.mark.parametrize("file", ["somebodys.txt", None])
def test_a_folder_with_somebodys_files_is_no_campaign_folder(cli, make_repository, tmp_path, file):
    folder = tmp_path / "place"
    if file:
        folder.mkdir()
        (folder / file).write_text("precious")
    else:
        folder.write_text("a file")
    done = cli("run", make_repository(files()), "--dir", folder)
    assert done.code == 2
    assert done.complaint.endswith("place: is not an empty folder; name one that does not exist yet")
    assert not file or (folder / file).read_text() == "precious"


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_folder_that_is_no_repository(cli, tmp_path, command):
    for name, text in files().items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = cli(command, tmp_path)
    assert done.code == 2
    assert "is not inside a git repository" in done.complaint


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_detached_head(cli, make_repository, git, command):
    root = make_repository(files())
    git(root, "checkout", "-q", "--detach")
    done = cli(command, root)
    assert done.code == 2
    assert "detached" in done.complaint.lower()


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_dirty_tree(cli, make_repository, command):
    root = make_repository(files())
    (root / "kernel.c").write_text("int answer(void) { return 41; }\n")
    done = cli(command, root)
    assert done.code == 2
    assert "kernel.c" in done.complaint


@pytest.mark.feature("F016")
@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("csv", "said"),
    [
        (GOOD.replace(",GFLOPS", "").replace(",1.0", "").replace(",4.0", ""), "schema_drift"),
        (GOOD.replace("GFLOPS", "Gflops"), "schema_drift"),
        (GOOD.replace("4.0", "NaN"), "not_a_number"),
        (GOOD.replace("4.0", "fast"), "not_a_number"),
        (HEADER + "\n", "zero_rows"),
        (GOOD + ROWS[0] + "\n", "small"),
    ],
)
@pytest.mark.slow
def test_a_benchmark_whose_csv_is_wrong(cli, make_repository, git, command, csv, said):
    root = make_repository(files(csv=csv))
    before = left_by(git, root)
    done = cli(command, root)
    assert done.code == 2
    assert said in done.complaint
    assert "ridgeline.yaml: benchmark_command: " in done.complaint
    assert "correct the benchmark or the contract" in done.complaint
    assert left_by(git, root) == before, "a refused start leaves nothing behind"


@pytest.mark.parametrize("command", ["check", "run"])
def test_shapes_that_the_benchmark_does_not_have(cli, make_repository, command):
    done = cli(command, make_repository(files(core_shapes=["small", "huge"])))
    assert (done.code, done.out) == (2, "")
    assert "core_shapes: the benchmark has no shape 'huge'; it has small, large" in done.complaint


PAIR = """#!/bin/sh
echo label,block,slot,side,time_us,at_us > "$1"
for label in small large; do for block in $(seq 0 $(($2 - 1))); do for slot in 0:a 1:b 2:b 3:a; do
echo "$label,$block,${slot%:*},${slot#*:},2.0,$block" >> "$1"
done; done; done
"""


def test_a_column_of_times_that_the_pairs_contradict(cli, make_repository):
    project = {**files(paired_command="./pair.sh {csv} {blocks} {a} {b} {shapes} {seed}"), "pair.sh": PAIR}
    done = cli("check", make_repository(project))
    assert (done.code, done.out) == (2, "")
    assert (
        "ridgeline.yaml: scoring.time_ms: column 'Time (ms)' says 2 ms for small, where paired_command took 0.002 ms"
        in (done.complaint)
    )


def test_a_machine_that_left_no_pair_whole_is_a_warning_of_check_and_no_failure(cli, make_repository):
    """The blocks are given up by the benchmark itself, as those that others' load disturbed are by the timer."""
    busy = {
        **files(paired_command="./pair.sh {csv} {blocks} {a} {b} {shapes} {seed}"),
        "pair.sh": PAIR.replace(",2.0,", ",-,"),
    }
    done = cli("check", make_repository(busy))
    assert done.code == 0
    assert "noise: not measured, the machine did not stay the same" in done.out
    assert "try again when it is quiet" in done.out
    assert "a campaign may begin, waits for the machine" in done.out
    assert "minutes at least for a round that is measured; no pair was timed" in done.out
    assert "per process pair" not in done.out


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("script", "said"),
    [("#!/bin/sh\necho MISMATCH\necho not close\nexit 1\n", "incorrect"), ("#!/bin/sh\nexit 7\n", "crash")],
)
@pytest.mark.slow
def test_a_test_that_the_unmodified_kernel_fails(cli, make_repository, git, command, script, said):
    root = make_repository(files(test=script))
    before = left_by(git, root)
    done = cli(command, root)
    assert done.code == 2
    assert said in done.complaint
    assert "ridgeline.yaml: test_command: " in done.complaint
    assert left_by(git, root) == before


def test_check_says_what_a_campaign_spends_its_minutes_on(cli, make_repository):
    root = make_repository(files(test="#!/bin/sh\nsleep 2\necho PASS\n", max_iterations=7))
    done = cli("check", root, "--json")
    assert done.code == 0, done.err
    expenses = {expense["step"]: expense for expense in done.json["expenses"]}
    assert done.json["rounds"] == 7
    assert expenses["test"]["times"] == 9
    assert expenses["test"]["minutes"] == pytest.approx(9 * done.json["test_s"] / 60)
    assert expenses["final pairs"]["times"] == 8
    assert expenses["pairs of rounds"]["times"] == 7 * 12
    minutes = [expense["minutes"] for expense in done.json["expenses"]]
    assert minutes == sorted(minutes, reverse=True)


def test_the_only_shape_is_not_to_be_left_out(cli, make_repository):
    several = cli("check", make_repository(files()), "--json").json["expenses"]
    assert f"time fewer than {len(ROWS)} shapes" in " ".join(expense["cheaper"] for expense in several)
    done = cli("check", make_repository(files(csv="\n".join((HEADER, ROWS[0])) + "\n")), "--json")
    assert done.code == 0, done.err
    cheaper = {expense["step"]: expense["cheaper"] for expense in done.json["expenses"]}
    assert cheaper["benchmark"] == "let quick_command run fewer repetitions"
    assert (
        cheaper["final pairs"] == "fewer final pairs (`limits.final_pairs`), or fewer blocks than 5 (`limits.blocks`)"
    )
    assert not [text for text in cheaper.values() if "shapes" in text]


def test_a_build_that_fails(cli, make_repository):
    done = cli("check", make_repository(files(rebuild={"required": True, "command": "sh -c 'echo no rule; exit 3'"})))
    assert done.code == 2
    assert done.complaint.startswith("ridgeline.yaml: rebuild.command: ")
    assert "no rule" in done.complaint


def test_the_process_itself_says_one_line_and_leaves_with_two(tmp_path):
    done = subprocess.run(
        (sys.executable, "-m", "ridgeline", "run", str(tmp_path / "x.yaml")),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ridgeline: {tmp_path}/x.yaml: no such file; give a ridgeline.yaml")
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def small_disk(tmp_path):
    """A folder with hardly any space."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder))
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(("umount", "-l", str(folder)), check=True)


def test_a_full_disk_is_said_and_nothing_is_lost(cli, make_repository, small_disk):
    root = make_repository(files())
    (small_disk / "filler").write_bytes(b"x" * 60_000)
    done = cli("run", root, "--dir", small_disk / "campaign")
    assert done.code == 2
    assert "space" in done.complaint or "full" in done.complaint
