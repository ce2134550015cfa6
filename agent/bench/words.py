"""What the two words of `ridgeline bench A B` mean: a command line, a commit or a checkout."""

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ridgeline.agent.contract_file import FILE_NAME
from ridgeline.agent.errors import UserError
from ridgeline.graph.contract import SHELL_WORDS
from ridgeline.graph.values import Value
from ridgeline.sandbox.workspace.versions import revision

Kind = Literal["command", "commit", "folder"]
PREFIXES: dict[str, Kind] = {"cmd": "command", "commit": "commit", "dir": "folder"}
WRITTEN: dict[Kind, str] = {kind: f"{prefix}:" for prefix, kind in PREFIXES.items()}


class Side(Value):
    """One word, understood."""

    name: Literal["A", "B"]
    kind: Kind
    text: str
    """Without its prefix."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The words of a command; no shell reads them. Raises UserError for quotes that do not close."""
        try:
            words = tuple(shlex.split(self.text))
        except ValueError as error:
            said = str(error)
            raise UserError(f"{self.name}: {self.text!r}: {said[:1].lower()}{said[1:]}; correct the quotes") from None
        if found := sorted(SHELL_WORDS & set(words)):
            raise UserError(
                f"{self.name}: {self.text!r} uses the shell ({' '.join(found)});"
                " put it into a script and give the script"
            )
        return words


def understood(a: str, b: str, here: Path) -> tuple[Side, Side]:
    """Both words. Raises UserError, one line, for one that is nothing or several things, and for a mixture."""
    first, second = _side("A", a, here), _side("B", b, here)
    if (first.kind == "command") != (second.kind == "command"):
        raise UserError(
            f"A is a {first.kind} and B is a {second.kind}: they would be timed in two ways, and are never compared;"
            " give two commands, or two commits or folders"
        )
    return first, second


def _side(name: Literal["A", "B"], word: str, here: Path) -> Side:
    prefix, colon, rest = word.partition(":")
    if colon and prefix in PREFIXES:
        side = Side(name=name, kind=PREFIXES[prefix], text=rest.strip())
        if not _READINGS[side.kind](side.text, here):
            raise UserError(f"{name}: {_no_such(side, here)}")
        return side
    found = [kind for kind in WRITTEN if _READINGS[kind](word, here) and not _out_of_place(kind, here)]
    if not found:
        raise UserError(f"{name}: {_nothing(name, word, here)}")
    if len(found) > 1:
        meanings = " and ".join(f"a {kind}" for kind in found)
        ways = " or ".join(f"{WRITTEN[kind]}{word}" for kind in found)
        raise UserError(f"{name}: {word!r} is {meanings}; write {ways}")
    return Side(name=name, kind=found[0], text=word)


def _runs(text: str, here: Path) -> bool:
    """Whether the first word is a program."""
    first = _first(text)
    if "/" in first:
        return shutil.which(here / first) is not None
    return bool(first) and shutil.which(first) is not None


def _first(text: str) -> str:
    try:
        return next(iter(shlex.split(text)), "")
    except ValueError:  # said where the command is needed
        return text.split(maxsplit=1)[0] if text.split() else ""


def _is_folder(text: str, here: Path) -> bool:
    return bool(text) and (here / text).is_dir()


def _is_commit(text: str, here: Path) -> bool:
    return revision(text, here) is not None


_READINGS: dict[Kind, Callable[[str, Path], bool]] = {"command": _runs, "folder": _is_folder, "commit": _is_commit}


def _out_of_place(kind: Kind, here: Path) -> bool:
    """A word is read as a commit only where a contract says how commits are built and timed."""
    return kind == "commit" and not (here / FILE_NAME).is_file()


def _no_such(side: Side, here: Path) -> str:
    match side.kind:
        case "command":
            return f"program {_first(side.text)!r} not found; install it, or correct the command"
        case "commit":
            return f"{side.text!r} is no commit, branch or tag that git knows in {here}"
        case "folder":
            return f"{side.text!r} is no folder; give a git checkout with a {FILE_NAME}"


def _nothing(name: str, word: str, here: Path) -> str:
    if word.strip() != word or " " in word:
        return f"program {_first(word)!r} not found; install it, or correct the command"
    commit = "no commit that git knows here" if (here / FILE_NAME).is_file() else f"no commit ({here} has no contract)"
    return f"{word!r} is no folder, {commit} and no program; correct it, or say which with cmd:, commit: or dir:"
