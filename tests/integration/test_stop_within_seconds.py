"""A request to stop and a time limit are heard in the middle of a step, and what the campaign says of time is true."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.store.campaign_folder import request_stop

KERNEL = """void scale(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = 2.0f * x[i];
}
"""
TEST = """import hashlib, pathlib, time
text = pathlib.Path("kernel.c").read_bytes()
if hashlib.sha256(text).hexdigest() != pathlib.Path("original.sha256").read_text():
    time.sleep(300)
print("4 cases right")
"""
BENCH = """import sys
with open(sys.argv[1], "w") as file:
    file.write("label,Check,Time (ms)\\nall,PASS,1.0\\n")
"""
CONTRACT = """contract: 1
target_op: scale
target_backend: C
target_gpu: cpu
dtype: fp32
kernel_source: [kernel.c]
editable: [kernel.c]
protected: [test.py, bench.py, original.sha256]
test_command: python3 test.py
benchmark_command: python3 bench.py {csv}
quick_command: python3 bench.py {csv}
benchmark_output:
  columns: [label, Check, Time (ms)]
scoring: {primary_metric: Time (ms), higher_is_better: false, time_ms: Time (ms), engine: wall}
execution_mode: repo
rebuild: {required: true, command: gcc -O1 -fPIC -shared -o libscale.so kernel.c}
limits: {calibration_pairs: 0, looks: "1,2", blocks: 2, final_pairs: 3}
threads: 1
"""
RIDGELINE = (sys.executable, "-m", "ridgeline")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose test of any other kernel than the first takes five minutes."""
    import hashlib

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # what other tests time is not waited for
    folder = tmp_path / "project"
    folder.mkdir()
    files = {"kernel.c": KERNEL, "test.py": TEST, "bench.py": BENCH, "ridgeline.yaml": CONTRACT}
    files |= {"original.sha256": hashlib.sha256(KERNEL.encode()).hexdigest(), ".gitignore": "*.so\n"}
    for name, text in files.items():
        (folder / name).write_text(text)
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "kernel")):
        subprocess.run(("git", "-c", "user.name=a", "-c", "user.email=a@b", *words), cwd=folder, check=True)
    return folder


def begin(project: Path, campaign: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        (*RIDGELINE, "run", str(project), "--dir", str(campaign), "--json", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_phase(campaign: Path, phase: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        status = campaign / "status.json"
        if status.is_file() and json.loads(status.read_text())["phase"] == phase:
            return
        time.sleep(0.1)
    raise AssertionError(f"never in phase {phase}")


def read_bodies(campaign: Path) -> Iterator[dict]:
    for line in (campaign / "ledger.jsonl").read_text().splitlines():
        yield json.loads(line)["body"]


@pytest.mark.slow
def test_a_stop_ends_the_step_under_way_and_the_campaign_concludes(project: Path, tmp_path: Path) -> None:
    campaign = tmp_path / "campaign"
    began = time.time()
    running = begin(project, campaign)
    wait_for_phase(campaign, "verify")
    asked = time.monotonic()
    subprocess.run((*RIDGELINE, "stop", str(campaign)), check=True, capture_output=True)
    out, err = running.communicate(timeout=60)
    assert time.monotonic() - asked < 15, err
    outcome = json.loads(out)
    assert (outcome["status"], outcome["accepted"], outcome["rolled_back"]) == ("concluded", 0, 1)
    bodies = list(read_bodies(campaign))
    (closed,) = (body for body in bodies if body["kind"] == "round")
    concluded = bodies[-1]
    assert closed["judged"]["verdict"]["reason"] == "stopped"
    assert "a person asked to stop" in closed["judged"]["verdict"]["sentence"]
    assert concluded["worked_s"] == pytest.approx(
        time.time() - began, abs=12
    )  # less the start and the end of the process
    assert "Processes at work, from the start of the command" in Path(outcome["report"]).read_text()


@pytest.mark.slow
def test_a_time_limit_holds_in_the_middle_of_a_step(project: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    running = begin(project, tmp_path / "campaign", "--max-minutes", "0.2")
    out, err = running.communicate(timeout=120)
    assert time.monotonic() - began < 0.2 * 60 + 20, err
    outcome = json.loads(out)
    assert outcome["status"] == "concluded"
    assert "T7 budget spent" in outcome["stop_reason"]


@pytest.mark.slow
def test_who_waits_says_for_whom_and_hears_a_stop(project: Path, tmp_path: Path) -> None:
    campaign = tmp_path / "campaign"
    with lease("cpu", wait_s=60):
        running = begin(project, campaign, "--max-wait", "5")
        assert running.stderr is not None
        waits = next(line for line in running.stderr if "waiting for" in line)
        request_stop(campaign)
        asked = time.monotonic()
        running.communicate(timeout=30)
        assert time.monotonic() - asked < 15
    assert f"waiting for the cpu: process {os.getpid()} " in waits
    assert "at most 5 min" in waits
    assert running.returncode == 2
    assert not campaign.exists()


@pytest.mark.slow
def test_check_says_for_whom_it_waits(project: Path) -> None:
    words = (*RIDGELINE, "check", str(project))
    with lease("cpu", wait_s=60):
        checking = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert checking.stderr is not None
        waits = next(line for line in checking.stderr if "waiting for" in line)
        checking.terminate()
        checking.communicate(timeout=60)
    assert f"waiting for the cpu: process {os.getpid()} " in waits
