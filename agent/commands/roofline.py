"""`roofline`: Step 0 alone: what this machine allows, and which shapes it bounds how."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graph.record import ShapeRoof, Spec

Contract = Annotated[Path, typer.Argument(help="A ridgeline.yaml, or its folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]
HEADER = ("SHAPE", "GFLOP", "MB", "FLOP/BYTE", "BOUND", "FLOOR us", "NOW us", "OF CEILING")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(roofline)


def roofline(contract: Contract, as_json: Json = False) -> None:
    """How far each shape is from its floor. Measures this machine's ceilings and runs the benchmark once."""
    from agent.contract_file import load
    from agent.rehearsal import measuring, unusable
    from graph.evidence import BenchmarkFailed
    from graph.policy.roofline import bound_of, shape_roofs, shares, specs

    loaded = load(contract)
    with measuring(loaded) as (ports, commit):
        machine = ports.device.machine()
        console.note("measuring the ceilings of this machine")
        ceilings = ports.device.ceilings(loaded.contract.dtype)
        console.note("running the benchmark once")
        run = ports.timer.benchmark(commit, level="full", source="project", shapes=(), repeat=0, purpose="roofline")
    if isinstance(run, BenchmarkFailed):
        raise unusable(loaded, run)
    roofs = shape_roofs(run.rows, loaded.contract.work, ceilings)
    share = shares(run.rows, roofs, loaded.contract.scoring)
    column = loaded.contract.scoring.time_ms
    times = {row.label: row.metric(column) * 1000 for row in run.rows} if column else {}
    known = specs(ceilings, machine)
    if as_json:
        console.emit(
            {
                "contract": str(loaded.path),
                "machine": machine.model_dump(mode="json"),
                "specs": [spec.text for spec in known],
                "bound": bound_of(roofs),
                "shapes": [{**roof.model_dump(), "share": share.get(roof.label)} for roof in roofs],
            }
        )
        return
    _show(known, bound_of(roofs))
    console.table(HEADER, [_cells(roof, times.get(roof.label), share.get(roof.label)) for roof in roofs])
    if loaded.contract.work.flops is None and loaded.contract.work.bytes is None:
        console.note("work: the contract gives no formulas for operations and bytes, so no floor can be computed")


def _show(known: "Sequence[Spec]", bound: str) -> None:
    for spec in known:
        console.say(f"{spec.metric:<18} {'unknown' if spec.value is None else f'{spec.value:.5g} {spec.unit}'}")
    for source in dict.fromkeys(spec.source for spec in known):
        console.say(source)
    console.say(f"the benchmark as a whole is bound by: {bound}\n")


def _cells(roof: "ShapeRoof", now_us: float | None, share: float | None) -> tuple[str, ...]:
    return (
        roof.label,
        _number(roof.flops, 1e9),
        _number(roof.bytes, 1e6),
        _number(roof.intensity),
        roof.bound,
        _number(roof.floor_us),
        _number(now_us),
        "-" if share is None else f"{share:.1%}",
    )


def _number(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{value / unit:.4g}"
