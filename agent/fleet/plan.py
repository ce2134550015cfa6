"""What a fleet file asks for, and which campaign begins next: pure functions over what waits, runs and is free.

Priority first; among equals the group with the least running, then the least machine time so far; in a group what may
take longest, so that no long one is left alone at the end; then the file's order.
A campaign that fits nowhere now lets others pass it, but for at most PATIENCE of them: then machines that it fits are kept free.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from ridgeline.agent.errors import UserError, UserErrors
from ridgeline.graph.values import Value
from ridgeline.sandbox.store.yaml_file import NotReadable, document, explain_errors, unknown_keys

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")
PATIENCE = 20
"""Campaigns of the same or lower rank that may begin before one that fits nowhere yet."""
MOST_LOSSES = 5
"""Lost workers or nodes after which a campaign is given up until it is asked for again."""


class Needs(Value):
    """What a campaign holds while it runs."""

    cpus: Annotated[float, Field(gt=0)] = 1.0
    gpus: Annotated[float, Field(ge=0)] = 0.0
    arch: str = ""
    """Value of the node label `ray.io/accelerator-type`, for example `H100`; empty: any."""


class Entry(Value):
    """One campaign of a fleet."""

    name: str
    contract: str
    """A `ridgeline.yaml` or its folder, from the fleet file's folder."""
    group: str = ""
    """Whose it is: groups share the fleet fairly."""
    priority: int = 0
    """Higher begins earlier."""
    needs: Needs = Needs()
    settings: dict[str, str | int | float | bool] = {}
    """Of `ridgeline run`: planner, model, preset, max_rounds, max_minutes, budget_usd, instruction, or any limit by name."""

    @property
    def longest(self) -> float:
        """How long a fleet's campaign may take, as far as it says: its minutes, else its rounds; to rank by, in no unit."""
        limit = self.settings.get("max_minutes", self.settings.get("max_rounds", 0))
        return float(limit) if isinstance(limit, int | float) else 0.0

    @field_validator("name")
    @classmethod
    def _is_a_file_name(cls, name: str) -> str:
        if not NAME.match(name):
            raise ValueError(f"{name!r}: use letters, digits, '.', '_' and '-', at most 80")
        return name


class FleetFile(Value):
    """`fleet.yaml`."""

    fleet: Literal[1] = 1
    campaigns: Annotated[tuple[Entry, ...], Field(min_length=1)]
    max_parallel: Annotated[int, Field(ge=1)] = 1000
    """Campaigns at a time, beside what fits the machines."""
    max_minutes: Annotated[float, Field(gt=0)] | None = None
    """Nothing begins later; what runs then is asked to stop."""
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    """Of all campaigns together: each may spend an equal share, so that no order and no loss of a machine exceeds it."""
    settings: dict[str, str | int | float | bool] = {}
    """Of every campaign that does not say otherwise."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [entry.name for entry in self.campaigns]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"campaigns: {', '.join(twice)} is named twice; give each a name of its own")
        return self

    def settings_of(self, entry: Entry) -> dict[str, str]:
        """A fleet's settings of one campaign, its own before the fleet's."""
        settings = {name: _to_text(value) for name, value in {**self.settings, **entry.settings}.items()}
        if self.budget_usd is not None:
            share = self.budget_usd / len(self.campaigns)
            settings["budget_usd"] = f"{min(share, float(settings.get('budget_usd', share))):.4f}"
        return settings


def read_fleet(file: Path) -> FleetFile:
    """The campaigns of a fleet file, checked. Raises UserError with a line for each problem."""
    if not file.is_file():
        raise UserError(f"{file}: no such file; write one (docs/fleet.md)")
    try:
        fields = document(file, empty="write `campaigns:` (docs/fleet.md)")
    except NotReadable as error:
        raise UserError(str(error)) from None
    problems = list(unknown_keys(fields, FleetFile))
    try:
        fleet = FleetFile.model_validate(fields)
    except ValidationError as error:
        named = {line.split(":")[0] for line in problems}
        problems += [line for line in explain_errors(error) if line.split(":")[0] not in named]
    if problems:
        raise UserErrors([f"{file.name}: {line}" for line in problems])
    return fleet


def _to_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


Result = Literal["concluded", "waiting", "failed", "lost"]
"""`waiting`: for a person, a mailbox or an idle device. `lost`: its worker or node went away."""


class Attempt(Value):
    """One line of `rows.jsonl`: what came of one start or resumption."""

    name: str
    number: int
    """Of this campaign's attempts, from 1."""
    result: Result
    speedup: float | None = None
    """Time of the original over that of the best version; None where nothing was kept and proven."""
    speedup_lower: float | None = None
    rounds: int = 0
    accepted: int = 0
    seconds: float = 0.0
    """Between its submission and its end, by the clock of whoever drives the fleet."""
    command_seconds: float | None = None
    """Of these, what its command took; the rest is what the fleet costs. None where the command's end is not known."""
    dollars: float | None = 0.0
    """Of the whole campaign so far; None where a price is not known."""
    node: str = ""
    detail: str = ""


class Node(Value):
    """One machine of the cluster, all of it."""

    id: str
    cpus: float
    gpus: float = 0.0
    arch: str = ""
    host: str = ""
    """Its name for people."""


class Running(Value):
    """A campaign that was begun and has not ended."""

    entry: Entry
    node: str
    """The machine that was reckoned with; where it really runs is the cluster's choice."""


def find_node(needs: Needs, nodes: Iterable[Node], running: Sequence[Running]) -> str | None:
    """The fleet's machine that fits with the least left over: graphics cards first, then processors; None where it fits nowhere now."""
    used: dict[str, tuple[float, float]] = {}
    for item in running:
        cpus, gpus = used.get(item.node, (0.0, 0.0))
        used[item.node] = (cpus + item.entry.needs.cpus, gpus + item.entry.needs.gpus)
    best: tuple[float, float, str] | None = None
    for node in nodes:
        cpus, gpus = used.get(node.id, (0.0, 0.0))
        left = (node.gpus - gpus - needs.gpus, node.cpus - cpus - needs.cpus, node.id)
        if min(left[:2]) > -1e-9 and needs.arch in ("", node.arch) and (best is None or left < best):
            best = left
    return best[2] if best else None


def can_ever_run(needs: Needs, nodes: Iterable[Node]) -> bool:
    """Whether any machine of the fleet could hold a campaign alone."""
    return find_node(needs, nodes, ()) is not None


def choose_next(
    waiting: Sequence[Entry],
    running: Sequence[Running],
    nodes: Sequence[Node],
    *,
    seconds: Mapping[str, float],
    passed: Mapping[str, int],
) -> tuple[Entry, str] | None:
    """The fleet's campaign that begins now, and where. None when nothing that waits may.

    `seconds`: machine time of each group so far. `passed`: how many have begun before each that waits although they ranked
    lower.
    """
    active: dict[str, int] = {}
    for item in running:
        active[item.entry.group] = active.get(item.entry.group, 0) + 1
    ranked = sorted(
        enumerate(waiting),
        key=lambda item: (
            -item[1].priority,
            active.get(item[1].group, 0),
            seconds.get(item[1].group, 0.0),
            -item[1].longest,
            item[0],
        ),
    )
    tried: set[Needs] = set()
    for _, entry in ranked:
        if entry.needs in tried:
            continue
        node = find_node(entry.needs, nodes, running)
        if node is not None:
            return entry, node
        tried.add(entry.needs)
        if passed.get(entry.name, 0) >= PATIENCE and can_ever_run(entry.needs, nodes):
            nodes = [node for node in nodes if not can_ever_run(entry.needs, [node])]
    return None


class Line(Value):
    """One campaign in the fleet's table."""

    name: str
    group: str
    state: Literal["waiting", "running", "concluded", "blocked", "failed"]
    """`blocked`: it waits for a person, a mailbox or a device; the fleet asks again when it is run again."""
    speedup: float | None
    speedup_lower: float | None
    rounds: int
    accepted: int
    attempts: int
    minutes: float
    dollars: float | None
    node: str
    """Where it runs, as far as the driver reckons, or ran last."""
    detail: str


class Standing(Value):
    """A fleet as far as it is."""

    lines: tuple[Line, ...]
    max_parallel: int
    budget_usd: float | None

    @property
    def dollars(self) -> float | None:
        """What all campaigns of a fleet have cost; None where a price is not known."""
        prices = [line.dollars for line in self.lines]
        return None if None in prices else sum(price or 0.0 for price in prices)

    def describe(self) -> str:
        """`9 of 20 concluded, 2 running, 3 blocked; 1.20 of 200.00 USD`."""
        counts = {state: sum(line.state == state for line in self.lines) for state in ("running", "blocked", "failed")}
        concluded = sum(line.state == "concluded" for line in self.lines)
        words = [f"{concluded} of {len(self.lines)} concluded", *(f"{n} {state}" for state, n in counts.items() if n)]
        price = "price unknown" if self.dollars is None else f"{self.dollars:.2f}"
        limit = "" if self.budget_usd is None else f" of {self.budget_usd:.2f}"
        return f"{', '.join(words)}; {price}{limit} USD"


def summarize_attempts(
    fleet: FleetFile, attempts: Iterable[Attempt], running: Mapping[str, str] = MappingProxyType({})
) -> tuple[Line, ...]:
    """The fleet's table, in the file's order. `running`: machine by campaign."""
    by_name: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_name.setdefault(attempt.name, []).append(attempt)
    return tuple(_summarize(entry, by_name.get(entry.name, []), running.get(entry.name)) for entry in fleet.campaigns)


def _summarize(entry: Entry, attempts: Sequence[Attempt], machine: str | None) -> Line:
    latest = attempts[-1] if attempts else Attempt(name=entry.name, number=0, result="lost")
    state: Literal["waiting", "running", "concluded", "blocked", "failed"] = "waiting"
    if machine is not None:
        state = "running"
    elif latest.result in ("concluded", "failed"):
        state = latest.result
    elif latest.result == "waiting":
        state = "blocked"
    return Line(
        name=entry.name,
        group=entry.group,
        state=state,
        speedup=latest.speedup,
        speedup_lower=latest.speedup_lower,
        rounds=latest.rounds,
        accepted=latest.accepted,
        attempts=len(attempts),
        minutes=sum(attempt.seconds for attempt in attempts) / 60,
        dollars=latest.dollars if attempts else 0.0,
        node=latest.node if machine is None else machine,
        detail=latest.detail,
    )
