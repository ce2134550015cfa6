"""Stagnation review: the direction changes; it is a switch, never a stop."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import briefing, history
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed
from ridgeline.graph.nodes.close.publish import publish
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy import stagnate
from ridgeline.graph.policy.counters import consecutive_rollbacks
from ridgeline.graph.policy.direction import needs_full, showed
from ridgeline.graph.policy.spent import ran
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import Reviewed
from ridgeline.graph.standing import History
from ridgeline.graph.state import State, Update


def review(state: State, runtime: Runtime[Ports]) -> Update:
    ports = runtime.context
    last = history(ports).rounds[-1].round
    known = history(ports, before=f"review-after-{last}")
    why = stagnate.trigger(known)
    assert why is not None
    full, full_note = _full_validation(ports, known, last)
    found = ports.planner.review(briefing(state, ports, before=f"review-after-{last}"), why)
    ports.ledger.append(
        Reviewed(
            after_round=last,
            trigger=why,
            directions=found.directions,
            exhausted=found.exhausted,
            escalation=stagnate.escalation(consecutive_rollbacks(known.rounds)),
            full=full,
            full_note=full_note,
            prompts=found.prompts,
            cost=found.cost + ran(full),
        )
    )
    publish(ports)
    return {"checks": None, "exhausted": found.exhausted}


def _full_validation(ports: Ports, known: History, last: int) -> tuple[Benchmark | None, str]:
    """Rules 11.1: a direction ends with all shapes, when its best version has only been seen on some of them."""
    if not needs_full(known):
        return None, ""
    best = fold.standing(known)
    run = ports.timer.benchmark(
        best.commit,
        level="full",
        source="quick",
        shapes=best.all_shapes,
        repeat=0,
        purpose=f"direction end after round-{last}",
    )
    if isinstance(run, BenchmarkFailed):
        return None, f"round-{best.round} gave no usable numbers over all shapes ({run.reason}): {run.detail}"
    found, note = showed(run, known)
    return (run if found else None), note
