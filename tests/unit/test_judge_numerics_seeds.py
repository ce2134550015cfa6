"""Honest orders of computing pass every mix and probe; shortcuts fail some in every seed: no verdict may flip."""

import os

import numpy as np
import pytest

from tests.operators_judge import OPERATORS, Operator, cases, matmul, row_sum

HALVES = ("bfloat16", "float16")
SEEDS = {"few": 2, "many": 20}


def check(operator: Operator, seed: int) -> None:
    caught: set[str] = set()
    for case in cases(operator, seed):
        ways = {**operator.honest, **operator.cheats}
        found = case.faults({name: operator.computed(way, case.inputs) for name, way in ways.items()})
        rejected = {name: found[name] for name in operator.honest if found[name]}
        assert not rejected, (case.name, seed)
        caught |= {name for name in operator.cheats if found[name]}
    assert set(operator.cheats) == caught, seed


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.slow
def test_honest_ways_pass_and_shortcuts_are_caught(name, dtype):
    for seed in range(SEEDS["few"]):
        check(OPERATORS[name](dtype), seed)


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("RIDGELINE_SUITE") != "all", reason="two minutes; `make adversarial` asks for it")
@pytest.mark.parametrize("dtype", ["float32", *HALVES])
@pytest.mark.parametrize("name", OPERATORS)
def test_no_verdict_flips_over_twenty_seeds(name, dtype):
    operator = OPERATORS[name](dtype)
    for seed in range(SEEDS["few"], SEEDS["many"]):
        check(operator, seed)


@pytest.mark.parametrize("precision", ["tf32", "emulated"])
def test_a_task_may_allow_less_than_float32(precision):
    for seed in range(SEEDS["few"]):
        check(matmul("float32", precision), seed)


def test_sums_of_positive_numbers_by_a_plain_loop_pass():
    operator = row_sum("float32", "positive")
    for seed in range(SEEDS["few"]):
        for case in cases(operator, seed):
            found = case.faults({name: operator.computed(way, case.inputs) for name, way in operator.honest.items()})
            assert not any(found.values()), (case.name, seed)


def pytorch(name: str, values: dict[str, np.ndarray], dtype: str) -> np.ndarray:
    """What PyTorch's own operator computes in the type itself."""
    torch = pytest.importorskip("torch")
    given = {key: torch.from_numpy(np.ascontiguousarray(one)).to(getattr(torch, dtype)) for key, one in values.items()}
    work = torch.nn.functional
    match name:
        case "matmul":
            found = given["a"] @ given["b"]
        case "row_sum":
            found = given["x"].sum(-1)
        case "full_sum":
            found = given["x"].sum()
        case "soft_max":
            found = torch.softmax(given["x"], -1)
        case "layer_norm":
            found = work.layer_norm(given["x"], given["g"].shape, given["g"], given["b"], 1e-5)
        case "attention":
            found = work.scaled_dot_product_attention(given["q"], given["k"], given["v"])
        case _:
            found = torch.addcmul(given["x"], given["x"], given["w"])
    return found.float().numpy()


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
@pytest.mark.parametrize("name", OPERATORS)
def test_what_pytorch_computes_is_right(name, dtype):
    operator = OPERATORS[name](dtype)
    for seed in range(SEEDS["few"]):
        for case in cases(operator, seed):
            values = operator.computed(lambda low: pytorch(name, low, dtype), case.inputs)
            assert case.faults({"pytorch": values}) == {"pytorch": ()}, (case.name, seed)


def test_a_rounding_of_the_inputs_is_far_from_any_honest_order():
    """The margin: what honest orders are off by, and TF32, in units of what is allowed."""
    operator = matmul("float32")
    case = next(cases(operator, 0))
    faults = case.faults({"tf32": operator.computed(operator.cheats["tf32"], case.inputs)})["tf32"]
    assert min(fault.measured / fault.allowed for fault in faults) > 5
    assert all(np.isfinite(fault.allowed) for fault in faults)
