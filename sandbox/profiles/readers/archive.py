"""A recording as one file: a tar.gz of what profilers wrote, always the same bytes for the same files."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from ridgeline.sandbox.profiles.readers.fault import RecordingError

GZIP = b"\x1f\x8b"
MAGIC = slice(257, 262)
"""Where a tar file says `ustar`."""
MOST_BYTES = 4 << 30
"""Unpacked: as much as a folder of a thread trace may have. What is larger is read as a folder."""
MOST_FILES = 50_000
DAMAGE = (tarfile.TarError, OSError, EOFError, zlib.error, ValueError)
Member = tuple[str, bytes]


def pack(files: Sequence[Member]) -> bytes:
    """A tar.gz of files with relative names, in their order, without times or owners."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def is_archive(data: bytes) -> bool:
    """Whether the beginning of some data is that of a tar.gz."""
    if data[:2] != GZIP:
        return False
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(512)[MAGIC] == b"ustar"
    except DAMAGE:
        return False


def members(data: bytes) -> Sequence[Member]:
    """What `pack` was given. Raises tarfile.TarError or OSError for what it never made."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return [(info.name, _content(archive, info).read()) for info in archive if info.isfile()]


def rewritten(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """The archive with each file's content changed."""
    return pack([(name, change(content)) for name, content in members(data)])


def sniff(path: Path) -> bool:
    """Whether a file is a tar.gz, whatever its name."""
    with path.open("rb") as stream:
        return is_archive(stream.read(1 << 16))


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A folder with the files of the archive, gone after the block.

    Raises `RecordingError` where the archive is cut, damaged or too large, or names a file outside of itself.
    """
    with TemporaryDirectory(prefix="ridgeline-archive-") as folder:
        try:
            with tarfile.open(path, mode="r:gz") as archive:
                _extract(path, archive, Path(folder))
        except RecordingError:
            raise
        except DAMAGE as error:
            raise RecordingError(path, f"is a tar.gz that is cut or damaged: {error}") from error
        yield Path(folder)


def _extract(path: Path, archive: tarfile.TarFile, folder: Path) -> None:
    left = MOST_BYTES
    for count, info in enumerate(archive):
        name = PurePosixPath(info.name)
        if info.isdir():
            continue
        if not info.isfile() or name.is_absolute() or ".." in name.parts:
            raise RecordingError(path, f"{info.name[:80]!r} is no plain file inside the archive")
        left -= info.size
        if left < 0 or count >= MOST_FILES:
            raise RecordingError(path, f"holds more than {MOST_BYTES >> 30} GiB or {MOST_FILES} files: unpack it")
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as stream:
            content = _content(archive, info)
            while chunk := content.read(1 << 20):
                stream.write(chunk)


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> "io.BufferedReader":
    content = archive.extractfile(info)
    assert isinstance(content, io.BufferedReader)  # only None for what is no file
    return content
