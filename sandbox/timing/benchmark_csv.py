"""One fresh process that must write a CSV: under the lease, pinned, and read only after it has ended."""

import contextlib
import csv
import io
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Generic, Literal, TypeVar

from ridgeline.graph.contract import Argv, BenchmarkOutput, Contract, ProjectOutput
from ridgeline.graph.evidence import BenchmarkFailed, Check, Exit, Row
from ridgeline.graph.judgment import JudgeFailed, SizeTime
from ridgeline.graph.values import Named, Value
from ridgeline.sandbox.devices.gate import LeasedCard
from ridgeline.sandbox.devices.tools import CardWatch, smi_of
from ridgeline.sandbox.devices.values import Conditions
from ridgeline.sandbox.isolation.environment import select_variables
from ridgeline.sandbox.isolation.process import OUTPUT_BYTES
from ridgeline.sandbox.timing.observation import CoreWatch
from ridgeline.sandbox.workspace.checker import obeys
from ridgeline.sandbox.workspace.commands import Commands, fill, pinned_core, pinned_to, summarize_exit

# Reads the CSV of a benchmark against the header that was frozen at the baseline; whatever is off is named.

ABSENT = "-"
"""A cell that was left out on purpose, for example a backward time where there is no backward pass."""

RowProblem = Literal["crash", "no_csv", "schema_drift", "zero_rows", "not_a_number"]


class Problem(Value):
    """Why a CSV holds no usable numbers."""

    reason: RowProblem
    detail: str


Cells = dict[str, str]


def read_rows(
    data: bytes | None,
    contract: Contract,
    *,
    requested: Sequence[str],
    exact: bool,
    project: ProjectOutput | None = None,
) -> tuple[Row, ...] | Problem:
    """Rows of the project's benchmark CSV in the file's order; `data` is None when the command wrote no file.

    `requested` are the labels that must be there (empty: any). With `exact`, no others may be there; without it, others
    are left out, because the command had no way to know which were wanted. `project`: the file is in these columns.
    """
    cells = table(data, project.columns if project else contract.benchmark_output.columns)
    if isinstance(cells, Problem):
        return cells
    label = contract.benchmark_output.label
    if project is not None:
        cells = translate(cells, project, contract)
    if problem := _wrong_labels([row[label] for row in cells], requested, exact):
        return problem
    rows: list[Row] = []
    for row in cells:
        if requested and row[label] not in requested:
            continue
        parsed = _row(row, contract)
        if isinstance(parsed, Problem):
            return parsed
        rows.append(parsed)
    return tuple(rows)


def translate(rows: Sequence[Cells], project: ProjectOutput, contract: Contract) -> list[Cells]:
    """Rows of a project's own benchmark in the contract's columns, one for each label; what it does not say is left out."""
    by_label: dict[str, Cells] = {}
    output, time_ms = contract.benchmark_output, contract.scoring.time_ms
    for row in rows:
        name = "".join(
            row[part] if position % 2 else part for position, part in enumerate(re.split(r"[{}]", project.label))
        )
        cells = {column: row.get(column, ABSENT) for column in output.columns}
        if project.time_us and time_ms:
            time_us = _number(row[project.time_us])
            cells[time_ms] = row[project.time_us] if time_us is None else f"{time_us / 1000:.9g}"
        by_label.setdefault(name, {**cells, output.label: name, output.check: _read_check(row, project, contract)})
    return list(by_label.values())


def _read_check(row: Cells, project: ProjectOutput, contract: Contract) -> str:
    """A row's check in the project's benchmark CSV: its own column; without one, the contract's rule of correctness."""
    if project.check is not None:
        return row[project.check]
    return "PASS" if obeys(contract.correctness, row[contract.correctness.column or ""]) else "FAIL"


def rows_of(times: Sequence[SizeTime], contract: Contract) -> tuple[Row, ...] | Problem:
    """Beside a project's own benchmark: what the judge timed, as rows of its columns, which must be those of `csv_of`."""
    output = contract.benchmark_output
    if not times:
        return Problem(reason="zero_rows", detail="the task has no timed size")
    if tuple(output.columns) != (columns := columns_of(times[0])):
        return Problem(reason="schema_drift", detail=difference(header(output.columns), header(columns)))
    rows: list[Row] = []
    for size_time in times:
        row = _row(_cells(size_time), contract)
        if isinstance(row, Problem):
            return row
        rows.append(row)
    return tuple(rows)


def csv_of(times: Sequence[SizeTime]) -> bytes:
    """Where the judge times in the place of a project's own benchmark: its times as a CSV, for the record."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns_of(times[0]) if times else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_cells(size_time) for size_time in times)
    return out.getvalue().encode()


def columns_of(size: SizeTime) -> tuple[str, ...]:
    """Where the judge times in a project's benchmark's place: the CSV's header: label, dimensions, class, Check, Time (ms)."""
    return ("label", *size.dims, "class", "Check", "Time (ms)")


def _cells(size: SizeTime) -> Cells:
    cells = {"label": size.label, **{name: str(extent) for name, extent in size.dims.items()}}
    return {**cells, "class": size.config_class, "Check": "PASS", "Time (ms)": f"{size.time_ms:.6g}"}


def table(data: bytes | None, columns: Sequence[str]) -> list[Cells] | Problem:
    """The cells of a project's benchmark CSV under a header that must equal `columns` byte for byte; every row complete, at least one."""
    if data is None:
        return Problem(reason="no_csv", detail="the command ended without writing the CSV it was given as {csv}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Problem(reason="schema_drift", detail=f"the CSV is not UTF-8: byte {error.start}")
    first_line = text.split("\n", 1)[0].removesuffix("\r")
    if first_line != (expected := header(columns)):
        return Problem(reason="schema_drift", detail=difference(expected, first_line))
    rows: list[Cells] = []
    names, *lines = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    for line, row in enumerate(lines, start=2):
        if len(row) != len(names):
            detail = f"row {line} has {len(row)} cells, the header has {len(columns)}: a partial or malformed row"
            return Problem(reason="schema_drift", detail=detail)
        rows.append(dict(zip(names, row, strict=True)))
    if not rows:
        return Problem(reason="zero_rows", detail="the CSV has a header and no rows")
    return rows


def header(columns: Sequence[str]) -> str:
    """The first line of a project's benchmark CSV with these columns, without its line end."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(columns)
    return out.getvalue()


def difference(expected: str, actual: str) -> str:
    """Where two headers of a project's benchmark CSVs part, with the column on both sides."""
    at = next((i for i, (a, b) in enumerate(zip(expected, actual, strict=False)) if a != b), None)
    if at is None:
        at = min(len(expected), len(actual))
    column = expected[:at].count(",") + 1
    return f"header differs at character {at + 1} (column {column}): expected {expected!r}, found {actual!r}"


def _wrong_labels(labels: list[str], requested: Sequence[str], exact: bool) -> Problem | None:
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        return Problem(reason="schema_drift", detail=f"duplicate labels: {', '.join(twice)}")
    if missing := [label for label in requested if label not in labels]:
        return Problem(reason="crash", detail=f"requested shapes have no row (rule R2): {', '.join(missing)}")
    extra = [label for label in labels if label not in requested]
    if exact and requested and extra:
        return Problem(reason="crash", detail=f"rows that were not asked for (rule R2): {', '.join(extra)}")
    return None


def _row(cells: Cells, contract: Contract) -> Row | Problem:
    output = contract.benchmark_output
    passed = cells[output.check] == "PASS"
    metrics: list[Named] = []
    for column in output.columns:
        if column in (output.label, output.check) or cells[column] == ABSENT:
            continue
        number = _number(cells[column])
        if number is not None and math.isfinite(number):
            metrics.append(Named(name=column, value=number))
    if passed and (problem := _unusable(cells, contract)):
        return problem
    return Row(
        label=cells[output.label],
        check=check_of(cells, output),
        metrics=tuple(metrics),
        config=tuple((column, cells[column]) for column in output.config_columns),
    )


def check_of(cells: Cells, output: BenchmarkOutput) -> Check:
    """The check of a project's benchmark row: a word that is neither PASS nor FAIL says nothing good, so it is an ERROR."""
    match cells[output.check]:
        case "PASS":
            return "PASS"
        case "FAIL":
            return "FAIL"
        case _:
            return "ERROR"


def _unusable(cells: Cells, contract: Contract) -> Problem | None:
    """The first scoring cell of a project's benchmark's passing row that is no positive finite number; spreads may be zero."""
    scoring = contract.scoring
    needed = {*scoring.primary_metric, scoring.forward} - {None}
    for column in dict.fromkeys((*scoring.primary_metric, scoring.forward, scoring.backward, scoring.time_ms)):
        if column is None or column not in cells:
            continue
        if cells[column] == ABSENT:
            if column in needed:
                return _bad(cells, column, contract)
            continue
        number = _number(cells[column])
        if number is None or not math.isfinite(number) or number <= 0:
            return _bad(cells, column, contract)
        spread = cells.get(f"{column}_stddev", ABSENT)
        deviation = 0.0 if spread == ABSENT else _number(spread)
        if deviation is None or not math.isfinite(deviation) or deviation < 0:
            return _bad(cells, f"{column}_stddev", contract)
    return None


def _bad(cells: Cells, column: str, contract: Contract) -> Problem:
    label = cells[contract.benchmark_output.label]
    detail = f"row {label!r}, column {column!r}: {cells[column]!r} is not a usable number, though the row says PASS"
    return Problem(reason="not_a_number", detail=detail)


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)  # Python alone reads 1_000 as a number
    except ValueError:
        return None


Reason = Literal["crash", "timeout", "tampered"]
TAMPERED = "files that no run may change were changed by this one: {}"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one timed process left behind."""

    exit: Exit
    data: bytes | None
    """The CSV, None when none was written."""
    tampered: tuple[str, ...]
    conditions: Conditions

    def find_failure(self, commit: str, *, who: str, tolerated: int | None = None) -> BenchmarkFailed | None:
        """Why a timed process of a project's benchmark counts for nothing; None when it ended well. `tolerated`: may pass too."""
        reason: Reason
        if self.tampered:
            reason, detail = "tampered", TAMPERED.format(", ".join(self.tampered))
        elif self.exit.timed_out:
            reason, detail = "timeout", summarize_exit(self.exit)
        elif self.exit.ok or self.exit.returncode == tolerated:
            return None
        else:
            reason, detail = "crash", summarize_exit(self.exit)
        return BenchmarkFailed(commit=commit, reason=reason, detail=f"{who}: {detail}", seconds=self.exit.seconds)


@dataclass(frozen=True, kw_only=True)
class JudgeAnswer(Generic[T]):
    """What the judge answered, and what was seen meanwhile."""

    answer: T
    tampered: tuple[str, ...]
    conditions: Conditions
    seconds: float

    def find_failure(self, commit: str, *, who: str) -> BenchmarkFailed | None:
        """Why the judge's timing, in the place of a project's benchmark, counts for nothing; None where it is one."""
        reason: Reason = "crash"
        if self.tampered:
            reason, detail = "tampered", TAMPERED.format(", ".join(self.tampered))
        elif isinstance(self.answer, JudgeFailed):
            reason = "timeout" if self.answer.reason == "timeout" else "crash"
            detail = f"side {self.answer.side}: {self.answer.detail}" if self.answer.side else self.answer.detail
        else:
            return None
        return BenchmarkFailed(commit=commit, reason=reason, detail=f"{who}: {detail}", seconds=self.seconds)


@dataclass(frozen=True, kw_only=True)
class Stopwatch:
    """Runs the contract's timed commands, one at a time on this machine."""

    commands: Commands
    wait_s: float
    """How long to wait for others who hold the device, in seconds."""

    def run(self, field: str, argv: Argv, *, values: Mapping[str, str], commits: tuple[str, ...], cwd: Path) -> Run:
        """Run one timed process of a project's benchmark, with no CSV there before: no older file can be read for its own.

        Raises `DeviceBusy` when the lease does not come, `ProgramMissing` when the command does not exist.
        """
        contract = self.commands.contract
        core = CoreWatch(pinned_core() if contract.threads == 1 else None)
        with (
            self.commands.place_csv(argv, commit=commits[0], cwd=cwd) as path,
            self.commands.device(wait_s=self.wait_s) as bound,
            self._watching(bound) as card,
        ):
            ran = _watch(self.commands, core).run_guarded(
                field,
                fill(argv, {"csv": str(path), **values}),
                commits=commits,
                cwd=cwd,
                timeout_s=contract.timeouts.benchmark_s,
                timed=True,
                csv=path,
            )
        return Run(exit=ran.exit, data=ran.csv, tampered=ran.tampered, conditions=_gather_conditions(core, card))

    def ask(self, question: Callable[[], T], *, commits: tuple[str, ...]) -> "JudgeAnswer[T]":
        """In a project benchmark's place: have the judge, in this process, time under the lease, pinned and watched as a timed command is.

        Raises `DeviceBusy`, and what the question raises.
        """
        cpu = pinned_core() if self.commands.contract.threads == 1 else None
        core = CoreWatch(cpu, inside=True)
        with (
            self.commands.device(wait_s=self.wait_s) as bound,
            self._watching(bound) as card,
            self.commands.guard(commits) as guard,
            pinned_to(cpu),
            core,
        ):
            began = time.monotonic()
            answer = question()
            seconds = time.monotonic() - began
        return JudgeAnswer(
            answer=answer, tampered=guard.tampered, conditions=_gather_conditions(core, card), seconds=seconds
        )

    @contextlib.contextmanager
    def _watching(self, bound: LeasedCard | None) -> Iterator[CardWatch | None]:
        environment = select_variables(self.commands.contract.pass_environment)
        smi = smi_of(self.commands.kind, environment, card=bound.card if bound else None)
        if smi is None:
            yield None
            return
        card = CardWatch(smi)
        with card.around():
            yield card


@dataclass(frozen=True, kw_only=True)
class _WatchedCommands(Commands):
    """Commands of which one is watched while its process runs, and not while its tree is looked after."""

    watch: CoreWatch

    def plain(
        self,
        field: str,
        argv: tuple[str, ...],
        *,
        cwd: Path,
        timeout_s: float,
        timed: bool = False,
        extra: Mapping[str, str] | None = None,
        profiler: bool = False,
        commits: tuple[str, ...] = (),
        output_bytes: int = OUTPUT_BYTES,
    ) -> Exit:
        with self.watch:
            return super().plain(
                field,
                argv,
                cwd=cwd,
                timeout_s=timeout_s,
                timed=timed,
                extra=extra,
                profiler=profiler,
                commits=commits,
                output_bytes=output_bytes,
            )


def _watch(commands: Commands, watch: CoreWatch) -> Commands:
    values = {field.name: getattr(commands, field.name) for field in fields(commands)}
    return _WatchedCommands(**values, watch=watch)


def _gather_conditions(core: CoreWatch, card: CardWatch | None) -> Conditions:
    conditions = core.conditions()
    if card is None:
        return conditions
    of_card, notes = card.conditions(conditions.load.began_us, conditions.load.ended_us)
    return conditions.model_copy(update={"card": of_card, "notes": (*conditions.notes, *notes)})


def unusable(problem: Problem, commit: str, *, who: str, seconds: float) -> BenchmarkFailed:
    """A project's benchmark CSV that cannot be used, as the measurement's failure."""
    return BenchmarkFailed(commit=commit, reason=problem.reason, detail=f"{who}: {problem.detail}", seconds=seconds)
