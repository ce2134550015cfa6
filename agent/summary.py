"""The one object that `run` and `resume` end in, folded from the ledger."""

from ridgeline.agent.outcome import Outcome, Seen, Status
from ridgeline.agent.wanted import wanted
from ridgeline.agent.wiring import Place
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.calibration import alarms
from ridgeline.graph.policy.result import result
from ridgeline.graph.ports import Ports
from ridgeline.graph.standing import History
from ridgeline.graph.state import Request
from ridgeline.graph.stats.sequential import smallest_visible_gain
from ridgeline.graph.values import Cost


def without_device(place: Place, request: Request, ports: Ports, why: str) -> Outcome:
    """How a campaign stands that found no idle device; perhaps before it had anything to write down."""
    if ports.ledger.lines():
        return outcome(place, ports, status="no_device").model_copy(update={"problem": why})
    return Outcome(
        campaign=place.campaign_dir.name,
        dir=str(place.campaign_dir),
        status="no_device",
        stop_reason="",
        rounds=0,
        accepted=0,
        rolled_back=0,
        metric=", ".join(request.contract.scoring.primary_metric),
        speedup=None,
        speedup_lower=None,
        best_commit=None,
        branch="",
        cost=Cost(),
        result=None,
        report=str(place.campaign_dir / "performance.md"),
        noise=None,
        preset=request.limits.preset,
        planner=request.planner,
        problem=why,
    )


def outcome(place: Place, ports: Ports, *, status: Status) -> Outcome:
    """How the campaign stands now."""
    known = fold.fold(ports.ledger.lines())
    assert known is not None
    opened, found = known.opened, result(known)
    final = found.final
    return Outcome(
        campaign=opened.target.campaign,
        dir=str(place.campaign_dir),
        status="concluded" if found.concluded else status,
        stop_reason=found.stop_reason,
        rounds=len(known.rounds),
        accepted=len(fold.accepted(known)),
        rolled_back=len(fold.rolled_back(known)),
        metric=opened.target.primary_metric,
        speedup=final.speedup if final else None,
        speedup_lower=final.lower if final else None,
        best_commit=found.best_commit if known.baseline else None,
        branch=opened.branch,
        cost=found.cost,
        result=found,
        report=str(place.campaign_dir / "final_report.md"),
        noise=_seen(known),
        preset=opened.limits.preset,
        planner=opened.planner,
        request=wanted(place.campaign_dir) if status == "waiting" and not found.concluded else None,
    )


def _seen(known: History) -> Seen | None:
    noise = fold.noise(known)
    if noise is None:
        return None
    return Seen(
        sigma=noise.sd,
        visible_gain=smallest_visible_gain(noise, known.limits),
        pairs=noise.pairs,
        engine=noise.engine,
        alarms=len(alarms(known)),
    )
