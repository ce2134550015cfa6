"""Goals for machine code and counters, by kind of device, and how far a version is: told every round, deciding nothing.

A gain that was measured stands whatever a goal says; new spills and lost occupancy are objections of their own
(`acceptance.py`). Numbers are those of the documents' healthy ranges; where they give none, the original is the mark.
"""

from typing import Literal

from ridgeline.graph.evidence import Machine, Profiled
from ridgeline.graph.values import Bottleneck, Value

Kind = Literal["==", "<=", ">=", "up", "down"]


class IsaTarget(Value):
    """One goal."""

    counter: str
    kind: Kind
    """up, down: against the original."""
    value: float | None = None
    bound: Bottleneck | None = None
    """Only where this bounds the kernel; None always."""
    meaning: str

    @property
    def text(self) -> str:
        """For example `spills == 0` or `d1_misses below the original's`."""
        if self.value is None:
            return f"{self.counter} {'above' if self.kind == 'up' else 'below'} the original's"
        return f"{self.counter} {self.kind} {self.value:g}"


class TargetProgress(Value):
    """Where a version stands beside a goal. `met` is False too where nobody measured it."""

    metric: str
    target: str
    current: float | None
    met: bool


def _below(counter: str, meaning: str) -> IsaTarget:
    return IsaTarget(counter=counter, kind="down", meaning=meaning)


def _above(counter: str, meaning: str) -> IsaTarget:
    return IsaTarget(counter=counter, kind="up", meaning=meaning)


_NO_SPILLS = IsaTarget(counter="spills", kind="==", value=0, meaning="no register is spilled")
_NO_SCRATCH = IsaTarget(counter="scratch_bytes", kind="==", value=0, meaning="no scratch load and no scratch store")
_FEW_CONFLICTS = IsaTarget(counter="bank_conflict_pct", kind="<=", value=5, meaning="few bank conflicts")
_WAVES = IsaTarget(counter="achieved_occupancy", kind=">=", value=50, meaning="enough waves to hide latency")

ISA_TARGETS: dict[Literal["amd", "nvidia", "cpu"], tuple[IsaTarget, ...]] = {
    "amd": (
        _above("wide_load_pct", "share of loads of 16 bytes a lane (buffer_load_dwordx4)"),
        _above("wide_lds_pct", "share of LDS accesses of 16 bytes a lane (ds_read_b128, ds_write_b128)"),
        _NO_SPILLS,
        _NO_SCRATCH,
        _FEW_CONFLICTS,
        IsaTarget(counter="mfma_util", kind=">=", value=50, bound="compute", meaning="the matrix pipe is busy"),
        IsaTarget(counter="dram_pct", kind=">=", value=60, bound="memory", meaning="the memory is busy"),
        _below("stall_mem_wait_pct", "waits for memory"),
        _below("stall_mixed_wait_pct", "waits at s_waitcnt"),
        _WAVES,
    ),
    "nvidia": (
        IsaTarget(counter="mem_throughput", kind=">=", value=60, bound="memory", meaning="the memory is busy"),
        _above("l2_hit_rate", "hits of the L2 cache"),
        IsaTarget(
            counter="tensor_pipe_active", kind=">=", value=50, bound="compute", meaning="the matrix pipe is busy"
        ),
        _below("stall_mem_wait_pct", "waits for memory"),
        _below("stall_barrier_pct", "waits at barriers"),
        _above("async_load_pct", "share of loads that go to shared memory by themselves (cp.async, TMA)"),
        _NO_SPILLS,
        _FEW_CONFLICTS,
        _WAVES,
    ),
    "cpu": (
        _below("instructions", "instructions of one call"),
        _below("d1_misses", "misses of the first cache"),
        _below("ll_misses", "misses of the last cache"),
        _below("branch_misses", "mispredicted branches"),
        _above("vectorized_loops", "loops that the compiler vectorized"),
        _below("missed_vectorizations", "loops that it did not"),
    ),
}
"""What machine code should show after a gain."""


def measure_progress(
    machine: Machine, version: Profiled | None, original: Profiled | None, bottleneck: Bottleneck
) -> tuple[TargetProgress, ...]:
    """A version beside every goal that is of its kind of device and of what bounds it."""
    return tuple(
        _place(target, version, original) for target in ISA_TARGETS[machine.kind] if target.bound in (None, bottleneck)
    )


def _place(target: IsaTarget, version: Profiled | None, original: Profiled | None) -> TargetProgress:
    current = version.counter(target.counter) if version else None
    mark = target.value
    text = target.text
    if mark is None:
        mark = _read_mark(target.counter, version, original)
        text = text if mark is None else f"{text} {mark:g}"
    met = current is not None and mark is not None and _is_met(target.kind, current, mark)
    return TargetProgress(metric=target.counter, target=text, current=current, met=met)


def _read_mark(counter: str, version: Profiled | None, original: Profiled | None) -> float | None:
    """The original's number; None where nobody told it, or where another instrument told the version's."""
    if original is None or version is None:
        return original.counter(counter) if original else None
    if version.machine != original.machine:
        return None
    same = version.rung_of(counter) == original.rung_of(counter)
    return original.counter(counter) if same else None


def _is_met(kind: Kind, current: float, mark: float) -> bool:
    match kind:
        case "==":
            return current == mark
        case "<=":
            return current <= mark
        case ">=":
            return current >= mark
        case "up":
            return current > mark
        case "down":
            return current < mark
