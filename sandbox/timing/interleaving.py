"""Two ways to time candidate and best interleaved: one process with both builds, or whole processes in turn."""

import hashlib
import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Literal, Protocol

from ridgeline.graph.contract import Argv, Contract, Scoring
from ridgeline.graph.evidence import BenchmarkFailed, Row, ShapePairs
from ridgeline.graph.judgment import JudgeFailed, TimedCall
from ridgeline.graph.ports import Judge
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.values import Conditions
from ridgeline.sandbox.timing.benchmark_csv import (
    ABSENT,
    Cells,
    Problem,
    Run,
    Stopwatch,
    header,
    read_rows,
    table,
    unusable,
)
from ridgeline.sandbox.timing.disturbances import Block, Disturbance, Span, find_disturbed, left_out
from ridgeline.sandbox.timing.observation import Quiet

# Reads what a paired harness timed, and turns times into block log-ratios; pure.

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
        """Of a timed pair of two interleaved versions: shape and number of each block, in the order they ran."""
        return tuple(dict.fromkeys((slot.label, slot.block) for slot in self.slots))

    @property
    def marked(self) -> tuple[tuple[str, int], ...]:
        """Of a timed pair of two interleaved versions: the blocks that the harness itself marked invalid in any slot."""
        return tuple(dict.fromkeys((slot.label, slot.block) for slot in self.slots if slot.time_us is None))

    def without(self, dropped: Collection[tuple[str, int]]) -> "Pair":
        """A timed pair of two interleaved versions with these blocks marked invalid, all four slots of each."""
        if not dropped:
            return self
        slots = (replace(slot, time_us=None) if (slot.label, slot.block) in dropped else slot for slot in self.slots)
        return self.model_copy(update={"slots": tuple(slots)})


def read_slots(data: bytes | None, *, a: Side, requested: Sequence[str], blocks: int) -> tuple[Slot, ...] | Problem:
    """From a paired benchmark's CSV: the slots of one process in which side `a` was that version; all blocks complete.

    The file has one of `HEADERS`.
    """
    first_line = (data or b"").partition(b"\n")[0].rstrip(b"\r")
    rows = table(data, next((names for names in HEADERS if first_line == header(names).encode()), HEADER))
    if isinstance(rows, Problem):
        return rows
    side_b: Side = "candidate" if a == "best" else "best"
    slots: list[Slot] = []
    for line, cells in enumerate(rows, start=2):
        slot = _slot_of_pair(cells, {"a": a, "b": side_b}, line)
        if isinstance(slot, Problem):
            return slot
        slots.append(slot)
    return _incomplete(slots, requested, blocks) or tuple(slots)


def shapes_of(
    pairs: Sequence[Pair], classes: dict[str, str], scoring: Scoring | None = None
) -> tuple[ShapePairs, ...] | Problem:
    """Of two interleaved versions: log-ratios per shape, pair and block; blocks with a slot without a time are left out."""
    by_label: dict[str, list[list[Slot]]] = {}
    for number, pair in enumerate(pairs):
        for slot in pair.slots:
            by_label.setdefault(slot.label, [[] for _ in pairs])[number].append(slot)
    shapes: list[ShapePairs] = []
    for label, by_pair in by_label.items():
        ratios: list[tuple[float, ...]] = []
        for pair, slots in zip(pairs, by_pair, strict=True):
            valid = [block for block in _blocks(slots) if all(slot.time_us is not None for slot in block)]
            if not valid:
                detail = f"shape {label!r} has no valid block in pair {pair.pair}"
                return Problem(reason="not_a_number", detail=detail)
            ratios.append(tuple(log_ratio(block) for block in valid))
        shapes.append(
            ShapePairs(
                label=label,
                config_class=classes.get(label, "all"),
                weight=scoring.weight(label) if scoring else 1.0,
                protected=scoring is not None and label in scoring.protected_shapes,
                pairs=tuple(ratios),
                best_us=_median(by_pair, "best"),
                candidate_us=_median(by_pair, "candidate"),
            )
        )
    return tuple(shapes)


def log_ratio(block: Sequence[Slot]) -> float:
    """Of two interleaved versions, in a block: mean ln(time) of the best's slots minus the candidate's: positive favours the latter."""
    logs: dict[Side, list[float]] = {"best": [], "candidate": []}
    for slot in block:
        if slot.time_us is not None:
            logs[slot.side].append(math.log(slot.time_us))
    return statistics.fmean(logs["best"]) - statistics.fmean(logs["candidate"])


def _slot_of_pair(cells: Cells, sides: dict[str, Side], line: int) -> Slot | Problem:
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
    for label, label_slots in by_label.items():
        label_blocks = _blocks(label_slots)
        if len(label_blocks) != blocks:
            return Problem(
                reason="crash", detail=f"shape {label!r} has {len(label_blocks)} blocks, {blocks} were asked for"
            )
        for block in label_blocks:
            order = "".join("a" if slot.side == block[0].side else "b" for slot in block)
            if order != "abba" or [slot.slot for slot in block] != [block[0].slot + i for i in range(SLOTS)]:
                detail = f"shape {label!r}, block {block[0].block}: slots are not A B B A or B A A B"
                return Problem(reason="schema_drift", detail=detail)
    return None


def _blocks(slots: Iterable[Slot]) -> list[list[Slot]]:
    """Of two interleaved versions: the timed slots of one shape by block, each in slot order."""
    blocks: dict[int, list[Slot]] = {}
    for slot in slots:
        blocks.setdefault(slot.block, []).append(slot)
    return [sorted(block, key=_PLACE) for block in blocks.values()]


def _median(by_pair: Iterable[Iterable[Slot]], side: Side) -> float:
    times = [slot.time_us for slots in by_pair for slot in slots if slot.side == side]
    return statistics.median(time for time in times if time is not None)


ORDERS: tuple[tuple[Side, Side, Side, Side], ...] = (
    ("best", "candidate", "candidate", "best"),
    ("candidate", "best", "best", "candidate"),
)


@dataclass(frozen=True, kw_only=True)
class Question:
    """Which two commits are compared, on which shapes (none named: all), and where they are built."""

    best: str
    candidate: str
    shapes: tuple[str, ...]
    blocks: int
    folders: tuple[Path, Path]
    """Of best and of candidate."""

    def folder(self, side: Side) -> Path:
        return (self.folders[0] if side == "best" else self.folders[1]).absolute()

    def commit(self, side: Side) -> str:
        return self.best if side == "best" else self.candidate

    def seed(self, pair: int, salt: str = "", *, attempt: int = 0) -> int:
        """The seed of an interleaved pair's process, the same every time; pairs and attempts are not arranged alike."""
        text = f"{self.best} {self.candidate} {pair} {salt}{f' attempt {attempt}' if attempt else ''}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


class Process(Value):
    """One timed process, for the raw record."""

    seed: int
    order: tuple[Side, ...]
    """Paired harness: which version was a, then b. Whole processes: the one version that ran."""
    seconds: float
    conditions: Conditions


class TimedPair(Value):
    """The slots of one pair and the processes they come from."""

    pair: Pair
    processes: tuple[Process, ...]
    disturbed: tuple[Disturbance, ...] = ()
    """Blocks to leave out, and why."""
    others: tuple["TimedPair", ...] = ()
    """Tries of the same pair that were disturbed more: kept for the record, never compared."""

    @property
    def seconds(self) -> float:
        """Seconds of all processes of a timed pair of interleaved versions, those of the other tries too."""
        return sum(process.seconds for process in self.processes) + sum(attempt.seconds for attempt in self.others)


class Interleaver(Protocol):
    """One way to time a pair. Another attempt is arranged by other coins."""

    def time(self, question: Question, number: int, attempt: int = 0) -> TimedPair | BenchmarkFailed: ...


def sides_of(question: Question, number: int, attempt: int) -> tuple[Side, Side, int]:
    """Which version a timed, interleaved pair knows as a, which as b, and the pair's seed."""
    coin = question.seed(number // 2, "coin", attempt=attempt) + number
    a: Side = "candidate" if coin & 1 else "best"
    return a, "best" if a == "candidate" else "candidate", question.seed(number, attempt=attempt)


@dataclass(frozen=True, kw_only=True)
class PairedHarness:
    """`paired_command`: one fresh process per pair loads both builds; a coin says which of them it knows as a.

    One coin for two pairs: the second of them has it the other way round, so neither side is a more often.
    """

    stopwatch: Stopwatch
    command: Argv

    def time(self, question: Question, number: int, attempt: int = 0) -> TimedPair | BenchmarkFailed:
        a, b, seed = sides_of(question, number, attempt)
        values = {
            "a": str(question.folder(a)),
            "b": str(question.folder(b)),
            "shapes": ",".join(question.shapes),
            "blocks": str(question.blocks),
            "seed": str(seed),
        }
        run = self.stopwatch.run(
            "paired_command",
            self.command,
            values=values,
            commits=(question.best, question.candidate),
            cwd=question.folder("best"),
        )
        who = f"pair {number} (a is the {a}, b is the {b})"
        if failure := run.find_failure(question.candidate, who=who):
            return failure
        slots = read_slots(run.data, a=a, requested=question.shapes, blocks=question.blocks)
        if isinstance(slots, Problem):
            return unusable(slots, question.candidate, who=who, seconds=run.exit.seconds)
        process = Process(seed=seed, order=(a, b), seconds=run.exit.seconds, conditions=run.conditions)
        return TimedPair(pair=Pair(pair=number, slots=slots), processes=(process,))


WAITS_TAKEN_OFF = (
    "other work had the core during timed calls; how long, by the kernel's count, is taken off their times"
)

COMPANY_SHARE = 0.05
"""Of all timed calls' time, what others had of their core on a machine that is not called quiet: each has a tick now and then."""


def had_company(calls: Sequence[TimedCall]) -> bool:
    """Whether others had the core for more than a little of these judged calls."""
    others_us = sum(call.waited_us or 0.0 for call in calls)
    return others_us > COMPANY_SHARE * sum(call.time_us for call in calls)


@dataclass(frozen=True, kw_only=True)
class JudgedPairs:
    """A task's own judge: one fresh worker per side and pair; a coin says which version is its a, as above."""

    stopwatch: Stopwatch
    judge: Judge
    task_file: str
    """From the contract's folder."""

    def time(self, question: Question, number: int, attempt: int = 0) -> TimedPair | BenchmarkFailed:
        a, b, seed = sides_of(question, number, attempt)
        best, timeout_s = question.folder("best"), self.stopwatch.commands.contract.timeouts.benchmark_s
        run = self.stopwatch.ask(
            lambda: self.judge.compare(
                best / self.task_file,
                question.folder(a),
                question.folder(b),
                shapes=question.shapes,
                blocks=question.blocks,
                timeout_s=timeout_s,
            ),
            commits=(question.best, question.candidate),
        )
        if failure := run.find_failure(question.candidate, who=f"pair {number} (a is the {a}, b is the {b})"):
            return failure
        assert not isinstance(run.answer, JudgeFailed)
        sides: dict[str, Side] = {"a": a, "b": b}
        slots = tuple(
            Slot(
                label=call.label,
                block=call.block,
                slot=call.slot,
                side=sides[call.side],
                time_us=call.time_us,
                at_us=call.at_us,
                shared=None if call.waited_us is None else False,
            )
            for call in run.answer
        )
        conditions = run.conditions
        if had_company(run.answer):
            conditions = conditions.model_copy(update={"notes": (*conditions.notes, WAITS_TAKEN_OFF)})
        process = Process(seed=seed, order=(a, b), seconds=run.seconds, conditions=conditions)
        return TimedPair(pair=Pair(pair=number, slots=slots), processes=(process,))


@dataclass(frozen=True, kw_only=True)
class WholeProcesses:
    """No paired command: a block is four fresh runs of the quick command, A B B A or B A A B by a coin."""

    stopwatch: Stopwatch
    contract: Contract

    def time(self, question: Question, number: int, attempt: int = 0) -> TimedPair | BenchmarkFailed:
        slots: list[Slot] = []
        processes: list[Process] = []
        for block in range(question.blocks):
            seed = question.seed(number, f"block {block}", attempt=attempt)
            for slot, side in enumerate(ORDERS[seed & 1]):
                rows = self._rows(question, side, number)
                if isinstance(rows, BenchmarkFailed):
                    return rows
                run, timed = rows
                slots += [_slot(row, (block, slot, side), self.contract, process=len(processes)) for row in timed]
                seconds = run.exit.seconds
                processes.append(Process(seed=seed, order=(side,), seconds=seconds, conditions=run.conditions))
        pair = Pair(pair=number, slots=tuple(slots))
        return TimedPair(pair=pair, processes=tuple(processes))

    def _rows(self, question: Question, side: Side, number: int) -> tuple[Run, tuple[Row, ...]] | BenchmarkFailed:
        commit = question.commit(side)
        run = self.stopwatch.run(
            "quick_command",
            self.contract.quick_command,
            values={"shapes": ",".join(question.shapes)},
            commits=(commit,),
            cwd=question.folder(side),
        )
        who = f"pair {number}, the {side}"
        if failure := run.find_failure(commit, who=who):
            return failure
        exact = any("{shapes}" in word for word in self.contract.quick_command)
        project = self.contract.read_as("quick_command")
        rows = read_rows(run.data, self.contract, requested=question.shapes, exact=exact, project=project)
        if isinstance(rows, Problem):
            return unusable(rows, commit, who=who, seconds=run.exit.seconds)
        if wrong := [row.label for row in rows if row.check != "PASS"]:
            detail = f"{who}: Check is not PASS for {', '.join(wrong)}"
            return BenchmarkFailed(commit=commit, reason="crash", detail=detail, seconds=run.exit.seconds)
        return run, rows


def _slot(row: Row, place: tuple[int, int, Side], contract: Contract, *, process: int) -> Slot:
    block, slot, side = place
    return Slot(label=row.label, block=block, slot=slot, side=side, time_us=time_us(row, contract), process=process)


def time_us(row: Row, contract: Contract) -> float:
    """For an interleaved pair: microseconds of one call by the column that decides; a rate stands as its inverse: the same ratio.

    The combined step 2/F + 4/B where both directions decide, else the time column, else the first metric.
    """
    scoring = contract.scoring
    present = {item.name: item.value for item in row.metrics}
    if scoring.combined and scoring.forward in present and scoring.backward in present:
        return 1e6 * (2 / present[scoring.forward] + 4 / present[scoring.backward])
    if scoring.time_ms in present:
        return 1e3 * present[scoring.time_ms]
    name = scoring.forward if scoring.combined and scoring.forward else scoring.primary_metric[0]
    value = row.metric(name)
    return 1e6 / value if scoring.higher_is_better else 1e6 * value


# Times a pair again when the machine disturbed it, and says what of several pairs is fit to be compared.
#
# Whether a pair is timed again, which of its tries counts and which blocks are left out depends on conditions alone:
# `ridgeline.sandbox.timing.disturbances` is never shown a time.

EXTRA_TRIES = 2
"""Of a disturbed pair, each in fresh processes: what lasts longer than three tries belongs to the machine."""


class Fit(Value):
    """The pairs that may be compared, without what was disturbed."""

    pairs: tuple[Pair, ...]
    dropped: int
    """Blocks left out, on both sides together."""
    timed_blocks: int
    """All blocks of the tries that count."""
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Steady:
    """`Interleaver` that gives a disturbed pair `EXTRA_TRIES` more tries, and keeps the least disturbed one."""

    interleaver: Interleaver
    host: bool
    """Times are taken by the processor, so that its load counts."""
    limit: float
    """Share of a pair's blocks that may be disturbed before it is timed again."""
    quiet: Quiet | None = None
    """Waits for the machine to rest before another try; None tries again at once."""

    def time(self, question: Question, number: int, attempt: int = 0) -> TimedPair | BenchmarkFailed:
        """Time one pair of interleaved versions. A try that fails fails the pair: a crash is no disturbance."""
        tries: list[TimedPair] = []
        for extra in range(EXTRA_TRIES + 1):
            if extra and self.host and self.quiet:
                self.quiet.wait()
            timed = self.interleaver.time(question, number, attempt + extra)
            if isinstance(timed, BenchmarkFailed):
                return timed
            tries.append(timed.model_copy(update={"disturbed": find_disturbed_blocks(timed, host=self.host)}))
            if not _time_again(tries[-1].pair.blocks, tries[-1].disturbed, self.limit):
                break
        best = min(tries, key=lambda timed_pair: len(timed_pair.disturbed))
        return best.model_copy(update={"others": tuple(timed_pair for timed_pair in tries if timed_pair is not best)})


def find_disturbed_blocks(timed: TimedPair, *, host: bool) -> tuple[Disturbance, ...]:
    """The blocks of a timed pair that the machine disturbed. The times are taken out before rules see anything."""
    spans = tuple(
        Span(
            label=slot.label,
            block=slot.block,
            side=slot.side,
            process=slot.process,
            at_us=slot.at_us,
            shared=slot.shared,
        )
        for slot in timed.pair.slots
    )
    return find_disturbed(spans, tuple(process.conditions for process in timed.processes), host=host)


def fit(timed_pairs: Sequence[TimedPair], question: Question, *, limit: float) -> Fit | BenchmarkFailed:
    """What is left of the timed pairs without disturbed blocks; `unstable` when more than `limit` of them had to go.

    Blocks that the harness marked count too. A pair that lost all blocks of a shape is left out whole, because pairs
    are compared shape by shape.
    """
    pairs: list[Pair] = []
    dropped: list[Disturbance] = []
    for timed_pair in timed_pairs:
        disturbed_blocks = {
            (disturbance.label, disturbance.block): disturbance
            for disturbance in (*_marks(timed_pair.pair), *timed_pair.disturbed)
        }
        if lost_label := _lost_pair(timed_pair.pair.blocks, disturbed_blocks):
            why = next(disturbance for disturbance in disturbed_blocks.values() if disturbance.label == lost_label)
            disturbed_blocks = {**{block: _same(why, block) for block in timed_pair.pair.blocks}, **disturbed_blocks}
        else:
            pairs.append(timed_pair.pair.without(disturbed_blocks))
        dropped += disturbed_blocks.values()
    timed_blocks = sum(len(timed_pair.pair.blocks) for timed_pair in timed_pairs)
    notes = (*left_out(dropped, timed_blocks), *_repeats(timed_pairs), *_unseen(timed_pairs))
    if pairs and len(dropped) <= limit * timed_blocks:
        return Fit(pairs=tuple(pairs), dropped=len(dropped), timed_blocks=timed_blocks, notes=notes)
    detail = f"the machine did not stay the same (at most {limit:.0%} may be left out): {'; '.join(notes)}"
    seconds = sum(timed_pair.seconds for timed_pair in timed_pairs)
    return BenchmarkFailed(commit=question.candidate, reason="unstable", detail=detail, seconds=seconds)


def _time_again(blocks: Sequence[Block], disturbances: Sequence[Disturbance], limit: float) -> bool:
    return (
        len(disturbances) > limit * len(blocks)
        or _lost_pair(blocks, {(disturbance.label, disturbance.block) for disturbance in disturbances}) is not None
    )


def _lost_pair(blocks: Sequence[Block], disturbed_blocks: Collection[Block]) -> str | None:
    """Of timed pairs without their disturbed blocks: a shape of one without any block left."""
    labels_with_blocks = {label for label, number in blocks if (label, number) not in disturbed_blocks}
    return next((label for label, _ in blocks if label not in labels_with_blocks), None)


def _marks(pair: Pair) -> tuple[Disturbance, ...]:
    return tuple(Disturbance(label=label, block=block, kind="harness") for label, block in pair.marked)


def _same(why: Disturbance, block: Block) -> Disturbance:
    return why.model_copy(update={"label": block[0], "block": block[1]})


def _repeats(timed_pairs: Sequence[TimedPair]) -> tuple[str, ...]:
    extra_tries = [len(timed_pair.others) for timed_pair in timed_pairs if timed_pair.others]
    if not extra_tries:
        return ()
    tries = f"{sum(extra_tries)} more {'try' if sum(extra_tries) == 1 else 'tries'}"
    return (f"{len(extra_tries)} of {len(timed_pairs)} pairs were disturbed and timed again, {tries} in all",)


def _unseen(timed_pairs: Sequence[TimedPair]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            note for timed_pair in timed_pairs for process in timed_pair.processes for note in process.conditions.notes
        )
    )
