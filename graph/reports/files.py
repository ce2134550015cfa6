"""Which files a ledger line touches, and the small ones: manifest, plans, quick script, commit message, tips."""

import hashlib

import yaml

from ridgeline.graph.briefing import Draft
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed
from ridgeline.graph.record import BaselineClosed, Opened, RoundClosed
from ridgeline.graph.reports import figures
from ridgeline.graph.reports.archive import render_archive
from ridgeline.graph.reports.figures import render_once
from ridgeline.graph.reports.final_report import render_final_report
from ridgeline.graph.reports.logs import optimize_log, performance, trend
from ridgeline.graph.reports.memory import baseline_memory, latest_unmasked, round_memory
from ridgeline.graph.reports.readme import readme
from ridgeline.graph.reports.rounds import (
    Documents,
    baseline_files,
    baseline_report,
    describe_expected,
    place_artifacts,
    round_files,
)
from ridgeline.graph.reports.text import cell, clip, code, command, interval, line, minute, percent
from ridgeline.graph.rules.archive import has_archive
from ridgeline.graph.rules.escalation import diagnose
from ridgeline.graph.rules.history import latest_question
from ridgeline.graph.rules.lessons import check_round
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Drafted, Judged, Proposed, find, find_proposal
from ridgeline.graph.values import Bottleneck, Hypothesis, LookUp
from ridgeline.prompts.render import render


def render_all(history: History, *, worktree: str, tool: str = "ridgeline") -> Documents:
    """All rendered files. `worktree` is the checked-out tree that the quick script measures; nothing is read, no clock asked."""
    files = _living(history, worktree, tool) | _render_minimal_project(history)
    if history.baseline is not None:
        files |= baseline_files(history, history.baseline) | _render_stage_1(history, history.baseline)
        files["memory/v0.json"] = baseline_memory(history, history.baseline)
    for closed in history.rounds:
        files |= _of_round(history, closed)
    return files | _ending(history)


def render_changed(history: History, *, worktree: str, tool: str = "ridgeline") -> Documents:
    """The rendered files that the latest event can have touched: what a round needs written when it closes.

    Writing these after every event leaves the same folder as writing everything at the end.
    """
    files = _living(history, worktree, tool)
    if not history.rounds:
        files |= _render_minimal_project(history)
    if history.rounds:
        for closed in latest_question(history):  # each names those that it was tried beside
            files |= _of_round(history, closed)
    elif history.baseline is not None:
        files |= baseline_files(history, history.baseline) | _render_stage_1(history, history.baseline)
        files["memory/v0.json"] = baseline_memory(history, history.baseline)
    return files | _render_memory(history) | _ending(history)


def _living(history: History, worktree: str, tool: str) -> Documents:
    """Rendered files of the campaign that grow or follow its state."""
    return {
        "manifest.yaml": manifest(history, worktree=worktree),
        "README.md": readme(history, tool=tool),
        "performance.md": performance(history),
        SCRIPT: quick_script(history, worktree=worktree),
        "logs/optimize.md": optimize_log(history),
        "logs/performance_trend.md": trend(history),
        **({"archive.md": render_archive(history)} if has_archive(history.limits) else {}),
    }


def _render_minimal_project(history: History) -> Documents:
    """`src/`, `tests/` and `bench/` of workspace mode, as they were extracted; nothing where the project is worked in."""
    minimal = history.opened.minimal
    if minimal is None:
        return {}
    files: Documents = {}
    for group in ("src", "tests", "bench"):
        files |= place_artifacts(group, getattr(minimal, group))
    return files


def _render_stage_1(history: History, baseline: BaselineClosed) -> Documents:
    """Rendered files of Stage 1: plan, report and change of the first kernel; nothing where the campaign began with one."""
    first_kernel = history.opened.first_kernel
    if first_kernel is None:
        return {}
    return {
        "plans/v0_plan.md": _render_plan(
            first_kernel.hypothesis,
            version=0,
            time=f"{minute(first_kernel.opened_at)}, before any edit",
            best_round=1,
            parent=None,
            bottleneck="unknown",
            bottleneck_evidence="nothing was measured before the first kernel existed",
            expected="No gain is predicted: PyTorch was not timed.",
        ),
        "baseline_report.md": baseline_report(history, baseline, first_kernel),
        "rounds/round-1/artifacts/candidate.diff": first_kernel.diff,
    }


def _of_round(history: History, closed: RoundClosed) -> Documents:
    """All files of a closed round: those of its folder, its memory, its plan."""
    files = round_files(history, closed)
    files[f"memory/v{closed.round - 1}.json"] = round_memory(history, closed)
    start = find_proposal(closed.judged)
    asked = start.beside or start.round
    return files | place_plan(
        history,
        start,
        bottleneck=closed.bottleneck,
        evidence=closed.bottleneck_evidence,
        best_known=next((other.best_known for other in history.rounds if other.round == asked), None),
    )


def _render_memory(history: History) -> Documents:
    """Memory that a restart or a person masked after the latest round, or that now records what was masked."""
    last_round = history.rounds[-1].round if history.rounds else 1
    rounds = [restart.after_round for restart in history.restarts] + [event.after_round for event in history.steered]
    if last_round not in rounds:
        return {}
    touched = {version for steered in history.steered for version in (*steered.wish.masked, *steered.wish.unmasked)}
    touched |= {version for restart in history.restarts for version in restart.masked}
    touched |= {latest_unmasked(history, restart) for restart in history.restarts}
    files: Documents = {}
    if 0 in touched and history.baseline is not None:
        files["memory/v0.json"] = baseline_memory(history, history.baseline)
    for closed in history.rounds:
        if closed.round - 1 in touched:
            files[f"memory/v{closed.round - 1}.json"] = round_memory(history, closed)
    return files


def _ending(history: History) -> Documents:
    """Rendered files of a concluded campaign: the final report with the raw data of the final test; nothing before the end."""
    ended = history.concluded
    if ended is None:
        return {}
    files: Documents = {"final_report.md": render_final_report(history)}
    if ended.final is not None:
        files |= place_artifacts("final", (ended.final.raw.model_copy(update={"name": "comparison.json"}),))
    if ended.project is not None:
        files["final/benchmark.csv"] = ended.project.csv
    if ended.baseline_again is not None:
        files["final/baseline_again.csv"] = ended.baseline_again.csv
    return files


# `plans/v<N>_plan.md`: what a round set out to do; exactly one action.


def place_plan(
    history: History,
    start: Proposed,
    *,
    bottleneck: Bottleneck,
    evidence: str,
    best_known: Benchmark | BenchmarkFailed | None,
) -> Documents:
    """The rendered plan of a round, from what was known before the first edit: the same stands there then and when the round is closed."""
    earlier = figures.until(history, start.beside or start.round)
    prior = figures.best(earlier)
    time = minute(start.written_at or start.opened_at)
    text = _render_plan(
        start.hypothesis,
        version=start.round - 1,
        time=f"{time}, with the edit of {line(start.author)}" if start.author else f"{time}, before any edit",
        best_round=prior[0] if prior else 1,
        parent=start.parent,
        bottleneck=bottleneck,
        bottleneck_evidence=line(evidence) or "no further evidence was recorded",
        expected=describe_expected(start.hypothesis.prediction),
        searches=start.searches,
        diagnosis=diagnose(earlier, best_known=best_known),
    )
    return {f"plans/v{start.round - 1}_plan.md": text}


def _render_plan(
    hypothesis: Hypothesis, searches: tuple[LookUp, ...] = (), diagnosis: tuple[str, ...] = (), **facts: object
) -> str:
    """The plan's page, with what it stood on, what rollbacks had looked at, and the look-ups behind it."""
    return render(
        "plan.v1.md",
        **facts,
        evidence=[*(line(item, 600) for item in diagnosis), *(line(item) for item in hypothesis.evidence)],
        sources=[code(source, 200) for source in hypothesis.sources],
        searches=[
            (search.source, cell(search.query), cell(search.finding, 400), cell(search.actionability))
            for search in searches
        ],
        action=line(hypothesis.change),
        category=hypothesis.category,
        bucket=hypothesis.bucket,
        target_class=cell(hypothesis.target_class),
        risks=line(hypothesis.risks),
    )


# `quick_test_bench.py`: the quick validation as a person can run it, with the standard library alone.


def quick_script(history: History, *, worktree: str) -> str:
    """The rendered quick script; without a baseline its list of shapes is empty and it refuses to run (exit 2)."""
    contract = history.contract
    shapes = history.baseline.representative if history.baseline else ()
    own, output, rule = contract.read_as("quick_command"), contract.benchmark_output, contract.correctness
    columns = own.columns if own else output.columns
    by_rule = own is not None and own.check is None
    return render(
        "quick_test_bench.v1.py",
        campaign=repr(history.opened.target.campaign),
        worktree=repr(worktree),
        folder=repr(history.opened.contract_path.rpartition("/")[0]),
        shapes=_list_words(shapes),
        argv=_list_words(contract.quick_command),
        build=_list_words(contract.rebuild.command or ()),
        header=repr(",".join(columns)),
        digest=schema_sha256(columns),
        label=repr(own.label if own else f"{{{output.label}}}"),
        check=repr((rule.column, rule.op, rule.threshold) if by_rule else (own.check if own else output.check)),
        file=repr(own.file if own else None),
        timeout=contract.timeouts.benchmark_s,
        build_timeout=contract.timeouts.build_s,
    )


def _list_words(words: tuple[str, ...]) -> str:
    return "[" + "".join(f"\n    {word!r}," for word in words) + ("\n]" if words else "]")


# `manifest.yaml`: the campaign's parameters, the eighteen of the documents first and in their order.

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
    """The campaign's manifest, YAML in a fixed order. Only representative shapes, quick command, status and best ever change."""
    best = figures.best(history)
    state: dict[str, object] = {
        "status": _status(history),
        "best_round": best[0] if best else None,
        "best_commit": figures.best_commit(history),
        "worktree": worktree,
    }
    opened, baseline = history.opened, history.baseline
    owner = baseline or opened
    return (
        render_once(owner, _render_required, opened, baseline)
        + _dump(state)
        + render_once(owner, _additions, opened, baseline)
    )


def _dump(fields: dict[str, object]) -> str:
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=1000)


def _render_required(opened: Opened, baseline: BaselineClosed | None) -> str:
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
    """The fields of the manifest that Ridgeline adds to the required ones, as YAML."""
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
    if opened.minimal is not None:
        fields["upstream_commit"] = opened.minimal.upstream
        fields["extracted_files"] = {
            group: {file.name: file.sha256 for file in getattr(opened.minimal, group)}
            for group in ("src", "tests", "bench")
        }
    return _dump(fields)


def _status(history: History) -> str:
    """The campaign's state in words, for the manifest."""
    if history.concluded is not None:
        return f"concluded: {history.concluded.stop_reason}"
    return "running" if history.baseline else "preparing"


# The words that leave the campaign's folder: the commit message of an accepted round, and the tips entry.

SUBJECT = 100
"""Characters of a subject line."""


def commit_message(judged: Judged, history: History, round: int) -> str:
    """`[optimize] <op> <backend> round-<N>: <one line>` and why it works, with its evidence."""
    hypothesis, verdict = find_proposal(judged).hypothesis, judged.verdict
    target = history.opened.target
    drafted = find(judged, Drafted)
    head = f"[optimize] {target.target_op} {target.target_backend} round-{round}: "
    unmeasured = verdict.gain is None
    return render(
        "commit.v1.txt",
        subject=head + clip(hypothesis.change, max(24, SUBJECT - len(head))),
        hypothesis=line(hypothesis.claim),
        why=line(drafted.explanation if drafted and drafted.explanation else hypothesis.claim),
        evidence=[line(item, 300) for item in hypothesis.evidence[:8]],
        parent=find_proposal(judged).parent,
        result="not measured" if unmeasured else interval(verdict.gain, verdict.lower, verdict.upper),
        metric=target.primary_metric,
        bounded=verdict.lower is not None,
        notes=[line(note, 300) for note in verdict.notes[:8]],
        campaign=target.campaign,
        round=round,
    )


def write_first_message(hypothesis: Hypothesis, draft: Draft) -> str:
    """Message of the commit that Stage 1 makes."""
    return f"V0: baseline kernel\n\n{line(hypothesis.change)}\n\n{line(draft.explanation)}\n"


def tip_entry(closed: RoundClosed, opened: Opened) -> str:
    """The rendered entry of a reusable lesson. Empty when the round taught nothing reusable."""
    reflection = closed.reflection
    if reflection.lesson is None:
        return ""
    hypothesis, target = figures.hypothesis(closed), opened.target
    check, bound = (
        check_round(closed, opened.contract.scoring),
        hypothesis.real_gain_bound if hypothesis.bucket == "W1" else None,
    )
    overfit = closed.judged.verdict.reason == "overfit" or hypothesis.bucket in ("W2", "W3")
    return render(
        "tip.v1.md",
        time=minute(closed.closed_at),
        round=closed.round,
        accepted=closed.accepted,
        context=f"{target.target_op} ({target.dtype}), {target.target_backend}, {opened.machine.name} "
        f"({opened.machine.arch}); {line(hypothesis.change, 300)}",
        signal=line(closed.judged.verdict.sentence, 300)
        + (f"; {check.counter} predicted {check.expected}: {check.outcome}" if check else ""),
        takeaway=("benchmark over-fit; do not retry" if overfit else line(reflection.lesson))
        + (f" (a training step gains at most {percent(bound)})" if bound is not None and not overfit else ""),
        applies=line(reflection.applies, 300) or "not stated",
        does_not_apply=line(reflection.does_not_apply, 300) or "not stated",
    )
