"""Winners and losers diverge by configuration class: ask once for a specialised kernel with a dispatch."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import briefing, counters_of_best, history
from ridgeline.graph.policy import accept
from ridgeline.graph.policy import history as fold
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Drafted, Failed, Judged, Traced, find, redrafted


def split(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    answer = ports.planner.split(briefing(state, ports), trial)
    drafted = find(trial, Drafted)
    assert drafted is not None
    asked = {"prompts": (*drafted.prompts, *answer.prompts), "cost": drafted.cost + answer.cost}
    if answer.edits:
        update = {"edits": answer.edits, "explanation": answer.explanation, "split": True, **asked}
        return {"trial": drafted.model_copy(update=update)}
    refused = redrafted(trial.trial, drafted.model_copy(update=asked))
    assert isinstance(refused, Traced | Failed)
    known = history(ports)
    limits = known.limits.model_copy(update={"split": False})
    verdict = accept.judge(refused, fold.standing(known), limits, best_profile=counters_of_best(state, known))
    return {"trial": Judged(trial=refused, verdict=verdict)}
