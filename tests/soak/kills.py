"""Kills of real campaigns: before every call that changes a directory, and at random moments; then resumed and compared.

Killed before call k + 1 is killed after call k, as far as names on the disk go, so one series covers both. A call is counted
in its own process: the same number kills the campaign's process in one run, and a git or a compiler of its in another.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.text_project import files

ROOT = Path(__file__).parents[2]
CALLS = "rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,ftruncate,fsync,fdatasync"
"""System calls before which a process is killed."""


@dataclass
class Tally:
    """What a series of kills came to."""

    kills: int = 0
    campaigns: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


class Bench:
    """One recorded campaign, started again and again on its own answers, each time disturbed elsewhere."""

    def __init__(self, folder: Path) -> None:
        """`folder`: empty."""
        self._folder = folder
        self._before = folder / "before" / "kernels"
        self._before.mkdir(parents=True)
        for path, text in files().items():
            (self._before / path).write_text(text)
        (self._before / "harness.py").chmod(0o755)
        identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@localhost")
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-q", "-m", "start")):
            subprocess.run(("git", *words), cwd=self._before, check=True)
        shutil.copytree(self._before, folder / "recorded" / "kernels")
        code, problem = self._finish(self._drive("start", folder / "recorded" / "kernels"))
        assert code == 0, problem
        self._original = _campaign_of(folder / "recorded" / "kernels")
        assert self._original is not None
        self._ledger = (self._original / "ledger.jsonl").read_bytes()
        self._number = 0

    def kill_at_call(self, tally: Tally, number: int) -> None:
        """Kill the first process that is about to make its `number`-th call, then resume and compare."""
        inject = ("strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={CALLS}", "-e")
        self._disturb(tally, f"call {number}", (*inject, f"inject={CALLS}:signal=KILL:when={number}"), None)

    def kill_at_moment(self, tally: Tally, after_s: float) -> None:
        """Kill the campaign's process after so many seconds, then resume and compare."""
        self._disturb(tally, f"moment {after_s:.3f} s", (), after_s)

    def _disturb(self, tally: Tally, what: str, prefix: tuple[str, ...], after_s: float | None) -> None:
        self._number += 1
        repository = self._folder / str(self._number) / "kernels"
        shutil.copytree(self._before, repository)
        process = self._drive("start", repository, self._original, prefix=prefix)
        if after_s is not None:
            time.sleep(after_s)
            process.send_signal(signal.SIGKILL)
        code, problem = self._finish(process)
        if code == 0:
            tally.by_kind["ended before"] += 1
            shutil.rmtree(repository.parent)
            return
        tally.kills += 1
        tally.campaigns += 1
        tally.by_kind["the campaign" if code in (-signal.SIGKILL, 137) else f"a process of its, exit {code}"] += 1
        why = "" if "Traceback" not in problem or code != 1 else f"after the kill: {problem.strip().splitlines()[-1]}"
        campaign = _campaign_of(repository)
        again = ("resume", campaign) if campaign else ("start", repository, self._original)
        code, problem = self._finish(self._drive(*again, module="tests.soak.resumed"))
        campaign = _campaign_of(repository)
        if code != 0 or "Traceback" in problem:
            lines = problem.strip().splitlines() or ["nothing said"]
            why = f"resume: exit {code}: {lines[-1]}"
        elif campaign is None or (campaign / "ledger.jsonl").read_bytes() != self._ledger:
            why = "the ledger is another"
        if why:
            tally.failures.append(f"{what}: {why} ({repository})")
        else:
            shutil.rmtree(repository.parent)

    def _drive(
        self, *words: object, prefix: tuple[str, ...] = (), module: str = "tests.drive"
    ) -> "subprocess.Popen[str]":
        argv = (*prefix, sys.executable, "-m", module, *map(str, words))
        return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def _finish(self, process: "subprocess.Popen[str]") -> tuple[int, str]:
        _, problem = process.communicate(timeout=300)
        return process.returncode, problem


def _campaign_of(repository: Path) -> Path | None:
    found = [*(repository / "agent" / "workspace").glob("*/request.json")]
    return found[0].parent if found else None


def kill_campaigns(folder: Path, *, seconds: float, calls: range, seed: int = 7) -> Tally:
    """Kills at calls and at moments by turns, until the numbers or the seconds are used up."""
    bench, tally, draw = Bench(folder), Tally(), random.Random(seed)
    ends, numbers = time.monotonic() + seconds, [*calls]
    draw.shuffle(numbers)
    while time.monotonic() < ends and numbers:
        bench.kill_at_call(tally, numbers.pop())
        if draw.random() < 0.3:
            bench.kill_at_moment(tally, draw.uniform(0.3, 2.5))
    return tally
