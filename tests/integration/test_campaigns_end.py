"""Whatever a planner answers and however a campaign is limited, it ends with a report, in bounded steps."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ridgeline.agent.campaign import runner
from ridgeline.graph.briefing import OUT_OF_BUDGET, STOPPED, Draft, Proposal, Review
from ridgeline.graph.limits import PRESETS
from ridgeline.graph.record import Reflection
from tests.builders import make_hypothesis, make_limits
from tests.campaigns import make_campaign
from tests.fakes import FakeLedger
from tests.world import ScriptedPlanner

NOTHING = "nothing left"
"""An answer of the planner: it has no further direction."""
EXHAUSTED = (NOTHING, f"{OUT_OF_BUDGET}the next question might cost more", f"{STOPPED}a person asked")
SPEEDS = ("speed 70", "speed 99", "speed 100.4", "speed 120", "speed 150", "speed 900")
FAULTS = (
    "speed 150 wrong",
    "no build",
    "hangs",
    "crashes",
    "touch the benchmark",
    "no idea",
    "unformatted slow speed 130",
)


class RestlessPlanner(ScriptedPlanner):
    """Plays its answers one question after another, whatever the round; at their end it is exhausted for good."""

    def __init__(self, answers: list[str], *, at_review: bool, at_reflection: bool, most: int) -> None:
        self._answers, self._at_review, self._at_reflection = list(answers), at_review, at_reflection
        self._left = most
        self._texts: dict[int, str] = {}

    def _count_question(self) -> None:
        self._left -= 1
        assert self._left >= 0, "the campaign asks its planner on and on"

    def propose(self, briefing):
        self._count_question()
        self._texts = {}
        best = self._answer(briefing.round)
        numbers = range(briefing.round + 1, briefing.round + briefing.candidates) if best.hypothesis else ()
        others = [self._answer(number) for number in numbers]
        return best.model_copy(update={"others": tuple(others)})

    def _answer(self, number: int) -> Proposal:
        """The next answer."""
        text = self._answers.pop(0) if self._answers else NOTHING
        if text in EXHAUSTED:
            return Proposal(hypothesis=None, exhausted=text)
        self._texts[number] = text
        category = ("tile", "layout", "algorithm")[len(self._answers) % 3]
        return Proposal(hypothesis=make_hypothesis(id=f"h{len(self._answers)}", category=category))

    def _script(self, round):
        return [self._texts.get(round, "speed 99")]

    def draft(self, briefing, proposal) -> Draft:
        self._count_question()
        return super().draft(briefing, proposal)

    def repair(self, briefing, broken, attempt) -> Draft:
        self._count_question()
        return super().repair(briefing, broken, attempt)

    def review(self, briefing, trigger) -> Review:
        self._count_question()
        if self._at_review:
            return Review(directions=(), exhausted=NOTHING)
        return super().review(briefing, trigger)

    def reflect(self, briefing, judged) -> Reflection:
        self._count_question()
        left = NOTHING if self._at_reflection and not judged.verdict.accepted else ""
        return Reflection(attribution=judged.verdict.sentence, exhausted=left)


@pytest.mark.feature("F045", "F085", "F120")
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    preset=st.sampled_from(tuple(PRESETS)),
    limits=st.fixed_dictionaries(
        {
            "max_restarts": st.integers(0, 4),
            "max_rounds": st.none() | st.integers(1, 8),
            "max_repairs": st.integers(0, 2),
            "stagnation_rollbacks": st.integers(1, 3),
            "mask_fraction": st.sampled_from((0.1, 0.5, 1.0)),
            "endless": st.booleans(),
            "regression_stop": st.booleans(),
            "canary_every": st.integers(0, 3),
            "looks": st.sampled_from(((2, 4), (1, 2, 3))),
            "candidates": st.integers(1, 3),
            "search_mode": st.sampled_from(("linear", "evolve")),
            "islands": st.integers(1, 3),
            "patience": st.integers(1, 5),
        }
    ),
    answers=st.lists(st.sampled_from((*SPEEDS, *FAULTS, *EXHAUSTED)), max_size=10),
    at_review=st.booleans(),
    at_reflection=st.booleans(),
)
@example(preset="router", limits={}, answers=["speed 120", *("speed 80",) * 6], at_review=False, at_reflection=False)
@example(preset="evidence", limits={"max_restarts": 2}, answers=["speed 80"] * 4, at_review=False, at_reflection=False)
def test_every_campaign_ends_with_a_report(tmp_path_factory, preset, limits, answers, at_review, at_reflection):
    if preset != "evidence":
        limits = {**limits, "candidates": 1, "search_mode": "linear"}
    limits = make_limits(preset, **{"calibration_pairs": 2, "final_pairs": 3, "blocks": 2, **limits})
    most = 8 * (len(answers) + limits.max_restarts + 2)
    planner = RestlessPlanner(answers, at_review=at_review, at_reflection=at_reflection, most=most)
    campaign = make_campaign(Path(tmp_path_factory.mktemp("end")), limits=limits, planner=planner)
    campaign.ports = replace(campaign.ports, ledger=FakeLedger())

    campaign.drive()

    history = campaign.history()
    assert history.concluded is not None
    assert any(check.satisfied for check in history.concluded.checks)
    assert history.concluded.stop_reason in campaign.files.read("final_report.md")
    assert len(history.rounds) <= len(answers)
    assert len(history.restarts) <= limits.max_restarts
    masked = [version for restart in history.restarts for version in restart.masked]
    assert len(masked) == len(set(masked))
    assert all(restart.masked for restart in history.restarts)


@pytest.mark.feature("F045")
def test_a_campaign_of_more_steps_than_the_fuse_goes_on_to_its_own_end(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "FUSE", 60)
    campaign = make_campaign(tmp_path, *("speed 90",) * 9, limits=make_limits(max_rounds=9))
    campaign.drive()
    history = campaign.history()
    assert len(history.rounds) == 9
    assert history.concluded.stop_reason.startswith("T3 9 of 9 rounds")


@pytest.mark.feature("F045")
def test_a_loop_that_closes_no_round_ends_by_name_and_with_its_report(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "FUSE", 12)
    campaign = make_campaign(tmp_path, "speed 120", "speed 130", limits=make_limits(max_restarts=0))
    campaign.drive()
    concluded = campaign.history().concluded
    assert "T8 search exhausted: the loop took 12 steps and closed no round" in concluded.stop_reason
    assert concluded.stop_reason in campaign.files.read("final_report.md")
