"""Which ceilings bound a device: measured here or stated by a document, and what no source gives."""

import re
from collections.abc import Sequence

from ridgeline.graph.evidence import Ceilings, Machine
from ridgeline.graph.policy.score import EDGE
from ridgeline.graph.record import Spec
from ridgeline.graph.values import Value

PEAK = re.compile(r"\w+_(?:dense|matrix|vector)")
BANDWIDTH = "hbm_bandwidth"
MIB = 2**20
CACHES = ("l2_capacity", "l3_capacity", "mall_capacity")
UNITS = ("sm_count", "cu_count")
UNCACHED_BYTES = 100e6
"""Rules 24.20: less traffic than this may come from a cache, where nobody says how large the caches are."""


class CeilingError(ValueError):
    """A ceiling that cannot be one, because it lies above the peak that a document states."""


class Bounds(Value):
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


def bounds(measured: Ceilings | None, stated: Sequence[Spec], machine: str) -> Bounds:
    """Measured ceilings where there are any, else those that documents state; `machine` is its fingerprint.

    A measured number above the stated peak is refused: it was taken in a cache, or is a slip.
    """
    peak = _axis("compute peak", "GFLOP/s", measured.flops_gflops if measured else None, peak_of(stated))
    copy = _axis("copy bandwidth", "GB/s", measured.copy_gbps if measured else None, bandwidth_of(stated))
    failed = measured.method if measured and measured.copy_gbps is None and measured.flops_gflops is None else ""
    note = "; ".join(filter(None, (failed, peak.note, copy.note)))
    kept = measured
    if measured is not None and (peak.refused or copy.refused):
        kept = measured.model_copy(
            update={
                "flops_gflops": None if peak.refused else measured.flops_gflops,
                "copy_gbps": None if copy.refused else measured.copy_gbps,
            }
        )
    if measured is None and peak.value is None and copy.value is None:
        return Bounds(ceilings=None, measured=None, note=note)
    found = Ceilings(
        copy_gbps=copy.value,
        flops_gflops=peak.value,
        method=measured.method if measured else "",
        machine=machine,
        copy_source=copy.source,
        flops_source=peak.source,
        kept=measured.kept if measured else False,
        others=measured.others if measured else (),
    )
    return Bounds(ceilings=found, measured=kept, note=note)


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
    found = [size * MIB for size in mebibytes] + [size for size in (machine.l3_bytes, machine.l2_bytes) if size]
    return max(found, default=None)


def below(computed: float, stated: float, *, what: str, source: str) -> float:
    """`computed`, unless it exceeds the stated peak in the same unit. Raises CeilingError."""
    if computed > stated * (1 + EDGE):
        raise CeilingError(f"{what} of {computed:.6g} is above the peak of {stated:.6g} that {source} states; refused")
    return computed


def _axis(name: str, unit: str, measured: float | None, stated: Spec | None) -> _Axis:
    """One of the two ceilings, in units of 1e9 a second; documents write thousands of that."""
    if stated is None or stated.value is None:
        off = f"{stated.metric} is UNKNOWN ({stated.source}): the target that needs it is off" if stated else ""
        return _Axis(value=measured, note=off if measured is None else "")
    limit = 1e3 * stated.value
    if measured is None:
        return _Axis(value=limit, source=stated.source)
    try:
        return _Axis(value=below(measured, limit, what=f"a measured {name} in {unit}", source=stated.source))
    except CeilingError as error:
        return _Axis(value=limit, source=stated.source, refused=True, note=str(error))
