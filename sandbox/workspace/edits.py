"""Which edits may be applied: to editable files of the contract's folder, in plain sight, and nothing else."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from ridgeline.graph.contract import Contract
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.workspace.git import Entry
from ridgeline.sandbox.workspace.globs import matches

MAX_BYTES = 4 * 1024 * 1024
"""More than any kernel that a person or a model writes."""
MAX_NAME, MAX_PATH = 255, 1024
"""Bytes of one name, as file systems take them, and of a path below the contract's folder: the checkout's is longer."""
CONTRACT_FILE = "ridgeline.yaml"
LINK, MODULE = "120000", "160000"


def refusal(edits: tuple[FileEdit, ...], contract: Contract, present: Mapping[str, Entry]) -> str | None:
    """Why these edits may not be applied, or None. `present` is the parent's files, by path from the contract."""
    paths: set[str] = set()
    for edit in edits:
        if edit.path in paths:
            return f"{edit.path}: is edited twice"
        paths.add(edit.path)
        problem = _shape(edit.path) or _surface(edit.path, contract) or _place(edit, present) or _text(edit.text)
        if problem:
            return f"{_quote(edit.path)}: {problem}"
    return _clash(edits)


def _quote(path: str) -> str:
    """An edit's path for a message of one line, however long it is."""
    return repr(path) if len(path) <= MAX_NAME else f"{path[:60]!r}... ({len(path)} characters)"


def _clash(edits: tuple[FileEdit, ...]) -> str | None:
    """A file of these edits that another of them needs as a folder; git would keep only one of the two, silently."""
    written = {edit.path for edit in edits if edit.text is not None}
    for path in sorted(written):
        for parent in PurePosixPath(path).parents:
            if str(parent) in written:
                return f"{str(parent)!r}: is written as a file, and {path!r} needs it as a folder; rename one of them"
    return None


def _shape(path: str) -> str | None:
    """Why an edit's path does not mean the same everywhere, or leaves the contract's folder."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path:
        return "is not a relative path with forward slashes"
    if any(part in ("", ".", "..") for part in parts) or str(PurePosixPath(path)) != path:
        return "is not in its plain form (no '.', '..' or doubled slashes)"
    if not path.isprintable():  # lone surrogates are not: from here on it can be encoded
        return "has characters that cannot be printed"
    if any(part.strip().casefold().startswith(".git") for part in parts):
        return "belongs to git"
    if (longest := max(len(part.encode()) for part in parts)) > MAX_NAME:
        return f"has a name of {longest} bytes; file systems take at most {MAX_NAME}, so shorten it"
    if len(path.encode()) > MAX_PATH:
        return f"is {len(path.encode())} bytes long; at most {MAX_PATH} are taken, so shorten it"
    return None


def _surface(path: str, contract: Contract) -> str | None:
    if matches(path, (*contract.protected, CONTRACT_FILE)):
        return "is protected by the contract"
    if not matches(path, contract.editable_globs):
        return f"is not editable; the contract allows {', '.join(contract.editable_globs)}"
    return None


def _place(edit: FileEdit, present: Mapping[str, Entry]) -> str | None:
    """Why an edit may not be written: through a link or a submodule, over a folder, or below a file."""
    entry = present.get(edit.path)
    if entry is not None and entry.mode in (LINK, MODULE):
        return "is a symbolic link or a submodule"
    if entry is None and edit.text is None:
        return "does not exist, so it cannot be deleted"
    for parent in PurePosixPath(edit.path).parents:
        if str(parent) in present:
            return f"lies below {parent}, which is not a folder"
    if any(path.startswith(f"{edit.path}/") for path in present):
        return "is a folder"
    return None


def _text(text: str | None) -> str | None:
    if text is None:
        return None
    if "\0" in text:
        return "is not text"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    return f"is {size} bytes long; at most {MAX_BYTES} are taken" if size > MAX_BYTES else None
