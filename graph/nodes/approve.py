"""Where a campaign waits for a person, when it was asked to: an interrupt until there is a decision."""

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from ridgeline.graph.approval import ApprovalRequest, Decision
from ridgeline.graph.context import counters_of_best, history
from ridgeline.graph.documents.approval import of_change, of_hypothesis, of_target
from ridgeline.graph.errors import CampaignError
from ridgeline.graph.policy.spent import minutes_between
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Drafted, Failed, Judged, Proposed, find


class TargetRefused(CampaignError):
    """A person does not want this target; nothing has been made yet."""


def approve_target(state: State, runtime: Runtime[Ports]) -> Update:
    """Before a branch or a directory is made. Raises TargetRefused."""
    setting, limits = state["setting"], state["request"].limits
    assert setting is not None
    if "target" not in limits.approve:
        return {}
    decision = _decided(runtime.context, of_target(setting.target, limits))
    if decision.choice != "approve":
        raise TargetRefused(f"the target was rejected by {decision.by}: {decision.reason or 'no reason given'}")
    return {"decisions": (decision,)}


def approve_hypothesis(state: State, runtime: Runtime[Ports]) -> Update:
    """Before anything is written for it."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Proposed)
    decision = _decided(ports, of_hypothesis(trial, history(ports)))
    decisions = (*state["decisions"], decision)
    if decision.choice == "approve":
        return {"decisions": decisions}
    return {"trial": Failed(reached=trial, reason="rejected", detail=_said(decision)), "decisions": decisions}


def approve_change(state: State, runtime: Runtime[Ports]) -> Update:
    """After it was measured and would be kept. An edited change is applied, tested and measured as any other."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    known = history(ports)
    decision = _decided(ports, of_change(trial, known, before=counters_of_best(state, known)))
    decisions = (*state["decisions"], decision)
    drafted = find(trial, Drafted)
    assert drafted is not None
    match decision.choice:
        case "approve":
            return {"decisions": decisions}
        case "edit":
            explanation = f"{drafted.explanation}\n\nEdited by {decision.by}. {decision.reason}".strip()
            edited = drafted.model_copy(update={"edits": decision.edits, "explanation": explanation})
            return {"trial": edited, "decisions": decisions}
        case "reject":
            return {"trial": _rejected(trial, decision), "decisions": decisions}


def _decided(ports: Ports, request: ApprovalRequest) -> Decision:
    """The decision; without one the campaign stops here, in order, and asks again when it goes on."""
    asked = request.model_copy(update={"asked_at": ports.clock.now(f"{request.key} asked")})
    while (decision := ports.approvals.decision(asked)) is None:
        interrupt({"key": asked.key, "gate": asked.gate, "round": asked.round, "title": asked.title})
    waited = 60 * minutes_between(asked.asked_at, ports.clock.now(f"{asked.key} answered"))
    return decision.model_copy(update={"waited_s": max(0.0, waited)})


def _rejected(trial: Judged, decision: Decision) -> Judged:
    before = trial.verdict
    said = _said(decision)
    sentence = f"{before.sentence.split(':')[0]}: ROLLED BACK - measured as kept, but {said}"
    update = {"decision": "rolled_back", "reason": "rejected", "notes": (*before.notes, said), "sentence": sentence}
    return trial.model_copy(update={"verdict": before.model_copy(update=update)})


def _said(decision: Decision) -> str:
    return f"rejected by {decision.by}: {decision.reason or 'no reason given'}"
