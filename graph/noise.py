"""The yardstick of every decision about time: how much measurements of identical versions differ, on the log scale."""

import math

from ridgeline.graph.values import Engine, Value

FLOOR_SD = 0.001
"""Smallest standard deviation believed of pair means: 0.1 per cent. A few identical samples show a coarse clock, not
a perfect one, so their interval never shrinks to a point."""


class Spread(Value):
    """Scatter of process-pair means of identical versions, on the log scale."""

    squares: float
    """Sum of squared deviations of the pair means from the mean of their own A/A run."""
    degrees: int
    """Degrees of freedom of `squares`; the standard deviation of one pair is sqrt(squares / degrees)."""
    scatter: float
    """Mean absolute deviation of blocks from the median of their pair."""

    @property
    def sd(self) -> float:
        return max(math.sqrt(self.squares / self.degrees), FLOOR_SD)


class ShapeNoise(Spread):
    label: str


class Noise(Spread):
    """Of the mean over shapes, and of each shape."""

    machine: str
    """Fingerprint: another machine's noise says nothing."""
    engine: Engine
    pairs: int
    offset: float
    """Mean log-ratio of identical versions: 0 but for luck and for whatever favours one side systematically."""
    allowance: float
    """Added to the margin: 0, or how far `offset` may be from 0 where luck alone does not explain it."""
    seconds_per_pair: float
    shapes: tuple[ShapeNoise, ...]

    def of(self, label: str) -> ShapeNoise | None:
        return next((shape for shape in self.shapes if shape.label == label), None)
