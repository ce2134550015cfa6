"""Streaks over closed rounds: measured regressions and rollbacks of any kind."""

from collections.abc import Sequence
from itertools import takewhile

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Benchmark, Comparison, Profiled
from ridgeline.graph.limits import Limits
from ridgeline.graph.policy.autonomous import KERNEL_TIME
from ridgeline.graph.policy.gates import same_rung
from ridgeline.graph.policy.score import ScoreError, aggregate, exceeds, geomean
from ridgeline.graph.record import BaselineClosed, RoundClosed
from ridgeline.graph.trial import Applied, Timed, Traced, find, proposed
from ridgeline.graph.values import Value

TRACE_POINTS = 3
"""How many of the counters that grew most a summary names."""


class Regression(Value):
    """What is remembered of a measured regression, in nine fields."""

    at: str
    """ISO-8601 UTC."""
    baseline_commit: str
    """The best version of that round; `original` before anything was accepted."""
    candidate: str
    hypothesis: str
    files: tuple[str, ...]
    script: tuple[float | None, float | None]
    """Best -> candidate by the script: the aggregate of the primary metric, or microseconds where pairs were timed."""
    gpu_time_us: tuple[float | None, float | None]
    """Kernel time of the profile, best -> candidate; None where it was not measured."""
    change: float
    """Relative change that decided, negative is worse."""
    trace_points: tuple[str, ...]
    """Counters that grew most, or a sentence that there is no trace."""


def is_regression(closed: RoundClosed, limits: Limits) -> bool:
    """Valid, correct and measured worse by more than noise. A tie, a crash or a wrong result is none."""
    verdict = closed.judged.verdict
    worse = verdict.gain is not None and exceeds(-verdict.gain, limits.noise_threshold)
    return worse and verdict.correct == "yes" and verdict.decision == "rolled_back"


def consecutive_regressions(rounds: Sequence[RoundClosed], limits: Limits) -> int:
    """Regressions since the last round that was none."""
    return len(_streak(rounds, limits))


def recent_regressions(
    rounds: Sequence[RoundClosed],
    limits: Limits,
    *,
    baseline: BaselineClosed | None = None,
    scoring: Scoring | None = None,
) -> tuple[Regression, ...]:
    """Summaries of the running streak, oldest first, at most recent_regressions_window of them.

    With `baseline` and `scoring` the script metric and the counters of the best version are filled in for every round.
    """
    streak = _streak(rounds, limits)[-limits.recent_regressions_window :]
    kept = [closed for closed in rounds if closed.accepted]
    best = kept[-1] if kept else None  # a streak holds no accepted round, so one best version serves all of it
    return tuple(_summary(closed, best, baseline, scoring) for closed in streak)


def consecutive_rollbacks(rounds: Sequence[RoundClosed]) -> int:
    """Rounds since the last accepted one, whatever the reason; a person's edits that were not kept are none."""
    return len(list(takewhile(lambda closed: not closed.accepted, reversed(without_edits(rounds)))))


def without_edits(rounds: Sequence[RoundClosed]) -> list[RoundClosed]:
    """Rounds that say something of the planner's course: not a person's edit that was not kept."""
    return [closed for closed in rounds if closed.accepted or not closed.author]


def _streak(rounds: Sequence[RoundClosed], limits: Limits) -> list[RoundClosed]:
    return list(takewhile(lambda closed: is_regression(closed, limits), reversed(without_edits(rounds))))[::-1]


def _summary(
    closed: RoundClosed, best: RoundClosed | None, baseline: BaselineClosed | None, scoring: Scoring | None
) -> Regression:
    applied, gain = find(closed.judged, Applied), closed.judged.verdict.gain
    assert gain is not None
    before = _profile(best) if best else (baseline.profile if baseline else None)
    return Regression(
        at=closed.closed_at,
        baseline_commit=(best.commit or best.tree) if best else "original",
        candidate=applied.commit if applied else "",
        hypothesis=proposed(closed.judged).hypothesis.claim,
        files=applied.changed if applied else (),
        script=_script(closed, best, baseline, scoring),
        gpu_time_us=_kernel_times(before, _profile(closed)),
        change=gain,
        trace_points=_grown(before, _profile(closed)),
    )


def _script(
    closed: RoundClosed, best: RoundClosed | None, baseline: BaselineClosed | None, scoring: Scoring | None
) -> tuple[float | None, float | None]:
    timed = find(closed.judged, Timed)
    pairs = [item for item in timed.evidence if isinstance(item, Comparison)] if timed else []
    if pairs:
        shapes = pairs[-1].shapes
        return geomean(shape.best_us for shape in shapes), geomean(shape.candidate_us for shape in shapes)
    run = _run(closed)
    if run is None or scoring is None:
        return None, None
    return _mean(_run(best, level=run.level) if best else baseline.quick if baseline else None, run, scoring), _mean(
        run, run, scoring
    )


def _run(closed: RoundClosed, *, level: str | None = None) -> Benchmark | None:
    """The last benchmark of the round's own candidate, formatted or not."""
    formatted, timed, applied = closed.judged.formatted, find(closed.judged, Timed), find(closed.judged, Applied)
    evidence = (*(timed.evidence if timed else ()), *(formatted.evidence if formatted else ()))
    own = {applied.commit} if applied else set()
    own |= {formatted.applied.commit} if formatted else set()
    runs = [item for item in evidence if isinstance(item, Benchmark) and item.commit in own]
    return next((run for run in reversed(runs) if level in (None, run.level)), None)


def _mean(run: Benchmark | None, like: Benchmark, scoring: Scoring) -> float | None:
    """Aggregate over the shapes of `like`; None when the run lacks one of them or failed."""
    if run is None:
        return None
    labels = {row.label for row in like.rows}
    rows = [row for row in run.rows if row.label in labels]
    try:
        return aggregate(rows, scoring) if len(rows) == len(labels) else None
    except ScoreError:
        return None


def _profile(closed: RoundClosed) -> Profiled | None:
    traced = find(closed.judged, Traced)
    return traced.profile if traced else None


def _kernel_times(before: Profiled | None, after: Profiled | None) -> tuple[float | None, float | None]:
    return before.counter(KERNEL_TIME) if before else None, after.counter(KERNEL_TIME) if after else None


def _grown(before: Profiled | None, after: Profiled | None) -> tuple[str, ...]:
    if before is None or after is None or not same_rung(before, after):
        return ("no trace of both versions",)
    ratios = [
        (after_value / value, counter.name)
        for counter in before.counters
        if (value := counter.value) > 0
        and (after_value := after.counter(counter.name)) is not None
        and before.rung_of(counter.name) == after.rung_of(counter.name)
    ]
    ranked = sorted((item for item in ratios if item[0] > 1), reverse=True)[:TRACE_POINTS]
    return tuple(f"{name} x{ratio:.3g}" for ratio, name in ranked) or ("no counter grew",)
