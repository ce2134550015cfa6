"""The numbers that the documents quote: which benchmark stands for a round, and its averages against round 1."""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Literal, TypeVarTuple

from ridgeline.graph.contract import Contract, Scoring
from ridgeline.graph.evidence import Benchmark, Comparison, Profiled, Row, TestResult
from ridgeline.graph.record import Opened, RoundClosed
from ridgeline.graph.reports.text import unit
from ridgeline.graph.rules import score
from ridgeline.graph.rules.history import best_round, standing
from ridgeline.graph.standing import History
from ridgeline.graph.trial import (
    Applied,
    Broken,
    Drafted,
    Evidence,
    Failed,
    Judged,
    Timed,
    Traced,
    Verified,
    find,
    find_proposal,
)
from ridgeline.graph.values import Artifact, Hypothesis, Value

Vs = TypeVarTuple("Vs")


class Figures(Value):
    """Averages of one benchmark over its PASS rows; geometric means, in the unit of the metric."""

    forward: float
    forward_peak: float
    backward: float | None
    backward_peak: float | None
    step: float
    """The deciding aggregate: the combined step where there is a backward pass, else the forward aggregate."""
    shapes: int
    failed: int
    """Rows that were measured and did not pass; they are not in the averages."""


def forward_column(scoring: Scoring) -> str:
    """Column of the forward pass: the one that decides when the contract names no pair."""
    return scoring.forward or scoring.primary_metric[0]


def metric_unit(contract: Contract) -> str:
    """Unit of the campaign's metric, for example TFLOPS or GB/s; the column's name where it carries none."""
    return unit(forward_column(contract.scoring))


def passing_rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows of a benchmark that the reports show as passing: the check says PASS."""
    return tuple(row for row in rows if row.check == "PASS")


def compute_figures(rows: Iterable[Row], scoring: Scoring) -> Figures | None:
    """For the reports: averages of rows; None when none passed, or where a number that it needs is missing or not positive."""
    every = tuple(rows)
    good = passing_rows(every)
    try:
        return _averages(good, scoring, failed=len(every) - len(good)) if good else None
    except (KeyError, score.ScoreError):
        return None


def _averages(good: Sequence[Row], scoring: Scoring, *, failed: int) -> Figures:
    """For the reports: geometric means, weighted as the score, and peaks of the passing rows, forward and where there is one backward."""
    peak = max if score.higher_wins(scoring) else min
    forward = [row.metric(forward_column(scoring)) for row in good]
    both = scoring.combined and all(score.has_backward(row, scoring) for row in good)
    backward = [row.metric(scoring.backward) for row in good] if both and scoring.backward else None
    weights = [scoring.weight(row.label) for row in good]

    def mean(values: Sequence[float]) -> float:
        return score.weighted_geomean(list(zip(values, weights, strict=True)))

    average = mean(forward)
    return Figures(
        forward=average,
        forward_peak=peak(forward),
        backward=mean(backward) if backward else None,
        backward_peak=peak(backward) if backward else None,
        step=mean([score.row_score(row, scoring) for row in good]) if scoring.combined else average,
        shapes=len(good) + failed,
        failed=failed,
    )


def time_us(rows: Iterable[Row], scoring: Scoring) -> float | None:
    """For the reports: geometric mean of the time of one call in microseconds; None when no column carries it or it shows as zero."""
    column = scoring.time_ms
    times = [
        (counter.value, scoring.weight(row.label))
        for row in passing_rows(rows)
        for counter in row.metrics
        if counter.name == column
    ]
    return 1000 * score.weighted_geomean(times) if times and all(0 < time < inf for time, _ in times) else None


def hypothesis(closed: RoundClosed) -> Hypothesis:
    """The claim that a round was about, for the reports."""
    return find_proposal(closed.judged).hypothesis


def evidence(judged: Judged) -> tuple[Evidence, ...]:
    """Everything that was measured in a round, for the reports; the formatted tree's numbers come last."""
    timed = find(judged, Timed)
    formatted = judged.formatted.evidence if judged.formatted else ()
    return (*(timed.evidence if timed else ()), *formatted)


def applied_of(judged: Judged) -> Applied | None:
    """What a round committed, for the reports: the formatted candidate where formatting changed it."""
    return judged.formatted.applied if judged.formatted else find(judged, Applied)


def candidate(closed: RoundClosed) -> Benchmark | None:
    """For the reports, the benchmark that stands for a round's candidate: the latest of its highest level, formatted if it was."""
    chosen = applied_of(closed.judged)
    if chosen is None:
        return None
    plain = find(closed.judged, Applied)
    runs = [e for e in evidence(closed.judged) if isinstance(e, Benchmark)]
    for commit in dict.fromkeys((chosen.commit, plain.commit if plain else chosen.commit)):
        runs_of_commit = [run for run in runs if run.commit == commit]
        full = [run for run in runs_of_commit if run.level == "full"]
        if runs_of_commit:
            return (full or runs_of_commit)[-1]
    return None


def comparisons(closed: RoundClosed) -> tuple[Comparison, ...]:
    """The round's interleaved timings of candidate and best, in order, for the reports."""
    return tuple(e for e in evidence(closed.judged) if isinstance(e, Comparison))


def profile(closed: RoundClosed) -> Profiled | None:
    """Counters of the candidate for the reports, where it was traced."""
    traced = find(closed.judged, Traced)
    return traced.profile if traced else None


def test(closed: RoundClosed) -> TestResult | None:
    """The last correctness result of the round for the reports, right or wrong."""
    stage = find(closed.judged, Verified) or find(closed.judged, Broken)
    return stage.test if stage else None


def failure(closed: RoundClosed) -> Failed | None:
    """How the round ended, for the reports, where it ended before a usable measurement."""
    return find(closed.judged, Failed)


def snapshot(closed: RoundClosed) -> tuple[Artifact, ...]:
    """For the reports: the kernel's files as the candidate has them; those of the best version when no candidate came about."""
    chosen = applied_of(closed.judged)
    return chosen.snapshot if chosen and chosen.snapshot else closed.snapshot


def until(history: History, round: int) -> History:
    """For the reports: the campaign as it stood when a round began, or the first of those that it was tried beside."""
    start = next((closed.beside for closed in history.rounds if closed.round == round), round)
    earlier = tuple(closed for closed in history.rounds if closed.round < start)
    return history.model_copy(update={"rounds": earlier, "concluded": None})


def best(history: History) -> tuple[int, Benchmark] | None:
    """For the reports: round and benchmark of the best version; None before the baseline."""
    if history.baseline is None:
        return None
    best_closed = best_round(history)
    run = candidate(best_closed) if best_closed else None
    return (best_closed.round, run) if best_closed and run else (1, history.baseline.quick)


def before(history: History, round: int) -> tuple[int, Benchmark] | None:
    """For the reports: round and benchmark of the version that was best when a round began; None before the baseline."""
    return best(until(history, round))


def best_commit(history: History) -> str:
    """For the reports: commit of the best version: the last accepted round's, else where the campaign began."""
    return standing(history).commit if history.baseline else history.opened.base_commit


def render_once(owner: Value, make: Callable[[*Vs], str], *values: *Vs) -> str:
    """Text of a report that `make(*values)` renders, kept with `owner`, one of them: rendered once, not every round.

    `make` must be pure; for other values than last time it is asked again.
    """
    entry = owner.folds.get(make)
    if entry is None or tuple(map(id, entry[0])) != tuple(map(id, values)):
        entry = owner.folds[make] = (values, make(*values))
    return str(entry[1])


# Who did what in a round: three roles, told apart by their ids.


class Role(Value):
    """One part in a round, and by whom it was played."""

    name: Literal["planner", "implementer", "validator"]
    id: str
    """Never the same for two roles: `planner:...`, `implementer:...`, `validator:...`."""
    did: str


def list_roles(opened: Opened, closed: RoundClosed) -> tuple[Role, ...]:
    """For the reports: planner and implementer are two questions, which a person may answer; the validator is this program.

    It reads one commit, and files that a test or benchmark changed are restored and end the round.
    """
    start, drafted, applied = find_proposal(closed.judged), find(closed.judged, Drafted), applied_of(closed.judged)
    who = start.author or opened.planner
    asked = drafted.prompts if drafted else ()
    wrote = f"edited {', '.join(edit.path for edit in drafted.edits)}" if drafted else "edited nothing"
    did = "tested and timed" if evidence(closed.judged) else "tested" if test(closed) else "read"
    read = f"{did} tree {applied.tree[:12]}, and changed no file of it" if applied else "saw no candidate"
    if applied and closed.judged.verdict.reason == "tampered":
        read = f"saw files of tree {applied.tree[:12]} change under its commands, and restored them"
    return (
        Role(name="planner", id=f"planner:{who}", did=f"chose the hypothesis{_cite(start.prompts)}"),
        Role(name="implementer", id=f"implementer:{who}", did=f"{wrote}{_cite(asked)}"),
        Role(name="validator", id=f"validator:ridgeline-{opened.version}", did=read),
    )


def _cite(prompts: tuple[str, ...]) -> str:
    """For the reports: the question's own template, the rest are parts of it; nothing where no model was asked."""
    return f" ({prompts[1] if len(prompts) > 1 else prompts[0]})" if prompts else ""
