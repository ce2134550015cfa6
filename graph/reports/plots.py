"""The pictures of a report as inline SVG: the course of a campaign, and its shapes under the roofline."""

from collections.abc import Iterable, Sequence
from math import ceil, floor, log10

from markupsafe import Markup

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Row
from ridgeline.graph.record import RoundClosed, ShapeRoof
from ridgeline.graph.reports import figures
from ridgeline.graph.reports.text import clip, times, times_at_least
from ridgeline.graph.standing import History
from ridgeline.graph.values import Value

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 700, 16, 276
STEPS = (1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 5.0, 7.0)
"""Round numbers for a logarithmic axis; the finest of these that leave at most nine lines are drawn."""

SMALLEST, LARGEST = 1e-30, 1e30
"""Beyond these nothing is drawn: no speedup, rate or intensity of a machine."""


class Axis(Value):
    """A logarithmic axis: from value to place."""

    low: float
    high: float
    start: float
    end: float

    @property
    def is_drawable(self) -> bool:
        """Whether the ends of a plot's axis are numbers that something can have measured: what a changed ledger says may not be."""
        return SMALLEST < self.low < self.high < LARGEST

    def at(self, value: float) -> float:
        """Place of a value on a plot's axis, in the picture's units; values outside stand at the edge."""
        inside = min(max(value, self.low), self.high)
        return self.start + (log10(inside) - log10(self.low)) / (log10(self.high) - log10(self.low)) * (
            self.end - self.start
        )


class Point(Value):
    """One round: where its candidate stood against the original, as the product of the gains that were kept."""

    round: int
    accepted: bool
    at: float | None
    """None where nothing was measured."""
    lower: float | None
    upper: float | None
    best: float
    """The best version after the round."""
    label: str


def trend_plot(history: History) -> Markup:
    """The plot of every candidate with its interval, and the best version as a line; empty before the first round."""
    points = _points(history.rounds)
    if not points:
        return Markup("")
    values = [1.0, *(v for p in points for v in (p.at, p.lower, p.upper, p.best) if v is not None and v > 0)]
    conclusion = history.concluded
    final = conclusion.speedup if conclusion else None
    values += [final] if final else []
    y = Axis(low=min(values) / 1.04, high=max(values) * 1.04, start=BOTTOM, end=TOP)
    last_number = points[-1].round + (1 if final else 0)
    step = (RIGHT - LEFT - 24) / max(1, last_number - 1)
    x = {number: LEFT + 12 + (number - 1) * step for number in range(1, last_number + 1)}
    if not y.is_drawable:
        return Markup("")
    parts = [_grid_y(y), _rounds_axis(x, final=bool(final)), _staircase(points, x, y)]
    parts += [_candidate(point, x[point.round], y) for point in points]
    if final:
        parts.append(_final(final, conclusion.speedup_lower if conclusion else None, x[last_number], y))
    return _picture("Gains of the rounds multiplied, and the final test, by round", Markup("").join(parts))


def _points(rounds: Iterable[RoundClosed]) -> list[Point]:
    """Points of the trend plot: each round's candidate against the original, by the gains kept in what it was compared with."""
    best, base, beside, points = 1.0, 1.0, 0, []
    for closed in rounds:
        if closed.beside != beside:  # those that were tried side by side were all compared with one version
            beside, base = closed.beside, best
        verdict = closed.judged.verdict
        ends = [None if part is None else base * (1 + part) for part in (verdict.gain, verdict.lower, verdict.upper)]
        if closed.accepted and ends[0] is not None and ends[0] > 0:
            best = ends[0]
        label = f"round {closed.round}: {verdict.reason}; {clip(figures.hypothesis(closed).change, 120)}"
        points.append(
            Point(
                round=closed.round,
                accepted=closed.accepted,
                at=ends[0],
                lower=ends[1],
                upper=ends[2],
                best=best,
                label=label,
            )
        )
    return points


def _candidate(point: Point, x: float, y: Axis) -> Markup:
    """A candidate's dot with its interval, or a cross where nothing was measured."""
    kind = Markup("kept" if point.accepted else "lost")
    if point.at is None or point.at <= 0:
        cross = "M{0:.1f} {1:.1f}l6 6m0 -6l-6 6"
        mark = Markup('<path class="none" d="{}"/>').format(cross.format(x - 3, BOTTOM - 9))
    else:
        mark = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"/>').format(kind, x, y.at(point.at))
        if point.lower is not None or point.upper is not None:
            low, high = point.lower or y.low, point.upper or y.high
            line = Markup('<path class="{} bar" d="M{:.1f} {:.1f}V{:.1f}"/>')
            mark = line.format(kind, x, y.at(max(low, y.low)), y.at(high)) + mark
    return Markup("<g><title>{}</title>{}</g>").format(point.label, mark)


def _staircase(points: Sequence[Point], x: dict[int, float], y: Axis) -> Markup:
    """The line of the best version, which steps at each kept round."""
    path = f"M{x[1]:.1f} {y.at(1):.1f}"
    for point in points:
        path += f"H{x[point.round]:.1f}V{y.at(point.best):.1f}"
    return Markup('<path class="best" d="{}"/>').format(path)


def _final(speedup: float, lower: float | None, x: float, y: Axis) -> Markup:
    """The mark of the final test: speedup, and down to its lower bound."""
    label = f"final test, champion against original: {times(speedup)}, at least {times_at_least(lower)}"
    top = y.at(speedup)
    mark = f"M{x:.1f} {top - 7:.1f}l7 7l-7 7l-7 -7z" + (f"M{x:.1f} {top:.1f}V{y.at(lower):.1f}" if lower else "")
    return Markup('<g><title>{}</title><path class="final" d="{}"/></g>').format(label, mark)


def _rounds_axis(x: dict[int, float], *, final: bool) -> Markup:
    """Labels of the horizontal axis, ten rounds or so."""
    every = max(1, ceil(len(x) / 10))
    final_number = max(x) if final else None
    numbers = [
        number
        for number in x
        if number == final_number or ((number - 1) % every == 0 and number + every // 2 != final_number)
    ]
    labels = [_label(x[n], BOTTOM + 18, "end" if n == final_number else str(n), "middle") for n in numbers]
    return Markup("").join((*labels, _label((LEFT + RIGHT) / 2, HEIGHT - 8, "round (1 is the original)", "middle")))


def _grid_y(y: Axis) -> Markup:
    """In a report's plot: horizontal grid lines, labelled by speedup."""
    lines = []
    for value in _ticks(y.low, y.high):
        at = y.at(value)
        lines.append(Markup('<path class="grid" d="M{} {:.1f}H{}"/>').format(LEFT, at, RIGHT))
        lines.append(_label(LEFT - 6, at + 4, f"{value:g}x", "end"))
    return Markup("").join(lines)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, nine or fewer for a range of 1.3 and more."""
    decades = [10.0**n for n in range(floor(log10(low)), ceil(log10(high)) + 1)]
    if high / low < 1.3:
        size = max(0.01, round((high - low) / 5, 2))
        return [round(size * n, 2) for n in range(ceil(low / size), floor(high / size) + 1)]
    for steps in (STEPS, (1.0, 1.5, 2.0, 3.0, 5.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        ticks = [round(step * decade, 6) for decade in decades for step in steps]
        inside = [value for value in ticks if low <= value <= high]
        if len(inside) <= 9:
            break
    return inside


def roofline_plot(history: History) -> Markup:
    """Shapes of the original and of the best version under the ceilings; empty where one of these is not known."""
    ceilings = history.roofline.ceilings if history.roofline else None
    best, baseline = figures.best(history), history.baseline
    if ceilings is None or best is None or baseline is None or not (ceilings.copy_gbps or ceilings.flops_gflops):
        return Markup("")
    scoring = history.contract.scoring
    original_points = _place_shapes(baseline.shapes, baseline.quick.rows, scoring)
    best_points = _place_shapes(baseline.shapes, best[1].rows, scoring) if best[0] > 1 else []
    if not original_points:
        return Markup("")
    peak, copy = ceilings.flops_gflops, ceilings.copy_gbps
    inner = _under(original_points, best_points, peak=peak, copy=copy)
    return _picture("GFLOP/s by operations per byte, both logarithmic", inner) if inner else Markup("")


def _place_shapes(shapes: Iterable[ShapeRoof], rows: Iterable[Row], scoring: Scoring) -> list[tuple[str, float, float]]:
    """For the report's roofline plot: label, intensity and GFLOP/s of every shape of which all is known."""
    spent = {row.label: counter.value for row in rows for counter in row.metrics if counter.name == scoring.time_ms}
    return [
        (shape.label, shape.intensity, shape.flops / (1e6 * spent[shape.label]))
        for shape in shapes
        if shape.intensity and shape.flops and spent.get(shape.label, 0) > 0
    ]


def _under(
    original_points: Sequence[tuple[str, float, float]],
    best_points: Sequence[tuple[str, float, float]],
    *,
    peak: float | None,
    copy: float | None,
) -> Markup:
    """Axes, roof and points of the report's roofline plot; empty for numbers that no machine has."""
    ridge = [peak / copy] if peak and copy else []
    across = [point[1] for point in (*original_points, *best_points)] + ridge
    rates = [point[2] for point in (*original_points, *best_points)] + ([peak] if peak else [])
    x = Axis(low=min(across) / 3, high=max(across) * 3, start=LEFT, end=RIGHT)
    y = Axis(low=min(rates) / 3, high=max(rates) * 2, start=BOTTOM, end=TOP)
    if not (x.is_drawable and y.is_drawable):
        return Markup("")
    parts = [_decades(x, y), _roof(x, y, peak=peak, copy=copy)]
    after = {label: rate for label, _, rate in best_points}
    for label, intensity, rate in original_points:
        if label in after:
            path = f"M{x.at(intensity):.1f} {y.at(rate):.1f}V{y.at(after[label]):.1f}"
            parts.append(Markup('<path class="moved" d="{}"/>').format(path))
        parts.append(_dot("lost", f"{label}, original: {rate:.4g} GFLOP/s", x.at(intensity), y.at(rate)))
    for label, intensity, rate in best_points:
        parts.append(_dot("kept", f"{label}, best: {rate:.4g} GFLOP/s", x.at(intensity), y.at(rate)))
    return Markup("").join(parts)


def _dot(kind: str, label: str, x: float, y: float) -> Markup:
    """In a report's plot: a dot with a tooltip; `kind`: its CSS class."""
    circle = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"/>').format(kind, x, y)
    return Markup("<g><title>{}</title>{}</g>").format(label, circle)


def _roof(x: Axis, y: Axis, *, peak: float | None, copy: float | None) -> Markup:
    """The roof of the report's plot: the slope of the bandwidth and the level of the compute peak, as far as they are known."""
    knee = peak / copy if peak and copy else x.high if copy else x.low
    # a slope begins where it enters the picture
    start = max(x.low, y.low / copy) if copy else x.low
    path = f"M{x.at(start):.1f} {y.at(start * copy):.1f}L{x.at(knee):.1f} {y.at(knee * copy):.1f}" if copy else ""
    if peak:
        path += f"M{x.at(knee):.1f} {y.at(peak):.1f}H{RIGHT}"
    labels = [_label(RIGHT - 4, y.at(peak) - 6, f"{peak:.4g} GFLOP/s", "end")] if peak else []
    if copy:
        labels.append(_label(x.at(start) + 8, y.at(start * copy) + 18, f"{copy:.4g} GB/s", "start"))
    return Markup('<path class="roof" d="{}"/>').format(path) + Markup("").join(labels)


def _decades(x: Axis, y: Axis) -> Markup:
    """In a report's plot: grid lines at powers of ten on both axes, labelled."""
    parts = []
    for value in (10.0**n for n in range(ceil(log10(x.low)), floor(log10(x.high)) + 1)):
        parts.append(Markup('<path class="grid" d="M{:.1f} {}V{}"/>').format(x.at(value), TOP, BOTTOM))
        parts.append(_label(x.at(value), BOTTOM + 18, f"{value:g}", "middle"))
    for value in (10.0**n for n in range(ceil(log10(y.low)), floor(log10(y.high)) + 1)):
        parts.append(Markup('<path class="grid" d="M{} {:.1f}H{}"/>').format(LEFT, y.at(value), RIGHT))
        parts.append(_label(LEFT - 6, y.at(value) + 4, f"{value:g}", "end"))
    return Markup("").join((*parts, _label((LEFT + RIGHT) / 2, HEIGHT - 8, "FLOP/byte", "middle")))


def _label(x: float, y: float, text: str, anchor: str) -> Markup:
    """A text in the picture; `anchor`: start, middle or end."""
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _picture(title: str, inner: Markup) -> Markup:
    """A report's plot as SVG with a title that screen readers read."""
    return Markup(
        '<div class="wide"><svg viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}</svg></div>'
    ).format(WIDTH, HEIGHT, title, title, inner)
