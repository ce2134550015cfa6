"""Cases of a card again and again, reading off and on, over all cards of the machine: `run.py --times`."""

import concurrent.futures
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.adversarial.reading import convicted
from tests.adversarial.suite import CARD, cheats, honest

RUN = Path(__file__).resolve().parent / "run.py"
LIMIT_S = 150
LEAST_S = 45
"""With less time left than that, no judgement begins."""


class Repeated:
    """Asks, and counts what was answered."""

    def __init__(self, out: Path, *, seconds: float, cards: int, together: int, before: Path | None) -> None:
        """`together`: judgements at a time on one card, which disturb each other's times and nothing else. `before`:
        counts of an earlier run, which are added to."""
        out.mkdir(parents=True, exist_ok=True)
        self._file = out / "repeated.json"
        self._kept: dict[str, Any] = json.loads(before.read_text()) if before else {}
        self._until = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._cards: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(cards * together):
            self._cards.put(number % cards)
        self._together = cards * together

    def run(self, names: Sequence[str], times: int) -> int:
        """Every case so often each way; how many answers are not as they must be.

        With reading on, what reading convicts; with it the others are judged as without.
        """
        read = {f"{case.kind}:{case.id}" for case in (*cheats(CARD), *honest(CARD)) if convicted(case)}
        wanted = [
            (name, way)
            for turn in range(times)
            for way in ("not reading", "reading")
            for name in names
            if self._count(name, way) <= turn and (way == "not reading" or name in read)
        ]
        with concurrent.futures.ThreadPoolExecutor(self._together) as pool:
            list(pool.map(lambda one: self._asked(*one), wanted))
        unlike = {name: one["unlike"] for name, one in self._kept.items() if one["unlike"]}
        sys.stdout.write(f"{sum(map(self._total, self._kept))} judgements; not as they must be: {json.dumps(unlike)}\n")
        return len(unlike)

    def _total(self, name: str) -> int:
        return sum(self._kept[name]["answers"].values())

    def _count(self, name: str, way: str) -> int:
        answers = self._kept.get(name, {"answers": {}})["answers"]
        return sum(times for said, times in answers.items() if said.startswith(f"{way}: "))

    def _asked(self, name: str, way: str) -> None:
        left = self._until - time.monotonic()
        if left < LEAST_S:
            return
        card = self._cards.get()
        try:
            with tempfile.TemporaryDirectory() as folder:
                self._keep(name, way, _item(name, way, card, Path(folder), min(LIMIT_S, left)))
        finally:
            self._cards.put(card)

    def _keep(self, name: str, way: str, found: dict[str, Any]) -> None:
        with self._lock:
            one = self._kept.setdefault(name, {"answers": {}, "unlike": [], "lost": []})
            if not found["ok"]:
                one["lost"].append(f"{way}: {found['error'][:300]}")
                said = one["lost"][-1]
            else:
                said = f"{way}: {'/'.join(found[key][0] for key in ('correct', 'faster', 'own_work'))}"
                one["answers"][said] = one["answers"].get(said, 0) + 1
                missed = found["unlike_expected"].get("correct") if way == "not reading" else None
                if found["verdict"] != "ok" or missed:
                    one["unlike"].append(f"{way}: {json.dumps(found)[:1500]}")
            self._file.write_text(json.dumps(self._kept, indent=1))
            sys.stdout.write(f"{name}: {said} ({found.get('took_s')} s)\n")
            sys.stdout.flush()


def _item(name: str, way: str, card: int, folder: Path, limit: float) -> dict[str, Any]:
    """One judgement, in a process of its own that sees one card."""
    file = folder / "found.json"
    argv = [sys.executable, str(RUN), str(folder), "--item", name, "--file", str(file)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(card)}
    try:
        done = subprocess.run(
            [*argv, *(["--read"] if way == "reading" else [])],
            env=environment,
            capture_output=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"ok": False, "error": f"not done in {limit:.0f} s"}
    if not file.exists():
        return {"ok": False, "error": f"ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}"}
    found: dict[str, Any] = json.loads(file.read_text())
    return found
