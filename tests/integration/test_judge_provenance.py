"""Whose work is it? What a traced candidate calls, and whether its own kernels make the output."""

import textwrap
from pathlib import Path

import pytest

from graph.task import Input, Output, Shape, Task
from sandbox.judge.freeze import frozen
from sandbox.judge.operators import read
from sandbox.judge.provenance import own_work
from sandbox.judge.references import Reference

pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.slow
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
    with Reference(task, folder) as reference, frozen(task, folder) as new:
        return own_work(task, new, reference).answered


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


@pytest.mark.parametrize(
    ("body", "said"),
    [
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
    assert read(report) is None


def test_shares_decide_what_counts():
    traced = read(b'{"operators": {"aten.sum": [1, 60], "aten.mm": [2, 70], "aten.view": [9, 900], "mine.op": [1, 1]}}')
    assert traced is not None
    assert traced.computing(1000) == (("aten.mm",), ("aten.sum",))
    assert traced.foreign() == ("mine.op",)
