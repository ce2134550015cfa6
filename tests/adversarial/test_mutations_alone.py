"""Each remaining defence switched off lets its own class through, and keeps it out when it stands.

The suite's cheats fall to several defences at once; these are made to fall to one, or to two where either would do.
"""

import statistics
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from ridgeline.sandbox.isolation.workers import machine_isolation
from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.judgment import CandidateJudgment
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import Session
from ridgeline.sandbox.judge.task_file import load_task
from ridgeline.sandbox.judge.timing import TimedPairs, TimingRefused, block_log_ratios
from tests.adversarial.suite import cheats, honest, stage

BY_ID = {case.id: case for case in (*cheats(), *honest())}
ADDING = """#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
%s
void vector_add(const float *x, const float *y, float *out, int64_t n) {
    %s
    for (int64_t i = 0; i < n; i++) out[i] = x[i] + y[i];
    %s
}
"""
HONEST = ADDING % ("", "", "")
REMEMBERED = ADDING % (
    "static const float *kept_x[99], *kept_y[99]; static float *kept_out[99]; static int64_t sizes[99];",
    """int slot = 0;
    while (slot < 98 && sizes[slot] && sizes[slot] != n) slot++;
    if (!sizes[slot]) sizes[slot] = n, kept_x[slot] = x, kept_y[slot] = y, kept_out[slot] = out;
    x = kept_x[slot], y = kept_y[slot], out = kept_out[slot];""",
    "",
)
"""Addresses of the first call of each size, as a recorded graph has them."""
CLOBBERING = ADDING % ("", "", "if (n > 0) ((float *)x)[n / 2] += 1;")
NARROW = """#include <stdint.h>
static float kept(float v) { return v > 50 ? 50 : v < -50 ? -50 : v; }
void vector_add(const float *x, const float *y, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = kept(x[i]) + kept(y[i]);
}
"""
"""Right where inputs are small, as a format with few exponents is."""
CONVICTED = ADDING % ("", "if (n < -1) _exit(0);", "")
"""Ends the process of whoever runs it, where that line is ever reached."""
OTHERS = ADDING % ("extern void sgemm_(void) __attribute__((weak));", "if (n < -1) sgemm_();", "")
SPLITTING = ADDING % (
    """static int forked;
__attribute__((constructor)) static void stay(void) {
    int child = fork();
    if (!child) sleep(3), _exit(0);
    forked = child > 0;
}""",
    "",
    "if (forked) out[0] += 1;",
)
"""Wrong wherever it could start a process before the first call."""
LATE = ADDING % ("static int64_t calls;", "if (n > 200000 && ++calls > 1) return;", "")
"""Does nothing from its second large call on."""
FORGED = """import functools
import gc
import numpy
def forget(answer, result):
    answer[16:24] = bytes(8)
    return bytes(answer[40:])
def forge(prepare, ready, *words):
    prepare(*words)
    for head, (entry, arguments, _, answer) in ready.items():
        ready[head] = entry, arguments, functools.partial(forget, answer), answer
for one in gc.get_objects():
    if type(one).__name__ == "Worker":
        one._prepare = functools.partial(forge, one._prepare, one._prepared)
def vector_add(x, y, out):
    numpy.add(x, y, out=out)
"""
"""Puts a time of nothing in place of the one that the harness has taken, in each answer that it keeps at hand."""
PLAIN = "import numpy\ndef vector_add(x, y, out):\n    numpy.add(x, y, out=out)\n"


LARGE = {"n": 2_200_000}
"""So many that moving them takes far longer than an empty call."""
PAIRS = 10
"""Process pairs that a candidate is timed in at most, as in a judgement."""
BLOCKS = Options().blocks
C, NUMPY = "b7_memset", "vector_add-vector_add_ufunc"
"""Cases in whose place a candidate is put."""


def judged(stack: ExitStack, folder, new: str, *off: str, like: str = C, old: str | None = None) -> CandidateJudgment:
    """`new` against `old` in the task of that case, with these defences off."""
    staged = stage(BY_ID[like], folder / "-".join(("task", *off)))
    task, home = load_task(staged.task_file)
    (staged.candidate / task.source[0]).write_text(new)
    if old is not None:
        (staged.against / task.source[0]).write_text(old)
    versions = [stack.enter_context(freeze_sources(task, place)) for place in (staged.candidate, staged.against)]
    reference = stack.enter_context(Reference(task, home))
    options = Options(without=frozenset(off), device="cpu")
    return CandidateJudgment(task=task, reference=reference, new=versions[0], old=versions[1], options=options)


def correct(folder, new: str, *off: str) -> bool:
    """By tests alone: the long run would refuse once more what they do."""
    with ExitStack() as stack:
        return judged(stack, folder, new, "own_work", "long_run", *off).judge_correctness().correct.answer == "yes"


def timed(folder, new: str, *off: str, like: str = C, old: str | None = None, blocks: int = 2) -> float | TimingRefused:
    """How much faster than the other version one process pair finds it, or why it does not."""
    with ExitStack() as stack:
        one = judged(stack, folder, new, *off, like=like, old=old)
        shape = one.task.timed[-1].model_copy(update={"dims": LARGE})
        pairs = TimedPairs(bench=one.bench(np.random.default_rng()))
        slots = pairs.run({"a": one.opener(one.old), "b": one.opener(one.new)}, (shape,), blocks=blocks)
        if isinstance(slots, TimingRefused):
            return slots
        return float(np.exp(statistics.median(next(iter(block_log_ratios(slots).values())))))


def refused(folder, new: str, *off: str, like: str = C, old: str | None = None) -> TimingRefused:
    """Why one of several process pairs refuses it: a busy machine makes empty calls long in some."""
    for attempt in range(PAIRS):
        found = timed(folder / str(attempt), new, *off, like=like, old=old, blocks=BLOCKS)
        if isinstance(found, TimingRefused):
            return found
    raise AssertionError(f"not refused in {PAIRS} process pairs")


def gains(folder, new: str, *off: str, like: str = C, old: str | None = None) -> Iterator[float]:
    """How much faster each of several process pairs finds it, without those that refuse it."""
    found = (timed(folder / str(attempt), new, *off, like=like, old=old) for attempt in range(PAIRS))
    return (one for one in found if not isinstance(one, TimingRefused))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "alone", "others"),
    [
        (REMEMBERED, "addresses", ()),
        (CLOBBERING, "input_hash", ("static",)),
        (NARROW, "mixes", ("probes",)),
        (NARROW, "probes", ("mixes",)),
        (CONVICTED, "static", ()),
    ],
    ids=["addresses", "input_hash", "mixes", "probes", "static"],
)
def test_tests_refuse_it_by_one_defence_and_pass_it_without(text, alone, others, tmp_path):
    assert not correct(tmp_path, text, *others)
    assert correct(tmp_path, text, *others, alone)


@pytest.mark.slow
def test_the_honest_version_of_these_passes(tmp_path):
    assert correct(tmp_path, HONEST)


@pytest.mark.slow
def test_what_does_nothing_when_timed_falls_to_judged_timing_and_without_it_to_physics(tmp_path):
    assert refused(tmp_path, LATE).side == "b"
    assert "too little to move its bytes" in refused(tmp_path, LATE, "judged_timing").detail
    assert any(one > 1.5 for one in gains(tmp_path, LATE, "judged_timing", "physics"))


@pytest.mark.slow
def test_a_forged_time_counts_only_where_the_judges_own_clock_does_not(tmp_path):
    assert any(one < 3 for one in gains(tmp_path, FORGED, "physics", like=NUMPY, old=PLAIN))
    found = refused(tmp_path, FORGED, "own_clock", like=NUMPY, old=PLAIN)
    assert "too little to move its bytes" in found.detail
    assert any(one > 100 for one in gains(tmp_path, FORGED, "own_clock", "physics", like=NUMPY, old=PLAIN))


class Unsteady(Session):
    """On a machine where most empty calls, but not all, take longer than the kernel does."""

    pings = 0

    def ping(self) -> float:
        self.pings += 1
        return super().ping() + (0 if self.pings % 4 == 0 else 2000)


@pytest.mark.slow
def test_an_honest_kernel_shorter_than_empty_calls_vary_is_not_called_impossible(tmp_path):
    with ExitStack() as stack:
        one = judged(stack, tmp_path, HONEST)
        shape = one.task.timed[-1].model_copy(update={"dims": {"n": 30_000}})
        opened = {
            side: lambda version=version: Unsteady(one.task, version.folder)
            for side, version in (("a", one.old), ("b", one.new))
        }
        slots = TimedPairs(bench=one.bench(np.random.default_rng())).run(opened, (shape,), blocks=2)
    assert not isinstance(slots, TimingRefused)


@pytest.mark.slow
@pytest.mark.skipif(machine_isolation().level != "namespaces", reason="workers are isolated only weakly here")
def test_a_process_that_would_stay_beside_the_worker_never_begins(tmp_path):
    assert any(one > 0 for one in gains(tmp_path, SPLITTING)), "where it cannot fork, it is right"
    assert "timed:" in refused(tmp_path, SPLITTING, "isolation").detail, "where it can, it is wrong"


@pytest.mark.slow
def test_ready_made_operators_are_told_and_without_looking_nothing_is_vouched_for(tmp_path):
    said = {}
    for off in ((), ("own_work",)):
        with ExitStack() as stack:
            said[off] = judged(stack, tmp_path, OTHERS, *off, "static").judge_correctness()
    assert said[()].correct.answer == said[("own_work",)].correct.answer == "yes"
    assert (said[()].own_work.answer, said[("own_work",)].own_work.answer) == ("no", "unverified")
