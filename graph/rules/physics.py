"""What no version can be: faster than its declared work at the ceilings that were measured on this machine."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Benchmark, Ceilings, Comparison, Row
from ridgeline.graph.formula import FormulaError
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.rules.readings import Readings
from ridgeline.graph.rules.roofline import ABOVE_ROOF, UNCACHED_BYTES, cache_bytes, compute_shape_roofs
from ridgeline.graph.standing import Standing
from ridgeline.graph.values import Value

IMPOSSIBLE_SHARE = 0.5
"""Share of its floor below which a time is refused. Ceilings are measured to a few per cent, but a copy's bandwidth
counts two of the three transfers that a store makes, and an algorithm may need fewer operations than the usual count
(Winograd: 2.25 times). What lies between the two is said to be unexplained."""
GIGA = {"GB/s": 1.0, "TFLOPS": 1e3, "TOPS": 1e3}


class Floor(Value):
    """The least time of one call of a shape, and which ceiling says so."""

    time_us: float
    why: str
    """For example `103 GFLOP/s`."""


class CallTime(NamedTuple):
    """One measured time of one shape."""

    label: str
    time_us: float


def find_impossible_time(readings: Readings, standing: Standing) -> str:
    """The verdict's rule on physics: why a measured time cannot be true; empty where every one can, or nothing is known."""
    floors = compute_floors(readings, standing)
    for label, time_us in candidate_times(readings, standing):
        floor = floors.get(label)
        if floor is not None and time_us < IMPOSSIBLE_SHARE * floor.time_us:
            return (
                f"faster than this machine can be: {label} takes {time_us:.3g} us, its work needs at least"
                f" {floor.time_us:.3g} us at {floor.why}; not all of it was done, or `work:` counts too much"
            )
    return ""


def find_unexplained_time(readings: Readings, standing: Standing) -> str:
    """The verdict's rule on physics: why the roofline does not vouch for these times; empty where all lie above its floor."""
    if standing.contract.work.flops is None and standing.contract.work.bytes is None:
        return "the contract declares no `work:`"
    floors = compute_floors(readings, standing)
    for label, time_us in candidate_times(readings, standing):
        if label not in floors:
            return f"no ceiling bounds {label}"
        if time_us * ABOVE_ROOF < floors[label].time_us:
            return f"{label} is faster than its work at {floors[label].why}"
    return "" if floors else "no time of one call is known (scoring.time_ms)"


def candidate_times(readings: Readings, standing: Standing) -> Iterator[CallTime]:
    """For the verdict's rule on physics: every time of one call of the candidate that is known to be one."""
    contract = standing.contract
    column = contract.scoring.time_ms
    for run in readings.candidate if column else ():
        yield from (timed for row in run.rows if (timed := _call_time(row, column)) is not None)
    if column or contract.paired_command:
        for comparison in readings.comparisons:
            yield from (CallTime(shape.label, shape.candidate_us) for shape in comparison.shapes)


def best_times(runs: Sequence[Benchmark], pairs: Sequence[Comparison], contract: Contract) -> Iterator[CallTime]:
    """For the verdict's rule on physics: every time (us) of one call that `runs` of a version and `pairs` with it as best know."""
    column = contract.scoring.time_ms
    for run in runs if column else ():
        yield from (timed for row in run.rows if (timed := _call_time(row, column)) is not None)
    if column or contract.paired_command:
        for comparison in pairs:
            yield from (CallTime(shape.label, shape.best_us) for shape in comparison.shapes)


def compute_floors(readings: Readings, standing: Standing) -> dict[str, Floor]:
    """The roofline's floors by shape, of those that the original respects: elsewhere these ceilings do not govern.

    Only the original may lift one. A version that was kept although it lies below its floor is one that nothing
    explains; it must not be what lets the next one through.
    """
    rows = {row.label: row for run in (*readings.best, *readings.candidate, standing.quick) for row in run.rows}
    if standing.full is not None:
        rows |= {row.label: row for row in standing.full.rows}
    ceilings = _fastest_ceilings(standing)
    if ceilings is None:
        return {}
    try:
        roofs = compute_shape_roofs(tuple(rows.values()), standing.contract.work, ceilings)
    except FormulaError:
        return {}
    floors = {roof.label: floor for roof in roofs if (floor := _floor(roof, ceilings, standing)) is not None}
    broken = {
        label
        for label, time_us in _original_times(readings, standing)
        if label in floors and _is_below(time_us, floors[label])
    }
    return {label: floor for label, floor in floors.items() if label not in broken}


def _is_below(time_us: float, floor: Floor) -> bool:
    return time_us * ABOVE_ROOF < floor.time_us


def _original_times(readings: Readings, standing: Standing) -> Iterator[CallTime]:
    if standing.original_us is not None:
        return (CallTime(time.name, time.value) for time in standing.original_us)
    runs = (*readings.best, standing.quick, *((standing.full,) if standing.full else ()))
    return best_times(runs, readings.comparisons, standing.contract)


def _call_time(row: Row, column: str | None) -> CallTime | None:
    """For the verdict's rule on physics: time of one call (us) from a column in ms; None where the row lacks it."""
    value = next((item.value for item in row.metrics if item.name == column), None)
    return CallTime(row.label, 1e3 * value) if value is not None else None


def _fastest_ceilings(standing: Standing) -> Ceilings | None:
    """For roofline floors: the fastest that was measured of anything: a kernel may use another type, and every core."""
    ceilings, machine = standing.roofline.ceilings if standing.roofline else None, standing.machine
    if ceilings is None or machine is None or ceilings.machine != machine.fingerprint:
        return None
    threads = standing.contract.threads
    many = max(threads, machine.cores) if machine.kind == "cpu" and threads > 1 else 1
    rates = [ceilings.copy_gbps, *(rate.value for rate in ceilings.others if rate.unit == "GB/s")]
    peaks = [
        ceilings.flops_gflops,
        *(GIGA[rate.unit] * rate.value for rate in ceilings.others if rate.unit in ("TFLOPS", "TOPS")),
    ]
    every_type = machine.kind == "cpu" or len(peaks) > 1
    return ceilings.model_copy(
        update={
            "copy_gbps": _largest(rates, many),
            "flops_gflops": _largest(peaks, many) if every_type else None,
        }
    )


def _largest(rates: list[float | None], many: int) -> float | None:
    """For roofline floors: the greatest known rate times `many`; None where none is known."""
    numbers = [rate for rate in rates if rate is not None]
    return many * max(numbers) if numbers else None


def _floor(roof: ShapeRoof, ceilings: Ceilings, standing: Standing) -> Floor | None:
    """A shape's roofline floor: operations always count; bytes only where no cache holds them from one call to the next."""
    floors: list[Floor] = []
    if roof.flops and ceilings.flops_gflops:
        rate = ceilings.flops_gflops
        floors.append(Floor(time_us=roof.flops / (rate * 1e3), why=f"{rate:.4g} GFLOP/s"))
    if roof.bytes and ceilings.copy_gbps and roof.bytes > _cache_capacity(standing):
        rate = ceilings.copy_gbps
        floors.append(Floor(time_us=roof.bytes / (rate * 1e3), why=f"{rate:.4g} GB/s"))
    return max(floors, key=lambda floor: floor.time_us, default=None)


def _cache_capacity(standing: Standing) -> float:
    specs = standing.roofline.specs if standing.roofline else ()
    capacity = cache_bytes(standing.machine, specs) if standing.machine else None
    return UNCACHED_BYTES if capacity is None else capacity
