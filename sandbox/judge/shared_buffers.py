"""Memory that judge and worker share: arrays at two places, each between bands of random bytes."""

import ctypes
import fcntl
import math
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.errors import WorldError
from ridgeline.graph.task import Constness, Task, Tensor
from ridgeline.sandbox.judge.dtypes import STORAGE, address, memcmp, same_bytes
from ridgeline.sandbox.judge.inputs import axis_lengths

Array = NDArray[np.generic]
PLACEMENTS = 2
GUARD_BYTES = 1 << 16
"""Before, between and behind arrays: measurement rules ask for 64 KiB or more."""
NEAR_BYTES = 4096
"""Of a band: most writes that miss an array miss it by less."""
FULL_CHECK_EVERY = 8
PAGE = 4096
STAGGER = 5 * 64
"""Arrays begin at different cache lines of a page, so that a kernel that reads several does not meet one set of a
cache with all of them. A multiple of 64 bytes, as vector loads want."""
MEMORY_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
"""A worker that could cut the memory short would kill the judge at its next access."""


@dataclass(frozen=True, kw_only=True)
class BufferSpec:
    """One array's place in the task, whatever its placement."""

    name: str
    dtype: str
    """The task's word for it."""
    storage: np.dtype[np.generic]
    shape: tuple[int, ...]
    constness: Constness | None
    """None: an output."""
    nbytes: int

    @property
    def judged(self) -> bool:
        """For the judge: whether its contents after a call are an answer."""
        return self.constness in (None, "mutated")


class GuardBand(NamedTuple):
    """Bytes that belong to no array, and the arrays that they lie beside."""

    offset: int
    length: int
    beside: tuple[str, ...]


class GuardSpan(NamedTuple):
    """Bytes of the arena that are compared with what belongs there, by address."""

    at: int
    expected_at: int
    length: int
    band: GuardBand


def buffer_specs(task: Task, dims: Mapping[str, int]) -> tuple[BufferSpec, ...]:
    """For the judge: what a call of that size needs, inputs first."""
    constness: dict[str, Constness] = {tensor.name: tensor.constness for tensor in task.inputs}
    return tuple(_buffer_spec(tensor, constness.get(tensor.name), dims) for tensor in (*task.inputs, *task.outputs))


def _buffer_spec(tensor: Tensor, constness: Constness | None, dims: Mapping[str, int]) -> BufferSpec:
    shape, storage = axis_lengths(tensor, dims), np.dtype(STORAGE[tensor.dtype])
    return BufferSpec(
        name=tensor.name,
        dtype=tensor.dtype,
        storage=storage,
        shape=shape,
        constness=constness,
        nbytes=math.prod(shape) * storage.itemsize,
    )


def shared_bytes(needed: Sequence[BufferSpec]) -> int:
    """For the judge: size of an arena for these arrays, guard bands included."""
    return _lay_out(needed)[1]


class SharedBuffers:
    """The judge's end. Nothing of it is trusted after the worker has run, except what was copied out."""

    def __init__(self, task: Task, dims: Mapping[str, int]) -> None:
        """Raises WorldError when this machine has not that much memory."""
        self.dims = dict(dims)
        self.rooms = buffer_specs(task, dims)
        self.offsets, end = _lay_out(self.rooms)
        self.size = end + self._more(end)
        self.descriptor = _sealed_memory(self.size)
        memory = mmap.mmap(self.descriptor, self.size)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._memory = memory
        self._guards: list[Array] = []
        self._guard_spans = tuple(tuple(self._spans(places)) for places in self.offsets)
        self._edge_spans = tuple(
            tuple(edge for span in spans for edge in _edges_of(span)) for spans in self._guard_spans
        )
        for span in (span for spans in self._guard_spans for span in spans):
            ctypes.memmove(span.at, span.expected_at, span.length)
        self._check_counts = [0] * PLACEMENTS
        self._views = tuple(
            {room.name: self._view(room, places[room.name]) for room in self.rooms} for places in self.offsets
        )
        self.judged_bytes = sum(room.nbytes for room in self.rooms if room.judged)
        self._consts: dict[str, Array] = {}
        self._const_at: set[tuple[str, int]] = set()

    def layout(self) -> dict[str, object]:
        """For the judge: what the worker must know to find the arrays; plain values, for JSON."""
        return {
            "size": self.size,
            "dims": self.dims,
            "arrays": [{"name": room.name, "dtype": room.dtype, "shape": room.shape} for room in self.rooms],
            "mutated": [room.name for room in self.rooms if room.constness == "mutated"],
            "placements": self.offsets,
        }

    def write(self, inputs: Mapping[str, Array], placement: int) -> None:
        """For the judge: put the inputs in place. A constant one is put there once.

        Raises ValueError for arrays that are not what the task says, or a constant one with other values than before.
        """
        for room in self.rooms:
            if room.constness is None:
                continue
            array = inputs[room.name]
            _check_array(room, array)
            if room.constness == "const" and self._is_constant_in_place(room, array, placement):
                continue
            self._views[placement][room.name][...] = array

    def poison(self, fillings: Mapping[str, Array] | None, placement: int) -> None:
        """For the judge: fill the outputs with these bytes; without any, with random ones."""
        for room in self.rooms:
            if room.constness is not None:
                continue
            array = _random_bytes(room) if fillings is None else fillings[room.name]
            _check_array(room, array)
            self._views[placement][room.name][...] = array

    def outputs(self, placement: int) -> dict[str, Array]:
        """For the judge: copies of the outputs and of the inputs that may be written, as they are at this moment."""
        views = self._views[placement]
        return {room.name: views[room.name].copy() for room in self.rooms if room.judged}

    def list_changed_inputs(self, inputs: Mapping[str, Array], placement: int) -> tuple[str, ...]:
        """For the judge: inputs that differ from what was written, and may not."""
        views = self._views[placement]
        return tuple(
            room.name for room in self.rooms if not room.judged and not same_bytes(views[room.name], inputs[room.name])
        )

    def list_broken_guards(self, placement: int, *, whole_bands: bool = False) -> tuple[str, ...]:
        """For the judge: arrays with a band beside them that differs; the bands are then as they were.

        Each time the part next to the arrays is looked at, and the whole bands at the first of `FULL_CHECK_EVERY` times at a
        placement, or when asked for: what was done to them stays there until then.
        """
        edges_only = self._check_counts[placement] % FULL_CHECK_EVERY and not whole_bands
        spans = self._edge_spans[placement] if edges_only else self._guard_spans[placement]
        self._check_counts[placement] += 1
        if not (hurt := [span for span in spans if memcmp(span.at, span.expected_at, span.length)]):
            return ()
        for span in hurt:
            ctypes.memmove(span.at, span.expected_at, span.length)
        beside = {name for span in hurt for name in span.band.beside}
        return tuple(room.name for room in self.rooms if room.name in beside)

    def close(self) -> None:
        """For the judge: give the memory shared with a worker back, all of it; what the worker still has mapped then reads as zeros."""
        self._memory.madvise(mmap.MADV_REMOVE)
        os.close(self.descriptor)

    def _spans(self, places: Mapping[str, int]) -> Iterator[GuardSpan]:
        """For the judge: each band of one placement, and random bytes for it."""
        for band in guard_bands(self.rooms, places):
            guard = np.frombuffer(os.urandom(band.length), dtype=np.uint8)
            self._guards.append(guard)
            yield GuardSpan(self._base + band.offset, address(guard), band.length, band)

    def _more(self, end: int) -> int:
        """For the judge: bytes to add behind the placements."""
        return 0

    def _view(self, room: BufferSpec, offset: int) -> Array:
        """For the judge: the array as it lies in the shared memory."""
        array: Array = np.frombuffer(self._memory, room.storage, math.prod(room.shape), offset)
        return array.reshape(room.shape)

    def _is_constant_in_place(self, room: BufferSpec, array: Array, placement: int) -> bool:
        """For the judge: whether a constant input is in place already. What the worker may have done to it there is seen later."""
        constant = self._consts.setdefault(room.name, array)
        if constant is not array and not same_bytes(constant, array):
            raise ValueError(f"{room.name} is constant, and has other values than before in the same process")
        there = (room.name, placement) in self._const_at
        self._const_at.add((room.name, placement))
        return there


def _lay_out(needed: Sequence[BufferSpec], count: int = PLACEMENTS) -> tuple[tuple[dict[str, int], ...], int]:
    """Offsets of the judge's shared arrays by placement, so many, and name, and the size of it all."""
    cursor = 0
    placements: list[dict[str, int]] = []
    for _ in range(count):
        places: dict[str, int] = {}
        for number, room in enumerate(needed):
            cursor = _round_up(cursor + GUARD_BYTES) + STAGGER * number
            places[room.name] = cursor
            cursor += room.nbytes
        placements.append(places)
        cursor += GUARD_BYTES
    return tuple(placements), _round_up(cursor)


def _edges_of(span: GuardSpan) -> tuple[GuardSpan, GuardSpan]:
    """The parts of a guard band next to the judge's shared arrays."""
    end = span.length - NEAR_BYTES
    return span._replace(length=NEAR_BYTES), GuardSpan(span.at + end, span.expected_at + end, NEAR_BYTES, span.band)


def _round_up(offset: int) -> int:
    return -(-offset // PAGE) * PAGE


def guard_bands(needed: Sequence[BufferSpec], places: Mapping[str, int]) -> Iterator[GuardBand]:
    """For the judge: guard bands of one placement of the arrays."""
    end = places[needed[0].name] - GUARD_BYTES
    before: tuple[str, ...] = ()
    for room in needed:
        start = places[room.name]
        yield GuardBand(end, start - end, (*before, room.name))
        end, before = start + room.nbytes, (room.name,)
    yield GuardBand(end, GUARD_BYTES, before)


def _sealed_memory(size: int) -> int:
    """For the judge: memory of exactly that size, all of it taken now: a page missing later would be a signal, not an error."""
    descriptor = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, MEMORY_SEALS)
    except OSError as error:
        os.close(descriptor)
        raise WorldError(f"{size >> 20} MiB for a task's arrays are not to be had: {error.strerror}") from error
    return descriptor


def _check_array(room: BufferSpec, array: Array) -> None:
    if array.dtype != room.storage or array.shape != room.shape or not array.flags.c_contiguous:
        raise ValueError(
            f"{room.name}: {array.dtype} {array.shape} given where contiguous {room.storage} {room.shape} is wanted"
        )


def _random_bytes(room: BufferSpec) -> Array:
    return np.frombuffer(os.urandom(room.nbytes), dtype=room.storage).reshape(room.shape)


# The arenas of one session: one for each size, those used longest ago given up when there are too many bytes.

BUDGET_BYTES = 1 << 30
SizeKey = tuple[tuple[str, int], ...]


def budget_bytes(task: Task) -> int:
    """For the judge: bytes for all arenas together; room for two of the largest public size at least."""
    return max(BUDGET_BYTES, 2 * max(shared_bytes(buffer_specs(task, shape.dims)) for shape in task.shapes))


class SharedBuffersCache:
    """Each has a number, its slot, by which the worker knows it; a slot is given again when its arena is given up."""

    def __init__(self, task: Task, *, budget: int | None = None, card: bool = False) -> None:
        """`budget` in bytes; default: `budget_bytes`."""
        self._task, self._card = task, card
        self._budget = budget_bytes(task) if budget is None else budget
        self._slots: dict[SizeKey, tuple[int, SharedBuffers]] = {}

    def open_size(self, dims: Mapping[str, int]) -> tuple[int, SharedBuffers, bool]:
        """For the judge: slot and arena of that size, and whether it is new. Raises WorldError when there is no memory for it."""
        if self._slots and (latest := next(reversed(self._slots.values())))[1].dims == dims:
            return *latest, False
        key = tuple(sorted(dims.items()))
        new = key not in self._slots
        if new:
            self._make_room(shared_bytes(buffer_specs(self._task, dims)))
            slot = min(set(range(len(self._slots) + 1)) - {slot for slot, _ in self._slots.values()})
            self._slots[key] = (slot, (CardSharedBuffers if self._card else SharedBuffers)(self._task, dims))
        else:
            self._slots[key] = self._slots.pop(key)  # the order of the dict is that of use
        slot, arena = self._slots[key]
        return slot, arena, new

    def close(self) -> None:
        """Close all buffers that the judge shares with a worker."""
        for _, arena in self._slots.values():
            arena.close()
        self._slots.clear()

    def _make_room(self, needed_bytes: int) -> None:
        while self._slots and sum(arena.size for _, arena in self._slots.values()) + needed_bytes > self._budget:
            _, arena = self._slots.pop(next(iter(self._slots)))
            arena.close()


# The shared memory of a worker whose arrays lie on a card: with room for second copies, and for words.

MESSAGE_BYTES = 1 << 16
"""Bytes for what judge and worker tell each other about one call, beyond a frame."""


class CardSharedBuffers(SharedBuffers):
    """An arena that is copied to and from a card; the worker lays the card's memory out alike."""

    def layout(self) -> dict[str, object]:
        """The layout of `SharedBuffers` for a card's worker, with guard bands and the places of second copies and messages."""
        by_placement = [list(guard_bands(self.rooms, places)) for places in self.offsets]
        return {
            **super().layout(),
            "spans": [[bands[0].offset, bands[-1].offset + bands[-1].length] for bands in by_placement],
            "bands": [[[band.offset, band.length] for band in bands] for bands in by_placement],
            "seconds": self._seconds,
            "words": self._words,
        }

    def write_message(self, words: bytes) -> None:
        """For the judge: leave words for the worker. Raises ValueError for more than MESSAGE_BYTES."""
        if len(words) > MESSAGE_BYTES:
            raise ValueError(f"{len(words)} bytes of words where {MESSAGE_BYTES} have room")
        ctypes.memmove(self._base + self._words, words.ljust(MESSAGE_BYTES, b"\0"), MESSAGE_BYTES)

    def read_message(self) -> bytes:
        """For the judge: the worker's words in their place. A claim."""
        return ctypes.string_at(self._base + self._words, MESSAGE_BYTES).rstrip(b"\0")

    def second_copies(self) -> dict[str, Array]:
        """What is judged, as it was after everything on the card had ended."""
        return {room.name: self._view(room, self._seconds[room.name]).copy() for room in self.rooms if room.judged}

    def _more(self, end: int) -> int:
        cursor, self._seconds = end, dict[str, int]()
        for room in self.rooms:
            if room.judged:
                self._seconds[room.name] = cursor
                cursor = -(-(cursor + room.nbytes) // PAGE) * PAGE
        self._words = cursor
        return cursor + MESSAGE_BYTES - end
