"""Partial restart: forget about half of what was tried, never the original, never the best."""

from random import Random

from ridgeline.graph.policy.history import best_round, masked
from ridgeline.graph.standing import History


def possible(history: History) -> bool:
    """Whether a restart is still allowed and there is something to forget."""
    return len(history.restarts) < history.limits.max_restarts and bool(_eligible(history))


def mask(history: History, *, seed: int) -> tuple[int, ...]:
    """Memory versions (round - 1) to mask now, ascending: `mask_fraction` of the unmasked ones, at least one.

    The same history and seed give the same answer. Empty when nothing may be masked.
    """
    eligible = _eligible(history)
    if not eligible:
        return ()
    wanted = max(1, int(history.limits.mask_fraction * len(_active(history))))
    return tuple(sorted(Random(seed).sample(eligible, min(wanted, len(eligible)))))


def _active(history: History) -> list[int]:
    """Unmasked versions from v1 on; v0 is the original and never counts."""
    hidden = masked(history)
    return [closed.round - 1 for closed in history.rounds if closed.round - 1 not in hidden]


def _eligible(history: History) -> list[int]:
    best = best_round(history)
    return [version for version in _active(history) if best is None or version != best.round - 1]
