"""The roofline of a contract: its shapes on this machine, where the unmodified kernel stands, what is left to gain."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.agent.analysis.roofline_picture import Picture, series
from ridgeline.agent.campaign.wiring import measuring, unusable
from ridgeline.agent.contract_file import LoadedContract
from ridgeline.agent.errors import UserError
from ridgeline.agent.knowledge_folders import roots
from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import BenchmarkFailed, Ceilings, Machine, Row
from ridgeline.graph.limits import Limits
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import ShapeRoof, Spec
from ridgeline.graph.rules import goal as ends
from ridgeline.graph.rules import operations as families
from ridgeline.graph.rules.goal import GoalError, parse_goal
from ridgeline.graph.rules.headroom import Device, Headroom, compute_headroom, describe_nothing_left, list_cached_shapes
from ridgeline.graph.rules.operations import Amount, Family, SizeError, Types, Units, Wave, canonical, tiles, wave
from ridgeline.graph.rules.roofline import (
    CACHES,
    MIB,
    CeilingError,
    RooflineBound,
    bandwidth_of,
    bound_of,
    choose_ceilings,
    compute_roof,
    compute_shape_roofs,
    compute_shares,
    list_specs,
    peak_of,
    ridge,
    units_of,
)
from ridgeline.graph.target import Goal
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.machine import LocalDevice

if TYPE_CHECKING:
    from collections.abc import Callable


class MeasuredShape(ShapeRoof):
    """A shape and where the unmodified kernel stands."""

    now_us: float | None
    share: float | None
    """Floor time / measured time."""
    copy_gbps: float | None = None
    """GB/s, bytes read plus written, of a copy of the shape's own traffic, timed beside it; None where the traffic is
    larger than the caches, and the ceiling says as much."""
    of_copy: float | None = None
    """The shape's own traffic a second as a share of that."""


class ContractRoofline(Value):
    """The one JSON object of `ridgeline roofline CONTRACT`."""

    contract: str
    machine: Machine
    specs: tuple[str, ...]
    """Registered lines: what documents state, then what was measured here."""
    ceilings: Ceilings | None
    """What bounds the shapes: measured where it could be, else stated."""
    note: str
    """What was refused, and what is not known and therefore off."""
    bound: RooflineBound
    shapes: tuple[MeasuredShape, ...]
    reach: Headroom | None
    nothing_to_gain: bool
    said: str
    """What that means for a campaign, in one sentence."""


def measure(loaded: LoadedContract, limits: Limits, say: "Callable[[str], None]") -> tuple[ContractRoofline, Picture]:
    """A contract's roofline: measure the ceilings and run the benchmark once. Raises `UserError` where its numbers cannot be used."""
    with measuring(loaded) as (ports, commit):
        say("measuring the ceilings of this machine")
        device, note = measure_device(ports, loaded)
        say("running the benchmark once")
        run = ports.timer.benchmark(commit, level="full", source="project", shapes=(), repeat=0, purpose="roofline")
        if isinstance(run, BenchmarkFailed):
            raise unusable(loaded, run)
        device, note = confirm_ceilings(ports, loaded, limits, rows=run.rows, basis=(device, note))
    roofs = compute_shape_roofs(run.rows, loaded.contract.work, device.ceilings)
    copies = time_copies(loaded, list_cached_shapes(roofs, device), say)
    note = "; ".join(filter(None, (note, copies))) if isinstance(copies, str) else note
    headroom = compute_headroom(run.rows, loaded.contract, device)
    nothing, sentence = verdict(headroom, loaded.contract, limits)
    measured = ContractRoofline(
        contract=str(loaded.path),
        machine=device.machine,
        specs=tuple(spec.text for spec in device.specs),
        ceilings=device.ceilings,
        note=note,
        bound=bound_of(roofs),
        shapes=_display_shapes(run.rows, roofs, loaded.contract, {} if isinstance(copies, str) else copies),
        reach=headroom if isinstance(headroom, Headroom) else None,
        nothing_to_gain=nothing,
        said=sentence,
    )
    picture = Picture(
        title=f"{loaded.contract.target_op} on {device.machine.name}",
        sentence=sentence,
        ceilings=device.ceilings,
        series=(series("now", run.rows, roofs, loaded.contract.scoring),),
    )
    return measured, picture


def measure_device(ports: Ports, loaded: LoadedContract, *, fresh: bool = False) -> tuple[Device, str]:
    """The ceilings of the contract's device, measured and stated, with its registered numbers; and what there is to say."""
    machine, dtype = ports.device.machine(), loaded.contract.dtype
    stated: tuple[Spec, ...] = of_machine(machine, loaded.contract, roots(loaded.contract, loaded.root))
    measured = ports.device.ceilings(dtype, fresh=True) if fresh else ports.device.ceilings(dtype)
    choice = choose_ceilings(measured, stated, machine.fingerprint)
    registered = list_specs(choice.measured, machine, stated)
    return Device(ceilings=choice.ceilings, machine=machine, specs=registered), choice.note


def confirm_ceilings(
    ports: Ports, loaded: LoadedContract, limits: Limits, *, rows: Sequence[Row], basis: tuple[Device, str]
) -> tuple[Device, str]:
    """The roofline's ceilings, measured again where a kept measurement would say that there is nothing to gain."""
    (device, _), contract = basis, loaded.contract
    from_store = device.ceilings is not None and device.ceilings.kept
    if not from_store or not verdict(compute_headroom(rows, contract, device), contract, limits)[0]:
        return basis
    return measure_device(ports, loaded, fresh=True)


def verdict(headroom: Headroom | str, contract: Contract, limits: Limits) -> tuple[bool, str]:
    """Whether a campaign would end before its first round, and the sentence that says so or what is left."""
    if isinstance(headroom, str):
        return False, f"what is left to gain cannot be said: {headroom}"
    fraction = ends.peak_fraction(limits, _goal(contract))
    sentence = describe_nothing_left(headroom, fraction) if fraction is not None else ""
    if sentence:
        return True, f"{sentence}; --set target_peak_fraction=none searches all the same"
    return False, f"the kernel reaches {headroom.text}: at most {headroom.left:.3g}x is left"


def _goal(contract: Contract) -> Goal | None:
    """A contract's target for its roofline; one that cannot be read is refused when a campaign begins."""
    if contract.performance_target is None:
        return None
    try:
        return parse_goal(contract.performance_target, contract.scoring.primary_metric[0])
    except GoalError:
        return None


MOST_COPIES = 4
"""Sizes of which a copy is timed, smallest traffic first: those are farthest from the bandwidth of the memory."""


def time_copies(
    loaded: LoadedContract, shapes: Sequence[ShapeRoof], say: "Callable[[str], None]"
) -> dict[str, float] | str:
    """Label -> GB/s of a copy of the shape's own traffic; why there is none where it cannot be timed."""
    sizes = sorted({round(roof.bytes) for roof in shapes if roof.bytes})[:MOST_COPIES]
    if not sizes:
        return {}
    say(f"timing copies of {len(sizes)} sizes")
    copies = LocalDevice(loaded.contract, root=loaded.root).copy_rates(sizes)
    if isinstance(copies, str):
        return f"copies of the shapes' own sizes were not timed: {copies}"
    rates = dict(zip(sizes, (copy.gbps for copy in copies), strict=True))
    return {roof.label: rates[size] for roof in shapes if roof.bytes and (size := round(roof.bytes)) in rates}


def _display_shapes(
    rows: Sequence[Row], roofs: Sequence[ShapeRoof], contract: Contract, copies: Mapping[str, float]
) -> tuple[MeasuredShape, ...]:
    share, column = compute_shares(rows, roofs, contract.scoring), contract.scoring.time_ms
    times = {row.label: 1e3 * row.metric(column) for row in rows} if column else {}

    def hold_against_copy(roof: ShapeRoof) -> float | None:
        """The shape's rate beside the copy's."""
        now_us, gbps = times.get(roof.label), copies.get(roof.label)
        return roof.bytes / now_us / 1e3 / gbps if roof.bytes and now_us and gbps else None

    return tuple(
        MeasuredShape(
            **roof.model_dump(),
            now_us=times.get(roof.label),
            share=share.get(roof.label),
            copy_gbps=copies.get(roof.label),
            of_copy=hold_against_copy(roof),
        )
        for roof in roofs
    )


# What the knowledge base states of a product, as the registered numbers that a roofline rests on.

if TYPE_CHECKING:
    from ridgeline.knowledge.specs import Products
    from ridgeline.knowledge.specs import Spec as Known

OTHERS = (
    "sm_count",
    "cu_count",
    "l2_capacity",
    "mall_capacity",
    "smem_capacity",
    "lds_capacity",
    "int32_vector",
    "l1_bandwidth",
    "shuffle_rate",
)
"""Registered beside peak and bandwidth where a document gives them; nobody is asked for the ones it does not. The rate of integers
bounds kernels that select, compare or compute addresses, those of L1 and shuffles what stays on the chip."""


def products(wikis: tuple[Path, ...] = ()) -> "Products":
    """Every GPU product of the knowledge base and of attached folders of the same layout."""
    from ridgeline.knowledge.library import Library
    from ridgeline.knowledge.specs import Products

    return Products(Library(wikis))


def documented_specs(library: "Products", product: str, dtype: str, *, units: Units = "matrix") -> tuple[Spec, ...]:
    """A GPU's documented peak of `dtype` on `units`, bandwidth, and sizes that matter; UNKNOWN where no line gives one.

    The peak is the dense one: rates with structured sparsity are never taken for it. Of a module of several dies they
    are those of the one that a kernel runs on.
    """
    peak = next(
        (spec for name in peaks(dtype, units) if (spec := library.device_spec(product, name)).value is not None),
        library.spec(product, f"{_plain(dtype)}_dense"),
    )
    sizes = (spec for name in OTHERS if (spec := library.device_spec(product, name)).value is not None)
    return tuple(map(to_spec, (peak, library.device_spec(product, "hbm_bandwidth"), *sizes)))


def of_machine(machine: Machine, contract: Contract, wikis: tuple[Path, ...] = ()) -> tuple[Spec, ...]:
    """Documented numbers of the device that a contract runs on; none for a processor, whose ceilings are measured."""
    if machine.kind == "cpu":
        return ()
    library = products(wikis)
    return documented_specs(library, _product(library, machine, contract), contract.dtype)


def peaks(dtype: str, units: Units) -> Iterator[str]:
    """Peak metrics of a product that can be the roofline's compute ceiling, the right one first."""
    name = _plain(dtype)
    if units == "vector":
        yield from (f"{name}_vector", "fp32_vector")
    yield from (f"{name}_dense", f"{name}_matrix", f"{name}_vector")


def to_spec(spec: "Known") -> Spec:
    """A documented number of the knowledge base as the roofline takes it."""
    from ridgeline.knowledge.specs import MISSING

    source = spec.place if spec.value is not None else MISSING
    return Spec(metric=spec.metric, value=spec.value, unit=spec.unit, source=source)


def _product(library: "Products", machine: Machine, contract: Contract) -> str:
    """The product whose ceilings count: the device's own name; the contract's where that is masked and the architectures agree."""
    target = contract.target_gpu
    if (
        library.find(machine.name) is None
        and target is not None
        and library.spec(target, "arch").written == machine.arch
    ):
        return target
    return machine.name


def _plain(dtype: str) -> str:
    try:
        return canonical(dtype)
    except ValueError:
        return "".join(letter if letter.isalnum() else "_" for letter in dtype.lower())


# The roofline of one call of a known operator on a known product, from documents alone.

FRACTION = 0.90
"""Share of the peak that is the absolute target."""
TILED = ("gemm", "batched_gemm", "gemm_blockscaled", "gemm_mxfp4", "gemm_nvfp4", "gemm_w4a16")


class CallRequest(Value):
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


class CallRoofline(Value):
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
    bound: RooflineBound
    floor_us: float | None
    target: float | None
    """Rules 5.2.4: 90 % of the ceiling that bounds the call."""
    target_unit: str | None
    achieved: str | None = None
    """The most that a source gives for a kernel on this product, with its share of the peak and where it stands."""
    sources: tuple[str, ...]
    """Registered lines: `<metric>: <value> <unit> <- <path>:L<line>`."""
    wave: Wave | None = None
    notes: tuple[str, ...] = ()
    """What is not known and what therefore is not there."""
    formula: str


def place(request: CallRequest) -> CallRoofline:
    """`roofline OPERATOR`: work of one call against the product's ceilings. Raises `UserError` naming the option that is wrong."""
    family, types, sizes = _parse_request(request)
    try:
        call = families.amount(family, sizes, types)
    except SizeError as error:
        raise UserError(f"--shape: {error}") from error
    specs, notes = _specs(request, family, types)
    ceilings = choose_ceilings(None, specs, request.gpu or "").ceilings
    at = compute_roof(family.name, call.flops, call.bytes, ceilings)
    peak, copy = (ceilings.flops_gflops, ceilings.copy_gbps) if ceilings else (None, None)
    target, unit = _target(at.bound, specs)
    notes += [*_warn_of_cache(call, specs), *((family.caveat,) if family.caveat else ())]
    if request.gpu is not None and target is None:
        notes.append("target: UNKNOWN, the ceiling that it is a share of is not known")
    achieved, warning = _compare_achieved(request, types, at.bound, family, specs)
    return CallRoofline(
        op=family.name,
        shape=sizes,
        dtype=types.main,
        out_dtype=types.out,
        gpu=request.gpu,
        flops=call.flops,
        bytes=call.bytes,
        intensity=at.intensity,
        ridge=ridge(peak, copy) if peak and copy else None,
        bound=at.bound,
        floor_us=at.floor_us if at.bound != "unknown" else None,
        target=target,
        target_unit=unit,
        achieved=achieved,
        sources=tuple(spec.text for spec in specs),
        wave=_wave(request, family, types, sizes, call, specs),
        notes=(*notes, *warning),
        formula=family.formula,
    )


def _parse_request(request: CallRequest) -> tuple[Family, Types, dict[str, int]]:
    """Operator, types and sizes of a call for its roofline. Raises UserError naming the option that is wrong."""
    try:
        family = families.family(request.op)
    except SizeError as error:
        raise UserError(f"--op: {error}; `ridgeline roofline --list-ops` explains them") from error
    try:
        types = families.types(family, request.dtype, request.out_dtype)
    except SizeError as error:
        raise UserError(f"{'--dtype' if request.out_dtype is None else '--dtype, --out-dtype'}: {error}") from error
    try:
        return family, types, families.sizes(family, [word for word in request.shape.split(",") if word.strip()])
    except SizeError as error:
        raise UserError(f"--shape: {error}") from error


def _specs(request: CallRequest, family: Family, types: Types) -> tuple[tuple[Spec, ...], list[str]]:
    """The product's registered ceilings, and what there is to say about those that are missing."""
    if request.gpu is None:
        return (), ["--gpu: not given, so no ceiling is known; the work of the call is"]
    library = products(request.wikis)
    specs = documented_specs(library, request.gpu, types.main, units=family.units)
    missing = [library.spec(request.gpu, spec.metric).note for spec in specs if spec.value is None]
    return specs, [f"--gpu: {note}" for note in dict.fromkeys(missing) if note]


def _warn_of_cache(call: Amount, specs: tuple[Spec, ...]) -> list[str]:
    """A warning that the roofline's floor rests on memory bandwidth, which a call whose data a cache holds does not need."""
    caches = [spec for spec in specs if spec.metric in CACHES and spec.value and call.bytes <= spec.value * MIB]
    if not caches:
        return []
    where = ", ".join(spec.metric for spec in caches)
    return [f"{call.bytes / MIB:.4g} MiB fit {where}: on warm data memory bandwidth does not bound the call"]


def _target(bound: RooflineBound, specs: tuple[Spec, ...]) -> tuple[float | None, str | None]:
    """The roofline's target in the unit of the document; to four digits, as the documents' own numbers have no more."""
    spec = {"compute": peak_of(specs), "memory": bandwidth_of(specs)}.get(bound)
    if spec is None or spec.value is None:
        return None, None
    return float(f"{FRACTION * spec.value:.4g}"), spec.unit


def _compare_achieved(
    request: CallRequest, types: Types, bound: RooflineBound, family: Family, specs: tuple[Spec, ...]
) -> tuple[str | None, tuple[str, ...]]:
    """What kernels were measured to reach beside the ceiling, and a warning where the target is above it.

    Sources give it for matrix units alone: nothing is said of a call that memory or vector units bound.
    """
    peak = peak_of(specs)
    if request.gpu is None or bound != "compute" or family.units != "matrix" or peak is None or not peak.value:
        return None, ()
    known = products(request.wikis).spec(request.gpu, f"{_plain(types.main)}_achieved")
    if known.value is None:
        return "UNKNOWN, no source gives what a kernel reached", ()
    share = f"{100 * known.value / peak.value:.1f} % of {peak.metric}"
    standing = f", {known.standing}" if known.standing else ""
    text = f"{known.value:g} {known.unit}, {share} <- {known.place}{standing}"
    if known.value >= FRACTION * peak.value:
        return text, ()
    most = f"target: above the most that any source here gives for this product, {known.value:g} {known.unit} ({share})"
    return text, (f"{most}: {known.place}",)


def _wave(
    request: CallRequest, family: Family, types: Types, sizes: dict[str, int], call: Amount, specs: tuple[Spec, ...]
) -> Wave | None:
    if request.tile is None and request.grid is None:
        return None
    option = "--tile" if request.tile is not None else "--grid"
    grid, tile = _tiling(request, family, types, sizes, call)
    units, peak = units_of(specs), peak_of(specs)
    ceilings = choose_ceilings(None, specs, request.gpu or "").ceilings
    if units is None or units.value is None or peak is None or ceilings is None:
        raise UserError(f"{option}: needs a --gpu whose documents give a compute peak and the number of its units")
    try:
        return wave(grid=grid, units=int(units.value), call=call, tile=tile, ceilings=ceilings, source=peak.source)
    except CeilingError as error:
        raise UserError(f"{option}: {error}") from error
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error


def _tiling(
    request: CallRequest, family: Family, types: Types, sizes: dict[str, int], call: Amount
) -> tuple[int, Amount]:
    if request.tile is None:
        grid = request.grid or 0
        if grid < 1:
            raise UserError(f"--grid: is {grid}; give the number of tiles, 1 or more")
        return grid, Amount(flops=call.flops / grid, bytes=call.bytes / grid)
    words = request.tile.split(",")
    if family.name not in TILED or request.grid is not None:
        raise UserError(f"--tile: is for {', '.join(TILED)}, and not together with --grid; give --grid alone elsewhere")
    if len(words) != 2 or not all(word.strip().isdigit() and int(word) > 0 for word in words):
        raise UserError(f"--tile: {request.tile!r} is not BM,BN; write for example 128,128")
    block = (int(words[0]), int(words[1]))
    grid, tile = tiles(
        sizes["M"], sizes["N"], sizes["K"], block=block, read_bytes=types.read_bytes, written_bytes=types.written_bytes
    )
    return grid * sizes.get("B", 1), tile
