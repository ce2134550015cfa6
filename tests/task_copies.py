"""Whole copies of the tasks in `evals`, made as `ridgeline init --task` makes them, without git."""

import re
import shutil
from pathlib import Path

from ridgeline.agent.scaffold.contract import compose
from ridgeline.evals.task_folders import folders, recorded_tasks
from tests.repositories import git


def whole(task: str, to: Path) -> Path:
    """A new folder with all files of a task that ships."""
    return _copied(folders()[task], to)


def whole_recorded(task: str, to: Path) -> Path:
    """A new folder with all files of a task that recorded campaigns ran on: a contract with a benchmark of its own."""
    return _copied(recorded_tasks()[task], to)


def timed_at_two_shapes(to: Path) -> Path:
    """A new repository of the recorded softmax: compiler, test and benchmark are real, and a benchmark takes a third of its time."""
    repository = compose("softmax_c", recorded_tasks()["softmax_c"], to)
    problem = repository / "problem.h"
    text = problem.read_text(encoding="utf-8")
    two = '{"r64x64", {64, 64}, "short_rows"}, {"r256x250", {256, 250}, "short_rows"},'
    problem.write_text(
        re.sub(r"(?<=BENCHED\[\] = {\n).*?(?=\n};)", two, text, count=1, flags=re.DOTALL), encoding="utf-8"
    )
    git(repository, "commit", "-qam", "two shapes")
    return repository


def _copied(parts: tuple[Path, ...], to: Path) -> Path:
    for part in parts:
        shutil.copytree(part, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build", "__pycache__"))
    return to
