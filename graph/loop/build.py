"""The loop: every node, in order, and where it leads; `list_nodes` is the whole of it.

Nodes are in `setup`, `round` and `close` beside this file. What each decides is a rule in `graph/rules`, for example
`judge`: `round.decide` asks `rules.acceptance.decide_verdict`, which says why a change is kept or not.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ridgeline.graph import (
    approval,
    briefing,
    contract,
    deep,
    evidence,
    finding,
    limits,
    ports,
    record,
    standing,
    target,
    trial,
    values,
    verdict,
)
from ridgeline.graph import state as carried
from ridgeline.graph.loop.close import (
    accept,
    check_stop,
    conclude,
    final_test,
    full_validation,
    restart,
    review,
    rollback,
)
from ridgeline.graph.loop.context import read_history
from ridgeline.graph.loop.round import (
    analyze,
    apply,
    approve_change,
    approve_hypothesis,
    compile_candidate,
    decide,
    draft,
    format_candidate,
    go_deep,
    line_up,
    list_contestants,
    local_gate,
    measure,
    propose,
    repair,
    revalidate,
    split,
    sync_back,
    trace,
    verify,
)
from ridgeline.graph.loop.setup import (
    approve_target,
    baseline,
    baseline_measure,
    baseline_profile,
    baseline_test,
    calibrate,
    canary,
    define,
    prepare,
    recall,
    roofline,
    write_baseline,
)
from ridgeline.graph.ports import Ports
from ridgeline.graph.rules.calibration import next_calibration
from ridgeline.graph.rules.gates import needs_person
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.graph.rules.stagnation import can_restart, find_stagnation
from ridgeline.graph.rules.stop import should_stop
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Applied, Broken, Built, Drafted, Failed, Judged, Proposed, Verified, find_proposal

Node = Callable[..., Update]
Router = Callable[..., str]


def list_nodes() -> tuple[tuple[str, Node, str | Router], ...]:
    """Name in checkpoints and drawings, function, and the next node; where it depends, the router that says which."""
    return (
        # setup, once
        ("define", define, "approve_target"),
        ("approve_target", approve_target, "prepare"),
        ("prepare", prepare, "roofline"),
        ("roofline", roofline, "write_baseline"),
        ("write_baseline", write_baseline, "recall"),
        ("recall", recall, "baseline_test"),
        ("baseline_test", baseline_test, "baseline_measure"),
        ("baseline_measure", baseline_measure, "baseline_profile"),
        ("baseline_profile", baseline_profile, "baseline"),
        ("baseline", baseline, after_baseline),
        ("calibrate", calibrate, after_calibrate),
        # a round: one hypothesis, or several that are tried side by side
        ("analyze", analyze, "propose"),
        ("propose", propose, after_propose),
        ("approve_hypothesis", approve_hypothesis, after_approve_hypothesis),
        ("draft", draft, after_draft),
        ("go_deep", go_deep, after_draft),
        ("apply", apply, after_apply),
        ("local_gate", local_gate, after_local_gate),
        ("sync_back", sync_back, after_sync_back),
        ("compile", compile_candidate, after_compile),
        ("verify", verify, after_verify),
        ("repair", repair, after_repair),
        ("line_up", line_up, after_line_up),
        ("measure", measure, "trace"),
        ("trace", trace, "judge"),
        ("judge", decide, after_judge),
        ("split", split, after_split),
        ("format", format_candidate, "revalidate"),
        ("revalidate", revalidate, after_revalidate),
        ("approve_change", approve_change, after_approve_change),
        # closing it
        ("accept", accept, after_close),
        ("rollback", rollback, after_close),
        ("canary", canary, after_canary),
        ("check_stop", check_stop, after_check_stop),
        ("review", review, after_review),
        ("restart", restart, "analyze"),
        # the end
        ("final_test", final_test, "full_validation"),
        ("full_validation", full_validation, "conclude"),
        ("conclude", conclude, END),
    )


def build_loop(checkpointer: Any = None) -> CompiledStateGraph[State, Ports, State, State]:
    """The compiled loop of nodes. Effects come in through the `Ports` given as run-time context."""
    loop = StateGraph(State, context_schema=Ports)
    loop.add_conditional_edges(START, where_to_begin)
    for name, node, after in list_nodes():
        loop.add_node(name, check_update(name, node))
        if isinstance(after, str):
            loop.add_edge(name, after)
        else:
            loop.add_conditional_edges(name, after)
    return loop.compile(checkpointer=checkpointer)


def check_update(name: str, node: Node) -> Node:
    """The update that a node of the loop returns, checked: LangGraph drops undeclared keys silently; this makes a typo loud."""

    @wraps(node)
    def run(*args: Any, **kwargs: Any) -> Update:
        update = node(*args, **kwargs)
        if extra := update.keys() - State.__annotations__.keys():
            raise KeyError(f"{name} returned undeclared keys {sorted(extra)}")
        return update

    return run


# Where a node leads when that depends: pure and total, and each names only the places that it can really lead to.


def where_to_begin(
    state: State, runtime: Runtime[Ports]
) -> Literal["define", "baseline_test", "calibrate", "canary", "check_stop", "__end__"]:
    """Router: a fresh campaign begins with its target; one without checkpoints goes on after its last closed round."""
    history = fold_ledger(runtime.context.ledger.lines())
    if history is None or history.roofline is None:
        return "define"
    if history.baseline is None:
        return "baseline_test"
    if history.concluded:
        return "__end__"
    due = next_calibration(history)
    if due == "canary":
        return "canary"  # killed after a round was closed, before what that round makes due
    if due != "calibration" or (history.limits.calibration_late and not history.calibrations):
        return "check_stop"  # the first one may wait for the first candidate, one that an alarm asks for does not
    return "calibrate"


def after_baseline(state: State, runtime: Runtime[Ports]) -> Literal["calibrate", "check_stop"]:
    """Router: nobody waits for a calibration but the first candidate that is measured."""
    return "check_stop" if read_history(runtime.context).limits.calibration_late else "calibrate"


def after_calibrate(state: State) -> Literal["measure", "check_stop"]:
    return "measure" if _is_candidate_ready(state) else "check_stop"


def after_propose(
    state: State, runtime: Runtime[Ports]
) -> Literal["approve_hypothesis", "draft", "go_deep", "line_up", "check_stop"]:
    if state["trial"] is None:
        return "check_stop"
    if "hypothesis" in read_history(runtime.context).limits.approve and not isinstance(state["trial"], Failed):
        return "approve_hypothesis"
    return after_approve_hypothesis(state)


def after_approve_hypothesis(state: State) -> Literal["draft", "go_deep", "line_up"]:
    trial = state["trial"]
    if not isinstance(trial, Proposed):
        return "line_up"
    return "draft" if trial.deep is None else "go_deep"


def after_draft(state: State) -> Literal["apply", "line_up"]:
    return "line_up" if isinstance(state["trial"], Failed) else "apply"


def after_apply(state: State, runtime: Runtime[Ports]) -> Literal["local_gate", "compile", "line_up"]:
    """Router: one of several candidates waits until all are drafted; what was repaired had its turn."""
    trial, opened = state["trial"], read_history(runtime.context).opened
    if isinstance(trial, Failed):
        return "line_up"
    assert isinstance(trial, Applied)
    if opened.drafts_first and (state.get("queue") or state.get("rivals")) and not trial.drafted.repairs:
        return "line_up"
    return "local_gate" if opened.minimal else "compile"


def after_local_gate(state: State) -> Literal["sync_back", "repair", "line_up"]:
    """Router: only what the minimal project builds and finds right is synced back."""
    trial = state["trial"]
    if isinstance(trial, Failed):
        return "line_up"
    return "sync_back" if isinstance(trial, Applied) else "repair"


def after_sync_back(state: State) -> Literal["compile", "line_up"]:
    return "line_up" if isinstance(state["trial"], Failed) else "compile"


def after_compile(state: State) -> Literal["verify", "repair", "line_up"]:
    trial = state["trial"]
    if isinstance(trial, Failed):
        return "line_up"
    assert isinstance(trial, Built)
    return "verify" if trial.build.ok else "repair"


def after_verify(state: State) -> Literal["line_up", "repair"]:
    return "repair" if isinstance(state["trial"], Broken) else "line_up"


def after_repair(state: State) -> Literal["apply", "line_up"]:
    return "line_up" if isinstance(state["trial"], Failed) else "apply"


def after_line_up(
    state: State, runtime: Runtime[Ports]
) -> Literal["approve_hypothesis", "draft", "local_gate", "compile", "line_up", "calibrate", "measure", "judge"]:
    """Router: every candidate of the round is drafted, built and tested before the first is timed."""
    trial, history = state["trial"], read_history(runtime.context)
    if isinstance(trial, Proposed):
        return "approve_hypothesis" if "hypothesis" in history.limits.approve else "draft"
    if isinstance(trial, Applied):
        return "local_gate" if history.opened.minimal else "compile"
    if state.get("queue") or any(isinstance(rival, Applied) for rival in state.get("rivals", ())):
        return "line_up"  # a rule forbade this one before anything was written for it
    if not _is_candidate_ready(state):
        return "judge"
    late = history.limits.calibration_late and next_calibration(history) == "calibration"
    return "calibrate" if late else "measure"


def _is_candidate_ready(state: State) -> bool:
    """For the loop's routers: whether a candidate is built and right, and waits to be timed."""
    return state["trial"] is not None and any(isinstance(trial, Verified) for trial in list_contestants(state))


def after_judge(state: State) -> Literal["format", "rollback", "split", "approve_change"]:
    """Router: an edit that is not kept goes back to whoever gave it: the change that it edits still waits."""
    trial = state["trial"]
    assert isinstance(trial, Judged)
    if find_proposal(trial).author and not trial.verdict.accepted:
        return "approve_change"
    if trial.verdict.decision == "split":
        return "split"
    return "format" if trial.verdict.accepted else "rollback"


def after_split(state: State) -> Literal["apply", "rollback"]:
    return "rollback" if isinstance(state["trial"], Judged) else "apply"


def after_revalidate(state: State, runtime: Runtime[Ports]) -> Literal["approve_change", "accept", "rollback"]:
    trial = state["trial"]
    assert isinstance(trial, Judged)
    if find_proposal(trial).author:
        return "approve_change"
    if not trial.verdict.accepted:
        return "rollback"
    if any(decision.choice == "approve" and "-change-" in decision.key for decision in state["decisions"]):
        return "accept"  # a person chose it before it was formatted
    gates = read_history(runtime.context).limits.approve
    return "approve_change" if "change" in gates or (gates and needs_person(trial.verdict)) else "accept"


def after_approve_change(state: State) -> Literal["accept", "rollback", "apply", "format"]:
    """Router: a person's edited change is measured like any other, and asked about again; another candidate is yet to be formatted."""
    trial = state["trial"]
    if isinstance(trial, Drafted):
        return "apply"
    assert isinstance(trial, Judged)
    if not trial.verdict.accepted:
        return "rollback"
    return "accept" if trial.formatted else "format"


def after_review(state: State) -> Literal["analyze", "check_stop"]:
    """Router: a planner that sees nothing worth a round says so in a review as in any other question."""
    return "check_stop" if state["exhausted"] else "analyze"


def after_close(state: State, runtime: Runtime[Ports]) -> Literal["canary", "check_stop"]:
    return "canary" if next_calibration(read_history(runtime.context)) == "canary" else "check_stop"


def after_canary(state: State, runtime: Runtime[Ports]) -> Literal["calibrate", "check_stop"]:
    return "calibrate" if next_calibration(read_history(runtime.context)) == "calibration" else "check_stop"


def after_check_stop(state: State, runtime: Runtime[Ports]) -> Literal["analyze", "review", "restart", "final_test"]:
    history, checks = read_history(runtime.context), state["checks"]
    assert checks is not None
    if state["exhausted"] and can_restart(history) and not _stops_but_for_exhaustion(state):
        return "restart"
    if should_stop(checks):
        return "final_test"
    return "review" if find_stagnation(history) else "analyze"


def _stops_but_for_exhaustion(state: State) -> bool:
    return any(check.satisfied and check.id != "T8" for check in state["checks"] or ())


MODULES = (
    approval,
    briefing,
    carried,
    contract,
    deep,
    evidence,
    finding,
    limits,
    ports,
    record,
    standing,
    target,
    trial,
    values,
    verdict,
)
CHECKPOINTED = sorted(
    {
        (cls.__module__, name)
        for module in MODULES
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, values.Value)
    }
)
"""Every value a checkpoint may hold: what the serializer is allowed to bring back."""
