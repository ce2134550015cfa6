"""Whole campaigns whose GPU commands go through the gate; nvidia-smi and rocm-smi are stand-ins that replay."""

import json
from pathlib import Path

import pytest
import yaml

from ridgeline.agent.campaign.progress import Outcome
from tests import text_project
from tests.fake_torch import install
from tests.rooms import OUTSIDE
from tests.standins_smi import cards, h100, stand_in

pytestmark = pytest.mark.slow
QUICK = [
    *("--max-rounds", "1"),
    *[word for pair in ("looks=2", "calibration_pairs=2", "blocks=2", "final_pairs=3") for word in ("--set", pair)],
]
FAST = "samples=1 interval_s=0 repeat_samples=1 repeat_interval_s=0.01 settle_s=0"
BUSY, IDLE = cards(h100(use="97 %", watts="600.00 W")), cards(h100())
SEEN = """
import os
with open(os.environ["SEEN"], "a") as file:
    print(*[os.environ.get(name) for name in NAMES], file=file)
"""


def project(seen: Path, gpu: str, names: tuple[str, ...]) -> dict[str, str]:
    """The text project as if it ran on a GPU; its harness notes which card it was given."""
    made = dict(text_project.files())
    contract = yaml.safe_load(made["ridgeline.yaml"])
    contract |= {
        "target_backend": "TRITON",
        "target_gpu": gpu,
        "pass_environment": ["SEEN", OUTSIDE, "HIP_VISIBLE_DEVICES"],
    }
    made["ridgeline.yaml"] = yaml.safe_dump(contract)
    head, doc, rest = made["harness.py"].partition('in it."""\n')
    made["harness.py"] = head + doc + SEEN.replace("NAMES", repr(names)) + rest
    return made


@pytest.fixture
def on_gpu(make_repository, monkeypatch, tmp_path):
    """`on_gpu("nvidia-smi", moments)` -> repository, and the file with the cards that commands were given."""

    def make(tool, moments, *, names=("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"), gpu="H100"):
        seen = tmp_path / "notes" / "seen"
        seen.parent.mkdir()
        monkeypatch.setenv("SEEN", str(seen))
        monkeypatch.setenv(OUTSIDE, str(seen.parent))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.setenv("RIDGELINE_GATE", FAST)
        folder = stand_in(tmp_path / "smi", tool, moments)
        monkeypatch.setenv("PATH", f"{folder}:{Path('/usr/bin')}:/bin")
        return make_repository(project(seen, gpu, names)), seen

    return make


@pytest.mark.feature("F097", "F098")
def test_waiting_then_idle_and_every_command_is_bound_to_the_card(cli, on_gpu):
    root, seen = on_gpu("nvidia-smi", [BUSY, BUSY, IDLE])
    patience = ("--set", "gpu_retry_interval_s=0.05", "--set", "gpu_max_wait_s=60")
    said = cli("run", root, *QUICK, *patience, "--json")
    assert said.code == 0, said.err
    found = Outcome.model_validate(said.json)
    assert found.status == "concluded"
    assert found.cost.gpu_seconds > 0, "the leases that were held"
    assert "| GPU held |" in Path(found.report).read_text()
    assert said.err.count("GPU gate: no idle card") == 2
    assert {*seen.read_text().splitlines()} == {"GPU-00000000-0000-0000-0000-000000000000 PCI_BUS_ID"}


@pytest.mark.feature("F098", "F112")
def test_never_idle_is_a_stop_summary_and_four_and_can_be_resumed(cli, on_gpu, tmp_path, git):
    root, seen = on_gpu("nvidia-smi", [BUSY])
    campaign = tmp_path / "campaign"
    patience = ("--set", "gpu_retry_interval_s=0.05", "--set", "gpu_max_wait_s=0.12")
    said = cli("run", root, *QUICK, *patience, "--dir", campaign)
    assert said.code == 4
    assert "no idle GPU within 0.12 s: nvidia 0 NVIDIA H100 80GB HBM3 busy: utilization 97 %" in said.complaint
    assert "ridgeline resume" in said.complaint
    assert not seen.exists(), "nothing ran on a busy card"
    told = (campaign / "performance.md").read_text()
    assert "## Stop Summary" in told
    assert "no idle GPU available for 0.002 minutes" in told
    assert git(root, "status", "--porcelain") == ""

    stand_in(tmp_path / "smi", "nvidia-smi", [IDLE])
    going_on = cli("resume", campaign, "--json")
    assert going_on.code == 0, going_on.err
    assert going_on.json["status"] == "concluded"
    assert "Stop Summary" not in (campaign / "performance.md").read_text()
    assert seen.read_text()


@pytest.mark.feature("F098", "F112")
def test_never_idle_before_anything_is_known_can_be_resumed_too(cli, on_gpu, tmp_path, monkeypatch, git):
    """A contract whose torch can measure the ceilings needs the card before the ledger has a line."""
    root, seen = on_gpu("nvidia-smi", [BUSY])
    monkeypatch.setenv("PYTHONPATH", str(install(tmp_path / "site")))
    path = root / "ridgeline.yaml"
    contract = yaml.safe_load(path.read_text())
    contract["benchmark_command"] = "python3 -B harness.py bench {csv}"
    contract["pass_environment"] = ["SEEN", OUTSIDE, "PYTHONPATH"]
    path.write_text(yaml.safe_dump(contract))
    git(root, "commit", "-qam", "a benchmark with a torch")
    campaign = tmp_path / "campaign"
    patience = ("--set", "gpu_retry_interval_s=0.05", "--set", "gpu_max_wait_s=0.12")
    said = cli("run", root, *QUICK, *patience, "--dir", campaign)
    assert said.code == 4, said.err
    told = (campaign / "performance.md").read_text()
    assert "## Stop Summary" in told
    assert "none: nothing was measured yet" in told
    assert not (campaign / "ledger.jsonl").exists()
    assert not seen.exists()
    stand_in(tmp_path / "smi", "nvidia-smi", [IDLE])
    going_on = cli("resume", campaign, "--json")
    assert going_on.code == 0, going_on.err
    assert going_on.json["status"] == "concluded"
    assert "Stop Summary" not in (campaign / "performance.md").read_text()


def test_busy_in_the_middle_of_a_campaign(cli, on_gpu, tmp_path):
    """Idle for the first commands, then somebody takes the card for good."""
    root, seen = on_gpu("nvidia-smi", [*[IDLE] * 5, BUSY])
    campaign = tmp_path / "campaign"
    patience = ("--set", "gpu_retry_interval_s=0.05", "--set", "gpu_max_wait_s=0.12")
    said = cli("run", root, *QUICK, *patience, "--dir", campaign)
    assert said.code == 4
    assert "## Stop Summary" in (campaign / "performance.md").read_text()
    before = len(seen.read_text().splitlines())
    assert cli("resume", campaign).code == 4
    assert len(seen.read_text().splitlines()) == before
    stand_in(tmp_path / "smi", "nvidia-smi", [IDLE])
    assert cli("resume", campaign).code == 0


@pytest.mark.feature("F001", "F071", "F097")
def test_rocm_smi_the_least_used_card_is_bound_and_the_instructions_precision_sets_its_ceiling(cli, on_gpu):
    card = {"GPU use (%)": "0", "VRAM Total Memory (B)": "205822885888", "Card Series": "AMD Instinct MI300X"}
    used = [{**card, "VRAM Total Used Memory (B)": size} for size in ("400000000", "299687936", "90000000000")]
    moment = json.dumps({f"card{n}": told for n, told in enumerate(used)})
    names = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    root, seen = on_gpu("rocm-smi", [moment], names=names, gpu="MI300X")
    sentence = ("-i", "optimize blockwise FP8 GEMM on MI300X", "--target", "target_op=gemm_fp8_blockwise")
    said = cli("run", root, *QUICK, *sentence, "--json")
    assert said.code == 0, said.err
    assert {*seen.read_text().splitlines()} == {"None 1"}
    readme = Path(said.json["report"]).with_name("README.md").read_text()
    assert "- dtype: fp8" in readme
    assert "fp8_dense: 2614.9 TFLOPS" in readme
    assert "compute-bound target >= 2615 TFLOPS" in readme, "text projects stop at 100 % of their ceiling"
