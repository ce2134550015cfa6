"""The formats of valgrind's simulators and of perf and gcc, on recorded snippets."""

from pathlib import Path
from typing import cast

import pytest

from ridgeline.graph.contract import judge_commands
from ridgeline.sandbox.profiles.profilers import cpu
from ridgeline.sandbox.profiles.profilers.cpu import MalformedFile, last_level, parse_cachegrind, parse_printed
from ridgeline.sandbox.workspace.commands import Commands
from tests.builders import make_contract

CACHEGRIND = """\
desc: I1 cache:         32768 B, 64 B, 8-way associative
cmd: ./k
events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim
fl=./elf/../bits/stdlib-bsearch.h
fn=intel_check_word.constprop.0
27 96 0 0 0 0 0 0 0 0 0 0 0 0
fl=???
fn=matmul
0 5617398 2 2 1572876 1027 512 12297 768 256 798915 12516 0 0
1 2 0 0 0 0 0 0 0 0 0 0 0 0
summary: 5743877 1208 1189 1601685 2316 1499 22796 1173 605 823998 15700 292 155
"""
CALLGRIND = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
cmd:  ./s
desc: LL cache: 33554432 B, 64 B, 16-way associative
positions: line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim
summary: 922291 270580 49291 6 48 339 6 13 257 49236 31 24579 5

ob=(4) /usr/lib/x86_64-linux-gnu/libm.so.6
fl=(159) ./math/../sysdeps/ieee754/flt-32/math_config.h
fn=(616) __expf_fma
67 24576 0 0 1 0 0 1
fi=(160) ./math/../sysdeps/ieee754/flt-32/e_expf.c
-7 24576
+11 49152
fe=(159)
* 24576

ob=(6) /home/s
fl=(151) ???
fn=(604) main
cfn=(606) softmax
calls=1 0 
0 307849 90346 16513 6 26 259 6 13 257 16466 21 8195 5
cfn=(606)
calls=2 0 
0 614442 180234 32778 0 22 80 0 0 0 32770 10 16384

fn=(606)
0 51 3 18 1 0 0 1 0 0 3
cob=(4)
cfn=(616)
calls=12285 67 
0 356265 98280 0 0 3 0 0 3 0 12285
0 49167 12291 12291 1 0 0 1 0 0 12288 11

totals: 922291 270580 49291 6 48 339 6 13 257 49236 31 24579 5
"""


def values(named):
    return {item.name: item.value for item in named}


def test_cachegrind_attributes_by_function_and_sums_read_and_write_misses():
    costs = parse_cachegrind(CACHEGRIND)
    assert values(costs.functions) == {"matmul": 5617400, "intel_check_word.constprop.0": 96}
    assert values(costs.counters()) == {
        "instructions": 5743877,
        "data_reads": 1601685,
        "data_writes": 22796,
        "d1_misses": 2316 + 1173,
        "ll_misses": 1189 + 1499 + 605,
        "branch_misses": 15700 + 155,
    }
    assert costs.count_calls("matmul") == 0


def test_callgrind_names_are_expanded_and_callees_are_not_counted_twice():
    costs = parse_cachegrind(CALLGRIND)
    assert values(costs.functions) == {"__expf_fma": 24576 * 3 + 49152, "softmax": 51 + 49167}
    assert costs.count_calls("softmax") == 3
    assert costs.count_calls("__expf_fma") == 12285
    assert values(costs.counters())["d1_misses"] == 48 + 339


def test_without_cache_simulation_only_what_was_on():
    assert values(parse_cachegrind("events: Ir\nfn=f\n1 10\nsummary: 10\n").counters()) == {"instructions": 10}


def test_trailing_zeros_that_were_not_written():
    assert values(parse_cachegrind("events: Ir Bcm\nfn=f\n1 10\ntotals: 0\n").totals) == {"Ir": 0, "Bcm": 0}


@pytest.mark.parametrize("text", ["", "events: Ir\nfn=f\n1 2\n", "summary: 3\n"])
def test_a_file_that_was_cut_off(text):
    with pytest.raises(MalformedFile):
        parse_cachegrind(text)


@pytest.mark.parametrize(
    ("size", "geometry"),
    [
        (32 * 1024 * 1024, "33554432,16,64"),
        (36 * 1024 * 1024, "33554432,16,64"),
        (1024, "1024,16,64"),
        (1023, None),
        (None, None),
    ],
)
def test_geometry_valgrind_accepts(size, geometry):
    assert last_level(size) == geometry


def test_perf_counts_only_what_was_counted():
    text = (
        "# started on Sat Nov 21\n\n"
        "5743877,,instructions:u,1000,100.00,1.2,insn per cycle\n"
        "<not supported>,,cycles,0,100.00,,\n"
        "<not counted>,,LLC-load-misses,0,0.00,,\n"
        "123,,branch-misses,1000,100.00,,\n"
        "7,,context-switches,1,1,,\n"
    )
    assert values(cpu.parse_perf(text)) == {"instructions": 5743877, "branch_misses": 123}


REMARKS = """\
kernel.c:6:23: missed: couldn't vectorize loop
kernel.c:6:23: missed: not vectorized: loop nest containing two or more consecutive inner loops cannot be vectorized
kernel.c:17:27: missed: couldn't vectorize loop
kernel.c:17:27: optimized: loop vectorized using 32 byte vectors
kernel.c:17:27: optimized:  loop versioned for vectorization because of possible aliasing
kernel.c:17:27: optimized: loop vectorized using 16 byte vectors
./kernel.c:8:27: optimized: loop vectorized using 32 byte vectors
bench.c:3:1: optimized: loop vectorized using 32 byte vectors
test.c:9:9: missed: couldn't vectorize loop
"""


def test_remarks_count_loops_of_the_kernel_only():
    counters, notes = cpu.parse_remarks(REMARKS, ["kernel.c", "kernel.h"])
    assert values(counters) == {"vectorized_loops": 2, "missed_vectorizations": 1}
    assert notes == (
        "gcc: kernel.c:6:23: not vectorized: loop nest containing two or more consecutive inner loops cannot be vectorized",
    )


def test_remarks_on_a_long_file_are_of_the_timed_function_and_what_it_calls():
    text = (
        "static int add(int a) {\n    return a;\n}\nvoid other(void) {\n}\nint timed(void) {\n    return add(1);\n}\n"
    )
    lines = cpu.find_timed_lines({"src/long.c": text}, "timed")
    output = "".join(
        f"harness/../src/long.c:{line}:1: missed: couldn't vectorize loop\n" for line in (2, 5, 7)
    )  # an included file is named by the way to it
    counters, notes = cpu.parse_remarks(output, ["src/long.c"], lines)
    assert values(counters) == {"vectorized_loops": 0, "missed_vectorizations": 2}
    assert [note.split()[1] for note in notes] == ["src/long.c:2:1:", "src/long.c:7:1:"]
    assert cpu.find_timed_lines({"src/long.c": text}, None) == {}


def test_no_remarks_no_counters():
    assert cpu.parse_remarks("gcc -c kernel.c\n", ["kernel.c"]) == ((), ())


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("calls=3\nkernel_time_us=12.5\n", {"calls": 3, "kernel_time_us": 12.5}),
        ("kernel_time_us=1\nkernel_time_us=2\n", {"kernel_time_us": 2}),
        ("my_kernel_time_us=5\nkernel_time_us = 5\n", {}),
        ("kernel_time_us=0\n", {}),
        ("kernel_time_us=1e\n", {}),
        ("kernel_time_us=1e999\n", {}),
    ],
)
def test_times_are_read_never_invented(output, found):
    assert dict(parse_printed(output)) == found


def test_python_is_not_simulated():
    nowhere = cpu.Tree(path=Path("/nowhere"), argv=("python3", "bench.py"), kernel=None, cache_bytes=None)
    seen = cpu.simulate(cast(Commands, None), nowhere)
    assert isinstance(seen, cpu.Unavailable)
    assert "not tried on Python" in seen.why


SAID_BY_V = """\
COLLECT_GCC_OPTIONS='-O3' '-D' 'N=1' '-mavx2' '-Iinclude' '-c' '-o' 'k.o' '-fopt-info-vec-missed' '-v' '-march=x86-64'
 /usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -v ./src/kernel.c -quiet -dumpbase kernel.c -mavx2 -O3 -o /tmp/ccu5LYMy.s
COLLECT_GCC_OPTIONS='-O0' '-c' '-o' 'main.o' '-v' '-dumpdir' '/tmp/x/main.'
 /usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -v main.c -quiet -dumpbase main.c -O0 -o /tmp/ccx.s
"""


def test_the_options_are_those_that_the_kernels_own_file_was_compiled_with():
    assert cpu.parse_flags(SAID_BY_V, ["src/kernel.c"]) == "-O3 -D N=1 -mavx2 -march=x86-64"
    assert cpu.parse_flags(SAID_BY_V, ["main.c"]) == "-O0"
    assert cpu.parse_flags(SAID_BY_V, ["other.c"]) == cpu.parse_flags("", ["main.c"]) == ""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("void f(float *x) {\n    for (int i = 0; i < 8; i++) x[i] += 1;  // _mm256_add_ps\n}\n", 0),
        ("void vec_dot_f32(float *x) { x[0] = 1; }\n", 0),
        ("void f(float *x) {\n    __m128 a = _mm_loadu_ps(x);\n    _mm_storeu_ps(x, _mm_mul_ps(a, a));\n}\n", 2),
        ("typedef float v8 __attribute__((vector_size(32)));\nvoid f(v8 *o) {\n    *o = *o * *o;\n    v8 b;\n}\n", 3),
        ("void f(float *x) {\n    float32x4_t a = vld1q_f32(x);\n}\n", 1),
    ],
)
def test_lines_that_are_written_in_vectors_are_counted(text, count):
    assert cpu.count_vector_lines({"k.c": text}, {}) == count


def test_only_the_timed_functions_vectors_count():
    text = "void slow(float *x) { x[0] = 1; }\nvoid fast(float *x) {\n    __m128 a = _mm_loadu_ps(x);\n}\n"
    counts = {
        name: cpu.count_vector_lines({"k.c": text}, cpu.find_timed_lines({"k.c": text}, name))
        for name in ("slow", "fast")
    }
    assert counts == {"slow": 0, "fast": 1}


@pytest.mark.parametrize(
    ("fields", "there"),
    [
        ({"profile": {"command": ("./bench",)}}, True),
        ({"profile": None}, False),
        ({**judge_commands("task.yaml"), "target_backend": "C", "profile": None}, True),
        ({**judge_commands("task.yaml"), "target_backend": "TRITON", "profile": None}, False),
    ],
)
def test_who_answers_a_question_away_from_the_machine_knows_whether_a_profile_would_have_to_be_made(fields, there):
    assert cpu.is_profiled(make_contract(**fields)) is there
