"""Read-only files that say what the problem is: shapes, error bounds, the interface. The rest of the tree by name."""

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from itertools import takewhile
from pathlib import PurePosixPath

from ridgeline.agent.planners.model_fit import Count, bounded, clipped
from ridgeline.agent.planners.model_tools import Reader
from ridgeline.graph.briefing import Briefing

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


def problem(told: Briefing, reader: Reader, *, tokens: int, count: Count) -> str:
    """The defining files within `tokens`, each marked read-only, and what else there is by name."""
    own = {edit.path for edit in told.sources}
    paths = [path for path in reader.paths(told.best_commit) if path not in own]
    shown: list[str] = []
    left = tokens
    defining = _defining(told, paths)
    for path in defining:
        text = reader.text(told.best_commit, path)
        if text is None or not text.strip() or left < LEAST:
            continue
        whole = f"==> {path} (read-only)\n{text.rstrip()}"
        forms = (*((whole,) if len(whole) <= WHOLE else ()), *(folded(terse(whole), level) for level in LEVELS))
        part = next((form for form in forms if count(form) <= left), bounded(forms[-1], tokens=left, count=count))
        left -= count(part)
        shown.append(part)
    seen = {part.partition("\n")[0] for part in shown}
    others = [path for path in paths if f"==> {path} (read-only)" not in seen and not path.startswith(".")]
    return "\n\n".join([*shown, *_named(others)])


def folded(text: str, level: int = 0) -> str:
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


def benchmark_says(told: Briefing, reader: Reader) -> str:
    """What the benchmark's file says at its top about caches and launches, or that it says nothing."""
    paths = set(reader.paths(told.best_commit))
    path = next((word for word in told.contract.quick_command if word in paths), None)
    text = (reader.text(told.best_commit, path) or "") if path else ""
    said = _TOP.match(text)
    lines = (line.strip(" *") for line in (said.group(1) if said else "").splitlines())
    prose = " ".join("." if _USAGE.search(line) or not line else line for line in lines)
    sentences = re.split(r"(?<=[.;])\s+", prose)
    kept = [sentence for sentence in sentences if _TIMING.search(sentence)]
    return clipped(" ".join(kept), LONGEST) or "does not say whether the L2 cache is cold or warm"


def _dull(first: str, body: list[str], level: int) -> bool:
    """Whether a block is a function whose body may be left out."""
    if len(body) < BODY or first[:1].isspace() or not first.endswith(("{", ":")) or LISTS.search(first):
        return False
    if level == 0:
        return not (NEEDED.search(first) or TELLS.search("\n".join([first, *body])))
    return level > 1 or not NEEDED.search(first)


def _defining(told: Briefing, paths: Iterable[str]) -> list[str]:
    """What the kernel includes first, then files whose names say that they define the problem."""
    sources = "\n".join(edit.text or "" for edit in told.sources)
    wanted = {
        PurePosixPath((first or second).replace(".", "/") if second else first).name
        for first, second in _IMPORT.findall(sources)
    }

    def rank(path: str) -> int:
        name = PurePosixPath(path)
        if name.name in wanted or (name.suffix == ".py" and name.stem in wanted):
            return 0
        guarded = any(fnmatch(path, glob) for glob in told.contract.protected)
        return 1 if guarded and TELLING.search(name.name) and not MACHINERY.search(path) else 2

    return sorted((path for path in paths if rank(path) < 2), key=lambda path: (rank(path), path))


def _named(others: list[str]) -> list[str]:
    if not others:
        return []
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return [f"read-only too, not shown: {', '.join(others[:NAMED])}{more}"]
