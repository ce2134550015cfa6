"""`manifest.yaml`, `README.md` and the quick script, which is run for real."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ridgeline.graph.reports.files import render_all
from ridgeline.graph.standing import History
from ridgeline.graph.target import Goal
from tests.builders import (
    COLUMNS,
    make_baseline,
    make_contract,
    make_history,
    make_limits,
    make_machine,
    make_opened,
    make_target,
)
from tests.document_builders import complete, growing

MANIFEST_KEYS = [
    "target_op",
    "target_backend",
    "target_lang",
    "target_gpu",
    "execution_mode",
    "project_skill",
    "performance_target",
    "primary_metric",
    "target_shapes",
    "kernel_source",
    "test_command",
    "benchmark_command",
    "quick_command",
    "representative_shapes",
    "git_commit",
    "git_branch",
    "max_iterations",
    "created",
]
README_SECTIONS = [
    "Target",
    "Execution",
    "Inputs",
    "Hard Constraints",
    "Additional Notes",
    "Tools",
    "Hardware Spec",
    "Roofline Analysis",
    "Measurement Noise",
    "Stop Conditions",
    "Task Context",
    "ISA Optimization Targets",
]
BENCH = """\
import sys
path, shapes = sys.argv[1], sys.argv[2].split(",")
mode = open("mode").read().strip()
if mode == "hang":
    import time
    time.sleep(60)
header = {header!r} if mode != "drift" else "label,speed"
with open(path, "w") as out:
    out.write(header + "\\n")
    for shape in shapes[1:] if mode == "short" else shapes:
        out.write(f"{{shape}},8,8,8,{{'FAIL' if mode == 'fail' else 'PASS'}},1.0,0.1,0.5\\n")
"""


def manifest(history: History) -> dict:
    return yaml.safe_load(str(render_all(history, worktree="/somewhere/tree")["manifest.yaml"]))


@pytest.mark.feature("F009")
def test_manifest_has_the_eighteen_keys_in_order_from_the_start() -> None:
    for history in growing():
        found = manifest(history)
        assert list(found)[:18] == MANIFEST_KEYS
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", found["created"])
        assert found["worktree"] == "/somewhere/tree"
        assert found["csv_schema"] == list(COLUMNS)
        assert found["csv_schema_sha256"] == hashlib.sha256(",".join(COLUMNS).encode()).hexdigest()
        assert found["gates"]["core_shape_regress_limit"] == 0.05
        assert isinstance(found["best_commit"], str)


@pytest.mark.feature("F009")
def test_only_shapes_status_and_best_of_the_manifest_ever_change() -> None:
    first, last = (manifest(history) for history in (next(growing()), complete()))
    assert {key for key in first if first[key] != last[key]} == {
        "representative_shapes",
        "status",
        "best_round",
        "best_commit",
        "core_shapes",
    }
    assert first["representative_shapes"] == []
    assert last["representative_shapes"] == ["small", "medium", "large"]
    assert (last["status"], last["best_round"]) == ("concluded: T3 5 of 5 rounds", 5)
    assert last["best_commit"] == "05" * 20


@pytest.mark.feature("F009")
def test_values_that_look_like_other_types_stay_text() -> None:
    opened = make_opened(target=make_target(max_iterations=5), base_commit="1" * 40)
    found = manifest(make_history(opened=opened))
    assert found["best_commit"] == "1" * 40
    assert found["max_iterations"] == 5
    assert found["target_shapes"] == "all"
    assert found["performance_target"] is None


def test_readme_has_its_sections_and_registered_specs_only() -> None:
    text = str(render_all(complete(), worktree="tree")["README.md"])
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == README_SECTIONS
    specs = text.partition("## Hardware Spec\n\n")[2].partition("\n\n")[0].splitlines()
    for spec in specs:
        assert re.fullmatch(r"- [\w ]+: ([\d.e+-]+ \S+ <- .+|UNKNOWN \(.+\))", spec), spec
    assert "- Ridge point: 5 FLOP/byte" in text
    assert "- compute-bound target >= 0.09 TFLOPS" in text
    assert "| small | 524288 | 49152 | 10.7 | 5.2 | compute |" in text


@pytest.mark.feature("F069", "F070")
def test_readme_of_a_fresh_campaign_says_unknown_and_never_hedges() -> None:
    for kind in ("cpu", "amd", "nvidia"):
        history = History(opened=make_opened(machine=make_machine(kind=kind)))
        text = str(render_all(history, worktree="tree")["README.md"])
        assert "- compute peak: UNKNOWN (no source registered)" in text
        assert "- Ridge point: UNKNOWN" in text
        assert "compute-bound target: UNKNOWN" in text
        assert not re.search(r"approximately|should be|usually|similar product", text)
    assert "async_load_pct above the original's: share of loads that go to shared memory by themselves" in text


def test_readme_names_the_targets_that_were_asked_for() -> None:
    goal = Goal(metric="GFLOPS", op=">", value=500, unit="GFLOPS", text=">500 GFLOPS")
    contract = make_contract(correctness={"kind": "column", "column": "err", "op": "<=", "threshold": 0.01})
    limits = make_limits("autonomous", max_minutes=30)
    opened = make_opened(target=make_target(performance_target=goal), contract=contract, limits=limits)
    text = str(render_all(make_history(opened=opened), worktree="tree")["README.md"])
    for line in (
        "- T1 performance target: >500 GFLOPS, off: the campaign is endless",
        "- T2 hardware efficiency: off",
        "- T5 regressions: 5 consecutive measured regressions",
        "- T7 budgets: 30 minutes",
        "- correctness threshold: column of column err <= 0.01",
    ):
        assert line in text.splitlines(), line
    assert manifest(make_history(opened=opened))["performance_target"] == ">500 GFLOPS"


def script(tmp_path: Path, history: History, worktree: str) -> Path:
    path = tmp_path / "campaign" / "quick_test_bench.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(str(render_all(history, worktree=worktree)["quick_test_bench.py"]), encoding="utf-8")
    return path


def launch(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(path), *arguments],
        cwd=os.sep,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, History]:
    """A tree with a real quick command, and a campaign on it that has its baseline."""
    tree = tmp_path / "tree" / "kernels"
    tree.mkdir(parents=True)
    (tree / "bench.py").write_text(BENCH.format(header=",".join(COLUMNS)))
    (tree / "mode").write_text("good")
    contract = make_contract(
        quick_command=(sys.executable, "bench.py", "{csv}", "{shapes}"), timeouts={"benchmark_s": 2}
    )
    opened = make_opened(contract=contract, contract_path="kernels/ridgeline.yaml")
    return tree, make_history(opened=opened, baseline=make_baseline(representative=("small", "large")))


@pytest.mark.feature("F010")
def test_quick_script_refuses_before_the_baseline(tmp_path: Path) -> None:
    path = script(tmp_path, History(opened=make_opened()), str(tmp_path))
    assert "\nSHAPES = []\n" in path.read_text()
    done = launch(path)
    assert done.returncode == 2
    assert done.stderr.startswith("quick_test_bench: SHAPES is empty")
    assert done.stderr.count("\n") == 1


@pytest.mark.feature("F010")
@pytest.mark.parametrize("absolute", [True, False])
def test_quick_script_measures_the_representative_shapes_from_anywhere(
    tmp_path: Path, project: tuple[Path, History], absolute: bool
) -> None:
    tree, history = project
    path = script(tmp_path, history, str(tree.parent) if absolute else "../tree")
    summary = tmp_path / "summary.csv"
    done = launch(path, "--summary-csv", str(summary))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == ",".join(COLUMNS)
    assert [line.split(",")[0] for line in done.stdout.splitlines()[1:]] == ["small", "large"]
    assert summary.read_text() == done.stdout


@pytest.mark.feature("F010")
@pytest.mark.parametrize(
    ("mode", "code", "words"),
    [
        ("fail", 1, ""),
        ("drift", 2, "CSV header drifted"),
        ("short", 2, "no row for small"),
        ("hang", 2, "ran longer than 2 s and was killed"),
    ],
)
def test_quick_script_never_hides_a_failure(
    tmp_path: Path, project: tuple[Path, History], mode: str, code: int, words: str
) -> None:
    tree, history = project
    (tree / "mode").write_text(mode)
    done = launch(script(tmp_path, history, str(tree.parent)))
    assert done.returncode == code
    assert words in done.stderr


@pytest.mark.feature("F010", "F100")
@pytest.mark.parametrize(("wrong", "code"), [("0", 0), ("0.25", 1)])
def test_quick_script_reads_a_program_without_arguments_label_or_check(tmp_path: Path, wrong: str, code: int) -> None:
    (tmp_path / "bench.py").write_text(
        f"open('own.csv', 'w').write('n,error,us\\n1,{wrong},10\\n2,0,20\\n3,0.5,30\\n')\n"
    )
    (tmp_path / "own.csv").write_text("of an earlier run\n")
    columns = ("n", "error", "us")
    contract = make_contract(
        quick_command=(sys.executable, "bench.py"),
        correctness={"kind": "column", "column": "error"},
        project_output={"columns": columns, "label": "n{n}", "check": None, "file": "own.csv"},
    )
    history = make_history(
        opened=make_opened(contract=contract, contract_path="ridgeline.yaml"),
        baseline=make_baseline(representative=("n1", "n2")),
    )
    done = launch(script(tmp_path, history, str(tmp_path)))
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.splitlines()[0] == "n,error,us"


@pytest.mark.feature("F010")
def test_quick_script_names_a_missing_tree_or_program(tmp_path: Path, project: tuple[Path, History]) -> None:
    _, history = project
    gone = launch(script(tmp_path, history, str(tmp_path / "nowhere")))
    assert (gone.returncode, "does not exist; name a checked-out tree with --tree" in gone.stderr) == (2, True)
    contract = make_contract(quick_command=("build/bench", "{csv}", "{shapes}"))
    other = make_history(opened=make_opened(contract=contract))
    unbuilt = launch(script(tmp_path, other, str(tmp_path)))
    assert (unbuilt.returncode, "cannot start build/bench" in unbuilt.stderr) == (2, True)


@pytest.mark.feature("F010")
def test_quick_script_needs_only_the_standard_library(tmp_path: Path) -> None:
    text = script(tmp_path, complete(), "tree").read_text()
    imported = set(re.findall(r"^(?:import|from) (\w+)", text, flags=re.MULTILINE))
    assert imported <= set(sys.stdlib_module_names)
    assert "\nSHAPES = [\n    'small',\n    'medium',\n    'large',\n]\n" in text
