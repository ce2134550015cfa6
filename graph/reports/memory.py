"""`memory/v<N>.json`: what later planning may read of a version; round N is v<N-1>, v0 is the baseline."""

import json
import math
from collections.abc import Iterable

from ridgeline.graph.evidence import Benchmark, Profiled
from ridgeline.graph.record import BaselineClosed, Restarted, RoundClosed
from ridgeline.graph.reports import figures
from ridgeline.graph.reports.text import clip
from ridgeline.graph.reports.transfer import transfer_check
from ridgeline.graph.rules.history import best_profile, masked_versions
from ridgeline.graph.rules.isa_targets import measure_progress
from ridgeline.graph.rules.lessons import check_round
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Drafted, Proposed, find, find_proposal
from ridgeline.graph.values import Bottleneck, Hypothesis, LookUp

# What went wrong in a version, in the form of the memory's `pitfalls_and_fixes`.

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Entry = dict[str, Json]
WORDS = 2000
"""Characters of any one text of somebody else's."""

_ERROR_TYPES = {
    "build_failed": "compilation",
    "build_timeout": "timeout",
    "test_timeout": "timeout",
    "test_crashed": "runtime",
    "benchmark_failed": "runtime",
    "tampered": "runtime",
    "convicted": "runtime",
    "unsettled": "runtime",
    "refused_edit": "runtime",
    "incorrect": "accuracy",
    "check_failed": "accuracy",
    "local_gate": "performance",
}


def pitfall(kind: str, message: str, cause: str, *, fix: str = "", lesson: str = "") -> Entry:
    """One pitfall of a memory file; texts are cut at `WORDS` characters."""
    return {
        "error_type": kind,
        "error_message": clip(message, WORDS),
        "root_cause": clip(cause, WORDS),
        "fix_applied": clip(fix, WORDS),
        "lesson": clip(lesson, WORDS),
    }


def pitfalls(closed: RoundClosed) -> list[Json]:
    """Pitfalls of a memory file: every repair of a round, and why the round was not kept."""
    drafted, reflection = find(closed.judged, Drafted), closed.reflection
    entries: list[Json] = [
        pitfall("accuracy", item.evidence, "", fix=item.explanation) for item in (drafted.repairs if drafted else ())
    ]
    if not closed.accepted and not closed.replaced:
        verdict, failed = closed.judged.verdict, figures.failure(closed)
        message = failed.detail if failed else verdict.sentence
        kind = _ERROR_TYPES.get(verdict.reason, "performance")
        entries.append(pitfall(kind, message, reflection.root_cause, fix="rolled back", lesson=reflection.lesson or ""))
    return entries


def restart_notes(history: History, version: int) -> list[Json]:
    """A memory file's notes of restarts: what they masked is recorded in the latest version that each left unmasked."""
    return [
        pitfall("partial_restart", restart.note, "no new direction", fix=f"masked {list(restart.masked)}")
        for restart in history.restarts
        if latest_unmasked(history, restart) == version
    ]


def latest_unmasked(history: History, restart: Restarted) -> int:
    """Highest version with a memory file that existed at a restart and that no restart has masked."""
    hidden = masked_versions(history)
    return next((v for v in range(restart.after_round - 1, 0, -1) if v not in hidden), 0)


def baseline_memory(history: History, baseline: BaselineClosed) -> str:
    """The memory file of the original, v0."""
    empty: Entry = {"action_category": "", "action_description": "no code change", "expected_impact": ""}
    if first_kernel := history.opened.first_kernel:
        empty = {
            "action_category": first_kernel.hypothesis.category,
            "action_description": clip(first_kernel.hypothesis.change, WORDS),
            "expected_impact": "",
        }
    roof = history.roofline
    unknown: list[Json] = [
        pitfall("runtime", spec.text, "no source for this number", lesson="the target that needs it is off")
        for spec in (roof.specs if roof else ())
        if spec.value is None
    ]
    memory: Entry = {
        "version": "v0",
        "masked": 0 in masked_versions(history),
        "timestamp": baseline.opened_at,
        "performance": _performance(history, baseline.quick, None),
        "optimization": {**empty, "risks_and_rollback": "", "performance_validated": "YES", "improvement_summary": ""},
        "profile_evidence": _profile(baseline.profile, baseline.bottleneck, "", ()),
        "correctness": {"rel_err": baseline.test.rel_err, "status": "PASS" if baseline.test.passed else "FAIL"},
        "isa_metric_progress": _goals(history, baseline.profile, baseline.bottleneck),
        "search_log": [],
        "pitfalls_and_fixes": unknown + restart_notes(history, 0),
        "references": [
            {"source_type": "user-input", "path_or_url": history.opened.contract_path, "description": "contract"}
        ],
        "quality_gate": {"result": "PASS" if baseline.test.passed else "FAIL", "failure_reason": ""},
        "git_commit_hash": history.opened.base_commit,
        "open_directions": [],
        "experience": {"experiment_count": 0, "recorded_experiment_count": 0, "experiments": []},
        "round": 1,
        "decision": "BASELINE",
        "bucket": None,
        "config_class": "global",
        "gpu_time_us": {"best": None, "cand": _counter(baseline.profile, "kernel_time_us")},
        "transfer_check": {},
        "counters": _counters(baseline.profile),
    }
    return dump(memory)


def round_memory(history: History, closed: RoundClosed) -> str:
    """Memory file v<N-1> of round N: what is said in advance, what the round added, and ours."""
    hypothesis, verdict = figures.hypothesis(closed), closed.judged.verdict
    chosen = figures.applied_of(closed.judged)
    commit = closed.commit or (chosen.commit if chosen else "")
    memory: Entry = {
        "version": f"v{closed.round - 1}",
        "masked": closed.round - 1 in masked_versions(history),
        "timestamp": closed.closed_at,
        "performance": _performance(history, figures.candidate(closed), verdict.gain),
        "optimization": _optimization(hypothesis, closed),
        "profile_evidence": _profile(
            figures.profile(closed), closed.bottleneck, closed.bottleneck_evidence, hypothesis.evidence
        ),
        "correctness": {"rel_err": test.rel_err if (test := figures.test(closed)) else None, "status": _status(closed)},
        "isa_metric_progress": _progress(closed, history) + _goals(history, figures.profile(closed), closed.bottleneck),
        "search_log": [_search_entry(search) for search in find_proposal(closed.judged).searches],
        "pitfalls_and_fixes": pitfalls(closed) + restart_notes(history, closed.round - 1),
        "references": [_reference(source, hypothesis) for source in hypothesis.sources],
        "quality_gate": _gate(closed),
        "git_commit_hash": commit,
        "open_directions": _open(closed),
        "experience": _experience(closed, hypothesis),
        "round": closed.round,
        "decision": "ACCEPTED" if closed.accepted else "ROLLED BACK",
        "bucket": hypothesis.bucket,
        "config_class": clip(hypothesis.target_class, WORDS),
        "gpu_time_us": _gpu_time(history, closed),
        "roles": {
            role.name: {"id": clip(role.id, WORDS), "did": clip(role.did, WORDS)}
            for role in figures.list_roles(history.opened, closed)
        },
        "transfer_check": dict(transfer_check(closed, history.contract).fields()),
        "counters": _counters(figures.profile(closed)),
        "gain": {"estimate": verdict.gain, "lower": verdict.lower, "upper": verdict.upper},
    }
    return dump(memory)


def open_memory(
    history: History, start: Proposed, *, profile: Profiled | None, bottleneck: Bottleneck, evidence: str
) -> str:
    """Memory file v<N-1> of round N before its first edit: what is tried and why; the round's end writes it anew with what came of it.

    `profile`: of the best version, which is all that is known. What is not known yet is null or an empty text.
    """
    hypothesis = start.hypothesis
    plan = {
        "action_category": hypothesis.category,
        "action_description": clip(hypothesis.change, WORDS),
        "expected_impact": _describe_impact(hypothesis),
        "risks_and_rollback": clip(hypothesis.risks, WORDS),
    }
    memory: Entry = {
        "version": f"v{start.round - 1}",
        "masked": False,
        "timestamp": start.written_at or start.opened_at,
        "performance": _performance(history, None, None),
        "optimization": {**plan, "performance_validated": "", "improvement_summary": ""},
        "profile_evidence": _profile(profile, bottleneck, evidence, hypothesis.evidence),
        "correctness": {"rel_err": None, "status": ""},
        "isa_metric_progress": [],
        "search_log": [_search_entry(search) for search in start.searches],
        "pitfalls_and_fixes": [],
        "references": [_reference(source, hypothesis) for source in hypothesis.sources],
        "quality_gate": {"result": "", "failure_reason": ""},
        "git_commit_hash": "",
        "round": start.round,
        "decision": "OPEN",
        "bucket": hypothesis.bucket,
    }
    return dump(memory)


def _describe_impact(hypothesis: Hypothesis) -> str:
    """For a memory file: what the change is expected to bring, with the counter that it is predicted of."""
    prediction = hypothesis.prediction
    return clip(f"{hypothesis.claim} ({prediction.counter} {prediction.direction})", WORDS)


def dump(memory: Entry) -> str:
    """A memory file's text in canonical form: sorted keys, two spaces, strings for hashes."""
    return json.dumps(_finite(memory), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Json) -> Json:
    """A memory file's number: JSON has no NaN and no infinity: such a number was not measured."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: _finite(item) for name, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case _:
            return value


def _performance(history: History, run: Benchmark | None, gain: float | None) -> Entry:
    """For a memory file: readings of the version, and its measured `gain` over the best before it in per cent of each quantity."""
    scoring, ceilings = history.contract.scoring, history.roofline.ceilings if history.roofline else None
    new = _speeds(history, run)
    shapes: Entry = {}
    for item in figures.passing_rows(run.rows) if run else ():
        shapes[item.label] = figures.time_us((item,), scoring)
    flops = ceilings.flops_gflops if ceilings else None
    copy = ceilings.copy_gbps if ceilings else None
    return {
        "latency_us": new["latency_us"],
        "tflops": new["tflops"],
        "bandwidth_gbps": new["bandwidth_gbps"],
        "tflops_peak_utilization_pct": _share(new["tflops"], flops / 1000 if flops else None),
        "bandwidth_peak_utilization_pct": _share(new["bandwidth_gbps"], copy),
        "comparison_with_previous": {
            "latency_delta": None if gain is None or new["latency_us"] is None else 100 * (1 / (1 + gain) - 1),
            "tflops_delta": None if gain is None or new["tflops"] is None else 100 * gain,
            "bandwidth_delta": None if gain is None or new["bandwidth_gbps"] is None else 100 * gain,
        },
        "latency_us_by_shape": shapes,
    }


def _speeds(history: History, run: Benchmark | None) -> dict[str, float | None]:
    """For a memory file: geometric means; only the metric that the contract measures is there, nothing is derived from it."""
    speeds: dict[str, float | None] = {"latency_us": None, "tflops": None, "bandwidth_gbps": None}
    scoring = history.contract.scoring
    averages = figures.compute_figures(run.rows, scoring) if run else None
    if run is None or averages is None:
        return speeds
    speeds["latency_us"] = figures.time_us(run.rows, scoring)
    scale = {"TFLOPS": 1.0, "GFLOPS": 1e-3, "MFLOPS": 1e-6, "TB/s": 1e3, "GB/s": 1.0, "MB/s": 1e-3}
    name = figures.metric_unit(history.contract)
    if name in scale:
        speeds["tflops" if name.endswith("FLOPS") else "bandwidth_gbps"] = averages.step * scale[name]
    return speeds


def _share(value: float | None, ceiling: float | None) -> float | None:
    """For a memory file: per cent of a measured ceiling; None where either is unknown."""
    return 100 * value / ceiling if value is not None and ceiling else None


def _optimization(hypothesis: Hypothesis, closed: RoundClosed) -> Entry:
    """For a memory file: what was changed, what it was expected to bring, and whether that was shown."""
    drafted = find(closed.judged, Drafted)
    return {
        "action_category": hypothesis.category,
        "action_description": clip(hypothesis.change, WORDS),
        "expected_impact": _describe_impact(hypothesis),
        "risks_and_rollback": clip(hypothesis.risks, WORDS),
        "performance_validated": "YES"
        if closed.accepted or closed.replaced
        else "NO"
        if closed.judged.verdict.gain is None
        else "INEFFECTIVE",
        "improvement_summary": clip(closed.judged.verdict.sentence, WORDS),
        "explanation": clip(drafted.explanation, WORDS) if drafted else "",
    }


def _profile(profile: Profiled | None, bottleneck: Bottleneck, summary: str, chain: Iterable[str]) -> Entry:
    """What the profile said, as the memory's schema has it."""
    return {
        "tool_used": profile.rung if profile else "none",
        "evidence_summary": clip(summary, WORDS),
        "bottleneck_type": "unknown" if bottleneck == "unknown" else f"{bottleneck}_bound",
        "evidence_chain": [clip(item, WORDS) for item in chain],
    }


def _status(closed: RoundClosed) -> str:
    """For a memory file: how the correctness test ended, in the schema's words."""
    test, reason = figures.test(closed), closed.judged.verdict.reason
    if reason == "test_timeout" or (test is not None and test.kind == "timeout"):
        return "TIMEOUT_FAIL"
    return "PASS" if test is not None and test.passed else "FAIL"


def _gate(closed: RoundClosed) -> Entry:
    """Whether the round passed, and if not why, for a memory file."""
    reason = closed.judged.verdict.reason
    if closed.accepted or closed.replaced:
        return {"result": "PASS", "failure_reason": ""}
    late = "TIMEOUT_FAIL" if reason in ("build_timeout", "test_timeout") else "FAIL"
    return {"result": late, "failure_reason": clip(f"{reason}: {closed.judged.verdict.sentence}", WORDS)}


def _progress(closed: RoundClosed, history: History) -> list[Json]:
    """For a memory file: the predicted counter against what was measured; empty without a prediction."""
    check = check_round(closed, history.contract.scoring)
    if check is None:
        return []
    target = f"{check.expected} from {check.before:g}" if check.before is not None else check.expected
    return [{"metric": check.counter, "target": target, "current": check.after, "met": check.outcome == "confirmed"}]


def _goals(history: History, profile: Profiled | None, bottleneck: Bottleneck) -> list[Json]:
    """For a memory file: the version beside each goal for machine code; one that was not measured is not met."""
    original = history.baseline.profile if history.baseline else None
    goals = measure_progress(history.opened.machine, profile, original, bottleneck)
    return [goal.model_dump() for goal in goals]


def _search_entry(search: LookUp) -> Entry:
    """A look-up of the knowledge as it happened, for a memory file."""
    return {
        "source": search.source,
        "query": clip(search.query, WORDS),
        "finding": clip(search.finding, WORDS),
        "actionability": clip(search.actionability, WORDS),
    }


def _reference(source: str, hypothesis: Hypothesis) -> Entry:
    """A page of the knowledge, or of the public web, that the hypothesis rests on."""
    kind = "public-web" if source.startswith(("https://", "http://")) else "gpu-wiki"
    return {"source_type": kind, "path_or_url": clip(source, WORDS), "description": clip(hypothesis.lever, WORDS)}


def _open(closed: RoundClosed) -> list[Json]:
    """For a memory file: the direction that the reflection advises next; empty without one."""
    ahead = closed.reflection.next_direction
    return [{"direction": clip(ahead, WORDS), "rationale": clip(closed.reflection.attribution, WORDS)}] if ahead else []


def _experience(closed: RoundClosed, hypothesis: Hypothesis) -> Entry:
    """For a memory file: the round as the one experiment of its version."""
    only: Entry = {
        "index": 1,
        "name": clip(hypothesis.id, WORDS),
        "hypothesis": clip(hypothesis.claim, WORDS),
        "change": clip(hypothesis.change, WORDS),
        "evidence": [clip(item, WORDS) for item in hypothesis.evidence],
        "result": clip(closed.judged.verdict.sentence, WORDS),
        "decision": "ACCEPTED" if closed.accepted else "ROLLED BACK",
    }
    return {"experiment_count": 1, "recorded_experiment_count": 1, "experiments": [only]}


def _gpu_time(history: History, closed: RoundClosed) -> Entry:
    best = best_profile(figures.until(history, closed.round))
    return {"best": _counter(best, "kernel_time_us"), "cand": _counter(figures.profile(closed), "kernel_time_us")}


def _counter(profile: Profiled | None, name: str) -> float | None:
    """For a memory file: a counter's value; None where it was not recorded."""
    return profile.counter(name) if profile else None


def _counters(profile: Profiled | None) -> Entry:
    """For a memory file: every recorded counter by name."""
    return {counter.name: counter.value for counter in profile.counters} if profile else {}
