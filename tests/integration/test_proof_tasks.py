"""The tasks of evals/proof, on which others publish kernels: sound as far as a machine without a card can tell."""

import ast
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from ridgeline.agent.contract_file import load
from ridgeline.agent.formats.reading import list_sources
from ridgeline.agent.verification import open_task
from ridgeline.graph.formula import evaluate
from ridgeline.sandbox.judge.options import Options

PROOF = Path(__file__).parents[2] / "evals" / "proof"
NAMES = sorted(path.parent.name for path in PROOF.glob("*/task.yaml"))
FILES = {"isa.toml", "kernel.py", "pytorch.py", "reference.py", "ridgeline.yaml", "task.yaml"}
CARD_BYTES, ORACLE_BYTES = 79 * 10**9, 16 * 10**9
LIBRARY = ("trimul",)
"""A kernel published for it, K-Search's, calls cuBLAS, so ours may."""
SMALL = ("topk_row",)
"""What is timed takes a card a few microseconds, and a processor can be asked about it."""
JUDGED = (
    "matvec",
    "layer_norm",
    "gated_linear_scan",
    "cross_entropy",
    "grouped_gemm",
    "fp8_group_quant",
    "fp8_block_gemm",
    "silu_mul_fp8_quant",
    "w4a16_gemm",
)
"""Asked of the interpreter here; it takes minutes for some others."""

torch = pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="torch and triton are an extra")


def functions(path: Path) -> dict[str, list[str]]:
    """Functions of a file with the names of their arguments."""
    found = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    return {node.name: [argument.arg for argument in node.args.args] for node in found}


def test_a_suite_finds_them_all():
    assert [source.name for source in list_sources(PROOF)] == NAMES
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_the_programs_and_what_is_compiled_say_what_the_task_says(name):
    folder = PROOF / name
    assert {path.name for path in folder.iterdir() if path.is_file()} == FILES
    (task, _), contract = open_task(folder / "task.yaml"), load(folder).contract
    assert contract.target_op == task.name
    assert contract.benchmark_output.columns == ("label", *task.shapes[0].dims, "class", "Check", "Time (ms)")
    assert contract.kernel_source == contract.editable_globs == task.source == ("kernel.py",)
    assert set(contract.protected) == {"task.yaml", task.reference}
    assert (task.library, task.cache, task.convention) == (
        "reported" if name in LIBRARY else "forbidden",
        "cold",
        "out",
    )
    inputs = [tensor.name for tensor in task.inputs]
    for program in ("reference.py", "pytorch.py"):
        assert functions(folder / program)["reference"] == inputs
    kernels = functions(folder / "kernel.py")
    assert kernels["run"] == [*inputs, *(tensor.name for tensor in task.outputs)]
    compiled = tomllib.loads((folder / "isa.toml").read_text())
    assert set(compiled) == set(kernels) - {"run"}
    assert contract.profile is not None
    assert contract.profile.kernel in compiled
    assert contract.profile.command[-1] in {shape.label for shape in task.timed}


@pytest.mark.parametrize("name", NAMES)
def test_bytes_and_operations_are_what_the_contract_counts_and_arrays_fit_a_card(name):
    pytest.importorskip("torch")
    from ridgeline.sandbox.judge.device_session import array_bytes, plan_memory

    folder = PROOF / name
    (task, _), contract = open_task(folder / "task.yaml"), load(folder).contract
    for shape in task.timed:
        assert evaluate(contract.work.flops, shape.dims) == evaluate(task.flops, shape.dims) > 0
        assert (
            0
            < evaluate(contract.work.bytes, shape.dims)
            == evaluate(task.bytes, shape.dims)
            <= array_bytes(task, shape.dims)
        )
        plan = plan_memory(task, shape.dims, oracle_bytes=ORACLE_BYTES, free_bytes=CARD_BYTES)
        assert plan.total <= CARD_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_a_processor_is_asked_about_the_sizes_that_are_not_timed(name):
    task, _ = open_task(PROOF / name / "task.yaml")
    here = Options(device="cpu").fit_sizes(task)
    asked = [shape.label for shape in task.shapes if not shape.timed or name in SMALL]
    assert [shape.label for shape in here.shapes] == asked


@torch
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_hole_is_known_of_the_task(cli, name):
    """Most of what a transposed convolution with strides writes is 0 for all inputs, as it says; scales of 448 steps are small."""
    found = cli("judge", "lint", PROOF / name / "task.yaml", "--json")
    assert found.code == 0, found.out
    rules = {finding["rule"] for finding in found.json["findings"]}
    known = {
        "conv_transpose3d": {"partly-constant", "tiny-range"},
        "fp8_group_quant": {"tiny-range"},
        "silu_mul_fp8_quant": {"tiny-range"},  # by what is drawn
    }
    assert rules <= known.get(name, set())
    assert name not in ("conv_transpose3d", "fp8_group_quant") or rules, "nearly all of it is 0, or small"


@torch
@pytest.mark.slow
@pytest.mark.parametrize("name", JUDGED)
def test_the_naive_kernel_is_right_and_its_own_work(cli, name):
    judged = cli("judge", "test", PROOF / name / "task.yaml", "--json")
    assert judged.code == 0, judged.out + judged.err
    assert (judged.json["correct"]["answer"], judged.json["own_work"]["answer"]) == ("yes", "yes")
