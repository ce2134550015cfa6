"""Edits out of a model's answer, applied exactly: search/replace blocks or whole files, nothing fuzzy."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from ridgeline.agent.planner.conversation import Wrong, clip_line, without_thoughts
from ridgeline.graph.contract import Contract
from ridgeline.graph.values import FileEdit, Value
from ridgeline.sandbox.audit.relaxed_math import find_new_option
from ridgeline.sandbox.workspace.edits import refusal
from ridgeline.sandbox.workspace.git import Entry

BLOCKS = 60
EXPLANATION = 700
"""Characters of the explanation that are kept."""
NEAREST = 3
"""Candidates that are compared letter by letter when a block matches nowhere."""
_HEADER = re.compile(r"^[\s#*>-]*(EDIT|FILE)\b[\s:*`]+([^\s`*:]+)[\s`*:]*$")
_CANDIDATE = re.compile(r"^[#*\s]*CANDIDATE\s+(\d{1,2})\b[^\n]*$", re.M)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})(.*)$")
_SEARCH = re.compile(r"^(<{5,9}) ?SEARCH\s*$")
_MIDDLE = re.compile(r"^={5,9}\s*$")
_REPLACE = re.compile(r"^>{5,9} ?REPLACE\s*$")


class EditedFiles(Value):
    """What an answer makes of the files, and its own words."""

    edits: tuple[FileEdit, ...]
    explanation: str


@dataclass(frozen=True, kw_only=True)
class Block:
    """One wish: replace these lines, or the whole file when `search` is None."""

    path: str
    search: tuple[str, ...] | None
    replace: tuple[str, ...]


def apply_answer(answer: str, sources: Mapping[str, str], contract: Contract) -> EditedFiles | Wrong:
    """Applies a model's edit blocks: the files as it wants them, or everything that is wrong with it. Nothing is applied in part."""
    answer_text = without_thoughts(answer).replace("\r\n", "\n")
    wishes = blocks(answer_text, only=next(iter(sources)) if len(sources) == 1 else "")
    if isinstance(wishes, Wrong):
        return wishes
    texts = dict(sources)
    problems: list[str] = []
    for number, block in enumerate(wishes, start=1):
        result = _surface(block, contract, sources) or _apply_block(block, texts)
        if isinstance(result, Wrong):
            problems.append(f"block {number}, {block.path}: {result.why}")
        else:
            texts[block.path] = result
    if problems:
        return Wrong(why="\n".join(problems))
    edits = tuple(FileEdit(path=path, text=text) for path, text in texts.items() if sources.get(path) != text)
    if not edits:
        return Wrong(why="the edits leave every file as it was")
    option = "" if contract.relaxed_math == "allowed" else find_new_option(sources, texts)
    if option:
        return Wrong(why=f"{option} changes what NaN, infinity, subnormals and rounding give; this contract refuses it")
    return EditedFiles(edits=edits, explanation=explanation(answer_text))


def apply_candidate(
    answer: str, sources: Mapping[str, str], contract: Contract, count: int, place: int
) -> EditedFiles | Wrong:
    """Of a model's answer with the edits of `count` candidates, under a line `CANDIDATE N` each, those of the one at `place`.

    A candidate that the answer leaves out has no edits. An answer without such lines is about the first.
    """
    if count == 1:
        return apply_answer(answer, sources, contract)
    parts = _split_candidates(without_thoughts(answer).replace("\r\n", "\n"), count)
    if isinstance(parts, Wrong):
        return parts
    if place not in parts:
        return EditedFiles(edits=(), explanation="")
    result = apply_answer(parts[place], sources, contract)
    return Wrong(why=f"candidate {place + 1}: {result.why}") if isinstance(result, Wrong) else result


def _split_candidates(answer: str, count: int) -> dict[int, str] | Wrong:
    """Place of a candidate, from 0 -> its part of the model's answer."""
    pieces = _CANDIDATE.split(answer)
    if len(pieces) == 1:
        return {0: answer}
    parts: dict[int, str] = {}
    for number, text in zip(pieces[1::2], pieces[2::2], strict=True):
        place = int(number) - 1
        if not 0 <= place < count:
            return Wrong(why=f"CANDIDATE {number}: the candidates are 1 to {count}")
        if place in parts:
            return Wrong(why=f"CANDIDATE {number} stands there twice")
        parts[place] = text
    return parts


def explanation(answer: str) -> str:
    """What a model's answer says before its first edit, on one line."""
    words: list[str] = []
    for line in answer.splitlines():
        if _HEADER.match(line) or _SEARCH.match(line) or _FENCE.match(line):
            break
        words.append(line.replace("**", "").strip().strip("#* "))
    return clip_line(" ".join(words), EXPLANATION)


def blocks(answer: str, *, only: str = "") -> tuple[Block, ...] | Wrong:
    """The edit blocks of a model's answer in their order. `only`: the file that is meant where none is named."""
    reader = _Reader(only)
    for line in answer.split("\n"):
        reader.take(line)
    return reader.finish()


class _Reader:
    """What has been read of an answer so far, line by line."""

    def __init__(self, only: str) -> None:
        self._path = only
        self._is_whole_file = False
        self._block: list[str] | None = None
        """Lines behind SEARCH."""
        self._width = 0
        """Signs of its mark."""
        self._body: list[str] | None = None
        self._fence = ""
        self._blocks: list[Block] = []

    def take(self, line: str) -> None:
        """Read one line of a model's answer in the state that the lines before it left."""
        if self._block is not None:
            self._in_block(line)
        elif self._body is not None:
            self._in_file(line)
        elif header := _HEADER.match(line):
            self._path, self._is_whole_file = _clean(header[2]), header[1] == "FILE"
        elif mark := _SEARCH.match(line):
            self._block, self._width, self._is_whole_file = [], len(mark[1]), False
        elif self._is_whole_file and (fence := _FENCE.match(line)):
            self._body, self._fence = [], fence[1]

    def finish(self) -> tuple[Block, ...] | Wrong:
        """All edit blocks of a model's answer, or what is wrong: an open block, no block, or too many."""
        if self._block is not None or self._body is not None:
            return Wrong(why=f"the last edit, of {self._path or 'no file'}, is not closed: the answer ends inside")
        if not self._blocks:
            return Wrong(why="no edit was found; write EDIT or FILE blocks exactly as they were described")
        if len(self._blocks) > BLOCKS:
            return Wrong(why=f"{len(self._blocks)} blocks are more than one change; at most {BLOCKS} are taken")
        return tuple(self._blocks)

    def _in_block(self, line: str) -> None:
        """A line of an edit block behind SEARCH. REPLACE closes it where a middle mark came before: one as wide as that of SEARCH,
        since code may have such lines of its own, as below a title in a comment; else the first one."""
        assert self._block is not None
        middles = [at for at, each in enumerate(self._block) if _MIDDLE.match(each)] if _REPLACE.match(line) else []
        if not middles:
            self._block.append(line)
            return
        middle = next((at for at in middles if len(self._block[at].rstrip()) == self._width), middles[0])
        search, replace = tuple(self._block[:middle]), tuple(self._block[middle + 1 :])
        self._blocks.append(Block(path=self._path, search=search, replace=replace))
        self._block = None

    def _in_file(self, line: str) -> None:
        """A line of a whole file in a model's answer; the fence that opened it closes it."""
        assert self._body is not None
        fence = _FENCE.match(line)
        if not fence or fence[2].strip() or fence[1][0] != self._fence[0] or len(fence[1]) < len(self._fence):
            self._body.append(line)
            return
        self._blocks.append(Block(path=self._path, search=None, replace=tuple(self._body)))
        self._body, self._is_whole_file = None, False


def _clean(path: str) -> str:
    """The path of an edit block without quotes and `./`."""
    return path.strip("\"'").removeprefix("./")


def _surface(block: Block, contract: Contract, sources: Mapping[str, str]) -> Wrong | None:
    """Whether an edit block's file is editable; asked before anything of it is looked at."""
    if not block.path:
        return Wrong(why="names no file; write EDIT and the path on the line before it")
    present = {path: Entry(mode="100644", oid="", path=path) for path in sources}
    why = refusal((FileEdit(path=block.path, text=""),), contract, present)
    return Wrong(why=f"refused: {why}") if why else None


def _apply_block(block: Block, texts: Mapping[str, str]) -> str | Wrong:
    """The file's new text after one edit block."""
    text = texts.get(block.path)
    if block.search is None:
        return _end_lines_like(block.replace, text or "\n")
    if text is None or not text.strip():
        return _new(block, text)
    carriage = "\r" if text.count("\r\n") * 2 > text.count("\n") else ""
    lines = text.split("\n")
    search = [line + carriage for line in block.search]
    if not any(line.strip() for line in search):
        return Wrong(why="SEARCH is empty; copy the lines that are to be replaced")
    size = len(search)
    places = [at for at in range(len(lines) - size + 1) if lines[at : at + size] == search]
    if len(places) > 1:
        numbers = ", ".join(str(at + 1) for at in places[:8])
        return Wrong(why=f"SEARCH stands {len(places)} times, at lines {numbers}; add lines around it")
    if not places:
        return Wrong(why=f"SEARCH does not stand in the file exactly like that; {_nearest(lines, search)}")
    at = places[0]
    return "\n".join([*lines[:at], *(line + carriage for line in block.replace), *lines[at + size :]])


def _new(block: Block, text: str | None) -> str | Wrong:
    """The text of a new file by an edit block: only one without SEARCH can write a file that is absent or empty."""
    if any(line.strip() for line in block.search or ()):
        return Wrong(why="does not exist; write it with FILE" if text is None else "is empty; write it with FILE")
    return _end_lines_like(block.replace, "\n")


def _end_lines_like(lines: tuple[str, ...], before: str) -> str:
    """A whole text of an edit block that ends its lines as the old one did."""
    text = "\n".join(lines).rstrip("\n") + "\n"
    return text.replace("\n", "\r\n") if before.count("\r\n") * 2 > before.count("\n") else text


def _nearest(lines: list[str], search: list[str]) -> str:
    """The part of the file that looks most like an edit block's SEARCH, as it really is."""
    size, search_lines = len(search), {line.strip() for line in search if line.strip()}
    hits = [line.strip() in search_lines for line in lines]
    starts = range(max(1, len(lines) - size + 1))
    score = {at: sum(hits[at : at + size]) for at in starts}
    likely = sorted(starts, key=lambda at: (-score[at], at))[:NEAREST]
    if not score[likely[0]]:
        first_line = next(line.strip() for line in search if line.strip())
        order = sorted(starts, key=lambda at: -SequenceMatcher(None, lines[at].strip(), first_line).quick_ratio())
        likely = order[:NEAREST]
    text = "\n".join(search)
    best = max(likely, key=lambda at: SequenceMatcher(None, "\n".join(lines[at : at + size]), text).ratio())
    return f"the nearest lines are {best + 1}-{min(len(lines), best + size)}:\n" + "\n".join(lines[best : best + size])
