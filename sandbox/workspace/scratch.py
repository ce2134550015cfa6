"""A throw-away copy of a checked-out tree, for what must not touch the tree itself: formatting, extra builds."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ridgeline.sandbox.workspace.signatures import contents


@contextmanager
def scratch_copy(tree: Path) -> Iterator[Path]:
    """The copy of `tree`, inside a copy of its whole checkout: tools look for their settings in parent folders.

    Git's own files are left out, so that nothing run there reaches the repository.
    """
    root = next((folder for folder in (tree, *tree.parents) if (folder / ".git").exists()), tree)
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(root, copy, symlinks=True, ignore=_git_own, copy_function=_copied)
        yield copy / tree.relative_to(root)


def _git_own(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == ".git"]


def _copied(source: str, target: str) -> None:
    """Contents, permissions and times: what a build looks at. Other attributes cost more than the copy."""
    status = os.stat(source)  # noqa: PTH116 (for every file of a tree, as the next)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        data = memoryview(contents(source))
        while data:
            data = data[os.write(handle, data) :]
        os.fchmod(handle, stat.S_IMODE(status.st_mode))
        os.utime(handle, ns=(status.st_atime_ns, status.st_mtime_ns))
    finally:
        os.close(handle)
