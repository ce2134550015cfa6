"""What reaches a terminal: text, never a command to it, and never a failure of the work."""

import io
import logging
import signal
import subprocess
import sys

import pytest

from ridgeline.agent import console
from ridgeline.agent.campaign.progress import ConsoleProgress
from ridgeline.agent.cli.application import _describe_system_error

CLEAR = "\x1b[2J\x1b]0;owned\x07"
HOSTILE = [CLEAR, "\x9b31m", "a\rb", "\x08\x08", "\u202edrowssap", "\u2066x", "\x00", "\x7f", "\ud800"]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_foreign_text_commands_no_terminal(capfd, text):
    console.say(f"before {text} after")
    console.note(f"before {text} after")
    console.complain(text)
    console.table(("NAME",), [(text,)])
    log = logging.LogRecord("x", logging.WARNING, "f", 1, "%s", (text,), None)
    console.NoteHandler().emit(log)
    out, err = capfd.readouterr()
    assert not console.CONTROLS.search(out + err)
    assert out.startswith("before ")
    assert "after" in err


def test_ordinary_text_stays_as_it_is(capfd):
    console.say("é\tµs → 3.5 ×\nnext line")
    assert capfd.readouterr().out == "é\tµs → 3.5 ×\nnext line\n"


def test_the_live_line_commands_no_terminal_either(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    progress = ConsoleProgress()
    progress._now = ("propose", 2, CLEAR)
    assert not console.CONTROLS.search(str(progress._render_line()))


def test_a_note_that_nobody_can_read_ends_no_work(monkeypatch):
    with open("/dev/full", "w") as full:  # noqa: PTH123 (a device)
        monkeypatch.setattr(sys, "stderr", full)
        console.note("x" * 100_000)
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "denied", "/some/file"), "/some/file: Permission denied; give this user the right to it"),
        (OSError(36, "long", "/x"), "/x: File name too long; shorten the name"),
        (OSError(24, "many"), "this command: Too many open files; allow more open files"),
        (OSError(30, "read-only", "/proc/x"), "file system /proc"),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), "name another in TMPDIR"),
        (ConnectionRefusedError(111, "refused"), ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_the_system_is_a_line(error, words):
    line = _describe_system_error(error)
    assert words in line
    assert bool(line) == bool(words)
    assert "\n" not in line


def test_a_server_that_waits_for_its_client_ends_when_it_is_told_to():
    argv = (sys.executable, "-m", "ridgeline", "mcp")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            process.stdin.flush()
            process.stdout.readline()  # it has begun
            process.terminate()
            assert process.wait(10) == -signal.SIGTERM
        finally:
            process.kill()
