"""When a round is a deep one, what it claims before its first edit, and when its budget is used up."""

from ridgeline.graph.contract import Scoring
from ridgeline.graph.deep import DeepRound, DeepSpent
from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.cost import device_minutes, elapsed_minutes, final_validation_s
from ridgeline.graph.rules.history import total_cost
from ridgeline.graph.standing import History
from ridgeline.graph.trial import find_proposal
from ridgeline.graph.values import Bucket, Hypothesis, Prediction

LEVER = "deep"
"""Lever of every deep round's hypothesis."""
OPEN_PLAN = "as the worker sees fit, in as many steps as it takes"
BUCKET: Bucket = "K1"
"""Of every deep round's hypothesis."""
BUDGET_ENDED = "budget of the deep round ended"
"""Begins the reason of a deep round that its budget ended."""


def find_deep_wish(history: History) -> DeepRound | None:
    """The loop's rule of whether the next round is a deep one, and why: a person's wish, the planner's, the start's; else None.

    Every wish is answered once, by what the ledger holds: a round that was closed is not done again.
    """
    closed = [deep for entry in history.rounds if (deep := find_proposal(entry.judged).deep) is not None]
    wishes = history.steered[-1].wish.deep if history.steered else ()
    answered = sum(deep.origin == "person" for deep in closed)
    if answered < len(wishes):
        return DeepRound(origin="person", plan=wishes[answered] or OPEN_PLAN)
    last_round = history.rounds[-1].round if history.rounds else 1
    review = history.reviews[-1] if history.reviews else None
    if history.limits.deep != "asked" and review is not None and review.deep and review.after_round == last_round:
        return DeepRound(origin="planner", plan=review.deep)
    if history.limits.deep == "start" and not history.rounds:
        return DeepRound(origin="start", plan=history.limits.deep_plan or OPEN_PLAN)
    return None


def make_hypothesis(deep: DeepRound, *, round: int, scoring: Scoring, evidence: str) -> Hypothesis:
    """The rule of what a deep round of the loop claims before anything is tried: that the score improves by its plan."""
    metric = scoring.primary_metric[0]
    return Hypothesis(
        id=f"deep-{round}",
        lever=LEVER,
        claim=f"I expect {metric} to improve because several steps together reach what none of them reaches alone.",
        change=f"deep round: {deep.plan}",
        category="algorithm",
        bucket=BUCKET,
        evidence=(evidence or "the best version as it was profiled when the round began",),
        risks="a large change: what holds for the tested inputs may not hold for others",
        verification=f"tests pass, and {metric} improves against the best version over all shapes",
        prediction=Prediction(counter=metric, direction="up" if scoring.higher_is_better else "down"),
        high_risk=True,
    )


def narrow_deep_limits(history: History, *, opened_at: str, worked_s: float) -> Limits:
    """The rule of what a deep round may use: its own budget, or what is left of the campaign's where that is less.

    `history`: before the round. `opened_at`, `worked_s`: when it begins, by the clock and in seconds of work. Of the
    campaign's tokens the longest answer is left out, of its minutes the final validation.
    """
    limits, cost = history.limits, total_cost(history)
    narrowed: dict[str, float] = {}
    if limits.max_tokens is not None:
        left = max(0, limits.max_tokens - cost.tokens - limits.answer_tokens)
        narrowed["deep_tokens"] = min(limits.deep_tokens, left)
    if limits.max_minutes is not None:
        began_at = history.baseline.opened_at if history.baseline else opened_at
        minutes = elapsed_minutes(began_at, opened_at, history.rounds)
        if history.opened.counts_work:
            minutes = (worked_s + final_validation_s(history)) / 60
        narrowed["deep_minutes"] = min(limits.deep_minutes, max(0.0, limits.max_minutes - minutes))
    if limits.max_gpu_minutes is not None:
        left_s = 60 * max(0.0, limits.max_gpu_minutes - device_minutes(history, cost))
        narrowed["deep_device_s"] = min(limits.deep_device_s, left_s)
    return limits.model_copy(update=narrowed)


def explain_deep_end(limits: Limits, spent: DeepSpent) -> str:
    """The rule that ends a deep round: which of its budgets is used up, with its numbers; empty while all hold."""
    used = (
        (spent.work_s / 60, limits.deep_minutes, "minutes"),
        (spent.tokens, limits.deep_tokens, "tokens"),
        (spent.device_s, limits.deep_device_s, "seconds on the device"),
        (spent.steps, limits.deep_steps, "steps"),
    )
    over = [f"{number:.4g} of {most:g} {unit}" for number, most, unit in used if number >= most]
    return f"{BUDGET_ENDED}: {', '.join(over)}" if over else ""


def describe_deep_budget(limits: Limits, spent: DeepSpent) -> str:
    """By the rule of a deep round's end: what is left of each of its budgets, in a line."""
    return (
        f"left: {max(0.0, limits.deep_minutes - spent.work_s / 60):.1f} minutes,"
        f" {max(0, limits.deep_tokens - spent.tokens)} tokens,"
        f" {max(0.0, limits.deep_device_s - spent.device_s):.0f} s on the device,"
        f" {max(0, limits.deep_steps - spent.steps)} steps"
    )
