"""How far a plain loop in float32 comes out beside the sum of many positive terms, tried on the inputs themselves.

A random walk of rounding errors says too little: terms below half a unit in the last place of the partial sum are lost,
all to the same side, and the more of them there are the more is lost. What an operator adds up is not known, so the
usual terms are made of its inputs and added in both directions; the error is told in the unit that bounds are in.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ridgeline.sandbox.judge.dtypes import Floats, unit

Values = NDArray[np.float32]
Terms = tuple[Values, Floats]
"""What is added up, in float32, and by how much each term moves when its inputs move by a share of themselves."""
SEQUENCES = 8
"""Loops that are tried of each array, along each of its axes."""
MOST = 1 << 21
"""Elements of them together."""
NEAR = 0.2
"""Terms are counted by what a change of one element changes, and some changes round to nothing. A count that is off
from the length of an axis by no more than this share means that axis."""


def lost(inputs: Mapping[str, Values], terms: float, rng: np.random.Generator) -> float:
    """The worst error of loops over so many terms, in unit round-offs of float32 of `hypot(sum, what moves do to it)`.

    `inputs` are the floats that may take any value; terms are their sizes, squares, exponentials less the largest, and
    products of two arrays of equal shape. 0 where nothing could be added up.
    """
    worst = 0.0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for added, moves in _models(inputs, terms, rng):
            exact = added.sum(axis=-1, dtype=np.float64)
            size = np.hypot(exact, np.sqrt(np.square(moves).sum(axis=-1)))
            for way in (added, added[..., ::-1]):
                errors = np.abs(np.cumsum(way, axis=-1)[..., -1] - exact) / (unit("float32") * size)
                worst = max(worst, float(np.max(errors, where=np.isfinite(errors), initial=0.0)))
    return worst


def _models(inputs: Mapping[str, Values], terms: float, rng: np.random.Generator) -> Iterator[Terms]:
    arrays = list(inputs.values())
    for number, values in enumerate(arrays):
        other = next((one for one in arrays[number + 1 :] if one.shape == values.shape), None)
        for rows, across in _loops([values] if other is None else [values, other], terms, rng):
            yield np.abs(rows), np.abs(rows).astype(np.float64)
            yield np.square(rows), 2 * np.square(rows.astype(np.float64))
            powers = np.exp(rows - rows.max(axis=-1, keepdims=True))
            yield powers, np.abs(rows) * powers.astype(np.float64)
            if other is not None:
                products = np.abs(rows * across)
                yield products, np.sqrt(2.0) * products.astype(np.float64)


def _loops(arrays: Sequence[Values], terms: float, rng: np.random.Generator) -> Iterator[tuple[Values, Values]]:
    """Some stretches of so many elements along each axis, of one array, and the same of another or of itself."""
    shape = arrays[0].shape
    for axis in range(max(len(shape), 1)):
        turned = [np.moveaxis(one, axis, -1) if shape else one.reshape(1) for one in arrays]
        length = _length(turned[0].shape, terms)
        count = turned[0].size // length
        picked = rng.permutation(count)[: max(1, min(SEQUENCES, MOST // length))]
        rows = [one.reshape(-1)[: count * length].reshape(count, length)[picked] for one in turned]
        yield rows[0], rows[-1]


def _length(shape: tuple[int, ...], terms: float) -> int:
    """Of one loop: that of the last axes that come near it, otherwise as it was counted."""
    for last in range(1, len(shape) + 1):
        inner = int(np.prod(shape[-last:]))
        if abs(inner - terms) <= NEAR * inner:
            return inner
    return max(1, min(round(terms), int(np.prod(shape))))
