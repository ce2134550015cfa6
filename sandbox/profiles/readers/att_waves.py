"""What a thread trace says beside its code: lifetimes of waves, what their waits waited for, residency and clock."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from ridgeline.sandbox.profiles.readers import json_text
from ridgeline.sandbox.profiles.readers.fault import RecordingError

SAMPLED_FILES = 8
SAMPLED_BYTES = 8 * 2**20
"""A traced softmax has 2,056 wave files; what a wait waits for is the same in each, so a few are enough."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """One traced wave; times are shader clock cycles of its engine."""

    engine: str
    simd: str
    file: str
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """From the sampled wave files."""

    producers: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Line of a wait -> line of the instruction it waited for -> how often it is listed. Empty: waited for nothing."""
    sampled: int = 0
    present: int = 0
    """Wave files in the folder; fewer than waves where only a part was kept."""
    whole: bool = True
    """Every instruction of the sampled waves was matched to the code."""


def lives(path: Path) -> tuple[str | None, tuple[Life, ...]]:
    """The instruction set's generation (`gfxip`) and all traced waves of a `filenames.json`."""
    top = json_text.mapping(json_text.load(path), path, "the file")
    generation = top.get("gfxip")
    named = top.get("wave_filenames")
    if named is None:
        raise RecordingError(path, "lists no waves: thread trace was off or nothing was traced")
    return (None if generation is None else str(generation)), tuple(_lives(path, named))


def _lives(path: Path, named: object) -> Iterator[Life]:
    for engine, simds in json_text.mapping(named, path, "wave_filenames").items():
        for simd, slots in json_text.mapping(simds, path, f"engine {engine}").items():
            for slot, waves in json_text.mapping(slots, path, f"SIMD {simd}").items():
                for wave in json_text.mapping(waves, path, f"slot {slot}").values():
                    cells = json_text.sequence(wave, path, "a wave")
                    if len(cells) != 3:
                        raise RecordingError(path, f"a wave has {len(cells)} entries, not file, begin and end")
                    begin, end = json_text.wholes(cells[1:], path, "begin or end of a wave")
                    if end < begin:
                        raise RecordingError(path, f"a wave ends at {end}, before its begin {begin}")
                    file = json_text.text_of(cells[0], path, "file of a wave")
                    yield Life(engine=engine, simd=simd, file=file, begin=begin, end=end)


def busy_cycles(waves: Sequence[Life]) -> int:
    """Cycles in which the traced SIMDs held a traced wave, summed over SIMDs; overlapping waves count once."""
    spans: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for wave in waves:
        spans[wave.engine, wave.simd].append((wave.begin, wave.end))
    total = 0
    for intervals in spans.values():
        reached = 0
        for begin, end in sorted(intervals):
            total += max(0, end - max(begin, reached))
            reached = max(reached, end)
    return total


def waits(folder: Path, waves: Sequence[Life]) -> Waits:
    """Reads a bounded sample of the wave files that are there, spread over all waves."""
    there = {entry.name: entry for entry in folder.iterdir() if entry.name.startswith("se")}
    kept = [there[wave.file] for wave in waves if wave.file in there]
    producers: dict[int, Counter[int]] = {}
    whole, read, taken = True, 0, 0
    for path in _spread(kept, SAMPLED_FILES):
        taken += path.stat().st_size
        if read and taken > SAMPLED_BYTES:
            break
        whole &= _add_wave(path, producers)
        read += 1
    return Waits(producers=producers, sampled=read, present=len(kept), whole=whole)


def _spread(paths: Sequence[Path], most: int) -> list[Path]:
    count = min(most, len(paths))
    return [paths[index * len(paths) // count] for index in range(count)]


def _add_wave(path: Path, producers: dict[int, Counter[int]]) -> bool:
    top = json_text.mapping(json_text.load(path), path, "the file")
    wave = json_text.mapping(top.get("wave"), path, "wave")
    for entry in json_text.sequence(wave.get("waitcnt", []), path, "waitcnt"):
        cells = json_text.sequence(entry, path, "a wait")
        if len(cells) != 2:
            raise RecordingError(path, f"a wait has {len(cells)} entries, not its line and its producers")
        counted = producers.setdefault(json_text.whole(cells[0], path, "line of a wait"), Counter())
        for producer in json_text.sequence(cells[1], path, "producers of a wait"):
            line = json_text.sequence(producer, path, "a producer")
            if not line:
                raise RecordingError(path, "a producer of a wait is empty")
            counted[json_text.whole(line[0], path, "line of a producer")] += 1
    instructions, stitched = top.get("num_insts"), top.get("num_stitched")
    return instructions is None or stitched is None or instructions == stitched


def residency(path: Path, kernel: str) -> tuple[frozenset[str], float | None]:
    """Names of dispatches in an `occupancy.json`, and the mean number of `kernel`'s waves on a unit that had any.

    All dispatches count where none has this name. None where no wave began and ended.
    """
    top = json_text.mapping(json_text.load(path), path, "the file")
    named = json_text.mapping(top.get("dispatches", {}), path, "dispatches")
    names = {index: json_text.text_of(name, path, "a dispatch") for index, name in named.items()}
    wanted = {int(index) for index, name in names.items() if name == kernel and index.isdecimal()}
    waves, busy = 0, 0
    for engine, events in top.items():
        if not engine.isdecimal():
            continue
        units: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for event in json_text.sequence(events, path, f"engine {engine}"):
            cells = json_text.wholes(json_text.sequence(event, path, "an event"), path, "an event")
            if len(cells) != 6:
                raise RecordingError(path, f"an event has {len(cells)} entries, not 6")
            if not wanted or cells[5] in wanted:
                units[cells[1]].append((cells[0], 1 if cells[4] else -1))
        for changes in units.values():
            held, active = _resident(changes)
            waves += held
            busy += active
    return frozenset(names.values()), waves / busy if busy else None


def _resident(changes: list[tuple[int, int]]) -> tuple[int, int]:
    held, active, now, before = 0, 0, 0, 0
    for time, change in sorted(changes):
        held += now * (time - before)
        active += (time - before) if now else 0
        now, before = max(0, now + change), time
    return held, active


def clock_mhz(path: Path) -> float | None:
    """The shader clock between the first and last time stamp of a `realtime.json`; None where it holds too few."""
    top = json_text.mapping(json_text.load(path), path, "the file")
    meta = json_text.mapping(top.get("metadata", {}), path, "metadata")
    if "frequency" not in meta:
        return None
    frequency = json_text.whole(meta["frequency"], path, "frequency")
    clocks = []
    for engine, stamps in top.items():
        if not engine.startswith("SE"):
            continue
        pairs = [
            json_text.wholes(json_text.sequence(pair, path, "a time stamp"), path, "a time stamp")
            for pair in json_text.sequence(stamps, path, engine)
        ]
        if any(len(pair) != 2 for pair in pairs):
            raise RecordingError(path, "a time stamp is not a pair of clocks")
        if len(pairs) >= 2 and pairs[-1][1] > pairs[0][1] and pairs[-1][0] > pairs[0][0]:
            clocks.append((pairs[-1][0] - pairs[0][0]) / (pairs[-1][1] - pairs[0][1]) * frequency / 1e6)
    return median(clocks) if clocks else None
