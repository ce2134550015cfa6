"""Winners and losers diverge by configuration class: ask once for a specialised kernel with a dispatch."""

from langgraph.runtime import Runtime

from graph.context import briefing, counters_of_best, history
from graph.policy import accept
from graph.policy import history as fold
from graph.ports import Ports
from graph.state import State, Update
from graph.trial import Drafted, Judged, find


def split(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    answer = ports.planner.split(briefing(state, ports), trial)
    drafted = find(trial, Drafted)
    assert drafted is not None
    if answer.edits:
        update = {
            "edits": answer.edits,
            "explanation": answer.explanation,
            "split": True,
            "prompts": (*drafted.prompts, *answer.prompts),
            "cost": drafted.cost + answer.cost,
        }
        return {"trial": drafted.model_copy(update=update)}
    known = history(ports)
    limits = known.limits.model_copy(update={"split": False})
    verdict = accept.judge(trial.trial, fold.standing(known), limits, best_profile=counters_of_best(state, known))
    return {"trial": Judged(trial=trial.trial, verdict=verdict)}
