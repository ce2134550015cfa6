"""What is told of one kernel: its code on every target, beside an earlier version, with what a trace says of it."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.graph.kernel_profile import Hotspot
from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.isa.report import Inspection, compare_reports
from ridgeline.sandbox.profiles.isa.values import Code, IsaFinding, Kind, Loop, Report

# Puts the hot instructions of a recorded trace on the lines of a listing.


class HotspotPlacement(Value):
    """What a trace says of the lines of one listing."""

    shares: tuple[tuple[int, float], ...]
    """Index of the instruction, and its share of all wave time or samples."""
    missed: tuple[str, ...]
    """Hot instructions that are not, or not once, in the listing."""


def hotspots(path: Path) -> tuple[Hotspot, ...]:
    """The hot instructions of an AMD thread trace or of ncu's source page. Raises `UserError`."""
    from ridgeline.sandbox.profiles.readers import att, ncu
    from ridgeline.sandbox.profiles.readers.files import RecordingError

    if not path.exists():
        raise UserError(f"--trace: {path}: no such file or folder; give a ui_output folder or ncu's source page")
    try:
        recording = att.read_recording(path) if att.sniff(path) else ncu.read_recording(path)
    except RecordingError as error:
        raise UserError(f"--trace: {error}") from None
    spots = recording.hotspots or (recording.att.hotspots if recording.att else ())
    if not spots:
        raise UserError(f"--trace: {path}: tells no instructions; give a thread trace or ncu's source page")
    return spots


def place_hotspots(code: Code, spots: Sequence[Hotspot]) -> HotspotPlacement:
    """Hot instructions of a trace put on the lines of a listing: by text, and by source line where several read the same."""
    where: dict[str, list[int]] = {}
    for index, instruction in enumerate(code.instructions):
        where.setdefault(_plain(instruction.text), []).append(index)
    shares: dict[int, float] = {}
    missed = []
    for hot in spots:
        same = where.get(_plain(hot.isa), [])
        line = hot.source.rpartition("/")[2]
        same_line = [index for index in same if line and code.instructions[index].source == line]
        fitting = same_line or same
        if len(fitting) == 1:
            shares[fitting[0]] = shares.get(fitting[0], 0.0) + hot.share
        else:
            why = f"{len(fitting)} times in it" if fitting else "not in it"
            missed.append(f"{hot.share:.1%} {hot.isa} ({why})")
    return HotspotPlacement(shares=tuple(sorted(shares.items())), missed=tuple(missed))


def _plain(text: str) -> str:
    return " ".join(text.replace(",", " ").rstrip(" ;").split())


class Section(Value):
    """One kernel of a file."""

    inspections: tuple[Inspection, ...]
    """One for each target."""
    findings: tuple[IsaFinding, ...]
    """Differences to the earlier version."""
    hot: tuple[HotspotPlacement | None, ...]
    """For each of `inspections`; None without a trace, and where there are no instructions to place it on."""
    before: tuple[Inspection, ...] = ()
    """The earlier version, where it has this kernel."""
    compared: bool
    """Whether the earlier version has this kernel on a target of these."""

    @property
    def kernel(self) -> str:
        """The kernel's name in its machine code."""
        return self.inspections[0].report.kernel

    @property
    def placed(self) -> tuple[tuple[Inspection, HotspotPlacement | None], ...]:
        """Each target's machine code with what is hot in it."""
        return tuple(zip(self.inspections, self.hot, strict=True))


def sections(
    kernels: Sequence[tuple[Inspection, ...]], before: Sequence[tuple[Inspection, ...]], spots: Sequence[Hotspot]
) -> tuple[Section, ...]:
    """A section of the `isa` report for each kernel, found by name in the earlier version; a single one whatever its name is now."""
    return tuple(_section(kernel, _earlier(kernel, kernels, before), spots) for kernel in kernels)


def _earlier(
    kernel: tuple[Inspection, ...], kernels: Sequence[tuple[Inspection, ...]], before: Sequence[tuple[Inspection, ...]]
) -> tuple[Inspection, ...]:
    """The same kernel in the earlier version's machine code, by name; empty where it was not there."""
    if len(kernels) == len(before) == 1:
        return before[0]
    return next((old for old in before if old[0].report.kernel == kernel[0].report.kernel), ())


def _section(kernel: tuple[Inspection, ...], old: tuple[Inspection, ...], spots: Sequence[Hotspot]) -> Section:
    """One kernel's machine code against its earlier version, with what is hot in it."""
    then, now = ([inspected.report for inspected in version] for version in (old, kernel))
    return Section(
        inspections=kernel,
        before=old,
        findings=compare_reports(then, now),
        hot=tuple(place_hotspots(inspected.code, spots) if spots and inspected.code else None for inspected in kernel),
        compared=bool({report.target for report in then} & {report.target for report in now}),
    )


# The rows of the report, the same for text and HTML: one column per target.

Row = tuple[str, ...]
UNKNOWN = "-"
NAMES: dict[str, str] = {
    "matrix": "matrix", "valu": "vector ALU", "salu": "scalar ALU", "global_load": "global loads",
    "global_store": "global stores", "global_to_lds": "global to LDS", "atomic": "atomics", "lds_read": "LDS reads",
    "lds_write": "LDS writes", "lds_other": "lane exchange", "scratch": "scratch", "scalar_load": "scalar loads",
    "accum_move": "accumulator moves", "wait": "waits", "barrier": "barriers", "branch": "branches", "nop": "nops",
    "end": "ends", "other": "other",
}  # fmt: skip
"""For people; LDS is shared memory on NVIDIA, scratch its local memory."""
SAID = {
    "LDS per block, B": "shared memory per block, B", "waves per SIMD": "warps per scheduler",
    "LDS reads": "shared reads", "LDS writes": "shared writes", "global to LDS": "global to shared",
    "scratch per lane, B": "stack per thread, B", "registers per lane": "registers per thread",
}  # fmt: skip
"""The same where all targets are NVIDIA's."""
MOVED: tuple[Kind, ...] = ("global_load", "global_store", "global_to_lds", "lds_read", "lds_write")
COUNTED: tuple[Kind, ...] = ("lds_other", "scratch", "accum_move", "atomic", "wait", "barrier", "branch", "nop")


def header(reports: Sequence[Report]) -> Row:
    """Column names of the machine code table: a target each."""
    return ("", *(report.target.arch for report in reports))


def rows(reports: Sequence[Report]) -> tuple[Row, ...]:
    """Lines of the machine code table; lines that say nothing for any target are left out."""
    words = SAID if all(report.target.vendor == "nvidia" for report in reports) else {}
    every = [
        (words.get(name, name), *(show(report) for report in reports)) for name, show in (*_held_metrics(), *_code())
    ]
    return tuple(row for row in every if any(cell not in (UNKNOWN, "0") for cell in row[1:]) or row[0] == "spills")


def listing(code: Code, loops: Sequence[Loop], shares: dict[int, float]) -> Iterator[Row]:
    """A kernel's listing: share of time, loop depth, live registers, line and instruction, in order, labels between.

    `*` marks the loop that looks hottest.
    """
    labels: dict[int, list[str]] = {}
    goals = {instruction.target for instruction in code.instructions}
    for label, index in code.labels:
        if label in goals:
            labels.setdefault(index, []).append(label)
    for index, instruction in enumerate(code.instructions):
        for label in labels.get(index, ()):
            yield ("", "", "", "", f"{label}:")
        around = [loop for loop in loops if loop.first <= index <= loop.last]
        mark = "|" * min(len(around), 8) + ("*" if any(loop.hot for loop in around) else "")
        share = shares.get(index)
        live = "" if instruction.live is None else str(instruction.live)
        yield ("" if share is None else f"{share:.1%}", mark, live, instruction.source, f"  {instruction.text}")


def launches(reports: Sequence[Report]) -> tuple[str, ...]:
    """Notes on a kernel's machine code of all targets, each once, and which targets it is about where not all."""
    every: dict[str, list[str]] = {}
    for report in reports:
        for note in report.notes:
            every.setdefault(note, []).append(report.target.arch)
    return tuple(note if len(archs) == len(reports) else f"{', '.join(archs)}: {note}" for note, archs in every.items())


def number(value: float | None) -> str:
    """A number of a machine code report, or `-` where no tool printed it."""
    return UNKNOWN if value is None else f"{value:g}"


def _held_metrics() -> Iterator[tuple[str, Callable[[Report], str]]]:
    yield "read from", lambda r: r.form
    yield "registers per lane", lambda r: number(_total(r))
    yield "  of them accumulators", lambda r: number(r.resources.accum_vgpr)
    yield "scalar registers", lambda r: number(r.resources.sgpr)
    yield "spills", lambda r: number(r.resources.vgpr_spills)
    yield "scalar spills", lambda r: number(r.resources.sgpr_spills)
    yield "scratch per lane, B", lambda r: number(r.resources.scratch_bytes)
    yield "LDS per block, B", lambda r: number(r.resources.lds_bytes)
    yield "threads per block", lambda r: number(r.resources.threads)
    yield "waves per SIMD", _waves
    yield "limited by", lambda r: r.occupancy.limiter if r.occupancy else UNKNOWN
    yield "registers for one more block", _next
    yield "most live registers", _most_live


def _code() -> Iterator[tuple[str, Callable[[Report], str]]]:
    yield "instructions", lambda r: number(r.shape.instructions if r.shape else None)
    yield "matrix", _matrix
    for kind in MOVED:
        yield NAMES[kind], _moves(kind)
    for kind in COUNTED:
        yield NAMES[kind], _counts(kind)
    yield "layout conversions", _operations("ttg.convert_layout")
    yield "asynchronous copies", _operations("ttg.async_copy", "ttng.async_tma_copy", "amdg.buffer_load_to_local")
    yield "unswizzled shared layouts", lambda r: number(len(r.layouts.unswizzled) if r.layouts else None)
    yield "loops", lambda r: number(len(r.shape.loops) if r.shape else None)


def _most_live(report: Report) -> str:
    """How many registers of a kernel hold something at once, and where."""
    pressure = report.shape.pressure if report.shape else ()
    return f"{pressure[0].live} at {pressure[0].source}" if pressure else UNKNOWN


def _operations(*prefixes: str) -> Callable[[Report], str]:
    """Operations of Triton's GPU IR whose names begin so."""

    def show(report: Report) -> str:
        if report.layouts is None:
            return UNKNOWN
        return number(sum(entry.count for entry in report.layouts.operations if entry.name.startswith(prefixes)))

    return show


def _total(report: Report) -> int | None:
    """Vector registers of a thread, as the compiler tells; None where not known."""
    resources = report.resources
    return resources.vgpr_total if resources.vgpr_total is not None else resources.arch_vgpr


def _waves(report: Report) -> str:
    if report.occupancy is None:
        return UNKNOWN
    return f"{report.occupancy.waves_per_simd:g} of {report.occupancy.most}"


def _next(report: Report) -> str:
    """What would let one more wave fit on a compute unit, where only registers stop it."""
    occupancy = report.occupancy
    return number(occupancy.registers_for_next) if occupancy and occupancy.limiter == "registers" else UNKNOWN


def _matrix(report: Report) -> str:
    """Matrix instructions of a kernel's code, as `8 NAME`."""
    if report.shape is None:
        return UNKNOWN
    return ", ".join(f"{entry.count} {entry.name}" for entry in report.shape.matrix) or "0"


def _moves(kind: Kind) -> Callable[[Report], str]:
    def show(report: Report) -> str:
        if report.shape is None:
            return UNKNOWN
        widths = [width for width in report.shape.widths if width.kind == kind]
        return ", ".join(f"{width.count} x {width.lane_bytes} B" for width in widths) or str(report.shape.count(kind))

    return show


def _counts(kind: Kind) -> Callable[[Report], str]:
    return lambda report: number(report.shape.count(kind) if report.shape else None)


def hot_loop(report: Report) -> str:
    """The loop of a kernel's machine code that looks hottest, in a line; empty where there is none."""
    loop = next((loop for loop in report.shape.loops if loop.hot), None) if report.shape else None
    if loop is None:
        return ""
    where = f" at {loop.source[0]}" if loop.source else ""
    main = {"matrix", "global_load", "lds_read", "wait", "barrier", "scratch"}
    words = SAID if report.target.vendor == "nvidia" else {}
    class_counts = ((entry.count, NAMES[entry.name]) for entry in loop.counts if entry.name in main)
    summary = ", ".join(f"{count} {words.get(name, name)}" for count, name in class_counts)
    return f"{report.target.arch}: {loop.last - loop.first + 1} instructions{where}" + (
        f": {summary}" if summary else ""
    )


# The report as one self-contained page. Everything in it is escaped: kernel names and sources are hostile.

STYLE = (
    "body{font:14px/1.5 sans-serif;margin:2em;max-width:110em}table{border-collapse:collapse}"
    "td,th{padding:.15em .8em;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}"
    "pre,code,.code td{font-family:monospace;font-size:12px;white-space:pre}.hot{background:#fff3d6}"
    ".time{background:#f7c7b8}.code td{border:0;padding:0 .8em}.against{color:#a40000}"
)


MOST_CHANGES = 2000
"""Lines of changed code on a page."""


def page(kernel_sections: Sequence[Section]) -> str:
    """HTML of each kernel's table, differences, notes and listings."""
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<title>{escape(', '.join(section.kernel for section in kernel_sections))}</title>"
        f"<style>{STYLE}</style></head><body>{''.join(_kernel(section) for section in kernel_sections)}</body></html>\n"
    )


def _kernel(section: Section) -> str:
    reports = [inspected.report for inspected in section.inspections]
    listings = "".join(_listing(inspected, hot) for inspected, hot in section.placed)
    names = " / ".join(filter(None, (reports[0].plain, section.kernel)))
    changes = "".join(_changes(was, now) for was, now in _pairs(section))
    return (
        f"<h1>{escape(f'{names}: {reports[0].compiler}')}</h1>"
        f"<table>{_line(header(reports), 'th')}{''.join(_line(row, 'td') for row in rows(reports))}</table>"
        f"{_findings(section.findings)}{changes}{''.join(_notes(inspected) for inspected in section.inspections)}{listings}"
    )


def _pairs(section: Section) -> Iterator[tuple[Inspection, Inspection]]:
    """Machine code of the earlier version and of this one on each target that both have."""
    earlier = {inspected.report.target: inspected for inspected in section.before}
    for inspected in section.inspections:
        if (was := earlier.get(inspected.report.target)) is not None:
            yield was, inspected


def _changes(was: Inspection, now: Inspection) -> str:
    """The machine code of two versions for a reviewer: each number beside the other, the changed ones marked, then the changed code."""
    lines = "".join(
        _line((row[0], row[1], row[2]), "td", "" if row[1] == row[2] else "hot")
        for row in rows((was.report, now.report))
    )
    target = now.report.target.arch
    titles = _line((target, "before", "after"), "th")
    return f"<h2>{escape(target)}: before and after</h2><table>{titles}{lines}</table>{_changed_code(was, now)}"


def _changed_code(was: Inspection, now: Inspection) -> str:
    """Opcodes that came and went. Registers and addresses differ nearly everywhere and are left out."""
    if was.code is None or now.code is None or was.report.form != now.report.form:
        return ""
    then, later = ([instruction.mnemonic for instruction in code.instructions] for code in (was.code, now.code))
    changes = list(difflib.unified_diff(then, later, "before", "after", lineterm="", n=2))[:MOST_CHANGES]
    if not changes:
        return "<p>The same opcodes in the same order.</p>"
    style = {"-": "against", "+": "hot"}
    lines = "".join(_line((change,), "td", style.get(change[0], "")) for change in changes)
    return f"<details><summary>opcodes that changed</summary><table class='code'>{lines}</table></details>"


def _line(cells: Sequence[str], tag: str, style: str = "") -> str:
    inside = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
    return f"<tr{f' class={style!r}' if style else ''}>{inside}</tr>"


def _findings(findings: Sequence[IsaFinding]) -> str:
    if not findings:
        return ""
    lines = "".join(_line((f.target, f.weight, f.text), "td", f.weight) for f in findings)
    return f"<h2>Against the other version</h2><table>{lines}</table>"


def _notes(inspected: Inspection) -> str:
    notes = [inspected.report.compiler, *inspected.report.notes]
    if inspected.report.occupancy is not None:
        notes.append(f"waves: {inspected.report.occupancy.source}")
    return f"<h2>{escape(inspected.report.target.arch)}</h2><p>{'<br>'.join(escape(note) for note in notes)}</p>"


def _listing(inspected: Inspection, hot: HotspotPlacement | None) -> str:
    if inspected.code is None or inspected.report.shape is None:
        return ""
    shares = dict(hot.shares) if hot else {}
    lines = "".join(
        _line(row, "td", "time" if row[0] else "hot" if "*" in row[1] else "")
        for row in listing(inspected.code, inspected.report.shape.loops, shares)
    )
    head = (
        f"<summary>{escape(inspected.report.target.arch)}: {inspected.report.shape.instructions} instructions</summary>"
    )
    layouts = (
        f"<details><summary>TTGIR</summary><pre>{escape(inspected.ttgir)}</pre></details>" if inspected.ttgir else ""
    )
    return f"<details>{head}<table class='code'>{lines}</table></details>{layouts}"
