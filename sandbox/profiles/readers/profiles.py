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
    Launched,
    Limiter,
    Recording,
    Rung,
    Said,
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
class Seen:
    """One kernel in one recording."""

    recording: Recording
    kernel: KernelCalls
    own: str
    """The function's own name."""

    @property
    def rank(self) -> int:
        """0 for the best grade of time. What has no time of its own comes after everything."""
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
    groups = _group([seen for recording in recordings for seen in _list_seen(recording)])
    if target is not None:
        wanted = re.compile(target)
        groups = [group for group in groups if any(wanted.search(_words(seen.kernel)) for seen in group)]
    else:
        groups = [group for group in groups if group[0].kernel.category == "compute"] or groups
    profiles = (_profile(group, recordings) for group in groups[:most])
    return tuple(_against(one, (bandwidths or {}).get(one.device or "")) for one in profiles)


def _complete(recordings: Sequence[Recording]) -> Sequence[Recording]:
    """Recordings that do not tell their architecture get that of the others, where all others agree."""
    arches = {(one.vendor, one.arch) for one in recordings if one.arch}
    told = dict(arches)
    if len(told) < len(arches):
        return recordings
    return [
        one
        if one.arch or one.vendor not in told
        else one.model_copy(
            update={"arch": told[one.vendor], "kernels": registers(one.kernels, told[one.vendor])}
            if one.vendor == "amd"
            else {"arch": told[one.vendor]}
        )
        for one in recordings
    ]


def _against(profile: KernelProfile, peak: Named | None) -> KernelProfile:
    """With the share of a stated peak, where no counter told one."""
    rate = next((said for said in profile.numbers if said.name == "mem.gbps"), None)
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


def _list_seen(recording: Recording) -> list[Seen]:
    """The recording's kernels; of a thread trace without a list of kernels, the one that was traced."""
    kernels = recording.kernels
    if not kernels and recording.att is not None:
        kernels = (_kernel_named(recording.att.kernel),)
    return [Seen(recording=recording, kernel=kernel, own=own_name(kernel.name)) for kernel in kernels]


def _kernel_named(name: str) -> KernelCalls:
    return KernelCalls(name=name, display=display(name), category=category(name), calls=1, last=Launched(calls=1))


def _group(seen: Sequence[Seen]) -> list[list[Seen]]:
    """What belongs to one kernel, best time first; kernels with most time first, untimed ones last.

    By whole name; else, between two tools, by the function's own name where each tool has it only once. Two kernels of
    one recording are never one.
    """
    counts = Counter((id(one.recording), one.own) for one in seen)
    groups: list[list[Seen]] = []
    known: dict[str, list[list[Seen]]] = {}
    for one in sorted(seen, key=lambda item: (item.rank, -(item.kernel.total_ns or 0.0))):
        home = next((group for group in known.get(one.own, []) if _same(group, one, counts)), None)
        if home is not None:
            home.append(one)
        else:
            groups.append([one])
            known.setdefault(one.own, []).append(groups[-1])
    return groups


def _same(group: Sequence[Seen], one: Seen, counts: Counter[tuple[int, str]]) -> bool:
    if any(other.recording is one.recording for other in group):
        return False
    first = group[0]
    alone = all(counts[id(item.recording), item.own] == 1 for item in (first, one))
    return alone or first.kernel.name == one.kernel.name


def _profile(group: Sequence[Seen], recordings: Sequence[Recording]) -> KernelProfile:
    first = group[0]
    kernel = next((one.kernel for one in group if one.kernel.last.workgroup), first.kernel)
    mine = [one.recording for one in group]
    arch = next((one.arch for one in (*mine, *recordings) if one.arch and one.vendor == first.recording.vendor), None)
    facts = {fact.name: fact.value for one in reversed((*mine, *recordings)) for fact in one.facts}
    said, limiter = _numbers(group, arch, facts)
    traced = next((one.att for one in mine if one.att is not None and _is(one.att.kernel, first)), None)
    return KernelProfile(
        vendor=first.recording.vendor,
        arch=arch,
        device=next((one.device for one in (*mine, *recordings) if one.device), None),
        kernel=first.kernel.name,
        display=first.kernel.display,
        key=_key(kernel),
        category=first.kernel.category,
        launched=kernel.last,
        calls=first.kernel.calls,
        grade=first.recording.grade if first.kernel.total_ns is not None else None,
        numbers=said,
        limiter=limiter,
        stalls=_stalls(group, first),
        hotspots=_hotspots(group, first),
        validators=traced.validators if traced is not None else (),
        warnings=tuple(dict.fromkeys(warning for one in mine for warning in one.warnings))[:WARNINGS],
    )


def _numbers(
    group: Sequence[Seen], arch: str | None, facts: dict[str, float]
) -> tuple[tuple[Said, ...], Limiter | None]:
    """All numbers, each name once: what was counted before what was computed from resources."""
    first = group[0]
    timed = first.recording.grade in DECIDES and first.kernel.median_ns is not None
    metrics = _metrics(group)
    fitting = next((one for one in group if one.kernel.last.workgroup and one.kernel.vgpr_total is not None), first)
    computed, limiter = residency(fitting.kernel, arch, facts.get("units"))
    said = (
        *(times(first.kernel, first.recording) if first.kernel.total_ns is not None else ()),
        *_counter_numbers(first, metrics, arch, facts, first.kernel.median_ns if timed else None),
        *(number for one in group for number in resources(one.kernel, one.recording)),
        *_trace_numbers(group, first),
        *computed,
    )
    unique: dict[str, Said] = {}
    for number in said:
        unique.setdefault(number.name, number)
    return tuple(unique.values()), hopper.limiter(metrics) or limiter


def _metrics(group: Sequence[Seen]) -> tuple[Named, ...]:
    """Metrics of all recordings, each name once: passes of counters add up to one list."""
    return tuple({metric.name: metric for one in reversed(group) for metric in one.kernel.metrics}.values())


def _counter_numbers(
    first: Seen, metrics: tuple[Named, ...], arch: str | None, facts: dict[str, float], duration_ns: float | None
) -> tuple[Said, ...]:
    if not metrics:
        return ()
    if first.recording.vendor == "nvidia":
        return hopper.numbers(metrics, tool="ncu", duration_ns=duration_ns)
    known = tuple(Named(name=name, value=value) for name, value in facts.items())
    counted = cdna.numbers(metrics, arch, known, duration_ns or first.kernel.median_ns)
    if duration_ns is not None:
        return counted
    return tuple(one.model_copy(update={"corrected": COUNTED}) if one.name in RATES else one for one in counted)


def _trace_numbers(group: Sequence[Seen], first: Seen) -> tuple[Said, ...]:
    for one in group:
        trace = one.recording.att
        if trace is not None and _is(trace.kernel, first):
            source = f"{place(one.recording)}: thread trace"
            known = (
                ("comp.matrix_busy", trace.matrix_busy, "a lower bound, of the traced units"),
                ("time.clock_mhz", trace.clock_mhz, ""),
            )
            return tuple(
                Said(name=name, value=value, source=source, rung="trace", corrected=note)
                for name, value, note in known
                if value is not None
            )
    return ()


def _stalls(group: Sequence[Seen], first: Seen) -> tuple[StallShare, ...]:
    """Of a thread trace, else of samples, else of counters: what was seen per instruction before what was summed."""
    for one in group:
        if one.recording.att is not None and _is(one.recording.att.kernel, first):
            return one.recording.att.by_class
    if first.recording.vendor == "nvidia":
        return hopper.stalls(_metrics(group))
    sampled = (one for one in group if one.recording.stalls and one.recording.kernels[:1] in ((), (one.kernel,)))
    return next((one.recording.stalls for one in sampled), ())


def _hotspots(group: Sequence[Seen], first: Seen) -> tuple[Hotspot, ...]:
    for one in group:
        trace = one.recording.att
        spots = trace.hotspots if trace is not None and _is(trace.kernel, first) else one.recording.hotspots
        mine = [spot for spot in spots if spot.kernel in ("", one.kernel.name)]
        if mine:
            return tuple(mine[:HOTSPOTS])
    return ()


def _is(traced: str, first: Seen) -> bool:
    return traced == first.kernel.name or own_name(traced) == first.own


def _key(kernel: KernelCalls) -> str:
    last = kernel.last
    words = (kernel.name, last.grid, last.workgroup, kernel.vgpr_total, last.sgpr)
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


def times(kernel: KernelCalls, recording: Recording) -> tuple[Said, ...]:
    """Durations and shares of `kernel`, as `recording` has them; its grade says what they may decide."""
    where = place(recording)
    rung = stands(recording)
    said = [Said(name="time.calls", value=kernel.calls, source=f"{where}: calls", rung=rung)]
    for name, field in TIMES:
        if (value := getattr(kernel, field)) is not None:
            note = HOST_SLOWED if name == "time.gap_before_ns" and recording.tool == TORCH else ""
            source = f"{where}: {field} of {kernel.calls} calls"
            said.append(Said(name=name, value=value, source=source, rung=rung, corrected=note))
    if recording.span_ns and recording.busy_ns is not None:
        busy = recording.busy_ns / recording.span_ns
        said.append(Said(name="time.busy_of_span", value=busy, source=f"{where}: busy / span", rung=rung))
        helpers = sum(other.total_ns or 0.0 for other in recording.kernels if other.category != "compute")
        share = helpers / recording.span_ns
        said.append(Said(name="time.helpers_of_span", value=share, source=f"{where}: helper kernels / span", rung=rung))
    return tuple(said)


def resources(kernel: KernelCalls, recording: Recording) -> tuple[Said, ...]:
    """Registers, shared memory and scratch of the last launch."""
    last, where = kernel.last, place(recording)
    rung = stands(recording)
    estimated = next((metric.value for metric in kernel.metrics if metric.name == ESTIMATED), None)

    def said(name: str, value: float | None, note: str = "") -> Iterator[Said]:
        if value is not None:
            yield Said(name=name, value=value, source=f"{where}: last launch", rung=rung, corrected=note)

    amd = recording.vendor == "amd"
    return (
        *said("regs.arch", last.arch_vgpr if amd else None),
        *said("regs.accum", last.accum_vgpr),
        *said("regs.total_per_thread", kernel.vgpr_total, kernel.corrected),
        *said("regs.scalar", last.sgpr),
        *said("regs.scratch_bytes_per_thread", last.scratch_bytes),
        *said(
            "shared.static_bytes" if last.lds_static_only else "shared.total_bytes",
            last.lds_bytes,
            STATIC_ONLY if last.lds_static_only else "",
        ),
        *said("launch.threads_per_block", float(prod(last.workgroup)) if last.workgroup else None),
        *said("launch.blocks", float(prod(last.blocks)) if last.blocks else None),
        *said("launch.variants", float(len(kernel.variants)) if len(kernel.variants) > 1 else None),
        *said("occ.estimated", None if estimated is None else estimated / 100, COMPUTED),
    )


def residency(kernel: KernelCalls, arch: str | None, units: float | None) -> tuple[tuple[Said, ...], Limiter | None]:
    """Theoretical occupancy by the architecture's own constants, how often the grid fills the GPU, and the limiter.

    Nothing where the architecture, the registers or the block are not known.
    """
    last = kernel.last
    fits = _fits(kernel, arch)
    if fits is None or not last.workgroup:
        return (), None
    note = "an upper bound: dynamic shared memory is not known" if last.lds_static_only else ""
    said = [
        Said(
            name="occ.theoretical",
            value=fits.share,
            source=f"registers, shared memory and block; {fits.source}",
            rung="analytic",
            corrected=note,
        )
    ]
    limiter = fits.limiter
    if last.blocks and units and fits.blocks_per_unit:
        fill = prod(last.blocks) / (units * fits.blocks_per_unit)
        source = f"blocks / ({units:g} units * {fits.blocks_per_unit} blocks per unit)"
        said.append(Said(name="occ.fill_waves", value=fill, source=source, rung="analytic", corrected=note))
        limiter = "grid" if fill < 1 else limiter
    return tuple(said), limiter


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
    last = kernel.last
    if arch not in KNOWN or kernel.vgpr_total is None:
        return None
    held = Resources(
        arch_vgpr=last.arch_vgpr,
        vgpr_total=kernel.vgpr_total,
        sgpr=last.sgpr,
        lds_bytes=last.lds_bytes,
        threads=prod(last.workgroup) if last.workgroup else None,
    )
    return occupancy(target_of(arch), held)
