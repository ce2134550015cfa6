"""The suite for a card, and one task from the command line, in some minutes: what is unexpected, and a summary.

    python tests/adversarial/gpu/quick.py [all | suite | attacks] [command] [own] [--processes 7] [--seconds 400]
                                          [--cards 0,1] [--only WORD,WORD] [--out FILE]

`suite`: all cheats and honest kernels, reading off, judged where the card is, several at a time, those first that took
longest. `attacks`: what was written against the path on a card with its code at hand. `all`: both in one run. What is
unexpected is told at once. Cases that leave others no card, and those that were not judged beside others, are judged
alone at the end. After `--seconds` everything is ended, and the last lines have the counts.
`--out`: every line of JSON, as soon as it is known. What such a file has judged at this state of the code is not judged
again, so that a suite goes on where the time was over, and a summary is of one state.
`--cards`: numbers of the cards among which the processes are shared out; default: what the environment leaves.
`command`: `ridgeline judge candidate` on a softmax task of 4096x32768 against a slower version, one minute at most.
`own`: whose work a version is, with arrays in the judge's segments and by way of the processor.
"""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from items import ROOT, case  # noqa: E402

LINE = 1200
LAST_S = 12.0
"""Before the end no case begins any more."""
ALONE_S = 40.0
"""Kept for each case that is known to need the card for itself."""
TOLD_EVERY_S = 60.0
COMMAND_S = 60
ALONE = frozenset({"attack:memory_taken"})
"""Cases that leave no other judgement a card."""
SECONDS = HERE / "results" / "quick_seconds.json"
"""What each case took once, ten beside each other: only the order hangs on it."""
USUAL_S = 50.0
CODE = ("graph", "sandbox", "tests/adversarial")
CODE_SUFFIXES = (".py", ".toml", ".yaml", ".cu", ".c")
CRASHES = ("crash:", "load:", "memory:", "timeout:", "protocol:")
"""How a refusal begins, behind the name of the call, that says nothing about numbers."""

Line = dict[str, Any]


def say(*words: Any) -> None:
    """One line, at once."""
    sys.stdout.write(" ".join(map(str, words))[:LINE] + "\n")
    sys.stdout.flush()


def describe_code() -> tuple[str, str]:
    """The commit as git names it (`unknown` without git), and a digest of all sources that a verdict hangs on."""
    digest = hashlib.sha256()
    paths = (path for folder in CODE for path in (ROOT / folder).rglob("*") if path.suffix in CODE_SUFFIXES)
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        said = subprocess.run(words, capture_output=True, text=True, check=True)
        return said.stdout.strip() or "unknown", digest.hexdigest()[:16]
    return "unknown", digest.hexdigest()[:16]


def serve_cases() -> None:
    """In a process of its own: a name for each line of standard input, a line of JSON for each name."""
    for words in sys.stdin:
        kind, _, rest = words.strip().partition(":")
        began = time.monotonic()
        try:
            answer = {"ok": True, **case(kind, rest)}
        except Exception as error:  # noqa: BLE001 (whatever it is, it is told, and the next begins)
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            answer = {"ok": False, "error": f"{type(error).__name__} at {where}: {error}"[:1200]}
        sys.stdout.write(json.dumps({"name": words.strip(), "s": round(time.monotonic() - began, 1), **answer}) + "\n")
        sys.stdout.flush()


class CaseProcess:
    """One of those that judge cases, with a process of its own that holds the card."""

    def __init__(self, argv: Sequence[str], errors: Path, card: str = "") -> None:
        self._errors = errors
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": card} if card else None
        with errors.open("wb") as file:
            self.popen = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
                env=environment,
            )

    def judge(self, name: str) -> Line:
        """One case's line; of a process that ended instead, how."""
        began = time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            self.popen.stdin.write(f"{name}\n")
            self.popen.stdin.flush()
            for text in self.popen.stdout:
                if text.startswith("{"):
                    return json.loads(text)
        code = self.popen.wait()
        tail = self._errors.read_text(errors="replace")[-400:]
        took_s = round(time.monotonic() - began, 1)
        return {"name": name, "s": took_s, "ok": False, "error": f"its process ended with {code}: {tail!r}"}

    def end(self) -> None:
        """Now; it and what it started are a process group."""
        if self.popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.popen.pid, signal.SIGKILL)

    def close(self) -> None:
        """Once it is ended, and nobody reads its answers."""
        with self.popen:
            self.end()


@dataclass
class SuiteRun:
    """Judges cases, keeps each line as it comes, and tells what is not as it must be."""

    folder: Path
    out: Path | None
    commit: str
    code: str
    task_by_case: Mapping[str, str]
    """Of one task, a process knows more at the second case."""
    argv: Sequence[str] = (sys.executable, __file__, "--serve")
    cards: Sequence[str] = ("",)
    """Numbers of the cards that processes take in turn."""
    seconds_by_case: dict[str, float] = field(default_factory=dict)
    """What each took before."""
    lines: list[Line] = field(default_factory=list)
    """One for each case: the latest."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read_judged(self, names: Sequence[str]) -> None:
        """What the file has of cases that were judged at this state of the code."""
        there = self.out.read_text().splitlines() if self.out is not None and self.out.exists() else []
        for line in map(json.loads, there):
            self.seconds_by_case.setdefault(line["name"], line["s"])
            if line["ok"] and line.get("code") == self.code and line["name"] in names:
                self.lines = [each for each in self.lines if each["name"] != line["name"]] + [line]

    def judge_cases(self, names: Sequence[str], processes: int, until: float) -> None:
        """So many at a time, until then; what is under way at that time is ended and has no line."""
        left, running = sorted(names, key=self.expect_seconds, reverse=True), dict[int, CaseProcess]()

        def serve(number: int) -> None:
            task = ""
            while time.monotonic() < until - LAST_S:
                with self._lock:
                    if not left:
                        break
                    name = self.choose_case(left, task)
                    left.remove(name)
                    if number not in running:
                        errors = self.folder / f"{len(self.lines)}-{number}.err"
                        running[number] = CaseProcess(self.argv, errors, self.cards[number % len(self.cards)])
                task = self.task_by_case.get(name, "")
                line = running[number].judge(name)
                if time.monotonic() >= until:
                    break
                self.keep(line)
                if running[number].popen.poll() is not None:
                    running.pop(number).close()

        threads = [threading.Thread(target=serve, args=(number,)) for number in range(min(processes, len(left)))]
        for thread in threads:
            thread.start()
        try:
            self._wait(threads, until)
        finally:
            with self._lock:
                left.clear()
            for process in list(running.values()):
                process.end()
            for thread in threads:
                thread.join()
            for process in running.values():
                process.close()

    def _wait(self, threads: Sequence[threading.Thread], until: float) -> None:
        told_s = began = time.monotonic()
        while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
            time.sleep(0.1)
            if time.monotonic() > told_s + TOLD_EVERY_S:
                told_s = time.monotonic()
                say(f"  after {told_s - began:.0f} s: {len(self.lines)} lines")

    def choose_case(self, left: Sequence[str], task: str) -> str:
        """The longest case that is left, or one at least three quarters as long of that task. `left`: longest first."""
        enough = 0.75 * self.expect_seconds(left[0])
        alike = (name for name in left if self.task_by_case.get(name) == task and self.expect_seconds(name) >= enough)
        return next(alike, left[0])

    def expect_seconds(self, name: str) -> float:
        """What the case took before; something in the middle of one that is new."""
        return self.seconds_by_case.get(name, USUAL_S)

    def keep(self, line: Line) -> None:
        """Note a case's line, in the file too, and tell it where it is unexpected."""
        line |= {"commit": self.commit, "code": self.code}
        with self._lock:
            self.lines = [each for each in self.lines if each["name"] != line["name"]] + [line]
            tell_unexpected(line)
            if self.out is not None:
                with self.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def list_cases(kinds: Sequence[str] = ("cheat", "honest", "attack")) -> list[Any]:
    """Of the suite for a card."""
    import suite

    listed = {"cheat": suite.cheats, "honest": suite.honest, "attack": suite.attacks}
    return [each for kind in kinds for each in listed[kind](HERE)]


def run_suite(kinds: tuple[str, ...], given: argparse.Namespace) -> None:
    """Every case once; a line for each that is not as it must be, as soon as it is known."""
    tasks = {f"{each.kind}:{each.id}": each.task for each in list_cases(kinds)}
    names = [name for name in tasks if any(word in name for word in given.only.split(","))]
    began, until = time.monotonic(), time.monotonic() + given.seconds
    commit, code = describe_code()
    commit = given.commit or commit
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        known_s, cards = json.loads(SECONDS.read_text()), given.cards.split(",")
        run = SuiteRun(Path(made), given.out, commit, code, tasks, cards=cards, seconds_by_case=known_s)
        run.read_judged(names)
        judged = {line["name"] for line in run.lines}
        left = [name for name in names if name not in judged]
        say(f"  {len(left)} of {len(names)} cases are not judged yet at {commit} ({code}), {given.processes} processes")
        alone = [name for name in left if name in ALONE]
        try:
            beside = [name for name in left if name not in ALONE]
            run.judge_cases(beside, given.processes, until - ALONE_S * len(alone))
            again = [line["name"] for line in run.lines if not line["ok"]]
            if alone or again:
                say(f"  alone, one at a time: {', '.join([*alone, *again])}")
                run.judge_cases([*alone, *again], 1, until)
        finally:
            for text in summarize(names, run.lines, time.monotonic() - began):
                say(text)


def tell_unexpected(line: Line) -> None:
    """One line for a case that was not judged as it must be."""
    if not line["ok"]:
        say(f"  {line['name']}: NOT JUDGED: {line['error']}")
    elif ended_early(line):
        say(f"  {line['name']}: ENDED BEFORE A CHECK WAS AT WORK: {line['correct'][1][-400:]!r}")
    elif line["verdict"] != "ok" or line["unlike_expected"]:
        keys = ("verdict", "unlike_expected", "correct", "faster", "own_work", "speedup", "s")
        say(f"  {line['name']}:", json.dumps({key: line[key] for key in keys}))


def find_ground(line: Line) -> str:
    """What keeps a cheat out: `wrong numbers`, `crash` or `load` (its process or build), `own work`, `not faster`, `undecided`.

    `own work` and `not faster` may both hold: the first that holds is told.
    """
    if line["correct"][0] != "yes":
        reason = (line["correct"][1:] or [""])[0].split(" ")
        return next((word[:-1] for word in reason[:14] if word in CRASHES), "wrong numbers")
    if line["own_work"][0] == "no":
        return "own work"
    return "not faster" if line["faster"][0] == "no" else "nothing" if line["accepted"] else "undecided"


def ended_early(line: Line) -> bool:
    """Whether a cheat's process or build ended by itself, so that its refusal says nothing of the judge."""
    if line["name"].startswith("honest"):
        return False
    ground = find_ground(line)
    return ground + ":" in CRASHES and not (ground == "crash" and "isolation" in line["caught_by"])


def summarize(names: Sequence[str], lines: Sequence[Line], took_s: float) -> list[str]:
    """The counts: what was judged and accepted, what kept cheats out, and what the honest ones reached."""
    judged = [line for line in lines if line["ok"]]
    cheats = [line for line in judged if not line["name"].startswith("honest")]
    honest = [line for line in judged if line["name"].startswith("honest")]
    accepted = [line["name"] for line in cheats if line["accepted"]]
    refused = [line["name"] for line in honest if line["verdict"] != "ok"]
    grounds = Counter(find_ground(line) for line in cheats if not line["accepted"])
    ended = [f"{line['name']} ({find_ground(line)})" for line in cheats if ended_early(line)]
    by_speed = [line["name"] for line in cheats if find_ground(line) in ("not faster", "undecided")]
    states = Counter(f"{line.get('commit', 'unknown')} ({line.get('code', 'unknown')})" for line in judged)
    seconds = sorted(line["s"] for line in judged) or [0.0]
    own = Counter(line["own_work"][0] for line in honest)
    return [
        f"  cheats kept out by: {', '.join(f'{ground} {count}' for ground, count in grounds.most_common())}",
        f"  cheats that ended before a check was at work: {len(ended)}: {ended}",
        f"  cheats kept out by their speed alone: {len(by_speed)}: {by_speed}",
        f"  honest, {len(honest)} judged: correct yes {sum(line['correct'][0] == 'yes' for line in honest)}, "
        f"faster yes {sum(line['faster'][0] == 'yes' for line in honest)}, "
        f"accepted {sum(line['accepted'] for line in honest)}, own work {dict(own)}",
        f"  SUMMARY {len(judged)} of {len(names)} judged ({len(cheats)} cheats, {len(ended)} of them ended before a check was "
        f"at work, {len(honest)} honest) in {took_s:.0f} s, "
        f"cheats accepted {len(accepted)}: {accepted}, honest refused {len(refused)}: {refused}, "
        f"without a verdict {[line['name'] for line in lines if not line['ok']]}, "
        f"not reached {len(set(names) - {line['name'] for line in lines})}, "
        f"paths {dict(Counter(line['path'] for line in judged))}, "
        f"seconds a case: median {seconds[len(seconds) // 2]}, longest {seconds[-1]}, "
        f"at {'one state' if len(states) == 1 else f'{len(states)} states'} of the code: {dict(states)}",
    ]


def laid_out(folder: Path) -> tuple[Path, Path]:
    """A softmax task of the large size, and a folder with a version that takes about half as long again."""
    import yaml

    home = HERE / "tasks" / "softmax"
    fields = yaml.safe_load((home / "task.yaml").read_text())
    fields["shapes"] = [{"label": "wide", "dims": {"rows": 4096, "cols": 32768}}]
    for name in ("reference_torch.py", "base_triton.py"):
        (folder / name).write_text((home / name).read_text())
    (folder / "task.yaml").write_text(yaml.safe_dump(fields, sort_keys=False))
    slow = folder / "slow"
    slow.mkdir(mode=0o755)
    text = (home / "base_triton.py").read_text()
    again = f"\n_once = {fields['entry']}\ndef {fields['entry']}(*arguments):\n    _once(*arguments)\n    _once(*arguments)\n"
    (slow / "base_triton.py").write_text(text + again)
    folder.chmod(0o755)
    return folder / "task.yaml", slow


def run_command() -> None:
    """`judge candidate` against a slower version, by the clock of a person."""
    with tempfile.TemporaryDirectory() as made:
        task_file, slow = laid_out(Path(made))
        began = time.monotonic()
        argv = [sys.executable, "-m", "ridgeline", "judge", "candidate", str(task_file), "--against", str(slow)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
        try:
            done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False)
        except subprocess.TimeoutExpired as error:
            said = " | ".join(str(error.stdout or "").split("\n"))
            say(f"  candidate, clear gain: not done in {COMMAND_S} s {said[:300]}")
            return
        said = " | ".join((done.stdout + done.stderr[-500:]).split("\n"))
        say(f"  candidate, clear gain: exit {done.returncode}, {time.monotonic() - began:.1f} s: {said[:560]}")


def run_own() -> None:
    """Both ways to ask whose work a version is, in this process."""
    from ridgeline.sandbox.judge import device_host, freeze, provenance, session, task_file
    from ridgeline.sandbox.judge.options import Options

    with tempfile.TemporaryDirectory() as made:
        path, _ = laid_out(Path(made))
        task, folder = task_file.load_task(path)
        small = task.shapes[0].model_copy(update={"dims": {"rows": 512, "cols": 1024}})
        for title, sized in (("small", task.model_copy(update={"shapes": (small,)})), ("large", task)):
            setting = device_host.DeviceSetting(sized, folder, "cuda", device_host.TaskMemory())
            words = {"candidate": None, "against": None, "environment": {}, "until": time.monotonic() + 200}
            with setting.judgment(words, folder, Options(device="cuda")) as judgment:
                began = time.monotonic()
                say(f"  {title}, segments:", judgment._own_work().answered, f"{time.monotonic() - began:.1f} s")
            if title == "large":
                continue
            with freeze.freeze_sources(sized, folder) as frozen:

                @contextlib.contextmanager
                def opened(mode: Any, sources: Path = frozen.folder, task: Any = sized) -> Any:
                    with session.CardSession(task, sources, device="cuda") as made_session:
                        made_session.mode = mode
                        yield made_session

                began = time.monotonic()
                reference = device_host.TensorReference(sized, folder, setting.reference, "cuda")
                work = provenance.judge_own_work(sized, frozen, reference, opened=opened, card=True)
                say(f"  {title}, by the processor:", work.answered, f"{time.monotonic() - began:.1f} s")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--processes", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--cards", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", default="", help="what stands in each line, where git cannot say it")
    parser.add_argument("--serve", action="store_true", help="judge the cases that standard input names")
    given = parser.parse_args()
    if given.serve:
        serve_cases()
        return
    sections = {
        "command": run_command,
        "own": run_own,
        "suite": lambda: run_suite(("cheat", "honest"), given),
        "attacks": lambda: run_suite(("attack",), given),
        "all": lambda: run_suite(("cheat", "honest", "attack"), given),
    }
    for name in given.sections or ("command", "own", "all"):
        say(f"== {name}")
        began = time.monotonic()
        try:
            sections[name]()
        except Exception:  # noqa: BLE001 (it is told, and the next begins)
            say(traceback.format_exc()[-LINE:])
        say(f"  ({time.monotonic() - began:.1f} s)")


if __name__ == "__main__":
    main()
