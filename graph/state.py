"""What LangGraph carries between nodes, and what a node may return. The record is the ledger, not this."""

from typing import TypedDict

from ridgeline.graph.approval import Decision
from ridgeline.graph.briefing import Proposal
from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Ceilings, Comparison, Machine, Profiled, TestResult
from ridgeline.graph.limits import Limits
from ridgeline.graph.ports import Base
from ridgeline.graph.record import Champion, FirstKernel, Spec, StopCheck
from ridgeline.graph.target import Target
from ridgeline.graph.trial import Judged, Trial
from ridgeline.graph.values import SCHEMA, Bottleneck, Value, WebSearch

BRANCHES: dict[str, str] = {"autonomous": "kernel-opt"}
"""Folder of the campaign's branch by preset; `optimize` otherwise."""


class Request(Value):
    """What the campaign was asked for, before anything is resolved."""

    contract: Contract
    contract_path: str
    instruction: str
    overrides: tuple[tuple[str, str], ...]
    limits: Limits
    planner: str
    created: str
    """`YYYY-MM-DD HH:MM`, local time of the shell."""
    version: str
    campaign: str = ""
    """Name to use instead of the derived one, when that one is taken."""
    counts_work: bool = False
    """Whether time is counted from the start of the command, over all of the campaign's sessions; records older than
    this field count from the first round."""
    steerable: bool = False
    """Whether a person's edits of memory and README are heard; records older than this field were not asked."""
    stamps_edits: bool = False
    """As in `Opened`; records older than this field have none."""
    drafts_first: bool = False
    """As in `Opened`; records older than this field built each before the next was drafted."""
    specs: tuple[Spec, ...] = ()
    """What the documents say of this product; the shell reads them, the graph reads no file."""
    champions: tuple[Champion, ...] = ()
    """Of earlier campaigns; the shell finds them."""


def writes_first_kernel(request: Request) -> bool:
    """Whether the campaign has a Stage 1: the planner writes the kernel that is optimized."""
    return request.limits.write_baseline and request.contract.start == "pytorch"


class Setting(Value):
    """What the setup phases know before the ledger is opened."""

    target: Target
    machine: Machine
    base: Base | None = None
    first_kernel: FirstKernel | None = None
    """The first kernel, where Stage 1 wrote it; `base` holds it then."""
    ceilings: Ceilings | None = None


class BaselineSoFar(Value):
    """Round 1 on its way: what has been measured of the unmodified code."""

    opened_at: str
    test: TestResult
    project: Benchmark | None = None
    quick: Benchmark | None = None
    spot: Benchmark | None = None
    """The quick command over the representative shapes."""
    representative: tuple[str, ...] = ()
    profile: Profiled | None = None


class Analysis(Value):
    """Evidence of the best version at the beginning of a round."""

    round: int
    opened_at: str
    profile: Profiled | None
    bottleneck: Bottleneck
    evidence: str
    best_known: Benchmark | BenchmarkFailed | None = None
    """Times of the best known kernel, where this round took them."""
    web: WebSearch | None = None
    """What the public web says, where this round asked."""


class Final(Value):
    """The champion against the original, at the end."""

    comparison: Comparison | None = None
    note: str = ""
    project: Benchmark | None = None
    baseline_again: Benchmark | None = None
    suite: TestResult | None = None


class State(TypedDict):
    schema: int
    request: Request
    setting: Setting | None
    baseline: BaselineSoFar | None
    analysis: Analysis | None
    proposal: Proposal | None
    trial: Trial | None
    checks: tuple[StopCheck, ...] | None
    restarts: int
    """Partial restarts on record when the conditions were last checked."""
    exhausted: str
    final: Final | None
    decisions: tuple[Decision, ...]
    """Of people, since the last line of the ledger."""
    alternatives: tuple[Judged, ...]
    """Judged changes of the open question beside `trial`: candidates tried side by side, and a person's edits."""
    queue: tuple[Proposal, ...]
    """Directions of the open round that are still to be drafted, best first."""
    rivals: tuple[Trial, ...]
    """Candidates of the open round beside `trial`, each applied and yet to be built, verified, failed, or on from there."""


class Update(TypedDict, total=False):
    request: Request
    setting: Setting | None
    baseline: BaselineSoFar | None
    analysis: Analysis | None
    proposal: Proposal | None
    trial: Trial | None
    checks: tuple[StopCheck, ...] | None
    restarts: int
    exhausted: str
    final: Final | None
    decisions: tuple[Decision, ...]
    alternatives: tuple[Judged, ...]
    queue: tuple[Proposal, ...]
    rivals: tuple[Trial, ...]


def initial(request: Request) -> State:
    """The whole state of a campaign that has not begun."""
    return State(
        schema=SCHEMA,
        request=request,
        setting=None,
        baseline=None,
        analysis=None,
        proposal=None,
        trial=None,
        checks=None,
        restarts=0,
        exhausted="",
        final=None,
        decisions=(),
        alternatives=(),
        queue=(),
        rivals=(),
    )
