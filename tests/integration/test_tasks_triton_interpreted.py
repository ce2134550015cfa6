"""The Triton tasks as the judge judges them in the interpreter: right kernels pass, wrong and borrowed ones do not."""

from importlib.util import find_spec

import pytest

from tests.task_copies import whole

ERF = "0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))"
REMEMBERS = """_kept = {}


def run(x, out):
    if x.data_ptr() not in _kept:
        fresh(x, out)
        _kept[x.data_ptr()] = out.clone()
    out.copy_(_kept[x.data_ptr()])


def fresh("""

RIGHT = [
    ("softmax_triton", "", ""),
    ("softmax_triton", "BLOCK_SIZE=256", "BLOCK_SIZE=1024"),
    ("matmul_triton", "BLOCK_N = 64", "BLOCK_N = 128"),
    ("reverse_cumsum_triton", "BLOCK_SIZE=1024", "BLOCK_SIZE=128"),
    ("gemm_gelu_triton", "", ""),
]
WRONG = [
    ("softmax_triton", "total * tl.exp(top - new_top) + tl.sum", "total + tl.sum"),
    # rounded to fp16 its few steps at sizes that can be interpreted err as much as a right program may
    ("matmul_triton", "acc += tl.dot(a, b)", "acc = (acc + tl.dot(a, b)).to(tl.bfloat16).to(tl.float32)"),
    ("reverse_cumsum_triton", "flip(sums, out)", "out.copy_(sums)"),
    ("reverse_cumsum_triton", "axis=0) + left", "axis=0)"),
    ("reverse_cumsum_triton", "y = tl.cumsum(x,", "y = tl.cumsum(x.to(tl.float16).to(tl.float32),"),
    ("reverse_cumsum_triton", "def run(", REMEMBERS),
    ("gemm_gelu_triton", "acc + bias[None, :]", "acc + 0.0 * bias[None, :]"),
    ("gemm_gelu_triton", ERF, "tl.maximum(z, 0.0)"),
    ("gemm_gelu_triton", "acc += tl.dot(a, b)", "acc = (acc + tl.dot(a, b)).to(tl.bfloat16).to(tl.float32)"),
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="torch and triton are an extra"),
]


def replace_in_kernel(task, old, new, folder):
    """A copy of the task with one text of its kernel replaced; its task.yaml."""
    copy = whole(task, folder / task)
    text = (copy / "kernel.py").read_text(encoding="utf-8")
    assert old in text
    (copy / "kernel.py").write_text(text.replace(old, new) if old else text, encoding="utf-8")
    return copy / "task.yaml"


@pytest.mark.parametrize(("task", "old", "new"), RIGHT)
def test_a_right_kernel_passes_as_its_own_work(cli, task, old, new, tmp_path):
    judged = cli("judge", "test", replace_in_kernel(task, old, new, tmp_path), "--json")
    assert judged.code == 0, judged.out + judged.err
    assert (judged.json["correct"]["answer"], judged.json["own_work"]["answer"]) == ("yes", "yes")


@pytest.mark.parametrize(("task", "old", "new"), WRONG)
def test_a_wrong_kernel_is_refused(cli, task, old, new, tmp_path):
    judged = cli("judge", "test", replace_in_kernel(task, old, new, tmp_path), "--json")
    assert judged.code == 1, judged.out + judged.err
    assert judged.json["correct"]["answer"] == "no"


def test_the_framework_s_operator_is_not_ones_own_work(cli, tmp_path):
    borrowed = "    out.copy_(torch.softmax(x.float(), 1))\n    return\n    n_rows"
    judged = cli("judge", "test", replace_in_kernel("softmax_triton", "    n_rows", borrowed, tmp_path), "--json")
    assert judged.code == 1, judged.out + judged.err
    assert (judged.json["correct"]["answer"], judged.json["own_work"]["answer"]) == ("yes", "no")


@pytest.mark.parametrize("task", ["softmax_triton", "gemm_gelu_triton"])
def test_the_task_is_sound_and_can_be_profiled(cli, task, tmp_path):
    file = whole(task, tmp_path / task) / "task.yaml"
    assert cli("judge", "lint", file).code == 0
    profile = cli("judge", "profile", file, "--shape", "odd", "--calls", "2")
    assert profile.code == 0, profile.err
    assert "calls=2\nkernel_time_us=" in profile.out
