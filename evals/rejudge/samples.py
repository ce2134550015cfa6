"""The raw times behind a comparison: per process, shape and side, as the harness wrote them."""

import json
import math
import statistics
from collections.abc import Sequence
from typing import Literal

from ridgeline.graph.errors import ArtifactLost
from ridgeline.graph.evidence import Comparison
from ridgeline.graph.values import Value
from ridgeline.sandbox.store.campaign_folder import ArtifactStore

Side = Literal["best", "candidate"]


class Times(Value):
    """One shape in one process pair: microseconds of a call, in the order they were taken."""

    label: str
    best: tuple[float, ...]
    candidate: tuple[float, ...]

    def of(self, side: Side) -> tuple[float, ...]:
        """Those of one version."""
        return self.best if side == "best" else self.candidate


class Process(Value):
    """One process pair: everything that was timed in it."""

    shapes: tuple[Times, ...]

    def level(self, side: Side) -> float:
        """Mean natural logarithm over shapes of the mean time: what one ordinary run of a benchmark would report."""
        return statistics.fmean([math.log(statistics.fmean(shape.of(side))) for shape in self.shapes])

    def mean(self, side: Side, label: str) -> float:
        """Mean microseconds of one shape; KeyError where it was not timed."""
        for shape in self.shapes:
            if shape.label == label:
                return statistics.fmean(shape.of(side))
        raise KeyError(label)

    def swapped(self) -> "Process":
        """The same with the two versions' names exchanged."""
        shapes = (Times(label=s.label, best=s.candidate, candidate=s.best) for s in self.shapes)
        return Process(shapes=tuple(shapes))


def processes(comparisons: Sequence[Comparison], store: ArtifactStore) -> tuple[Process, ...]:
    """Of all batches in order; none at all where the raw times of one were left out of the recording."""
    found: list[Process] = []
    for comparison in comparisons:
        try:
            data = json.loads(store.get(comparison.raw))
        except (ArtifactLost, ValueError):
            return ()
        found += [_process(entry["pair"]["slots"]) for entry in data]
    return tuple(found)


def _process(slots: Sequence[dict[str, object]]) -> Process:
    """Blocks that lack a time on any slot count on neither side, as in the comparison."""
    spoiled = {(slot["label"], slot["block"]) for slot in slots if slot["time_us"] is None}
    valid = [slot for slot in slots if (slot["label"], slot["block"]) not in spoiled]
    labels = list(dict.fromkeys(str(slot["label"]) for slot in valid))

    def times(label: str, side: Side) -> tuple[float, ...]:
        return tuple(float(str(s["time_us"])) for s in valid if s["label"] == label and s["side"] == side)

    shapes = (Times(label=label, best=times(label, "best"), candidate=times(label, "candidate")) for label in labels)
    return Process(shapes=tuple(shapes))
