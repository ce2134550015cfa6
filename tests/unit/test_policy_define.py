"""DEFINE_TARGET: what an instruction, a contract and overrides add up to, and what is asked instead of guessed."""

import pytest
from pydantic import ValidationError

from ridgeline.graph.rules.define import Questions, resolve_target, state_precision
from ridgeline.graph.target import Target
from tests.builders import make_contract, make_machine

MI300X = make_machine(kind="amd", name="AMD Instinct MI300X", arch="gfx942")
H100 = make_machine(kind="nvidia", name="NVIDIA H100", arch="sm_90")
GEMM = {"target_op": "gemm_fp8_blockwise", "target_backend": "TRITON", "target_gpu": None}


def define(contract=None, *, instruction="", machine=None, overrides=None, **fields):
    return resolve_target(
        contract or make_contract(),
        instruction=instruction,
        created=fields.pop("created", "2026-04-12 09:30"),
        contract_path="ridgeline.yaml",
        machine=machine or make_machine(),
        overrides=overrides or {},
        **fields,
    )


def target(*args, **fields) -> Target:
    found = define(*args, **fields)
    assert isinstance(found, Target), found
    return found


def asked(*args, **fields) -> dict[str, str]:
    found = define(*args, **fields)
    assert isinstance(found, Questions), found
    return {question.field: question.message for question in found.questions}


@pytest.mark.feature("F001", "F008")
@pytest.mark.parametrize(
    "text",
    [
        "optimize blockwise FP8 GEMM Triton on MI300X",
        "optimise blockwise FP8 GEMM Triton, MI300X",
        "make the Triton gemm (fp8, blockwise) faster on mi300x",
    ],
)
@pytest.mark.parametrize("own", ["gemm_fp8_blockwise", "gemm_fp8", "gemm"])
def test_one_line_fills_the_target(text, own):
    found = target(make_contract(**{**GEMM, "target_op": own}), instruction=text, machine=MI300X)
    assert found.target_op == "gemm_fp8_blockwise"
    assert (found.target_backend, found.target_lang) == ("TRITON", "TRITON")
    assert (found.target_gpu, found.platform) == ("gfx942", "MI300X")
    assert found.dtype == "fp8"
    assert found.performance_target is None
    assert found.campaign == "gemm_fp8_blockwise_triton_gfx942_20260412"
    assert found.git_branch == "optimize/gemm_fp8_blockwise_triton_gfx942_20260412"
    assert found.created == "2026-04-12 09:30"
    assert found.instruction == text


def test_a_contract_alone_is_enough():
    found = target(make_contract(target_gpu=None, dtype="bf16", target_shapes=("a", "b"), max_iterations=7))
    assert (found.target_op, found.target_gpu, found.platform) == ("matmul_fp32", "x86_64", "Test CPU")
    assert (found.dtype, found.target_shapes, found.max_iterations) == ("bf16", ("a", "b"), 7)
    assert (found.primary_metric, found.execution_mode, found.git_commit) == ("GFLOPS", "repo", True)


@pytest.mark.feature("F001", "F071")
@pytest.mark.parametrize(
    ("fields", "instruction", "overrides", "dtype"),
    [
        ({"target_op": "gemm"}, "optimize blockwise FP8 GEMM", {}, "fp8"),
        ({"target_op": "gemm_bf16"}, "", {}, "bf16"),
        ({"target_op": "gemm"}, "gemm, fp8 in and bf16 out", {}, "fp32"),
        ({"target_op": "gemm", "dtype": "bf16"}, "", {}, "bf16"),
        ({"target_op": "gemm", "dtype": "bf16"}, "FP8 GEMM", {"dtype": "int8"}, "int8"),
    ],
)
def test_the_precision_that_ceilings_rest_on_is_the_targets(fields, instruction, overrides, dtype):
    stated = state_precision(make_contract(**fields), instruction=instruction, overrides=overrides)
    assert stated.dtype == dtype
    assert target(stated, instruction=instruction, overrides=overrides).dtype == dtype


def test_an_instruction_against_the_contracts_precision_is_asked_about():
    question = asked(make_contract(target_op="gemm", dtype="bf16"), instruction="make the FP8 gemm faster")
    assert question == {"dtype": "the instruction says fp8, the contract says bf16; correct one of them"}


@pytest.mark.feature("F002")
@pytest.mark.parametrize(
    ("backend", "language"),
    [
        ("TRITON", "TRITON"),
        ("CK", "HIP"),
        ("HIPBLASLT", "HIP"),
        ("TURBO", "HIP"),
        ("HIP", "HIP"),
        ("FLYDSL", "FLYDSL"),
    ],
)
def test_backend_decides_the_language(backend, language):
    found = target(make_contract(target_backend=backend, target_gpu="MI300X"), machine=MI300X)
    assert (found.target_backend, found.target_lang) == (backend, language)
    assert f"_{backend.lower()}_" in found.campaign


@pytest.mark.parametrize("backend", ["CUDA", "CUTEDSL"])
def test_nvidia_backends(backend):
    assert target(make_contract(target_backend=backend, target_gpu="H100"), machine=H100).target_lang == backend


@pytest.mark.feature("F003", "F067")
@pytest.mark.parametrize(
    ("contract", "instruction", "machine", "words"),
    [
        ({**GEMM, "target_gpu": "MI999X"}, "", MI300X, "MI999X is unknown"),
        (GEMM, "on MI999X", MI300X, "MI999X is unknown"),
        (GEMM, "on gfx1201", MI300X, "gfx1201 is unknown"),
        (GEMM, "", MI300X, "is missing"),
        (GEMM, "on MI300X or MI355X", MI300X, "one target"),
        (GEMM, "on MI355X", MI300X, "gfx950"),
        ({**GEMM, "target_gpu": "cpu"}, "", MI300X, "this machine is AMD Instinct MI300X"),
        ({**GEMM, "target_gpu": "MI300X", "target_backend": "CUDA"}, "", MI300X, "CUDA does not run on"),
        ({"target_gpu": "MI300X"}, "", MI300X, "C does not run on"),
    ],
)
def test_a_device_is_asked_for_never_guessed(contract, instruction, machine, words):
    questions = asked(make_contract(**contract), instruction=instruction, machine=machine)
    assert list(questions) == ["target_gpu"]
    assert words in questions["target_gpu"]


def test_two_names_of_one_architecture_do_not_conflict():
    found = target(make_contract(**GEMM), instruction="MI300X (gfx942)", machine=MI300X)
    assert (found.target_gpu, found.platform) == ("gfx942", "MI300X")


@pytest.mark.parametrize(
    ("contract", "instruction", "field"),
    [
        ({}, "optimize the Triton matmul", "target_backend"),
        ({}, "optimize softmax", "target_op"),
        ({}, "optimize the bf16 matmul", "target_op"),
        ({}, "fuse softmax into rope", "target_op"),
    ],
)
def test_contradictions_are_questions(contract, instruction, field):
    assert field in asked(make_contract(**contract), instruction=instruction)


@pytest.mark.parametrize(
    ("own", "instruction", "op"),
    [
        ("matmul_f32", "speed up the fp32 matmul", "matmul_f32"),
        ("matmul_f32", "speed up the matrix multiplication", "matmul_f32"),
        ("gemm_fp8_blockwise", "faster gemm", "gemm_fp8_blockwise"),
        ("my_kernel", "make this gemm faster", "my_kernel"),
        ("gemm", "fp8 gemm", "gemm_fp8"),
        ("gemm", "gemm before the softmax", "gemm"),
        ("gemm_bf16", "rowwise gemm", "gemm_bf16"),
        ("softmax_f32", "reduce the runtime, double the speed", "softmax_f32"),
        ("gemm_fp8", "gemm, bf16 in, fp8 out", "gemm_fp8"),
        ("gemm", "gemm, bf16 in, fp8 out", "gemm"),
    ],
)
def test_the_contract_names_the_operator_unless_the_instruction_says_more(own, instruction, op):
    assert target(make_contract(target_op=own), instruction=instruction).target_op == op


def test_naming_a_second_backend_for_comparison_is_no_contradiction():
    text = "tune the Triton kernel, beat hipBLASLt, on MI300X"
    assert target(make_contract(**GEMM), instruction=text, machine=MI300X).target_backend == "TRITON"


@pytest.mark.feature("F004")
@pytest.mark.parametrize(
    ("rounds", "valid"), [(1, True), (119, True), (None, True), (120, False), (0, False), (-1, False)]
)
def test_max_iterations(rounds, valid):
    if valid:
        assert make_contract(max_iterations=rounds).max_iterations == rounds
    else:
        with pytest.raises(ValidationError, match="give 1 to 119"):
            make_contract(max_iterations=rounds)
    if valid:
        assert target(overrides={"max_iterations": str(rounds)}).max_iterations == rounds
    else:
        assert "1 to 119" in asked(overrides={"max_iterations": str(rounds)})["max_iterations"]


@pytest.mark.feature("F004")
@pytest.mark.parametrize(
    ("text", "rounds"),
    [("at most 12 rounds", 12), ("max 119 iterations", 119), ("max_iterations=3", 3), ("tile by 32 rounds", 9)],
)
def test_rounds_from_an_instruction(text, rounds):
    assert target(make_contract(max_iterations=9), instruction=text).max_iterations == rounds


def test_too_many_rounds_in_an_instruction():
    assert asked(instruction="max 120 iterations") == {"max_iterations": "is 120; give 1 to 119, or null for no limit"}
    assert target(overrides={"max_iterations": "null"}, instruction="max 120 iterations").max_iterations is None
    assert "max_iterations" in asked(overrides={"max_iterations": "many"})


@pytest.mark.feature("F007")
@pytest.mark.parametrize(
    ("chosen", "prefix", "branch"),
    [
        ("auto", "optimize", "optimize/matmul_fp32_c_x86_64_20260412"),
        ("auto", "kernel-opt", "kernel-opt/matmul_fp32_c_x86_64_20260412"),
        ("none", "optimize", "none"),
        ("topic/fast", "optimize", "topic/fast"),
    ],
)
def test_branch(chosen, prefix, branch):
    assert target(make_contract(git_branch=chosen), branch_prefix=prefix).git_branch == branch
    assert target(overrides={"git_branch": chosen}, branch_prefix=prefix).git_branch == branch


@pytest.mark.feature("F007")
@pytest.mark.parametrize("name", ["", "-x", "a..b", "a b", "a~1", "a/", "a.lock", "x@{1}", "a//b", "a."])
def test_names_that_git_would_refuse(name):
    assert "git_branch" in asked(overrides={"git_branch": name})


@pytest.mark.parametrize(
    ("text", "commits"), [("", True), ("do not commit", False), ("without git commits", False), ("commit often", True)]
)
def test_commit(text, commits):
    assert target(instruction=text).git_commit is commits


@pytest.mark.parametrize(
    ("scoring", "columns", "metric"),
    [
        ({"primary_metric": ["A", "B"]}, ("label", "Check", "A", "B"), "A, B"),
        (
            {"primary_metric": "F TFLOPS", "forward": "F TFLOPS", "backward": "B TFLOPS"},
            ("label", "Check", "F TFLOPS", "B TFLOPS"),
            "Combined Step TFLOPS",
        ),
        (
            {"primary_metric": "Step", "forward": "F", "backward": "B"},
            ("label", "Check", "F", "B"),
            "Step",
        ),
        (
            {"primary_metric": ["F", "B"], "forward": "F", "backward": "B"},
            ("label", "Check", "F", "B"),
            "Combined Step",
        ),
    ],
)
def test_primary_metric(scoring, columns, metric):
    assert target(make_contract(scoring=scoring, benchmark_output={"columns": columns})).primary_metric == metric


def test_overrides_win():
    found = target(
        make_contract(performance_target=">5 GFLOPS"),
        instruction="softmax on H100",
        overrides={
            "target_op": "softmax_bf16",
            "target_backend": "TRITON",
            "target_gpu": "cpu",
            "dtype": "bf16",
            "target_shapes": "small, large",
            "performance_target": "none",
            "execution_mode": "workspace",
            "git_commit": "false",
            "campaign": "night-1",
        },
    )
    assert (found.target_op, found.target_backend, found.target_gpu) == ("softmax_bf16", "TRITON", "x86_64")
    assert (found.dtype, found.target_shapes, found.performance_target) == ("bf16", ("small", "large"), None)
    assert (found.execution_mode, found.git_commit, found.campaign) == ("workspace", False, "night-1")
    assert found.git_branch == "optimize/night-1"
    assert target(make_contract(target_shapes=("a",)), overrides={"target_shapes": "all"}).target_shapes == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target_op", "Bad Name"),
        ("target_backend", "METAL"),
        ("target_gpu", "MI999X"),
        ("dtype", "fp7"),
        ("target_shapes", " , "),
        ("performance_target", "fast"),
        ("execution_mode", "both"),
        ("git_commit", "maybe"),
        ("campaign", "../up"),
        ("primary_metric", "GFLOPS"),
    ],
)
def test_bad_overrides_are_questions(field, value):
    assert field in asked(overrides={field: value})


def test_all_questions_come_at_once():
    found = asked(
        make_contract(**GEMM, performance_target="soon"), instruction="C kernel, softmax, on MI999X", machine=MI300X
    )
    assert set(found) == {"target_op", "target_backend", "target_gpu", "performance_target"}


def test_goal_of_the_instruction_goes_before_the_contracts():
    found = target(make_contract(performance_target=">5 GFLOPS"), instruction="reach at least 60% of peak, or more")
    assert found.performance_target is not None
    assert (found.performance_target.metric, found.performance_target.value) == ("efficiency", 60.0)


def test_iso_time_is_cut_to_the_minute():
    found = target(created="2026-04-12T09:30:59+00:00")
    assert (found.created, found.campaign[-8:]) == ("2026-04-12 09:30", "20260412")
