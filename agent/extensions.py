"""What other packages add: commands (`ridgeline.commands`) and ready-made tasks (`ridgeline.tasks`)."""

import logging
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import typer

logger = logging.getLogger(__name__)

COMMANDS = "ridgeline.commands"
"""Entry points `module:register`, called with the application."""
TASKS = "ridgeline.tasks"
"""Entry points `module:folders`, called without arguments: name of each task, and the folders whose files make it."""
Register = Callable[[typer.Typer], None]
Folders = Callable[[], Mapping[str, tuple[Path, ...]]]


def registrations() -> Iterator[Register]:
    """What other packages register as commands. A package that cannot be imported is said and left out."""
    for point in _load_points(COMMANDS):
        register: Register = point
        yield register


def tasks() -> dict[str, tuple[Path, ...]]:
    """Every ready-made task that packages add, by name: the folders whose files, side by side, make it."""
    folders_by_task: dict[str, tuple[Path, ...]] = {}
    for point in _load_points(TASKS):
        folders: Folders = point
        folders_by_task.update(folders())
    return folders_by_task


def _load_points(group: str) -> Iterator[Any]:
    for name, target in sorted(_find_points(group).items()):
        module, _, attribute = target.partition(":")
        try:
            point = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            logger.warning("%s %s of %s cannot be loaded: %s", group, name, target, error)
            continue
        yield point


def _find_points(group: str) -> dict[str, str]:
    """Entry points of installed packages; in a clone that is not installed, those of its `pyproject.toml`."""
    installed = {point.name: point.value for point in entry_points(group=group)}
    return installed or _of_clone(Path(__file__).resolve().parent.parent / "pyproject.toml", group)


def _of_clone(project: Path, group: str) -> dict[str, str]:
    if not project.is_file():
        return {}
    document = tomllib.loads(project.read_text(encoding="utf-8"))
    points: dict[str, str] = document.get("project", {}).get("entry-points", {}).get(group, {})
    return points
