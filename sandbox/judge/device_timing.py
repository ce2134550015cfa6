"""Times two versions on a card in A B B A blocks in fresh process pairs; every timed call is judged where its arrays lie.

Values of every call are drawn anew, so that nothing of one helps the next. Both sides get the same; their outputs are
compared with each other, and where they differ, or a secret coin says so, with the oracle. The worker's events are a
claim that the judge's own clock bounds: it runs until the judge has copied the outputs, so an answer before the work is
done gains nothing. Needs PyTorch.
"""

import math
import os
import random
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from statistics import fmean, median, stdev
from typing import Any

from ridgeline.graph.judgment import TimedCall
from ridgeline.graph.task import Shape
from ridgeline.sandbox.judge import device_numerics
from ridgeline.sandbox.judge.call_names import ConstantNames
from ridgeline.sandbox.judge.correctness import judged_names, list_mixes
from ridgeline.sandbox.judge.device_judge import DeviceCallJudge, DeviceTruth, Opened
from ridgeline.sandbox.judge.device_session import DeviceSealed, DeviceSession, MemoryPlan, array_bytes, plan_memory
from ridgeline.sandbox.judge.numerics import Tolerance
from ridgeline.sandbox.judge.session import BrokenWorker
from ridgeline.sandbox.judge.shared_buffers import buffer_specs
from ridgeline.sandbox.judge.timing import (
    CARD_KEPT_WARM_S,
    CARD_WARM_UP_S,
    CLAIM_SHARE,
    LAST_CALLS,
    LEAST_SHARE,
    LEAST_US,
    LOOK_SHARE,
    ORDERS,
    PROCESS_CHECK_SHARE,
    SEALED_SHARE,
    SHOWN_ERRORS,
    STANDARD_ERRORS,
    WARM_UP,
    ClockedGain,
    LongRunAnswers,
    Stops,
    TimingRefused,
    bytes_share,
    claim_holds,
    find_late_stops,
    find_unseen_gain,
    measure_claims,
    shuffle_mixes,
)

torch: Any = import_module("torch")
Tensor = Any
Tensors = Mapping[str, Any]
COPIES = 5
QUEUE_CYCLES = 2_000_000
"""Of the card's clock, a millisecond or more: until the copies are all given to it."""

OFFSET_US = 20.0
"""How far the judge's clock differs between two processes of one version by what is neither's: standard deviation. Of
some sixty comparisons on an H100, each of processes on cores of their own, two were off by 54 and 70 us."""


CHAIN_US = 4000.0
"""Calls in a row take about so long together: the judge's clock is off by `OFFSET_US` for all of them, not for each."""
LEAST_CHAIN, MOST_CHAIN = 3, 128
CHAIN_PAIRS, MOST_CHAIN_PAIRS = 3, 6
"""Of either side, after one that nothing is read of: the first replay of a graph puts it on the card. More where these
do not show a claim: other work can only make a side slower, so the fastest of each counts."""
CHAIN_SCATTER_US = 30.0
"""Of the judge's clock between two exchanges with one process: standard deviation."""
CHAIN_CLAIM = 0.01
"""Of the older version's time: a claimed gain below that is not asked about."""
CHAIN_SHARE = 0.5
"""Of a claimed gain that calls in a row must show: they find the card's instruction cache and page tables warm."""
SHOWN_AGAIN = 1.25
"""Times a gain that was shown, up to which a later process pair's claim is not asked about again."""
CHAIN_BYTES, CHAIN_MEMORY = 16 << 30, 0.4
"""What their arrays take at most: bytes, and share of what is free."""
CHAIN_MARGIN = 0.5
"""Of what calls in a row must show: by no more the judge's clock may be off. So often they are done again, on the same arrays."""
CHAIN_AGREED = 2 / 3
"""Of all pairs of calls in a row, each of which shows a gain by itself where they show it."""
MOST_CHAIN_US = 100_000.0
"""All of them with all repeats, on one side."""


def count_chain(call_us: float, call_bytes: int, free_bytes: int) -> int:
    """The judge on a card: how many calls in a row the judge's clock is asked about; less than `LEAST_CHAIN` for calls of milliseconds.

    `call_bytes`: of one call's arrays with all copies.
    """
    by_memory = int(min(CHAIN_BYTES, CHAIN_MEMORY * free_bytes) / max(call_bytes, 1))
    return min(MOST_CHAIN, math.ceil(CHAIN_US / max(call_us, LEAST_US)), by_memory)


def clock_error_us(calls: int) -> float:
    """The judge on a card: by how much its clock is off for one of so many calls in a row: standard deviation."""
    return math.hypot(OFFSET_US, CHAIN_SCATTER_US) / calls


def count_repeats(count: int, claimed_us: float, call_us: float) -> int:
    """The judge on a card: how often so many calls in a row are made for the judge's clock to show that gain a call."""
    wanted = STANDARD_ERRORS * clock_error_us(count) / max(CHAIN_MARGIN * CHAIN_SHARE * claimed_us, 1e-9)
    return max(1, math.ceil(min(wanted, MOST_CHAIN_US / (count * max(call_us, LEAST_US)))))


def is_chain_alike(walls_us: Mapping[str, Sequence[float]], wanted_us: tuple[float, float]) -> bool:
    """The judge on a card: whether calls in a row show a gain between these, us: the fastest of either side, and most of them pair by pair.

    On a busy machine times of calls in a row scatter by more than is to be seen, and some show anything.
    """
    least_us, most_us = wanted_us
    gains_us = [a_us - b_us for a_us, b_us in zip(walls_us["a"], walls_us["b"], strict=True)]
    showing = sum(least_us <= gain_us <= most_us for gain_us in gains_us)
    fastest_us = min(walls_us["a"]) - min(walls_us["b"])
    return least_us <= fastest_us <= most_us and showing >= CHAIN_AGREED * len(gains_us)


def is_seen(wall: ClockedGain, claimed_us: float) -> bool:
    """The judge on a card: whether single calls show a claimed gain by the judge's clock.

    Far more than is claimed shows nothing: on a card that others use too, a process waits for its turn by milliseconds.
    """
    shown_us = wall.mean_us - STANDARD_ERRORS * math.hypot(wall.error_us, OFFSET_US)
    return CLAIM_SHARE * claimed_us <= shown_us <= claimed_us / CLAIM_SHARE


LEAST_BLOCKS = 4
SIZE_S = 1.0
"""All blocks of one size in one process pair, where that are `LEAST_BLOCKS` or more: gigabytes take long to draw, to copy
and to compare, and a kernel of milliseconds scatters little."""


def count_blocks(most: int, block_s: float) -> int:
    """The judge on a card: how many of a size are timed, by its last one that warmed up; neither side's speed alone decides."""
    return min(most, max(LEAST_BLOCKS, int(SIZE_S / max(block_s, 1e-6))))


@dataclass(kw_only=True)
class DevicePairs:
    """Times candidate `b` against `a` on a card."""

    bench: DeviceCallJudge
    calls: int = 0
    gains: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By size: of each pair of calls, us: a less b by the judge's clock, and by the workers' claims."""
    decks: dict[str, list[str]] = field(default_factory=dict)
    """By size: kinds of values that calls between the timed ones have not had yet."""
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Of this process, by step, over all pairs."""
    plans: dict[str, MemoryPlan] = field(default_factory=dict)
    """By size."""
    stops: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    """By size and side: of each call, us from its answer until the worker stood still, and until it."""
    lanes: dict[str, str] = field(default_factory=dict)
    """By size: how its calls were timed."""
    versions: tuple[str, str] | None = None
    """Digests of a and b, by which what the judge's clock says is kept over process pairs; None keeps nothing."""
    is_one_version: bool = False
    """Both sides are the same, as in a calibration: neither can gain, whatever a timer claims by chance."""
    _tolerances: dict[str, dict[str, Tolerance]] = field(default_factory=dict)
    _floors_us: dict[str, float] = field(default_factory=dict)
    _clocked: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    _shown_us: dict[str, float] = field(default_factory=dict)
    """By size and versions: the claimed gain that calls in a row have shown."""
    _chains: dict[str, tuple[int, float, bool]] = field(default_factory=dict)
    """By size: as many calls in a row could be asked about on a card without other work, the older version's time, us, and
    whether they may be made again on the same arrays."""

    def is_shown(self, label: str, claimed_us: float) -> bool:
        """The judge on a card: whether calls in a row have shown as much of that size in a process pair of this command."""
        return self.versions is not None and claimed_us <= SHOWN_AGAIN * self._shown_us.get(self._name(label), 0.0)

    def note_shown(self, label: str, claimed_us: float) -> None:
        """The judge on a card: calls in a row have shown that gain."""
        self._shown_us[self._name(label)] = claimed_us

    def _name(self, label: str) -> str:
        return " ".join((label, *(self.versions or ())))

    def add_clocked(self, label: str, wall_us: float, claimed_us: float) -> list[tuple[float, float]]:
        """Of every process pair of these versions at that size: a less b by the judge's clock, and as claimed, in us."""
        if self.versions is None:
            return [(wall_us, claimed_us)]
        sign = 1.0 if self.versions[0] <= self.versions[1] else -1.0
        kept = self._clocked.setdefault(" ".join((label, *sorted(self.versions))), [])
        kept.append((sign * wall_us, sign * claimed_us))
        return self.list_clocked(label)

    def list_clocked(self, label: str) -> list[tuple[float, float]]:
        """What `add_clocked` has kept of these versions at that size."""
        sides = self.versions or ()
        sign = 1.0 if sides == tuple(sorted(sides)) else -1.0
        kept = self._clocked.get(" ".join((label, *sorted(sides))), [])
        return [(sign * wall, sign * claimed) for wall, claimed in kept]

    def share_pools(self) -> "DevicePairs":
        """The judge on a card: for one version beside itself: with what was learned of sizes, and no times."""
        return DevicePairs(
            bench=self.bench,
            seconds=self.seconds,
            is_one_version=True,
            _tolerances=self._tolerances,
            _floors_us=self._floors_us,
        )

    def find_late_work(self) -> str | None:
        """The judge on a card: where the newer side is at work after most of its answers, and the other is not."""
        return find_late_stops(self.stops) if self.stops and self.bench.options.has("own_clock") else None

    def find_unseen_gain(self) -> str | None:
        """What the judge's own clock says of a size whose claimed gain it does not show; None where it shows all."""
        return find_unseen_gain(self.gains)

    def note_chain(self, label: str, count: int, a_us: float, *, is_repeated: bool) -> None:
        """The judge on a card: what calls in a row of that size can be asked about."""
        self._chains[label] = count, a_us, is_repeated

    def find_unasked_gain(self) -> str | None:
        """A size whose claimed gain calls in a row could show, and did not, nor the judge's clock by single calls; None where none is.

        In no process pair its claims were alike enough to ask, or there was the memory to, or they showed something else: a
        card at other work.
        """
        if self.is_one_version:
            return "both sides are the same version, so neither can gain"
        for label, (count, a_us, is_repeated) in self._chains.items():
            wall, claimed_us = measure_claims(self.gains[label])
            if count < LEAST_CHAIN or claimed_us < CHAIN_CLAIM * a_us:
                continue
            calls = count * (count_repeats(count, claimed_us, a_us) if is_repeated else 1)
            if CHAIN_SHARE * claimed_us <= STANDARD_ERRORS * clock_error_us(calls):
                continue
            if not is_seen(wall, claimed_us) and not self.is_shown(label, claimed_us):
                return (
                    f"{label}: the card's timer claims {claimed_us:.1f} us less a call, and {count} calls in a row have not shown "
                    f"it by the judge's clock: times scatter, or memory is short, as on a card at other work"
                )
        return None

    def run(
        self, opened: Mapping[str, Opened], shapes: Sequence[Shape], blocks: int
    ) -> list[TimedCall] | TimingRefused:
        """The judge on a card: one process pair: both sides are started at once, then take turns. Raises SizeTooLarge."""
        placements = min(self.plan(shape).placements for shape in shapes)
        with ExitStack() as stack:
            with self.spent("open"):
                sessions = {side: stack.enter_context(opened[side]()) for side in "ab"}
                cores = sorted(os.sched_getaffinity(0))
                core = secrets.choice(cores) if self.bench.reference.device != "cpu" and len(cores) > 1 else None
                for session in sessions.values():
                    session.placements = placements
                    session.pin(core)  # both to one: what a core costs is no version's
                with ThreadPoolExecutor(len(sessions)) as starters:
                    opening = {side: starters.submit(session.open) for side, session in sessions.items()}
                for side, future in opening.items():
                    if broken := future.result():
                        return TimingRefused(side=side, detail=f"{broken.reason}: {broken.detail}")
            calls: list[TimedCall] = []
            every = [DeviceTurns(pairs=self, sessions=sessions, shape=shape) for shape in shapes]
            if refused := self._lock(every, sessions):
                return refused
            for number, turns in enumerate(every):
                warm_s = CARD_WARM_UP_S if number == 0 else CARD_KEPT_WARM_S
                timed = turns.run(blocks, prepared=len(every) == 1, warm_s=warm_s)
                if isinstance(timed, TimingRefused):
                    return timed
                calls += timed
            with self.spent("calls in a row"):
                for turns in every:  # behind all sizes: their arrays take memory that others' could need
                    if refused := turns.contradict_by_chain():
                        return refused
                calls = [call for turns in every for call in turns.count_lesser(calls)]
            with self.spent("close"):
                stack.close()
            return calls

    def _lock(self, every: Sequence["DeviceTurns"], sessions: Mapping[str, DeviceSession]) -> TimingRefused | None:
        """The judge on a card: first calls of every size, which compile; then neither worker can start a process any more."""
        for turns in every:
            with self.spent("prepare"):
                refused = turns.prepare()
            if refused:
                return refused
        for side, session in sessions.items():
            if self.bench.options.has("isolation") and (broken := session.lock()):
                return TimingRefused(side=side, detail=f"{broken.reason}: {broken.detail}")
        return None

    def plan(self, shape: Shape) -> MemoryPlan:
        """The judge on a card: what a process pair of that size takes of the card, made before the first. Raises SizeTooLarge."""
        if shape.label not in self.plans:
            reference = self.bench.reference
            self.plans[shape.label] = plan_memory(
                self.bench.task,
                shape.dims,
                oracle_bytes=reference.least_bytes(shape.dims),
                free_bytes=reference.free_bytes(),
            )
        return self.plans[shape.label]

    @contextmanager
    def spent(self, step: str) -> Iterator[None]:
        """The judge on a card: count what is done in it to a step."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] += time.perf_counter() - began

    def tolerances(self, label: str) -> dict[str, Tolerance] | None:
        """The judge on a card: by how much two right outputs of that size may differ; None where it was not learned yet."""
        return self._tolerances.get(label)

    def learn(self, label: str, tolerances: dict[str, Tolerance]) -> None:
        """The judge on a card: keep them for the process pairs to come."""
        self._tolerances[label] = tolerances

    def floor_us(self, shape: Shape, device: str) -> float:
        """The judge on a card: less than this no call of that size takes that moves its bytes: a share of a plain copy, measured once."""
        if device == "cpu":
            return 0.0  # no card: what its memory can is not known
        if shape.label not in self._floors_us:
            half = torch.empty(max(array_bytes(self.bench.task, shape.dims) // 2, 1), dtype=torch.uint8, device=device)
            target = torch.empty_like(half)
            copy_us = min(_time_copies(target, half))
            self._floors_us[shape.label] = LEAST_SHARE * bytes_share(self.bench.task, shape.dims) * copy_us
        return self._floors_us[shape.label]


def _time_copies(target: Tensor, source: Tensor) -> list[float]:
    """The judge on a card: microseconds of some copies, by events, behind other work: waiting for the host is no part of them."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(COPIES)]
    torch.cuda._sleep(QUEUE_CYCLES)
    for before, after in events:
        before.record()
        target.copy_(source)
        after.record()
    torch.cuda.synchronize()
    return [float(before.elapsed_time(after) * 1e3) for before, after in events]


@dataclass(frozen=True, kw_only=True)
class _DeviceCall:
    """One side's call."""

    sealed: DeviceSealed
    at_us: float


@dataclass(kw_only=True)
class DeviceTurns:
    """The calls of one size in one process pair."""

    pairs: DevicePairs
    sessions: Mapping[str, DeviceSession]
    shape: Shape
    gains: list[tuple[float, float]] = field(default_factory=list)
    """Of each pair of calls, us: a less b by the judge's clock, and by the workers' claims."""
    lane: str = "eager"
    lead_us: float | None = None
    """What calls in a row surely show of b's lead, where that is less than is claimed and counts (`Options.lesser_clock`)."""

    def __post_init__(self) -> None:
        self.bench, self.options = self.pairs.bench, self.pairs.bench.options
        self._coin = random.Random(self.bench.rng.bytes(32))
        self._constants: dict[str, Tensor] = {}
        self._names = ConstantNames(self.bench.task, card=True)
        self._decoy: Tensors | None = None
        self._probe_at: Counter[tuple[int, int]] = Counter()
        self._claims: dict[str, list[float]] = {"a": [], "b": []}
        self._chain_claims: dict[str, list[float]] = {"a": [], "b": []}
        self._stops = self.pairs.stops.setdefault(self.shape.label, {"a": [], "b": []})
        self._deck = self.pairs.decks.setdefault(self.shape.label, [])

    def run(
        self, blocks: int, *, prepared: bool = False, warm_s: float = CARD_WARM_UP_S
    ) -> list[TimedCall] | TimingRefused:
        """All blocks, after calls that warm both sides up, for `warm_s` at least, and are judged like the others.
        `prepared`: for this size last of all."""
        if not prepared:
            with self.pairs.spent("prepare"):
                refused = self.prepare(again=True)
            if refused:
                return refused
        calls: list[TimedCall] = []
        warm = time.monotonic() + (warm_s if self.bench.reference.device != "cpu" else 0.0)
        block = -WARM_UP
        while block < blocks:
            began = time.monotonic()
            with self.pairs.spent("warm up" if block < 0 else "blocks"):
                timed = self._block(block)
            if isinstance(timed, TimingRefused):
                return timed
            calls += timed if block >= 0 else []
            block += 1 if block != -1 or time.monotonic() > warm else 0
            if block == 0 and not calls:
                blocks = count_blocks(blocks, time.monotonic() - began)
                self._schedule_unusual(blocks)
        return self._find_overwritten() or self._find_sibling_processes() or self._contradict_claims() or calls

    def _schedule_unusual(self, blocks: int) -> None:
        """The judge on a card: one call with unusual values somewhere between the timed ones."""
        if self.options.has("judged_timing") and self.options.has("mixes"):
            self._probe_at[self._coin.randrange(blocks), self._coin.choice((0, 2))] += 1

    def prepare(self, *, again: bool = False) -> TimingRefused | None:
        """The judge on a card: the first call of either side against the oracle, what answers may differ by, how calls are made.

        `again`: after other sizes; then those calls are judged as timed ones are.
        """
        truth, lanes = self._draw(), set[str]()
        for session in self.sessions.values():
            session.lane = "eager"
        count = max(session.placements for session in self.sessions.values())
        for placement in self._coin.sample(range(count), count):
            calls: dict[str, DeviceSealed] = {}
            for side, session in self.sessions.items():
                sealed = session.call_device(
                    self.shape.dims, truth.inputs, placement=placement, decoy=None, timeout_s=self.options.call_s
                )
                if isinstance(sealed, BrokenWorker):
                    return self._refuse(side, f"{sealed.reason}: {sealed.detail}", truth)
                calls[side] = sealed
            with self.pairs.spent("prepare: oracle and comparison"):
                is_known = again and self.options.has("judged_timing")
                refused = self._find_wrong(truth, calls) if is_known else self._find_fault(calls, truth)
            if refused:
                return refused
            self._decoy = calls["a"].outputs
        for side, session in self.sessions.items():
            if self.bench.reference.device != "cpu":
                lane = session.capture_device(self.shape.dims)
                if isinstance(lane, BrokenWorker):
                    return self._refuse(side, f"{lane.reason}: {lane.detail}")
                lanes.add(lane.split()[0])
        self.lane = self.pairs.lanes[self.shape.label] = "graph" if lanes == {"graph"} else "eager"
        for session in self.sessions.values():
            session.lane = self.lane
        if self.pairs.tolerances(self.shape.label) is None:
            with self.pairs.spent("prepare: tolerances"):
                self.pairs.learn(self.shape.label, self.bench.learn_tolerances(truth))
        return None

    def _block(self, block: int) -> list[TimedCall] | TimingRefused:
        calls: list[TimedCall] = []
        order = ORDERS[self._coin.randrange(len(ORDERS))]
        for place in (0, 2):
            for _ in range(self._probe_at[block, place]):
                with self.pairs.spent("calls with unusual values"):
                    refused = self._call_unusual()
                if refused:
                    return refused
            both = self._call_both(order[place : place + 2])
            if isinstance(both, TimingRefused):
                return both
            for number, (side, call) in enumerate(both.items()):
                calls.append(
                    TimedCall(
                        label=self.shape.label,
                        block=block,
                        slot=place + number,
                        side=side,
                        time_us=max(call.sealed.claimed_us, LEAST_US),
                        claimed_us=call.sealed.claimed_us,
                        at_us=call.at_us,
                    )
                )
            if block >= 0:
                a, b = both["a"].sealed, both["b"].sealed
                self.gains.append((a.wall_us - b.wall_us, a.claimed_us - b.claimed_us))
                for side, call in both.items():
                    self._claims[side].append(call.sealed.claimed_us)
        return calls

    def _call_both(self, order: str) -> dict[str, _DeviceCall] | TimingRefused:
        """The judge on a card: one call of each side with the same values, and what is wrong with either."""
        truth = self._draw()
        calls: dict[str, _DeviceCall] = {}
        for side in order:
            look = self._coin.random() < LOOK_SHARE
            sealed = self.sessions[side].call_device(
                self.shape.dims,
                truth.inputs,
                placement=self._placement(),
                decoy=self._decoy,
                look=look,
                timeout_s=self.options.call_s,
            )
            self.pairs.calls += 1
            if isinstance(sealed, BrokenWorker):
                return self._refuse(side, f"{sealed.reason}: {sealed.detail}", truth)
            if self.options.has("physics") and sealed.claimed_us < self.pairs.floor_us(
                self.shape, self.bench.reference.device
            ):
                return self._refuse(side, f"{sealed.claimed_us:.1f} us is too little to move its bytes")
            self._stops[side].append((sealed.stop_us, sealed.called_us))
            calls[side] = _DeviceCall(sealed=sealed, at_us=time.monotonic_ns() / 1e3)
            if self._coin.random() < PROCESS_CHECK_SHARE and (company := self._find_sibling_processes()):
                return company
        return self._find_wrong(truth, {side: call.sealed for side, call in calls.items()}) or calls

    def _find_wrong(self, truth: DeviceTruth, calls: Mapping[str, DeviceSealed]) -> TimingRefused | None:
        """The judge on a card: each call against the other side's on the same values, and some of them, secretly, against the oracle."""
        if not self.options.has("judged_timing"):
            return None
        for side, call in calls.items():
            if lines := self.bench.surroundings(call):
                return self._refuse(side, lines[0], truth)
        tolerances = self.pairs.tolerances(self.shape.label) or {}
        task = self.bench.task
        alike = all(
            device_numerics.agree(
                calls["b"].outputs[name],
                calls["a"].outputs[name],
                dtype=task.dtype_of(name),
                within=tolerances[name],
            )
            for name in judged_names(task)
        )
        if alike:
            self._decoy = calls["ab"[self._coin.getrandbits(1)]].outputs
        if alike and self._coin.random() >= self.options.oracle_share:
            return None
        with self.pairs.spent("oracle"):
            return self._find_fault(calls, truth)

    def _find_fault(self, calls: Mapping[str, DeviceSealed], truth: DeviceTruth, mix: str = "") -> TimingRefused | None:
        """The judge on a card: what the oracle finds in both sides' calls with the same values: the newer side's fault first."""
        wrong = self.bench.find_wrong(calls, truth)
        side = next((side for side in "ba" if side in wrong), None)
        return self._refuse(side, f"{mix}: {wrong[side][0]}" if mix else wrong[side][0], truth) if side else None

    def _call_unusual(self) -> TimingRefused | None:
        """The judge on a card: a call of either side that is not timed, with values of another kind: what is right only in tests shows."""
        if not self._deck:
            self._deck += shuffle_mixes(self._coin, tested=list_mixes(self.bench.task, self.shape))
        mix, dims = self._deck.pop(), self.shape.dims
        truth = self.bench.draw_with_truth(dims, mix, lambda inputs: {**inputs, **self._constants})
        calls: dict[str, DeviceSealed] = {}
        for side in self._coin.sample("ab", 2):
            sealed = self.sessions[side].call_device(
                dims, truth.inputs, placement=self._placement(), decoy=self._decoy, timeout_s=self.options.call_s
            )
            self.pairs.calls += 1
            if isinstance(sealed, BrokenWorker):
                return self._refuse(side, f"{sealed.reason}: {sealed.detail}", truth)
            calls[side] = sealed
        return self._find_fault(calls, truth, mix)

    def _draw(self) -> DeviceTruth:
        """The judge on a card: new values of all inputs; constant ones as they were first. What is right is asked when it is needed."""
        truth = self.bench.draw_timed(self.shape.dims, self._constants)
        self._names.name_call(self.shape.dims, truth.values)  # the first one names the constant inputs of all
        return truth

    def _placement(self) -> int:
        return self._coin.getrandbits(1) if self.options.has("addresses") else 0

    def _find_overwritten(self) -> TimingRefused | None:
        for side, session in self.sessions.items():
            if self.options.has("guards") and (names := session.find_overwritten(self.shape.dims)):
                return self._refuse(side, f"memory beside {names[0]} was overwritten")
        return None

    def _find_sibling_processes(self) -> TimingRefused | None:
        """The judge on a card: other processes of a candidate may work, or watch, while its own stands still."""
        for side, session in self.sessions.items():
            if self.options.has("isolation") and (more := session.processes()):
                detail = f"{self.shape.label}: {more} more processes run beside it"
                return TimingRefused(side=side, detail=detail, unclear=True)
        return None

    def _claims_nothing(self) -> bool:
        return len(self.gains) < 3 or self.pairs.is_one_version or not self.options.has("own_clock")

    def _contradict_claims(self) -> TimingRefused | None:
        """The judge's own clock must show most of what the workers' timers claim."""
        if self._claims_nothing():
            return None
        self.pairs.gains.setdefault(self.shape.label, []).extend(self.gains)
        wall, claimed = measure_claims(self.gains)
        pairs = self.pairs.add_clocked(self.shape.label, wall.mean_us, claimed)
        wall_us, claimed_us = (fmean(values) for values in zip(*pairs, strict=True))
        error_us = math.hypot(wall.error_us, OFFSET_US) / math.sqrt(len(pairs))
        if claimed_us <= 0 or claim_holds(wall_gain_us=wall_us, claimed_gain_us=claimed_us, error_us=error_us):
            return None
        detail = (
            f"the card's timer claims {claimed_us:.1f} us less, "
            f"the judge's clock shows {wall_us:.1f} +- {error_us:.1f} us in {len(pairs)} process pairs"
        )
        return TimingRefused(side="b", detail=f"{self.shape.label}, timed on a card: {detail}", unclear=True)

    def contradict_by_chain(self) -> TimingRefused | None:
        """Calls in a row, each with values of its own, must show most of a claimed gain by the judge's own clock.

        It is off by tens of microseconds for an exchange with a worker, however many calls are made in it, and however often.
        Asked in a command until a size of two versions has shown it, where one call's clock is too coarse for the claim.
        What is far beyond the claim shows nothing.
        """
        label, bench = self.shape.label, self.bench
        if self._claims_nothing():
            return None
        wall, claimed_us = measure_claims(self.gains)
        a_us, b_us = (median(self._claims[side]) for side in "ab")
        claims = [gain_us for _, gain_us in self.gains]
        # a card at other work throws some far off
        trimmed, _ = measure_claims([(gain_us, gain_us) for gain_us in claims])
        scatter_us = min(stdev(claims) / math.sqrt(len(claims)), trimmed.error_us)
        pair_claims = [claim_us for _, claim_us in self.pairs.list_clocked(label)]  # this pair's is the last
        if len(pair_claims) >= 3 and (together_us := stdev(pair_claims) / math.sqrt(len(pair_claims))) < scatter_us:
            claimed_us, scatter_us = fmean(pair_claims), together_us  # what all pairs say is known better
        # what a call leaves in an input asks the next one another question
        is_repeated = all(spec.constness != "mutated" for spec in bench.task.inputs)
        most = self._count_chain(min(a_us, b_us), bench.reference.total_bytes())
        self.pairs.note_chain(label, most, a_us, is_repeated=is_repeated)
        if claimed_us < max(CHAIN_CLAIM * a_us, SHOWN_ERRORS * scatter_us) or self.pairs.is_shown(label, claimed_us):
            return None
        if is_seen(wall, claimed_us):
            return None
        count = self._count_chain(min(a_us, b_us), bench.reference.free_bytes())
        if count < LEAST_CHAIN:
            return None
        for session in self.sessions.values():
            session.lane = self.lane
        repeats = count_repeats(count, claimed_us, max(a_us, b_us)) if is_repeated else 1
        error_us = math.hypot(clock_error_us(count * repeats), scatter_us)
        wanted_us = CHAIN_SHARE * claimed_us, claimed_us / CHAIN_SHARE
        walls_us = self._time_chain(count, repeats, wanted_us)
        if isinstance(walls_us, TimingRefused):
            return walls_us
        gain_us = min(walls_us["a"]) - min(walls_us["b"])
        if is_chain_alike(walls_us, wanted_us):
            self.pairs.note_shown(label, claimed_us)
        least_us = wanted_us[0] - STANDARD_ERRORS * error_us
        if gain_us >= least_us or least_us <= 0:
            return None  # shown, or neither shown nor contradicted
        surely_us = gain_us - STANDARD_ERRORS * error_us
        if self.options.lesser_clock and surely_us > 0:
            self.lead_us = surely_us
            return None
        detail = (
            f"the card's timer claims {claimed_us:.1f} us less a call, and {count} calls in a row show {gain_us:.1f} us "
            f"by the judge's clock, where {least_us:.1f} us were to be seen{self._describe_chain_claims()}"
        )
        return TimingRefused(side="b", detail=f"{label}, timed on a card: {detail}", unclear=True)

    def _describe_chain_claims(self) -> str:
        """The judge on a card: what the workers' timer says of the calls in a row that the judge's clock was asked about. Where the
        two agree, calls in a row cost something else than single ones; where they do not, one of them is wrong."""
        if not all(self._chain_claims.values()):
            return ""
        a_us, b_us = (min(self._chain_claims[side]) for side in "ab")
        return f" (the card's timer has those at {b_us:.1f} us a call, against {a_us:.1f} us)"

    def count_lesser(self, calls: Sequence[TimedCall]) -> list[TimedCall]:
        """The judge on a card: those of this size among a pair's calls; a's as much shorter as makes b's lead what calls in a row show."""
        own = [call for call in calls if call.label == self.shape.label]
        if self.lead_us is None:
            return own
        a_us, b_us = (median(self._claims[side]) for side in "ab")
        share = min(1.0, (b_us + self.lead_us) / a_us)
        return [replace(call, time_us=call.time_us * share) if call.side == "a" else call for call in own]

    def _time_chain(
        self, count: int, repeats: int, wanted_us: tuple[float, float]
    ) -> dict[str, list[float]] | TimingRefused:
        """The judge on a card: of calls in a row, us of one call by the judge's clock, each time by side.

        There are no more of them once they show a gain from `wanted_us[0]` to `wanted_us[1]`.
        """
        truths = [self._draw() for _ in range(count)]
        for side, session in self.sessions.items():
            lane = session.open_chain(self.shape.dims, [truth.inputs for truth in truths])
            if isinstance(lane, BrokenWorker):
                return self._refuse(side, f"{count} calls in a row: {lane.reason}: {lane.detail}")
            if lane.split()[0] != self.lane:
                detail = f"one call can be made into a graph, and {count} in a row cannot: {lane}"
                return TimingRefused(side=side, detail=f"{self.shape.label}, timed on a card: {detail}", unclear=True)
        order, walls_us = self._coin.choice(("ab", "ba")), {"a": list[float](), "b": list[float]()}
        for number in range(-1, MOST_CHAIN_PAIRS):
            calls: dict[str, list[DeviceSealed]] = {}
            for side in order if number % 2 else order[::-1]:
                inputs = [truth.inputs for truth in truths]
                sealed = self.sessions[side].call_chain(
                    inputs, decoy=self._decoy, times=repeats, timeout_s=self.options.call_s
                )
                self.pairs.calls += count * repeats
                if isinstance(sealed, BrokenWorker):
                    return self._refuse(side, f"{count} calls in a row: {sealed.reason}: {sealed.detail}")
                calls[side] = sealed
                if number >= 0:
                    walls_us[side].append(sealed[0].wall_us)
                    self._chain_claims[side].append(sealed[0].claimed_us)
            for truth, *both in zip(truths, *calls.values(), strict=True):
                if refused := self._find_wrong(truth, dict(zip(calls, both, strict=True))):
                    return refused
            if number >= CHAIN_PAIRS - 1 and is_chain_alike(walls_us, wanted_us):
                break
            truths = [self._draw() for _ in range(count)]
        for session in self.sessions.values():
            session.close_chain()
        return walls_us

    def _count_chain(self, call_us: float, free_bytes: int) -> int:
        return count_chain(call_us, self._chain_bytes(), free_bytes)

    def _chain_bytes(self) -> int:
        """The judge on a card: of one of the calls in a row: both workers' arrays, its values, copies of outputs and what a graph keeps."""
        task, dims = self.bench.task, self.shape.dims
        judged = sum(spec.nbytes for spec in buffer_specs(task, dims) if spec.judged)
        return 3 * array_bytes(task, dims) + 4 * judged

    def _refuse(self, side: str, detail: str, truth: DeviceTruth | None = None) -> TimingRefused:
        """The judge on a card: `truth`: of the call that shows it."""
        mention = self._names.mention(self.shape.dims, truth.values) if truth else ""
        place = " ".join((f"{self.shape.label}, timed on a card", mention)).strip()
        return TimingRefused(side=side, detail=f"{place}: {detail}")


# Many calls in one process, as `timing.LongRun` makes them.

STRETCH_CALLS = (20, 60)
"""Calls of one size in a row, before another has its turn: taking another costs as much as some calls."""


@dataclass(kw_only=True)
class DeviceLongRun(LongRunAnswers[Opened]):
    """Calls of the timed sizes in one process, in secret order, until there were enough or the time is over."""

    pairs: DevicePairs
    bench: DeviceCallJudge
    last_sealed: int = LAST_CALLS
    """Of the last calls of each size."""

    @property
    def stops(self) -> Stops:
        """The judge on a card: the timed calls that late ones are held against."""
        return self.pairs.stops

    def __post_init__(self) -> None:
        self._coin = random.Random(self.bench.rng.bytes(32))
        self._constants: defaultdict[str, dict[str, Tensor]] = defaultdict(dict)
        self._names = ConstantNames(self.bench.task, card=True)
        self._decoys: dict[str, Tensors] = {}
        self._begun: set[str] = set()
        """Sizes whose calls are late ones from here on."""

    def _run(self, opened: Opened, until: float) -> str | None:
        """The judge on a card: what was wrong first, or nothing."""
        sizes = {shape.label: shape for shape in self.bench.task.timed}
        placements = {label: self.pairs.plan(shape).placements for label, shape in sizes.items()}
        spent_s = dict.fromkeys(sizes, 0.0)
        with opened() as session:
            session.placements = min(placements.values())
            if broken := session.open():
                return f"{broken.reason}: {broken.detail}"
            session.ping_often()
            while self.calls < self.most_calls and time.monotonic() < until:
                label = min(spent_s, key=lambda label: spent_s[label] * self._coin.uniform(0.5, 1.5))
                began = time.monotonic()
                if wrong := self._run_stretch(session, sizes[label], min(until, began + self.most_s / len(sizes))):
                    return wrong
                spent_s[label] += time.monotonic() - began
                self._begun.add(label)
            for shape in sizes.values():
                for number in range(LAST_CALLS):
                    if number == LAST_CALLS - 1:
                        self._begun.add(shape.label)  # the time may have been over before its turn
                    if wrong := self._call(session, shape, is_sealed=number >= LAST_CALLS - self.last_sealed):
                        return wrong
                if names := session.find_overwritten(shape.dims):
                    return f"{shape.label}, call {self.calls} of one process: memory beside {names[0]} was overwritten"
        return None

    def _run_stretch(self, session: DeviceSession, shape: Shape, until: float) -> str | None:
        """The judge on a card: some calls of one size; half of them as a graph where that is how it was timed."""
        session.lane = "eager"
        if wrong := self._call(session, shape, is_sealed=False):
            return wrong
        graphs = False
        if self.pairs.lanes.get(shape.label) == "graph":
            lane = session.capture_device(shape.dims)
            if isinstance(lane, BrokenWorker):
                return f"{shape.label}, call {self.calls} of one process: {lane.reason}: {lane.detail}"
            graphs = lane.startswith("graph")
        for _ in range(self._coin.randint(*STRETCH_CALLS)):
            if time.monotonic() > until or self.calls >= self.most_calls:
                break
            session.lane = "graph" if graphs and self._coin.getrandbits(1) else "eager"
            if wrong := self._call(session, shape, is_sealed=False):
                return wrong
        session.lane = "eager"
        return None

    def _call(self, session: DeviceSession, shape: Shape, *, is_sealed: bool) -> str | None:
        """The judge on a card: one call, held against the reference where a coin, which falls when it is over, or its place says so."""
        truth = self.bench.draw_timed(shape.dims, self._constants[shape.label])
        mention = self._names.mention(shape.dims, truth.values)
        sealed = session.call_device(
            shape.dims,
            truth.inputs,
            placement=self._coin.getrandbits(1),
            decoy=self._decoys.get(shape.label),
            look=self._coin.random() < LOOK_SHARE,
            timeout_s=self.bench.options.call_s,
        )
        self.calls += 1
        place = f"{shape.label}, call {self.calls} of one process {mention}"
        if isinstance(sealed, BrokenWorker):
            return f"{place}: {sealed.reason}: {sealed.detail}"
        if lines := self.bench.surroundings(sealed):
            return f"{place}: {lines[0]}"
        if self.calls > self.most_calls // 2 and session.lane == self.pairs.lanes.get(shape.label, "eager"):
            self.late_us.setdefault(shape.label, []).append(sealed.called_us)
        if session.lane == "eager":
            self.pace.add(self.bench.task, shape, sealed.wall_us, late=shape.label in self._begun)
        if is_sealed or self._coin.random() < SEALED_SHARE:
            self.sealed += 1
            if lines := self.bench.wrong(sealed, truth):
                return f"{place}: {lines[0]}"
            self._decoys[shape.label] = sealed.outputs
        return None
