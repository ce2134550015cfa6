"""The numbers that end a campaign: the stop check decides by them, the README prints them, there is no second copy."""

from ridgeline.graph.limits import Limits
from ridgeline.graph.target import Goal, Target


def goal(limits: Limits, target: Target) -> Goal | None:
    """What T1 asks for; None where nothing is asked or the campaign is endless."""
    return None if limits.endless else target.performance_target


def peak_fraction(limits: Limits, asked: Goal | None) -> float | None:
    """Share of the bounding ceiling at which T2 stops, 1 being all of it; None where it never does.

    Somebody whose performance target `asked` for more of the peak than the limit is not stopped short of it.
    """
    if limits.endless or limits.target_peak_fraction is None:
        return None
    wanted = asked.value / 100 if asked is not None and asked.metric == "efficiency" else 0.0
    return max(limits.target_peak_fraction, wanted)


def rounds(limits: Limits, target: Target) -> int | None:
    """Rounds after the baseline at which T3 stops; None for no limit.

    An endless campaign has none of the contract's; a limit that somebody gave for this very campaign always holds.
    """
    bounds = (None if limits.endless else target.max_iterations, limits.max_rounds)
    return min((bound for bound in bounds if bound is not None), default=None)


def regressions(limits: Limits) -> int | None:
    """Measured regressions in a row at which T5 stops; None where they never do."""
    return limits.max_consecutive_regressions if limits.regression_stop else None


def budgets(limits: Limits) -> tuple[tuple[float, str], ...]:
    """What T7 allows: (amount, unit) of each budget that was given."""
    given = ((limits.max_minutes, "minutes"), (limits.max_dollars, "dollars"), (limits.max_tokens, "tokens"))
    return tuple((amount, unit) for amount, unit in given if amount is not None)
