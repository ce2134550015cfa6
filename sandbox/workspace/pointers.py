"""What a commit only points to, submodules and contents in Git LFS: taken from the user's own checkout, never from a network."""

import hashlib
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ridgeline.graph.errors import DirtyTree
from ridgeline.sandbox.isolation.directory_pool import read_left, remove_tree
from ridgeline.sandbox.workspace.edits import LINK, MODULE
from ridgeline.sandbox.workspace.git import Entry, Git, git
from ridgeline.sandbox.workspace.signatures import is_folder

logger = logging.getLogger(__name__)

LFS_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
LFS_START = b"version https://git-lfs.github.com/spec/"
MODULES, CONTENTS = "refs/ridgeline/modules", "refs/ridgeline/lfs"
"""In the mirror: submodules' commits by their names, and contents by the names of the pointers to them."""
SHOWN = 3


def name_some(paths: list[str]) -> str:
    """The first submodules or LFS files of a commit, and how many more there are."""
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more


# In the user's checkout.


def require_modules(root: Path, entries: tuple[Entry, ...]) -> tuple[str, ...]:
    """Paths of the submodules among a commit's entries whose files are there; what is not there is needed by nothing.

    Raises DirtyTree where the files are not those that the commit names.
    """
    modules = [*_find_modules(root, entries)]
    for entry, inside in modules:
        tip = inside.tip("HEAD")
        changed = inside.run("status", "--porcelain=v1", "--untracked-files=no", "--ignore-submodules=none")
        if tip != entry.oid or changed:
            state = "has changes" if tip == entry.oid else f"stands at {(tip or 'no commit')[:12]}"
            raise DirtyTree(
                f"{root / entry.path}: a git submodule that {state}, and the commit names {entry.oid[:12]}; commit it, or run"
                " git submodule update, so that every number names what was measured"
            )
    return tuple(entry.path for entry, _ in modules)


def _find_modules(root: Path, entries: tuple[Entry, ...]) -> Iterator[tuple[Entry, Git]]:
    """Submodules with files, and their repositories. Raises DirtyTree for one without."""
    for entry in entries:
        folder = root / entry.path
        if entry.mode != MODULE or not folder.is_dir() or not any(folder.iterdir()):
            continue
        place = git("rev-parse", "--absolute-git-dir", cwd=folder) if (folder / ".git").exists() else None
        if place is None or place.returncode != 0:
            raise DirtyTree(
                f"{folder}: is a git submodule with files and without its repository; run git submodule update"
            )
        yield entry, Git(git_dir=Path(os.fsdecode(place.stdout.rstrip(b"\n"))), work_tree=folder)


def list_lfs_pointers(user: Git, commit: str) -> list[tuple[Entry, bytes]]:
    """Committed files that are only pointers to contents in Git LFS, with the pointer."""
    output = user.run("ls-files", "-z", "--", ":(top,attr:filter=lfs)")
    marked = set(output.decode(errors="surrogateescape").split("\0")) - {""}
    entries = [entry for entry in user.entries(commit, ".") if entry.path in marked] if marked else []
    pointers = zip(entries, user.blobs(tuple(entry.oid for entry in entries)), strict=True)
    return [(entry, data) for entry, data in pointers if data.startswith(LFS_START)]


def read_contents(root: Path, entry: Entry, pointer: bytes) -> bytes | None:
    """The file that a pointer means, from the user's checkout; None where what is there is not that file, by its hash."""
    meant = LFS_POINTER.fullmatch(pointer)
    data = read_left(root / entry.path) if meant else None
    return data if meant and data is not None and hashlib.sha256(data).hexdigest().encode() == meant[1] else None


# In the campaign's mirror, and in checkouts of candidates.


def bring(mirror: Git, root: Path, user: Git, commit: str) -> None:
    """Store in the mirror what a commit of the user's points to, as far as the user's checkout has it. Raises DirtyTree."""
    _bring_modules(mirror, root, user.entries(commit, "."))
    for entry, pointer in list_lfs_pointers(user, commit):
        data = read_contents(root, entry, pointer)
        if data is not None:
            oid = mirror.line("hash-object", "-w", "--no-filters", "--stdin", stdin=data)
            mirror.hold(f"{CONTENTS}/{entry.oid}", oid)


def _bring_modules(mirror: Git, root: Path, entries: tuple[Entry, ...]) -> None:
    """Store submodules of a commit in the mirror, and the submodules of submodules."""
    for entry, inside in _find_modules(root, entries):
        mirror.run("fetch", "-q", "--depth=1", "--no-tags", inside.git_dir.as_uri(), entry.oid)
        mirror.hold(f"{MODULES}/{entry.oid}", entry.oid)
        _bring_modules(mirror, root / entry.path, mirror.entries(entry.oid, "."))


def has_some(mirror: Git) -> bool:
    """Whether commits of this git mirror point to submodules or LFS contents that it holds."""
    return any((mirror.git_dir / refs).is_dir() for refs in (MODULES, CONTENTS))


def list_files(mirror: Git, entries: tuple[Entry, ...]) -> Iterator[Entry]:
    """The files that stand in a checkout in the place of submodules and pointers among these entries, by their whole paths."""
    contents = _list_contents(mirror)
    for entry in entries:
        if entry.mode == MODULE:
            yield from _list_module(mirror, entry)
        elif entry.mode != LINK and entry.oid in contents:
            yield replace(entry, oid=contents[entry.oid])


def _list_module(mirror: Git, module: Entry) -> Iterator[Entry]:
    if not (mirror.git_dir / MODULES / module.oid).exists():
        return
    for entry in mirror.entries(module.oid, "."):
        below = replace(entry, path=f"{module.path}/{entry.path}")
        if entry.mode == MODULE:
            yield from _list_module(mirror, below)
        else:
            yield below


def _list_contents(mirror: Git) -> dict[str, str]:
    """Names of contents in LFS by those of their pointers."""
    rows = mirror.run("for-each-ref", "--format=%(refname:lstrip=3) %(objectname)", CONTENTS).decode().split()
    return dict(zip(rows[::2], rows[1::2], strict=True))


def lay_out(mirror: Git, top: Path, commit: str) -> None:
    """Put into a fresh checkout of that commit what it points to. Filters and hooks of submodules do not run."""
    entries = mirror.entries(commit, ".")
    for module in entries:
        if module.mode == MODULE:
            _lay_module(mirror, top, module)
    pointed = [*list_files(mirror, tuple(entry for entry in entries if entry.mode != MODULE))]
    for entry, data in zip(pointed, mirror.blobs(tuple(entry.oid for entry in pointed)), strict=True):
        (top / entry.path).write_bytes(data)


def _lay_module(mirror: Git, top: Path, module: Entry) -> None:
    place = top / module.path
    for folder in (*reversed(place.relative_to(top).parents), Path(module.path)):
        if not is_folder(top / folder):  # a link that a candidate left would lead out of its checkout
            remove_tree(top / folder)
    remove_tree(place)
    place.mkdir(parents=True)
    if not (mirror.git_dir / MODULES / module.oid).exists():
        return
    index = mirror.git_dir / "module.index"
    env = {"GIT_INDEX_FILE": str(index)}
    here = replace(mirror, work_tree=place)
    here.run("read-tree", module.oid, env=env)
    here.run("checkout-index", "--all", "--force", env=env)
    index.unlink()
    for entry in mirror.entries(module.oid, "."):
        if entry.mode == MODULE:
            _lay_module(mirror, place, entry)
