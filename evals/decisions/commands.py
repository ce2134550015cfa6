"""`ridgeline eval`: recorded decision points, counted and scored."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evals.decisions.points import Decision

Recordings = Annotated[list[Path], typer.Argument(metavar="RECORDING...", help="Folders of recorded campaigns.")]
Listed = Annotated[bool, typer.Option("--list", help="Only count the decision points.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]
KINDS = ("propose", "draft", "repair")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("eval")(evaluate)


def evaluate(recordings: Recordings, listed: Listed = False, as_json: Json = False) -> None:
    """Score what models answered at recorded decision points, with what was known later. No model is asked."""
    from agent import console
    from evals.decisions.points import decisions

    found = [decision for path in recordings for decision in decisions(path)]
    if listed:
        _count(found, as_json=as_json)
        return
    told = {kind: _scored([one for one in found if one.kind == kind]) for kind in KINDS}
    told = {kind: one for kind, one in told.items() if one}
    if as_json:
        console.emit({"decisions": len(found), "kinds": told})
        return
    names = list(dict.fromkeys(name for one in told.values() for name in one))
    console.table(("score", *told), [(name, *(_shown(one[name]) for one in told.values())) for name in names])
    if any(one["few"] for one in told.values()):
        console.note("few answers: a rate of so few is known to some ten or twenty per cent, and no better")


def _count(found: "list[Decision]", *, as_json: bool) -> None:
    from agent import console

    names = list(dict.fromkeys(one.recording for one in found))
    rows = [
        {
            "recording": name,
            **{kind: sum(one.kind == kind for one in found if one.recording == name) for kind in KINDS},
            "rolled_back": sum(one.failed for one in found if one.recording == name),
        }
        for name in names
    ]
    if as_json:
        console.emit({"decisions": len(found), "rolled_back": sum(one.failed for one in found), "recordings": rows})
        return
    console.table(("recording", *KINDS, "of rounds rolled back"), [tuple(map(str, row.values())) for row in rows])
    console.say(f"{len(found)} decision points")


def _scored(found: "list[Decision]") -> dict[str, Any]:
    """Of the recorded answers; empty for no decision."""
    from evals.decisions.scores import score, summary
    from knowledge.library import Library

    if not found:
        return {}
    line = Library(()).line
    return summary([score(one, one.answer, tokens=one.tokens, line=line) for one in found]).model_dump()


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
