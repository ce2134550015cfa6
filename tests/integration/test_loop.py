import re

import pytest

from ridgeline.graph.trial import Drafted, find
from tests.builders import make_limits
from tests.campaigns import make_campaign

SCRIPTS = ("speed 120", "speed 121 wrong", "speed 90", "speed 120.1", "no build", "touch the benchmark", "speed 150")
EXPECTED = ["faster", "incorrect", "not_better", "not_better", "build_failed", "refused_edit", "faster"]


@pytest.mark.feature("F012", "F015", "F044", "F122")
def test_a_campaign_keeps_the_faster_and_leaves_the_branch_on_the_best(tmp_path):
    campaign = make_campaign(tmp_path, *SCRIPTS)
    campaign.drive()
    got = campaign.verdicts()
    assert got[0] == got[-1] == "faster"
    assert got[1:3] == ["incorrect", "not_better"]
    assert got[3] in ("not_better", "undecided", "noise")
    assert got[4:6] == ["build_failed", "refused_edit"]
    history = campaign.history()
    assert history.concluded is not None
    assert history.concluded.speedup == pytest.approx(1.5, rel=0.02)
    assert 1.3 < history.concluded.speedup_lower < history.concluded.speedup
    assert campaign.workspace.sources(history.rounds[-1].commit)[0].text == "speed 150\n"
    assert len(campaign.workspace.branch_log()) == 2
    broken = history.rounds[4]
    assert broken.judged.verdict.decision == "rolled_back"
    assert broken.tree == history.rounds[3].tree, "the best version is what it was before the build failed"
    target = history.opened.target
    tips = campaign.files.tips(target.target_gpu, target.target_op, target.target_backend)
    assert re.findall(r"round-(\d+) - (\w+)", tips) == [("2", "ACCEPTED"), ("8", "ACCEPTED")], "no lesson, no tip"


def test_the_record_names_the_contract_that_was_given(tmp_path):
    campaign = make_campaign(tmp_path)
    campaign.request = campaign.request.model_copy(update={"contract_path": "tasks/ridgeline_other.yaml"})
    campaign.drive()
    assert campaign.history().opened.contract_path == "tasks/ridgeline_other.yaml"


@pytest.mark.feature("F101")
def test_three_repairs_are_counted_and_then_it_is_over(tmp_path):
    wrong = [f"speed 150 wrong {n}" for n in range(6)]
    campaign = make_campaign(tmp_path, wrong, ["speed 150 wrong", "speed 150 wrong again", "speed 150"])
    campaign.drive()
    lost, mended = campaign.history().rounds
    assert lost.judged.verdict.reason == "incorrect"
    assert len(lost.judged.trial.reached.built.applied.drafted.repairs) == 3
    assert mended.accepted
    assert len(mended.judged.trial.timed.verified.built.applied.drafted.repairs) == 2


@pytest.mark.feature("F110")
def test_a_formatter_that_slows_the_code_takes_the_gain_away(tmp_path):
    campaign = make_campaign(tmp_path, "unformatted slow speed 110", "unformatted speed 130")
    campaign.drive()
    lost, kept = campaign.history().rounds
    assert lost.judged.verdict.reason == "formatted_not_better"
    assert kept.accepted
    assert campaign.workspace.sources(kept.commit)[0].text == "formatted speed 130\n"


@pytest.mark.feature("F056", "F085")
def test_stagnation_is_reviewed_and_exhaustion_masks_half_before_it_stops(tmp_path):
    campaign = make_campaign(tmp_path, "speed 120", "speed 80", "speed 81", "speed 82", "speed 83")
    campaign.drive()
    history = campaign.history()
    assert history.reviews
    assert history.reviews[0].after_round == 4
    assert len(history.reviews[0].directions) >= 3
    assert len(history.restarts) == 1
    (masked,) = (restart.masked for restart in history.restarts)
    assert len(masked) == 2, "half of five versions, rounded down"
    assert set(masked) < {2, 3, 4, 5}, "never v0, the original, nor v1, the best"
    assert history.concluded.stop_reason == "T8 search exhausted: the script is at its end"


@pytest.mark.feature("F058", "F104", "F112")
def test_five_regressions_stop_an_autonomous_campaign(tmp_path):
    limits = make_limits("autonomous")
    campaign = make_campaign(tmp_path, *[f"speed {80 + n}" for n in range(9)], limits=limits)
    campaign.drive()
    history = campaign.history()
    assert len(history.rounds) == 5
    assert "Stop Summary" in campaign.files.read("performance.md")


@pytest.mark.feature("F120")
@pytest.mark.parametrize("preset", ["evidence", "campaign", "router", "autonomous"])
def test_every_preset_runs_to_its_report(tmp_path, preset):
    campaign = make_campaign(tmp_path, "speed 120", "speed 90", limits=make_limits(preset, max_rounds=2))
    campaign.drive()
    assert campaign.verdicts()[0] == "faster"
    assert not campaign.history().rounds[1].accepted
    assert campaign.files.read("final_report.md")


REPLAY = (
    "speed 120",
    [f"speed 150 wrong {attempt}" for attempt in range(5)],
    "no build",
    "speed 120.9",
    "touch the benchmark",
    *(f"speed {speed}" for speed in (110, 100, 90, 80, 70)),
    "speed 180",
)
LOST = ["incorrect", "build_failed"]
SLOWER = ["refused_edit", *["not_better"] * 5]


@pytest.mark.feature("F120")
@pytest.mark.parametrize(
    ("preset", "verdicts", "measured", "stop", "branch", "reviews"),
    [
        # +0.75 % is near noise: best and candidate are measured three times more, and 0.75 % is below 1 %
        ("campaign", ["faster", *LOST, "noise", *SLOWER, "faster"], 7, "T8", "optimize", [4, 6, 8, 10]),
        # any gain is kept, on one measurement; exhaustion restarts before it ends
        ("router", ["faster", *LOST, "faster", *SLOWER, "faster"], 1, "T8", "optimize", [4, 7, 9, 11]),
        # twice in the same direction is a gain; the fifth measured regression in a row is the end
        ("autonomous", ["faster", *LOST, "faster", *SLOWER], 2, "T5", "kernel-opt", [4, 7, 9]),
    ],
)
def test_a_preset_replayed_decides_as_its_document_prescribes(
    tmp_path, preset, verdicts, measured, stop, branch, reviews
):
    """The same scripted candidates, timed without noise, under the three documents' rules."""
    campaign = make_campaign(tmp_path, *REPLAY, limits=make_limits(preset, target_peak_fraction=None))
    campaign.ports.timer.noise = 0.0
    campaign.drive()
    history = campaign.history()
    assert campaign.verdicts() == verdicts
    near_noise = history.rounds[3].judged.trial
    assert len(near_noise.timed.evidence) == measured
    assert {run.level for run in near_noise.timed.evidence} == {"full" if preset == "autonomous" else "quick"}
    assert len(find(history.rounds[1].judged, Drafted).repairs) == 3, "a wrong result is repaired three times"
    assert find(history.rounds[2].judged, Drafted).repairs == (), "a build that fails is rolled back at once"
    assert [review.after_round for review in history.reviews] == reviews, "two rollbacks in a row, and never a stop"
    assert history.concluded.stop_reason.startswith(stop)
    assert history.opened.branch.startswith(f"{branch}/")
    assert len(history.restarts) == (3 if preset == "router" else 0)
    kept = [closed.round for closed in history.rounds if closed.accepted]
    assert len(campaign.workspace.branch_log()) == len(kept), "a commit for each kept round and none else"


def test_the_drawn_graph_has_every_phase_and_no_edge_that_cannot_happen():
    from ridgeline.graph.loop.build import build_loop

    edges = {(edge.source, edge.target) for edge in build_loop().get_graph().edges}
    assert ("verify", "repair") in edges
    assert ("repair", "apply") in edges
    assert ("judge", "accept") not in edges
    assert ("revalidate", "accept") in edges
    assert {edge[1] for edge in edges if edge[0] == "accept"} == {"canary", "check_stop"}
