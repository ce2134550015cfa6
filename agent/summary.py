"""The one object that `run` and `resume` end in, folded from the ledger."""

from agent.outcome import Outcome, Status
from agent.wiring import Place
from graph.policy import history as fold
from graph.policy.final import numbers
from graph.ports import Ports
from graph.values import Cost


def outcome(place: Place, ports: Ports, *, status: Status) -> Outcome:
    """How the campaign stands now."""
    known = fold.fold(ports.ledger.lines())
    assert known is not None
    done, opened, found = known.concluded, known.opened, numbers(known)
    return Outcome(
        campaign=opened.target.campaign,
        dir=str(place.campaign_dir),
        status="concluded" if done else status,
        stop_reason=done.stop_reason if done else "",
        rounds=len(known.rounds),
        accepted=len(fold.accepted(known)),
        rolled_back=len(fold.rolled_back(known)),
        metric=opened.target.primary_metric,
        baseline=found.baseline,
        best=found.best,
        speedup=done.speedup if done else None,
        speedup_lower=done.speedup_lower if done else None,
        best_commit=fold.standing(known).commit if known.baseline else None,
        branch=opened.branch,
        cost=fold.total_cost(known) if known.baseline else Cost(),
        report=str(place.campaign_dir / "final_report.md"),
        preset=opened.limits.preset,
        planner=opened.planner,
    )
