"""Attacks on the judge that were once accepted, each by what keeps it out: sessions with real workers."""

import os

import numpy as np
import pytest

from ridgeline.graph.task import Output
from ridgeline.sandbox.isolation.workers import machine_isolation
from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.judgment import CandidateJudgment
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.provenance import PaceCalls, WorkCalls, call_every_size, judge_own_work
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import BrokenWorker, SealedCall
from tests.session_tasks import DIMS, HONEST_C, HONEST_NUMPY, N, opened, task, unopened, x

BORROWING = """
#include <stdint.h>
#include <time.h>
static long kernel(long n, long a, long b) {
    register long r10 __asm__("r10") = 0, r8 __asm__("r8") = 0;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(0), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return result;
}
#include <pthread.h>
static volatile int asked, begun;
static void *lend(void *nothing) {
    for (;;) {
        while (!asked) { struct timespec wait = {0, 100000}; nanosleep(&wait, 0); }
        asked = 0;
        if (kernel(56, 0x4000 | 0x100, 0)) continue;
        begun = 1;
        struct timespec wait = {0, 60000000};
        kernel(35, (long)&wait, 0);
        kernel(60, 0, 0);
    }
    return nothing;
}
__attribute__((constructor)) static void begin(void) { pthread_t thread; pthread_create(&thread, 0, lend, 0); }
void twice(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
    if (n < 100000) return;
    begun = 0, asked = 1;
    while (!begun) { struct timespec wait = {0, 100000}; nanosleep(&wait, 0); }
}
"""
"""A thread whose child borrows the memory of its process: until the child has ended, nothing stops the thread."""
PROCESSES = """
#include <stdint.h>
#include <pthread.h>
#include <unistd.h>
#include <sys/wait.h>
static float made[3];
static void *mark(void *nothing) { made[2] = 1; return nothing; }
void twice(const float *x, float *y, int64_t n) {
    pthread_t thread;
    int child = fork();
    if (child == 0) _exit(0);
    made[0] = child > 0;
    if (child > 0) waitpid(child, 0, 0);
    child = vfork();
    if (child == 0) _exit(0);
    made[1] = child > 0;
    if (child > 0) waitpid(child, 0, 0);
    if (!pthread_create(&thread, 0, mark, 0)) pthread_join(thread, 0);
    for (int i = 0; i < 3; i++) y[i] = made[i];
}
"""
LOCKS = """
import ctypes, fcntl, os
import numpy
file = os.open(ctypes.__file__, os.O_RDONLY)
def tried(what):
    try:
        what()
        return 1
    except OSError:
        return 0
def twice(x, y):
    y[0] = tried(lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB))
    y[1] = tried(lambda: fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB))
    y[2] = tried(lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK))
    y[3] = tried(lambda: fcntl.fcntl(file, fcntl.F_GETLK, bytes(32)))
    y[4] = tried(lambda: os.close(ctypes.CDLL(None).inotify_init1(0)))
"""

x86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the calls are those of x86_64")
filtered = pytest.mark.skipif("seccomp" in machine_isolation().missing, reason="no filters of system calls here")


@x86
def test_what_works_on_after_its_answer_is_seen_to_stand_still_late(tmp_path):
    n = 200_000
    with opened(tmp_path, BORROWING, task(dims=(n,))) as session:
        sealed = session.call({"n": n}, x(n))
        assert isinstance(sealed, SealedCall), sealed
        assert sealed.stop_us > 40_000
        sealed = session.call(DIMS, x())
        assert isinstance(sealed, SealedCall), sealed
        assert sealed.stop_us == 0  # what is copied before it stands still has no need of it


@filtered
def test_a_locked_worker_starts_threads_and_no_processes(tmp_path):
    with opened(tmp_path, PROCESSES) as session:
        sealed = session.call(DIMS, x())
        assert isinstance(sealed, SealedCall), sealed
        assert sealed.outputs["y"][:3].tolist() == [1, 1, 1]
        assert session.lock() is None
        sealed = session.call(DIMS, x())
        assert isinstance(sealed, SealedCall), sealed
        assert sealed.outputs["y"][:3].tolist() == [0, 0, 1]


UNLOCKED = """
import sys
import numpy
sys.modules["__main__"]._hold = lambda words: ""
def twice(x, y):
    numpy.multiply(x, 2, out=y)
"""


@filtered
def test_a_worker_that_only_says_that_it_is_locked_is_none(tmp_path):
    with opened(tmp_path, UNLOCKED) as session:
        assert isinstance(session.call(DIMS, x()), SealedCall)
        broken = session.lock()
        assert isinstance(broken, BrokenWorker)
        assert "does not let itself be kept" in broken.detail


@filtered
def test_locks_on_what_sides_share_say_nothing(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    with opened(tmp_path / "a", LOCKS) as first, opened(tmp_path / "b", LOCKS) as second:
        for session in (first, second):
            sealed = session.call(DIMS, x())
            assert isinstance(sealed, SealedCall), sealed
            assert sealed.outputs["y"][:5].tolist() == [1, 1, 0, 0, 0]


PINGED = """
import __main__
import numpy
pings = 0
def count(*arguments):
    global pings
    pings += 1
__main__._nothing = count
def twice(x, y):
    if pings:
        numpy.multiply(x, 2, out=y)
        return
    for place, value in enumerate(x.tolist()):
        y[place] = 2 * value
"""
"""Its own work until it sees an empty call."""


def test_own_work_is_asked_of_processes_that_see_empty_calls_like_those_that_are_timed(tmp_path):
    asked = task("python")
    (tmp_path / "kernel.py").write_text(PINGED)
    (tmp_path / "reference.py").write_text("def reference(x):\n    return 2 * x\n")
    with Reference(asked, tmp_path) as reference, freeze_sources(asked, tmp_path) as new:
        answered = judge_own_work(asked, new, reference).answered
    assert answered.answer == "no", answered
    assert "numpy.multiply" in " ".join(answered.evidence)


UNLIKE = {
    "at a second place": "places.add(x.ctypes.data) or len(places) > 1",
    "filled as timed ones are": "numpy.isnan(y).all() or abs(numpy.nan_to_num(y)).max() < 100",
    "with unusual values": "bool(places) or abs(x).max() > 30 and not places.add(1)",
    "locked": "'Seccomp_filters:\\t2' in open('/proc/self/status').read()",
}
TOLD = """
import numpy
places = set()
def twice(x, y):
    if {told}:
        numpy.multiply(x, 2, out=y)
        return
    for place, value in enumerate(x.tolist()):
        y[place] = 2 * value
"""
"""Its own work until a call tells that it is none of those that are asked whose work they are."""


@pytest.mark.parametrize("told", [pytest.param(way, marks=[filtered] * (way == "locked")) for way in UNLIKE])
def test_processes_that_are_asked_whose_work_it_is_are_called_as_timed_ones(tmp_path, told):
    asked = task("python")
    (tmp_path / "kernel.py").write_text(TOLD.format(told=UNLIKE[told]))
    (tmp_path / "reference.py").write_text("def reference(x):\n    return 2 * x\n")
    with Reference(asked, tmp_path) as reference, freeze_sources(asked, tmp_path) as new:
        # how unusual values are is drawn: not all of them tell
        answers = [
            judge_own_work(asked, new, reference).answered for _ in range(4 if told == "with unusual values" else 1)
        ]
    assert "yes" not in [answered.answer for answered in answers], answers
    assert any("numpy.multiply" in " ".join(answered.evidence) for answered in answers), answers


def test_every_timed_size_is_called_late(tmp_path):
    asked = task("python", dims=(N, 2 * N, 3))
    sizes = (*asked.shapes[:2], asked.shapes[2].model_copy(update={"timed": False}))
    with opened(tmp_path, HONEST_NUMPY, asked) as session:
        calls = call_every_size(session, WorkCalls(asked), sizes)
    assert isinstance(calls, PaceCalls)
    labels = [shape.label for shape in sizes]
    assert calls.least_us.keys() == {*labels, *(f"{label}, late" for label in labels[:2])}


STRIDED = """
import numpy
def twice(x):
    return {result}
"""


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("numpy.asfortranarray((2 * x).reshape(10, 100))", ""),
        ("numpy.repeat(2 * x, 2).reshape(10, 200)[:, ::2]", ""),
        ("numpy.broadcast_to(2 * x[:100], (10, 100))", "share memory"),
        ("numpy.repeat(2 * x, 9).reshape(10, 900)[:, ::9]", "large gaps"),
        ("x.reshape(10, 100)", "memory of the input x"),
    ],
)
def test_a_returned_array_is_read_where_it_is(tmp_path, result, says):
    given = task("python", convention="return").model_copy(update={"outputs": (Output(name="y", shape=("10", "100")),)})
    with opened(tmp_path, STRIDED.format(result=result), given) as session:
        inputs = x()
        sealed = session.call(DIMS, inputs)
        if says:
            assert isinstance(sealed, BrokenWorker)
            assert says in sealed.detail
        else:
            assert isinstance(sealed, SealedCall), sealed
            assert (sealed.outputs["y"] == 2 * inputs["x"].reshape(10, 100)).all()


MAPPED_AGAIN = """
import ctypes
import numpy
again = ctypes.CDLL(None).mremap
again.restype, again.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
def twice(x):
    start = x.ctypes.data & ~4095
    place = again(start, 0, 8192, 1) + x.ctypes.data - start
    there = numpy.frombuffer((ctypes.c_float * 1000).from_address(place), "float32")
    return numpy.append(there[:999], 1).astype("float32") if {copied} else there
"""


@pytest.mark.parametrize("copied", [False, True])
def test_an_inputs_memory_is_no_result_at_any_address(tmp_path, copied):
    given = task("python", convention="return")
    with opened(tmp_path, MAPPED_AGAIN.format(copied=copied), given) as session:
        sealed = session.call(DIMS, x())
        if copied:
            assert isinstance(sealed, SealedCall), sealed
        else:
            assert isinstance(sealed, BrokenWorker)
            assert "the memory of the input x" in sealed.detail


MANY_ARGUMENTS = """#include <stdint.h>
void twice(const float *x, float *y, {dims}) {{
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
    y[0] = {sum};
}}
"""


@pytest.mark.parametrize("count", [3, 12, 30])
def test_a_kernel_in_c_is_given_all_of_its_arguments(tmp_path, count):
    names = [f"d{number}" for number in range(count)]
    text = MANY_ARGUMENTS.format(dims=", ".join(f"int64_t {name}" for name in ("n", *names)), sum=" + ".join(names))
    given = task()
    dims = {"n": N, **{name: 1 << number % 20 for number, name in enumerate(names)}}
    shape = given.shapes[0].model_copy(update={"dims": dims})
    given = given.model_copy(update={"shapes": (shape,), "order": ("x", "y", "n", *names)})
    with opened(tmp_path, text, given) as session:
        for placement in (0, 1, 0):
            inputs = x()
            sealed = session.call(dims, inputs, placement=placement)
            assert isinstance(sealed, SealedCall), sealed
            assert sealed.outputs["y"][0] == sum(dims[name] for name in names)
            assert (sealed.outputs["y"][1:] == 2 * inputs["x"][1:]).all()


def test_constant_inputs_stay_where_calls_come_before_the_lock(tmp_path):
    pytest.importorskip("torch")
    asked = task("python", constness="const", dims=(N, 2 * N))
    (tmp_path / "kernel.py").write_text("import torch\ndef twice(x, y):\n    torch.mul(x, 2, out=y)\n")
    (tmp_path / "reference.py").write_text("def reference(x):\n    return 2 * x\n")
    with Reference(asked, tmp_path) as reference, freeze_sources(asked, tmp_path) as new:
        judgment = CandidateJudgment(task=asked, reference=reference, new=new, old=new, options=Options(device="cpu"))
        calls = judgment.time_pair(asked.timed, 1)
    assert isinstance(calls, list), calls
    assert {call.label for call in calls} == {shape.label for shape in asked.shapes}


CACHED = """
#define _GNU_SOURCE
#include <stdint.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <sys/syscall.h>
#include <unistd.h>
void twice(const float *x, float *y, int64_t n) {
    char byte;
    struct iovec into = {&byte, 1};
    int file = open("/proc/self/exe", O_RDONLY);
    y[0] = preadv2(file, &into, 1, 0, 0) == 1;
    y[1] = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0;
    y[2] = preadv2(file, &into, 1, 0, 8) == 1;
    y[3] = syscall(451, file, 0, 0, 0) == 0;
    close(file);
}
"""


@filtered
def test_pages_of_a_shared_file_say_nothing(tmp_path):
    with opened(tmp_path, CACHED) as session:
        sealed = session.call(DIMS, x())
        assert isinstance(sealed, SealedCall), sealed
        assert sealed.outputs["y"][:4].tolist() == [1, 1, 0, 0]


FILLING = """
import numpy, threading, time
made = numpy.zeros(1000, "float32")
def fill(x):
    time.sleep(0.1)
    numpy.multiply(x, 2, out=made)
def twice(x):
    threading.Thread(target=fill, args=(x,), daemon=True).start()
    return made
"""


def test_what_is_filled_after_the_answer_is_not_there(tmp_path):
    with opened(tmp_path, FILLING, task("python", convention="return")) as session:
        inputs = x()
        sealed = session.call(DIMS, inputs)
        assert isinstance(sealed, SealedCall), sealed
        assert not np.array_equal(sealed.outputs["y"], 2 * inputs["x"])


READING = {
    "incbin": '__asm__(".section .rodata\\nheld: .incbin \\"{path}\\"\\n.previous");\n{twice}',
    "include": '{twice}\n#include "{path}"\n',
    "assembler": '__asm__(".include \\"{path}\\"");\n{twice}',
    "has_include": '#if !__has_include("{path}")\n#error it is not there\n#endif\n{twice}',
}


@pytest.mark.skipif(machine_isolation().level != "namespaces", reason="builds are shut in only weakly here")
@pytest.mark.parametrize("way", READING)
def test_a_build_reads_nothing_but_sources_and_the_system(tmp_path, way):
    secret = tmp_path / "secret.h"
    secret.write_text("the key is 4711\n")
    place = tmp_path / "candidate"
    place.mkdir()
    with unopened(place, READING[way].replace("{path}", str(secret)).replace("{twice}", HONEST_C)) as session:
        broken = session.open()
        assert isinstance(broken, BrokenWorker)
        assert broken.reason == "load"
        assert "4711" not in broken.detail


LOOKING = """
#include <stdint.h>
#include <glob.h>
void twice(const float *x, float *y, int64_t n) {
    const char *where[] = {"/usr/lib/*/*blas*", "/usr/lib/*/libpython*", "/*/*/*/*/*/lib/python3*/site-packages/*",
                           "/*/*/*/*/lib/python3*/site-packages/*", "/*/*/*/lib/python3*/site-packages/*", "/usr/bin/*"};
    glob_t all;
    for (int i = 0; i < 6; i++) y[i] = glob(where[i], 0, 0, &all) ? 0 : all.gl_pathc;
}
"""


@pytest.mark.skipif(machine_isolation().level != "namespaces", reason="workers see the machine's files here")
def test_a_worker_in_c_sees_no_library_that_it_does_not_link(tmp_path):
    with opened(tmp_path, LOOKING) as session:
        sealed = session.call(DIMS, x())
        assert isinstance(sealed, SealedCall), sealed
        assert sealed.outputs["y"][[0, 2, 3, 4]].tolist() == [0, 0, 0, 0]
