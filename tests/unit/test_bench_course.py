"""When a comparison ends and what it says: the statistics are real, only the timings and the clock are made up."""

import math
import random

import pytest

from ridgeline.agent.bench.comparison import Course, CourseOutcome, answer, format_signed_percent, percent
from ridgeline.agent.bench.display import SilentWatch
from ridgeline.agent.bench.laboratory import About
from ridgeline.agent.bench.request import BenchSettings
from ridgeline.graph.evidence import BenchmarkFailed, Comparison, MixedEvidence
from ridgeline.graph.limits import Limits
from tests.builders import make_comparison

ABOUT = About(a="cmd A", b="cmd B", engine="wall", machine="a processor", unit="us")


class MadeUp:
    """A lab whose pairs are drawn; every pair takes a second of its own clock."""

    def __init__(self, gain: float = 0.0, sd: float = 0.004, *, seed: int = 1, shapes: dict[str, float] | None = None):
        self.about = ABOUT
        self.now = 0.0
        self._draw = random.Random(seed)
        self._gain, self._sd = gain, sd
        self._shapes = shapes or {"all": 0.0}

    def prepare(self, say) -> None:
        say("preparing")

    def calibrate(self, *, pairs, budget_s, tell) -> Comparison | BenchmarkFailed:
        asked = min(pairs, max(2, int(budget_s)))
        return self._timed(asked, dict.fromkeys(self._shapes, 0.0), candidate="A")

    def pair(self, number) -> Comparison | BenchmarkFailed:
        return self._timed(1, {label: self._gain + extra for label, extra in self._shapes.items()}, candidate="B")

    def raw(self) -> dict[str, object]:
        return {}

    def _timed(self, pairs, gains, *, candidate) -> Comparison:
        self.now += pairs
        rows = {
            label: [[math.log1p(gain) + self._draw.gauss(0, self._sd)] for _ in range(pairs)]
            for label, gain in gains.items()
        }
        return make_comparison(rows, best="A", candidate=candidate, seconds=float(pairs))


class Disturbed(MadeUp):
    """Every pair is lost, or every one but each third."""

    def __init__(self, *, always: bool):
        super().__init__(gain=0.05)
        self._always, self._asked = always, 0

    def pair(self, number) -> Comparison | BenchmarkFailed:
        self._asked += 1
        if self._always or self._asked % 3:
            self.now += 1
            return BenchmarkFailed(commit="B", reason="unstable", detail="a neighbour", seconds=1.0)
        return super().pair(number)


class Interrupted(MadeUp):
    def pair(self, number) -> Comparison | BenchmarkFailed:
        if number == 3:
            raise KeyboardInterrupt
        return super().pair(number)


def asked(*, pairs: int = 30, seconds: float = 600.0, calibration: int = 16, **limits) -> BenchSettings:
    update = {"looks": tuple(range(1, pairs + 1)), **limits}
    return BenchSettings(
        limits=Limits().model_copy(update=update),
        blocks=1,
        max_pairs=pairs,
        max_seconds=seconds,
        calibration_pairs=calibration,
    )


def run(lab: MadeUp, wanted: BenchSettings) -> CourseOutcome:
    return Course(lab, wanted, SilentWatch(), clock=lambda: lab.now).run()


@pytest.mark.parametrize(
    ("gain", "verdict", "says"),
    [
        (0.03, "faster", "B is faster than A by 3"),
        (-0.03, "not_faster", "B is slower than A by"),
        (-0.0045, "not_faster", "B is not faster than A by 0.5 % or more (at most"),
        (0.005, "undecided", "Undecided, 30 pairs do not settle it"),
    ],
)
def test_the_verdict_follows_the_truth(gain, verdict, says):
    wanted = asked()
    found = run(MadeUp(gain, sd=0.006 if verdict == "not_faster" and gain > -0.01 else 0.004), wanted)
    said = answer(found, ABOUT, wanted)
    assert said.verdict == verdict, said.sentence
    assert said.sentence.startswith(says)
    assert said.sentence.endswith("engine wall).")
    assert (said.ended == "decided") == (verdict != "undecided")


@pytest.mark.parametrize("gain", [0.0, 0.005])
def test_what_is_not_faster_by_the_margin_is_hardly_ever_called_faster(gain):
    wanted = asked(pairs=12)
    wrong = sum(run(MadeUp(gain, seed=seed), wanted).verdict == "faster" for seed in range(300))
    assert wrong <= 6, "at alpha 1 % three are expected at the most; more than six have a chance below 2 %"


def test_nothing_is_dropped_for_looking_unpromising():
    found = run(MadeUp(0.002, sd=0.02), asked(pairs=9))
    assert (found.verdict, len(found.pairs), found.ended) == ("undecided", 9, "pairs")


def test_one_pair_makes_nobody_faster():
    found = run(MadeUp(1.0), asked())
    assert (found.verdict, len(found.pairs)) == ("faster", 2)


def test_the_time_covers_calibration_and_no_pair_is_begun_that_does_not_fit():
    lab = MadeUp(0.005)
    found = run(lab, asked(seconds=30.0))
    assert found.noise is not None
    assert found.noise.pairs == 10, "a third of the time"
    assert (found.ended, lab.now) == ("time", 30.0)
    assert "the time was over" in answer(found, ABOUT, asked()).sentence


def test_without_calibration_the_pairs_are_judged_by_their_own_scatter():
    found = run(MadeUp(0.05), asked(calibration=0))
    said = answer(found, ABOUT, asked(calibration=0))
    assert (said.verdict, said.calibration) == ("faster", None)
    assert len(found.pairs) > 2
    assert "by their own scatter" in said.sentence
    assert any("were not timed" in note for note in said.notes)


def test_an_interruption_keeps_what_is_known():
    wanted = asked()
    found = run(Interrupted(0.005), wanted)
    said = answer(found, ABOUT, wanted)
    assert (said.verdict, said.pairs, said.ended) == ("undecided", 3, "interrupted")
    assert said.sentence.startswith("Undecided, interrupted: B against A is")


def test_pairs_that_the_machine_disturbed_are_counted_and_not_judged():
    wanted = asked()
    said = answer(run(Disturbed(always=False), wanted), ABOUT, wanted)
    assert (said.verdict, said.pairs, said.lost_pairs) == ("faster", 2, 4)
    assert any("4 pairs were left out: a neighbour" in note for note in said.notes)


def test_a_machine_that_disturbs_every_pair_ends_it():
    wanted = asked()
    said = answer(run(Disturbed(always=True), wanted), ABOUT, wanted)
    assert (said.verdict, said.ended, said.ratio) == ("undecided", "unstable", None)
    assert said.sentence == "Undecided: the machine did not stay the same before one pair was timed."


def test_a_shape_that_loses_is_named_although_the_mean_is_faster():
    wanted = asked()
    said = answer(run(MadeUp(0.2, shapes={"small": 0.1, "odd": -0.3}), wanted), ABOUT, wanted)
    assert said.verdict == "faster"
    assert [shape.label for shape in said.shapes if shape.slower] == ["odd"]
    assert said.sentence.endswith(", but slower on odd.")
    assert any(note.startswith("shape odd is slower by at least") for note in said.notes)


def test_rates_are_shown_as_they_were_reported():
    wanted = asked()
    found = run(MadeUp(0.03), wanted)
    rate = About(a="a", b="b", engine="wall", machine="m", unit="", inverted=True)
    assert answer(found, rate, wanted).shapes[0].a == pytest.approx(1 / answer(found, ABOUT, wanted).shapes[0].a)


def test_numbers_of_two_engines_are_never_compared():
    class Mixed(MadeUp):
        def pair(self, number):
            return super().pair(number).model_copy(update={"engine": "graph"})

    with pytest.raises(MixedEvidence, match="engine"):
        run(Mixed(0.03), asked())


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.031, "3.1 %"),
        (0.03, "3 %"),
        (0.0042, "0.42 %"),
        (0.00996, "1 %"),
        (0.01, "1 %"),
        (0.0, "0 %"),
        (-0.00001, "0 %"),
        (-0.123, "-12.3 %"),
        (1.5, "150 %"),
    ],
)
def test_shares_in_words(share, text):
    assert percent(share) == text


def test_signs():
    assert [format_signed_percent(0.02), format_signed_percent(-0.02)] == ["+2 %", "-2 %"]
