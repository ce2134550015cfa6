"""What a roofline plot shows, as values: ceilings, and one series of points for each version."""

import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.agent.errors import UserError
from ridgeline.graph.contract import Contract, Scoring
from ridgeline.graph.evidence import Ceilings, Row
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.rules.headroom import Headroom, compute_best_headroom
from ridgeline.graph.rules.history import best_round
from ridgeline.graph.rules.roofline import RooflineBound, bound_of, compute_shape_roofs, compute_shares
from ridgeline.graph.rules.stop import check_hardware
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
    sentence: str
    """The sentence below the title."""
    ceilings: Ceilings | None
    series: tuple[Series, ...]

    @property
    def placed(self) -> bool:
        """Whether every point of the roofline picture has an intensity; else only its traffic can be drawn."""
        points = [point for version in self.series for point in version.points]
        return bool(points) and all(point.intensity and point.gflops for point in points)

    @property
    def drawable(self) -> bool:
        """Whether the roofline picture has anything to draw."""
        points = [point for version in self.series for point in version.points]
        return self.placed or (bool(points) and all(point.gbps and point.bytes for point in points))


def series(
    name: str, rows: Sequence[Row], roofs: Sequence[ShapeRoof], scoring: Scoring, *, accepted: bool | None = None
) -> Series:
    """Points of a version's shapes in the roofline; none where the contract names no time column."""
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


def of_campaign(history: History, sentence: str) -> Picture:
    """The roofline's points of a campaign: original, every measured round, and the best version last."""
    from ridgeline.graph.reports import figures
    from ridgeline.graph.rules.roofline import compute_shape_roofs

    ceilings = history.roofline.ceilings if history.roofline else None
    contract = history.contract

    def make_series(name: str, rows: Sequence[Row], accepted: bool | None = None) -> Series:
        return series(
            name, rows, compute_shape_roofs(rows, contract.work, ceilings), contract.scoring, accepted=accepted
        )

    runs = [(closed, run) for closed in history.rounds if (run := figures.candidate(closed)) is not None]
    versions = [make_series("original", history.baseline.quick.rows)] if history.baseline else []
    versions += [make_series(f"round {closed.round}", run.rows, closed.accepted) for closed, run in runs]
    best = figures.best(history)
    if best is not None and best[0] > 1:
        versions.append(make_series(f"best (round {best[0]})", best[1].rows))
    title = f"{contract.target_op} on {history.opened.machine.name}, {history.opened.target.campaign}"
    return Picture(
        title=title,
        sentence=sentence,
        ceilings=ceilings,
        series=tuple(version for version in versions if version.points),
    )


# The roofline of a campaign: original, rounds and best version under the ceilings that its ledger holds.


class ShapeStands(ShapeRoof):
    """One shape: its floor, and the two versions beside it. Shares are floor time / measured time."""

    original_us: float | None
    original_share: float | None
    best_us: float | None
    best_share: float | None


class CampaignRoofline(Value):
    """The one JSON object of `ridgeline roofline CAMPAIGN`."""

    campaign: str
    dir: str
    machine: str
    specs: tuple[str, ...]
    """Registered lines: what documents state, then what was measured."""
    ceilings: Ceilings | None
    """What bounds the shapes: measured where it could be, else stated."""
    note: str
    bound: RooflineBound
    original: Headroom | None
    """The lower of its two runs; None where it cannot be said."""
    best: Headroom | None
    best_round: int
    said: str
    """T2 of the stop check, as the campaign itself decides it."""
    shapes: tuple[ShapeStands, ...]


def stands(folder: Path, history: History) -> tuple[CampaignRoofline, Picture]:
    """Where a campaign's shapes stand under the roofline, read from the ledger; nothing is measured."""
    roof, best = history.roofline, best_round(history)
    original = history.model_copy(update={"rounds": ()})
    original_headroom, best_headroom = compute_best_headroom(original), compute_best_headroom(history)
    sentence = check_hardware(history).description
    shapes = _shapes(history)
    position = CampaignRoofline(
        campaign=history.opened.target.campaign,
        dir=str(folder),
        machine=history.opened.machine.name,
        specs=tuple(spec.text for spec in roof.specs) if roof else (),
        ceilings=roof.ceilings if roof else None,
        note=roof.note if roof else "",
        bound=bound_of(shapes),
        original=original_headroom if isinstance(original_headroom, Headroom) else None,
        best=best_headroom if isinstance(best_headroom, Headroom) else None,
        best_round=best.round if best else 1,
        said=sentence,
        shapes=shapes,
    )
    return position, of_campaign(history, sentence)


def _shapes(history: History) -> tuple[ShapeStands, ...]:
    """Each benchmark shape under its roof, with times in microseconds before and now; empty before a baseline."""
    from ridgeline.graph.reports import figures

    baseline, best, contract = history.baseline, figures.best(history), history.contract
    if baseline is None or best is None:
        return ()
    roofs = compute_shape_roofs(
        baseline.quick.rows, contract.work, history.roofline.ceilings if history.roofline else None
    )
    sides = [
        (_times(rows, contract), compute_shares(rows, roofs, contract.scoring))
        for rows in (baseline.quick.rows, best[1].rows)
    ]
    (original_times, original_shares), (best_times, best_shares) = sides
    return tuple(
        ShapeStands(
            **roof.model_dump(),
            original_us=original_times.get(roof.label),
            original_share=original_shares.get(roof.label),
            best_us=best_times.get(roof.label),
            best_share=best_shares.get(roof.label),
        )
        for roof in roofs
    )


def _times(rows: Sequence[Row], contract: Contract) -> dict[str, float]:
    """Benchmark shape -> microseconds of one call."""
    column = contract.scoring.time_ms
    return {row.label: 1e3 * item.value for row in rows for item in row.metrics if item.name == column}


# The roofline as a picture: the ceilings, the original, every round, the best version.

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg")
GREY, DARK, PALE, KEPT, BEST = "#8c8c8c", "#222222", "#e6e6e6", "#7fb58c", "#1a7f37"
LINE = 112
"""Characters of the sentence in one line of the picture."""
NAMED = 12
"""Shapes up to which each is named beside its point."""


def check(path: Path) -> None:
    """Refuses the file of a roofline picture before work begins. Raises UserError for one that could not be drawn."""
    from ridgeline.agent.bench.request import output_file

    if find_spec("matplotlib") is None:
        raise UserError("--plot: matplotlib is not installed here; pip install matplotlib, or leave --plot out")
    output_file("--plot", path, endings=ENDINGS)


def draw(path: Path, picture: Picture) -> None:
    """Write the roofline picture; `.png` or `.svg` by the name. Rate over intensity, or, without operations, bandwidth over traffic.

    Raises UserError where nothing can be placed: no formulas, or no times.
    """
    from matplotlib.figure import Figure

    if not picture.drawable:
        raise UserError(
            "--plot: no shape has both a time and a work formula; add work and scoring.time_ms to the contract"
        )
    figure = Figure(figsize=(9.6, 6), dpi=144, layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    places = [_places(version, picture) for version in picture.series]
    for index, (version, points) in enumerate(zip(picture.series, places, strict=True)):
        _version(axes, version, points, is_last=index == len(picture.series) - 1)
    _moves(axes, picture, places)
    _limits(axes, picture, [point for points in places for point in points])
    _roofs(axes, picture)
    _names(axes, picture, places)
    _frame(figure, axes, picture)
    figure.savefig(path, format=path.suffix[1:], metadata={"Title": picture.title})


def _places(version: Series, picture: Picture) -> list[tuple[float, float]]:
    """Places of shapes in the roofline (x, y): FLOP per byte and GFLOP/s, or MB of traffic and GB/s."""
    if picture.placed:
        return [(point.intensity or 0.0, point.gflops or 0.0) for point in version.points]
    return [((point.bytes or 0.0) / 1e6, point.gbps or 0.0) for point in version.points]


def _version(axes: "Axes", version: Series, points: list[tuple[float, float]], *, is_last: bool) -> None:
    """Draws one version's points: original hollow, rounds small, the best version filled."""
    across, up = [x for x, _ in points], [y for _, y in points]
    if version.accepted is not None:
        color, label = (KEPT, "rounds, kept") if version.accepted else (GREY, "rounds, rolled back")
        axes.scatter(across, up, s=16, color=color, linewidths=0, alpha=0.9, label=label, zorder=4)
    elif is_last and version.name.startswith("best"):
        axes.scatter(across, up, s=52, color=BEST, edgecolors="white", linewidths=0.8, label=version.name, zorder=6)
    else:
        axes.scatter(
            across, up, s=46, facecolors="white", edgecolors=DARK, linewidths=1.3, label=version.name, zorder=5
        )


def _moves(axes: "Axes", picture: Picture, places: list[list[tuple[float, float]]]) -> None:
    """Draws a line from the original to the best version, shape by shape."""
    if len(places) < 2 or not picture.series[-1].name.startswith("best"):
        return
    ends = dict(zip((point.label for point in picture.series[-1].points), places[-1], strict=True))
    for point, (x, y) in zip(picture.series[0].points, places[0], strict=True):
        if point.label in ends:
            axes.plot(
                [x, ends[point.label][0]], [y, ends[point.label][1]], color=BEST, linewidth=0.9, alpha=0.5, zorder=3
            )


def _limits(axes: "Axes", picture: Picture, points: list[tuple[float, float]]) -> None:
    """Sets the roofline picture's axes: room for every point, and for the ridge and the peak where they are known."""
    ceilings = picture.ceilings
    peak, copy = (ceilings.flops_gflops, ceilings.copy_gbps) if ceilings else (None, None)
    across, up = [x for x, _ in points], [y for _, y in points]
    if picture.placed:
        across += [peak / copy] if peak and copy else []
        up += [peak] if peak else []
    else:
        up += [copy] if copy else []
    axes.set_xlim(min(across) / 2, max(across) * 2)
    axes.set_ylim(min(up) / 2, max(up) * 2)


def _roofs(axes: "Axes", picture: Picture) -> None:
    ceilings = picture.ceilings
    peak, copy = (ceilings.flops_gflops, ceilings.copy_gbps) if ceilings else (None, None)
    left, right = axes.get_xlim()
    slope = f"copy bandwidth {copy:.4g} GB/s, {_source(ceilings.copy_source)}" if ceilings and copy else ""
    if not picture.placed:
        if copy:
            axes.axhline(copy, color=DARK, linewidth=1.6, label=slope, zorder=2)
        return
    corner = min(max(peak / copy, left), right) if peak and copy else right if copy else left
    if copy:
        axes.plot([left, corner], [left * copy, corner * copy], color=DARK, linewidth=1.6, label=slope, zorder=2)
    if peak and ceilings:
        label = f"compute peak {peak:.4g} GFLOP/s, {_source(ceilings.flops_source)}"
        axes.plot([corner, right], [peak, peak], color="#3d5a80", linewidth=1.6, label=label, zorder=2)
    if peak and copy:
        axes.axvline(peak / copy, color=PALE, linewidth=1.2, zorder=1)
        axes.annotate(
            f"ridge {peak / copy:.3g}",
            (peak / copy, axes.get_ylim()[0]),
            xytext=(3, 4),
            textcoords="offset points",
            color=GREY,
            fontsize=8.5,
        )


def _source(place: str) -> str:
    return place.rpartition("/")[2] or "measured here"


def _names(axes: "Axes", picture: Picture, places: list[list[tuple[float, float]]]) -> None:
    """Writes labels of shapes into the roofline picture, where there is room for them."""
    points = picture.series[-1].points
    if len(points) > NAMED:
        return
    for point, place in zip(points, places[-1], strict=True):
        axes.annotate(point.label, place, xytext=(7, -3), textcoords="offset points", fontsize=8, color=DARK, zorder=7)


def _frame(figure: "Figure", axes: "Axes", picture: Picture) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xlabel("FLOP per byte" if picture.placed else "least traffic of a call in MB")
    axes.set_ylabel("GFLOP/s" if picture.placed else "GB/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(which="major", color=PALE, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    sentence = "\n".join(textwrap.wrap(picture.sentence, LINE))
    figure.suptitle(f"{picture.title}\n{sentence}", fontsize=9.5, x=0.01, ha="left", color=DARK, linespacing=1.4)
    handles, labels = axes.get_legend_handles_labels()
    handle_by_label = dict(zip(labels, handles, strict=True))
    figure.legend(
        handle_by_label.values(),
        handle_by_label.keys(),
        loc="outside lower center",
        ncols=3,
        fontsize=8.5,
        frameon=False,
    )
