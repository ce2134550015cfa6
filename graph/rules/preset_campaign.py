"""Presets `campaign` and `router`: the throughput rules of design documents 000, 001 and 002.

The spread of re-measurements is the sample standard deviation (divisor n - 1): with three samples the population
formula understates it by a fifth, and the limit of half the mean is meant for the real one.
"""

import math
import statistics
from typing import Literal

from ridgeline.graph.evidence import Benchmark, Level
from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.gates import is_suspicious
from ridgeline.graph.rules.outcome import (
    Outcome,
    accept_outcome,
    answer_faster,
    average_shapes,
    compute_class_gains,
    describe_losses,
    find_lost_shapes,
    propose_split,
    reject_outcome,
)
from ridgeline.graph.rules.readings import Readings, active_labels, core_labels, reference_run
from ridgeline.graph.rules.score import Delta, at_least, delta, exceeds, relative_stddev
from ridgeline.graph.standing import BenchmarkWant, Standing
from ridgeline.graph.trial import Stage, proposed
from ridgeline.graph.values import Value
from ridgeline.graph.verdict import ShapeChange

SIGMAS = 2.0
"""A core drop within so many standard deviations of its own row is measured again before it rejects."""
STEADIER = 0.5
"""A tie brings a benefit when the rows' relative spread is at most this share of what it was."""


class LevelGain(Value):
    """One level of a trial, candidate against best."""

    level: Level
    first: Delta
    samples: tuple[Delta, ...]
    """Re-measurements, candidate and best taken again; the first reading, which asked for them, is not among them."""

    @property
    def gain(self) -> float:
        return statistics.fmean(s.gain for s in self.samples) if self.samples else self.first.gain

    @property
    def shapes(self) -> tuple[ShapeChange, ...]:
        return average_shapes([s.shapes for s in self.samples]) if self.samples else self.first.shapes

    def steady(self, limits: Limits) -> bool:
        """Rules 11.4c: enough samples, mean above the minimum, spread below half the mean."""
        if len(self.samples) < _count_repeats_needed(limits):
            return False
        spread = statistics.stdev(s.gain for s in self.samples)
        return exceeds(self.gain, limits.valid_mean_improvement) and spread < limits.noise_sigma_fraction * self.gain


def choose_quick_then_full(trial: Stage, found: Readings, standing: Standing, limits: Limits) -> BenchmarkWant | None:
    """Quick; near noise again, candidate and best alternately; then full where quick does not suffice."""
    if ask := _choose_at_level("quick", found, standing, limits):
        return ask
    quick = compute_level_gain("quick", found, standing)
    if quick is None or not _needs_full_level(trial, quick, standing, limits):
        return None
    return _choose_at_level("full", found, standing, limits)


def choose_quick(found: Readings, standing: Standing, limits: Limits) -> BenchmarkWant | None:
    """Preset `router`: one quick run; a suspiciously large gain is looked at once more."""
    weighed = compute_level_gain("quick", found, standing)
    if weighed is None:
        return BenchmarkWant(which="candidate", level="quick", repeat=0)
    return _choose_next_turn("quick", found, 1) if is_suspicious(weighed.first.gain, limits) else None


def compute_level_gain(level: Level, found: Readings, standing: Standing) -> LevelGain | None:
    """None when the candidate or the best version has no numbers at that level."""
    first, best = found.run("candidate", level, 0), reference_run(found, standing, level)
    if first is None or best is None:
        return None
    return LevelGain(
        level=level,
        first=_compute_delta(first, best, standing),
        samples=tuple(_compute_delta(a, b, standing) for a, b in _pair_repeats(found, level)),
    )


def decide_by_throughput(trial: Stage, found: Readings, standing: Standing, limits: Limits) -> Outcome:
    """Rules 11.4 on the highest level that was measured."""
    weighed = compute_level_gain("full", found, standing) or compute_level_gain("quick", found, standing)
    if weighed is None:
        return reject_outcome(
            "undecided", "candidate and best were not measured at the same level", faster="unverified"
        )
    rejected = _check_below_best(weighed, found, standing, limits) or _check_core_drops(
        trial, weighed, standing, limits
    )
    if rejected:
        return rejected
    if not at_least(weighed.gain, limits.near_noise_limit) and not weighed.steady(limits):
        return _reject_noise(weighed, found, standing, limits)
    if weighed.level == "quick" and _needs_full_level(trial, weighed, standing, limits):
        return reject_outcome(
            "undecided",
            f"a quick gain of {weighed.gain:+.1%} needs the full validation, which is missing",
            faster="unverified",
            gain=weighed.gain,
            shapes=weighed.shapes,
        )
    return accept_outcome(weighed.gain, weighed.shapes, limits)


def decide_any_gain(trial: Stage, found: Readings, standing: Standing, limits: Limits) -> Outcome:
    """Preset `router`: whatever passes the quality gate and is better at all."""
    weighed = compute_level_gain("quick", found, standing)
    if weighed is None:
        return reject_outcome("undecided", "the candidate has no quick numbers", faster="unverified")
    rejected = _check_below_best(weighed, found, standing, limits) or _check_core_drops(
        trial, weighed, standing, limits
    )
    return rejected or accept_outcome(weighed.gain, weighed.shapes, limits)


def _choose_at_level(level: Level, found: Readings, standing: Standing, limits: Limits) -> BenchmarkWant | None:
    if found.run("candidate", level, 0) is None:
        return BenchmarkWant(which="candidate", level=level, repeat=0)
    if reference_run(found, standing, level) is None:
        return BenchmarkWant(which="best", level=level, repeat=0)
    weighed = compute_level_gain(level, found, standing)
    if weighed is None:
        return None
    return _choose_next_turn(level, found, _count_repeats(weighed, found, standing, limits))


def _count_repeats_needed(limits: Limits) -> int:
    """Re-measurements; never fewer than a standard deviation needs."""
    return max(2, limits.min_remeasure)


def _choose_next_turn(level: Level, found: Readings, repeats: int) -> BenchmarkWant | None:
    """Candidate first and best first in turn, so that a steady drift favours neither; None when all were taken."""
    orders: tuple[tuple[Literal["candidate", "best"], ...], ...] = (("best", "candidate"), ("candidate", "best"))
    turns = [
        BenchmarkWant(which=which, level=level, repeat=repeat)
        for repeat in range(1, repeats + 1)
        for which in orders[repeat % 2]
    ]
    return next((ask for ask in turns if not found.run(ask.which, level, ask.repeat)), None)


def _count_repeats(weighed: LevelGain, found: Readings, standing: Standing, limits: Limits) -> int:
    """How often both are taken again: near noise and for a doubtful core drop, once for a suspiciously large gain."""
    if not exceeds(weighed.first.gain, 0.0):
        return 0
    near_noise = not at_least(weighed.first.gain, limits.near_noise_limit)
    if near_noise or _is_doubtful_drop(weighed, found, standing, limits):
        return _count_repeats_needed(limits)
    return 1 if is_suspicious(weighed.first.gain, limits) else 0


def _is_doubtful_drop(weighed: LevelGain, found: Readings, standing: Standing, limits: Limits) -> bool:
    """Whether every core drop is within the spread of its own rows."""
    drops = find_lost_shapes(weighed.first.shapes, core_labels(standing, weighed.level), limits)
    run, best = found.run("candidate", weighed.level, 0), reference_run(found, standing, weighed.level)
    return (
        bool(drops)
        and run is not None
        and best is not None
        and all(-shape.gain <= SIGMAS * _sigma(shape.label, (run, best), standing) for shape in drops)
    )


def _needs_full_level(trial: Stage, quick: LevelGain, standing: Standing, limits: Limits) -> bool:
    if not exceeds(quick.gain, 0.0) or find_lost_shapes(quick.shapes, core_labels(standing, "quick"), limits):
        return False
    if not at_least(quick.gain, limits.near_noise_limit) and not quick.steady(limits):
        return False
    if proposed(trial).hypothesis.high_risk:
        return True
    return at_least(quick.gain, limits.near_noise_limit) and not at_least(quick.gain, limits.borderline_full_limit)


def _check_below_best(weighed: LevelGain, found: Readings, standing: Standing, limits: Limits) -> Outcome | None:
    if exceeds(weighed.gain, 0.0):
        return None
    return _accept_tie(weighed, found, standing, limits) or reject_outcome(
        "not_better",
        f"the aggregate changed by {weighed.gain:+.1%}{_describe_falling_metrics(weighed)}",
        faster="no",
        gain=weighed.gain,
        shapes=weighed.shapes,
    )


def _describe_falling_metrics(weighed: LevelGain) -> str:
    falling = [f"{item.name} {item.value:+.1%}" for item in weighed.first.metrics if item.value < 0]
    return f" ({', '.join(falling)})" if len(weighed.first.metrics) > 1 and falling else ""


def _check_core_drops(trial: Stage, weighed: LevelGain, standing: Standing, limits: Limits) -> Outcome | None:
    drops = find_lost_shapes(weighed.shapes, core_labels(standing, weighed.level), limits)
    if not drops:
        return None
    answer = answer_faster(weighed.gain, limits)
    losers = tuple(name for name in compute_class_gains(weighed.shapes) if any(s.config_class == name for s in drops))
    divided = propose_split(weighed.shapes, losers, trial=trial, limits=limits, gain=weighed.gain, faster=answer)
    return divided or reject_outcome(
        "core_regression", describe_losses(drops), faster=answer, gain=weighed.gain, shapes=weighed.shapes
    )


def _reject_noise(weighed: LevelGain, found: Readings, standing: Standing, limits: Limits) -> Outcome:
    gains = ", ".join(f"{s.gain:+.2%}" for s in weighed.samples) or "not measured again"
    return _accept_tie(weighed, found, standing, limits) or reject_outcome(
        "noise",
        f"{weighed.gain:+.1%} is not told from noise ({gains})",
        faster="unverified",
        gain=weighed.gain,
        shapes=weighed.shapes,
    )


def _accept_tie(weighed: LevelGain, found: Readings, standing: Standing, limits: Limits) -> Outcome | None:
    """The exception for equal times, off by default: as fast, and its rows spread at most half as much."""
    run, best = found.run("candidate", weighed.level, 0), reference_run(found, standing, weighed.level)
    if (
        not limits.accept_tie_with_benefit
        or exceeds(abs(weighed.gain), limits.noise_threshold)
        or run is None
        or best is None
    ):
        return None
    before, after = (_compute_spread(item, standing) for item in (best, run))
    if (
        before == 0
        or after > STEADIER * before
        or find_lost_shapes(weighed.shapes, core_labels(standing, weighed.level), limits)
    ):
        return None
    kept = accept_outcome(weighed.gain, weighed.shapes, limits)
    note = f"tie accepted for a benefit: relative spread fell from {before:.2%} to {after:.2%}"
    return kept.model_copy(
        update={"reason": "tie_with_benefit", "why": f"{kept.why}, {note}", "notes": (*kept.notes, note)}
    )


def _pair_repeats(found: Readings, level: Level) -> list[tuple[Benchmark, Benchmark]]:
    both = []
    for run in found.candidate:
        best = found.run("best", level, run.repeat)
        if run.level == level and run.repeat > 0 and best is not None:
            both.append((run, best))
    return both


def _compute_delta(run: Benchmark, best: Benchmark, standing: Standing) -> Delta:
    return delta(run, best, standing.contract.scoring, labels=active_labels(standing, run.level))


def _compute_spread(run: Benchmark, standing: Standing) -> float:
    values = [relative_stddev(row, standing.contract.scoring) for row in run.rows]
    return statistics.fmean(value or 0.0 for value in values)


def _sigma(label: str, runs: tuple[Benchmark, Benchmark], standing: Standing) -> float:
    rows = [row for run in runs for row in run.rows if row.label == label]
    return math.hypot(*(relative_stddev(row, standing.contract.scoring) or 0.0 for row in rows))
