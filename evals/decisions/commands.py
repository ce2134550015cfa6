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
    """Adds `eval` to the command line."""
    app.command("eval")(evaluate)


def evaluate(
    recordings: Recordings = None,
    more: More = None,
    listed: Listed = False,
    prompts: Pair = None,
    models: Models = None,
    answers: Kept = None,
    who: Named = None,
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

    paths = [*(recordings or []), *(more or [])] or comparison.shipped_recordings()
    folder = answers or comparison.KEPT
    if scores:
        _check_scores(paths, scores, folder, write=write, as_json=as_json)
    elif not (prompts or models):
        _print_recorded(paths, listed=listed, as_json=as_json)
    else:
        order = comparison.Order(
            recordings=tuple(paths),
            prompts=prompts or ("shipped",),
            models=tuple(models or []),
            answers=folder,
            answerer=who or "",
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
    check = regression.compare_scores(regression.read_scores(scores), now)
    if as_json:
        console.emit({"good": check.good, **check.model_dump(mode="json")})
    else:
        total = sum(row.answers for row in now.scores)
        console.say(f"recorded answers scored again: {total}; {len(check.changes)} scores changed")
        for text in (*(change.text for change in check.changes), *check.gone):
            console.say(f"  {text}")
        for name in check.reworded:
            console.say(f"  other words, not answered yet: {name}")
    if not check.good:
        raise typer.Exit(1)


def _print_recorded(paths: list[Path], *, listed: bool, as_json: bool) -> None:
    """Print the scores of recorded answers by kind, or with `listed` only how many there are."""
    from ridgeline.agent import console
    from ridgeline.evals.decisions.points import decisions

    points = [decision for path in paths for decision in decisions(path)]
    if listed:
        _count(points, as_json=as_json)
        return
    scores_of = {kind: _score_recorded([point for point in points if point.kind == kind]) for kind in KINDS}
    scores_of = {kind: scores for kind, scores in scores_of.items() if scores}
    if as_json:
        console.emit({"decisions": len(points), "kinds": scores_of})
        return
    names = list(dict.fromkeys(name for scores in scores_of.values() for name in scores))
    console.table(
        ("score", *scores_of), [(name, *(_show_value(scores[name]) for scores in scores_of.values())) for name in names]
    )
    if any(scores["few"] for scores in scores_of.values()):
        console.note("few answers: a rate of so few is known to some ten or twenty per cent, and no better")


def _count(points: "list[Decision]", *, as_json: bool) -> None:
    """Print how many decision points of each kind every recording has."""
    from ridgeline.agent import console

    names = list(dict.fromkeys(point.recording for point in points))
    rows = [
        {
            "recording": name,
            **{kind: sum(point.kind == kind for point in points if point.recording == name) for kind in KINDS},
            "rolled_back": sum(point.failed for point in points if point.recording == name),
        }
        for name in names
    ]
    if as_json:
        console.emit(
            {"decisions": len(points), "rolled_back": sum(point.failed for point in points), "recordings": rows}
        )
        return
    console.table(("recording", *KINDS, "of rounds rolled back"), [tuple(map(str, row.values())) for row in rows])
    console.say(f"{len(points)} decision points")


def _score_recorded(points: "list[Decision]") -> dict[str, Any]:
    """Of the recorded answers; empty for no decision."""
    from ridgeline.evals.decisions.scores import score, summary
    from ridgeline.knowledge.library import Library

    if not points:
        return {}
    line = Library(()).line
    return summary([score(point, point.answer, tokens=point.tokens, line=line) for point in points]).model_dump()


def _show_value(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
