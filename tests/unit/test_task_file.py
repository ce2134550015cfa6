"""Every bad task gives one clear line per problem: file, field, what is wrong, mend."""

from pathlib import Path

import pytest
import yaml

from ridgeline.sandbox.judge.task_file import TaskError, load_task

GOOD = {
    "task": 1,
    "name": "scaled",
    "language": "python",
    "source": ["kernel.py"],
    "entry": "run",
    "inputs": [{"name": "x", "shape": ["n", "2*m"]}, {"name": "w", "shape": ["n"]}],
    "outputs": [{"name": "y", "shape": ["n"]}],
    "shapes": [{"label": "s", "dims": {"n": 8, "m": 4}}],
    "drawn": {"ranges": {"n": [1, 64]}},
    "bytes": "4*n*m",
}
FILES = {
    "kernel.py": "def run(x, w, y):\n    pass\n",
    "reference.py": "def reference(x, w):\n    return x.sum(-1) * w\n",
}


def written(folder: Path, changes: dict, **files: str | None) -> Path:
    for name, text in {**FILES, **{name.replace("_py", ".py"): text for name, text in files.items()}}.items():
        if text is not None:
            (folder / name).write_text(text)
    fields = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    (folder / "task.yaml").write_text(yaml.safe_dump(fields, sort_keys=False))
    return folder / "task.yaml"


def problem(path: Path) -> str:
    with pytest.raises(TaskError) as caught:
        load_task(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_task_is_found_by_file_and_by_folder(tmp_path):
    path = written(tmp_path, {})
    assert load_task(path) == load_task(tmp_path)
    task, folder = load_task(path)
    assert folder == tmp_path
    assert task.order == ("x", "w", "y")


def test_a_kernel_that_only_changes_its_inputs_has_no_outputs(tmp_path):
    changed = [{**GOOD["inputs"][0], "constness": "mutated"}, GOOD["inputs"][1]]
    task, _ = load_task(written(tmp_path, {"inputs": changed, "outputs": []}))
    assert task.order == ("x", "w")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nmae": "x"}, "nmae: unknown field; did you mean 'name'?"),
        ({"shapes": [{"label": "s", "dims": {"n": 8, "m": 4}, "tmied": True}]}, "shapes.0.tmied: unknown field; did"),
        ({"name": None}, "name: missing; add it"),
        ({"name": True}, "name: found True, which is how YAML reads on, off, yes and no; put the word in quotes"),
        ({"language": "pyhton"}, "language: input should be 'c', 'python'"),
        ({"outputs": []}, "outputs: there is none, and no input is mutated; name what the kernel writes"),
        ({"inputs": []}, "inputs: tuple should have at least 1 item"),
        ({"inputs": [{"name": "x y", "shape": ["n"]}]}, "inputs.0.name: 'x y' is not a name"),
        ({"outputs": [{"name": "x", "shape": ["n"]}]}, "inputs and outputs: x is named twice"),
        ({"shapes": [{"label": "s", "dims": {"n": 0, "m": 4}}]}, "shapes.s.n: is 0; give 1 or more"),
        ({"shapes": [{"label": "s", "dims": {"n": 1, "m": 1}, "timed": False}]}, "shapes: none is timed"),
        ({"shapes": [{"label": "s", "dims": {"x": 1}}], "drawn": None}, "shapes: dimension 'x' is no free name"),
        ({"shapes": [{"label": "s", "dims": {"n": 1, "m": 1}}] * 2}, "shapes: 's' labels two shapes"),
        ({"outputs": [{"name": "y", "shape": ["k"]}]}, "outputs.y.shape: unknown variable 'k'; known: m, n"),
        ({"outputs": [{"name": "y", "shape": ["n/3"]}]}, "outputs.y.shape: 'n/3' is 2.66667 for s; whole numbers"),
        ({"outputs": [{"name": "y", "shape": ["n*10**10"]}]}, "outputs.y.shape: has 8e+10 elements for s"),
        ({"bytes": "4*k"}, "bytes: unknown variable 'k'"),
        ({"flops": "n - 9"}, "flops: is less than 0 for s"),
        ({"bytes": "n - 8"}, "bytes: is less than 1 for s"),
        ({"arguments": ["x", "y"]}, "arguments: 'w' is missing; the kernel needs every array"),
        ({"arguments": ["x", "x", "w", "y"]}, "arguments: 'x' is named twice"),
        ({"arguments": ["x", "w"]}, "arguments: 'y' is missing"),
        ({"arguments": ["x", "w", "y"], "convention": "return"}, "arguments: y is returned by the kernel"),
        ({"drawn": {"ranges": {"n": [5, 2]}}}, "drawn.ranges.n: [5, 2] is no range of sizes"),
        ({"drawn": {"ranges": {"n": [0, 2]}}}, "drawn.ranges.n: [0, 2] is no range of sizes"),
        (
            {"drawn": {"ranges": {"n": [9, 15]}, "multiples": {"n": 8}}},
            "drawn.ranges.n: [9, 15] holds no multiple of 8",
        ),
        ({"drawn": {"ranges": {"k": [1, 2]}}}, "drawn.ranges: k is no dimension of the shapes"),
        ({"drawn": {"multiples": {"n": 8}}}, "drawn.multiples.n: has no range"),
        ({"inputs": [{"name": "x", "shape": ["n"], "dtype": "int32"}]}, "inputs.x.values: int32 holds whole numbers"),
        ({"inputs": [{"name": "x", "shape": ["n"], "dtype": "bool"}]}, "inputs.x.values: bool holds 0 and 1"),
        (
            {"inputs": [{"name": "x", "shape": ["n"], "dtype": "int8", "values": "integers", "high": 500}]},
            "inputs.x: [0, 500) does not fit int8",
        ),
        (
            {"inputs": [{"name": "x", "shape": ["n"], "values": "integers", "low": 3, "high": 4}]},
            "inputs.x.high: 3 is the only value in [3, 4)",
        ),
        (
            {"inputs": [{"name": "x", "shape": ["n"], "within": [1, 2]}]},
            "inputs.x.within: is for `uniform` and `positive`",
        ),
        (
            {"inputs": [{"name": "x", "shape": ["n"], "values": "uniform", "within": [2, 2]}]},
            "inputs.x.within: [2, 2] is no range",
        ),
        (
            {"inputs": [{"name": "x", "shape": ["n"], "values": "positive", "within": [-1, 2]}]},
            "inputs.x.within: begins below 0",
        ),
        ({"entry": "go"}, "entry: kernel.py has no 'go'"),
        ({"entry": "a b"}, "entry: 'a b' is not the name of a function"),
        ({"source": ["absent.py"]}, "source: 'absent.py' is no file in"),
        ({"source": ["../kernel.py"]}, "source: '../kernel.py' leaves the task's folder"),
        ({"source": ["/etc/hosts"]}, "source: '/etc/hosts' leaves the task's folder"),
        ({"source": ["kernel.py", "reference.py"]}, "reference: reference.py is among the candidate's sources"),
        ({"source": ["kernel.py", "task.yaml"]}, "source: task.yaml is the judge's alone"),
        ({"language": "c"}, "source: 'kernel.py' is no c source; its name must end in .c"),
        ({"language": "c", "convention": "return"}, "convention: a C function returns no array"),
        ({"reference": "other.py"}, "reference: 'other.py' is no file in"),
    ],
)
def test_what_is_wrong_with_a_task(tmp_path, changes, said):
    told = problem(written(tmp_path, changes))
    assert any(said in line for line in told.splitlines()), told
    assert all(line.startswith("task.yaml: ") for line in told.splitlines())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def other(x, w):\n    return x", "reference.py defines no `reference(x, w)`"),
        ("def oracle(x, w):\n    return x", "reference.py defines no `reference(x, w)`"),
        ("def broken(:\n", "reference: reference.py:1: is no Python"),
    ],
)
def test_a_reference_that_is_none(tmp_path, text, said):
    assert said in problem(written(tmp_path, {}, reference_py=text))


@pytest.mark.parametrize(
    "text",
    ["def oracle(x, w): ...\ndef trusted(x, w): ...", "from other import reference", "reference = lambda x, w: x"],
)
def test_other_ways_to_write_a_reference(tmp_path, text):
    load_task(written(tmp_path, {}, reference_py=text))


def test_a_source_that_leads_elsewhere_is_refused(tmp_path):
    (tmp_path / "inside").mkdir()
    path = written(tmp_path / "inside", {}, kernel_py=None)
    (tmp_path / "kernel.py").write_text(FILES["kernel.py"])
    (tmp_path / "inside" / "kernel.py").symlink_to(tmp_path / "kernel.py")
    assert "leaves the task's folder" in problem(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "task.yaml: is empty; make one with `ridgeline init"),
        ("a: 1\na: 2\n", "task.yaml:2:1: is not YAML: 'a' is given twice"),
        ("- x\n", "task.yaml: is a list, not a mapping"),
    ],
)
def test_a_file_that_is_no_task(tmp_path, text, said):
    (tmp_path / "task.yaml").write_text(text)
    assert said in problem(tmp_path)


def test_no_file(tmp_path):
    assert "has no task.yaml" in problem(tmp_path)
    assert "no such file" in problem(tmp_path / "absent.yaml")


def test_all_problems_are_told_at_once(tmp_path):
    told = problem(written(tmp_path, {"entry": "go", "bytes": "k", "reference": "no.py"}))
    assert len(told.splitlines()) == 3
