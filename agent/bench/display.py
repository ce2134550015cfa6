"""Who looks on while two things are compared: a live table on a terminal, plain lines anywhere else, or nobody."""

import math
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.agent.bench.comparison import Answer, CourseOutcome, Watch, format_signed_percent, percent
from ridgeline.agent.console import defuse, note
from ridgeline.graph.evidence import Comparison
from ridgeline.graph.limits import Limits
from ridgeline.graph.stats.noise import Noise
from ridgeline.graph.stats.paired import compute_pair_means
from ridgeline.graph.stats.sequential import Estimate, smallest_visible_gain

if TYPE_CHECKING:
    from rich.live import Live

HEADER = ("PAIR", "THIS PAIR", "t_A / t_B", "AT LEAST", "AT MOST", "REQUIRED", "TIME LEFT")
SHOWN = 12
"""Rows of the live table: the latest."""


class SilentWatch:
    """Nobody."""

    def say(self, text: str) -> None:
        """Shows nothing of a running comparison."""

    def show_calibration(self, noise: Noise | None, limits: Limits) -> None:
        """Shows nothing of a comparison's calibration."""

    def show_pair(self, pair: Comparison, estimate: Estimate, *, left_s: float) -> None:
        """Shows nothing of a comparison's pair."""

    def close(self) -> None:
        """A comparison that shows nothing has no terminal to give back."""


class PlainWatch:
    """Lines for a log file or a pipe."""

    def __init__(self) -> None:
        self._kind = ""

    def say(self, text: str) -> None:
        """One line of `bench` for each kind of work, not for each step of it."""
        kind = text.partition(":")[0]
        if kind not in (self._kind, "A against itself"):
            note(text)
        self._kind = kind

    def show_calibration(self, noise: Noise | None, limits: Limits) -> None:
        """A line of `bench` on how far identical versions differ."""
        note(calibration_line(noise, limits))

    def show_pair(self, pair: Comparison, estimate: Estimate, *, left_s: float) -> None:
        """One line of `bench` for each pair of A and B."""
        number, here, ratio, lower, upper, required, left = cells(pair, estimate, left_s)
        note(f"pair {number:>3}: {here:>9}, t_A / t_B {ratio} [{lower}, {upper}], required {required}, {left} left")

    def close(self) -> None:
        """The plain lines of `bench` hold no terminal to give back."""


class LiveWatch:
    """A table that grows by a row for each pair, with what is done now below it."""

    def __init__(self) -> None:
        self._now = "starting"
        self._noise = ""
        self._rows: list[tuple[str, ...]] = []
        self._live: Live | None = None

    def say(self, text: str) -> None:
        """Shows the step of `bench` in its live table until the next one."""
        self._now = text
        self._print_table()

    def show_calibration(self, noise: Noise | None, limits: Limits) -> None:
        """A line above the live table of `bench`: how far identical versions differ."""
        self._noise = calibration_line(noise, limits)
        self._print_table()

    def show_pair(self, pair: Comparison, estimate: Estimate, *, left_s: float) -> None:
        """One more row in the live table of `bench`."""
        self._rows.append(cells(pair, estimate, left_s))
        self._print_table()

    def close(self) -> None:
        """Ends the live table of `bench`: the rows stay, the line of the step goes."""
        self._now = ""
        if self._live is not None:
            self._live.update(self._render_table())
            self._live.stop()
            self._live = None

    def _print_table(self) -> None:
        if self._live is None:
            self._live = _live()
        self._live.update(self._render_table())

    def _render_table(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[Any] = [Text(self._noise)] if self._noise else []
        if self._rows:
            table = Table(box=None, pad_edge=False)
            for title in HEADER:
                table.add_column(title, justify="right", no_wrap=True)
            for row in self._rows[-SHOWN:]:
                table.add_row(*row)
            parts.append(table)
        if self._now:
            parts.append(Text(defuse(self._now, sys.stderr), style="cyan"))
        return Group(*parts)


def watcher(*, quiet: bool) -> Watch:
    """The live table of `bench` on a terminal, plain lines elsewhere, or nothing: whichever fits standard error."""
    if quiet:
        return SilentWatch()
    return LiveWatch() if sys.stderr.isatty() else PlainWatch()


def cells(pair: Comparison, estimate: Estimate, left_s: float) -> tuple[str, ...]:
    """One row of the live table of `bench`, in the header's order."""
    here = math.fsum(means := compute_pair_means(pair.shapes)) / len(means)
    left = f"{int(left_s) // 60:02d}:{int(left_s) % 60:02d}"
    numbers = (estimate.theta, estimate.lower, estimate.upper, estimate.required)
    return (str(estimate.pairs), format_signed_percent(math.expm1(here)), *(_ratio(number) for number in numbers), left)


def calibration_line(noise: Noise | None, limits: Limits) -> str:
    """How much identical versions scatter, and which gain `bench` can see through that."""
    if noise is None:
        return "identical versions: too few pairs to tell their noise"
    text = f"identical versions: {noise.pairs} pairs scatter by {percent(noise.sd)} each"
    if noise.allowance:
        text += f" and differ by {format_signed_percent(math.expm1(noise.offset))} systematically, which is added to the margin"
    return f"{text}; gains under {percent(smallest_visible_gain(noise, limits))} cannot be seen in {limits.looks[-1]} pairs"


def _ratio(log_ratio: float) -> str:
    return f"{math.exp(log_ratio):.4f}" if math.isfinite(log_ratio) else "-"


def _live() -> "Live":
    from rich.console import Console
    from rich.live import Live

    live = Live(console=Console(stderr=True), refresh_per_second=4, vertical_overflow="visible")
    live.start()
    return live


# A picture of a comparison: every pair, the mean with its narrowing bounds, the margin, and the noise.

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
    """Whether a picture of a comparison can be drawn here: matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(path: Path, outcome: CourseOutcome, answer: Answer) -> None:
    """Write the picture of a comparison; `.png` or `.svg` by the name. Vertical: how much faster B is in per cent."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.6), dpi=144, layout="constrained")
    twins = _gains(outcome.calibration)
    pair_gains = [value for pair in outcome.pairs for value in _gains(pair)]
    low, high = _reach(outcome, twins, pair_gains)
    if twins:
        left, axes = figure.subplots(1, 2, sharey=True, width_ratios=(1, 2.4))
        _twins(left, twins)
    else:
        left = axes = figure.subplots()
    _draw_pairs(axes, pair_gains, outcome, COLORS[answer.verdict])
    _draw_bounds(axes, outcome, COLORS[answer.verdict], low=low, high=high)
    for panel in {left, axes}:
        _draw_frame(panel, outcome)
    left.set_ylim(low, high)
    left.set_ylabel("B faster than A by (t_A / t_B - 1)")
    axes.set_xlabel("pairs of A against B")
    _write_legend(figure, answer)
    figure.savefig(path, format=path.suffix[1:], metadata={"Title": answer.sentence})


def _gains(comparison: Comparison | None) -> list[float]:
    """Per cent by which each pair says B is faster."""
    return [_percent(mean) for mean in compute_pair_means(comparison.shapes)] if comparison else []


def _percent(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio) if math.isfinite(log_ratio) else math.copysign(math.inf, log_ratio)


def _reach(outcome: CourseOutcome, twins: list[float], pair_gains: list[float]) -> tuple[float, float]:
    """The vertical range of a comparison's picture: all pairs, the last bounds, zero, the margin. Early bounds may leave it."""
    last_look = outcome.looks[-1:]
    ends = [_percent(value) for look in last_look for value in (look.lower, look.upper, look.required)]
    inside = [value for value in (*ends, *twins, *pair_gains, 0.0) if math.isfinite(value)]
    middle, half = (max(inside) + min(inside)) / 2, (max(inside) - min(inside)) / 2 or 1.0
    return middle - ROOM * half, middle + ROOM * half


def _twins(axes: "Axes", twins: list[float]) -> None:
    axes.scatter(range(1, len(twins) + 1), twins, s=26, color=GREY, linewidths=0, label="A against itself", zorder=3)
    axes.set_facecolor("#f6f6f6")
    axes.set_xlabel("pairs of A against itself")


def _draw_pairs(axes: "Axes", pair_gains: list[float], outcome: CourseOutcome, color: str) -> None:
    """Draws the pairs of a comparison. Points: gain of each pair in per cent; line: the mean up to it."""
    numbers = range(1, len(pair_gains) + 1)
    axes.scatter(
        numbers, pair_gains, s=34, color=color, edgecolors="white", linewidths=0.7, label="A against B", zorder=5
    )
    means = [_percent(look.theta) for look in outcome.looks]
    axes.plot(numbers, means, color=color, linewidth=1.6, label="mean so far", zorder=4)
    axes.set_xlim(0.4, max(len(pair_gains), 2) * 1.16 + 0.4)


def _draw_bounds(axes: "Axes", outcome: CourseOutcome, color: str, *, low: float, high: float) -> None:
    """Draws a comparison's bounds: the band of all looks, cut where it leaves the picture, and the last look in numbers."""
    if not outcome.looks:
        return
    numbers = [look.pairs for look in outcome.looks]
    lower = [max(_percent(look.lower), low) for look in outcome.looks]
    upper = [min(_percent(look.upper), high) for look in outcome.looks]
    axes.fill_between(numbers, lower, upper, color=color, alpha=0.16, linewidth=0, label="bounds, valid at every look")
    last_look, at = outcome.looks[-1], numbers[-1]
    axes.vlines(at, lower[-1], upper[-1], color=color, linewidth=1.4, zorder=4)
    place = at + 0.012 * (axes.get_xlim()[1] - axes.get_xlim()[0])
    texts = [
        (value, format_signed_percent(math.expm1(value)))
        for value in (last_look.upper, last_look.theta, last_look.lower)
        if math.isfinite(value)
    ]
    if upper[-1] - lower[-1] < TIGHT * (high - low):  # three numbers in one place: one below the other
        texts = [(last_look.theta, "\n".join(text for _, text in texts))]
    for value, text in texts:
        weight = "bold" if value == last_look.theta and len(texts) > 1 else "normal"
        axes.text(place, _percent(value), text, color=color, fontsize=9, fontweight=weight, va="center")


def _draw_frame(axes: "Axes", outcome: CourseOutcome) -> None:
    """Draws the frame of a comparison's picture: zero, the gain that is required, grid and ticks."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.axhline(0, color=GREY, linewidth=0.9, zorder=1)
    if outcome.looks:
        required = _percent(outcome.looks[-1].required)
        axes.axhline(required, color=DARK, linewidth=1.1, linestyle=(0, (5, 3)), label="required", zorder=2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.3g} %" if value else "0 %"))
    axes.grid(axis="y", color=PALE, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _write_legend(figure: "Figure", answer: Answer) -> None:
    """Writes the claim and both sides' names above the picture of a comparison, the legend below."""
    who = f"A: {_short(answer.a)}\nB: {_short(answer.b)}"
    sentence = "\n".join(textwrap.wrap(answer.sentence, LINE))
    figure.suptitle(f"{sentence}\n{who}", fontsize=9.5, x=0.01, ha="left", color=DARK, linespacing=1.4)
    handles = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), fontsize=8.5, frameon=False
    )


def _short(text: str) -> str:
    return text if len(text) <= 110 else f"{text[:107]}..."
