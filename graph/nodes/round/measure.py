"""Measure as long as the policy wants more. A crash in between costs nothing: what was answered is on the tape."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.evidence import Measured
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.measure import wanted
from ridgeline.graph.ports import Ports
from ridgeline.graph.standing import BenchmarkWant, CompareWant, Standing
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Timed, Verified, find, proposed


def measure(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Verified | Timed)
    known = history(ports)
    best, number = fold.standing(known), proposed(trial).round
    verified = find(trial, Verified)
    assert verified is not None
    candidate = verified.built.applied.commit
    while (want := wanted(trial, best, known.limits)) is not None:
        found = take(ports, want, best=best, candidate=candidate, purpose=f"round-{number}", blocks=known.limits.blocks)
        so_far = trial.evidence if isinstance(trial, Timed) else ()
        trial = Timed(verified=verified, evidence=(*so_far, found))
    return {"trial": trial if isinstance(trial, Timed) else Timed(verified=verified, evidence=())}


def take(
    ports: Ports, want: BenchmarkWant | CompareWant, *, best: Standing, candidate: str, purpose: str, blocks: int
) -> Measured:
    """Carry out one wanted measurement."""
    match want:
        case BenchmarkWant():
            return ports.timer.benchmark(
                candidate if want.which == "candidate" else best.commit,
                level=want.level,
                source="quick",
                shapes=best.all_shapes if want.level == "full" else best.shapes,
                repeat=want.repeat,
                purpose=purpose,
            )
        case CompareWant():
            return ports.timer.compare(
                best=best.commit,
                candidate=candidate,
                shapes=best.all_shapes,
                first_pair=want.first_pair,
                pairs=want.pairs,
                blocks=blocks,
                purpose=purpose,
            )
