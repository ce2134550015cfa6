"""What a model is told, by priority under a budget of tokens; what does not fit is said to be left out."""

from collections.abc import Mapping
from typing import Literal

from ridgeline.agent.planners import model_history as past
from ridgeline.agent.planners.model_cite import focus
from ridgeline.agent.planners.model_fit import Count, Part, bounded, clipped, composed, excerpt, fenced, numbered
from ridgeline.agent.planners.model_levers import distinct, others, shown, spoken
from ridgeline.agent.planners.model_numbers import by_shape
from ridgeline.agent.planners.model_problem import benchmark_says, problem
from ridgeline.agent.planners.model_profile import profile_of
from ridgeline.agent.planners.model_relevance import alien, for_machine, of_other_dtype, relevant
from ridgeline.agent.planners.model_score import averaged, counted_work, of_score, timed_by
from ridgeline.agent.planners.model_tools import Books, Reader, cite
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.record import Spec
from ridgeline.graph.values import Bucket, Hypothesis

FAILED_MOST = 450
"""Tokens of the list of failed directions, however large the budget: the prompt of round 100 is not that of a book."""
PROBLEM = 0.033
"""Share of the read-only files: 790 tokens of 24,000."""
EXCERPTS, EACH = 8, 220
"""Answers of a search that are looked through, and tokens of each."""
MOST_CARDS, MOST_CITED = 4, 2
"""Cards that are shown to choose from, and those shown to who writes the change."""
SECTION = 110
"""Tokens of the one section that stands beside cards to choose from."""
BUCKETS: Mapping[Bucket, str] = {
    "K2": "; a kernel for one layout (K2)",
    "K3": "; fusion into one launch (K3)",
    "K4": "; data handed on within one call (K4)",
    "W1": "; a cache of quantised weights keyed on identity and version (W1)",
}
"""Where a gain comes from, in words; most come from inside the kernel, which needs none."""
SPEC = 80
"""Characters of a hardware number with its source."""


class Context:
    """The sections of one round's prompts, each fenced as data."""

    def __init__(self, briefing: Briefing, *, budget: int, count: Count, books: Books, reader: Reader) -> None:
        """`budget`: tokens of a whole prompt, without the fixed words of its template."""
        self._reader = reader
        self._briefing = briefing
        self._budget = budget
        self._count = count
        self._books = books

    def planning(self, *, whole: bool) -> dict[str, str]:
        """For choosing a direction. `whole`: there are no tools, so more of the knowledge is shown at once."""
        rounds, count = self._briefing.rounds, self._count
        cards = MOST_CARDS if whole else MOST_CARDS - 1
        return self._composed(
            Part(name="target", share=0.1, make=self._target),
            Part(name="shapes", share=0.05, make=self._shapes),
            Part(name="sources", share=0.4, make=lambda tokens: self._sources(self._texts(), tokens, number=True)),
            Part(name="problem", share=PROBLEM, make=self._problem),
            Part(name="profile", share=0.06, make=self._profile),
            Part(name="knowledge", share=0.048, make=lambda tokens: self._levers(tokens, cards)),
            Part(name="lineage", share=0.05, make=lambda tokens: past.lineage(rounds, tokens=tokens, count=count)),
            Part(name="failed", share=0.05, make=self._failed),
            Part(
                name="unmeasured",
                share=0.02,
                make=lambda tokens: past.unmeasured(rounds, tokens=tokens, count=count),
            ),
            Part(name="recent", share=0.1, make=lambda tokens: past.recent(rounds, tokens=tokens, count=count)),
            Part(name="directions", share=0.03, make=self._directions),
            Part(name="tips", share=0.05, make=self._tips),
        )

    def drafting(self, asked: Hypothesis, texts: Mapping[str, str], *, evidence: str = "") -> dict[str, str]:
        """For writing edits of `texts`; `evidence` is what a compiler or a checker said of them."""
        return self._composed(
            Part(name="target", share=0.1, make=self._target),
            Part(name="hypothesis", share=0.1, make=lambda tokens: self._fit(self._described(asked), tokens)),
            Part(name="evidence", share=0.15, make=lambda tokens: self._fit(evidence, tokens)),
            Part(
                name="sources",
                share=0.5,
                make=lambda tokens: self._sources(texts, tokens, number=False, cited=asked.sources),
            ),
            Part(name="problem", share=PROBLEM, make=self._problem),
            Part(name="profile", share=0.05, make=self._profile),
            Part(name="knowledge", share=0.06, make=lambda tokens: self._about(asked, tokens)),
        )

    def looking_back(self, asked: Hypothesis, evidence: str, *, diff: str, profiled: bool) -> dict[str, str]:
        """For learning from a closed trial; `evidence` is what was measured, `diff` the change that was judged.

        `profiled`: the evidence has the counters of both versions, so the profile is not shown once more.
        """
        profile = _nothing if profiled else self._profile
        return self._composed(
            Part(name="target", share=0.1, make=self._device),
            Part(name="hypothesis", share=0.1, make=lambda tokens: self._fit(self._described(asked), tokens)),
            Part(name="evidence", share=0.3, make=lambda tokens: self._fit(evidence, tokens)),
            Part(name="diff", share=0.3, make=lambda tokens: self._fit(diff, tokens)),
            Part(name="profile", share=0.1, make=profile),
        )

    def _composed(self, *parts: Part) -> dict[str, str]:
        """Each part fenced; one that has nothing to say is empty."""
        found = composed(parts, budget=self._budget, count=self._count)
        return {name: fenced(text) if text else "" for name, text in found.items()}

    def _fit(self, text: str, tokens: int) -> str:
        return bounded(text, tokens=tokens, count=self._count) if text else ""

    def _described(self, asked: Hypothesis) -> str:
        return described(asked, of_score(asked, self._briefing.shapes))

    def _texts(self) -> dict[str, str]:
        return {edit.path: edit.text for edit in self._briefing.sources if edit.text is not None}

    def _target(self, tokens: int) -> str:
        """Problem, machine, and where the best version stands."""
        told, target, contract = self._briefing, self._briefing.target, self._briefing.contract
        facts = {
            "shapes": ", ".join(target.target_shapes),
            "score": averaged(told),
            "goal": target.performance_target.text if target.performance_target else "",
            "work counted": counted_work(contract),
            "tested by": " ".join(contract.test_command),
            "measured by": " ".join(contract.quick_command),
            "timed by": timed_by(told),
            "benchmark": benchmark_says(told, self._reader) if told.machine.kind != "cpu" else "",
            "best version": f"commit {told.best_commit[:12]} of round {told.best_round}",
        }
        return self._fit("\n".join([*self._facts(), *_lines(facts), *self._peaks()]), tokens)

    def _device(self, tokens: int) -> str:
        """Problem and machine alone: nothing of a version."""
        return self._fit("\n".join([*self._facts(), *self._peaks()]), tokens)

    def _facts(self) -> list[str]:
        target, machine, contract = self._briefing.target, self._briefing.machine, self._briefing.contract
        cores = f", {machine.cores} cores, threads granted {contract.threads}" if machine.kind == "cpu" else ""
        facts = {
            "operator": f"{target.target_op}, {target.dtype}: {contract.description}".rstrip(": "),
            "language": " on ".join(dict.fromkeys((target.target_lang, target.target_backend))),
            "device": f"{machine.name} ({target.platform}, {machine.arch}){cores}",
            "features": " ".join(machine.features),
            "caches": _caches(machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes),
            "compiler": machine.compiler,
        }
        return _lines(facts)

    def _peaks(self) -> list[str]:
        """Hardware numbers with their sources; not those of caches that have a line already, nor of other dtypes."""
        machine, dtype = self._briefing.machine, self._briefing.target.dtype
        cached = bool(_caches(machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes))
        said = [spec for spec in self._briefing.specs if not (cached and _of_cache(spec))]
        return [clipped(spec.text, SPEC) for spec in said if not of_other_dtype(spec.metric, dtype)]

    def _shapes(self, tokens: int) -> str:
        return self._fit(by_shape(self._briefing), tokens)

    def _profile(self, tokens: int) -> str:
        return self._fit(profile_of(self._briefing), tokens)

    def _sources(self, texts: Mapping[str, str], tokens: int, *, number: bool, cited: tuple[str, ...] = ()) -> str:
        """Every file with its path; smaller ones whole, so that the room goes to those that need it."""
        shown: dict[str, str] = {}
        left = tokens
        order = sorted(texts, key=lambda path: (len(texts[path]), path))
        for place, path in enumerate(order):
            room = max(0, left // (len(order) - place))
            render = numbered if number else excerpt
            shown[path] = render(texts[path], tokens=room, count=self._count, focus=focus(cited, path))
            left -= self._count(shown[path])
        return "\n\n".join(f"==> {path}\n{shown[path]}" for path in texts)

    def _problem(self, tokens: int) -> str:
        return problem(self._briefing, self._reader, tokens=tokens, count=self._count)

    def _question(self) -> str:
        told = self._briefing
        return " ".join((told.bottleneck, told.bottleneck_evidence, told.target.target_op, *told.directions))[:600]

    def _levers(self, tokens: int, cards: int) -> str:
        """The best cards whole, each reason once, the next ones by name; a section of a document where one fits."""
        told = self._briefing
        cards -= told.machine.kind != "cpu"  # a section of a document takes its place
        found = [(card, forms) for card, forms in distinct(self._books.levers(told)) if not alien(spoken(card), told)]
        parts: list[str] = []
        named: list[str] = []
        for card, forms in found:
            text = shown(card, forms)
            if len(parts) < cards and self._count("\n\n".join([*parts, text])) <= tokens:
                parts.append(text)
            else:
                named += [f"{card.path}:1"]
        parts += [left] if (left := others(named)) else []
        left_over = min(SECTION, tokens - self._count("\n\n".join(parts)))
        parts += self._sections(self._question(), 1, left_over, phase="propose")
        return self._fit("\n\n".join(parts), tokens)

    def _about(self, asked: Hypothesis, tokens: int) -> str:
        """The card that the hypothesis is about or cites, then sections."""
        cited = [card for card in self._books.levers(self._briefing) if _rests_on(asked, card.id, card.path)]
        parts = [shown(card, how=True) for card in cited[:MOST_CITED]]
        left = tokens - self._count("\n\n".join(parts))
        parts += self._sections(f"{asked.change} {asked.lever}", MOST_CITED, left, phase="draft")
        return self._fit("\n\n".join(parts), tokens)

    def _sections(
        self, question: str, most: int, tokens: int, *, phase: Literal["propose", "draft"]
    ) -> tuple[str, ...]:
        """Sections of documents that are about the target; cards have been shown as cards."""
        if tokens <= 0:
            return ()
        hits = self._books.find(question, self._briefing, phase=phase, limit=EXCERPTS, budget=EXCERPTS * EACH)
        documents = [hit for hit in hits if "/cards/" not in hit.path]
        said = [relevant(hit, self._briefing) for hit in for_machine(documents, self._briefing)]
        fit = [hit for hit in said if hit is not None]
        parts: list[str] = []
        for hit in fit[:most]:
            lines = cite(hit).splitlines()
            while len(lines) > 1 and self._count("\n\n".join([*parts, "\n".join(lines)])) > tokens:
                lines.pop()
            parts += ["\n".join(lines)] if len(lines) > 1 else []
        return tuple(parts)

    def _failed(self, tokens: int) -> str:
        return past.ineffective(self._briefing.rounds, tokens=min(tokens, FAILED_MOST), count=self._count)

    def _directions(self, tokens: int) -> str:
        return self._fit("\n".join(f"- {clipped(line, 400)}" for line in self._briefing.directions), tokens)

    def _tips(self, tokens: int) -> str:
        return self._fit(self._briefing.tips or "", tokens)


def described(asked: Hypothesis, score: str = "") -> str:
    """A hypothesis in lines, as it was written down before any edit; `score`: what it would make of the score."""
    lines = [
        f"[{asked.id}] {asked.claim}",
        f"change: {asked.change}",
        f"kind: {asked.category}, for {past.whom(asked)}{BUCKETS.get(asked.bucket, '')}",
        *(f"evidence: {line}" for line in asked.evidence),
        f"risks: {asked.risks}",
        f"verification: {asked.verification}",
        f"prediction: {past.prediction(asked)}{f', {score}' if score else ''}",
    ]
    rests = [f"rests on: {', '.join(asked.sources)}"] if asked.sources else []
    return "\n".join([*lines, *rests])


def _rests_on(asked: Hypothesis, lever: str, path: str) -> bool:
    return asked.lever == lever or any(place.startswith(f"{path}:") for place in asked.sources)


def _of_cache(spec: Spec) -> bool:
    """A size that the line of the caches has already."""
    return "cache" in spec.metric and spec.value is not None


def _lines(facts: Mapping[str, str]) -> list[str]:
    return [f"{name}: {text}" for name, text in facts.items() if text]


def _nothing(tokens: int) -> str:
    return ""


def _caches(*sizes: int | None) -> str:
    named = zip(("L1d", "L2", "L3"), sizes, strict=True)
    return ", ".join(f"{name} {size // 1024} KiB" for name, size in named if size)
