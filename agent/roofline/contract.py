"""The roofline of a contract: its shapes on this machine, where the unmodified kernel stands, what is left to gain."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ridgeline.agent.contract_file import LoadedContract
from ridgeline.agent.roofline.picture import Picture, series
from ridgeline.agent.roofline.stated import of_machine
from ridgeline.agent.wikis import roots
from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import BenchmarkFailed, Ceilings, Machine, Row
from ridgeline.graph.limits import Limits
from ridgeline.graph.policy import ends
from ridgeline.graph.policy.ceilings import bounds
from ridgeline.graph.policy.goal import GoalError, parse_goal
from ridgeline.graph.policy.reach import Device, Reach, reach
from ridgeline.graph.policy.roofline import Bound, bound_of, shape_roofs, shares, specs
from ridgeline.graph.policy.stop import nothing_left
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import ShapeRoof, Spec
from ridgeline.graph.target import Goal
from ridgeline.graph.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable


class Shown(ShapeRoof):
    """A shape and where the unmodified kernel stands."""

    now_us: float | None
    share: float | None
    """Floor time / measured time."""


class Measured(Value):
    """The one JSON object of `ridgeline roofline CONTRACT`."""

    contract: str
    machine: Machine
    specs: tuple[str, ...]
    """Registered lines: what documents state, then what was measured here."""
    ceilings: Ceilings | None
    """What bounds the shapes: measured where it could be, else stated."""
    note: str
    """What was refused, and what is not known and therefore off."""
    bound: Bound
    shapes: tuple[Shown, ...]
    reach: Reach | None
    nothing_to_gain: bool
    said: str
    """What that means for a campaign, in one sentence."""


def measure(loaded: LoadedContract, limits: Limits, say: "Callable[[str], None]") -> tuple[Measured, Picture]:
    """Measure the ceilings and run the benchmark once. Raises `UserError` where its numbers cannot be used."""
    from ridgeline.agent.rehearsal import measuring, unusable

    with measuring(loaded) as (ports, commit):
        say("measuring the ceilings of this machine")
        device, note = known_of(ports, loaded)
        say("running the benchmark once")
        run = ports.timer.benchmark(commit, level="full", source="project", shapes=(), repeat=0, purpose="roofline")
        if isinstance(run, BenchmarkFailed):
            raise unusable(loaded, run)
        device, note = sure(ports, loaded, limits, rows=run.rows, known=(device, note))
    roofs = shape_roofs(run.rows, loaded.contract.work, device.ceilings)
    found = reach(run.rows, loaded.contract, device)
    nothing, said = verdict(found, loaded.contract, limits)
    measured = Measured(
        contract=str(loaded.path),
        machine=device.machine,
        specs=tuple(spec.text for spec in device.specs),
        ceilings=device.ceilings,
        note=note,
        bound=bound_of(roofs),
        shapes=_shown(run.rows, roofs, loaded.contract),
        reach=found if isinstance(found, Reach) else None,
        nothing_to_gain=nothing,
        said=said,
    )
    drawn = Picture(
        title=f"{loaded.contract.target_op} on {device.machine.name}",
        said=said,
        ceilings=device.ceilings,
        series=(series("now", run.rows, roofs, loaded.contract.scoring),),
    )
    return measured, drawn


def known_of(ports: Ports, loaded: LoadedContract, *, fresh: bool = False) -> tuple[Device, str]:
    """What bounds the contract's device, measured and stated, with its registered numbers; and what there is to say."""
    machine, dtype = ports.device.machine(), loaded.contract.dtype
    stated: tuple[Spec, ...] = of_machine(machine, loaded.contract, roots(loaded.contract, loaded.root))
    measured = ports.device.ceilings(dtype, fresh=True) if fresh else ports.device.ceilings(dtype)
    found = bounds(measured, stated, machine.fingerprint)
    registered = specs(found.measured, machine, stated)
    return Device(ceilings=found.ceilings, machine=machine, specs=registered), found.note


def sure(
    ports: Ports, loaded: LoadedContract, limits: Limits, *, rows: Sequence[Row], known: tuple[Device, str]
) -> tuple[Device, str]:
    """What is known, measured again where a kept measurement would say that there is nothing to gain."""
    (device, _), contract = known, loaded.contract
    kept = device.ceilings is not None and device.ceilings.kept
    if not kept or not verdict(reach(rows, contract, device), contract, limits)[0]:
        return known
    return known_of(ports, loaded, fresh=True)


def verdict(found: Reach | str, contract: Contract, limits: Limits) -> tuple[bool, str]:
    """Whether a campaign would end before its first round, and the sentence that says so or what is left."""
    if isinstance(found, str):
        return False, f"what is left to gain cannot be said: {found}"
    fraction = ends.peak_fraction(limits, _goal(contract))
    said = nothing_left(found, fraction) if fraction is not None else ""
    if said:
        return True, f"{said}; --set target_peak_fraction=none searches all the same"
    return False, f"the kernel reaches {found.text}: at most {found.left:.3g}x is left"


def _goal(contract: Contract) -> Goal | None:
    """The target as far as the contract alone says it; one that cannot be read is refused when a campaign begins."""
    if contract.performance_target is None:
        return None
    try:
        return parse_goal(contract.performance_target, contract.scoring.primary_metric[0])
    except GoalError:
        return None


def _shown(rows: Sequence[Row], roofs: Sequence[ShapeRoof], contract: Contract) -> tuple[Shown, ...]:
    share, column = shares(rows, roofs, contract.scoring), contract.scoring.time_ms
    times = {row.label: 1e3 * row.metric(column) for row in rows} if column else {}
    return tuple(
        Shown(**roof.model_dump(), now_us=times.get(roof.label), share=share.get(roof.label)) for roof in roofs
    )
