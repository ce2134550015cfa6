"""This machine, described and measured."""

import os
import shutil
import sys
import time

import pytest

from ridgeline.graph.errors import DeviceLost
from ridgeline.graph.evidence import Machine
from ridgeline.sandbox.devices import amd, nvidia
from ridgeline.sandbox.devices.machine import Cpu, LocalDevice, features, read_cpu, size
from ridgeline.sandbox.devices.values import device_kind
from tests.builders import make_contract
from tests.standins_smi import h100, stand_in


def test_the_processor_and_its_stable_fingerprint():
    first, second = LocalDevice(make_contract()).machine(), LocalDevice(make_contract()).machine()
    assert first == second
    assert (first.kind, len(first.fingerprint)) == ("cpu", 64)
    assert first.cores >= 1
    assert first.name


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_ceilings_are_measured_quickly_and_plausible():
    device = LocalDevice(make_contract())
    device.machine()
    began = time.monotonic()
    single, double = device.ceilings("fp32"), device.ceilings("fp64")
    assert time.monotonic() - began < 10
    assert single is not None
    assert double is not None
    assert 0.5 < single.copy_gbps < 2000
    assert 1 < double.flops_gflops < single.flops_gflops < 2000
    assert single.machine == device.machine().fingerprint
    assert "bytes read plus bytes written" in single.method
    assert device.ceilings("fp32") is single


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_type_without_an_operation_peak_is_said():
    found = LocalDevice(make_contract()).ceilings("int8")
    assert found is not None
    assert found.flops_gflops is None
    assert "int8" in found.method


def test_without_a_compiler_nothing_is_guessed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = LocalDevice(make_contract()).ceilings("fp32")
    assert found is not None
    assert (found.copy_gbps, found.flops_gflops) == (None, None)
    assert "gcc" in found.method


@pytest.mark.parametrize("gpu", ["gfx942", "H100"])
def test_a_missing_gpu_is_a_broken_world(monkeypatch, tmp_path, gpu):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceLost, match="ridgeline doctor") as caught:
        LocalDevice(make_contract(target_gpu=gpu)).machine()
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    ("backend", "gpu", "kind"),
    [
        ("C", None, "cpu"),
        ("C", "cpu", "cpu"),
        ("TRITON", "CPU", "cpu"),
        ("TRITON", "MI300X", "amd"),
        ("TRITON", "gfx950", "amd"),
        ("TRITON", "H100", "nvidia"),
        ("TRITON", "sm_90", "nvidia"),
        ("HIP", None, "amd"),
        ("CUDA", None, "nvidia"),
    ],
)
def test_which_device_a_contract_means(backend, gpu, kind):
    assert device_kind(make_contract(target_backend=backend, target_gpu=gpu)) == kind


def test_nvidia_smi():
    machine = nvidia.parse_machine(
        "NVIDIA H100 80GB HBM3, 9.0, 550.54.15, 81559\nNVIDIA H100 80GB HBM3, 9.0, 550.54.15, 81559\n"
    )
    assert isinstance(machine, Machine)
    assert (machine.kind, machine.name, machine.arch) == ("nvidia", "NVIDIA H100 80GB HBM3", "sm_90")
    assert nvidia.parse_machine("No devices were found\n") is None


def test_rocm_smi():
    text = 'WARNING: low power\n{"card0": {"Card Series": "Radeon RX 7900 XT", "GFX Version": "gfx1100"}, "system": {}}'
    machine = amd.parse_machine(text)
    assert isinstance(machine, Machine)
    assert (machine.kind, machine.name, machine.arch) == ("amd", "Radeon RX 7900 XT", "gfx1100")
    old = amd.parse_machine('{"card0": {"Card series": "AMD INSTINCT MI250 (MCM) OAM AC MBA"}}')
    assert old is not None
    assert old.arch == ""
    assert amd.parse_machine("no JSON") is None
    assert amd.parse_machine('{"system": {}}') is None
    assert amd.parse_machine('{"card0": ') is None


def test_instruction_sets_on_x86_and_arm():
    assert features("flags\t\t: fpu avx2 fma sse4_2 hypervisor bmi2\n") == ("avx2", "bmi2", "fma", "sse4_2")
    assert features("Features\t: fp asimd sve\n") == ("asimd", "sve")
    assert features("") == ()


def test_a_machine_that_says_nothing(tmp_path):
    cpu = read_cpu(tmp_path / "cpuinfo", tmp_path / "cache")
    assert isinstance(cpu, Cpu)
    assert (cpu.features, cpu.l3_bytes) == ((), None)


def test_cache_sizes():
    assert (size("32K"), size("1M\n"), size("512")) == (32768, 1048576, 512)
    with pytest.raises(ValueError, match="cache size"):
        size("lots")


@pytest.mark.parametrize("versions", [{"torch": "2.11.0", "triton": "3.6.0"}, {"torch": "2.11.0"}, {}])
def test_a_card_is_told_with_the_versions_that_its_kernel_runs_with(monkeypatch, tmp_path, versions):
    stand_in(tmp_path / "smi", "nvidia-smi", [h100()])
    monkeypatch.setenv("PATH", str(tmp_path / "smi"), prepend=os.pathsep)
    for name, version in versions.items():
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"} exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    contract = make_contract(
        target_gpu="H100", target_backend="TRITON", benchmark_command=(str(python), "bench.py", "{csv}")
    )
    machine = LocalDevice(contract).machine()
    assert machine.compiler == ", ".join([*(f"{name} {v}" for name, v in versions.items()), "driver 550.54.15"])
    assert (
        machine.fingerprint
        == LocalDevice(make_contract(target_gpu="H100", target_backend="CUDA")).machine().fingerprint
    )
