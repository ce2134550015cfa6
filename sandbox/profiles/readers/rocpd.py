"""rocpd databases (SQLite, rocprofv3 from ROCm 7.0): dispatches and counters from the base tables, opened read-only."""

import csv
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ridgeline.graph.kernel_profile import Recording
from ridgeline.sandbox.profiles.readers import agents, dispatches, rocprof_csv
from ridgeline.sandbox.profiles.readers.agents import on_device
from ridgeline.sandbox.profiles.readers.dispatches import (
    Dispatches,
    Rows,
    Symbol,
    load,
    number_keys,
    open_rows,
    recordings,
)
from ridgeline.sandbox.profiles.readers.files import RecordingError, beginning

# Whole numbers that stand for the rows of some columns of an SQLite table: what a row repeats then travels as one.

_MOST = 1 << 62
"""Codes stay below it: SQLite counts in signed 64 bits."""


@dataclass(frozen=True)
class Codes:
    """An SQL expression for the code of a row, and what each code stands for."""

    sql: str
    kinds: Mapping[int, tuple[int, ...]]


def codes(columns: Sequence[str], kinds: Sequence[Sequence[object]]) -> Codes | None:
    """Numbers `kinds`, the distinct rows of `columns`; None where a cell is no whole number or they are too far apart.

    Each column counts in steps of the range of those after it, as hours do in minutes: distinct rows, distinct codes.
    """
    rows: list[tuple[int, ...]] = []
    for kind in kinds:
        integers = tuple(cell for cell in kind if isinstance(cell, int))
        if len(integers) != len(columns):
            return None
        rows.append(integers)
    terms, at, step = ["0"], [0] * len(rows), 1
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        least, most = min(cells), max(cells)
        if least == most:
            continue
        terms.append(f"({column} - {least}) * {step}")
        at = [code + (cell - least) * step for code, cell in zip(at, cells, strict=True)]
        step *= most - least + 1
        if step > _MOST or least <= -_MOST:
            return None
    return Codes(" + ".join(terms), dict(zip(at, rows, strict=True)))


FORMAT = "rocpd"
MAGIC = b"SQLite format 3\0"
SCHEMAS = ("3",)
_SYMBOL = "k.guid || ':' || k.kernel_id"
_AGENT = "k.guid || ':' || k.agent_id"
_TABLE = "rocpd_kernel_dispatch"
_PACKED = (
    "kernel_id", "agent_id", "queue_id", "group_segment_size", "private_segment_size", "workgroup_size_x",
    "workgroup_size_y", "workgroup_size_z", "grid_size_x", "grid_size_y", "grid_size_z",
)  # fmt: skip
"""In the order of `spool.PACKED`."""
_DISPATCHES = f"""
select printf('%s:%d %s:%d{" %d" * (len(_PACKED) - 2)}', guid, kernel_id, guid, {", ".join(_PACKED[1:])}), start, "end"
from {_TABLE}"""
KINDS = 100_000
"""Launches of kernels up to which a row travels as a number that stands for its launch; rows of more are text."""
_KINDS = f"select distinct {', '.join(_PACKED)} from {_TABLE} limit {KINDS}"
_SOUND = f"""
select count(*), count(*) filter (where typeof(start) = 'integer' and typeof("end") = 'integer'
       and guid = (select guid from rocpd_info_kernel_symbol)) from {_TABLE}"""
PART = 400_000
"""Rows that travel at once, 24 bytes each."""
FEW = 200_000
"""Dispatches up to which the view is counted: its joins take longer than reading the table."""
_COUNTERS = f"""
select {_AGENT}, {_SYMBOL}, i.name, sum(p.value), k.start, k."end", k.grid_size_x * k.grid_size_y * k.grid_size_z
from rocpd_pmc_event p
join rocpd_info_pmc i on i.id = p.pmc_id and i.guid = p.guid
join rocpd_kernel_dispatch k on k.event_id = p.event_id and k.guid = p.guid
group by p.guid, p.event_id, i.name"""
_SYMBOLS = """
select guid || ':' || id, coalesce(display_name, kernel_name), arch_vgpr_count, accum_vgpr_count, sgpr_count
from rocpd_info_kernel_symbol"""


@dataclass(frozen=True)
class _Base:
    """The database, its errors being about `path`."""

    path: Path
    connection: sqlite3.Connection

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()

    def copy_rows(self, sql: str, columns: tuple[str, ...], target: Path) -> int:
        """Reading a profile: copies a query into a CSV; the number of rows."""
        before = self.connection.execute(sql)
        with target.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(columns)
            count = _CountedRows(before)
            writer.writerows(count)
        return count.rows


class _CountedRows:
    def __init__(self, rows: sqlite3.Cursor) -> None:
        self._cursor, self.rows = rows, 0

    def __iter__(self) -> Iterator[Sequence[object]]:
        while part := self._cursor.fetchmany(10_000):
            self.rows += len(part)
            yield from part


def sniff(path: Path) -> bool:
    """Whether a file is an SQLite database with rocpd's tables."""
    if beginning(path)[: len(MAGIC)] != MAGIC:
        return False
    with _open_base(path) as base:
        return bool(base.rows("select 1 from sqlite_master where name like 'rocpd_kernel_dispatch%' limit 1"))


@contextmanager
def _open_base(path: Path) -> Iterator[_Base]:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)) as connection:
            yield _Base(path, connection)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise RecordingError(path, f"the database is damaged or of another layout: {error}") from error


def read_recordings(path: Path) -> tuple[Recording, ...]:
    """Reading a profile: recordings of each GPU: times, and counters where it has them. Host name, command and environment stay unread.

    Raises `RecordingError` when damaged, of an unknown schema, or without a dispatch.
    """
    with _open_base(path) as base, open_rows(path) as rows:
        warnings = (*_schema(base), *_missing(base))
        symbols = {row[0]: Symbol(str(row[1] or ""), *row[2:]) for row in base.rows(_SYMBOLS)}
        gpus = _agents(base)
        summed = rows.room / "counters.csv"
        by_gpu = recordings(_dispatches(base, rows, symbols), form=FORMAT, files=(str(path),), static_lds=False)
        if base.copy_rows(_COUNTERS, dispatches.COUNTER, summed):
            cells = rocprof_csv.cells(path, summed, dispatches.head(dispatches.COUNTER), symbols)
            counters = rocprof_csv.counter_recordings(cells, files=(str(path),))
            by_gpu = tuple(_with_metrics(recording, counters) for recording in by_gpu)
    return tuple(
        _place(recording.model_copy(update={"warnings": (*recording.warnings, *warnings)}), gpus)
        for recording in by_gpu
    )


def _dispatches(base: _Base, rows: Rows, symbols: Mapping[str, Symbol]) -> Dispatches:
    """All dispatches: as numbers where they are one run's and sound, which is most of the time; as text otherwise."""
    run = _one_run(base)
    coded = codes(_PACKED, kinds) if run and len(kinds := base.rows(_KINDS)) < KINDS else None
    if coded is not None:
        _add_rows(base, rows, coded)
        kinds = [coded.kinds[code] for code in sorted(coded.kinds)]
        return number_keys(rows, [dispatches.unpack_key(" ".join(map(str, kind)), symbols, run) for kind in kinds])
    source = rows.room / "dispatches.csv"
    if not base.copy_rows(_DISPATCHES, dispatches.DISPATCH, source):
        raise RecordingError(base.path, "holds no dispatch: 0 kernels ran while it recorded")
    return load(rows, source, dispatches.head(dispatches.DISPATCH), partial(dispatches.unpack_key, symbols=symbols))


def _add_rows(base: _Base, rows: Rows, coded: Codes) -> None:
    """Reading a profile: all dispatches; a number is the place of a code among the sorted ones."""
    import numpy as np

    codes = np.array(sorted(coded.kinds), np.int64)
    cells = base.connection.execute(f'select {coded.sql}, start, "end" from {_TABLE}')
    while len(part := np.fromiter(chain.from_iterable(islice(cells, PART)), np.int64)):
        code, start, end = part.reshape(-1, 3).T.copy()
        rows.add(np.searchsorted(codes, code), start, end)


def _one_run(base: _Base) -> str:
    """The guid of all dispatches, if their times are whole numbers; empty otherwise and where there is none."""
    guids = [str(row[0]) for row in base.rows("select distinct guid from rocpd_info_kernel_symbol")]
    if len(guids) != 1:
        return ""
    ((total, sound),) = base.rows(_SOUND)
    return guids[0] if total and sound == total else ""


def _schema(base: _Base) -> tuple[str, ...]:
    versions = [str(row[0]) for row in base.rows("select value from rocpd_metadata where tag = 'schema_version'")]
    if not versions:
        raise RecordingError(base.path, "tells no schema_version: the database is damaged or not finished")
    unknown = sorted({version for version in versions if version.split(".")[0] not in SCHEMAS})
    if unknown:
        raise RecordingError(base.path, f"has schema version {unknown[0]}; known: {', '.join(SCHEMAS)}")
    return ()


def _missing(base: _Base) -> tuple[str, ...]:
    """The view that other tools read drops dispatches that lack an event or a name: says how many."""
    if not base.rows("select 1 from sqlite_master where name = 'kernels'"):
        return ()
    ((table,),) = base.rows("select count(*) from rocpd_kernel_dispatch")
    view = table if table > FEW else base.rows("select count(*) from kernels")[0][0]
    if view == table:
        return ()
    return (f"the view `kernels` holds {view} of {table} dispatches; these numbers are of the base table",)


def _agents(base: _Base) -> tuple[agents.Agent, ...]:
    columns = ("type", "name", "product_name", "absolute_index", "logical_index", "extdata")
    gpus = []
    for identity, *values in base.rows(f"select guid || ':' || id, {', '.join(columns)} from rocpd_info_agent"):
        fields = dict(zip(columns, values, strict=True))
        try:
            more = json.loads(fields.pop("extdata") or "{}")
        except ValueError as error:
            raise RecordingError(base.path, f"rocpd_info_agent.extdata is no JSON: {error}") from error
        agent = agents.agent({**(more if isinstance(more, dict) else {}), **fields}, (str(identity),))
        gpus += [agent] if agent else []
    return tuple(gpus)


def _with_metrics(recording: Recording, candidates: Sequence[Recording]) -> Recording:
    match = next((candidate for candidate in candidates if candidate.device == recording.device), None)
    if match is None:
        return recording
    metrics = {kernel.name: kernel.metrics for kernel in match.kernels}
    kernels = [kernel.model_copy(update={"metrics": metrics.get(kernel.name, ())}) for kernel in recording.kernels]
    warning = "counters were read while these times were taken: they are slower than a run without"
    return recording.model_copy(
        update={
            "kernels": tuple(kernels),
            "grade": "serialised",
            "warnings": (*recording.warnings, *match.warnings, warning),
        }
    )


def _place(recording: Recording, gpus: Sequence[agents.Agent]) -> Recording:
    agent = agents.choose(gpus, recording.device or "")
    if agent is None:
        return recording
    device = next((name for name in agent.ids if name.startswith("Agent ")), None)
    return on_device(recording.model_copy(update={"device": device}), agent)
