"""Two command lines of the user's own."""

import hashlib
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

from ridgeline.agent.bench.asked import Asked
from ridgeline.agent.bench.lab import About, Tell
from ridgeline.agent.bench.words import Side
from ridgeline.agent.console import note
from ridgeline.graph.evidence import BenchmarkFailed, Comparison
from ridgeline.sandbox.devices.cpu import read_cpu
from ridgeline.sandbox.devices.opened import any_gate
from ridgeline.sandbox.timing.comparator import Conduct, Metric, Runs, Versus, encoded
from ridgeline.sandbox.timing.interleaving import Timed
from ridgeline.sandbox.workspace.commands import pinned_core

LEAST_PAIRS = 2
"""Of an A/A run: one shows no scatter."""
RETRY_S, MAX_S = 60.0, 3600.0
"""How long to wait for an idle card, with a look so often."""


class CommandLab:
    """Whole processes in turn, here and now."""

    def __init__(self, sides: tuple[Side, Side], metric: Metric, conduct: Conduct, asked: Asked) -> None:
        self._sides, self._metric, self._conduct = sides, metric, conduct
        self._runs = Runs(metric, conduct)
        self._versus = Versus(
            sides[0].argv,
            sides[1].argv,
            runs=self._runs,
            blocks=asked.blocks,
            seed=asked.seed,
            limit=asked.limits.dropped_blocks_limit,
        )
        self._twins: list[Timed] = []
        self._pairs: list[Timed] = []
        self._notes: tuple[str, ...] = ()
        cpu = read_cpu()
        self._machine = cpu.model
        self._fingerprint = hashlib.sha256(f"{platform.node()} {cpu.model_dump_json()}".encode()).hexdigest()

    def prepare(self, say: Callable[[str], None]) -> None:
        """Run both once, not counted; find out what starting a process costs where that is in the times."""
        say("running A and B once, not counted")
        self._versus.warm_up()
        core = self._conduct.core
        where = f"pinned to core {core}" if core is not None else "not pinned to a core; --threads 1 does that"
        if self._metric.reader is None:
            empty = 1000 * self._runs.empty_s()
            self._notes = (f"times are of whole processes, {where}; {empty:.1f} ms of each is its start",)
        else:
            said = f"the numbers are the commands' own, taken to be by engine {self._runs.engine}"
            self._notes = (f"{said}; the processes are {where}",)

    @property
    def about(self) -> About:
        a, b = self._sides
        return About(
            a=a.text,
            b=b.text,
            engine=self._runs.engine,
            machine=self._machine,
            unit="" if self._metric.reader else "us",
            inverted=self._metric.higher_is_better,
            notes=self._notes,
        )

    def calibrate(self, *, pairs: int, budget_s: float, tell: Tell) -> Comparison | BenchmarkFailed:
        until = time.monotonic() + budget_s
        for number in range(pairs):
            if number >= LEAST_PAIRS and time.monotonic() >= until:
                break
            self._twins.append(self._versus.pair(number, twins=True))
            tell(number + 1)
        return self._versus.compared(self._twins, machine=self._fingerprint, twins=True)

    def pair(self, number: int) -> Comparison | BenchmarkFailed:
        self._pairs.append(self._versus.pair(number))
        return self._versus.compared(self._pairs[-1:], machine=self._fingerprint)

    def raw(self) -> dict[str, object]:
        return {"calibration": json.loads(encoded(self._twins)), "pairs": json.loads(encoded(self._pairs))}


def conduct(*, threads: int | None, timeout_s: float, gpu: bool = False) -> Conduct:
    """How the runs are made: in the current folder, on one core where the commands have one thread.

    `gpu`: every block of runs has an idle card to itself. Raises DeviceLost where none can be asked for.
    """
    gate = any_gate(retry_s=RETRY_S, max_s=MAX_S, say=note) if gpu else None
    return Conduct(cwd=Path.cwd(), timeout_s=timeout_s, core=pinned_core() if threads == 1 else None, gate=gate)
