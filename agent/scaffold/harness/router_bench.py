"""Latency of kernel.py on the inputs of reference.py: median of REPEATS calls, after WARM_UP calls, the device waited for.

Written by `ridgeline init --like gpu-kernel-optimizer`.
"""

import argparse
import csv
import statistics
import sys
import time
from pathlib import Path

import case_kernel as case

WARM_UP, REPEATS = 25, 100
LIMIT = 0.01
HEADER = ("label", "Check", "latency_us", "Time (ms)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", required=True)
    parser.add_argument("--shapes", default="", help="comma list of labels; there is one, `demo`")
    words = parser.parse_args()
    reference, kernel = case.load("reference"), case.load("kernel")
    right, tried = case.make(reference, reference), case.make(kernel, reference)
    inputs = case.draw(reference, 0)
    check = "PASS" if case.rel_err(case.run(tried, inputs), case.run(right, inputs)) < LIMIT else "FAIL"
    torch = sys.modules.get("torch")
    wait = torch.cuda.synchronize if torch is not None and torch.cuda.is_available() else lambda: None
    times = []
    with case.no_gradients():
        for number in range(WARM_UP + REPEATS):
            wait()
            began = time.perf_counter()
            tried(*inputs)
            wait()
            if number >= WARM_UP:
                times.append(1e6 * (time.perf_counter() - began))
    latency_us = statistics.median(times)
    with Path(words.csv).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([HEADER, ("demo", check, f"{latency_us:.9g}", f"{latency_us / 1000:.9g}")])
    return 0 if check == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
