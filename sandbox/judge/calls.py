"""One call of a candidate and everything that is held against it: the same for tests and for timings."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.bounds import Noise, Reach, noise, reaches
from ridgeline.sandbox.judge.dtypes import LARGEST, from_float64, is_float, to_float64, unit
from ridgeline.sandbox.judge.inputs import MIXES, draw
from ridgeline.sandbox.judge.jumps import jumps
from ridgeline.sandbox.judge.mixes import SPIKING
from ridgeline.sandbox.judge.numerics import Fault, compare, compare_exact
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.references import Reference, ReferenceFailed
from ridgeline.sandbox.judge.session import Sealed
from ridgeline.sandbox.judge.whole import is_whole

Arrays = Mapping[str, NDArray[np.generic]]
Kept = Callable[[dict[str, NDArray[np.generic]]], Arrays]
MOST_FAULTS = 3
"""Of one call that are told."""
REACHES = (1.0, 0.5, 0.25, 0.0)
"""How far a mix goes, until the reference has numbers."""
LOST = 2.0**-10
LOST_UNITS = 16
"""Units of rounding, or share of a result, that the trusted program may be off with outliers in its inputs."""
ROOM = 2.0**-16
"""Of a type's range that results with outliers may fill: a product on the way to them may be larger than they are."""
ROOM_HALF = 0.25
LONE = 4.0
"""Times its row's largest number: the scale of each element where inputs have outliers. Blocked ways of summing and
convolving let an outlier's rounding reach what it is no part of; what is looked for there is wrong by far more."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is right for some inputs, in float64: exactly, and as a trusted program of the same data types has it."""

    inputs: Arrays
    oracle: dict[str, NDArray[np.float64]]
    trusted: dict[str, NDArray[np.float64]]
    lone: bool = False
    """The inputs have outliers, so that a row is judged by its largest number."""
    judged: frozenset[str] | None = None
    """The outputs whose numbers are held against anybody; all where it is None."""

    def judges(self, name: str) -> bool:
        """Whether this output, or mutated input, is."""
        return self.judged is None or name in self.judged


def truth_of(reference: Reference, inputs: Arrays) -> Truth:
    """About one call."""
    return truths_of(reference, [inputs])[0]


def truths_of(reference: Reference, many: Sequence[Arrays]) -> list[Truth]:
    """About several, which the reference is asked about at once."""
    answers = reference.both(many)
    return [
        Truth(inputs=inputs, oracle=one["oracle"], trusted=one["trusted"])
        for inputs, one in zip(many, answers, strict=True)
    ]


def all_settled(bench: "Bench", dims: Mapping[str, int], mixes: Sequence[str], *, kept: Kept) -> list[Truth]:
    """The same as `settled` for several mixes, with one question to the reference where none needs gentler values."""
    drawn = [kept(draw(bench.task, dims, mix, bench.rng)) for mix in mixes]
    try:
        first = truths_of(bench.reference, drawn)
    except ReferenceFailed:  # of one of them: each is asked about alone
        return [settled(bench, dims, mix, kept=kept) for mix in mixes]
    return [settled(bench, dims, mix, kept=kept, first=one) for mix, one in zip(mixes, first, strict=True)]


def settled(bench: "Bench", dims: Mapping[str, int], mix: str, *, kept: Kept, first: Truth | None = None) -> Truth:
    """Inputs of a mix, and what is right for them; `kept` puts constant inputs in their place. `first`: of values that
    go as far as the mix does, where they were drawn before.

    Outliers and empty rows of masks may have no numbers as their results, or none in the task's own types, where
    ordinary values do: that is held against nobody, and gentler ones are drawn. Where ordinary values have none either,
    as where scores are masked with infinity, the operator is one for which "the same infinities" is what is right.
    Where outliers leave only some outputs without numbers, every other time they stay, and the rest is judged alone:
    else one output that overflows would keep large numbers from all others.
    Raises ReferenceFailed where the reference has no answer to ordinary values either.
    """
    bends = mix != MIXES[0] and (mix.endswith(SPIKING) or any(is_whole(one) for one in bench.task.inputs))
    found: list[Truth] = []
    far: Truth | None = None
    for reach in REACHES if bends else REACHES[:1]:
        try:
            found.append(first or truth_of(bench.reference, kept(draw(bench.task, dims, mix, bench.rng, reach=reach))))
        except ReferenceFailed:
            if not bends or not reach:
                raise
            continue
        first = None
        if not bends:
            return found[-1]
        floats = [name for name in judged_names(bench.task) if is_float(bench.task.dtype_of(name))]
        clear = frozenset(name for name in floats if _has_numbers(bench.task, found[-1], name))
        if len(clear) == len(floats):
            return _either(bench, dims, far, replace(found[-1], lone=mix.endswith(SPIKING)))
        if clear and far is None and mix.endswith(SPIKING):
            far = replace(found[-1], lone=True, judged=clear)
    return _either(bench, dims, far, replace(found[-1], lone=True)) if mix.endswith(SPIKING) else found[0]


def _either(bench: "Bench", dims: Mapping[str, int], far: Truth | None, near: Truth) -> Truth:
    """What goes as far as some outputs allow, or what all have numbers for: in turns for each size, first by chance."""
    if far is None:
        return near
    size = tuple(sorted(dims.items()))
    bench.turns[size] = not bench.turns.get(size, bool(bench.rng.integers(2)))
    return far if bench.turns[size] else near


def _has_numbers(task: Task, truth: Truth, name: str) -> bool:
    """Whether a float result is finite, fits its type, and is not lost in the trusted program's own rounding."""
    dtype, right, usual = task.dtype_of(name), truth.oracle[name], truth.trusted[name]
    room = ROOM_HALF if dtype == "float16" else ROOM
    largest = room * min(LARGEST[dtype], LARGEST["float32"])
    if not (np.isfinite(usual).all() and np.abs(right).max(initial=0.0) <= largest):
        return False
    return _length(usual - right) <= max(LOST, LOST_UNITS * unit(dtype)) * _length(right)


def _length(values: NDArray[np.float64]) -> float:
    """Its L2 norm, added up here: a library's threads would wait for processors that a worker or the reference has."""
    flat = values.reshape(-1)
    return math.sqrt(float(np.einsum("i,i->", flat, flat)))


def decoy_of(task: Task, truth: Truth) -> dict[str, NDArray[np.generic]]:
    """The right answer, as bytes to leave in the outputs of a later call with other inputs."""
    return {one.name: from_float64(truth.trusted[one.name], one.dtype) for one in task.outputs}


def judged_names(task: Task) -> tuple[str, ...]:
    """Arrays whose contents after the call are judged."""
    return (
        *(one.name for one in task.outputs),
        *(one.name for one in task.inputs if one.constness == "mutated"),
    )


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where calls are judged: the task, who knows what is right, and which defences stand."""

    task: Task
    reference: Reference
    options: Options
    rng: np.random.Generator
    turns: dict[tuple[tuple[str, int], ...], bool] = field(default_factory=dict)
    """By size: whether `settled` last kept outliers that not all outputs have numbers for."""

    def wrong(self, sealed: Sealed, truth: Truth, *, exact: bool = False) -> tuple[str, ...]:
        """Everything wrong with one call, one line each; empty when it was right.

        `exact`: where right programs have no freedom, nothing but the exact numbers is right.
        """
        if found := self.surroundings(sealed):
            return found
        return tuple(said(fault) for fault in self._numbers(sealed, truth, exact=exact)[:MOST_FAULTS])

    def surroundings(self, sealed: Sealed) -> tuple[str, ...]:
        """What the call did to memory that is none of its business, and after it had said that it was done."""
        found: list[str] = []
        if self.options.on("input_hash"):
            found += [f"input {name} was changed, which the task does not allow" for name in sealed.inputs_changed]
        if self.options.on("guards"):
            found += [f"memory beside {name} was overwritten" for name in sealed.guards_broken]
        for name, late in (sealed.late or {}).items():
            if late.tobytes() != sealed.outputs[name].tobytes():
                found.append(f"output {name} went on changing after the call had returned")
        return tuple(found)

    def _numbers(self, sealed: Sealed, truth: Truth, *, exact: bool) -> tuple[Fault, ...]:
        """A fault by the trusted program's own error counts where the operator's sensitivity does not excuse it."""
        suspected = self._faults(sealed, truth, {}, exact=exact)
        rounded = any(fault.kind not in ("shape", "exact") for fault in suspected)
        whole = any(fault.kind == "exact" and not is_float(self.task.dtype_of(fault.output)) for fault in suspected)
        if not rounded and not whole:
            return suspected
        known: dict[str, Noise | Reach] = dict(self.sensitivity(truth)) if rounded else {}
        if whole:
            known |= reaches(self.task, truth.inputs, self.reference.oracle, self.rng, exact=truth.oracle)
        found = self._faults(sealed, truth, known, exact=exact)
        if not any(fault.kind in ("relative_l2", "max_norm") for fault in found):
            return found
        excused = self._excused(sealed, truth, found)
        return found if excused is None else self._faults(sealed, excused, known, exact=exact)

    def _excused(self, sealed: Sealed, truth: Truth, found: Sequence[Fault]) -> Truth | None:
        """The same, with either value right where a rounding of the inputs makes an element jump between two."""
        names = {fault.output for fault in found if fault.kind in ("relative_l2", "max_norm")}
        got = {name: to_float64(sealed.outputs[name], self.task.dtype_of(name)) for name in names}
        sides = jumps(self.task, truth.inputs, self.reference.oracle, self.rng, exact=truth.oracle, got=got)
        if not sides:
            return None
        trusted = {
            name: np.where((side == truth.oracle[name]) | np.isnan(side), truth.trusted[name], side)
            for name, side in sides.items()
        }
        return replace(truth, oracle={**truth.oracle, **sides}, trusted={**truth.trusted, **trusted})

    def sensitivity(self, truth: Truth) -> dict[str, Noise]:
        """What rounding does to this operator's outputs at these inputs; some ten questions to the reference."""
        found = noise(self.task, truth.inputs, self.reference.oracle, self.rng, exact=truth.oracle)
        return {name: _outlying(one, truth.oracle[name]) for name, one in found.items()} if truth.lone else found

    def _faults(
        self, sealed: Sealed, truth: Truth, known: Mapping[str, Noise | Reach], *, exact: bool
    ) -> tuple[Fault, ...]:
        judged = compare_exact if exact else compare
        return tuple(
            fault
            for name in judged_names(self.task)
            if truth.judges(name)
            for fault in judged(
                sealed.outputs[name],
                truth.oracle[name],
                truth.trusted[name],
                dtype=self.task.dtype_of(name),
                precision=self.task.precision,
                output=name,
                noise=known.get(name),
            )
        )


def _outlying(noise: Noise, exact: NDArray[np.float64]) -> Noise:
    """The same for rows with outliers: no element is more certain than its row's largest number is."""
    sizes = np.abs(np.where(np.isfinite(exact), exact, 0.0))
    largest = sizes.max(axis=-1 if sizes.ndim > 1 else None, keepdims=True)
    return replace(noise, spread=np.maximum(noise.spread, LONE * largest))


def said(fault: Fault) -> str:
    """One line."""
    return f"{fault.output}: {fault.kind}: {fault.detail} ({fault.measured:.3g}, allowed {fault.allowed:.3g})"
