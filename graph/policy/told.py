"""What a planner is told of numbers and ends: each shape as it was measured, and when the campaign is over."""

from collections.abc import Sequence

from ridgeline.graph.briefing import ShapeNow, Terms
from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Row
from ridgeline.graph.policy import ends
from ridgeline.graph.policy.history import noise, planned, standing, total_cost
from ridgeline.graph.policy.reach import Reach, of_best
from ridgeline.graph.policy.score import row_score
from ridgeline.graph.standing import History
from ridgeline.graph.stats.sequential import smallest_visible_gain


def shapes_now(history: History) -> tuple[ShapeNow, ...]:
    """Every shape of the baseline's quick run, with the best version's last number for it. None before the baseline."""
    baseline = history.baseline
    if baseline is None:
        return ()
    best, scoring = standing(history), history.contract.scoring
    runs = (*best.quick.rows, *(best.full.rows if best.full else ()))
    roofs = {roof.label: roof for roof in baseline.shapes}
    known = noise(history)
    scatter = {shape.label: shape.sd for shape in (known.shapes if known else ()) if shape.degrees}
    return tuple(
        ShapeNow(
            label=row.label,
            config_class=row.config_class,
            original=_score(row, scoring),
            best=_score(last, scoring) if last else None,
            original_us=_time_us(row, scoring),
            best_us=_time_us(last, scoring) if last else None,
            roof=roofs.get(row.label),
            noise=scatter.get(row.label),
        )
        for row in baseline.quick.rows
        for last in (_row(row.label, runs),)
    )


def terms(history: History) -> Terms:
    """When the campaign ends, what is kept and what has been spent, by the numbers that the stop check decides on."""
    found, known = of_best(history), noise(history)
    return Terms(
        limits=history.limits,
        rounds_done=planned(history),
        rounds_most=ends.rounds(history.limits, history.opened.target),
        peak_asked=ends.peak_fraction(history.limits, history.opened.target.performance_target),
        peak_now=found.text if isinstance(found, Reach) else f"unknown: {found}",
        governed=isinstance(found, Reach),
        spent=total_cost(history),
        visible_gain=smallest_visible_gain(known, history.limits) if known else None,
    )


def _row(label: str, rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row.label == label), None)


def _score(row: Row, scoring: Scoring) -> float | None:
    return row_score(row, scoring) if row.check == "PASS" else None


def _time_us(row: Row, scoring: Scoring) -> float | None:
    return next((1e3 * item.value for item in row.metrics if item.name == scoring.time_ms), None)
