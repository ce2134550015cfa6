"""Read-only files that say what the problem is: shapes, error bounds, the interface. The rest of the tree by name."""

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from itertools import takewhile
from pathlib import PurePosixPath

from agent.planners.model_fit import Count, bounded
from agent.planners.model_tools import Reader
from graph.briefing import Briefing

TELLING = re.compile(r"problem|reference|shape|spec|tolerance", re.IGNORECASE)
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
"""In a function that is left out last: it says what is right."""
LISTS = re.compile(r"struct|class|enum|=")
"""In the first line of what is never left out."""
NAMED = 30
"""Other files that are named."""
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
        forms = (folded(whole) if len(whole) > WHOLE else whole, folded(whole, all_of_them=True))
        part = next((form for form in forms if count(form) <= left), bounded(forms[-1], tokens=left, count=count))
        left -= count(part)
        shown.append(part)
    seen = {part.partition("\n")[0] for part in shown}
    others = [path for path in paths if f"==> {path} (read-only)" not in seen and not path.startswith(".")]
    return "\n\n".join([*shown, *_named(others)])


def folded(text: str, *, all_of_them: bool = False) -> str:
    """Without the bodies of functions that say nothing of errors; lists, structures and comments stay.

    `all_of_them`: without the bodies of the other functions too. Every gap is stated.
    """
    lines = text.splitlines()
    out: list[str] = []
    at = 0
    while at < len(lines):
        body = list(takewhile(lambda line: not line or line[0].isspace(), lines[at + 1 :]))
        long = len(body) - len(list(takewhile(lambda line: not line, reversed(body))))
        out.append(lines[at])
        out += [f"    [{long} lines left out]", *body[long:]] if _dull(lines[at], body, all_of_them) else body
        at += 1 + len(body)
    return "\n".join(out)


def _dull(first: str, body: list[str], all_of_them: bool) -> bool:
    """Whether a block is a function whose body may be left out."""
    if len(body) < BODY or first[:1].isspace() or not first.endswith(("{", ":")) or LISTS.search(first):
        return False
    return all_of_them or not TELLS.search("\n".join([first, *body]))


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
