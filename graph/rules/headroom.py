"""How near measured times are to the ceilings of this machine, what is left at most, or why that cannot be said."""

from collections.abc import Sequence

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Benchmark, Ceilings, Machine, Row
from ridgeline.graph.formula import FormulaError
from ridgeline.graph.record import Rooflined, ShapeRoof, Spec
from ridgeline.graph.rules.goal import peak_fraction
from ridgeline.graph.rules.history import best_round, standing
from ridgeline.graph.rules.roofline import (
    ABOVE_ROOF,
    MIB,
    UNCACHED_BYTES,
    RooflineBound,
    bound_of,
    cache_bytes,
    choose_ceilings,
    compute_efficiency,
    compute_shape_roofs,
    compute_shares,
    list_specs,
)
from ridgeline.graph.rules.score import at_least
from ridgeline.graph.standing import History
from ridgeline.graph.values import Value

NOTHING_TO_GAIN = "nothing to gain"
"""How a stop reason begins when the original already stands at its ceiling."""


class Headroom(Value):
    """One run of a benchmark against its ceilings."""

    share: float
    """Floor time / measured time, geometric mean over the shapes; above 1 by no more than noise."""
    shapes: int
    lowest: str
    """The shape that is farthest from its ceiling."""
    lowest_share: float
    bound: RooflineBound
    ceiling: str
    """Each ceiling that bounds a shape: its value and where it comes from."""

    @property
    def left(self) -> float:
        """The speedup that is left at most, at least 1."""
        return max(1.0, 1 / self.share)

    @property
    def text(self) -> str:
        """For example `93.0 % of the memory ceiling (copy bandwidth 20 GB/s, measured here: copy loop)`."""
        kind = "" if self.bound == "unknown" else f"{self.bound} "
        return f"{100 * self.share:.1f} % of the {kind}ceiling ({self.ceiling})"


class Device(Value):
    """What stands behind a run."""

    ceilings: Ceilings | None
    machine: Machine
    specs: tuple[Spec, ...] = ()
    """Registered numbers: they say how large the caches of a GPU are."""
    cold: bool = False
    """Whether every timed call finds its inputs in no cache, since the judge empties it."""


def compute_best_headroom(history: History) -> Headroom | str:
    """The best version's reach. That of the original is the lower of its two runs: one lucky run proves nothing."""
    baseline = history.baseline
    if baseline is None:
        return "the baseline is not measured yet"
    best = standing(history)
    device = describe_device(history)
    if best_round(history) is not None:
        return compute_headroom((best.full or best.quick).rows, history.contract, device)
    headrooms = [compute_headroom(run.rows, history.contract, device) for run in (baseline.quick, baseline.project)]
    readable = [headroom for headroom in headrooms if isinstance(headroom, Headroom)]
    why = next((headroom for headroom in headrooms if isinstance(headroom, str)), "")
    return why or min(readable, key=lambda headroom: headroom.share)


def describe_device(history: History) -> Device:
    """What the campaign's record says of its machine."""
    roof = history.roofline
    return Device(
        ceilings=roof.ceilings if roof else None, machine=history.opened.machine, specs=roof.specs if roof else ()
    )


def compute_headroom(rows: Sequence[Row], contract: Contract, device: Device) -> Headroom | str:
    """How near `rows` are to the device's ceilings; the reason, in a few words, where that cannot be said."""
    try:
        roofs = compute_shape_roofs(rows, contract.work, device.ceilings)
    except FormulaError as error:
        return f"work: {error}"
    if why := _explain_no_ceiling(rows, roofs, contract, device):
        return why
    share, ceilings = compute_efficiency(rows, roofs, contract.scoring, device.ceilings), device.ceilings
    assert share is not None
    assert ceilings is not None
    shares = compute_shares(rows, roofs, contract.scoring)
    lowest = min(shares, key=lambda label: shares[label])
    return Headroom(
        share=share,
        shapes=len(shares),
        lowest=lowest,
        lowest_share=shares[lowest],
        bound=bound_of(roofs),
        ceiling=" and ".join(_describe_ceilings(roofs, ceilings)),
    )


def describe_nothing_left(headroom: Headroom, fraction: float) -> str:
    """Why no round is worth its cost: number, ceiling, source; empty where `fraction` of the ceiling is not reached."""
    if not at_least(headroom.share, fraction):
        return ""
    return f"{NOTHING_TO_GAIN}: {headroom.text}, asked {100 * fraction:g} %; at most {headroom.left:.3f}x is left for any change"


def _explain_no_ceiling(rows: Sequence[Row], roofs: Sequence[ShapeRoof], contract: Contract, device: Device) -> str:
    """Why these ceilings say nothing about these times; empty when they do."""
    ceilings = device.ceilings
    if ceilings is None or (ceilings.copy_gbps is None and ceilings.flops_gflops is None):
        return "no ceiling of this machine is known"
    if contract.scoring.time_ms is None:
        return "the contract names no time column (scoring.time_ms)"
    shares = compute_shares(rows, roofs, contract.scoring)
    if unplaced := [row for row in rows if row.label not in shares]:
        return _explain_missing_share(unplaced, roofs, contract)
    if not shares:
        return "no shape was measured"
    label, most = max(shares.items(), key=lambda item: item[1])
    if most > ABOVE_ROOF:
        return f"{label} runs at {100 * most:.0f} % of its ceiling, which therefore does not bound it"
    if device.machine.kind == "cpu" and contract.threads > 1:
        return f"the ceilings are those of one thread, the kernel uses {contract.threads}"
    return _explain_cached(roofs, device)


def _explain_missing_share(rows: Sequence[Row], roofs: Sequence[ShapeRoof], contract: Contract) -> str:
    """What is missing of rows that have no share of a peak: their work, their time, or a ceiling for that work."""
    if contract.work.flops is None and contract.work.bytes is None:
        return "the contract declares no `work:` (operations and bytes of a shape), from which floors follow"
    timed = {row.label for row in rows if _time_ms(row, contract) > 0}
    if untimed := [row.label for row in rows if row.label not in timed]:
        return f"no time of {', '.join(untimed)} was measured"
    floored = {roof.label for roof in roofs if roof.floor_us is not None}
    names = ", ".join(row.label for row in rows if row.label not in floored) or ", ".join(row.label for row in rows)
    return f"no ceiling of this machine bounds the declared work of {names}"


def _time_ms(row: Row, contract: Contract) -> float:
    return next((item.value for item in row.metrics if item.name == contract.scoring.time_ms), 0.0)


def list_cached_shapes(roofs: Sequence[ShapeRoof], device: Device) -> list[ShapeRoof]:
    """Shapes whose data may stay in a cache between calls: a copy of their own size says more than the bandwidth."""
    if device.cold:
        return []
    capacity = cache_bytes(device.machine, device.specs)
    limit = UNCACHED_BYTES if capacity is None else capacity
    return [roof for roof in roofs if roof.bound != "compute" and roof.bytes is not None and roof.bytes <= limit]


def _explain_cached(roofs: Sequence[ShapeRoof], device: Device) -> str:
    """A repeated call finds its data in a cache that holds it: memory bandwidth then bounds nothing."""
    capacity = cache_bytes(device.machine, device.specs)
    limit = UNCACHED_BYTES if capacity is None else capacity
    labels = [roof.label for roof in list_cached_shapes(roofs, device)]
    if not labels:
        return ""
    where = "the largest cache" if capacity is not None else "a cache, whose size is not known"
    return f"memory bandwidth does not bound {', '.join(labels)}: the data fits {where} ({limit / MIB:.0f} MiB)"


def _describe_ceilings(roofs: Sequence[ShapeRoof], ceilings: Ceilings) -> list[str]:
    here = f"measured here: {ceilings.method.partition(',')[0]}"
    texts: list[str] = []
    has_peak = ceilings.flops_gflops is not None
    # where only operations are declared they alone give the floor, whatever bounds the shape
    counts_operations = [roof.bound == "compute" or (has_peak and roof.flops and not roof.bytes) for roof in roofs]
    compute = any(counts_operations) or ceilings.copy_gbps is None
    memory = not all(counts_operations) and ceilings.copy_gbps is not None
    if compute and ceilings.flops_gflops is not None:
        texts.append(
            f"compute peak {ceilings.flops_gflops:.4g} GFLOP/s, {_describe_source(ceilings.flops_source, here)}"
        )
    if memory and ceilings.copy_gbps is not None:
        name = "memory bandwidth" if ceilings.copy_source else "copy bandwidth"
        texts.append(f"{name} {ceilings.copy_gbps:.4g} GB/s, {_describe_source(ceilings.copy_source, here)}")
    return texts


def _describe_source(source: str, here: str) -> str:
    return f"stated in {source}" if source else here


# Step 0 on record: what bounds the device, and when a kept measurement of it is not good enough to end a campaign.


def make_roofline_record(measured: Ceilings | None, machine: Machine, stated: Sequence[Spec]) -> Rooflined:
    """What was measured, what documents state of this product, and which of the two bounds each axis."""
    chosen = choose_ceilings(measured, stated, machine.fingerprint)
    missing = "" if chosen.ceilings else "the ceilings of this machine could not be measured"
    return Rooflined(
        ceilings=chosen.ceilings,
        specs=list_specs(chosen.measured, machine, stated),
        bound="unknown",
        note="; ".join(filter(None, (missing, chosen.note))),
    )


def rests_on_kept_ceilings(history: History, runs: Sequence[Benchmark]) -> bool:
    """Whether the original would end the campaign by ceilings that were measured before it began.

    A clock or a power limit that was lower then makes a low ceiling, and a low ceiling makes any kernel look finished.
    """
    roof = history.roofline
    if roof is None or roof.ceilings is None or not roof.ceilings.kept:
        return False
    fraction = peak_fraction(history.limits, history.opened.target.performance_target)
    if fraction is None:
        return False
    headrooms = [compute_headroom(run.rows, history.contract, describe_device(history)) for run in runs]
    return all(
        isinstance(headroom, Headroom) and bool(describe_nothing_left(headroom, fraction)) for headroom in headrooms
    )
