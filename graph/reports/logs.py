"""The append-only logs: `logs/optimize.md`, the table of performance and the trend."""

from collections import defaultdict

from ridgeline.graph.contract import Contract, Scoring
from ridgeline.graph.evidence import Benchmark, Profiled
from ridgeline.graph.record import BaselineClosed, Opened, Restarted, Reviewed, RoundClosed
from ridgeline.graph.reports import figures
from ridgeline.graph.reports.figures import Figures, render_once
from ridgeline.graph.reports.final_report import describe_ineffective, termination, was_ineffective
from ridgeline.graph.reports.result import aggregate_table, product_line, readings, shape_table
from ridgeline.graph.reports.text import (
    cell,
    code,
    command,
    interval,
    line,
    minute,
    number,
    percent,
    quantity,
    row,
)
from ridgeline.graph.rules.history import accepted_rounds
from ridgeline.graph.rules.result import Product, compute_bases, compute_products
from ridgeline.graph.rules.stagnation import Regression, recent_regressions
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Drafted, find
from ridgeline.prompts.render import render


def optimize_log(history: History) -> str:
    """The whole of `optimize.md`; the text after any event is a prefix of the text after the next."""
    opened, baseline = history.opened, history.baseline
    return render(
        "optimize.v1.md",
        target=opened.target,
        opened=opened,
        instruction=line(opened.target.instruction) or "none",
        tips="absent" if opened.tips is None else f"read ({len(opened.tips)} characters)",
        confirmation=line(opened.confirmation),
        baseline=_baseline(history) if baseline else "",
        entries=_entries(history) if baseline else [],
        final=_final(history),
    )


def _baseline(history: History) -> str:
    """The section of `optimize.md` on the original."""
    baseline, contract = history.baseline, history.contract
    assert baseline is not None
    return render(
        "optimize_baseline.v1.md",
        time=minute(baseline.opened_at),
        opened=history.opened,
        check=baseline.test.kind,
        rows=shape_table(baseline.quick.rows, contract),
        aggregate=aggregate_table(baseline.quick.rows, contract),
        bottleneck=baseline.bottleneck,
        command=code(command(contract.quick_command)),
    )


def _entries(history: History) -> list[str]:
    """Entries of the log: reviews and restarts before the first attempt, then each round with what followed it."""
    between: dict[int, list[str]] = defaultdict(list)
    for item in history.reviews:
        between[item.after_round].append(render_once(item, _review, item))
    for restart in history.restarts:
        between[restart.after_round].append(render_once(restart, _restart, restart))
    entries = [*between[1]]
    since: list[RoundClosed] = []
    opened, baseline = history.opened, history.baseline
    assert baseline is not None
    for closed, so_far in zip(history.rounds, compute_products(history)[1:], strict=True):
        since.append(closed)
        entries.append(render_once(closed, _round, opened, closed))
        if closed.accepted:
            entries.append(
                _best_after(closed, so_far) + render_once(closed, _snapshot, opened.contract, baseline, *since)
            )
            since = []
        entries += between[closed.round]
    return entries


def _round(opened: Opened, closed: RoundClosed) -> str:
    """The section of `optimize.md` on one closed round."""
    hypothesis, verdict = figures.hypothesis(closed), closed.judged.verdict
    test, run, chosen = figures.test(closed), figures.candidate(closed), figures.applied_of(closed.judged)
    has_gain = verdict.gain is not None
    gain = (
        f"{interval(verdict.gain, verdict.lower, verdict.upper)} over the best version" if has_gain else "not measured"
    )
    ineffective = cell(hypothesis.change)
    fields = (
        ("Time", minute(closed.closed_at)),
        ("Validation level", f"{run.level} ({len(run.rows)} shapes)" if run else "none"),
        ("Hypothesis", line(hypothesis.claim)),
        (
            "Changes",
            f"{line(hypothesis.change)} ({', '.join(code(p, 200) for p in chosen.changed) if chosen else 'no file'})",
        ),
        ("Result", f"{cell(opened.target.primary_metric)} {gain}"),
        ("Test", test.kind if test else "not reached"),
        (
            "Decision",
            f"{'ACCEPTED' if closed.accepted else 'ROLLED BACK'} ({verdict.reason}): {line(verdict.sentence)}",
        ),
        ("Detailed data", f"`rounds/round-{closed.round}/summary.md`"),
        ("Notes", "; ".join(line(note, 200) for note in verdict.notes) or "none"),
    )
    text = f"\n### round-{closed.round} - {line(hypothesis.change, 120)}\n\n" + "\n".join(
        f"- {n}: {t}" for n, t in fields
    )
    if was_ineffective(closed):
        text += f"\n- Ineffective direction: {ineffective} (round-{closed.round})"
    return text + "\n"


def _snapshot(contract: Contract, baseline: BaselineClosed, *since: RoundClosed) -> str:
    """The log's dated view: readings, directions, and what failed since the view before."""
    closed = since[-1]
    run = figures.candidate(closed)
    return (
        (_describe_readings(baseline, run, closed, contract) if run else "Not measured.")
        + f"\n\n## Directions to Try (after round-{closed.round})\n\n"
        + _directions(since)
        + f"\n\n## Verified Ineffective Directions (after round-{closed.round})\n\n"
        + describe_ineffective(since, otherwise="None since the section before.")
        + "\n"
    )


def _best_after(closed: RoundClosed, so_far: Product) -> str:
    """The log's heading and what is known of the best version's gain over the original."""
    return f"\n## Current Best (after round-{closed.round}, {minute(closed.closed_at)})\n\n{product_line(so_far)}\n\n"


def _describe_readings(baseline: BaselineClosed, run: Benchmark, closed: RoundClosed, contract: Contract) -> str:
    when = f"original {minute(baseline.opened_at)}, best {minute(closed.closed_at)}"
    return f"Readings of the quick command ({when}):\n\n{readings(baseline.quick, run, contract)}"


def _directions(since: tuple[RoundClosed, ...]) -> str:
    """The log's check list: what these rounds tried, and what the last of them advises next."""
    tried = [f"- [x] ~~{line(figures.hypothesis(c).change, 200)}~~ (round-{c.round})" for c in since]
    ahead = since[-1].reflection.next_direction
    return "\n".join([*tried, *([f"- [ ] {line(ahead, 200)}"] if ahead else [])])


def _review(review: Reviewed) -> str:
    """The log's section on a stagnation review: trigger, escalation, directions."""
    lines = "\n".join(f"- [ ] {line(direction, 300)}" for direction in review.directions)
    full = f"- Full validation at the end of the direction: {line(review.full_note, 300)}\n" if review.full_note else ""
    return (
        f"\n### Stagnation review (after round-{review.after_round})\n\n- Trigger: {line(review.trigger)}\n"
        f"- Escalation: {line(review.escalation) or 'none'}\n{full}\nDirections to try:\n\n{lines}\n"
    )


def _restart(restart: Restarted) -> str:
    """The log's section on a partial restart: which versions' memory was masked."""
    versions = ", ".join(f"v{version}" for version in restart.masked) or "none"
    return (
        f"\n### Partial restart (after round-{restart.after_round})\n\n- Masked memory: {versions}\n"
        f"- Note: {line(restart.note) or 'none'}\n- The kernel stays at the best version.\n"
    )


def _final(history: History) -> str:
    """The log's section on the campaign's end; empty while it runs."""
    if history.concluded is None:
        return ""
    return termination(history, history.concluded)


# `performance.md`: the baseline and what was kept, nothing else; at the end of some campaigns a Stop Summary.

COLUMNS = (
    "Date",
    "Commit",
    "Status",
    "Benchmark command",
    "Target class / dispatch condition",
    "Kernel",
    "script us",
    "GPU time",
    "% vs previous best",
    "Note",
)
STOPS = {"T5": "consecutive measured regressions", "T6": "no idle GPU available"}
"""Conditions that owe a Stop Summary."""


def performance(history: History) -> str:
    """The whole `performance.md`: ten columns, status `baseline` or `keep`."""
    contract = history.contract
    rows = [] if history.baseline is None else [_performance_baseline(history.opened, history.baseline)]
    rows += [render_once(closed, _keep, contract, closed) for closed in accepted_rounds(history)]
    return render(
        "performance.v1.md",
        campaign=history.opened.target.campaign,
        header=row(COLUMNS),
        rule="|" + "---|" * len(COLUMNS),
        rows=rows,
        stop=_stop_summary(history),
    )


def _shared_columns(contract: Contract, run: Benchmark | None, profile: Profiled | None) -> tuple[str, str, str]:
    """Kernel, script us, GPU time in `performance.md`: times of one call in microseconds, a dash where nothing measured them."""
    kernel = contract.profile.kernel if contract.profile and contract.profile.kernel else contract.kernel_source[0]
    time = figures.time_us(run.rows, contract.scoring) if run else None
    return cell(kernel), number(time), number(profile.counter("kernel_time_us") if profile else None)


def _performance_baseline(opened: Opened, baseline: BaselineClosed) -> str:
    kernel, script, gpu = _shared_columns(opened.contract, baseline.quick, baseline.profile)
    bench = code(command(opened.contract.quick_command), 160)
    start = (minute(baseline.opened_at), f"`{opened.base_commit[:12]}`", "baseline", bench)
    return row((*start, "all classes", kernel, script, gpu, "-", f"bottleneck: {baseline.bottleneck}; unmodified code"))


def _keep(contract: Contract, closed: RoundClosed) -> str:
    """The row of a kept round in `performance.md`, status `keep`: time, commit, what changed, kernel and script numbers."""
    hypothesis, verdict = figures.hypothesis(closed), closed.judged.verdict
    kernel, script, gpu = _shared_columns(contract, figures.candidate(closed), figures.profile(closed))
    chosen, drafted = figures.applied_of(closed.judged), find(closed.judged, Drafted)
    commit = closed.commit or (chosen.commit if chosen else "-")
    split = "; split: the class named dispatches to its own kernel, all others keep the one before"
    note = f"bottleneck: {closed.bottleneck}; {cell(hypothesis.change)}"
    return row(
        (
            minute(closed.closed_at),
            f"`{commit[:12]}`",
            "keep",
            code(command(contract.quick_command), 160),
            cell(hypothesis.target_class),
            kernel,
            script,
            gpu,
            interval(verdict.gain, verdict.lower, verdict.upper),
            note + (split if drafted and drafted.split else ""),
        )
    )


def _stop_summary(history: History) -> str:
    ended = history.concluded
    owed = [check.id for check in ended.checks if check.satisfied and check.id in STOPS] if ended else []
    if ended is None or not owed:
        return ""
    reasons = [STOPS[name] for name in owed]
    if "T5" in owed:
        reasons[owed.index("T5")] = f"{history.limits.max_consecutive_regressions} {STOPS['T5']}"
    if "T6" in owed:
        reasons[owed.index("T6")] = f"{STOPS['T6']} for {history.limits.gpu_max_wait_s / 60:g} minutes"
    best_run = figures.best(history)
    best = figures.compute_figures(best_run[1].rows, history.contract.scoring) if best_run else None
    return render(
        "stop_summary.v1.md",
        time=minute(ended.closed_at),
        reason="; ".join(reasons),
        detail=line(ended.stop_reason),
        commit=figures.best_commit(history),
        metric=cell(history.opened.target.primary_metric),
        aggregate=number(best.step if best else None),
        time_us=number(figures.time_us(best_run[1].rows, history.contract.scoring) if best_run else None),
        regressions=[_regression(history, item) for item in _recent(history)],
    )


def _recent(history: History) -> tuple[Regression, ...]:
    """For `performance.md`: the running streak of regressions, oldest first, as many as the window holds."""
    return recent_regressions(
        history.rounds, history.limits, baseline=history.baseline, scoring=history.contract.scoring
    )


def _regression(history: History, item: Regression) -> str:
    """The row of a regression in `performance.md`: hypothesis, files, script and kernel times before and after."""
    closed = next((c for c in history.rounds if c.closed_at == item.at), None)
    paired = closed is not None and bool(figures.comparisons(closed))
    unit = "us" if paired else cell(figures.metric_unit(history.contract))
    return row(
        (
            f"round-{closed.round}" if closed else minute(item.at),
            cell(item.hypothesis, 160),
            cell(", ".join(item.files)),
            f"{quantity(item.script[0])} -> {quantity(item.script[1])} {unit}",
            f"{quantity(item.gpu_time_us[0])} -> {quantity(item.gpu_time_us[1])}",
            percent(item.change),
            cell("; ".join(item.trace_points)),
        )
    )


# `logs/performance_trend.md`: one row a round, ten fixed columns, append-only.

VERSUS = "{vs baseline}"
"""Stands in a remembered row for the cell that the rounds before it decide."""


def columns(unit: str) -> tuple[str, ...]:
    """Columns of the logs: the unit is TFLOPS in the documents and the campaign's own elsewhere."""
    return (
        "Round",
        "Status",
        "Description",
        f"Fwd Avg {unit}",
        f"Fwd Peak {unit}",
        f"Bwd Avg {unit}",
        f"Bwd Peak {unit}",
        f"Combined Step {unit}",
        "vs Baseline",
        "Key Finding",
    )


def trend(history: History) -> str:
    """The whole `performance_trend.md`; the text after any round is a prefix of the text after the next."""
    header = columns(cell(figures.metric_unit(history.contract)))
    rows: list[str] = []
    if history.baseline is not None:
        rows.append(_trend_baseline(history, history.baseline.quick))
        rows += [
            render_once(closed, _trend_row, history.contract.scoring, closed).replace(VERSUS, versus(base, closed), 1)
            for closed, base in zip(history.rounds, compute_bases(history), strict=True)
        ]
    return render(
        "performance_trend.v1.md",
        campaign=history.opened.target.campaign,
        metric=cell(history.opened.target.primary_metric),
        header=row(header),
        rule="|" + "---|" * len(header),
        rows=rows,
    )


def _trend_baseline(history: History, run: Benchmark) -> str:
    averages = figures.compute_figures(run.rows, history.contract.scoring)
    backward = history.contract.scoring.combined
    finding = f"bottleneck: {history.baseline.bottleneck}" if history.baseline else ""
    if not backward:
        finding += "; no backward pass: Bwd cells are -, and the combined step is the forward aggregate"
    return row(("1", "BASELINE", "unmodified code", *_numbers(averages), "-", finding))


def _trend_row(scoring: Scoring, closed: RoundClosed) -> str:
    """One attempt's row in `performance_trend.md`: what does not depend on the rounds before."""
    run = figures.candidate(closed)
    averages = figures.compute_figures(run.rows, scoring) if run else None
    level = f" ({run.level}, {len(run.rows)} shapes)" if run else ""
    description = cell(figures.hypothesis(closed).change, 120) + level
    status = "ACCEPTED" if closed.accepted else "ROLLBACK"
    return row((str(closed.round), status, description, *_numbers(averages), VERSUS, finding(closed)))


def _numbers(averages: Figures | None) -> tuple[str, ...]:
    """Cells of the trend: mean and peak of forward and backward, and the step; dashes without any."""
    if averages is None:
        return ("-",) * 5
    return tuple(
        number(value)
        for value in (averages.forward, averages.forward_peak, averages.backward, averages.backward_peak, averages.step)
    )


def versus(base: Product, closed: RoundClosed) -> str:
    """`step +a%` in the logs: the candidate's measured gain times the gains kept in the version that it was compared with."""
    gain = closed.judged.verdict.gain
    if gain is None:
        return "-"
    return f"step {percent(base.speedup * (1 + gain) - 1, 3)}"


def finding(closed: RoundClosed) -> str:
    """In the logs: reason of the verdict, the gain over the best version with its bounds, and what the round taught."""
    verdict = closed.judged.verdict
    gain = (
        "not measured"
        if verdict.gain is None
        else f"{interval(verdict.gain, verdict.lower, verdict.upper)} over the best"
    )
    why = closed.reflection.attribution if closed.accepted else closed.reflection.root_cause or verdict.sentence
    return f"{verdict.reason}; {gain}; {cell(why, 160)}"
