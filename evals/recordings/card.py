"""The card of a recording: what it is, whose it is, what was taken out of it, and the digest of each of its files."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from ridgeline.agent.errors import UserError
from ridgeline.evals.recordings.folder import ARTIFACTS, CARD
from ridgeline.graph.record import Line
from ridgeline.graph.values import Artifact, Value

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
    """None where a recording has none, being older than cards. Raises UserError for one that is no card."""
    path = folder / CARD
    if not path.exists():
        return None
    try:
        return Card.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path}: {where}: {first['msg']}; restore it from a copy, or export again") from error


def write_card(folder: Path, card: Card) -> None:
    """With the digests of the files that lie there now."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != CARD]
    own = [path for path in files if path.relative_to(folder).parts[0] != ARTIFACTS]
    digests = tuple(
        Digest(path=path.relative_to(folder).as_posix(), sha256=_sha256(path), bytes=path.stat().st_size)
        for path in own
    )
    whole = card.model_copy(update={"files": digests, "artifacts": len(files) - len(own)})
    text = json.dumps(whole.model_dump(mode="json"), indent=1, ensure_ascii=False)
    (folder / CARD).write_text(text + "\n", encoding="utf-8")


def changed_files(folder: Path) -> tuple[str, ...]:
    """Files that are gone or have other contents than when the card was written; none where there is no card."""
    card = read_card(folder)
    if card is None:
        return ()
    own = [one.path for one in card.files if not _same(folder / one.path, one.sha256)]
    blobs = [path for path in sorted((folder / ARTIFACTS).glob("*/*")) if _sha256(path) != path.name]
    return (*own, *(path.relative_to(folder).as_posix() for path in blobs))


def _same(path: Path, digest: str) -> bool:
    return path.is_file() and _sha256(path) == digest


def _sha256(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
