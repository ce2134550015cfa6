"""One small duckdb database for tables of counters and of API calls: two threads, little memory, the rest in a folder.

Traces of kernels are not read by it: `csv_blocks.py` says why.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ridgeline.sandbox.profiles.readers.files import RecordingError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

THREADS = 2
MEMORY = "120MB"
"""For duckdb's own buffers; what does not fit goes to the folder. The process stays below 400 MB."""
_LINE = re.compile(r"CSV Error on Line: (\d+)")
_COLUMNS = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
_CELL = re.compile(
    r'Error when converting column "c(?P<column>[0-9]+)". Could not convert string "(?P<text>.*?)" to', re.S
)


@dataclass(frozen=True)
class Engine:
    """An open database, the folder it may write to, and the file that its errors are about."""

    connection: "DuckDBPyConnection"
    room: Path
    path: Path

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Reading a profile: all rows of a query. `RecordingError` with the line of the file when the file cannot be read.

        Values stand in the text: for a single parameter duckdb imports pandas where that is installed, a second of
        processor time.
        """
        with _explain(self.path):
            return self.connection.execute(sql).fetchall()

    def link(self, path: Path) -> str:
        """Reading a profile: a name for `path` without characters that duckdb would expand, ready to stand in SQL."""
        link = self.room / f"input{sum(1 for _ in self.room.iterdir())}"
        link.symlink_to(path.resolve())
        return str(link).replace("'", "''")


@contextmanager
def open_engine(path: Path) -> Iterator[Engine]:
    """Reading a profile: a database for reading `path`; its temporary files are removed at the end.

    Raises `RecordingError` where duckdb is not installed, as from the wheels for GPU machines.
    """
    try:
        import duckdb
    except ImportError as error:
        raise RecordingError(path, f"needs {error.name} to be read: pip install duckdb") from error

    with TemporaryDirectory(prefix="ridgeline-recording-") as folder:
        room = Path(folder)
        connection = duckdb.connect(
            config={
                "threads": THREADS,
                "memory_limit": MEMORY,
                "temp_directory": str(room / "spill"),
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        # duckdb draws a bar on standard output where it takes the interpreter for an interactive one
        connection.execute("set enable_progress_bar = false")
        try:
            yield Engine(connection, room, path)
        finally:
            connection.close()


@contextmanager
def _explain(path: Path) -> Iterator[None]:
    duckdb = sys.modules["duckdb"]
    try:
        yield
    except (duckdb.Error, UnicodeDecodeError) as error:
        text = str(error)
        match = _LINE.search(text)
        raise RecordingError(path, _mend(text), line=int(match.group(1)) if match else None) from error


def _mend(text: str) -> str:
    if columns := _COLUMNS.search(text):
        return f"{columns.group(2)} columns where the header has {columns.group(1)}: the line is cut or damaged"
    if cell := _CELL.search(text):
        return (
            f"column {int(cell.group('column')) + 1} holds {cell.group('text')[:60]!r}, "
            "not a number as the profiler writes it; "
            "take the file as recorded, not as a spreadsheet saved it"
        )
    if "unterminated quote" in text:
        return "a quoted value never ends: the line is cut or damaged"
    if "nicode" in text:
        return "not UTF-8 text: the file is damaged or was converted"
    if "state machine" in text:
        return "quotes or line ends are damaged; line ends must be the same in the whole file"
    return f"cannot be read: {text.splitlines()[0][:200]}"
