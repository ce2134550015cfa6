"""What a person changes while a campaign runs is followed and kept: masked memory, stop conditions of the README."""

import json
from dataclasses import replace

import pytest

from ridgeline.agent.campaign.tape import Tape, tape_port
from ridgeline.sandbox.store.campaign_folder import CampaignFiles, StopFile, Wishes
from tests.builders import make_limits
from tests.campaigns import make_campaign
from tests.world import ScriptedPlanner

SCRIPTS = ("speed 80", "speed 120", "speed 81", "speed 82", "speed 83", "speed 84")


class Meddled(ScriptedPlanner):
    """The scripted planner, beside which a person does something while a round is open."""

    def __init__(self, *scripts, **actions):
        super().__init__(*scripts)
        self.actions = {int(name.removeprefix("round_")): act for name, act in actions.items()}
        self.shown = {}

    def propose(self, briefing):
        self.shown[briefing.round] = [closed.round for closed in briefing.rounds]
        self.actions.get(briefing.round, lambda: None)()
        return super().propose(briefing)


def steerable(tmp_path, planner, **limits):
    made = make_campaign(tmp_path, planner=planner, limits=make_limits("campaign", target_peak_fraction=None, **limits))
    files = CampaignFiles(tmp_path, tips_root=tmp_path / "tips")
    files._artifacts = type("Anything", (), {"get": staticmethod(lambda artifact: b"")})()
    made.ports = replace(made.ports, signals=StopFile(tmp_path), files=files)
    made.request = made.request.model_copy(update={"steerable": True})
    return made


def edit_readme(tmp_path, old, new):
    readme = tmp_path / "README.md"
    text = readme.read_text()
    assert old in text
    readme.write_text(text.replace(old, new))


@pytest.mark.feature("F072")
def test_an_edited_stop_condition_ends_the_campaign_and_stays(tmp_path, caplog):
    planner = Meddled(*SCRIPTS, round_3=lambda: edit_readme(tmp_path, "T3 rounds: no limit", "T3 rounds: 3"))
    campaign = steerable(tmp_path, planner)
    campaign.drive()
    assert len(campaign.history().rounds) == 3
    assert "T3 3 of 3 rounds" in campaign.history().concluded.stop_reason
    readme = (tmp_path / "README.md").read_text()
    assert "- T3 rounds: 3\n" in readme
    assert "## Changed By A Person\n\n- stop condition: T3 rounds: 3\n" in readme
    assert "- T3 rounds: 3\n" in (tmp_path / "README.md.edited-1").read_text(), "the person's own file is kept"
    assert "stop conditions were edited" in caplog.text


def test_a_condition_that_cannot_be_followed_is_named_and_changes_nothing(tmp_path):
    planner = Meddled(*SCRIPTS, round_2=lambda: edit_readme(tmp_path, "T3 rounds: 4", "T3 rounds: many"))
    campaign = steerable(tmp_path, planner, max_rounds=4)
    campaign.drive()
    assert len(campaign.history().rounds) == 4
    assert "not followed: T3 rounds: many: give 1 to 119 rounds, or `no limit`" in (tmp_path / "README.md").read_text()


@pytest.mark.feature("F084")
def test_memory_that_a_person_masks_reaches_no_planner_and_stays_masked(tmp_path):
    def mask():
        Wishes(tmp_path).mark(1, masked=True)

    planner = Meddled(*SCRIPTS, round_4=mask)
    campaign = steerable(tmp_path, planner, max_rounds=4)
    campaign.drive()
    assert planner.shown == {2: [], 3: [2], 4: [2, 3], 5: [3, 4]}
    campaign.drive()  # a resume renders everything again
    assert json.loads((tmp_path / "memory" / "v1.json").read_text())["masked"] is True
    assert [event.wish.masked for event in campaign.history().steered] == [(1,)]


@pytest.mark.feature("F084", "F085")
def test_what_a_person_unmasks_no_restart_masks(tmp_path):
    Wishes(tmp_path).mark(1, masked=False)
    planner = Meddled("speed 80", "speed 81", "speed 82")
    campaign = steerable(tmp_path, planner, max_restarts=3, mask_fraction=1.0)
    campaign.drive()
    assert campaign.history().restarts
    assert all(1 not in restart.masked for restart in campaign.history().restarts)


def test_a_killed_campaign_reads_its_tape_and_hears_later_edits(tmp_path):
    """The question is asked again by a later process, whose person may have changed more."""
    first = Tape(tmp_path / "tape.jsonl")
    planner = Meddled(*SCRIPTS, round_3=lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    campaign = steerable(tmp_path, planner, max_rounds=4)
    campaign.ports = on_tape(campaign.ports, first)
    with pytest.raises(KeyboardInterrupt):
        campaign.drive()
    edit_readme(tmp_path, "T3 rounds: 4", "T3 rounds: 2")
    planner.actions.clear()
    campaign.saver.delete_thread("campaign")  # as after a kill
    campaign.ports = on_tape(steerable(tmp_path, planner, max_rounds=4).ports, Tape(tmp_path / "tape.jsonl"))
    campaign.drive()
    assert "T3 2 of 2 rounds" in campaign.history().concluded.stop_reason
    assert [line.key for line in campaign.ports.ledger.lines() if line.body.kind == "steered"] == ["steered-after-2"]


def on_tape(ports, tape):
    return replace(ports, signals=tape_port("signals", ports.signals, tape))
