"""What `ridgeline profile parse --json` prints: one object, null for everything that the recordings do not tell."""

from collections.abc import Sequence

from ridgeline.graph.kernel_profile import (
    Axes,
    Bounded,
    Hotspot,
    KernelCalls,
    KernelProfile,
    Launched,
    Recording,
    StallShare,
    ThreadTrace,
    TracedKind,
)
from ridgeline.graph.policy.bound import classify
from ridgeline.graph.values import Named, Value

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
    variants: tuple[Launched, ...]
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
    """Shares of wave time: by what was waited for (`mem_wait`) and, finer and not to be added to these, by the kind of
    instruction that stalled (`wait_vm`)."""
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


class Judged(Value):
    """One kernel over all recordings, and what bounds it."""

    profile: KernelProfile
    bound: Bounded


class Document(RecordingRow):
    """The first recording, written out; what all of them say together; the rest."""

    profiles: tuple[Judged, ...]
    others: tuple[RecordingRow, ...]


def judged(profiles: Sequence[KernelProfile]) -> tuple[Judged, ...]:
    """Each profile with its class."""
    return tuple(Judged(profile=profile, bound=classify(profile)) for profile in profiles)


def document(recordings: Sequence[Recording], profiles: Sequence[Judged]) -> Document:
    """One object for at least one recording. A thread trace among the others is shown with the first too."""
    first, *others = recordings
    top = recording_row(first)
    traced = next((one.att for one in recordings if one.att is not None), None)
    return Document(
        **{name: getattr(top, name) for name in RecordingRow.model_fields if name != "att"},
        att=None if traced is None else trace_row(traced),
        profiles=tuple(profiles),
        others=tuple(recording_row(other) for other in others),
    )


def recording_row(recording: Recording) -> RecordingRow:
    """One recording as it is printed."""
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
    """A kernel as it is printed."""
    last = {name: getattr(kernel.last, name) for name in Launched.model_fields if name in KernelRow.model_fields}
    own = {name: getattr(kernel, name) for name in KernelCalls.model_fields if name in KernelRow.model_fields}
    return KernelRow(**{**last, **own, "metrics": _by_name(kernel.metrics)})


def trace_row(trace: ThreadTrace) -> TraceRow:
    """A thread trace as it is printed."""
    shares = {kind.kind: kind.stall / trace.wave_cycles for kind in trace.kinds if trace.wave_cycles}
    shares |= {item.stall: item.share for item in trace.by_class}
    same = {name: getattr(trace, name) for name in TraceRow.model_fields if name not in ("by_class", "validators")}
    return TraceRow(**same, by_class=shares, validators=dict(trace.validators))


def _by_name(metrics: Sequence[Named]) -> dict[str, float]:
    return {metric.name: metric.value for metric in metrics}
