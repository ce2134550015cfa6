"""results.json of rocprofv3: dispatches, counters and agents, streamed whatever its size."""

import csv
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ridgeline.graph.kernel_profile import Recording
from ridgeline.sandbox.profiles.readers import agents, dispatches, rocprof_csv
from ridgeline.sandbox.profiles.readers.agents import on_device
from ridgeline.sandbox.profiles.readers.dispatches import Symbol, load, open_rows, recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError, beginning
from ridgeline.sandbox.profiles.readers.json_stream import elements

FORMAT = "rocprofv3_json"
ROOT = "rocprofiler-sdk-tool"


def sniff(path: Path) -> bool:
    """Reading a profile: whether a file begins as a results.json does."""
    head = beginning(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    return head[:1] == b"{" and ROOT.encode() in head[:4096]


@dataclass
class _Process:
    """What one process of the document told, its rows being in the spools."""

    symbols: dict[str, Symbol] = field(default_factory=dict)
    gpus: list[agents.Agent] = field(default_factory=list)
    counters: dict[int, str] = field(default_factory=dict)
    dispatches: int = 0
    counted: int = 0
    thread_traces: int = 0


def read_recordings(path: Path) -> tuple[Recording, ...]:
    """Recordings of each process and GPU, most time first; of an ATT run without dispatches, the device alone.

    Raises `RecordingError` when the text is cut or damaged, or the document tells of nothing.
    """
    recordings: list[Recording] = []
    with TemporaryDirectory(prefix="ridgeline-recording-") as folder, ExitStack() as files:
        processes: list[_Process] = []
        writers: list[tuple[Any, Any]] = []
        for keys, value in elements(path):
            if keys == (ROOT, "[]"):
                processes.append(_Process())
                paths = [Path(folder) / f"{kind}{len(processes) - 1}.csv" for kind in ("dispatches", "counters")]
                streams = [files.enter_context(file.open("w", encoding="utf-8", newline="")) for file in paths]
                writers.append((csv.writer(streams[0]), csv.writer(streams[1])))
                writers[-1][0].writerow(dispatches.DISPATCH)
                writers[-1][1].writerow(dispatches.COUNTER)
            elif processes:
                _take(path, processes[-1], writers[-1], keys[2:], value)
        files.close()
        for at, process in enumerate(processes):
            recordings += _finish(path, process, Path(folder), at)
    if not recordings:
        raise RecordingError(path, "holds no dispatch, no counter and no GPU: nothing was recorded", line=1)
    return tuple(sorted(recordings, key=lambda recording: -(recording.sum_ns or 0)))


def _take(path: Path, process: _Process, writers: tuple[Any, Any], keys: tuple[str, ...], value: Any) -> None:
    """Reading a profile: keeps what one element tells."""
    try:
        match keys:
            case ("kernel_symbols", "[]"):
                process.symbols[str(value["kernel_id"])] = _symbol(value)
            case ("agents", "[]"):
                gpu = agents.agent(value, (str(value["id"]["handle"]),))
                process.gpus += [gpu] if gpu else []
            case ("counters", "[]"):
                process.counters[value["id"]["handle"]] = value["name"]
            case ("buffer_records", "kernel_dispatch", "[]"):
                writers[0].writerow(_dispatch(value))
                process.dispatches += 1
            case ("callback_records", "counter_collection", "[]"):
                writers[1].writerows(_count(process, value))
                process.counted += 1
            case ("strings", "att_filenames", "[]"):
                process.thread_traces += 1
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RecordingError(path, f"{'.'.join(keys)} holds a record of another shape: {error!r}") from error


def _symbol(record: Mapping[str, Any]) -> Symbol:
    name = next(
        (record[key] for key in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name") if record.get(key)),
        "",
    )
    counts = [int(record[key]) for key in ("arch_vgpr_count", "accum_vgpr_count", "sgpr_count")]
    return Symbol(str(name), counts[0], counts[1], counts[2])


def _dispatch(record: Mapping[str, Any]) -> Sequence[object]:
    info = record["dispatch_info"]
    workgroup, grid = info["workgroup_size"], info["grid_size"]
    packed = (
        info["kernel_id"], info["agent_id"]["handle"], info["queue_id"]["handle"],
        info["group_segment_size"], info["private_segment_size"],
        workgroup["x"], workgroup["y"], workgroup["z"], grid["x"], grid["y"], grid["z"],
    )  # fmt: skip
    return " ".join(map(str, packed)), record["start_timestamp"], record["end_timestamp"]


def _count(process: _Process, dispatch: Mapping[str, Any]) -> list[Sequence[object]]:
    """Rows of one dispatch: a counter's records, one for each hardware instance, are summed."""
    data = dispatch["dispatch_data"]
    info = data["dispatch_info"]
    grid = info["grid_size"]
    sums: dict[int, float] = {}
    for record in dispatch["records"]:
        handle = record["counter_id"]["handle"]
        sums[handle] = sums.get(handle, 0.0) + float(record["value"])
    return [
        (info["agent_id"]["handle"], info["kernel_id"], process.counters[handle], value,
         data.get("start_timestamp", ""), data.get("end_timestamp", ""), grid["x"] * grid["y"] * grid["z"])
        for handle, value in sums.items()
    ]  # fmt: skip


def _finish(path: Path, process: _Process, room: Path, at: int) -> list[Recording]:
    recordings: list[Recording] = []
    if process.dispatches:
        recordings += _time_rows(path, process, room / f"dispatches{at}.csv")
    if process.counted:
        recordings += _with_counters(path, process, room / f"counters{at}.csv")
    if not recordings and process.gpus:
        alone = agents.recording(path, process.gpus)
        why = "no dispatch record"
        if process.thread_traces:
            why = f"a thread trace run: no dispatch record, {process.thread_traces} trace files beside it"
        recordings.append(alone.model_copy(update={"format": FORMAT, "warnings": (*alone.warnings, why)}))
    return recordings


def _time_rows(path: Path, process: _Process, source: Path) -> list[Recording]:
    with open_rows(path) as rows:
        loaded = load(
            rows, source, dispatches.head(dispatches.DISPATCH), partial(dispatches.unpack_key, symbols=process.symbols)
        )
        by_gpu = recordings(loaded, form=FORMAT, files=(str(path),), static_lds=False)
    return [_place(process, recording) for recording in by_gpu]


def _with_counters(path: Path, process: _Process, rows: Path) -> list[Recording]:
    cells = rocprof_csv.cells(path, rows, dispatches.head(dispatches.COUNTER), process.symbols)
    by_gpu = rocprof_csv.counter_recordings(cells, files=(str(path),))
    return [_place(process, recording.model_copy(update={"format": FORMAT})) for recording in by_gpu]


def _place(process: _Process, recording: Recording) -> Recording:
    handle = (recording.device or "").removeprefix("Agent ")
    agent = agents.choose(process.gpus, handle)
    if agent is None:
        return recording
    device = next((name for name in agent.ids if name.startswith("Agent ")), recording.device)
    return on_device(recording.model_copy(update={"device": device if handle in agent.ids else None}), agent)
