"""What the audit of a candidate's source decides: convicted, overfit, or a note on where to look closer."""

from collections.abc import Sequence
from typing import Literal

from graph.finding import Finding
from graph.policy import caches
from graph.values import Hypothesis, Value

NOTED = 6
"""Findings that a verdict's notes name; the rest are counted."""
CACHES = frozenset({"identity-cache", "weight-cache", "tensor-weakref", "memo"})

Standing = Literal["clean", "routes", "convicted"]


class Refusal(Value):
    """Why a candidate is rolled back before it is built."""

    reason: Literal["convicted", "overfit"]
    detail: str


def overall(findings: Sequence[Finding]) -> Standing:
    """The audit in a word."""
    if any(one.severity == "convicts" for one in findings):
        return "convicted"
    return "routes" if any(one.severity == "routes" for one in findings) else "clean"


def refusal(findings: Sequence[Finding], hypothesis: Hypothesis) -> Refusal | None:
    """The gate: a convicting finding, then a cache that Rule 11 forbids. None lets the candidate go on to its tests."""
    convicting = [one for one in findings if one.severity == "convicts"]
    if convicting:
        return Refusal(reason="convicted", detail=said(convicting[0]))
    for one in findings:
        if one.rule in CACHES and (problem := _forbidden(one, hypothesis)):
            return Refusal(reason="overfit", detail=f"{said(one)}: {problem}")
    return None


def notes(findings: Sequence[Finding]) -> tuple[str, ...]:
    """One line for each finding that needs a closer look, the first ones in full."""
    routed = [one for one in findings if one.severity != "convicts"]
    lines = [f"audit: {said(one)}; settled by {words(one.closer)}" for one in routed[:NOTED]]
    left = len(routed) - len(lines)
    return (*lines, f"audit: {left} more findings of the same kind of weight") if left else tuple(lines)


def said(finding: Finding) -> str:
    """A finding in one line."""
    bucket = f" ({finding.bucket})" if finding.bucket else ""
    return f"{finding.path}:{finding.line} {finding.rule}{bucket}: {finding.meaning}: `{finding.code}`"


def _forbidden(finding: Finding, hypothesis: Hypothesis) -> str:
    """Why Rule 11 does not let this cache stay; empty where it may, or where only a run can tell."""
    found = caches.answer(finding)
    if found.answer in {"overfit", "refused"}:
        return found.why
    if found.answer == "bounded" and hypothesis.bucket != "W1":
        return f"a weight cache in a hypothesis of bucket {hypothesis.bucket}; propose it as W1 with real_gain_bound"
    return ""


def words(closer: str) -> str:
    """The closer check as a person calls it."""
    return closer.replace("_", " ")
