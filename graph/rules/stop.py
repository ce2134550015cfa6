"""When a campaign ends: every condition, T1 to T8, with the numbers that it was decided on; T9 and T10 of `evolve`."""

from ridgeline.graph.briefing import STOPPED
from ridgeline.graph.record import StopCheck
from ridgeline.graph.rules.archive import count_generations_without_gain, fold_archive, has_archive
from ridgeline.graph.rules.cost import is_budget_end, list_exceeded_budgets
from ridgeline.graph.rules.goal import (
    active_goal,
    is_goal_reached,
    peak_fraction,
    regression_limit,
    round_limit,
    unit_of,
)
from ridgeline.graph.rules.headroom import compute_best_headroom, describe_nothing_left
from ridgeline.graph.rules.history import best_round, count_planned_rounds, standing
from ridgeline.graph.rules.result import compute_product
from ridgeline.graph.rules.roofline import compute_efficiency, compute_shape_roofs
from ridgeline.graph.rules.score import aggregate, at_least
from ridgeline.graph.rules.stagnation import consecutive_regressions
from ridgeline.graph.standing import History

STOP_REQUESTED = "a person asked to stop"
ENDLESS = "off: the campaign is endless"


def evaluate_stop_checks(
    history: History,
    *,
    stop_requested: bool,
    exhausted: str,
    elapsed_minutes: float,
    no_device: bool = False,
    stopped: str = STOP_REQUESTED,
) -> tuple[StopCheck, ...]:
    """T1 to T8, and T9 and T10 of search mode `evolve`, each with its numbers. `stopped`: what a person said who ended it.

    `exhausted` is the planner's reason for having no further direction, empty while it has one; `elapsed_minutes` is
    wall time since the campaign began, less the time it waited for people. Dollars that are not known exceed any
    budget: a hard stop cannot trust them.
    """
    return (
        _check_target(history),
        check_hardware(history),
        _check_rounds(history),
        StopCheck(
            id="T4",
            description=stopped if stop_requested else "no stop asked",
            satisfied=stop_requested,
        ),
        _check_regressions(history),
        StopCheck(id="T6", description="no idle device" if no_device else "a device is at hand", satisfied=no_device),
        _check_budgets(history, elapsed_minutes, exhausted),
        _check_search(exhausted),
        *(_check_evolution(history) if has_archive(history.limits) else ()),
    )


def should_stop(checks: tuple[StopCheck, ...]) -> bool:
    """Whether any condition for the campaign's end holds."""
    return any(check.satisfied for check in checks)


def describe_stop(checks: tuple[StopCheck, ...]) -> str:
    """The satisfied conditions in one line, for example `T3 8 of 8 rounds`."""
    return "; ".join(f"{check.id} {check.description}" for check in checks if check.satisfied) or "no condition holds"


def _check_target(history: History) -> StopCheck:
    goal = active_goal(history.limits, history.opened.target)
    if history.limits.endless:
        return StopCheck(id="T1", description=ENDLESS, satisfied=False)
    if goal is None:
        return StopCheck(id="T1", description="no performance target", satisfied=False)
    # only a committed, correct version can reach a target; the original is none of ours.
    if best_round(history) is None:
        return StopCheck(id="T1", description=f"target {goal.text}: nothing accepted yet", satisfied=False)
    best = standing(history)
    value = aggregate((best.full or best.quick).rows, history.contract.scoring)
    speedup, efficiency = _speedup_for_goal(history), _efficiency(history)
    is_reached = is_goal_reached(goal, aggregate=value, speedup=speedup, efficiency=efficiency)
    told = f"{value:.6g} {unit_of(goal.metric)}".strip()
    if goal.metric == "speedup":
        told = f"{speedup:.6g}x by the kept rounds' pairs"
    elif goal.metric == "efficiency":
        told = "not known" if efficiency is None else f"{100 * efficiency:.6g} %"
    return StopCheck(
        id="T1",
        description=f"target {goal.text} {'reached' if is_reached else 'not reached'}: {told}",
        satisfied=is_reached,
    )


def _speedup_for_goal(history: History) -> float:
    """What a speedup goal is held against: the product of the paired gains, by its lower bound where it has one."""
    so_far = compute_product(history)
    return so_far.speedup if so_far.lower is None else so_far.lower


def check_hardware(history: History) -> StopCheck:
    """T2: the best version stands at its ceiling. Of the original that means: nothing to gain, before any round."""
    fraction = peak_fraction(history.limits, history.opened.target.performance_target)
    if fraction is None:
        off = ENDLESS if history.limits.endless else "no hardware efficiency asked for"
        return StopCheck(id="T2", description=off, satisfied=False)
    headroom = compute_best_headroom(history)
    if isinstance(headroom, str):
        return StopCheck(id="T2", description=f"hardware efficiency unknown: {headroom}", satisfied=False)
    is_reached = at_least(headroom.share, fraction)
    text = f"hardware efficiency {headroom.text}, asked {100 * fraction:g} %"
    if is_reached and best_round(history) is None:
        text = describe_nothing_left(headroom, fraction)
    return StopCheck(id="T2", description=text, satisfied=is_reached)


def has_nothing_to_gain(history: History) -> bool:
    """Whether the original already stands at its ceiling, so that no round is worth its cost."""
    return history.baseline is not None and best_round(history) is None and check_hardware(history).satisfied


def _check_rounds(history: History) -> StopCheck:
    limit, count = round_limit(history.limits, history.opened.target), count_planned_rounds(history)
    if limit is None:
        return StopCheck(id="T3", description=f"{count} rounds, no limit", satisfied=False)
    return StopCheck(id="T3", description=f"{count} of {limit} rounds", satisfied=count >= limit)


def _check_regressions(history: History) -> StopCheck:
    most = regression_limit(history.limits)
    if most is None:
        return StopCheck(id="T5", description="regressions do not stop this campaign", satisfied=False)
    streak = consecutive_regressions(history.rounds, history.limits)
    return StopCheck(
        id="T5", description=f"{streak} of {most} consecutive measured regressions", satisfied=streak >= most
    )


def _check_budgets(history: History, elapsed_minutes: float, exhausted: str) -> StopCheck:
    spent = list_exceeded_budgets(history, elapsed_minutes, exhausted)
    return StopCheck(
        id="T7",
        description=f"budget spent: {', '.join(spent)}" if spent else "within budget",
        satisfied=bool(spent),
    )


def _check_search(exhausted: str) -> StopCheck:
    if not exhausted or is_budget_end(exhausted) or exhausted.startswith(STOPPED):
        return StopCheck(id="T8", description="the planner has further directions", satisfied=False)
    return StopCheck(id="T8", description=f"search exhausted: {exhausted}", satisfied=True)


def _check_evolution(history: History) -> tuple[StopCheck, StopCheck]:
    """The document's own ends of its search, after its target (T1, T2): `no_improve`, then `budget_exhausted`."""
    limits, count = history.limits, len(fold_archive(history).generations) if history.baseline else 0
    if limits.endless:
        return StopCheck(id="T9", description=ENDLESS, satisfied=False), StopCheck(
            id="T10", description=ENDLESS, satisfied=False
        )
    streak = count_generations_without_gain(history) if history.baseline else 0
    gain = f"{100 * limits.min_rel_improve:g} %"
    return (
        StopCheck(
            id="T9",
            description=f"no_improve: {streak} of {limits.patience} generations without {gain}",
            satisfied=streak >= limits.patience,
        ),
        StopCheck(
            id="T10",
            description=f"budget_exhausted: {count} of {limits.max_generations} generations",
            satisfied=count >= limits.max_generations,
        ),
    )


def _efficiency(history: History) -> float | None:
    best = standing(history)
    rows = (best.full or best.quick).rows
    contract = history.contract
    ceilings = history.roofline.ceilings if history.roofline else None
    return compute_efficiency(rows, compute_shape_roofs(rows, contract.work, ceilings), contract.scoring, ceilings)
