"""A worker as the judge uses it: values in, sealed bytes out, and the judge's own time between.

On a processor what a call returned is read out of the stopped worker (`read_result`); how long it took to stand still is
told beside its time; and `lock` keeps it from starting processes.
"""

import ast
import contextlib
import dataclasses
import json
import math
import mmap
import os
import random
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import DType, Task
from ridgeline.sandbox.harness.judge_frames import (
    CALL,
    CAPTURE,
    CAPTURED,
    DONE,
    NONCE_BYTES,
    PING,
    PONG,
    PROVE,
    PROVED,
    STOCK,
    STOCKED,
    Frame,
)
from ridgeline.sandbox.isolation.workers import Isolation, WorkerLimits, machine_isolation
from ridgeline.sandbox.judge.dtypes import to_float64
from ridgeline.sandbox.judge.options import HERE, Surroundings
from ridgeline.sandbox.judge.pool import RowPlace
from ridgeline.sandbox.judge.shared_buffers import (
    PAGE,
    PLACEMENTS,
    BufferSpec,
    CardSharedBuffers,
    SharedBuffers,
    SharedBuffersCache,
    budget_bytes,
)
from ridgeline.sandbox.judge.worker import (
    Device,
    Framework,
    LoadRequest,
    LossReason,
    Memory,
    Worker,
    WorkerLost,
    WorkerMode,
)

LARGE_BYTES = 1 << 18
"""Bytes of outputs from which on the worker must stand still before they are copied: fewer are copied faster."""

PING_S = 10.0
PINGS = 21
"""Empty calls before a size is timed."""

MIB = 1 << 20

TORCH_MB = 8192
"""Address space that importing PyTorch and its threads' stacks takes, most of which is never touched."""

TORCH_FILE_MB = 1024

TORCH = ("triton", "cuda", "hip", "flydsl", "cutedsl")
"""Languages whose arrays are tensors, whatever the sources import."""


@dataclass(frozen=True, kw_only=True)
class SealedCall:
    """What one call left, copied before the worker could do anything else."""

    outputs: dict[str, NDArray[np.generic]]
    """In storage types; inputs that the kernel may write among them."""
    late: dict[str, NDArray[np.generic]] | None = None
    """The same read again after everything on the device had ended; None where nothing can come later."""
    wall_us: float
    """The judge's clock from sending the frame to reading the answer; an empty call's time is in it."""
    stop_us: float = 0.0
    """From the answer until the worker stood still, where nothing was copied before that: until then it may work."""
    own_us: float | None = None
    """The same without waits for a core that others had (`CallTime.own_us`); None where it is not known."""
    others_us: float | None = None
    """For how long others had the core meanwhile (`CallTime.others_us`); None where it is not known."""
    claimed_us: float | None = None
    """What the worker says that the call took. No evidence."""
    inputs_changed: tuple[str, ...] = ()
    """Inputs whose bytes differ after the call though the task does not allow it."""
    guards_broken: tuple[str, ...] = ()
    """Arrays beside which memory was overwritten."""


@dataclass(frozen=True, kw_only=True)
class BrokenWorker:
    """Why there is no session or no answer; never a pass."""

    reason: LossReason
    detail: str


class Session:
    """One candidate in one fresh process. A context manager; nothing runs before `open`.

    The worker stands still whenever no call is under way: while inputs are written, and while outputs are copied.
    """

    def __init__(
        self,
        task: Task,
        sources: Path,
        *,
        limits: WorkerLimits | None = None,
        device: Device = "cpu",
        cpu: int | None = None,
        surroundings: Surroundings = HERE,
    ) -> None:
        """`sources` is a frozen copy of the candidate's files; `cpu` the one processor that it starts on."""
        self.framework: Framework = framework_of(task, sources, device)
        """Of the arrays that a Python candidate gets; may be set before `open`, for example to the reference's."""
        self.mode: WorkerMode = "plain"
        """Set before `open`; only a plain session is ever timed."""
        self.lock_first = False
        """Set before `open`: a worker in C is locked before it loads, and others' time on its core is taken off."""
        self.settle_us: int | None = None
        """When set, outputs are copied a second time after the worker ran on for so long: `SealedCall.late`."""
        self.look_share = 1.0
        """Of calls after which inputs and guard bands are looked at, by a coin that falls when the outputs are sealed.
        Damage to bands stays until it is seen: `hurt` sees what is left."""
        self._coin = random.Random(os.urandom(32))
        self._task, self._sources = task, sources
        self._limits = limits or WorkerLimits()
        self._device: Device = device
        self._cpu = cpu
        self._core: int | None = None
        """That both keep to while a call is under way."""
        self._surroundings = surroundings
        self._worker: Worker | None = None
        self._arenas = SharedBuffersCache(task, card=device != "cpu")
        self._broken: BrokenWorker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> BrokenWorker | None:
        """For the judge: build, start and load: everything before the first call. Raises WorldError where the machine lacks something.

        A candidate that does not compile, load or import is `BrokenWorker`.
        """
        self._surroundings.check_time()
        try:
            self._worker = Worker(self._loading())
            self._worker.start()
        except WorkerLost as lost:
            return self._break(lost if lost.reason != "crash" else WorkerLost("load", f"while loading: {lost.detail}"))
        return None

    def call(
        self,
        dims: Mapping[str, int],
        inputs: Mapping[str, NDArray[np.generic]],
        *,
        placement: int = 0,
        poison: Mapping[str, NDArray[np.generic]] | None = None,
        timeout_s: float = 60,
    ) -> SealedCall | BrokenWorker:
        """One judged call. Arrays have storage types; `poison` is what the outputs hold before, else random bytes.

        Placements 0 and 1 are two address ranges: the same size at the same placement means the same array objects
        in the worker. After a `BrokenWorker` every further call is the same `BrokenWorker`. Raises ValueError for arrays that are
        not what the task says.
        """
        try:
            slot, arena = self._bind(dims)
            with self._on_core():
                arena.write(inputs, placement)
                arena.poison(poison, placement)
                frame = Frame(CALL, os.urandom(NONCE_BYTES), slot, placement)
                answer, _ = self._running.exchange(frame, DONE, timeout_s=timeout_s)
                return self._seal(slot, arena, inputs, placement, answer)
        except WorkerLost as lost:
            return self._break(lost)

    def ping(self) -> float:
        """For the judge: time of an empty call in us, same frames, same clock. nan for a broken worker: the next call says why."""
        try:
            with self._on_core():
                self._running.exchange(Frame(PING, os.urandom(NONCE_BYTES)), PONG, timeout_s=PING_S)
                stop = self._running.wait_stopped()
        except WorkerLost as lost:
            self._break(lost)
            return math.nan
        return stop.wall_us if stop.own_us is None else stop.own_us

    def ping_often(self) -> list[float]:
        """For the judge: times of `PINGS` empty calls, in us. Every kind of process is asked for them: they tell none from another."""
        return [self.ping() for _ in range(PINGS)]

    def lock(self) -> BrokenWorker | None:
        """For the judge: from here on the worker can start no process and no program. Threads it can."""
        try:
            self._running.lock()
        except WorkerLost as lost:
            return self._break(lost)
        return None

    def keep_to_core(self, core: int) -> bool:
        """For the judge: from here on the worker runs on that core alone, and this thread while it calls it: whether that is permitted.

        They take turns: nothing then sleeps that must be woken on another core, which takes longer than a short call. What
        this thread does between calls, and starts, keeps to nothing. Where it is not permitted, neither does a call.
        """
        cores = os.sched_getaffinity(0)
        worker = self._worker
        if worker is None or self._broken is not None or core not in cores:
            return False
        self._core = core if worker.keep_to({core}, spin=False) else None
        if self._core is None:
            self.leave_core()
        return self._core is not None

    def leave_core(self) -> None:
        """For the judge: worker and calls keep to no core of their own any more."""
        self._core = None
        if self._worker is not None and self._broken is None:
            cores = os.sched_getaffinity(0)
            self._worker.keep_to(cores, spin=len(cores) > self._task.threads)

    def find_overwritten(self, dims: Mapping[str, int]) -> tuple[str, ...]:
        """For the judge: arrays of that size beside which memory was overwritten since it was last looked at, at either placement."""
        if self._worker is None or self._broken is not None:
            return ()
        _, arena = self._bind(dims)
        return tuple(
            dict.fromkeys(
                name
                for placement in range(PLACEMENTS)
                for name in arena.list_broken_guards(placement, whole_bands=True)
            )
        )

    def report(self) -> bytes | BrokenWorker:
        """For the judge: what a worker in mode `trace` has noted so far: a claim of the candidate's process."""
        try:
            return self._running.report()
        except WorkerLost as lost:
            return self._break(lost)

    def threads(self) -> int | None:
        """For the judge: threads of the worker now, as the kernel counts them; None when it has ended."""
        return self._worker.freezer.threads() if self._worker is not None and self._broken is None else None

    def processes(self) -> int | None:
        """For the judge: processes beside the worker's own that came since it started, now; None where they cannot be told apart.

        Unlike the worker's threads they do run between calls, so an honest time wants none. Takes a millisecond.
        """
        siblings = self._worker.freezer.list_siblings() if self._worker is not None and self._broken is None else None
        return None if siblings is None else len(siblings)

    @property
    def isolation(self) -> Isolation:
        """For the judge: how well workers are shut in on this machine."""
        return machine_isolation()

    @staticmethod
    def isolation_level() -> str:
        """For the judge: `namespaces` or `weak`, of every session on this machine."""
        return machine_isolation().level

    @property
    def can_freeze(self) -> bool:
        """For the judge: whether the worker really stands still between calls; False where this process may not stop it."""
        return self._worker is not None and self._broken is None and self._worker.freezer.works

    def close(self) -> None:
        """For the judge: end the worker and everything it started."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._arenas.close()

    @contextlib.contextmanager
    def _on_core(self) -> Iterator[None]:
        """For the judge: this thread on the worker's core for the block, where it keeps to one; afterwards where it might be before."""
        if self._core is None:
            yield
            return
        before = os.sched_getaffinity(0)
        with contextlib.suppress(OSError):  # a core may be taken away from us meanwhile
            os.sched_setaffinity(0, {self._core})
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, before)

    @property
    def _running(self) -> Worker:
        """The worker. Raises WorkerLost where it is lost, JudgeTimeout where the judgement's time is over."""
        self._surroundings.check_time()
        if self._broken is not None:
            raise WorkerLost(self._broken.reason, self._broken.detail)
        if self._worker is None:
            raise RuntimeError("the session is not open")
        return self._worker

    def _bind(self, dims: Mapping[str, int]) -> tuple[int, SharedBuffers]:
        """The judge's arena of that size, and its number in the worker."""
        worker = self._running
        slot, arena, new = self._arenas.open_size(dims)
        if new:
            worker.bind(slot, arena.descriptor, arena.layout())
        return slot, arena

    def _seal(
        self,
        slot: int,
        arena: SharedBuffers,
        inputs: Mapping[str, NDArray[np.generic]],
        placement: int,
        answer: Frame,
    ) -> SealedCall:
        """Copies the judged call's arrays first, checks later."""
        worker, returned = self._running, self._reads_results
        large = returned or arena.judged_bytes > LARGE_BYTES
        stop = worker.wait_stopped() if large else None
        outputs = arena.outputs(placement)
        if returned and answer.text:
            outputs |= self._read_results(arena, answer.text)
        changed, broken = self._check_memory(arena, inputs, placement)
        stop_us = 0.0 if stop is None else stop.stop_us
        if stop is None:
            stop = worker.wait_stopped()  # what was copied and looked at meanwhile cannot become an answer any more
        late = arena.second_copies() if isinstance(arena, CardSharedBuffers) else self._copy_late(arena, placement)
        if returned:
            worker.release(slot, placement)
        return SealedCall(
            outputs=outputs,
            late=late,
            wall_us=stop.wall_us,
            own_us=stop.own_us,
            others_us=stop.others_us,
            stop_us=stop_us,
            claimed_us=answer.claim_ns / 1e3,
            inputs_changed=changed,
            guards_broken=broken,
        )

    @property
    def _reads_results(self) -> bool:
        """For the judge: whether results lie in the worker's own memory after a call, and are read there."""
        returns = self._task.convention == "return" and self._device == "cpu" and self.mode != "trace"
        return returns and self._running.memory.readable

    def _read_results(self, arena: SharedBuffers, words: str) -> dict[str, NDArray[np.generic]]:
        """For the judge: what the worker returned, by the places that it told with its answer. Raises WorkerLost."""
        rooms = [room for room in arena.rooms if room.constness is None]
        places = words.split(";")
        if len(places) != len(rooms):
            return {}  # `release` says what is wrong
        memory = self._running.memory
        results = {room.name: read_result(memory, place, room) for room, place in zip(rooms, places, strict=True)}
        if self.look_share == 1 or self._coin.random() < self.look_share:
            for room, place in zip(rooms, places, strict=True):
                _check_own_memory(memory, place, room, arena)
        return results

    def _check_memory(
        self, arena: SharedBuffers, inputs: Mapping[str, NDArray[np.generic]], placement: int
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """For the judge: inputs that a worker's call changed, and arrays beside which it wrote."""
        if self.look_share < 1 and self._coin.random() >= self.look_share:
            return (), ()
        return arena.list_changed_inputs(inputs, placement), arena.list_broken_guards(placement)

    def _copy_late(self, arena: SharedBuffers, placement: int) -> dict[str, NDArray[np.generic]] | None:
        if self.settle_us is None:
            return None
        freezer = self._running.freezer
        freezer.resume()
        time.sleep(self.settle_us / 1e6)
        freezer.stop()
        freezer.wait_stopped()
        return arena.outputs(placement)

    def _break(self, loss: WorkerLost) -> BrokenWorker:
        if self._broken is None:
            why = self._worker.explain_loss(loss) if self._worker is not None else loss
            self._broken = BrokenWorker(reason=why.reason, detail=why.detail)
        return self._broken

    def _loading(self) -> LoadRequest:
        return LoadRequest(
            task=self._task,
            sources=self._sources,
            framework=self.framework,
            device=self._device,
            cpu=self._cpu,
            limits=self._enough(),
            environment=self._surroundings.environment,
            mode=self.mode,
            lock_first=self.lock_first,
        )

    def _enough(self) -> WorkerLimits:
        """For the judge: the limits with room for the arenas, which the worker maps but does not own, and for PyTorch."""
        extra = 2 * budget_bytes(self._task) // MIB + (TORCH_MB if self.framework == "torch" else 0)
        # a precompiled header of PyTorch's, which `torch.compile` makes, has some hundred MiB
        file_mb = max(self._limits.file_mb, TORCH_FILE_MB) if self.framework == "torch" else self._limits.file_mb
        return dataclasses.replace(self._limits, memory_mb=self._limits.memory_mb + extra, file_mb=file_mb)


def keep_to_one_core(task: Task, sessions: Collection[Session]) -> bool:
    """For the judge: workers of a task of one thread, and the judge while it calls them, on the core that it is on: all, or none.

    Says whether they are. Of several judges on a machine each is on a core that the kernel chose for it.
    """
    core = find_core()
    if task.threads != 1 or core is None:
        return False
    if all(session.keep_to_core(core) for session in sessions):
        return True
    for session in sessions:
        session.leave_core()
    return False


PROCESSOR = 36
"""Field of /proc/PID/stat, counted behind the name: the core that it is on."""


def find_core() -> int | None:
    """The core that the judge's thread is on; None where the kernel does not say."""
    try:
        return int(Path("/proc/thread-self/stat").read_bytes().rpartition(b") ")[2].split()[PROCESSOR])
    except (OSError, ValueError, IndexError):
        return None


MOST_GAPS = 4
"""A returned array may lie in so many times the memory that its elements need."""


def read_result(memory: Memory, place: str, room: BufferSpec) -> NDArray[np.generic]:
    """A copy of an array of the worker's that is such as `room` says. `place`: its address, and strides in bytes where
    it is not contiguous, in hexadecimals. Raises WorkerLost, `output`, for no such array."""
    try:
        address, *strides = (int(word, 16) for word in place.split(":"))
    except ValueError:
        raise WorkerLost("protocol", f"{room.name}: no place of a result") from None
    if room.nbytes == 0:
        return np.empty(room.shape, room.storage)
    span = room.nbytes
    if strides:
        if len(strides) != len(room.shape):
            return np.empty(room.shape, room.storage)  # `release` says that its shape is another
        span = _span_bytes(room, strides)
    raw = np.empty(span, np.uint8)
    memory.read_into(raw.data, address)
    if not strides:
        return raw.view(room.storage).reshape(room.shape)
    return np.ascontiguousarray(np.ndarray(room.shape, room.storage, raw.data, strides=strides))


def _span_bytes(room: BufferSpec, strides: Sequence[int]) -> int:
    """For the judge: bytes from the first element to behind the last. Raises WorkerLost where elements share memory, or lie far apart."""
    axes = sorted((stride, extent) for stride, extent in zip(strides, room.shape, strict=True) if extent > 1)
    least, span = room.storage.itemsize, room.storage.itemsize
    for stride, extent in axes:
        if stride < least:
            raise WorkerLost(
                "output",
                f"{room.name}: an array that is not contiguous: its elements share memory or run backwards; return a copy of it",
            )
        least = stride * extent
        span += stride * (extent - 1)
    if span > MOST_GAPS * room.nbytes + PAGE:
        raise WorkerLost(
            "output", f"{room.name}: an array that is not contiguous, with large gaps; return a copy of it"
        )
    return span


def _check_own_memory(memory: Memory, place: str, room: BufferSpec, arena: SharedBuffers) -> None:
    """For the judge: raises WorkerLost where a result lies in memory of an input, at the input's address or mapped at another."""
    address, *strides = (int(word, 16) for word in place.split(":"))
    span = _span_bytes(room, strides) if len(strides) == len(room.shape) else room.nbytes
    for start, end in memory.list_parts_of_file(arena.descriptor, address, span):
        for other in (other for other in arena.rooms if other.constness not in (None, "mutated")):
            if any(start < places[other.name] + other.nbytes and places[other.name] < end for places in arena.offsets):
                detail = f"{room.name}: the memory of the input {other.name}, not an array of its own"
                raise WorkerLost("output", detail)


def framework_of(task: Task, sources: Path, device: Device = "cpu") -> Framework:
    """For the judge: PyTorch where the language, the device or an import of the sources asks for it, else NumPy."""
    if task.language in TORCH or device != "cpu":
        return "torch"
    return "torch" if any(_imports_torch(sources / name) for name in task.source if name.endswith(".py")) else "numpy"


def _imports_torch(path: Path) -> bool:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return False  # the worker says so in its own words
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return any(name.split(".")[0] == "torch" for name in imported)


# A worker on a card as timing uses it: values lie there already, each call names secret places, sums come back.

Array = NDArray[np.generic]

ALIGNED = 512

FETCH_S = 60.0


@dataclass(frozen=True, kw_only=True)
class CardDraw:
    """What one timed call is given, by places in what lies on the card; the same for both sides."""

    inputs: Mapping[str, RowPlace]
    const: Sequence[str]
    rings: Mapping[str, tuple[int, int]]
    """Of whole numbers: the least, and the first that is too large."""
    poison: Mapping[str, tuple[str, int]]
    decoy: int
    """Version of the decoys."""
    cold: bool
    graph: bool


@dataclass(frozen=True, kw_only=True)
class OutputSums:
    """What the worker says of one output."""

    sums: NDArray[np.float64]
    same: bool
    """Whether it was the same when everything on the device had ended."""
    bits: tuple[int, int]
    """Of some elements, at once and at the end."""


@dataclass(frozen=True, kw_only=True)
class OutputProof:
    """What the worker says of all outputs, of the inputs and of the memory between."""

    outputs: Mapping[str, OutputSums]
    inputs: Mapping[str, int]
    guards: bool


@dataclass(frozen=True, kw_only=True)
class CardTiming:
    """One timed call."""

    claimed_us: float
    """By the events of the worker."""
    called_us: float
    """The judge's clock over the call."""
    wall_us: float
    """The judge's clock over the call and the sums of its outputs."""
    proof: OutputProof


@dataclass(kw_only=True)
class CardStock:
    """Memory with long rows, shared with the worker, which copied it to its card."""

    memory: mmap.mmap
    layout: dict[str, tuple[int, int]]
    descriptor: int

    def write(self, key: str, array: Array) -> None:
        """For the judge: put other values in the place of that name. Raises ValueError when they are not as many bytes."""
        start, end = self.layout[key]
        if array.nbytes != end - start:
            raise ValueError(f"{key}: {array.nbytes} bytes where {end - start} have room")
        into = np.frombuffer(self.memory, np.uint8, end - start, start)
        into[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def close(self) -> None:
        """Give the judge's end of the memory back; the worker has its own."""
        os.close(self.descriptor)


def stock_shared_memory(arrays: Mapping[str, Array]) -> CardStock:
    """For the judge: shared memory with these arrays in it."""
    layout: dict[str, tuple[int, int]] = {}
    cursor = 0
    for key, array in arrays.items():
        layout[key] = (cursor, cursor + array.nbytes)
        cursor = -(-(cursor + array.nbytes) // ALIGNED) * ALIGNED
    descriptor = os.memfd_create("stock", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, max(cursor, 1))
    stock = CardStock(memory=mmap.mmap(descriptor, max(cursor, 1)), layout=layout, descriptor=descriptor)
    for key, array in arrays.items():
        if array.nbytes:
            stock.write(key, array)
    return stock


@dataclass(frozen=True, kw_only=True)
class ProofRequest:
    """What is asked about a call's outputs after it has ended."""

    places: tuple[tuple[int, int], ...]
    subset: tuple[int, int]
    all_outputs: bool

    @classmethod
    def draw(cls, dice: random.Random, *, all_outputs: bool) -> "ProofRequest":
        """For the judge: secret places; `all_outputs`: the outputs themselves are requested too."""
        places = tuple((dice.randrange(SPARE_SIGNS), dice.randrange(SPARE_SIGNS)) for _ in range(SUM_COUNT))
        return cls(
            places=places, subset=(dice.randrange(1, 1 << 31) | 1, dice.randrange(1 << 31)), all_outputs=all_outputs
        )

    @classmethod
    def nothing(cls) -> "ProofRequest":
        """Request no sums of a judged call, only everything."""
        return cls(places=(), subset=(1, 0), all_outputs=True)

    def words(self) -> bytes:
        """The judge's request for a proof as words for the worker."""
        return json.dumps({"places": self.places, "subset": self.subset, "whole": self.all_outputs}).encode()


class CardSession(Session):
    """A session whose arrays lie on a card. `call` goes over the bus with everything; `timed` leaves it there."""

    def stock(self, dims: Mapping[str, int], stock: CardStock) -> BrokenWorker | None:
        """For the judge: have the worker keep these rows for calls of that size."""
        try:
            slot, _ = self._bind(dims)
            with _shared_message(json.dumps(stock.layout).encode()) as words:
                frame = Frame(STOCK, os.urandom(NONCE_BYTES), slot)
                self._running.tell(frame, (stock.descriptor, words), STOCKED)
        except WorkerLost as lost:
            return self._break(lost)
        return None

    def capture(self, dims: Mapping[str, int]) -> str | BrokenWorker:
        """For the judge: have one call at each placement made into a graph: `graph` and its nodes, or `eager` and why not."""
        lane = "eager"
        try:
            slot, _ = self._bind(dims)
            for placement in (0, 1):
                frame = Frame(CAPTURE, os.urandom(NONCE_BYTES), slot, placement)
                lane = self._running.tell(frame, (), CAPTURED).text
                if not lane.startswith("graph"):
                    break
        except WorkerLost as lost:
            return self._break(lost)
        return lane

    def time_call(
        self,
        dims: Mapping[str, int],
        draw: CardDraw,
        proof_request: ProofRequest,
        *,
        placement: int = 0,
        timeout_s: float = 60,
    ) -> CardTiming | BrokenWorker:
        """One judged call. What is asked of its outputs is told when it has ended, and is in the judge's time."""
        try:
            slot, arena, answer, called_us = self._read_draw(dims, draw, placement, timeout_s=timeout_s)
            proof, proved_us = self._read_proof(proof_request, (slot, placement), arena, timeout_s=timeout_s)
        except WorkerLost as lost:
            return self._break(lost)
        wall_us = called_us + proved_us
        return CardTiming(claimed_us=answer.claim_ns / 1e3, called_us=called_us, wall_us=wall_us, proof=proof)

    def time_unproved(self, dims: Mapping[str, int], draw: CardDraw, *, placement: int = 0) -> float | BrokenWorker:
        """The same call with nothing held against it, to see what judging costs: what its events claim, in us."""
        try:
            return self._read_draw(dims, draw, placement, timeout_s=FETCH_S)[2].claim_ns / 1e3
        except WorkerLost as lost:
            return self._break(lost)

    def fetch_sealed(
        self, dims: Mapping[str, int], inputs: Mapping[str, Array], placement: int, *, fetch: bool
    ) -> SealedCall | BrokenWorker:
        """For the judge: all that the last call at that placement left, inputs and bands included; its times are not known here.

        `fetch`: have the worker bring it; else it has, having been asked for the whole when the call had ended.
        """
        try:
            slot, arena = self._card(dims)
            if fetch:
                self._read_proof(ProofRequest.nothing(), (slot, placement), arena, timeout_s=FETCH_S)
            return SealedCall(
                outputs=arena.outputs(placement),
                late=arena.second_copies(),
                wall_us=math.nan,
                inputs_changed=arena.list_changed_inputs(inputs, placement),
                guards_broken=arena.list_broken_guards(placement),
            )
        except WorkerLost as lost:
            return self._break(lost)

    def _read_draw(
        self, dims: Mapping[str, int], draw: CardDraw, placement: int, *, timeout_s: float
    ) -> tuple[int, CardSharedBuffers, Frame, float]:
        slot, arena = self._card(dims)
        arena.write_message(_draw_words(draw))
        frame = Frame(CALL, os.urandom(NONCE_BYTES), slot, placement, text="drawn")
        answer, called_us = self._running.exchange(frame, DONE, timeout_s=timeout_s)
        self._running.freezer.wait_stopped()
        return slot, arena, answer, called_us

    def _card(self, dims: Mapping[str, int]) -> tuple[int, CardSharedBuffers]:
        slot, arena = self._bind(dims)
        if not isinstance(arena, CardSharedBuffers):
            raise TypeError("a session of a card without its memory")
        return slot, arena

    def _read_proof(
        self, proof_request: ProofRequest, place: tuple[int, int], arena: CardSharedBuffers, *, timeout_s: float
    ) -> tuple[OutputProof, float]:
        arena.write_message(proof_request.words())
        frame = Frame(PROVE, os.urandom(NONCE_BYTES), *place)
        _, proved_us = self._running.exchange(frame, PROVED, timeout_s=timeout_s)
        self._running.freezer.wait_stopped()
        return read_proof(arena.read_message()), proved_us


def _draw_words(draw: CardDraw) -> bytes:
    return json.dumps(
        {
            "inputs": draw.inputs,
            "const": list(draw.const),
            "rings": draw.rings,
            "poison": draw.poison,
            "decoy": draw.decoy,
            "cold": draw.cold,
            "graph": draw.graph,
        }
    ).encode()


@contextlib.contextmanager
def _shared_message(data: bytes) -> Iterator[int]:
    """For the judge: shared memory with these bytes."""
    descriptor = os.memfd_create("words", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield descriptor
    finally:
        os.close(descriptor)


# Outputs that stay on a card: eight sums with secret signs, compared between sides, and with the outputs themselves.
#
# Signs of element (r, c), in rows of `ROW`, are the product of two slices of a long row of signs at secret places.

ROW, SUBSET = 4096, 4096

SUM_COUNT = 8

SPARE_SIGNS = 1 << 16
"""Places at which a slice of signs may begin."""

SUM_DEVIATIONS = 6.0
"""Standard deviations of a sum of errors with random signs."""

SUM_TOLERANCE = 1e-11
"""Two programs that add the same float64 numbers in other orders differ by less, as a share of the numbers' size."""

BITS_MULTIPLIER = np.int64(0x9E3779B97F4A7C15 - (1 << 64))


def read_proof(words: bytes) -> OutputProof:
    """The worker's words to the judge as a proof. Raises WorkerLost for words that are none."""
    try:
        report = json.loads(words)
        outputs = {str(name): _read_sums(value) for name, value in report.get("outputs", {}).items()}
        inputs = {str(name): int(value) for name, value in report.get("inputs", {}).items()}
        return OutputProof(outputs=outputs, inputs=inputs, guards=report.get("guards", True) is True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise WorkerLost("protocol", "the worker's words about its outputs are none") from error


def _read_sums(entry: Mapping[str, object]) -> OutputSums:
    sums, bits = entry["sums"], entry["bits"]
    if not isinstance(sums, list) or len(sums) != SUM_COUNT or not isinstance(bits, list):
        raise ValueError("not the sums that were asked for")
    numbers = np.array([float.fromhex(str(value)) for value in sums])
    return OutputSums(sums=numbers, same=entry["same"] is True, bits=(int(bits[0]), int(bits[1])))


def to_rows(count: int) -> int:
    """A judged array as rows of so many elements, the last one filled up."""
    return -(-max(count, 1) // ROW)


def draw_signs(count: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """For the judge: a long row of one and minus one, for outputs of at most so many elements."""
    length = max(to_rows(count), ROW) + SPARE_SIGNS
    return (2 * rng.integers(0, 2, length, dtype=np.int8) - 1).astype(np.int8)


def signed_sums(raw: Array, dtype: DType, row: NDArray[np.int8], proof_request: ProofRequest) -> NDArray[np.float64]:
    """The sums of a judged output as the worker must have them."""
    count = to_rows(raw.size)
    numbers = np.zeros(count * ROW)
    numbers[: raw.size] = to_float64(raw.reshape(-1), dtype)
    table = numbers.reshape(count, ROW)
    across = np.stack([row[column : column + ROW] for column, _ in proof_request.places]).astype(np.float64)
    down = np.stack([row[start_row : start_row + count] for _, start_row in proof_request.places]).astype(np.float64)
    with np.errstate(invalid="ignore"):
        sums: NDArray[np.float64] = ((table @ across.T) * down.T).sum(axis=0)
    return sums


def element_bits(raw: Array, proof_request: ProofRequest) -> int:
    """Bits of some elements of a judged output as the worker must have them."""
    if not raw.size:
        return 0
    step, offset = proof_request.subset
    at = (step * np.arange(SUBSET, dtype=np.int64) + offset) % raw.size
    kind = np.uint8 if raw.itemsize == 1 else np.dtype(f"int{8 * raw.itemsize}")
    values = np.ascontiguousarray(raw).reshape(-1).view(kind)[at].astype(np.int64)
    with np.errstate(over="ignore"):
        return int((values * ((at * BITS_MULTIPLIER + offset) | 1)).sum())


def is_proof_true(
    claim: OutputSums, raw: Array, dtype: DType, row: NDArray[np.int8], proof_request: ProofRequest
) -> bool:
    """For the judge: whether the sums and bits that a worker told are those of the output that it then gave."""
    there = signed_sums(raw, dtype, row, proof_request)
    if claim.bits != (element_bits(raw, proof_request),) * 2:
        return False
    numbers = to_float64(raw.reshape(-1), dtype)
    if not np.isfinite(numbers).all():
        return True  # sums that are no numbers say nothing, and everything is here
    size = float(np.sqrt(np.square(numbers).sum())) * math.sqrt(max(raw.size, 1))
    return bool((np.abs(there - claim.sums) <= SUM_TOLERANCE * size + np.finfo(float).tiny).all())


def are_sums_near(a: OutputSums, b: OutputSums, *, count: int, tolerance: float) -> bool:
    """For the judge: whether sums of two sides may be those of right answers that differ by `tolerance` in the mean square's root.

    False says only that all of the outputs are to be looked at.
    """
    if a.bits[0] != a.bits[1] or b.bits[0] != b.bits[1] or not (a.same and b.same):
        return False
    limit = SUM_DEVIATIONS * tolerance * math.sqrt(count)
    return bool((np.abs(a.sums - b.sums) <= limit).all())
