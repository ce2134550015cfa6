"""`plans/v<N>_plan.md`: what a round set out to do; exactly one action."""

from ridgeline.graph.documents import figures
from ridgeline.graph.documents.rounds import expected
from ridgeline.graph.documents.text import cell, line, minute
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.standing import History
from ridgeline.graph.trial import proposed
from ridgeline.prompts.render import render


def plan(history: History, closed: RoundClosed) -> str:
    """Rules 4.7, from the hypothesis as it stood before the first edit."""
    hypothesis = figures.hypothesis(closed)
    prior = figures.before(history, closed.round)
    return render(
        "plan.v1.md",
        version=closed.round - 1,
        time=minute(proposed(closed.judged).opened_at),
        best_round=prior[0] if prior else 1,
        bottleneck=closed.bottleneck,
        bottleneck_evidence=line(closed.bottleneck_evidence) or "no further evidence was recorded",
        evidence=[line(item) for item in hypothesis.evidence],
        sources=[cell(source) for source in hypothesis.sources],
        lever=cell(hypothesis.lever),
        claim=cell(hypothesis.claim),
        change=cell(hypothesis.change),
        action=line(hypothesis.change),
        category=hypothesis.category,
        bucket=hypothesis.bucket,
        target_class=cell(hypothesis.target_class),
        expected=expected(closed),
        risks=line(hypothesis.risks),
    )
