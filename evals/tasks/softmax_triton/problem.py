"""The row softmax task: its shapes, its data, and what a right answer is."""

from typing import NamedTuple

import torch
from torch import Tensor

METRIC = "GB/s"
DTYPE = torch.float16
LEAST_ERROR = 2.0**-11
"""A relative error that one rounding of a result may cause, so never held against a kernel."""
DIMENSIONS = ("rows", "cols")
MIXES = ("normal", "wide", "offset", "equal")


class Shape(NamedTuple):
    """regime: which launch a tuned kernel would choose; rows up to 2048 columns fit into one block."""

    label: str
    d: tuple[int, ...]
    regime: str = ""


BENCHED = (
    Shape("r8192x2048", (8192, 2048), "short"),
    Shape("r16384x1920", (16384, 1920), "short"),
    Shape("r9001x1777", (9001, 1777), "short"),
    Shape("r4096x8192", (4096, 8192), "long"),
    Shape("r1024x32768", (1024, 32768), "long"),
    Shape("r3001x12301", (3001, 12301), "long"),
)
TESTED = (
    Shape("one", (1, 1)),
    Shape("column", (5, 1)),
    Shape("tiny", (3, 7)),
    Shape("even", (4, 256)),
    Shape("above", (3, 257)),
    Shape("odd", (7, 1023)),
    Shape("long", (3, 5003)),
)


def work(shape: Shape) -> float:
    """GB of one call: each element read once and written once."""
    return 4e-9 * shape.d[0] * shape.d[1]


def output(shape: Shape) -> tuple[int, ...]:
    """Shape of the result."""
    return shape.d


def inputs(shape: Shape, mix: str, generator: torch.Generator) -> tuple[Tensor, ...]:
    """New fp16 data on the generator's device."""
    x = torch.randn(shape.d, generator=generator, device=generator.device)
    if mix == "wide":
        x *= 20.0
    elif mix == "offset":
        x = x * 50.0 + 40000.0
    elif mix == "equal":
        x = torch.ones_like(x) * x[:, :1]
    return (x.to(torch.float16),)


def touch(data: tuple[Tensor, ...], row: int, generator: torch.Generator) -> None:
    """New values for one row: an answer remembered from an earlier call is a wrong answer there."""
    data[0][row].normal_(generator=generator)


def trusted(data: tuple[Tensor, ...]) -> Tensor:
    """What torch gives for the same data in the same precision."""
    return torch.softmax(data[0], dim=1)


def exact(data: tuple[Tensor, ...], rows: Tensor) -> tuple[Tensor, Tensor]:
    """Those rows of the result in fp64, and how far each element may be off.

    The bound: twice the rounding to fp16, of which half is the kernel's, and one step of its subnormal numbers.
    """
    value = torch.softmax(data[0][rows].double(), dim=1)
    return value, value * 2.0**-10 + 2.0**-24
