"""READ_HISTORICAL_TIPS once, then open the ledger: from here on it is the record."""

from langgraph.runtime import Runtime

from graph.policy.ceilings import bounds
from graph.policy.roofline import specs
from graph.ports import Ports
from graph.record import Opened, Rooflined, Spec
from graph.state import Setting, State, Update


def recall(state: State, runtime: Runtime[Ports]) -> Update:
    setting, request, ports = state["setting"], state["request"], runtime.context
    assert setting is not None
    assert setting.base is not None
    target, base = setting.target, setting.base
    ports.ledger.append(
        Opened(
            target=target,
            contract=request.contract,
            limits=request.limits,
            planner=request.planner,
            machine=setting.machine,
            base_commit=base.commit,
            base_tree=base.tree,
            branch=base.branch,
            contract_path=base.contract_path,
            repository=base.repository,
            confirmation="auto-confirmed",
            tips=ports.files.tips(target.target_gpu, target.target_op, target.target_backend),
            version=request.version,
        )
    )
    ports.ledger.append(_ceilings(setting, request.specs))
    return {"setting": None}


def _ceilings(setting: Setting, stated: tuple[Spec, ...]) -> Rooflined:
    """What was measured, what documents state of this product, and which of the two bounds each axis."""
    found = bounds(setting.ceilings, stated, setting.machine.fingerprint)
    missing = "" if found.ceilings else "the ceilings of this machine could not be measured"
    return Rooflined(
        ceilings=found.ceilings,
        specs=specs(found.measured, setting.machine, stated),
        bound="unknown",
        note="; ".join(filter(None, (missing, found.note))),
    )
