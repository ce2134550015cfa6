"""Small, valid contracts, limits and targets for tests. Used through `tests.builders`."""

from ridgeline.graph.contract import Contract
from ridgeline.graph.limits import PRESETS, Limits, Preset
from ridgeline.graph.record import Opened
from ridgeline.graph.target import Target
from tests.builders_evidence import BASE, COLUMNS, METRIC, make_machine


def make_contract(**fields) -> Contract:
    default = {
        "target_op": "matmul_fp32",
        "target_backend": "C",
        "target_gpu": "cpu",
        "kernel_source": ("kernel.c",),
        "test_command": ("python", "test.py"),
        "benchmark_command": ("python", "bench.py", "{csv}"),
        "quick_command": ("python", "bench.py", "{csv}", "{shapes}"),
        "benchmark_output": {"columns": COLUMNS},
        "scoring": {"primary_metric": METRIC, "time_ms": "Time (ms)"},
        "execution_mode": "repo",
        "rebuild": {"required": False},
        "work": {"flops": "2*M*N*K", "bytes": "4*(M*K+N*K+M*N)"},
    }
    return Contract(**{**default, **fields})


def make_limits(preset: Preset = "evidence", **fields) -> Limits:
    return Limits(**{**PRESETS[preset].model_dump(), **fields})


def make_target(**fields) -> Target:
    default = {
        "target_op": "matmul_fp32",
        "target_backend": "C",
        "target_lang": "C",
        "target_gpu": "x86_64",
        "platform": "Test CPU",
        "dtype": "fp32",
        "target_shapes": (),
        "performance_target": None,
        "primary_metric": METRIC,
        "project_skill": "ridgeline.yaml",
        "execution_mode": "repo",
        "git_commit": True,
        "git_branch": "optimize/matmul_fp32_c_x86_64_20261121",
        "max_iterations": None,
        "campaign": "matmul_fp32_c_x86_64_20261121",
        "created": "2026-11-21 10:00",
    }
    return Target(**{**default, **fields})


def make_opened(*, limits: Limits | None = None, contract: Contract | None = None, **fields) -> Opened:
    target = fields.pop("target", None) or make_target()
    default = {
        "target": target,
        "contract": contract or make_contract(),
        "limits": limits or make_limits(),
        "planner": "catalog",
        "machine": make_machine(),
        "base_commit": BASE,
        "base_tree": "t" * 40,
        "branch": target.git_branch,
        "contract_path": "ridgeline.yaml",
        "repository": "kernels",
        "confirmation": "auto-confirmed",
        "tips": None,
        "version": "0.1.0",
    }
    return Opened(**{**default, **fields})
