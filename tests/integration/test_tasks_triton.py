"""The Triton tasks that ship with Ridgeline, as far as they can be checked without torch and without a GPU."""

import ast

import pytest
import yaml

from ridgeline.agent.contract_file import load
from ridgeline.agent.planner.catalog import CatalogPlanner
from ridgeline.agent.verification import open_task
from ridgeline.evals.task_folders import TASKS, folders
from ridgeline.graph.briefing import Draft, Proposal
from ridgeline.graph.contract import Contract
from ridgeline.graph.formula import evaluate
from ridgeline.graph.rules.define import resolve_target
from ridgeline.graph.rules.operations import amount, family, types
from ridgeline.graph.target import Target
from ridgeline.graph.task import Task
from ridgeline.sandbox.devices.values import device_kind
from ridgeline.sandbox.judge.options import Options
from tests.builders import make_machine
from tests.catalog_briefs import brief
from tests.rooms import open_room
from tests.task_copies import whole

NAMES = ("gemm_gelu_triton", "matmul_triton", "reverse_cumsum_triton", "softmax_triton")
FILES = {"README.md", "isa.toml", "kernel.py", "reference.py", "ridgeline.yaml", "task.yaml"}
LEAST_LEVERS = 5


def contract_of(task: str) -> Contract:
    return Contract.model_validate(yaml.safe_load((TASKS / task / "ridgeline.yaml").read_text()))


def kernel_of(task: str) -> str:
    return (TASKS / task / "kernel.py").read_text()


def task_of(name: str) -> Task:
    return open_task(TASKS / name / "task.yaml")[0]


def levers(task: str, arch: str = "sm_90") -> tuple[str, dict[str, Draft]]:
    """The kernel, and what the catalog makes of it: a draft for each lever that applies."""
    planner = CatalogPlanner()
    machine = make_machine(kind="amd" if arch.startswith("gfx") else "nvidia", arch=arch, features=())
    now = brief({"kernel.py": kernel_of(task)}, lang="TRITON", machine=machine, contract=contract_of(task))
    proposal = planner.propose(now)
    assert proposal.hypothesis is not None
    drafts = {}
    for name in (lever.id for lever in planner.order(now)[0]):
        asked = proposal.hypothesis.model_copy(update={"id": name, "lever": name.partition(":")[0]})
        drafts[name] = planner.draft(now, Proposal(hypothesis=asked))
    return kernel_of(task), drafts


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_a_kernel_a_reference_and_what_describes_them(name):
    (folder,) = folders()[name]
    assert {path.name for path in folder.iterdir() if path.is_file()} == FILES


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_says_what_the_task_says(name, tmp_path):
    loaded = load(whole(name, tmp_path / name))
    task, contract = task_of(name), loaded.contract
    assert contract.benchmark_output.columns == ("label", *task.shapes[0].dims, "class", "Check", "Time (ms)")
    assert contract.kernel_source == contract.editable_globs == task.source == ("kernel.py",)
    assert set(contract.protected) == {"task.yaml", task.reference}
    assert not contract.rebuild.required
    assert (task.library, task.cache, task.convention) == ("forbidden", "cold", "out")
    for shape in task.timed:
        assert evaluate(contract.work.flops, shape.dims) == evaluate(task.flops, shape.dims)
        assert evaluate(contract.work.bytes, shape.dims) == evaluate(task.bytes, shape.dims)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_make_two_classes_and_the_profiled_one_is_among_them(name):
    contract, timed = contract_of(name), task_of(name).timed
    assert len(timed) >= 4
    assert len({shape.config_class for shape in timed}) == 2
    assert contract.profile is not None
    assert contract.profile.command[:5] == ("ridgeline", "judge", "profile", "task.yaml", "--shape")
    assert contract.profile.command[5] in {shape.label for shape in timed}
    assert f"def {contract.profile.kernel}(" in kernel_of(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_processor_is_asked_about_the_small_sizes_and_a_card_about_all(name):
    task = task_of(name)
    here = Options(device="cpu").fit_sizes(task)
    assert [shape.label for shape in here.shapes] == [shape.label for shape in task.shapes if not shape.timed]
    assert Options(device="cuda").fit_sizes(task) == task


def test_without_a_card_a_benchmark_says_what_it_lacks(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeline.sandbox.judge.options.CARD_NODES", ())
    said = cli("judge", "bench", TASKS / "softmax_triton" / "task.yaml", "--csv", tmp_path / "out.csv")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "the timed ones are for a card, and this machine shows none" in said.err


@pytest.mark.parametrize("task", NAMES)
@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_catalog_finds_levers_and_each_leaves_python(task, arch):
    before, drafts = levers(task, arch)
    assert len(drafts) >= LEAST_LEVERS
    for name, draft in drafts.items():
        assert [edit.path for edit in draft.edits] == ["kernel.py"], f"{name}: {draft.refusal}"
        text = draft.edits[0].text
        assert text is not None
        assert text != before
        functions = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
        assert "run" in functions, name


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        ("matmul_triton", {"block-constant", "num-warps", "num-stages", "group-size", "pipelined-range"}),
        ("softmax_triton", {"block-sweep", "num-warps", "exp2", "pipelined-range", "eviction"}),
        ("gemm_gelu_triton", {"block-constant", "num-warps", "num-stages", "pipelined-range", "dot-accumulate"}),
        ("reverse_cumsum_triton", {"block-sweep", "num-warps", "pipelined-range", "eviction"}),
    ],
)
def test_levers_that_a_tuner_would_try_apply(task, wanted):
    found = {name.partition(":")[0].removeprefix("triton-") for name in levers(task)[1]}
    assert wanted <= found


@pytest.mark.parametrize(
    ("task", "operator", "names"),
    [
        ("reverse_cumsum_triton", "cumsum", {"R": "rows", "C": "cols"}),
        ("gemm_gelu_triton", "gemm", {"M": "M", "N": "N", "K": "K"}),
        ("matmul_triton", "matmul", {"M": "M", "N": "N", "K": "K"}),
    ],
)
def test_work_is_that_of_the_operator(task, operator, names):
    """Of the roofline by documents; a bias read once is all that gemm_gelu adds."""
    contract, found = contract_of(task), family(operator)
    for shape in task_of(task).timed:
        size = shape.dims
        least = amount(found, {key: size[name] for key, name in names.items()}, types(found, contract.dtype))
        assert evaluate(contract.work.flops, size) == least.flops
        added = 2 * size["N"] if task == "gemm_gelu_triton" else 0
        assert evaluate(contract.work.bytes, size) == least.bytes + added


@pytest.mark.parametrize("task", NAMES)
def test_contract_runs_on_an_h100_as_it_is(task):
    contract = contract_of(task)
    machine = make_machine(kind="nvidia", name="NVIDIA H100 80GB HBM3", arch="sm_90", features=())
    target = resolve_target(
        contract,
        instruction="",
        created="2026-01-01 00:00",
        contract_path="ridgeline.yaml",
        machine=machine,
        overrides={},
    )
    assert isinstance(target, Target), target
    assert target.target_gpu == "sm_90"
    assert device_kind(contract) == "nvidia"


@pytest.mark.parametrize("task", NAMES)
def test_commands_get_no_limit_on_the_address_space(task, make_repository, tmp_path):
    """CUDA reserves far more addresses than there is memory, so a limit on them would end every run."""
    files = dict.fromkeys(contract_of(task).kernel_source, "")
    here = open_room(make_repository(files), tmp_path / "campaign", contract_of(task))
    ended = here.commands.plain("test_command", ("sh", "-c", "ulimit -v"), cwd=tmp_path, timeout_s=10)
    assert ended.ok
    assert ended.output.strip() == "unlimited"
