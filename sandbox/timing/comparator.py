"""Whole commands in turn, A B B A or B A A B by a coin, every run a fresh process of the user's own."""

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import random
import re
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, get_args

from ridgeline.graph.errors import WorldError
from ridgeline.graph.evidence import BenchmarkFailed, Comparison, Exit
from ridgeline.graph.values import Artifact, Engine, Value
from ridgeline.sandbox.devices.gate import CardGate
from ridgeline.sandbox.devices.idle import unbound
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.devices.values import Conditions
from ridgeline.sandbox.isolation.environment import SECRET
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.store.durable import full_disk_named, require_room
from ridgeline.sandbox.timing.benchmark_csv import Problem
from ridgeline.sandbox.timing.interleaving import (
    ORDERS,
    Pair,
    Process,
    Question,
    Slot,
    Steady,
    TimedPair,
    fit,
    shapes_of,
)
from ridgeline.sandbox.timing.observation import CoreWatch

# Numbers that a command reports about itself: found by a regular expression, or in a CSV it writes; pure.

CHECK = "Check"
"""Column that says whether a row is right; a row that is not PASS has no speed."""
ENGINE = "engine"
"""Column that says what took the time, where the command knows."""
DEFAULT_LABEL = "label"


class Unreadable(ValueError):
    """A command ended well and reported nothing that can be used. One line: what was wrong and the mend."""


class RunReport(Value):
    """What one run said of itself, in its own unit."""

    numbers: tuple[tuple[str, float], ...]
    """(shape, positive number), in the order they were reported."""
    engine: Engine | None = None
    """None where the run did not say."""


class Reader(Protocol):
    """One way to find the numbers. Raises Unreadable."""

    def parse(self, output: str, file: bytes | None) -> RunReport:
        """`output`: standard output and error together; `file`: what the command wrote to `{csv}`."""
        ...


@dataclass(frozen=True, kw_only=True)
class ByRegex:
    """The one group of the one place where a pattern matches the output."""

    pattern: re.Pattern[str]

    def parse(self, output: str, file: bytes | None) -> RunReport:
        matches: list[str] = self.pattern.findall(output)
        if len(matches) != 1:
            times = "nothing" if not matches else f"{len(matches)} places"
            raise Unreadable(f"--metric-regex matches {times} of what the command printed; make it match one")
        return RunReport(numbers=(("all", _number(matches[0], "--metric-regex")),))


@dataclass(frozen=True, kw_only=True)
class ByCsv:
    """One column of a CSV: every row is a shape, named by the label column."""

    column: str
    label: str | None = None
    """None: `label` where there is such a column, else the row's number."""

    def parse(self, output: str, file: bytes | None) -> RunReport:
        rows = _of_file(file, self.column) if file is not None else _of_output(output, self.column)
        header, body = rows[0], rows[1:]
        if not body:
            raise Unreadable(f"--csv {self.column}: the header has no row below it")
        names = self._labels(header, body)
        _check(header, body, names)
        at = header.index(self.column)
        numbers = tuple(
            (name, _number(row[at], f"--csv {self.column}, row {name!r}"))
            for name, row in zip(names, body, strict=True)
        )
        return RunReport(numbers=numbers, engine=_engine(header, body))

    def _labels(self, header: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
        name = self.label or DEFAULT_LABEL
        if name not in header:
            if self.label:
                raise Unreadable(f"--label {name}: no such column; the header is {', '.join(header)}")
            return [f"row {number}" for number in range(1, len(body) + 1)] if len(body) > 1 else ["all"]
        names = [row[header.index(name)] for row in body]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise Unreadable(f"--csv: the label {twice[0]!r} is given twice; name a column of labels with --label")
        return names


def _of_file(data: bytes, column: str) -> list[list[str]]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"--csv {column}: the file is not UTF-8: byte {error.start}") from None
    rows = _cells(text)
    if not rows or column not in rows[0]:
        problem = f"the header is {', '.join(rows[0])}" if rows else "the file is empty"
        raise Unreadable(f"--csv {column}: no such column; {problem}")
    return _complete(rows, column)


def _of_output(output: str, column: str) -> list[list[str]]:
    """A timed command's table in its output: from the line that has the column to the next empty line."""
    lines = output.splitlines()
    start = next((at for at, line in enumerate(lines) if column in _first_reason(line)), None)
    if start is None:
        raise Unreadable(f"--csv {column}: the command neither wrote {{csv}} nor printed a header with that column")
    end = next((at for at in range(start, len(lines)) if not lines[at].strip()), len(lines))
    return _complete(_cells("\n".join(lines[start:end])), column)


def _complete(rows: list[list[str]], column: str) -> list[list[str]]:
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise Unreadable(
                f"--csv {column}: line {number} of the CSV has {len(row)} cells, its header has {len(rows[0])};"
                " write the CSV to the file {csv}, apart from other output"
            )
    return rows


def _cells(text: str) -> list[list[str]]:
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


def _first_reason(line: str) -> list[str]:
    return next(csv.reader([line]), [])


def _check(header: Sequence[str], body: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    if CHECK not in header:
        return
    at = header.index(CHECK)
    if wrong := [name for name, row in zip(names, body, strict=True) if row[at] != "PASS"]:
        raise Unreadable(f"--csv: {CHECK} is not PASS for {', '.join(wrong)}; what is wrong has no speed")


def _engine(header: Sequence[str], body: Sequence[Sequence[str]]) -> Engine | None:
    if ENGINE not in header:
        return None
    values = {row[header.index(ENGINE)] for row in body}
    engines: list[Engine] = [engine for engine in get_args(Engine) if engine in values]
    if len(values) != 1 or not engines:
        choices = ", ".join(get_args(Engine))
        raise Unreadable(
            f"--csv: the column {ENGINE} says {', '.join(sorted(values))}; all rows must say one of {choices}"
        )
    return engines[0]


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Unreadable(f"{where}: {text!r} is not a number") from None
    if not (math.isfinite(value) and value > 0):
        raise Unreadable(f"{where}: {text} is not above 0; only positive numbers have a ratio")
    return value


OUTPUT_BYTES = 1_000_000
"""Of a run's output that a pattern or a CSV is looked for in; more is cut in the middle."""
EMPTY_RUNS = 5


class CommandFailed(WorldError):
    """One of the two commands cannot be timed. `output` is the end of what it printed."""

    exit_code = 2

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class EnginesDiffer(WorldError):
    """Two runs say that different engines took their times."""

    exit_code = 2


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """How every run is made."""

    cwd: Path
    timeout_s: float
    core: int | None = None
    """Processor that every run is pinned to; None: the scheduler's choice."""
    wait_s: float = 3600
    """How long to wait, in seconds, while another campaign times something; a gate has its own patience."""
    gate: CardGate | None = None
    """Finds an idle card for every block of runs and binds them to it; None for commands of the processor."""

    @contextlib.contextmanager
    def device(self) -> Iterator[None]:
        """The device for timed commands: an idle card, or the processor's lease. Raises DeviceBusy and DeviceLost."""
        with self.gate.hold() if self.gate else lease("cpu", wait_s=self.wait_s):
            yield


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What is compared."""

    reader: Reader | None = None
    """None: the whole process, by the wall clock or with engine `cpu` by its processor time."""
    higher_is_better: bool = False
    engine: Engine = "wall"
    """What took the numbers, where the command's own CSV does not say."""

    @property
    def of_processor(self) -> bool:
        """Whether the kernel's count of processor time is compared, user and system, of the whole process tree."""
        return self.reader is None and self.engine == "cpu"


class Runs:
    """Makes single runs, and holds them to one set of rows and one engine.

    Raises CommandFailed, EnginesDiffer, ProgramMissing, DiskFull.
    """

    def __init__(self, metric: Metric, conduct: Conduct) -> None:
        self._metric = metric
        self._conduct = conduct
        self._labels: tuple[str, ...] = ()
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """What took the numbers of a comparison; known after the first run."""
        return self._engine or self._metric.engine

    @property
    def conduct(self) -> Conduct:
        """For timed commands: how every run of a comparison is made."""
        return self._conduct

    def empty_s(self) -> float:
        """Median seconds of a process that does nothing, started in the same way: what is in every time."""
        return statistics.median(self._seconds("true", self._start(("true",))) for _ in range(EMPTY_RUNS))

    def once(self, name: str, argv: tuple[str, ...]) -> tuple[float, Conditions, tuple[tuple[str, float], ...]]:
        """Seconds and conditions of one timed run of the command called `name`, and its costs by shape."""
        temporary = Path(tempfile.gettempdir())
        with full_disk_named(temporary), tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            file = Path(folder) / "out.csv"
            watch = CoreWatch(self._conduct.core)
            with watch:
                process = self._start(tuple(word.replace("{csv}", str(file)) for word in argv))
            if not process.ok:
                require_room(temporary)
            _ended_well(process, name, self._conduct.timeout_s)
            if self._metric.reader is None:
                return process.seconds, watch.conditions(), (("all", 1e6 * self._seconds(name, process)),)
            try:
                report = self._metric.reader.parse(process.output, file.read_bytes() if file.is_file() else None)
            except Unreadable as error:
                raise CommandFailed(f"{name}: {error}", process.output) from None
        return process.seconds, watch.conditions(), self._costs(name, report)

    def _seconds(self, name: str, process: Exit) -> float:
        """For timed commands: seconds of a run, by the clock that is compared."""
        if not self._metric.of_processor:
            return process.seconds
        if not process.cpu_s:
            raise CommandFailed(
                f"{name}: the kernel counted no processor time of `{' '.join(process.argv)}`;"
                " make it work longer, or compare wall times"
            )
        return process.cpu_s

    def _costs(self, name: str, report: RunReport) -> tuple[tuple[str, float], ...]:
        """Costs of a timed run, smaller is better: a rate stands as its inverse, whose ratio is the same."""
        labels = tuple(label for label, _ in report.numbers)
        if self._labels and sorted(labels) != sorted(self._labels):
            raise CommandFailed(
                f"{name}: reports {', '.join(labels)}, the runs before it {', '.join(self._labels)};"
                " both commands must report the same rows in every run"
            )
        engine = report.engine or self._metric.engine
        if self._engine is not None and engine != self._engine:
            raise EnginesDiffer(
                f"{name}: its numbers are by engine {engine}, those before by {self._engine};"
                " numbers of two engines are never compared"
            )
        self._labels, self._engine = self._labels or labels, engine
        costs = {label: 1 / value if self._metric.higher_is_better else value for label, value in report.numbers}
        return tuple((label, costs[label]) for label in self._labels)

    def _start(self, argv: tuple[str, ...]) -> Exit:
        # the user's own command: it may use the network, and is told everything but what is named like a secret
        env = {name: value for name, value in os.environ.items() if not SECRET.search(name)}
        conduct = self._conduct
        if conduct.gate is not None and conduct.gate.environment:
            env = {**unbound(env), **conduct.gate.environment}
        return run(
            argv,
            cwd=conduct.cwd,
            timeout_s=conduct.timeout_s,
            env=env,
            cpu=conduct.core,
            network=True,
            output_bytes=OUTPUT_BYTES,
        )


@dataclass(frozen=True, kw_only=True)
class Turns:
    """`Interleaver` of two command lines, called A and B; of A and A for an A/A run."""

    runs: Runs
    a: tuple[str, ...]
    b: tuple[str, ...] | None
    """None: A in both roles, so that what differs is the measurement."""
    seed: int

    def time(self, question: Question, number: int, attempt: int = 0) -> TimedPair:
        """Time one pair: blocks of four runs. Raises what `Runs` raises, and DeviceBusy."""
        sides = {"best": ("A", self.a), "candidate": ("A", self.a) if self.b is None else ("B", self.b)}
        slots: list[Slot] = []
        processes: list[Process] = []
        for block in range(question.blocks):
            text = f"{self.seed} {'A A' if self.b is None else 'A B'} {number} {block} {attempt}"
            with self.runs.conduct.device():
                for place, side in enumerate(ORDERS[random.Random(text).randrange(2)]):
                    seconds, conditions, costs = self.runs.once(*sides[side])
                    slots += [
                        Slot(label=label, block=block, slot=place, side=side, time_us=cost, process=len(processes))
                        for label, cost in costs
                    ]
                    processes.append(Process(seed=self.seed, order=(side,), seconds=seconds, conditions=conditions))
        return TimedPair(pair=Pair(pair=number, slots=tuple(slots)), processes=tuple(processes))


class Versus:
    """Times two command lines against each other, a disturbed pair again; raises what `Turns.time` raises."""

    def __init__(
        self, a: tuple[str, ...], b: tuple[str, ...], *, runs: Runs, blocks: int, seed: int, limit: float
    ) -> None:
        """`limit`: share of disturbed blocks beyond which a pair is timed again, and at last given up."""
        self._argv, self._runs, self._limit = (a, b), runs, limit
        # what others do on all cores together says little about where an unpinned command ran
        host = runs.engine == "wall" and runs.conduct.core is not None
        self._twins = Steady(interleaver=Turns(runs=runs, a=a, b=None, seed=seed), host=host, limit=limit)
        self._pairs = Steady(interleaver=Turns(runs=runs, a=a, b=b, seed=seed), host=host, limit=limit)
        self._blocks = blocks

    def warm_up(self) -> None:
        """Run each timed command once, not counted: caches fill, and one that cannot be timed is known at once."""
        with self._runs.conduct.device():
            for name, argv in zip("AB", self._argv, strict=True):
                self._runs.once(name, argv)

    def pair(self, number: int, *, twins: bool = False) -> TimedPair:
        """For timed commands: time one pair of A and B, or of A and A."""
        question = self._question("A", "A" if twins else "B")
        timed = (self._twins if twins else self._pairs).time(question, number)
        assert isinstance(timed, TimedPair), "a command that fails raises"
        return timed

    def compare(self, pairs: Sequence[TimedPair], *, machine: str, twins: bool = False) -> Comparison | BenchmarkFailed:
        """What timed pairs amount to; BenchmarkFailed when the machine disturbed too much of them."""
        question = self._question("A", "A" if twins else "B")
        selection = fit(pairs, question, limit=self._limit)
        if isinstance(selection, BenchmarkFailed):
            return selection
        shapes = shapes_of(selection.pairs, {})
        assert not isinstance(shapes, Problem), "every run reported a number for every shape"
        raw = encode_pairs(pairs)
        return Comparison(
            best=question.best,
            candidate=question.candidate,
            machine=machine,
            engine=self._runs.engine,
            shapes=shapes,
            dropped_blocks=selection.dropped,
            taken_blocks=selection.timed_blocks,
            notes=selection.notes,
            raw=Artifact(sha256=hashlib.sha256(raw).hexdigest(), name="pairs.json", size=len(raw)),
            seconds=sum(pair.seconds for pair in pairs),
        )

    def _question(self, best: str, candidate: str) -> Question:
        folder = self._runs.conduct.cwd
        return Question(best=best, candidate=candidate, shapes=(), blocks=self._blocks, folders=(folder, folder))


def encode_pairs(pairs: Sequence[TimedPair]) -> bytes:
    """The raw timed pairs as JSON, byte for byte what `Comparison.raw` is the digest of."""
    return json.dumps([pair.model_dump(mode="json") for pair in pairs], separators=(",", ":")).encode()


def _ended_well(process: Exit, name: str, timeout_s: float) -> None:
    command = " ".join(process.argv)
    if process.timed_out:
        raise CommandFailed(f"{name}: `{command}` did not end within {timeout_s:g} s; allow more with --timeout")
    if not process.ok:
        lines = [line.strip() for line in process.output.splitlines() if line.strip()]
        final_line = f": {lines[-1][:300]}" if lines else ", and printed nothing"
        raise CommandFailed(
            f"{name}: `{command}` ended with exit code {process.returncode}{final_line}", process.output
        )
