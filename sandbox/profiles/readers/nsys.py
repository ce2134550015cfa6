"""Nsight Systems: the SQLite database that `nsys export --type sqlite` writes, opened read-only.

Kernels, copies and fills of every GPU with their launches; times are nanoseconds on one clock. Columns that a version
of the tool does not write are not told. Nothing of the process, its environment or its command line is read.
"""

import csv
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ridgeline.graph.kernel_profile import KernelCalls, LaunchShape, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers import dispatches
from ridgeline.sandbox.profiles.readers.dispatches import Key, load, open_rows, recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError, beginning

FORMAT = "nsys_sqlite"
TOOL = "nsys"
MAGIC = b"SQLite format 3\0"
KERNELS, COPIES, FILLS = (f"CUPTI_ACTIVITY_KIND_{what}" for what in ("KERNEL", "MEMCPY", "MEMSET"))
COPIED = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
"""CUpti_ActivityMemcpyKind; others are copies all the same."""
GRID, BLOCK = ("gridX", "gridY", "gridZ"), ("blockX", "blockY", "blockZ")
SHARED = ("staticSharedMemory", "dynamicSharedMemory")
LAUNCHED = (*GRID, *BLOCK, "registersPerThread", *SHARED, "localMemoryPerThread")


def sniff(path: Path) -> bool:
    """Whether a file is a database with kernels of CUPTI's activities or with the words of an export of nsys."""
    if not beginning(path).startswith(MAGIC):
        return False
    try:
        with closing(_open(path)) as base:
            tables = _tables(base)
    except sqlite3.Error:
        return False
    return "StringIds" in tables and bool({KERNELS, COPIES, FILLS, "META_DATA_EXPORT", "EXPORT_META_DATA"} & tables)


def read_recordings(path: Path) -> tuple[Recording, ...]:
    """One recording per GPU, most time first.

    Raises `RecordingError` for a database that is damaged, and where nothing ran on a GPU while it recorded.
    """
    try:
        with closing(_open(path)) as base:
            by_gpu, cards = record(path, _events(base), FORMAT), _cards(base)
    except sqlite3.Error as error:
        raise RecordingError(path, f"cannot be read as a database of nsys: {error}") from error
    return tuple(_place(recording, cards) for recording in by_gpu)


def record(path: Path, events: Iterable[Sequence[Any]], form: str) -> tuple[Recording, ...]:
    """One recording per device of events, each (start, end, device, stream, name, launch in the order of LAUNCHED).

    Grids are blocks, as the tool counts them. `RecordingError` where there is none.
    """
    kinds: dict[tuple[object, ...], int] = {}
    with open_rows(path) as rows:
        events_file = rows.room / "events.csv"
        with events_file.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(dispatches.DISPATCH)
            for start, end, *kind in events:
                writer.writerow((kinds.setdefault(tuple(kind), len(kinds)), start, end))
        if not kinds:
            what = "nothing ran on a GPU while it recorded, or CUDA was not traced: `nsys profile --trace cuda`"
            raise RecordingError(path, what)
        keys = [_key(kind) for kind in kinds]
        loaded = load(rows, events_file, dispatches.head(dispatches.DISPATCH), lambda text: keys[int(text)])
        by_gpu = recordings(loaded, form=form, files=(str(path),), static_lds=False)
    return tuple(
        recording.model_copy(update={"kernels": tuple(_kernel(kernel) for kernel in recording.kernels)})
        for recording in by_gpu
    )


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)


def _tables(base: sqlite3.Connection) -> set[str]:
    return {name for (name,) in base.execute("select name from sqlite_master where type in ('table', 'view')")}


def _events(base: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Reading a profile: (start, end, device, stream, name, launch in the order of LAUNCHED) of all that ran on a GPU."""
    tables = _tables(base)
    if KERNELS in tables:
        columns = _columns(base, KERNELS)
        name = next(column for column in ("demangledName", "shortName", "name") if column in columns)
        launched = [f"k.{column}" if column in columns else "null" for column in LAUNCHED]
        yield from base.execute(
            f'select k.start, k."end", {_place_of(columns)}, coalesce(s.value, k.{name}), {", ".join(launched)} '
            f"from {KERNELS} k left join StringIds s on s.id = k.{name}"
        )
    nothing = (None,) * len(LAUNCHED)
    for table, what in ((COPIES, "Memcpy"), (FILLS, "Memset")):
        if table in tables:
            columns = _columns(base, table)
            kind = "k.copyKind" if "copyKind" in columns else "null"
            found = base.execute(f'select k.start, k."end", {_place_of(columns)}, {kind} from {table} k')
            for start, end, device, stream, copied in found:
                yield (start, end, device, stream, " ".join((what, *filter(None, (COPIED.get(copied),)))), *nothing)


def _columns(base: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in base.execute(f"pragma table_info({table})")}


def _place_of(columns: set[str]) -> str:
    return ", ".join(f"k.{column}" if column in columns else "0" for column in ("deviceId", "streamId"))


def _key(kind: Sequence[Any]) -> Key:
    """Grids in work-items, as all sources of dispatches tell them."""
    device, stream, name, *launched = kind
    told = dict(zip(LAUNCHED, launched, strict=True))
    block = [told[column] for column in BLOCK]
    items = [
        None if grid is None or width is None else grid * width
        for grid, width in zip((told[column] for column in GRID), block, strict=True)
    ]
    sizes = [told[column] for column in SHARED if told[column] is not None]
    shared = sum(sizes) if sizes else None
    launch = (*block, *items, told["registersPerThread"], None, None, shared, told["localMemoryPerThread"])
    return Key(str(device), str(stream), str(name), launch)


def _cards(base: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Reading a profile: what the database says of each GPU, by its number."""
    if "TARGET_INFO_GPU" not in _tables(base):
        return {}
    found = base.execute("select * from TARGET_INFO_GPU")
    names = [column[0] for column in found.description]
    rows = [dict(zip(names, row, strict=True)) for row in found]
    return {str(row.get("id")): row for row in rows}


def _place(recording: Recording, cards: dict[str, dict[str, Any]]) -> Recording:
    """Reading a profile: with the device's words, and grids as the tool counts them."""
    number = (recording.device or "").removeprefix("Agent ")
    card = cards.get(number, {})
    major, minor, units = (card.get(key) for key in ("computeMajor", "computeMinor", "smCount"))
    return recording.model_copy(
        update={
            "tool": TOOL,
            "vendor": "nvidia",
            "arch": f"sm_{major}{minor}" if isinstance(major, int) and isinstance(minor, int) else None,
            "device": str(card.get("name") or f"GPU {number}"),
            "facts": (*recording.facts, *((Named(name="units", value=float(units)),) if units else ())),
        }
    )


def _kernel(kernel: KernelCalls) -> KernelCalls:
    return kernel.model_copy(
        update={
            "last": _in_blocks(kernel.last),
            "variants": tuple(_in_blocks(launch) for launch in kernel.variants),
            "vgpr_total": kernel.last.arch_vgpr,
        }
    )


def _in_blocks(launch: LaunchShape) -> LaunchShape:
    return launch.model_copy(update={"grid": launch.blocks})
