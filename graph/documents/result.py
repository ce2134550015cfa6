"""The result of a campaign in words: the first thing that every page, summary and notification says.

Everything here renders `ridgeline.graph.policy.result.Result`; no number is computed.
"""

from ridgeline.graph.documents.text import cell, clip, interval, line, number, table, times
from ridgeline.graph.policy.result import FinalTest, Kept, Product, Result, ShapeGain, Unsettled
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.trial import proposed


def headline(found: Result) -> str:
    """The gain of the best version over the original with its bound and level, or why none is claimed."""
    if found.final is not None:
        test = found.final
        return (
            f"Speedup over the original: {_sure(test)} "
            f"(final test: {test.pairs} interleaved pairs of fresh processes, {len(test.shapes)} shapes)."
        )
    if found.concluded:
        return f"No speedup is claimed: {line(found.no_claim)}."
    return f"No headline yet: {found.no_claim}. {best_so_far(found).capitalize()}."


def best_so_far(found: Result) -> str:
    """For a line of progress: the final test's number, before it the product of the kept rounds' paired gains."""
    if found.final is not None:
        return f"best {_sure(found.final)}"
    so_far = found.product
    if so_far is None or not so_far.kept:
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


def first_screen(found: Result, costs: str = "") -> list[tuple[str, list[str]]]:
    """(heading, lines) of plain text: what was kept, how sure, what is not settled, why it stopped, cost, how to merge.

    `costs`: one line of what it cost; `ridgeline.graph.documents.conclusion.cost_line` makes it.
    """
    parts = [
        ("Result", [headline(found)]),
        (f"Kept {len(found.kept)} of {found.rounds}", [kept_line(one) for one in found.kept]),
        ("Not settled", unsettled_lines(found)),
        ("Stopped", [line(found.stop_reason) or "not yet"]),
        ("Cost", [costs] if costs else []),
        ("Merge", list(found.merge)),
    ]
    return [(name, lines) for name, lines in parts if lines]


def kept_line(one: Kept) -> str:
    """`round 3: unroll by 4: +8.40% [+6.10%, +10.70%], commit 0123456789ab`."""
    commit = f"commit {one.commit[:12]}" if one.commit else "not committed to a branch"
    losses = "".join(f"; {loss}" for loss in one.losses)
    return f"round {one.round}: {clip(one.change, 120)}: {interval(one.gain, one.lower, one.upper)}, {commit}{losses}"


def unsettled_lines(found: Result) -> list[str]:
    """`round 2: suspicious: ...`; empty where all is settled."""
    return [f"{_where(one)}{one.kind}: {line(one.text, 300)}" for one in found.unsettled]


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
        f"Final test, {test.engine} clock, {test.pairs} pairs: times are medians of one call; the interval of each "
        f"shape holds for all shapes together at {level} confidence, the bound of the whole by itself."
    )


def accepted_line(closed: RoundClosed) -> str:
    """The verdict's sentence, which names the change also where the round was kept."""
    sentence, change = closed.judged.verdict.sentence, proposed(closed.judged).hypothesis.change
    if not closed.accepted or change in sentence:
        return sentence
    head, dash, why = sentence.partition(" - ")
    return f"{head} - {change}: {why}" if dash else f"{change}: {sentence}"


def _where(one: Unsettled) -> str:
    if not one.rounds:
        return ""
    return f"round{'s' if len(one.rounds) > 1 else ''} {', '.join(map(str, one.rounds))}: "


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
