"""`logs/optimize.md`: the story of the campaign, append-only; what changes over time is a new dated section."""

from collections import defaultdict

from ridgeline.graph.contract import Contract
from ridgeline.graph.documents import figures
from ridgeline.graph.documents.conclusion import ineffective_rows, termination
from ridgeline.graph.documents.figures import render_once
from ridgeline.graph.documents.result import product_line
from ridgeline.graph.documents.results import aggregate_table, readings, shape_table
from ridgeline.graph.documents.text import cell, code, command, interval, line, minute, table
from ridgeline.graph.evidence import Benchmark
from ridgeline.graph.record import BaselineClosed, Opened, Restarted, Reviewed, RoundClosed
from ridgeline.graph.rules.result import Product, compute_products
from ridgeline.graph.standing import History
from ridgeline.prompts.render import render


def optimize_log(history: History) -> str:
    """The whole log; the text after any event is a prefix of the text after the next."""
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
    """Reviews and restarts before the first attempt, then each round with what followed it."""
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
    hypothesis, verdict = figures.hypothesis(closed), closed.judged.verdict
    test, run, chosen = figures.test(closed), figures.candidate(closed), figures.applied(closed.judged)
    known = verdict.gain is not None
    gain = f"{interval(verdict.gain, verdict.lower, verdict.upper)} over the best version" if known else "not measured"
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
    if not (closed.accepted or closed.replaced):
        text += f"\n- Ineffective direction: {ineffective} (round-{closed.round})"
    return text + "\n"


def _snapshot(contract: Contract, baseline: BaselineClosed, *since: RoundClosed) -> str:
    """The dated view: readings, directions, and what failed since the view before."""
    closed = since[-1]
    run = figures.candidate(closed)
    return (
        (_read(baseline, run, closed, contract) if run else "Not measured.")
        + f"\n\n## Directions to Try (after round-{closed.round})\n\n"
        + _directions(since)
        + f"\n\n## Verified Ineffective Directions (after round-{closed.round})\n\n"
        + _ineffective(since)
        + "\n"
    )


def _best_after(closed: RoundClosed, so_far: Product) -> str:
    """Its heading and what is known of the best version's gain over the original."""
    return f"\n## Current Best (after round-{closed.round}, {minute(closed.closed_at)})\n\n{product_line(so_far)}\n\n"


def _read(baseline: BaselineClosed, run: Benchmark, closed: RoundClosed, contract: Contract) -> str:
    when = f"original {minute(baseline.opened_at)}, best {minute(closed.closed_at)}"
    return f"Readings of the quick command ({when}):\n\n{readings(baseline.quick, run, contract)}"


def _directions(since: tuple[RoundClosed, ...]) -> str:
    tried = [f"- [x] ~~{line(figures.hypothesis(c).change, 200)}~~ (round-{c.round})" for c in since]
    ahead = since[-1].reflection.next_direction
    return "\n".join([*tried, *([f"- [ ] {line(ahead, 200)}"] if ahead else [])])


def _ineffective(since: tuple[RoundClosed, ...]) -> str:
    rows = ineffective_rows(since)
    return table(("Direction", "Version", "Failure Reason"), rows) if rows else "None since the section before."


def _review(review: Reviewed) -> str:
    lines = "\n".join(f"- [ ] {line(direction, 300)}" for direction in review.directions)
    full = f"- Full validation at the end of the direction: {line(review.full_note, 300)}\n" if review.full_note else ""
    return (
        f"\n### Stagnation review (after round-{review.after_round})\n\n- Trigger: {line(review.trigger)}\n"
        f"- Escalation: {line(review.escalation) or 'none'}\n{full}\nDirections to try:\n\n{lines}\n"
    )


def _restart(restart: Restarted) -> str:
    versions = ", ".join(f"v{version}" for version in restart.masked) or "none"
    return (
        f"\n### Partial restart (after round-{restart.after_round})\n\n- Masked memory: {versions}\n"
        f"- Note: {line(restart.note) or 'none'}\n- The kernel stays at the best version.\n"
    )


def _final(history: History) -> str:
    if history.concluded is None:
        return ""
    return termination(history, history.concluded)
