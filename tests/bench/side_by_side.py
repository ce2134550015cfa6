"""How often a round of several candidates keeps one without a gain: `python -m tests.bench.side_by_side [RUNS]`.

Pair means are normal, all candidates share one calibration of 16 pairs, and timing goes on by elimination as in a round.
"""

import math
import random
import sys

from ridgeline.graph.evidence import Comparison, ShapePairs
from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.race import OUT
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.stats.sequential import Estimate, decide_from_pairs, estimate_gain, is_outpaced
from tests.builders import MACHINE, make_artifact

LIMITS = Limits()
SCATTER = 0.01
"""Standard deviation of a pair's mean log-ratio."""


def compare(means: list[float]) -> Comparison:
    """Pairs of one shape with these means."""
    pairs = tuple((mean, mean) for mean in means)
    return Comparison(
        best="a" * 40,
        candidate="b" * 40,
        machine=MACHINE,
        engine="wall",
        shapes=(ShapePairs(label="shape", pairs=pairs, best_us=1.0, candidate_us=1.0),),
        taken_blocks=2 * len(means),
        raw=make_artifact("pairs.json", "simulated"),
        seconds=1.0,
    )


def simulate_round(rng: random.Random, *, candidates: int, gain: float, sharing: int) -> tuple[bool, int]:
    """Whether a candidate was kept, and how many pairs were timed; `gain`: true log-ratio of each."""
    noise: Noise | None = estimate_noise([compare([rng.gauss(0, SCATTER) for _ in range(16)])])
    means = [[rng.gauss(gain, SCATTER)] for _ in range(candidates)]
    while True:
        estimates: list[Estimate] = [estimate_gain([compare(one)], noise, LIMITS, sharing=sharing) for one in means]
        decisions = [decide_from_pairs(estimate, LIMITS) for estimate in estimates]
        running = [place for place, decision in enumerate(decisions) if decision not in OUT]
        leader = max(running, key=lambda place: estimates[place].theta, default=0)
        open_places = [
            place
            for place in running
            if decisions[place] == "undecided"
            and len(means[place]) < LIMITS.looks[-1]
            and not is_outpaced(estimates[place], estimates[leader], LIMITS)
        ]
        if not open_places:
            return "faster" in decisions, sum(map(len, means))
        fastest = max(open_places, key=lambda place: estimates[place].theta)
        means[fastest].append(rng.gauss(gain, SCATTER))


def main() -> None:
    """One line for each case, with the same seed."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for candidates, sharing in ((1, 1), (3, 1), (3, 3)):
        for name, gain in (("no gain", 0.0), ("the margin", math.log1p(LIMITS.margin))):
            rng = random.Random(5)
            rounds = [simulate_round(rng, candidates=candidates, gain=gain, sharing=sharing) for _ in range(runs)]
            kept, pairs = sum(kept for kept, _ in rounds), sum(pairs for _, pairs in rounds) / runs
            sys.stdout.write(
                f"{candidates} candidates at alpha / {sharing}, each with {name}: {kept} of {runs} rounds kept one"
                f" ({kept / runs:.2%}), {pairs:.1f} pairs a round\n"
            )


if __name__ == "__main__":
    main()
