"""The ledger on disk: one JSON line per closed event, each chained to the one before it by sha256."""

import hashlib
import json
import logging
import time
from pathlib import Path

from pydantic import ValidationError

from ridgeline.graph.errors import LedgerCorrupt, SchemaMismatch
from ridgeline.graph.record import Body, Line, key
from ridgeline.graph.values import SCHEMA, Value
from ridgeline.sandbox.store.durable import (
    UnsyncedFiles,
    append_whole,
    cache_folder,
    full_disk_named,
    lock_file,
    sync_folder,
    write_whole,
)
from ridgeline.sandbox.store.json_file import NotJson, parse_json

logger = logging.getLogger(__name__)

SETTLED_NS = 100_000_000
"""The kernel's file times move in ticks of up to 10 ms: what changed more recently than this is read again."""
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

    def __init__(
        self,
        path: Path,
        *,
        rests_on: UnsyncedFiles | None = None,
        alone: bool = False,
        head: "LedgerHead | None" = None,
    ) -> None:
        """`rests_on`: what must be on the disk before a line that cites it.

        `alone`: this process is the one writer; what another wrote since it first read is put aside, and its own put back.
        `head`: where the ledger ended when this machine last wrote it, as one that is `alone` looks up when it first reads.
        """
        self._path = path
        self._rests_on = rests_on
        self._alone, self._head = alone, head
        self._whole_lines: bytes | None = None
        """Alone: the whole lines as this process read and wrote them; None before the first read."""
        self._signs: tuple[int, ...] | None = None
        self._lines: tuple[Line, ...] = ()
        self._read_bytes = -1
        """Bytes of the file that `_lines` stands for; -1 before the first read."""

    def append(self, *bodies: Body) -> None:
        """Add events to the ledger's file, each once, in one write. A second body of a key and other content is logged and left out.

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
            self._announce(lines, added=len(lines) - count_before)
            append_whole(self._path, data)
            self._lines = lines
            self._read_bytes += len(data)
            if self._whole_lines is not None:
                self._whole_lines += data
                self._signs = None

    def lines(self) -> tuple[Line, ...]:
        """All whole lines of the ledger's file, in order; read again only when another process has added some.

        Raises LedgerCorrupt naming the first line that is not what was written, SchemaMismatch for another version.
        """
        if self._alone:
            return self._own_lines()
        size = self._size()
        if size != self._read_bytes:
            data = self._path.read_bytes() if size else b""
            whole_lines = data[: data.rfind(b"\n") + 1]
            if len(whole_lines) < len(data):
                logger.warning("%s: a last line of %d bytes was cut short", self._path, len(data) - len(whole_lines))
            self._lines = _parse(whole_lines, self._path)
            self._read_bytes = len(data)
        return self._lines

    def _announce(self, lines: tuple[Line, ...], *, added: int) -> None:
        """Bring to the disk what the new lines rest on, and by which heads the ledger is known from here on."""
        if self._head is not None:
            self._head.announce(lines, added=added)
            if self._rests_on is not None:
                self._rests_on.add(self._head.path)
            else:
                sync_folder(self._head.path)
        if self._rests_on is not None:
            self._rests_on.sync()

    def _own_lines(self) -> tuple[Line, ...]:
        """The ledger's lines that this process read first and wrote since, whatever another process made of the file."""
        signs = _signs(self._path)
        if self._whole_lines is not None and signs is not None and signs == self._signs:
            return self._lines
        data = self._path.read_bytes() if signs is not None else b""
        if self._whole_lines is None:
            self._whole_lines = data[: data.rfind(b"\n") + 1]
            self._lines = _parse(self._whole_lines, self._path)
            if self._head is not None:
                self._head.check(self._lines, self._path)
        if not data.startswith(self._whole_lines) or b"\n" in data[len(self._whole_lines) :]:
            self._put_back(data)
            signs = _signs(self._path)
        self._read_bytes = len(self._whole_lines)
        self._signs = signs if signs is not None and time.time_ns() - signs[2] > SETTLED_NS else None
        return self._lines

    def _put_back(self, foreign: bytes) -> None:
        """Write the ledger's lines that this process knows; what another program left there is kept beside it."""
        assert self._whole_lines is not None
        number = 1
        while (aside := self._path.with_name(f"{self._path.name}.foreign-{number}")).exists():
            number += 1
        write_whole(aside, foreign)
        write_whole(self._path, self._whole_lines)
        logger.warning(
            "%s: was changed by another program; put back, and what stood there is %s", self._path, aside.name
        )

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0


def cut_torn_line(path: Path) -> None:
    """Move what a killed writer left behind a file's last whole line to `<name>.torn`, so that the next line begins on its own."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end == len(data):
        return
    torn = path.with_name(path.name + ".torn")
    append_whole(torn, data[end:] + b"\n")
    logger.warning("%s: its torn last line was moved to %s", path, torn.name)
    with full_disk_named(path), path.open("r+b") as file:
        file.truncate(end)


def _signs(path: Path) -> tuple[int, ...] | None:
    """Inode, size and change time in ns of the ledger's file, which no process can set back; None without a file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns


class LedgerHead:
    """Where a ledger ends, as this machine wrote it: kept in the user's cache, which no command of a contract can reach."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, ledger: Path) -> "LedgerHead | None":
        """The head of the ledger at that place; None for a user without a place for it."""
        folder = cache_folder("heads")
        return (
            None
            if folder is None
            else cls(folder / f"{hashlib.sha256(str(ledger.resolve()).encode()).hexdigest()[:32]}.json")
        )

    def announce(self, lines: tuple[Line, ...], *, added: int) -> None:
        """Notes outside the ledger how its lines will end, the last of them `added` now; killed between, either end is the true one."""
        ends = [line.sha256 for line in lines[-added - 1 :]] if len(lines) > added else [FIRST, lines[-1].sha256]
        write_whole(
            self.path,
            _canonical({"ends": [ends[0], ends[-1]], "lines": len(lines)}),
            synced=False,
        )

    def check(self, lines: tuple[Line, ...], ledger: Path) -> None:
        """Raise LedgerCorrupt where the ledger's lines do not end as this machine wrote them; fewer of them are only warned of.

        Nothing is known of a ledger that was copied here. One that was copied away, continued there and copied back looks like
        one that a candidate added to: the error says how to vouch for it.
        """
        try:
            head = json.loads(self.path.read_text(encoding="utf-8"))
            ends, count = frozenset(map(str, head["ends"])), int(head["lines"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        if not lines or lines[-1].sha256 in ends:
            return
        if len(lines) < count:
            logger.warning(
                "%s: had %d lines when this machine last wrote it, and has %d now", ledger, count, len(lines)
            )
            return
        end = next((at for at in range(len(lines), 0, -1) if lines[at - 1].sha256 in ends), 0)
        raise LedgerCorrupt(
            str(ledger),
            line=end + 1,
            why=f"and what follows is not what this machine wrote: a candidate may have; if you did, remove {self.path}",
        )


def seal_line(body: Body, *, seq: int, prev: str) -> Line:
    """The ledger's line that records a body at its place in the chain."""
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
    """One spelling of one value for the ledger: sorted names, no spaces, UTF-8, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
