"""What the card of a recording says, read from its ledger."""

import json
from pathlib import Path

from ridgeline.evals.recordings.card import Card
from ridgeline.evals.recordings.folder import LEDGER, REQUEST
from ridgeline.graph.policy.history import fold
from ridgeline.sandbox.store.ledger import JsonlLedger


def card_of(folder: Path, name: str, licence: str) -> Card:
    """Without digests. The folder holds a whole ledger and a request."""
    known = fold(JsonlLedger(folder / LEDGER).lines())
    assert known is not None
    kept = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    done, contract = known.concluded, known.contract
    return Card(
        name=name,
        operator=contract.target_op,
        backend=contract.target_backend,
        dtype=contract.dtype,
        device=known.opened.machine.name,
        ridgeline=known.opened.version,
        planner=known.opened.planner,
        model=(kept.get("model") or {}).get("name", ""),
        preset=known.limits.preset,
        licence=licence,
        rounds=len(known.rounds),
        kept=sum(closed.accepted for closed in known.rounds),
        decisions=len(known.rounds),
        concluded=done is not None,
        speedup=done.speedup if done else None,
        speedup_lower=done.speedup_lower if done else None,
        files=(),
        artifacts=0,
    )
