"""`python -m ridgeline.evals.research.noise`: the shipped recordings as Markdown tables, judged again by the rule of preset `evidence`."""

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from ridgeline.evals.research.noise.recordings import KernelRecord, load, recordings
from ridgeline.evals.research.noise.rejudge import Case, Tally, effect, noises, scatter_of, tally
from ridgeline.graph.limits import Limits

HEAD = (
    "| kernel | engine | us | block sd | process sd | twins differ by | first captured slower by | level sd |\n"
    "|---|---|--:|--:|--:|--:|--:|--:|"
)
JUDGED = (
    "| kernel | engine | sd of a pair | twins kept | planted gain | kept within 2 | kept at all (mean pairs) "
    "| +1 % kept within 4 | kept at all (mean pairs) | more work kept | s/pair |\n"
    "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def tables(path: Path, limits: Limits, *, orders: int) -> Iterator[str]:
    """The noise of each kernel of one recording, then what the rule decides. Raises RecordingError."""
    kernels = sorted(load(path), key=lambda recorded: (recorded.level_us, recorded.engine))
    yield f"### {kernels[0].name}: {len(kernels[0].processes)} processes\n"
    yield HEAD
    yield from (_noise_row(recorded) for recorded in kernels)
    yield f"\n{orders} resampled orders, {limits.blocks} blocks a pair, alpha {limits.alpha:.0%}:\n"
    yield JUDGED
    yield from (_judged_row(recorded, limits, orders) for recorded in kernels)


def _noise_row(recorded: KernelRecord) -> str:
    scatter = scatter_of(recorded)
    return (
        f"| {recorded.kernel} | {recorded.engine} | {scatter.level_us:.1f} | {scatter.block_sd:.2%} "
        f"| {scatter.process_sd:.2%} | {scatter.offset:+.2%} ± {scatter.offset_error:.2%} "
        f"| {scatter.order_offset:+.2%} ± {scatter.order_error:.2%} | {scatter.level_sd:.1%} |"
    )


def _judged_row(recorded: KernelRecord, limits: Limits, orders: int) -> str:
    def of(case: Case) -> Tally:
        return tally(recorded, case, limits, orders=orders)

    calibrations = noises(recorded, limits, orders=orders)
    twins = [of(Case(best="A", candidate="B")), of(Case(best="B", candidate="A"))]
    planted, small = of(Case(best="C", candidate="A")), of(Case(best="A", candidate="B", gain=0.01))
    slower, seconds = of(Case(best="A", candidate="C")), calibrations[0].seconds_per_pair
    gain = f"{effect(recorded, 'C', 'A'):+.1%}" if recorded.planted else "none"
    return (
        f"| {recorded.kernel} | {recorded.engine} | {statistics.median([noise.sd for noise in calibrations]):.2%} "
        f"| {statistics.fmean([twin.share('faster') for twin in twins]):.1%} | {gain} "
        f"| {planted.share('faster', within=2):.0%} | {_format_kept(planted)} | {small.share('faster', within=4):.0%} "
        f"| {_format_kept(small)} | {slower.share('faster'):.1%} | {f'{seconds:.1f}' if seconds else 'not recorded'} |"
    )


def _format_kept(shares: Tally) -> str:
    return f"{shares.share('faster'):.0%} ({shares.mean_pairs:.1f})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ridgeline.evals.research.noise", description=__doc__)
    parser.add_argument("recordings", nargs="*", type=Path, help="default: those that come with Ridgeline")
    parser.add_argument("--orders", type=int, default=500, help="how often the order of processes is drawn anew")
    parser.add_argument("--blocks", type=int, help="of each process that a pair counts; default: all recorded")
    options = parser.parse_args()
    for path in options.recordings or recordings():
        most = min(len(process.blocks) for recorded in load(path) for process in recorded.processes)
        for line in tables(path, Limits(blocks=options.blocks or most), orders=options.orders):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
