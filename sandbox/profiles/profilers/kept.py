"""What profilers wrote, kept with the campaign: whole recordings in one archive of bounded size, the rest named."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ridgeline.sandbox.profiles.readers.archive import Member, pack

RAW = 64 << 20
"""Bytes of all recordings of one version together, before they are packed."""
PACKED = 8 << 20
"""Bytes of the archive."""
NAME = "recordings.tar.gz"
LEFT_OUT = re.compile(r"results\.json$|\.(db|att|out|pftrace|part)$")
"""Files that no reader needs beside the others, and that hold the command line, the environment or code objects."""
HOST = re.compile(rb'("host_name"\s*:\s*)"[^"]*"')
HEAD = 1 << 16


def archived(paths: Sequence[Path], root: Path) -> tuple[bytes | None, tuple[str, ...]]:
    """The archive of these files and folders below `root`, and a note on each that is left out for its size.

    A recording is kept whole or not at all: half of a thread trace would be read as another one. None for nothing.
    """
    kept: list[tuple[str, list[Member]]] = []
    notes: list[str] = []
    room = RAW
    for path in paths:
        files = [file for file in _files(path) if not LEFT_OUT.search(file.name)]
        size = sum(file.stat().st_size for file in files)
        name = path.relative_to(root).as_posix()
        if size > room:
            notes.append(_elided(name, len(files), size))
            continue
        room -= size
        kept.append((name, [(file.relative_to(root).as_posix(), _read(file)) for file in files]))
    while kept:
        data = pack([member for _, members in kept for member in members])
        if len(data) <= PACKED:
            return data, tuple(notes)
        largest = max(kept, key=lambda one: _size(one[1]))
        kept.remove(largest)
        notes.append(_elided(largest[0], len(largest[1]), _size(largest[1])))
    return None, tuple(notes)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in sorted(path.rglob("*")) if file.is_file() and not file.is_symlink())
    else:
        yield path


def _read(file: Path) -> bytes:
    """The content, without the name of the machine that torch writes at the top."""
    data = file.read_bytes()
    return HOST.sub(rb'\1""', data[:HEAD]) + data[HEAD:] if file.suffix == ".json" else data


def _size(members: Sequence[Member]) -> int:
    return sum(len(data) for _, data in members)


def _elided(name: str, files: int, size: int) -> str:
    return f"not kept for its size: the recording {name} ({files} files, {size / 1e6:.1f} MB)"
