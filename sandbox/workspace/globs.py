"""Which paths a contract's globs mean. Anchored at the contract's folder, so that `kernel.c` is one file, not many."""

import functools
import re
from collections.abc import Iterable


def matches(path: str, globs: Iterable[str]) -> bool:
    """Whether a path (relative, with `/`) matches one of the contract's globs.

    `*` and `?` stay inside one name, `**` crosses folders, `[a-z]` is one character, and a glob that matches a folder
    means everything below it.
    """
    return any(_pattern(glob).fullmatch(path) for glob in globs)


@functools.cache
def _pattern(glob: str) -> re.Pattern[str]:
    names = [name for name in glob.split("/") if name not in ("", ".")]
    parts: list[str] = []
    for position, name in enumerate(names):
        is_last = position == len(names) - 1
        if name == "**":
            parts.append(".+" if is_last else "(?:.+/)?")
        else:
            parts.append(_name(name) + ("(?:/.*)?" if is_last else "/"))
    return re.compile("".join(parts) or ".+", re.DOTALL)


def _name(glob: str) -> str:
    """One name of a glob as an expression; a `[` that nothing closes stands for itself."""
    parts: list[str] = []
    rest = glob
    while rest:
        if rest[0] == "*":
            parts.append("[^/]*")
        elif rest[0] == "?":
            parts.append("[^/]")
        elif match := re.match(r"\[([!^]?)(\]?[^\]/]*)\]", rest):
            inside = match[2].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]")
            if inside:
                parts.append(f"[{'^' if match[1] else ''}{inside}]" if not match[1] else f"[^/{inside}]")
                rest = rest[match.end() :]
                continue
            parts.append(re.escape(rest[0]))
        else:
            parts.append(re.escape(rest[0]))
        rest = rest[1:]
    return "".join(parts)
