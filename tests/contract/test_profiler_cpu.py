"""Profiling real C programs with what this machine has."""

import shutil
from pathlib import Path

import pytest

from ridgeline.graph.contract import judge_commands
from tests.rooms import open_room, script_contract

KERNEL = """\
void scale(float *out, const float *in, int n) {
    for (int i = 0; i < n; i++) {
        out[i] = in[i] * 2.0f;
    }
}
"""
MAIN = """\
#include <stdio.h>
void scale(float *out, const float *in, int n);
static float a[4096], b[4096];
int main(void) {
    for (int r = 0; r < 5; r++) scale(b, a, 4096);
    printf("calls=5\\nkernel_time_us=1.5\\n");
    return 0;
}
"""
MAKEFILE = """\
all:
\tmkdir -p build
\tgcc -O3 -mavx2 -c kernel.c -o build/kernel.o $(CFLAGS_EXTRA)
\tgcc -O1 main.c build/kernel.o -o build/main
"""
FILES = {"kernel.c": KERNEL, "main.c": MAIN, "Makefile": MAKEFILE, "test.sh": "#!/bin/sh\n", "bench.sh": "#!/bin/sh\n"}
pytestmark = pytest.mark.slow
needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "make", "valgrind"))), reason="needs gcc, make and valgrind"
)


@pytest.fixture
def room(make_repository, tmp_path: Path):
    def make(files=None, **fields):
        repository = make_repository({**FILES, **(files or {})})
        own = {
            "kernel_source": ("kernel.c",),
            "rebuild": {"required": True, "command": ("make", "-s")},
            "profile": {"command": ("build/main",), "kernel": "scale"},
        }
        return open_room(repository, tmp_path / "campaign", script_contract(**{**own, **fields}))

    return make


@needs_tools
def test_counters_of_the_kernel_and_what_the_compiler_said(room):
    here = room()
    profiled = here.profiler().profile(here.base, purpose="round-1")
    assert profiled is not None
    assert profiled.rung in ("perf", "cachegrind")
    assert profiled.counter("kernel_time_us") == 1.5
    assert profiled.counter("vectorized_loops") == 1
    assert profiled.counter("missed_vectorizations") == 0
    assert profiled.report is not None
    assert here.artifacts.get(profiled.report)
    instructions = profiled.counter("instructions")
    assert instructions is not None
    if profiled.rung == "cachegrind":
        assert any(note.startswith("perf") for note in profiled.notes)
        assert 5 * 4096 / 8 < instructions < 5 * 4096 * 2
        assert profiled.counter("instructions_per_call") == instructions / 5
        assert any("inside scale" in note for note in profiled.notes)


@pytest.mark.skipif(not all(map(shutil.which, ("gcc", "make"))), reason="needs gcc and make")
def test_the_compiler_alone_says_which_loops_became_vectors(room):
    here = room({"main.c": MAIN.replace("return 0;", "return 9;")})
    seen = here.profiler().inspect(here.base, purpose="round-2 deep step 1")
    assert (seen.rung, seen.counter("vectorized_loops")) == ("compiler_report", 1)
    assert seen.counter("kernel_time_us") is None, "nothing ran"


@needs_tools
def test_fewer_instructions_are_seen_as_fewer(room):
    here = room()
    slower = here.candidate({"kernel.c": '#pragma GCC optimize("O0")\n' + KERNEL})
    profiler = here.profiler()
    counts = [profiler.profile(commit, purpose="p").counter("instructions") for commit in (here.base, slower)]
    assert counts[1] > 3 * counts[0]


@needs_tools
def test_a_kernel_that_is_not_there_is_said(room):
    here = room(profile={"command": ("build/main",), "kernel": "scael"})
    profiled = here.profiler().profile(here.base, purpose="p")
    assert profiled is not None
    if profiled.rung == "cachegrind":
        assert any("'scael'" in note and "whole command" in note for note in profiled.notes)
        assert profiled.counter("instructions") > 20_000


@needs_tools
def test_a_time_that_is_not_printed_is_not_given(room):
    here = room({"main.c": MAIN.replace("kernel_time_us", "took")})
    profiled = here.profiler().profile(here.base, purpose="p")
    assert profiled is not None
    assert profiled.counter("kernel_time_us") is None
    assert any("kernel_time_us" in note for note in profiled.notes)


def test_a_command_that_fails_has_no_counters(room):
    here = room(profile={"command": "sh -c 'exit 3'"}, rebuild={"required": False})
    profiled = here.profiler().profile(here.base, purpose="p")
    assert profiled is not None
    assert (profiled.rung, profiled.counters) == ("timing_only", ())
    assert "exit code 3" in profiled.notes[0]


def test_a_build_that_does_not_pass_flags_on_is_named(room):
    here = room({"Makefile": MAKEFILE.replace("$(CFLAGS_EXTRA)", "")})
    profiled = here.profiler().profile(here.base, purpose="p")
    assert profiled is not None
    assert profiled.counter("vectorized_loops") is None
    assert any("CFLAGS_EXTRA" in note for note in profiled.notes)


def test_no_profile_command_no_profile(room):
    here = room(profile=None)
    assert here.profiler().profile(here.base, purpose="p") is None


ILLEGAL = """\
#include <signal.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        if (strstr(line, "vgpreload")) raise(SIGILL);
    }
    printf("kernel_time_us=2\\n");
    return 0;
}
"""


@needs_tools
def test_an_instruction_that_the_simulator_does_not_know_leads_to_the_next_rung(room):
    here = room({"main.c": ILLEGAL})
    profiled = here.profiler().profile(here.base, purpose="p")
    assert profiled is not None
    if profiled.rung != "perf":
        assert profiled.rung == "compiler_report"
        assert any("SIGILL" in note for note in profiled.notes)
    assert profiled.counter("kernel_time_us") == 2
    assert profiled.counter("vectorized_loops") == 1


TASK = """\
task: 1
name: scale
language: c
source: [kernel.c]
entry: scale
inputs: [{name: x, shape: [n]}]
outputs: [{name: y, shape: [n]}]
shapes: [{label: small, dims: {n: 4096}}]
build: {flags: [-O3, -mavx2]}
"""
JUDGED = "#include <stdint.h>\nvoid scale(const float *x, float *y, int64_t n) {\n%s}\n"
LOOP = "    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];\n"
WRITTEN = """\
    for (int64_t i = 0; i + 8 <= n; i += 8) {
        __m256 a = _mm256_loadu_ps(x + i);
        _mm256_storeu_ps(y + i, _mm256_add_ps(a, a));
    }
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_a_tasks_kernel_is_explained_by_the_compiler_that_the_judge_runs(make_repository, tmp_path: Path):
    """Seen: pages of judged C kernels that told no option of the compiler and nothing of vectors."""
    files = {"task.yaml": TASK, "reference.py": "def reference(x):\n    return 2 * x\n", "kernel.c": JUDGED % LOOP}
    contract = script_contract(**judge_commands("task.yaml"), kernel_source=("kernel.c",), profile=None)
    here = open_room(make_repository(files), tmp_path / "campaign", contract)
    seen = here.profiler().profile(here.base, purpose="baseline")
    assert seen.rung == "compiler_report"
    assert seen.notes[0].startswith("compiled with -fPIC -O3 -mavx2 ")
    assert {c.name: c.value for c in seen.counters} == {
        "vectorized_loops": 1,
        "missed_vectorizations": 0,
        "explicit_vectors": 0,
    }
    written = here.candidate({"kernel.c": "#include <immintrin.h>\n" + JUDGED % WRITTEN})
    counters = {c.name: c.value for c in here.profiler().profile(written, purpose="round-2").counters}
    assert counters == {"vectorized_loops": 0, "missed_vectorizations": 1, "explicit_vectors": 2}
    broken = here.candidate({"kernel.c": JUDGED % "    no;\n"})
    refused = here.profiler().inspect(broken, purpose="round-3")
    assert (refused.rung, refused.counters) == ("timing_only", ())
    assert "does not compile" in refused.notes[0]
