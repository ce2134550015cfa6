"""What Nsight Compute (`ncu --csv`) wrote, as a `Recording`: raw, details and source page, metric lists, any locale."""

import csv
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ridgeline.graph.kernel_profile import Axes, Hotspot, KernelCalls, LaunchShape, Recording, Stall
from ridgeline.graph.values import Named, Value
from ridgeline.sandbox.profiles.readers import hopper
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.profiles.readers.hopper import STALLS
from ridgeline.sandbox.profiles.readers.names import category, display

# The table inside what `ncu --csv` printed: found among other output, its numbers read in any locale and unit.

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


class NoLaunch(NothingProfiled):
    """ncu's own words that it profiled no kernel."""


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
    """Reading a profile: every row from the first header on, each with its line number.

    Raises:
        CountersForbidden: no table, and the driver's refusal.
        NothingProfiled: no table, or the words that say so.
        RecordingError: unreadable, not text, or cut inside a row.
    """
    notes: list[str] = []
    table_lines = _TableLines(path, notes)
    csv.field_size_limit(MAX_CELL)
    reader = csv.reader(table_lines.lines(), strict=True)
    rows: list[Row] = []
    try:
        rows.extend((table_lines.number, row) for row in reader if row)
    except csv.Error as error:
        raise RecordingError(
            path, f"cut or damaged table ({error}); record it again", line=table_lines.number
        ) from error
    except UnicodeError as error:
        raise RecordingError(
            path, "not text in UTF-8 or UTF-16; record it again with --log-file", line=table_lines.number + 1
        ) from error
    if len(rows) < 2:
        raise _nothing(path, table_lines, notes)
    if table_lines.foreign:
        notes.append(f"{table_lines.foreign} lines of other output between the rows of the table were left out")
    return Table(rows=tuple(rows), warnings=tuple(dict.fromkeys(notes))[:MAX_WARNINGS])


class _TableLines:
    """Passes on the lines of the tables; keeps the warnings, counts the rest."""

    def __init__(self, path: Path, notes: list[str]) -> None:
        self.path = path
        self.number = 0
        self.foreign = 0
        self.text = ""
        self._notes = notes
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
            self._notes.append(f"ncu: {rest.strip()}")
        self.text += line[:400] if len(self.text) < SNIFFED else ""

    def _foreign(self, line: str) -> None:
        if self._quoted is not None and line.strip():
            self.foreign += 1
        self.text += line[:400] if len(self.text) < SNIFFED else ""


def _encoding(path: Path) -> str:
    """Reading a profile: PowerShell redirects in UTF-16."""
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _nothing(path: Path, table_lines: _TableLines, notes: Sequence[str]) -> RecordingError:
    if "ERR_NVGPUCTRPERM" in table_lines.text:
        return CountersForbidden(
            path,
            "ERR_NVGPUCTRPERM: this user may not read the GPU's counters; run as administrator, or load the driver "
            "with NVreg_RestrictProfilingToAdminUsers=0, or do with times alone",
        )
    if "No kernels were profiled" in table_lines.text:
        return NoLaunch(path, "no kernels were profiled: mend --kernel-name, --launch-skip or --launch-count")
    if any("LibraryNotLoaded" in line for line in (table_lines.text, *notes)):
        return CountersForbidden(
            path, "ncu could not load the driver's profiling library; counters are not to be had here"
        )
    if "==PROF==" in table_lines.text:
        return NothingProfiled(path, "ncu's log without a table; pass --csv, and --page raw")
    if table_lines.number == 0:
        return RecordingError(path, "empty; record it again")
    return RecordingError(path, "no table of ncu with at least one row; record it with --csv", line=table_lines.number)


def locale_of(cells: Iterable[tuple[str, str]], path: Path) -> tuple[Locale, str]:
    """Reading a profile: which decimal mark the (number, unit) cells of one file use, and a warning where that was not certain.

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
    """Reading a profile: a cell as a number; None for `n/a`, `(!) ...`, an empty cell and words."""
    plain = GROUPING.sub("", text.strip())
    if FORMS[mark].fullmatch(plain) is None:
        return None
    return float(plain.replace(",", "") if mark == "point" else plain.replace(".", "").replace(",", "."))


def base(unit: str) -> tuple[float, str]:
    """Reading a profile: factor to the base unit and its name: ns, byte, byte/s, hz, inst, cycle. An unknown unit stays as it is."""
    unit = unit.strip()
    if unit in TIMES:
        return TIMES[unit], "ns"
    top, slash, bottom = unit.partition("/")
    factor = 1.0
    if bottom in TIMES:  # a rate: per second
        factor, bottom = 1e9 / TIMES[bottom], "s"
    if match := UNIT.fullmatch(top):
        factor *= PREFIXES[match["prefix"].lower()]
        top = match["unit"].lower() if match["unit"] != "B" else "byte"
    elif top.lower() == "hz":
        top = "hz"
    return factor, f"{top}{slash}{bottom}"


# Launches out of ncu's raw page, details page, `--metrics` listing, and plain `metric,value,unit` lists.

IDENTITY = frozenset(
    {
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value",
        "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup",
    }
)  # fmt: skip
LISTS = frozenset({"launch__tpc_enabled", "Enabled TPC IDs"})
"""Values that are lists of numbers, which look like numbers of another locale."""
INSTANCES = re.compile(r"^(\S+) \(.*\)$", re.DOTALL)
"""A total, then its instances in brackets (`--print-metric-instances`)."""
TRIPLE = re.compile(r"\(?\s*(\d+)\s*[,;x]\s*(\d+)\s*[,;x]\s*(\d+)\s*\)?")
UNNAMED = "(kernel name not recorded)"


@dataclass(kw_only=True)
class Launch:
    """One launch that was profiled."""

    name: str
    process: str = ""
    block: Axes | None = None
    grid: Axes | None = None
    """Blocks."""
    capability: str = ""
    device: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    """By ncu's name, or `Section/Name [unit]` on the details page; base units. What ncu could not tell is absent."""
    unknown: set[str] = field(default_factory=set)
    """Metrics that were asked for and came back as `n/a`."""
    rules: list[str] = field(default_factory=list)
    """What ncu's own rules advise: name and text."""


def raw(rows: Sequence[Row], path: Path) -> tuple[list[Launch], str]:
    """Reading a profile: one launch per row after the header and its units row, and a warning about the locale or an empty text."""
    cells = (
        (text, unit)
        for header, units, row in _wide(rows, path)
        for name, unit, text in zip(header, units, row[1], strict=True)
        if name not in IDENTITY and name not in LISTS
    )
    mark, warning = locale_of(((_total(text), unit) for text, unit in cells), path)
    launches = []
    for header, units, (_, row) in _wide(rows, path):
        launch = _identify(dict(zip(header, row, strict=True)))
        for name, unit, text in zip(header, units, row, strict=True):
            if name not in IDENTITY:
                _add(launch, name, (text, unit), mark)
        launches.append(launch)
    if not launches:
        raise RecordingError(path, "a raw page without a kernel: only its header and units; profile again")
    return launches, warning


def details(rows: Sequence[Row], path: Path) -> tuple[list[Launch], str]:
    """Reading a profile: launches of a page with one row per kernel and metric, and a warning about the locale or an empty text."""
    table = list(_long(rows, path))
    metric_lines = [line for line in table if line.get("Metric Name")]
    pairs = (
        (_total(line["Metric Value"]), line["Metric Unit"]) for line in metric_lines if line["Metric Name"] not in LISTS
    )
    mark, warning = locale_of(pairs, path)
    launches: dict[tuple[str, ...], Launch] = {}
    for line in table:
        key = tuple(line.get(name, "") for name in ("Process ID", "Device", "ID", "Kernel Name"))
        launch = launches.setdefault(key, _identify(line))
        if line.get("Metric Name"):
            name = line["Metric Name"]
            if "__" not in name:
                name = f"{line['Section Name']}/{name} [{base(line['Metric Unit'])[1]}]"
            _add(launch, name, (line["Metric Value"], line["Metric Unit"]), mark)
        elif line.get("Rule Name"):
            launch.rules.append(f"{line['Rule Name']}: {line.get('Rule Description', '')}")
    if not launches:
        raise RecordingError(path, "a details page without a row; profile again")
    return list(launches.values()), warning


def read_metric_list(rows: Sequence[Row], path: Path) -> tuple[list[Launch], str]:
    """Reading a profile: the one launch of a `metric,value,unit` list."""
    for line, row in rows:
        if len(row) != 3:
            raise RecordingError(path, f"{len(row)} cells where metric, value and unit are expected", line=line)
    mark, warning = locale_of(((text, unit) for _, (_, text, unit) in rows[1:]), path)
    launch = Launch(name=UNNAMED)
    for _, (name, text, unit) in rows[1:]:
        if name.endswith("_size_xyz"):
            axes = triple(text)
            launch.grid, launch.block = (axes, launch.block) if "grid" in name else (launch.grid, axes)
        elif name in ("kernel_name", "Kernel Name"):
            launch.name = text
        else:
            _add(launch, name, (text, unit), mark)
    return [launch], warning


def triple(text: str) -> Axes | None:
    """Reading a profile: `(256, 1, 1)` as numbers; None for anything else."""
    match = TRIPLE.fullmatch(text.strip())
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _wide(rows: Sequence[Row], path: Path) -> Iterator[tuple[list[str], list[str], Row]]:
    """Reading a profile: (header, units, row) for each launch; several tables may follow each other in one file."""
    header: list[str] = []
    units: list[str] = []
    for line, row in rows:
        if row[:2] == ["ID", "Process ID"]:
            header, units = row, []
            continue
        if len(row) != len(header):
            raise RecordingError(path, f"{len(row)} cells under {len(header)} columns: cut; record it again", line=line)
        if not units:
            if row[0]:
                raise RecordingError(path, "a raw page without its row of units; record it again", line=line)
            units = row
            continue
        if not row[0].isdigit():
            raise RecordingError(path, f"launch ID {row[0][:40]!r} is no number; record it again", line=line)
        yield header, units, (line, row)


def _long(rows: Sequence[Row], path: Path) -> Iterator[dict[str, str]]:
    """Reading a profile: rows by column name. Metric rows end after their value, rows of rules go on: both are whole."""
    header: list[str] = []
    for line, row in rows:
        if row[:2] == ["ID", "Process ID"]:
            header = row
            continue
        value = header.index("Metric Value")
        if len(row) <= value or len(row) > len(header) or not row[0].isdigit():
            raise RecordingError(path, f"{len(row)} cells under {len(header)} columns: cut; record it again", line=line)
        if not row[header.index("Metric Name")] and len(row) < len(header):
            raise RecordingError(path, "a row without a metric and without a rule: cut; record it again", line=line)
        yield dict(zip(header, row, strict=False))


def _identify(cells: dict[str, str]) -> Launch:
    return Launch(
        name=cells.get("Kernel Name") or UNNAMED,
        process=cells.get("Process ID", ""),
        block=triple(cells.get("Block Size", "")),
        grid=triple(cells.get("Grid Size", "")),
        capability=cells.get("CC", ""),
        device=cells.get("device__attribute_display_name", ""),
    )


def _add(launch: Launch, name: str, cell: tuple[str, str], mark: Locale) -> None:
    text, unit = cell
    factor, _ = base(unit)
    value = number(_total(text), mark)
    if value is not None and math.isfinite(value):
        launch.metrics[name] = value * factor
    elif "n/a" in text or text.startswith("(!)"):
        launch.unknown.add(name)


def _total(text: str) -> str:
    match = INSTANCES.match(text)
    return match[1] if match else text


def mean(launches: Iterable[Launch]) -> dict[str, float]:
    """Reading a profile: each metric's mean over the launches that told it."""
    by_name: dict[str, list[float]] = {}
    for launch in launches:
        for name, value in launch.metrics.items():
            by_name.setdefault(name, []).append(value)
    return {name: math.fsum(values) / len(values) for name, values in by_name.items()}


# ncu's source page: where the samples of each kernel fell, per instruction, and what the warps waited for there.

TOP = 20
SAMPLES = ("# Samples", "Warp Stall Sampling (All Samples)", "Sampling Data (All)")
ALIASES = {
    "stall_branch_resolve": "branch_resolving", "stall_dispatch": "dispatch_stall", "stall_imc": "imc_miss",
    "stall_lg": "lg_throttle", "stall_long_sb": "long_scoreboard", "stall_math": "math_pipe_throttle",
    "stall_mio": "mio_throttle", "stall_no_inst": "no_instruction", "stall_short_sb": "short_scoreboard",
    "stall_sleep": "sleeping", "stall_tex": "tex_throttle",
}  # fmt: skip
"""The page's short names, and the names that the metrics use."""
SUMMED = {
    "Instructions Executed": "source.instructions_executed",
    "L1 Wavefronts Shared": "source.l1_wavefronts_shared",
    "L1 Wavefronts Shared Ideal": "source.l1_wavefronts_shared_ideal",
    "L2 Theoretical Sectors Global": "source.l2_sectors_global",
    "L2 Theoretical Sectors Global Ideal": "source.l2_sectors_global_ideal",
}
"""Columns whose sum over the instructions says something about the kernel."""


@dataclass(kw_only=True)
class Listing:
    """The instructions of one kernel, all its sections of the page taken together."""

    name: str
    sections: int = 0
    totals: Counter[str] = field(default_factory=Counter)
    """`pcsamp.<reason>` and the sums of `SUMMED`."""
    lines: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    """By (address, instruction): samples, hits, and samples by reason."""

    @property
    def samples(self) -> float:
        """Reading a profile: all samples of the kernel."""
        return float(sum(line["samples"] for line in self.lines.values()))


def listings(rows: Sequence[Row], path: Path) -> tuple[list[Listing], str]:
    """Reading a profile: every kernel on the page, most samples first, and a warning about the locale or an empty text.

    Raises RecordingError for a page without instructions, a cut row, or a count that is no number.
    """
    by_name: dict[str, Listing] = {}
    mark, warning = locale_of(((cell, "inst") for _, row in rows for cell in row[2:]), path)
    header: list[str] = []
    listing: Listing | None = None
    for line, row in rows:
        if row[0] == "Kernel Name":
            listing, header = by_name.setdefault(row[1], Listing(name=row[1])), []
            listing.sections += 1
        elif "Source" in row and not header:
            header = row
        elif listing is None or len(row) != len(header):
            raise RecordingError(path, f"{len(row)} cells under {len(header)} columns: cut; record it again", line=line)
        else:
            cells = dict(zip(header, row, strict=True))
            values = {name: number(text, mark) for name, text in cells.items()}
            if beyond := next(
                (name for name, value in values.items() if value is not None and math.isinf(value)), None
            ):
                raise RecordingError(path, f"{beyond}: {cells[beyond]:.20} is too large for a number", line=line)
            _count(listing, cells, values)
    with_lines = [listing for listing in by_name.values() if listing.lines]
    if not with_lines:
        raise RecordingError(path, "a source page without an instruction; profile with --set full or SourceCounters")
    return sorted(with_lines, key=lambda listing: -listing.samples), warning


def hotspots(listing: Listing) -> tuple[Hotspot, ...]:
    """Reading a profile: the instructions with the most samples, at most 20."""
    total = listing.samples
    ranked = sorted(listing.lines.items(), key=lambda item: -item[1]["samples"])[:TOP]
    return tuple(
        Hotspot(
            isa=isa,
            pc=int(address, 16) if address.startswith("0x") else None,
            share=line["samples"] / total,
            stall=_main_stall(line),
            hits=int(line["hits"]) or None,
            kernel=listing.name,
        )
        for (address, isa), line in ranked
        if line["samples"]
    )


def reason(column: str) -> str | None:
    """Reading a profile: the stall that a column counts in all samples, by the metrics' name; None for other columns."""
    if not column.startswith("stall_") or column.endswith("(Not Issued)"):
        return None
    return ALIASES.get(column, column.removeprefix("stall_"))


def _count(listing: Listing, cells: dict[str, str], values: dict[str, float | None]) -> None:
    line = listing.lines.setdefault((cells.get("Address", ""), cells["Source"].strip()), Counter())
    samples = next((values[name] for name in SAMPLES if values.get(name) is not None), None)
    line["samples"] += int(samples or 0)
    line["hits"] += int(values.get("Instructions Executed") or 0)
    for name, value in values.items():
        if value is None:
            continue
        if (stalled := reason(name)) is not None:
            line[f"pcsamp.{stalled}"] += int(value)
            listing.totals[f"pcsamp.{stalled}"] += int(value)
        elif name in SUMMED:
            listing.totals[SUMMED[name]] += int(value)


def _main_stall(line: Counter[str]) -> Stall | None:
    counts = Counter({name: count for name, count in line.items() if name.startswith("pcsamp.") and count})
    if not counts:
        return None
    return STALLS.get(counts.most_common(1)[0][0].removeprefix("pcsamp."), "other")


__all__ = ["CountersForbidden", "NoLaunch", "NothingProfiled", "read_recording", "sniff"]

REPORT_MAGIC = b"NVR\0"
"""First bytes of a .ncu-rep."""
COMMAND_LINE = "Command line profiler metrics"
KERNELS_WITH_HOTSPOTS = 8
VARIANTS = 16
FACTS = {
    "units": ("device__attribute_multiprocessor_count", "launch__sm_count", "Launch Statistics/# SMs [SM]"),
    "simds_per_unit": ("device__attribute_num_schedulers_per_multiprocessor",),
    "wave_size": ("device__attribute_warp_size",),
    "max_waves_per_simd": ("device__attribute_max_warps_per_scheduler",),
    "lds_bytes_per_unit": ("device__attribute_max_shared_memory_per_multiprocessor",),
}
CLOCK_KHZ = "device__attribute_clock_rate"
SAID_ONCE = "times are ncu's own, with replays and its clocks: good for shares, never for a decision"


def sniff(path: Path) -> bool:
    """Whether `path` is a file of ncu, by its first 64 KiB. False for folders and what cannot be read."""
    return path.is_file() and (_is_report(path) or sniff_text(path))


def read_recording(path: Path) -> Recording:
    """One file of ncu, its kernels by their own time, hottest first, metrics in base units as means over the launches.

    Raises:
        CountersForbidden: the file holds the driver's refusal and no table.
        NothingProfiled: ncu ran and found no kernel.
        RecordingError: unreadable, cut, damaged, of two locales, or of an unknown layout. Names the line.
    """
    if path.is_file() and _is_report(path):
        raise RecordingError(path, "ncu's binary report; convert it: ncu -i REPORT --csv --page raw > OUT.csv")
    sheet = table(path)
    first_line, header = sheet.rows[0]
    if header[0] == "metric":
        return _recording(path, "ncu_values", sheet, read_metric_list(sheet.rows, path))
    if header[:2] != ["ID", "Process ID"]:
        return _source(path, sheet)
    if "Metric Value" not in header:
        return _recording(path, "ncu_raw", sheet, raw(sheet.rows, path))
    if not {"Metric Name", "Metric Unit", "Section Name"} <= set(header):
        raise RecordingError(path, "metrics without a column of names, units or sections", line=first_line)
    sections = {row[header.index("Section Name")] for _, row in sheet.rows[1:] if len(row) == len(header)}
    layout = "ncu_metrics" if sections == {COMMAND_LINE} else "ncu_details"
    return _recording(path, layout, sheet, details(sheet.rows, path))


def _recording(path: Path, layout: str, sheet: Table, page: tuple[list[Launch], str]) -> Recording:
    launches, warning = page
    kernels = _kernels(launches)
    device = next((launch.device for launch in launches if launch.device), None)
    arches = {_arch(launch.capability) for launch in launches if launch.capability}
    metrics = mean(launches)
    total = math.fsum(kernel.total_ns for kernel in kernels if kernel.total_ns is not None) or None
    return Recording(
        format=layout,
        tool="ncu",
        vendor="nvidia",
        arch=arches.pop() if len(arches) == 1 else None,
        device=device,
        grade="replay" if total else None,
        kernels=kernels,
        facts=_facts(metrics),
        rows=len(launches),
        sum_ns=total,
        files=(str(path),),
        warnings=_warnings(
            launches, (*sheet.warnings, *((warning,) if warning else ()), *((SAID_ONCE,) if total else ()))
        ),
    )


def _source(path: Path, sheet: Table) -> Recording:
    ranked, warning = listings(sheet.rows, path)
    kernels = tuple(_listed_kernel(listing) for listing in ranked)
    hottest = kernels[0].metrics
    notes = (f"stalls are those of {kernels[0].display}; hotspots name their kernel",) if len(kernels) > 1 else ()
    return Recording(
        format="ncu_source",
        tool="ncu",
        vendor="nvidia",
        kernels=kernels,
        stalls=hopper.stalls(hottest),
        hotspots=tuple(spot for listing in ranked[:KERNELS_WITH_HOTSPOTS] for spot in hotspots(listing)),
        rows=sum(len(listing.lines) for listing in ranked),
        files=(str(path),),
        warnings=(*sheet.warnings, *((warning,) if warning else ()), *notes),
    )


def _listed_kernel(listing: Listing) -> KernelCalls:
    totals = (Named(name=name, value=count / listing.sections) for name, count in sorted(listing.totals.items()))
    return KernelCalls(
        name=listing.name,
        display=display(listing.name),
        category=category(listing.name),
        calls=listing.sections,
        last=LaunchShape(calls=listing.sections),
        metrics=tuple(totals),
    )


def _kernels(launches: Sequence[Launch]) -> tuple[KernelCalls, ...]:
    by_name: dict[str, list[Launch]] = {}
    for launch in launches:
        by_name.setdefault(launch.name, []).append(launch)
    all_kernels_ns = math.fsum(time for launch in launches if (time := hopper.duration(launch.metrics)) is not None)
    kernels = [_kernel(name, group, all_kernels_ns) for name, group in by_name.items()]
    return tuple(sorted(kernels, key=lambda kernel: -(kernel.total_ns or 0)))


def _kernel(name: str, group: Sequence[Launch], all_kernels_ns: float) -> KernelCalls:
    times = [time for launch in group if (time := hopper.duration(launch.metrics)) is not None]
    if len(times) < len(group):
        times = []  # a sum over some of the launches would be no sum
    variants: dict[LaunchShape, list[Launch]] = {}
    for launch in group:
        variants.setdefault(_read_launch(launch), []).append(launch)
    total = math.fsum(times) if times else None
    return KernelCalls(
        name=name,
        display=display(name),
        category=category(name),
        calls=len(group),
        total_ns=total,
        mean_ns=total / len(times) if total is not None else None,
        median_ns=statistics.median(times) if times else None,
        min_ns=min(times, default=None),
        max_ns=max(times, default=None),
        stdev_ns=statistics.stdev(times) if len(times) > 1 else None,
        share=total / all_kernels_ns if total is not None and all_kernels_ns else None,
        last=_read_launch(group[-1]).model_copy(update={"calls": len(group)}),
        variants=tuple(
            shape.model_copy(update={"calls": len(members)})
            for shape, members in sorted(variants.items(), key=lambda item: -len(item[1]))[:VARIANTS]
        ),
        vgpr_total=_read_launch(group[-1]).arch_vgpr,
        metrics=tuple(Named(name=key, value=value) for key, value in mean(group).items()),
    )


def _read_launch(launch: Launch) -> LaunchShape:
    by_name = {number.name: number.value for number in hopper.numbers(_name(launch.metrics), tool="ncu")}
    shared, registers = by_name.get("shared.total_bytes"), by_name.get("regs.total_per_thread")
    return LaunchShape(
        calls=1,
        grid=launch.grid,
        workgroup=launch.block,
        blocks=launch.grid,
        arch_vgpr=int(registers) if registers is not None else None,
        lds_bytes=int(shared) if shared is not None else None,
    )


def _name(metrics: dict[str, float]) -> tuple[Named, ...]:
    return tuple(Named(name=name, value=value) for name, value in metrics.items())


def _facts(metrics: dict[str, float]) -> tuple[Named, ...]:
    facts = [
        Named(name=fact, value=metrics[name])
        for fact, names in FACTS.items()
        if (name := next((name for name in names if name in metrics), None)) is not None
    ]
    if CLOCK_KHZ in metrics:
        facts.append(Named(name="clock_mhz", value=metrics[CLOCK_KHZ] / 1e3))
    return tuple(facts)


def _warnings(launches: Sequence[Launch], warnings: tuple[str, ...]) -> tuple[str, ...]:
    unknown = sorted(set().union(*(launch.unknown for launch in launches)))
    if unknown:
        warnings = (*warnings, f"not available on this device, so unknown here: {', '.join(unknown[:8])}")
    swapped = [launch for launch in launches if _contradicts(launch)]
    if swapped:
        warnings = (
            *warnings,
            f"{len(swapped)} launches: Block Size and launch__block_size differ; check the recording",
        )
    if launches and all(not launch.metrics for launch in launches):
        warnings = (*warnings, "no metric of any launch could be read")
    return warnings


def _contradicts(launch: Launch) -> bool:
    size = launch.metrics.get("launch__block_size")
    return size is not None and launch.block is not None and math.prod(launch.block) != size


def _arch(capability: str) -> str:
    return f"sm_{capability.replace('.', '').replace(',', '')}"


def _is_report(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(REPORT_MAGIC)) == REPORT_MAGIC
    except OSError:
        return False
