"""TERMINATION_CHECK after every closed round."""

from langgraph.runtime import Runtime

from ridgeline.graph.briefing import STOPPED
from ridgeline.graph.context import history
from ridgeline.graph.policy.spent import elapsed_minutes
from ridgeline.graph.policy.stop import ASKED, checks
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import Reviewed
from ridgeline.graph.standing import History
from ridgeline.graph.state import State, Update


def check_stop(state: State, runtime: Runtime[Ports]) -> Update:
    ports = runtime.context
    known = history(ports)
    last = known.rounds[-1].round if known.rounds else 1
    mark = f"{last}.{len(known.restarts)}"
    began = known.baseline.opened_at if known.baseline else ports.clock.now("round-1 opened")
    exhausted = state["exhausted"] or _reviewed_as_exhausted(known, ports)
    stopped = _stopped(known, ports, exhausted, last)
    minutes = elapsed_minutes(began, ports.clock.now(f"check after round-{mark}"), known.rounds)
    found = checks(known, stop_requested=bool(stopped), exhausted=exhausted, elapsed_minutes=minutes, stopped=stopped)
    return {"checks": found, "exhausted": exhausted}


def _reviewed_as_exhausted(known: History, ports: Ports) -> str:
    """What the review said that was closed last: a kill after it loses nothing of it."""
    last = ports.ledger.lines()[-1].body
    return last.exhausted if isinstance(last, Reviewed) else ""


def _stopped(known: History, ports: Ports, exhausted: str, last: int) -> str:
    """Who ended the campaign, and why; empty while no person has. Nothing is asked where that is on record."""
    if exhausted.startswith(STOPPED):
        return ASKED
    ended = next((one for one in (known.rounds[-1].decisions if known.rounds else ()) if one.exhausted), None)
    if ended is not None:
        return f"{ended.by} says that nothing is left: {ended.exhausted}"
    again = sum(event.after_round == last for event in known.reviews)
    again += sum(event.after_round == last for event in known.restarts)
    asked = ports.signals.stop_requested(last, again=again) if again else ports.signals.stop_requested(last)
    return ASKED if asked else ""
