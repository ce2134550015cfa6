"""Everything worth asking a real card, in one call: `python tests/adversarial/gpu/run.py OUT [--seconds 470]`.

Each item is a process of its own with a limit of time, so that none takes others with it. Results go to OUT/all.json
and OUT/lines.txt; a line for each item is printed as it ends. Items: `probe` (does a worker reach the card, and how is
it shut in), `cost`, `time:TASK` (identical versions, a plain timer, the judge's clock), then cheats and honest kernels,
several at a time, which disturb each other's times and nothing else. `--only WORD`: of those, the ones with it in their
name. `--skip FILE`: those that an earlier run has not finished. `--played`: the processor plays a card, with small
sizes, to try this program itself.

`--times 5` asks about cases alone, five times with reading off and five times with it on, spread over `--cards`; what
was answered is counted in OUT/repeated.json, and goes on from that of an earlier run given with `--from`.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from items import HERE, PLAYED, case, choose, cost, probe, time_task  # noqa: E402
from repeat import Repeated  # noqa: E402

TASKS = ("softmax", "gemm_f32", "tiny_silu", "gemm_bf16", "attention")
MODES = ("best", "weak", "bare")
"""How workers are started: as the product does, without namespaces, or (only to test the rest) as plain children."""
ITEM_S = {"probe": 90, "cost": 330, "time": 120, "cheat": 100, "honest": 100}
TOGETHER = 10


def item(name: str, *, reading: bool) -> dict[str, Any]:
    """What that item finds. `reading`: cases are judged with the sources read too."""
    kind, _, rest = name.partition(":")
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "probe": probe,
        "cost": cost,
        "time": lambda: time_task(rest),
        "cheat": lambda: case("cheat", rest, reading=reading),
        "honest": lambda: case("honest", rest, reading=reading),
    }
    return made[kind]()


def one_item(name: str, mode: str, into: Path, *, reading: bool) -> None:
    """In a process of its own."""
    choose(mode)
    began = time.perf_counter()
    try:
        found = {"ok": True, **item(name, reading=reading)}
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is what this item found)
        trace = traceback.format_exc()[-3000:]
        found = {"ok": False, "error": f"{type(error).__name__}: {error}"[:3000], "trace": trace}
    found["took_s"] = round(time.perf_counter() - began, 1)
    into.write_text(json.dumps(found, default=str, indent=1))


class Runner:
    """Starts items and gathers what they found."""

    def __init__(self, out: Path, seconds: float) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._folder = tempfile.TemporaryDirectory()
        self.out, self.until, self.mode = out, time.monotonic() + seconds, "best"
        self.found: dict[str, Any] = {}
        self._lock = threading.Lock()

    def run(self, name: str) -> dict[str, Any]:
        """One item; its limit is its own or what is left."""
        file = Path(self._folder.name) / (name.replace(":", "-") + f"-{self.mode}.json")
        limit = min(ITEM_S[name.partition(":")[0]], self.until - time.monotonic())
        if limit < 15:
            return self._keep(name, {"ok": False, "error": "no time was left"})
        argv = [sys.executable, __file__, str(self.out), "--item", name, "--mode", self.mode, "--file", str(file)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            return self._keep(name, {"ok": False, "error": f"not done in {limit:.0f} s", "said": _end(said)})
        if not file.exists():
            return self._keep(name, {"ok": False, "error": f"ended with {process.returncode}", "said": _end(said)})
        return self._keep(name, json.loads(file.read_text()))

    def _keep(self, name: str, found: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.found[f"{name} ({self.mode})"] = found
            told = json.dumps(self.found, indent=1).replace(f"{HERE.parents[2]}/", "")  # no folder of this machine
            (self.out / "all.json").write_text(told)
            short = {key: value for key, value in found.items() if key != "trace"}
            self.say(f"{name} [{self.mode}] {json.dumps(short)[:1200]}")
        return found

    def say(self, line: str) -> None:
        """Print it and keep it."""
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        with (self.out / "lines.txt").open("a") as file:
            file.write(line + "\n")


def _end(said: bytes) -> str:
    return said.decode(errors="replace")[-1500:]


def names() -> list[str]:
    """Cases, honest ones among the cheats so that a short run has seen both."""
    import suite

    cheats = [f"cheat:{one.id}" for one in suite.cheats(HERE)]
    honest = [f"honest:{one.id}" for one in suite.honest(HERE)]
    mixed = []
    while cheats or honest:
        mixed += [*cheats[:2], *honest[:1]]
        cheats, honest = cheats[2:], honest[1:]
    return mixed


def judged_before(path: Path | None) -> frozenset[str]:
    """The names of the cases that an earlier run finished."""
    if path is None:
        return frozenset()
    found = json.loads(path.read_text())
    return frozenset(name.rpartition(" (")[0] for name, one in found.items() if one["ok"])


def everything(runner: Runner, only: str, done: frozenset[str]) -> None:
    """In order of worth; `done` are cases of an earlier run, which then are all that is asked about."""
    for mode in MODES:
        runner.mode = mode
        if runner.run("probe")["ok"]:
            break
    alone = ["cost", *(f"time:{task}" for task in TASKS)]
    for name in alone:
        if only in name and not done:
            runner.run(name)
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        list(pool.map(runner.run, [name for name in names() if only in name and name not in done]))
    cases = {name: one for name, one in runner.found.items() if "verdict" in one}
    wrong = [name for name, one in cases.items() if one["verdict"] != "ok"]
    failed = [name for name, one in runner.found.items() if not one["ok"]]
    runner.say(f"cases judged: {len(cases)}; wrong: {wrong}; failed: {failed}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=470)
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", type=Path, help="all.json of an earlier run: only cases that it did not finish")
    parser.add_argument("--item")
    parser.add_argument("--mode", default="best")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--played", action="store_true")
    parser.add_argument("--read", action="store_true", help="with --item: the sources are read too")
    parser.add_argument("--times", type=int, help="cases alone, so often with reading off and so often with it on")
    parser.add_argument("--cards", type=int, default=1)
    parser.add_argument("--together", type=int, default=TOGETHER, help="judgements at a time on one card")
    parser.add_argument("--from", dest="before", type=Path, help="repeated.json of an earlier run, which goes on")
    given = parser.parse_args()
    if given.played:
        os.environ[PLAYED] = "1"
    if given.item:
        one_item(given.item, given.mode, given.file, reading=given.read)
    elif given.times:
        asked = Repeated(
            given.out, seconds=given.seconds, cards=given.cards, together=given.together, before=given.before
        )
        sys.exit(min(asked.run([name for name in names() if given.only in name], given.times), 1))
    else:
        everything(Runner(given.out, given.seconds), given.only, judged_before(given.skip))


if __name__ == "__main__":
    main()
