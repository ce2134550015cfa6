"""What identical versions showed, in words: how small a gain can be seen here, and in what time."""

import math

from ridgeline.graph.documents.figures import render_once
from ridgeline.graph.documents.text import line
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import Calibrated
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules.calibration import list_alarms
from ridgeline.graph.standing import History
from ridgeline.graph.stats.noise import Noise
from ridgeline.graph.stats.sequential import smallest_visible_gain


def resolution(noise: Noise, limits: Limits) -> str:
    """The smallest gain that is kept nine times in ten, and the minutes one candidate may take for it."""
    minutes = limits.looks[-1] * noise.seconds_per_pair / 60
    within = f"{limits.looks[-1]} process pairs" + (f" ({_minutes(minutes)})" if minutes else "")
    return f"gains under {smallest_visible_gain(noise, limits):.1%} cannot be seen in {within}"


def scatter(noise: Noise) -> str:
    """How much pairs of identical versions differ."""
    text = f"{noise.pairs} process pairs of identical versions scatter by {noise.sd:.2%} (engine `{noise.engine}`)"
    if noise.allowance:
        text += (
            f" and differ by {math.expm1(noise.offset):+.2%} systematically, "
            f"so {math.expm1(noise.allowance):.2%} are added to the margin"
        )
    return text


def seen_noise(body: Calibrated, known: History | None) -> str:
    """One calibration or canary for somebody who watches; `known`: the campaign up to and with it."""
    what = "calibration" if body.fresh else f"canary after round {body.after_round}"
    if body.comparison is None:
        return f"{what}: {line(body.note)}; candidates are judged by their own scatter alone"
    if body.alarm:
        return f"{what}: {line(body.alarm)}: calibrating again"
    noise = fold.noise(known) if known else None
    if noise is None or known is None:
        return f"{what}: too few pairs to tell"
    return f"{what}: {scatter(noise)}; {resolution(noise, known.limits)}" if body.fresh else f"{what}: noise as before"


def noise_lines(known: History) -> list[str]:
    """For the campaign's README and its report; empty where nothing was calibrated."""
    if not known.calibrations:
        return []
    noise, last = fold.noise(known), known.calibrations[-1]
    if noise is None:
        return [f"Not measured: {line(last.note) or 'too few pairs'}; candidates are judged by their own scatter alone"]
    notes = dict.fromkeys(note for run in known.calibrations if run.comparison for note in run.comparison.notes)
    seen = render_once(noise, scatter, noise)
    return [
        f"{seen[:1].upper()}{seen[1:]}",
        f"On this machine {render_once(noise, resolution, noise, known.limits)}",
        *(line(note) for note in notes),
        *(f"After round {run.after_round}: {line(run.alarm)}; calibrated again" for run in list_alarms(known)),
    ]


def _minutes(minutes: float) -> str:
    return f"{minutes:.1f} minutes" if minutes >= 0.95 else f"{60 * minutes:.0f} seconds"
