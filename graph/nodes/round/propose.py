"""Ask for exactly one hypothesis, written down before any edit exists."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import analysis, briefing
from ridgeline.graph.policy.change import forbidden, single_change
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Failed, Proposed


def propose(state: State, runtime: Runtime[Ports]) -> Update:
    seen = analysis(state)
    proposal = runtime.context.planner.propose(briefing(state, runtime.context))
    if proposal.hypothesis is None:
        exhausted = proposal.exhausted or "the planner has no further direction"
        return {"exhausted": exhausted, "trial": None, "proposal": proposal}
    trial = Proposed(
        round=seen.round,
        hypothesis=proposal.hypothesis,
        opened_at=seen.opened_at,
        prompts=proposal.prompts,
        cost=proposal.cost,
    )
    if why := forbidden(proposal.hypothesis):
        return {"trial": Failed(reached=trial, reason="overfit", detail=why), "proposal": proposal}
    if why := single_change(proposal.hypothesis):
        return {"trial": Failed(reached=trial, reason="more_than_one_change", detail=why), "proposal": proposal}
    return {"trial": trial, "proposal": proposal}
