"""Profile the candidate: predicted against observed counters."""

from langgraph.runtime import Runtime

from graph.evidence import BenchmarkFailed
from graph.ports import Ports
from graph.state import State, Update
from graph.trial import Timed, Traced, proposed


def trace(state: State, runtime: Runtime[Ports]) -> Update:
    trial = state["trial"]
    assert isinstance(trial, Timed)
    if not trial.evidence or any(isinstance(item, BenchmarkFailed) for item in trial.evidence):
        return {"trial": Traced(timed=trial, profile=None)}
    commit = trial.verified.built.applied.commit
    profile = runtime.context.profiler.profile(commit, purpose=f"round-{proposed(trial).round}")
    return {"trial": Traced(timed=trial, profile=profile)}
