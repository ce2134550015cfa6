"""One idle card to itself while a command runs: chosen, leased, looked at again, and waited for."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import DeviceBusy, DeviceLost, StopAsked
from ridgeline.sandbox.devices.idle import (
    Cards,
    binding,
    gate_settings,
    matching_cards,
    rank_idle,
    share_idle,
    visible_cards,
)
from ridgeline.sandbox.devices.lease import lease, telling
from ridgeline.sandbox.devices.tools import PROGRAMS, is_installed, own_processes, tools_of
from ridgeline.sandbox.devices.values import CardSample, CardVerdict, GateSettings, Vendor, device_kind

ON = "nothing is lost: free a card and go on with `ridgeline resume`"


@dataclass(frozen=True, kw_only=True)
class LeasedCard:
    """The card that a command has to itself."""

    card: CardSample
    environment: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class IdleWait:
    """How long to look for an idle card, in seconds, and what time is."""

    retry_s: float = 600
    max_s: float = 3600
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    stopped: Callable[[], bool] = lambda: False
    """Whether somebody asked the campaign to stop."""
    step_s: float = 5.0
    """How long a wait lasts before that is looked at again."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which cards a campaign may use."""

    target: str | None = None
    """Product or architecture that the contract names."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Where the variables stand that leave only some cards visible."""


class CardGate:
    """Not re-entrant; one command at a time. What was used last is preferred, so that times stay comparable."""

    def __init__(
        self,
        cards: Cards,
        *,
        vendor: Vendor,
        settings: GateSettings,
        choice: Choice,
        waiting: IdleWait,
        say: Callable[[str], None],
        leases: Path | None = None,
    ) -> None:
        """`say` is told a line whenever there is nothing to do but wait; `leases`: default the user's own folder."""
        self._cards = cards
        self._vendor = vendor
        self._settings = settings
        self._choice = choice
        self._waiting = waiting
        self._say = say
        self._leases = leases
        self._used: tuple[str, float] | None = None
        self._bound: LeasedCard | None = None
        self.held_s = 0.0
        """Seconds that leases of cards were held in all, the looks under them included; those held now not yet."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What a command that starts now is told, so that it sees its own card and no other."""
        return self._bound.environment if self._bound else {}

    @contextlib.contextmanager
    def hold(self) -> Iterator[LeasedCard]:
        """An idle card for the `with` block, under its lease.

        Raises DeviceBusy when none became idle in time, StopAsked when a stop was asked for meanwhile, and DeviceLost
        where no tool could tell of one.
        """
        with contextlib.ExitStack() as stack:
            card = self._find_card(stack)
            if self._used and self._used[0] != card.key:
                self._say(f"GPU gate: the card used before is busy; {_describe_card(card)} from now on")
            self._bound = LeasedCard(card=card, environment=binding(card))
            try:
                yield self._bound
            finally:
                self._bound = None
                self._used = (card.key, self._waiting.clock())

    def count_cards(self) -> int:
        """Cards that this gate may choose from, idle or not. Raises DeviceLost where no tool could tell of one."""
        return len(self._look())

    def note_use(self, other: "CardGate") -> None:
        """That another gate of this process used our card too: what shows of that on it is our own use."""
        if self._used and other._used and other._used[0] == self._used[0] and other._used[1] > self._used[1]:
            self._used = other._used

    def _find_card(self, stack: contextlib.ExitStack) -> CardSample:
        waiting = self._waiting
        began = waiting.clock()
        card = self._used_before(stack)
        while card is None:
            verdicts = self._look()
            card = self._first_free(stack, verdicts)
            if card is not None:
                break
            waited = waiting.clock() - began
            if waited >= waiting.max_s:
                raise DeviceBusy(self._nothing(verdicts))
            pause = min(waiting.retry_s, waiting.max_s - waited)
            self._say(
                f"GPU gate: no idle card ({_why(verdicts)}); looking again in {_minutes(pause)},"
                f" waited {_minutes(waited)} of {_minutes(waiting.max_s)}"
            )
            card = self._after(stack, verdicts, pause)
        return card

    def _used_before(self, stack: contextlib.ExitStack) -> CardSample | None:
        """The card of our last command, without a long look when that was a moment ago."""
        if self._used is None or self._waiting.clock() - self._used[1] > self._settings.recent_s:
            return None
        return self._take_card(stack, self._used[0])

    def _look(self) -> tuple[CardVerdict, ...]:
        if not is_installed(self._vendor):
            names = " nor ".join(PROGRAMS[self._vendor])
            raise DeviceLost(f"no {names} on PATH, so no GPU can be known to be idle; run `ridgeline doctor`")
        verdicts = self._cards.judge(samples=self._settings.samples, interval_s=self._settings.interval_s)
        left = matching_cards(
            visible_cards([verdict.card for verdict in verdicts], self._choice.environment), self._choice.target
        )
        return tuple(verdict for card in left for verdict in verdicts if verdict.card == card)

    def _first_free(self, stack: contextlib.ExitStack, verdicts: Sequence[CardVerdict]) -> CardSample | None:
        """The best idle card whose lease can be had now, and which is idle still when it is."""
        before = self._used[0] if self._used else None
        order = sorted(rank_idle(verdicts), key=lambda verdict: verdict.card.key != before)
        leased_cards = (self._take_card(stack, verdict.card.key) for verdict in order)
        return next((card for card in leased_cards if card is not None), None)

    def _take_card(self, stack: contextlib.ExitStack, key: str, *, wait_s: float = 0) -> CardSample | None:
        """The card with its lease, which goes with the stack; None when somebody has it or it is not idle."""
        with contextlib.ExitStack() as mine:
            try:
                mine.enter_context(lease(key, wait_s=wait_s, folder=self._leases))
            except DeviceBusy:
                return None
            mine.callback(self._count, self._waiting.clock())
            card = self._settle_card(key)
            if card is not None:
                stack.enter_context(mine.pop_all())
            return card

    def _count(self, since: float) -> None:
        self.held_s += self._waiting.clock() - since

    def _settle_card(self, key: str) -> CardSample | None:
        """Under the lease: idle so many times in a row, soon.

        Utilization still shows the command that ended a moment ago: on an H100 for about a second. Where that was ours
        and the card's processes are told, one look that finds none of others is enough.
        """
        settings, waiting = self._settings, self._waiting
        began, in_a_row = waiting.clock(), 0
        while True:
            ours = (
                self._used is not None and self._used[0] == key and waiting.clock() - self._used[1] < settings.settle_s
            )
            verdicts = self._cards.judge(samples=1, interval_s=0, own_pids=own_processes(), after_own_use=ours)
            mine = [verdict for verdict in verdicts if verdict.card.key == key]
            idle = bool(mine) and all(verdict.state == "idle" for verdict in mine)
            in_a_row = in_a_row + 1 if idle else 0
            is_listed = ours and self._vendor == "nvidia" and bool(mine) and mine[0].card.processes is not None
            if in_a_row >= (1 if is_listed else settings.repeat_samples):
                return mine[0].card
            if not idle and waiting.clock() - began >= settings.settle_s:
                return None
            waiting.sleep(settings.repeat_interval_s)

    def _after(self, stack: contextlib.ExitStack, verdicts: Sequence[CardVerdict], pause: float) -> CardSample | None:
        """Wait before the next look at the cards; for the lease where another of our commands has it, which is sooner.

        In steps, between which a request to stop is noticed.
        """
        ours = next((verdict.card.key for verdict in verdicts if not self._free(verdict.card.key)), None)
        left = pause
        while left > 0:
            if self._waiting.stopped():
                raise StopAsked(f"asked to stop while no GPU was idle: {_why(verdicts)}; {ON}")
            step, began = min(left, self._waiting.step_s), self._waiting.clock()
            if ours is not None:
                card = self._take_card(stack, ours, wait_s=step)
                if card is not None:
                    return card
                ours = None if self._free(ours) else ours  # not idle though nobody has it: the next look will tell
            if (rest := step - (self._waiting.clock() - began)) > 0:
                self._waiting.sleep(rest)
            left -= step
        return None

    def _free(self, key: str) -> bool:
        try:
            with lease(key, wait_s=0, folder=self._leases):
                return True
        except DeviceBusy:
            return False

    def _nothing(self, verdicts: Sequence[CardVerdict]) -> str:
        waited = _minutes(self._waiting.max_s)
        return f"no idle GPU within {waited}: {_why(verdicts)}; nothing was run on a busy card and {ON}"


def _why(verdicts: Sequence[CardVerdict]) -> str:
    """Each card that is not to be had, with its state and the reasons for it, in one line."""
    busy = (
        f"{_describe_card(verdict.card)} {verdict.state}: {'; '.join(verdict.reasons)}"
        for verdict in verdicts
        if verdict.state != "idle"
    )
    leased = (f"{_describe_card(verdict.card)} was taken meanwhile" for verdict in verdicts if verdict.state == "idle")
    return " | ".join((*busy, *leased)) or "no visible card is told of"


def _describe_card(card: CardSample) -> str:
    return f"{card.vendor} {card.index or card.key}" + (f" {card.name}" if card.name else "")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"


# The gate of a contract on this machine.

RETRY_S = 600.0


@contextlib.contextmanager
def card_for(contract: Contract, *, wait_s: float, say: Callable[[str], None]) -> Iterator[Mapping[str, str]]:
    """An idle card for one block, for callers without a campaign; yields the environment that binds to it.

    On a processor its lease, and nothing to bind. Raises DeviceBusy and DeviceLost.
    """
    gate = gate_of(contract, retry_s=min(RETRY_S, wait_s), max_s=wait_s, say=say)
    if gate is None:
        with telling(say), lease("cpu", wait_s=wait_s):
            yield {}
        return
    with gate.hold() as bound:
        yield bound.environment


def gate_of(
    contract: Contract,
    *,
    retry_s: float,
    max_s: float,
    say: Callable[[str], None],
    stopped: Callable[[], bool] = lambda: False,
) -> CardGate | None:
    """None for a contract of this machine's processor. Times in seconds; raises BadSetting.

    `stopped`: whether its waits shall end, because somebody asked for it.
    """
    kind = device_kind(contract)
    if kind == "cpu":
        return None
    vendor: Vendor = kind
    if kind == "nvidia" and contract.target_gpu is None and not is_installed("nvidia") and is_installed("amd"):
        vendor = "amd"  # Triton without a named device runs on either
    return _gate(
        vendor,
        target=contract.target_gpu,
        waiting=IdleWait(retry_s=retry_s, max_s=max_s, stopped=stopped),
        say=say,
    )


def any_gate(*, retry_s: float, max_s: float, say: Callable[[str], None]) -> CardGate:
    """The gate of this machine's cards, for commands without a contract. Times in seconds.

    Raises DeviceLost where no vendor's tool is installed, and BadSetting.
    """
    vendors: tuple[Vendor, ...] = ("nvidia", "amd")
    vendor = next((name for name in vendors if is_installed(name)), None)
    if vendor is None:
        raise DeviceLost("neither nvidia-smi nor amd-smi nor rocm-smi is on PATH, so no GPU can be known to be idle")
    return _gate(vendor, target=None, waiting=IdleWait(retry_s=retry_s, max_s=max_s), say=say)


def share_cards(count: int) -> tuple[dict[str, str], ...]:
    """So many environments for programs beside each other, each with idle cards of its own; none where there are not that many.

    Takes some looks at the cards: a second or two. Raises BadSetting.
    """
    vendors: tuple[Vendor, ...] = ("nvidia", "amd")
    vendor = next((name for name in vendors if is_installed(name)), None)
    if vendor is None:
        return ()
    settings = gate_settings()
    cards = Cards(tools_of(vendor), settings=settings)
    return share_idle(cards.judge(samples=settings.samples, interval_s=settings.interval_s), count, os.environ)


def _gate(vendor: Vendor, *, target: str | None, waiting: IdleWait, say: Callable[[str], None]) -> CardGate:
    settings = gate_settings()
    return CardGate(
        Cards(tools_of(vendor), settings=settings),
        vendor=vendor,
        settings=settings,
        choice=Choice(target=target, environment=os.environ),
        waiting=waiting,
        say=say,
    )
