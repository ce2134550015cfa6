"""The device and tool that rocprof-compute names in sysinfo.csv, where what it could not find stays unknown."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers.csv_head import is_ended
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.json_text import read_text

FACTS = {
    "units": "cu_per_gpu",
    "simds_per_unit": "simd_per_cu",
    "wave_size": "wave_size",
    "l2_domains": "num_xcd",
    "clock_mhz": "max_sclk",
    "memory_clock_mhz": "max_mclk",
    "memory_channels": "num_hbm_channels",
}
"""Name of a fact -> column. A 0 in any of them is a thing that the tool could not find out."""


@dataclass(frozen=True, kw_only=True)
class System:
    """What one sysinfo says."""

    arch: str | None = None
    device: str | None = None
    version: str | None = None
    facts: tuple[Named, ...] = ()
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def system(path: Path) -> System:
    """The first device of a sysinfo.csv; an empty System with a warning where there is none.

    Raises RecordingError where the file is cut or damaged.
    """
    if not path.is_file():
        return System(warnings=("no sysinfo.csv beside the counters: device and architecture are not told",))
    try:
        rows = [cells for cells in csv.reader(read_text(path).splitlines(), strict=True) if cells]
    except csv.Error as error:
        raise RecordingError(path, f"is cut or damaged: {error}") from error
    if len(rows) < 2 or len(rows[1]) != len(rows[0]) or not is_ended(path):
        raise RecordingError(path, "is cut: not as many values as columns, or no end of the last line", line=2)
    told = {name.strip().lower(): value.strip() for name, value in zip(rows[0], rows[1], strict=True)}
    return described(told, path)


def described(told: Mapping[str, str], path: Path) -> System:
    """The same from column -> value, however it was stored."""
    arch = told.get("gpu_arch", "").split(":")[0]
    found = {name: value for name, column in FACTS.items() if (value := _positive(told.get(column)))}
    waves, simds = _positive(told.get("max_waves_per_cu")), found.get("simds_per_unit")
    if waves and simds:
        found["max_waves_per_simd"] = waves / simds
    unknown = [column for name, column in FACTS.items() if name not in found]
    return System(
        arch=arch if arch.startswith("gfx") else None,
        device=told.get("gpu_model") or None,
        version=told.get("version") or None,
        facts=tuple(Named(name=name, value=value) for name, value in found.items()),
        files=(str(path),),
        warnings=(f"{path.name} does not know {', '.join(unknown)}",) if unknown else (),
    )


def _positive(text: str | None) -> float | None:
    """Columns hold plain numbers; what is empty, 0 or text is unknown."""
    digits = (text or "").strip()
    if not digits.replace(".", "", 1).isdecimal() or len(digits) > 15:
        return None
    return float(digits) or None
