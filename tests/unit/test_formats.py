"""Problems and answers of other formats, as far as PyTorch is not needed: what is read, refused and written."""

import json
import textwrap
from pathlib import Path

import pytest

from ridgeline.agent.formats import answers, flashinfer
from ridgeline.agent.formats.problem import FormatError, Origin, OriginArray, Sizes
from ridgeline.agent.formats.reading import list_sources, open_candidate, read_source
from ridgeline.agent.scaffold.pytorch import CARD_BYTES, Sizer
from ridgeline.graph.judgment import QuestionAnswer
from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.torch_source import InferredSizes, InputFacts, SourceShapes, TensorFacts

DEFINITION = {
    "name": "scale_rows",
    "op_type": "scale",
    "axes": {"rows": {"type": "var"}, "cols": {"type": "const", "value": 64}, "wide": {"type": "expr", "expression": "2*rows + cols"}},
    "inputs": {
        "x": {"shape": ["rows", "cols"], "dtype": "bfloat16"},
        "pad": {"shape": ["wide"], "dtype": "float32"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"out": {"shape": ["rows", "cols"], "dtype": "bfloat16"}},
    "reference": "import torch\n\ndef run(x, pad, eps):\n    return x * eps + pad[0]\n",
}  # fmt: skip
TASK_YML = """
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: task.py, source: task.py}
  - {name: utils.py, source: ../utils.py}
  - {name: reference.py, source: reference.py}
  - {name: eval.py, source: ../eval.py}
lang: py
tests:
  - {size: 16, seed: 1}
  - {size: 16, seed: 1, kind: odd}
benchmarks:
  - {size: 128, seed: 5}
  - {size: 64, seed: 7}
"""
REFERENCE = """
import torch
from utils import check, helper
from task import input_t

def ref_kernel(data: input_t):
    x, out = data
    out[...] = helper(x) + torch.ones(1, device="cuda")
    return out

def generate_input(size: int, seed: int) -> input_t:
    gen = torch.Generator(device="cuda:0")
    gen.manual_seed(seed)
    return torch.rand(size, device='cuda', generator=gen), torch.empty(size).cuda()

check_implementation = check(ref_kernel)
"""


def workload(rows: int, eps: float = 0.5, kind: str = "random") -> dict[str, object]:
    return {
        "uuid": f"w{rows}",
        "axes": {"rows": rows},
        "inputs": {"x": {"type": "random"}, "pad": {"type": kind}, "eps": {"type": "scalar", "value": eps}},
    }


def lines(*loads: dict[str, object]) -> str:
    return "\n".join(json.dumps(load) for load in loads)


def task(**changes: object) -> Task:
    fields = {
        "name": "scale_rows",
        "language": "triton",
        "source": ["kernel.py"],
        "entry": "run",
        "convention": "return",
        "inputs": [{"name": "x", "shape": ["rows", 64]}, {"name": "pad", "shape": ["2*rows + 64"]}],
        "outputs": [{"name": "out", "shape": ["rows", 64]}],
        "shapes": [{"label": "rows3", "dims": {"rows": 3}}],
    }
    return Task.model_validate({**fields, **changes})


def origin(**changes: object) -> Origin:
    fields = {
        "format": "flashinfer",
        "name": "scale_rows",
        "entry": "run",
        "text": "",
        "original": json.dumps(DEFINITION),
        "arrays": (OriginArray(name="x", place="[0]"), OriginArray(name="pad", place="[1]")),
    }
    return Origin.model_validate({**fields, **changes})


def test_a_definition_with_its_workloads():
    traced = {"definition": "scale_rows", "workload": workload(7), "solution": None, "evaluation": None}
    other = {"definition": "another", "workload": workload(9)}
    problem = flashinfer.read_problem(json.dumps(DEFINITION), lines(traced, other, workload(3)), file="d.json")
    assert [(sizes.label, sizes.numbers) for sizes in problem.sizes] == [("rows3", {"rows": 3}), ("rows7", {"rows": 7})]
    names: dict[str, object] = {}
    made = problem.text.replace("import torch as _torch", "").replace("import torch\n", "")
    calls: list[tuple[object, ...]] = []

    class Torch:
        bfloat16, float32 = "bf16", "f32"

        @staticmethod
        def randn(shape, dtype):
            calls.append((shape, dtype))
            return shape

    exec(made, names | {"_torch": Torch}, names)
    names["_torch"] = Torch
    exec(made, names)
    assert names["get_inputs"]() == [(3, 64), (70,), 0.5]
    assert calls[-2:] == [((3, 64), "bf16"), ((70,), "f32")]


def test_workloads_with_other_scalars_are_left_out_and_told():
    problem = flashinfer.read_problem(json.dumps(DEFINITION), lines(workload(3), workload(5, eps=2.0)), file="d.json")
    assert [sizes.label for sizes in problem.sizes] == ["rows3"]
    assert problem.notes == ("1 workloads with other scalars than eps=0.5 are left out",)


@pytest.mark.parametrize(
    ("change", "loads", "said"),
    [
        ({}, "", "has no workload"),
        ({"reference": ""}, lines(workload(3)), "d.json: reference"),
        ({"axes": {}}, lines({**workload(3), "axes": 5}), "workloads: line 1: axes"),
        ({"inputs": {"x": {"shape": ["rows"], "dtype": "float4_e2m1fn_x2"}}}, lines(workload(3)), "x: is of float4_e2m1fn_x2; tasks know"),
        ({"inputs": {"pad": {"shape": ["rows"], "dtype": "int32"}}}, lines(workload(3, kind="safetensors")), "pad: whole numbers from a"),
        ({}, lines({**workload(3), "axes": {}}), "axes: rows is missing"),
        ({}, lines(workload(3), {**workload(4), "inputs": {}}), "eps: the workload w4 has no value"),
        ({}, "{", "is not JSON"),
    ],
)  # fmt: skip
def test_definitions_that_cannot_be_judged(change, loads, said):
    with pytest.raises(FormatError) as refused:
        flashinfer.read_problem(json.dumps({**DEFINITION, **change}), loads, file="d.json")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_solution_calls_the_candidate_as_the_definition_is_called():
    solution = flashinfer.write_solution(origin(), task(), "def run(x, pad):\n    return x\n", name="s", author="me")
    assert solution["spec"]["languages"] == ["pytorch"], "an expression of axes is of SOL-ExecBench"
    names: dict[str, object] = {}
    exec(solution["sources"][0]["content"], names)
    assert names["run"]("X", "PAD", 0.5) == "X"
    plain = {**DEFINITION, "axes": {**DEFINITION["axes"], "wide": {"type": "var"}}}
    spec = flashinfer.write_solution(origin(original=json.dumps(plain)), task(), "", name="s", author="me")["spec"]
    assert (spec["language"], spec["destination_passing_style"]) == ("python", False)
    with pytest.raises(FormatError, match="language: cuda has no entry"):
        flashinfer.write_solution(
            origin(), task(language="cuda", convention="out", source=["k.cu"]), "", name="s", author=""
        )


def test_traces_of_what_was_judged():
    sizes = (Sizes(label="rows3", numbers={"rows": 3}, workloads=(json.dumps(workload(3)),)),)
    report = flashinfer.Report(
        solution="s",
        correct=QuestionAnswer(answer="yes", evidence=("40 calls",)),
        hardware="NVIDIA_H100",
        timestamp="2026-01-01T00:00:00Z",
        times={"rows3": flashinfer.Measurement(time_ms=0.5, base_ms=1.0)},
    )
    (trace,) = flashinfer.write_traces(origin(sizes=sizes), report)
    assert trace["evaluation"]["performance"]["speedup_factor"] == 2.0
    assert trace["workload"]["uuid"] == "w3"
    assert [*flashinfer.write_traces(origin(sizes=sizes), report.model_copy(update={"times": {}}))] == [], "not timed"
    wrong = report.model_copy(update={"correct": QuestionAnswer(answer="no", evidence=("off",))})
    (trace,) = flashinfer.write_traces(origin(sizes=sizes), wrong)
    assert trace["evaluation"]["status"] == "INCORRECT_NUMERICAL"
    assert "performance" not in trace["evaluation"]


@pytest.mark.parametrize(
    ("answer", "evidence", "status"),
    [
        ("no", "load: it does not compile: kernel.py:3", "COMPILE_ERROR"),
        ("no", "rows3, normal: crash: it ended with code 1", "RUNTIME_ERROR"),
        ("no", "rows3, wide: timeout: no answer in 60 s", "TIMEOUT"),
        ("no", "rows3, wide: y: relative_l2: relative L2 error 0.3", "INCORRECT_NUMERICAL"),
        ("unverified", "not asked", None),
    ],
)
def test_a_trace_says_what_became_of_a_candidate(answer, evidence, status):
    """The rule of the field's schema: only what was compared has `correctness`, only what passed has `performance`."""
    sizes = (Sizes(label="rows3", numbers={"rows": 3}, workloads=(json.dumps(workload(3)),)),)
    report = flashinfer.Report(
        solution="s",
        correct=QuestionAnswer(answer=answer, evidence=(evidence,)),
        hardware="NVIDIA_H100",
        timestamp="2026-01-01T00:00:00Z",
        times={"rows3": flashinfer.Measurement(time_ms=0.5, base_ms=1.0)},
    )
    traces = [trace["evaluation"] for trace in flashinfer.write_traces(origin(sizes=sizes), report)]
    assert [trace["status"] for trace in traces] == ([status] if status else [])
    for trace in traces:
        assert ("correctness" in trace, "performance" in trace) == (status == "INCORRECT_NUMERICAL", False)


@pytest.mark.parametrize(
    ("source", "of_sol", "plain", "dependencies"),
    [
        ("import torch\n", ["pytorch"], "python", ["torch"]),
        ("import torch\nimport triton.language as tl\n", ["triton"], "triton", ["torch", "triton"]),
    ],
)
def test_a_solution_says_what_it_is_written_in(source, of_sol, plain, dependencies):
    bare = {**DEFINITION, "op_type": "scale", "axes": {"rows": {"type": "var"}, "more": {"type": "var"}}}
    specs = [
        flashinfer.write_solution(origin(original=json.dumps(form)), task(), source, name="s", author="me")["spec"]
        for form in (DEFINITION, bare)
    ]
    assert [spec["dependencies"] for spec in specs] == [dependencies] * 2
    assert (specs[0]["languages"], specs[1]["language"]) == (of_sol, plain)


def write_gpumode(folder: Path) -> Path:
    place = folder / "set" / "ones_py"
    place.mkdir(parents=True)
    (place / "task.yml").write_text(TASK_YML)
    (place / "reference.py").write_text(REFERENCE)
    (place / "task.py").write_text("input_t = object\n")
    (folder / "set" / "utils.py").write_text("def helper(x): return x\ndef check(f): return f\nPLACE = 'cuda'\n")
    return place


def test_a_task_yml_becomes_one_file_for_any_device(tmp_path):
    (source,) = list_sources(write_gpumode(tmp_path).parent)
    assert (source.name, source.format) == ("ones_py", "gpumode")
    problem = read_source(source)
    assert [(sizes.label, sizes.timed) for sizes in problem.sizes] == [
        ("size16", False),
        ("size64", True),
        ("size128", True),
    ]
    assert problem.notes == ("1 cases with other values than {} are left out",)
    assert problem.knobs == ("size",)
    assert "cuda" not in problem.text
    assert "from utils" not in problem.text
    assert problem.text.index("def helper") < problem.text.index("def ref_kernel")
    assert "generate_input(size=size, seed=0)" in problem.text
    assert "global DEVICE" in problem.text, "the reference itself makes a tensor on a card"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("lang: py", "lang: cu", "lang: is cu; only problems in Python"),
        ("reference.py, source: reference.py", "ref.py, source: reference.py", "has no reference.py"),
        ("benchmarks:", "sizes:", ""),
        ("files:", "parts:", "files: missing"),
        ("lang: py", "lang: [", "is not YAML"),
        ("lang: py", "since: 2026-13-01", "is not YAML (month must be in 1..12)"),
        ("lang: py", f"lang: {'[' * 3000}", "is nested too deep"),
        ("  - {size: 128, seed: 5}", "  - 5", "benchmarks: is no list of cases"),
    ],
)
def test_a_task_yml_that_cannot_be_read(tmp_path, before, after, said):
    place = write_gpumode(tmp_path) / "task.yml"
    place.write_text(TASK_YML.replace(before, after))
    (source,) = list_sources(place)
    if not said:
        assert [sizes.timed for sizes in read_source(source).sizes] == [True], "tests stand in for benchmarks"
        return
    with pytest.raises(FormatError) as refused:
        read_source(source)
    assert said in str(refused.value)


def test_answers_become_candidates_and_candidates_answers():
    paths = (OriginArray(name="a", place="[0][0]"), OriginArray(name="w", place="[0][1]['w.0']"))
    tail = "\n\ndef run(a, w):\n    return custom_kernel((a, {'w.0': w}))\n"
    problem = origin(format="gpumode", text="input_t = object", arrays=paths, answer=tail)
    inputs = [{"name": "a", "shape": ["rows"]}, {"name": "w", "shape": ["rows"]}]
    kernel = task(inputs=inputs)
    submission = answers.write_submission(problem, kernel, "def run(a, w):\n    return a + w\n")
    names: dict[str, object] = {}
    exec(submission, names)
    assert names["custom_kernel"]((1, {"w.0": 2})) == 3
    text = "from task import input_t\n\ndef custom_kernel(data: input_t):\n    return data[0] * data[1]['w.0']\n"
    names = {}
    exec(answers.read_answer(problem, kernel, text, file="submission.py"), names)
    assert names["run"](3, 4) == 12
    with pytest.raises(FormatError, match=r"x\.py: defines neither run\(\) nor def custom_kernel\(data\); write one"):
        answers.read_answer(problem, kernel, "def f(): pass", file="x.py")
    with pytest.raises(FormatError, match="x.py: line 1"):
        answers.read_answer(problem, kernel, "def f(:", file="x.py")


def test_modelnew_keeps_the_parameters_of_model():
    model = "class Model:\n    def __init__(self):\n        self._modules = {'0': self}\n        self.weight = 5\n"
    arrays = (OriginArray(name="x", place="[0]"), OriginArray(name="w", state="0.weight"))
    problem = origin(format="kernelbench", entry="Model", text=model, arrays=arrays)
    kernel = task(inputs=[{"name": "x", "shape": ["rows"]}, {"name": "w", "shape": ["rows"]}])
    names: dict[str, object] = {}
    exec(
        answers.write_module(problem, kernel, "def run(x, w):\n    return x * w\n").replace("._modules['0']", ""), names
    )
    assert names["ModelNew"]().forward(3) == 15
    with pytest.raises(FormatError, match="is no problem of GPU MODE but of kernelbench"):
        answers.write_submission(problem, kernel, "")
    with pytest.raises(FormatError, match="source: the format wants one file, the task has 2"):
        answers.write_module(problem, task(source=["a.py", "b.py"]), "")


def test_solutions_are_read_with_and_without_outputs_given():
    head = {"definition": "scale_rows", "sources": [{"path": "m.py", "content": "def go(*a): return a"}]}
    problem = origin(answer="# returns", answer_out="# out")
    for style, wanted in ((False, "# returns"), (True, "# out")):
        spec = {"entry_point": "m.py::go", "destination_passing_style": style}
        text = answers.read_answer(problem, task(), json.dumps({**head, "spec": spec}), file="s.json")
        assert text == f"def go(*a): return a\n\n\nrun = go\n{wanted}"
    for change, said in (
        ({"definition": "other"}, "definition: is other"),
        ({"sources": []}, "is no solution of FlashInfer Trace"),
    ):
        fields = {**head, "spec": {"entry_point": "m.py::go"}, **change}
        with pytest.raises(FormatError, match=said):
            answers.read_answer(problem, task(), json.dumps(fields), file="s.json")


def test_what_judging_takes_is_known_without_running_anything():
    shapes = SourceShapes(
        inputs=(InputFacts(name="x", shape=(4096, 393216), dtype="float32"),),
        state=(),
        outputs=(TensorFacts(shape=(4096, 393216), dtype="float32"),),
        call="<0>",
        flops=0,
    )
    dims = {"rows": 4096, "cols": 393216}
    sizing = InferredSizes(
        dims=dims, extents=("rows", "cols") * 2, low={"rows": 1, "cols": 8}, step={"rows": 1, "cols": 8}
    )
    sizer = Sizer(shapes, sizing, "softmax.py")
    array = 4 * 4096 * 393216
    assert sizer.bytes(dims) == 2 * array
    assert sizer.card_bytes(dims) == 10 * array + CARD_BYTES
    small = sizer.shrink(dims, 1 << 22)
    assert sizer.elements(small) <= 1 << 22
    assert small["cols"] % 8 == 0
    assert sizer.shrink({"rows": 1, "cols": 8}, 1) == {"rows": 1, "cols": 8}, "no smaller than it can be"


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    write_gpumode(tmp_path / "gpumode")
    bench = tmp_path / "kernelbench" / "level1"
    bench.mkdir(parents=True)
    for name in ("10_B", "2_A"):
        (bench / f"{name}.py").write_text("class Model:\n    pass\n\ndef get_inputs():\n    return []\n")
    (bench / "notes.py").write_text("x = 1\n")
    trace = tmp_path / "trace"
    (trace / "definitions" / "scale").mkdir(parents=True)
    (trace / "workloads" / "scale").mkdir(parents=True)
    (trace / "definitions" / "scale" / "scale_rows.json").write_text(json.dumps(DEFINITION))
    (trace / "workloads" / "scale" / "scale_rows.jsonl").write_text(lines(workload(3)))
    return tmp_path


def test_all_problems_of_a_folder_in_a_persons_order(sets):
    found = [(source.name, source.format) for source in list_sources(sets)]
    assert found == [
        ("gpumode/set/ones_py", "gpumode"),
        ("kernelbench/level1/2_A", "kernelbench"),
        ("kernelbench/level1/10_B", "kernelbench"),
        ("scale_rows", "flashinfer"),
    ]
    assert read_source(list_sources(sets / "trace")[0]).name == "scale_rows"
    with pytest.raises(FormatError, match="holds no problem; known are"):
        list_sources(sets / "trace" / "workloads")


def test_a_single_file_is_a_candidate_of_a_task_that_was_written_by_hand(tmp_path):
    (tmp_path / "reference.py").write_text("def reference(x, pad):\n    return x\n")
    (tmp_path / "kernel.py").write_text("def run(x, pad):\n    return x\n")
    (tmp_path / "task.yaml").write_text(json.dumps(task().model_dump(mode="json", exclude_defaults=True) | {"task": 1}))
    other = tmp_path / "other.py"
    other.write_text("def run(x, pad):\n    return 2 * x\n")
    with open_candidate(tmp_path, other) as folder:
        assert [path.name for path in folder.iterdir()] == ["kernel.py"]
        assert (folder / "kernel.py").read_text() == other.read_text()
    with open_candidate(tmp_path, tmp_path) as folder:
        assert folder == tmp_path


def test_commands_say_in_a_line_what_is_missing(tmp_path, cli):
    said = cli("export", tmp_path, "-o", tmp_path / "out.py")
    assert (said.code, "has no task.yaml" in said.complaint) == (2, True)
    said = cli("init", tmp_path / "new", "--from-gpumode", tmp_path / "absent")
    assert (said.code, "no such file; give a problem" in said.complaint) == (2, True)
    said = cli("init", tmp_path / "new", "--processor")
    assert (said.code, "--processor: is for --from-..." in said.complaint) == (2, True)
    (tmp_path / "plain.py").write_text(textwrap.dedent("def f(x): return x\ndef get_inputs(): return []\n"))
    said = cli("init", tmp_path / "new", "--from-flashinfer", tmp_path / "plain.py")
    assert (said.code, "holds no problem of flashinfer" in said.complaint) == (2, True)


def test_a_definition_beside_its_workloads_is_a_problem_of_its_folder(tmp_path):
    """As `init --from-flashinfer` takes it; other JSON is none."""
    (tmp_path / "scale_rows.json").write_text(json.dumps(DEFINITION))
    (tmp_path / "workload.jsonl").write_text(lines(workload(3)))
    (tmp_path / "answer.json").write_text(json.dumps({"definition": "scale_rows", "sources": []}))
    (tmp_path / "torn.json").write_text("{")
    (source,) = list_sources(tmp_path)
    assert (source.name, source.format) == ("scale_rows", "flashinfer")
    assert read_source(source).name == "scale_rows"


def test_a_file_to_export_is_told_that_its_folder_is_wanted(tmp_path, cli):
    (tmp_path / "kernel.py").write_text("def run(x, pad):\n    return x\n")
    (tmp_path / "reference.py").write_text("def reference(x, pad):\n    return x\n")
    (tmp_path / "task.yaml").write_text(json.dumps(task().model_dump(mode="json", exclude_defaults=True) | {"task": 1}))
    (tmp_path / "origin.json").write_text(
        Origin(format="gpumode", name="a", entry="run", text="", arrays=()).model_dump_json()
    )
    said = cli("export", tmp_path, "--candidate", tmp_path / "kernel.py", "-o", tmp_path / "out.py")
    assert (said.code, "is a file; give the folder that holds kernel.py" in said.complaint) == (2, True)
