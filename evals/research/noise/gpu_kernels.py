"""Five kernels from launch-bound to a millisecond, each with planted variants; needs torch and triton, nothing of ours.

Role A is the base, B its byte-identical twin, C does more work, D less: really done, at sizes stated in `planted`.
"""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201 - Triton takes pointers and sizes without types, and torch is not there where mypy runs

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

BLOCK_ADD = 1024
BLOCK_POLY = 512


def softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + cols, mask=cols < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + cols, v / tl.sum(v, 0), mask=cols < n)


def add(a, b, c, n, BLOCK: tl.constexpr):
    cells = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + cells, tl.load(a + cells, mask=cells < n) + tl.load(b + cells, mask=cells < n), mask=cells < n)


def poly(x, y, degree, BLOCK: tl.constexpr):
    cells = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + cells)
    total = v
    for _ in range(degree):
        total = total * v + 0.5
    tl.store(y + cells, total)


@dataclass(frozen=True)
class Case:
    name: str
    planted: str
    sizes: dict[str, int]
    """Work of each role, in the unit that `planted` names."""
    chain: int
    """Captured calls in one graph sample, so that a sample takes at least 200 us."""
    bytes_per_call: int
    """Read and written by the base: what one call of the chain touches and the others do not."""
    inputs: Callable[[], Any]
    """Made once per call of the chain and shared by all roles."""
    output: Callable[[], Any]
    """Made per call of the chain and per role."""
    bind: Callable[[int], Callable[[Any, Any], Any]]
    """Work -> launch(inputs, output); compiled anew at each binding, so that twins share no loaded code."""


def cases() -> tuple[Case, ...]:
    """A study of noise: all of them; nothing is allocated before `inputs` and `output` are called."""
    return (
        _add("add_64k", {"A": 65536, "B": 65536, "C": 67584, "D": 63488}, chain=144),
        _poly(),
        _softmax(),
        _gemm(),
        _add("add_256m", {"A": 1 << 28, "B": 1 << 28, "C": 276_488_192, "D": 260_382_720}, chain=1),
    )


def _add(name: str, sizes: dict[str, int], *, chain: int) -> Case:
    most = max(sizes.values())

    def bind(n: int) -> Callable[[Any, Any], Any]:
        kernel = triton.jit(add)
        return lambda inputs, out: kernel[(triton.cdiv(n, BLOCK_ADD),)](*inputs, out, n, BLOCK=BLOCK_ADD)

    return Case(
        name=name,
        planted="elements added, fp32, Triton",
        sizes=sizes,
        chain=chain,
        bytes_per_call=12 * sizes["A"],
        inputs=lambda: (torch.randn(most, device="cuda"), torch.randn(most, device="cuda")),
        output=lambda: torch.empty(most, device="cuda"),
        bind=bind,
    )


def _poly() -> Case:
    n = 65536

    def bind(degree: int) -> Callable[[Any, Any], Any]:
        kernel = triton.jit(poly)
        return lambda inputs, out: kernel[(n // BLOCK_POLY,)](inputs, out, degree, BLOCK=BLOCK_POLY)

    return Case(
        name="poly_64k",
        planted="degree of a polynomial by Horner's rule on 65536 fp32 elements, Triton",
        sizes={"A": 700, "B": 700, "C": 730, "D": 670},  # none a multiple of 16: Triton compiles those differently
        chain=50,
        bytes_per_call=8 * n,
        inputs=lambda: torch.rand(n, device="cuda") * 1.8 - 0.9,
        output=lambda: torch.empty(n, device="cuda"),
        bind=bind,
    )


def _softmax() -> Case:
    columns, rows = 4096, {"A": 8192, "B": 8192, "C": 8448, "D": 7936}
    most = max(rows.values())

    def bind(count: int) -> Callable[[Any, Any], Any]:
        kernel = triton.jit(softmax)
        return lambda inputs, out: kernel[(count,)](inputs, out, columns, BLOCK=columns, num_warps=8)

    return Case(
        name="softmax_8192x4096",
        planted="rows of 4096 fp32 columns, Triton",
        sizes=rows,
        chain=3,
        bytes_per_call=8 * columns * rows["A"],
        inputs=lambda: torch.randn(most, columns, device="cuda"),
        output=lambda: torch.empty(most, columns, device="cuda"),
        bind=bind,
    )


def _gemm() -> Case:
    m, inner = 4096, {"A": 4096, "B": 4096, "C": 4224, "D": 3968}

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    return Case(
        name="gemm_4096_bf16",
        planted="length of the inner dimension of a bf16 product with 4096 x 4096 results, torch.mm (cuBLAS)",
        sizes=inner,
        chain=2,
        bytes_per_call=2 * 3 * m * m,
        inputs=lambda: {k: (random(m, k), random(k, m)) for k in set(inner.values())},
        output=lambda: torch.empty(m, m, device="cuda", dtype=torch.bfloat16),
        bind=lambda k: lambda operands, out: torch.mm(*operands[k], out=out),
    )
