"""How often a round of several candidates keeps one without a gain: `python -m tests.bench.side_by_side [RUNS]`.

Pair means are normal, all candidates share one calibration of 16 pairs, and timing goes on by elimination as in a round.
"""

import math
import random
import sys

from ridgeline.evals.research.candidates import time_candidates
from ridgeline.graph.limits import Limits

LIMITS = Limits()
SCATTER = 0.01
"""Standard deviation of a pair's mean log-ratio."""


def main() -> None:
    """One line for each case, with the same seed."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for candidates, sharing in ((1, 1), (3, 1), (3, 3)):
        for name, gain in (("no gain", 0.0), ("the margin", math.log1p(LIMITS.margin))):
            rng = random.Random(5)
            effects = [gain] * candidates
            rounds = [time_candidates(rng, effects, scatter=SCATTER, sharing=sharing) for _ in range(runs)]
            kept, pairs = sum(place is not None for place, _ in rounds), sum(pairs for _, pairs in rounds) / runs
            sys.stdout.write(
                f"{candidates} candidates at alpha / {sharing}, each with {name}: {kept} of {runs} rounds kept one"
                f" ({kept / runs:.2%}), {pairs:.1f} pairs a round\n"
            )


if __name__ == "__main__":
    main()
