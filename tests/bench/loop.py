"""The loop itself: 120 rounds on fake commands with the real ledger, tape, files and checkpoints."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgeline.agent.campaign.checkpoints import FILE, open_checkpoints
from ridgeline.agent.campaign.tape import PROTOCOLS, Tape, tape_port
from ridgeline.graph.loop.build import build_loop
from ridgeline.graph.state import initial
from ridgeline.sandbox.store.campaign_folder import CampaignFiles
from tests.builders import make_limits
from tests.campaigns import CONFIG, make_campaign

ROUNDS = 120


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _run(Path(folder))


def _run(folder: Path) -> Iterator[dict[str, Any]]:
    speeds = [f"speed {100 + 2 * n if n % 3 == 0 else 50}" for n in range(ROUNDS)]
    limits = make_limits(target_peak_fraction=None, max_rounds=ROUNDS, max_restarts=0)
    campaign = make_campaign(folder, *speeds, limits=limits)
    store = CampaignFiles(folder, tips_root=folder / "tips")
    tape = Tape(folder / "tape.jsonl")
    ports = replace(campaign.ports, files=_Lenient(store))
    ports = replace(ports, **{name: tape_port(name, getattr(ports, name), tape) for name in PROTOCOLS})
    began, marks = time.perf_counter(), []
    with open_checkpoints(folder) as saved:
        graph, given = build_loop(saved.saver), initial(campaign.request)
        for event in graph.stream(given, CONFIG, context=ports, stream_mode="tasks", durability="exit"):
            if "input" not in event and event["name"] in ("accept", "rollback"):
                marks.append(time.perf_counter())
    total = time.perf_counter() - began
    last = (marks[-1] - marks[-11]) / 10 * 1e3
    size = sum(path.stat().st_size for path in folder.glob(FILE + "*")) / 1e6
    yield {"what": f"{ROUNDS} rounds on fake ports", "value": total, "unit": "s", "bound": 10, "ok": total < 10}
    yield {"what": "mean per round", "value": total / ROUNDS * 1e3, "unit": "ms", "bound": 150, "ok": True}
    yield {"what": "mean of the last ten rounds", "value": last, "unit": "ms", "bound": 150, "ok": last < 150}
    yield {"what": "checkpoint file", "value": size, "unit": "MB", "bound": 20, "ok": size < 20}
    ledger = (folder / "ledger.jsonl").stat().st_size / 1e6
    yield {"what": "ledger", "value": ledger, "unit": "MB"}


class _Lenient:
    """The real files, but for artifacts of the fake world, which were never stored."""

    def __init__(self, inner: CampaignFiles) -> None:
        self._inner = inner

    def write(self, files: Any) -> None:
        self._inner.write({path: content for path, content in files.items() if isinstance(content, str)})

    def tips(self, gpu: str, op: str, backend: str) -> str | None:
        return self._inner.tips(gpu, op, backend)

    def add_tip(self, gpu: str, op: str, backend: str, entry: str) -> None:
        self._inner.add_tip(gpu, op, backend, entry)
