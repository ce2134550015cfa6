"""TERMINATION_CHECK after every closed round."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.policy.spent import elapsed_minutes
from ridgeline.graph.policy.stop import checks
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update


def check_stop(state: State, runtime: Runtime[Ports]) -> Update:
    ports = runtime.context
    known = history(ports)
    last = known.rounds[-1].round if known.rounds else 1
    mark = f"{last}.{len(known.restarts)}"
    began = known.baseline.opened_at if known.baseline else ports.clock.now("round-1 opened")
    asked = ports.signals.stop_requested(last)
    minutes = elapsed_minutes(began, ports.clock.now(f"check after round-{mark}"), known.rounds)
    found = checks(known, stop_requested=asked, exhausted=state["exhausted"], elapsed_minutes=minutes)
    return {"checks": found}
