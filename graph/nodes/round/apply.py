"""Commit the edits beside the user's checkout, on top of the best version, and have them read."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import standing
from ridgeline.graph.policy.audit import refusal
from ridgeline.graph.ports import Ports, Refused
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Applied, Drafted, Failed


def apply(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Drafted)
    best = standing(ports)
    done = ports.workspace.apply(
        round=trial.proposed.round, parent=best.commit, edits=trial.edits, at=trial.proposed.opened_at
    )
    if isinstance(done, Refused):
        return {"trial": Failed(reached=trial, reason="refused_edit", detail=done.detail)}
    applied = Applied(
        drafted=trial,
        commit=done.commit,
        tree=done.tree,
        diff=done.diff,
        snapshot=done.snapshot,
        changed=done.changed,
        audit=done.audit,
    )
    if done.tree == best.tree:
        return {"trial": Failed(reached=applied, reason="no_change", detail="the edits leave every file as it was")}
    if refused := refusal(done.audit, trial.proposed.hypothesis, best.contract):
        return {"trial": Failed(reached=applied, reason=refused.reason, detail=refused.detail)}
    return {"trial": applied}
