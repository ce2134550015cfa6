"""The table inside what `ncu --csv` printed: found among other output, its numbers read in any locale and unit."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.readers.fault import RecordingError

HEADERS = (
    '"ID","Process ID"',
    "ID,Process ID",
    '"Kernel Name",',
    '"Address","Source"',
    '"#","Address"',
    "metric,value",
)
"""How the first line of a table begins, in the pages that are read here."""
MARKS = (*HEADERS, "==PROF==", "==WARNING==", "==ERROR==")
SNIFFED = 65_536
MAX_WARNINGS = 32
MAX_CELL = 4 * 1024 * 1024
Locale = Literal["point", "comma"]
"""What stands before the decimals."""
Row = tuple[int, list[str]]
"""Line number and cells."""

GROUPING = re.compile(r"(?<=\d)[\s\u00a0\u202f'\u2019](?=\d)")
"""Thousands separators that are never decimal marks: Swiss and French."""
GROUPED = r"[-+]?[1-9]\d{0,2}(?:%s\d{3})+(?:%s\d+)?"
PLAIN = r"[-+]?\d+(?:%s\d*)?(?:[eE][-+]?\d+)?"
FORMS = {
    "point": re.compile(GROUPED % (",", r"\.") + "|" + PLAIN % r"\."),
    "comma": re.compile(GROUPED % (r"\.", ",") + "|" + PLAIN % ","),
}
"""How a number is written in each locale. What fits one form only decides the locale of the whole file."""
WHOLE_UNITS = frozenset({"ns", "byte", "cycle", "inst", "sector", "thread", "register/thread"})
"""What comes in whole numbers: three digits after a point are then a group, not decimals."""
UNIT = re.compile(r"(?P<prefix>[KMGTP])(?P<unit>byte|inst|hz|sector|cycle|thread|warp|request|B)(?P<rest>/.*)?", re.I)
PREFIXES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
TIMES = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


class CountersForbidden(RecordingError):
    """The driver let ncu read no counters (ERR_NVGPUCTRPERM): nothing was measured."""


class NothingProfiled(RecordingError):
    """ncu ran, but no kernel matched its filters, or the program launched none."""


class Table(Value):
    """The lines of the tables in one file, and what was said around them."""

    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()


def sniff_text(path: Path) -> bool:
    """Whether the first 64 KiB look like output of ncu. Unreadable files do not."""
    try:
        with path.open("rb") as file:
            head = file.read(SNIFFED)
    except OSError:
        return False
    text = head.decode("utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", errors="replace")
    return any(line.startswith(MARKS) for line in text.splitlines())


def table(path: Path) -> Table:
    """Every row from the first header on, each with its line number.

    Raises:
        CountersForbidden: no table, and the driver's refusal.
        NothingProfiled: no table, or the words that say so.
        RecordingError: unreadable, not text, or cut inside a row.
    """
    said: list[str] = []
    kept = _Kept(path, said)
    csv.field_size_limit(MAX_CELL)
    reader = csv.reader(kept.lines(), strict=True)
    rows: list[Row] = []
    try:
        rows.extend((kept.number, row) for row in reader if row)
    except csv.Error as error:
        raise RecordingError(path, f"cut or damaged table ({error}); record it again", line=kept.number) from error
    except UnicodeError as error:
        raise RecordingError(
            path, "not text in UTF-8 or UTF-16; record it again with --log-file", line=kept.number + 1
        ) from error
    if len(rows) < 2:
        raise _nothing(path, kept, said)
    if kept.foreign:
        said.append(f"{kept.foreign} lines of other output between the rows of the table were left out")
    return Table(rows=tuple(rows), warnings=tuple(dict.fromkeys(said))[:MAX_WARNINGS])


class _Kept:
    """Passes on the lines of the tables; keeps the warnings, counts the rest."""

    def __init__(self, path: Path, said: list[str]) -> None:
        self.path = path
        self.number = 0
        self.foreign = 0
        self.text = ""
        self._said = said
        self._open = False
        self._quoted: bool | None = None
        """Whether the table quotes its cells; None before its header."""

    def lines(self) -> Iterator[str]:
        try:
            with self.path.open(encoding=_encoding(self.path), newline="") as file:
                for self.number, line in enumerate(file, start=1):
                    if "\0" in line:
                        raise RecordingError(self.path, "NUL bytes in a text file; copy it again", line=self.number)
                    if self._belongs(line):
                        yield line
        except OSError as error:
            raise RecordingError(self.path, f"cannot be read: {error.strerror}") from error

    def _belongs(self, line: str) -> bool:
        if self._open:  # inside a cell that holds line breaks
            self._open = line.count('"') % 2 == 0
            return True
        if line.startswith("=="):
            self._remark(line)
            return False
        if line.startswith(HEADERS):
            self._quoted = line.startswith('"')
        elif self._quoted is None or (self._quoted and not line.startswith('"')):
            self._foreign(line)
            return False
        self._open = line.count('"') % 2 == 1
        return bool(line.strip())

    def _remark(self, line: str) -> None:
        mark, _, rest = line.partition(" ")
        if mark in ("==WARNING==", "==ERROR=="):
            self._said.append(f"ncu: {rest.strip()}")
        self.text += line[:400] if len(self.text) < SNIFFED else ""

    def _foreign(self, line: str) -> None:
        if self._quoted is not None and line.strip():
            self.foreign += 1
        self.text += line[:400] if len(self.text) < SNIFFED else ""


def _encoding(path: Path) -> str:
    """PowerShell redirects in UTF-16."""
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _nothing(path: Path, kept: _Kept, said: Sequence[str]) -> RecordingError:
    if "ERR_NVGPUCTRPERM" in kept.text:
        return CountersForbidden(
            path,
            "ERR_NVGPUCTRPERM: this user may not read the GPU's counters; run as administrator, or load the driver "
            "with NVreg_RestrictProfilingToAdminUsers=0, or do with times alone",
        )
    if "No kernels were profiled" in kept.text:
        return NothingProfiled(path, "no kernels were profiled: mend --kernel-name, --launch-skip or --launch-count")
    if any("LibraryNotLoaded" in line for line in (kept.text, *said)):
        return CountersForbidden(
            path, "ncu could not load the driver's profiling library; counters are not to be had here"
        )
    if "==PROF==" in kept.text:
        return NothingProfiled(path, "ncu's log without a table; pass --csv, and --page raw")
    if kept.number == 0:
        return RecordingError(path, "empty; record it again")
    return RecordingError(path, "no table of ncu with at least one row; record it with --csv", line=kept.number)


def locale_of(cells: Iterable[tuple[str, str]], path: Path) -> tuple[Locale, str]:
    """Which decimal mark the (number, unit) cells of one file use, and a warning where that was not certain.

    Raises RecordingError when cells of both locales occur.
    """
    votes: dict[str, str] = {}
    undecided = groups = ""
    for text, unit in cells:
        plain = GROUPING.sub("", text.strip())
        fits = [mark for mark, form in FORMS.items() if form.fullmatch(plain)]
        if len(fits) == 1:
            votes.setdefault(fits[0], text)
        elif fits and "." in plain:  # 117.344: a decimal number, or thousands
            undecided = undecided or text
            groups = groups or (text if unit in WHOLE_UNITS else "")
    if len(votes) == 2:
        raise RecordingError(
            path, f"numbers of two locales ({votes['point']}, {votes['comma']}); record it with LC_ALL=C"
        )
    if "comma" in votes or (not votes and groups):
        return (
            "comma",
            f"numbers such as {groups or votes.get('comma')} are read with a decimal comma; record with LC_ALL=C",
        )
    if not votes and undecided:
        return "point", f"{undecided} is read as a decimal number, it may be thousands; record with LC_ALL=C"
    return "point", ""


def number(text: str, mark: Locale) -> float | None:
    """A cell as a number; None for `n/a`, `(!) ...`, an empty cell and words."""
    plain = GROUPING.sub("", text.strip())
    if FORMS[mark].fullmatch(plain) is None:
        return None
    return float(plain.replace(",", "") if mark == "point" else plain.replace(".", "").replace(",", "."))


def base(unit: str) -> tuple[float, str]:
    """Factor to the base unit and its name: ns, byte, byte/s, hz, inst, cycle. An unknown unit stays as it is."""
    unit = unit.strip()
    if unit in TIMES:
        return TIMES[unit], "ns"
    top, slash, bottom = unit.partition("/")
    factor = 1.0
    if bottom in TIMES:  # a rate: per second
        factor, bottom = 1e9 / TIMES[bottom], "s"
    if found := UNIT.fullmatch(top):
        factor *= PREFIXES[found["prefix"].lower()]
        top = found["unit"].lower() if found["unit"] != "B" else "byte"
    elif top.lower() == "hz":
        top = "hz"
    return factor, f"{top}{slash}{bottom}"
