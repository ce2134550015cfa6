"""A thousand campaigns on two hundred cards: the real driver and its files, recorded round times, a pretended clock."""

import heapq
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ridgeline.agent.attempts import Ended
from ridgeline.agent.fleet.plan import Entry, FleetFile, Needs, Node
from ridgeline.agent.fleet.ray_engine import AttemptLost
from ridgeline.agent.fleet.run import Fleet

RECORDED = Path(__file__).parents[2] / "evals" / "campaigns"
CAMPAIGNS, NODES, CARDS = 1000, 25, 8
MOST_ROUNDS = 12
LOST = 0.01
"""Share of attempts whose node goes away, at some point of it."""


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as place:
        yield from _simulate(Path(place))


def _simulate(place: Path) -> Iterator[dict[str, Any]]:
    dice = random.Random(1)
    rounds_s = [seconds for path in sorted(RECORDED.glob("*/ledger.jsonl")) for seconds in _read_rounds(path)]
    (place / "k").mkdir()
    kinds = ("H100", "MI300X")
    nodes = tuple(Node(id=f"n{n}", cpus=96, gpus=CARDS, arch=kinds[n % 2]) for n in range(NODES))
    entries = tuple(
        Entry(
            name=f"c{n}",
            contract="k",
            group=f"team{n % 7}",
            needs=Needs(gpus=1, arch=dice.choice((*kinds, ""))),
            settings={"max_rounds": dice.randint(1, MOST_ROUNDS)},
        )
        for n in range(CAMPAIGNS)
    )
    engine = _Cluster(
        nodes, [sum(dice.choices(rounds_s, k=int(entry.settings["max_rounds"]))) for entry in entries], dice
    )
    fleet = Fleet(
        folder=place / "fleet", file=FleetFile(campaigns=entries), root=place, engine=engine, clock=lambda: engine.now
    )
    began = time.process_time()
    lines = fleet.run()
    cpu_s = time.process_time() - began
    assert all(line.state == "concluded" for line in lines)
    cards = NODES * CARDS
    busy = engine.busy_until_last_begin / (cards * engine.last_begin)
    yield {"what": "cards busy while campaigns wait", "value": 100 * busy, "unit": "%", "bound": 90, "ok": busy >= 0.9}
    yield {
        "what": "cards busy until the last one ends",
        "value": 100 * engine.busy_s / (cards * engine.now),
        "unit": "%",
    }
    yield {"what": "attempts, 1 in 100 lost and begun again", "value": engine.begun, "unit": "attempts"}
    yield {"what": "driver's processor time an attempt", "value": 1000 * cpu_s / engine.begun, "unit": "ms"}
    size = sum(path.stat().st_size for path in (place / "fleet").glob("*.json*"))
    yield {"what": "driver's files a campaign", "value": size / CAMPAIGNS, "unit": "bytes"}


def _read_rounds(path: Path) -> Iterator[float]:
    for line in path.read_text(encoding="utf-8").splitlines():
        body = json.loads(line)["body"]
        if body.get("kind") == "round":
            yield body["cost"]["wall_seconds"]


class _Cluster:
    """Machines whose attempts end when their seconds are over."""

    def __init__(self, nodes: tuple[Node, ...], seconds: list[float], dice: random.Random) -> None:
        self.nodes, self._dice = nodes, dice
        self._left = {f"c{n}": amount for n, amount in enumerate(seconds)}
        self._ends: list[tuple[float, str, bool]] = []
        self.now = self.busy_s = self.last_begin = self.busy_until_last_begin = 0.0
        self.begun = 0
        self._began: dict[str, float] = {}

    def list_nodes(self) -> Sequence[Node]:
        return self.nodes

    def begin(self, name: str, words: Sequence[str], needs: Needs) -> None:
        lost = self._dice.random() < LOST
        seconds = self._left[name] * (self._dice.random() if lost else 1)
        self._left[name] -= seconds
        heapq.heappush(self._ends, (self.now + seconds, name, lost))
        self._began[name], self.last_begin = self.now, self.now
        self.begun += 1
        self.busy_until_last_begin = self.busy_s + sum(self.now - began for began in self._began.values())

    def wait(self, seconds: float) -> Sequence[tuple[str, Ended | AttemptLost, str]]:
        self.now, name, lost = heapq.heappop(self._ends)
        self.busy_s += self.now - self._began.pop(name)
        if lost:
            return [(name, AttemptLost("the node died"), "")]
        return [(name, Ended(code=0, output='{"status": "concluded", "rounds": 3, "accepted": 1}'), "n")]
