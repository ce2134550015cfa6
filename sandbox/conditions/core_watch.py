"""Watches the timed core while one process runs, from a thread that keeps off it."""

import contextlib
import os
import resource
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Self

from sandbox.conditions.processor import Ticks, children, mhz, own_ticks, siblings, ticks, usable
from sandbox.conditions.values import Conditions, Load

SLICE_S = 0.2
"""20 of the kernel's 10 ms steps: shorter stretches cannot tell a few per cent of load from none."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Look:
    """Everything at one moment; the timed process's own use is counted from its start."""

    at_s: float
    core: Ticks | None
    siblings: Ticks | None
    own_s: float | None


class CoreWatch:
    """`with CoreWatch(core) as watch:` around one process; then `watch.seen()`. Used once, by one thread."""

    def __init__(self, core: int | None) -> None:
        """`core` None watches all usable cores."""
        self._core = core
        self._cores = usable() if core is None else frozenset({core})
        self._siblings = frozenset() if core is None else siblings(core)
        self._looks: list[Look] = []
        self._mhz: list[float | None] = []
        self._switches = 0
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._mhz.append(None if self._core is None else mhz(self._core))
        self._parent = threading.get_native_id()
        self._others = frozenset(children(self._parent) or ())
        self._used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._looks.append(self._look(0.0))
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        last = self._look(used.ru_utime + used.ru_stime - self._used.ru_utime - self._used.ru_stime)
        self._over.set()
        self._thread.join()
        self._looks = [look for look in self._looks if look.at_s <= last.at_s - SLICE_S / 2 or look is self._looks[0]]
        self._looks.append(last)
        self._switches = used.ru_nivcsw - self._used.ru_nivcsw
        self._mhz.append(None if self._core is None else mhz(self._core))

    def seen(self) -> Conditions:
        """What was seen, without the card."""
        whole = _load(self._looks[0], self._looks[-1])
        known = [look for look in self._looks if look.own_s is not None]
        notes = () if whole.foreign_s is not None else ("/proc/stat has no line for the timed core: load is not known",)
        return Conditions(
            core=self._core,
            load=whole,
            slices=tuple(_load(before, after) for before, after in pairwise(known)),
            mhz=(self._mhz[0], self._mhz[-1]),
            switches=self._switches,
            notes=notes,
        )

    def _watch(self) -> None:
        if elsewhere := usable() - self._cores:
            with contextlib.suppress(OSError):  # a core may be taken away from us while we look
                os.sched_setaffinity(0, elsewhere)
        while not self._over.wait(SLICE_S):
            used = own_ticks(frozenset(children(self._parent) or ()) - self._others)
            self._looks.append(self._look(None if used is None else used * TICK_S))

    def _look(self, own_s: float | None) -> Look:
        return Look(
            at_s=time.monotonic(),
            core=ticks(self._cores),
            siblings=ticks(self._siblings) if self._siblings else None,
            own_s=own_s,
        )


def _load(before: Look, after: Look) -> Load:
    foreign = steal = sibling = None
    if before.core and after.core and before.own_s is not None and after.own_s is not None:
        foreign = (after.core.busy - before.core.busy) * TICK_S - (after.own_s - before.own_s)
        steal = (after.core.steal - before.core.steal) * TICK_S
    if before.siblings and after.siblings:
        sibling = (after.siblings.busy - before.siblings.busy) * TICK_S
    seconds = after.at_s - before.at_s
    return Load(began_us=1e6 * before.at_s, seconds=seconds, foreign_s=foreign, steal_s=steal, sibling_s=sibling)
