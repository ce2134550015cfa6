"""What every test may count on: no network, no settings of the developer, repositories on demand."""

import fcntl
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_socket import disable_socket

IDENTITY = ("-c", "user.name=Somebody", "-c", "user.email=somebody@localhost", "-c", "commit.gpgsign=false")
Git = Callable[..., str]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: looking for garbage in it, now and after each test, finds none and takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _find_programs() -> str:
    """PATH, where a version manager's `python3` is a script that takes a tenth of a second to find the program: the program first."""
    folders, python = os.environ.get("PATH", os.defpath), shutil.which("python3")
    if python is None or not Path(python).read_bytes().startswith(b"#!"):
        return folders
    return os.pathsep.join((str(Path(sys.executable).resolve().parent), folders))


if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as a shell's background jobs have it: nothing that tests start could be interrupted
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup() -> None:
    """No test talks to the network; local sockets of the operating system are fine."""
    disable_socket(allow_unix_socket=True)


@pytest.fixture(scope="session", autouse=True)
def _programs_themselves() -> Iterator[None]:
    """Projects of tests start `python3` thousands of times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", _find_programs())
        yield


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The developer's settings decide nothing here, and what was measured before these tests began neither."""
    for name in [name for name in os.environ if name.startswith(("RIDGELINE_", "GIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RIDGELINE_QUIET_S", "0")  # tests run beside one another: nobody waits for the others
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def whole_machine() -> Iterator[None]:
    """For a test that loads this machine, or times on it beside a load of its own: no other such test runs meanwhile, in any process."""
    with (Path(tempfile.gettempdir()) / f"ridgeline-tests-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def git() -> Git:
    """`git(folder, "status", "--short")` -> its output; raises when it fails."""

    def call(folder: Path, *arguments: str) -> str:
        argv = ("git", *IDENTITY, *arguments)
        return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    return call


@pytest.fixture
def make_repository(tmp_path: Path, git: Git) -> Callable[[Mapping[str, str]], Path]:
    """`make_repository({"kernel.c": "..."})` -> a repository with one commit of these files on branch main."""

    def make(files: Mapping[str, str], name: str = "repository") -> Path:
        root = tmp_path / name
        for path, text in files.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                target.chmod(0o755)
        git(root, "init", "-q", "-b", "main")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "start")
        return root

    return make


@dataclass(frozen=True)
class Said:
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON object it must be."""
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line that a mistake gives; fails when there are more, or a traceback."""
        lines = [line for line in self.err.splitlines() if line.startswith("ridgeline: ")]
        assert "Traceback" not in self.err
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("ridgeline: ")


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`cli("status", "--json")` runs the command in this process."""
    from ridgeline.agent.cli.application import run

    def call(*arguments: object) -> Said:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Said(code, captured.out, captured.err)

    return call
