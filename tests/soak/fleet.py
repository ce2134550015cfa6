"""A fleet that is killed while it works: 20 real campaigns on two slots of a Ray cluster of this machine.

`python -m tests.soak fleet [CAMPAIGNS] [ROUNDS]`, in an environment with Ray. The cluster is a head without processors and
two nodes of one each. While the fleet runs, a Ray worker, a campaign's own process, a node, the driver and the head are
killed. After each look every closed line of a ledger must still be there, and no campaign may have two processes.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ridgeline.agent.attempts import read_rows
from ridgeline.agent.fleet.plan import Attempt
from ridgeline.sandbox.store.ledger import JsonlLedger, verify
from tests.soak.recorded import FEW, ROOT, TASKS, lay_out

LOOK_S = 1.0
LONGEST_S = 5400.0
BETWEEN_S = 45.0
"""Nodes begin one after the other."""
MOST_DRIVERS = 12
HEAD_GONE_S = 100.0
"""Ray's own processes end a minute after their head."""
START_S = "120"
"""How long Ray's own processes may take to start on a busy machine."""


@dataclass
class Tally:
    """What the fleet came to."""

    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    drivers: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    rounds: int = 0
    failures: list[str] = field(default_factory=list)


class Cluster:
    """Ray on this machine, begun and killed process by process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ray = str(Path(sys.executable).with_name("ray"))
        private = {name: str(folder / name) for name in ("home", "run", "tmp")}
        for place in private.values():
            Path(place).mkdir(parents=True, mode=0o700)
        self.environment = {
            **os.environ,
            "HOME": private["home"], "XDG_RUNTIME_DIR": private["run"], "TMPDIR": private["tmp"],
            "RIDGELINE_QUIET_S": "0", "PYTHONPATH": str(ROOT),
            "RAY_raylet_start_wait_time_s": START_S, "RAY_gcs_server_request_timeout_seconds": START_S,
            "RAY_USAGE_STATS_ENABLED": "0",
        }  # fmt: skip
        self.head: subprocess.Popen[bytes] | None = None
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.address, self._port, self._added = "", 0, -BETWEEN_S

    def begin(self) -> None:
        """A head and two nodes, where an earlier head was, if there was one."""
        if not self._port:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self._port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        temporary = f"/tmp/ray-soak-{os.getpid()}-{self._port}"  # a socket's path has 107 characters at most
        words = (
            "--head",
            f"--port={self._port}",
            "--num-cpus=0",
            f"--temp-dir={temporary}",
            "--include-dashboard=false",
        )
        self.head = self._start(*words)
        self._wait_for_port(self._port)
        self.nodes = []

    def mend(self) -> None:
        """Begin what did not start, or has ended: on a busy machine Ray gives up its own start after 30 s."""
        if self.head is not None and self.head.poll() is not None:
            self.end()
            self.begin()
        self.nodes = [node for node in self.nodes if node.poll() is None]
        if len(self.nodes) < 2 and time.monotonic() - self._added > BETWEEN_S:
            self.add_node()

    def add_node(self) -> None:
        """One more with a processor."""
        self._added = time.monotonic()
        self.nodes.append(self._start(f"--address={self.address}", "--num-cpus=1"))

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        common = ("--node-ip-address=127.0.0.1", "--dashboard-agent-listen-port=0", "--object-store-memory=100000000")
        with (self._folder / "ray.log").open("ab") as log:
            return subprocess.Popen(
                (self._ray, "start", "--block", *words, *common),
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _wait_for_port(self, port: int) -> None:
        until = time.monotonic() + float(START_S)
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.5)
        raise TimeoutError("Ray's head does not listen")

    def kill_node(self) -> None:
        """The first one goes away with all its processes, as a machine does that loses power; another one comes."""
        _kill_tree(self.nodes.pop(0).pid)

    def kill_head(self) -> None:
        """The head's own process; when the rest has noticed, a new one begins in its place."""
        assert self.head is not None
        for process in psutil.Process(self.head.pid).children(recursive=True):
            if process.name() == "gcs_server":
                process.kill()
        for part in (*self.nodes, self.head):
            with contextlib.suppress(subprocess.TimeoutExpired):
                part.wait(HEAD_GONE_S)
        self.end()
        self.begin()

    def end(self) -> None:
        """Nothing of it is left."""
        for node in (*self.nodes, self.head):
            if node is not None:
                _kill_tree(node.pid)
                node.wait()


def _kill_tree(pid: int) -> None:
    """The process and all that came of it, at once."""
    try:
        top = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    for process in (*top.children(recursive=True), top):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


class Soak:
    """One fleet, from its first begin to its table."""

    def __init__(self, folder: Path, campaigns: int, rounds: int) -> None:
        self._folder, self._campaigns, self._rounds = folder, campaigns, rounds
        self._out = folder / "fleet"
        self._tally = Tally()
        self._ledgers: dict[str, bytes] = {}
        self._cluster = Cluster(folder)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the cluster ends with this process
        names = [f"{TASKS[number % len(TASKS)]}-{number}" for number in range(campaigns)]
        for name in names:
            lay_out(name.partition("-")[0], folder / "kernels" / name)
        settings = dict(limit.split("=") for limit in FEW)
        entries = [{"name": name, "contract": f"kernels/{name}", "group": name.partition("-")[0]} for name in names]
        file = {"campaigns": entries, "settings": {"planner": "catalog", "max_rounds": rounds, **settings}}
        (folder / "fleet.yaml").write_text(json.dumps({**file, "max_parallel": 2}))

    def run(self) -> Tally:
        """Until every campaign has concluded."""
        events = self._list_events()
        after, event = next(events)
        began = time.monotonic()
        self._cluster.begin()
        driver = self._drive()
        try:
            while time.monotonic() - began < LONGEST_S and self._tally.drivers <= MOST_DRIVERS:
                time.sleep(LOOK_S)
                self._cluster.mend()
                self._look()
                concluded = sum(row.result == "concluded" for row in self._rows())
                if driver.poll() is not None:
                    if driver.returncode == 0:
                        break
                    self._tell(f"the driver ended with {driver.returncode}: {self._last_words()}")
                    driver = self._drive()
                elif concluded >= after and (name := event(driver)):
                    self._tell(f"killed: {name}")
                    self._tally.kills[name] += 1
                    after, event = next(events)
            else:
                self._tally.failures.append(f"has not ended after {LONGEST_S:.0f} s or {MOST_DRIVERS} drivers")
            self._tally.seconds = time.monotonic() - began
        finally:
            _kill_tree(driver.pid)
            self._cluster.end()
        self._check_end()
        return self._tally

    def _list_events(self) -> Iterator[tuple[float, Callable[["subprocess.Popen[bytes]"], str]]]:
        """What is killed after how many campaigns have concluded."""
        part = self._campaigns / 10
        yield 0, self._kill_campaign
        yield part, self._kill_worker
        yield 2 * part, self._kill_node
        yield 3 * part, self._kill_driver
        yield 4 * part, self._kill_head
        yield 6 * part, self._kill_worker
        if self._campaigns >= 20:
            yield 7 * part, self._kill_head
        yield self._campaigns + 1, self._kill_worker

    def _kill_campaign(self, driver: "subprocess.Popen[bytes]") -> str:
        running = [process for name, process in self._list_processes() if name in self._ledgers]
        if running:
            running[0].kill()
        return "a campaign's process" if running else ""

    def _kill_worker(self, driver: "subprocess.Popen[bytes]") -> str:
        running = [process for name, process in self._list_processes() if name in self._ledgers]
        if running:
            running[0].parent().kill()
        return "a Ray worker" if running else ""

    def _kill_node(self, driver: "subprocess.Popen[bytes]") -> str:
        if len(self._cluster.nodes) < 2:
            return ""
        self._cluster.kill_node()
        return "a node"

    def _kill_driver(self, driver: "subprocess.Popen[bytes]") -> str:
        driver.kill()
        return "the driver"

    def _kill_head(self, driver: "subprocess.Popen[bytes]") -> str:
        running = any(name in self._ledgers for name, _ in self._list_processes())
        if running:
            self._cluster.kill_head()
        return "the head" if running else ""

    def _drive(self) -> "subprocess.Popen[bytes]":
        self._tally.drivers += 1
        words = ("fleet", "run", "fleet.yaml", "--out", str(self._out), "--address", self._cluster.address, "--json")
        with (self._folder / "driver.log").open("ab") as log, (self._folder / "table.json").open("wb") as table:
            return subprocess.Popen(
                (sys.executable, "-m", "ridgeline", *words),
                cwd=self._folder, env=self._cluster.environment, stdin=subprocess.DEVNULL, stdout=table, stderr=log,
            )  # fmt: skip

    def _rows(self) -> list[Attempt]:
        return list(read_rows(self._out, Attempt))

    def _list_processes(self) -> list[tuple[str, psutil.Process]]:
        """Campaigns' own processes: not what they start."""
        processes = {}
        for process in psutil.process_iter(("cmdline", "ppid")):
            words = process.info["cmdline"] or []
            folders = [word for word in words if word.startswith(f"{self._out}/campaigns/")]
            if "ridgeline" in words and folders:
                processes[process.pid] = (Path(folders[0]).name, process)
        return [item for item in processes.values() if item[1].info["ppid"] not in processes]

    def _look(self) -> None:
        """No closed line of a ledger may go, and no campaign may have two processes."""
        counts = Counter(name for name, _ in self._list_processes())
        for name, number in counts.items():
            if number > 1:
                self._tally.failures.append(f"{name}: {number} processes at once")
        for path in self._out.glob("campaigns/*/ledger.jsonl"):
            name, data = path.parent.name, path.read_bytes()
            closed = data[: data.rfind(b"\n") + 1]
            if not closed.startswith(self._ledgers.get(name, b"")):
                self._tally.failures.append(f"{name}: lost closed lines of its ledger")
            self._ledgers[name] = closed

    def _check_end(self) -> None:
        """Each has concluded once, with the rounds that were asked for, and is whole."""
        self._tally.attempts = self._rows()
        ends = Counter(row.name for row in self._tally.attempts if row.result == "concluded")
        self._tally.failures += [
            f"{row.name}: failed: {row.detail}" for row in self._tally.attempts if row.result == "failed"
        ]
        for contract in sorted((self._folder / "kernels").iterdir()):
            name, folder = contract.name, self._out / "campaigns" / contract.name
            if ends[name] != 1:
                self._tally.failures.append(f"{name}: concluded {ends[name]} times")
                continue
            checked = verify(folder / "ledger.jsonl")
            bodies = [line.body for line in JsonlLedger(folder / "ledger.jsonl").lines()]
            rounds = [body.round for body in bodies if body.kind == "round"]
            if not checked.ok or rounds != list(range(2, len(rounds) + 2)) or len(rounds) > self._rounds:
                self._tally.failures.append(f"{name}: rounds {rounds}, {checked.problem}")
            if len(rounds) < self._rounds:
                self._tell(f"{name}: ended after {len(rounds)} rounds: {bodies[-1].stop_reason}")
            self._tally.rounds += len(rounds)
            whole = subprocess.run(
                (sys.executable, "-m", "ridgeline", "fsck", str(folder)),
                cwd=ROOT, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if whole.returncode:
                self._tally.failures.append(f"{name}: fsck: {whole.stdout[-300:]}{whole.stderr[-300:]}")
        if left := self._list_processes():
            self._tally.failures.append(f"processes are left: {left}")

    def _last_words(self) -> str:
        lines = (self._folder / "driver.log").read_text(errors="replace").splitlines()
        return (lines or ["nothing said"])[-1][:200]

    def _tell(self, text: str) -> None:
        print(text, flush=True)  # noqa: T201


def run_fleet(folder: Path, campaigns: int, rounds: int) -> int:
    """Print the table; how much was wrong."""
    tally = Soak(folder, campaigns, rounds).run()
    attempts = tally.attempts
    shown = [row for row in attempts if row.command_seconds is not None]
    costs = [row.seconds - (row.command_seconds or 0) for row in shown]
    results = Counter(row.result for row in attempts)
    print(f"\n{campaigns} campaigns, {tally.rounds} rounds, {tally.seconds / 60:.1f} minutes, {tally.drivers} drivers")  # noqa: T201
    print(f"attempts: {', '.join(f'{number} {result}' for result, number in sorted(results.items()))}")  # noqa: T201
    print(f"kills: {', '.join(f'{number} of {what}' for what, number in sorted(tally.kills.items()))}")  # noqa: T201
    if costs:
        a_round = sum(costs) / max(1, tally.rounds)
        print(f"an attempt beside its command: median {statistics.median(costs):.2f} s, longest {max(costs):.2f} s")  # noqa: T201
        print(f"a round: {a_round:.2f} s of {sum(row.seconds for row in shown) / max(1, tally.rounds):.1f} s")  # noqa: T201
    print(f"{len(tally.failures)} failed")  # noqa: T201
    print("\n".join(tally.failures))  # noqa: T201
    shutil.rmtree(folder, ignore_errors=True) if not tally.failures else None
    return len(tally.failures)
