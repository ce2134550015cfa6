"""A recording's folder: what lies where, and what is wrong with one that cannot be used."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from ridgeline.agent.campaign.state_files import describe_gap, find_lost_lines, read_shown_end
from ridgeline.agent.errors import UserError
from ridgeline.graph.record import Line
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.graph.state import Request
from ridgeline.graph.values import SCHEMA, Artifact, Value
from ridgeline.sandbox.store.json_file import NotJson, parse_json
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
        """The recorded campaign's name, for people."""
        return self.path.name

    def request(self) -> Request:
        """What the recorded campaign was asked for."""
        return read_request(self.path)

    def ledger(self) -> tuple[bytes, ...]:
        """The recorded campaign's ledger lines, each with its newline, after the whole file was verified."""
        return read_ledger(self.path)

    def lines(self) -> tuple[Line, ...]:
        """The recorded campaign's ledger lines, parsed."""
        self.ledger()
        return JsonlLedger(self.path / LEDGER).lines()

    def file(self, name: str) -> Path:
        """A file of a recorded campaign that replay cannot do without."""
        path = self.path / name
        if not path.is_file():
            raise UserError(f"{path}: not found; export the campaign with `ridgeline export-recording`")
        return path


def read_request(folder: Path) -> Request:
    """From `request.json` of a campaign or a recording. Raises UserError."""
    path = folder / REQUEST
    try:
        document = parse_json(path.read_bytes())
    except FileNotFoundError as error:
        raise UserError(f"{path}: not found; give the folder of a recorded campaign") from error
    except NotJson as error:
        raise UserError(f"{path}: {error}; restore it from a copy") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or "request" not in document:
        raise UserError(f"{path}: schema: is not {SCHEMA}; use the version of Ridgeline that wrote it")
    try:
        return Request.model_validate(document["request"])
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UserError(f"{path}: request.{where}: {error.errors()[0]['msg']}; restore it from a copy") from error


def read_ledger(folder: Path) -> tuple[bytes, ...]:
    """Lines of a recorded ledger that is whole and true. Raises UserError for one that is missing, cut or changed."""
    path, shown_end = folder / LEDGER, read_shown_end(folder)
    verification = verify(path)
    if not verification.ok or verification.problem:
        problem = verification.problem or ""
        text = problem if str(path) in problem else f"{path}: line {verification.lines + 1}: {problem}"
        raise UserError(f"{text}; restore the file from a copy")
    if not verification.lines:
        raise UserError(f"{path}: is empty; restore the file from a copy")
    history = fold_ledger(JsonlLedger(path).lines())
    if history is not None and (gap := describe_gap(folder, find_lost_lines(shown_end, history))):
        raise UserError(f"{folder}: {gap}")
    return tuple(path.read_bytes().splitlines(keepends=True))


# The card of a recording: what it is, whose it is, what was taken out of it, and the digest of each of its files.

VERSION = 1
"""Of the recordings' format; see `ridgeline schema recording`."""


class Digest(Value):
    """One file of the recording."""

    path: str
    sha256: str
    bytes: int


class Card(Value):
    """`recording.json`."""

    recording: Literal[1] = 1
    """Version of this format."""
    name: str
    operator: str
    backend: str
    dtype: str
    device: str
    """Name of the processor or card, without its serial number."""
    ridgeline: str
    """Version that ran the campaign."""
    planner: str
    model: str
    """Name of the model, where a model proposed; empty otherwise."""
    preset: str
    licence: str
    """SPDX expression under which sources, answers and numbers may be used."""
    rounds: int
    """Closed rounds after the baseline."""
    kept: int
    decisions: int
    """Rounds with an answer to the question what to try next: points at which another prompt can be asked."""
    concluded: bool
    speedup: float | None
    """Time of the original over time of the champion, by the final comparison; None without one."""
    speedup_lower: float | None
    files: tuple[Digest, ...]
    artifacts: int
    """Blobs, each named by the sha256 of what it contains."""
    left_out: tuple[Artifact, ...] = ()
    """Cited by the ledger, and left out to keep the recording small."""
    retold: str = ""
    """Where the campaign's own ledger first said something in other words; empty when it is the ledger of then."""
    scrubbed: tuple[tuple[str, int], ...] = ()
    """(kind, how often): what was replaced by a neutral name."""


class TapeLine(Value):
    """A line of `tape.jsonl` and of `workspace.jsonl`."""

    schema_version: int = Field(alias="schema")
    key: str
    """sha256 of port, method and arguments: the question."""
    port: str
    method: str
    about: str
    """The question in a few words, for people."""
    answer: Any


class ModelPart(Value):
    """A line of `model_tape.jsonl` that holds a message, tool or schema."""

    schema_version: int = Field(alias="schema")
    part: str
    """sha256 of the text."""
    text: str


class ModelAnswer(Value):
    """A line of `model_tape.jsonl` that holds a question, its parts by name, and what the model said."""

    schema_version: int = Field(alias="schema")
    digest: str
    question: dict[str, Any]
    said: dict[str, Any] | None = None
    refused: str | None = None


def schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of a recording: its card, and under `lines` that of the lines of each file."""
    lines: dict[str, Any] = {
        "ledger.jsonl": Line.model_json_schema(),
        "tape.jsonl": TapeLine.model_json_schema(),
        "workspace.jsonl": TapeLine.model_json_schema(),
        "model_tape.jsonl": {"anyOf": [ModelPart.model_json_schema(), ModelAnswer.model_json_schema()]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Ridgeline recording",
        "version": VERSION,
        "card": Card.model_json_schema(),
        "lines": lines,
    }


def read_card(folder: Path) -> Card | None:
    """The card of a recorded campaign; None where it is older than cards. Raises UserError for one that is no card."""
    path = folder / CARD
    if not path.exists():
        return None
    try:
        return Card.model_validate_json(path.read_bytes())
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise UserError(f"{path}: {where}: {problem['msg']}; restore it from a copy, or export again") from error


def write_card(folder: Path, card: Card) -> None:
    """Write the card of a recorded campaign, with the digests of the files that lie there now."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != CARD]
    documents = [path for path in files if path.relative_to(folder).parts[0] != ARTIFACTS]
    digests = tuple(
        Digest(path=path.relative_to(folder).as_posix(), sha256=_sha256(path), bytes=path.stat().st_size)
        for path in documents
    )
    complete = card.model_copy(update={"files": digests, "artifacts": len(files) - len(documents)})
    text = json.dumps(complete.model_dump(mode="json"), indent=1, ensure_ascii=False)
    (folder / CARD).write_text(text + "\n", encoding="utf-8")


def changed_files(folder: Path) -> tuple[str, ...]:
    """Files of a recorded campaign that are gone or changed since its card was written; none where there is no card."""
    card = read_card(folder)
    if card is None:
        return ()
    documents = [digest.path for digest in card.files if not _same(folder / digest.path, digest.sha256)]
    blobs = [path for path in sorted((folder / ARTIFACTS).glob("*/*")) if _sha256(path) != path.name]
    return (*documents, *(path.relative_to(folder).as_posix() for path in blobs))


def _same(path: Path, digest: str) -> bool:
    return path.is_file() and _sha256(path) == digest


def _sha256(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


# What the card of a recording says, read from its ledger.


def card_of(folder: Path, name: str, licence: str) -> Card:
    """The card of a recorded campaign without digests. The folder holds a whole ledger and a request."""
    history = fold_ledger(JsonlLedger(folder / LEDGER).lines())
    assert history is not None
    document = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    conclusion, contract = history.concluded, history.contract
    return Card(
        name=name,
        operator=contract.target_op,
        backend=contract.target_backend,
        dtype=contract.dtype,
        device=history.opened.machine.name,
        ridgeline=history.opened.version,
        planner=history.opened.planner,
        model=(document.get("model") or {}).get("name", ""),
        preset=history.limits.preset,
        licence=licence,
        rounds=len(history.rounds),
        kept=sum(closed.accepted for closed in history.rounds),
        decisions=len(history.rounds),
        concluded=conclusion is not None,
        speedup=conclusion.speedup if conclusion else None,
        speedup_lower=conclusion.speedup_lower if conclusion else None,
        files=(),
        artifacts=0,
    )
