"""The accept test on the real tasks: byte-identical and planted-slower candidates, as many tries as are asked for."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.identical import identical_tries, planted_tries

TRIES = int(os.environ.get("BENCH_TRIES", "20"))


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        accepted, seconds = identical_tries(Path(folder), TRIES)
        what = f"byte-identical matmul_c candidate accepted in {TRIES} tries"
        yield {"what": what, "value": accepted, "unit": "accepted", "bound": 0, "ok": accepted == 0}
        yield {"what": "seconds a try", "value": seconds / TRIES, "unit": "s"}
    with tempfile.TemporaryDirectory() as folder:
        accepted, _ = planted_tries(Path(folder), TRIES, slowdown=1.05)
        what = f"planted 5 % slowdown accepted in {TRIES} tries"
        yield {"what": what, "value": accepted, "unit": "accepted", "bound": 0, "ok": accepted == 0}
