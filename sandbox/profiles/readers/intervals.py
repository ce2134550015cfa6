"""How dispatches lie in time: span, time when any ran (overlap counts once), and gaps, in slices of bounded size."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ridgeline.sandbox.profiles.readers.dispatches import Dispatches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

SLICE = 400_000
"""Rows held at once, about 50 bytes each while they are sorted."""
_COLUMNS = ("s", "e", "kernel")
_CUT = 12
"""Bits cut from the 23 of a gap's mantissa: exact below 4096 ns, within 0.03 per cent above, and bounded in number."""
_ROOM = 20
"""Bits that are left of a gap, beside its kernel's number."""


@dataclass
class Busy:
    """One agent, or one queue of it, up to a point in time."""

    first: int
    last: int
    busy: int = 0


@dataclass
class Course:
    """What the slices add up to."""

    agents: dict[int, Busy] = field(default_factory=dict)
    queues: dict[int, Busy] = field(default_factory=dict)
    gaps: dict[int, float] = field(default_factory=dict)
    """Median gap before a kernel in nanoseconds, over the calls that had one."""


def course(dispatches: Dispatches) -> Course:
    """Span, busy time and gaps by agent and kernel number. Exact but for the gaps (0.03 per cent)."""
    import numpy as np

    found, gaps = Course(), _Gaps()
    agents = np.array([agent for agent, _ in dispatches.queues], np.int64)
    shared = {int(one) for one in agents if _several(agents, one)}
    for rows in _ahead(_slices(dispatches)):
        columns = [np.asarray(rows[name]) for name in (*_COLUMNS, "queue") if name in rows]
        if (columns[0][1:] < columns[0][:-1]).any():
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        s, e, kernel, *queues = columns
        for one, mine in _groups(queues[0]) if queues else [(0, slice(None))]:
            gaps.add(kernel[mine], s[mine] - _advance(found.queues, one, s[mine], e[mine]))
        for one, mine in _groups(agents[queues[0]]) if shared else ():
            if one in shared:
                _advance(found.agents, one, s[mine], e[mine])
    found.agents.update({int(agents[at]): busy for at, busy in found.queues.items() if int(agents[at]) not in shared})
    found.gaps.update(gaps.medians())
    return found


def _several(agents: "Numbers", one: int) -> bool:
    """Whether an agent has several queues; where it has one, what is true of the queue is true of the agent."""
    return int((agents == one).sum()) > 1


def _ahead(slices: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The same slices, each fetched while the one before it is summed."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, slices, None)
        while (rows := coming.result()) is not None:
            coming = pool.submit(next, slices, None)
            yield rows


def _groups(numbers: "Numbers") -> Iterator[tuple[int, Any]]:
    """Each number that occurs, with what selects its rows."""
    import numpy as np

    distinct = np.flatnonzero(np.bincount(numbers))
    for one in distinct:
        yield int(one), slice(None) if len(distinct) == 1 else numbers == one


def _slices(dispatches: Dispatches) -> Iterator[Mapping[str, Any]]:
    """All usable rows in slices by start time, of about SLICE rows each."""
    engine = dispatches.engine
    told = _COLUMNS if len(dispatches.queues) == 1 else (*_COLUMNS, "queue")
    sql = f"select {', '.join(told)} from d join ids using (h) where e > s"
    if dispatches.rows <= SLICE:
        yield engine.columns(sql)
        return
    step = max(1, dispatches.rows // 20_000)
    drawn = [row[0] for row in engine.rows(f"select s from d where e > s and rowid % {step} = 0 order by s")]
    edges = drawn[:: max(1, len(drawn) * SLICE // dispatches.rows)]
    bounds: Sequence[int] = sorted({*edges[1:]})
    least, most = -(1 << 62), 1 << 62
    for low, high in zip((least, *bounds), (*bounds, most), strict=True):
        part = engine.columns(f"{sql} and s >= {low} and s < {high}")
        if len(part["s"]):
            yield part


def _advance(known: dict[int, Busy], one: int, s: "Numbers", e: "Numbers") -> "Numbers":
    """Adds rows, sorted by start, to one agent or queue; returns until when it was busy before each row."""
    import numpy as np

    state = known.setdefault(one, Busy(first=int(s[0]), last=int(s[0])))
    until = np.empty(len(e) + 1, np.int64)
    until[0], until[1:] = state.last, e
    np.maximum.accumulate(until, out=until)
    state.busy += int(np.maximum(e - np.maximum(s, until[:-1]), 0).sum())
    state.last = int(until[-1])
    return until[:-1]


class _Gaps:
    """How often each gap came before each kernel, to 12 binary digits."""

    def __init__(self) -> None:
        import numpy as np

        self._codes = np.empty(0, np.int64)
        self._times = np.empty(0, np.int64)

    def add(self, kernel: "Numbers", gap: "Numbers") -> None:
        import numpy as np

        there = gap > 0
        bits = gap[there].astype(np.float32).view(np.int32) >> _CUT
        codes, times = _counted(np.sort((kernel[there].astype(np.int64) << _ROOM) + bits))
        codes, times = np.concatenate((self._codes, codes)), np.concatenate((self._times, times))
        order = np.argsort(codes, kind="stable")
        self._codes, self._times = _counted(codes[order], times[order])

    def medians(self) -> Iterator[tuple[int, float]]:
        """(kernel, median gap in ns) of each kernel that had one."""
        import numpy as np

        kernels = self._codes >> _ROOM
        for kernel in np.unique(kernels):
            mine = kernels == kernel
            gaps = (self._codes[mine] & ((1 << _ROOM) - 1)).astype(np.int32)
            low, middle = ((gaps << _CUT) + half for half in (0, 1 << (_CUT - 1)))
            exact, told = low.view(np.float32), middle.view(np.float32)
            sums = np.cumsum(self._times[mine])
            places = [int(np.searchsorted(sums, at)) for at in ((sums[-1] + 1) // 2, sums[-1] // 2 + 1)]
            yield int(kernel), sum(float(exact[at] if exact[at] < 4096 else told[at]) for at in places) / 2


def _counted(ordered: "Numbers", times: "Numbers | None" = None) -> tuple["Numbers", "Numbers"]:
    """Distinct values of a sorted array, and how often each came (`times`: how often each element counts)."""
    import numpy as np

    if not len(ordered):
        return ordered, np.empty(0, np.int64)
    starts = np.concatenate((np.array([0]), np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
    if times is None:
        return ordered[starts], np.diff(np.append(starts, len(ordered)))
    return ordered[starts], np.add.reduceat(times, starts)
