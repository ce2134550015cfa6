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


class Disturbed(Value):
    """Why a block does not count."""

    label: str
    block: int
    kind: Kind
    amount: float = 0.0
    """Share of the core, or relative difference of the clock."""
    names: tuple[str, ...] = ()
    """Processes or slowdowns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """The conditions of one process, and where its slices end, in order."""

    conditions: Conditions
    ends_us: tuple[float, ...]

    def loaded(self) -> bool:
        """Whether a block in it can exceed a limit at all: its share lies between those of what it met."""
        return any(
            one.seconds > 0
            and ((one.foreign_s or 0) / one.seconds > FOREIGN_SHARE or (one.steal_s or 0) / one.seconds > STEAL_SHARE)
            for one in (self.conditions.load, *self.conditions.slices)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """What one slot lasted at most: from the end of the one before it to its own."""

    span: Span
    told: _Told
    began_us: float
    ended_us: float
    exact: bool

    @property
    def conditions(self) -> Conditions:
        return self.told.conditions

    def loads(self) -> tuple[tuple[Load, float], ...]:
        """The slices it met and for how many seconds; the whole process where it cannot be placed."""
        if not (self.exact and self.conditions.slices):
            return ((self.conditions.load, self.conditions.load.seconds),)
        if self.ended_us <= self.began_us:  # the later slots of a block that has one time for all of them
            return ()
        found: list[tuple[Load, float]] = []
        slices, ends_us = self.conditions.slices, self.told.ends_us
        for place in range(bisect_right(ends_us, self.began_us), len(slices)):
            one = slices[place]
            if one.began_us >= self.ended_us:
                break
            met_us = min(ends_us[place], self.ended_us) - max(one.began_us, self.began_us)
            found.append((one, met_us / 1e6))
        return tuple(found)

    def readings(self) -> tuple[Reading, ...]:
        """Those of the card that fall into it."""
        during = self.conditions.card.during if self.conditions.card else ()
        return tuple(one for one in during if one.at_us is not None and self.began_us <= one.at_us <= self.ended_us)


def find_disturbed(spans: Sequence[Span], conditions: Sequence[Conditions], *, host: bool) -> tuple[Disturbed, ...]:
    """The blocks to drop, in the order they ran, each with its first cause.

    `host`: times were taken by the processor (engine wall), so what else it did counts. A device's own clock does not
    care: launches are queued before they are timed.
    """
    told = tuple(_Told(conditions=seen, ends_us=tuple(one.ended_us for one in seen.slices)) for seen in conditions)
    host = host and any(one.loaded() for one in told)
    if not host and not any(seen.card for seen in conditions):
        return ()
    blocks: dict[Block, list[_Stretch]] = {}
    for stretch in _stretches(spans, told):
        blocks.setdefault(stretch.span.name, []).append(stretch)
    found = (_cause(name, stretches, host=host) for name, stretches in blocks.items())
    return tuple(one for one in found if one is not None)


def _stretches(spans: Sequence[Span], told: Sequence[_Told]) -> Iterable[_Stretch]:
    reached: dict[int, float] = {}
    for span in spans:
        of = told[span.process]
        load = of.conditions.load
        began, end = reached.get(span.process, load.began_us), load.ended_us
        at = _monotonic(span.at_us, load)
        if at is None or not began <= at <= end:  # no time, or one of another clock: it may have been any moment
            yield _Stretch(span=span, told=of, began_us=load.began_us, ended_us=end, exact=False)
            continue
        reached[span.process] = at
        yield _Stretch(span=span, told=of, began_us=began, ended_us=at, exact=True)


def _monotonic(at_us: float | None, load: Load) -> float | None:
    """A small number counts from the start of the process."""
    return at_us if at_us is None or at_us >= load.began_us else load.began_us + at_us


def _cause(name: Block, stretches: Sequence[_Stretch], *, host: bool) -> Disturbed | None:
    label, block = name
    cards = [one.conditions.card for one in stretches if one.conditions.card]
    if names := _foreign(cards):
        return Disturbed(label=label, block=block, kind="foreign_process", names=names)
    if names := _slowdowns(stretches):
        return Disturbed(label=label, block=block, kind="throttled", names=names)
    if (apart := _clocks_apart(stretches)) > CLOCK_DIFFERENCE:
        return Disturbed(label=label, block=block, kind="clock", amount=apart)
    loads = _loads(stretches) if host else ()
    if (share := _share(loads, "steal_s")) > STEAL_SHARE:
        return Disturbed(label=label, block=block, kind="steal", amount=share)
    alone = all(one.span.shared is False for one in stretches)
    if not alone and (share := _share(loads, "foreign_s")) > FOREIGN_SHARE:
        return Disturbed(label=label, block=block, kind="foreign_load", amount=share)
    return None


def _loads(stretches: Sequence[_Stretch]) -> tuple[tuple[Load, float], ...]:
    """What the block met and for how long; nothing when its processes were too short to tell."""
    whole = {one.span.process: one.conditions.load.seconds for one in stretches}
    return tuple(met for one in stretches for met in one.loads()) if sum(whole.values()) >= LEAST_TOLD_S else ()


def _share(loads: Iterable[tuple[Load, float]], field: Literal["steal_s", "foreign_s"]) -> float:
    """Of the seconds where it is known; 0 where it is not, which drops nothing."""
    used = weight = 0.0
    for load, seconds in loads:
        if (taken := getattr(load, field)) is not None and load.seconds > 0:
            used, weight = used + taken / load.seconds * seconds, weight + seconds
    return max(0.0, used / weight) if weight > 0 else 0.0


def _foreign(cards: Iterable[Card]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for card in cards for name in card.foreign or ()))


def _slowdowns(stretches: Sequence[_Stretch]) -> tuple[str, ...]:
    """Seen while the block ran, or counted by the card at an unknown moment of its process."""
    found: dict[str, None] = {}
    for one in stretches:
        card = one.conditions.card
        if card is None:
            continue
        seen = dict.fromkeys(name for reading in one.readings() for name in reading.slowdowns or ())
        placed = {name for reading in card.during for name in reading.slowdowns or ()}
        found |= seen | {name: None for name in _count(card) if name not in placed}
    return tuple(name for name in found if name != POWER_CAP)


def _count(card: Card) -> tuple[str, ...]:
    """Slowdowns whose counter rose between the looks before and after."""
    if card.before is None or card.after is None:
        return ()
    before = {count.name: count.value for count in card.before.counts}
    return tuple(count.name for count in card.after.counts if count.value > before.get(count.name, count.value))


def _clocks_apart(stretches: Sequence[_Stretch]) -> float:
    """Relative difference of the mean SM clock of the two sides; 0 where it is not known.

    Readings of an idle card say nothing, and under the power cap the clock is what each version earns by its draw.
    """
    clocks: dict[str, dict[float, float]] = {}
    for one in stretches:
        for reading in one.readings():
            mute = reading.idle or POWER_CAP in (reading.slowdowns or ())
            if not mute and reading.sm_mhz and reading.at_us is not None:
                clocks.setdefault(one.span.side, {})[reading.at_us] = reading.sm_mhz
    if len(clocks) < 2 or min(len(readings) for readings in clocks.values()) < CLOCK_READINGS:
        return 0.0
    means = [statistics.fmean(readings.values()) for readings in clocks.values()]
    return max(means) / min(means) - 1


# What disturbed a measurement, in sentences for people: pure.


def left_out(dropped: Sequence[Disturbed], taken: int) -> tuple[str, ...]:
    """One sentence per kind of disturbance, with how many of the `taken` blocks it cost."""
    counted = Counter(one.kind for one in dropped)
    return tuple(
        f"{count} of {taken} blocks left out: {cause([one for one in dropped if one.kind == kind])}"
        for kind, count in counted.most_common()
    )


def cause(same: Sequence[Disturbed]) -> str:
    """What disturbed these blocks, which are of one kind: the median of the shares, each name once."""
    share = statistics.median(one.amount for one in same)
    names = ", ".join(dict.fromkeys(name for one in same for name in one.names))
    said: dict[Kind, str] = {
        "foreign_load": f"other processes used {share:.0%} of the timed core",
        "steal": f"the hypervisor gave {share:.0%} of the timed core to other guests",
        "throttled": f"the card was throttled ({names})",
        "foreign_process": f"other processes were computing on the card: {names}",
        "clock": f"the card's clock differed by {share:.1%} between the two versions; lock it if you may",
        "harness": "marked invalid by the benchmark itself",
    }
    return said[same[0].kind]
