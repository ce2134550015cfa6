"""`ridgeline replay` and `ridgeline export-recording`; `ridgeline schema` learns to describe a recording."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ridgeline.evals.recordings.export import Private
    from ridgeline.evals.recordings.replay import ReplayResult

Recordings = Annotated[list[Path], typer.Argument(metavar="RECORDING...", help="Folders of recorded campaigns.")]
Campaign = Annotated[
    str, typer.Argument(help="The campaign's directory or name; a recording's folder, to have it written again.")
]
Target = Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make; its name is the recording's.")]
Hide = Annotated[list[str] | None, typer.Option(help="Another word to take out, for example a team's; repeatable.")]
Licence = Annotated[str, typer.Option(help="SPDX expression for the sources, answers and numbers in it.")]
Retell = Annotated[
    bool,
    typer.Option("--retell", help="Write what another version of Ridgeline ran in the words of this one."),
]
Which = Annotated[
    str,
    typer.Argument(
        help="contract (ridgeline.yaml), ledger (a line of ledger.jsonl), outcome, or recording (a recorded campaign)."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]
Times = Annotated[
    Path | None,
    typer.Option(
        "--times", help="What `ridgeline judge baselines --json` printed of it: makes it a row of the results page."
    ),
]
Again = Annotated[
    str,
    typer.Option("--again", help="The row's command; default: a demo of the task in the recording, where it has one."),
]
Types = Annotated[str, typer.Option(help="The row's types, where the times do not say them.")]
Note = Annotated[list[str] | None, typer.Option(help="A line below the row, for example why it stopped; repeatable.")]
DIFFERENT = 1
"""Exit code of a replay that wrote another ledger: the command worked, the answer is no."""


Campaigns = Annotated[Path, typer.Option(help="Folder of recorded campaigns.")]
Beside = Annotated[Path, typer.Option("--rivals", help="Folder of recorded comparisons with others.")]
Page = Annotated[
    Path | None, typer.Option("-o", "--out", help="Write the page here, and its picture into pictures/ beside it.")
]


def register(app: typer.Typer) -> None:
    """Add the commands; `schema` takes the place of the one that knows no recordings."""
    app.command()(replay)
    app.command()(results)
    app.command("export-recording")(export_recording)
    app.command()(schema)


def replay(recordings: Recordings, as_json: Json = False) -> None:
    """Run the real graph on a recording: no GPU, no model. Does it write the same ledger? Exit code 1 if not."""
    from ridgeline.agent import console
    from ridgeline.evals.recordings.replay import replay as play

    replays = [play(path) for path in recordings]
    if as_json:
        console.emit(
            replays[0] if len(replays) == 1 else {"recordings": [result.model_dump(mode="json") for result in replays]}
        )
    else:
        for result in replays:
            console.say(describe_replay(result))
    if not all(result.good for result in replays):
        raise typer.Exit(DIFFERENT)


def results(
    campaigns: Campaigns = Path("evals/campaigns"),
    rivals: Beside = Path("evals/rivals"),
    out: Page = None,
    as_json: Json = False,
) -> None:
    """The results page, from recordings alone: times, gains with bounds, costs and the command of each row."""
    from ridgeline.agent import console
    from ridgeline.agent.errors import UserError
    from ridgeline.evals.recordings.results import draw, read_rows, render_page

    rows = read_rows(campaigns, rivals)
    if not rows:
        raise UserError(f"{campaigns}: holds no recorded campaign; give --campaigns FOLDER")
    if out is not None:
        picture = out.parent / "pictures" / f"{out.stem}.svg"
        picture.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(render_page(rows), encoding="utf-8")
        picture.write_text(draw(rows), encoding="utf-8")
        console.note(f"{out} and {picture}: {len(rows)} rows")
    if as_json:
        console.emit({"rows": [row.model_dump(mode="json") for row in rows]})
    elif out is None:
        console.say(render_page(rows))


def describe_replay(result: "ReplayResult") -> str:
    """What a recording's replay found, for people."""
    rounds = f"{result.rounds} round{'' if result.rounds == 1 else 's'}"
    head = f"{result.recording}: {'equal' if result.equal else 'different'}, {rounds}, {result.seconds:.2f} s"
    lines = [head]
    if result.open and result.equal:
        question = result.stopped.removeprefix("tape: ").partition("(")[0]
        lines.append(f"  was never concluded; it ends where the tape does, at {question}")
    elif result.stopped and not result.equal:
        lines.append(f"  stopped: {result.stopped}")
    if result.first_difference:
        lines.append(f"  first difference: {result.first_difference.text}".replace("\n", "\n  "))
    if result.unused:
        lines.append(f"  {result.unused} of {result.answers} recorded answers were not asked for")
    lines += [f"  changed since it was exported: {name}" for name in result.changed]
    return "\n".join(lines)


def export_recording(
    campaign: Campaign,
    directory: Target,
    hide: Hide = None,
    licence: Licence = "Apache-2.0",
    retell: Retell = False,
    times: Times = None,
    again: Again = "",
    types: Types = "",
    note: Note = None,
    rivals: Beside = Path("evals/rivals"),
    as_json: Json = False,
) -> None:
    """Make a recording of a campaign to give away: no names, no paths, under 3 MB, refused where a key stands.

    With --times or --again it is a row of the results page, too: DIR is then below evals/campaigns, and `make results` follows.
    """
    from ridgeline.agent import console
    from ridgeline.agent.campaign import folders
    from ridgeline.evals.recordings.export import export
    from ridgeline.evals.recordings.results import read_times, write_row

    beside = read_times(times) if times else None
    result = export(folders.find(campaign), directory, _private(hide or []), licence=licence, retold=retell)
    if beside is not None or again:
        row = write_row(rivals, directory, beside, command=again, types=types, notes=note or [])
        console.note(f"{row}: a row of the results page; `make results` writes it")
    if as_json:
        console.emit(
            {
                "folder": str(result.folder),
                "bytes": result.bytes,
                "card": result.card.model_dump(mode="json"),
            }
        )
        return
    card = result.card
    replacements = ", ".join(f"{count} {kind}" for kind, count in card.scrubbed) or "nothing"
    console.say(f"{result.folder}: {card.rounds} rounds, {card.kept} kept, {result.bytes / 1e6:.2f} MB; replays equal")
    console.say(f"taken out: {replacements}; read it through before you publish it")
    if card.left_out:
        console.say(f"left out to stay small: {len(card.left_out)} artifacts")
    if card.retold:
        console.say(f"retold in the words of this version; first at {card.retold.splitlines()[0]}")


def schema(which: Which = "contract") -> None:
    """JSON Schema of a file that Ridgeline reads or writes, a recording among them."""
    from ridgeline.agent import console
    from ridgeline.agent.cli import contract
    from ridgeline.evals.recordings.recording import schema as recording

    if which == "recording":
        console.emit(recording())
    else:
        contract.schema(which)


def _private(words: list[str]) -> "Private":
    """To export a recording: names of this machine and of who is logged in, and what else is to be kept out of it."""
    import getpass
    import socket

    from ridgeline.evals.recordings.export import Private

    host = socket.gethostname()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id that has no name, as in many containers
        user = ""
    hosts = tuple({host, host.partition(".")[0]})
    return Private(hosts=hosts, users=(user,) if user else (), words=tuple(word for word in words if word))
