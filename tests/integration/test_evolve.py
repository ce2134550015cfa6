"""Search mode `evolve`: questions begin from archived candidates; what is kept is proven against the best version."""

import json
from dataclasses import replace

import pytest

from ridgeline.agent.campaign.tape import Tape
from ridgeline.graph.briefing import Draft
from ridgeline.graph.evidence import Comparison
from ridgeline.graph.reports.html import report_html
from ridgeline.graph.rules.archive import fold_archive
from ridgeline.graph.trial import Applied, Timed, find, find_proposal
from ridgeline.graph.values import FileEdit
from tests.builders import make_limits
from tests.campaigns import make_campaign, saver, wrapped
from tests.integration.test_candidates import FATES, Generous, race
from tests.integration.test_crash import Crash, Flaky, Fuse
from tests.world import KERNEL, SideBySide


class Heir(SideBySide):
    """Writes its script before the text of the version that it was shown: each candidate tells what it was made from."""

    def __init__(self, *scripts):
        super().__init__(*scripts)
        self.briefings = []

    def propose(self, briefing):
        self.briefings.append(briefing)
        return super().propose(briefing)

    def draft(self, briefing, proposal):
        text = self._script(briefing.round)[0]
        made_from = next(edit.text for edit in briefing.sources if edit.path == KERNEL)
        return Draft(edits=(FileEdit(path=KERNEL, text=f"{text} in round {briefing.round}\n{made_from}"),))


SPEEDS = (90, 120, 80, 130, 95, 85, 97, 112, 160)
QUICK = {"calibration_pairs": 4, "final_pairs": 3, "blocks": 2, "islands": 1, "search_seed": 1}


def evolve(tmp_path, *scripts, **limits):
    planner = Heir(*(scripts or (f"speed {speed}" for speed in SPEEDS)))
    defaults = {"target_peak_fraction": None, "max_restarts": 0, "candidates": 3, "search_mode": "evolve", **QUICK}
    tmp_path.mkdir(exist_ok=True)
    limits = make_limits(**{**defaults, **limits})
    tape = Tape(tmp_path / "tape.jsonl")
    return make_campaign(tmp_path, planner=planner, limits=limits, tape=tape), planner


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evolve")
    campaign, planner = evolve(folder)
    campaign.drive()
    return campaign, planner, (folder / "ledger.jsonl").read_bytes()


@pytest.mark.feature("F094")
def test_with_one_candidate_it_is_the_linear_loop_byte_for_byte(tmp_path):
    linear = race(tmp_path / "linear", *FATES, candidates=1)
    alone = race(tmp_path / "one", *FATES, candidates=1, planner=Generous, search_mode="evolve", search_seed=7)
    left, right = (
        [json.loads(line)["body"] for line in (tmp_path / name / "ledger.jsonl").read_text().splitlines()]
        for name in ("linear", "one")
    )
    limits = right[0]["limits"]
    assert (limits.pop("search_mode"), limits.pop("search_seed")) == ("evolve", 7)
    assert [json.dumps(body) for body in left] == [json.dumps(body) for body in right]
    assert linear.files.texts() == alone.files.texts()


@pytest.mark.feature("F093", "F094")
def test_candidates_are_made_from_the_drawn_parent_and_kept_only_where_proven_against_the_best(whole):
    campaign, _, _ = whole
    history = campaign.history()
    parents = [find_proposal(closed.judged).parent for closed in history.rounds]
    assert parents == [None, None, None, 2, 2, 2, 7, 7, 7]
    for closed, parent in zip(history.rounds, parents, strict=True):
        text = campaign.workspace.sources(find(closed.judged, Applied).commit)[0].text
        assert (f"in round {parent}\n" in text) == bool(parent), "its parent's code is part of it"
        pairs = [item for item in find(closed.judged, Timed).evidence if isinstance(item, Comparison)]
        kept_before = [other for other in history.rounds if other.accepted and other.round < closed.beside]
        best = kept_before[-1].commit if kept_before else history.opened.base_commit
        assert {pair.best for pair in pairs} == {best}, "measured against the best version, whatever it was made from"
    kept = [closed for closed in history.rounds if closed.accepted]
    assert [closed.round for closed in kept] == [3, 5, 10]
    made_from = campaign.workspace.sources(kept[-1].commit)[0].text
    losers = ["speed 85 in round 7", "speed 90 in round 2", "speed 100"]
    assert made_from.splitlines()[1:] == losers, "two that lost are in what won"
    assert campaign.workspace.branch_log() == [closed.commit for closed in reversed(kept)], "one line, each proven"


def test_the_planner_is_told_its_parent_and_sees_elites_of_other_cells(whole):
    _, planner, _ = whole
    briefing = planner.briefings[2]
    assert (briefing.base_round, briefing.best_round) == (7, 5)
    assert briefing.parent.generation == 3
    assert [elite.round for elite in briefing.parent.elites][:2] == [5, 3]
    assert briefing.parent.best_score == pytest.approx(1.3, abs=0.01)


@pytest.mark.feature("F094")
def test_pages_show_cells_generations_and_what_a_round_was_made_from(whole):
    campaign, _, _ = whole
    page = campaign.files.read("archive.md")
    assert "| 2 | 1 | gen 2: best round-5 score 1.3" in page
    assert "3 generations, " in page
    assert "Made from the version of round-7" in campaign.files.read("rounds/round-10/summary.md")
    assert "Changes the version of round-7" in campaign.files.read("plans/v9_plan.md")
    assert "## Archive" in campaign.files.read("final_report.md")
    assert "T9 no_improve: 5 generations without 1%" in campaign.files.read("README.md")
    assert "Archive" in report_html(campaign.history(), diffs={})


@pytest.mark.feature("F094", "F121")
@pytest.mark.parametrize("at", [90, 171])
def test_a_crash_loses_nothing(tmp_path, whole, at):
    """With and without its checkpoints: the same parents are drawn, and the ledger is the same."""
    _, _, ledger = whole
    campaign, _ = evolve(tmp_path)
    real, fuse = campaign.ports, Fuse(at, "after")
    campaign.ports = wrapped(real, lambda name, port: Flaky(port, fuse))
    with pytest.raises(Crash):
        campaign.drive()
    if at % 2:
        campaign.saver = saver()
    campaign.ports = replace(real, ledger=type(real.ledger)(tmp_path / "ledger.jsonl"))
    campaign.drive()
    assert (tmp_path / "ledger.jsonl").read_bytes() == ledger


@pytest.mark.feature("F094")
def test_it_ends_when_generations_bring_no_improvement(tmp_path):
    campaign, _ = evolve(tmp_path, *(f"speed {speed}" for speed in (120, *[90] * 20)), patience=3, max_generations=9)
    campaign.drive()
    history = campaign.history()
    assert history.concluded.stop_reason == "T9 no_improve: 3 of 3 generations without 1 %"
    assert len(fold_archive(history).generations) == 4
