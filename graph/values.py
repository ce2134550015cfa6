"""The nouns everything else is made of: frozen, validated, and free of behaviour beyond arithmetic."""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

SCHEMA = 1
"""Version of every file Ridgeline writes; a campaign of another version is refused, never guessed at."""

Answer = Literal["yes", "no", "unverified"]
Engine = Literal["wall", "cpu", "event", "graph", "profiler"]
"""What took a time. Numbers of two engines are never compared."""
Bucket = Literal["K1", "K2", "K3", "K4", "W1", "W2", "W3"]
"""Rule 11: K = kernel work, W1 = bounded weight cache, W2 and W3 = benchmark-only, forbidden."""
FORBIDDEN_BUCKETS: frozenset[Bucket] = frozenset({"W2", "W3"})
"""Caches keyed on what changes in every training step: only a benchmark that reuses its tensors hits them."""
Category = Literal["tile", "layout", "pipelining", "occupancy", "backend", "algorithm", "compiler"]

Bottleneck = Literal["compute", "memory", "latency", "resource", "launch", "unknown"]


def is_none(value: object) -> bool:
    """Whether a value's field is None and left out of a record, so that a line reads as before the field existed."""
    return value is None


def is_empty(value: object) -> bool:
    """Whether a value's field says nothing and is left out of a record, so that a line reads as before the field existed."""
    return not value


def is_default(default: object) -> Callable[[object], bool]:
    """Whether a value's field has its default and is left out of a record, so that a line reads as before the field existed."""
    return lambda value: value == default


def _require_instant(text: str) -> str:
    """A value's text itself. Raises ValueError for one that is no point in time."""
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(f"{text[:40]!r} has no offset from UTC")
    return text


Instant = Annotated[str, AfterValidator(_require_instant)]
"""ISO-8601 with an offset or Z: two of them have a distance."""


class Value(BaseModel):
    """Base of every value: immutable, strict about unknown fields, documented by attribute docstrings."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        defer_build=True,  # a command uses few of all values: each is made ready when it is first used
    )

    @cached_property
    def folds(self) -> dict[object, Any]:
        """What was computed of this very value, by what computed it, so that it is computed once. No part of the value."""
        return {}

    def __copy__(self) -> Self:
        """A copy of a value may be updated, so everything that it folds is computed anew."""
        copy = super().__copy__()
        copy.__dict__.pop("folds", None)
        return copy


class Artifact(Value):
    """A blob in the campaign's store, addressed by what it contains."""

    sha256: str
    name: str
    """What a person would call the file, for example `benchmark.csv`."""
    size: int


class Named(Value):
    """A measured quantity and its name; the unit is in the name."""

    name: str
    value: float


def add_up(numbers: Iterable[float]) -> float:
    """From left to right. `sum` of Python 3.12 rounds otherwise than that of 3.11, and ledgers are replayed byte for byte."""
    total = 0.0
    for number in numbers:
        total += number
    return total


class Cost(Value):
    """What something cost. Dollars are None when the price is unknown, never zero in its place."""

    tokens: int = 0
    dollars: float | None = 0.0
    gpu_seconds: float = 0.0
    command_seconds: float = 0.0
    wall_seconds: float = 0.0

    def __add__(self, addend: "Cost") -> "Cost":
        has_price = self.dollars is not None and addend.dollars is not None
        return Cost(
            tokens=self.tokens + addend.tokens,
            dollars=(self.dollars or 0.0) + (addend.dollars or 0.0) if has_price else None,
            gpu_seconds=self.gpu_seconds + addend.gpu_seconds,
            command_seconds=self.command_seconds + addend.command_seconds,
            wall_seconds=self.wall_seconds + addend.wall_seconds,
        )


class FileEdit(Value):
    """The whole new text of one file, path relative to the contract's folder. None deletes it."""

    path: str
    text: str | None


class LookUp(Value):
    """One look-up behind a proposal, as it happened: knowledge first, then the reference project, then the public web."""

    source: Literal["gpu-wiki", "ref-project", "public-web"]
    query: str
    finding: str
    """The places that it gave, best first, or that it gave none."""
    actionability: str
    """What became of it."""


class WebSearch(Value):
    """What a search of the public web printed: text of strangers, bounded, without secrets and escape sequences."""

    query: str
    text: str = ""
    failure: str = ""
    """Why there is no text, in one line."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses that a web search printed, each once, as a plan may cite them."""
        printed_addresses = re.findall(r"https?://[^\s<>\"'`)\]]+", self.text)
        return tuple(dict.fromkeys(address.rstrip(".,;:") for address in printed_addresses))


class Prediction(Value):
    """What a hypothesis says will be seen, fixed before anything is measured."""

    counter: str
    """Name of the profile counter that should move, for example `instructions`."""
    direction: Literal["down", "up"]
    ratio: float | None = None
    """Expected counter after / before, when the hypothesis dares to say."""
    speedup: float | None = None
    """Expected time before / after."""


class Parameter(Value):
    """A named number of the sources, and the values that a declared sweep may give it."""

    name: str
    values: tuple[int, ...]


class Hypothesis(Value):
    """A falsifiable claim: this change moves that counter, and so the time."""

    id: str
    """Stable identity of the direction, so that a repeated one is recognised."""
    lever: str
    """Knowledge card or free name of the lever."""
    claim: str
    """One sentence: I expect X to improve because Y."""
    change: str
    """The one change, in a few words."""
    category: Category
    bucket: Bucket
    evidence: tuple[str, ...]
    """What was measured that points here: `evidence -> inference -> action`."""
    risks: str
    verification: str
    """What would show that it worked."""
    prediction: Prediction
    target_class: str = "global"
    """Configuration class the change is for."""
    real_gain_bound: float | None = None
    """W1 only: quantisation time / step time, the most a training step can gain."""
    sweep: bool = False
    """A declared parameter sweep counts as one change."""
    tuning: Annotated[tuple[Parameter, ...], Field(exclude_if=is_empty)] = ()
    """What is swept together in this one round; empty where the edits say all of it."""
    high_risk: bool = False
    """Control flow or data layout changes: a quick measurement is not enough."""
    sources: tuple[str, ...] = ()
    """`path:line` of the knowledge it rests on."""
