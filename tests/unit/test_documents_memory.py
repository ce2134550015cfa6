"""`memory/v<N>.json` against a schema written out here, for every version of a whole campaign."""

import json
import re

import pytest

from ridgeline.graph.evidence import Profiled
from ridgeline.graph.record import Restarted
from ridgeline.graph.reports.files import render_all, render_changed
from ridgeline.graph.values import LookUp
from tests.builders import make_applied, make_built, make_failed, make_history, make_judged, make_profiled, make_round
from tests.document_builders import complete, growing, make_measured, make_wrong

NUMBER = {"type": ["number", "null"]}
TEXT = {"type": ["string"]}
SCHEMA = {
    "type": ["object"],
    "properties": {
        "version": {"type": ["string"], "pattern": r"^v\d+$"},
        "masked": {"type": ["boolean"]},
        "timestamp": {"type": ["string"], "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"},
        "performance": {
            "type": ["object"],
            "properties": {
                "latency_us": NUMBER,
                "tflops": NUMBER,
                "bandwidth_gbps": NUMBER,
                "tflops_peak_utilization_pct": NUMBER,
                "bandwidth_peak_utilization_pct": NUMBER,
                "latency_us_by_shape": {"type": ["object"]},
                "comparison_with_previous": {
                    "type": ["object"],
                    "properties": {"latency_delta": NUMBER, "tflops_delta": NUMBER, "bandwidth_delta": NUMBER},
                },
            },
        },
        "optimization": {
            "type": ["object"],
            "properties": {
                "action_category": TEXT,
                "action_description": TEXT,
                "expected_impact": TEXT,
                "risks_and_rollback": TEXT,
                "performance_validated": {"type": ["string"], "enum": ["YES", "NO", "INEFFECTIVE"]},
                "improvement_summary": TEXT,
            },
        },
        "profile_evidence": {
            "type": ["object"],
            "properties": {
                "tool_used": TEXT,
                "evidence_summary": TEXT,
                "bottleneck_type": {"type": ["string"], "pattern": r"^(\w+_bound|unknown)$"},
                "evidence_chain": {"type": ["array"], "items": TEXT},
            },
        },
        "correctness": {
            "type": ["object"],
            "properties": {
                "rel_err": NUMBER,
                "status": {"type": ["string"], "enum": ["PASS", "FAIL", "TIMEOUT_FAIL"]},
            },
        },
        "isa_metric_progress": {
            "type": ["array"],
            "items": {
                "type": ["object"],
                "properties": {"metric": TEXT, "target": TEXT, "current": NUMBER, "met": {"type": ["boolean"]}},
            },
        },
        "search_log": {
            "type": ["array"],
            "items": {
                "type": ["object"],
                "properties": {
                    "source": {"type": ["string"], "enum": ["gpu-wiki", "ref-project", "public-web"]},
                    "query": TEXT,
                    "finding": TEXT,
                    "actionability": TEXT,
                },
            },
        },
        "pitfalls_and_fixes": {
            "type": ["array"],
            "items": {
                "type": ["object"],
                "properties": {
                    "error_type": {
                        "type": ["string"],
                        "enum": ["compilation", "runtime", "accuracy", "performance", "timeout", "partial_restart"],
                    },
                    "error_message": TEXT,
                    "root_cause": TEXT,
                    "fix_applied": TEXT,
                    "lesson": TEXT,
                },
            },
        },
        "references": {
            "type": ["array"],
            "items": {
                "type": ["object"],
                "properties": {
                    "source_type": {
                        "type": ["string"],
                        "enum": ["gpu-wiki", "ref-project", "public-web", "user-input"],
                    },
                    "path_or_url": TEXT,
                    "description": TEXT,
                },
            },
        },
        "quality_gate": {
            "type": ["object"],
            "properties": {
                "result": {"type": ["string"], "enum": ["PASS", "FAIL", "TIMEOUT_FAIL"]},
                "failure_reason": TEXT,
            },
        },
        "git_commit_hash": {"type": ["string"]},
        "open_directions": {"type": ["array"]},
        "experience": {"type": ["object"]},
        "round": {"type": ["integer"]},
        "decision": {"type": ["string"], "enum": ["BASELINE", "ACCEPTED", "ROLLED BACK"]},
        "bucket": {"type": ["string", "null"]},
        "config_class": TEXT,
        "gpu_time_us": {"type": ["object"], "properties": {"best": NUMBER, "cand": NUMBER}},
        "transfer_check": {"type": ["object"]},
        "counters": {"type": ["object"]},
    },
}
"""JSON Schema (the words used here: type, properties, items, enum, pattern); every property is required."""

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def problems(value: object, schema: dict, path: str = "$") -> list[str]:
    """What is wrong with a value, a line each."""
    allowed = schema["type"]
    if isinstance(value, bool) and "boolean" not in allowed or not isinstance(value, tuple(_types(allowed))):
        return [f"{path}: {value!r} is not {allowed}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is not one of {schema['enum']}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{path}: {value!r} does not match {schema['pattern']}")
    for name, inner in schema.get("properties", {}).items():
        found += problems(value[name], inner, f"{path}.{name}") if name in value else [f"{path}.{name} is missing"]
    for index, item in enumerate(value if "items" in schema else ()):
        found += problems(item, schema["items"], f"{path}[{index}]")
    return found


def _types(names: list[str]) -> list[type]:
    flat = []
    for name in names:
        kind = TYPES[name]
        flat += list(kind) if isinstance(kind, tuple) else [kind]
    return flat


def memory(history, version: int) -> dict:
    return json.loads(render_all(history, worktree="tree")[f"memory/v{version}.json"])


@pytest.mark.feature("F082")
def test_every_version_of_a_campaign_obeys_the_schema() -> None:
    history = complete()
    for version in range(7):
        found = memory(history, version)
        assert problems(found, SCHEMA) == []
        assert found["version"] == f"v{version}"
        assert found["round"] == version + 1


def test_the_validator_of_this_file_finds_faults() -> None:
    good = memory(complete(), 1)
    assert problems({**good, "git_commit_hash": 1234567}, SCHEMA)
    assert problems({**good, "version": "v1 "}, SCHEMA)
    assert problems({**good, "correctness": {"rel_err": None, "status": "OK"}}, SCHEMA)
    assert problems({key: value for key, value in good.items() if key != "masked"}, SCHEMA)
    assert problems({**good, "masked": 0}, SCHEMA)


@pytest.mark.feature("F082")
def test_masked_is_false_until_a_restart_masks_and_is_recorded_in_the_latest_unmasked_version() -> None:
    seen = []
    for history in growing():
        for version in range(len(history.rounds)):
            masked = memory(history, version + 1)["masked"]
            assert masked == (bool(history.restarts) and version + 1 in (2, 5))
            seen.append(masked)
    assert True in seen
    notes = [p for p in memory(complete(), 4)["pitfalls_and_fixes"] if p["error_type"] == "partial_restart"]
    assert [note["fix_applied"] for note in notes] == ["masked [2, 5]"]


def test_a_second_restart_moves_the_note_and_rewrites_every_memory_it_touches() -> None:
    history = list(growing())[-1].model_copy(update={"concluded": None})
    folder = dict(render_all(history, worktree="tree"))
    again = history.model_copy(
        update={"restarts": (*history.restarts, Restarted(after_round=7, masked=(4, 6), note="second"))}
    )
    folder |= render_changed(again, worktree="tree")
    assert folder == render_all(again, worktree="tree")
    assert memory(again, 4)["masked"]
    assert len([p for p in memory(again, 3)["pitfalls_and_fixes"] if p["error_type"] == "partial_restart"]) == 2


def test_numbers_are_the_measured_ones() -> None:
    found = memory(complete(), 4)["performance"]
    assert found["latency_us"] == pytest.approx(305.0403, abs=1e-3)
    assert found["tflops"] == pytest.approx(0.110)
    assert found["bandwidth_gbps"] is None
    assert found["tflops_peak_utilization_pct"] == pytest.approx(110.0)
    assert found["comparison_with_previous"]["tflops_delta"] == pytest.approx(10.0)
    assert set(found["latency_us_by_shape"]) == {"small", "medium", "large"}


@pytest.mark.feature("F086")
@pytest.mark.parametrize(
    ("reason", "error", "gate"),
    [
        ("build_failed", "compilation", "FAIL"),
        ("build_timeout", "timeout", "TIMEOUT_FAIL"),
        ("test_timeout", "timeout", "TIMEOUT_FAIL"),
        ("test_crashed", "runtime", "FAIL"),
        ("benchmark_failed", "runtime", "FAIL"),
        ("incorrect", "accuracy", "FAIL"),
        ("overfit", "performance", "FAIL"),
    ],
)
def test_failures_become_pitfalls(reason: str, error: str, gate: str) -> None:
    trial = make_failed(reason, reached=make_built(make_applied()))
    judged = make_judged("rolled_back", reason, gain=None, trial=trial)
    found = memory(make_history(make_round(2, judged=judged)), 1)
    assert problems(found, SCHEMA) == []
    assert [pitfall["error_type"] for pitfall in found["pitfalls_and_fixes"]] == [error]
    assert found["quality_gate"]["result"] == gate
    assert found["optimization"]["performance_validated"] == "NO"
    assert found["git_commit_hash"] == "c" * 40


def test_repairs_are_pitfalls_with_their_fix() -> None:
    found = memory(make_history(make_wrong(2)), 1)["pitfalls_and_fixes"]
    assert found[0]["error_message"] == "MISMATCH label=small"
    assert found[0]["fix_applied"] == "handle the tail"
    assert found[1]["fix_applied"] == "rolled back"


def test_numbers_that_json_cannot_hold_are_absent() -> None:
    profile: Profiled = make_profiled({"instructions": float("inf"), "d1_misses": 3.0})
    baseline = make_history().baseline.model_copy(update={"profile": profile})
    found = memory(make_history(baseline=baseline), 0)
    assert found["counters"] == {"instructions": None, "d1_misses": 3.0}


@pytest.mark.feature("F069")
def test_unknown_specifications_are_recorded_and_the_ineffective_are_named() -> None:
    messages = [pitfall["error_message"] for pitfall in memory(complete(), 0)["pitfalls_and_fixes"]]
    assert messages == ["L3 cache capacity: UNKNOWN (gpu-wiki not found)"]
    found = memory(make_history(make_measured(2, 0.9, kept=False)), 1)
    assert found["optimization"]["performance_validated"] == "INEFFECTIVE"
    assert found["decision"] == "ROLLED BACK"


@pytest.mark.feature("F082", "F076")
def test_errors_and_look_ups_are_those_that_happened():
    """No number and no search that nobody made: what a test and a planner told, and null or nothing where they did not."""
    looked_up = LookUp(source="gpu-wiki", query="tiles", finding="ops/gemm.md:12", actionability="the plan rests on it")
    closed = make_round(2)
    told = _with_told(closed, rel_err=0.0025, searches=(looked_up,))
    history = make_history(told, make_round(3))
    files = render_all(history, worktree="trees/a")
    memory = json.loads(files["memory/v1.json"])
    assert memory["correctness"] == {"rel_err": 0.0025, "status": "PASS"}
    assert memory["search_log"] == [looked_up.model_dump()]
    assert problems(memory, SCHEMA) == []
    assert "| gpu-wiki | tiles | ops/gemm.md:12 | the plan rests on it |" in files["plans/v1_plan.md"]
    later = json.loads(files["memory/v2.json"])
    assert (later["correctness"]["rel_err"], later["search_log"]) == (None, [])


def _with_told(closed, *, rel_err, searches):
    """The same round, whose test and planner said more."""
    text = json.loads(closed.model_dump_json())

    def fill(value):
        if isinstance(value, list):
            return [fill(item) for item in value]
        if not isinstance(value, dict):
            return value
        filled = {name: fill(item) for name, item in value.items()}
        if value.get("stage") == "proposed":
            filled["searches"] = [search.model_dump() for search in searches]
        if value.get("stage") == "verified":
            filled["test"]["rel_err"] = rel_err
        return filled

    return type(closed).model_validate(fill(text))
