"""Watches the timed core while one process runs, from a thread that keeps off it."""

import contextlib
import functools
import os
import resource
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Self

from ridgeline.sandbox.timing.conditions.processor import Ticks, children, mhz, own_ticks, siblings, ticks, usable
from ridgeline.sandbox.timing.conditions.values import Conditions, Load

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


@functools.cache
def _siblings(core: int) -> frozenset[int]:
    """How the machine is built does not change while we look."""
    return siblings(core)


class _Watcher:
    """A thread that looks every `SLICE_S` while it was asked to. It lives on: one is needed for every timed process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._look: Callable[[], Look] | None = None
        self._keep_to: frozenset[int] = frozenset()
        self._looks: list[Look] = []
        threading.Thread(target=self._run, daemon=True).start()

    def begin(self, look: Callable[[], Look], *, keep_to: frozenset[int]) -> None:
        """Look again and again, from those cores, until `end`."""
        with self._changed:
            self._look, self._keep_to, self._looks = look, keep_to, []
            self._changed.notify()

    def end(self) -> list[Look]:
        """What was seen; a look that is under way is nobody's any more."""
        with self._changed:
            found, self._looks, self._look = self._looks, [], None
            self._changed.notify()
        return found

    def _run(self) -> None:
        while True:
            look, looks = self._asked()
            while self._time_for_another(looks):
                found = look()
                with self._changed:
                    if self._looks is looks:
                        looks.append(found)

    def _asked(self) -> tuple[Callable[[], Look], list[Look]]:
        with self._changed:
            while self._look is None:
                self._changed.wait()
            with contextlib.suppress(OSError):  # a core may be taken away from us meanwhile
                os.sched_setaffinity(0, self._keep_to)
            return self._look, self._looks

    def _time_for_another(self, looks: list[Look]) -> bool:
        with self._changed:
            return not self._changed.wait_for(lambda: self._looks is not looks, SLICE_S)


_idle: list[_Watcher] = []


class CoreWatch:
    """`with CoreWatch(core) as watch:` around one process; then `watch.seen()`. Used once, by one thread."""

    def __init__(self, core: int | None) -> None:
        """`core` None watches all usable cores."""
        self._core = core
        self._cores = usable() if core is None else frozenset({core})
        self._siblings = frozenset() if core is None else _siblings(core)
        self._looks: list[Look] = []
        self._mhz: list[float | None] = []
        self._switches = 0

    def __enter__(self) -> Self:
        self._mhz.append(None if self._core is None else mhz(self._core))
        self._parent = threading.get_native_id()
        self._others = frozenset(children(self._parent) or ())
        self._used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._looks.append(self._look(0.0))
        self._watcher = _idle.pop() if _idle else _Watcher()
        self._watcher.begin(self._look_between, keep_to=usable() - self._cores or usable())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        last = self._look(used.ru_utime + used.ru_stime - self._used.ru_utime - self._used.ru_stime)
        self._looks += self._watcher.end()
        _idle.append(self._watcher)
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

    def _look_between(self) -> Look:
        used = own_ticks(frozenset(children(self._parent) or ()) - self._others)
        return self._look(None if used is None else used * TICK_S)

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
