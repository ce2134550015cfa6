"""Kernels of a recording, from the table of its dispatches: exact sums and medians, launches, shares, gaps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from ridgeline.graph.kernel_profile import Axes, KernelCalls, Launched, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers.dispatches import Dispatches
from ridgeline.sandbox.profiles.readers.intervals import Course, course
from ridgeline.sandbox.profiles.readers.names import category, display

VARIANTS = 16
_TICKS = (10_000, 1000, 100, 40, 20, 10)
_ALIKE = 0.85
"""Share of durations that are multiples (within 1 ns of rounding) before a tick counts as the clock's."""
_MANY = 20


@dataclass(frozen=True)
class Sums:
    """Durations of one group of dispatches, in nanoseconds."""

    calls: int
    total: int
    least: int
    most: int
    median: float
    squares: int

    @property
    def deviation(self) -> float:
        """Sample standard deviation, as the tool's own statistics have it; 0 for one call."""
        if self.calls < 2:
            return 0.0
        return sqrt(max(0.0, (self.squares - self.total**2 / self.calls) / (self.calls - 1)))


def recordings(dispatches: Dispatches, *, form: str, files: tuple[str, ...], static_lds: bool) -> tuple[Recording, ...]:
    """One recording for each GPU, most time first. `static_lds`: the source tells only the static part of LDS."""
    engine = dispatches.engine
    engine.rows("create temp table hist as select kernel, launch, ns, n from times join ids using (h) where ns > 0")
    names, launches = _sums(dispatches, "kernel"), _sums(dispatches, "launch")
    told = _Told(dispatches, names, launches, course(dispatches), static_lds)
    ticks = _tick(dispatches)
    found = [told.agent(agent, form=form, files=files, ticks=ticks) for agent in told.course.agents]
    return tuple(sorted(found, key=lambda one: -(one.sum_ns or 0)))


def _sums(dispatches: Dispatches, by: str) -> Mapping[int, Sums]:
    rows = dispatches.engine.rows(
        f"with j as (select {by} id, ns, sum(n) n from hist group by 1, 2), "
        "c as (select id, ns, n, sum(n) over (partition by id order by ns) cum, "
        "sum(n) over (partition by id) total from j) "
        "select id, sum(n), sum(n * ns), min(ns), max(ns), min(ns) filter (2 * cum >= total), "
        "min(ns) filter (2 * cum > total), sum(n * ns::hugeint * ns) from c group by id"
    )
    return {
        one: Sums(int(calls), int(total), least, most, (low + high) / 2, int(squares))
        for one, calls, total, least, most, low, high, squares in rows
    }


def _tick(dispatches: Dispatches) -> tuple[Named, ...]:
    """The step in which the clock counts, where the durations show one."""
    counted = ", ".join(f"sum(n) filter ((ns + 1) % {tick} <= 2)" for tick in _TICKS)
    ((total, kinds, *alike),) = dispatches.engine.rows(f"select sum(n), count(distinct ns), {counted} from hist")
    if total < _MANY or kinds < _MANY // 2:
        return ()
    tick = next((tick for tick, many in zip(_TICKS, alike, strict=True) if (many or 0) >= _ALIKE * total), None)
    return (Named(name="resolution_ns", value=tick),) if tick else ()


@dataclass(frozen=True)
class _Told:
    dispatches: Dispatches
    names: Mapping[int, Sums]
    launches: Mapping[int, Sums]
    course: Course
    static_lds: bool

    def agent(self, agent: int, *, form: str, files: tuple[str, ...], ticks: tuple[Named, ...]) -> Recording:
        busy = self.course.agents[agent]
        mine = [at for at, (one, _) in enumerate(self.dispatches.kernels) if one == agent and at in self.names]
        total, span = sum(self.names[at].total for at in mine), busy.last - busy.first
        kernels = sorted(
            (self._kernel(at, total, span) for at in mine), key=lambda one: (-(one.total_ns or 0), one.name)
        )
        return Recording(
            format=form,
            tool="rocprofv3",
            vendor="amd",
            device=self.dispatches.agents[agent] or None,
            grade="trace",
            kernels=tuple(kernels),
            facts=ticks,
            rows=sum(self.names[at].calls for at in mine),
            rejected=self.dispatches.rejected,
            span_ns=span,
            busy_ns=busy.busy,
            sum_ns=total,
            files=files,
            warnings=(*self.dispatches.warnings, *self._several()),
        )

    def _several(self) -> Iterator[str]:
        if len(self.course.agents) > 1:
            yield f"{len(self.course.agents)} GPUs in one file: each is a recording of its own"

    def _kernel(self, at: int, total: int, span: int) -> KernelCalls:
        sums, name = self.names[at], self.dispatches.kernels[at][1]
        kinds = [
            one for one, (kernel, _) in enumerate(self.dispatches.launches) if kernel == at and one in self.launches
        ]
        kinds.sort(key=lambda one: -self.launches[one].total)
        return KernelCalls(
            name=name,
            display=display(name),
            category=category(name),
            calls=sums.calls,
            total_ns=sums.total,
            mean_ns=sums.total / sums.calls,
            median_ns=sums.median,
            min_ns=sums.least,
            max_ns=sums.most,
            stdev_ns=sums.deviation,
            share=sums.total / total,
            share_of_span=sums.total / span,
            gap_before_ns=self.course.gaps.get(at),
            last=self._launched(self.dispatches.last[at]),
            variants=tuple(self._launched(one) for one in kinds[:VARIANTS]),
        )

    def _launched(self, at: int) -> Launched:
        launch, sums = self.dispatches.launches[at][1], self.launches[at]
        return launched(launch, calls=sums.calls, total=sums.total, median=sums.median, static_lds=self.static_lds)


def launched(
    launch: Sequence[int | None], *, calls: int, total: float | None, median: float | None, static_lds: bool
) -> Launched:
    """One launch from its numbers in the order of `dispatches.LAUNCH`."""
    workgroup, grid = _axes(launch[0:3]), _axes(launch[3:6])
    vgpr, accum, sgpr, lds, scratch = launch[6:11]
    return Launched(
        calls=calls,
        grid=grid,
        workgroup=workgroup,
        blocks=_blocks(grid, workgroup),
        arch_vgpr=vgpr,
        accum_vgpr=accum,
        sgpr=sgpr,
        lds_bytes=lds,
        lds_static_only=static_lds and lds is not None,
        scratch_bytes=scratch,
        median_ns=median,
        total_ns=total,
    )


def _axes(told: Sequence[int | None]) -> Axes | None:
    x, y, z = told
    return None if x is None or y is None or z is None or min(x, y, z) < 1 else (x, y, z)


def _blocks(grid: Axes | None, workgroup: Axes | None) -> Axes | None:
    if grid is None or workgroup is None:
        return None
    x, y, z = (-(-items // width) for items, width in zip(grid, workgroup, strict=True))
    return (x, y, z)
