"""Call the policy; no effect."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import counters_of_best, history
from ridgeline.graph.policy import accept
from ridgeline.graph.policy import history as fold
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Failed, Judged, Traced, proposed


def judge(state: State, runtime: Runtime[Ports]) -> Update:
    trial = state["trial"]
    assert isinstance(trial, Traced | Failed)
    known = history(runtime.context)
    limits = known.limits
    if proposed(trial).author:  # a person is asked what becomes of it, not the planner
        limits = limits.model_copy(update={"split": False})
    verdict = accept.judge(trial, fold.standing(known), limits, best_profile=counters_of_best(state, known))
    return {"trial": Judged(trial=trial, verdict=verdict)}
