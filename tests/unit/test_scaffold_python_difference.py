"""What the harness of a Python function says of a wrong call: array, index, got, expected, how many of how many, and why."""

import importlib.util
import math
import sys
from pathlib import Path

import pytest

import ridgeline.agent.scaffold as scaffold

FILE = Path(scaffold.__file__).parent / "harness" / "harness.py"


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    spec = importlib.util.spec_from_file_location("harness_of_init", FILE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "harness_of_init", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("mine", "right", "said"),
    [
        ((4,), (5,), " array=result got=4 expected=5 differ=1/1: differs from the original"),
        (([1, 2, 3, 9], 1), ([1, 7, 3, 8], 1), " array=result index=1 got=2 expected=7 differ=2/4: differs from the original"),
        (([1, 2],), ([1, 2, 3],), " array=result index=2 got=nothing expected=3 differ=1/3: fewer than the original gives"),
        (([1, 2],), ([1],), " array=result index=1 got=2 expected=nothing differ=1/2: more than the original gives"),
        ((0, [[1.0, 2.0], [3.0, 4.0]]), (0, [[1.0, 2.0], [3.0, 5.0]]),
         " array=x index=1,1 got=4.0 expected=5.0 differ=1/4: a number is further from the original's than the tolerance"),
        ((math.inf,), (1.0,),
         " array=result got=inf expected=1.0 differ=1/1: a number is further from the original's than the tolerance"),
        (({"a": 1, "b": 2},), ({"a": 1, "b": 3},), " array=result index='b' got=2 expected=3 differ=1/2: differs from the original"),
        (({"a": 1},), ({"c": 1},), " array=result got=['a'] expected=['c'] differ=1/1: has other keys"),
        (("ab\ncd",), ("ab\nce",), " array=result index=4 got='d' expected='e' differ=1/5: differs from the original"),
        ((b"AB",), (b"Ab",), " array=result index=1 got=66 expected=98 differ=1/2: differs from the original"),
        (("5",), (5,), " array=result got='5' expected=5 differ=1/1: is of type str, the original's is int"),
        ((1, 2, 3, 5), (1, 2, 3, 4), " array=argument2 got=5 expected=4 differ=1/1: differs from the original"),
        (([1.0, math.nan],), ([1.0 + 1e-12, math.nan],), ""),
    ],
)  # fmt: skip
def test_a_wrong_call_is_told_with_its_place_and_both_values(harness, mine, right, said):
    assert harness.describe_difference(mine, right, ("x", "y"), 1e-9) == said


def test_what_only_one_version_raises_is_told_by_its_name(harness):
    def refuse(values):
        raise KeyError("a")

    mine, right = (harness.run(function, ([1, 2],)) for function in (refuse, len))
    said = " array=result got=raises KeyError expected=2 differ=1/1: only one of them raises, or another error"
    assert harness.describe_difference(mine, right, ("values",), 0.0) == said
    assert harness.describe_difference(mine, mine, ("values",), 0.0) == ""


def test_an_element_of_a_numpy_array_is_told_in_the_arrays_shape(harness):
    np = pytest.importorskip("numpy")
    right = np.arange(12.0).reshape(3, 4)
    wrong = right.copy()
    wrong[1, 2] = wrong[2, 3] = -1
    said = " array=result index=1,2 got=-1.0 expected=6.0 differ=2/12: a number is further from the original's than the tolerance"
    assert harness.describe_difference((wrong,), (right,), (), 1e-9) == said
    whole = harness.describe_difference((wrong.astype(int),), (right.astype(int),), (), 1e-9)
    assert whole == " array=result index=1,2 got=-1 expected=6 differ=2/12: differs from the original"
    turned = harness.describe_difference((right.T,), (right,), (), 1e-9)
    assert turned == " array=result got=float64[4, 3] expected=float64[3, 4] differ=12/12: has another type or shape"
