"""Others' work on the timed core is taken off a call's time, and nothing that a candidate does itself is."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.sandbox.judge.session import SealedCall
from ridgeline.sandbox.workspace.commands import pinned_core, pinned_to
from tests.session_tasks import DIMS, opened, task, x

WORK = """
#include <stdint.h>
static void work(const float *x, float *y, int64_t n) {
    for (int round = 0; round < 400000; round++)
        for (int64_t i = 0; i < n; i++) y[i] = round == 399999 ? 2 * x[i] : y[i] * 0.5f + x[i];
}
"""
ALONE = WORK + "void twice(const float *x, float *y, int64_t n) { work(x, y, n); }\n"
THREAD = f"""#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
{WORK}
struct job {{ const float *x; float *y; int64_t n; volatile int done; }};
static void *help(void *given) {{ struct job *job = given; work(job->x, job->y, job->n); job->done = 1; return 0; }}
void twice(const float *x, float *y, int64_t n) {{
    struct job job = {{x, y, n, 0}};
    pthread_t thread;
    pthread_create(&thread, 0, help, &job);
    while (!job.done) sched_yield();
    pthread_join(thread, 0);
}}
"""
PROCESS = f"""#include <unistd.h>
{ALONE}
__attribute__((constructor)) static void begin(void) {{ if (fork() == 0) for (;;) pause(); }}
"""
BUSY = "while True: sum(range(1000))"
CALLS = 7


@contextlib.contextmanager
def busy_core(count: int) -> Iterator[None]:
    """So many processes that never rest, on the core that is timed; this thread keeps to it too."""
    with pinned_to(pinned_core()):
        loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
        try:
            yield
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()


def time_calls(folder: Path, text: str, *, others: int) -> list[SealedCall]:
    """Calls of a candidate beside that many busy processes, fastest by the wall clock first."""
    folder.mkdir(exist_ok=True)
    calls: list[SealedCall] = []
    with busy_core(others), opened(folder, text, task()) as session:
        assert session.lock() is None
        for _ in range(CALLS):
            sealed = session.call(DIMS, x())
            assert isinstance(sealed, SealedCall), sealed
            calls.append(sealed)
    return sorted(calls, key=lambda call: call.wall_us)


def test_what_others_took_of_the_core_is_no_time_of_the_call(tmp_path: Path) -> None:
    alone_us = [call.own_us for call in time_calls(tmp_path / "alone", ALONE, others=0) if call.own_us is not None]
    beside = time_calls(tmp_path / "beside", ALONE, others=4)
    if not alone_us:
        pytest.skip("waits for a core are not counted here, or workers are not shut in")
    own_us = sorted(call.own_us or 0 for call in beside)
    assert beside[CALLS // 2].wall_us > 1.5 * min(alone_us)
    assert 0.8 * min(alone_us) < own_us[CALLS // 2] < 1.5 * min(alone_us)


def test_waiting_for_a_thread_of_its_own_is_time_of_the_call(tmp_path: Path) -> None:
    alone = min(call.own_us or call.wall_us for call in time_calls(tmp_path / "alone", ALONE, others=0))
    for call in time_calls(tmp_path / "helped", THREAD, others=0):
        assert call.own_us is None or call.own_us > 0.8 * alone


def test_nothing_is_taken_off_where_a_process_of_its_own_came_before_it_was_locked(tmp_path: Path) -> None:
    assert {call.own_us for call in time_calls(tmp_path, PROCESS, others=0)} == {None}
