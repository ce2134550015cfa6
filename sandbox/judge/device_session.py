"""Workers whose arrays lie in segments that the judge owns: it writes inputs, fills outputs, looks and copies itself.

A segment holds one worker's arrays of one size, at two placements, with random bytes around every array, and nothing
else. What is right, what the other side answered and what inputs were before never lie in one. On a card segments are
allocations of the card, on a processor memory of the machine; all else is the same. Needs PyTorch.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.errors import WorldError
from ridgeline.graph.task import Task
from ridgeline.sandbox.harness.judge_frames import CALL, CAPTURE, CAPTURED, CHAIN, DONE, NONCE_BYTES, Frame
from ridgeline.sandbox.harness.judge_segments import HostMemory, SegmentError, SegmentMemory, open_card_memory
from ridgeline.sandbox.judge.device_values import Chance, draw, fill_with_poison, from_storage, to_storage
from ridgeline.sandbox.judge.inputs import MIXES
from ridgeline.sandbox.judge.options import HERE, Surroundings
from ridgeline.sandbox.judge.pool import POISON_KINDS
from ridgeline.sandbox.judge.session import BrokenWorker, SealedCall, Session
from ridgeline.sandbox.judge.shared_buffers import PLACEMENTS, BufferSpec, GuardBand, buffer_specs, guard_bands
from ridgeline.sandbox.judge.shared_buffers import _lay_out as lay_out
from ridgeline.sandbox.judge.worker import Device, LoadRequest, WorkerLost
from ridgeline.sandbox.store.durable import write_whole

torch: Any = import_module("torch")
Tensor = Any
Tensors = Mapping[str, Any]
CARD_OUT_OF_MEMORY = ("out of memory", "cuda_error_out_of_memory", "memory_allocation")
SEGMENT_SHORT = ("cuMemCreate failed with 2", "cuMemAlloc_v2 failed with 2")
"""CUDA_ERROR_OUT_OF_MEMORY of cuda.h."""
CONTEXT_BYTES = 1 << 29
"""Of the card that a worker takes before it has any array."""
OWN_ARRAYS = 4
"""Times a call's arrays that a candidate may take for its own: temporaries as large as its inputs and outputs together,
and as much again for its graph, of either side."""
HOARD_SHARE = 0.5
"""Of the card's memory, that a version's process gave back beyond what it may have when it was ended after memory had run
short: it is to blame."""
CHAIN_SLOT = 1
"""Of calls in a row, beside the size that is timed."""
LATE_S = 0.002
"""After a test's outputs were copied, they are looked at again when this time has passed: longer than a card gives one
process before another has its turn."""


def open_memory(device: Device) -> SegmentMemory:
    """The judge on a card: where segments are made. Raises WorldError where the card's driver cannot share memory."""
    if device == "cpu":
        return HostMemory(torch)
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    try:
        return open_card_memory(torch)
    except SegmentError as error:
        raise WorldError(f"the card's memory cannot be shared with a worker: {error}") from error


class DeviceBuffers:
    """The arrays of one size in one worker: the judge's end of a segment."""

    def __init__(
        self, memory: SegmentMemory, task: Task, dims: Mapping[str, int], chance: Chance, placements: int = PLACEMENTS
    ) -> None:
        """`placements`: address ranges that calls take turns with. Raises WorldError when there is not that much memory."""
        self._memory, self.dims, self.specs = memory, dict(dims), buffer_specs(task, dims)
        self.offsets, _ = lay_out(self.specs, placements)
        end = _end_of(self.specs, self.offsets[-1])
        try:
            self.segment = memory.create(end)
        except SegmentError as error:
            short = any(words in str(error) for words in SEGMENT_SHORT)
            raise (CardShort if short else WorldError)(
                f"{end / 1e9:.2f} GB for one worker's arrays of {dict(dims)} (shapes in task.yaml): {error}"
            ) from error
        self._chance = chance
        self._dtypes = {spec.name: task.dtype_of(spec.name) for spec in self.specs}
        self.segment.tensor.zero_()  # what this process had there before is nobody's to see
        self._views = tuple(
            {spec.name: self._view(spec, places[spec.name]) for spec in self.specs} for places in self.offsets
        )
        self._bands = tuple(tuple(guard_bands(self.specs, places)) for places in self.offsets)
        for band in (band for bands in self._bands for band in bands):
            self._band(band).random_(generator=chance.elements)
        self._guards = [self._band_bytes(placement) for placement in range(placements)]
        self._constants: dict[tuple[str, int], Tensor] = {}

    def layout(self) -> dict[str, object]:
        """The judge on a card: what the worker must know to find the arrays; plain values, for JSON."""
        return {
            "size": self.segment.size,
            "shared": self._memory.kind,
            "dims": self.dims,
            "arrays": [{"name": spec.name, "dtype": spec.dtype, "shape": spec.shape} for spec in self.specs],
            "mutated": [spec.name for spec in self.specs if spec.constness == "mutated"],
            "placements": self.offsets,
        }

    def write(self, inputs: Tensors, placement: int) -> None:
        """The judge on a card: put the inputs in place; a constant one once, as long as it is the same tensor."""
        for spec in self.specs:
            if spec.constness is None:
                continue
            tensor, key = inputs[spec.name], (spec.name, placement)
            if spec.constness == "const" and self._constants.get(key) is tensor:
                continue
            if spec.constness == "const":
                self._constants[key] = tensor
            self._views[placement][spec.name].copy_(tensor)

    def poison(self, kind: str, decoy: Tensors | None, placement: int) -> None:
        """The judge on a card: fill the outputs: one kind for all of a call."""
        for spec in self.specs:
            if spec.constness is None:
                view = self._views[placement][spec.name]
                fill_with_poison(view, self._dtypes[spec.name], kind, self._chance, (decoy or {}).get(spec.name))

    def outputs(self, placement: int, into: Tensors | None = None) -> dict[str, Tensor]:
        """Copies of what is judged; `into`: tensors to copy to, which are given back."""
        views = self._views[placement]
        names = [spec.name for spec in self.specs if spec.judged]
        if into is None:
            return {name: views[name].clone() for name in names}
        return {name: into[name].copy_(views[name]) for name in names}

    def list_changed_outputs(self, outputs: Tensors, placement: int) -> tuple[str, ...]:
        """The judge on a card: outputs that are no longer what was copied."""
        views = self._views[placement]
        return tuple(name for name, tensor in outputs.items() if not _same_bytes(views[name], tensor))

    def list_changed_inputs(self, inputs: Tensors, placement: int) -> tuple[str, ...]:
        """The judge on a card: inputs that differ from what was written, and may not."""
        views = self._views[placement]
        return tuple(
            spec.name for spec in self.specs if not spec.judged and not _same_bytes(views[spec.name], inputs[spec.name])
        )

    def list_broken_guards(self, placement: int) -> tuple[str, ...]:
        """The judge on a card: arrays with a band beside them that differs; the bands are then as they were."""
        there = self._band_bytes(placement)
        if torch.equal(there, self._guards[placement]):
            return ()
        beside: set[str] = set()
        cursor = 0
        for band in self._bands[placement]:
            expected = self._guards[placement][cursor : cursor + band.length]
            cursor += band.length
            if not torch.equal(self._band(band), expected):
                beside |= set(band.beside)
                self._band(band).copy_(expected)
        return tuple(spec.name for spec in self.specs if spec.name in beside)

    def close(self) -> None:
        """The judge on a card: give this end back; the card's memory goes when the worker has ended too."""
        self._views, self._guards = (), []
        self.segment.close()

    def _view(self, spec: BufferSpec, offset: int) -> Tensor:
        raw = self.segment.tensor[offset : offset + spec.nbytes]
        return raw.view(getattr(torch, spec.dtype)).view(spec.shape)

    def _band(self, band: GuardBand) -> Tensor:
        return self.segment.tensor[band.offset : band.offset + band.length]

    def _band_bytes(self, placement: int) -> Tensor:
        return torch.cat([self._band(band) for band in self._bands[placement]])


def read_card_memory(device: Any) -> tuple[int, int]:
    """The judge on a card: bytes that are free and all; where the processor plays a card, as much as nobody misses."""
    if device.type == "cpu":
        return 1 << 50, 1 << 50
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return int(free_bytes), int(total_bytes)


def _is_memory_short(broken: BrokenWorker) -> bool:
    """Whether a worker, as it says, ran out of the card's memory while it was judged."""
    return any(words in broken.detail.lower() for words in CARD_OUT_OF_MEMORY)


def _same_bytes(a: Tensor, b: Tensor) -> bool:
    """The judge on a card: whether two contiguous tensors of one type and size hold the same bytes."""
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return bool(torch.equal(a.reshape(-1).view(words), b.reshape(-1).view(words)))


@dataclass(frozen=True, kw_only=True)
class DeviceSealed:
    """What one call left, copied before the worker could do anything else."""

    outputs: dict[str, Tensor]
    """In the task's types; inputs that the kernel may write among them."""
    wall_us: float
    """The judge's clock from letting the worker run until the copies were made."""
    called_us: float
    """The judge's clock until the worker's answer."""
    claimed_us: float
    """What the worker says that the call took. No evidence."""
    stop_us: float = 0.0
    """From the answer until the worker stood still: until then it may work."""
    changed_late: tuple[str, ...] = ()
    """Outputs that went on changing."""
    inputs_changed: tuple[str, ...] = ()
    guards_broken: tuple[str, ...] = ()


class DeviceSession(Session):
    """One candidate in one fresh process, its arrays in segments. A context manager; nothing runs before `open`."""

    def __init__(
        self,
        task: Task,
        sources: Path,
        *,
        memory: SegmentMemory,
        chance: Chance,
        device: Device,
        surroundings: Surroundings = HERE,
        cpu: int | None = None,
    ) -> None:
        super().__init__(task, sources, device=device, surroundings=surroundings, cpu=cpu)
        self.framework = "torch"
        self._memory, self._chance = memory, chance
        self._sizes: dict[tuple[tuple[str, int], ...], tuple[int, DeviceBuffers]] = {}
        self.placements = PLACEMENTS
        """Address ranges of each size, 1 or 2: set before `open` where memory is short."""
        self.compiled = b""
        """What an earlier process of this version had compiled; set before `open`."""
        self._flush: Tensor | None = None
        self.lane = "eager"
        """`graph`: calls are replays of what `capture` made."""
        self._chain: DeviceBuffers | None = None
        """Arrays of calls in a row."""

    def pin(self, core: int | None) -> None:
        """The judge on a card: start on that core alone; before `open`."""
        self._cpu = core

    def call_device(
        self,
        dims: Mapping[str, int],
        inputs: Tensors,
        *,
        placement: int,
        decoy: Tensors | None,
        look: bool = True,
        late: bool = False,
        into: Tensors | None = None,
        timeout_s: float = 60,
    ) -> DeviceSealed | BrokenWorker:
        """One judged call. `decoy`: a right answer to other inputs, for outputs to hold before. `look`: at inputs and
        guard bands. `late`: see whether outputs go on changing. `into`: where outputs are copied."""
        try:
            slot, buffers = self._buffers(dims)
            placement %= self.placements
            kind = POISON_KINDS[int(self._chance.places.integers(3 if decoy is not None else 2))]
            buffers.write(inputs, placement)
            buffers.poison(kind, decoy, placement)
            self._sync()
            self._leave_room(dims)
            if self._task.cache == "cold":
                self._empty_cache()  # here: what a worker does for it, its candidate could leave out
            frame = Frame(CALL, os.urandom(NONCE_BYTES), slot, placement, text=self.lane)
            answer, wall_us = self._running.exchange(frame, DONE, timeout_s=timeout_s)
            stop_us = self._running.wait_stopped().stop_us
            began = time.perf_counter_ns()
            outputs = buffers.outputs(placement, into)
            self._sync()
            sealed_us = stop_us + (time.perf_counter_ns() - began) / 1e3
            if late:
                time.sleep(LATE_S)
            return DeviceSealed(
                outputs=outputs,
                wall_us=wall_us + sealed_us,
                called_us=wall_us,
                stop_us=stop_us,
                claimed_us=answer.claim_ns / 1e3,
                changed_late=buffers.list_changed_outputs(outputs, placement) if late or look else (),
                inputs_changed=buffers.list_changed_inputs(inputs, placement) if look else (),
                guards_broken=buffers.list_broken_guards(placement) if look else (),
            )
        except WorkerLost as lost:
            return self._break(lost)

    def _empty_cache(self) -> None:
        """The judge on a card: fill the card's last cache with what is nobody's; all its processes share it."""
        if self._chance.device.type == "cpu":
            return
        if self._flush is None:
            size = 2 * int(torch.cuda.get_device_properties(0).L2_cache_size)
            self._flush = torch.empty(size, dtype=torch.uint8, device=self._chance.device)
        self._flush.fill_(int(self._chance.places.integers(256)))
        self._sync()

    def capture_device(self, dims: Mapping[str, int]) -> str | BrokenWorker:
        """The judge on a card: have one call at each placement made into a graph: `graph` and its nodes, or `eager` and why not."""
        lane = "eager"
        try:
            slot, _ = self._buffers(dims)
            self._leave_room(dims)
            for placement in range(self.placements):
                frame = Frame(CAPTURE, os.urandom(NONCE_BYTES), slot, placement)
                lane = self._running.tell(frame, (), CAPTURED).text
                if not lane.startswith("graph"):
                    break
        except WorkerLost as lost:
            return self._break(lost)
        return lane

    def open_chain(self, dims: Mapping[str, int], inputs: Sequence[Tensors]) -> str | BrokenWorker:
        """The judge on a card: arrays for as many calls in a row, with these values first: `graph` and its nodes, or `eager` and why not.

        Raises WorldError where there is not that much memory.
        """
        try:
            self.close_chain()
            buffers = self._chain = DeviceBuffers(self._memory, self._task, dims, self._chance, len(inputs))
            for placement, values in enumerate(inputs):
                buffers.write(values, placement)
            self._sync()
            self._running.bind(CHAIN_SLOT, buffers.segment.descriptor, buffers.layout())
            if self.lane != "graph":
                return self.lane
            frame = Frame(CAPTURE, os.urandom(NONCE_BYTES), CHAIN_SLOT, len(inputs), text=CHAIN)
            return self._running.tell(frame, (), CAPTURED).text
        except WorkerLost as lost:
            return self._break(lost)

    def call_chain(
        self, inputs: Sequence[Tensors], *, decoy: Tensors | None, times: int = 1, timeout_s: float = 60
    ) -> list[DeviceSealed] | BrokenWorker:
        """The judge on a card: calls in a row, each with values of its own, after `open_chain`, so many times without a pause: what
        each left; times are those of one."""
        buffers, count = self._chain, len(inputs)
        assert buffers is not None
        kind = POISON_KINDS[int(self._chance.places.integers(3 if decoy is not None else 2))]
        try:
            for placement, values in enumerate(inputs):
                buffers.write(values, placement)
                buffers.poison(kind, decoy, placement)
            self._sync()
            if self._task.cache == "cold":
                self._empty_cache()
            frame = Frame(CALL, os.urandom(NONCE_BYTES), CHAIN_SLOT, count, text=f"{CHAIN} {times}")
            answer, wall_us = self._running.exchange(frame, DONE, timeout_s=timeout_s * count * times)
            stop_us = self._running.wait_stopped().stop_us
            began = time.perf_counter_ns()
            outputs = [buffers.outputs(placement) for placement in range(count)]
            self._sync()
            sealed_us = stop_us + (time.perf_counter_ns() - began) / 1e3
            return [
                DeviceSealed(
                    outputs=each,
                    wall_us=(wall_us + sealed_us) / (count * times),
                    called_us=wall_us / (count * times),
                    stop_us=stop_us,
                    claimed_us=answer.claim_ns / 1e3 / (count * times),
                    changed_late=buffers.list_changed_outputs(each, placement),
                    inputs_changed=buffers.list_changed_inputs(values, placement),
                    guards_broken=buffers.list_broken_guards(placement),
                )
                for placement, (each, values) in enumerate(zip(outputs, inputs, strict=True))
            ]
        except WorkerLost as lost:
            return self._break(lost)

    def close_chain(self) -> None:
        """The judge on a card: give the arrays of calls in a row back; the worker has its end until it gets others, or ends."""
        if self._chain is not None:
            self._chain.close()
            self._chain = None

    def call(
        self,
        dims: Mapping[str, int],
        inputs: Mapping[str, NDArray[np.generic]],
        *,
        placement: int = 0,
        poison: Mapping[str, NDArray[np.generic]] | None = None,
        timeout_s: float = 60,
    ) -> SealedCall | BrokenWorker:
        """The same with arrays in the judge's storage types, for what looks at few calls. `poison` is not used."""
        dtype_of = self._task.dtype_of
        tensors = {
            name: from_storage(array, dtype_of(name), self._chance.device.type) for name, array in inputs.items()
        }
        sealed = self.call_device(dims, tensors, placement=placement, decoy=None, timeout_s=timeout_s)
        if isinstance(sealed, BrokenWorker):
            return sealed
        return SealedCall(
            outputs={name: to_storage(tensor, dtype_of(name)) for name, tensor in sealed.outputs.items()},
            wall_us=sealed.wall_us,
            claimed_us=sealed.claimed_us,
            inputs_changed=sealed.inputs_changed,
            guards_broken=sealed.guards_broken,
        )

    def pack_compiled(self) -> bytes | BrokenWorker:
        """The judge on a card: what it has compiled so far, for `compiled` of later processes."""
        try:
            return self._running.pack()
        except WorkerLost as lost:
            return self._break(lost)

    def find_overwritten(self, dims: Mapping[str, int]) -> tuple[str, ...]:
        """The judge on a card: arrays of that size beside which memory was overwritten since it was last looked at, at either placement."""
        if self._worker is None or self._broken is not None:
            return ()
        _, buffers = self._buffers(dims)
        return tuple(name for placement in range(self.placements) for name in buffers.list_broken_guards(placement))

    def open(self) -> BrokenWorker | None:
        """The judge on a card: as every session; once more where it ran out of the card's memory though there is enough now.

        Then somebody else had it: a version that takes too much of it itself does so again.
        """
        broken = super().open()
        if broken is None or not _is_memory_short(broken):
            return broken
        self.close()
        self._broken = None
        return super().open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises CardHoarded in place of an error for want of memory, where this version's process had most of the card's."""
        short = isinstance(error, CardShort) or any(words in str(error).lower() for words in CARD_OUT_OF_MEMORY)
        short = short and not isinstance(error, CardHoarded)
        if not short or self._worker is None:
            return super().__exit__(kind, error, trace)
        before_bytes, total_bytes = read_card_memory(self._chance.device)
        due_bytes = CONTEXT_BYTES + sum(
            buffers.segment.size + OWN_ARRAYS * array_bytes(self._task, buffers.dims)
            for _, buffers in self._sizes.values()
        )
        super().__exit__(kind, error, trace)
        after_bytes, _ = read_card_memory(self._chance.device)
        held_bytes = after_bytes - before_bytes
        if held_bytes - due_bytes > HOARD_SHARE * total_bytes:
            raise CardHoarded(self._sources, held_bytes, total_bytes, str(error)) from error
        return None

    def close(self) -> None:
        """The judge on a card: end the worker and everything it started, then give the segments back."""
        super().close()
        self.close_chain()
        for _, buffers in self._sizes.values():
            buffers.close()
        self._sizes.clear()

    def _buffers(self, dims: Mapping[str, int]) -> tuple[int, DeviceBuffers]:
        """The judge on a card: the arrays of that size, and their number in the worker. Only the size used last is kept."""
        key = tuple(sorted(dims.items()))
        if key not in self._sizes:
            for _, buffers in self._sizes.values():
                buffers.close()
            self._sizes.clear()
            buffers = DeviceBuffers(self._memory, self._task, dims, self._chance, self.placements)
            self._sizes[key] = (0, buffers)
            self._sync()
            self._running.bind(0, buffers.segment.descriptor, buffers.layout())
        return self._sizes[key]

    def _leave_room(self, dims: Mapping[str, int]) -> None:
        """The judge on a card: give back what this process only keeps for later, where the worker's own arrays could need it."""
        if self._chance.device.type == "cpu":
            return
        free_bytes, _ = read_card_memory(self._chance.device)
        if free_bytes < OWN_ARRAYS * array_bytes(self._task, dims):
            torch.cuda.empty_cache()

    def _break(self, loss: WorkerLost) -> BrokenWorker:
        """The judge on a card: raises CardShort where a card's memory was short of what one call's own arrays take: that is no verdict."""
        broken = super()._break(loss)
        if not _is_memory_short(broken):
            return broken
        torch.cuda.empty_cache()
        free_bytes, _ = read_card_memory(self._chance.device)
        needed = max((array_bytes(self._task, buffers.dims) for _, buffers in self._sizes.values()), default=0)
        if free_bytes < needed + CONTEXT_BYTES:
            raise CardShort(
                f"a version ran out of the card's memory while only {free_bytes / 1e9:.2f} GB of it were free; "
                "free the card, or declare a smaller size"
            )
        return broken

    def _sync(self) -> None:
        if self._chance.device.type != "cpu":
            torch.cuda.synchronize()

    def _loading(self) -> LoadRequest:
        loading = super()._loading()
        return LoadRequest(**{**vars(loading), "segments": True, "compiled": self.compiled})


class CardShort(WorldError):
    """The card has too little free memory to judge; the text has the number."""


class CardHoarded(CardShort):
    """A version's own process had most of the card's memory when it ran short."""

    def __init__(self, sources: Path, held_bytes: int, total_bytes: int, text: str) -> None:
        self.sources = sources
        self.detail = (
            f"memory: its process held {held_bytes / 1e9:.1f} of the card's {total_bytes / 1e9:.1f} GB, "
            "and left judging too little"
        )
        super().__init__(f"{self.detail}: {text}")


class SizeTooLarge(WorldError):
    """A size that cannot be judged on this card; the text has the numbers."""

    exit_code = 2


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """What judging a process pair of one size takes of a card, in bytes, known before anything is started."""

    placements: int
    segments: int
    """Both workers' arrays, and what their processes take of a card before they have any."""
    private: int
    """Inputs, both sides' outputs and a decoy, which no worker sees."""
    spare: int
    """For the candidates' own arrays: twice what one call's take, for each of both; half or a quarter where no more is left."""
    oracle: int
    """At least, for what is right and for comparing; more makes it faster."""

    @property
    def total(self) -> int:
        """The judge on a card: all of it together."""
        return self.segments + self.private + self.spare + self.oracle

    def __str__(self) -> str:
        parts = ("segments", "private", "spare", "oracle")
        return f"{self.total / 1e9:.2f} GB ({', '.join(f'{getattr(self, each) / 1e9:.2f} {each}' for each in parts)})"


def plan_memory(task: Task, dims: Mapping[str, int], *, oracle_bytes: int, free_bytes: int) -> MemoryPlan:
    """The judge on a card: the plan with two address ranges for each side, or with one, and with room for the candidates' own arrays.

    A kernel with temporaries as large as its arrays takes that much for a call, and as much again for its graph.

    Raises SizeTooLarge where the least of these is too much.
    """
    specs = buffer_specs(task, dims)
    inputs = sum(spec.nbytes for spec in specs if spec.constness is not None)
    judged = sum(spec.nbytes for spec in specs if spec.judged)
    call = sum(spec.nbytes for spec in specs)
    for placements, times in (*((count, OWN_ARRAYS) for count in range(PLACEMENTS, 0, -1)), (1, 2), (1, 1)):
        array = _end_of(specs, lay_out(specs)[0][placements - 1])
        plan = MemoryPlan(
            placements=placements,
            segments=2 * (array + CONTEXT_BYTES),
            private=inputs + 3 * judged,
            spare=times * call,
            oracle=oracle_bytes,
        )
        if plan.total <= free_bytes:
            return plan
    raise SizeTooLarge(
        f"{dict(dims)}: judging it takes {plan} of the card's memory, and {free_bytes / 1e9:.2f} GB are free; "
        "declare a smaller size, or free the card"
    )


def _end_of(specs: Sequence[BufferSpec], places: Mapping[str, int]) -> int:
    """The judge on a card: where the last guard band of a placement ends."""
    return max(band.offset + band.length for band in guard_bands(specs, places))


def array_bytes(task: Task, dims: Mapping[str, int]) -> int:
    """The judge on a card: of the inputs and outputs of one call."""
    return sum(spec.nbytes for spec in buffer_specs(task, dims))


# What was compiled for a version, made by one process before anything is judged and given to all that come after.
#
# A process that compiles its kernels anew takes seconds, and one that finds what another left could read there what
# that one saw. So one process makes ordinary calls of every declared size, what it compiled is packed, and every later
# process of the version starts with that and nothing else. Later commands start with the same pack: a folder of this
# user's keeps it, where no candidate can write.

MOST_PACKS, MOST_PACKED_BYTES = 64, 1 << 29
"""Kept in the folder; those that were used longest ago go."""


@dataclass(frozen=True, kw_only=True)
class PackFolder:
    """What versions had compiled in earlier commands, a file each, named by all that decides what is compiled."""

    folder: Path | None
    """None where this user has no place for it: nothing is kept then."""
    place: str
    """The task, and where its versions run."""

    def read(self, version: str) -> bytes:
        """The judge on a card: the pack; nothing where there is none."""
        path = self._path(version)
        if path is None:
            return b""
        try:
            packed = path.read_bytes()
            os.utime(path)
        except OSError:
            return b""
        return packed

    def write(self, version: str, packed: bytes) -> None:
        """The judge on a card: keep it. A file system that cannot take it is no error: it is only made again next time."""
        path = self._path(version)
        if path is None or not packed:
            return
        with suppress(WorldError, OSError):
            write_whole(path, packed, synced=False)
            packs = sorted(
                ((each.stat(), each) for each in path.parent.glob("*.pack")), key=lambda pack: -pack[0].st_mtime
            )
            total = 0
            for number, (facts, each) in enumerate(packs):
                total += facts.st_size
                if number and (number >= MOST_PACKS or total > MOST_PACKED_BYTES):
                    each.unlink(missing_ok=True)

    def _path(self, version: str) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{hashlib.sha256(json.dumps([self.place, version]).encode()).hexdigest()}.pack"


@dataclass(kw_only=True)
class CompiledCode:
    """By version, as `Worker.pack` gives it."""

    task: Task
    chance: Chance
    files: PackFolder = field(default_factory=lambda: PackFolder(folder=None, place=""))
    _packed: dict[str, bytes] = field(default_factory=dict)

    def opener(self, version: str, opened: Callable[[], DeviceSession]) -> Callable[[], DeviceSession]:
        """The judge on a card: fresh workers of that version that start with what it had compiled; made by the first one asked for.

        `version` names the sources, for example by their digest.
        """

        def open_warm() -> DeviceSession:
            if version not in self._packed:
                self.compile(version, opened)
            session = opened()
            session.compiled = self._packed[version]
            return session

        return open_warm

    def compile(self, version: str, opened: Callable[[], DeviceSession], *, call_s: float = 60) -> BrokenWorker | None:
        """The judge on a card: have that version compile in a process of its own, unless it did already; what broke it, if anything.

        A broken version, or one that compiled more than is kept, has nothing for its later processes: each compiles anew,
        and its judgement says what is wrong.
        """
        packed: bytes | BrokenWorker = self._packed.get(version) or self.files.read(version)
        if not packed:
            packed = self._pack(opened, call_s)
            self.files.write(version, b"" if isinstance(packed, BrokenWorker) else packed)
        self._packed[version] = b"" if isinstance(packed, BrokenWorker) else packed
        return packed if isinstance(packed, BrokenWorker) else None

    def _pack(self, opened: Callable[[], DeviceSession], call_s: float) -> bytes | BrokenWorker:
        """What a process has compiled after calls of every declared size."""
        with opened() as session:
            if broken := session.open():
                return broken
            for shape in (*self.task.timed, *(each for each in self.task.shapes if not each.timed)):
                inputs = draw(self.task, shape.dims, MIXES[0], self.chance)
                for placement in range(PLACEMENTS):
                    sealed = session.call_device(
                        shape.dims, inputs, placement=placement, decoy=None, look=False, timeout_s=call_s
                    )
                    if isinstance(sealed, BrokenWorker):
                        return sealed
            return session.pack_compiled()
