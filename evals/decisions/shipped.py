"""Which shipped task a recorded campaign was run on: its files are at hand, where a recording has none."""

from functools import cache
from pathlib import Path

import yaml

from ridgeline.graph.contract import Contract

TASKS = Path(__file__).parent.parent / "tasks"


def task_of(contract: Contract) -> Path | None:
    """Folder of the task with the same operator, sources and test; None for a campaign of somebody's own kernel."""
    return _known().get(_name(contract))


@cache
def _known() -> dict[tuple[object, ...], Path]:
    files = sorted(TASKS.glob("*/ridgeline.yaml"))
    contracts = ((path.parent, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in files)
    return {_name(Contract.model_validate(told)): folder for folder, told in contracts}


def _name(contract: Contract) -> tuple[object, ...]:
    return (contract.target_op, contract.target_backend, contract.dtype, contract.kernel_source, contract.test_command)
