"""The reference answers from a process of its own: exact values, the task's own types, and clear errors."""

import json
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.sandbox.judge.children import Child, ChildLimits
from ridgeline.sandbox.judge.dtypes import from_float64, to_float64
from ridgeline.sandbox.judge.references import Reference, ReferenceFailed, ReferenceLimits

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(5)
COLD = ReferenceLimits(start_s=120, call_s=20)


def task(dtype: str = "float32", **changes) -> Task:
    fields = {
        "name": "scaled",
        "language": "python",
        "source": ("kernel.py",),
        "entry": "run",
        "inputs": (Input(name="x", shape=("n",), dtype=dtype), Input(name="w", shape=("n",), dtype=dtype)),
        "outputs": (Output(name="y", shape=("n",), dtype=dtype),),
        "shapes": (Shape(label="s", dims={"n": 8}),),
    }
    return Task.model_validate(fields | changes)


def written(folder: Path, text: str) -> Path:
    (folder / "reference.py").write_text(textwrap.dedent(text))
    return folder


def drawn(wanted: Task, n: int = 8) -> dict[str, np.ndarray]:
    return {one.name: from_float64(RNG.standard_normal(n), one.dtype) for one in wanted.inputs}


@pytest.mark.parametrize("library", ["numpy as np", "torch as np"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_the_oracle_is_exact_and_the_trusted_answer_is_in_the_tasks_types(tmp_path, library, dtype):
    folder = written(tmp_path, f"import {library}\ndef reference(x, w):\n    return np.exp(x) / 3 * w\n")
    wanted = task(dtype)
    inputs = drawn(wanted)
    exact = np.exp(to_float64(inputs["x"], dtype)) / 3 * to_float64(inputs["w"], dtype)
    with Reference(wanted, folder) as reference:
        oracle, trusted = reference.oracle(inputs)["y"], reference.trusted(inputs)["y"]
    assert reference.framework == library.split(maxsplit=1)[0]
    assert oracle.dtype == trusted.dtype == np.float64
    assert oracle == pytest.approx(exact, rel=1e-14)
    assert reference.notes == ()
    assert (to_float64(from_float64(trusted, dtype), dtype) == trusted).all(), "rounded to the task's type"
    if dtype != "float64":
        assert (trusted != oracle).any(), "the trusted answer has rounding errors of its own"
    assert trusted == pytest.approx(exact, rel={"bfloat16": 0.03, "float16": 4e-3}.get(dtype, 1e-6))


def test_one_process_answers_many_questions_and_ends_with_the_block(tmp_path):
    folder = written(tmp_path, "import os\ndef reference(x, w):\n    return x * 0 + os.getpid()\n")
    wanted = task("float64")
    with Reference(wanted, folder) as reference:
        pids = {float(reference.oracle(drawn(wanted))["y"][0]) for _ in range(3)}
        assert len(pids) == 1
        assert psutil.pid_exists(int(*pids))
    assert not psutil.pid_exists(int(*pids))


def test_float32_inside_a_torch_reference_becomes_float64_in_the_oracle(tmp_path):
    text = """
        import torch
        def reference(x, w):
            total = torch.zeros(x.shape, dtype=torch.float32)
            total += x.float() / 3
            return (total + torch.ones(len(x)) / 7).to(x.dtype) * w
    """
    wanted = task()
    inputs = drawn(wanted)
    exact = (inputs["x"].astype(float) / 3 + 1 / 7) * inputs["w"].astype(float)
    with Reference(wanted, written(tmp_path, text)) as reference:
        assert reference.oracle(inputs)["y"] == pytest.approx(exact, rel=1e-14)
        assert reference.notes == ()


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("import torch\ndef reference(x, w):\n    return x.to(torch.bfloat16) * w", "rounds to bfloat16 on the way"),
        ("import numpy as np\ndef reference(x, w):\n    return (x * w).astype(np.float32)", "y comes as float32"),
    ],
)
def test_an_oracle_that_rounds_is_noted(tmp_path, body, note):
    wanted = task()
    with Reference(wanted, written(tmp_path, body)) as reference:
        reference.oracle(drawn(wanted))
        reference.oracle(drawn(wanted))
        assert reference.notes == (note,)


def test_a_reference_may_define_its_own_oracle_and_trusted_answer(tmp_path):
    text = "import numpy as np\ndef oracle(x, w):\n    return x * 0 + 1\ndef trusted(x, w):\n    return x * 0 + 2\n"
    wanted = task()
    with Reference(wanted, written(tmp_path, text)) as reference:
        assert set(reference.oracle(drawn(wanted))["y"]) == {1.0}
        assert set(reference.trusted(drawn(wanted))["y"]) == {2.0}


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_mutated_input_comes_back_under_its_name_and_the_given_one_stays(tmp_path, library):
    text = f"import {library}\ndef reference(x, w):\n    x += w\n    return x.sum().reshape(1)\n"
    wanted = task(
        inputs=(Input(name="x", shape=("n",), constness="mutated"), Input(name="w", shape=("n",))),
        outputs=(Output(name="total", shape=("1",)),),
    )
    inputs = drawn(wanted)
    before = inputs["x"].copy()
    with Reference(wanted, written(tmp_path, text)) as reference:
        found = reference.oracle(inputs)
    assert set(found) == {"x", "total"}
    assert found["x"] == pytest.approx(before.astype(float) + inputs["w"], rel=1e-14)
    assert (inputs["x"] == before).all()


def test_integers_masks_and_scalars(tmp_path):
    text = """
        import torch
        def reference(ids, keep):
            assert keep.dtype == torch.bool and ids.dtype == torch.int32
            return {"count": keep.sum(), "kept": torch.where(keep, ids, 0)}
    """
    wanted = task(
        inputs=(
            Input(name="ids", shape=("n",), dtype="int32", values="integers"),
            Input(name="keep", shape=("n",), dtype="bool", values="mask"),
        ),
        outputs=(Output(name="count", shape=(), dtype="int64"), Output(name="kept", shape=("n",), dtype="int32")),
    )
    inputs = {"ids": np.arange(8, dtype=np.int32), "keep": np.array([1, 0] * 4, dtype=np.uint8)}
    with Reference(wanted, written(tmp_path, text)) as reference:
        for found in (reference.oracle(inputs), reference.trusted(inputs)):
            assert found["count"].shape == ()
            assert found["count"] == 4
            assert found["kept"].tolist() == [0, 0, 2, 0, 4, 0, 6, 0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def reference(x, w):\n    y = x\n    return y / missing", "oracle: line 3: NameError: name 'missing'"),
        ("import nothing_of_that_name\n", "import: line 1: ModuleNotFoundError: No module named"),
        ("def other(x, w):\n    return x", "oracle: defines neither oracle() nor reference()"),
        ("def reference(x, w):\n    return x, w", "oracle: returns 2 results where the task has the outputs ['y']"),
        ("def reference(x, w):\n    return None", "oracle: returns 1 results where"),
        ("def reference(x, w):\n    return {'z': x}", "oracle: returns ['z'] where"),
        ("def reference(x, w):\n    return 'text'", "oracle: a result is no array of numbers"),
        ("import os\ndef reference(x, w):\n    print('bye', flush=True)\n    os._exit(3)", "ended with 3: bye"),
        ("import sys\ndef reference(x, w):\n    sys.exit(0)", "oracle: line 3: SystemExit: 0"),
        ("def reference(x, w):\n    raise ValueError('a' * 5000)", "ValueError: aaaa"),
    ],
)
def test_a_reference_that_fails_is_one_line_that_names_the_place(tmp_path, body, said):
    wanted = task()
    with (
        Reference(wanted, written(tmp_path, body)) as reference,
        pytest.raises(ReferenceFailed) as caught,
    ):
        reference.oracle(drawn(wanted))
    line = str(caught.value)
    assert line.startswith("reference.py: ")
    assert said in line
    assert line.endswith("; correct the reference")
    assert "\n" not in line
    assert len(line) < 1200
    assert caught.value.exit_code == 2


def test_after_an_error_the_same_process_goes_on_and_after_a_death_a_new_one(tmp_path):
    text = """
        import os
        calls = []
        def reference(x, w):
            if x[0] == 1:
                raise ValueError("no ones")
            if x[0] == 2:
                os.kill(os.getpid(), 9)
            calls.append(1)
            return x * 0 + len(calls)
    """
    wanted = task("float64")
    one = {"x": np.ones(8), "w": np.ones(8)}
    with Reference(wanted, written(tmp_path, text)) as reference:
        assert reference.oracle(drawn(wanted))["y"][0] == 1
        with pytest.raises(ReferenceFailed, match="no ones"):
            reference.oracle(one)
        assert reference.oracle(drawn(wanted))["y"][0] == 2
        with pytest.raises(ReferenceFailed, match="killed by signal 9"):
            reference.oracle({**one, "x": np.full(8, 2.0)})
        assert reference.oracle(drawn(wanted))["y"][0] == 1


def test_a_reference_that_never_answers_is_ended(tmp_path):
    wanted = task()
    folder = written(tmp_path, "import time\ndef reference(x, w):\n    time.sleep(100)\n")
    began = time.monotonic()
    with (
        Reference(wanted, folder, patience=ReferenceLimits(call_s=0.5)) as reference,
        pytest.raises(ReferenceFailed, match=r"no answer in 0\.5 s"),
    ):
        reference.oracle(drawn(wanted))
    assert time.monotonic() - began < 30


def test_memory_is_limited(tmp_path):
    wanted = task()
    folder = written(tmp_path, "import numpy as np\ndef reference(x, w):\n    return np.ones(1 << 30) + x[0]\n")
    with (
        Reference(wanted, folder, patience=ReferenceLimits(memory_mb=4096)) as reference,
        pytest.raises(ReferenceFailed, match="MemoryError"),
    ):
        reference.oracle(drawn(wanted))


def test_the_reference_sees_no_secret_and_no_argument_beyond_its_pipes(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    report = tmp_path / "seen.json"
    text = f"""
        import json, os, pathlib
        def reference(x, w):
            pathlib.Path({str(report)!r}).write_text(json.dumps(dict(os.environ)))
            return x
    """
    wanted = task()
    with Reference(wanted, written(tmp_path, text)) as reference:
        reference.oracle(drawn(wanted))
    assert "SOME_API_KEY" not in json.loads(report.read_text())


def test_many_inputs_are_asked_about_at_once_and_each_answer_is_as_if_asked_alone(tmp_path):
    text = "import numpy as np\ndef reference(x, w):\n    x *= 2\n    return np.exp(x) * w / 3\n"
    wanted = task(inputs=(Input(name="x", shape=("n",), constness="mutated"), Input(name="w", shape=("n",))))
    many = [drawn(wanted, n) for n in (8, 1, 100_000)]
    with Reference(wanted, written(tmp_path, text)) as reference:
        together = reference.both(many)
        for inputs, answers in zip(many, together, strict=True):
            for question, alone in (("oracle", reference.oracle(inputs)), ("trusted", reference.trusted(inputs))):
                assert sorted(answers[question]) == sorted(alone) == ["x", "y"]
                assert all((answers[question][name] == alone[name]).all() for name in alone)


def test_a_reference_that_returns_the_same_array_each_time_loses_no_answer(tmp_path):
    text = "import numpy as np\nkept = np.zeros(8)\ndef reference(x, w):\n    kept[:] = x * w\n    return kept\n"
    wanted = task("float64")
    many = [drawn(wanted) for _ in range(3)]
    with Reference(wanted, written(tmp_path, text)) as reference:
        for inputs, answers in zip(many, reference.both(many), strict=True):
            assert (answers["oracle"]["y"] == inputs["x"] * inputs["w"]).all()


def test_which_question_failed_is_told_when_both_were_asked(tmp_path):
    text = "def oracle(x, w):\n    return x\ndef trusted(x, w):\n    raise ValueError('not today')\n"
    wanted = task("float64")
    with (
        Reference(wanted, written(tmp_path, text)) as reference,
        pytest.raises(ReferenceFailed, match="trusted: line 4: ValueError: not today"),
    ):
        reference.both([drawn(wanted)])


HOST = """
import json, os, struct, sys
said = json.dumps({name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "SOME_API_KEY")}).encode()
os.write(int(sys.argv[2]), struct.pack("<Q", len(said)) + said)
"""


@pytest.mark.parametrize("card", [False, True])
def test_a_trusted_helper_on_a_card_is_told_which_card_is_meant(tmp_path, monkeypatch, card):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setenv("SOME_API_KEY", "secret")
    host = tmp_path / "host.py"
    host.write_text(HOST)
    child = Child(host, ChildLimits(card=card))
    try:
        told = json.loads(child.ask([], timeout_s=20).message())
    finally:
        child.close()
    assert told == {"CUDA_VISIBLE_DEVICES": "2" if card else None, "SOME_API_KEY": None}
