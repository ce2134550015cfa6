"""Where the loop stands inside a round: a convenience for resuming. The ledger is the record."""

import errno
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from ridgeline.agent.campaign.state_files import read_manifest
from ridgeline.agent.errors import UserError
from ridgeline.graph.errors import WorldError, install_command
from ridgeline.graph.loop.build import CHECKPOINTED
from ridgeline.sandbox.store.durable import name_full_disk

logger = logging.getLogger(__name__)

VARIABLE = "RIDGELINE_CHECKPOINTS"
"""`postgresql://USER@HOST/DATABASE`: checkpoints of campaigns that may go on on another machine."""
FILE = "checkpoints.sqlite"
SQLITE_DISK = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EIO,
}
"""SQLite's own codes for what is wrong with a file system, in the system's words."""


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """A campaign's own among those of a database."""

    saver: BaseCheckpointSaver[str]
    thread: str = "campaign"

    def delete(self) -> None:
        """Forget the campaign's checkpoints: the ledger is beyond them."""
        self.saver.delete_thread(self.thread)


@contextmanager
def open_checkpoints(folder: Path) -> Iterator[Checkpoints]:
    """A campaign's checkpoints: in PostgreSQL where RIDGELINE_CHECKPOINTS names a database, else in its folder.

    A file that is not a database any more is moved aside and begun afresh. Raises DiskFull; UserError for a database that
    does not answer, WorldError for one that does not any more.
    """
    if address := os.environ.get(VARIABLE, ""):
        with _open_postgres(address) as postgres:
            yield Checkpoints(saver=postgres, thread=name_thread(folder))
        return
    path = folder / FILE
    try:
        with _saver(path) as saver:
            yield Checkpoints(saver=saver)
    except sqlite3.OperationalError as error:
        code = SQLITE_DISK.get(error.sqlite_errorcode & 0xFF)
        if code is None:
            raise
        raise name_full_disk(path, code) from error


@contextmanager
def _saver(path: Path) -> Iterator[SqliteSaver]:
    """The saver of checkpoints on that file."""
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        connection.execute("PRAGMA schema_version").fetchone()
        connection.execute("PRAGMA quick_check").fetchone()
    except sqlite3.DatabaseError:
        connection.close()
        aside = path.with_suffix(".damaged")
        path.replace(aside)
        logger.warning("%s was damaged and is now %s; going on from the ledger", path.name, aside.name)
        connection = sqlite3.connect(path, check_same_thread=False)
    try:
        saver = SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=CHECKPOINTED))
        saver.setup()
        # a lost power supply may cost the open round's work, never a closed round: that is the ledger's to keep
        connection.execute("PRAGMA synchronous=NORMAL")
        yield saver
    finally:
        connection.close()


def name_thread(folder: Path) -> str:
    """The campaign's name in a checkpoint database that others use too: the same wherever its folder lies."""
    manifest = read_manifest(folder)
    request = manifest.request
    begun = "\n".join((manifest.repository, request.contract_path, request.campaign, request.created))
    return f"{request.campaign}-{sha256(begun.encode()).hexdigest()[:16]}"


@contextmanager
def _open_postgres(address: str) -> Iterator[BaseCheckpointSaver[str]]:
    """The maintained saver of checkpoints on a PostgreSQL connection; its tables are made where they are missing."""
    try:
        psycopg: Any = import_module("psycopg")
        postgres: Any = import_module("langgraph.checkpoint.postgres")
    except ImportError:
        raise UserError(
            f"{VARIABLE}: PostgreSQL's packages are not installed; {install_command('langgraph.checkpoint.postgres', 'psycopg')}"
        ) from None
    try:
        rows = import_module("psycopg.rows").dict_row
        connection = psycopg.connect(
            address, autocommit=True, prepare_threshold=0, row_factory=rows, connect_timeout=20
        )
    except psycopg.Error as error:
        said = " ".join(str(error).split())[:200]
        raise UserError(f"{VARIABLE}: {said}; start the database, correct the address, or unset the variable") from None
    try:
        with connection:
            saver = postgres.PostgresSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=CHECKPOINTED))
            saver.setup()
            yield saver
    except psycopg.Error as error:
        said = " ".join(str(error).split())[:200]
        raise WorldError(
            f"{VARIABLE}: {said}; nothing closed is lost: go on with `ridgeline resume` when the database answers again"
        ) from error
