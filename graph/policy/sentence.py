"""The one line about a round that an engineer can quote (rules 13, R3)."""

from ridgeline.graph.trial import Broken, Failed, Traced, find, proposed
from ridgeline.graph.values import Answer
from ridgeline.graph.verdict import Decision, Verdict

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


def sentence(
    trial: Traced | Failed, decision: Decision, *, why: str, trade_off: bool = False, helped: Answer = "unverified"
) -> str:
    """`Round N: ACCEPTED - ...`, `... ROLLED BACK - <change> did not help because ...` or `... SPLIT - ...`.

    Only what was timed and is not faster "did not help"; the rest "was not kept".
    """
    start = proposed(trial)
    match decision:
        case "accepted":
            return f"Round {start.round}: ACCEPTED {'(trade-off) ' if trade_off else ''}- {why}"
        case "split":
            return f"Round {start.round}: SPLIT - {start.hypothesis.change}: {why}"
        case _:
            verb = "did not help" if helped == "no" else "was not kept"
            return f"Round {start.round}: ROLLED BACK - {start.hypothesis.change} {verb} because {why}"


def cause(trial: Failed) -> str:
    """Why it failed: our words, then the first line of the tool's, or what the audit says."""
    first = next((line.strip() for line in trial.detail.splitlines() if line.strip()), "")
    words = CAUSES[trial.reason]
    broken = find(trial, Broken)
    if broken is not None and broken.test.own_work == "no":
        words = "it is not its own work"
    if trial.reason == "rejected" and first:
        return f"it was {_cut(first, LONGEST_DETAIL)}"
    longest = LONGEST_REFUSAL if trial.reason in AUDITED else LONGEST_DETAIL
    return f"{words}: {_cut(first, longest)}" if first else words


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def measured(verdict: Verdict) -> str:
    """The gain with its bounds, and what they resolve: `-12.44% [-13.19%, -11.69%], slower`."""
    gain, lower, upper = verdict.gain, verdict.lower, verdict.upper
    if gain is None:
        return "not measured"
    bounds = f" [{lower:+.2%}, {upper:+.2%}]" if lower is not None and upper is not None else ""
    match verdict.faster:
        case "yes":
            words = "faster"
        case "no":
            words = "slower" if gain < 0 else "no gain above the margin"
        case _:
            words = "not resolved"
    return f"{gain:+.2%}{bounds}, {words}"


def worst_shape(verdict: Verdict) -> str:
    """The shape that lost most where a core shape's loss decided, with its number; empty elsewhere."""
    if verdict.reason != "core_regression" or not verdict.shapes:
        return ""
    shape = min(verdict.shapes, key=lambda one: one.gain)
    bounds = f" [{shape.lower:+.2%}, {shape.upper:+.2%}]" if None not in (shape.lower, shape.upper) else ""
    return f"core shape {shape.label} changed by {shape.gain:+.2%}{bounds}"
