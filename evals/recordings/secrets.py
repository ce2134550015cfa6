"""Keys in what is about to be given away: found by how providers write them and by the environment's own."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ridgeline.agent.providers.base import NAMES, SHAPES, SHORTEST
from ridgeline.sandbox.profiles.readers.files import is_archive, members

KEYS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a provider's key", SHAPES),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")),
    (
        "an access token",
        re.compile(r"\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bhf_[A-Za-z0-9]{20,}|\bxox[abprs]-[\w-]{10,}"),
    ),
    ("a signed token", re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}")),
    ("a password in an address", re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']+:[^\s/@\"']{3,}@")),
    (
        "a value that is named like a secret",
        re.compile(
            r"(?:api[_-]?key|access[_-]?key|auth[_-]?token|client[_-]?secret|passw(?:or)?d|secret[_-]?key)"
            r"[\\\"']*\s*[=:]\s*[\\\"']*(?=[\w+/.-]*\d)(?=[\w+/.-]*[A-Za-z])[\w+/.-]{12,}",
            re.IGNORECASE,
        ),
    ),
)
"""What a key looks like, and what to call it. The key itself is never shown."""
SHAPED_LIKE_KEYS = re.compile(r"\bsk-(?:learn|image|build)\b")
"""Ordinary words of the shape of a key."""


def secrets(path: Path, told: str, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """`<told>: line N: <what>` for each line of a file that holds a key; bytes that are no text are looked at too."""
    own = _own(os.environ if environment is None else environment)
    data = path.read_bytes()
    if is_archive(data):
        data = b"\n".join(content for _, content in members(data))
    for number, raw in enumerate(data.splitlines(), start=1):
        line = raw.decode("utf-8", "replace")
        for what in _found(line, own):
            yield f"{told}: line {number}: holds {what}"


def _found(line: str, own: Mapping[str, str]) -> Iterator[str]:
    for value, name in own.items():
        if value in line:
            yield f"the value of the environment variable {name}"
    plain = SHAPED_LIKE_KEYS.sub("", line)
    for what, pattern in KEYS:
        if pattern.search(plain):
            yield what


def _own(environment: Mapping[str, str]) -> dict[str, str]:
    """Values of variables that are named like secrets; plain words and paths are settings, not keys."""
    return {
        value: name
        for name, value in environment.items()
        if NAMES.search(name) and len(value) >= SHORTEST and not value.startswith("/") and not value.isalpha()
    }
