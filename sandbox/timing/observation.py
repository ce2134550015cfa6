"""Watches the timed core while one process runs, from a thread that keeps off it."""

import contextlib
import functools
import os
import re
import resource
import shutil
import threading
import time
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.lease import tell
from ridgeline.sandbox.devices.tools import Look, Smi, smi_of
from ridgeline.sandbox.devices.values import Conditions, Kind, Load
from ridgeline.sandbox.isolation import stopping
from ridgeline.sandbox.workspace.commands import pinned_core
from ridgeline.sandbox.workspace.signatures import contents

# What the kernel says of one core: pure parsing, and readers of /proc and /sys.

PROC = Path("/proc")
CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, kw_only=True)
class Ticks:
    """Counters of some cores since boot, in clock ticks."""

    busy: int
    steal: int


def parse_stat(text: str, cores: Collection[int]) -> Ticks | None:
    """Sum over these cores of /proc/stat; None when one of them has no line.

    Columns after the name: user nice system idle iowait irq softirq steal; guests are in user already (proc(5)).
    """
    busy = steal = count = 0
    for match in re.finditer(r"^cpu(\d+) (.*)$", text, re.MULTILINE):
        if int(match[1]) not in cores:
            continue
        columns = [int(word) for word in match[2].split()]
        if len(columns) < 7:
            return None
        user, nice, system, _, _, irq, softirq, *rest = columns
        busy += user + nice + system + irq + softirq
        steal += rest[0] if rest else 0
        count += 1
    return Ticks(busy=busy, steal=steal) if count == len(cores) and count else None


def parse_own(text: str) -> int | None:
    """Ticks that a process and its waited-for children have used, from /proc/PID/stat; None for a torn line."""
    words = text.rpartition(")")[2].split()
    return sum(int(word) for word in words[11:15]) if len(words) > 14 else None


def parse_list(text: str) -> frozenset[int]:
    """Processor numbers of a list such as `0,64` or `0-1,8`, as /sys writes it. Raises ValueError for anything else."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        numbers |= set(range(int(low), int(high or low) + 1))
    return frozenset(numbers)


def ticks(cores: Collection[int]) -> Ticks | None:
    """The processor's tick counters of these cores now; None where the kernel gives none."""
    try:
        return parse_stat(_text(f"{PROC}/stat"), cores)
    except OSError:
        return None


def siblings(core: int, root: Path = CPUS) -> frozenset[int]:
    """The other hardware threads of the timed core; empty where there are none or the kernel does not say."""
    try:
        return parse_list(_text(f"{root}/cpu{core}/topology/thread_siblings_list")) - {core}
    except (OSError, ValueError):
        return frozenset()


def mhz(core: int, root: Path = CPUS, proc: Path = PROC) -> float | None:
    """The timed core's clock now: cpufreq, else /proc/cpuinfo, else None."""
    try:
        return int(_text(f"{root}/cpu{core}/cpufreq/scaling_cur_freq")) / 1000
    except FileNotFoundError:
        pass
    except (OSError, ValueError):  # cpufreq answers <unknown> for a core that is offline
        return None
    try:
        return parse_mhz(_text(f"{proc}/cpuinfo"), core)
    except (OSError, ValueError):
        return None


def _text(path: str) -> str:
    """What the kernel tells of the timed core in a file."""
    return contents(path).decode(errors="replace")


def parse_mhz(cpuinfo: str, core: int) -> float | None:
    """`cpu MHz` of that processor in /proc/cpuinfo; None where it is not told, as on Arm."""
    for block in cpuinfo.split("\n\n"):
        if re.search(rf"^processor\s*:\s*{core}$", block, re.MULTILINE):
            match = re.search(r"^cpu MHz\s*:\s*([\d.]+)$", block, re.MULTILINE)
            return float(match[1]) if match else None
    return None


def children(thread: int) -> tuple[int, ...] | None:
    """Living processes that a timed thread of ours started; None without CONFIG_PROC_CHILDREN."""
    return _children(f"{PROC}/self/task/{thread}")


def own_ticks(roots: Collection[int]) -> int | None:
    """Processor ticks used by the timed processes and everything under them; None when none of them lives any more."""
    total, live, waiting = 0, 0, list(roots)
    while waiting:
        process = waiting.pop()
        try:
            used = parse_own(_text(f"{PROC}/{process}/stat"))
        except OSError:  # it ended between two looks
            continue
        total, live = total + (used or 0), live + 1
        waiting += _children(f"{PROC}/{process}/task/{process}") or ()
    return total if live else None


class TreeUse:
    """Processor time of this process and of everything under it, whichever thread started it.

    The kernel adds a process's time to that of whoever waits for it. A worker that is killed from outside its own
    process namespace is waited for by nobody of ours, so what was last seen of it is remembered.
    """

    def __init__(self) -> None:
        self._ticks_of: dict[int, int] = {}
        """Ticks of each process that was ever seen, without its children's."""
        self._waited_before = sum(waited for _, waited in _tree().values())

    @property
    def processes(self) -> Container[int]:
        """Every process that was ever seen to be of what is timed."""
        return self._ticks_of.keys()

    def ticks(self) -> int:
        """Processor ticks of what is timed so far."""
        live = _tree()
        self._ticks_of |= {process: ticks for process, (ticks, _) in live.items()}
        ended_ticks = sum(ticks for process, ticks in self._ticks_of.items() if process not in live)
        child_ticks = sum(child_ticks for _, child_ticks in live.values()) - self._waited_before
        return sum(ticks for ticks, _ in live.values()) + max(child_ticks, ended_ticks)


class ForeignUse:
    """Processor time that processes of others used on some cores.

    Seen process by process, so what one used after the last look before its end is missed. What our own killed
    workers used, which nobody waits for, is not taken for somebody else's.
    """

    def __init__(self, cores: frozenset[int]) -> None:
        self._cores = cores
        self._last_ticks: dict[int, int] | None = None
        self._total = 0

    def ticks(self, ours: Container[int]) -> int:
        """Ticks since the first call, of every process but `ours`."""
        used_ticks: dict[int, int] = {}
        for name in os.listdir(PROC):  # noqa: PTH208 (names, several times a second)
            if not name.isdigit() or int(name) in ours:
                continue
            try:
                words = _text(f"{PROC}/{name}/stat").rpartition(")")[2].split()
            except OSError:  # it ended between two looks
                continue
            process, used, processor = int(name), int(words[11]) + int(words[12]), int(words[36])
            used_ticks[process] = used
            if self._last_ticks is not None and processor in self._cores:
                self._total += max(0, used - self._last_ticks.get(process, 0))
        self._last_ticks = used_ticks
        return self._total


def _tree() -> dict[int, tuple[int, int]]:
    """Of a timed process and all under it: own ticks, and those of children that were waited for."""
    ticks: dict[int, tuple[int, int]] = {}
    waiting = [os.getpid()]
    while waiting:
        process = waiting.pop()
        try:
            words = _text(f"{PROC}/{process}/stat").rpartition(")")[2].split()
            threads = os.listdir(f"{PROC}/{process}/task")  # noqa: PTH208 (names, several times a second)
        except OSError:  # it ended between two looks
            continue
        user, system, waited_user, waited_system = (int(word) for word in words[11:15])
        ticks[process] = user + system, waited_user + waited_system
        waiting += [child for thread in threads for child in _children(f"{PROC}/{process}/task/{thread}") or ()]
    return ticks


def usable() -> frozenset[int]:
    """Processor cores that this process may use for timing."""
    return frozenset(os.sched_getaffinity(0))


def _children(task: str) -> tuple[int, ...] | None:
    try:
        return tuple(int(word) for word in _text(f"{task}/children").split())
    except OSError:
        return None


SLICE_S = 0.2
"""20 of the kernel's 10 ms steps: shorter stretches cannot tell a few per cent of load from none."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class LoadLook:
    """Everything at one moment; the timed process's own use is counted from its start."""

    at_s: float
    core: Ticks | None
    siblings: Ticks | None
    own_s: float | None
    foreign_s: float | None = None
    """Of the processes of others, where they were looked at one by one."""


@functools.cache
def _siblings(core: int) -> frozenset[int]:
    """Hardware threads of the timed core: how the machine is built does not change while we look."""
    return siblings(core)


class _Watcher:
    """A thread that looks every `SLICE_S` while it was asked to. It lives on: one is needed for every timed process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._look: Callable[[], LoadLook] | None = None
        self._keep_to: frozenset[int] = frozenset()
        self._looks: list[LoadLook] = []
        threading.Thread(target=self._run, daemon=True).start()

    def begin(self, look: Callable[[], LoadLook], *, keep_to: frozenset[int]) -> None:
        """Watch the timed core again and again, from other cores, until `end`."""
        with self._changed:
            self._look, self._keep_to, self._looks = look, keep_to, []
            self._changed.notify()

    def end(self) -> list[LoadLook]:
        """The looks at the timed core so far; one that is still under way is dropped when it ends."""
        with self._changed:
            looks, self._looks, self._look = self._looks, [], None
            self._changed.notify()
        return looks

    def _run(self) -> None:
        while True:
            look, looks = self._wait_for_request()
            while self._time_for_another(looks):
                sample = look()
                with self._changed:
                    if self._looks is looks:
                        looks.append(sample)

    def _wait_for_request(self) -> tuple[Callable[[], LoadLook], list[LoadLook]]:
        with self._changed:
            while self._look is None:
                self._changed.wait()
            with contextlib.suppress(OSError):  # a core may be taken away from us meanwhile
                os.sched_setaffinity(0, self._keep_to)
            return self._look, self._looks

    def _time_for_another(self, looks: list[LoadLook]) -> bool:
        with self._changed:
            return not self._changed.wait_for(lambda: self._looks is not looks, SLICE_S)


_idle: list[_Watcher] = []


class CoreWatch:
    """`with CoreWatch(core) as watch:` around one process; then `watch.conditions()`. Used once, by one thread."""

    def __init__(self, core: int | None, *, inside: bool = False) -> None:
        """`core` None watches all usable cores. `inside`: what is timed runs in this process and in what it starts."""
        self._core = core
        self._inside = inside
        self._tree = TreeUse()
        self._cores = usable() if core is None else frozenset({core})
        self._foreign = ForeignUse(self._cores)
        self._siblings = frozenset() if core is None else _siblings(core)
        self._looks: list[LoadLook] = []
        self._mhz: list[float | None] = []
        self._switches = 0

    def __enter__(self) -> Self:
        self._mhz.append(None if self._core is None else mhz(self._core))
        self._parent = threading.get_native_id()
        self._siblings = frozenset(children(self._parent) or ())
        self._used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._looks.append(self._look_between() if self._inside else self._look(0.0))
        self._watcher = _idle.pop() if _idle else _Watcher()
        self._watcher.begin(self._look_between, keep_to=usable() - self._cores or usable())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended_s = used.ru_utime + used.ru_stime - self._used.ru_utime - self._used.ru_stime
        final = self._look_between() if self._inside else self._look(ended_s)
        self._looks += self._watcher.end()
        _idle.append(self._watcher)
        self._looks = [look for look in self._looks if look.at_s <= final.at_s - SLICE_S / 2 or look is self._looks[0]]
        self._looks.append(final)
        self._switches = used.ru_nivcsw - self._used.ru_nivcsw
        self._mhz.append(None if self._core is None else mhz(self._core))

    def conditions(self) -> Conditions:
        """What was seen, without the card."""
        load = _load(self._looks[0], self._looks[-1])
        looks = [look for look in self._looks if look.own_s is not None]
        notes = () if load.foreign_s is not None else ("/proc/stat has no line for the timed core: load is not known",)
        return Conditions(
            core=self._core,
            load=load,
            slices=tuple(_load(before, after) for before, after in pairwise(looks)),
            mhz=(self._mhz[0], self._mhz[-1]),
            switches=self._switches,
            notes=notes,
        )

    def _look_between(self) -> LoadLook:
        if self._inside:
            own_s = self._tree.ticks() * TICK_S
            return self._look(own_s, foreign_s=self._foreign.ticks(self._tree.processes) * TICK_S)
        used = own_ticks(frozenset(children(self._parent) or ()) - self._siblings)
        return self._look(None if used is None else used * TICK_S)

    def _look(self, own_s: float | None, *, foreign_s: float | None = None) -> LoadLook:
        return LoadLook(
            at_s=time.monotonic(),
            core=ticks(self._cores),
            siblings=ticks(self._siblings) if self._siblings else None,
            own_s=own_s,
            foreign_s=foreign_s,
        )


def _load(before: LoadLook, after: LoadLook) -> Load:
    foreign = steal = sibling = None
    if before.core and after.core and before.own_s is not None and after.own_s is not None:
        foreign = (after.core.busy - before.core.busy) * TICK_S - (after.own_s - before.own_s)
        if before.foreign_s is not None and after.foreign_s is not None:
            foreign = min(foreign, after.foreign_s - before.foreign_s)
        steal = (after.core.steal - before.core.steal) * TICK_S
    if before.siblings and after.siblings:
        sibling = (after.siblings.busy - before.siblings.busy) * TICK_S
    seconds = after.at_s - before.at_s
    return Load(began_us=1e6 * before.at_s, seconds=seconds, foreign_s=foreign, steal_s=steal, sibling_s=sibling)


# Waits for the timed core to rest, before a pair that other processes disturbed is timed again.

RESTED = 0.1
"""Share of the core that others may use: well below what disturbs a block (`rules.FOREIGN_SHARE`)."""
LOOK_S = 1.0
"""One look: 100 of the kernel's steps."""
LOOKS = 3
"""In a row that must find it at rest: work that comes and goes would come again."""
SAID_S = 60.0
"""Between two lines to whoever waits; what is waited for in short pieces adds up."""
TOTAL_S = 180.0
"""Longest of all waits of one comparison together: a machine that is never quiet must not stop a campaign."""

CoreLook = Callable[[], Ticks | None]


class Quiet:
    """Patience of one comparison. Nothing of ours runs while it waits, so whatever the core does is others' work."""

    def __init__(
        self,
        core: int | None,
        *,
        total_s: float = TOTAL_S,
        look: CoreLook | None = None,
        sleep: Callable[[float], None] = stopping.sleep,
        say: Callable[[str], None] = tell,
    ) -> None:
        """`core` None watches all usable cores. `total_s` 0 never waits."""
        cores: Collection[int] = usable() if core is None else (core,)
        self._cores = len(cores)
        self.total_s = self._left_s = total_s
        self._say = say
        self._said_s = -SAID_S
        self._look = look or (lambda: ticks(cores))
        self._sleep = sleep

    def wait(self) -> bool:
        """Wait until the core for timing was at rest for `LOOKS` looks. False when patience ran out, or nothing can be seen."""
        rest_looks = 0
        while self._left_s >= LOOK_S:
            before = self._look()
            self._sleep(LOOK_S)
            self._left_s -= LOOK_S
            after = self._look()
            if before is None or after is None:
                return False
            busy_s = (after.busy - before.busy + after.steal - before.steal) * TICK_S
            rest_looks = rest_looks + 1 if busy_s <= RESTED * LOOK_S * self._cores else 0
            if rest_looks == LOOKS:
                return True
            self._say_wait(busy_s / (LOOK_S * self._cores))
        return False

    def _say_wait(self, busy: float) -> None:
        """A line each minute of waiting. `busy`: share of the cores that others used in the last look."""
        waited_s = self.total_s - self._left_s
        if busy > RESTED and waited_s - self._said_s >= SAID_S:
            self._said_s = waited_s
            self._say(
                f"blocks of a measurement were left out because the machine was busy: waiting for the timed core to rest,"
                f" {busy:.0%} of it is in use by other processes; {waited_s:.0f} s so far in this comparison, at most"
                f" {self.total_s:.0f} s"
            )


# Who keeps the machine busy, for people.

WATCHED_S = 0.5
BUSY_SHARE = 0.10
"""Of a core: what uses less is not named."""
NAMED = 4


def list_busy_processes() -> tuple[str, ...]:
    """Processes that used more than `BUSY_SHARE` of a core just now, busiest first: `python3 (pid 12) 98 % of a core`."""
    import psutil

    before = {process.pid: process for process in psutil.process_iter() if process.pid != os.getpid()}
    for process in before.values():
        with contextlib.suppress(psutil.Error):
            process.cpu_percent()
    time.sleep(WATCHED_S)
    busy: list[tuple[float, str]] = []
    for process in before.values():
        with contextlib.suppress(psutil.Error):
            percent = process.cpu_percent()
            if percent >= 100 * BUSY_SHARE:
                busy.append((percent, f"{process.name()} (pid {process.pid}) {percent:.0f} % of a core"))
    return tuple(text for _, text in sorted(busy, reverse=True)[:NAMED])


# What of the conditions can be read on this machine: one line per source, for `ridgeline doctor`.

TOOLS: dict[Kind, tuple[str, ...]] = {"nvidia": ("nvidia-smi",), "amd": ("amd-smi", "rocm-smi")}


class Source(Value):
    """One thing that may be told of the machine while something is timed."""

    name: str
    available: bool
    detail: str
    cost: str
    """What does without it; empty when it is there."""


def sources() -> tuple[Source, ...]:
    """Processor first, then the cards whose tool is here. Asks every tool once: up to a second each."""
    cards = (smi_of(kind, {}) for kind, tools in TOOLS.items() if any(shutil.which(tool) for tool in tools))
    return (_load_source(), _clock(), *(_card(smi) for smi in cards if smi))


def _load_source() -> Source:
    core = pinned_core()
    if ticks({core}) is None:
        cost = "no measurement is left out for the load of other processes, because it is not seen"
        return Source(name="load of the core", available=False, detail="/proc/stat tells nothing", cost=cost)
    fine = children(threading.get_native_id()) is not None
    parts = (
        f"core {core}: other processes and the hypervisor",
        "block by block" if fine else "process by process only (kernel without CONFIG_PROC_CHILDREN)",
        f"hardware threads beside it: {len(siblings(core)) or 'none'}",
    )
    return Source(name="load of the core", available=True, detail=", ".join(parts), cost="")


def _clock() -> Source:
    clock_mhz = mhz(pinned_core())
    if clock_mhz is None:
        cost = "the record of a measurement lacks the core's clock; no decision rests on it"
        return Source(name="clock of the core", available=False, detail="neither cpufreq nor /proc/cpuinfo", cost=cost)
    return Source(name="clock of the core", available=True, detail=f"{clock_mhz:.0f} MHz now", cost="")


def _card(smi: Smi) -> Source:
    look = smi.look()
    available, missing = _list_available(look)
    cost = f"measurements disturbed by it are not told apart: {', '.join(missing)}" if missing else ""
    detail = "; ".join((f"{smi.tool}: {', '.join(available) or 'nothing'}", *look.notes))
    return Source(name="state of the card", available=look.reading is not None, detail=detail, cost=cost)


def _list_available(look: Look) -> tuple[list[str], list[str]]:
    reading = look.reading
    availability = {
        "clock": reading is not None and reading.sm_mhz is not None,
        "temperature": reading is not None and reading.celsius is not None,
        "power": reading is not None and reading.watts is not None,
        "throttling": reading is not None and (reading.slowdowns is not None or bool(reading.counts)),
        "other users": look.foreign is not None,
    }
    return [name for name, is_available in availability.items() if is_available], [
        name for name, is_available in availability.items() if not is_available
    ]
