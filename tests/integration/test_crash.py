"""A crash before or after any call of any port, then a resume, gives the ledger of an uninterrupted run, and asks nothing anew."""

import json
import os
from dataclasses import replace

import pytest

from ridgeline.agent.campaign.tape import Tape
from ridgeline.graph.limits import PRESETS
from tests.campaigns import CONFIG, make_campaign, saver, wrapped
from tests.world import ScriptedPlanner, SideBySide

SCRIPTS = (["unformatted speed 130 wrong", "unformatted speed 130"], "speed 90", "no build", None)
CALLS = 280
"""At least as many port calls as an uninterrupted run makes; checked below."""
CRASHES = [(when, part) for when in ("before", "after") for part in range(10)]
"""Every tenth call from `part` on. By default a third of these; `make adversarial` asks for all."""
if os.environ.get("RIDGELINE_SUITE") != "all":
    CRASHES = [(when, part) for when, part in CRASHES if part % 4 == (when == "after")]


class Crash(Exception):
    pass


class Fuse:
    def __init__(self, at: int, when: str) -> None:
        self.count, self.at, self.when = 0, at, when


class Flaky:
    """Lets every call through, but dies once, just before or just after the k-th call."""

    def __init__(self, inner, fuse: Fuse) -> None:
        self._inner, self._fuse = inner, fuse

    def __getattr__(self, name):
        call = getattr(self._inner, name)

        def run(*args, **kwargs):
            self._fuse.count += 1
            due = self._fuse.count == self._fuse.at
            if due and self._fuse.when == "before":
                raise Crash
            result = call(*args, **kwargs)
            if due:
                raise Crash
            return result

        return run


def _run(tmp_path, fuse: Fuse, *, lose_checkpoints: bool = False, candidates: int = 1):
    tmp_path.mkdir(exist_ok=True)
    limits = PRESETS["evidence"].model_copy(update={"target_peak_fraction": None, "candidates": candidates})
    planner = SideBySide(*SCRIPTS) if candidates > 1 else ScriptedPlanner(*SCRIPTS)
    campaign = make_campaign(tmp_path, planner=planner, limits=limits, tape=Tape(tmp_path / "tape.jsonl"))
    real = campaign.ports
    campaign.ports = wrapped(real, lambda name, port: Flaky(port, fuse))
    try:
        campaign.drive()
    except Crash:
        if lose_checkpoints:
            campaign.saver = saver()
        # a new process: nothing is remembered but the disk
        campaign.ports = replace(real, ledger=type(real.ledger)(tmp_path / "ledger.jsonl"))
        campaign.drive()
    return (tmp_path / "ledger.jsonl").read_bytes(), campaign


def list_questions(folder):
    """The tape's keys of what a campaign there asked its planner, its builder and its machine."""
    lines = map(json.loads, (folder / "tape.jsonl").read_text().splitlines())
    return sorted(line["key"] for line in lines if line["port"] not in ("device", "signals"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    fuse, folder = Fuse(-1, "never"), tmp_path_factory.mktemp("whole")
    ledger, campaign = _run(folder, fuse)
    return ledger, campaign, fuse.count, list_questions(folder)


def test_the_uninterrupted_run_is_what_the_others_are_compared_with(whole):
    ledger, campaign, calls, _ = whole
    assert [r.accepted for r in campaign.history().rounds] == [True, False, False]
    assert calls <= CALLS


@pytest.mark.slow
@pytest.mark.feature("F121")
@pytest.mark.parametrize(("when", "part"), CRASHES)
def test_a_crash_at_any_call_then_resume_equals_an_uninterrupted_run(tmp_path, whole, part, when):
    ledger, campaign, calls, questions = whole
    for at in range(1 + part, calls + 1, 10):
        got, crashed = _run(tmp_path / f"{at}", Fuse(at, when), lose_checkpoints=True)
        assert got == ledger, f"call {at} {when}"
        assert crashed.workspace.branch_log() == campaign.workspace.branch_log()
        assert crashed.files.texts() == campaign.files.texts()
        assert list_questions(tmp_path / f"{at}") == questions, f"call {at} {when}"


@pytest.mark.feature("F121")
@pytest.mark.parametrize("at", [15, 40, 77, 100, 130])
def test_after_an_orderly_stop_a_campaign_goes_on_inside_the_round(tmp_path, whole, at):
    ledger, campaign, _, questions = whole
    got, crashed = _run(tmp_path, Fuse(at, "after"))
    assert got == ledger
    assert list_questions(tmp_path) == questions
    assert crashed.workspace.branch_log() == campaign.workspace.branch_log()


@pytest.mark.slow
@pytest.mark.feature("F093", "F121")
def test_a_crash_in_a_round_of_several_candidates_loses_nothing(tmp_path):
    """All three are one round: one is repaired and kept, the others are slower and do not build.

    Every second campaign goes on from its ledger and tape alone, the others from inside the round.
    """
    fuse = Fuse(-1, "never")
    ledger, campaign = _run(tmp_path / "whole", fuse, candidates=3)
    assert campaign.verdicts() == ["faster", "not_better", "build_failed"]
    assert fuse.count > 100
    for at in range(31, fuse.count, 23):
        got, crashed = _run(tmp_path / f"{at}", Fuse(at, "after"), candidates=3, lose_checkpoints=bool(at % 2))
        assert got == ledger, f"call {at}"
        assert list_questions(tmp_path / f"{at}") == list_questions(tmp_path / "whole"), f"call {at}"
        assert crashed.workspace.branch_log() == campaign.workspace.branch_log()
        assert crashed.files.texts() == campaign.files.texts()


class Kept:
    """Lets every call through, and notes whether the saver holds a checkpoint while the campaign runs."""

    def __init__(self, inner, seen: list[bool], saver) -> None:
        self._inner, self._seen, self._saver = inner, seen, saver

    def __getattr__(self, name):
        call = getattr(self._inner, name)

        def run(*args, **kwargs):
            self._seen.append(self._saver.get_tuple(CONFIG) is not None)
            return call(*args, **kwargs)

        return run


@pytest.mark.feature("F121")
def test_a_checkpoint_that_was_gone_on_from_is_never_gone_on_from_again(tmp_path, whole):
    """Else a campaign that stops in order, resumes and is then killed would begin at a round that is long closed."""
    limits = PRESETS["evidence"].model_copy(update={"target_peak_fraction": None})
    campaign = make_campaign(tmp_path, *SCRIPTS, limits=limits, tape=Tape(tmp_path / "tape.jsonl"))
    real, seen, fuse = campaign.ports, [], Fuse(60, "after")
    campaign.ports = wrapped(real, lambda name, port: Flaky(port, fuse))
    with pytest.raises(Crash):
        campaign.drive()
    assert campaign.saver.get_tuple(CONFIG) is not None
    campaign.ports = wrapped(real, lambda name, port: Kept(port, seen, campaign.saver))
    campaign.drive()
    assert not any(seen[5:])
    assert (tmp_path / "ledger.jsonl").read_bytes() == whole[0]
