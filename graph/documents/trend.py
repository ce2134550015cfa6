"""`logs/performance_trend.md`: one row a round, ten fixed columns, append-only."""

from ridgeline.graph.contract import Scoring
from ridgeline.graph.documents import figures
from ridgeline.graph.documents.figures import Figures, render_once
from ridgeline.graph.documents.text import cell, interval, number, percent, row
from ridgeline.graph.evidence import Benchmark
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.rules.result import Product, compute_products
from ridgeline.graph.standing import History
from ridgeline.prompts.render import render

VERSUS = "{vs baseline}"
"""Stands in a remembered row for the cell that the rounds before it decide."""


def columns(unit: str) -> tuple[str, ...]:
    """Rules 15.3; the unit is TFLOPS in the documents and the campaign's own elsewhere."""
    return (
        "Round",
        "Status",
        "Description",
        f"Fwd Avg {unit}",
        f"Fwd Peak {unit}",
        f"Bwd Avg {unit}",
        f"Bwd Peak {unit}",
        f"Combined Step {unit}",
        "vs Baseline",
        "Key Finding",
    )


def trend(history: History) -> str:
    """The whole log; the text after any round is a prefix of the text after the next."""
    header = columns(cell(figures.metric_unit(history.contract)))
    rows: list[str] = []
    if history.baseline is not None:
        rows.append(_baseline(history, history.baseline.quick))
        rows += [
            render_once(closed, _round, history.contract.scoring, closed).replace(VERSUS, versus(so_far, closed), 1)
            for closed, so_far in zip(history.rounds, compute_products(history), strict=False)
        ]
    return render(
        "performance_trend.v1.md",
        campaign=history.opened.target.campaign,
        metric=cell(history.opened.target.primary_metric),
        header=row(header),
        rule="|" + "---|" * len(header),
        rows=rows,
    )


def _baseline(history: History, run: Benchmark) -> str:
    found = figures.of(run.rows, history.contract.scoring)
    backward = history.contract.scoring.combined
    finding = f"bottleneck: {history.baseline.bottleneck}" if history.baseline else ""
    if not backward:
        finding += "; no backward pass: Bwd cells are -, and the combined step is the forward aggregate"
    return row(("1", "BASELINE", "unmodified code", *_numbers(found), "-", finding))


def _round(scoring: Scoring, closed: RoundClosed) -> str:
    """Without what depends on the rounds before."""
    run = figures.candidate(closed)
    found = figures.of(run.rows, scoring) if run else None
    level = f" ({run.level}, {len(run.rows)} shapes)" if run else ""
    description = cell(figures.hypothesis(closed).change, 120) + level
    status = "ACCEPTED" if closed.accepted else "ROLLBACK"
    return row((str(closed.round), status, description, *_numbers(found), VERSUS, finding(closed)))


def _numbers(found: Figures | None) -> tuple[str, ...]:
    if found is None:
        return ("-",) * 5
    return tuple(
        number(value) for value in (found.forward, found.forward_peak, found.backward, found.backward_peak, found.step)
    )


def versus(so_far: Product, closed: RoundClosed) -> str:
    """`step +a%`: the candidate's measured gain and those of the rounds kept before it, multiplied."""
    gain = closed.judged.verdict.gain
    if gain is None:
        return "-"
    return f"step {percent(so_far.speedup * (1 + gain) - 1, 3)}"


def finding(closed: RoundClosed) -> str:
    """Reason of the verdict, the gain over the best version with its bounds, and what the round taught."""
    verdict = closed.judged.verdict
    gain = (
        "not measured"
        if verdict.gain is None
        else f"{interval(verdict.gain, verdict.lower, verdict.upper)} over the best"
    )
    why = closed.reflection.attribution if closed.accepted else closed.reflection.root_cause or verdict.sentence
    return f"{verdict.reason}; {gain}; {cell(why, 160)}"
