"""Which blocks the machine disturbed: pure, and blind to what was measured. A span carries no time of a version.

A block is dropped whole, both sides together, or not at all.
"""

import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.values import Card, Conditions, Load, Reading

FOREIGN_SHARE = 0.25
"""Of the timed core, by other processes. What runs on other cores does not count.

One process that never rests takes half. Measured on a virtual machine of two cores with four to five processes ready
to run, so that others had 30 to 70 per cent of the core: the log-ratio of a block of equal versions scattered by 53 to
78 per cent where a harness just reads the clock around 2 ms of work, and by 0.9 to 1.9 per cent, whatever the share,
where it times interrupted passes again and reports the median one (1,050 blocks). So a harness that says that nobody
took the core in the reported slots is believed; others are held to a share that lengthens a time by a third at most.
"""
STEAL_SHARE = 0.10
"""Of the timed core, by the hypervisor. Lower than for processes: no harness sees it in its own switches."""
LEAST_TOLD_S = 0.5
"""Processes that together lasted less are not judged by load: starting them is most of it, and the kernel's steps of
10 ms would be several per cent each."""
CLOCK_DIFFERENCE = 0.01
"""Of the SM clock between the two versions of a block: one per cent of clock is about one of time (our own choice)."""
CLOCK_READINGS = 3
"""Fewer on one side are no mean."""
POWER_CAP = "power cap"
"""Recorded, never a reason: a version that draws more power is slower by its own doing."""

Kind = Literal["foreign_load", "steal", "throttled", "foreign_process", "clock", "harness"]
Block = tuple[str, int]
"""Shape and number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One timed slot without its time: which version ran in which process, and until when."""

    label: str
    block: int
    side: str
    process: int
    """Place of its process in the pair's conditions."""
    at_us: float | None = None
    """End of the slot: on the monotonic clock, or since the process started. None: somewhere in its process."""
    shared: bool | None = None
    """Whether the harness saw another process take the core during the slot; None where it does not look."""

    @property
    def name(self) -> Block:
        return (self.label, self.block)


class Disturbance(Value):
    """Why a block does not count."""

    label: str
    block: int
    kind: Kind
    amount: float = 0.0
    """Share of the core, or relative difference of the clock."""
    names: tuple[str, ...] = ()
    """Processes or slowdowns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProcessConditions:
    """The conditions of one process, and where its slices end, in order."""

    conditions: Conditions
    ends_us: tuple[float, ...]

    def exceeds_limit(self) -> bool:
        """Whether a block in it can exceed a limit at all: its share lies between those of what it met."""
        return any(
            load.seconds > 0
            and (
                (load.foreign_s or 0) / load.seconds > FOREIGN_SHARE or (load.steal_s or 0) / load.seconds > STEAL_SHARE
            )
            for load in (self.conditions.load, *self.conditions.slices)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """What one slot lasted at most: from the end of the one before it to its own."""

    span: Span
    process: _ProcessConditions
    began_us: float
    ended_us: float
    exact: bool

    @property
    def conditions(self) -> Conditions:
        return self.process.conditions

    def loads(self) -> tuple[tuple[Load, float], ...]:
        """The slices it met and for how many seconds; the whole process where it cannot be placed."""
        if not (self.exact and self.conditions.slices):
            return ((self.conditions.load, self.conditions.load.seconds),)
        if self.ended_us <= self.began_us:  # the later slots of a block that has one time for all of them
            return ()
        overlaps: list[tuple[Load, float]] = []
        slices, ends_us = self.conditions.slices, self.process.ends_us
        for place in range(bisect_right(ends_us, self.began_us), len(slices)):
            load = slices[place]
            if load.began_us >= self.ended_us:
                break
            met_us = min(ends_us[place], self.ended_us) - max(load.began_us, self.began_us)
            overlaps.append((load, met_us / 1e6))
        return tuple(overlaps)

    def readings(self) -> tuple[Reading, ...]:
        """Those of the card that fall into it."""
        during = self.conditions.card.during if self.conditions.card else ()
        return tuple(
            reading
            for reading in during
            if reading.at_us is not None and self.began_us <= reading.at_us <= self.ended_us
        )


def find_disturbed(spans: Sequence[Span], conditions: Sequence[Conditions], *, host: bool) -> tuple[Disturbance, ...]:
    """The timed blocks to drop, in the order they ran, each with its first cause.

    `host`: times were taken by the processor (engine wall), so what else it did counts. A device's own clock does not
    care: launches are queued before they are timed.
    """
    processes = tuple(
        _ProcessConditions(
            conditions=process_conditions, ends_us=tuple(part.ended_us for part in process_conditions.slices)
        )
        for process_conditions in conditions
    )
    host = host and any(process.exceeds_limit() for process in processes)
    if not host and not any(process_conditions.card for process_conditions in conditions):
        return ()
    blocks: dict[Block, list[_Stretch]] = {}
    for stretch in _stretches(spans, processes):
        blocks.setdefault(stretch.span.name, []).append(stretch)
    causes = (_cause(name, stretches, host=host) for name, stretches in blocks.items())
    return tuple(disturbance for disturbance in causes if disturbance is not None)


def _stretches(spans: Sequence[Span], processes: Sequence[_ProcessConditions]) -> Iterable[_Stretch]:
    ends_us: dict[int, float] = {}
    for span in spans:
        of = processes[span.process]
        load = of.conditions.load
        began, end = ends_us.get(span.process, load.began_us), load.ended_us
        at = _monotonic(span.at_us, load)
        if at is None or not began <= at <= end:  # no time, or one of another clock: it may have been any moment
            yield _Stretch(span=span, process=of, began_us=load.began_us, ended_us=end, exact=False)
            continue
        ends_us[span.process] = at
        yield _Stretch(span=span, process=of, began_us=began, ended_us=at, exact=True)


def _monotonic(at_us: float | None, load: Load) -> float | None:
    """A moment of a timed block: a small number counts from the start of the process."""
    return at_us if at_us is None or at_us >= load.began_us else load.began_us + at_us


def _cause(name: Block, stretches: Sequence[_Stretch], *, host: bool) -> Disturbance | None:
    label, block = name
    cards = [stretch.conditions.card for stretch in stretches if stretch.conditions.card]
    if names := _foreign(cards):
        return Disturbance(label=label, block=block, kind="foreign_process", names=names)
    if names := _slowdowns(stretches):
        return Disturbance(label=label, block=block, kind="throttled", names=names)
    if (clock_difference := _clocks_apart(stretches)) > CLOCK_DIFFERENCE:
        return Disturbance(label=label, block=block, kind="clock", amount=clock_difference)
    loads = _loads(stretches) if host else ()
    if (share := _share(loads, "steal_s")) > STEAL_SHARE:
        return Disturbance(label=label, block=block, kind="steal", amount=share)
    alone = all(stretch.span.shared is False for stretch in stretches)
    if not alone and (share := _share(loads, "foreign_s")) > FOREIGN_SHARE:
        return Disturbance(label=label, block=block, kind="foreign_load", amount=share)
    return None


def _loads(stretches: Sequence[_Stretch]) -> tuple[tuple[Load, float], ...]:
    """What a timed block met and for how long; nothing when its processes were too short to tell."""
    seconds_by_process = {stretch.span.process: stretch.conditions.load.seconds for stretch in stretches}
    return (
        tuple(met for stretch in stretches for met in stretch.loads())
        if sum(seconds_by_process.values()) >= LEAST_TOLD_S
        else ()
    )


def _share(loads: Iterable[tuple[Load, float]], field: Literal["steal_s", "foreign_s"]) -> float:
    """Share of the seconds of a timed block where it is known; 0 where it is not, which drops nothing."""
    used = weight = 0.0
    for load, seconds in loads:
        if (busy_s := getattr(load, field)) is not None and load.seconds > 0:
            used, weight = used + busy_s / load.seconds * seconds, weight + seconds
    return max(0.0, used / weight) if weight > 0 else 0.0


def _foreign(cards: Iterable[Card]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for card in cards for name in card.foreign or ()))


def _slowdowns(stretches: Sequence[_Stretch]) -> tuple[str, ...]:
    """Slowdowns seen while a timed block ran, or counted by the card at an unknown moment of its process."""
    names: dict[str, None] = {}
    for stretch in stretches:
        card = stretch.conditions.card
        if card is None:
            continue
        during = dict.fromkeys(name for reading in stretch.readings() for name in reading.slowdowns or ())
        names_in_readings = {name for reading in card.during for name in reading.slowdowns or ()}
        names |= during | {name: None for name in _count(card) if name not in names_in_readings}
    return tuple(name for name in names if name != POWER_CAP)


def _count(card: Card) -> tuple[str, ...]:
    """Slowdowns of a timed block whose counter rose between the looks before and after."""
    if card.before is None or card.after is None:
        return ()
    before = {count.name: count.value for count in card.before.counts}
    return tuple(count.name for count in card.after.counts if count.value > before.get(count.name, count.value))


def _clocks_apart(stretches: Sequence[_Stretch]) -> float:
    """Relative difference of the mean SM clock of a block's two sides; 0 where it is not known.

    Readings of an idle card say nothing, and under the power cap the clock is what each version earns by its draw.
    """
    clocks: dict[str, dict[float, float]] = {}
    for stretch in stretches:
        for reading in stretch.readings():
            mute = reading.idle or POWER_CAP in (reading.slowdowns or ())
            if not mute and reading.sm_mhz and reading.at_us is not None:
                clocks.setdefault(stretch.span.side, {})[reading.at_us] = reading.sm_mhz
    if len(clocks) < 2 or min(len(readings) for readings in clocks.values()) < CLOCK_READINGS:
        return 0.0
    means = [statistics.fmean(readings.values()) for readings in clocks.values()]
    return max(means) / min(means) - 1


# What disturbed a measurement, in sentences for people: pure.


def left_out(dropped: Sequence[Disturbance], timed_blocks: int) -> tuple[str, ...]:
    """One sentence per kind of disturbance, with how many of the `timed_blocks` it cost."""
    counts = Counter(disturbance.kind for disturbance in dropped)
    return tuple(
        f"{count} of {timed_blocks} blocks left out: {cause([disturbance for disturbance in dropped if disturbance.kind == kind])}"
        for kind, count in counts.most_common()
    )


def cause(disturbances: Sequence[Disturbance]) -> str:
    """What disturbed these timed blocks, which are of one kind: the median of the shares, each name once."""
    share = statistics.median(disturbance.amount for disturbance in disturbances)
    names = ", ".join(dict.fromkeys(name for disturbance in disturbances for name in disturbance.names))
    texts: dict[Kind, str] = {
        "foreign_load": f"other processes used {share:.0%} of the timed core",
        "steal": f"the hypervisor gave {share:.0%} of the timed core to other guests",
        "throttled": f"the card was throttled ({names})",
        "foreign_process": f"other processes were computing on the card: {names}",
        "clock": f"the card's clock differed by {share:.1%} between the two versions; lock it if you may",
        "harness": "marked invalid by the benchmark itself",
    }
    return texts[disturbances[0].kind]
