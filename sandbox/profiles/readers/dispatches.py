"""A table of dispatches inside duckdb: each row three numbers, names and launches once. Every source becomes it.

A trace of millions of rows repeats a few kernels. The table `d` holds of each dispatch a number that stands for its
kernel, launch and queue, its start and its end in nanoseconds; what the numbers stand for is told once.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.graph.kernel_profile import Axes, KernelCalls, LaunchShape, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers.engine import Engine
from ridgeline.sandbox.profiles.readers.files import Head, RecordingError, is_ended
from ridgeline.sandbox.profiles.readers.names import category, display

BUCKET = "(50 * ln(ns))::integer"
"""Number of the bucket of a duration: bounded in number where durations differ in single nanoseconds."""
SQUARES = (
    "coalesce(sum(ns * ns) filter (ns < 2147483648), 0) + coalesce(sum(ns::hugeint * ns) filter (ns >= 2147483648), 0)"
)
"""Exact; 128-bit products only where 64 bits do not hold them."""
_TICKS = (10_000, 1000, 100, 40, 20, 10)
"""In nanoseconds; each is a multiple of the last."""
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
    latest_start_ns: int | None
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
    latest_launch: Mapping[int, int]
    """Kernel -> launch of its latest dispatch."""
    rows: int
    rejected: int
    warnings: tuple[str, ...]


def count_dispatches(engine: Engine) -> Mapping[int, Counts]:
    """What `d` holds, by number. `RecordingError` when no row is left to count.

    Leaves `buckets` (h, b, n, total, least, most, squares, latest): durations in steps of two per cent, with exact
    sums. b: null where a dispatch does not end after it starts.
    """
    engine.rows(
        f"create temp table buckets as select h, {BUCKET} b, count(*) n, sum(ns) total, min(ns) least, max(ns) most, "
        f"{SQUARES} squares, max(s) latest "
        "from (select h, s, case when e > s then e - s end ns from d) group by all"
    )
    counts = {
        h: Counts(int(rows), int(usable or 0), latest_start)
        for h, rows, usable, latest_start in engine.rows(
            "select h, sum(n), sum(n) filter (b is not null), max(latest) filter (b is not null) "
            "from buckets group by h"
        )
    }
    if not counts:
        raise RecordingError(
            engine.path, "has a header and no rows: 0 kernels were dispatched while it recorded", line=1
        )
    if not any(count.usable for count in counts.values()):
        total = sum(count.rows for count in counts.values())
        raise RecordingError(
            engine.path, f"none of its {total} rows ends after it starts: the times are damaged", line=2
        )
    return counts


def number_keys(
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
    total, usable = (sum(getattr(count, what) for count in counts.values()) for what in ("rows", "usable"))
    if usable < total:
        warnings = (*warnings, f"{total - usable} of {total} rows left out: they do not end after they start")
    return Dispatches(
        engine=engine,
        agents=tuple(agents),
        kernels=tuple(kernels),
        launches=tuple(launches),
        queues=tuple(queues),
        latest_launch=dict(_last_launches(rows, counts)),
        rows=total,
        rejected=total - usable,
        warnings=warnings,
    )


def _write(engine: Engine, rows: list[tuple[int, int, int, int, int]]) -> None:
    written = engine.room / "ids.csv"
    with written.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    engine.rows(
        f"create temp table ids as select * from read_csv('{engine.link(written)}', header=false, "
        f"auto_detect=false, delim=',', compression='none', columns={_IDS})"
    )


def _last_launches(
    rows: list[tuple[int, int, int, int, int]], counts: Mapping[int, Counts]
) -> Iterator[tuple[int, int]]:
    """(kernel, launch) in the order of their latest starts: the last word is the latest."""
    timed = [
        (latest_start, kernel, launch)
        for h, _, _, kernel, launch in rows
        if (latest_start := counts[h].latest_start_ns) is not None
    ]
    for _, kernel, launch in sorted(timed):
        yield kernel, launch


# Dispatches of a CSV file in one pass; a second tells names and launches that the first rows do not hold.

WHO = ("agent", "queue", "name")
FIRST = 20_000
"""Rows whose names and launches are looked at first, and whose spelling of numbers is checked."""

Unpack = Callable[[str], Key]
Known = dict[int, Sequence[Any]]
"""Agent, queue, name and launch, as a file has them, by the number that stands for them."""


def load(engine: Engine, source: Path, head: Head, unpack: Unpack | None = None) -> Dispatches:
    """Reads `source`, a CSV with one row per dispatch. `unpack` tells what a name stands for where it is packed.

    Raises `RecordingError` naming the line where a row is damaged, and when no row is left to count.
    """
    table = Columns(engine, source, head)
    warnings = [*_spelling(engine, table)]
    identities = table.identify(table.head_rows)
    if not head.packed:
        identities |= _further(engine, source, table)
    times = table.checked if warnings else table.plain
    engine.rows(f"create temp table d as select hash({table.key}) h, {times} from {table.all}")
    counts = count_dispatches(engine)
    if counts.keys() - identities.keys():
        listed = ", ".join(map(str, identities))
        identities |= table.identify(f"{table.all} where h not in ({listed})")
    if not is_ended(source):
        warnings.append("the last line has no line end: the file may be cut")
    keys = {h: _key(identities[h], unpack) for h in counts}
    return number_keys(engine, keys, counts, tuple(warnings))


class Columns:
    """The SQL words for one file: where its rows are, and what stands for each of our columns."""

    def __init__(self, engine: Engine, source: Path, head: Head) -> None:
        self._engine, self._head = engine, head
        self.all = self._reader(engine.link(source), "BIGINT")
        self.head_rows = f"(from {self.text(source)} limit {FIRST})"
        present = [column for column in (*WHO, *LAUNCH) if head.place(column) is not None]
        self.key = ", ".join(self._at(column) for column in present)
        self.named_columns = ", ".join(
            f"{self._at(column) if column in present else 'NULL'} as {column}" for column in (*WHO, *LAUNCH)
        )
        self.start, self.end = self._at("start"), self._at("end")
        self.plain = f"{self.start} as s, {self.end} as e"
        integer = "try_cast(case when {0} similar to '[0-9]+' then {0} end as bigint)"
        self.checked = f"{integer.format(self.start)} as s, {integer.format(self.end)} as e"

    def _at(self, column: str) -> str:
        return f"c{self._head.place(column)}"

    def _reader(self, link: str, times: str) -> str:
        kinds = dict.fromkeys((self._head.place(column) for column in LAUNCH), "BIGINT")
        kinds |= {self._head.place("start"): times, self._head.place("end"): times}
        types = ", ".join(f"'c{at}': '{kinds.get(at, 'VARCHAR')}'" for at in range(len(self._head.names)))
        packed = "gzip" if self._head.packed else "none"
        return (
            f"read_csv('{link}', header=true, auto_detect=false, delim='{self._head.delimiter}', quote='\"', "
            f"escape='\"', compression='{packed}', columns={{{types}}})"
        )

    def text(self, path: Path) -> str:
        """A reader of times as they are spelled, of a file of this layout."""
        return self._reader(self._engine.link(path), "VARCHAR")

    def identify(self, rows: str) -> Known:
        """Agents, queues, names and launches of `rows`, by the number that stands for them in `d`."""
        sql = f"select distinct hash({self.key}) h, {self.named_columns} from {rows}"
        return {row[0]: row[1:] for row in self._engine.rows(sql)}

    def as_text(self) -> None:
        """From here on times are read as text, and only whole numbers among them count."""
        self.all = self.all.replace("'BIGINT'", "'VARCHAR'")


def _further(engine: Engine, source: Path, table: Columns) -> Known:
    """What rows from all over the file tell: a kernel that begins late costs no second pass then."""
    some = engine.room / "some.csv"
    if spread(source, some):
        with suppress(RecordingError):  # a name with line ends may be cut by a block; the pass over all names damage
            return table.identify(table.text(some))
    return {}


def _spelling(engine: Engine, table: Columns) -> Sequence[str]:
    """What is wrong with how the first rows spell times: exponents such as a spreadsheet's 1.62E+14."""
    exponents = f"count(*) filter ({table.start} ilike '%e+%' or {table.end} ilike '%e+%')"
    odd = f"min({table.start}) filter (not (trim({table.start}) similar to '[0-9]*'))"
    ((wrong, start),) = engine.rows(f"select {exponents}, {odd} from {table.head_rows}")
    if wrong:
        table.as_text()
        where = f"in {wrong} of the first rows"
        return (f"times in exponent notation, as a spreadsheet saves them, {where}: these are left out",)
    if start is not None:
        raise RecordingError(
            engine.path,
            f"a start time is written {start[:40]!r}, not in whole nanoseconds: take the file as recorded",
        )
    return ()


def _key(row: Sequence[str | int | None], unpack: Unpack | None) -> Key:
    agent, queue, name = (str(text or "") for text in row[:3])
    if unpack is not None:
        return unpack(name)
    launch = [None if value is None or int(value) < 0 else int(value) for value in row[3:]]
    return Key(f"Agent {agent}" if agent.isdecimal() else agent, queue, name, tuple(launch))


# Lines from all over a long text file, so that what begins late in it is known before the file is read.

BLOCK = 1 << 16
PLACES = 100
"""Blocks that are looked at, at equal distances up to the end: 6.5 MB, read and parsed in some 50 ms."""


def spread(source: Path, target: Path) -> bool:
    """Writes the first line and whole lines of `PLACES` blocks to `target`; False where the file is short.

    A quoted value may hold a line end: then a block can begin inside a value, and what is written may not parse.
    """
    size = source.stat().st_size
    if size < 4 * BLOCK * PLACES:
        return False
    with source.open("rb") as lines, target.open("wb") as sample:
        sample.write(lines.readline())
        for place in range(1, PLACES + 1):
            lines.seek((size - BLOCK) * place // PLACES)
            block = lines.read(BLOCK)
            begin, end = block.find(b"\n"), block.rfind(b"\n")
            sample.write(block[begin + 1 : end + 1])
    return True


# Columns of the CSV into which databases and JSON are copied, so that one engine sums all sources alike.

DISPATCH = ("Kernel_Name", "Start_Timestamp", "End_Timestamp")
"""Of a dispatch; the name is everything else of it, packed."""
PACKED = ("kernel", "agent", "queue", "lds", "scratch", "wg_x", "wg_y", "wg_z", "grid_x", "grid_y", "grid_z")
"""What a packed dispatch holds, with blanks between: numbers, or names without blanks."""
COUNTER = ("Agent_Id", "Kernel_Name", "Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp", "Grid_Size")
"""Of one counter of one dispatch, summed over hardware instances."""


def head(columns: tuple[str, ...]) -> Head:
    """What the engine must know of a spooled file."""
    return Head(columns, ",", packed=False)


def unpack_key(text: str, symbols: Mapping[str, Symbol], run: str = "") -> Key:
    """The kernel, queue and launch of a packed dispatch; registers are the symbol's. `run`: before all ids."""
    fields = dict(zip(PACKED, text.split(" "), strict=True))
    kernel, agent = (f"{run}:{fields[name]}" if run else fields[name] for name in ("kernel", "agent"))
    symbol = symbols.get(kernel) or unknown(kernel)
    registers = {"vgpr": symbol.vgpr, "accum": symbol.accum, "sgpr": symbol.sgpr}
    launch = tuple(registers[name] if name in registers else _integer(fields[name]) for name in LAUNCH)
    return Key(agent, fields["queue"], symbol.name, launch)


def unknown(kernel: str) -> Symbol:
    """What stands for a kernel whose symbol the source lost: its number."""
    return Symbol(f"kernel {kernel}", None, None, None)


def _integer(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


# How dispatches lie in time: span, time when any ran (overlap counts once), and gaps, in slices of bounded size.

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

SLICE = 400_000
"""Rows held at once, about 50 bytes each while they are sorted."""
_COLUMNS = ("s", "e", "kernel")
_CUT = 12
"""Bits cut from the 23 of a gap's mantissa: exact below 4096 ns, within 0.03 per cent above, and bounded in number."""
_ROOM = 20
"""Bits that are left of a gap, beside its kernel's number."""


@dataclass
class Busy:
    """One agent, or one queue of it, up to a point in time."""

    first_start_ns: int
    latest_end_ns: int
    busy: int = 0


@dataclass
class Course:
    """What the slices add up to."""

    agents: dict[int, Busy] = field(default_factory=dict)
    queues: dict[int, Busy] = field(default_factory=dict)
    gaps: dict[int, float] = field(default_factory=dict)
    """Median gap before a kernel in nanoseconds, 0 where the queue was busy; a queue's first call has none before it."""


def course(dispatches: Dispatches) -> Course:
    """Span, busy time and gaps by agent and kernel number. Exact but for the gaps (0.03 per cent)."""
    import numpy as np

    totals, gaps = Course(), _Gaps()
    agents = np.array([agent for agent, _ in dispatches.queues], np.int64)
    shared = {int(number) for number in agents if _several(agents, number)}
    for rows in _ahead(_slices(dispatches)):
        columns = [np.asarray(rows[name]) for name in (*_COLUMNS, "queue") if name in rows]
        if (columns[0][1:] < columns[0][:-1]).any():
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        s, e, kernel, *queues = columns
        for number, selector in _groups(queues[0]) if queues else [(0, slice(None))]:
            later = slice(0 if number in totals.queues else 1, None)
            gap = s[selector] - _advance(totals.queues, number, s[selector], e[selector])
            gaps.add(kernel[selector][later], gap[later])
        for number, selector in _groups(agents[queues[0]]) if shared else ():
            if number in shared:
                _advance(totals.agents, number, s[selector], e[selector])
    totals.agents.update({int(agents[at]): busy for at, busy in totals.queues.items() if int(agents[at]) not in shared})
    totals.gaps.update(gaps.medians())
    return totals


def _several(agents: "Numbers", agent: int) -> bool:
    """Whether an agent has several queues; where it has one, what is true of the queue is true of the agent."""
    return int((agents == agent).sum()) > 1


def _ahead(slices: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The same slices, each fetched while the one before it is summed."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, slices, None)
        while (rows := coming.result()) is not None:
            coming = pool.submit(next, slices, None)
            yield rows


def _groups(numbers: "Numbers") -> Iterator[tuple[int, Any]]:
    """Each number that occurs, with what selects its rows."""
    import numpy as np

    distinct = np.flatnonzero(np.bincount(numbers))
    for number in distinct:
        yield int(number), slice(None) if len(distinct) == 1 else numbers == number


def _slices(dispatches: Dispatches) -> Iterator[Mapping[str, Any]]:
    """All usable rows in slices by start time, of about SLICE rows each."""
    engine = dispatches.engine
    columns = _COLUMNS if len(dispatches.queues) == 1 else (*_COLUMNS, "queue")
    sql = f"select {', '.join(columns)} from d join ids using (h) where e > s"
    if dispatches.rows <= SLICE:
        yield engine.columns(sql)
        return
    step = max(1, dispatches.rows // 20_000)
    starts = [row[0] for row in engine.rows(f"select s from d where e > s and rowid % {step} = 0 order by s")]
    edges = starts[:: max(1, len(starts) * SLICE // dispatches.rows)]
    bounds: Sequence[int] = sorted({*edges[1:]})
    least, most = -(1 << 62), 1 << 62
    for low, high in zip((least, *bounds), (*bounds, most), strict=True):
        part = engine.columns(f"{sql} and s >= {low} and s < {high}")
        if len(part["s"]):
            yield part


def _advance(states: dict[int, Busy], number: int, s: "Numbers", e: "Numbers") -> "Numbers":
    """Adds rows, sorted by start, to one agent or queue; returns until when it was busy before each row."""
    import numpy as np

    state = states.setdefault(number, Busy(first_start_ns=int(s[0]), latest_end_ns=int(s[0])))
    until = np.empty(len(e) + 1, np.int64)
    until[0], until[1:] = state.latest_end_ns, e
    np.maximum.accumulate(until, out=until)
    state.busy += int(np.maximum(e - np.maximum(s, until[:-1]), 0).sum())
    state.latest_end_ns = int(until[-1])
    return until[:-1]


class _Gaps:
    """How often each gap came before each kernel, to 12 binary digits."""

    def __init__(self) -> None:
        import numpy as np

        self._codes = np.empty(0, np.int64)
        self._times = np.empty(0, np.int64)

    def add(self, kernel: "Numbers", gap: "Numbers") -> None:
        import numpy as np

        bits = np.maximum(gap, 0).astype(np.float32).view(np.int32) >> _CUT
        codes, times = _count(np.sort((kernel.astype(np.int64) << _ROOM) + bits))
        codes, times = np.concatenate((self._codes, codes)), np.concatenate((self._times, times))
        order = np.argsort(codes, kind="stable")
        self._codes, self._times = _count(codes[order], times[order])

    def medians(self) -> Iterator[tuple[int, float]]:
        """(kernel, median gap in ns) of each kernel that had a call before it on its queue."""
        import numpy as np

        kernels = self._codes >> _ROOM
        for kernel in np.unique(kernels):
            selector = kernels == kernel
            gaps = (self._codes[selector] & ((1 << _ROOM) - 1)).astype(np.int32)
            low, middle = ((gaps << _CUT) + half for half in (0, 1 << (_CUT - 1)))
            exact, center = low.view(np.float32), middle.view(np.float32)
            sums = np.cumsum(self._times[selector])
            places = [int(np.searchsorted(sums, at)) for at in ((sums[-1] + 1) // 2, sums[-1] // 2 + 1)]
            yield int(kernel), sum(float(exact[at] if exact[at] < 4096 else center[at]) for at in places) / 2


def _count(ordered: "Numbers", times: "Numbers | None" = None) -> tuple["Numbers", "Numbers"]:
    """Distinct values of a sorted array, and how often each came (`times`: how often each element counts)."""
    import numpy as np

    if not len(ordered):
        return ordered, np.empty(0, np.int64)
    starts = np.concatenate((np.array([0]), np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
    if times is None:
        return ordered[starts], np.diff(np.append(starts, len(ordered)))
    return ordered[starts], np.add.reduceat(times, starts)


# Kernels of a recording, from the table of its dispatches: exact sums and medians, launches, shares, gaps.

VARIANTS = 16
_ALIKE = 0.85
"""Share of durations that are multiples (within 1 ns of rounding) before a tick counts as the clock's."""
_MANY = 20
_USABLE = "from d where e > s"


@dataclass(frozen=True)
class Sums:
    """Durations of one group of dispatches, in nanoseconds."""

    calls: int
    total: int
    least: int
    most: int
    median: float
    squares: int
    p20: float
    """Nearest rank: a fifth of the calls took at most so long."""
    p80: float

    @property
    def deviation(self) -> float:
        """Sample standard deviation, as the tool's own statistics have it; 0 for one call."""
        if self.calls < 2:
            return 0.0
        return sqrt(max(0.0, (self.squares - self.total**2 / self.calls) / (self.calls - 1)))


def recordings(dispatches: Dispatches, *, form: str, files: tuple[str, ...], static_lds: bool) -> tuple[Recording, ...]:
    """One recording for each GPU, most time first. `static_lds`: the source tells only the static part of LDS."""
    _find_ranks(dispatches.engine)
    names, launches = _sums(dispatches, "kernel"), _sums(dispatches, "launch")
    builder = _RecordingBuilder(dispatches, names, launches, course(dispatches), static_lds)
    ticks = _tick(dispatches.engine)
    by_gpu = [builder.agent(agent, form=form, files=files, ticks=ticks) for agent in builder.course.agents]
    return tuple(sorted(by_gpu, key=lambda recording: -(recording.sum_ns or 0)))


RANKS = {"p20": "(n + 4) // 5", "low": "(n + 1) // 2", "high": "n // 2 + 1", "p80": "(4 * n + 4) // 5"}
"""Which of `n` sorted durations is wanted, counted from 1; the median is the mean of two."""


def _find_ranks(engine: Engine) -> None:
    """Writes `ranks` (which, id, rank, ns): the durations that are wanted, as exact as they were recorded.

    Buckets tell in which of them a rank lies; only rows of those are looked at one by one.
    """
    wanted = " union all ".join(f"select *, '{name}' rank, {place} place from groups" for name, place in RANKS.items())
    engine.rows(
        "create temp table places as with counted as ("
        "select 'kernel' as which, kernel id, b, sum(n) n from buckets join ids using (h) where b is not null group by all"
        " union all "
        "select 'launch', launch, b, sum(n) from buckets join ids using (h) where b is not null group by all), "
        "ends as (select *, sum(n) over (partition by which, id order by b) cum from counted), "
        "groups as (select which, id, sum(n)::bigint n from counted group by all), "
        f"wanted as ({wanted}) "
        "select wanted.which, wanted.id, rank, b, place - (cum - ends.n) as place from wanted join ends "
        "on wanted.which = ends.which and wanted.id = ends.id and place <= cum and place > cum - ends.n"
    )
    engine.rows(
        "create temp table fine as select h, b, ns, count(*) n from "
        f"(select h, e - s as ns, {BUCKET} b from d where e > s) semi join (select distinct h, b from places join ids "
        "on (which = 'kernel' and places.id = ids.kernel) or (which = 'launch' and places.id = ids.launch)) "
        "using (h, b) group by all"
    )
    engine.rows(
        "create temp table ranks as with measured as ("
        "select 'kernel' as which, kernel id, b, ns, sum(n) n from fine join ids using (h) group by all union all "
        "select 'launch', launch, b, ns, sum(n) from fine join ids using (h) group by all), "
        "ends as (select *, sum(n) over (partition by which, id, b order by ns) cum from measured) "
        "select which, id, rank, min(ns) ns from places join ends using (which, id, b) where cum >= place group by all"
    )


def _sums(dispatches: Dispatches, by: str) -> Mapping[int, Sums]:
    """Sums by the number of a kernel or a launch."""
    chosen = ", ".join(f"min(ns) filter (rank = '{name}')" for name in RANKS)
    rows = dispatches.engine.rows(
        f"with sums as (select {by} id, sum(n) calls, sum(total) total, min(least) least, max(most) most, "
        "sum(squares) squares from buckets join ids using (h) where b is not null group by 1), "
        f"chosen as (select id, {chosen} from ranks where which = '{by}' group by 1) "
        "select * from sums join chosen using (id)"
    )
    return {
        number: Sums(int(calls), int(total), least, most, (low + high) / 2, int(squares), p20, p80)
        for number, calls, total, least, most, squares, p20, low, high, p80 in rows
    }


def _tick(engine: Engine) -> tuple[Named, ...]:
    """The step in which the clock counts, where the durations show one."""
    alike = ", ".join(f"count(*) filter ((e - s + 1) % {tick} <= 2)" for tick in _TICKS)
    # every tick is a multiple of the finest: where durations are none of that, they are none of the others
    ((total, finest),) = engine.rows(f"select count(*), count(*) filter ((e - s + 1) % {_TICKS[-1]} <= 2) {_USABLE}")
    if total < _MANY or finest < _ALIKE * total or not _many_kinds(engine):
        return ()
    ((*counts,),) = engine.rows(f"select {alike} {_USABLE}")
    tick = next(tick for tick, many in zip(_TICKS, counts, strict=True) if many >= _ALIKE * total)
    return (Named(name="resolution_ns", value=tick),)


def _many_kinds(engine: Engine) -> bool:
    """Whether the durations are at least of ten kinds; all of them are counted where the ends of buckets are fewer."""
    ends = "select least from buckets where b is not null union select most from buckets where b is not null"
    return any(
        engine.rows(f"select count(*) from ({kinds})")[0][0] >= _MANY // 2
        for kinds in (ends, f"select distinct e - s {_USABLE}")
    )


@dataclass(frozen=True)
class _RecordingBuilder:
    dispatches: Dispatches
    names: Mapping[int, Sums]
    launches: Mapping[int, Sums]
    course: Course
    static_lds: bool

    def agent(self, agent: int, *, form: str, files: tuple[str, ...], ticks: tuple[Named, ...]) -> Recording:
        busy = self.course.agents[agent]
        kernel_numbers = [
            at for at, (owner, _) in enumerate(self.dispatches.kernels) if owner == agent and at in self.names
        ]
        total, span = sum(self.names[at].total for at in kernel_numbers), busy.latest_end_ns - busy.first_start_ns
        kernels = sorted(
            (self._kernel(at, total, span) for at in kernel_numbers),
            key=lambda calls: (-(calls.total_ns or 0), calls.name),
        )
        return Recording(
            format=form,
            tool="rocprofv3",
            vendor="amd",
            device=self.dispatches.agents[agent] or None,
            grade="trace",
            kernels=tuple(kernels),
            facts=ticks,
            rows=sum(self.names[at].calls for at in kernel_numbers),
            rejected=self.dispatches.rejected,
            span_ns=span,
            busy_ns=busy.busy,
            sum_ns=total,
            files=files,
            warnings=(*self.dispatches.warnings, *self._several()),
        )

    def _several(self) -> Iterator[str]:
        if len(self.course.agents) > 1:
            yield f"{len(self.course.agents)} GPUs in one file: each is a recording of its own"

    def _kernel(self, at: int, total: int, span: int) -> KernelCalls:
        sums, name = self.names[at], self.dispatches.kernels[at][1]
        kinds = [
            launch
            for launch, (kernel, _) in enumerate(self.dispatches.launches)
            if kernel == at and launch in self.launches
        ]
        kinds.sort(key=lambda launch: -self.launches[launch].total)
        return KernelCalls(
            name=name,
            display=display(name),
            category=category(name),
            calls=sums.calls,
            total_ns=sums.total,
            mean_ns=sums.total / sums.calls,
            median_ns=sums.median,
            p20_ns=sums.p20,
            p80_ns=sums.p80,
            min_ns=sums.least,
            max_ns=sums.most,
            stdev_ns=sums.deviation,
            share=sums.total / total,
            share_of_span=sums.total / span,
            gap_before_ns=self.course.gaps.get(at),
            last=self._build_launch(self.dispatches.latest_launch[at]),
            variants=tuple(self._build_launch(launch) for launch in kinds[:VARIANTS]),
        )

    def _build_launch(self, at: int) -> LaunchShape:
        launch, sums = self.dispatches.launches[at][1], self.launches[at]
        return build_launch(launch, calls=sums.calls, total=sums.total, median=sums.median, static_lds=self.static_lds)


def build_launch(
    launch: Sequence[int | None], *, calls: int, total: float | None, median: float | None, static_lds: bool
) -> LaunchShape:
    """One launch from its numbers in the order of `dispatches.LAUNCH`."""
    workgroup, grid = _axes(launch[0:3]), _axes(launch[3:6])
    vgpr, accum, sgpr, lds, scratch = launch[6:11]
    return LaunchShape(
        calls=calls,
        grid=grid,
        workgroup=workgroup,
        blocks=_blocks(grid, workgroup),
        arch_vgpr=vgpr,
        accum_vgpr=accum,
        sgpr=sgpr,
        lds_bytes=lds,
        lds_static_only=static_lds and lds is not None,
        scratch_bytes=scratch,
        median_ns=median,
        total_ns=total,
    )


def _axes(sizes: Sequence[int | None]) -> Axes | None:
    x, y, z = sizes
    return None if x is None or y is None or z is None or min(x, y, z) < 1 else (x, y, z)


def _blocks(grid: Axes | None, workgroup: Axes | None) -> Axes | None:
    if grid is None or workgroup is None:
        return None
    x, y, z = (-(-items // width) for items, width in zip(grid, workgroup, strict=True))
    return (x, y, z)
