"""Read-only tools that a model may call while it plans: every answer bounded and fenced, every mistake an answer."""

import json
import tomllib
from collections.abc import Callable
from difflib import unified_diff
from typing import Any, Protocol

from ridgeline.agent.models.base import Call, Tool
from ridgeline.agent.planners.model_fit import Count, bounded, clipped, fenced, numbered
from ridgeline.agent.planners.model_history import told
from ridgeline.agent.planners.model_relevance import for_machine
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.trial import Applied, Drafted, find
from ridgeline.graph.values import Artifact
from ridgeline.knowledge.cards import Card
from ridgeline.knowledge.search import Hit
from ridgeline.prompts.render import render

TEMPLATE = "tools.v1.toml"
HITS = 40
"""Lines that a search in the sources returns."""
FILES = 400
"""Paths that a listing returns."""


class Reader(Protocol):
    """What a planner may look at beyond its briefing; nothing can be changed through it."""

    def paths(self, commit: str) -> tuple[str, ...]:
        """Files at a commit, relative to the contract's folder."""
        ...

    def text(self, commit: str, path: str) -> str | None:
        """Text of a file; None when there is none or when it is not text."""
        ...

    def search(self, commit: str, text: str) -> tuple[str, ...]:
        """Lines that hold a text, whatever its case, as `path:line: text`; plain text, never an expression."""
        ...

    def stored(self, artifact: Artifact) -> str | None:
        """Text of a stored artifact; None when it is gone or is not text."""
        ...


class Books(Protocol):
    """The knowledge base."""

    def find(self, question: str, briefing: Briefing, *, phase: str, limit: int, budget: int) -> tuple[Hit, ...]: ...
    def levers(self, briefing: Briefing) -> tuple[Card, ...]: ...
    def line(self, path: str, number: int) -> str | None: ...


def offered() -> tuple[Tool, ...]:
    """The tools as a model is told of them."""
    tables = tomllib.loads(render(TEMPLATE))
    return tuple(
        Tool(name=name, description=table["description"].strip(), parameters=json.dumps(table["parameters"]))
        for name, table in tables.items()
    )


class BriefedReader:
    """Where no reader is given: the editable files of the best version are all there is."""

    def __init__(self, briefing: Briefing) -> None:
        self._commit = briefing.best_commit
        self._texts = {edit.path: edit.text for edit in briefing.sources if edit.text is not None}

    def paths(self, commit: str) -> tuple[str, ...]:
        return tuple(self._texts) if commit == self._commit else ()

    def text(self, commit: str, path: str) -> str | None:
        return self._texts.get(path) if commit == self._commit else None

    def search(self, commit: str, text: str) -> tuple[str, ...]:
        return tuple(
            f"{path}:{number}: {line.strip()}"
            for path in self.paths(commit)
            for number, line in enumerate((self.text(commit, path) or "").splitlines(), start=1)
            if text.lower() in line.lower()
        )

    def stored(self, artifact: Artifact) -> str | None:
        return None


class Toolbox:
    """The tools of one round. No tool takes a command, writes, or reaches a round that is masked."""

    def __init__(self, briefing: Briefing, *, reader: Reader, books: Books, tokens: int, count: Count) -> None:
        """`tokens`: of one answer."""
        self._briefing = briefing
        self._reader = reader
        self._books = books
        self._tokens = tokens
        self._count = count
        self._tools: dict[str, Callable[..., str]] = {
            "read_file": self._read_file,
            "list_files": self._list_files,
            "search_code": self._search_code,
            "search_knowledge": self._search_knowledge,
            "read_profile": self._read_profile,
            "read_round": self._read_round,
            "diff_rounds": self._diff_rounds,
        }

    def run(self, call: Call) -> str:
        """The answer to a call; a call that cannot be run is told why."""
        tool = self._tools.get(call.name)
        if tool is None:
            return f"no tool is called {clipped(call.name, 60)!r}; there are: {', '.join(self._tools)}"
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError) as error:
            return f"the arguments are no JSON: {clipped(str(error), 120)}"
        if not isinstance(arguments, dict):
            return "the arguments must be one JSON object"
        problem = _unfit(call.name, arguments)
        return problem or fenced(bounded(tool(**arguments), tokens=self._tokens, count=self._count))

    def _read_file(self, path: str, first: int = 1, last: int = 0) -> str:
        text = self._reader.text(self._briefing.best_commit, path)
        if text is None:
            return f"{path}: no such text file; list_files names them"
        lines = text.splitlines()
        first, last = max(1, first), min(len(lines), last or len(lines))
        if first > last:
            return f"{path} has {len(lines)} lines; none of {first} to {last}"
        wanted = range(first, last + 1)
        shown = numbered("\n".join(lines), tokens=10**9, count=self._count).splitlines()
        part = "\n".join(shown[line - 1] for line in wanted)
        return f"{path}, lines {first}-{last} of {len(lines)}\n{part}"

    def _list_files(self) -> str:
        paths = self._reader.paths(self._briefing.best_commit)
        more = f"\n[{len(paths) - FILES} more]" if len(paths) > FILES else ""
        return "\n".join(paths[:FILES]) + more

    def _search_code(self, text: str) -> str:
        """Plain text, no expression: what a model writes must not be able to keep the processor busy."""
        if not text.strip() or "\n" in text:
            return "give one line of text to look for"
        found = self._reader.search(self._briefing.best_commit, text)
        more = f"\n[{len(found) - HITS} more hits]" if len(found) > HITS else ""
        return "\n".join(clipped(line, 200) for line in found[:HITS]) + more if found else f"{text!r} stands nowhere"

    def _search_knowledge(self, question: str) -> str:
        found = self._books.find(question, self._briefing, phase="propose", limit=5, budget=self._tokens)
        hits = for_machine(found, self._briefing)
        return "\n\n".join(cite(hit) for hit in hits) or "nothing found; ask in other words"

    def _read_profile(self) -> str:
        profile = self._briefing.profile
        if profile is None:
            return "the best version has no profile"
        counters = [f"{counter.name} = {counter.value:g}" for counter in profile.counters]
        report = self._reader.stored(profile.report) if profile.report else None
        return "\n".join([f"instrument: {profile.rung}", *counters, *profile.notes, *([report] if report else [])])

    def _read_round(self, round: int) -> str:
        closed = next((one for one in self._briefing.rounds if one.round == round), None)
        if closed is None:
            return f"there is no round {round} to read; {self._known()}"
        applied = find(closed.judged, Applied)
        diff = self._reader.stored(applied.diff) if applied else None
        return told(closed) + (f"\n\n{diff}" if diff else "")

    def _diff_rounds(self, first: int, second: int) -> str:
        one, two = self._texts(first), self._texts(second)
        if one is None or two is None:
            return f"round {second if one else first} has no sources that can be read; {self._known()}"
        lines: list[str] = []
        for path in sorted({*one, *two}):
            names = (f"round-{first}/{path}", f"round-{second}/{path}")
            lines += unified_diff(one.get(path, "").splitlines(), two.get(path, "").splitlines(), *names, lineterm="")
        return "\n".join(lines) or "no difference"

    def _texts(self, round: int) -> dict[str, str] | None:
        """The kernel's files as a round's candidate had them; those of the best version for its own round."""
        if round == self._briefing.best_round:
            return {edit.path: edit.text for edit in self._briefing.sources if edit.text is not None}
        closed = next((one for one in self._briefing.rounds if one.round == round), None)
        if closed is None:
            return None
        kept = {artifact.name: self._reader.stored(artifact) for artifact in closed.snapshot}
        found = {path: text for path, text in kept.items() if text is not None}
        drafted = find(closed.judged, Drafted)
        edits = drafted.edits if drafted else ()
        return found or {edit.path: edit.text for edit in edits if edit.text is not None} or None

    def _known(self) -> str:
        numbers = [str(one.round) for one in self._briefing.rounds]
        return f"rounds that can be read: {', '.join(numbers[-20:]) or 'none yet'}"


def cite(hit: Hit) -> str:
    """An excerpt of the knowledge under the place where it stands."""
    return f"{hit.path}:{hit.line}  {hit.heading}\n{hit.excerpt}"


def _unfit(name: str, arguments: dict[str, Any]) -> str:
    """Why the arguments do not fit the tool, or nothing."""
    schema = json.loads(next(tool.parameters for tool in offered() if tool.name == name))
    known, kinds = schema["properties"], {"string": str, "integer": int}
    if missing := [field for field in schema["required"] if field not in arguments]:
        return f"{name}: {', '.join(missing)} is missing"
    for field, value in arguments.items():
        if field not in known:
            return f"{name}: takes no {clipped(field, 40)!r}; it takes: {', '.join(known) or 'nothing'}"
        if not isinstance(value, kinds[known[field]["type"]]) or isinstance(value, bool):
            return f"{name}: {field} must be of type {known[field]['type']}"
    return ""
