"""Profile the candidate: predicted against observed counters."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.readings import readings
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Timed, Traced, proposed


def trace(state: State, runtime: Runtime[Ports]) -> Update:
    trial, known = state["trial"], history(runtime.context)
    assert isinstance(trial, Timed)
    if not trial.evidence or readings(trial, fold.standing(known), known.limits).failed is not None:
        return {"trial": Traced(timed=trial, profile=None)}
    commit = trial.verified.built.applied.commit
    profile = runtime.context.profiler.profile(commit, purpose=f"round-{proposed(trial).round}")
    return {"trial": Traced(timed=trial, profile=profile)}
