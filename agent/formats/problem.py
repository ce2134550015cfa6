"""A problem of any format as one value, and what a task folder remembers of it so that its answer can go back."""

from typing import Literal

from ridgeline.agent.errors import UserError
from ridgeline.graph.values import Value

Format = Literal["pytorch", "kernelbench", "flashinfer", "gpumode"]
"""`flashinfer` is FlashInfer Trace, and SOL-ExecBench, which has grown out of it."""
ORIGIN_FILE = "origin.json"
"""Name of an `Origin` in a task's folder."""
MOST_TIMED = 6
"""Sizes of a problem that are timed: each takes part in every process pair."""


class FormatError(UserError):
    """A problem that cannot be read, or an answer that cannot be written. One line: file, field, what is wrong, mend."""


class Sizes(Value):
    """What a problem is asked about: one value for each number that its sizes hang on."""

    label: str
    numbers: dict[str, int]
    timed: bool = True
    workloads: tuple[str, ...] = ()
    """Of FlashInfer Trace: the workloads with these sizes, each as JSON."""


class Problem(Value):
    """A file of PyTorch with get_inputs(), and the sizes that it is asked about."""

    format: Format
    name: str
    text: str
    """The file: a function or module, `get_inputs()`, and for a module `get_init_inputs()`."""
    file: str
    """How messages call it."""
    entry: str | None = None
    """Function or module of `text`; None where there is only one, or `Model`."""
    knobs: tuple[str, ...] | None = None
    """Numbers of `text` that sizes may hang on; None where any may."""
    sizes: tuple[Sizes, ...] = ()
    """Empty where the file has its own alone. The first has the numbers that stand in `text`."""
    notes: tuple[str, ...] = ()
    """What was assumed, one line each."""
    original: str = ""
    """The definition as it was, in JSON, where the format has one."""


class OriginArray(Value):
    """What an input of the task is to the problem that it was made from."""

    name: str
    place: str = ""
    """Where it stands in the arguments, as Python behind their name, for example `[0]['weight']`."""
    state: str = ""
    """Dotted name of the parameter or buffer that it stands for."""


class Origin(Value):
    """Beside a task: what it was made from."""

    format: Format
    name: str
    entry: str
    text: str
    original: str = ""
    arrays: tuple[OriginArray, ...]
    answer: str = ""
    """What is put behind the text of an answer in that format to make it a candidate of the task."""
    answer_out: str = ""
    """The same for an answer that is given its outputs."""
    sizes: tuple[Sizes, ...] = ()


def choose_sizes(sizes: tuple[Sizes, ...]) -> tuple[tuple[Sizes, ...], str]:
    """At most `MOST_TIMED` timed sizes of a foreign problem, from the smallest to the largest, the others left out; and a note of that."""
    timed = sorted((each for each in sizes if each.timed), key=lambda each: sorted(each.numbers.values(), reverse=True))
    if len(timed) <= MOST_TIMED:
        return sizes, ""
    places = {round(step * (len(timed) - 1) / (MOST_TIMED - 1)) for step in range(MOST_TIMED)}
    chosen = {timed[place].label for place in places}
    left = [each for each in sizes if not each.timed or each.label in chosen]
    return tuple(left), f"{MOST_TIMED} of {len(timed)} sizes are timed: {', '.join(sorted(chosen))}"
