"""Streaks of closed rounds, and what follows: a stagnation review, a partial restart, the end of a direction."""

from collections.abc import Sequence
from itertools import groupby, takewhile
from math import inf
from random import Random

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Benchmark, Comparison, MixedEvidence, Profiled
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import BaselineClosed, RoundClosed
from ridgeline.graph.rules.gates import is_same_rung
from ridgeline.graph.rules.history import best_round, masked_versions, standing
from ridgeline.graph.rules.outcome import describe_losses
from ridgeline.graph.rules.preset_autonomous import KERNEL_TIME
from ridgeline.graph.rules.readings import find_failing_rows, find_lost_shapes, is_left_unmeasured
from ridgeline.graph.rules.score import ScoreError, aggregate, delta, exceeds, weighted_geomean
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Applied, Timed, Traced, find, find_proposal
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
    accepted = [closed for closed in rounds if closed.accepted]
    best = accepted[-1] if accepted else None  # a streak holds no accepted round, so one best version serves all of it
    return tuple(_summarize_regression(closed, best, baseline, scoring) for closed in streak)


def consecutive_rollbacks(rounds: Sequence[RoundClosed]) -> int:
    """Rounds since the last accepted one, whatever the reason; a person's edits that were not kept are none."""
    return len(list(takewhile(lambda closed: not closed.accepted, reversed(without_edits(rounds)))))


def without_edits(rounds: Sequence[RoundClosed]) -> list[RoundClosed]:
    """Rounds that say something of the planner's course, one for each question: not a person's edit that was not kept,
    and of candidates tried side by side the one that went furthest.
    """
    own = [closed for closed in rounds if closed.accepted or not closed.author]
    groups = (list(group) for _, group in groupby(own, key=lambda closed: closed.beside))
    return [group[0] if len(group) == 1 else max(group, key=_rank_outcome) for group in groups]


def _rank_outcome(closed: RoundClosed) -> tuple[bool, float]:
    """Sort key of rounds: kept before not kept, then by the measured gain."""
    gain = closed.judged.verdict.gain
    return closed.accepted, -inf if gain is None else gain


def _streak(rounds: Sequence[RoundClosed], limits: Limits) -> list[RoundClosed]:
    """The regressions in a row at the end of a campaign's rounds, in order."""
    return list(takewhile(lambda closed: is_regression(closed, limits), reversed(without_edits(rounds))))[::-1]


def _summarize_regression(
    closed: RoundClosed, best: RoundClosed | None, baseline: BaselineClosed | None, scoring: Scoring | None
) -> Regression:
    applied, gain = find(closed.judged, Applied), closed.judged.verdict.gain
    assert gain is not None
    before = _read_profile(best) if best else (baseline.profile if baseline else None)
    return Regression(
        at=closed.closed_at,
        baseline_commit=(best.commit or best.tree) if best else "original",
        candidate=applied.commit if applied else "",
        hypothesis=find_proposal(closed.judged).hypothesis.claim,
        files=applied.changed if applied else (),
        script=_read_script_metric(closed, best, baseline, scoring),
        gpu_time_us=_kernel_times(before, _read_profile(closed)),
        change=gain,
        trace_points=_find_grown_counters(before, _read_profile(closed)),
    )


def _read_script_metric(
    closed: RoundClosed, best: RoundClosed | None, baseline: BaselineClosed | None, scoring: Scoring | None
) -> tuple[float | None, float | None]:
    timed = find(closed.judged, Timed)
    pairs = [item for item in timed.evidence if isinstance(item, Comparison)] if timed else []
    if pairs:
        shapes = pairs[-1].shapes
        return (
            weighted_geomean([(shape.best_us, shape.weight) for shape in shapes]),
            weighted_geomean([(shape.candidate_us, shape.weight) for shape in shapes]),
        )
    run = _last_run(closed)
    if run is None or scoring is None:
        return None, None
    return _mean_over_shapes(
        _last_run(best, level=run.level) if best else baseline.quick if baseline else None, run, scoring
    ), _mean_over_shapes(run, run, scoring)


def _last_run(closed: RoundClosed, *, level: str | None = None) -> Benchmark | None:
    """The last benchmark of the round's own candidate, formatted or not."""
    formatted, timed, applied = closed.judged.formatted, find(closed.judged, Timed), find(closed.judged, Applied)
    evidence = (*(timed.evidence if timed else ()), *(formatted.evidence if formatted else ()))
    commits = {applied.commit} if applied else set()
    commits |= {formatted.applied.commit} if formatted else set()
    runs = [item for item in evidence if isinstance(item, Benchmark) and item.commit in commits]
    return next((run for run in reversed(runs) if level in (None, run.level)), None)


def _mean_over_shapes(run: Benchmark | None, like: Benchmark, scoring: Scoring) -> float | None:
    """Aggregate over the shapes of `like`; None when the run lacks one of them or failed."""
    if run is None:
        return None
    labels = {row.label for row in like.rows}
    rows = [row for row in run.rows if row.label in labels]
    try:
        return aggregate(rows, scoring) if len(rows) == len(labels) else None
    except ScoreError:
        return None


def _read_profile(closed: RoundClosed) -> Profiled | None:
    traced = find(closed.judged, Traced)
    return traced.profile if traced else None


def _kernel_times(before: Profiled | None, after: Profiled | None) -> tuple[float | None, float | None]:
    return before.counter(KERNEL_TIME) if before else None, after.counter(KERNEL_TIME) if after else None


def _find_grown_counters(before: Profiled | None, after: Profiled | None) -> tuple[str, ...]:
    if before is None or after is None or not is_same_rung(before, after):
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


# When the direction must change.

ROUNDS_BETWEEN = 2
"""Rounds that must close after a review before the next one: its directions get their chance."""


def find_stagnation(history: History) -> str | None:
    """Why a stagnation review is due now; None when none is."""
    limits = history.limits
    known = (closed for closed in history.rounds if not (limits.unmeasured_apart and is_left_unmeasured(closed.judged)))
    rounds = without_edits(tuple(known))
    if not rounds or _is_just_reviewed(history):
        return None
    if (streak := consecutive_rollbacks(rounds)) >= limits.stagnation_rollbacks:
        return f"{streak} consecutive rollbacks"
    recent = rounds[-limits.stagnation_same_category :]
    if len(recent) == limits.stagnation_same_category and _is_same_direction(recent):
        return f"{len(recent)} rounds of category {_category(recent[0])} without a measurable gain"
    recent = rounds[-limits.stagnation_same_bottleneck :]
    if len(recent) == limits.stagnation_same_bottleneck and _is_same_bottleneck(recent):
        return f"bottleneck {recent[0].bottleneck} for {len(recent)} rounds with nothing accepted"
    return None


def _is_just_reviewed(history: History) -> bool:
    if not history.reviews:
        return False
    after = history.reviews[-1].after_round
    return len({closed.beside for closed in history.rounds if closed.round > after}) < ROUNDS_BETWEEN


def _is_same_direction(rounds: Sequence[RoundClosed]) -> bool:
    return len({_category(closed) for closed in rounds}) == 1 and not any(_has_gain(closed) for closed in rounds)


def _is_same_bottleneck(rounds: Sequence[RoundClosed]) -> bool:
    """For the loop's stagnation: an unknown bottleneck says nothing about whether it changed."""
    labels = {closed.bottleneck for closed in rounds}
    return len(labels) == 1 and "unknown" not in labels and not any(closed.accepted for closed in rounds)


def _has_gain(closed: RoundClosed) -> bool:
    return closed.accepted and closed.judged.verdict.reason != "tie_with_benefit"


def _category(closed: RoundClosed) -> str:
    """Category of the round's hypothesis."""
    return find_proposal(closed.judged).hypothesis.category


# Partial restart: forget about half of what was tried, never the original, never the best.


def can_restart(history: History) -> bool:
    """Whether a restart is still allowed and there is something to forget."""
    return len(history.restarts) < history.limits.max_restarts and bool(_list_eligible_versions(history))


def choose_masked_versions(history: History, *, seed: int) -> tuple[int, ...]:
    """Memory versions (round - 1) to mask now, ascending: `mask_fraction` of the unmasked ones, at least one.

    The same history and seed give the same answer. Empty when nothing may be masked.
    """
    eligible = _list_eligible_versions(history)
    if not eligible:
        return ()
    count = max(1, int(history.limits.mask_fraction * len(_list_active_versions(history))))
    return tuple(sorted(Random(seed).sample(eligible, min(count, len(eligible)))))


def _list_active_versions(history: History) -> list[int]:
    """Unmasked versions from v1 on; v0 is the original and never counts."""
    hidden = masked_versions(history)
    return [closed.round - 1 for closed in history.rounds if closed.round - 1 not in hidden]


def _list_eligible_versions(history: History) -> list[int]:
    best = best_round(history)
    retained = set(history.steered[-1].wish.unmasked) if history.steered else set()
    retained |= {best.round - 1} if best else set()
    return [version for version in _list_active_versions(history) if version not in retained]


# The full validation at the end of a direction, which a quick acceptance still owes.


def needs_full_run(history: History) -> bool:
    """Whether the preset accepts on quick runs and the best version has none over all shapes."""
    best = standing(history)
    return history.limits.preset == "campaign" and best.round > 1 and best.full is None


def check_full_run(run: Benchmark, history: History) -> tuple[bool, str]:
    """Whether the numbers may serve as the best version's, and what they say against the original."""
    best, baseline = standing(history), history.baseline
    if baseline is None:
        return False, "there is no baseline to compare with"
    if bad := find_failing_rows(run):
        return False, f"round-{best.round} fails the benchmark's own check on {', '.join(bad)}: look at it by hand"
    try:
        change = delta(run, baseline.quick, history.contract.scoring, labels=best.all_shapes)
    except (ScoreError, MixedEvidence) as error:
        return False, str(error)
    drops = find_lost_shapes(change.shapes, best, "full", history.limits)
    note = f"round-{best.round} over all shapes: {change.gain:+.1%} against the original"
    return True, f"{note}; {describe_losses(drops)}" if drops else note
