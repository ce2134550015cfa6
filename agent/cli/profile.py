"""`profile ...`: read what profilers wrote, compare two recordings, or run the best profiler this machine permits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.profiles.document import Judged, KernelMoved
    from ridgeline.graph.kernel_profile import Recording

app = typer.Typer(
    help="Profiles of kernels on any vendor's GPU: parse recordings, compare two, or make one.", no_args_is_help=True
)
Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...", help="Files or folders of rocprofv3, ncu, rocprof-compute, torch.", show_default=False
    ),
]
PathA = Annotated[Path, typer.Argument(metavar="A", help="The earlier recording.", show_default=False)]
PathB = Annotated[Path, typer.Argument(metavar="B", help="The later one.", show_default=False)]
Contract = Annotated[Path, typer.Argument(metavar="CONTRACT", help="A ridgeline.yaml or its folder.")]
Kernel = Annotated[str | None, typer.Option(help="Regular expression for the kernel that is meant.")]
Html = Annotated[Path | None, typer.Option(help="Write one self-contained page into this file.")]
Out = Annotated[Path | None, typer.Option(help="Keep the recordings in this folder; default: profiles/<op>-<n> here.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
SHOWN = 12
MOVED = ("NUMBER", "A", "B", "B / A")


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="profile")


@app.command()
def parse(paths: Paths, kernel: Kernel = None, html: Html = None, as_json: Json = False) -> None:
    """Read recordings, rank their kernels and say what bounds them. Several paths are one run seen several ways."""
    from ridgeline.agent.profiles import document

    found = document.recordings(paths)
    kernels = document.kernels(found, kernel)
    if html is not None:
        from ridgeline.agent.profiles.report import render

        _write(html, render(", ".join(path.name or str(path) for path in paths), found, kernels))
    _show(found, kernels, as_json=as_json)


@app.command()
def diff(a: PathA, b: PathB, kernel: Kernel = None, as_json: Json = False) -> None:
    """What changed from A to B: time with its resolution, registers, occupancy, traffic, stalls."""
    from ridgeline.agent.profiles import document
    from ridgeline.agent.profiles.document import difference
    from ridgeline.agent.profiles.report import plain

    sides = [document.kernels(document.recordings([path]), kernel, every=True) for path in (a, b)]
    found = difference(sides[0], sides[1], one_each=kernel is not None)
    if as_json:
        console.emit(found)
        return
    for moved in found.kernels[:SHOWN]:
        _tell(moved)
    if (left := len(found.kernels) - SHOWN) > 0:
        console.say(f"and {left} more kernels; --json has them all")
    for name, only in (("A", found.only_a), ("B", found.only_b)):
        if only:
            console.say(f"only in {name}: {', '.join(plain(display, 60) for display in only)}")
    if not found.kernels:
        raise UserError(f"{a} and {b}: no kernel is in both; name one with --kernel")


@app.command()
def run(contract: Contract, kernel: Kernel = None, out: Out = None, as_json: Json = False) -> None:
    """Run the contract's profile command, else its benchmark, under the best profiler that this machine permits."""
    from ridgeline.agent.profiles import document, report
    from ridgeline.agent.profiles.run import record

    made = record(contract, kernel=kernel, out=out, progress=console.note)
    for note in made.notes:
        console.note(report.plain(note, 400))
    found = (*document.recordings(made.paths), *made.recordings)
    if not found:
        raise UserError(f"{contract}: nothing was recorded; `ridgeline doctor` names what is missing here", exit_code=5)
    _show(found, document.kernels(found, None), as_json=as_json)
    for path in made.paths:
        console.note(f"kept: {path}")


def _show(found: "tuple[Recording, ...]", kernels: "tuple[Judged, ...]", *, as_json: bool) -> None:
    from ridgeline.agent.profiles import report
    from ridgeline.agent.profiles.document import document

    if as_json:
        console.emit(document(found, kernels))
        return
    for recording in found:
        console.say(report.headline(recording))
        if recording.kernels:
            console.table(report.HEADER, report.rows(recording))
        if (left := len(recording.kernels) - report.KERNELS) > 0:
            console.say(f"and {left} more kernels")
        console.say()
    for line in report.verdicts(kernels):
        console.say(line)
    for warning in dict.fromkeys(warning for recording in found for warning in recording.warnings):
        console.note(f"warning: {report.plain(warning, 400)}")


def _tell(moved: "KernelMoved") -> None:
    from ridgeline.agent.profiles.report import number, plain

    time = moved.time
    console.say(plain(moved.a, 100) if moved.a == moved.b else f"{plain(moved.a, 80)} -> {plain(moved.b, 80)}")
    ratio = f" ({time.ratio:.4g} x)" if time.ratio is not None else ""
    console.say(
        f"  time   {number(time.a_ns, 1e3)} us -> {number(time.b_ns, 1e3)} us{ratio}: {time.answer}; {time.why}"
    )
    console.say(f"  bound  {moved.bound[0]} -> {moved.bound[1]}")
    if moved.stall_basis is not None and moved.stall_basis[0] != moved.stall_basis[1]:
        console.say(f"  waits  shares of {moved.stall_basis[0]} and of {moved.stall_basis[1]} are not compared")
    shown = [*moved.numbers, *(item.model_copy(update={"name": f"waits: {item.name}"}) for item in moved.stalls)]
    if shown:
        console.table(MOVED, [(item.name, number(item.a), number(item.b), number(item.ratio)) for item in shown])
    console.say()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--html: {path}: {error.strerror}; name a file in a folder that exists") from error
    console.note(f"written: {path}")
