"""Step 0: operations and bytes of each shape against measured ceilings."""

from collections.abc import Sequence
from math import exp, log
from typing import Literal

from ridgeline.graph.contract import Scoring, Work
from ridgeline.graph.evidence import Ceilings, Machine, Row
from ridgeline.graph.formula import evaluate
from ridgeline.graph.record import ShapeRoof, Spec

Bound = Literal["compute", "memory", "unknown"]
MISSING = "gpu-wiki not found"
"""Rules 5.1.6: the words of an unregistered specification."""
ABOVE_ROOF = 1.05
"""A shape faster than its floor by more than timing noise is not governed by these ceilings (data stays in a cache)."""


def ridge(peak_gflops: float, gbps: float) -> float:
    """Operations per byte at which compute and memory take equally long. Raises ValueError for a ceiling of zero."""
    if peak_gflops <= 0 or gbps <= 0:
        raise ValueError("a ceiling is zero or negative")
    return peak_gflops / gbps


def shape_roofs(rows: Sequence[Row], work: Work, ceilings: Ceilings | None) -> tuple[ShapeRoof, ...]:
    """Every row's place on the roofline. Raises `formula.FormulaError` for a formula that its columns cannot fill."""
    return tuple(_roof(row, work, ceilings) for row in rows)


def bound_of(roofs: Sequence[ShapeRoof]) -> Bound:
    """The class of the whole set: what bounds most of its floor time; unknown as soon as one shape is unknown."""
    if not roofs or any(roof.bound == "unknown" for roof in roofs):
        return "unknown"
    compute = sum(roof.floor_us or 0.0 for roof in roofs if roof.bound == "compute")
    return "compute" if 2 * compute >= sum(roof.floor_us or 0.0 for roof in roofs) else "memory"


def specs(ceilings: Ceilings | None, machine: Machine, stated: Sequence[Spec] = ()) -> tuple[Spec, ...]:
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


def shares(rows: Sequence[Row], roofs: Sequence[ShapeRoof], scoring: Scoring) -> dict[str, float]:
    """Label -> floor time / measured time, for the shapes where both are known."""
    if scoring.time_ms is None:
        return {}
    floors = {roof.label: roof.floor_us for roof in roofs}
    found: dict[str, float] = {}
    for row in rows:
        time_ms = next((item.value for item in row.metrics if item.name == scoring.time_ms), 0.0)
        floor = floors.get(row.label)
        if floor is not None and time_ms > 0:
            found[row.label] = floor / (1e3 * time_ms)
    return found


def efficiency(
    rows: Sequence[Row], roofs: Sequence[ShapeRoof], scoring: Scoring, ceilings: Ceilings | None
) -> float | None:
    """Share of the bounding ceiling that is reached, geometric mean over the shapes.

    None when it cannot be said: no ceilings, no time column, a shape without formula, or a shape that is faster than
    its floor, which shows that the ceilings do not govern this set.
    """
    if ceilings is None or not rows:
        return None
    found = shares(rows, roofs, scoring)
    if any(row.label not in found for row in rows) or max(found.values()) > ABOVE_ROOF:
        return None
    return exp(sum(log(share) for share in found.values()) / len(found))


def roof(label: str, flops: float | None, moved: float | None, ceilings: Ceilings | None) -> ShapeRoof:
    """Where a call of so many operations and bytes stands, and the microseconds that it takes at least."""
    intensity = flops / moved if flops is not None and moved else None
    compute_us = flops / (ceilings.flops_gflops * 1e3) if flops and ceilings and ceilings.flops_gflops else None
    memory_us = moved / (ceilings.copy_gbps * 1e3) if moved and ceilings and ceilings.copy_gbps else None
    floors = [floor for floor in (compute_us, memory_us) if floor is not None]
    bound: Bound = "unknown"
    if compute_us is not None and memory_us is not None:
        # intensity >= ridge, written without the division
        bound = "compute" if compute_us >= memory_us else "memory"
    elif flops == 0 and memory_us is not None:
        bound = "memory"
    return ShapeRoof(
        label=label,
        flops=flops,
        bytes=moved,
        intensity=intensity,
        bound=bound,
        floor_us=max(floors) if floors else None,
    )


def _roof(row: Row, work: Work, ceilings: Ceilings | None) -> ShapeRoof:
    sizes = {item.name: item.value for item in row.metrics}
    flops = evaluate(work.flops, sizes) if work.flops else None
    moved = evaluate(work.bytes, sizes) if work.bytes else None
    return roof(row.label, flops, moved, ceilings)


def _spec(metric: str, value: float | None, unit: str, source: str) -> Spec:
    return Spec(metric=metric, value=value, unit=unit, source=MISSING if value is None else source)
