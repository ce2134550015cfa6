"""What a round cost, added up from its own evidence and the two instants that bound it."""

from collections.abc import Sequence
from datetime import datetime

from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Comparison, Profiled, TestResult
from ridgeline.graph.record import Reflection, RoundClosed
from ridgeline.graph.trial import (
    Applied,
    Broken,
    Built,
    Drafted,
    Failed,
    Judged,
    Proposed,
    Stage,
    Timed,
    Traced,
    Verified,
    inner,
)
from ridgeline.graph.values import Cost

Run = Benchmark | BenchmarkFailed | Comparison | TestResult | Profiled
"""A command of the contract, with its seconds."""


def minutes_between(earlier: str, later: str) -> float:
    """Minutes from one ISO-8601 instant to another."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds() / 60


def waited_minutes(rounds: Sequence[RoundClosed]) -> float:
    """Minutes that closed rounds waited for a person."""
    return sum(one.waited_s for closed in rounds for one in closed.decisions) / 60


def elapsed_minutes(opened_at: str, now: str, rounds: Sequence[RoundClosed]) -> float:
    """Minutes of a campaign's life that count towards `max_minutes`: since its first round, less waits for people."""
    return minutes_between(opened_at, now) - waited_minutes(rounds)


def spent(trial: Judged, reflection: Reflection, *, opened_at: str, closed_at: str) -> Cost:
    """Planner costs and command seconds of every stage; wall seconds from the clock."""
    return so_far(trial) + reflection.cost + Cost(wall_seconds=minutes_between(opened_at, closed_at) * 60)


def so_far(trial: Judged) -> Cost:
    """Of a round that has been judged and not yet closed; without wall seconds."""
    total = Cost()
    stage: Stage | None = trial
    while stage is not None:
        total = total + _of(stage)
        stage = inner(stage)
    return total + (ran(*trial.formatted.evidence) if trial.formatted else Cost())


def ran(*runs: Run | None) -> Cost:
    """Of commands: how long they took, and how long a card was held for them."""
    known = [run for run in runs if run is not None]
    return Cost(command_seconds=sum(run.seconds for run in known), gpu_seconds=sum(run.gpu_s for run in known))


def _of(stage: Stage) -> Cost:
    match stage:
        case Proposed():
            return stage.cost
        case Drafted():
            return sum((repair.cost for repair in stage.repairs), stage.cost)
        case Built():
            return Cost(command_seconds=stage.build.exit.seconds if stage.build.exit else 0.0)
        case Broken() | Verified():
            return ran(stage.test)
        case Timed():
            return ran(*stage.evidence)
        case Traced():
            return ran(stage.profile)
        case Applied() | Failed() | Judged():
            return Cost()
