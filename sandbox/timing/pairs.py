"""Reads what a paired harness timed, and turns times into block log-ratios; pure."""

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal

from ridgeline.graph.evidence import ShapePairs
from ridgeline.graph.values import Value
from ridgeline.sandbox.timing.csv_schema import ABSENT, Cells, Problem, header, table

HEADER = ("label", "block", "slot", "side", "time_us")
PLACED_HEADER = (*HEADER, "at_us")
"""With when each slot ended, in microseconds on the monotonic clock or since the process started: then a disturbance
costs the blocks that it met, not the whole process."""
WATCHED_HEADER = (*PLACED_HEADER, "shared")
"""With whether another process took the core during the reported slot, 0 or 1. A harness that times again what was
interrupted, and says 0 then, has ruled out more than any load average can."""
HEADERS = (HEADER, PLACED_HEADER, WATCHED_HEADER)
SLOTS = 4

Side = Literal["best", "candidate"]
_PLACE = attrgetter("slot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One timed slot; time in microseconds per call, None where the harness itself marked it invalid.

    Hundreds are made in a round, each from cells that were just looked at: nothing checks them a second time.
    """

    label: str
    block: int
    slot: int
    side: Side
    time_us: float | None
    at_us: float | None = None
    """When it ended, as the harness wrote it: see `PLACED_HEADER`. None where it wrote no such column."""
    shared: bool | None = None
    """Another process took the core meanwhile: see `WATCHED_HEADER`. None where the harness does not look."""
    process: int = 0
    """Which of the pair's processes timed it."""


class Pair(Value):
    """All slots of one process pair."""

    pair: int
    slots: tuple[Slot, ...]

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """Shape and number of each block, in the order they ran."""
        return tuple(dict.fromkeys((slot.label, slot.block) for slot in self.slots))

    @property
    def marked(self) -> tuple[tuple[str, int], ...]:
        """The blocks that the harness itself marked invalid in any slot."""
        return tuple(dict.fromkeys((slot.label, slot.block) for slot in self.slots if slot.time_us is None))

    def without(self, dropped: Collection[tuple[str, int]]) -> "Pair":
        """The same with these blocks marked invalid, all four slots of each."""
        if not dropped:
            return self
        slots = (replace(slot, time_us=None) if (slot.label, slot.block) in dropped else slot for slot in self.slots)
        return self.model_copy(update={"slots": tuple(slots)})


def read_slots(data: bytes | None, *, a: Side, requested: Sequence[str], blocks: int) -> tuple[Slot, ...] | Problem:
    """The slots of one paired process in which side `a` was that version; every block of every shape complete.

    The file has one of `HEADERS`.
    """
    first = (data or b"").partition(b"\n")[0].rstrip(b"\r")
    rows = table(data, next((names for names in HEADERS if first == header(names).encode()), HEADER))
    if isinstance(rows, Problem):
        return rows
    other: Side = "candidate" if a == "best" else "best"
    slots: list[Slot] = []
    for line, cells in enumerate(rows, start=2):
        slot = _slot(cells, {"a": a, "b": other}, line)
        if isinstance(slot, Problem):
            return slot
        slots.append(slot)
    return _incomplete(slots, requested, blocks) or tuple(slots)


def shapes_of(pairs: Sequence[Pair], classes: dict[str, str]) -> tuple[ShapePairs, ...] | Problem:
    """Log-ratios per shape, pair and block; blocks with a slot that has no time are left out on both sides."""
    by_label: dict[str, list[list[Slot]]] = {}
    for number, pair in enumerate(pairs):
        for slot in pair.slots:
            by_label.setdefault(slot.label, [[] for _ in pairs])[number].append(slot)
    shapes: list[ShapePairs] = []
    for label, found in by_label.items():
        ratios: list[tuple[float, ...]] = []
        for pair, slots in zip(pairs, found, strict=True):
            valid = [block for block in _blocks(slots) if all(slot.time_us is not None for slot in block)]
            if not valid:
                detail = f"shape {label!r} has no valid block in pair {pair.pair}"
                return Problem(reason="not_a_number", detail=detail)
            ratios.append(tuple(log_ratio(block) for block in valid))
        shapes.append(
            ShapePairs(
                label=label,
                config_class=classes.get(label, "all"),
                pairs=tuple(ratios),
                best_us=_median(found, "best"),
                candidate_us=_median(found, "candidate"),
            )
        )
    return tuple(shapes)


def log_ratio(block: Sequence[Slot]) -> float:
    """Mean ln(time) of the best version's slots minus that of the candidate's: positive favours the candidate."""
    logs: dict[Side, list[float]] = {"best": [], "candidate": []}
    for slot in block:
        if slot.time_us is not None:
            logs[slot.side].append(math.log(slot.time_us))
    return statistics.fmean(logs["best"]) - statistics.fmean(logs["candidate"])


def _slot(cells: Cells, sides: dict[str, Side], line: int) -> Slot | Problem:
    if cells["side"] not in sides:
        return Problem(reason="schema_drift", detail=f"row {line}: side is {cells['side']!r}, expected a or b")
    try:
        block, slot = int(cells["block"]), int(cells["slot"])
        time_us = None if cells["time_us"] == ABSENT else float(cells["time_us"])
        at_us = float(cells["at_us"]) if "at_us" in cells else None
        shared = bool(int(cells["shared"])) if "shared" in cells else None
    except ValueError as error:
        return Problem(reason="not_a_number", detail=f"row {line}, shape {cells['label']!r}: {error}")
    if time_us is not None and not (math.isfinite(time_us) and time_us > 0):
        detail = f"row {line}, shape {cells['label']!r}, column 'time_us': {cells['time_us']!r} is not a time"
        return Problem(reason="not_a_number", detail=detail)
    return Slot(
        label=cells["label"],
        block=block,
        slot=slot,
        side=sides[cells["side"]],
        time_us=time_us,
        at_us=at_us,
        shared=shared,
    )


def _incomplete(slots: Sequence[Slot], requested: Sequence[str], blocks: int) -> Problem | None:
    by_label: dict[str, list[Slot]] = {}
    for slot in slots:
        by_label.setdefault(slot.label, []).append(slot)
    if missing := [label for label in requested if label not in by_label]:
        return Problem(reason="crash", detail=f"requested shapes were not timed (rule R2): {', '.join(missing)}")
    if extra := [label for label in by_label if requested and label not in requested]:
        return Problem(reason="crash", detail=f"shapes were timed that were not asked for: {', '.join(extra)}")
    for label, own in by_label.items():
        found = _blocks(own)
        if len(found) != blocks:
            return Problem(reason="crash", detail=f"shape {label!r} has {len(found)} blocks, {blocks} were asked for")
        for block in found:
            order = "".join("a" if slot.side == block[0].side else "b" for slot in block)
            if order != "abba" or [slot.slot for slot in block] != [block[0].slot + i for i in range(SLOTS)]:
                detail = f"shape {label!r}, block {block[0].block}: slots are not A B B A or B A A B"
                return Problem(reason="schema_drift", detail=detail)
    return None


def _blocks(slots: Iterable[Slot]) -> list[list[Slot]]:
    """The slots of one shape by block, each in slot order."""
    blocks: dict[int, list[Slot]] = {}
    for slot in slots:
        blocks.setdefault(slot.block, []).append(slot)
    return [sorted(block, key=_PLACE) for block in blocks.values()]


def _median(found: Iterable[Iterable[Slot]], side: Side) -> float:
    times = [slot.time_us for slots in found for slot in slots if slot.side == side]
    return statistics.median(time for time in times if time is not None)
