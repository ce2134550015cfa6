"""The Triton tasks that ship with Ridgeline, as far as they can be checked without torch and without a GPU."""

import ast
from pathlib import Path

import pytest
import yaml

from ridgeline.agent.contract_file import load
from ridgeline.agent.planner.catalog import CatalogPlanner
from ridgeline.evals.task_folders import TASKS, folders
from ridgeline.graph.briefing import Draft, Proposal
from ridgeline.graph.contract import Contract
from ridgeline.graph.formula import evaluate
from ridgeline.graph.rules.define import resolve_target
from ridgeline.graph.rules.operations import amount, family, types
from ridgeline.graph.target import Target
from ridgeline.sandbox.devices.values import device_kind
from ridgeline.sandbox.timing.interleaving import HEADER as PAIR_HEADER
from tests.builders import make_machine
from tests.catalog_briefs import brief
from tests.rooms import open_room
from tests.task_copies import whole

NAMES = ("gemm_gelu_triton", "matmul_triton", "reverse_cumsum_triton", "softmax_triton")
HARNESS = TASKS / "harness_triton"
SCRIPTS = {"bench.py", "harness.py", "test.py"}
LEAST_LEVERS = 5


def contract_of(task: str) -> Contract:
    return Contract.model_validate(yaml.safe_load((TASKS / task / "ridgeline.yaml").read_text()))


def kernel_of(task: str) -> str:
    return (TASKS / task / "kernel.py").read_text()


def constant(path: Path, name: str) -> ast.expr:
    """What a module assigns to a name of its own."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return node.value
    raise AssertionError(f"{path} assigns no {name}")


def shapes(task: str) -> list[tuple[str, tuple[int, ...], str]]:
    listed = constant(TASKS / task / "problem.py", "BENCHED")
    assert isinstance(listed, ast.Tuple)
    return [tuple(ast.literal_eval(argument) for argument in call.args) for call in listed.elts]


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


@pytest.mark.parametrize("task", NAMES)
def test_contract_is_valid_and_names_files_that_exist(task, tmp_path):
    folder = whole(task, tmp_path / task)
    contract = load(folder).contract
    assert contract.paired_command is not None
    assert contract.profile is not None
    assert contract.editable_globs == ("kernel.py",)
    assert {path.name for path in folder.glob("*.py")} == {*contract.protected, "kernel.py"}
    assert contract.scoring.engine == "graph"
    assert not contract.rebuild.required
    for command in (contract.test_command, contract.benchmark_command, contract.quick_command, contract.paired_command):
        assert command[:3] == ("python3", "-P", "-B")


@pytest.mark.parametrize("task", NAMES)
def test_the_harness_lies_in_one_place(task):
    assert folders()[task] == (TASKS / task, HARNESS)
    assert {path.name for path in HARNESS.iterdir() if path.is_file()} == SCRIPTS
    assert not SCRIPTS & {path.name for path in (TASKS / task).iterdir()}


@pytest.mark.parametrize(
    "path", sorted(path for name in (*NAMES, HARNESS) for path in (TASKS / name).glob("*.py")), ids=str
)
def test_sources_parse(path):
    ast.parse(path.read_text())


@pytest.mark.feature("F018")
@pytest.mark.parametrize("task", NAMES)
def test_header_is_the_declared_one(task):
    contract = contract_of(task)
    problem, bench = TASKS / task / "problem.py", HARNESS / "bench.py"
    known = {name: ast.literal_eval(constant(problem, name)) for name in ("DIMENSIONS", "METRIC")}
    written: list[str] = []
    for element in constant(bench, "HEADER").elts:
        if isinstance(element, ast.Starred):
            written += known["DIMENSIONS"]
        elif isinstance(element, ast.JoinedStr):
            parts = (
                part.value if isinstance(part, ast.Constant) else known[part.value.attr] for part in element.values
            )
            written.append("".join(parts))
        else:
            written.append(ast.literal_eval(element))
    assert tuple(written) == contract.benchmark_output.columns
    assert ast.literal_eval(constant(bench, "PAIR_HEADER")) == PAIR_HEADER


@pytest.mark.parametrize("task", NAMES)
def test_shapes_make_two_classes_and_the_profiled_one_is_among_them(task):
    contract, listed = contract_of(task), shapes(task)
    labels = [label for label, _, _ in listed]
    assert len(labels) == len(set(labels)) >= 4
    assert len({regime for _, _, regime in listed}) == 2
    assert contract.profile is not None
    assert contract.profile.command[-1] in labels
    assert f"def {contract.profile.kernel}(" in kernel_of(task)
    width = len(ast.literal_eval(constant(TASKS / task / "problem.py", "DIMENSIONS")))
    assert {len(size) for _, size, _ in listed} == {width}


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
    dimensions = ast.literal_eval(constant(TASKS / task / "problem.py", "DIMENSIONS"))
    for _, size, _ in shapes(task):
        given = dict(zip(dimensions, size, strict=True))
        least = amount(found, {key: given[name] for key, name in names.items()}, types(found, contract.dtype))
        assert evaluate(contract.work.flops, given) == least.flops
        added = 2 * given["N"] if task == "gemm_gelu_triton" else 0
        assert evaluate(contract.work.bytes, given) == least.bytes + added


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
