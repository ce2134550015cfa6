"""Start-up: `ridgeline --help`, and how many times a bare interpreter that is (both measured in one run)."""

import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any


def _seconds(argv: list[str], times: int = 7) -> float:
    def once() -> float:
        began = time.perf_counter()
        subprocess.run(argv, check=True, capture_output=True)
        return time.perf_counter() - began

    once()
    return median(once() for _ in range(times))


def run() -> Iterator[dict[str, Any]]:
    bare = _seconds([sys.executable, "-c", "pass"])
    yield {"what": "python -c pass", "value": bare, "unit": "s"}
    for words in (["--help"], ["run", "--help"]):
        took = _seconds([sys.executable, "-m", "ridgeline", *words])
        name = f"ridgeline {' '.join(words)}"
        yield {"what": name, "value": took, "unit": "s", "bound": 0.5, "ok": took < 0.5}
        yield {"what": f"{name} / bare interpreter", "value": took / bare, "unit": "x"}
