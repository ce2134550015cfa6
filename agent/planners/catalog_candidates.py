"""Which levers can be pulled now: every card and variant that applies to the best version's sources."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ridgeline.graph.briefing import Briefing
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.trial import proposed
from ridgeline.graph.values import Hypothesis
from ridgeline.knowledge.cards import Card, Needs, Variant
from ridgeline.knowledge.rewrite import apply, code
from ridgeline.knowledge.steps import Constant, Edit
from ridgeline.knowledge.sweeps import neighbours, settings

MAX_TRIES = 2
"""A lever that could not be resolved is tried this often at most, each time on another best version."""
UNRESOLVED = frozenset(
    {"noise", "undecided", "not_better", "core_regression", "class_regression", "trace_not_improved"}
)
"""Reasons that speak about this version only; a wrong or unbuildable lever stays wrong."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A lever with its variant, whose requirements are met. Whether it changes anything its `texts` say."""

    id: str
    card: Card
    variant: Variant | None
    change: str
    expected: float
    edits: tuple[Edit, ...]
    sources: tuple[tuple[str, str], ...]
    flags_file: str | None = None
    target: tuple[str, int] | None = None
    """The value of a swept constant."""

    @property
    def texts(self) -> Mapping[str, str]:
        """What the edits make of the sources: the files that change; empty where they find nothing to change."""
        return _tried(self.edits, self.sources, self.flags_file, self.target) or {}


@dataclass(frozen=True, kw_only=True)
class Drop:
    """A lever that is out, and why."""

    lever: str
    why: str


def texts(briefing: Briefing) -> dict[str, str]:
    """The best version's editable files."""
    return {edit.path: edit.text for edit in briefing.sources if edit.text is not None}


def of_language(cards: tuple[Card, ...], briefing: Briefing) -> tuple[Card, ...]:
    """Cards for the target's language and operator that carry their edits; one that only describes needs a model."""
    words = {briefing.target.target_lang.lower(), briefing.target.target_backend.lower()}
    return tuple(
        card
        for card in cards
        if card.edits
        and words & set(card.langs)
        and ("any" in card.ops or any(op in briefing.target.target_op for op in card.ops))
    )


def candidates(card: Card, briefing: Briefing) -> Iterator[Candidate | Drop]:
    """Every variant of a card that may be tried now; a drop where a requirement fails."""
    sources = texts(briefing)
    why = unmet(card.requires, briefing, sources=sources) or excluded(card.excludes, briefing, sources=sources)
    if why:
        yield Drop(lever=card.id, why=why)
        return
    if any(isinstance(edit, Constant) for edit in card.edits):
        yield from _swept(card, briefing, sources)
        return
    for variant in card.variants or (None,):
        name = card.id if variant is None else f"{card.id}:{variant.id}"
        why = unmet(variant.requires, briefing, sources=sources) if variant else ""
        if why:
            yield Drop(lever=name, why=why)
            continue
        edits = card.edits_of(variant)
        yield Candidate(
            id=name,
            card=card,
            variant=variant,
            change=card.change if variant is None else f"{card.change} ({variant.id})",
            expected=variant.expected_speedup if variant and variant.expected_speedup else card.expected_speedup,
            edits=edits,
            sources=tuple(sources.items()),
            flags_file=briefing.contract.flags_file,
        )


@lru_cache(maxsize=512)
def _tried(
    edits: tuple[Edit, ...],
    sources: tuple[tuple[str, str], ...],
    flags_file: str | None,
    target: tuple[str, int] | None,
) -> Mapping[str, str] | None:
    """What the edits make of the sources: most rounds are rolled back, and then nothing has changed since the last."""
    return apply(edits, dict(sources), flags_file=flags_file, target=dict((target,) if target else ()))


def _swept(card: Card, briefing: Briefing, sources: Mapping[str, str]) -> Iterator[Candidate]:
    """Each constant one step along its ladder, never back to a value that was left or tried."""
    programs = {path: text for path, text in sources.items() if code(path)}
    known = {
        (match["name"], int(value))
        for closed in briefing.rounds
        if hypothesis_of(closed).lever == card.id
        and (match := re.match(r"(?P<name>\w+) from (?P<old>\d+) to (?P<new>\d+)", hypothesis_of(closed).change))
        for value in (match["old"], match["new"])
    }
    for step in (edit for edit in card.edits if isinstance(edit, Constant)):
        for setting in settings(step, programs):
            for value in neighbours(step, setting.value):
                if (setting.name, value) not in known:
                    yield Candidate(
                        id=f"{card.id}:{setting.name}={value}",
                        card=card,
                        variant=None,
                        change=f"{setting.name} from {setting.value} to {value}",
                        expected=card.expected_speedup,
                        edits=(step,),
                        sources=tuple(programs.items()),
                        target=(setting.name, value),
                    )


def unmet(needs: Needs, briefing: Briefing, *, sources: Mapping[str, str]) -> str:
    """Why a requirement fails, or nothing."""
    machine = briefing.machine
    if missing := sorted(set(needs.cpu_all) - set(machine.features)):
        return f"needs {', '.join(missing)}, which this machine lacks"
    if needs.cpu_any and not set(needs.cpu_any) & set(machine.features):
        return f"needs one of {', '.join(needs.cpu_any)}"
    if needs.arch and not re.match(needs.arch, machine.arch):
        return f"needs an architecture {needs.arch}*, this is {machine.arch}"
    if briefing.contract.threads <= needs.threads_over:
        return f"needs more than {needs.threads_over} thread(s), the contract grants {briefing.contract.threads}"
    if needs.flags_file is not None and needs.flags_file != _has_flags(briefing, sources):
        return "needs a flags file" if needs.flags_file else "is for builds without a flags file"
    if needs.flags and not re.search(needs.flags, _flags(briefing, sources)):
        return f"needs compiler flags like {needs.flags}"
    if needs.pattern and not _in_code(needs.pattern, sources):
        return "the sources have nothing it could work on"
    return ""


def excluded(excludes: Needs, briefing: Briefing, *, sources: Mapping[str, str]) -> str:
    """Why a lever is pointless here, or nothing."""
    if excludes.flags and re.search(excludes.flags, _flags(briefing, sources)):
        return "the compiler flags do it already"
    if excludes.pattern and _in_code(excludes.pattern, sources):
        return "the sources have it already"
    if excludes.arch and re.match(excludes.arch, briefing.machine.arch):
        return f"not for {briefing.machine.arch}"
    return ""


def barred(candidate: Candidate, rounds: tuple[RoundClosed, ...]) -> str:
    """Why a lever that was tried before is not tried again, or nothing."""
    past = [closed for closed in rounds if hypothesis_of(closed).id == candidate.id]
    if not past:
        return ""
    last = past[-1]
    if last.accepted:
        return f"accepted in round {last.round}"
    if not candidate.card.retry or last.judged.verdict.reason not in UNRESOLVED or len(past) >= MAX_TRIES:
        return f"rolled back in round {last.round}: {last.judged.verdict.reason}"
    if not any(closed.accepted and closed.round > last.round for closed in rounds):
        return f"rolled back in round {last.round}: {last.judged.verdict.reason}; the best version is still the same"
    return ""


def hypothesis_of(closed: RoundClosed) -> Hypothesis:
    """What a round was about."""
    return proposed(closed.judged).hypothesis


def _has_flags(briefing: Briefing, sources: Mapping[str, str]) -> bool:
    return briefing.contract.flags_file in sources


def _flags(briefing: Briefing, sources: Mapping[str, str]) -> str:
    """The flags file and what pragmas say."""
    pragmas = [line for text in sources.values() for line in text.splitlines() if line.startswith("#pragma GCC")]
    return "\n".join([sources.get(briefing.contract.flags_file or "", ""), *pragmas])


def _in_code(pattern: str, sources: Mapping[str, str]) -> bool:
    return any(re.search(pattern, text) for path, text in sources.items() if code(path))
