"""A profile as text for a terminal: kernels ranked, then what bounds each, with the numbers it rests on."""

import re
from collections.abc import Iterator, Sequence

from ridgeline.agent.analysis.profile_document import JudgedKernel
from ridgeline.graph.kernel_profile import Hotspot, KernelCalls, KernelProfile, Recording, StallShare

HEADER = (
    "#",
    "KERNEL",
    "CATEGORY",
    "SHARE",
    "CALLS",
    "P20 us",
    "P50 us",
    "P80 us",
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
    """A kernel's or tool's foreign text for one line of a terminal."""
    printable = _CONTROL.sub(" ", text[: 4 * limit])
    return printable if len(printable) <= limit else f"{printable[: limit - 3]}..."


def headline(recording: Recording) -> str:
    """The profile page's first line: tool, format, device, and how much of the time the GPU worked."""
    words = [f"{recording.tool} {recording.format}"]
    words += [word for word in (recording.arch, recording.device) if word]
    words.append(f"{recording.rows} rows" + (f", {recording.rejected} left out" if recording.rejected else ""))
    if recording.kernels:
        words.append(f"{len(recording.kernels)} kernels")
    if recording.span_ns and recording.busy_ns is not None:
        words.append(f"busy {recording.busy_ns / 1e6:.4g} ms of {recording.span_ns / 1e6:.4g} ms")
    return plain(", ".join(words), 300)


def rows(recording: Recording) -> list[tuple[str, ...]]:
    """The profile page's table of kernels, hottest first, at most 20."""
    return [_row(place, kernel) for place, kernel in enumerate(recording.kernels[:KERNELS], start=1)]


def verdicts(kernels: Sequence[JudgedKernel], *, detailed: int = DETAILED) -> Iterator[str]:
    """Lines of the profile page about each kernel: class, evidence, what next, stalls, hotspots, numbers."""
    for judged in kernels[:detailed]:
        yield from _verdict(judged)
    for judged in kernels[detailed:]:
        yield f"{plain(judged.profile.display, NAME)}: {_class(judged)}"


def _verdict(judged: JudgedKernel) -> Iterator[str]:
    """The profile page's lines about one kernel."""
    profile, bound = judged.profile, judged.bound
    yield f"{plain(profile.display, 100)}: {_class(judged)}"
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
    """A profiled kernel's numbers: a line for each group, and one for each correction."""
    for group in GROUPS:
        metrics = [
            f"{metric.name.partition('.')[2]} {plain_number(metric.value)}{'*' if metric.corrected else ''}"
            for metric in profile.numbers
            if metric.name.startswith(f"{group}.")
        ]
        if metrics:
            yield f"  {group:<8} {', '.join(metrics)}"
    for note in dict.fromkeys(metric.corrected for metric in profile.numbers if metric.corrected):
        yield f"  *        {plain(note)}"


def _class(judged: JudgedKernel) -> str:
    """What bounds a profiled kernel, and how sure that is."""
    bound = judged.bound
    name = bound.bound.replace("_", "-") + (f" ({bound.subclass})" if bound.subclass else "")
    return f"{name}, {bound.confidence} confidence"


def _stalls(stalls: Sequence[StallShare]) -> str:
    """The largest stalls of a profiled kernel with their shares."""
    shares = ", ".join(f"{item.stall} {item.share:.1%}" for item in stalls[:STALLS])
    return f"{shares} of {stalls[0].basis.replace('_', ' ')}"


def _spot(spot: Hotspot) -> str:
    stalled = f" {spot.stall}" if spot.stall is not None else ""
    source = f"  {plain(spot.source, 80)}" if spot.source else ""
    return f"{spot.share:6.1%}{stalled:<13} {plain(spot.isa, 70)}{source}"


def _row(place: int, kernel: KernelCalls) -> tuple[str, ...]:
    """One kernel's row in the profile page's table; times in microseconds."""
    last_call = kernel.last
    registers = kernel.vgpr_total if kernel.vgpr_total is not None else last_call.arch_vgpr
    return (
        str(place),
        plain(kernel.display, NAME),
        kernel.category,
        "-" if kernel.share is None else f"{kernel.share:.1%}",
        str(kernel.calls),
        number(kernel.p20_ns, 1e3),
        number(kernel.median_ns, 1e3),
        number(kernel.p80_ns, 1e3),
        number(kernel.total_ns, 1e3),
        number(registers) + ("*" if kernel.corrected else ""),
        number(last_call.lds_bytes) + ("+" if last_call.lds_static_only and last_call.lds_bytes is not None else ""),
        number(last_call.scratch_bytes),
        axes(last_call.blocks),
        axes(last_call.workgroup),
    )


def number(value: float | None, unit: float = 1.0) -> str:
    """A profile's number as a cell; a dash for what is not known."""
    return "-" if value is None else plain_number(value / unit)


def plain_number(value: float) -> str:
    """A profile's number with five digits, and never an exponent for what a person would write out."""
    return f"{value:.0f}" if 1e5 <= abs(value) < 1e12 else f"{value:.5g}"


def axes(value: tuple[int, int, int] | None) -> str:
    """A launch's grid or block as `512` or `32x128`: trailing ones left out; a dash for what is not known."""
    if value is None:
        return "-"
    sizes = list(value)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return "x".join(str(size) for size in sizes)


# A profile as one self-contained HTML page: no script, no network, every foreign word escaped.

TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body{font:14px/1.5 system-ui,sans-serif;max-width:120ch;margin:2em auto;padding:0 1em;color:#1a1a1a;background:#fff}
table{border-collapse:collapse;margin:.5em 0 1.5em}
td,th{padding:.15em .6em;border-bottom:1px solid #ddd;text-align:left}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code,pre{font:12px/1.45 ui-monospace,monospace}
pre{white-space:pre-wrap}.bar{display:inline-block;height:.7em;background:#4a7ebb;vertical-align:baseline}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}td,th{border-color:#333}}
</style></head><body>
<h1>{{ title }}</h1>
{% for recording, header, kernels in tables %}
<h2>{{ header }}</h2>
{% if kernels %}<table><tr>{% for name in columns %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in kernels %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>{% endif %}
{% for warning in recording.warnings %}<p>warning: {{ warning }}</p>{% endfor %}
{% endfor %}
{% for one, text in kernels %}
<h2>{{ one.profile.display }}</h2>
<p><b>{{ one.bound.bound }}{% if one.bound.subclass %} ({{ one.bound.subclass }}){% endif %}</b>,
{{ one.bound.confidence }} confidence</p>
{% if one.profile.stalls %}<table><tr><th>waits for</th><th class="n">share of {{ one.profile.stalls[0].basis }}</th>
<th></th></tr>
{% for item in one.profile.stalls %}<tr><td>{{ item.stall }}</td><td class="n">{{ "%.1f %%" % (100 * item.share) }}</td>
<td><span class="bar" style="width:{{ "%.2f" % (20 * [0, [1, item.share]|min]|max) }}em"></span></td></tr>{% endfor %}
</table>{% endif %}
<pre>{{ text }}</pre>
{% if one.profile.hotspots %}
<table><tr><th class="n">share</th><th>waits for</th><th>instruction</th><th>source</th></tr>
{% for spot in one.profile.hotspots %}<tr><td class="n">{{ "%.1f %%" % (100 * spot.share) }}</td>
<td>{{ spot.stall or "" }}</td><td><code>{{ spot.isa }}</code></td>
<td><code>{{ spot.source }}</code></td></tr>{% endfor %}
</table>{% endif %}
<table><tr><th>number</th><th class="n">value</th><th>stands on</th><th>source</th></tr>
{% for said in one.profile.numbers %}
<tr><td><code>{{ said.name }}</code></td><td class="n">{{ "%.6g" % said.value }}</td>
<td>{{ said.rung }}</td><td>{{ said.source }}{% if said.corrected %} &mdash; {{ said.corrected }}{% endif %}</td></tr>
{% endfor %}</table>
{% endfor %}
</body></html>
"""


def render(title: str, recordings: Sequence[Recording], kernels: Sequence[JudgedKernel]) -> str:
    """The HTML page of profiles. `title` and everything out of the recordings may hold any text."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TEMPLATE).render(
        title=title,
        columns=HEADER,
        tables=[(recording, headline(recording), rows(recording)) for recording in recordings],
        kernels=[(judged, "\n".join(verdicts((judged,)))) for judged in kernels],
    )
