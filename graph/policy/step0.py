"""Step 0 on record: what bounds the device, and when a kept measurement of it is not good enough to end a campaign."""

from collections.abc import Sequence

from ridgeline.graph.evidence import Benchmark, Ceilings, Machine
from ridgeline.graph.policy import ends
from ridgeline.graph.policy.ceilings import bounds
from ridgeline.graph.policy.reach import Reach, device_of, reach
from ridgeline.graph.policy.roofline import specs
from ridgeline.graph.policy.stop import nothing_left
from ridgeline.graph.record import Rooflined, Spec
from ridgeline.graph.standing import History


def rooflined(measured: Ceilings | None, machine: Machine, stated: Sequence[Spec]) -> Rooflined:
    """What was measured, what documents state of this product, and which of the two bounds each axis."""
    found = bounds(measured, stated, machine.fingerprint)
    missing = "" if found.ceilings else "the ceilings of this machine could not be measured"
    return Rooflined(
        ceilings=found.ceilings,
        specs=specs(found.measured, machine, stated),
        bound="unknown",
        note="; ".join(filter(None, (missing, found.note))),
    )


def rests_on_kept(history: History, runs: Sequence[Benchmark]) -> bool:
    """Whether the original would end the campaign by ceilings that were measured before it began.

    A clock or a power limit that was lower then makes a low ceiling, and a low ceiling makes any kernel look finished.
    """
    roof = history.roofline
    if roof is None or roof.ceilings is None or not roof.ceilings.kept:
        return False
    fraction = ends.peak_fraction(history.limits, history.opened.target.performance_target)
    if fraction is None:
        return False
    found = [reach(run.rows, history.contract, device_of(history)) for run in runs]
    return all(isinstance(one, Reach) and bool(nothing_left(one, fraction)) for one in found)
