"""`fleet`: many campaigns on many machines."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.fleet.plan import Line

HEADER = ("CAMPAIGN", "STATE", "SPEEDUP", "AT LEAST", "ROUNDS", "KEPT", "MINUTES", "USD", "MACHINE")
FleetArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="fleet.yaml: campaigns with contracts, needs and priorities.")
]
Out = Annotated[
    Path, typer.Option(help="Folder of the fleet, on storage that all machines share. The same again goes on with it.")
]
Address = Annotated[
    str | None, typer.Option(help="A Ray cluster (`auto`, HOST:6379, ray://HOST:10001); default: this machine.")
]
MaxParallel = Annotated[int | None, typer.Option(min=1, help="Campaigns at a time, beside what fits the machines.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]


def register(app: typer.Typer) -> None:
    """Adds `fleet` and its commands to the command line."""
    group = typer.Typer(help="Many campaigns on many machines, by Ray.", no_args_is_help=True)
    group.command(name="run")(run)
    group.command(name="table")(table)
    group.command(name="drive", hidden=True)(drive)
    app.add_typer(group, name="fleet")


def run(
    file: FleetArgument,
    out: Out,
    address: Address = None,
    max_parallel: MaxParallel = None,
    as_json: Json = False,
) -> None:
    """Run every campaign of the file; stopped or killed, the same command goes on from their ledgers.

    Exit code 1 while not all have concluded.
    """
    from ridgeline.agent.attempts import read_object
    from ridgeline.agent.fleet.plan import Line, read_fleet
    from ridgeline.agent.fleet.ray_engine import drive_in_child
    from ridgeline.agent.fleet.run import JOINING_S

    read_fleet(file)
    words = ["fleet", "drive", str(file), "--out", str(out)]
    words += ["--address", address] if address else []
    words += ["--max-parallel", str(max_parallel)] if max_parallel else []
    ended = drive_in_child(words, joining_s=JOINING_S, say=console.note)
    fields = read_object(ended.output)
    if "campaigns" not in fields:
        raise UserError(str(fields["error"]), exit_code=int(fields["exit_code"]))
    lines = tuple(Line.model_validate(line) for line in fields["campaigns"])
    _print_table(lines, as_json=as_json)
    if any(line.state != "concluded" for line in lines):
        raise typer.Exit(1)


def drive(
    file: FleetArgument,
    out: Out,
    result: Annotated[Path, typer.Option(help="Where its end is written: the table, or what was wrong.")],
    address: Address = None,
    max_parallel: MaxParallel = None,
) -> None:
    """What `run` starts, and starts again when Ray ends it."""
    import json

    from ridgeline.graph.errors import RidgelineError
    from ridgeline.sandbox.store.durable import write_whole

    try:
        end: dict[str, object] = {
            "campaigns": [line.model_dump(mode="json") for line in _drive(file, out, address, max_parallel)]
        }
    except RidgelineError as error:
        end = {"error": str(error), "exit_code": error.exit_code}
    write_whole(result, json.dumps(end).encode())


def _drive(file: Path, out: Path, address: str | None, max_parallel: int | None) -> "tuple[Line, ...]":
    from ridgeline.agent.fleet.plan import read_fleet
    from ridgeline.agent.fleet.ray_engine import RayEngine
    from ridgeline.agent.fleet.run import JOINING_S, Fleet

    asked = read_fleet(file)
    if max_parallel is not None:
        asked = asked.model_copy(update={"max_parallel": max_parallel})
    engine = RayEngine(address, cpus=max_parallel if address is None else None)
    try:
        fleet = Fleet(
            folder=out,
            file=asked,
            root=file.resolve().parent,
            engine=engine,
            progress=console.Progress(console.note),
            joining_s=JOINING_S if address else 0.0,
        )
        return fleet.run()
    finally:
        engine.close()


def table(out: Annotated[Path, typer.Argument(help="Folder of a fleet.")], as_json: Json = False) -> None:
    """The fleet as far as it is; `ridgeline serve FOLDER` shows it in a browser, live."""
    from ridgeline.agent.fleet.run import read_standing

    standing = read_standing(out)
    _print_table(standing.lines, as_json=as_json)
    if not as_json:
        console.say(standing.describe())


def _print_table(lines: "tuple[Line, ...]", *, as_json: bool) -> None:
    if as_json:
        console.emit({"campaigns": [line.model_dump(mode="json") for line in lines]})
        return
    console.table(
        HEADER,
        [
            (
                line.name,
                line.state,
                "-" if line.speedup is None else f"{line.speedup:.3f}x",
                "-" if line.speedup_lower is None else f"{line.speedup_lower:.3f}x",
                str(line.rounds),
                str(line.accepted),
                f"{line.minutes:.1f}",
                "?" if line.dollars is None else f"{line.dollars:.2f}",
                line.node,
            )
            for line in lines
        ],
    )
    for line in lines:
        if line.detail:
            console.say(f"{line.name}: {line.state}: {line.detail}")
