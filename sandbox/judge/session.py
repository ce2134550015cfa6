"""A worker as the judge uses it: values in, sealed bytes out, and the judge's own time between."""

import ast
import dataclasses
import math
import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Task
from ridgeline.sandbox.harness.judge_frames import CALL, DONE, NONCE_BYTES, PING, PONG, Frame
from ridgeline.sandbox.judge.arena import PLACEMENTS, Arena
from ridgeline.sandbox.judge.arenas import Arenas, budget_bytes
from ridgeline.sandbox.judge.card_arena import CardArena
from ridgeline.sandbox.judge.isolation import Isolation, isolation
from ridgeline.sandbox.judge.limits import WorkerLimits
from ridgeline.sandbox.judge.lost import Lost, Reason
from ridgeline.sandbox.judge.worker import Device, Framework, Loading, Mode, Worker

LARGE = 1 << 18
"""Bytes of outputs from which on the worker must stand still before they are copied: fewer are copied faster."""
PING_S = 10.0
MIB = 1 << 20
TORCH_MB = 8192
"""Address space that importing PyTorch and its threads' stacks takes, most of which is never touched."""
TORCH = ("triton", "cuda", "hip", "flydsl", "cutedsl")
"""Languages whose arrays are tensors, whatever the sources import."""


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """What one call left, copied before the worker could do anything else."""

    outputs: dict[str, NDArray[np.generic]]
    """In storage types; inputs that the kernel may write among them."""
    late: dict[str, NDArray[np.generic]] | None = None
    """The same read again after everything on the device had ended; None where nothing can come later."""
    wall_us: float
    """The judge's clock from sending the frame to reading the answer; an empty call's time is in it."""
    claimed_us: float | None = None
    """What the worker says that the call took. No evidence."""
    inputs_changed: tuple[str, ...] = ()
    """Inputs whose bytes differ after the call though the task does not allow it."""
    guards_broken: tuple[str, ...] = ()
    """Arrays beside which memory was overwritten."""


@dataclass(frozen=True, kw_only=True)
class Broken:
    """Why there is no session or no answer; never a pass."""

    reason: Reason
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
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`sources` is a frozen copy of the candidate's files; `cpu` the one processor that it starts on."""
        self.framework: Framework = framework_of(task, sources, device)
        """Of the arrays that a Python candidate gets; may be set before `open`, for example to the reference's."""
        self.mode: Mode = "plain"
        """Set before `open`; only a plain session is ever timed."""
        self.settle_us: int | None = None
        """When set, outputs are copied a second time after the worker ran on for so long: `Sealed.late`."""
        self.look_share = 1.0
        """Of calls after which inputs and guard bands are looked at, by a coin that falls when the outputs are sealed.
        Damage to bands stays until it is seen: `hurt` sees what is left."""
        self._coin = random.Random(os.urandom(32))
        self._task, self._sources = task, sources
        self._limits = limits or WorkerLimits()
        self._device: Device = device
        self._cpu = cpu
        self._environment = dict(environment or {})
        self._worker: Worker | None = None
        self._arenas = Arenas(task, card=device != "cpu")
        self._broken: Broken | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Broken | None:
        """Build, start and load: everything before the first call. Raises WorldError where the machine lacks something.

        A candidate that does not compile, load or import is `Broken`.
        """
        try:
            self._worker = Worker(self._loading())
            self._worker.start()
        except Lost as lost:
            return self._break(lost if lost.reason != "crash" else Lost("load", f"while loading: {lost.detail}"))
        return None

    def call(
        self,
        dims: Mapping[str, int],
        inputs: Mapping[str, NDArray[np.generic]],
        *,
        placement: int = 0,
        poison: Mapping[str, NDArray[np.generic]] | None = None,
        timeout_s: float = 60,
    ) -> Sealed | Broken:
        """One judged call. Arrays have storage types; `poison` is what the outputs hold before, else random bytes.

        Placements 0 and 1 are two address ranges: the same size at the same placement means the same array objects
        in the worker. After a `Broken` every further call is the same `Broken`. Raises ValueError for arrays that are
        not what the task says.
        """
        try:
            slot, arena = self._bound(dims)
            arena.write(inputs, placement)
            arena.poison(poison, placement)
            frame = Frame(CALL, os.urandom(NONCE_BYTES), slot, placement)
            answer, wall_us = self._running.exchange(frame, DONE, timeout_s=timeout_s)
            return self._sealed(arena, inputs, placement, answer, wall_us)
        except Lost as lost:
            return self._break(lost)

    def ping(self) -> float:
        """Time of an empty call in us, same frames, same clock. nan for a broken worker: the next call says why."""
        try:
            _, wall_us = self._running.exchange(Frame(PING, os.urandom(NONCE_BYTES)), PONG, timeout_s=PING_S)
            self._running.held.settled()
        except Lost as lost:
            self._break(lost)
            return math.nan
        return wall_us

    def hurt(self, dims: Mapping[str, int]) -> tuple[str, ...]:
        """Arrays of that size beside which memory was overwritten since it was last looked at, at either placement."""
        if self._worker is None or self._broken is not None:
            return ()
        _, arena = self._bound(dims)
        return tuple(
            dict.fromkeys(name for placement in range(PLACEMENTS) for name in arena.broken(placement, whole=True))
        )

    def report(self) -> bytes | Broken:
        """What a worker in mode `trace` has noted so far: a claim of the candidate's process."""
        try:
            return self._running.report()
        except Lost as lost:
            return self._break(lost)

    def threads(self) -> int | None:
        """Threads of the worker now, as the kernel counts them; None when it has ended."""
        return self._worker.held.threads() if self._worker is not None and self._broken is None else None

    def processes(self) -> int | None:
        """Processes beside the worker's own that came since it started, now; None where they cannot be told apart.

        Unlike the worker's threads they do run between calls, so an honest time wants none. Takes a millisecond.
        """
        others = self._worker.held.others() if self._worker is not None and self._broken is None else None
        return None if others is None else len(others)

    @property
    def isolation(self) -> Isolation:
        """How well workers are shut in on this machine."""
        return isolation()

    @staticmethod
    def isolation_level() -> str:
        """`namespaces` or `weak`, of every session on this machine."""
        return isolation().level

    @property
    def held(self) -> bool:
        """Whether the worker really stands still between calls; False where this process may not stop it."""
        return self._worker is not None and self._broken is None and self._worker.held.works

    def close(self) -> None:
        """End the worker and everything it started."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._arenas.close()

    @property
    def _running(self) -> Worker:
        if self._broken is not None:
            raise Lost(self._broken.reason, self._broken.detail)
        if self._worker is None:
            raise RuntimeError("the session is not open")
        return self._worker

    def _bound(self, dims: Mapping[str, int]) -> tuple[int, Arena]:
        """The arena of that size, and its number in the worker."""
        worker = self._running
        slot, arena, new = self._arenas.of(dims)
        if new:
            worker.bind(slot, arena.descriptor, arena.layout())
        return slot, arena

    def _sealed(
        self, arena: Arena, inputs: Mapping[str, NDArray[np.generic]], placement: int, answer: Frame, wall_us: float
    ) -> Sealed:
        """Copies first, checks later."""
        held = self._running.held
        if arena.judged_bytes > LARGE:
            held.settled()
        outputs = arena.outputs(placement)
        changed, broken = self._looked(arena, inputs, placement)
        held.settled()  # by now it has: what was copied and looked at meanwhile cannot become an answer any more
        return Sealed(
            outputs=outputs,
            late=arena.seconds() if isinstance(arena, CardArena) else self._late(arena, placement),
            wall_us=wall_us,
            claimed_us=answer.claim_ns / 1e3,
            inputs_changed=changed,
            guards_broken=broken,
        )

    def _looked(
        self, arena: Arena, inputs: Mapping[str, NDArray[np.generic]], placement: int
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Inputs that were changed, and arrays beside which something was."""
        if self.look_share < 1 and self._coin.random() >= self.look_share:
            return (), ()
        return arena.changed(inputs, placement), arena.broken(placement)

    def _late(self, arena: Arena, placement: int) -> dict[str, NDArray[np.generic]] | None:
        if self.settle_us is None:
            return None
        held = self._running.held
        held.go()
        time.sleep(self.settle_us / 1e6)
        held.stop()
        held.settled()
        return arena.outputs(placement)

    def _break(self, lost: Lost) -> Broken:
        if self._broken is None:
            why = self._worker.why(lost) if self._worker is not None else lost
            self._broken = Broken(reason=why.reason, detail=why.detail)
        return self._broken

    def _loading(self) -> Loading:
        return Loading(
            task=self._task,
            sources=self._sources,
            framework=self.framework,
            device=self._device,
            cpu=self._cpu,
            limits=self._enough(),
            environment=self._environment,
            mode=self.mode,
        )

    def _enough(self) -> WorkerLimits:
        """The limits with room for the arenas, which the worker maps but does not own, and for PyTorch."""
        extra = 2 * budget_bytes(self._task) // MIB + (TORCH_MB if self.framework == "torch" else 0)
        return dataclasses.replace(self._limits, memory_mb=self._limits.memory_mb + extra)


def framework_of(task: Task, sources: Path, device: Device = "cpu") -> Framework:
    """PyTorch where the language, the device or an import of the sources asks for it, else NumPy."""
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
