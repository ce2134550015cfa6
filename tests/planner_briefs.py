"""Briefings after many rounds, for tests and benchmarks of the planner that asks a model."""

from ridgeline.graph.briefing import Briefing
from ridgeline.graph.record import Reflection, RoundClosed
from ridgeline.graph.values import Prediction
from tests.builders import make_hypothesis, make_profiled, make_round, make_target
from tests.catalog_briefs import brief, naive

TECHNIQUES = ("tile", "interleave", "prefetch", "unroll", "vectorize", "reorder", "hoist", "pack", "align", "stream")
CATEGORIES = (
    "tile",
    "layout",
    "pipelining",
    "compiler",
    "algorithm",
    "layout",
    "algorithm",
    "layout",
    "tile",
    "backend",
)
PLACES = (
    "outer loop",
    "inner loop",
    "reduction",
    "first operand",
    "second operand",
    "result",
    "edge",
    "address",
    "row",
)
PLATFORM = make_target().platform


def idea(number: int) -> tuple[str, str, str]:
    """Name, change and category of the n-th of many different ideas."""
    technique, place = TECHNIQUES[number % 10], PLACES[number // 10 % len(PLACES)]
    version = number // 90
    return (
        f"{technique}-{place.replace(' ', '-')}-{version}",
        f"{technique} the {place}, form {version}",
        (CATEGORIES[number % 10]),
    )


def past_round(round: int, *, accepted: bool, number: int | None = None) -> RoundClosed:
    """A round about an idea, with reflections as long as models write them."""
    name, change, category = idea(round if number is None else number)
    hypothesis = make_hypothesis(
        id=name,
        lever=name,
        change=change,
        category=category,
        claim=f"I expect GFLOPS to improve because {change} takes a load out of the hot loop of round {round}.",
        prediction=Prediction(counter="instructions", direction="down", ratio=0.8, speedup=1.2),
    )
    told = Reflection(
        attribution=f"instructions 1.2e9 -> 1.1e9 (0.92x), predicted down: unclear; {change} reached the inner loop.",
        root_cause="" if accepted else f"the loop waits for memory, and {change} does not change what is loaded",
        next_direction="look at how often each line of the second operand is fetched",
        lesson=None,
    )
    return make_round(
        round,
        "accepted" if accepted else "rolled_back",
        gain=0.03 if accepted else -0.002,
        hypothesis=hypothesis,
        reflection=told,
    )


def after(rounds: int, *, every: int = 4, **fields) -> Briefing:
    """The matmul task after so many rounds, one in `every` of them accepted."""
    past = [past_round(number, accepted=number % every == 0) for number in range(2, rounds + 2)]
    default = {
        "profile": make_profiled(),
        "tips": "- 2026-11-01 Tiles of 64 keep both operands of a small product in L1.\n",
        "directions": ("layout (not tried yet): pack the second operand by columns.",),
    }
    return brief(naive("matmul_c"), *past, **{**default, **fields})
