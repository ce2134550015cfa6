"""Several candidates in a round: tried side by side against one best version, at most one kept."""

import math

import pytest

from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.agent.campaign.tape import Tape
from ridgeline.agent.errors import Waiting
from ridgeline.graph.approval import Decision
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.reports import figures, final_report
from ridgeline.graph.reports.html import report_html
from ridgeline.graph.rules.history import standing
from ridgeline.graph.rules.result import compute_product
from ridgeline.graph.stats.sequential import estimate_gain
from ridgeline.graph.trial import Applied, Timed, Traced, find
from tests.builders import make_limits
from tests.campaigns import make_campaign
from tests.world import SideBySide, TextChecker


def race(tmp_path, *scripts, candidates=3, planner=SideBySide, **limits):
    defaults = {"target_peak_fraction": None, "max_restarts": 0, "candidates": candidates}
    tmp_path.mkdir(exist_ok=True)
    campaign = make_campaign(tmp_path, planner=planner(*scripts), limits=make_limits(**{**defaults, **limits}))
    campaign.drive()
    return campaign


def pairs_of(closed: RoundClosed) -> int:
    timed = find(closed.judged, Timed)
    return sum(item.kind == "comparison" for item in timed.evidence) if timed else 0


@pytest.mark.feature("F093")
def test_of_three_candidates_the_fastest_is_kept_and_the_others_are_on_record_with_their_numbers(tmp_path):
    campaign = race(tmp_path, "speed 110", "speed 150", "speed 112", "speed 160")
    history = campaign.history()
    assert campaign.verdicts() == ["outpaced", "faster", "outpaced", "faster"]
    beside = history.rounds[:3]
    assert [closed.beside for closed in beside] == [2, 2, 2]
    parents = {find(closed.judged, Timed).evidence[-1].best for closed in beside}
    assert parents == {history.opened.base_commit}, "each is timed against the same best version"
    assert [closed.judged.verdict.gain for closed in beside] == pytest.approx([0.10, 0.50, 0.12], abs=0.02)
    assert len({find(closed.judged, Applied).commit for closed in beside}) == 3
    assert "outpaced by round 3, which measured +49.9%" in beside[0].judged.verdict.sentence
    assert len(campaign.workspace.branch_log()) == 2, "one commit for each question whose answer was kept"
    assert campaign.workspace.sources(history.rounds[1].commit)[0].text == "speed 150\n"
    assert [pairs_of(closed) for closed in beside] == [1, 2, 1], "the slower ones are not timed further"
    assert [find(closed.judged, Traced).profile is not None for closed in beside] == [False, True, False]
    assert history.rounds[3].beside == 5, "the last direction was alone"


FATES = (
    "speed 120",
    ["speed 130 wrong", "speed 130"],
    "no build",
    "speed 90",
    "touch the benchmark",
    "speed 160",
    "no idea",
)


class Generous(SideBySide):
    """Names three directions however many are tried."""

    def propose(self, briefing):
        return super().propose(briefing.model_copy(update={"candidates": 3}))


@pytest.mark.feature("F093")
def test_one_candidate_is_the_linear_loop_line_by_line(tmp_path):
    """A planner that names several leaves the very ledger of one that names one, verdicts in the order of the scripts."""
    linear = race(tmp_path / "linear", *FATES, candidates=1)
    alone = race(tmp_path / "one", *FATES, candidates=1, planner=Generous)
    left, right = ((tmp_path / name / "ledger.jsonl").read_bytes() for name in ("linear", "one"))
    assert left == right
    assert b"beside" not in left
    assert alone.verdicts() == [
        "faster",
        "faster",
        "build_failed",
        "not_better",
        "refused_edit",
        "faster",
        "no_edit",
    ]
    assert {closed.beside == closed.round for closed in linear.history().rounds} == {True}


@pytest.mark.feature("F093")
def test_what_fails_beside_the_kept_one_stays_on_record_with_its_reason(tmp_path):
    campaign = race(tmp_path, "no build", "speed 130 wrong", "speed 120")
    assert campaign.verdicts() == ["build_failed", "incorrect", "faster"]
    history = campaign.history()
    kept = history.rounds[2]
    assert find(kept.judged, Timed).sharing == 1, "the others were never timed: nothing is shared"
    assert history.rounds[0].tree == history.opened.base_tree
    assert campaign.workspace.sources(kept.commit)[0].text == "speed 120\n"
    assert (history.rounds[0].judged.verdict.gain, history.rounds[1].judged.verdict.gain) == (None, None)


def test_candidates_share_the_error_rate(tmp_path):
    """Three that are timed side by side are each judged at a third of alpha, two at a half; the report's level too."""
    campaign = race(tmp_path, "speed 104", "speed 105", "speed 106", max_rounds=3)
    beside = campaign.history().rounds
    assert [find(closed.judged, Timed).sharing for closed in beside] == [3, 3, 3]
    kept = next(closed for closed in beside if closed.accepted)
    note = "one of 3 candidates timed side by side: each is judged at 0.33%, all together at 1.00%"
    assert note in kept.judged.verdict.notes
    timed = find(kept.judged, Timed)
    pairs = [item for item in timed.evidence if item.kind == "comparison"]
    noise = standing(figures.until(campaign.history(), 2)).noise
    alone = estimate_gain(pairs, noise, campaign.history().limits)
    assert kept.judged.verdict.lower < math.expm1(alone.lower), "a bound of three is wider than a bound of one"
    bounded = sum(closed.judged.verdict.lower is not None for closed in beside)
    assert compute_product(campaign.history()).level == pytest.approx(1 - bounded / 3 * 0.01)


def test_candidates_with_the_same_code_are_timed_once(tmp_path):
    campaign = race(tmp_path, "speed 120", "speed 120", "speed 90")
    assert campaign.verdicts() == ["faster", "no_change", "not_better"]
    assert "round 2" in campaign.history().rounds[1].judged.verdict.sentence


def test_a_streak_counts_questions_and_not_candidates(tmp_path):
    """Two questions of three candidates without a gain are two rollbacks in a row: the first of them is no stagnation."""
    campaign = race(tmp_path, *[f"speed {speed}" for speed in (80, 81, 82, 83, 84, 85, 150)])
    history = campaign.history()
    assert [review.after_round for review in history.reviews] == [7]
    assert history.reviews[0].trigger == "2 consecutive rollbacks"
    after_a_gain = race(tmp_path / "other", "speed 120", "speed 80", "speed 81", "speed 110", "speed 111", "speed 112")
    assert after_a_gain.history().reviews == ()


def test_candidates_never_exceed_the_rounds_that_are_left(tmp_path):
    campaign = race(tmp_path, *[f"speed {110 + 10 * n}" for n in range(9)], max_rounds=4)
    assert [closed.beside for closed in campaign.history().rounds] == [2, 2, 2, 5]
    assert campaign.history().concluded.stop_reason.startswith("T3")


@pytest.mark.feature("F093")
def test_every_page_shows_all_candidates_with_their_numbers(tmp_path):
    campaign = race(tmp_path, "speed 110", "speed 150", "no build", "speed 160")
    rows = [
        "| round-2 | step 2 | outpaced | +9.99% [",
        "| round-3 | step 3 | kept | +49.90% [",
        "| round-4 | step 4 | build_failed | ",
    ]
    for number in (2, 3, 4):
        page = campaign.files.read(f"rounds/round-{number}/summary.md")
        assert all(row in page for row in rows)
        assert "Best version before this round: round-1." in page or number == 4
    assert "### Side by side" not in campaign.files.read("rounds/round-5/summary.md")
    report = campaign.files.read("final_report.md")
    assert all(row.removeprefix("|") in report for row in rows)
    html = report_html(campaign.history(), diffs={})
    assert "Tried side by side" in html
    assert "step 2" not in final_report.ineffective(campaign.history()), "nothing was found against it"


def test_a_person_may_keep_another_candidate_than_the_fastest(tmp_path):
    """The question at the gate shows all of them; an edit gets a number after all of theirs."""
    limits = make_limits(target_peak_fraction=None, approve="change", max_rounds=3, candidates=3)
    planner = SideBySide("speed 120", "speed 120 by another way", "speed 90")
    campaign = make_campaign(tmp_path, planner=planner, limits=limits, tape=Tape(tmp_path / "tape.jsonl"))
    files = ApprovalFiles(tmp_path)
    with pytest.raises(Waiting):
        campaign.drive()
    (waiting,) = files.waiting()
    request = waiting.request
    assert {option.round: option.acceptable for option in request.options} == {2: True, 3: True, 4: False}
    assert request.round == 2
    assert request.edit.round == 5
    faster = request.options[-1].round
    slower = 5 - faster
    answer = {"key": request.key, "choice": "approve", "round": slower, "by": "Ada", "at": "2026-11-22T09:00:00+00:00"}
    files.decide(Decision.model_validate(answer))
    campaign.drive()
    verdicts = dict(zip((2, 3, 4), campaign.verdicts(), strict=True))
    assert verdicts == {slower: "faster", faster: "outpaced", 4: "not_better"}
    assert campaign.history().rounds[0].decisions[0].by == "Ada"


class AwayForRepairs(SideBySide):
    """Its repairs come from outside, once somebody is there."""

    away = True

    def repair(self, briefing, broken, attempt):
        if self.away:
            raise Waiting("a repair is asked for")
        return super().repair(briefing, broken, attempt)


def test_a_question_about_one_candidate_loses_no_test_of_the_others(tmp_path, monkeypatch):
    """The first is wrong, and its repair is asked for before the loop comes to the others, which were tested beside it."""
    tested: list[str] = []
    check = TextChecker.check

    def count(self, commit, *, purpose):
        tested.append(commit)
        return check(self, commit, purpose=purpose)

    monkeypatch.setattr(TextChecker, "check", count)
    planner = AwayForRepairs(["speed 120 wrong", "speed 120"], "speed 110", "speed 90")
    limits = make_limits(target_peak_fraction=None, max_rounds=3, candidates=3)
    campaign = make_campaign(tmp_path, planner=planner, limits=limits, tape=Tape(tmp_path / "tape.jsonl"))
    with pytest.raises(Waiting):
        campaign.drive()
    assert len(tested) == len(set(tested)) == 4, "the original and three candidates"
    planner.away = False
    campaign.forget_prepared()
    campaign.drive()
    assert dict(zip((2, 3, 4), campaign.verdicts(), strict=True)) == {2: "faster", 3: "outpaced", 4: "not_better"}
    assert len(tested) == len(set(tested)) == 5, "and the repaired one"


class PlanReader(SideBySide):
    """Keeps the plan that stands when an edit of it is asked for."""

    files, plans = None, {}

    def draft(self, briefing, proposal):
        name = f"plans/v{briefing.round - 1}_plan.md"
        self.plans[name] = self.files.read(name)
        return super().draft(briefing, proposal)


@pytest.mark.feature("F032")
def test_each_candidates_plan_is_there_before_its_edit_and_stays_as_it_was(tmp_path):
    planner = PlanReader("speed 110", "speed 150", "speed 112")
    limits = make_limits(target_peak_fraction=None, max_restarts=0, candidates=3)
    campaign = make_campaign(tmp_path, planner=planner, limits=limits)
    planner.files, planner.plans = campaign.files, {}
    campaign.drive()
    assert len(planner.plans) == 3
    assert planner.plans == {name: campaign.files.read(name) for name in planner.plans}
