"""`ridgeline audit` from the shell: files, folders, diffs, standard input, contracts."""

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


def audit(*arguments: str, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-P", "-m", "ridgeline", "audit", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(cwd)}
    done = subprocess.run(argv, cwd=cwd, input=stdin, capture_output=True, env=environment, check=False)
    return subprocess.CompletedProcess(argv, done.returncode, done.stdout.decode(), done.stderr.decode())


def answer(*arguments: str, cwd: Path, stdin: bytes = b"") -> dict:
    done = audit(*arguments, "--json", cwd=cwd, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("text", "verdict"), [(CHEAT, "convicted"), (HONEST, "clean"), (CACHE, "routes")])
def test_the_verdict_stands_in_the_object_and_the_exit_code_is_0(tmp_path, text, verdict):
    (tmp_path / "kernel.py").write_text(text)
    found = answer("kernel.py", cwd=tmp_path)
    assert found["verdict"] == verdict
    assert found["examined"] == ["kernel.py"]
    assert bool(found["findings"]) == (verdict != "clean")


def test_a_cache_comes_with_its_trace(tmp_path):
    found = answer("-", cwd=tmp_path, stdin=CACHE.encode())
    (cache,) = found["caches"]
    assert (cache["hit_rate"], cache["answer"]) == ("0/4", "overfit")
    assert found["findings"][0]["bucket"] == "W2"


def test_the_table_names_severity_rule_and_place(tmp_path):
    (tmp_path / "kernel.py").write_text(CHEAT)
    said = audit("kernel.py", cwd=tmp_path).stdout
    assert "convicts" in said
    assert "kernel.py:2" in said
    assert "convicted: this does what no honest kernel does" in said


@pytest.mark.slow
def test_a_folder_a_diff_and_bad_input(tmp_path):
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
        said = json.loads(done.stdout)
        assert (done.returncode, said["exit_code"]) == (2, 2)
        assert bad in said["error"]
        assert "Traceback" not in done.stderr
        assert bad in done.stderr


def test_a_contract_says_what_may_be_changed(tmp_path):
    whole_recorded("softmax_c", tmp_path / "softmax_c")
    found = answer("softmax_c", cwd=tmp_path)
    assert found["verdict"] == "clean"
    assert not {"bench.c", "test.c"} & set(found["examined"])
    change = "--- a/bench.c\n+++ b/bench.c\n@@ -1 +1,2 @@\n+int passes = 1;\n int main(void)\n"
    told = answer("-", "--contract", "softmax_c/ridgeline.yaml", cwd=tmp_path, stdin=change.encode())
    assert (told["verdict"], told["findings"][0]["rule"]) == ("convicted", "protected-path")
