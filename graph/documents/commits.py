"""The words that leave the campaign's folder: the commit message of an accepted round, and the tips entry."""

from ridgeline.graph.documents import figures
from ridgeline.graph.documents.text import clip, interval, line, minute, percent
from ridgeline.graph.record import Opened, RoundClosed
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Drafted, Judged, find, proposed
from ridgeline.prompts.render import render

SUBJECT = 100
"""Characters of a subject line."""


def commit_message(judged: Judged, history: History, round: int) -> str:
    """Rules 12.1: `[optimize] <op> <backend> round-<N>: <one line>` and why it works, with its evidence."""
    hypothesis, verdict = proposed(judged).hypothesis, judged.verdict
    target = history.opened.target
    drafted = find(judged, Drafted)
    head = f"[optimize] {target.target_op} {target.target_backend} round-{round}: "
    unmeasured = verdict.gain is None
    return render(
        "commit.v1.txt",
        subject=head + clip(hypothesis.change, max(24, SUBJECT - len(head))),
        hypothesis=line(hypothesis.claim),
        why=line(drafted.explanation if drafted and drafted.explanation else hypothesis.claim),
        evidence=[line(item, 300) for item in hypothesis.evidence[:8]],
        result="not measured" if unmeasured else interval(verdict.gain, verdict.lower, verdict.upper),
        metric=target.primary_metric,
        bounded=verdict.lower is not None,
        notes=[line(note, 300) for note in verdict.notes[:8]],
        campaign=target.campaign,
        round=round,
    )


def tip_entry(closed: RoundClosed, opened: Opened) -> str:
    """Rules 6.3: the entry of a reusable lesson. Empty when the round taught nothing reusable."""
    reflection = closed.reflection
    if reflection.lesson is None:
        return ""
    hypothesis, target = figures.hypothesis(closed), opened.target
    check, bound = closed.prediction, hypothesis.real_gain_bound if hypothesis.bucket == "W1" else None
    overfit = closed.judged.verdict.reason == "overfit" or hypothesis.bucket in ("W2", "W3")
    return render(
        "tip.v1.md",
        time=minute(closed.closed_at),
        round=closed.round,
        accepted=closed.accepted,
        context=f"{target.target_op} ({target.dtype}), {target.target_backend}, {opened.machine.name} "
        f"({opened.machine.arch}); {line(hypothesis.change, 300)}",
        signal=line(closed.judged.verdict.sentence, 300)
        + (f"; {check.counter} predicted {check.expected}: {check.outcome}" if check else ""),
        takeaway=("benchmark over-fit; do not retry" if overfit else line(reflection.lesson))
        + (f" (a training step gains at most {percent(bound)})" if bound is not None and not overfit else ""),
        applies=line(reflection.applies, 300) or "not stated",
        does_not_apply=line(reflection.does_not_apply, 300) or "not stated",
    )
