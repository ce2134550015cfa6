"""Large recordings to read: traces in the layout of rocprofv3 7.x, counters, a rocpd database."""

import gzip
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.rocprof_samples import HEADER, SAMPLES, row

_TIMES = re.compile(rb",(\d{16}),(\d{16}),[^\"\n]*$", re.M)
_DIGITS = 16
"""Of a time in nanoseconds, before and after the shift: rows keep their places in a block."""


Durations = Callable[[np.random.Generator, int], "np.ndarray"]
"""Nanoseconds of so many calls."""
DISTRIBUTIONS: Mapping[str, Durations] = {
    "97 durations in steps of 40 ns": lambda draw, count: 4000 + 40 * draw.integers(0, 97, count),
    "uniform in steps of 1 ns": lambda draw, count: draw.integers(4_000, 1_000_000, count),
    "log-normal in steps of 1 ns": lambda draw, count: draw.lognormal(np.log(20_000), 1.0, count).astype(np.int64) + 1,
}


def trace(path: Path, count: int, lines: Sequence[str] = (), durations: Durations | None = None) -> Path:
    """A kernel trace of `count` rows: `lines`, header first, again and again with shifted times.

    Without any, of 300 kernels and some 327 bytes a row, most of it names: 1.6 GB for 5 million. `durations`: drawn for
    every row, in place of those of the lines.
    """
    draw = np.random.default_rng(7)
    head, *lines = lines or rows()
    block = np.frombuffer("".join(f"{line}\n" for line in lines).encode(), np.uint8)
    found = list(_TIMES.finditer(block.tobytes()))
    starts, ends = (np.array([int(one.group(at)) for one in found]) for at in (1, 2))
    places = np.array([one.start(at) for at in (1, 2) for one in found])[:, None] + np.arange(_DIGITS)
    span, times = int(ends.max() - starts.min()) + 1000, np.concatenate((starts, ends))
    with path.open("wb") as stream:
        stream.write(head.encode() + b"\n")
        for turn in range(-(-count // len(lines))):
            some = block.copy()
            if durations is not None:
                times[len(found) :] = starts + durations(draw, len(found))
            some[places] = _digits(times + turn * span)
            left = count - turn * len(lines)
            stream.write(some.tobytes() if left >= len(lines) else some[: found[left - 1].end() + 1].tobytes())
    return path


def _digits(numbers: "np.ndarray") -> "np.ndarray":
    """ASCII digits of each number, the first of them first."""
    told = np.empty((len(numbers), _DIGITS), np.uint8)
    for at in reversed(range(_DIGITS)):
        numbers, told[:, at] = np.divmod(numbers, 10)
    return told + ord("0")


def rows() -> Sequence[str]:
    """A header and 10,000 rows of 300 kernels."""
    names = [f"void library::kernel_{at}<{', '.join(['float'] * 24)}>(float const*, float*, int)" for at in range(300)]
    return [
        HEADER.rstrip("\n"),
        *(
            row(names[at % 300], 10**15 + 9000 * at, 10**15 + 9000 * at + 4000 + 40 * (at % 97)).rstrip("\n")
            for at in range(10_000)
        ),
    ]


def recorded() -> Sequence[str] | None:
    """Header and 10,000 rows of a real trace, some 274 bytes each; None where it is not at hand."""
    path = SAMPLES / "rocprofv3_kernel_trace" / "rocm7.2_mi350x_fused_rope_cache_kernel_trace.csv.gz"
    return gzip.decompress(path.read_bytes()).decode().splitlines() if path.is_file() else None


def counters(path: Path, count: int) -> Path:
    """Short rows, as rocprof-compute's own collection writes: about 60 bytes each."""
    block = "".join(
        f"{at},4,vecCopy_kernel_{at % 40}.kd,TCC_EA0_RDREQ_{at % 16}_sum,{at * 37 % 99991}.000000\n"
        for at in range(100_000)
    ).encode()
    with path.open("wb") as stream:
        stream.write(b"Dispatch_Id,Agent_Id,Kernel_Name,Counter_Name,Counter_Value\n")
        for _ in range(count // 100_000):
            stream.write(block)
    return path


def database(path: Path, count: int) -> Path:
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
