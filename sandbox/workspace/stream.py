"""One commit with its files, folders and reference, in the words of `git fast-import`: one process instead of seven."""

from collections.abc import Mapping
from dataclasses import dataclass

Change = tuple[str, bytes] | None
"""Mode and content of a file; None deletes it."""


@dataclass(frozen=True, kw_only=True)
class Grown:
    """What git made of a stream: names of the commit, of its tree, and of the new contents by their paths."""

    commit: str
    tree: str
    blobs: dict[str, str]


def stream(changes: Mapping[str, Change], *, parent: str, ref: str, author: str, message: str) -> bytes:
    """The commands that commit `changes` on top of `parent` and point `ref` at the commit, and ask for the names.

    `author` with a date as git writes it: `Name <address> seconds +0000`.
    """
    written = [(path, change) for path, change in changes.items() if change is not None]
    parts = [_blob(mark, change[1]) for mark, (_, change) in enumerate(written, start=1)]
    last = len(written) + 1
    parts.append(f"commit {ref}\nmark :{last}\nauthor {author}\ncommitter {author}\n".encode())
    parts.append(_data(message.encode()) + f"from {parent}\n".encode())
    parts += [_quoted("D", path) for path, change in changes.items() if change is None]
    parts += [_quoted(f"M {change[0]} :{mark}", path) for mark, (path, change) in enumerate(written, start=1)]
    parts.append(f'\nget-mark :{last}\nls :{last} ""\n'.encode())
    parts += [f"get-mark :{mark}\n".encode() for mark in range(1, last)]
    return b"".join([*parts, b"done\n"])


def grown(answers: bytes, changes: Mapping[str, Change]) -> Grown:
    """What git answered to the stream of these changes."""
    commit, tree, *blobs = answers.decode().splitlines()
    paths = (path for path, change in changes.items() if change is not None)
    return Grown(commit=commit, tree=tree.split()[2], blobs=dict(zip(paths, blobs, strict=True)))


def _blob(mark: int, content: bytes) -> bytes:
    return f"blob\nmark :{mark}\n".encode() + _data(content)


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _quoted(command: str, path: str) -> bytes:
    safe = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{command} "{safe}"\n'.encode(errors="surrogateescape")
