"""The machine in the documents: its ceilings, every shape below them, and its noise."""

import math
from collections.abc import Sequence

from ridgeline.graph.evidence import Row
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import Calibrated, ShapeRoof
from ridgeline.graph.reports import figures
from ridgeline.graph.reports.figures import render_once
from ridgeline.graph.reports.text import cell, line, number, quantity, table
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules.calibration import is_remembered, list_alarms
from ridgeline.graph.rules.goal import peak_fraction
from ridgeline.graph.rules.headroom import (
    NOTHING_TO_GAIN,
    Headroom,
    compute_best_headroom,
    compute_headroom,
    describe_device,
)
from ridgeline.graph.rules.history import best_round
from ridgeline.graph.rules.roofline import bound_of, compute_shares, ridge
from ridgeline.graph.standing import History
from ridgeline.graph.stats.noise import Noise
from ridgeline.graph.stats.sequential import smallest_visible_gain

UNKNOWN = "UNKNOWN"


def bound(history: History) -> str:
    """For the documents: what bounds the shapes together, once the baseline has placed them under the ceilings."""
    label = bound_of(history.baseline.shapes) if history.baseline else "unknown"
    return UNKNOWN if label == "unknown" else f"{label}-bound"


def ceiling_lines(history: History) -> list[str]:
    """Lines of the documents on the ceilings: bound, ridge and method, and what was refused or is not known."""
    roof = history.roofline
    ceilings = roof.ceilings if roof else None
    peak, copy = (ceilings.flops_gflops, ceilings.copy_gbps) if ceilings else (None, None)
    point = f"{ridge(peak, copy):.4g} FLOP/byte" if peak and copy else UNKNOWN
    return [
        f"Bound: {bound(history)}",
        f"Ridge point: {point}",
        f"Method: {_method(history)}",
        *([f"Note: {line(roof.note)}"] if roof and roof.note else []),
    ]


def shapes(history: History) -> str:
    """The documents' table of operations, bytes, intensity and floor of each shape."""
    baseline, roof = history.baseline, history.roofline
    roofs: tuple[ShapeRoof, ...] = (roof.shapes if roof else ()) or (baseline.shapes if baseline else ())
    if not roofs:
        return f"Per shape: {UNKNOWN} (no work formula, or the baseline has not run)."
    rows = ((cell(s.label), *map(quantity, (s.flops, s.bytes, s.intensity, s.floor_us)), s.bound) for s in roofs)
    return table(("Shape", "FLOP", "bytes", "FLOP/byte", "floor us", "bound"), rows)


def against(history: History) -> str:
    """The documents' table of original and best version beside the floor of each shape; empty where no floor is known."""
    best = figures.best(history)
    roof, baseline = history.roofline, history.baseline
    column = history.contract.scoring.time_ms
    if best is None or roof is None or baseline is None or column is None:
        return ""
    roofs = [floor for floor in baseline.shapes if floor.floor_us is not None]
    if not roofs:
        return ""
    versions = (baseline.quick.rows, best[1].rows) if best[0] > 1 else (baseline.quick.rows,)
    header = ["Shape", "bound", "floor us"]
    for name in ("original", "best")[: len(versions)]:
        header += [f"{name} us", f"{name}, of ceiling"]
    lines = []
    for floor in roofs:
        cells = [cell(floor.label), floor.bound, quantity(floor.floor_us)]
        for rows in versions:
            cells += _beside(rows, floor, history)
        lines.append(tuple(cells))
    return f"{table(header, lines)}\n\n{_sentence(history)}"


def nothing_to_gain(history: History) -> str:
    """The first sentence of a report on an original that stands at its ceiling; empty for any other campaign."""
    ended = history.concluded
    check_met = next((check for check in ended.checks if check.id == "T2" and check.satisfied), None) if ended else None
    if ended is None or check_met is None or not check_met.description.startswith(NOTHING_TO_GAIN):
        return ""
    headroom = (
        compute_headroom(ended.project.rows, history.contract, describe_device(history))
        if ended.project
        else "it gave no numbers"
    )
    share = f"{100 * headroom.share:.1f} % of the ceiling" if isinstance(headroom, Headroom) else headroom
    fraction = peak_fraction(history.limits, history.opened.target.performance_target)
    if isinstance(headroom, Headroom) and fraction is not None and headroom.share < fraction:
        share += ", less than asked: the machine was not steady, so repeat the campaign before you rely on it"
    spent = f"{len(history.rounds)} rounds were" if history.rounds else "No round was"
    return (
        f"{check_met.description[:1].upper()}{line(check_met.description[1:])}. "
        f"{spent} spent; the benchmark, run again at the end: {share}. "
        "To search all the same: `--set target_peak_fraction=none`."
    )


def _method(history: History) -> str:
    """In the documents: how the ceilings were measured, and the sources that state them."""
    ceilings = history.roofline.ceilings if history.roofline else None
    if ceilings is None:
        return UNKNOWN
    stated = [source for source in (ceilings.flops_source, ceilings.copy_source) if source]
    texts = [line(ceilings.method)] if ceilings.method else []
    return "; ".join((*texts, *([f"stated by {', '.join(stated)}"] if stated else []))) or UNKNOWN


def _beside(rows: Sequence[Row], floor: ShapeRoof, history: History) -> tuple[str, str]:
    """For the documents: a shape's time (us) and its share of the floor, as cells; dashes without a time."""
    scoring = history.contract.scoring
    row = next((row for row in rows if row.label == floor.label), None)
    times = [item.value for item in row.metrics if item.name == scoring.time_ms] if row else []
    if row is None or not times:
        return "-", "-"
    share = compute_shares((row,), (floor,), scoring).get(floor.label)
    return number(1e3 * times[0]), "-" if share is None else f"{100 * share:.1f} %"


def _sentence(history: History) -> str:
    """For the documents: how much of the ceiling the best version reaches and what is left, in one sentence."""
    headroom = compute_best_headroom(history)
    if isinstance(headroom, str):
        return f"What is left cannot be said: {headroom}."
    point = (
        f"; farthest from it is {cell(headroom.lowest)} with {100 * headroom.lowest_share:.1f} %"
        if headroom.shapes > 1
        else ""
    )
    who = "The best version" if best_round(history) else "The original, by the slower of its two runs,"
    return f"{who} reaches {headroom.text}{point}. At most {headroom.left:.3f}x is left."


# What identical versions showed, in words: how small a gain can be seen here, and in what time.


def resolution(noise: Noise, limits: Limits) -> str:
    """For the documents: the smallest gain that is kept nine times in ten, and the minutes one candidate may take for it."""
    minutes = limits.looks[-1] * noise.seconds_per_pair / 60
    within = f"{limits.looks[-1]} process pairs" + (f" ({_minutes(minutes)})" if minutes else "")
    return f"gains under {smallest_visible_gain(noise, limits):.1%} cannot be seen in {within}"


def describe_scatter(noise: Noise) -> str:
    """For the documents: how much pairs of identical versions differed in calibration, in words."""
    text = f"{noise.pairs} process pairs of identical versions scatter by {noise.sd:.2%} (engine `{noise.engine}`)"
    if noise.allowance:
        text += (
            f" and differ by {math.expm1(noise.offset):+.2%} systematically, "
            f"so {math.expm1(noise.allowance):.2%} are added to the margin"
        )
    return text


def seen_noise(body: Calibrated, history: History | None) -> str:
    """One calibration or canary for somebody who watches; `known`: the campaign up to and with it."""
    what = "calibration" if body.fresh else f"canary after round {body.after_round}"
    if body.comparison is None:
        return f"{what}: {line(body.note)}; candidates are judged by their own scatter alone"
    if body.alarm:
        return f"{what}: {line(body.alarm)}: calibrating again"
    noise = fold.noise(history) if history else None
    if noise is None or history is None:
        return f"{what}: too few pairs to tell"
    if not body.fresh:
        return f"{what}: noise as before"
    whose = ", measured for an earlier campaign here" if is_remembered(body, history.limits) else ""
    return f"{what}{whose}: {describe_scatter(noise)}; {resolution(noise, history.limits)}"


def noise_lines(history: History) -> list[str]:
    """For the campaign's README and its report; empty where nothing was calibrated."""
    if not history.calibrations:
        return []
    noise, latest = fold.noise(history), history.calibrations[-1]
    if noise is None:
        why = line(latest.note).removeprefix("not measured").strip() or "(too few pairs)"
        return [f"Not measured {why}; candidates are judged by their own scatter alone"]
    in_force = fold.calibrations_in_force(history)
    notes = dict.fromkeys(note for run in in_force if run.comparison for note in run.comparison.notes)
    sentence = render_once(noise, describe_scatter, noise)
    return [
        f"{sentence[:1].upper()}{sentence[1:]}",
        f"On this machine {render_once(noise, resolution, noise, history.limits)}",
        *(line(note) for note in notes),
        *(f"After round {run.after_round}: {line(run.alarm)}; calibrated again" for run in list_alarms(history)),
    ]


def _minutes(minutes: float) -> str:
    """In the documents: a span in minutes, or in seconds where it is short."""
    return f"{minutes:.1f} minutes" if minutes >= 0.95 else f"{60 * minutes:.0f} seconds"
