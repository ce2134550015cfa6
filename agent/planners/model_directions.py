"""Directions out of a model's answer: validated, checked against the rules, and made into hypotheses."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ridgeline.agent.planners.model_checks import Checks, accepted, meant, names
from ridgeline.agent.planners.model_fit import clipped
from ridgeline.agent.planners.model_novelty import NO_DIRECTION, repeated, same
from ridgeline.agent.planners.model_parse import Wrong, json_of
from ridgeline.graph.policy.change import forbidden, single_change
from ridgeline.graph.values import Bucket, Category, Hypothesis, Prediction, Value

LONGEST = 600
"""Characters of one field that are kept."""
MOST = 12
"""Directions of one answer that are looked at."""
Unresolved = Callable[[str], str]
"""Citation -> why it does not resolve, or nothing."""


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Something, and not only blanks."""


class Answer(BaseModel):
    """Base of what a model sends: unknown fields are dropped, known ones must be right."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True, allow_inf_nan=False)


class Step(Answer):
    """One step of the argument."""

    measured: Text
    """What was measured: a shape, a column of the benchmark, a counter, `bottleneck` or `round N`."""
    evidence: Text
    """What it showed."""
    inference: Text
    """What follows from it."""
    action: Text
    """What is therefore to be done."""


class Predicted(Answer):
    """What is expected to be seen."""

    counter: Text
    """Name of the counter that moves."""
    direction: Literal["down", "up"]
    ratio: float | None = Field(default=None, gt=0)
    """Counter after / before."""
    speedup: float | None = Field(default=None, gt=0)
    """Time before / after."""


class Direction(Answer):
    """One thing that could be tried, with the answers that it owes."""

    id: Text
    """Short stable name, words joined by hyphens."""
    lever: Text
    """Knowledge card or free name of the lever."""
    bottleneck: Text
    """What limits the kernel now."""
    claim: Text
    """One sentence: I expect X to improve because Y."""
    change: Text
    """The one change, in a few words."""
    benefit: Text
    """Expected benefit, with a number where one can be given."""
    risks: Text
    verification: Text
    """The signal that would show that it worked."""
    bucket: Bucket
    """Rule 11."""
    real_gain: Text
    """Expected gain in real use: for K1 to K4 that of the benchmark, for W1 its bound."""
    real_gain_bound: float | None = None
    """W1 only: quantisation time / step time."""
    category: Category
    evidence: tuple[Step, ...] = Field(min_length=1)
    citations: tuple[str, ...] = Field(min_length=1)
    """`path:line` of a source or of the knowledge, each of which exists."""
    prediction: Predicted
    target_class: str = "global"
    """Configuration class that the change is for, and its prediction is about."""
    sweep: bool = False
    """A declared sweep of one parameter's values."""
    high_risk: bool = False
    """Control flow or data layout changes."""
    diagnosis: str = ""
    """After a rollback: how this follows from the diagnosis of it."""


class Directions(Answer):
    """The whole answer, best direction first."""

    directions: tuple[Direction, ...]
    exhausted: str = ""
    """Why nothing is left to try, when the list is empty."""


class Chosen(Value):
    """What an answer leaves to try, best first, and what was dropped."""

    hypotheses: tuple[Hypothesis, ...]
    dropped: tuple[str, ...]
    exhausted: str = ""


def checked(answer: str, checks: Checks, unresolved: Unresolved) -> Chosen | Wrong:
    """The directions that may be tried. Wrong when there is none, and when nothing says that none is left."""
    found = json_of(answer)
    if isinstance(found, Wrong):
        return found
    given, exhausted = _list(found)
    if not given:
        if exhausted:
            return Chosen(hypotheses=(), dropped=(), exhausted=exhausted)
        return Wrong(why="`directions` is missing or empty, and `exhausted` does not say why nothing is left")
    kept: list[Hypothesis] = []
    dropped: list[str] = []
    for number, item in enumerate(given[:MOST], start=1):
        direction = _direction(item)
        if isinstance(direction, Wrong):
            dropped.append(f"direction {number}: {direction.why}")
            continue
        asked = hypothesis(direction, checks.classes)
        why = _barred(direction, asked, checks, unresolved)
        why = why or ("repeats a better ranked direction" if any(same(asked, other) for other in kept) else "")
        if why:
            dropped.append(f"{asked.id}: {why}")
        else:
            kept.append(asked)
    if not kept:
        return Wrong(why="\n".join(("no direction can be used:", *dropped)))
    return Chosen(hypotheses=tuple(kept), dropped=tuple(dropped))


def hypothesis(direction: Direction, classes: Sequence[str] = ()) -> Hypothesis:
    """The direction as the loop knows it, every text bounded and on one line; its class as `classes` spell it."""
    steps = tuple(
        f"{short(step.measured)}: {short(step.evidence)} -> {short(step.inference)} -> {short(step.action)}"
        for step in direction.evidence
    )
    told = (f"diagnosis -> {short(direction.diagnosis)}",) if direction.diagnosis.strip() else ()
    return Hypothesis(
        id=slug(direction.id) or slug(direction.change) or "unnamed",
        lever=slug(direction.lever) or slug(direction.id) or "unnamed",
        claim=short(direction.claim),
        change=short(direction.change),
        category=direction.category,
        bucket=direction.bucket,
        evidence=(f"bottleneck: {short(direction.bottleneck)}", *steps, *told),
        risks=short(direction.risks),
        verification=short(direction.verification),
        prediction=Prediction(**direction.prediction.model_dump()),
        target_class=meant(short(direction.target_class), classes) or "global",
        real_gain_bound=direction.real_gain_bound,
        sweep=direction.sweep,
        high_risk=direction.high_risk,
        sources=tuple(cited(citation) for citation in direction.citations),
    )


def none_usable(round: int, why: str) -> Hypothesis:
    """What a round is recorded as whose model gave no usable direction: nothing was tried, and nothing is claimed."""
    return Hypothesis(
        id=f"{NO_DIRECTION}-{round}",
        lever=NO_DIRECTION,
        claim="No hypothesis: the model's answers could not be used.",
        change="none",
        category="algorithm",
        bucket="K1",
        evidence=(f"the answers: {short(why)}",),
        risks="none: nothing is changed",
        verification="none: nothing is measured",
        prediction=Prediction(counter="none", direction="down"),
    )


def short(text: str) -> str:
    """One bounded line."""
    return clipped(text, LONGEST)


def slug(text: str) -> str:
    """Lower-case words joined by hyphens, colons and equal signs kept: at most 60 characters."""
    return re.sub(r"[^a-z0-9:=._]+", "-", text.lower()).strip("-")[:60].strip("-")


def cited(citation: str) -> str:
    """A citation in its plain form."""
    return citation.strip().strip("`[]()\"'").removeprefix("./")


def _list(found: Any) -> tuple[list[Any], str]:
    """The directions of an answer that is an object, a bare list, or one bare direction; and what else it says."""
    if isinstance(found, list):
        return found, ""
    if "directions" not in found and "change" in found:
        return [found], ""
    given, exhausted = found.get("directions"), found.get("exhausted")
    return (given if isinstance(given, list) else []), (short(exhausted) if isinstance(exhausted, str) else "")


def _direction(item: Any) -> Direction | Wrong:
    try:
        return Direction.model_validate(item)
    except ValidationError as error:
        return Wrong(why=complaint(error))


def complaint(error: ValidationError) -> str:
    """What is wrong with which field, in one line."""
    parts = [f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}" for one in error.errors()]
    more = f" and {len(parts) - 6} more" if len(parts) > 6 else ""
    return "; ".join(parts[:6]) + more


def _barred(direction: Direction, asked: Hypothesis, checks: Checks, unresolved: Unresolved) -> str:
    """The first rule that drops a direction, decided by code whatever the model says of it."""
    if why := forbidden(asked) or single_change(asked) or repeated(asked, checks.tried):
        return why
    if not any(names(step.measured, checks) for step in direction.evidence):
        return f"cites no measurement; `measured` must name one of: {accepted(checks)}"
    if checks.diagnose and not direction.diagnosis.strip():
        return "says nothing in `diagnosis` about the last rollback"
    for citation in direction.citations:
        if why := unresolved(cited(citation)):
            return f"citation {short(citation)!r}: {why}"
    return ""
