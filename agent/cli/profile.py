"""`profile ...`: read what profilers wrote, compare two recordings, or run the best profiler this machine permits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.analysis.profile_document import JudgedKernel, KernelChange
    from ridgeline.agent.analysis.profile_run import ProcessorProfile
    from ridgeline.graph.kernel_profile import Recording
    from ridgeline.sandbox.profiles.profilers.gpu import Only

app = typer.Typer(
    help="Profiles of kernels on any vendor's GPU: parse recordings, compare two, or make one.", no_args_is_help=True
)
Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...", help="Files or folders of rocprofv3, ncu, nsys, rocprof-compute, torch.", show_default=False
    ),
]
PathA = Annotated[Path, typer.Argument(metavar="A", help="The earlier recording.", show_default=False)]
PathB = Annotated[Path, typer.Argument(metavar="B", help="The later one.", show_default=False)]
Contract = Annotated[Path, typer.Argument(metavar="CONTRACT", help="A ridgeline.yaml or its folder.")]
Kernel = Annotated[str | None, typer.Option(help="Regular expression for the kernel that is meant.")]
LeastBytes = Annotated[
    float | None, typer.Option(min=1, help="Bytes that one call must move: over-fetch is told against it.")
]
Gpu = Annotated[
    str | None,
    typer.Option(help="The product that was recorded, where the file names none: its peak is compared with."),
]
Html = Annotated[Path | None, typer.Option(help="Write one self-contained page into this file.")]
Out = Annotated[Path | None, typer.Option(help="Keep the recordings in this folder; default: profiles/<op>-<n> here.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
AsmOnly = Annotated[bool, typer.Option("--asm-only", help="Only the assembly that Triton or FlyDSL compiles.")]
AttOnly = Annotated[bool, typer.Option("--att-only", help="AMD: times, then only a thread trace.")]
PmcOnly = Annotated[bool, typer.Option("--pmc-only", help="AMD: times, then only counters.")]
SHOWN = 12
MOVED = ("NUMBER", "A", "B", "B / A")


def register(parent: typer.Typer) -> None:
    """Adds `profile` and its commands to the command line."""
    parent.add_typer(app, name="profile")


@app.command()
def parse(
    paths: Paths,
    kernel: Kernel = None,
    least_bytes: LeastBytes = None,
    gpu: Gpu = None,
    html: Html = None,
    as_json: Json = False,
) -> None:
    """Read recordings, rank their kernels and say what bounds them. Several paths are one run seen several ways."""
    from ridgeline.agent.analysis import profile_document

    recordings = profile_document.recordings(paths)
    kernels = profile_document.kernels(recordings, kernel, least_bytes=least_bytes, gpu=gpu)
    if html is not None:
        from ridgeline.agent.analysis.profile_report import render

        _write(html, render(", ".join(path.name or str(path) for path in paths), recordings, kernels))
    _print_recordings(recordings, kernels, as_json=as_json)


@app.command()
def diff(a: PathA, b: PathB, kernel: Kernel = None, as_json: Json = False) -> None:
    """What changed from A to B: time with its resolution, registers, occupancy, traffic, stalls."""
    from ridgeline.agent.analysis import profile_document
    from ridgeline.agent.analysis.profile_document import difference
    from ridgeline.agent.analysis.profile_report import plain

    sides = [profile_document.kernels(profile_document.recordings([path]), kernel, every=True) for path in (a, b)]
    differences = difference(sides[0], sides[1], one_each=kernel is not None)
    if as_json:
        console.emit(differences)
        return
    for pair in differences.kernels[:SHOWN]:
        _print_difference(pair)
    if (left := len(differences.kernels) - SHOWN) > 0:
        console.say(f"and {left} more kernels; --json has them all")
    for name, only in (("A", differences.only_a), ("B", differences.only_b)):
        if only:
            console.say(f"only in {name}: {', '.join(plain(display, 60) for display in only)}")
    if not differences.kernels:
        raise UserError(f"{a} and {b}: no kernel is in both; name one with --kernel")


@app.command()
def run(
    contract: Contract,
    kernel: Kernel = None,
    out: Out = None,
    asm_only: AsmOnly = False,
    att_only: AttOnly = False,
    pmc_only: PmcOnly = False,
    as_json: Json = False,
) -> None:
    """Run the contract's profile command, else its benchmark, under the best profiler that this machine permits."""
    from ridgeline.agent.analysis import profile_document, profile_report
    from ridgeline.agent.analysis.profile_run import is_on_processor, record, record_on_processor

    flags: dict[Only, bool] = {"asm": asm_only, "att": att_only, "pmc": pmc_only}
    chosen = [name for name, wanted in flags.items() if wanted]
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(f'--{name}-only' for name in chosen)}: give one of them")
    only = chosen[0] if chosen else None
    if is_on_processor(contract):
        if only is not None:
            raise UserError(f"--{only}-only: is for a card, and {contract} names the processor; leave it out")
        measured = record_on_processor(contract, kernel=kernel, out=out, progress=console.note)
        _print_processor(measured, as_json=as_json)
        return
    outcome = record(contract, kernel=kernel, out=out, progress=console.note, only=only)
    for note in outcome.notes:
        console.note(profile_report.plain(note, 400))
    if only == "asm":
        _print_assembly(outcome.assembly, contract, as_json=as_json)
        return
    recordings = (*profile_document.recordings(outcome.paths), *outcome.recordings)
    if not recordings:
        raise UserError(f"{contract}: nothing was recorded; `ridgeline doctor` names what is missing here", exit_code=5)
    _print_recordings(recordings, profile_document.kernels(recordings, None), as_json=as_json)
    for path in outcome.paths:
        console.note(f"kept: {path}")


def _print_assembly(files: "tuple[Path, ...]", contract: Path, *, as_json: bool) -> None:
    """Prints the files that a compiler left, to be read by `ridgeline isa`."""
    if not files:
        raise UserError(f"{contract}: no compiler left assembly; `ridgeline isa` compiles a source itself", exit_code=5)
    if as_json:
        console.emit({"assembly": [str(path) for path in files]})
        return
    for path in files:
        console.say(f"{path}: read it with `ridgeline isa`")


def _print_processor(measured: "ProcessorProfile", *, as_json: bool) -> None:
    """Prints what a profiled program used, where time went, and the counters that a campaign reads."""
    if as_json:
        console.emit(measured)
        return
    from ridgeline.agent.analysis.profile_report import number, plain
    from ridgeline.agent.analysis.profile_run import FEW_SAMPLES

    usage, profiled = measured.usage, measured.profiled
    console.say(
        f"used    {usage.user_s:.3f} s user and {usage.system_s:.3f} s system in {usage.wall_s:.3f} s, "
        f"{usage.faults} page faults, {usage.waits} waits, {usage.preempted} times taken off its core"
    )
    for item in measured.hot:
        is_few = measured.samples < FEW_SAMPLES
        share = f"{item.samples} of {measured.samples} samples" if is_few else f"{item.share:6.1%}"
        console.say(f"hot     {share}  {plain(item.symbol, 80)}  ({plain(item.file, 60)})")
    if profiled is not None:
        console.say(f"counted by {profiled.rung}, at {profiled.commit[:12]}:")
        console.table(("NUMBER", "VALUE"), [(counter.name, number(counter.value)) for counter in profiled.counters])
    for note in measured.notes:
        console.note(plain(note, 400))
    for path in measured.paths:
        console.note(f"kept: {path}")


def _print_recordings(
    recordings: "tuple[Recording, ...]", kernels: "tuple[JudgedKernel, ...]", *, as_json: bool
) -> None:
    """Prints a table of kernels for each recording, then what bounds them, then warnings."""
    from ridgeline.agent.analysis import profile_report
    from ridgeline.agent.analysis.profile_document import document

    if as_json:
        console.emit(document(recordings, kernels))
        return
    for recording in recordings:
        console.say(profile_report.headline(recording))
        if recording.kernels:
            console.table(profile_report.HEADER, profile_report.rows(recording))
        if (left := len(recording.kernels) - profile_report.KERNELS) > 0:
            console.say(f"and {left} more kernels")
        console.say()
    for line in profile_report.verdicts(kernels):
        console.say(line)
    for warning in dict.fromkeys(warning for recording in recordings for warning in recording.warnings):
        console.note(f"warning: {profile_report.plain(warning, 400)}")


def _print_difference(pair: "KernelChange") -> None:
    """Prints one kernel in both versions: time, bound, and the numbers that moved."""
    from ridgeline.agent.analysis.profile_report import number, plain

    time = pair.time
    console.say(plain(pair.a, 100) if pair.a == pair.b else f"{plain(pair.a, 80)} -> {plain(pair.b, 80)}")
    ratio = f" ({time.ratio:.4g} x)" if time.ratio is not None else ""
    console.say(
        f"  time   {number(time.a_ns, 1e3)} us -> {number(time.b_ns, 1e3)} us{ratio}: {time.answer}; {time.why}"
    )
    console.say(f"  bound  {pair.bound[0]} -> {pair.bound[1]}")
    if pair.stall_basis is not None and pair.stall_basis[0] != pair.stall_basis[1]:
        console.say(f"  waits  shares of {pair.stall_basis[0]} and of {pair.stall_basis[1]} are not compared")
    rows = [
        *pair.numbers,
        *(item.model_copy(update={"name": f"waits: {item.name}"}) for item in pair.stalls),
    ]
    if rows:
        console.table(MOVED, [(item.name, number(item.a), number(item.b), number(item.ratio)) for item in rows])
    console.say()


def _write(path: Path, text: str) -> None:
    """Write the page of `profile --html`. Raises UserError where the file cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--html: {path}: {error.strerror}; name a file in a folder that can be written") from error
    console.note(f"written: {path}")
