"""Profile the best version and name its bottleneck."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.bottleneck import classify
from ridgeline.graph.policy.counters import consecutive_rollbacks
from ridgeline.graph.policy.roofline import shape_roofs
from ridgeline.graph.ports import Ports
from ridgeline.graph.standing import History
from ridgeline.graph.state import Analysis, State, Update

REPROFILE_AT = 2
"""Rule 7: from the second rollback in a row on, the best version is profiled afresh."""


def analyze(state: State, runtime: Runtime[Ports]) -> Update:
    ports = runtime.context
    known = history(ports)
    best, number = fold.standing(known), fold.next_round(known)
    opened_at = ports.clock.now(f"round-{number} opened")
    profile = fold.best_profile(known)
    if profile is None or consecutive_rollbacks(known.rounds) >= REPROFILE_AT or _restarted(known, number):
        profile = ports.profiler.profile(best.commit, purpose=f"round-{number} best")
    ceilings = known.roofline.ceilings if known.roofline else None
    roofs = shape_roofs(best.quick.rows, known.contract.work, ceilings)
    cpu = known.opened.machine.kind == "cpu"
    bottleneck, evidence = classify(profile, roofs, best.quick.rows, known.contract.scoring, cpu=cpu)
    seen = Analysis(round=number, opened_at=opened_at, profile=profile, bottleneck=bottleneck, evidence=evidence)
    return {"analysis": seen, "proposal": None, "trial": None, "checks": None}


def _restarted(known: History, number: int) -> bool:
    """Whether this is the first round after a partial restart, which looks afresh."""
    return bool(known.restarts) and known.restarts[-1].after_round == number - 1
