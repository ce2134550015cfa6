"""A table of dispatches inside duckdb: each row three numbers, names and launches once. Every source becomes it.

A trace of millions of rows repeats a few kernels. The table `d` holds of each dispatch a number that stands for its
kernel, launch and queue, its start and its end in nanoseconds; what the numbers stand for is told once.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

SQUARES = (
    "coalesce(sum(ns * ns) filter (ns < 2147483648), 0) + coalesce(sum(ns::hugeint * ns) filter (ns >= 2147483648), 0)"
)
"""Exact; 128-bit products only where 64 bits do not hold them."""
_TICKS = (10_000, 1000, 100, 40, 20, 10)
"""In nanoseconds; each is a multiple of the last."""
LAUNCH = ("wg_x", "wg_y", "wg_z", "grid_x", "grid_y", "grid_z", "vgpr", "accum", "sgpr", "lds", "scratch")
_IDS = "{'h': 'UBIGINT', 'number': 'INT'}"


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
    """How often one number stands in `d`, and how long its calls took; times in nanoseconds."""

    rows: int
    usable: int
    """Rows that end after they start; the rest are of these alone."""
    latest_start_ns: int | None
    total: int
    least: int
    most: int
    squares: int


@dataclass(frozen=True)
class Identity:
    """What one number in `d` stands for, each by its own number."""

    agent: int
    queue: int
    kernel: int
    launch: int


@dataclass(frozen=True)
class Dispatches:
    """What the table `d` (h, s, e) and its companion `ids` (h, number) now hold."""

    engine: Engine
    identities: tuple[Identity, ...]
    """By the number in `ids`."""
    counts: tuple[Counts, ...]
    """By the same number."""
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
    """Reading a profile: what `d` holds, by number: exact sums. `RecordingError` when no row is left to count."""
    counts = {
        h: Counts(rows, usable, latest_start, int(total or 0), least or 0, most or 0, int(squares))
        for h, rows, usable, latest_start, total, least, most, squares in engine.rows(
            "select h, count(*), count(ns), max(s) filter (ns is not null), sum(ns), min(ns), max(ns), "
            f"{SQUARES} from (select h, s, case when e > s then e - s end ns from d) group by h"
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
    """Reading a profile: numbers agents, kernels, launches and queues, and writes `ids`. `keys`: what each of `counts` stands for."""
    agents = sorted({keys[h].agent for h in counts})
    at_agent = {name: at for at, name in enumerate(agents)}
    kernels = sorted({(at_agent[keys[h].agent], keys[h].name) for h in counts})
    at_kernel = {kernel: at for at, kernel in enumerate(kernels)}
    launches: dict[tuple[int, tuple[int | None, ...]], int] = {}
    queues: dict[tuple[int, str], int] = {}
    identities = []
    for h in counts:
        agent = at_agent[keys[h].agent]
        kernel = at_kernel[agent, keys[h].name]
        launch = launches.setdefault((kernel, keys[h].launch), len(launches))
        queue = queues.setdefault((agent, keys[h].queue), len(queues))
        identities.append(Identity(agent, queue, kernel, launch))
    _write(engine, counts)
    total, usable = (sum(getattr(count, what) for count in counts.values()) for what in ("rows", "usable"))
    if usable < total:
        warnings = (*warnings, f"{total - usable} of {total} rows left out: they do not end after they start")
    return Dispatches(
        engine=engine,
        identities=tuple(identities),
        counts=tuple(counts.values()),
        agents=tuple(agents),
        kernels=tuple(kernels),
        launches=tuple(launches),
        queues=tuple(queues),
        latest_launch=dict(_last_launches(identities, counts.values())),
        rows=total,
        rejected=total - usable,
        warnings=warnings,
    )


def _write(engine: Engine, numbers: Iterable[int]) -> None:
    written = engine.room / "ids.csv"
    with written.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows((h, at) for at, h in enumerate(numbers))
    engine.rows(
        f"create temp table ids as select * from read_csv('{engine.link(written)}', header=false, "
        f"auto_detect=false, delim=',', compression='none', columns={_IDS})"
    )


def _last_launches(identities: Iterable[Identity], counts: Iterable[Counts]) -> Iterator[tuple[int, int]]:
    """Reading a profile: (kernel, launch) in the order of their latest starts: the last word is the latest."""
    timed = [
        (count.latest_start_ns, identity.kernel, identity.launch)
        for identity, count in zip(identities, counts, strict=True)
        if count.latest_start_ns is not None
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
        """Reading a profile: a reader of times as they are spelled, of a file of this layout."""
        return self._reader(self._engine.link(path), "VARCHAR")

    def identify(self, rows: str) -> Known:
        """Reading a profile: agents, queues, names and launches of `rows`, by the number that stands for them in `d`."""
        sql = f"select distinct hash({self.key}) h, {self.named_columns} from {rows}"
        return {row[0]: row[1:] for row in self._engine.rows(sql)}

    def as_text(self) -> None:
        """Reading a profile: from here on times are read as text, and only whole numbers among them count."""
        self.all = self.all.replace("'BIGINT'", "'VARCHAR'")


def _further(engine: Engine, source: Path, table: Columns) -> Known:
    """Reading a profile: what rows from all over the file tell: a kernel that begins late costs no second pass then."""
    some = engine.room / "some.csv"
    if spread(source, some):
        with suppress(RecordingError):  # a name with line ends may be cut by a block; the pass over all names damage
            return table.identify(table.text(some))
    return {}


def _spelling(engine: Engine, table: Columns) -> Sequence[str]:
    """Reading a profile: what is wrong with how the first rows spell times: exponents such as a spreadsheet's 1.62E+14."""
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
    """Reading a profile: writes the first line and whole lines of `PLACES` blocks to `target`; False where the file is short.

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
    """Reading a profile: what the engine must know of a spooled file."""
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
    """Reading a profile: what stands for a kernel whose symbol the source lost: its number."""
    return Symbol(f"kernel {kernel}", None, None, None)


def _integer(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


# How dispatches lie in time: span, time when any ran (overlap counts once), and gaps, in slices of bounded size.

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Rank = Callable[[Numbers], Numbers]
    """Which of so many sorted times is wanted, counted from 1."""

SLICE = 200_000
"""Rows held at once, about 50 bytes each while they are sorted."""
_COLUMNS = ("s", "e", "number")


@dataclass
class Busy:
    """One agent, or one queue of it, up to a point in time."""

    first_start_ns: int
    latest_end_ns: int
    busy: int = 0


@dataclass(frozen=True)
class Course:
    """What the slices add up to."""

    durations: "SortedRuns"
    gaps: "SortedRuns"
    """Gaps before calls, 0 where the queue was busy; a queue's first call has none before it."""
    agents: dict[int, Busy] = field(default_factory=dict)
    queues: dict[int, Busy] = field(default_factory=dict)


def course(dispatches: Dispatches) -> Course:
    """Reading a profile: span and busy time by agent and queue number, durations and gaps by the number in `ids`. All of it exact."""
    import numpy as np

    room, count = dispatches.engine.room, len(dispatches.identities)
    totals = Course(SortedRuns(room / "durations", count), SortedRuns(room / "gaps", count))
    queues = np.array([identity.queue for identity in dispatches.identities], np.int64)
    agents = np.array([agent for agent, _ in dispatches.queues], np.int64)
    shared = {int(number) for number in agents if _several(agents, number)}
    for rows in _ahead(_slices(dispatches)):
        s, e, numbers = (np.asarray(rows[name]) for name in _COLUMNS)
        if (s[1:] < s[:-1]).any():
            order = np.argsort(s, kind="stable")
            s, e, numbers = s[order], e[order], numbers[order]
        totals.durations.add(numbers, e - s)
        for queue, selector in _groups(queues[numbers]) if len(dispatches.queues) > 1 else [(0, slice(None))]:
            later = slice(0 if queue in totals.queues else 1, None)
            gap = s[selector] - _advance(totals.queues, queue, s[selector], e[selector])
            totals.gaps.add(numbers[selector][later], np.maximum(gap, 0)[later])
        for agent, selector in _groups(agents[queues[numbers]]) if shared else ():
            if agent in shared:
                _advance(totals.agents, agent, s[selector], e[selector])
    totals.agents.update({int(agents[at]): busy for at, busy in totals.queues.items() if int(agents[at]) not in shared})
    return totals


def _several(agents: "Numbers", agent: int) -> bool:
    """Reading a profile: whether an agent has several queues; where it has one, what is true of the queue is true of the agent."""
    return int((agents == agent).sum()) > 1


def _ahead(slices: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Reading a profile: the same slices, each fetched while the one before it is summed."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, slices, None)
        while (rows := coming.result()) is not None:
            coming = pool.submit(next, slices, None)
            yield rows


def _groups(numbers: "Numbers") -> Iterator[tuple[int, Any]]:
    """Reading a profile: each number that occurs, with what selects its rows."""
    import numpy as np

    distinct = np.flatnonzero(np.bincount(numbers))
    for number in distinct:
        yield int(number), slice(None) if len(distinct) == 1 else numbers == number


def _slices(dispatches: Dispatches) -> Iterator[Mapping[str, Any]]:
    """Reading a profile: all usable rows in slices by start time, of about SLICE rows each."""
    engine = dispatches.engine
    sql = f"select {', '.join(_COLUMNS)} from d join ids using (h) where e > s"
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
    """Reading a profile: adds rows, sorted by start, to one agent or queue; returns until when it was busy before each row."""
    import numpy as np

    state = states.setdefault(number, Busy(first_start_ns=int(s[0]), latest_end_ns=int(s[0])))
    until = np.empty(len(e) + 1, np.int64)
    until[0], until[1:] = state.latest_end_ns, e
    np.maximum.accumulate(until, out=until)
    state.busy += int(np.maximum(e - np.maximum(s, until[:-1]), 0).sum())
    state.latest_end_ns = int(until[-1])
    return until[:-1]


class SortedRuns:
    """Times of millions of calls in a file, a sorted run for each slice: any rank is found exactly, in little memory.

    A time stands behind its number in 63 bits; one that does not fit there, 200 days beside 300 numbers, counts as the
    longest that does.
    """

    def __init__(self, file: Path, count: int) -> None:
        import numpy as np

        self._file, self._shift, self._sizes = file, 63 - count.bit_length(), list[int]()
        self._most = 0
        self.counts: Numbers = np.zeros(count, np.int64)
        """Times by number."""

    def add(self, numbers: "Numbers", times_ns: "Numbers") -> None:
        """Reading a profile: writes one run: `times_ns`, 0 or more, of the calls that `numbers` names."""
        import numpy as np

        if not len(numbers):
            return
        times = np.minimum(times_ns, (1 << self._shift) - 1)
        self._most = max(self._most, int(times.max()))
        self._sizes.append(len(times))
        self.counts += np.bincount(numbers, minlength=len(self.counts))
        with self._file.open("ab") as stream:
            np.sort((numbers.astype(np.int64) << self._shift) | times).tofile(stream)

    def find_ranks(self, groups: Sequence[tuple[int, ...]], ranks: Sequence["Rank"]) -> "Numbers":
        """Reading a profile: the times in ns at `ranks` of each group of numbers, together: a row for each group, none of them empty."""
        import numpy as np

        if not groups:
            return np.empty((0, len(ranks)), np.int64)
        starts = np.cumsum([0, *(len(group) for group in groups[:-1])])
        members = np.concatenate([np.array(group, np.int64) for group in groups])
        owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        before = (np.cumsum(self.counts) - self.counts)[members]
        calls = np.add.reduceat(self.counts[members], starts)
        places = np.stack([rank(calls) for rank in ranks])
        low, high = np.zeros_like(places), np.full_like(places, self._most)
        while (low < high).any():
            middle = (low + high) // 2
            codes = (members << self._shift) | middle[:, owners]
            reached = sum(np.searchsorted(run, codes, side="right") for run in self._runs()) - before
            enough = np.add.reduceat(reached, starts, axis=1) >= places
            low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
        return low.T

    def _runs(self) -> Iterator["Numbers"]:
        """Reading a profile: the runs one after the other: only one is held in memory."""
        import numpy as np

        with self._file.open("rb") as stream:
            for size in self._sizes:
                yield np.fromfile(stream, np.int64, size)


# Kernels of a recording, from the table of its dispatches: exact sums and medians, launches, shares, gaps.

VARIANTS = 16
_ALIKE = 0.85
"""Share of durations that are multiples (within 1 ns of rounding) before a tick counts as the clock's."""
_MANY, _KINDS = 20, 10
"""Least durations, and least kinds of them, that can show a tick."""


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
        """Reading a profile: sample standard deviation, as the tool's own statistics have it; 0 for one call."""
        if self.calls < 2:
            return 0.0
        return sqrt(max(0.0, (self.squares - self.total**2 / self.calls) / (self.calls - 1)))


def recordings(dispatches: Dispatches, *, form: str, files: tuple[str, ...], static_lds: bool) -> tuple[Recording, ...]:
    """One recording for each GPU, most time first. `static_lds`: the source tells only the static part of LDS."""
    totals = course(dispatches)
    kernels, launches = (_members(dispatches, by) for by in ("kernel", "launch"))
    sums = _sums(dispatches, totals.durations, tuple(dict.fromkeys((*kernels.values(), *launches.values()))))
    builder = _RecordingBuilder(
        dispatches,
        {number: sums[members] for number, members in kernels.items()},
        {number: sums[members] for number, members in launches.items()},
        totals,
        _median_gaps(totals.gaps, kernels),
        static_lds,
    )
    ticks = _tick(dispatches)
    by_gpu = [builder.agent(agent, form=form, files=files, ticks=ticks) for agent in totals.agents]
    return tuple(sorted(by_gpu, key=lambda recording: -(recording.sum_ns or 0)))


def _members(dispatches: Dispatches, by: str) -> Mapping[int, tuple[int, ...]]:
    """Reading a profile: the numbers in `ids` of each kernel or launch that has a usable call."""
    members: dict[int, list[int]] = {}
    for at, (identity, count) in enumerate(zip(dispatches.identities, dispatches.counts, strict=True)):
        if count.usable:
            members.setdefault(getattr(identity, by), []).append(at)
    return {number: tuple(several) for number, several in members.items()}


_LOW, _HIGH = (lambda calls: (calls + 1) // 2, lambda calls: calls // 2 + 1)
"""Which of so many sorted times, counted from 1, are the middle: the median is the mean of both."""
_P20, _P80 = (lambda calls: (calls + 4) // 5, lambda calls: (4 * calls + 4) // 5)


def _sums(
    dispatches: Dispatches, durations: SortedRuns, groups: Sequence[tuple[int, ...]]
) -> Mapping[tuple[int, ...], Sums]:
    """Reading a profile: sums of each group of numbers."""
    ranks = durations.find_ranks(groups, (_P20, _LOW, _HIGH, _P80)).tolist()
    sums = {}
    for members, (p20, low, high, p80) in zip(groups, ranks, strict=True):
        counts = [dispatches.counts[at] for at in members]
        sums[members] = Sums(
            calls=sum(count.usable for count in counts),
            total=sum(count.total for count in counts),
            least=min(count.least for count in counts),
            most=max(count.most for count in counts),
            median=(low + high) / 2,
            squares=sum(count.squares for count in counts),
            p20=p20,
            p80=p80,
        )
    return sums


def _median_gaps(gaps: SortedRuns, kernels: Mapping[int, tuple[int, ...]]) -> Mapping[int, float]:
    """Reading a profile: median gap in ns of each kernel that had a call before it on its queue."""
    later = {number: members for number, members in kernels.items() if gaps.counts[list(members)].any()}
    ranks = gaps.find_ranks(tuple(later.values()), (_LOW, _HIGH)).tolist()
    return {number: (low + high) / 2 for number, (low, high) in zip(later, ranks, strict=True)}


def _tick(dispatches: Dispatches) -> tuple[Named, ...]:
    """Reading a profile: the step in which the clock counts, where the durations show one."""
    engine, usable = dispatches.engine, "from d where e > s"
    alike = [f"count(*) filter ((e - s + 1) % {tick} <= 2)" for tick in _TICKS]
    # every tick is a multiple of the finest: durations that are none of that are none of the others
    ((total, finest),) = engine.rows(f"select count(*), {alike[-1]} {usable}")
    if total < _MANY or finest < _ALIKE * total:
        return ()
    ends = {ns for count in dispatches.counts if count.usable for ns in (count.least, count.most)}
    if len(ends) < _KINDS and engine.rows(f"select count(distinct e - s) {usable}")[0][0] < _KINDS:
        return ()
    ((*counts,),) = engine.rows(f"select {', '.join(alike)} {usable}")
    tick = next(tick for tick, many in zip(_TICKS, counts, strict=True) if many >= _ALIKE * total)
    return (Named(name="resolution_ns", value=tick),)


@dataclass(frozen=True)
class _RecordingBuilder:
    dispatches: Dispatches
    names: Mapping[int, Sums]
    launches: Mapping[int, Sums]
    course: Course
    gaps: Mapping[int, float]
    """Median gap before a kernel in ns."""
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
            gap_before_ns=self.gaps.get(at),
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
