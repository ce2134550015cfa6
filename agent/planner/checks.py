"""Whether a direction was tried before, whatever it is called this time."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from ridgeline.graph.briefing import Briefing
from ridgeline.graph.contract import Contract
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.trial import find_proposal
from ridgeline.graph.values import Hypothesis, Value, is_empty

# What decides whether an answer can be used, small enough to travel with its question.
#
# The planner checks an answer by these when it hears it. `ridgeline answer` checks by the very same before it stores one,
# also in a copy of the campaign's folder on a machine that has no repository: a mistake found there costs nothing.

Kind = Literal["propose", "edits", "review", "reflect"]
LISTED = 40
"""Names that a refusal lists."""
LOOKED_UP = 24
"""Files whose lengths travel with a question: enough for a task, and no walk through a large repository."""
Length = Callable[[str], int | None]
"""Path -> lines of a text that can be cited; None for what cannot."""


class EarlierTry(Value):
    """An earlier round, as far as it says whether a direction is new."""

    round: int
    hypothesis: Hypothesis
    accepted: bool
    reason: str
    beside: int = 0
    """The first of the rounds that were tried side by side with it; 0 in questions older than this field."""


class Checks(Value):
    """What an answer is checked against."""

    kind: Kind
    measured: tuple[str, ...] = ()
    """Names of what was measured, which an argument may rest on."""
    rounds: tuple[int, ...] = ()
    """Rounds that may be named."""
    classes: tuple[str, ...] = ()
    """Configuration classes of the benchmark."""
    labels: tuple[str, ...] = ()
    """Labels of the benchmark's shapes; none in questions older than this field."""
    lengths: tuple[tuple[str, int], ...] = ()
    """Path of a text file of the best version -> its lines."""
    more: bool = False
    """Whether other places can be cited, which only the campaign's own machine can look up."""
    addresses: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Of the public web, as a search printed them: these can be cited too."""
    tried: tuple[EarlierTry, ...] = ()
    diagnose: bool = False
    """Whether a rollback came last, so that each direction owes what follows from it."""
    texts: tuple[tuple[str, str], ...] = ()
    """Path -> text of the files that an edit is made of."""
    contract: Contract | None = None
    candidates: int = 1
    """Candidates that one answer has edits for."""


def of_planning(briefing: Briefing, paths: Sequence[str] = (), length: Length | None = None) -> Checks:
    """Checks of a planner's answer that proposes directions; `paths`: the best version's files, sources first; `length`: of texts.

    Without `paths` the checks are for where every file is at hand.
    """
    sizes = ((path, length(path)) for path in paths[:LOOKED_UP]) if length else ()
    return Checks(
        kind="propose",
        measured=measured_names(briefing),
        rounds=(1, *(closed.round for closed in briefing.rounds)),
        classes=tuple(dict.fromkeys(shape.config_class for shape in briefing.shapes)),
        labels=tuple(shape.label for shape in briefing.shapes),
        lengths=tuple((path, lines) for path, lines in sizes if lines is not None),
        more=len(paths) > LOOKED_UP or bool(briefing.contract.knowledge.wiki),
        addresses=briefing.web.addresses if briefing.web else (),
        tried=tuple(map(summarize_round, briefing.rounds)),
        diagnose=briefing.consecutive_rollbacks > 0,
    )


def of_edits(texts: Mapping[str, str], contract: Contract, *, candidates: int = 1) -> Checks:
    """Checks that a planner's edits of these texts have to pass."""
    return Checks(kind="edits", texts=tuple(texts.items()), contract=contract, candidates=candidates)


def measured_names(briefing: Briefing) -> tuple[str, ...]:
    """For checks of a planner's answer: what it may cite as measured: shapes, classes, benchmark columns, counters, ceilings."""
    output, scoring = briefing.contract.benchmark_output, briefing.contract.scoring
    classes = [part for shape in briefing.shapes if shape.config_class != "all" for part in _parts(shape.config_class)]
    latest_shapes = [shape.label for closed in briefing.rounds[-1:] for shape in closed.judged.verdict.shapes]
    dull = {output.label, output.check, *output.config_columns}
    all_names = (
        "bottleneck",
        briefing.target.primary_metric,
        *scoring.primary_metric,
        *(shape.label for shape in briefing.shapes),
        *latest_shapes,
        *briefing.target.target_shapes,
        *classes,
        *(counter.name for counter in (briefing.profile.counters if briefing.profile else ())),
        *(name for name in output.columns if name not in dull and len(name) > 1),
        *(spec.metric for spec in briefing.specs),
    )
    return tuple(dict.fromkeys(name for name in all_names if name.strip()))


def names(text: str, checks: Checks) -> bool:
    """Whether a planner's direction names something measured, alone or with more words; roughly written names count."""
    plain_text = _plain(text)
    if any(int(number) in checks.rounds for number in re.findall(r"\bround (\d{1,6})\b", plain_text)):
        return True
    return any(re.search(rf"\b{re.escape(_plain(name))}\b", plain_text) for name in checks.measured)


def list_measurable(checks: Checks) -> str:
    """What field `measured` of a planner's answer may name, in one bounded line."""
    more = f", and {len(checks.measured) - LISTED} more" if len(checks.measured) > LISTED else ""
    rounds = f"; `round N`, N from {checks.rounds[0]} to {checks.rounds[-1]}" if checks.rounds else ""
    return f"{', '.join(checks.measured[:LISTED])}{more}{rounds}; other words may stand beside it"


def match_class(target_class: str, classes: Sequence[str]) -> str:
    """The class in a planner's answer as the benchmark spells it: `decode` is `regime=decode` where only one class says so."""
    if target_class in classes:
        return target_class
    words = _plain(target_class)
    matches = [name for name in classes if words in (_plain(name), *map(_plain, _parts(name)))]
    return matches[0] if len(matches) == 1 else target_class


def explain_unknown_class(target_class: str, checks: Checks) -> str:
    """Why nothing measured belongs to the class that a planner's answer names, with those there are; else empty."""
    labels = {name.strip() for name in target_class.split(",")}
    if not checks.labels or target_class in ("global", *checks.classes) or labels <= set(checks.labels):
        return ""
    classes = ("global", *checks.classes)
    more = f", and {len(classes) - LISTED} more" if len(classes) > LISTED else ""
    return (
        f"target_class {target_class!r} is no class of the benchmark; give one of: {', '.join(classes[:LISTED])}{more};"
        " or labels of shapes with commas between them"
    )


def summarize_round(closed: RoundClosed) -> EarlierTry:
    """A closed round as the planner's checks see it, without what was measured in it."""
    return EarlierTry(
        round=closed.round,
        hypothesis=find_proposal(closed.judged).hypothesis,
        accepted=closed.accepted,
        reason=closed.judged.verdict.reason,
        beside=closed.beside,
    )


def _parts(config_class: str) -> list[str]:
    """For checks of a planner's answer: columns of a class such as `regime=decode, dtype=bf16`, each with its value."""
    pairs = [pair.strip() for pair in config_class.split(",")]
    return [*pairs, *(value for pair in pairs if (value := pair.partition("=")[2]) and not value.isdigit())]


def _plain(text: str) -> str:
    """Names in a planner's answer as they are compared: lower-case letters and digits, everything else a single space."""
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


ALIKE = 0.75
"""Share of common words from which two changes with the same numbers are one direction."""
MAX_TRIES = 2
"""Attempts at a direction that has never been settled."""
UNTESTED = frozenset(
    {"no_edit", "refused_edit", "no_change", "build_failed", "build_timeout", "benchmark_failed", "stopped"}
)
"""Reasons that say nothing about the direction: its code never ran to the end."""
UNRESOLVED = frozenset(
    {"noise", "undecided", "not_better", "core_regression", "class_regression", "trace_not_improved"}
)
"""Reasons that speak about one best version only; a wrong result stays wrong."""
NO_DIRECTION = "no-direction"
"""Lever of a round whose model gave no usable direction; such a round is about nothing."""
_FILLER = frozenset({"a", "an", "and", "as", "by", "for", "from", "in", "into", "of", "on", "the", "to", "use", "with"})


def find_repetition(hypothesis: Hypothesis, rounds: Sequence[EarlierTry]) -> str:
    """Why a planner's direction is not tried (again), or nothing. Knows only the rounds it is given, no masked ones.

    What was accepted is in the sources already. What failed may come back once, when its code never ran, or when
    another best version has been accepted since and the failure was about the old one.
    """
    past = [closed for closed in rounds if is_same_direction(hypothesis, closed.hypothesis)]
    if not past:
        return ""
    latest = past[-1]
    if latest.accepted:
        return f"round {latest.round} was this direction and was accepted; its change is in the sources"
    reason = latest.reason
    why = f"round {latest.round} was this direction and was rolled back ({reason})"
    if len(past) >= MAX_TRIES:
        return f"{why}, and it had {len(past)} rounds"
    if reason in UNTESTED or reason == "outpaced":
        return ""
    if reason not in UNRESOLVED:
        return why
    if not any(
        closed.accepted and (closed.beside or closed.round) >= (latest.beside or latest.round) for closed in rounds
    ):
        return f"{why}; the best version is still the same"
    return ""


def is_same_direction(left: Hypothesis, right: Hypothesis) -> bool:
    """Whether two hypotheses of planners are one direction: the same numbers, the same class, the same name or words."""
    if NO_DIRECTION in (left.lever, right.lever) or left.target_class != right.target_class:
        return False
    if left.change.split() == right.change.split():
        return True
    if _numbers(left) != _numbers(right):
        return False
    return left.id == right.id or _are_alike(_words(left), _words(right))


def _numbers(hypothesis: Hypothesis) -> set[str]:
    """Numbers in the change of a planner's direction, as written."""
    return set(re.findall(r"\d+", hypothesis.change))


def _words(hypothesis: Hypothesis) -> frozenset[str]:
    """Words and numbers in the change of a planner's direction, without filler."""
    words = re.findall(r"[a-z]+|\d+", hypothesis.change.lower())
    return frozenset(word for word in words if word not in _FILLER)


def _are_alike(left: frozenset[str], right: frozenset[str]) -> bool:
    """Whether two directions of planners are alike: their words have at least `ALIKE` of all of them in common."""
    return bool(left | right) and len(left & right) / len(left | right) >= ALIKE
