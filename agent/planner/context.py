"""What a model is told, by priority under a budget of tokens; what does not fit is said to be left out."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cached_property
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Literal

from ridgeline.agent.planner import history as past
from ridgeline.agent.planner.catalog import read_build_flags
from ridgeline.agent.planner.conversation import (
    Count,
    Part,
    bound_text,
    bound_texts,
    choose_lines,
    clip_line,
    compose_parts,
    excerpt,
    fence,
    number_lines,
)
from ridgeline.agent.planner.measurements import by_shape, counted_work, describe_score, of_score, profile_of, timed_by
from ridgeline.agent.planner.scope import NamedLines, Scope, find_scope, line_spans, list_read_only, read_task
from ridgeline.agent.planner.tools import (
    Books,
    Reader,
    alien,
    cite,
    describe_card,
    distinct,
    focus,
    for_machine,
    is_covered,
    list_other_levers,
    of_other_dtype,
    relevant,
    spoken,
)
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.record import Spec
from ridgeline.graph.rules.audit import list_refused_rules
from ridgeline.graph.task import FLOAT8_LARGEST, Input
from ridgeline.graph.trial import Applied, find
from ridgeline.graph.values import Bucket, Hypothesis
from ridgeline.knowledge.cards import Card
from ridgeline.sandbox.audit.rules import describe_rules
from ridgeline.sandbox.judge.worker import COMPILERS, compile_command

FAILED_MOST = 450
"""Tokens of the list of failed directions, however large the budget: the prompt of round 100 is not that of a book."""
PROBLEM = 0.033
"""Share of the read-only files: 790 tokens of 24,000."""
LONG, LONG_PROBLEM = 0.4, 0.12
"""Share above which sources are long: what is timed is shown of them alone. Then the share of the read-only files."""
CITED = 8
"""Lines around a citation that a long source shows."""
EXCERPTS, EACH = 8, 220
"""Answers of a search that are looked through, and tokens of each."""
MOST_LEADS = 2
"""Versions ahead of the best one at some shapes whose diffs are shown."""
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
COMPILED = frozenset({"C", "CUDA", "HIP", "CK"})
"""Languages whose compilers take options that relax arithmetic."""
AMX = "tiles need syscall(SYS_arch_prctl, 0x1023, 18), spelled so: by a number or assembly it is refused; have another way where it fails"
"""What using matrix tiles of a processor needs on Linux, and how the audit reads it."""
ARITHMETIC = {
    "refused": "as written: options that change NaN, infinity or order (-ffast-math and its like) are refused",
    "allowed": "options that change NaN, infinity or order (-ffast-math and its like) are allowed",
}
SPEC = 80
"""Characters of a hardware number with its source."""
ON_CHIP_RATES = frozenset({"l1_bandwidth", "shuffle_rate"})
ON_CHIP = re.compile(r"/(?:l1|shared|scalar_or_shared)\b|bank_conflict|shuffle")
"""In the evidence of a bottleneck for which these rates are the ceiling: L1, shared memory, exchange between lanes."""


class Context:
    """The sections of one round's prompts, each fenced as data."""

    def __init__(self, briefing: Briefing, *, budget: int, count: Count, books: Books, reader: Reader) -> None:
        """What a model's prompt is made of. `budget`: tokens of a whole prompt, without the fixed words of its template."""
        self._reader = reader
        self._briefing = briefing
        self._budget = budget
        self._count = count
        self._books = books

    def planning(self, *, without_tools: bool) -> dict[str, str]:
        """Sections of the prompt for choosing a direction. `without_tools`: there are none, so more of the knowledge is shown at once."""
        rounds, count = self._briefing.rounds, self._count
        cards = MOST_CARDS if without_tools else MOST_CARDS - 1
        return self._compose(
            Part(name="target", share=0.1, make=lambda tokens: self._target(tokens, explained=False)),
            Part(name="shapes", share=0.05, make=self._shapes),
            Part(name="sources", share=LONG, make=lambda tokens: self._sources(self._texts(), tokens, number=True)),
            self._problem_part(number=True),
            Part(name="profile", share=0.06, make=lambda tokens: self._profile(tokens, predicts=True)),
            Part(name="knowledge", share=0.048, make=lambda tokens: self._levers(tokens, cards)),
            Part(name="lineage", share=0.05, make=lambda tokens: past.lineage(rounds, tokens=tokens, count=count)),
            Part(name="failed", share=0.05, make=self._describe_failures),
            Part(
                name="unmeasured",
                share=0.02,
                make=lambda tokens: past.describe_unmeasured(rounds, tokens=tokens, count=count),
            ),
            Part(
                name="outpaced",
                share=0.05,
                make=lambda tokens: past.describe_outpaced(
                    rounds,
                    best_round=self._briefing.best_round,
                    scoring=self._briefing.contract.scoring,
                    tokens=tokens,
                    count=count,
                ),
            ),
            Part(
                name="recent",
                share=0.1,
                make=lambda tokens: past.recent(rounds, self._briefing.contract.scoring, tokens=tokens, count=count),
            ),
            Part(name="directions", share=0.03, make=self._directions),
            Part(name="tips", share=0.05, make=self._tips),
        )

    def drafting(
        self,
        hypothesis: Hypothesis,
        texts: Mapping[str, str],
        *,
        evidence: str = "",
        beside: Sequence[Hypothesis] = (),
    ) -> dict[str, str]:
        """Sections of the prompt for writing edits of `texts`; `evidence` is what a compiler or a checker said of them.

        `beside`: all hypotheses that edits are asked for at once.
        """
        # Each is cut on its own: however long the others are, it keeps its name and its change.
        tasks = [f"CANDIDATE {number}\n{self._describe_task(one)}" for number, one in enumerate(beside, start=1)]
        tasks = tasks or [self._describe_task(hypothesis)]
        cited = tuple(source for one in beside or (hypothesis,) for source in one.sources)
        return self._compose(
            Part(name="target", share=0.1, make=self._target),
            Part(
                name="hypothesis",
                share=0.1,
                make=lambda tokens: "\n\n".join(bound_texts(tasks, tokens=tokens, count=self._count)),
            ),
            Part(name="evidence", share=0.15, make=lambda tokens: self._fit(evidence, tokens)),
            Part(
                name="sources",
                share=0.5,
                make=lambda tokens: self._sources(texts, tokens, number=False, cited=cited),
            ),
            self._problem_part(number=False),
            Part(name="profile", share=0.05, make=self._profile),
            Part(name="knowledge", share=0.06, make=lambda tokens: self._about(hypothesis, tokens)),
            Part(name="faster", share=0.25, make=self._describe_leads),
        )

    def looking_back(self, hypothesis: Hypothesis, evidence: str, *, diff: str, profiled: bool) -> dict[str, str]:
        """Sections of the prompt for learning from a closed trial; `evidence` is what was measured, `diff` the change that was judged.

        `profiled`: the evidence has the counters of both versions, so the profile is not shown once more.
        """
        profile = _nothing if profiled else self._profile
        return self._compose(
            Part(name="target", share=0.1, make=self._device),
            Part(name="hypothesis", share=0.1, make=lambda tokens: self._fit(self._describe(hypothesis), tokens)),
            Part(name="evidence", share=0.3, make=lambda tokens: self._fit(evidence, tokens)),
            Part(name="diff", share=0.3, make=lambda tokens: self._fit(diff, tokens)),
            Part(name="profile", share=0.1, make=profile),
        )

    def _compose(self, *parts: Part) -> dict[str, str]:
        """The sections of a prompt, each fenced; one that has nothing to say is empty."""
        texts = compose_parts(parts, budget=self._budget, count=self._count)
        return {name: fence(text) if text else "" for name, text in texts.items()}

    def _fit(self, text: str, tokens: int) -> str:
        """A prompt's text cut to `tokens`."""
        return bound_text(text, tokens=tokens, count=self._count) if text else ""

    def _describe(self, hypothesis: Hypothesis) -> str:
        """Section of the prompt: the hypothesis in lines, with what it would make of the score."""
        return describe_hypothesis(
            hypothesis, of_score(hypothesis, self._briefing.shapes, self._briefing.contract.scoring)
        )

    def _describe_task(self, hypothesis: Hypothesis) -> str:
        """Section of the prompt: the hypothesis as it is to be carried out, with the lines that it cites."""
        return "\n".join([self._describe(hypothesis), *self._quote_lines(hypothesis.sources)])

    def _quote_lines(self, places: Iterable[str]) -> Iterator[str]:
        """Lines of the sources that a hypothesis cites, for the prompt: where sources stand without numbers nobody could tell them."""
        texts = {path: text.splitlines() for path, text in self._texts().items()}
        for place in places:
            path, _, number = place.rpartition(":")
            lines = texts.get(path, [])
            if number.isdecimal() and 0 < int(number) <= len(lines):
                yield f"  {place}  {clip_line(lines[int(number) - 1].strip(), 120)}"

    def _texts(self) -> dict[str, str]:
        """Path -> text of the best version's editable files."""
        return {edit.path: edit.text for edit in self._briefing.sources if edit.text is not None}

    def _target(self, tokens: int, *, explained: bool = True) -> str:
        """Section of the prompt: problem, machine, and where the best version stands. `explained`: with what each refused kind means."""
        briefing, target, contract = self._briefing, self._briefing.target, self._briefing.contract
        facts = {
            "shapes": ", ".join(target.target_shapes),
            "score": describe_score(briefing),
            "goal": target.performance_target.text if target.performance_target else "",
            "work counted": counted_work(contract),
            "tested by": " ".join(contract.test_command),
            "measured by": " ".join(contract.quick_command),
            "timed by": timed_by(briefing),
            "benchmark": benchmark_says(briefing, self._reader) if briefing.machine.kind != "cpu" else "",
            "timed values": describe_values(briefing, self._reader),
            "right too at": describe_untimed_sizes(briefing, self._reader),
            "how exact": describe_exactness(briefing, self._reader),
            "whose work": describe_own_work(briefing, self._reader),
            "timed function": self._describe_scope(),
            **self._describe_refused(explained=explained),
            "tokens left": self._describe_tokens(),
            "best version": f"commit {briefing.best_commit[:12]} of round {briefing.best_round}",
            "changed here": ""
            if briefing.base_round == briefing.best_round
            else f"the version of round {briefing.base_round}; what it becomes is measured against the best version",
        }
        return self._fit("\n".join([*self._facts(), *_lines(facts), *self._peaks()]), tokens)

    def _describe_refused(self, *, explained: bool) -> dict[str, str]:
        """Facts for the prompt: source that is refused before it is built, by the audit's table, and what this contract lets through."""
        contract, compiled = self._briefing.contract, self._briefing.target.target_lang in COMPILED
        tiles = compiled and any(feature.startswith("amx") for feature in self._briefing.machine.features)
        return {
            "refused code": describe_rules(list_refused_rules(contract), compiled=compiled, explained=explained),
            "allowed code": ", ".join(contract.audit.allow),
            "amx": AMX if tiles else "",
        }

    def _describe_tokens(self) -> str:
        """Fact for the prompt: what is left of the campaign's tokens, and what the next question takes of it at most."""
        terms = self._briefing.terms
        if terms is None or terms.limits.max_tokens is None:
            return ""
        left = max(0, terms.limits.max_tokens - terms.spent.tokens)
        return (
            f"{left} of {terms.limits.max_tokens}; where a question's page and {terms.limits.answer_tokens} tokens of an answer"
            " do not fit into that, the campaign ends"
        )

    def _device(self, tokens: int) -> str:
        """Section of the prompt: problem and machine alone, nothing of a version."""
        return self._fit("\n".join([*self._facts(), *self._peaks()]), tokens)

    def _facts(self) -> list[str]:
        """Facts of problem and machine for the prompt, a line each."""
        target, machine, contract = self._briefing.target, self._briefing.machine, self._briefing.contract
        cores = f", {machine.cores} cores, threads granted {contract.threads}" if machine.kind == "cpu" else ""
        facts = {
            "operator": f"{target.target_op}, {target.dtype}: {contract.description}".rstrip(": "),
            "language": " on ".join(dict.fromkeys((target.target_lang, target.target_backend))),
            "device": f"{machine.name} ({target.platform}, {machine.arch}){cores}",
            "features": " ".join(machine.features),
            "caches": _caches(machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes),
            "compiler" if machine.kind == "cpu" else "software": machine.compiler,
            "built by": describe_build(self._briefing, self._reader),
            "arithmetic": ARITHMETIC[contract.relaxed_math] if target.target_lang in COMPILED else "",
        }
        return _lines(facts)

    def _peaks(self) -> list[str]:
        """Section of the prompt: hardware numbers with their sources; not those of caches that have a line already, nor of other dtypes."""
        machine, dtype = self._briefing.machine, self._briefing.target.dtype
        cached = bool(_caches(machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes))
        specs = [spec for spec in self._briefing.specs if not (cached and _of_cache(spec))]
        if not ON_CHIP.search(" ".join((self._briefing.bottleneck_evidence, *self._briefing.diagnosis))):
            specs = [spec for spec in specs if spec.metric not in ON_CHIP_RATES]
        return [clip_line(spec.text, SPEC) for spec in specs if not of_other_dtype(spec.metric, dtype)]

    def _shapes(self, tokens: int) -> str:
        """Section of the prompt: times and rates of each shape."""
        return self._fit(by_shape(self._briefing), tokens)

    def _describe_leads(self, tokens: int) -> str:
        """Section of the prompt: versions that are ahead of the best one at some shapes, each with its diff."""
        leads = past.find_leads(self._briefing.rounds, self._briefing.best_round)[:MOST_LEADS]
        told: list[str] = []
        for lead in leads:
            applied = find(lead.closed.judged, Applied)
            diff = self._reader.read_artifact(applied.diff) if applied else None
            if diff:
                told.append(f"==> round {lead.closed.round}, {lead.text}\n{diff}")
        return "\n\n".join(bound_texts(told, tokens=tokens, count=self._count))

    def _profile(self, tokens: int, *, predicts: bool = False) -> str:
        """Section of the prompt: bottleneck and counters of the best version; `predicts`: with what a prediction may be of."""
        return self._fit(profile_of(self._briefing, predicts=predicts), tokens)

    def _sources(self, texts: Mapping[str, str], tokens: int, *, number: bool, cited: tuple[str, ...] = ()) -> str:
        """Section of the prompt: every file with its path; smaller ones whole, so that the room goes to those that need it."""
        excerpts: dict[str, str] = {}
        left = tokens
        order = sorted(texts, key=lambda path: (len(texts[path]), path))
        spans = line_spans(texts, self._scope.functions) if self._scope else {}
        for place, path in enumerate(order):
            room = max(0, left // (len(order) - place))
            render = number_lines if number else excerpt
            if path in spans and self._count(texts[path]) > room:
                excerpts[path] = self._timed_lines(texts[path], spans[path], room, number, focus(cited, path))
            else:
                excerpts[path] = render(texts[path], tokens=room, count=self._count, focus=focus(cited, path))
            left -= self._count(excerpts[path])
        return "\n\n".join(f"==> {path}\n{excerpts[path]}" for path in texts)

    def _timed_lines(
        self, text: str, spans_by_name: Sequence[NamedLines], tokens: int, number: bool, cited: tuple[int, ...]
    ) -> str:
        """Section of the prompt: of a long source what is timed, then the lines around citations; what found no room by name."""
        around = [(max(1, line - CITED), line + CITED) for line in cited]
        spans = [(item.start, item.end) for item in spans_by_name]
        around += [(at, at) for at, line in enumerate(text.splitlines(), start=1) if _INCLUDE.match(line)]
        chosen, left_out = choose_lines(text, [*spans, *around], tokens=tokens, count=self._count, number=number)
        names = [
            f"{item.name} ({item.start}-{item.end})" for item in spans_by_name if (item.start, item.end) in left_out
        ]
        return chosen + (f"\n[used too, no room: {', '.join(names[:NAMED])}]" if names else "")

    @cached_property
    def _scope(self) -> Scope | None:
        """What is timed, for the prompt; None where nobody says it, and where the sources are short enough to be shown whole."""
        if sum(self._count(text) for text in self._texts().values()) <= LONG * self._budget:
            return None
        return find_scope(self._briefing, self._reader)

    def _describe_scope(self) -> str:
        """Section of the prompt: the timed functions of long sources, and who names them."""
        scope = self._scope
        return (
            f"{', '.join(scope.functions)}, named by {scope.because}; only it and what it uses may change"
            if scope
            else ""
        )

    def _problem_part(self, *, number: bool) -> Part:
        """The prompt's read-only files that define the problem; of long sources the timed function's types, test and benchmark."""
        scope = self._scope
        if scope is None:
            return Part(name="problem", share=PROBLEM, make=self._problem)
        return Part(name="problem", share=LONG_PROBLEM, make=lambda tokens: self._of_harness(scope, tokens, number))

    def _of_harness(self, scope: Scope, tokens: int, number: bool) -> str:
        """For the prompt: types and macros of headers, then what of test and benchmark calls the timed function, a file at a time."""
        briefing, parts, left = self._briefing, list[str](), tokens
        read_only = list_read_only(briefing, self._reader, scope)
        for path, spans in read_only.items():
            text = self._reader.text(briefing.base_commit, path) or ""
            lines = [(item.start, item.end) for item in spans]
            chosen, _ = choose_lines(text, lines, tokens=left, count=self._count, number=number)
            left -= self._count(chosen)
            parts.append(f"==> {path} (read-only)\n{chosen}")
        sources = {edit.path for edit in briefing.sources}
        places = [path for path in self._reader.paths(briefing.base_commit) if path not in sources | set(read_only)]
        return "\n\n".join([*parts, *_name_places([path for path in places if not path.startswith(".")])])

    def _problem(self, tokens: int) -> str:
        """Section of the prompt: the read-only files that define the problem."""
        return problem(self._briefing, self._reader, tokens=tokens, count=self._count)

    def _question(self) -> str:
        """What the knowledge is searched for when a direction is chosen: at most 600 characters."""
        briefing = self._briefing
        return " ".join(
            (briefing.bottleneck, briefing.bottleneck_evidence, briefing.target.target_op, *briefing.directions)
        )[:600]

    def _levers(self, tokens: int, cards: int) -> str:
        """Section of the prompt: the best cards whole, each reason once, the next ones by name; a section of a document where one fits."""
        briefing = self._briefing
        cards -= briefing.machine.kind != "cpu"  # a section of a document takes its place
        choices = [(card, forms) for card, forms in distinct(self._list_cards()) if not alien(spoken(card), briefing)]
        op = briefing.target.target_op
        covered = not choices or is_covered([card for card, _ in choices], briefing)
        parts: list[str] = (
            [] if covered else [f"not covered: no lever here is about {op}; these are for kernels of any kind"]
        )
        cards += len(parts)
        places: list[str] = []
        for card, forms in choices:
            text = describe_card(card, forms)
            if len(parts) < cards and self._count("\n\n".join([*parts, text])) <= tokens:
                parts.append(text)
            else:
                places += [f"{card.path}:1"]
        parts += [left] if (left := list_other_levers(places)) else []
        left_over = min(SECTION, tokens - self._count("\n\n".join(parts)))
        parts += self._sections(self._question(), 1, left_over, phase="propose")
        return self._fit("\n\n".join(parts), tokens)

    def _list_cards(self) -> tuple[Card, ...]:
        """Cards for the prompt, without those for what the build's options do already."""
        build = read_build_flags(self._briefing, self._reader)
        cards = self._books.levers(self._briefing, self._scope)
        return tuple(card for card in cards if not (card.excludes.flags and re.search(card.excludes.flags, build)))

    def _about(self, hypothesis: Hypothesis, tokens: int) -> str:
        """The card that the hypothesis is about or cites, then sections."""
        cited = [card for card in self._list_cards() if _rests_on(hypothesis, card.id, card.path)]
        parts = [describe_card(card, how=True) for card in cited[:MOST_CITED]]
        left = tokens - self._count("\n\n".join(parts))
        parts += self._sections(f"{hypothesis.change} {hypothesis.lever}", MOST_CITED, left, phase="draft")
        return self._fit("\n\n".join(parts), tokens)

    def _sections(
        self, question: str, most: int, tokens: int, *, phase: Literal["propose", "draft"]
    ) -> tuple[str, ...]:
        """Sections of documents that are about the target; cards have been shown as cards."""
        if tokens <= 0:
            return ()
        hits = self._books.find(question, self._briefing, phase=phase, limit=EXCERPTS, budget=EXCERPTS * EACH)
        documents = [hit for hit in hits if "/cards/" not in hit.path]
        trimmed_hits = [relevant(hit, self._briefing) for hit in for_machine(documents, self._briefing)]
        fit = [hit for hit in trimmed_hits if hit is not None]
        parts: list[str] = []
        for hit in fit[:most]:
            lines = cite(hit).splitlines()
            while len(lines) > 1 and self._count("\n\n".join([*parts, "\n".join(lines)])) > tokens:
                lines.pop()
            parts += ["\n".join(lines)] if len(lines) > 1 else []
        return tuple(parts)

    def _describe_failures(self, tokens: int) -> str:
        """Section of the prompt: failed directions, in at most `FAILED_MOST` tokens."""
        return past.ineffective(self._briefing.rounds, tokens=min(tokens, FAILED_MOST), count=self._count)

    def _directions(self, tokens: int) -> str:
        """Section of the prompt: directions of the last review, a line each."""
        return self._fit("\n".join(f"- {clip_line(line, 400)}" for line in self._briefing.directions), tokens)

    def _tips(self, tokens: int) -> str:
        """Section of the prompt: lessons of earlier campaigns, and the champions of theirs that cannot be tried here."""
        champions = (
            f"Best version of campaign {champion.campaign}, {champion.speedup:.2f}x there, no candidate here"
            f" ({champion.mismatch}); {edit.path}:\n{edit.text}"
            for champion in self._briefing.champions
            for edit in champion.files
        )
        return self._fit("\n\n".join((*filter(None, (self._briefing.tips,)), *champions)), tokens)


def describe_hypothesis(hypothesis: Hypothesis, score: str = "") -> str:
    """A hypothesis for the prompt in lines, as it was written down before any edit; `score`: what it would make of the score."""
    lines = [
        f"[{hypothesis.id}] {hypothesis.claim}",
        f"change: {hypothesis.change}",
        f"kind: {hypothesis.category}, for {past.describe_shapes_of(hypothesis)}{BUCKETS.get(hypothesis.bucket, '')}",
        *(f"evidence: {line}" for line in hypothesis.evidence),
        f"risks: {hypothesis.risks}",
        f"verification: {hypothesis.verification}",
        f"prediction: {past.prediction(hypothesis)}{f', {score}' if score else ''}",
    ]
    rests = [f"rests on: {', '.join(hypothesis.sources)}"] if hypothesis.sources else []
    return "\n".join([*lines, *rests])


def _rests_on(hypothesis: Hypothesis, lever: str, path: str) -> bool:
    """Whether a model's hypothesis is about this lever or cites its card."""
    return hypothesis.lever == lever or any(place.startswith(f"{path}:") for place in hypothesis.sources)


def _of_cache(spec: Spec) -> bool:
    """Whether a hardware number is a size that the prompt's line of the caches has already."""
    return "cache" in spec.metric and spec.value is not None


def _lines(facts: Mapping[str, str]) -> list[str]:
    """`name: text` lines of a prompt for each fact that is not empty."""
    return [f"{name}: {text}" for name, text in facts.items() if text]


def _nothing(tokens: int) -> str:
    """An empty section of a prompt."""
    return ""


def _caches(*sizes: int | None) -> str:
    """Cache sizes of L1d, L2 and L3 in KiB for the prompt; those that are not known are left out."""
    levels = zip(("L1d", "L2", "L3"), sizes, strict=True)
    return ", ".join(f"{name} {size // 1024} KiB" for name, size in levels if size)


# Read-only files that say what the problem is: shapes, error bounds, the interface. The rest of the tree by name.

TELLING = re.compile(r"problem|reference|shape|spec|tolerance|^task\.ya?ml$", re.IGNORECASE)
"""Names of files that usually define what is right."""
MACHINERY = re.compile(r"(^|/)(test|bench|harness|make)", re.IGNORECASE)
"""Files that measure or build: they are long, and nothing in them helps to write a kernel."""
LEAST = 150
"""Tokens below which a part of a file says nothing."""
BODY = 2
"""Lines from which a function's body is left out where the whole file does not fit."""
WHOLE = 1500
"""Characters up to which a file is shown with every body that it has."""
TELLS = re.compile(r"error|bound|tolerance|expect|reference", re.IGNORECASE)
"""In a function that is left out after the others: it says what is right."""
NEEDED = re.compile(r"\b(?:inputs?|work|trusted|exact|reference|expected|fill|generate)\w*\s*\(", re.IGNORECASE)
"""In the first line of a function that is left out last: which values come, and what must come of them."""
DECIDES = re.compile(
    r"\b(?:reference|exact|expected|trusted|truth|check|compare|verify|close|equal|worst|mismatch|error|tolerance|bound)\w*\s*\(",
    re.IGNORECASE,
)
"""In the first line of a function that decides what is right: its body is never left out."""
LISTS = re.compile(r"struct|class|enum|=")
"""In the first line of what is never left out."""
LEVELS = (0, 1, 2)
"""How much is left out, until the rest fits."""
LONGEST = 300
"""Characters of what the benchmark says of its timing."""
NAMED = 30
"""Other files that are named."""
_EXPLAINS = re.compile(r'^(?:""".*"""$|import |from |DIMENSIONS\b|LEAST_ERROR\b|CHUNK\b)')
_LONG = re.compile(r'^(    """[^"\n]+)\n(?:(?!    """$).*\n)*    """$', re.MULTILINE)
_TOP = re.compile(r'\s*(?:r?"""|/\*)(.*?)(?:"""|\*/)', re.DOTALL)
_USAGE = re.compile(r"--\w|\S {3,}\S")
"""A line that shows how to call it."""
_TIMING = re.compile(r"\b(?:L2|caches?|cold|warm|flush\w*|host|overhead|graphs?)\b", re.IGNORECASE)
_INCLUDE = re.compile(r"\s*#\s*include\b")
_IMPORT = re.compile(r"^\s*(?:#\s*include\s*\"([^\"]+)\"|(?:from|import)\s+([\w.]+))", re.MULTILINE)


def problem(briefing: Briefing, reader: Reader, *, tokens: int, count: Count) -> str:
    """The prompt's defining files within `tokens`, each marked read-only, and what else there is by name."""
    source_paths = {edit.path for edit in briefing.sources}
    paths = [path for path in reader.paths(briefing.base_commit) if path not in source_paths]
    parts: list[str] = []
    left = tokens
    defining = _defining(briefing, paths)
    for path in defining:
        text = reader.text(briefing.base_commit, path)
        if text is None or not text.strip() or left < LEAST:
            continue
        full_text = f"==> {path} (read-only)\n{text.rstrip()}"
        forms = (
            *((full_text,) if len(full_text) <= WHOLE else ()),
            *(fold_bodies(terse(full_text), level) for level in LEVELS),
        )
        part = next((form for form in forms if count(form) <= left), bound_text(forms[-1], tokens=left, count=count))
        left -= count(part)
        parts.append(part)
    headings = {part.partition("\n")[0] for part in parts}
    other_paths = [path for path in paths if f"==> {path} (read-only)" not in headings and not path.startswith(".")]
    return "\n\n".join([*parts, *_name_places(other_paths)])


def fold_bodies(text: str, level: int = 0) -> str:
    """A source for the prompt without the bodies of functions that say nothing of errors or inputs; lists, structures, comments stay.

    `level`: 1 leaves out all but those that say what comes and what is right, 2 all but those that decide what is right.
    Every gap is stated.
    """
    lines = text.splitlines()
    out: list[str] = []
    at = 0
    while at < len(lines):
        body = list(takewhile(lambda line: not line or line[0].isspace(), lines[at + 1 :]))
        long = len(body) - len(list(takewhile(lambda line: not line, reversed(body))))
        dull = _is_foldable(lines[at], body, level)
        out.append(lines[at])
        out += [f"    [{long} lines left out]", *body[long:]] if dull else body
        at += 1 + len(body)
    return "\n".join(out)


def terse(text: str) -> str:
    """A Python source for the prompt without what only explains or serves the harness: texts under a name, imports, long explanations."""
    lines: list[str] = []
    source_lines = _LONG.sub(r'\1"""', text).splitlines()
    for line in source_lines:
        if not _EXPLAINS.match(line) and (line or lines[-1:] != [""]):
            lines.append(line)
    notice = ["[imports and explanations left out]"] if any(map(_EXPLAINS.match, source_lines)) else []
    return "\n".join([*lines[:1], *notice, *lines[1:]])


_CACHE_FIELD = re.compile(r"^cache: (cold|warm)$", re.MULTILINE)
CACHE_PHRASES = {"cold": "outside the L2 cache", "warm": "in the L2 cache, as far as they fit"}


def benchmark_says(briefing: Briefing, reader: Reader) -> str:
    """For the prompt: what the benchmark's file says at its top about caches and launches, or a task of the judge by its field."""
    paths = set(reader.paths(briefing.base_commit))
    path = next((word for word in briefing.contract.quick_command if word in paths), None)
    text = (reader.text(briefing.base_commit, path) or "") if path else ""
    if path and path.endswith(".yaml") and (cache := _CACHE_FIELD.search(text)):
        return f"the judge's: timed calls find their inputs {CACHE_PHRASES[cache.group(1)]}"
    header = _TOP.match(text)
    lines = (line.strip(" *") for line in (header.group(1) if header else "").splitlines())
    prose = " ".join("." if _USAGE.search(line) or not line else line for line in lines)
    sentences = re.split(r"(?<=[.;])\s+", prose)
    timing_sentences = [sentence for sentence in sentences if _TIMING.search(sentence)]
    return clip_line(" ".join(timing_sentences), LONGEST) or "does not say whether the L2 cache is cold or warm"


def describe_values(briefing: Briefing, reader: Reader) -> str:
    """For the prompt: how the inputs of timed calls are drawn, as a task of the judge declares them; empty for a benchmark's own."""
    task = read_task(briefing, reader)
    return "; ".join(f"{entry.name} {_describe_spread(entry)}" for entry in task.inputs) if task else ""


def describe_untimed_sizes(briefing: Briefing, reader: Reader) -> str:
    """For the prompt: at which sizes beside the timed ones the judge tests; empty for tests of a project's own."""
    task = read_task(briefing, reader)
    if task is None:
        return ""
    untimed = [shape.label for shape in task.shapes if not shape.timed]
    ranges = ", ".join(f"{name} {low} to {high}" for name, (low, high) in task.drawn.ranges.items())
    drawn = f"{task.drawn.count} sizes drawn anew{f' ({ranges})' if ranges else ''}" if task.drawn.count else ""
    return ", ".join(part for part in (drawn, *untimed) if part)


PRECISIONS = {
    "strict": "to the rounding of that type: no TF32, no fast math, no formula that rounds more (Strassen, one-pass variance)",
    "relaxed": "formulas that round more are allowed, as far as products in TF32 would err",
    "tf32": "products in TF32 are allowed",
    "emulated": "splits into several lower-precision products are allowed",
}


def describe_exactness(briefing: Briefing, reader: Reader) -> str:
    """For the prompt: how near outputs must come to float64, as a task of the judge says it; empty for tests of a project's own."""
    task = read_task(briefing, reader)
    if task is None:
        return ""
    kinds = {output.dtype for output in task.outputs}
    words = []
    if kinds & {"float32", "float64"}:
        words.append(f"floats in any order of sums, {PRECISIONS[task.precision]}")
    if kinds & {"float16", "bfloat16"}:
        words.append("half precision summed in fp32 and rounded once")
    if kinds & FLOAT8_LARGEST.keys():
        words.append("8-bit floats as the nearest to a result in fp32, next to a tie either neighbour")
    if any("int" in kind or kind == "bool" for kind in kinds):
        words.append("whole numbers exactly")
    return "; ".join((*words, "no share of elements may be wrong"))


LIBRARIES = {
    "forbidden": "the kernel's own: results of PyTorch's operators or a vendor's library are refused",
    "reported": "the kernel's own or a library's, and the report says which",
    "allowed": "the kernel's own or a library's",
}


def describe_build(briefing: Briefing, reader: Reader) -> str:
    """For the prompt: the words that compile the kernel: a task's with its flags, else the contract's command; empty without any."""
    task = read_task(briefing, reader)
    if task is None:
        return " ".join(briefing.contract.rebuild.command or ())
    if task.language not in COMPILERS:
        return ""
    words = " ".join(compile_command(task, Path(), Path("LIBRARY")))
    return f"{words}; of options that contradict each other the last holds"


def describe_own_work(briefing: Briefing, reader: Reader) -> str:
    """For the prompt: whether a library may compute the result, as a task of the judge says it."""
    task = read_task(briefing, reader)
    return LIBRARIES[task.library] if task else ""


def _describe_spread(tensor: Input) -> str:
    """For the prompt: what a kernel may count on when timed, and not in tests."""
    if tensor.dtype == "bool" or tensor.values == "mask":
        return "true or false alike"
    if "int" in tensor.dtype or tensor.values == "integers":
        return f"whole numbers from {tensor.low} to {tensor.high - 1}"
    low, high = tensor.within or {"uniform": (-1.0, 1.0), "positive": (0.1, 1.0)}.get(tensor.values, (0.0, 0.0))
    return "normal, mean 0 and deviation 1" if tensor.values == "normal" else f"uniform from {low:g} to {high:g}"


def _is_foldable(head: str, body: list[str], level: int) -> bool:
    """Whether a block of source is a function whose body may be left out of the prompt."""
    if len(body) < BODY or head[:1].isspace() or not head.endswith(("{", ":")) or LISTS.search(head):
        return False
    if DECIDES.search(head):
        return False
    if level == 0:
        return not (NEEDED.search(head) or TELLS.search("\n".join([head, *body])))
    return level > 1 or not NEEDED.search(head)


def _defining(briefing: Briefing, paths: Iterable[str]) -> list[str]:
    """For the prompt, what the kernel includes first, then files whose names say that they define the problem."""
    sources = "\n".join(edit.text or "" for edit in briefing.sources)
    included_names = {
        PurePosixPath((include or module).replace(".", "/") if module else include).name
        for include, module in _IMPORT.findall(sources)
    }

    def rank(path: str) -> int:
        """0: the kernel includes it; 1: protected, and its name says that it defines the problem; 2: neither."""
        name = PurePosixPath(path)
        if name.name in included_names or (name.suffix == ".py" and name.stem in included_names):
            return 0
        guarded = any(fnmatch(path, glob) for glob in briefing.contract.protected)
        return 1 if guarded and TELLING.search(name.name) and not MACHINERY.search(path) else 2

    return sorted((path for path in paths if rank(path) < 2), key=lambda path: (rank(path), path))


def _name_places(paths: list[str]) -> list[str]:
    """One line that names files which are not shown; none where there are none."""
    if not paths:
        return []
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return [f"read-only too, not shown: {', '.join(paths[:NAMED])}{more}"]
