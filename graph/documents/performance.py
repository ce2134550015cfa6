"""`performance.md`: the baseline and what was kept, nothing else; at the end of some campaigns a Stop Summary."""

from ridgeline.graph.contract import Contract
from ridgeline.graph.documents import figures
from ridgeline.graph.documents.figures import render_once
from ridgeline.graph.documents.text import cell, code, command, interval, line, minute, number, percent, quantity, row
from ridgeline.graph.evidence import Benchmark, Profiled
from ridgeline.graph.record import BaselineClosed, Opened, RoundClosed
from ridgeline.graph.rules.history import accepted_rounds
from ridgeline.graph.rules.stagnation import Regression, recent_regressions
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Drafted, find
from ridgeline.prompts.render import render

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
    """Rules 15.4: ten columns, status `baseline` or `keep`."""
    contract = history.contract
    rows = [] if history.baseline is None else [_baseline(history.opened, history.baseline)]
    rows += [render_once(closed, _keep, contract, closed) for closed in accepted_rounds(history)]
    return render(
        "performance.v1.md",
        campaign=history.opened.target.campaign,
        header=row(COLUMNS),
        rule="|" + "---|" * len(COLUMNS),
        rows=rows,
        stop=_stop_summary(history),
    )


def _shared(contract: Contract, run: Benchmark | None, profile: Profiled | None) -> tuple[str, str, str]:
    """Kernel, script us, GPU time: times of one call in microseconds, a dash where nothing measured them."""
    kernel = contract.profile.kernel if contract.profile and contract.profile.kernel else contract.kernel_source[0]
    time = figures.time_us(run.rows, contract.scoring) if run else None
    return cell(kernel), number(time), number(profile.counter("kernel_time_us") if profile else None)


def _baseline(opened: Opened, baseline: BaselineClosed) -> str:
    kernel, script, gpu = _shared(opened.contract, baseline.quick, baseline.profile)
    bench = code(command(opened.contract.quick_command), 160)
    start = (minute(baseline.opened_at), f"`{opened.base_commit[:12]}`", "baseline", bench)
    return row((*start, "all classes", kernel, script, gpu, "-", f"bottleneck: {baseline.bottleneck}; unmodified code"))


def _keep(contract: Contract, closed: RoundClosed) -> str:
    hypothesis, verdict = figures.hypothesis(closed), closed.judged.verdict
    kernel, script, gpu = _shared(contract, figures.candidate(closed), figures.profile(closed))
    chosen, drafted = figures.applied(closed.judged), find(closed.judged, Drafted)
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
    found = figures.best(history)
    best = figures.of(found[1].rows, history.contract.scoring) if found else None
    return render(
        "stop_summary.v1.md",
        time=minute(ended.closed_at),
        reason="; ".join(reasons),
        detail=line(ended.stop_reason),
        commit=figures.best_commit(history),
        metric=cell(history.opened.target.primary_metric),
        aggregate=number(best.step if best else None),
        time_us=number(figures.time_us(found[1].rows, history.contract.scoring) if found else None),
        regressions=[_regression(history, item) for item in _recent(history)],
    )


def _recent(history: History) -> tuple[Regression, ...]:
    return recent_regressions(
        history.rounds, history.limits, baseline=history.baseline, scoring=history.contract.scoring
    )


def _regression(history: History, item: Regression) -> str:
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
