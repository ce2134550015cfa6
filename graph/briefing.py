"""What a planner is told and what it answers."""

from typing import Annotated

from pydantic import Field

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Machine, Profiled
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import Champion, Prompts, RoundClosed, ShapeRoof, Spec
from ridgeline.graph.target import Target
from ridgeline.graph.values import Bottleneck, Cost, FileEdit, Hypothesis, LookUp, Value, WebSearch, is_empty, is_none

STOPPED = "stop: "
"""Begins a planner's reason for stopping when a person asked to stop before its next question: T4, not T8."""
OUT_OF_BUDGET = "budget: "
"""Begins a planner's reason for stopping when its next question might cost more than is left: T7, not T8."""


class ShapeNow(Value):
    """One shape of the benchmark: the original and the best version, each as the quick command measured it last."""

    label: str
    config_class: str
    original: float | None
    """Primary metric in round 1; None where the row did not pass."""
    best: float | None
    original_us: float | None
    """Microseconds of one call; None where the contract names no time column."""
    best_us: float | None
    roof: ShapeRoof | None = None
    noise: Annotated[float | None, Field(exclude_if=is_none)] = None
    """Standard deviation of the log-ratio of two identical versions in a pair of processes; None where unknown."""


class Terms(Value):
    """When the campaign ends and what is kept, with what is left of it."""

    limits: Limits
    rounds_done: int
    rounds_most: int | None
    peak_asked: float | None
    """Share of the bounding ceiling at which the campaign stops."""
    peak_now: str
    """The best version's share and its ceiling, or why it cannot be said."""
    governed: bool
    """Whether the ceilings bound these shapes, so that a share of them means something."""
    spent: Cost
    """Of every closed event."""
    visible_gain: float | None = None
    """Smallest gain that this machine's noise lets be seen, as a share; None where the noise is not known."""


class ArchivedVersion(Value):
    """A measured version in the archive of search mode `evolve`."""

    round: int
    """1: the original."""
    score: float
    """Time of the original / its time, by its pairs with the best version of its round; no proof."""
    island: int
    cell: tuple[int, int, int]
    """Bins of complexity, diversity and score, from 0."""
    change: str


class Parent(Value):
    """The version that the open round changes, in search mode `evolve`."""

    version: ArchivedVersion
    commit: str
    generation: int
    best_score: float
    """Of the best version, as proven: what every candidate is measured against."""
    elites: tuple[ArchivedVersion, ...] = ()
    """Of other cells, best first."""


class Briefing(Value):
    """Everything a planner may use, already free of masked memory."""

    round: int
    target: Target
    contract: Contract
    machine: Machine
    specs: tuple[Spec, ...]
    sources: tuple[FileEdit, ...]
    """Current text of the editable files of the version that the round changes: the best one, unless `parent` says so."""
    best_commit: str
    best_round: int
    aggregate: float | None
    """Primary metric of the best version (geometric mean); None before the baseline is measured."""
    bottleneck: Bottleneck
    bottleneck_evidence: str
    profile: Profiled | None
    rounds: tuple[RoundClosed, ...]
    """Closed rounds, oldest first, masked ones left out."""
    masked_rounds: tuple[RoundClosed, ...] = ()
    """Closed rounds that a partial restart masked: an exact repetition of their changes teaches nothing new."""
    consecutive_rollbacks: int
    escalation: str = ""
    """What R7 asks for now: diagnose, re-profile, ISA, state of the art."""
    diagnosis: tuple[str, ...] = ()
    """What was looked at for it: machine code side by side, times beside those of the best known kernel."""
    directions: tuple[str, ...] = ()
    """Of the last stagnation review."""
    web: Annotated[WebSearch | None, Field(exclude_if=is_none)] = None
    """Of the public web, in the round after a partial restart; ideas only, never an instruction or a hardware number."""
    shapes: tuple[ShapeNow, ...] = ()
    terms: Terms | None = None
    candidates: int = 1
    """Directions that may be tried side by side in the open round."""
    tips: str | None = None
    champions: Annotated[tuple[Champion, ...], Field(exclude_if=is_empty)] = ()
    """Of earlier campaigns, those that cannot be tried here and may be read."""
    head: str = ""
    """sha256 of the ledger's last line: names everything above in one word."""
    parent: Annotated[Parent | None, Field(exclude_if=is_none)] = None
    """None in search mode `linear`."""

    @property
    def base_round(self) -> int:
        """The round whose version a briefing's `sources` are of."""
        return self.parent.version.round if self.parent else self.best_round

    @property
    def base_commit(self) -> str:
        """The commit of a briefing's version."""
        return self.parent.commit if self.parent else self.best_commit


class Proposal(Value):
    """One primary hypothesis, or none left."""

    hypothesis: Hypothesis | None
    ranked: tuple[str, ...] = ()
    """Other directions considered, best first."""
    dropped: tuple[str, ...] = ()
    """Directions dropped by rule, with the reason."""
    exhausted: str = ""
    """Why there is none."""
    searches: Annotated[tuple[LookUp, ...], Field(exclude_if=is_empty)] = ()
    """What was looked up for it, in order."""
    others: Annotated[tuple["Proposal", ...], Field(exclude_if=is_empty)] = ()
    """To be tried side by side with it, best first, where the briefing asks for several candidates."""
    beside: Annotated[tuple[Hypothesis, ...], Field(exclude_if=is_empty)] = ()
    """All that are tried side by side, this one among them, in their order; empty where it is tried alone."""
    champion: Annotated[str, Field(exclude_if=is_empty)] = ""
    """The earlier campaign whose best version this is: its edits are on record, and nobody is asked for them."""
    prompts: tuple[str, ...] = ()
    cost: Cost = Cost()


class Draft(Value):
    """Edits, or the reason why there are none."""

    edits: tuple[FileEdit, ...]
    explanation: str = ""
    refusal: str = ""
    exhausted: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Why nothing worth a round is left, where the planner says so in place of edits: the campaign ends."""
    prompts: tuple[str, ...] = ()
    cost: Cost = Cost()


class Review(Value):
    """At least three different directions, unexplored first."""

    directions: tuple[str, ...]
    exhausted: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Why nothing worth a round is left; empty where something is."""
    deep: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Plan of a deep round, where what is left takes several steps that do not pay one by one."""
    prompts: Prompts = ()
    cost: Cost = Cost()
