"""Who else used the core while something was timed: recorded beside the times, never a reason to hide one."""

import os
from dataclasses import dataclass

from graph.values import Value


class Load(Value):
    """Shares of the interval, 0 to 1 of one core; what was started here is taken out of `others`."""

    core: int | None
    """None: all cores together, because the command was not pinned."""
    others: float
    steal: float
    """Taken by the hypervisor for other guests."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Counters at one moment, in seconds."""

    busy: float
    steal: float
    total: float
    own: float


def sample(core: int | None) -> Sample:
    """The counters now. Source: /proc/stat through psutil; own: the children that were waited for."""
    import psutil

    times = psutil.cpu_times() if core is None else psutil.cpu_times(percpu=True)[core]
    idle = times.idle + getattr(times, "iowait", 0.0)
    steal = getattr(times, "steal", 0.0)
    total = times.user + times.system + getattr(times, "irq", 0.0) + getattr(times, "softirq", 0.0) + idle + steal
    own = sum(os.times()[2:4])
    return Sample(busy=total - idle - steal, steal=steal, total=total, own=own)


def between(before: Sample, after: Sample, core: int | None) -> Load:
    """The load of the interval; zero when the clock of /proc/stat (10 ms) did not move."""
    total = after.total - before.total
    if total <= 0:
        return Load(core=core, others=0.0, steal=0.0)
    others = (after.busy - before.busy) - (after.own - before.own)
    return Load(
        core=core, others=min(1.0, max(0.0, others / total)), steal=min(1.0, (after.steal - before.steal) / total)
    )
