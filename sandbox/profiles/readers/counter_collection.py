"""counter_collection.csv of rocprofv3: a row per dispatch and counter, streamed; per kernel the mean over its calls."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.graph.kernel_profile import KernelCalls, Launched, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers.csv_head import Head, is_ended
from ridgeline.sandbox.profiles.readers.dispatches import Symbol
from ridgeline.sandbox.profiles.readers.engine import Engine, opened
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.names import category, display

FORMAT = "counter_collection"
_ALIVE = ("GRBM_GUI_ACTIVE", "GRBM_COUNT", "SQ_WAVES", "SQ_WAVE_CYCLES", "SQ_BUSY_CYCLES")
"""Counters that cannot be 0 when a kernel ran."""
_OFTEN_DEAD = ("SQ_ACCUM_PREV_HIRES", "SQ_LEVEL_WAVES")
"""Counters that some devices do not accumulate: their 0 means not told."""
_LAUNCH = ("grid", "workgroup", "vgpr", "accum", "sgpr", "lds", "scratch")


@dataclass(frozen=True)
class Cell:
    """One counter of one kernel, over all rows of a file."""

    agent: str
    name: str
    counter: str
    calls: int
    mean: float
    most: float
    unread: int
    times: tuple[float, float, float] | None
    """Sum, least and most of the durations of these rows in nanoseconds."""
    launch: tuple[int | None, ...]
    launches: int


def sniff(head: Head) -> bool:
    """Whether a CSV header is that of counters in long form."""
    return head.has("name", "counter", "value")


def read(path: Path, head: Head) -> tuple[Recording, ...]:
    """One recording per GPU. A pass whose counters are all 0 has failed: its values are left out, with a warning.

    Raises `RecordingError` when a row is damaged, a value is no number, or there is no row.
    """
    found = cells(path, path, head)
    warnings = ("the last line has no line end: the file may be cut",) if not is_ended(path) else ()
    return recordings(found, files=(str(path),), warnings=warnings)


def cells(path: Path, rows: Path, head: Head, symbols: Mapping[str, Symbol] | None = None) -> list[Cell]:
    """What the CSV `rows` holds, errors being about `path`; `symbols` where the names are numbers of kernels."""
    with opened(path) as engine:
        found = [_cell(row, symbols) for row in engine.rows(_sql(engine, rows, head))]
    if not found:
        raise RecordingError(path, "has a header and no rows: 0 kernels were counted", line=1)
    bad = sum(cell.unread for cell in found)
    if bad or any(not cell.name or not cell.counter for cell in found):
        raise RecordingError(path, f"{bad} rows without a kernel, a counter or a value: the file is damaged")
    return found


def _sql(engine: Engine, path: Path, head: Head) -> str:
    whole = {head.place(column) for column in (*_LAUNCH, "start", "end")}
    kinds = dict.fromkeys(whole, "BIGINT") | {head.place("value"): "DOUBLE"}
    types = ", ".join(f"'c{at}': '{kinds.get(at, 'VARCHAR')}'" for at in range(len(head.names)))

    def at(column: str) -> str:
        place = head.place(column)
        return "NULL" if place is None else f"c{place}"

    time = f"{at('end')} - {at('start')}" if head.has("start", "end") else "NULL::BIGINT"
    last = ", ".join(f"any_value({at(column)})" for column in _LAUNCH)
    return (
        f"select {at('agent')}, {at('name')}, {at('counter')}, count(*), avg({at('value')}), max(abs({at('value')})), "
        f"count(*) filter ({at('value')} is null or not isfinite({at('value')})), "
        f"sum({time}), min({time}), max({time}), {last}, count(distinct {at('grid')}) "
        f"from read_csv('{engine.linked(path)}', header=true, auto_detect=false, delim='{head.delimiter}', quote='\"', "
        f"escape='\"', compression='{'gzip' if head.packed else 'none'}', columns={{{types}}}) "
        "group by all order by 2, 3"
    )


def _cell(row: Sequence[object], symbols: Mapping[str, Symbol] | None) -> Cell:
    agent, name, counter, calls, mean, most, unread, total, least, longest, *launch = row
    times = None
    if total is not None and float(str(least)) > 0:
        times = (float(str(total)), float(str(least)), float(str(longest)))
    whole = [None if one is None else int(str(one)) for one in launch]
    if symbols is not None:
        symbol = symbols.get(str(name)) or Symbol(f"kernel {name}", None, None, None)
        name, whole[2:5] = symbol.name, [symbol.vgpr, symbol.accum, symbol.sgpr]
    text = str(agent or "")
    return Cell(
        agent=f"Agent {text}" if text.isdecimal() else text,
        name=str(name or ""),
        counter=str(counter or ""),
        calls=int(str(calls)),
        mean=float(str(mean)) if mean is not None else 0.0,
        most=float(str(most)) if most is not None else 0.0,
        unread=int(str(unread)),
        times=times,
        launch=tuple(whole[:-1]),
        launches=whole[-1] or 0,
    )


def recordings(
    cells: Iterable[Cell], *, files: tuple[str, ...], warnings: tuple[str, ...] = ()
) -> tuple[Recording, ...]:
    """One recording per GPU from what was counted of each kernel, most time (or calls) first."""
    by_agent: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells:
        by_agent.setdefault(cell.agent, {}).setdefault(cell.name, []).append(cell)
    found = [_recording(agent, kernels, files, warnings) for agent, kernels in by_agent.items()]
    return tuple(sorted(found, key=lambda one: -(one.sum_ns or one.rows)))


def _recording(
    agent: str, kernels: Mapping[str, Sequence[Cell]], files: tuple[str, ...], warnings: tuple[str, ...]
) -> Recording:
    every = [cell for cells in kernels.values() for cell in cells]
    failed = not any(cell.most for cell in every)
    said = list(warnings)
    if failed:
        names = ", ".join(sorted({cell.counter for cell in every})[:6])
        said.append(f"every counter is 0 in every kernel ({names}): a failed pass, not a result; nothing of it is kept")
    dead = [name for name, cells in kernels.items() if not failed and _is_dead(cells)]
    said += [f"{display(name)}: counters that cannot be 0 are 0; none of its counters is kept" for name in dead]
    said += [
        f"{display(name)}: {cells[0].launches} different grids; counters are means over all of them"
        for name, cells in kernels.items()
        if cells[0].launches > 1
    ]
    times = {name: _times(cells) for name, cells in kernels.items()}
    total = sum(time[0] for time in times.values() if time) or None
    told = [
        _kernel(name, cells, times[name], total, keep=not failed and name not in dead)
        for name, cells in kernels.items()
    ]
    return Recording(
        format=FORMAT,
        tool="rocprofv3",
        vendor="amd",
        device=agent or None,
        grade="serialised",
        kernels=tuple(sorted(told, key=lambda one: (-(one.total_ns or 0), -one.calls, one.name))),
        rows=sum(cell.calls for cell in every),
        rejected=sum(cell.calls for cell in every if failed or cell.name in dead),
        sum_ns=total,
        files=files,
        warnings=tuple(said),
    )


def _is_dead(cells: Sequence[Cell]) -> bool:
    return any(cell.counter in _ALIVE and not cell.most for cell in cells)


def _times(cells: Sequence[Cell]) -> tuple[float, float, float] | None:
    """Durations from the counter with most rows: each row repeats its dispatch's times, one row per counter."""
    return max(cells, key=lambda cell: cell.calls).times


def _kernel(
    name: str, cells: Sequence[Cell], times: tuple[float, float, float] | None, total: float | None, *, keep: bool
) -> KernelCalls:
    most = max(cells, key=lambda cell: cell.calls)
    grid, workgroup, vgpr, accum, sgpr, lds, scratch = most.launch
    metrics = [
        Named(name=cell.counter, value=cell.mean)
        for cell in sorted(cells, key=lambda one: one.counter)
        if keep and (cell.most or cell.counter not in _OFTEN_DEAD)
    ]
    return KernelCalls(
        name=name,
        display=display(name),
        category=category(name),
        calls=most.calls,
        total_ns=times[0] if times else None,
        mean_ns=times[0] / most.calls if times else None,
        min_ns=times[1] if times else None,
        max_ns=times[2] if times else None,
        share=times[0] / total if times and total else None,
        last=Launched(
            calls=most.calls,
            grid_items=grid,
            workgroup_items=workgroup,
            arch_vgpr=vgpr,
            accum_vgpr=accum,
            sgpr=sgpr,
            lds_bytes=lds,
            lds_static_only=lds is not None,
            scratch_bytes=scratch,
            total_ns=times[0] if times else None,
        ),
        metrics=tuple(metrics),
    )
