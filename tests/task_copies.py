"""Whole copies of the tasks in `evals`, made as `ridgeline init --task` makes them, without git."""

import shutil
from pathlib import Path

from ridgeline.evals.task_folders import folders, recorded_tasks


def whole(task: str, to: Path) -> Path:
    """A new folder with all files of a task that ships."""
    return _copied(folders()[task], to)


def whole_recorded(task: str, to: Path) -> Path:
    """A new folder with all files of a task that recorded campaigns ran on: a contract with a benchmark of its own."""
    return _copied(recorded_tasks()[task], to)


def _copied(parts: tuple[Path, ...], to: Path) -> Path:
    for part in parts:
        shutil.copytree(part, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build", "__pycache__"))
    return to
