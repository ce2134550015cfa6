"""NVIDIA metrics as numbers of the vendor-neutral schema, under the names that the AMD formulas give them too.

Each number has a list of metrics that mean the same: ncu's names drift between versions, and its details page has names
of its own (`Section/Name [unit]`). The first that was recorded is taken. None of them is ever assumed.
"""

import re
from collections.abc import Mapping, Sequence

from ridgeline.graph.kernel_profile import Basis, Limiter, ProfileNumber, Stall, StallShare
from ridgeline.graph.values import Named

ACTIVE, ELAPSED = ".avg.pct_of_peak_sustained_active", ".avg.pct_of_peak_sustained_elapsed"
SOL, MEM = "GPU Speed Of Light Throughput", "Memory Workload Analysis"
OLD_SOL = "GPU Speed Of Light"
"""The same section up to Nsight Compute 2021.2, where its metrics were called SOL; SOL FB and SOL TEX before 2020."""
SHARES: dict[str, tuple[str, ...]] = {
    "mem.pct_of_peak": (
        f"dram__throughput{ELAPSED}", f"gpu__dram_throughput{ELAPSED}", f"{SOL}/DRAM Throughput [%]",
        f"{OLD_SOL}/SOL DRAM [%]", f"{OLD_SOL}/SOL FB [%]",
    ),
    "sol.memory": (
        f"gpu__compute_memory_throughput{ELAPSED}", f"{SOL}/Memory Throughput [%]",
        f"{OLD_SOL}/Memory [%] [%]",
    ),
    "sol.compute": (f"sm__throughput{ELAPSED}", f"{SOL}/Compute (SM) Throughput [%]", f"{OLD_SOL}/SM [%] [%]"),
    "sol.l2": (
        f"lts__throughput{ELAPSED}", f"{SOL}/L2 Cache Throughput [%]",
        f"{OLD_SOL}/SOL L2 Cache [%]", f"{OLD_SOL}/SOL L2 [%]",
    ),
    "sol.l1": (
        f"l1tex__throughput{ACTIVE}", f"{SOL}/L1/TEX Cache Throughput [%]",
        f"{OLD_SOL}/SOL L1/TEX Cache [%]", f"{OLD_SOL}/SOL TEX [%]",
    ),
    "mem.l2_hit": ("lts__t_sector_hit_rate.pct", f"{MEM}/L2 Hit Rate [%]"),
    "mem.l1_hit": ("l1tex__t_sector_hit_rate.pct", f"{MEM}/L1/TEX Hit Rate [%]"),
    "comp.matrix_busy": (
        f"sm__pipe_tensor_cycles_active{ACTIVE}", f"sm__pipe_tensor_cycles_active{ELAPSED}",
        f"sm__pipe_tensor_op_hmma_cycles_active{ACTIVE}", f"sm__pipe_tensor_op_hmma_cycles_active{ELAPSED}",
    ),
    "comp.sfu_busy": (f"sm__inst_executed_pipe_xu{ACTIVE}", f"sm__inst_executed_pipe_xu{ELAPSED}"),
    "issue.active": (
        f"smsp__issue_active{ACTIVE}", f"sm__issue_active{ACTIVE}", f"sm__issue_active{ELAPSED}",
        "Compute Workload Analysis/Issue Slots Busy [%]",
    ),
    "occ.theoretical": ("sm__maximum_warps_per_active_cycle_pct", "Occupancy/Theoretical Occupancy [%]"),
    "occ.achieved": (f"sm__warps_active{ACTIVE}", "Occupancy/Achieved Occupancy [%]"),
}  # fmt: skip
"""Told in per cent, kept as 0..1."""
PLAIN: dict[str, tuple[str, ...]] = {
    "mem.read_bytes": ("dram__bytes_read.sum",),
    "mem.write_bytes": ("dram__bytes_write.sum",),
    "mem.async_copy_bytes": ("l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",),
    "regs.total_per_thread": (
        "launch__registers_per_thread", "Launch Statistics/Registers Per Thread [register/thread]",
    ),
    "shared.static_bytes": (
        "launch__shared_mem_per_block_static", "Launch Statistics/Static Shared Memory Per Block [byte/block]",
    ),
    "shared.dynamic_bytes": (
        "launch__shared_mem_per_block_dynamic", "Launch Statistics/Dynamic Shared Memory Per Block [byte/block]",
    ),
    "shared.driver_bytes": (
        "launch__shared_mem_per_block_driver", "Launch Statistics/Driver Shared Memory Per Block [byte/block]",
    ),
    "occ.fill_waves": ("launch__waves_per_multiprocessor", "Launch Statistics/Waves Per SM []"),
    "issue.eligible": (
        "smsp__warps_eligible.avg.per_cycle_active", "Scheduler Statistics/Eligible Warps Per Scheduler [warp]",
    ),
    "issue.ipc": (
        "sm__inst_executed.avg.per_cycle_active", "Compute Workload Analysis/Executed Ipc Active [inst/cycle]",
    ),
}  # fmt: skip
VECTOR = tuple(
    f"sm__pipe_{pipe}_cycles_active{end}"
    for pipe in ("fma", "alu", "fmaheavy", "fp64", "fp16")
    for end in (ACTIVE, ELAPSED)
)
SPILLS = (
    ("smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum"),
    ("sass__inst_executed_local_loads", "sass__inst_executed_local_stores"),
    (f"{MEM}/Local Memory Spilling Requests []",),
)
BYTES_PER_SECOND = ("dram__bytes.sum.per_second", f"{MEM}/Memory Throughput [byte/s]")
DURATION = ("gpu__time_duration.sum", "gpu__time_duration.avg", f"{SOL}/Duration [ns]", f"{OLD_SOL}/Duration [ns]")
RATIOS = (
    (
        "shm.conflict_rate",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    ),
    (
        "mem.sectors_per_request",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    ),
    ("mem.sectors_over_ideal", "source.l2_sectors_global", "source.l2_sectors_global_ideal"),
    ("shm.wavefronts_over_ideal", "source.l1_wavefronts_shared", "source.l1_wavefronts_shared_ideal"),
)
LIMITS: tuple[tuple[Limiter, tuple[str, str]], ...] = (
    ("waves", ("launch__occupancy_limit_warps", "Occupancy/Block Limit Warps [block]")),
    ("registers", ("launch__occupancy_limit_registers", "Occupancy/Block Limit Registers [block]")),
    ("shared", ("launch__occupancy_limit_shared_mem", "Occupancy/Block Limit Shared Mem [block]")),
    ("barriers", ("launch__occupancy_limit_barriers", "Occupancy/Block Limit Barriers [block]")),
    ("blocks", ("launch__occupancy_limit_blocks", "Occupancy/Block Limit SM [block]")),
)
"""At a tie the first is named: where the hardware's own number of warps is reached, nothing else holds it back."""
STALLS: dict[str, Stall] = {
    "long_scoreboard": "mem_wait", "membar": "mem_wait", "short_scoreboard": "lds_wait", "imc_miss": "smem_wait",
    "lg_throttle": "mem_issue", "tex_throttle": "mem_issue", "mio_throttle": "lds_issue", "barrier": "barrier",
    "math_pipe_throttle": "math_pipe", "gmma": "matrix", "warpgroup_arrive": "matrix", "wait": "dependency",
    "dispatch_stall": "dependency", "not_selected": "not_selected", "selected": "issue", "drain": "tail",
    "no_instruction": "instruction_fetch", "branch_resolving": "branch", "sleeping": "sleep", "misc": "other",
}  # fmt: skip
REASONS: tuple[tuple[Basis, re.Pattern[str]], ...] = (
    ("per_issue", re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")),
    ("per_issue", re.compile(r"smsp__average_warp_latency_issue_stalled_(\w+)\.ratio")),
    ("samples", re.compile(r"pcsamp\.(\w+)|smsp__pcsamp_warps_issue_stalled_(\w+?)(?:\.sum)?")),
)
"""Where stalls are told, best first: per issued instruction, of warp time, by samples."""


def numbers(metrics: Sequence[Named], *, tool: str, duration_ns: float | None = None) -> tuple[ProfileNumber, ...]:
    """What the metrics of one kernel say. `tool` begins every source; `duration_ns` is that of an unprofiled run.

    Rates are bytes over `duration_ns` where it is given, else ncu's own, which stand for its clocks and flushed caches.
    """
    values = {metric.name: metric.value for metric in metrics}
    entries = [
        *_list(values, SHARES, 0.01),
        *_list(values, PLAIN, 1.0),
        *_ratios(values),
        *_busiest(values),
        *_spills(values),
    ]
    entries += _sums(values, {item.name: item for item in entries}, duration_ns)
    return tuple(item.model_copy(update={"source": f"{tool}: {item.source}"}) for item in entries)


def limiter(metrics: Sequence[Named]) -> Limiter | None:
    """Reading a profile: what bounds the blocks per SM; the grid, where it does not fill the GPU once. None where no limit is told."""
    values = {metric.name: metric.value for metric in metrics}
    limits = [(value, name) for name, names in LIMITS if (value := _first_metric(values, names)) is not None]
    if not limits:
        return None
    fill = _first_metric(values, PLAIN["occ.fill_waves"])
    return "grid" if fill is not None and fill < 1 else min(limits, key=lambda limit: limit[0])[1]


def stalls(metrics: Sequence[Named]) -> tuple[StallShare, ...]:
    """Reading a profile: shares by class, largest first: a reason over the sum of all reasons. Empty where none was recorded."""
    for basis, pattern in REASONS:
        by_reason: dict[str, float] = {}
        for metric in metrics:
            if (match := pattern.fullmatch(metric.name)) and not metric.name.removesuffix(".sum").endswith(
                "_not_issued"
            ):
                reason = next(group for group in match.groups() if group)
                by_reason[reason] = metric.value
        if (total := sum(by_reason.values())) > 0:
            return _classify(by_reason, total, basis)
    return ()


def duration(metrics: Mapping[str, float]) -> float | None:
    """ncu's own time of a launch in nanoseconds, good for ratios only."""
    return _first_metric(metrics, DURATION)


def _classify(by_reason: Mapping[str, float], total: float, basis: Basis) -> tuple[StallShare, ...]:
    classes: dict[Stall, list[str]] = {}
    for reason in sorted(by_reason, key=lambda name: -by_reason[name]):
        if by_reason[reason] > 0:
            classes.setdefault(STALLS.get(reason, "other"), []).append(reason)
    shares = [
        StallShare(
            stall=name, share=sum(by_reason[reason] for reason in raw) / total, basis=basis, raw_names=tuple(raw)
        )
        for name, raw in classes.items()
    ]
    return tuple(sorted(shares, key=lambda item: -item.share))


def _first_metric(values: Mapping[str, float], names: Sequence[str]) -> float | None:
    return next((values[name] for name in names if name in values), None)


def _say(name: str, value: float, source: str) -> ProfileNumber:
    return ProfileNumber(name=name, value=value, source=source, rung="counters")


def _list(values: Mapping[str, float], table: Mapping[str, tuple[str, ...]], factor: float) -> list[ProfileNumber]:
    return [
        _say(field, values[name] * factor, name)
        for field, names in table.items()
        if (name := next((name for name in names if name in values), None)) is not None
    ]


def _ratios(values: Mapping[str, float]) -> list[ProfileNumber]:
    return [
        _say(field, values[top] / values[bottom], f"{top} / {bottom}")
        for field, top, bottom in RATIOS
        if top in values and values.get(bottom, 0) > 0
    ]


def _busiest(values: Mapping[str, float]) -> list[ProfileNumber]:
    pipes = [(values[name], name) for name in VECTOR if name in values]
    return (
        [_say("comp.vector_busy", max(pipes)[0] * 0.01, f"{max(pipes)[1]}, the busiest of its kind")] if pipes else []
    )


def _spills(values: Mapping[str, float]) -> list[ProfileNumber]:
    for names in SPILLS:
        if all(name in values for name in names):
            return [_say("regs.spill_ops", sum(values[name] for name in names), " + ".join(names))]
    return []


def _sums(
    values: Mapping[str, float], by_name: Mapping[str, ProfileNumber], duration_ns: float | None
) -> list[ProfileNumber]:
    sums = []
    for field, parts in (
        ("shared.total_bytes", ("shared.static_bytes", "shared.dynamic_bytes")),
        ("mem.bytes", ("mem.read_bytes", "mem.write_bytes")),
    ):
        if all(part in by_name for part in parts):
            sums.append(
                _say(field, sum(by_name[part].value for part in parts), " + ".join(by_name[p].source for p in parts))
            )
    if "dram__bytes.sum" in values and all(item.name != "mem.bytes" for item in sums):
        sums.append(_say("mem.bytes", values["dram__bytes.sum"], "dram__bytes.sum"))
    return [*sums, *_rate(values, next((item for item in sums if item.name == "mem.bytes"), None), duration_ns)]


def _rate(values: Mapping[str, float], traffic: ProfileNumber | None, duration_ns: float | None) -> list[ProfileNumber]:
    if traffic is not None and duration_ns:
        return [_say("mem.gbps", traffic.value / duration_ns, f"({traffic.source}) / median of the timing run")]
    name = next((name for name in BYTES_PER_SECOND if name in values), None)
    if name is not None:
        return [_say("mem.gbps", values[name] / 1e9, f"{name}, at ncu's clocks")]
    ncu_duration_ns = duration(values)
    if traffic is not None and ncu_duration_ns:
        return [_say("mem.gbps", traffic.value / ncu_duration_ns, f"({traffic.source}) / ncu's own duration")]
    return []
