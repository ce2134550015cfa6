"""Is the task itself sound? Looked at once, before anybody works on it: a task with a hole rewards whoever finds it."""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graph.task import DType, Input, Shape, Task
from graph.values import Value
from sandbox.judge.bounds import limit
from sandbox.judge.dtypes import from_float64, is_float, unit
from sandbox.judge.inputs import draw, extents
from sandbox.judge.numerics import compare
from sandbox.judge.references import Reference
from sandbox.judge.session import Broken, Session

Rule = Literal[
    "constant-output",
    "partly-constant",
    "tiny-range",
    "insensitive-input",
    "init-dependent",
    "unrepeatable",
    "wrong-shape",
    "not-finite",
    "narrow-oracle",
    "unknown-work",
    "broken-baseline",
    "too-short",
]
"""measurement 2.5, task lint: the filters with which METR and robust-kbench took out a sixth of KernelBench."""
Opened = Callable[[], AbstractContextManager[Session]]
"""A fresh worker with the version that the task begins with, not yet open."""
Floats = Mapping[str, NDArray[np.float64]]
DRAWS = 5
VISIBLE = 10.0
"""Values must spread by more than so many tolerances, or a constant passes as the answer."""
TINY = 0.01
CONSTANT_SHARE = 0.5
SHORT_US = 20.0
"""A call below this is mostly the cost of being called; a gain there says little of the kernel."""
CALLS = 5
INITIAL = {"ones": 1.0, "zeros": 0.0}
"""What parameters begin with in a framework."""


class Hole(Value):
    """One defect of a task. A `wrong` one lets a wrong kernel pass or refuses a right one; others weaken the judge."""

    rule: Rule
    wrong: bool
    text: str
    """One line: where, what, mend."""


def lint(task: Task, reference: Reference, *, opened: Opened | None = None) -> tuple[Hole, ...]:
    """Everything found at the smallest public size, and of the baseline at every public size where `opened` is given.

    Raises ReferenceFailed where the reference has no answer, which is worse than any hole.
    """
    looked = _Lint(task, reference, min(task.shapes, key=lambda one: _elements(task, one)))
    found = [*looked.outputs(), *looked.inputs(), *looked.reference_alone(), *_work(task)]
    if opened is not None:
        found += _baseline(task, reference, opened)
    return tuple(found)


@dataclass
class _Lint:
    task: Task
    reference: Reference
    shape: Shape

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
        self.drawn = [draw(self.task, self.shape.dims, "normal", self.rng) for _ in range(DRAWS)]
        self.answers = [self.reference.oracle(inputs) for inputs in self.drawn]
        self.tolerance = {name: self._tolerance(name) for name in self.answers[0]}

    def outputs(self) -> Iterator[Hole]:
        """Shapes, and whether a constant would do."""
        for one in self.task.outputs:
            wanted = extents(one, self.shape.dims)
            if (got := self.answers[0][one.name].shape) != wanted:
                yield Hole(
                    rule="wrong-shape",
                    wrong=True,
                    text=f"{one.name}: the reference gives {list(got)}, the task says {list(wanted)}; correct one",
                )
                continue
            values = np.stack([answer[one.name] for answer in self.answers])
            if not np.isfinite(values).all():
                yield Hole(
                    rule="not-finite",
                    wrong=False,
                    text=f"{one.name}: is not finite for ordinary inputs; restrict their `values`",
                )
                continue
            yield from self._spread(one.name, values)

    def _spread(self, name: str, values: NDArray[np.float64]) -> Iterator[Hole]:
        spread = values.std(axis=0)
        tolerance = self.tolerance[name]
        if float(np.sqrt(np.mean(spread**2))) <= VISIBLE * tolerance:
            text = f"{name}: hardly depends on the inputs (spread {float(spread.max()):.2g}); a constant would pass"
            yield Hole(rule="constant-output", wrong=True, text=text)
        elif spread.size > 1 and (share := float(np.mean(spread <= tolerance))) > CONSTANT_SHARE:
            text = f"{name}: {share:.0%} of its elements are the same for all inputs; judge the others alone"
            yield Hole(rule="partly-constant", wrong=False, text=text)
        if is_float(self._dtype(name)) and float(np.abs(values).max()) <= TINY:
            text = f"{name}: all values lie within {TINY} of zero, where absolute tolerances hide everything; scale it"
            yield Hole(rule="tiny-range", wrong=False, text=text)

    def inputs(self) -> Iterator[Hole]:
        """Each input changed alone must change something; a parameter must not be replaceable by where it began."""
        base = self.drawn[0]
        for one in self.task.inputs:
            other = draw(self.task, self.shape.dims, "normal", self.rng)[one.name]
            if not self._moves({**base, one.name: other}):
                text = f"{one.name}: another one gives the same result; remove it, or mend the reference"
                yield Hole(rule="insensitive-input", wrong=True, text=text)
            elif one.constness == "const" and is_float(one.dtype):
                yield from self._initial(one)

    def _initial(self, one: Input) -> Iterator[Hole]:
        base = self.drawn[0]
        for word, value in INITIAL.items():
            begun = from_float64(np.full(base[one.name].shape, value), one.dtype)
            if not self._moves({**base, one.name: begun}):
                text = f"{one.name}: {word} in its place give the same result; a kernel that leaves it out would pass"
                yield Hole(rule="init-dependent", wrong=True, text=text)

    def reference_alone(self) -> Iterator[Hole]:
        """Whether it answers twice alike, in a new process too, and in float64."""
        again = self.reference.oracle(self.drawn[0])
        self.reference.close()
        anew = self.reference.oracle(self.drawn[0])
        if self._differs(again, self.answers[0]) or self._differs(anew, self.answers[0]):
            yield Hole(
                rule="unrepeatable",
                wrong=True,
                text="the reference: other results for the same inputs; take chance out",
            )
        for note in self.reference.notes:
            text = f"the reference: {note}, so the oracle is not exact; define oracle() in float64 beside it"
            yield Hole(rule="narrow-oracle", wrong=False, text=text)

    def _moves(self, inputs: Mapping[str, NDArray[np.generic]]) -> bool:
        return self._differs(self.reference.oracle(inputs), self.answers[0])

    def _differs(self, left: Floats, right: Floats) -> bool:
        return any(self._differ(left[name], right[name], self.tolerance[name]) for name in right)

    def _differ(self, left: NDArray[np.float64], right: NDArray[np.float64], tolerance: float) -> bool:
        if left.shape != right.shape:
            return True
        both = np.isfinite(left) & np.isfinite(right)
        if bool((np.isfinite(left) != np.isfinite(right)).any()):
            return True
        return bool((np.abs(left - right)[both] > tolerance).any())

    def _tolerance(self, name: str) -> float:
        """What the judge forgives, absolute: for whole numbers nothing."""
        dtype = self._dtype(name)
        values = self.answers[0][name]
        finite = values[np.isfinite(values)]
        if not is_float(dtype) or finite.size == 0:
            return 0.0
        return float(limit(dtype, self.task.precision).peak * unit(dtype) * np.sqrt(np.mean(finite**2)))

    def _dtype(self, name: str) -> DType:
        return next(one.dtype for one in (*self.task.inputs, *self.task.outputs) if one.name == name)


def _work(task: Task) -> Iterator[Hole]:
    for field, weak in (("bytes", "a result faster than memory allows"), ("flops", "the distance to the roofline")):
        if getattr(task, field) is None:
            text = f"{field}: missing, so {weak} is not seen; give a formula over the dimensions"
            yield Hole(rule="unknown-work", wrong=False, text=text)


def _baseline(task: Task, reference: Reference, opened: Opened) -> Iterator[Hole]:
    """The version that the task begins with: right at every public size, and long enough to be timed."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
    with opened() as session:
        broken = session.open()
        for shape in () if broken else task.shapes:
            inputs = draw(task, shape.dims, "normal", rng)
            done = session.call(shape.dims, inputs)
            if isinstance(done, Broken):
                broken = done
                break
            oracle, trusted = reference.oracle(inputs), reference.trusted(inputs)
            for one in task.outputs:
                faults = compare(
                    done.outputs[one.name],
                    oracle[one.name],
                    trusted[one.name],
                    dtype=one.dtype,
                    precision=task.precision,
                    output=one.name,
                )
                if faults:
                    text = f"{shape.label}: the first version is wrong: {one.name}: {faults[0].detail}; mend it first"
                    yield Hole(rule="broken-baseline", wrong=True, text=text)
            if shape.timed and (hole := _short(session, shape, inputs)):
                yield hole
    if broken:
        text = f"the first version does not work: {broken.reason}: {broken.detail}; mend it first"
        yield Hole(rule="broken-baseline", wrong=True, text=text)


def _short(session: Session, shape: Shape, inputs: Mapping[str, NDArray[np.generic]]) -> Hole | None:
    """A few calls, less an empty one; the machine may be busy, so the shortest counts."""
    times = []
    for _ in range(CALLS):
        done = session.call(shape.dims, inputs)
        if isinstance(done, Broken):
            return None
        times.append(done.wall_us)
    taken = min(times) - statistics.median(session.ping() for _ in range(CALLS))
    if taken >= SHORT_US:
        return None
    text = f"{shape.label}: a call takes {max(taken, 0):.0f} us, mostly the cost of being called; time a larger size"
    return Hole(rule="too-short", wrong=False, text=text)


def _elements(task: Task, shape: Shape) -> int:
    return sum(int(np.prod(extents(one, shape.dims))) for one in (*task.inputs, *task.outputs))
