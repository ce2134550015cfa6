"""The one line about a round that an engineer can quote (rules 13, R3)."""

from ridgeline.graph.trial import Failed, Traced, proposed
from ridgeline.graph.verdict import Decision

LONGEST_DETAIL = 160
"""Characters of a tool's own words that a sentence repeats."""
LONGEST_REFUSAL = 400
"""Of what the audit says, which is ours: place, meaning and mend stand before the code that it quotes."""
AUDITED = frozenset({"convicted", "unsettled"})

CAUSES = {
    "no_edit": "the planner gave no usable change",
    "refused_edit": "it touched files outside the editable ones",
    "no_change": "it left the code as it was",
    "more_than_one_change": "it was more than one change",
    "overfit": "its gain cannot reach a training step (Rule 11)",
    "convicted": "its source does what no honest kernel does",
    "unsettled": "its source does what no check here can settle",
    "build_failed": "the build failed",
    "build_timeout": "the build ran out of time",
    "incorrect": "its results are wrong",
    "test_timeout": "the correctness test ran out of time",
    "test_crashed": "the correctness test crashed",
    "tampered": "evaluation files were altered",
    "benchmark_failed": "the benchmark gave no usable numbers",
    "rejected": "a person rejected it",
}
"""Why a trial ended before a usable measurement."""


def sentence(trial: Traced | Failed, decision: Decision, *, why: str, trade_off: bool = False) -> str:
    """`Round N: ACCEPTED - ...`, `... ROLLED BACK - <change> did not help because ...` or `... SPLIT - ...`."""
    start = proposed(trial)
    match decision:
        case "accepted":
            return f"Round {start.round}: ACCEPTED {'(trade-off) ' if trade_off else ''}- {why}"
        case "split":
            return f"Round {start.round}: SPLIT - {start.hypothesis.change}: {why}"
        case _:
            return f"Round {start.round}: ROLLED BACK - {start.hypothesis.change} did not help because {why}"


def cause(trial: Failed) -> str:
    """Why it failed: our words, then the first line of the tool's, or what the audit says."""
    first = next((line.strip() for line in trial.detail.splitlines() if line.strip()), "")
    longest = LONGEST_REFUSAL if trial.reason in AUDITED else LONGEST_DETAIL
    short = first if len(first) <= longest else f"{first[: longest - 3]}..."
    return f"{CAUSES[trial.reason]}: {short}" if short else CAUSES[trial.reason]
