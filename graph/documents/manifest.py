"""`manifest.yaml`: the campaign's parameters, the eighteen of the documents first and in their order."""

import hashlib

import yaml

from graph.documents import figures
from graph.documents.text import command
from graph.standing import History

SCRIPT = "quick_test_bench.py"
GATES = (
    "core_shape_regress_limit",
    "near_noise_limit",
    "valid_mean_improvement",
    "noise_sigma_fraction",
    "min_remeasure",
    "borderline_full_limit",
    "chain_tolerance",
    "inflation_gap_limit",
    "hit_rate_min",
    "poll_max_s",
    "poll_stuck_windows",
    "target_peak_fraction",
    "measurement_suspect_delta",
    "stagnation_rollbacks",
    "stagnation_new_directions",
    "mask_fraction",
    "alpha",
    "margin",
    "shape_guard",
)
"""Limits that gate a decision (rules 3.4 and ours)."""


def schema_sha256(columns: tuple[str, ...]) -> str:
    """Digest of the CSV header line as the benchmark must write it, without the line's end."""
    return hashlib.sha256(",".join(columns).encode()).hexdigest()


def manifest(history: History, *, worktree: str) -> str:
    """YAML in a fixed order. Only representative shapes, quick command, status and best ever change (rules 4.5)."""
    fields = _required(history) | _additions(history, worktree)
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=1000)


def _required(history: History) -> dict[str, object]:
    target, contract = history.opened.target, history.contract
    return {
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
        "representative_shapes": list(history.baseline.representative) if history.baseline else [],
        "git_commit": target.git_commit,
        "git_branch": target.git_branch,
        "max_iterations": target.max_iterations,
        "created": target.created,
    }


def _additions(history: History, worktree: str) -> dict[str, object]:
    opened, contract = history.opened, history.contract
    columns, limits = contract.benchmark_output.columns, history.limits.model_dump()
    found = figures.best(history)
    cores = contract.core_shapes or (history.baseline.representative if history.baseline else ())
    return {
        "status": _status(history),
        "best_round": found[0] if found else None,
        "best_commit": figures.best_commit(history),
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
        "worktree": worktree,
        "repository": opened.repository,
        "campaign": opened.target.campaign,
        "preset": history.limits.preset,
        "planner": opened.planner,
        "confirmation": opened.confirmation,
        "gates": {name: limits[name] for name in GATES},
        "measurement_env": {"machine": opened.machine.name, "fingerprint": opened.machine.fingerprint},
        "ridgeline": opened.version,
    }


def _status(history: History) -> str:
    if history.concluded is not None:
        return f"concluded: {history.concluded.stop_reason}"
    return "running" if history.baseline else "preparing"
