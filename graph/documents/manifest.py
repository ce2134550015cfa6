"""`manifest.yaml`: the campaign's parameters, the eighteen of the documents first and in their order."""

import hashlib

import yaml

from ridgeline.graph.documents import figures
from ridgeline.graph.documents.figures import render_once
from ridgeline.graph.documents.text import command
from ridgeline.graph.record import BaselineClosed, Opened
from ridgeline.graph.standing import History

SCRIPT = "quick_test_bench.py"
GATES = (
    "core_shape_regress_limit",
    "near_noise_limit",
    "valid_mean_improvement",
    "noise_sigma_fraction",
    "min_remeasure",
    "borderline_full_limit",
    "inflation_gap_limit",
    "poll_max_s",
    "poll_stuck_windows",
    "target_peak_fraction",
    "measurement_suspect_delta",
    "stagnation_rollbacks",
    "mask_fraction",
    "alpha",
    "margin",
    "shape_guard",
)
"""Limits that gate a decision."""


def schema_sha256(columns: tuple[str, ...]) -> str:
    """Digest of the CSV header line as the benchmark must write it, without the line's end."""
    return hashlib.sha256(",".join(columns).encode()).hexdigest()


def manifest(history: History, *, worktree: str) -> str:
    """YAML in a fixed order. Only representative shapes, quick command, status and best ever change."""
    found = figures.best(history)
    state: dict[str, object] = {
        "status": _status(history),
        "best_round": found[0] if found else None,
        "best_commit": figures.best_commit(history),
        "worktree": worktree,
    }
    opened, baseline = history.opened, history.baseline
    owner = baseline or opened
    return (
        render_once(owner, _required, opened, baseline)
        + _dump(state)
        + render_once(owner, _additions, opened, baseline)
    )


def _dump(fields: dict[str, object]) -> str:
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=1000)


def _required(opened: Opened, baseline: BaselineClosed | None) -> str:
    target, contract = opened.target, opened.contract
    fields: dict[str, object] = {
        "target_op": target.target_op,
        "target_backend": target.target_backend,
        "target_lang": target.target_lang,
        "target_gpu": target.target_gpu,
        "execution_mode": target.execution_mode,
        "project_skill": target.project_skill,
        "performance_target": target.performance_target.text if target.performance_target else None,
        "primary_metric": target.primary_metric,
        "target_shapes": list(target.target_shapes) or "all",
        "kernel_source": list(contract.kernel_source) if len(contract.kernel_source) > 1 else contract.kernel_source[0],
        "test_command": command(contract.test_command),
        "benchmark_command": command(contract.benchmark_command),
        "quick_command": f"python <campaign_dir>/{SCRIPT}",
        "representative_shapes": list(baseline.representative) if baseline else [],
        "git_commit": target.git_commit,
        "git_branch": target.git_branch,
        "max_iterations": target.max_iterations,
        "created": target.created,
    }
    return _dump(fields)


def _additions(opened: Opened, baseline: BaselineClosed | None) -> str:
    contract = opened.contract
    columns, limits = contract.benchmark_output.columns, opened.limits.model_dump()
    cores = contract.core_shapes or (baseline.representative if baseline else ())
    fields: dict[str, object] = {
        "base_commit": opened.base_commit,
        "core_shapes": list(cores),
        "csv_schema": list(columns),
        "csv_schema_sha256": schema_sha256(columns),
        "config_columns": list(contract.benchmark_output.config_columns),
        "project_quick_command": command(contract.quick_command),
        "rebuild_command": command(contract.rebuild.command) if contract.rebuild.command else None,
        "platform": opened.target.platform,
        "arch": opened.machine.arch,
        "dtype": opened.target.dtype,
        "engine": contract.scoring.engine,
        "repository": opened.repository,
        "campaign": opened.target.campaign,
        "preset": opened.limits.preset,
        "planner": opened.planner,
        "confirmation": opened.confirmation,
        "gates": {name: limits[name] for name in GATES},
        "measurement_env": {"machine": opened.machine.name, "fingerprint": opened.machine.fingerprint},
        "ridgeline": opened.version,
    }
    return _dump(fields)


def _status(history: History) -> str:
    if history.concluded is not None:
        return f"concluded: {history.concluded.stop_reason}"
    return "running" if history.baseline else "preparing"
