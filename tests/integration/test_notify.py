"""The user's own command, told what happens: real processes, a real campaign, and nothing that it does matters."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.agent.campaign import notify
from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.agent.campaign.checkpoints import Checkpoints
from ridgeline.agent.campaign.folders import announce_server, id_of, link, name_process
from ridgeline.agent.campaign.progress import SilentProgress, StatusView
from ridgeline.agent.campaign.runner import drive
from ridgeline.agent.campaign.status import status_of
from ridgeline.agent.errors import UserError, Waiting
from ridgeline.graph.approval import Decision
from ridgeline.graph.trial import find_proposal
from ridgeline.sandbox.store.durable import cache_folder
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
        notify.parse_receiver(text, "--notify")


def test_a_relative_program_is_found_again_from_anywhere(script, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    name = Path(script("exit 0")).name
    assert notify.parse_receiver(f"./{name} 'two words'", "--notify") == (str(tmp_path / name), "two words")


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
    notify.store_command(campaign, (own,))
    notify.allow((own,))
    environment = {notify.VARIABLE: users}
    notify.find_hook(campaign, environment).tell("stopped", round=1, said="")
    assert (len(events(campaign)), (campaign / "users").exists()) == (1, False)

    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path / "another machine"))
    notify.find_hook(campaign, environment).tell("stopped", round=1, said="")
    assert (len(events(campaign)), (campaign / "users").exists()) == (1, True)
    notify.find_hook(campaign, {}).tell("stopped", round=1, said="")
    assert len(events(campaign)) == 1, "a command that came with the folder is not run"
    assert "was not given on this machine and is not run" in caplog.text


@pytest.mark.parametrize("text", ["{", "[]", '{"command": "rm"}', '{"command": []}', '{"command": [1]}'])
def test_a_damaged_file_notifies_nobody(campaign, caplog, text):
    (campaign / notify.FILE).write_text(text)
    notify.find_hook(campaign, {}).tell("stopped", round=1, said="")
    assert "holds no command any more" in caplog.text


def test_a_campaign_tells_each_event_once_and_an_old_one_nothing(tmp_path, script, caplog):
    made = make_campaign(
        tmp_path, "speed 120", None, limits=make_limits(target_peak_fraction=None, approve="change", max_rounds=1)
    )
    notify.store_command(tmp_path, words := (script("cat >> told; exit 7"),))
    notify.allow(words)
    live = StatusView(tmp_path, made.ports, SilentProgress())
    with pytest.raises(Waiting) as asked:
        drive(Checkpoints(saver=made.saver), made.request, made.ports, live)
    assert live.measured.startswith("Round 2: ACCEPTED"), "its round is yet to close"
    live.end("waiting", problem=str(asked.value))
    assert status_of(tmp_path).open_verdict == live.measured, "other terminals are told too"
    (one,) = ApprovalFiles(tmp_path).waiting()
    decision = Decision(key=one.request.key, choice="approve", by="Ada", at="2026-11-22T09:00:00+00:00")
    ApprovalFiles(tmp_path).decide(decision)
    live = StatusView(tmp_path, made.ports, SilentProgress())
    drive(Checkpoints(saver=made.saver), made.request, made.ports, live)
    live.end("concluded")
    StatusView(tmp_path, made.ports, SilentProgress()).end("concluded")

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
    shown = json.loads((tmp_path / "status.json").read_text())
    assert (shown["problem"], shown["process"]) == ("", name_process(os.getpid()))
    assert sum("left with 7" in record.getMessage() for record in caplog.records) == 3


def test_an_event_names_the_change_and_links_its_page(tmp_path, script, monkeypatch):
    made = make_campaign(
        tmp_path, "speed 120", None, limits=make_limits(target_peak_fraction=None, approve="change", max_rounds=1)
    )
    notify.store_command(tmp_path, words := (script("cat >> told"),))
    notify.allow(words)
    live = StatusView(tmp_path, made.ports, SilentProgress())
    with announce_server("http://127.0.0.1:8765/", (tmp_path.parent,)), pytest.raises(Waiting):
        drive(Checkpoints(saver=made.saver), made.request, made.ports, live)
    with announce_server("http://127.0.0.1:8765/", (tmp_path.parent,)):
        live.end("waiting", problem="waits")
    (one,) = ApprovalFiles(tmp_path).waiting()
    ApprovalFiles(tmp_path).decide(
        Decision(key=one.request.key, choice="approve", by="Ada", at="2026-11-22T09:00:00+00:00")
    )
    monkeypatch.setenv("RIDGELINE_URL", "https://box.example/ridgeline/")
    live = StatusView(tmp_path, made.ports, SilentProgress())
    drive(Checkpoints(saver=made.saver), made.request, made.ports, live)
    live.end("concluded")
    monkeypatch.delenv("RIDGELINE_URL")
    live.end("stopped", problem="the disk is full")
    waiting, accepted, concluded, stopped = events(tmp_path)
    name, change = id_of(tmp_path.resolve()), made.history().rounds[0].judged
    change = find_proposal(change).hypothesis.change
    assert waiting["link"] == f"http://127.0.0.1:8765/queue/{name}/{one.request.key}"
    assert accepted["link"] == f"https://box.example/ridgeline/c/{name}/r/2"
    assert concluded["link"] == f"https://box.example/ridgeline/c/{name}"
    assert stopped["link"] is None, "no server shows it"
    assert waiting["change"] == accepted["change"] == change
    assert waiting["title"] == f"{tmp_path.name} waits for you: {change}"
    assert accepted["title"].startswith(f"{tmp_path.name}: kept: {change}, +2")
    assert concluded["title"].startswith(f"{tmp_path.name} concluded: 1.2")


def test_a_server_that_is_gone_or_shows_other_folders_is_not_linked(tmp_path):
    campaign = tmp_path / "here" / "toy"
    campaign.mkdir(parents=True)
    with announce_server("http://127.0.0.1:8765/", (tmp_path / "elsewhere",)):
        assert link(campaign) is None
    with announce_server("http://127.0.0.1:8765/", (tmp_path / "here",)):
        assert link(campaign) == f"http://127.0.0.1:8765/c/{id_of(campaign)}"
        (record,) = cache_folder("serve").glob("*.json")
        record.rename(record.with_name(f"{2**22 + 1}.json"))
        assert link(campaign) is None
        record.with_name(f"{2**22 + 1}.json").unlink()


SERVER = """
import http.server, json, sys
class Kept(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        said = {"path": self.path, "login": self.headers["authorization"], "body": json.loads(text)}
        print(json.dumps(said), flush=True)
        self.send_response(500 if "broken" in self.path else 200)
        self.end_headers()
    def log_message(self, *about): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Kept)
print(server.server_port, flush=True)
server.serve_forever()
"""
MAIL = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
client, _ = server.accept()
lines, data = client.makefile("rb"), False
client.sendall(b"220 here\\r\\n")
for line in lines:
    print(line.decode().rstrip(), flush=True)
    data = data and line != b".\\r\\n" or line == b"data\\r\\n"
    if line == b"data\\r\\n": client.sendall(b"354 go on\\r\\n")
    elif not data: client.sendall(b"250 good\\r\\n")
"""


@pytest.fixture
def server():
    """`server(program)` -> the process and its port; a program of its own, as tests have no network."""
    running = []

    def start(program: str) -> tuple[subprocess.Popen, int]:
        process = subprocess.Popen((sys.executable, "-c", program), stdout=subprocess.PIPE, text=True)
        running.append(process)
        return process, int(process.stdout.readline())

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_ntfy_and_slack_are_told_in_their_own_words(server, campaign, monkeypatch):
    monkeypatch.setenv("RIDGELINE_URL", "http://box:8765")
    process, port = server(SERVER)
    about = {"round": 3, "said": "keep <this> & that? \u00e9", "change": "unroll by 4"}
    for address in (
        f"ntfy:http://ada:s3cret@127.0.0.1:{port}/kernels",
        f"slack:http://127.0.0.1:{port}/services/T/B/X",
    ):
        notify.Hook(notify.parse_receiver(address, "--notify"), campaign).tell(
            "waiting", **about, next="ridgeline resume x"
        )
    ntfy, slack = (json.loads(process.stdout.readline()) for _ in range(2))
    page = f"http://box:8765/c/{id_of(campaign)}"
    assert (ntfy["path"], ntfy["login"]) == ("/", "Basic YWRhOnMzY3JldA==")
    assert ntfy["body"] == {
        "topic": "kernels",
        "title": "campaign waits for you: unroll by 4",
        "message": "keep <this> & that? \u00e9\nridgeline resume x",
        "priority": 4,
        "tags": ["raised_hand"],
        "click": page,
    }
    assert (slack["path"], slack["login"]) == ("/services/T/B/X", None)
    said = "keep &lt;this&gt; &amp; that? \u00e9\nridgeline resume x"
    assert slack["body"]["text"] == f"*campaign waits for you: unroll by 4*\n{said}\n<{page}|Open the page>"


def test_mail_goes_through_the_server_that_is_named(server, campaign, monkeypatch):
    process, port = server(MAIL)
    monkeypatch.setenv("RIDGELINE_SMTP", f"smtp://127.0.0.1:{port}")
    about = {"round": 3, "said": "8 of 8 rounds", "speedup": 1.5}
    notify.Hook(notify.parse_receiver("mailto:ada@example.org", "--notify"), campaign).tell("concluded", **about)
    mail = process.stdout.read()
    assert "rcpt TO:<ada@example.org>" in mail
    assert "Subject: campaign concluded: 1.50x" in mail
    assert "8 of 8 rounds" in mail


def test_mail_goes_through_sendmail_where_there_is_one(script, campaign, monkeypatch):
    program = Path(script(f"cat > {campaign}/mail"))
    program.rename(program.with_name("sendmail"))
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    notify.Hook(notify.parse_receiver("mailto:ada@example.org", "--notify"), campaign).tell(
        "stopped", round=3, said="why"
    )
    mail = (campaign / "mail").read_text()
    assert "To: ada@example.org" in mail
    assert "Subject: campaign stopped in round 3" in mail


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ntfy:", "ntfy: needs an address"),
        ("ntfy:ftp://host/topic", "ntfy: needs an address"),
        ("slack:hooks.slack.com", "slack: needs an address"),
        ("mailto:ada", "mailto: needs addresses"),
        ("mailto:ada@example.org", "no sendmail; export RIDGELINE_SMTP"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_at_once(address, words, monkeypatch):
    monkeypatch.setattr("ridgeline.agent.campaign.messenger.SENDMAIL", ())
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match=words):
        notify.parse_receiver(address, "--notify")


def test_a_secret_address_is_told_to_nobody(server, campaign, caplog):
    _, port = server(SERVER)
    address = f"slack:http://127.0.0.1:{port}/broken/SECRET"
    notify.store_command(campaign, (address,))
    assert (campaign / notify.FILE).stat().st_mode & 0o077 == 0
    notify.find_hook(campaign, {})
    notify.Hook((address,), campaign).tell("stopped", round=1, said="")
    assert "slack at 127.0.0.1 was not given on this machine" in caplog.text
    assert "slack at 127.0.0.1 answered 500" in caplog.text
    assert "SECRET" not in caplog.text


def test_trying_out_a_notification_starts_nothing(cli, make_repository, script, tmp_path, monkeypatch, server):
    project = make_repository(files())
    monkeypatch.chdir(tmp_path)
    assert cli("run", project, "--notify-test", "--notify", script("cat > told")).code == 0
    (event,) = events(tmp_path)
    assert (event["event"], event["title"]) == ("test", "Ridgeline: a test")
    done = cli("run", project, "--notify-test", "--notify", script("exit 9"), "--json")
    assert (done.code, done.json["error"].startswith("--notify-test: ")) == (2, True)
    assert "left with 9" in done.complaint
    assert "give --notify or export RIDGELINE_NOTIFY" in cli("run", project, "--notify-test").complaint
    process, port = server(SERVER)
    monkeypatch.setenv("RIDGELINE_NOTIFY", f"ntfy:http://127.0.0.1:{port}/kernels")
    assert cli("run", project, "--notify-test", "--json").json == {"sent": True}
    assert json.loads(process.stdout.readline())["body"]["title"] == "Ridgeline: a test"
    assert not (project / "agent").exists()


@pytest.mark.slow
def test_the_command_of_a_run_survives_its_resume(cli, make_repository, script, caplog):
    caplog.set_level(logging.ERROR)
    project = make_repository(files())
    hook = script("cat >> told")
    asked = cli("run", project, "--approve", "target", "--max-rounds", "1", "--notify", hook, "--json")
    assert asked.code == 3, asked.err
    assert asked.json["exit_code"] == 3
    (folder,) = (project / "agent" / "workspace").iterdir()
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
