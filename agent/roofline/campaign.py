"""The roofline of a campaign: original, rounds and best version under the ceilings that its ledger holds."""

from collections.abc import Sequence
from pathlib import Path

from ridgeline.agent.roofline.picture import Picture, of_campaign
from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Ceilings, Row
from ridgeline.graph.policy.history import best_round
from ridgeline.graph.policy.reach import Reach, of_best
from ridgeline.graph.policy.roofline import Bound, bound_of, shape_roofs, shares
from ridgeline.graph.policy.stop import hardware
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.standing import History
from ridgeline.graph.values import Value


class ShapeStands(ShapeRoof):
    """One shape: its floor, and the two versions beside it. Shares are floor time / measured time."""

    original_us: float | None
    original_share: float | None
    best_us: float | None
    best_share: float | None


class Stands(Value):
    """The one JSON object of `ridgeline roofline CAMPAIGN`."""

    campaign: str
    dir: str
    machine: str
    specs: tuple[str, ...]
    """Registered lines: what documents state, then what was measured."""
    ceilings: Ceilings | None
    """What bounds the shapes: measured where it could be, else stated."""
    note: str
    bound: Bound
    original: Reach | None
    """The lower of its two runs; None where it cannot be said."""
    best: Reach | None
    best_round: int
    said: str
    """T2 of the stop check, as the campaign itself decides it."""
    shapes: tuple[ShapeStands, ...]


def stands(folder: Path, history: History) -> tuple[Stands, Picture]:
    """Read from the ledger; nothing is measured."""
    roof, best = history.roofline, best_round(history)
    original = history.model_copy(update={"rounds": ()})
    first, last = of_best(original), of_best(history)
    said = hardware(history).description
    shapes = _shapes(history)
    found = Stands(
        campaign=history.opened.target.campaign,
        dir=str(folder),
        machine=history.opened.machine.name,
        specs=tuple(spec.text for spec in roof.specs) if roof else (),
        ceilings=roof.ceilings if roof else None,
        note=roof.note if roof else "",
        bound=bound_of(shapes),
        original=first if isinstance(first, Reach) else None,
        best=last if isinstance(last, Reach) else None,
        best_round=best.round if best else 1,
        said=said,
        shapes=shapes,
    )
    return found, of_campaign(history, said)


def _shapes(history: History) -> tuple[ShapeStands, ...]:
    from ridgeline.graph.documents import figures

    baseline, best, contract = history.baseline, figures.best(history), history.contract
    if baseline is None or best is None:
        return ()
    roofs = shape_roofs(baseline.quick.rows, contract.work, history.roofline.ceilings if history.roofline else None)
    sides = [
        (_times(rows, contract), shares(rows, roofs, contract.scoring)) for rows in (baseline.quick.rows, best[1].rows)
    ]
    (first, first_share), (last, last_share) = sides
    return tuple(
        ShapeStands(
            **roof.model_dump(),
            original_us=first.get(roof.label),
            original_share=first_share.get(roof.label),
            best_us=last.get(roof.label),
            best_share=last_share.get(roof.label),
        )
        for roof in roofs
    )


def _times(rows: Sequence[Row], contract: Contract) -> dict[str, float]:
    """Label -> microseconds of one call."""
    column = contract.scoring.time_ms
    return {row.label: 1e3 * item.value for row in rows for item in row.metrics if item.name == column}
