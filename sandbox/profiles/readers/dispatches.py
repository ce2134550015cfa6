"""A table of dispatches inside duckdb: each row three numbers, names and launches once. Every source becomes it.

A trace of millions of rows repeats a few kernels. The table `d` holds of each dispatch a number that stands for its
kernel, launch and queue, its start and its end in nanoseconds; what the numbers stand for is told once.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ridgeline.sandbox.profiles.readers.engine import Engine
from ridgeline.sandbox.profiles.readers.fault import RecordingError

LAUNCH = ("wg_x", "wg_y", "wg_z", "grid_x", "grid_y", "grid_z", "vgpr", "accum", "sgpr", "lds", "scratch")
_IDS = "{'h': 'UBIGINT', 'agent': 'INT', 'queue': 'INT', 'kernel': 'INT', 'launch': 'INT'}"


@dataclass(frozen=True)
class Symbol:
    """What a kernel id stands for where a source keeps names apart from dispatches; None: not told."""

    name: str
    vgpr: int | None
    accum: int | None
    sgpr: int | None


@dataclass(frozen=True)
class Key:
    """One kernel with one launch on one queue."""

    agent: str
    queue: str
    name: str
    launch: tuple[int | None, ...]
    """In the order of LAUNCH."""


@dataclass(frozen=True)
class Counts:
    """How often one number stands in `d`."""

    rows: int
    usable: int
    last: int | None
    """The latest start among the usable, in ns."""


@dataclass(frozen=True)
class Dispatches:
    """What the table `d` (h, s, e) and its companion `ids` (h, agent, queue, kernel, launch) now hold."""

    engine: Engine
    agents: tuple[str, ...]
    kernels: tuple[tuple[int, str], ...]
    """(agent, name) by number."""
    launches: tuple[tuple[int, tuple[int | None, ...]], ...]
    """(kernel, launch) by number."""
    queues: tuple[tuple[int, str], ...]
    """(agent, queue) by number."""
    last: Mapping[int, int]
    """Kernel -> launch of its latest dispatch."""
    rows: int
    rejected: int
    warnings: tuple[str, ...]


def counted(engine: Engine) -> Mapping[int, Counts]:
    """What `d` holds, by number. `RecordingError` when no row is left to count.

    Leaves `times` (h, ns, n, latest): how often a number has each duration, and its latest start. ns: null where a
    dispatch does not end after it starts.
    """
    engine.rows(
        "create temp table times as select h, case when e > s then e - s end as ns, count(*) n, max(s) latest "
        "from d group by all"
    )
    found = {
        h: Counts(int(rows), int(usable or 0), last)
        for h, rows, usable, last in engine.rows(
            "select h, sum(n), sum(n) filter (ns > 0), max(latest) filter (ns > 0) from times group by h"
        )
    }
    if not found:
        raise RecordingError(
            engine.path, "has a header and no rows: 0 kernels were dispatched while it recorded", line=1
        )
    if not any(one.usable for one in found.values()):
        total = sum(one.rows for one in found.values())
        raise RecordingError(
            engine.path, f"none of its {total} rows ends after it starts: the times are damaged", line=2
        )
    return found


def numbered(
    engine: Engine, keys: Mapping[int, Key], counts: Mapping[int, Counts], warnings: tuple[str, ...] = ()
) -> Dispatches:
    """Numbers agents, kernels, launches and queues, and writes `ids`. `keys`: what each of `counts` stands for."""
    agents = sorted({keys[h].agent for h in counts})
    at_agent = {name: at for at, name in enumerate(agents)}
    kernels = sorted({(at_agent[keys[h].agent], keys[h].name) for h in counts})
    at_kernel = {kernel: at for at, kernel in enumerate(kernels)}
    launches: dict[tuple[int, tuple[int | None, ...]], int] = {}
    queues: dict[tuple[int, str], int] = {}
    rows = []
    for h in counts:
        agent = at_agent[keys[h].agent]
        kernel = at_kernel[agent, keys[h].name]
        launch = launches.setdefault((kernel, keys[h].launch), len(launches))
        rows.append((h, agent, queues.setdefault((agent, keys[h].queue), len(queues)), kernel, launch))
    _write(engine, rows)
    total, usable = (sum(getattr(one, what) for one in counts.values()) for what in ("rows", "usable"))
    if usable < total:
        warnings = (*warnings, f"{total - usable} of {total} rows left out: they do not end after they start")
    return Dispatches(
        engine=engine,
        agents=tuple(agents),
        kernels=tuple(kernels),
        launches=tuple(launches),
        queues=tuple(queues),
        last=dict(_last(rows, counts)),
        rows=total,
        rejected=total - usable,
        warnings=warnings,
    )


def _write(engine: Engine, rows: list[tuple[int, int, int, int, int]]) -> None:
    written = engine.room / "ids.csv"
    with written.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    engine.rows(
        f"create temp table ids as select * from read_csv('{engine.linked(written)}', header=false, "
        f"auto_detect=false, delim=',', compression='none', columns={_IDS})"
    )


def _last(rows: list[tuple[int, int, int, int, int]], counts: Mapping[int, Counts]) -> Iterator[tuple[int, int]]:
    """(kernel, launch) in the order of their latest starts: the last word is the latest."""
    timed = [(last, kernel, launch) for h, _, _, kernel, launch in rows if (last := counts[h].last) is not None]
    for _, kernel, launch in sorted(timed):
        yield kernel, launch
