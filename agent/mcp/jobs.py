"""Commands of this program that take longer than a client waits for an answer: started, looked at, ended.

Each is a process of its own with `--json`. One that a client may abandon ends with the server; a campaign goes on.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgeline.agent.errors import UserError
from ridgeline.agent.mcp.desk import PART, JsonObject, part_of
from ridgeline.agent.providers.base import redact
from ridgeline.sandbox.isolation.process import launch_detached

RIDGELINE = (sys.executable, "-P", "-m", "ridgeline")  # -P: a folder of somebody is no place to import from
WAIT_S = 5.0
"""So long a client waits at most before it is told the job's name instead of the result."""
END_S = 10.0
"""So long each command is waited for that was asked to end."""
LOG_LINES = 12
"""Last lines of what a running command says that a client is shown."""
LOG_BYTES = 8_000
MOST_JOBS = 8
"""Running at a time: a client that starts more has lost count."""


@dataclass(frozen=True)
class Job:
    """One command that was started for a client."""

    name: str
    process: "subprocess.Popen[bytes]"
    output: Path
    """Its standard output: one JSON object once it has ended."""
    log: Path
    ends_with_server: bool
    about: JsonObject = field(default_factory=dict)
    """What the client is told of it in every answer."""

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def describe(self, offset: int = 0) -> JsonObject:
        """State and result. Raises UserError with the command's own complaint where it failed."""
        if self.running:
            lines = _tail(self.log)
            return {**self.about, "job": self.name, "state": "running", "log": lines, "next": "ask `job` again"}
        code = self.process.returncode
        text = self.output.read_text(encoding="utf-8", errors="replace")
        try:
            document: Any = json.loads(text)
        except ValueError:
            last = " ".join(_tail(self.log)) or "it said nothing"
            raise UserError(f"{self.name}: ended with exit code {code} and no result: {redact(last)}") from None
        if isinstance(document, dict) and set(document) == {"error", "exit_code"}:
            raise UserError(str(document["error"]), int(document["exit_code"]))
        said: JsonObject = {**self.about, "job": self.name, "state": "ended", "exit_code": code}
        return {**said, "result": document} if len(text) <= PART and not offset else {**said, **part_of(text, offset)}

    def end(self) -> None:
        """Ask it and what it started to end, as Ctrl-C does."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)


class Jobs:
    """All that this server started."""

    def __init__(self, command: Sequence[str] = RIDGELINE, *, wait_s: float = WAIT_S) -> None:
        self._command = tuple(command)
        self._wait_s = wait_s
        self._folder: Path | None = None
        self._jobs: dict[str, Job] = {}

    def start(
        self, words: Sequence[str], *, cwd: Path, about: JsonObject | None = None, ends_with_server: bool = True
    ) -> JsonObject:
        """Run `ridgeline WORDS --json`; its result where it ends soon, else its name. Raises UserError where it failed."""
        if sum(job.running for job in self._jobs.values()) >= MOST_JOBS:
            raise UserError(f"{MOST_JOBS} jobs are running; wait for one with `job`, or end one")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ridgeline-"))
        name = f"{words[0]}-{len(self._jobs) + 1}"
        output, log = self._folder / f"{name}.json", self._folder / f"{name}.log"
        argv = (*self._command, *words, "--json")
        process = launch_detached(argv, cwd=cwd, log=log, output=output, without=("RIDGELINE_TOKEN",))
        job = Job(name, process, output, log, ends_with_server, about or {})
        self._jobs[name] = job
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self._wait_s)
        return job.describe()

    def find(self, name: str) -> Job:
        """Raises UserError for a name that this server did not give."""
        if name not in self._jobs:
            names = ", ".join(self._jobs) or "none was started"
            raise UserError(f"job: {redact(name, limit=100)}: this server started no such job; known: {names}")
        return self._jobs[name]

    def close(self) -> None:
        """End what nobody will ask for any more; campaigns go on."""
        abandoned = [job for job in self._jobs.values() if job.ends_with_server]
        for job in abandoned:
            job.end()
        for job in abandoned:
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.process.wait(END_S)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _tail(log: Path) -> list[str]:
    """The last lines of a background job's log, bounded and without keys."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return [redact(line) for line in lines[-LOG_LINES:]]
