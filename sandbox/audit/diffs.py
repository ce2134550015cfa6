"""Unified diffs: both sides of every changed file, from the file itself where it is at hand, else from the pieces."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class NoDiff(ValueError):
    """The text is no unified diff; the message says what is wrong with it."""


@dataclass
class Hunk:
    """One piece of a change. `old_line` is its first line in the old file, `start` in the new one, both from 1."""

    old_line: int
    start: int
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


@dataclass
class PatchedFile:
    """One file of a diff. None is no file, on that side."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The path that a finding names."""
        return self.new or self.old or ""


def looks_like_diff(text: str) -> bool:
    """The audit: whether a text begins as a unified diff does."""
    return bool(re.search(r"^(?:diff --git |--- .*\n\+\+\+ )", text, re.MULTILINE)) and "@@" in text


def parse(text: str) -> list[PatchedFile]:
    """The audit: the files of a unified diff. Raises NoDiff where a piece does not have the lines that it announces."""
    files: list[PatchedFile] = []
    lines = _lines(text)
    at = 0
    while at < len(lines):
        if lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            files.append(PatchedFile(old=_path(lines[at][4:]), new=_path(lines[at + 1][4:])))
            at += 2
        elif (match := HUNK.match(lines[at])) and files:
            at = _hunk(lines, at + 1, match, files[-1])
        else:
            at += 1
    if not files:
        raise NoDiff("has no file header (`---` and `+++`)")
    return files


def sides(patched: PatchedFile, disk: Callable[[str], str | None]) -> tuple[str, str | None, int]:
    """An audited diff's old text, new text, and what to add to a line number of the new text.

    `disk` gives the text of a path, None where there is none. A file there may be the old or the new one. Where it is
    neither, the pieces stand for it, one under the other.
    """
    if patched.new is None:
        return "", None, 0
    disk_text = disk(patched.new) if patched.new else None
    disk_text = disk_text if disk_text is not None or patched.old is None else disk(patched.old)
    if disk_text is not None:
        lines = _lines(disk_text)
        if (new := _apply(lines, patched.hunks, forward=True)) is not None:
            return disk_text, new, 0
        if (old := _apply(lines, patched.hunks, forward=False)) is not None:
            return old, disk_text, 0
    before = "\n".join(line for hunk in patched.hunks for line in hunk.before)
    after = "\n".join(line for hunk in patched.hunks for line in hunk.after)
    return before, after, patched.hunks[0].start - 1 if len(patched.hunks) == 1 else 0


def _hunk(lines: list[str], at: int, match: re.Match[str], file: PatchedFile) -> int:
    hunk = Hunk(old_line=int(match[1]), start=int(match[3]))
    left, right = int(match[2] or 1), int(match[4] or 1)
    while at < len(lines) and (left > 0 or right > 0):
        mark, body = lines[at][:1], lines[at][1:]
        if mark in {" ", ""}:
            hunk.before.append(body)
            hunk.after.append(body)
            left, right = left - 1, right - 1
        elif mark == "-":
            hunk.before.append(body)
            left -= 1
        elif mark == "+":
            hunk.after.append(body)
            right -= 1
        elif mark != "\\":
            break
        at += 1
    if left > 0 or right > 0:
        raise NoDiff(f"line {at + 1}: the piece before it has fewer lines than it announces")
    file.hunks.append(hunk)
    return at


def _lines(text: str) -> list[str]:
    """Lines of an audited diff as git counts them: a form feed is no end of a line."""
    return re.split(r"\r?\n", text.removesuffix("\n").removesuffix("\r")) if text else []


def _path(text: str) -> str | None:
    """The audit: a path in a diff's header without its time stamp and git's `a/` or `b/`."""
    path = text.split("\t")[0].strip().strip('"')
    if path == "/dev/null":
        return None
    return path[2:] if path[:2] in {"a/", "b/"} else path


def _apply(lines: list[str], hunks: list[Hunk], *, forward: bool) -> str | None:
    """The audit: the other side of a diffed file; None where its lines are not those that the diff says."""
    result, shift = list(lines), 0
    for hunk in hunks:
        here, there = (hunk.before, hunk.after) if forward else (hunk.after, hunk.before)
        number = hunk.old_line if forward else hunk.start
        start = (number - 1 if here else number) + shift
        if start < 0 or result[start : start + len(here)] != here:
            return None
        result[start : start + len(here)] = there
        shift += len(there) - len(here)
    return "\n".join(result) + "\n"
