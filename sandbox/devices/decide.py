"""Idle, busy or unknown, by the agreement of signals each of which is known to lie (profilers 9.3 and 9.4). Pure."""

from collections.abc import Collection, Sequence

from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.values import MIB, CardSample, CardState, Floor, GateSettings, GpuProcess, State

IDLE_POWER_W = {
    "MI300X": 158.0,
    "MI355X": 239.0,
    "MI250": 91.0,
    "H100": 71.0,
}
"""Seen of idle cards (profilers 9.4); a card of its own that was seen idle with less replaces it."""

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
    """One card's state from its samples, in the order of time.

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
        found = tuple(signal.reason for signal in signals if signal.says == state)
        if found:
            return CardState(state="busy" if state == "busy" else "unknown", reasons=found)
    reasons = tuple(signal.reason for signal in signals if signal.reason)
    if signals[2].says is None:
        return CardState(state="unknown", reasons=("utilization is not told", *reasons))
    if not any(signal.says == "idle" for signal in (*signals[:2], _support(samples, settings, floor))):
        told = "only utilization is told: one signal alone is not believed"
        return CardState(state="unknown", reasons=(told, *reasons))
    return CardState(state="idle", reasons=reasons)


def _processes(
    samples: Sequence[CardSample], settings: GateSettings, *, own_pids: Collection[int], allowed: Collection[str]
) -> Signal:
    told = [sample for sample in samples if sample.processes is not None]
    if not told:
        return Signal(says=None, reason="")
    foreign = [
        _user(process, sample, settings)
        for sample in told
        for process in sample.processes or ()
        if process.pid not in own_pids and process.name not in allowed
    ]
    for state in ("busy", "unknown"):
        found = dict.fromkeys(signal.reason for signal in foreign if signal.says == state)
        if found:
            return Signal(says="busy" if state == "busy" else "unknown", reason="; ".join(found))
    ignored = dict.fromkeys(signal.reason for signal in foreign)
    return Signal(says="idle", reason="; ".join(ignored) or "no process of others on it")


def _user(process: GpuProcess, sample: CardSample, settings: GateSettings) -> Signal:
    """AMD's lists name processes that use no card, or another one: memory tells."""
    held = process.bytes
    used = sample.memory_used_bytes if sample.vendor == "amd" else None
    if held is None:
        if sample.vendor == "nvidia":  # the list is of those that compute
            return Signal(says="busy", reason=f"{process.text} computes on it; its memory is not told")
        return Signal(says="unknown", reason=f"{process.text} is listed, and its memory is not told")
    if held <= settings.process_bytes:
        return Signal(says="idle", reason=f"{process.text} is listed with {_mib(held)}, which is no user")
    if used is not None and held > used + settings.process_bytes:
        return Signal(says="idle", reason=f"{process.text} holds more than is in use here, so it is on another card")
    if not process.certain:
        return Signal(
            says="unknown", reason=f"{process.text} holds {_mib(held)} of some card, and the tool does not say of which"
        )
    return Signal(says="busy", reason=f"{process.text} holds {_mib(held)} of it")


def _memory(samples: Sequence[CardSample], settings: GateSettings, floor: Floor) -> Signal:
    used = [sample.memory_used_bytes for sample in samples if sample.memory_used_bytes is not None]
    total = next((sample.memory_total_bytes for sample in samples if sample.memory_total_bytes), None)
    if not used:
        return _share(samples)
    seen = floor.memory_bytes
    baseline = settings.memory_baseline_bytes if seen is None else min(seen, settings.memory_baseline_bytes)
    limit, most = baseline + settings.memory_slack_bytes, max(used)
    if most > limit:
        return Signal(says="busy", reason=f"{_mib(most)} of its memory are in use, more than the {_mib(limit)} of rest")
    if total and most - min(used) > settings.memory_motion * total:
        return Signal(says="busy", reason=f"its used memory moves between {_mib(min(used))} and {_mib(most)}")
    return Signal(says="idle", reason=f"{_mib(most)} of memory in use")


def _share(samples: Sequence[CardSample]) -> Signal:
    """Whole per cents only: 0 and 1 may be rest, above 5 is none (rules 19.2)."""
    shares = [sample.memory_share_pct for sample in samples if sample.memory_share_pct is not None]
    if not shares:
        return Signal(says=None, reason="")
    most = max(shares)
    says: State = "idle" if most <= 1 else "busy" if most > 5 else "unknown"
    return Signal(says=says, reason=f"{most:g} % of its memory in use")


def _utilization(samples: Sequence[CardSample], settings: GateSettings, floor: Floor) -> Signal:
    told = [sample.utilization_pct for sample in samples if sample.utilization_pct is not None]
    if not told:
        return Signal(says=None, reason="")
    most, power = max(told), _power(samples, settings, floor)
    if most <= settings.utilization_pct:
        gaps = [
            one for one in samples if one.utilization_pct is None and (one.power_w, one.memory_used_bytes) != NOTHING
        ]
        if gaps:
            return Signal(says="unknown", reason=f"utilization is not told in {len(gaps)} of {len(samples)} samples")
        if power.says == "unknown":
            return Signal(says="unknown", reason=f"utilization reads {most:g} %, but {power.reason}")
        return Signal(says="idle", reason=f"utilization at most {most:g} % in {_count(told)}")
    stuck = min(told) == 100 and len(told) == len(samples)
    if stuck and power.says is None:
        return Signal(says="unknown", reason="utilization stands at 100 %, as on some idle cards; power is not told")
    if power.says != "idle":
        return Signal(
            says="busy", reason=f"utilization {_range(told)} %" + (f", {power.reason}" if power.reason else "")
        )
    if stuck:
        return Signal(says="idle", reason=f"utilization stands at 100 %, but {power.reason}: the meter is stuck")
    return Signal(says="unknown", reason=f"utilization {_range(told)} %, but {power.reason}: the two disagree")


def _power(samples: Sequence[CardSample], settings: GateSettings, floor: Floor) -> Signal:
    """`idle`: at rest in every sample. `unknown`: far too much for rest. `busy`: somewhere between."""
    told = [sample.power_w for sample in samples if sample.power_w is not None]
    if not told:
        return Signal(says=None, reason="")
    most, limit, rest = max(told), samples[-1].power_limit_w, _rest(samples[-1], settings, floor)
    if limit and most > settings.power_doubt_share * limit:
        return Signal(says="unknown", reason=f"it takes {most:g} W of {limit:g} W")
    if rest is not None and most <= settings.power_factor * rest and len(told) == len(samples):
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
    """What can confirm a low utilization where neither memory nor processes are told."""
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


def _range(told: Sequence[float]) -> str:
    return f"{max(told):g}" if min(told) == max(told) else f"{min(told):g} to {max(told):g}"


def _count(told: Sequence[float]) -> str:
    return "one sample" if len(told) == 1 else f"{len(told)} samples"
