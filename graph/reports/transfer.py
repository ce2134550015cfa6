"""Whether a round's gain carries over to a real training step: the eight fields of Rule 11."""

from typing import Literal

from ridgeline.graph.contract import Contract
from ridgeline.graph.finding import Finding
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.reports import figures
from ridgeline.graph.reports.text import line, percent
from ridgeline.graph.rules import audit
from ridgeline.graph.rules.shapes import is_grouped
from ridgeline.graph.values import Bucket, Value

Decision = Literal["ACCEPT-as-real", "ACCEPT-with-asterisk", "REJECT-as-overfit"]

BUCKETS: dict[Bucket, str] = {
    "K1": "kernel-internal",
    "K2": "layout duplication",
    "K3": "single-launch fusion",
    "K4": "same-call data flow",
    "W1": "bounded weight cache",
    "W2": "cache on activations, benchmark-only",
    "W3": "generic memo, benchmark-only",
}


class TransferCheck(Value):
    """The section `Real-training transfer check`, one attribute a field, ready to print."""

    bucket: str
    cache_key: str
    id_audit: str
    hit_rate: str
    robustness: str
    benchmark_gain: str
    real_gain: str
    decision: Decision
    """What the bucket permits; whether the round was kept is the verdict's matter."""

    def fields(self) -> tuple[tuple[str, str], ...]:
        """(exact name, text) of the eight fields of a round's transfer check, in order."""
        return (
            ("Bucket", self.bucket),
            ("Cache key (if any)", self.cache_key),
            ("id(...) audit", self.id_audit),
            ("4-step pen-and-paper trace hit rate", self.hit_rate),
            ("Workload distribution robustness (GroupGemm / MoE only)", self.robustness),
            ("Benchmark gain on this round", self.benchmark_gain),
            ("Estimated real-training gain", self.real_gain),
            ("Decision", self.decision),
        )


def transfer_check(closed: RoundClosed, contract: Contract | None = None) -> TransferCheck:
    """The page's transfer check, eight fields of one round; what was not examined is said to be so, never assumed."""
    hypothesis = figures.hypothesis(closed)
    verdict, bucket = closed.judged.verdict, hypothesis.bucket
    caching = bucket in ("W1", "W2", "W3")
    overfit = (
        bucket in ("W2", "W3") or verdict.reason == "overfit" or (bucket == "W1" and hypothesis.real_gain_bound is None)
    )
    asterisk: Decision = "ACCEPT-with-asterisk" if bucket == "W1" else "ACCEPT-as-real"
    measure = "combined-step" if contract and contract.scoring.combined else "aggregate"
    return TransferCheck(
        bucket=f"{bucket} ({BUCKETS[bucket]})",
        cache_key=f"declared by the hypothesis: {line(hypothesis.change, 200)}" if caching else "none",
        id_audit=_describe_cache_keys(closed) or _audit(bucket),
        hit_rate=_describe_trace(closed) or _hits(bucket),
        robustness=_robustness(contract),
        benchmark_gain=f"{percent(verdict.gain)} {measure}" if verdict.gain is not None else "not measured",
        real_gain=_real_gain(closed, overfit),
        decision="REJECT-as-overfit" if overfit else asterisk,
    )


def _caches(closed: RoundClosed) -> tuple[Finding, ...]:
    """For the transfer check: caches that reading the change found."""
    chosen = figures.applied_of(closed.judged)
    return tuple(finding for finding in chosen.audit if finding.key) if chosen else ()


def _describe_cache_keys(closed: RoundClosed) -> str:
    """For the transfer check: what the keys of the caches in the source are made of; empty where none was found."""
    return "; ".join(
        f"{cache.rule} at {line(cache.path, 80)}:{cache.line}, "
        f"keyed by {line(', '.join(term.text for term in cache.key), 120)}"
        for cache in _caches(closed)
    )


def _describe_trace(closed: RoundClosed) -> str:
    """For the transfer check: the four-step trace of each such cache, as far as its key tells, and what eight fresh steps gave."""
    chosen = figures.applied_of(closed.judged)
    traces = [line(audit.classify_cache(cache).why, 160) for cache in _caches(closed)]
    simulations = chosen.caches if chosen else ()
    return "; ".join((*traces, *(f"8 fresh steps ({item.method}): {line(item.why, 160)}" for item in simulations)))


def _audit(bucket: Bucket) -> str:
    """For the transfer check: what the declared bucket says about the cache's key."""
    match bucket:
        case "W1":
            return "key rests on the weight and its version, stable within one forward and backward pass"
        case "W2" | "W3":
            return "key rests on an identity that changes every step: fails"
        case _:
            return "not needed: no cache and no identity in this bucket"


def _hits(bucket: Bucket) -> str:
    """For the transfer check: the cache's hits in four steps, by the definition of the declared bucket."""
    match bucket:
        case "W1":
            return "4/4 (one hit a step for an unchanged weight, by the definition of W1)"
        case "W2" | "W3":
            return "0/4 (activations and gradients are new objects in every step)"
        case _:
            return "n/a (no cache)"


def _robustness(contract: Contract | None) -> str:
    """For the transfer check: whether skewed shapes were measured and an empty group is tested, for operators that group."""
    if contract is None or not is_grouped(contract):
        return "n/a (not a grouped operator)"
    if not contract.skew_shapes:
        return "not shown: the contract names no skewed shape"
    test = contract.empty_group_test
    empty = f"an empty group is tested by {line(test, 200)}" if test else "no test with an empty group is named"
    return f"skewed shapes measured in every round: {line(', '.join(contract.skew_shapes), 200)}; {empty}"


def _real_gain(closed: RoundClosed, overfit: bool) -> str:
    """For the transfer check: the part of the gain that a real training step would see, in words."""
    gain, bound = closed.judged.verdict.gain, figures.hypothesis(closed).real_gain_bound
    if overfit:
        return "+0.00% (benchmark-only: nothing carries over)"
    if not closed.accepted or gain is None:
        return "+0.00% (not kept)"
    if bound is not None and figures.hypothesis(closed).bucket == "W1":
        return f"{percent(min(gain, bound))} (the lesser of the benchmark's gain and quantisation time / step time)"
    return f"{percent(gain)} (kernel work carries over one to one while this kernel runs)"
