"""Same hypothesis, smaller fix, at most limits.max_repairs times."""

from typing import Literal

from langgraph.runtime import Runtime

from ridgeline.graph.context import briefing
from ridgeline.graph.limits import Limits
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Broken, Built, Drafted, Failed, Repair, find


def repairs_left(drafted: Drafted, limits: Limits) -> int:
    """How often the planner may still be asked to mend this draft: never, where a person wrote it."""
    return 0 if drafted.proposed.author else limits.max_repairs - len(drafted.repairs)


def repair(state: State, runtime: Runtime[Ports]) -> Update:
    trial = state["trial"]
    assert isinstance(trial, Broken | Built)
    drafted = find(trial, Drafted)
    assert drafted is not None
    attempt = len(drafted.repairs) + 1
    answer = runtime.context.planner.repair(briefing(state, runtime.context), trial, attempt)
    evidence = _evidence(trial)
    asked = Repair(evidence=evidence, explanation=answer.explanation or answer.refusal, cost=answer.cost)
    if not answer.edits:
        detail = f"{evidence}\nrepair {attempt}: {answer.refusal or 'no edits'}"
        reached = _noted(trial, drafted.model_copy(update={"repairs": (*drafted.repairs, asked)}))
        reason: Literal["incorrect", "build_failed"] = "incorrect" if isinstance(trial, Broken) else "build_failed"
        return {"trial": Failed(reached=reached, reason=reason, detail=detail)}
    update = {
        "edits": answer.edits,
        "explanation": answer.explanation or drafted.explanation,
        "repairs": (*drafted.repairs, asked),
        "prompts": (*drafted.prompts, *answer.prompts),
    }
    return {"trial": drafted.model_copy(update=update)}


def _noted(trial: Broken | Built, drafted: Drafted) -> Broken | Built:
    """The same trial around a draft that remembers the refused repair: asking for it cost something too."""
    if isinstance(trial, Broken):
        return trial.model_copy(update={"built": _around(trial.built, drafted)})
    return _around(trial, drafted)


def _around(built: Built, drafted: Drafted) -> Built:
    return built.model_copy(update={"applied": built.applied.model_copy(update={"drafted": drafted})})


def _evidence(trial: Broken | Built) -> str:
    if isinstance(trial, Broken):
        return trial.test.detail
    return trial.build.exit.output if trial.build.exit else ""
