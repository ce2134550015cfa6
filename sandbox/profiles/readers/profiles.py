"""One profile per kernel out of everything that was recorded of it: times, counters, thread traces, samples."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ridgeline.graph.kernel_profile import (
    Grade,
    Hotspot,
    KernelCalls,
    KernelProfile,
    LaunchShape,
    Limiter,
    ProfileNumber,
    Recording,
    Rung,
    StallShare,
)
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.isa.occupancy import occupancy
from ridgeline.sandbox.profiles.isa.values import KNOWN, Occupancy, Resources, target_of
from ridgeline.sandbox.profiles.readers import cdna, hopper
from ridgeline.sandbox.profiles.readers.agents import registers
from ridgeline.sandbox.profiles.readers.names import ESTIMATED, TORCH, category, display, own_name

PROFILES = 8
"""Kernels that are profiled unless more are asked for; the recordings keep all of them."""
HOTSPOTS = 20
WARNINGS = 24
GRADES: tuple[Grade | None, ...] = ("trace", "events", "replay", "serialised", None)
"""Best time first."""
DECIDES = ("trace", "events")
RATES = ("mem.gbps", "mem.pct_of_peak", "comp.tflops")
COUNTED = "over the time of a run with counters: a run without them is faster"


@dataclass(frozen=True, kw_only=True)
class RecordedKernel:
    """One kernel in one recording."""

    recording: Recording
    kernel: KernelCalls
    function: str
    """The function's own name."""

    @property
    def rank(self) -> int:
        """Reading a profile: 0 for the best grade of time. What has no time of its own comes after everything."""
        grade = self.recording.grade if self.kernel.total_ns is not None else None
        return GRADES.index(grade)


def profile(
    recordings: Sequence[Recording],
    *,
    target: str | None = None,
    most: int = PROFILES,
    bandwidths: Mapping[str, Named] | None = None,
) -> tuple[KernelProfile, ...]:
    """Profiles of the target kernel first, of the others after it, `most` in all.

    `target` is a regular expression searched in names; empty where none matches. Without it the kernels are those of
    category compute, most time first; helpers only where there is nothing else. `bandwidths`: of each device by name,
    the peak in GB/s, named by its source; a share of it is told where bytes and a time are known.

    Raises re.error for an expression that is none.
    """
    recordings = _complete(recordings)
    groups = _group([entry for recording in recordings for entry in _list_seen(recording)])
    if target is not None:
        pattern = re.compile(target)
        groups = [group for group in groups if any(pattern.search(_words(entry.kernel)) for entry in group)]
    else:
        groups = [group for group in groups if group[0].kernel.category == "compute"] or groups
    profiles = (_profile(group, recordings) for group in groups[:most])
    return tuple(
        _against(kernel_profile, (bandwidths or {}).get(kernel_profile.device or "")) for kernel_profile in profiles
    )


def _complete(recordings: Sequence[Recording]) -> Sequence[Recording]:
    """Reading a profile: recordings that do not tell their architecture get that of the others, where all others agree."""
    arches = {(recording.vendor, recording.arch) for recording in recordings if recording.arch}
    arch_by_vendor = dict(arches)
    if len(arch_by_vendor) < len(arches):
        return recordings
    return [
        recording
        if recording.arch or recording.vendor not in arch_by_vendor
        else recording.model_copy(
            update={
                "arch": arch_by_vendor[recording.vendor],
                "kernels": registers(recording.kernels, arch_by_vendor[recording.vendor]),
            }
            if recording.vendor == "amd"
            else {"arch": arch_by_vendor[recording.vendor]}
        )
        for recording in recordings
    ]


def _against(profile: KernelProfile, peak: Named | None) -> KernelProfile:
    """Reading a profile: with the share of a stated peak, where no counter told one."""
    rate = next((number for number in profile.numbers if number.name == "mem.gbps"), None)
    if peak is None or rate is None or profile.number("mem.pct_of_peak") is not None:
        return profile
    share = rate.model_copy(
        update={
            "name": "mem.pct_of_peak",
            "value": rate.value / peak.value,
            "source": f"mem.gbps / {peak.value:g} GB/s ({peak.name})",
        }
    )
    return profile.model_copy(update={"numbers": (*profile.numbers, share)})


def _words(kernel: KernelCalls) -> str:
    return f"{kernel.name}\n{kernel.display}"


def _list_seen(recording: Recording) -> list[RecordedKernel]:
    """The recording's kernels; of a thread trace without a list of kernels, the one that was traced."""
    kernels = recording.kernels
    if not kernels and recording.att is not None:
        kernels = (_kernel_named(recording.att.kernel),)
    return [RecordedKernel(recording=recording, kernel=kernel, function=own_name(kernel.name)) for kernel in kernels]


def _kernel_named(name: str) -> KernelCalls:
    return KernelCalls(name=name, display=display(name), category=category(name), calls=1, last=LaunchShape(calls=1))


def _group(entries: Sequence[RecordedKernel]) -> list[list[RecordedKernel]]:
    """Reading a profile: what belongs to one kernel, best time first; kernels with most time first, untimed ones last.

    By whole name; else, between two tools, by the function's own name where each tool has it only once. Two kernels of
    one recording are never one.
    """
    counts = Counter((id(entry.recording), entry.function) for entry in entries)
    groups: list[list[RecordedKernel]] = []
    by_function: dict[str, list[list[RecordedKernel]]] = {}
    for entry in sorted(entries, key=lambda item: (item.rank, -(item.kernel.total_ns or 0.0))):
        home = next((group for group in by_function.get(entry.function, []) if _same(group, entry, counts)), None)
        if home is not None:
            home.append(entry)
        else:
            groups.append([entry])
            by_function.setdefault(entry.function, []).append(groups[-1])
    return groups


def _same(group: Sequence[RecordedKernel], entry: RecordedKernel, counts: Counter[tuple[int, str]]) -> bool:
    if any(member.recording is entry.recording for member in group):
        return False
    best = group[0]
    alone = all(counts[id(item.recording), item.function] == 1 for item in (best, entry))
    return alone or best.kernel.name == entry.kernel.name


def _profile(group: Sequence[RecordedKernel], recordings: Sequence[Recording]) -> KernelProfile:
    best = group[0]
    kernel = next((entry.kernel for entry in group if entry.kernel.last.workgroup), best.kernel)
    group_recordings = [entry.recording for entry in group]
    arch = next(
        (
            recording.arch
            for recording in (*group_recordings, *recordings)
            if recording.arch and recording.vendor == best.recording.vendor
        ),
        None,
    )
    facts = {
        fact.name: fact.value for recording in reversed((*group_recordings, *recordings)) for fact in recording.facts
    }
    numbers, limiter = _numbers(group, arch, facts)
    traced = next(
        (
            recording.att
            for recording in group_recordings
            if recording.att is not None and _is(recording.att.kernel, best)
        ),
        None,
    )
    return KernelProfile(
        vendor=best.recording.vendor,
        arch=arch,
        device=next((recording.device for recording in (*group_recordings, *recordings) if recording.device), None),
        kernel=best.kernel.name,
        display=best.kernel.display,
        key=_key(kernel),
        category=best.kernel.category,
        launched=kernel.last,
        calls=best.kernel.calls,
        grade=best.recording.grade if best.kernel.total_ns is not None else None,
        numbers=numbers,
        limiter=limiter,
        stalls=_stalls(group, best),
        hotspots=_hotspots(group, best),
        validators=traced.validators if traced is not None else (),
        warnings=tuple(dict.fromkeys(warning for recording in group_recordings for warning in recording.warnings))[
            :WARNINGS
        ],
    )


def _numbers(
    group: Sequence[RecordedKernel], arch: str | None, facts: dict[str, float]
) -> tuple[tuple[ProfileNumber, ...], Limiter | None]:
    """Reading a profile: all numbers, each name once: what was counted before what was computed from resources."""
    best = group[0]
    timed = best.recording.grade in DECIDES and best.kernel.median_ns is not None
    metrics = _metrics(group)
    fitting = next(
        (entry for entry in group if entry.kernel.last.workgroup and entry.kernel.vgpr_total is not None), best
    )
    computed, limiter = residency(fitting.kernel, arch, facts.get("units"))
    numbers = (
        *(times(best.kernel, best.recording) if best.kernel.total_ns is not None else ()),
        *_counter_numbers(group, best, arch, facts, best.kernel.median_ns if timed else None),
        *(number for entry in group for number in resources(entry.kernel, entry.recording)),
        *_trace_numbers(group, best),
        *computed,
    )
    unique: dict[str, ProfileNumber] = {}
    for number in numbers:
        unique.setdefault(number.name, number)
    return tuple(unique.values()), hopper.limiter(metrics) or limiter


def _metrics(group: Sequence[RecordedKernel]) -> tuple[Named, ...]:
    """Metrics of all recordings, each name once: passes of counters add up to one list."""
    return tuple({metric.name: metric for entry in reversed(group) for metric in entry.kernel.metrics}.values())


def _counter_numbers(
    group: Sequence[RecordedKernel],
    best: RecordedKernel,
    arch: str | None,
    facts: dict[str, float],
    duration_ns: float | None,
) -> tuple[ProfileNumber, ...]:
    metrics = _metrics(group)
    if not metrics:
        return ()
    if best.recording.vendor == "nvidia":
        counters = [entry for entry in group if any(metric.name != ESTIMATED for metric in entry.kernel.metrics)]
        tools = dict.fromkeys(entry.recording.tool for entry in counters)
        return hopper.numbers(metrics, tool=" and ".join(tools), duration_ns=duration_ns)
    constants = tuple(Named(name=name, value=value) for name, value in facts.items())
    counted = cdna.numbers(metrics, arch, constants, duration_ns or best.kernel.median_ns)
    if duration_ns is not None:
        return counted
    return tuple(
        number.model_copy(update={"corrected": COUNTED}) if number.name in RATES else number for number in counted
    )


def _trace_numbers(group: Sequence[RecordedKernel], best: RecordedKernel) -> tuple[ProfileNumber, ...]:
    for entry in group:
        trace = entry.recording.att
        if trace is not None and _is(trace.kernel, best):
            source = f"{place(entry.recording)}: thread trace"
            rows = (
                ("comp.matrix_busy", trace.matrix_busy, "a lower bound, of the traced units"),
                ("time.clock_mhz", trace.clock_mhz, ""),
            )
            return tuple(
                ProfileNumber(name=name, value=value, source=source, rung="trace", corrected=note)
                for name, value, note in rows
                if value is not None
            )
    return ()


def _stalls(group: Sequence[RecordedKernel], best: RecordedKernel) -> tuple[StallShare, ...]:
    """Of a thread trace, else of samples, else of counters: what was seen per instruction before what was summed."""
    for entry in group:
        if entry.recording.att is not None and _is(entry.recording.att.kernel, best):
            return entry.recording.att.by_class
    if best.recording.vendor == "nvidia":
        return hopper.stalls(_metrics(group))
    sampled = (
        entry for entry in group if entry.recording.stalls and entry.recording.kernels[:1] in ((), (entry.kernel,))
    )
    return next((entry.recording.stalls for entry in sampled), ())


def _hotspots(group: Sequence[RecordedKernel], best: RecordedKernel) -> tuple[Hotspot, ...]:
    for entry in group:
        trace = entry.recording.att
        spots = trace.hotspots if trace is not None and _is(trace.kernel, best) else entry.recording.hotspots
        kernel_spots = [spot for spot in spots if spot.kernel in ("", entry.kernel.name)]
        if kernel_spots:
            return tuple(kernel_spots[:HOTSPOTS])
    return ()


def _is(traced: str, best: RecordedKernel) -> bool:
    return traced == best.kernel.name or own_name(traced) == best.function


def _key(kernel: KernelCalls) -> str:
    launch = kernel.last
    words = (kernel.name, launch.grid, launch.workgroup, kernel.vgpr_total, launch.sgpr)
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


# The numbers of one kernel that need no counter: its times, its resources, and how much of the GPU it can fill.

TIMES = (
    ("time.total_ns", "total_ns"),
    ("time.mean_ns", "mean_ns"),
    ("time.median_ns", "median_ns"),
    ("time.min_ns", "min_ns"),
    ("time.max_ns", "max_ns"),
    ("time.stdev_ns", "stdev_ns"),
    ("time.share_of_sum", "share"),
    ("time.share_of_span", "share_of_span"),
    ("time.gap_before_ns", "gap_before_ns"),
)
RUNGS: dict[Grade, Rung] = {"trace": "trace", "events": "events", "replay": "counters", "serialised": "counters"}
COMPUTED = "torch computes it from the launch: nothing was measured"
HOST_SLOWED = "the profiler slows the host down: without it gaps are shorter"
STATIC_ONLY = "static part only: dynamic shared memory is not in this recording"


def times(kernel: KernelCalls, recording: Recording) -> tuple[ProfileNumber, ...]:
    """Durations and shares of `kernel`, as `recording` has them; its grade says what they may decide."""
    where = place(recording)
    rung = stands(recording)
    numbers = [ProfileNumber(name="time.calls", value=kernel.calls, source=f"{where}: calls", rung=rung)]
    for name, field in TIMES:
        if (value := getattr(kernel, field)) is not None:
            note = HOST_SLOWED if name == "time.gap_before_ns" and recording.tool == TORCH else ""
            source = f"{where}: {field} of {kernel.calls} calls"
            numbers.append(ProfileNumber(name=name, value=value, source=source, rung=rung, corrected=note))
    if recording.span_ns and recording.busy_ns is not None:
        busy = recording.busy_ns / recording.span_ns
        numbers.append(ProfileNumber(name="time.busy_of_span", value=busy, source=f"{where}: busy / span", rung=rung))
        helpers = sum(helper.total_ns or 0.0 for helper in recording.kernels if helper.category != "compute")
        share = helpers / recording.span_ns
        numbers.append(
            ProfileNumber(name="time.helpers_of_span", value=share, source=f"{where}: helper kernels / span", rung=rung)
        )
    return tuple(numbers)


def resources(kernel: KernelCalls, recording: Recording) -> tuple[ProfileNumber, ...]:
    """Reading a profile: registers, shared memory and scratch of the last launch."""
    launch, where = kernel.last, place(recording)
    rung = stands(recording)
    estimated = next((metric.value for metric in kernel.metrics if metric.name == ESTIMATED), None)

    def number(name: str, value: float | None, note: str = "") -> Iterator[ProfileNumber]:
        if value is not None:
            yield ProfileNumber(name=name, value=value, source=f"{where}: last launch", rung=rung, corrected=note)

    amd = recording.vendor == "amd"
    return (
        *number("regs.arch", launch.arch_vgpr if amd else None),
        *number("regs.accum", launch.accum_vgpr),
        *number("regs.total_per_thread", kernel.vgpr_total, kernel.corrected),
        *number("regs.scalar", launch.sgpr),
        *number("regs.scratch_bytes_per_thread", launch.scratch_bytes),
        *number(
            "shared.static_bytes" if launch.lds_static_only else "shared.total_bytes",
            launch.lds_bytes,
            STATIC_ONLY if launch.lds_static_only else "",
        ),
        *number("launch.threads_per_block", float(prod(launch.workgroup)) if launch.workgroup else None),
        *number("launch.blocks", float(prod(launch.blocks)) if launch.blocks else None),
        *number("launch.variants", float(len(kernel.variants)) if len(kernel.variants) > 1 else None),
        *number("occ.estimated", None if estimated is None else estimated / 100, COMPUTED),
    )


def residency(
    kernel: KernelCalls, arch: str | None, units: float | None
) -> tuple[tuple[ProfileNumber, ...], Limiter | None]:
    """Reading a profile: a kernel's theoretical occupancy by its GPU's own constants, how often the grid fills the GPU, and the limiter.

    Nothing where the architecture, the registers or the block are not known.
    """
    launch = kernel.last
    fits = _fits(kernel, arch)
    if fits is None or not launch.workgroup:
        return (), None
    note = "an upper bound: dynamic shared memory is not known" if launch.lds_static_only else ""
    numbers = [
        ProfileNumber(
            name="occ.theoretical",
            value=fits.share,
            source=f"registers, shared memory and block; {fits.source}",
            rung="analytic",
            corrected=note,
        )
    ]
    limiter = fits.limiter
    if launch.blocks and units and fits.blocks_per_unit:
        fill = prod(launch.blocks) / (units * fits.blocks_per_unit)
        source = f"blocks / ({units:g} units * {fits.blocks_per_unit} blocks per unit)"
        numbers.append(ProfileNumber(name="occ.fill_waves", value=fill, source=source, rung="analytic", corrected=note))
        limiter = "grid" if fill < 1 else limiter
    return tuple(numbers), limiter


def stands(recording: Recording) -> Rung:
    """The rung of what a recording tells of times and launches."""
    if recording.tool == TORCH:
        return "torch_profiler"
    return RUNGS[recording.grade] if recording.grade is not None else "counters"


def place(recording: Recording) -> str:
    """`rocprofv3 run_kernel_trace.csv`: the tool and the file's own name, which is all that a source needs."""
    file = recording.files[0].rpartition("/")[2] if recording.files else recording.format
    return f"{recording.tool} {file}"


def _fits(kernel: KernelCalls, arch: str | None) -> Occupancy | None:
    launch = kernel.last
    if arch not in KNOWN or kernel.vgpr_total is None:
        return None
    usage = Resources(
        arch_vgpr=launch.arch_vgpr,
        vgpr_total=kernel.vgpr_total,
        sgpr=launch.sgpr,
        lds_bytes=launch.lds_bytes,
        threads=prod(launch.workgroup) if launch.workgroup else None,
    )
    return occupancy(target_of(arch), usage)
