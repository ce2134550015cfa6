"""Folds over the ledger: the best version, what is remembered, what it cost."""

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import takewhile
from typing import TypeVar, cast

from ridgeline.graph.errors import LedgerCorrupt
from ridgeline.graph.evidence import Benchmark, Comparison, Profiled
from ridgeline.graph.record import (
    BaselineClosed,
    Body,
    Calibrated,
    Concluded,
    Line,
    Opened,
    Restarted,
    Reviewed,
    Rooflined,
    RoundClosed,
    Steered,
    key,
)
from ridgeline.graph.rules.physics import best_times
from ridgeline.graph.rules.shapes import core_shapes
from ridgeline.graph.standing import History, Standing
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.trial import Applied, Timed, Traced, find
from ridgeline.graph.values import FORBIDDEN_BUCKETS, Cost, Named

T = TypeVar("T")


def fold_once(fold: Callable[[History], T]) -> Callable[[History], T]:
    """Folds each history once and keeps the answer with it: a history is frozen, and is asked some thirty times a round."""

    @wraps(fold)
    def read_fold(history: History) -> T:
        if fold not in history.folds:
            history.folds[fold] = fold(history)
        return cast("T", history.folds[fold])

    return read_fold


def fold_ledger(lines: tuple[Line, ...]) -> History | None:
    """The bodies sorted by kind; None for an empty ledger. Raises LedgerCorrupt for an order that no campaign writes."""
    if not lines:
        return None
    bodies = [line.body for line in lines]
    number, problem = _find_disorder(bodies)
    if problem:
        raise LedgerCorrupt("ledger.jsonl", line=number, why=problem)
    opened = bodies[0]
    assert isinstance(opened, Opened)
    baseline = next((body for body in bodies if isinstance(body, BaselineClosed)), None)
    remeasured = baseline.roofline if baseline else None
    steered = tuple(body for body in bodies if isinstance(body, Steered))
    return History(
        opened=steer_opened(opened, steered[-1]) if steered else opened,
        roofline=remeasured or next((body for body in bodies if isinstance(body, Rooflined)), None),
        baseline=baseline,
        calibrations=tuple(body for body in bodies if isinstance(body, Calibrated)),
        rounds=tuple(body for body in bodies if isinstance(body, RoundClosed)),
        reviews=tuple(body for body in bodies if isinstance(body, Reviewed)),
        restarts=tuple(body for body in bodies if isinstance(body, Restarted)),
        steered=steered,
        concluded=next((body for body in bodies if isinstance(body, Concluded)), None),
    )


def steer_opened(opened: Opened, steered: Steered) -> Opened:
    """What the campaign was opened with, on the terms that a person gave it since."""
    limits, target = opened.limits, opened.target
    if steered.target_peak_fraction is not None:
        limits = limits.model_copy(update={"target_peak_fraction": steered.target_peak_fraction})
    if steered.max_rounds is not None:
        limits = limits.model_copy(update={"max_rounds": steered.max_rounds})
        target = target.model_copy(update={"max_iterations": None})
    if steered.goal is not None:
        target = target.model_copy(update={"performance_target": steered.goal})
    if "T1" in steered.lifted:
        target = target.model_copy(update={"performance_target": None})
    if "T2" in steered.lifted:
        limits = limits.model_copy(update={"target_peak_fraction": None})
    if "T3" in steered.lifted:
        limits = limits.model_copy(update={"max_rounds": None})
        target = target.model_copy(update={"max_iterations": None})
    return opened.model_copy(update={"limits": limits, "target": target})


def _find_disorder(bodies: Sequence[Body]) -> tuple[int, str]:
    """Number of the first line that cannot stand where it does, and why; 0 where each can."""
    events: set[str] = set()
    rounds, concluded = 1, False
    for number, body in enumerate(bodies, start=1):
        if (number == 1) != isinstance(body, Opened):
            return number, f"is of kind {body.kind!r}, but the first line, and it alone, is 'opened'"
        if concluded:
            return number, "follows the campaign's end"
        if key(body) in events:
            return number, f"is a second {key(body)}"
        if isinstance(body, RoundClosed):
            rounds += 1
            if body.round != rounds:
                return number, f"is round {body.round}, where round {rounds} is due"
        if not isinstance(body, Opened | Rooflined | BaselineClosed) and "round-1" not in events:
            return number, "comes before the baseline was closed"
        events.add(key(body))
        concluded = isinstance(body, Concluded)
    return 0, ""


@fold_once
def standing(history: History) -> Standing:
    """The last accepted version, or the original. Raises ValueError before the baseline is closed."""
    baseline = _require_baseline(history)
    everything = tuple(row.label for row in baseline.quick.rows)
    active = baseline.representative or everything
    best = best_round(history)
    runs = benchmarks(best) if best else (baseline.quick,)
    return Standing(
        round=best.round if best else baseline.round,
        commit=commit_of(best) if best else history.opened.base_commit,
        tree=best.tree if best else history.opened.base_tree,
        quick=runs[-1],
        full=next((run for run in reversed(runs) if run.level == "full"), None) or _at_direction_end(history, best),
        shapes=active,
        all_shapes=everything,
        core_shapes=core_shapes(history.contract, active),
        contract=history.contract,
        noise=noise(history),
        roofline=history.roofline,
        machine=history.opened.machine,
        original_us=_original_us(history) if best else None,
    )


@fold_once
def noise(history: History) -> Noise | None:
    """What the last calibration and the canaries since it showed; None where nothing could be measured."""
    return estimate_noise([run.comparison for run in calibrations_in_force(history) if run.comparison is not None])


def calibrations_in_force(history: History) -> tuple[Calibrated, ...]:
    """The last calibration and the canaries since it; of a campaign that was calibrated again, nothing from before."""
    runs = history.calibrations
    return runs[max((place for place, run in enumerate(runs) if run.fresh), default=0) :]


def benchmarks(accepted: RoundClosed) -> tuple[Benchmark, ...]:
    """Quick-command runs of an accepted candidate, oldest first; those of the formatted code where it was measured.

    Raises ValueError when there is none: nothing is accepted without one.
    """
    formatted, timed = accepted.judged.formatted, find(accepted.judged, Timed)
    if formatted is not None and (runs := _quick_runs(formatted.evidence, formatted.applied.commit)):
        return runs
    if timed is not None and (runs := _quick_runs(timed.evidence, timed.verified.built.applied.commit)):
        return runs
    raise ValueError(f"round {accepted.round} is accepted without a benchmark of its candidate")


def best_round(history: History) -> RoundClosed | None:
    """The last accepted round; None when the original is still the best."""
    return next(iter(reversed(lineage(history))), None)


def best_profile(history: History) -> Profiled | None:
    """Counters of the best version; None when that very version was not profiled."""
    best = best_round(history)
    if best is None:
        return history.baseline.profile if history.baseline else None
    traced = find(best.judged, Traced)
    return traced.profile if traced else None


def next_round(history: History) -> int:
    """Number of the round to come; numbers are never used twice."""
    if history.rounds:
        return history.rounds[-1].round + 1
    return 2 if history.baseline else 1


def masked_versions(history: History) -> frozenset[int]:
    """Memory versions, round - 1, that partial restarts or a person took out of planning; a person's word prevails."""
    versions = frozenset(version for restart in history.restarts for version in restart.masked)
    if not history.steered:
        return versions
    wish = history.steered[-1].wish
    return versions.difference(wish.unmasked).union(wish.masked)


def unmasked_rounds(history: History) -> tuple[RoundClosed, ...]:
    """Closed rounds that may influence planning and de-duplication, oldest first."""
    hidden = masked_versions(history)
    return tuple(closed for closed in history.rounds if closed.round - 1 not in hidden)


def masked_rounds(history: History) -> tuple[RoundClosed, ...]:
    """Closed rounds that partial restarts took out of planning, oldest first."""
    hidden = masked_versions(history)
    return tuple(closed for closed in history.rounds if closed.round - 1 in hidden)


def directions(history: History) -> tuple[str, ...]:
    """Of the last stagnation review; none after a partial restart, which is to look with fresh eyes."""
    if not history.reviews:
        return ()
    latest = history.reviews[-1]
    restarted = history.restarts and history.restarts[-1].after_round >= latest.after_round
    return () if restarted else latest.directions


@fold_once
def lineage(history: History) -> tuple[RoundClosed, ...]:
    """What the best version is made of, oldest first: accepted rounds up to the first that rests on a forbidden bucket.

    No gate lets such a round in; where a ledger has one all the same, it and what was built on it are rolled back
    before the report.
    """
    return tuple(takewhile(lambda closed: not is_overfit(closed), accepted_rounds(history)))


def is_overfit(closed: RoundClosed) -> bool:
    """Whether the round rests on a bucket that only a benchmark's repeated tensors can serve."""
    return closed.bucket in FORBIDDEN_BUCKETS


def accepted_rounds(history: History) -> tuple[RoundClosed, ...]:
    """Every round whose verdict was to keep it, oldest first."""
    return tuple(closed for closed in history.rounds if closed.accepted)


def latest_question(history: History) -> tuple[RoundClosed, ...]:
    """What was closed together last: one round, or those tried side by side, with a person's edits of them."""
    start = next((closed.beside for closed in reversed(history.rounds) if not closed.author), 0)
    return tuple(closed for closed in history.rounds if closed.beside >= start)


def count_planned_rounds(history: History) -> int:
    """Rounds that the planner proposed: those that a limit of rounds counts. People's edits are not among them."""
    return sum(not closed.author for closed in history.rounds)


def rolled_back_rounds(history: History) -> tuple[RoundClosed, ...]:
    """Rounds that were not kept, oldest first."""
    return tuple(closed for closed in history.rounds if not closed.accepted)


def total_cost(history: History) -> Cost:
    """Everything the campaign has cost so far. Dollars are None as soon as one price is unknown."""
    ends = [body for body in (history.baseline, history.concluded) if body is not None]
    restarts = sum((restart.cost for restart in history.restarts), Cost())
    return sum((body.cost for body in (*ends, *history.rounds, *history.reviews, *history.calibrations)), restarts)


def _require_baseline(history: History) -> BaselineClosed:
    if history.baseline is None:
        raise ValueError("there is no best version before the baseline is closed")
    return history.baseline


def _original_us(history: History) -> tuple[Named, ...]:
    """Times of one call of the original: of its own runs, and of pairs in which it was the best version."""
    timed = (find(closed.judged, Timed) for closed in history.rounds)
    pairs = [item for stage in timed if stage for item in stage.evidence if isinstance(item, Comparison)]
    pairs += [run.comparison for run in history.calibrations if run.comparison is not None]
    pairs_with_original = [pair for pair in pairs if pair.best == history.opened.base_commit]
    times = best_times((_require_baseline(history).quick,), pairs_with_original, history.contract)
    return tuple(Named(name=call.label, value=call.time_us) for call in times)


def commit_of(best: RoundClosed) -> str:
    """The commit on the campaign's branch, or the candidate's own where nothing is committed to a branch."""
    if best.commit is not None:
        return best.commit
    if best.judged.formatted is not None:
        return best.judged.formatted.applied.commit
    applied = find(best.judged, Applied)
    assert applied is not None
    return applied.commit


def _at_direction_end(history: History, best: RoundClosed | None) -> Benchmark | None:
    """The full run of the best version that a stagnation review asked for, if one did."""
    full = [review.full for review in history.reviews if review.full is not None]
    commit = commit_of(best) if best else history.opened.base_commit
    return next((run for run in reversed(full) if run.commit == commit), None)


def _quick_runs(evidence: Sequence[object], commit: str) -> tuple[Benchmark, ...]:
    return tuple(
        run for run in evidence if isinstance(run, Benchmark) and run.commit == commit and run.source == "quick"
    )
