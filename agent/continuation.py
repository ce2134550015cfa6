"""May a campaign go on here, with what it began with? Asked once, when it is resumed."""

import logging
from pathlib import Path

from ridgeline.agent.contract_file import load
from ridgeline.agent.errors import UserError
from ridgeline.graph.contract import Knowledge
from ridgeline.graph.policy.history import fold
from ridgeline.graph.standing import History
from ridgeline.graph.state import Request
from ridgeline.sandbox.devices.machine import LocalDevice
from ridgeline.sandbox.store.ledger import JsonlLedger

logger = logging.getLogger(__name__)


def going_on(campaign_dir: Path, request: Request, contract_file: Path) -> str | None:
    """Fingerprint of this machine when the campaign began on another one; None when it began here.

    Raises UserError when request and ledger disagree, or when this machine's times would be compared with recorded
    ones of the other: only preset `evidence`, which times both versions side by side, can go on elsewhere.
    """
    known = fold(JsonlLedger(campaign_dir / "ledger.jsonl").lines())
    if known is None or known.concluded is not None:
        return None
    if (known.contract, known.limits) != (request.contract, request.limits):
        raise UserError(
            f"{campaign_dir / 'request.json'}: request: differs from what the ledger says the campaign began with;"
            " restore it from a copy, or start a new campaign"
        )
    tell_of_edits(contract_file, request)
    here = LocalDevice(request.contract).machine()
    if here.fingerprint == known.opened.machine.fingerprint:
        return None
    if why := _bound(known):
        raise UserError(
            f"{campaign_dir.name}: began on {known.opened.machine.name} ({known.opened.machine.fingerprint[:12]}), this"
            f" is {here.name} ({here.fingerprint[:12]}): {why}; resume it there, or start a new campaign here"
        )
    logger.warning(
        "%s: began on another machine (%s); the open round is measured afresh here",
        campaign_dir.name,
        known.opened.machine.name,
    )
    return here.fingerprint


def _bound(known: History) -> str:
    """Why the campaign is bound to the machine it began on; empty when it is not."""
    if known.baseline is None:
        return "its baseline is half measured"
    if known.limits.preset != "evidence":
        return f"preset {known.limits.preset} would compare new times with times that were recorded on the other"
    return ""


def tell_of_edits(contract_file: Path, request: Request) -> None:
    """Log a warning where the file is no longer what the campaign began with, which is what it keeps to."""
    if not contract_file.is_file():
        return
    try:
        now, then = load(contract_file).contract, request.contract
        # folders that `run --wiki` attached come after the file's own
        own = then.knowledge.wiki[: len(now.knowledge.wiki)]
        same = then.model_copy(update={"knowledge": Knowledge(wiki=own)}) == now
    except UserError:
        same = False
    if not same:
        logger.warning(
            "%s: was changed after the campaign began, which goes on with the contract it began with;"
            " start a new campaign for the new one",
            contract_file,
        )
