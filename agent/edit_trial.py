"""A person's edit is built and tested when it is given, on the campaign's own machine, before it is a decision."""

import re
from dataclasses import replace
from pathlib import Path

from ridgeline.agent.approvals import Waits
from ridgeline.agent.errors import UserError
from ridgeline.graph.approval import Decision
from ridgeline.graph.policy.sentence import CAUSES
from ridgeline.graph.trial import Failed

PATIENCE_S = 60.0
"""So long the process that asked may take to leave."""
LONGEST = 400
"""Characters of the compiler's or the test's words."""
_ERROR = re.compile(r"\b(?:error|fatal)\b", re.IGNORECASE)


def try_edit(campaign: Path, one: Waits, decision: Decision) -> None:
    """Build and test the edit as its round will; what that answers is on the campaign's tape, so it is done once.

    Raises UserError with the compiler's or the test's line where it fails, DeviceBusy where a process keeps the
    campaign or its card: the question stays open.
    """
    from ridgeline.agent.campaign import kept
    from ridgeline.agent.continuation import going_on
    from ridgeline.agent.wiring import connect
    from ridgeline.graph.nodes.round.tried import tried
    from ridgeline.graph.policy.edited import edited
    from ridgeline.sandbox.devices.lease import lease

    if one.request.edit is None:
        raise UserError(f"--edit: {one.request.key} was asked by an older Ridgeline; `ridgeline resume` asks it again")
    found = kept(campaign)
    if not found.place.repository.is_dir():
        raise UserError(f"--edit: {found.place.repository}: is not here; an edit is built and tested when it is given")
    with lease("running", wait_s=PATIENCE_S, folder=campaign):
        moved = going_on(campaign, found.request, found.contract_file)
        # no planner is asked: which one the campaign has says nothing here
        ports = connect(replace(found.place, moved_to=moved), found.request.contract, "catalog", found.request.limits)
        trial = tried(ports, edited(one.request.edit, decision))
    if isinstance(trial, Failed):
        raise UserError(f"--edit: {CAUSES[trial.reason]}: {line_of(trial.detail)}; the question stays open")


def line_of(output: str) -> str:
    """The first line that names an error, as compilers do; else the first line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    found = next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "it says nothing")
    return found if len(found) <= LONGEST else f"{found[: LONGEST - 3]}..."
