"""What nvidia-smi writes, read without guessing: pure."""

import csv
import io
from datetime import UTC, datetime

from ridgeline.graph.values import Named
from ridgeline.sandbox.timing.conditions.values import Reading

SLOWDOWNS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReasons); settings that a person made are left out."""
IDLE = 0x1
PLAIN = ("timestamp", "clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")
ACTIVE, OLD_ACTIVE = "clocks_event_reasons.active", "clocks_throttle_reasons.active"
COUNTS = {
    "clocks_event_reasons_counters.sw_thermal_slowdown": "software thermal slowdown",
    "clocks_event_reasons_counters.hw_thermal_slowdown": "hardware thermal slowdown",
    "clocks_event_reasons_counters.hw_power_brake_slowdown": "hardware power brake",
}
"""Microseconds; newer drivers only."""
FIELDS = ((*PLAIN, ACTIVE, *COUNTS), (*PLAIN, ACTIVE), (*PLAIN, OLD_ACTIVE), PLAIN)
"""What to ask for, best first: a driver that lacks one field refuses the whole question."""
APPS = ("pid", "process_name", "used_gpu_memory")


def query(fields: tuple[str, ...], *, index: str) -> tuple[str, ...]:
    """The command that asks one card for these fields; its times are UTC when TZ says so."""
    return ("nvidia-smi", "-i", index, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")


def apps_query(index: str) -> tuple[str, ...]:
    """The command that lists the processes computing on one card."""
    return ("nvidia-smi", "-i", index, f"--query-compute-apps={','.join(APPS)}", "--format=csv,noheader,nounits")


def readings(text: str, fields: tuple[str, ...], *, monotonic_s: float) -> tuple[Reading, ...]:
    """One per whole line. `monotonic_s`: what to add to seconds since the epoch to get the monotonic clock.

    A last line that was cut when the tool was ended, and lines of another shape, are left out.
    """
    rows = csv.reader(io.StringIO(text[: text.rfind("\n") + 1]), skipinitialspace=True)
    whole = (dict(zip(fields, cells, strict=True)) for cells in rows if len(cells) == len(fields))
    return tuple(_reading(cells, monotonic_s) for cells in whole)


def apps(text: str) -> tuple[str, ...]:
    """The processes, as `name (process id)`. They compute, so even one whose memory is not told counts."""
    rows = csv.reader(io.StringIO(text), skipinitialspace=True)
    return tuple(f"{cells[1].strip()} ({cells[0].strip()})" for cells in rows if len(cells) == len(APPS))


def number(cell: str) -> float | None:
    """`592.74 W` or `1980`; None for `[N/A]`, `[Not Supported]`, `ERR!` and whatever else is no number."""
    try:
        return float(cell.split()[0])
    except (ValueError, IndexError):
        return None


def _reading(cells: dict[str, str], monotonic_s: float) -> Reading:
    mask = _mask(cells.get(ACTIVE, cells.get(OLD_ACTIVE, "")))
    counts = ((name, number(cells[field])) for field, name in COUNTS.items() if field in cells)
    return Reading(
        at_us=_moment(cells["timestamp"], monotonic_s),
        sm_mhz=number(cells["clocks.sm"]),
        memory_mhz=number(cells["clocks.mem"]),
        celsius=number(cells["temperature.gpu"]),
        watts=number(cells["power.draw"]),
        slowdowns=None if mask is None else tuple(name for bit, name in SLOWDOWNS.items() if mask & bit),
        idle=None if mask is None else bool(mask & IDLE),
        counts=tuple(Named(name=name, value=value) for name, value in counts if value is not None),
    )


def _mask(cell: str) -> int | None:
    try:
        return int(cell, 16)
    except ValueError:
        return None


def _moment(cell: str, monotonic_s: float) -> float | None:
    try:
        told = datetime.strptime(cell, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None
    return 1e6 * (told.timestamp() + monotonic_s)
