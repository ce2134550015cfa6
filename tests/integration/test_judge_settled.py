"""Inputs that a reference has no numbers for are drawn again, gentler; those it defines stay as they are."""

from dataclasses import replace

import numpy as np
import pytest

from ridgeline.graph.task import Input
from ridgeline.sandbox.judge.correctness import CallJudge, Truth, draw_mixes_with_truth, draw_with_truth, truth_of
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.references import Reference, ReferenceFailed
from ridgeline.sandbox.judge.session import SealedCall
from tests.operators_judge import make_task

DIMS = {"m": 16, "n": 64}
MASK = Input(name="k", shape=("m", "n"), dtype="uint8", values="mask")
SOFTMAX = """
import numpy as np
def reference(x, k):
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=-1, keepdims=True)) * k
        return e / ({divisor})
"""
SUM = "e.sum(axis=-1, keepdims=True)"


def bench_of(folder, text: str, *, dtype="float32", mask=False):
    (folder / "reference.py").write_text(text)
    task = make_task([("x", ("m", "n"), dtype, "normal")], [("y", ("m", "n"), dtype)], DIMS)
    task = task.model_copy(update={"reference": "reference.py", "inputs": (*task.inputs, *((MASK,) if mask else ()))})
    return CallJudge(task=task, reference=Reference(task, folder), options=Options(), rng=np.random.default_rng(2))


def asked(bench: CallJudge, mix: str) -> Truth:
    with bench.reference:
        return draw_with_truth(bench, DIMS, mix, keep_constants=dict)


@pytest.mark.parametrize(
    ("divisor", "mix", "empty"),
    [
        (SUM, "shift", False),
        (SUM, "tail", False),
        (f"np.maximum({SUM}, 1e-30)", "shift", True),
        (f"np.where(e > 0, {SUM}, 0 * e)", "shift", True),  # ordinary values have no numbers either
    ],
)
def test_a_row_of_a_mask_is_empty_where_the_reference_says_what_that_means(tmp_path, divisor, mix, empty):
    truth = asked(bench_of(tmp_path, SOFTMAX.format(divisor=divisor), mask=True), mix)
    assert bool((truth.inputs["k"].sum(axis=1) == 0).any()) == empty


@pytest.mark.parametrize(
    ("formula", "dtype", "least", "most"),
    [
        ("x", "float32", 2**16, 2**26),
        ("x**3", "float32", 2**16, 2**26),
        ("x**5", "float32", 2**8, 2**22),
        ("np.exp(np.abs(x))", "float32", 4, 78),
        ("x * x", "float16", 16, 2**7),
        ("np.exp(np.exp(np.abs(x)))", "float32", 2, 6),
    ],
)
def test_outliers_are_as_large_as_results_allow(tmp_path, formula, dtype, least, most):
    bench = bench_of(tmp_path, f"import numpy as np\ndef reference(x):\n    return {formula}\n", dtype=dtype)
    found = np.abs(asked(bench, "spike").inputs["x"].astype(np.float64)).max()
    assert least <= found <= most


def test_what_the_reference_refuses_is_not_asked_of_anybody(tmp_path):
    text = "def reference(x, k):\n    assert k.any(axis=1).all()\n    return x * k\n"
    assert asked(bench_of(tmp_path, text, mask=True), "shift").inputs["k"].any(axis=1).all()
    with pytest.raises(ReferenceFailed):
        asked(bench_of(tmp_path, "def reference(x, k):\n    assert False\n", mask=True), "shift")


def test_a_row_with_an_outlier_is_judged_by_its_largest_number(tmp_path):
    bench = bench_of(tmp_path, "def reference(x):\n    return x\n")
    x = np.random.default_rng(0).standard_normal(tuple(DIMS.values())).astype(np.float32)
    x[3, 5] = 2.0**20
    right = x.astype(np.float64)
    truth = Truth(inputs={"x": x}, oracle={"y": right}, trusted={"y": right})
    for place, error, passes in (((3, 9), 1.0, True), ((3, 9), 100.0, False), ((4, 9), 0.01, False)):
        y = x.copy()
        y[place] += error
        sealed = SealedCall(outputs={"y": y}, wall_us=1.0, inputs_changed=(), guards_broken=(), late=None)
        with bench.reference:
            assert (bench.wrong(sealed, replace(truth, lone=True)) == ()) == passes
            assert bench.wrong(sealed, truth) != ()


TWO = """
import numpy as np
def reference(x):
    with np.errstate(all="ignore"):
        return x - np.rint(x), x**6
"""


def bench_of_two(folder) -> CallJudge:
    """Of an output that takes any number, and one that overflows."""
    bench = bench_of(folder, TWO)
    outputs = make_task([("x", ("m", "n"), "float32")], [(name, ("m", "n"), "float32") for name in "yz"], DIMS).outputs
    task = bench.task.model_copy(update={"outputs": outputs})
    return replace(bench, task=task, reference=Reference(task, folder))


def test_an_output_that_overflows_keeps_outliers_from_others_every_other_time(tmp_path):
    bench = bench_of_two(tmp_path)
    for _ in range(3):
        turns = sorted((asked(bench, "spike") for _ in range(2)), key=lambda one: one.judged is None)
        assert [one.judged for one in turns] == [frozenset({"y"}), None]
        assert [one.lone for one in turns] == [True, True]
        far, near = (float(np.abs(one.inputs["x"]).max()) for one in turns)
        assert near < 2**19 < far
    assert asked(bench, "normal").judged is None


@pytest.mark.parametrize(("name", "right"), [("y", False), ("z", True)])
def test_only_what_is_judged_is_held_against_anybody(tmp_path, name, right):
    bench = bench_of_two(tmp_path)
    truth = next(one for one in (asked(bench, "spike") for _ in range(2)) if one.judged is not None)
    with np.errstate(over="ignore"):
        outputs = {one: values.astype(np.float32) for one, values in truth.oracle.items()}
    outputs[name][3, 4] += 7
    outputs[name][3, 5] = np.nan
    sealed = SealedCall(outputs=outputs, wall_us=1.0, inputs_changed=(), guards_broken=(), late=None)
    with bench.reference:
        assert (bench.wrong(sealed, truth) == ()) is right
        assert bench.wrong(replace(sealed, guards_broken=(name,)), truth) != ()
        assert bench.wrong(sealed, replace(truth, judged=None)) != ()


KEPT = "import numpy as np\ndef reference(x):\n    return np.where(x > x.mean(axis=-1, keepdims=True), x, 0 * x)\n"


@pytest.mark.parametrize(("place", "right"), [((5, 9), True), ((6, 10), False)])
def test_what_a_rounding_decides_may_be_on_either_side(tmp_path, place, right):
    bench = bench_of(tmp_path, KEPT)
    x = np.random.default_rng(4).standard_normal(tuple(DIMS.values())).astype(np.float32)
    x[6, 10] = 0.5
    x[5, 9] = np.delete(x[5].astype(np.float64), 9).mean()
    with bench.reference:
        truth = truth_of(bench.reference, {"x": x})
        y = truth.oracle["y"].astype(np.float32)
        y[place] = 0 if y[place] else x[place]
        sealed = SealedCall(outputs={"y": y}, wall_us=1.0, inputs_changed=(), guards_broken=(), late=None)
        assert (bench.wrong(sealed, truth) == ()) is right


@pytest.mark.parametrize(("formula", "questions"), [("x", [4]), ("np.exp(np.abs(x))", [4, 1])])
def test_several_mixes_are_settled_with_one_question_unless_one_needs_gentler_values(
    tmp_path, monkeypatch, formula, questions
):
    bench = bench_of(tmp_path, f"import numpy as np\ndef reference(x):\n    return {formula}\n")
    asked_about, both = [], bench.reference.both
    monkeypatch.setattr(bench.reference, "both", lambda many: asked_about.append(len(many)) or both(many))
    mixes = ("long_tail", "spike", "cancel", "tail")
    with bench.reference:
        found = draw_mixes_with_truth(bench, DIMS, mixes, keep_constants=dict)
        again = [bench.reference.oracle(truth.inputs)["y"] for truth in found]
    assert asked_about[: len(questions)] == questions
    assert (len(asked_about) == 1) == (formula == "x")
    assert [truth.lone for truth in found] == [False, True, False, False]
    assert all(np.isfinite(truth.trusted["y"]).all() for truth in found)
    assert all(np.array_equal(truth.oracle["y"], right) for truth, right in zip(found, again, strict=True))


def test_a_mix_without_an_answer_keeps_none_from_the_others(tmp_path):
    text = """
import numpy as np
def reference(x):
    if np.abs(x).max() > 1000:
        raise ValueError("too large")
    return x
"""
    bench = bench_of(tmp_path, text)
    with bench.reference:
        found = draw_mixes_with_truth(bench, DIMS, ("offset", "spike"), keep_constants=dict)
    assert found[0].inputs["x"].mean() > 90
    assert 16 < np.abs(found[1].inputs["x"]).max() <= 1000
