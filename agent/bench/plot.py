"""A picture of a comparison: every pair, the mean with its narrowing bounds, the margin, and the noise."""

import math
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.agent.bench.answer import Answer, signed
from ridgeline.agent.bench.course import Found
from ridgeline.graph.evidence import Comparison
from ridgeline.graph.policy.paired import pair_means

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSING = "--plot: matplotlib is not installed here, so nothing is drawn; pip install matplotlib draws it"
COLORS = {"faster": "#1a7f37", "not_faster": "#b35900", "undecided": "#3d5a80"}
GREY, DARK, PALE = "#8c8c8c", "#222222", "#e6e6e6"
ROOM = 1.2
"""Height of the picture over the farthest thing that must be in it."""
TIGHT = 0.12
"""Share of the height below which the last bounds are too close for a number at each."""
LINE = 118
"""Characters of the sentence in one line of the picture."""


def available() -> bool:
    """Whether a picture can be drawn at all."""
    return find_spec("matplotlib") is not None


def draw(path: Path, found: Found, said: Answer) -> None:
    """Write the picture; `.png` or `.svg` by the name. Vertical: how much faster B is in per cent."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.6), dpi=144, layout="constrained")
    twins = _gains(found.calibration)
    own = [value for pair in found.pairs for value in _gains(pair)]
    low, high = _reach(found, twins, own)
    if twins:
        left, axes = figure.subplots(1, 2, sharey=True, width_ratios=(1, 2.4))
        _twins(left, twins)
    else:
        left = axes = figure.subplots()
    _pairs(axes, own, found, COLORS[said.verdict])
    _bounds(axes, found, COLORS[said.verdict], low=low, high=high)
    for one in {left, axes}:
        _frame(one, found)
    left.set_ylim(low, high)
    left.set_ylabel("B faster than A by (t_A / t_B - 1)")
    axes.set_xlabel("pairs of A against B")
    _words(figure, said)
    figure.savefig(path, format=path.suffix[1:], metadata={"Title": said.sentence})


def _gains(comparison: Comparison | None) -> list[float]:
    """Per cent by which each pair says B is faster."""
    return [_percent(mean) for mean in pair_means(comparison.shapes)] if comparison else []


def _percent(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio) if math.isfinite(log_ratio) else math.copysign(math.inf, log_ratio)


def _reach(found: Found, twins: list[float], own: list[float]) -> tuple[float, float]:
    """What must be seen: all pairs, the last bounds, zero and the margin. Early bounds may leave the picture."""
    last = found.looks[-1:]
    ends = [_percent(value) for seen in last for value in (seen.lower, seen.upper, seen.required)]
    inside = [value for value in (*ends, *twins, *own, 0.0) if math.isfinite(value)]
    middle, half = (max(inside) + min(inside)) / 2, (max(inside) - min(inside)) / 2 or 1.0
    return middle - ROOM * half, middle + ROOM * half


def _twins(axes: "Axes", twins: list[float]) -> None:
    axes.scatter(range(1, len(twins) + 1), twins, s=26, color=GREY, linewidths=0, label="A against itself", zorder=3)
    axes.set_facecolor("#f6f6f6")
    axes.set_xlabel("pairs of A against itself")


def _pairs(axes: "Axes", own: list[float], found: Found, color: str) -> None:
    numbers = range(1, len(own) + 1)
    axes.scatter(numbers, own, s=34, color=color, edgecolors="white", linewidths=0.7, label="A against B", zorder=5)
    means = [_percent(seen.theta) for seen in found.looks]
    axes.plot(numbers, means, color=color, linewidth=1.6, label="mean so far", zorder=4)
    axes.set_xlim(0.4, max(len(own), 2) * 1.16 + 0.4)


def _bounds(axes: "Axes", found: Found, color: str, *, low: float, high: float) -> None:
    """The band of all looks, cut where it leaves the picture, and the last look in numbers."""
    if not found.looks:
        return
    numbers = [seen.pairs for seen in found.looks]
    lower = [max(_percent(seen.lower), low) for seen in found.looks]
    upper = [min(_percent(seen.upper), high) for seen in found.looks]
    axes.fill_between(numbers, lower, upper, color=color, alpha=0.16, linewidth=0, label="bounds, valid at every look")
    last, at = found.looks[-1], numbers[-1]
    axes.vlines(at, lower[-1], upper[-1], color=color, linewidth=1.4, zorder=4)
    place = at + 0.012 * (axes.get_xlim()[1] - axes.get_xlim()[0])
    texts = [
        (value, signed(math.expm1(value))) for value in (last.upper, last.theta, last.lower) if math.isfinite(value)
    ]
    if upper[-1] - lower[-1] < TIGHT * (high - low):  # three numbers in one place: one below the other
        texts = [(last.theta, "\n".join(text for _, text in texts))]
    for value, text in texts:
        weight = "bold" if value == last.theta and len(texts) > 1 else "normal"
        axes.text(place, _percent(value), text, color=color, fontsize=9, fontweight=weight, va="center")


def _frame(axes: "Axes", found: Found) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.axhline(0, color=GREY, linewidth=0.9, zorder=1)
    if found.looks:
        required = _percent(found.looks[-1].required)
        axes.axhline(required, color=DARK, linewidth=1.1, linestyle=(0, (5, 3)), label="required", zorder=2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.3g} %" if value else "0 %"))
    axes.grid(axis="y", color=PALE, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _words(figure: "Figure", said: Answer) -> None:
    who = f"A: {_short(said.a)}\nB: {_short(said.b)}"
    sentence = "\n".join(textwrap.wrap(said.sentence, LINE))
    figure.suptitle(f"{sentence}\n{who}", fontsize=9.5, x=0.01, ha="left", color=DARK, linespacing=1.4)
    named = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=len(named), fontsize=8.5, frameon=False
    )


def _short(text: str) -> str:
    return text if len(text) <= 110 else f"{text[:107]}..."
