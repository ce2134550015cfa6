"""Whose work is it? What a traced candidate calls, and whether its own kernels make the output."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.provenance import (
    PaceCalls,
    find_slower_size,
    judge_own_work,
    least_share,
    read_trace_report,
)
from ridgeline.sandbox.judge.references import Reference

pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.slow
HARNESS = Path(__file__).resolve().parents[2] / "sandbox" / "harness"
KERNEL = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def add_kernel(x, w, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, at < n) + tl.load(w + at, at < n), at < n)

    def launch(x, w, y):
        add_kernel[(triton.cdiv(x.numel(), 256),)](x, w, y, x.numel(), BLOCK=256)

"""


def answered(folder: Path, body: str, *, language: str = "triton", convention: str = "out"):
    task = Task(
        name="added",
        language=language,
        source=("kernel.py",),
        entry="run",
        convention=convention,
        inputs=(Input(name="x", shape=("n",)), Input(name="w", shape=("n",))),
        outputs=(Output(name="y", shape=("n",)),),
        shapes=(Shape(label="s", dims={"n": 1000}),),
    )
    text = textwrap.dedent(KERNEL if language == "triton" else "") + textwrap.dedent(body)
    (folder / "kernel.py").write_text(text)
    (folder / "reference.py").write_text("def reference(x, w):\n    return x + w\n")
    with Reference(task, folder) as reference, freeze_sources(task, folder) as new:
        return judge_own_work(task, new, reference).answered


@pytest.mark.parametrize(
    ("body", "convention"),
    [
        ("def run(x, w, y):\n    launch(x, w, y)\n", "out"),
        ("def run(x, w):\n    y = torch.empty_like(x)\n    launch(x, w, y)\n    return y\n", "return"),
        ("def run(x, w, y):\n    launch(x.view(10, 100).contiguous(), w.clone(), y)\n    y[:3].sum()\n", "out"),
    ],
)
def test_a_kernel_of_ones_own(tmp_path, body, convention):
    found = answered(tmp_path, body, convention=convention)
    assert found.answer == "yes", found.evidence
    assert "its own kernels ran: add_kernel" in found.evidence
    assert "without them the output is wrong" in found.evidence


RARE = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def mark(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        found = tl.load(x + at, at < n, 0.0) > 1.5
        tl.store(y + at, found, (at < n) & found)

"""


@pytest.mark.parametrize(
    ("body", "threshold", "answer", "said"),
    [
        ("y.zero_()\n    mark[(1,)](x, y, 1000, BLOCK=1024)", 1.5, "yes", "without them the output is wrong"),
        (
            "mark[(1,)](x, y, 1000, BLOCK=1024)\n    for i, one in enumerate(x.tolist()):\n        y[i] = one > 1.5",
            1.5,
            "no",
            "without its kernels the output is still right: y",
        ),
        ("y.zero_()\n    mark[(1,)](x, y, 1000, BLOCK=1024)", 99.0, "unverified", "a fill or a copy would be, too"),
    ],
)
def test_an_answer_that_is_nearly_all_zeros(tmp_path, body, threshold, answer, said):
    task = Task(
        name="rare",
        language="triton",
        source=("kernel.py",),
        entry="run",
        inputs=(Input(name="x", shape=("n",)),),
        outputs=(Output(name="y", shape=("n",), dtype="bool"),),
        shapes=(Shape(label="s", dims={"n": 1000}),),
    )
    (tmp_path / "kernel.py").write_text(textwrap.dedent(RARE) + f"def run(x, y):\n    {body}\n")
    (tmp_path / "reference.py").write_text(f"def reference(x):\n    return x > {threshold}\n")
    with Reference(task, tmp_path) as reference, freeze_sources(task, tmp_path) as new:
        found = judge_own_work(task, new, reference).answered
    assert found.answer == answer, found
    assert said in " ".join(found.evidence)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def run(x, w, y):\n    torch.add(x, w, out=y)\n", "ready-made operators compute it: aten.add"),
        ("def run(x, w, y):\n    launch(x, w, torch.empty_like(y))\n    y.copy_(x + w)\n", "aten.add"),
        ("def run(x, w, y):\n    y.numpy()[:] = x.numpy() + w.numpy()\n", "numpy.add"),
        (
            "import threading\ndef run(x, w, y):\n"
            "    t = threading.Thread(target=lambda: torch.add(x, w, out=y))\n    t.start()\n    t.join()\n",
            "aten.add",
        ),
        (
            "def run(x, w, y):\n    launch(x, w, torch.empty_like(y))\n"
            "    for at, (a, b) in enumerate(zip(x.tolist(), w.tolist())):\n        y[at] = a + b\n",
            "without its kernels the output is still right: y",
        ),
    ],
)
def test_work_of_others(tmp_path, body, said):
    found = answered(tmp_path, body)
    assert found.answer == "no"
    assert said in " ".join(found.evidence)


MOVED = """
    @triton.jit
    def copied(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, at < n), at < n)

    def put(x, y):
        copied[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)

"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "from torch.utils._python_dispatch import _disable_current_modes\ndef run(x, w, y):\n"
            "    with _disable_current_modes():\n        made = torch.add(x, w)\n    put(made, y)\n",
            "aten.add",
        ),
        (
            "import _thread\ndef run(x, w, y):\n    made, done = [], _thread.allocate_lock()\n    done.acquire()\n"
            "    def work():\n        made.append(torch.add(x, w))\n        done.release()\n"
            "    _thread.start_new_thread(work, ())\n    done.acquire()\n    put(made[0], y)\n",
            "aten.add",
        ),
        (
            "def run(x, w, y):\n    made = torch.empty_like(y)\n    def grid(meta):\n"
            "        torch.add(x, w, out=made)\n        return (triton.cdiv(meta['n'], meta['BLOCK']),)\n"
            "    copied[grid](made, y, 1000, BLOCK=256)\n",
            "aten.add",
        ),
        (
            "HELD = []\ndef fill():\n    x, w, y = HELD\n    torch.add(x, w, out=y)\n\n@triton.jit\n"
            "def body(y):\n    fill()\n\ndef run(x, w, y):\n    HELD[:] = x, w, y\n    body[(1,)](y)\n",
            "aten.add",
        ),
        (
            "import sys\nWATCHED = 'judge_trace' in sys.modules\ndef run(x, w, y):\n"
            "    launch(x, w, y) if WATCHED else torch.add(x, w, out=y)\n",
            "aten.add",
        ),
        (
            "import numpy as np\ndef run(x, w, y):\n"
            "    put(torch.from_numpy(np.add(np.from_dlpack(x), np.from_dlpack(w))), y)\n",
            "a kernel is given the output ready-made: y (copied)",
        ),
        (
            "import numpy as np\ndef run(x, w, y):\n    put(torch.from_numpy(np.add(np.from_dlpack(x), "
            "np.from_dlpack(w))), y)\n    if y[0] != x[0] + w[0]:\n        raise RuntimeError('no kernel')\n",
            "a kernel is given the output ready-made: y (copied)",
        ),
    ],
)
def test_work_of_others_that_a_kernel_moves(tmp_path, body, said):
    found = answered(tmp_path, textwrap.dedent(MOVED) + body)
    assert found.answer == "no", found.evidence
    assert said in " ".join(found.evidence)


COUNTED_ONCE = """
import functools
import os
import sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import torch
import judge_trace

@functools.cache
def count_cards():
    sys.audit("ctypes.dlopen", "libnvidia-ml.so.1")  # as PyTorch 2.11 counts them, when it is first asked

torch.cuda.is_initialized = lambda: True
torch.cuda.get_device_properties = lambda device: count_cards()
judge_trace.install("trace")
torch.cuda.get_device_properties(0)  # the candidate
sys.audit("ctypes.dlopen", "libcublas.so")
print(judge_trace.report().decode())
"""


def test_what_pytorch_loads_to_count_the_cards_is_no_doubt_about_the_candidate_that_asks_for_multiprocessors():
    argv = [sys.executable, "-c", COUNTED_ONCE, str(HARNESS / "judge_trace.py")]
    noted = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    assert list(noted["loads"]) == ["libcublas.so"]


CHANGED = """
    import ctypes
    import numpy as np

    @triton.jit
    def changed(made, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(made + at, at < n, 1.0)
        tl.store(y + at, {back}, at < n)

    def seen(tensor):
        return np.frombuffer((ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr()), np.float32)

    def run(x, w, y):
        made = torch.empty_like(y)
        v = seen(x) + seen(w)
        seen(made)[:] = {change}
        changed[(triton.cdiv(x.numel(), 256),)](made, y, x.numel(), BLOCK=256)

"""
"""A sum that NumPy made where nobody looks, each element changed in one way, which the kernel undoes."""


@pytest.mark.parametrize(
    ("change", "back"), [("4 * v", "v / 4"), ("1 - v", "1 - v"), ("np.exp(v / 8)", "tl.log(v) * 8")]
)
def test_work_of_others_that_a_kernel_undoes_a_change_of(tmp_path, change, back):
    found = answered(tmp_path, textwrap.dedent(CHANGED.format(change=change, back=back)))
    assert found.answer == "no", found.evidence
    assert "a kernel is given the output ready-made: y (changed)" in found.evidence


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "class Made:\n    def __init__(self, made):\n        self.made = made\n"
            "    def __getattr__(self, name):\n        return getattr(self.made, name)\n\n"
            "def run(x, w, y):\n    launch(Made(x), w, y)\n",
            "gives a kernel a Made",
        ),
        (
            "import numpy as np\ndef run(x, w, y):\n    np.asarray(x.numpy())\n    launch(x, w, y)\n",
            "takes its tensors out of PyTorch: Tensor.numpy",
        ),
        ("import os\ndef run(x, w, y):\n    y.zero_()\n    launch(x, w, y)\n    float(y[0]) or os._exit(1)\n", "crash"),
        ("def run(x, w, y):\n    for at in range(len(x)):\n        y[at] = float(x[at]) + float(w[at])\n", "no kernel"),
        (
            "import ctypes\nctypes.CDLL('libm.so.6')\ndef run(x, w, y):\n    launch(x, w, y)\n",
            "loads compiled code: libm",
        ),
        ("raise RuntimeError('no')\n", "the traced run: load"),
    ],
)
def test_what_cannot_be_told(tmp_path, body, said):
    found = answered(tmp_path, body)
    assert found.answer == "unverified"
    assert said in " ".join(found.evidence)


def test_numpy_is_traced_too(tmp_path):
    found = answered(
        tmp_path,
        "import numpy as np\ndef run(x, w):\n    return np.add(x, w)\n",
        language="python",
        convention="return",
    )
    assert found.answer == "no"
    assert found.evidence == ("ready-made operators compute it: numpy.add",)


@pytest.mark.parametrize(
    "report",
    [b"", b"{", b"[1]", b'{"operators": {"a": [1]}}', b'{"else": {}}', b"[" * 60_000, b'{"kernels": {"k": ["x", 1]}}'],
)
def test_a_report_that_is_none(report):
    assert read_trace_report(report) is None


def test_shares_decide_what_counts():
    traced = read_trace_report(
        b'{"operators": {"aten.sum": [1, 60], "aten.mm": [2, 70], "aten.view": [9, 900], "mine.op": [1, 1]}}'
    )
    assert traced is not None
    assert traced.computing(1000) == (("aten.mm",), ("aten.sum",))
    assert traced.foreign() == ("mine.op",)


@pytest.mark.parametrize(
    ("elements", "outputs", "most"),
    [
        (1600, 0, 100),
        (1600, 800, 100),
        (1600, 1600, 100),
        (1600, 400, 50),
        (25600, 101, 12.625),
        (25600, 100, 1600),
        (25600, 1, 1600),
    ],
)
def test_an_operator_has_a_real_share_of_few_inputs_that_are_read(elements, outputs, most):
    assert least_share(elements, outputs) == most


@pytest.mark.parametrize(
    ("traced_us", "plain_us", "slow"),
    [(20_000, 900, True), (20_000, 1_000, False), (5_000, 1, False), (9e6, 8e5, True)],
)
def test_a_candidate_works_less_where_nobody_looks(traced_us, plain_us, slow):
    traced, plain = PaceCalls(least_us={"s": traced_us}), PaceCalls(least_us={"s": plain_us})
    said = find_slower_size(traced, plain, slack_us=10_000)
    assert (said is not None) == slow
    assert said is None or said.startswith("s: ")


@pytest.mark.parametrize(
    ("names", "computes"),
    [
        ("constant_pad_nd flip roll repeat tile rot90 diag_embed im2col pixel_shuffle eye zero_ copy_ cat", False),
        ("index gather take repeat_interleave tril masked_fill mul sort cumsum where embedding", True),
    ],
)
def test_what_only_moves_data_computes_nothing(names, computes):
    for name in names.split():
        traced = read_trace_report(f'{{"operators": {{"aten.{name}": [1, 900]}}}}'.encode())
        assert traced is not None
        assert bool(traced.computing(1000)[0]) == computes, name


EARLY = """
    calls = [0]

    def run(x, w, y):
        {count}
        if calls[0] > {first}:
            torch.add(x, w, out=y)
        else:
            launch(x, w, y)
"""


@pytest.mark.parametrize(
    ("count", "first"),
    [
        ("calls[0] += 1", 4),
        ("calls[0] += x[0].item() > 0", 12),
        ("calls[0] = calls[0] + 1 if x.numel() == 1000 else 0", 30),
    ],
)
def test_own_work_in_the_first_calls_alone_is_none(tmp_path, count, first):
    found = answered(tmp_path, EARLY.format(count=count, first=first))
    assert found.answer == "no", found.evidence
