"""Others' work on the timed core is taken off a call's time, and nothing that a candidate does itself is."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.sandbox.judge.session import SealedCall, Session
from ridgeline.sandbox.judge.worker import CPU_CLOCK
from ridgeline.sandbox.workspace.commands import pinned_core, pinned_to
from tests.session_tasks import DIMS, task, unopened, x

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
SHORT = WORK.replace("400000", "4000").replace("399999", "3999")
UNSEEN = f"""#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
{SHORT}
static struct {{ const float *x; float *y; int64_t n; volatile int64_t asked, done; }} job;
static int home;
static void *help(void *given) {{
    cpu_set_t others;
    CPU_ZERO(&others);
    for (int core = 0; core < 1024; core++) if (core != home) CPU_SET(core, &others);
    sched_setaffinity(0, sizeof others, &others);
    for (int64_t seen = 0;;) {{
        while (job.asked == seen) __builtin_ia32_pause();
        seen = job.asked;
        work(job.x, job.y, job.n);
        __sync_synchronize();
        job.done = seen;
    }}
}}
void twice(const float *x, float *y, int64_t n) {{
    static pthread_t thread;
    if (!thread) {{ home = sched_getcpu(); pthread_create(&thread, 0, help, 0); }}
    job.x = x; job.y = y; job.n = n;
    __sync_synchronize();
    job.asked++;
    while (job.done != job.asked) sched_yield();
}}
"""
"""A helper on another core that is at work when the answer comes, while the main thread waits beside the judge."""
PROCESS = f"""#include <unistd.h>
{ALONE}
__attribute__((constructor)) static void begin(void) {{ if (fork() == 0) for (;;) pause(); }}
"""
LOCKS_ITSELF = """
import sys
import numpy
def hold(words):
    allow_all = (0x7FFF0000 << 32 | 6).to_bytes(8, "little")
    return honest({**words, "code": allow_all.hex(), "steps": 1})
honest, sys.modules["__main__"]._hold = sys.modules["__main__"]._hold, hold
def twice(x, y):
    numpy.multiply(x, 2, out=y)
"""
BUSY = "while True: sum(range(1000))"
pytestmark = pytest.mark.usefixtures("whole_machine")
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
    with busy_core(others), unopened(folder, text, task()) as session:
        session.lock_first = True
        assert session.open() is None
        for _ in range(CALLS):
            sealed = session.call(DIMS, x())
            assert isinstance(sealed, SealedCall), sealed
            calls.append(sealed)
    return sorted(calls, key=lambda call: call.wall_us)


def test_what_others_took_of_the_core_is_no_time_of_the_call(tmp_path: Path) -> None:
    """Against what the kernel says that the worker did in the same call: a machine goes at another pace a second later."""
    shares: list[tuple[float, float]] = []
    with busy_core(4), unopened(tmp_path, ALONE, task()) as session:
        session.lock_first = True
        assert session.open() is None
        for _ in range(CALLS):
            before_us = worked_us(session)
            sealed = session.call(DIMS, x())
            assert isinstance(sealed, SealedCall), sealed
            if sealed.own_us is None:
                pytest.skip("waits for a core are not counted here, or workers are not shut in")
            did_us = worked_us(session) - before_us
            shares.append((sealed.wall_us / did_us, sealed.own_us / did_us))
    assert sorted(wall for wall, _ in shares)[CALLS // 2] > 1.5
    assert min(own for _, own in shares) > 0.95, "of no call too much was taken off"
    assert min(own for _, own in shares) < 1.2


def test_waiting_for_a_thread_of_its_own_is_time_of_the_call(tmp_path: Path) -> None:
    alone = min(call.own_us or call.wall_us for call in time_calls(tmp_path / "alone", ALONE, others=0))
    for call in time_calls(tmp_path / "helped", THREAD, others=0):
        assert call.own_us is None or call.own_us > 0.8 * alone


def test_what_a_thread_works_is_time_of_the_call_though_it_runs_on_at_its_answer(tmp_path: Path) -> None:
    hidden_us: list[float] = []
    with busy_core(0), unopened(tmp_path, UNSEEN, task()) as session:
        session.lock_first = True
        assert session.open() is None
        session.call(DIMS, x())  # its arrays are bound
        for _ in range(50):
            before_us = worked_us(session)
            sealed = session.call(DIMS, x())
            assert isinstance(sealed, SealedCall), sealed
            if sealed.own_us is None:
                pytest.skip("waits for a core are not counted here, or workers are not shut in")
            hidden_us.append(min(worked_us(session) - before_us, sealed.wall_us) - sealed.own_us)
    assert max(hidden_us) < 50


def worked_us(session: Session) -> float:
    """Time on a processor of all threads of the worker, which stands still, by the kernel."""
    return time.clock_gettime_ns((~session._running._pid << 3) | CPU_CLOCK) / 1e3


def test_a_worker_in_c_starts_no_process_from_its_first_line_on_where_waits_are_taken_off(tmp_path: Path) -> None:
    with unopened(tmp_path, PROCESS, task()) as session:
        session.lock_first = True
        assert session.open() is None
        if session.isolation_level() == "namespaces":
            assert session.processes() == 0


def test_nothing_is_taken_off_where_a_candidate_ran_before_it_was_locked(tmp_path: Path) -> None:
    for name, text in (("c", PROCESS), ("python", LOCKS_ITSELF)):
        (tmp_path / name).mkdir()
        with unopened(tmp_path / name, text) as session:
            session.lock_first = name == "python"
            assert session.open() is None
            assert session.lock() is None
            sealed = session.call(DIMS, x())
            assert isinstance(sealed, SealedCall), sealed
            assert sealed.own_us is None
