"""Times two versions in A B B A blocks in fresh process pairs; every timed call is judged, on values drawn for it.

On a processor a call lasts until its worker stands still: what stopping takes beyond an empty call's is added. Workers
are locked before the first call that counts: what compiles at first calls has done so by then (`_Turns.settle_in`).
"""

import math
import random
import statistics
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.formula import evaluate
from ridgeline.graph.judgment import QuestionAnswer, TimedCall
from ridgeline.graph.stats.intervals import student_quantile
from ridgeline.graph.task import Shape, Task
from ridgeline.sandbox.judge.call_names import TIMED, CallName, ValuesName
from ridgeline.sandbox.judge.correctness import (
    SMALL_ELEMENTS,
    CallJudge,
    Opened,
    Truth,
    decoy_of,
    draw_mixes_with_truth,
    element_count,
    judged_names,
    list_mixes,
    truth_of,
    truths_of,
)
from ridgeline.sandbox.judge.dtypes import STORAGE
from ridgeline.sandbox.judge.inputs import MIXES, PARTS, axis_lengths
from ridgeline.sandbox.judge.numerics import Tolerance, agree, derive_tolerance
from ridgeline.sandbox.judge.options import answer_no, answer_unverified, answer_yes
from ridgeline.sandbox.judge.pool import InputPool, PoisonPool, RowPlace
from ridgeline.sandbox.judge.provenance import PaceCalls
from ridgeline.sandbox.judge.session import (
    BrokenWorker,
    CardDraw,
    CardSession,
    CardStock,
    CardTiming,
    ProofRequest,
    SealedCall,
    Session,
    are_sums_near,
    draw_signs,
    is_proof_true,
    keep_to_one_core,
    stock_shared_memory,
)
from ridgeline.sandbox.judge.shared_buffers import PLACEMENTS

# Calls among the timed ones that are not timed, with unusual values: what is right only in tests is found there.

ProbePlace = tuple[int, int]
"""Block, and the number of its first call."""


@dataclass(kw_only=True)
class UntimedProbes:
    """Judged calls of both sides between the timed ones, with unusual kinds of values."""

    bench: CallJudge
    sessions: Mapping[str, Session]
    shape: Shape
    pool: InputPool
    coin: random.Random
    deck: list[str]
    """Kinds of values that are left for this size, over all process pairs; filled again when none is."""
    many: int = 2
    """Of this size, in this process pair."""
    calls: int = 0
    _at: Counter[ProbePlace] = field(default_factory=Counter)
    _queue: list[tuple[str, Truth]] = field(default_factory=list)

    def schedule(self, first_block: int, blocks: int) -> None:
        """For the judge: draw the pairs of calls before which they are made, from block `first_block` to before `blocks`."""
        if self.bench.options.has("judged_timing") and self.bench.options.has("mixes"):
            places = ((self.coin.randrange(first_block, blocks), self.coin.choice((0, 2))) for _ in range(self.many))
            self._at = Counter(places)

    def run_due(self, place: ProbePlace) -> tuple[str, str] | None:
        """For the judge: run the probes scheduled for this place: the first side that is wrong, and how; None where all are right."""
        for _ in range(self._at[place]):
            if wrong := self._call_both():
                return wrong
        return None

    def _call_both(self) -> tuple[str, str] | None:
        dims = self.shape.dims
        if not self._queue:
            self._draw_truths()
        mix, truth = self._queue.pop()
        for side in self.coin.sample("ab", 2):
            placement = self.coin.getrandbits(1)
            sealed = self.sessions[side].call(
                dims, truth.inputs, placement=placement, timeout_s=self.bench.options.call_s
            )
            self.calls += 1
            if isinstance(sealed, BrokenWorker):
                return side, f"{mix} {self._mention(truth)}: {sealed.reason}: {sealed.detail}"
            if lines := self.bench.wrong(sealed, truth):
                return side, f"{mix} {self._mention(truth)}: {lines[0]}"
        return None

    def _mention(self, truth: Truth) -> str:
        """For the judge: the call's name, where it can be made again."""
        return name_call(self.pool, self.shape, truth.values).mention if truth.values else ""

    def _draw_truths(self) -> None:
        """For the judge: what is right in the next ones: for all of this process pair at once, unless that is much to keep."""
        mixes: list[str] = []
        for _ in range(self.many if element_count(self.bench.task, self.shape) < SMALL_ELEMENTS else 1):
            if not self.deck:
                self.deck += shuffle_mixes(self.coin, tested=list_mixes(self.bench.task, self.shape))
            mixes.append(self.deck.pop())
        consts = self.pool.consts()
        truths = draw_mixes_with_truth(
            self.bench, self.shape.dims, mixes, keep_constants=lambda inputs: {**inputs, **consts}
        )
        self._queue += zip(mixes, truths, strict=True)


def name_call(pool: InputPool, shape: Shape, values: ValuesName | None = None) -> CallName:
    """For the judge: name of a call with these values, or those that the pool drew last, and the pool's constant inputs."""
    const = ValuesName(kind=TIMED, seed=pool.seed, index=pool.process) if pool.has_constants else None
    values = values or ValuesName(kind=TIMED, seed=pool.seed, index=pool.draw_count)
    return CallName(dims=shape.dims, values=values, const=const)


def shuffle_mixes(coin: random.Random, *, tested: Collection[str]) -> list[str]:
    """Every unusual kind once, in a secret order; last of all, and so taken first, those that the size was not tested
    with."""
    every = (*MIXES[1:], *PARTS)
    tested_mixes = [mix for mix in every if mix in tested]
    untested_mixes = [mix for mix in every if mix not in tested]
    return [*coin.sample(tested_mixes, len(tested_mixes)), *coin.sample(untested_mixes, len(untested_mixes))]


# What no kernel can beat: bytes and operations at the machine's measured ceilings, and the judge's own clock.

FLOOR_MARGIN = 0.95
"""A floor is this share of the ceiling's time: ceilings are measured, to a few percent."""
CLAIM_SHARE = 0.8
STANDARD_ERRORS = 3.72
"""The wall clock must show this share of a claimed gain, within so many of its standard errors."""
CLAIM_TAIL = 1e-4
"""How often it would not by chance (a normal value is so rarely beyond that many errors): asked of every size in every
process pair, some hundred times in a campaign, and identical versions must not fail it."""

SHOWN_ERRORS = 2.0
"""A gain is more than so many standard errors of what shows it."""
CLAIM_TRIM = 0.2
"""Share of pairs cut at either end before the judge's clock is asked: the machine has other work too."""


def bytes_floor_us(bytes_min: float | None, copy_gbps: float | None) -> float:
    """Least time of a judged call in microseconds to move the bytes; 0 where either number is unknown."""
    return FLOOR_MARGIN * _microseconds(bytes_min, copy_gbps)


def bytes_share(task: Task, dims: Mapping[str, int]) -> float:
    """For the judge: of the bytes of all arrays, those that the task says a call must move: a gather reads few of a table's."""
    if task.bytes is None:
        return 1.0
    arrays = (*task.inputs, *task.outputs)
    all_bytes = sum(STORAGE[tensor.dtype].itemsize * math.prod(axis_lengths(tensor, dims)) for tensor in arrays)
    return min(1.0, max(0.0, evaluate(task.bytes, dims)) / max(all_bytes, 1))


def claim_holds(*, wall_gain_us: float, claimed_gain_us: float, error_us: float) -> bool:
    """Whether the judge's clock shows the gain that the worker's timer claims, in microseconds per step."""
    return wall_gain_us >= CLAIM_SHARE * claimed_gain_us - STANDARD_ERRORS * error_us


@dataclass(frozen=True, kw_only=True)
class ClockedGain:
    """A gain as a clock shows it, in microseconds."""

    mean_us: float
    error_us: float


def measure_claims(gains: Sequence[tuple[float, float]]) -> tuple[ClockedGain, float]:
    """The judge's clock, and what the workers claim, over (wall, claimed) of at least one pair of calls: trimmed means.

    The error is that of a trimmed mean (Tukey and McLaughlin 1963): the scatter of all values, those that were cut drawn to
    the nearest that were not; widened as by Student's t where few calls show it. The scatter of what is left is half of it.
    """
    wall = _trim([gain_us for gain_us, _ in gains])
    claimed = statistics.fmean(_trim([gain_us for _, gain_us in gains]))
    drawn_in = [min(max(gain_us, wall[0]), wall[-1]) for gain_us, _ in gains]
    if len(wall) < 2:
        return ClockedGain(mean_us=statistics.fmean(wall), error_us=math.inf), claimed
    widened = student_quantile(CLAIM_TAIL, len(wall) - 1) / STANDARD_ERRORS
    error = statistics.stdev(drawn_in) * math.sqrt(len(gains)) / len(wall) * widened
    return ClockedGain(mean_us=statistics.fmean(wall), error_us=error), claimed


def _trim(values: list[float]) -> list[float]:
    cut = int(CLAIM_TRIM * len(values))
    return sorted(values)[cut : len(values) - cut]


def _microseconds(amount: float | None, giga_per_second: float | None) -> float:
    if not amount or not giga_per_second:
        return 0.0
    return amount / (giga_per_second * 1e3)


def find_unseen_gain(gains_by_label: Mapping[str, Sequence[tuple[float, float]]]) -> str | None:
    """What the judge's own clock says of a size whose claimed gain it does not show; None where it shows all."""
    for label, gains in gains_by_label.items():
        wall, claimed = measure_claims(gains)
        if claimed > 0 and not wall.mean_us > SHOWN_ERRORS * wall.error_us:
            return (
                f"{label}: only the worker's own timer shows the gain of {claimed:.1f} us "
                f"(the judge's clock: {wall.mean_us:.1f} +- {wall.error_us:.1f} us)"
            )
    return None


Stops = Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]
"""By size and side: of each call, us from its answer until the worker stood still, and until it."""


def find_late_stops(stops_by_label: Stops) -> str | None:
    """For the judge: where the newer side is at work after most of its answers, and the other is not."""
    for label, stops in stops_by_label.items():
        a, b = (statistics.median([stop_us for stop_us, _ in stops[side]] or [0.0]) for side in "ab")
        took_us = statistics.median([wall_us for _, wall_us in stops["b"]] or [math.inf])
        if b - a > max(STOP_US, 3 * a, STOP_SHARE * took_us):
            return (
                f"{label}: it works on after its answers: it stands still {b - a:.0f} us later than the other version"
            )
    return None


def find_slowed_size(stops_by_label: Stops, late_us: Mapping[str, Sequence[float]]) -> str | None:
    """For the judge: where calls late in a process, of these times, took far longer than when they were timed."""
    for label, stops in stops_by_label.items():
        timed_us = statistics.median([wall_us for _, wall_us in stops["b"]] or [math.inf])
        median_us = statistics.median(late_us.get(label) or [0.0])
        if median_us > LATE_FACTOR * timed_us + STOP_US:
            return f"{label}: late in a process its calls take {median_us:.0f} us, {timed_us:.0f} us when timed"
    return None


# Times of judged calls, and what they say by blocks.

LEAST_US = 0.05
"""Resolution: an empty call's time, which is taken off, varies by more."""


def timed_call(
    shape: Shape, place: tuple[int, int, str], sealed: SealedCall, taken_us: float, at_us: float
) -> TimedCall:
    """The judged call of that block, number and side; no time is less than the resolution."""
    block, number, side = place
    return TimedCall(
        label=shape.label,
        block=block,
        slot=number,
        side=side,
        time_us=max(taken_us, LEAST_US),
        claimed_us=sealed.claimed_us,
        at_us=at_us,
        waited_us=sealed.others_us,
    )


def block_log_ratios(slots: Sequence[TimedCall]) -> dict[str, list[float]]:
    """For the judge: ln(time of a / time of b) of each block, by size: positive is faster."""
    blocks: dict[tuple[str, int], list[TimedCall]] = {}
    for slot in slots:
        blocks.setdefault((slot.label, slot.block), []).append(slot)
    ratios: dict[str, list[float]] = {}
    for (label, _), block in blocks.items():
        logs = {side: [math.log(slot.time_us) for slot in block if slot.side == side] for side in "ab"}
        ratios.setdefault(label, []).append(float(np.mean(logs["a"]) - np.mean(logs["b"])))
    return ratios


ORDERS = ("abba", "baab")
WARM_UP = 2
"""Blocks of each size before the first that counts. They are judged too."""
COPIES = 5
PINGS_BETWEEN, LAST_PINGS = 2, 12
"""Empty calls of each side before a pair of timed ones, and how many of its last ones say what one takes: a machine goes from
one pace to another within milliseconds, and what is taken off a call is of the pace that it had."""
LOOK_SHARE = 0.25
"""Of timed calls after which inputs and guard bands are looked at, secretly; tests look each time. Writing where one
must not gains nothing unless most calls do it, and damage to bands stays until it is seen."""
PROCESS_CHECK_SHARE = 0.03
"""Of timed calls after which processes that came beside either worker are looked for, secretly; a look takes 1 ms."""
POOL_BYTES = 1 << 31
"""Of random rows of all sizes that are kept for the process pairs to come; sizes beyond that draw theirs each time."""
LEAST_SHARE = 0.25
"""A call that reads its inputs and writes its outputs takes at least this share of a plain copy of as many bytes."""

STOP_SHARE, STOP_US = 0.25, 50.0
"""Of a side's time, and at least: what its worker may go on for after its answers, beyond what the other does."""

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, kw_only=True)
class TimingRefused:
    """Why timing ended without a result, and whose fault it was; side is empty where it was nobody's."""

    side: str
    detail: str
    unclear: bool = False
    """It shows no wrong answer; it only leaves the time without meaning."""


@dataclass(kw_only=True)
class TimedPairs:
    """Times candidate `b` against `a`."""

    bench: CallJudge
    calls: int = 0
    gains: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """On a card, by size: of each pair of calls, us: a less b by the judge's clock, and by the workers' claims."""
    stops: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    """On a processor, by size and side: of each call, us from its answer until the worker stood still, and until it."""
    decks: dict[str, list[str]] = field(default_factory=dict)
    """By size: kinds of values that calls between the timed ones have not had yet."""
    _floors: dict[str, float] = field(default_factory=dict)
    _within: dict[str, dict[str, Tolerance]] = field(default_factory=dict)
    _pools: dict[str, tuple[InputPool, PoisonPool]] = field(default_factory=dict)

    def run(
        self, opened: Mapping[str, Opened], shapes: Sequence[Shape], blocks: int
    ) -> list[TimedCall] | TimingRefused:
        """For the judge: one process pair: both sides alive, taking turns."""
        with ExitStack() as stack:
            sessions: dict[str, Session] = {}
            for place in self.bench.rng.permutation(2):
                side = "ab"[int(place)]
                sessions[side] = stack.enter_context(opened[side]())
                sessions[side].lock_first = self.bench.options.has("isolation")
                if broken := sessions[side].open():
                    return TimingRefused(side=side, detail=f"{broken.reason}: {broken.detail}")
            calls: list[TimedCall] = []
            settled: dict[str, _Turns] = {}
            if refused := self._lock(sessions, shapes, settled):
                return refused
            if self.bench.options.device != "cuda":
                keep_to_one_core(self.bench.task, sessions.values())
            for shape in shapes:
                turns = settled.pop(shape.label, None) or self._kind()(pairs=self, sessions=sessions, shape=shape)
                slots = turns.run(blocks)
                if isinstance(slots, TimingRefused):
                    return slots
                calls += slots
            return calls

    def _lock(
        self, sessions: Mapping[str, Session], shapes: Sequence[Shape], settled: dict[str, "_Turns"]
    ) -> TimingRefused | None:
        """For the judge: keep both workers from starting processes; first calls of what compiles then come before that.

        Turns of sizes with constant inputs go into `settled`, by label: the process goes on with the same ones.
        """
        if self.bench.options.device == "cuda" or not self.bench.options.has("isolation"):
            return None
        if any(session.framework == "torch" and self.bench.task.language != "c" for session in sessions.values()):
            for shape in shapes:
                turns = self._kind()(pairs=self, sessions=sessions, shape=shape)
                if refused := turns.settle_in():
                    return refused
                if turns.has_constants:
                    settled[shape.label] = turns
        for side, session in sessions.items():
            if broken := session.lock():
                return TimingRefused(side=side, detail=f"{broken.reason}: {broken.detail}")
        return None

    def _kind(self) -> "type[_Turns]":
        if self.bench.options.device != "cuda":
            return _Turns
        return _CardTurns

    def share_pools(self) -> "TimedPairs":
        """For the judge: for one version beside itself: with the rows drawn here and what was learned of sizes, and no times."""
        return TimedPairs(bench=self.bench, _floors=self._floors, _within=self._within, _pools=self._pools)

    def open_pools(self, shape: Shape) -> tuple[InputPool, PoisonPool]:
        """For the judge: where values of that size, and what outputs hold before, are cut from: drawn for the first process pair.

        Later processes are others and know nothing of it.
        """
        if pools := self._pools.get(shape.label):
            pools[0].renew()
            return pools
        pools = (
            InputPool(self.bench.task, shape.dims, self.bench.rng),
            PoisonPool(self.bench.task, shape.dims, self.bench.rng),
        )
        if sum(pool.nbytes for both in (*self._pools.values(), pools) for pool in both) <= POOL_BYTES:
            self._pools[shape.label] = pools
        return pools

    def find_late_work(self) -> str | None:
        """For the judge: where the newer side is at work after most of its answers, and the other is not. Its time is counted anyway."""
        return find_late_stops(self.stops) if self.stops and self.bench.options.has("own_clock") else None

    def find_unseen_gain(self) -> str | None:
        """What the judge's own clock says of a size whose claimed gain it does not show; None where it shows all."""
        return find_unseen_gain(self.gains)

    def find_unasked_gain(self) -> str | None:
        """For the judge: none: what a processor's calls took is by the judge's clock."""
        return None

    def copy_us(self, arrays: Sequence[NDArray[np.generic]], label: str) -> float:
        """For the judge: half the time of a plain copy of these bytes, which reads and writes each; measured once per size."""
        if label not in self._floors:
            data = np.concatenate([array.reshape(-1).view(np.uint8) for array in arrays])
            target = np.empty_like(data)
            times = []
            for _ in range(COPIES):
                began = time.perf_counter_ns()
                np.copyto(target, data)
                times.append((time.perf_counter_ns() - began) / 1e3)
            self._floors[label] = min(times) / 2
        return self._floors[label]

    def learn_tolerances(self, label: str, truth: Truth | None = None) -> dict[str, Tolerance]:
        """For the judge: by how much two right outputs of that size may differ, learned from the first truth about it."""
        if truth is not None and label not in self._within:
            task, noise_by_output = self.bench.task, self.bench.sensitivity(truth)
            self._within[label] = {
                name: derive_tolerance(
                    truth.oracle[name],
                    truth.trusted[name],
                    dtype=task.dtype_of(name),
                    precision=task.precision,
                    noise=noise_by_output.get(name),
                )
                for name in judged_names(task)
            }
        return self._within.get(label, {})


MOST_TOO_FAST = 3
"""Calls of a side and size that may seem faster than its bytes can move, whatever the others say."""


def is_too_fast(longest_us: Sequence[float], floor_us: float) -> bool:
    """For the judge: whether calls that took so long at most are less than moving their bytes takes: half of them, and more than a few.

    One that seems so is timed again and counts for nothing: a busy machine's clock errs now and then, and a version
    that leaves its work out is as fast every time.
    """
    below = sum(longest < floor_us for longest in longest_us)
    return below > MOST_TOO_FAST and 2 * below >= len(longest_us)


@dataclass(kw_only=True)
class _Turns:
    """The calls of one size in one process pair."""

    pairs: TimedPairs
    sessions: Mapping[str, Session]
    shape: Shape

    def __post_init__(self) -> None:
        bench = self.pairs.bench
        self.bench, self.options = bench, bench.options
        self._pool, self._poisons = self.pairs.open_pools(self.shape)
        self._sampled = AuditedCalls(bench=bench)
        self._coin = random.Random(bench.rng.bytes(32))
        self._decoy: Arrays | None = None
        self._longest_us: dict[str, list[float]] = {"a": [], "b": []}
        self._unsure_us: dict[str, float] = {}
        self._pings = {side: deque[float](maxlen=LAST_PINGS) for side in "ab"}
        self._aside_us: dict[str, float] = {}
        self._stops = self.pairs.stops.setdefault(self.shape.label, {"a": [], "b": []})
        self._stale: Arrays | None = None
        self._moved_share = bytes_share(bench.task, self.shape.dims)
        self._probes = UntimedProbes(
            bench=bench,
            sessions=self.sessions,
            shape=self.shape,
            pool=self._pool,
            coin=self._coin,
            deck=self.pairs.decks.setdefault(self.shape.label, []),
        )
        for session in self.sessions.values():
            session.look_share = LOOK_SHARE

    def run(self, blocks: int) -> list[TimedCall] | TimingRefused:
        """All blocks, after calls that warm both sides up and are judged like the others."""
        for side, session in self.sessions.items():
            self._pings[side].extend(session.ping_often())
        calls: list[TimedCall] = []
        self._probes.schedule(-WARM_UP, blocks)
        for block in range(-WARM_UP, blocks):
            order = ORDERS[int(self.bench.rng.integers(len(ORDERS)))]
            for place in (0, 2):
                if wrong := self._probes.run_due((block, place)):
                    return self._refuse_wrong(wrong)
                slots = self._time_calls(block, place, order[place : place + 2])
                if isinstance(slots, TimingRefused):
                    return slots
                calls += slots if block >= 0 else []
        company = self._find_sibling_processes()
        self.pairs.calls += self._probes.calls
        return self.settle() or self._find_overwritten() or company or calls

    def _ping_both(self, order: str) -> float:
        """What an empty call of either side takes now: the judge asks between the timed calls, and the last ones count.

        The lesser of both sides: each could make its own empty calls long, and so its others short. What a side's take
        beyond twice that, it may work in them, and its timed call has it (`_aside_us`).
        """
        for side in order:
            self._pings[side].extend(self.sessions[side].ping() for _ in range(PINGS_BETWEEN))
        usual_us = {side: float(np.median(self._pings[side])) for side in order}
        empty_us = min(usual_us.values())
        if self.options.has("own_clock"):
            self._aside_us = {side: PINGS_BETWEEN * max(0.0, usual_us[side] - 2 * empty_us) for side in order}
            self._unsure_us = {side: empty_us - min(empty_us, *self._pings[side]) for side in order}
        return empty_us

    @property
    def has_constants(self) -> bool:
        """For the judge: whether calls of this size share an input that stays the same in the life of a process."""
        return self._pool.has_constants

    def settle_in(self) -> TimingRefused | None:
        """One judged call of each side at either place, for what is compiled at a first call."""
        for _ in range(PLACEMENTS):
            calls = self._call_both("ab")
            if isinstance(calls, TimingRefused):
                return calls
        return None

    def _late_us(self, side: str, sealed: SealedCall) -> float:
        """For the judge: what the worker took after its answer to stand still, beyond twice what the quicker side usually takes, in us.

        Until then it may work: its parent waiting in the kernel for a child that borrows its memory cannot be stopped.
        """
        self._stops[side].append((sealed.stop_us, sealed.wall_us))
        return (
            max(0.0, sealed.stop_us - 2 * min(self._typical_stops().values())) if self.options.has("own_clock") else 0.0
        )

    def _typical_stops(self) -> dict[str, float]:
        """For the judge: by side: the median time of its calls so far from the answer until the worker stood still, in us."""
        return {
            side: statistics.median([stop_us for stop_us, _ in stops] or [0.0]) for side, stops in self._stops.items()
        }

    def _time_calls(self, block: int, place: int, order: str) -> list[TimedCall] | TimingRefused:
        """One call of each side. What cannot be true is timed again: the clock of a busy machine errs now and then,
        and a call that never does its work is as fast every time."""
        while True:
            empty_us = self._ping_both(order)
            both = self._call_both(order)
            if isinstance(both, TimingRefused):
                return both
            slots = []
            slower_us = max(sealed.wall_us for sealed, _ in both.values())
            for number, (side, (sealed, at_us)) in enumerate(both.items()):
                own_us = sealed.wall_us if sealed.own_us is None else sealed.own_us
                taken_us = own_us - empty_us if self.options.has("own_clock") else sealed.claimed_us or 0
                taken_us += min(self._late_us(side, sealed), slower_us) + self._aside_us.get(side, 0.0)
                slots.append(timed_call(self.shape, (block, place + number, side), sealed, taken_us, at_us))
            fast = [slot for slot in slots if self._impossible(slot)]
            if not fast:
                return slots
            for side in {slot.side for slot in fast}:  # what an empty call takes may be less by now
                self._pings[side].extend(self.sessions[side].ping_often())
            for slot in fast:
                if is_too_fast(self._longest_us[slot.side], self._floor_us()):
                    detail = f"{self.shape.label}: {slot.time_us:.1f} us is too little to move its bytes"
                    return TimingRefused(side=slot.side, detail=f"{detail}, as most of its calls")

    def _find_overwritten(self) -> TimingRefused | None:
        """For the judge: check all guard bands: a refusal for the first side that overwrote one."""
        for side, session in self.sessions.items():
            if self.options.has("guards") and (names := session.find_overwritten(self.shape.dims)):
                return self._refuse_wrong((side, f"memory beside {names[0]} was overwritten"))
        return None

    def settle(self) -> TimingRefused | None:
        """Judge the calls that wait for the oracle."""
        wrong = self._sampled.find_wrong("b")  # which the other side agreed with
        return self._refuse_wrong(wrong) if wrong else None

    def _refuse_wrong(self, wrong: tuple[str, str]) -> TimingRefused:
        return TimingRefused(side=wrong[0], detail=f"{self.shape.label}, timed: {wrong[1]}")

    def _find_sibling_processes(self) -> TimingRefused | None:
        """For the judge: other processes of a candidate may work, or watch, while its own stands still."""
        for side, session in self.sessions.items():
            if self.options.has("isolation") and (more := session.processes()):
                return TimingRefused(
                    side=side, detail=f"{self.shape.label}: {more} more processes run beside it", unclear=True
                )
        return None

    def _impossible(self, slot: TimedCall) -> bool:
        """For the judge: whether it took less than its bytes need, though the shortest empty call is taken off."""
        longest_us = slot.time_us + self._unsure_us.get(slot.side, 0.0)
        self._longest_us[slot.side].append(longest_us)
        return self.options.has("physics") and longest_us < self._floor_us()

    def _floor_us(self) -> float:
        return LEAST_SHARE * self._moved_share * self.pairs.copy_us((), self.shape.label)

    def _inputs(self) -> Arrays:
        if self._stale is None or self.options.has("fresh_values"):
            self._stale = self._pool.draw()
        return self._stale

    def _call_both(self, order: str) -> dict[str, tuple[SealedCall, float]] | TimingRefused:
        """For the judge: one call of each side with the same values, and what is wrong with either."""
        inputs = self._inputs()
        calls: dict[str, tuple[SealedCall, float]] = {}
        for side in order:
            placement = self._coin.getrandbits(1) if self.options.has("addresses") else 0
            before = self._poisons.draw(self._decoy) if self.options.has("poison") else self._decoy
            sealed = self.sessions[side].call(
                self.shape.dims, inputs, placement=placement, poison=before, timeout_s=self.options.call_s
            )
            self.pairs.calls += 1
            if isinstance(sealed, BrokenWorker):
                where = f"{self.shape.label} {self._mention()}"
                return TimingRefused(side=side, detail=f"{where}: {sealed.reason}: {sealed.detail}")
            calls[side] = (sealed, time.monotonic_ns() / 1e3)
            if self._coin.random() < PROCESS_CHECK_SHARE and (company := self._find_sibling_processes()):
                return company
        self.pairs.copy_us([*inputs.values(), *calls["a"][0].outputs.values()], self.shape.label)
        return self._wrong(inputs, {side: sealed for side, (sealed, _) in calls.items()}) or calls

    def _wrong(self, inputs: Arrays, calls: Mapping[str, SealedCall]) -> TimingRefused | None:
        """For the judge: each call against the other side's on the same values, and some of them, secretly, against the oracle."""
        if not self.options.has("judged_timing"):
            return None
        for side, sealed in calls.items():
            if lines := self.bench.surroundings(sealed):
                return self._refuse_wrong((side, f"{self._mention()}: {lines[0]}"))
        if self._agree(calls):
            # a right answer to other inputs, from the next call on
            self._decoy = calls["ab"[self._coin.getrandbits(1)]].outputs
            if self._coin.random() < self.options.oracle_share:
                self._sampled.keep(inputs, calls, self._mention())
            return self.settle() if self._sampled.full else None
        truth = truth_of(self.bench.reference, inputs)
        self.pairs.learn_tolerances(self.shape.label, truth)
        wrong = find_wrong_side(self.bench, calls, truth, "ba")
        mention = self._mention()
        return (
            self._refuse_wrong((wrong[0], f"{mention}: {wrong[1]}")) if wrong else None
        )  # they may differ, and both be right: by their rounding

    def _mention(self) -> str:
        """The name of the last judged call."""
        return name_call(self._pool, self.shape).mention

    def _agree(self, calls: Mapping[str, SealedCall]) -> bool:
        task, tolerances = self.bench.task, self.pairs.learn_tolerances(self.shape.label)
        return bool(tolerances) and all(
            agree(calls["b"].outputs[name], calls["a"].outputs[name], dtype=task.dtype_of(name), within=within)
            for name, within in tolerances.items()
        )


# Timing on a card: both sides get the same secret places of what lies there, and their answers' sums are compared.

CARD_WARM_UP_S = 0.5
"""Until a card's clocks have come up; the calls are judged like the others."""
CARD_KEPT_WARM_S = 0.05
"""The same for a size whose calls follow those of another at once: the clocks are up, and only its own data is new."""
FASTEST_GBPS = 10_000.0
"""No card's memory moves more today; the fastest have 8,000."""


@dataclass(frozen=True, kw_only=True)
class _CardCall:
    """One side's call, and what it was given."""

    timed: CardTiming
    placement: int
    proof_request: ProofRequest
    at_us: float


@dataclass(kw_only=True)
class _CardTurns(_Turns):
    """The calls of one size in one process pair, on a card."""

    lane: str = "eager"
    """`graph` where one call of either side could be captured, else `eager` for both."""
    gains: list[tuple[float, float]] = field(default_factory=list)
    """Of each pair of calls, us: a less b by the judge's clock, and by the workers' claims."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._dice = random.Random(self.bench.rng.bytes(32))
        self._version = 0
        self._probes.many = 1  # all its arrays go over the bus
        self._rings: dict[str, tuple[int, int]] = {}
        self._sizes: dict[str, float] = {}
        counts = [
            int(np.prod(axis_lengths(tensor, self.shape.dims)))
            for tensor in (*self.bench.task.inputs, *self.bench.task.outputs)
        ]
        self._row = draw_signs(max(counts), self.bench.rng)

    def run(self, blocks: int) -> list[TimedCall] | TimingRefused:
        """All blocks, after calls that warm both sides up and are judged like the others."""
        if refused := self._prepare():
            return refused
        calls: list[TimedCall] = []
        warm, block = time.monotonic() + CARD_WARM_UP_S, -WARM_UP
        self._probes.schedule(0, blocks)
        while block < blocks:
            slots = self._block(block)
            if isinstance(slots, TimingRefused):
                return slots
            calls += slots if block >= 0 else []
            block += 1 if block != -1 or time.monotonic() > warm else 0
        self.pairs.calls += self._probes.calls
        return self._contradict_claims() or self._find_sibling_processes() or calls

    def _block(self, block: int) -> list[TimedCall] | TimingRefused:
        calls: list[TimedCall] = []
        order = ORDERS[self._dice.randrange(len(ORDERS))]
        for place in (0, 2):
            if wrong := self._probes.run_due((block, place)):
                return self._refuse(*wrong)
            both = self._pair(order[place : place + 2])
            if isinstance(both, TimingRefused):
                return both
            for number, (side, card_call) in enumerate(both.items()):
                claimed = card_call.timed.claimed_us
                calls.append(
                    TimedCall(
                        label=self.shape.label,
                        block=block,
                        slot=place + number,
                        side=side,
                        time_us=max(claimed, LEAST_US),
                        claimed_us=claimed,
                        at_us=card_call.at_us,
                    )
                )
            if block >= 0:
                a, b = both["a"].timed, both["b"].timed
                self.gains.append((a.wall_us - b.wall_us, a.claimed_us - b.claimed_us))
        return calls

    def _prepare(self) -> TimingRefused | None:
        """For the judge: values on either card, one whole call, and how calls are made."""
        task, dims = self.bench.task, self.shape.dims
        stock = self._stock()
        places = self._pool.places()
        inputs = self._pool.cut_at(places)
        truth = truth_of(self.bench.reference, inputs)
        self._learn_sizes(truth.oracle)
        self.pairs.learn_tolerances(self.shape.label, truth)
        for name, array in decoy_of(task, truth).items():
            stock.write(f"decoy/{name}", array)
        self._version, lanes = 1, set[str]()
        for side in self.sessions:
            session = self._card(side)
            sealed = session.call(dims, inputs, placement=self._dice.randrange(2), timeout_s=self.options.call_s)
            if isinstance(sealed, BrokenWorker):
                return self._refuse(side, f"{sealed.reason}: {sealed.detail}")
            if lines := self.bench.wrong(sealed, truth):
                return self._refuse(side, lines[0])
            reply = session.stock(dims, stock) or session.capture(dims)
            if isinstance(reply, BrokenWorker):
                return self._refuse(side, f"{reply.reason}: {reply.detail}")
            lanes.add(reply.split()[0])
        self.lane = "graph" if lanes == {"graph"} else "eager"
        stock.close()
        return None

    def _stock(self) -> CardStock:
        rows: dict[str, NDArray[np.generic]] = {"rows": self._row}
        for name, long in self._pool.long_rows().items():
            rows[f"values/{name}"] = long.values
            if long.over is not None:
                rows[f"over/{name}"] = long.over
            if long.ring is not None:
                self._rings[name] = long.ring
        for kind, arrays in self._poisons.long_rows().items():
            rows |= {f"{kind}/{name}": array for name, array in arrays.items()}
        for tensor in self.bench.task.outputs:
            shape = axis_lengths(tensor, self.shape.dims)
            rows[f"decoy/{tensor.name}"] = np.zeros(shape, rows[f"nan/{tensor.name}"].dtype)
        return stock_shared_memory(rows)

    def _pair(self, order: str) -> dict[str, _CardCall] | TimingRefused:
        """For the judge: one call of each side with the same values, and what is wrong with either."""
        fetch_outputs = self._dice.random() < self.options.oracle_share
        draw = self._draw()
        calls: dict[str, _CardCall] = {}
        for side in order:
            placement, proof_request = self._dice.randrange(2), ProofRequest.draw(self._dice, all_outputs=fetch_outputs)
            proof_request = proof_request if not calls else next(iter(calls.values())).proof_request
            timed = self._card(side).time_call(
                self.shape.dims, draw, proof_request, placement=placement, timeout_s=self.options.call_s
            )
            self.pairs.calls += 1
            if isinstance(timed, BrokenWorker):
                return self._refuse(side, f"{timed.reason}: {timed.detail}")
            if timed.claimed_us < self._floor_us():
                return self._refuse(side, f"{timed.claimed_us:.1f} us is too little to move its bytes")
            calls[side] = _CardCall(
                timed=timed, placement=placement, proof_request=proof_request, at_us=time.monotonic_ns() / 1e3
            )
        return self._unlike(calls, draw.inputs, fetched=fetch_outputs) or calls

    def _draw(self) -> CardDraw:
        """For the judge: random places in the card's stock from which the next call's values are cut."""
        task = self.bench.task
        return CardDraw(
            inputs=self._pool.places(),
            const=tuple(tensor.name for tensor in task.inputs if tensor.constness == "const"),
            rings=self._rings,
            poison=self._poisons.places(decoy=True),
            decoy=self._version,
            cold=task.cache == "cold",
            graph=self.lane == "graph",
        )

    def _unlike(
        self, calls: Mapping[str, _CardCall], places: Mapping[str, RowPlace], *, fetched: bool
    ) -> TimingRefused | None:
        """For the judge: sums of both sides against each other; what differs, and some calls secretly, against the oracle."""
        if not self.options.has("judged_timing") or (self._sums_agree(calls) and not fetched):
            return None
        inputs = self._pool.cut_at(places)
        truth = truth_of(self.bench.reference, inputs)
        for side in "ba":
            card_call, session = calls[side], self._card(side)
            sealed = session.fetch_sealed(self.shape.dims, inputs, card_call.placement, fetch=not fetched)
            if isinstance(sealed, BrokenWorker):
                return self._refuse(side, f"{sealed.reason}: {sealed.detail}")
            for name in judged_names(self.bench.task):
                sums, dtype = card_call.timed.proof.outputs.get(name), self.bench.task.dtype_of(name)
                if sums is None or not is_proof_true(
                    sums, sealed.outputs[name], dtype, self._row, card_call.proof_request
                ):
                    return self._refuse(side, f"output {name} is another than when its sums were asked for")
            if not card_call.timed.proof.guards:
                return self._refuse(side, "memory beside the arrays was overwritten")
            if lines := self.bench.wrong(sealed, truth):
                return self._refuse(side, lines[0])
        return None

    def _sums_agree(self, calls: Mapping[str, _CardCall]) -> bool:
        a, b = calls["a"].timed.proof, calls["b"].timed.proof
        tolerances, names = self.pairs.learn_tolerances(self.shape.label), set(judged_names(self.bench.task))
        if not (a.guards and b.guards) or a.inputs != b.inputs or set(a.outputs) != names or set(b.outputs) != names:
            return False
        return all(
            are_sums_near(
                a.outputs[name],
                b.outputs[name],
                count=self._counts[name],
                tolerance=tolerances[name].l2 * self._sizes[name] + tolerances[name].l2_amount,
            )
            for name in names
        )

    def _contradict_claims(self) -> TimingRefused | None:
        """The judge's own clock must show most of what the workers' timers claim."""
        if len(self.gains) < 3 or not self.options.has("own_clock"):
            return None
        self.pairs.gains.setdefault(self.shape.label, []).extend(self.gains)
        wall, claimed = measure_claims(self.gains)
        if claimed <= 0 or claim_holds(wall_gain_us=wall.mean_us, claimed_gain_us=claimed, error_us=wall.error_us):
            return None
        detail = (
            f"the card's timer claims {claimed:.1f} us less, "
            f"the judge's clock shows {wall.mean_us:.1f} +- {wall.error_us:.1f} us"
        )
        return TimingRefused(side="b", detail=f"{self.shape.label}, timed on a card: {detail}", unclear=True)

    def _floor_us(self) -> float:
        task = self.bench.task
        if task.bytes is None or task.cache != "cold" or not self.options.has("physics"):
            return 0.0
        return bytes_floor_us(evaluate(task.bytes, self.shape.dims), FASTEST_GBPS)

    def _learn_sizes(self, oracle: Mapping[str, NDArray[np.float64]]) -> None:
        """Sizes of a judged call's right numbers, as the root of their mean square."""
        self._counts = {name: values.size for name, values in oracle.items()}
        self._sizes = {
            name: float(np.sqrt(np.mean(np.square(values[np.isfinite(values)])))) if np.isfinite(values).any() else 0.0
            for name, values in oracle.items()
        }

    def _card(self, side: str) -> CardSession:
        session = self.sessions[side]
        if not isinstance(session, CardSession):
            raise TypeError("timing on a card needs sessions on it")
        return session

    def _refuse(self, side: str, detail: str) -> TimingRefused:
        return TimingRefused(side=side, detail=f"{self.shape.label}, timed on a card: {detail}")


# Timed calls that a secret coin chose for the oracle: kept as they were sealed, judged together when no clock runs.

MOST_BYTES = 1 << 28
"""Of inputs and outputs that are kept; with more, they are judged at once."""


@dataclass(frozen=True)
class _AuditedPair:
    inputs: Arrays
    calls: Mapping[str, SealedCall]
    name: str = ""

    @property
    def nbytes(self) -> int:
        arrays = [*self.inputs.values(), *(array for call in self.calls.values() for array in call.outputs.values())]
        return sum(array.nbytes for array in arrays)


@dataclass(kw_only=True)
class AuditedCalls:
    """Pairs of calls, one of each side with the same values, that wait for the oracle.

    The coin falls when both outputs are sealed, so waiting tells a candidate nothing; and one question about many calls
    costs a fraction of as many questions.
    """

    bench: CallJudge
    most_bytes: int = MOST_BYTES
    _waiting: list[_AuditedPair] = field(default_factory=list)
    _bytes: int = 0

    def keep(self, inputs: Arrays, calls: Mapping[str, SealedCall], name: str = "") -> None:
        """For the judge: both sides' calls on these values. The arrays must not change any more. `name` says which call that is."""
        pair = _AuditedPair(inputs, calls, name)
        self._waiting.append(pair)
        self._bytes += pair.nbytes

    @property
    def full(self) -> bool:
        """Whether the judge holds so many pairs of calls that they have `most_bytes` or more."""
        return self._bytes >= self.most_bytes

    def find_wrong(self, sides: str) -> tuple[str, str] | None:
        """For the judge: the first of these sides that was wrong in a kept call, and how. Nothing is kept afterwards.

        Raises ReferenceFailed.
        """
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return None
        truths = truths_of(self.bench.reference, [pair.inputs for pair in waiting])
        for pair, truth in zip(waiting, truths, strict=True):
            if wrong := find_wrong_side(self.bench, pair.calls, truth, sides):
                return (wrong[0], f"{pair.name}: {wrong[1]}") if pair.name else wrong
        return None


def find_wrong_side(
    bench: CallJudge, calls: Mapping[str, SealedCall], truth: Truth, sides: str
) -> tuple[str, str] | None:
    """For the judge: the first of these sides whose call was wrong, and how."""
    for side in sides:
        if lines := bench.wrong(calls[side], truth):
            return side, lines[0]
    return None


# Many calls in one process: what is right for the first hundreds, or after some seconds, and wrong then.

SEALED_SHARE = 0.05
"""Of the long run's calls, secretly chosen, that are held against the reference."""
LAST_CALLS = 3
"""Calls of each size at its end, of which the last is held against it, too; where a gain hangs on it, all."""
LONG_BYTES = 1 << 26
"""Of kept calls of one size, before the reference is asked about them."""
LATE_FACTOR = 2.0
"""A call late in a process may take so many times what it took when it was timed."""


OpenSession = TypeVar("OpenSession")


@dataclass(kw_only=True)
class LongRunAnswers(ABC, Generic[OpenSession]):
    """What many calls in one process say, wherever they are judged. `OpenSession`: what opens a worker."""

    most_calls: int
    most_s: float
    calls: int = 0
    sealed: int = 0
    late_us: dict[str, list[float]] = field(default_factory=dict)
    """By size: times of the second half's calls, made as the timed ones were."""
    pace: PaceCalls = field(default_factory=PaceCalls)
    """Of what nobody looked at, for asking whose work it is; empty where that is asked of a process of its own."""

    @property
    @abstractmethod
    def stops(self) -> Stops:
        """For the judge: the timed calls that late ones are held against."""

    @abstractmethod
    def _run(self, opened: OpenSession, until: float) -> str | None:
        """What was wrong first in the judge's long run, or nothing."""

    def judge(self, correct: QuestionAnswer, opened: OpenSession) -> QuestionAnswer:
        """For the judge: the answer with what this run adds to it: a no for the first call that was wrong."""
        if not self.most_calls or not self.most_s:
            return correct
        began = time.monotonic()
        wrong = self._run(opened, began + self.most_s)
        count = f"{self.calls} calls in one process, {self.sealed} of them held against the reference"
        if wrong:
            return answer_no(wrong, f"found among {count}")
        return answer_yes(*correct.evidence, f"{count}, in {time.monotonic() - began:.1f} s")

    def discount(self, faster: QuestionAnswer) -> QuestionAnswer:
        """For the judge: faster, unless calls late in the process took far longer than when they were timed."""
        detail = find_slowed_size(self.stops, self.late_us)
        return answer_unverified(*faster.evidence, detail) if detail else faster


@dataclass(kw_only=True)
class LongRun(LongRunAnswers[Opened]):
    """Calls of the timed sizes in one process, in secret order, until there were enough or the time is over."""

    pairs: TimedPairs
    bench: CallJudge
    _pools: dict[str, tuple[InputPool, PoisonPool]] = field(default_factory=dict)

    @property
    def stops(self) -> Stops:
        """For the judge: the timed calls that late ones are held against."""
        return self.pairs.stops

    def _run(self, opened: Opened, until: float) -> str | None:
        """What was wrong first in the judge's long run, or nothing."""
        sizes = {shape.label: shape for shape in self.bench.task.timed}
        coin = random.Random(self.bench.rng.bytes(32))
        spent_s = dict.fromkeys(sizes, 0.0)
        calls_by_size = {label: AuditedCalls(bench=self.bench, most_bytes=LONG_BYTES) for label in sizes}
        with opened() as session:
            session.lock_first = self.bench.options.has("isolation")
            if broken := session.open():
                return f"{broken.reason}: {broken.detail}"
            session.look_share = LOOK_SHARE
            if session.lock_first:  # as timed processes are
                for shape in sizes.values() if session.framework == "torch" else ():
                    for _ in range(PLACEMENTS):
                        if wrong := self._call(session, shape, calls_by_size[shape.label], coin, is_last=False):
                            return wrong
                if broken := session.lock():
                    return f"{broken.reason}: {broken.detail}"
            keep_to_one_core(self.bench.task, (session,))  # as timed calls are made
            session.ping_often()
            while self.calls < self.most_calls and time.monotonic() < until:
                # the quick sizes are called more often: each has its share of the time
                label = min(spent_s, key=lambda label: spent_s[label] * coin.uniform(0.5, 1.5))
                began = time.monotonic()
                if wrong := self._call(session, sizes[label], calls_by_size[label], coin, is_last=False):
                    return wrong
                spent_s[label] += time.monotonic() - began
            for label, shape in sizes.items():
                for _ in range(LAST_CALLS):
                    if wrong := self._call(session, shape, calls_by_size[label], coin, is_last=True):
                        return wrong
                if wrong := _second(calls_by_size[label].find_wrong("b")):
                    return wrong
        return None

    def _call(
        self, session: Session, shape: Shape, audited: "AuditedCalls", coin: random.Random, *, is_last: bool
    ) -> str | None:
        """One call of the judge's long run, held against the reference where a coin, which falls when it is over, or its place says so."""
        pool, poisons = self.pairs.open_pools(shape) if shape.label not in self.late_us else self._pools[shape.label]
        if shape.label not in self.late_us:
            self._pools[shape.label], self.late_us[shape.label] = (pool, poisons), []
        inputs, placement = pool.draw(), coin.getrandbits(1)
        sealed = session.call(
            shape.dims, inputs, placement=placement, poison=poisons.draw(), timeout_s=self.bench.options.call_s
        )
        self.calls += 1
        where = f"{shape.label}, call {self.calls} of one process {name_call(pool, shape).mention}"
        if isinstance(sealed, BrokenWorker):
            return f"{where}: {sealed.reason}: {sealed.detail}"
        if lines := self.bench.surroundings(sealed):
            return f"{where}: {lines[0]}"
        if self.calls > self.most_calls // 2 or is_last:
            self.late_us[shape.label].append(sealed.wall_us)
        if is_last or coin.random() < SEALED_SHARE:
            self.sealed += 1
            audited.keep(inputs, {"b": sealed}, where)
        return _second(audited.find_wrong("b")) if audited.full else None


def _second(wrong: tuple[str, str] | None) -> str | None:
    """How a judged side was wrong, without which one."""
    return wrong[1] if wrong else None
