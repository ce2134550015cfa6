"""Stagnation review: the direction changes; it is a switch, never a stop."""

from langgraph.runtime import Runtime

from graph.context import briefing, history
from graph.nodes.close.publish import publish
from graph.policy import stagnate
from graph.policy.counters import consecutive_rollbacks
from graph.ports import Ports
from graph.record import Reviewed
from graph.state import State, Update


def review(state: State, runtime: Runtime[Ports]) -> Update:
    ports = runtime.context
    last = history(ports).rounds[-1].round
    known = history(ports, before=f"review-after-{last}")
    why = stagnate.trigger(known)
    assert why is not None
    found = ports.planner.review(briefing(state, ports, before=f"review-after-{last}"), why)
    ports.ledger.append(
        Reviewed(
            after_round=last,
            trigger=why,
            directions=found.directions,
            escalation=stagnate.escalation(consecutive_rollbacks(known.rounds)),
            cost=found.cost,
        )
    )
    publish(ports)
    return {"checks": None}
