"""The ledger: one line per closed event, chained by sha256. Everything else that is known is a fold over these."""

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from ridgeline.graph.approval import Decision, Steering
from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Ceilings, Comparison, Machine, Profiled, TestResult
from ridgeline.graph.limits import Limits
from ridgeline.graph.target import Goal, Target
from ridgeline.graph.trial import Judged, Repair, find_proposal
from ridgeline.graph.values import (
    SCHEMA,
    Artifact,
    Bottleneck,
    Bucket,
    Cost,
    FileEdit,
    Hypothesis,
    Instant,
    Value,
    is_empty,
    is_none,
)


def _nothing(value: object) -> bool:
    """Whether a field of the ledger's line says nothing and is left out, so that a line reads as before the field existed."""
    return value in ((), Cost())


Prompts = Annotated[tuple[str, ...], Field(exclude_if=_nothing)]
"""`name.vN@sha256` of every template that a question to a model was made of."""


Decisions = Annotated[tuple[Decision, ...], Field(exclude_if=_nothing)]
"""What people decided on the way, with who and when."""


class Spec(Value):
    """A hardware number and where it stands; value None means UNKNOWN."""

    metric: str
    value: float | None
    unit: str
    source: str
    """`path:L<n>` of a document, or the command that measured it here."""

    @property
    def text(self) -> str:
        """A recorded hardware number in its registered form; regex-checkable."""
        if self.value is None:
            return f"{self.metric}: UNKNOWN ({self.source})"
        return f"{self.metric}: {self.value:g} {self.unit} <- {self.source}"


class ShapeRoof(Value):
    """One shape on the roofline. None where the contract has no formula."""

    label: str
    flops: float | None
    bytes: float | None
    intensity: float | None
    bound: Literal["compute", "memory", "unknown"]
    floor_us: float | None
    """No correct implementation can be faster on these ceilings."""


class MinimalVersion(Value):
    """The minimal project of one version, in workspace mode: where each of its files came from."""

    commit: str
    """Name of the version that holds these files alone; builder, checker and timer take it as any other."""
    upstream: str
    """The commit that they were extracted from."""
    src: tuple[Artifact, ...]
    tests: tuple[Artifact, ...]
    bench: tuple[Artifact, ...]


class FirstKernel(Value):
    """Stage 1: the first kernel, which the planner wrote where only PyTorch was."""

    upstream: str
    """The commit with PyTorch alone."""
    hypothesis: Hypothesis
    opened_at: Instant
    explanation: str
    diff: Artifact
    test: TestResult
    repairs: tuple[Repair, ...] = ()
    prompts: Prompts = ()
    cost: Cost = Cost()


class Champion(Value):
    """The best version of an earlier, concluded campaign of the same operator, machine and language."""

    campaign: str
    """Name of the campaign that made it."""
    commit: str
    """Of that campaign's branch."""
    speedup: float
    """Over its own original, by its own final test: a number of another day, which nothing here rests on."""
    lower: float
    """Lower bound of that."""
    hypothesis: Hypothesis
    """What it is tried as."""
    files: tuple[FileEdit, ...]
    """What is in it of the files that it changed."""
    mismatch: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Why it cannot be tried here, and is shown as text alone; empty where it can."""


class Opened(Value):
    kind: Literal["opened"] = "opened"
    target: Target
    contract: Contract
    limits: Limits
    planner: str
    machine: Machine
    base_commit: str
    """Where the campaign's branch begins."""
    base_tree: str
    branch: str
    contract_path: str
    """Path of ridgeline.yaml inside the repository."""
    repository: str
    """Name of the repository's folder, for people."""
    confirmation: str
    """`auto-confirmed`, or who confirmed and what was changed."""
    tips: str | None
    """Text of the tips file read before round 1; None when absent."""
    version: str
    """Ridgeline's own version."""
    decisions: Decisions = ()
    counts_work: Annotated[bool, Field(exclude_if=is_empty)] = False
    """Whether time is counted from the start of the command, over all sessions (`Clock.worked_s`)."""
    stamps_edits: Annotated[bool, Field(exclude_if=is_empty)] = False
    """Whether the instants of a hypothesis and of its first edit are kept."""
    drafts_first: Annotated[bool, Field(exclude_if=is_empty)] = False
    """Whether all candidates of a round are drafted before the first is built, so that they can be built side by side."""
    minimal: Annotated[MinimalVersion | None, Field(exclude_if=is_none)] = None
    """The minimal project of the unmodified code, in workspace mode."""
    first_kernel: Annotated[FirstKernel | None, Field(exclude_if=is_none)] = None
    """The first kernel, where the planner wrote it: `base_commit` is the one that holds it."""
    champions: Annotated[tuple[Champion, ...], Field(exclude_if=_nothing)] = ()
    """Of earlier campaigns, best first, as they were found when the campaign began."""

    @property
    def upstream_commit(self) -> str:
        """The commit of the user's that everything stands on."""
        return self.first_kernel.upstream if self.first_kernel else self.base_commit


class Rooflined(Value):
    kind: Literal["roofline"] = "roofline"
    ceilings: Ceilings | None
    specs: tuple[Spec, ...]
    bound: Literal["compute", "memory", "unknown"]
    shapes: tuple[ShapeRoof, ...] = ()
    note: str = ""


class Code(Value):
    """What an archive of candidates compares of a version's editable files, taken together."""

    length: int
    """Characters."""
    lines: int
    characters: str
    """Each that occurs, once, in order."""


class BaselineClosed(Value):
    """Round 1: the unmodified code."""

    kind: Literal["baseline"] = "baseline"
    round: Literal[1] = 1
    test: TestResult
    project: Benchmark
    """The project's own benchmark over all target shapes."""
    quick: Benchmark
    """The quick command over all target shapes: the reference of the per-shape gate."""
    representative: tuple[str, ...]
    quick_log: Artifact
    classes: tuple[str, ...]
    profile: Profiled | None
    bottleneck: Bottleneck
    snapshot: tuple[Artifact, ...]
    shapes: tuple[ShapeRoof, ...] = ()
    roofline: Annotated[Rooflined | None, Field(exclude_if=is_none)] = None
    """Ceilings that were measured again, and hold from here on; None where those of Step 0 do."""
    code: Annotated[Code | None, Field(exclude_if=is_none)] = None
    """Of the original, where search mode is `evolve`."""
    opened_at: Instant
    cost: Cost


class Calibrated(Value):
    """The best version against itself: the noise every later candidate is judged by."""

    kind: Literal["calibration"] = "calibration"
    after_round: int
    """1: before the first candidate."""
    fresh: bool
    """A calibration of its own; False for a canary, which adds its pairs to those before it."""
    comparison: Comparison | None
    """None when it could not be measured; then candidates are judged by their own scatter alone."""
    alarm: str = ""
    """What was wrong with the measurement, and that it was calibrated again; empty when nothing was."""
    note: str = ""
    cost: Cost = Cost()


class Reflection(Value):
    """What a round taught, in the planner's words."""

    attribution: str
    root_cause: str = ""
    """After a rollback: why it did not help."""
    next_direction: str = ""
    lesson: str | None = None
    """A reusable tip, or None when the round taught nothing reusable."""
    applies: str = ""
    does_not_apply: str = ""
    dropped: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Why a lesson that was given is not kept: the rounds deny it."""
    exhausted: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Why nothing worth a round is left, where the planner says so when it looks back: the campaign ends."""
    prompts: Prompts = ()
    cost: Cost = Cost()


class PredictionCheck(Value):
    """The prediction against what was seen, independent of the verdict."""

    counter: str
    expected: Literal["down", "up"]
    before: float | None
    after: float | None
    outcome: Literal["confirmed", "refuted", "unclear"]
    speedup: Annotated[float | None, Field(exclude_if=is_none)] = None
    """Measured, where the metric itself was predicted (`check_round` of `rules/lessons.py`); the ledger has counters only."""


class RoundClosed(Value):
    kind: Literal["round"] = "round"
    round: int = Field(ge=2)
    judged: Judged
    prediction: PredictionCheck | None
    reflection: Reflection
    bottleneck: Bottleneck
    """Of the best version, when the round began."""
    bottleneck_evidence: str
    commit: str | None
    """The commit on the campaign's branch; None when rolled back or when git_commit is false."""
    tree: str
    """Tree of the best version after this round."""
    snapshot: tuple[Artifact, ...]
    closed_at: Instant
    cost: Cost
    decisions: Decisions = ()
    exhausted: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Why nothing worth a round is left, as the planner said while this round was open; empty where it did not."""
    best_known: Annotated[Benchmark | BenchmarkFailed | None, Field(exclude_if=is_none)] = None
    """Times of the best known kernel, where this round took them; told, and nothing is decided by them."""
    code: Annotated[Code | None, Field(exclude_if=is_none)] = None
    """Of the candidate, where search mode is `evolve` and its edits were applied."""

    @property
    def accepted(self) -> bool:
        return self.judged.verdict.accepted

    @property
    def replaced(self) -> bool:
        """Whether a recorded round was proven, and a person chose another measured change of the same question."""
        return self.judged.verdict.reason == "replaced"

    @property
    def set_aside(self) -> bool:
        """Whether another measured change was taken in a recorded round's place: nothing was found against its direction."""
        return self.judged.verdict.reason in ("replaced", "outpaced")

    @property
    def beside(self) -> int:
        """The first of the recorded rounds that were tried side by side with it; its own number where it was tried alone."""
        return find_proposal(self.judged).beside or self.round

    @property
    def author(self) -> str:
        """The person who wrote a recorded round's change; empty where the planner proposed it."""
        return find_proposal(self.judged).author

    @cached_property
    def bucket(self) -> Bucket:
        """Rule-11 bucket of a recorded round's hypothesis; asked for every round at every step, so found once."""
        return find_proposal(self.judged).hypothesis.bucket


class Reviewed(Value):
    """Stagnation review: the direction changes, the campaign goes on."""

    kind: Literal["review"] = "review"
    after_round: int
    trigger: str
    directions: tuple[str, ...]
    escalation: str
    exhausted: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Why nothing worth a round is left, as the planner said; empty where something is."""
    deep: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Plan of the deep round that the planner wants next; empty where it wants none."""
    full: Benchmark | None = None
    """Full validation of the best version at the end of its direction, where it was accepted on a quick run."""
    full_note: str = ""
    """What that validation showed, against the original."""
    prompts: Prompts = ()
    cost: Cost = Cost()


class Restarted(Value):
    """Partial restart: these memory versions no longer influence planning."""

    kind: Literal["restart"] = "restart"
    after_round: int
    masked: tuple[int, ...]
    note: str
    repeat: Annotated[int, Field(ge=0, exclude_if=is_empty)] = 0
    """Restarts after the same round before this one: the planner had nothing new to try after those either."""
    cost: Annotated[Cost, Field(exclude_if=_nothing)] = Cost()
    """Of the question whose answer was that nothing is left to try."""


class Steered(Value):
    """A person changed the campaign's course; all of it as it stands from here on."""

    kind: Literal["steered"] = "steered"
    after_round: int
    repeat: Annotated[int, Field(ge=0, exclude_if=is_empty)] = 0
    """Changes after the same round before this one."""
    wish: Steering
    target_peak_fraction: Annotated[float | None, Field(exclude_if=is_none)] = None
    """Share of the ceiling that T2 asks for, where the person changed it; likewise the next two."""
    max_rounds: Annotated[int | None, Field(exclude_if=is_none)] = None
    goal: Annotated[Goal | None, Field(exclude_if=is_none)] = None
    lifted: Annotated[tuple[str, ...], Field(exclude_if=_nothing)] = ()
    """Conditions that the person took off: T1, T2, T3."""
    problems: Annotated[tuple[str, ...], Field(exclude_if=_nothing)] = ()
    """Lines that could not be read, and so change nothing."""


class Attribution(Value):
    """Rule 11 over the accepted lineage, in per cent."""

    structural: float
    weight_cache: float
    headline: float
    real: float
    gap: float
    verdict: Literal["clean", "inflated", "rolled-back"]
    method: str = "sum of log gains"


class StopCheck(Value):
    """One termination condition, evaluated."""

    id: str
    description: str
    satisfied: bool


class Concluded(Value):
    kind: Literal["concluded"] = "concluded"
    stop_reason: str
    checks: tuple[StopCheck, ...]
    final: Comparison | None
    """The one pre-registered test of champion against original; None when nothing was accepted or it failed."""
    final_note: str = ""
    project: Benchmark | None
    """Full validation of the best version with the project's benchmark."""
    baseline_again: Benchmark | None = None
    """The original, measured again beside it."""
    suite: TestResult | None = None
    attribution: Attribution | None
    worked_s: Annotated[float | None, Field(exclude_if=is_none)] = None
    """Wall seconds of all sessions of the campaign, from the start of the command; None in older records."""
    speedup: float | None
    speedup_lower: float | None
    closed_at: Instant
    cost: Cost


Body = Annotated[
    Opened | Rooflined | BaselineClosed | Calibrated | RoundClosed | Reviewed | Restarted | Steered | Concluded,
    Field(discriminator="kind"),
]


class Line(Value):
    """One line of `ledger.jsonl`."""

    schema_version: int = SCHEMA
    seq: int
    key: str
    """Identity of the event, for example `round-4`: appending it twice is appending it once."""
    prev: str
    """sha256 of the previous line; 64 zeros for the first."""
    body: Body
    sha256: str
    """sha256 of this line's canonical JSON without this field."""


def key(body: Value) -> str:
    """Identity of the ledger's event: two bodies of one key are the same event."""
    match body:
        case BaselineClosed() | RoundClosed():
            return f"round-{body.round}"
        case Calibrated():
            return f"{'calibration' if body.fresh else 'canary'}-after-{body.after_round}"
        case Reviewed():
            return f"review-after-{body.after_round}"
        case Restarted():
            return restart_key(body.after_round, body.repeat)
        case Steered():
            return f"steered-after-{body.after_round}" + (f".{body.repeat + 1}" if body.repeat else "")
        case Opened() | Rooflined() | Concluded():
            return body.kind
        case _:
            raise TypeError(type(body).__name__)


def restart_key(after_round: int, repeat: int) -> str:
    """Identity of a partial restart; `repeat`: how many there were after that round before it."""
    return f"restart-after-{after_round}" + (f".{repeat + 1}" if repeat else "")
