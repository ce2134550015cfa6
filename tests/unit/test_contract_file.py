"""Every bad contract gives one clear line per problem: file, field, what is wrong, mend."""

from pathlib import Path

import pytest
import yaml

from ridgeline.agent.contract_file import load, schema
from ridgeline.agent.errors import UserError
from ridgeline.graph.contract import PREREQUISITES
from tests.projects import document, files


def project(folder: Path, **changes) -> Path:
    for name, text in files(**changes).items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder / "ridgeline.yaml"


def problem(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_contract_is_found_by_file_and_by_folder(tmp_path):
    path = project(tmp_path)
    by_file, by_folder = load(path), load(tmp_path)
    assert by_file == by_folder
    assert by_file.root == tmp_path
    assert by_file.contract.test_command == ("./test.sh",)
    assert by_file.warnings == ()


GROUPED = {"target_op": "grouped_gemm_f32", "skew_shapes": ["large"], "test_command": "./test.sh test_moe.py"}


@pytest.mark.feature("F051")
@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("test_moe.py", "give FILE::NAME"),
        ("nowhere.py::test_empty_expert", "give FILE::NAME, a file that is there"),
        ("test_moe.py::test_other", "test_moe.py has no test_other"),
        ("kernel.c::answer", "kernel.c may be edited by a candidate"),
        ("bench.sh::canned", "neither test_command nor full_test_command runs bench.sh"),
    ],
)
def test_the_test_with_an_empty_group_is_looked_for(tmp_path, named, said):
    path = project(tmp_path, **GROUPED, empty_group_test=named)
    (tmp_path / "test_moe.py").write_text("def test_empty_expert(): ...\n")
    assert said in problem(path)


@pytest.mark.feature("F021")
def test_a_grouped_operator_without_a_skewed_size_is_refused_before_anything_runs(tmp_path):
    assert "skew_shapes: grouped_gemm_f32 works on groups" in problem(project(tmp_path, target_op="grouped_gemm_f32"))


@pytest.mark.feature("F051")
def test_a_grouped_operator_without_a_test_of_an_empty_group_is_warned_about(tmp_path):
    (told,) = load(project(tmp_path, **GROUPED)).warnings
    assert "grouped_gemm_f32 works on groups, and empty_group_test names no test with an empty one" in told
    path = project(tmp_path, **GROUPED, empty_group_test="test_moe.py::test_empty_expert")
    (tmp_path / "test_moe.py").write_text("def test_empty_expert(): ...\n")
    assert load(path).warnings == ()


@pytest.mark.feature("F015")
@pytest.mark.parametrize(
    ("globs", "said"),
    [
        (["*.sh"], "rebuild.files: leaves out kernel.c, which a compiler reads and a candidate may change; add it"),
        (["kernel.c", "csrc/**"], "rebuild.files: 'csrc/**' matches no file"),
    ],
)
def test_what_a_build_reads_is_checked(tmp_path, globs, said):
    assert said in problem(project(tmp_path, rebuild={"required": True, "command": "./test.sh", "files": globs}))


def test_a_reference_project_that_is_not_there_is_told(tmp_path):
    said = problem(project(tmp_path, knowledge={"reference_project": "../nowhere"}))
    assert said.startswith("ridgeline.yaml: knowledge.reference_project: ")
    assert "no such folder; give a checkout, or leave it out" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "ridgeline.yaml: is empty"),
        ("# only a comment\n", "ridgeline.yaml: is empty"),
        ("- a\n- b\n", "ridgeline.yaml: is a list, not a mapping"),
        ("just words\n", "ridgeline.yaml: is a str, not a mapping"),
        ("a: [1, 2\nb: 3\n", "ridgeline.yaml:2:2: is not YAML"),
        ("a: 'open\n", "is not YAML"),
        ("a: \x01\n", "ridgeline.yaml: is not YAML"),
    ],
)
def test_a_file_that_is_no_contract(tmp_path, text, said):
    path = tmp_path / "ridgeline.yaml"
    path.write_text(text)
    line = problem(path)
    assert said in line
    assert "\n" not in line
    assert ";" in line, "the mend is named"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "ends-process",
            "ends-process: this one convicts, and cannot be allowed; remove it, and write the kernel without",
        ),
        ("file-acces", "'file-acces' is no rule of the audit; did you mean 'file-access'?"),
        ("zzz", "'zzz' is no rule of the audit; `ridgeline audit` names the rules that it finds"),
    ],
)
def test_what_no_contract_may_allow_is_said_without_a_list_of_every_rule(tmp_path, name, said):
    path = project(tmp_path)
    path.write_text(f"{path.read_text()}\naudit: {{allow: [file-access, {name}]}}\n")
    assert problem(path) == f"ridgeline.yaml: audit.allow.1: {said}"


def test_a_file_that_is_not_text(tmp_path):
    path = tmp_path / "ridgeline.yaml"
    path.write_bytes(b"target_op: \xff\xfe\n")
    assert "byte 11 is not UTF-8" in problem(path)


def test_no_such_file_and_a_folder_without_a_contract(tmp_path):
    assert "no such file" in problem(tmp_path / "absent.yaml")
    assert "has no ridgeline.yaml" in problem(tmp_path)


@pytest.mark.feature("F005")
@pytest.mark.parametrize("name", PREREQUISITES)
def test_each_missing_prerequisite_is_named(tmp_path, name):
    line = problem(project(tmp_path, **{name: None}))
    assert line.startswith(f"ridgeline.yaml: {name}: missing (prerequisite {PREREQUISITES[name]}); ")
    assert len(line.splitlines()) == 1


@pytest.mark.feature("F005")
def test_all_missing_prerequisites_at_once_one_line_each(tmp_path):
    path = tmp_path / "ridgeline.yaml"
    path.write_text("target_op: toy\ntarget_backend: C\n")
    lines = problem(path).splitlines()
    assert [line.split(": ")[1] for line in lines] == list(PREREQUISITES)


def timed_by(column: str) -> dict[str, object]:
    """A contract whose column of times is this one."""
    columns = list(dict.fromkeys(("label", "Check", "GFLOPS", column)))
    return {
        "benchmark_output": {"columns": columns},
        "scoring": {"primary_metric": "GFLOPS", "time_ms": column},
    }


@pytest.mark.parametrize("column", ["Time (ms)", "ms", "ms/step", "latency", "forward_ms", "kernels", "Times"])
def test_a_column_of_times_may_be_called_anything_that_is_no_other_unit(tmp_path, column):
    assert load(project(tmp_path, **timed_by(column))).contract.scoring.time_ms == column


def test_a_broad_surface_may_leave_out_what_is_protected(tmp_path):
    assert load(project(tmp_path, editable=["*.c", "*.sh"], protected=["bench.sh", "canned.csv"]))


@pytest.mark.feature("F036")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"test_comand": "x"}, "test_comand: unknown field; did you mean 'test_command'?"),
        (
            {"scoring": {"primary_metrc": "GFLOPS"}},
            "scoring.primary_metrc: unknown field; did you mean 'primary_metric'?",
        ),
        ({"rebuild": {"required": True}}, "rebuild: required is true but command is missing"),
        ({"max_iterations": 120}, "max_iterations: is 120; give 1 to 119"),
        ({"max_iterations": 0}, "max_iterations: is 0; give 1 to 119"),
        ({"max_iterations": -1}, "max_iterations: is -1; give 1 to 119"),
        ({"max_iterations": "many"}, "max_iterations: input should be a valid integer"),
        ({"target_backend": "OPENCL"}, "target_backend: input should be 'TRITON'"),
        ({"target_op": "GEMM fp8"}, "target_op: string should match pattern"),
        ({"execution_mode": "fast"}, "execution_mode: input should be 'repo' or 'workspace'"),
        ({"test_command": "./test.sh | tail -1"}, "test_command: uses the shell (|)"),
        ({"benchmark_command": "./bench.sh"}, "benchmark_command: has no {csv}"),
        ({"scoring": {"primary_metric": "TFLOPS"}}, "column 'TFLOPS' is not in benchmark_output.columns"),
        ({"benchmark_output": {"columns": ["label", "GFLOPS"]}}, "column 'Check' is not among columns"),
        ({"editable": ["src/*.c"]}, "editable: 'src/*.c' matches no file"),
        ({"kernel_source": ["kernle.c"]}, "kernel_source: 'kernle.c' matches no file"),
        ({"protected": ["tests/**"]}, "protected: 'tests/**' matches no file"),
        ({"flags_file": "kernel.flags"}, "flags_file: 'kernel.flags' matches no file"),
        ({"workspace": {"src": "tile.h"}}, "workspace.src: 'tile.h' matches no file"),
        ({"workspace": {"rebuild": {"required": True, "command": "no-such-cc"}}}, "workspace.rebuild.command: program"),
        ({"kernel_source": ["../kernel.c"]}, "kernel_source: '../kernel.c' leaves the contract's folder"),
        ({"test_command": "./missing.sh"}, "test_command: program './missing.sh' not found"),
        ({"test_command": "no-such-program -q"}, "test_command: program 'no-such-program' not found"),
        ({"test_command": "sh absent.sh"}, "test_command: file 'absent.sh' not found"),
        ({"profile": {"command": "no-such-program"}}, "profile.command: program 'no-such-program' not found"),
        ({"timeouts": {"test_s": -1}}, "timeouts.test_s: input should be greater than 0"),
        ({"target_shapes": 7}, "target_shapes: "),
        ({"protected": ["*.c"]}, "kernel_source: 'kernel.c' may be edited and is under `protected` too; take it out"),
        (
            {"editable": ["*.c"], "protected": ["kernel.c"]},
            "editable: '*.c' may be edited and is under `protected` too",
        ),
        ({"threads": 400}, "threads: is 400, and this machine has "),
        ({"scoring": {"primary_metric": "Check"}}, "scoring.primary_metric: column 'Check' is the check of a row and"),
        (timed_by("label"), "scoring.time_ms: column 'label' is the label of a row and no number; name a column"),
        (timed_by("GFLOPS"), "scoring.time_ms: column 'GFLOPS' is a throughput and no time; name the column of times"),
        (timed_by("time_us"), "scoring.time_ms: column 'time_us' is not in milliseconds; let the benchmark write"),
        (timed_by("Time (s)"), "scoring.time_ms: column 'Time (s)' is not in milliseconds; let the benchmark write"),
        (
            {"scoring": {"primary_metric": "Time (ms)", "time_ms": "Time (ms)"}},
            "scoring.higher_is_better: is true, but 'Time (ms)' is a time, of which less is better; write false",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_field(tmp_path, changes, said):
    lines = problem(project(tmp_path, **changes)).splitlines()
    assert any(line.startswith("ridgeline.yaml: ") and said in line for line in lines), lines


def test_several_problems_one_line_each(tmp_path):
    lines = problem(project(tmp_path, test_command=None, tset_command="x", max_iterations=500)).splitlines()
    assert len(lines) == 3
    assert all(line.startswith("ridgeline.yaml: ") and ";" in line for line in lines)


def test_a_program_that_the_build_makes_need_not_exist(tmp_path):
    path = project(tmp_path, test_command="build/test", rebuild={"required": True, "command": "sh bench.sh"})
    assert load(path).contract.test_command == ("build/test",)


def test_a_secret_among_the_passed_variables_is_warned_about(tmp_path):
    loaded = load(project(tmp_path, pass_environment=["CC", "OPENAI_API_KEY"]))
    assert len(loaded.warnings) == 1
    assert "OPENAI_API_KEY looks like a secret" in loaded.warnings[0]


def test_the_schema_knows_the_fields():
    known = schema()["properties"]
    assert set(document()) <= set(known)
    assert yaml.safe_dump(document())


def test_the_timed_function_is_one_that_the_kernel_defines(tmp_path):
    assert load(project(tmp_path, function="answer")).contract.function == "answer"
    said = problem(project(tmp_path, function="question"))
    assert said == (
        "ridgeline.yaml: function: no source of the kernel defines 'question'; correct the name, or leave it out"
    )


def test_processor_time_is_scored_for_kernels_of_the_processor_alone(tmp_path):
    scoring = {"primary_metric": document()["scoring"]["primary_metric"], "engine": "cpu"}
    assert load(project(tmp_path, scoring=scoring)).contract.scoring.engine == "cpu"
    said = problem(project(tmp_path, scoring=scoring, target_gpu="H100"))
    assert said == (
        "ridgeline.yaml: scoring.engine: cpu: processor time does not see what a GPU does;"
        " give event, graph, profiler or wall"
    )


@pytest.mark.feature("F107")
@pytest.mark.parametrize(
    ("columns", "declared", "classes"),
    [
        (["label", "block_size", "head_size", "Check", "GFLOPS", "Time (ms)"], None, ("block_size", "head_size")),
        (["label", "mtp", "block_size", "Check", "GFLOPS", "Time (ms)"], None, ("mtp", "block_size")),
        (["label", "block_size", "Check", "GFLOPS", "Time (ms)"], [], ()),
        (["label", "block_size", "path", "Check", "GFLOPS", "Time (ms)"], ["path"], ("path",)),
        (["label", "Check", "GFLOPS", "Time (ms)"], None, ()),
    ],
)
def test_classes_need_no_declaring_where_columns_have_the_documents_names(tmp_path, columns, declared, classes):
    output = {"columns": columns} | ({} if declared is None else {"config_columns": declared})
    changes = {"benchmark_output": output}
    if "block_size" in columns and declared is None:
        changes["work"] = {"flops": "2*block_size"}
    for name, text in files(**changes).items():
        (tmp_path / name).write_text(text)
    for name in ("test.sh", "bench.sh"):
        (tmp_path / name).chmod(0o755)
    assert load(tmp_path).contract.benchmark_output.config_columns == classes
