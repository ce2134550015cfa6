"""What a roofline plot shows, as values: ceilings, and one series of points for each version."""

from collections.abc import Sequence

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Ceilings, Row
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.standing import History
from ridgeline.graph.values import Value


class Point(Value):
    """One shape of one version."""

    label: str
    intensity: float | None
    """FLOP per byte; None where one of the two formulas is missing."""
    gflops: float | None
    gbps: float | None
    """Least bytes over the measured time."""
    bytes: float | None


class Series(Value):
    """One version."""

    name: str
    points: tuple[Point, ...]
    accepted: bool | None = None
    """Of a round; None for what is no round."""


class Picture(Value):
    """All of it."""

    title: str
    said: str
    """The sentence below the title."""
    ceilings: Ceilings | None
    series: tuple[Series, ...]

    @property
    def placed(self) -> bool:
        """Whether every point has an intensity; else only its traffic can be drawn."""
        points = [point for one in self.series for point in one.points]
        return bool(points) and all(point.intensity and point.gflops for point in points)

    @property
    def drawable(self) -> bool:
        """Whether there is anything to draw."""
        points = [point for one in self.series for point in one.points]
        return self.placed or (bool(points) and all(point.gbps and point.bytes for point in points))


def series(
    name: str, rows: Sequence[Row], roofs: Sequence[ShapeRoof], scoring: Scoring, *, accepted: bool | None = None
) -> Series:
    """Points of the shapes that have a time; none where the contract names no time column."""
    times = {
        row.label: item.value
        for row in rows
        for item in row.metrics
        if item.name == scoring.time_ms and item.value > 0 and row.check == "PASS"
    }
    points = tuple(
        Point(
            label=roof.label,
            intensity=roof.intensity,
            gflops=roof.flops / (times[roof.label] * 1e6) if roof.flops is not None else None,
            gbps=roof.bytes / (times[roof.label] * 1e6) if roof.bytes is not None else None,
            bytes=roof.bytes,
        )
        for roof in roofs
        if roof.label in times
    )
    return Series(name=name, points=points, accepted=accepted)


def of_campaign(history: History, said: str) -> Picture:
    """Original, every measured round, and the best version last."""
    from ridgeline.graph.documents import figures
    from ridgeline.graph.policy.roofline import shape_roofs

    ceilings = history.roofline.ceilings if history.roofline else None
    contract = history.contract

    def one(name: str, rows: Sequence[Row], accepted: bool | None = None) -> Series:
        return series(name, rows, shape_roofs(rows, contract.work, ceilings), contract.scoring, accepted=accepted)

    runs = [(closed, run) for closed in history.rounds if (run := figures.candidate(closed)) is not None]
    found = [one("original", history.baseline.quick.rows)] if history.baseline else []
    found += [one(f"round {closed.round}", run.rows, closed.accepted) for closed, run in runs]
    best = figures.best(history)
    if best is not None and best[0] > 1:
        found.append(one(f"best (round {best[0]})", best[1].rows))
    title = f"{contract.target_op} on {history.opened.machine.name}, {history.opened.target.campaign}"
    return Picture(title=title, said=said, ceilings=ceilings, series=tuple(one for one in found if one.points))
