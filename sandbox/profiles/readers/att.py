"""Reads AMD thread traces: `ui_output_*` folders of rocprofv3, one or several, and `stats_ui_output_*.csv`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.graph.kernel_profile import KernelCalls, Launched, Recording, ThreadTrace
from ridgeline.sandbox.profiles.readers import (
    att_code,
    att_matrix,
    att_stalls,
    att_valid,
    att_waves,
    csv_head,
    json_text,
    names,
)
from ridgeline.sandbox.profiles.readers.att_code import Instruction
from ridgeline.sandbox.profiles.readers.att_waves import Life, Waits
from ridgeline.sandbox.profiles.readers.fault import RecordingError

HEAD = 65536
_NEEDED = ("code.json", "filenames.json")


@dataclass(frozen=True, kw_only=True)
class _Parts:
    code: tuple[Instruction, ...]
    lives: tuple[Life, ...] | None
    waits: Waits
    generation: str | None
    dispatches: frozenset[str] = frozenset()
    waves_per_unit: float | None = None
    clock_mhz: float | None = None
    files: tuple[str, ...]


def sniff(path: Path) -> bool:
    """Whether `path` is a viewer folder (or its code.json), a folder of such folders, or a stats CSV. Reads 64 KiB."""
    if path.is_dir():
        return bool(_folders(path))
    if path.name == "code.json":
        return _is_viewer(path.parent)
    return csv_head.columns(path) == att_code.STATS


def read(path: Path) -> Recording:
    """The trace at `path`, of several the one whose waves took most cycles; the others are named in the warnings.

    Raises RecordingError where a file is missing, cut, damaged or of an unknown version.
    """
    first, *others = read_each(path)
    if not others:
        return first
    named = ", ".join(f"{one.att.kernel if one.att else ''} ({one.files[0]})" for one in others)
    return first.model_copy(
        update={"warnings": (*first.warnings, f"{len(others)} other traces beside this one, the hottest: {named}")}
    )


def read_each(path: Path) -> tuple[Recording, ...]:
    """Every trace at `path`, most wave cycles first."""
    if path.is_file() and path.name != "code.json":
        return (_stats(path),)
    folders = _folders(path.parent if path.is_file() else path)
    if not folders:
        missing = " and ".join(name for name in _NEEDED if not (path / name).is_file())
        raise RecordingError(path, f"is no thread trace: {missing} missing")
    read = [_recording(_viewer(folder), folder) for folder in folders]
    return tuple(sorted(read, key=lambda one: -(one.att.wave_cycles if one.att else 0)))


def _folders(path: Path) -> list[Path]:
    if _is_viewer(path):
        return [path]
    return [child for child in sorted(path.iterdir()) if child.is_dir() and _is_viewer(child)]


def _is_viewer(folder: Path) -> bool:
    if not all((folder / name).is_file() for name in _NEEDED):
        return False
    with (folder / "filenames.json").open("rb") as file:
        head = file.read(HEAD).replace(b" ", b"")
    # the same folder with samples in place of a trace is read by pc_sampling
    return b'"thread_trace":false' not in head and b'"wave_filenames":null' not in head


def _viewer(folder: Path) -> _Parts:
    code = att_code.from_viewer(folder / "code.json")
    generation, lives = att_waves.lives(folder / "filenames.json")
    files = [*_NEEDED]
    dispatches, residency, clock = frozenset[str](), None, None
    if (folder / "occupancy.json").is_file():
        files.append("occupancy.json")
        dispatches, residency = att_waves.residency(folder / "occupancy.json", _kernel(code))
    if (folder / "realtime.json").is_file():
        files.append("realtime.json")
        clock = att_waves.clock_mhz(folder / "realtime.json")
    return _Parts(
        code=code, lives=lives, waits=att_waves.waits(folder, lives), generation=generation, dispatches=dispatches,
        waves_per_unit=residency, clock_mhz=clock, files=tuple(str(folder / name) for name in files),
    )  # fmt: skip


def _stats(path: Path) -> Recording:
    code = att_code.from_stats(path)
    folder = path.with_name(path.stem.removeprefix("stats_"))
    if _is_viewer(folder):
        whole = _viewer(folder)
        if [row.hits for row in whole.code] != [row.hits for row in code]:
            raise RecordingError(path, f"does not agree with {folder.name}/code.json beside it: different traces")
        return _recording(whole, folder, also=(str(path),))
    parts = _Parts(code=code, lives=None, waits=Waits(), generation=None, files=(str(path),))
    return _recording(parts, path)


def _recording(parts: _Parts, path: Path, also: tuple[str, ...] = ()) -> Recording:
    chip = att_matrix.arch(parts.code, parts.generation)
    trace = _trace(parts, chip, path)
    checked = att_valid.validate(
        trace, parts.code, dispatches=parts.dispatches, stitched=parts.waits.whole,
        waves=None if parts.lives is None else len(parts.lives),
    )  # fmt: skip
    trace = trace.model_copy(update={"validators": checked})
    return Recording(
        format="att", tool="rocprofv3", vendor="amd", arch=chip, att=trace, stalls=trace.by_class,
        hotspots=trace.hotspots, rows=len(parts.code), files=(*parts.files, *also),
        kernels=_traced(trace.kernel), warnings=_warnings(parts, checked, path),
    )  # fmt: skip


def _traced(kernel: str) -> tuple[KernelCalls, ...]:
    """One traced dispatch, of which no time is known; nothing where the code has no label."""
    once = Launched(calls=1)
    named = KernelCalls(name=kernel, display=names.display(kernel), category=names.category(kernel), calls=1, last=once)
    return (named,) if kernel else ()


def _trace(parts: _Parts, chip: str | None, path: Path) -> ThreadTrace:
    code, lives = parts.code, parts.lives
    latency, idle = sum(row.latency for row in code), sum(row.idle for row in code)
    cycles = sum(wave.end - wave.begin for wave in lives) if lives else latency + idle
    if cycles > json_text.LARGEST:
        raise RecordingError(path, "its cycles do not fit 64 bits: damaged")
    checksum = (latency + idle) / cycles if lives and cycles else None
    per = max(cycles, 1)
    return ThreadTrace(
        kernel=_kernel(code),
        instructions=len(code),
        waves=sum(row.hits for row in code if row.kind == "endpgm") if lives is None else len(lives),
        wave_cycles=cycles,
        hits=sum(row.hits for row in code),
        latency=latency,
        stall=sum(row.stall for row in code),
        idle=idle,
        by_class=att_stalls.by_class(code, parts.waits.producers, per),
        checksum=checksum,
        checksum_ok=None if checksum is None else att_valid.adds_up(latency + idle, cycles),
        kinds=att_stalls.by_kind(code),
        clock_mhz=parts.clock_mhz,
        waves_per_unit=parts.waves_per_unit,
        matrix_busy=att_matrix.busy(code, att_waves.busy_cycles(lives), chip) if lives else None,
        hotspots=att_stalls.hotspots(code, parts.waits.producers, per),
    )


def _kernel(code: Sequence[Instruction]) -> str:
    """The label with most cycles under it: a trace lists device functions and helper kernels too."""
    cycles = Counter[str]()
    for row in code:
        cycles[row.kernel] += row.latency + row.idle
    return max(cycles, key=lambda name: cycles[name])


def _warnings(parts: _Parts, checked: Sequence[tuple[str, bool]], path: Path) -> tuple[str, ...]:
    found = [f"{name}: {att_valid.MEANING[name]}" for name, passed in checked if not passed]
    if not any(row.source for row in parts.code):
        found.append("no instruction has a source line: compile with line tables (-g) to see where the time goes")
    waits = parts.waits
    split = any(row.stall for row in parts.code if row.kind in att_stalls.SPLIT)
    if parts.lives is None:
        found.append(f"{path.name} alone holds no lifetimes of waves: shares are of latency + idle, with no checksum")
    if split and not waits.sampled:
        found.append("no wave file: waits on lgkmcnt are not split into LDS and scalar loads")
    elif split and parts.lives and waits.sampled < len(parts.lives):
        found.append(
            f"what waits waited for is known from {waits.sampled} of {len(parts.lives)} waves, {waits.present} in files"
        )
    kernels = {row.kernel for row in parts.code if row.hits}
    if len(kernels) > 1:
        found.append(f"code of {len(kernels)} functions was executed; shares are of all of them")
    return tuple(found)
