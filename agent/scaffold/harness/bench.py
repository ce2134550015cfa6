"""Times the function, or two versions of it against each other.

python3 -P -B bench.py --csv FILE [--shapes a,b]                                       one row per shape
python3 -P -B bench.py --pair A_DIR B_DIR --csv FILE --shapes a,b --blocks N --seed S  one row per timed slot
python3 -P -B bench.py --profile LABEL                                                 a few calls, for a profiler

Exits 1 when a version of --pair gave a wrong answer, 2 when it cannot run.
"""

import argparse
import csv
import gc
import importlib.util
import math
import random
import resource
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
_spec = importlib.util.spec_from_file_location("harness", Path(__file__).resolve().parent / "harness.py")
assert _spec is not None
assert _spec.loader is not None
harness = sys.modules["harness"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)
problem = harness.sibling("problem")

SAMPLES = 7
VISIT_US = 1000.0  # one side of --pair
BLOCK_US = 60e3  # one block of one shape
MOST_PASSES = 101
MOST_CALLS = 64  # of a visit, each with arguments of its own
HEADER = ("label", "block", "slot", "side", "time_us", "at_us", "shared")
Arguments = Sequence[tuple[Any, ...]]
Function = Callable[..., Any]


def interruptions() -> int:
    """In the harness that `init` writes: how often the benchmark's process had to leave its core."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def on_gpu(arguments: Arguments) -> bool:
    """In the harness that `init` writes: whether a benchmarked call is the device's work."""
    return any(getattr(value, "is_cuda", False) for value in arguments[0])


def time_us(function: Function, arguments: Arguments) -> tuple[float, bool]:
    """In the harness that `init` writes: microseconds of one call over all arguments, and whether others took the core meanwhile."""
    if problem.MUTATES:
        arguments = [harness.copy_arguments(call) for call in arguments]
    before = interruptions()
    if on_gpu(arguments):
        import torch

        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for call in arguments:
            function(*call)
        end.record()
        end.synchronize()
        took = float(start.elapsed_time(end)) * 1e3
    else:
        began = time.perf_counter()
        for call in arguments:
            function(*call)
        took = 1e6 * (time.perf_counter() - began)
    return max(took / len(arguments), 1e-4), interruptions() != before


def calls_for(us: float, call_us: float) -> int:
    """In the harness that `init` writes: calls that take so long together."""
    return max(1, min(MOST_CALLS, math.ceil(us / call_us)))


def make(rng: random.Random, shape: Any, count: int) -> Arguments:
    """In the harness that `init` writes: arguments of so many calls, which no call had before."""
    return [problem.arguments(rng, shape.sizes, harness.ORDINARY) for _ in range(count)]


def warm_us(function: Function, shape: Any, rng: random.Random) -> float:
    """In the harness that `init` writes: microseconds of one warm call."""
    return min(time_us(function, make(rng, shape, 1))[0] for _ in range(3))


def find_wrong(function: Function, original: Function, arguments: tuple[Any, ...]) -> str:
    """In the harness that `init` writes: where a version does not give what the original gives, or nothing."""
    mine, right = harness.run(function, arguments), harness.run(original, arguments)
    return str(harness.describe_difference(mine, right, problem.NAMES, problem.TOLERANCE))


def benchmark(path: Path, shapes: Sequence[Any], original: Function, rng: random.Random) -> None:
    function = harness.load(Path.cwd(), problem.SOURCE, problem.FUNCTION)
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("label", *problem.SIZE_NAMES, "class", "Check", "Time (ms)"))
        for shape in shapes:
            count = calls_for(4 * VISIT_US, warm_us(function, shape, rng))
            times = [time_us(function, make(rng, shape, count))[0] for _ in range(SAMPLES)]
            check = "FAIL" if find_wrong(function, original, make(rng, shape, 1)[0]) else "PASS"
            sizes = [shape.sizes[name] for name in problem.SIZE_NAMES]
            out.writerow((shape.label, *sizes, shape.config_class, check, f"{statistics.median(times) * 1e-3:.9f}"))


def block_of(sides: Sequence[Function], shape: Any, count: int, passes: int, rng: random.Random) -> tuple[Any, ...]:
    """In the harness that `init` writes: passes A B B A or B A A B, the one with the median ratio. No side sees arguments twice."""
    runs = []
    for _ in range(passes):
        side = rng.randrange(2)
        order = (side, 1 - side, 1 - side, side)
        halves = [make(rng, shape, count) for _ in range(2)]
        slots = [time_us(sides[side], halves[place // 2]) for place, side in enumerate(order)]
        ratio = sum(math.log(us) if side else -math.log(us) for side, (us, _) in zip(order, slots, strict=True))
        runs.append((ratio, order, slots))
    runs.sort(key=lambda row: row[0])
    return runs[len(runs) // 2][1:]


def pair(options: argparse.Namespace, shapes: Sequence[Any], original: Function, rng: random.Random) -> None:
    sides = [harness.load(folder, problem.SOURCE, problem.FUNCTION) for folder in options.pair]
    with options.csv.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(HEADER)
        for shape in shapes:
            slower = max(warm_us(side, shape, rng) for side in sides)
            count = calls_for(VISIT_US, slower)
            passes = min(MOST_PASSES, max(1, math.ceil(BLOCK_US / (4 * count * slower))) // 2 * 2 + 1)
            for block in range(options.blocks):
                order, slots = block_of(sides, shape, count, passes, rng)
                shared = int(any(interrupted for _, interrupted in slots))
                at = time.monotonic() * 1e6
                for slot, (side, (us, _)) in enumerate(zip(order, slots, strict=True)):
                    out.writerow((shape.label, block, slot, "ab"[side], f"{us:.6f}", f"{at:.0f}", shared))
                arguments = make(rng, shape, 1)[0]
                for name, side in zip("ab", sides, strict=True):
                    if wrong := find_wrong(side, original, arguments):
                        print(f"MISMATCH label={shape.label} block={block} side={name}{wrong}")
                        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times the function; see the head of this file.")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--shapes", default="all")
    parser.add_argument("--pair", nargs=2, type=Path, metavar=("A_DIR", "B_DIR"))
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--profile", metavar="LABEL")
    options = parser.parse_args()
    rng = random.Random(secrets.randbits(32) if options.seed is None else options.seed)
    labels = (options.profile or options.shapes).split(",")
    shapes = [shape for shape in problem.SHAPES if shape.timed and (labels == ["all"] or shape.label in labels)]
    original = harness.load(Path.cwd(), problem.SOURCE, problem.FUNCTION, text_from=harness.HERE / "original.py")
    gc.disable()
    if options.profile:
        function = harness.load(Path.cwd(), problem.SOURCE, problem.FUNCTION)
        print(f"calls=1\nkernel_time_us={time_us(function, make(rng, shapes[0], 1))[0]:.3f}")
    elif options.csv is None:
        parser.error("--csv FILE is missing")
    elif options.pair:
        pair(options, shapes, original, rng)
    else:
        benchmark(options.csv, shapes, original, rng)


main()
