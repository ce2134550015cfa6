"""SIGTERM and SIGHUP to commands at any moment: the exit code of a shell, one line, nothing left, and the same again goes on.

`python -m tests.soak signals [COUNT] [COMMAND...]`. Each command is a real process in a place of its own, sent one signal,
alone or with the group that a terminal would signal.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ridgeline.sandbox.isolation.directory_pool import discard_tree
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.soak.kills import _kill_session, _wait_for_ends
from tests.soak.recorded import ROOT, campaign_environment, campaign_words, lay_out

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
TASK = "matmul_c"
PATIENCE_S = 60.0
"""How long a command may take to end in order, on a machine that is shared."""
LONGEST_S = 900.0
"""Of a command that nobody ends."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One that is ended. `words`: its command line, of a place whose `kernels` is a repository with a task."""

    words: Callable[[Path], tuple[str, ...]]
    longest_s: float
    """Signals are sent up to so long after its start."""
    ends: bool = True
    """Whether it ends by itself; `serve` does not."""


@dataclass
class Tally:
    """What a number of signals came to."""

    signals: Counter[str] = field(default_factory=Counter)
    """By command; those that met one that had not ended."""
    failures: list[str] = field(default_factory=list)


def _run_words(place: Path) -> tuple[str, ...]:
    """Begin the campaign, or go on with it."""
    found = [*(place / "kernels" / "agent" / "workspace").glob("*/request.json")]
    return ("resume", str(found[0].parent)) if found else campaign_words(place / "kernels", 3)


COMMANDS: Mapping[str, Command] = {
    "run": Command(words=lambda place: campaign_words(place / "kernels", 3), longest_s=12.0),
    "resume": Command(words=_run_words, longest_s=25.0),
    "bench": Command(
        words=lambda place: (
            "bench", "sleep 0.02", "sleep 0.021", "--max-pairs", "40", "--raw", str(place / "raw.json"),
        ),
        longest_s=6.0,
    ),
    "judge": Command(words=lambda place: ("judge", "candidate", str(place / "kernels" / "task.yaml")), longest_s=15.0),
    "check": Command(words=lambda place: ("check", str(place / "kernels")), longest_s=15.0),
    "init": Command(words=lambda place: ("init", str(place / "new"), "--task", TASK), longest_s=1.5),
    "function": Command(
        words=lambda place: ("init", str(place / "plain" / "scale.c"), "--function", "scale"), longest_s=12.0
    ),
    "serve": Command(words=lambda place: ("serve", str(place / "kernels"), "--port", "0"), longest_s=4.0, ends=False),
}  # fmt: skip

FUNCTION = "void scale(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = 2.0f * x[i]; }\n"


class Place:
    """A folder with a repository, in which one command is ended again and again, and then left alone."""

    def __init__(self, folder: Path, name: str) -> None:
        """`folder`: not there yet."""
        self.folder, self._command = folder, COMMANDS[name]
        self.environment = campaign_environment(folder)
        lay_out(TASK, folder / "kernels")
        (folder / "plain").mkdir()
        (folder / "plain" / "scale.c").write_text(FUNCTION)
        self._closed: dict[Path, bytes] = {}
        """Closed lines of each ledger, when it was last looked at."""

    def end(self, number: signal.Signals, after_s: float, *, group: bool) -> tuple[str, bool]:
        """Begin the command and send it that signal; what is wrong, empty for nothing, and whether it had not ended before."""
        process, said = self._begin()
        struck = False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
        if process.returncode is None:
            struck = True
            os.killpg(process.pid, number) if group else process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
        return self._find_fault(process, said, number) if struck else self._find_remains(), struck

    def clear(self) -> None:
        """Away with what a command that came to its end has made, which the next one would not write over."""
        for made in (
            self.folder / "new",
            self.folder / "plain" / "ridgeline_scale",
            self.folder / "plain" / "ridgeline.yaml",
        ):
            discard_tree(made)

    def finish(self) -> str:
        """The command alone, to its end; what is wrong, empty for nothing."""
        if not self._command.ends:
            return ""
        process, said = self._begin()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LONGEST_S)
        text = said.read_text(errors="replace")
        if process.returncode not in (0, 1):
            return f"the same again: exit {process.returncode}: {(text.strip().splitlines() or ['nothing said'])[-1]}"
        return self._find_remains()

    def close(self) -> None:
        """End what is left of it."""
        _kill_session(self.folder)

    def _begin(self) -> tuple["subprocess.Popen[bytes]", Path]:
        said = self.folder / "said"
        with said.open("wb") as out:
            words = (sys.executable, "-m", "ridgeline", *self._command.words(self.folder))
            return subprocess.Popen(
                words, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            ), said  # fmt: skip

    def _find_fault(self, process: "subprocess.Popen[bytes]", said: Path, number: signal.Signals) -> str:
        text = said.read_text(errors="replace")
        last = (text.strip().splitlines() or ["nothing said"])[-1]
        if process.returncode is None:
            return f"has not ended after {PATIENCE_S:.0f} s: {last}"
        # before the first line of ours has run, the signal's own way is all there is, and a shell says the same code
        if process.returncode not in (128 + number, -number):
            return f"exit {process.returncode}: {text if 'Traceback' in text else last}"
        if "Traceback" in text:
            return f"traceback: {text}"
        return self._find_remains()

    def _find_remains(self) -> str:
        """Processes, files for the time being, and closed lines that are lost."""
        if left := _wait_for_ends(self.folder, 10.0):
            names = [_read_command_line(number) for number in left]
            return f"processes left: {names}"
        if left_files := [path.name for path in (self.folder / "tmp").iterdir()]:
            return f"left in the temporary folder: {left_files[:5]}"
        for ledger in (self.folder / "kernels" / "agent" / "workspace").glob("*/ledger.jsonl"):
            whole = ledger.read_bytes()
            if not whole.startswith(self._closed.get(ledger, b"")):
                return "a closed line of the ledger is lost or another"
            self._closed[ledger] = whole[: whole.rfind(b"\n") + 1]
            [*JsonlLedger(ledger).lines()]
        return ""


def _read_command_line(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:90]
    except OSError:
        return "?"


def send_signals(folder: Path, *, count: int, names: tuple[str, ...], seed: int = 7) -> Tally:
    """So many signals to each command; then it is left alone and must come to its end. `folder`: empty."""
    tally = Tally()
    for name in names:
        draw = Random(f"{seed} {name}")
        place = Place(folder / name, name)
        began = time.monotonic()
        for turn in range(2 * count):
            if tally.signals[name] >= count:
                break
            number, group = SIGNALS[turn % 2], draw.random() < 0.3
            after_s = (
                draw.choice((0.02, 0.1, 0.3, 0.6)) if turn % 3 == 0 else draw.uniform(0.3, COMMANDS[name].longest_s)
            )
            why, struck = place.end(number, after_s, group=group)
            tally.signals[name] += struck
            if not struck:
                place.clear()
            if why:
                whom = "the group" if group else "the command"
                tally.failures.append(f"{name}: {number.name} to {whom} after {after_s:.2f} s: {why}")
                print(tally.failures[-1], flush=True)  # noqa: T201
        if why := place.finish():
            tally.failures.append(f"{name}: {why}")
            print(tally.failures[-1], flush=True)  # noqa: T201
        place.close()
        print(f"{name}: {tally.signals[name]} signals in {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    return tally
