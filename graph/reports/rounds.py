"""The folder of one round: summary, kernel snapshot, raw artifacts, plan and iteration report."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Profiled
from ridgeline.graph.record import BaselineClosed, FirstKernel, RoundClosed
from ridgeline.graph.reports import figures
from ridgeline.graph.reports.result import aggregate_table, shape_table
from ridgeline.graph.reports.text import (
    cell,
    code,
    command,
    fence,
    interval,
    line,
    minute,
    number,
    percent,
    quantity,
    table,
    times,
)
from ridgeline.graph.reports.transfer import transfer_check
from ridgeline.graph.rules.early_end import note_silent_test
from ridgeline.graph.rules.headroom import Headroom, compute_headroom, describe_device
from ridgeline.graph.rules.history import best_profile
from ridgeline.graph.rules.isa_targets import measure_progress
from ridgeline.graph.rules.lessons import check_round
from ridgeline.graph.rules.result import compute_product
from ridgeline.graph.rules.roofline import bound_of
from ridgeline.graph.rules.tuning import describe_settings
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Applied, Drafted, find, find_proposal
from ridgeline.graph.values import Artifact, Prediction
from ridgeline.graph.verdict import Verdict
from ridgeline.prompts.render import render

Documents = dict[str, str | Artifact]


def baseline_files(history: History, baseline: BaselineClosed) -> Documents:
    """Files of `rounds/round-1/`, the round of the unmodified code."""
    files: Documents = {
        "rounds/round-1/summary.md": _baseline_summary(history, baseline),
        "rounds/round-1/artifacts/benchmark.csv": baseline.quick.csv,
        "rounds/round-1/artifacts/project_benchmark.csv": baseline.project.csv,
        "rounds/round-1/artifacts/quick_baseline.log": baseline.quick_log,
    }
    files |= place_artifacts("rounds/round-1/kernel_snapshot", baseline.snapshot)
    return files | _profile_files(0, baseline.profile)


def round_files(history: History, closed: RoundClosed) -> Documents:
    """Files of `rounds/round-N/`: everything that was seen of one hypothesis, kept or not."""
    folder = f"rounds/round-{closed.round}"
    files: Documents = {f"{folder}/summary.md": summary(history, closed)}
    files[f"{folder}/iteration_report.md"] = iteration_report(history, closed)
    files |= place_artifacts(f"{folder}/kernel_snapshot", figures.snapshot(closed))
    if (chosen := figures.applied_of(closed.judged)) is not None:
        files[f"{folder}/artifacts/candidate.diff"] = chosen.diff
    files |= {f"{folder}/artifacts/{name}": artifact for name, artifact in _raw(closed).items()}
    return files | _profile_files(closed.round - 1, figures.profile(closed))


def place_artifacts(folder: str, artifacts: tuple[Artifact, ...]) -> Documents:
    """Artifacts under a round's folder by their own names; a name can never lead out of the folder."""
    files: Documents = {}
    for artifact in artifacts:
        parts = [part for part in PurePosixPath(artifact.name.replace("\\", "/")).parts if part not in ("/", "..", ".")]
        name = "/".join(parts) or artifact.sha256[:12]
        path = f"{folder}/{name}"
        files[path if path not in files else f"{folder}/{artifact.sha256[:12]}-{parts[-1]}"] = artifact
    return files


def _profile_files(version: int, profile: Profiled | None) -> Documents:
    """`profiles/v<N>/`: the profiler's own files, and what was read of them; nothing where none could look."""
    if profile is None:
        return {}
    recorded = profile.kernel.recorded if profile.kernel else None
    files = place_artifacts(
        f"profiles/v{version}", tuple(artifact for artifact in (profile.report, recorded) if artifact is not None)
    )
    return {f"profiles/v{version}/summary.md": f"{profile_table(None, profile)}\n", **files}


def _raw(closed: RoundClosed) -> dict[str, Artifact]:
    """Files of a round's folder: every CSV and every set of paired times; the plain names are those that stand for it."""
    main = figures.candidate(closed)
    files = {"benchmark.csv": main.csv} if main else {}
    for run in figures.evidence(closed.judged):
        if isinstance(run, Benchmark) and run is not main:
            files[f"benchmark-{run.level}-{run.repeat}-{run.commit[:7]}.csv"] = run.csv
    for index, comparison in enumerate(figures.comparisons(closed), start=1):
        files["comparison.json" if index == 1 else f"comparison-{index}.json"] = comparison.raw
    return files


def _baseline_summary(history: History, baseline: BaselineClosed) -> str:
    contract, roof = history.contract, history.roofline
    return render(
        "summary_baseline.v1.md",
        time=minute(baseline.opened_at),
        contract=contract,
        test=code(command(contract.test_command)),
        benchmark=code(command(contract.quick_command)),
        project=code(command(contract.benchmark_command)),
        seconds=number(baseline.quick.seconds, 2),
        checked=baseline.test,
        silent=note_silent_test(baseline.test.printed),
        rows=shape_table(baseline.quick.rows, contract),
        aggregate=aggregate_table(baseline.quick.rows, contract),
        project_rows=shape_table(baseline.project.rows, contract),
        bottleneck=baseline.bottleneck,
        bound=bound_of(baseline.shapes) if baseline.shapes or roof is None else roof.bound,
        profile=profile_table(None, baseline.profile),
        representative=[cell(label) for label in baseline.representative],
        classes=[cell(name) for name in baseline.classes],
        machine=history.opened.machine,
        commit=history.opened.base_commit,
    )


def baseline_report(history: History, baseline: BaselineClosed, first_kernel: FirstKernel) -> str:
    """`baseline_report.md` of Stage 1: what was written from PyTorch, how right it is, and how fast it began."""
    contract = history.contract
    share = compute_headroom(baseline.quick.rows, contract, describe_device(history))
    return render(
        "baseline_report.v1.md",
        operator=cell(history.opened.target.target_op),
        kernels=[code(path, 200) for path in contract.kernel_source],
        test_command=code(command(contract.test_command)),
        upstream=first_kernel.upstream,
        commit=history.opened.base_commit,
        explanation=line(first_kernel.explanation) or "none was given",
        prompts=[code(name, 120) for name in first_kernel.prompts],
        repairs=[(line(item.evidence, 300), line(item.explanation, 300)) for item in first_kernel.repairs],
        tests=first_kernel.test,
        detail=fence(first_kernel.test.detail) if first_kernel.test.detail else "",
        rows=shape_table(baseline.quick.rows, contract),
        aggregate=aggregate_table(baseline.quick.rows, contract),
        share=line(share.text) if isinstance(share, Headroom) else f"unknown: {line(share)}",
    )


def summary(history: History, closed: RoundClosed) -> str:
    """A round's summary page: six parts, `Rollback Analysis` exactly when rolled back, and the transfer check."""
    contract, hypothesis = history.contract, figures.hypothesis(closed)
    verdict, reflection = closed.judged.verdict, closed.reflection
    chosen, drafted = figures.applied_of(closed.judged), find(closed.judged, Drafted)
    return render(
        "summary.v1.md",
        round=closed.round,
        hypothesis=hypothesis,
        claim=line(hypothesis.claim),
        change=line(hypothesis.change),
        parent=find_proposal(closed.judged).parent,
        evidence=[line(item) for item in hypothesis.evidence],
        expected=describe_expected(hypothesis.prediction),
        stamps=_describe_stamps(closed),
        risks=line(hypothesis.risks),
        verification=line(hypothesis.verification),
        lever=code(hypothesis.lever, 120),
        target_class=line(hypothesis.target_class, 120),
        changed=[code(path, 200) for path in chosen.changed] if chosen else [],
        roles=[(line(role.id, 120), line(role.did)) for role in figures.list_roles(history.opened, closed)],
        local=describe_local_gate(chosen) if chosen else "",
        left=[code(path, 200) for path in chosen.left] if chosen else [],
        explanation=line(drafted.explanation) if drafted else "",
        repairs=[(line(item.evidence, 300), line(item.explanation, 300)) for item in drafted.repairs]
        if drafted
        else [],
        validation=validation(history, closed)
        + _describe_others(history, closed)
        + _describe_deep(closed)
        + _describe_sweep(closed),
        accepted=closed.accepted,
        decision="ACCEPTED" if closed.accepted else "ROLLED BACK",
        verdict=verdict,
        sentence=line(verdict.sentence),
        gain=interval(verdict.gain, verdict.lower, verdict.upper),
        notes=[line(note) for note in verdict.notes],
        attribution=line(reflection.attribution) or "none was given",
        prediction=prediction(closed, history.contract.scoring),
        profile=profile_table(best_profile(figures.until(history, closed.round)), figures.profile(closed)),
        next_direction=line(reflection.next_direction) or "none was named; the next round chooses afresh",
        root_cause=line(reflection.root_cause) or "not established",
        lesson=line(reflection.lesson or reflection.dropped) or "nothing reusable",
        transfer=transfer_check(closed, contract).fields(),
    )


CANDIDATE_COLUMNS = ("Candidate", "Change", "Verdict", "Gain over the same best version", "Pairs")
"""Of the table of candidates that were tried side by side."""


def is_beside_others(closed: RoundClosed) -> bool:
    """Whether a round's page names other candidates that the planner named to be tried with it."""
    return find_proposal(closed.judged).beside is not None


def candidate_rows(rounds: Iterable[RoundClosed]) -> list[tuple[str, ...]]:
    """Rows of a round's page: each candidate with its numbers, as measured against the version that all of them began from."""
    return [
        (
            f"round-{closed.round}",
            cell(figures.hypothesis(closed).change),
            "kept" if closed.accepted else closed.judged.verdict.reason,
            interval(verdict.gain, verdict.lower, verdict.upper),
            str(sum(max(len(shape.pairs) for shape in run.shapes) for run in figures.comparisons(closed))),
        )
        for closed in rounds
        for verdict in (closed.judged.verdict,)
    ]


def _describe_others(history: History, closed: RoundClosed) -> str:
    """On a round's page: the candidates that were tried side by side with this one; empty where it was tried alone."""
    if not is_beside_others(closed):
        return ""
    candidates = [other for other in history.rounds if other.beside == closed.beside]
    return f"\n### Side by side\n\n{table(CANDIDATE_COLUMNS, candidate_rows(candidates))}\n"


STEP_COLUMNS = ("Step", "Tool", "Outcome", "Seconds")
"""Of the table of a deep round."""
MOST_STEPS = 60
"""Steps that a page shows: the last ones."""


def _describe_deep(closed: RoundClosed) -> str:
    """On a round's page: what was done in the work tree of a deep round, and what of it was used up; empty for others."""
    deep = find_proposal(closed.judged).deep
    if deep is None:
        return ""
    wanted_by = {
        "start": "the campaign begins with it",
        "person": "a person asked for it",
        "planner": "a review's planner",
    }
    first = max(0, len(deep.steps) - MOST_STEPS)
    rows = [
        (str(number), step.tool, cell(step.outcome), f"{step.seconds:.1f}" if step.seconds else "")
        for number, step in enumerate(deep.steps[first:], start=first + 1)
    ]
    spent = (
        f"{len(deep.steps)} steps, {deep.work_s / 60:.1f} minutes of work, {deep.tokens} tokens, {deep.device_s:.0f} s on the"
        " device. Timings in it are hints: the verdict rests on none of them."
    )
    shown = f"\n\n{table(STEP_COLUMNS, rows)}" if rows else ""
    ended = f"\n\n{line(deep.ended)}." if deep.ended else ""
    return f"\n### Deep round\n\n{line(deep.plan)} ({wanted_by[deep.origin]})\n\n{spent}{ended}{shown}\n"


def _describe_sweep(closed: RoundClosed) -> str:
    """On a round's page: every point of a sweep with its screen's number; empty where the round swept none."""
    drafted = find(closed.judged, Drafted)
    if drafted is None or not drafted.tuned:
        return ""
    rows = [
        (
            describe_settings(point.settings),
            "-" if point.gain is None else f"{point.gain:+.1%}",
            cell(point.invalid, 200) or "-",
        )
        for point in drafted.tuned
    ]
    title = "Sweep: one process pair each, which chooses and proves nothing"
    return f"\n### {title}\n\n{table(('Point', 'Screened', 'Not usable'), rows)}\n"


def describe_local_gate(applied: Applied) -> str:
    """On a round's page: what the minimal project of workspace mode said, in a sentence; empty where there is none."""
    local = applied.local
    if local is None:
        return ""
    if local.test is None:
        return "not passed: the minimal project did not build, or failed its test"
    quick = (
        "no quick numbers"
        if local.gain is None
        else f"quick benchmark {percent(local.gain)} against the best version's"
    )
    return (
        f"the minimal project builds and passes its test; {quick}, one run each, which decides nothing but a clear loss"
    )


def validation(history: History, closed: RoundClosed) -> str:
    """The `Validation` and `Aggregate` sub-sections of a round, or what stood in their way."""
    contract = history.contract
    run, test, failed = figures.candidate(closed), figures.test(closed), figures.failure(closed)
    prior = figures.before(history, closed.round)
    detail = _broken(closed) or (failed.detail if failed else "")
    return render(
        "validation.v1.md",
        time=minute(closed.closed_at),
        level=run.level if run else "none (ended before a usable measurement)",
        test_command=code(command(contract.test_command)),
        quick_command=code(command(contract.quick_command)),
        test=test,
        run=run,
        files=[f"artifacts/{name}" for name in _raw(closed)],
        rows=shape_table(run.rows, contract, closed.judged.verdict) if run else "",
        aggregate=aggregate_table(
            run.rows, contract, closed.judged.verdict, compute_product(figures.until(history, closed.round))
        )
        if run
        else "Not measured.",
        best_round=prior[0] if prior else 1,
        pairs=describe_pairs(closed),
        reason=failed.reason if failed else "",
        detail=fence(detail) if detail else "",
    )


def _broken(closed: RoundClosed) -> str:
    """On a round's page: why there are no numbers. Where there are some, what disturbed pairs beside them is a note of the verdict."""
    if closed.judged.verdict.gain is not None:
        return ""
    return next((e.detail for e in figures.evidence(closed.judged) if isinstance(e, BenchmarkFailed)), "")


def describe_pairs(closed: RoundClosed) -> str:
    """On a round's page: one sentence on the interleaved comparison, empty when there was none."""
    runs = figures.comparisons(closed)
    if not runs:
        return ""
    verdict = closed.judged.verdict
    pairs = sum(max(len(shape.pairs) for shape in run.shapes) for run in runs)
    dropped = sum(run.dropped_blocks for run in runs)
    return (
        f"Interleaved with the best version in {pairs} fresh process pairs over {len(runs[0].shapes)} shapes "
        f"({runs[0].engine} clock, {dropped} blocks dropped): {interval(verdict.gain, verdict.lower, verdict.upper)}."
    )


def describe_expected(forecast: Prediction) -> str:
    """On a round's page: the prediction in words: counter, direction, and size where the hypothesis dared one."""
    size = f" to {forecast.ratio:g} times" if forecast.ratio is not None else ""
    speed = f"; speedup {forecast.speedup:g}x" if forecast.speedup is not None else ""
    return f"{code(forecast.counter, 80)} {forecast.direction}{size}{speed}"


def _describe_stamps(closed: RoundClosed) -> str:
    """On a round's page: when the hypothesis was written and when its first edit was there; empty in older records."""
    start, drafted = find_proposal(closed.judged), find(closed.judged, Drafted)
    if start.written_at is None:
        return ""
    edited = f"first edit {drafted.edited_at}" if drafted and drafted.edited_at else "no edit came of it"
    return f"Written {start.written_at}; {edited}"


def prediction(closed: RoundClosed, scoring: Scoring) -> str:
    """Section of a round's summary: the prediction against what was observed."""
    check = check_round(closed, scoring)
    if check is None:
        return "not checked: no trace of this candidate"
    if check.speedup is not None:
        return (
            f"{check.outcome}: {code(check.counter, 80)} was predicted {check.expected}, "
            f"measured as the speedup {times(check.speedup)}"
        )
    return (
        f"{check.outcome}: {code(check.counter, 80)} was predicted {check.expected}, "
        f"measured {quantity(check.before)} -> {quantity(check.after)}"
    )


def profile_table(before: Profiled | None, after: Profiled | None) -> str:
    """On a round's page: counters of the best version and of the candidate; says so when there is no trace."""
    if after is None:
        return "No trace: there are no counters for this version."
    body = []
    for counter in after.counters[:40]:
        same = before is not None and before.rung_of(counter.name) == after.rung_of(counter.name)
        old = before.counter(counter.name) if before and same else None
        change = percent(counter.value / old - 1) if old else "-"
        stand = (after.rung_of(counter.name),) if after.origins else ()
        body.append((cell(counter.name), quantity(old), quantity(counter.value), change, *stand))
    notes = "".join(f"\n- {line(note, 300)}" for note in after.notes[:12])
    head = ("Counter", "Best before", "This version", "Change", *(("Stands on",) if after.origins else ()))
    took = f" in {after.seconds:.1f} s" if after.seconds else ""
    return table(head, body) + f"\n\nProfiler: {after.rung}{took}.{notes}"


def iteration_report(history: History, closed: RoundClosed) -> str:
    """A round's iteration report: action, evidence, performance before and after, correctness, progress of the counters."""
    contract, run, prior = history.contract, figures.candidate(closed), figures.before(history, closed.round)
    test, hypothesis = figures.test(closed), figures.hypothesis(closed)
    return render(
        "iteration.v1.md",
        version=closed.round - 1,
        action=line(hypothesis.change),
        category=hypothesis.category,
        bottleneck=closed.bottleneck,
        evidence=line(closed.bottleneck_evidence),
        chain=[line(item) for item in hypothesis.evidence],
        best_version=prior[0] - 1 if prior else 0,
        performance=_performance(history, prior[1] if prior else None, run, closed.judged.verdict),
        status="not reached" if test is None else test.kind,
        detail=line(test.detail, 300) if test else "",
        correctness=contract.correctness.kind,
        prediction=prediction(closed, history.contract.scoring),
        goals=_goals_table(history, closed),
    )


def _goals_table(history: History, closed: RoundClosed) -> str:
    """On a round's page: the version beside each goal for machine code and counters."""
    original = history.baseline.profile if history.baseline else None
    goals = measure_progress(history.opened.machine, figures.profile(closed), original, closed.bottleneck)
    rows = [
        (
            cell(goal.target),
            "not measured" if goal.current is None else f"{goal.current:g}",
            "yes" if goal.met else "no",
        )
        for goal in goals
    ]
    return table(("Goal", "This version", "Met"), rows)


def _performance(history: History, old: Benchmark | None, new: Benchmark | None, verdict: Verdict) -> str:
    """On a round's page: the measured gain, and the readings of both versions over the shapes that pass in both."""
    if old is None or new is None:
        return "Not measured."
    scoring, unit = history.contract.scoring, figures.metric_unit(history.contract)
    labels = {r.label for r in figures.passing_rows(old.rows)} & {r.label for r in figures.passing_rows(new.rows)}
    old_rows = tuple(r for r in old.rows if r.label in labels)
    new_rows = tuple(r for r in new.rows if r.label in labels)
    before, after = figures.compute_figures(old_rows, scoring), figures.compute_figures(new_rows, scoring)
    if before is None or after is None:
        return "No shape passed in both versions."
    slow, fast = figures.time_us(old_rows, scoring), figures.time_us(new_rows, scoring)
    body = [(f"{cell(unit)} (geomean)", number(before.step), number(after.step))]
    if slow and fast:
        body.append(("latency (us, geomean)", number(slow), number(fast)))
    readings = table(("Reading", "Best before", "This version"), body)
    return f"Measured gain: {interval(verdict.gain, verdict.lower, verdict.upper)}.\n\n{readings}"
