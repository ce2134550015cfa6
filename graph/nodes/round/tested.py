"""A candidate's test, held against the original's: exit code 0 alone does not say that a test came to its end."""

from ridgeline.graph.context import history
from ridgeline.graph.evidence import Printed, TestResult
from ridgeline.graph.policy.early import ended_early
from ridgeline.graph.ports import Ports

ORIGINAL_AGAIN = ("baseline again 1", "baseline again 2")
"""Runs of the original that show which of its lines vary: asked only where one is missing, once in a campaign."""


def tested(ports: Ports, commit: str, *, purpose: str) -> TestResult:
    """The test of `commit`; `incorrect`, and so repairable, where it passed by ending early.

    Where lines are missing the original is run again, since its lines may vary, and then the candidate once.
    """
    test = ports.checker.check(commit, purpose=purpose)
    baseline = history(ports).baseline
    original = baseline.test.printed if baseline else None
    if original is None or test.printed is None or ended_early((original,), test.printed) is None:
        return test
    originals = (original, *_original_again(ports))
    why = ended_early(originals, test.printed)
    if why is None:
        return test
    again = ports.checker.check(commit, purpose=f"{purpose} again")
    why = ended_early(originals, again.printed) if again.printed else None
    if why is None:  # it passed in full, or failed in plain words
        return again
    return again.model_copy(
        update={"passed": False, "kind": "incorrect", "detail": f"{why}\n{again.detail}".rstrip(), "printed": None}
    )


def _original_again(ports: Ports) -> tuple[Printed, ...]:
    base = history(ports).opened.base_commit
    runs = (ports.checker.check(base, purpose=purpose) for purpose in ORIGINAL_AGAIN)
    return tuple(run.printed for run in runs if run.printed is not None)
