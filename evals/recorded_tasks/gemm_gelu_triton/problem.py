"""The matrix multiply with bias and gelu: its shapes, its data, and what a right answer is."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

METRIC = "TFLOPS"
DTYPE = torch.bfloat16
LEAST_ERROR = 2.0**-8
"""A relative error that one rounding of a result may cause, so never held against a kernel."""
DIMENSIONS = ("M", "N", "K")
MIXES = ("normal", "tail", "positive", "cancelling")
OTHER_FORM = 2.0**-11
"""How far gelu's tanh form may lie from gelu: somewhat more than it does, a fraction of a bf16 step near 1."""
LARGE_BIAS = 8.0


class Shape(NamedTuple):
    """regime: large when arithmetic is what takes time; decode when it is reading b, for a few rows of a."""

    label: str
    d: tuple[int, ...]
    regime: str = ""


BENCHED = (
    Shape("sq4096", (4096, 4096, 4096), "large"),
    Shape("up14336", (4096, 14336, 4096), "large"),
    Shape("decode16", (16, 14336, 4096), "decode"),
    Shape("decode56", (56, 4096, 14336), "decode"),
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
    """TFLOP of one call, those of the product."""
    m, n, k = shape.d
    return 2e-12 * m * n * k


def output(shape: Shape) -> tuple[int, ...]:
    """Shape of the result."""
    return shape.d[:2]


def inputs(shape: Shape, mix: str, generator: torch.Generator) -> tuple[Tensor, ...]:
    """New bf16 data on the generator's device; b is scaled so that the product's elements are about 1.

    The first column is far from gelu's tail: a result of nothing but tail has no relative error worth the name.
    """
    m, n, k = shape.d
    a = torch.randn((m, k), generator=generator, device=generator.device)
    b = torch.randn((k, n), generator=generator, device=generator.device) / math.sqrt(k)
    bias = torch.randn((n,), generator=generator, device=generator.device)
    if mix == "tail":  # where gelu is small and the sum before it is not
        bias -= 3.0
    elif mix == "positive":
        a, b = a.abs(), b.abs()
    elif mix == "cancelling":  # neighbours along k nearly cancel
        pairs = k // 2 * 2
        a[:, 1:pairs:2] = -a[:, 0:pairs:2]
        b[1:pairs:2] = b[0:pairs:2] * (1.0 + 2.0**-4)
    bias[0] = LARGE_BIAS
    return tuple(tensor.to(torch.bfloat16) for tensor in (a, b, bias))


def touch(data: tuple[Tensor, ...], row: int, generator: torch.Generator) -> None:
    """New values for one row of a: an answer remembered from an earlier call is a wrong answer there."""
    data[0][row].normal_(generator=generator)


def trusted(data: tuple[Tensor, ...]) -> Tensor:
    """What torch gives for the same data in the same precision."""
    a, b, bias = data
    return torch.nn.functional.gelu(torch.addmm(bias, a, b))


def exact(data: tuple[Tensor, ...], rows: Tensor) -> tuple[Tensor, Tensor]:
    """Those rows of the result in fp64, and how far each element may be off.

    The bound: twice the rounding to bf16, what gelu's tanh form differs by, and for the fp32 sums 2^-17 (|a||b| +
    |bias|), far above what fp32 needs at these lengths and far below what sums in bf16 give.
    """
    a, b, bias = data[0][rows].double(), data[1].double(), data[2].double()
    value = torch.nn.functional.gelu(a @ b + bias)
    return value, value.abs() * 2.0**-7 + OTHER_FORM + (a.abs() @ b.abs() + bias.abs()) * 2.0**-17
