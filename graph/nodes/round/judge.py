"""Call the policy; no effect."""

from langgraph.runtime import Runtime

from graph.context import history
from graph.policy import accept
from graph.policy import history as fold
from graph.ports import Ports
from graph.state import State, Update
from graph.trial import Failed, Judged, Traced


def judge(state: State, runtime: Runtime[Ports]) -> Update:
    trial = state["trial"]
    assert isinstance(trial, Traced | Failed)
    known = history(runtime.context)
    verdict = accept.judge(trial, fold.standing(known), known.limits, best_profile=fold.best_profile(known))
    return {"trial": Judged(trial=trial, verdict=verdict)}
