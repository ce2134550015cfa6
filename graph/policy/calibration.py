"""When identical versions are timed against each other, what that says, and what shows that it no longer holds."""

import math
from typing import Literal

from ridgeline.graph.evidence import Comparison
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.confidence import reach
from ridgeline.graph.policy.paired import pair_means, scatter
from ridgeline.graph.record import Calibrated
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Applied, Timed, find

DIFFERENT_ALPHA = 0.01
"""Error rate at which two copies of one version are called different, which has the machine calibrated again."""
CHANGED = (0.25, 2.0)
"""Scatter of blocks of identical versions over what it was: outside of these it is another kind of noise. A machine
that is quieter than it was costs power and no honesty."""


def due(known: History) -> Literal["calibration", "canary"] | None:
    """What is to be timed before the next round. Only preset `evidence` has a use for it."""
    limits = known.limits
    if limits.preset != "evidence" or limits.calibration_pairs == 0 or known.baseline is None:
        return None
    last = known.calibrations[-1] if known.calibrations else None
    if last is None or (last.alarm and not last.fresh):
        return "calibration"
    if limits.max_rounds is not None and fold.planned(known) >= limits.max_rounds:
        return None  # no candidate will be judged by it
    rounds = len(known.rounds) - sum(closed.round <= last.after_round for closed in known.rounds)
    return "canary" if limits.canary_every and rounds >= limits.canary_every else None


def alarm(canary: Comparison, known: History) -> str:
    """Why the noise on record is no longer the noise of this machine; empty when it is."""
    noise, limits = fold.noise(known), known.limits
    if noise is None or noise.machine != canary.machine:
        return "there is no calibration of this machine"
    means = pair_means(canary.shapes)
    center = math.fsum(means) / len(means)
    here = reach(len(means), noise.squares + (len(means) - 1) * noise.sd**2, noise.degrees, alpha=DIFFERENT_ALPHA)
    if abs(center) > noise.allowance + here:
        return f"two copies of the best version seem to differ by {math.expm1(abs(center)):.1%}"
    ratio = scatter(canary.shapes) / noise.scatter if noise.scatter > 0 else 1.0
    if not CHANGED[0] <= ratio <= CHANGED[1]:
        return f"timings of one and the same version scatter {ratio:.1f} times as much as when they were calibrated"
    moved = _drift(canary, known)
    if moved is not None and abs(moved) > limits.drift_limit:
        how = "more" if moved > 0 else "less"
        return f"the best version takes {abs(math.expm1(moved)):.1%} {how} time than when it was last measured"
    return ""


def _drift(canary: Comparison, known: History) -> float | None:
    """Mean log-ratio of the best version's time now to the last time it was measured interleaved; None when never."""
    before = _levels(known, canary.best)
    now = {shape.label: shape.best_us for shape in canary.shapes}
    shared = [label for label in now if label in before]
    if not shared:
        return None
    return math.fsum(math.log(now[label] / before[label]) for label in shared) / len(shared)


def _levels(known: History, commit: str) -> dict[str, float]:
    """Microseconds by shape of that version, from its calibration or the comparison that had it accepted."""
    for run in reversed(known.calibrations):
        if run.comparison is not None and run.comparison.best == commit:
            return {shape.label: shape.best_us for shape in run.comparison.shapes}
    closed = fold.best_round(known)
    if closed is None:
        return {}
    applied, timed = find(closed.judged, Applied), find(closed.judged, Timed)
    pairs = [item for item in (timed.evidence if timed else ()) if isinstance(item, Comparison)]
    if not pairs or applied is None or fold.standing(known).commit != commit:
        return {}
    return {shape.label: shape.candidate_us for shape in pairs[-1].shapes}


def alarms(known: History) -> tuple[Calibrated, ...]:
    """Every time the measurement was found wanting, oldest first."""
    return tuple(run for run in known.calibrations if run.alarm)
