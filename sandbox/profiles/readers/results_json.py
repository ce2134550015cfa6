"""results.json of rocprofv3: dispatches, counters and agents, streamed whatever its size."""

import csv
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ridgeline.graph.kernel_profile import Recording
from ridgeline.sandbox.profiles.readers import agents, dispatches, rocprof_csv
from ridgeline.sandbox.profiles.readers.agents import on_device
from ridgeline.sandbox.profiles.readers.dispatches import Symbol, load, recordings
from ridgeline.sandbox.profiles.readers.engine import open_engine
from ridgeline.sandbox.profiles.readers.files import RecordingError, beginning
from ridgeline.sandbox.profiles.readers.json_stream import elements

FORMAT = "rocprofv3_json"
ROOT = "rocprofiler-sdk-tool"


def sniff(path: Path) -> bool:
    """Whether a file begins as a results.json does."""
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


def read(path: Path) -> tuple[Recording, ...]:
    """Recordings of each process and GPU, most time first; of an ATT run without dispatches, the device alone.

    Raises `RecordingError` when the text is cut or damaged, or the document tells of nothing.
    """
    found: list[Recording] = []
    with open_engine(path) as engine, ExitStack() as files:
        processes: list[_Process] = []
        writers: list[tuple[Any, Any]] = []
        for keys, value in elements(path):
            if keys == (ROOT, "[]"):
                processes.append(_Process())
                paths = [engine.room / f"{kind}{len(processes) - 1}.csv" for kind in ("dispatches", "counters")]
                streams = [files.enter_context(one.open("w", encoding="utf-8", newline="")) for one in paths]
                writers.append((csv.writer(streams[0]), csv.writer(streams[1])))
                writers[-1][0].writerow(dispatches.DISPATCH)
                writers[-1][1].writerow(dispatches.COUNTER)
            elif processes:
                _take(path, processes[-1], writers[-1], keys[2:], value)
        files.close()
        for at, process in enumerate(processes):
            found += _finish(path, process, engine.room, at)
    if not found:
        raise RecordingError(path, "holds no dispatch, no counter and no GPU: nothing was recorded", line=1)
    return tuple(sorted(found, key=lambda one: -(one.sum_ns or 0)))


def _take(path: Path, process: _Process, writers: tuple[Any, Any], keys: tuple[str, ...], value: Any) -> None:
    """Keeps what one element tells."""
    try:
        match keys:
            case ("kernel_symbols", "[]"):
                process.symbols[str(value["kernel_id"])] = _symbol(value)
            case ("agents", "[]"):
                found = agents.agent(value, (str(value["id"]["handle"]),))
                process.gpus += [found] if found else []
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


def _symbol(told: Mapping[str, Any]) -> Symbol:
    name = next(
        (told[key] for key in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name") if told.get(key)), ""
    )
    counts = [int(told[key]) for key in ("arch_vgpr_count", "accum_vgpr_count", "sgpr_count")]
    return Symbol(str(name), counts[0], counts[1], counts[2])


def _dispatch(told: Mapping[str, Any]) -> Sequence[object]:
    info = told["dispatch_info"]
    workgroup, grid = info["workgroup_size"], info["grid_size"]
    packed = (
        info["kernel_id"], info["agent_id"]["handle"], info["queue_id"]["handle"],
        info["group_segment_size"], info["private_segment_size"],
        workgroup["x"], workgroup["y"], workgroup["z"], grid["x"], grid["y"], grid["z"],
    )  # fmt: skip
    return " ".join(map(str, packed)), told["start_timestamp"], told["end_timestamp"]


def _count(process: _Process, told: Mapping[str, Any]) -> list[Sequence[object]]:
    """Rows of one dispatch: a counter's records, one for each hardware instance, are summed."""
    data = told["dispatch_data"]
    info = data["dispatch_info"]
    grid = info["grid_size"]
    sums: dict[int, float] = {}
    for record in told["records"]:
        handle = record["counter_id"]["handle"]
        sums[handle] = sums.get(handle, 0.0) + float(record["value"])
    return [
        (info["agent_id"]["handle"], info["kernel_id"], process.counters[handle], value,
         data.get("start_timestamp", ""), data.get("end_timestamp", ""), grid["x"] * grid["y"] * grid["z"])
        for handle, value in sums.items()
    ]  # fmt: skip


def _finish(path: Path, process: _Process, room: Path, at: int) -> list[Recording]:
    found: list[Recording] = []
    if process.dispatches:
        found += _time_rows(path, process, room / f"dispatches{at}.csv")
    if process.counted:
        found += _with_counters(path, process, room / f"counters{at}.csv")
    if not found and process.gpus:
        alone = agents.recording(path, process.gpus)
        why = "no dispatch record"
        if process.thread_traces:
            why = f"a thread trace run: no dispatch record, {process.thread_traces} trace files beside it"
        found.append(alone.model_copy(update={"format": FORMAT, "warnings": (*alone.warnings, why)}))
    return found


def _time_rows(path: Path, process: _Process, rows: Path) -> list[Recording]:
    with open_engine(path) as engine:
        loaded = load(
            engine, rows, dispatches.head(dispatches.DISPATCH), partial(dispatches.unpack_key, symbols=process.symbols)
        )
        told = recordings(loaded, form=FORMAT, files=(str(path),), static_lds=False)
    return [_place(process, one) for one in told]


def _with_counters(path: Path, process: _Process, rows: Path) -> list[Recording]:
    cells = rocprof_csv.cells(path, rows, dispatches.head(dispatches.COUNTER), process.symbols)
    told = rocprof_csv.counter_recordings(cells, files=(str(path),))
    return [_place(process, one.model_copy(update={"format": FORMAT})) for one in told]


def _place(process: _Process, recording: Recording) -> Recording:
    handle = (recording.device or "").removeprefix("Agent ")
    agent = agents.chosen(process.gpus, handle)
    if agent is None:
        return recording
    named = next((one for one in agent.ids if one.startswith("Agent ")), recording.device)
    return on_device(recording.model_copy(update={"device": named if handle in agent.ids else None}), agent)
