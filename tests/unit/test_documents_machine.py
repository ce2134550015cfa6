"""What is told of the machine's noise while somebody watches, and whose measurement it was."""

from ridgeline.graph.limits import PRESETS
from ridgeline.graph.reports.machine import noise_lines, seen_noise
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


def test_a_calibration_made_again_leaves_the_notes_of_the_one_before_behind() -> None:
    borrowed, canary, again = make_calibrated(0.003), make_calibrated(0.004), make_calibrated(0.005)
    noted = [
        body.model_copy(update={"comparison": body.comparison.model_copy(update={"notes": (note,)}), **fields})
        for body, note, fields in (
            (borrowed, "measured on this machine 31 min ago", {}),
            (canary, "2 blocks left out", {"fresh": False, "after_round": 2, "alarm": "it drifts"}),
            (again, "1 block left out", {"after_round": 2}),
        )
        if body.comparison
    ]
    before, after = (noise_lines(make_history(limits=LIMITS, calibrations=tuple(noted[:n]))) for n in (2, 3))
    assert "measured on this machine 31 min ago" in before
    assert "1 block left out" in after
    assert not {"measured on this machine 31 min ago", "2 blocks left out"} & {*after}
    assert "After round 2: it drifts; calibrated again" in after
