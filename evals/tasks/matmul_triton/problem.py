"""The matrix multiply task: its shapes, its data, and what a right answer is."""

from typing import NamedTuple

import torch
from torch import Tensor

METRIC = "TFLOPS"
DTYPE = torch.float16
LEAST_ERROR = 2.0**-11
"""A relative error that one rounding of a result may cause, so never held against a kernel."""
DIMENSIONS = ("M", "N", "K")
MIXES = ("normal", "positive", "cancelling", "sparse")


class Shape(NamedTuple):
    """regime: flat when the inner dimension is short, so that a program's start and end weigh; else deep."""

    label: str
    d: tuple[int, ...]
    regime: str = ""


BENCHED = (
    Shape("sq2048", (2048, 2048, 2048), "deep"),
    Shape("sq4096", (4096, 4096, 4096), "deep"),
    Shape("deep8192", (2048, 2048, 8192), "deep"),
    Shape("flat512", (4096, 4096, 512), "flat"),
    Shape("wide768", (8192, 2048, 768), "flat"),
    Shape("ragged", (2000, 4112, 1008), "flat"),
)
TESTED = (
    Shape("one", (1, 1, 1)),
    Shape("row", (1, 70, 33)),
    Shape("column", (65, 1, 17)),
    Shape("tiny", (3, 5, 7)),
    Shape("tile", (64, 64, 64)),
    Shape("odd", (67, 131, 101)),
    Shape("long", (17, 33, 517)),
)


def work(shape: Shape) -> float:
    """TFLOP of one call."""
    m, n, k = shape.d
    return 2e-12 * m * n * k


def output(shape: Shape) -> tuple[int, ...]:
    """Shape of the result."""
    return shape.d[:2]


def inputs(shape: Shape, mix: str, generator: torch.Generator) -> tuple[Tensor, ...]:
    """New fp16 data on the generator's device."""
    m, n, k = shape.d
    a = torch.randn((m, k), generator=generator, device=generator.device)
    b = torch.randn((k, n), generator=generator, device=generator.device)
    if mix == "positive":
        a, b = a.abs(), b.abs()
    elif mix == "cancelling":  # neighbours along k nearly cancel
        pairs = k // 2 * 2
        a[:, 1:pairs:2] = -a[:, 0:pairs:2]
        b[1:pairs:2] = b[0:pairs:2] * (1.0 + 2.0**-6)
    elif mix == "sparse":
        a *= a > 1.0
    return a.to(torch.float16), b.to(torch.float16)


def touch(data: tuple[Tensor, ...], row: int, generator: torch.Generator) -> None:
    """New values for one row of a: an answer remembered from an earlier call is a wrong answer there."""
    data[0][row].normal_(generator=generator)


def trusted(data: tuple[Tensor, ...]) -> Tensor:
    """What torch gives for the same data in the same precision."""
    return torch.matmul(data[0], data[1])


def exact(data: tuple[Tensor, ...], rows: Tensor) -> tuple[Tensor, Tensor]:
    """Those rows of the result in fp64, and how far each element may be off.

    The bound: twice the rounding to fp16, one step of its subnormal numbers, and for the fp32 sums 2^-17 |a||b|, far
    above what fp32 needs at these lengths and far below what sums in fp16 give.
    """
    a, b = data[0][rows].double(), data[1].double()
    value = a @ b
    return value, value.abs() * 2.0**-10 + 2.0**-24 + (a.abs() @ b.abs()) * 2.0**-17
