"""Tasks with 8-bit floats from end to end on a processor: C, NumPy, PyTorch, Triton's interpreter, and the path of a card."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from ridgeline.sandbox.judge.task_file import TaskError, load_task

torch = pytest.mark.skipif(not find_spec("torch"), reason="torch is an extra")
triton = pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="torch and triton are an extra")
PROOF = Path(__file__).parents[2] / "evals" / "proof"

TASK = """task: 1
name: scaled
language: {language}
source: [{source}]
entry: scaled
convention: {convention}
inputs:
- {{name: a, shape: [m, k], dtype: float8_e4m3fn}}
- {{name: s, shape: [m], values: positive}}
outputs:
- {{name: sums, shape: [m]}}
- {{name: q, shape: [m, k], dtype: float8_e5m2}}
shapes:
- {{label: some, dims: {{m: 40, k: 300}}}}
- {{label: one, dims: {{m: 1, k: 7}}, timed: false}}
drawn: {{ranges: {{m: [1, 40], k: [1, 200]}}, count: 3}}
bytes: 2*m*k
flops: 2*m*k
library: allowed
{more}
"""
NUMPY_REFERENCE = """import numpy as np

def reference(a, s):
    scaled = a * s[:, None]
    return scaled.sum(axis=1), scaled
"""
TORCH_REFERENCE = """import torch

def reference(a, s):
    scaled = a.to(s.dtype) * s[:, None]
    return scaled.sum(dim=1), scaled
"""
C = """#include <math.h>
#include <stdint.h>

static float decode(uint8_t code) {
    int exponent = code >> 3 & 15, fraction = code & 7;
    float size = exponent ? ldexpf(8 + fraction, exponent - 10) : ldexpf(fraction, -9);
    if ((code & 127) == 127) return NAN;
    return code & 128 ? -size : size;
}

static uint8_t encode(float value) {
    int exponent;
    float size = fabsf(value);
    if (isnan(value)) return 127;
    if (size >= 61440.0f) return signbit(value) ? 252 : 124;
    frexpf(size, &exponent);
    int power = size > 0 && exponent - 3 > -16 ? exponent - 3 : -16;
    int code = (int)rintf(ldexpf(size, -power)) + ((power + 16) << 2);
    return code | (signbit(value) ? 128 : 0);
}

void scaled(const uint8_t *a, const float *s, float *sums, uint8_t *q, int64_t m, int64_t k) {
    for (int64_t i = 0; i < m; i++) {
        float sum = 0;
        for (int64_t j = 0; j < k; j++) {
            float value = decode(a[i * k + j]) * s[i];
            sum += value;
            q[i * k + j] = encode(value);
        }
        sums[i] = sum;
    }
}
"""
WRONG_C = {
    "cut, not rounded": ("(int)rintf(", "(int)("),
    "a scale of another row": ("* s[i]", "* s[m - 1 - i]"),
    "subnormal numbers as zero": (": ldexpf(fraction, -9)", ": 0.0f"),
    "e4m3 for e5m2": ("(power + 16) << 2", "(power + 16) << 3"),
    "half an answer": ("j < k; j++) {\n            float value", "j < k - k / 2; j++) {\n            float value"),
}
TORCH = """import torch

def scaled(a, s):
    values = a.float() * s[:, None]
    return values.sum(dim=1), values.to(torch.float8_e5m2)
"""
WRONG_TORCH = {
    "by way of e4m3": ("values.to(torch.float8_e5m2)", "values.to(torch.float8_e4m3fn).float().to(torch.float8_e5m2)"),
    "two percent less": ("values.to(torch", "(values * 0.98).to(torch"),
    "another type": ("torch.float8_e5m2", "torch.float8_e4m3fn"),
}
NUMPY = """import numpy as np

SIZES = (np.arange(256) & 0x7F).astype(np.uint16) << 7
NUMBERS = SIZES.view(np.float16).astype(np.float32) * np.float32(256) * np.where(np.arange(256) & 0x80, -1, 1)
NUMBERS[[127, 255]] = np.nan
ENDS = (np.arange(124, dtype=np.uint16) << 8).view(np.float16).astype(np.float64)

def scaled(a, s, sums, q):
    values = NUMBERS[a].astype(np.float32) * s[:, None]
    sums[:] = values.sum(axis=1)
    at = np.abs(values).astype(np.float64)
    above = np.searchsorted(ENDS, at).clip(1, 123)
    low, high = at - ENDS[above - 1], ENDS[above] - at
    codes = np.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)
    q[:] = np.where(np.isnan(values), 127, codes) | np.signbit(values) << 7
"""


def write(folder: Path, language: str, kernel: str, reference: str, *, convention: str = "out", more: str = "") -> Path:
    source = "kernel.c" if language == "c" else "kernel.py"
    text = TASK.format(language=language, source=source, convention=convention, more=more)
    (folder / "task.yaml").write_text(text)
    (folder / source).write_text(kernel)
    (folder / "reference.py").write_text(reference)
    return folder / "task.yaml"


def replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize("reference", [NUMPY_REFERENCE, pytest.param(TORCH_REFERENCE, marks=torch)])
def test_a_right_kernel_in_c_has_bytes_and_passes(cli, tmp_path, reference) -> None:
    judged = cli("judge", "test", write(tmp_path, "c", C, reference), "--json")
    assert judged.code == 0, judged.out + judged.err
    assert judged.json["correct"]["answer"] == "yes"


@pytest.mark.parametrize("name", WRONG_C)
def test_a_wrong_kernel_in_c_is_refused(cli, tmp_path, name) -> None:
    judged = cli("judge", "test", write(tmp_path, "c", replaced(C, *WRONG_C[name]), NUMPY_REFERENCE), "--json")
    assert judged.code == 1, judged.out + judged.err
    assert judged.json["correct"]["answer"] == "no"


def test_a_kernel_in_numpy_has_patterns(cli, tmp_path) -> None:
    judged = cli("judge", "test", write(tmp_path, "python", NUMPY, NUMPY_REFERENCE), "--json")
    assert judged.json["correct"]["answer"] == "yes", judged.out + judged.err


def test_a_kernel_in_c_can_be_timed_and_called_under_a_profiler(cli, tmp_path) -> None:
    file = write(tmp_path, "c", C, NUMPY_REFERENCE)
    timed = cli("judge", "bench", file, "--csv", tmp_path / "times.csv")
    assert timed.code == 0, timed.out + timed.err
    assert ",PASS," in (tmp_path / "times.csv").read_text()
    assert cli("judge", "profile", file, "--shape", "some", "--calls", "2").code == 0


def test_no_hole_is_known_of_such_a_task(cli, tmp_path) -> None:
    found = cli("judge", "lint", write(tmp_path, "c", C, NUMPY_REFERENCE), "--json")
    assert [finding["rule"] for finding in found.json["findings"] if finding["wrong"]] == []


@torch
@pytest.mark.slow
def test_a_right_kernel_in_pytorch_has_tensors_of_the_type_and_passes(cli, tmp_path) -> None:
    judged = cli("judge", "test", write(tmp_path, "python", TORCH, TORCH_REFERENCE, convention="return"), "--json")
    assert judged.json["correct"]["answer"] == "yes", judged.out + judged.err


@torch
@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG_TORCH)
def test_a_wrong_kernel_in_pytorch_is_refused(cli, tmp_path, name) -> None:
    kernel = replaced(TORCH, *WRONG_TORCH[name])
    judged = cli("judge", "test", write(tmp_path, "python", kernel, TORCH_REFERENCE, convention="return"), "--json")
    assert judged.json["correct"]["answer"] == "no", judged.out + judged.err


WRONG_TRITON = [
    ("fp8_group_quant", "/ 448.0", "/ 440.0"),
    ("fp8_group_quant", "(x / scale)", "(x / scale).to(tl.float8e5).to(tl.float32)"),
    ("fp8_group_quant", "scales_ptr + group, scale", "scales_ptr + group, 1.0 / scale"),
    ("fp8_block_gemm", "cols // GROUP * groups + group", "cols // GROUP * groups"),
    ("fp8_block_gemm", "acc += tl.dot(a, b)", "acc += tl.dot(a, b).to(tl.float8e5).to(tl.float32)"),
]


@triton
@pytest.mark.slow
@pytest.mark.parametrize(("name", "old", "new"), WRONG_TRITON)
def test_a_wrong_kernel_in_triton_is_refused(cli, tmp_path, name, old, new) -> None:
    for file in ("task.yaml", "reference.py", "kernel.py"):
        (tmp_path / file).write_text((PROOF / name / file).read_text())
    (tmp_path / "kernel.py").write_text(replaced((tmp_path / "kernel.py").read_text(), old, new))
    judged = cli("judge", "test", tmp_path / "task.yaml", "--json")
    assert judged.json["correct"]["answer"] == "no", judged.out + judged.err


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("library: allowed", "library: allowed\nprecision: tf32", "precision: tf32 is for products of float32, and a, q is of 8 bits"),
        ("library: allowed", "library: allowed\nprecision: emulated", "precision: emulated is for products of float32"),
        (
            "dtype: float8_e4m3fn}",
            "dtype: float8_e4m3fn, values: uniform, within: [-500, 10]}",
            "inputs.a.within: [-500, 10] goes beyond 448, the largest float8_e4m3fn; narrow it",
        ),
        (
            "dtype: float8_e4m3fn}",
            "dtype: float8_e4m3fn, values: integers, low: 0, high: 500}",
            "inputs.a: [0, 500) goes beyond 448, the largest float8_e4m3fn; narrow it",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_line(tmp_path, old, new, line) -> None:
    file = write(tmp_path, "c", C, NUMPY_REFERENCE)
    file.write_text(replaced(file.read_text(), old, new))
    with pytest.raises(TaskError) as refused:
        load_task(file)
    assert str(refused.value).startswith(f"task.yaml: {line}")
    assert "\n" not in str(refused.value)


@torch
@pytest.mark.slow
@pytest.mark.parametrize("right", [True, False])
def test_the_path_of_a_card_judges_alike(tmp_path, right: bool) -> None:
    from ridgeline.sandbox.judge.device_judge import DeviceCallJudge, DeviceTests
    from ridgeline.sandbox.judge.device_reference import DeviceReference
    from ridgeline.sandbox.judge.device_session import DeviceSession, open_memory
    from ridgeline.sandbox.judge.device_timing import DevicePairs
    from ridgeline.sandbox.judge.device_values import Chance
    from ridgeline.sandbox.judge.freeze import freeze_sources
    from ridgeline.sandbox.judge.options import Options
    from ridgeline.sandbox.judge.timing import TimingRefused

    kernel = TORCH if right else replaced(TORCH, *WRONG_TORCH["by way of e4m3"])
    task, folder = load_task(write(tmp_path, "python", kernel, TORCH_REFERENCE, convention="return"))
    chance = Chance.draw("cpu", np.random.default_rng(7))
    reference = DeviceReference(task, folder, "cpu")
    bench = DeviceCallJudge(task=task, reference=reference, options=Options(device="cpu"), chance=chance)
    version = tmp_path / "version"
    version.mkdir(mode=0o755)
    (version / "kernel.py").write_text(kernel)
    with freeze_sources(task, version) as frozen:

        def opened() -> DeviceSession:
            return DeviceSession(task, frozen.folder, memory=open_memory("cpu"), chance=chance, device="cpu")

        assert DeviceTests(bench=bench).check(opened).answer == ("yes" if right else "no")
        if right:
            for _ in range(3):  # beside other work clocks may not settle it
                calls = DevicePairs(bench=bench).run({"a": opened, "b": opened}, task.timed, 2)
                if not isinstance(calls, TimingRefused) or not calls.unclear:
                    break
            assert not isinstance(calls, TimingRefused)


FILE = """import torch


class Model(torch.nn.Module):
    def forward(self, a, s):
        return (a.float() * s).to(torch.float8_e4m3fn)


def get_inputs():
    return [torch.randn(32, 64).to(torch.float8_e4m3fn), torch.rand(32, 1)]


def get_init_inputs():
    return []
"""


@torch
@pytest.mark.slow
def test_a_file_of_pytorch_with_such_tensors_becomes_a_task(cli, tmp_path) -> None:
    (tmp_path / "quantize.py").write_text(FILE)
    made = cli("init", tmp_path / "made", "--from-kernelbench", tmp_path / "quantize.py")
    assert made.code == 0, made.out + made.err
    task, _ = load_task(tmp_path / "made")
    assert [tensor.dtype for tensor in (*task.inputs, *task.outputs)] == ["float8_e4m3fn", "float32", "float8_e4m3fn"]
    assert cli("judge", "test", tmp_path / "made", "--json").json["correct"]["answer"] == "yes"
