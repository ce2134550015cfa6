"""The wide form of rocprof-compute's table: a row per dispatch with all its counters, and the level files beside it."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.graph.kernel_profile import Launched
from ridgeline.sandbox.profiles.readers.rocprof_compute_table import whole, wide

TIMES = ("start_timestamp", "end_timestamp")
_LEVEL_FILES = ("SQ_LEVEL_WAVES", "SQ_IFETCH_LEVEL", "SQ_INST_LEVEL_LDS", "SQ_INST_LEVEL_SMEM", "SQ_INST_LEVEL_VMEM")
_TIME = re.compile(r"\d{1,19}(\.\d+)?$")


@dataclass(kw_only=True)
class Kernel:
    """Running sums over one kernel's dispatches, so that memory does not grow with their number of counters."""

    name: str
    last: Launched = field(default_factory=lambda: Launched(calls=0))
    launches: dict[Launched, Launched] = field(default_factory=dict)
    calls: int = 0
    times: list[float] = field(default_factory=list)
    ruined: int = 0
    """Dispatches without a usable time."""
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def means(self) -> dict[str, float]:
        """Counter -> mean over the dispatches that have it."""
        return {name: self.sums[name] / self.counts[name] for name in self.sums}

    def add(self, counter: str, value: float) -> None:
        """Adds one dispatch's counter."""
        self.sums[counter] = self.sums.get(counter, 0.0) + value
        self.counts[counter] = self.counts.get(counter, 0) + 1

    def launch(self, launched: Launched) -> None:
        """Counts one call."""
        self.calls += 1
        calls = 1 + (self.launches[launched].calls if launched in self.launches else 0)
        self.last = self.launches[launched] = launched.model_copy(update={"calls": calls})

    def time(self, time_ns: float) -> None:
        """Adds one dispatch's time; 0 where it has none that can be used."""
        if time_ns > 0:
            self.times.append(time_ns)
        else:
            self.ruined += 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """One dispatch of a wide table."""

    number: str
    kernel: str
    cells: Mapping[str, str]
    counters: Mapping[str, float]
    left_out: frozenset[str]


def dispatches(path: Path) -> Iterator[Dispatch]:
    """Rows of a wide table, with counters of the level files beside it that the table itself lacks."""
    extra = _levels(path.parent) if path.name == "pmc_perf.csv" else {}
    for cells, counters, left_out in wide(path):
        more = extra.get((cells["dispatch_id"], cells["gpu_id"]), {})
        yield Dispatch(
            number=cells["dispatch_id"],
            kernel=cells["kernel_name"],
            cells=cells,
            counters={**more, **counters},
            left_out=frozenset(left_out - set(more)),
        )


def kernels(path: Path) -> list[Kernel]:
    """All kernels of a wide table. Raises RecordingError where it is cut, damaged or empty."""
    found: dict[str, Kernel] = {}
    for one in dispatches(path):
        kernel = found.setdefault(one.kernel, Kernel(name=one.kernel))
        kernel.launch(launched(one.cells))
        kernel.time(duration(*(one.cells.get(name, "") for name in TIMES)))
        for name, value in one.counters.items():
            kernel.add(name, value)
        kernel.left_out |= one.left_out
    return list(found.values())


def _levels(folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Counters of the level files, where the accumulator's meaning is the file's name."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for stem in _LEVEL_FILES:
        path = folder / f"{stem}.csv"
        if not path.is_file():
            continue
        for cells, counters, _ in wide(path):
            accumulated = counters.pop("SQ_ACCUM_PREV_HIRES", None)
            known = found[cells["dispatch_id"], cells["gpu_id"]]
            known |= {name: value for name, value in counters.items() if name not in known}
            if accumulated is not None:
                known[f"{stem}_ACCUM"] = accumulated
    return found


def duration(start: str, end: str) -> float:
    """Nanoseconds from start to end; 0 where they give no time: missing, reversed, or rounded by a spreadsheet."""
    if not (_TIME.match(start.strip()) and _TIME.match(end.strip())):
        return 0.0
    return max(0.0, float(end) - float(start))


def launched(row: Mapping[str, str]) -> Launched:
    """How a dispatch was launched; sizes are products over axes."""
    grid, group = whole(row.get("grid_size")), whole(row.get("workgroup_size"))
    return Launched(
        calls=1,
        grid_items=grid,
        workgroup_items=group,
        blocks=(grid // group, 1, 1) if grid and group and grid % group == 0 else None,
        arch_vgpr=whole(row.get("arch_vgpr")), accum_vgpr=whole(row.get("accum_vgpr")), sgpr=whole(row.get("sgpr")),
        lds_bytes=whole(row.get("lds_per_workgroup")), lds_static_only=True,
        scratch_bytes=whole(row.get("scratch_per_workitem")),
    )  # fmt: skip
