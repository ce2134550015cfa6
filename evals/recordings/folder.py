"""A recording's folder: what lies where, and what is wrong with one that cannot be used."""

import json
from pathlib import Path

from pydantic import ValidationError

from ridgeline.agent.errors import UserError
from ridgeline.graph.record import Line
from ridgeline.graph.state import Request
from ridgeline.graph.values import SCHEMA
from ridgeline.sandbox.store.ledger import JsonlLedger, verify

LEDGER = "ledger.jsonl"
TAPE = "tape.jsonl"
WORKSPACE = "workspace.jsonl"
"""What git answered: a recording has no repository."""
MODEL_TAPE = "model_tape.jsonl"
REQUEST = "request.json"
ARTIFACTS = "artifacts"
MAILBOX = "mailbox"
CARD = "recording.json"


class Folder:
    """One recording. Every method raises UserError naming file and mend for what cannot be used."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UserError(f"{path}: is not a folder; give that of a recorded campaign")
        self.path = path.resolve()

    @property
    def name(self) -> str:
        """Of the recording, for people."""
        return self.path.name

    def request(self) -> Request:
        """What the campaign was asked for."""
        return read_request(self.path)

    def ledger(self) -> tuple[bytes, ...]:
        """The recorded lines, each with its newline, after the whole file was verified."""
        return read_ledger(self.path)

    def lines(self) -> tuple[Line, ...]:
        """The same, parsed."""
        self.ledger()
        return JsonlLedger(self.path / LEDGER).lines()

    def file(self, name: str) -> Path:
        """A file that replay cannot do without."""
        found = self.path / name
        if not found.is_file():
            raise UserError(f"{found}: not found; export the campaign with `ridgeline export-recording`")
        return found


def read_request(folder: Path) -> Request:
    """From `request.json` of a campaign or a recording. Raises UserError."""
    path = folder / REQUEST
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: not found; give the folder of a recorded campaign") from error
    except ValueError as error:
        raise UserError(f"{path}: is not JSON any more ({error}); restore it from a copy") from error
    if not isinstance(kept, dict) or kept.get("schema") != SCHEMA or "request" not in kept:
        raise UserError(f"{path}: schema: is not {SCHEMA}; use the version of Ridgeline that wrote it")
    try:
        return Request.model_validate(kept["request"])
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UserError(f"{path}: request.{where}: {error.errors()[0]['msg']}; restore it from a copy") from error


def read_ledger(folder: Path) -> tuple[bytes, ...]:
    """Lines of a ledger that is whole and true. Raises UserError for one that is missing, cut or changed."""
    path = folder / LEDGER
    found = verify(path)
    if not found.ok or found.problem:
        problem = found.problem or ""
        told = problem if str(path) in problem else f"{path}: line {found.lines + 1}: {problem}"
        raise UserError(f"{told}; restore the file from a copy")
    if not found.lines:
        raise UserError(f"{path}: is empty; restore the file from a copy")
    return tuple(path.read_bytes().splitlines(keepends=True))
