"""A throw-away copy of a checked-out tree, for what must not touch the tree itself: formatting, extra builds."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_copy(tree: Path) -> Iterator[Path]:
    """The copy of `tree`, inside a copy of its whole checkout: tools look for their settings in parent folders.

    Git's own files are left out, so that nothing run there reaches the repository.
    """
    root = next((folder for folder in (tree, *tree.parents) if (folder / ".git").exists()), tree)
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        yield copy / tree.relative_to(root)
