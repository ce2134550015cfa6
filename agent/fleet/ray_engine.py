"""Runs attempts on a Ray cluster: a task each, with the processors, cards and label that the campaign needs.

Ray is an optional package. A task is one command; when its worker ends, the command ends with it. When the cluster's head
goes away, Ray ends the process that is connected to it without a word to it: so that is a child of the one that a person began.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ridgeline.agent.attempts import Command, Ended, read_object
from ridgeline.agent.errors import EndRequest, UserError
from ridgeline.agent.fleet.plan import Needs, Node
from ridgeline.graph.errors import WorldError, install_command
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.isolation.confinement import death_signal_words

ARCH_LABEL = "ray.io/accelerator-type"


HELD_S = 180.0
"""How long a campaign that goes on waits for an earlier process of it: of a node that was lost but has not ended yet."""
UNREACHABLE = 5
"""Exit code of a command whose cluster does not answer."""
RETRY_S = 10.0
"""Between tries to reach a cluster that went away."""


class AttemptLost(Exception):
    """The worker or node of an attempt went away, or the cluster did: nothing is known of the attempt but its ledger."""


def run_attempt(words: Sequence[str]) -> tuple[int, str, float, str]:
    """On a worker of the fleet: `ridgeline` with these words. Exit code, standard output, seconds, and the machine's name."""
    if words[0] == "resume":
        with suppress(WorldError), lease("running", wait_s=HELD_S, folder=Path(words[1])):
            pass  # whoever holds it longer is named by the command
    argv = (*death_signal_words("KILL"), sys.executable, "-m", "ridgeline", *words)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment.pop("OMP_NUM_THREADS", None)  # Ray sets it to the task's processors; contracts say their own threads
    began = time.monotonic()
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment, text=True, check=False
    )
    return done.returncode, done.stdout, time.monotonic() - began, os.uname().nodename


def drive_in_child(
    words: Sequence[str],
    *,
    joining_s: float,
    say: Callable[[str], None],
    command: Command | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Ended:
    """`ridgeline` with these words and `--result FILE`, begun again whenever Ray ends it: it goes on from the fleet's folder.

    Raises UserError where the cluster did not come back within `joining_s`. A driver that came to its end says so in the
    file, which is the output here; one that Ray or a kill ended leaves none. What Ray prints goes to standard error.
    """
    command = command or _run_driver
    lost_at: float | None = None
    while True:
        began = clock()
        ended = command(words, None)
        is_unreachable = lost_at is not None and read_object(ended.output).get("exit_code") == UNREACHABLE
        if ended.output and not is_unreachable:
            return ended
        if lost_at is None or ended.seconds > joining_s:
            lost_at = clock()
            say("the Ray cluster went away; what ran goes on from its ledgers when it is there again")
        if clock() - lost_at > joining_s:
            raise UserError(
                f"the Ray cluster went away, and was not there again within {joining_s / 60:g} minutes; nothing closed is"
                " lost: start it and give the same command again",
                exit_code=UNREACHABLE,
            )
        sleep(max(0.0, RETRY_S - (clock() - began)))


def _run_driver(words: Sequence[str], _: float | None) -> Ended:
    """The fleet's driver in a process that ends with this one; its output is what it left in the file."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        result, began = Path(folder) / "result.json", time.monotonic()
        argv = (*death_signal_words("KILL"), sys.executable, "-m", "ridgeline", *words, "--result", str(result))
        with subprocess.Popen(argv, stdout=sys.stderr.fileno(), stdin=subprocess.DEVNULL) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                if EndRequest.signal_number:  # the terminal interrupts all, `kill` but one
                    process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=60)  # it ends in order
                raise
        output = result.read_text(encoding="utf-8") if result.exists() else ""
    return Ended(code=code, output=output, seconds=time.monotonic() - began)


class RayEngine:
    """A cluster: that of an address, or one of this machine's that ends with this process."""

    def __init__(self, address: str | None, *, cpus: int | None = None) -> None:
        """Connect or start. Raises UserError where Ray is missing or nobody answers."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            ray = import_module("ray")
        except ImportError:
            raise UserError(f"fleet: Ray is not installed; {install_command('ray')}") from None
        self._ray = ray
        try:
            if address:
                ray.init(address=address, log_to_driver=True, logging_level="ERROR")
            else:
                ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=True, logging_level="ERROR")
        except Exception as error:  # noqa: BLE001 (Ray raises plain ones where a process of its own does not start in time)
            said = " ".join(str(error).split())[:200]
            raise UserError(
                f"--address: {address or 'this machine'}: {said}; `ray start --head` starts a cluster",
                exit_code=UNREACHABLE,
            ) from None
        self._task = ray.remote(run_attempt)
        self._names: dict[Any, str] = {}

    def list_nodes(self) -> tuple[Node, ...]:
        """Machines of the fleet's cluster that are alive."""
        return tuple(
            Node(
                id=str(node["NodeID"]),
                cpus=float(node["Resources"].get("CPU", 0)),
                gpus=float(node["Resources"].get("GPU", 0)),
                host=str(node.get("NodeManagerHostname", "")),
                arch=str(node.get("Labels", {}).get(ARCH_LABEL, "")),
            )
            for node in self._ray.nodes()
            if node["Alive"]
        )

    def begin(self, name: str, words: Sequence[str], needs: Needs) -> None:
        """Submit one campaign of the fleet."""
        selector = {ARCH_LABEL: needs.arch} if needs.arch else None
        task = self._task.options(
            num_cpus=needs.cpus, num_gpus=needs.gpus, label_selector=selector, max_retries=0, name=f"ridgeline {name}"
        )
        self._names[task.remote(list(words))] = name

    def wait(self, seconds: float) -> list[tuple[str, Ended | AttemptLost, str]]:
        """What of the fleet has ended within this time: campaign, outcome, machine. Raises AttemptLost where the cluster is gone."""
        if not self._names:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._names), num_returns=1, timeout=seconds)
        ended: list[tuple[str, Ended | AttemptLost, str]] = []
        for handle in ready:
            name = self._names.pop(handle)
            try:
                code, output, took_s, node = self._ray.get(handle)
                ended.append((name, Ended(code=code, output=output, seconds=took_s), node))
            except self._ray.exceptions.RayError as error:
                ended.append((name, AttemptLost(" ".join(str(error).split())[:200]), ""))
        return ended

    def close(self) -> None:
        """Leave the cluster: what still runs for this process ends, and goes on from its ledger another time."""
        self._ray.shutdown()
