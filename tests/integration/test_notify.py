"""The user's own command, told what happens: real processes, a real campaign, and nothing that it does matters."""

import json
import logging
from pathlib import Path

import pytest

from ridgeline.agent import notify
from ridgeline.agent.approvals import ApprovalFiles
from ridgeline.agent.campaign import drive
from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.live import Live
from ridgeline.agent.progress import SilentProgress
from ridgeline.graph.approval import Decision
from tests.builders import make_limits
from tests.campaigns import make_campaign
from tests.text_project import files

KEY = "sk-very-secret-key-0123456789"


@pytest.fixture
def script(tmp_path):
    """`script("cat > said")` -> a program that does that in its campaign's folder."""

    def make(text: str) -> str:
        path = tmp_path / f"hook-{len([*tmp_path.glob('hook-*')])}"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def campaign(tmp_path) -> Path:
    folder = tmp_path / "campaign"
    folder.mkdir()
    return folder


def events(folder: Path) -> list[dict]:
    path = folder / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("say 'hello", "cannot be split into words"),
        ("no-such-program --now", "'no-such-program' is no program"),
        ("./nowhere.sh", "is no program"),
        ("/etc", "is no program"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_at_once(text, words):
    with pytest.raises(UserError, match=f"--notify: .*{words}"):
        notify.parsed(text, "--notify")


def test_a_relative_program_is_found_again_from_anywhere(script, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    name = Path(script("exit 0")).name
    assert notify.parsed(f"./{name} 'two words'", "--notify") == (str(tmp_path / name), "two words")


def test_the_event_is_one_json_object_without_secrets(script, campaign, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("HOME", str(campaign))
    hook = notify.Hook((script("cat >> told; env > environment"),), campaign)
    hook.tell("accepted", round=3, said=f"1.2x \x1b[31mfaster\n{KEY} and sk-abcdefghij" + "x" * 9_000, gain=0.2)
    (event,) = events(campaign)
    assert (event["event"], event["round"], event["gain"]) == ("accepted", 3, 0.2)
    assert (event["campaign"], event["dir"]) == ("campaign", str(campaign))
    assert event["said"].startswith("1.2x [31mfaster [OPENAI_API_KEY] and [key]")
    assert len(event["said"]) <= notify.LONGEST + 4
    environment = (campaign / "environment").read_text()
    assert KEY not in environment
    assert f"HOME={campaign}" in environment


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo no such list; exit 3", "left with 3: no such list"),
        ("sleep 60", "took more than 0.5 s and was ended"),
        ("yes | head -c 5000000; exit 1", "left with 1"),
        ("kill -9 $$", "left with -9"),
    ],
)
def test_a_command_that_fails_is_logged_and_no_more(script, campaign, monkeypatch, caplog, text, words):
    monkeypatch.setattr(notify, "LIMIT_S", 0.5 if "sleep" in text else 20.0)
    notify.Hook((script(text),), campaign).tell("stopped", round=1, said="the disk is full")
    (record,) = caplog.records
    assert words in record.getMessage()
    assert len(record.getMessage()) < 500


def test_a_command_that_is_gone_is_logged(campaign, caplog):
    notify.Hook((str(campaign / "gone"),), campaign).tell("stopped", round=1, said="")
    assert "notify: stopped: program" in caplog.text


def test_whose_command_is_run(script, campaign, monkeypatch, caplog, tmp_path):
    own, users = script("cat >> told"), script("cat >> users")
    notify.keep(campaign, (own,))
    notify.allow((own,))
    environment = {notify.VARIABLE: users}
    notify.hook(campaign, environment).tell("stopped", round=1, said="")
    assert (len(events(campaign)), (campaign / "users").exists()) == (1, False)

    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path / "another machine"))
    notify.hook(campaign, environment).tell("stopped", round=1, said="")
    assert (len(events(campaign)), (campaign / "users").exists()) == (1, True)
    notify.hook(campaign, {}).tell("stopped", round=1, said="")
    assert len(events(campaign)) == 1, "a command that came with the folder is not run"
    assert "was not given on this machine and is not run" in caplog.text


@pytest.mark.parametrize("text", ["{", "[]", '{"command": "rm"}', '{"command": []}', '{"command": [1]}'])
def test_a_damaged_file_notifies_nobody(campaign, caplog, text):
    (campaign / notify.FILE).write_text(text)
    notify.hook(campaign, {}).tell("stopped", round=1, said="")
    assert "holds no command any more" in caplog.text


def test_a_campaign_tells_each_event_once_and_an_old_one_nothing(tmp_path, script, caplog):
    made = make_campaign(
        tmp_path, "speed 120", None, limits=make_limits(target_peak_fraction=None, approve="change", max_rounds=1)
    )
    notify.keep(tmp_path, words := (script("cat >> told; exit 7"),))
    notify.allow(words)
    live = Live(tmp_path, made.ports, SilentProgress())
    with pytest.raises(Waiting) as asked:
        drive(made.saver, made.request, made.ports, live)
    live.ended("waiting", problem=str(asked.value))
    (one,) = ApprovalFiles(tmp_path).waiting()
    decision = Decision(key=one.request.key, choice="approve", by="Ada", at="2026-11-22T09:00:00+00:00")
    ApprovalFiles(tmp_path).decide(decision)
    live = Live(tmp_path, made.ports, SilentProgress())
    drive(made.saver, made.request, made.ports, live)
    live.ended("concluded")
    Live(tmp_path, made.ports, SilentProgress()).ended("concluded")

    told = events(tmp_path)
    assert [event["event"] for event in told] == ["waiting", "accepted", "concluded"]
    waiting, accepted, concluded = told
    assert waiting["request"] == one.page
    assert "change of round 2" in waiting["said"]
    assert waiting["next"] == f"ridgeline resume {tmp_path}"
    assert accepted["round"] == 2
    assert 0.15 < accepted["gain"] < 0.25
    assert concluded["said"]
    assert concluded["next"] == f"ridgeline report {tmp_path}"
    assert json.loads((tmp_path / "status.json").read_text())["problem"] == ""
    assert sum("left with 7" in record.getMessage() for record in caplog.records) == 3


@pytest.mark.slow
def test_the_command_of_a_run_survives_its_resume(cli, make_repository, script, caplog):
    caplog.set_level(logging.ERROR)
    project = make_repository(files())
    hook = script("cat >> told")
    asked = cli("run", project, "--approve", "target", "--max-rounds", "1", "--notify", hook, "--json")
    assert asked.code == 3, asked.err
    folder = Path(asked.json["dir"]) if asked.out else next((project / "agent" / "workspace").iterdir())
    assert [event["event"] for event in events(folder)] == ["waiting"]
    assert cli("resume", folder).code == 3
    assert [event["event"] for event in events(folder)] == ["waiting", "waiting"]
    assert cli("approve", folder, "--reject", "wrong kernel", "--by", "Ada").code == 0
    assert cli("resume", folder).code == 2
    last = events(folder)[-1]
    assert (last["event"], "wrong kernel" in last["said"]) == ("stopped", True)
    assert (folder / notify.FILE).stat().st_size


def test_a_command_that_is_none_starts_nothing(cli, make_repository):
    project = make_repository(files())
    done = cli("run", project, "--notify", "no-such-program")
    assert done.code == 2
    assert done.complaint.startswith("--notify: 'no-such-program' is no program")
    assert not (project / "agent").exists()
