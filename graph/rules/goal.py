"""The numbers that end a campaign: its performance target as text and as a goal, rounds, regressions, budgets."""

import re
from collections.abc import Sequence
from typing import Literal

from ridgeline.graph.evidence import Ceilings
from ridgeline.graph.limits import Limits
from ridgeline.graph.target import Goal, Target
from ridgeline.graph.values import Value

Bound = Literal["compute", "memory", "unknown"]

_TEXT = re.compile(r"^(?P<op>>=|>|≥|at least|over|above|more than)?\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>.+)$", re.I)
_PEAK = re.compile(r"^%(\s*(of\s+)?peak)?(\s+efficiency)?$", re.I)
_SPEEDUP = re.compile(r"^(x|times)(\s+(faster|speed-?up))?$", re.I)
_SCALES = {"gflops": ("flops", 1.0), "tflops": ("flops", 1e3), "gb/s": ("bytes", 1.0), "tb/s": ("bytes", 1e3)}
"""Unit -> its kind, and how many of the kind's smallest unit it is."""


class GoalError(ValueError):
    """A performance target that cannot be decided; the message says what may be written instead."""


def parse_goal(text: str, primary_metric: str) -> Goal:
    """`>500 TFLOPS`, `>60% peak efficiency`, `>= 2x` as a Goal. Without an operator, reaching the value is enough.

    Raises GoalError when the text is none of these, or its unit is not one of the primary metric's kind.
    """
    match = _TEXT.match(text.strip())
    if match is None:
        raise GoalError(f"cannot read {text!r}; write for example '>500 TFLOPS', '>60% peak efficiency' or '>=2x'")
    op: Literal[">", ">="] = ">" if (match["op"] or "").lower() in {">", "over", "above", "more than"} else ">="
    value, unit = float(match["value"]), match["unit"].strip()
    if _PEAK.match(unit):
        if not 0 < value <= 100:
            raise GoalError(f"{value:g} % of peak cannot be reached; give a share above 0 and up to 100 %")
        return Goal(metric="efficiency", op=op, value=value, unit="%", text=text.strip())
    if _SPEEDUP.match(unit):
        return Goal(metric="speedup", op=op, value=value, unit="x", text=text.strip())
    return Goal(metric=primary_metric, op=op, value=value, unit=_of_metric(unit, primary_metric), text=text.strip())


def is_goal_reached(goal: Goal, *, aggregate: float, speedup: float | None, efficiency: float | None) -> bool:
    """Whether measured numbers meet the goal; what was not measured meets nothing.

    aggregate is in the primary metric's unit, speedup a ratio to the baseline, efficiency a share of 1.
    """
    if goal.metric == "efficiency":
        value = None if efficiency is None else 100 * efficiency
    elif goal.metric == "speedup":
        value = speedup
    else:
        value = aggregate * _scale(unit_of(goal.metric)) / _scale(goal.unit)
    if value is None:
        return False
    return value > goal.value if goal.op == ">" else value >= goal.value


def unit_of(metric: str) -> str:
    """Unit named by a metric column, for example TFLOPS of `Forward TFLOPS`; empty when it names none."""
    return next((word for word in reversed(re.split(r"[\s()\[\],]+", metric)) if word.lower() in _SCALES), "")


def _of_metric(unit: str, primary_metric: str) -> str:
    """The unit spelled as metrics are. Raises GoalError for an unknown one or another kind than the metric's."""
    plain = re.sub(r"flop/s$", "flops", unit.lower())
    kind = _SCALES.get(plain, ("", 0.0))[0]
    if not kind:
        raise GoalError(f"unit {unit!r} is unknown; use TFLOPS, GFLOPS, TB/s, GB/s, % peak or x")
    metric_unit = unit_of(primary_metric)
    if not metric_unit or _SCALES[metric_unit.lower()][0] != kind:
        raise GoalError(f"{unit} cannot be compared with the metric {primary_metric!r}; use its unit, % peak or x")
    return {"gflops": "GFLOPS", "tflops": "TFLOPS", "gb/s": "GB/s", "tb/s": "TB/s"}[plain]


def _scale(unit: str) -> float:
    """In a campaign's goal: what one of a unit is in the base unit of its kind."""
    return _SCALES[unit.lower()][1]


# The numbers that end a campaign: the stop check decides by them, the README prints them, there is no second copy.


def active_goal(limits: Limits, target: Target) -> Goal | None:
    """What T1 asks for; None where nothing is asked or the campaign is endless."""
    return None if limits.endless else target.performance_target


def peak_fraction(limits: Limits, goal: Goal | None) -> float | None:
    """Share of the bounding ceiling at which T2 stops, 1 being all of it; None where it never does.

    Somebody whose performance target `asked` for more of the peak than the limit is not stopped short of it.
    """
    if limits.endless or limits.target_peak_fraction is None:
        return None
    requested = goal.value / 100 if goal is not None and goal.metric == "efficiency" else 0.0
    return max(limits.target_peak_fraction, requested)


def round_limit(limits: Limits, target: Target) -> int | None:
    """Rounds after the baseline at which T3 stops; None for no limit.

    An endless campaign has none of the contract's; a limit that somebody gave for this very campaign always holds.
    """
    bounds = (None if limits.endless else target.max_iterations, limits.max_rounds)
    return min((bound for bound in bounds if bound is not None), default=None)


def regression_limit(limits: Limits) -> int | None:
    """Measured regressions in a row at which T5 stops; None where they never do."""
    return limits.max_consecutive_regressions if limits.regression_stop else None


def budget_limits(limits: Limits) -> tuple[tuple[float, str], ...]:
    """What T7 allows: (amount, unit) of each budget that was given."""
    amounts = ((limits.max_minutes, "minutes"), (limits.max_dollars, "dollars"), (limits.max_tokens, "tokens"))
    return tuple((amount, unit) for amount, unit in amounts if amount is not None)


# What a person wrote into the README's stop conditions while the campaign runs.

_LINE = re.compile(r"^(?P<name>T[1-8]\b[^:]*|(?:compute|memory)-bound target)\s*(?::|>=)?\s*(?P<value>.*)$")
_OFF = frozenset({"off", "none", "no limit"})


class StopTerms(Value):
    """What edited lines say; None and empty where they say nothing."""

    target_peak_fraction: float | None = None
    max_rounds: int | None = None
    goal: Goal | None = None
    lifted: tuple[str, ...] = ()
    """Conditions that stop nothing any more: T1, T2, T3."""
    problems: tuple[str, ...] = ()
    """Lines that cannot be followed, each with the reason."""


def read_stop_lines(lines: Sequence[str], *, metric: str, bound: Bound, ceilings: Ceilings | None) -> StopTerms:
    """Edited lines of the README's stop conditions: T1 to T3, and the targets of Step 0 for what bounds the kernel."""
    terms = StopTerms()
    for line in lines:
        try:
            terms = terms.model_copy(update=_read_stop_line(line, metric=metric, bound=bound, ceilings=ceilings))
        except ValueError as error:
            terms = terms.model_copy(update={"problems": (*terms.problems, f"{line}: {error}")})
    lifted = [name for name in ("T1", "T2", "T3") if any(_is_lifted(line, name) for line in lines)]
    return terms.model_copy(update={"lifted": tuple(lifted)})


def _is_lifted(line: str, name: str) -> bool:
    """Whether a line of the instruction takes a stop condition off."""
    match = _LINE.match(line)
    return match is not None and match["name"].startswith(name) and match["value"].strip().lower() in _OFF


def _read_stop_line(
    line: str, *, metric: str, bound: Bound, ceilings: Ceilings | None
) -> dict[str, float | int | Goal]:
    """What one line changes, by field of `StopTerms`. Raises ValueError, which says what may be written instead."""
    match = _LINE.match(line)
    if match is None:
        raise ValueError("is no stop condition; edit the lines that are there")
    name, value = match["name"], match["value"].strip()
    if value.lower() in _OFF and name[:2] in ("T1", "T2", "T3"):
        return {}
    if name.startswith("T1"):
        return {"goal": parse_goal(value, metric)}
    if name.startswith("T2"):
        share = re.match(r"([\d.]+)\s*%", value)
        return {"target_peak_fraction": _require_share(float(share[1]) / 100 if share else 0.0)}
    if name.startswith("T3"):
        if not value.isdecimal() or not 1 <= int(value) < 120:
            raise ValueError("give 1 to 119 rounds, or `no limit`")
        return {"max_rounds": int(value)}
    if name.startswith("T"):
        raise ValueError("cannot be changed while the campaign runs")
    return {"target_peak_fraction": _read_absolute(name, value, bound=bound, ceilings=ceilings)}


def _read_absolute(name: str, value: str, *, bound: Bound, ceilings: Ceilings | None) -> float:
    """The share of its ceiling that `0.9 TFLOPS` or `4 TB/s` is. Raises ValueError where that cannot be said."""
    kind = name.partition("-")[0]
    amount = re.match(r"([\d.]+(?:e-?\d+)?)\s*(TFLOPS|TB/s)$", value)
    ceiling = None if ceilings is None else ceilings.flops_gflops if kind == "compute" else ceilings.copy_gbps
    if bound not in ("unknown", kind):
        raise ValueError(f"this kernel is {bound}-bound: edit the {bound}-bound target")
    if amount is None or ceiling is None:
        raise ValueError("write a number with TFLOPS or TB/s; the ceiling that it is a share of must be known")
    return _require_share(1e3 * float(amount[1]) / ceiling)


def _require_share(share: float) -> float:
    if not 0 < share <= 1:
        raise ValueError("lies above the ceiling, or is no share of it; give more than 0 and at most all of it")
    return round(share, 9)
