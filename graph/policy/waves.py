"""How a grid of equal tiles fills the units of a device, and what that alone costs."""

from math import ceil
from typing import Literal

from ridgeline.graph.evidence import Ceilings
from ridgeline.graph.policy.ceilings import below
from ridgeline.graph.policy.operations.amount import Amount
from ridgeline.graph.values import Value

NORMAL, LOW = 0.5, 0.1
"""Tiles per unit from which a grid is called normal, and from which low; below that the tiling is mended first."""
Fill = Literal["normal", "low", "too few tiles"]


class Wave(Value):
    """A grid on a device. Ceilings in units of 1e9 operations a second."""

    grid: int
    """Tiles of the whole call."""
    units: int
    """Compute units or multiprocessors; one tile at a time on each."""
    waves: int
    filled: float
    """Share of the places in all waves that have a tile, at most 1."""
    fill: Fill
    kernel_time_us: float
    """The arithmetic of all waves at the peak; no schedule of these tiles is faster."""
    ceiling_gflops: float
    """Operations of the call over that time: the peak less what the last wave leaves idle."""
    no_reuse_time_us: float | None
    """The same where every tile reads its operands from memory itself; None without a bandwidth. No bound: tiles that
    share an operand find it in the L2."""
    no_reuse_gflops: float | None


def wave(*, grid: int, units: int, call: Amount, tile: Amount, ceilings: Ceilings, source: str) -> Wave:
    """What `grid` tiles cost on `units` units: kernel time = ceil(grid / units) x the time of one tile on one unit.

    A unit has its share of the peak and of the bandwidth. `source` is where the peak stands. Raises ValueError without
    a compute peak or arithmetic, and CeilingError for a ceiling above the peak: then the tiles do less than the call.
    """
    if ceilings.flops_gflops is None or not call.flops:
        raise ValueError("a ceiling of waves needs a known compute peak and an operator that computes")
    count = ceil(grid / units)
    compute_us = tile.flops / (ceilings.flops_gflops / units * 1e3)
    memory_us = tile.bytes / (ceilings.copy_gbps / units * 1e3) if ceilings.copy_gbps else None
    slow_us = max(compute_us, memory_us) if memory_us is not None else None
    ceiling = call.flops / (count * compute_us * 1e3)
    below(ceiling, ceilings.flops_gflops, what="a ceiling of waves, in GFLOP/s,", source=source)
    return Wave(
        grid=grid,
        units=units,
        waves=count,
        filled=grid / (count * units),
        fill="normal" if grid >= NORMAL * units else "low" if grid >= LOW * units else "too few tiles",
        kernel_time_us=count * compute_us,
        ceiling_gflops=ceiling,
        no_reuse_time_us=count * slow_us if slow_us is not None else None,
        no_reuse_gflops=call.flops / (count * slow_us * 1e3) if slow_us is not None else None,
    )


def tiles(m: int, n: int, k: int, *, block: tuple[int, int], read: float, written: float) -> tuple[int, Amount]:
    """Grid of a matrix product and one of its tiles: 2 BM BN K; (BM K + BN K) read + BM BN written bytes."""
    rows, columns = block
    one = Amount(flops=2.0 * rows * columns * k, bytes=(rows + columns) * k * read + rows * columns * written)
    return ceil(m / rows) * ceil(n / columns), one
