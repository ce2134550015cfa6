"""The reverse cumulative sum task: its shapes, its data, and what a right answer is."""

from typing import NamedTuple

import torch
from torch import Tensor

METRIC = "GB/s"
DTYPE = torch.float32
LEAST_ERROR = 2.0**-15
"""A relative error that fp32 sums in any sensible order stay below, ten times over, and that TF32 or bf16 do not."""
DIMENSIONS = ("rows", "cols")
MIXES = ("normal", "positive", "cancelling", "sparse")
CHUNK = 1 << 26
"""Elements summed in fp64 at a time: the largest shape takes 4 GiB in fp32 already."""


class Shape(NamedTuple):
    """regime: which launch a tuned kernel would choose; rows up to 2048 columns fit into one block."""

    label: str
    d: tuple[int, ...]
    regime: str = ""


BENCHED = (
    Shape("r32768x32768", (32768, 32768), "long"),
    Shape("r2999x20011", (2999, 20011), "long"),
    Shape("r65536x1024", (65536, 1024), "short"),
    Shape("r50001x777", (50001, 777), "short"),
)
TESTED = (
    Shape("one", (1, 1)),
    Shape("column", (5, 1)),
    Shape("tiny", (3, 7)),
    Shape("even", (4, 1024)),
    Shape("above", (3, 1025)),
    Shape("odd", (7, 1023)),
    Shape("long", (3, 5003)),
)


def work(shape: Shape) -> float:
    """GB of one call: each element read once and written once."""
    return 8e-9 * shape.d[0] * shape.d[1]


def output(shape: Shape) -> tuple[int, ...]:
    """Shape of the result."""
    return shape.d


def inputs(shape: Shape, mix: str, generator: torch.Generator) -> tuple[Tensor, ...]:
    """New fp32 data on the generator's device."""
    x = torch.randn(shape.d, generator=generator, device=generator.device)
    if mix == "positive":
        x.abs_()
    elif mix == "cancelling":  # neighbours nearly cancel
        pairs = shape.d[1] // 2 * 2
        x[:, 1:pairs:2] = -x[:, 0:pairs:2] * (1.0 + 2.0**-6)
    elif mix == "sparse":
        x *= x > 2.0
    return (x,)


def touch(data: tuple[Tensor, ...], row: int, generator: torch.Generator) -> None:
    """New values for one row: an answer remembered from an earlier call is a wrong answer there."""
    data[0][row].normal_(generator=generator)


def trusted(data: tuple[Tensor, ...]) -> Tensor:
    """Torch's sums in fp64, some rows at a time, rounded once."""
    (x,) = data
    out = torch.empty_like(x)
    rows = max(1, CHUNK // x.shape[1])
    for part, sums in zip(x.split(rows), out.split(rows), strict=True):
        sums.copy_(_sums(part.double()))
    return out


def exact(data: tuple[Tensor, ...], rows: Tensor) -> tuple[Tensor, Tensor]:
    """Those rows of the result in fp64, and how far each element may be off.

    The bound: 2^-16 of what its terms add up to without their signs. A sum in fp32 over blocks stays far below, one
    whose terms were rounded to TF32 or less does not.
    """
    x = data[0][rows].double()
    return _sums(x), _sums(x.abs()) * 2.0**-16


def _sums(x: Tensor) -> Tensor:
    return x.flip(1).cumsum(1).flip(1)
