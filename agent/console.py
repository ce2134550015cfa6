"""The only place that prints: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Sequence
from typing import Any


def say(text: str = "") -> None:
    """A line of the answer, on standard output."""
    print(text, file=sys.stdout, flush=True)


def note(text: str) -> None:
    """A line about the work, on standard error."""
    print(text, file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """What was wrong, on standard error, one line per problem."""
    for line in text.splitlines() or [""]:
        print(f"ridgeline: {line}", file=sys.stderr, flush=True)


def emit(document: Any) -> None:
    """The one JSON object of a `--json` command; pydantic values and paths are accepted inside."""
    plain = document.model_dump(mode="json") if hasattr(document, "model_dump") else document
    print(json.dumps(plain, indent=2, default=str), flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns on standard output; never wrapped, so that it can be searched and cut."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
