"""Times kernel.py, or two of them against each other, on the GPU. The same file serves each Triton task.

python3 -P -B bench.py --csv FILE [--shapes a,b]                                       one row per shape
python3 -P -B bench.py --pair A_DIR B_DIR --csv FILE --shapes a,b --blocks N --seed S  one row per timed slot
python3 -P -B bench.py --profile LABEL                                                 a few calls, for a profiler

A slot is a CUDA (or HIP) graph of many calls, replayed between two events: what the host does is not in it. Calls take
turns over inputs and outputs that together exceed the L2 cache three times. Before each slot one row of the last call's
input is new, and after it that row must be right. Exits 1 when a timed call was wrong, 2 when it cannot run.
"""

import argparse
import csv
import math
import random
import secrets
import statistics
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


def sibling(name: str) -> types.ModuleType:
    """A module of this folder from its source alone: other things that lie here may come from an earlier candidate."""
    path = Path(__file__).resolve().parent / f"{name}.py"
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = str(path)
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module


import torch  # noqa: E402

problem = sibling("problem")
harness = sibling("harness")
HEADER = (
    "label",
    *problem.DIMENSIONS,
    "Check",
    f"Forward {problem.METRIC}",
    f"Forward {problem.METRIC}_stddev",
    "Forward Time (ms)",
    "regime",
)
PAIR_HEADER = ("label", "block", "slot", "side", "time_us")
SAMPLES = 7
PASSES = 3  # of a block; the one with the median ratio is reported
GRAPH_US = 1000.0  # long enough that starting a graph does not count
SLOT_US = 2000.0
WARM_US = 100e3  # of each shape, before anything is timed
COLD = 3.0  # what the calls touch in turn, in units of the L2 cache
MOST_SETS = 48
PROFILED_CALLS = 3
NO_CACHE_SIZE = 64 << 20  # bytes of L2 where the driver does not tell
OFF = 4 * problem.LEAST_ERROR  # relative error of a row or of a result

Data = tuple[torch.Tensor, ...]


def give_up(why: str) -> None:
    print(f"error: {why}", file=sys.stderr)
    sys.exit(2)


class Case:
    """One shape: sets of inputs, and whether any judged call was wrong."""

    def __init__(self, shape: problem.Shape, seed: int) -> None:
        self.shape = shape
        self.rng = harness.generator(seed)
        self.picks = random.Random(seed)
        first = problem.inputs(shape, "normal", self.rng)
        size = sum(tensor.nbytes for tensor in first) + problem.DTYPE.itemsize * math.prod(problem.output(shape))
        cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or NO_CACHE_SIZE
        count = min(MOST_SETS, max(2, math.ceil(COLD * cache / size)))
        self.sets = [first, *(problem.inputs(shape, "normal", self.rng) for _ in range(count - 1))]
        self.wrong = torch.zeros((), dtype=torch.bool, device=harness.DEVICE)

    def touch(self) -> int:
        """A new row in the set that the last call of a graph reads; which one."""
        row = self.picks.randrange(self.shape.d[0])
        problem.touch(self.sets[-1], row, self.rng)
        return row

    def judge(self, out: torch.Tensor, row: int) -> None:
        """Look at that row. The answer stays on the device, so that looking does not wait."""
        at = torch.tensor([row], device=harness.DEVICE)
        value, _ = problem.exact(self.sets[-1], at)
        self.wrong |= ~(harness.distance(out[at], value) <= OFF)


class Calls:
    """A graph of `count` calls, a multiple of the number of sets; each has its own input, and an output of its own."""

    def __init__(self, run: harness.Run, case: Case, count: int) -> None:
        self.count = count
        self.outs: list[torch.Tensor | None] = [None] * len(case.sets)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # compiles, and loads what was compiled: neither may happen in a capture
            for data in case.sets[:2]:
                run(*data)
        torch.cuda.current_stream().wait_stream(aside)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # that stream's outputs: no other stream would use their memory again
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for i in range(count):
                place = i % len(case.sets)
                self.outs[place] = run(*case.sets[place])
        self.graph.replay()
        torch.cuda.synchronize()

    @property
    def last(self) -> torch.Tensor:
        """The output of the last call, which read the last set."""
        out = self.outs[-1]
        if out is None:
            raise RuntimeError("the graph holds no call")
        return out

    def slot(self, replays: int) -> float:
        """Microseconds per call. The replay before the first event keeps the device busy while the rest is queued."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.graph.replay()
        start.record()
        for _ in range(replays):
            self.graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3 / (replays * self.count)

    def judged_slot(self, case: Case, replays: int) -> float:
        """A slot on new data whose last call must be right."""
        row = case.touch()
        us = self.slot(replays)
        case.judge(self.last, row)
        return us


def prepared(runs: Iterable[harness.Run], case: Case) -> tuple[list[Calls], int]:
    """A graph per kernel, all with the same number of calls, on a warm device; and how many replays fill a slot."""
    listed, sets = list(runs), len(case.sets)
    slowest = max(Calls(run, case, sets).slot(2) for run in listed)
    count = sets * max(1, math.ceil(GRAPH_US / (slowest * sets)))
    graphs = [Calls(run, case, count) for run in listed]
    for graph in graphs:
        graph.slot(max(1, math.ceil(WARM_US / (slowest * count * len(graphs)))))
    return graphs, max(1, math.ceil(SLOT_US / (slowest * count)))


def all_right(case: Case, graphs: list[Calls]) -> bool:
    """Whether every judged row was right, and the whole last output of each kernel is what torch gives."""
    for graph in graphs:  # the other side's last slot changed a row after this one's
        graph.graph.replay()
    wanted = problem.trusted(case.sets[-1])
    whole = [bool(harness.distance(graph.last, wanted) <= OFF) for graph in graphs]
    return all(whole) and not bool(case.wrong)


def selected(wanted: str | None) -> list[problem.Shape]:
    """The shapes that --shapes names, in the task's order."""
    if wanted in (None, "all"):
        return list(problem.BENCHED)
    labels = set(str(wanted).split(","))
    if unknown := labels - {shape.label for shape in problem.BENCHED}:
        give_up(f"no shape has the label {', '.join(sorted(unknown))}")
    return [shape for shape in problem.BENCHED if shape.label in labels]


def row_of(shape: problem.Shape, seed: int, run: harness.Run) -> list[object]:
    case = Case(shape, seed)
    (graph,), replays = prepared([run], case)
    us = [graph.judged_slot(case, replays) for _ in range(SAMPLES)]
    rates = [problem.work(shape) / (time * 1e-6) for time in us]
    check = "PASS" if all_right(case, [graph]) else "FAIL"
    numbers = (f"{statistics.median(rates):.4f}", f"{statistics.stdev(rates):.4f}")
    return [shape.label, *shape.d, check, *numbers, f"{statistics.median(us) * 1e-3:.6f}", shape.regime]


def benchmark(path: Path, shapes: list[problem.Shape], seed: int) -> None:
    run = harness.kernel(harness.HERE, "kernel")
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(HEADER)
        for shape in shapes:
            out.writerow(row_of(shape, seed, run))


class Pass(NamedTuple):
    """Four slots, a b b a or b a a b, in microseconds per call."""

    sides: str
    us: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Sum of ln(b) less sum of ln(a)."""
        return sum(math.log(us) if side == "b" else -math.log(us) for side, us in zip(self.sides, self.us, strict=True))


def block_of(case: Case, graphs: list[Calls], replays: int) -> Pass:
    """A few short passes, of which the one with the median ratio: an interruption spoils one of them only."""
    passes = []
    for _ in range(PASSES):
        sides = case.picks.choice(("abba", "baab"))
        us = tuple(graphs["ab".index(side)].judged_slot(case, replays) for side in sides)
        passes.append(Pass(sides, us))
    return sorted(passes, key=lambda one: one.ratio)[PASSES // 2]


def pair(folders: list[Path], path: Path, shapes: list[problem.Shape], *, blocks: int, seed: int) -> None:
    runs = [harness.kernel(folder, f"kernel_{side}") for side, folder in zip("ab", folders, strict=True)]
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(PAIR_HEADER)
        for number, shape in enumerate(shapes):
            case = Case(shape, seed + number)
            graphs, replays = prepared(runs, case)
            for block in range(blocks):
                best = block_of(case, graphs, replays)
                for slot, (side, us) in enumerate(zip(best.sides, best.us, strict=True)):
                    out.writerow([shape.label, block, slot, side, f"{us:.6f}"])
            if not all_right(case, graphs):
                print(f"MISMATCH label={shape.label} rel_err=inf: a timed call gave a wrong answer")
                sys.exit(1)


def profile(label: str, seed: int) -> None:
    """A few calls one after the other, on cold caches; a device that is busy meanwhile hides what the host does."""
    case = Case(selected(label)[0], seed)
    run = harness.kernel(harness.HERE, "kernel")
    run(*case.sets[0])
    busy = torch.empty(1 << 28, dtype=torch.int8, device=harness.DEVICE)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    for _ in range(20):
        busy.zero_()
    start.record()
    for i in range(PROFILED_CALLS):
        run(*case.sets[i % len(case.sets)])
    end.record()
    end.synchronize()
    print(f"calls={PROFILED_CALLS}\nkernel_time_us={float(start.elapsed_time(end)) * 1e3 / PROFILED_CALLS:.3f}")


def main() -> None:
    options = argparse.ArgumentParser(description="Times kernel.py; see the head of this file.")
    options.add_argument("--csv", type=Path)
    options.add_argument("--shapes")
    options.add_argument("--pair", nargs=2, type=Path, metavar=("A_DIR", "B_DIR"))
    options.add_argument("--blocks", type=int, default=5)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--profile", metavar="LABEL")
    said = options.parse_args()
    seed = secrets.randbits(32) if said.seed is None else said.seed
    shapes = selected(said.profile or said.shapes)
    if not harness.GPU:
        give_up("torch finds no GPU, and nothing else is worth timing; test.py checks the kernel in an interpreter")
    if said.profile:
        profile(said.profile, seed)
    elif said.csv is None:
        give_up("--csv FILE is missing")
    elif said.pair:
        pair(said.pair, said.csv, shapes, blocks=said.blocks, seed=seed)
    else:
        benchmark(said.csv, shapes, seed)


if __name__ == "__main__":
    main()
