"""Prompts by a word: those that ship, an earlier version of them, or a folder of other templates."""

import re
from dataclasses import dataclass
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.agent.planner.model import PROMPTS, SYSTEM, Wording
from ridgeline.prompts.render import TEMPLATES, Templates

SHIPPED = "shipped"
OTHERS = Path(__file__).parent.parent / "prompts"
"""Folders of templates that were tried against those that ship; each is known by its name."""
VERSION = re.compile(r"(?:(?P<kind>[a-z]+)\.)?v(?P<number>\d+)")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One wording of every question, under the name that people gave."""

    name: str
    wording: Wording

    @property
    def made_of(self) -> tuple[str, ...]:
        """Every template, `name@sha256`: with these the same decision point is the same question."""
        return tuple(dict.fromkeys(one for kind in PROMPTS for one in self.wording.identities(kind)))


def prompt(word: str) -> Prompt:
    """`shipped`, `v2` (all prompts as of version 2), `propose.v2`, a name in `evals/prompts`, or a folder.

    Raises UserError for anything else, and for a folder without a template that is used.
    """
    if word == SHIPPED:
        return Prompt(name=word, wording=Wording())
    if match := VERSION.fullmatch(word):
        return Prompt(name=word, wording=Wording(names=_versioned(word, match["kind"], int(match["number"]))))
    folder = OTHERS / word if (OTHERS / word).is_dir() else Path(word)
    if not folder.is_dir():
        known = ", ".join((SHIPPED, "v1", "propose.v1", *shipped_folders()))
        raise UserError(
            f"--prompts: {word!r} is no folder and no version; give a folder of templates, or one of {known}"
        )
    folder = folder.resolve()
    names = {kind: _parts(path, folder) for kind in PROMPTS if (path := _own(folder, kind))}
    if not names and not any((folder / f"{name}.j2").is_file() for name in _used()):
        raise UserError(
            f"{folder}: holds no template that is used; name one as it is named there: {', '.join(sorted(_used()))}"
        )
    wording = Wording(names={**PROMPTS, **names}, templates=Templates(folder))
    return Prompt(name=folder.name, wording=wording)


def _used() -> set[str]:
    return {SYSTEM, *(name for names in PROMPTS.values() for name in names)}


def _own(folder: Path, kind: str) -> Path | None:
    """The folder's own template of a question, of whatever version."""
    return max(folder.glob(f"{kind}.v*.md.j2"), key=_number, default=None)


def _number(path: Path) -> int:
    return int(path.name.split(".")[1][1:])


def shipped_folders() -> tuple[str, ...]:
    """Names of the folders of `evals/prompts`."""
    return tuple(sorted(path.name for path in OTHERS.iterdir() if path.is_dir() and any(path.glob("*.j2"))))


def _versioned(word: str, kind: str | None, number: int) -> dict[str, tuple[str, ...]]:
    """Each question by its greatest version up to `number`, with whatever that one includes."""
    if kind is not None and kind not in PROMPTS:
        raise UserError(f"--prompts: {word!r}: there is no question {kind!r}; known: {', '.join(PROMPTS)}")
    kinds = (kind,) if kind else tuple(PROMPTS)
    found = {name: _up_to(name, number) for name in kinds}
    if not any(found.values()):
        raise UserError(f"--prompts: {word!r}: there is no such version; give v1 or a later one")
    return {**PROMPTS, **{name: parts for name, parts in found.items() if parts}}


def _up_to(kind: str, number: int) -> tuple[str, ...]:
    older = [path for path in TEMPLATES.glob(f"{kind}.v*.md.j2") if _number(path) <= number]
    return _parts(max(older, key=_number), TEMPLATES) if older else ()


def _parts(path: Path, folder: Path) -> tuple[str, ...]:
    """A template and what it includes, which lies in its folder or with those that ship."""
    included = re.findall(r'{% include "([^"]+\.j2)" %}', path.read_text(encoding="utf-8"))
    found = (folder / name if (folder / name).is_file() else TEMPLATES / name for name in included)
    return (path.name.removesuffix(".j2"), *(name for one in found for name in _parts(one, folder)))
