"""Recorded H100 processes through the real rule again: planted and small gains, identical twins. No GPU needed."""

import os
from collections.abc import Iterator
from typing import Any

from ridgeline.evals.research.noise.recordings import KernelRecord, load, recordings
from ridgeline.evals.research.noise.rejudge import Case, effect, tally
from ridgeline.graph.limits import Limits

ORDERS = int(os.environ.get("BENCH_ORDERS", "500"))
LARGE_US = 50.0
"""Above this a kernel's planted and small gains must be decided fast; below, what it takes is only stated."""
DECIDED = 0.90
"""Least share of resampled orders that decide rightly in the pairs stated."""
ENOUGH_BLOCKS = 16
"""A pair of fewer shows a large kernel's block noise, not the 0.1 per cent that its processes differ by."""

TWINS = (Case(best="A", candidate="B"), Case(best="B", candidate="A"))
SLOWER = Case(best="A", candidate="C")


def run() -> Iterator[dict[str, Any]]:
    for path in recordings():
        for recorded in sorted(load(path), key=lambda item: (item.engine, item.level_us), reverse=True):
            every = min(len(process.blocks) for process in recorded.processes)
            yield from _rows(recorded, Limits(blocks=every), required=_large(recorded) and every >= ENOUGH_BLOCKS)
            if recorded.engine == "graph":
                yield from _rows(recorded, Limits(), required=False)


def _large(recorded: KernelRecord) -> bool:
    return recorded.engine == "graph" and recorded.level_us > LARGE_US


def _rows(recorded: KernelRecord, limits: Limits, *, required: bool) -> Iterator[dict[str, Any]]:
    kernel, level = recorded.kernel.split("_8192")[0], recorded.level_us
    name = f"{kernel} {level:.{0 if level > LARGE_US else 1}f} us {recorded.engine} x{limits.blocks}"
    for what, case, within in ((*_three(recorded), 2), ("+1 % scaled", Case(best="A", candidate="B", gain=0.01), 4)):
        seen = tally(recorded, case, limits, orders=ORDERS)
        share = seen.share("faster", within=within)
        bound = {"bound": DECIDED, "ok": share >= DECIDED} if required else {}
        yield {"what": f"{name}: {what}, kept by pair {within}", "value": share, "unit": "of orders", **bound}
        yield {"what": f"{name}: {what}, kept at all", "value": seen.share("faster"), "unit": "of orders"}
        yield {"what": f"{name}: {what}, takes", "value": seen.mean_pairs, "unit": "pairs"}
    yield _never(f"{name}: twins kept", recorded, TWINS, limits)
    if recorded.planted:
        yield _never(f"{name}: more work kept", recorded, (SLOWER,), limits)


def _three(recorded: KernelRecord) -> tuple[str, Case]:
    """What was planted, or where nothing was, or launching hides it, the twin's samples scaled."""
    gain = effect(recorded, "C", "A")
    if recorded.planted and (gain > 0.02 or recorded.engine == "event"):
        return f"{gain:+.1%} planted", Case(best="C", candidate="A")
    return "+3 % scaled", Case(best="A", candidate="B", gain=0.03)


def _never(what: str, recorded: KernelRecord, cases: tuple[Case, ...], limits: Limits) -> dict[str, Any]:
    """Largest share kept of versions that are no faster: none with engine graph, alpha with engine event."""
    share = max(tally(recorded, case, limits, orders=ORDERS).share("faster") for case in cases)
    bound = 0.0 if recorded.engine == "graph" else limits.alpha
    return {"what": what, "value": share, "unit": "of orders", "bound": bound, "ok": share <= bound}
