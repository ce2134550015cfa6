"""What a started process is told about the world: a short list, never the user's secrets."""

import ctypes
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

logger = logging.getLogger(__name__)

SECRET = re.compile(
    r"(?:^|_)(?:KEYS?|TOKENS?|PAT|PASS|AUTH|COOKIES?|WEBHOOK|DSN)(?:_|$)|(?:API|ACCESS|PRIVATE)_?KEY|SECRET|PASSW|PASSPHRASE"
    r"|CREDENTIAL|^RIDGELINE_(?:SMTP|NOTIFY|SEARCH)$",
    re.IGNORECASE,
)
"""Names that are withheld even when a contract asks for them: a candidate is code nobody has read."""
CARD = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_HOME")
"""Variables that say where a card's driver is, and which card is meant."""
_ENVIRONMENT_START = 47
"""Field of /proc/PID/stat, counted behind the name: where the first variables begin; the next is where they end."""
MARK = "RIDGELINE_RUN"
"""Carried by every process of one run, so that those that left its session can still be found."""


def select_variables(names: Iterable[str]) -> dict[str, str]:
    """The values of the named variables of this process, for `env`. Unset ones and secrets are left out."""
    requested_names = tuple(names)
    for name in requested_names:
        if SECRET.search(name):
            logger.warning("%s is withheld from commands: its name says it is a secret", name)
    return {name: os.environ[name] for name in requested_names if name in os.environ and not SECRET.search(name)}


def card_variables() -> dict[str, str]:
    """What this process was told about its card: everything that works for it there must be told the same."""
    return {name: os.environ[name] for name in CARD if name in os.environ}


def build_environment(private: Path, *, mark: str, extra: Mapping[str, str] | None) -> dict[str, str]:
    """The whole environment of one run: search path, private folders, the caller's own additions."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": f"{private}/home",
        "TMPDIR": f"{private}/tmp",
        "LANG": "C.UTF-8",
        MARK: mark,
        **(extra or {}),
    }


def conceal_secrets() -> None:
    """Blot secrets out of what `/proc/PID/environ` shows of this process to others of its user; here they stay known.

    The kernel shows the memory in which the first variables were given, so that is written over, and their values are given to
    this process anew in other memory. Where that memory cannot be found nothing is done.
    """
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        start, end = int(fields[_ENVIRONMENT_START]), int(fields[_ENVIRONMENT_START + 1])
    except (OSError, ValueError, IndexError):
        return
    if not 0 < start < end:
        return
    place = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, sign, value = entry.partition(b"=")
        if sign and value.strip(b"x") and SECRET.search(os.fsdecode(name)):
            ctypes.memset(place + len(name) + 1, ord("x"), len(value))
            if (value_now := os.environ.get(os.fsdecode(name))) is not None:
                os.environ[os.fsdecode(name)] = value_now
        place += len(entry) + 1
