"""Times versions: alone for the record, interleaved for the decision."""

import json
import re

from graph.evidence import Benchmark, BenchmarkFailed, Comparison, Level
from graph.ports import Artifacts, Device
from sandbox.abba import Interleaver, PairedHarness, Question, Timed, WholeProcesses
from sandbox.builder import BuildBroken, ContractBuilder
from sandbox.commands import Commands
from sandbox.csv_run import Stopwatch, unusable
from sandbox.csv_schema import Problem, read
from sandbox.pairs import shapes_of

SOME_FAILED = 1
"""Exit code of a benchmark that ran to its end and found a wrong row (rules 8.3)."""
UNFIT_FOR_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


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
    ) -> None:
        """`wait_s`: how long to wait for a busy device before `DeviceBusy`, in seconds."""
        self._commands = commands
        self._builder = builder
        self._artifacts = artifacts
        self._device = device
        self._stopwatch = Stopwatch(commands=commands, wait_s=wait_s)
        self._classes: dict[str, str] = {}

    def benchmark(
        self, commit: str, *, level: Level, source: str, shapes: tuple[str, ...], repeat: int, purpose: str
    ) -> Benchmark | BenchmarkFailed:
        """One run of the project's benchmark (`source` project) or of the quick validation (quick)."""
        if source not in ("project", "quick"):
            raise ValueError(f"source is {source!r}; it is project or quick")
        contract = self._commands.contract
        field = "benchmark_command" if source == "project" else "quick_command"
        command = contract.benchmark_command if source == "project" else contract.quick_command
        try:
            tree = self._builder.ensure_built(commit)
        except BuildBroken as error:
            return _broken(error)
        run = self._stopwatch.run(field, command, values={"shapes": ",".join(shapes)}, commits=(commit,), cwd=tree)
        if failed := run.failed(commit, who=field, tolerated=SOME_FAILED):
            return failed
        exact = any("{shapes}" in word for word in command)
        rows = read(run.data, contract, requested=shapes, exact=exact)
        if isinstance(rows, Problem):
            return _explained(unusable(rows, commit, who=field, seconds=run.exit.seconds), run.exit.output)
        if not run.exit.ok and all(row.check == "PASS" for row in rows):
            detail = f"{field}: exit code {run.exit.returncode}, though every row says PASS"
            return BenchmarkFailed(commit=commit, reason="crash", detail=detail, seconds=run.exit.seconds)
        self._classes |= {row.label: row.config_class for row in rows}
        name = UNFIT_FOR_NAMES.sub("-", f"{source}-{purpose or level}-{repeat}")
        return Benchmark(
            commit=commit,
            machine=self._device.machine().fingerprint,
            engine=contract.scoring.engine,
            level=level,
            repeat=repeat,
            source="project" if source == "project" else "quick",
            rows=rows,
            csv=self._artifacts.put(f"{name}.csv", run.data or b""),
            log=self._artifacts.put(f"{name}.log", run.exit.output.encode()),
            seconds=run.exit.seconds,
        )

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
        self._commands.trees.pair(best, candidate)
        try:
            folders = self._builder.ensure_built(best), self._builder.ensure_built(candidate)
        except BuildBroken as error:
            return _broken(error)
        question = Question(best=best, candidate=candidate, shapes=shapes, blocks=blocks, folders=folders)
        interleaver = self._interleaver()
        timed: list[Timed] = []
        for number in range(first_pair, first_pair + pairs):
            result = interleaver.time(question, number)
            if isinstance(result, BenchmarkFailed):
                return result
            timed.append(result)
        if failed := self._learn_classes(question, timed):
            return failed
        return self._comparison(question, timed, purpose)

    def _learn_classes(self, question: Question, timed: list[Timed]) -> BenchmarkFailed | None:
        """A paired CSV has no configuration columns: one quick run of the best version names the classes it lacks.

        Rarely needed: a benchmark of the same shapes in this process has named them already.
        """
        labels = {slot.label for pair in timed for slot in pair.pair.slots}
        if not self._commands.contract.benchmark_output.config_columns or labels <= self._classes.keys():
            return None
        asked = self.benchmark(
            question.best, level="quick", source="quick", shapes=tuple(sorted(labels)), repeat=0, purpose="classes"
        )
        return asked if isinstance(asked, BenchmarkFailed) else None

    def _interleaver(self) -> Interleaver:
        contract = self._commands.contract
        if contract.paired_command is not None:
            return PairedHarness(stopwatch=self._stopwatch, command=contract.paired_command)
        return WholeProcesses(stopwatch=self._stopwatch, contract=contract)

    def _comparison(self, question: Question, timed: list[Timed], purpose: str) -> Comparison | BenchmarkFailed:
        seconds = sum(process.seconds for pair in timed for process in pair.processes)
        shapes = shapes_of([pair.pair for pair in timed], self._classes)
        if isinstance(shapes, Problem):
            return unusable(shapes, question.candidate, who="comparison", seconds=seconds)
        raw = json.dumps([pair.model_dump(mode="json") for pair in timed], separators=(",", ":"))
        name = UNFIT_FOR_NAMES.sub("-", f"pairs-{purpose}")
        return Comparison(
            best=question.best,
            candidate=question.candidate,
            machine=self._device.machine().fingerprint,
            engine=self._commands.contract.scoring.engine,
            shapes=shapes[0],
            dropped_blocks=shapes[1],
            raw=self._artifacts.put(f"{name}.json", raw.encode()),
            seconds=seconds,
        )


def _explained(failed: BenchmarkFailed, output: str) -> BenchmarkFailed:
    """With the end of what the command printed, which often says why its CSV is unusable."""
    last = "\n".join(output.splitlines()[-10:])
    return failed.model_copy(update={"detail": f"{failed.detail}\n{last}".rstrip()})


def _broken(error: BuildBroken) -> BenchmarkFailed:
    seconds = error.result.exit.seconds if error.result.exit else 0.0
    return BenchmarkFailed(commit=error.result.commit, reason="crash", detail=str(error), seconds=seconds)
