"""`ridgeline eval`: recorded decision points, counted, scored, and asked again with other prompts or models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ridgeline.evals.decisions.points import Decision

Recordings = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[RECORDING]...", help="Folders of recorded campaigns; default: those that ship."),
]
More = Annotated[list[Path] | None, typer.Option("--recordings", help="The same as an option; repeatable.")]
Listed = Annotated[bool, typer.Option("--list", help="Only count the decision points.")]
Pair = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--prompts",
        metavar="A B",
        help="Compare two wordings: shipped, a version (v2, propose.v2), a name of evals/prompts, or a folder.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="Who answers what is not answered yet: litellm's provider/model, or mailbox for pages to fill by hand."
        " Two of them are compared.",
    ),
]
Kept = Annotated[
    Path | None, typer.Option("--answers", help="Folder of answers, kept and taken up again; default: those that ship.")
]
Named = Annotated[str | None, typer.Option("--as", help="With --model mailbox: the name of whoever answers the pages.")]
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", help="propose, draft or repair; repeatable. Default: propose.")
]
Tried = Annotated[
    bool,
    typer.Option(
        "--try",
        help="With --kind draft: build drafted edits here and test those for a processor, where the task ships.",
    ),
]
Page = Annotated[Path | None, typer.Option("--html", help="Also write the comparison as one self-contained page.")]
Repeat = Annotated[int, typer.Option(help="Score every decision point so many times over: for measuring the scoring.")]
Logs = Annotated[
    Path | None, typer.Option(help="Folder for Inspect AI's logs (`inspect view`); default: ANSWERS/logs.")
]
Scores = Annotated[
    Path | None,
    typer.Option(
        "--scores", help="Score every recorded answer again and compare with this file; exit 1 where one is lower."
    ),
]
Write = Annotated[bool, typer.Option("--write", help="With --scores: write the file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]
KINDS = ("propose", "draft", "repair")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("eval")(evaluate)


def evaluate(
    recordings: Recordings = None,
    more: More = None,
    listed: Listed = False,
    prompts: Pair = None,
    models: Models = None,
    answers: Kept = None,
    named: Named = None,
    kinds: Kinds = None,
    tried: Tried = False,
    html: Page = None,
    repeat: Repeat = 1,
    logs: Logs = None,
    scores: Scores = None,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Score what models answered at recorded decision points; with --prompts or --model, compare wordings or models."""
    from ridgeline.evals.decisions import comparison

    paths, kept = [*(recordings or []), *(more or [])] or comparison.shipped_recordings(), answers or comparison.KEPT
    if scores:
        _check_scores(paths, scores, kept, write=write, as_json=as_json)
    elif not (prompts or models):
        _print_recorded(paths, listed=listed, as_json=as_json)
    else:
        order = comparison.Order(
            recordings=tuple(paths),
            prompts=prompts or ("shipped",),
            models=tuple(models or []),
            answers=kept,
            named=named or "",
            kinds=tuple(kinds or ["propose"]),
            tried=tried,
            repeat=repeat,
            logs=logs,
        )
        comparison.print_report(comparison.run(order), html=html, as_json=as_json)


def _check_scores(paths: list[Path], scores: Path, answers: Path, *, write: bool, as_json: bool) -> None:
    """Recorded answers against the scores that were written down."""
    from ridgeline.agent import console
    from ridgeline.evals.decisions import regression
    from ridgeline.evals.decisions.contest import Answers

    now = regression.measure_recordings(paths, Answers(answers))
    if write:
        regression.write(scores, now)
        console.say(f"{scores}: {sum(row.answers for row in now.scores)} answers scored")
        return
    found = regression.compare_scores(regression.read(scores), now)
    if as_json:
        console.emit({"good": found.good, **found.model_dump(mode="json")})
    else:
        total = sum(row.answers for row in now.scores)
        console.say(f"recorded answers scored again: {total}; {len(found.changes)} scores changed")
        for text in (*(one.text for one in found.changes), *found.gone):
            console.say(f"  {text}")
        for name in found.reworded:
            console.say(f"  other words, not answered yet: {name}")
    if not found.good:
        raise typer.Exit(1)


def _print_recorded(paths: list[Path], *, listed: bool, as_json: bool) -> None:
    from ridgeline.agent import console
    from ridgeline.evals.decisions.points import decisions

    found = [decision for path in paths for decision in decisions(path)]
    if listed:
        _count(found, as_json=as_json)
        return
    told = {kind: _score_recorded([one for one in found if one.kind == kind]) for kind in KINDS}
    told = {kind: one for kind, one in told.items() if one}
    if as_json:
        console.emit({"decisions": len(found), "kinds": told})
        return
    names = list(dict.fromkeys(name for one in told.values() for name in one))
    console.table(("score", *told), [(name, *(_show_value(one[name]) for one in told.values())) for name in names])
    if any(one["few"] for one in told.values()):
        console.note("few answers: a rate of so few is known to some ten or twenty per cent, and no better")


def _count(found: "list[Decision]", *, as_json: bool) -> None:
    from ridgeline.agent import console

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


def _score_recorded(found: "list[Decision]") -> dict[str, Any]:
    """Of the recorded answers; empty for no decision."""
    from ridgeline.evals.decisions.scores import score, summary
    from ridgeline.knowledge.library import Library

    if not found:
        return {}
    line = Library(()).line
    return summary([score(one, one.answer, tokens=one.tokens, line=line) for one in found]).model_dump()


def _show_value(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
