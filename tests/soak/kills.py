"""Kills of whole campaigns of every shipped task for a processor; each is resumed, and must end as if nothing had been.

A campaign is recorded once, with the judge and the compiler. Then it is played on its own answers, again and again: git,
ledger, checkpoints and every file are real, and each time something happens at one of its calls that change a file or a
folder (`tests/soak/calls.c` counts them in the campaign and its git). `tests/soak/live.py` kills while the judge measures.
"""

import atexit
import contextlib
import ctypes
import hashlib
import mmap
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ridgeline.agent.campaign.progress import SilentProgress
from ridgeline.agent.campaign.runner import StartRequest, read_campaign, start
from ridgeline.agent.cli.application import run
from ridgeline.agent.console import complain
from ridgeline.agent.contract_file import load
from ridgeline.agent.errors import UserError, Waiting
from ridgeline.graph.errors import CampaignError, WorldError
from ridgeline.sandbox.isolation.leftovers import GIT_PARTS, TEMPORARY, TWIN
from ridgeline.sandbox.store.durable import UNWRITABLE, name_full_disk
from tests.soak.recorded import Recorded, record

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".soak"
"""Failing inputs, recorded campaigns, and what campaigns that were not resumed look like."""
SOURCE = Path(__file__).with_name("calls.c")
NOTHING, KILL_BEFORE, KILL_AFTER, TEAR, FAIL, JUMP = range(6)
ALL, THIS_PROCESS, THE_CAMPAIGN = range(3)
"""Who is killed: the campaign with the process that made the call, that process alone, or the campaign alone."""
SCOPES = {ALL: "all", THIS_PROCESS: "the caller", THE_CAMPAIGN: "the campaign"}
OWN = "soak-"
"""How the bench's own folder in the memory file system is called."""
SECONDS = 240
"""Of one session, on a machine that is shared."""
ERRORS = {"disk full": (28, 122, 5), "read-only": (30,)}
"""ENOSPC, EDQUOT and EIO; EROFS."""
JUMPS_S = (86_400, -86_400, 3_600, -3_600, 400 * 86_400, -30)
VOLATILE = re.compile(
    r"status\.json|sessions\.json|checkpoints\.sqlite.*|running\.lock|mirror\.git/.*|trees(/.*)?|request\.json|\.lock"
)
"""Files of a campaign that are not the same after two undisturbed ones, or show only how it ended."""

TORN = ("ledger.jsonl.torn", "tape.jsonl.torn")
"""Halves of lines that a kill left: set aside, and told."""


class Control(ctypes.Structure):
    """What `calls.c` does, and at which call; in memory that all processes of the campaign share."""

    _fields_ = [
        ("count", ctypes.c_int64),
        ("at", ctypes.c_int64),
        ("then", ctypes.c_int64),
        ("jump_s", ctypes.c_int64),
        ("what", ctypes.c_int32),
        ("scope", ctypes.c_int32),
        ("code", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("done", ctypes.c_int32),
        ("logging", ctypes.c_int32),
        ("place", ctypes.c_char * 400),
        ("log", ctypes.c_char * 400),
        ("where", ctypes.c_char * 700),
    ]


def map_control(file: Path) -> Control:
    """What preloaded processes are told to do, and how many calls they have made."""
    with file.open("r+b") as opened:
        return Control.from_buffer(mmap.mmap(opened.fileno(), ctypes.sizeof(Control)))


@dataclass(frozen=True, kw_only=True)
class Disturbance:
    """One thing that happens to a campaign."""

    kind: str
    """`call`, `moment`, `disk full`, `read-only` or `clock jump`."""
    at: int = 0
    what: int = NOTHING
    scope: int = ALL
    code: int = 0
    jump_s: int = 0
    then: int = 0
    after_s: float = 0.0

    def describe(self) -> str:
        """In a few words."""
        words = {KILL_BEFORE: "before", KILL_AFTER: "after", TEAR: "in the middle of", FAIL: "failing from"}
        if self.kind == "moment":
            return f"moment {self.after_s:.2f} s, {SCOPES[self.scope]}"
        more = f", errno {self.code}" if self.code else f", {self.jump_s:+d} s" if self.jump_s else ""
        return f"{self.kind} {words.get(self.what, 'at')} {self.at}{more}, {SCOPES[self.scope]}"


@dataclass
class Tally:
    """What a series of disturbances came to."""

    kills: Counter[str] = field(default_factory=Counter)
    """By kind; those that met a campaign which had not ended."""
    by_task: Counter[str] = field(default_factory=Counter)
    sites: Counter[str] = field(default_factory=Counter)
    """Where kills struck: program, call and path without what is random in it."""
    failures: list[str] = field(default_factory=list)


def name_site(program: str, call: str, path: str) -> str:
    """Program, call and path; hexadecimal names, numbers and random parts are all the same."""
    short = re.sub(r"^kernels/agent/workspace/[^/]+", "CAMPAIGN", path)
    short = re.sub(r"\.[^/]+\.[0-9a-f]{8}\.tmp", ".NAME.tmp", short)
    short = re.sub(r"mirror\.git\.new/t\w{6}$", "mirror.git.new/tX", short)
    short = re.sub(r"(tmp_(?:obj|pack|idx)_)\w+", r"\1X", short)
    short = re.sub(r"ridgeline-(?:[a-z]+-)?[a-z0-9_]{8}", "ridgeline-X", short)
    short = re.sub(r"\b[0-9a-f]{38,64}\b", "H", short)
    short = re.sub(r"/[0-9a-f]{2}(?=/|$)", "/hh", short)
    short = re.sub(r"\d+", "N", short)
    return f"{re.sub('[0-9].*', '', program)} {re.sub('64|at2?$', '', call)} {short or '.'}"


class Session:
    """Commands of Ridgeline in copies of this process, which is preloaded and has imported everything."""

    def __init__(self, folder: Path) -> None:
        """`folder`: for the control file, what commands print, and git behind which the library is preloaded."""
        self.control = map_control(Path(os.environ["SOAK_CONTROL"]))
        self._said = folder / "said"

    def play(
        self, place: Path, command: Callable[[], int], disturbance: Disturbance, *, log: Path | None = None
    ) -> tuple[int, str]:
        """Exit code and what was printed. `place`: the folder below which calls count."""
        control = self.control
        ctypes.memset(ctypes.byref(control), 0, ctypes.sizeof(control))
        control.at, control.what, control.scope = disturbance.at, disturbance.what, disturbance.scope
        control.code, control.jump_s, control.then = disturbance.code, disturbance.jump_s, disturbance.then
        control.log, control.logging = os.fsencode(log or ""), int(log is not None)
        child = os.fork()
        if not child:
            code = 98
            try:
                code = self._carry_out(place, command)
            except BaseException:  # noqa: BLE001 (this copy must not go on as the bench)
                traceback.print_exc()
            finally:
                os._exit(code)
        ends = time.monotonic() + (disturbance.after_s or SECONDS)
        code = None
        while code is None and time.monotonic() < ends:
            ended, status = os.waitpid(child, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if ended else None
            time.sleep(0.005)
        if code is None:
            if disturbance.scope == ALL:
                _kill_session(place)
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status) if disturbance.after_s else 99
        control.place, control.jump_s, control.then, control.at = b"", 0, 0, 0
        return code, self._said.read_text(errors="replace")

    def _carry_out(self, place: Path, command: Callable[[], int]) -> int:
        """In the copy: its exit code."""
        os.setsid()
        with self._said.open("wb") as said:
            for number in (1, 2):
                os.dup2(said.fileno(), number)
        os.environ.update(TMPDIR=str(place / "tmp"), XDG_RUNTIME_DIR=str(place / "run"), HOME=str(place / "home"))
        tempfile.tempdir = None
        self.control.root, self.control.place = os.getpid(), os.fsencode(f"{place}/")
        try:
            code = command()
        except (UserError, Waiting, CampaignError, WorldError) as error:
            complain(str(error))
            code = error.exit_code
        except OSError as error:  # as the command line tells it
            if error.errno in UNWRITABLE:
                complain(str(name_full_disk(Path(error.filename or "."), error.errno)))
                code = 2
            else:
                traceback.print_exc()
                code = 1
        except BaseException:  # noqa: BLE001 (what a user would see)
            traceback.print_exc()
            code = 1
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
            atexit._run_exitfuncs()
        return code


def _kill_session(place: Path) -> None:
    for process in list_processes(place):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def list_processes(place: Path) -> list[int]:
    """Processes other than this one: in a namespace of its own, all of them; else those that were told of that folder or work in it."""
    found, needle = [], os.fsencode(f"{place}/")
    alone = os.getpid() == 1
    for entry in (path.name for path in Path("/proc").iterdir()):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{entry}/environ").read_bytes()
            folder = os.fsencode(Path(f"/proc/{entry}/cwd").readlink()) + b"/"
            state = Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            if state == "Z" and alone:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(int(entry), os.WNOHANG)  # an orphan of the campaign, and this is its init
            elif state != "Z" and (alone or needle in environment or folder.startswith(needle)):
                found.append(int(entry))
    return found


class Bench:
    """One recorded campaign, played again and again in the same place, each time disturbed elsewhere."""

    def __init__(self, session: Session, recorded: Recorded, folder: Path) -> None:
        """`folder`: empty; the campaign is played below it."""
        self._session, self.recorded, self._folder = session, recorded, folder
        self._place = folder / "place"
        self.log = folder / "calls.tsv"
        self._lay_out()
        code, said = session.play(self._place, self._start, Disturbance(kind="none"), log=self.log)
        assert code == 0, said
        self.calls = session.control.count
        self.lines = [line.split("\t") for line in self.log.read_text(errors="replace").splitlines()]
        self.seconds = 0.0
        began = time.monotonic()
        self._lay_out()
        session.play(self._place, self._start, Disturbance(kind="none"))
        self.seconds = time.monotonic() - began
        self.whole = self._read_campaign()
        assert self.whole["ledger.jsonl"] == hashlib.sha256(recorded.ledger).hexdigest(), "plays another ledger"

    def sites(self) -> dict[str, list[int]]:
        """Numbers of the calls of each site, in one undisturbed campaign."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, program, call, path in self.lines:
            numbers[name_site(program, call, path.removeprefix(f"{self._place}/"))].append(int(number))
        return numbers

    def disturb(self, tally: Tally, disturbance: Disturbance) -> bool:
        """Play the campaign with that, resume it, and compare; whether it was met before it ended."""
        self._lay_out()
        code, said = self._session.play(self._place, self._start, disturbance)
        struck = bool(self._session.control.done) if disturbance.after_s == 0 else code != 0
        if not struck:
            return False
        where = self._session.control.where.decode(errors="replace").split("\t")
        tally.kills[disturbance.kind] += 1
        tally.by_task[self.recorded.task] += 1
        if len(where) == 3:
            tally.sites[name_site(where[0], where[1], where[2].removeprefix(f"{self._place}/"))] += 1
        why = self._find_fault(code, said, disturbance) or self._resume(said)
        if why:
            kept = KEPT / f"failed-{self.recorded.task}-{len(tally.failures)}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(self._place, kept, symlinks=True)
            tally.failures.append(f"{self.recorded.task}: {disturbance.describe()} [{' '.join(where)}]: {why} ({kept})")
            print(tally.failures[-1], flush=True)  # noqa: T201
        return True

    def _find_fault(self, code: int, said: str, disturbance: Disturbance) -> str:
        """What is wrong with how the disturbed session ended; empty for nothing."""
        if "Traceback" in said:
            return f"traceback: {said.strip().splitlines()[-1]}"
        if code == 99:
            return "hangs"
        if disturbance.kind in ERRORS and code == 0 and disturbance.at < 0.8 * self.calls:
            return (
                "" if self._read_campaign().get("ledger.jsonl") == self.whole["ledger.jsonl"] else "exit 0, not whole"
            )
        return ""

    def _resume(self, said_before: str) -> str:
        """Resume and compare; what is wrong, empty for nothing. `said_before`: what the disturbed session printed."""
        _wait_for_ends(self._place)
        campaign = self._find_campaign()
        # some minutes later, by the clock: what was left half written is old enough to be removed
        later = Disturbance(kind="none", jump_s=180)
        command = (lambda: run(["resume", str(campaign)])) if campaign else self._start
        if campaign is None:
            shutil.rmtree(self._place / "kernels" / "agent", ignore_errors=True)
        code, said = self._session.play(self._place, command, later)
        if code != 0 or "Traceback" in said:
            return f"resume: exit {code}: {(said.strip().splitlines() or ['nothing said'])[-1]}"
        return self._compare(said_before + said)

    def _compare(self, said: str) -> str:
        present = self._read_campaign()
        untold = [name for name in TORN if present.pop(name, None) and f"moved to {name}" not in said]
        if untold:
            return f"a torn line was set aside without a word: {untold}"
        if changed := sorted(name for name in {*present, *self.whole} if present.get(name) != self.whole.get(name)):
            return f"other files than undisturbed: {', '.join(changed[:5])}"
        campaign = self._find_campaign()
        for words in (["status", str(campaign)], ["fsck", str(campaign)]):
            code, said = self._session.play(self._place, lambda words=words: run(words), Disturbance(kind="none"))
            if code != 0 or "Traceback" in said:
                return f"{words[0]}: exit {code}: {(said.strip().splitlines() or ['nothing said'])[-1]}"
        if unfinished := [
            str(path) for path in campaign.rglob("*") if TWIN.fullmatch(path.name) or GIT_PARTS.fullmatch(path.name)
        ]:
            return f"unfinished files: {', '.join(unfinished[:3])}"
        if locks := [str(path) for path in (self._place / "kernels").rglob("*.lock") if _is_git_lock(path)]:
            return f"locks of git: {', '.join(locks)}"
        if problem := self._ask_git("status", "--porcelain", "--untracked-files=all", "--", ".", ":!agent"):
            return f"the user's checkout: {problem}"
        if self._ask_git("rev-parse", self.recorded.branch) != self.recorded.tip:
            return "the branch is elsewhere"
        if processes := _wait_for_ends(self._place):
            return f"processes left: {processes}"
        return _find_strangers(self._place)

    def _ask_git(self, *words: str) -> str:
        return subprocess.run(
            ("git", "-C", self._place / "kernels", *words), capture_output=True, text=True, check=False
        ).stdout.strip()

    def _lay_out(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
        for name in ("tmp", "run", "home"):
            (self._place / name).mkdir(parents=True, mode=0o700)
        shutil.copytree(self.recorded.before, self._place / "kernels", symlinks=True)

    def _start(self) -> int:
        origin = read_campaign(self.recorded.campaign)
        request = StartRequest(
            contract=load(self._place / "kernels"),
            instruction=origin.request.instruction,
            limits=origin.request.limits,
            planner=origin.request.planner,
            progress=SilentProgress(),
        )
        start(request, recording=self.recorded.campaign)
        return 0

    def _find_campaign(self) -> Path | None:
        found = [*(self._place / "kernels" / "agent" / "workspace").glob("*/request.json")]
        return found[0].parent if found else None

    def _read_campaign(self) -> dict[str, str]:
        """sha256 of every file that must be the same, by name; a ledger's place, too."""
        campaign = self._find_campaign()
        if campaign is None:
            return {}
        files = {str(path.relative_to(campaign)): path for path in campaign.rglob("*") if path.is_file()}
        return {
            name: hashlib.sha256(path.read_bytes()).hexdigest()
            for name, path in files.items()
            if not VOLATILE.fullmatch(name)
        }


def _is_git_lock(path: Path) -> bool:
    return ".git" in str(path.parent) and path.name != "running.lock"


def _wait_for_ends(place: Path, most_s: float = 5.0) -> list[int]:
    """Processes that are left after so long."""
    ends = time.monotonic() + most_s
    while (left := list_processes(place)) and time.monotonic() < ends:
        time.sleep(0.02)
    return left


def _find_strangers(place: Path) -> str:
    """Files in the temporary folder, or of shared memory, that `resume` and `doctor` will not remove when they are old."""
    for entry in [*(place / "tmp").iterdir()]:
        if entry.is_file() and b"blat".startswith(entry.read_bytes()):
            continue  # with which Python's `tempfile` finds out where it may write
        if not (TEMPORARY.fullmatch(entry.name) and stat.S_ISDIR(entry.lstat().st_mode)):
            return f"left behind: {entry.name}"
    if os.getpid() != 1:  # others use this machine, too
        return ""
    strange = [path.name for path in Path("/dev/shm").iterdir() if not path.name.startswith(OWN)]
    segments = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return f"shared memory: {strange} {segments}" if strange or segments else ""


def choose(bench: Bench, draw: Random) -> Iterator[Disturbance]:
    """Disturbances without end: every site before and after, and the other kinds between them."""
    sites = bench.sites()
    order = sorted(sites)
    draw.shuffle(order)
    ways = [(KILL_BEFORE, ALL), (KILL_AFTER, ALL), (KILL_BEFORE, THIS_PROCESS), (KILL_AFTER, THE_CAMPAIGN)]
    turn = 0
    while True:
        for site in order:
            what, scope = ways[turn % len(ways)]
            if " write " in site and draw.random() < 0.5:
                what = TEAR
            yield Disturbance(kind="call", at=draw.choice(sites[site]), what=what, scope=scope)
            turn += 1
            anywhere = draw.randrange(1, bench.calls)
            match turn % 8:
                case 2:
                    yield Disturbance(
                        kind="moment", after_s=draw.uniform(0.02, bench.seconds), scope=draw.choice((0, 2))
                    )
                case 4:
                    yield Disturbance(kind="disk full", at=anywhere, what=FAIL, code=draw.choice(ERRORS["disk full"]))
                case 6:
                    yield Disturbance(kind="read-only", at=anywhere, what=FAIL, code=30)
                case 0:
                    later = draw.randrange(anywhere, bench.calls)
                    jump_s = draw.choice(JUMPS_S)
                    yield Disturbance(kind="clock jump", at=anywhere, what=JUMP, jump_s=jump_s, then=later + 1)


def kill_campaigns(folder: Path, *, kills: int, tasks: tuple[str, ...], seed: int = 7) -> Tally:
    """So many kills, the same number for each task. `folder`: empty."""
    session, tally = Session(folder), Tally()
    recorded = [record(task, KEPT / "recorded") for task in tasks]
    for number, task in enumerate(tasks):
        bench = Bench(session, recorded[number], folder / task)
        disturbances = choose(bench, Random(f"{seed} {task}"))
        wanted = kills * (number + 1) // len(tasks)
        while tally.kills.total() < wanted:
            bench.disturb(tally, next(disturbances))
            if tally.kills.total() % 10 == 0:
                kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(tally.kills.items()))
                print(f"{tally.kills.total()} ({kinds}), {len(tally.failures)} failed", flush=True)  # noqa: T201
        shutil.rmtree(folder / task)
        print(f"{task}: {bench.calls} calls at {len(bench.sites())} places; {tally.by_task[task]} kills", flush=True)  # noqa: T201
    return tally


def begin_preloaded(folder: Path) -> None:
    """Become this program again with `calls.c` preloaded, once. Needs a C compiler."""
    if "SOAK_CONTROL" in os.environ:
        return
    environment = {**os.environ, **make_preloaded(folder)}
    words = (sys.executable, "-m", "tests.soak", *sys.argv[1:])
    alone = ("unshare", "--mount", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run((*alone, "true"), check=False, capture_output=True).returncode == 0:
        words = (*alone, "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh", *words)
    os.execvpe(words[0], words, environment)


def make_preloaded(folder: Path) -> dict[str, str]:
    """Variables with which a program, and each git that it starts, has `calls.c` preloaded. Needs a C compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    library, control, tools = folder / "calls.so", folder / "control", folder / "bin"
    subprocess.run(("cc", "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"), check=True)
    control.write_bytes(bytes(ctypes.sizeof(Control)))
    tools.mkdir(exist_ok=True)
    git = tools / "git"  # what Ridgeline starts is told nothing of this process's variables
    told = f"LD_PRELOAD={library} SOAK_CONTROL={control}"
    git.write_text(f'#!/bin/sh\n{told} exec {shutil.which("git")} "$@"\n')
    git.chmod(0o755)
    return {"SOAK_CONTROL": str(control), "LD_PRELOAD": str(library), "PATH": f"{tools}:{os.environ['PATH']}"}
