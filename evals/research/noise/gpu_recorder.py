"""Records timing noise of a GPU: one fresh process after the other, never two at a time, raw samples kept.

    python -m ridgeline.evals.research.noise.gpu_recorder --out h100.jsonl.gz --processes 40 --minutes 9

Needs torch and triton, nothing of ours. The card is measured as it is found: no clock, power or mode is set.
"""

import argparse
import datetime
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

SCHEMA = "ridgeline.noise/1"
PROCESS_SECONDS = 180
"""The first process compiles; one that takes longer hangs."""


class RecorderError(RuntimeError):
    """A process failed: what it said is the message."""


def record(out: Path, *, processes: int, blocks: int, minutes: float, first_seed: int = 1) -> int:
    """A study of noise: writes `out` anew after each process, so that a run cut short leaves what it has; returns how many ran.

    Raises RecorderError when a process fails.
    """
    end = time.monotonic() + 60 * minutes
    head = {
        "schema": SCHEMA,
        "date": datetime.date.today().isoformat(),
        "blocks": blocks,
        **json.loads(_process("about")),
    }
    lines, longest = [json.dumps(head)], 0.0
    for seed in range(first_seed, first_seed + processes):
        if time.monotonic() + longest > end:
            break
        began = time.monotonic()
        measurement = json.loads(_process(str(seed), str(blocks)))
        measurement["seconds"] = round(time.monotonic() - began, 2)
        longest = max(longest, measurement["seconds"]) if seed > first_seed else 0.0
        lines.append(json.dumps(measurement, separators=(",", ":")))
        out.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
        sys.stderr.write(f"process {seed}: {measurement['seconds']} s, {measurement['after']}\n")
    return len(lines) - 1


def _process(*arguments: str) -> str:
    command = [sys.executable, "-m", "ridgeline.evals.research.noise.gpu_process", *arguments]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RecorderError(f"process {arguments[0]} took more than {PROCESS_SECONDS} s") from None
    if process.returncode != 0:
        raise RecorderError(f"process {arguments[0]} exited with {process.returncode}: {process.stderr[-2000:]}")
    return process.stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ridgeline.evals.research.noise.gpu_recorder", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a .jsonl.gz file")
    parser.add_argument("--processes", type=int, default=40)
    parser.add_argument("--blocks", type=int, default=32, help="of each kernel with each engine in each process")
    parser.add_argument("--first-seed", type=int, default=1, help="another one for another recording")
    parser.add_argument("--minutes", type=float, default=9.0, help="no process is started that would end later")
    options = parser.parse_args()
    try:
        ran = record(
            options.out,
            processes=options.processes,
            blocks=options.blocks,
            minutes=options.minutes,
            first_seed=options.first_seed,
        )
    except RecorderError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stderr.write(f"{ran} processes in {options.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
