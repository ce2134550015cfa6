"""Every rewrite of a naive C kernel, alone and on top of the ones before it, still compiles and is still right."""

import ctypes
import math
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ridgeline.agent.planner.catalog import CatalogPlanner, hypothesis_of
from ridgeline.evals.task_folders import RECORDED
from ridgeline.graph.briefing import Briefing, Proposal
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.values import FileEdit
from tests.builders import make_contract, make_machine, make_round, make_target

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
CPU = Path("/proc/cpuinfo")
MATMUL = {
    "indices": (RECORDED / "matmul_c" / "kernel.c")
    .read_text()
    .replace('#include "kernel.h"\n', "")
    .replace("_f32", ""),
    "unbraced": """#include <stddef.h>
void matmul(const float* left, const float* right, float* out, int rows, int cols, int inner)
{
  for (size_t r = 0; r < (size_t)rows; ++r)
    for (size_t q = 0; q < (size_t)cols; ++q)
    {
      float total = 0;
      for (size_t t = 0; t < (size_t)inner; ++t)
        total = total + right[t*cols+q] * left[r*inner+t]; /* the second operand first */
      out[r*cols+q] = total;
    }
}
""",
    "pointer": """void matmul(const float *a, const float *b, float *c, int m, int n, int k)
{
\tint i, j, p;
\tfor (i = 0; i < m; i++) {
\t\tconst float *row = a + i * k;
\t\tfloat *out = c + i * n;
\t\tfor (j = 0; j < n; j++) {
\t\t\tout[j] = 0.0f;
\t\t\tfor (p = 0; p < k; p++)
\t\t\t\tout[j] += row[p] * b[p * n + j];
\t\t}
\t}
}
""",
}
SOFTMAX = {
    "indices": (RECORDED / "softmax_c" / "kernel.c")
    .read_text()
    .replace('#include "kernel.h"\n', "")
    .replace("_f32", ""),
    "pointer": """#include <math.h>
void softmax(const float *x, float *y, int rows, int cols) {
    for (int i = 0; i < rows; ++i) {
        const float *in = x + i * cols;
        float *out = y + i * cols;
        float top = in[0];
        for (int c = 1; c < cols; ++c)
            top = fmaxf(top, in[c]);
        float total = 0.0f;
        for (int c = 0; c < cols; ++c) {
            float e = expf(in[c] - top);
            total += e;
        }
        for (int c = 0; c < cols; ++c)
            out[c] = expf(in[c] - top) / total;
    }
}
""",
    "reciprocal": """#include <math.h>
#include <stddef.h>
void softmax(const float* x, float* y, int rows, int cols)
{
  size_t width = (size_t)cols;
  for (size_t r = 0; r < (size_t)rows; r++)
  {
    float m = x[r*width];
    for (size_t j = 0; j < width; j++)
      m = x[r*width+j] > m ? x[r*width+j] : m;
    float s = 0;
    for (size_t j = 0; j < width; j++)
      s += expf(x[r*width+j] - m);
    float inv = 1.0f / s;
    for (size_t j = 0; j < width; j++)
      y[r*width+j] = expf(x[r*width+j] - m) * inv;
  }
}
""",
}
ALONE = {"matmul": {"loop-interchange"}, "softmax": {"exp-once", "poly-exp", "max-lanes"}}
TOGETHER = {
    "matmul-indices": {"loop-interchange", "register-tile"},
    "matmul-unbraced": {"loop-interchange", "register-tile"},
    "matmul-pointer": {"loop-interchange"},
    "softmax-indices": {"exp-once", "poly-exp", "reciprocal"},
    "softmax-pointer": {"exp-once", "poly-exp", "reciprocal"},
    "softmax-reciprocal": {"exp-once", "poly-exp"},
}
CASES = [f"{op}-{name}" for op, group in (("matmul", MATMUL), ("softmax", SOFTMAX)) for name in group]
Kernel = Callable[..., None]


def source(case: str) -> str:
    op, _, name = case.partition("-")
    return {"matmul": MATMUL, "softmax": SOFTMAX}[op][name]


def brief(case: str, sources: dict[str, str], rounds: list[RoundClosed]) -> Briefing:
    features = tuple(CPU.read_text().partition("flags")[2].partition("\n")[0].split()) if CPU.exists() else ()
    return Briefing(
        round=len(rounds) + 2,
        target=make_target(target_op=case.partition("-")[0] + "_f32", target_backend="C", target_lang="C"),
        contract=make_contract(flags_file="kernel.flags"),
        machine=make_machine(features=features),
        specs=(),
        sources=tuple(FileEdit(path=path, text=text) for path, text in sources.items()),
        best_commit="a" * 40,
        best_round=1,
        aggregate=1.0,
        bottleneck="memory",
        bottleneck_evidence="stride",
        profile=None,
        rounds=tuple(rounds),
        consecutive_rollbacks=0,
    )


def build(folder: Path, sources: dict[str, str], name: str) -> ctypes.CDLL:
    """A library; a name is used once, because a loaded library is never loaded again."""
    here = folder / name
    here.mkdir()
    for path, text in sources.items():
        (here / path).write_text(text)
    # linked without the kernel's flags, as the tasks do: -ffast-math there would set this whole process's float mode
    for argv in (
        ["gcc", "@kernel.flags", "-Wall", "-fPIC", "-c", "kernel.c", "-o", "kernel.o"],
        ["gcc", "-shared", "kernel.o", "-o", "kernel.so", "-lm"],
    ):
        done = subprocess.run(argv, cwd=here, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}\n{sources['kernel.c']}"
    return ctypes.CDLL(str(here / "kernel.so"))


def numbers(rng: random.Random, count: int) -> list[float]:
    return [rng.gauss(0, 3) for _ in range(count)]


def array(values: list[float]) -> ctypes.Array[ctypes.c_float]:
    return (ctypes.c_float * len(values))(*values)


def check_matmul(library: ctypes.CDLL) -> None:
    rng = random.Random(1)
    for m, n, k in ((1, 1, 1), (5, 7, 3), (9, 33, 17), (16, 48, 70), (3, 300, 2)):
        a, b, out = array(numbers(rng, m * k)), array(numbers(rng, k * n)), array([math.nan] * (m * n))
        library.matmul(a, b, out, m, n, k)
        for i in range(m):
            for j in range(n):
                terms = [a[i * k + p] * b[p * n + j] for p in range(k)]
                bound = 1e-6 * (sum(map(abs, terms)) + 1)
                assert abs(out[i * n + j] - math.fsum(terms)) <= bound, (m, n, k, i, j)


def check_softmax(library: ctypes.CDLL) -> None:
    rng = random.Random(2)
    for rows, cols in ((1, 1), (3, 2), (4, 17), (2, 100), (3, 64)):
        x, y = array([8 * v for v in numbers(rng, rows * cols)]), array([math.nan] * (rows * cols))
        library.softmax(x, y, rows, cols)
        for row in range(rows):
            values = x[row * cols : (row + 1) * cols]
            terms = [math.exp(value - max(values)) for value in values]
            for got, term in zip(y[row * cols : (row + 1) * cols], terms, strict=True):
                assert abs(got - term / sum(terms)) <= 2e-6, (rows, cols)


CHECKS: dict[str, Kernel] = {"matmul": check_matmul, "softmax": check_softmax}


def offered(now: Briefing) -> Iterator[tuple[str, dict[str, str]]]:
    """Every lever that the planner would name now, with the sources it gives."""
    planner = CatalogPlanner()
    proposal = planner.propose(now)
    assert proposal.hypothesis is not None
    for lever in (candidate.id for candidate in planner.order(now)[0]):
        asked = proposal.hypothesis.model_copy(update={"id": lever, "lever": lever.partition(":")[0]})
        draft = planner.draft(now, Proposal(hypothesis=asked))
        assert draft.edits, draft.refusal
        yield lever, {edit.path: edit.text or "" for edit in draft.edits}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_lever_alone_is_right(case: str, tmp_path: Path) -> None:
    sources = {"kernel.c": source(case), "kernel.flags": "-O2\n"}
    levers = dict(offered(brief(case, sources, [])))
    assert ALONE[case.partition("-")[0]] <= set(levers)
    for lever, changed in levers.items():
        CHECKS[case.partition("-")[0]](build(tmp_path, sources | changed, lever.replace(":", "-")))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_levers_on_top_of_each_other_are_right(case: str, tmp_path: Path) -> None:
    """A campaign that keeps every lever, sweeps cut short, reaches all levers made for this operator."""
    planner, sources, rounds = CatalogPlanner(), {"kernel.c": source(case), "kernel.flags": "-O2\n"}, []
    for number in range(2, 20):
        now = brief(case, sources, rounds)
        proposal = planner.propose(now)
        if proposal.hypothesis is None:
            break
        sources |= {edit.path: edit.text or "" for edit in planner.draft(now, proposal).edits}
        CHECKS[case.partition("-")[0]](build(tmp_path, sources, f"round{number}"))
        rounds.append(make_round(number, hypothesis=proposal.hypothesis))
    kept = {hypothesis_of(closed).lever for closed in rounds}
    assert TOGETHER[case] <= kept


@pytest.mark.slow
@pytest.mark.parametrize("case", ["matmul-indices", "matmul-unbraced"])
def test_each_tiling_follows_the_interchange(case: str, tmp_path: Path) -> None:
    """Row tile, register tile and blocking apply to the interchanged form, the register tile to the row tile too."""
    sources = {"kernel.c": source(case), "kernel.flags": "-O3\n"}
    for lever in ("loop-interchange", "row-jam"):
        levers = dict(offered(brief(case, sources, [])))
        for name in ("row-jam", "register-tile:sse-4x2", "cache-block") if lever == "row-jam" else ():
            check_matmul(build(tmp_path, sources | levers[name], name.replace(":", "-")))
        sources |= levers[lever]
    tiled = dict(offered(brief(case, sources, [])))["register-tile:sse-4x2"]
    check_matmul(build(tmp_path, sources | tiled, "tile-on-jam"))


def test_interchange_of_the_task_is_right(tmp_path: Path) -> None:
    sources = {"kernel.c": source("matmul-indices"), "kernel.flags": "-O2\n"}
    lever, changed = next(offered(brief("matmul-indices", sources, [])))
    assert lever == "loop-interchange"
    check_matmul(build(tmp_path, sources | changed, lever))


def test_polynomial_exponential_is_accurate(tmp_path: Path) -> None:
    """Relative error below 2e-7 where softmax uses it; never negative, never above what it should be at the ends."""
    loop = "for (int i = 0; i < n; i++) { y[i] = expf(x[i]); }"
    text = f"#include <math.h>\nvoid e(const float *x, float *y, int n) {{\n    {loop}\n}}\n"
    sources = {"kernel.c": text, "kernel.flags": "-O2\n"}
    changed = dict(offered(brief("softmax-indices", sources, [])))["poly-exp"]
    library = build(tmp_path, sources | changed, "exp")
    points = [-87.0 + 0.0437 * step for step in range(4000)] + [0.0, -0.0, 1e-8, -200.0, -1e30]
    x, y = array(points), array([math.nan] * len(points))
    library.e(x, y, len(points))
    for given, got in zip(x, y, strict=True):
        exact = math.exp(max(given, -745.0))
        assert abs(got - exact) <= 2e-7 * exact + 1.3e-38, given
