"""What a file or a folder of profiler output is, by its content, and all recordings in it: `read_recordings`."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import cast

from ridgeline.graph.kernel_profile import Recording
from ridgeline.sandbox.profiles.readers import files, rocprof_csv
from ridgeline.sandbox.profiles.readers.files import Head, RecordingError, header
from ridgeline.sandbox.profiles.readers.rocprof_csv import merge

Recordings = tuple[Recording, ...]
Reader = Callable[[Path], Recordings]
OTHERS = ("att", "pc_sampling", "rocprof_compute", "ncu")
"""Modules of this package with `sniff(path) -> bool` and `read_recording(path) -> Recording`, asked in this order."""
WHOLE_FOLDERS = ("rocprof_compute",)
"""Of these, a folder is one recording with all that lies in it."""
WHOLE_FILES = ("rocpd", "results_json", "torch_trace", "nsys", "nsys_stats")
"""Modules with `sniff(path) -> bool` and `read_recordings(path) -> Recordings` that are asked next: a file each."""
KNOWN = (
    "rocprofv3's kernel_trace, kernel_stats, counter_collection, agent_info and API traces (CSV), results.json, rocpd "
    "databases, thread traces and PC samples; rocprof-compute folders; ncu's CSV pages; nsys' SQLite exports and what "
    "`nsys stats` prints of kernels (CSV, JSON, tables); torch.profiler's traces; a tar.gz of any of these"
)
REPORTS = {
    ".ncu-rep": "ncu --import {0} --csv --page raw --print-units base > {1}.csv",
    ".nsys-rep": "nsys export --type sqlite --output {1}.sqlite {0}",
    ".qdrep": "nsys export --type sqlite --output {1}.sqlite {0}",
}
"""Reports that only their own tool can read, and the command that exports them into what is read here."""
TIMELINES = (".pftrace", ".otf2")
INSTEAD = (
    "a timeline for viewers, which nothing turns back into a table: give what `rocpd convert -i {0}.db --output-format csv` "
    "writes where the database is beside it, else record with `rocprofv3 --kernel-trace --output-format csv json`"
)
FILES = 200_000
"""More files than this in a folder are not a profile."""


def read_recordings(path: Path) -> Recordings:
    """Everything that `path`, a file or a folder, holds: most compute time first, one recording per process and GPU.

    Raises `RecordingError`: for a file that is damaged, empty or nothing we know; for a folder with nothing readable.
    """
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise RecordingError(path, "no such file or folder")
    return _read_file(path)


def _read_file(path: Path) -> Recordings:
    if (command := REPORTS.get(path.suffix.lower())) is not None:
        exported = command.format(shlex.quote(path.name), shlex.quote(path.stem))
        raise RecordingError(path, f"only its own tool reads this; export it, and give what that writes: {exported}")
    if path.suffix.lower() in TIMELINES:
        raise RecordingError(path, INSTEAD.format(shlex.quote(path.stem)))
    reader = _reader(path)
    if reader is None:
        raise RecordingError(path, f"not a recording that is known here: {KNOWN}", line=1)
    return reader(path)


def _reader(path: Path) -> Reader | None:
    """Reading a profile: the reader of this file, by its first bytes; None for an unknown format.

    Modules are imported where they are asked: all of them together take as long as a small recording.
    """
    if files.is_archive_file(path):
        return _read_archive
    if rocprof_csv.is_surely_kernel_trace(path):
        return lambda file: rocprof_csv.read_kernel_trace(file, header(file))
    for name in OTHERS:
        reader = _reader_of_module(name, path)
        if reader is not None:
            return reader
    for name in WHOLE_FILES:
        module = import_module(f"ridgeline.sandbox.profiles.readers.{name}")
        if module.sniff(path):
            return cast(Reader, module.read_recordings)
    return _table(path)


def _table(path: Path) -> Reader | None:
    """Reading a profile: who reads a CSV file with that header. `RecordingError` when the first line cannot be one."""
    from ridgeline.sandbox.profiles.readers import agents, rocprof_csv

    head = header(path)
    if agents.sniff(head):
        return lambda file: (agents.recording(file, agents.read_agents(file, head)),)
    readers: tuple[tuple[Callable[[Head], bool], Callable[[Path, Head], Recordings]], ...] = (
        (rocprof_csv.is_counter_collection, rocprof_csv.read_counter_collection),
        (rocprof_csv.is_kernel_trace, rocprof_csv.read_kernel_trace),
        (rocprof_csv.is_kernel_stats, rocprof_csv.read_kernel_stats),
        (rocprof_csv.sniff_calls, rocprof_csv.read_calls),
    )
    reads = next((reads for sniffs, reads in readers if sniffs(head)), None)
    return None if reads is None else lambda file: reads(file, head)


def _read_archive(path: Path) -> Recordings:
    """Recordings in an archive of profiler files, read as if it were a folder."""
    with files.unpack(path) as folder:

        def restore_path(text: str) -> str:
            return text.replace(str(folder), str(path))

        try:
            recordings = _read_folder(folder)
        except RecordingError as error:
            raise RecordingError(
                Path(restore_path(str(error.path))), restore_path(error.what), line=error.line
            ) from error
        return tuple(
            recording.model_copy(
                update={
                    "files": tuple(restore_path(file) for file in recording.files),
                    "warnings": tuple(restore_path(warning) for warning in recording.warnings),
                }
            )
            for recording in recordings
        )


def _reader_of_module(name: str, path: Path) -> Reader | None:
    module = import_module(f"ridgeline.sandbox.profiles.readers.{name}")
    if not module.sniff(path):
        return None
    read_each: Reader | None = getattr(module, "read_each", None)  # of a reader that may find several in one folder
    return read_each if read_each is not None else lambda file: (module.read_recording(file),)


@dataclass
class _Walk:
    """What was found below a folder."""

    files: list[tuple[Path, Recordings]] = field(default_factory=list)
    faults: list[RecordingError] = field(default_factory=list)
    entries: int = 0

    def take(self, path: Path, reader: Reader) -> None:
        try:
            self.files.append((path, reader(path)))
        except RecordingError as fault:
            self.faults.append(fault)


def _read_folder(path: Path) -> Recordings:
    walk = _Walk()
    _descend(path, walk, frozenset())
    if not walk.files:
        if walk.faults:
            raise walk.faults[0]
        raise RecordingError(path, f"holds no recording that is known here: {KNOWN}")
    recordings = merge(walk.files)
    if walk.faults:
        notes = tuple(f"left out: {fault}" for fault in walk.faults)
        recordings = (recordings[0].model_copy(update={"warnings": (*recordings[0].warnings, *notes)}), *recordings[1:])
    return recordings


def _descend(folder: Path, walk: _Walk, readers: frozenset[str]) -> None:
    """Reading a profile: reads a folder and those below it. `readers`: those that already have this folder from above."""
    inside = set(readers)
    for name in OTHERS:
        reader = None if name in readers else _reader_of_module(name, folder)
        if reader is not None:
            walk.take(folder, reader)
            inside.add(name)
            if name in WHOLE_FOLDERS:
                return
    if _is_viewer(folder):
        return
    for child in sorted(folder.iterdir()):
        walk.entries += 1
        if walk.entries > FILES:
            raise RecordingError(folder, f"more than {FILES} files: name the folder of one run")
        if child.is_dir():
            _descend(child, walk, frozenset(inside))
        elif child.is_file():
            _take_file(child, walk, inside)


def _is_viewer(folder: Path) -> bool:
    """A folder of the thread trace viewer: its thousands of JSON files belong to the trace already read."""
    return all((folder / name).is_file() for name in ("code.json", "filenames.json"))


def _take_file(path: Path, walk: _Walk, readers: set[str]) -> None:
    if any(_reader_of_module(name, path) is not None for name in readers):
        return
    try:
        reader = _reader(path)
    except RecordingError as fault:
        # logs and pictures beside a profile are no header either: only what has a profiler's ending is missed
        if path.suffixes[-1:] == [".csv"] or path.suffix in (".db", ".json"):
            walk.faults.append(fault)
        return
    if reader is not None:
        walk.take(path, reader)
