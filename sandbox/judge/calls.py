"""One call of a candidate and everything that is held against it: the same for tests and for timings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graph.task import DType, Task
from sandbox.judge.bounds import Noise, noise
from sandbox.judge.dtypes import from_float64
from sandbox.judge.numerics import Fault, compare, compare_exact
from sandbox.judge.options import Options
from sandbox.judge.references import Reference
from sandbox.judge.session import Sealed

Arrays = Mapping[str, NDArray[np.generic]]
MOST_FAULTS = 3
"""Of one call that are told."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is right for some inputs, in float64: exactly, and as a trusted program of the same data types has it."""

    inputs: Arrays
    oracle: dict[str, NDArray[np.float64]]
    trusted: dict[str, NDArray[np.float64]]


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
        if not (suspected := self._faults(sealed, truth, {}, exact=exact)):
            return ()
        if all(fault.kind in ("shape", "exact") for fault in suspected):
            return suspected
        return self._faults(sealed, truth, self.sensitivity(truth), exact=exact)

    def sensitivity(self, truth: Truth) -> dict[str, Noise]:
        """What rounding does to this operator's outputs at these inputs; some ten questions to the reference."""
        return noise(self.task, truth.inputs, self.reference.oracle, self.rng, exact=truth.oracle)

    def _faults(self, sealed: Sealed, truth: Truth, known: Mapping[str, Noise], *, exact: bool) -> tuple[Fault, ...]:
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


def said(fault: Fault) -> str:
    """One line."""
    return f"{fault.output}: {fault.kind}: {fault.detail} ({fault.measured:.3g}, allowed {fault.allowed:.3g})"
