"""SIGTERM and SIGHUP wherever they come: the code of a shell, one line, and nothing half made."""

import signal
import subprocess
import sys
import time

import pytest

from ridgeline.agent.errors import is_interruption
from ridgeline.agent.scaffold import contract

IN_A_SERIALIZER = """
import os, signal
from pydantic import BaseModel, Field
from ridgeline.agent.cli import application

class Cut(BaseModel):
    value: int = Field(default=0, exclude_if=lambda value: os.kill(os.getpid(), signal.{name}))

application._command = lambda: lambda **words: Cut().model_dump_json()
application.main()
"""
WITH_A_CHILD = """
import sys
from ridgeline.agent.attempts import run_command
from ridgeline.agent.cli import application

application._command = lambda: lambda **words: run_command(sys.argv[2:], None)
application.main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_a_signal_in_the_middle_of_a_serializer_is_an_interruption(name, code):
    done = subprocess.run(
        (sys.executable, "-c", IN_A_SERIALIZER.format(name=name), "bench"), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, "ridgeline: interrupted; the same command begins again\n")


@pytest.mark.parametrize(
    ("words", "goes_on"),
    [
        ("suite run tasks --out folder", True),
        ("judge baselines task.yaml --keep times.json", True),
        ("judge baselines task.yaml --keep=times.json", True),
        ("judge baselines task.yaml", False),
        ("fleet run fleet.yaml", True),
        ("suite table folder", False),
    ],
)
def test_an_interrupted_command_says_whether_the_same_one_goes_on(words, goes_on):
    said = IN_A_SERIALIZER.format(name="SIGINT")
    done = subprocess.run((sys.executable, "-c", said, *words.split()), capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert ("the same command goes on with what is left" in done.stderr) == goes_on


def test_an_error_of_pydantic_alone_is_none():
    class PydanticSerializationError(Exception):
        pass

    assert not is_interruption(PydanticSerializationError("Unable to serialize unknown type"))
    assert not is_interruption(ValueError("KeyboardInterrupt"))


def test_a_command_that_is_asked_to_end_asks_the_one_that_it_runs(tmp_path):
    began = tmp_path / "began"
    script = tmp_path / "long.sh"
    script.write_text(f"#!/bin/sh\ntouch {began}\nsleep 300\n")
    script.chmod(0o755)
    words = ("suite", "bench", str(script), str(script), "--quiet")
    with subprocess.Popen((sys.executable, "-c", WITH_A_CHILD, *words), stderr=subprocess.DEVNULL) as process:
        while not began.exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(45) == 143  # it waited 60 s for a child that nobody had asked


@pytest.mark.parametrize("there", [True, False])
def test_a_task_that_is_half_made_goes_again(tmp_path, monkeypatch, there):
    destination = tmp_path / "new"
    if there:
        destination.mkdir()
    with monkeypatch.context() as cut:
        cut.setattr(contract, "begin_repository", lambda *_: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            contract.copy("matmul_c", destination)
    assert destination.exists() == there
    assert contract.copy("matmul_c", destination) == destination
