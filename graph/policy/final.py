"""The one headline number, champion against original on fresh data, and the plain numbers that stand beside it."""

from math import exp

from ridgeline.graph.evidence import Comparison
from ridgeline.graph.limits import Limits
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.paired import fixed_test
from ridgeline.graph.policy.score import aggregate
from ridgeline.graph.standing import History
from ridgeline.graph.values import Value


class Claim(Value):
    speedup: float
    """Time of the original over time of the champion, geometric mean over shapes."""
    lower: float
    """One-sided lower confidence bound at 1 - alpha."""


def headline(final: Comparison | None, limits: Limits) -> Claim | None:
    """None when there was no usable final comparison: no claim is made then."""
    if final is None:
        return None
    found = fixed_test(final, alpha=limits.alpha)
    return Claim(speedup=exp(found.theta), lower=exp(found.lower))


class Pair(Value):
    """The primary metric of original and best version over the same shapes, measured as close together as there is."""

    baseline: float | None
    best: float | None


def numbers(known: History) -> Pair:
    """The final measurements of both when there are any, else the quick command's over the shapes both have."""
    done, scoring = known.concluded, known.contract.scoring
    if known.baseline is None:
        return Pair(baseline=None, best=None)
    if done and done.project and done.baseline_again:
        return Pair(baseline=aggregate(done.baseline_again.rows, scoring), best=aggregate(done.project.rows, scoring))
    now = fold.standing(known)
    best = (now.full or now.quick).rows
    shared = {row.label for row in best}
    first = tuple(row for row in known.baseline.quick.rows if row.label in shared)
    return Pair(baseline=aggregate(first, scoring), best=aggregate(best, scoring))
