"""The command among other programs: pipes that close, JSON when something fails, completion by real shells."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import builders
from tests.web_campaigns import write_ledger

RIDGELINE = (sys.executable, "-m", "ridgeline")


@pytest.fixture
def campaign(tmp_path, make_repository) -> Path:
    root = make_repository({"kernel.c": "int x;\n"})
    return write_ledger(root / "agent" / "workspace" / "toy_c_cpu", builders.make_history(builders.make_round(2)))


def read_by_nobody(*arguments: object, stream: str) -> subprocess.CompletedProcess[str]:
    """Run with that stream's pipe closed at the other end, as after `| head`."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer}
    try:
        return subprocess.run((*RIDGELINE, *map(str, arguments)), text=True, **streams, check=False)
    finally:
        os.close(writer)


@pytest.mark.parametrize("arguments", [("report",), ("report", "--json"), ("status",), ("queue",), ("--help",)])
@pytest.mark.slow
def test_a_reader_who_leaves_ends_the_command_without_a_word(campaign, arguments):
    where = () if arguments[0] in ("queue", "--help") else (campaign,)
    done = read_by_nobody(*arguments[:1], *where, *arguments[1:], stream="stdout")
    assert (done.returncode, done.stderr) == (141, "")


def test_a_command_goes_on_where_nobody_reads_what_it_says_beside(campaign):
    assert read_by_nobody("status", "nowhere", stream="stderr").returncode == 2
    done = read_by_nobody("watch", campaign, stream="stderr")
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("status", "nowhere", "--json"), 2, "nowhere: no such campaign"),
        (("status", "--jsn", "--json"), 2, "No such option: --jsn"),
        (("report", "--json", "--html"), 2, "requires an argument"),
        (("run", "nowhere.yaml", "--json"), 2, "nowhere.yaml"),
    ],
)
def test_a_failure_under_json_is_json_and_keeps_its_code(cli, tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    done = cli(*arguments)
    assert (done.code, done.json["exit_code"]) == (code, code)
    assert words in done.json["error"]
    assert done.complaint == done.json["error"]


def test_a_failure_after_the_answer_adds_no_second_object(cli, campaign):
    path = campaign / "ledger.jsonl"
    path.write_text(path.read_text().replace('"round":1', '"round":9', 1))
    done = cli("status", campaign, "--json")
    assert done.code == 2
    assert done.json["chain_ok"] is False


def test_json_for_another_program_is_not_ours(cli):
    done = cli("status", "--", "nowhere", "--json")
    assert (done.code, done.out) == (2, "")


def complete(words: str, shell: str, folder: Path) -> str:
    """What the shell's completion offers for the last word of a command line."""
    env = {**os.environ, "_RIDGELINE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": words}
    env |= {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(RIDGELINE, cwd=folder, env=env, text=True, capture_output=True, check=True)
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.slow
def test_commands_options_and_campaigns_are_completed(campaign, shell):
    repository = campaign.parents[2]
    assert {"report", "replay"} <= set(complete("ridgeline rep", shell, repository).replace('"', " ").split())
    assert "--max-rounds" in complete("ridgeline run --max-r", shell, repository)
    assert "toy_c_cpu" in complete("ridgeline report t", shell, repository)


def test_bash_completes_by_the_script_that_it_is_given(campaign):
    script = f"""
        PATH={Path(sys.executable).parent}:$PATH
        eval "$(_RIDGELINE_COMPLETE=source_bash ridgeline)"
        COMP_WORDS=(ridgeline stat) COMP_CWORD=1
        _ridgeline_completion ridgeline
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(("bash", "-c", script), cwd=campaign, text=True, capture_output=True, check=True)
    assert done.stdout.split() == ["status"]


def _hear_interrupts() -> None:
    """Tests that a shell started in the background ignore Ctrl-C, and so would what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_who_watches_late_is_told_the_time_that_the_campaign_has_left(tmp_path):
    """40 of 60 minutes have gone; who begins to watch now has 20 minutes to see, not 60."""
    opened_at = (datetime.now(UTC) - timedelta(minutes=40)).isoformat()
    history = builders.make_history(builders.make_round(2))
    limited = history.opened.model_copy(update={"limits": history.limits.model_copy(update={"max_minutes": 60.0})})
    baseline = history.baseline.model_copy(update={"opened_at": opened_at})
    folder = write_ledger(tmp_path / "toy", history.model_copy(update={"opened": limited, "baseline": baseline}))
    (folder / "status.json").write_text(
        json.dumps({"status": "running", "phase": "measure", "round": 3, "pid": os.getpid()})
    )
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(
        (*RIDGELINE, "watch", str(folder)), stdout=theirs, stderr=theirs, env=env, preexec_fn=_hear_interrupts
    ) as watching:
        os.close(theirs)
        seen = b""
        while not (found := re.search(rb"\[(\d+):\d\d\] round 3: measure .* (\d+):\d\d left", seen)):
            seen += os.read(ours, 1 << 16)  # ends with an error where the command ends without saying so
        watching.send_signal(signal.SIGINT)
    os.close(ours)
    assert int(found[1]) in (40, 41)
    assert int(found[2]) in (18, 19, 20)
