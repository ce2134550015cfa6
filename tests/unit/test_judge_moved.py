"""Did others put the result where a kernel only moved it? What arguments held, against outputs and inputs."""

import base64
import json
from types import SimpleNamespace

import numpy as np
import pytest

from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.sandbox.judge.provenance import (
    CallFindings,
    RightOutput,
    _KnockoutFindings,
    _PythonCandidate,
    find_copied_output,
    read_launch_report,
    sample_elements,
)

RNG = np.random.default_rng(7)
X = RNG.standard_normal((64, 48))
OUT = np.tanh(X) * X.sum(axis=1, keepdims=True)
SUM = X.sum(axis=1)


def told(*arrays, ordered_only=False):
    """As a worker tells it."""
    found = []
    for array in arrays:
        flat = np.asarray(array, np.float64)
        parts = (
            [sample_elements(flat)]
            if ordered_only
            else [sample_elements(flat), sample_elements(np.sort(flat, axis=None))]
        )
        packed = np.concatenate(parts).astype(np.float32).tobytes()
        found.append(["kernel", int(flat.size), base64.b64encode(packed).decode()])
    return read_launch_report(json.dumps({"held": found}).encode())


def asked(array, *, out=OUT, dtype="float32", given=None, ordered_only=False):
    return find_copied_output(
        told(array, ordered_only=ordered_only),
        RightOutput(dtype=dtype, values=np.asarray(out, np.float64), inputs={"x": X} if given is None else given),
    )


@pytest.mark.parametrize(
    ("array", "more"),
    [
        (OUT, {}),
        (OUT.astype(np.float32), {}),
        (OUT * (1 + 1e-4 * np.cos(X)), {}),
        (OUT * 1.01, {}),
        (OUT, {"ordered_only": True}),
        (OUT.T.copy(), {}),
        (OUT[:32], {}),
        (np.pad(OUT, 3), {}),
        (SUM[:3], {"out": SUM[:3]}),
        (OUT.mean(), {"out": OUT.mean()}),
        (X.T.copy(), {"out": X.T.copy()}),
        (np.arange(90) % 7, {"out": np.arange(90) % 7, "dtype": "int32", "given": {}}),
        (OUT.astype(np.float16), {"dtype": "float16"}),
    ],
)
def test_a_result_that_a_kernel_is_given(array, more):
    assert asked(array, **more) == "kernel"


@pytest.mark.parametrize(
    ("array", "more"),
    [
        (X, {}),
        (X.T.copy(), {}),
        (np.zeros_like(OUT), {}),
        (RNG.standard_normal(OUT.shape), {}),
        (RNG.standard_normal(OUT.shape), {"out": -X}),
        (SUM, {}),
        (X, {"out": X}),
        (X, {"out": X[::-1]}),
        (X[:32], {"out": np.maximum(X, 0)}),
        (X.astype(np.float16), {"out": np.maximum(X, 0)}),
        (np.zeros(1), {"out": np.zeros(1)}),
        (np.ones(3), {"out": np.ones(3)}),
        (np.ones(90), {"out": np.ones(90)}),
        (np.arange(90), {"out": RNG.permutation(90), "dtype": "int32", "given": {}}),
        (np.full(OUT.shape, np.nan), {}),
        (OUT, {"out": np.full(OUT.shape, np.nan)}),
        (OUT, {"out": np.zeros((0, 4))}),
    ],
)
def test_what_a_kernel_may_be_given(array, more):
    assert asked(array, **more) is None


@pytest.mark.parametrize(
    "report",
    [
        b"",
        b"{",
        b"[1]",
        b'{"held": [["k", 1]]}',
        b'{"held": [["k", 4, "?"]]}',
        b'{"held": 1}',
        b'{"held":[["k",1,"AAA"]]}',
    ],
)
def test_a_report_that_is_none(report):
    assert read_launch_report(report) is None


def test_samples_of_another_length_are_none():
    packed = base64.b64encode(np.zeros(5, np.float32).tobytes()).decode()
    assert (
        read_launch_report(json.dumps({"held": [["k", 9, packed], ["k", 0, ""], ["k", 5, packed]]}).encode())
        is not None
    )
    assert len(read_launch_report(json.dumps({"held": [["k", 9, packed], ["k", 5, packed]]}).encode()) or ()) == 1


class Looks:
    """Values and process of a candidate whose kernels hold the output, as far as those looks tell."""

    def __init__(self, *ready: bool) -> None:
        self.ready, self.calls = list(ready), 0

    def draw_next(self, shape):
        return {}

    def call(self, session, shape, inputs):
        self.calls += 1
        return SimpleNamespace(outputs={})

    def report(self):
        return json.dumps({"held": []}).encode()

    def compare(self, shape, outputs, inputs, arguments):
        held = {"y": "kernel"} if self.ready.pop(0) else {}
        return CallFindings(made_by_output={"y": False}, kernels_by_output=held)


@pytest.mark.parametrize(
    ("elements", "ready", "given", "calls"),
    [
        (1, [True, False], {}, 2),
        (1, [True, True, False], {}, 3),
        (1, [True, True, True], {"y": "kernel"}, 3),
        (1, [False], {}, 1),
        (90, [True], {"y": "kernel"}, 1),
    ],
)
def test_one_number_that_an_argument_holds_may_be_so_by_chance_and_is_asked_again(elements, ready, given, calls):
    task = Task(
        name="t",
        language="triton",
        source=("kernel.py",),
        entry="run",
        inputs=(Input(name="x", shape=("n",)),),
        outputs=(Output(name="y", shape=("n",)),),
        shapes=(Shape(label="s", dims={"n": elements}),),
    )
    looks, findings = Looks(*ready), _KnockoutFindings()
    candidate = _PythonCandidate(task=task, values=looks, opened=None, slack_us=1.0)
    assert candidate._look_at_size(looks, task.shapes[0], findings) is None
    assert (findings.kernels_by_output, looks.calls) == (given, calls)
