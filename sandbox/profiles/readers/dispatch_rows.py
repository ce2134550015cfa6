"""Dispatches of a CSV file in one pass; a second tells names and launches that the first rows do not hold."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ridgeline.sandbox.profiles.readers.csv_head import Head, is_ended
from ridgeline.sandbox.profiles.readers.dispatches import LAUNCH, Dispatches, Key, counted, numbered
from ridgeline.sandbox.profiles.readers.engine import Engine
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.spread import spread

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
    known = table.told(table.first)
    if not head.packed:
        known |= _further(engine, source, table)
    times = table.checked if warnings else table.plain
    engine.rows(f"create temp table d as select hash({table.key}) h, {times} from {table.all}")
    counts = counted(engine)
    if counts.keys() - known.keys():
        known |= table.told(f"{table.all} where h not in (select unnest(?))", list(known))
    if not is_ended(source):
        warnings.append("the last line has no line end: the file may be cut")
    keys = {h: _key(known[h], unpack) for h in counts}
    return numbered(engine, keys, counts, tuple(warnings))


class Columns:
    """The SQL words for one file: where its rows are, and what stands for each of our columns."""

    def __init__(self, engine: Engine, source: Path, head: Head) -> None:
        self._engine, self._head = engine, head
        self.all = self._reader(engine.linked(source), "BIGINT")
        self.first = f"(from {self.text(source)} limit {FIRST})"
        known = [column for column in (*WHO, *LAUNCH) if head.place(column) is not None]
        self.key = ", ".join(self._at(column) for column in known)
        self.named = ", ".join(
            f"{self._at(column) if column in known else 'NULL'} as {column}" for column in (*WHO, *LAUNCH)
        )
        self.start, self.end = self._at("start"), self._at("end")
        self.plain = f"{self.start} as s, {self.end} as e"
        whole = "try_cast(case when {0} similar to '[0-9]+' then {0} end as bigint)"
        self.checked = f"{whole.format(self.start)} as s, {whole.format(self.end)} as e"

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
        return self._reader(self._engine.linked(path), "VARCHAR")

    def told(self, rows: str, *arguments: object) -> Known:
        """Agents, queues, names and launches of `rows`, by the number that stands for them in `d`."""
        sql = f"select distinct hash({self.key}) h, {self.named} from {rows}"
        return {row[0]: row[1:] for row in self._engine.rows(sql, *arguments)}

    def as_text(self) -> None:
        """From here on times are read as text, and only whole numbers among them count."""
        self.all = self.all.replace("'BIGINT'", "'VARCHAR'")


def _further(engine: Engine, source: Path, table: Columns) -> Known:
    """What rows from all over the file tell: a kernel that begins late costs no second pass then."""
    some = engine.room / "some.csv"
    if spread(source, some):
        with suppress(RecordingError):  # a name with line ends may be cut by a block; the pass over all names damage
            return table.told(table.text(some))
    return {}


def _spelling(engine: Engine, table: Columns) -> Sequence[str]:
    """What is wrong with how the first rows spell times: a spreadsheet's 1.62E+14 is not one, whatever it rounds to."""
    exponents = f"count(*) filter ({table.start} ilike '%e+%' or {table.end} ilike '%e+%')"
    odd = f"min({table.start}) filter (not (trim({table.start}) similar to '[0-9]*'))"
    ((wrong, start),) = engine.rows(f"select {exponents}, {odd} from {table.first}")
    if wrong:
        table.as_text()
        shown = f"in {wrong} of the first rows"
        return (f"times in exponent notation, as a spreadsheet saves them, {shown}: these are left out",)
    if start is not None:
        raise RecordingError(
            engine.path,
            f"a start time is written {start[:40]!r}, not in whole nanoseconds: take the file as recorded",
        )
    return ()


def _key(told: Sequence[str | int | None], unpack: Unpack | None) -> Key:
    agent, queue, name = (str(text or "") for text in told[:3])
    if unpack is not None:
        return unpack(name)
    launch = [None if value is None or int(value) < 0 else int(value) for value in told[3:]]
    return Key(f"Agent {agent}" if agent.isdecimal() else agent, queue, name, tuple(launch))
