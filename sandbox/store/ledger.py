"""The ledger on disk: one JSON line per closed event, each chained to the one before it by sha256."""

import hashlib
import json
import logging
from pathlib import Path

from pydantic import ValidationError

from ridgeline.graph.errors import LedgerCorrupt, SchemaMismatch
from ridgeline.graph.record import Body, Line, key
from ridgeline.graph.values import SCHEMA, Value
from ridgeline.sandbox.store.durable import Unsynced, append_whole, full_disk_named, lock_file
from ridgeline.sandbox.store.json_file import NotJson, parse_json

logger = logging.getLogger(__name__)

FIRST = "0" * 64
"""`prev` of the first line."""


class Verification(Value):
    """What a look at a ledger found, without changing it."""

    ok: bool
    lines: int
    """Lines that are whole and true, before the first problem."""
    problem: str | None = None


class JsonlLedger:
    """Port `Ledger` on a file. Appending is idempotent by the event's key and durable when it returns."""

    def __init__(self, path: Path, *, rests_on: Unsynced | None = None) -> None:
        """`rests_on`: what must be on the disk before a line that cites it."""
        self._path = path
        self._rests_on = rests_on
        self._lines: tuple[Line, ...] = ()
        self._read_bytes = -1
        """Bytes of the file that `_lines` stands for; -1 before the first read."""

    def append(self, *bodies: Body) -> None:
        """Add events, each once, in one write. A second body of a key and other content is logged and left out.

        Raises LedgerCorrupt or SchemaMismatch when the file is not one to add to, DiskFull when there is no space.
        """
        with lock_file(self._path):
            cut_torn_line(self._path)
            lines = self.lines()
            count_before, data = len(lines), b""
            for body in bodies:
                recorded_line = next((line for line in lines if line.key == key(body)), None)
                if recorded_line is None:
                    line = seal_line(body, seq=len(lines), prev=lines[-1].sha256 if lines else FIRST)
                    data += _canonical(line.model_dump(mode="json")) + b"\n"
                    lines = (*lines, line)
                elif recorded_line.body != body:
                    logger.warning(
                        "%s: %s is already recorded otherwise; the first is kept", self._path, recorded_line.key
                    )
            if len(lines) == count_before:
                return
            if self._rests_on is not None:
                self._rests_on.sync()
            append_whole(self._path, data)
            self._lines = lines
            self._read_bytes += len(data)

    def lines(self) -> tuple[Line, ...]:
        """All whole lines, in order; read again only when another process has added some.

        Raises LedgerCorrupt naming the first line that is not what was written, SchemaMismatch for another version.
        """
        size = self._size()
        if size != self._read_bytes:
            data = self._path.read_bytes() if size else b""
            whole_lines = data[: data.rfind(b"\n") + 1]
            if len(whole_lines) < len(data):
                logger.warning("%s: a last line of %d bytes was cut short", self._path, len(data) - len(whole_lines))
            self._lines = _parse(whole_lines, self._path)
            self._read_bytes = len(data)
        return self._lines

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0


def cut_torn_line(path: Path) -> None:
    """Move what a killed writer left behind to `<name>.torn`, so that the next line begins on its own."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end == len(data):
        return
    torn = path.with_name(path.name + ".torn")
    append_whole(torn, data[end:] + b"\n")
    logger.warning("%s: its torn last line was moved to %s", path, torn.name)
    with full_disk_named(path), path.open("r+b") as file:
        file.truncate(end)


def seal_line(body: Body, *, seq: int, prev: str) -> Line:
    """The line that records a body at its place in the chain."""
    open_line = Line(seq=seq, key=key(body), prev=prev, body=body, sha256="")
    return open_line.model_copy(update={"sha256": _seal(open_line.model_dump(mode="json"))})


def verify(path: Path) -> Verification:
    """Check a ledger without changing or locking it: chain, hashes, version. Never raises for what is in the file."""
    if not path.exists():
        return Verification(ok=False, lines=0, problem=f"{path}: does not exist")
    data = path.read_bytes()
    whole_lines = data[: data.rfind(b"\n") + 1]
    try:
        lines = _parse(whole_lines, path)
    except LedgerCorrupt as error:
        return Verification(ok=False, lines=error.line - 1, problem=str(error))
    except SchemaMismatch as error:
        return Verification(ok=False, lines=0, problem=str(error))
    if len(whole_lines) < len(data):
        return Verification(ok=True, lines=len(lines), problem="the last line was cut short and will be set aside")
    return Verification(ok=True, lines=len(lines))


def _parse(data: bytes, path: Path) -> tuple[Line, ...]:
    lines: list[Line] = []
    for number, raw in enumerate(data.splitlines(), start=1):
        line = _line(raw, path, number)
        if line.seq != number - 1 or line.prev != (lines[-1].sha256 if lines else FIRST):
            raise LedgerCorrupt(str(path), line=number, why="does not follow the line before it")
        lines.append(line)
    return tuple(lines)


def _line(raw: bytes, path: Path, number: int) -> Line:
    try:
        fields = parse_json(raw)
    except NotJson as error:
        raise LedgerCorrupt(str(path), line=number, why=str(error)) from error
    if not isinstance(fields, dict):
        raise LedgerCorrupt(str(path), line=number, why="is not a JSON object")
    if (version := fields.get("schema_version")) != SCHEMA:
        raise SchemaMismatch(
            f"{path}: line {number}: schema_version is {version!r}, this Ridgeline reads {SCHEMA};"
            " use the version that wrote it, or start a new campaign"
        )
    if fields.get("sha256") != _seal(fields):
        raise LedgerCorrupt(str(path), line=number, why="was changed after it was written (its sha256 differs)")
    try:
        return Line.model_validate(fields)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise LedgerCorrupt(str(path), line=number, why=f"field {where} is not valid") from error


def _seal(line: dict[str, object]) -> str:
    return hashlib.sha256(_canonical({name: value for name, value in line.items() if name != "sha256"})).hexdigest()


def _canonical(value: object) -> bytes:
    """One spelling of one value: sorted names, no spaces, UTF-8, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
