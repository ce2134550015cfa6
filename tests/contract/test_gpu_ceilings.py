"""Ceilings of a GPU, measured by a stand-in torch in a real process: protocol, cache, and what is said without one."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import ridgeline.sandbox.devices.ceilings
from ridgeline.graph.contract import judge_commands
from ridgeline.graph.errors import DeviceBusy
from ridgeline.graph.evidence import Machine
from ridgeline.sandbox.devices.ceilings import KEPT_S, GpuCeilings, interpreter_of
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.devices.machine import LocalDevice
from tests.builders import make_contract
from tests.fake_torch import install

SCRIPT = Path(ridgeline.sandbox.devices.ceilings.__file__).parents[1] / "harness" / "gpu_ceiling.py"


@contextlib.contextmanager
def leased(wait_s):
    """The card, under a lease of its own; what binds to it stands in for the gate's choice."""
    with lease("nvidia", wait_s=wait_s):
        yield {"CUDA_VISIBLE_DEVICES": "GPU-1"}


def free():
    return leased(0)


CARD = Machine(kind="nvidia", name="NVIDIA H100 80GB HBM3", arch="sm_90", fingerprint="c" * 64)
FP8 = "this torch has no FP8 type"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A torch on PYTHONPATH, and leases and caches of this test's own."""
    folder = install(tmp_path / "site")
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("FAKE_TORCH", raising=False)
    return folder


def contract(python=sys.executable, **fields):
    commands = {
        "test_command": ("./test.sh",),
        "benchmark_command": (python, "-P", "-B", "bench.py", "--csv", "{csv}"),
        "quick_command": (python, "-P", "-B", "bench.py", "--csv", "{csv}", "--shapes", "{shapes}"),
        "target_backend": "TRITON",
        "target_gpu": "H100",
        "pass_environment": ("PYTHONPATH", "FAKE_TORCH"),
    }
    return make_contract(**{**commands, **fields})


def script(*options, **environment):
    ran = subprocess.run(
        (sys.executable, str(SCRIPT), *options), env={**os.environ, **environment}, capture_output=True, text=True
    )
    return ran.returncode, json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.feature("F089")
def test_the_script_measures_copies_and_products(site):
    code, found = script("--first", "bf16")
    assert code == 0
    assert (found["torch"], found["device"], found["arch"]) == ("9.9.0+fake", "NVIDIA H100 80GB HBM3", "sm_90")
    assert found["factor"] == "bytes read plus bytes written"
    assert [one["mib"] for one in found["copy"]] == [512, 1024, 2048]
    assert (found["copy_gbps"], found["read_gbps"], found["write_gbps"]) == pytest.approx((3000, 3100, 3200), rel=1e-3)
    rates = {dtype: one["tflops"] for dtype, one in found["matmul"].items()}
    expected = {"bf16": 640, "fp32": 50, "tf32": 400, "fp16": 650, "int8": 1300}
    assert rates == pytest.approx(expected, rel=1e-3)
    assert list(rates)[0] == "bf16"
    assert all(one["shape"][0] == 8192 for one in found["matmul"].values())
    assert found["skipped"] == {"fp8": FP8}


def test_the_script_begins_nothing_when_its_time_is_over(site):
    code, found = script("--seconds", "0")
    assert code == 0
    assert [one["mib"] for one in found["copy"]] == [512]
    assert found["matmul"] == {}
    assert found["skipped"]["bf16"] == found["skipped"]["read_gbps"] == "no time was left"


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("no-gpu", "torch sees no GPU"),
        ("broken", "torch cannot be loaded: libcudart.so.12: cannot open shared object file"),
        ("no-memory", "CUDA out of memory."),
    ],
)
def test_the_script_says_why_it_cannot(site, mode, why):
    code, found = script(FAKE_TORCH=mode)
    assert (code, found["ok"], found["why"]) == (1, False, why)


def test_the_version_is_asked_without_loading_torch(site):
    assert script("--version", FAKE_TORCH="broken") == (0, {"ok": True, "torch": "9.9.0"})


@pytest.mark.feature("F089")
@pytest.mark.parametrize(
    ("dtype", "gflops"), [("bf16", 640e3), ("bfloat16", 640e3), ("fp16", 650e3), ("fp32", 50e3), ("tf32", 400e3)]
)
def test_measured_for_the_contract(site, dtype, gflops):
    found = GpuCeilings(contract=contract(), hold_card=free).measure(CARD, dtype)
    assert (found.copy_gbps, found.flops_gflops) == pytest.approx((3000, gflops), rel=1e-3)
    assert (found.machine, found.kept) == (CARD.fingerprint, False)
    assert "counting bytes read plus bytes written" in found.method
    assert "matrix product of 8192 x 8192 x" in found.method
    others = {one.name: (round(one.value, -1), one.unit) for one in found.others}
    assert others["read bandwidth"] == (3100, "GB/s")
    assert others["int8 matrix product"] == (1300, "TOPS")


@pytest.mark.parametrize(
    ("dtype", "why"), [("fp8", FP8), ("fp64", "torch has no matrix product of it"), ("fp4", "torch has no matrix")]
)
def test_a_type_without_a_product_has_a_bandwidth_and_a_reason(site, dtype, why):
    found = GpuCeilings(contract=contract(), hold_card=free).measure(CARD, dtype)
    assert found.copy_gbps == pytest.approx(3000, rel=1e-3)
    assert found.flops_gflops is None
    assert f"no operation peak for {dtype}: {why}" in found.method


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("no-gpu", "torch sees no GPU"),
        ("broken", "torch cannot be loaded: libcudart"),
        ("dies", "not measured: gpu_ceiling.py: exit code 139: Segmentation fault, as it were"),
        ("babbles", "gpu_ceiling.py: device: Field required"),
    ],
)
def test_what_cannot_be_measured_is_said_and_not_kept(site, monkeypatch, tmp_path, mode, why):
    monkeypatch.setenv("FAKE_TORCH", mode)
    found = GpuCeilings(contract=contract(), hold_card=free, cache=tmp_path / "cache").measure(CARD, "bf16")
    assert (found.copy_gbps, found.flops_gflops) == (None, None)
    assert found.method.startswith("not measured: ")
    assert why in found.method
    assert not (tmp_path / "cache").exists()


def test_what_a_library_prints_around_the_answer_does_no_harm(site, monkeypatch):
    monkeypatch.setenv("FAKE_TORCH", "noisy")
    assert GpuCeilings(contract=contract(), hold_card=free).measure(CARD, "bf16").copy_gbps is not None


def test_without_torch_and_without_python(site, tmp_path):
    bare = contract(pass_environment=())  # PYTHONPATH is withheld: -I as good as
    where = tmp_path / "python3.99"
    assert "python3.99" in GpuCeilings(contract=contract(str(where)), hold_card=free).measure(CARD, "bf16").method
    compiled = {"benchmark_command": ("./bench", "{csv}"), "quick_command": ("./bench", "{csv}", "{shapes}")}
    found = GpuCeilings(contract=contract(**compiled), hold_card=free).measure(CARD, "bf16")
    assert "no command of the contract begins with a Python" in found.method
    assert interpreter_of(bare, tmp_path) == (sys.executable,)


def test_the_kernel_of_a_task_runs_in_our_python(tmp_path):
    assert interpreter_of(make_contract(**judge_commands("task.yaml")), tmp_path) == (sys.executable,)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("python3", "-P", "bench.py", "{csv}"), ("python3",)),
        ((".venv/bin/python", "bench.py", "{csv}"), ("/repo/.venv/bin/python",)),
        (("/opt/torch/bin/python3.11", "bench.py", "{csv}"), ("/opt/torch/bin/python3.11",)),
        (("uv", "run", "python", "bench.py", "{csv}"), ("uv", "run", "python")),
        (("env", "X=1", "python3", "bench.py", "{csv}"), ("env", "X=1", "python3")),
        (("./bench", "--script", "python.py", "{csv}"), None),
        (("a", "b", "c", "d", "python3", "{csv}"), None),
    ],
)
def test_which_interpreter_a_contract_names(command, words):
    quick = ("./quick", "{csv}", "{shapes}")
    named = make_contract(benchmark_command=command, quick_command=quick, test_command=("./test.sh",))
    assert interpreter_of(named, Path("/repo")) == words


def test_kept_for_card_and_torch(site, tmp_path):
    cache, now = tmp_path / "cache", [1e9]
    device = GpuCeilings(contract=contract(), hold_card=free, cache=cache, now=lambda: now[0])
    first = device.measure(CARD, "bf16")
    again = device.measure(CARD, "fp16")
    assert (first.kept, again.kept) == (False, True)
    # one measurement answers for every type
    assert again.flops_gflops == pytest.approx(650e3, rel=1e-3)
    assert again.method.endswith("; kept from an earlier measurement")
    assert "2001-09-09 01:46 UTC" in again.method
    assert not device.measure(CARD, "bf16", fresh=True).kept
    other = CARD.model_copy(update={"fingerprint": "d" * 64})
    assert not device.measure(other, "bf16").kept
    metadata = site / "torch-9.9.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("9.9.0", "9.9.1"))
    assert not device.measure(CARD, "bf16").kept
    now[0] += KEPT_S + 1
    assert not device.measure(CARD, "bf16").kept


@pytest.mark.parametrize("spoiled", ["", "{}", '{"schema_version": 99}'])
def test_a_spoiled_cache_is_measured_again(site, tmp_path, spoiled):
    device = GpuCeilings(contract=contract(), hold_card=free, cache=tmp_path / "cache")
    device.measure(CARD, "bf16")
    (path,) = (tmp_path / "cache").iterdir()
    path.write_text(spoiled)
    assert not device.measure(CARD, "bf16").kept
    assert device.measure(CARD, "bf16").kept


def test_the_lease_is_held_while_it_measures(site):
    device = GpuCeilings(contract=contract(), hold_card=lambda: leased(0.1))
    with lease("nvidia", wait_s=0), pytest.raises(DeviceBusy, match="nvidia: process"):
        device.measure(CARD, "bf16")


def test_torch_is_loaded_while_a_card_is_looked_for_and_measures_on_that_one(site, tmp_path):
    with (site / "torch.py").open("a") as torch:
        torch.write(f"Path({str(tmp_path / 'loaded')!r}).touch()\n")
        torch.write(f"was_available = cuda.is_available\ndef is_available():\n    Path({str(tmp_path / 'card')!r})")
        torch.write(".write_text(os.environ['CUDA_VISIBLE_DEVICES'])\n    return was_available()\n")
        torch.write("cuda.is_available = is_available\n")

    @contextlib.contextmanager
    def looks():
        until = time.monotonic() + 20
        while not (tmp_path / "loaded").exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert (tmp_path / "loaded").exists()
        assert not (tmp_path / "card").exists()
        yield {"CUDA_VISIBLE_DEVICES": "GPU-7"}

    found = GpuCeilings(contract=contract(), hold_card=looks).measure(CARD, "bf16")
    assert found.flops_gflops == pytest.approx(640e3, rel=1e-3)
    assert (tmp_path / "card").read_text() == "GPU-7"


class Gate:
    """Counts how often a card was asked for."""

    def __init__(self):
        self.asked = 0

    @contextlib.contextmanager
    def hold(self):
        self.asked += 1
        yield SimpleNamespace(environment={"CUDA_VISIBLE_DEVICES": "GPU-1"})


def test_the_device_of_a_campaign_measures_on_its_own_card(site, monkeypatch, tmp_path):
    smi = tmp_path / "bin" / "nvidia-smi"  # a stand-in that knows one answer
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 9.0, 550.54.15, 81559'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path / "cache"))
    gate = Gate()
    first = LocalDevice(contract(), gate=gate)
    found = first.ceilings("bf16")
    assert found.flops_gflops == pytest.approx(640e3, rel=1e-3)
    assert first.ceilings("bf16", fresh=True) is found  # it is fresh
    again = LocalDevice(contract(), gate=gate)
    assert again.ceilings("bf16").kept
    assert gate.asked == 1
    assert not again.ceilings("bf16", fresh=True).kept
    assert gate.asked == 2
    assert [path.parent.name for path in (tmp_path / "cache").rglob("*.json")] == ["ceilings"]


@pytest.mark.feature("F089")
def test_a_copy_of_the_very_size_of_a_traffic_is_timed_by_the_contracts_torch(site):
    code, found = script("--copies", "65536,1000001")
    assert code == 0
    assert found["factor"] == "bytes read plus bytes written"
    assert [copy["traffic_bytes"] for copy in found["copy"]] == [65536, 1_000_000], (
        "whole elements, half of it each way"
    )
    assert all(copy["gbps"] > 0 for copy in found["copy"])
    card = GpuCeilings(contract=contract(), hold_card=free)
    rates = card.copy_rates((65536, 1_000_000))
    assert [rate.traffic_bytes for rate in rates] == [65536, 1_000_000]
    assert "no command" in GpuCeilings(contract=contract(python="./run"), hold_card=free).copy_rates((65536,))
