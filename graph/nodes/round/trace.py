"""Profile the candidate: predicted against observed counters."""

from langgraph.runtime import Runtime

from graph.context import history
from graph.policy import history as fold
from graph.policy.readings import readings
from graph.ports import Ports
from graph.state import State, Update
from graph.trial import Timed, Traced, proposed


def trace(state: State, runtime: Runtime[Ports]) -> Update:
    trial, known = state["trial"], history(runtime.context)
    assert isinstance(trial, Timed)
    if not trial.evidence or readings(trial, fold.standing(known), known.limits).failed is not None:
        return {"trial": Traced(timed=trial, profile=None)}
    commit = trial.verified.built.applied.commit
    profile = runtime.context.profiler.profile(commit, purpose=f"round-{proposed(trial).round}")
    return {"trial": Traced(timed=trial, profile=profile)}
