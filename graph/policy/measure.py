"""What a trial should have measured next: the one question that nodes ask between two measurements."""

from typing import assert_never

from ridgeline.graph.limits import Limits
from ridgeline.graph.policy import autonomous, campaign, interleaved
from ridgeline.graph.policy.gates import usable
from ridgeline.graph.policy.readings import readings
from ridgeline.graph.standing import BenchmarkWant, CompareWant, Standing
from ridgeline.graph.trial import Timed, Verified


def wanted(trial: Verified | Timed, standing: Standing, limits: Limits) -> BenchmarkWant | CompareWant | None:
    """The next measurement, or None when the trial can be judged. A failed run or a FAIL row ends measuring.

    Raises MixedEvidence when numbers of two engines, commands, machines or strange commits stand side by side.
    """
    found = readings(trial, standing, limits)
    if not usable(found, standing):
        return None
    match limits.preset:
        case "evidence":
            return interleaved.want(found, standing, limits)
        case "campaign":
            return campaign.want(trial, found, standing, limits)
        case "router":
            return campaign.want_quick(found, standing, limits)
        case "autonomous":
            return autonomous.want(trial, found, standing, limits)
        case _:  # pragma: no cover - mypy proves that no preset is left
            assert_never(limits.preset)
