"""What judging adds to measuring a 200 us kernel: whole measurements, and single calls, against bare ones.

A bare measurement starts the same workers in the same process pairs and makes as many calls through the same frames:
nothing is drawn, written, stopped, copied or compared. It is what a timer without a judge would do.
"""

import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.sandbox.harness.judge_frames import CALL, DONE, NONCE_BYTES, Frame
from ridgeline.sandbox.isolation import workers
from ridgeline.sandbox.judge.correctness import CallJudge
from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import SealedCall, Session
from ridgeline.sandbox.judge.timing import WARM_UP, TimedPairs, TimingRefused, _Turns

BOUND = 1.4
"""Of a whole measurement: what somebody waits for."""
MEASUREMENTS = 7
BLOCKS = 20
PAIRS = 20
"""Calls of either side in one block."""
PINGS = 200
STARTS = 6
DIMS = {"n": 112}
"""About 200 us where this was written."""
KERNEL = """
#include <stdint.h>
void product(const float *restrict a, const float *restrict b, float *restrict c, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) c[i * n + j] = 0;
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
}
"""
REFERENCE = "def reference(a, b):\n    return a @ b\n"
TASK = Task(
    name="product",
    language="c",
    source=("kernel.c",),
    entry="product",
    inputs=(Input(name="a", shape=("n", "n")), Input(name="b", shape=("n", "n"))),
    outputs=(Output(name="c", shape=("n", "n")),),
    shapes=(Shape(label="n112", dims=DIMS),),
)


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        (place / "kernel.c").write_text(KERNEL)
        (place / "reference.py").write_text(REFERENCE)
        version = stack.enter_context(freeze_sources(TASK, place))
        reference = stack.enter_context(Reference(TASK, place))
        cpus = sorted(os.sched_getaffinity(0))
        cpu = cpus[-1] if len(cpus) > 1 else None  # or the scheduler puts one worker beside the judge, another not
        sides = [stack.enter_context(Session(TASK, version.folder, cpu=cpu)) for _ in range(3)]  # the last is bare
        for session in sides:
            if broken := session.open():
                raise RuntimeError(broken)
        assert reference.framework == "numpy"  # it runs by now, wherever it likes
        os.sched_setaffinity(0, set(cpus[:-1]) or cpus)
        stack.callback(os.sched_setaffinity, 0, cpus)
        rng = np.random.default_rng()
        bench = CallJudge(task=TASK, reference=reference, options=Options(), rng=rng)
        pair = dict(zip("ab", sides[:2], strict=True))
        turns = _Turns(pairs=TimedPairs(bench=bench), sessions=pair, shape=TASK.shapes[0])
        found = [*_rows(turns, sides[2])]
        for session in sides:
            session.close()
        yield from _whole(bench, lambda: Session(TASK, version.folder, cpu=cpu))
        yield from found
    yield from _starts()


def _starts() -> Iterator[dict[str, Any]]:
    """How long a worker takes that needs PyTorch, started alone and as a copy."""
    if importlib.util.find_spec("torch") is None:
        return
    took: dict[str, list[float]] = {"alone": [], "copied": []}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        task = TASK.model_copy(update={"language": "python", "source": ("kernel.py",)})
        (Path(folder) / "kernel.py").write_text("import torch\ndef product(a, b, c, n): torch.matmul(a, b, out=c)\n")
        version = stack.enter_context(freeze_sources(task, Path(folder)))
        for _ in range(STARTS):
            for how in took:
                with pytest.MonkeyPatch.context() as patched, Session(task, version.folder) as session:
                    if how == "alone":
                        patched.setattr(workers, "stem", lambda *_: None)
                    began = time.perf_counter()
                    if broken := session.open():
                        raise RuntimeError(broken)
                    took[how].append(time.perf_counter() - began)
    alone, copied = (statistics.median(times[1:]) for times in took.values())  # the first copy imports for all
    yield {"what": "a worker with PyTorch, started alone", "value": alone, "unit": "s"}
    yield {"what": "a worker with PyTorch, copied", "value": copied, "unit": "s"}
    yield {"what": "alone against copied", "value": alone / copied, "unit": "times"}


def _whole(bench: CallJudge, opened: Callable[[], Session]) -> Iterator[dict[str, Any]]:
    """Measurements of as many process pairs as a judgement begins with, judged and bare in turns."""
    pairs, blocks = bench.options.pairs, bench.options.blocks
    judged, bare = [], []
    for turn in range(MEASUREMENTS):
        for kind in ("jb", "bj")[turn % 2]:
            began = time.perf_counter()
            if kind == "j":
                timer = TimedPairs(bench=bench)
                for _ in range(pairs):
                    if isinstance(found := timer.run({"a": opened, "b": opened}, TASK.shapes, blocks), TimingRefused):
                        raise RuntimeError(found.detail)
                judged.append(time.perf_counter() - began)
            else:
                for _ in range(pairs):
                    _bare_pair(opened, 2 * (blocks + WARM_UP))
                bare.append(time.perf_counter() - began)
    ratio = statistics.median(one / other for one, other in zip(judged, bare, strict=True))
    what = f"judged against bare measurement, {pairs} process pairs of {blocks} blocks, median of {MEASUREMENTS}"
    yield {"what": what, "value": ratio, "unit": "times", "bound": BOUND, "ok": ratio <= BOUND}
    yield {"what": "a judged measurement", "value": statistics.median(judged), "unit": "s"}
    yield {"what": "a bare measurement", "value": statistics.median(bare), "unit": "s"}


def _bare_pair(opened: Callable[[], Session], times: int) -> None:
    """Both workers alive, taking turns so many times each."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(opened()) for _ in range(2)]
        for session in sessions:
            if broken := session.open():
                raise RuntimeError(broken)
            _freed(session)
        for _ in range(times):
            for session in sessions:
                _bare(session)


def _freed(session: Session) -> None:
    """From here on its worker has its arrays and is never stopped."""
    session.call(DIMS, {one.name: np.ones((DIMS["n"],) * 2, np.float32) for one in TASK.inputs})
    session._running.freezer.resume()
    session._running.freezer.works = False


def _bare(session: Session) -> None:
    """One call with nothing around it, on values that were there before."""
    frame = Frame(CALL, os.urandom(NONCE_BYTES), 0, 0)
    session._running.exchange(frame, DONE, timeout_s=10)


def _judged(turns: _Turns) -> SealedCall:
    """One pair of calls as they are timed in earnest."""
    found = turns._call_both("ab")
    if isinstance(found, TimingRefused):
        raise RuntimeError(found.detail)
    return found["b"][0]


def _rows(turns: _Turns, plain: Session) -> Iterator[dict[str, Any]]:
    _freed(plain)
    _judged(turns)
    judged, bare, sealed = [], [], []
    for _ in range(BLOCKS):
        began = time.perf_counter()
        for _ in range(2 * PAIRS):
            _bare(plain)
        half = time.perf_counter()
        sealed += [_judged(turns) for _ in range(PAIRS)]
        if turns.settle():
            raise RuntimeError("the oracle finds a right product wrong")
        judged.append(1e6 * (time.perf_counter() - half) / (2 * PAIRS))
        bare.append(1e6 * (half - began) / (2 * PAIRS))
    ratio = statistics.median(one / other for one, other in zip(judged, bare, strict=True))
    what = f"judged against bare calls, median of {BLOCKS} blocks"
    yield {"what": what, "value": ratio, "unit": "times"}
    yield {"what": "a judged call with all checks", "value": statistics.median(judged), "unit": "us"}
    yield {"what": "a bare call", "value": statistics.median(bare), "unit": "us"}
    claimed = statistics.median(one.claimed_us or 0.0 for one in sealed)
    yield {"what": "the kernel in it, by the worker's clock", "value": claimed, "unit": "us"}
    yield {
        "what": "the judge's clock around it",
        "value": statistics.median(one.wall_us for one in sealed),
        "unit": "us",
    }
    pings = [turns.sessions["a"].ping() for _ in range(PINGS)]
    yield {"what": "an empty call", "value": statistics.median(pings), "unit": "us"}
