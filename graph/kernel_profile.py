"""What profilers say: as a recording tells it (`Recording`), and as one vendor-neutral profile of one kernel.

None is always `not told`, never zero. Times are nanoseconds, sizes bytes, shares 0..1, rates GB/s (1e9).
"""

from typing import Annotated, Literal

from pydantic import Field

from ridgeline.graph.values import Artifact, Named, Value, is_none

Vendor = Literal["amd", "nvidia"]
KernelCategory = Literal["compute", "comm", "copy", "fill", "rng", "runtime"]
Grade = Literal["trace", "events", "replay", "serialised"]
"""What a time may decide: only `trace` and `events` may decide acceptance."""
Stall = Literal[
    "mem_wait", "mem_issue", "lds_wait", "lds_issue", "smem_wait", "smem_issue", "lgkm_wait", "mixed_wait", "barrier",
    "matrix", "math_pipe", "valu", "salu", "dependency", "instruction_fetch", "not_selected", "issue", "branch", "nop", "tail",
    "sleep", "idle", "store", "other", "unknown_wait",
]  # fmt: skip
Basis = Literal["wave_time", "per_issue", "samples", "counter"]
Limiter = Literal["registers", "shared", "blocks", "waves", "scalar", "barriers", "grid", "tensor_memory"]
Bound = Literal[
    "invalid", "not_compute", "launch_bound", "host_bound", "under_filled", "memory_bound", "compute_bound", "balanced",
    "latency_bound", "resource_bound", "mixed",
]  # fmt: skip
Rung = Literal["counters", "trace", "events", "torch_profiler", "compiler_report", "isa", "analytic"]
"""The ladder: what a fact stands on. Lower rungs are used where higher ones are not permitted."""
Axes = tuple[int, int, int]


class LaunchShape(Value):
    """One way in which a kernel was launched."""

    calls: int
    grid: Axes | None = None
    """As the tool counts: work-items in AMD's tools, blocks in NVIDIA's and in torch's. `blocks` is always blocks."""
    workgroup: Axes | None = None
    """Threads (work-items) per block."""
    blocks: Axes | None = None
    grid_items: int | None = None
    """Work-items of the whole launch, where only the product of the axes is told (AMD counter files)."""
    workgroup_items: int | None = None
    """Threads per block, where only the product is told."""
    arch_vgpr: int | None = None
    """NVIDIA: registers per thread."""
    accum_vgpr: int | None = None
    sgpr: int | None = None
    lds_bytes: int | None = None
    """LDS or shared memory per block, as the recording tells it: see `lds_static_only`."""
    lds_static_only: bool = False
    """The AMD CSV writes the static part, rounded up; dynamic LDS (all of Triton's) is missing in it."""
    scratch_bytes: int | None = None
    """Per work-item."""
    median_ns: float | None = None
    total_ns: float | None = None


class KernelCalls(Value):
    """All dispatches of one kernel name in a recording. Launch fields are those of the last call by start time."""

    name: str
    """As recorded, whole."""
    display: str
    """Shortened for people: no arguments, no `.kd`."""
    category: KernelCategory
    calls: int
    total_ns: float | None = None
    mean_ns: float | None = None
    median_ns: float | None = None
    """None where the source holds sums only (kernel_stats.csv)."""
    p20_ns: Annotated[float | None, Field(exclude_if=is_none)] = None
    """A fifth of the calls took at most so long, four fifths at most `p80_ns`; None where single calls are not told."""
    p80_ns: Annotated[float | None, Field(exclude_if=is_none)] = None
    min_ns: float | None = None
    max_ns: float | None = None
    stdev_ns: float | None = None
    share: float | None = None
    """Of the sum of all durations."""
    share_of_span: float | None = None
    """Of the time between the first start and the last end."""
    gap_before_ns: float | None = None
    """Median time the queue stood empty before it, where positive."""
    last: LaunchShape
    variants: tuple[LaunchShape, ...] = ()
    """Distinct launches: grid, block and registers; most time first, at most 16."""
    vgpr_total: int | None = None
    """Registers per lane, arch and accumulation together; see `corrected`."""
    corrected: str = ""
    """What was changed against the recording, and why (gfx950 register decoding)."""
    metrics: tuple[Named, ...] = ()
    """Counters or metrics of this kernel, per call (mean over calls), under the tool's own names, base units."""


class StallShare(Value):
    stall: Stall
    share: float
    basis: Basis
    raw_names: tuple[str, ...] = ()
    """Instructions or metrics that were put into this class."""


class Hotspot(Value):
    """One instruction."""

    isa: str
    pc: int | None = None
    source: str = ""
    """`file:line`; empty where the recording has none."""
    share: float
    """Of all wave time (or samples)."""
    stall: Stall | None = None
    hits: int | None = None
    kernel: str = ""
    """Name of the kernel, where the recording holds several."""


class TracedKind(Value):
    """All instructions of one kind in a thread trace; cycles are summed over traced waves."""

    kind: str
    """wait_vm, wait_lgkm, wait_vm+lgkm, barrier, vmem_load, vmem_store, vmem_lds_dma, lds_read, lds_write, smem, valu,
    salu, mfma, nop, branch, endpgm, ..."""
    instructions: int
    """Rows of code."""
    hits: int
    latency: int
    stall: int
    idle: int


class ThreadTrace(Value):
    """An AMD thread trace (ATT), in shader clock cycles summed over traced waves."""

    kernel: str
    instructions: int
    """Rows of code, labels not counted."""
    waves: int
    """Where the recording holds no lifetimes (a stats CSV alone): how often waves ended."""
    wave_cycles: int
    """Lifetimes of all traced waves; without lifetimes latency + idle, and then `checksum` is not told."""
    hits: int
    latency: int
    stall: int
    idle: int
    by_class: tuple[StallShare, ...]
    """Shares of `wave_cycles`."""
    checksum: float | None
    """(latency + idle) / wave_cycles; 1 within 1 per cent in a whole trace. None without lifetimes of waves."""
    checksum_ok: bool | None
    kinds: tuple[TracedKind, ...] = ()
    """Most stall first; finer than `by_class` and not split by what was waited for."""
    clock_mhz: float | None = None
    waves_per_unit: float | None = None
    """Waves resident on a compute unit of the traced engines, averaged over the time in which it had any."""
    matrix_busy: float | None = None
    """Lower bound of the MFMA pipe's use on the traced SIMDs."""
    hotspots: tuple[Hotspot, ...] = ()
    validators: tuple[tuple[str, bool], ...] = ()
    """(name, passed): each way in which a trace can mislead."""


class Recording(Value):
    """What one file, or one folder of a run, says. Parsed, corrected where known to be wrong, nothing derived."""

    format: str
    """kernel_trace, kernel_stats, counter_collection, rocprofv3_json, rocpd, agent_info, att, pc_sampling, ncu_raw,
    ncu_details, ncu_source, rocprof_compute, torch_trace, ..."""
    tool: str
    """rocprofv3, ncu, rocprof-compute, torch profiler, ..."""
    tool_version: str | None = None
    vendor: Vendor
    arch: str | None = None
    """gfx942, sm_90; None where the recording does not tell."""
    device: str | None = None
    grade: Grade | None = None
    kernels: tuple[KernelCalls, ...] = ()
    """Hottest first."""
    att: ThreadTrace | None = None
    stalls: tuple[StallShare, ...] = ()
    hotspots: tuple[Hotspot, ...] = ()
    counters: tuple[Named, ...] = ()
    """Counters that belong to no single kernel: sums over the recording."""
    facts: tuple[Named, ...] = ()
    """Device constants that the recording holds: units, simds_per_unit, wave_size, max_waves_per_simd, l2_domains,
    lds_bytes_per_unit, clock_mhz."""
    rows: int = 0
    rejected: int = 0
    """Rows left out; a warning says why."""
    span_ns: float | None = None
    busy_ns: float | None = None
    """Union of all dispatches; overlap counts once."""
    sum_ns: float | None = None
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ProfileNumber(Value):
    """One number of a profile, where it comes from, and on which rung of the ladder it stands."""

    name: str
    """`group.field` of the schema, for example `mem.read_bytes`."""
    value: float
    source: str
    """Tool, file and column, metric or formula."""
    rung: Rung
    corrected: str = ""


class KernelProfile(Value):
    """One kernel on one device, from all recordings of it."""

    schema_version: Literal["1"] = "1"
    vendor: Vendor
    arch: str | None
    device: str | None = None
    kernel: str
    display: str
    key: str
    """Digest of name, grid, block and registers."""
    category: KernelCategory
    launched: LaunchShape
    calls: int
    dropped_warmup: int = 0
    grade: Grade | None = None
    numbers: tuple[ProfileNumber, ...] = ()
    limiter: Limiter | None = None
    stalls: tuple[StallShare, ...] = ()
    hotspots: tuple[Hotspot, ...] = Field((), max_length=20)
    validators: tuple[tuple[str, bool], ...] = ()
    warnings: tuple[str, ...] = ()
    recorded: Annotated[Artifact | None, Field(exclude_if=is_none)] = None
    """What the tools wrote, whole: a tar.gz that `ridgeline profile parse` reads again."""

    def number(self, name: str) -> float | None:
        """A profile's number by its `group.field` name; None when nobody told it."""
        return next((number.value for number in self.numbers if number.name == name), None)


class BoundExplanation(Value):
    """What bounds a kernel, and the chain from evidence to what to look at next."""

    bound: Bound
    subclass: str = ""
    confidence: Literal["high", "medium", "low"]
    evidence: tuple[str, ...]
    """Each: number, threshold, source."""
    flags: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    """What to look at or try next."""
