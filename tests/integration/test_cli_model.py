"""Campaigns that a language model thinks for: by mailbox, and by a real local server, through the command line."""

import json
import shutil
from pathlib import Path

import pytest
from pytest_socket import enable_socket, socket_allow_hosts

from ridgeline.agent.providers.mailbox import Mailbox
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.model_fakes import direction, directions
from tests.model_server import failed, said, serve
from tests.text_project import files

pytestmark = pytest.mark.slow
LIMITS = ("looks=1,2,3,4,5,6", "calibration_pairs=2", "blocks=2", "final_pairs=3")
QUICK = ("--max-rounds", "1", *(word for limit in LIMITS for word in ("--set", limit)))
KEY = "very-secret-key-0123456789"
NO_MACHINE = (
    "ridgeline.sandbox.devices.machine.LocalDevice.machine",
    lambda _: pytest.fail("the machine is not here"),
)


def plan(**fields):
    return directions(direction(citations=["kernel.txt:1"], **fields))


def edit(speed):
    return f"It is faster.\n\nEDIT kernel.txt\n<<<<<<< SEARCH\nspeed 100\n=======\nspeed {speed}\n>>>>>>> REPLACE\n"


LEARNT = json.dumps({"attribution": "the number is larger", "root_cause": "", "next_direction": "more", "lesson": None})


def thinking(speed=130):
    """A server's script: what is asked for shows in the question."""

    def reply(heard):
        text = heard.body["messages"][1]["content"]
        schema = json.dumps(heard.body.get("response_format", ""))
        if "attribution" in schema:
            return said(LEARNT)
        return said(edit(speed) if "SEARCH" in text else plan())

    return reply


@pytest.fixture
def play(monkeypatch):
    enable_socket()
    socket_allow_hosts(["127.0.0.1"])
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    stops = []

    def start(*replies):
        script, stop = serve(*replies)
        stops.append(stop)
        return script

    yield start
    for stop in stops:
        stop()


@pytest.fixture
def project(make_repository):
    return make_repository(files())


def everything(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def answered(cli, campaign, tmp_path, text, *more):
    given = tmp_path / "answer.txt"
    given.write_text(text, encoding="utf-8")
    return cli("answer", campaign, given, *more)


def test_a_mailbox_campaign_from_the_first_question_to_the_report(cli, project, tmp_path):
    asked = cli("run", project, *QUICK, "--model", "mailbox", "--json")
    assert asked.code == 3, asked.err
    assert (asked.json["status"], asked.json["planner"]) == ("waiting", "mailbox")
    campaign, request = Path(asked.json["dir"]), Path(asked.json["request"])
    assert request == campaign / "mailbox" / "001.request.md"
    assert str(request) in asked.err
    assert "waits for an answer (Round 2: which direction next?): read " in asked.err
    assert "ridgeline answer" in asked.err
    page = request.read_text()
    assert "round-2 propose 1" in page
    assert '"directions"' in page
    assert "speed 100" in page
    now = cli("status", campaign, "--json").json
    assert (now["status"], now["request"]) == ("waiting", str(request))

    again = cli("resume", campaign)
    assert again.code == 3, "the same question waits"
    assert f"report     ridgeline report {campaign.name}, also before the end" in again.out
    assert not (campaign / "final_report.md").exists(), "what is not written yet is not named"
    assert [asked.number for asked in Mailbox(campaign).requests()] == [1]
    for text, words in (
        ("", "is empty"),
        ("no json", "line 1: is not JSON"),
        ('{"directions": 3}', "$.directions: 3 is not of type 'array'"),
        ('{"directions": [{"id": "x"}]}', "'lever' is a required property"),
        (plan(change="tile by 64 and prefetch the next row"), "names 2 changes"),
        (plan(bucket="W2"), "bucket W2"),
        (directions(direction(citations=["kernel.txt:99"])), "kernel.txt has"),
        (plan(target_class="huge"), "no direction can be used: swap-loops: target_class 'huge' is no class"),
    ):
        refused = answered(cli, campaign, tmp_path, text)
        assert refused.code == 2
        assert words in refused.complaint
    assert "cannot be read" in cli("answer", campaign, tmp_path / "nowhere").complaint

    assert [asked.number for asked in Mailbox(campaign).requests()] == [1], "what is refused at once costs no try"

    elsewhere = tmp_path / "elsewhere" / "copied"
    shutil.copytree(campaign, elsewhere)
    stored = answered(cli, elsewhere, tmp_path, f"```json\n{plan()}\n```", "--by", "a person", "--json")
    assert stored.code == 0, stored.err
    assert Path(stored.json["answer"]) == elsewhere / "mailbox" / "001.answer.json"
    shutil.copy(stored.json["answer"], campaign / "mailbox")
    assert "is answered already" in answered(cli, campaign, tmp_path, plan()).complaint

    draft = cli("resume", campaign, "--json")
    assert draft.code == 3, draft.err
    assert draft.json["request"].endswith("002.request.md")
    done = answered(cli, campaign, tmp_path, edit(130), "--resume", "--json")
    assert done.code == 3, "the lesson is asked for too"
    assert "has no open request" not in done.err
    done = answered(cli, campaign, tmp_path, LEARNT, "--resume", "--json")
    assert done.code == 0, done.err
    assert (done.json["status"], done.json["accepted"]) == ("concluded", 1)
    assert done.json["cost"]["tokens"] > 100
    assert done.json["cost"]["dollars"] is None, "nobody said what the answers cost"
    assert (
        "has concluded and asks nothing more; read it with `ridgeline report"
        in answered(cli, campaign, tmp_path, "late").complaint
    )
    tape = (campaign / "model_tape.jsonl").read_text()
    assert '"mailbox (a person)"' in tape


def test_answers_go_to_mailbox_campaigns_only(cli, project):
    done = cli("run", project, *QUICK, "--json")
    assert "has asked nothing" in cli("answer", done.json["dir"], "x").complaint


def test_a_whole_campaign_on_a_server_keeps_a_gain_and_no_key(cli, play, project, monkeypatch):
    server = play(thinking())
    monkeypatch.setenv("RIDGELINE_MODEL_PRICE", "1,10")
    done = cli("run", project, *QUICK, "--model", "openai/some", "--base-url", server.url, "--json")
    assert done.code == 0, done.err
    assert (done.json["accepted"], done.json["planner"]) == (1, "llm:openai/some")
    asked = len(server.heard)
    assert done.json["cost"]["tokens"] == 120 * asked
    assert done.json["cost"]["dollars"] == pytest.approx(asked * (100 + 200) / 1e6)
    assert "estimate: 1 round about" in done.err
    campaign = Path(done.json["dir"])
    assert server.heard[0].headers["Authorization"] == f"Bearer {KEY}"
    for place in (campaign, project):
        assert KEY.encode() not in everything(place)
    assert KEY not in done.out + done.err
    history = fold_ledger(JsonlLedger(campaign / "ledger.jsonl").lines())
    assert history.rounds[0].cost.tokens == 120 * asked


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (said("I would rather write a poem."), "no_edit"),
        (said('{"directions": [', finish="length"), "no_edit"),
        (said(None, calls=[{"id": "1", "type": "function", "function": {"name": "rm", "arguments": "/"}}]), "no_edit"),
        (said(f"key {KEY} \x00\x1b[2J\ud800 {'x' * 2_000_000}"), "no_edit"),
    ],
)
def test_answers_of_no_use_are_rounds_without_an_edit(cli, play, project, reply, reason):
    server = play(reply)
    done = cli("run", project, *QUICK, "--model", "openai/some", "--base-url", server.url, "--json")
    assert done.code == 0, done.err
    history = fold_ledger(JsonlLedger(Path(done.json["dir"]) / "ledger.jsonl").lines())
    assert [closed.judged.verdict.reason for closed in history.rounds] == [reason]
    assert done.json["cost"]["tokens"] == 120 * len(server.heard), "bad answers are paid for too"
    assert KEY.encode() not in everything(Path(done.json["dir"]))


def test_a_provider_that_fails_stops_the_campaign_and_nothing_is_asked_twice(cli, play, project):
    think = thinking()
    server = play(think, failed(401, f"no credit for {KEY} sk-live-12345678"), think)
    stopped = cli("run", project, *QUICK, "--model", "openai/some", "--base-url", server.url)
    assert stopped.code == 5
    assert "OPENAI_API_KEY" in stopped.complaint
    assert KEY not in stopped.err
    assert "sk-live" not in stopped.err
    campaign = next((project / "agent" / "workspace").iterdir())
    assert KEY.encode() not in everything(campaign)
    assert cli("status", campaign, "--json").json["status"] == "stopped"
    done = cli("resume", campaign, "--json")
    assert done.code == 0, done.err
    assert done.json["accepted"] == 1
    purposes = [json.dumps(heard.body["messages"]) for heard in server.heard]
    assert purposes.count(purposes[0]) == 1, "what was answered before the failure is on the tape"
    assert purposes.count(purposes[1]) == 2


def test_a_question_that_may_not_fit_the_budget_ends_the_campaign_by_t7(cli, play, project):
    server = play(thinking())
    run = ("run", project, *QUICK[2:], "--model", "openai/some", "--base-url", server.url, "--json")
    done = cli(*run, "--budget-tokens", "9000")
    assert done.code == 0, done.err
    assert done.json["status"] == "concluded"
    why = "T7 budget spent: the next question does not fit: round-2 propose 1: 0 of 9000 tokens are spent, and the next question may"
    assert why in done.json["stop_reason"]
    assert server.heard == []
    refused = cli(*run, "--budget-usd", "5")
    assert refused.code == 2
    assert "the price of openai/some is not known" in refused.complaint


def test_what_is_missing_is_told_before_anything_is_measured(cli, project, monkeypatch, git):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    refused = cli("run", project, "--model", "anthropic/some-model")
    assert refused.code == 5
    assert refused.complaint == "--model anthropic/some-model: ANTHROPIC_API_KEY is not set; set in the environment"
    assert git(project, "status", "--porcelain") == ""
    assert not (project / "agent").exists()
    assert "give one of the two" in cli("run", project, "--model", "mailbox", "--planner", "catalog").complaint
    assert "nobody knows" in cli("run", project, "--model", "mailbox", "--budget-usd", "1").complaint
    assert "give one of the two" in cli("run", project, "--budget-hours", "1", "--max-minutes", "5").complaint
    assert "--budget-hours" in cli("run", project, "--budget-hours", "0").complaint


def test_questions_between_two_measurements_are_answered_without_the_machine(cli, project, tmp_path, monkeypatch):
    rounds = ("--max-rounds", "2", *QUICK[2:])
    # a calibration that another test left would be looked at after a round, by the machine
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path / "cache"))
    campaign = Path(cli("run", project, *rounds, "--model", "mailbox", "--json").json["dir"])
    with monkeypatch.context() as away:
        away.setattr(*NO_MACHINE)
        first = answered(cli, campaign, tmp_path, plan(), "--json")
        assert first.code == 0, first.err
        assert first.json["next_request"].endswith("002.request.md"), "the draft is asked for at once"
        drafted = answered(cli, campaign, tmp_path, edit(130), "--json")
        assert (drafted.code, drafted.json["next_request"]) == (0, None), "now it has to be built"
        assert cli("status", campaign, "--json").json["status"] in ("waiting", "stopped")

    measured = cli("resume", campaign, "--json")
    assert measured.code == 3, measured.err
    assert measured.json["request"].endswith("003.request.md")
    monkeypatch.setattr(*NO_MACHINE)
    learnt = answered(cli, campaign, tmp_path, LEARNT, "--json")
    assert learnt.json["next_request"].endswith("004.request.md"), "the round is closed, the next is being planned"
    closed = cli("status", campaign, "--json").json
    assert (closed["accepted"] + closed["rolled_back"], closed["chain_ok"]) == (1, True)


def test_an_answer_with_several_candidates_builds_and_tests_none_of_them(cli, project, tmp_path, monkeypatch):
    """With no card an error of its gate stood there; with one the candidates were tested by `answer`."""
    run = ("run", project, "--max-rounds", "2", *QUICK[2:], "--set", "candidates=2", "--model", "mailbox", "--json")
    campaign = Path(cli(*run).json["dir"])
    lines = ["kernel.txt:1"]
    both = directions(
        direction(citations=lines), direction(citations=lines, id="pad", lever="padding", change="pad the rows")
    )
    first = answered(cli, campaign, tmp_path, both, "--json")
    assert first.json["next_request"].endswith("002.request.md")
    with monkeypatch.context() as away:
        away.setattr(
            "ridgeline.agent.campaign.side_by_side.SideBySide.prepare",
            lambda *_: pytest.fail("nothing is to be built here"),
        )
        edits = "\n".join(f"CANDIDATE {number}\n{edit(speed)}" for number, speed in ((1, 130), (2, 140)))
        drafted = answered(cli, campaign, tmp_path, edits, "--json")
        assert drafted.code == 0, drafted.err
        assert drafted.json["next_request"] is None
    measured = cli("resume", campaign, "--json")
    assert measured.json["request"].endswith("003.request.md")
