"""The roofline as a picture: the ceilings, the original, every round, the best version."""

import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.agent.errors import UserError
from ridgeline.agent.roofline.picture import Picture, Series

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
    """Raises UserError for a file that could not be drawn once the numbers are there."""
    from ridgeline.agent.bench.asked import output_file

    if find_spec("matplotlib") is None:
        raise UserError("--plot: matplotlib is not installed here; pip install matplotlib, or leave --plot out")
    output_file("--plot", path, endings=ENDINGS)


def draw(path: Path, picture: Picture) -> None:
    """Write it; `.png` or `.svg` by the name. Rate over intensity, or, without operations, bandwidth over traffic.

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
    places = [_places(one, picture) for one in picture.series]
    for index, (one, points) in enumerate(zip(picture.series, places, strict=True)):
        _version(axes, one, points, last=index == len(picture.series) - 1)
    _moves(axes, picture, places)
    _limits(axes, picture, [point for points in places for point in points])
    _roofs(axes, picture)
    _names(axes, picture, places)
    _frame(figure, axes, picture)
    figure.savefig(path, format=path.suffix[1:], metadata={"Title": picture.title})


def _places(one: Series, picture: Picture) -> list[tuple[float, float]]:
    if picture.placed:
        return [(point.intensity or 0.0, point.gflops or 0.0) for point in one.points]
    return [((point.bytes or 0.0) / 1e6, point.gbps or 0.0) for point in one.points]


def _version(axes: "Axes", one: Series, points: list[tuple[float, float]], *, last: bool) -> None:
    """Original hollow, rounds small, the best version filled."""
    across, up = [x for x, _ in points], [y for _, y in points]
    if one.accepted is not None:
        color, label = (KEPT, "rounds, kept") if one.accepted else (GREY, "rounds, rolled back")
        axes.scatter(across, up, s=16, color=color, linewidths=0, alpha=0.9, label=label, zorder=4)
    elif last and one.name.startswith("best"):
        axes.scatter(across, up, s=52, color=BEST, edgecolors="white", linewidths=0.8, label=one.name, zorder=6)
    else:
        axes.scatter(across, up, s=46, facecolors="white", edgecolors=DARK, linewidths=1.3, label=one.name, zorder=5)


def _moves(axes: "Axes", picture: Picture, places: list[list[tuple[float, float]]]) -> None:
    """A line from the original to the best version, shape by shape."""
    if len(places) < 2 or not picture.series[-1].name.startswith("best"):
        return
    ends = dict(zip((point.label for point in picture.series[-1].points), places[-1], strict=True))
    for point, (x, y) in zip(picture.series[0].points, places[0], strict=True):
        if point.label in ends:
            axes.plot(
                [x, ends[point.label][0]], [y, ends[point.label][1]], color=BEST, linewidth=0.9, alpha=0.5, zorder=3
            )


def _limits(axes: "Axes", picture: Picture, points: list[tuple[float, float]]) -> None:
    """Room for every point, and for the ridge and the peak where they are known."""
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
    """Of the last version's shapes, where there is room for them."""
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
    sentence = "\n".join(textwrap.wrap(picture.said, LINE))
    figure.suptitle(f"{picture.title}\n{sentence}", fontsize=9.5, x=0.01, ha="left", color=DARK, linespacing=1.4)
    handles, labels = axes.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=3, fontsize=8.5, frameon=False)
