"""The roofline of one call of a known operator on a known product, from documents alone."""

from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.graph.policy.ceilings import CACHES, MIB, CeilingError, bandwidth_of, bounds, peak_of, units_of
from ridgeline.graph.policy.operations import families
from ridgeline.graph.policy.operations.amount import Amount, Types
from ridgeline.graph.policy.operations.families import Family, SizeError
from ridgeline.graph.policy.roofline import Bound, ridge, roof
from ridgeline.graph.policy.waves import Wave, tiles, wave
from ridgeline.graph.record import Spec
from ridgeline.graph.values import Value

FRACTION = 0.90
"""Share of the peak that is the absolute target (rules 5.2.4)."""
TILED = ("gemm", "batched_gemm", "gemm_blockscaled", "gemm_w4a16")


class Asked(Value):
    """What the command line asks for."""

    op: str
    shape: str
    """Sizes separated by commas, in the operator's order or by name."""
    dtype: str
    out_dtype: str | None = None
    gpu: str | None = None
    tile: str | None = None
    """`BM,BN` of a matrix product."""
    grid: int | None = None
    """Number of equal tiles, where the operator has no tile of its own."""
    wikis: tuple[Path, ...] = ()


class Placed(Value):
    """The one JSON object that the command prints. None where no document gives what it needs."""

    op: str
    shape: dict[str, int]
    dtype: str
    out_dtype: str
    gpu: str | None
    flops: float
    bytes: float
    intensity: float | None
    """FLOP per byte."""
    ridge: float | None
    bound: Bound
    floor_us: float | None
    target: float | None
    """Rules 5.2.4: 90 % of the ceiling that bounds the call."""
    target_unit: str | None
    sources: tuple[str, ...]
    """Registered lines: `<metric>: <value> <unit> <- <path>:L<line>`."""
    wave: Wave | None = None
    notes: tuple[str, ...] = ()
    """What is not known and what therefore is not there."""
    formula: str


def place(asked: Asked) -> Placed:
    """Work of the call against the product's ceilings. Raises `UserError` naming the option that is wrong."""
    found, types, sizes = _read(asked)
    try:
        call = families.amount(found, sizes, types)
    except SizeError as error:
        raise UserError(f"--shape: {error}") from error
    specs, notes = _specs(asked, found, types)
    ceilings = bounds(None, specs, asked.gpu or "").ceilings
    at = roof(found.name, call.flops, call.bytes, ceilings)
    peak, copy = (ceilings.flops_gflops, ceilings.copy_gbps) if ceilings else (None, None)
    target, unit = _target(at.bound, specs)
    notes += _cached(call, specs)
    if asked.gpu is not None and target is None:
        notes.append("target: UNKNOWN, the ceiling that it is a share of is not known")
    return Placed(
        op=found.name,
        shape=sizes,
        dtype=types.main,
        out_dtype=types.out,
        gpu=asked.gpu,
        flops=call.flops,
        bytes=call.bytes,
        intensity=at.intensity,
        ridge=ridge(peak, copy) if peak and copy else None,
        bound=at.bound,
        floor_us=at.floor_us if at.bound != "unknown" else None,
        target=target,
        target_unit=unit,
        sources=tuple(spec.text for spec in specs),
        wave=_wave(asked, found, types, sizes, call, specs),
        notes=tuple(notes),
        formula=found.formula,
    )


def _read(asked: Asked) -> tuple[Family, Types, dict[str, int]]:
    try:
        found = families.family(asked.op)
    except SizeError as error:
        raise UserError(f"--op: {error}; `ridgeline roofline --list-ops` explains them") from error
    try:
        types = families.types(found, asked.dtype, asked.out_dtype)
    except SizeError as error:
        raise UserError(f"{'--dtype' if asked.out_dtype is None else '--dtype, --out-dtype'}: {error}") from error
    try:
        return found, types, families.sizes(found, [word for word in asked.shape.split(",") if word.strip()])
    except SizeError as error:
        raise UserError(f"--shape: {error}") from error


def _specs(asked: Asked, found: Family, types: Types) -> tuple[tuple[Spec, ...], list[str]]:
    """Registered numbers of the product, and what there is to say about those that are missing."""
    if asked.gpu is None:
        return (), ["--gpu: not given, so no ceiling is known; the work of the call is"]
    from ridgeline.agent.roofline.stated import products, stated

    known = products(asked.wikis)
    specs = stated(known, asked.gpu, types.main, units=found.units)
    missing = [known.spec(asked.gpu, spec.metric).note for spec in specs if spec.value is None]
    return specs, [f"--gpu: {note}" for note in dict.fromkeys(missing) if note]


def _cached(call: Amount, specs: tuple[Spec, ...]) -> list[str]:
    """The floor rests on memory bandwidth, which a repeated call on data that a cache holds does not need."""
    held = [spec for spec in specs if spec.metric in CACHES and spec.value and call.bytes <= spec.value * MIB]
    if not held:
        return []
    where = ", ".join(spec.metric for spec in held)
    return [f"{call.bytes / MIB:.4g} MiB fit {where}: on warm data memory bandwidth does not bound the call"]


def _target(bound: Bound, specs: tuple[Spec, ...]) -> tuple[float | None, str | None]:
    """In the unit of the document; to four digits, as the documents' own numbers have no more."""
    spec = {"compute": peak_of(specs), "memory": bandwidth_of(specs)}.get(bound)
    if spec is None or spec.value is None:
        return None, None
    return float(f"{FRACTION * spec.value:.4g}"), spec.unit


def _wave(
    asked: Asked, found: Family, types: Types, sizes: dict[str, int], call: Amount, specs: tuple[Spec, ...]
) -> Wave | None:
    if asked.tile is None and asked.grid is None:
        return None
    option = "--tile" if asked.tile is not None else "--grid"
    grid, tile = _tiling(asked, found, types, sizes, call)
    units, peak = units_of(specs), peak_of(specs)
    ceilings = bounds(None, specs, asked.gpu or "").ceilings
    if units is None or units.value is None or peak is None or ceilings is None:
        raise UserError(f"{option}: needs a --gpu whose documents give a compute peak and the number of its units")
    try:
        return wave(grid=grid, units=int(units.value), call=call, tile=tile, ceilings=ceilings, source=peak.source)
    except CeilingError as error:
        raise UserError(f"{option}: {error}") from error
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error


def _tiling(asked: Asked, found: Family, types: Types, sizes: dict[str, int], call: Amount) -> tuple[int, Amount]:
    if asked.tile is None:
        grid = asked.grid or 0
        if grid < 1:
            raise UserError(f"--grid: is {grid}; give the number of tiles, 1 or more")
        return grid, Amount(flops=call.flops / grid, bytes=call.bytes / grid)
    words = asked.tile.split(",")
    if found.name not in TILED or asked.grid is not None:
        raise UserError(f"--tile: is for {', '.join(TILED)}, and not together with --grid; give --grid alone elsewhere")
    if len(words) != 2 or not all(word.strip().isdigit() and int(word) > 0 for word in words):
        raise UserError(f"--tile: {asked.tile!r} is not BM,BN; write for example 128,128")
    block = (int(words[0]), int(words[1]))
    grid, tile = tiles(sizes["M"], sizes["N"], sizes["K"], block=block, read=types.read, written=types.written)
    return grid * sizes.get("B", 1), tile
