"""Whether a direction was tried before, whatever it is called this time."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from ridgeline.graph.briefing import Briefing
from ridgeline.graph.contract import Contract
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.trial import find_proposal
from ridgeline.graph.values import Hypothesis, Value

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


class Tried(Value):
    """An earlier round, as far as it says whether a direction is new."""

    round: int
    hypothesis: Hypothesis
    accepted: bool
    reason: str


class Checks(Value):
    """What an answer is checked against."""

    kind: Kind
    measured: tuple[str, ...] = ()
    """Names of what was measured, which an argument may rest on."""
    rounds: tuple[int, ...] = ()
    """Rounds that may be named."""
    classes: tuple[str, ...] = ()
    """Configuration classes of the benchmark."""
    lengths: tuple[tuple[str, int], ...] = ()
    """Path of a text file of the best version -> its lines."""
    more: bool = False
    """Whether other places can be cited, which only the campaign's own machine can look up."""
    tried: tuple[Tried, ...] = ()
    diagnose: bool = False
    """Whether a rollback came last, so that each direction owes what follows from it."""
    texts: tuple[tuple[str, str], ...] = ()
    """Path -> text of the files that an edit is made of."""
    contract: Contract | None = None


def of_planning(briefing: Briefing, paths: Sequence[str] = (), length: Length | None = None) -> Checks:
    """Checks of proposed directions; `paths` are the best version's files, sources first, of which texts have a length.

    Without `paths` the checks are for where every file is at hand.
    """
    sizes = ((path, length(path)) for path in paths[:LOOKED_UP]) if length else ()
    return Checks(
        kind="propose",
        measured=measured_names(briefing),
        rounds=(1, *(closed.round for closed in briefing.rounds)),
        classes=tuple(dict.fromkeys(shape.config_class for shape in briefing.shapes)),
        lengths=tuple((path, lines) for path, lines in sizes if lines is not None),
        more=len(paths) > LOOKED_UP or bool(briefing.contract.knowledge.wiki),
        tried=tuple(map(summarize_round, briefing.rounds)),
        diagnose=briefing.consecutive_rollbacks > 0,
    )


def of_edits(texts: Mapping[str, str], contract: Contract) -> Checks:
    """Checks of edits of these texts."""
    return Checks(kind="edits", texts=tuple(texts.items()), contract=contract)


def measured_names(briefing: Briefing) -> tuple[str, ...]:
    """Names of what was measured: shapes, their classes, columns of the benchmark, counters, ceilings."""
    output, scoring = briefing.contract.benchmark_output, briefing.contract.scoring
    classes = [part for shape in briefing.shapes if shape.config_class != "all" for part in _parts(shape.config_class)]
    last = [shape.label for closed in briefing.rounds[-1:] for shape in closed.judged.verdict.shapes]
    dull = {output.label, output.check, *output.config_columns}
    named = (
        "bottleneck",
        briefing.target.primary_metric,
        *scoring.primary_metric,
        *(shape.label for shape in briefing.shapes),
        *last,
        *briefing.target.target_shapes,
        *classes,
        *(counter.name for counter in (briefing.profile.counters if briefing.profile else ())),
        *(name for name in output.columns if name not in dull and len(name) > 1),
        *(spec.metric for spec in briefing.specs),
    )
    return tuple(dict.fromkeys(name for name in named if name.strip()))


def names(text: str, checks: Checks) -> bool:
    """Whether the text names something that was measured, alone or with more words; roughly written names count."""
    said = _plain(text)
    if any(int(number) in checks.rounds for number in re.findall(r"\bround (\d{1,6})\b", said)):
        return True
    return any(re.search(rf"\b{re.escape(_plain(name))}\b", said) for name in checks.measured)


def list_measurable(checks: Checks) -> str:
    """What `measured` may name, in one bounded line."""
    more = f", and {len(checks.measured) - LISTED} more" if len(checks.measured) > LISTED else ""
    last = f"; `round N`, N from {checks.rounds[0]} to {checks.rounds[-1]}" if checks.rounds else ""
    return f"{', '.join(checks.measured[:LISTED])}{more}{last}; other words may stand beside it"


def meant(target_class: str, classes: Sequence[str]) -> str:
    """The class as the benchmark spells it: `decode` is `regime=decode` where only one class says so."""
    if target_class in classes:
        return target_class
    wanted = _plain(target_class)
    found = [name for name in classes if wanted in (_plain(name), *map(_plain, _parts(name)))]
    return found[0] if len(found) == 1 else target_class


def summarize_round(closed: RoundClosed) -> Tried:
    """A closed round, without what was measured in it."""
    return Tried(
        round=closed.round,
        hypothesis=find_proposal(closed.judged).hypothesis,
        accepted=closed.accepted,
        reason=closed.judged.verdict.reason,
    )


def _parts(config_class: str) -> list[str]:
    """The values of a class such as `regime=decode, dtype=bf16`, and each with its column."""
    pairs = [pair.strip() for pair in config_class.split(",")]
    return [*pairs, *(value for pair in pairs if (value := pair.partition("=")[2]) and not value.isdigit())]


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


ALIKE = 0.75
"""Share of common words from which two changes with the same numbers are one direction."""
MAX_TRIES = 2
"""Attempts at a direction that has never been settled."""
UNTESTED = frozenset({"no_edit", "refused_edit", "no_change", "build_failed", "build_timeout", "benchmark_failed"})
"""Reasons that say nothing about the direction: its code never ran to the end."""
UNRESOLVED = frozenset(
    {"noise", "undecided", "not_better", "core_regression", "class_regression", "trace_not_improved"}
)
"""Reasons that speak about one best version only; a wrong result stays wrong."""
NO_DIRECTION = "no-direction"
"""Lever of a round whose model gave no usable direction; such a round is about nothing."""
_FILLER = frozenset({"a", "an", "and", "as", "by", "for", "from", "in", "into", "of", "on", "the", "to", "use", "with"})


def find_repetition(hypothesis: Hypothesis, rounds: Sequence[Tried]) -> str:
    """Why a direction is not tried (again), or nothing. Knows only the rounds it is given: masked ones count nothing.

    What was accepted is in the sources already. What failed may come back once, when its code never ran, or when
    another best version has been accepted since and the failure was about the old one.
    """
    past = [closed for closed in rounds if same(hypothesis, closed.hypothesis)]
    if not past:
        return ""
    last = past[-1]
    if last.accepted:
        return f"round {last.round} was this direction and was accepted; its change is in the sources"
    reason = last.reason
    why = f"round {last.round} was this direction and was rolled back ({reason})"
    if len(past) >= MAX_TRIES:
        return f"{why}, and it had {len(past)} rounds"
    if reason in UNTESTED:
        return ""
    if reason not in UNRESOLVED:
        return why
    if not any(closed.accepted and closed.round > last.round for closed in rounds):
        return f"{why}; the best version is still the same"
    return ""


def same(one: Hypothesis, other: Hypothesis) -> bool:
    """Whether two hypotheses are one direction: the same numbers for the same class, and the same name or words."""
    if NO_DIRECTION in (one.lever, other.lever) or one.target_class != other.target_class:
        return False
    if one.change.split() == other.change.split():
        return True
    if _numbers(one) != _numbers(other):
        return False
    return one.id == other.id or _alike(_words(one), _words(other))


def _numbers(hypothesis: Hypothesis) -> set[str]:
    return set(re.findall(r"\d+", hypothesis.change))


def _words(hypothesis: Hypothesis) -> frozenset[str]:
    found = re.findall(r"[a-z]+|\d+", hypothesis.change.lower())
    return frozenset(word for word in found if word not in _FILLER)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one | other) and len(one & other) / len(one | other) >= ALIKE
