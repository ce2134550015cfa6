"""Large recordings: time and peak memory of reading them, each in a process of its own, beside plain pandas.

Inputs are written to a temporary folder that goes away, and read while they lie in the system's memory, not being
written any more. The stated 3 s for 5 million rows of 1.6 GB hold where plain pandas takes 6; on a slower or busier
machine, half of what it takes there. These two take turns, four times each: of each the best wall time counts. Where a
recorded trace is at hand, of shorter rows, the same is told of it, without a bound.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.trace_inputs import DISTRIBUTIONS, counters, database, recorded, trace

READ = (
    "import sys; from pathlib import Path; from ridgeline.sandbox.profiles.readers.detect import read_recordings; "
    "read_recordings(Path(sys.argv[1]))"
)
PANDAS = (
    "import sys, pandas as p; t = p.read_csv(sys.argv[1]); t['ns'] = t.End_Timestamp - t.Start_Timestamp; "
    "g = t.groupby('Kernel_Name').ns.agg(['count', 'sum', 'mean', 'median']); g['share'] = g['sum'] / g['sum'].sum()"
)
DUCKDB = """
import sys, duckdb
base = duckdb.connect(config={"threads": 2})
base.execute("set enable_progress_bar = false")
base.execute(
    "select Kernel_Name, count(*), sum(ns), avg(ns), median(ns), sum(ns) / sum(sum(ns)) over () from "
    f"(select Kernel_Name, End_Timestamp - Start_Timestamp ns from read_csv('{sys.argv[1]}')) group by 1"
).fetchall()
"""
"""The path stands in the query: for a parameter duckdb imports pandas, a second that would be the bench's own."""
DUCKDB_SAME = """
import sys, duckdb
base = duckdb.connect(config={"threads": 2})
base.execute("set enable_progress_bar = false")
launch = "Workgroup_Size_X, Workgroup_Size_Y, Workgroup_Size_Z, Grid_Size_X, Grid_Size_Y, Grid_Size_Z"
held = "VGPR_Count, Accum_VGPR_Count, SGPR_Count, LDS_Block_Size, Scratch_Size"
base.execute(
    f"create temp table d as select hash(Agent_Id, Queue_Id, Kernel_Name, {launch}, {held}) h, "
    f"Start_Timestamp s, End_Timestamp e, e - s ns from read_csv('{sys.argv[1]}')"
)
base.execute(
    "select h, count(*), sum(ns), avg(ns), stddev_samp(ns), min(ns), max(ns), quantile_disc(ns, [0.2, 0.8]), median(ns) "
    "from d group by h"
).fetchall()
base.execute(
    "select h, median(gap), sum(busy) from (select h, greatest(0, s - reach) gap, greatest(0, e - greatest(s, reach)) busy "
    "from (select h, s, e, max(e) over (order by s rows between unbounded preceding and 1 preceding) reach from d)) "
    "group by h"
).fetchall()
"""
"""What reading tells, told by duckdb alone: launches, ranks, and gaps and overlap by a window over one queue."""
OVER_DUCKDB = 1.5
"""Most processor time that reading may take, of what one query of plain duckdb takes on the same file."""
TURNS = 4
TRACE, LONG_TRACE, COUNTERS, DATABASE = 5_000_000, 20_000_000, 72_000_000, 1_000_000
MB = 1024.0
GB = 1e9
SECONDS, TIMES = 3.0, 2.0
"""For the 5 M rows: the bound, and how many times longer plain pandas takes where it was stated."""


@dataclass(frozen=True)
class Spent:
    """What one process took."""

    wall: float
    cpu: float
    peak_mb: float


def run() -> Iterator[dict[str, Any]]:
    """5 M rows of three spreads beside duckdb and pandas, a rocpd database; then 20 M rows and 72 M counters where the disk allows."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-bench-") as folder:
        bench = _Bench(Path(folder))
        yield {
            "what": "load before (wall times mean little above 0.5)",
            "value": os.getloadavg()[0],
            "unit": "processes",
        }
        yield from _beside_duckdb(bench)
        ours = yield from _beside_pandas(bench)
        spent = bench.made(database, "run_results.db", DATABASE)
        yield from _rows(f"rocpd, {DATABASE // 10**6} M dispatches", spent, seconds=5.0)
        if shutil.disk_usage(folder).free < 9 * GB:
            yield {"what": "less than 9 GB free: 20 M rows, 72 M counters not run", "value": 0.0, "unit": "rows"}
            return
        longer = bench.made(trace, "long_kernel_trace.csv", LONG_TRACE)
        yield from _rows(f"trace, {LONG_TRACE // 10**6} M rows", longer, megabytes=400)
        growth = longer.peak_mb / ours.peak_mb
        yield {"what": "peak memory, 20 M / 5 M rows", "value": growth, "unit": "x", "bound": 1.3, "ok": growth < 1.3}
        spent = bench.made(counters, "run_counter_collection.csv", COUNTERS)
        yield from _rows(f"counters, {COUNTERS // 10**6} M rows", spent, megabytes=500)


def _beside_pandas(bench: "_Bench") -> Iterator[dict[str, Any]]:
    path = trace(bench.room / "run_kernel_trace.csv", TRACE)
    best = yield from _compared(bench, path, f"trace, {TRACE // 10**6} M rows")
    ours, bound = best[READ], SECONDS
    if theirs := best.get(PANDAS):
        bound = max(SECONDS, theirs.wall / TIMES)
        yield from _rows("the same with plain pandas", theirs)
        yield {"what": "plain pandas / ours, CPU", "value": theirs.cpu / ours.cpu, "unit": "x"}
        yield {"what": "plain pandas / ours, peak memory", "value": theirs.peak_mb / ours.peak_mb, "unit": "x"}
    else:
        yield {"what": "plain pandas is not installed: no comparison", "value": 0.0, "unit": "rows"}
    yield from _rows(f"trace, {TRACE // 10**6} M rows", ours, seconds=bound, megabytes=400)
    if theirs and (lines := recorded()):
        path = trace(path, TRACE, lines)
        yield from _compared(bench, path, "rows of a recorded trace")
    path.unlink()
    return ours


def _beside_duckdb(bench: "_Bench") -> Iterator[dict[str, Any]]:
    """How durations are spread: processor time against one query of plain duckdb, and the peak of memory."""
    for what, durations in DISTRIBUTIONS.items():
        path = trace(bench.room / "run_kernel_trace.csv", TRACE, durations=durations)
        turns = [[bench.spent(code, path) for code in (READ, DUCKDB, DUCKDB_SAME)] for _ in range(TURNS // 2)]
        ours, theirs, same = (min(side, key=lambda one: one.cpu) for side in zip(*turns, strict=True))
        yield _row(f"{what}: ours / plain duckdb, CPU", ours.cpu / theirs.cpu, "x", OVER_DUCKDB)
        yield _row(f"{what}: ours / duckdb's SQL for the same answers, CPU", ours.cpu / same.cpu, "x", None)
        yield _row(f"{what}: CPU", ours.cpu, "s", None)
        yield _row(f"{what}: peak memory", ours.peak_mb, "MB", 400)
        yield _row(f"{what}: peak memory of duckdb's SQL for the same answers", same.peak_mb, "MB", None)
        path.unlink()


def _compared(bench: "_Bench", path: Path, what: str) -> Generator[dict[str, Any], None, Mapping[str, Spent]]:
    """Rows of the input's size and of how much longer plain pandas takes; the best turn of each code."""
    yield {"what": f"{what}: size", "value": path.stat().st_size / GB, "unit": "GB"}
    codes = (READ, PANDAS) if importlib.util.find_spec("pandas") else (READ,)
    best = {code: min(turns, key=lambda one: one.wall) for code, turns in _turns(bench, path, codes).items()}
    if PANDAS in best:
        yield {"what": f"{what}: plain pandas / ours, wall", "value": best[PANDAS].wall / best[READ].wall, "unit": "x"}
    return best


def _turns(bench: "_Bench", path: Path, codes: Sequence[str]) -> Mapping[str, list[Spent]]:
    found: dict[str, list[Spent]] = {code: [] for code in codes}
    for _ in range(TURNS):
        for code in codes:
            found[code].append(bench.spent(code, path))
    return found


def _rows(
    what: str, spent: Spent, *, seconds: float | None = None, megabytes: float | None = None
) -> Iterator[dict[str, Any]]:
    yield _row(f"{what}: wall", spent.wall, "s", seconds)
    yield _row(f"{what}: CPU", spent.cpu, "s", None)
    yield _row(f"{what}: peak memory", spent.peak_mb, "MB", megabytes)


def _row(what: str, value: float, unit: str, bound: float | None) -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "bound": bound, "ok": None if bound is None else value < bound}


class _Bench:
    """Starts the processes. Compiled modules are kept from the first on, as an installed program has them."""

    def __init__(self, room: Path) -> None:
        self.room = room
        self._warm: set[str] = set()
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._environment: Mapping[str, str] = {**kept, "PYTHONPYCACHEPREFIX": str(room / "compiled")}

    def made(self, make: Callable[[Path, int], Path], name: str, count: int) -> Spent:
        """What reading a file takes that is there only for it."""
        path = make(self.room / name, count)
        spent = self.spent(READ, path)
        path.unlink()
        return spent

    def spent(self, code: str, path: Path) -> Spent:
        if code not in self._warm:
            self._warm.add(code)
            self._process(code, trace(self.room / "small_kernel_trace.csv", 1000))
        return self._process(code, path)

    def _process(self, code: str, path: Path) -> Spent:
        os.sync()
        began = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], env=self._environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"reading {path.name} failed with {process.returncode}")
        return Spent(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / MB)
