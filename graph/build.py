"""The wiring diagram, readable top to bottom."""

import inspect
from collections.abc import Callable
from functools import wraps
from itertools import pairwise
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from ridgeline.graph import (
    approval,
    briefing,
    contract,
    edges,
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
from ridgeline.graph.nodes.approve import approve_change, approve_hypothesis, approve_target
from ridgeline.graph.nodes.close.check_stop import check_stop
from ridgeline.graph.nodes.close.conclude import conclude, final_test, full_validation
from ridgeline.graph.nodes.close.restart import restart
from ridgeline.graph.nodes.close.review import review
from ridgeline.graph.nodes.close.round import accept, rollback
from ridgeline.graph.nodes.round.analyze import analyze
from ridgeline.graph.nodes.round.apply import apply
from ridgeline.graph.nodes.round.compile import compile  # noqa: A004 - the phase's name
from ridgeline.graph.nodes.round.draft import draft
from ridgeline.graph.nodes.round.format import format  # noqa: A004 - the phase's name
from ridgeline.graph.nodes.round.judge import judge
from ridgeline.graph.nodes.round.measure import measure
from ridgeline.graph.nodes.round.propose import propose
from ridgeline.graph.nodes.round.repair import repair
from ridgeline.graph.nodes.round.revalidate import revalidate
from ridgeline.graph.nodes.round.split import split
from ridgeline.graph.nodes.round.trace import trace
from ridgeline.graph.nodes.round.verify import verify
from ridgeline.graph.nodes.setup.baseline import baseline, baseline_measure, baseline_profile, baseline_test
from ridgeline.graph.nodes.setup.calibrate import calibrate, canary
from ridgeline.graph.nodes.setup.define import define
from ridgeline.graph.nodes.setup.prepare import prepare
from ridgeline.graph.nodes.setup.recall import recall
from ridgeline.graph.nodes.setup.roofline import roofline
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update

MODULES = (
    approval,
    briefing,
    carried,
    contract,
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

SETUP = (
    define,
    approve_target,
    prepare,
    roofline,
    recall,
    baseline_test,
    baseline_measure,
    baseline_profile,
    baseline,
    calibrate,
)
ROUND = (analyze, propose, approve_hypothesis, draft, apply, compile, verify, repair, measure, trace, judge)
CLOSE = (
    split,
    format,
    revalidate,
    approve_change,
    accept,
    rollback,
    canary,
    check_stop,
    review,
    restart,
    final_test,
    full_validation,
    conclude,
)


def declared(node: Callable[..., Update]) -> Callable[..., Update]:
    """LangGraph drops undeclared keys silently; this makes a typo loud."""

    @wraps(node)
    def run(*args: Any, **kwargs: Any) -> Update:
        update = node(*args, **kwargs)
        if extra := update.keys() - State.__annotations__.keys():
            raise KeyError(f"{node.__name__} returned undeclared keys {sorted(extra)}")
        return update

    return run


def build(checkpointer: Any = None) -> CompiledStateGraph[State, Ports, State, State]:
    """The compiled loop. Effects come in through the `Ports` given as run-time context."""
    loop = StateGraph(State, context_schema=Ports)
    for node in (*SETUP, *ROUND, *CLOSE):
        loop.add_node(node.__name__, declared(node))

    loop.add_conditional_edges(START, edges.where_to_begin)
    for before, after in pairwise(SETUP):
        loop.add_edge(before.__name__, after.__name__)
    loop.add_edge("calibrate", "check_stop")

    loop.add_edge("analyze", "propose")
    loop.add_conditional_edges("propose", edges.after_propose)
    loop.add_conditional_edges("approve_hypothesis", edges.after_approve_hypothesis)
    loop.add_conditional_edges("draft", edges.after_draft)
    loop.add_conditional_edges("apply", edges.after_apply)
    loop.add_conditional_edges("compile", edges.after_compile)
    loop.add_conditional_edges("verify", edges.after_verify)
    loop.add_conditional_edges("repair", edges.after_repair)
    loop.add_edge("measure", "trace")
    loop.add_edge("trace", "judge")
    loop.add_conditional_edges("judge", edges.after_judge)
    loop.add_conditional_edges("split", edges.after_split)
    loop.add_edge("format", "revalidate")
    loop.add_conditional_edges("revalidate", edges.after_revalidate)
    loop.add_conditional_edges("approve_change", edges.after_approve_change)
    loop.add_conditional_edges("accept", edges.after_round)
    loop.add_conditional_edges("rollback", edges.after_round)
    loop.add_conditional_edges("canary", edges.after_canary)

    loop.add_conditional_edges("check_stop", edges.after_check_stop)
    loop.add_conditional_edges("review", edges.after_review)
    loop.add_edge("restart", "analyze")
    loop.add_edge("final_test", "full_validation")
    loop.add_edge("full_validation", "conclude")
    loop.add_edge("conclude", END)
    return loop.compile(checkpointer=checkpointer)
