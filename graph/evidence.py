"""Everything measured. Each piece carries the commit, the device and the engine that it belongs to."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ridgeline.graph.kernel_profile import KernelProfile, Rung
from ridgeline.graph.values import Answer, Artifact, Engine, Named, Value, is_default, is_empty, is_none

Level = Literal["quick", "full"]
Check = Literal["PASS", "FAIL", "ERROR"]
Source = Literal["quick", "project", "best_known"]


class MixedEvidence(ValueError):
    """Two numbers of different engines, commands or machines were about to be compared."""


class Exit(Value):
    """What a command did. A command's failure is a value; a provider's failure is an exception."""

    argv: tuple[str, ...]
    returncode: int | None
    """None exactly when it was killed for time."""
    timed_out: bool = False
    seconds: float
    cpu_s: Annotated[float | None, Field(exclude_if=is_none)] = None
    """User and system time of the process and of all whose end was waited for in it; None, and in no record, where it
    was not seen."""
    output: str = ""
    """Standard output and error, head and tail, with what was left out stated."""

    @property
    def ok(self) -> bool:
        return self.returncode == 0 and not self.timed_out

    @model_validator(mode="after")
    def _killed_or_exited(self) -> Self:
        if (self.returncode is None) != self.timed_out:
            raise ValueError("a command either exited with a code or ran out of time")
        return self


class Machine(Value):
    """The device numbers are bound to."""

    kind: Literal["cpu", "nvidia", "amd"]
    name: str
    arch: str
    """x86_64, gfx942, sm_90, ..."""
    fingerprint: str
    """Changes when numbers stop being comparable: model, clocks policy, driver, core count."""
    features: tuple[str, ...] = ()
    """Instruction sets, for example avx2 and fma."""
    cores: int = 1
    l1d_bytes: int | None = None
    l2_bytes: int | None = None
    l3_bytes: int | None = None
    compiler: str = ""
    """Of a processor's machine its compiler; of a card torch, Triton and the driver, with their versions."""


class Rate(Value):
    """A rate that was measured along with others."""

    name: str
    value: float
    unit: str


def _unsaid(value: object) -> bool:
    """Whether a field of measured evidence is left out of a record, so that a line reads as before the field existed."""
    return value is None or value in ((), False)


class Ceilings(Value):
    """Peaks that bound this machine, and where they come from. None where nothing is known."""

    copy_gbps: float | None
    """Copy bandwidth in GB/s counting bytes read plus bytes written."""
    flops_gflops: float | None
    """In GFLOP/s for the contract's dtype: of fused multiply-adds in one pinned thread, of a GPU's matrix products."""
    method: str
    """How those that were measured were."""
    machine: str
    """Machine fingerprint."""
    copy_source: str = ""
    """`path:L<n>` of the document that gives the bandwidth; empty when it was measured here."""
    flops_source: str = ""
    """`path:L<n>` of the document that gives the compute peak; empty when it was measured here."""
    kept: Annotated[bool, Field(exclude_if=_unsaid)] = False
    """Measured before it was asked for, and kept since. Nothing is ended on such a number: it is measured again."""
    others: Annotated[tuple[Rate, ...], Field(exclude_if=_unsaid)] = ()
    """What was measured besides, and bounds nothing by itself."""


class SizedCopy(Value):
    """A copy of the very traffic of a shape: what a call that finds its data in a cache can be held against."""

    traffic_bytes: int
    """Bytes read plus bytes written."""
    gbps: float
    """GB/s counting both."""


TOUCHED = "the build changed an evaluation file, which was restored: "
"""A warning that begins so names, after it, the file."""


class BuildResult(Value):
    ok: bool
    commit: str
    exit: Exit | None
    """None when nothing needed building."""
    warnings: tuple[str, ...] = ()
    tampered: Annotated[tuple[str, ...], Field(exclude_if=_unsaid)] = ()
    """Evaluation files that the build changed; they were restored, but what it made of them was not."""
    stopped: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Who or what ended the build before it was over; empty where it came to its end."""

    @property
    def touched(self) -> frozenset[str]:
        """Evaluation files that a build changed: `tampered`; in records older than that field the warnings say it."""
        paths = (warning.removeprefix(TOUCHED) for warning in self.warnings if warning.startswith(TOUCHED))
        return frozenset((*self.tampered, *paths))


class PrintedLine(Value):
    """A line of a test's output without what changes from run to run: `#` for numbers, `<path>` for paths."""

    line: str
    times: int = 1
    complains: Annotated[bool, Field(exclude_if=_unsaid)] = False
    """Whether it says, number and all, that something failed."""


class TestOutput(Value):
    """What a test printed, in the order in which each line was last said."""

    __test__ = False
    lines: tuple[PrintedLine, ...]
    cut: Annotated[bool, Field(exclude_if=_unsaid)] = False
    """Whether there was more than is kept; then only the end of it can be relied on, and no count."""


class TestResult(Value):
    """Whether a build is right."""

    __test__ = False
    passed: bool
    kind: Literal["pass", "incorrect", "timeout", "crash", "tampered", "stopped"]
    """incorrect: wrong numbers, repairable. crash: the command itself broke. tampered: evaluation files differ.
    stopped: a person or the time limit ended it, which says nothing of the kernel."""
    commit: str
    detail: str
    """Bounded evidence for the repair: the checker's own words."""
    seconds: float
    gpu_s: Annotated[float, Field(exclude_if=_unsaid)] = 0.0
    """Seconds that a card's lease was held for it; 0 on a processor, and in records older than this field."""
    printed: Annotated[TestOutput | None, Field(exclude_if=_unsaid)] = None
    """By which a run that ended early is told from one that passed; None in records older than this field."""
    rel_err: Annotated[float | None, Field(exclude_if=is_none)] = None
    """Largest ||out - ref|| / ||ref|| that the test told, as such or by its SNR; None where it told none."""
    own_work: Annotated[Answer | None, Field(exclude_if=_unsaid)] = None
    """What Ridgeline's judge said of whose work the result is; None where another test ran, or nobody was asked."""

    @model_validator(mode="after")
    def _pass_is_pass(self) -> Self:
        if self.passed != (self.kind == "pass"):
            raise ValueError("passed exactly when kind is pass")
        return self


class Row(Value):
    """One shape of one benchmark run."""

    label: str
    check: Check
    metrics: tuple[Named, ...]
    """Numeric columns, named as in the header."""
    config: tuple[tuple[str, str], ...] = ()
    """(column, value) of the configuration columns, in the contract's order."""

    def metric(self, name: str) -> float:
        """The value of a column of a benchmark's row; KeyError when the row has none."""
        for item in self.metrics:
            if item.name == name:
                return item.value
        raise KeyError(name)

    @property
    def config_class(self) -> str:
        return ", ".join(f"{column}={value}" for column, value in self.config) or "all"


class Benchmark(Value):
    """One run of a benchmark command, already checked against the frozen header."""

    kind: Literal["benchmark"] = "benchmark"
    commit: str
    machine: str
    engine: Engine
    level: Level
    repeat: int = 0
    """0 for the first run of this level in this round, 1.. for re-measurements."""
    source: Source
    """Which command: numbers of two are never compared. `best_known` times another kernel, and decides nothing."""
    rows: tuple[Row, ...]
    csv: Artifact
    log: Artifact | None = None
    """Standard output and error of the command."""
    seconds: float
    gpu_s: Annotated[float, Field(exclude_if=_unsaid)] = 0.0
    """Seconds that a card's lease was held for it; 0 on a processor, and in records older than this field."""


class BenchmarkFailed(Value):
    """A benchmark that gave no usable numbers; never a slow kernel."""

    kind: Literal["benchmark_failed"] = "benchmark_failed"
    commit: str
    reason: Literal[
        "crash", "timeout", "no_csv", "schema_drift", "zero_rows", "not_a_number", "tampered", "unstable", "stopped"
    ]
    """unstable: the machine disturbed more of it than may be left out, again and again. stopped: a person or the time
    limit ended it."""
    detail: str
    seconds: float
    gpu_s: Annotated[float, Field(exclude_if=_unsaid)] = 0.0
    """Seconds that a card's lease was held for it; 0 on a processor, and in records older than this field."""


class ShapePairs(Value):
    """Paired log-ratios of one shape: `pairs[p][b]` = ln(t_best / t_candidate) of ABBA block b in process pair p."""

    label: str
    config_class: str = "all"
    weight: Annotated[float, Field(gt=0, exclude_if=is_default(1))] = 1.0
    """In means over shapes."""
    protected: Annotated[bool, Field(exclude_if=_unsaid)] = False
    """May lose nothing: slower with confidence, however little, is lost."""
    pairs: tuple[tuple[float, ...], ...]
    best_us: float
    """Median time of one call of the best version in microseconds."""
    candidate_us: float


class Comparison(Value):
    """Candidate and best timed interleaved, same inputs, fresh processes. Positive log-ratios favour the candidate.

    A/A when both are the same commit: two checkouts, two builds, so that what differs is the measurement.
    """

    kind: Literal["comparison"] = "comparison"
    best: str
    candidate: str
    machine: str
    engine: Engine
    shapes: tuple[ShapePairs, ...] = Field(min_length=1)
    dropped_blocks: int = 0
    """Blocks left out on both sides together because the machine, not a version, disturbed them."""
    taken_blocks: int = 0
    """All blocks that were timed, those left out too; 0 in records older than this field."""
    notes: tuple[str, ...] = ()
    """What disturbed the machine, and where numbers come from that were not measured just now."""
    raw: Artifact
    seconds: float
    gpu_s: Annotated[float, Field(exclude_if=_unsaid)] = 0.0
    """Seconds that a card's lease was held for it; 0 on a processor, and in records older than this field."""


class Origin(Value):
    """Where a counter of that name comes from, and on which rung of the ladder it stands."""

    name: str
    rung: Rung
    source: str


class Profiled(Value):
    """Counters of one version, from the best rung this machine permits."""

    commit: str
    machine: str
    rung: Literal[
        "perf", "cachegrind", "compiler_report", "ncu", "rocprofv3", "torch_profiler", "isa", "timing_only"
    ]  # fmt: skip
    """The best instrument that saw anything; one counter may stand lower, see `origins`."""
    counters: tuple[Named, ...]
    origins: Annotated[tuple[Origin, ...], Field(exclude_if=_unsaid)] = ()
    """Of each counter that a GPU's tools told; empty on a processor, where all stand on `rung`."""
    kernel: Annotated[KernelProfile | None, Field(exclude_if=_unsaid)] = None
    """What GPU tools recorded of the kernel, without its instructions, which are in the report."""
    notes: tuple[str, ...] = ()
    """What could not be seen, and compiler remarks worth reading."""
    report: Artifact | None = None
    seconds: float = 0.0
    gpu_s: Annotated[float, Field(exclude_if=_unsaid)] = 0.0
    """Seconds that a card's lease was held for it; 0 on a processor, and in records older than this field."""

    def counter(self, name: str) -> float | None:
        return next((c.value for c in self.counters if c.name == name), None)

    def rung_of(self, name: str) -> str:
        """What a counter stands on: counters of two rungs are never compared."""
        return next((origin.rung for origin in self.origins if origin.name == name), self.rung)


Measured = Benchmark | BenchmarkFailed | Comparison
