"""Times and rates of each shape as text for a model: original against best, and before against after."""

from collections.abc import Mapping
from math import exp, fsum, log

from ridgeline.agent.planners.model_score import GLOBAL, class_speedup
from ridgeline.graph.briefing import Briefing, ShapeNow
from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Benchmark, Comparison
from ridgeline.graph.policy.score import higher_wins
from ridgeline.graph.record import PredictionCheck, RoundClosed, ShapeRoof
from ridgeline.graph.trial import Judged, Timed, find, proposed

ALMOST = 10.0
"""Gains above it, as a ratio, are told as a factor: +900 % and more says less than 10x."""


def by_shape(told: Briefing) -> str:
    """Original and best version, one line for each shape; empty where nothing was measured."""
    if not told.shapes:
        return ""
    metric = told.target.primary_metric
    only = told.best_round == 1
    head = (
        "original = best version, round 1" if only else f"original (round 1) -> best version (round {told.best_round})"
    )
    said = "flop" in metric.lower() or "gb/s" in metric.lower()
    governed = bool(told.terms and told.terms.governed)
    peaks = {spec.metric: spec.value for spec in told.specs if spec.value}
    newest = _beside(told)
    shapes = [_timed_anew(shape, newest.get(shape.label), told.contract.scoring) for shape in told.shapes]
    lines = [_now(shape, only=only, peaks=peaks if governed else None, rated=said) for shape in shapes]
    how = f"; the best version as round {told.best_round} timed it side by side" if newest else ""
    return "\n".join([f"{metric}, and the time of one call by the quick command{how}: {head}", *lines])


def _beside(told: Briefing) -> dict[str, float]:
    """Microseconds of the best version in the comparison that had it accepted; empty where there was none."""
    found = next((closed for closed in told.rounds if closed.round == told.best_round and closed.accepted), None)
    return {label: new for label, (_, new) in timed(found.judged).items()} if found else {}


def _timed_anew(shape: ShapeNow, us: float | None, scoring: Scoring) -> ShapeNow:
    """The shape with that time, and with the score that goes with it: two runs at two times would only confuse."""
    if us is None or not shape.best_us or shape.best is None:
        return shape
    factor = shape.best_us / us if higher_wins(scoring) else us / shape.best_us
    return shape.model_copy(update={"best": shape.best * factor, "best_us": us})


def changes(judged: Judged, roofs: Mapping[str, ShapeRoof] | None = None) -> tuple[str, ...]:
    """Each shape before and after, with its gain: times of calls that were interleaved, where there are any."""
    times = timed(judged)
    return tuple(
        f"{shape.label}: {_pair(times.get(shape.label), (roofs or {}).get(shape.label))}{signed(shape.gain)}"
        for shape in judged.verdict.shapes
    )


def timed(judged: Judged) -> dict[str, tuple[float, float]]:
    """Label -> microseconds of one call of best and of candidate, geometric mean over all interleaved runs."""
    found = find(judged, Timed)
    runs = [item for item in found.evidence if isinstance(item, Comparison)] if found else []
    pairs: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        for shape in run.shapes:
            pairs.setdefault(shape.label, []).append((shape.best_us, shape.candidate_us))
    return {label: (_mean([old for old, _ in each]), _mean([new for _, new in each])) for label, each in pairs.items()}


def how_timed(judged: Judged) -> str:
    """Where the numbers of `changes` come from, since two runs at two times may differ for the machine's sake."""
    found = find(judged, Timed)
    if found is None:
        return "nothing was timed"
    if any(isinstance(item, Comparison) for item in found.evidence):
        return (
            "before and after were timed side by side in this round, in fresh processes; numbers of other rounds were "
            "taken at another time and may differ where the machine was busier"
        )
    runs = sum(isinstance(item, Benchmark) for item in found.evidence)
    return f"before and after come from separate runs of the benchmark ({runs} in this round)"


def speeds(judged: Judged) -> str:
    """Predicted against measured speedup of the shapes that the change was for, then of the score; empty if unknown."""
    about, verdict = proposed(judged).hypothesis, judged.verdict
    said = about.prediction.speedup
    if verdict.gain is None:
        return f"speedup: predicted {said:.3g}x, not measured" if said else ""
    least = f", at least {1 + verdict.lower:.3g}x" if verdict.lower is not None else ""
    foretold = f"predicted {said:.3g}x" if said else "not predicted"
    mine = class_speedup(judged) if about.target_class != GLOBAL else None
    if mine is None:
        return f"speedup: {foretold}, measured {1 + verdict.gain:.3g}x{least}"
    whole = f"of the whole score {1 + verdict.gain:.3g}x{least}"
    return f"speedup of {about.target_class}: {foretold}, measured {mine:.3g}x; {whole}"


def foreseen(closed: RoundClosed) -> str:
    """Predicted against measured counter and speedup of a closed round, in one line."""
    checked = closed.prediction
    counter = f"{checked.counter} {_moved(checked)}" if checked else ""
    return "; ".join(part for part in (counter, speeds(closed.judged)) if part) or "not measured"


def signed(gain: float) -> str:
    """A gain as a person says it."""
    return f"{1 + gain:.3g}x" if gain >= ALMOST - 1 else f"{gain:+.1%}"


def _moved(checked: PredictionCheck) -> str:
    before, after = checked.before, checked.after
    if before is None or after is None:
        return "not measured"
    return f"{before:.4g} -> {after:.4g}{f' ({after / before:.3g}x)' if before else ''}: {checked.outcome}"


def _now(shape: ShapeNow, *, only: bool, peaks: Mapping[str, float] | None, rated: bool) -> str:
    """`rated`: the metric is a rate already, so none is worked out of the time. `peaks`: None where none governs."""
    first, last = _value(shape.original, shape.original_us), _value(shape.best, shape.best_us)
    place = "" if shape.config_class == "all" else f" ({shape.config_class})"
    parts = (
        f"{shape.label}{place}: {last if only else f'{first} -> {last}'}",
        "" if rated else _rate(shape.roof, shape.best_us),
        "" if peaks is None else _share(shape.roof, shape.best_us, peaks),
        f"noise {100 * shape.noise:.2g} %" if shape.noise is not None else "",
    )
    return ", ".join(part for part in parts if part)


def _value(score: float | None, us: float | None) -> str:
    said = "not measured" if score is None else f"{score:.4g}"
    return said if us is None else f"{said}, {us:.4g} us"


def _pair(us: tuple[float, float] | None, roof: ShapeRoof | None) -> str:
    if us is None:
        return ""
    rates = [rate for rate in (_rate(roof, one) for one in us) if rate]
    more = f" ({rates[0]} -> {rates[1]})" if len(rates) == len(us) else ""
    return f"{us[0]:.4g} -> {us[1]:.4g} us{more}, "


def _rate(roof: ShapeRoof | None, us: float | None) -> str:
    """Work by time, in the unit of what bounds the shape."""
    if roof is None or not us:
        return ""
    amount, unit = (roof.bytes, "GB/s") if roof.bound == "memory" else (roof.flops, "GFLOP/s")
    return f"{amount / us / 1e3:.4g} {unit}" if amount else ""


def _share(roof: ShapeRoof | None, us: float | None, peaks: Mapping[str, float]) -> str:
    """Share of the peak that bounds the shape, then of the other one, where that is known."""
    if roof is None or not us or roof.floor_us is None:
        return ""
    name, work, peak = (
        ("compute", roof.flops, peaks.get("compute peak"))
        if roof.bound == "memory"
        else ("memory", roof.bytes, peaks.get("copy bandwidth"))
    )
    other = f" ({100 * work / us / 1e3 / peak:.2g} % of {name})" if work and peak else ""
    return f"{100 * roof.floor_us / us:.3g} % of its {roof.bound} peak{other}"


def _mean(values: list[float]) -> float:
    return exp(fsum(map(log, values)) / len(values))
