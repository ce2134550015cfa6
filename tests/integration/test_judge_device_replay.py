"""On a card, played by the processor, a refusal names its call, too, and `judge replay` draws the same values and makes it again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

torch = pytest.importorskip("torch")

from ridgeline.sandbox.judge import judgment, task_judge  # noqa: E402
from ridgeline.sandbox.judge.call_names import CallName, ConstantNames, ValuesName, list_mentions  # noqa: E402
from ridgeline.sandbox.judge.device_judge import DeviceCallJudge, DeviceTests  # noqa: E402
from ridgeline.sandbox.judge.device_process import close_device_process  # noqa: E402
from ridgeline.sandbox.judge.device_reference import DeviceReference  # noqa: E402
from ridgeline.sandbox.judge.device_values import Chance  # noqa: E402
from ridgeline.sandbox.judge.options import HERE, Options  # noqa: E402
from ridgeline.sandbox.judge.task_file import load_task  # noqa: E402
from ridgeline.sandbox.judge.task_judge import CallUnknown, TaskJudge, judge_correctness, replay_call  # noqa: E402

TASK = {
    "task": 1,
    "name": "soft",
    "language": "python",
    "source": ["kernel.py"],
    "entry": "soft",
    "inputs": [
        {"name": "w", "shape": ["c"], "constness": "const"},
        {"name": "x", "shape": ["r", "c"]},
        {"name": "m", "shape": ["r", "c"], "dtype": "bool", "values": "mask"},
        {"name": "i", "shape": ["r"], "dtype": "int64", "values": "integers", "low": -3, "high": 50},
    ],
    "outputs": [{"name": "y", "shape": ["r", "c"]}, {"name": "s", "shape": ["r"]}],
    "shapes": [{"label": "s", "dims": {"r": 40, "c": 96}}],
}
REFERENCE = """
import torch
def reference(w, x, m, i):
    scores = torch.where(m, x + w, -3.0)
    return torch.softmax(scores, -1), torch.exp(scores).sum(-1) + i
"""
HONEST = """
import torch
def soft(w, x, m, i, y, s):
    scores = torch.where(m, x + w, -3.0)
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    y.copy_(e / e.sum(-1, keepdim=True))
    s.copy_(torch.exp(scores.double()).sum(-1) + i)
"""
WRONG = HONEST + "    y[-1] *= 1.5\n"
QUICK = Options(calibration_pairs=2, pairs=2, most_pairs=3, blocks=3, long_calls=200, long_s=10)


@pytest.fixture(scope="module", autouse=True)
def process() -> Iterator[None]:
    yield
    close_device_process()


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (judgment, task_judge):
        monkeypatch.setattr(module, "is_judged_on_card", lambda task, options: options.device_path)


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    for name, text in {"wrong": WRONG, "honest": HONEST}.items():
        (tmp_path / name).mkdir(mode=0o755)
        (tmp_path / name / "kernel.py").write_text(text)
    (tmp_path / "kernel.py").write_text(HONEST)
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(TASK, sort_keys=False))
    return tmp_path / "task.yaml"


def open_bench(task_file: Path, seed: int) -> DeviceCallJudge:
    """A judge of calls whose own chance begins at that seed."""
    task, folder = load_task(task_file)
    chance, reference = Chance.draw("cpu", np.random.default_rng(seed)), DeviceReference(task, folder, "cpu")
    return DeviceCallJudge(task=task, reference=reference, options=Options(device="cpu"), chance=chance)


def to_bytes(inputs: Any) -> dict[str, bytes]:
    return {name: tensor.contiguous().view(torch.uint8).numpy().tobytes() for name, tensor in inputs.items()}


def test_every_case_of_the_tests_is_drawn_again_by_its_name(task_file: Path) -> None:
    tests, other = DeviceTests(bench=open_bench(task_file, 3)), open_bench(task_file, 4)
    kinds: set[str] = set()
    for list_cases in (tests._public, tests._private):
        tests._constants, tests._names = {}, ConstantNames(tests.bench.task, card=True)
        for cases in list_cases():
            for case in cases():
                name = tests._names.name_call(case.shape.dims, case.truth.values)
                assert name is not None
                assert CallName.parse(str(name), tests.bench.task) == name
                again, exact = list(other.draw_again(name))[-1]
                assert to_bytes(again.inputs) == to_bytes(case.truth.inputs), name
                assert (again.lone, exact) == (case.truth.lone, case.exact), name
                kinds.add(name.values.kind)
    assert kinds >= {"normal", "wide", "spike", "probes", "near"}


def test_timed_values_are_drawn_again_with_the_constant_inputs_of_their_process(task_file: Path) -> None:
    bench, other = open_bench(task_file, 3), open_bench(task_file, 4)
    constants: dict[str, Any] = {}
    names, dims = ConstantNames(bench.task, card=True), bench.task.shapes[0].dims
    for _ in range(3):
        drawn = bench.draw_timed(dims, constants)
        name = names.name_call(dims, drawn.values)
        assert name is not None
        ((again, _),) = other.draw_again(name)
        assert to_bytes(again.inputs) == to_bytes(drawn.inputs)
        assert to_bytes({"w": again.inputs["w"]}) == to_bytes(constants)


def test_what_cannot_be_drawn_again_has_no_name(task_file: Path) -> None:
    task, _ = load_task(task_file)
    names, values = ConstantNames(task, card=True), ValuesName(kind="wide", seed=31)
    assert names.mention({"r": 2, "c": 3}, values) == "(call card:r=2,c=3:wide:1f:0:wide:1f:0)"
    assert names.mention({"r": 2, "c": 3}, None) == ""
    assert names.mention({"r": 5, "c": 3}, None) == ""
    assert names.mention({"r": 5, "c": 3}, values) == "", "its constant inputs are those of the call without a name"


def test_a_refused_test_is_made_again_and_a_right_version_makes_it_rightly(task_file: Path, on_device: None) -> None:
    folder = task_file.parent
    evidence = "\n".join(judge_correctness(task_file, folder / "wrong", QUICK, HERE).correct.evidence)
    (call,) = list_mentions(evidence)
    assert call.startswith("card:")
    again = replay_call(task_file, folder / "wrong", call, QUICK, HERE)
    assert again == replay_call(task_file, folder / "wrong", call, QUICK, HERE)
    assert any(line.startswith("  y[") and "came " in line and "right is " in line for line in again), again
    assert replay_call(task_file, folder / "honest", call, QUICK, HERE) == ()


def test_a_refused_timed_call_is_made_again(task_file: Path, on_device: None) -> None:
    folder = task_file.parent
    judge = TaskJudge(QUICK)
    failed = judge.compare(task_file, folder / "honest", folder / "wrong", shapes=(), blocks=2, timeout_s=60)
    (call,) = list_mentions(failed.detail)
    assert any("came " in line for line in replay_call(task_file, folder / "wrong", call, QUICK, HERE))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("card:r=5,c=9:probes:1f:99:wide:1f:0", "none of number 99"),
        ("card:r=5,c=9:wide:1f:9:wide:1f:0", "drawn at most"),
        ("card:r=5,c=9:wide:1f:0", "constant inputs"),
        ("card:r=5:wide:1f:0", "the task has r, c"),
    ],
)
def test_what_names_no_call_is_one_line(task_file: Path, on_device: None, call: str, wanted: str) -> None:
    with pytest.raises(CallUnknown, match=wanted):
        replay_call(task_file, None, call, QUICK, HERE)


def test_a_call_of_a_card_is_not_made_again_on_a_processor(task_file: Path) -> None:
    with pytest.raises(CallUnknown, match="its values were drawn on a card"):
        replay_call(task_file, None, "card:r=5,c=9:wide:1f:0:wide:1f:0", Options(device="cpu"), HERE)
