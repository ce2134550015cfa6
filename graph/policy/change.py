"""Rule 1 and the bucket gate, decided before any edit exists: what a hypothesis may not be."""

from ridgeline.graph.policy.change_kinds import kinds
from ridgeline.graph.policy.change_words import coupled, settings
from ridgeline.graph.values import FORBIDDEN_BUCKETS, Hypothesis

_NEEDED = (
    ("claim", "what is expected to improve, and why"),
    ("change", "the one change"),
    ("risks", "what could go wrong"),
    ("verification", "what would show that it worked"),
)


def single_change(hypothesis: Hypothesis) -> str | None:
    """Why this is not one hypothesis with one change and its evidence; None when it is (F031, F063, F117).

    Only what its text decides: missing answers, parts joined by `and`, `plus`, `+` or `then` that belong to different
    kinds of change, and several launch parameters that are set. Quoted code, what is said to stay as it is, and words
    that only say where (`inside the tile loop`) change nothing. A declared sweep counts as one change, and so does a
    tile with the warps and stages that the text says it needs.
    """
    for field, meaning in _NEEDED:
        if not getattr(hypothesis, field).strip():
            return f"{field} is empty; say {meaning}"
    if not any(item.strip() for item in hypothesis.evidence):
        return "evidence is empty; cite a measurement: evidence -> inference -> action"
    if hypothesis.sweep or coupled(hypothesis.change):
        return None
    named = kinds(hypothesis.change)
    if len(named) > 1:
        return f"names {len(named)} changes ({', '.join(named)}); propose one of them"
    parameters = settings(hypothesis.change)
    if len(parameters) > 1:
        return f"changes {', '.join(parameters)} at once; change one or declare a sweep"
    return None


def forbidden(hypothesis: Hypothesis) -> str | None:
    """Why rule 11 drops this direction before it is tried; None when it may be tried (F046)."""
    if hypothesis.bucket in FORBIDDEN_BUCKETS:
        return f"bucket {hypothesis.bucket}: a cache that only a benchmark's repeated tensors can hit"
    if hypothesis.bucket == "W1" and not (hypothesis.real_gain_bound or 0.0) > 0:
        return "bucket W1 without a bound; give real_gain_bound = quantisation time / step time"
    return None
