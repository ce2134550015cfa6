"""What a round of a real campaign costs beyond its commands: a demo on this machine, with every process taken out."""

import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TASK = "matmul_c"
ROUNDS = 6
BOUND_MS = 150
"""For the median of the rounds after the first, in which nothing is made or imported for the first time."""
SHORT = ("final_pairs=3",)
"""What is after the last round is not looked at here."""
SHOWN = 6
"""Nodes that are listed, the dearest first."""


@dataclass
class Spent:
    """Own time in seconds: by the wall clock, and of the processor on the thread that drives the loop."""

    wall: float = 0.0
    processor: float = 0.0


class Meter:
    """A clock that stands still while a child process runs, or while another process holds the device."""

    def __init__(self) -> None:
        self._apart = 0.0
        self._last = self._now()
        self.rounds: list[dict[str, Spent]] = []
        self._spent: dict[str, Spent] = defaultdict(Spent)
        self.processes = 0

    def _now(self) -> Spent:
        return Spent(wall=time.perf_counter() - self._apart, processor=time.thread_time())

    def apart(self, call: Any) -> Any:
        """The same function, the time in it not counted."""

        def run(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self._apart += time.perf_counter() - began

        return run

    def started(self, call: Any) -> Any:
        """As `apart`, for the function that starts a process."""

        def run(*args: Any, **kwargs: Any) -> Any:
            self.processes += bool(self.rounds)
            return self.apart(call)(*args, **kwargs)

        return run

    def enter_node(self, node: str) -> None:
        """A node begins: what was since the last one ended is the loop's own. A round begins with `analyze`."""
        self.book("between nodes")
        if node in ("analyze", "final_test"):
            self._spent = defaultdict(Spent)
        if node == "analyze":
            self.rounds.append(self._spent)

    def book(self, name: str) -> None:
        """Put what was spent since the last call on this account."""
        now = self._now()
        self._spent[name].wall += now.wall - self._last.wall
        self._spent[name].processor += now.processor - self._last.processor
        self._last = now


def run() -> Iterator[dict[str, Any]]:
    meter = Meter()
    with tempfile.TemporaryDirectory() as folder, _own_cache(Path(folder)), _metered(meter):
        _campaign(Path(folder))
    yield from _rows(meter)


def _rows(meter: Meter) -> Iterator[dict[str, Any]]:
    first, *steady = meter.rounds
    totals = [1e3 * sum(spent.wall for spent in one.values()) for one in steady]
    processor = [1e3 * sum(spent.processor for spent in one.values()) for one in steady]
    median = statistics.median(totals)
    what = f"own time per round, median of {len(steady)} ({TASK})"
    yield {"what": what, "value": median, "unit": "ms", "bound": BOUND_MS, "ok": median < BOUND_MS}
    yield {"what": "  of that the processor's", "value": statistics.median(processor), "unit": "ms"}
    yield {"what": "own time of the dearest of them", "value": max(totals), "unit": "ms"}
    yield {"what": "own time of the first round", "value": 1e3 * sum(s.wall for s in first.values()), "unit": "ms"}
    names = {name for one in steady for name in one}
    means = {name: 1e3 * statistics.fmean(one[name].wall if name in one else 0.0 for one in steady) for name in names}
    for name in sorted(names, key=lambda name: -means[name])[:SHOWN]:
        yield {"what": f"  mean in {name}", "value": means[name], "unit": "ms"}
    yield {"what": "processes per round", "value": meter.processes / len(meter.rounds), "unit": ""}


def _campaign(folder: Path) -> None:
    from ridgeline.agent.campaign.progress import SilentProgress
    from ridgeline.agent.campaign.runner import StartRequest
    from ridgeline.agent.cli.campaign import resolve_settings
    from ridgeline.agent.contract_file import load
    from ridgeline.agent.scaffold.contract import copy

    loaded = load(copy(TASK, folder / "demo"))
    limits = resolve_settings(loaded, {"max_rounds": ROUNDS}, [*SHORT]).limits
    from ridgeline.agent.campaign.runner import start

    asked = StartRequest(
        contract=loaded, instruction="", limits=limits, planner="catalog", overrides={}, progress=SilentProgress()
    )
    start(asked)


@contextmanager
def _own_cache(folder: Path) -> Iterator[None]:
    """What a bench measures is nobody's calibration later, and nobody's is the bench's."""
    before = os.environ.get("RIDGELINE_CACHE")
    os.environ["RIDGELINE_CACHE"] = str(folder / "cache")
    try:
        yield
    finally:
        os.environ.pop("RIDGELINE_CACHE")
        if before is not None:
            os.environ["RIDGELINE_CACHE"] = before


@contextmanager
def _metered(meter: Meter) -> Iterator[None]:
    """Processes, waiting for the device and the nodes' boundaries are seen by the meter, until the block ends."""
    from ridgeline.agent.campaign.progress import StatusView
    from ridgeline.sandbox.devices import lease
    from ridgeline.sandbox.isolation import process

    entered, left = StatusView.enter_node, StatusView.leave_node

    def entering(self: StatusView, node: str, state: Any) -> None:
        entered(self, node, state)
        meter.enter_node(node)

    def leaving(self: StatusView, node: str) -> None:
        meter.book(node)
        left(self, node)

    with ExitStack() as undo:
        for owner, name, other in (
            (process, "_start", meter.started(process._start)),
            (process, "wait_for_exit", meter.apart(process.wait_for_exit)),
            (lease, "_try_lock", meter.apart(lease._try_lock)),
            (StatusView, "enter_node", entering),
            (StatusView, "leave_node", leaving),
        ):
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, other)
        yield
