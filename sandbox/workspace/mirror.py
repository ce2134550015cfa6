"""The campaign's own bare repository: where candidates are committed, and all that a copied campaign needs of git."""

import logging
import shutil
from pathlib import Path

from ridgeline.graph.errors import NoSuchBase
from ridgeline.sandbox.workspace.git import Git, git
from ridgeline.sandbox.workspace.repository import Repository

logger = logging.getLogger(__name__)

ATTRIBUTES = "* -text -filter -ident -working-tree-encoding !eol !diff\n"
"""Files are checked out byte for byte, whatever the project's attributes say, so that hashes can be compared."""


def mirror_of(folder: Path, *, base: str, user: Repository, branch: str | None) -> Git:
    """The mirror in `folder`, made from the user's repository when it is not there or has lost the base commit.

    Only the base commit is fetched, without history. `branch`, where it exists, is this campaign's and comes too.
    Raises NoSuchBase when the base is in neither.
    """
    mirror = Git(git_dir=folder)
    if mirror.has(base):
        return mirror
    if not user.exists() or not user.git.has(base):
        raise NoSuchBase(f"{user.root}: has no commit {base}, and neither has {folder}; fetch it, or copy the mirror")
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.parent.mkdir(parents=True, exist_ok=True)
    new = _empty(fresh, user)
    new.run("fetch", "-q", "--depth=1", "--no-tags", user.root.resolve().as_uri(), base)
    tip = user.git.tip(f"refs/heads/{branch}") if branch else None
    if branch and tip is not None:
        new.unpack(user.git.pack(tip, beyond=base))
        new.move(f"refs/heads/{branch}", new=tip, old=None)
    new.move("refs/ridgeline/base", new=base, old=None)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return mirror


def _empty(folder: Path, user: Repository) -> Git:
    """A bare repository with no hooks, of the same kind of object ids as the user's."""
    kind = user.git.line("rev-parse", "--show-object-format")
    words = ("init", "-q", "--bare", "--template=", f"--object-format={kind}", "--initial-branch=ridgeline")
    done = git(*words, str(folder), cwd=folder.parent)
    if done.returncode != 0:
        raise NoSuchBase(f"{folder}: cannot be made: {done.stderr.strip()}")
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info" / "attributes").write_text(ATTRIBUTES, encoding="utf-8")
    return Git(git_dir=folder)


def release_stale_locks(folder: Path, *, user: Path, branch: str | None) -> None:
    """Remove the lock files that a killed git of this campaign left behind.

    Only to be called while nobody else drives the campaign: its mirror and its branch are then nobody else's.
    """
    for lock in folder.rglob("*.lock"):
        logger.warning("%s: left behind by a killed git; removed", lock)
        lock.unlink(missing_ok=True)
    if branch and user.is_dir() and (common := git("rev-parse", "--git-common-dir", cwd=user)).returncode == 0:
        told = common.stdout.decode().strip()
        (user / told / "refs" / "heads" / f"{branch}.lock").unlink(missing_ok=True)
