"""kernel_trace.csv of rocprofv3: one row per dispatch, in each of the layouts that versions 6.1 to 7.x wrote."""

from pathlib import Path

from ridgeline.graph.kernel_profile import Recording
from ridgeline.sandbox.profiles.readers.csv_head import Head, columns
from ridgeline.sandbox.profiles.readers.dispatch_rows import load
from ridgeline.sandbox.profiles.readers.engine import opened
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.kernels import recordings

FORMAT = "kernel_trace"
SURE = ("kind", "kernel_name", "start_timestamp", "end_timestamp")
"""No other table that is known has these: what a row is about, first, and then a kernel's name and times."""


def sniff(head: Head) -> bool:
    """Whether a CSV header is that of a kernel trace."""
    return head.has("name", "start", "end") and head.place("counter") is None


def is_sure(path: Path) -> bool:
    """Whether the header, of plain text, can be nothing else."""
    found = columns(path)
    return found[:1] == SURE[:1] and set(SURE) <= set(found) and "counter_name" not in found


def read(path: Path, head: Head) -> tuple[Recording, ...]:
    """One recording per GPU in the file, most time first, of all its rows: no size at which reading stops.

    Raises `RecordingError` when damaged or without a usable row.
    """
    doubled = {name for name in head.lower if head.lower.count(name) > 1}
    if doubled:
        raise RecordingError(path, f"the header has {', '.join(sorted(doubled))} twice", line=1)
    with opened(path) as engine:
        # the CSV writer prints the static part; the older Group_Segment_Size and rocpd's conversion hold the whole
        static = "lds_block_size" in head.lower and "guid" not in head.lower
        return recordings(load(engine, path, head), form=FORMAT, files=(str(path),), static_lds=static)
