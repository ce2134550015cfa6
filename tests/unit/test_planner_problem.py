"""Read-only files that define the problem are shown; what measures is named only."""

import pytest

from ridgeline.agent.planner.context import (
    benchmark_says,
    describe_build,
    describe_exactness,
    describe_own_work,
    describe_untimed_sizes,
    describe_values,
    fold_bodies,
    problem,
    terse,
)
from ridgeline.evals.task_folders import Parts, folders, recorded_tasks
from ridgeline.graph.contract import judge_commands
from tests.builders import make_contract
from tests.catalog_briefs import brief

KNOWN = folders() | recorded_tasks()
"""Of the names that are both, the contract with a benchmark of its own."""


class Folder:
    """The files of a task, as the campaign's repository would have them."""

    def __init__(self, parts: Parts, **more: str) -> None:
        files = sorted(
            (path for part in parts for path in part.iterdir() if path.is_file()), key=lambda path: path.name
        )
        self._texts = {path.name: path.read_text() for path in files} | more

    def paths(self, commit):
        return tuple(self._texts)

    def text(self, commit, path):
        return self._texts.get(path)

    def search(self, commit, text):
        return ()

    def read_artifact(self, artifact):
        return None


def count(text: str) -> int:
    return -(-len(text) // 4)


WITH_BENCHMARK = ("*.h", "problem.py", "test.*", "bench.*", "reference.txt")


def shown(
    task: str, kernel: str, *, tokens: int = 1080, protected: tuple[str, ...] = WITH_BENCHMARK, **more: str
) -> str:
    folder = Folder(KNOWN[task], **more)
    contract = make_contract(protected=protected)
    return problem(brief({kernel: folder.text("", kernel)}, contract=contract), folder, tokens=tokens, count=count)


def test_interface_shapes_and_bounds_of_a_task_are_shown_whole_or_with_gaps_stated():
    text = shown("matmul_c", "kernel.c")
    assert text.index("==> kernel.h (read-only)") < text.index("==> problem.h (read-only)")
    assert "void matmul_f32(const float *a" in text
    assert '"rect208", {48, 208, 160}' in text
    assert "8 u (sqrt(k) + 1) |a||b|" in text
    assert "return 2.0 * 0x1p-24 * (sqrt(s->d[2]) + 1.0);" in text
    assert "lines left out]" in text
    assert "==> bench.c" not in text
    assert "harness.h" in text.splitlines()[-1]
    assert text.splitlines()[-1].startswith("read-only too, not shown: ")
    assert count(text) <= 1080 + 60


def test_the_other_task_shows_its_own():
    assert "==> problem.h (read-only)" in shown("softmax_c", "kernel.c")


def test_a_task_of_the_judge_shows_what_goes_in_and_out_and_its_reference():
    text = shown("matmul_triton", "kernel.py", protected=("task.yaml", "reference.py"))
    assert "==> task.yaml (read-only)" in text
    assert "{label: flat512, dims: {M: 4096, N: 4096, K: 512}, config_class: flat}" in text
    assert "==> reference.py (read-only)" in text
    assert "torch.matmul(a.to(wide), b.to(wide))" in text


def test_what_the_kernel_imports_is_shown_before_what_its_name_tells():
    text = shown("matmul_c", "kernel.c", tokens=2000, **{"reference.txt": "c = a b"})
    assert text.index("==> kernel.h") < text.index("==> problem.h") < text.index("==> reference.txt")


@pytest.mark.parametrize("tokens", [0, 100, 149])
def test_without_room_they_are_named(tokens):
    text = shown("matmul_c", "kernel.c", tokens=tokens)
    assert "==> " not in text
    assert "problem.h" in text


def test_many_others_are_counted():
    text = shown("matmul_c", "kernel.c", **{f"file_{number}.c": "" for number in range(60)})
    assert text.endswith("more")


def test_folding_keeps_lists_structures_and_what_speaks_of_errors():
    text = """struct s {
 int a;
 int b;
};
int pour(void) {
 a;
 b;
}
int error(void) {
 c;
 d;
}
int one(void) {
 x;
}
"""
    once, twice = fold_bodies(text), fold_bodies(text, 2)
    assert "a;\n int b;" in once
    assert "[2 lines left out]" in once
    assert " c;\n d;" in once
    assert " c;\n d;" in twice, "what decides is never left out"
    assert " int a;" in twice
    assert " x;" in twice


def test_what_comes_and_what_is_right_is_left_out_last():
    text = """def work(shape) -> float:
    rows = shape.d[0]
    return 2.0 * rows

def inputs(shape, mix):
    x = draw(shape)
    return (x,)

def output(shape):
    y = shape
    return y

def check(out):
    limit = 2
    return error < limit
"""
    some, fewer, none = (fold_bodies(text, level) for level in (0, 1, 2))
    assert "return (x,)" in some
    assert "return 2.0 * rows" in some
    assert "return y" not in some
    assert "return error" in some
    assert "return (x,)" in fewer
    assert "return (x,)" not in none
    assert all("return error" in text for text in (some, fewer, none)), "what decides is never left out"


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("softmax_triton", "x normal, mean 0 and deviation 1"),
        ("matmul_c", "a normal, mean 0 and deviation 1; b normal, mean 0 and deviation 1"),
    ],
)
def test_how_timed_values_are_drawn_is_said_of_a_task_of_the_judge(task, said):
    folder = Folder(folders()[task])
    briefing = brief({}, contract=make_contract(**judge_commands("task.yaml")))
    assert describe_values(briefing, folder) == said
    assert describe_values(brief({}), folder) == ""


TASK = """task: 1
name: toy
language: c
source: [kernel.c]
entry: toy
inputs:
- {name: w, shape: [n], dtype: float32, values: uniform}
- {name: p, shape: [n], dtype: float32, values: positive, within: [0.5, 2]}
- {name: i, shape: [n], dtype: int32, values: integers, high: 100}
- {name: m, shape: [n], dtype: bool, values: mask}
outputs:
- {name: y, shape: [n], dtype: float32}
shapes:
- {label: big, dims: {n: 4096}}
- {label: odd, dims: {n: 7}, timed: false}
drawn: {ranges: {n: [1, 50]}, count: 4}
"""


def test_declared_values_and_untimed_sizes_are_said_in_words():
    briefing, folder = (
        brief({}, contract=make_contract(**judge_commands("task.yaml"))),
        Folder((), **{"task.yaml": TASK}),
    )
    said = "w uniform from -1 to 1; p uniform from 0.5 to 2; i whole numbers from 0 to 99; m true or false alike"
    assert describe_values(briefing, folder) == said
    assert describe_untimed_sizes(briefing, folder) == "4 sizes drawn anew (n 1 to 50), odd"
    assert describe_untimed_sizes(brief({}), folder) == ""
    assert describe_exactness(briefing, folder).startswith(
        "floats in any order of sums, to the rounding of that type: no TF32"
    )
    assert describe_own_work(briefing, folder) == "the kernel's own or a library's, and the report says which"
    halves = Folder(
        (),
        **{
            "task.yaml": TASK.replace("y, shape: [n], dtype: float32", "y, shape: [n], dtype: float16")
            + "library: forbidden\n"
        },
    )
    assert (
        describe_exactness(briefing, halves)
        == "half precision summed in fp32 and rounded once; no share of elements may be wrong"
    )
    assert "are refused" in describe_own_work(briefing, halves)
    flags = Folder((), **{"task.yaml": TASK + "build: {flags: [-O2]}\n"})
    assert describe_build(briefing, flags).startswith("gcc -shared -fPIC -O3 -o LIBRARY ./kernel.c -O2 -lm; of options")
    made = make_contract(rebuild={"required": True, "command": ("make", "-s")})
    assert describe_build(brief({}, contract=made), folder) == "make -s"
    assert describe_build(brief({}, contract=make_contract(rebuild={"required": False})), folder) == ""
    assert describe_exactness(brief({}), folder) == describe_own_work(brief({}), folder) == ""
    assert describe_values(briefing, Folder((), **{"task.yaml": "["})) == ""


def test_explanations_go_before_code_and_that_is_said():
    text = """==> problem.py (read-only)
\"\"\"The task.\"\"\"

import torch

DIMENSIONS = ("M", "N")
LIMIT = 8.0
\"\"\"Why it is eight.\"\"\"


def inputs(shape):
    \"\"\"New data.

    A long story.
    \"\"\"
    return shape
"""
    assert (
        terse(text)
        == """==> problem.py (read-only)
[imports and explanations left out]

LIMIT = 8.0

def inputs(shape):
    \"\"\"New data.\"\"\"
    return shape"""
    )
    assert terse("==> a.h\nint a;") == "==> a.h\nint a;"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '"""Times it.\n\nb --csv FILE    a graph per row\n\nCalls touch more than the L2 cache. Others.\n"""\n',
            "Calls touch more than the L2 cache.",
        ),
        ("/* Times a build.\n * The host is not counted.\n */", "The host is not counted."),
        ('"""Times it."""', "does not say whether the L2 cache is cold or warm"),
        ("import sys", "does not say whether the L2 cache is cold or warm"),
    ],
)
def test_a_benchmark_says_in_its_own_words_what_it_counts(text, said):
    told = brief({}, contract=make_contract(quick_command=("python3", "bench.py", "--csv", "{csv}")))
    assert benchmark_says(told, Folder(KNOWN["matmul_c"], **{"bench.py": text})) == said


def test_nothing_beside_the_kernel_is_nothing_to_show():
    class Empty(Folder):
        def __init__(self):
            self._texts = {}

    assert problem(brief({"kernel.c": "int x;\n"}), Empty(), tokens=500, count=count) == ""
