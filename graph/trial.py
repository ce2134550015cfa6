"""A hypothesis on its way through a round: each stage wraps the one before it and nothing else."""

from typing import Annotated, Literal, TypeVar

from pydantic import Field

from ridgeline.graph.deep import DeepRound
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, BuildResult, Comparison, Profiled, TestResult
from ridgeline.graph.finding import Finding
from ridgeline.graph.values import Artifact, Cost, FileEdit, Hypothesis, Instant, LookUp, Value, is_default
from ridgeline.graph.verdict import UnmeasuredReason, Verdict

T = TypeVar("T", bound=Value)


def _none(value: object) -> bool:
    """Whether a stage's field is left out of a record, so that a line reads as before the field existed."""
    return value in ((), "", None)


Evidence = Annotated[Benchmark | BenchmarkFailed | Comparison, Field(discriminator="kind")]


class Proposed(Value):
    stage: Literal["proposed"] = "proposed"
    round: int
    hypothesis: Hypothesis
    opened_at: Instant
    """ISO-8601 UTC, when the round began."""
    written_at: Annotated[Instant | None, Field(exclude_if=_none)] = None
    """When the hypothesis was there, before any edit of it; None in older records."""
    prompts: tuple[str, ...] = ()
    """`name.vN@sha256` of every template that was used."""
    cost: Cost = Cost()
    searches: Annotated[tuple[LookUp, ...], Field(exclude_if=_none)] = ()
    """What the planner looked up for it, in order; none in records older than this field."""
    author: Annotated[str, Field(exclude_if=_none)] = ""
    """The person who wrote this change; empty where the planner proposed it."""
    edits_round: Annotated[int | None, Field(exclude_if=_none)] = None
    """The round whose waiting change the person edited."""
    beside: Annotated[int | None, Field(exclude_if=_none)] = None
    """The first of the rounds that were tried side by side, this one among them; None where it was tried alone."""
    deep: Annotated[DeepRound | None, Field(exclude_if=_none)] = None
    """What was done in its work tree, where it is a deep round; None in others."""
    parent: Annotated[int | None, Field(exclude_if=_none)] = None
    """The round whose code it changes, 1 for the original; None where that is the best version."""
    champion: Annotated[str, Field(exclude_if=_none)] = ""
    """The earlier campaign whose best version this is; empty where the change is new."""


class Repair(Value):
    """One repair that was asked for: what was wrong before it."""

    evidence: str
    explanation: str
    cost: Cost = Cost()


class Point(Value):
    """One point of a sweep, screened: its gain is of one process pair and proves nothing."""

    settings: tuple[tuple[str, int], ...]
    gain: float | None
    """Over the best version, as a share; None where it cannot be used."""
    invalid: Annotated[str, Field(exclude_if=_none)] = ""
    """Why it cannot be used: refused, not built, wrong, or not timed."""


class Drafted(Value):
    stage: Literal["drafted"] = "drafted"
    proposed: Proposed
    edits: tuple[FileEdit, ...]
    edited_at: Annotated[Instant | None, Field(exclude_if=_none)] = None
    """When its first edits were there; None in older records."""
    explanation: str = ""
    """Why it works: goes into the commit message."""
    repairs: tuple[Repair, ...] = ()
    tuned: Annotated[tuple[Point, ...], Field(exclude_if=_none)] = ()
    """Points of its sweep, in the order in which they were tried; `edits` are at the best one."""
    split: bool = False
    """This draft is the class-specialised second attempt of a split."""
    prompts: tuple[str, ...] = ()
    cost: Cost = Cost()


class LocalGate(Value):
    """Workspace mode: what the minimal project said of a candidate before it was synced back."""

    commit: str
    """Name of the candidate's minimal project."""
    test: TestResult | None = None
    quick: Annotated[Benchmark | BenchmarkFailed | None, Field(exclude_if=_none)] = None
    """The quick benchmark there; never compared with one of the project itself."""
    gain: float | None = None
    """Over the best version's minimal project, timed just before; None where either gave no numbers."""


class CacheSimulation(Value):
    """A weight cache that reading found, run over eight steps with fresh tensors."""

    path: str
    line: int
    method: str
    """`tensors` where the target's own torch ran, `unavailable` where nothing could."""
    bounded: bool
    """One hit in every step, none after the weight was changed in place: W1, and nothing else may stay."""
    why: str


class Applied(Value):
    stage: Literal["applied"] = "applied"
    drafted: Drafted
    commit: str
    tree: str
    diff: Artifact
    snapshot: tuple[Artifact, ...]
    """The kernel's files as this candidate has them."""
    changed: tuple[str, ...]
    audit: Annotated[tuple[Finding, ...], Field(exclude_if=_none)] = ()
    """What reading the change found that was not in the version before it."""
    caches: Annotated[tuple[CacheSimulation, ...], Field(exclude_if=_none)] = ()
    local: Annotated[LocalGate | None, Field(exclude_if=_none)] = None
    """Of the local gate; None where the campaign works in the project itself."""
    left: Annotated[tuple[str, ...], Field(exclude_if=_none)] = ()
    """Edited files that were not synced back."""


class Built(Value):
    stage: Literal["built"] = "built"
    applied: Applied
    build: BuildResult


class Broken(Value):
    """Built and wrong: on its way to a repair."""

    stage: Literal["broken"] = "broken"
    built: Built
    test: TestResult


class Verified(Value):
    stage: Literal["verified"] = "verified"
    built: Built
    test: TestResult


class Timed(Value):
    """Measured so far; the policy says whether more is wanted."""

    stage: Literal["timed"] = "timed"
    verified: Verified
    evidence: tuple[Evidence, ...]
    sharing: Annotated[int, Field(ge=1, exclude_if=is_default(1))] = 1
    """Candidates that were timed side by side against the same best version, this one among them; they share `alpha`."""


class Traced(Value):
    stage: Literal["traced"] = "traced"
    timed: Timed
    profile: Profiled | None
    """None where the preset needs no trace or no profiler works here; then the record says so."""


class Failed(Value):
    """Ended before a usable measurement."""

    stage: Literal["failed"] = "failed"
    reached: Annotated[Proposed | Drafted | Applied | Built | Broken | Verified | Timed, Field(discriminator="stage")]
    reason: UnmeasuredReason
    detail: str


class Formatted(Value):
    """An accepted candidate after formatting: what was committed is what was measured."""

    applied: Applied
    evidence: tuple[Evidence, ...] = ()
    """Re-validation of the formatted tree; empty when formatting changed nothing."""


class Judged(Value):
    stage: Literal["judged"] = "judged"
    trial: Annotated[Traced | Failed, Field(discriminator="stage")]
    verdict: Verdict
    formatted: Formatted | None = None


Trial = Annotated[
    Proposed | Drafted | Applied | Built | Broken | Verified | Timed | Traced | Failed | Judged,
    Field(discriminator="stage"),
]
Stage = Proposed | Drafted | Applied | Built | Broken | Verified | Timed | Traced | Failed | Judged


WRAPS: dict[str, str] = {
    "drafted": "proposed",
    "applied": "drafted",
    "built": "applied",
    "broken": "built",
    "verified": "built",
    "timed": "verified",
    "traced": "timed",
    "failed": "reached",
    "judged": "trial",
}
"""Stage -> the field that holds the stage before it."""


def inner(trial: Stage) -> Stage | None:
    """The stage that a stage of a trial wraps; None for the first."""
    if isinstance(trial, Proposed):
        return None
    wrapped: Stage = getattr(trial, WRAPS[trial.stage])
    return wrapped


def replace_draft(trial: Stage, drafted: Drafted) -> Stage:
    """A trial around another account of its draft: asking once more cost something, whatever came of it."""
    if isinstance(trial, Drafted):
        return drafted
    wrapped = inner(trial)
    assert wrapped is not None
    return trial.model_copy(update={WRAPS[trial.stage]: replace_draft(wrapped, drafted)})


def find(trial: Stage | None, kind: type[T]) -> T | None:
    """The stage of that kind inside a trial, if it got so far."""
    while trial is not None:
        if isinstance(trial, kind):
            return trial
        trial = inner(trial)
    return None


def find_proposal(trial: Stage) -> Proposed:
    """The proposal that a trial began as: every trial began as one."""
    proposal = find(trial, Proposed)
    assert proposal is not None
    return proposal
