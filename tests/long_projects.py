"""A project like a quantization library: thousands of lines in one file, a header of blocks, one function timed by a harness."""

from collections.abc import Mapping

import yaml

TIMED = "quantize_row_q4_K"
LINES = 5638
HEADER = "label,Check,Melem/s,Time (ms)"
OPENING = """#include <assert.h>
#include <math.h>
#include <string.h>
#include "quants.h"

#define GROUP_MAX_EPS 1e-15f
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static inline int nearest_int(float fval) {
    assert(fabsf(fval) <= 4194303.f);
    float val = fval + 12582912.f;
    int i;
    memcpy(&i, &val, sizeof(int));
    return (i & 0x007fffff) - 0x00400000;
}
"""
OTHER = """
#define Q{n}_TILE_ROWS 8
// ====================== {n}-bit family, superblocks of 256
static float make_scale_{n}(int n, int nmax, const float * RESTRICT x, int8_t * RESTRICT L) {{
    float most = 0, amax = 0;
    for (int i = 0; i < n; ++i) {{
        float ax = fabsf(x[i]);
        if (ax > amax) {{ amax = ax; most = x[i]; }}
    }}
    if (amax < GROUP_MAX_EPS) {{ memset(L, 0, n); return 0.f; }}
    float iscale = -nmax / most;
    float sumlx = 0, suml2 = 0;
    for (int i = 0; i < n; ++i) {{
        int l = MAX(-nmax, MIN(nmax - 1, nearest_int(iscale * x[i])));
        L[i] = l + nmax;
        sumlx += x[i] * x[i] * x[i] * l;
        suml2 += x[i] * x[i] * l * l;
    }}
    return suml2 ? sumlx / suml2 : 0.0f;
}}

void quantize_row_x{n}(const float * RESTRICT x, block_x{n} * RESTRICT y, int64_t k) {{
    const int nb = k / QK_K;
    for (int i = 0; i < nb; i++) {{
        int8_t L[32];
#if defined(__AVX2__)
        for (int j = 0; j < QK_K / 32; ++j) {{
#else
        for (int j = 0; j < QK_K / 32; j++) {{
#endif
            y[i].d[j] = make_scale_{n}(32, 8, x + i * QK_K + 32 * j, L);
            for (int t = 0; t < 32; t += Q{n}_TILE_ROWS) {{
                memcpy(y[i].qs + 32 * j + t, L + t, Q{n}_TILE_ROWS);
            }}
        }}
    }}
}}
"""
KERNEL = """
#define Q4K_TILE 4

/* Scale and minimum of 32 values. */
static float make_qkx2_quants(int n, int nmax, const float * x, uint8_t * L, float * the_min) {
    float min = x[0];
    float max = x[0];
    float spread = 0;
    for (int i = 0; i < n; ++i) {
        if (x[i] < min) min = x[i];
        if (x[i] > max) max = x[i];
        spread += x[i] * x[i];
    }
    if (max == min || spread == 0) { memset(L, 0, n); *the_min = -min; return 0.f; }
    float iscale = nmax / (max - min);
    for (int i = 0; i < n; ++i) {
        L[i] = MAX(0, MIN(nmax, nearest_int(iscale * (x[i] - min))));
    }
    *the_min = -min;
    return 1 / iscale;
}

void quantize_row_q4_K(const float * x, block_q4_K * y, int64_t k) {
    assert(k % QK_K == 0);
    const int nb = k / QK_K;
    uint8_t L[QK_K];
    for (int i = 0; i < nb; i++) {
        for (int j = 0; j < QK_K / 32; ++j) {
            y[i].scales[j] = make_qkx2_quants(32, 15, x + 32 * j, L + 32 * j, &y[i].mins[j]);
        }
        for (int j = 0; j < QK_K / 2; j += Q4K_TILE) {
            for (int t = 0; t < Q4K_TILE; ++t) y[i].qs[j + t] = L[j + t] | (L[j + t + QK_K / 2] << 4);
        }
        x += QK_K;
    }
}
"""
TYPES = """#pragma once
#include <stdint.h>
#define RESTRICT restrict
#define QK_K 256
typedef struct {
    float scales[QK_K / 32];
    float mins[QK_K / 32];
    uint8_t qs[QK_K / 2];  // quants, 4 bits
} block_q4_K;
"""
OTHER_TYPE = "typedef struct {{ float d[QK_K / 32]; int8_t qs[QK_K]; uint8_t pad_{n}; }} block_x{n};\n"
TABLE = "static const uint64_t grid_{n}[16] = {{" + ", ".join(f"0x{n:016x}" for n in range(16)) + "}};\n"
TEST = """#include <math.h>
#include <stdio.h>
#include "quants.h"
void quantize_row_q4_K(const float * x, block_q4_K * y, int64_t k);

static int near_enough(const float * x, const block_q4_K * y) {
    for (int i = 0; i < QK_K; ++i) {
        int q = i < QK_K / 2 ? y->qs[i] & 15 : y->qs[i - QK_K / 2] >> 4;
        if (fabsf(y->scales[i / 32] * q - y->mins[i / 32] - x[i]) > 0.6f * y->scales[i / 32] + 1e-6f) return 0;
    }
    return 1;
}

int main(void) {
    static float x[8 * QK_K];
    static block_q4_K y[8];
    for (int i = 0; i < 8 * QK_K; ++i) x[i] = sinf(i) * (i % 7);
    quantize_row_q4_K(x, y, 8 * QK_K);
    for (int i = 0; i < 8; ++i) if (!near_enough(x + i * QK_K, y + i)) return printf("MISMATCH in block %d\\n", i), 1;
    return puts("PASS"), 0;
}
"""
BENCH = '''#!/usr/bin/env python3
"""Times one function of the library; --pair interleaves two builds of it."""
import ctypes, random, sys, time

SIZES = {"small": 1 << 14, "large": 1 << 17}

def timed_call(folder, size):
    function = ctypes.CDLL(f"{folder}/build/libquants.so").quantize_row_q4_K
    x = (ctypes.c_float * size)(*(0.5 - (i * 37 % 101) / 101 for i in range(size)))
    y = ctypes.create_string_buffer(size)
    def call():
        start = time.perf_counter_ns()
        function(x, y, ctypes.c_int64(size))
        return (time.perf_counter_ns() - start) / 1e3
    return call

if sys.argv[1] == "bench":
    rows = ["label,Check,Melem/s,Time (ms)"]
    for label in (sys.argv[3].split(",") if len(sys.argv) > 3 else SIZES):
        call = timed_call(".", SIZES[label])
        us = min(call() for _ in range(20))
        rows.append(f"{label},PASS,{SIZES[label] / us},{us / 1e3}")
    open(sys.argv[2], "w").write("\\n".join(rows) + "\\n")
else:
    a, b, csv, shapes, blocks, seed = sys.argv[2:]
    rows = ["label,block,slot,side,time_us"]
    for label in shapes.split(","):
        calls = {"a": timed_call(a, SIZES[label]), "b": timed_call(b, SIZES[label])}
        for block in range(int(blocks)):
            for slot, side in enumerate("abba"):
                rows.append(f"{label},{block},{slot},{side},{min(calls[side]() for _ in range(5))}")
    open(csv, "w").write("\\n".join(rows) + "\\n")
'''
MAKEFILE = """all: build/libquants.so build/test_quants
build/libquants.so: quants.c quants.h
\tmkdir -p build && gcc -O2 -fPIC -shared quants.c -o $@ -lm
build/test_quants: test_quants.c build/libquants.so
\tgcc -O2 test_quants.c -o $@ -Lbuild -lquants -Wl,-rpath,'$$ORIGIN' -lm
"""


def quants(lines: int = LINES) -> str:
    """The source: half of the other quantizers, the timed one, and the other half."""
    count = (lines - (OPENING + KERNEL).count("\n")) // OTHER.count("\n")
    others = [OTHER.format(n=n) for n in range(count)]
    text = OPENING + "".join(others[: count // 2]) + KERNEL + "".join(others[count // 2 :])
    return text + "// end\n" * (lines - text.count("\n"))


def files(lines: int = LINES, **changes: object) -> Mapping[str, str]:
    """Every file of the project, ready for a repository; `changes` of the contract."""
    source = quants(lines)
    kinds = range(source.count("void quantize_row_x"))
    contract = {
        "target_op": "quantize_f32",
        "target_backend": "C",
        "target_gpu": "cpu",
        "kernel_source": ["quants.c"],
        "protected": ["quants.h", "test_quants.c", "bench.py", "Makefile"],
        "test_command": "build/test_quants",
        "benchmark_command": "python3 bench.py bench {csv}",
        "quick_command": "python3 bench.py bench {csv} {shapes}",
        "paired_command": "python3 bench.py pair {a} {b} {csv} {shapes} {blocks} {seed}",
        "benchmark_output": {"columns": HEADER.split(",")},
        "scoring": {"primary_metric": "Melem/s", "time_ms": "Time (ms)"},
        "correctness": {"exit_patterns": ["MISMATCH"]},
        "execution_mode": "repo",
        "rebuild": {"required": True, "command": "make -s"},
        "limits": {"target_peak_fraction": 1.0},
        **changes,
    }
    return {
        "ridgeline.yaml": yaml.safe_dump(contract, sort_keys=False),
        "quants.c": source,
        "quants.h": TYPES + "".join(OTHER_TYPE.format(n=n) + TABLE.format(n=n) for n in kinds),
        "test_quants.c": TEST,
        "bench.py": BENCH,
        "Makefile": MAKEFILE,
    }
