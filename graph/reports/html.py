"""The final report as one self-contained page: result, how sure, what was tried, what it cost, how to repeat it."""

from collections.abc import Mapping, Sequence
from functools import cache

from markupsafe import Markup

from ridgeline.graph.record import RoundClosed
from ridgeline.graph.reports import figures, final_report
from ridgeline.graph.reports.archive import describe_archive
from ridgeline.graph.reports.final_report import (
    comparison,
    decisions,
    describe_candidates,
    describe_memory,
    environment_table,
    reproduce,
)
from ridgeline.graph.reports.machine import against, ceiling_lines, noise_lines
from ridgeline.graph.reports.markdown import diff, markdown, plain
from ridgeline.graph.reports.plots import roofline_plot, trend_plot
from ridgeline.graph.reports.result import PRODUCT, describe_money
from ridgeline.graph.reports.text import cell, interval, line, minute, number, quantity, table, times, times_at_least
from ridgeline.graph.rules.cost import device_minutes
from ridgeline.graph.rules.history import accepted_rounds, total_cost
from ridgeline.graph.rules.lessons import check_round
from ridgeline.graph.rules.readings import is_left_unmeasured
from ridgeline.graph.rules.result import Claim, claim_speedup, compute_result
from ridgeline.graph.standing import History
from ridgeline.graph.values import Cost, Value
from ridgeline.prompts.render import render

STYLE = "page.v1.css"


class Part(Value):
    """A heading, what it links to, and the HTML below it."""

    name: str
    heading: str
    html: str


class Attempt(Value):
    """One round, folded away until somebody wants to read it."""

    round: int
    accepted: bool
    change: str
    outcome: str
    html: str


@cache
def style() -> str:
    """The one style sheet of every page."""
    return render(STYLE)


def report_html(history: History, *, diffs: Mapping[int, str], head: str = "") -> str:
    """The whole page. `diffs`: the change of each round as a unified diff; `head`: sha256 of the ledger's last line."""
    opened, ended = history.opened, history.concluded
    return render(
        "report.v1.html",
        style=Markup(style()),
        title=f"{opened.target.target_op} ({opened.target.target_backend}) on {opened.machine.name}",
        campaign=opened.target.campaign,
        final=ended is not None,
        reason=line(ended.stop_reason) if ended else "",
        created=opened.target.created,
        closed=minute(ended.closed_at) if ended else "",
        first=markdown(final_report.describe_start(history)),
        facts=facts(history),
        parts=[_render_part(part) for part in _parts(history)],
        tried=[(attempt, Markup(attempt.html)) for attempt in _list_attempts(history, diffs)],
        version=opened.version,
        head=head,
    )


def facts(history: History) -> list[tuple[str, str]]:
    """The numbers that a reader of the HTML report looks for first."""
    spent = _spent(history)
    count = len(accepted_rounds(history))
    claim = claim_speedup(compute_result(history))
    speed = _list_claim(claim, kept=count) if claim else []
    return [
        *speed,
        ("Kept", f"{count} of {len(history.rounds)}"),
        ("Predictions", final_report.predictions(history)),
        *final_report.list_wall_time(history, spent.wall_seconds),
        final_report.on_card(history, spent),
        ("Tokens", f"{spent.tokens}"),
        ("Money", describe_money(spent, by_mailbox=history.opened.planner == "mailbox")),
        *final_report.list_counted(history),
    ]


def _list_claim(claim: Claim, *, kept: int) -> list[tuple[str, str]]:
    level = f" ({100 * claim.level:g} % confidence)" if claim.level is not None else ""
    name = "Speedup" if claim.from_final else PRODUCT.capitalize() if kept else "Best so far"
    return [(name, times(claim.speedup)), *([(f"at least{level}", times_at_least(claim.lower))] if claim.lower else [])]


def _spent(history: History) -> Cost:
    """Cost of the campaign so far; none before the baseline."""
    return total_cost(history) if history.baseline else Cost()


def _render_part(part: Part) -> tuple[str, str, Markup]:
    return part.name, part.heading, Markup(part.html)


def _parts(history: History) -> list[Part]:
    """Everything of the HTML report below the result except the rounds themselves."""
    trend = trend_plot(history) + Markup("<p class=legend>{}</p>").format(
        "Line: the best version. Filled: kept, hollow: rolled back, cross: ended before a measurement. Bars are the"
        " confidence interval of a candidate against the version that was best then; the diamond is the final test of"
        " champion against original. Rounds multiply gains measured at different times, the final test does not."
    )
    parts = [
        ("sure", "How sure", markdown(_describe_certainty(history))),
        ("course", "Course", trend if history.rounds else markdown("No round has closed yet.")),
        ("versus", "Original against best", markdown(final_report.versus_text(history))),
        ("roofline", "Roofline", _roofline(history)),
        ("kept", "What was kept", markdown(final_report.effective(history))),
        *([("beside", "Tried side by side", markdown(beside))] if (beside := describe_candidates(history)) else []),
        *([("archive", "Archive", markdown(archive))] if (archive := describe_archive(history)) else []),
        *(
            [("memory", "Warm start", markdown("\n".join(f"- {item}" for item in memory)))]
            if (memory := describe_memory(history))
            else []
        ),
        ("lost", "What did not work", markdown(describe_losses(history))),
        ("predictions", "Predictions against measurements", markdown(describe_predictions(history))),
        ("audit", "Where the gain comes from", markdown(final_report.audit(history))),
        ("stop", "Why it stopped", markdown(_describe_stop(history))),
        *([("people", "What people decided", markdown(people))] if (people := decisions(history)) else []),
        ("costs", "Costs", markdown(f"{final_report.costs(history)}\n\n{cost_rows(history)}")),
        ("environment", "Environment", markdown(environment_table(history))),
        ("reproduce", "Reproduce", _render_reproduction(history)),
    ]
    return [Part(name=name, heading=heading, html=str(html)) for name, heading, html in parts]


def _describe_certainty(history: History) -> str:
    limits, conclusion = history.limits, history.concluded
    texts = [
        f"- Preset `{limits.preset}`: alpha {limits.alpha:g}, margin {100 * limits.margin:g} %.",
        *(f"- {item}" for item in noise_lines(history)),
    ]
    if conclusion and conclusion.final:
        pairs = max(len(shape.pairs) for shape in conclusion.final.shapes)
        texts.append(
            f"- Final test: champion against original, interleaved, {pairs} fresh process pairs on"
            f" {len(conclusion.final.shapes)} shapes, {conclusion.final.engine} clock, {conclusion.final.dropped_blocks} blocks dropped."
        )
    if conclusion and conclusion.suite:
        texts.append(f"- The project's full test suite on the best version: {conclusion.suite.kind}.")
    return "\n".join(texts)


def _describe_stop(history: History) -> str:
    conclusion = history.concluded
    return final_report.check_lines(conclusion) if conclusion else "The campaign has not concluded."


def _roofline(history: History) -> Markup:
    """The HTML report's part on ceilings: plot, legend, list of ceilings, shapes against them."""
    lines = "\n".join(f"- {item}" for item in ceiling_lines(history))
    plot = roofline_plot(history)
    note = (
        Markup("<p class=legend>{}</p>").format("Hollow: the original. Filled: the best version. A shape a point.")
        if plot
        else Markup("")
    )
    return plot + note + markdown(f"{lines}\n\n{against(history)}")


def describe_losses(history: History) -> str:
    """The HTML report's list of hypotheses that were rolled back, with what each was measured at and why it did not help."""
    rows = [
        (
            f"round-{closed.round}",
            cell(figures.hypothesis(closed).change),
            closed.judged.verdict.reason,
            interval(closed.judged.verdict.gain, closed.judged.verdict.lower, closed.judged.verdict.upper),
            cell(closed.reflection.root_cause or closed.judged.verdict.sentence),
        )
        for closed in history.rounds
        if not (closed.accepted or is_left_unmeasured(closed.judged))
    ]
    header = ("Round", "Change", "Reason", "Measured", "Why it did not help")
    unknown = [f"round-{closed.round}" for closed in history.rounds if is_left_unmeasured(closed.judged)]
    note = (
        f"The machine was too busy to time {', '.join(unknown)}: nothing is known of what they changed."
        if unknown
        else ""
    )
    if not rows:
        return note or "No round was rolled back."
    return "\n\n".join(filter(None, (table(header, rows), note)))


def describe_predictions(history: History, rounds: Sequence[RoundClosed] | None = None) -> str:
    """The HTML report's list of what every hypothesis said would be seen, beside what was; `rounds`: only those."""
    if not history.rounds:
        return "Nothing was predicted yet."
    header = ("Round", "Counter", "Predicted", "Before", "After", "Outcome", "Speedup said", "Gain measured")
    rows = []
    for closed in history.rounds if rounds is None else rounds:
        prediction, verdict = figures.hypothesis(closed).prediction, closed.judged.verdict
        check = check_round(closed, history.contract.scoring)
        size = f" to {prediction.ratio:g}x" if prediction.ratio is not None else ""
        rows.append(
            (
                f"round-{closed.round}",
                cell(prediction.counter),
                f"{prediction.direction}{size}",
                quantity(check.before if check else None),
                quantity(check.after if check else None),
                check.outcome if check else "not checked",
                times(prediction.speedup),
                interval(verdict.gain, verdict.lower, verdict.upper),
            )
        )
    return f"{final_report.predictions(history)}.\n\n{table(header, rows)}"


def cost_rows(history: History, rounds: Sequence[RoundClosed] | None = None) -> str:
    """The HTML report's rows of what each hypothesis cost; `rounds`: only those."""
    if not history.rounds:
        return ""
    rows = [
        (
            f"round-{closed.round}",
            f"{closed.cost.tokens}",
            number(closed.cost.dollars, 4) if closed.cost.dollars is not None else "UNKNOWN",
            number(closed.cost.command_seconds, 1),
            number(60 * device_minutes(history, closed.cost), 1),
            number(closed.cost.wall_seconds, 1),
        )
        for closed in (history.rounds if rounds is None else rounds)
    ]
    return table(("Round", "Tokens", "USD", "Commands s", "GPU s", "Wall s"), rows)


def _render_reproduction(history: History) -> Markup:
    block = Markup("<p>In a checkout of <code>{}</code>:</p><pre>{}</pre>").format(
        plain(history.opened.repository), plain(reproduce(history))
    )
    if command := comparison(history):
        text = "The gain itself, original against best, interleaved in fresh processes:"
        block += Markup("<p>{}</p><pre>{}</pre>").format(text, plain(command))
    return block


def _list_attempts(history: History, diffs: Mapping[int, str]) -> list[Attempt]:
    return [_round(closed, diffs.get(closed.round, "")) for closed in history.rounds]


def _round(closed: RoundClosed, change: str) -> Attempt:
    """A closed round in the HTML report with its diff, ready to be folded away."""
    hypothesis, verdict = figures.hypothesis(closed), closed.judged.verdict
    rows = [
        ("Claim", cell(hypothesis.claim, 600)),
        ("Lever", cell(hypothesis.lever)),
        ("Kind", f"{hypothesis.category}, bucket {hypothesis.bucket}"),
        ("Verdict", cell(verdict.sentence, 600)),
        ("Checked", f"correct: {verdict.correct}, faster: {verdict.faster}, own work: {verdict.own_work}"),
        *(("Evidence", cell(item, 600)) for item in hypothesis.evidence),
        *(("Note", cell(note, 600)) for note in verdict.notes),
        *(
            ("Decided", cell(f"{decision.choice} by {decision.by} at {decision.at} {decision.reason}", 600))
            for decision in closed.decisions
        ),
    ]
    change_html = diff(change) if change else Markup("<p>{}</p>").format("No change to show.")
    return Attempt(
        round=closed.round,
        accepted=closed.accepted,
        change=hypothesis.change[:300],
        outcome=f"{verdict.reason}, {interval(verdict.gain, verdict.lower, verdict.upper)}",
        html=str(markdown(table(("", ""), rows)) + change_html),
    )
