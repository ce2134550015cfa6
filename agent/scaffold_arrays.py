"""The arrays of a task that is made of a PyTorch file, how each is drawn, and what a person must know of them."""

import keyword
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ridgeline.agent.scaffold_texts import Argument
from ridgeline.sandbox.judge.torch_source import (
    InferredSizes,
    InputFacts,
    RunFacts,
    SourceShapes,
    StateFacts,
    TensorFacts,
    TorchSource,
)

LARGE_ELEMENTS = 1 << 28
"""Of all tensors together, from which on judging on a processor takes minutes per call."""
FIXED_EXTENT = 8
"""From here on an extent that is the same at all sizes is told; smaller ones are widths of windows and the like."""
FAR = 8.0
"""Numbers that N(0,1) hardly gives."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A file that was looked at."""

    base: SourceShapes
    facts: RunFacts
    sized: InferredSizes
    small: Mapping[str, int]
    used: set[str]


def shapes_of(found: InferredSizes, seen: SourceShapes) -> Iterator[tuple[str, ...]]:
    """Extents of each tensor as arithmetic, in the order of inputs, state, outputs."""
    at = 0
    for one in (*seen.inputs, *seen.state, *seen.outputs):
        yield found.extents[at : at + len(one.shape)]
        at += len(one.shape)


def kept(found: Found) -> tuple[str, ...]:
    """Buffers that keep the values that the module makes; none where a size can only be read off one of them."""
    own, base = set(found.facts.kept), found.base
    names = [*(one.name for one in base.inputs), *(one.name for one in base.state)]
    shapes = zip(names, shapes_of(found.sized, base), strict=False)
    told = {extent for name, shape in shapes if name not in own for extent in shape}
    return found.facts.kept if {name for name in found.sized.dims if name in found.used} <= told else ()


def arguments(found: Found) -> Iterator[Argument]:
    """Inputs, then the parameters and buffers that the result depends on."""
    base, facts = found.base, found.facts
    shapes, taken, own = shapes_of(found.sized, base), set(found.sized.dims), kept(found)
    for place, one in enumerate(base.inputs):
        drawn = _drawn(one, place, facts)
        yield Argument(
            name=_free(one.name, taken), shape=next(shapes), dtype=one.dtype, values=drawn.values, bounds=drawn.bounds,
            within=drawn.within, constness="mutated" if place in facts.mutated else "per_call", literal=one.literal,
            partly=one.name in facts.partial,
        )  # fmt: skip
    for state in base.state:
        shape = next(shapes)
        if state.name not in own and (not state.buffer or state.name in facts.buffers):
            values = facts.buffers[state.name] if state.buffer else "normal"
            name = _free(state.name.replace(".", "_"), taken)
            yield Argument(
                name=name, shape=shape, dtype=state.dtype, values=values, constness="const", state=state.name,
                partly=state.name in facts.partial,
            )  # fmt: skip


class _Drawn(NamedTuple):
    values: str
    bounds: tuple[int, int] | None = None
    within: tuple[float, float] | None = None


def _drawn(one: InputFacts, place: int, facts: RunFacts) -> _Drawn:
    """How an input is drawn: from N(0,1) where that has finite results, else as get_inputs() does."""
    if one.dtype == "bool" or place in facts.masks:
        return _Drawn("mask")
    if one.dtype.startswith(("int", "uint")):
        bounds = one.bounds or facts.inputs[place].bounds or (0, 2)
        return _Drawn("integers", (bounds[0], max(bounds[1], bounds[0] + 2)))
    if facts.normal or (facts.inside and place not in facts.inside):
        return _Drawn("normal")
    ends = facts.seen[place] if facts.inside else None
    return _Drawn("uniform" if ends and ends[0] < 0 else "positive", within=ends)


def outputs(found: Found, taken: set[str]) -> Iterator[Argument]:
    """What comes out."""
    base = found.base
    shapes = [*shapes_of(found.sized, base)][len(base.inputs) + len(base.state) :]
    names = {*taken, *found.sized.dims}
    for place, (one, shape) in enumerate(zip(base.outputs, shapes, strict=True)):
        wanted = "out" if len(shapes) == 1 else f"out{place}"
        yield Argument(name=_free(wanted, names), shape=shape, dtype=one.dtype)


def _free(name: str, taken: set[str]) -> str:
    """A name for an array that nothing else has."""
    plain = re.sub(r"\W", "_", name)
    plain = f"p{plain}" if plain[:1].isdigit() else plain
    while plain in taken or keyword.iskeyword(plain):
        plain += "_"
    taken.add(plain)
    return plain


def notes(source: TorchSource, found: Found) -> Iterator[str]:
    """What was assumed, one line each."""
    facts, held = found.facts, found.sized
    if held.dims == {"one": 1}:
        yield "no size of it can be chosen: unseen sizes cannot be tried, so a kernel for this one size alone passes"
    else:
        yield from _fixed(found)
    yield from _ranges(found)
    if not facts.training:
        yield "its result is random in training mode, so it is judged in eval mode"
    yield from _constants(found)
    if partly := [one.name for one in arguments(found) if one.partly and one.literal is None]:
        yield f"{', '.join(partly)}: a call reads only a part, or may; `bytes` leaves it out"
    if not source.is_module:
        yield "all inputs change at every call; write `constness: const` for weights in task.yaml"
    elements = sum(elements_of(one) for one in (*found.base.inputs, *found.base.state, *found.base.outputs))
    if elements > LARGE_ELEMENTS:
        yield f"{elements:.2g} elements: on a processor each judged call takes minutes; lower the sizes in task.yaml"


def _fixed(found: Found) -> Iterator[str]:
    """Extents of inputs that no unseen size changes."""
    for one, shape in zip(found.base.inputs, shapes_of(found.sized, found.base), strict=False):
        if same := [extent for extent in shape if extent.isdecimal() and int(extent) >= FIXED_EXTENT]:
            yield (
                f"{one.name}: {' and '.join(same)} stays at all sizes: a kernel for that extent alone passes; "
                "if it may vary, name it as a number of the file that sets shapes alone"
            )


def _ranges(found: Found) -> Iterator[str]:
    """Where inputs are drawn otherwise than get_inputs() does, or than usual."""
    facts = found.facts
    if not facts.normal and not facts.inside:
        yield "its result is not finite for N(0,1), nor for what get_inputs() gives: inputs are drawn from (0.1, 1)"
    for one, ends, place in zip(found.base.inputs, facts.seen, range(len(facts.seen)), strict=True):
        if place in facts.inside:
            drawn = f"[{ends[0]:g}, {ends[1]:g}], as get_inputs() draws it" if ends else "(0.1, 1)"
            yield f"{one.name}: its result is not finite for N(0,1): it is drawn from {drawn}"
        elif ends is not None and max(abs(ends[0]), abs(ends[1])) > FAR:
            yield (
                f"{one.name}: get_inputs() gives [{ends[0]:g}, {ends[1]:g}]; it is drawn from N(0,1), and "
                "sometimes from further out; `values: uniform` with `within` keeps it to a range"
            )


def _constants(found: Found) -> Iterator[str]:
    facts, own = found.facts, kept(found)
    if own:
        yield f"{', '.join(own)}: a constant that the module makes, and so no input: a kernel makes it itself"
    if facts.parts:
        yield (
            f"{', '.join(facts.parts)}: made by chance, neither parameter nor buffer: a constant now, made with "
            "seed 0 in reference and kernel alike"
        )
    if any(state.buffer and state.name not in facts.buffers for state in found.base.state):
        yield "buffers that do not change the result are no inputs"


def elements_of(one: InputFacts | StateFacts | TensorFacts) -> int:
    """How many numbers it holds."""
    return math.prod(one.shape)
