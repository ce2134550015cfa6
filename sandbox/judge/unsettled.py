"""What a reference leaves open: values for which it has no answer, ties, and whole numbers that rounding decides."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Output, Shape, Task
from ridgeline.sandbox.judge.bounds import reaches
from ridgeline.sandbox.judge.calls import REACHES
from ridgeline.sandbox.judge.dtypes import Floats, Raw, is_float, to_float64
from ridgeline.sandbox.judge.holes import Hole
from ridgeline.sandbox.judge.inputs import MIXES, draw
from ridgeline.sandbox.judge.jumps import MOST as MOST_JUMPS
from ridgeline.sandbox.judge.jumps import shares
from ridgeline.sandbox.judge.mixes import SPIKING
from ridgeline.sandbox.judge.operators import listed
from ridgeline.sandbox.judge.probes import probes
from ridgeline.sandbox.judge.references import Reference, ReferenceFailed
from ridgeline.sandbox.judge.whole import is_whole

TIES = "structure"
"""The mix whose rows hold equal values."""
FAR_OFF = "offset"
"""The mix of large numbers that differ little: many are near what they are compared with."""
TIMES = 8
"""Draws of it: what it bends, and how, is a matter of chance."""
TURN = 3
"""Elements by which an input is rolled: places in it must follow."""
SMALL = 1 << 20
"""Elements of a call from which on each mix is tried once."""
PATIENCE_S = 60.0
"""For all kinds of values together."""
MOST = 0.5
"""Share of the whole numbers that may hang on rounding, and so go unjudged, before the task judges nothing."""
Arrays = Mapping[str, Raw]


def no_answers(task: Task, reference: Reference, shape: Shape, *, elements: int) -> Iterator[Hole]:
    """Kinds of values and probes for which the reference fails: the first of them would end a judgement."""
    failed: dict[str, str] = {}
    until = time.monotonic() + PATIENCE_S
    kinds = [*_kinds(task, shape, often=elements < SMALL)]
    for number, (kind, tried) in enumerate(kinds):
        if time.monotonic() > until:
            text = (
                f"the reference: {number} of {len(kinds)} kinds of values took {PATIENCE_S:.0f} s; add a smaller size"
            )
            yield Hole(rule="no-answer", wrong=False, text=text)
            break
        said = ""
        for inputs in tried():
            if not (said := _failure(reference, inputs)):
                break
        if said:
            failed.setdefault(kind, said)
    if failed:
        text = (
            f"the reference: has no answer for {listed(tuple(failed))} ({next(iter(failed.values()))}), which would end"
            " every judgement; have it make what it needs of any values (of a matrix: a @ a.T + I), or declare `values`"
            " for which it has one"
        )
        yield Hole(rule="no-answer", wrong=True, text=text)


def _kinds(task: Task, shape: Shape, *, often: bool) -> Iterator[tuple[str, Callable[[], Iterator[Arrays]]]]:
    """Kinds of values, each with inputs of which the judge takes the first that have an answer."""
    rng = np.random.default_rng()
    bends = any(is_whole(one) for one in task.inputs)

    def milder(mix: str) -> Iterator[Arrays]:
        for reach in REACHES if bends or mix == SPIKING else REACHES[:1]:
            yield draw(task, shape.dims, mix, rng, reach=reach)

    for mix in (*MIXES, *((TIES,) * (TIMES - 1) if often else ())):
        yield f"{mix} values", partial(milder, mix)
    for probe in probes(task, shape.dims, rng):
        yield f"probe {probe.name}", partial(iter, (probe.inputs,))


def rounding(task: Task, reference: Reference, shape: Shape) -> Iterator[Hole]:
    """Whole numbers that change when an input moves by less than its type can tell."""
    whole = _whole(task)
    if not whole:
        return
    rng = np.random.default_rng()
    inputs = draw(task, shape.dims, MIXES[0], rng)
    exact = reference.oracle(inputs)
    trusted = reference.trusted(inputs)
    found = reaches(task, inputs, reference.oracle, rng, exact=exact)
    for name in (one.name for one in whole):
        open_ = exact[name] != trusted[name]
        if name in found:
            open_ |= found[name].low != found[name].high
        share = float(np.mean(open_))
        if share > MOST:
            text = f"{name}: rounding decides {share:.0%} of it, which cannot be judged; judge what it is made from"
            yield Hole(rule="rounding-decides", wrong=True, text=text)
        elif share:
            text = f"{name}: rounding decides {share:.2%} of it at {shape.label}: there, every value it may take passes"
            yield Hole(rule="rounding-decides", wrong=False, text=text)


def jumping(task: Task, reference: Reference, shape: Shape) -> Iterator[Hole]:
    """Float outputs of which elements jump when an input moves by less than its type can tell: those of many do."""
    most: dict[str, float] = {}
    rng = np.random.default_rng()
    for mix in (MIXES[0], FAR_OFF):
        inputs = draw(task, shape.dims, mix, rng)
        try:
            found = shares(task, inputs, reference.oracle, rng, exact=reference.oracle(inputs))
        except ReferenceFailed:
            continue  # told elsewhere
        most = {name: max(share, most.get(name, 0.0)) for name, share in found.items()}
    for name, share in most.items():
        text = f"{name}: rounding decides {share:.2%} of it at {shape.label}: there, what lies on either side passes"
        if share > MOST_JUMPS:
            text = (
                f"{name}: rounding decides {share:.2%} of it at {shape.label}, more than the {MOST_JUMPS:.0%} that are "
                "excused, so right kernels may be refused; judge what it is made from"
            )
        if share:
            yield Hole(rule="rounding-decides", wrong=False, text=text)


def ties(task: Task, reference: Reference, shape: Shape) -> Iterator[Hole]:
    """Places named among equal elements: in float64 the reference names others than in the task's own types."""
    rng = np.random.default_rng()
    for inputs in (draw(task, shape.dims, mix, rng) for mix in (MIXES[0], TIES, TIES) if has_whole(task)):
        try:
            exact, trusted = reference.oracle(inputs), reference.trusted(inputs)
        except ReferenceFailed:
            continue  # told elsewhere
        if hole := arbitrary(task, reference, inputs, trusted, exact):
            yield hole
            return


def arbitrary(
    task: Task, reference: Reference, inputs: Arrays, got: Mapping[str, Floats], right: Mapping[str, Floats]
) -> Hole | None:
    """The hole where two answers differ only in which of some equal elements they name."""
    for name, one in ((output.name, one) for output in _whole(task) for one in task.inputs):
        values = to_float64(inputs[one.name], one.dtype)
        axis = _same_elements(got[name], right[name], values)
        if axis is None:
            continue
        there = np.take_along_axis(values, _places(right[name], values.shape, axis), axis)
        if there.min() == there.max():
            continue  # anything names those
        turned = {**inputs, one.name: np.ascontiguousarray(np.roll(inputs[one.name], TURN, axis))}
        try:
            moved = reference.oracle(turned)[name]
        except ReferenceFailed:
            continue
        if _names(moved, np.roll(values, TURN, axis), axis, there):
            text = (
                f"{name}: is a place among equal elements of {one.name}, and which of them is left open, so right"
                " kernels are refused; have the reference take the first (stable=True), or leave the place out"
            )
            return Hole(rule="arbitrary-ties", wrong=True, text=text)
    return None


def has_whole(task: Task) -> bool:
    """Whether it has an output of whole numbers."""
    return bool(_whole(task))


def _same_elements(got: Floats, right: Floats, values: Floats) -> int | None:
    """The axis of `values` along which both are places, if they differ, and name equal elements wherever they do."""
    if got.shape != right.shape or not (got != right).any():
        return None
    for axis in range(values.ndim):
        places = _places(right, values.shape, axis)
        if (
            places.size
            and _names(right, values, axis, None)
            and _names(got, values, axis, np.take_along_axis(values, places, axis))
        ):
            return axis
    return None


def _names(found: Floats, values: Floats, axis: int, there: Floats | None) -> bool:
    """Whether they are places along that axis, and those of the elements `there`."""
    places = _places(found, values.shape, axis)
    if not places.size or places.min() < 0 or places.max() >= values.shape[axis]:
        return False
    return there is None or np.array_equal(np.take_along_axis(values, places, axis), there)


def _places(found: Floats, shape: tuple[int, ...], axis: int) -> NDArray[np.int64]:
    """As indices along that axis, where the other axes are those of `shape`; else nothing."""
    others = shape[:axis] + shape[axis + 1 :]
    if found.shape == others:
        return np.expand_dims(found, axis).astype(np.int64)
    if found.ndim == len(shape) and found.shape[:axis] + found.shape[axis + 1 :] == others:
        return found.astype(np.int64)
    return np.zeros(0, np.int64)


def _failure(reference: Reference, inputs: Arrays) -> str:
    """What the reference says of inputs for which it has no answer; nothing where it has one."""
    try:
        reference.both([inputs])
    except ReferenceFailed as failed:
        return str(failed).removesuffix("; correct the reference")
    return ""


def _whole(task: Task) -> list[Output]:
    return [one for one in task.outputs if not is_float(one.dtype)]
