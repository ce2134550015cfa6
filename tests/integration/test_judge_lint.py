"""Tasks that reward the wrong thing are told from those that do not, before anybody works on them."""

from pathlib import Path

import pytest

from graph.task import Input, Output, Shape, Task
from sandbox.judge.freeze import frozen
from sandbox.judge.lint import lint
from sandbox.judge.references import Reference
from sandbox.judge.session import Session

SOUND = "import numpy as np\ndef reference(x, w, b):\n    return x @ w + b\n"


def task(**changes) -> Task:
    fields = {
        "name": "linear",
        "language": "python",
        "source": ("kernel.py",),
        "entry": "run",
        "convention": "return",
        "inputs": (
            Input(name="x", shape=("m", "k")),
            Input(name="w", shape=("k", "n"), constness="const"),
            Input(name="b", shape=("n",), constness="const"),
        ),
        "outputs": (Output(name="y", shape=("m", "n")),),
        "shapes": (Shape(label="s", dims={"m": 8, "k": 16, "n": 12}),),
        "bytes": "4*m*n",
        "flops": "2*m*n*k",
    }
    return Task.model_validate(fields | changes)


def holes(folder: Path, text: str, wanted: Task) -> dict[str, str]:
    (folder / "reference.py").write_text(text)
    with Reference(wanted, folder) as reference:
        return {hole.rule: hole.text for hole in lint(wanted, reference)}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_sound_task_has_no_holes(tmp_path, dtype):
    inputs = tuple(one.model_copy(update={"dtype": dtype}) for one in task().inputs)
    wanted = task(inputs=inputs, outputs=(Output(name="y", shape=("m", "n"), dtype=dtype),))
    assert holes(tmp_path, SOUND, wanted) == {}


@pytest.mark.parametrize(
    ("body", "rule", "said"),
    [
        ("x @ w * 0 + b * 0 + 3", "constant-output", "y: hardly depends on the inputs"),
        ("x @ w * 1e-9 + 5 + b * 1e-9", "constant-output", "a constant would pass"),
        ("np.triu(x @ w + b, 6)", "partly-constant", "of its elements are the same"),
        ("(x @ w + b) * 1e-4", "tiny-range", "lie within 0.01 of zero"),
        ("x @ w + 0 * b", "insensitive-input", "b: another one gives the same result"),
        ("x @ w + b * (b != 0) * (np.abs(b - 1) > 9)", "insensitive-input", "b: "),
        ("x @ w + np.random.rand() + b", "unrepeatable", "other results for the same inputs"),
        ("np.log(x) @ w + b", "not-finite", "y: is not finite for ordinary inputs"),
        ("(x @ w + b)[:, :3]", "wrong-shape", "the reference gives [8, 3], the task says [8, 12]"),
        ("(x @ w + b).astype(np.float32)", "narrow-oracle", "y comes as float32, so the oracle is not exact"),
    ],
)
def test_holes(tmp_path, body, rule, said):
    found = holes(tmp_path, f"import numpy as np\ndef reference(x, w, b):\n    return {body}\n", task())
    assert rule in found, found
    assert said in found[rule]


def test_a_parameter_that_might_as_well_be_what_it_began_with(tmp_path):
    x, w, _ = task().inputs
    gain = Input(name="b", shape=("1",), constness="const", values="mask")
    found = holes(tmp_path, SOUND, task(inputs=(x, w, gain)))
    assert found
    assert set(found) <= {"init-dependent", "insensitive-input"}, "one element, which is 0 or 1"


def test_unknown_work(tmp_path):
    found = holes(tmp_path, SOUND, task(bytes=None, flops=None))
    assert set(found) == {"unknown-work"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "rules"),
    [
        ("x @ w + b", {"too-short"}),
        ("x @ w", {"broken-baseline", "too-short"}),
        ("1 / 0", {"broken-baseline"}),
    ],
)
def test_the_version_that_the_task_begins_with(tmp_path, body, rules):
    (tmp_path / "reference.py").write_text(SOUND)
    (tmp_path / "kernel.py").write_text(f"import numpy as np\ndef run(x, w, b):\n    return {body}\n")
    wanted = task()
    with Reference(wanted, tmp_path) as reference, frozen(wanted, tmp_path) as version:
        found = lint(wanted, reference, opened=lambda: Session(wanted, version.folder))
    assert {hole.rule for hole in found} - {"too-short"} == rules - {"too-short"}
