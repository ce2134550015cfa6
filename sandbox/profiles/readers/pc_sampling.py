"""Reads PC samples of rocprofv3: the host-trap and stochastic CSVs, and the viewer's folder of samples."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path

from ridgeline.graph.kernel_profile import Hotspot, KernelCalls, LaunchShape, Recording, Stall, StallShare
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers import files, names
from ridgeline.sandbox.profiles.readers.att import HOTSPOTS, RAW_NAMES, kind, stall, viewer_rows
from ridgeline.sandbox.profiles.readers.files import RecordingError

# The viewer's folder of PC samples: `code.json` with counts of issued and stalled samples per instruction.

FILES = ("code.json", "filenames.json")
REASONS = (
    "NONE", "NO_INSTRUCTION_AVAILABLE", "ALU_DEPENDENCY", "WAITCNT", "INTERNAL_INSTRUCTION", "BARRIER_WAIT",
    "ARBITER_NOT_WIN", "ARBITER_WIN_EX_STALL", "OTHER_WAIT", "SLEEP_WAIT",
)  # fmt: skip
"""Why a sampled wave did not issue, in the order of rocprofiler-sdk's enumeration and so of Stall_Reasons."""
COLUMNS = ("isa", "source", "vaddr", "pc_issued", "pc_stalled", "stall_reasons")
HEAD = 65536


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Where a sample fell and why the wave did not issue there."""

    isa: str
    source: str
    reason: str
    """One of REASONS, `ISSUED`, or empty: a host trap does not tell."""
    address: int | None = None
    kernel: str = ""

    def without_reason(self) -> "Sample":
        """Reading a profile: the instruction alone."""
        return replace(self, reason="")


def is_viewer_folder(folder: Path) -> bool:
    """Reading a profile: whether the folder is a viewer's and its filenames.json says that it holds PC samples."""
    if not all((folder / name).is_file() for name in FILES):
        return False
    with (folder / "filenames.json").open("rb") as file:
        return b'"pc_sampling":true' in file.read(HEAD).replace(b" ", b"")


def read_samples(folder: Path) -> tuple[Counter[Sample], bool]:
    """Reading a profile: how often each sample occurs, and whether reasons are told. RecordingError where there is none or damage."""
    path = folder / "code.json"
    columns, rows = viewer_rows(path)
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise RecordingError(path, f"its header lacks {', '.join(missing)}: no PC samples")
    places = [columns.index(name) for name in COLUMNS]
    counted: Counter[Sample] = Counter()
    stochastic, kernel = False, ""
    for number, row in enumerate(rows):
        isa, source = (files.text_of(row[place], path, f"ISA or Source of row {number}") for place in places[:2])
        if isa.startswith("; "):
            kernel = source or isa[2:].strip()
            continue
        address, issued, stalled = files.read_integers([row[p] for p in places[2:5]], path, f"counts of row {number}")
        reason_cells = files.sequence(row[places[5]], path, f"Stall_Reasons of row {number}")
        reasons = files.read_integers(reason_cells, path, f"Stall_Reasons of row {number}")
        at = Sample(isa=isa, source=source, reason="", address=address, kernel=kernel)
        if len(reasons) > len(REASONS) or sum(reasons) > stalled:
            raise RecordingError(path, f"row {number} has {sum(reasons)} reasons for {stalled} stalled samples")
        stochastic |= any(reasons)
        for reason, count in zip(("ISSUED", "", *REASONS), (issued, stalled - sum(reasons), *reasons), strict=False):
            counted[replace(at, reason=reason)] += count
    counted = +counted
    if not counted:
        raise RecordingError(path, "holds no sample; sample longer or with a smaller interval")
    return counted, stochastic


PREFIX = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
WHOLE = ("sample_timestamp", "dispatch_id", "correlation_id")
KEY = ("exec_mask", "instruction", "instruction_comment")
STOCHASTIC = ("wave_issued_instruction", "stall_reason", "wave_count")
_BY_REASON: dict[str, Stall] = {
    "ALU_DEPENDENCY": "dependency",
    "BARRIER_WAIT": "barrier",
    "ARBITER_NOT_WIN": "not_selected",
    "NO_INSTRUCTION_AVAILABLE": "instruction_fetch",
    "SLEEP_WAIT": "sleep",
    "OTHER_WAIT": "other",
    "NONE": "other",
}
"""The rest (WAITCNT, ARBITER_WIN_EX_STALL, INTERNAL_INSTRUCTION) is classed by the instruction: what it waited for,
which pipe was full, or that it was a nop."""
_WAITING = ("mem_wait", "lgkm_wait", "lds_wait", "smem_wait", "mixed_wait", "barrier", "tail", "sleep")
"""At these instructions a wave does nothing but wait; at others a host trap cannot tell waiting from issuing."""


@dataclass(kw_only=True)
class _SampleCounts:
    """Running sums over the rows of a CSV, so that memory does not grow with it."""

    samples: Counter[Sample] = field(default_factory=Counter)
    dispatches: set[str] = field(default_factory=set)
    stochastic: bool
    rows: int = 0
    rejected: int = 0
    lanes: int = 0
    waves: int = 0


def sniff(path: Path) -> bool:
    """Reading a profile: whether `path` is a CSV of PC samples, or a viewer folder (or its code.json) that holds samples."""
    if path.is_dir() or path.name == "code.json":
        return is_viewer_folder(path if path.is_dir() else path.parent)
    columns = files.columns(path)
    return "sample_timestamp" in columns and "instruction" in columns


def read_recording(path: Path) -> Recording:
    """Reading a profile: the samples at `path` as shares of all samples. No sample has a time: nothing here may decide acceptance.

    Raises RecordingError where a file is missing, cut, damaged, without samples or of an unknown version.
    """
    if path.is_dir() or path.name == "code.json":
        return _viewer(path if path.is_dir() else path.parent)
    counted = _count(path)
    stochastic = counted.stochastic
    counters = [
        ("pc_sampling.samples", float(counted.rows)),
        ("pc_sampling.dispatches", float(len(counted.dispatches))),
        ("pc_sampling.mean_active_lanes", counted.lanes / counted.rows),
    ]
    if stochastic:
        counters.append(("pc_sampling.mean_waves", counted.waves / counted.rows))
    return Recording(
        format="pc_sampling", tool="rocprofv3", vendor="amd", stalls=_stalls(counted.samples, stochastic),
        hotspots=_hotspots(counted.samples, stochastic), counters=tuple(Named(name=n, value=v) for n, v in counters),
        rows=counted.rows, rejected=counted.rejected, files=(str(path),),
        warnings=_warnings(stochastic, counted.rejected, ended=files.is_ended(path)),
    )  # fmt: skip


def _viewer(folder: Path) -> Recording:
    samples, stochastic = read_samples(folder)
    rows = sum(samples.values())
    kernels = Counter[str]()
    for sample, count in samples.items():
        kernels[sample.kernel] += count
    return Recording(
        format="pc_sampling", tool="rocprofv3", vendor="amd", stalls=_stalls(samples, stochastic),
        hotspots=_hotspots(samples, stochastic),
        counters=(Named(name="pc_sampling.samples", value=float(rows)),), rows=rows,
        kernels=tuple(_sampled_kernel(name) for name, _ in kernels.most_common() if name),
        files=tuple(str(folder / name) for name in FILES), warnings=_warnings(stochastic, 0),
    )  # fmt: skip


def _sampled_kernel(name: str) -> KernelCalls:
    """Reading a profile: a kernel in which samples fell, so one that ran at least once; no call was counted and no time taken."""
    once = LaunchShape(calls=1)
    return KernelCalls(name=name, display=names.display(name), category=names.category(name), calls=1, last=once)


def _count(path: Path) -> _SampleCounts:
    number = 1
    key_counts: Counter[tuple[str, ...]] = Counter()
    dispatches = set[str]()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = _rows(path, file)
            _, columns = next(rows)
            stochastic = _is_stochastic(path, columns)
            pick = itemgetter(*(columns.index(name) for name in (KEY + STOCHASTIC if stochastic else KEY)))
            dispatch = columns.index("dispatch_id")
            for number, cells in rows:
                key = pick(cells)
                if key not in key_counts:
                    _check(path, key, number)
                key_counts[key] += 1
                dispatches.add(cells[dispatch])
    except OSError as error:
        raise RecordingError(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordingError(path, f"is not UTF-8: {error.reason}", line=number + 1) from error
    except csv.Error as error:
        raise RecordingError(path, f"is cut or damaged: {error}", line=number + 1) from error
    return _sum(path, key_counts, dispatches, stochastic)


def _rows(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Reading a profile: the header in lower case, then every row, each with its line; whole numbers are checked to be some."""
    reader = csv.reader(_without_nul(path, lines), strict=True)
    columns = [name.strip().lower() for name in next(reader, [])]
    yield 1, columns
    width = len(columns)
    time, dispatch, correlation = (columns.index(name) for name in WHOLE)
    for cells in reader:
        if not cells:
            continue
        if len(cells) != width:
            raise RecordingError(path, f"has {len(cells)} cells, the header {width}", line=reader.line_num)
        if not (cells[time].isdecimal() and cells[dispatch].isdecimal() and cells[correlation].isdecimal()):
            raise RecordingError(path, f"{', '.join(WHOLE)}: not all are whole numbers", line=reader.line_num)
        yield reader.line_num, cells


def _sum(path: Path, key_counts: Counter[tuple[str, ...]], dispatches: set[str], stochastic: bool) -> _SampleCounts:
    counted = _SampleCounts(dispatches=dispatches, stochastic=stochastic)
    for (mask, isa, source, *reason_cells), count in key_counts.items():
        if not isa.strip():
            # the sampled address was in code that the tool could not decode
            counted.rejected += count
            continue
        counted.rows += count
        counted.lanes += int(mask).bit_count() * count
        counted.waves += int(reason_cells[2]) * count if reason_cells else 0
        counted.samples[Sample(isa=isa, source=source, reason=_reason(reason_cells) if reason_cells else "")] += count
    if not counted.rows:
        raise RecordingError(path, "holds no usable sample; sample longer or with a smaller interval", line=1)
    return counted


def _without_nul(path: Path, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise RecordingError(path, "holds a NUL byte: damaged", line=number)
        yield line


def _is_stochastic(path: Path, columns: Sequence[str]) -> bool:
    missing = [name for name in (*KEY, *WHOLE) if name not in columns]
    if missing:
        raise RecordingError(path, f"its header lacks {', '.join(missing)}", line=1)
    absent = [name for name in STOCHASTIC if name not in columns]
    if absent and len(absent) < len(STOCHASTIC):
        raise RecordingError(path, f"its header has columns of stochastic samples, but no {', '.join(absent)}", line=1)
    return not absent


def _check(path: Path, key: tuple[str, ...], number: int) -> None:
    mask, _, _, *reason_cells = key
    if not (mask.isdecimal() and len(mask) <= 20 and int(mask) < 2**64):
        raise RecordingError(path, f"exec_mask is {mask[:40]!r}, not a 64-bit number", line=number)
    if not reason_cells:
        return
    if not (reason_cells[2].isdecimal() and len(reason_cells[2]) < 6):
        raise RecordingError(path, f"wave_count is {reason_cells[2][:40]!r}, not a whole number", line=number)
    if _reason(reason_cells) not in ("ISSUED", *REASONS):
        raise RecordingError(path, f"neither issued nor a known reason: {reason_cells[1][:80]!r}", line=number)


def _reason(reason_cells: Sequence[str]) -> str:
    issued = reason_cells[0].strip().lower()
    if issued in ("1", "true"):
        return "ISSUED"
    return reason_cells[1].strip().removeprefix(PREFIX) if issued in ("0", "false") else ""


def _class(sample: Sample, stochastic: bool) -> Stall:
    at = stall(kind(sample.isa))
    if not stochastic:
        return at if at in _WAITING else "other"
    if sample.reason == "ISSUED":
        return "issue"
    return _BY_REASON.get(sample.reason, at)


def _stalls(samples: Counter[Sample], stochastic: bool) -> tuple[StallShare, ...]:
    total = sum(samples.values())
    classes: Counter[Stall] = Counter()
    raw: dict[Stall, Counter[str]] = {}
    for sample, count in samples.items():
        at = _class(sample, stochastic)
        classes[at] += count
        raw.setdefault(at, Counter())[sample.reason or sample.isa.partition(" ")[0]] += count
    return tuple(
        StallShare(
            stall=at, share=count / total, basis="samples",
            raw_names=tuple(name for name, _ in raw[at].most_common(RAW_NAMES)),
        )
        for at, count in classes.most_common()
    )  # fmt: skip


def _hotspots(samples: Counter[Sample], stochastic: bool) -> tuple[Hotspot, ...]:
    total = sum(samples.values())
    lines: dict[Sample, Counter[Stall]] = {}
    for sample, count in samples.items():
        lines.setdefault(sample.without_reason(), Counter())[_class(sample, stochastic)] += count
    hottest = sorted(lines, key=lambda line: (-lines[line].total(), line.isa, line.source))[:HOTSPOTS]
    return tuple(
        Hotspot(
            isa=line.isa, pc=line.address, source=line.source, share=lines[line].total() / total,
            stall=lines[line].most_common(1)[0][0], kernel=line.kernel,
        )
        for line in hottest
    )  # fmt: skip


def _warnings(stochastic: bool, rejected: int, *, ended: bool = True) -> tuple[str, ...]:
    warnings = [] if stochastic else [
        "host-trap samples lean towards waits and do not tell waiting from issuing: only waits are classed"
    ]  # fmt: skip
    if rejected:
        warnings.append(f"{rejected} samples left out: their instruction was not decoded")
    if not ended:
        warnings.append("the last line has no end: more samples may have been cut off")
    return tuple(warnings)
