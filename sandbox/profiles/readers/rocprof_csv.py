"""kernel_stats, domain_stats and *_api_stats of rocprofv3 (sums per name); its API and copy traces, summed alike."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.graph.kernel_profile import KernelCalls, LaunchShape, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers import agents
from ridgeline.sandbox.profiles.readers.agents import on_device
from ridgeline.sandbox.profiles.readers.dispatches import Symbol, load, open_rows, recordings
from ridgeline.sandbox.profiles.readers.engine import Engine, open_engine
from ridgeline.sandbox.profiles.readers.files import Head, RecordingError, columns, header, is_ended, number, rows
from ridgeline.sandbox.profiles.readers.names import category, display

_DOMAIN = re.compile(r"[A-Z][A-Z0-9_]+")
_API = re.compile(r"(__)?hip[A-Z]\w*|hsa_\w+|roctx\w+|nccl(?!Dev)[A-Z]\w*|roc(decode|jpeg)\w+")
_AGREE = 0.02
"""How far, in points of a per cent, Percentage may be from what the sums give."""


@dataclass(frozen=True)
class _Row:
    name: str
    calls: int
    total: float
    percent: float | None
    least: float | None
    most: float | None
    deviation: float | None
    line: int


def is_kernel_stats(head: Head) -> bool:
    """Reading a profile: whether a CSV header is that of statistics per name."""
    return "name" in head.lower and head.has("calls", "total")


def sniff_calls(head: Head) -> bool:
    """Whether a CSV header is that of a trace of API calls, copies or allocations."""
    return head.has("start", "end") and _what(head) is not None and head.place("name") is None


def read_kernel_stats(path: Path, head: Head) -> tuple[Recording, ...]:
    """Reading a profile: the statistics of one file; no medians, which sums cannot tell. `RecordingError` when damaged or empty."""
    table_rows = [_row(path, head, line, cells) for line, cells in rows(path, head)]
    if not table_rows:
        raise RecordingError(path, "has a header and no rows: 0 kernels were counted", line=1)
    if all(_DOMAIN.fullmatch(row.name) for row in table_rows):
        return (_sums(path, "domain_stats", table_rows),)
    if all(_API.fullmatch(row.name) for row in table_rows):
        return (_sums(path, "api_stats", table_rows),)
    return (_kernels(path, table_rows),)


def _row(path: Path, head: Head, line: int, cells: Sequence[str]) -> _Row:
    cell = dict(zip(head.lower, cells, strict=True))

    def value(column: str) -> float | None:
        text = cell.get(column, "")
        return number(text, path=path, line=line, column=column) if text.strip() else None

    calls, total = value("calls"), value("totaldurationns")
    if calls is None or total is None or calls < 1 or calls != int(calls) or total < 0:
        raise RecordingError(path, "a row without a whole number of calls and their duration", line=line)
    return _Row(
        cell["name"], int(calls), total, value("percentage"), value("minns"), value("maxns"), value("stddev"), line
    )  # fmt: skip


def _kernels(path: Path, table_rows: Sequence[_Row]) -> Recording:
    total = sum(row.total for row in table_rows)
    if not total:
        raise RecordingError(path, "every duration is 0: the times are damaged", line=2)
    off = [row for row in table_rows if row.percent is not None and abs(row.percent - 100 * row.total / total) > _AGREE]
    warnings = [f"line {row.line}: Percentage {row.percent:g} is not the share of the sum; ours is" for row in off[:1]]
    if len({row.name for row in table_rows}) < len(table_rows):
        warnings.append("a kernel name stands in several rows: several runs in one file")
    return Recording(
        format="kernel_stats",
        tool="rocprofv3",
        vendor="amd",
        grade="trace",
        kernels=tuple(
            sorted(
                (_kernel(row, total) for row in table_rows), key=lambda kernel: (-(kernel.total_ns or 0), kernel.name)
            )
        ),
        rows=len(table_rows),
        sum_ns=total,
        files=(str(path),),
        warnings=tuple(warnings),
    )


def _kernel(row: _Row, total: float) -> KernelCalls:
    return KernelCalls(
        name=row.name,
        display=display(row.name),
        category=category(row.name),
        calls=row.calls,
        total_ns=row.total,
        mean_ns=row.total / row.calls,
        min_ns=row.least,
        max_ns=row.most,
        stdev_ns=row.deviation,
        share=row.total / total,
        last=LaunchShape(calls=row.calls, total_ns=row.total),
    )


def _sums(path: Path, form: str, table_rows: Sequence[_Row]) -> Recording:
    return _name(path, form, [(row.name, row.calls, row.total) for row in table_rows], len(table_rows))


def _name(path: Path, form: str, sums: Sequence[tuple[str, int, float]], count: int) -> Recording:
    pairs = [
        pair
        for name, calls, total in sums
        for pair in (Named(name=f"{name}.calls", value=calls), Named(name=f"{name}.total_ns", value=total))
    ]
    return Recording(format=form, tool="rocprofv3", vendor="amd", counters=tuple(pairs), rows=count, files=(str(path),))


def _what(head: Head) -> str | None:
    return next((name for name in ("function", "direction", "operation") if name in head.lower), None)


def read_calls(path: Path, head: Head) -> tuple[Recording, ...]:
    """Reading a profile: calls and time per function (or direction of a copy), as `NAME.calls` and `NAME.total_ns`; markers included."""
    what = head.lower.index(_what(head) or "")
    kinds = ", ".join(
        f"'c{at}': '{'BIGINT' if at in (head.place('start'), head.place('end')) else 'VARCHAR'}'"
        for at in range(len(head.names))
    )
    with open_engine(path) as engine:
        sums = engine.rows(
            f"select c{what}, count(*), sum(c{head.place('end')} - c{head.place('start')}) t "
            f"from read_csv('{engine.link(path)}', header=true, auto_detect=false, delim='{head.delimiter}', "
            f"quote='\"', escape='\"', compression='{'gzip' if head.packed else 'none'}', columns={{{kinds}}}) "
            "group by 1 order by t desc, 1"
        )
    if not sums:
        raise RecordingError(path, "has a header and no rows: nothing was called while it recorded", line=1)
    if any(name is None or time is None or time < 0 for name, _, time in sums):
        raise RecordingError(path, "calls without a name or a time, or that end before they start")
    entries = [(str(name), int(calls), float(time)) for name, calls, time in sums]
    return (_name(path, "api_trace", entries, sum(calls for _, calls, _ in entries)),)


# kernel_trace.csv of rocprofv3: one row per dispatch, in each of the layouts that versions 6.1 to 7.x wrote.

TRACE_FORMAT = "kernel_trace"
SURE = ("kind", "kernel_name", "start_timestamp", "end_timestamp")
"""No other table that is known has these: what a row is about, first, and then a kernel's name and times."""


def is_kernel_trace(head: Head) -> bool:
    """Whether a CSV header is that of a kernel trace."""
    return head.has("name", "start", "end") and head.place("counter") is None


def is_surely_kernel_trace(path: Path) -> bool:
    """Reading a profile: whether the header, of plain text, can be nothing else."""
    titles = columns(path)
    return titles[:1] == SURE[:1] and set(SURE) <= set(titles) and "counter_name" not in titles


def read_kernel_trace(path: Path, head: Head) -> tuple[Recording, ...]:
    """One recording per GPU in the file, most time first, of all its rows: no size at which reading stops.

    Raises `RecordingError` when damaged or without a usable row.
    """
    doubled = {name for name in head.lower if head.lower.count(name) > 1}
    if doubled:
        raise RecordingError(path, f"the header has {', '.join(sorted(doubled))} twice", line=1)
    with open_rows(path) as rows:
        # the CSV writer prints the static part; the older Group_Segment_Size and rocpd's conversion hold the whole
        static = "lds_block_size" in head.lower and "guid" not in head.lower
        return recordings(load(rows, path, head), form=TRACE_FORMAT, files=(str(path),), static_lds=static)


# counter_collection.csv of rocprofv3: a row per dispatch and counter, streamed; per kernel the mean over its calls.

COUNTER_FORMAT = "counter_collection"
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


def is_counter_collection(head: Head) -> bool:
    """Reading a profile: whether a CSV header is that of counters in long form."""
    return head.has("name", "counter", "value")


def read_counter_collection(path: Path, head: Head) -> tuple[Recording, ...]:
    """One recording per GPU. A pass whose counters are all 0 has failed: its values are left out, with a warning.

    Raises `RecordingError` when a row is damaged, a value is no number, or there is no row.
    """
    cell_rows = cells(path, path, head)
    warnings = ("the last line has no line end: the file may be cut",) if not is_ended(path) else ()
    return counter_recordings(cell_rows, files=(str(path),), warnings=warnings)


def cells(path: Path, rows: Path, head: Head, symbols: Mapping[str, Symbol] | None = None) -> list[Cell]:
    """Reading a profile: what the CSV `rows` holds, errors being about `path`; `symbols` where the names are numbers of kernels."""
    with open_engine(path) as engine:
        cell_rows = [_cell(row, symbols) for row in engine.rows(_sql(engine, rows, head))]
    if not cell_rows:
        raise RecordingError(path, "has a header and no rows: 0 kernels were counted", line=1)
    bad = sum(cell.unread for cell in cell_rows)
    if bad or any(not cell.name or not cell.counter for cell in cell_rows):
        raise RecordingError(path, f"{bad} rows without a kernel, a counter or a value: the file is damaged")
    return cell_rows


def _sql(engine: Engine, path: Path, head: Head) -> str:
    integers = {head.place(column) for column in (*_LAUNCH, "start", "end")}
    kinds = dict.fromkeys(integers, "BIGINT") | {head.place("value"): "DOUBLE"}
    types = ", ".join(f"'c{at}': '{kinds.get(at, 'VARCHAR')}'" for at in range(len(head.names)))

    def at(column: str) -> str:
        place = head.place(column)
        return "NULL" if place is None else f"c{place}"

    time = f"{at('end')} - {at('start')}" if head.has("start", "end") else "NULL::BIGINT"
    launch_columns = ", ".join(f"any_value({at(column)})" for column in _LAUNCH)
    return (
        f"select {at('agent')}, {at('name')}, {at('counter')}, count(*), avg({at('value')}), max(abs({at('value')})), "
        f"count(*) filter ({at('value')} is null or not isfinite({at('value')})), "
        f"sum({time}), min({time}), max({time}), {launch_columns}, count(distinct {at('grid')}) "
        f"from read_csv('{engine.link(path)}', header=true, auto_detect=false, delim='{head.delimiter}', quote='\"', "
        f"escape='\"', compression='{'gzip' if head.packed else 'none'}', columns={{{types}}}) "
        "group by all order by 2, 3"
    )


def _cell(row: Sequence[object], symbols: Mapping[str, Symbol] | None) -> Cell:
    agent, name, counter, calls, mean, most, unread, total, least, longest, *launch = row
    times = None
    if total is not None and float(str(least)) > 0:
        times = (float(str(total)), float(str(least)), float(str(longest)))
    launch_values = [None if value is None else int(str(value)) for value in launch]
    if symbols is not None:
        symbol = symbols.get(str(name)) or Symbol(f"kernel {name}", None, None, None)
        name, launch_values[2:5] = symbol.name, [symbol.vgpr, symbol.accum, symbol.sgpr]
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
        launch=tuple(launch_values[:-1]),
        launches=launch_values[-1] or 0,
    )


def counter_recordings(
    cells: Iterable[Cell], *, files: tuple[str, ...], warnings: tuple[str, ...] = ()
) -> tuple[Recording, ...]:
    """One recording per GPU from what was counted of each kernel, most time (or calls) first."""
    by_agent: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells:
        by_agent.setdefault(cell.agent, {}).setdefault(cell.name, []).append(cell)
    recordings = [_recording(agent, kernels, files, warnings) for agent, kernels in by_agent.items()]
    return tuple(sorted(recordings, key=lambda recording: -(recording.sum_ns or recording.rows)))


def _recording(
    agent: str, kernels: Mapping[str, Sequence[Cell]], files: tuple[str, ...], warnings: tuple[str, ...]
) -> Recording:
    all_cells = [cell for cells in kernels.values() for cell in cells]
    failed = not any(cell.most for cell in all_cells)
    notes = list(warnings)
    if failed:
        names = ", ".join(sorted({cell.counter for cell in all_cells})[:6])
        notes.append(
            f"every counter is 0 in every kernel ({names}): a failed pass, not a result; nothing of it is kept"
        )
    dead = [name for name, cells in kernels.items() if not failed and _is_dead(cells)]
    notes += [f"{display(name)}: counters that cannot be 0 are 0; none of its counters is kept" for name in dead]
    notes += [
        f"{display(name)}: {cells[0].launches} different grids; counters are means over all of them"
        for name, cells in kernels.items()
        if cells[0].launches > 1
    ]
    times = {name: _times(cells) for name, cells in kernels.items()}
    total = sum(time[0] for time in times.values() if time) or None
    kernel_calls = [
        _counted_kernel(name, cells, times[name], total, keep=not failed and name not in dead)
        for name, cells in kernels.items()
    ]
    return Recording(
        format=COUNTER_FORMAT,
        tool="rocprofv3",
        vendor="amd",
        device=agent or None,
        grade="serialised",
        kernels=tuple(sorted(kernel_calls, key=lambda calls: (-(calls.total_ns or 0), -calls.calls, calls.name))),
        rows=sum(cell.calls for cell in all_cells),
        rejected=sum(cell.calls for cell in all_cells if failed or cell.name in dead),
        sum_ns=total,
        files=files,
        warnings=tuple(notes),
    )


def _is_dead(cells: Sequence[Cell]) -> bool:
    return any(cell.counter in _ALIVE and not cell.most for cell in cells)


def _times(cells: Sequence[Cell]) -> tuple[float, float, float] | None:
    """Durations from the counter with most rows: each row repeats its dispatch's times, one row per counter."""
    return max(cells, key=lambda cell: cell.calls).times


def _counted_kernel(
    name: str, cells: Sequence[Cell], times: tuple[float, float, float] | None, total: float | None, *, keep: bool
) -> KernelCalls:
    most = max(cells, key=lambda cell: cell.calls)
    grid, workgroup, vgpr, accum, sgpr, lds, scratch = most.launch
    metrics = [
        Named(name=cell.counter, value=cell.mean)
        for cell in sorted(cells, key=lambda entry: entry.counter)
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
        last=LaunchShape(
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


# Recordings of one run, put together where that is sound: constants beside times, passes of counters, no doubles.

_DOMAINS = re.compile(
    r"_?(kernel_trace|kernel_stats|domain_stats|counter_collection|agent_info|results|(hip|hsa|marker|rccl)_api_(trace|stats)"
    r"|(memory_copy|memory_allocation|scratch_memory)_(trace|stats)|pc_sampling_\w+)?\.(csv|json|db)(\.gz)?$"
)
_PASS = re.compile(r"(pmc|pass)_?\d+$")
Recordings = tuple[Recording, ...]


def merge(files: Sequence[tuple[Path, Recordings]]) -> Recordings:
    """All recordings of a folder: most compute time first, then those without kernels."""
    gpus = {path: agents.read_agents(path, header(path)) for path, contents in files if _is(contents, agents.FORMAT)}
    of_kernels = [(path, contents) for path, contents in files if path not in gpus]
    traced = {_run(path) for path, contents in of_kernels if _is(contents, "kernel_trace")}
    placed = [
        (path, tuple(_place(recording, _beside(path, gpus)) for recording in contents))
        for path, contents in of_kernels
        if not (_is(contents, "kernel_stats") and _run(path) in traced)
    ]
    merged = [*_passes([pair for pair in placed if _is(pair[1], "counter_collection")])]
    for _, contents in placed:
        if not _is(contents, "counter_collection"):
            merged += contents
    if not merged:
        return tuple(recording for _, contents in files for recording in contents)
    return tuple(sorted(merged, key=_rank))


def _is(contents: Recordings, form: str) -> bool:
    return bool(contents) and contents[0].format == form


def _run(path: Path) -> tuple[str, str]:
    """Reading a profile: what files of one process share: the folder and the name before the domain."""
    return str(path.parent), _DOMAINS.sub("", path.name)


def _rank(recording: Recording) -> tuple[bool, bool, float]:
    compute = sum(kernel.total_ns or 0 for kernel in recording.kernels if kernel.category == "compute")
    return not recording.kernels, recording.grade != "trace", -compute


def _beside(path: Path, gpus: Mapping[Path, Sequence[agents.Agent]]) -> Sequence[agents.Agent]:
    """Reading a profile: the GPUs that the same process saw; those of the only agent_info of the folder otherwise."""
    same = [gpu_list for info_path, gpu_list in gpus.items() if _run(info_path) == _run(path)]
    if same:
        return same[0]
    kinds = {tuple(gpu_list) for gpu_list in gpus.values()}
    return next(iter(kinds)) if len(kinds) == 1 else ()


def _place(recording: Recording, gpus: Sequence[agents.Agent]) -> Recording:
    agent = (
        None
        if recording.arch or recording.vendor != "amd" or not recording.kernels
        else agents.choose(gpus, recording.device or "")
    )
    return on_device(recording, agent) if agent is not None else recording


def _passes(files: Sequence[tuple[Path, Recordings]]) -> Iterable[Recording]:
    """Counters of one GPU, taken in several passes of one program, are one recording."""
    groups: dict[tuple[object, ...], list[Recording]] = {}
    for path, contents in files:
        folder = next((str(parent.parent) for parent in path.parents if _PASS.fullmatch(parent.name)), str(path.parent))
        for recording in contents:
            # a process number in the name changes from pass to pass; the kernels and how often they ran do not
            calls = frozenset((kernel.name, kernel.calls) for kernel in recording.kernels)
            groups.setdefault((folder, recording.device, recording.arch, calls), []).append(recording)
    return [joined for group in groups.values() for joined in _join(group)]


def _join(group: Sequence[Recording]) -> Iterable[Recording]:
    """The passes as one; recordings that counted the same things are of several processes, and stay apart."""
    base, *rest = group
    counted = [
        frozenset(metric.name for kernel in recording.kernels for metric in kernel.metrics) for recording in group
    ]
    if not rest or len(set(counted)) < len(counted):
        return group
    kernels = {kernel.name: kernel for kernel in base.kernels}
    for recording in rest:
        kernels |= {kernel.name: _with(kernels[kernel.name], kernel.metrics) for kernel in recording.kernels}
    return [
        base.model_copy(
            update={
                "kernels": tuple(kernels.values()),
                "rows": sum(recording.rows for recording in group),
                "rejected": sum(recording.rejected for recording in group),
                "files": tuple(name for recording in group for name in recording.files),
                "warnings": tuple(dict.fromkeys(warning for recording in group for warning in recording.warnings)),
            }
        )
    ]


def _with(kernel: KernelCalls, metrics: Sequence[Named]) -> KernelCalls:
    """Reading a profile: the kernel with more metrics; the first pass that told one keeps it."""
    names = {metric.name for metric in kernel.metrics}
    return kernel.model_copy(
        update={"metrics": (*kernel.metrics, *(extra for extra in metrics if extra.name not in names))}
    )
