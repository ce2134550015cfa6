"""TERMINATION_CHECK: every condition, evaluated; a campaign ends only when one of them holds (rules 18)."""

from graph.policy.counters import consecutive_regressions
from graph.policy.goal import reached
from graph.policy.history import best_round, speedup_so_far, standing, total_cost
from graph.policy.roofline import efficiency, shape_roofs
from graph.policy.score import aggregate
from graph.record import StopCheck
from graph.standing import History

ENDLESS = "off: the campaign is endless"


def checks(
    history: History, *, stop_requested: bool, exhausted: str, elapsed_minutes: float, no_device: bool = False
) -> tuple[StopCheck, ...]:
    """T1 to T8, each with the numbers it was decided on.

    `exhausted` is the planner's reason for having no further direction, empty while it has one; `elapsed_minutes` is
    wall time since the campaign began. Dollars that are not known exceed any budget: a hard stop cannot trust them.
    """
    return (
        _target(history),
        _hardware(history),
        _rounds(history),
        StopCheck(
            id="T4",
            description="a person asked to stop" if stop_requested else "no stop asked",
            satisfied=stop_requested,
        ),
        _regressions(history),
        StopCheck(id="T6", description="no idle device" if no_device else "a device is at hand", satisfied=no_device),
        _budgets(history, elapsed_minutes),
        StopCheck(
            id="T8",
            description=f"search exhausted: {exhausted}" if exhausted else "the planner has further directions",
            satisfied=bool(exhausted),
        ),
    )


def should_stop(checks: tuple[StopCheck, ...]) -> bool:
    """Whether any condition holds."""
    return any(check.satisfied for check in checks)


def reason(checks: tuple[StopCheck, ...]) -> str:
    """The satisfied conditions in one line, for example `T3 8 of 8 rounds`."""
    return "; ".join(f"{check.id} {check.description}" for check in checks if check.satisfied) or "no condition holds"


def _target(history: History) -> StopCheck:
    goal = history.opened.target.performance_target
    if history.limits.endless:
        return StopCheck(id="T1", description=ENDLESS, satisfied=False)
    if goal is None:
        return StopCheck(id="T1", description="no performance target", satisfied=False)
    # Rules 18.3: only a committed, correct version can reach a target; the original is none of ours.
    if best_round(history) is None:
        return StopCheck(id="T1", description=f"target {goal.text}: nothing accepted yet", satisfied=False)
    best = standing(history)
    value = aggregate((best.full or best.quick).rows, history.contract.scoring)
    done = reached(goal, aggregate=value, speedup=speedup_so_far(history), efficiency=_efficiency(history))
    return StopCheck(
        id="T1", description=f"target {goal.text} {'reached' if done else 'not reached'}: {value:.6g}", satisfied=done
    )


def _hardware(history: History) -> StopCheck:
    fraction = history.limits.target_peak_fraction
    if history.limits.endless:
        return StopCheck(id="T2", description=ENDLESS, satisfied=False)
    if fraction is None:
        return StopCheck(id="T2", description="no hardware efficiency asked for", satisfied=False)
    if best_round(history) is None:
        return StopCheck(id="T2", description="hardware efficiency: nothing accepted yet", satisfied=False)
    share = _efficiency(history)
    if share is None:
        return StopCheck(id="T2", description="hardware efficiency unknown", satisfied=False)
    return StopCheck(
        id="T2",
        description=f"hardware efficiency {100 * share:.1f} % of the bounding ceiling, asked {100 * fraction:g} %",
        satisfied=share >= fraction,
    )


def _rounds(history: History) -> StopCheck:
    # endless switches off the contract's bound; a bound that somebody gave for this very campaign always holds
    bounds = (None if history.limits.endless else history.opened.target.max_iterations, history.limits.max_rounds)
    asked = min((bound for bound in bounds if bound is not None), default=None)
    done = len(history.rounds)
    if asked is None:
        return StopCheck(id="T3", description=f"{done} rounds, no limit", satisfied=False)
    return StopCheck(id="T3", description=f"{done} of {asked} rounds", satisfied=done >= asked)


def _regressions(history: History) -> StopCheck:
    limits = history.limits
    if not limits.regression_stop:
        return StopCheck(id="T5", description="regressions do not stop this campaign", satisfied=False)
    streak = consecutive_regressions(history.rounds, limits)
    return StopCheck(
        id="T5",
        description=f"{streak} of {limits.max_consecutive_regressions} consecutive measured regressions",
        satisfied=streak >= limits.max_consecutive_regressions,
    )


def _budgets(history: History, elapsed_minutes: float) -> StopCheck:
    limits, cost = history.limits, total_cost(history)
    spent: list[str] = []
    if limits.max_minutes is not None and elapsed_minutes >= limits.max_minutes:
        spent.append(f"{elapsed_minutes:.1f} of {limits.max_minutes:g} minutes")
    if limits.max_dollars is not None and cost.dollars is None:
        spent.append(f"a price is unknown, so {limits.max_dollars:g} dollars cannot be kept")
    elif limits.max_dollars is not None and cost.dollars is not None and cost.dollars >= limits.max_dollars:
        spent.append(f"{cost.dollars:.2f} of {limits.max_dollars:g} dollars")
    if limits.max_tokens is not None and cost.tokens >= limits.max_tokens:
        spent.append(f"{cost.tokens} of {limits.max_tokens} tokens")
    return StopCheck(
        id="T7",
        description=f"budget spent: {', '.join(spent)}" if spent else "within budget",
        satisfied=bool(spent),
    )


def _efficiency(history: History) -> float | None:
    best = standing(history)
    rows = (best.full or best.quick).rows
    contract = history.contract
    ceilings = history.roofline.ceilings if history.roofline else None
    return efficiency(rows, shape_roofs(rows, contract.work, ceilings), contract.scoring, ceilings)
