"""Command lines of the GPU profilers, and how a list of counters is cut into passes; pure.

Sources: `ncu --help` of Nsight Compute 2025.3; `rocprofv3 --help` of ROCm 6.4 to 7.2; slots per hardware block from
`counter_defs.yaml` of rocprofiler-sdk.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

SECTIONS = (
    "SpeedOfLight", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "Occupancy", "LaunchStats", "SchedulerStats",
    "WarpStateStats",
)  # fmt: skip
EXTRA_METRICS = (
    "dram__bytes_read.sum", "dram__bytes_write.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum",
)  # fmt: skip
"""What the sections leave out; left out in turn where this ncu or this chip does not know them."""
UNFILTERED_LAUNCHES = 60
"""Without a kernel's name the first launches are setup: as many are taken as a small program has."""

SLOTS = {"SQ": 8, "GRBM": 2, "TCC": 4, "TCP": 4, "TA": 2, "TD": 2, "CPC": 2, "CPF": 2, "SPI": 6}
"""Counters of one hardware block that fit a pass, gfx942 and gfx950 alike."""
COMMON = (
    "GRBM_GUI_ACTIVE SQ_WAVES SQ_WAVE_CYCLES SQ_BUSY_CU_CYCLES SQ_WAIT_ANY SQ_WAIT_INST_ANY SQ_ACTIVE_INST_ANY "
    "SQ_ACTIVE_INST_VALU SQ_VALU_MFMA_BUSY_CYCLES",
    "GRBM_GUI_ACTIVE SQ_INSTS_VALU_MFMA_MOPS_F16 SQ_INSTS_VALU_MFMA_MOPS_BF16 SQ_INSTS_VALU_MFMA_MOPS_F8 "
    "SQ_INSTS_VALU_MFMA_MOPS_F32 SQ_INSTS_VALU_MFMA_MOPS_F64 SQ_INSTS_VALU_MFMA_MOPS_I8 SQ_INSTS_VALU",
    "GRBM_GUI_ACTIVE SQ_LDS_BANK_CONFLICT SQ_LDS_IDX_ACTIVE SQ_INSTS_LDS SQ_INSTS_VMEM_RD SQ_INSTS_VMEM_WR "
    "SQ_WAIT_INST_LDS",
)
TRAFFIC = {
    "gfx90a": (
        "TCC_HIT_sum TCC_MISS_sum TCC_EA_RDREQ_sum TCC_EA_RDREQ_32B_sum",
        "TCC_EA_WRREQ_sum TCC_EA_WRREQ_64B_sum",
    ),
    "gfx942": (
        "TCC_HIT_sum TCC_MISS_sum TCC_EA0_RDREQ_sum TCC_EA0_RDREQ_32B_sum",
        "TCC_BUBBLE_sum TCC_EA0_RDREQ_DRAM_sum TCC_EA0_WRREQ_sum TCC_EA0_WRREQ_64B_sum",
    ),
    "gfx950": (
        "TCC_HIT_sum TCC_MISS_sum TCC_EA0_RDREQ_sum TCC_EA0_RDREQ_32B_sum",
        "TCC_EA0_RDREQ_128B_sum TCC_EA0_RDREQ_64B_sum TCC_EA0_WRREQ_sum TCC_EA0_WRREQ_64B_sum",
    ),
}
ATT_BUFFER = "0x18000000"


def ncu(program: Sequence[str], out: Path, *, kernel: str | None, skip: int, extra: bool) -> tuple[str, ...]:
    """One ncu run of `program` that writes the raw page to `out`; `kernel` is a regex for the function's own name."""
    chosen = ("--kernel-name", f"regex:{kernel}") if kernel is not None else ()
    count = 3 if kernel is not None else UNFILTERED_LAUNCHES
    sections = tuple(word for section in SECTIONS for word in ("--section", section))
    metrics = ("--metrics", ",".join(EXTRA_METRICS)) if extra else ()
    return (
        "ncu", "--csv", "--page", "raw", "--print-units", "base",
        "--log-file", str(out), "--target-processes", "all", *chosen,
        "--launch-skip", str(skip), "--launch-count", str(count),
        "--clock-control", "none", "--cache-control", "all", *sections, *metrics, *program,
    )  # fmt: skip


def timing(program: Sequence[str], out: Path) -> tuple[str, ...]:
    """The only rocprofv3 run whose times may decide anything: no counters, no trace."""
    return (
        "rocprofv3",
        "--kernel-trace",
        "--stats",
        "--output-format",
        "csv",
        "-d",
        str(out),
        "-o",
        "run",
        "--",
        *program,
    )


def counting(program: Sequence[str], out: Path, *, counters: Sequence[str], kernel: str) -> tuple[str, ...]:
    """One pass of counters over the launches of `kernel`, a regex."""
    return (
        "rocprofv3", "--pmc", *counters, "--kernel-include-regex", kernel,
        "--output-format", "csv", "-d", str(out), "-o", "pass", "--", *program,
    )  # fmt: skip


def tracing(program: Sequence[str], out: Path, *, kernel: str, call: int) -> tuple[str, ...]:
    """A thread trace of the `call`-th launch of `kernel` (from 1), a regex."""
    return (
        "rocprofv3", "--att", "--att-target-cu", "1", "--att-shader-engine-mask", "0xf", "--att-simd-select", "0xf",
        "--att-buffer-size", ATT_BUFFER, "--kernel-include-regex", kernel,
        "--kernel-iteration-range", f"[{call}-{call}]", "--output-format", "json", "csv", "-d", str(out),
        "--", *program,
    )  # fmt: skip


def plan(arch: str | None, known: frozenset[str] | None = None) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Passes for an architecture, and the counters left out because the installed tool does not list them.

    `known`: what the tool lists; None where it could not be asked, and nothing is left out.
    """
    lines = (*COMMON, *TRAFFIC.get(arch or "", TRAFFIC["gfx942"]))
    wanted = [line.split() for line in lines]
    dropped = tuple(sorted({name for names in wanted for name in names if known is not None and name not in known}))
    kept = [[name for name in names if name not in dropped] for names in wanted]
    return tuple(piece for names in kept if names for piece in fitting(names)), dropped


def fitting(counters: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Cut a list so that no piece asks more of a hardware block than it has slots, in the given order."""
    pieces: list[list[str]] = [[]]
    used: Counter[str] = Counter()
    for name in counters:
        block = name.partition("_")[0]
        if used[block] >= SLOTS.get(block, 2):
            pieces.append([])
            used.clear()
        used[block] += 1
        pieces[-1].append(name)
    return tuple(tuple(piece) for piece in pieces if piece)


def halves(counters: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """A pass that the hardware refused, as two smaller ones; nothing where it was a single counter."""
    if len(counters) < 2:
        return ()
    middle = len(counters) // 2
    return (tuple(counters[:middle]), tuple(counters[middle:]))
