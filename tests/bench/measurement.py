"""The accept test on the real CPU tasks: identical candidates, and 3 % of work more or less, `BENCH_TRIES` of each."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from math import expm1
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.bench.planted import AGAIN, Bench, Try

TRIES = int(os.environ.get("BENCH_TRIES", "10"))
PLANTED = max(1, TRIES // 2)
"""Fewer of what is decided rightly nearly always; what must never happen is tried more often."""
EXTRA = 0.03


def run() -> Iterator[dict[str, Any]]:
    for task in AGAIN:
        with tempfile.TemporaryDirectory() as folder:
            yield from _plain(task, Path(folder))
        with tempfile.TemporaryDirectory() as folder:
            yield from _gain(task, Path(folder))


def _plain(task: str, folder: Path) -> Iterator[dict[str, Any]]:
    bench = Bench(folder, task)
    yield {"what": f"{task}: noise of a pair of identical versions", "value": 100 * bench.sigma, "unit": "%"}
    same = [bench.judged(bench.planted(0.0)) for _ in range(TRIES)]
    kept, bound = sum(one.verdict.accepted for one in same), TRIES // 100
    yield {
        "what": f"{task}: identical, accepted of {TRIES}",
        "value": kept,
        "unit": "",
        "bound": bound,
        "ok": kept <= bound,
    }
    yield from _cost(f"{task}: identical", same)
    slow = [bench.judged(bench.planted(EXTRA)) for _ in range(PLANTED)]
    right = sum(one.verdict.decision == "rolled_back" and one.verdict.faster == "no" for one in slow)
    yield from _decided(f"{task}: 3 % more work", slow, right)


def _gain(task: str, folder: Path) -> Iterator[dict[str, Any]]:
    bench = Bench(folder, task, extra=EXTRA)
    fast = [bench.judged(bench.planted(0.0)) for _ in range(PLANTED)]
    yield from _decided(f"{task}: 3 % less work", fast, sum(one.verdict.accepted for one in fast))


def _decided(what: str, tries: Sequence[Try], right: int) -> Iterator[dict[str, Any]]:
    share = right / len(tries)
    yield {
        "what": f"{what}, decided rightly of {len(tries)}",
        "value": 100 * share,
        "unit": "%",
        "bound": 95,
        "ok": share >= 0.95,
    }
    effect = fmean(100 * expm1(one.verdict.gain or 0.0) for one in tries)
    yield {"what": f"{what}, mean gain that was seen", "value": effect, "unit": "%"}
    yield from _cost(what, tries)


def _cost(what: str, tries: Sequence[Try]) -> Iterator[dict[str, Any]]:
    yield {"what": f"{what}, process pairs a decision", "value": fmean(one.pairs for one in tries), "unit": "pairs"}
    yield {"what": f"{what}, seconds a decision", "value": fmean(one.seconds for one in tries), "unit": "s"}
