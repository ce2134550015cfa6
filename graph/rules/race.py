"""Candidates tried side by side against one best version: whose turn it is to be timed, who is out, which one is kept.

Each is timed once, then the one with the greatest estimate goes on until its bounds decide, and only those that may
still be faster than it are timed further. What is kept must be proven against the best version as in any round, at the
shared error rate; being outpaced only ends measuring.
"""

from collections.abc import Mapping, Sequence

from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.acceptance import choose_measurement
from ridgeline.graph.rules.gates import is_usable
from ridgeline.graph.rules.outcome import describe_measured
from ridgeline.graph.rules.readings import sort_readings
from ridgeline.graph.standing import BenchmarkWant, CompareWant, Standing
from ridgeline.graph.stats.sequential import Estimate, decide_from_pairs, estimate_gain, is_outpaced
from ridgeline.graph.trial import Failed, Judged, Stage, Timed, Verified, find, find_proposal

OUT = frozenset({"not_better", "lost", "unpromising"})
"""What pairs say of a candidate that will not be kept, whatever the others do."""


def choose_turn(
    contestants: Sequence[Stage], standing: Standing, limits: Limits
) -> tuple[int, BenchmarkWant | CompareWant] | None:
    """The rule of a round with several candidates: which is measured next, and how; None when all that are left can be judged.

    One alone is measured as in any round. Raises MixedEvidence as `choose_measurement` does.
    """
    wants = {
        place: want
        for place, trial in enumerate(contestants)
        if isinstance(trial, Verified | Timed) and (want := choose_measurement(trial, standing, limits)) is not None
    }
    if len(contestants) == 1 or not wants:
        return next(iter(wants.items()), None)
    estimates = _estimate_all(contestants, standing, limits)
    for place, want in wants.items():
        if place not in estimates:  # screening: each is timed once before any is confirmed
            return place, want
    outpaced = _find_outpaced(estimates, limits)
    places = [place for place in wants if place not in outpaced]
    fastest = max(places, key=lambda place: estimates[place].theta, default=None)
    return None if fastest is None else (fastest, wants[fastest])


def list_promising(contestants: Sequence[Stage], standing: Standing, limits: Limits) -> frozenset[int]:
    """The rule of a round with several candidates: places of those worth a profile: that may be kept, and the fastest."""
    if len(contestants) == 1:
        return frozenset({0})
    estimates = _estimate_all(contestants, standing, limits)
    faster = {place for place, estimate in estimates.items() if decide_from_pairs(estimate, limits) == "faster"}
    fastest = max(estimates, key=lambda place: estimates[place].theta, default=None)
    return frozenset(faster if fastest is None else {*faster, fastest})


def choose_kept(judged: Sequence[Judged]) -> int:
    """The rule of a round with several candidates: the place of the one that is kept: of those that may be, the greatest gain.

    Where none may be kept, the one that was measured fastest stands for the round, or the first.
    """
    accepted = [place for place, option in enumerate(judged) if option.verdict.accepted]
    if accepted:
        return max(accepted, key=lambda place: judged[place].verdict.proven_gain)
    measured = {place: gain for place, option in enumerate(judged) if (gain := option.verdict.gain) is not None}
    return max(measured, key=lambda place: measured[place], default=0)


def mark_all_outpaced(judged: Sequence[Judged], standing: Standing, limits: Limits) -> tuple[Judged, ...]:
    """Rule of a round with several candidates: marks judged ones whose measuring a faster one ended: they settle nothing."""
    if len(judged) == 1:
        return tuple(judged)
    outpaced = _find_outpaced(_estimate_all([option.trial for option in judged], standing, limits), limits)
    return tuple(
        mark_outpaced(option, judged[outpaced[place]])
        if place in outpaced and option.verdict.reason == "undecided"
        else option
        for place, option in enumerate(judged)
    )


def mark_outpaced(measured: Judged, by: Judged) -> Judged:
    """Rule of a round with several candidates: one that another was faster than keeps its measured result, and names the other."""
    before, start, other = measured.verdict, find_proposal(measured), find_proposal(by).round
    why = f"outpaced by round {other}, which measured {describe_measured(by.verdict)} beside it"
    text = f"Round {start.round}: ROLLED BACK - {start.hypothesis.change} measured {describe_measured(before)}, {why}"
    update = {"decision": "rolled_back", "reason": "outpaced", "notes": (*before.notes, why), "sentence": text}
    return measured.model_copy(update={"verdict": before.model_copy(update=update)})


def _estimate_all(contestants: Sequence[Stage], standing: Standing, limits: Limits) -> dict[int, Estimate]:
    """In a round with several candidates: what the pairs so far say of each that has any and may yet be kept."""
    estimates: dict[int, Estimate] = {}
    for place, trial in enumerate(contestants):
        timed = None if isinstance(trial, Failed) else find(trial, Timed)
        if timed is None:
            continue
        readings = sort_readings(timed, standing, limits)
        if readings.comparisons and is_usable(readings, standing):
            estimates[place] = estimate_gain(readings.comparisons, standing.noise, limits, sharing=timed.sharing)
    return estimates


def _find_outpaced(estimates: Mapping[int, Estimate], limits: Limits) -> dict[int, int]:
    """In a round with several candidates: place -> the fastest one's, of those slower than it for sure enough to stop timing."""
    running = {
        place: estimate for place, estimate in estimates.items() if decide_from_pairs(estimate, limits) not in OUT
    }
    if not running:
        return {}
    leader = max(running, key=lambda place: running[place].theta)
    return {place: leader for place in running if is_outpaced(running[place], running[leader], limits)}
