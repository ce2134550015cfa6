"""Calls among the timed ones that are not timed, with unusual values: what is right only in tests is found there."""

import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ridgeline.graph.task import Shape
from ridgeline.sandbox.judge.calls import Bench, Truth, all_settled
from ridgeline.sandbox.judge.gate import SMALL, kinds, size_of
from ridgeline.sandbox.judge.inputs import MIXES, PARTS
from ridgeline.sandbox.judge.pool import Pool
from ridgeline.sandbox.judge.session import Broken, Session

Place = tuple[int, int]
"""Block, and the number of its first call."""


@dataclass(kw_only=True)
class Others:
    """Where they are made, and what they find."""

    bench: Bench
    sessions: Mapping[str, Session]
    shape: Shape
    pool: Pool
    coin: random.Random
    deck: list[str]
    """Kinds of values that are left for this size, over all process pairs; filled again when none is."""
    many: int = 2
    """Of this size, in this process pair."""
    calls: int = 0
    _at: Counter[Place] = field(default_factory=Counter)
    _ready: list[tuple[str, Truth]] = field(default_factory=list)

    def spread(self, first: int, blocks: int) -> None:
        """Draw the pairs of calls before which they are made, from block `first` to before `blocks`."""
        if self.bench.options.on("judged_timing") and self.bench.options.on("mixes"):
            drawn = ((self.coin.randrange(first, blocks), self.coin.choice((0, 2))) for _ in range(self.many))
            self._at = Counter(drawn)

    def due(self, place: Place) -> tuple[str, str] | None:
        """Make those of this place: the side that is wrong, and how."""
        for _ in range(self._at[place]):
            if wrong := self._both():
                return wrong
        return None

    def _both(self) -> tuple[str, str] | None:
        dims = self.shape.dims
        if not self._ready:
            self._asked()
        mix, truth = self._ready.pop()
        for side in self.coin.sample("ab", 2):
            placement = self.coin.getrandbits(1)
            sealed = self.sessions[side].call(
                dims, truth.inputs, placement=placement, timeout_s=self.bench.options.call_s
            )
            self.calls += 1
            if isinstance(sealed, Broken):
                return side, f"{sealed.reason}: {sealed.detail}"
            if lines := self.bench.wrong(sealed, truth):
                return side, f"{mix}: {lines[0]}"
        return None

    def _asked(self) -> None:
        """What is right in the next ones: for all of this process pair at once, unless that is much to keep."""
        mixes: list[str] = []
        for _ in range(self.many if size_of(self.bench.task, self.shape) < SMALL else 1):
            if not self.deck:
                self.deck += shuffled(self.coin, tested=kinds(self.bench.task, self.shape))
            mixes.append(self.deck.pop())
        consts = self.pool.consts()
        truths = all_settled(self.bench, self.shape.dims, mixes, kept=lambda drawn: {**drawn, **consts})
        self._ready += zip(mixes, truths, strict=True)


def shuffled(coin: random.Random, *, tested: Collection[str]) -> list[str]:
    """Every unusual kind once, in a secret order; last of all, and so taken first, those that the size was not tested
    with."""
    every = (*MIXES[1:], *PARTS)
    told = [mix for mix in every if mix in tested]
    others = [mix for mix in every if mix not in tested]
    return [*coin.sample(told, len(told)), *coin.sample(others, len(others))]
