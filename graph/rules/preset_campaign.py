"""Presets `campaign` and `router`: the throughput rules of design documents 000, 001 and 002.

The spread of re-measurements is the sample standard deviation (divisor n - 1): with three samples the population
formula understates it by a fifth, and the limit of half the mean is meant for the real one.
"""

import math
import statistics
from typing import Literal

from ridgeline.graph.evidence import Benchmark, Level, Profiled
from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.gates import is_suspicious
from ridgeline.graph.rules.outcome import (
    Outcome,
    accept_outcome,
    answer_faster,
    average_shapes,
    compute_class_gains,
    propose_split,
    reject_outcome,
)
from ridgeline.graph.rules.readings import Readings, active_labels, explain_losses, find_lost_shapes, reference_run
from ridgeline.graph.rules.score import Delta, at_least, delta, exceeds, relative_stddev
from ridgeline.graph.standing import BenchmarkWant, Standing
from ridgeline.graph.trial import Stage, Timed, Traced, Verified, find_proposal
from ridgeline.graph.values import Value
from ridgeline.graph.verdict import ShapeChange

SIGMAS = 2.0
"""A core drop within so many standard deviations of its own row is measured again before it rejects."""
STEADIER = 0.5
"""A tie brings a benefit when the rows' relative spread is at most this share of what it was."""


class LevelGain(Value):
    """One level of a trial, candidate against best."""

    level: Level
    first_delta: Delta
    samples: tuple[Delta, ...]
    """Re-measurements, candidate and best taken again; the first reading, which asked for them, is not among them."""

    @property
    def gain(self) -> float:
        return statistics.fmean(s.gain for s in self.samples) if self.samples else self.first_delta.gain

    @property
    def shapes(self) -> tuple[ShapeChange, ...]:
        return average_shapes([s.shapes for s in self.samples]) if self.samples else self.first_delta.shapes

    def is_steady(self, limits: Limits) -> bool:
        """Whether a gain near noise is believed: enough samples, mean above the minimum, spread below half the mean."""
        if len(self.samples) < _count_repeats_needed(limits):
            return False
        spread = statistics.stdev(s.gain for s in self.samples)
        return exceeds(self.gain, limits.valid_mean_improvement) and spread < limits.noise_sigma_fraction * self.gain


class CampaignRule:
    """A quick benchmark, near noise again; full where quick does not suffice. A mean gain beyond noise is kept."""

    def choose_measurement(
        self, trial: Verified | Timed, readings: Readings, standing: Standing, limits: Limits
    ) -> BenchmarkWant | None:
        """Quick; near noise again, candidate and best alternately; then full where quick does not suffice."""
        if ask := _choose_at_level("quick", readings, standing, limits):
            return ask
        quick = compute_level_gain("quick", readings, standing)
        if quick is None or not _needs_full_level(trial, quick, standing, limits):
            return None
        return _choose_at_level("full", readings, standing, limits)

    def decide(
        self, trial: Traced, readings: Readings, standing: Standing, limits: Limits, *, best_profile: Profiled | None
    ) -> Outcome:
        """Preset campaign's outcome of a trial, on the highest level that was measured."""
        level_gain = compute_level_gain("full", readings, standing) or compute_level_gain("quick", readings, standing)
        if level_gain is None:
            return reject_outcome(
                "undecided", "candidate and best were not measured at the same level", faster="unverified"
            )
        rejection = _check_below_best(level_gain, readings, standing, limits) or _check_core_drops(
            trial, level_gain, standing, limits
        )
        if rejection:
            return rejection
        if not at_least(level_gain.gain, limits.near_noise_limit) and not level_gain.is_steady(limits):
            return _reject_noise(level_gain, readings, standing, limits)
        if level_gain.level == "quick" and _needs_full_level(trial, level_gain, standing, limits):
            return reject_outcome(
                "undecided",
                f"a quick gain of {level_gain.gain:+.1%} needs the full validation, which is missing",
                faster="unverified",
                gain=level_gain.gain,
                shapes=level_gain.shapes,
            )
        return accept_outcome(level_gain.gain, level_gain.shapes, limits)


class RouterRule:
    """One quick benchmark, a suspiciously large gain once more. Any gain is kept."""

    def choose_measurement(
        self, trial: Verified | Timed, readings: Readings, standing: Standing, limits: Limits
    ) -> BenchmarkWant | None:
        """Preset `router`: one quick run; a suspiciously large gain is looked at once more."""
        level_gain = compute_level_gain("quick", readings, standing)
        if level_gain is None:
            return BenchmarkWant(which="candidate", level="quick", repeat=0)
        return _choose_next_turn("quick", readings, 1) if is_suspicious(level_gain.first_delta.gain, limits) else None

    def decide(
        self, trial: Traced, readings: Readings, standing: Standing, limits: Limits, *, best_profile: Profiled | None
    ) -> Outcome:
        """Preset `router`: whatever passes the quality gate and is better at all."""
        level_gain = compute_level_gain("quick", readings, standing)
        if level_gain is None:
            return reject_outcome("undecided", "the candidate has no quick numbers", faster="unverified")
        rejection = _check_below_best(level_gain, readings, standing, limits) or _check_core_drops(
            trial, level_gain, standing, limits
        )
        return rejection or accept_outcome(level_gain.gain, level_gain.shapes, limits)


def compute_level_gain(level: Level, readings: Readings, standing: Standing) -> LevelGain | None:
    """None when the candidate or the best version has no numbers at that level."""
    candidate, best = readings.run("candidate", level, 0), reference_run(readings, standing, level)
    if candidate is None or best is None:
        return None
    return LevelGain(
        level=level,
        first_delta=_compute_delta(candidate, best, standing),
        samples=tuple(_compute_delta(a, b, standing) for a, b in _pair_repeats(readings, level)),
    )


def _choose_at_level(level: Level, readings: Readings, standing: Standing, limits: Limits) -> BenchmarkWant | None:
    if readings.run("candidate", level, 0) is None:
        return BenchmarkWant(which="candidate", level=level, repeat=0)
    if reference_run(readings, standing, level) is None:
        return BenchmarkWant(which="best", level=level, repeat=0)
    level_gain = compute_level_gain(level, readings, standing)
    if level_gain is None:
        return None
    return _choose_next_turn(level, readings, _count_repeats(level_gain, readings, standing, limits))


def _count_repeats_needed(limits: Limits) -> int:
    """By the preset's rule: re-measurements; never fewer than a standard deviation needs."""
    return max(2, limits.min_remeasure)


def _choose_next_turn(level: Level, readings: Readings, repeats: int) -> BenchmarkWant | None:
    """Candidate first and best first in turn, so that a steady drift favours neither; None when all were taken."""
    orders: tuple[tuple[Literal["candidate", "best"], ...], ...] = (("best", "candidate"), ("candidate", "best"))
    turns = [
        BenchmarkWant(which=which, level=level, repeat=repeat)
        for repeat in range(1, repeats + 1)
        for which in orders[repeat % 2]
    ]
    return next((ask for ask in turns if not readings.run(ask.which, level, ask.repeat)), None)


def _count_repeats(level_gain: LevelGain, readings: Readings, standing: Standing, limits: Limits) -> int:
    """How often both are taken again: near noise and for a doubtful core drop, once for a suspiciously large gain."""
    if not exceeds(level_gain.first_delta.gain, 0.0):
        return 0
    near_noise = not at_least(level_gain.first_delta.gain, limits.near_noise_limit)
    if near_noise or _is_doubtful_drop(level_gain, readings, standing, limits):
        return _count_repeats_needed(limits)
    return 1 if is_suspicious(level_gain.first_delta.gain, limits) else 0


def _is_doubtful_drop(level_gain: LevelGain, readings: Readings, standing: Standing, limits: Limits) -> bool:
    """By the preset's rule: whether every core drop is within the spread of its own rows."""
    drops = find_lost_shapes(level_gain.first_delta.shapes, standing, level_gain.level, limits)
    run, best = readings.run("candidate", level_gain.level, 0), reference_run(readings, standing, level_gain.level)
    return (
        bool(drops)
        and run is not None
        and best is not None
        and all(-shape.gain <= SIGMAS * _sigma(shape.label, (run, best), standing) for shape in drops)
    )


def _needs_full_level(trial: Stage, quick: LevelGain, standing: Standing, limits: Limits) -> bool:
    if not exceeds(quick.gain, 0.0) or find_lost_shapes(quick.shapes, standing, "quick", limits):
        return False
    if not at_least(quick.gain, limits.near_noise_limit) and not quick.is_steady(limits):
        return False
    if find_proposal(trial).hypothesis.high_risk:
        return True
    return at_least(quick.gain, limits.near_noise_limit) and not at_least(quick.gain, limits.borderline_full_limit)


def _check_below_best(level_gain: LevelGain, readings: Readings, standing: Standing, limits: Limits) -> Outcome | None:
    if exceeds(level_gain.gain, 0.0):
        return None
    return _accept_tie(level_gain, readings, standing, limits) or reject_outcome(
        "not_better",
        f"the aggregate changed by {level_gain.gain:+.1%}{_describe_falling_metrics(level_gain)}",
        faster="no",
        gain=level_gain.gain,
        shapes=level_gain.shapes,
    )


def _describe_falling_metrics(level_gain: LevelGain) -> str:
    falling = [f"{item.name} {item.value:+.1%}" for item in level_gain.first_delta.metrics if item.value < 0]
    return f" ({', '.join(falling)})" if len(level_gain.first_delta.metrics) > 1 and falling else ""


def _check_core_drops(trial: Stage, level_gain: LevelGain, standing: Standing, limits: Limits) -> Outcome | None:
    drops = find_lost_shapes(level_gain.shapes, standing, level_gain.level, limits)
    if not drops:
        return None
    answer = answer_faster(level_gain.gain, limits)
    losers = tuple(
        name for name in compute_class_gains(level_gain.shapes) if any(s.config_class == name for s in drops)
    )
    split = propose_split(level_gain.shapes, losers, trial=trial, limits=limits, gain=level_gain.gain, faster=answer)
    return split or reject_outcome(
        "core_regression",
        explain_losses(drops, standing, level_gain.level, limits),
        faster=answer,
        gain=level_gain.gain,
        shapes=level_gain.shapes,
    )


def _reject_noise(level_gain: LevelGain, readings: Readings, standing: Standing, limits: Limits) -> Outcome:
    gains = ", ".join(f"{s.gain:+.2%}" for s in level_gain.samples) or "not measured again"
    return _accept_tie(level_gain, readings, standing, limits) or reject_outcome(
        "noise",
        f"{level_gain.gain:+.1%} is not told from noise ({gains})",
        faster="unverified",
        gain=level_gain.gain,
        shapes=level_gain.shapes,
    )


def _accept_tie(level_gain: LevelGain, readings: Readings, standing: Standing, limits: Limits) -> Outcome | None:
    """The exception for equal times, off by default: as fast, and its rows spread at most half as much."""
    run, best = readings.run("candidate", level_gain.level, 0), reference_run(readings, standing, level_gain.level)
    if (
        not limits.accept_tie_with_benefit
        or exceeds(abs(level_gain.gain), limits.noise_threshold)
        or run is None
        or best is None
    ):
        return None
    before, after = (_compute_spread(item, standing) for item in (best, run))
    if (
        before == 0
        or after > STEADIER * before
        or find_lost_shapes(level_gain.shapes, standing, level_gain.level, limits)
    ):
        return None
    outcome = accept_outcome(level_gain.gain, level_gain.shapes, limits)
    note = f"tie accepted for a benefit: relative spread fell from {before:.2%} to {after:.2%}"
    return outcome.model_copy(
        update={"reason": "tie_with_benefit", "why": f"{outcome.why}, {note}", "notes": (*outcome.notes, note)}
    )


def _pair_repeats(readings: Readings, level: Level) -> list[tuple[Benchmark, Benchmark]]:
    both = []
    for run in readings.candidate:
        best = readings.run("best", level, run.repeat)
        if run.level == level and run.repeat > 0 and best is not None:
            both.append((run, best))
    return both


def _compute_delta(run: Benchmark, best: Benchmark, standing: Standing) -> Delta:
    return delta(run, best, standing.contract.scoring, labels=active_labels(standing, run.level))


def _compute_spread(run: Benchmark, standing: Standing) -> float:
    values = [relative_stddev(row, standing.contract.scoring) for row in run.rows]
    return statistics.fmean(value or 0.0 for value in values)


def _sigma(label: str, runs: tuple[Benchmark, Benchmark], standing: Standing) -> float:
    """Relative standard deviation of the difference of two runs, for one shape."""
    rows = [row for run in runs for row in run.rows if row.label == label]
    return math.hypot(*(relative_stddev(row, standing.contract.scoring) or 0.0 for row in rows))
