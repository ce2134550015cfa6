"""Read-only tools that a model may call while it plans: every answer bounded and fenced, every mistake an answer."""

import json
import logging
import math
import os
import re
import shlex
import shutil
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import unified_diff
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from threading import local
from typing import Any, Protocol

from ridgeline.agent.campaign.notify import PASSED
from ridgeline.agent.errors import UserError
from ridgeline.agent.planner.catalog import (
    OFF_BOTTLENECK,
    Candidate,
    candidates,
    explain_relaxed,
    find_exclusion,
    find_unmet_requirement,
    narrow,
    texts,
)
from ridgeline.agent.planner.checks import Length
from ridgeline.agent.planner.conversation import Count, bound_text, clip_line, fence, number_lines
from ridgeline.agent.planner.conversation import strip_controls as drop_escapes
from ridgeline.agent.planner.history import describe_round, hypothesis_of
from ridgeline.agent.planner.scope import Scope
from ridgeline.agent.providers.base import Call, Tool, redact, without_secrets
from ridgeline.agent.providers.base import plain as clean_text
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.errors import ArtifactLost, WorldError
from ridgeline.graph.trial import Applied, Drafted, find
from ridgeline.graph.values import Artifact, LookUp, WebSearch
from ridgeline.knowledge.cards import Card, Needs, load
from ridgeline.knowledge.excerpt import tokens_of
from ridgeline.knowledge.index import open_index
from ridgeline.knowledge.library import Library
from ridgeline.knowledge.search import Hit, Route, Search
from ridgeline.knowledge.vocabulary import operators, split_words, stem, vocabulary
from ridgeline.prompts.render import render
from ridgeline.sandbox.isolation.environment import select_variables
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.isolation.stopping import StepEnded
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.workspace.edits import LINK, MODULE
from ridgeline.sandbox.workspace.git import Entry
from ridgeline.sandbox.workspace.worktree import GitWorkspace

logger = logging.getLogger(__name__)

TEMPLATE = "tools.v1.toml"
HITS = 40
"""Lines that a search in the sources returns."""
FILES = 400
"""Paths that a listing returns."""


class Reader(Protocol):
    """What a planner may look at beyond its briefing; nothing can be changed through it."""

    def paths(self, commit: str) -> tuple[str, ...]:
        """For a model's tools: files at a commit, relative to the contract's folder."""
        ...

    def text(self, commit: str, path: str) -> str | None:
        """For a model's tools: text of a file; None when there is none or when it is not text."""
        ...

    def search(self, commit: str, text: str) -> tuple[str, ...]:
        """For a model's tools: lines that hold a text, whatever its case, as `path:line: text`; plain text, never an expression."""
        ...

    def read_artifact(self, artifact: Artifact) -> str | None:
        """For a model's tools: text of a stored artifact; None when it is gone or is not text."""
        ...


class Books(Protocol):
    """The knowledge base."""

    def find(self, question: str, briefing: Briefing, *, phase: str, limit: int, budget: int) -> tuple[Hit, ...]: ...
    def uncovered_words(self, question: str, briefing: Briefing) -> tuple[str, ...]: ...
    def levers(self, briefing: Briefing, scope: Scope | None = None) -> tuple[Card, ...]: ...
    def line(self, path: str, number: int) -> str | None: ...


def list_tools(template: str = TEMPLATE) -> tuple[Tool, ...]:
    """The tools of a template as a model is told of them."""
    tables = tomllib.loads(render(template))
    return tuple(
        Tool(name=name, description=table["description"].strip(), parameters=json.dumps(table["parameters"]))
        for name, table in tables.items()
    )


class NotingBooks:
    """The knowledge base, which keeps what a planner looked up in it: the search log of the next plan."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._looked_up: dict[tuple[str, str], tuple[Hit, ...]] = {}

    def begin(self) -> None:
        """Forget what a planner looked up in the knowledge for an earlier proposal."""
        self._looked_up = {}

    def find(self, question: str, briefing: Briefing, *, phase: str, limit: int, budget: int) -> tuple[Hit, ...]:
        hits = self._books.find(question, briefing, phase=phase, limit=limit, budget=budget)
        query = question.strip() or f"overview of {briefing.target.target_op}"
        foreign = tuple(hit for hit in hits if is_of_project(hit.path))
        self._looked_up["gpu-wiki", query] = tuple(hit for hit in hits if hit not in foreign)
        if foreign:
            self._looked_up["ref-project", query] = foreign
        return hits

    def uncovered_words(self, question: str, briefing: Briefing) -> tuple[str, ...]:
        return self._books.uncovered_words(question, briefing)

    def levers(self, briefing: Briefing, scope: Scope | None = None) -> tuple[Card, ...]:
        cards = self._books.levers(briefing, scope)
        places = (Hit(id=card.id, path=card.path, line=1, heading="", excerpt="", score=0.0) for card in cards)
        self._looked_up["gpu-wiki", describe_question(briefing)] = tuple(places)
        return cards

    def line(self, path: str, number: int) -> str | None:
        return self._books.line(path, number)

    def list_searches(self, sources: Sequence[str]) -> tuple[LookUp, ...]:
        """What a planner looked up since `begin`, in order; `sources`: the places that the hypothesis cites."""
        return tuple(
            LookUp(
                source="ref-project" if source == "ref-project" else "gpu-wiki",
                query=clip_line(query, QUERY),
                finding=_list_places(hits),
                actionability=_describe_use(hits, sources),
            )
            for (source, query), hits in self._looked_up.items()
        )


QUERY, PLACES = 200, 4
"""Characters of a query, and places that it gave, which a search log keeps."""


def describe_question(briefing: Briefing) -> str:
    """What a planner asks knowledge cards for, in a line."""
    target = briefing.target
    return f"levers for {target.target_op} in {target.target_lang} on {target.target_gpu}, {briefing.bottleneck} bound"


def _list_places(hits: Sequence[Hit]) -> str:
    """Where answers of the knowledge to a planner stand, best first."""
    more = f" and {len(hits) - PLACES} more" if len(hits) > PLACES else ""
    return ", ".join(f"{hit.path}:{hit.line}" for hit in hits[:PLACES]) + more if hits else "nothing"


def _describe_use(hits: Sequence[Hit], sources: Sequence[str]) -> str:
    """Which answers of the knowledge a planner's hypothesis cites."""
    cited = [
        source
        for source in sources
        if any(_is_inside(source, hit) or (not hit.excerpt and _names_card(source, hit)) for hit in hits)
    ]
    if cited:
        return f"the plan rests on {', '.join(cited)}"
    return "read, and not what the plan rests on" if hits else "nothing to act on"


def _names_card(place: str, hit: Hit) -> bool:
    """Whether a planner's citation is of this card, at whatever line."""
    return place.rpartition(":")[0] == hit.path


class BriefedReader:
    """Where no reader is given: the editable files of the best version are all there is."""

    def __init__(self, briefing: Briefing) -> None:
        self._commit = briefing.base_commit
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

    def read_artifact(self, artifact: Artifact) -> str | None:
        return None


class Toolbox:
    """The tools of one round. No tool takes a command, writes, or reaches a round that is masked."""

    def __init__(self, briefing: Briefing, *, reader: Reader, books: Books, tokens: int, count: Count) -> None:
        """`tokens`: of one answer of a model's tool."""
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
        """The answer to a model's call of a tool; a call that cannot be run is told why."""
        tool = self._tools.get(call.name)
        if tool is None:
            return f"no tool is called {clip_line(call.name, 60)!r}; there are: {', '.join(self._tools)}"
        arguments = read_arguments(call, list_tools())
        if isinstance(arguments, str):
            return arguments
        return fence(bound_text(tool(**arguments), tokens=self._tokens, count=self._count))

    def _read_file(self, path: str, first: int = 1, last: int = 0) -> str:
        """A model's tool: lines `first` to `last` of a file of the best version, numbered; `last` 0 is the end."""
        text = self._reader.text(self._briefing.base_commit, path)
        if text is None:
            return f"{path}: no such text file; list_files names them"
        lines = text.splitlines()
        start, end = max(1, first), min(len(lines), last or len(lines))
        if start > end:
            return f"{path} has {len(lines)} lines; none of {start} to {end}"
        line_numbers = range(start, end + 1)
        numbered_lines = number_lines("\n".join(lines), tokens=10**9, count=self._count).splitlines()
        part = "\n".join(numbered_lines[line - 1] for line in line_numbers)
        return f"{path}, lines {start}-{end} of {len(lines)}\n{part}"

    def _list_files(self) -> str:
        """A model's tool: files of the best version, at most `FILES`."""
        paths = self._reader.paths(self._briefing.base_commit)
        more = f"\n[{len(paths) - FILES} more]" if len(paths) > FILES else ""
        return "\n".join(paths[:FILES]) + more

    def _search_code(self, text: str) -> str:
        """A model's tool: search for plain text, no expression: what a model writes must not keep the processor busy."""
        if not text.strip() or "\n" in text:
            return "give one line of text to look for"
        hits = self._reader.search(self._briefing.base_commit, text)
        more = f"\n[{len(hits) - HITS} more hits]" if len(hits) > HITS else ""
        return "\n".join(clip_line(line, 200) for line in hits[:HITS]) + more if hits else f"{text!r} stands nowhere"

    def _search_knowledge(self, question: str) -> str:
        """A model's tool: excerpts of the knowledge for a question, each with the place to cite."""
        results = self._books.find(question, self._briefing, phase="propose", limit=5, budget=self._tokens)
        hits = for_machine(results, self._briefing)
        unknown = self._books.uncovered_words(question, self._briefing)
        note = [f"not covered: nothing here speaks of {', '.join(unknown)}"] if unknown else []
        return "\n\n".join([*note, *(cite(hit) for hit in hits)]) or "nothing found; ask in other words"

    def _read_profile(self) -> str:
        """A model's tool: counters, notes and the profiler's own report of the best version."""
        profile = self._briefing.profile
        if profile is None:
            return "the best version has no profile"
        counters = [f"{counter.name} = {counter.value:g}" for counter in profile.counters]
        report = self._reader.read_artifact(profile.report) if profile.report else None
        return "\n".join([f"instrument: {profile.rung}", *counters, *profile.notes, *([report] if report else [])])

    def _read_round(self, round: int) -> str:
        """A model's tool: one earlier round and its diff."""
        closed = next((entry for entry in self._briefing.rounds if entry.round == round), None)
        if closed is None:
            return f"there is no round {round} to read; {self._list_rounds()}"
        applied = find(closed.judged, Applied)
        diff = self._reader.read_artifact(applied.diff) if applied else None
        return describe_round(closed, self._briefing.contract.scoring) + (f"\n\n{diff}" if diff else "")

    def _diff_rounds(self, first: int, second: int) -> str:
        """A model's tool: unified diff of the kernel's files between two rounds."""
        old, new = self._texts(first), self._texts(second)
        if old is None or new is None:
            return f"round {second if old else first} has no sources that can be read; {self._list_rounds()}"
        lines: list[str] = []
        for path in sorted({*old, *new}):
            names = (f"round-{first}/{path}", f"round-{second}/{path}")
            lines += unified_diff(old.get(path, "").splitlines(), new.get(path, "").splitlines(), *names, lineterm="")
        return "\n".join(lines) or "no difference"

    def _texts(self, round: int) -> dict[str, str] | None:
        """For a model's tools: the kernel's files as a round's candidate had them; those of the best version for its own round."""
        if round == self._briefing.base_round:
            return {edit.path: edit.text for edit in self._briefing.sources if edit.text is not None}
        closed = next((entry for entry in self._briefing.rounds if entry.round == round), None)
        if closed is None:
            return None
        snapshot = {artifact.name: self._reader.read_artifact(artifact) for artifact in closed.snapshot}
        sources = {path: text for path, text in snapshot.items() if text is not None}
        drafted = find(closed.judged, Drafted)
        edits = drafted.edits if drafted else ()
        return sources or {edit.path: edit.text for edit in edits if edit.text is not None} or None

    def _list_rounds(self) -> str:
        """A model's tool: the last 20 rounds that can be read, by number."""
        numbers = [str(entry.round) for entry in self._briefing.rounds]
        return f"rounds that can be read: {', '.join(numbers[-20:]) or 'none yet'}"


def cite(hit: Hit) -> str:
    """An excerpt of the knowledge as a planner's tool returns it, under the place where it stands."""
    return f"{hit.path}:{hit.line}  {hit.heading}\n{hit.excerpt}"


def read_arguments(call: Call, tools: Sequence[Tool]) -> dict[str, Any] | str:
    """The arguments of a call of one of these tools, or why they do not fit it."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        return f"the arguments are no JSON: {clip_line(str(error), 120)}"
    if not isinstance(arguments, dict):
        return "the arguments must be one JSON object"
    return _explain_unfit(call.name, arguments, tools) or arguments


def _explain_unfit(name: str, arguments: dict[str, Any], tools: Sequence[Tool]) -> str:
    """Why the arguments of a model's call do not fit the tool, or nothing."""
    schema = json.loads(next(tool.parameters for tool in tools if tool.name == name))
    properties, kinds = schema["properties"], {"string": str, "integer": int}
    if missing := [field for field in schema["required"] if field not in arguments]:
        return f"{name}: {', '.join(missing)} is missing"
    for field, value in arguments.items():
        if field not in properties:
            return f"{name}: takes no {clip_line(field, 40)!r}; it takes: {', '.join(properties) or 'nothing'}"
        if not isinstance(value, kinds[properties[field]["type"]]) or isinstance(value, bool):
            return f"{name}: {field} must be of type {properties[field]['type']}"
    return ""


# The knowledge base as a planner asks it: routed by the campaign's target, cited by file and line.

STALLED = 3
"""Rollbacks in a row from which excerpts that earlier rounds rested on make room for others."""
SPARE, LONG = 3, 480
"""Times as many answers that are looked through then, and tokens of each."""


class ShippedBooks:
    """The knowledge that ships with Ridgeline, and other folders in its layout. Opened when first asked."""

    def __init__(
        self, *, wikis: tuple[Path, ...] = (), cache: Path | None = None, project: "ReferenceProject | None" = None
    ) -> None:
        """`cache`: folder for the index; None keeps it in memory, which takes half a second the first time.

        `project` is looked through only where the documents have nothing that no round rested on.
        """
        self._wikis = wikis
        self._project = project
        self._cache = cache
        self._open = local()

    def find(self, question: str, briefing: Briefing, *, phase: str, limit: int, budget: int) -> tuple[Hit, ...]:
        """For a planner: excerpts of the knowledge for the target, best first, within `budget` tokens."""
        hits = self._find_documents(question, briefing, phase=phase, limit=limit, budget=budget)
        if hits or self._project is None or not question.strip():
            return hits
        return self._project.find(question, limit=limit, budget=budget)

    def _find_documents(
        self, question: str, briefing: Briefing, *, phase: str, limit: int, budget: int
    ) -> tuple[Hit, ...]:
        """For a planner, of the knowledge alone; while nothing is kept, without what earlier rounds rested on."""
        search, route = self._search(), self._route(briefing, phase)
        if briefing.consecutive_rollbacks < STALLED:
            return search.find(question, route, limit=limit, budget=budget)
        source_lists = [hypothesis_of(closed).sources for closed in briefing.rounds if not closed.accepted]
        cited_places = {place for places in source_lists for place in places}
        order = search.find(question, route, limit=limit * SPARE, budget=limit * SPARE * LONG)
        used = [hit.id for hit in order if any(_is_inside(place, hit) for place in cited_places)]
        return search.find(question, route, limit=limit, budget=budget, used=used)

    def uncovered_words(self, question: str, briefing: Briefing) -> tuple[str, ...]:
        """What a planner's question is about that no document of the knowledge has."""
        return self._search().uncovered_words(question, self._route(briefing, "propose"))

    def _route(self, briefing: Briefing, phase: str) -> Route:
        """What a planner searches the knowledge by: operator, device and language; the product where it is known, else its architecture."""
        target = briefing.target
        product = self._search().gate(Route(gpu=target.platform)).product
        gpu = target.platform if product else target.target_gpu
        return Route(op=target.target_op, gpu=gpu, lang=target.target_lang, phase=phase)

    def levers(self, briefing: Briefing, scope: Scope | None = None) -> tuple[Card, ...]:
        """For a planner: cards that the campaign's machine and operator allow and no round has settled, the most promising first."""
        return levers(load(), briefing, scope)

    def line(self, path: str, number: int) -> str | None:
        """For a planner's citation: a line of the knowledge or the reference project by its path; None where there is no such line."""
        if is_of_project(path):
            return self._project.line(path, number) if self._project else None
        return self.library.line(path, number)

    @cached_property
    def library(self) -> Library:
        """The planner's documents, opened once."""
        return Library(self._wikis)

    def _search(self) -> Search:
        """The planner's search of the knowledge: one connection for each thread, as SQLite's are not shared."""
        if not hasattr(self._open, "search"):
            self._open.search = Search(open_index(self.library, self._cache))
        search: Search = self._open.search
        return search


def _is_inside(place: str, hit: Hit) -> bool:
    """Whether a planner's citation points into an excerpt."""
    path, _, line = place.rpartition(":")
    if path != hit.path or not line.split("-")[0].isdigit():
        return False
    return hit.line <= int(line.split("-")[0]) <= hit.line + hit.excerpt.count("\n") + 1


# A project whose kernels may be read for ideas, after the knowledge: nothing of it is run, and no number is taken from it.

PROJECT = "ref-project/"
"""How its paths begin in answers and citations."""
READ_SUFFIXES = frozenset({".py", ".cu", ".cuh", ".hip", ".h", ".hpp", ".c", ".cc", ".cpp", ".md"})
MOST_FILES = 2000
"""Files that are looked through, by name."""
AROUND_LINES = (3, 12)
"""Lines before and after the best line of a file that an answer shows."""
LEAST_SHARE = 0.5
"""Share of a question's words that a file must have."""


def is_of_project(path: str) -> bool:
    """Whether a planner's cited path is of the reference project."""
    return path.startswith(PROJECT)


class ReferenceProject:
    """Plain text of a checkout, searched by words."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, question: str, *, limit: int, budget: int) -> tuple[Hit, ...]:
        """For a planner: the project's files with most of the question's words, each around its best line, within `budget` tokens."""
        words = {stem(word) for word in split_words(question)}
        hits = [hit for path in self._texts if (hit := self._find_in(path, words)) is not None]
        order = sorted(hits, key=lambda hit: (-hit.score, hit.path))[:limit]
        chosen: list[Hit] = []
        for hit in order:
            budget -= tokens_of(hit.excerpt)
            if budget < 0:
                break
            chosen.append(hit)
        return tuple(chosen)

    def line(self, path: str, number: int) -> str | None:
        """For a planner's citation: a line of the reference project by its path; None where there is no such line."""
        lines = self._texts.get(path.removeprefix(PROJECT), "").splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else None

    @cached_property
    def _texts(self) -> dict[str, str]:
        """For a planner: relative path -> text of what can be read in the reference project; links are not followed."""
        paths = sorted(
            path
            for path in self._root.rglob("*")
            if path.suffix in READ_SUFFIXES and path.is_file() and not path.is_symlink() and ".git" not in path.parts
        )
        texts = {path.relative_to(self._root).as_posix(): _text(path.read_bytes()) for path in paths[:MOST_FILES]}
        return {path: text for path, text in texts.items() if text}

    def _find_in(self, path: str, words: set[str]) -> Hit | None:
        """For a planner: the place of a file with most of the words; None where it has too few of them."""
        lines = self._texts[path].splitlines()
        held = [words & {stem(word) for word in split_words(line)} for line in (path, *lines)]
        share = len(set().union(*held)) / len(words) if words else 0.0
        if share < LEAST_SHARE:
            return None
        best = max(range(1, len(held)), key=lambda place: (len(held[place]), -place), default=1)
        before, after = AROUND_LINES
        start = max(1, best - before)
        excerpt = "\n".join(lines[start - 1 : best + after])
        return Hit(
            id=f"{PROJECT}{path}:{start}", path=PROJECT + path, line=start, heading=path, excerpt=excerpt, score=share
        )


# The public web, after both, by a command of the user's: never a contract's, so that a repository cannot bring one along.

SEARCH = "RIDGELINE_SEARCH"
"""`my-search --plain {query}`: words as a shell splits them; no shell is started, and no key is handed on."""
SEARCH_S, SEARCH_BYTES = 20.0, 24_000
"""Seconds that it may take, and bytes of its output that are read."""


class SearchCommand:
    """`ridgeline.graph.ports.Searcher` by that command."""

    def __init__(self, argv: Sequence[str], *, limit_s: float = SEARCH_S) -> None:
        self._argv = tuple(argv)
        self._limit_s = limit_s

    @classmethod
    def parse(cls, text: str) -> "SearchCommand":
        """The planner's web search, by its variable's text. Raises UserError for one that names no place for the query."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UserError(f"{SEARCH}: {text!r} cannot be split into words ({error}); mend the quotes") from None
        if not any("{query}" in word for word in words[1:]):
            raise UserError(f"{SEARCH}: has no {{query}} behind its program; say where the query goes")
        program = shutil.which(words[0])
        return cls((os.path.abspath(program) if program else words[0], *words[1:]))  # noqa: PTH100 -- links stay

    def search(self, query: str, *, purpose: str) -> WebSearch:
        """What the planner's web search printed, as data; whatever goes wrong is one line. Raises StepEnded where the campaign shall
        stop.
        """
        argv = tuple(word.replace("{query}", query) for word in self._argv)
        try:
            with tempfile.TemporaryDirectory(prefix="ridgeline-", ignore_cleanup_errors=True) as folder:
                result = run(
                    argv,
                    cwd=Path(folder),
                    timeout_s=self._limit_s,
                    env=select_variables(PASSED),
                    network=True,
                    output_bytes=SEARCH_BYTES,
                    field=SEARCH,
                )
        except StepEnded:
            raise
        except (WorldError, OSError) as error:
            return self._fail(query, str(error))
        text = clean_text(without_secrets(drop_escapes(result.output)), limit=SEARCH_BYTES).strip()
        if result.timed_out:
            return self._fail(query, f"{argv[0]} took more than {self._limit_s:g} s and was ended")
        if result.returncode != 0 or not text:
            return self._fail(query, f"{argv[0]} left with {result.returncode}: {redact(text) or 'it printed nothing'}")
        return WebSearch(query=query, text=text)

    def _fail(self, query: str, why: str) -> WebSearch:
        """No text of a planner's web search, and why: a round goes on without it."""
        logger.warning("%s: %s; the round goes on without", SEARCH, redact(why))
        return WebSearch(query=query, failure=redact(why))


def list_web_search(web: WebSearch | None, sources: Sequence[str]) -> tuple[LookUp, ...]:
    """The search log's entry on the public web; none where it was not asked. `sources`: what the hypothesis cites."""
    if web is None:
        return ()
    cited = [source for source in sources if source in web.addresses]
    more = f" and {len(web.addresses) - PLACES} more" if len(web.addresses) > PLACES else ""
    finding = ", ".join(web.addresses[:PLACES]) + more
    use = f"the plan rests on {', '.join(cited)}" if cited else "read, and not what the plan rests on"
    return (
        LookUp(
            source="public-web",
            query=clip_line(web.query, QUERY),
            finding=finding or (f"nothing: {web.failure}" if web.failure else "text without an address"),
            actionability=use if web.text else "nothing to act on",
        ),
    )


# What a planner may read of a campaign: files of the contract's folder at a commit, and stored artifacts.

LARGEST = 1 << 20
"""Bytes of a file that is still shown."""


class TreeReader:
    """`model_tools.Reader` on the campaign's own repository and store. Links and submodules are not followed."""

    def __init__(self, workspace: GitWorkspace, artifacts: ArtifactStore) -> None:
        self._workspace = workspace
        self._artifacts = artifacts
        self._entries = lru_cache(maxsize=2)(self._list_tree)

    def paths(self, commit: str) -> tuple[str, ...]:
        """For a model's tools: files at a commit, relative to the contract's folder. Raises NoSuchBase when the commit is not known."""
        return tuple(self._entries(commit))

    def text(self, commit: str, path: str) -> str | None:
        """For a model's tools: text of a file; None when there is none, when it is not text, or when it is very large."""
        entry = self._entries(commit).get(path)
        return None if entry is None else _text(self._workspace.repository().blobs((entry.oid,))[0])

    def search(self, commit: str, text: str) -> tuple[str, ...]:
        """For a model's tools: lines that hold a text, whatever its case, as `path:line: text`."""
        folder = self._folder()
        words = ("-z", "-n", "-I", "-i", "-F", "--full-name", "-e", text, commit, "--", folder or ".")
        result = self._workspace.repository().attempt("grep", *words)
        entries = self._entries(commit)
        hits: list[str] = []
        for row in result.stdout.decode(errors="replace").splitlines():
            place, _, rest = row.partition("\0")
            number, _, line = rest.partition("\0")
            path = place.removeprefix(f"{commit}:").removeprefix(folder)
            if path in entries:
                hits.append(f"{path}:{number}: {line.strip()}")
        return tuple(hits)

    def read_artifact(self, artifact: Artifact) -> str | None:
        """For a model's tools: text of a stored artifact; None when it is gone or is not text."""
        try:
            return _text(self._artifacts.get(artifact))
        except ArtifactLost:
            return None

    def _folder(self) -> str:
        """For a model's tools: the contract's folder with a slash at its end; empty at the repository's root."""
        folder = str(self._workspace.contract_dir)
        return "" if folder == "." else f"{folder}/"

    def _list_tree(self, commit: str) -> dict[str, Entry]:
        """For a model's tools: path in the contract's folder -> entry at a commit, without links and submodules."""
        folder = self._folder()
        entries = self._workspace.repository().entries(commit, folder.rstrip("/") or ".")
        return {
            entry.path.removeprefix(folder): entry
            for entry in entries
            if entry.mode not in (LINK, MODULE) and entry.path.isprintable()
        }


def _text(data: bytes) -> str | None:
    """Bytes as UTF-8 text for a model's tools; None where they are binary or more than `LARGEST`."""
    if b"\0" in data or len(data) > LARGEST:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


# Whether a citation resolves: `path:line` of the sources, of the repository, or of the knowledge.

_FORM = re.compile(r"(?P<path>[^\s:]+):L?(?P<first>\d+)(?:-L?(?P<last>\d+))?(?::.*)?")


def resolver(length: Length, line: Callable[[str, int], str | None]) -> Callable[[str], str]:
    """Why a model's citation does not resolve, or nothing. `length`: of the best version's texts; `line`: of the knowledge."""

    def find_unresolved(citation: str) -> str:
        """Why the citation does not resolve; empty when it does."""
        match = _FORM.fullmatch(citation)
        if match is None:
            return "is not of the form path:line"
        path, start, end = match["path"], int(match["first"]), int(match["last"] or match["first"])
        if end < start:
            return "ends before it begins"
        if (lines := length(path)) is not None:
            return "" if start >= 1 and end <= lines else f"{path} has {lines} lines"
        if line(path, start) is None or line(path, end) is None:
            return "there is no such line in the sources or in the knowledge"
        return ""

    return find_unresolved


class Texts:
    """The best version's files, as far as they are texts."""

    def __init__(self, briefing: Briefing, reader: Reader) -> None:
        self._commit = briefing.base_commit
        self._sources = {edit.path: edit.text for edit in briefing.sources if edit.text is not None}
        self._reader = reader

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the best version that a citation may name, sources first."""
        return tuple(dict.fromkeys((*self._sources, *self._reader.paths(self._commit))))

    def length(self, path: str) -> int | None:
        """Lines of a file; None where there is none, or no text."""
        text = self._sources.get(path)
        if text is None and path in self.paths:
            text = self._reader.text(self._commit, path)
        return None if text is None else len(text.splitlines())


def focus(sources: tuple[str, ...], path: str) -> tuple[int, ...]:
    """Lines of a knowledge file that a planner's citations point at."""
    matches = (_FORM.fullmatch(citation) for citation in sources)
    return tuple(int(match["first"]) for match in matches if match and match["path"] == path)


# Which knowledge cards a model is shown: those for its operator, device and bottleneck that are still untried.

UNMEASURED = 0.08
"""Nats (1.08x) that a card is ranked with which nobody measured: less than what a measured good one showed."""
LEAST = 1.01
"""So that a card without an expectation still has a rank among its like."""
OURS, OTHERS = 2.0, 0.4
"""Factors for a card that speaks of the operator, and for one that speaks of another operator only."""
LATER, NOWHERE = 0.6, 0.35
"""Factors for a card that waits for other flags, and for one that finds nothing to change in these sources yet."""
NUMBERS, NATIVE = 1.15, 1.1
"""Factors that settle ties: somebody measured it somewhere; it was written for this very language."""
TRIED = 16_000
"""Characters of sources up to which the cards' own edits are tried on them: it takes as long as their square."""
COMMON = 1 / 3
"""A word that more than this share of the cards use says nothing about the operator."""
NAMES = 4
"""Further levers that are named: a name without its reason helps little."""


def levers(cards: Sequence[Card], briefing: Briefing, scope: Scope | None = None) -> tuple[Card, ...]:
    """For a planner: every card that this machine and operator allow and no round has settled, the most promising first.

    `scope`: what may be changed; None for all of the sources.
    """
    sources = narrow(texts(briefing), scope)
    fitting = [
        card
        for card in cards
        if _fits(card, briefing)
        and not find_exclusion(card.excludes, briefing, sources=sources)
        and not explain_relaxed(card.edits, briefing.contract)
    ]
    card_words = [_words(card) for card in fitting]
    ours = _spoken(operators(briefing.target.target_op))
    telling = frozenset(word for word in ours if sum(word in words for words in card_words) <= COMMON * len(fitting))
    worth = {card.id: _worth(card, briefing, telling, scope) for card in fitting}
    untried = [card for card in fitting if not _is_settled(card, briefing)]
    named = Counter(word for card in fitting for word in card.id.split("-"))
    rare = frozenset(word for word in split_words(_describe_op(briefing)) if named[word] == 1)
    fit = {card.id: _fit_of(card, briefing, scope, rare) for card in untried}
    return tuple(sorted(untried, key=lambda card: (-fit[card.id], -worth[card.id])))


def is_covered(cards: Sequence[Card], briefing: Briefing) -> bool:
    """Whether one of a planner's cards is about the operator, expressly or by its words."""
    ours = _spoken(operators(briefing.target.target_op))
    return any("any" not in card.ops or _words(card) & ours for card in cards)


def _fit_of(card: Card, briefing: Briefing, scope: Scope | None, rare: frozenset[str]) -> int:
    """Words of the operator that a card is expressly for, where it treats what was measured and finds its place; else 0.

    Too few blocks are filled up by splitting the work: that treats waiting and launches, not what a block holds, and
    of such cards those come first that foretell a larger grid. `rare`: words of the operator that one card alone is
    named by, as `gqa`; that one is for it whatever was measured.
    """
    is_thin = "under_filled" in briefing.bottleneck_evidence
    treated = {"latency", "launch"} if is_thin else {briefing.bottleneck} - {"unknown"}
    is_named = bool(rare & set(card.ops) & set(card.id.split("-")))
    if "any" in card.ops or not (is_named or treated & set(card.bottlenecks)):
        return 0
    if _readiness(card, briefing, scope) < 1:
        return 0
    spoken_words = sum(op in briefing.target.target_op for op in card.ops)
    fills = is_thin and bool(GRIDS & {card.prediction.counter, *card.counters[:1]})
    return spoken_words + MANY_WORDS * (2 * fills + is_named)


GRIDS, MANY_WORDS = frozenset({"launch__grid_size", "waves_per_multiprocessor"}), 100
"""What grows where the work is split, told of a card first; and more than an operator has words."""


def distinct(cards: Sequence[Card]) -> tuple[tuple[Card, tuple[str, ...]], ...]:
    """For a planner: each card with the ids of those after it that have the same reason: other forms of one lever."""
    forms: dict[str, list[Card]] = {}
    for card in cards:
        forms.setdefault(card.because, []).append(card)
    return tuple((lead, tuple(card.id for card in rest)) for lead, *rest in forms.values())


def describe_card(card: Card, forms: Sequence[str] = (), *, how: bool = False) -> str:
    """A card in a few lines of the prompt, under the place that is cited. `how`: with the way it is done, for who writes it."""
    size = f" to {card.prediction.ratio:g} of it" if card.prediction.ratio else ""
    gain = f", expected {card.expected_speedup:g}x" if card.edits else ""
    measured = f" ({clip_line(card.measured_on, 90)})" if card.measured_on else ""
    same = f"; another form: {', '.join(forms)}" if forms else ""
    lines = [
        f"{card.path}:1  {card.title} [lever {card.id}, {card.category}{same}]",
        f"change: {clip_line(card.change, 120)}; because {clip_line(card.because, 140)}",
        f"predicts: {card.prediction.counter} {card.prediction.direction}{size}{gain}{measured}",
        f"applies when: {_section(card, 'Applies when', 150)}",
        *([f"how: {_section(card, 'How', 500)}"] if how else []),
        f"mind: {clip_line(card.risks, 90)}; {_section(card, 'Pitfalls', 90)}",
    ]
    return "\n".join(lines)


def list_other_levers(names: Sequence[str]) -> str:
    """The levers that the prompt does not show, as they can be cited, in their order; empty when there are none."""
    if not names:
        return ""
    more = f", and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{len(names)} further lever{'s' if len(names) > 1 else ''} left out: {', '.join(names[:NAMES])}{more}"


def spoken(card: Card) -> str:
    """Text by which a knowledge card says what it is about: id, title, change, reason."""
    return " ".join((card.id, card.title, card.change, card.because))


def _fits(card: Card, briefing: Briefing) -> bool:
    """Whether language, operator and machine allow a card, whatever the sources and flags are now."""
    words = {briefing.target.target_lang.lower(), briefing.target.target_backend.lower()}
    if not words & set(card.langs) or (card.gpus and briefing.machine.arch not in card.gpus):
        return False
    if "any" not in card.ops and not any(op in briefing.target.target_op for op in card.ops):
        return False
    hard = Needs(**card.requires.model_dump(include={"cpu_all", "cpu_any", "arch", "threads_over"}))
    return not find_unmet_requirement(hard, briefing, sources=texts(briefing))


def _is_settled(card: Card, briefing: Briefing) -> bool:
    """Whether a round was about a card and nothing says that it is worth another: sweeps are, and what was not measured."""
    past = [closed for closed in briefing.rounds if hypothesis_of(closed).lever == card.id]
    if not past or card.sweep:
        return False
    later = any(closed.accepted and closed.beside >= past[-1].beside for closed in briefing.rounds)
    outpaced = past[-1].judged.verdict.reason == "outpaced"
    return past[-1].accepted or not (outpaced or (card.retry and later))


def _worth(card: Card, briefing: Briefing, telling: frozenset[str], scope: Scope | None) -> float:
    """A card's expected gain in nats, weighed by bottleneck, operator and whether the source has what it works on."""
    gain = math.log(max(card.expected_speedup, LEAST)) if card.edits else UNMEASURED
    gain *= 1.0 if briefing.bottleneck in card.bottlenecks else OFF_BOTTLENECK
    gain *= _about(card, briefing.target.target_op, telling)
    gain *= NUMBERS if card.measured_on else 1.0
    gain *= NATIVE if PurePosixPath(card.path).parent.name == briefing.target.target_lang.lower() else 1.0
    return gain * _readiness(card, briefing, scope)


def _readiness(card: Card, briefing: Briefing, scope: Scope | None) -> float:
    """How near a card is to being tried: of one that only describes only its requirements can be asked."""
    sources = narrow(texts(briefing), scope)
    if find_unmet_requirement(Needs(pattern=card.requires.pattern), briefing, sources=sources):
        return NOWHERE
    if find_unmet_requirement(card.requires, briefing, sources=sources):
        return LATER
    if not card.edits or sum(map(len, sources.values())) > TRIED:
        return 1.0
    items = candidates(card, briefing, scope)
    return 1.0 if any(isinstance(item, Candidate) and item.texts for item in items) else NOWHERE


def _about(card: Card, op: str, telling: frozenset[str]) -> float:
    """How much a card is about the operator: expressly, by its words, not at all, or about another one."""
    if "any" not in card.ops:
        return OURS
    card_words = _words(card)
    ours = _spoken(operators(op))
    if card_words & telling:
        return OURS
    foreign = _spoken(frozenset(vocabulary().ops.values()) - operators(op)) - ours
    return OTHERS if card_words & foreign else 1.0


@lru_cache(maxsize=64)
def _spoken(ops: frozenset[str]) -> frozenset[str]:
    """Single words by which an operator goes."""
    terms = vocabulary()
    names = {name for name, folder in terms.ops.items() if folder in ops} | set(ops)
    groups = [term for name in names for term in terms.same.get((stem(name),), (name,))]
    return frozenset(stem(word) for term in groups for word in split_words(term) if word not in terms.stop)


def _words(card: Card) -> frozenset[str]:
    """Stems of the words in which a card says what it is about."""
    return _stems(" ".join((card.title, card.change, card.because, _section(card, "Applies when", 400))))


@lru_cache(maxsize=1024)
def _stems(text: str) -> frozenset[str]:
    """Stems of the words of a text, by which a planner compares cards with a question."""
    return frozenset(stem(word) for word in split_words(text))


def _section(card: Card, heading: str, most: int) -> str:
    """One part of a card's text, in at most so many characters."""
    match = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", card.body, re.M | re.S)
    return clip_line(match.group(1), most) if match else ""


# Whether a text of the knowledge is about another machine, number format or operator than the campaign's.

FORMATS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8", "int4")
OF_GPUS = "/ops/"
"""In the path of documents that speak of GPUs."""
OF_C, SHIPPED = "/backends/c/", "knowledge/"
"""In paths of documents written for processors, and of those that ship. A team's own about C is shown as it is."""
_FOLDER = re.compile(r"/ops/([^/]+)/")


def _describe_op(briefing: Briefing) -> str:
    """Operator and description of the campaign in lower case, for a planner's choice of cards."""
    return f"{briefing.target.target_op} {briefing.contract.description}".lower()


def _is_low_precision(briefing: Briefing) -> bool:
    """Whether a planner's cards on formats of 8 bits or less matter to the campaign."""
    return bool(re.search(r"(?:fp|int)[48]\b|e\dm\d|mx|w4", briefing.target.dtype.lower())) or "quant" in _describe_op(
        briefing
    )


def _on_amd(briefing: Briefing) -> bool:
    return briefing.machine.kind == "amd"


def _on_nvidia(briefing: Briefing) -> bool:
    return briefing.machine.kind == "nvidia"


def _on_gpu(briefing: Briefing) -> bool:
    return briefing.machine.kind != "cpu"


def _has_groups(briefing: Briefing) -> bool:
    """Whether a planner's cards on groups, experts or batches matter to the operator."""
    return bool(re.search(r"group|moe|expert|batch", _describe_op(briefing)))


def _has_product(briefing: Briefing) -> bool:
    """Whether the operator is or contains a matrix product, for a planner's choice of cards."""
    return bool(re.search(r"gemm|matmul|product|linear|conv|attention|attn|mla|moe", _describe_op(briefing)))


def _is_flat(briefing: Briefing) -> bool:
    """Whether the operator has no rows, axes or columns, for a planner's choice of cards."""
    return not re.search(r"\brows?\b|\baxis\b|\bdim\b|column", _describe_op(briefing))


FOREIGN: tuple[tuple[re.Pattern[str], Callable[[Briefing], bool]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), ours)
    for pattern, ours in (
        (r"\b(?:CDNA\d?|gfx\d\w+|MI\d{3}\w?|MFMA|XCDs?|AGPRs?|wave64)\b", _on_amd),
        (r"\b(?:PTX|wgmma|TMA|SM\d{2,3}|sm_\d+|CUTLASS|cuBLAS|Hopper|Blackwell)\b", _on_nvidia),
        (
            r"\b(?:GPUs?|CUDA|HIP|Triton|warps?|wave(?:s|fronts?)|LDS|HBM\w*|SMs?|CUs?|tensor cores?|multiprocessors?"
            r"|occupancy|shared memory|thread ?blocks?|coalesc\w*|num_(?:warps|stages)|kernel launch(?:es)?)\b",
            _on_gpu,
        ),
        (
            r"\bgrouped (?:product|gemm|matmul)|\ball groups\b|\bgroups? by K\b|gemm-(?:persistent|sort)-group",
            _has_groups,
        ),
        (
            r"\b(?:block|packed|per-group)[ -]scal|\bFP8\b|\bFP4\b|\bMXFP\d|\bE8M0|\bW4A16\b|quanti[sz]|\bUE8M0",
            _is_low_precision,
        ),
        (r"\boperand tiles?\b|\btiles? of the (?:operands?|product)\b", _has_product),
        (r"look-?back|\bone-dimensional scan|\bCUB\b", _is_flat),
    )
)
"""What a text speaks of, and whether a campaign has to do with it."""


def alien(text: str, briefing: Briefing) -> bool:
    """Whether a text of the knowledge is about something else than a planner's campaign: it names it, whatever else it says."""
    return any(pattern.search(text) and not ours(briefing) for pattern, ours in FOREIGN)


def relevant(hit: Hit, briefing: Briefing) -> Hit | None:
    """A section of the knowledge for a planner without lines about something else; None when its heading is, or little is left of it."""
    if OF_C in hit.path and not hit.path.startswith(SHIPPED) and not _on_gpu(briefing):
        return hit
    folder = _FOLDER.search(hit.path)
    if alien(hit.heading, briefing) or (folder and folder[1] not in operators(briefing.target.target_op)):
        return None
    lines = hit.excerpt.splitlines()
    fitting_lines = [line for line in lines if not alien(line, briefing)]
    if not any(line.strip() and line.strip() != "[...]" for line in fitting_lines) or 2 * len(fitting_lines) < len(
        lines
    ):
        return None
    return replace(hit, excerpt="\n".join(fitting_lines))


def for_machine(hits: Sequence[Hit], briefing: Briefing) -> tuple[Hit, ...]:
    """What a planner's search found, as it may be shown: to a processor's campaign nothing that teaches GPUs."""
    if _on_gpu(briefing):
        return tuple(hits)
    trimmed_hits = (relevant(hit, briefing) for hit in hits if OF_GPUS not in hit.path)
    return tuple(hit for hit in trimmed_hits if hit is not None)


def of_other_dtype(metric: str, dtype: str) -> bool:
    """Whether a hardware number is the peak of another number format, such as `fp32_vector` for a bf16 kernel."""
    number_format = metric.lower().replace("-", "_").split("_")[0]
    return number_format in FORMATS and number_format != dtype.lower()
