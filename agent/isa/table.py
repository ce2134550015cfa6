"""The rows of the report, the same for text and HTML: one column per target."""

from collections.abc import Callable, Iterator, Sequence

from ridgeline.sandbox.profiles.isa.values import Code, Kind, Loop, Report

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
    """Column names."""
    return ("", *(report.target.arch for report in reports))


def rows(reports: Sequence[Report]) -> tuple[Row, ...]:
    """Every line of the table; lines that say nothing for any target are left out."""
    words = SAID if all(report.target.vendor == "nvidia" for report in reports) else {}
    every = [(words.get(name, name), *(show(report) for report in reports)) for name, show in (*_held(), *_code())]
    return tuple(row for row in every if any(cell not in (UNKNOWN, "0") for cell in row[1:]) or row[0] == "spills")


def listing(code: Code, loops: Sequence[Loop], shares: dict[int, float]) -> Iterator[Row]:
    """Share of time, loop depth, source line and instruction, in order, with labels between them.

    `*` marks the loop that looks hottest.
    """
    labels: dict[int, list[str]] = {}
    goals = {instruction.target for instruction in code.instructions}
    for label, index in code.labels:
        if label in goals:
            labels.setdefault(index, []).append(label)
    for index, instruction in enumerate(code.instructions):
        for label in labels.get(index, ()):
            yield ("", "", "", f"{label}:")
        around = [loop for loop in loops if loop.first <= index <= loop.last]
        mark = "|" * min(len(around), 8) + ("*" if any(loop.hot for loop in around) else "")
        share = shares.get(index)
        yield ("" if share is None else f"{share:.1%}", mark, instruction.source, f"  {instruction.text}")


def launches(reports: Sequence[Report]) -> tuple[str, ...]:
    """Notes of all targets, each once, and which targets it is about where not all."""
    every: dict[str, list[str]] = {}
    for report in reports:
        for note in report.notes:
            every.setdefault(note, []).append(report.target.arch)
    return tuple(note if len(archs) == len(reports) else f"{', '.join(archs)}: {note}" for note, archs in every.items())


def number(value: float | None) -> str:
    """The number, or `-` where nobody told it."""
    return UNKNOWN if value is None else f"{value:g}"


def _held() -> Iterator[tuple[str, Callable[[Report], str]]]:
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


def _code() -> Iterator[tuple[str, Callable[[Report], str]]]:
    yield "instructions", lambda r: number(r.shape.instructions if r.shape else None)
    yield "matrix", _matrix
    for kind in MOVED:
        yield NAMES[kind], _moves(kind)
    for kind in COUNTED:
        yield NAMES[kind], _counts(kind)
    yield "loops", lambda r: number(len(r.shape.loops) if r.shape else None)


def _total(report: Report) -> int | None:
    held = report.resources
    return held.vgpr_total if held.vgpr_total is not None else held.arch_vgpr


def _waves(report: Report) -> str:
    if report.occupancy is None:
        return UNKNOWN
    return f"{report.occupancy.waves_per_simd:g} of {report.occupancy.most}"


def _next(report: Report) -> str:
    """Only where registers are what stops it."""
    found = report.occupancy
    return number(found.registers_for_next) if found and found.limiter == "registers" else UNKNOWN


def _matrix(report: Report) -> str:
    if report.shape is None:
        return UNKNOWN
    return ", ".join(f"{found.count} {found.name}" for found in report.shape.matrix) or "0"


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
    """The loop that looks hottest, in a line; empty where there is none."""
    loop = next((loop for loop in report.shape.loops if loop.hot), None) if report.shape else None
    if loop is None:
        return ""
    where = f" at {loop.source[0]}" if loop.source else ""
    main = {"matrix", "global_load", "lds_read", "wait", "barrier", "scratch"}
    words = SAID if report.target.vendor == "nvidia" else {}
    named = ((found.count, NAMES[found.name]) for found in loop.counts if found.name in main)
    told = ", ".join(f"{count} {words.get(name, name)}" for count, name in named)
    return f"{report.target.arch}: {loop.last - loop.first + 1} instructions{where}" + (f": {told}" if told else "")
