"""The planner that asks a language model: it proposes, code decides what of it may be tried."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

from ridgeline.agent.planner import directions as answers
from ridgeline.agent.planner import measurements
from ridgeline.agent.planner.catalog import reflection
from ridgeline.agent.planner.checks import NO_DIRECTION, Checks, of_edits, of_planning
from ridgeline.agent.planner.context import Context
from ridgeline.agent.planner.conversation import ELIDED, Exchange, Question, Wrong, bound_text, fence, talk
from ridgeline.agent.planner.directions import (
    Answer,
    CheckedDirections,
    CheckedReview,
    Directions,
    check_directions,
    none_usable,
)
from ridgeline.agent.planner.edits import EditedFiles, apply_candidate
from ridgeline.agent.planner.history import unusable_streak
from ridgeline.agent.planner.tools import (
    TEMPLATE,
    Books,
    BriefedReader,
    NotingBooks,
    Reader,
    ShippedBooks,
    Texts,
    Toolbox,
    list_tools,
    list_web_search,
    resolver,
)
from ridgeline.agent.providers.base import Model, NotAsked, Tool
from ridgeline.agent.providers.choice import MAILBOX, RECORDED
from ridgeline.graph.briefing import Briefing, Draft, Proposal, Review
from ridgeline.graph.limits import Limits
from ridgeline.graph.ports import Planner
from ridgeline.graph.record import Reflection
from ridgeline.graph.trial import Broken, Built, Drafted, Judged, Proposed, find, find_proposal
from ridgeline.graph.values import Cost, FileEdit, Hypothesis
from ridgeline.prompts.render import SHIPPED, Templates

# A planner whose budget can end in the middle of a round: the round closes, and the campaign concludes by T7.


class FrugalPlanner:
    """Answers by a refusal where the planner behind it may ask no more; what was already paid is in its cost."""

    def __init__(self, inner: Planner, *, cost_so_far: Callable[[], Cost]) -> None:
        """`cost_so_far`: cost of every answer that was given to the planner in this process."""
        self._inner = inner
        self._cost_so_far = cost_so_far

    def propose(self, briefing: Briefing) -> Proposal:
        before = self._cost_so_far()
        try:
            return self._inner.propose(briefing)
        except NotAsked as spent:
            return Proposal(hypothesis=None, exhausted=f"{spent.begins}{spent}", cost=self._since(before))

    def write_baseline(
        self, briefing: Briefing, about: Hypothesis, edits: tuple[FileEdit, ...], evidence: str
    ) -> Draft:
        return self._draft(lambda: self._inner.write_baseline(briefing, about, edits, evidence))

    def draft(self, briefing: Briefing, proposal: Proposal) -> Draft:
        return self._draft(lambda: self._inner.draft(briefing, proposal))

    def repair(self, briefing: Briefing, broken: Broken | Built, attempt: int) -> Draft:
        return self._draft(lambda: self._inner.repair(briefing, broken, attempt))

    def split(self, briefing: Briefing, judged: Judged) -> Draft:
        return self._draft(lambda: self._inner.split(briefing, judged))

    def review(self, briefing: Briefing, trigger: str) -> Review:
        before = self._cost_so_far()
        try:
            return self._inner.review(briefing, trigger)
        except NotAsked as spent:
            why = f"{spent.begins}{spent}"
            return Review(directions=(f"none: {why}",), exhausted=why, cost=self._since(before))

    def reflect(self, briefing: Briefing, judged: Judged) -> Reflection:
        before = self._cost_so_far()
        try:
            return self._inner.reflect(briefing, judged)
        except NotAsked as spent:
            reason = f"The model was not asked: {spent.begins}{spent}. The verdict stands: {judged.verdict.sentence}"
            return Reflection(attribution=reason, root_cause=reason, cost=self._since(before))

    def _draft(self, call: Callable[[], Draft]) -> Draft:
        """A planner's edits, or a refusal with the cost where the budget ended."""
        before = self._cost_so_far()
        try:
            return call()
        except NotAsked as spent:
            return Draft(edits=(), refusal=f"{spent.begins}{spent}", cost=self._since(before))

    def _since(self, before: Cost) -> Cost:
        """Cost of what a model answered since then: an unknown price in it stays unknown."""
        now = self._cost_so_far()
        is_priced = now.dollars is not None and before.dollars is not None
        return Cost(
            tokens=now.tokens - before.tokens,
            dollars=max(0.0, (now.dollars or 0.0) - (before.dollars or 0.0)) if is_priced else None,
        )


# Which templates a planner's questions are made of: those that ship, or others that are tried against them.

SYSTEM = "system.v2.md"
DEEP_SYSTEM, DEEP_TOOLS = "deep_system.v1.md", "deep_tools.v2.toml"
"""The rules of a deep round, and its tools that change and run the tree."""
PROMPTS: dict[str, tuple[str, ...]] = {
    "propose": ("propose.v9.md", "terms.v4.md", "context.v3.md"),
    "baseline": ("baseline.v2.md", "context.v3.md", "edits.v4.md"),
    "draft": ("draft.v6.md", "context.v3.md", "edits.v4.md"),
    "drafts": ("drafts.v2.md", "context.v3.md", "edits.v4.md"),
    "repair": ("repair.v5.md", "context.v3.md", "edits.v4.md"),
    "split": ("split.v5.md", "context.v3.md", "edits.v4.md"),
    "review": ("review.v6.md", "terms.v4.md", "context.v3.md"),
    "reflect": ("reflect.v5.md", "judged.v4.md", "terms.v4.md"),
    "diagnose": ("diagnose.v5.md", "judged.v4.md", "terms.v4.md"),
    "deep": ("deep.v1.md", "context.v3.md"),
}
"""Question -> its template, then those that it includes: the ledger cites them all."""
WEB = "web.v1.md"
"""What a search of the public web printed: stands before the question for directions, where there was one."""
EARLIER_WHOLE_LINES = 400
"""What wordings before `edits.v4` say of the longest file that is written whole; there is no such limit any more."""


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What the questions of a planner say."""

    names: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: PROMPTS)
    templates: Templates = SHIPPED

    def system(self) -> str:
        """The system prompt: rules that hold in every round."""
        return self.templates.render(SYSTEM)

    def question(self, name: str, **variables: Any) -> str:
        """The prompt of that name; a variable that its template lacks is an error."""
        return self.templates.render(self.names[name][0], **variables)

    def identities(self, name: str, *, tools: bool = False) -> tuple[str, ...]:
        """What the ledger cites: every template that the question was made of."""
        made_of = (SYSTEM, *self.names[name], *([TEMPLATE] if tools else []))
        return tuple(map(self.templates.identity, made_of))


T = TypeVar("T")
MOST = 5
"""Directions that are asked for."""
GIVE_UP = 3
"""Rounds in a row without a usable direction after which the campaign ends: more would only cost more."""
BEFORE_EDITS = frozenset({"baseline", "propose", "draft", "drafts", "review"})
"""Questions that show the best version's sources; the others show the candidate's."""
TOOL_SHARE = 12
"""One tool's answer may fill this part of the context's budget."""


class ModelPlanner:
    """`ridgeline.graph.ports.Planner` on a language model.

    The same briefing asks the same questions in the same order, so a recorded or mailed answer fits after a crash.
    What the model sends is checked here: forbidden buckets, repeated directions, citations that do not resolve and
    edits outside the editable files are dropped with the reason. An answer that cannot be used twice is a refusal.
    Raises what the model raises: `ridgeline.agent.providers.base.ModelError`, `ridgeline.agent.errors.Waiting`.
    """

    def __init__(
        self,
        model: Model,
        *,
        limits: Limits,
        reader: Reader | None = None,
        books: Books | None = None,
        wording: Wording | None = None,
        drafts_together: bool | None = None,
    ) -> None:
        """`reader`: files of the repository beyond the briefing; `books`, `wording`: default what ships.

        `drafts_together`: one question for the edits of all candidates; default of a mailbox, where each waits for somebody.
        """
        self._model = model
        self._limits = limits
        self._reader = reader
        self._books = NotingBooks(books or ShippedBooks())
        self._wording = wording or Wording()
        self._drafts_together = model.name == MAILBOX if drafts_together is None else drafts_together

    def propose(self, briefing: Briefing) -> Proposal:
        """The best directions of a model that pass every check, as many as are tried; after a bad answer one about nothing."""
        if (streak := unusable_streak(briefing.rounds)) >= GIVE_UP and not self._model.name.startswith(RECORDED):
            return Proposal(hypothesis=None, exhausted=f"{self._model.name} gave no usable answer {streak} rounds long")
        self._books.begin()
        reader = self._reader or BriefedReader(briefing)
        texts, rules = Texts(briefing, reader), of_planning(briefing)
        unresolved = resolver(texts.length, self._books.line)
        question = self._add_checks(self._planning(briefing), lambda: of_planning(briefing, texts.paths, texts.length))
        exchange = talk(self._model, question, lambda text: check_directions(text, rules, unresolved))
        prompts = self._wording.identities("propose", tools=bool(question.tools))
        prompts += (self._wording.templates.identity(WEB),) if _reads_web(briefing) else ()
        proposal = _proposal(exchange, briefing.round, briefing.candidates)
        sources = proposal.hypothesis.sources if proposal.hypothesis else ()
        searches = self._books.list_searches(sources) + list_web_search(briefing.web, sources)
        return proposal.model_copy(update={"prompts": prompts, "searches": searches})

    def write_baseline(
        self, briefing: Briefing, about: Hypothesis, edits: tuple[FileEdit, ...], evidence: str
    ) -> Draft:
        """A model's first kernel in place of PyTorch; `evidence` says what was wrong with `edits`, the attempt before."""
        texts = measurements.overlaid(briefing, edits)
        backend = briefing.target.target_lang
        return self._edits("baseline", briefing, about, texts=texts, evidence=evidence, backend=backend)

    def draft(self, briefing: Briefing, proposal: Proposal) -> Draft:
        """A model's edits of the best version that test the hypothesis, or why there are none."""
        about = proposal.hypothesis
        if about is None or about.lever == NO_DIRECTION:
            return Draft(edits=(), refusal=" ".join(about.evidence) if about else "there is no hypothesis")
        texts = measurements.overlaid(briefing, ())
        if self._drafts_together and len(proposal.beside) > 1:
            return self._draft_beside(briefing, about, proposal.beside, texts)
        return self._edits("draft", briefing, about, texts=texts, sweep=about.sweep)

    def _draft_beside(
        self, briefing: Briefing, about: Hypothesis, beside: tuple[Hypothesis, ...], texts: Mapping[str, str]
    ) -> Draft:
        """Out of one answer with the edits of all candidates, since each question to a mailbox waits for somebody.

        Every candidate asks the same question, so that it is put once; the first one bears what it cost.
        """
        place = beside.index(about)
        first_round = briefing.model_copy(update={"round": briefing.round - place})
        draft = self._edits("drafts", first_round, beside[0], texts=texts, beside=beside, place=place)
        return draft if place == 0 else draft.model_copy(update={"cost": Cost()})

    def ask_deep(
        self, briefing: Briefing, about: Proposed, *, budget: str, tree: str = "", commands: tuple[str, ...] = ()
    ) -> tuple[Question, tuple[str, ...]]:
        """The question of a deep round, without its tools, and the templates that it is made of.

        `budget`: what there is, in words. `tree`, `commands`: where files lie that whoever answers edits, and what runs
        them; none for a model that calls tools.
        """
        assert about.deep is not None
        variables = {
            **self._context(briefing).drafting(about.hypothesis, measurements.overlaid(briefing, ())),
            "plan": fence(about.deep.plan),
            "budget": budget,
            "tree": tree,
            "commands": commands,
            "number_lines": False,
        }
        question = replace(
            self._question("deep", briefing, variables), system=self._wording.templates.render(DEEP_SYSTEM)
        )
        parts = (DEEP_SYSTEM, *self._wording.names["deep"], *(() if commands else (DEEP_TOOLS, TEMPLATE)))
        return question, tuple(map(self._wording.templates.identity, parts))

    def make_toolbox(self, briefing: Briefing, reader: Reader) -> Toolbox:
        """The read-only tools, which look at what `reader` reads; an answer may fill half of the context's budget."""
        tokens = self._limits.context_tokens // 2
        return Toolbox(briefing, reader=reader, books=self._books, tokens=tokens, count=self._model.count)

    @property
    def model(self) -> Model:
        """The language model that is asked."""
        return self._model

    @property
    def limits(self) -> Limits:
        """Limits of the campaign that is planned for."""
        return self._limits

    @property
    def reader(self) -> Reader | None:
        """Files of the repository that a model may read beyond the briefing, where there is one."""
        return self._reader

    def repair(self, briefing: Briefing, broken: Broken | Built, attempt: int) -> Draft:
        """A model's edits that mend the candidate, its hypothesis unchanged; made against the best version."""
        drafted = find(broken, Drafted)
        assert drafted is not None
        return self._edits(
            "repair",
            briefing,
            drafted.proposed.hypothesis,
            texts=measurements.overlaid(briefing, drafted.edits),
            evidence=measurements.describe_failure(broken),
            attempt=attempt,
            attempts=self._limits.max_repairs,
            stage="test" if isinstance(broken, Broken) else "build",
        )

    def split(self, briefing: Briefing, judged: Judged) -> Draft:
        """A model's form of the candidate that dispatches by configuration class; made against the best version."""
        drafted = find(judged, Drafted)
        assert drafted is not None
        texts = measurements.overlaid(briefing, drafted.edits)
        return self._edits(
            "split", briefing, drafted.proposed.hypothesis, texts=texts, evidence=measurements.by_class(judged)
        )

    def review(self, briefing: Briefing, trigger: str) -> Review:
        """A model's review: at least three directions of different categories, unexplored ones first; from code where it fails."""
        context = self._context(briefing).planning(without_tools=not self._model.tools)
        question = self._question(
            "review",
            briefing,
            {**context, "trigger": trigger, "number_lines": True, "deep": self._describe_deep()},
            schema=_schema(answers.Around),
        )
        question = self._add_checks(question, lambda: Checks(kind="review"))
        exchange: Exchange[str | CheckedReview] = talk(
            self._model, question, lambda text: answers.read_end_or_review(text, briefing)
        )
        prompts = self._wording.identities("review")
        if isinstance(exchange.value, str):
            return Review(directions=(), exhausted=exchange.value, prompts=prompts, cost=exchange.cost)
        if isinstance(exchange.value, Wrong):
            directions = answers.list_fallback_directions(briefing)
            return Review(directions=directions, prompts=prompts, cost=exchange.cost)
        return Review(
            directions=exchange.value.directions, deep=exchange.value.deep, prompts=prompts, cost=exchange.cost
        )

    def _describe_deep(self) -> str:
        """For the prompt: the budget of a deep round, where a review may ask for one; else empty."""
        limits = self._limits
        if limits.deep == "asked":
            return ""
        return f"{limits.deep_minutes:g} minutes and {limits.deep_tokens} tokens"

    def reflect(self, briefing: Briefing, judged: Judged) -> Reflection:
        """What the numbers say, then the model's reading of it: a diagnosis after a rollback (rule 7).

        The model is not asked about a round in which nothing was built or measured.
        """
        plain = reflection(briefing, judged, card=None)
        if answers.nothing_seen(judged):
            return plain
        name = "reflect" if judged.verdict.accepted else "diagnose"
        context = self._context(briefing).looking_back(
            find_proposal(judged).hypothesis,
            measurements.outcome(judged, briefing),
            diff=measurements.diff(judged, briefing),
            profiled=measurements.has_counters(judged),
        )
        about = {
            **context,
            "best_round": briefing.best_round,
            "accepted": judged.verdict.accepted,
            "rollbacks": 0 if judged.verdict.accepted else briefing.consecutive_rollbacks + 1,
        }
        question = self._question(name, briefing, about, schema=_schema(answers.Learnt))
        question = self._add_checks(question, lambda: Checks(kind="reflect"))
        exchange = talk(
            self._model, question, lambda text: answers.combine_reflection(text, judged, plain, briefing.rounds)
        )
        lessons = plain if isinstance(exchange.value, Wrong) else exchange.value
        return lessons.model_copy(update={"cost": exchange.cost, "prompts": self._wording.identities(name)})

    def _add_checks(self, question: Question, checks: Callable[[], Checks]) -> Question:
        """The same question to a model; in a mailbox with what its answer can be checked by on arrival."""
        return replace(question, checks=checks().model_dump_json()) if self._model.name == MAILBOX else question

    def _context(self, briefing: Briefing) -> Context:
        """The briefing as sections of the prompt that fit the token budget."""
        budget = self._limits.context_tokens
        reader = self._reader or BriefedReader(briefing)
        return Context(briefing, budget=budget, count=self._model.count, books=self._books, reader=reader)

    def _tools(self) -> tuple[Tool, ...]:
        """Tools that the model may call; none where it cannot, or where the limit is 0."""
        return list_tools() if self._model.tools and self._limits.tool_calls else ()

    def _planning(self, briefing: Briefing) -> Question:
        """The question to a model for directions, with its tools."""
        tools = self._tools()
        variables: dict[str, Any] = {
            **self._context(briefing).planning(without_tools=not tools),
            "metric": briefing.target.primary_metric,
            "example": f"{briefing.sources[0].path if briefing.sources else 'path'}:1",
            "most": max(MOST, briefing.candidates),
            "candidates": briefing.candidates,
            "parent": fence(measurements.describe_parent(briefing)) if briefing.parent else "",
            "tools": bool(tools),
            "tool_calls": self._limits.tool_calls,
            "number_lines": True,
        }
        question = self._question("propose", briefing, variables, schema=_schema(Directions))
        if briefing.web is not None and _reads_web(briefing):
            tokens = self._limits.context_tokens // TOOL_SHARE
            text = fence(bound_text(briefing.web.text, tokens=tokens, count=self._model.count))
            page = self._wording.templates.render(WEB, query=briefing.web.query, text=text)
            question = replace(question, text=f"{page}\n{question.text}")
        return self._add_tools(question, briefing, tools)

    def _add_tools(self, question: Question, briefing: Briefing, tools: tuple[Tool, ...]) -> Question:
        """The same question to a model with tools at hand."""
        reader, tokens = self._reader or BriefedReader(briefing), self._limits.context_tokens // TOOL_SHARE
        desk = Toolbox(briefing, reader=reader, books=self._books, tokens=tokens, count=self._model.count)
        return replace(question, tools=tools, calls=self._limits.tool_calls, desk=desk)

    def _question(self, name: str, briefing: Briefing, variables: Mapping[str, Any], *, schema: str = "") -> Question:
        """A question to a model by its template; what every template may use is added here."""
        template_variables = {
            "round": briefing.round,
            "rollbacks": briefing.consecutive_rollbacks,
            "escalation": briefing.escalation,
            "unexplored": answers.list_untouched_categories(briefing),
            "instruction": fence(briefing.target.instruction) if briefing.target.instruction else "",
            "terms": briefing.terms,
            "cpu": briefing.machine.kind == "cpu",
            "goal": goal.text if (goal := briefing.target.performance_target) else "",
            "editable": _describe_editable(briefing),
            "flags_file": briefing.contract.flags_file or "",
            "whose": _name_origin(briefing) if name in BEFORE_EDITS else "candidate",
            **variables,
        }
        attempt = f"-{variables['attempt']}" if "attempt" in variables else ""
        return Question(
            purpose=f"round-{briefing.round} {name}{attempt}",
            system=self._wording.system(),
            text=self._wording.question(name, **template_variables),
            schema=schema,
        )

    def _edits(
        self,
        name: str,
        briefing: Briefing,
        about: Hypothesis,
        *,
        texts: Mapping[str, str],
        evidence: str = "",
        beside: tuple[Hypothesis, ...] = (),
        place: int = 0,
        **more: Any,
    ) -> Draft:
        """Ask a model for edits of `texts`; give them as edits of the best version.

        `beside`: all candidates that one answer is about; `place`: the one whose edits are wanted.
        """
        contract = briefing.contract
        variables = {
            **self._context(briefing).drafting(about, texts, evidence=evidence, beside=beside),
            "number_lines": False,
            "whole_lines": EARLIER_WHOLE_LINES,
            **({"candidates": len(beside)} if beside else {}),
            **more,
        }
        # the tools read the best version, so they help only where that is what is edited
        tools = self._tools() if name in ("baseline", "draft") and ELIDED in variables["sources"] else ()
        question = self._add_tools(self._question(name, briefing, {**variables, "tools": bool(tools)}), briefing, tools)
        question = self._add_checks(question, lambda: of_edits(texts, contract, candidates=len(beside) or 1))
        exchange: Exchange[EditedFiles | str] = talk(
            self._model,
            question,
            lambda text: answers.read_end(text) or apply_candidate(text, texts, contract, len(beside) or 1, place),
        )
        prompts = self._wording.identities(name, tools=bool(tools))
        if isinstance(exchange.value, Wrong):
            unfit = "the recorded answer does not fit here" if exchange.final else "the answer could not be used, twice"
            why = f"{unfit}: {exchange.value.why}"
            return Draft(edits=(), refusal=why, prompts=prompts, cost=exchange.cost)
        if isinstance(exchange.value, str):
            why = f"nothing is left: {exchange.value}"
            return Draft(edits=(), refusal=why, exhausted=exchange.value, prompts=prompts, cost=exchange.cost)
        if beside and not exchange.value.edits:
            return Draft(edits=(), refusal="the answer has no edits for it", prompts=prompts, cost=exchange.cost)
        changed = {edit.path: edit.text for edit in exchange.value.edits if edit.text is not None}
        edits = measurements.against_best(briefing, {**texts, **changed})
        if not edits:
            return Draft(edits=(), refusal="the edits undo the change", prompts=prompts, cost=exchange.cost)
        return Draft(
            edits=edits, explanation=exchange.value.explanation or about.claim, prompts=prompts, cost=exchange.cost
        )


def _reads_web(briefing: Briefing) -> bool:
    """Whether the question for directions shows what the public web said."""
    return briefing.web is not None and bool(briefing.web.text)


def _name_origin(briefing: Briefing) -> str:
    """The version whose sources the prompt shows, as a sentence names it."""
    if briefing.base_round == briefing.best_round:
        return "best version"
    return "original" if briefing.base_round == 1 else f"version of round {briefing.base_round}"


def _proposal(exchange: Exchange[CheckedDirections], round: int, candidates: int) -> Proposal:
    """A model's best directions, at most `candidates`. A refusal is a round of its own, so that it is on record with its cost."""
    chosen = exchange.value
    if isinstance(chosen, Wrong):
        unfit = (
            "no direction of the recorded answer fits here"
            if exchange.final
            else "no usable direction in two answers; the last"
        )
        why = f"{unfit}: {chosen.why}"
        return Proposal(hypothesis=none_usable(round, why), dropped=exchange.complaints, cost=exchange.cost)
    dropped = (*exchange.complaints, *chosen.dropped)
    if not chosen.hypotheses:
        return Proposal(hypothesis=None, dropped=dropped, exhausted=chosen.exhausted, cost=exchange.cost)
    best, *others = chosen.hypotheses[:candidates]
    alternatives = chosen.hypotheses[1 + len(others) :]
    beside = (best, *others) if others else ()
    ranked = tuple(
        f"{alternative.id}: {alternative.change}{_describe_expectation(alternative)}" for alternative in alternatives
    )
    return Proposal(
        hypothesis=best,
        ranked=ranked,
        dropped=dropped,
        others=tuple(Proposal(hypothesis=other, beside=beside) for other in others),
        beside=beside,
        cost=exchange.cost,
    )


def _describe_expectation(about: Hypothesis) -> str:
    """For the prompt: the predicted speedup in brackets; empty where none was predicted."""
    speedup = about.prediction.speedup
    return f" ({speedup:.2f}x expected)" if speedup else ""


def _describe_editable(briefing: Briefing) -> str:
    """For the prompt: globs that may be edited; in workspace mode also which of them never leave the minimal project."""
    contract = briefing.contract
    globs = ", ".join(contract.editable_globs)
    core = (*contract.kernel_source, *((contract.flags_file,) if contract.flags_file else ()))
    if briefing.target.execution_mode == "repo" or set(contract.editable_globs) == set(core):
        return globs
    return f"{globs} (only {', '.join(core)} is synced back to the project; the rest is scaffolding)"


@cache
def _schema(answer: type[Answer]) -> str:
    """JSON Schema of a planner's answer, as text."""
    return json.dumps(answer.model_json_schema())
