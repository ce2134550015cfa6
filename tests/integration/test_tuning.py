"""A sweep over several parameters inside one round: screened points, one of which meets the gate."""

import re
from dataclasses import replace

import pytest

from ridgeline.agent.planner.catalog import CatalogPlanner
from ridgeline.graph.briefing import Draft, Proposal
from ridgeline.graph.evidence import BuildResult, Exit
from ridgeline.graph.rules.tuning import choose_point, set_point
from ridgeline.graph.trial import Drafted, Failed, Point, Timed, find
from ridgeline.graph.values import FileEdit, Parameter
from tests.builders import make_hypothesis, make_limits
from tests.campaigns import make_campaign
from tests.world import ScriptedPlanner, TextBuilder, TextChecker, TextTimer

KERNEL = "#define TILE_ROWS 4\n#define UNROLL 2\nint run(void) { return TILE_ROWS * UNROLL; }"
SPACE = (Parameter(name="TILE_ROWS", values=(2, 4, 8, 16)), Parameter(name="UNROLL", values=(1, 2, 4)))


def read_point(text: str) -> dict[str, int]:
    """What the constants of a source are."""
    return {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)", text)}


class TunedTimer(TextTimer):
    """Fastest at TILE_ROWS = 8 and UNROLL = 4, which no step of one parameter alone shows: it is slower than the start."""

    def speed(self, commit):
        point = read_point(self._read(commit))
        together = point["TILE_ROWS"] == 8 and point["UNROLL"] == 4
        alone = (point["TILE_ROWS"] != 4) + (point["UNROLL"] != 2)
        return 1.5 if together else 1.0 - 0.1 * alone


class SmallBuilder(TextBuilder):
    """A tile of 16 does not fit."""

    def build(self, commit):
        if read_point(self._read(commit))["TILE_ROWS"] < 16:
            return super().build(commit)
        ended = Exit(argv=("cc",), returncode=1, seconds=0.1, output="kernel.c: out of shared memory")
        return BuildResult(ok=False, commit=commit, exit=ended)


class StrictChecker(TextChecker):
    """A tile of 2 is wrong."""

    def check(self, commit, *, purpose):
        done = super().check(commit, purpose=purpose)
        wrong = read_point(self._read(commit))["TILE_ROWS"] == 2
        return done.model_copy(update={"passed": False, "kind": "incorrect", "detail": "MISMATCH"}) if wrong else done


class Sweeper(ScriptedPlanner):
    """Declares one sweep."""

    def propose(self, briefing):
        if briefing.rounds:
            return Proposal(hypothesis=None, exhausted="one sweep was asked for")
        return Proposal(hypothesis=make_hypothesis(id="sweep", change="sweep", sweep=True, tuning=SPACE))

    def draft(self, briefing, proposal):
        return Draft(edits=(FileEdit(path="kernel.c", text=KERNEL + "\n// tuned\n"),), explanation="Tiles.")


def tune(tmp_path, *, planner=None, timer=TunedTimer, **limits):
    """A campaign of one sweep."""
    settings = make_limits(**{"target_peak_fraction": None, "max_restarts": 0, "max_rounds": 1, **limits})
    campaign = make_campaign(tmp_path, planner=planner or Sweeper(), limits=settings, kernel=KERNEL)

    def read(commit):
        return next(file.text or "" for file in campaign.workspace.sources(commit) if file.path == "kernel.c")

    campaign.ports = replace(campaign.ports, timer=timer(read), builder=SmallBuilder(read), checker=StrictChecker(read))
    campaign.drive()
    return campaign


def test_the_best_point_of_all_is_one_change_that_meets_the_gate_on_fresh_pairs(tmp_path):
    campaign = tune(tmp_path, tuning_points=12)
    (closed,) = campaign.history().rounds
    drafted, timed = find(closed.judged, Drafted), find(closed.judged, Timed)
    assert len(drafted.tuned) == 12
    unusable = {dict(point.settings)["TILE_ROWS"]: point.invalid for point in drafted.tuned if point.gain is None}
    assert unusable[16] == "does not build: kernel.c: out of shared memory"
    assert closed.judged.verdict.reason == "faster"
    assert closed.judged.verdict.gain == pytest.approx(0.5, abs=0.02)
    assert read_point(campaign.workspace.sources(closed.commit)[0].text) == {"TILE_ROWS": 8, "UNROLL": 4}
    assert "Swept 12 points" in drafted.explanation
    assert "best by one pair: TILE_ROWS=8, UNROLL=4 (+" in drafted.explanation
    page = campaign.files.read("rounds/round-2/summary.md")
    assert "| TILE_ROWS=16, UNROLL=1 | - | does not build: kernel.c: out of shared memory |" in page
    assert "| TILE_ROWS=8, UNROLL=4 | +" in page
    pairs = [run for run in timed.evidence if run.kind == "comparison"]
    assert sum(len(run.shapes[0].pairs) for run in pairs) >= 2, "the screen's pair is none of them"


class FastButWrong(TunedTimer):
    """A wrong tile of 2 looks fastest of all."""

    def speed(self, commit):
        return 9.0 if read_point(self._read(commit))["TILE_ROWS"] == 2 else super().speed(commit)


def test_a_wrong_point_is_recorded_however_fast_it_is(tmp_path):
    campaign = tune(tmp_path, timer=FastButWrong, tuning_points=12)
    (closed,) = campaign.history().rounds
    wrong = [point for point in find(closed.judged, Drafted).tuned if dict(point.settings)["TILE_ROWS"] == 2]
    assert [point.invalid for point in wrong] == ["incorrect: MISMATCH"] * 3
    assert closed.judged.verdict.gain == pytest.approx(0.5, abs=0.02)


class Sixteens(Sweeper):
    """Sweeps what does not fit."""

    def propose(self, briefing):
        proposal = super().propose(briefing)
        if proposal.hypothesis is None:
            return proposal
        space = (Parameter(name="TILE_ROWS", values=(16,)), SPACE[1])
        return Proposal(hypothesis=proposal.hypothesis.model_copy(update={"tuning": space}))


def test_a_sweep_without_a_point_that_can_be_used_is_rolled_back(tmp_path):
    campaign = tune(tmp_path, planner=Sixteens(), tuning_points=12)
    (closed,) = campaign.history().rounds
    failed = find(closed.judged, Failed)
    assert failed.reason == "no_edit"
    assert failed.detail == "none of 3 points can be used: does not build: kernel.c: out of shared memory"
    assert len(find(closed.judged, Drafted).tuned) == 3


def test_a_large_space_is_searched_from_its_middle_within_the_number_of_points():
    space = tuple(Parameter(name=name, values=tuple(range(9))) for name in "abc")
    tried: list[Point] = []
    while (settings := choose_point(space, tried, 60)) is not None:
        distance = sum(abs(value - 6) for _, value in settings)
        tried.append(Point(settings=settings, gain=-0.01 * distance))
    assert tried[0].settings == (("a", 4), ("b", 4), ("c", 4))
    assert len(tried) < 60, "no neighbour is better"
    assert max(tried, key=lambda point: point.gain).settings == (("a", 6), ("b", 6), ("c", 6))
    assert len({point.settings for point in tried}) == len(tried)


def test_a_point_is_set_wherever_the_parameter_stands():
    texts = {"k.py": "BLOCK = 64\nrun[grid](x, num_warps=4)\n", "gone.py": None}
    edits = set_point(texts, (("BLOCK", 128), ("num_warps", 8)))
    assert [edit.text for edit in edits] == [None, "BLOCK = 128\nrun[grid](x, num_warps=8)\n"]


class Recorder(CatalogPlanner):
    """The catalog, asked for its eight best levers; keeps what it proposes."""

    def propose(self, briefing):
        self.proposal = super().propose(briefing.model_copy(update={"candidates": 8}))
        return self.proposal

    def list_sweeps(self):
        proposals = (self.proposal, *self.proposal.others)
        return [item.hypothesis for item in proposals if item.hypothesis and item.hypothesis.tuning]


def test_the_catalog_declares_a_sweep_of_all_constants_where_that_is_asked_for(tmp_path):
    planner = Recorder()
    tune(tmp_path, planner=planner, tuning_points=25)
    (sweep,) = planner.list_sweeps()
    assert sweep.id == "constant-sweep:together=TILE_ROWS, UNROLL"
    assert [parameter.values for parameter in sweep.tuning] == [(2, 3, 4, 6, 8), (1, 2, 3, 4)]
    (tmp_path / "off").mkdir()
    tune(tmp_path / "off", planner=planner)
    assert planner.list_sweeps() == []
