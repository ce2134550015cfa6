"""A profile as text for a terminal: kernels ranked, then what bounds each, with the numbers it rests on."""

import re
from collections.abc import Iterator, Sequence

from ridgeline.agent.profiles.document import Judged
from ridgeline.graph.kernel_profile import Hotspot, KernelCalls, KernelProfile, Recording, StallShare

HEADER = (
    "#",
    "KERNEL",
    "CATEGORY",
    "SHARE",
    "CALLS",
    "MEDIAN us",
    "TOTAL us",
    "REGS",
    "LDS",
    "SCRATCH",
    "BLOCKS",
    "THREADS",
)
KERNELS = 20
DETAILED = 3
STALLS = 6
SPOTS = 8
NAME = 56
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Names come out of files: escape sequences and direction marks must not reach a terminal."""
GROUPS = ("time", "mem", "comp", "sol", "occ", "regs", "shared", "shm", "issue", "launch")


def plain(text: str, limit: int = 200) -> str:
    """Foreign text for one line of a terminal."""
    kept = _CONTROL.sub(" ", text[: 4 * limit])
    return kept if len(kept) <= limit else f"{kept[: limit - 3]}..."


def headline(recording: Recording) -> str:
    """One line: tool, format, device, and how much of the time the GPU worked."""
    words = [f"{recording.tool} {recording.format}"]
    words += [word for word in (recording.arch, recording.device) if word]
    words.append(f"{recording.rows} rows" + (f", {recording.rejected} left out" if recording.rejected else ""))
    if recording.kernels:
        words.append(f"{len(recording.kernels)} kernels")
    if recording.span_ns and recording.busy_ns is not None:
        words.append(f"busy {recording.busy_ns / 1e6:.4g} ms of {recording.span_ns / 1e6:.4g} ms")
    return plain(", ".join(words), 300)


def rows(recording: Recording) -> list[tuple[str, ...]]:
    """The table of kernels, hottest first, at most 20."""
    return [_row(place, kernel) for place, kernel in enumerate(recording.kernels[:KERNELS], start=1)]


def verdicts(kernels: Sequence[Judged], *, detailed: int = DETAILED) -> Iterator[str]:
    """Lines about each kernel: class, evidence, what next, stalls, hotspots, numbers."""
    for one in kernels[:detailed]:
        yield from _verdict(one)
    for one in kernels[detailed:]:
        yield f"{plain(one.profile.display, NAME)}: {_class(one)}"


def _verdict(one: Judged) -> Iterator[str]:
    profile, bound = one.profile, one.bound
    yield f"{plain(profile.display, 100)}: {_class(one)}"
    yield from (f"  because  {plain(text, 300)}" for text in bound.evidence)
    if bound.flags:
        yield f"  flags    {', '.join(bound.flags)}"
    yield from (f"  next     {text}" for text in bound.next)
    if profile.limiter is not None:
        yield f"  limiter  {profile.limiter}"
    if profile.stalls:
        yield f"  waits    {_stalls(profile.stalls)}"
    if profile.validators:
        failed = [name for name, passed in profile.validators if not passed]
        yield f"  checks   {', '.join(failed) + ' failed' if failed else f'all {len(profile.validators)} passed'}"
    yield from (f"  hot      {_spot(spot)}" for spot in profile.hotspots[:SPOTS])
    yield from _numbers(profile)


def _numbers(profile: KernelProfile) -> Iterator[str]:
    for group in GROUPS:
        told = [
            f"{said.name.partition('.')[2]} {plain_number(said.value)}{'*' if said.corrected else ''}"
            for said in profile.numbers
            if said.name.startswith(f"{group}.")
        ]
        if told:
            yield f"  {group:<8} {', '.join(told)}"
    for note in dict.fromkeys(said.corrected for said in profile.numbers if said.corrected):
        yield f"  *        {plain(note)}"


def _class(one: Judged) -> str:
    bound = one.bound
    name = bound.bound.replace("_", "-") + (f" ({bound.subclass})" if bound.subclass else "")
    return f"{name}, {bound.confidence} confidence"


def _stalls(stalls: Sequence[StallShare]) -> str:
    told = ", ".join(f"{item.stall} {item.share:.1%}" for item in stalls[:STALLS])
    return f"{told} of {stalls[0].basis.replace('_', ' ')}"


def _spot(spot: Hotspot) -> str:
    stalled = f" {spot.stall}" if spot.stall is not None else ""
    source = f"  {plain(spot.source, 80)}" if spot.source else ""
    return f"{spot.share:6.1%}{stalled:<13} {plain(spot.isa, 70)}{source}"


def _row(place: int, kernel: KernelCalls) -> tuple[str, ...]:
    last = kernel.last
    registers = kernel.vgpr_total if kernel.vgpr_total is not None else last.arch_vgpr
    return (
        str(place),
        plain(kernel.display, NAME),
        kernel.category,
        "-" if kernel.share is None else f"{kernel.share:.1%}",
        str(kernel.calls),
        number(kernel.median_ns, 1e3),
        number(kernel.total_ns, 1e3),
        number(registers) + ("*" if kernel.corrected else ""),
        number(last.lds_bytes) + ("+" if last.lds_static_only and last.lds_bytes is not None else ""),
        number(last.scratch_bytes),
        axes(last.blocks),
        axes(last.workgroup),
    )


def number(value: float | None, unit: float = 1.0) -> str:
    """A dash for what is not known."""
    return "-" if value is None else plain_number(value / unit)


def plain_number(value: float) -> str:
    """Five digits, and never an exponent for what a person would write out."""
    return f"{value:.0f}" if 1e5 <= abs(value) < 1e12 else f"{value:.5g}"


def axes(value: tuple[int, int, int] | None) -> str:
    """`512` or `32x128`: trailing ones left out; a dash for what is not known."""
    if value is None:
        return "-"
    kept = list(value)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(str(size) for size in kept)
