"""The result of a campaign in words: the first thing that every page, summary and notification says.

Everything here renders `ridgeline.graph.rules.result.Result`; no number is computed.
"""

from collections.abc import Iterable, Sequence

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Benchmark, Row
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.reports import figures
from ridgeline.graph.reports.text import (
    cell,
    clip,
    code,
    interval,
    line,
    number,
    percent,
    quantity,
    table,
    times,
    times_at_least,
)
from ridgeline.graph.rules.result import FinalTest, KeptRound, OpenPoint, Product, Result, ShapeGain
from ridgeline.graph.trial import find_proposal
from ridgeline.graph.values import Cost
from ridgeline.graph.verdict import ShapeChange, Verdict

MERGE = "Merge"
ORIGINAL = "best so far 1x: the original"
NOT_YET = "not tested yet"
PRODUCT = f"product of kept rounds, {NOT_YET}"
"""What a number before the final test is: gains of rounds that were each chosen for being large, multiplied."""
MOST_ROUNDS = 8
"""Numbers of rounds that one line names."""
LONGEST = 400
"""Characters of any one text of somebody else's."""


def headline(result: Result) -> str:
    """The result's first line: the gain of the best version over the original with its bound and level, or why none is claimed."""
    if result.final is not None:
        test = result.final
        return (
            f"Speedup over the original: {_describe_certainty(test)} "
            f"(final test: {test.pairs} interleaved pairs of fresh processes, {len(test.shapes)} shapes)."
        )
    if result.concluded:
        again = f" {say_final_again(result)}" if result.kept else ""
        return f"No speedup is claimed: {clip(result.no_claim, LONGEST)}.{again}"
    return f"No headline yet: {result.no_claim}. {best_so_far(result).capitalize()}."


def say_final_again(result: Result) -> str:
    """How the comparison of original and best version is repeated alone, in a campaign whose final test gave no number."""
    busy = "The machine was busy; on a quiet one, " if "(unstable)" in result.no_claim else "In the project's folder, "
    return (
        f"{busy}`ridgeline bench commit:{result.base_commit[:12]} commit:{result.best_commit[:12]}` repeats the test."
    )


def best_so_far(result: Result) -> str:
    """The result for a line of progress: the final test's number, before it the product of the kept rounds' paired gains."""
    if result.final is not None:
        return f"best {_describe_certainty(result.final)}"
    if result.product is None:
        return ORIGINAL
    return product_line(result.product, untested="no final test" if result.concluded else NOT_YET)


def product_line(so_far: Product, *, untested: str = NOT_YET) -> str:
    """The result before the final test: `product of 4 kept rounds, not tested yet: 2.915x, at least 2.812x at 96 % confidence`."""
    if not so_far.kept:
        return ORIGINAL
    rounds = f"{so_far.kept} kept round{'s' if so_far.kept > 1 else ''}"
    return f"product of {rounds}, {untested}: {_format_bound(so_far)}"


def best_in_short(result: Result) -> str:
    """The result for a live line: `product of kept rounds, not tested yet: 4.15x, at least 3.98x`; in the end the final test's."""
    if result.final is not None:
        least = f", at least {times_at_least(result.final.lower, 2)}" if result.final.lower is not None else ""
        return f"final test {times(result.final.speedup, 2)}{least}"
    so_far = result.product
    if so_far is None or not so_far.kept:
        return "best so far 1x"
    if result.concluded:
        return "no final test, so no speedup is claimed"
    least = f", at least {times_at_least(so_far.lower, 2)}" if so_far.lower is not None else ""
    return f"{PRODUCT}: {times(so_far.speedup, 2)}{least}"


def first_screen(result: Result, *, opening: str = "") -> list[tuple[str, list[str]]]:
    """(heading, lines) of plain text: how much and how sure, what was kept, what is open, why it stopped, cost, merge.

    `opening` stands in the place of the headline, of a campaign that found nothing to gain.
    """
    parts = [
        ("Result", [opening or headline(result)]),
        (f"Kept {len(result.kept)} of {result.rounds}", [kept_line(entry) for entry in result.kept]),
        ("Not settled", unsettled_lines(result)),
        ("Stopped", [clip(result.stop_reason, LONGEST) or "not yet"]),
        ("Cost", [cost_line(result)]),
        (MERGE, list(result.merge)),
    ]
    return [(name, lines) for name, lines in parts if lines]


def first_screen_markdown(result: Result, opening: str = "") -> str:
    """The result's first screen for a page: what comes before everything else."""
    parts = []
    for name, lines in first_screen(result, opening=opening):
        safe = [code(text) if name == MERGE else line(text, 2 * LONGEST) for text in lines]
        body = safe[0] if name in ("Result", "Stopped", "Cost") else "\n".join(f"- {text}" for text in safe)
        parts.append(body if name == "Result" else f"**{name}**\n\n{body}")
    return "\n\n".join(parts)


def notice(result: Result) -> str:
    """The first screen on a phone, most important first: whoever cuts it cuts its end."""
    gain = f"{_describe_certainty(result.final)}" if result.final else headline(result).rstrip(".")
    changes = ", ".join(f"{clip(entry.change, 40)} {percent(entry.gain, 1)}" for entry in result.kept)
    parts = [gain, f"kept {len(result.kept)} of {result.rounds}{': ' if changes else ''}{changes}"]
    parts += (
        [f"not settled: {', '.join(dict.fromkeys(point.kind for point in result.unsettled))}"]
        if result.unsettled
        else []
    )
    return "; ".join((*parts, clip(result.stop_reason, 80), *result.merge[:1]))


def describe_money(cost: Cost, *, by_mailbox: bool) -> str:
    """Dollars on a report; where no price was known, whether anything was paid from here."""
    if cost.dollars is not None:
        return f"{cost.dollars:.4f} USD"
    return "none (answers by mailbox)" if by_mailbox else "UNKNOWN (a price was not known)"


def cost_line(result: Result) -> str:
    """`12.3 min in rounds, 240 s of commands, card held 152 s, 12000 tokens, 0.1200 USD`, and what that does not count."""
    cost = result.cost
    gpu = f", GPU {60 * result.gpu_minutes:.0f} s at most" if result.gpu_minutes else ""
    gpu = f", card held {cost.gpu_seconds:.0f} s" if cost.gpu_seconds else gpu
    money = describe_money(cost, by_mailbox=result.by_mailbox)
    money = f"money {money}" if cost.dollars is None else money
    rounds = f"{cost.wall_seconds / 60:.1f} min in rounds" + (
        " (waiting for answers counts)" if result.by_mailbox else ""
    )
    counted = f" ({describe_counted(result.uncounted_from)})" if result.uncounted_from is not None else ""
    return f"{rounds}, {cost.command_seconds:.0f} s of commands{gpu}, {cost.tokens} tokens, {money}{counted}"


def describe_counted(uncounted_from: int) -> str:
    """On a report before the end: which costs are counted, and from which round on none are."""
    return f"closed rounds alone: what is open, from round {uncounted_from} on, is not counted"


def kept_line(entry: KeptRound) -> str:
    """`round 3: unroll by 4: +8.40% [+6.10%, +10.70%], commit 0123456789ab`."""
    commit = f"commit {entry.commit[:12]}" if entry.commit else "not committed to a branch"
    losses = "".join(f"; {loss}" for loss in entry.losses)
    gain = interval(entry.gain, entry.lower, entry.upper)
    return f"round {entry.round}: {clip(entry.change, 120)}: {gain}, {commit}{losses}"


def unsettled_lines(result: Result) -> list[str]:
    """Lines on what a result leaves open, such as `round 2: suspicious: ...`; empty where all is settled."""
    return [f"{_where(point)}{point.kind}: {clip(point.text, LONGEST)}" for point in result.unsettled]


def shapes_table(test: FinalTest) -> str:
    """Original against best, shape by shape, of the final test, and the whole last."""
    body = [
        (
            cell(_weighted_label(shape)),
            number(shape.original_us),
            number(shape.best_us),
            times(shape.speedup),
            _range(shape),
        )
        for shape in test.shapes
    ]
    least = f"**at least {times_at_least(test.lower)}**" if test.lower is not None else "-"
    mean = "geometric mean, weighted" if any(shape.weight != 1 for shape in test.shapes) else "geometric mean"
    mean_row = (f"**{mean}**", "", "", f"**{times(test.speedup)}**", least)
    return table(("Shape", "original, us", "best, us", "Speedup", "Interval"), [*body, mean_row])


def _weighted_label(shape: ShapeGain) -> str:
    return shape.label if shape.weight == 1 else f"{shape.label} (weight {shape.weight:g})"


def shapes_note(test: FinalTest) -> str:
    """What the columns of `shapes_table` are."""
    level = f"{100 * test.level:g} %"
    return (
        f"Final test, {test.engine} clock, {test.pairs} pairs: times are medians of one call, the speedup averages "
        f"the ratios within the pairs; the interval of each "
        f"shape holds for all shapes together at {level} confidence, the bound of the whole by itself."
    )


def accepted_line(closed: RoundClosed) -> str:
    """The verdict's sentence, which names the change also where the round was kept."""
    sentence, change = closed.judged.verdict.sentence, find_proposal(closed.judged).hypothesis.change
    if not closed.accepted or change in sentence:
        return sentence
    head, dash, why = sentence.partition(" - ")
    return f"{head} - {change}: {why}" if dash else f"{change}: {sentence}"


def _where(point: OpenPoint) -> str:
    """On a report: the rounds that an open point concerns, as the start of its line; empty for none."""
    if not point.rounds:
        return ""
    more = len(point.rounds) - MOST_ROUNDS
    numbers = ", ".join(map(str, point.rounds[:MOST_ROUNDS])) + (f" and {more} more" if more > 0 else "")
    return f"round{'s' if len(point.rounds) > 1 else ''} {numbers}: "


def _describe_certainty(test: FinalTest) -> str:
    least = (
        f", at least {times_at_least(test.lower)} at {100 * test.level:g} % confidence"
        if test.lower is not None
        else ""
    )
    return f"{times(test.speedup)}{least}"


def _format_bound(so_far: Product) -> str:
    least = f", at least {times_at_least(so_far.lower)}" if so_far.lower is not None else ", without a bound"
    level = f" at {100 * so_far.level:g} % confidence" if so_far.level is not None else ""
    return f"{times(so_far.speedup)}{least}{level}"


def _range(shape: ShapeGain) -> str:
    """On a report: a shape's interval as a cell; a dash without one."""
    if shape.lower is None or shape.upper is None:
        return "-"
    return f"{times(shape.lower)} to {times(shape.upper)}"


# Tables of measured rows: one shape a line, in the columns that the contract declares.


def size_columns(contract: Contract) -> tuple[str, ...]:
    """Columns of a report's table that give a shape's sizes: those between the label and the check."""
    output = contract.benchmark_output
    columns = output.columns
    start, end = columns.index(output.label) + 1, columns.index(output.check)
    return tuple(name for name in columns[start:end] if name != "B")


def metric_columns(contract: Contract) -> tuple[str, ...]:
    """Columns of a report's table worth a reader's eye: forward, backward, other deciding ones, time."""
    scoring = contract.scoring
    candidates = (figures.forward_column(scoring), scoring.backward, *scoring.primary_metric, scoring.time_ms)
    columns = set(contract.benchmark_output.columns)
    return tuple(dict.fromkeys(name for name in candidates if name and name in columns))


def shape_table(rows: Sequence[Row], contract: Contract, verdict: Verdict | None = None) -> str:
    """A report's table: shape, sizes, result, metrics, and the change against the best version with its bounds where they exist."""
    sizes, metrics = size_columns(contract), metric_columns(contract)
    changes = {change.label: change for change in verdict.shapes} if verdict else {}
    header = ("Shape/label", *(cell(name) for name in (*sizes, "Result", *metrics)), "Delta vs current best")
    return table(header, (_cells(item, sizes, metrics, changes.get(item.label)) for item in rows))


def _cells(item: Row, sizes: Iterable[str], metrics: Iterable[str], change: ShapeChange | None) -> tuple[str, ...]:
    """A row's cells in a report's table: label, sizes, check, metrics, and the measured change."""
    values = {counter.name: counter.value for counter in item.metrics}
    config = dict(item.config)
    return (
        cell(item.label),
        *(quantity(values[name]) if name in values else cell(config.get(name, "-")) for name in sizes),
        item.check,
        *(number(values.get(name), 4) for name in metrics),
        interval(change.gain, change.lower, change.upper) if change else "-",
    )


def aggregate_table(
    rows: Sequence[Row], contract: Contract, verdict: Verdict | None = None, so_far: Product | None = None
) -> str:
    """A report's table of geometric means over the PASS rows, and beside the deciding one the gains that were measured.

    `verdict`: of the candidate whose rows these are; `so_far`: the best version's gain before it. Nothing is divided
    here: rows of two runs are of two minutes.
    """
    averages = figures.compute_figures(rows, contract.scoring)
    if averages is None:
        return "No shape passed: there is no aggregate."
    lines: list[tuple[str, float | None]] = [("Forward", averages.forward)]
    if averages.backward is not None:
        lines += [("Backward", averages.backward), ("Combined step", averages.step)]
    gain = verdict.gain if verdict else None
    gain_over_baseline = so_far.speedup * (1 + gain) - 1 if so_far is not None and gain is not None else None
    against_best = interval(gain, verdict.lower, verdict.upper) if verdict else "-"
    cells = [(label, number(value), "-", "-") for label, value in lines]
    cells[-1] = (*cells[-1][:2], percent(gain_over_baseline), against_best)
    text = table(("Aggregate (geomean)", cell(figures.metric_unit(contract)), "vs baseline", "vs current best"), cells)
    if gain_over_baseline is None or so_far is None or not so_far.kept:
        return text
    return f"{text}\n\n`vs baseline` is this gain times the {PRODUCT}."


def readings(baseline: Benchmark, best: Benchmark, contract: Contract) -> str:
    """For a report: what one command read of the original and of the best version, shape by shape, each at its own time."""
    metrics = metric_columns(contract)
    original_rows = {item.label: item for item in figures.passing_rows(baseline.rows)}
    best_rows = {item.label: item for item in figures.passing_rows(best.rows)}
    header = ["Shape"]
    for name in metrics:
        header += [f"{cell(name)}, original", f"{cell(name)}, best"]
    body = [
        (cell(label), *_pairs(item, best_rows[label], metrics))
        for label, item in original_rows.items()
        if label in best_rows
    ]
    return table(header, body)


def _pairs(old: Row, new: Row, metrics: Iterable[str]) -> tuple[str, ...]:
    """For a report: each metric of the original and of the best version, side by side."""
    before = {counter.name: counter.value for counter in old.metrics}
    after = {counter.name: counter.value for counter in new.metrics}
    return tuple(number(side.get(name), 4) for name in metrics for side in (before, after))
