"""kernel_stats, domain_stats and *_api_stats of rocprofv3 (sums per name); its API and copy traces, summed alike."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.graph.kernel_profile import KernelCalls, Launched, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers.csv_head import Head
from ridgeline.sandbox.profiles.readers.engine import opened
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.names import category, display
from ridgeline.sandbox.profiles.readers.small_csv import number, rows

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


def sniff(head: Head) -> bool:
    """Whether a CSV header is that of statistics per name."""
    return "name" in head.lower and head.has("calls", "total")


def sniff_calls(head: Head) -> bool:
    """Whether a CSV header is that of a trace of API calls, copies or allocations."""
    return head.has("start", "end") and _what(head) is not None and head.place("name") is None


def read(path: Path, head: Head) -> tuple[Recording, ...]:
    """The statistics of one file; no medians, which sums cannot tell. `RecordingError` when damaged or empty."""
    told = [_row(path, head, line, cells) for line, cells in rows(path, head)]
    if not told:
        raise RecordingError(path, "has a header and no rows: 0 kernels were counted", line=1)
    if all(_DOMAIN.fullmatch(row.name) for row in told):
        return (_sums(path, "domain_stats", told),)
    if all(_API.fullmatch(row.name) for row in told):
        return (_sums(path, "api_stats", told),)
    return (_kernels(path, told),)


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
    )


def _kernels(path: Path, told: Sequence[_Row]) -> Recording:
    total = sum(row.total for row in told)
    if not total:
        raise RecordingError(path, "every duration is 0: the times are damaged", line=2)
    off = [row for row in told if row.percent is not None and abs(row.percent - 100 * row.total / total) > _AGREE]
    warnings = [f"line {row.line}: Percentage {row.percent:g} is not the share of the sum; ours is" for row in off[:1]]
    if len({row.name for row in told}) < len(told):
        warnings.append("a kernel name stands in several rows: several runs in one file")
    return Recording(
        format="kernel_stats",
        tool="rocprofv3",
        vendor="amd",
        grade="trace",
        kernels=tuple(sorted((_kernel(row, total) for row in told), key=lambda one: (-(one.total_ns or 0), one.name))),
        rows=len(told),
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
        last=Launched(calls=row.calls, total_ns=row.total),
    )


def _sums(path: Path, form: str, told: Sequence[_Row]) -> Recording:
    return _named(path, form, [(row.name, row.calls, row.total) for row in told], len(told))


def _named(path: Path, form: str, told: Sequence[tuple[str, int, float]], count: int) -> Recording:
    pairs = [
        pair
        for name, calls, total in told
        for pair in (Named(name=f"{name}.calls", value=calls), Named(name=f"{name}.total_ns", value=total))
    ]
    return Recording(format=form, tool="rocprofv3", vendor="amd", counters=tuple(pairs), rows=count, files=(str(path),))


def _what(head: Head) -> str | None:
    return next((name for name in ("function", "direction", "operation") if name in head.lower), None)


def read_calls(path: Path, head: Head) -> tuple[Recording, ...]:
    """Calls and time per function (or direction of a copy), as `NAME.calls` and `NAME.total_ns`; markers included."""
    what = head.lower.index(_what(head) or "")
    kinds = ", ".join(
        f"'c{at}': '{'BIGINT' if at in (head.place('start'), head.place('end')) else 'VARCHAR'}'"
        for at in range(len(head.names))
    )
    with opened(path) as engine:
        sums = engine.rows(
            f"select c{what}, count(*), sum(c{head.place('end')} - c{head.place('start')}) t "
            f"from read_csv('{engine.linked(path)}', header=true, auto_detect=false, delim='{head.delimiter}', "
            f"quote='\"', escape='\"', compression='{'gzip' if head.packed else 'none'}', columns={{{kinds}}}) "
            "group by 1 order by t desc, 1"
        )
    if not sums:
        raise RecordingError(path, "has a header and no rows: nothing was called while it recorded", line=1)
    if any(name is None or time is None or time < 0 for name, _, time in sums):
        raise RecordingError(path, "calls without a name or a time, or that end before they start")
    told = [(str(name), int(calls), float(time)) for name, calls, time in sums]
    return (_named(path, "api_trace", told, sum(calls for _, calls, _ in told)),)
