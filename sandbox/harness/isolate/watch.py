"""What the outer process of a worker does all the time: keeps what is printed, and looks for the end."""

# importing pathlib would cost each start of a worker 10 ms
# ruff: noqa: PTH106, PTH123

import os
import select
import time

from .plan import Plan

HEAD = 24
"""Bytes before the text in the file of what was said: how many came, how often memory ran out, and how the worker ended
(one more than what waitpid(2) says; 0 until then); eight each."""
_KILL = 9
_CHUNK = 1 << 16
_PATIENCE_S = 2.0
"""How long processes that make more of themselves are killed before they are left to the judge's search."""


class Watch:
    """The descriptors between the outer process, the first one inside and the judge. Sizes in bytes."""

    def __init__(self, plan: Plan, judge: int) -> None:
        self._plan, self._judge = plan, judge
        self._status, self.status_here = os.pipe()
        self._printed, self.print_here = os.pipe()
        self._count = 0

    def leave(self) -> None:
        """Shutting a process in: in a child: let go of what only the outer process needs."""
        for number in (self._judge, self._status, self._printed, self._plan.line, self._plan.output):
            os.close(number)

    def alone(self) -> bool:
        """Shutting a process in: in a child: whether the outer process has gone, so that no signal will tell of its end."""
        poller = select.poll()
        poller.register(self.status_here, 0)
        return bool(poller.poll(0))

    def until_end(self, child: int) -> int:
        """Wait for the worker's end, or bring it about. What waitpid(2) says about it; everything it left is dead."""
        os.close(self.status_here)
        os.close(self.print_here)
        over = os.pidfd_open(child)
        poller = select.poll()
        for number in (over, self._judge, self._plan.line, self._printed):
            poller.register(number, select.POLLIN)
        while True:
            readable = {number for number, _ in poller.poll()}
            if self._printed in readable and not self._keep_printed():
                poller.unregister(self._printed)
            if readable & {over, self._judge, self._plan.line}:
                break
        if over not in readable:
            os.kill(child, _KILL)
        _, status = os.waitpid(child, 0)
        if self._plan.makes_namespaces:
            word = os.read(self._status, 4)
            status = int.from_bytes(word, "little") if word else _KILL
        kill_orphans()
        self._keep_rest()
        self._leave_groups()
        os.pwrite(self._plan.output, (status + 1).to_bytes(8, "little"), 16)
        return status

    def _keep_printed(self) -> bool:
        """Keep one piece of what a worker printed: the first half of the room holds how it began, the second goes round."""
        data = os.read(self._printed, _CHUNK)
        half = self._plan.output_bytes // 2
        for start, piece in _pieces(data, self._count, half):
            os.pwrite(self._plan.output, piece, HEAD + start)
        self._count += len(data)
        os.pwrite(self._plan.output, self._count.to_bytes(8, "little"), 0)
        return bool(data)

    def _keep_rest(self) -> None:
        """Keep what a worker printed that is still in the pipe. Should somebody still fill it, one pipe full is enough."""
        os.set_blocking(self._printed, False)
        try:
            for _ in range(32):
                if not self._keep_printed():
                    return
        except BlockingIOError:
            return

    def _leave_groups(self) -> None:
        until = time.monotonic() + 0.5
        killed = sum(_killed_for_memory(group) for group in self._plan.groups)
        os.pwrite(self._plan.output, killed.to_bytes(8, "little"), 8)
        for group in self._plan.groups:
            while time.monotonic() < until:
                try:
                    os.rmdir(group)
                    break
                except FileNotFoundError:
                    break
                except OSError:  # the last of its processes is still on its way out
                    time.sleep(0.002)


def status_of(output: int) -> int | None:
    """How the worker ended, as waitpid(2) says it, by the file of what it printed; None until then."""
    word = int.from_bytes(os.pread(output, 8, 16), "little")
    return word - 1 if word else None


def _killed_for_memory(group: str) -> int:
    """Shutting a process in: processes that the kernel has killed because the group had used up its memory."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            with open(f"{group}/{name}", "rb") as file:
                lines = [line.split() for line in file]
        except FileNotFoundError:
            continue
        return next((int(words[1]) for words in lines if words[0] == b"oom_kill"), 0)
    return 0


def _pieces(data: bytes, count: int, half: int) -> list[tuple[int, bytes]]:
    """Where each part of a worker's output goes, `count` bytes having come before it."""
    pieces = []
    if count < half:
        pieces.append((count, data[: half - count]))
        data = data[half - count :]
        count = half
    data, count = data[-half:], count + max(0, len(data) - half)
    while data:
        start = (count - half) % half
        piece = data[: half - start]
        pieces.append((half + start, piece))
        data, count = data[len(piece) :], count + len(piece)
    return pieces


def kill_orphans() -> None:
    """Kill what came to this process when its parent died: what the worker left, where no namespace dies with it."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        try:
            with open("/proc/thread-self/children", "rb") as file:
                children = [int(word) for word in file.read().split()]
        except FileNotFoundError:  # a kernel that does not list them
            return
        for child in children:
            os.kill(child, _KILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(0.001)
