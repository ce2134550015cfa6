"""Every card of a vendor, judged: who decides by what was seen now."""

import os
import time
from collections.abc import Callable, Sequence

from ridgeline.sandbox.devices.decide import decide
from ridgeline.sandbox.devices.floors import Floors
from ridgeline.sandbox.devices.tools import Tools, watch
from ridgeline.sandbox.devices.values import CardSample, Floor, GateSettings, Judged
from ridgeline.sandbox.store.caches import cache_folder

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

    def judged(self, *, samples: int, interval_s: float) -> tuple[Judged, ...]:
        """All cards that the tool tells of, after `samples` looks; takes at least `(samples - 1) * interval_s`."""
        seen = watch(self._tools, samples=samples, interval_s=interval_s, sleep=self._sleep)
        found = tuple(judge(card, self._settings, floor=self._floors.of(card[-1])) for card in seen)
        for one, card in zip(found, seen, strict=True):
            if one.state == "idle" and (card[-1].utilization_pct or 0) <= self._settings.utilization_pct:
                self._floors.learn(card[-1])
        return found


def judge(samples: Sequence[CardSample], settings: GateSettings, *, floor: Floor | None = None) -> Judged:
    """One card from its samples, shown with the most it took in any. Own process excluded."""
    state = decide(samples, settings=settings, own_pids=(os.getpid(),), floor=floor)
    most = {name: max(told) for name in PEAKS if (told := _told(samples, name))}
    return Judged(card=samples[-1].model_copy(update=most), state=state.state, reasons=state.reasons)


def _told(samples: Sequence[CardSample], name: str) -> list[float]:
    return [value for sample in samples if (value := getattr(sample, name)) is not None]
