"""A card's worker and the judge's timing with it; the driver alone is played, by the processor."""

from collections.abc import Iterator
from pathlib import Path

import card_worker
import numpy as np
import pytest

from ridgeline.graph.judgment import TimedCall
from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.sandbox.judge import worker
from ridgeline.sandbox.judge.correctness import CallJudge
from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import CardSession, SealedCall
from ridgeline.sandbox.judge.timing import TimedPairs, TimingRefused

pytest.importorskip("torch")

DIMS = {"n": 5000}
REFERENCE = "def reference(x, w):\n    return x * w + 1\n"
HONEST = "import torch\ndef madd(x, w, y):\n    torch.addcmul(torch.ones_like(x), x, w, out=y)\n"
SLOW = "import torch\ndef madd(x, w, y):\n    for _ in range(200):\n        y.copy_(x * w + 1)\n"
PYTHON = "import torch, threading, time, ctypes\nseen = []\ndef madd(x, w, y):\n%s\n"
TASK = Task(
    name="madd",
    language="python",
    source=("kernel.py",),
    entry="madd",
    inputs=(Input(name="x", shape=("n",)), Input(name="w", shape=("n",), constness="const")),
    outputs=(Output(name="y", shape=("n",)),),
    shapes=(Shape(label="n5000", dims=DIMS),),
)
RETURNING = TASK.model_copy(update={"convention": "return"})
WHOLE = RETURNING.model_copy(
    update={
        "inputs": (
            Input(name="x", shape=("n",), values="integers", low=-1000, high=1000),
            Input(name="w", shape=("n",), dtype="int8", values="integers", low=-128, high=128),
        )
    }
)


@pytest.fixture(autouse=True)
def processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "FILES", (Path(card_worker.__file__), *worker.FILES))


def body(*lines: str) -> str:
    return PYTHON % "\n".join(f"    {line}" for line in lines)


def timed(
    tmp_path: Path, text: str, *, task: Task = TASK, blocks: int = 3, **options: object
) -> list[TimedCall] | TimingRefused:
    """The candidate against an honest version."""
    for side, source in (("a", HONEST if task is TASK else RETURNED), ("b", text)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "kernel.py").write_text(source)
    (tmp_path / "reference.py").write_text(REFERENCE)
    with (
        Reference(task, tmp_path) as reference,
        freeze_sources(task, tmp_path / "a") as old,
        freeze_sources(task, tmp_path / "b") as new,
    ):
        bench = CallJudge(
            task=task,
            reference=reference,
            options=Options(device="cuda", **options),
            rng=np.random.default_rng(),
        )
        opened = {
            side: lambda version=version: CardSession(task, version.folder, device="cuda")
            for side, version in (("a", old), ("b", new))
        }
        return TimedPairs(bench=bench).run(opened, task.shapes, blocks)


RETURNED = "import torch\ndef madd(x, w):\n    return x * w + 1\n"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[CardSession]:
    (tmp_path / "kernel.py").write_text(HONEST)
    with freeze_sources(TASK, tmp_path) as version, CardSession(TASK, version.folder, device="cuda") as one:
        assert one.open() is None
        yield one


def values() -> dict[str, np.ndarray]:
    rng = np.random.default_rng()
    return {name: rng.standard_normal(5000).astype(np.float32) for name in ("x", "w")}


@pytest.mark.slow
def test_a_whole_call_brings_early_and_late_copies(session: CardSession) -> None:
    for placement, given in ((0, values()), (1, None), (0, None)):
        kept = given or kept  # noqa: F821 (w is constant in the life of a process)
        inputs = {"x": values()["x"], "w": kept["w"]}
        sealed = session.call(DIMS, inputs, placement=placement)
        assert isinstance(sealed, SealedCall), sealed
        np.testing.assert_allclose(sealed.outputs["y"], inputs["x"] * inputs["w"] + 1, rtol=1e-5, atol=1e-6)
        assert sealed.late is not None
        assert sealed.late["y"].tobytes() == sealed.outputs["y"].tobytes()
        assert (sealed.inputs_changed, sealed.guards_broken) == ((), ())


@pytest.mark.slow
@pytest.mark.parametrize(("task", "text"), [(TASK, HONEST), (TASK, SLOW), (RETURNING, RETURNED), (WHOLE, RETURNED)])
def test_honest_calls_are_timed(tmp_path: Path, task: Task, text: str) -> None:
    found = timed(tmp_path, text, task=task, oracle_share=0.4)
    assert not isinstance(found, TimingRefused), found
    assert len(found) == 12
    assert all(slot.time_us > 0 for slot in found)


CHEATS = {
    "the first answer": body(
        "if len(seen) < 8: seen.append(1); y.copy_(x * w + 1); return", "y.copy_(seen_y if False else y)"
    ),
    "one element less": body("seen.append(1); y.copy_(x * w + 1)", "if len(seen) > 8: y[17] = 3.0"),
    "an input changed": body("seen.append(1); y.copy_(x * w + 1)", "if len(seen) > 8: x[3] += 1"),
    "beside the array": body(
        "seen.append(1); y.copy_(x * w + 1)", "if len(seen) > 8: ctypes.memset(y.data_ptr() + y.nbytes + 8, 7, 4)"
    ),
    "a timer that lies": body(
        "y.copy_(x * w + 1)",
        "import sys",
        "type(sys._getframe(2).f_locals['self'].driver).elapsed_ns = lambda self: 100",
        "time.sleep(0.002)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEATS)
def test_cheats_while_timed_are_refused(tmp_path: Path, name: str) -> None:
    found = timed(tmp_path, CHEATS[name], blocks=8)
    assert isinstance(found, TimingRefused), name
    assert found.side == "b", found
