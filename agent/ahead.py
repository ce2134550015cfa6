"""Goes on with a campaign that was just answered, as far as no measuring machine is needed.

A round asks several questions in a row between two measurements. Where the campaign's folder was copied away from its
GPU to be answered, each of them would else cost a trip there and back.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgeline.agent.campaign import Kept, drive, kept
from ridgeline.agent.checkpoints import checkpoints
from ridgeline.agent.errors import Waiting
from ridgeline.agent.live import Unseen
from ridgeline.agent.providers.choice import elsewhere
from ridgeline.agent.tape import Tape, taped
from ridgeline.agent.wiring import connect
from ridgeline.graph.errors import DeviceBusy
from ridgeline.graph.policy.history import fold
from ridgeline.graph.ports import Ports
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.store.ledger import JsonlLedger

MEASURING = ("builder", "checker", "timer", "profiler")
"""Ports that only the campaign's own machine can answer."""


class NeedsDevice(Exception):
    """The next step is to build, test or measure."""


class Away:
    """A port whose machine is not here."""

    def __getattr__(self, name: str) -> Any:
        def ask(*args: object, **kwargs: object) -> Any:
            raise NeedsDevice(name)

        return ask


class Remembered(Away):
    """The device, as the ledger knows it."""

    def __init__(self, machine: Any) -> None:
        self.machine = lambda: machine


def ahead(campaign_dir: Path) -> bool:
    """Ask what can be asked without measuring; whether a new question lies in the mailbox now.

    False, with nothing changed, while the campaign runs, before its baseline is known, and where its repository is
    not: closing a round writes to both.
    """
    found = kept(campaign_dir)
    known = fold(JsonlLedger(campaign_dir / "ledger.jsonl").lines())
    if known is None or known.baseline is None or known.concluded is not None or not found.place.repository.is_dir():
        return False
    try:
        with lease("running", wait_s=0, folder=campaign_dir), checkpoints(campaign_dir) as saver:
            drive(saver, found.request, _ports(found, Remembered(known.opened.machine)), Unseen())
    except Waiting:
        return True
    except (NeedsDevice, DeviceBusy):
        return False
    return False


def _ports(found: Kept, device: Remembered) -> Ports:
    model = elsewhere(found.model, os.environ) if found.model else None
    ports = connect(found.place, found.request.contract, found.request.planner, found.request.limits, model=model)
    tape = Tape(found.place.campaign_dir / "tape.jsonl")
    profiled = found.request.contract.profile is not None  # else there is nothing that a profiler would have to run
    away = {name: taped(name, Away(), tape) for name in MEASURING if profiled or name != "profiler"}
    return replace(ports, device=device, **away)
