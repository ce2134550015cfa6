"""What earlier rounds teach, in a space that does not grow with their number."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ridgeline.agent.planner.checks import NO_DIRECTION, is_same_direction
from ridgeline.agent.planner.conversation import Count, bound_text, clip_line
from ridgeline.agent.planner.measurements import changes, foreseen, times_by_label
from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import BenchmarkFailed
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.rules.score import weighted_geomean
from ridgeline.graph.trial import Failed, Judged, Timed, find, find_proposal
from ridgeline.graph.values import Hypothesis

LAST = 3
"""Rounds that are told in full."""
KEPT = 5
"""Accepted rounds that are told with their gain."""
MOST_EXPLAINED, LEAST_EXPLAINED = 6, 2
"""Failed directions that are told with their cause; the others by their name."""
NAMES_STEP = 5
WORDS, WHOLE = 300, 1100
"""Characters of a reflection's parts: of earlier rounds, and of the last one, which is told as it was written."""
LOST = 6
"""Directions that are told of those that could not be measured."""
SHAPES = 8
"""Shapes of a round that are told."""
LEAD = 0.02
"""How far ahead at a shape a version is told to be: well above what two runs of one version differ by."""


def hypothesis_of(closed: RoundClosed) -> Hypothesis:
    """The hypothesis that a closed round was about."""
    return find_proposal(closed.judged).hypothesis


def describe_shapes_of(about: Hypothesis) -> str:
    """The shapes that a hypothesis is for, as a prompt names them."""
    return "all shapes" if about.target_class == "global" else f"the shapes of class {about.target_class}"


def lineage(rounds: Sequence[RoundClosed], *, tokens: int, count: Count) -> str:
    """Accepted rounds for the prompt, newest first: what the best version is made of."""
    accepted_rounds = [closed for closed in reversed(rounds) if closed.accepted]
    lines = [
        f"round {closed.round}: {clip_line(hypothesis_of(closed).change, 120)}{_gain(closed)}"
        for closed in accepted_rounds[:KEPT]
    ]
    if rest := accepted_rounds[KEPT:]:
        lines.append(f"and {len(rest)} before them, the first in round {rest[-1].round}: they are in the sources")
    return bound_text("\n".join(lines), tokens=tokens, count=count)


def ineffective(rounds: Sequence[RoundClosed], *, tokens: int, count: Count) -> str:
    """Failed directions: all by category and name, so that none is proposed again; the newest with their cause."""
    failed = [closed for closed in reversed(rounds) if _was_refuted(closed)]
    for explained in range(min(MOST_EXPLAINED, len(failed)), LEAST_EXPLAINED - 1, -1):
        text = "\n".join([*map(_why, failed[:explained]), *_name_categories(failed[explained:])])
        if count(text) <= tokens:
            return text
    newest = failed[:LEAST_EXPLAINED]
    for names in range(len(failed), LEAST_EXPLAINED, -NAMES_STEP):
        gone = f"and {len(failed) - names} older ones"
        text = "\n".join([*map(_why, newest), *_name_categories(failed[LEAST_EXPLAINED:names]), gone])
        if count(text) <= tokens:
            return text
    return bound_text("\n".join(map(_why, newest)), tokens=tokens, count=count)


def describe_unmeasured(rounds: Sequence[RoundClosed], *, tokens: int, count: Count) -> str:
    """For the prompt: directions that the machine gave no numbers for: nothing is known of them, so they may come again."""
    disturbed_rounds = [closed for closed in reversed(rounds) if not closed.accepted and was_disturbed(closed.judged)]
    lines = [
        f"{hypothesis_of(closed).id} (round {closed.round}): {clip_line(hypothesis_of(closed).change, 100)}"
        for closed in disturbed_rounds
    ]
    return bound_text("\n".join(lines[:LOST]), tokens=tokens, count=count) if lines else ""


def describe_outpaced(
    rounds: Sequence[RoundClosed], *, best_round: int, scoring: Scoring, tokens: int, count: Count
) -> str:
    """For the prompt: directions that were timed beside a faster one and not tried since: they may help on top of it.

    With the shapes at which one is ahead of the best version, and what that version would gain with each of them at its fastest.
    """
    leads = find_leads(rounds, best_round)
    ahead = {lead.closed.round: f"; {lead.text}" for lead in leads}
    lines = [
        f"{hypothesis_of(closed).id} (round {closed.round}): {clip_line(hypothesis_of(closed).change, 100)}{_gain(closed)}"
        f"{ahead.get(closed.round, '')}"
        for place, closed in reversed(list(enumerate(rounds)))
        if closed.judged.verdict.reason == "outpaced"
        and not any(is_same_direction(hypothesis_of(closed), hypothesis_of(later)) for later in rounds[place + 1 :])
    ][:LOST]
    if lines and leads:
        joint = compute_joint_speedup(leads, scoring)
        lines.append(f"with each shape as fast as in the fastest of these: {joint:.3g}x the best version")
    return bound_text("\n".join(lines), tokens=tokens, count=count) if lines else ""


@dataclass(frozen=True)
class Lead:
    """A version that was outpaced over all shapes and is ahead of the one that outpaced it, which is still the best, at some."""

    closed: RoundClosed
    times_us: Mapping[str, tuple[float, float]]
    """Label, where it is ahead -> microseconds of one call of it, and of the best version, both in pairs with the version that the
    race began from."""
    speedups: Mapping[str, float]
    """Label of any shape -> how many times as fast as the best version it is, each against that common version."""

    @property
    def text(self) -> str:
        """For the prompt: those shapes, with both times."""
        shapes = [f"{label} ({own:.4g} against {best:.4g} us)" for label, (own, best) in self.times_us.items()]
        more = f" and {len(shapes) - SHAPES} more" if len(shapes) > SHAPES else ""
        return f"ahead of the best version at {', '.join(shapes[:SHAPES])}{more}"


def find_leads(rounds: Sequence[RoundClosed], best_round: int) -> tuple[Lead, ...]:
    """For the prompt: what was outpaced by the best version and is faster at some shapes by more than `LEAD`, the largest lead first."""
    winner = next((closed for closed in rounds if closed.round == best_round and closed.accepted), None)
    if winner is None:
        return ()
    best_times, leads = times_by_label(winner.judged), []
    for closed in rounds:
        if closed.judged.verdict.reason != "outpaced" or closed.beside != winner.beside:
            continue
        times = {label: pair for label, pair in times_by_label(closed.judged).items() if label in best_times}
        speedups = {
            label: (old / own) / (best_times[label][0] / best_times[label][1]) for label, (old, own) in times.items()
        }
        ahead = {
            label: (times[label][1], best_times[label][1]) for label, speedup in speedups.items() if speedup >= 1 + LEAD
        }
        if ahead:
            leads.append(Lead(closed, ahead, speedups))
    return tuple(sorted(leads, key=lambda lead: -math.prod(lead.speedups[label] for label in lead.times_us)))


def compute_joint_speedup(leads: Sequence[Lead], scoring: Scoring) -> float:
    """For the prompt: of a version that runs each shape as the fastest of a race did, over the best one; there is a lead."""
    fastest = {label: max(1.0, *(lead.speedups[label] for lead in leads)) for label in leads[0].speedups}
    return weighted_geomean([(speedup, scoring.shape_weights.get(label, 1.0)) for label, speedup in fastest.items()])


def was_disturbed(judged: Judged) -> bool:
    """Whether a round's candidate was right, and other work kept it from being measured: for the prompt's history."""
    if judged.verdict.reason != "benchmark_failed":
        return False  # pairs that were lost on the way were made up for
    timed = find(judged, Timed)
    failures = [failure for failure in timed.evidence if isinstance(failure, BenchmarkFailed)] if timed else []
    return bool(failures) and all(failure.reason == "unstable" for failure in failures)


def _was_refuted(closed: RoundClosed) -> bool:
    """Whether a round settled that its direction does not help, for the prompt's history."""
    if closed.accepted or closed.set_aside:
        return False
    return hypothesis_of(closed).lever != NO_DIRECTION and not was_disturbed(closed.judged)


def _why(closed: RoundClosed) -> str:
    """A failed direction in one line of the prompt: name, change, reason and cause."""
    about, reason = hypothesis_of(closed), closed.judged.verdict.reason.replace("_", " ")
    cause = clip_line(closed.reflection.root_cause, 120)
    return f"{about.id} (round {closed.round}): {clip_line(about.change, 100)}; {reason}; {cause}".rstrip("; ")


def _name_categories(failed: Sequence[RoundClosed]) -> list[str]:
    """One line of the prompt for each category."""
    order = sorted(failed, key=lambda closed: hypothesis_of(closed).category)
    return [
        f"also failed, {category}: {' '.join(dict.fromkeys(hypothesis_of(closed).id for closed in group))}"
        for category, group in groupby(order, key=lambda closed: hypothesis_of(closed).category)
    ]


def recent(rounds: Sequence[RoundClosed], scoring: Scoring, *, tokens: int, count: Count) -> str:
    """The last rounds in full for the prompt, oldest first."""
    latest = rounds[-LAST:]
    each = tokens // max(1, len(latest))
    newest = len(latest) - 1
    return "\n\n".join(
        bound_text(describe_round(closed, scoring, words=WHOLE if place == newest else WORDS), tokens=each, count=count)
        for place, closed in enumerate(latest)
    )


def describe_round(closed: RoundClosed, scoring: Scoring, *, words: int = WORDS) -> str:
    """One round for the prompt: what was expected, seen and learnt, each lesson in at most so many characters."""
    about, learnt = hypothesis_of(closed), closed.reflection
    lines = [
        f"round {closed.round} [{about.id}] {about.category}, for {describe_shapes_of(about)}",
        f"claim: {about.claim}",
        f"change: {about.change}",
        f"predicted: {prediction(about)}; seen: {foreseen(closed, scoring)}",
        f"verdict: {closed.judged.verdict.sentence}",
    ]
    if shapes := changes(closed.judged):
        more = f"; {len(shapes) - SHAPES} more left out" if len(shapes) > SHAPES else ""
        lines.append(f"by shape, timed side by side in that round: {'; '.join(shapes[:SHAPES])}{more}")
    if failed := find(closed.judged, Failed):
        lines.append(f"ended at: {failed.reason}: {clip_line(failed.detail, 400)}")
    taught = {
        "attribution": learnt.attribution,
        "root cause": learnt.root_cause,
        "next": learnt.next_direction,
        "lesson": learnt.lesson or "",
    }
    lines += [f"{name}: {clip_line(text, words)}" for name, text in taught.items() if text]
    return "\n".join(lines)


def explored_categories(rounds: Sequence[RoundClosed]) -> frozenset[str]:
    """Categories of optimization that rounds were really about, for the planner."""
    return frozenset(hypothesis_of(closed).category for closed in rounds if hypothesis_of(closed).lever != NO_DIRECTION)


def unusable_streak(rounds: Sequence[RoundClosed]) -> int:
    """How many of the last rounds in a row had no usable direction of the planner."""
    streak = 0
    for closed in reversed(rounds):
        if hypothesis_of(closed).lever != NO_DIRECTION:
            break
        streak += 1
    return streak


def _gain(closed: RoundClosed) -> str:
    """The measured gain of a round in percent for the prompt; empty where none was measured."""
    gain = closed.judged.verdict.gain
    return f", {gain:+.1%}" if gain is not None else ""


def prediction(about: Hypothesis) -> str:
    """What a round predicted, for the prompt: counter, direction, size and speedup, as far as they were."""
    forecast = about.prediction
    size = f", to {forecast.ratio:g} times what it was" if forecast.ratio else ""
    speed = f"; speedup {forecast.speedup:g}x" if forecast.speedup else ""
    return f"{forecast.counter} {forecast.direction}{size}{speed}"
