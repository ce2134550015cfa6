"""What a kernel makes of NaN, infinity and subnormals is said where the reference defines it, and held against nobody."""

import shutil

import pytest
import yaml

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
KERNEL = """#include <stdint.h>
#include <math.h>
void relu(const float *x, float *y, int64_t n) {{
    for (int64_t i = 0; i < n; i++) y[i] = {value};
}}
"""


def judged(cli, folder, value, **changes):
    task = {
        "task": 1,
        "name": "relu",
        "language": "c",
        "source": ["kernel.c"],
        "entry": "relu",
        "inputs": [{"name": "x", "shape": ["n"], **changes}],
        "outputs": [{"name": "y", "shape": ["n"]}],
        "shapes": [{"label": "small", "dims": {"n": 100}}, {"label": "large", "dims": {"n": 4000}}],
    }
    folder.mkdir()
    (folder / "task.yaml").write_text(yaml.safe_dump(task))
    (folder / "reference.py").write_text("import numpy as np\ndef reference(x):\n    return np.maximum(x, 0)\n")
    (folder / "kernel.c").write_text(KERNEL.format(value=value))
    answer = cli("judge", "test", folder, "--json")
    assert answer.json["correct"]["answer"] == "yes", answer.out
    return [line for line in answer.json["correct"]["evidence"] if "differ from the reference in kind" in line]


def test_a_kernel_that_treats_them_otherwise_is_right_and_it_is_said(cli, tmp_path):
    same = judged(cli, tmp_path / "same", "x[i] > 0 || isnan(x[i]) ? x[i] : 0")
    assert same == []
    lost = judged(cli, tmp_path / "lost", "x[i] > 0 ? x[i] : 0")
    assert lost == ["NaN in x, small: 1 of 100 elements of y differ from the reference in kind, such as zero for NaN"]
    flushed = judged(cli, tmp_path / "flushed", "x[i] > 1e-37f || isnan(x[i]) ? x[i] : 0")
    assert len(flushed) == 1
    assert flushed[0].startswith("subnormals in x, small: ")
    assert flushed[0].endswith("elements of y differ from the reference in kind, such as zero for a number")


def test_an_input_with_a_domain_gets_none(cli, tmp_path):
    assert judged(cli, tmp_path / "positive", "x[i] > 0 ? x[i] : 0", values="positive") == []
