"""When calibrating ends early, and how often candidates just at the margin are kept then. About 20 s of processor."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ridgeline.graph.limits import PRESETS
from ridgeline.graph.rules.calibration import make_known_noise
from tests.bench.simulation_machine import Machine
from tests.bench.simulation_ours import compared, judged

LIMITS = PRESETS["evidence"]
KNOWN = make_known_noise(LIMITS)
STILL = Machine(name="pair sd 0.01 %", noise=0.0001, bias=0.0001)
EDGE = Machine(name="pair sd 0.4 %", noise=0.0003, bias=0.004)
MACHINES = (
    STILL,
    Machine(name="pair sd 0.05 %", noise=0.0003, bias=0.0005),
    Machine(name="pair sd 0.2 %", noise=0.0003, bias=0.002),
    EDGE,
    Machine(name="pair t5, sd 0.4 %", noise=0.0003, bias=0.004, tails="t5"),
    Machine(name="pair sd 0.8 %", noise=0.0003, bias=0.008),
    Machine(name="identical versions differ by 0.1 %", noise=0.0003, bias=0.0005, offset=0.001),
)
SLANTED = Machine(name="differ by 0.1 %, pair sd 0.2 %", noise=0.0003, bias=0.002, offset=0.001)
"""Which no calibration of all pairs sees either."""


def count_pairs(machine: Machine, runs: int) -> list[int]:
    """How many pairs each of so many calibrations of that machine takes."""
    assert KNOWN is not None
    draw = np.random.default_rng(20261123)
    calibrations = machine.pairs(draw, runs, LIMITS.calibration_pairs, blocks=LIMITS.blocks).tolist()
    return [
        next((look for look in KNOWN.looks if KNOWN.holds(compared(run[:look]).shapes)), LIMITS.calibration_pairs)
        for run in calibrations
    ]


def run() -> Iterator[dict[str, Any]]:
    """A row for each machine and what it says."""
    for machine in (*MACHINES, SLANTED):
        pairs = count_pairs(machine, 1000)
        yield {"what": f"ended after 4 pairs, {machine.name}", "value": 100 * pairs.count(4) / len(pairs), "unit": "%"}
        yield {"what": f"pairs of a calibration, {machine.name}", "value": sum(pairs) / len(pairs), "unit": "pairs"}
        null, margin = judged(machine, [(0.0, 1000), (LIMITS.margin, 3000)], LIMITS, seed=(20261123,))
        bound = {"bound": 100 * LIMITS.alpha, "ok": margin.rate <= LIMITS.alpha} if machine is not SLANTED else {}
        yield {"what": f"kept at 0, {machine.name}", "value": 100 * null.rate, "unit": "%"}
        yield {"what": f"kept at the margin, {machine.name}", "value": 100 * margin.rate, "unit": "%", **bound}
    (all_pairs,) = judged(
        SLANTED, [(LIMITS.margin, 3000)], LIMITS.model_copy(update={"calibration_looks": ()}), seed=(20261123,)
    )
    yield {"what": f"the same after all pairs, {SLANTED.name}", "value": 100 * all_pairs.rate, "unit": "%"}
