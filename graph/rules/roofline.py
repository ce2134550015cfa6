"""The ceilings that bound this device, measured or stated, and the place of each shape below them."""

import re
from collections.abc import Sequence
from math import exp, log
from typing import Literal

from ridgeline.graph.contract import Scoring, Work
from ridgeline.graph.evidence import Ceilings, Machine, Row
from ridgeline.graph.formula import evaluate
from ridgeline.graph.record import ShapeRoof, Spec
from ridgeline.graph.rules.score import EDGE
from ridgeline.graph.values import Value

RooflineBound = Literal["compute", "memory", "unknown"]
MISSING = "gpu-wiki not found"
"""The words of an unregistered specification."""
ABOVE_ROOF = 1.05
"""A shape faster than its floor by more than timing noise is not governed by these ceilings (data stays in a cache)."""


def ridge(peak_gflops: float, gbps: float) -> float:
    """Operations per byte at which compute and memory take equally long. Raises ValueError for a ceiling of zero."""
    if peak_gflops <= 0 or gbps <= 0:
        raise ValueError("a ceiling is zero or negative")
    return peak_gflops / gbps


def compute_shape_roofs(rows: Sequence[Row], work: Work, ceilings: Ceilings | None) -> tuple[ShapeRoof, ...]:
    """Every row's place on the roofline. Raises `formula.FormulaError` for a formula that its columns cannot fill."""
    return tuple(_compute_row_roof(row, work, ceilings) for row in rows)


def bound_of(roofs: Sequence[ShapeRoof]) -> RooflineBound:
    """The class of the whole set: what bounds most of its floor time; unknown as soon as one shape is unknown."""
    if not roofs or any(roof.bound == "unknown" for roof in roofs):
        return "unknown"
    compute = sum(roof.floor_us or 0.0 for roof in roofs if roof.bound == "compute")
    return "compute" if 2 * compute >= sum(roof.floor_us or 0.0 for roof in roofs) else "memory"


def list_specs(ceilings: Ceilings | None, machine: Machine, stated: Sequence[Spec] = ()) -> tuple[Spec, ...]:
    """Hardware numbers in their registered form; what nobody measured or states is UNKNOWN, never filled in.

    `ceilings` are those that were measured, `stated` what documents say of the product.
    """
    method = f"measured here: {ceilings.method}" if ceilings else ""
    reported = f"reported by this machine's system: {machine.name}"
    caches = (("L1d cache", machine.l1d_bytes), ("L2 cache", machine.l2_bytes), ("L3 cache", machine.l3_bytes))
    measured = (
        _spec("copy bandwidth", ceilings.copy_gbps if ceilings else None, "GB/s", method),
        _spec("compute peak", ceilings.flops_gflops if ceilings else None, "GFLOP/s", method),
        *(
            _spec(f"{name} capacity", size / 1024 if size is not None else None, "KiB", reported)
            for name, size in caches
        ),
    )
    # what a document is asked for is not asked of a measurement a second time
    return (*stated, *(spec for spec in measured if spec.value is not None or not stated))


def stop_conditions(ceilings: Ceilings | None, fraction: float) -> tuple[str, str]:
    """The absolute targets for compute-bound and memory-bound work; `fraction` of the peak."""
    peak, gbps = (ceilings.flops_gflops, ceilings.copy_gbps) if ceilings else (None, None)
    return (
        f"compute-bound target: UNKNOWN ({MISSING})"
        if peak is None
        else f"compute-bound target >= {fraction * peak / 1e3:.4g} TFLOPS",
        f"memory-bound target: UNKNOWN ({MISSING})"
        if gbps is None
        else f"memory-bound target >= {fraction * gbps / 1e3:.4g} TB/s",
    )


def compute_shares(rows: Sequence[Row], roofs: Sequence[ShapeRoof], scoring: Scoring) -> dict[str, float]:
    """Label -> floor time / measured time, for the shapes where both are known."""
    if scoring.time_ms is None:
        return {}
    floors = {roof.label: roof.floor_us for roof in roofs}
    shares: dict[str, float] = {}
    for row in rows:
        time_ms = next((item.value for item in row.metrics if item.name == scoring.time_ms), 0.0)
        floor = floors.get(row.label)
        if floor is not None and time_ms > 0:
            shares[row.label] = floor / (1e3 * time_ms)
    return shares


def compute_efficiency(
    rows: Sequence[Row], roofs: Sequence[ShapeRoof], scoring: Scoring, ceilings: Ceilings | None
) -> float | None:
    """Share of the bounding ceiling that is reached, geometric mean over the shapes.

    None when it cannot be said: no ceilings, no time column, a shape without formula, or a shape that is faster than
    its floor, which shows that the ceilings do not govern this set.
    """
    if ceilings is None or not rows:
        return None
    shares = compute_shares(rows, roofs, scoring)
    if any(row.label not in shares for row in rows) or max(shares.values()) > ABOVE_ROOF:
        return None
    return exp(sum(log(share) for share in shares.values()) / len(shares))


def compute_roof(label: str, flops: float | None, bytes_moved: float | None, ceilings: Ceilings | None) -> ShapeRoof:
    """Where a call of so many operations and bytes stands, and the microseconds that it takes at least."""
    intensity = flops / bytes_moved if flops is not None and bytes_moved else None
    compute_us = flops / (ceilings.flops_gflops * 1e3) if flops and ceilings and ceilings.flops_gflops else None
    memory_us = bytes_moved / (ceilings.copy_gbps * 1e3) if bytes_moved and ceilings and ceilings.copy_gbps else None
    floors = [floor for floor in (compute_us, memory_us) if floor is not None]
    bound: RooflineBound = "unknown"
    if compute_us is not None and memory_us is not None:
        # intensity >= ridge, written without the division
        bound = "compute" if compute_us >= memory_us else "memory"
    elif flops == 0 and memory_us is not None:
        bound = "memory"
    return ShapeRoof(
        label=label,
        flops=flops,
        bytes=bytes_moved,
        intensity=intensity,
        bound=bound,
        floor_us=max(floors) if floors else None,
    )


def _compute_row_roof(row: Row, work: Work, ceilings: Ceilings | None) -> ShapeRoof:
    sizes = {item.name: item.value for item in row.metrics}
    flops = evaluate(work.flops, sizes) if work.flops else None
    bytes_moved = evaluate(work.bytes, sizes) if work.bytes else None
    return compute_roof(row.label, flops, bytes_moved, ceilings)


def _spec(metric: str, value: float | None, unit: str, source: str) -> Spec:
    """A specification; one without a value says so in place of its source."""
    return Spec(metric=metric, value=value, unit=unit, source=MISSING if value is None else source)


# Which ceilings bound a device: measured here or stated by a document, and what no source gives.

PEAK = re.compile(r"\w+_(?:dense|matrix|vector)")
BANDWIDTH = "hbm_bandwidth"
MIB = 2**20
CACHES = ("l2_capacity", "l3_capacity", "mall_capacity")
UNITS = ("sm_count", "cu_count")
UNCACHED_BYTES = 100e6
"""Less traffic than this may come from a cache, where nobody says how large the caches are."""


class CeilingError(ValueError):
    """A ceiling that cannot be one, because it lies above the peak that a document states."""


class ChosenCeilings(Value):
    """What bounds a device."""

    ceilings: Ceilings | None
    """None where neither number is known and nothing was tried."""
    measured: Ceilings | None
    """What was measured, without what was refused."""
    note: str = ""
    """What was refused, and what is not known and therefore off; empty when neither."""


class _Axis(Value):
    value: float | None
    source: str = ""
    refused: bool = False
    note: str = ""


def choose_ceilings(measured: Ceilings | None, stated: Sequence[Spec], machine: str) -> ChosenCeilings:
    """Measured ceilings where there are any, else those that documents state; `machine` is its fingerprint.

    A measured number above the stated peak is refused: it was taken in a cache, or is a slip.
    """
    peak = _choose_axis("compute peak", "GFLOP/s", measured.flops_gflops if measured else None, peak_of(stated))
    copy = _choose_axis("copy bandwidth", "GB/s", measured.copy_gbps if measured else None, bandwidth_of(stated))
    failed = measured.method if measured and measured.copy_gbps is None and measured.flops_gflops is None else ""
    note = "; ".join(filter(None, (failed, peak.note, copy.note)))
    measured_part = measured
    if measured is not None and (peak.refused or copy.refused):
        measured_part = measured.model_copy(
            update={
                "flops_gflops": None if peak.refused else measured.flops_gflops,
                "copy_gbps": None if copy.refused else measured.copy_gbps,
            }
        )
    if measured is None and peak.value is None and copy.value is None:
        return ChosenCeilings(ceilings=None, measured=None, note=note)
    ceilings = Ceilings(
        copy_gbps=copy.value,
        flops_gflops=peak.value,
        method=measured.method if measured else "",
        machine=machine,
        copy_source=copy.source,
        flops_source=peak.source,
        kept=measured.kept if measured else False,
        others=measured.others if measured else (),
    )
    return ChosenCeilings(ceilings=ceilings, measured=measured_part, note=note)


def peak_of(stated: Sequence[Spec]) -> Spec | None:
    """The compute peak among registered numbers, in TFLOPS or TOPS; None where none is registered, known or not."""
    return next((spec for spec in stated if PEAK.fullmatch(spec.metric)), None)


def bandwidth_of(stated: Sequence[Spec]) -> Spec | None:
    """The memory bandwidth among registered numbers, in TB/s; None where none is registered, known or not."""
    return next((spec for spec in stated if spec.metric == BANDWIDTH), None)


def units_of(stated: Sequence[Spec]) -> Spec | None:
    """How many compute units or multiprocessors the product has; None where no document says it."""
    return next((spec for spec in stated if spec.metric in UNITS and spec.value is not None), None)


def cache_bytes(machine: Machine, stated: Sequence[Spec]) -> float | None:
    """The largest cache that data of a repeated call may stay in; None where nobody says its size."""
    mebibytes = [spec.value for spec in stated if spec.metric in CACHES and spec.value is not None]
    sizes = [size * MIB for size in mebibytes] + [size for size in (machine.l3_bytes, machine.l2_bytes) if size]
    return max(sizes, default=None)


def require_below(computed: float, stated: float, *, what: str, source: str) -> float:
    """`computed`, unless it exceeds the stated peak in the same unit. Raises CeilingError."""
    if computed > stated * (1 + EDGE):
        raise CeilingError(f"{what} of {computed:.6g} is above the peak of {stated:.6g} that {source} states; refused")
    return computed


def _choose_axis(name: str, unit: str, measured: float | None, stated: Spec | None) -> _Axis:
    """One of the two ceilings, in units of 1e9 a second; documents write thousands of that."""
    if stated is None or stated.value is None:
        off = f"{stated.metric} is UNKNOWN ({stated.source}): the target that needs it is off" if stated else ""
        return _Axis(value=measured, note=off if measured is None else "")
    limit = 1e3 * stated.value
    if measured is None:
        return _Axis(value=limit, source=stated.source)
    try:
        return _Axis(value=require_below(measured, limit, what=f"a measured {name} in {unit}", source=stated.source))
    except CeilingError as error:
        return _Axis(value=limit, source=stated.source, refused=True, note=str(error))
