"""What a model is told, by priority under a budget of tokens; what does not fit is said to be left out."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Literal

from ridgeline.agent.planner import history as past
from ridgeline.agent.planner.conversation import (
    Count,
    Part,
    bound_text,
    clip_line,
    compose_parts,
    excerpt,
    fence,
    number_lines,
)
from ridgeline.agent.planner.measurements import by_shape, counted_work, describe_score, of_score, profile_of, timed_by
from ridgeline.agent.planner.tools import (
    Books,
    Reader,
    alien,
    cite,
    describe_card,
    distinct,
    focus,
    for_machine,
    list_other_levers,
    of_other_dtype,
    relevant,
    spoken,
)
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
        return self._compose(
            Part(name="target", share=0.1, make=self._target),
            Part(name="shapes", share=0.05, make=self._shapes),
            Part(name="sources", share=0.4, make=lambda tokens: self._sources(self._texts(), tokens, number=True)),
            Part(name="problem", share=PROBLEM, make=self._problem),
            Part(name="profile", share=0.06, make=self._profile),
            Part(name="knowledge", share=0.048, make=lambda tokens: self._levers(tokens, cards)),
            Part(name="lineage", share=0.05, make=lambda tokens: past.lineage(rounds, tokens=tokens, count=count)),
            Part(name="failed", share=0.05, make=self._describe_failures),
            Part(
                name="unmeasured",
                share=0.02,
                make=lambda tokens: past.describe_unmeasured(rounds, tokens=tokens, count=count),
            ),
            Part(name="recent", share=0.1, make=lambda tokens: past.recent(rounds, tokens=tokens, count=count)),
            Part(name="directions", share=0.03, make=self._directions),
            Part(name="tips", share=0.05, make=self._tips),
        )

    def drafting(self, hypothesis: Hypothesis, texts: Mapping[str, str], *, evidence: str = "") -> dict[str, str]:
        """For writing edits of `texts`; `evidence` is what a compiler or a checker said of them."""
        return self._compose(
            Part(name="target", share=0.1, make=self._target),
            Part(name="hypothesis", share=0.1, make=lambda tokens: self._fit(self._describe(hypothesis), tokens)),
            Part(name="evidence", share=0.15, make=lambda tokens: self._fit(evidence, tokens)),
            Part(
                name="sources",
                share=0.5,
                make=lambda tokens: self._sources(texts, tokens, number=False, cited=hypothesis.sources),
            ),
            Part(name="problem", share=PROBLEM, make=self._problem),
            Part(name="profile", share=0.05, make=self._profile),
            Part(name="knowledge", share=0.06, make=lambda tokens: self._about(hypothesis, tokens)),
        )

    def looking_back(self, hypothesis: Hypothesis, evidence: str, *, diff: str, profiled: bool) -> dict[str, str]:
        """For learning from a closed trial; `evidence` is what was measured, `diff` the change that was judged.

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
        """Each part fenced; one that has nothing to say is empty."""
        found = compose_parts(parts, budget=self._budget, count=self._count)
        return {name: fence(text) if text else "" for name, text in found.items()}

    def _fit(self, text: str, tokens: int) -> str:
        return bound_text(text, tokens=tokens, count=self._count) if text else ""

    def _describe(self, hypothesis: Hypothesis) -> str:
        return describe_hypothesis(hypothesis, of_score(hypothesis, self._briefing.shapes))

    def _texts(self) -> dict[str, str]:
        return {edit.path: edit.text for edit in self._briefing.sources if edit.text is not None}

    def _target(self, tokens: int) -> str:
        """Problem, machine, and where the best version stands."""
        told, target, contract = self._briefing, self._briefing.target, self._briefing.contract
        facts = {
            "shapes": ", ".join(target.target_shapes),
            "score": describe_score(told),
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
        return [clip_line(spec.text, SPEC) for spec in said if not of_other_dtype(spec.metric, dtype)]

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
            render = number_lines if number else excerpt
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
            text = describe_card(card, forms)
            if len(parts) < cards and self._count("\n\n".join([*parts, text])) <= tokens:
                parts.append(text)
            else:
                named += [f"{card.path}:1"]
        parts += [left] if (left := list_other_levers(named)) else []
        left_over = min(SECTION, tokens - self._count("\n\n".join(parts)))
        parts += self._sections(self._question(), 1, left_over, phase="propose")
        return self._fit("\n\n".join(parts), tokens)

    def _about(self, hypothesis: Hypothesis, tokens: int) -> str:
        """The card that the hypothesis is about or cites, then sections."""
        cited = [card for card in self._books.levers(self._briefing) if _rests_on(hypothesis, card.id, card.path)]
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
        said = [relevant(hit, self._briefing) for hit in for_machine(documents, self._briefing)]
        fit = [hit for hit in said if hit is not None]
        parts: list[str] = []
        for hit in fit[:most]:
            lines = cite(hit).splitlines()
            while len(lines) > 1 and self._count("\n\n".join([*parts, "\n".join(lines)])) > tokens:
                lines.pop()
            parts += ["\n".join(lines)] if len(lines) > 1 else []
        return tuple(parts)

    def _describe_failures(self, tokens: int) -> str:
        return past.ineffective(self._briefing.rounds, tokens=min(tokens, FAILED_MOST), count=self._count)

    def _directions(self, tokens: int) -> str:
        return self._fit("\n".join(f"- {clip_line(line, 400)}" for line in self._briefing.directions), tokens)

    def _tips(self, tokens: int) -> str:
        return self._fit(self._briefing.tips or "", tokens)


def describe_hypothesis(hypothesis: Hypothesis, score: str = "") -> str:
    """A hypothesis in lines, as it was written down before any edit; `score`: what it would make of the score."""
    lines = [
        f"[{hypothesis.id}] {hypothesis.claim}",
        f"change: {hypothesis.change}",
        f"kind: {hypothesis.category}, for {past.whom(hypothesis)}{BUCKETS.get(hypothesis.bucket, '')}",
        *(f"evidence: {line}" for line in hypothesis.evidence),
        f"risks: {hypothesis.risks}",
        f"verification: {hypothesis.verification}",
        f"prediction: {past.prediction(hypothesis)}{f', {score}' if score else ''}",
    ]
    rests = [f"rests on: {', '.join(hypothesis.sources)}"] if hypothesis.sources else []
    return "\n".join([*lines, *rests])


def _rests_on(hypothesis: Hypothesis, lever: str, path: str) -> bool:
    return hypothesis.lever == lever or any(place.startswith(f"{path}:") for place in hypothesis.sources)


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
_IMPORT = re.compile(r"^\s*(?:#\s*include\s*\"([^\"]+)\"|(?:from|import)\s+([\w.]+))", re.MULTILINE)


def problem(briefing: Briefing, reader: Reader, *, tokens: int, count: Count) -> str:
    """The defining files within `tokens`, each marked read-only, and what else there is by name."""
    own = {edit.path for edit in briefing.sources}
    paths = [path for path in reader.paths(briefing.best_commit) if path not in own]
    shown: list[str] = []
    left = tokens
    defining = _defining(briefing, paths)
    for path in defining:
        text = reader.text(briefing.best_commit, path)
        if text is None or not text.strip() or left < LEAST:
            continue
        whole = f"==> {path} (read-only)\n{text.rstrip()}"
        forms = (*((whole,) if len(whole) <= WHOLE else ()), *(fold_bodies(terse(whole), level) for level in LEVELS))
        part = next((form for form in forms if count(form) <= left), bound_text(forms[-1], tokens=left, count=count))
        left -= count(part)
        shown.append(part)
    seen = {part.partition("\n")[0] for part in shown}
    others = [path for path in paths if f"==> {path} (read-only)" not in seen and not path.startswith(".")]
    return "\n\n".join([*shown, *_name_places(others)])


def fold_bodies(text: str, level: int = 0) -> str:
    """Without the bodies of functions that say nothing of errors or inputs; lists, structures and comments stay.

    `level`: 1 leaves out all but those that say what comes and what is right, 2 all. Every gap is stated.
    """
    lines = text.splitlines()
    out: list[str] = []
    at = 0
    while at < len(lines):
        body = list(takewhile(lambda line: not line or line[0].isspace(), lines[at + 1 :]))
        long = len(body) - len(list(takewhile(lambda line: not line, reversed(body))))
        dull = _dull(lines[at], body, level)
        out.append(lines[at])
        out += [f"    [{long} lines left out]", *body[long:]] if dull else body
        at += 1 + len(body)
    return "\n".join(out)


def terse(text: str) -> str:
    """Python without what only explains or serves the harness: texts under a name, imports, long explanations."""
    lines: list[str] = []
    found = _LONG.sub(r'\1"""', text).splitlines()
    for line in found:
        if not _EXPLAINS.match(line) and (line or lines[-1:] != [""]):
            lines.append(line)
    said = ["[imports and explanations left out]"] if any(map(_EXPLAINS.match, found)) else []
    return "\n".join([*lines[:1], *said, *lines[1:]])


def benchmark_says(briefing: Briefing, reader: Reader) -> str:
    """What the benchmark's file says at its top about caches and launches, or that it says nothing."""
    paths = set(reader.paths(briefing.best_commit))
    path = next((word for word in briefing.contract.quick_command if word in paths), None)
    text = (reader.text(briefing.best_commit, path) or "") if path else ""
    said = _TOP.match(text)
    lines = (line.strip(" *") for line in (said.group(1) if said else "").splitlines())
    prose = " ".join("." if _USAGE.search(line) or not line else line for line in lines)
    sentences = re.split(r"(?<=[.;])\s+", prose)
    kept = [sentence for sentence in sentences if _TIMING.search(sentence)]
    return clip_line(" ".join(kept), LONGEST) or "does not say whether the L2 cache is cold or warm"


def _dull(first: str, body: list[str], level: int) -> bool:
    """Whether a block is a function whose body may be left out."""
    if len(body) < BODY or first[:1].isspace() or not first.endswith(("{", ":")) or LISTS.search(first):
        return False
    if level == 0:
        return not (NEEDED.search(first) or TELLS.search("\n".join([first, *body])))
    return level > 1 or not NEEDED.search(first)


def _defining(briefing: Briefing, paths: Iterable[str]) -> list[str]:
    """What the kernel includes first, then files whose names say that they define the problem."""
    sources = "\n".join(edit.text or "" for edit in briefing.sources)
    wanted = {
        PurePosixPath((first or second).replace(".", "/") if second else first).name
        for first, second in _IMPORT.findall(sources)
    }

    def rank(path: str) -> int:
        name = PurePosixPath(path)
        if name.name in wanted or (name.suffix == ".py" and name.stem in wanted):
            return 0
        guarded = any(fnmatch(path, glob) for glob in briefing.contract.protected)
        return 1 if guarded and TELLING.search(name.name) and not MACHINERY.search(path) else 2

    return sorted((path for path in paths if rank(path) < 2), key=lambda path: (rank(path), path))


def _name_places(others: list[str]) -> list[str]:
    if not others:
        return []
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return [f"read-only too, not shown: {', '.join(others[:NAMED])}{more}"]
