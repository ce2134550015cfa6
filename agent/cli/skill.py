"""`skill`: what a coding agent has to know of Ridgeline, where coding agents look for it."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

PLACES = (".claude/skills", ".agents/skills")
"""Below a project or a home: Claude Code and opencode read the first, Codex, Gemini CLI and opencode the second."""
NAME = "ridgeline"
LARGEST = 100_000
"""Bytes of a file that may be an earlier version of the skill."""

Action = Annotated[
    Literal["install"] | None, typer.Argument(help="install: write it; without: print it.", show_default=False)
]
To = Annotated[
    Path | None, typer.Option("--to", help="Project or home folder to install into; default: this repository.")
]
Print = Annotated[bool, typer.Option("--print", help="Print the skill, which is also done without any word.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


def register(app: typer.Typer) -> None:
    """Adds `skill` to the command line."""
    app.command()(skill)


def skill(action: Action = None, to: To = None, print_it: Print = False, as_json: Json = False) -> None:
    """Teach a coding agent the mailbox, the judge and the bench: a SKILL.md for Claude Code, Codex, Gemini CLI, opencode."""
    text = (files("ridgeline.agent") / "skills" / NAME / "SKILL.md").read_text(encoding="utf-8")
    if action is None:
        if to is not None:
            raise UserError("--to: is for `ridgeline skill install --to DIR`")
        if as_json:
            console.emit({"name": NAME, "text": text})
        else:
            console.say(text.rstrip("\n"))
        return
    if print_it:
        raise UserError("--print: prints and installs nothing; leave out one of `install` and `--print`")
    written = _install(text, to)
    if as_json:
        console.emit({"installed": [str(path) for path in written]})
        return
    for path in written:
        console.say(f"installed  {path}")


def _install(text: str, to: Path | None) -> tuple[Path, ...]:
    """Write Ridgeline's SKILL.md into both places. Raises UserError for a folder that is none, and where something else lies there."""
    from ridgeline.agent.campaign.folders import repository
    from ridgeline.sandbox.store.durable import write_whole

    root = to or repository(Path.cwd()) or Path.cwd()
    if not root.is_dir():
        raise UserError(f"--to: {root}: no such folder; give a project or a home")
    paths = tuple(root.absolute() / place / NAME / "SKILL.md" for place in PLACES)
    for path in paths:
        if path.exists() and not _is_ours(path):
            raise UserError(f"{path}: is not a skill of Ridgeline; move it away, or install elsewhere by --to")
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    return paths


def _is_ours(path: Path) -> bool:
    """Whether a file is a version of Ridgeline's SKILL.md: by the name in its front matter."""
    with path.open("rb") as file:
        lines = file.read(LARGEST).decode(errors="replace").splitlines()
    return lines[:1] == ["---"] and f"name: {NAME}" in lines[1:10]
