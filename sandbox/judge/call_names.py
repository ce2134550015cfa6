"""Names of judged calls: a refusal says which call it was, and `ridgeline judge replay` makes the same values again."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.inputs import MIXES, NEAR_CHANGES, PARTS, change_one_element, draw, make_probes
from ridgeline.sandbox.judge.pool import InputPool

Arrays = dict[str, NDArray[np.generic]]

REACHES_TRIED = (1.0, 0.5, 0.25, 0.0)
"""How far a mix goes, until the reference has numbers."""
TIMED, PROBES, NEAR = "timed", "probes", "near"
"""Kinds of values besides the mixes: slices of a pool, probes, and calls that differ in one element."""
CARD = "card:"
"""Before the name of a call whose values were drawn on a card: other chance than a processor's."""
NAME = re.compile(
    r"^(?P<card>card:)?(?P<dims>\w+=\d+(,\w+=\d+)*):(?P<values>[^:]+:[0-9a-f]+:\d+)(:(?P<const>[^:]+:[0-9a-f]+:\d+))?$"
)
MENTION = re.compile(r"\(call (\S+)\)")


@dataclass(frozen=True, kw_only=True)
class ValuesName:
    """Values that can be drawn again.

    `index`: of a mix, place in REACHES_TRIED; of a pool, the draw's number, or for constant inputs how often it was
    renewed; of probes and of calls that differ in one element, the place among them.
    """

    kind: str
    seed: int
    index: int = 0

    def __str__(self) -> str:
        return f"{self.kind.replace(' ', '-')}:{self.seed:x}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The name of a judged call's values from its text. Raises ValueError for a kind that there is not."""
        kind, seed, index = text.split(":")
        kinds = {name.replace(" ", "-"): name for name in (*MIXES, *PARTS, TIMED, PROBES, NEAR)}
        if kind not in kinds:
            raise ValueError(f"{kind!r} is no kind of values; there are {', '.join(kinds)}")
        return cls(kind=kinds[kind], seed=int(seed, 16), index=int(index))

    @classmethod
    def draw(cls, kind: str, rng: np.random.Generator) -> Self:
        """Values for a judged call, of that kind, that nobody knows."""
        return cls(kind=kind, seed=int(rng.integers(1 << 62)))


@dataclass(frozen=True, kw_only=True)
class CallName:
    """One call's size and values. `const`: those of the inputs that stay the same in a process."""

    dims: Mapping[str, int]
    values: ValuesName
    const: ValuesName | None = None
    card: bool = False
    """Drawn on a card: one of its kind draws the same again."""

    def __str__(self) -> str:
        size = ",".join(f"{name}={length}" for name, length in self.dims.items())
        name = ":".join((size, str(self.values), *((str(self.const),) if self.const else ())))
        return f"{CARD}{name}" if self.card else name

    @property
    def mention(self) -> str:
        """A judged call's name as a refusal has it."""
        return f"(call {self})"

    @classmethod
    def parse(cls, text: str, task: Task) -> Self:
        """A judged call's name from its text. Raises ValueError with what is wrong."""
        match = NAME.match(text)
        if match is None:
            raise ValueError("it is no call; give the words after `call` in a refusal, such as n=512:wide:1a2b:0")
        pairs = (word.split("=") for word in match["dims"].split(","))
        dims = {name: int(length) for name, length in pairs}
        if set(dims) != set(task.shapes[0].dims):
            raise ValueError(f"its dimensions are {', '.join(dims)}; the task has {', '.join(task.shapes[0].dims)}")
        const = ValuesName.parse(match["const"]) if match["const"] else None
        values = ValuesName.parse(match["values"])
        return cls(dims=dims, values=values, const=const, card=match["card"] is not None)


class ConstantNames:
    """Names of judged calls of one process: what draws the constant inputs of each size is that of the size's first call."""

    def __init__(self, task: Task, *, card: bool = False) -> None:
        """`card`: values are drawn on a card."""
        self._has_constants = any(tensor.constness == "const" for tensor in task.inputs)
        self._card = card
        self._by_size: dict[tuple[tuple[str, int], ...], ValuesName | None] = {}

    def name_call(self, dims: Mapping[str, int], values: ValuesName | None) -> CallName | None:
        """The judged call's name; None where its values, or its constant ones, cannot be drawn again."""
        first = replace(values, index=0) if values else None
        const = self._by_size.setdefault(tuple(sorted(dims.items())), first)
        if values is None or (self._has_constants and const is None):
            return None
        return CallName(dims=dims, values=values, const=const if self._has_constants else None, card=self._card)

    def mention(self, dims: Mapping[str, int], values: ValuesName | None) -> str:
        """The judged call's name as a refusal has it; empty where it has none."""
        name = self.name_call(dims, values)
        return name.mention if name else ""


def list_mentions(lines: str) -> tuple[str, ...]:
    """The judged calls that a refusal names, each once."""
    return tuple(dict.fromkeys(MENTION.findall(lines)))


@dataclass(frozen=True, kw_only=True)
class NamedInputs:
    """Inputs of a call, and whether only the exact result is right."""

    inputs: Arrays
    exact: bool = False


def draw_named(task: Task, dims: Mapping[str, int], values: ValuesName) -> tuple[NamedInputs, ...]:
    """The values of the judged call of that name, behind the calls that were made just before it on purpose. Raises ValueError."""
    rng = np.random.default_rng(values.seed)
    if values.kind == TIMED:
        return (NamedInputs(inputs=InputPool(task, dims, values.seed).draw_again(values.index)),)
    if values.kind in (PROBES, NEAR):
        calls = (
            [NamedInputs(inputs=probe.inputs, exact=probe.exact) for probe in make_probes(task, dims, rng)]
            if values.kind == PROBES
            else [NamedInputs(inputs=inputs) for _, inputs in draw_near_pairs(task, dims, rng)]
        )
        if values.index >= len(calls):
            raise ValueError(f"there are {len(calls)} calls of kind {values.kind}, none of number {values.index}")
        return tuple(calls[: values.index + 1])
    if values.index >= len(REACHES_TRIED):
        raise ValueError(f"values are drawn at most {len(REACHES_TRIED)} times")
    return (NamedInputs(inputs=draw(task, dims, values.kind, rng, reach=REACHES_TRIED[values.index])),)


def draw_call(task: Task, name: CallName) -> tuple[NamedInputs, ...]:
    """The values of a judged call by its name, the constant inputs in their places. Raises ValueError."""
    constant = [tensor.name for tensor in task.inputs if tensor.constness == "const"]
    calls = draw_named(task, name.dims, name.values)
    if not constant:
        return calls
    if name.const is None:
        raise ValueError(f"the task has constant inputs ({', '.join(constant)}), and the call does not say which")
    source = name.const
    constants = (
        InputPool(task, name.dims, source.seed).consts_of(source.index)
        if source.kind == TIMED
        else draw_named(task, name.dims, source)[-1].inputs
    )
    fixed = {tensor: constants[tensor] for tensor in constant}
    return tuple(NamedInputs(inputs={**call.inputs, **fixed}, exact=call.exact) for call in calls)


def draw_near_pairs(task: Task, dims: Mapping[str, int], rng: np.random.Generator) -> Iterator[tuple[str, Arrays]]:
    """For judged calls: ordinary inputs, then the same with one element of one changed: what was changed, and the inputs."""
    inputs = draw(task, dims, MIXES[0], rng)
    yield "", inputs
    for tensor in (tensor for tensor in task.inputs if tensor.constness != "const"):
        for _ in range(NEAR_CHANGES):
            changed, place = change_one_element(inputs, tensor, rng)
            yield f"{tensor.name}{list(place)} changed", changed
