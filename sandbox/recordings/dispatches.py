"""A table of dispatches inside duckdb: each row three numbers, names and launches once. Every source becomes it.

A trace of millions of rows repeats a few kernels. One pass over the file leaves (digest of name and launch, start,
end); what the digests mean is read from the first rows and, only where these do not hold them all, in a second pass.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.recordings.csv_head import Head, ends_open
from sandbox.recordings.engine import Engine
from sandbox.recordings.fault import RecordingError

LAUNCH = ("wg_x", "wg_y", "wg_z", "grid_x", "grid_y", "grid_z", "vgpr", "accum", "sgpr", "lds", "scratch")
WHO = ("agent", "queue", "name")
FIRST = 100_000
"""Rows whose names and launches are looked at first, and whose spelling of numbers is checked."""
COLUMNS = (*WHO, "start", "end", *LAUNCH)


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


Unpack = Callable[[str], Key]


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
    rows: int
    rejected: int
    warnings: tuple[str, ...]


def load(engine: Engine, source: Path, head: Head, unpack: Unpack | None = None) -> Dispatches:
    """Reads `source`, a CSV with one row per dispatch. `unpack` tells what a name stands for where it is packed.

    Raises `RecordingError` naming the line where a row is damaged, and when no row is left to count.
    """
    table = Columns(engine, source, head)
    if head.has("symbol") and _one_name_each(engine, table):
        table.by_number()
    engine.rows(f"create temp table k as select distinct hash({table.key}) h, {table.named} from {table.first}")
    warnings = [*_spelling(engine, table)]
    engine.rows("drop table f")
    times = table.checked if warnings else table.plain
    engine.rows(f"create temp table d as select hash({table.key}) h, {times} from {table.all}")
    if engine.rows("select 1 from d where h not in (select h from k) limit 1"):
        engine.rows(
            f"insert into k select distinct hash({table.key}), {table.named} from {table.all} "
            f"where hash({table.key}) not in (select h from k)"
        )
    ((total, usable),) = engine.rows("select count(*), count(*) filter (e > s) from d")
    if not total:
        raise RecordingError(
            engine.path, "has a header and no rows: 0 kernels were dispatched while it recorded", line=1
        )
    if not usable:
        raise RecordingError(
            engine.path, f"none of its {total} rows ends after it starts: the times are damaged", line=2
        )
    if usable < total:
        warnings.append(f"{total - usable} of {total} rows left out: they do not end after they start")
    if ends_open(source, head.packed):
        warnings.append("the last line has no line end: the file may be cut")
    return _numbered(engine, unpack, rows=total, rejected=total - usable, warnings=tuple(warnings))


class Columns:
    """The SQL words for one file: where its rows are, and what stands for each of our columns."""

    def __init__(self, engine: Engine, source: Path, head: Head) -> None:
        self._head = head
        link = engine.linked(source)
        self.all = self._reader(link, "BIGINT")
        text = self._reader(link, "VARCHAR")
        self.first = "f"  # read once: what follows asks it several times
        engine.rows(f"create temp table f as select * from {text} limit {FIRST}")
        known = [column for column in (*WHO, *LAUNCH) if head.place(column) is not None]
        self._parts = [self._at(column) for column in known if column != "name"]
        self.key = ", ".join([self._at("name"), *self._parts])
        self.named = ", ".join(
            f"{self._at(column) if column in known else 'NULL'} as {column}" for column in (*WHO, *LAUNCH)
        )
        self.start, self.end = self._at("start"), self._at("end")
        self.name = self._at("name")
        self.symbol = self._at("symbol")
        self.plain = f"{self.start} as s, {self.end} as e"
        whole = "try_cast(case when {0} similar to '[0-9]+' then {0} end as bigint)"
        self.checked = f"{whole.format(self.start)} as s, {whole.format(self.end)} as e"

    def _at(self, column: str) -> str:
        return f"c{self._head.place(column)}"

    def _reader(self, link: str, times: str) -> str:
        kinds = dict.fromkeys((self._head.place(column) for column in (*LAUNCH, "symbol")), "BIGINT")
        kinds |= {self._head.place("start"): times, self._head.place("end"): times}
        types = ", ".join(f"'c{at}': '{kinds.get(at, 'VARCHAR')}'" for at in range(len(self._head.names)))
        packed = "gzip" if self._head.packed else "none"
        return (
            f"read_csv('{link}', header=true, auto_detect=false, delim='{self._head.delimiter}', quote='\"', "
            f"escape='\"', compression='{packed}', columns={{{types}}})"
        )

    def by_number(self) -> None:
        """From here on the kernel's number and the length of its name stand for the name: the digest costs a third."""
        self.key = ", ".join([self._at("symbol"), f"strlen({self._at('name')})", *self._parts])

    def as_text(self) -> None:
        """From here on times are read as text, and only whole numbers among them count."""
        self.all = self.all.replace("'BIGINT'", "'VARCHAR'")


def _one_name_each(engine: Engine, table: Columns) -> bool:
    """Whether kernel numbers stand for one name each in the first rows: within one process they do."""
    return not engine.rows(
        f"select 1 from {table.first} group by {table.symbol} having min({table.name}) <> max({table.name}) limit 1"
    )


def _spelling(engine: Engine, table: Columns) -> Sequence[str]:
    """What is wrong with how the first rows spell times: a spreadsheet's 1.62E+14 is not one, whatever it rounds to."""
    wrong = engine.rows(
        f"select count(*) from {table.first} where {table.start} ilike '%e+%' or {table.end} ilike '%e+%'"
    )[0][0]
    if not wrong:
        odd = engine.rows(
            f"select {table.start} from {table.first} where not (trim({table.start}) similar to '[0-9]*') limit 1"
        )
        if odd:
            raise RecordingError(
                engine.path,
                f"a start time is written {odd[0][0][:40]!r}, not in whole nanoseconds: take the file as recorded",
            )
        return ()
    table.as_text()
    return (
        f"times in exponent notation, as a spreadsheet saves them, in {wrong} of the first rows: these are left out",
    )


def _numbered(
    engine: Engine, unpack: Unpack | None, *, rows: int, rejected: int, warnings: tuple[str, ...]
) -> Dispatches:
    keys = {row[0]: _key(row[1:], unpack) for row in engine.rows("select * from k")}
    agents = sorted({key.agent for key in keys.values()})
    at_agent = {name: at for at, name in enumerate(agents)}
    kernels = sorted({(at_agent[key.agent], key.name) for key in keys.values()})
    at_kernel = {kernel: at for at, kernel in enumerate(kernels)}
    launches: dict[tuple[int, tuple[int | None, ...]], int] = {}
    queues: dict[tuple[int, str], int] = {}
    written = engine.room / "ids.csv"
    with written.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for digest, key in keys.items():
            agent = at_agent[key.agent]
            kernel = at_kernel[agent, key.name]
            launch = launches.setdefault((kernel, key.launch), len(launches))
            writer.writerow((digest, agent, queues.setdefault((agent, key.queue), len(queues)), kernel, launch))
    columns = "{'h': 'UBIGINT', 'agent': 'INT', 'queue': 'INT', 'kernel': 'INT', 'launch': 'INT'}"
    engine.rows(
        f"create temp table ids as select * from read_csv('{engine.linked(written)}', header=false, "
        f"auto_detect=false, delim=',', compression='none', columns={columns})"
    )
    return Dispatches(
        engine=engine,
        agents=tuple(agents),
        kernels=tuple(kernels),
        launches=tuple(launches),
        queues=tuple(queues),
        rows=rows,
        rejected=rejected,
        warnings=warnings,
    )


def _key(told: Sequence[str | int | None], unpack: Unpack | None) -> Key:
    agent, queue, name = (str(text or "") for text in told[:3])
    if unpack is not None:
        return unpack(name)
    launch = [None if value is None or int(value) < 0 else int(value) for value in told[3:]]
    return Key(f"Agent {agent}" if agent.isdecimal() else agent, queue, name, tuple(launch))
