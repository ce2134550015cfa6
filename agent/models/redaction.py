"""Keys never leave the environment: they are taken out of everything a provider says, and control characters too."""

import os
import re
from collections.abc import Mapping

NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
"""Names of variables whose value is nobody else's business."""
SHORTEST = 8
"""A shorter value is no key, and taking it out would damage ordinary words."""
SHAPES = re.compile(r"\bsk-[\w*.-]{6,}|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}|\bgh[pousr]_\w{20,}|(?<=Bearer )\S+")
"""Keys as providers write them, also half masked: an error message may quote one that is in no variable."""
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""All but tab and newline; with them what turns the direction of text around on a terminal."""


def without_keys(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text with the value of every secret variable replaced by the variable's name."""
    for value, name in _secrets(os.environ if environment is None else environment):
        text = text.replace(value, f"[{name}]")
    return text


def plain(text: str, *, limit: int) -> str:
    """Text that can be stored and shown: no control characters, no lone surrogates, at most `limit` characters."""
    kept = text[:limit].replace("\r\n", "\n").replace("\r", "\n")
    return CONTROLS.sub("", kept).encode("utf-8", "replace").decode("utf-8")


def told(text: str, *, limit: int = 400) -> str:
    """A provider's message in one line: plain, bounded, without anything that looks like a key."""
    line = " ".join(plain(without_keys(text[:100_000]), limit=100_000).split())
    safe = SHAPES.sub("[key]", line)
    return safe if len(safe) <= limit else f"{safe[:limit]} ..."


def _secrets(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Longest first, so that a key inside a longer one does not break it up."""
    found = [(v, n) for n, v in environment.items() if NAMES.search(n) and len(v) >= SHORTEST]
    return sorted(found, key=lambda pair: -len(pair[0]))
