"""Calibrate, then pair after pair, with a look after each, until the bounds decide or something else ends it."""

import time
from collections.abc import Callable
from typing import Literal, Protocol

from ridgeline.agent.bench.asked import Asked
from ridgeline.agent.bench.lab import Lab
from ridgeline.graph.evidence import BenchmarkFailed, Comparison
from ridgeline.graph.limits import Limits
from ridgeline.graph.noise import Noise
from ridgeline.graph.policy.noise import noise_of
from ridgeline.graph.policy.sequential import LEAST_PAIRS, Estimate, estimate
from ridgeline.graph.values import Value

Verdict = Literal["faster", "not_faster", "undecided"]
Ended = Literal["decided", "pairs", "time", "unstable", "interrupted"]
"""decided: the bounds did; pairs, time: as many as were allowed were spent; unstable: the machine disturbed one pair
after the other; interrupted: somebody stopped it."""
LOST_IN_A_ROW = 10
"""Pairs, each tried several times, that the machine disturbed: then waiting for it to calm down is not our business."""
CALIBRATION_SHARE = 1 / 3
"""Of the time: noise known better decides sooner, and what is left must hold the pairs that decide."""


class Found(Value):
    """Everything that was measured, and how it ended."""

    calibration: Comparison | None
    noise: Noise | None
    uncalibrated: str = ""
    """Why there is no calibration although one was asked for."""
    pairs: tuple[Comparison, ...]
    looks: tuple[Estimate, ...]
    """After each pair."""
    lost: tuple[BenchmarkFailed, ...]
    """Pairs that the machine disturbed at every try; who was faster in them had no say in that."""
    ended: Ended
    seconds: float

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.looks[-1]) if self.looks else "undecided"


class Watch(Protocol):
    """Who looks on; nothing decides by it. Times in seconds."""

    def say(self, text: str) -> None:
        """What is done now."""
        ...

    def calibrated(self, noise: Noise | None, limits: Limits) -> None:
        """Identical versions have been timed."""
        ...

    def looked(self, pair: Comparison, seen: Estimate, *, left_s: float) -> None:
        """A pair was timed and looked at."""
        ...

    def close(self) -> None:
        """Give the terminal back; may be called twice."""
        ...


def verdict_of(seen: Estimate) -> Verdict:
    """Only the bounds decide, and they hold at every look together. One pair alone makes nobody faster."""
    if seen.lower > seen.required and seen.pairs >= LEAST_PAIRS:
        return "faster"
    return "not_faster" if seen.upper < seen.required else "undecided"


class Course:
    """One comparison. Ctrl-C ends it with what is known by then."""

    def __init__(self, lab: Lab, asked: Asked, watch: Watch, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lab, self._asked, self._watch, self._clock = lab, asked, watch, clock
        self._began = clock()
        self._calibration: Comparison | None = None
        self._noise: Noise | None = None
        self._uncalibrated = ""
        self._pairs: list[Comparison] = []
        self._lost: list[BenchmarkFailed] = []
        self._looks: list[Estimate] = []

    def run(self) -> Found:
        """Raises what the lab raises, and MixedEvidence for numbers that may not be compared."""
        try:
            self._lab.prepare(self._watch.say)
            self._calibrate()
            ended = self._compare()
        except KeyboardInterrupt:
            ended = "interrupted"
        return Found(
            calibration=self._calibration,
            noise=self._noise,
            uncalibrated=self._uncalibrated,
            pairs=tuple(self._pairs),
            looks=tuple(self._looks),
            lost=tuple(self._lost),
            ended=ended,
            seconds=self._clock() - self._began,
        )

    def _calibrate(self) -> None:
        wanted = self._asked.calibration_pairs
        if wanted == 0:
            return
        self._watch.say(f"timing A against itself: up to {wanted} pairs")
        timed = self._lab.calibrate(
            pairs=wanted,
            budget_s=CALIBRATION_SHARE * self._asked.max_seconds,
            tell=lambda done: self._watch.say(f"A against itself: {done} of {wanted} pairs"),
        )
        if isinstance(timed, BenchmarkFailed):
            self._uncalibrated = timed.detail
            self._watch.say(f"no calibration: {timed.detail}")
            return
        self._calibration, self._noise = timed, noise_of([timed])
        self._watch.calibrated(self._noise, self._asked.limits)

    def _compare(self) -> Ended:
        self._watch.say("timing A against B")
        lost = 0
        while len(self._pairs) < self._asked.max_pairs:
            if self._expected_s() > self._left_s():
                return "time"
            pair = self._lab.pair(len(self._pairs) + len(self._lost))
            if isinstance(pair, BenchmarkFailed):
                self._watch.say(f"a pair is left out: {pair.detail}")
                self._lost.append(pair)
                lost += 1
                if lost == LOST_IN_A_ROW:
                    return "unstable"
                continue
            lost = 0
            seen = estimate((*self._pairs, pair), self._noise, self._asked.limits)
            self._pairs.append(pair)
            self._looks.append(seen)
            self._watch.looked(pair, seen, left_s=max(0.0, self._left_s()))
            if verdict_of(seen) != "undecided":
                return "decided"
        return "pairs"

    def _left_s(self) -> float:
        return self._asked.max_seconds - (self._clock() - self._began)

    def _expected_s(self) -> float:
        """What one more pair takes, by those before it; a pair that would not fit is not begun."""
        if self._pairs:
            return sum(pair.seconds for pair in self._pairs) / len(self._pairs)
        return self._noise.seconds_per_pair if self._noise else 0.0
