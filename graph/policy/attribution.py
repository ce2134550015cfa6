"""Rule 11 at the end: how much of the headline reaches a real training step."""

from collections.abc import Sequence
from math import expm1, log, log1p

from ridgeline.graph.policy.history import accepted, lineage, overfit
from ridgeline.graph.record import Attribution, RoundClosed
from ridgeline.graph.standing import History
from ridgeline.graph.trial import proposed
from ridgeline.graph.values import Bucket

KERNEL: frozenset[Bucket] = frozenset({"K1", "K2", "K3", "K4"})
GAP_PERCENT = 1.0
"""Rules 14.11: a residual above one per cent is called out."""

Claim = tuple[Bucket, float, float | None]
"""Bucket, benchmark gain, and for W1 the most that a training step can gain; None is no proven bound."""


def attribute(history: History) -> Attribution:
    """Re-attribution over the accepted lineage, in per cent.

    Gains are summed as logarithms and turned back at the end, because round gains multiply: adding their per cents
    would show a gap where there is none. The headline here is the product of the lineage's own benchmark gains;
    `apportion` holds it to the final test.
    """
    claims = [_claim(closed) for closed in lineage(history)]
    structural = sum(log1p(bench) for bucket, bench, _ in claims if bucket in KERNEL)
    cache = sum(log1p(_bounded(bench, bound)) for bucket, bench, bound in claims if bucket == "W1")
    total = sum(log1p(bench) for _, bench, _ in claims)
    found = _attribution(
        structural=100 * expm1(structural),
        weight_cache=100 * expm1(cache),
        real=100 * expm1(structural + cache),
        headline=100 * expm1(total),
        limit=100 * history.limits.inflation_gap_limit,
        method="round gains multiplied (sum of log gains)",
    )
    return found.model_copy(update={"verdict": "rolled-back"}) if overfit_in_lineage(history) else found


def apportion(found: Attribution, speedup: float, *, limit: float = GAP_PERCENT) -> Attribution:
    """The gain that the final test measured, divided among the sources as the rounds' own gains are, on a log scale.

    `speedup`: original over best; `limit` in per cent. So the parts make up the headline, and not a second one.
    """
    whole = log1p(found.headline / 100)
    share = log(speedup) / whole if whole else 0.0
    parts = (found.structural, found.weight_cache, found.real)
    structural, cache, real = (100 * expm1(share * log1p(part / 100)) for part in parts)
    scaled = _attribution(
        structural=structural,
        weight_cache=cache,
        real=real,
        headline=100 * (speedup - 1),
        limit=limit,
        method="gain of the final test, divided by the logarithms of the round gains",
    )
    return scaled.model_copy(update={"verdict": "rolled-back"}) if found.verdict == "rolled-back" else scaled


def attribute_percent(rounds: Sequence[Claim], headline: float, *, limit: float = GAP_PERCENT) -> Attribution:
    """The plain form: per cents added up as they stand. Everything is in per cent."""
    structural = sum(bench for bucket, bench, _ in rounds if bucket in KERNEL)
    cache = sum(_bounded(bench, bound) for bucket, bench, bound in rounds if bucket == "W1")
    return _attribution(
        structural=structural,
        weight_cache=cache,
        real=structural + cache,
        headline=headline,
        limit=limit,
        method="plain sum of per cents",
    )


def overfit_in_lineage(history: History) -> tuple[int, ...]:
    """Accepted rounds that rest on a forbidden bucket; each must be rolled back before a report (F054)."""
    return tuple(closed.round for closed in accepted(history) if overfit(closed))


def table(attribution: Attribution) -> tuple[tuple[str, str, str, str], ...]:
    """Rows: source, buckets, benchmark gain, real-training-equivalent gain.

    The weight cache's own row holds its bounded part; what its benchmark showed beyond that is in the residual.
    """
    return (
        ("Structural kernel work", "K1-K4", _percent(attribution.structural), _percent(attribution.structural)),
        ("Bounded weight cache", "W1", _percent(attribution.weight_cache), _percent(attribution.weight_cache)),
        ("Benchmark-only residual", "-", _percent(attribution.gap), _percent(0.0)),
        ("Total", "all", _percent(attribution.headline), _percent(attribution.real)),
    )


def _claim(closed: RoundClosed) -> Claim:
    hypothesis = proposed(closed.judged).hypothesis
    gain = closed.judged.verdict.gain
    assert gain is not None  # a verdict cannot be accepted without one
    return hypothesis.bucket, gain, hypothesis.real_gain_bound


def _bounded(bench: float, bound: float | None) -> float:
    """What of a weight cache's benchmark gain a training step can have; without a bound nothing is proven."""
    return min(bench, bound if bound is not None else 0.0)


def _attribution(
    *, structural: float, weight_cache: float, real: float, headline: float, limit: float, method: str
) -> Attribution:
    # Rounded far below anything measurable, so that a gap of exactly the limit is not decided by the last bit.
    gap = round(headline - real, 9)
    return Attribution(
        structural=structural,
        weight_cache=weight_cache,
        headline=headline,
        real=real,
        gap=gap,
        verdict="inflated" if gap > limit else "clean",
        method=method,
    )


def _percent(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}%"  # adding zero turns -0.00 into +0.00
