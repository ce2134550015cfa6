"""Every card of a vendor, judged: who decides by what was seen now."""

import json
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ridgeline.graph.errors import WorldError
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.tools import Tools, watch
from ridgeline.sandbox.devices.values import (
    MIB,
    CardSample,
    CardState,
    CardVerdict,
    Floor,
    GateSettings,
    GpuProcess,
    State,
    Vendor,
)
from ridgeline.sandbox.store.durable import cache_folder, write_whole

# Which idle card, and how a program is bound to it. Pure.

VARIABLES: dict[Vendor, tuple[str, ...]] = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
}
"""In the order in which they apply: each counts among what the one before has left."""
NO_CARDS = frozenset({"", "-1", "none", "void", "nodevfiles"})


def rank_idle(cards: Sequence[CardVerdict]) -> tuple[CardVerdict, ...]:
    """The idle ones, least used memory first, then least power, then the tool's order."""
    unknown = float("inf")

    def rank(judged: CardVerdict) -> tuple[float, float]:
        card = judged.card
        used = card.memory_used_bytes if card.memory_used_bytes is not None else card.memory_share_pct
        return unknown if used is None else float(used), unknown if card.power_w is None else card.power_w

    return tuple(sorted((verdict for verdict in cards if verdict.state == "idle"), key=rank))


def visible_cards(cards: Sequence[CardSample], environment: Mapping[str, str]) -> tuple[CardSample, ...]:
    """Those that the variables leave to programs, in their order; all of a vendor whose variables are not set."""
    usable: list[CardSample] = []
    for vendor in dict.fromkeys(card.vendor for card in cards):
        left = [card for card in cards if card.vendor == vendor]
        names = VARIABLES[vendor]
        if vendor == "amd" and "HIP_VISIBLE_DEVICES" not in environment:
            names = ("ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")  # HIP reads this one too
        for name in names:
            if name in environment:
                left = _cards_of_list(left, environment[name])
        usable += left
    return tuple(usable)


def _cards_of_list(cards: Sequence[CardSample], value: str) -> list[CardSample]:
    """The cards of a variable's list as the runtimes read it: up to the first word that names no card."""
    listed: list[CardSample] = []
    for word in value.split(","):
        name = word.strip()
        if name.lower() in NO_CARDS:
            break
        if name.isdigit():
            match = [cards[int(name)]] if int(name) < len(cards) else []
        else:
            match = [card for card in cards if card.uuid and card.uuid.lower().startswith(name.lower())]
        if not match:
            break
        listed += match[:1]
    return listed


def matching_cards(cards: Sequence[CardSample], target: str | None) -> tuple[CardSample, ...]:
    """Those of the product or architecture that the contract names; all where no card is known to be one."""
    word = re.sub(r"[^a-z0-9]", "", (target or "").lower())
    if not word:
        return tuple(cards)
    mine = tuple(card for card in cards if word in _plain(card.name) or word == _plain(card.arch))
    return mine or tuple(cards)


def _plain(name: str | None) -> str:
    return re.sub(r"[^a-z0-9]", "", (name or "").lower())


def unbound(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment variables without those that say which cards are visible."""
    names = {"CUDA_DEVICE_ORDER", *(name for names in VARIABLES.values() for name in names)}
    return {name: value for name, value in environment.items() if name not in names}


def binding(*cards: CardSample) -> dict[str, str]:
    """The environment in which a program sees these cards of one vendor only, in this order.

    By UUID: the tools' order of cards is not the runtimes'. An AMD card without a unique id is bound by its number,
    an NVIDIA card by its number in the order of the buses, which is nvidia-smi's.
    """
    if cards[0].vendor == "nvidia":
        names = ",".join(card.uuid or card.index or "0" for card in cards)
        return {"CUDA_VISIBLE_DEVICES": names, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if all(card.uuid for card in cards):
        numbers = ",".join(str(number) for number in range(len(cards)))
        return {"ROCR_VISIBLE_DEVICES": ",".join(card.uuid or "" for card in cards), "HIP_VISIBLE_DEVICES": numbers}
    return {"HIP_VISIBLE_DEVICES": ",".join(card.index or "0" for card in cards)}


def share_idle(
    verdicts: Sequence[CardVerdict], count: int, environment: Mapping[str, str]
) -> tuple[dict[str, str], ...]:
    """So many environments, each of which sees idle cards of its own; none where fewer are idle, or have a unique id."""
    usable = visible_cards([verdict.card for verdict in verdicts], environment)
    idle = [verdict.card for verdict in rank_idle(verdicts) if verdict.card in usable and verdict.card.uuid]
    if len(idle) < count:
        return ()
    return tuple({**unbound(environment), **binding(*idle[first::count])} for first in range(count))


# Idle, busy or unknown, by the agreement of signals each of which is known to lie. Pure.

IDLE_POWER_W = {
    "MI300X": 158.0,
    "MI355X": 239.0,
    "MI250": 91.0,
    "H100": 71.0,
}
"""Seen of idle cards; a card of its own that was seen idle with less replaces it."""

NOTHING = (None, None)
"""A sample of processes alone: its meters were not asked."""


class Signal(Value):
    """What one kind of evidence says; None: nothing was told."""

    says: State | None
    reason: str
    """Empty where there is nothing to add."""


def decide(
    samples: Sequence[CardSample],
    *,
    settings: GateSettings,
    own_pids: Collection[int] = (),
    allowed: Collection[str] | None = None,
    floor: Floor | None = None,
) -> CardState:
    """One card's state (idle, or why not) from its samples, in the order of time.

    Idle needs utilization and at least one more signal to say so, and none to object. `allowed`: names of processes
    that do not count, default those of the settings; `floor`: the least that was seen of this card while idle.
    """
    if not samples:
        return CardState(state="unknown", reasons=("no sample: the tool told nothing of this card",))
    floor = floor or Floor()
    names = settings.allowed if allowed is None else tuple(allowed)
    signals = (
        _processes(samples, settings, own_pids=own_pids, allowed=names),
        _memory(samples, settings, floor),
        _utilization(samples, settings, floor),
        _arrangement(samples[-1], settings),
    )
    for state in ("busy", "unknown"):
        objections = tuple(signal.reason for signal in signals if signal.says == state)
        if objections:
            return CardState(state="busy" if state == "busy" else "unknown", reasons=objections)
    reasons = tuple(signal.reason for signal in signals if signal.reason)
    if signals[2].says is None:
        return CardState(state="unknown", reasons=("utilization is not told", *reasons))
    if not any(signal.says == "idle" for signal in (*signals[:2], _support(samples, settings, floor))):
        reason = "only utilization is told: one signal alone is not believed"
        return CardState(state="unknown", reasons=(reason, *reasons))
    return CardState(state="idle", reasons=reasons)


def _processes(
    samples: Sequence[CardSample], settings: GateSettings, *, own_pids: Collection[int], allowed: Collection[str]
) -> Signal:
    listings = [sample for sample in samples if sample.processes is not None]
    if not listings:
        return Signal(says=None, reason="")
    foreign = [
        _user(process, sample, settings)
        for sample in listings
        for process in sample.processes or ()
        if process.pid not in own_pids and process.name not in allowed
    ]
    for state in ("busy", "unknown"):
        reasons = dict.fromkeys(signal.reason for signal in foreign if signal.says == state)
        if reasons:
            return Signal(says="busy" if state == "busy" else "unknown", reason="; ".join(reasons))
    ignored = dict.fromkeys(signal.reason for signal in foreign)
    return Signal(says="idle", reason="; ".join(ignored) or "no process of others on it")


def _user(process: GpuProcess, sample: CardSample, settings: GateSettings) -> Signal:
    """AMD's lists name processes that use no card, or another one: memory tells."""
    used_bytes = process.bytes
    used = sample.memory_used_bytes if sample.vendor == "amd" else None
    if used_bytes is None:
        if sample.vendor == "nvidia":  # the list is of those that compute
            return Signal(says="busy", reason=f"{process.text} computes on it; its memory is not told")
        return Signal(says="unknown", reason=f"{process.text} is listed, and its memory is not told")
    if used_bytes <= settings.process_bytes:
        return Signal(says="idle", reason=f"{process.text} is listed with {_mib(used_bytes)}, which is no user")
    if used is not None and used_bytes > used + settings.process_bytes:
        return Signal(says="idle", reason=f"{process.text} holds more than is in use here, so it is on another card")
    if not process.certain:
        return Signal(
            says="unknown",
            reason=f"{process.text} holds {_mib(used_bytes)} of some card, and the tool does not say of which",
        )
    return Signal(says="busy", reason=f"{process.text} holds {_mib(used_bytes)} of it")


def _memory(samples: Sequence[CardSample], settings: GateSettings, floor: Floor) -> Signal:
    used = [sample.memory_used_bytes for sample in samples if sample.memory_used_bytes is not None]
    total = next((sample.memory_total_bytes for sample in samples if sample.memory_total_bytes), None)
    if not used:
        return _share(samples)
    floor_bytes = floor.memory_bytes
    baseline = (
        settings.memory_baseline_bytes if floor_bytes is None else min(floor_bytes, settings.memory_baseline_bytes)
    )
    limit, most = baseline + settings.memory_slack_bytes, max(used)
    if most > limit:
        return Signal(says="busy", reason=f"{_mib(most)} of its memory are in use, more than the {_mib(limit)} of rest")
    if total and most - min(used) > settings.memory_motion * total:
        return Signal(says="busy", reason=f"its used memory moves between {_mib(min(used))} and {_mib(most)}")
    return Signal(says="idle", reason=f"{_mib(most)} of memory in use")


def _share(samples: Sequence[CardSample]) -> Signal:
    """A card's utilization in whole per cents: 0 and 1 may be rest, above 5 is none."""
    shares = [sample.memory_share_pct for sample in samples if sample.memory_share_pct is not None]
    if not shares:
        return Signal(says=None, reason="")
    most = max(shares)
    says: State = "idle" if most <= 1 else "busy" if most > 5 else "unknown"
    return Signal(says=says, reason=f"{most:g} % of its memory in use")


def _utilization(samples: Sequence[CardSample], settings: GateSettings, floor: Floor) -> Signal:
    percentages = [sample.utilization_pct for sample in samples if sample.utilization_pct is not None]
    if not percentages:
        return Signal(says=None, reason="")
    most, power = max(percentages), _power(samples, settings, floor)
    if most <= settings.utilization_pct:
        gaps = [
            sample
            for sample in samples
            if sample.utilization_pct is None and (sample.power_w, sample.memory_used_bytes) != NOTHING
        ]
        if gaps:
            return Signal(says="unknown", reason=f"utilization is not told in {len(gaps)} of {len(samples)} samples")
        if power.says == "unknown":
            return Signal(says="unknown", reason=f"utilization reads {most:g} %, but {power.reason}")
        return Signal(says="idle", reason=f"utilization at most {most:g} % in {_count(percentages)}")
    stuck = min(percentages) == 100 and len(percentages) == len(samples)
    if stuck and power.says is None:
        return Signal(says="unknown", reason="utilization stands at 100 %, as on some idle cards; power is not told")
    if power.says != "idle":
        return Signal(
            says="busy", reason=f"utilization {_range(percentages)} %" + (f", {power.reason}" if power.reason else "")
        )
    if stuck:
        return Signal(says="idle", reason=f"utilization stands at 100 %, but {power.reason}: the meter is stuck")
    return Signal(says="unknown", reason=f"utilization {_range(percentages)} %, but {power.reason}: the two disagree")


def _power(samples: Sequence[CardSample], settings: GateSettings, floor: Floor) -> Signal:
    """A card's power. `idle`: at rest in every sample. `unknown`: far too much for rest. `busy`: somewhere between."""
    watts = [sample.power_w for sample in samples if sample.power_w is not None]
    if not watts:
        return Signal(says=None, reason="")
    most, limit, rest = max(watts), samples[-1].power_limit_w, _rest(samples[-1], settings, floor)
    if limit and most > settings.power_doubt_share * limit:
        return Signal(says="unknown", reason=f"it takes {most:g} W of {limit:g} W")
    if rest is not None and most <= settings.power_factor * rest and len(watts) == len(samples):
        return Signal(says="idle", reason=f"it takes {most:g} W, no more than at rest")
    return Signal(says="busy", reason=f"it takes {most:g} W")


def _rest(card: CardSample, settings: GateSettings, floor: Floor) -> float | None:
    """Watts of this card at rest: seen of it, of its kind, or a share of its limit."""
    if floor.power_w is not None:
        return floor.power_w
    of_kind = next((watts for kind, watts in IDLE_POWER_W.items() if kind in (card.name or "").upper()), None)
    if of_kind is not None:
        return of_kind
    return None if card.power_limit_w is None else settings.idle_power_share * card.power_limit_w


def _support(samples: Sequence[CardSample], settings: GateSettings, floor: Floor) -> Signal:
    """What can confirm a card's low utilization where neither memory nor processes are told."""
    if _power(samples, settings, floor).says == "idle":
        return Signal(says="idle", reason="")
    quiet = all(sample.memory_activity_pct == 0 and sample.utilization_pct == 0 for sample in samples)
    return Signal(says="idle" if quiet else None, reason="")


def _arrangement(card: CardSample, settings: GateSettings) -> Signal:
    if card.compute_mode == "Prohibited":
        return Signal(says="busy", reason="its compute mode is Prohibited: nothing may compute on it")
    if card.mig and not settings.mig:
        return Signal(says="unknown", reason="it is divided by MIG, and the run expects a whole card")
    if card.partition is not None and card.partition.upper() != settings.partition.upper():
        return Signal(
            says="unknown",
            reason=f"it is divided as {card.partition}, where memory totals lie; the run expects {settings.partition}",
        )
    return Signal(says=None, reason="")


def _mib(number: int) -> str:
    return f"{number / MIB:,.0f} MiB"


def _range(values: Sequence[float]) -> str:
    """A card's values as `min to max`, or the one they all are."""
    return f"{max(values):g}" if min(values) == max(values) else f"{min(values):g} to {max(values):g}"


def _count(values: Sequence[float]) -> str:
    return "one sample" if len(values) == 1 else f"{len(values)} samples"


# The least memory and power that each card of this machine was seen with while idle.


class Floors:
    """A small file of the user's cache; without a folder they are known to this process only."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / "floors.json" if folder else None
        self._floors = self._load()

    def of(self, card: CardSample) -> Floor:
        """What is known of a card's power and memory at rest."""
        return self._floors.get(card.key, Floor())

    def learn(self, card: CardSample) -> None:
        """Take a sample of an idle card. A file that cannot be written is done without."""
        before = self.of(card)
        after = Floor(
            memory_bytes=_least(before.memory_bytes, card.memory_used_bytes),
            power_w=_least(before.power_w, card.power_w),
        )
        if after == before:
            return
        self._floors[card.key] = after
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            plain = {key: floor.model_dump() for key, floor in self._floors.items()}
            write_whole(self._path, json.dumps(plain).encode(), synced=False)
        except OSError:
            self._path = None

    def _load(self) -> dict[str, Floor]:
        """A file that is not ours any more is begun anew: it can be learned again."""
        try:
            plain = json.loads(self._path.read_text(encoding="utf-8")) if self._path else {}
            return {key: Floor.model_validate(value) for key, value in plain.items()}
        except (OSError, ValueError, AttributeError, ValidationError):
            return {}


Number = TypeVar("Number", int, float)


def _least(left: Number | None, right: Number | None) -> Number | None:
    values = [value for value in (left, right) if value is not None]
    return min(values, default=None)


PEAKS = ("utilization_pct", "memory_used_bytes", "memory_share_pct", "power_w")


class Cards:
    """One vendor's cards on this machine."""

    def __init__(
        self,
        tools: Tools,
        *,
        settings: GateSettings,
        floors: Floors | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`floors`: default the user's own cache."""
        self._tools = tools
        self._settings = settings
        self._floors = Floors(cache_folder("gate")) if floors is None else floors
        self._sleep = sleep

    def judge(
        self, *, samples: int, interval_s: float, own_pids: Collection[int] = (), after_own_use: bool = False
    ) -> tuple[CardVerdict, ...]:
        """All cards that the tool tells of, after `samples` looks; takes at least `(samples - 1) * interval_s`.

        `own_pids`: their processes are ours, and so is the memory that these hold. `after_own_use`: a card that we
        used a moment ago, of which meters tell of that use still; where its processes are listed, those decide.
        """
        histories = tuple(
            tuple(without_own_use(sample, own_pids, after=after_own_use) for sample in history)
            for history in watch(self._tools, samples=samples, interval_s=interval_s, sleep=self._sleep)
        )
        verdicts = tuple(judge(history, self._settings, floor=self._floors.of(history[-1])) for history in histories)
        if after_own_use:
            return verdicts
        for verdict, history in zip(verdicts, histories, strict=True):
            if verdict.state == "idle" and (history[-1].utilization_pct or 0) <= self._settings.utilization_pct:
                self._floors.learn(history[-1])
        return verdicts


def without_own_use(sample: CardSample, own_pids: Collection[int], *, after: bool) -> CardSample:
    """A card as it is without our processes, and without what meters tell of a use of ours that is just over."""
    if sample.processes is None:
        return sample
    own = [process for process in sample.processes if process.pid in own_pids]
    changes: dict[str, object] = {"processes": tuple(process for process in sample.processes if process not in own)}
    if sample.memory_used_bytes is not None:
        held = sum(process.bytes or 0 for process in own)
        changes["memory_used_bytes"] = max(0, sample.memory_used_bytes - held)
    if after and sample.vendor == "nvidia":  # AMD's lists name processes that use no card
        changes |= {"utilization_pct": 0.0, "power_w": None, "memory_share_pct": None}
    return sample.model_copy(update=changes)


def judge(samples: Sequence[CardSample], settings: GateSettings, *, floor: Floor | None = None) -> CardVerdict:
    """One card's idle state from its samples, shown with the most it took in any. Own process excluded."""
    state = decide(samples, settings=settings, own_pids=(os.getpid(),), floor=floor)
    most = {name: max(values) for name in PEAKS if (values := _values_of(samples, name))}
    return CardVerdict(card=samples[-1].model_copy(update=most), state=state.state, reasons=state.reasons)


def _values_of(samples: Sequence[CardSample], name: str) -> list[float]:
    return [value for sample in samples if (value := getattr(sample, name)) is not None]


# The gate's thresholds as a person sets them: `RIDGELINE_GATE="samples=3 utilization_pct=10 allowed=Xorg+rdcd"`.

VARIABLE = "RIDGELINE_GATE"


class BadSetting(WorldError):
    """A threshold that does not exist or has a value that cannot be."""

    exit_code = 2


def gate_settings(environment: Mapping[str, str] | None = None) -> GateSettings:
    """The defaults with what the variable says; `allowed` adds to the daemons that are known.

    `environment`: default this process's own. Raises BadSetting.
    """
    words = (os.environ if environment is None else environment).get(VARIABLE, "").replace(",", " ").split()
    values: dict[str, object] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in GateSettings.model_fields:
            names = ", ".join(GateSettings.model_fields)
            raise BadSetting(f"{VARIABLE}: {word!r} is no key=value of the gate; known: {names}")
        values[key] = (*GateSettings().allowed, *value.split("+")) if key == "allowed" else value
    try:
        return GateSettings.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        raise BadSetting(f"{VARIABLE}: {problem['loc'][0]}: {problem['msg']}; give another value") from None
