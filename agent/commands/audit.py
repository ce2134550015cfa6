"""`audit`: read a candidate's source, never run it, and name what could fool a benchmark."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console

if TYPE_CHECKING:
    from ridgeline.agent.auditing import Audited

Source = Annotated[
    str, typer.Argument(metavar="PATH|DIFF", help="A source, a folder, a unified diff, or - for standard input.")
]
Contract = Annotated[Path | None, typer.Option(help="A ridgeline.yaml: what may be changed, and the data's type.")]
Python = Annotated[
    str | None, typer.Option(help="Interpreter with torch, in which caches are tried with fresh tensors.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
HEADER = ("SEVERITY", "RULE", "PLACE", "SETTLED BY", "CODE")
MEANINGS = {
    "clean": "clean: nothing here needs a closer look",
    "routes": "routes: nothing convicts; a closer check settles each finding",
    "convicted": "convicted: this does what no honest kernel does; a campaign would roll it back unbuilt",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(audit)


def audit(path: Source, contract: Contract = None, python: Python = None, as_json: Json = False) -> None:
    """Caches, replaced clocks, hidden streams, lost precision: what a candidate's source says before it is run.

    Exit code 0 whatever the verdict is: it stands in the answer.
    """
    from ridgeline.agent.auditing import audited

    text = sys.stdin.buffer.read().decode(errors="replace") if path == "-" else None
    found = audited(path, text=text, contract=contract, python=python)
    if as_json:
        console.emit(found)
        return
    _tell(found)


def _tell(found: "Audited") -> None:
    from ridgeline.agent.auditing import rows

    if found.findings:
        console.table(HEADER, rows(found.findings))
        console.say()
    for rule, meaning in dict.fromkeys((one.rule, one.meaning) for one in found.findings):
        console.say(f"{rule}: {meaning}")
    for cache in found.caches:
        console.say(f"{cache.path}:{cache.line} {cache.rule}: {cache.answer}, {cache.why} ({cache.method})")
    console.say(f"{MEANINGS[found.verdict]} ({len(found.examined)} files read)")
