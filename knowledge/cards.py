"""Knowledge cards: one lever per Markdown file, described in its YAML front matter, often with the edits themselves."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ridgeline.knowledge.steps import Edit, Flags, Substitute
from ridgeline.knowledge.yaml_text import NotYaml, read_yaml

CARDS = Path(__file__).parent / "cards"
CATEGORIES = ("tile", "layout", "pipelining", "occupancy", "backend", "algorithm", "compiler")
"""The same words as `ridgeline.graph.values.Category`; a test keeps the two together."""
Category = Literal["tile", "layout", "pipelining", "occupancy", "backend", "algorithm", "compiler"]
Bottleneck = Literal["compute", "memory", "latency", "resource", "launch", "unknown"]
Language = Literal["c", "hip", "cuda", "triton", "ck", "flydsl", "cutedsl", "python"]


class CardError(ValueError):
    """A card that cannot be used; the message names the file and the field."""


class Model(BaseModel):
    """Base of a card's parts: immutable, strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Needs(Model):
    """What must hold for a lever to be worth proposing; every empty field holds."""

    cpu_all: tuple[str, ...] = ()
    cpu_any: tuple[str, ...] = ()
    arch: str = ""
    """Regular expression at the start of the machine's architecture, for example `gfx9`."""
    threads_over: int = 0
    """The contract grants more threads than this."""
    flags_file: bool | None = None
    """Whether the contract names a flags file."""
    pattern: str = ""
    """Regular expression found in a source file."""
    flags: str = ""
    """Regular expression found in the flags file or in an optimisation pragma."""


class Variant(Model):
    """One value of the lever; its parameters fill `%{name}` in the edits."""

    id: str = Field(pattern=r"^[\w.+-]+$")
    params: dict[str, str] = Field(default_factory=dict)
    expected_speedup: float | None = None
    requires: Needs = Needs()


class Fallback(Model):
    """A weaker form of the lever, for a candidate that built wrong or came out wrong."""

    why: str
    edits: tuple[Edit, ...] = Field(min_length=1)


class PredictedCounter(Model):
    """The counter that the lever moves."""

    counter: str
    direction: Literal["down", "up"]
    ratio: float | None = Field(default=None, gt=0)
    """Counter after / before."""


class Example(Model):
    """A source the lever applies to, and text that the result must contain."""

    path: str = "kernel.c"
    before: str
    after: tuple[str, ...] = Field(min_length=1)
    flags: str | None = None
    """Contents of the flags file; None when the example has none."""


class Card(Model):
    """One lever."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    title: str
    langs: tuple[Language, ...] = Field(min_length=1)
    ops: tuple[str, ...] = ("any",)
    """Words, one of which must be in the operator's name; `any` for every operator."""
    gpus: tuple[str, ...] = ()
    """Architectures the lever is for, for example gfx942; empty for every one that `requires` allows."""
    category: Category
    bucket: Literal["K1", "K2", "K3"]
    bottlenecks: tuple[Bottleneck, ...] = Field(min_length=1)
    because: str
    """Ends the sentence: I expect X to improve because ..."""
    change: str
    prediction: PredictedCounter
    counters: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """More counters or instruction-mix facts that confirm it, in the spelling of the tool that reports them."""
    expected_speedup: float = Field(default=1.0, ge=1, le=20)
    """Time before / after that ranks the lever; from `measured_on` where that says so; 1 where nobody measured."""
    risks: str
    verification: str
    requires: Needs = Needs()
    excludes: Needs = Needs()
    """The lever is pointless or wrong where any given field of this holds."""
    high_risk: bool = False
    sweep: bool = False
    retry: bool = False
    """Worth trying again after another change was accepted."""
    sources: tuple[str, ...] = Field(min_length=1)
    measured_on: str = ""
    edits: tuple[Edit, ...] = ()
    """Empty for a lever that is only described: a language model reads it, the catalog planner skips it."""
    variants: tuple[Variant, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    example: Example | None = None
    path: str
    """Of the card, relative to the project, for citation."""
    body: str
    """Applies when, how, pitfalls."""

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        ids = [variant.id for variant in self.variants]
        if len(ids) != len(set(ids)):
            raise ValueError("variants: two have the same id")
        for heading in ("## Applies when", "## How", "## Pitfalls"):
            if heading not in self.body:
                raise ValueError(f"body: heading {heading!r} is missing")
        return self

    @model_validator(mode="after")
    def _carried_out_or_described(self) -> Self:
        """Edits come with the example that tests them and the gain that ranks them; a description has neither."""
        if self.edits:
            for field in ("example", "expected_speedup"):
                if field not in self.model_fields_set:
                    raise ValueError(f"{field} is missing; a card with edits needs it")
            return self
        for field in ("example", "variants", "fallbacks"):
            if getattr(self, field):
                raise ValueError(f"{field} is given without edits; add the edits or leave it out")
        return self

    def edits_of(self, variant: Variant | None) -> tuple[Edit, ...]:
        """The edits with a variant's parameters filled in."""
        return fill_edits(self.edits, variant.params if variant else {})


def fill_edits(edits: tuple[Edit, ...], params: Mapping[str, str]) -> tuple[Edit, ...]:
    """A card's edits with every `%{name}` replaced; texts only, numbers have none."""

    def fill(text: str) -> str:
        return re.sub(r"%\{(\w+)\}", lambda m: params[m.group(1)], text)

    out: list[Edit] = []
    for edit in edits:
        if isinstance(edit, Substitute):
            cases = tuple(c.model_copy(update={"replace": fill(c.replace), "find": fill(c.find)}) for c in edit.cases)
            out.append(edit.model_copy(update={"cases": cases}))
        elif isinstance(edit, Flags):
            new = {"add": tuple(fill(flag) for flag in edit.add), "pragma": fill(edit.pragma)}
            out.append(edit.model_copy(update=new))
        elif edit.kind in ("insert", "pragma_loop", "decorator"):
            out.append(edit.model_copy(update={"text": fill(edit.text)}))
        else:
            out.append(edit)
    return tuple(out)


@cache
def load(folder: Path = CARDS) -> tuple[Card, ...]:
    """All knowledge cards of a folder, by path. Raises CardError naming file and field for the first one that is wrong."""
    cards = tuple(read_card(path, folder) for path in sorted(folder.rglob("*.md")))
    path_by_id: dict[str, str] = {}
    for card in cards:
        if card.id in path_by_id:
            raise CardError(f"{card.path}: id: {card.id} is also in {path_by_id[card.id]}")
        path_by_id[card.id] = card.path
    return cards


def read_card(path: Path, folder: Path = CARDS) -> Card:
    """One knowledge card. Raises CardError with the file and the field."""
    place = f"knowledge/{folder.name}/{path.relative_to(folder).as_posix()}"
    return parse(path.read_text(encoding="utf-8"), place)


def parse(text: str, place: str) -> Card:
    """The knowledge card that a text holds; `place` is the path it is cited by. Raises CardError with the place and the field."""
    parts = re.match(r"---\n(.*?)\n---\n(.*)", text, re.S)
    if parts is None:
        raise CardError(f"{place}: front matter: must stand between two lines of ---")
    try:
        fields = read_yaml(parts.group(1))
    except NotYaml as error:
        raise CardError(f"{place}: front matter: {error}") from error
    if not isinstance(fields, dict):
        raise CardError(f"{place}: front matter: must be a mapping")
    try:
        return Card(**fields, path=place, body=parts.group(2).strip())
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"]) or "card"
        raise CardError(f"{place}: {field}: {problem['msg']}") from error
