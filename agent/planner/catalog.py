"""The planner without a model: levers from the knowledge cards, each with its machine-readable edits."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from itertools import islice
from typing import get_args

from ridgeline.agent.planner.scope import Files, Scope, find_scope, read_task
from ridgeline.graph.briefing import Briefing, Draft, Proposal, Review
from ridgeline.graph.contract import Contract
from ridgeline.graph.record import PredictionCheck, Reflection, RoundClosed
from ridgeline.graph.rules import lessons as predict
from ridgeline.graph.rules.change import explain_forbidden
from ridgeline.graph.rules.outcome import describe_gain, describe_worst_shape, explain_failure
from ridgeline.graph.trial import Broken, Built, Failed, Judged, Traced, find, find_proposal
from ridgeline.graph.values import Category, FileEdit, Hypothesis, LookUp, Parameter, Prediction
from ridgeline.knowledge.cards import Card, Needs, Variant, fill_edits, load
from ridgeline.knowledge.rewrite import apply, code, list_pieces, where_first
from ridgeline.knowledge.source import line_of
from ridgeline.knowledge.steps import Constant, Edit, Flags, Insert
from ridgeline.knowledge.sweeps import neighbours, settings
from ridgeline.sandbox.audit.relaxed_math import list_options
from ridgeline.sandbox.judge.worker import FLAGS

# Which levers can be pulled now: every card and variant that applies to the best version's sources.

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
    only: frozenset[str] | None = None
    """Names of the definitions that it may change; None for all of a file."""
    tuning: tuple[Parameter, ...] = ()
    """Constants that are swept together in one round; then `target` is where the sweep begins."""

    @property
    def texts(self) -> Mapping[str, str]:
        """What a catalog card's edits make of the sources: the files that change; empty where they find nothing to change."""
        return _apply_to_sources(self.edits, self.sources, self.flags_file, self.target, self.only) or {}


@dataclass(frozen=True, kw_only=True)
class Drop:
    """A lever that is out, and why."""

    lever: str
    why: str


def texts(briefing: Briefing) -> dict[str, str]:
    """For the catalog: texts of the best version's editable files."""
    return {edit.path: edit.text for edit in briefing.sources if edit.text is not None}


def of_language(cards: tuple[Card, ...], briefing: Briefing) -> tuple[Card, ...]:
    """The catalog's cards for the target's language and operator that carry their edits; one that only describes needs a model."""
    words = {briefing.target.target_lang.lower(), briefing.target.target_backend.lower()}
    return tuple(
        card
        for card in cards
        if card.edits
        and words & set(card.langs)
        and ("any" in card.ops or any(op in briefing.target.target_op for op in card.ops))
    )


def narrow(sources: Mapping[str, str], scope: Scope | None) -> Mapping[str, str]:
    """The sources that the catalog edits, of code only what is timed: where another function has a pattern, the timed one need not."""
    only = scope.names if scope else None
    if only is None:
        return sources
    return {
        path: "\n".join(piece for _, piece in list_pieces(path, text, only)) if code(path) else text
        for path, text in sources.items()
    }


def candidates(
    card: Card, briefing: Briefing, scope: Scope | None = None, build: str = ""
) -> Iterator[Candidate | Drop]:
    """Every variant of a catalog card that may be tried now; a drop where a requirement fails. `scope`: what may be changed.

    `build`: compiler options that no source names.
    """
    sources = narrow(texts(briefing), scope)
    why = find_unmet_requirement(card.requires, briefing, sources=sources, build=build) or find_exclusion(
        card.excludes, briefing, sources=sources, build=build
    )
    if why:
        yield Drop(lever=card.id, why=why)
        return
    if any(isinstance(edit, Constant) for edit in card.edits):
        yield from _step_constants(card, briefing, sources, scope)
        return
    for variant in card.variants or (None,):
        name = card.id if variant is None else f"{card.id}:{variant.id}"
        why = find_unmet_requirement(variant.requires, briefing, sources=sources, build=build) if variant else ""
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
            sources=tuple(texts(briefing).items()),
            flags_file=briefing.contract.flags_file,
            only=scope.names if scope else None,
        )


@lru_cache(maxsize=512)
def _apply_to_sources(
    edits: tuple[Edit, ...],
    sources: tuple[tuple[str, str], ...],
    flags_file: str | None,
    target: tuple[str, int] | None,
    only: frozenset[str] | None,
) -> Mapping[str, str] | None:
    """What a catalog card's edits make of the sources: most rounds roll back, and nothing has changed since the last."""
    return apply(edits, dict(sources), flags_file=flags_file, target=dict((target,) if target else ()), only=only)


def _step_constants(
    card: Card, briefing: Briefing, sources: Mapping[str, str], scope: Scope | None
) -> Iterator[Candidate]:
    """The catalog's sweep: each constant of a card one step along its ladder, never to a value that was left or tried."""
    programs = {path: text for path, text in sources.items() if code(path)}
    whole_texts = tuple((path, text) for path, text in texts(briefing).items() if code(path))
    tried_settings = {
        (match["name"], int(value))
        for closed in list_tried(briefing)
        if hypothesis_of(closed).lever == card.id
        and (match := re.match(r"(?P<name>\w+) from (?P<old>\d+) to (?P<new>\d+)", hypothesis_of(closed).change))
        for value in (match["old"], match["new"])
    }
    if scope is None or scope.is_whole:  # a sweep of several sets a constant wherever it stands
        yield from _tune_constants(card, briefing, programs, whole_texts)
    for step in (edit for edit in card.edits if isinstance(edit, Constant)):
        for setting in settings(step, programs):
            for value in neighbours(step, setting.value):
                if (setting.name, value) not in tried_settings:
                    yield Candidate(
                        id=f"{card.id}:{setting.name}={value}",
                        card=card,
                        variant=None,
                        change=f"{setting.name} from {setting.value} to {value}",
                        expected=card.expected_speedup,
                        edits=(step,),
                        sources=whole_texts,
                        target=(setting.name, value),
                        only=scope.names if scope else None,
                    )


def _tune_constants(
    card: Card, briefing: Briefing, programs: Mapping[str, str], whole_texts: tuple[tuple[str, str], ...]
) -> Iterator[Candidate]:
    """The catalog's sweep inside a round: all constants of a card together, each two rungs up and down its ladder."""
    if briefing.terms is None or not briefing.terms.limits.tuning_points:
        return
    steps = [
        (step, setting)
        for step in card.edits
        if isinstance(step, Constant)
        for setting in settings(step, programs)
        if setting.present
    ]
    if len({setting.name for _, setting in steps}) < 2:
        return
    parameters = tuple(
        Parameter(name=setting.name, values=tuple(sorted(values)))
        for step, setting in steps
        if (values := _list_near(step.ladder, setting.value))
    )
    first_step, start = steps[0]
    names = ", ".join(parameter.name for parameter in parameters)
    yield Candidate(
        id=f"{card.id}:together={names}",
        card=card,
        variant=None,
        change=f"sweep of {names} together",
        expected=card.expected_speedup * TOGETHER,
        edits=(first_step,),
        sources=whole_texts,
        target=(start.name, neighbours(first_step, start.value)[0]),
        tuning=parameters,
    )


def _list_near(ladder: tuple[int, ...], value: int) -> set[int]:
    """The catalog's sweep: a card's constant and two rungs of its ladder on each side."""
    below, above = [rung for rung in ladder if rung < value], [rung for rung in ladder if rung > value]
    return {value, *below[-2:], *above[:2]}


def find_unmet_requirement(needs: Needs, briefing: Briefing, *, sources: Mapping[str, str], build: str = "") -> str:
    """Which requirement of a card this machine or kernel fails, so that the catalog planner drops it, or nothing."""
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
    if needs.flags and not re.search(needs.flags, _flags(briefing, sources, build)):
        return f"needs compiler flags like {needs.flags}"
    if needs.pattern and not _in_code(needs.pattern, sources):
        return "the sources have nothing it could work on"
    return ""


BUILT_IN = "the compiler flags do it already"
_BUILD_FLAGS = re.compile(r"^FLAGS[ \t]*=(.*)", re.MULTILINE)


def read_build_flags(briefing: Briefing, files: Files | None) -> str:
    """For the catalog planner: compiler options in the read-only `flags.mk` of a harness that Ridgeline wrote, or of a task; else empty."""
    if files is None:
        return ""
    if (task := read_task(briefing, files)) is not None:
        options = (*FLAGS.get(task.language, ()), *task.build.flags)
        levels = [word for word in options if word.startswith("-O")]
        return " ".join((*(word for word in options if word not in levels), *levels[-1:]))  # of levels the last holds
    paths = (path for path in files.paths(briefing.base_commit) if path.rpartition("/")[2] == "flags.mk")
    texts_of_paths = (files.text(briefing.base_commit, path) or "" for path in paths if _is_protected(path, briefing))
    return "\n".join(match[1] for text in texts_of_paths for match in _BUILD_FLAGS.finditer(text))


def _is_protected(path: str, briefing: Briefing) -> bool:
    """Whether the contract's globs keep a path from the catalog's edits."""
    return any(fnmatch(path, glob) for glob in briefing.contract.protected)


def find_exclusion(excludes: Needs, briefing: Briefing, *, sources: Mapping[str, str], build: str = "") -> str:
    """Why a catalog lever is pointless on this kernel and machine, or nothing."""
    if excludes.flags and re.search(excludes.flags, _flags(briefing, sources, build)):
        return BUILT_IN
    if excludes.pattern and _in_code(excludes.pattern, sources):
        return "the sources have it already"
    if excludes.arch and re.match(excludes.arch, briefing.machine.arch):
        return f"not for {briefing.machine.arch}"
    return ""


def explain_relaxed(edits: tuple[Edit, ...], contract: Contract) -> str:
    """Why the catalog planner leaves out a card's edits that change the meaning of arithmetic, or nothing."""
    if contract.relaxed_math == "allowed":
        return ""
    flags = [word for edit in edits if isinstance(edit, Flags) for word in edit.add]
    pragmas = [
        edit.pragma if isinstance(edit, Flags) else edit.text for edit in edits if isinstance(edit, Flags | Insert)
    ]
    options = (*list_options("kernel.flags", " ".join(flags)), *list_options("kernel.c", "\n".join(pragmas)))
    return (
        f"{options[0]} changes what arithmetic means, which the contract does not allow (relaxed_math)"
        if options
        else ""
    )


def find_bar(candidate: Candidate, rounds: tuple[RoundClosed, ...]) -> str:
    """Why the catalog does not try a lever again that earlier rounds tried, or nothing."""
    past = [closed for closed in rounds if hypothesis_of(closed).id == candidate.id]
    if not past:
        return ""
    latest = past[-1]
    if latest.accepted:
        return f"accepted in round {latest.round}"
    if latest.judged.verdict.reason == "outpaced" and len(past) < MAX_TRIES:
        return ""  # it may well help on top of what was faster
    if not candidate.card.retry or latest.judged.verdict.reason not in UNRESOLVED or len(past) >= MAX_TRIES:
        return f"rolled back in round {latest.round}: {latest.judged.verdict.reason}"
    if not any(
        closed.accepted and closed.beside >= latest.beside and _matters_to(candidate, closed) for closed in rounds
    ):
        return (
            f"rolled back in round {latest.round}: {latest.judged.verdict.reason}; the best version is still the same"
        )
    return ""


def _matters_to(candidate: Candidate, accepted: RoundClosed) -> bool:
    """Whether a catalog lever meets other code since: to a compiler option, code under another option is the same code."""
    return candidate.card.category != "compiler" or hypothesis_of(accepted).category != "compiler"


def list_tried(briefing: Briefing) -> tuple[RoundClosed, ...]:
    """Every closed round for the catalog, oldest first, also those that a restart masked: a card makes the same edit again."""
    return tuple(sorted((*briefing.masked_rounds, *briefing.rounds), key=lambda closed: closed.round))


def hypothesis_of(closed: RoundClosed) -> Hypothesis:
    """For the catalog planner: the hypothesis that a closed round was about."""
    return find_proposal(closed.judged).hypothesis


def _has_flags(briefing: Briefing, sources: Mapping[str, str]) -> bool:
    """For the catalog planner: whether the contract's flags file is among the sources."""
    return briefing.contract.flags_file in sources


def _flags(briefing: Briefing, sources: Mapping[str, str], build: str) -> str:
    """For the catalog planner: options of the build, the flags file and what pragmas say, for the requirements of cards."""
    pragmas = [line for text in sources.values() for line in text.splitlines() if line.startswith("#pragma GCC")]
    return "\n".join([build, sources.get(briefing.contract.flags_file or "", ""), *pragmas])


def _in_code(pattern: str, sources: Mapping[str, str]) -> bool:
    """For the catalog planner: whether a card's pattern matches in a source that is code; build files and texts do not count."""
    return any(re.search(pattern, text) for path, text in sources.items() if code(path))


TOGETHER = 1.05
"""A sweep over all of them is worth more than one step of one, which it holds."""
OFFERED = 4
"""Levers that a proposal names, the chosen one among them: making the edits of all is most of what a round thinks."""


class CatalogPlanner:
    """Picks by bottleneck, history and expected gain. Costs nothing, and the same briefing gives the same answer."""

    def __init__(self, cards: tuple[Card, ...] | None = None, files: Files | None = None) -> None:
        """`cards`: default those that ship. `files`: where test, benchmark and task say which function is timed."""
        self._cards = load() if cards is None else cards
        self._files = files

    def propose(self, briefing: Briefing) -> Proposal:
        """The catalog's best cards that apply to the best version's sources and were not settled before."""
        order, drops = self.order(briefing, most=max(OFFERED, briefing.candidates))
        dropped = tuple(f"{drop.lever}: {drop.why}" for drop in drops)
        if not order:
            return Proposal(hypothesis=None, dropped=dropped, exhausted=self._explain_exhaustion(briefing, drops))
        best, *others = order[: briefing.candidates]
        return Proposal(
            hypothesis=make_hypothesis(best, briefing),
            ranked=tuple(
                f"{candidate.id}: {candidate.change} ({candidate.expected:.2f}x expected)"
                for candidate in order[1 + len(others) :]
            ),
            dropped=dropped,
            searches=_list_searches(order, briefing, len(drops)),
            others=tuple(Proposal(hypothesis=make_hypothesis(candidate, briefing)) for candidate in others),
        )

    def draft(self, briefing: Briefing, proposal: Proposal) -> Draft:
        """The catalog's edit: the whole new texts of the files that the lever changes."""
        hypothesis = proposal.hypothesis
        candidate = self._find(briefing, hypothesis) if hypothesis else None
        if candidate is None:
            return Draft(
                edits=(), refusal=f"no card carries out {hypothesis.id if hypothesis else 'nothing'} on these sources"
            )
        edits = tuple(FileEdit(path=path, text=text) for path, text in sorted(candidate.texts.items()))
        return Draft(edits=edits, explanation=explanation(candidate))

    def repair(self, briefing: Briefing, broken: Broken | Built, attempt: int) -> Draft:
        """The catalog's repair: the card's next weaker form, made from the best version; a refusal when it has none left."""
        hypothesis = find_proposal(broken).hypothesis
        card = self._card(hypothesis.lever)
        if card is None or not 1 <= attempt <= len(card.fallbacks):
            return Draft(edits=(), refusal=f"{hypothesis.lever} has no weaker form left")
        fallback = card.fallbacks[attempt - 1]
        name = hypothesis.id.partition(":")[2]
        variant = next((variant for variant in card.variants if variant.id == name), None)
        edits = fill_edits(fallback.edits, variant.params if variant else {})
        if why := explain_relaxed(edits, briefing.contract):
            return Draft(edits=(), refusal=f"the weaker form of {hypothesis.lever} is out: {why}")
        scope = find_scope(briefing, self._files)
        only = scope.names if scope else None
        changed = apply(edits, texts(briefing), flags_file=briefing.contract.flags_file, only=only)
        if not changed:
            return Draft(edits=(), refusal=f"the weaker form of {hypothesis.lever} does not apply: {fallback.why}")
        return Draft(
            edits=tuple(FileEdit(path=path, text=text) for path, text in sorted(changed.items())),
            explanation=f"{card.title}, weaker form: {fallback.why}.",
        )

    def write_baseline(
        self, briefing: Briefing, about: Hypothesis, edits: tuple[FileEdit, ...], evidence: str
    ) -> Draft:
        """Refused by the catalog: cards change kernels and write none."""
        return Draft(edits=(), refusal="the catalog changes kernels that are there, and writes none")

    def split(self, briefing: Briefing, judged: Judged) -> Draft:
        """Refused by the catalog: a card rewrites the kernel as a whole and cannot dispatch by configuration class."""
        lever = find_proposal(judged).hypothesis.lever
        return Draft(edits=(), refusal=f"{lever} is a card: it has no form specialised for one configuration class")

    def review(self, briefing: Briefing, trigger: str) -> Review:
        """The catalog's review: at least three directions from different categories, unexplored ones first."""
        return Review(directions=directions(self.order(briefing)[0], briefing))

    def reflect(self, briefing: Briefing, judged: Judged) -> Reflection:
        """What the catalog learns from a round, by comparing prediction and profile."""
        return reflection(briefing, judged, card=self._card(find_proposal(judged).hypothesis.lever))

    def order(self, briefing: Briefing, *, most: int | None = None) -> tuple[list[Candidate], list[Drop]]:
        """The catalog's `most` best levers that change something now (None: all), best first, and those that are out."""
        levers: list[Candidate] = []
        drops: list[Drop] = []
        scope, tried = find_scope(briefing, self._files), list_tried(briefing)
        build = read_build_flags(briefing, self._files)
        for card in of_language(self._cards, briefing):
            for item in candidates(card, briefing, scope, build):
                if isinstance(item, Drop):
                    drops.append(item)
                elif (
                    why := explain_relaxed(item.edits, briefing.contract)
                    or find_bar(item, tried)
                    or _forbidden(item, briefing)
                ):
                    drops.append(Drop(lever=item.id, why=why))
                else:
                    levers.append(item)
        working = (
            item for item in rank_candidates(levers, briefing) if item.texts
        )  # tried in this order, and no further
        return list(islice(working, most)), drops

    def _find(self, briefing: Briefing, hypothesis: Hypothesis) -> Candidate | None:
        """The catalog's candidate that a hypothesis was made of, if its card still changes the sources."""
        card, build = self._card(hypothesis.lever), read_build_flags(briefing, self._files)
        items = candidates(card, briefing, find_scope(briefing, self._files), build) if card else ()
        same = (item for item in items if isinstance(item, Candidate) and item.id == hypothesis.id)
        return next((item for item in same if item.texts), None)

    def _card(self, lever: str) -> Card | None:
        """The catalog's card with that id; None where this planner has no such card."""
        return next((card for card in self._cards if card.id == lever), None)

    def _explain_exhaustion(self, briefing: Briefing, drops: list[Drop]) -> str:
        """Why the catalog has no lever left, with the numbers of cards, rounds and drops."""
        cards = of_language(self._cards, briefing)
        if not cards:
            return f"no knowledge card is about {briefing.target.target_lang} and {briefing.target.target_op}"
        return (
            f"every lever of {len(cards)} cards for {briefing.target.target_lang} is settled: {len(list_tried(briefing))} "
            f"rounds were run, {len(drops)} levers are barred or lack what they need, the rest find nothing to change"
        )


def _list_searches(order: list[Candidate], briefing: Briefing, barred: int) -> tuple[LookUp, ...]:
    """The cards that the catalog looked at, best first: no further than to the levers that a proposal names."""
    target = briefing.target
    query = f"levers for {target.target_op} in {target.target_lang} on {target.target_gpu}, {briefing.bottleneck} bound"
    chosen, *others = order
    return (
        LookUp(
            source="gpu-wiki",
            query=query,
            finding=f"{chosen.card.path}:1 ({chosen.id}); {barred} levers are barred or lack what they need",
            actionability=f"the plan's action: {chosen.change}",
        ),
        *(
            LookUp(
                source="gpu-wiki",
                query=query,
                finding=f"{other.card.path}:1 ({other.id})",
                actionability=f"can be acted on, {other.expected:.2f}x expected; not chosen",
            )
            for other in others
        ),
    )


def _forbidden(item: Candidate, briefing: Briefing) -> str | None:
    """What Rule 11 says of a catalog's candidate; kernel work is always allowed, so its hypothesis is only written when it is chosen."""
    return None if item.card.bucket.startswith("K") else explain_forbidden(make_hypothesis(item, briefing))


# Which lever first: expected gain, weighed by the bottleneck and by what this campaign has already shown.

OFF_BOTTLENECK = 0.7
"""A lever that treats another bottleneck than the measured one is worth this share of what its card says."""
UNEXPLORED = 2.0
"""After a stagnation review a category that no round has touched counts this much more."""
PRIOR = 2
"""Successes that a category is credited with before its first round, so that one failure does not bury it."""
CALIBRATION = (0.5, 1.5)
"""Bounds of the correction by measured over predicted gain."""


def rank_candidates(levers: list[Candidate], briefing: Briefing) -> list[Candidate]:
    """The catalog's candidates best first; equal scores stay in the order of the cards, and a sweep goes up before it goes down."""
    return sorted(levers, key=lambda candidate: -compute_expected_gain(candidate, briefing))


def compute_expected_gain(candidate: Candidate, briefing: Briefing) -> float:
    """Expected gain of a catalog lever in nats, weighed."""
    rounds = [closed for closed in briefing.rounds if hypothesis_of(closed).category == candidate.card.category]
    gain = math.log(candidate.expected)
    gain *= 1.0 if briefing.bottleneck in candidate.card.bottlenecks else OFF_BOTTLENECK
    gain *= (sum(closed.accepted for closed in rounds) + PRIOR) / (len(rounds) + PRIOR)
    gain *= calibration(rounds)
    return gain * (UNEXPLORED if briefing.directions and not rounds else 1.0)


def calibration(rounds: list[RoundClosed]) -> float:
    """Measured over predicted gain of the accepted rounds, by which the catalog weighs; both in nats, within bounds; 1 without any."""
    ratios = [
        math.log1p(gain) / math.log(speedup)
        for closed in rounds
        if closed.accepted
        and (gain := closed.judged.verdict.gain) is not None
        and gain > -1
        and (speedup := hypothesis_of(closed).prediction.speedup) is not None
        and speedup > 1
    ]
    low, high = CALIBRATION
    return min(high, max(low, sum(ratios) / len(ratios))) if ratios else 1.0


# What the catalog planner writes: hypotheses, explanations, directions, reflections, from cards and evidence.

NOTHING_LEFT = {
    "tile": "work on larger or smaller pieces; no card for it applies to this source any more",
    "layout": "move data into the order in which it is read; no card for it applies to this source",
    "pipelining": "overlap loading with computing; no card for it applies to this source",
    "occupancy": "trade registers and shared memory against parallel work; no card for it applies to this source",
    "backend": "compare with another backend's kernel of the same operator; cards cannot do that",
    "algorithm": "look for work that is done twice or need not be done; no card for it applies to this source",
    "compiler": "read the compiler's report of what it did not vectorise; no flag is left to try",
}
CATEGORIES: tuple[Category, ...] = get_args(Category)
OF_GPUS: frozenset[Category] = frozenset({"occupancy"})
"""Categories without a meaning on a processor."""


def categories_of(briefing: Briefing) -> tuple[Category, ...]:
    """Categories of levers for the target: a processor has no occupancy to trade."""
    cpu = briefing.machine.kind == "cpu"
    return tuple(name for name in CATEGORIES if not (cpu and name in OF_GPUS))


def make_hypothesis(candidate: Candidate, briefing: Briefing) -> Hypothesis:
    """The catalog's candidate as a falsifiable hypothesis with its evidence."""
    card = candidate.card
    predicted = card.prediction
    return Hypothesis(
        id=candidate.id,
        lever=card.id,
        claim=f"I expect {briefing.target.primary_metric} of {briefing.target.target_op} to improve because "
        f"{card.because}.",
        change=candidate.change,
        category=card.category,
        bucket=card.bucket,
        evidence=_evidence(candidate, briefing),
        risks=card.risks,
        verification=card.verification,
        prediction=Prediction(
            counter=predicted.counter,
            direction=predicted.direction,
            ratio=predicted.ratio,
            speedup=candidate.expected,
        ),
        sweep=card.sweep,
        tuning=candidate.tuning,
        high_risk=card.high_risk,
        sources=(f"{card.path}:1", *card.sources),
    )


def _evidence(candidate: Candidate, briefing: Briefing) -> tuple[str, ...]:
    """The evidence of a catalog's hypothesis: what was measured, the place that the card describes, the last rollback: a line each."""
    card = candidate.card
    counter = card.prediction.counter
    value = briefing.profile.counter(counter) if briefing.profile else None
    if briefing.profile and value is not None:
        observation = f"{counter} = {value:g} ({briefing.profile.rung}, best version of round {briefing.best_round})"
    else:
        observation = f"{briefing.bottleneck} bottleneck ({briefing.bottleneck_evidence or 'no counters here'})"
    lines = [f"{observation} -> {card.because} -> {candidate.change}"]
    place = _locate_edits(candidate.edits, tuple(texts(briefing).items()), candidate.only)
    if place:
        path, offset = place
        lines.append(f"{path}:{line_of(texts(briefing)[path], offset)} has the code that the card describes")
    if briefing.consecutive_rollbacks and briefing.rounds:
        latest = briefing.rounds[-1]
        cause = latest.reflection.root_cause or latest.judged.verdict.reason
        lines.append(f"round {latest.round} rolled back {hypothesis_of(latest).lever}: {cause} -> another approach")
    return tuple(lines)


@lru_cache(maxsize=256)
def _locate_edits(
    edits: tuple[Edit, ...], sources: tuple[tuple[str, str], ...], only: frozenset[str] | None
) -> tuple[str, int] | None:
    """For the catalog planner: where a card's pattern matches the sources; remembered, for each candidate asks in every round."""
    return where_first(edits, dict(sources), only)


def explanation(candidate: Candidate) -> str:
    """The catalog planner's answer: why a lever works, for the commit message."""
    because = candidate.card.because
    return f"{candidate.card.title}: {because[:1].upper()}{because[1:]}. {section(candidate.card, 'How')}"


def section(card: Card, heading: str) -> str:
    """For the catalog planner's answer: one part of a card's text on one line."""
    match = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", card.body, re.M | re.S)
    return " ".join(match.group(1).split()) if match else ""


def directions(ranked: list[Candidate], briefing: Briefing) -> tuple[str, ...]:
    """The catalog's review: one sentence per category, those that no round has touched first, then those with the best lever left."""
    explored = {hypothesis_of(closed).category for closed in briefing.rounds}
    best: dict[str, Candidate] = {}
    for candidate in ranked:
        best.setdefault(candidate.card.category, candidate)
    order = {candidate.id: index for index, candidate in enumerate(ranked)}
    categories = sorted(
        categories_of(briefing), key=lambda c: (c not in best, c in explored, order[best[c].id] if c in best else 0)
    )
    return tuple(_direction(category, best.get(category), explored) for category in categories[: max(3, len(best))])


def _direction(category: str, candidate: Candidate | None, explored: set[Category]) -> str:
    """One category of the catalog's review as a sentence: whether it was tried, and its best lever."""
    state = "tried before" if category in explored else "not tried yet"
    if candidate is None:
        return f"{category} ({state}): {NOTHING_LEFT[category]}."
    return (
        f"{category} ({state}): {candidate.change}, because {candidate.card.because} "
        f"({candidate.card.id}, {candidate.expected:.2f}x expected)."
    )


def reflection(briefing: Briefing, judged: Judged, *, card: Card | None) -> Reflection:
    """What the catalog learns from a round, prediction against profile; a lesson only where the round settled something."""
    hypothesis = find_proposal(judged).hypothesis
    traced = find(judged, Traced)
    checked = predict.check_metric(judged, briefing.contract.scoring) or predict.check_prediction(
        hypothesis.prediction, briefing.profile, traced.profile if traced else None
    )
    verdict = judged.verdict
    clear = verdict.accepted or (verdict.reason == "not_better" and checked.outcome == "refuted")
    return Reflection(
        attribution=_attribution(judged, checked),
        root_cause="" if verdict.accepted else _cause(judged, checked),
        next_direction=_next_direction(hypothesis, accepted=verdict.accepted),
        lesson=_lesson(briefing, judged, hypothesis, card) if clear and card else None,
        applies=section(card, "Applies when") if clear and card else "",
        does_not_apply=section(card, "Pitfalls") if clear and card else "",
    )


def _attribution(judged: Judged, checked: PredictionCheck) -> str:
    """What the catalog says a round's result comes from: the counter's change beside the prediction, or the early end."""
    failed = find(judged, Failed)
    if failed is not None:
        first_line = (failed.detail.strip().splitlines() or [""])[0][:200]
        return f"Ended before it could be measured ({failed.reason}): {first_line}"
    time = describe_gain(judged.verdict)
    if checked.speedup is not None:
        return f"{checked.counter}, predicted {checked.expected}: {checked.outcome}; result {time}."
    if checked.before is None or checked.after is None:
        return f"{checked.counter} was expected {checked.expected} and was not measured here; result {time}."
    ratio = f" ({checked.after / checked.before:.2f}x)" if checked.before else ""
    change = f"{checked.counter} {checked.before:g} -> {checked.after:g}{ratio}"
    return f"{change}, predicted {checked.expected}: {checked.outcome}; result {time}."


def _cause(judged: Judged, checked: PredictionCheck) -> str:
    """The catalog's root cause of a rollback, as far as verdict and prediction tell it."""
    failed = find(judged, Failed)
    if failed is not None:
        return explain_failure(failed)
    verdict = judged.verdict
    result = f"{describe_gain(verdict)} ({verdict.reason})"
    if worst_shape := describe_worst_shape(verdict):
        return f"{worst_shape}; all shapes together {result}"
    if verdict.faster == "yes":
        return f"{result}; not kept because {verdict.sentence.partition(' because ')[2]}"
    if verdict.reason != "not_better":  # what the pairs left open refutes nothing
        return f"not settled: {result}; {checked.counter}, predicted {checked.expected}: {checked.outcome}"
    if checked.outcome == "confirmed":
        return f"{checked.counter} moved as predicted and the result did not follow, so it is not what limits: {result}"
    if checked.outcome == "refuted":
        return f"{checked.counter} did not move as predicted: the change did not do here what the card says: {result}"
    return result


def _next_direction(hypothesis: Hypothesis, *, accepted: bool) -> str:
    """Where the catalog's next round should look, in words."""
    if accepted:
        return f"what the new version made possible after {hypothesis.lever}, the largest expected gain first"
    return f"another lever than {hypothesis.lever}, from another category than {hypothesis.category} if one is left"


def _lesson(briefing: Briefing, judged: Judged, hypothesis: Hypothesis, card: Card) -> str:
    """The catalog's lesson: one sentence about the card for this operator and machine."""
    place = f"{briefing.target.target_op} on {briefing.machine.name}"
    gain = judged.verdict.gain
    if judged.verdict.accepted and gain is not None:
        return f"{card.title} ({hypothesis.change}): {gain:+.1%} for {place}."
    counter = hypothesis.prediction.counter
    return f"{card.title} ({hypothesis.change}) does not help {place}: {counter} did not move as predicted."
