"""The Stop Summary of a campaign that found no idle GPU: it is written, and the campaign can go on."""

from datetime import UTC, datetime

from ridgeline.graph.documents.performance import performance
from ridgeline.graph.policy.history import fold
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import Concluded, StopCheck
from ridgeline.graph.values import Cost
from ridgeline.prompts.render import render


def add_stop_summary(ports: Ports, why: str) -> None:
    """Put a Stop Summary under `performance.md`.

    The ledger gets no line, since the campaign has not concluded: the next resume renders the file without it.
    """
    history, now = fold(ports.ledger.lines()), datetime.now(UTC)
    if history is None:
        text = _alone(why, now)
    elif history.concluded is None:
        text = performance(history.model_copy(update={"concluded": _stopped(why, now)}))
    else:
        return
    ports.files.write({"performance.md": text})


def _stopped(why: str, now: datetime) -> Concluded:
    return Concluded(
        stop_reason=f"T6 {why}",
        checks=(StopCheck(id="T6", description="no idle device", satisfied=True),),
        final=None,
        project=None,
        attribution=None,
        speedup=None,
        speedup_lower=None,
        closed_at=now.isoformat(),
        cost=Cost(),
    )


def _alone(why: str, now: datetime) -> str:
    """Of a campaign that could not even measure the ceilings: there is nothing else to say of it."""
    return render(
        "stop_summary.v1.md",
        time=f"{now:%Y-%m-%d %H:%M} UTC",
        reason="no idle GPU available",
        detail=why,
        commit="none: nothing was measured yet",
        metric="-",
        aggregate="-",
        time_us="-",
        regressions=[],
    )
