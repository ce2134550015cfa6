"""R9: the accepted versions form a chain whose aggregate does not fall."""

from collections.abc import Sequence


def broken_links(aggregates: Sequence[float], tolerance: float, *, higher_is_better: bool = True) -> tuple[int, ...]:
    """Positions of accepted versions that fall behind the best before them by more than `tolerance` (relative).

    Measured against the best so far, not the neighbour: ten steps of -0.9 per cent are no tolerated chain.
    """
    broken = []
    best: float | None = None
    for place, value in enumerate(aggregates):
        if best is not None:
            drop = 1 - value / best if higher_is_better else value / best - 1
            if drop > tolerance:
                broken.append(place)
            best = max(best, value) if higher_is_better else min(best, value)
        else:
            best = value
    return tuple(broken)
