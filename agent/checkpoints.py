"""SQLite checkpoints: a convenience for resuming inside a round. The ledger is the record."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from ridgeline.graph.build import CHECKPOINTED

logger = logging.getLogger(__name__)
FILE = "checkpoints.sqlite"


@contextmanager
def checkpoints(folder: Path) -> Iterator[SqliteSaver]:
    """The campaign's saver; a file that is not a database any more is moved aside and begun afresh."""
    path = folder / FILE
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
