"""One worker process: started confined, told what to load, and held whenever nothing is asked of it."""

import contextlib
import json
import os
import signal
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ridgeline.graph.task import Task
from ridgeline.sandbox.harness.judge_frames import BIND, BOUND, HELLO, LOAD, NONCE_BYTES, READY, REPORT, REPORTED, Frame
from ridgeline.sandbox.isolation.directory_pool import fresh_folder
from ridgeline.sandbox.isolation.environment import of_card
from ridgeline.sandbox.judge.build import COMPILED, built
from ridgeline.sandbox.judge.channel import Channel
from ridgeline.sandbox.judge.held import Held
from ridgeline.sandbox.judge.isolation import Warm, end, launch
from ridgeline.sandbox.judge.isolation import Worker as Process
from ridgeline.sandbox.judge.limits import WorkerLimits
from ridgeline.sandbox.judge.lost import Lost, Reason

Device = Literal["cpu", "cuda"]
Framework = Literal["torch", "numpy"]
Mode = Literal["plain", "trace", "knockout"]
"""trace: notes who computes. knockout: the candidate's own kernels do nothing. Neither is ever timed."""
HARNESS = Path(__file__).parents[1] / "harness"
FILES = tuple(
    HARNESS / f"judge_{name}.py"
    for name in ("worker", "worker_c", "worker_cuda", "worker_python", "frames", "trace", "launches", "card")
)
START_S = 60.0
LOAD_S = 300.0
"""Importing PyTorch from a cold disk takes a minute, and a module may compile when it is imported."""
END_S = 5.0
"""A process whose end was noticed is collected within this time, or ended."""
OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "Cannot allocate memory", "can't allocate memory", "out of memory")
"""What a program says that asked for more than it may have."""
REPORT_BYTES = 64_000
"""Longest report of a worker that notes who computes."""
STEM = "/isolate/stem.py"
"""In lines of a traceback that lie below the worker's own program."""
TOLD = 2000
"""Characters of the end of what it printed that are kept."""


@dataclass(frozen=True, kw_only=True)
class Loading:
    """What a worker is to load, and where it runs."""

    task: Task
    sources: Path
    framework: Framework
    device: Device
    cpu: int | None
    limits: WorkerLimits
    environment: Mapping[str, str]
    mode: Mode = "plain"


class Worker:
    """A process with a candidate in it. `Lost` from any method means that it is of no use any more."""

    held: Held

    def __init__(self, loading: Loading) -> None:
        """Build what must be built. Raises Lost, and ProgramMissing where the compiler is not here."""
        self._loading = loading
        self._library = built(loading.task, loading.sources)
        self._stack = ExitStack()
        self._process: Process | None = None
        self.channel = Channel(spin=_processors() > loading.task.threads)
        self._stack.callback(self.channel.close)

    def start(self) -> None:
        """Start, load and hold it. Raises Lost."""
        self._process = self._launched()
        hello, pid = self.channel.caller(START_S)
        if hello.kind != HELLO:
            raise Lost("protocol", "the worker does not begin as it should")
        self.held = Held(pid)
        self._stack.callback(self.held.close)
        self.channel.watch(self.held.process)
        with _memory(json.dumps(self._spec()).encode()) as words:
            self.tell(Frame(LOAD, os.urandom(NONCE_BYTES)), (words,), READY)

    def tell(self, frame: Frame, descriptors: Sequence[int], kind: int) -> Frame:
        """Send a frame with descriptors and wait for its answer, untimed; then the worker stands still. Raises Lost."""
        self.channel.quiet()
        self.channel.send(frame, descriptors)
        self.held.go()
        answer, _ = self.channel.answer(kind, frame.nonce, timeout_s=LOAD_S)
        self.held.stop()
        self.held.settled()
        return answer

    def bind(self, slot: int, arena: int, layout: Mapping[str, object]) -> None:
        """Give it an arena, by descriptor, and where the arrays in it are. Raises Lost."""
        with _memory(json.dumps(layout).encode()) as words:
            self.tell(Frame(BIND, os.urandom(NONCE_BYTES), slot), (arena, words), BOUND)

    def report(self) -> bytes:
        """What a worker that notes who computes has noted: a claim. Raises Lost."""
        with _memory(bytes(REPORT_BYTES)) as place:
            self.tell(Frame(REPORT, os.urandom(NONCE_BYTES)), (place,), REPORTED)
            return os.pread(place, REPORT_BYTES, 0).rstrip(b"\0")

    def exchange(self, frame: Frame, kind: int, *, timeout_s: float) -> tuple[Frame, float]:
        """Send the frame, let the worker run until it answers, and tell it to stop: the answer, and the time in us.

        The time is this process's: from letting the worker run, the frame lying ready for it, to the answer. The
        worker may run for some microseconds more, until `held.settled`. Raises Lost.
        """
        self.channel.quiet()
        self.channel.send(frame)
        began = time.perf_counter_ns()
        self.held.go()
        came = self.channel.came(timeout_s=timeout_s)
        self.held.stop()
        return self.channel.taken(kind, frame.nonce), (came - began) / 1e3

    def why(self, lost: Lost) -> Lost:
        """The same loss with what the process said and how it ended. It is ended by this."""
        code = self._ended()
        said = self.said()
        reason: Reason = lost.reason
        if reason in ("crash", "load") and (self._out_of_memory or any(word in said for word in OUT_OF_MEMORY)):
            reason = "memory"
        told = lost.detail if reason == "output" or code is None else f"{lost.detail}, {_ending(code)}"
        return Lost(reason, f"{told}\n{said}".strip())

    def said(self) -> str:
        """The end of what it printed."""
        lines = self._process.said().strip().splitlines() if self._process is not None else []
        return "\n".join(line for line in lines if STEM not in line)[-TOLD:]

    def close(self) -> None:
        """End it, and everything it started."""
        if self._process is not None:
            end(self._process)
        self._stack.close()

    @property
    def _out_of_memory(self) -> bool:
        return self._process is not None and self._process.out_of_memory

    def _ended(self) -> int | None:
        """Its exit code as far as it ended by itself; then it is ended anyway."""
        if self._process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(END_S)
        end(self._process)
        return None

    def _launched(self) -> Process:
        given = self._loading
        private = self._stack.enter_context(fresh_folder())
        far = self.channel.far.fileno()
        script = (str(FILES[0]), str(far))
        warm = Warm(modules=("torch",), paths=_packages(), script=script)
        process = launch(
            warm if given.framework == "torch" else warm.argv,
            readable=(given.sources, *FILES),
            private=private,
            limits=given.limits,
            pass_fds=(far,),
            gpu=given.device != "cpu",
            environment=_settings(given),
        )
        self.channel.far.close()
        return process

    def _spec(self) -> dict[str, object]:
        given, task = self._loading, self._loading.task
        return {
            "module": f"judge_worker_{'c' if task.language in COMPILED else 'python'}",
            "library": str(self._library),
            "source": str(given.sources / task.source[0]),
            "entry": task.entry,
            "order": task.order,
            "outputs": [one.name for one in task.outputs],
            "returns": task.convention == "return",
            "framework": given.framework,
            "device": given.device,
            "cpu": given.cpu,
            "threads": task.threads,
            "mode": given.mode,
            "paths": _packages(),
        }


def _settings(given: Loading) -> dict[str, str]:
    """What the environment of a worker says beyond the usual."""
    threads = {name: str(given.task.threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    interpreted = {"TRITON_INTERPRET": "1"} if (given.task.language, given.device) == ("triton", "cpu") else {}
    card = of_card() if given.device != "cpu" else {}
    return {**threads, **interpreted, **card, **given.environment}


def _packages() -> tuple[str, ...]:
    return tuple(sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))


def _ending(code: int) -> str:
    if code in (-number for number in signal.valid_signals()):
        return f"ended by {signal.Signals(-code).name}"
    return f"exit code {code}"


def _processors() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def _memory(data: bytes) -> Iterator[int]:
    """A descriptor of memory that holds these bytes."""
    descriptor = os.memfd_create("words", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield descriptor
    finally:
        os.close(descriptor)
