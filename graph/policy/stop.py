"""TERMINATION_CHECK: every condition, evaluated; a campaign ends only when one of them holds (rules 18)."""

from ridgeline.graph.briefing import STOPPED
from ridgeline.graph.policy import budgets, ends
from ridgeline.graph.policy.counters import consecutive_regressions
from ridgeline.graph.policy.goal import reached
from ridgeline.graph.policy.history import best_round, planned, standing
from ridgeline.graph.policy.reach import NOTHING, Reach, of_best
from ridgeline.graph.policy.result import product
from ridgeline.graph.policy.roofline import efficiency, shape_roofs
from ridgeline.graph.policy.score import aggregate, at_least
from ridgeline.graph.record import StopCheck
from ridgeline.graph.standing import History

ASKED = "a person asked to stop"
ENDLESS = "off: the campaign is endless"


def checks(
    history: History,
    *,
    stop_requested: bool,
    exhausted: str,
    elapsed_minutes: float,
    no_device: bool = False,
    stopped: str = ASKED,
) -> tuple[StopCheck, ...]:
    """T1 to T8, each with the numbers it was decided on. `stopped`: what a person said who ended it.

    `exhausted` is the planner's reason for having no further direction, empty while it has one; `elapsed_minutes` is
    wall time since the campaign began, less the time it waited for people. Dollars that are not known exceed any
    budget: a hard stop cannot trust them.
    """
    return (
        _target(history),
        hardware(history),
        _rounds(history),
        StopCheck(
            id="T4",
            description=stopped if stop_requested else "no stop asked",
            satisfied=stop_requested,
        ),
        _regressions(history),
        StopCheck(id="T6", description="no idle device" if no_device else "a device is at hand", satisfied=no_device),
        _budgets(history, elapsed_minutes, exhausted),
        _search(exhausted),
    )


def should_stop(checks: tuple[StopCheck, ...]) -> bool:
    """Whether any condition holds."""
    return any(check.satisfied for check in checks)


def reason(checks: tuple[StopCheck, ...]) -> str:
    """The satisfied conditions in one line, for example `T3 8 of 8 rounds`."""
    return "; ".join(f"{check.id} {check.description}" for check in checks if check.satisfied) or "no condition holds"


def _target(history: History) -> StopCheck:
    goal = ends.goal(history.limits, history.opened.target)
    if history.limits.endless:
        return StopCheck(id="T1", description=ENDLESS, satisfied=False)
    if goal is None:
        return StopCheck(id="T1", description="no performance target", satisfied=False)
    # Rules 18.3: only a committed, correct version can reach a target; the original is none of ours.
    if best_round(history) is None:
        return StopCheck(id="T1", description=f"target {goal.text}: nothing accepted yet", satisfied=False)
    best = standing(history)
    value = aggregate((best.full or best.quick).rows, history.contract.scoring)
    done = reached(goal, aggregate=value, speedup=_speedup(history), efficiency=_efficiency(history))
    return StopCheck(
        id="T1", description=f"target {goal.text} {'reached' if done else 'not reached'}: {value:.6g}", satisfied=done
    )


def _speedup(history: History) -> float:
    """What a speedup goal is held against: the product of the paired gains, by its lower bound where it has one."""
    so_far = product(history)
    return so_far.speedup if so_far.lower is None else so_far.lower


def hardware(history: History) -> StopCheck:
    """T2: the best version stands at its ceiling. Of the original that means: nothing to gain, before any round."""
    fraction = ends.peak_fraction(history.limits, history.opened.target.performance_target)
    if fraction is None:
        off = ENDLESS if history.limits.endless else "no hardware efficiency asked for"
        return StopCheck(id="T2", description=off, satisfied=False)
    found = of_best(history)
    if isinstance(found, str):
        return StopCheck(id="T2", description=f"hardware efficiency unknown: {found}", satisfied=False)
    done = at_least(found.share, fraction)
    said = f"hardware efficiency {found.text}, asked {100 * fraction:g} %"
    if done and best_round(history) is None:
        said = nothing_left(found, fraction)
    return StopCheck(id="T2", description=said, satisfied=done)


def nothing_left(found: Reach, fraction: float) -> str:
    """Why no round is worth its cost: number, ceiling, source; empty where `fraction` of the ceiling is not reached."""
    if not at_least(found.share, fraction):
        return ""
    return f"{NOTHING}: {found.text}, asked {100 * fraction:g} %; at most {found.left:.3f}x is left for any change"


def nothing_to_gain(history: History) -> bool:
    """Whether the original already stands at its ceiling, so that no round is worth its cost."""
    return history.baseline is not None and best_round(history) is None and hardware(history).satisfied


def _rounds(history: History) -> StopCheck:
    asked, done = ends.rounds(history.limits, history.opened.target), planned(history)
    if asked is None:
        return StopCheck(id="T3", description=f"{done} rounds, no limit", satisfied=False)
    return StopCheck(id="T3", description=f"{done} of {asked} rounds", satisfied=done >= asked)


def _regressions(history: History) -> StopCheck:
    most = ends.regressions(history.limits)
    if most is None:
        return StopCheck(id="T5", description="regressions do not stop this campaign", satisfied=False)
    streak = consecutive_regressions(history.rounds, history.limits)
    return StopCheck(
        id="T5", description=f"{streak} of {most} consecutive measured regressions", satisfied=streak >= most
    )


def _budgets(history: History, elapsed_minutes: float, exhausted: str) -> StopCheck:
    spent = budgets.exceeded(history, elapsed_minutes, exhausted)
    return StopCheck(
        id="T7",
        description=f"budget spent: {', '.join(spent)}" if spent else "within budget",
        satisfied=bool(spent),
    )


def _search(exhausted: str) -> StopCheck:
    if not exhausted or budgets.ended_by_budget(exhausted) or exhausted.startswith(STOPPED):
        return StopCheck(id="T8", description="the planner has further directions", satisfied=False)
    return StopCheck(id="T8", description=f"search exhausted: {exhausted}", satisfied=True)


def _efficiency(history: History) -> float | None:
    best = standing(history)
    rows = (best.full or best.quick).rows
    contract = history.contract
    ceilings = history.roofline.ceilings if history.roofline else None
    return efficiency(rows, shape_roofs(rows, contract.work, ceilings), contract.scoring, ceilings)
