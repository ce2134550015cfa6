"""`ridgeline demo` with a model in the catalog's place: the same words as `ridgeline run`."""

import json
from pathlib import Path

import pytest
from pytest_socket import enable_socket, socket_allow_hosts

from ridgeline.agent.providers.recorded import read_answers
from tests.model_server import said, serve

LIMITS = ("looks=1,2,3", "calibration_pairs=2", "blocks=2", "final_pairs=3")
QUICK = ("--max-rounds", "1", *(word for limit in LIMITS for word in ("--set", limit)))


def opened(campaign: Path) -> dict:
    """The ledger's first line."""
    return json.loads((campaign / "ledger.jsonl").read_text(encoding="utf-8").splitlines()[0])["body"]


@pytest.mark.slow
def test_a_demo_by_mailbox_waits_for_its_first_answer_as_long_as_it_takes(cli, tmp_path):
    asked = cli("demo", "--task", "layernorm_c", "--dir", tmp_path / "demo", *QUICK, "--model", "mailbox", "--json")
    assert asked.code == 3, asked.err
    assert (asked.json["status"], asked.json["planner"]) == ("waiting", "mailbox")
    assert Path(asked.json["request"]).is_file()
    assert "planner mailbox" in asked.err
    limits = opened(Path(asked.json["dir"]))["limits"]
    assert (limits["max_rounds"], limits["max_minutes"]) == (1, None)


@pytest.mark.slow
def test_a_demo_on_a_server_ends_with_its_rounds(cli, tmp_path, monkeypatch):
    enable_socket()
    socket_allow_hosts(["127.0.0.1"])
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-nobody")
    script, stop = serve(said("I would rather write a poem."))
    words = ("--model", "openai/some", "--base-url", script.url, "--max-minutes", "9", "--json")
    done = cli("demo", "--task", "layernorm_c", "--dir", tmp_path / "demo", *QUICK, *words)
    stop()
    assert done.code == 0, done.err
    assert (done.json["status"], done.json["planner"], done.json["rounds"]) == ("concluded", "llm:openai/some", 1)
    assert opened(Path(done.json["dir"]))["limits"]["max_minutes"] == 9


@pytest.mark.slow
def test_a_new_user_s_demo_keeps_a_gain_also_beside_other_work(cli, tmp_path):
    """The README's first command, as it is; its third round is the first of the two large ones."""
    fewer = (
        "--set",
        "calibration_pairs=4",
        "--set",
        "final_pairs=4",
    )  # what it keeps is seen sooner; the rest is as it is
    demo = cli("demo", "--dir", tmp_path / "demo", "--max-rounds", "3", *fewer, "--json")
    assert demo.code == 0, demo.err
    assert demo.json["accepted"] >= 1, demo.err
    assert demo.json["speedup_lower"] > 1.2, demo.err


@pytest.mark.parametrize(
    ("words", "said_so"),
    [
        (("--model", "mailbox", "--planner", "catalog"), "give one of the two"),
        (("--base-url", "http://localhost:1"), "--model: is missing"),
        (("--model", " "), "is empty or has spaces"),
        (("--model", "recorded:/nowhere"), "--model recorded:/nowhere: there is no such folder"),
        (("--model", "mailbox", "--base-url", "http://localhost:1"), "leave out --base-url"),
    ],
)
def test_what_cannot_be_is_refused_before_a_folder_is_made(cli, tmp_path, words, said_so):
    refused = cli("demo", "--dir", tmp_path / "demo", *words)
    assert refused.code == 2
    assert said_so in refused.complaint
    assert not (tmp_path / "demo").exists()


def test_a_task_for_a_card_that_is_not_here_leaves_no_folder(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    recording = Path(__file__).parents[2] / "evals/campaigns/top64_h100"
    done = cli("demo", "--task", recording / "task", "--model", f"recorded:{recording}", "--dir", tmp_path / "demo")
    assert done.code == 5, done.err
    assert not (tmp_path / "demo").exists()


def test_no_deep_round_is_in_recorded_answers(cli, tmp_path):
    recording = Path(__file__).parents[2] / "evals/campaigns/layernorm_c_mailbox"
    words = ("--task", "layernorm_c", "--model", f"recorded:{recording}", "--dir", tmp_path / "demo")
    done = cli("demo", *words, "--set", "deep=start")
    assert done.code == 2
    assert "--deep: what was done in a deep round is in no recorded answer; leave it out" in done.err
    done = cli("demo", *words, "--set", "candidates=8")
    assert (done.code, (tmp_path / "demo").exists()) == (2, False)
    assert "--set candidates: is 8, and recorded:layernorm_c_mailbox has edits of 1 at once" in done.complaint


@pytest.mark.slow
def test_a_recorded_campaign_is_made_again_with_its_answers_and_measured_anew(cli, tmp_path):
    """Its first question alone, so that it ends soon. What is kept is the machine's affair."""
    recording = read_answers(Path(__file__).parents[2] / "evals/campaigns/layernorm_c_mailbox")
    (tmp_path / "answers").mkdir()
    for name, answer in zip(("01.propose.json", "02.draft.txt"), recording.answers, strict=False):
        (tmp_path / "answers" / name).write_text(answer.text)
    sets = [word for limit in LIMITS for word in ("--set", limit)]
    words = ("--task", "layernorm_c", "--model", f"recorded:{tmp_path / 'answers'}", "--dir", tmp_path / "again", *sets)
    again = cli("demo", *words, "--set", "tool_calls=1", "--json")
    assert again.code == 0, again.err
    assert "not used: --set tool_calls: with recorded answers nobody is asked" in again.err
    assert "1 question for directions answered before; nobody is asked" in again.err
    assert (again.json["status"], again.json["planner"]) == ("concluded", "recorded:answers")
    assert "T8 search exhausted: the recorded answers are used up: recorded:answers" in again.json["stop_reason"]
    ledger = (Path(again.json["dir"]) / "ledger.jsonl").read_text()
    rounds = [json.loads(line)["body"] for line in ledger.splitlines() if '"kind":"round"' in line]
    (closed,) = [body for body in rounds if "avx2-row-vectors" in json.dumps(body)]
    assert closed["judged"]["verdict"]["correct"] == "yes", "the recorded edits were built and tested here"
    assert f"{tmp_path / 'answers'}" not in ledger
