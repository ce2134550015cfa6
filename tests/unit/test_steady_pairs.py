"""What becomes of disturbed pairs: timed again, left out, or too many; and the columns by which a harness helps."""

import random
from dataclasses import replace
from itertools import product

import pytest

from ridgeline.graph.evidence import BenchmarkFailed
from ridgeline.sandbox.devices.values import Conditions, Load
from ridgeline.sandbox.timing.interleaving import (
    EXTRA_TRIES,
    Pair,
    Problem,
    Process,
    Question,
    Slot,
    Steady,
    TimedPair,
    find_disturbed_blocks,
    fit,
    read_slots,
    shapes_of,
)
from ridgeline.sandbox.timing.observation import Quiet

SECOND = 1e6
BEGAN = 7 * SECOND


def load(foreign=0.0, *, began=0.0, seconds=1.0):
    """`began` in seconds after the process; share of the stretch."""
    return Load(
        began_us=BEGAN + began * SECOND, seconds=seconds, foreign_s=foreign * seconds, steal_s=0.0, sibling_s=None
    )


QUESTION = Question(best="b" * 40, candidate="c" * 40, shapes=(), blocks=5, folders=("a", "b"))


def timed(number=0, *, shares=(0.0,) * 5, times=None, labels=("x",), marked=()):
    """A pair of five blocks a shape, one second each; `shares` of foreign load during each block."""
    drawn = times or random.Random(number)
    count = len(shares)
    slots = tuple(
        Slot(
            label=label,
            block=block,
            slot=slot,
            side=side,
            time_us=None if (label, block) in marked else drawn.uniform(1, 9),
            at_us=BEGAN + (place * count + block + 1) * SECOND - 1,
        )
        for place, label in enumerate(labels)
        for block in range(count)
        for slot, side in enumerate(("best", "candidate", "candidate", "best"))
    )
    slices = tuple(load(share, began=n) for n, share in enumerate(shares * len(labels)))
    seen = Conditions(core=1, load=load(sum(shares) / count, seconds=len(slices)), slices=slices)
    process = Process(seed=number, order=("best", "candidate"), seconds=10.0, conditions=seen)
    one = TimedPair(pair=Pair(pair=number, slots=slots), processes=(process,))
    return one.model_copy(update={"disturbed": find_disturbed_blocks(one, host=True)})


class Scripted:
    """Gives the tries one after another."""

    def __init__(self, *tries):
        self.tries = list(tries)
        self.asked = []

    def time(self, question, number, attempt=0):
        self.asked.append((number, attempt))
        return self.tries[len(self.asked) - 1]


CALM, BRIEF, BUSY = (0.0,) * 5, (0.0, 0.6, 0.0, 0.0, 0.0), (0.6, 0.6, 0.6, 0.0, 0.0)


@pytest.mark.parametrize(
    ("tries", "made", "kept", "dropped"),
    [
        ((CALM,), 1, 0, 0),
        ((BRIEF,), 1, 0, 1),  # a fifth of the blocks may go
        ((BUSY, CALM), 2, 1, 0),
        ((BUSY, BRIEF), 2, 1, 1),
        ((BUSY, BUSY, CALM), 3, 2, 0),
        ((BUSY, (0.6,) * 5, BUSY), 3, 0, 3),
    ],
)
def test_a_disturbed_pair_is_timed_again_and_the_least_disturbed_try_counts(tries, made, kept, dropped):
    given = [timed(3, shares=shares, times=random.Random(n)) for n, shares in enumerate(tries)]
    scripted = Scripted(*given)
    found = Steady(interleaver=scripted, host=True, limit=0.2).time(QUESTION, 3)
    assert scripted.asked == [(3, attempt) for attempt in range(made)]
    assert found.pair == given[kept].pair
    assert len(found.disturbed) == dropped
    assert len(found.others) == made - 1
    assert found.seconds == 10.0 * made


def test_a_failure_is_no_disturbance():
    failed = BenchmarkFailed(commit="c" * 40, reason="crash", detail="broken", seconds=1.0)
    scripted = Scripted(timed(shares=BUSY), failed)
    assert Steady(interleaver=scripted, host=True, limit=0.2).time(QUESTION, 0) is failed
    assert EXTRA_TRIES == 2


def test_blocks_go_on_both_sides_and_are_counted():
    left = fit([timed(0), timed(1, shares=BRIEF), timed(2)], QUESTION, limit=0.2)
    assert (left.dropped, left.timed_blocks) == (1, 15)
    assert left.notes == ("1 of 15 blocks left out: other processes used 60% of the timed core",)
    gone = [slot for slot in left.pairs[1].slots if slot.time_us is None]
    assert [(slot.block, slot.slot) for slot in gone] == [(1, 0), (1, 1), (1, 2), (1, 3)]
    (shape,) = shapes_of(left.pairs, {})
    assert [len(pair) for pair in shape.pairs] == [5, 4, 5]


def test_a_pair_without_a_shape_is_left_out_whole():
    half = (*(0.6,) * 5, *(0.0,) * 5)
    pairs = [timed(n, labels=("x", "y")) for n in range(5)]
    lost = timed(5, labels=("x", "y"))
    slices = tuple(load(share, began=n) for n, share in enumerate(half))
    process = lost.processes[0].model_copy(
        update={"conditions": Conditions(core=1, load=load(0.3, seconds=10.0), slices=slices)}
    )
    lost = lost.model_copy(update={"processes": (process,)})
    lost = lost.model_copy(update={"disturbed": find_disturbed_blocks(lost, host=True)})
    assert {one.label for one in lost.disturbed} == {"x"}
    left = fit([*pairs, lost], QUESTION, limit=0.2)
    assert (len(left.pairs), left.dropped, left.timed_blocks) == (5, 10, 60)
    assert not isinstance(shapes_of(left.pairs, {}), Problem)


@pytest.mark.parametrize(("busy", "fits"), [(1, True), (2, True), (3, False)])
def test_more_than_a_fifth_of_the_blocks_is_unstable_and_never_a_slow_kernel(busy, fits):
    pairs = [timed(n, shares=BRIEF if n < busy else CALM) for n in range(2)]
    if busy == 3:
        pairs[0] = timed(0, shares=BUSY)
    left = fit(pairs, QUESTION, limit=0.2)
    assert isinstance(left, BenchmarkFailed) is not fits
    if isinstance(left, BenchmarkFailed):
        assert (left.reason, left.commit, left.seconds) == ("unstable", "c" * 40, 20.0)
        assert "4 of 10 blocks left out: other processes used 60% of the timed core" in left.detail


def test_what_the_harness_marked_counts_and_is_not_timed_again():
    marked = timed(0, marked={("x", 0), ("x", 1)})
    scripted = Scripted(marked)
    assert Steady(interleaver=scripted, host=True, limit=0.2).time(QUESTION, 0).pair == marked.pair
    left = fit([marked], QUESTION, limit=0.2)
    assert isinstance(left, BenchmarkFailed)
    assert "2 of 5 blocks left out: marked invalid by the benchmark itself" in left.detail


def test_repeats_are_said():
    again = timed(0).model_copy(update={"others": (timed(0, shares=BUSY),)})
    left = fit([again, timed(1)], QUESTION, limit=0.2)
    assert left.notes == ("1 of 2 pairs were disturbed and timed again, 1 more try in all",)


def test_no_time_has_a_say_in_what_is_dropped_repeated_or_kept():
    """Any times at all, with one side ever so much faster: the same blocks go, and the same try counts."""
    shapes = [tuple(share) for share in product((0.0, 0.6), repeat=3)]
    for seed in range(40):
        coin = random.Random(seed)
        tries = [coin.choice(shapes) for _ in range(3)]
        outcomes = set()
        for factor in (1.0, 100.0):
            given = []
            for shares in tries:
                one = timed(0, shares=shares, times=random.Random(coin.random()))
                slots = tuple(
                    replace(slot, time_us=slot.time_us * (factor if slot.side == "best" else 1))
                    for slot in one.pair.slots
                )
                given.append(one.model_copy(update={"pair": one.pair.model_copy(update={"slots": slots})}))
            scripted = Scripted(*given)
            found = Steady(interleaver=scripted, host=True, limit=0.2).time(QUESTION, 0)
            which = next(n for n, one in enumerate(given) if one.pair == found.pair)
            outcomes.add((len(scripted.asked), which, found.disturbed))
        assert len(outcomes) == 1


def csv_of(*extra, times=("", "", "", "")):
    header = ",".join(("label,block,slot,side,time_us", *extra))
    rows = (f"x,0,{slot},{side},1.5{time}" for slot, (side, time) in enumerate(zip("abba", times, strict=True)))
    return ("\n".join((header, *rows)) + "\n").encode()


@pytest.mark.parametrize(
    ("data", "at_us", "shared"),
    [
        (csv_of(), None, None),
        (csv_of("at_us", times=(",9.5",) * 4), 9.5, None),
        (csv_of("at_us", "shared", times=(",9.5,0",) * 4), 9.5, False),
        (csv_of("at_us", "shared", times=(",9.5,1",) * 4), 9.5, True),
    ],
)
def test_columns_a_harness_may_add(data, at_us, shared):
    slots = read_slots(data, a="best", requested=("x",), blocks=1)
    assert not isinstance(slots, Problem)
    assert {(slot.at_us, slot.shared) for slot in slots} == {(at_us, shared)}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (csv_of("when", times=(",9.5",) * 4), "schema_drift"),
        (csv_of("shared", times=(",1",) * 4), "schema_drift"),
        (csv_of("at_us", times=(",soon",) * 4), "not_a_number"),
        (csv_of("at_us", "shared", times=(",1,maybe",) * 4), "not_a_number"),
    ],
)
def test_columns_that_are_not_as_told(data, reason):
    found = read_slots(data, a="best", requested=("x",), blocks=1)
    assert isinstance(found, Problem)
    assert found.reason == reason


class Patience(Quiet):
    """Counts the waits."""

    def __init__(self):
        self.waits = 0

    def wait(self):
        self.waits += 1
        return True


@pytest.mark.parametrize(
    ("host", "tries", "waits"),
    [(True, (CALM,), 0), (True, (BUSY, CALM), 1), (True, (BUSY, BUSY, BUSY), 2), (False, (CALM,), 0)],
)
def test_the_machine_may_rest_before_another_try_and_only_then(host, tries, waits):
    given = [timed(3, shares=shares, times=random.Random(n)) for n, shares in enumerate(tries)]
    patience = Patience()
    Steady(interleaver=Scripted(*given), host=host, limit=0.2, quiet=patience).time(QUESTION, 3)
    assert patience.waits == waits
