"""Timed calls that a secret coin chose for the oracle: kept as they were sealed, judged together when no clock runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ridgeline.sandbox.judge.calls import Bench, Truth, truths_of
from ridgeline.sandbox.judge.session import Sealed

Arrays = Mapping[str, NDArray[np.generic]]
MOST_BYTES = 1 << 28
"""Of inputs and outputs that are kept; with more, they are judged at once."""


@dataclass(frozen=True)
class _Kept:
    inputs: Arrays
    found: Mapping[str, Sealed]

    @property
    def nbytes(self) -> int:
        arrays = [*self.inputs.values(), *(array for one in self.found.values() for array in one.outputs.values())]
        return sum(array.nbytes for array in arrays)


@dataclass(kw_only=True)
class Sampled:
    """Pairs of calls, one of each side with the same values, that wait for the oracle.

    The coin falls when both outputs are sealed, so waiting tells a candidate nothing; and one question about many calls
    costs a fraction of as many questions.
    """

    bench: Bench
    most_bytes: int = MOST_BYTES
    _waiting: list[_Kept] = field(default_factory=list)
    _bytes: int = 0

    def keep(self, inputs: Arrays, found: Mapping[str, Sealed]) -> None:
        """Both sides' calls on these values. The arrays must not change any more."""
        kept = _Kept(inputs, found)
        self._waiting.append(kept)
        self._bytes += kept.nbytes

    @property
    def full(self) -> bool:
        """Whether no more should be kept."""
        return self._bytes >= self.most_bytes

    def wrong(self, sides: str) -> tuple[str, str] | None:
        """The first of these sides that was wrong in a kept call, and how. Nothing is kept afterwards.

        Raises ReferenceFailed.
        """
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return None
        truths = truths_of(self.bench.reference, [one.inputs for one in waiting])
        for one, truth in zip(waiting, truths, strict=True):
            if found := wrong_side(self.bench, one.found, truth, sides):
                return found
        return None


def wrong_side(bench: Bench, found: Mapping[str, Sealed], truth: Truth, sides: str) -> tuple[str, str] | None:
    """The first of these sides whose call was wrong, and how."""
    for side in sides:
        if lines := bench.wrong(found[side], truth):
            return side, lines[0]
    return None
