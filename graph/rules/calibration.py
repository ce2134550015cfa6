"""When identical versions are timed against each other, what that says, and what shows that it no longer holds."""

import math
from typing import Literal

from ridgeline.graph.evidence import Comparison
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import Calibrated
from ridgeline.graph.rules import history as fold
from ridgeline.graph.standing import History
from ridgeline.graph.stats.noise import KnownNoise, find_changed_noise
from ridgeline.graph.trial import Applied, Timed, find


def next_calibration(history: History) -> Literal["calibration", "canary"] | None:
    """The rule of what is to be timed of identical versions before the next round. Only preset `evidence` has a use for it."""
    limits = history.limits
    if limits.preset != "evidence" or limits.calibration_pairs == 0 or history.baseline is None:
        return None
    if history.rounds and history.rounds[-1].judged.verdict.reason == "stopped":
        return None  # nothing follows
    latest = history.calibrations[-1] if history.calibrations else None
    if latest is None or (latest.alarm and not latest.fresh):
        return "calibration"
    if limits.max_rounds is not None and fold.count_planned_rounds(history) >= limits.max_rounds:
        return None  # no candidate will be judged by it
    every = 1 if limits.canary_every and is_remembered(latest, limits) else limits.canary_every
    rounds = len(history.rounds) - sum(closed.round <= latest.after_round for closed in history.rounds)
    return "canary" if every and rounds >= every else None


def is_remembered(latest: Calibrated, limits: Limits) -> bool:
    """Whether a calibration is what this machine showed an earlier campaign: that is looked at after one round."""
    comparison = latest.comparison
    return bool(limits.calibration_looks) and latest.fresh and comparison is not None and comparison.seconds == 0


def make_known_noise(limits: Limits) -> KnownNoise | None:
    """The rule when a calibration of identical versions ends before it has all its pairs; None where it never does."""
    if not limits.calibration_looks:
        return None
    return KnownNoise(looks=limits.calibration_looks, margin=limits.margin, shape_guard=limits.shape_guard)


def find_alarm(canary: Comparison, history: History) -> str:
    """By the loop's rule: why the calibrated noise on record is no longer the noise of this machine; empty when it is."""
    noise, limits = fold.noise(history), history.limits
    if noise is None or noise.machine != canary.machine:
        return "there is no calibration of this machine"
    if changed := find_changed_noise(canary, noise):
        return changed
    drift = _drift(canary, history)
    if drift is not None and abs(drift) > limits.drift_limit:
        how = "more" if drift > 0 else "less"
        return f"the best version takes {abs(math.expm1(drift)):.1%} {how} time than when it was last measured"
    return ""


def _drift(canary: Comparison, history: History) -> float | None:
    """For the loop's noise alarm: mean log-ratio of the best version's time now to when it was last interleaved; None when never."""
    before = _levels(history, canary.best)
    now = {shape.label: shape.best_us for shape in canary.shapes}
    shared = [label for label in now if label in before]
    if not shared:
        return None
    return math.fsum(math.log(now[label] / before[label]) for label in shared) / len(shared)


def _levels(history: History, commit: str) -> dict[str, float]:
    """For the loop's noise alarm: microseconds by shape of a version, from its calibration or the comparison that accepted it."""
    for run in reversed(history.calibrations):
        if run.comparison is not None and run.comparison.best == commit:
            return {shape.label: shape.best_us for shape in run.comparison.shapes}
    closed = fold.best_round(history)
    if closed is None:
        return {}
    applied, timed = find(closed.judged, Applied), find(closed.judged, Timed)
    pairs = [item for item in (timed.evidence if timed else ()) if isinstance(item, Comparison)]
    if not pairs or applied is None or fold.standing(history).commit != commit:
        return {}
    return {shape.label: shape.candidate_us for shape in pairs[-1].shapes}


def list_alarms(history: History) -> tuple[Calibrated, ...]:
    """From the ledger: every time that the loop found the measurement wanting, oldest first."""
    return tuple(run for run in history.calibrations if run.alarm)
