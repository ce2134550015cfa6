"""The judge's end of the wire: it sends one frame, takes one, and believes nothing about the other end."""

import os
import select
import socket
import struct
import time
from collections.abc import Sequence

from ridgeline.sandbox.harness.judge_frames import FAILED, SIZE, Frame, FrameError, packed, unpacked
from ridgeline.sandbox.judge.lost import Lost

SPIN_S = 0.02
"""So long the judge looks without sleeping: being woken takes longer than many kernels."""
CREDENTIALS = struct.Struct("iii")
POLL_MS = 1000


class Channel:
    """One end of a pair of sockets that keep messages apart; the other is `far`, for the worker."""

    def __init__(self, *, spin: bool) -> None:
        """`spin`: a processor is free for the judge while it waits."""
        self._near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._near.setblocking(False)
        self._near.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._poller = select.poll()
        self._poller.register(self._near, select.POLLIN)
        self._spin_s = SPIN_S if spin else 0.0

    def caller(self, timeout_s: float) -> tuple[Frame, int]:
        """The first frame and the id of the process that sent it, as the kernel has it. Raises Lost."""
        until = time.monotonic() + timeout_s
        self._readable(until, timeout_s)
        data, said, _, _ = self._near.recvmsg(SIZE + 1, socket.CMSG_SPACE(CREDENTIALS.size))
        for level, kind, content in said:
            if data and (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                return _frame(data), int(CREDENTIALS.unpack(content)[0])
        if not data:
            raise Lost("crash", "the worker ended at its start")
        raise Lost("protocol", "the worker's first message names no process")

    def send(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        """Put one frame on the wire, and descriptors in a message of their own behind it. Raises Lost."""
        try:
            self._near.send(packed(frame))
            if descriptors:
                socket.send_fds(self._near, [packed(frame)], list(descriptors))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Lost("crash", "the worker is gone") from error
        except BlockingIOError as error:
            raise Lost("protocol", "the worker does not read what it is sent") from error

    def watch(self, process: int) -> None:
        """End waiting when the process of this pid descriptor ends, whoever else may hold the worker's end by then."""
        self._poller.register(process, select.POLLIN)

    def quiet(self) -> None:
        """Raises Lost when something came that nobody asked for, or the worker has ended."""
        if self._here(self._poller.poll(0)):
            data = self._received()
            raise Lost("protocol", f"{len(data)} bytes came that were not asked for")

    def answer(self, kind: int, nonce: bytes, *, timeout_s: float) -> tuple[Frame, int]:
        """The one frame that answers, and when it was there (ns of `perf_counter_ns`).

        Raises Lost for anything else, `output` where the worker says that the call gave no answer.
        """
        came = self.came(timeout_s=timeout_s)
        return self.taken(kind, nonce), came

    def came(self, *, timeout_s: float) -> int:
        """Wait until something is there: when it was, in ns of `perf_counter_ns`. Raises Lost."""
        self._readable(time.monotonic() + timeout_s, timeout_s)
        return time.perf_counter_ns()

    def taken(self, kind: int, nonce: bytes) -> Frame:
        """What is there, as the one frame that answers. Raises Lost as `answer` does."""
        frame = _frame(self._received())
        if frame.nonce != nonce:
            raise Lost("protocol", "the answer is not to this call")
        if frame.kind == FAILED:
            raise Lost("output", frame.text)
        if frame.kind != kind:
            raise Lost("protocol", f"an answer of kind {frame.kind} where {kind} was asked for")
        return frame

    def close(self) -> None:
        """Both ends, as far as they are this process's."""
        self._near.close()
        self.far.close()

    def _readable(self, until: float, timeout_s: float) -> None:
        poll, now = self._poller.poll, time.monotonic
        spin = min(now() + self._spin_s, until)
        while now() < spin:
            if self._here(poll(0)):
                return
            os.sched_yield()  # costs nothing unless somebody, the worker for one, waits for this processor
        while (left := until - now()) > 0:
            if self._here(poll(min(left * 1000 + 1, POLL_MS))):
                return
        raise Lost("timeout", f"no answer within {timeout_s:g} s")

    def _here(self, events: list[tuple[int, int]]) -> bool:
        """Whether a message is. Raises Lost where the worker has ended without one."""
        if not events:
            return False
        if not self._among(events) and not self._among(self._poller.poll(0)):  # its last message came before its end
            raise Lost("crash", "the worker ended")
        return True

    def _among(self, events: list[tuple[int, int]]) -> bool:
        """Whether the wire is. The other is the process, of which a kernel says more once somebody has collected it."""
        return any(descriptor == self._near.fileno() for descriptor, _ in events)

    def _received(self) -> bytes:
        """One message. Descriptors that came with it are dropped by the kernel. Raises Lost at the end of the wire."""
        try:
            data = os.read(self._near.fileno(), SIZE + 1)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Lost("crash", "the worker ended or closed its channel")
        return data


def _frame(data: bytes) -> Frame:
    try:
        return unpacked(data)
    except FrameError as error:
        raise Lost("protocol", str(error)) from error
