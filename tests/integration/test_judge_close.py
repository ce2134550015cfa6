"""What is refused by little is held against more moves of the inputs first: four leave some outputs where they were by chance."""

from pathlib import Path

import numpy as np
import pytest

from ridgeline.sandbox.judge import numerics
from ridgeline.sandbox.judge.correctness import CallJudge, truth_of
from ridgeline.sandbox.judge.numerics import Fault, is_close
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import SealedCall
from tests.operators_judge import make_task

ROWS = 1 << 17
TEXT = "def reference(x, w):\n    return (x * w).sum(axis=-1, keepdims=True)\n"


def cut(values: np.ndarray) -> np.ndarray:
    """As the nearest TF32."""
    return ((values.view(np.uint32) + np.uint32(0x1000)) & ~np.uint32(0x1FFF)).view(np.float32)


def test_a_right_program_is_not_refused_for_outputs_that_few_moves_hardly_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of two terms that all but cancel, of factors in TF32: of a hundred thousand some hardly move in four moves."""
    (tmp_path / "reference.py").write_text(TEXT)
    inputs = [(name, ("r", "c"), "float32", "normal") for name in "xw"]
    task = make_task(inputs, [("y", ("r", "o"), "float32")], {"r": ROWS, "c": 2, "o": 1})
    task = task.model_copy(update={"reference": "reference.py", "precision": "tf32"})
    bench = CallJudge(task=task, reference=Reference(task, tmp_path), options=Options(), rng=np.random.default_rng(3))
    x, w = (bench.rng.standard_normal((ROWS, 2)).astype(np.float32) for _ in range(2))
    x[:, 1] = -(x * w)[:, 0] / w[:, 1] * np.float32(1 + 1e-4)
    with bench.reference:
        truth = truth_of(bench.reference, {"x": x, "w": w})

        def judge(share: float) -> tuple[str, ...]:
            got = (cut(x) * cut(w) * (1 + share * np.sign(x))).sum(axis=1, keepdims=True).astype(np.float32)
            return bench.wrong(SealedCall(outputs={"y": got}, wall_us=1.0), truth)

        assert judge(0.0) == ()
        assert judge(2.0**-6) != ()
        monkeypatch.setattr(numerics, "CLOSE", 0.0)
        (line,) = judge(0.0)
    assert "largest error" in line


def test_what_is_far_off_or_no_matter_of_size_is_refused_at_once() -> None:
    near, far = (Fault("max_norm", "y", "", measured, 1.0) for measured in (7.9, 8.1))
    assert is_close([near])
    assert not is_close([near, far])
    assert not is_close([near, Fault("shape", "y", "", 1.0, 2.0)])
    assert not is_close([Fault("max_norm", "q", "of 8 bits", 1.0, 0.0)])
    assert not is_close([])
