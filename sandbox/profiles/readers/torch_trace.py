"""Chrome traces of torch.profiler (Kineto): what ran on the GPU, with grids, registers and times; CUDA and ROCm alike.

The last recording that still sees the hardware where counters are not permitted. Times are microseconds with three
digits; grids are blocks. ROCm's torch tells neither registers nor shared memory: these stay unknown.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgeline.graph.kernel_profile import KernelCalls, LaunchShape, Recording, Vendor
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers import dispatches
from ridgeline.sandbox.profiles.readers.dispatches import Key, load, recordings
from ridgeline.sandbox.profiles.readers.engine import open_engine
from ridgeline.sandbox.profiles.readers.files import RecordingError, beginning
from ridgeline.sandbox.profiles.readers.json_stream import elements
from ridgeline.sandbox.profiles.readers.names import ESTIMATED, TORCH

FORMAT = "torch_trace"
LIST = "traceEvents"
ON_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
"""Categories of events on a GPU, in lower case; the last two are those of torch before 2.0."""
CALLS = frozenset({"cuda_runtime", "cuda_driver", "runtime", "hip_runtime"})
"""Categories of calls into the driver: their names tell whose it is."""
ARCHES = {(9, 4): "gfx942", (9, 5): "gfx950"}
"""Compute capability that ROCm's torch tells, where it stands for one architecture alone."""
FACTS = {"units": "numSms", "wave_size": "warpSize", "lds_bytes_per_unit": "sharedMemPerMultiprocessor"}
NO_REGISTERS = "torch's profiler tells neither registers nor shared memory on this GPU: `ridgeline isa` does"

Axes = tuple[int, int, int]


@dataclass(frozen=True)
class _Kind:
    """One kernel with one launch on one stream."""

    device: str
    stream: str
    name: str
    grid: Axes | None
    block: Axes | None
    registers: int | None
    shared: int | None

    def key(self) -> Key:
        """Grids in work-items, as all sources of dispatches tell them."""
        items = tuple(a * b for a, b in zip(self.grid, self.block, strict=True)) if self.grid and self.block else None
        nothing = (None, None, None)
        launch = (*(self.block or nothing), *(items or nothing), self.registers, None, None, self.shared, None)
        return Key(self.device, self.stream, self.name, launch)


@dataclass
class _Trace:
    """What the document told, its events being in a table."""

    path: Path
    kinds: dict[_Kind, int] = field(default_factory=dict)
    cards: list[Mapping[str, Any]] = field(default_factory=list)
    estimates: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """(device, kernel) -> sum and count of the estimated occupancies."""
    events: int = 0
    hip: bool = False

    def take(self, event: Any) -> Sequence[object] | None:
        """The row of one event on a GPU; None of any other event. Raises RecordingError where it is damaged."""
        self.events += 1
        if not isinstance(event, dict):
            raise self.fault("is no object")
        kind = str(event.get("cat", "")).lower()
        if kind in CALLS:
            self.hip = self.hip or str(event.get("name", "")).startswith("hip")
        if kind not in ON_GPU or event.get("ph") != "X":
            return None
        args = event.get("args", {})
        if not isinstance(args, dict) or not isinstance(event.get("name"), str):
            raise self.fault("is an event of the GPU without a name or with damaged args")
        start, took = (self._nanoseconds(event, key) for key in ("ts", "dur"))
        device = str(args.get("device", event.get("pid", "")))
        launch = _Kind(
            device=device,
            stream=str(args.get("stream", event.get("tid", ""))),
            name=event["name"],
            grid=self._axes(args, "grid"),
            block=self._axes(args, "block"),
            registers=self._read_integer(args, "registers per thread"),
            shared=self._read_integer(args, "shared memory"),
        )
        self._estimate(device, event["name"], args)
        return self.kinds.setdefault(launch, len(self.kinds)), start, start + took

    def fault(self, what: str) -> RecordingError:
        """The place is the event's: lines of such a file say little."""
        return RecordingError(self.path, f"{LIST}[{self.events - 1}] {what}: the file is damaged")

    def _nanoseconds(self, event: Mapping[str, Any], key: str) -> int:
        value = event.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
            raise self.fault(f"has {key} {str(value)[:40]!r}, not a time in microseconds")
        return round(value * 1000)

    def _read_integer(self, args: Mapping[str, Any], key: str) -> int | None:
        value = args.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.fault(f"has {key} {str(value)[:40]!r}, not a whole number")
        return value

    def _axes(self, args: Mapping[str, Any], key: str) -> Axes | None:
        value = args.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 3 or not all(type(size) is int and size >= 0 for size in value):
            raise self.fault(f"has {key} {str(value)[:40]!r}, not three whole numbers")
        return (value[0], value[1], value[2]) if min(value) > 0 else None

    def _estimate(self, device: str, name: str, args: Mapping[str, Any]) -> None:
        value = args.get(ESTIMATED)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
            total = self.estimates.setdefault((device, name), [0.0, 0.0])
            total[0] += value
            total[1] += 1


def sniff(path: Path) -> bool:
    """Whether a file, gzip or not, begins as a Chrome trace: an object with a list of events."""
    head = beginning(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    return head[:1] == b"{" and f'"{LIST}"'.encode() in head


def read_recordings(path: Path) -> tuple[Recording, ...]:
    """One recording per GPU, most time first. Memory is bounded whatever the size.

    Raises `RecordingError`: with the line where the text is cut or no JSON, with the event where it is damaged, and
    where nothing ran on a GPU while it recorded.
    """
    trace = _Trace(path)
    with open_engine(path) as engine:
        rows = engine.room / "events.csv"
        with rows.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(dispatches.DISPATCH)
            for keys, value in elements(path, into=1):
                _look(trace, keys, value, writer)
        if not trace.kinds:
            raise RecordingError(path, f"none of its {trace.events} events ran on a GPU: the program used none")
        kinds = [kind.key() for kind in trace.kinds]
        loaded = load(engine, rows, dispatches.head(dispatches.DISPATCH), lambda text: kinds[int(text)])
        by_gpu = recordings(loaded, form=FORMAT, files=(str(path),), static_lds=False)
    return tuple(_place(trace, recording) for recording in by_gpu)


def _look(trace: _Trace, keys: tuple[str, ...], value: Any, writer: Any) -> None:
    """Keeps what one element of the document tells."""
    if keys == (LIST, "[]"):
        if value is not None and (row := trace.take(value)) is not None:
            writer.writerow(row)
    elif keys == ("deviceProperties", "[]") and isinstance(value, dict):
        trace.cards.append(value)
    elif len(keys) == 1 and keys[0].startswith("hip_"):
        trace.hip = True


def _place(trace: _Trace, recording: Recording) -> Recording:
    """With the vendor's words, the device's constants, and grids as the tool counts them."""
    number = (recording.device or "").removeprefix("Agent ")
    card = next((card for card in trace.cards if str(card.get("id")) == number), {})
    vendor = _vendor(trace, card)
    product = str(card.get("name") or "")
    kernels = tuple(_kernel(trace, number, kernel, vendor) for kernel in recording.kernels)
    untold = all(kernel.last.arch_vgpr is None for kernel in kernels if kernel.last.grid)
    facts = (
        Named(name=fact, value=float(value))
        for fact, key in FACTS.items()
        if isinstance(value := card.get(key), int | float) and value > 0
    )
    return recording.model_copy(
        update={
            "tool": TORCH,
            "vendor": vendor,
            "arch": _arch(card, vendor),
            "device": product or (f"GPU {number}" if number else None),
            "kernels": kernels,
            "facts": (*recording.facts, *facts),
            "warnings": (*recording.warnings, *((NO_REGISTERS,) if untold else ())),
        }
    )


def _vendor(trace: _Trace, card: Mapping[str, Any]) -> Vendor:
    amd = trace.hip or "AMD" in str(card.get("name", "")) or card.get("warpSize") == 64
    return "amd" if amd else "nvidia"


def _arch(card: Mapping[str, Any], vendor: Vendor) -> str | None:
    major, minor = (card.get(key) for key in ("computeMajor", "computeMinor"))
    if not isinstance(major, int) or not isinstance(minor, int):
        return None
    return f"sm_{major}{minor}" if vendor == "nvidia" else ARCHES.get((major, minor))


def _kernel(trace: _Trace, device: str, kernel: KernelCalls, vendor: Vendor) -> KernelCalls:
    estimated = trace.estimates.get((device, kernel.name))
    return kernel.model_copy(
        update={
            "last": _in_blocks(kernel.last),
            "variants": tuple(_in_blocks(launch) for launch in kernel.variants),
            "vgpr_total": kernel.last.arch_vgpr if vendor == "nvidia" else None,
            "metrics": (Named(name=ESTIMATED, value=estimated[0] / estimated[1]),) if estimated else (),
        }
    )


def _in_blocks(launch: LaunchShape) -> LaunchShape:
    return launch.model_copy(update={"grid": launch.blocks})
