"""Whether a gain that the harness of `init --function` tells is there for new values too: branches are learned of old ones."""

import csv
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from typing import Any

SPLIT = """#include <stddef.h>
int split_fields(const char *line, int n, int *starts) {
    int count = 0;
    starts[count++] = 0;
    for (int i = 0; i < n; i++)
        if (line[i] == 'e' || line[i] == 'k') starts[count++] = i + 1;
    return count;
}
"""
BY_BLOCKS = """#include <stddef.h>
#ifdef __SSE2__
#include <emmintrin.h>
static unsigned find(const char *line) {
    __m128i letters = _mm_loadu_si128((const __m128i *)line);
    __m128i e = _mm_cmpeq_epi8(letters, _mm_set1_epi8('e')), k = _mm_cmpeq_epi8(letters, _mm_set1_epi8('k'));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(e, k));
}
#else
static unsigned find(const char *line) {
    unsigned found = 0;
    for (int j = 0; j < 16; j++) found |= (unsigned)(line[j] == 'e' || line[j] == 'k') << j;
    return found;
}
#endif
int split_fields(const char *line, int n, int *starts) {
    int count = 0, i = 0;
    starts[count++] = 0;
    for (; i + 16 <= n; i += 16) {
        for (unsigned found = find(line + i); found; found &= found - 1) starts[count++] = i + __builtin_ctz(found) + 1;
    }
    for (; i < n; i++)
        if (line[i] == 'e' || line[i] == 'k') starts[count++] = i + 1;
    return count;
}
"""
NEW_LINES = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static uint64_t state = 88172645463325252ull;
static uint64_t draw(void) { state ^= state << 13; state ^= state >> 7; return state ^= state << 17; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec * 1e-3; }
typedef int (*Split)(const char *, int, int *);
int main(int argc, char **argv) {
    int n = atoi(argv[3]), lines = 4000000 / n, sum = argc;
    char *text = malloc((size_t)lines * (size_t)n);
    int *starts = malloc(((size_t)n + 1) * sizeof *starts);
    double best[2] = {1e18, 1e18};
    for (int turn = 0; turn < 10; turn++) {
        for (size_t i = 0; i < (size_t)lines * (size_t)n; i++) text[i] = (char)('a' + draw() % 26);
        Split split = (Split)dlsym(dlopen(argv[1 + turn % 2], RTLD_NOW), "split_fields");
        double began = now();
        for (int i = 0; i < lines; i++) sum += split(text + (size_t)i * (size_t)n, n, starts);
        double took = (now() - began) / lines;
        best[turn % 2] = took < best[turn % 2] ? took : best[turn % 2];
    }
    printf("%.6f %d\\n", best[0] / best[1], sum);
}
"""
SIZES = (240, 4000)
MOST_BESIDE = 1.15
"""The harness's ratio beside that of new lines, either way."""


def _run(*argv: str | Path, cwd: Path) -> str:
    return subprocess.run([*map(str, argv)], cwd=cwd, check=True, capture_output=True, text=True).stdout


def _read_ratio(path: Path, label: str) -> float:
    """The median over blocks of the time of a over that of b."""
    blocks: dict[str, list[float]] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["label"] == label:
                us = log(float(row["time_us"]))
                blocks.setdefault(row["block"], []).append(us / 2 if row["side"] == "a" else -us / 2)
    return exp(statistics.median(sum(block) for block in blocks.values()))


def run() -> Iterator[dict[str, Any]]:
    """A splitter of lines and one without a branch for each letter: the harness's ratio, and one of a program of its own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        first, second = folder / "first", folder / "second"
        first.mkdir()
        (first / "split.c").write_text(SPLIT)
        _run("git", "init", "-q", ".", cwd=first)
        shapes = [word for n in SIZES for word in ("--shape", f"n={n}")]
        values = ("--value", "line=97:123")
        _run(sys.executable, "-m", "ridgeline", "init", ".", "--function", "split_fields", *shapes, *values, cwd=first)
        shutil.copytree(first, second)
        (second / "split.c").write_text(BY_BLOCKS)
        harness = Path("ridgeline_split_fields")
        for side in (first, second):
            _run("make", "-s", "-f", harness / "Makefile", "all", cwd=side)
            _run("cc", "-O2", "-shared", "-fPIC", "split.c", "-o", "alone.so", cwd=side)
        (folder / "lines.c").write_text(NEW_LINES)
        _run("cc", "-O2", "lines.c", "-o", "lines", "-ldl", cwd=folder)
        out = folder / "pairs.csv"
        words = ("--csv", out, "--shapes", "all", "--blocks", "5")
        _run(first / harness / "build" / "bench", "--pair", first, second, *words, cwd=first)
        for n in SIZES:
            told = _read_ratio(out, f"n{n}")
            new = float(_run(folder / "lines", first / "alone.so", second / "alone.so", str(n), cwd=folder).split()[0])
            beside = max(told / new, new / told)
            yield {"what": f"{n} letters, without branches: as the harness tells", "value": told, "unit": "times"}
            yield {"what": f"{n} letters, without branches: a new line each time", "value": new, "unit": "times"}
            bound = {"bound": MOST_BESIDE, "ok": beside <= MOST_BESIDE}
            yield {"what": f"{n} letters: the one over the other", "value": beside, "unit": "times", **bound}
