"""What AMD's raw counters mean: bytes, hit rates, occupancy, pipe use and waits of one kernel, per call. Pure.

Counters are the sums over all XCDs and instances that rocprofv3 prints. SQ_WAVE*, SQ_WAIT*, SQ_ACTIVE* and SQ_BUSY_CU
count quad-cycles, SQ_VALU_MFMA_BUSY_CYCLES and SQ_LDS_* cycles. What a counter set does not hold is not told.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ridgeline.graph.kernel_profile import ProfileNumber
from ridgeline.graph.values import Named

FLOP_PER_MOP = 512
SHORT_NS = 20_000
"""Below this, GRBM_GUI_ACTIVE holds mostly front-end work; cycles are then the duration times the clock."""
WAVES_PER_UNIT = 32
MATRIX = ("F16", "BF16", "F8", "F6F4", "XF32", "F32", "F64", "I8")
OLD_READS = ("gfx908", "gfx90a")
"""Devices whose counters are spelled TCC_EA_, and whose requests are of 32 or 64 bytes."""
BYTES_PER_CLOCK = 32
"""Of one HBM channel at max_mclk: 1,300 MHz and 128 channels are MI300X's 5,325 GB/s."""


def numbers(
    metrics: Sequence[Named], arch: str | None, facts: Sequence[Named], duration_ns: float | None
) -> tuple[ProfileNumber, ...]:
    """All that the counters of one kernel tell, as `group.field` numbers of the profile.

    Args:
        metrics: counters per call, by the tool's names.
        arch: gfx90a, gfx942, gfx950, ...; numbers whose formula depends on it are left out when it is None.
        facts: constants of the device: units, simds_per_unit, l2_domains, clock_mhz, memory_clock_mhz,
            memory_channels, memory_gbps.
        duration_ns: of one call in a run without counters; rates are left out when it is None.
    """
    counted = _KernelCounters(
        {item.name: item.value for item in metrics}, arch or "", {item.name: item.value for item in facts}, duration_ns
    )
    by_name: dict[str, ProfileNumber] = {}
    for part in _PARTS:
        for number in part(counted):
            by_name.setdefault(number.name, number)
    return tuple(by_name.values())


@dataclass(frozen=True)
class _KernelCounters:
    values: Mapping[str, float]
    arch: str
    facts: Mapping[str, float]
    duration_ns: float | None

    def get(self, *names: str) -> tuple[float, ...] | None:
        """Reading a profile: these counters, in order; None when one is missing."""
        values = tuple(self.values[name] for name in names if name in self.values)
        return values if len(values) == len(names) else None

    @property
    def reads(self) -> str:
        """Reading a profile: how this device spells its requests to memory."""
        return "TCC_EA_" if self.arch in OLD_READS else "TCC_EA0_"

    @property
    def cycles(self) -> tuple[float, str, str] | None:
        """Reading a profile: elapsed shader cycles of one call, how they were found, and what was changed for it."""
        clock = self.facts.get("clock_mhz")
        if self.duration_ns and clock and self.duration_ns < SHORT_NS:
            why = f"a kernel under {SHORT_NS // 1000} us: GRBM_GUI_ACTIVE would count its launch"
            return self.duration_ns * clock / 1000, f"duration * {clock:g} MHz", why
        domains = self.facts.get("l2_domains")
        active = self.values.get("GRBM_GUI_ACTIVE")
        if not active or not domains:
            return None
        return active / domains, f"GRBM_GUI_ACTIVE / {domains:g} XCC", ""

    @property
    def unit_cycles(self) -> tuple[float, str, str] | None:
        """Reading a profile: elapsed cycles times compute units."""
        elapsed, units = self.cycles, self.facts.get("units")
        if elapsed is None or not units:
            return None
        return elapsed[0] * units, f"({elapsed[1]}) * {units:g} CU", elapsed[2]


SHARES = ("issue.waiting", "issue.ready_not_issued", "issue.active_of_waves", "issue.lds_wait", "occ.achieved")
"""Of waves' time: two counters, which the tool may have counted in two runs of the kernel."""


def _say(name: str, value: float, formula: str, corrected: str = "") -> ProfileNumber:
    if name in SHARES and value > 1:
        corrected = "a share above 1: its two counters are of different passes, which disagree"
    return ProfileNumber(name=name, value=value, source=f"counters: {formula}", rung="counters", corrected=corrected)


def _read_traffic(counted: _KernelCounters) -> Iterator[ProfileNumber]:
    e, arch = counted.reads, counted.arch
    requests, requests_32b = f"{e}RDREQ_sum", f"{e}RDREQ_32B_sum"
    name = "mem.read_bytes"
    if arch.startswith("gfx95"):
        sizes = counted.get(requests_32b, f"{e}RDREQ_64B_sum", f"{e}RDREQ_128B_sum")
        if sizes and any(sizes):
            value = 32 * sizes[0] + 64 * sizes[1] + 128 * sizes[2]
            yield _say(name, value, f"32*{requests_32b} + 64*RDREQ_64B + 128*RDREQ_128B")
        elif counts := counted.get(requests, requests_32b):
            why = "gfx950 leaves TCC_BUBBLE at 0: requests that are not of 32 bytes count as 128, an upper bound"
            yield _say(
                name,
                128 * (counts[0] - counts[1]) + 32 * counts[1],
                f"128*({requests} - {requests_32b}) + 32*{requests_32b}",
                why,
            )
    elif arch.startswith("gfx94"):
        if counts := counted.get("TCC_BUBBLE_sum", requests, requests_32b):
            wide, total, narrow = counts
            value = 128 * wide + 64 * (total - wide - narrow) + 32 * narrow
            yield _say(name, value, f"128*TCC_BUBBLE + 64*({requests} - BUBBLE - {requests_32b}) + 32*{requests_32b}")
    elif arch in OLD_READS and (counts := counted.get(requests, requests_32b)):
        yield _say(
            name, 64 * (counts[0] - counts[1]) + 32 * counts[1], f"64*({requests} - {requests_32b}) + 32*{requests_32b}"
        )


def _derived_sizes(counted: _KernelCounters) -> Iterator[ProfileNumber]:
    """Reading a profile: FETCH_SIZE and WRITE_SIZE, in KiB, where the raw requests were not counted."""
    if (sizes := counted.get("FETCH_SIZE")) and not counted.arch.startswith("gfx95"):
        yield _say("mem.read_bytes", 1024 * sizes[0], "1024*FETCH_SIZE (KiB)")
    if sizes := counted.get("WRITE_SIZE"):
        yield _say("mem.write_bytes", 1024 * sizes[0], "1024*WRITE_SIZE (KiB)")


def _write(counted: _KernelCounters) -> Iterator[ProfileNumber]:
    requests, requests_64b = f"{counted.reads}WRREQ_sum", f"{counted.reads}WRREQ_64B_sum"
    if counted.arch and (counts := counted.get(requests, requests_64b)):
        yield _say(
            "mem.write_bytes",
            64 * counts[1] + 32 * (counts[0] - counts[1]),
            f"64*{requests_64b} + 32*({requests} - {requests_64b})",
        )


def _rates(counted: _KernelCounters) -> Iterator[ProfileNumber]:
    by_name = {
        number.name: number.value
        for part in (_read_traffic, _write, _derived_sizes)
        for number in (*part(counted),)[::-1]
    }
    if "mem.read_bytes" not in by_name or "mem.write_bytes" not in by_name:
        return
    both = by_name["mem.read_bytes"] + by_name["mem.write_bytes"]
    yield _say("mem.bytes", both, "read + written, between L2 and fabric: Infinity Cache hits count too")
    if counted.duration_ns:
        rate = both / counted.duration_ns
        yield _say("mem.gbps", rate, "(read + written bytes) / duration")
        clock, channels = counted.facts.get("memory_clock_mhz"), counted.facts.get("memory_channels")
        if clock and channels:
            peak = clock / 1000 * BYTES_PER_CLOCK * channels
            yield _say("mem.pct_of_peak", rate / peak, f"mem.gbps / {peak:.0f} GB/s (memory clock * 32 * channels)")
        elif peak_gbps := counted.facts.get("memory_gbps"):
            yield _say("mem.pct_of_peak", rate / peak_gbps, f"mem.gbps / {peak_gbps:g} GB/s (hbm_bw of the recording)")
    flop = _flop(counted)
    if flop and both:
        yield _say("comp.intensity", flop / both, "MFMA FLOP / (read + written bytes)")


def _cache(counted: _KernelCounters) -> Iterator[ProfileNumber]:
    if (counts := counted.get("TCC_HIT_sum", "TCC_MISS_sum")) and sum(counts):
        yield _say("mem.l2_hit", counts[0] / sum(counts), "TCC_HIT / (TCC_HIT + TCC_MISS)")
    requests = f"{counted.reads}RDREQ_sum"
    narrow = f"{counted.reads}RDREQ_32B_sum"
    if (counts := counted.get(narrow, requests)) and counts[1]:
        yield _say(
            "mem.narrow_reads", counts[0] / counts[1], f"{narrow} / {requests}: requests of 32 bytes, not of a line"
        )
    if (counts := counted.get(f"{counted.reads}RDREQ_DRAM_sum", requests)) and counts[1]:
        yield _say("mem.dram_of_requests", min(1.0, counts[0] / counts[1]), f"{counted.reads}RDREQ_DRAM / {requests}")


def _flop(counted: _KernelCounters) -> float | None:
    mops = [counted.values[name] for kind in MATRIX if (name := f"SQ_INSTS_VALU_MFMA_MOPS_{kind}") in counted.values]
    return FLOP_PER_MOP * sum(mops) if mops else None


def _compute(counted: _KernelCounters) -> Iterator[ProfileNumber]:
    flop = _flop(counted)
    if flop is not None:
        yield _say("comp.matrix_flop", flop, "512 * sum of SQ_INSTS_VALU_MFMA_MOPS_*")
        if counted.duration_ns:
            yield _say("comp.tflops", flop / counted.duration_ns / 1000, "MFMA FLOP / duration")
    spent, simds = counted.unit_cycles, counted.facts.get("simds_per_unit", 4)
    if spent is None:
        yield from _built_in(counted)
        return
    cycles, how, why = spent
    for name, counter, scale, text in (
        ("comp.matrix_busy", "SQ_VALU_MFMA_BUSY_CYCLES", 1 / simds, f"SQ_VALU_MFMA_BUSY_CYCLES / ({how} * {simds:g})"),
        ("comp.vector_busy", "SQ_ACTIVE_INST_VALU", 1.0, f"SQ_ACTIVE_INST_VALU / ({how})"),
        ("occ.achieved", "SQ_WAVE_CYCLES", 4 / WAVES_PER_UNIT, f"4*SQ_WAVE_CYCLES / ({how} * {WAVES_PER_UNIT})"),
        ("shm.conflict_share_of_time", "SQ_LDS_BANK_CONFLICT", 1.0, f"SQ_LDS_BANK_CONFLICT / ({how})"),
    ):
        if counts := counted.get(counter):
            yield _say(name, scale * counts[0] / cycles, text, why)
    yield from _built_in(counted)


def _built_in(counted: _KernelCounters) -> Iterator[ProfileNumber]:
    """Reading a profile: the tool's own derived metrics, in per cent, where the raw counters are missing."""
    for name, metric in (
        ("comp.matrix_busy", "MfmaUtil"),
        ("comp.vector_busy", "VALUBusy"),
        ("occ.achieved", "OccupancyPercent"),
        ("shm.conflict_share_of_time", "LDSBankConflict"),
        ("mem.l2_hit", "L2CacheHit"),
    ):
        if percent := counted.get(metric):
            yield _say(name, percent[0] / 100, f"{metric} / 100")


def _share(counted: _KernelCounters) -> Iterator[ProfileNumber]:
    if (counts := counted.get("SQ_LDS_BANK_CONFLICT", "SQ_LDS_IDX_ACTIVE")) and counts[1]:
        yield _say("shm.conflict_rate", counts[0] / counts[1], "SQ_LDS_BANK_CONFLICT / SQ_LDS_IDX_ACTIVE")
    if counts := counted.get("SQ_INSTS_LDS"):
        yield _say("shm.accesses", counts[0], "SQ_INSTS_LDS")


def _waits(counted: _KernelCounters) -> Iterator[ProfileNumber]:
    for name, counter in (
        ("issue.waiting", "SQ_WAIT_ANY"),
        ("issue.ready_not_issued", "SQ_WAIT_INST_ANY"),
        ("issue.active_of_waves", "SQ_ACTIVE_INST_ANY"),
        ("issue.lds_wait", "SQ_WAIT_INST_LDS"),
    ):
        if (counts := counted.get(counter, "SQ_WAVE_CYCLES")) and counts[1]:
            yield _say(name, counts[0] / counts[1], f"{counter} / SQ_WAVE_CYCLES")


_PARTS: tuple[Callable[[_KernelCounters], Iterator[ProfileNumber]], ...] = (
    _read_traffic, _write, _derived_sizes, _rates, _cache, _compute, _share, _waits,
)  # fmt: skip
