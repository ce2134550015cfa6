"""Two ways to time candidate and best interleaved: one process with both builds, or whole processes in turn."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ridgeline.graph.contract import Argv, Contract
from ridgeline.graph.evidence import BenchmarkFailed, Row
from ridgeline.graph.values import Value
from ridgeline.sandbox.timing.conditions.rules import Disturbed
from ridgeline.sandbox.timing.conditions.values import Conditions
from ridgeline.sandbox.timing.csv_run import Run, Stopwatch, unusable
from ridgeline.sandbox.timing.csv_schema import Problem, read
from ridgeline.sandbox.timing.pairs import Pair, Side, Slot, read_slots

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
        """The same question is arranged the same way every time; pairs and attempts are not arranged alike."""
        text = f"{self.best} {self.candidate} {pair} {salt}{f' attempt {attempt}' if attempt else ''}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


class Process(Value):
    """One timed process, for the raw record."""

    seed: int
    order: tuple[Side, ...]
    """Paired harness: which version was a, then b. Whole processes: the one version that ran."""
    seconds: float
    conditions: Conditions


class Timed(Value):
    """The slots of one pair and the processes they come from."""

    pair: Pair
    processes: tuple[Process, ...]
    disturbed: tuple[Disturbed, ...] = ()
    """Blocks to leave out, and why."""
    others: tuple["Timed", ...] = ()
    """Tries of the same pair that were disturbed more: kept for the record, never compared."""

    @property
    def seconds(self) -> float:
        """Of all processes, those of the other tries too."""
        return sum(process.seconds for process in self.processes) + sum(other.seconds for other in self.others)


class Interleaver(Protocol):
    """One way to time a pair. Another attempt is arranged by other coins."""

    def time(self, question: Question, number: int, attempt: int = 0) -> Timed | BenchmarkFailed: ...


@dataclass(frozen=True, kw_only=True)
class PairedHarness:
    """`paired_command`: one fresh process per pair loads both builds; a coin says which of them it knows as a.

    One coin for two pairs: the second of them has it the other way round, so neither side is a more often.
    """

    stopwatch: Stopwatch
    command: Argv

    def time(self, question: Question, number: int, attempt: int = 0) -> Timed | BenchmarkFailed:
        seed = question.seed(number, attempt=attempt)
        coin = question.seed(number // 2, "coin", attempt=attempt) + number
        a: Side = "candidate" if coin & 1 else "best"
        b: Side = "best" if a == "candidate" else "candidate"
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
        if failed := run.failed(question.candidate, who=who):
            return failed
        slots = read_slots(run.data, a=a, requested=question.shapes, blocks=question.blocks)
        if isinstance(slots, Problem):
            return unusable(slots, question.candidate, who=who, seconds=run.exit.seconds)
        process = Process(seed=seed, order=(a, b), seconds=run.exit.seconds, conditions=run.conditions)
        return Timed(pair=Pair(pair=number, slots=slots), processes=(process,))


@dataclass(frozen=True, kw_only=True)
class WholeProcesses:
    """No paired command: a block is four fresh runs of the quick command, A B B A or B A A B by a coin."""

    stopwatch: Stopwatch
    contract: Contract

    def time(self, question: Question, number: int, attempt: int = 0) -> Timed | BenchmarkFailed:
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
        return Timed(pair=pair, processes=tuple(processes))

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
        if failed := run.failed(commit, who=who):
            return failed
        exact = any("{shapes}" in word for word in self.contract.quick_command)
        rows = read(run.data, self.contract, requested=question.shapes, exact=exact)
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
    """The time of one call in microseconds by what decides; a rate stands as its inverse, whose ratio is the same.

    The combined step 2/F + 4/B where both directions decide (rules 8.5), else the time column, else the first metric.
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
