"""What `ridgeline profile parse --json` prints: one object, null for everything that the recordings do not tell."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ridgeline.agent.errors import UserError
from ridgeline.graph.kernel_profile import (
    Axes,
    BoundExplanation,
    Hotspot,
    KernelCalls,
    KernelProfile,
    LaunchShape,
    Recording,
    StallShare,
    ThreadTrace,
    TracedKind,
)
from ridgeline.graph.rules.bound import classify_bound
from ridgeline.graph.values import Named, Value
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.profiles.readers.names import own_name

_CHANGED = frozenset({"kernels", "att", "counters", "facts"})
"""Fields of a recording that are printed in another form."""


class KernelRow(Value):
    """One kernel of a recording, its last launch written out beside its times. Nanoseconds, bytes, shares 0..1."""

    name: str
    display: str
    category: str
    calls: int
    total_ns: float | None
    mean_ns: float | None
    median_ns: float | None
    p20_ns: float | None
    p80_ns: float | None
    min_ns: float | None
    max_ns: float | None
    stdev_ns: float | None
    share: float | None
    share_of_span: float | None
    gap_before_ns: float | None
    grid: Axes | None
    """As the tool counts it: work-items on AMD, blocks on NVIDIA."""
    workgroup: Axes | None
    blocks: Axes | None
    arch_vgpr: int | None
    accum_vgpr: int | None
    vgpr_total: int | None
    sgpr: int | None
    lds_bytes: int | None
    lds_static_only: bool
    scratch_bytes: int | None
    corrected: str
    variants: tuple[LaunchShape, ...]
    metrics: dict[str, float]


class TraceRow(Value):
    """A thread trace, in shader cycles."""

    kernel: str
    instructions: int
    waves: int
    wave_cycles: int
    hits: int
    latency: int
    stall: int
    idle: int
    by_class: dict[str, float]
    """Shares of wave time by what was waited for (`mem_wait`): they add up to the trace's checksum."""
    by_kind: dict[str, float]
    """Shares of wave time by the kind of instruction that stalled (`wait_vm`): the stalls alone, not what they waited
    for."""
    kinds: tuple[TracedKind, ...]
    checksum: float | None
    checksum_ok: bool | None
    clock_mhz: float | None
    waves_per_unit: float | None
    matrix_busy: float | None
    validators: dict[str, bool]
    hotspots: tuple[Hotspot, ...]


class RecordingRow(Value):
    """One recording."""

    format: str
    tool: str
    tool_version: str | None
    vendor: str
    arch: str | None
    device: str | None
    grade: str | None
    kernels: tuple[KernelRow, ...]
    att: TraceRow | None
    stalls: tuple[StallShare, ...]
    hotspots: tuple[Hotspot, ...]
    counters: dict[str, float]
    """Of the recording; where it has none of its own, those of its hottest kernel that has some."""
    facts: dict[str, float]
    rows: int
    rejected: int
    span_ns: float | None
    busy_ns: float | None
    sum_ns: float | None
    files: tuple[str, ...]
    warnings: tuple[str, ...]


class JudgedKernel(Value):
    """One kernel over all recordings, and what bounds it."""

    profile: KernelProfile
    bound: BoundExplanation


class Document(RecordingRow):
    """The first recording, written out; what all of them say together; the rest."""

    profiles: tuple[JudgedKernel, ...]
    others: tuple[RecordingRow, ...]


def classify_profiles(profiles: Sequence[KernelProfile]) -> tuple[JudgedKernel, ...]:
    """Each kernel's profile with the class of what bounds it."""
    return tuple(JudgedKernel(profile=profile, bound=classify_bound(profile)) for profile in profiles)


def document(recordings: Sequence[Recording], profiles: Sequence[JudgedKernel]) -> Document:
    """The object of `profile parse --json` for at least one recording. A thread trace is shown with the first too."""
    main, *rest = recordings
    top = recording_row(main)
    traced = next((recording.att for recording in recordings if recording.att is not None), None)
    return Document(
        **{name: getattr(top, name) for name in RecordingRow.model_fields if name != "att"},
        att=None if traced is None else trace_row(traced),
        profiles=tuple(profiles),
        others=tuple(recording_row(recording) for recording in rest),
    )


def recording_row(recording: Recording) -> RecordingRow:
    """One profiler's recording as `profile parse --json` prints it."""
    counters = recording.counters or next((kernel.metrics for kernel in recording.kernels if kernel.metrics), ())
    same = {name: getattr(recording, name) for name in RecordingRow.model_fields if name not in _CHANGED}
    return RecordingRow(
        **same,
        kernels=tuple(kernel_row(kernel) for kernel in recording.kernels),
        att=None if recording.att is None else trace_row(recording.att),
        counters=_by_name(counters),
        facts=_by_name(recording.facts),
    )


def kernel_row(kernel: KernelCalls) -> KernelRow:
    """A profiled kernel as `profile parse --json` prints it."""
    last_call = {
        name: getattr(kernel.last, name) for name in LaunchShape.model_fields if name in KernelRow.model_fields
    }
    totals = {name: getattr(kernel, name) for name in KernelCalls.model_fields if name in KernelRow.model_fields}
    return KernelRow(**{**last_call, **totals, "metrics": _by_name(kernel.metrics)})


def trace_row(trace: ThreadTrace) -> TraceRow:
    """A thread trace as `profile parse --json` prints it."""
    shares = {kind.kind: kind.stall / trace.wave_cycles for kind in trace.kinds if trace.wave_cycles}
    classes: dict[str, float] = {item.stall: item.share for item in trace.by_class}
    changed = ("by_class", "by_kind", "validators")
    same = {name: getattr(trace, name) for name in TraceRow.model_fields if name not in changed}
    return TraceRow(**same, by_class=classes, by_kind=shares, validators=dict(trace.validators))


def _by_name(metrics: Sequence[Named]) -> dict[str, float]:
    return {metric.name: metric.value for metric in metrics}


# Recordings from the paths of a command line, with every problem told in one line.

NAMES_TOLD = 6
GBPS = {"GB/s": 1.0, "TB/s": 1e3}


def recordings(paths: Sequence[Path]) -> tuple[Recording, ...]:
    """Every profile that the files and folders hold. Raises `UserError` for a path that is missing or cannot be read."""
    from ridgeline.sandbox.profiles.readers.detect import read_recordings

    rows: list[Recording] = []
    for path in paths:
        if not path.exists():
            raise UserError(
                f"{path}: no such file or folder; give a recording of rocprofv3, ncu, nsys, rocprof-compute or torch"
            )
        try:
            rows.extend(read_recordings(path))
        except RecordingError as error:
            raise UserError(str(error)) from error
    return tuple(rows)


def kernels(
    recordings: Sequence[Recording],
    kernel: str | None,
    *,
    every: bool = False,
    least_bytes: float | None = None,
    gpu: str | None = None,
) -> tuple[JudgedKernel, ...]:
    """Kernel profiles of a recording with what bounds each, the target first.

    `least_bytes`: what one call must move; how many times that it moved is then one of the numbers. `gpu`: the product
    that was recorded, where the recordings name none that is known.

    Raises `UserError` where `kernel` matches none or is no regex, and for a product that is not known.
    """
    from ridgeline.sandbox.profiles.readers.profiles import PROFILES, profile

    bandwidths = _bandwidths(recordings, gpu)
    try:
        profiles = profile(recordings, target=kernel, most=sys.maxsize if every else PROFILES, bandwidths=bandwidths)
    except re.error as error:
        raise UserError(f"--kernel: {kernel!r} is no regular expression ({error}); escape its signs") from error
    if kernel is not None and not profiles:
        names = list(dict.fromkeys(call.display for recording in recordings for call in recording.kernels))
        names_text = ", ".join(names[:NAMES_TOLD]) + (
            f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
        )
        raise UserError(f"--kernel: no kernel matches {kernel!r}; recorded are {names_text or 'none'}")
    if least_bytes is not None:
        profiles = tuple(_tell_over_fetch(profile, least_bytes) for profile in profiles)
    return classify_profiles(profiles)


def _tell_over_fetch(profile: KernelProfile, least_bytes: float) -> KernelProfile:
    """The kernel's profile with the bytes that it moved over those that it must; as it was where no bytes were counted."""
    moved = next((number for number in profile.numbers if number.name == "mem.bytes"), None)
    if moved is None:
        return profile
    times = moved.model_copy(
        update={
            "name": "mem.over_fetch",
            "value": moved.value / least_bytes,
            "source": f"{moved.source}; over {least_bytes:g} bytes, the least of a call",
        }
    )
    return profile.model_copy(update={"numbers": (*profile.numbers, times)})


STEPPING = re.compile(r"_A\d+$")
"""rocprof-compute writes MI300X_A1 for the MI300X."""


def _bandwidths(recordings: Sequence[Recording], gpu: str | None) -> dict[str, Named]:
    """The stated memory bandwidth in GB/s of each profiled device, by its name; of `gpu` where the recording says none.

    Of a module of two dies it is that of one: each is a device of its own in a recording.

    Raises `UserError` for a `gpu` that the knowledge base does not know.
    """
    from ridgeline.agent.analysis.roofline import products

    devices = {recording.device or "" for recording in recordings if recording.vendor == "amd" or gpu is not None}
    if not devices:
        return {}
    library = products()
    if gpu is not None and library.find(gpu) is None:
        raise UserError(f"--gpu: {library.spec(gpu, 'arch').note}")
    by_device: dict[str, Named] = {}
    for device in devices:
        names = (device, STEPPING.sub("", device), gpu or "")
        product = next((name for name in names if name and library.find(name) is not None), None)
        spec = library.device_spec(product, "hbm_bandwidth") if product is not None else None
        if spec is not None and spec.value is not None and spec.unit in GBPS:
            by_device[device] = Named(name=spec.place, value=spec.value * GBPS[spec.unit])
    return by_device


# What changed between two profiles: matched kernels, and for each number whether the change can be believed.

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


class NumberChange(Value):
    """One number on both sides; None where a side does not tell it."""

    name: str
    a: float | None
    b: float | None
    ratio: float | None
    """b / a; None where one side is unknown or a is zero."""


class TimeChange(Value):
    """The medians, and whether they differ by more than the recordings resolve."""

    a_ns: float | None
    b_ns: float | None
    ratio: float | None
    resolution_ns: float
    answer: Literal["faster", "slower", "no difference resolved", "not comparable"]
    why: str


class KernelChange(Value):
    """One kernel that both profiles hold."""

    a: str
    b: str
    time: TimeChange
    bound: tuple[str, str]
    """Class of a and of b."""
    numbers: tuple[NumberChange, ...]
    """Those that differ."""
    stalls: tuple[NumberChange, ...]
    """Stall classes that moved by two points or more, largest change first."""
    stall_basis: tuple[str, str] | None
    """What the shares of each side are of; None where a side has none. Of two kinds nothing is compared."""


class Difference(Value):
    """Two profiles side by side."""

    kernels: tuple[KernelChange, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def difference(a: Sequence[JudgedKernel], b: Sequence[JudgedKernel], *, one_each: bool = False) -> Difference:
    """What `profile diff` compares: kernels matched by whole name, else by the function's own name where unambiguous, in a's order.

    `one_each`: both sides were narrowed to one kernel, which are then compared whatever they are called.
    """
    pairs = [(a[0], b[0])] if one_each and a and b else _pairs(a, b)
    matched_a, matched_b = ({id(pair[side]) for pair in pairs} for side in (0, 1))
    return Difference(
        kernels=tuple(_compare_kernel(*pair) for pair in pairs),
        only_a=tuple(judged.profile.display for judged in a if id(judged) not in matched_a),
        only_b=tuple(judged.profile.display for judged in b if id(judged) not in matched_b),
    )


def _pairs(a: Sequence[JudgedKernel], b: Sequence[JudgedKernel]) -> list[tuple[JudgedKernel, JudgedKernel]]:
    """Kernels of two profiles that are the same, as pairs (a, b), each at most once."""
    rest = list(b)
    pairs = []
    for judged in a:
        same = [candidate for candidate in rest if candidate.profile.kernel == judged.profile.kernel]
        base = own_name(judged.profile.kernel)
        if not same and sum(own_name(candidate.profile.kernel) == base for candidate in a) == 1:
            namesakes = [candidate for candidate in rest if own_name(candidate.profile.kernel) == base]
            same = namesakes if len(namesakes) == 1 else []
        if same:
            pairs.append((judged, same[0]))
            rest = [candidate for candidate in rest if candidate is not same[0]]
    return pairs


def _compare_kernel(a: JudgedKernel, b: JudgedKernel) -> KernelChange:
    basis = (a.profile.stalls[0].basis, b.profile.stalls[0].basis) if a.profile.stalls and b.profile.stalls else None
    numbers = (_number(name, a.profile.number(name), b.profile.number(name)) for name in COMPARED)
    return KernelChange(
        a=a.profile.display,
        b=b.profile.display,
        time=_time(a.profile, b.profile),
        bound=(a.bound.bound, b.bound.bound),
        numbers=tuple(change for change in numbers if change.a != change.b),
        stalls=_stalls(a.profile, b.profile) if basis and basis[0] == basis[1] else (),
        stall_basis=basis,
    )


def _time(a: KernelProfile, b: KernelProfile) -> TimeChange:
    """Median times of one kernel in two profiles in nanoseconds, and which side is faster where the difference is resolved."""
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
    change = _number("time.median_ns", before, after)
    return TimeChange(a_ns=before, b_ns=after, ratio=change.ratio, resolution_ns=resolution, answer=answer, why=why)


def _noise(profile: KernelProfile) -> float:
    """What the median time of a profiled kernel can be off by: two standard errors, else half of the range of the calls."""
    low, high = profile.number("time.min_ns"), profile.number("time.max_ns")
    deviation = profile.number("time.stdev_ns")
    if deviation is not None and profile.calls > 1:
        return float(2 * deviation / profile.calls**0.5)
    return (high - low) / 2 if low is not None and high is not None else 0.0


def _stalls(a: KernelProfile, b: KernelProfile) -> tuple[NumberChange, ...]:
    """Stall shares that moved between two profiles by STALL_POINTS or more, the largest first."""
    before, after = ({item.stall: item.share for item in side.stalls} for side in (a, b))
    changes = [_number(name, before.get(name, 0.0), after.get(name, 0.0)) for name in dict.fromkeys((*before, *after))]
    return tuple(
        sorted(
            (item for item in changes if abs((item.b or 0.0) - (item.a or 0.0)) >= STALL_POINTS),
            key=lambda item: -abs((item.b or 0.0) - (item.a or 0.0)),
        )
    )


def _number(name: str, a: float | None, b: float | None) -> NumberChange:
    return NumberChange(name=name, a=a, b=b, ratio=b / a if a and b is not None else None)
