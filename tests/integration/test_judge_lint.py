"""Tasks that reward the wrong thing are told from those that do not, before anybody works on them."""

from pathlib import Path

import pytest

from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.lint import find_known_defects, lint_task
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import Session

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
        return {hole.rule: hole.text for hole in lint_task(wanted, reference)}


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


@pytest.mark.parametrize(("keys", "found"), [(5, set()), (1, {"constant-output", "insensitive-input"})])
def test_what_has_no_effect_at_the_smallest_size_must_have_none_at_a_larger_one(tmp_path, keys, found):
    """The weights of attention over one key are 1, whatever query and key are."""
    wanted = task(
        inputs=(Input(name="q", shape=("m", "k")), Input(name="keys", shape=("n", "k"))),
        outputs=(Output(name="weights", shape=("m", "n")),),
        shapes=(Shape(label="one", dims={"m": 2, "k": 4, "n": 1}), Shape(label="s", dims={"m": 8, "k": 16, "n": keys})),
    )
    text = "import numpy as np\ndef reference(q, k):\n    e = np.exp(q @ k.T)\n    return e / e.sum(1, keepdims=True)\n"
    assert set(holes(tmp_path, text, wanted)) == found
    with Reference(wanted, tmp_path) as reference:
        assert {finding.rule for finding in find_known_defects(wanted, reference)} == found


def test_a_parameter_that_might_as_well_be_what_it_began_with(tmp_path):
    x, w, _ = task().inputs
    gain = Input(name="b", shape=("1",), constness="const", values="mask")
    found = holes(tmp_path, SOUND, task(inputs=(x, w, gain)))
    assert found
    assert set(found) <= {"init-dependent", "insensitive-input"}, "one element, which is 0 or 1"


def test_an_input_of_two_values_is_drawn_until_it_is_another(tmp_path):
    inputs = (Input(name="x", shape=("n",)), Input(name="one", shape=("1",), dtype="int32", values="integers", high=2))
    wanted = task(inputs=inputs, outputs=(Output(name="y", shape=("n",)),))
    text = "import numpy as np\ndef reference(x, one):\n    return np.where(one[0] == 0, 2 * x, x * x)\n"
    assert [holes(tmp_path, text, wanted) for _ in range(6)] == [{}] * 6


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("np.linalg.inv(a)", "has no answer for structure values"),
        ("np.linalg.cholesky(a @ a.swapaxes(-1, -2) + (1 + (a * a).max()) * np.eye(8, dtype=a.dtype))", None),
    ],
)
def test_values_for_which_the_reference_has_no_answer(tmp_path, body, said):
    wanted = task(
        inputs=(Input(name="a", shape=("b", "8", "8")),),
        outputs=(Output(name="y", shape=("b", "8", "8")),),
        shapes=(Shape(label="s", dims={"b": 64}),),
        bytes="4*b",
        flops="b",
    )
    # of 64 matrices of structure one is singular in every draw; of eight there was a draw with none
    found = holes(tmp_path, f"import numpy as np\ndef reference(a):\n    return {body}\n", wanted)
    assert said in found["no-answer"] if said else "no-answer" not in found
    if said:
        assert "LinAlgError: Singular matrix" in found["no-answer"]


WHOLE = {"shapes": (Shape(label="s", dims={"m": 64, "n": 250}),), "flops": "m*n"}


@pytest.mark.parametrize(
    ("body", "wrong", "said"),
    [
        ("np.floor(x * 1e9).astype(np.int64)", True, "of it, which cannot be judged"),
        ("np.round(x * 100).astype(np.int64)", False, "there, every value it may take passes"),
        ("(x > 0).astype(np.int64)", None, ""),
    ],
)
def test_whole_numbers_that_rounding_decides(tmp_path, body, wrong, said):
    wanted = task(
        inputs=(Input(name="x", shape=("m", "n")),),
        outputs=(Output(name="y", shape=("m", "n"), dtype="int64"),),
        **WHOLE,
    )
    (tmp_path / "reference.py").write_text(f"import numpy as np\ndef reference(x):\n    return {body}\n")
    with Reference(wanted, tmp_path) as reference:
        found = [hole for hole in lint_task(wanted, reference) if hole.rule == "rounding-decides"]
    assert [hole.wrong for hole in found] == ([] if wrong is None else [wrong])
    assert all(said in hole.text for hole in found)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("np.rint(x * 8) / 8", "what lies on either side passes"),
        ("np.rint(x * 1e4) / 1e3", "right kernels may be refused; judge what it is made from"),
        ("np.maximum(x, 0)", None),
        ("x / x.sum(axis=-1, keepdims=True)", None),
    ],
)
def test_float_results_that_rounding_decides(tmp_path, body, said):
    dims = {"m": 64, "n": 900}
    wanted = task(
        inputs=(Input(name="x", shape=("m", "n")),),
        outputs=(Output(name="y", shape=("m", "n")),),
        shapes=(Shape(label="s", dims=dims),),
        flops="m*n",
    )
    (tmp_path / "reference.py").write_text(f"import numpy as np\ndef reference(x):\n    return {body}\n")
    with Reference(wanted, tmp_path) as reference:
        found = [hole for hole in lint_task(wanted, reference) if hole.rule == "rounding-decides"]
    assert [(hole.wrong, said in hole.text) for hole in found] == ([] if said is None else [(False, True)])


@pytest.mark.parametrize(
    ("first", "rules"),
    [
        ("np.argsort(x, axis=-1, kind='stable')", set()),
        ("x.shape[1] - 1 - np.argsort(x[:, ::-1], axis=-1, kind='stable')", {"arbitrary-ties"}),
        ("np.argsort(-x, axis=-1, kind='stable')", {"broken-baseline"}),
    ],
)
def test_which_of_equal_elements_is_meant(tmp_path, first, rules):
    text = "import numpy as np\ndef {}(x):\n    return {}\n"
    (tmp_path / "reference.py").write_text(text.format("reference", "np.argsort(x, axis=-1, kind='stable')"))
    (tmp_path / "kernel.py").write_text(text.format("run", first))
    wanted = task(
        inputs=(Input(name="x", shape=("m", "n"), dtype="int32", values="integers", high=9),),
        outputs=(Output(name="y", shape=("m", "n"), dtype="int64"),),
        **WHOLE,
    )
    with Reference(wanted, tmp_path) as reference, freeze_sources(wanted, tmp_path) as version:
        found = lint_task(wanted, reference, opened=lambda: Session(wanted, version.folder))
    assert {hole.rule for hole in found} - {"too-short"} == rules


def test_a_count_is_no_place(tmp_path):
    """All elements of x may be the same, and then any number names one of them."""
    wanted = task(
        inputs=(Input(name="x", shape=("n",), values="uniform"),),
        outputs=(Output(name="y", shape=("n",), dtype="int32"),),
        shapes=(Shape(label="s", dims={"n": 200}),),
        flops="n",
        bytes="4*n",
    )
    text = "import numpy as np\ndef reference(x):\n    return np.floor(np.abs(x) * 1e6).astype(np.int32) % 100\n"
    for _ in range(4):
        assert "arbitrary-ties" not in holes(tmp_path, text, wanted)


def test_results_that_are_all_in_place(tmp_path):
    wanted = task(
        inputs=(Input(name="p", shape=("n",), constness="mutated"), Input(name="g", shape=("n",))),
        outputs=(),
        shapes=(Shape(label="s", dims={"n": 50}),),
        flops="n",
        bytes="4*n",
    )
    (tmp_path / "kernel.py").write_text("def run(p, g):\n    p -= 0.1 * g\n")
    (tmp_path / "reference.py").write_text("def reference(p, g):\n    p -= 0.1 * g\n")
    with Reference(wanted, tmp_path) as reference, freeze_sources(wanted, tmp_path) as version:
        found = lint_task(wanted, reference, opened=lambda: Session(wanted, version.folder))
    assert {hole.rule for hole in found} <= {"too-short"}
    assert holes(tmp_path, "def reference(p, g):\n    p *= 2\n", wanted).keys() == {"insensitive-input"}


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
    with Reference(wanted, tmp_path) as reference, freeze_sources(wanted, tmp_path) as version:
        found = lint_task(wanted, reference, opened=lambda: Session(wanted, version.folder))
    assert {hole.rule for hole in found} - {"too-short"} == rules - {"too-short"}


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        ("x @ w + b", set()),
        ("x @ w + b + (0.01 if x.dtype == np.float64 else 0)", {"far-oracle"}),
        ("np.sin(1e4 * (x @ w)) + b", set()),
        ("x @ w + b * 0", set()),
        ("x.sum() * 0 + w.sum() + np.zeros((8, 12)) + b", {"insensitive-input"}),
        ("x @ w * 0 + b * 0 + 3", {"constant-output", "insensitive-input"}),
    ],
    ids=["sound", "chance", "steep", "a bias", "no new input", "constant"],
)
def test_holes_that_leave_no_verdict(tmp_path, body, rules):
    (tmp_path / "reference.py").write_text(f"import numpy as np\ndef reference(x, w, b):\n    return {body}\n")
    with Reference(task(), tmp_path) as reference:
        assert {hole.rule for hole in find_known_defects(task(), reference)} == rules


def test_a_contract_is_told_from_a_task(cli, tmp_path):
    contract = tmp_path / "ridgeline.yaml"
    contract.write_text("target_op: blur\ntest_command: [make, test]\nbenchmark_command: [./bench]\n")
    said = cli("judge", "lint", contract)
    assert (said.code, said.complaint) == (
        2,
        f"{contract}: is a contract, not a task; use `ridgeline check {contract}`",
    )
    (tmp_path / "task.yaml").write_text("nmae: blur\n")
    assert "nmae: unknown field" in cli("judge", "lint", tmp_path / "task.yaml").err
