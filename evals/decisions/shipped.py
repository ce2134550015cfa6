"""Which task a recorded campaign was run on: its files are at hand, where a recording has none."""

from functools import cache

from ridgeline.evals.task_folders import Parts, contract_fields, folders, recorded
from ridgeline.graph.contract import Contract


def task_of(contract: Contract) -> Parts | None:
    """Folders of the task with the same operator, sources and test; None for a campaign of somebody's own kernel."""
    return _known().get(_name(contract))


@cache
def _known() -> dict[tuple[object, ...], Parts]:
    every = (*recorded().values(), *folders().values())
    return {_name(Contract.model_validate(contract_fields(parts))): parts for parts in every}


def _name(contract: Contract) -> tuple[object, ...]:
    return (contract.target_op, contract.target_backend, contract.dtype, contract.kernel_source, contract.test_command)
