"""Kills of campaigns that measure for real: the judge's workers, compilers and namespaces are there when it happens.

One campaign is killed and resumed until it concludes. After each kill every closed line of the ledger must stay as it was,
and no process, shared memory or mount may be left. The campaign lies on a file system of its own, which is made full and
read-only.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from ridgeline.graph.record import RoundClosed
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.soak.kills import (
    ALL,
    JUMPS_S,
    KEPT,
    KILL_AFTER,
    KILL_BEFORE,
    ROOT,
    SECONDS,
    THE_CAMPAIGN,
    THIS_PROCESS,
    Session,
    Tally,
    _find_strangers,
    _kill_session,
    _wait_for_ends,
)
from tests.soak.recorded import campaign_environment, campaign_words, lay_out

TRACED = "rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,fsync,fdatasync"
PATIENCE_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0, 90.0)
"""How long a session runs before something happens to it; a step of the judge takes some of these."""
WAYS = ("main", "main", "all", "call", "call", "call", "strace", "strace", "disk full", "read-only", "clock jump")
SIZE = "512m"
MOST_SESSIONS = 150


class Live:
    """One campaign of a task, killed again and again."""

    def __init__(self, session: Session, task: str, folder: Path, draw: Random, tally: Tally) -> None:
        """`folder`: a file system of its own is mounted on it, where that is permitted."""
        self._session, self._task, self._draw, self._tally = session, task, draw, tally
        self._place = folder / "place"
        self._own_disk = _mount(folder, f"size={SIZE}")
        self._disk = folder
        self._repository = lay_out(task, self._place / "kernels")
        self._environment = campaign_environment(self._place)
        self._before = b""
        self._mounts = Path("/proc/self/mountinfo").read_text()

    def kill_until_concluded(self, wanted: Callable[[], bool]) -> bool:
        """Whether it came to its end; `wanted`: whether more kills are."""
        for _ in range(MOST_SESSIONS):
            disturbed = wanted()
            way = self._draw.choice(WAYS) if disturbed else "none"
            if way in ("disk full", "read-only") and not (self._own_disk and self._campaign()):
                way = "main"
            began = time.monotonic()
            code, said = self._run_session(way)
            print(f"  {way}: exit {code} after {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
            if why := self._check(code, said, way):
                self._fail(f"{way}: {why}")
                return False
            if code == 0:
                return self._check_end(said)
        self._fail("does not come to an end")
        return False

    def _run_session(self, way: str) -> tuple[int, str]:
        """One session, and what happens to it."""
        campaign = self._campaign()
        words = ("resume", str(campaign)) if campaign else campaign_words(self._repository, 4)
        prefix: tuple[str, ...] = ()
        if way == "strace":
            kill = self._draw.choice(("KILL", "VTALRM"))  # the second one strikes when the call has been made
            number = self._draw.choice((3, 10, 30, 60, 90, 120, 200))
            prefix = ("strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={TRACED}")
            prefix += ("-e", f"inject={TRACED}:signal={kill}:when={number}")
        control = self._session.control
        control.count = control.at = control.then = control.jump_s = control.done = control.logging = 0
        control.place, control.root = os.fsencode(f"{self._place}/"), 0
        if way == "read-only":
            subprocess.run(("mount", "-o", "remount,ro", self._disk), check=True)
        said = self._place.parent.parent / "said-live"
        with said.open("wb") as out:
            process = subprocess.Popen(
                (*prefix, sys.executable, "-m", "ridgeline.agent", *words),
                cwd=ROOT, env=self._environment, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
            if not prefix:
                control.root = process.pid
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self._draw.choice(PATIENCE_S) if way != "none" else SECONDS * 10)
            self._strike(way, process)
        code = process.returncode
        control.place, control.at, control.jump_s = b"", 0, 0
        if way == "read-only":
            subprocess.run(("mount", "-o", "remount,rw", self._disk), check=True)
        with contextlib.suppress(FileNotFoundError):
            (self._disk / "filler").unlink()
        return code, said.read_text(errors="replace")

    def _strike(self, way: str, process: "subprocess.Popen[bytes]") -> None:
        """What happens to a session that runs; then it has ended."""
        control = self._session.control
        if process.returncode is not None:
            self._tally.kills[f"live, {way}"] += way in ("strace", "read-only")
            return
        patience_s = float(SECONDS)
        if way == "call":
            control.what = self._draw.choice((KILL_BEFORE, KILL_AFTER))
            control.scope = self._draw.choice((ALL, THIS_PROCESS, THE_CAMPAIGN))
            control.at = control.count + self._draw.choice((1, 1, 2, 5, 20, 50))
        elif way == "clock jump":
            control.jump_s = self._draw.choice(JUMPS_S)
            patience_s = self._draw.uniform(1, 20)
        elif way == "disk full":
            with contextlib.suppress(OSError), (self._disk / "filler").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
        with contextlib.suppress(subprocess.TimeoutExpired):
            if way not in ("main", "all"):
                process.wait(patience_s)
        if process.returncode is None:
            if way == "all":
                _kill_session(self._place)
            process.send_signal(signal.SIGKILL)
            process.wait()
        self._tally.kills[f"live, {way}"] += 1
        self._tally.by_task[self._task] += 1

    def _check(self, code: int, said: str, way: str) -> str:
        """What is wrong after a session; empty for nothing."""
        if "Traceback" in said:
            return f"traceback: {said.strip().splitlines()[-1]}"
        if code not in (0, 2, 3, 4, 5, 137, -signal.SIGKILL, -signal.SIGVTALRM, 128 + signal.SIGVTALRM):
            return f"exit {code}: {(said.strip().splitlines() or ['nothing said'])[-1]}"
        if code in (2, 3, 4, 5) and way in ("none", "main", "all", "clock jump"):
            return f"exit {code}: {(said.strip().splitlines() or ['nothing said'])[-1]}"
        if left := _wait_for_ends(self._place, 20.0):
            names = [
                Path(f"/proc/{number}/cmdline").read_bytes()[:80] for number in left if Path(f"/proc/{number}").exists()
            ]
            return f"processes left after 20 s: {names}"
        if Path("/proc/self/mountinfo").read_text() != self._mounts and way not in ("read-only",):
            return "mounts left"
        if strange := _find_strangers(self._place):
            return strange
        campaign = self._campaign()
        ledger = (campaign / "ledger.jsonl").read_bytes() if campaign and (campaign / "ledger.jsonl").exists() else b""
        whole = ledger[: ledger.rfind(b"\n") + 1]
        if not whole.startswith(self._before):
            return "a closed line of the ledger is lost or another"
        self._before = whole
        return ""

    def _check_end(self, said: str) -> bool:
        """Whether a campaign that concluded holds every round once, and is whole."""
        campaign = self._campaign()
        assert campaign is not None
        rounds = [
            line.body.round
            for line in JsonlLedger(campaign / "ledger.jsonl").lines()
            if isinstance(line.body, RoundClosed)
        ]
        if len(rounds) != len({*rounds}) or sorted(rounds) != [*range(min(rounds), max(rounds) + 1)]:
            self._fail(f"rounds {rounds}")
            return False
        for words in ("status", "fsck"):
            done = subprocess.run(
                (sys.executable, "-m", "ridgeline.agent", words, campaign),
                cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                self._fail(f"{words}: exit {done.returncode}: {done.stdout[-200:]} {done.stderr[-200:]}")
                return False
        print(f"{self._task}: concluded with rounds {rounds}", flush=True)  # noqa: T201
        return True

    def _campaign(self) -> Path | None:
        found = [*(self._repository / "agent" / "workspace").glob("*/request.json")]
        return found[0].parent if found else None

    def _fail(self, why: str) -> None:
        kept = KEPT / f"failed-live-{self._task}-{len(self._tally.failures)}"
        shutil.rmtree(kept, ignore_errors=True)
        with contextlib.suppress(OSError, shutil.Error):
            shutil.copytree(self._place, kept, symlinks=True)
            shutil.copy(self._place.parent.parent / "said-live", kept / "said")
        self._tally.failures.append(f"live {self._task}: {why} ({kept})")
        print(self._tally.failures[-1], flush=True)  # noqa: T201

    def close(self) -> None:
        """Give the file system back."""
        _kill_session(self._place)
        if self._own_disk:
            subprocess.run(("umount", "-l", self._disk), check=False)
        else:
            shutil.rmtree(self._place, ignore_errors=True)


def _mount(folder: Path, options: str) -> bool:
    """Whether a file system in memory could be put there; only in a mount namespace of this bench's own."""
    folder.mkdir(parents=True)
    if os.getpid() != 1:
        return False
    return subprocess.run(("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder), check=False).returncode == 0


def kill_live(folder: Path, *, kills: int, tasks: tuple[str, ...], seed: int = 7) -> Tally:
    """About so many kills, shared between the tasks; each campaign then runs to its end undisturbed. `folder`: empty."""
    session, tally = Session(folder), Tally()
    for number, task in enumerate(tasks):
        share = kills * (number + 1) // len(tasks)
        live = Live(session, task, folder / f"disk-{task}", Random(f"{seed} {task}"), tally)
        try:
            began = time.monotonic()
            live.kill_until_concluded(lambda share=share: tally.kills.total() < share)
            print(f"{task}: {tally.by_task[task]} kills in {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
        finally:
            live.close()
    return tally
