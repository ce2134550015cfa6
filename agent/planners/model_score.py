"""What a score is made of, and what a gain of some shapes makes of it: computed here, so that nobody has to guess."""

from collections.abc import Sequence
from math import exp, fsum, log

from ridgeline.graph.briefing import Briefing, ShapeNow
from ridgeline.graph.contract import Contract, Scoring
from ridgeline.graph.policy.score import higher_wins
from ridgeline.graph.trial import Judged, proposed
from ridgeline.graph.values import Engine, Hypothesis

GLOBAL = "global"
TIMED: dict[Engine, str] = {
    "graph": "replays of a CUDA or HIP graph: what the host does for a launch is not in it",
    "event": "events on the device around the calls: it counts where the host is too slow to launch",
    "wall": "the clock of the host: launches are in it",
    "profiler": "the profiler's times of the kernels: launches are not in it",
}
"""What an engine counts, for a device that something has to be launched on."""


def averaged(told: Briefing) -> str:
    """How the rows become the score, which way is better, and what the best version had."""
    scoring = told.contract.scoring
    shapes = f"the {len(told.shapes)} shapes" if told.shapes else "the shapes"
    better = "higher" if higher_wins(scoring) else "lower"
    return (
        f"geometric mean over {shapes} of {_metric(scoring)}, {better} is better; the best version had"
        f" {told.aggregate:.4g} by the quick command in round {told.best_round}"
    )


def counted_work(contract: Contract) -> str:
    """What shares of a peak count as work of one call: the least that it must do, whatever a kernel really does."""
    named = {"operations": contract.work.flops, "bytes": contract.work.bytes}
    said = ", ".join(f"{name} {formula}" for name, formula in named.items() if formula)
    return f"{said}: the least of a call; a kernel that moves or computes more shows a lower share" if said else ""


def timed_by(told: Briefing) -> str:
    """What the timing includes; empty on a processor, where nothing is launched."""
    return "" if told.machine.kind == "cpu" else TIMED[told.contract.scoring.engine]


def of_score(asked: Hypothesis, shapes: Sequence[ShapeNow]) -> str:
    """What the predicted speedup makes of the score; empty without one, or where its shapes are not known."""
    speedup = asked.prediction.speedup
    if not speedup or not shapes:
        return ""
    if asked.target_class == GLOBAL:
        return f"of every shape, so of the score: {_times(speedup)}"
    mine = [shape.label for shape in shapes if aimed_at(asked.target_class, shape.label, shape.config_class)]
    if not mine:
        return ""
    whole = speedup ** (len(mine) / len(shapes))
    return f"of {', '.join(mine)}; so the score {_times(whole)} (computed: {len(mine)} of {len(shapes)} shapes)"


def class_speedup(judged: Judged) -> float | None:
    """Measured speedup of the shapes that the hypothesis was for; None where nothing, or no such shape, was timed."""
    target = proposed(judged).hypothesis.target_class
    gains = [shape.gain for shape in judged.verdict.shapes if aimed_at(target, shape.label, shape.config_class)]
    if not gains or min(gains) <= -1:
        return None
    return exp(fsum(log(1 + gain) for gain in gains) / len(gains))


def aimed_at(target_class: str, label: str, config_class: str) -> bool:
    """Whether a hypothesis is for this shape: it names all, its class, or the shape itself, alone or in a list."""
    named = (name.strip() for name in target_class.split(","))
    return target_class in (GLOBAL, config_class) or label in named


def is_metric(counter: str, scoring: Scoring) -> bool:
    """Whether a prediction names what the benchmark measures, and no counter."""
    names = {name.lower() for name in scoring.primary_metric}
    return counter.strip().lower() in names | {"score", "time", (scoring.time_ms or "time").lower()}


def _metric(scoring: Scoring) -> str:
    if scoring.combined:
        return f"6 / (2 / {scoring.forward} + 4 / {scoring.backward})"
    several = "; none of them may fall" if len(scoring.primary_metric) > 1 else ""
    return f"{' and '.join(scoring.primary_metric)}{several}"


def _times(factor: float) -> str:
    return f"{factor:.3g}x"
