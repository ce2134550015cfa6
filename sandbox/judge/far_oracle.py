"""A reference that answers otherwise in float64 than in the task's types, which forgives errors of any size.

Such as one that makes its weights or its state by chance, anew for each type.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.bounds import Noise, noise, scale_of, yardstick
from ridgeline.sandbox.judge.dtypes import SMALLEST, Floats, Raw, is_float, unit
from ridgeline.sandbox.judge.holes import Hole
from ridgeline.sandbox.judge.references import Reference

FAR = 1e3
"""Units of rounding, for half of all elements: what rounding does where an operator is hard to compute is less."""
SHARE = 0.1
"""Of an element's size: the same for types that have few units in it."""
KNOWN = 64.0
"""In units of the operator's own sensitivity, once that is measured: honest programs hardly use up one."""


def far_oracle(
    task: Task, reference: Reference, inputs: Mapping[str, Raw], exact: Mapping[str, Floats]
) -> Iterator[Hole]:
    """Outputs whose two answers differ beyond reason; `exact` is the oracle's. Raises ReferenceFailed."""
    usual = reference.trusted(inputs)
    far = [name for name in exact if _off(task, name, exact[name], usual[name], None) > _reason(task, name, FAR)]
    known = noise(task, inputs, reference.oracle, np.random.default_rng(), exact=exact) if far else {}
    for name in far:
        units = _off(task, name, exact[name], usual[name], known[name])
        if units > _reason(task, name, KNOWN):
            text = (
                f"{name}: the reference's answers in float64 and in the task's types are {units:.2g} units of rounding "
                "apart, so that nothing would be wrong; have it hold the same numbers in both, and take chance out"
            )
            yield Hole(rule="far-oracle", wrong=True, text=text)


def _reason(task: Task, name: str, units: float) -> float:
    dtype = task.dtype_of(name)
    return min(units, SHARE / unit(dtype)) if is_float(dtype) else units


def _off(task: Task, name: str, exact: Floats, usual: Floats, known: Noise | None) -> float:
    """Units of rounding by which half of the elements, or more, are off; 0 for whole numbers."""
    dtype = task.dtype_of(name)
    if not is_float(dtype) or exact.shape != usual.shape:
        return 0.0
    both = np.isfinite(exact) & np.isfinite(usual)
    if not both.any():
        return 0.0
    one = yardstick(np.broadcast_to(scale_of(exact), exact.shape), known, dtype=dtype, precision=task.precision)
    return float(np.median(np.abs(usual[both] - exact[both]) / (one + SMALLEST[dtype])[both]))
