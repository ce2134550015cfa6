"""Which lever first: expected gain, weighed by the bottleneck and by what this campaign has already shown."""

import math

from ridgeline.agent.planners.catalog_candidates import Candidate, hypothesis_of
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.record import RoundClosed

OFF_BOTTLENECK = 0.7
"""A lever that treats another bottleneck than the measured one is worth this share of what its card says."""
UNEXPLORED = 2.0
"""After a stagnation review a category that no round has touched counts this much more."""
PRIOR = 2
"""Successes that a category is credited with before its first round, so that one failure does not bury it."""
CALIBRATION = (0.5, 1.5)
"""Bounds of the correction by measured over predicted gain."""


def ranked(found: list[Candidate], briefing: Briefing) -> list[Candidate]:
    """Best first; equal scores stay in the order of the cards, and a sweep goes up before it goes down."""
    return sorted(found, key=lambda candidate: -score(candidate, briefing))


def score(candidate: Candidate, briefing: Briefing) -> float:
    """Expected gain in nats, weighed."""
    rounds = [closed for closed in briefing.rounds if hypothesis_of(closed).category == candidate.card.category]
    gain = math.log(candidate.expected)
    gain *= 1.0 if briefing.bottleneck in candidate.card.bottlenecks else OFF_BOTTLENECK
    gain *= (sum(closed.accepted for closed in rounds) + PRIOR) / (len(rounds) + PRIOR)
    gain *= calibration(rounds)
    return gain * (UNEXPLORED if briefing.directions and not rounds else 1.0)


def calibration(rounds: list[RoundClosed]) -> float:
    """Measured over predicted gain of the accepted rounds, both in nats, within bounds; 1 where there is none."""
    ratios = [
        math.log1p(gain) / math.log(said)
        for closed in rounds
        if closed.accepted
        and (gain := closed.judged.verdict.gain) is not None
        and gain > -1
        and (said := hypothesis_of(closed).prediction.speedup) is not None
        and said > 1
    ]
    low, high = CALIBRATION
    return min(high, max(low, sum(ratios) / len(ratios))) if ratios else 1.0
