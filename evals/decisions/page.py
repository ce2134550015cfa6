"""A comparison as one self-contained page. Names and notes are text; the template escapes them."""

from typing import TYPE_CHECKING, Any

from ridgeline.agent.version import VERSION
from ridgeline.evals.decisions.asking import Point
from ridgeline.evals.decisions.compare import DECIDES, METRICS, Compared, Difference
from ridgeline.evals.decisions.contest import KINDS, Scored
from ridgeline.graph.values import Value
from ridgeline.prompts.render import render

if TYPE_CHECKING:
    from ridgeline.evals.decisions.comparing import Report

COLUMNS = (
    "answers",
    "usable",
    "cites",
    "repeats",
    "hit_at_1",
    "hit_at_3",
    "applies",
    "compiles",
    "correct",
    "log_error",
    "tokens",
)


class Bar(Value):
    """An interval in a picture of 200 units whose middle is no difference; the second is better to the right."""

    low: float
    at: float
    high: float


def page(report: "Report") -> str:
    """HTML."""
    names = [str(one.contestant) for one in report.scored]
    points = sorted({point.name: point for one in report.scored for point in one.scores}.items())
    return render(
        "eval.v1.html",
        title=f"{names[1] if len(names) > 1 else names[0]} against {names[0]}" if len(names) > 1 else names[0],
        style=render("page.v1.css"),
        headline=_headline(report.compared),
        facts=(
            ("Decision points", report.points),
            ("Campaigns", report.recordings),
            ("Answers", sum(len(one.scores) for one in report.scored)),
            ("Unanswered", sum(len(one.unanswered) for one in report.scored)),
        ),
        comparisons=[_comparison(one) for one in report.compared],
        columns=[name.replace("_", " ") for name in COLUMNS],
        alone=[
            (str(one.contestant), kind, _alone(one, kind)) for one in report.scored for kind in KINDS if one.of(kind)
        ],
        contestants=names,
        points=[(name, [_usable(one, point) for one in report.scored]) for name, point in points],
        version=VERSION,
    )


def _usable(one: Scored, point: Point) -> str:
    return _cell(one.scores[point].usable) if point in one.scores else ""


def _headline(found: tuple[Compared, ...]) -> str:
    if not found:
        return "Nothing to compare: no decision point was answered by two contestants."
    return "; ".join(f"{one.kind}: {one.second} is {_words(one.verdict)}" for one in found) + "."


def _words(verdict: str) -> str:
    return {"better": "better", "worse": "worse"}.get(verdict, "not shown to differ")


def _comparison(one: Compared) -> dict[str, Any]:
    rows = [_row(found) for found in one.differences]
    return {**one.model_dump(), "rows": rows, "decides": DECIDES}


def _row(one: Difference) -> dict[str, Any]:
    from ridgeline.evals.decisions.comparing import interval, p_value

    return {
        "metric": one.metric,
        "first": _cell(one.first),
        "second": _cell(one.second),
        "interval": interval(one),
        "p": p_value(one),
        "verdict": one.verdict,
        "bar": _bar(one),
    }


def _bar(one: Difference) -> Bar | None:
    """Of shares alone, which lie between 0 and 1."""
    better = METRICS[one.metric][1]
    if not better or one.low is None or one.high is None:
        return None
    low, at, high = (100 + 100 * max(-1.0, min(1.0, value * better)) for value in (one.low, one.difference, one.high))
    return Bar(low=round(min(low, high), 1), at=round(at, 1), high=round(max(low, high), 1))


def _alone(one: Scored, kind: str) -> list[str]:
    found = one.of(kind)
    told = found.model_dump() if found else {}
    return [_cell(told.get(name)) for name in COLUMNS]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
