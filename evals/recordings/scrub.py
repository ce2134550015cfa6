"""Takes names of machines, people and folders out of what a campaign recorded, and leaves all else as it is."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.graph.values import Artifact, Value
from ridgeline.sandbox.profiles.readers.files import is_archive, rewritten

OWNED = "root|tmp|work|home|Users|mnt|media|data|scratch|workspace|var/folders"
PRIVATE = re.compile(rf"(?<![\w.])/(?:{OWNED})(?=/[\w.])(?:/[\w.@+~-]+)+")
"""Absolute paths below folders that belong to people. What follows a system's own folders is the same everywhere."""
MAIL = re.compile(r"\b[\w.+-]+@(?!localhost\b)[\w-]+(?:\.[\w-]+)+\b")
DEVICE = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
"""Serial numbers of cards, as nvidia-smi writes them."""
COMMON = frozenset({"root", "user", "ubuntu", "admin", "runner", "home", "localhost", "docker", "host", "linux"})
"""Names that give nobody away, and stand in ordinary text."""
SHORTEST = 3


class Private(Value):
    """What must not be told. Folders first, since names may stand in them."""

    folders: tuple[tuple[str, str], ...] = ()
    """(folder, what to write instead)."""
    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Whatever else a person named: of a team, a product, a server."""


class Scrub:
    """Replaces in strings, in any JSON value, and in artifacts by what they contain now; counts what it did."""

    def __init__(self, private: Private) -> None:
        self._folders = sorted(private.folders, key=lambda pair: -len(pair[0]))
        self._names = [
            (kind, re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"))
            for kind, names in (("word", private.words), ("host", private.hosts), ("user", private.users))
            for name in sorted(set(names), key=len, reverse=True)
            if kind == "word" or (len(name) >= SHORTEST and name.lower() not in COMMON)
        ]
        self._moved: dict[str, Artifact] = {}
        self.done: Counter[str] = Counter()
        """How often each kind was replaced."""

    def text(self, text: str) -> str:
        """The text without anything private."""
        for folder, instead in self._folders:
            if folder in text:
                self.done["folder"] += text.count(folder)
                text = text.replace(folder, instead)
        text = self._sub("folder", PRIVATE, text, lambda found: "/private/" + found[0].rpartition("/")[2])
        text = self._sub("mail", MAIL, text, "[mail]")
        text = self._sub("device", DEVICE, text, "[device]")
        for kind, pattern in self._names:
            text = self._sub(kind, pattern, text, f"[{kind}]")
        return text

    def data(self, data: bytes) -> bytes:
        """Of a file, or of each file of an archive; what is not text is left as it is."""
        if is_archive(data):
            return rewritten(data, self.data)
        try:
            before = data.decode()
        except UnicodeDecodeError:
            return data
        after = self.text(before)
        return data if after == before else after.encode()

    def moved(self, sha256: str, instead: Artifact) -> None:
        """That an artifact has other contents now, and so another name."""
        self._moved[sha256] = instead

    def value(self, value: Any) -> Any:
        """A JSON value: strings anywhere in it, and artifacts by the name of what they contain now."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, Mapping):
            return self._artifact({name: self.value(item) for name, item in value.items()})
        return value

    def _artifact(self, found: dict[str, Any]) -> dict[str, Any]:
        instead = self._moved.get(str(found.get("sha256")))
        if instead is None or not {"sha256", "size"} <= found.keys():
            return found
        return {**found, "sha256": instead.sha256, "size": instead.size}

    def _sub(self, kind: str, pattern: re.Pattern[str], text: str, instead: Any) -> str:
        text, count = pattern.subn(instead, text)
        if count:
            self.done[kind] += count
        return text


def artifacts_in(value: Any) -> Sequence[Artifact]:
    """Every artifact that a JSON value names."""
    if isinstance(value, Mapping):
        own = [Artifact.model_validate(value)] if value.keys() == {"sha256", "name", "size"} else []
        return [*own, *(found for item in value.values() for found in artifacts_in(item))]
    if isinstance(value, list | tuple):
        return [found for item in value for found in artifacts_in(item)]
    return []
