"""What a model is told, by priority under a budget of tokens; what does not fit is said to be left out."""

from collections.abc import Mapping
from typing import Literal

from agent.planners import model_history as past
from agent.planners.model_cite import focus
from agent.planners.model_fit import Count, Part, bounded, clipped, composed, excerpt, fenced, numbered
from agent.planners.model_tools import Books, Reader, cite
from graph.briefing import Briefing
from graph.values import Hypothesis

FAILED_MOST = 450
"""Tokens of the list of failed directions, however large the budget: the prompt of round 100 is not that of a book."""
EXCERPTS = 6
NAMED = 60
"""Files beside the editable ones that are looked at."""


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
        knowledge = 0.2 if whole else 0.12
        return self._composed(
            Part(name="target", share=0.1, make=self._target),
            Part(name="sources", share=0.4, make=lambda tokens: self._sources(self._texts(), tokens, number=True)),
            Part(name="profile", share=0.1, make=self._profile),
            Part(name="others", share=0.12, make=self._others if whole else _nothing),
            Part(name="knowledge", share=knowledge, make=lambda tokens: self._knowledge(self._question(), tokens)),
            Part(name="lineage", share=0.05, make=lambda tokens: past.lineage(rounds, tokens=tokens, count=count)),
            Part(name="failed", share=0.05, make=self._failed),
            Part(name="recent", share=0.1, make=lambda tokens: past.recent(rounds, tokens=tokens, count=count)),
            Part(name="directions", share=0.03, make=self._directions),
            Part(name="tips", share=0.05, make=self._tips),
        )

    def drafting(self, asked: Hypothesis, texts: Mapping[str, str], *, evidence: str = "") -> dict[str, str]:
        """For writing edits of `texts`; `evidence` is what a compiler or a checker said of them."""
        question = f"{asked.change} {asked.lever}"
        return self._composed(
            Part(name="target", share=0.1, make=self._target),
            Part(name="hypothesis", share=0.1, make=lambda tokens: self._fit(described(asked), tokens)),
            Part(name="evidence", share=0.15, make=lambda tokens: self._fit(evidence, tokens)),
            Part(
                name="sources",
                share=0.5,
                make=lambda tokens: self._sources(texts, tokens, number=False, cited=asked.sources),
            ),
            Part(name="profile", share=0.05, make=self._profile),
            Part(name="others", share=0.08, make=self._others),
            Part(
                name="knowledge",
                share=0.12,
                make=lambda tokens: self._knowledge(question, tokens, phase="draft"),
            ),
        )

    def looking_back(self, asked: Hypothesis, evidence: str) -> dict[str, str]:
        """For learning from a closed trial; `evidence` is what was measured."""
        return self._composed(
            Part(name="target", share=0.1, make=self._target),
            Part(name="hypothesis", share=0.1, make=lambda tokens: self._fit(described(asked), tokens)),
            Part(name="evidence", share=0.5, make=lambda tokens: self._fit(evidence, tokens)),
            Part(name="profile", share=0.1, make=self._profile),
        )

    def _composed(self, *parts: Part) -> dict[str, str]:
        """Each part fenced; one that has nothing to say is empty."""
        found = composed(parts, budget=self._budget, count=self._count)
        return {name: fenced(text) if text else "" for name, text in found.items()}

    def _fit(self, text: str, tokens: int) -> str:
        return bounded(text, tokens=tokens, count=self._count) if text else ""

    def _texts(self) -> dict[str, str]:
        return {edit.path: edit.text for edit in self._briefing.sources if edit.text is not None}

    def _target(self, tokens: int) -> str:
        told, target, machine, contract = (
            self._briefing,
            self._briefing.target,
            self._briefing.machine,
            self._briefing.contract,
        )
        better = "higher" if contract.scoring.higher_is_better else "lower"
        facts = {
            "operator": f"{target.target_op}, {target.dtype}: {contract.description}".rstrip(": "),
            "language": f"{target.target_lang}, backend {target.target_backend}",
            "device": f"{machine.name} ({target.platform}, {machine.arch}), {machine.cores} cores, threads granted "
            f"{contract.threads}",
            "features": " ".join(machine.features),
            "caches": _caches(machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes),
            "compiler": machine.compiler,
            "shapes": ", ".join(target.target_shapes) or "all of the benchmark",
            "score": f"{target.primary_metric}, {better} is better; the best version has {told.aggregate:.4g}",
            "goal": target.performance_target.text if target.performance_target else "",
            "editable": ", ".join(contract.editable_globs),
            "compiler flags file": contract.flags_file or "",
            "tested by": " ".join(contract.test_command),
            "measured by": " ".join(contract.quick_command),
            "best version": f"commit {told.best_commit[:12]} of round {told.best_round}",
        }
        lines = [f"{name}: {text}" for name, text in facts.items() if text]
        return self._fit("\n".join([*lines, *(spec.text for spec in told.specs)]), tokens)

    def _profile(self, tokens: int) -> str:
        told = self._briefing
        lines = [f"bottleneck: {told.bottleneck}", f"because: {told.bottleneck_evidence or 'no counter says why'}"]
        if told.profile is None:
            return self._fit("\n".join([*lines, "no profile of the best version"]), tokens)
        lines.append(f"instrument: {told.profile.rung}")
        lines += [f"{counter.name} = {counter.value:g}" for counter in told.profile.counters]
        lines += [f"note: {clipped(note, 300)}" for note in told.profile.notes]
        return self._fit("\n".join(lines), tokens)

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

    def _others(self, tokens: int) -> str:
        """Files that may be read and not changed: the smallest whole, as far as they fit, the others by name."""
        commit, own = self._briefing.best_commit, self._texts()
        paths = [path for path in self._reader.paths(commit) if path not in own]
        shown: list[str] = []
        named: list[str] = []
        left = tokens - self._count("\n".join(paths[:NAMED]))
        read = ((path, self._reader.text(commit, path)) for path in paths[:NAMED])
        for path, text in sorted(read, key=lambda item: len(item[1] or "")):
            part = f"==> {path}\n{(text or '').rstrip()}"
            if text is None or not text.strip() or self._count(part) > left:
                named.append(path)
                continue
            shown.append(part)
            left -= self._count(part)
        more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
        names = [f"not shown: {', '.join(named)}{more}"] if named or more else []
        return self._fit("\n\n".join([*shown, *names]), tokens)

    def _question(self) -> str:
        told = self._briefing
        return " ".join((told.bottleneck, told.bottleneck_evidence, told.target.target_op, *told.directions))[:600]

    def _knowledge(self, question: str, tokens: int, *, phase: Literal["propose", "draft"] = "propose") -> str:
        hits = self._books.find(question, self._briefing, phase=phase, limit=EXCERPTS, budget=tokens)
        return self._fit("\n\n".join(cite(hit) for hit in hits if hit.excerpt), tokens)

    def _failed(self, tokens: int) -> str:
        return past.ineffective(self._briefing.rounds, tokens=min(tokens, FAILED_MOST), count=self._count)

    def _directions(self, tokens: int) -> str:
        return self._fit("\n".join(f"- {clipped(line, 400)}" for line in self._briefing.directions), tokens)

    def _tips(self, tokens: int) -> str:
        return self._fit(self._briefing.tips or "", tokens)


def described(asked: Hypothesis) -> str:
    """A hypothesis in lines, as it was written down before any edit."""
    said = asked.prediction
    size = f" to {said.ratio:g} of it" if said.ratio else ""
    lines = [
        f"[{asked.id}] {asked.claim}",
        f"change: {asked.change}",
        f"category: {asked.category}, bucket {asked.bucket}, for {asked.target_class}",
        *(f"evidence: {line}" for line in asked.evidence),
        f"risks: {asked.risks}",
        f"verification: {asked.verification}",
        f"prediction: {said.counter} {said.direction}{size}",
    ]
    rests = [f"rests on: {', '.join(asked.sources)}"] if asked.sources else []
    return "\n".join([*lines, *rests])


def _nothing(tokens: int) -> str:
    return ""


def _caches(*sizes: int | None) -> str:
    named = zip(("L1d", "L2", "L3"), sizes, strict=True)
    return ", ".join(f"{name} {size // 1024} KiB" for name, size in named if size)
