"""The long form of rocprof-compute's table: a row per dispatch and counter, streamed because it can have gigabytes."""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ridgeline.sandbox.profiles.readers import csv_head
from ridgeline.sandbox.profiles.readers.engine import Engine, opened
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.rocprof_compute_rows import TIMES, Kernel, duration, launched
from ridgeline.sandbox.profiles.readers.rocprof_compute_table import KEYS, LARGEST, check, collected

NEEDED = (*KEYS, "counter_name", "counter_value")
_LAUNCH = (
    "grid_size", "workgroup_size", "lds_per_workgroup", "scratch_per_workitem", "arch_vgpr", "accum_vgpr", "sgpr",
)  # fmt: skip


def is_long(titles: Sequence[str]) -> bool:
    """Whether columns, in lower case, are those of the long form."""
    return set(NEEDED) <= set(titles)


def kernels(path: Path) -> list[Kernel]:
    """All kernels of the table. Raises RecordingError where it is cut, damaged or holds what is no counter."""
    titles = csv_head.columns(path)
    with opened(path) as engine:
        source = _source(engine, path, titles)
        counted = engine.rows(
            "select kernel_name, counter_name, count(*), count(counter_value), fsum(counter_value), "
            f"min(counter_value), max(counter_value) {source} group by all order by all"
        )
        taken = engine.rows(_dispatches(source, titles))
    if not csv_head.is_ended(path):
        raise RecordingError(path, "is cut: its last line has no end")
    found: dict[str, Kernel] = {}
    for name, counter, *told in counted:
        _count(path, found.setdefault(str(name or ""), Kernel(name=str(name or ""))), str(counter or ""), told)
    _launch(path, found, titles, taken)
    for one in found.values():
        kept, left_out = collected(one.means())
        one.sums, one.counts, one.left_out = dict(kept), dict.fromkeys(kept, 1), left_out
    return list(found.values())


def _source(engine: Engine, path: Path, titles: Sequence[str]) -> str:
    if len(set(titles)) < len(titles):
        raise RecordingError(path, "names a column twice", line=1)
    kinds = {"counter_value": "DOUBLE"}
    quoted = (title.replace("'", "''") for title in titles)
    columns = ", ".join(f"'{title}': '{kinds.get(title, 'VARCHAR')}'" for title in quoted)
    return (
        f"from read_csv('{engine.linked(path)}', header=true, auto_detect=false, delim=',', quote='\"', escape='\"', "
        f"columns={{{columns}}})"
    )


def _dispatches(source: str, titles: Sequence[str]) -> str:
    times = ", ".join(name if name in titles else f"'' as {name}" for name in TIMES)
    launch = ", ".join(f"any_value({name})" for name in _LAUNCH if name in titles)
    return f"select kernel_name, dispatch_id, gpu_id, {times}, {launch} {source} group by all"


def _count(path: Path, kernel: Kernel, counter: str, told: Sequence[float | None]) -> None:
    rows, values, total, least, most = told
    if rows != values or not counter or total is None or least is None or most is None:
        raise RecordingError(path, f"{kernel.name[:80]!r} has a row without a counter or its value")
    if not 0 <= least <= most < LARGEST:
        raise RecordingError(path, f"{counter[:80]} holds {least} to {most}, which are no counts")
    kernel.sums[counter], kernel.counts[counter] = total, int(values or 0)


def _launch(path: Path, found: dict[str, Kernel], titles: Sequence[str], taken: Sequence[Sequence[object]]) -> None:
    """A dispatch is replayed once per pass of counters: its time is the mean over its passes."""
    told = [name for name in _LAUNCH if name in titles]
    times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in sorted(taken, key=_order):
        name, dispatch, gpu, start, end, *cells = (str(cell or "") for cell in row)
        if (name, dispatch, gpu) not in times:
            one = {"kernel_name": name, "dispatch_id": dispatch, "gpu_id": gpu, **dict(zip(told, cells, strict=True))}
            check(path, one, None)
            found[name].launch(launched(one))
        times[name, dispatch, gpu].append(duration(start, end))
    for (name, _, _), passes in times.items():
        found[name].time(math.fsum(passes) / len(passes) if all(passes) else 0.0)


def _order(row: Sequence[object]) -> tuple[int, str, list[str]]:
    """As the kernels ran: by number, where the cells hold one."""
    name, dispatch, *rest = (str(cell or "") for cell in row)
    return int(dispatch) if dispatch.isdecimal() else -1, name, rest
