"""One confined worker process: it loads a candidate, and is stopped (SIGSTOP) between requests.

What a call returned is read out of the stopped process (`Memory`); once it is `locked`, it starts no process any more.
"""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sysconfig
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.task import Task
from ridgeline.sandbox.harness.isolate import filters
from ridgeline.sandbox.harness.judge_frames import (
    BIND,
    BOUND,
    CALL,
    FAILED,
    HELLO,
    LOAD,
    LOCK,
    LOCKED,
    NONCE_BYTES,
    PACK,
    PACKED,
    READY,
    RELEASE,
    RELEASED,
    REPORT,
    REPORTED,
    SIZE,
    Frame,
    FrameError,
    packed,
    unpacked,
)
from ridgeline.sandbox.isolation import stopping
from ridgeline.sandbox.isolation.directory_pool import fresh_folder
from ridgeline.sandbox.isolation.environment import card_variables
from ridgeline.sandbox.isolation.workers import ConfinedProcess, WarmProgram, WorkerLimits, end_process, launch
from ridgeline.sandbox.judge.freeze import add_built_file

# The judge's end of the wire: it sends one frame, takes one, and believes nothing about the other end.

SPIN_S = 0.02
"""So long the judge looks without sleeping: being woken takes longer than many kernels."""
CREDENTIALS = struct.Struct("iii")
POLL_MS = 1000


class Channel:
    """One end of a pair of sockets that keep messages apart; the other is `worker_end`, for the worker."""

    def __init__(self, *, spin: bool) -> None:
        """`spin`: a processor is free for the judge while it waits."""
        self._judge_end, self.worker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._judge_end.setblocking(False)
        self._judge_end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._poller = select.poll()
        self._poller.register(self._judge_end, select.POLLIN)
        self.spin(spin)

    def spin(self, spins: bool) -> None:
        """In the judge: look for a worker's messages without sleeping, for a while, or do not: a processor is free for that, or none is."""
        self._spin_s = SPIN_S if spins else 0.0

    def caller(self, timeout_s: float) -> tuple[Frame, int]:
        """In the judge, of its worker: the first frame and the sender's process id, as the kernel has it. Raises WorkerLost."""
        until = time.monotonic() + timeout_s
        self._readable(until, timeout_s)
        data, ancillary, _, _ = self._judge_end.recvmsg(SIZE + 1, socket.CMSG_SPACE(CREDENTIALS.size))
        for level, kind, content in ancillary:
            if data and (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                return _parse_frame(data), int(CREDENTIALS.unpack(content)[0])
        if not data:
            raise WorkerLost("crash", "the worker ended at its start")
        raise WorkerLost("protocol", "the worker's first message names no process")

    def send(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        """In the judge: put one frame on its worker's wire, and descriptors in a message of their own behind it. Raises WorkerLost."""
        try:
            self._judge_end.send(packed(frame))
            if descriptors:
                socket.send_fds(self._judge_end, [packed(frame)], list(descriptors))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise WorkerLost("crash", "the worker is gone") from error
        except BlockingIOError as error:
            raise WorkerLost("protocol", "the worker does not read what it is sent") from error

    def watch(self, process: int) -> None:
        """In the judge: end waiting when the worker of this pid descriptor ends, whoever else may hold its end by then."""
        self._poller.register(process, select.POLLIN)

    def check_silence(self) -> None:
        """In the judge: raises WorkerLost when a worker sent what nobody asked for, or has ended."""
        if self._is_message_ready(self._poller.poll(0)):
            data = self._receive()
            raise WorkerLost("protocol", f"{len(data)} bytes came that were not asked for")

    def answer(self, kind: int, nonce: bytes, *, timeout_s: float) -> tuple[Frame, int]:
        """In the judge: the worker's one frame that answers, and when it was there (ns of `perf_counter_ns`).

        Raises WorkerLost for anything else, `output` where the worker says that the call gave no answer.
        """
        came = self.wait_for_message(timeout_s=timeout_s)
        return self.take_answer(kind, nonce), came

    def wait_for_message(self, *, timeout_s: float) -> int:
        """In the judge: wait until a worker's message is there: when, in ns of `perf_counter_ns`. Raises WorkerLost."""
        self._readable(time.monotonic() + timeout_s, timeout_s)
        return time.perf_counter_ns()

    def take_answer(self, kind: int, nonce: bytes) -> Frame:
        """In the judge: what is there, as the worker's one frame that answers. Raises WorkerLost as `answer` does."""
        frame = _parse_frame(self._receive())
        if frame.nonce != nonce:
            raise WorkerLost("protocol", "the answer is not to this call")
        if frame.kind == FAILED:
            raise WorkerLost("output", frame.text)
        if frame.kind != kind:
            raise WorkerLost("protocol", f"an answer of kind {frame.kind} where {kind} was asked for")
        return frame

    def close(self) -> None:
        """In the judge: close both ends of the wire to a worker, as far as they are this process's."""
        self._judge_end.close()
        self.worker_end.close()

    def _readable(self, until: float, timeout_s: float) -> None:
        poll, now = self._poller.poll, time.monotonic
        spin = min(now() + self._spin_s, until)
        while now() < spin:
            if self._is_message_ready(poll(0)):
                return
            os.sched_yield()  # costs nothing unless somebody, the worker for one, waits for this processor
        while (left := until - now()) > 0:
            stopping.check()
            if self._is_message_ready(poll(min(left * 1000 + 1, POLL_MS))):
                return
        raise WorkerLost("timeout", f"no answer within {timeout_s:g} s")

    def _is_message_ready(self, events: list[tuple[int, int]]) -> bool:
        """In the judge: whether a worker's message is there. Raises WorkerLost where it ended without one."""
        if not events:
            return False
        if not self._is_readable_among(events) and not self._is_readable_among(
            self._poller.poll(0)
            # its last message came before its end
        ):
            raise WorkerLost("crash", "the worker ended")
        return True

    def _is_readable_among(self, events: list[tuple[int, int]]) -> bool:
        """In the judge: whether a worker's wire is readable. The other is the process, better known once collected."""
        return any(descriptor == self._judge_end.fileno() for descriptor, _ in events)

    def _receive(self) -> bytes:
        """In the judge: one message of a worker. Descriptors with it are dropped by the kernel. Raises WorkerLost at the end."""
        try:
            data = os.read(self._judge_end.fileno(), SIZE + 1)
        except ConnectionResetError:
            data = b""
        if not data:
            raise WorkerLost("crash", "the worker ended or closed its channel")
        return data


def _parse_frame(data: bytes) -> Frame:
    try:
        return unpacked(data)
    except FrameError as error:
        raise WorkerLost("protocol", str(error)) from error


# A worker's process between calls: stopped, so that nothing of a candidate runs unless the judge's clock does.

STOPPED_S = 5.0
"""A process that was told to stop and has not by then is lost."""
ENDED_STATES = b"ZX"
"""States of /proc of one that has ended."""
STATE, THREADS = 0, 17
"""Fields of /proc/PID/stat, counted behind the name."""


class Freezer:
    """Stops and continues one process with all its threads.

    A thread that waits for the next inputs, to work on them before it is asked, finds that it does not run while they
    are written; one that goes on after the answer does not run while it is copied.
    """

    def __init__(self, pid: int) -> None:
        """Raises WorkerLost when there is no such process. Ask before it runs what is not trusted: ids are given anew."""
        try:
            self.process = os.pidfd_open(pid)
            self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        except OSError as error:
            raise WorkerLost("crash", f"the worker ended at its start ({error.strerror})") from error
        self._tasks = Path(f"/proc/{pid}/task")
        self._space = _pid_namespace(str(pid))
        self._initial_pids = self._inside() if self._space not in (None, _pid_namespace("self")) else None
        self.works = True
        """False where this process may not stop that one."""

    def stop(self) -> None:
        """Send the judge's worker SIGSTOP; `wait_stopped` returns when all threads stand still."""
        self._tell(signal.SIGSTOP)

    def resume(self) -> None:
        """Send the judge's worker SIGCONT."""
        self._tell(signal.SIGCONT)

    def wait_stopped(self) -> None:
        """In the judge: wait until each thread of its worker stands still, or it ended. Raises WorkerLost when one does not."""
        until = time.monotonic() + STOPPED_S
        while self.works and not self._still():
            if time.monotonic() > until:
                raise WorkerLost("timeout", f"the worker could not be stopped within {STOPPED_S:g} s")
            os.sched_yield()  # on a busy machine it may be waiting for this very processor

    def threads(self) -> int | None:
        """In the judge: number of threads of its worker now; None when it has ended."""
        fields = self._fields()
        return int(fields[THREADS]) if fields and fields[STATE] not in ENDED_STATES else None

    def list_siblings(self) -> frozenset[int] | None:
        """In the judge: processes that came beside its worker since this was made; None where no namespace parts them.

        They are not held: one of them may run while inputs are written.
        """
        return None if self._initial_pids is None else self._inside() - self._initial_pids

    def filters(self) -> tuple[int, ...] | None:
        """In the judge: how many filters of system calls hold each of its worker's threads; None where the kernel does not say."""
        counts: list[int] = []
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in self._tasks.iterdir():
                _, field, rest = (task / "status").read_bytes().partition(b"\nSeccomp_filters:")
                if not field:
                    return None
                counts.append(int(rest.split(None, 1)[0]))
        return tuple(counts)

    def keep_to(self, cores: Collection[int]) -> bool:
        """In the judge: let each thread of its worker, and what they start, run on these cores alone: whether that is permitted."""
        try:
            for task in self._tasks.iterdir():
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(task.name), cores)
        except FileNotFoundError:
            return True  # it has ended, which the channel tells
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the judge's descriptors of its worker; the process goes on."""
        os.close(self.process)
        os.close(self._stat)

    def _inside(self) -> frozenset[int]:
        """In the judge: ids of all processes of its worker's namespace. Takes a millisecond: all of the machine are asked."""
        with os.scandir("/proc") as entries:
            names = [entry.name for entry in entries if entry.name.isdigit()]
        return frozenset(int(name) for name in names if _pid_namespace(name) == self._space)

    def _tell(self, number: signal.Signals) -> None:
        if not self.works:
            return
        try:
            signal.pidfd_send_signal(self.process, number)
        except ProcessLookupError:
            return  # the channel says so too, with the reason
        except PermissionError:
            self.works = False

    def _still(self) -> bool:
        fields = self._fields()
        if not fields or fields[STATE] in ENDED_STATES:
            return True
        if fields[STATE] != b"T":
            return False
        return fields[THREADS] == b"1" or all(state in b"TXZ" for state in self._states())

    def _states(self) -> list[bytes]:
        states: list[bytes] = []
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in self._tasks.iterdir():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    states.append((task / "stat").read_bytes().rpartition(b") ")[2][:1])
        return states

    def _fields(self) -> list[bytes]:
        """In the judge: first fields of a worker in /proc behind its name, which may hold anything; empty when it is gone."""
        try:
            return os.pread(self._stat, 1024, 0).rpartition(b") ")[2].split(b" ", THREADS + 1)
        except ProcessLookupError:
            return []


class Memory:
    """Memory of a process that stands still, read from outside: what it holds then is what its call left."""

    def __init__(self, pid: int) -> None:
        """Ask before the process runs what is not trusted."""
        self._file: int | None = None
        self._maps: int | None = None
        with contextlib.suppress(OSError):
            self._file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
            self._maps = os.open(f"/proc/{pid}/maps", os.O_RDONLY)

    @property
    def readable(self) -> bool:
        """Whether the judge may read that worker's memory."""
        return self._file is not None

    def read_into(self, target: memoryview, address: int) -> None:
        """In the judge: fill `target` from its worker's memory from there on. Raises WorkerLost where there is none."""
        byte_count = 0
        try:
            while self._file is not None and byte_count < len(target):
                size = os.preadv(self._file, [target[byte_count:]], address + byte_count)
                if size == 0:
                    break
                byte_count += size
        except (OSError, OverflowError):
            pass
        if byte_count < len(target):
            raise WorkerLost("output", "what it returned lies in no memory that can be read")

    def list_parts_of_file(self, descriptor: int, address: int, size: int) -> Iterator[tuple[int, int]]:
        """In the judge: which bytes of the file behind a descriptor lie at that stretch of its worker's memory, mapped anywhere,
        and however often: from, and to before which."""
        file = os.fstat(descriptor).st_ino
        for line in self._read_maps().splitlines():
            span, _, offset, _, inode, *_ = line.split(None, 5)
            start, end = (int(word, 16) for word in span.split(b"-"))
            if int(inode) == file and start < address + size and address < end:
                shift = int(offset, 16) - start
                yield max(start, address) + shift, min(end, address + size) + shift

    def _read_maps(self) -> bytes:
        """In the judge: what is mapped in a worker that stands still, as the kernel lists it."""
        if self._maps is None:
            return b""
        parts: list[bytes] = []
        with contextlib.suppress(ProcessLookupError):
            os.lseek(self._maps, 0, os.SEEK_SET)
            while part := os.read(self._maps, 1 << 16):
                parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        """Close the judge's descriptors of a worker's memory."""
        for descriptor in (self._file, self._maps):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._maps = None


# The judge's clock of one call, without the waits for a core that other processes had meanwhile.

CPU_CLOCK = 2
"""Kind of a process's clock in the kernel's number for it: time on a processor, by the scheduler (clock_getres(2))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTime:
    """How long one call took, in microseconds."""

    wall_us: float
    """From letting the worker run to its answer."""
    stop_us: float
    """From the answer until it stood still; `own_us` counts none of it."""
    own_us: float | None = None
    """The wall time without waits for the core while others had it, and without what the judge does on the worker's own core.
    None where such waits are not known to be no work of the worker's."""
    others_us: float | None = None
    """For how long others had the core, neither the judge nor its worker; None where `own_us` is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreTimes:
    """What judge and worker did so far, or within a call, in microseconds by the kernel."""

    judge_waited_us: float
    worker_waited_us: float
    judge_ran_us: float
    worker_ran_us: float
    """Of all its threads. Whole only when they stand still."""

    def since(self, began: "CoreTimes") -> "CoreTimes":
        """For the judge: what its and its worker's times grew by."""
        return CoreTimes(
            judge_waited_us=self.judge_waited_us - began.judge_waited_us,
            worker_waited_us=self.worker_waited_us - began.worker_waited_us,
            judge_ran_us=self.judge_ran_us - began.judge_ran_us,
            worker_ran_us=self.worker_ran_us - began.worker_ran_us,
        )

    @property
    def waited_us(self) -> float:
        """In the judge: what it and its worker waited for a core together, for each other too."""
        return self.judge_waited_us + self.worker_waited_us

    @property
    def others_us(self) -> float:
        """In the judge: for how long others had the core at least: who shares one with its worker waits for that, too, and no one else
        need be there."""
        return max(0.0, self.judge_waited_us - self.worker_ran_us, self.worker_waited_us - self.judge_ran_us)


class SharedCore:
    """What goes by while a worker's one thread, or the judge that waits for it, waits for a processor.

    The kernel counts such waits in ns (/proc/PID/schedstat); sleeping is none. A candidate could wait for helpers of its
    own: its threads' time on a processor is the least that counts, and processes it must not be able to start. That time
    is read when all threads stand still: of one that runs, the kernel adds it at a tick, milliseconds later.
    """

    is_one: bool = False
    """Judge and worker keep to one core and take turns on it: what the judge does in a call is no time of the worker's."""

    def __init__(self, pid: int) -> None:
        """Raises OSError where the kernel does not count."""
        self._clock = (~pid << 3) | CPU_CLOCK
        self._waits = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY)
        self.begin()

    def begin(self) -> None:
        """In the judge: the call of a worker whose waits it asks about begins now."""
        self._began = self._answered = self._read_times()
        self._judge_ran_us = self._began.judge_ran_us

    def mark_arrival(self) -> None:
        """Note that an answer came to the judge: what it does from here on is not in the call's wall time."""
        self._judge_ran_us = time.thread_time_ns() / 1e3

    def mark_answer(self) -> None:
        """Note that a judged call is answered: what is waited from here on is no wait of it."""
        self._answered = self._read_times()

    def take_off(self, wall_us: float, stop_us: float) -> CallTime:
        """In the judge: times of a call until the answer and from it to now, without what others and it did; the worker stands still.

        What it worked in all is the least of `own_us`: where its threads were at work when it answered is not known. The
        judge's wait for its worker is the worker's time: taken off here, it was once taken off an empty call's, too.
        """
        ended = self._read_times()
        called, stopped = self._answered.since(self._began), ended.since(self._answered)
        worked_us = ended.since(self._began).worker_ran_us
        others_us = min(replace(called, worker_ran_us=worked_us).others_us, wall_us)
        judge_us = self._judge_ran_us - self._began.judge_ran_us if self.is_one else 0.0
        return CallTime(
            wall_us=wall_us,
            stop_us=max(stop_us - stopped.waited_us, min(stopped.worker_ran_us, stop_us)),
            own_us=max(wall_us - others_us - judge_us, min(worked_us, wall_us)),
            others_us=others_us,
        )

    def close(self) -> None:
        """Close the judge's descriptor of a core's counters."""
        os.close(self._waits)

    def _read_times(self) -> CoreTimes:
        """In the judge: what its thread and the worker's main one waited so far, and what they ran."""
        try:
            records = Path("/proc/thread-self/schedstat").read_bytes(), os.pread(self._waits, 100, 0)
            judge_ns, worker_ns = (int(words.split()[1]) for words in records)
            return CoreTimes(
                judge_waited_us=judge_ns / 1e3,
                worker_waited_us=worker_ns / 1e3,
                judge_ran_us=time.thread_time_ns() / 1e3,
                worker_ran_us=time.clock_gettime_ns(self._clock) / 1e3,
            )
        except (OSError, ValueError, IndexError):  # the worker has ended, which the channel tells
            return CoreTimes(judge_waited_us=0.0, worker_waited_us=0.0, judge_ran_us=0.0, worker_ran_us=0.0)


def _pid_namespace(process: str) -> int | None:
    """Number of the process's id namespace; None where that cannot be seen."""
    try:
        return os.stat(f"/proc/{process}/ns/pid").st_ino  # noqa: PTH116 (asked of every process of the machine)
    except OSError:
        return None


# Why a worker is no longer one: raised where it is noticed, a value by the time anybody else sees it.

LossReason = Literal["crash", "timeout", "protocol", "memory", "output", "load"]


class WorkerLost(Exception):
    """The worker cannot go on, by its own doing. Never leaves the session, which makes a `BrokenWorker` of it."""

    def __init__(self, reason: LossReason, detail: str) -> None:
        self.reason: LossReason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")


Device = Literal["cpu", "cuda"]
Framework = Literal["torch", "numpy"]
WorkerMode = Literal["plain", "trace", "knockout"]
"""trace: notes who computes. knockout: the candidate's own kernels do nothing. Neither is ever timed."""
HARNESS = Path(__file__).parents[1] / "harness"
FILES = tuple(
    HARNESS / f"judge_{name}.py"
    for name in (
        *("worker", "worker_c", "worker_cuda", "worker_segment", "worker_python"),
        *("frames", "trace", "launches", "card", "segments", "cache"),
    )
)
START_S = 60.0
LOAD_S = 300.0
"""Importing PyTorch from a cold disk takes a minute, and a module may compile when it is imported."""
FIRST_CALL_TIMES = 5
"""The first call of a size may take so many times as long with PyTorch: Triton tunes and `torch.compile` compiles in it."""
END_S = 5.0
"""A process whose end was noticed is collected within this time, or ended."""
OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "Cannot allocate memory", "can't allocate memory", "out of memory")
"""What a program says that asked for more than it may have."""
FILE_TOO_LARGE = ("File too large", "File size limit exceeded", "SIGXFSZ")
"""What a program says whose file would grow beyond its limit, or how it ends."""
MOST_COMPILED_BYTES = 1 << 28
"""Of what a worker has compiled that is kept for later ones. Autotuning leaves some hundred kernels that it tried."""
REPORT_BYTES = 64_000
"""Longest report of a worker that notes who computes."""
FORK_SERVER_FRAMES = "/isolate/stem.py"
"""In lines of a traceback that lie below the worker's own program."""
BINDING_NOISE = re.compile(
    r"\s*(nanobind: |- (leaked (instance|type|function|keep_alive)|\.\.\. skipped remainder)|See https://nanobind\.)"
)
"""What bindings print at the end of any process that fails, after what it failed of."""
NO_DRIVER = "active drivers ([])"
"""Triton's words where there is no card."""
MOST_PRINTED_CHARS = 2000
"""Characters of the end of what it printed that are kept."""


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """What a worker is to load, and where it runs."""

    task: Task
    sources: Path
    framework: Framework
    device: Device
    cpu: int | None
    limits: WorkerLimits
    environment: Mapping[str, str]
    mode: WorkerMode = "plain"
    segments: bool = False
    """On a card: arrays lie in segments that the judge owns (`device_session.py`)."""
    lock_first: bool = False
    """A worker in C can start no process from before the candidate's first line on."""
    compiled: bytes = b""
    """What an earlier process of the same version had compiled, as `Worker.pack` gave it."""


class Worker:
    """A process with a candidate in it. `WorkerLost` from any method means that it is of no use any more."""

    freezer: Freezer
    memory: Memory

    def __init__(self, loading: LoadRequest) -> None:
        """Build what must be built. Raises WorkerLost, and ProgramMissing where the compiler is not here."""
        self._loading = loading
        self._library = build_library(loading.task, loading.sources)
        self._call_loop = build_loop(loading.task, loading.sources) if loading.device == "cpu" else None
        self._stack = ExitStack()
        self._process: ConfinedProcess | None = None
        self._shared_core: SharedCore | None = None
        self._locked = False
        self._answered: set[int] = set()
        """Slots, a size each, of which a call has been answered."""
        self.channel = Channel(spin=_processor_count() > loading.task.threads)
        self._stack.callback(self.channel.close)

    def start(self) -> None:
        """In the judge: start a worker, load the candidate in it and hold it. Raises WorkerLost."""
        self._process = self._launch()
        hello, pid = self.channel.caller(START_S)
        if hello.kind != HELLO:
            raise WorkerLost("protocol", "the worker does not begin as it should")
        self.freezer = Freezer(pid)
        self._stack.callback(self.freezer.close)
        self.memory = Memory(pid)
        self._stack.callback(self.memory.close)
        self._filters = self.freezer.filters()
        self._pid = pid
        self.channel.watch(self.freezer.process)
        if self._loading.lock_first and self._loading.task.language == "c":
            self.lock()
            self._count_waits()
        with (
            _memory_descriptor(json.dumps(self._spec()).encode()) as words,
            _memory_descriptor(self._loading.compiled or b"\0") as compiled,
        ):
            self.tell(Frame(LOAD, os.urandom(NONCE_BYTES)), (words, compiled), READY)

    def tell(self, frame: Frame, descriptors: Sequence[int], kind: int) -> Frame:
        """In the judge: send its worker a frame with descriptors, wait for the answer, untimed; then it stands still. Raises WorkerLost."""
        self.channel.check_silence()
        self.channel.send(frame, descriptors)
        self.freezer.resume()
        answer, _ = self.channel.answer(kind, frame.nonce, timeout_s=LOAD_S)
        self.freezer.stop()
        self.freezer.wait_stopped()
        return answer

    def lock(self) -> None:
        """In the judge: let its worker start no process or program from here on, only threads. Raises WorkerLost.

        Where workers are held to no filter at all, this does nothing: `machine_isolation` says so.
        """
        before = self._filters
        if self._locked or not filters.is_supported() or not before or not all(before):
            return
        code = filters.without_processes()
        words = {"code": code.hex(), "steps": len(code) // 8, "call": filters.seccomp_words()}
        with _memory_descriptor(json.dumps(words).encode()) as descriptor:
            self.tell(Frame(LOCK, os.urandom(NONCE_BYTES)), (descriptor,), LOCKED)
        if any(count != before[0] + 1 for count in self.freezer.filters() or (0,)):
            raise WorkerLost("protocol", "it does not let itself be kept from starting processes")
        self._locked = True

    def _count_waits(self) -> None:
        """In the judge: take others' time on the core off calls, where the candidate neither began nor can start processes.

        Where it runs already when it is locked, it could hold itself to a filter of its own instead of ours.
        """
        alone = self._locked and self.freezer.list_siblings() == frozenset()
        if alone and self._loading.device == "cpu" and self._loading.task.threads == 1:
            with contextlib.suppress(OSError):  # a kernel that does not count waits
                self._shared_core = SharedCore(self._pid)
                self._stack.callback(self._shared_core.close)

    def release(self, slot: int, placement: int) -> None:
        """In the judge: have its worker let go of what the last call returned. Raises WorkerLost, `output` where that was no answer."""
        self.tell(Frame(RELEASE, os.urandom(NONCE_BYTES), slot, placement), (), RELEASED)

    def bind(self, slot: int, arena: int, layout: Mapping[str, object]) -> None:
        """In the judge: give its worker an arena, by descriptor, and where the arrays in it are. Raises WorkerLost."""
        with _memory_descriptor(json.dumps(layout).encode()) as words:
            self.tell(Frame(BIND, os.urandom(NONCE_BYTES), slot), (arena, words), BOUND)
        self._answered.discard(slot)  # of another size, which may compile too

    def report(self) -> bytes:
        """To the judge: what a worker that notes who computes has noted: a claim. Raises WorkerLost."""
        with _memory_descriptor(bytes(REPORT_BYTES)) as place:
            self.tell(Frame(REPORT, os.urandom(NONCE_BYTES)), (place,), REPORTED)
            return os.pread(place, REPORT_BYTES, 0).rstrip(b"\0")

    def pack(self) -> bytes:
        """To the judge: what its worker has compiled so far, for `Loading.compiled`; nothing where that is much. Raises WorkerLost."""
        with _memory_descriptor(b"") as place:
            os.ftruncate(place, MOST_COMPILED_BYTES)
            self.tell(Frame(PACK, os.urandom(NONCE_BYTES)), (place,), PACKED)
            size = int.from_bytes(os.pread(place, 8, 0), "little")
            return os.pread(place, min(size, MOST_COMPILED_BYTES), 8)

    def exchange(self, frame: Frame, kind: int, *, timeout_s: float) -> tuple[Frame, float]:
        """In the judge: send the frame, let its worker run until it answers, and tell it to stop: the answer, and the time in us.

        The time is this process's: from letting the worker run, the frame lying ready for it, to the answer. The
        worker may run for some microseconds more, until `wait_stopped`. The first call of a size may compile, so it has
        FIRST_CALL_TIMES as long. Raises WorkerLost.
        """
        compiles = frame.kind == CALL and frame.slot not in self._answered and self._loading.framework == "torch"
        self.channel.check_silence()
        self.channel.send(frame)
        if self._shared_core is not None:
            self._shared_core.begin()
        began = time.perf_counter_ns()
        self.freezer.resume()
        patience_s = timeout_s * (FIRST_CALL_TIMES if compiles else 1)
        came = self._came = self.channel.wait_for_message(timeout_s=patience_s)
        if self._shared_core is not None:
            self._shared_core.mark_arrival()
        self.freezer.stop()
        if self._shared_core is not None:
            self._shared_core.mark_answer()
        self._wall_us = (came - began) / 1e3
        answer = self.channel.take_answer(kind, frame.nonce)
        if compiles:
            self._answered.add(frame.slot)
        return answer, self._wall_us

    def wait_stopped(self) -> CallTime:
        """In the judge: wait until its worker stands still after an exchange: the times of its call. Raises WorkerLost."""
        self.freezer.wait_stopped()
        stop_us = (time.perf_counter_ns() - self._came) / 1e3
        if self._shared_core is None:
            return CallTime(wall_us=self._wall_us, stop_us=stop_us)
        return self._shared_core.take_off(self._wall_us, stop_us)

    def keep_to(self, cores: Collection[int], *, spin: bool) -> bool:
        """In the judge: let all threads of its worker, which stands still, run on these cores alone: whether that is permitted.

        `spin`: the judge looks for answers without sleeping; on the worker's own core it would be in its way.
        """
        self.channel.spin(spin)
        is_kept = self.freezer.keep_to(cores)
        if self._shared_core is not None:
            self._shared_core.is_one = is_kept and not spin and len(cores) == 1
        return is_kept

    def explain_loss(self, loss: WorkerLost) -> WorkerLost:
        """The loss of the judge's worker with what the process said and how it ended. It is ended by this."""
        if loss.reason == "crash" and hasattr(self, "freezer"):
            self.freezer.resume()  # it was told to stop when its channel closed, maybe before it printed why
        code = self._end(END_S if loss.reason in ("crash", "load") else 0.0)
        output = self.read_output()
        reason: LossReason = loss.reason
        if reason in ("crash", "load") and (self._out_of_memory or any(word in output for word in OUT_OF_MEMORY)):
            reason = "memory"
        detail = loss.detail if reason == "output" or code is None else f"{loss.detail}, {_describe_ending(code)}"
        if any(word in f"{detail}\n{output}" for word in FILE_TOO_LARGE):
            detail += f"; a file grew beyond the {self._loading.limits.file_mb} MiB that a worker may write"
        if NO_DRIVER in output and self._loading.task.language != "triton":
            detail += (
                f"; a kernel in Triton, but no card is here and the task says `language: {self._loading.task.language}`: "
                "with `language: triton` in task.yaml Triton's interpreter tests it here"
            )
        return WorkerLost(reason, f"{detail}\n{output}".strip())

    def read_output(self) -> str:
        """In the judge: the last characters of its worker's output, at most MOST_PRINTED_CHARS."""
        lines = self._process.read_output().strip().splitlines() if self._process is not None else []
        kept = [line for line in lines if FORK_SERVER_FRAMES not in line and not BINDING_NOISE.match(line)]
        return "\n".join(kept)[-MOST_PRINTED_CHARS:]

    def close(self) -> None:
        """End the judge's worker process and everything it started."""
        if self._process is not None:
            end_process(self._process)
        self._stack.close()

    @property
    def _out_of_memory(self) -> bool:
        return self._process is not None and self._process.out_of_memory

    def _end(self, patience_s: float) -> int | None:
        """In the judge: its worker's exit code as far as it ends by itself within this time; then it is ended anyway."""
        if self._process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(patience_s)
        end_process(self._process)
        return None

    def _launch(self) -> ConfinedProcess:
        loading = self._loading
        private = self._stack.enter_context(fresh_folder())
        worker_end = self.channel.worker_end.fileno()
        script = (str(FILES[0]), str(worker_end))
        warm = WarmProgram(modules=_warm_modules(loading), paths=_package_folders(), script=script)
        process = launch(
            warm if loading.framework == "torch" else warm.argv,
            readable=(loading.sources, *FILES),
            private=private,
            limits=loading.limits,
            pass_fds=(worker_end,),
            gpu=loading.device != "cpu",
            environment=_worker_settings(loading),
            bare=_is_bare(loading.task),
        )
        self.channel.worker_end.close()
        return process

    def _spec(self) -> dict[str, object]:
        loading, task = self._loading, self._loading.task
        return {
            "module": f"judge_worker_{'c' if task.language in COMPILED else 'python'}",
            "library": str(self._library),
            "loop": str(self._call_loop or ""),
            "source": str(loading.sources / task.source[0]),
            "entry": task.entry,
            "order": task.order,
            "outputs": [tensor.name for tensor in task.outputs],
            "returns": task.convention == "return",
            "framework": loading.framework,
            "device": "segment" if loading.segments and loading.device != "cpu" else loading.device,
            "cpu": loading.cpu,
            "threads": task.threads,
            "mode": loading.mode,
            "paths": _package_folders(),
            "reads": self.memory.readable and not loading.segments,
        }


def _warm_modules(loading: LoadRequest) -> tuple[str, ...]:
    """For the judge: what workers' common ancestor imports, and functions that it calls once for all: none touches a card.

    On a processor Triton is imported by each worker for itself: whether it interprets kernels is decided then. Where a
    source asks for PyTorch's compiler, that too: a worker has no bytecode of it, and took ten seconds for its own import.
    """
    compiler = TORCH_COMPILER if names_compiler(loading.task, loading.sources) else ()
    if loading.device == "cpu" or find_spec("triton") is None:
        return ("torch", *compiler)
    return ("torch", "triton", "triton.runtime.cache:triton_key", *compiler)


TORCH_COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.codecache:torch_key")


def names_compiler(task: Task, folder: Path) -> bool:
    """For the judge: whether the sources of a version in that folder name PyTorch's compiler."""
    sources = (folder / name for name in task.source)
    return any(b"torch.compile" in source.read_bytes() for source in sources if source.is_file())


COMPILER_SETTINGS = {
    "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0",
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
}
"""Else what torch.compile keeps names files of the process that made it, which no later one may write; and each process
would precompile PyTorch's headers for four seconds, which are too large to be kept."""


def _worker_settings(loading: LoadRequest) -> dict[str, str]:
    """For the judge: what the environment of its worker says beyond the usual."""
    threads = {
        name: str(loading.task.threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    }
    interpreted = {"TRITON_INTERPRET": "1"} if (loading.task.language, loading.device) == ("triton", "cpu") else {}
    card = card_variables() if loading.device != "cpu" else {}
    return {**COMPILER_SETTINGS, **threads, **interpreted, **card, **loading.environment}


PLAIN_LINKS = ("-lm", "-lpthread", "-lgomp", "-ldl", "-lrt", "-latomic", "-lstdc++", "-lgcc_s", "-lc")


def _is_bare(task: Task) -> bool:
    """Whether a worker of the judged task sees no libraries: in C, where the task itself names none to link with."""
    linked = (flag for flag in task.build.flags if not flag.startswith("-Wl,-O"))
    return task.language == "c" and not any(
        flag.startswith(("-l", "-L", "-Wl,", "/")) and flag not in PLAIN_LINKS for flag in linked
    )


def _package_folders() -> tuple[str, ...]:
    return tuple(sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))


def _describe_ending(code: int) -> str:
    if code in (-number for number in signal.valid_signals()):
        return f"ended by {signal.Signals(-code).name}"
    return f"exit code {code}"


def _processor_count() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def _memory_descriptor(data: bytes) -> Iterator[int]:
    """For the judge: a descriptor of memory for a worker that holds these bytes."""
    descriptor = os.memfd_create("words", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield descriptor
    finally:
        os.close(descriptor)


# Makes the library that a worker loads out of frozen C, CUDA or HIP sources, without a network, once per version.

COMPILED = ("c", "cuda", "hip")
LIBRARY = "candidate.so"
COMPILERS = {"c": "gcc", "cuda": "nvcc", "hip": "hipcc"}
FLAGS = {
    "c": ("-shared", "-fPIC", "-O3"),
    "cuda": ("-shared", "-Xcompiler", "-fPIC", "-O3"),
    "hip": ("-shared", "-fPIC", "-O3"),
}
ARCH = ("-arch", "--gpu-architecture", "-gencode", "--generate-code")
NATIVE = "-arch=native"
"""Code for the card that is here, and for nvcc's oldest where there is none."""
WITHOUT_RUNTIME = ("-cudart", "shared")
"""Leaves NVIDIA's runtime outside the library: linked in, it hides which of the names it needs the candidate needs."""
HEADERS = (".h", ".hh", ".hpp", ".cuh", ".inc")
CPLUSPLUS = (".cc", ".cpp", ".cxx")
_building: dict[Path, threading.Lock] = {}
"""By folder of frozen sources: who builds there."""
BUILD_S = 300.0
BUILD_LIMITS = WorkerLimits(memory_mb=16_384, processes=256, file_mb=1024, scratch_mb=4096, output_bytes=4_000_000)
MOST_COMPILER_CHARS = 2000
"""Characters of what the compiler said that are kept; its first error stands at the beginning."""


def build_library(task: Task, folder: Path, *, timeout_s: float = BUILD_S) -> Path | None:
    """For the judge: the library of the frozen sources in `folder`, where it then lies; None for a language that needs none.

    Raises:
        WorkerLost: the sources do not compile, or not in time.
        ProgramMissing: the compiler is not here.
    """
    if task.language not in COMPILED:
        return None
    library = folder / LIBRARY
    with _building.setdefault(folder, threading.Lock()):  # two workers of one version are started at once
        if library.exists():
            return library
        with fresh_folder("home", "tmp") as place:
            add_built_file(folder, LIBRARY, _compile(task, folder, place, timeout_s=timeout_s).library)
    return library


LOOP_SOURCE, LOOP_LIBRARY = HARNESS / "judge_loop.c", "judge_loop.so"
LOOP_FLAGS = ("-shared", "-fPIC", "-O2", "-Wl,-z,now")
_loops: dict[str, bytes] = {}
"""By compiler: the library of `LOOP_SOURCE`; empty where it does not compile."""


def build_loop(task: Task, folder: Path) -> Path | None:
    """For the judge: our loop that calls a candidate in C, in the folder of its frozen sources; None where Python has to call it."""
    compiler = shutil.which(task.build.compiler or COMPILERS["c"]) if task.language == "c" else None
    if compiler is None:
        return None
    with _building.setdefault(folder, threading.Lock()):
        if (folder / LOOP_LIBRARY).exists():
            return folder / LOOP_LIBRARY
        if compiler not in _loops:
            with fresh_folder("home", "tmp") as place, contextlib.suppress(WorkerLost):
                words = (compiler, *LOOP_FLAGS, "-o", str(place / LOOP_LIBRARY), str(LOOP_SOURCE))
                readable = (LOOP_SOURCE, *_named_folders(compiler, ()))
                _loops[compiler] = _run_compiler(words, readable, place, timeout_s=BUILD_S).library
        data = _loops.setdefault(compiler, b"")
        return add_built_file(folder, LOOP_LIBRARY, data) if data else None


def build_without_runtime(task: Task, folder: Path, *, timeout_s: float = BUILD_S) -> bytes:
    """For the judge: the library without its language's runtime: only for reading what it takes from elsewhere.

    Raises WorkerLost and ProgramMissing as `build_library` does.
    """
    if task.language != "cuda":
        library = build_library(task, folder, timeout_s=timeout_s)
        assert library is not None
        return library.read_bytes()
    with fresh_folder("home", "tmp") as place:
        return _compile(task, folder, place, WITHOUT_RUNTIME, timeout_s=timeout_s).library


def explain_build(task: Task, folder: Path, more: Sequence[str], *, timeout_s: float = BUILD_S) -> str:
    """For the judge: what the compiler prints of the frozen sources in `folder` with `more` options; file names as the task has them.

    Raises WorkerLost and ProgramMissing as `build_library` does.
    """
    with fresh_folder("home", "tmp") as place:
        return _compile(task, folder, place, more, timeout_s=timeout_s).printed


def compile_command(task: Task, folder: Path, library: Path, more: Sequence[str] = ()) -> tuple[str, ...]:
    """For the judge: the words that compile the sources in `folder` to `library`. The task's flags, then `more`, decide."""
    sources = [name for name in task.source if Path(name).suffix not in HEADERS]
    mixed = task.language == "c" and any(Path(name).suffix in CPLUSPLUS for name in sources)
    compiler = task.build.compiler or ("g++" if mixed else COMPILERS[task.language])
    places = (f"{folder}/{name}" for name in sources)
    native = task.language == "cuda" and not any(flag.startswith(ARCH) for flag in task.build.flags)
    usual = (*FLAGS[task.language], *((NATIVE,) if native else ()))
    return (compiler, *usual, "-o", str(library), *places, *task.build.flags, *more, "-lm")


class _Compiled(NamedTuple):
    """A judged candidate's library, and what its compiler printed."""

    library: bytes
    printed: str


def _compile(task: Task, folder: Path, place: Path, more: Sequence[str] = (), *, timeout_s: float) -> _Compiled:
    """The library of a judged candidate. The compiler runs shut in as a worker does: what sources include lies among them, or is the
    system's.
    """
    command = compile_command(task, folder, place / LIBRARY, more)
    compiler = shutil.which(command[0])
    if compiler is None:
        raise ProgramMissing(command[0], field="build.compiler")
    readable = (folder, *_named_folders(compiler, task.build.flags))
    try:
        built = _run_compiler((compiler, *command[1:]), readable, place, timeout_s=timeout_s, gpu=task.language != "c")
        return built._replace(printed=built.printed.replace(f"{folder}/", ""))
    except WorkerLost as lost:
        raise WorkerLost(lost.reason, lost.detail.replace(f"{folder}/", "")) from None


def _run_compiler(
    words: Sequence[str], readable: Sequence[Path], place: Path, *, timeout_s: float, gpu: bool = False
) -> _Compiled:
    """For a judged build, what the compiler writes to the file behind `-o`, which lies in `place`. Raises WorkerLost."""
    shell, script = shutil.which("sh"), '"$@" && exec cat "$0"'
    if shell is None:
        raise ProgramMissing("sh", field="build.compiler")
    library = os.memfd_create("library", os.MFD_CLOEXEC)
    try:
        os.set_inheritable(library, True)
        process = launch(
            (shell, "-c", f"{script} > /proc/self/fd/{library}", words[words.index("-o") + 1], *words),
            readable=readable,
            private=place,
            limits=BUILD_LIMITS,
            pass_fds=(library,),
            gpu=gpu,
            environment={},
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise WorkerLost("load", f"it did not compile within {timeout_s:g} s") from None
        finally:
            end_process(process)
        size, printed = os.fstat(library).st_size, process.read_output().strip()
        if code != 0 or not size:
            raise WorkerLost("load", f"it does not compile: {printed[:MOST_COMPILER_CHARS]}")
        return _Compiled(library=os.pread(library, size, 0), printed=printed)
    finally:
        os.close(library)


def _named_folders(compiler: str, flags: Sequence[str]) -> tuple[Path, ...]:
    """What a judged build needs besides the system: a compiler's installation elsewhere, and what the task's flags name."""
    real = Path(os.path.realpath(compiler))
    places = [] if real.is_relative_to("/usr") or real.is_relative_to("/bin") else [real.parent.parent]
    for flag in flags:
        path = flag if flag.startswith("/") else flag.partition("/")[1] + flag.partition("/")[2]
        places += [Path(path)] if flag.startswith(("/", "-I/", "-L/", "-isystem/")) and Path(path).exists() else []
    return tuple(places)
