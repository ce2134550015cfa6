"""What each candidate was truly worth: all its pairs together, and all kept ones together as the final test says."""

import statistics
from collections.abc import Mapping, Sequence

from ridgeline.graph.evidence import Comparison
from ridgeline.graph.noise import FLOOR_SD
from ridgeline.graph.policy.paired import merge, pair_means
from ridgeline.graph.values import Value


class Worth(Value):
    """Log-ratio ln(t_best / t_candidate) over all shapes, and how well it is known."""

    theta: float
    variance: float


def pooled(comparisons: Sequence[Comparison], noise_sd: float) -> Worth:
    """From every pair that was taken. `noise_sd`: of one pair of identical versions, for too few pairs to tell."""
    means = pair_means(merge(comparisons).shapes)
    own = statistics.variance(means) if len(means) > 2 else 0.0
    return Worth(theta=statistics.fmean(means), variance=max(own, noise_sd**2, FLOOR_SD**2) / len(means))


def reconciled(worths: Mapping[int, Worth], kept: Sequence[int], final: Worth | None) -> dict[int, Worth]:
    """By round, the same with the kept ones adding up to the final test, which nobody looked at before deciding.

    What the sum is off by is shared out by how badly each is known: the least-squares estimate under both.
    """
    known = [number for number in kept if number in worths]
    if final is None or not known:
        return dict(worths)
    total = sum(worths[number].variance for number in known)
    share = total / (total + final.variance)
    off = (final.theta - sum(worths[number].theta for number in known)) * share
    corrected = dict(worths)
    for number in known:
        one = worths[number]
        part = one.variance / total
        corrected[number] = Worth(theta=one.theta + off * part, variance=one.variance * (1 - share * part))
    return corrected
