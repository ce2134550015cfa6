"""Rule 1 and the bucket gate, decided before any edit exists: what a hypothesis may not be."""

import re

from graph.policy.change_words import coupled, moving, prose, settings
from graph.values import Hypothesis

_JOINTS = re.compile(r"\s\+\s|;|\s&\s|\band\b|\bplus\b|\bthen\b|\bas well as\b|\btogether with\b", re.IGNORECASE)
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("matrix instruction", r"\b(?:mfma|wmma|wgmma|mma)\b|matrix instruction"),
        ("buffering", r"double.buffer|prefetch|pipelin|num_stages|multi.?buffer"),
        ("data layout", r"swizzl|\bpadd?ing\b|\btranspos|loop (?:order|interchange)|interchang|data layout"),
        ("tile size", r"\btil(?:e|es|ing)\b|\bblock(?:ing)?\b|BLOCK_|register tile"),
        ("scheduling", r"persistent|stream.?k|split.?k|work distribution"),
        ("hoisting", r"\bhoist"),
        ("compiler flags", r"(?<!\w)-(?:O[0-3s]|[mf][a-z][a-z-]+)|compiler flag|pragma"),
        ("occupancy", r"occupanc|num_warps|waves_per_eu|launch.bounds|maxrregcount"),
        ("threads", r"\bopenmp\b|\bmulti.?thread"),
    )
)
_NEEDED = (
    ("claim", "what is expected to improve, and why"),
    ("change", "the one change"),
    ("risks", "what could go wrong"),
    ("verification", "what would show that it worked"),
)


def single_change(hypothesis: Hypothesis) -> str | None:
    """Why this is not one hypothesis with one change and its evidence; None when it is (F031, F063, F117).

    Only what its text decides: missing answers, parts joined by `and`, `plus`, `+` or `then` that belong to different
    kinds of change, and several launch parameters that are set. Quoted code, and what is said to stay as it is,
    changes nothing. A declared sweep counts as one change, and so does a tile with the
    warps and stages that the text says it needs.
    """
    for field, meaning in _NEEDED:
        if not getattr(hypothesis, field).strip():
            return f"{field} is empty; say {meaning}"
    if not any(item.strip() for item in hypothesis.evidence):
        return "evidence is empty; cite a measurement: evidence -> inference -> action"
    if hypothesis.sweep or coupled(hypothesis.change):
        return None
    kinds = _kinds(hypothesis.change)
    if len(kinds) > 1:
        return f"names {len(kinds)} changes ({', '.join(kinds)}); propose one of them"
    parameters = settings(hypothesis.change)
    if len(parameters) > 1:
        return f"changes {', '.join(parameters)} at once; change one or declare a sweep"
    return None


def forbidden(hypothesis: Hypothesis) -> str | None:
    """Why rule 11 drops this direction before it is tried; None when it may be tried (F046)."""
    if hypothesis.bucket in {"W2", "W3"}:
        return f"bucket {hypothesis.bucket}: a cache that only a benchmark's repeated tensors can hit"
    if hypothesis.bucket == "W1" and not (hypothesis.real_gain_bound or 0.0) > 0:
        return "bucket W1 without a bound; give real_gain_bound = quantisation time / step time"
    return None


def _kinds(change: str) -> tuple[str, ...]:
    """Kinds of change named by different parts of the text, in their order."""
    found: list[str] = []
    for part in _JOINTS.split(moving(prose(change))):
        kind = next((name for name, pattern in _KINDS if pattern.search(part)), None)
        if kind is not None and kind not in found:
            found.append(kind)
    return tuple(found)
