"""Whose work a version is, asked where tensors lie: the same answers as with arrays of NumPy, at little cost."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ridgeline.graph.judgment import QuestionAnswer  # noqa: E402
from ridgeline.sandbox.harness.judge_launches import Launches  # noqa: E402
from ridgeline.sandbox.judge import device_host, device_provenance, provenance  # noqa: E402
from ridgeline.sandbox.judge.options import Options  # noqa: E402
from ridgeline.sandbox.judge.task_file import load_task  # noqa: E402

RNG = np.random.default_rng(7)
X = RNG.standard_normal((300, 70))
RIGHT = {
    "computed": np.exp(X),
    "copied": X.copy(),
    "moved": RNG.permutation(X.reshape(-1)).reshape(X.shape),
    "constant": np.full(X.shape, 3.0),
    "partly infinite": np.where(X > 2.5, np.inf, np.exp(X)),
    "whole": np.floor(4 * X),
}


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("damage", [0.0, 1e-8, 0.03, 0.3, 2.0])
@pytest.mark.parametrize("name", RIGHT)
def test_what_was_made_is_that_of_the_other_path(name: str, damage: float, dtype: str) -> None:
    right = np.round(4 * np.nan_to_num(RIGHT[name], posinf=9)) if dtype == "int32" else RIGHT[name]
    values = right + damage * RNG.standard_normal(X.shape)
    expected = provenance.is_made(values, right, dtype=dtype, inputs={"x": X})
    tensors = {"x": torch.from_numpy(X)}
    seen = device_provenance.is_made(torch.from_numpy(values), torch.from_numpy(right), dtype=dtype, inputs=tensors)
    assert seen == expected


@pytest.mark.parametrize("ready", [None, "in order", "out of order", "a part"])
@pytest.mark.parametrize("name", RIGHT)
def test_what_a_kernel_was_given_is_that_of_the_other_path(name: str, ready: str | None) -> None:
    flat = RIGHT[name].astype(np.float32).reshape(-1)
    given = {
        None: RNG.standard_normal(flat.size),
        "in order": flat,
        "out of order": RNG.permutation(flat),
        "a part": flat[: flat.size // 3],
    }[ready].astype(np.float32)
    argument = provenance.LaunchArgument(
        kernel="k",
        size=given.size,
        lying=provenance.sample_elements(given),
        sorted=provenance.sample_elements(np.sort(given)),
    )
    told = [
        provenance.find_copied_output(
            (argument,), kind(dtype="float32", values=array(RIGHT[name]), inputs={"x": array(X)})
        )
        for kind, array in (
            (provenance.RightOutput, np.asarray),
            (device_provenance.DeviceRightOutput, torch.from_numpy),
        )
    ]
    assert told[0] == told[1]
    assert name != "computed" or told[0] == (None if ready is None else "k")


TASK = """
name: added
language: triton
source: [kernel.py]
entry: run
inputs: [{name: x, shape: [n]}, {name: w, shape: [n]}]
outputs: [{name: y, shape: [n]}]
shapes: [{label: s, dims: {n: 2000}}]
"""
KERNEL = """import torch
import triton
import triton.language as tl

@triton.jit
def add_kernel(x, w, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) + tl.load(w + at, at < n), at < n)

@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n), at < n)

"""
OWN = "def run(x, w, y):\n    add_kernel[(2,)](x, w, y, x.numel(), BLOCK=1024)\n"
LIBRARY = "def run(x, w, y):\n    torch.add(x, w, out=y)\n"
MOVED = """def run(x, w, y):
    z = torch.empty_like(x)
    with torch._C._DisableTorchDispatch():
        z.untyped_storage().copy_((x + w).untyped_storage())
    copy_kernel[(2,)](z, y, x.numel(), BLOCK=1024)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "reference.py").write_text("import torch\ndef reference(x, w):\n    return x + w\n")
    (tmp_path / "task.yaml").write_text(TASK)
    tmp_path.chmod(0o755)
    return tmp_path


def answer_for(folder: Path, body: str) -> QuestionAnswer:
    (folder / "kernel.py").write_text(KERNEL + body)
    task, _ = load_task(folder / "task.yaml")
    setting = device_host.DeviceSetting(task, folder, "cpu", device_host.TaskMemory())
    words = {"candidate": None, "against": None, "environment": {}, "until": time.monotonic() + 100}
    with setting.judgment(words, folder, Options(device="cpu")) as judgment:
        return judgment._own_work().answered


def test_a_kernel_of_ones_own_with_tensors(folder: Path) -> None:
    answered = answer_for(folder, OWN)
    assert answered.answer == "yes", answered
    assert answered.evidence == ("its own kernels ran: add_kernel", "without them the output is wrong")


def test_work_of_others_with_tensors(folder: Path) -> None:
    answered = answer_for(folder, LIBRARY)
    assert (answered.answer, answered.evidence[0]) == ("no", "ready-made operators compute it: aten.add")
    assert answer_for(folder, MOVED).answer != "yes"


def test_a_long_run_shows_the_pace_where_nobody_looks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[str] = []
    marked = device_host.DeviceJudgment._open_marked
    monkeypatch.setattr(
        device_host.DeviceJudgment, "_open_marked", lambda self, mode: modes.append(mode) or marked(self, mode)
    )
    (folder / "kernel.py").write_text(KERNEL + OWN)
    task, _ = load_task(folder / "task.yaml")
    setting = device_host.DeviceSetting(task, folder, "cpu", device_host.TaskMemory())
    words = {"candidate": None, "against": None, "environment": {}, "until": time.monotonic() + 100}
    with setting.judgment(words, folder, Options(device="cpu", long_calls=80)) as judgment:
        assert judgment.judge_correctness().own_work.answer == "yes"
        assert modes == ["trace", "knockout"]
        monkeypatch.setitem(provenance.SLACK_US, "cuda", 0.0)
        run = judgment._long_run(judgment.bench(np.random.default_rng()), None, share=0.25)
        run.pace.least_us.update({"s": 0.1, "s, late": 0.1})
        answered = judgment._own_work(run).answered
    assert answered.answer == "unverified"
    assert "it takes much longer where it is traced" in answered.evidence[-1]


@pytest.mark.parametrize("slot", [0, 1])
def test_tensors_of_a_size_that_is_bound_anew_are_forgotten(slot: int) -> None:
    """Their memory is unmapped: what a kernel is given at the same address is another tensor."""
    launches = Launches(log=None)
    large = torch.zeros(4096)
    launches.slot = slot
    launches.task_tensors[slot] = [(large.data_ptr(), large.data_ptr() + large.nbytes, large)]
    launches._look("kernel", (large[:8],))
    launches.forget_tensors(0)
    launches._look("kernel", (large[:7],))
    assert [size for _, size, _ in launches.samples] == ([4096, 7] if slot == 0 else [4096])


def test_members_are_looked_up_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_provenance, "STRETCH_ELEMENTS", 7)
    array = torch.tensor([1.0, 2.0, float("nan"), 5.0, 2.0, -3.0, 8.0, 9.0, 5.0], dtype=torch.float64)
    numbers = torch.tensor([-3.0, 5.0, 9.0, 100.0])
    assert device_provenance._find_members(array, numbers).unique().tolist() == [-3.0, 5.0, 9.0]
    assert not device_provenance._find_members(array, numbers[:0]).numel()
