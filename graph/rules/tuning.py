"""A declared sweep over several parameters inside one round: which point is tried next, and which one goes on.

The screen's numbers choose and prove nothing: what is chosen is built, tested and timed on fresh pairs as any candidate,
at the error rate of one.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product

from ridgeline.graph.evidence import Comparison
from ridgeline.graph.trial import Point
from ridgeline.graph.values import FileEdit, Parameter, add_up
from ridgeline.knowledge.steps import Constant
from ridgeline.knowledge.sweeps import set_constant

Settings = tuple[tuple[str, int], ...]
FIRST_SCREEN_PAIR = 100_000
"""Numbers of a screen's pairs begin here, so that the gate's pairs are others."""


def choose_point(tuning: Sequence[Parameter], tried: Sequence[Point], most: int) -> Settings | None:
    """The rule of a round's parameter sweep: the next point; None where `most` were tried or none is left.

    All of them where they are no more than `most`. Else the middle first, and then from the best point so far one
    parameter to a value beside it, one after the other: it ends where no neighbour is better.
    """
    if len(tried) >= most:
        return None
    known = {point.settings for point in tried}
    if math.prod(len(parameter.values) for parameter in tuning) <= most:
        names = [parameter.name for parameter in tuning]
        everything = (tuple(zip(names, values, strict=True)) for values in product(*(item.values for item in tuning)))
        return next((settings for settings in everything if settings not in known), None)
    middle = tuple((parameter.name, parameter.values[len(parameter.values) // 2]) for parameter in tuning)
    if middle not in known:
        return middle
    best = find_best_point(tried)
    centre = best.settings if best else middle
    return next((settings for settings in _list_neighbours(tuning, centre) if settings not in known), None)


def _list_neighbours(tuning: Sequence[Parameter], centre: Settings) -> list[Settings]:
    """In a round's parameter sweep: one parameter moved to a value beside it: all ups and downs of the first, then the next."""
    neighbours: list[Settings] = []
    for place, parameter in enumerate(tuning):
        at = parameter.values.index(centre[place][1])
        for beside in (at + 1, at - 1):
            if 0 <= beside < len(parameter.values):
                moved = (parameter.name, parameter.values[beside])
                neighbours.append((*centre[:place], moved, *centre[place + 1 :]))
    return neighbours


def find_best_point(points: Sequence[Point]) -> Point | None:
    """The rule of a round's parameter sweep: the fastest point that can be used; the first of equals. None where none can."""
    usable = [point for point in points if point.gain is not None]
    return max(usable, key=lambda point: point.gain or 0.0, default=None)


def set_point(texts: Mapping[str, str | None], settings: Settings) -> tuple[FileEdit, ...]:
    """In a round's parameter sweep: the files with every parameter at the point's value; a file that is deleted stays so."""
    edits: list[FileEdit] = []
    for path, text in sorted(texts.items()):
        new = text
        for name, value in settings if text is not None else ():
            for form in ("define", "assigned", "keyword"):
                step = Constant(names=name, form=form, ladder=(0, 1))
                new = set_constant(new or "", step, target={name: value})
        edits.append(FileEdit(path=path, text=new))
    return tuple(edits)


def read_gain(run: Comparison) -> float:
    """In a round's parameter sweep: weighted geometric mean over shapes of the pair's blocks, as a share."""
    total = add_up(shape.weight for shape in run.shapes)
    means = (shape.weight * _mean([block for pair in shape.pairs for block in pair]) for shape in run.shapes)
    return math.expm1(add_up(means) / total)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def describe_points(points: Sequence[Point]) -> str:
    """A round's parameter sweep in a sentence: how many, how many could not be used, and the best one by the screen."""
    best = find_best_point(points)
    invalid = sum(point.gain is None for point in points)
    if best is None or best.gain is None:
        return f"Swept {len(points)} points, none of which can be used."
    where = describe_settings(best.settings)
    return f"Swept {len(points)} points, {invalid} of them unusable; best by one pair: {where} ({best.gain:+.1%})."


def describe_settings(settings: Settings) -> str:
    """A point of a round's parameter sweep in words, for example `TILE=8, UNROLL=4`."""
    return ", ".join(f"{name}={value}" for name, value in settings)
