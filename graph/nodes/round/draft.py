"""Ask for the edits that test the hypothesis."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import briefing
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Drafted, Failed, Proposed


def draft(state: State, runtime: Runtime[Ports]) -> Update:
    trial, proposal = state["trial"], state["proposal"]
    assert isinstance(trial, Proposed)
    assert proposal is not None
    answer = runtime.context.planner.draft(briefing(state, runtime.context), proposal)
    if not answer.edits:
        detail = answer.refusal or "the planner gave no edits"
        # a refusal was asked for too: what it cost stays with the round
        paid = {"cost": trial.cost + answer.cost, "prompts": (*trial.prompts, *answer.prompts)}
        return {"trial": Failed(reached=trial.model_copy(update=paid), reason="no_edit", detail=detail)}
    drafted = Drafted(
        proposed=trial,
        edits=answer.edits,
        explanation=answer.explanation,
        prompts=answer.prompts,
        cost=answer.cost,
    )
    return {"trial": drafted}
