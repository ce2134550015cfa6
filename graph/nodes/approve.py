"""Where a campaign waits for a person, when it was asked to: an interrupt until there is a decision."""

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from ridgeline.graph.approval import ApprovalRequest, Decision
from ridgeline.graph.context import counters_of_best, history
from ridgeline.graph.documents.approval import of_change, of_hypothesis, of_target
from ridgeline.graph.errors import CampaignError
from ridgeline.graph.policy.edited import approved, edited
from ridgeline.graph.policy.spent import minutes_between
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Failed, Judged, Proposed


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
    """After it was measured and would be kept.

    An edit is a change of its own: tested and measured as any other, then asked about beside what it edits.
    """
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    known, options = history(ports), (*state.get("alternatives", ()), trial)
    request = of_change(options, known, before=counters_of_best(state, known))
    decision = _decided(ports, request)
    decisions = (*state["decisions"], decision)
    match decision.choice:
        case "approve":
            kept = approved(options, decision)
        case "edit":
            assert request.edit is not None
            return {"trial": edited(request.edit, decision), "alternatives": options, "decisions": decisions}
        case "reject":
            options = tuple(_rejected(one, decision) if one.verdict.accepted else one for one in options)
            kept = options[0]
    others = tuple(one for one in options if one is not kept)
    return {"trial": kept, "alternatives": others, "decisions": decisions}


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
