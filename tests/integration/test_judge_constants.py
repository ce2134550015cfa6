"""Inputs that stay the same in the life of a process, timed where first calls compile and so come before the worker is locked."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from ridgeline.sandbox.judge.options import HERE, Options
from ridgeline.sandbox.judge.task_judge import time_pair

TASK = {
    "task": 1,
    "name": "scaled",
    "language": "python",
    "source": ["kernel.py"],
    "entry": "run",
    "inputs": [{"name": "x", "shape": ["rows", "cols"]}, {"name": "w", "shape": ["cols"], "constness": "const"}],
    "outputs": [{"name": "y", "shape": ["rows", "cols"]}],
    "shapes": [{"label": "a", "dims": {"rows": 64, "cols": 100}}, {"label": "b", "dims": {"rows": 32, "cols": 200}}],
}


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("torch"), reason="torch is an extra")
def test_a_kernel_in_pytorch_with_constant_inputs_is_timed(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(TASK))
    (tmp_path / "kernel.py").write_text("import torch\n\n\ndef run(x, w, y):\n    torch.mul(x, w, out=y)\n")
    (tmp_path / "reference.py").write_text("import torch\n\n\ndef reference(x, w):\n    return x * w\n")
    timed = time_pair(
        tmp_path / "task.yaml", tmp_path, tmp_path, shapes=(), blocks=2, options=Options(), surroundings=HERE
    )
    assert {call.label for call in timed} == {"a", "b"}
