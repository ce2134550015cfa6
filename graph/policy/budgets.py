"""What a campaign may cost, against what it has cost; the reasons of T7."""

from collections.abc import Iterator

from ridgeline.graph.briefing import OUT_OF_BUDGET
from ridgeline.graph.policy.history import total_cost
from ridgeline.graph.standing import History
from ridgeline.graph.values import Cost


def exceeded(history: History, elapsed_minutes: float, exhausted: str = "") -> tuple[str, ...]:
    """Every budget that is spent, each with its numbers; empty while all hold.

    `exhausted` is the planner's reason for having no further direction: it is a budget's when the next question to a
    model might have cost more than was left.
    """
    return tuple(_reasons(history, elapsed_minutes, exhausted))


def ended_by_budget(exhausted: str) -> bool:
    """Whether the planner stopped for money, and not for want of directions."""
    return exhausted.startswith(OUT_OF_BUDGET)


def device_minutes(history: History, cost: Cost) -> float:
    """GPU minutes, at most: on a machine with a GPU all that its commands took, builds included."""
    held = cost.command_seconds if history.opened.machine.kind != "cpu" else 0.0
    return max(held, cost.gpu_seconds) / 60


def _reasons(history: History, elapsed_minutes: float, exhausted: str) -> Iterator[str]:
    limits, cost = history.limits, total_cost(history)
    if limits.max_minutes is not None and elapsed_minutes >= limits.max_minutes:
        yield f"{elapsed_minutes:.1f} of {limits.max_minutes:g} minutes"
    on_device = device_minutes(history, cost)
    if limits.max_gpu_minutes is not None and on_device >= limits.max_gpu_minutes:
        yield f"{on_device:.1f} of {limits.max_gpu_minutes:g} GPU minutes"
    if limits.max_dollars is not None and cost.dollars is None:
        yield f"a price is unknown, so {limits.max_dollars:g} dollars cannot be kept"
    elif limits.max_dollars is not None and cost.dollars is not None and cost.dollars >= limits.max_dollars:
        yield f"{cost.dollars:.2f} of {limits.max_dollars:g} dollars"
    if limits.max_tokens is not None and cost.tokens >= limits.max_tokens:
        yield f"{cost.tokens} of {limits.max_tokens} tokens"
    if ended_by_budget(exhausted):
        yield f"the next question does not fit: {exhausted.removeprefix(OUT_OF_BUDGET)}"
