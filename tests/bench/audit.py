"""Reading the source of a candidate: seconds by its length, up to 20,000 lines, and what twenty times the lines cost."""

import time
from collections.abc import Iterator
from typing import Any

from ridgeline.sandbox.audit.examine import audit
from tests.long_sources import DENSE, dense, quantizers

LINES = (500, 1_000, 2_000, 5_000, 10_000, 20_000)
SECONDS = 20.0
"""For the longest."""
GROWTH = 2.0
"""Times the cost of a line in a file of 20,000, where it is 1 in a file of 1,000."""
TRIES = 3


def run() -> Iterator[dict[str, Any]]:
    seconds = {lines: _seconds(quantizers(lines)) for lines in LINES}
    for lines, spent in seconds.items():
        bound = SECONDS if lines == LINES[-1] else None
        yield _row(f"quantizers, {lines} lines", spent, "s", bound)
    yield _row("cost of a line in 20,000 over one in 1,000", seconds[20_000] / seconds[1_000] / 20, "times", GROWTH)
    for kind in DENSE:
        short, long = (_seconds(dense(kind, lines)) for lines in (1_000, 20_000))
        yield _row(f"{kind}, 20,000 lines", long, "s", SECONDS)
        yield _row(f"{kind}, cost of a line over one in 1,000", long / short / 20, "times", GROWTH)


def _seconds(text: str) -> float:
    """The least processor time of some readings."""
    spent = []
    for _ in range(TRIES):
        began = time.process_time()
        audit.__wrapped__("kernel.c", text)
        spent.append(time.process_time() - began)
    return min(spent)


def _row(what: str, value: float, unit: str, bound: float | None) -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "bound": bound, "ok": None if bound is None else value <= bound}
