"""Calibrate, then pair after pair, with a look after each, until the bounds decide or something else ends it."""

import math
import time
from collections.abc import Callable
from typing import Literal, Protocol

from ridgeline.agent.bench.laboratory import About, Lab
from ridgeline.agent.bench.request import BenchSettings
from ridgeline.graph.errors import DiskFull
from ridgeline.graph.evidence import BenchmarkFailed, Comparison
from ridgeline.graph.limits import Limits
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.stats.paired import merge_comparisons
from ridgeline.graph.stats.sequential import LEAST_PAIRS, Estimate, estimate_gain, smallest_visible_gain
from ridgeline.graph.values import SCHEMA, Engine, Value

Verdict = Literal["faster", "not_faster", "undecided"]
Relation = Literal["slower", "equal", "faster", "undecided"]
"""What `not_faster` leaves open: slower by more than a margin, or as fast to within it."""
Ended = Literal["decided", "pairs", "time", "unstable", "interrupted", "disk"]
"""decided: the bounds did; pairs, time: as many as were allowed were spent; unstable: the machine disturbed one pair
after the other; interrupted: somebody stopped it; disk: there was no room for another pair."""
LOST_IN_A_ROW = 10
"""Pairs, each tried several times, that the machine disturbed: then waiting for it to calm down is not our business."""
CALIBRATION_SHARE = 1 / 3
"""Of the time: noise known better decides sooner, and what is left must hold the pairs that decide."""


class CourseOutcome(Value):
    """Everything that was measured, and how it ended."""

    calibration: Comparison | None
    noise: Noise | None
    uncalibrated: str = ""
    """Why there is no calibration although one was asked for."""
    pairs: tuple[Comparison, ...]
    looks: tuple[Estimate, ...]
    """After each pair."""
    failures: tuple[BenchmarkFailed, ...]
    """Pairs that the machine disturbed at every try; who was faster in them had no say in that."""
    ended: Ended
    seconds: float

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.looks[-1]) if self.looks else "undecided"


class Watch(Protocol):
    """Who looks on; nothing decides by it. Times in seconds."""

    def say(self, text: str) -> None:
        """Show the user of `bench` what is done now."""
        ...

    def show_calibration(self, noise: Noise | None, limits: Limits) -> None:
        """Show the user of `bench` that identical versions have been timed."""
        ...

    def show_pair(self, pair: Comparison, estimate: Estimate, *, left_s: float) -> None:
        """Show the user of `bench` a pair that was timed and looked at."""
        ...

    def close(self) -> None:
        """Give back the terminal that `bench` shows its pairs on; may be called twice."""
        ...


def verdict_of(estimate: Estimate) -> Verdict:
    """A or B is faster, or neither: only the bounds decide, and they hold at every look. One pair alone decides nothing."""
    if estimate.pairs < LEAST_PAIRS:
        return "undecided"
    if estimate.lower > estimate.required:
        return "faster"
    return "not_faster" if estimate.upper < estimate.required else "undecided"


def loss_of(estimate: Estimate, settings: BenchSettings) -> float:
    """Log-ratio by which B must be slower for sure: the margin, and what favours one side of identical versions here."""
    allowance = estimate.required - math.log1p(settings.limits.margin)
    return math.log1p(settings.relation_margin) + allowance


def relation_of(estimate: Estimate, settings: BenchSettings) -> Relation:
    """B against A by the mean over shapes. Slower: by more than the margin. Equal: to within the margin both ways.

    By bounds that hold at every look together; one pair alone decides nothing.
    """
    if estimate.pairs < LEAST_PAIRS:
        return "undecided"
    loss = loss_of(estimate, settings)
    if estimate.upper < -loss:
        return "slower"
    if estimate.lower > estimate.required:
        return "faster"
    return "equal" if -loss < estimate.lower and estimate.upper < loss else "undecided"


class Course:
    """One comparison. Ctrl-C ends it with what is known by then.

    `is_settled`: whether nothing is left to ask of a look; by default whether the verdict is known.
    """

    def __init__(
        self,
        lab: Lab,
        request: BenchSettings,
        watch: Watch,
        *,
        clock: Callable[[], float] = time.monotonic,
        is_settled: Callable[[Estimate], bool] | None = None,
    ) -> None:
        self._lab, self._request, self._watch, self._clock = lab, request, watch, clock
        self._is_settled = is_settled or (lambda estimate: verdict_of(estimate) != "undecided")
        self._began = clock()
        self._calibration: Comparison | None = None
        self._noise: Noise | None = None
        self._uncalibrated = ""
        self._pairs: list[Comparison] = []
        self._failures: list[BenchmarkFailed] = []
        self._looks: list[Estimate] = []

    def run(self) -> CourseOutcome:
        """Calibrate and time pairs of A and B until the bounds decide. Raises what the lab raises, and MixedEvidence."""
        try:
            self._lab.prepare(self._watch.say)
            self._calibrate()
            ended = self._compare()
        except KeyboardInterrupt:
            ended = "interrupted"
        return CourseOutcome(
            calibration=self._calibration,
            noise=self._noise,
            uncalibrated=self._uncalibrated,
            pairs=tuple(self._pairs),
            looks=tuple(self._looks),
            failures=tuple(self._failures),
            ended=ended,
            seconds=self._clock() - self._began,
        )

    def _calibrate(self) -> None:
        pairs = self._request.calibration_pairs
        if pairs == 0:
            return
        self._watch.say(f"timing A against itself: up to {pairs} pairs")
        timed = self._lab.calibrate(
            pairs=pairs,
            budget_s=CALIBRATION_SHARE * self._request.max_seconds,
            tell=lambda count: self._watch.say(f"A against itself: {count} of {pairs} pairs"),
        )
        if isinstance(timed, BenchmarkFailed):
            self._uncalibrated = timed.detail
            self._watch.say(f"no calibration: {timed.detail}")
            return
        self._calibration, self._noise = timed, estimate_noise([timed])
        self._watch.show_calibration(self._noise, self._request.limits)

    def _compare(self) -> Ended:
        self._watch.say("timing A against B")
        failures_in_a_row = 0
        while len(self._pairs) < self._request.max_pairs:
            if self._expected_s() > self._left_s():
                return "time"
            try:
                pair = self._lab.pair(len(self._pairs) + len(self._failures))
            except DiskFull as error:
                if not self._pairs:
                    raise
                self._watch.say(f"no more pairs: {error}")
                return "disk"
            if isinstance(pair, BenchmarkFailed):
                self._watch.say(f"a pair is left out: {pair.detail}")
                self._failures.append(pair)
                failures_in_a_row += 1
                if failures_in_a_row == LOST_IN_A_ROW:
                    return "unstable"
                continue
            failures_in_a_row = 0
            estimate = estimate_gain((*self._pairs, pair), self._noise, self._request.limits)
            self._pairs.append(pair)
            self._looks.append(estimate)
            self._watch.show_pair(pair, estimate, left_s=max(0.0, self._left_s()))
            if self._is_settled(estimate):
                return "decided"
        return "pairs"

    def _left_s(self) -> float:
        """Seconds until the time that `bench` was allowed is over."""
        return self._request.max_seconds - (self._clock() - self._began)

    def _expected_s(self) -> float:
        """What one more pair of A and B takes, by those before it; a pair that would not fit is not begun."""
        if self._pairs:
            return sum(pair.seconds for pair in self._pairs) / len(self._pairs)
        return self._noise.seconds_per_pair if self._noise else 0.0


# The answer: numbers for a program, one sentence for a person.


class ShapeAnswer(Value):
    """One shape; ratios are t_A / t_B, bounds hold for all shapes together."""

    label: str
    a: float
    """Median of A: microseconds per call or process, or the commands' own number."""
    b: float
    ratio: float
    lower: float | None
    upper: float | None
    slower: bool
    """B is slower here than the shape guard allows, with confidence."""


class Calibration(Value):
    """A against itself. Shares: 0.01 is one per cent."""

    pairs: int
    sd: float
    """Standard deviation of one pair."""
    offset: float
    """How much A seems faster than itself; the truth is 0."""
    allowance: float
    """Added to the margin, where luck alone does not explain the offset."""
    smallest_visible_gain: float
    """Found nine times in ten within the pairs that were allowed."""
    seconds: float


Passing = Literal["passed", "failed", "undecided"]


class Expected(Value):
    """What was stored of this machine, and what this comparison says of it. Ratios t_A / t_B."""

    file: str
    outcome: Passing
    """undecided also where the file says nothing of this machine: what another one showed is never compared."""
    sentence: str
    ratio: float | None = None
    lower: float | None = None
    upper: float | None = None


class Gate(Value):
    """Whether a build may go on: failed where B is slower for sure, passed where it is surely not, else undecided."""

    margin: float
    outcome: Passing
    exit_code: int
    sentence: str
    mean: Passing | None
    """What the mean over shapes says of --fail-on; None where only an expectation was to hold."""
    slow_shapes: tuple[str, ...] = ()
    """Slower for sure by more than the margin, where there are several shapes."""
    expected: Expected | None = None


class Answer(Value):
    """What `ridgeline bench --json` prints."""

    schema_version: int = SCHEMA
    verdict: Verdict
    relation: Relation
    """Of B to A, where `verdict` is `not_faster`: slower or equal; to within the margin of --fail-on, else --margin."""
    sentence: str
    ratio: float | None
    """t_A / t_B, mean over shapes and pairs: above 1, B is faster. None before the first pair."""
    lower: float | None
    """Holds at `alpha` at every look together; None while nothing bounds it."""
    upper: float | None
    pairs: int
    alpha: float
    margin: float
    required: float | None
    """What `lower` must exceed, as a ratio: the margin, and the calibration's allowance."""
    sigma: float | None
    """Standard deviation that one pair is taken to have, as a share; None before the second pair of any kind."""
    engine: Engine
    a: str
    b: str
    machine: str
    fingerprint: str
    """Of the machine: changes when its numbers stop being comparable."""
    unit: str
    """Of the shapes' `a` and `b`: `us`, or empty for numbers in a unit of the commands' own."""
    shapes: tuple[ShapeAnswer, ...]
    calibration: Calibration | None
    blocks: int
    """ABBA blocks in one pair."""
    dropped_blocks: int
    """Left out on both sides together, because the machine and not a version disturbed them."""
    lost_pairs: int
    """Left out whole, for the same reason."""
    ended: Ended
    seconds: float
    seed: int
    notes: tuple[str, ...]
    gate: Gate | None = None
    """What --fail-on and --expect found; None where nothing was to fail."""
    plot: str | None = None
    raw: str | None = None
    unwritten: tuple[str, ...] = ()
    """Files that were asked for and could not be written, a line each with why."""


def answer(outcome: CourseOutcome, about: About, request: BenchSettings) -> Answer:
    """The comparison's result as `bench` prints it: claim, bounds, shapes, calibration and notes."""
    estimate = outcome.looks[-1] if outcome.looks else None
    shapes = _shapes(outcome, about)
    return Answer(
        verdict=outcome.verdict,
        relation=relation_of(estimate, request) if estimate else "undecided",
        sentence=sentence(outcome, about, request),
        ratio=math.exp(estimate.theta) if estimate else None,
        lower=_ratio(estimate.lower) if estimate else None,
        upper=_ratio(estimate.upper) if estimate else None,
        pairs=len(outcome.pairs),
        alpha=request.limits.alpha,
        margin=request.limits.margin,
        required=math.exp(estimate.required) if estimate else None,
        sigma=(estimate.sd or None) if estimate else outcome.noise.sd if outcome.noise else None,
        engine=about.engine,
        a=about.a,
        b=about.b,
        machine=about.machine,
        fingerprint=about.fingerprint,
        unit=about.unit,
        shapes=shapes,
        calibration=_calibration(outcome.noise, outcome, request),
        blocks=request.blocks,
        dropped_blocks=sum(pair.dropped_blocks for pair in outcome.pairs),
        lost_pairs=len(outcome.failures),
        ended=outcome.ended,
        seconds=outcome.seconds,
        seed=request.seed,
        notes=_notes(outcome, about),
    )


UNSEEN: dict[Engine, str] = {
    "cpu": ": processor time, in which sleeping, waiting, threads that overlap and devices do not show"
}
"""What a number of that engine leaves out, so that nobody quotes it for the time that somebody waits."""


def sentence(outcome: CourseOutcome, about: About, request: BenchSettings) -> str:
    """The comparison of A and B in one sentence to quote: what is claimed, how surely, and what it rests on."""
    if not outcome.looks:
        return f"Undecided: {_why(outcome)} before one pair was timed."
    estimate = outcome.looks[-1]
    surely = f"at alpha {percent(request.limits.alpha)}"
    rests = f"{_basis(outcome)}, engine {about.engine}{UNSEEN.get(about.engine, '')}"
    within = f"between {_bound(estimate.lower)} and {_bound(estimate.upper)}"
    match outcome.verdict:
        case "faster":
            claim = f"B is faster than A by {percent(_gain(estimate.theta))} (at least {percent(_gain(estimate.lower))} {surely}"
        case "not_faster" if estimate.upper < 0:
            claim = f"B is slower than A by {percent(-_gain(estimate.theta))} (at least {percent(-_gain(estimate.upper))} {surely}"
        case "not_faster" | "undecided" if request.slower_margin and relation_of(estimate, request) == "equal":
            claim = f"B is as fast as A to within {percent(request.slower_margin)} ({within} {surely}"
        case "not_faster":
            least = percent(_gain(estimate.required))
            claim = f"B is not faster than A by {least} or more (at most {format_signed_percent(_gain(estimate.upper))} {surely}"
        case "undecided":
            claim = (
                f"Undecided, {_why(outcome)}: B against A is {format_signed_percent(_gain(estimate.theta))},"
                f" {within}, and more than {percent(_gain(estimate.required))} is asked for ({surely[3:]}"
            )
    slower = [shape.label for shape in estimate.shapes if shape.slower] if len(estimate.shapes) > 1 else []
    but = f", but slower on {', '.join(slower)}" if slower and estimate.upper >= 0 else ""
    return f"{claim}; {rests}){but}."


def percent(share: float) -> str:
    """A share such as 0.031 as `3.1 %`, with more digits where it is small."""
    value = abs(100 * share)
    digits = 0 if value >= 99.95 else 1 if value >= 0.995 else 2
    text = f"{100 * share:.{digits}f}"
    short_text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{'0' if short_text in ('-0', '') else short_text} %"


def format_signed_percent(share: float) -> str:
    """For `bench`: a share such as 0.031 as `+3.1 %`."""
    return percent(share) if share < 0 else f"+{percent(share)}"


def _basis(outcome: CourseOutcome) -> str:
    """What a comparison's claim rests on, in words: process pairs, and the noise of a pair as a share."""
    pairs = f"{len(outcome.pairs)} process pair{'s' if len(outcome.pairs) > 1 else ''}"
    if outcome.noise:
        return f"{pairs}, noise {percent(outcome.noise.sd)} a pair measured on identical versions"
    sd = outcome.looks[-1].sd
    return f"{pairs}, noise {percent(sd)} a pair by their own scatter" if sd else f"{pairs}, noise not known"


def _why(outcome: CourseOutcome) -> str:
    """Why a comparison ended undecided, in words."""
    match outcome.ended:
        case "interrupted":
            return "interrupted"
        case "time":
            return "the time was over"
        case "disk":
            return "there was no room on the disk for more"
        case "unstable":
            return "the machine did not stay the same"
        case "pairs" | "decided":
            return f"{len(outcome.pairs)} pairs do not settle it"


def _shapes(outcome: CourseOutcome, about: About) -> tuple[ShapeAnswer, ...]:
    """Rows of a comparison: times, ratios t_A / t_B and bounds of each shape; empty before the first pair."""
    if not outcome.looks:
        return ()
    times = {shape.label: shape for shape in merge_comparisons(outcome.pairs).shapes}
    return tuple(
        ShapeAnswer(
            label=estimate.label,
            a=display_cost(times[estimate.label].best_us, about),
            b=display_cost(times[estimate.label].candidate_us, about),
            ratio=math.exp(estimate.theta),
            lower=_ratio(estimate.lower),
            upper=_ratio(estimate.upper),
            slower=estimate.slower,
        )
        for estimate in outcome.looks[-1].shapes
    )


def _calibration(noise: Noise | None, outcome: CourseOutcome, request: BenchSettings) -> Calibration | None:
    """The result of timing A against itself, as shares; None where it was not timed."""
    if noise is None or outcome.calibration is None:
        return None
    return Calibration(
        pairs=noise.pairs,
        sd=noise.sd,
        offset=math.expm1(noise.offset),
        allowance=math.expm1(noise.allowance),
        smallest_visible_gain=smallest_visible_gain(noise, request.limits),
        seconds=outcome.calibration.seconds,
    )


def _notes(outcome: CourseOutcome, about: About) -> tuple[str, ...]:
    """What a reader of a comparison's numbers must know, each line once."""
    notes = [*about.notes]
    if outcome.noise is None:
        why = f" ({outcome.uncalibrated})" if outcome.uncalibrated else ""
        notes.append(f"identical versions were not timed{why}: the pairs are judged by their own scatter alone")
    elif outcome.noise.allowance:
        notes.append(
            f"identical versions differ by {format_signed_percent(math.expm1(outcome.noise.offset))} systematically here:"
            f" {percent(math.expm1(outcome.noise.allowance))} is added to the margin"
        )
    if outcome.calibration:
        notes += [f"A against itself: {note}" for note in outcome.calibration.notes]
    notes += [note for pair in outcome.pairs for note in pair.notes]
    if outcome.failures:
        pairs = "1 pair was" if len(outcome.failures) == 1 else f"{len(outcome.failures)} pairs were"
        notes.append(f"{pairs} left out: {outcome.failures[-1].detail}")
    if outcome.looks:
        notes += [_slower(shape) for shape in _slow(outcome.looks[-1])]
    return tuple(dict.fromkeys(notes))


def _slow(estimate: Estimate) -> list[tuple[str, float]]:
    return [(shape.label, shape.upper) for shape in estimate.shapes if shape.slower] if len(estimate.shapes) > 1 else []


def _slower(shape: tuple[str, float]) -> str:
    return f"shape {shape[0]} is slower by at least {percent(-_gain(shape[1]))}"


def display_cost(cost: float, about: About) -> float:
    return 1 / cost if about.inverted else cost


def _gain(log_ratio: float) -> float:
    return math.expm1(log_ratio)


def _ratio(log_ratio: float) -> float | None:
    return math.exp(log_ratio) if math.isfinite(log_ratio) else None


def _bound(log_ratio: float) -> str:
    return format_signed_percent(_gain(log_ratio)) if math.isfinite(log_ratio) else "anything"
