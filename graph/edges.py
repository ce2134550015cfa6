"""Where to go next. Pure and total; each router names only the places its node can really lead."""

from typing import Literal

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.policy import calibration
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.gates import needs_person
from ridgeline.graph.policy.restart import possible
from ridgeline.graph.policy.stagnate import trigger
from ridgeline.graph.policy.stop import should_stop
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State
from ridgeline.graph.trial import Broken, Built, Drafted, Failed, Judged, proposed


def where_to_begin(
    state: State, runtime: Runtime[Ports]
) -> Literal["define", "baseline_test", "calibrate", "check_stop", "__end__"]:
    """A fresh campaign begins with its target; one without checkpoints goes on after its last closed round."""
    known = fold.fold(runtime.context.ledger.lines())
    if known is None or known.roofline is None:
        return "define"
    if known.baseline is None:
        return "baseline_test"
    if known.concluded:
        return "__end__"
    return "calibrate" if calibration.due(known) == "calibration" else "check_stop"


def after_propose(
    state: State, runtime: Runtime[Ports]
) -> Literal["approve_hypothesis", "draft", "judge", "check_stop"]:
    if state["trial"] is None:
        return "check_stop"
    if isinstance(state["trial"], Failed):
        return "judge"
    return "approve_hypothesis" if "hypothesis" in history(runtime.context).limits.approve else "draft"


def after_approve_hypothesis(state: State) -> Literal["draft", "judge"]:
    return "judge" if isinstance(state["trial"], Failed) else "draft"


def after_draft(state: State) -> Literal["apply", "judge"]:
    return "judge" if isinstance(state["trial"], Failed) else "apply"


def after_apply(state: State) -> Literal["compile", "judge"]:
    return "judge" if isinstance(state["trial"], Failed) else "compile"


def after_compile(state: State) -> Literal["verify", "repair", "judge"]:
    trial = state["trial"]
    if isinstance(trial, Failed):
        return "judge"
    assert isinstance(trial, Built)
    return "verify" if trial.build.ok else "repair"


def after_verify(state: State) -> Literal["measure", "repair", "judge"]:
    trial = state["trial"]
    if isinstance(trial, Failed):
        return "judge"
    return "repair" if isinstance(trial, Broken) else "measure"


def after_repair(state: State) -> Literal["apply", "judge"]:
    return "judge" if isinstance(state["trial"], Failed) else "apply"


def after_judge(state: State) -> Literal["format", "rollback", "split", "approve_change"]:
    """An edit that is not kept goes back to whoever gave it: the change that it edits still waits."""
    trial = state["trial"]
    assert isinstance(trial, Judged)
    if proposed(trial).author and not trial.verdict.accepted:
        return "approve_change"
    if trial.verdict.decision == "split":
        return "split"
    return "format" if trial.verdict.accepted else "rollback"


def after_split(state: State) -> Literal["apply", "rollback"]:
    return "rollback" if isinstance(state["trial"], Judged) else "apply"


def after_revalidate(state: State, runtime: Runtime[Ports]) -> Literal["approve_change", "accept", "rollback"]:
    trial = state["trial"]
    assert isinstance(trial, Judged)
    if proposed(trial).author:
        return "approve_change"
    if not trial.verdict.accepted:
        return "rollback"
    gates = history(runtime.context).limits.approve
    return "approve_change" if "change" in gates or (gates and needs_person(trial.verdict)) else "accept"


def after_approve_change(state: State) -> Literal["accept", "rollback", "apply"]:
    """An edited change is measured like any other, and asked about again."""
    trial = state["trial"]
    if isinstance(trial, Drafted):
        return "apply"
    assert isinstance(trial, Judged)
    return "accept" if trial.verdict.accepted else "rollback"


def after_review(state: State) -> Literal["analyze", "check_stop"]:
    """A planner that sees nothing worth a round says so in a review as in any other question."""
    return "check_stop" if state["exhausted"] else "analyze"


def after_round(state: State, runtime: Runtime[Ports]) -> Literal["canary", "check_stop"]:
    return "canary" if calibration.due(history(runtime.context)) == "canary" else "check_stop"


def after_canary(state: State, runtime: Runtime[Ports]) -> Literal["calibrate", "check_stop"]:
    return "calibrate" if calibration.due(history(runtime.context)) == "calibration" else "check_stop"


def after_check_stop(state: State, runtime: Runtime[Ports]) -> Literal["analyze", "review", "restart", "final_test"]:
    known, found = history(runtime.context), state["checks"]
    assert found is not None
    if state["exhausted"] and possible(known) and not _stop_but_for_exhaustion(state):
        return "restart"
    if should_stop(found):
        return "final_test"
    return "review" if trigger(known) else "analyze"


def _stop_but_for_exhaustion(state: State) -> bool:
    return any(check.satisfied and check.id != "T8" for check in state["checks"] or ())
