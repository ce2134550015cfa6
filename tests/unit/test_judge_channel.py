"""The judge's end of the wire against whatever the other end may send."""

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ridgeline.sandbox.harness.judge_frames import CALL, DONE, FAILED, PONG, SIZE, Frame, packed
from ridgeline.sandbox.judge.worker import Channel, WorkerLost

NONCE, OLD = b"n" * 16, b"o" * 16
RIGHT = packed(Frame(DONE, NONCE, claim_ns=7))


@pytest.fixture(params=[True, False], ids=["spinning", "sleeping"])
def channel(request: pytest.FixtureRequest) -> Iterator[Channel]:
    made = Channel(spin=request.param)
    yield made
    made.close()


def test_the_answer_and_when_it_was_there(channel: Channel) -> None:
    channel.worker_end.send(RIGHT)
    before = time.perf_counter_ns()
    frame, came = channel.answer(DONE, NONCE, timeout_s=1)
    assert frame == Frame(DONE, NONCE, claim_ns=7)
    assert before <= came <= time.perf_counter_ns()


@pytest.mark.parametrize(
    ("sent", "reason", "says"),
    [
        (packed(Frame(DONE, OLD)), "protocol", "not to this call"),
        (packed(Frame(PONG, NONCE)), "protocol", "kind"),
        (packed(Frame(CALL, NONCE)), "protocol", "kind"),
        (packed(Frame(FAILED, NONCE, text="y: a list")), "output", "y: a list"),
        (packed(Frame(FAILED, OLD, text="y: a list")), "protocol", "not to this call"),
        (RIGHT[:-1], "protocol", "bytes"),
        (RIGHT + b"\0", "protocol", "bytes"),
        (RIGHT * 100, "protocol", "bytes"),
        (b"x" * SIZE, "protocol", "begin"),
        (b"", "crash", "ended or closed"),
    ],
)
def test_anything_but_the_answer_loses_the_worker(channel: Channel, sent: bytes, reason: str, says: str) -> None:
    channel.worker_end.send(sent)
    with pytest.raises(WorkerLost, match=says) as lost:
        channel.answer(DONE, NONCE, timeout_s=1)
    assert lost.value.reason == reason


def test_no_answer_is_a_timeout(channel: Channel) -> None:
    began = time.monotonic()
    with pytest.raises(WorkerLost) as lost:
        channel.answer(DONE, NONCE, timeout_s=0.05)
    assert lost.value.reason == "timeout"
    assert 0.05 <= time.monotonic() - began < 5


@pytest.mark.parametrize("sent", [RIGHT, b"x"])
def test_what_comes_unasked_loses_the_worker(channel: Channel, sent: bytes) -> None:
    channel.check_silence()
    channel.worker_end.send(sent)
    with pytest.raises(WorkerLost) as lost:
        channel.check_silence()
    assert lost.value.reason == "protocol"


def test_a_second_answer_is_seen_before_the_next_call(channel: Channel) -> None:
    channel.worker_end.send(RIGHT)
    channel.worker_end.send(RIGHT)
    channel.answer(DONE, NONCE, timeout_s=1)
    with pytest.raises(WorkerLost):
        channel.check_silence()


def test_a_flood_takes_no_memory_of_the_judge(channel: Channel) -> None:
    channel.worker_end.setblocking(False)
    assert sum(iter(lambda: _sent(channel), 0)) < 16 << 20
    with pytest.raises(WorkerLost):
        channel.check_silence()


@pytest.mark.parametrize("act", [lambda channel: channel.send(Frame(CALL)), lambda channel: channel.check_silence()])
def test_a_closed_wire_is_a_crash(channel: Channel, act: Callable[[Channel], None]) -> None:
    channel.worker_end.close()
    with pytest.raises(WorkerLost) as lost:
        act(channel)
    assert lost.value.reason == "crash"


def test_a_worker_that_does_not_read_is_lost_not_waited_for(channel: Channel) -> None:
    with pytest.raises(WorkerLost) as lost:
        _send_many(channel)
    assert lost.value.reason == "protocol"


def test_descriptors_that_the_worker_sends_do_not_arrive(channel: Channel) -> None:
    before = _open_files()
    socket.send_fds(channel.worker_end, [RIGHT], [0])
    channel.answer(DONE, NONCE, timeout_s=1)
    assert _open_files() == before


def test_the_caller_is_named_by_the_kernel(channel: Channel) -> None:
    channel.worker_end.send(packed(Frame(CALL)))
    frame, pid = channel.caller(1)
    assert (frame.kind, pid) == (CALL, os.getpid())


def test_the_end_of_the_process_ends_waiting_though_somebody_holds_the_wire(channel: Channel) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    watched = os.pidfd_open(child)
    channel.watch(watched)
    began = time.monotonic()
    with pytest.raises(WorkerLost) as lost:
        channel.answer(DONE, NONCE, timeout_s=20)
    assert lost.value.reason == "crash"
    assert time.monotonic() - began < 10
    os.waitpid(child, 0)
    os.close(watched)


def test_an_answer_before_the_end_of_the_process_counts(channel: Channel) -> None:
    child = os.fork()
    if child == 0:
        channel.worker_end.send(RIGHT)
        os._exit(0)
    watched = os.pidfd_open(child)
    channel.watch(watched)
    os.waitpid(child, 0)
    assert channel.answer(DONE, NONCE, timeout_s=20)[0].claim_ns == 7
    os.close(watched)


def _sent(channel: Channel) -> int:
    try:
        return channel.worker_end.send(b"x" * 65536)
    except BlockingIOError:
        return 0


def _send_many(channel: Channel) -> None:
    for _ in range(100_000):
        channel.send(Frame(CALL))


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Collected:
    """A kernel that says more of a process once it has been collected, as newer ones do."""

    def __init__(self, process: int) -> None:
        self._said = iter([[(process, select.POLLIN)]])
        self._then = [(process, select.POLLIN | select.POLLHUP)]

    def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
        return next(self._said, self._then)


def test_a_worker_that_is_collected_while_it_is_looked_at_has_ended(channel: Channel) -> None:
    channel._poller = Collected(channel.worker_end.fileno())  # somebody it left holds its end of the wire
    with pytest.raises(WorkerLost, match="the worker ended") as lost:
        channel.answer(DONE, NONCE, timeout_s=1)
    assert lost.value.reason == "crash"


def test_its_last_message_counts_that_came_between_two_looks(channel: Channel) -> None:
    poller, far = channel._poller, channel.worker_end

    class Between:
        def __init__(self) -> None:
            self._first = True

        def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
            if not self._first:
                return poller.poll(timeout_ms)
            self._first = False
            far.send(RIGHT)
            return [(far.fileno(), select.POLLIN)]

    channel._poller = Between()
    assert channel.answer(DONE, NONCE, timeout_s=1)[0] == Frame(DONE, NONCE, claim_ns=7)
