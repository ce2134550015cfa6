"""Contracts in C with a test and a benchmark of their own, as recorded campaigns ran on: real make, gcc and timings."""

import csv
import math
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from ridgeline.evals.task_folders import RECORDED
from ridgeline.graph.contract import Contract
from ridgeline.sandbox.timing.interleaving import WATCHED_HEADER
from tests.task_copies import whole_recorded

NAMES = ("matmul_c", "softmax_c")
HALF = """
static float half(float x) {
    float wide = x * 8193.0f;
    return wide - (wide - x);
}
"""
"""Rounds to the 11 significant bits of fp16."""
REMEMBERS = "{\n    static const float *last;\n    if (INPUT == last) {return;}\n    last = INPUT;\n"

WRONG = {
    "matmul_c": {
        "one product short": ("p < k;", "p < k - 1;"),
        "one product too many": ("p < k;", "p <= k;"),
        "last row missing": ("i < m;", "i < m - 1;"),
        "last column missing": ("j < n;", "j < n - (n > 1);"),
        "fp16 inputs": ("sum += a[i * k + p] *", "sum += half(a[i * k + p]) *"),
        "reads past b": ("float sum = 0.0f;", "float sum = 0.0f * b[k * n + j];"),
        "reads before a": ("float sum = 0.0f;", "float sum = 0.0f * a[-1];"),
        "writes past c": ("c[i * n + j] = sum;", "c[i * n + j] = sum;\n            c[m * n] = sum;"),
        "writes before c": ("c[i * n + j] = sum;", "c[i * n + j] = sum;\n            c[-1] = sum;"),
        "changes an input": ("c[i * n + j] = sum;", "c[i * n + j] = sum;\n            ((float *)a)[0] = 0.0f;"),
        "remembers by address": ("{\n", REMEMBERS.replace("INPUT", "a")),
        "works for a poisoned output only": ("{\n", "{\n    if (c[0] == c[0]) {return;}\n"),
        "crashes": ("{\n", "{\n    *(volatile int *)0 = 1;\n"),
    },
    "softmax_c": {
        "maximum not subtracted": ("] - max", "]"),
        "maximum starts at zero": ("float max = x[i * cols];", "float max = 0.0f;"),
        "maximum of the first row": ("float max = x[i * cols];", "float max = x[0];"),
        "one column short": ("j = 0; j < cols;", "j = 0; j < cols - 1;"),
        "last row missing": ("i < rows;", "i < rows - 1;"),
        "fp16 inputs": ("expf(x[i * cols + j]", "expf(half(x[i * cols + j])"),
        "reads past x": ("float sum = 0.0f;", "float sum = 0.0f * x[rows * cols];"),
        "writes past y": ("float sum = 0.0f;", "float sum = 0.0f;\n        y[rows * cols] = 0.0f;"),
        "half the row summed": ("0.0f;\n        for (int j = 0;", "0.0f;\n        for (int j = cols / 2;"),
        "remembers by address": ("{\n", REMEMBERS.replace("INPUT", "x")),
        "works for a poisoned output only": ("{\n", "{\n    if (y[0] == y[0]) {return;}\n"),
    },
}  # fmt: skip
RIGHT = {
    "matmul_c": {
        "loops interchanged": (
            """float sum = 0.0f;
            for (int p = 0; p < k; p++) {
                sum += a[i * k + p] * b[p * n + j];
            }
            c[i * n + j] = sum;
        }
""",
            """c[i * n + j] = 0.0f;
        }
        for (int p = 0; p < k; p++) {
            for (int j = 0; j < n; j++) {
                c[i * n + j] += a[i * k + p] * b[p * n + j];
            }
        }
""",
        ),
    },
    "softmax_c": {"product with the reciprocal": ("- max) / sum", "- max) * (1.0f / sum)")},
}  # fmt: skip
"""The same function, computed otherwise: must not be refused."""


def cases(table: dict[str, dict[str, tuple[str, str]]]) -> list[tuple[str, str]]:
    return [(task, what) for task, kernels in table.items() for what in kernels]


def command(*argv: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def copy(source: Path, to: Path) -> Path:
    shutil.copytree(source, to)
    return to


def contract_of(task: str) -> Contract:
    return Contract.model_validate(yaml.safe_load((RECORDED / task / "ridgeline.yaml").read_text()))


def fill(argv: tuple[str, ...], **values: str) -> list[str]:
    return [word.format(**values) for word in argv]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """Each as it is, built by its own command, warnings as errors."""
    root = tmp_path_factory.mktemp("tasks")
    folders = {}
    for task in NAMES:
        folders[task] = folder = whole_recorded(task, root / task)
        rebuild = contract_of(task).rebuild.command
        assert rebuild is not None
        made = command(*rebuild, "CFLAGS_EXTRA=-Werror", cwd=folder)
        assert made.returncode == 0, made.stderr
    return folders


def planted(built: Path, to: Path, change: tuple[str, str]) -> Path:
    """A copy with another kernel; the tools stay as they were built."""
    folder = copy(built, to)
    source = (folder / "kernel.c").read_text()
    assert change[0] in source
    changed = source.replace(*change, 1 if change[0] == "{\n" else -1)
    (folder / "kernel.c").write_text(changed.replace('#include "kernel.h"\n', '#include "kernel.h"\n' + HALF))
    made = command("make", "-s", "lib", cwd=folder)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.parametrize("task", NAMES)
def test_contract_is_valid_and_names_files_that_exist(task, tmp_path):
    folder = whole_recorded(task, tmp_path / "whole")
    contract = contract_of(task)
    assert contract.paired_command is not None
    assert contract.profile is not None
    protected = set(contract.protected)
    assert {path.name for path in folder.glob("*.[ch]")} - protected == {"kernel.c"}
    assert set(contract.editable_globs) == {"kernel.c", "kernel.flags"}
    for name in (*protected, *contract.editable_globs):
        assert (folder / name).is_file()


@pytest.mark.parametrize("task", NAMES)
def test_build_writes_only_under_build_and_repeats_byte_for_byte(task, built, tmp_path):
    again = whole_recorded(task, tmp_path / "again")
    before = {path.name for path in again.iterdir()}
    assert {path.name for path in built[task].iterdir()} == before | {"build"}
    assert command("make", "-s", "lib", cwd=again).returncode == 0
    library = "build/libkernel.so"
    assert (again / library).read_bytes() == (built[task] / library).read_bytes()


@pytest.mark.parametrize("task", NAMES)
def test_flags_never_reach_a_shell(task, built, tmp_path):
    folder = copy(built[task], tmp_path / "flags")
    (folder / "kernel.flags").write_text("-O2 $(touch made) ; touch made\n")
    assert command("make", "-s", "lib", cwd=folder).returncode != 0
    assert not (folder / "made").exists()


@pytest.mark.parametrize("task", NAMES)
def test_shipped_kernel_is_right_on_new_data_each_time(task, built):
    runs = [command(*contract_of(task).test_command, cwd=built[task]) for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stdout + runs[1].stdout
    assert runs[0].stdout.splitlines()[0] != runs[1].stdout.splitlines()[0], "the seed was the same"
    assert "PASS" in runs[0].stdout
    assert "MISMATCH" not in runs[0].stdout


@pytest.mark.parametrize(("task", "what"), cases(WRONG))
@pytest.mark.slow
def test_wrong_kernel_is_found_out(task, what, built, tmp_path):
    folder = planted(built[task], tmp_path / "wrong", WRONG[task][what])
    run = command("build/test", cwd=folder)
    assert run.returncode == 1, run.stdout
    assert run.stdout.splitlines()[-1].startswith("MISMATCH label=")
    assert " rel_err=" in run.stdout


@pytest.mark.parametrize(("task", "what"), cases(RIGHT))
def test_right_kernel_passes_also_with_fast_math(task, what, built, tmp_path):
    folder = planted(built[task], tmp_path / "right", RIGHT[task][what])
    for flags in ("-O2", "-O3 -march=native -ffast-math"):
        (folder / "kernel.flags").write_text(flags + "\n")
        assert command("make", "-s", "lib", cwd=folder).returncode == 0
        run = command("build/test", cwd=folder)
        assert run.returncode == 0, run.stdout


@pytest.mark.feature("F018")
@pytest.mark.parametrize("task", NAMES)
@pytest.mark.slow
def test_benchmark_writes_what_the_contract_declares(task, built, tmp_path):
    contract = contract_of(task)
    out = tmp_path / "benchmark.csv"
    assert command(*fill(contract.benchmark_command, csv=str(out)), cwd=built[task]).returncode == 0
    with out.open() as handle:
        reader = csv.DictReader(handle)
        rows = list(reader)
    assert tuple(reader.fieldnames or ()) == contract.benchmark_output.columns
    assert len(rows) == 6
    assert {row["Check"] for row in rows} == {"PASS"}
    assert len({row["regime"] for row in rows}) == 2
    for row in rows:
        assert float(row[contract.scoring.primary_metric[0]]) > 0
        assert float(row["Forward Time (ms)"]) > 0


@pytest.mark.parametrize("task", NAMES)
def test_quick_command_measures_the_chosen_shapes(task, built, tmp_path):
    contract = contract_of(task)
    out = tmp_path / "quick.csv"
    chosen = {"matmul_c": ["sq48", "wide16"], "softmax_c": ["r64x64", "r9x8191"]}[task]
    argv = fill(contract.quick_command, csv=str(out), shapes=",".join(chosen))
    assert command(*argv, cwd=built[task]).returncode == 0
    with out.open() as handle:
        assert [row["label"] for row in csv.DictReader(handle)] == chosen


@pytest.mark.parametrize("task", NAMES)
@pytest.mark.slow
def test_pair_of_equal_builds_is_a_tie(task, built, tmp_path):
    contract = contract_of(task)
    assert contract.paired_command is not None
    other = copy(built[task], tmp_path / "other")
    out = tmp_path / "pair.csv"
    values = {"a": str(built[task]), "b": str(other), "csv": str(out), "shapes": "all", "blocks": "3", "seed": "7"}
    run = command(*fill(contract.paired_command, **values), cwd=built[task])
    assert run.returncode == 0, run.stdout + run.stderr
    with out.open() as handle:
        reader = csv.DictReader(handle)
        blocks = defaultdict(list)
        for row in reader:
            blocks[row["label"], row["block"]].append((int(row["slot"]), row["side"], float(row["time_us"])))
    assert reader.fieldnames == list(WATCHED_HEADER)
    assert len(blocks) == 6 * 3
    ratios = []
    for slots in blocks.values():
        assert [slot for slot, _, _ in slots] == [0, 1, 2, 3]
        assert "".join(side for _, side, _ in slots) in ("abba", "baab")
        ratios.append(sum(math.log(time) * (1 if side == "a" else -1) for _, side, time in slots) / 2)
    assert abs(sum(ratios) / len(ratios)) < math.log(1.10)


@pytest.mark.parametrize("task", NAMES)
def test_timed_calls_are_judged_calls(task, built, tmp_path):
    """A kernel that answers its first call and then rests is fast, and wrong."""
    folder = planted(built[task], tmp_path / "lazy", WRONG[task]["remembers by address"])
    out = tmp_path / "out.csv"
    assert command("build/bench", "--csv", out, "--iters-ms", "5", cwd=folder).returncode == 0
    with out.open() as handle:
        assert {row["Check"] for row in csv.DictReader(handle)} == {"FAIL"}
    argv = (
        "build/bench",
        "--pair",
        built[task],
        folder,
        "--csv",
        out,
        "--shapes",
        "all",
        "--blocks",
        "1",
        "--seed",
        "1",
    )
    run = command(*argv, cwd=folder)
    assert run.returncode == 1
    assert run.stdout.startswith("MISMATCH label=")


@pytest.mark.parametrize("task", NAMES)
def test_profile_command_makes_a_few_calls_and_says_so(task, built):
    profile = contract_of(task).profile
    assert profile is not None
    assert profile.kernel
    run = command(*profile.command, cwd=built[task])
    told = dict(line.split("=") for line in run.stdout.split())
    assert run.returncode == 0
    assert int(told["calls"]) == 3
    assert float(told["kernel_time_us"]) > 0
    assert profile.kernel in command("nm", "-D", "build/libkernel.so", cwd=built[task]).stdout


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--csv"], "--csv is unknown or lacks its value"),
        ([], "--csv FILE is missing"),
        (["--profile", "nowhere"], "no shape has the label"),
        (["--pair", "missing", ".", "--csv", "out.csv"], "missing/build/libkernel.so"),
    ],
)
def test_bench_that_cannot_run_says_why(argv, told, built, tmp_path):
    folder = copy(built["matmul_c"], tmp_path / "folder")
    run = command("build/bench", *argv, cwd=folder)
    assert run.returncode == 2
    assert told in run.stderr
