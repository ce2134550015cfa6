"""How a campaign stands, read from its ledger and its status file without changing either."""

from pathlib import Path

from ridgeline.agent.campaign import folders
from ridgeline.agent.campaign.approvals import describe_decision, find_open_page, find_unused_decision
from ridgeline.agent.campaign.progress import Status
from ridgeline.agent.campaign.state_files import describe_gap, find_lost_lines, read_shown_end
from ridgeline.agent.deep.desk import folder_of, read_steps
from ridgeline.graph.errors import LedgerCorrupt
from ridgeline.graph.reports.archive import summarize_archive
from ridgeline.graph.reports.result import PRODUCT
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.graph.rules.result import Claim, Result, claim_speedup, compute_result
from ridgeline.graph.values import Value
from ridgeline.sandbox.store.ledger import JsonlLedger, Verification, verify


class CampaignStatus(Value):
    """The JSON object of `ridgeline status`."""

    campaign: str
    dir: str
    status: Status
    phase: str
    """Phase of the loop that was last begun; empty when nothing says so."""
    detail: str
    """The hypothesis that is being worked on; empty between rounds."""
    round: int
    """The round that is being worked on; the baseline is round 1."""
    open_verdict: str
    """The verdict on `round` while that is decided and not closed; `accepted`, `rolled_back` and `speedup` count the round
    when it closes. Else empty."""
    accepted: int
    rolled_back: int
    metric: str
    speedup: float | None
    """Time of the original / time of the best version: the final test's, before the end the product of the kept
    rounds' paired gains; None where neither claims anything."""
    speedup_lower: float | None
    """Lower confidence bound of `speedup`; None where nothing bounds it."""
    speedup_level: float | None
    """Confidence of that bound as a share, for example 0.99."""
    speedup_final: bool
    """Whether the final test gave it."""
    speedup_basis: str
    """What it rests on, in words: `final test`, or `product of kept rounds, not tested yet`; empty where nothing is kept."""
    stop_reason: str
    """Why the campaign ended; empty while it has not."""
    search: str
    """Generations, cells and the version to be changed next, in search mode `evolve`; else empty."""
    ledger_lines: int
    chain_ok: bool
    problem: str
    """What is wrong with the ledger, or why the last process ended; empty when nothing is."""
    request: str | None
    """The page that waits to be answered with `ridgeline answer` or decided on with `ridgeline approve`."""
    decision: str
    """What a person decided and nobody has gone on with: `change: approve by Ada at ...`; else empty."""
    pid: int | None
    updated: str
    """ISO-8601 UTC."""


def status_of(campaign: Path) -> CampaignStatus:
    """Read-only. A damaged ledger is reported in `problem`, never raised."""
    shown_end = read_shown_end(campaign)
    written = folders.read_status(campaign)
    ledger = campaign / folders.LEDGER
    checked = verify(ledger)
    history = None
    try:
        history = fold_ledger(JsonlLedger(ledger).lines()) if checked.ok else None
        # a process that is at work writes lost lines again
        lost = find_lost_lines(shown_end, history) if history and not folders.is_at_work(written) else ""
        if lost:
            checked = Verification(ok=False, lines=checked.lines, problem=describe_gap(campaign, lost))
    except LedgerCorrupt as error:
        checked = Verification(ok=False, lines=error.line - 1, problem=str(error))
    rounds = history.rounds if history else ()
    result = compute_result(history) if history else None
    claim = claim_speedup(result) if result else None
    begun = not checked.ok and not ledger.exists()
    state = state_of(written, concluded=history is not None and history.concluded is not None)
    answered = find_unused_decision(campaign) if state not in ("running", "concluded") else None
    number = int(written.get("round") or (rounds[-1].round if rounds else 0))
    is_open = state != "concluded" and number not in {closed.round for closed in rounds}
    return CampaignStatus(
        campaign=history.opened.target.campaign if history else campaign.name,
        dir=str(campaign),
        status="decided" if answered else state,
        phase=str(written.get("phase", "")),
        detail=str(written.get("detail", "")) + _describe_deep_step(campaign, written) + _describe_pair(written, state),
        round=number,
        open_verdict=str(written.get("measured", "")) if is_open else "",
        accepted=sum(closed.accepted for closed in rounds),
        rolled_back=sum(not closed.accepted for closed in rounds),
        metric=history.opened.target.primary_metric if history else "",
        speedup=claim.speedup if claim else None,
        speedup_lower=claim.lower if claim else None,
        speedup_level=claim.level if claim else None,
        speedup_final=bool(claim and claim.from_final),
        speedup_basis=_describe_basis(claim, result),
        stop_reason=history.concluded.stop_reason if history and history.concluded else "",
        search=summarize_archive(history) if history else "",
        ledger_lines=checked.lines,
        chain_ok=checked.ok or begun,
        problem=(checked.problem or "") if ledger.exists() else str(written.get("problem", "")),
        request=None if state in ("running", "concluded") else find_open_page(campaign),
        pid=written.get("pid"),
        decision=f"{answered.request.gate}: {describe_decision(answered.decision)}" if answered else "",
        updated=_moment(written.get("updated")),
    )


def _describe_basis(claim: Claim | None, result: Result | None) -> str:
    """What a campaign's speedup rests on, in words; empty where it has none to tell."""
    if claim is None or result is None or not (claim.from_final or result.kept):
        return ""
    return "final test" if claim.from_final else PRODUCT


def _describe_deep_step(campaign: Path, written: dict[str, object]) -> str:
    """How far a campaign's open deep round is; empty in every other phase."""
    if written.get("phase") != "go_deep":
        return ""
    steps = read_steps(folder_of(campaign, int(str(written.get("round") or 0))))
    return f" (step {len(steps)}, {steps[-1].tool}: {steps[-1].outcome})" if steps else " (no step yet)"


def _describe_pair(written: dict[str, object], state: Status) -> str:
    """Which pair of a campaign's comparison is being timed, and since when; empty where none is."""
    if state != "running" or not written.get("pair"):
        return ""
    return f" ({written['pair']})"


def _moment(written: object) -> str:
    """Seconds since 1970 of a status file as ISO-8601 UTC; other text as it is."""
    from datetime import UTC, datetime

    if isinstance(written, int | float):
        return datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds")
    return str(written or "")


def state_of(written: dict[str, object], *, concluded: bool) -> Status:
    """The state of a campaign by its files; a process that is gone did not finish. `concluded`: whether the ledger has an end."""
    if concluded:
        return "concluded"
    match written.get("status"):
        case "waiting":
            return "waiting"
        case "stopped":
            return "stopped"
        case "running" if folders.is_at_work(written):
            return "running"
        case _:
            return "interrupted"
