"""The newer Triton tasks judged by their test.py in the interpreter: right kernels pass, wrong ones are named."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.task_copies import whole

ERF = "0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))"
TANH = "z * tl.sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z))"
REMEMBERED = "_kept = {}\n\n\ndef run(x):\n    if x.data_ptr() not in _kept:\n        _kept[x.data_ptr()] = fresh(x)\n"
REMEMBERS = f"{REMEMBERED}    return _kept[x.data_ptr()].clone()\n\n\ndef fresh("

RIGHT = [
    ("reverse_cumsum_triton", "", ""),
    ("reverse_cumsum_triton", "BLOCK_SIZE=1024", "BLOCK_SIZE=128"),
    ("gemm_gelu_triton", "", ""),
    ("gemm_gelu_triton", ERF, TANH),
]
WRONG = [
    ("reverse_cumsum_triton", "return flip(sums)", "return sums"),
    ("reverse_cumsum_triton", "axis=0) + left", "axis=0)"),
    ("reverse_cumsum_triton", "y = tl.cumsum(x,", "y = tl.cumsum(x.to(tl.float16).to(tl.float32),"),
    ("reverse_cumsum_triton", "left += tl.sum(x, axis=0)", "left = tl.sum(x, axis=0)"),
    ("reverse_cumsum_triton", "def run(", REMEMBERS),
    ("gemm_gelu_triton", "acc + bias[None, :]", "acc + 0.0 * bias[None, :]"),
    ("gemm_gelu_triton", ERF, "tl.maximum(z, 0.0)"),
    ("gemm_gelu_triton", "acc += tl.dot(a, b)", "acc = (acc + tl.dot(a, b)).to(tl.bfloat16).to(tl.float32)"),
    ("gemm_gelu_triton", "device=a.device, dtype=torch.bfloat16", "device=a.device, dtype=torch.float32"),
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="torch and triton are an extra"),
]


def judged(task: str, old: str, new: str, *, folder: Path) -> subprocess.CompletedProcess[str]:
    """The task's verdict on its kernel with one text replaced."""
    copy = whole(task, folder / task)
    text = (copy / "kernel.py").read_text(encoding="utf-8")
    assert old in text
    (copy / "kernel.py").write_text(text.replace(old, new) if old else text, encoding="utf-8")
    command = (sys.executable, "-P", "-B", "test.py", "--seed", "7")
    return subprocess.run(command, cwd=copy, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(("task", "old", "new"), RIGHT)
def test_a_right_kernel_passes(task, old, new, tmp_path):
    done = judged(task, old, new, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MISMATCH" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("PASS 7 shapes")


@pytest.mark.parametrize(("task", "old", "new"), WRONG)
def test_a_wrong_kernel_is_a_mismatch(task, old, new, tmp_path):
    done = judged(task, old, new, folder=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "MISMATCH label=" in done.stdout
