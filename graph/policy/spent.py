"""What a round cost, added up from its own evidence and the two instants that bound it."""

from datetime import datetime

from graph.record import Reflection
from graph.trial import (
    Applied,
    Broken,
    Built,
    Drafted,
    Failed,
    Formatted,
    Judged,
    Proposed,
    Stage,
    Timed,
    Traced,
    Verified,
    inner,
)
from graph.values import Cost


def minutes_between(earlier: str, later: str) -> float:
    """Minutes from one ISO-8601 instant to another."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds() / 60


def spent(trial: Judged, reflection: Reflection, *, opened_at: str, closed_at: str) -> Cost:
    """Planner costs and command seconds of every stage; wall seconds from the clock."""
    total = Cost(wall_seconds=minutes_between(opened_at, closed_at) * 60) + reflection.cost
    stage: Stage | None = trial
    while stage is not None:
        total = total + _of(stage)
        stage = inner(stage)
    return total + Cost(command_seconds=_formatted_seconds(trial.formatted))


def _of(stage: Stage) -> Cost:
    match stage:
        case Proposed():
            return stage.cost
        case Drafted():
            return sum((repair.cost for repair in stage.repairs), stage.cost)
        case Built():
            return Cost(command_seconds=stage.build.exit.seconds if stage.build.exit else 0.0)
        case Broken() | Verified():
            return Cost(command_seconds=stage.test.seconds)
        case Timed():
            return Cost(command_seconds=sum(item.seconds for item in stage.evidence))
        case Traced():
            return Cost(command_seconds=stage.profile.seconds if stage.profile else 0.0)
        case Applied() | Failed() | Judged():
            return Cost()


def _formatted_seconds(formatted: Formatted | None) -> float:
    return sum(item.seconds for item in formatted.evidence) if formatted else 0.0
