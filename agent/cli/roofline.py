"""`roofline`: what a machine allows at most, and how far from it a contract, a campaign or one operator is."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.campaign import folders
from ridgeline.agent.errors import UserError
from ridgeline.agent.knowledge_folders import require_readable

if TYPE_CHECKING:
    from ridgeline.agent.analysis.roofline import CallRequest, CallRoofline, ContractRoofline, MeasuredShape
    from ridgeline.agent.analysis.roofline_picture import Picture, ShapeStands

Target = Annotated[
    str | None, typer.Argument(metavar="[CONTRACT|CAMPAIGN]", help="A ridgeline.yaml or its folder, or a campaign.")
]
Op = Annotated[str | None, typer.Option(help="An operator instead, from documents alone: see --list-ops.")]
Shape = Annotated[str | None, typer.Option(help="Its sizes: 4096,4096,4096 in its order, or M=4096,... by name.")]
Dtype = Annotated[str | None, typer.Option(help="What it reads: bf16, fp8, ...")]
OutDtype = Annotated[
    str | None, typer.Option(help="What it writes; default: as it reads, 16 bits for narrow products.")
]
Gpu = Annotated[
    str | None, typer.Option(help="Product, for example H100 or 'MI300X'; exact, siblings are not guessed.")
]
Tile = Annotated[str | None, typer.Option(help="BM,BN of a matrix product: what its waves leave of the peak.")]
Grid = Annotated[int | None, typer.Option(help="The same for any operator, of so many equal tiles.")]
Listed = Annotated[bool, typer.Option("--list-ops", help="Print every operator with its sizes and formula.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the roofline into this .png or .svg.")]
Wiki = Annotated[list[Path] | None, typer.Option("--wiki", help="Another folder of documents; repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]
HEADER = ("SHAPE", "GFLOP", "MB", "FLOP/BYTE", "BOUND", "FLOOR us", "NOW us", "OF CEILING", "COPY GB/s", "OF COPY")

STANDS = ("SHAPE", "FLOP/BYTE", "BOUND", "FLOOR us", "ORIGINAL us", "OF CEILING", "BEST us", "OF CEILING")


def register(app: typer.Typer) -> None:
    """Adds `roofline` to the command line."""
    app.command()(roofline)


def roofline(
    target: Target = None,
    op: Op = None,
    shape: Shape = None,
    dtype: Dtype = None,
    out_dtype: OutDtype = None,
    gpu: Gpu = None,
    tile: Tile = None,
    grid: Grid = None,
    list_ops: Listed = False,
    plot: Plot = None,
    wiki: Wiki = None,
    as_json: Json = False,
) -> None:
    """How far each shape is from its floor. Measures this machine's ceilings; an operator alone measures nothing."""
    flags = {"--shape": shape, "--dtype": dtype, "--out-dtype": out_dtype, "--gpu": gpu, "--tile": tile, "--grid": grid}
    if list_ops:
        _print_operators(as_json=as_json)
    elif op is not None:
        if target is not None or plot is not None:
            raise UserError(f"--op: not together with {target or '--plot'}; leave one of them out")
        _print_operation(_make_request(op, flags, wiki), as_json=as_json)
    elif names := [name for name, value in flags.items() if value is not None]:
        raise UserError(f"{names[0]}: is for --op; name the operator, for example --op gemm")
    elif target is None:
        raise UserError("CONTRACT: missing; give a ridgeline.yaml, a campaign, or --op with --shape and --dtype")
    else:
        _print_measured(target, plot, as_json=as_json)


def _make_request(op: str, flags: dict[str, str | int | None], wikis: list[Path] | None) -> "CallRequest":
    """The options of `roofline` as a request. Raises UserError where shape or dtype is missing."""
    from ridgeline.agent.analysis.roofline import CallRequest

    for name in ("--shape", "--dtype"):
        if flags[name] is None:
            raise UserError(f"{name}: missing; an operator needs --shape and --dtype, `--list-ops` explains the sizes")
    fields = {name.removeprefix("--").replace("-", "_"): value for name, value in flags.items()}
    return CallRequest.model_validate({"op": op, "wikis": require_readable(wikis or (), "--wiki"), **fields})


def _print_operation(request: "CallRequest", *, as_json: bool) -> None:
    """Prints where an operator of these sizes stands on the roofline."""
    from ridgeline.agent.analysis.roofline import place

    placed = place(request)
    if as_json:
        console.emit(placed)
    else:
        _print_placed(placed)
    for note in placed.notes:
        console.note(note)


def _print_measured(target: str, plot: Path | None, *, as_json: bool) -> None:
    """Prints the roofline of a campaign where the word names one, else of a contract."""
    if plot is not None:
        from ridgeline.agent.analysis.roofline_picture import check

        check(plot)
    try:
        folder = folders.find(target) if not _is_contract(Path(target)) else None
    except UserError:
        if Path(target).exists():
            folder = None
        else:
            raise
    if folder is not None:
        from ridgeline.agent.analysis.roofline_picture import stands

        standing, picture = stands(folder, folders.history(folder))
        if as_json:
            console.emit(standing)
        else:
            _print_specs(standing.specs, standing.note)
            console.table(STANDS, [_standing(shape) for shape in standing.shapes])
            console.say(f"\n{standing.said}")
    else:
        picture = _measure_contract(Path(target), as_json=as_json)
    if plot is not None:
        from ridgeline.agent.analysis.roofline_picture import draw

        draw(plot, picture)
        console.note(f"drawn: {plot}")


def _is_contract(path: Path) -> bool:
    """Whether `roofline FOLDER` means a contract: its folder may hold campaigns too."""
    return path.is_file() or (path.is_dir() and (path / "ridgeline.yaml").is_file() and not folders.is_campaign(path))


def _measure_contract(path: Path, *, as_json: bool) -> "Picture":
    """Measure ceilings and shapes of a contract, print them, and give what is drawn."""
    from ridgeline.agent.analysis.roofline import measure
    from ridgeline.agent.campaign import settings
    from ridgeline.agent.contract_file import load

    loaded = load(path)
    layers = (settings.from_contract(loaded.contract, loaded.path.name), settings.from_environment(os.environ))
    report, picture = measure(loaded, settings.resolve(layers, model=None).limits, console.note)
    if as_json:
        console.emit(report)
        return picture
    _print_shapes(report)
    if loaded.contract.work.flops is None and loaded.contract.work.bytes is None:
        console.note("work: the contract gives no formulas for operations and bytes, so no floor can be computed")
    return picture


def _print_operators(*, as_json: bool) -> None:
    """Prints the operators that `roofline` knows with their sizes and formulas."""
    from ridgeline.graph.rules.operations import FAMILIES, usage

    if as_json:
        console.emit([family.model_dump(mode="json") for family in FAMILIES.values()])
        return
    rows = [(usage(family).replace(" takes ", "  "), family.formula) for family in FAMILIES.values()]
    console.table(("OPERATOR AND SIZES", "OPERATIONS; BYTES (r, w: width of what is read and written)"), rows)


def _print_placed(placed: "CallRoofline") -> None:
    """Prints work, intensity, bound, floor and target of an operator, a line each."""
    console.say(f"{placed.op} {', '.join(f'{name}={size}' for name, size in placed.shape.items())}, {placed.dtype} in,")
    console.say(f"{placed.out_dtype} out: {placed.formula}\n")
    for line in placed.sources:
        console.say(line)
    target = "UNKNOWN" if placed.target is None else f">= {placed.target:g} {placed.target_unit} (90 % of the ceiling)"
    rows = (
        ("work", f"{_number(placed.flops, 1e9)} GFLOP, {_number(placed.bytes, 1e6)} MB"),
        ("intensity", f"{_number(placed.intensity)} FLOP/byte, ridge {_number(placed.ridge)}"),
        ("bound", placed.bound),
        ("floor", f"{_number(placed.floor_us)} us"),
        ("target", target),
        *((("achieved", placed.achieved),) if placed.achieved else ()),
    )
    for name, text in rows:
        console.say(f"{name:<10} {text}")
    if placed.wave is not None:
        wave = placed.wave
        console.say(
            f"{'waves':<10} {wave.grid} tiles on {wave.units} units ({wave.fill}): {wave.waves} waves, "
            f"{wave.filled:.1%} filled, at most {wave.ceiling_gflops / 1e3:.4g} TFLOPS; without reuse in a cache "
            f"{_number(wave.no_reuse_gflops, 1e3)} TFLOPS"
        )


def _print_shapes(report: "ContractRoofline") -> None:
    """Prints ceilings with their sources, then a table of the benchmark's shapes."""
    _print_specs(report.specs, report.note)
    console.say(f"the benchmark as a whole is bound by: {report.bound}\n")
    console.table(HEADER, [_cells(shape) for shape in report.shapes])
    console.say(f"\n{report.said}")


def _print_specs(specs: tuple[str, ...], note: str) -> None:
    """Prints ceilings, a line each, and a note."""
    for line in specs:
        console.say(line)
    if note:
        console.say(note)
    console.say()


def _cells(shape: "MeasuredShape") -> tuple[str, ...]:
    """Printed cells of a measured shape: GFLOP, MB, FLOP/byte, bound, microseconds, share of the ceiling, a copy of its own size."""
    return (
        shape.label,
        _number(shape.flops, 1e9),
        _number(shape.bytes, 1e6),
        _number(shape.intensity),
        shape.bound,
        _number(shape.floor_us),
        _number(shape.now_us),
        _share(shape.share),
        _number(shape.copy_gbps),
        _share(shape.of_copy),
    )


def _standing(shape: "ShapeStands") -> tuple[str, ...]:
    """Printed cells of one shape of a campaign: floor, original and best in microseconds, and their shares."""
    return (
        shape.label,
        _number(shape.intensity),
        shape.bound,
        _number(shape.floor_us),
        _number(shape.original_us),
        _share(shape.original_share),
        _number(shape.best_us),
        _share(shape.best_share),
    )


def _share(value: float | None) -> str:
    """A share as a percentage that `roofline` prints; `-` where it is not known."""
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None, unit: float = 1.0) -> str:
    """A number that `roofline` prints, in multiples of `unit`, four digits; `-` where it is not known."""
    return "-" if value is None else f"{value / unit:.4g}"
