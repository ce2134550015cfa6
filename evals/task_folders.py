"""Which folders make each task: its own, and the harness it shares with others of its language."""

from collections.abc import Mapping
from pathlib import Path

import yaml

TASKS = Path(__file__).parent / "tasks"
"""What ships: copied by `ridgeline init --task` and `ridgeline demo`."""
RECORDED = Path(__file__).parent / "recorded_tasks"
"""What recorded campaigns ran on and ships in another form now: contracts with a test and a benchmark of their own."""
HARNESS = "harness_{backend}"

Parts = tuple[Path, ...]
"""Folders whose files, side by side, are the whole task."""


def folders() -> dict[str, Parts]:
    """Parts of every shipped task, by name; called through the entry-point group `ridgeline.tasks`."""
    return _under(TASKS)


def recorded_tasks() -> dict[str, Parts]:
    """Parts of the tasks in `RECORDED`, by name; none in an installation, which has no recordings either."""
    return _under(RECORDED)


def contract_fields(parts: Parts) -> Mapping[str, object]:
    """The fields of a shipped task's `ridgeline.yaml`, not validated."""
    fields: dict[str, object] = yaml.safe_load((parts[0] / "ridgeline.yaml").read_text(encoding="utf-8"))
    return fields


def _under(root: Path) -> dict[str, Parts]:
    return {path.parent.name: _parts(path.parent) for path in sorted(root.glob("*/ridgeline.yaml"))}


def _parts(folder: Path) -> Parts:
    """A shipped task's folder and, where one lies beside it for the contract's language, the harness."""
    backend = str(contract_fields((folder,))["target_backend"])
    harness = folder.parent / HARNESS.format(backend=backend.lower())
    return (folder, harness) if harness.is_dir() else (folder,)
