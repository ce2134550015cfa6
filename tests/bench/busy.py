"""What processor time still tells beside four processes that never rest: pairs until ten per cent are settled."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOOP = """#include <stdlib.h>
int main(int count, char **words) {
    volatile unsigned sum = 0;
    for (long i = atol(words[count - 1]); i > 0; i--) sum += i;
    return 0;
}
"""
OTHERS = 4
PAIRS = 20
TRIES = 5
BEGUN = 20_000_000
"""Turns of the loop that are timed first."""
COUNTABLE_S = 0.1
"""os.times() counts hundredths of seconds."""


def run() -> Iterator[dict[str, Any]]:
    """Rows: how many of so many comparisons were settled, by how many pairs, and the largest error of a ratio."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "loop.c").write_text(LOOP)
        subprocess.run(("cc", "-O1", "-o", "loop", "loop.c"), cwd=here, check=True)
        turns_a_ms = _count_turns(here)
        others = [subprocess.Popen((sys.executable, "-ISc", "while True: pass")) for _ in range(OTHERS)]
        try:
            answers = [_compare(here, 44 * turns_a_ms, 40 * turns_a_ms) for _ in range(TRIES)]
        finally:
            for other in others:
                other.kill()
                other.wait()
    settled = [answer for answer in answers if answer["verdict"] == "faster"]
    wrong = [answer for answer in answers if answer["lower"] > 1.1 or answer["upper"] < 1.1]
    what = f"of {TRIES} comparisons of 10 %"
    yield {"what": f"{what}: settled", "value": len(settled), "unit": "of them"}
    pairs = sum(answer["pairs"] for answer in answers) / TRIES
    yield {"what": f"{what}: pairs of each", "value": pairs, "unit": "pairs"}
    errors = [100 * abs(answer["ratio"] / 1.1 - 1) for answer in answers]
    yield {"what": f"{what}: largest error", "value": max(errors), "unit": "%"}
    yield {
        "what": f"{what}: interval without the truth",
        "value": len(wrong),
        "unit": "of them",
        "bound": 1,
        "ok": len(wrong) < 2,
    }


def _compare(here: Path, slow: float, fast: float) -> dict[str, Any]:
    commands = [f"./loop {round(turns)}" for turns in (slow, fast)]
    words = ("--cpu-time", "--calibration-pairs", "6", "--max-pairs", str(PAIRS), "--json", "--quiet")
    argv = (sys.executable, "-m", "ridgeline", "bench", *commands, *words)
    done = subprocess.run(argv, cwd=here, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def _count_turns(here: Path) -> float:
    """Turns of the loop in a millisecond of this processor, as fast as it gets."""
    turns = BEGUN
    while (took_s := min(_time_turns(here, turns) for _ in range(3))) < COUNTABLE_S:
        turns *= 2
    return turns / took_s / 1e3


def _time_turns(here: Path, turns: int) -> float:
    before = os.times()
    subprocess.run(("./loop", str(turns)), cwd=here, check=True)
    return os.times().children_user - before.children_user
