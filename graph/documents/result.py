"""The result of a campaign in words: the first thing that every page, summary and notification says.

Everything here renders `ridgeline.graph.rules.result.Result`; no number is computed.
"""

from ridgeline.graph.documents.text import cell, clip, code, interval, line, number, percent, table, times
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.rules.result import FinalTest, KeptRound, OpenPoint, Product, Result, ShapeGain
from ridgeline.graph.trial import proposed

MERGE = "Merge"
MOST_ROUNDS = 8
"""Numbers of rounds that one line names."""
LONGEST = 400
"""Characters of any one text of somebody else's."""


def headline(found: Result) -> str:
    """The gain of the best version over the original with its bound and level, or why none is claimed."""
    if found.final is not None:
        test = found.final
        return (
            f"Speedup over the original: {_sure(test)} "
            f"(final test: {test.pairs} interleaved pairs of fresh processes, {len(test.shapes)} shapes)."
        )
    if found.concluded:
        return f"No speedup is claimed: {clip(found.no_claim, LONGEST)}."
    return f"No headline yet: {found.no_claim}. {best_so_far(found).capitalize()}."


def best_so_far(found: Result) -> str:
    """For a line of progress: the final test's number, before it the product of the kept rounds' paired gains."""
    if found.final is not None:
        return f"best {_sure(found.final)}"
    return "best so far 1x: the original" if found.product is None else product_line(found.product)


def product_line(so_far: Product) -> str:
    """`best so far 2.915x, at least 2.812x at 96 % confidence, the product of the paired gains of 4 rounds`."""
    if not so_far.kept:
        return "best so far 1x: the original"
    rounds = f"{so_far.kept} round{'s' if so_far.kept > 1 else ''}"
    return f"best so far {_bounded(so_far)}, the product of the paired gains of {rounds}"


def best_in_short(found: Result) -> str:
    """The same for a live line: `best so far 4.15x, at least 3.98x`."""
    if found.final is not None:
        return f"best {times(found.final.speedup, 2)}, at least {times(found.final.lower, 2)}"
    so_far = found.product
    if so_far is None or not so_far.kept:
        return "best so far 1x"
    least = f", at least {times(so_far.lower, 2)}" if so_far.lower is not None else ""
    return f"best so far {times(so_far.speedup, 2)}{least}"


def first_screen(found: Result, costs: str = "", *, said: str = "") -> list[tuple[str, list[str]]]:
    """(heading, lines) of plain text: how much and how sure, what was kept, what is open, why it stopped, cost, merge.

    `costs` stands in the place of the line of costs, `said` in that of the headline, of a campaign that found nothing
    to gain.
    """
    parts = [
        ("Result", [said or headline(found)]),
        (f"Kept {len(found.kept)} of {found.rounds}", [kept_line(one) for one in found.kept]),
        ("Not settled", unsettled_lines(found)),
        ("Stopped", [clip(found.stop_reason, LONGEST) or "not yet"]),
        ("Cost", [costs or cost_line(found)]),
        (MERGE, list(found.merge)),
    ]
    return [(name, lines) for name, lines in parts if lines]


def first_screen_markdown(found: Result, said: str = "") -> str:
    """The same for a page: what comes before everything else."""
    parts = []
    for name, lines in first_screen(found, said=said):
        safe = [code(one) if name == MERGE else line(one, 2 * LONGEST) for one in lines]
        body = safe[0] if name in ("Result", "Stopped", "Cost") else "\n".join(f"- {one}" for one in safe)
        parts.append(body if name == "Result" else f"**{name}**\n\n{body}")
    return "\n\n".join(parts)


def notice(found: Result) -> str:
    """The first screen on a phone, most important first: whoever cuts it cuts its end."""
    told = f"{_sure(found.final)}" if found.final else headline(found).rstrip(".")
    kept = ", ".join(f"{clip(one.change, 40)} {percent(one.gain, 1)}" for one in found.kept)
    parts = [told, f"kept {len(found.kept)} of {found.rounds}{': ' if kept else ''}{kept}"]
    parts += (
        [f"not settled: {', '.join(dict.fromkeys(one.kind for one in found.unsettled))}"] if found.unsettled else []
    )
    return "; ".join((*parts, clip(found.stop_reason, 80), *found.merge[:1]))


def cost_line(found: Result) -> str:
    """`12.3 min in rounds, 240 s of commands, card held 152 s, 12000 tokens, 0.1200 USD`."""
    cost = found.cost
    gpu = f", GPU {60 * found.gpu_minutes:.0f} s at most" if found.gpu_minutes else ""
    gpu = f", card held {cost.gpu_seconds:.0f} s" if cost.gpu_seconds else gpu
    money = "money UNKNOWN (a price was not known)" if cost.dollars is None else f"{cost.dollars:.4f} USD"
    return f"{cost.wall_seconds / 60:.1f} min in rounds, {cost.command_seconds:.0f} s of commands{gpu}, {cost.tokens} tokens, {money}"


def kept_line(one: KeptRound) -> str:
    """`round 3: unroll by 4: +8.40% [+6.10%, +10.70%], commit 0123456789ab`."""
    commit = f"commit {one.commit[:12]}" if one.commit else "not committed to a branch"
    losses = "".join(f"; {loss}" for loss in one.losses)
    return f"round {one.round}: {clip(one.change, 120)}: {interval(one.gain, one.lower, one.upper)}, {commit}{losses}"


def unsettled_lines(found: Result) -> list[str]:
    """`round 2: suspicious: ...`; empty where all is settled."""
    return [f"{_where(one)}{one.kind}: {clip(one.text, LONGEST)}" for one in found.unsettled]


def shapes_table(test: FinalTest) -> str:
    """Original against best, shape by shape, of the final test, and the whole last."""
    body = [
        (cell(shape.label), number(shape.original_us), number(shape.best_us), times(shape.speedup), _range(shape))
        for shape in test.shapes
    ]
    least = f"**at least {times(test.lower)}**" if test.lower is not None else "-"
    whole = ("**geometric mean**", "", "", f"**{times(test.speedup)}**", least)
    return table(("Shape", "original, us", "best, us", "Speedup", "Interval"), [*body, whole])


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
    sentence, change = closed.judged.verdict.sentence, proposed(closed.judged).hypothesis.change
    if not closed.accepted or change in sentence:
        return sentence
    head, dash, why = sentence.partition(" - ")
    return f"{head} - {change}: {why}" if dash else f"{change}: {sentence}"


def _where(one: OpenPoint) -> str:
    if not one.rounds:
        return ""
    more = len(one.rounds) - MOST_ROUNDS
    numbers = ", ".join(map(str, one.rounds[:MOST_ROUNDS])) + (f" and {more} more" if more > 0 else "")
    return f"round{'s' if len(one.rounds) > 1 else ''} {numbers}: "


def _sure(test: FinalTest) -> str:
    least = f", at least {times(test.lower)} at {100 * test.level:g} % confidence" if test.lower is not None else ""
    return f"{times(test.speedup)}{least}"


def _bounded(so_far: Product) -> str:
    least = f", at least {times(so_far.lower)}" if so_far.lower is not None else ", without a bound"
    level = f" at {100 * so_far.level:g} % confidence" if so_far.level is not None else ""
    return f"{times(so_far.speedup)}{least}{level}"


def _range(shape: ShapeGain) -> str:
    if shape.lower is None or shape.upper is None:
        return "-"
    return f"{times(shape.lower)} to {times(shape.upper)}"
