"""Is it faster? A B B A blocks in fresh process pairs; every timed call is judged, on values it could not know."""

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Shape
from ridgeline.sandbox.judge.agreement import Tolerance, agree, tolerance
from ridgeline.sandbox.judge.calls import Bench, Truth, judged_names, truth_of
from ridgeline.sandbox.judge.gate import Opened
from ridgeline.sandbox.judge.others import Others
from ridgeline.sandbox.judge.physics import SHOWN, claims, moved_share
from ridgeline.sandbox.judge.pool import Poisons, Pool
from ridgeline.sandbox.judge.sampled import Sampled, wrong_side
from ridgeline.sandbox.judge.session import Broken, Sealed, Session
from ridgeline.sandbox.judge.slots import Slot, slot

ORDERS = ("abba", "baab")
WARM_UP = 2
"""Blocks of each size before the first that counts. They are judged too."""
PINGS = 21
COPIES = 5
LOOK_SHARE = 0.25
"""Of timed calls after which inputs and guard bands are looked at, secretly; tests look each time. Writing where one
must not gains nothing unless most calls do it, and damage to bands stays until it is seen."""
COMPANY_SHARE = 0.03
"""Of timed calls after which processes that came beside either worker are looked for, secretly; a look takes 1 ms."""
KEPT_BYTES = 1 << 31
"""Of random rows of all sizes that are kept for the process pairs to come; sizes beyond that draw theirs each time."""
LEAST_SHARE = 0.25
"""A call that reads its inputs and writes its outputs takes at least this share of a plain copy of as many bytes."""

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Why timing ended without a result, and whose fault it was; side is empty where it was nobody's."""

    side: str
    detail: str
    unclear: bool = False
    """It shows no wrong answer; it only leaves the time without meaning."""


@dataclass(kw_only=True)
class Pairs:
    """Times candidate `b` against `a`."""

    bench: Bench
    calls: int = 0
    gains: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """On a card, by size: of each pair of calls, us: a less b by the judge's clock, and by the workers' claims."""
    decks: dict[str, list[str]] = field(default_factory=dict)
    """By size: kinds of values that calls between the timed ones have not had yet."""
    _floors: dict[str, float] = field(default_factory=dict)
    _within: dict[str, dict[str, Tolerance]] = field(default_factory=dict)
    _drawn: dict[str, tuple[Pool, Poisons]] = field(default_factory=dict)

    def run(self, opened: Mapping[str, Opened], shapes: Sequence[Shape], blocks: int) -> list[Slot] | Refused:
        """One process pair: both sides alive, taking turns."""
        with ExitStack() as stack:
            sessions: dict[str, Session] = {}
            for place in self.bench.rng.permutation(2):
                side = "ab"[int(place)]
                sessions[side] = stack.enter_context(opened[side]())
                if broken := sessions[side].open():
                    return Refused(side=side, detail=f"{broken.reason}: {broken.detail}")
            found: list[Slot] = []
            for shape in shapes:
                turns = self._kind()(pairs=self, sessions=sessions, shape=shape)
                slots = turns.run(blocks)
                if isinstance(slots, Refused):
                    return slots
                found += slots
            return found

    def _kind(self) -> "type[_Turns]":
        if self.bench.options.device != "cuda":
            return _Turns
        from ridgeline.sandbox.judge.card_timing import CardTurns

        return CardTurns

    def drawn(self, shape: Shape) -> tuple[Pool, Poisons]:
        """Where values of that size, and what outputs hold before, are cut from: drawn for the first process pair.

        Later processes are others and know nothing of it.
        """
        if found := self._drawn.get(shape.label):
            found[0].anew()
            return found
        found = Pool(self.bench.task, shape.dims, self.bench.rng), Poisons(self.bench.task, shape.dims, self.bench.rng)
        if sum(one.nbytes for both in (*self._drawn.values(), found) for one in both) <= KEPT_BYTES:
            self._drawn[shape.label] = found
        return found

    def unseen(self) -> str | None:
        """What the judge's own clock says of a size whose claimed gain it does not show; None where it shows all."""
        for label, gains in self.gains.items():
            wall, claimed = claims(gains)
            if claimed > 0 and not wall.mean_us > SHOWN * wall.error_us:
                return (
                    f"{label}: only the worker's own timer shows the gain of {claimed:.1f} us "
                    f"(the judge's clock: {wall.mean_us:.1f} +- {wall.error_us:.1f} us)"
                )
        return None

    def copy_us(self, arrays: Sequence[NDArray[np.generic]], label: str) -> float:
        """Half the time of a plain copy of these bytes, which reads and writes each; measured once per size."""
        if label not in self._floors:
            data = np.concatenate([one.reshape(-1).view(np.uint8) for one in arrays])
            target = np.empty_like(data)
            times = []
            for _ in range(COPIES):
                began = time.perf_counter_ns()
                np.copyto(target, data)
                times.append((time.perf_counter_ns() - began) / 1e3)
            self._floors[label] = min(times) / 2
        return self._floors[label]

    def within(self, label: str, truth: Truth | None = None) -> dict[str, Tolerance]:
        """By how much two right outputs of that size may differ, learned from the first truth about it."""
        if truth is not None and label not in self._within:
            task, known = self.bench.task, self.bench.sensitivity(truth)
            self._within[label] = {
                name: tolerance(
                    truth.oracle[name],
                    truth.trusted[name],
                    dtype=task.dtype_of(name),
                    precision=task.precision,
                    noise=known.get(name),
                )
                for name in judged_names(task)
            }
        return self._within.get(label, {})


MOST_TOO_FAST = 3
"""Calls of a side and size that may seem faster than its bytes can move."""


@dataclass(kw_only=True)
class _Turns:
    """The calls of one size in one process pair."""

    pairs: Pairs
    sessions: Mapping[str, Session]
    shape: Shape

    def __post_init__(self) -> None:
        bench = self.pairs.bench
        self.bench, self.options = bench, bench.options
        self._pool, self._poisons = self.pairs.drawn(self.shape)
        self._sampled = Sampled(bench=bench)
        self._coin = random.Random(bench.rng.bytes(32))
        self._decoy: Arrays | None = None
        self._too_fast: Counter[str] = Counter()
        self._unsure_us: dict[str, float] = {}
        self._stale: Arrays | None = None
        self._moved_share = moved_share(bench.task, self.shape.dims)
        self._others = Others(
            bench=bench,
            sessions=self.sessions,
            shape=self.shape,
            pool=self._pool,
            coin=self._coin,
            deck=self.pairs.decks.setdefault(self.shape.label, []),
        )
        for session in self.sessions.values():
            session.look_share = LOOK_SHARE

    def run(self, blocks: int) -> list[Slot] | Refused:
        """All blocks, after calls that warm both sides up and are judged like the others."""
        pings = {side: [one.ping() for _ in range(PINGS)] for side, one in self.sessions.items()}
        empty_us = min(float(np.median(times)) for times in pings.values())
        if self.options.on("own_clock"):
            self._unsure_us = {side: empty_us - min(empty_us, *times) for side, times in pings.items()}
        found: list[Slot] = []
        self._others.spread(-WARM_UP, blocks)
        for block in range(-WARM_UP, blocks):
            order = ORDERS[int(self.bench.rng.integers(len(ORDERS)))]
            for place in (0, 2):
                if wrong := self._others.due((block, place)):
                    return self._timed_wrong(wrong)
                slots = self._timed(block, place, order[place : place + 2], empty_us)
                if isinstance(slots, Refused):
                    return slots
                found += slots if block >= 0 else []
        company = self._company()
        self.pairs.calls += self._others.calls
        return self.settle() or self._hurt() or company or found

    def _timed(self, block: int, place: int, order: str, empty_us: float) -> list[Slot] | Refused:
        """One call of each side. What cannot be true is timed again: the clock of a busy machine errs now and then,
        and a call that never does its work is as fast every time.

        `empty_us`, of either side: each could make its own empty calls long, and so its others short."""
        while True:
            both = self._both(order)
            if isinstance(both, Refused):
                return both
            slots = []
            for number, (side, (sealed, at_us)) in enumerate(both.items()):
                taken_us = sealed.wall_us - empty_us if self.options.on("own_clock") else sealed.claimed_us or 0
                slots.append(slot(self.shape, (block, place + number, side), sealed, taken_us, at_us))
            fast = next((slot for slot in slots if self._impossible(slot)), None)
            if fast is None:
                return slots
            self._too_fast[fast.side] += 1
            if self._too_fast[fast.side] > MOST_TOO_FAST:
                detail = f"{self.shape.label}: {fast.time_us:.1f} us is too little to move its bytes"
                return Refused(side=fast.side, detail=f"{detail}, {MOST_TOO_FAST + 1} times")

    def _hurt(self) -> Refused | None:
        """What was done to guard bands and not looked at yet."""
        for side, session in self.sessions.items():
            if self.options.on("guards") and (names := session.hurt(self.shape.dims)):
                return self._timed_wrong((side, f"memory beside {names[0]} was overwritten"))
        return None

    def settle(self) -> Refused | None:
        """Judge the calls that wait for the oracle."""
        wrong = self._sampled.wrong("b")  # which the other side agreed with
        return self._timed_wrong(wrong) if wrong else None

    def _timed_wrong(self, wrong: tuple[str, str]) -> Refused:
        return Refused(side=wrong[0], detail=f"{self.shape.label}, timed: {wrong[1]}")

    def _company(self) -> Refused | None:
        """Other processes of a candidate may work, or watch, while its own stands still."""
        for side, session in self.sessions.items():
            if self.options.on("isolation") and (more := session.processes()):
                return Refused(
                    side=side, detail=f"{self.shape.label}: {more} more processes run beside it", unclear=True
                )
        return None

    def _impossible(self, slot: Slot) -> bool:
        """Whether it took less than its bytes need, though the shortest empty call is taken off."""
        longest_us = slot.time_us + self._unsure_us.get(slot.side, 0.0)
        floor_us = LEAST_SHARE * self._moved_share * self.pairs.copy_us((), self.shape.label)
        return self.options.on("physics") and longest_us < floor_us

    def _inputs(self) -> Arrays:
        if self._stale is None or self.options.on("fresh_values"):
            self._stale = self._pool.next()
        return self._stale

    def _both(self, order: str) -> dict[str, tuple[Sealed, float]] | Refused:
        """One call of each side with the same values, and what is wrong with either."""
        inputs = self._inputs()
        found: dict[str, tuple[Sealed, float]] = {}
        for side in order:
            placement = self._coin.getrandbits(1) if self.options.on("addresses") else 0
            before = self._poisons.next(self._decoy) if self.options.on("poison") else self._decoy
            sealed = self.sessions[side].call(
                self.shape.dims, inputs, placement=placement, poison=before, timeout_s=self.options.call_s
            )
            self.pairs.calls += 1
            if isinstance(sealed, Broken):
                return Refused(side=side, detail=f"{self.shape.label}: {sealed.reason}: {sealed.detail}")
            found[side] = (sealed, time.monotonic_ns() / 1e3)
            if self._coin.random() < COMPANY_SHARE and (company := self._company()):
                return company
        self.pairs.copy_us([*inputs.values(), *found["a"][0].outputs.values()], self.shape.label)
        return self._wrong(inputs, {side: sealed for side, (sealed, _) in found.items()}) or found

    def _wrong(self, inputs: Arrays, found: Mapping[str, Sealed]) -> Refused | None:
        """Each call against the other side's on the same values, and some of them, secretly, against the oracle."""
        if not self.options.on("judged_timing"):
            return None
        for side, sealed in found.items():
            if lines := self.bench.surroundings(sealed):
                return Refused(side=side, detail=f"{self.shape.label}, timed: {lines[0]}")
        if self._agree(found):
            # a right answer to other inputs, from the next call on
            self._decoy = found["ab"[self._coin.getrandbits(1)]].outputs
            if self._coin.random() < self.options.oracle_share:
                self._sampled.keep(inputs, found)
            return self.settle() if self._sampled.full else None
        truth = truth_of(self.bench.reference, inputs)
        self.pairs.within(self.shape.label, truth)
        wrong = wrong_side(self.bench, found, truth, "ba")
        return self._timed_wrong(wrong) if wrong else None  # they may differ, and both be right: by their rounding

    def _agree(self, found: Mapping[str, Sealed]) -> bool:
        task, known = self.bench.task, self.pairs.within(self.shape.label)
        return bool(known) and all(
            agree(found["b"].outputs[name], found["a"].outputs[name], dtype=task.dtype_of(name), within=within)
            for name, within in known.items()
        )
