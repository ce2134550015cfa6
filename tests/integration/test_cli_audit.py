"""`ridgeline audit` from the shell: files, folders, diffs, standard input, contracts."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.task_copies import whole_recorded

ROOT = Path(__file__).parents[2]
CHEAT = "import torch\ntorch.cuda.Event.elapsed_time = lambda *a: 0.01\n"
HONEST = "def f(x):\n    out = x.new_empty(4)\n    k[(1,)](x, out)\n    return out\n"
CACHE = "C = {}\ndef f(x):\n    return C.setdefault(id(x), mine(x))\n"


@pytest.fixture
def audit(cli, monkeypatch):
    """`audit("kernel.py", cwd=folder)` runs the command in this process, in that folder."""

    def call(*arguments: str, cwd: Path, stdin: bytes = b""):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return cli("audit", *arguments)

    return call


@pytest.fixture
def answer(audit):
    """The object that `audit` prints."""

    def call(*arguments: str, cwd: Path, stdin: bytes = b"") -> dict:
        done = audit(*arguments, "--json", cwd=cwd, stdin=stdin)
        assert done.code == 0, done.err
        return done.json

    return call


@pytest.mark.parametrize(("text", "verdict"), [(CHEAT, "convicted"), (HONEST, "clean"), (CACHE, "routes")])
def test_the_verdict_stands_in_the_object_and_the_exit_code_is_0(answer, tmp_path, text, verdict):
    (tmp_path / "kernel.py").write_text(text)
    found = answer("kernel.py", cwd=tmp_path)
    assert found["verdict"] == verdict
    assert found["examined"] == ["kernel.py"]
    assert bool(found["findings"]) == (verdict != "clean")


def test_a_cache_comes_with_its_trace(answer, tmp_path):
    found = answer("-", cwd=tmp_path, stdin=CACHE.encode())
    (cache,) = found["caches"]
    assert (cache["hit_rate"], cache["answer"]) == ("0/4", "overfit")
    assert found["findings"][0]["bucket"] == "W2"


def test_the_table_names_severity_rule_and_place(tmp_path):
    """In a process of its own, which knows nothing but this checkout."""
    (tmp_path / "kernel.py").write_text(CHEAT)
    argv = [sys.executable, "-P", "-m", "ridgeline", "audit", "kernel.py"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    said = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, env=environment, check=True).stdout
    assert "convicts" in said
    assert "kernel.py:2" in said
    assert "convicted: this does what no honest kernel does" in said


def test_a_folder_a_diff_and_bad_input(audit, answer, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.cu").write_text("void f(void) { fork(); }\n")
    (tmp_path / "src" / "b.py").write_text(HONEST)
    assert answer("src", cwd=tmp_path)["examined"] == ["a.cu", "b.py"]
    change = "--- a/src/b.py\n+++ b/src/b.py\n@@ -1 +1,2 @@\n+import os; os._exit(0)\n def f(x):\n"
    (tmp_path / "c.diff").write_text(change)
    found = answer("c.diff", cwd=tmp_path)
    assert [(one["path"], one["line"], one["rule"]) for one in found["findings"]] == [("src/b.py", 1, "ends-process")]
    assert answer("-", cwd=tmp_path, stdin=change.encode())["verdict"] == "convicted"
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.diff").write_text("@@ nothing\n")
    for bad in ("absent.py", "empty", "bad.diff"):
        done = audit(bad, "--json", cwd=tmp_path)
        said = json.loads(done.out)
        assert (done.code, said["exit_code"]) == (2, 2)
        assert bad in said["error"]
        assert "Traceback" not in done.err
        assert bad in done.err


def test_a_contract_says_what_may_be_changed(answer, tmp_path):
    whole_recorded("softmax_c", tmp_path / "softmax_c")
    found = answer("softmax_c", cwd=tmp_path)
    assert found["verdict"] == "clean"
    assert not {"bench.c", "test.c"} & set(found["examined"])
    change = "--- a/bench.c\n+++ b/bench.c\n@@ -1 +1,2 @@\n+int passes = 1;\n int main(void)\n"
    told = answer("-", "--contract", "softmax_c/ridgeline.yaml", cwd=tmp_path, stdin=change.encode())
    assert (told["verdict"], told["findings"][0]["rule"]) == ("convicted", "protected-path")
