"""READ_HISTORICAL_TIPS once, then open the ledger: from here on it is the record."""

from langgraph.runtime import Runtime

from ridgeline.graph.policy.step0 import rooflined
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import Opened
from ridgeline.graph.state import State, Update


def recall(state: State, runtime: Runtime[Ports]) -> Update:
    setting, request, ports = state["setting"], state["request"], runtime.context
    assert setting is not None
    assert setting.base is not None
    target, base, decided = setting.target, setting.base, state["decisions"]
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
            confirmation=f"confirmed by {decided[0].by}, {decided[0].at}" if decided else "auto-confirmed",
            tips=ports.files.tips(target.target_gpu, target.target_op, target.target_backend),
            version=request.version,
            decisions=decided,
        )
    )
    ports.ledger.append(rooflined(setting.ceilings, setting.machine, request.specs))
    return {"setting": None, "decisions": ()}
