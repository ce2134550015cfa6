"""Reads recorded timings into comparisons that the real rule can judge again; format and origin: README.md here."""

import gzip
import hashlib
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ridgeline.graph.evidence import Comparison, ShapePairs
from ridgeline.graph.values import Artifact, Value

FOLDER = Path(__file__).parent / "recordings"
Role = Literal["A", "B", "C", "D"]
"""A base, B its byte-identical twin, C planted slower, D planted faster (newer recordings only)."""


class RecordingError(ValueError):
    """A file that is no recording: the message names what is wrong."""


class Block(Value):
    """Roles in the order in which they were timed, and the microseconds of one call of each."""

    order: str
    us: tuple[float, ...]

    def level(self, role: Role) -> float:
        """In a noise recording: mean natural logarithm of that role's samples; RecordingError when the block has none."""
        logs = [math.log(us) for name, us in zip(self.order, self.us, strict=True) if name == role]
        if not logs:
            raise RecordingError(f"no sample of {role} in a block {self.order}")
        return statistics.fmean(logs)


class Process(Value):
    """What one fresh process measured of one kernel with one engine."""

    captured: str
    """Roles in the order in which they were compiled and captured."""
    blocks: tuple[Block, ...]
    seconds: float
    """Wall seconds that a pair of this kernel and engine alone would take, start included; 0.0 where not recorded."""

    def ratios(self, best: Role, candidate: Role, *, blocks: int) -> tuple[float, ...]:
        """In a noise recording: ln(t_best / t_candidate) of the first `blocks` blocks."""
        return tuple(block.level(best) - block.level(candidate) for block in self.blocks[:blocks])

    def median_us(self, role: Role) -> float:
        """A study of noise: median microseconds of one call; RecordingError when the process has no sample of that role."""
        rows = [zip(block.order, block.us, strict=True) for block in self.blocks]
        values = [us for row in rows for name, us in row if name == role]
        if not values:
            raise RecordingError(f"no sample of {role}")
        return statistics.median(values)

    def sign(self, role: Role, against: Role) -> int:
        """In a noise recording: 1 where `role` was captured before `against`, else -1: undoes the coin that swapped them."""
        return 1 if self.captured.index(role) < self.captured.index(against) else -1


class KernelRecord(Value):
    """One kernel and one engine: every process, in the order in which they ran."""

    name: str
    """Of the recording."""
    kernel: str
    engine: Literal["event", "graph"]
    machine: str
    planted: bool
    """Whether C does more work than A; the oldest recording planted that in two kernels alone."""
    processes: tuple[Process, ...]
    raw: Artifact

    @property
    def level_us(self) -> float:
        """A study of noise: median over processes of the median time of one call of the base, in microseconds."""
        return statistics.median([process.median_us("A") for process in self.processes])

    def comparison(self, best: Role, candidate: Role, *, blocks: int, gain: float = 0.0) -> Comparison:
        """Every process as a pair, with at most so many of its blocks; `gain` is that share which the candidate's
        samples are made faster by afterwards."""
        shift = math.log1p(gain)
        ratios = [process.ratios(best, candidate, blocks=blocks) for process in self.processes]
        shape = ShapePairs(
            label=self.kernel,
            pairs=tuple(tuple(ratio + shift for ratio in pair) for pair in ratios),
            best_us=statistics.median([process.median_us(best) for process in self.processes]),
            candidate_us=statistics.median([process.median_us(candidate) for process in self.processes]) / (1 + gain),
        )
        return Comparison(
            best=best,
            candidate=candidate,
            machine=self.machine,
            engine=self.engine,
            shapes=(shape,),
            taken_blocks=sum(map(len, ratios)),
            raw=self.raw,
            seconds=math.fsum(process.seconds for process in self.processes),
        )


def recordings() -> tuple[Path, ...]:
    """The noise recordings that come with Ridgeline, oldest first."""
    return tuple(
        FOLDER / f"{name}.jsonl.gz"
        for name in ("h100_abba_59processes", "h100_2026-11-21_72x10", "h100_2026-11-21_48x32")
    )


def load(path: Path) -> tuple[KernelRecord, ...]:
    """Every kernel with every engine of one noise recording. Raises RecordingError when it is none."""
    try:
        content = gzip.decompress(path.read_bytes())
        lines = [json.loads(line) for line in content.decode().splitlines()]
    except (OSError, EOFError, ValueError) as error:
        raise RecordingError(f"{path.name}: {error}") from error
    raw = Artifact(sha256=hashlib.sha256(content).hexdigest(), name=path.name, size=len(content))
    return parse_recording(lines, raw=raw)


def parse_recording(lines: Sequence[dict[str, Any]], *, raw: Artifact) -> tuple[KernelRecord, ...]:
    """A study of noise: parsed lines: a head with `schema` where there is one, then one process each. Raises RecordingError."""
    head = lines[0] if lines and "schema" in lines[0] else {}
    runs = list(lines[1:] if head else lines)
    if not runs or not all("kernels" in run for run in runs):
        raise RecordingError(f"{raw.name}: no process, or one without kernels")
    return tuple(
        KernelRecord(
            name=raw.name.removesuffix(".jsonl.gz"),
            kernel=kernel,
            engine=engine,
            machine=head.get("device", "NVIDIA H100 80GB HBM3"),
            planted=bool(head) or kernel in ("softmax_8192x4096", "add_64M"),
            processes=tuple(_process(run, kernel, engine) for run in runs),
            raw=raw,
        )
        for kernel in sorted(runs[0]["kernels"])
        for engine in ("event", "graph")
    )


def _process(run: dict[str, Any], kernel: str, engine: str) -> Process:
    times = run["kernels"][kernel]
    blocks = tuple(Block(order=row[0], us=tuple(row[1:])) for row in times[engine])
    return Process(captured=times.get("captured", "ABC"), blocks=blocks, seconds=_seconds(run, kernel, engine))


def _seconds(run: dict[str, Any], kernel: str, engine: str) -> float:
    """Seconds of a noise recording: start and end of the process, preparing this kernel, and half of the sampling."""
    if "seconds" not in run:
        return 0.0
    parts = ("prepared_s", "event_s", "graph_s")
    all_kernels = math.fsum(times[part] for times in run["kernels"].values() for part in parts)
    this_kernel = run["kernels"][kernel]
    return float(run["seconds"] - all_kernels + this_kernel["prepared_s"] + this_kernel[f"{engine}_s"] / 2)
