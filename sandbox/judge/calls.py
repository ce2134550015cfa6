"""One call of a candidate and everything that is held against it: the same for tests and for timings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from graph.task import DType, Task
from sandbox.judge.bounds import Noise, Reach, noise, reaches
from sandbox.judge.dtypes import LARGEST, from_float64, is_float, unit
from sandbox.judge.inputs import MIXES, draw
from sandbox.judge.mixes import SPIKING
from sandbox.judge.numerics import Fault, compare, compare_exact
from sandbox.judge.options import Options
from sandbox.judge.references import Reference, ReferenceFailed
from sandbox.judge.session import Sealed
from sandbox.judge.whole import is_whole

Arrays = Mapping[str, NDArray[np.generic]]
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


def settled(
    bench: "Bench", dims: Mapping[str, int], mix: str, *, kept: Callable[[dict[str, NDArray[np.generic]]], Arrays]
) -> Truth:
    """Inputs of a mix, and what is right for them; `kept` puts constant inputs in their place.

    Outliers and empty rows of masks may have no numbers as their results, or none in the task's own types, where
    ordinary values do: that is held against nobody, and gentler ones are drawn. Where ordinary values have none either,
    as where scores are masked with infinity, the operator is one for which "the same infinities" is what is right.
    Raises ReferenceFailed where the reference has no answer to ordinary values either.
    """
    bends = mix != MIXES[0] and (mix == SPIKING or any(is_whole(one) for one in bench.task.inputs))
    found: list[Truth] = []
    for reach in REACHES if bends else REACHES[:1]:
        inputs = kept(draw(bench.task, dims, mix, bench.rng, reach=reach))
        try:
            found.append(truth_of(bench.reference, inputs))
        except ReferenceFailed:
            if not bends or not reach:
                raise
            continue
        if not bends or _has_numbers(bench.task, found[-1]):
            return replace(found[-1], lone=mix == SPIKING)
    return replace(found[-1], lone=True) if mix == SPIKING else found[0]


def _has_numbers(task: Task, truth: Truth) -> bool:
    """Whether the results are finite, fit their types, and are not lost in the trusted program's own rounding."""
    for name in judged_names(task):
        dtype, right, usual = dtype_of(task, name), truth.oracle[name], truth.trusted[name]
        if not is_float(dtype):
            continue
        room = ROOM_HALF if dtype == "float16" else ROOM
        largest = room * min(LARGEST[dtype], LARGEST["float32"])
        if not (np.isfinite(usual).all() and np.abs(right).max(initial=0.0) <= largest):
            return False
        if not np.linalg.norm(usual - right) <= max(LOST, LOST_UNITS * unit(dtype)) * np.linalg.norm(right):
            return False
    return True


def decoy_of(task: Task, truth: Truth) -> dict[str, NDArray[np.generic]]:
    """The right answer, as bytes to leave in the outputs of a later call with other inputs."""
    return {one.name: from_float64(truth.trusted[one.name], one.dtype) for one in task.outputs}


def judged_names(task: Task) -> tuple[str, ...]:
    """Arrays whose contents after the call are judged."""
    return (
        *(one.name for one in task.outputs),
        *(one.name for one in task.inputs if one.constness == "mutated"),
    )


def dtype_of(task: Task, name: str) -> DType:
    """Of an input or output of that name."""
    return next(one.dtype for one in (*task.inputs, *task.outputs) if one.name == name)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where calls are judged: the task, who knows what is right, and which defences stand."""

    task: Task
    reference: Reference
    options: Options
    rng: np.random.Generator

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
        whole = any(fault.kind == "exact" and not is_float(dtype_of(self.task, fault.output)) for fault in suspected)
        if not rounded and not whole:
            return suspected
        known: dict[str, Noise | Reach] = dict(self.sensitivity(truth)) if rounded else {}
        if whole:
            known |= reaches(self.task, truth.inputs, self.reference.oracle, self.rng, exact=truth.oracle)
        return self._faults(sealed, truth, known, exact=exact)

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
            for fault in judged(
                sealed.outputs[name],
                truth.oracle[name],
                truth.trusted[name],
                dtype=dtype_of(self.task, name),
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
