"""Times versions: alone for the record, interleaved for the decision."""

import hashlib
import json
import logging
import math
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from pydantic import Field, ValidationError, model_validator

from ridgeline.graph.contract import Argv, Contract
from ridgeline.graph.errors import DiskFull
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Comparison, Level, Row, Source
from ridgeline.graph.judgment import JudgeFailed, SizeTime
from ridgeline.graph.limits import Limits
from ridgeline.graph.ports import Artifacts, Device, Judge
from ridgeline.graph.stats.noise import KnownNoise
from ridgeline.graph.values import SCHEMA, Value
from ridgeline.sandbox.store.durable import cache_folder, write_whole
from ridgeline.sandbox.timing.benchmark_csv import Problem, Stopwatch, csv_of, read_rows, rows_of, unusable
from ridgeline.sandbox.timing.interleaving import (
    Interleaver,
    JudgedPairs,
    PairedHarness,
    Question,
    Steady,
    TimedPair,
    WholeProcesses,
    fit,
    shapes_of,
)
from ridgeline.sandbox.timing.observation import Quiet
from ridgeline.sandbox.workspace.builder import BuildBroken, ContractBuilder
from ridgeline.sandbox.workspace.commands import Commands, pinned_core

# What this machine measured of a version against itself, kept for a day so that the next campaign need not wait.

logger = logging.getLogger(__name__)

KEPT_S = 24 * 3600
"""Oldest answer in seconds: noise belongs to a day's load, temperature and neighbours, not to a machine for ever."""


class CalibrationRequest(Value):
    """What makes two calibrations the same question."""

    machine: str
    """Fingerprint; it covers processor, driver and compiler."""
    host: str = Field(default_factory=platform.node)
    """Machines of one model may share a home folder, but not their noise."""
    content: str
    """The contract's folder at the commit, by git's name for it: when and on what it was committed does not matter."""
    commands: tuple[tuple[str, ...], ...]
    """Build and timed command."""
    conditions: tuple[str, ...] = ()
    """Whatever else decides how the command runs: threads, variables that are passed on, sizes."""
    shapes: tuple[str, ...]
    blocks: int
    engine: str

    @property
    def key(self) -> str:
        """sha256 of the question for a stored calibration."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class StoredCalibration(Value):
    """One file of the cache."""

    schema_version: int
    key: str
    at: float
    """Seconds since the epoch when the last pair had been timed."""
    asked: int
    """Pairs that were asked for."""
    budget_s: float
    known: KnownNoise | None = None
    """When fewer pairs were enough."""
    comparison: Comparison
    raw: str
    """The raw pairs, JSON: what `comparison.raw` names."""

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if hashlib.sha256(self.raw.encode()).hexdigest() != self.comparison.raw.sha256:
            raise ValueError("the raw pairs are not those that the comparison was made from")
        return self

    def enough(self, pairs: int, budget_s: float, known: KnownNoise | None) -> bool:
        """Whether measuring again could not give more: it has as many pairs, or ended early by the same rule."""
        same_rule = self.asked >= pairs and self.budget_s >= budget_s and self.known == known
        return self.pairs >= pairs or same_rule

    @property
    def pairs(self) -> int:
        return min(len(shape.pairs) for shape in self.comparison.shapes)


class Calibrations:
    """A folder of JSON files, one per question. Nothing in it is needed: what cannot be read is measured again."""

    def __init__(self, folder: Path | None, *, now: Callable[[], float] = time.time) -> None:
        """`folder` None keeps nothing. `now`: seconds since the epoch."""
        self._folder = folder
        self._now = now

    def find(
        self, request: CalibrationRequest, *, pairs: int, budget_s: float, known: KnownNoise | None = None
    ) -> StoredCalibration | None:
        """The stored calibration for that question, not older than a day and with as many pairs as measuring would give."""
        path = self._path(request)
        if path is None:
            return None
        answer = self._load(path, request)
        return answer if answer is not None and answer.enough(pairs, budget_s, known) else None

    def _load(self, path: Path, request: CalibrationRequest) -> StoredCalibration | None:
        """The stored answer to `request`, measured on this machine at most KEPT_S seconds ago; None without one."""
        try:
            answer = StoredCalibration.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            logger.info("%s: cannot be used, so it is measured again: %s", path, str(error).splitlines()[0])
            return None
        is_answer = (
            answer.schema_version == SCHEMA
            and answer.key == request.key
            and answer.comparison.machine == request.machine
        )
        return answer if is_answer and 0 <= self._now() - answer.at <= KEPT_S else None

    def keep(
        self,
        request: CalibrationRequest,
        comparison: Comparison,
        raw: str,
        *,
        pairs: int,
        budget_s: float,
        known: KnownNoise | None = None,
    ) -> None:
        """Store a calibration; files that are too old go. A folder that cannot be written is no error.

        A short answer, such as a canary's, does not take the place of a longer one.
        """
        path = self._path(request)
        if path is None:
            return
        answer = StoredCalibration(
            schema_version=SCHEMA,
            key=request.key,
            at=self._now(),
            asked=pairs,
            budget_s=budget_s,
            known=known,
            comparison=comparison,
            raw=raw,
        )
        earlier = self._load(path, request)
        if earlier is not None and earlier.pairs > answer.pairs:
            return
        try:
            self._forget_old(path.parent)
            write_whole(path, answer.model_dump_json().encode())
        except (OSError, DiskFull) as error:
            logger.info("%s: not kept: %s", path, error)

    def ago(self, answer: StoredCalibration) -> str:
        """How long ago a stored calibration was measured, for people."""
        minutes = round((self._now() - answer.at) / 60)
        return f"{minutes} min ago" if minutes < 90 else f"{round(minutes / 60)} h ago"

    def _path(self, request: CalibrationRequest) -> Path | None:
        return None if self._folder is None else self._folder / f"{request.key}.json"

    def _forget_old(self, folder: Path) -> None:
        for old in folder.glob("*.json"):
            if self._now() - old.stat().st_mtime > KEPT_S:
                old.unlink(missing_ok=True)


def conditions(contract: Contract) -> tuple[str, ...]:
    """How the contract has its timed commands run, as far as it can change their noise."""
    usual = (str(contract.threads), str(contract.memory_limit_mb), json.dumps(contract.pass_environment))
    return (*usual, json.dumps(contract.scoring.shape_weights)) if contract.scoring.shape_weights else usual


SOME_FAILED = 1
"""Exit code of a benchmark that ran to its end and found a wrong row."""
FEWEST_PAIRS = 2
"""One pair says nothing about how pairs differ."""
KEPT_PAIRS = 4
"""A calibration of so many pairs stands, with a note, where a later one fails: one judgement in hundreds fails by chance."""
UNFIT_FOR_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, kw_only=True)
class BusyMachineRule:
    """How a machine that does other things too is borne."""

    dropped_limit: float = Limits().dropped_blocks_limit
    """Share of disturbed blocks beyond which a comparison is `unstable`."""
    quiet_s: float = 0
    """How long one comparison waits in all for a disturbed core to rest, in seconds."""


BEARING = BusyMachineRule()


@dataclass(frozen=True, kw_only=True)
class _GoodBenchmark:
    """One benchmark that ended well."""

    rows: tuple[Row, ...]
    csv: bytes
    log: bytes | None
    """What the command printed; None where none ran."""
    seconds: float


class ContractTimer:
    """`ports.Timer`: the contract's benchmark, quick and paired commands. Raises what `Stopwatch.run` raises."""

    def __init__(
        self,
        commands: Commands,
        builder: ContractBuilder,
        *,
        artifacts: Artifacts,
        device: Device,
        wait_s: float = 3600,
        calibrations: Calibrations | None = None,
        bearing: BusyMachineRule = BEARING,
        show_pair: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`wait_s`: how long timing waits for a busy device before `DeviceBusy`, in seconds.

        `calibrations`: what this machine measured before; default: the user's own cache.

        `show_pair`: told which pair begins, `pair 3 of 15`; nothing depends on it.
        """
        self._commands = commands
        self._show_pair = show_pair
        self._builder = builder
        self._artifacts = artifacts
        self._device = device
        self._stopwatch = Stopwatch(commands=commands, wait_s=wait_s)
        self._classes: dict[str, str] = {}
        self._judged: tuple[str, tuple[SizeTime, ...]] = ("", ())
        """The version that the judge timed last, and the times."""
        self._bearing = bearing
        self._calibrations = Calibrations(cache_folder("calibrations")) if calibrations is None else calibrations

    def benchmark(
        self, commit: str, *, level: Level, source: str, shapes: tuple[str, ...], repeat: int, purpose: str
    ) -> Benchmark | BenchmarkFailed:
        """One run of the project's benchmark (`source` project), of the quick validation, or of the best known kernel."""
        contract = self._commands.contract
        command, field = _choose_command(contract, source)
        try:
            tree = self._builder.ensure_built(commit)
        except BuildBroken as error:
            return _broken(error)
        name = UNFIT_FOR_NAMES.sub("-", f"{source}-{purpose or level}-{repeat}")
        if self._commands.judge is not None and contract.task_file and source != "best_known":
            recalled = self._recall_baseline(commit, shapes=shapes) if purpose == "baseline" else None
            measured = recalled or self._ask_judge(self._commands.judge, commit, tree, field=field, shapes=shapes)
        else:
            measured = self._run_command(commit, tree, field=field, command=command, shapes=shapes)
        if isinstance(measured, BenchmarkFailed):
            return measured
        self._classes |= {row.label: row.config_class for row in measured.rows}
        return Benchmark(
            commit=commit,
            machine=self._device.machine().fingerprint,
            engine=contract.scoring.engine,
            level=level,
            repeat=repeat,
            source=cast(Source, source),
            rows=measured.rows,
            csv=self._artifacts.put(f"{name}.csv", measured.csv),
            log=None if measured.log is None else self._artifacts.put(f"{name}.log", measured.log),
            seconds=measured.seconds,
        )

    def _ask_judge(
        self, judge: Judge, commit: str, tree: Path, *, field: str, shapes: tuple[str, ...]
    ) -> "_GoodBenchmark | BenchmarkFailed":
        contract = self._commands.contract
        task_file, timeout_s = tree.absolute() / (contract.task_file or ""), contract.timeouts.benchmark_s
        run = self._stopwatch.ask(
            lambda: judge.benchmark(task_file, tree.absolute(), shapes=shapes, timeout_s=timeout_s), commits=(commit,)
        )
        if failure := run.find_failure(commit, who=field):
            return failure
        assert not isinstance(run.answer, JudgeFailed)
        rows = rows_of(run.answer, contract)
        if isinstance(rows, Problem):
            return unusable(rows, commit, who=field, seconds=run.seconds)
        self._judged = (commit, run.answer)
        return _GoodBenchmark(rows=rows, csv=csv_of(run.answer), log=None, seconds=run.seconds)

    def _recall_baseline(self, commit: str, *, shapes: tuple[str, ...]) -> "_GoodBenchmark | None":
        """What the judge just timed of that version, for the sizes wanted: all its commands are one measurement."""
        judged_commit, times = self._judged
        asked = [time for label in shapes for time in times if time.label == label]
        if judged_commit != commit or not shapes or len(asked) != len(shapes):
            return None
        rows = rows_of(asked, self._commands.contract)
        return None if isinstance(rows, Problem) else _GoodBenchmark(rows=rows, csv=csv_of(asked), log=None, seconds=0)

    def _run_command(
        self, commit: str, tree: Path, *, field: str, command: Argv, shapes: tuple[str, ...]
    ) -> "_GoodBenchmark | BenchmarkFailed":
        run = self._stopwatch.run(field, command, values={"shapes": ",".join(shapes)}, commits=(commit,), cwd=tree)
        if failure := run.find_failure(commit, who=field, tolerated=SOME_FAILED):
            return failure
        exact = any("{shapes}" in word for word in command)
        contract = self._commands.contract
        rows = read_rows(run.data, contract, requested=shapes, exact=exact, project=contract.read_as(field))
        if isinstance(rows, Problem):
            return _explain(unusable(rows, commit, who=field, seconds=run.exit.seconds), run.exit.output)
        if not run.exit.ok and all(row.check == "PASS" for row in rows):
            detail = f"{field}: exit code {run.exit.returncode}, though every row says PASS"
            return BenchmarkFailed(commit=commit, reason="crash", detail=detail, seconds=run.exit.seconds)
        return _GoodBenchmark(rows=rows, csv=run.data or b"", log=run.exit.output.encode(), seconds=run.exit.seconds)

    def compare(
        self,
        *,
        best: str,
        candidate: str,
        shapes: tuple[str, ...],
        first_pair: int,
        pairs: int,
        blocks: int,
        purpose: str,
    ) -> Comparison | BenchmarkFailed:
        """Pairs `first_pair` .. `first_pair + pairs - 1`, each in fresh processes; one failure fails them all."""
        question = self._question(best, candidate, shapes=shapes, blocks=blocks)
        if isinstance(question, BenchmarkFailed):
            return question
        timed_pairs = self._time(question, range(first_pair, first_pair + pairs))
        return (
            timed_pairs
            if isinstance(timed_pairs, BenchmarkFailed)
            else self._comparison(question, timed_pairs, purpose)
        )

    def calibrate(
        self,
        commit: str,
        *,
        shapes: tuple[str, ...],
        pairs: int,
        blocks: int,
        budget_s: float,
        fresh: bool,
        purpose: str,
        known: KnownNoise | None = None,
    ) -> Comparison | BenchmarkFailed:
        """Time that commit and its twin (A/A), checked out and built apart, as any two versions are.

        Ends after the pair in which `budget_s` seconds of timing were over, but not with fewer than two pairs, where
        `known` says that noise is small for sure, and where a pair fails after `KEPT_PAIRS`: a note says so, and it is
        not remembered. It waits no longer than `budget_s` for a busy machine.
        `fresh=False` may answer from the cache, with a note that says so and no seconds of this campaign's.
        """
        request = self._ask(commit, shapes=shapes, blocks=blocks)
        if not fresh and (answer := self._calibrations.find(request, pairs=pairs, budget_s=budget_s, known=known)):
            return self._remember(commit, answer, purpose)
        question = self._question(commit, self._commands.trees.twin(commit), shapes=shapes, blocks=blocks)
        if isinstance(question, BenchmarkFailed):
            return question.model_copy(update={"commit": commit})
        until = time.monotonic() + budget_s
        numbers = range(pairs)

        def enough(timed_pairs: list[TimedPair]) -> bool:
            if len(timed_pairs) >= FEWEST_PAIRS and time.monotonic() >= until:
                return True
            return known is not None and self._is_known(question, timed_pairs, known)

        failures: list[str] = []

        def stands(timed_pairs: list[TimedPair], failed: BenchmarkFailed) -> bool:
            if len(timed_pairs) < KEPT_PAIRS or failed.reason not in ("crash", "timeout", "unstable"):
                return False
            why = " ".join(failed.detail.split())
            failures.append(f"of these {len(timed_pairs)} pairs alone: the next failed ({failed.reason}): {why}")
            return True

        timed_pairs = self._time(question, numbers, patience_s=budget_s, enough=enough, stands=stands)
        comparison = (
            timed_pairs
            if isinstance(timed_pairs, BenchmarkFailed)
            else self._comparison(question, timed_pairs, purpose)
        )
        if isinstance(comparison, BenchmarkFailed):
            return comparison.model_copy(update={"commit": commit})
        comparison = comparison.model_copy(update={"candidate": commit, "notes": (*comparison.notes, *failures)})
        if failures:
            return comparison
        raw = self._artifacts.get(comparison.raw).decode()
        self._calibrations.keep(request, comparison, raw, pairs=pairs, budget_s=budget_s, known=known)
        return comparison

    def _is_known(self, question: Question, timed_pairs: list[TimedPair], known: KnownNoise) -> bool:
        """Whether noise is small for sure by these pairs, without the blocks that the machine disturbed."""
        selection = fit(timed_pairs, question, limit=self._bearing.dropped_limit)
        if isinstance(selection, BenchmarkFailed):
            return False
        shapes = shapes_of(selection.pairs, self._classes, self._commands.contract.scoring)
        return not isinstance(shapes, Problem) and known.holds(shapes)

    def _ask(self, commit: str, *, shapes: tuple[str, ...], blocks: int) -> CalibrationRequest:
        contract = self._commands.contract
        return CalibrationRequest(
            machine=self._device.machine().fingerprint,
            content=self._commands.trees.content(commit),
            commands=(contract.rebuild.command or (), contract.paired_command or contract.quick_command),
            conditions=conditions(contract),
            shapes=shapes,
            blocks=blocks,
            engine=contract.scoring.engine,
        )

    def _remember(self, commit: str, answer: StoredCalibration, purpose: str) -> Comparison:
        raw = self._artifacts.put(_raw_name(purpose), answer.raw.encode())
        note = f"measured on this machine {self._calibrations.ago(answer)}, of the same content, commands and shapes"
        changes = {"best": commit, "candidate": commit, "raw": raw, "seconds": 0.0}
        return answer.comparison.model_copy(update={**changes, "notes": (note, *answer.comparison.notes)})

    def _question(
        self, best: str, candidate: str, *, shapes: tuple[str, ...], blocks: int
    ) -> Question | BenchmarkFailed:
        """Both versions to be timed, checked out and built."""
        self._commands.trees.pair(best, candidate)
        try:
            folders = self._builder.ensure_built(best), self._builder.ensure_built(candidate)
        except BuildBroken as error:
            return _broken(error)
        return Question(best=best, candidate=candidate, shapes=shapes, blocks=blocks, folders=folders)

    def _time(
        self,
        question: Question,
        numbers: range,
        *,
        patience_s: float = math.inf,
        enough: Callable[[list[TimedPair]], bool] = lambda _: False,
        stands: Callable[[list[TimedPair], BenchmarkFailed], bool] = lambda *_: False,
    ) -> list[TimedPair] | BenchmarkFailed:
        """Time the pairs with these numbers, in order, until those that were timed are `enough`, or one failed.

        The failure is the answer, but where what was timed before it `stands`.
        For a busy machine it waits so long as the campaign's setting says, and no longer than `patience_s` seconds.
        """
        interleaver = self.choose_interleaver(patience_s)
        timed_pairs: list[TimedPair] = []
        for number in numbers:
            self._show_pair(f"pair {len(timed_pairs) + 1} of {len(numbers)}")
            result = interleaver.time(question, number)
            if isinstance(result, BenchmarkFailed):
                if stands(timed_pairs, result):
                    break
                return result
            timed_pairs.append(result)
            if enough(timed_pairs):
                break
        return self._learn_classes(question, timed_pairs) or timed_pairs

    def _learn_classes(self, question: Question, timed_pairs: list[TimedPair]) -> BenchmarkFailed | None:
        """A paired CSV has no configuration columns: one quick run of the best version names the classes it lacks.

        Rarely needed: a benchmark of the same shapes in this process has named them already.
        """
        labels = {slot.label for pair in timed_pairs for slot in pair.pair.slots}
        if not self._commands.contract.benchmark_output.config_columns or labels <= self._classes.keys():
            return None
        quick_run = self.benchmark(
            question.best, level="quick", source="quick", shapes=tuple(sorted(labels)), repeat=0, purpose="classes"
        )
        return quick_run if isinstance(quick_run, BenchmarkFailed) else None

    def choose_interleaver(self, patience_s: float) -> Steady:
        """What times a pair by the contract, and waits for a busy machine, `patience_s` seconds in all at most."""
        contract = self._commands.contract
        plain: Interleaver = WholeProcesses(stopwatch=self._stopwatch, contract=contract)
        if self._commands.judge is not None and contract.task_file:
            plain = JudgedPairs(stopwatch=self._stopwatch, judge=self._commands.judge, task_file=contract.task_file)
        elif contract.paired_command is not None:
            plain = PairedHarness(stopwatch=self._stopwatch, command=contract.paired_command)
        core = pinned_core() if contract.threads == 1 else None
        quiet_s = min(self._bearing.quiet_s, patience_s)
        quiet = Quiet(core, total_s=quiet_s) if quiet_s else None
        host = contract.scoring.engine == "wall"
        return Steady(interleaver=plain, host=host, limit=self._bearing.dropped_limit, quiet=quiet)

    def _comparison(
        self, question: Question, timed_pairs: list[TimedPair], purpose: str
    ) -> Comparison | BenchmarkFailed:
        selection = fit(timed_pairs, question, limit=self._bearing.dropped_limit)
        if isinstance(selection, BenchmarkFailed):
            return selection
        seconds = sum(pair.seconds for pair in timed_pairs)
        shapes = shapes_of(selection.pairs, self._classes, self._commands.contract.scoring)
        if isinstance(shapes, Problem):
            return unusable(shapes, question.candidate, who="comparison", seconds=seconds)
        raw = json.dumps([pair.model_dump(mode="json") for pair in timed_pairs], separators=(",", ":"))
        return Comparison(
            best=question.best,
            candidate=question.candidate,
            machine=self._device.machine().fingerprint,
            engine=self._commands.contract.scoring.engine,
            shapes=shapes,
            dropped_blocks=selection.dropped,
            taken_blocks=selection.timed_blocks,
            notes=selection.notes,
            raw=self._artifacts.put(_raw_name(purpose), raw.encode()),
            seconds=seconds,
        )


def _raw_name(purpose: str) -> str:
    return UNFIT_FOR_NAMES.sub("-", f"pairs-{purpose}") + ".json"


def _explain(failure: BenchmarkFailed, output: str) -> BenchmarkFailed:
    """Why a timed command failed, with the end of what it printed, which often says why its CSV is unusable."""
    final_lines = "\n".join(output.splitlines()[-10:])
    return failure.model_copy(update={"detail": f"{failure.detail}\n{final_lines}".rstrip()})


def _choose_command(contract: Contract, source: str) -> tuple[Argv, str]:
    """The command that a benchmark's source means, and its field. Raises ValueError for one that there is not."""
    if source == "best_known" and contract.best_known is not None:
        return contract.best_known.command, "best_known.command"
    if source not in ("project", "quick"):
        raise ValueError(f"source is {source!r}; it is project or quick")
    field = "benchmark_command" if source == "project" else "quick_command"
    return (contract.benchmark_command if source == "project" else contract.quick_command), field


def _broken(error: BuildBroken) -> BenchmarkFailed:
    seconds = error.result.exit.seconds if error.result.exit else 0.0
    return BenchmarkFailed(commit=error.result.commit, reason="crash", detail=str(error), seconds=seconds)
