"""Port `Judge`: the fake answers as the real judge does, and checker and timer pass on what it says."""

from pathlib import Path

import pytest

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Comparison
from ridgeline.graph.judgment import JudgeFailed, Judgment
from ridgeline.graph.ports import Judge
from ridgeline.sandbox.judge.task_judge import TaskJudge
from tests.fakes import FakeJudge
from tests.rooms import open_room

TASK = """task: 1
name: twice
language: c
source: [kernel.c]
entry: twice
reference: reference.py
inputs:
- {name: x, shape: [n]}
outputs:
- {name: y, shape: [n]}
shapes:
- {label: large, dims: {n: 300000}}
- {label: small, dims: {n: 100000}, config_class: little}
- {label: tested, dims: {n: 33}, timed: false}
drawn: {ranges: {n: [1, 500]}, count: 2}
bytes: 8*n
library: forbidden
"""
REFERENCE = "def reference(x):\n    return 2 * x\n"
KERNEL = """#include <stdint.h>
void twice(const float *restrict x, float *restrict y, int64_t n) {{
    {}
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i] {};
}}
"""
HONEST = KERNEL.format("", "")
SLOW = KERNEL.format("/* slow */ for (volatile int64_t i = 0; i < 40 * n; i++);", "")
WRONG = KERNEL.format("/* wrong */", "+ 1e-3f")
FILES = {"task.yaml": TASK, "reference.py": REFERENCE, "kernel.c": HONEST}
LONG_S = 300.0


@pytest.fixture(params=[pytest.param(FakeJudge, id="fake"), pytest.param(TaskJudge, id="real", marks=pytest.mark.slow)])
def judge(request: pytest.FixtureRequest) -> Judge:
    return request.param()


@pytest.fixture
def version(tmp_path: Path):
    """`version("kernel text")` is a folder with the task and that kernel."""

    def make(kernel: str = HONEST, name: str = "version") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for file, text in (FILES | {"kernel.c": kernel}).items():
            (folder / file).write_text(text, encoding="utf-8")
        return folder

    return make


def test_a_right_version_is_right_and_its_own_work_and_never_faster(judge, version):
    folder = version()
    answer = judge.check(folder / "task.yaml", folder, timeout_s=LONG_S)
    assert isinstance(answer, Judgment), answer
    answers = (answer.correct.answer, answer.faster.answer, answer.own_work.answer)
    assert (answers, answer.passed, answer.accepted) == (("yes", "unverified", "yes"), True, False), answer.lines
    assert list(answer.candidate) == ["kernel.c"]


def test_nobody_asks_whose_work_a_wrong_version_is(judge, version):
    folder = version(WRONG)
    answer = judge.check(folder / "task.yaml", folder, timeout_s=LONG_S)
    assert isinstance(answer, Judgment)
    assert (answer.correct.answer, answer.own_work.answer, answer.passed) == ("no", "unverified", False)
    assert answer.correct.evidence


def test_every_timed_size_has_a_time_in_the_tasks_order(judge, version):
    folder = version()
    times = judge.benchmark(folder / "task.yaml", folder, shapes=(), timeout_s=LONG_S)
    assert not isinstance(times, JudgeFailed), times
    assert [(one.label, one.dims, one.config_class) for one in times] == [
        ("large", {"n": 300000}, "all"),
        ("small", {"n": 100000}, "little"),
    ]
    assert all(one.time_ms > 0 for one in times)


def test_only_sizes_that_were_asked_for_are_timed(judge, version):
    folder = version()
    times = judge.benchmark(folder / "task.yaml", folder, shapes=("small",), timeout_s=LONG_S)
    assert not isinstance(times, JudgeFailed), times
    assert [one.label for one in times] == ["small"]


def test_a_pair_has_complete_blocks_of_both_sides_in_turns(judge, version):
    a, b = version(name="a"), version(SLOW, name="b")
    calls = judge.compare(a / "task.yaml", a, b, shapes=("small",), blocks=3, timeout_s=LONG_S)
    assert not isinstance(calls, JudgeFailed), calls
    orders = ["".join(call.side for call in calls if call.block == block) for block in range(3)]
    assert len(calls) == 12
    assert set(orders) <= {"abba", "baab"}
    assert [call.slot for call in calls if call.block == 0] == [0, 1, 2, 3]
    assert [call.at_us for call in calls] == sorted(call.at_us for call in calls)
    times = {side: min(call.time_us for call in calls if call.side == side) for side in "ab"}
    assert times["b"] > 2 * times["a"]


def test_a_wrong_side_is_named_and_has_no_time(judge, version):
    a, b = version(name="a"), version(WRONG, name="b")
    failed = judge.compare(a / "task.yaml", a, b, shapes=(), blocks=2, timeout_s=LONG_S)
    assert isinstance(failed, JudgeFailed)
    assert (failed.reason, failed.side) == ("refused", "b"), failed
    failed = judge.benchmark(a / "task.yaml", b, shapes=(), timeout_s=LONG_S)
    assert isinstance(failed, JudgeFailed)
    assert failed.reason == "refused"


def test_what_cannot_be_judged_is_a_value(judge, version):
    folder = version()
    unknown = judge.benchmark(folder / "task.yaml", folder, shapes=("huge",), timeout_s=LONG_S)
    (folder / "kernel.c").unlink()
    lacking = judge.check(folder / "task.yaml", folder, timeout_s=LONG_S)
    (folder / "task.yaml").write_text("task: 1\n")
    no_task = judge.check(folder / "task.yaml", folder, timeout_s=LONG_S)
    for answer, word in ((unknown, "huge"), (lacking, "kernel.c"), (no_task, "task.yaml")):
        assert isinstance(answer, JudgeFailed), answer
        assert (answer.reason, word in answer.detail) == ("unusable", True), answer


def test_no_judgement_goes_on_when_its_time_is_over(judge, version):
    folder = version()
    task_file = folder / "task.yaml"
    answers = (
        judge.check(task_file, folder, timeout_s=0),
        judge.benchmark(task_file, folder, shapes=(), timeout_s=0),
        judge.compare(task_file, folder, folder, shapes=(), blocks=2, timeout_s=0),
    )
    assert [answer.reason for answer in answers if isinstance(answer, JudgeFailed)] == ["timeout"] * 3


COMMANDS = {
    "test_command": "ridgeline judge test task.yaml",
    "benchmark_command": "ridgeline judge bench task.yaml --csv {csv}",
    "quick_command": "ridgeline judge bench task.yaml --csv {csv} --shapes {shapes}",
    "paired_command": "ridgeline judge pair task.yaml {a} {b} --csv {csv} --shapes {shapes} --blocks {blocks}"
    " --seed {seed}",
}
COLUMNS = ("label", "n", "class", "Check", "Time (ms)")


def contract(**fields: object) -> Contract:
    return Contract.model_validate(
        {
            "target_op": "twice",
            "target_backend": "C",
            "target_gpu": "cpu",
            "dtype": "fp32",
            "kernel_source": ("kernel.c",),
            "protected": ("task.yaml", "reference.py"),
            **{name: tuple(words.split()) for name, words in COMMANDS.items()},
            "benchmark_output": {"columns": COLUMNS, "config_columns": ("class",)},
            "scoring": {"primary_metric": ("Time (ms)",), "higher_is_better": False, "time_ms": "Time (ms)"},
            "execution_mode": "repo",
            "rebuild": {"required": False},
            "threads": 1,
            **fields,
        }
    )


@pytest.fixture
def room(make_repository, tmp_path):
    """A campaign's adapters over the fake judge; `asked` is what they asked it."""

    def make(files=None, given: Contract | None = None):
        fake = FakeJudge()
        repository = make_repository({**FILES, **(files or {})})
        return open_room(repository, tmp_path / "campaign", given or contract(), judge=fake), fake

    return make


def test_a_contract_with_the_usual_commands_of_a_task_names_its_task():
    assert contract().task_file == "task.yaml"
    assert (
        contract(test_command=(*["ridgeline", "judge", "test", "task.yaml", "--without", "static"],)).task_file is None
    )
    assert contract(test_command=("make", "test")).task_file is None
    assert contract(paired_command=None).task_file is None


def test_a_test_result_is_what_the_judge_said(room):
    here, fake = room()
    passed = here.checker.check(here.base, purpose="baseline")
    wrong = here.checker.check(here.candidate({"kernel.c": WRONG}), purpose="round-2")
    borrowed = here.checker.check(here.candidate({"kernel.c": "/* borrowed */" + HONEST}), purpose="round-3")
    assert [(one.kind, one.own_work) for one in (passed, wrong, borrowed)] == [
        ("pass", "yes"),
        ("incorrect", "unverified"),
        ("incorrect", "no"),
    ]
    assert "y: is wrong" in wrong.detail
    assert borrowed.detail.startswith("the result is not the candidate's own work\n")
    assert [name for name, _ in fake.questions] == ["check"] * 3


def test_a_benchmark_is_what_the_judge_timed(room):
    here, fake = room()
    run = here.timer.benchmark(here.base, level="full", source="project", shapes=(), repeat=0, purpose="baseline")
    assert isinstance(run, Benchmark), run
    assert [(row.label, row.check, row.metric("Time (ms)"), row.config_class) for row in run.rows] == [
        ("large", "PASS", 0.01, "class=all"),
        ("small", "PASS", 0.01, "class=little"),
    ]
    assert (
        here.artifacts.get(run.csv)
        == b"label,n,class,Check,Time (ms)\nlarge,300000,all,PASS,0.01\nsmall,100000,little,PASS,0.01\n"
    )
    assert run.log is None
    wrong = here.candidate({"kernel.c": WRONG})
    failed = here.timer.benchmark(wrong, level="quick", source="quick", shapes=("small",), repeat=0, purpose="r")
    assert isinstance(failed, BenchmarkFailed)
    assert (failed.reason, "y: is wrong" in failed.detail) == ("crash", True)
    assert fake.questions == [("benchmark", ()), ("benchmark", ("small",))]


def test_other_columns_than_the_judges_are_drift(room):
    here, _ = room(given=contract(benchmark_output={"columns": ("label", "Check", "Time (ms)")}))
    failed = here.timer.benchmark(here.base, level="full", source="project", shapes=(), repeat=0, purpose="baseline")
    assert isinstance(failed, BenchmarkFailed)
    assert failed.reason == "schema_drift"


def test_a_comparison_is_what_the_judge_timed_whichever_side_it_calls_a(room):
    here, fake = room()
    slow = here.candidate({"kernel.c": SLOW})
    found = here.timer.compare(
        best=here.base, candidate=slow, shapes=("small",), first_pair=0, pairs=4, blocks=3, purpose="round-2"
    )
    assert isinstance(found, Comparison), found
    (shape,) = found.shapes
    assert (shape.best_us, shape.candidate_us, len(shape.pairs)) == (10.0, 40.0, 4)
    assert all(block < -1 for pair in shape.pairs for block in pair)
    assert {name for name, _ in fake.questions} == {"compare", "benchmark"}
    failed = here.timer.compare(
        best=here.base,
        candidate=here.candidate({"kernel.c": WRONG}),
        shapes=("small",),
        first_pair=0,
        pairs=1,
        blocks=3,
        purpose="round-3",
    )
    assert isinstance(failed, BenchmarkFailed)
    assert (failed.reason, "y: is wrong" in failed.detail) == ("crash", True)


@pytest.mark.slow
def test_a_campaigns_judge_is_asked_in_this_process(make_repository, tmp_path):
    """The whole way with the real judge: no command is run, and own work is in the result."""
    real = open_room(make_repository(FILES), tmp_path / "campaign", contract())
    assert isinstance(real.commands.judge, TaskJudge)
    tested = real.checker.check(real.base, purpose="baseline")
    assert (tested.kind, tested.own_work) == ("pass", "yes"), tested.detail
    assert "ridgeline judge" not in tested.detail
    found = real.timer.compare(
        best=real.base,
        candidate=real.candidate({"kernel.c": SLOW}),
        shapes=("small",),
        first_pair=0,
        pairs=1,
        blocks=2,
        purpose="round-2",
    )
    assert isinstance(found, Comparison | BenchmarkFailed), found
    if isinstance(found, BenchmarkFailed):
        assert found.reason == "unstable", found
    else:
        assert found.shapes[0].candidate_us > found.shapes[0].best_us
