"""What the README of a campaign says that a shape may lose is what the gate does, by the numbers of the limits."""

import math

import pytest

from ridgeline.graph.reports.files import render_all
from tests.builders import VALUES, make_history, make_limits, make_noise, make_standing
from tests.judging import by_pairs, drive

EVEN = (4, 8, 12)
"""Looks at which what is added to every second pair and taken from the others cancels."""
USUAL = make_limits(looks=EVEN)
TOLD = make_limits(shape_guard=0.03, core_shape_regress_limit=0.08, noise_threshold=0.015, alpha=0.02, looks=EVEN)
NOISY = make_standing(noise=make_noise(sd=0.02))


def losing(loss, spread):
    """Shape `large` loses that much, give or take, and the others gain enough for all."""
    gains = {label: math.log(1.2) if label != "large" else math.log1p(-loss) for label in VALUES}
    return by_pairs(lambda label, pair: (gains[label] + (spread * (-1) ** pair if label == "large" else 0.0),) * 5)


@pytest.mark.feature("F029")
@pytest.mark.parametrize("limits", [USUAL, TOLD], ids=["default", "own"])
def test_the_page_says_what_the_gate_does_to_a_losing_shape(limits):
    guard, core, noise = limits.shape_guard, limits.core_shape_regress_limit, limits.noise_threshold
    page = str(render_all(make_history(limits=limits), worktree="tree")["README.md"])
    assert f"A shape proved slower by more than {100 * guard:g}% rejects the round" in page
    assert f"at {100 * (1 - limits.alpha):g}% confidence over all shapes together" in page
    assert f"so does a core shape that loses {100 * core:g}% or more as measured" in page
    assert f"any other loss of {100 * noise:g}% or more is kept as a trade-off and named" in page
    cases = [
        (guard + 0.01, 0.0005, None, "core_regression"),  # proved slower than the guard
        (guard + 0.009, 0.03, NOISY, "faster_trade_off"),  # beyond the guard as measured, and not proved
        (core + 0.001, 0.1, NOISY, "core_regression"),  # so much as measured, proved or not
        (core - 0.001, 0.1, NOISY, "faster_trade_off"),
        (guard - 0.004, 0.0005, None, "faster_trade_off"),  # less than the guard
        (noise + 0.001, 0.0005, None, "faster_trade_off"),
        (noise - 0.001, 0.0005, None, "faster"),  # no more than noise
    ]
    for loss, spread, standing, reason in cases:
        verdict, _ = drive(losing(loss, spread), limits, standing=standing)
        assert (loss, verdict.reason) == (loss, reason)
        assert any(note.startswith("trade-off: shape large regressed") for note in verdict.notes) == (
            reason == "faster_trade_off"
        )


@pytest.mark.feature("F029")
@pytest.mark.parametrize("preset", ["campaign", "router", "autonomous"])
@pytest.mark.parametrize("limit", [0.05, 0.08])
def test_presets_without_pairs_say_and_use_the_measured_limit_alone(preset, limit):
    limits = make_limits(preset, core_shape_regress_limit=limit, keep_gpu_time=False)
    page = str(render_all(make_history(limits=limits), worktree="tree")["README.md"])
    assert f"A core shape that loses {100 * limit:g}% or more rejects the round" in page
    assert "confidence over all shapes" not in page
