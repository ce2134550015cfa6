"""Ready-made tasks: copy one into a fresh git repository, where a campaign can work on it."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.agent.extensions import tasks
from ridgeline.graph.errors import GitFailed
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.store.yaml_file import nearest

IDENTITY = ("-c", "user.name=Ridgeline", "-c", "user.email=ridgeline@localhost")
"""Given for this one commit: nobody's git configuration is read or written."""
GIT_S = 60.0


def copy(name: str, destination: Path) -> Path:
    """Copy the task of that name into a new folder, make it a repository with one commit; returns the folder.

    Raises `UserError` for an unknown task or a folder that is not empty.
    """
    known = tasks()
    if name not in known:
        raise UserError(f"--task: unknown task {name!r}; {nearest(name, known)}")
    return compose(name, known[name], destination)


def compose(name: str, folders: Iterable[Path], destination: Path) -> Path:
    """Put the files of all folders into a new one, make it a repository with one commit; returns the new folder.

    Raises `UserError` for a folder that is not empty.
    """
    if destination.exists() and any(destination.iterdir()):
        raise UserError(f"{destination}: is not empty; name a folder that does not exist yet")
    ignored = shutil.ignore_patterns("build", "__pycache__")
    for folder in folders:
        shutil.copytree(folder, destination, ignore=ignored, dirs_exist_ok=True)
    ignore = destination / ".gitignore"
    if not ignore.exists():
        ignore.write_text("build/\n", encoding="utf-8")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", f"Task {name} as shipped")):
        _git(destination, *arguments)
    return destination


def _git(folder: Path, *arguments: str) -> None:
    argv = ("git", *IDENTITY, "-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null", *arguments)
    done = run(argv, cwd=folder, timeout_s=GIT_S)
    if not done.ok:
        raise GitFailed(f"git {arguments[0]} in {folder}: {done.output.strip() or f'exit code {done.returncode}'}")
