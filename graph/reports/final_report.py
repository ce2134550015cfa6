"""`final_report.md`: what a kernel engineer reads in the morning."""

from collections.abc import Sequence

from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, TestResult
from ridgeline.graph.finding import Finding
from ridgeline.graph.record import Attribution, Champion, Concluded, RoundClosed
from ridgeline.graph.reports import figures
from ridgeline.graph.reports.archive import describe_archive
from ridgeline.graph.reports.machine import against, noise_lines, nothing_to_gain
from ridgeline.graph.reports.result import (
    best_so_far,
    describe_counted,
    describe_money,
    first_screen_markdown,
    readings,
    shapes_note,
    shapes_table,
)
from ridgeline.graph.reports.result import headline as said_of
from ridgeline.graph.reports.rounds import CANDIDATE_COLUMNS, candidate_rows, is_beside_others
from ridgeline.graph.reports.text import cell, command, interval, line, minute, table, times_at_least
from ridgeline.graph.rules.audit import describe_settlement
from ridgeline.graph.rules.champion import find_tried, multiply_gains
from ridgeline.graph.rules.cost import device_minutes, minutes_between
from ridgeline.graph.rules.early_end import note_silent_test
from ridgeline.graph.rules.history import accepted_rounds, next_round, rolled_back_rounds, total_cost
from ridgeline.graph.rules.lessons import check_round
from ridgeline.graph.rules.result import (
    Result,
    attribution_rows,
    broken_links,
    compute_result,
    describe_gap,
    overfit_in_lineage,
)
from ridgeline.graph.standing import History
from ridgeline.graph.values import Cost
from ridgeline.prompts.render import render


def render_final_report(history: History) -> str:
    """The final report; before the end it says at its top that it is not final."""
    opened, ended = history.opened, history.concluded
    return render(
        "final_report.v1.md",
        target=opened.target,
        opened=opened,
        ended=ended,
        time=minute(ended.closed_at) if ended else minute(_latest(history)),
        reason=line(ended.stop_reason) if ended else "",
        satisfied=describe_satisfied(ended) if ended else "",
        rounds=f"{len(history.rounds)} closed",
        first=describe_start(history),
        versus=versus_text(history),
        accepted=len(accepted_rounds(history)),
        rolled_back=len(rolled_back_rounds(history)),
        effective=effective(history),
        ineffective=ineffective(history),
        predictions=predictions(history),
        beside=describe_candidates(history),
        archive=describe_archive(history),
        memory=describe_memory(history),
        next_steps=next_steps(history),
        audit=audit(history),
        overfit=[f"round-{number}" for number in overfit_in_lineage(history)],
        broken=[f"round-{number} ({100 * drop:.1f} %)" for number, drop in broken_links(history)],
        noise=noise_lines(history),
        costs=costs(history),
        suite=_suite(ended.suite) if ended else "runs at the end",
        silent=note_silent_test(history.baseline.test.printed if history.baseline else None),
        environment=environment_table(history),
        ceilings=_ceilings(history),
        roofline=against(history),
        commands=reproduce(history),
        comparison=comparison(history),
        decisions=decisions(history),
        links=_links(history),
    )


def _latest(history: History) -> str:
    """Instant of the latest event, for the final report."""
    if history.rounds:
        return history.rounds[-1].closed_at
    return history.baseline.opened_at if history.baseline else history.opened.target.created


def _suite(suite: TestResult | None) -> str:
    """How the project's test suite ended, in the final report's words."""
    if suite is None:
        return "the contract names none, or nothing was kept"
    return f"{suite.kind} in {suite.seconds:.1f} s" + ("" if suite.passed else f": {line(suite.detail, 300)}")


def environment_table(history: History) -> str:
    """The final report's table of the machine and the settings that the numbers hold for."""
    machine = history.opened.machine
    cores = f", {machine.cores} cores" if machine.kind == "cpu" else ""  # of a card's host nothing is recorded
    caches = (("L1d", machine.l1d_bytes), ("L2", machine.l2_bytes), ("L3", machine.l3_bytes))
    rows = (
        ("Machine", f"{cell(machine.name)} ({machine.kind}, {machine.arch}{cores})"),
        ("Caches", ", ".join(f"{name} {size // 1024} KiB" for name, size in caches if size) or "UNKNOWN"),
        ("Compiler", cell(machine.compiler) if machine.compiler else "UNKNOWN"),
        ("Fingerprint", f"`{machine.fingerprint}`"),
        ("Preset", f"{history.limits.preset} (alpha {history.limits.alpha:g}, margin {history.limits.margin:g})"),
        ("Planner", _describe_planner(history.opened.planner)),
        ("Ridgeline", history.opened.version),
        ("Base commit", f"`{history.opened.base_commit}`"),
    )
    return table(("What", "Value"), rows)


def _describe_planner(planner: str) -> str:
    """The report's cell on who proposed; of recorded answers that they are, and whose the measurements are."""
    again = ": its answers given again, nobody was asked; what is measured here is of this campaign"
    return cell(planner) + (again if planner.startswith("recorded:") else "")


def _ceilings(history: History) -> str:
    """The final report's list of the specifications that the roofline rests on."""
    if history.roofline is None or not history.roofline.specs:
        return "- none were registered"
    return "\n".join(f"- {spec.text}" for spec in history.roofline.specs)


def reproduce(history: History) -> str:
    """The final report's command line for the repository's folder: best version, build, test, benchmark."""
    contract = history.contract
    folder = history.opened.contract_path.rpartition("/")[0]
    steps = [f"git checkout --detach {figures.best_commit(history)}"]
    steps += [f"cd {command((folder,))}"] if folder else []
    if contract.rebuild.required and contract.rebuild.command:
        steps.append(command(contract.rebuild.command))
    steps.append(command(contract.test_command))
    steps.append(command(word.replace("{csv}", "benchmark.csv") for word in contract.benchmark_command))
    return " && ".join(steps)


def comparison(history: History) -> str:
    """The final report's command that times the original against the best version once more; empty where it would not find both."""
    folder, _, name = history.opened.contract_path.rpartition("/")
    base, best = history.opened.base_commit, figures.best_commit(history)
    if base == best:
        return ""
    which = "" if name == "ridgeline.yaml" else f" --contract {command((name,))}"
    return (f"cd {command((folder,))} && " if folder else "") + f"ridgeline bench {base[:12]} {best[:12]}{which}"


def decisions(history: History) -> str:
    """The final report's list of what people decided, or the policy in their place; empty where nobody was asked."""
    decided = [*history.opened.decisions, *(decision for closed in history.rounds for decision in closed.decisions)]
    rows = [
        (
            cell(decision.key.rpartition("-")[0]),
            decision.choice,
            cell(decision.by),
            minute(decision.at),
            cell(decision.reason, 300) or "-",
        )
        for decision in decided
    ]
    replaced = "".join(
        f"\n- {cell(closed.judged.verdict.sentence, 600)}" for closed in history.rounds if closed.replaced
    )
    rendered = table(("Question", "Decision", "By", "At (UTC)", "Reason"), rows) if rows else ""
    return f"{rendered}\n{replaced}" if replaced else rendered


def _links(history: History) -> list[str]:
    """Paths of the files that a reader of the report may want next."""
    links = ["logs/optimize.md", "logs/performance_trend.md", "performance.md", "manifest.yaml", "ledger.jsonl"]
    best = figures.best(history)
    return links + ([f"rounds/round-{best[0]}/summary.md"] if best else [])


# The end of a campaign in tables and lists; shared by the log's last section and the final report.

SHORTEST_IDLE_S = 3.0
"""A pause that would be shown as 0.0 minutes is none."""

MOST_FINDINGS = 40
"""Rows of the table of what the source audit found."""


def termination(history: History, concluded: Concluded) -> str:
    """`### Termination Check` and `## Final Report` as `logs/optimize.md` ends."""
    return render(
        "optimize_end.v1.md",
        time=minute(concluded.closed_at),
        checks=check_lines(concluded),
        satisfied=describe_satisfied(concluded),
        reason=line(concluded.stop_reason),
        headline=headline(history),
        versus=versus_text(history),
        accepted=len(accepted_rounds(history)),
        rolled_back=len(rolled_back_rounds(history)),
        effective=effective(history),
        ineffective=ineffective(history),
        next_steps=next_steps(history),
        audit=audit(history),
    )


def check_lines(concluded: Concluded) -> str:
    """Lines of the report's termination check: T1.. with a tick or a cross."""
    return "\n".join(
        f"- [{'x' if check.satisfied else ' '}] {check.id}: {line(check.description, 300)} "
        f"({'satisfied' if check.satisfied else 'not satisfied'})"
        for check in concluded.checks
    )


def describe_satisfied(concluded: Concluded) -> str:
    """For the report, ids of the conditions that hold, for example `T3`."""
    return ", ".join(check.id for check in concluded.checks if check.satisfied) or "none"


def headline(history: History) -> str:
    """The report's one number: champion against original, from the pre-registered final test; or why there is none."""
    return nothing_to_gain(history) or said_of(compute_result(history))


def describe_start(history: History) -> str:
    """The first screen of every report."""
    return first_screen_markdown(compute_result(history), nothing_to_gain(history))


def versus_text(history: History) -> str:
    """The report's tables of original against best: of the final test, shape by shape; then what the benchmarks read, each at its time."""
    best = figures.best(history)
    if best is None or history.baseline is None:
        return "There is no baseline yet."
    if best[0] == 1:
        return "The original is still the best version: no change was kept."
    result = compute_result(history)
    text = f"{shapes_table(result.final)}\n\n{shapes_note(result.final)}" if result.final else _without_test(result)
    return f"{text}\n\n{_readings(history, best)}"


def _without_test(result: Result) -> str:
    """The report's sentence where a final test is missing."""
    so_far = best_so_far(result)
    return f"There is no final test to compare them by; {so_far}." if result.concluded else f"{so_far.capitalize()}."


def _readings(history: History, best: tuple[int, Benchmark]) -> str:
    """The report's readings of the quick command, and of the project's benchmark where it ran on the best version."""
    baseline, end = history.baseline, history.concluded
    assert baseline is not None
    best_closed = next(closed for closed in history.rounds if closed.round == best[0])
    text = (
        "Readings are single runs at the times named. The machine differs between them, so they are not divided by one "
        f"another. Quick command, original {minute(baseline.opened_at)}, best {minute(best_closed.closed_at)}:\n\n"
        f"{readings(baseline.quick, best[1], history.contract)}"
    )
    if end is None or end.project is None:
        return text
    original, when = baseline.project, minute(baseline.opened_at)
    if end.baseline_again is not None:
        original, when = end.baseline_again, minute(end.closed_at)
    return (
        f"{text}\n\nFull validation with the project's benchmark, original {when}, best {minute(end.closed_at)}:\n\n"
        f"{readings(original, end.project, history.contract)}"
    )


def effective(history: History) -> str:
    """The report's list of every kept change with its gain over the version before it."""
    rows = [
        (
            f"round-{closed.round}",
            cell(figures.hypothesis(closed).change),
            f"{figures.hypothesis(closed).bucket}, {figures.hypothesis(closed).category}",
            interval(closed.judged.verdict.gain, closed.judged.verdict.lower, closed.judged.verdict.upper),
            f"`{closed.commit[:12]}`" if closed.commit else "not committed",
            cell(closed.reflection.attribution),
        )
        for closed in accepted_rounds(history)
    ]
    return (
        table(("Version", "Change", "Kind", "Gain over the best before", "Commit", "Why"), rows)
        if rows
        else "None was kept."
    )


def describe_candidates(history: History) -> str:
    """The report's list of rounds that were tried side by side, by question; empty where each was tried alone."""
    rows = [row for closed in history.rounds if is_beside_others(closed) for row in candidate_rows([closed])]
    if not rows:
        return ""
    firsts = [f"round-{closed.beside}" for closed in history.rounds if is_beside_others(closed)]
    asked = [("" if at and firsts[at - 1] == first else first) for at, first in enumerate(firsts)]
    return table(("Question", *CANDIDATE_COLUMNS), [(first, *row) for first, row in zip(asked, rows, strict=True)])


def describe_memory(history: History) -> list[str]:
    """The report's lines on what earlier campaigns gave and what is new here; none where no champion was found."""
    champions = history.opened.champions
    lines = [f"{_name_champion(champion)}: {_describe_fate(champion, history)}" for champion in champions]
    for words, remembered in (("From memory", True), ("New here", False)):
        if champions and (gain := multiply_gains(history, remembered=remembered)) is not None:
            lines.append(f"{words}: the kept rounds' own gains, multiplied: {gain:.2f}x")
    return lines


def _name_champion(champion: Champion) -> str:
    """The report's words for an earlier campaign's champion with its number."""
    return f"Champion of campaign `{champion.campaign}` ({champion.speedup:.2f}x there, at least {times_at_least(champion.lower, 2)})"


def _describe_fate(champion: Champion, history: History) -> str:
    """The report's words on what became of an earlier campaign's champion here."""
    if champion.mismatch:
        return f"shown as text alone, since it cannot be tried here: {cell(champion.mismatch, 300)}"
    closed = find_tried(champion, history)
    if closed is None:
        return "not tried"
    verdict = closed.judged.verdict
    fate = "kept" if closed.accepted else f"not kept ({verdict.reason})"
    gain = interval(verdict.gain, verdict.lower, verdict.upper)
    return f"judged again here as round-{closed.round}: {fate}, {gain}"


UNTRIED = frozenset({"no_edit", "refused_edit", "no_change", "more_than_one_change"})
"""Why a round ended before there was anything to build of its direction."""


def describe_ineffective(rounds: Sequence[RoundClosed], *, otherwise: str) -> str:
    """The report's table of directions that were tried in vain, then rounds of which no version came about.

    None of a round beside which another was taken. `otherwise`: said where every round was kept.
    """
    failed = [closed for closed in rounds if not (closed.accepted or closed.set_aside)]
    if not failed:
        return otherwise
    rows = [
        (
            cell(figures.hypothesis(closed).change),
            f"round-{closed.round}",
            f"{closed.judged.verdict.reason}: " + cell(closed.reflection.root_cause or closed.judged.verdict.sentence),
        )
        for closed in failed
        if was_ineffective(closed)
    ]
    left = [
        f"round-{closed.round} ({closed.judged.verdict.reason})" for closed in failed if not was_ineffective(closed)
    ]
    told = f"Not tried, so whether their directions help is not known: {', '.join(left)}." if left else ""
    return "\n\n".join(
        part for part in (table(("Direction", "Version", "Failure Reason"), rows) if rows else "", told) if part
    )


def was_ineffective(closed: RoundClosed) -> bool:
    """Whether the report may say that a round's direction did not help: there was a version of it, and nothing was kept of that."""
    return not (closed.accepted or closed.set_aside or closed.judged.verdict.reason in UNTRIED)


def ineffective(history: History) -> str:
    """The report's list of directions that did not help, each with its reason."""
    if any(closed.set_aside for closed in history.rounds):
        beside = "None: what was rolled back was outpaced by a candidate beside it; see the table under Iterations."
        return describe_ineffective(history.rounds, otherwise=beside)
    return describe_ineffective(history.rounds, otherwise="No round was rolled back.")


def next_steps(history: History) -> list[str]:
    """The report's next steps: the three most recent directions that were named and not yet tried, latest first.

    A round that was never measured advises against nothing: it is to be measured.
    """
    tried = {figures.hypothesis(closed).change for closed in history.rounds}
    busy = _describe_load(history)
    directions = [
        closed.reflection.next_direction
        if _was_measured(closed)
        else f"measure on a quiet machine what round {closed.round} could not: {figures.hypothesis(closed).change}{busy}"
        for closed in reversed(history.rounds)
    ]
    if history.reviews:
        directions += list(history.reviews[-1].directions)
    fresh = dict.fromkeys(direction for direction in directions if direction and direction not in tried)
    return [line(direction, 300) for direction in list(fresh)[:3]]


def _was_measured(closed: RoundClosed) -> bool:
    """Whether the report has times of a round: not where it was stopped before, nor where a busy machine took them away."""
    failures = [item for item in figures.evidence(closed.judged) if isinstance(item, BenchmarkFailed)]
    return closed.judged.verdict.gain is not None or not (
        closed.judged.verdict.reason == "stopped" or any(item.reason == "unstable" for item in failures)
    )


def _describe_load(history: History) -> str:
    """The report's remark that the machine was busy, where calibrations had to leave out blocks; else nothing."""
    runs = [event.comparison for event in history.calibrations if event.comparison is not None]
    dropped, timed = sum(run.dropped_blocks for run in runs), sum(run.taken_blocks for run in runs)
    return f" (the machine was busy: {dropped} of {timed} blocks of its calibration were left out)" if dropped else ""


def audit(history: History) -> str:
    """The report's section on where the gain comes from, and what of it a training step would see."""
    result = compute_result(history)
    attribution = result.attribution
    if attribution is None:
        return "Nothing was kept: there is no gain to attribute."
    rows = [tuple(cell(item) for item in entry) for entry in attribution_rows(attribution)]
    header = ("Source", "Buckets", "Benchmark gain", "Real-training-equivalent gain")
    return f"{table(header, rows)}\n\n{_closing(attribution, result, history)}{_sources(history)}"


def _sources(history: History) -> str:
    """The report's lines on what reading the kept changes sends to a closer check; empty where nothing was found."""
    body = [
        (
            f"round-{closed.round}",
            finding.rule,
            cell(f"{finding.path}:{finding.line}"),
            finding.bucket or "-",
            _describe_settlement(finding, history),
        )
        for closed in accepted_rounds(history)
        for finding in _list_findings(closed)
    ]
    if not body:
        return ""
    return "\n\n" + table(("Kept in", "Source audit", "Place", "Bucket", "Settled by"), body[:MOST_FINDINGS])


def _describe_settlement(finding: Finding, history: History) -> str:
    return describe_settlement(finding, history.contract).removeprefix("settled by ")


def _list_findings(closed: RoundClosed) -> tuple[Finding, ...]:
    chosen = figures.applied_of(closed.judged)
    return chosen.audit if chosen else ()


def _closing(attribution: Attribution, result: Result, history: History) -> str:
    """The report's end as a list: headline, real-training equivalent, gap and verdict of the attribution."""
    measured = f"{attribution.headline:+.2f}% (final test)"
    unmeasured = f"none: there is no final test; the kept rounds' gains multiply to {attribution.headline:+.2f}%"
    lines = (
        f"- Headline: {measured if result.final else unmeasured}",
        f"- Real-training equivalent: {attribution.real:+.2f}%",
        f"- Gap: {attribution.gap:+.2f}% of speed ({attribution.method})",
        f"- {_describe_verdict(attribution, result, history)}",
    )
    return "\n".join(lines)


def _describe_verdict(attribution: Attribution, result: Result, history: History) -> str:
    """The report's closing line: what the buckets deny, under the attribution's own name; else whether the whole gain is settled."""
    match attribution.verdict:
        case "clean":
            return f"Whole gain settled: {_describe_settled(attribution, result, history)}"
        case "inflated":
            return (
                f"Attribution verdict: inflated - call out residual of {attribution.gap:+.2f}%:"
                f" {describe_gap(attribution, history)}; no training step is claimed to have it"
            )
        case "rolled-back":
            last_rejected = [closed.round for closed in history.rounds if not closed.accepted][-1:]
            rounds = ", ".join(f"round-{number}" for number in overfit_in_lineage(history) or last_rejected)
            return "Attribution verdict: rolled-back" + (f" - see {rounds}" if rounds else "")


def _describe_settled(attribution: Attribution, result: Result, history: History) -> str:
    """The report's word on whether anything is open about a gain that the declared buckets account for."""
    limit = f"{100 * history.limits.inflation_gap_limit:g}%"
    if result.final is None:
        return "not measured - no final test; by the declared buckets alone no round's gain is the benchmark's own"
    if attribution.gap > 100 * history.limits.inflation_gap_limit:
        reason = f"the gap lies within the final test's own error; {describe_gap(attribution, history)}"
    elif result.unsettled:
        count = len(result.unsettled)
        points = "1 point is" if count == 1 else f"{count} points are"
        reason = f"gap < {limit} by the declared buckets, and {points} open, named at the top"
    else:
        return f"yes, clean - gap < {limit}"
    return f"no - {reason} (`attribution.verdict` of the JSON is about the declared buckets alone)"


def predictions(history: History) -> str:
    """The report's section on how often what was predicted was seen."""
    counted = {"confirmed": 0, "refuted": 0, "unclear": 0}
    for closed in history.rounds:
        check = check_round(closed, history.contract.scoring)
        counted[check.outcome if check else "unclear"] += 1
    return ", ".join(f"{count} {outcome}" for outcome, count in counted.items())


def on_card(history: History, total: Cost) -> tuple[str, str]:
    """The report's time on the card, counted by the leases; of campaigns that did not count them, what it was at most."""
    if total.gpu_seconds:
        return "GPU held", f"{total.gpu_seconds:.1f} s"
    return "GPU time, at most", f"{60 * device_minutes(history, total):.1f} s"


def list_wall_time(history: History, rounds_s: float) -> list[tuple[str, str]]:
    """The report's wall times by two clocks: by the calendar from the baseline on, and of the processes that worked on the campaign.

    rounds_s: of all rounds, by the calendar. What records did not count, and what only the end tells, has no row. A
    process works before the baseline too, so what is left of the calendar's time is the least that none was at work.
    """
    rounds = f"{rounds_s / 60:.1f} min"
    end, baseline = history.concluded, history.baseline
    if end is None or baseline is None:
        return [("Wall time of the rounds", rounds)]
    calendar_s = 60 * minutes_between(baseline.opened_at, end.closed_at)
    rows = [("Wall time from the baseline to the end", f"{calendar_s / 60:.1f} min"), ("Wall time in rounds", rounds)]
    if end.worked_s is None:
        return rows
    idle_s = calendar_s - end.worked_s
    if idle_s >= SHORTEST_IDLE_S:
        text = f"at least {idle_s / 60:.1f} min"
        rows.append(("Wall time with no process at work (waiting for an answer or a resume)", text))
    return [*rows, ("Processes at work, from the start of the command", f"{end.worked_s / 60:.1f} min")]


def costs(history: History) -> str:
    """The report's costs, one line for each kind."""
    total: Cost = total_cost(history)
    dollars = describe_money(total, by_mailbox=history.opened.planner == "mailbox")
    rows = (
        *list_wall_time(history, total.wall_seconds),
        ("Commands", f"{total.command_seconds:.1f} s"),
        on_card(history, total),
        ("Tokens", f"{total.tokens}"),
        ("Money", dollars),
        *list_counted(history),
    )
    return table(("Cost", "Amount"), rows)


def list_counted(history: History) -> list[tuple[str, str]]:
    """The report's row on what its costs leave out; none once all is closed."""
    return [] if history.concluded else [("Counted", describe_counted(next_round(history)))]
