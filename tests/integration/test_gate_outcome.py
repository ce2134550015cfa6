"""What `run --json`, a stop request and `bench --gpu` make of a card that is never idle; nvidia-smi is a stand-in."""

from pathlib import Path

import pytest
import yaml

from ridgeline.agent.campaign.progress import Outcome
from ridgeline.sandbox.store.campaign_folder import request_stop
from tests import text_project
from tests.standins_smi import cards, h100, stand_in

FAST = "samples=1 interval_s=0 repeat_samples=1 repeat_interval_s=0.01 settle_s=0"
BUSY, IDLE = cards(h100(use="97 %", watts="600.00 W")), cards(h100())
PATIENCE = ("--set", "gpu_retry_interval_s=0.05", "--set", "gpu_max_wait_s=0.12")
SHORT = [word for pair in ("looks=2", "calibration_pairs=2", "blocks=2") for word in ("--set", pair)]


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """`machine([moments])`: nvidia-smi replays them; may be called again."""

    def make(moments):
        folder = stand_in(tmp_path / "smi", "nvidia-smi", moments)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.setenv("RIDGELINE_GATE", FAST)
        monkeypatch.setenv("PATH", f"{folder}:{Path('/usr/bin')}:/bin")

    return make


@pytest.fixture
def root(make_repository):
    files = dict(text_project.files())
    contract = yaml.safe_load(files["ridgeline.yaml"]) | {"target_backend": "TRITON", "target_gpu": "H100"}
    files["ridgeline.yaml"] = yaml.safe_dump(contract)
    return make_repository(files)


@pytest.mark.slow
@pytest.mark.feature("F098", "F112")
@pytest.mark.parametrize("moments", [[BUSY], [IDLE] * 5 + [BUSY]])
def test_run_prints_its_object_where_no_card_is_idle(cli, machine, root, tmp_path, moments):
    machine(moments)
    folder = tmp_path / "campaign"
    said = cli("run", root, "--max-rounds", "1", *SHORT, *PATIENCE, "--dir", folder, "--json")
    assert said.code == 4
    told = Outcome.model_validate(said.json)
    assert (told.status, told.dir, told.metric) == ("no_device", str(folder), "GFLOPS")
    assert told.problem == said.complaint
    assert "no idle GPU within 0.12 s" in told.problem
    assert told.rounds == 0
    assert "## Stop Summary" in (folder / "performance.md").read_text()
    machine([IDLE])
    assert cli("resume", folder, "--json").json["status"] == "concluded"


@pytest.mark.slow
def test_a_stop_request_ends_the_wait(cli, machine, root, tmp_path):
    machine([BUSY])
    folder = tmp_path / "campaign"
    assert cli("run", root, "--max-rounds", "1", *SHORT, *PATIENCE, "--dir", folder).code == 4
    request_stop(folder)
    said = cli("resume", folder, "--json")
    assert said.code == 4
    assert said.complaint.startswith("asked to stop while no GPU was idle")
    assert said.json["status"] == "no_device"


@pytest.mark.feature("F097")
def test_bench_of_gpu_commands_waits_for_a_card_and_binds_to_it(cli, machine, monkeypatch, tmp_path):
    machine([IDLE])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "time.sh").write_text("#!/bin/sh\necho $CUDA_VISIBLE_DEVICES >> seen; echo ms: 1.$$\n")
    (tmp_path / "time.sh").chmod(0o755)
    short = ("--max-pairs", "2", "--calibration-pairs", "0", "--metric-regex", "ms: ([0-9.]+)")
    said = cli("bench", "./time.sh", "./time.sh", "--gpu", *short, "--json")
    assert said.code == 0, said.err
    assert set((tmp_path / "seen").read_text().split()) == {"GPU-00000000-0000-0000-0000-000000000000"}


def test_bench_for_gpus_without_a_tool_that_tells_of_one_is_five(cli, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    said = cli("bench", "true", "true", "--gpu")
    assert said.code == 5
    assert "nvidia-smi" in said.complaint
