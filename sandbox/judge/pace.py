"""The calls of a run that asks whose work it is, and whether a candidate works less where nobody looks."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Shape, Task, Tensor
from ridgeline.sandbox.judge.inputs import draw, extents
from ridgeline.sandbox.judge.session import Broken, Session

CALL_S = 120.0
REPEATS = 3
REPEAT_S = 3.0
"""A size is called again, up to so often, while its calls took less: first calls compile, and start the profiler."""
SLOWER = 10.0
SLACK_US = {"cpu": 10_000.0, "cuda": 50_000.0}
"""A traced call may take so many times what a plain one takes, and so much more: noting operators takes some ms."""


@dataclass
class Calls:
    """Of a run: the shortest call of each size in us, and the elements that all calls had."""

    least_us: dict[str, float] = field(default_factory=dict)
    elements: int = 0
    outputs: int = 0
    """Of the elements, those of results."""

    def add(self, task: Task, shape: Shape, wall_us: float) -> None:
        """One call more."""
        self.least_us[shape.label] = min(wall_us, self.least_us.get(shape.label, wall_us))
        self.elements += elements(shape, (*task.inputs, *task.outputs))
        self.outputs += elements(shape, results(task))


def called(session: Session, task: Task, shapes: Sequence[Shape]) -> Calls | str:
    """Call an open session at every size. Why that did not go, in words, where it did not."""
    calls = Calls()
    for shape in shapes:
        began, repeats = time.monotonic(), 0
        consts: dict[str, NDArray[np.generic]] = {}
        while not repeats or (repeats < REPEATS and time.monotonic() - began < REPEAT_S):
            inputs = {**draw(task, shape.dims, "normal", rng()), **consts}
            consts = {one.name: inputs[one.name] for one in task.inputs if one.constness == "const"}
            done = session.call(shape.dims, inputs, timeout_s=CALL_S)
            if isinstance(done, Broken):
                return f"{shape.label}: {done.reason}: {done.detail}"
            repeats += 1
            calls.add(task, shape, done.wall_us)
    return calls


def slower(traced: Calls, plain: Calls, *, slack_us: float) -> str | None:
    """The size at which a traced call takes far longer than a plain one, with both times; None where there is none.

    A candidate that is honest only while it is looked at works less where it is not. Noting costs about the same
    anywhere, so a short call may take `slack_us` longer.
    """
    for label, least_us in plain.least_us.items():
        if traced.least_us[label] > SLOWER * least_us + slack_us:
            return f"{label}: {traced.least_us[label]:.0f} us, else {least_us:.0f} us"
    return None


def results(task: Task) -> tuple[Tensor, ...]:
    """What a call leaves: outputs, and inputs that it may write."""
    return (*task.outputs, *(one for one in task.inputs if one.constness == "mutated"))


def elements(shape: Shape, arrays: Sequence[Tensor]) -> int:
    """Of all these arrays at that size."""
    return sum(int(np.prod(extents(one, shape.dims))) for one in arrays)


def rng() -> np.random.Generator:
    """Secret: seeded by the system."""
    return np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
