"""What a resumed campaign may go on with: this machine, this contract, this request."""

import json
import logging
from pathlib import Path

import pytest
import yaml

from ridgeline.agent.campaign import wiring
from ridgeline.agent.campaign.progress import SilentProgress
from ridgeline.agent.campaign.runner import StartRequest, resume, start
from ridgeline.agent.contract_file import load
from ridgeline.agent.errors import UserError
from ridgeline.graph.record import Line
from ridgeline.graph.trial import Timed, find
from ridgeline.sandbox.store.ledger import FIRST, JsonlLedger, seal_line
from tests.builders import make_limits
from tests.drive import TextPlanner
from tests.repositories import git, make_repository
from tests.text_project import files

ELSEWHERE = "e" * 64


class Interrupted(TextPlanner):
    """Somebody presses Ctrl-C when round 3 is being closed."""

    pressed = False

    def reflect(self, briefing, judged):
        if briefing.round == 3 and not Interrupted.pressed:
            Interrupted.pressed = True
            raise KeyboardInterrupt
        return super().reflect(briefing, judged)


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """preset -> folder of a campaign that was interrupted in its third round."""
    Interrupted.pressed = False
    monkeypatch.setitem(wiring.PLANNERS, "scripted", lambda contract: Interrupted("speed 120", "speed 140"))

    def begin(preset: str = "evidence") -> Path:
        repository = make_repository(tmp_path / "kernels", files())
        (repository / "harness.py").chmod(0o755)
        git(repository, "commit", "-qam", "runs")
        request = StartRequest(
            contract=load(Path(repository)),
            instruction="",
            limits=make_limits(preset, target_peak_fraction=None, max_restarts=0, max_rounds=2),
            planner="scripted",
            progress=SilentProgress(),
        )
        with pytest.raises(KeyboardInterrupt):
            start(request)
        return next((Path(repository) / "agent" / "workspace").glob("*/request.json")).parent

    return begin


def move(campaign: Path) -> None:
    """As if everything so far had been recorded on another machine."""
    ledger, tape = campaign / "ledger.jsonl", campaign / "tape.jsonl"
    lines = JsonlLedger(ledger).lines()
    here, written, prev = lines[0].body.machine.fingerprint, [], FIRST
    for line in lines:
        body = Line.model_validate_json(line.model_dump_json().replace(here, ELSEWHERE)).body
        moved = seal_line(body, seq=line.seq, prev=prev)
        written.append(
            json.dumps(moved.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        )
        prev = moved.sha256
    ledger.write_text("\n".join(written) + "\n")
    tape.write_text(tape.read_text().replace(here, ELSEWHERE))


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["campaign", "router", "autonomous"])
def test_a_document_preset_never_compares_with_another_machines_numbers(stopped, preset):
    campaign = stopped(preset)
    move(campaign)
    before = (campaign / "ledger.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"began on .* this is .*resume it there, or start a new campaign here") as told:
        resume(campaign, SilentProgress())
    assert (told.value.exit_code, "\n" in str(told.value)) == (2, False)
    assert (campaign / "ledger.jsonl").read_bytes() == before


@pytest.mark.slow
@pytest.mark.feature("F121")
def test_evidence_goes_on_and_measures_the_open_round_afresh(stopped, caplog):
    campaign = stopped()
    move(campaign)
    with caplog.at_level(logging.WARNING):
        done = resume(campaign, SilentProgress())
    assert (done.status, done.accepted) == ("concluded", 2)
    first, second = (
        line.body for line in JsonlLedger(campaign / "ledger.jsonl").lines() if line.key in ("round-2", "round-3")
    )
    machines = [{item.machine for item in find(closed.judged, Timed).evidence} for closed in (first, second)]
    assert machines[0] == {ELSEWHERE}
    assert len(machines[1]) == 1
    assert ELSEWHERE not in machines[1]
    assert "began on another machine" in caplog.text


@pytest.mark.slow
@pytest.mark.feature("F121")
def test_ctrl_c_then_resume_tells_of_an_edited_contract_and_keeps_the_old_one(stopped, caplog):
    campaign = stopped()
    path = campaign.parents[2] / "ridgeline.yaml"
    contract = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**contract, "threads": 7}))
    with caplog.at_level(logging.WARNING):
        done = resume(campaign, SilentProgress())
    assert (done.status, done.accepted) == ("concluded", 2)
    assert JsonlLedger(campaign / "ledger.jsonl").lines()[0].body.contract.threads == 1
    assert "was changed after the campaign began" in caplog.text


@pytest.mark.slow
def test_an_edited_request_is_refused(stopped):
    campaign = stopped()
    path = campaign / "request.json"
    kept = json.loads(path.read_text())
    kept["request"]["limits"]["margin"] = 0.0
    path.write_text(json.dumps(kept))
    with pytest.raises(UserError, match=r"request\.json: request: differs from what the ledger says"):
        resume(campaign, SilentProgress())


@pytest.mark.slow
def test_a_damaged_tape_is_named_with_its_line(stopped):
    campaign = stopped()
    tape = campaign / "tape.jsonl"
    lines = tape.read_text().splitlines()
    tape.write_text("\n".join([lines[0], lines[1][:40], *lines[2:]]) + "\n")
    with pytest.raises(UserError, match=r"tape\.jsonl: line 2: is not JSON any more"):
        resume(campaign, SilentProgress())


@pytest.mark.parametrize("before", [True, False])
def test_a_refused_start_takes_away_only_what_it_made(tmp_path, monkeypatch, before):
    monkeypatch.setitem(wiring.PLANNERS, "scripted", lambda contract: TextPlanner())
    repository = make_repository(tmp_path / "kernels", files())
    folder = tmp_path / "mine"
    if before:
        folder.mkdir()
        (folder / "thesis.tex").write_text("ten years of work")
    request = StartRequest(
        contract=load(Path(repository)),
        instruction="",
        limits=make_limits(),
        planner="nobody",
        progress=SilentProgress(),
        campaign_dir=folder,
    )
    with pytest.raises(UserError, match="is not an empty folder" if before else "nobody"):
        start(request)
    assert folder.exists() == before
    assert not before or [path.name for path in folder.iterdir()] == ["thesis.tex"]
