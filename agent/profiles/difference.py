"""What changed between two profiles: matched kernels, and for each number whether the change can be believed."""

from collections.abc import Sequence
from typing import Literal

from ridgeline.agent.profiles.document import Judged
from ridgeline.graph.kernel_profile import KernelProfile
from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.readers.own_name import own_name

RESOLUTION_NS = 80.0
"""Two ticks of the coarsest clock seen (40 ns on MI350X): a smaller difference of two medians is none."""
DECIDES = ("trace", "events")
STALL_POINTS = 0.02
"""Share of wave time below which a stall class has not moved."""
COMPARED = (
    "regs.total_per_thread", "regs.arch", "regs.accum", "regs.scalar", "regs.scratch_bytes_per_thread",
    "regs.spill_ops", "shared.total_bytes", "shared.static_bytes", "occ.theoretical", "occ.achieved",
    "occ.fill_waves", "launch.blocks", "launch.threads_per_block", "mem.read_bytes", "mem.write_bytes", "mem.gbps",
    "mem.pct_of_peak", "mem.l2_hit", "mem.l1_hit", "mem.sectors_per_request", "comp.matrix_busy",
    "comp.vector_busy", "shm.conflict_rate", "issue.active", "sol.memory", "sol.compute",
)  # fmt: skip


class Moved(Value):
    """One number on both sides; None where a side does not tell it."""

    name: str
    a: float | None
    b: float | None
    ratio: float | None
    """b / a; None where one side is unknown or a is zero."""


class TimeMoved(Value):
    """The medians, and whether they differ by more than the recordings resolve."""

    a_ns: float | None
    b_ns: float | None
    ratio: float | None
    resolution_ns: float
    answer: Literal["faster", "slower", "no difference resolved", "not comparable"]
    why: str


class KernelMoved(Value):
    """One kernel that both profiles hold."""

    a: str
    b: str
    time: TimeMoved
    bound: tuple[str, str]
    """Class of a and of b."""
    numbers: tuple[Moved, ...]
    """Those that differ."""
    stalls: tuple[Moved, ...]
    """Stall classes that moved by two points or more, largest change first."""
    stall_basis: tuple[str, str] | None
    """What the shares of each side are of; None where a side has none. Of two kinds nothing is compared."""


class Difference(Value):
    """Two profiles side by side."""

    kernels: tuple[KernelMoved, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def difference(a: Sequence[Judged], b: Sequence[Judged], *, one_each: bool = False) -> Difference:
    """Kernels matched by whole name, else by the function's own name where that is unambiguous, in a's order.

    `one_each`: both sides were narrowed to one kernel, which are then compared whatever they are called.
    """
    pairs = [(a[0], b[0])] if one_each and a and b else _pairs(a, b)
    matched_a, matched_b = ({id(pair[side]) for pair in pairs} for side in (0, 1))
    return Difference(
        kernels=tuple(_moved(*pair) for pair in pairs),
        only_a=tuple(one.profile.display for one in a if id(one) not in matched_a),
        only_b=tuple(one.profile.display for one in b if id(one) not in matched_b),
    )


def _pairs(a: Sequence[Judged], b: Sequence[Judged]) -> list[tuple[Judged, Judged]]:
    rest = list(b)
    pairs = []
    for one in a:
        same = [other for other in rest if other.profile.kernel == one.profile.kernel]
        base = own_name(one.profile.kernel)
        if not same and sum(own_name(other.profile.kernel) == base for other in a) == 1:
            named = [other for other in rest if own_name(other.profile.kernel) == base]
            same = named if len(named) == 1 else []
        if same:
            pairs.append((one, same[0]))
            rest = [other for other in rest if other is not same[0]]
    return pairs


def _moved(a: Judged, b: Judged) -> KernelMoved:
    basis = (a.profile.stalls[0].basis, b.profile.stalls[0].basis) if a.profile.stalls and b.profile.stalls else None
    numbers = (_number(name, a.profile.number(name), b.profile.number(name)) for name in COMPARED)
    return KernelMoved(
        a=a.profile.display,
        b=b.profile.display,
        time=_time(a.profile, b.profile),
        bound=(a.bound.bound, b.bound.bound),
        numbers=tuple(moved for moved in numbers if moved.a != moved.b),
        stalls=_stalls(a.profile, b.profile) if basis and basis[0] == basis[1] else (),
        stall_basis=basis,
    )


def _time(a: KernelProfile, b: KernelProfile) -> TimeMoved:
    before, after = a.number("time.median_ns"), b.number("time.median_ns")
    resolution = max(RESOLUTION_NS, _noise(a), _noise(b))
    answer: Literal["faster", "slower", "no difference resolved", "not comparable"] = "not comparable"
    if before is None or after is None:
        why = "a median is missing"
    elif a.grade != b.grade:
        why = f"times of two kinds: {a.grade} and {b.grade}"
    elif a.grade not in DECIDES:
        why = f"{a.grade} times are for shares only: time both without counters"
    elif abs(after - before) <= resolution:
        answer, why = "no difference resolved", f"the medians differ by at most {resolution:.4g} ns"
    else:
        answer = "faster" if after < before else "slower"
        why = f"more than {resolution:.4g} ns apart; two recordings are no A/B test: confirm with `ridgeline bench`"
    moved = _number("time.median_ns", before, after)
    return TimeMoved(a_ns=before, b_ns=after, ratio=moved.ratio, resolution_ns=resolution, answer=answer, why=why)


def _noise(profile: KernelProfile) -> float:
    """What an unlucky median can be off by: two standard errors, else half of the range of the calls."""
    low, high = profile.number("time.min_ns"), profile.number("time.max_ns")
    deviation = profile.number("time.stdev_ns")
    if deviation is not None and profile.calls > 1:
        return float(2 * deviation / profile.calls**0.5)
    return (high - low) / 2 if low is not None and high is not None else 0.0


def _stalls(a: KernelProfile, b: KernelProfile) -> tuple[Moved, ...]:
    before, after = ({item.stall: item.share for item in side.stalls} for side in (a, b))
    moved = [_number(name, before.get(name, 0.0), after.get(name, 0.0)) for name in dict.fromkeys((*before, *after))]
    return tuple(
        sorted(
            (item for item in moved if abs((item.b or 0.0) - (item.a or 0.0)) >= STALL_POINTS),
            key=lambda item: -abs((item.b or 0.0) - (item.a or 0.0)),
        )
    )


def _number(name: str, a: float | None, b: float | None) -> Moved:
    return Moved(name=name, a=a, b=b, ratio=b / a if a and b is not None else None)
