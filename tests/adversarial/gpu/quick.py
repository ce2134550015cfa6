"""The suite for a card once, and one task from the command line, in some minutes: what is unexpected, and a summary.

    python tests/adversarial/gpu/quick.py [suite] [attacks] [command] [own] [--processes 7] [--seconds 400] [--only WORD]
                                          [--out FILE]

`suite`: all cases, reading off, judged where the card is, shared out among some processes that each keep theirs. What
is unexpected is told at once; after `--seconds` everything is ended, and the last line has the counts.
`attacks`: the same for what was written against the path on a card with its code at hand. `--out`: every line of JSON;
what such a file has judged already is not judged again, so that a suite goes on where the time was over.
`command`: `ridgeline judge candidate` on a softmax task of 4096x32768 against a slower version, one minute at most.
`own`: whose work a version is, with arrays in the judge's segments and by way of the processor.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from items import ROOT, case  # noqa: E402

LINE = 700
LAST_S = 12.0
"""Before the end no case begins any more."""
TOLD_EVERY_S = 60.0
COMMAND_S = 60


def say(*words: Any) -> None:
    """One line, at once."""
    sys.stdout.write(" ".join(map(str, words))[:LINE] + "\n")
    sys.stdout.flush()


def judge_cases(names: list[str], until: float) -> None:
    """In this process: one line of JSON for each case."""
    for name in names:
        kind, _, rest = name.partition(":")
        began = time.monotonic()
        if began > until - LAST_S:
            break
        try:
            found = {"ok": True, **case(kind, rest)}
        except Exception as error:  # noqa: BLE001 (whatever it is, it is told, and the next begins)
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            found = {"ok": False, "error": f"{type(error).__name__} at {where}: {error}"[:500]}
        sys.stdout.write(json.dumps({"name": name, "s": round(time.monotonic() - began, 1), **found}) + "\n")
        sys.stdout.flush()


class CaseProcess:
    """One of those that judge cases. What it writes is read while it runs."""

    def __init__(self, names: list[str], until: float, folder: Path, number: int) -> None:
        self.number, self._errors = number, folder / f"{number}.err"
        self._out, self._at = folder / str(number), 0
        argv = [sys.executable, __file__, "--cases", ",".join(names), "--until", str(until)]
        with self._out.open("wb") as file, self._errors.open("wb") as errors:
            self.popen = subprocess.Popen(argv, stdout=file, stderr=errors, start_new_session=True)

    def read_lines(self) -> list[dict[str, Any]]:
        """Those that were finished since the last look."""
        with self._out.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return [json.loads(line) for line in whole.splitlines() if line.startswith(b"{")]

    def end(self) -> None:
        """Now; it and what it started are a process group."""
        if self.popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()
        elif self.popen.returncode:
            tail = self._errors.read_text(errors="replace")[-400:]
            say(f"  process {self.number} ended with {self.popen.returncode}: {tail!r}")


def run_suite(kinds: tuple[str, ...], processes: int, seconds: float, only: str, out: Path | None) -> None:
    """Every case, in an order that chance decides; a line for each that is not as it must be, as soon as it is known."""
    import suite

    listed = {"cheat": suite.cheats, "honest": suite.honest, "attack": suite.attacks}
    names = [f"{kind}:{each.id}" for kind in kinds for each in listed[kind](HERE)]
    names = [name for name in names if only in name]
    random.shuffle(names)  # where the time is short, what was judged is a sample
    began, until = time.monotonic(), time.monotonic() + seconds
    earlier = [line for line in read_judged(out) if line["name"] in names]
    left = [name for name in names if name not in {line["name"] for line in earlier}]
    say(f"  {len(left)} of {len(names)} cases are not judged yet, {processes} processes, {seconds:.0f} s")
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        shares = [share for number in range(processes) if (share := left[number::processes])]
        running = [CaseProcess(share, until, Path(made), number) for number, share in enumerate(shares)]
        try:
            told_s = began
            while time.monotonic() < until:
                time.sleep(0.5)
                is_over = all(process.popen.poll() is not None for process in running)
                for line in (line for process in running for line in process.read_lines()):
                    lines.append(line)
                    tell_unexpected(line)
                if time.monotonic() > told_s + TOLD_EVERY_S:
                    told_s = time.monotonic()
                    say(f"  after {told_s - began:.0f} s: {len(lines)} of {len(left)}")
                if is_over:
                    break
        finally:
            for process in running:
                process.end()
            for line in (line for process in running for line in process.read_lines()):
                lines.append(line)
                tell_unexpected(line)
            summarize(names, [*earlier, *lines], time.monotonic() - began)
            if out is not None:
                with out.open("a") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines)


def read_judged(out: Path | None) -> list[dict[str, Any]]:
    """What the file has of cases that were judged."""
    lines = out.read_text().splitlines() if out is not None and out.exists() else []
    return [line for line in map(json.loads, lines) if line["ok"]]


def tell_unexpected(line: dict[str, Any]) -> None:
    """One line for a case that was not judged as it must be."""
    if not line["ok"]:
        say(f"  {line['name']}: NOT JUDGED: {line['error']}")
    elif line["verdict"] != "ok" or line["unlike_expected"]:
        keys = ("verdict", "unlike_expected", "correct", "faster", "own_work", "speedup", "s")
        say(f"  {line['name']}:", json.dumps({key: line[key] for key in keys}))


def summarize(names: list[str], lines: list[dict[str, Any]], took_s: float) -> None:
    """The counts, in one line."""
    judged = [line for line in lines if line["ok"]]
    paths = {path: sum(line["path"] == path for line in judged) for path in {line["path"] for line in judged}}
    accepted = [line["name"] for line in judged if not line["name"].startswith("honest") and line["accepted"]]
    refused = [line["name"] for line in judged if line["name"].startswith("honest") and line["verdict"] != "ok"]
    seconds = sorted(line["s"] for line in judged) or [0.0]
    say(
        f"  SUMMARY {len(judged)} of {len(names)} judged in {took_s:.0f} s,",
        f"{sum(not line['name'].startswith('honest') for line in judged)} cheats, not judged {len(lines) - len(judged)},",
        f"not reached {len(set(names) - {line['name'] for line in lines})}, paths {paths},",
        f"cheats accepted {len(accepted)}: {accepted}, honest refused {len(refused)}: {refused},",
        f"seconds a case: median {seconds[len(seconds) // 2]}, longest {seconds[-1]}",
    )


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
                work = provenance.judge_own_work(sized, frozen, reference, opened=opened)
                say(f"  {title}, by the processor:", work.answered, f"{time.monotonic() - began:.1f} s")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--processes", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cases")
    parser.add_argument("--until", type=float)
    given = parser.parse_args()
    if given.cases:
        judge_cases(given.cases.split(","), given.until)
        return
    sections = {
        "command": run_command,
        "own": run_own,
        "suite": lambda: run_suite(("cheat", "honest"), given.processes, given.seconds, given.only, given.out),
        "attacks": lambda: run_suite(("attack",), given.processes, given.seconds, given.only, given.out),
    }
    for name in given.sections or sections:
        say(f"== {name}")
        began = time.monotonic()
        try:
            sections[name]()
        except Exception:  # noqa: BLE001 (it is told, and the next begins)
            say(traceback.format_exc()[-LINE:])
        say(f"  ({time.monotonic() - began:.1f} s)")


if __name__ == "__main__":
    main()
