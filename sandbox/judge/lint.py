"""Is the task itself sound? Looked at once, before anybody works on it: a task with a hole rewards whoever finds it."""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Input, Shape, Task, Tensor
from ridgeline.sandbox.judge.bounds import limit
from ridgeline.sandbox.judge.calls import Bench, truth_of
from ridgeline.sandbox.judge.dtypes import from_float64, is_float, to_float64, unit
from ridgeline.sandbox.judge.far_oracle import far_oracle
from ridgeline.sandbox.judge.gate import Consts
from ridgeline.sandbox.judge.holes import Hole as Hole
from ridgeline.sandbox.judge.holes import stopping
from ridgeline.sandbox.judge.inputs import draw, extents, near_pair
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.references import Reference, ReferenceFailed
from ridgeline.sandbox.judge.session import Broken, Session
from ridgeline.sandbox.judge.unsettled import TIES, arbitrary, has_whole, jumping, no_answers, rounding, ties

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
OTHERS = 4
"""Values of an input of which one must change something."""
LARGE = 1 << 18
"""Elements of a call from which on it is not asked about again and again."""
INITIAL = {"ones": 1.0, "zeros": 0.0}
"""What parameters begin with in a framework."""


def lint(task: Task, reference: Reference, *, opened: Opened | None = None) -> tuple[Hole, ...]:
    """Everything found at the smallest public size, and of the baseline at every public size where `opened` is given.

    Raises ReferenceFailed where the reference has no answer, which is worse than any hole.
    """
    smallest = min(task.shapes, key=lambda one: _elements(task, one))
    telling = max((one for one in task.shapes if _elements(task, one) < LARGE), key=_size(task), default=smallest)
    looked = _Lint(task, reference, smallest)
    found = [*looked.outputs(), *looked.inputs(), *looked.reference_alone(), *looked.far()]
    found += no_answers(task, reference, smallest, elements=_elements(task, smallest))
    found += [*ties(task, reference, telling), *rounding(task, reference, telling)]
    found += [*jumping(task, reference, telling), *_work(task)]
    if opened is not None:
        found += _baseline(task, reference, opened)
    return tuple(dict.fromkeys(found))


def known_holes(task: Task, reference: Reference) -> tuple[Hole, ...]:
    """What makes every verdict on a candidate of this task worth nothing: for a look before each judgement.

    Asks the reference alone, some ten times at the smallest public size and up to seven times for each input. Raises
    ReferenceFailed where it has no answer.
    """
    looked = _Lint(task, reference, min(task.shapes, key=lambda one: _elements(task, one)))
    return stopping(task, (*looked.outputs(), *looked.inputs(), *looked.far()))


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
        for one in _judged(self.task):
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
        if is_float(self.task.dtype_of(name)) and float(np.abs(values).max()) <= TINY:
            text = f"{name}: all values lie within {TINY} of zero, where absolute tolerances hide everything; scale it"
            yield Hole(rule="tiny-range", wrong=False, text=text)

    def inputs(self) -> Iterator[Hole]:
        """Each input changed alone must change something; a parameter must not be replaceable by where it began."""
        base = self.drawn[0]
        for one in self.task.inputs:
            if not any(self._moves({**base, one.name: other}) for other in self._others(one)):
                text = f"{one.name}: another one gives the same result; remove it, or mend the reference"
                yield Hole(rule="insensitive-input", wrong=True, text=text, about=one.name)
            elif one.constness == "const" and is_float(one.dtype):
                yield from self._initial(one)

    def _others(self, one: Input) -> Iterator[NDArray[np.generic]]:
        """Other values of that input: of few that it may have, the same is often drawn again."""
        base = self.drawn[0]
        for _ in range(OTHERS):
            other = draw(self.task, self.shape.dims, "normal", self.rng)[one.name]
            if np.array_equal(other, base[one.name]):
                other = near_pair(base, one, self.rng)[0][one.name]
            yield other

    def _initial(self, one: Input) -> Iterator[Hole]:
        base = self.drawn[0]
        for word, value in INITIAL.items():
            begun = from_float64(np.full(base[one.name].shape, value), one.dtype)
            if not self._moves({**base, one.name: begun}):
                text = f"{one.name}: {word} in its place give the same result; a kernel that leaves it out would pass"
                yield Hole(rule="init-dependent", wrong=True, text=text, about=one.name)

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

    def far(self) -> Iterator[Hole]:
        """Whether float64 and the task's own types give one answer."""
        return far_oracle(self.task, self.reference, self.drawn[0], self.answers[0])

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
        dtype = self.task.dtype_of(name)
        values = self.answers[0][name]
        finite = values[np.isfinite(values)]
        if not is_float(dtype) or finite.size == 0:
            return 0.0
        return float(limit(dtype, self.task.precision).peak * unit(dtype) * np.sqrt(np.mean(finite**2)))


def _work(task: Task) -> Iterator[Hole]:
    for field, weak in (("bytes", "a result faster than memory allows"), ("flops", "the distance to the roofline")):
        if getattr(task, field) is None:
            text = f"{field}: missing, so {weak} is not seen; give a formula over the dimensions"
            yield Hole(rule="unknown-work", wrong=False, text=text)


def _baseline(task: Task, reference: Reference, opened: Opened) -> Iterator[Hole]:
    """The version that the task begins with: right at every public size, and long enough to be timed."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
    bench = Bench(task=task, reference=reference, options=Options(), rng=rng)
    consts = Consts(task)
    with opened() as session:
        broken = session.open()
        for shape in () if broken else task.shapes:
            for mix in ("normal", TIES) if has_whole(task) else ("normal",):
                inputs = consts.kept(shape, draw(task, shape.dims, mix, rng))
                found = _first(bench, session, shape, inputs, mix=mix)
                if isinstance(found, Hole):
                    yield found
            if isinstance(found, Broken):
                broken = found
                break
            if shape.timed and (hole := _short(session, shape, inputs)):
                yield hole
    if broken:
        text = f"the first version does not work: {broken.reason}: {broken.detail}; mend it first"
        yield Hole(rule="broken-baseline", wrong=True, text=text)


def _first(
    bench: Bench, session: Session, shape: Shape, inputs: Mapping[str, NDArray[np.generic]], *, mix: str
) -> Hole | Broken | None:
    """What is wrong with a call of the first version; of values with ties, only what they show of the task."""
    done = session.call(shape.dims, inputs)
    if isinstance(done, Broken):
        return done
    try:
        truth = truth_of(bench.reference, inputs)
        got = {name: to_float64(done.outputs[name], bench.task.dtype_of(name)) for name in truth.oracle}
        if hole := arbitrary(bench.task, bench.reference, inputs, got, truth.oracle):
            return hole
    except ReferenceFailed:
        if mix == "normal":
            raise
        return None  # told elsewhere
    if mix == "normal" and (lines := bench.wrong(done, truth)):
        text = f"{shape.label}: the first version is wrong: {lines[0]}; mend it first"
        return Hole(rule="broken-baseline", wrong=True, text=text)
    return None


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


def _judged(task: Task) -> tuple[Tensor, ...]:
    return (*task.outputs, *(one for one in task.inputs if one.constness == "mutated"))


def _size(task: Task) -> Callable[[Shape], int]:
    return lambda shape: _elements(task, shape)


def _elements(task: Task, shape: Shape) -> int:
    return sum(int(np.prod(extents(one, shape.dims))) for one in (*task.inputs, *task.outputs))
