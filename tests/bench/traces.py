"""Large recordings: time and peak memory of reading them, each in a process of its own, beside plain pandas.

Inputs repeat a recorded trace with shifted times where one lies beside the checkout, and one of the same layout and
width otherwise. They are written to a temporary folder that goes away.
"""

import gzip
import importlib.util
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rocprof_samples import HEADER, SAMPLES, row

READ = "import sys; from pathlib import Path; from sandbox.recordings.detect import read; read(Path(sys.argv[1]))"
PANDAS = (
    "import sys, pandas as p; t = p.read_csv(sys.argv[1]); t['ns'] = t.End_Timestamp - t.Start_Timestamp; "
    "g = t.groupby('Kernel_Name').ns.agg(['count', 'sum', 'mean', 'median']); g['share'] = g['sum'] / g['sum'].sum()"
)
_TIMES = re.compile(r"^(.*),(\d{6,}),(\d{6,}),(.*)$")
TRACE, LONG_TRACE, COUNTERS, DATABASE = 5_000_000, 20_000_000, 72_000_000, 1_000_000
MB = 1024.0


@dataclass(frozen=True)
class Spent:
    """What one process took."""

    wall: float
    cpu: float
    peak_mb: float


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="ridgeline-bench-") as room:
        trace = _trace(Path(room) / "run_kernel_trace.csv", TRACE)
        ours = _spent(READ, trace)
        yield from _rows(f"trace, {TRACE // 10**6} M rows", ours, seconds=3.0, megabytes=400)
        if importlib.util.find_spec("pandas"):
            theirs = _spent(PANDAS, trace)
            yield from _rows("the same with plain pandas", theirs)
            yield {"what": "plain pandas / ours, time", "value": theirs.wall / ours.wall, "unit": "x"}
        else:
            yield {"what": "plain pandas is not installed: no comparison", "value": 0.0, "unit": "rows"}
        trace.unlink()
        trace = _trace(Path(room) / "long_kernel_trace.csv", LONG_TRACE)
        longer = _spent(READ, trace)
        yield from _rows(f"trace, {LONG_TRACE // 10**6} M rows", longer, megabytes=400)
        growth = longer.peak_mb / ours.peak_mb
        yield {"what": "peak memory, 20 M / 5 M rows", "value": growth, "unit": "x", "bound": 1.3, "ok": growth < 1.3}
        trace.unlink()
        counters = _counters(Path(room) / "run_counter_collection.csv", COUNTERS)
        yield from _rows(f"counters, {COUNTERS // 10**6} M rows", _spent(READ, counters), megabytes=500)
        counters.unlink()
        base = _database(Path(room) / "run_results.db", DATABASE)
        yield from _rows(f"rocpd, {DATABASE // 10**6} M dispatches", _spent(READ, base), seconds=5.0)


def _rows(
    what: str, spent: Spent, *, seconds: float | None = None, megabytes: float | None = None
) -> Iterator[dict[str, Any]]:
    yield _row(f"{what}: wall", spent.wall, "s", seconds)
    yield _row(f"{what}: CPU", spent.cpu, "s", None)
    yield _row(f"{what}: peak memory", spent.peak_mb, "MB", megabytes)


def _row(what: str, value: float, unit: str, bound: float | None) -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "bound": bound, "ok": None if bound is None else value < bound}


def _spent(code: str, path: Path) -> Spent:
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"reading {path.name} failed with {process.returncode}")
    return Spent(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / MB)


def _recorded() -> Sequence[str]:
    """Rows of a real trace, header first; rows of its layout and width where it is not at hand."""
    path = SAMPLES / "rocprofv3_kernel_trace" / "rocm7.2_mi350x_fused_rope_cache_kernel_trace.csv.gz"
    if path.is_file():
        return gzip.decompress(path.read_bytes()).decode().splitlines()
    names = [f"void library::kernel_{at}<{', '.join(['float'] * 30)}>(float const*, float*, int)" for at in range(300)]
    return [
        HEADER.rstrip("\n"),
        *(
            row(names[at % 300], 10**15 + 9000 * at, 10**15 + 9000 * at + 4000 + 40 * (at % 97)).rstrip("\n")
            for at in range(10_000)
        ),
    ]


def _trace(path: Path, count: int) -> Path:
    head, *lines = _recorded()
    parts = [
        (one.group(1), int(one.group(2)), int(one.group(3)), one.group(4)) for one in map(_TIMES.match, lines) if one
    ]
    span = max(part[2] for part in parts) - min(part[1] for part in parts) + 1000
    with path.open("w", encoding="utf-8", buffering=1 << 20) as stream:
        stream.write(head + "\n")
        for turn in range(-(-count // len(parts))):
            some = parts[: count - turn * len(parts)]
            by = turn * span
            stream.write("".join(f"{left},{start + by},{end + by},{right}\n" for left, start, end, right in some))
    return path


def _counters(path: Path, count: int) -> Path:
    """Short rows, as rocprof-compute's own collection writes: about 60 bytes each."""
    with path.open("w", encoding="utf-8", buffering=1 << 20) as stream:
        stream.write("Dispatch_Id,Agent_Id,Kernel_Name,Counter_Name,Counter_Value\n")
        block = "".join(
            f"{at},4,vecCopy_kernel_{at % 40}.kd,TCC_EA0_RDREQ_{at % 16}_sum,{at * 37 % 99991}.000000\n"
            for at in range(100_000)
        )
        for _ in range(count // 100_000):
            stream.write(block)
    return path


def _database(path: Path, count: int) -> Path:
    """Base tables of schema 3 with as many dispatches."""
    with sqlite3.connect(path) as base:
        base.executescript(_SCHEMA)
        base.executemany(
            "insert into rocpd_info_kernel_symbol values (?, 'g', ?, 32, 0, 48, '')",
            [(at, f"void kernel_{at}<{'float, ' * 30}int>(float*)") for at in range(1, 301)],
        )
        base.executemany(
            "insert into rocpd_kernel_dispatch values (?, 'g', 1, ?, 1, ?, ?, 0, 512, 256, 1, 1, 65536, 1, 1, ?)",
            (
                (at, at % 300 + 1, 10**15 + 9000 * at, 10**15 + 9000 * at + 4000 + 40 * (at % 97), at)
                for at in range(count)
            ),
        )
    base.close()
    return path


_SCHEMA = """
create table rocpd_metadata (id integer primary key, tag text, value text);
insert into rocpd_metadata (tag, value) values ('schema_version', '3');
create table rocpd_info_agent (id integer, guid text, type text, name text, product_name text, absolute_index integer,
    logical_index integer, extdata text);
insert into rocpd_info_agent values (1, 'g', 'GPU', 'gfx942', 'generated', 1, 1, '{"cu_count": 304}');
create table rocpd_info_kernel_symbol (id integer, guid text, display_name text, arch_vgpr_count integer,
    accum_vgpr_count integer, sgpr_count integer, kernel_name text);
create table rocpd_info_pmc (id integer, guid text, name text);
create table rocpd_pmc_event (id integer, guid text, event_id integer, pmc_id integer, value real);
create table rocpd_kernel_dispatch (id integer primary key, guid text, agent_id integer, kernel_id integer,
    queue_id integer, start bigint, "end" bigint, private_segment_size integer, group_segment_size integer,
    workgroup_size_x integer, workgroup_size_y integer, workgroup_size_z integer,
    grid_size_x integer, grid_size_y integer, grid_size_z integer, event_id integer);
"""
