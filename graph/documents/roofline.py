"""Step 0 in the documents: the ceilings, every shape below them, and how near the original and the best version are."""

from collections.abc import Sequence

from ridgeline.graph.documents import figures
from ridgeline.graph.documents.text import cell, line, number, quantity, table
from ridgeline.graph.evidence import Row
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.rules.goal import peak_fraction
from ridgeline.graph.rules.headroom import (
    NOTHING_TO_GAIN,
    Headroom,
    compute_best_headroom,
    compute_headroom,
    describe_device,
)
from ridgeline.graph.rules.history import best_round
from ridgeline.graph.rules.roofline import bound_of, compute_shares, ridge
from ridgeline.graph.standing import History

UNKNOWN = "UNKNOWN"


def bound(history: History) -> str:
    """Of the shapes together, once the baseline has placed them under the ceilings."""
    found = bound_of(history.baseline.shapes) if history.baseline else "unknown"
    return UNKNOWN if found == "unknown" else f"{found}-bound"


def ceiling_lines(history: History) -> list[str]:
    """Bound, ridge and method, and what was refused or is not known."""
    roof = history.roofline
    ceilings = roof.ceilings if roof else None
    peak, copy = (ceilings.flops_gflops, ceilings.copy_gbps) if ceilings else (None, None)
    point = f"{ridge(peak, copy):.4g} FLOP/byte" if peak and copy else UNKNOWN
    return [
        f"Bound: {bound(history)}",
        f"Ridge point: {point}",
        f"Method: {_method(history)}",
        *([f"Note: {line(roof.note)}"] if roof and roof.note else []),
    ]


def shapes(history: History) -> str:
    """Operations, bytes, intensity and floor of each shape, before anything is compared with them."""
    baseline, roof = history.baseline, history.roofline
    known: tuple[ShapeRoof, ...] = (roof.shapes if roof else ()) or (baseline.shapes if baseline else ())
    if not known:
        return f"Per shape: {UNKNOWN} (no work formula, or the baseline has not run)."
    rows = ((cell(s.label), *map(quantity, (s.flops, s.bytes, s.intensity, s.floor_us)), s.bound) for s in known)
    return table(("Shape", "FLOP", "bytes", "FLOP/byte", "floor us", "bound"), rows)


def against(history: History) -> str:
    """Original and best version beside the floor of each shape; empty where no floor is known."""
    found = figures.best(history)
    roof, baseline = history.roofline, history.baseline
    column = history.contract.scoring.time_ms
    if found is None or roof is None or baseline is None or column is None:
        return ""
    roofs = [floor for floor in baseline.shapes if floor.floor_us is not None]
    if not roofs:
        return ""
    versions = (baseline.quick.rows, found[1].rows) if found[0] > 1 else (baseline.quick.rows,)
    header = ["Shape", "bound", "floor us"]
    for name in ("original", "best")[: len(versions)]:
        header += [f"{name} us", f"{name}, of ceiling"]
    lines = []
    for floor in roofs:
        cells = [cell(floor.label), floor.bound, quantity(floor.floor_us)]
        for rows in versions:
            cells += _beside(rows, floor, history)
        lines.append(tuple(cells))
    return f"{table(header, lines)}\n\n{_sentence(history)}"


def nothing_to_gain(history: History) -> str:
    """The first sentence of a report on an original that stands at its ceiling; empty for any other campaign."""
    ended = history.concluded
    said = next((check for check in ended.checks if check.id == "T2" and check.satisfied), None) if ended else None
    if ended is None or said is None or not said.description.startswith(NOTHING_TO_GAIN):
        return ""
    again = (
        compute_headroom(ended.project.rows, history.contract, describe_device(history))
        if ended.project
        else "it gave no numbers"
    )
    seen = f"{100 * again.share:.1f} % of the ceiling" if isinstance(again, Headroom) else again
    asked = peak_fraction(history.limits, history.opened.target.performance_target)
    if isinstance(again, Headroom) and asked is not None and again.share < asked:
        seen += ", less than asked: the machine was not steady, so repeat the campaign before you rely on it"
    spent = f"{len(history.rounds)} rounds were" if history.rounds else "No round was"
    return (
        f"{said.description[:1].upper()}{line(said.description[1:])}. "
        f"{spent} spent; the benchmark, run again at the end: {seen}. "
        "To search all the same: `--set target_peak_fraction=none`."
    )


def _method(history: History) -> str:
    ceilings = history.roofline.ceilings if history.roofline else None
    if ceilings is None:
        return UNKNOWN
    stated = [source for source in (ceilings.flops_source, ceilings.copy_source) if source]
    said = [line(ceilings.method)] if ceilings.method else []
    return "; ".join((*said, *([f"stated by {', '.join(stated)}"] if stated else []))) or UNKNOWN


def _beside(rows: Sequence[Row], floor: ShapeRoof, history: History) -> tuple[str, str]:
    scoring = history.contract.scoring
    row = next((row for row in rows if row.label == floor.label), None)
    times = [item.value for item in row.metrics if item.name == scoring.time_ms] if row else []
    if row is None or not times:
        return "-", "-"
    share = compute_shares((row,), (floor,), scoring).get(floor.label)
    return number(1e3 * times[0]), "-" if share is None else f"{100 * share:.1f} %"


def _sentence(history: History) -> str:
    found = compute_best_headroom(history)
    if isinstance(found, str):
        return f"What is left cannot be said: {found}."
    point = (
        f"; farthest from it is {cell(found.lowest)} with {100 * found.lowest_share:.1f} %" if found.shapes > 1 else ""
    )
    who = "The best version" if best_round(history) else "The original, by the slower of its two runs,"
    return f"{who} reaches {found.text}{point}. At most {found.left:.3f}x is left."
