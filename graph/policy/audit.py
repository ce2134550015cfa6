"""What the audit of a candidate's source decides: convicted, overfit, unsettled, or a note on where to look closer."""

from collections.abc import Sequence
from typing import Literal

from ridgeline.graph.contract import Contract
from ridgeline.graph.finding import Finding
from ridgeline.graph.policy import caches
from ridgeline.graph.values import Hypothesis, Value

NOTED = 6
"""Findings that a verdict's notes name; the rest are counted."""
CACHES = frozenset({"identity-cache", "weight-cache", "tensor-weakref", "memo"})
UNSETTLED = frozenset(
    {
        "address-cache",
        "build-setting",
        "call-count",
        "caller-look",
        "content-cache",
        "fake-report",
        "file-access",
        "identity-cache",
        "kept-output",
        "lazy-output",
        "may-exit",
        "memo",
        "mode-branch",
        "native-load",
        "network",
        "patched-library",
        "raw-syscall",
        "reads-reference",
        "runs-at-load",
        "shadowed-import",
        "shared-macro",
        "starts-process",
        "symbol-name",
        "tensor-weakref",
    }
)
"""Rules that only the judge of a task settles: a contract's own test and benchmark run in the candidate's process."""
NO_TRICK = frozenset({"inline-asm", "local-macro", "library-call", "fallback", "downgrade"})
"""Rules of what does the work, if otherwise than one may want it: the test and the clock see that. Never in the way."""
NOTHING = "nothing here settles it"

Standing = Literal["clean", "routes", "convicted"]


class Refusal(Value):
    """Why a candidate is rolled back before it is built."""

    reason: Literal["convicted", "overfit", "unsettled"]
    detail: str


def overall(findings: Sequence[Finding]) -> Standing:
    """The audit in a word."""
    if any(one.severity == "convicts" for one in findings):
        return "convicted"
    return "routes" if any(one.severity == "routes" for one in findings) else "clean"


def refusal(findings: Sequence[Finding], hypothesis: Hypothesis, contract: Contract) -> Refusal | None:
    """The gate: a convicting finding, a cache that Rule 11 forbids, then what nothing in this campaign can settle.

    None lets the candidate go on to its tests.
    """
    convicting = [one for one in findings if one.severity == "convicts"]
    if convicting:
        return Refusal(reason="convicted", detail=said(convicting[0]))
    for one in findings:
        if one.rule in CACHES and (problem := _forbidden(one, hypothesis)):
            return Refusal(reason="overfit", detail=f"{said(one)}: {problem}")
    blocking = [one for one in left_open(findings, contract) if one.rule in UNSETTLED]
    return Refusal(reason="unsettled", detail=_blocked(blocking[0])) if blocking else None


def left_open(findings: Sequence[Finding], contract: Contract) -> tuple[Finding, ...]:
    """Findings that need a closer check and get none: there is no judge, and the contract does not allow them."""
    if contract.judged:
        return ()
    allowed = {*contract.audit.allow, *NO_TRICK}
    return tuple(one for one in findings if one.severity == "routes" and one.rule not in allowed)


def notes(findings: Sequence[Finding], contract: Contract) -> tuple[str, ...]:
    """One line for each finding that needs a closer look, the first ones in full."""
    routed = [one for one in findings if one.severity != "convicts"]
    lines = [f"audit: {said(one)}; {settled(one, contract)}" for one in routed[:NOTED]]
    left = len(routed) - len(lines)
    return (*lines, f"audit: {left} more findings of the same kind of weight") if left else tuple(lines)


def settled(finding: Finding, contract: Contract) -> str:
    """What settles a finding in a campaign of this contract, in words that fit after its line."""
    if finding.severity == "notes":
        return "settled by the 4-step trace"
    if contract.judged or finding.closer == "reading":
        return f"settled by {words(finding.closer)}"
    return "allowed by audit.allow" if finding.rule in contract.audit.allow else NOTHING


def said(finding: Finding) -> str:
    """A finding in one line."""
    return f"{_place(finding)}: {finding.meaning}: `{finding.code}`"


def _place(finding: Finding) -> str:
    bucket = f" ({finding.bucket})" if finding.bucket else ""
    return f"{finding.path}:{finding.line} {finding.rule}{bucket}"


def _blocked(finding: Finding) -> str:
    """With the mend first: whoever shows a single line cuts its end."""
    mend = f"{NOTHING}; write it without, or allow it in ridgeline.yaml: audit: {{allow: [{finding.rule}]}}"
    return f"{_place(finding)}: {finding.meaning}; {mend}: `{finding.code}`"


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
