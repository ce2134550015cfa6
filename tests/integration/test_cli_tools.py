"""init, doctor, graph, schema, entry points: the commands around a campaign."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ridgeline.agent.contract_file import load
from ridgeline.agent.errors import UserError
from ridgeline.agent.extensions import registrations, tasks
from ridgeline.agent.scaffold.contract import guess
from ridgeline.evals.task_folders import folders

ROOT = Path(__file__).parents[2]


def test_doctor_names_what_is_missing_and_its_cost(cli, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    done = cli("doctor", "--json")
    assert done.code == 0
    findings = {finding["name"]: finding for finding in done.json["findings"]}
    assert {
        "python",
        "git",
        "gcc",
        "torch",
        "perf counters",
        "sandbox",
        "model keys",
        "free disk",
        "nvidia-smi",
    } <= set(findings)
    assert findings["git"]["found"] is True
    assert all(finding["cost"] for finding in findings.values() if not finding["found"])
    assert "OPENAI_API_KEY" in findings["model keys"]["detail"]
    assert "sk-very-secret" not in done.out


@pytest.mark.feature("F096")
def test_doctor_without_git_leaves_with_five(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli("doctor", "--json")
    assert done.code == 5
    assert done.json["ok"] is False


@pytest.mark.parametrize(
    ("name", "text", "backend"),
    [
        ("kernel.c", "void f(void) {}\n", "C"),
        ("gemm.cu", "__global__ void f() {}\n", "CUDA"),
        ("softmax.py", "@triton.jit\ndef f(): ...\n", "TRITON"),
        ("op.hip", "__global__ void f() {}\n", "HIP"),
        ("op.cpp", "__global__ void f() {}\n", "HIP"),
        ("sum.cpp", "namespace a { void f() {} }\n", "C"),
        ("sum.cc", "void f() {}\n", "C"),
    ],
)
def test_init_guesses_the_kernel_and_check_names_what_is_left(cli, tmp_path, name, text, backend):
    (tmp_path / name).write_text(text)
    (tmp_path / "test_kernel.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "helper.py").write_text("x = 1\n")
    assert guess(tmp_path) == ((name,), backend)
    assert cli("init", tmp_path).code == 0
    written = yaml.safe_load((tmp_path / "ridgeline.yaml").read_text())
    assert written["kernel_source"] == [name]
    assert written["target_backend"] == backend
    with pytest.raises(UserError) as caught:
        load(tmp_path)
    lines = str(caught.value).splitlines()
    assert {line.split(": ")[1] for line in lines} == {"test_command", "benchmark_command", "quick_command"}
    assert "exists already" in cli("init", tmp_path).complaint


def test_init_takes_a_python_file_for_python(cli, tmp_path):
    (tmp_path / "distance.py").write_text("def distance(a, b): ...\n")
    assert cli("init", tmp_path).code == 0
    written = yaml.safe_load((tmp_path / "ridgeline.yaml").read_text())
    assert (written["target_backend"], written["target_gpu"]) == ("PYTHON", "cpu")
    assert written["rebuild"] == {"required": False}


@pytest.mark.parametrize(("name", "said"), [("lib.rs", "files here end in .rs"), (None, "no source file lies here")])
def test_init_refuses_a_folder_without_a_kernel_in_one_line(cli, tmp_path, name, said):
    if name:
        (tmp_path / name).write_text("fn f() {}\n")
    done = cli("init", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.complaint == (
        f"{tmp_path}: holds no source of a kernel in C, C++, CUDA, HIP, Triton or Python ({said});"
        " give the folder in which the kernel lies"
    )
    assert not (tmp_path / "ridgeline.yaml").exists()


def test_init_with_known_commands_is_valid_at_once(cli, tmp_path):
    for name in ("kernel.c", "t.sh", "b.sh"):
        (tmp_path / name).write_text("#!/bin/sh\n")
    made = cli("init", tmp_path, "--test-command", "sh t.sh", "--benchmark-command", "sh b.sh")
    assert made.code == 0
    assert load(tmp_path).contract.benchmark_command == ("sh", "b.sh", "--csv", "{csv}")
    assert cli("check", tmp_path, "--static", "--json").json["ok"] is True


@pytest.mark.feature("F066")
@pytest.mark.parametrize("task", ["matmul_c", "softmax_c"])
def test_a_ready_made_task_is_a_clean_repository(cli, tmp_path, git, task):
    folder = tmp_path / "new"
    assert cli("init", folder, "--task", task).code == 0
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "log", "--format=%an", "-1") == "Ridgeline"
    assert load(folder).contract.kernel_source
    assert "is not empty" in cli("init", folder, "--task", task).complaint


@pytest.mark.parametrize("task", sorted(folders()))
def test_a_ready_made_task_is_all_files_of_its_folders(cli, tmp_path, task):
    made = tmp_path / "new"
    assert cli("init", made, "--task", task).code == 0
    parts = [path for part in folders()[task] for path in part.iterdir()]
    assert {path.name for path in made.iterdir()} == {".git", ".gitignore", *(path.name for path in parts)}
    assert all((made / path.name).read_bytes() == path.read_bytes() for path in parts)
    assert load(made).contract.target_op


def test_the_folder_of_a_task_is_taken_like_a_name_without_its_campaigns(cli, tmp_path):
    source = tmp_path / "task"
    assert cli("init", source, "--task", "matmul_c").code == 0
    (source / "agent/workspace/old").mkdir(parents=True)
    made = tmp_path / "made"
    done = cli("init", made, "--task", source)
    assert done.code == 0, done.err
    assert (made / "task.yaml").read_bytes() == (source / "task.yaml").read_bytes()
    assert not (made / "agent/workspace").exists()


def test_the_graph_is_the_compiled_one(cli):
    drawn = cli("graph")
    assert drawn.code == 0
    assert "graph TD" in drawn.out
    found = cli("graph", "--json").json
    assert {"propose", "judge", "accept", "rollback", "conclude"} <= set(found["nodes"])
    assert {"from", "to", "conditional", "label"} == set(found["edges"][0])


@pytest.mark.parametrize("which", ["contract", "ledger", "outcome"])
def test_schemas_are_json(cli, which):
    assert cli("schema", which).json["type"] == "object"


def test_extensions_are_found_also_in_a_clone():
    assert {"matmul_c", "softmax_c"} <= set(tasks())
    assert [register.__name__ for register in registrations()] == ["register"]
    code = (
        "import importlib.metadata as m; m.entry_points = lambda **_: ()\n"
        "import ridgeline.agent.extensions as e; print(len([*e.registrations()]), sorted(e.tasks()))"
    )
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1)[0] == "1"
    assert "matmul_c" in done.stdout


def test_help_of_every_command_is_text(cli):
    for command in ("run", "resume", "demo", "memory", "check"):
        done = cli(command, "--help")
        assert done.code == 0
        assert "Usage: ridgeline" in done.out


def test_json_is_exactly_one_object(cli):
    done = cli("doctor", "--json")
    assert isinstance(json.loads(done.out), dict)
