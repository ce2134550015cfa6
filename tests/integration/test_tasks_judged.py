"""The C tasks that ship: judged by Ridgeline's own harness, right as they are, and open to what the catalog proposes."""

import os
import shutil
from pathlib import Path

import pytest

from ridgeline.agent.contract_file import load
from ridgeline.agent.planner.catalog import CatalogPlanner, hypothesis_of
from ridgeline.agent.verification import open_task
from ridgeline.evals.task_folders import folders
from ridgeline.graph.formula import evaluate
from tests.builders import make_machine, make_round, make_target
from tests.catalog_briefs import brief
from tests.task_copies import whole

NAMES = sorted(name for name in folders() if name.endswith("_c"))
FILES = {"README.md", "kernel.c", "reference.py", "ridgeline.yaml", "task.yaml"}
FIRST = {"matmul_c": "loop-interchange", "softmax_c": "exp-once"}
DEMO_LEVERS = {
    "matmul_c": {"loop-interchange", "gcc-o3", "register-tile", "gcc-target-pragma"},
    "softmax_c": {"exp-once", "gcc-o3", "gcc-target-pragma", "poly-exp", "unroll-pragma"},
}
"""What the gain of the demo comes from, where every round is kept."""
BORROWED = '#include <dlfcn.h>\nvoid *borrowed(void) { return dlopen("libopenblas.so.0", RTLD_NOW); }\n'
WRONG = {
    "matmul_c": ("p < k;", "p < k - (k > 100);"),
    "softmax_c": ("float max = x[i * cols];", "float max = 0.0f;"),
}

gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_a_kernel_a_reference_and_what_describes_them(name):
    (folder,) = folders()[name]
    assert {path.name for path in folder.iterdir()} == FILES


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_says_what_the_task_says(name, tmp_path):
    loaded = load(whole(name, tmp_path / name))
    task, _ = open_task(loaded.root / "task.yaml")
    contract = loaded.contract
    assert contract.benchmark_output.columns == ("label", *task.shapes[0].dims, "class", "Check", "Time (ms)")
    assert contract.kernel_source == contract.editable_globs == task.source == ("kernel.c",)
    assert set(contract.protected) == {"task.yaml", task.reference}
    assert contract.threads == task.threads == 1
    for shape in task.timed:
        assert evaluate(contract.work.flops, shape.dims) == evaluate(task.flops, shape.dims)
        assert evaluate(contract.work.bytes, shape.dims) == evaluate(task.bytes, shape.dims)


@gcc
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_task_is_sound_and_its_kernel_right(cli, name, tmp_path):
    task = whole(name, tmp_path / name) / "task.yaml"
    assert cli("judge", "lint", task).code == 0
    found = cli("judge", "test", task, "--json")
    assert found.code == 0, found.out
    assert (found.json["correct"]["answer"], found.json["own_work"]["answer"]) == ("yes", "yes")


@gcc
@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST)
def test_a_wrong_kernel_and_a_borrowed_one_are_refused(cli, name, tmp_path):
    """These tasks forbid libraries: a kernel that could load one is no answer, however right it is."""
    folder = whole(name, tmp_path / name)
    kernel, clean = folder / "kernel.c", (folder / "kernel.c").read_text()
    assert WRONG[name][0] in clean
    kernel.write_text(clean.replace(*WRONG[name]))
    wrong = cli("judge", "test", folder, "--json")
    assert (wrong.code, wrong.json["correct"]["answer"]) == (1, "no")
    kernel.write_text(BORROWED + clean)
    borrowed = cli("judge", "test", folder, "--json")
    assert (borrowed.code, borrowed.json["correct"]["answer"]) == (1, "yes")
    assert borrowed.json["own_work"]["answer"] != "yes"


@gcc
@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST)
def test_levers_of_the_catalog_stay_right_and_their_own_work_on_top_of_each_other(cli, name, tmp_path):
    folder = whole(name, tmp_path / name)
    contract, kernel = load(folder).contract, folder / "kernel.c"
    target = make_target(target_op=contract.target_op, target_backend="C", target_lang="C")
    planner, rounds = CatalogPlanner(), []
    for number in range(2, 2 + len(DEMO_LEVERS[name])):
        now = brief(
            {"kernel.c": kernel.read_text()},
            *rounds,
            target=target,
            contract=contract,
            machine=machine(),
            bottleneck="compute",
        )
        proposal = planner.propose(now)
        assert proposal.hypothesis is not None
        (edit,) = planner.draft(now, proposal).edits
        kernel.write_text(edit.text or "")
        rounds.append(make_round(number, hypothesis=proposal.hypothesis))
    found = cli("judge", "test", folder, "--json")
    assert found.code == 0, found.out
    assert (found.json["correct"]["answer"], found.json["own_work"]["answer"]) == ("yes", "yes")
    kept = [hypothesis_of(closed).lever for closed in rounds]
    assert kept[0] == FIRST[name]
    if {"avx2", "fma"} <= set(machine().features):
        assert set(kept) == DEMO_LEVERS[name]


def machine():
    """This one, as far as levers ask for it."""
    info = Path("/proc/cpuinfo")
    told = info.read_text() if info.exists() and os.uname().machine == "x86_64" else ""
    return make_machine(features=tuple(told.partition("flags")[2].partition("\n")[0].split()))
