"""Runs a trial through `wanted` and `judge` against a scripted world, as the nodes do."""

from collections.abc import Callable, Sequence

from ridgeline.graph.evidence import Benchmark, Measured, Profiled
from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.acceptance import choose_measurement, decide_verdict
from ridgeline.graph.standing import BenchmarkWant, CompareWant, Standing
from ridgeline.graph.trial import Timed, Traced
from ridgeline.graph.values import Hypothesis
from ridgeline.graph.verdict import Verdict
from tests.builders import BASE, CANDIDATE, VALUES, make_benchmark, make_comparison, make_standing, make_traced

World = Callable[[BenchmarkWant | CompareWant], Measured]
MOST_MEASUREMENTS = 40
"""A policy that asks for more than this never ends."""


def drive(
    world: World,
    limits: Limits,
    *,
    standing: Standing | None = None,
    hypothesis: Hypothesis | None = None,
    profile: Profiled | None = None,
    best_profile: Profiled | None = None,
    split: bool = False,
) -> tuple[Verdict, list[tuple]]:
    """The verdict, and what was asked for: (which, level, repeat) or (first_pair, pairs)."""
    standing = standing or make_standing()
    start = make_traced(hypothesis=hypothesis, split=split).timed.verified
    trial = Timed(verified=start, evidence=())
    asked: list[tuple] = []
    while (want := choose_measurement(trial if trial.evidence else start, standing, limits)) is not None:
        asked.append(_short(want))
        assert len(asked) <= MOST_MEASUREMENTS
        trial = Timed(verified=start, evidence=(*trial.evidence, world(want)))
    traced = Traced(timed=trial, profile=profile)
    return decide_verdict(traced, standing, limits, best_profile=best_profile), asked


def by_gain(gains: dict[tuple, float] | float, *, checks: str = "PASS") -> World:
    """A world of benchmarks: (which, level, repeat) -> gain of every shape over VALUES; a number is for all runs."""

    def answer(want: BenchmarkWant | CompareWant) -> Benchmark:
        assert isinstance(want, BenchmarkWant)
        key = (want.which, want.level, want.repeat)
        default = gains if isinstance(gains, float) and want.which == "candidate" else 0.0
        gain = gains.get(key, 0.0) if isinstance(gains, dict) else default
        return shaped(want, dict.fromkeys(VALUES, gain), checks=checks)

    return answer


def shaped(want: BenchmarkWant, gains: dict[str, float], *, checks: str = "PASS", **fields) -> Benchmark:
    """A benchmark for that want, label -> gain over VALUES."""
    values = {label: VALUES.get(label, 100.0) * (1 + gain) for label, gain in gains.items()}
    commit = CANDIDATE if want.which == "candidate" else BASE
    built = make_benchmark(values, commit=commit, level=want.level, repeat=want.repeat, **fields)
    if checks == "PASS":
        return built
    rows = (built.rows[0].model_copy(update={"check": checks}), *built.rows[1:])
    return built.model_copy(update={"rows": rows})


def by_pairs(draw: Callable[[str, int], Sequence[float]], labels: Sequence[str] = tuple(VALUES), **fields) -> World:
    """A world of `evidence`: benchmarks equal to VALUES, and pairs whose blocks are drawn by (label, pair)."""

    def answer(want: BenchmarkWant | CompareWant) -> Measured:
        if isinstance(want, BenchmarkWant):
            return shaped(want, dict.fromkeys(labels, 0.0))
        pairs = range(want.first_pair, want.first_pair + want.pairs)
        return make_comparison({label: tuple(draw(label, pair) for pair in pairs) for label in labels}, **fields)

    return answer


def _short(want: BenchmarkWant | CompareWant) -> tuple:
    if isinstance(want, BenchmarkWant):
        return (want.which, want.level, want.repeat)
    return (want.first_pair, want.pairs)
