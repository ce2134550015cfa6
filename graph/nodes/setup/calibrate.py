"""Time the best version against itself, so that every later gain is judged by the noise of this machine."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.evidence import BenchmarkFailed, Comparison
from ridgeline.graph.nodes.close.publish import publish
from ridgeline.graph.policy import calibration
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.spent import ran
from ridgeline.graph.policy.stop import nothing_to_gain
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import Calibrated
from ridgeline.graph.standing import History
from ridgeline.graph.state import State, Update


def calibrate(state: State, runtime: Runtime[Ports]) -> Update:
    """In full: before the first candidate, and again when a canary says that the noise on record no longer holds.

    Not where the original stands at its ceiling: no candidate will come.
    """
    ports = runtime.context
    known = history(ports)
    if calibration.due(known) == "calibration" and not nothing_to_gain(known):
        _record(ports, known, pairs=known.limits.calibration_pairs, fresh=True)
    return {}


def canary(state: State, runtime: Runtime[Ports]) -> Update:
    """A few pairs now and then: does the calibration still hold?"""
    ports = runtime.context
    known = history(ports)
    if calibration.due(known) == "canary":
        _record(ports, known, pairs=known.limits.canary_pairs, fresh=False)
    return {}


def _record(ports: Ports, known: History, *, pairs: int, fresh: bool) -> None:
    best, after = fold.standing(known), fold.next_round(known) - 1
    found = ports.timer.calibrate(
        best.commit,
        shapes=best.all_shapes,
        pairs=pairs,
        blocks=known.limits.blocks,
        budget_s=known.limits.calibration_minutes * 60,
        fresh=bool(known.calibrations),
        purpose=f"{'calibration' if fresh else 'canary'}-{after}",
    )
    failed = found if isinstance(found, BenchmarkFailed) else None
    body = Calibrated(
        after_round=after,
        fresh=fresh,
        comparison=found if isinstance(found, Comparison) else None,
        alarm="" if fresh else _alarm(found, known),
        note=f"not measured ({failed.reason}): {failed.detail}" if failed else "",
        cost=ran(found),
    )
    ports.ledger.append(body)
    publish(ports)


def _alarm(found: Comparison | BenchmarkFailed, known: History) -> str:
    return "" if isinstance(found, BenchmarkFailed) else calibration.alarm(found, known)
