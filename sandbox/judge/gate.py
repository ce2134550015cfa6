"""Is it correct? Public sizes, sizes nobody has seen, many kinds of values, in secret order, in fresh processes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Shape, Task
from ridgeline.sandbox.judge.calls import Bench, Truth, decoy_of, settled, truth_of
from ridgeline.sandbox.judge.inputs import MIXES, PARTS, draw, drawn_shapes, extents, near_pair
from ridgeline.sandbox.judge.options import Answered, no, yes
from ridgeline.sandbox.judge.pool import Poisons
from ridgeline.sandbox.judge.probes import probes
from ridgeline.sandbox.judge.session import Broken, Session

Opened = Callable[[], AbstractContextManager[Session]]
"""A fresh worker with the candidate in it."""
LARGE = 1 << 21
"""Elements of a call from which on a size is tried with fewer kinds of values: it is judged again when timed."""
SMALL = 1 << 20
"""Elements below which a size is tried with those that bend a part twice as often: each hits by chance."""
OFTEN = 4
"""Calls of a small size for each kind that bends a part, half as many of a larger one."""
FEW = 3
"""Kinds of values for a large or an unseen size, and sizes for probes."""
MOST_TOLD = 6
PING_SHARE = 0.3
"""Of tests that an empty call comes before."""
TELLING = ("normal", "wide", "cancel")
"""Kinds of values for a size that is too large for all of them: together they show most shortcuts."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call to be judged."""

    name: str
    shape: Shape
    inputs: Mapping[str, NDArray[np.generic]]
    exact: bool = False
    truth: Truth | None = None
    """What is right, where it was asked for when the values were drawn."""


class Consts:
    """Inputs that a task declares constant keep their values for each size in the life of a process."""

    def __init__(self, task: Task) -> None:
        self._names = tuple(one.name for one in task.inputs if one.constness == "const")
        self._first: dict[tuple[tuple[str, int], ...], dict[str, NDArray[np.generic]]] = {}

    def kept(self, shape: Shape, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        """The inputs with the constant ones as they were first drawn for that size."""
        size = tuple(sorted(shape.dims.items()))
        first = self._first.setdefault(size, {name: inputs[name] for name in self._names})
        return {name: np.ascontiguousarray(array) for name, array in {**inputs, **first}.items()}


@dataclass(kw_only=True)
class Gate:
    """Judges what a session's candidate computes."""

    bench: Bench
    calls: int = 0
    """Judged so far."""
    _decoys: dict[str, dict[str, NDArray[np.generic]]] = field(default_factory=dict)
    _poisons: dict[str, Poisons] = field(default_factory=dict)
    _first: dict[str, Case] = field(default_factory=dict)
    _consts: "Consts" = field(init=False)

    def __post_init__(self) -> None:
        self.task, self.options, self.rng = self.bench.task, self.bench.options, self.bench.rng
        self._consts = Consts(self.task)

    def check(self, opened: Opened) -> Answered:
        """Public sizes in one fresh process, then everything else in another, each in secret order."""
        for cases in (self._public, self._private):
            self._consts = Consts(self.task)
            with opened() as session:
                if broken := session.open():
                    return no(f"{broken.reason}: {broken.detail}")
                if lines := self._run(session, self._shuffled(cases())):
                    return no(*lines[:MOST_TOLD])
        return yes(f"{self.calls} judged calls in 2 fresh processes")

    def _run(self, session: Session, cases: Sequence[Callable[[], Iterator[Case]]]) -> list[str]:
        """What was wrong; ends with the first case that is."""
        for made in cases:
            for case in made():
                if lines := self._one(session, case):
                    return [f"{case.name}: {line}" for line in lines]
        return []

    def _one(self, session: Session, case: Case) -> Sequence[str]:
        if not self.options.on("fresh_values"):  # what a careless harness does: one set of values for each size
            case = self._first.setdefault(case.shape.label, case)
        inputs = self._consts.kept(case.shape, case.inputs)
        truth = case.truth or truth_of(self.bench.reference, inputs)
        placement = int(self.rng.integers(2)) if self.options.on("addresses") else 0
        if self.rng.random() < PING_SHARE:
            session.ping()  # as before timings: what comes with one shall not tell one from the other
        sealed = session.call(
            case.shape.dims,
            inputs,
            placement=placement,
            poison=self._poison(case.shape, truth),
            timeout_s=self.options.call_s,
        )
        self.calls += 1
        if isinstance(sealed, Broken):
            return [f"{sealed.reason}: {sealed.detail}"]
        self._decoys[case.shape.label] = decoy_of(self.task, truth)
        return self.bench.wrong(sealed, truth, exact=case.exact)

    def _poison(self, shape: Shape, truth: Truth) -> dict[str, NDArray[np.generic]]:
        """Without the defence: what a careless harness leaves there, the right answer."""
        if not self.options.on("poison"):
            return decoy_of(self.task, truth)
        if shape.label not in self._poisons:
            self._poisons[shape.label] = Poisons(self.task, shape.dims, self.rng)
        return self._poisons[shape.label].next(self._decoys.get(shape.label))

    def _shuffled(self, cases: Iterator[Callable[[], Iterator[Case]]]) -> list[Callable[[], Iterator[Case]]]:
        found = list(cases)
        self.rng.shuffle(found)
        return found

    def _public(self) -> Iterator[Callable[[], Iterator[Case]]]:
        for shape in self.task.shapes:
            for mix in kinds(self.task, shape) if self.options.on("mixes") else MIXES[:1]:
                yield self._drawn(shape, mix)

    def _private(self) -> Iterator[Callable[[], Iterator[Case]]]:
        unseen = drawn_shapes(self.task, self.rng) if self.options.on("held_out") else ()
        for shape in unseen:
            mixed = [*self._some(MIXES), self._some(PARTS)[0]]
            for mix in mixed if self.options.on("mixes") else MIXES[:1]:
                yield self._drawn(shape, mix)
        small = [shape for shape in (*self.task.shapes, *unseen) if size_of(self.task, shape) < LARGE] or [
            self.task.shapes[0]
        ]
        for shape in self._some(small):
            if self.options.on("probes"):
                yield self._probed(shape)
            if self.options.on("near_pairs"):
                yield self._near(shape)
        for shape in self._some(self.task.shapes):
            yield self._drawn(shape, MIXES[0])

    def _drawn(self, shape: Shape, mix: str) -> Callable[[], Iterator[Case]]:
        def cases() -> Iterator[Case]:
            truth = settled(self.bench, shape.dims, mix, kept=lambda drawn: self._consts.kept(shape, drawn))
            yield Case(name=f"{shape.label}, {mix}", shape=shape, inputs=truth.inputs, truth=truth)

        return cases

    def _probed(self, shape: Shape) -> Callable[[], Iterator[Case]]:
        def cases() -> Iterator[Case]:
            for probe in probes(self.task, shape.dims, self.rng):
                name = f"{shape.label}, probe {probe.name}"
                yield Case(name=name, shape=shape, inputs=probe.inputs, exact=probe.exact)

        return cases

    def _near(self, shape: Shape) -> Callable[[], Iterator[Case]]:
        """Two calls in a row whose inputs differ in one element: an answer found by a sample of the values is wrong."""

        def cases() -> Iterator[Case]:
            inputs = draw(self.task, shape.dims, MIXES[0], self.rng)
            yield Case(name=f"{shape.label}, {MIXES[0]}", shape=shape, inputs=inputs)
            for one in self.task.inputs:
                if one.constness != "const":
                    changed, place = near_pair(inputs, one, self.rng)
                    name = f"{shape.label}, {one.name}{list(place)} changed"
                    yield Case(name=name, shape=shape, inputs=changed)

        return cases

    def _some(self, found: Sequence[T]) -> list[T]:
        picked = self.rng.permutation(len(found))[:FEW]
        return [found[int(place)] for place in picked]


def kinds(task: Task, shape: Shape) -> tuple[str, ...]:
    """Kinds of values that a public size is tested with, each as often as it is named: the larger it is, the fewer."""
    size = size_of(task, shape)
    if size >= LARGE:
        return tuple(mix for mix in MIXES if mix in TELLING)
    return *MIXES, *(OFTEN if size < SMALL else OFTEN // 2) * PARTS


def size_of(task: Task, shape: Shape) -> int:
    """Elements of one call."""
    return sum(int(np.prod(extents(one, shape.dims))) for one in (*task.inputs, *task.outputs))
