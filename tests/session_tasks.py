"""Small tasks and candidates for tests of sessions: a vector doubled, in C or Python, honest or not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np

from ridgeline.graph.task import Constness, DType, Input, Output, Shape, Task
from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.session import Session

N = 1000
DIMS = {"n": N}
HONEST_C = """#include <stdint.h>
void twice(const float *x, float *y, int64_t n) { for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i]; }
"""
HONEST_NUMPY = "import numpy\ndef twice(x, y):\n    numpy.multiply(x, 2, out=y)\n"
RETURNING = "def twice(x):\n    return 2 * x\n"
C = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
#include <pthread.h>
%s
void twice(float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
    %s
}
"""
"""Honest work, then whatever is put in; what stands before is the first part."""


def task(
    language: Literal["c", "python", "triton"] = "c",
    *,
    convention: Literal["out", "return"] = "out",
    dtype: DType = "float32",
    constness: Constness = "per_call",
    dims: Sequence[int] = (N,),
) -> Task:
    """y = 2 x for vectors of these lengths."""
    return Task(
        name="twice",
        language=language,
        source=("kernel.c" if language == "c" else "kernel.py",),
        entry="twice",
        convention=convention,
        inputs=(Input(name="x", shape=("n",), dtype=dtype, constness=constness),),
        outputs=(Output(name="y", shape=("n",), dtype=dtype),),
        shapes=tuple(Shape(label=f"n{n}", dims={"n": n}) for n in dims),
    )


@contextmanager
def opened(folder: Path, text: str, given: Task | None = None, **options: object) -> Iterator[Session]:
    """A session with that source, opened. `options` are those of the session."""
    with unopened(folder, text, given, **options) as session:
        broken = session.open()
        assert broken is None, broken
        yield session


@contextmanager
def unopened(folder: Path, text: str, given: Task | None = None, **options: object) -> Iterator[Session]:
    """The same before it is opened."""
    one = given or task("c" if "#include" in text else "python")
    (folder / one.source[0]).write_text(text, encoding="utf-8")
    with freeze_sources(one, folder) as version, Session(one, version.folder, **options) as session:
        yield session


def x(n: int = N) -> dict[str, np.ndarray]:
    """New values."""
    return {"x": np.random.default_rng().standard_normal(n).astype(np.float32)}
