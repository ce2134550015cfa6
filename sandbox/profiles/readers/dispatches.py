"""Dispatches of one recording: each row three numbers on disk, names and launches once. Every source becomes them.

A trace of millions of rows repeats a few kernels. A row holds a number that stands for its kernel, launch and queue,
its start and its end in nanoseconds; what the numbers stand for is held once.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isqrt, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ridgeline.graph.kernel_profile import Axes, KernelCalls, LaunchShape, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers.files import Head, RecordingError, is_ended
from ridgeline.sandbox.profiles.readers.names import category, display

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ridgeline.sandbox.profiles.readers.csv_blocks import Block

    Numbers = NDArray[np.int64]
    Rank = Callable[[Numbers], Numbers]
    """Which of so many sorted times is wanted, counted from 1."""

_TICKS = (10_000, 1000, 100, 40, 20, 10)
"""In nanoseconds; each is a multiple of the last."""
LAUNCH = ("wg_x", "wg_y", "wg_z", "grid_x", "grid_y", "grid_z", "vgpr", "accum", "sgpr", "lds", "scratch")


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
class Identity:
    """What one number in `d` stands for, each by its own number."""

    agent: int
    queue: int
    kernel: int
    launch: int


@dataclass(frozen=True)
class Dispatches:
    """All usable rows, and what their numbers stand for."""

    rows: "Rows"
    identities: tuple[Identity, ...]
    """By number."""
    agents: tuple[str, ...]
    kernels: tuple[tuple[int, str], ...]
    """(agent, name) by number."""
    launches: tuple[tuple[int, tuple[int | None, ...]], ...]
    """(kernel, launch) by number."""
    queues: tuple[tuple[int, str], ...]
    """(agent, queue) by number."""
    warnings: tuple[str, ...]


def number_keys(rows: "Rows", keys: Sequence[Key], warnings: tuple[str, ...] = ()) -> Dispatches:
    """Reading a profile: numbers agents, kernels, launches and queues. `keys`: what the numbers of `rows` stand for.

    `RecordingError` where no row is usable.
    """
    if not rows.usable and not rows.rejected:
        raise RecordingError(rows.path, "has a header and no rows: 0 kernels were dispatched while it recorded", line=1)
    total = rows.usable + rows.rejected
    if not rows.usable:
        raise RecordingError(rows.path, f"none of its {total} rows ends after it starts: the times are damaged", line=2)
    agents = sorted({key.agent for key in keys})
    at_agent = {name: at for at, name in enumerate(agents)}
    kernels = sorted({(at_agent[key.agent], key.name) for key in keys})
    at_kernel = {kernel: at for at, kernel in enumerate(kernels)}
    launches: dict[tuple[int, tuple[int | None, ...]], int] = {}
    queues: dict[tuple[int, str], int] = {}
    identities = []
    for key in keys:
        agent = at_agent[key.agent]
        kernel = at_kernel[agent, key.name]
        launch = launches.setdefault((kernel, key.launch), len(launches))
        queue = queues.setdefault((agent, key.queue), len(queues))
        identities.append(Identity(agent, queue, kernel, launch))
    if rows.rejected:
        warnings = (*warnings, f"{rows.rejected} of {total} rows left out: they do not end after they start")
    return Dispatches(
        rows=rows,
        identities=tuple(identities),
        agents=tuple(agents),
        kernels=tuple(kernels),
        launches=tuple(launches),
        queues=tuple(queues),
        warnings=warnings,
    )


# Rows on disk, in slices by start time.

SLICE = 200_000
"""Rows held at once, 24 bytes each on disk, about 50 while they are sorted."""
_ROW = [("number", "<i8"), ("start", "<i8"), ("end", "<i8")]


class Rows:
    """Number, start and end in nanoseconds of dispatches, in a folder that goes away."""

    def __init__(self, path: Path, room: Path) -> None:
        self.path, self.room = path, room
        """What is read, for errors; a folder for files."""
        self.usable = self.rejected = 0
        self._file, self._latest, self._in_order = room / "rows", -(1 << 63), True

    def add(self, numbers: "Numbers", start: "Numbers", end: "Numbers") -> None:
        """Reading a profile: appends rows; those that do not end after they start only count as rejected."""
        import numpy as np

        usable = end > start
        if not usable.all():
            numbers, start, end = numbers[usable], start[usable], end[usable]
            self.rejected += len(usable) - len(numbers)
        if not len(numbers):
            return
        self._in_order &= bool(self._latest <= start[0] and (start[:-1] <= start[1:]).all())
        self._latest = int(start[-1])
        self.usable += len(numbers)
        table = np.empty(len(numbers), _ROW)
        table["number"], table["start"], table["end"] = numbers, start, end
        _append(self._file, table)

    def slices(self) -> Iterator[tuple["Numbers", "Numbers", "Numbers"]]:
        """Reading a profile: number, start and end of all usable rows in the order of their starts, about SLICE at once."""
        import numpy as np

        for table in _parts(self._file) if self._in_order else self._buckets():
            start = np.ascontiguousarray(table["start"])
            if (start[1:] < start[:-1]).any():
                table = table[np.argsort(start, kind="stable")]
            yield tuple(np.ascontiguousarray(table[name]) for name, _ in _ROW)  # type: ignore[misc]

    def _buckets(self) -> Iterator["NDArray[Any]"]:
        """Reading a profile: the rows by ranges of start times, each range from a file of its own."""
        import numpy as np

        step = max(1, self.usable // 20_000)
        starts = np.sort(np.concatenate([part["start"][::step] for part in _parts(self._file)]))
        edges = np.unique(starts[:: max(1, len(starts) * SLICE // self.usable)])[1:]
        files = [self.room / f"rows-{at}" for at in range(len(edges) + 1)]
        for part in _parts(self._file):
            buckets = np.searchsorted(edges, part["start"], side="right")
            order = np.argsort(buckets, kind="stable")
            bounds = np.searchsorted(buckets[order], np.arange(len(files) + 1))
            for file, low, high in zip(files, bounds[:-1], bounds[1:], strict=True):
                if low < high:
                    _append(file, part[order[low:high]])
        for file in files:
            if file.exists():
                yield np.fromfile(file, _ROW)
                file.unlink()


def _append(file: Path, table: "NDArray[Any]") -> None:
    with file.open("ab") as stream:
        table.tofile(stream)


def _parts(file: Path) -> Iterator["NDArray[Any]"]:
    import numpy as np

    with file.open("rb") as stream:
        while len(part := np.fromfile(stream, _ROW, SLICE)):
            yield part


@contextmanager
def open_rows(path: Path) -> Iterator[Rows]:
    """Reading a profile: a place for the dispatches of `path`; its temporary files are removed at the end.

    Raises `RecordingError` where numpy is not installed, as from the wheels for GPU machines.
    """
    try:
        import numpy  # noqa: F401  # what rows consist of
    except ImportError as error:
        raise RecordingError(path, f"needs {error.name} to be read: pip install numpy") from error
    with TemporaryDirectory(prefix="ridgeline-recording-") as folder:
        yield Rows(path, Path(folder))


# Dispatches of a CSV file in one pass: blocks of plain rows as arrays, others cell by cell.

WHO = ("agent", "queue", "name")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_EXPONENT = re.compile(r"[0-9.]+[eE]\+[0-9]+")

_SLOTS = 14
"""Bits: a table that stays in a processor's cache."""

Unpack = Callable[[str], Key]


def load(rows: Rows, source: Path, head: Head, unpack: Unpack | None = None) -> Dispatches:
    """Reads `source`, a CSV with one row per dispatch. `unpack` tells what a name stands for where it is packed.

    Raises `RecordingError` naming the line where a row is damaged, and when no row is left to count.
    """
    from ridgeline.sandbox.profiles.readers.csv_blocks import read_blocks

    table = _Table(rows, source, head, unpack)
    try:
        with _open_text(source, head) as stream:
            first_line = stream.readline()
            if b"\r" in first_line.rstrip(b"\r\n"):
                raise RecordingError(
                    rows.path, "line ends are carriage returns alone: convert them to line feeds", line=1
                )
            place = len(first_line)
            for block in read_blocks(stream, place, len(head.names), head.delimiter):
                table.add(block)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordingError(rows.path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    warnings = []
    if table.exponents:
        where = f"in {table.exponents} rows"
        warnings.append(f"times in exponent notation, as a spreadsheet saves them, {where}: these are left out")
    if not is_ended(source):
        warnings.append("the last line has no line end: the file may be cut")
    return number_keys(rows, tuple(table.keys), tuple(warnings))


class _Table:
    """What the rows of one CSV stand for, as far as they were read."""

    def __init__(self, rows: Rows, source: Path, head: Head, unpack: Unpack | None) -> None:
        import numpy as np

        self._rows, self._source, self._head, self._unpack = rows, source, head, unpack
        self._places = {column: head.place(column) for column in (*WHO, *LAUNCH, "start", "end")}
        self._times = [place for column in ("start", "end") if (place := self._places[column]) is not None]
        held = sorted(place for column in (*WHO, *LAUNCH) if (place := self._places[column]) is not None)
        begins = [place for place in held if place - 1 not in held]
        self._stretches = tuple(zip(begins, (place for place in held if place + 1 not in held), strict=True))
        self._launch = [self._places[column] for column in LAUNCH]
        self._spot = 0, 1
        """Place of the text that was parsed last, and the line in it."""
        self._by_hash: dict[int, int] = {}
        self._hashes, self._numbers = np.zeros(1 << _SLOTS, np.uint64), np.zeros(1 << _SLOTS, np.int64)
        """The hash that was met last of those with the same first bits, and its number."""
        self.keys: dict[Key, int] = {}
        """Number by key, in the order of the numbers."""
        self.exponents = 0

    def add(self, block: "Block") -> None:
        """Reading a profile: adds the rows of a block; `RecordingError` where one is damaged."""
        import numpy as np

        times = [None if block.ends is None else block.integers(place) for place in self._times]
        if any(time is None for time in times):
            entries = np.array([self._entry(cells) for cells in self._parse(block.place, block.text)], np.int64)
            self._rows.add(*entries.reshape(-1, 3).T)
            return
        hashes = block.hash(self._stretches)
        slots = hashes >> np.uint64(64 - _SLOTS)
        new = np.flatnonzero(self._hashes[slots] != hashes)
        numbers = self._numbers[slots]
        if len(new):
            codes, rows, which = np.unique(hashes[new], return_index=True, return_inverse=True)
            told = [
                self._number(code, block, row) for code, row in zip(codes.tolist(), new[rows].tolist(), strict=True)
            ]
            numbers[new] = np.array(told)[which]
            self._hashes[slots[new]], self._numbers[slots[new]] = hashes[new], numbers[new]
        self._rows.add(numbers, *times)  # type: ignore[arg-type]

    def _number(self, code: int, block: "Block", row: int) -> int:
        """Reading a profile: what stands for the rows of a hash, of which this is one."""
        if code not in self._by_hash:
            (cells,) = self._parse(*block.row(row))
            self._by_hash[code] = self._entry(cells)[0]
        return self._by_hash[code]

    def _entry(self, cells: Sequence[str]) -> tuple[int, int, int]:
        """Reading a profile: number, start and end of one row; 0 and 0 where a time is missing or has an exponent."""
        agent, queue, name = (cells[place] if (place := self._places[column]) is not None else "" for column in WHO)
        if self._unpack is not None:
            key = self._unpack(name)
        else:
            launch = [None if place is None else self._integer(cells, place) for place in self._launch]
            sizes = tuple(None if value is None or value < 0 else value for value in launch)
            key = Key(f"Agent {agent}" if agent.isdecimal() else agent, queue, name, sizes)
        number = self.keys.setdefault(key, len(self.keys))
        if any(_EXPONENT.fullmatch(cells[place].strip()) for place in self._times):
            self.exponents += 1
            return number, 0, 0
        start, end = (self._integer(cells, place) for place in self._times)
        return (number, 0, 0) if start is None or end is None else (number, start, end)

    def _integer(self, cells: Sequence[str], place: int) -> int | None:
        text = cells[place].strip()
        if text and not _INTEGER.fullmatch(text):
            raise self._damage(
                f"column {place + 1} holds {text[:60]!r}, not a whole number as the profiler writes it; "
                "take the file as recorded, not as a spreadsheet saved it"
            )
        return int(text) if text else None

    def _parse(self, place: int, text: bytes) -> Iterator[Sequence[str]]:
        """Reading a profile: the cells of each row of some text that begins at a place of the file."""
        self._spot = place, 1
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as error:
            self._spot = place, 1 + text.count(b"\n", 0, error.start)
            raise self._damage("not UTF-8 text: the file is damaged or was converted") from error
        reader = csv.reader(io.StringIO(decoded, newline=""), delimiter=self._head.delimiter, strict=True)
        width = len(self._head.names)
        try:
            for cells in reader:
                self._spot = place, reader.line_num
                if cells and len(cells) != width:
                    what = f"{len(cells)} columns where the header has {width}: the line is cut or damaged"
                    raise self._damage(what)
                if cells:
                    yield cells
        except csv.Error as error:
            self._spot = place, reader.line_num
            raise self._damage(
                f"a quoted value never ends or is too long: the line is cut or damaged ({error})"
            ) from error

    def _damage(self, what: str) -> RecordingError:
        """Reading a profile: an error at the line that was parsed last."""
        place, line = self._spot
        with _open_text(self._source, self._head) as stream:
            while place and (part := stream.read(min(place, 1 << 20))):
                place, line = place - len(part), line + part.count(b"\n")
        return RecordingError(self._rows.path, what, line=line)


def _open_text(source: Path, head: Head) -> "io.BufferedIOBase":
    return gzip.open(source) if head.packed else source.open("rb")


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


@dataclass
class Busy:
    """One agent, or one queue of it, up to a point in time."""

    first_start_ns: int
    latest_end_ns: int
    busy: int = 0


class Counts:
    """How long the calls of each number took, in nanoseconds: exact sums."""

    def __init__(self, count: int) -> None:
        import numpy as np

        self.calls, self.most, self.latest_start = (np.full(count, least, np.int64) for least in (0, 0, -(1 << 63)))
        self.least = np.full(count, (1 << 63) - 1, np.int64)
        self.total, self.squares = [0] * count, [0] * count

    def add(self, numbers: "Numbers", times_ns: "Numbers") -> None:
        """Reading a profile: adds calls, those of a number together."""
        import numpy as np

        begins = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
        present = numbers[begins]
        self.calls[present] += np.diff(np.append(begins, len(numbers)))
        self.least[present] = np.minimum(self.least[present], np.minimum.reduceat(times_ns, begins))
        self.most[present] = np.maximum(self.most[present], np.maximum.reduceat(times_ns, begins))
        # 64 bits hold the sum of so many squares of these; the few longer ones are added one by one
        short = np.where(times_ns < isqrt((1 << 62) // len(times_ns)), times_ns, 0)
        sums, squares = (np.add.reduceat(values, begins).tolist() for values in (short, short * short))
        for number, total, square in zip(present.tolist(), sums, squares, strict=True):
            self.total[number] += total
            self.squares[number] += square
        long = times_ns != short
        for number, time in zip(numbers[long].tolist(), times_ns[long].tolist(), strict=True):
            self.total[number] += time
            self.squares[number] += time * time


@dataclass
class Course:
    """What the slices add up to."""

    counts: Counts
    durations: "SortedRuns"
    gaps: "SortedRuns"
    """Gaps before calls, 0 where the queue was busy; a queue's first call has none before it."""
    agents: dict[int, Busy] = field(default_factory=dict)
    queues: dict[int, Busy] = field(default_factory=dict)
    of_finest_tick: int = 0
    """Calls whose durations are multiples of it."""


def course(dispatches: Dispatches) -> Course:
    """Reading a profile: span and busy time by agent and queue number, durations and gaps by the number in `ids`. All of it exact."""
    import numpy as np

    room, count = dispatches.rows.room, len(dispatches.identities)
    totals = Course(Counts(count), SortedRuns(room / "durations", count), SortedRuns(room / "gaps", count))
    queues = np.array([identity.queue for identity in dispatches.identities], np.int64)
    agents = np.array([agent for agent, _ in dispatches.queues], np.int64)
    shared = {int(number) for number in agents if _several(agents, number)}
    for numbers, s, e in dispatches.rows.slices():
        totals.counts.latest_start[numbers] = s  # of a number that occurs twice the last one counts
        totals.counts.add(*totals.durations.add(numbers, e - s))
        totals.of_finest_tick += int(_is_multiple(e - s, _TICKS[-1]).sum())
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


def _groups(numbers: "Numbers") -> Iterator[tuple[int, Any]]:
    """Reading a profile: each number that occurs, with what selects its rows."""
    import numpy as np

    distinct = np.flatnonzero(np.bincount(numbers))
    for number in distinct:
        yield int(number), slice(None) if len(distinct) == 1 else numbers == number


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


HELD_BYTES = 40_000_000
"""Of sorted runs that stay in memory; what comes after is in a file."""


class SortedRuns:
    """Times of millions of calls, a sorted run for each slice, the later ones in a file: any rank is found exactly, in little memory.

    A time stands behind its number in 63 bits; one that does not fit there, 200 days beside 300 numbers, counts as the
    longest that does.
    """

    def __init__(self, file: Path, count: int) -> None:
        import numpy as np

        self._file, self._shift, self._sizes = file, 63 - count.bit_length(), list[int]()
        self._held: list[Numbers] = []
        """The first runs."""
        self._most = 0
        self.counts: Numbers = np.zeros(count, np.int64)
        """Times by number."""

    def add(self, numbers: "Numbers", times_ns: "Numbers") -> tuple["Numbers", "Numbers"]:
        """Reading a profile: writes one run: `times_ns`, 0 or more, of the calls that `numbers` names; returns both, sorted."""
        import numpy as np

        codes = (numbers << self._shift) | np.minimum(times_ns, (1 << self._shift) - 1)
        codes.sort()
        numbers, times = codes >> self._shift, codes & ((1 << self._shift) - 1)
        self._most = max(self._most, int(times.max(initial=0)))
        self.counts += np.bincount(numbers, minlength=len(self.counts))
        if not self._sizes and sum(run.nbytes for run in self._held) + codes.nbytes <= HELD_BYTES:
            self._held.append(codes)
        else:
            self._sizes.append(len(codes))
            _append(self._file, codes)
        return numbers, times

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

    def times(self) -> Iterator["Numbers"]:
        """Reading a profile: the times of one run after the other."""
        for run in self._runs():
            yield run & ((1 << self._shift) - 1)

    def _runs(self) -> Iterator["Numbers"]:
        """Reading a profile: the runs one after the other: of those in the file only one is held in memory."""
        import numpy as np

        yield from self._held
        if not self._sizes:
            return
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
    latest: int
    """Number of the call that started last."""

    @property
    def deviation(self) -> float:
        """Reading a profile: sample standard deviation, as the tool's own statistics have it; 0 for one call."""
        if self.calls < 2:
            return 0.0
        return sqrt(max(0.0, (self.squares - self.total**2 / self.calls) / (self.calls - 1)))


def recordings(dispatches: Dispatches, *, form: str, files: tuple[str, ...], static_lds: bool) -> tuple[Recording, ...]:
    """One recording for each GPU, most time first. `static_lds`: the source tells only the static part of LDS."""
    totals = course(dispatches)
    kernels, launches = (_members(dispatches, totals.counts, by) for by in ("kernel", "launch"))
    sums = _sums(totals, tuple(dict.fromkeys((*kernels.values(), *launches.values()))))
    builder = _RecordingBuilder(
        dispatches,
        {number: sums[members] for number, members in kernels.items()},
        {number: sums[members] for number, members in launches.items()},
        totals,
        _median_gaps(totals.gaps, kernels),
        static_lds,
    )
    ticks = _tick(totals.durations, totals.of_finest_tick)
    by_gpu = [builder.agent(agent, form=form, files=files, ticks=ticks) for agent in totals.agents]
    return tuple(sorted(by_gpu, key=lambda recording: -(recording.sum_ns or 0)))


def _members(dispatches: Dispatches, counts: Counts, by: str) -> Mapping[int, tuple[int, ...]]:
    """Reading a profile: the numbers of each kernel or launch that has a usable call."""
    members: dict[int, list[int]] = {}
    for at, (identity, calls) in enumerate(zip(dispatches.identities, counts.calls.tolist(), strict=True)):
        if calls:
            members.setdefault(getattr(identity, by), []).append(at)
    return {number: tuple(several) for number, several in members.items()}


_LOW, _HIGH = (lambda calls: (calls + 1) // 2, lambda calls: calls // 2 + 1)
"""Which of so many sorted times, counted from 1, are the middle: the median is the mean of both."""
_P20, _P80 = (lambda calls: (calls + 4) // 5, lambda calls: (4 * calls + 4) // 5)


def _sums(totals: Course, groups: Sequence[tuple[int, ...]]) -> Mapping[tuple[int, ...], Sums]:
    """Reading a profile: sums of each group of numbers."""
    ranks = totals.durations.find_ranks(groups, (_P20, _LOW, _HIGH, _P80)).tolist()
    counts, sums = totals.counts, {}
    for members, (p20, low, high, p80) in zip(groups, ranks, strict=True):
        sums[members] = Sums(
            calls=sum(int(counts.calls[at]) for at in members),
            total=sum(counts.total[at] for at in members),
            least=min(int(counts.least[at]) for at in members),
            most=max(int(counts.most[at]) for at in members),
            median=(low + high) / 2,
            squares=sum(counts.squares[at] for at in members),
            p20=p20,
            p80=p80,
            latest=max((int(counts.latest_start[at]), at) for at in members)[1],
        )
    return sums


def _median_gaps(gaps: SortedRuns, kernels: Mapping[int, tuple[int, ...]]) -> Mapping[int, float]:
    """Reading a profile: median gap in ns of each kernel that had a call before it on its queue."""
    later = {number: members for number, members in kernels.items() if gaps.counts[list(members)].any()}
    ranks = gaps.find_ranks(tuple(later.values()), (_LOW, _HIGH)).tolist()
    return {number: (low + high) / 2 for number, (low, high) in zip(later, ranks, strict=True)}


def _tick(durations: SortedRuns, of_finest_tick: int) -> tuple[Named, ...]:
    """Reading a profile: the step in which the clock counts, where the durations show one."""
    import numpy as np

    # every tick is a multiple of the finest: durations that are none of that are none of the others
    calls = int(durations.counts.sum())
    least = _ALIKE * calls
    if calls < _MANY or of_finest_tick < least:
        return ()
    kinds, counts = set[int](), [0] * len(_TICKS)
    for run in durations.times():
        times, several = np.unique(run, return_counts=True)
        kinds.update(times[:_KINDS].tolist())
        counts = [
            count + int(several[_is_multiple(times, tick)].sum()) for count, tick in zip(counts, _TICKS, strict=True)
        ]
    if len(kinds) < _KINDS:
        return ()
    tick = next(tick for tick, count in zip(_TICKS, counts, strict=True) if count >= least)
    return (Named(name="resolution_ns", value=tick),)


def _is_multiple(times_ns: "Numbers", tick: int) -> "NDArray[np.bool_]":
    """Reading a profile: whether each time is a multiple of a tick within 1 ns of rounding."""
    return (times_ns + 1) % tick <= 2


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
            rejected=self.dispatches.rows.rejected,
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
            last=self._build_launch(self.dispatches.identities[sums.latest].launch),
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
