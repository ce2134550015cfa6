"""A refusal names its call, and `judge replay` makes that call again; what only rounds more is told the task's field."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from ridgeline.sandbox.judge.call_names import CallName, draw_call, list_mentions
from ridgeline.sandbox.judge.judgment import judge
from ridgeline.sandbox.judge.options import HERE, Options
from ridgeline.sandbox.judge.task_file import load_task
from ridgeline.sandbox.judge.task_judge import CallUnknown, judge_correctness, replay_call, time_pair

TASK = {
    "task": 1,
    "name": "variance",
    "language": "c",
    "source": ["kernel.c"],
    "entry": "variance",
    "inputs": [{"name": "x", "shape": ["rows", "cols"]}, {"name": "w", "shape": ["cols"], "constness": "const"}],
    "outputs": [{"name": "y", "shape": ["rows"]}],
    "shapes": [{"label": "s", "dims": {"rows": 300, "cols": 400}}],
}
REFERENCE = """
def reference(x, w):
    return (x + w).var(axis=1)
"""
HEAD = "#include <stdint.h>\nvoid variance(const float *x, const float *w, float *y, int64_t rows, int64_t cols) {\n"
LOOP = "for (int64_t r = 0; r < rows; r++) {{ {body} }}\n}}\n"
TWO_PASSES = HEAD + LOOP.format(
    body="""double m = 0, v = 0;
    for (int64_t c = 0; c < cols; c++) m += (double)x[r * cols + c] + w[c];
    m /= cols;
    for (int64_t c = 0; c < cols; c++) { double d = (double)x[r * cols + c] + w[c] - m; v += d * d; }
    y[r] = v / cols;"""
)
ONE_PASS = HEAD + LOOP.format(
    body="""float m = 0, v = 0;
    for (int64_t c = 0; c < cols; c++) { float t = x[r * cols + c] + w[c]; m += t; v += t * t; }
    m /= cols; y[r] = v / cols - m * m;"""
)
SKIPS_LAST = TWO_PASSES.replace("y[r] = v / cols;", "y[r] = r == rows - 1 ? 0.5f * v / cols : v / cols;")


def folder_of(place: Path, kernel: str, **fields) -> Path:
    place.mkdir()
    (place / "task.yaml").write_text(yaml.safe_dump({**TASK, **fields}, sort_keys=False))
    (place / "reference.py").write_text(REFERENCE)
    (place / fields.get("source", ["kernel.c"])[0]).write_text(kernel)
    return place / "task.yaml"


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "wrong", SKIPS_LAST)


def test_a_refused_test_is_made_again_with_the_same_values(wrong: Path) -> None:
    evidence = "\n".join(judge_correctness(wrong, None, Options(), HERE).correct.evidence)
    (call,) = list_mentions(evidence)
    again = replay_call(wrong, None, call, Options(), HERE)
    assert again == replay_call(wrong, None, call, Options(), HERE)
    told = re.search(r"worst at \[(\d+)\]: (\S+) instead of ([^\s;]+)", evidence)
    assert told is not None
    place, came, right = told.groups()
    assert f"  y[{place}]: came {came}, right is {right}, off by " in "\n".join(again)
    assert "of the numbers' size, allowed " in evidence
    assert "roundings of float32" in evidence


def test_a_right_version_makes_the_call_rightly(wrong: Path, tmp_path: Path) -> None:
    (call,) = list_mentions("\n".join(judge_correctness(wrong, None, Options(), HERE).correct.evidence))
    right = folder_of(tmp_path / "right", TWO_PASSES)
    assert replay_call(right, None, call, Options(), HERE) == ()


def test_a_refused_timed_call_is_made_again(wrong: Path, tmp_path: Path) -> None:
    right = folder_of(tmp_path / "right", TWO_PASSES)
    failed = time_pair(right, right.parent, wrong.parent, shapes=(), blocks=4, options=Options(), surroundings=HERE)
    (call,) = list_mentions(failed.detail)
    assert failed.side == "b"
    assert any("came" in line for line in replay_call(wrong, None, call, Options(), HERE))


def test_every_kind_of_call_can_be_drawn_again(wrong: Path) -> None:
    task, _ = load_task(wrong)
    for values in ("wide:1f:0", "partly-spike:1f:2", "probes:1f:2", "near:1f:1", "timed:1f:7"):
        name = CallName.parse(f"rows=5,cols=9:{values}:timed:2a:1", task)
        assert str(name) == f"rows=5,cols=9:{values}:timed:2a:1"
        first, second = (draw_call(task, name)[-1].inputs for _ in range(2))
        assert {key: array.tobytes() for key, array in first.items()} == {k: a.tobytes() for k, a in second.items()}


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("nothing", "no call"),
        ("rows=5:wide:1f:0", "the task has rows, cols"),
        ("rows=5,cols=9:odd:1f:0:wide:1f:0", "no kind of values"),
        ("rows=5,cols=9:probes:1f:99:wide:1f:0", "none of number 99"),
        ("rows=5,cols=9:wide:1f:0", "constant inputs"),
    ],
)
def test_what_names_no_call_is_one_line(wrong: Path, call: str, wanted: str) -> None:
    with pytest.raises(CallUnknown, match=wanted):
        replay_call(wrong, None, call, Options(), HERE)


def test_the_exception_of_a_call_is_kept(tmp_path: Path) -> None:
    kernel = "def variance(x, w, y):\n    raise ValueError('the tail is not handled')\n"
    task = folder_of(tmp_path / "raises", kernel, language="python", source=["kernel.py"])
    evidence = "\n".join(judge_correctness(task, None, Options(), HERE).correct.evidence)
    assert "ValueError: the tail is not handled" in evidence
    (call,) = list_mentions(evidence)
    assert "ValueError: the tail is not handled" in "\n".join(replay_call(task, None, call, Options(), HERE))


def test_larger_rounding_alone_is_told_the_field_that_allows_it(tmp_path: Path) -> None:
    strict = folder_of(tmp_path / "strict", ONE_PASS)
    evidence = judge_correctness(strict, None, Options(seed=1), HERE).correct.evidence
    assert "`precision: relaxed` in task.yaml allows that" in "\n".join(evidence)
    relaxed = folder_of(tmp_path / "relaxed", ONE_PASS, precision="relaxed")
    assert judge_correctness(relaxed, None, Options(seed=1), HERE).correct.answer == "yes"


def test_what_is_wrong_is_not_told_so(tmp_path: Path) -> None:
    for precision in ("strict", "relaxed"):
        task = folder_of(tmp_path / precision, SKIPS_LAST, precision=precision)
        answered = judge_correctness(task, None, Options(), HERE).correct
        assert answered.answer == "no"
        assert "relaxed" not in "\n".join(answered.evidence)


def test_the_command_prints_how_to_repeat_it(wrong: Path, cli) -> None:
    judged = cli("judge", "test", str(wrong))
    assert judged.code == 1
    found = re.search(r"to make that call again: ridgeline (judge replay .* --call \S+)", judged.out)
    assert found is not None
    again = cli(*shlex.split(found[1]), "--json")
    assert again.code == 1
    assert json.loads(again.out)["lines"]


def test_a_file_limit_that_is_hit_is_said(tmp_path: Path) -> None:
    kernel = (
        "import tempfile\ndef variance(x, w, y):\n    file = tempfile.TemporaryFile()\n    file.truncate(1 << 40)\n"
    )
    task = folder_of(tmp_path / "writes", kernel, language="python", source=["kernel.py"])
    assert "MiB that a worker may write" in "\n".join(judge_correctness(task, None, Options(), HERE).correct.evidence)


def test_what_bindings_print_at_an_end_hides_no_error_and_a_missing_card_is_told(tmp_path: Path) -> None:
    """Leaks of bindings stand behind the error and once were all that was left of it."""
    leaks = "nanobind: leaked 4 instances!\n" + " - leaked function 'create_dot'\n" * 60
    kernel = (
        "import atexit, sys\ndef variance(x, w, y):\n"
        f"    atexit.register(sys.stderr.write, {leaks!r})\n"
        "    raise RuntimeError('0 active drivers ([]). There should only be one.')\n"
    )
    task = folder_of(tmp_path / "leaks", kernel, language="python", source=["kernel.py"])
    evidence = "\n".join(judge_correctness(task, None, Options(), HERE).correct.evidence)
    assert "nanobind" not in evidence
    assert "leaked" not in evidence
    assert "line 4, in variance" in evidence
    assert "with `language: triton` in task.yaml Triton's interpreter tests it here" in evidence


@pytest.mark.slow
def test_constant_inputs_stay_where_a_worker_was_called_before_it_was_locked(tmp_path: Path) -> None:
    """PyTorch is called before workers are locked: the timed calls in the same process once had other constants."""
    pytest.importorskip("torch")
    kernel = "import torch\ndef variance(x, w, y):\n    torch.var(x + w, 1, correction=0, out=y)\n"
    task = folder_of(tmp_path / "const", kernel, language="python", source=["kernel.py"])
    for _ in range(2):
        calls = time_pair(task, task.parent, task.parent, shapes=(), blocks=2, options=Options(), surroundings=HERE)
        assert isinstance(calls, tuple), calls
        assert len(calls) == 8


@pytest.mark.slow
def test_a_time_without_a_card_is_said_to_be_none_of_a_card(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    kernel = "import torch\ndef variance(x, w, y):\n    torch.var(x + w, 1, correction=0, out=y)\n"
    task = folder_of(tmp_path / "card", kernel, language="triton", source=["kernel.py"])
    options = Options(device="cpu", pairs=2, most_pairs=2, calibration_pairs=0, blocks=2)
    judged = judge(task, options=options)
    assert judged.faster.evidence[-1].endswith("it says nothing of a card")
    assert judged.own_work.answer == "no"
    assert "a result of a library is taken: the task does not forbid it (`library:` in task.yaml)" in judged.lines


def test_a_command_that_takes_long_says_what_it_is_at(tmp_path: Path, cli) -> None:
    """Minutes went by without a word."""
    kernel = "import time\ntime.sleep(2.5)\ndef variance(x, w, y):\n    y[...] = 0\n"
    task = folder_of(tmp_path / "slow", kernel, language="python", source=["kernel.py"])
    judged = cli("judge", "test", str(task))
    assert judged.code == 1
    assert "testing on public sizes and drawn ones ..." in judged.err
