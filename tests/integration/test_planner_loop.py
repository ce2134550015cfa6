"""Whole campaigns of the real loop with the planner that asks a model; only the model and the machine are fake."""

import json
import re

import pytest

from ridgeline.agent.campaign.tape import Tape
from ridgeline.agent.planner.model import ModelPlanner
from ridgeline.agent.providers.base import Ask
from ridgeline.graph.trial import find_proposal
from tests.campaigns import make_campaign
from tests.model_fakes import ScriptedModel, direction, directions
from tests.planner_briefs import idea

LIMITS = {"target_peak_fraction": None, "max_restarts": 0}


def propose(number: int) -> str:
    name, change, category = idea(number)
    return directions(direction(id=name, lever=name, change=change, category=category))


def write(text: str, path: str = "kernel.c") -> str:
    return f"It is faster because the script says so.\n\nFILE {path}\n```\n{text}\n```\n"


LEARNT = json.dumps({"attribution": "as predicted", "root_cause": "none", "next_direction": "go on"})
AROUND = json.dumps(
    {"directions": [{"category": name, "direction": f"try {name}"} for name in ("layout", "occupancy", "backend")]}
)


class PlayedModel(ScriptedModel):
    """Answers by what it is asked: `round-2 draft` -> answers in order; reflections and reviews have a default."""

    def __init__(self, played: dict[str, list[str]]) -> None:
        super().__init__()
        self._played = {name: list(answers) for name, answers in played.items()}

    def ask(self, ask: Ask):
        name = ask.purpose.rpartition(" ")[0]
        kind = name.split(" ")[1]
        default = {"reflect": LEARNT, "diagnose": LEARNT, "review": AROUND}
        answers = self._played.get(name)
        self._answers = [answers.pop(0) if answers else default[kind]]
        return super().ask(ask)


PLAY = {
    "round-2 propose": [propose(2)],
    "round-2 draft": [write("speed 130")],
    "round-3 propose": [propose(3)],
    "round-3 draft": [write("x", "bench.c"), write("x", "ridgeline.yaml")],
    "round-4 propose": ["I would rather not.", '{"directions": ['],
    "round-5 propose": [propose(2), propose(5)],
    "round-5 draft": [write("speed 150 wrong")],
    "round-5 repair-1": [write("speed 150")],
    "round-6 propose": [propose(6)],
    "round-6 draft": [write("speed 160 no build")],
    "round-6 repair-1": ["sorry", "sorry"],
    "round-7 propose": ['{"directions": [], "exhausted": "nothing else moves the counters"}'],
}


@pytest.fixture
def planned():
    from tests.builders import make_limits

    limits = make_limits(**LIMITS)
    model = PlayedModel(PLAY)
    return model, ModelPlanner(model, limits=limits), limits


@pytest.mark.feature("F076", "F078", "F122")
def test_good_bad_and_hostile_answers_end_in_the_right_verdicts(tmp_path, planned):
    model, plan, limits = planned
    campaign = make_campaign(tmp_path, planner=plan, limits=limits)
    campaign.drive()
    assert campaign.verdicts() == ["faster", "no_edit", "no_edit", "faster", "build_failed"]
    known = campaign.history()
    assert "nothing else moves the counters" in known.concluded.stop_reason
    assert campaign.workspace.sources(known.rounds[3].commit)[0].text == "speed 150\n"
    assert [one.judged.verdict.gain is None for one in known.rounds] == [False, True, True, False, True]
    assert "'ridgeline.yaml': is protected" in known.rounds[1].judged.trial.detail
    assert len(known.reviews) == 1
    assert known.reviews[0].directions[0] == "layout (not tried yet): try layout."
    repeated = next(ask for ask in model.asks if ask.purpose == "round-5 propose 2")
    assert "was accepted; its change is in the sources" in repeated.messages[-1].text
    memory = json.loads(campaign.files.read("memory/v1.json"))
    assert memory["search_log"] == [search.model_dump() for search in find_proposal(known.rounds[0].judged).searches]
    assert memory["search_log"][0]["query"].startswith("levers for matmul_fp32 in C")
    assert {search["source"] for search in memory["search_log"]} == {"gpu-wiki"}
    for closed in known.rounds:
        assert all(re.fullmatch(r"[\w.]+@[0-9a-f]{12}", name) for name in find_proposal(closed.judged).prompts)
        assert closed.cost.tokens > 0


def test_a_second_run_from_the_tape_asks_the_model_nothing(tmp_path, planned):
    model, plan, limits = planned
    campaign = make_campaign(tmp_path, planner=plan, limits=limits, tape=Tape(tmp_path / "tape.jsonl"))
    campaign.drive()
    asked = len(model.asks)
    again = make_campaign(
        tmp_path / "again", planner=plan, limits=limits, tape=Tape(tmp_path / "tape.jsonl", mode="replay")
    )
    again.drive()
    assert again.verdicts() == campaign.verdicts()
    assert len(model.asks) == asked


def test_a_model_that_only_talks_ends_the_campaign_upright(tmp_path):
    from tests.builders import make_limits

    model = PlayedModel({f"round-{number} propose": ["Hello!", "Hello again!"] for number in range(2, 9)})
    limits = make_limits(**LIMITS)
    campaign = make_campaign(tmp_path, planner=ModelPlanner(model, limits=limits), limits=limits)
    campaign.drive()
    assert campaign.verdicts() == ["no_edit"] * 3
    assert "no usable answer 3 rounds long" in campaign.history().concluded.stop_reason
