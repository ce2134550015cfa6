"""What the kernel says of one core: pure parsing, and readers of /proc and /sys."""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ridgeline.sandbox.workspace.signatures import contents

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
    busy = steal = found = 0
    for match in re.finditer(r"^cpu(\d+) (.*)$", text, re.MULTILINE):
        if int(match[1]) not in cores:
            continue
        columns = [int(word) for word in match[2].split()]
        if len(columns) < 7:
            return None
        user, nice, system, _, _, irq, softirq, *rest = columns
        busy += user + nice + system + irq + softirq
        steal += rest[0] if rest else 0
        found += 1
    return Ticks(busy=busy, steal=steal) if found == len(cores) and found else None


def parse_own(text: str) -> int | None:
    """Ticks that a process and its waited-for children have used, from /proc/PID/stat; None for a torn line."""
    words = text.rpartition(")")[2].split()
    return sum(int(word) for word in words[11:15]) if len(words) > 14 else None


def parse_list(text: str) -> frozenset[int]:
    """Numbers of a list such as `0,64` or `0-1,8`, as /sys writes it. Raises ValueError for anything else."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def ticks(cores: Collection[int]) -> Ticks | None:
    """The counters now; None where the kernel gives none."""
    try:
        return parse_stat(_text(f"{PROC}/stat"), cores)
    except OSError:
        return None


def siblings(core: int, root: Path = CPUS) -> frozenset[int]:
    """The other hardware threads of the core; empty where there are none or the kernel does not say."""
    try:
        return parse_list(_text(f"{root}/cpu{core}/topology/thread_siblings_list")) - {core}
    except (OSError, ValueError):
        return frozenset()


def mhz(core: int, root: Path = CPUS, proc: Path = PROC) -> float | None:
    """The core's clock now: cpufreq, else /proc/cpuinfo, else None."""
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
    """What the kernel tells in a file."""
    return contents(path).decode(errors="replace")


def parse_mhz(cpuinfo: str, core: int) -> float | None:
    """`cpu MHz` of that processor in /proc/cpuinfo; None where it is not told, as on Arm."""
    for block in cpuinfo.split("\n\n"):
        if re.search(rf"^processor\s*:\s*{core}$", block, re.MULTILINE):
            match = re.search(r"^cpu MHz\s*:\s*([\d.]+)$", block, re.MULTILINE)
            return float(match[1]) if match else None
    return None


def children(thread: int) -> tuple[int, ...] | None:
    """Processes started by that thread of ours which live; None without CONFIG_PROC_CHILDREN."""
    return _children(f"{PROC}/self/task/{thread}")


def own_ticks(roots: Collection[int]) -> int | None:
    """Ticks used by these processes and everything under them; None when none of them lives any more."""
    total, seen, waiting = 0, 0, list(roots)
    while waiting:
        process = waiting.pop()
        try:
            used = parse_own(_text(f"{PROC}/{process}/stat"))
        except OSError:  # it ended between two looks
            continue
        total, seen = total + (used or 0), seen + 1
        waiting += _children(f"{PROC}/{process}/task/{process}") or ()
    return total if seen else None


def usable() -> frozenset[int]:
    """Cores that this process may use."""
    return frozenset(os.sched_getaffinity(0))


def _children(task: str) -> tuple[int, ...] | None:
    try:
        return tuple(int(word) for word in _text(f"{task}/children").split())
    except OSError:
        return None
