"""Timing on a card: both sides get the same secret places of what lies there, and their answers' sums are compared."""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.formula import evaluate
from ridgeline.sandbox.judge.calls import decoy_of, judged_names, truth_of
from ridgeline.sandbox.judge.card import CardSession, Draw, Stocked, Timed, stocked
from ridgeline.sandbox.judge.inputs import extents
from ridgeline.sandbox.judge.physics import bytes_floor_us, claim_holds, claims
from ridgeline.sandbox.judge.pool import Place
from ridgeline.sandbox.judge.proofs import Asked, near, signs, told_truly
from ridgeline.sandbox.judge.session import Broken
from ridgeline.sandbox.judge.slots import LEAST_US, Slot
from ridgeline.sandbox.judge.timing import ORDERS, WARM_UP, Refused, _Turns

WARM_S = 0.5
"""Until a card's clocks have come up (measurement 3.3); the calls are judged like the others."""
FASTEST_GBPS = 10_000.0
"""No card's memory moves more today; the fastest have 8,000."""


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One side's call, and what it was given."""

    timed: Timed
    placement: int
    asked: Asked
    at_us: float


@dataclass(kw_only=True)
class CardTurns(_Turns):
    """The calls of one size in one process pair, on a card."""

    lane: str = "eager"
    """`graph` where one call of either side could be captured, else `eager` for both."""
    gains: list[tuple[float, float]] = field(default_factory=list)
    """Of each pair of calls, us: a less b by the judge's clock, and by the workers' claims."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._dice = random.Random(self.bench.rng.bytes(32))
        self._version = 0
        self._others.many = 1  # all its arrays go over the bus
        self._rings: dict[str, tuple[int, int]] = {}
        self._sizes: dict[str, float] = {}
        counts = [
            int(np.prod(extents(one, self.shape.dims))) for one in (*self.bench.task.inputs, *self.bench.task.outputs)
        ]
        self._row = signs(max(counts), self.bench.rng)

    def run(self, blocks: int) -> list[Slot] | Refused:
        """All blocks, after calls that warm both sides up and are judged like the others."""
        if refused := self._prepared():
            return refused
        found: list[Slot] = []
        warm, block = time.monotonic() + WARM_S, -WARM_UP
        self._others.spread(0, blocks)
        while block < blocks:
            slots = self._block(block)
            if isinstance(slots, Refused):
                return slots
            found += slots if block >= 0 else []
            block += 1 if block != -1 or time.monotonic() > warm else 0
        self.pairs.calls += self._others.calls
        return self._belied() or self._company() or found

    def _block(self, block: int) -> list[Slot] | Refused:
        found: list[Slot] = []
        order = ORDERS[self._dice.randrange(len(ORDERS))]
        for place in (0, 2):
            if wrong := self._others.due((block, place)):
                return self._refused(*wrong)
            both = self._pair(order[place : place + 2])
            if isinstance(both, Refused):
                return both
            for number, (side, one) in enumerate(both.items()):
                claimed = one.timed.claimed_us
                found.append(
                    Slot(
                        label=self.shape.label,
                        block=block,
                        slot=place + number,
                        side=side,
                        time_us=max(claimed, LEAST_US),
                        claimed_us=claimed,
                        at_us=one.at_us,
                    )
                )
            if block >= 0:
                a, b = both["a"].timed, both["b"].timed
                self.gains.append((a.wall_us - b.wall_us, a.claimed_us - b.claimed_us))
        return found

    def _prepared(self) -> Refused | None:
        """Values on either card, one whole call, and how calls are made."""
        task, dims = self.bench.task, self.shape.dims
        stock = self._stocked()
        places = self._pool.places()
        inputs = self._pool.at(places)
        truth = truth_of(self.bench.reference, inputs)
        self._learned(truth.oracle)
        self.pairs.within(self.shape.label, truth)
        for name, array in decoy_of(task, truth).items():
            stock.write(f"decoy/{name}", array)
        self._version, lanes = 1, set[str]()
        for side in self.sessions:
            session = self._card(side)
            sealed = session.call(dims, inputs, placement=self._dice.randrange(2), timeout_s=self.options.call_s)
            if isinstance(sealed, Broken):
                return self._refused(side, f"{sealed.reason}: {sealed.detail}")
            if lines := self.bench.wrong(sealed, truth):
                return self._refused(side, lines[0])
            said = session.stock(dims, stock) or session.capture(dims)
            if isinstance(said, Broken):
                return self._refused(side, f"{said.reason}: {said.detail}")
            lanes.add(said.split()[0])
        self.lane = "graph" if lanes == {"graph"} else "eager"
        stock.close()
        return None

    def _stocked(self) -> Stocked:
        rows: dict[str, NDArray[np.generic]] = {"rows": self._row}
        for name, long in self._pool.long().items():
            rows[f"values/{name}"] = long.values
            if long.over is not None:
                rows[f"over/{name}"] = long.over
            if long.ring is not None:
                self._rings[name] = long.ring
        for kind, arrays in self._poisons.long().items():
            rows |= {f"{kind}/{name}": array for name, array in arrays.items()}
        for one in self.bench.task.outputs:
            shape = extents(one, self.shape.dims)
            rows[f"decoy/{one.name}"] = np.zeros(shape, rows[f"nan/{one.name}"].dtype)
        return stocked(rows)

    def _pair(self, order: str) -> dict[str, _Call] | Refused:
        """One call of each side with the same values, and what is wrong with either."""
        whole = self._dice.random() < self.options.oracle_share
        draw = self._draw()
        found: dict[str, _Call] = {}
        for side in order:
            placement, asked = self._dice.randrange(2), Asked.drawn(self._dice, whole=whole)
            asked = asked if not found else next(iter(found.values())).asked
            timed = self._card(side).timed(
                self.shape.dims, draw, asked, placement=placement, timeout_s=self.options.call_s
            )
            self.pairs.calls += 1
            if isinstance(timed, Broken):
                return self._refused(side, f"{timed.reason}: {timed.detail}")
            if timed.claimed_us < self._floor_us():
                return self._refused(side, f"{timed.claimed_us:.1f} us is too little to move its bytes")
            found[side] = _Call(timed=timed, placement=placement, asked=asked, at_us=time.monotonic_ns() / 1e3)
        return self._unlike(found, draw.inputs, whole=whole) or found

    def _draw(self) -> Draw:
        """Secret places of new values."""
        task = self.bench.task
        return Draw(
            inputs=self._pool.places(),
            const=tuple(one.name for one in task.inputs if one.constness == "const"),
            rings=self._rings,
            poison=self._poisons.places(decoy=True),
            decoy=self._version,
            cold=task.cache == "cold",
            graph=self.lane == "graph",
        )

    def _unlike(self, found: Mapping[str, _Call], places: Mapping[str, Place], *, whole: bool) -> Refused | None:
        """Sums of both sides against each other; what differs, and some calls secretly, against the oracle."""
        if not self.options.on("judged_timing") or (self._near(found) and not whole):
            return None
        inputs = self._pool.at(places)
        truth = truth_of(self.bench.reference, inputs)
        for side in "ba":
            one, session = found[side], self._card(side)
            sealed = session.sealed(self.shape.dims, inputs, one.placement, fetch=not whole)
            if isinstance(sealed, Broken):
                return self._refused(side, f"{sealed.reason}: {sealed.detail}")
            for name in judged_names(self.bench.task):
                said, dtype = one.timed.proof.outputs.get(name), self.bench.task.dtype_of(name)
                if said is None or not told_truly(said, sealed.outputs[name], dtype, self._row, one.asked):
                    return self._refused(side, f"output {name} is another than when its sums were asked for")
            if not one.timed.proof.guards:
                return self._refused(side, "memory beside the arrays was overwritten")
            if lines := self.bench.wrong(sealed, truth):
                return self._refused(side, lines[0])
        return None

    def _near(self, found: Mapping[str, _Call]) -> bool:
        a, b = found["a"].timed.proof, found["b"].timed.proof
        known, names = self.pairs.within(self.shape.label), set(judged_names(self.bench.task))
        if not (a.guards and b.guards) or a.inputs != b.inputs or set(a.outputs) != names or set(b.outputs) != names:
            return False
        return all(
            near(
                a.outputs[name],
                b.outputs[name],
                count=self._counts[name],
                apart=known[name].l2 * self._sizes[name] + known[name].l2_amount,
            )
            for name in names
        )

    def _belied(self) -> Refused | None:
        """The judge's own clock must show most of what the workers' timers claim."""
        if len(self.gains) < 3 or not self.options.on("own_clock"):
            return None
        self.pairs.gains.setdefault(self.shape.label, []).extend(self.gains)
        wall, claimed = claims(self.gains)
        if claimed <= 0 or claim_holds(wall_gain_us=wall.mean_us, claimed_gain_us=claimed, error_us=wall.error_us):
            return None
        detail = (
            f"the card's timer claims {claimed:.1f} us less, "
            f"the judge's clock shows {wall.mean_us:.1f} +- {wall.error_us:.1f} us"
        )
        return Refused(side="b", detail=f"{self.shape.label}, timed on a card: {detail}", unclear=True)

    def _floor_us(self) -> float:
        task = self.bench.task
        if task.bytes is None or task.cache != "cold" or not self.options.on("physics"):
            return 0.0
        return bytes_floor_us(evaluate(task.bytes, self.shape.dims), FASTEST_GBPS)

    def _learned(self, oracle: Mapping[str, NDArray[np.float64]]) -> None:
        """Sizes of right numbers, as the root of their mean square."""
        self._counts = {name: one.size for name, one in oracle.items()}
        self._sizes = {
            name: float(np.sqrt(np.mean(np.square(one[np.isfinite(one)])))) if np.isfinite(one).any() else 0.0
            for name, one in oracle.items()
        }

    def _card(self, side: str) -> CardSession:
        session = self.sessions[side]
        if not isinstance(session, CardSession):
            raise TypeError("timing on a card needs sessions on it")
        return session

    def _refused(self, side: str, detail: str) -> Refused:
        return Refused(side=side, detail=f"{self.shape.label}, timed on a card: {detail}")
