"""Memory files `v<N>.json`: names, reading, typed assignment, atomic writing (rules 16)."""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ridgeline.agent.errors import UserError

VERSION = re.compile(r"v(0|[1-9]\d*)")
COLUMNS = ("Version", "Masked", "TFLOPS", "BW", "TFLOPS%", "BW%", "Status corr/gate", "Action")
TEXT_FIELDS = frozenset({"git_commit_hash", "version", "timestamp"})
"""Always text, also when they look like a number."""


def empty(version: str) -> dict[str, Any]:
    """A record with every section and nothing known yet."""
    measured = ("latency_us", "tflops", "bandwidth_gbps", "tflops_peak_utilization_pct")
    performance: dict[str, Any] = dict.fromkeys((*measured, "bandwidth_peak_utilization_pct"))
    performance["comparison_with_previous"] = dict.fromkeys(("latency_delta", "tflops_delta", "bandwidth_delta"))
    return {
        "version": version,
        "masked": False,
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "performance": performance,
        "optimization": dict.fromkeys(
            ("action_category", "action_description", "expected_impact", "risks_and_rollback"), ""
        ),
        "profile_evidence": dict.fromkeys(("tool_used", "evidence_summary", "bottleneck_type", "evidence_chain"), ""),
        "correctness": {"rel_err": None, "status": ""},
        "isa_metric_progress": [],
        "search_log": [],
        "pitfalls_and_fixes": [],
        "references": [],
        "quality_gate": {"result": "", "failure_reason": ""},
        "git_commit_hash": "",
    }


def versions(folder: Path) -> tuple[str, ...]:
    """Names of all versions, by number."""
    names = (file.stem for file in folder.glob("v*.json") if VERSION.fullmatch(file.stem))
    return tuple(sorted(names, key=lambda name: int(name[1:])))


def load(folder: Path, version: str) -> dict[str, Any]:
    """One record. Raises `UserError` for a bad name, a missing or a damaged file."""
    file = _file(folder, version)
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(versions(folder)) or "none"
        raise UserError(f"{version}: no such version in {folder}; there are: {known}") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{file.name}:{error.lineno}:{error.colno}: is not JSON: {error.msg}; mend the file") from None
    if not isinstance(record, dict):
        raise UserError(f"{file.name}: is not a JSON object; mend the file or create it again with --force")
    return record


def unmasked(folder: Path) -> dict[str, dict[str, Any]]:
    """Records that may influence planning, by version."""
    records = {name: load(folder, name) for name in versions(folder)}
    return {name: record for name, record in records.items() if not record.get("masked")}


def create(folder: Path, version: str, *, force: bool) -> Path:
    """Write an empty record. Raises `UserError` when there is one and `force` is not given."""
    if _file(folder, version).exists() and not force:
        raise UserError(f"{version}: exists already in {folder}; use update, or --force to replace it")
    return store(folder, version, empty(version))


def store(folder: Path, version: str, record: dict[str, Any]) -> Path:
    """Write atomically: the file is the old one or the new one, never a part."""
    file = _file(folder, version)
    draft = file.with_suffix(".json.tmp")
    with draft.open("w", encoding="utf-8") as stream:
        stream.write(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
    return file


def assign(record: dict[str, Any], key: str, text: str) -> None:
    """Set a dotted key, in place. Raises `UserError` when the path runs through something that is no section."""
    *sections, name = key.split(".")
    part: Any = record
    for section in sections:
        part = part.setdefault(section, {}) if isinstance(part, dict) else None
        if not isinstance(part, dict):
            raise UserError(f"--set: {key}: {section!r} is not a section; choose a field of a section")
    part[name] = typed(text, name=name, present=part.get(name))


def typed(text: str, *, name: str, present: object) -> Any:
    """Text as the value it should be: text where text stands already, otherwise JSON when it is JSON."""
    if name in TEXT_FIELDS or (isinstance(present, str) and not text.startswith(("[", "{"))):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def row(version: str, record: dict[str, Any]) -> tuple[str, ...]:
    """The cells of `summary`; `-` where nothing is known."""
    performance = record.get("performance") or {}
    correctness = (record.get("correctness") or {}).get("status") or "-"
    gate = (record.get("quality_gate") or {}).get("result") or "-"
    action = (record.get("optimization") or {}).get("action_description") or "-"
    numbers = ("tflops", "bandwidth_gbps", "tflops_peak_utilization_pct", "bandwidth_peak_utilization_pct")
    return (
        version,
        "yes" if record.get("masked") else "no",
        *(_number(performance.get(name)) for name in numbers),
        f"{correctness}/{gate}",
        " ".join(str(action).split())[:60],
    )


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "-"


def _file(folder: Path, version: str) -> Path:
    if not VERSION.fullmatch(version):
        raise UserError(f"--version: {version!r} is not v<N>; write for example v3")
    return folder / f"{version}.json"
