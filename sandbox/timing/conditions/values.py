"""One small record per timed process: what else used the machine. None is always `not told here`, never `nothing`."""

from ridgeline.graph.values import Named, Value


class Load(Value):
    """Use of the timed core (all usable cores where the process was not pinned) over one stretch of time.

    Source: /proc/stat. The kernel counts in steps of 10 ms, so a short stretch is coarse, and a difference of two
    counts may come out a step below zero; sums over several stretches stay right.
    """

    began_us: float
    """On the monotonic clock, which every process of a machine shares."""
    seconds: float
    foreign_s: float | None
    """Core seconds taken by processes that were not started here; interrupts are among them."""
    steal_s: float | None
    """Core seconds that the hypervisor gave to other guests."""
    sibling_s: float | None
    """Core seconds in which the other hardware threads of the core were busy; None where there are none."""

    @property
    def ended_us(self) -> float:
        return self.began_us + 1e6 * self.seconds


class Reading(Value):
    """What a card said of itself at one moment."""

    at_us: float | None
    """On the monotonic clock; None where the tool gives no time."""
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    celsius: float | None = None
    watts: float | None = None
    slowdowns: tuple[str, ...] | None = None
    """Why its clock was below what was asked for, in our words: `SLOWDOWNS` of the vendor's module."""
    idle: bool | None = None
    counts: tuple[Named, ...] = ()
    """Counters that only rise while a slowdown is active; their unit is the vendor's."""


class Card(Value):
    """The GPU of one timed process."""

    tool: str
    index: str
    """As the tool counts or names its cards."""
    before: Reading | None
    during: tuple[Reading, ...]
    after: Reading | None
    foreign: tuple[str, ...] | None
    """Processes of others that computed on it before or after; None where that cannot be seen."""


class Conditions(Value):
    """What the machine did while one process was timed."""

    core: int | None
    """None: not pinned, so all usable cores."""
    load: Load
    """Over the whole process."""
    slices: tuple[Load, ...] = ()
    """The same in short stretches, so that a block is held to what happened during it."""
    mhz: tuple[float | None, float | None] = (None, None)
    """Clock of the core before and after. A virtual machine may tell a nominal number."""
    switches: int | None = None
    """How often the process and its children had to leave the core against their will."""
    card: Card | None = None
    notes: tuple[str, ...] = ()
    """What could not be seen here."""
