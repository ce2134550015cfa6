"""`doctor`: what this machine has, and what each missing thing costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
MACHINE = 5


def register(app: typer.Typer) -> None:
    """Adds `doctor` and `gate` to the command line."""
    app.command()(doctor)
    app.command()(gate)


def doctor(as_json: Json = False) -> None:
    """What this machine has for the work. Also what each missing thing costs. Exit code 5: a campaign cannot run."""
    from ridgeline.agent.machine import examine

    findings = examine(Path.cwd())
    lacking = [finding for finding in findings if finding.required and not finding.found]
    if as_json:
        console.emit({"ok": not lacking, "findings": [finding.model_dump(mode="json") for finding in findings]})
    else:
        rows = [
            ("yes" if finding.found else "NO" if finding.required else "no", finding.name, finding.detail, finding.cost)
            for finding in findings
        ]
        console.table(("HAVE", "WHAT", "DETAIL", "COST OF ITS ABSENCE"), rows)
    if lacking:
        raise typer.Exit(MACHINE)


# `gate`: which GPU is idle, and why another is not.

if TYPE_CHECKING:
    from ridgeline.agent.machine import CardView, GateReport

NONE_IDLE = 4

Recorded = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        help="Decide from recorded output of nvidia-smi, rocm-smi or amd-smi. Several files: those that tell different"
        " things are one moment, one that tells the same again is the next sample.",
    ),
]
More = Annotated[list[Path] | None, typer.Argument(help="Further files after --from FILE.", metavar="FILE...")]
Samples = Annotated[int | None, typer.Option(help="Looks at this machine's cards; default 5.", min=1, max=1000)]
Interval = Annotated[float | None, typer.Option(help="Seconds between two looks; default 1.", min=0, max=60)]


def gate(
    more: More = None,
    recorded: Recorded = None,
    samples: Samples = None,
    interval: Interval = None,
    as_json: Json = False,
) -> None:
    """Which GPU is idle, by the agreement of several signals. Exit code 0: one is; 4: none; 2: a file is unreadable.

    Unknown counts as busy. Thresholds: RIDGELINE_GATE="key=value key=value", for example allowed=NAME+NAME.
    """
    from ridgeline.agent.machine import present

    if more and not recorded:
        raise UserError(f"{more[0]}: is given without --from; write `ridgeline gate --from FILE...`")
    if recorded:
        report = _of_files([*recorded, *(more or ())], as_json=as_json)
    else:
        report = present(samples=samples, interval_s=interval)
    if as_json:
        console.emit(report)
    else:
        _print_gate(report)
    if report.decision != "idle":
        raise typer.Exit(NONE_IDLE)


def _of_files(files: list[Path], *, as_json: bool) -> "GateReport":
    """`gate` of recorded files: with --json an unreadable one still gives the one object: unknown, and what the problem is."""
    from ridgeline.agent.machine import decide_from_files, report
    from ridgeline.sandbox.devices.values import Unreadable

    try:
        return decide_from_files(files)
    except (Unreadable, UserError) as error:
        if as_json:
            console.emit(report([], problem=str(error)))
        raise


def _print_gate(report: "GateReport") -> None:
    """Prints a table of the cards, and which one a command would get."""
    if report.cards:
        header = ("GPU", "STATE", "USE", "MEMORY", "POWER", "NAME", "WHY")
        console.table(header, [_row(card) for card in report.cards])
    if report.problem:
        console.note(report.problem)
    chosen = f", a command would get {report.chosen}" if report.chosen is not None else ""
    console.say(f"decision: {report.decision}{chosen}")


def _row(card: "CardView") -> tuple[str, ...]:
    """The printed cells of one card in `ridgeline gate`."""
    return (
        f"{card.vendor} {'?' if card.index is None else card.index}",
        card.state,
        "-" if card.utilization_pct is None else f"{card.utilization_pct:g} %",
        "-" if card.memory_used_mb is None else f"{card.memory_used_mb:g} MiB",
        "-" if card.power_w is None else f"{card.power_w:g} W",
        card.name or "-",
        "; ".join(card.reasons),
    )
