"""Chrome traces of torch.profiler (Kineto): what ran on the GPU, with grids, registers and times; CUDA and ROCm alike.

The last recording that still sees the hardware where counters are not permitted. Times are microseconds with three
digits; grids are blocks. ROCm's torch tells neither registers nor shared memory: these stay unknown. With the metrics of
CUPTI's range profiler (`experimental_config`) a trace holds counters of each kernel, and no times of them.
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
from ridgeline.sandbox.profiles.readers.dispatches import Key, load, open_rows, recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError, beginning
from ridgeline.sandbox.profiles.readers.json_stream import elements
from ridgeline.sandbox.profiles.readers.names import ESTIMATED, TORCH, category, display

FORMAT, RANGES = "torch_trace", "torch_ranges"
LIST = "traceEvents"
ON_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
"""Categories of events on a GPU, in lower case; the last two are those of torch before 2.0."""
CALLS = frozenset({"cuda_runtime", "cuda_driver", "runtime", "hip_runtime"})
"""Categories of calls into the driver: their names tell whose it is."""
RANGE = "cuda_profiler_range"
"""Category of what CUPTI counted of one kernel. Its times divide the whole by the number of kernels: nothing measured."""
MISSING = "__missing__"
"""What Kineto calls a kernel whose name CUPTI did not tell."""
IN_ITEMS = "hipExtModuleLaunchKernel"
"""Takes the grid in work-items, and torch shows what it was given: hipBLASLt, Tensile and MIOpen launch with it."""
GRIDS = (
    "the calls that launched the kernels are not in this trace: blocks of hipBLASLt's, Tensile's and MIOpen's kernels may be "
    "work-items"
)
RANGED = (
    "counters of CUPTI's range profiler: the times beside them are shared out evenly, not measured, and are not told"
)
ARCHES = {(9, 4): "gfx942", (9, 5): "gfx950"}
"""Compute capability that ROCm's torch tells, where it stands for one architecture alone."""
FACTS = {"units": "numSms", "wave_size": "warpSize", "lds_bytes_per_unit": "sharedMemPerMultiprocessor"}
ALIKE = ("name", "computeMajor", "computeMinor", "numSms")
"""What tells one model of GPU from another."""
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
    calls: bool = False
    """Whether it holds calls into the driver."""
    in_items: set[str] = field(default_factory=set)
    """Kernels whose grids are told in work-items."""
    ranges: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Kernel -> metric -> one value per range."""

    def take(self, event: Any) -> Sequence[object] | None:
        """Reading a profile: the row of one event on a GPU; None of any other event. Raises RecordingError where it is damaged."""
        self.events += 1
        if not isinstance(event, dict):
            raise self.fault("is no object")
        kind = str(event.get("cat", "")).lower()
        args = event.get("args", {})
        if kind in CALLS:
            self._call(str(event.get("name", "")), args)
        if kind not in (*ON_GPU, RANGE) or event.get("ph") != "X":
            return None
        if not isinstance(args, dict) or not isinstance(event.get("name"), str):
            raise self.fault("is an event of the GPU without a name or with damaged args")
        if kind == RANGE:
            self._range(event["name"], args)
            return None
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

    def _call(self, name: str, args: Any) -> None:
        self.calls, self.hip = True, self.hip or name.startswith("hip")
        if name == IN_ITEMS and isinstance(args, dict):
            self.in_items.add(str(args.get("kernel", "")))

    def _range(self, kernel: str, args: Mapping[str, Any]) -> None:
        for metric, value in args.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                self.ranges.setdefault(kernel, {}).setdefault(metric, []).append(float(value))

    def fault(self, what: str) -> RecordingError:
        """Reading a profile: the place is the event's: lines of such a file say little."""
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
    where nothing ran on a GPU while it recorded. Of CUPTI's ranges alone the counters are told.
    """
    trace = _Trace(path)
    with open_rows(path) as rows:
        events = rows.room / "events.csv"
        with events.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(dispatches.DISPATCH)
            for keys, value in elements(path, into=1):
                _look(trace, keys, value, writer)
        if not trace.kinds:
            return (_count_ranges(trace),)
        kinds = [kind.key() for kind in trace.kinds]
        loaded = load(rows, events, dispatches.head(dispatches.DISPATCH), lambda text: kinds[int(text)])
        by_gpu = recordings(loaded, form=FORMAT, files=(str(path),), static_lds=False)
    return tuple(_place(trace, recording) for recording in by_gpu)


def _look(trace: _Trace, keys: tuple[str, ...], value: Any, writer: Any) -> None:
    """Reading a profile: keeps what one element of the document tells."""
    if keys == (LIST, "[]"):
        if value is not None and (row := trace.take(value)) is not None:
            writer.writerow(row)
    elif keys == ("deviceProperties", "[]") and isinstance(value, dict):
        trace.cards.append(value)
    elif len(keys) == 1 and keys[0].startswith("hip_"):
        trace.hip = True


def _count_ranges(trace: _Trace) -> Recording:
    """What a trace of CUPTI's ranges alone tells. `RecordingError` where it holds none."""
    if not trace.ranges:
        raise RecordingError(trace.path, f"none of its {trace.events} events ran on a GPU: the program used none")
    card = _card(trace, "0")
    kernels = [
        KernelCalls(
            name=name if name != MISSING else "(kernel name not recorded)",
            display=display(name) if name != MISSING else "(kernel name not recorded)",
            category=category(name),
            calls=max(map(len, metrics.values())),
            last=LaunchShape(calls=max(map(len, metrics.values()))),
            metrics=tuple(Named(name=metric, value=sum(values) / len(values)) for metric, values in metrics.items()),
        )
        for name, metrics in trace.ranges.items()
    ]
    return Recording(
        format=RANGES,
        tool=TORCH,
        vendor="nvidia",
        arch=_arch(card, "nvidia"),
        device=str(card.get("name") or "") or None,
        kernels=tuple(sorted(kernels, key=lambda kernel: -kernel.calls)),
        facts=_facts(card),
        rows=sum(kernel.calls for kernel in kernels),
        files=(str(trace.path),),
        warnings=(RANGED,),
    )


def _card(trace: _Trace, number: str) -> Mapping[str, Any]:
    """What the trace says of a GPU. Numbers of ROCm are the machine's: where all that were visible are alike, it is one."""
    named = next((card for card in trace.cards if str(card.get("id")) == number), None)
    if named is not None:
        return named
    kinds = {tuple(str(card.get(key)) for key in ALIKE) for card in trace.cards}
    return trace.cards[0] if len(kinds) == 1 else {}


def _facts(card: Mapping[str, Any]) -> tuple[Named, ...]:
    return tuple(
        Named(name=fact, value=float(value))
        for fact, key in FACTS.items()
        if isinstance(value := card.get(key), int | float) and value > 0
    )


def _place(trace: _Trace, recording: Recording) -> Recording:
    """Reading a profile: with the vendor's words, the device's constants, and grids as the tool counts them."""
    number = (recording.device or "").removeprefix("Agent ")
    card = _card(trace, number)
    vendor = _vendor(trace, card)
    product = str(card.get("name") or "")
    kernels = tuple(_kernel(trace, number, kernel, vendor) for kernel in recording.kernels)
    untold = all(kernel.last.arch_vgpr is None for kernel in kernels if kernel.last.grid)
    notes = [NO_REGISTERS] if untold else []
    notes += [GRIDS] if vendor == "amd" and not trace.calls else []
    notes += [RANGED] if trace.ranges else []
    return recording.model_copy(
        update={
            "tool": TORCH,
            "vendor": vendor,
            "arch": _arch(card, vendor),
            "device": product or (f"GPU {number}" if number else None),
            "kernels": kernels,
            "facts": (*recording.facts, *_facts(card)),
            "warnings": (*recording.warnings, *notes),
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
    shaped = _items_in_blocks if kernel.name in trace.in_items else _in_blocks
    counted = trace.ranges.get(kernel.name, {})
    return kernel.model_copy(
        update={
            "last": shaped(kernel.last),
            "variants": tuple(shaped(launch) for launch in kernel.variants),
            "vgpr_total": kernel.last.arch_vgpr if vendor == "nvidia" else None,
            "metrics": (
                *((Named(name=ESTIMATED, value=estimated[0] / estimated[1]),) if estimated else ()),
                *(Named(name=metric, value=sum(values) / len(values)) for metric, values in counted.items()),
            ),
        }
    )


def _in_blocks(launch: LaunchShape) -> LaunchShape:
    return launch.model_copy(update={"grid": launch.blocks})


def _items_in_blocks(launch: LaunchShape) -> LaunchShape:
    """Reading a profile: of a grid that was told in work-items; without blocks where these do not divide it."""
    told, block = launch.blocks, launch.workgroup
    if told is None or block is None or any(items % width for items, width in zip(told, block, strict=True)):
        return launch.model_copy(update={"grid": None, "blocks": None})
    blocks = (told[0] // block[0], told[1] // block[1], told[2] // block[2])
    return launch.model_copy(update={"grid": blocks, "blocks": blocks})
