"""Preset `evidence`: Ridgeline's own rule. Interleaved pairs looked at one after another, a bound above the margin, a
guard for every shape. Screening drops what looks hopeless early; confirming goes on until the bounds decide."""

import math
from collections.abc import Sequence
from typing import assert_never

from ridgeline.graph.limits import Limits
from ridgeline.graph.policy.divergence import class_gains, split
from ridgeline.graph.policy.objections import skewed_gain
from ridgeline.graph.policy.outcome import Outcome, accept, losses, reject
from ridgeline.graph.policy.readings import Readings, guarded, reference
from ridgeline.graph.policy.score import metric_names
from ridgeline.graph.standing import BenchmarkWant, CompareWant, Standing
from ridgeline.graph.stats.sequential import LEAST_PAIRS, Estimate, PairDecision, decide_from_pairs, estimate_gain
from ridgeline.graph.trial import Stage
from ridgeline.graph.values import Answer
from ridgeline.graph.verdict import ShapeChange


def want(found: Readings, standing: Standing, limits: Limits) -> BenchmarkWant | CompareWant | None:
    """Absolute numbers and the Check gate first, then pairs until a look decides or the looks are spent.

    A lost pair spends its look: another one is timed, so that it costs power and settles nothing.
    """
    if found.run("candidate", "full", 0) is None:
        return BenchmarkWant(which="candidate", level="full", repeat=0)
    if _needs_best(found, standing):
        return BenchmarkWant(which="best", level="full", repeat=0)
    done, steps = len(found.comparisons) + len(found.lost), (0, *limits.looks)
    if done == len(steps) - 1:
        return None
    if found.comparisons and _settled(estimate_gain(found.comparisons, standing.noise, limits), standing, limits):
        return None
    return CompareWant(first_pair=steps[done], pairs=steps[done + 1] - steps[done])


def outcome(trial: Stage, found: Readings, standing: Standing, limits: Limits) -> Outcome:
    """Accepted iff the lower bound exceeds the margin and no shape is slower: none with confidence beyond
    shape_guard, and no core shape by core_shape_regress_limit even as a point estimate.
    """
    lost = _lost(found)
    if not found.comparisons:
        why = ": ".join(("candidate and best were never timed side by side", *lost))
        return reject("undecided", why, faster="unverified", notes=lost)
    seen = estimate_gain(found.comparisons, standing.noise, limits)
    shapes = _changes(seen)
    core = _losers(seen, limits, guarded(standing, "full"))
    stand = "lost" if core and decide_from_pairs(seen, limits) == "faster" else decide_from_pairs(seen, limits)
    kept = _decide(trial, seen, [shape for shape in shapes if shape.label in core], stand, shapes=shapes, limits=limits)
    bounds = {"lower": _gain(seen.lower), "upper": _gain(seen.upper)}
    return kept.model_copy(update={**bounds, "notes": (*kept.notes, *lost)})


def _settled(seen: Estimate, standing: Standing, limits: Limits) -> bool:
    """Nothing more to learn.

    A winner with a shape that looks slower, or without a gain on skewed shapes, is measured on: that must be resolved.
    """
    stand = decide_from_pairs(seen, limits)
    if stand == "faster":
        skewed = [shape for shape in _changes(seen) if shape.label in standing.contract.skew_shapes]
        at_risk = any(shape.theta < math.log1p(-limits.shape_guard) for shape in seen.shapes)
        return not at_risk and not (skewed and skewed_gain(math.expm1(seen.theta), skewed, limits) == "unresolved")
    return stand != "undecided"


def _changes(seen: Estimate) -> tuple[ShapeChange, ...]:
    return tuple(
        ShapeChange(
            label=s.label,
            config_class=s.config_class,
            gain=math.expm1(s.theta),
            lower=_gain(s.lower),
            upper=_gain(s.upper),
        )
        for s in seen.shapes
    )


def _decide(
    trial: Stage,
    seen: Estimate,
    slower: Sequence[ShapeChange],
    stand: PairDecision,
    *,
    shapes: tuple[ShapeChange, ...],
    limits: Limits,
) -> Outcome:
    gain, answer = math.expm1(seen.theta), _faster(seen)
    losing = tuple(name for name in class_gains(shapes) if any(shape.config_class == name for shape in slower))
    divided = split(shapes, losing, trial=trial, limits=limits, gain=gain, faster=answer)
    if divided and stand in ("lost", "not_better"):
        return divided
    also = f", and {losses(slower)}" if slower else ""
    match stand:
        case "faster":
            return accept(gain, shapes, limits, lower=math.expm1(seen.lower))
        case "lost":
            return reject("core_regression", losses(slower), faster=answer, gain=gain, shapes=shapes)
        case "not_better":
            return reject("not_better", f"{_not_better(seen)}{also}", faster=answer, gain=gain, shapes=shapes)
        case "unpromising":
            why = f"{gain:+.1%} in {_pairs(seen)}: below the margin of {_required(seen)}, so not confirmed{also}"
            return reject("undecided", why, faster=answer, gain=gain, shapes=shapes)
        case "undecided":
            why = f"{gain:+.1%} in {_pairs(seen)} does not settle it (at least {_shown(seen.lower)}){also}"
            return reject("undecided", why, faster=answer, gain=gain, shapes=shapes)
        case _:  # pragma: no cover - mypy proves that no stand is left
            assert_never(stand)


def _losers(seen: Estimate, limits: Limits, core: Sequence[str]) -> frozenset[str]:
    hard = math.log1p(-limits.core_shape_regress_limit)
    confident = {shape.label for shape in seen.shapes if shape.slower}
    return frozenset(confident | {shape.label for shape in seen.shapes if shape.label in core and shape.theta <= hard})


def _needs_best(found: Readings, standing: Standing) -> bool:
    """Whether the other metrics of the best version were last measured on another machine than the candidate's."""
    run, best = found.run("candidate", "full", 0), reference(found, standing, "full")
    several = len(metric_names(standing.contract.scoring)) > 1
    return several and run is not None and best is not None and best.machine != run.machine


def _lost(found: Readings) -> tuple[str, ...]:
    """A note on looks that gave no pair, for whoever reads the verdict."""
    if not found.lost:
        return ()
    count = len(found.lost)
    asked = count + len(found.comparisons)
    return (f"{count} of {asked} looks gave no pair, since the machine was disturbed: {found.lost[-1].detail}",)


def _not_better(seen: Estimate) -> str:
    if seen.upper < 0:
        return f"it is slower, by at least {-math.expm1(seen.upper):.1%}"
    if seen.upper < seen.required:
        return f"it is at most {math.expm1(seen.upper):+.1%} faster, below the margin of {_required(seen)}"
    return f"{math.expm1(seen.theta):+.1%} in {_pairs(seen)} is unlikely to exceed the margin of {_required(seen)}"


def _faster(seen: Estimate) -> Answer:
    if seen.lower > seen.required and seen.pairs >= LEAST_PAIRS:
        return "yes"
    return "no" if seen.upper < seen.required or seen.unlikely else "unverified"


def _required(seen: Estimate) -> str:
    return f"{math.expm1(seen.required):.1%}"


def _pairs(seen: Estimate) -> str:
    return f"{seen.pairs} process pair{'s' if seen.pairs > 1 else ''}"


def _gain(log_ratio: float) -> float | None:
    return math.expm1(log_ratio) if math.isfinite(log_ratio) else None


def _shown(log_ratio: float) -> str:
    return f"{math.expm1(log_ratio):+.1%}" if math.isfinite(log_ratio) else "nothing"
