"""What rounds and campaigns cost, added up from their own evidence, and the budgets that end a campaign."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from ridgeline.graph.briefing import OUT_OF_BUDGET
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Comparison, Profiled, TestResult
from ridgeline.graph.record import Reflection, RoundClosed
from ridgeline.graph.rules.history import total_cost
from ridgeline.graph.standing import History
from ridgeline.graph.trial import (
    Applied,
    Broken,
    Built,
    Drafted,
    Failed,
    Judged,
    Proposed,
    Stage,
    Timed,
    Traced,
    Verified,
    inner,
)
from ridgeline.graph.values import Cost, add_up

Run = Benchmark | BenchmarkFailed | Comparison | TestResult | Profiled
"""A command of the contract, with its seconds."""


SLACK = 1.25
"""Of what the final validation is thought to take: its versions and the machine are not those of the baseline."""


def minutes_between(earlier: str, later: str) -> float:
    """For the loop's cost: minutes from one ISO-8601 instant to another."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds() / 60


def waited_minutes(rounds: Sequence[RoundClosed]) -> float:
    """Minutes that closed rounds waited for a person."""
    return add_up(decision.waited_s for closed in rounds for decision in closed.decisions) / 60


def elapsed_minutes(opened_at: str, now: str, rounds: Sequence[RoundClosed]) -> float:
    """Minutes of a campaign's life that count towards `max_minutes`: since its first round, less waits for people."""
    return minutes_between(opened_at, now) - waited_minutes(rounds)


def round_cost(trial: Judged, reflection: Reflection, *, opened_at: str, closed_at: str) -> Cost:
    """Planner costs and command seconds of every stage; wall seconds from the clock."""
    return cost_so_far(trial) + reflection.cost + Cost(wall_seconds=minutes_between(opened_at, closed_at) * 60)


def cost_so_far(trial: Stage) -> Cost:
    """Of a trial whose round is not yet closed; without wall seconds."""
    total = Cost()
    stage: Stage | None = trial
    while stage is not None:
        total = total + _stage_cost(stage)
        stage = inner(stage)
    formatted = trial.formatted if isinstance(trial, Judged) else None
    return total + (command_cost(*formatted.evidence) if formatted else Cost())


def command_cost(*runs: Run | None) -> Cost:
    """Cost of commands: how long they took, and how long a card was held for them."""
    present = [run for run in runs if run is not None]
    return Cost(
        command_seconds=add_up(run.seconds for run in present), gpu_seconds=add_up(run.gpu_s for run in present)
    )


def _stage_cost(stage: Stage) -> Cost:
    match stage:
        case Proposed():
            return stage.cost
        case Drafted():
            return sum((repair.cost for repair in stage.repairs), stage.cost)
        case Built():
            return Cost(command_seconds=stage.build.exit.seconds if stage.build.exit else 0.0)
        case Broken() | Verified():
            return command_cost(stage.test)
        case Timed():
            return command_cost(*stage.evidence)
        case Traced():
            return command_cost(stage.profile)
        case Applied() | Failed() | Judged():
            return Cost()


# What a campaign may cost, against what it has cost; the reasons of T7.


def list_exceeded_budgets(history: History, elapsed_minutes: float, exhausted: str = "") -> tuple[str, ...]:
    """Every budget that is spent, each with its numbers; empty while all hold.

    `exhausted` is the planner's reason for having no further direction: it is a budget's when the next question to a
    model might have cost more than was left.
    """
    return tuple(_reasons(history, elapsed_minutes, exhausted))


def final_validation_s(history: History) -> float:
    """Seconds that concluding takes, by what the baseline and its pairs took: final test, both benchmarks, the suite."""
    baseline = history.baseline
    if baseline is None:
        return 0.0
    pair_s = _pair_s(history)
    is_accepted = any(closed.accepted for closed in history.rounds)
    paired_s = history.limits.final_pairs * pair_s if is_accepted else 0.0
    return SLACK * (paired_s + (2 if is_accepted else 1) * baseline.project.seconds + baseline.test.seconds)


def least_round_s(history: History) -> float:
    """Seconds of a round that is tested, benchmarked and decided by its first pairs; less is no round."""
    baseline = history.baseline
    if baseline is None:
        return 0.0
    return baseline.test.seconds + baseline.quick.seconds + 2 * _pair_s(history)


def _pair_s(history: History) -> float:
    """Seconds of one process pair as last measured; the quick benchmark's of both versions where none was."""
    for run in reversed(history.calibrations):
        if run.comparison is not None and run.comparison.seconds > 0:
            return run.comparison.seconds / max(1, min(len(shape.pairs) for shape in run.comparison.shapes))
    return 2 * history.baseline.quick.seconds if history.baseline else 0.0


def is_budget_end(exhausted: str) -> bool:
    """Whether the planner stopped for money, and not for want of directions."""
    return exhausted.startswith(OUT_OF_BUDGET)


def device_minutes(history: History, cost: Cost) -> float:
    """GPU minutes, at most: on a machine with a GPU all that its commands took, builds included."""
    seconds = cost.command_seconds if history.opened.machine.kind != "cpu" else 0.0
    return max(seconds, cost.gpu_seconds) / 60


def _reasons(history: History, elapsed_minutes: float, exhausted: str) -> Iterator[str]:
    """Each spent budget of a campaign in words."""
    limits, cost = history.limits, total_cost(history)
    needed = (least_round_s(history) + final_validation_s(history)) / 60 if history.opened.counts_work else 0.0
    if limits.max_minutes is not None and elapsed_minutes + needed >= limits.max_minutes:
        room = f"; another round and the final validation need {needed:.1f}" if needed else ""
        yield f"{elapsed_minutes:.1f} of {limits.max_minutes:g} minutes{room}"
    on_device = device_minutes(history, cost)
    if limits.max_gpu_minutes is not None and on_device >= limits.max_gpu_minutes:
        yield f"{on_device:.1f} of {limits.max_gpu_minutes:g} GPU minutes"
    if limits.max_dollars is not None and cost.dollars is None:
        yield f"a price is unknown, so {limits.max_dollars:g} dollars cannot be kept"
    elif limits.max_dollars is not None and cost.dollars is not None and cost.dollars >= limits.max_dollars:
        yield f"{cost.dollars:.2f} of {limits.max_dollars:g} dollars"
    if limits.max_tokens is not None and cost.tokens >= limits.max_tokens:
        yield f"{cost.tokens} of {limits.max_tokens} tokens"
    if is_budget_end(exhausted):
        yield f"the next question does not fit: {exhausted.removeprefix(OUT_OF_BUDGET)}"
