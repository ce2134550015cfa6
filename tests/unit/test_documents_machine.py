"""What is told of the machine's noise while somebody watches, and whose measurement it was."""

from ridgeline.graph.limits import PRESETS
from ridgeline.graph.reports.machine import seen_noise
from tests.builders import make_history
from tests.document_builders import make_calibrated

LIMITS = PRESETS["evidence"]


def test_a_calibration_that_an_earlier_campaign_made_is_not_told_as_made_now() -> None:
    now = make_calibrated(0.003)
    assert now.comparison is not None
    then = now.model_copy(update={"comparison": now.comparison.model_copy(update={"seconds": 0.0})})
    said = [seen_noise(body, make_history(limits=LIMITS, calibrations=(body,))) for body in (now, then)]
    assert said[0].startswith("calibration: 16 process pairs of identical versions scatter by ")
    assert said[1].startswith(
        "calibration, measured for an earlier campaign here: 16 process pairs of identical versions"
    )
    canary = now.model_copy(update={"fresh": False, "after_round": 8})
    assert (
        seen_noise(canary, make_history(limits=LIMITS, calibrations=(then, canary)))
        == "canary after round 8: noise as before"
    )
