"""Defects of a task, as `ridgeline judge lint` tells them."""

from collections.abc import Sequence
from typing import Literal

from ridgeline.graph.task import Task
from ridgeline.graph.values import Value

Rule = Literal[
    "constant-output",
    "partly-constant",
    "tiny-range",
    "insensitive-input",
    "init-dependent",
    "unrepeatable",
    "wrong-shape",
    "not-finite",
    "narrow-oracle",
    "far-oracle",
    "no-answer",
    "arbitrary-ties",
    "rounding-decides",
    "unknown-work",
    "broken-baseline",
    "too-short",
]
"""measurement 2.5, task lint: the filters with which METR and robust-kbench took out a sixth of KernelBench."""


class Hole(Value):
    """One defect of a task. A `wrong` one lets a wrong kernel pass or refuses a right one; others weaken the judge."""

    rule: Rule
    wrong: bool
    text: str
    """One line: where, what, mend."""
    about: str | None = None
    """The input that it is about, if it is about one."""


UNREAD = ("insensitive-input", "init-dependent")


def stopping(task: Task, holes: Sequence[Hole]) -> tuple[Hole, ...]:
    """Those of the holes for which nobody should be told that a kernel of this task is right.

    An input without effect, such as a bias ahead of a normalization, is none of them: a kernel that leaves it out is
    right. It is one if no input that changes from call to call has an effect.
    """
    changing = {one.name for one in task.inputs if one.constness != "const"}
    idle = {one.about for one in holes if one.rule == "insensitive-input"}
    return tuple(one for one in holes if one.wrong and (one.rule not in UNREAD or changing <= idle))
