"""The machine-readable edits a card may hold: one model per kind, told apart by `kind`."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Step(BaseModel):
    """Base of the edit kinds: immutable, strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Flags(Step):
    """Compiler flags into the flags file; without one, the pragma at the top of each C source, if it has one."""

    kind: Literal["flags"] = "flags"
    add: tuple[str, ...]
    """Flags; one of the same family (-O2 and -O3, -march=a and -march=b) is replaced."""
    pragma: str = ""
    """For example `#pragma GCC optimize("O3")`; empty where no pragma does the same."""


class Insert(Step):
    """Text put into a source once; where it already stands nothing changes."""

    kind: Literal["insert"] = "insert"
    where: Literal["top", "after_includes", "before"]
    text: str
    match: str = ""
    """Regular expression of the line that the text goes before; `before` only."""
    only_if: str = ""
    """Regular expression that a source must contain to be touched."""


class Case(Step):
    """One spelling of a rewrite."""

    find: str
    replace: str
    where: tuple[str, ...] = ()
    """Conditions on the holes, see `ridgeline.knowledge.pattern.holds`."""


class Substitute(Step):
    """Structural search and replace; the first case that matches a source is applied to it."""

    kind: Literal["substitute"] = "substitute"
    cases: tuple[Case, ...] = Field(min_length=1)
    count: Literal["first", "all"] = "all"
    within: str = ""
    """Python only: regular expression of the decorator whose functions may be touched."""


class Constant(Step):
    """A named number moved one step along a ladder."""

    kind: Literal["constant"] = "constant"
    names: str
    """Regular expression that the whole name must match."""
    form: Literal["define", "assigned", "keyword"]
    """define: #define, const, constexpr of C. assigned: a name or default in Python. keyword: an argument of a call."""
    ladder: tuple[int, ...] = Field(min_length=2)
    missing: int | None = None
    """keyword only: the value that a kernel launch without the argument has; then the argument is added."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if list(self.ladder) != sorted(set(self.ladder)):
            raise ValueError("ladder must rise")
        return self


class LoopPragma(Step):
    """A line put directly before loops that carry no pragma yet."""

    kind: Literal["pragma_loop"] = "pragma_loop"
    text: str
    loops: Literal["innermost", "outermost"] = "innermost"


class Restrict(Step):
    """The pointer parameters of functions with two or more of them promised not to overlap."""

    kind: Literal["restrict"] = "restrict"


class Decorator(Step):
    """A line put before function definitions whose decorator or first line matches."""

    kind: Literal["decorator"] = "decorator"
    text: str
    above: str
    """Regular expression, matched at the start of a line (after blanks)."""


Edit = Annotated[
    Flags | Insert | Substitute | Constant | LoopPragma | Restrict | Decorator, Field(discriminator="kind")
]
AnyEdit = Flags | Insert | Substitute | Constant | LoopPragma | Restrict | Decorator
