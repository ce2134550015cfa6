"""How often our rule and the field's are wrong, on machines whose truth is known. BENCH_RUNS candidates a cell.

Deterministic: every case has its own seed, so neither the number of processors nor the order changes a number.
"""

import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np

from ridgeline.graph.limits import PRESETS, Limits
from tests.bench.fields import RULES
from tests.bench.simulation_machine import GRID, HARSH, TAILS, Machine
from tests.bench.simulation_ours import Tally, judged
from tests.bench.simulation_search import searched, searched_by
from tests.bench.simulation_shapes import WORLDS, guarded

RUNS = int(os.environ.get("BENCH_RUNS", "2000"))
SEED = 20260926
LIMITS = PRESETS["evidence"]
POWER_SHARE, BROKEN_SHARE, SEARCH_SHARE, SHAPES_SHARE = 5, 2, 20, 40
"""Only the error rate of 1 per cent needs all runs: one in so many goes to power, to what is broken on purpose, to
whole searches and to six shapes at once."""
GAINS = (0.01, 0.02, 0.03)
MOST, MOST_BOUND, LEAST_POWER, MOST_PAIRS = 0.01, 0.015, 0.90, 4.0
TYPICAL = next(machine for machine in GRID if machine.name == "noise 1 %")
WORST = next(machine for machine in GRID if machine.name == "noise 1 %, all of these")
SIDE_BY_SIDE = (TYPICAL, WORST, HARSH)

OURS = "ours"

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A table's line: `work` gives its rows."""

    table: str
    name: str
    work: Callable[["Case", int], Rows]
    machine: Machine
    later: Machine | None = None
    limits: Limits = LIMITS
    detail: str = ""

    @property
    def seed(self) -> list[int]:
        return [SEED, zlib.crc32(f"{self.table}/{self.name}".encode())]


def run() -> Iterator[dict[str, Any]]:
    """Rows as they come; every one has `table`, `case` and `column` for tables.py."""
    workers = min(os.cpu_count() or 1, 8)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for rows in pool.map(_worked, cases(), chunksize=1):
            yield from rows


def cases() -> list[Case]:
    grid = [Case("grid", machine.name, bounded, machine) for machine in (*GRID, HARSH, TAILS)]
    beside = [
        Case(table, f"{name}, {machine.name}", work, machine, detail=name)
        for table, work in (("field", sided), ("search", whole))
        for machine in SIDE_BY_SIDE
        for name in (OURS, *RULES)
    ]
    shapes = [Case("shapes", f"{name}, {TYPICAL.name}", guard, TYPICAL, detail=name) for name in WORLDS]
    return [*grid, *_robust(), *shapes, *beside]


def _robust() -> list[Case]:
    """The rule where its assumptions are broken on purpose."""
    both = (("1 % noise", TYPICAL), ("pair sd 1 %", HARSH))
    where = (("in blocks too", TYPICAL), ("between pairs only", HARSH))
    louder = [
        Case("robust", f"{times:g} times as noisy as calibrated, {seen}", broken, machine, _louder(machine, times))
        for seen, machine in where
        for times in (1.5, 2, 3, 5)
    ]
    shifted = [
        Case("robust", f"identical versions differ by {offset:.1%}, {label}", broken, replace(machine, offset=offset))
        for label, machine in both
        for offset in (0.003, 0.01, 0.014)
    ]
    calibrations = [
        Case("robust", f"calibrated by {pairs} pairs, {label}", broken, machine, limits=_calibrated_by(pairs))
        for label, machine in both
        for pairs in (0, 4, 32)
    ]
    return [*louder, *shifted, *calibrations]


def _calibrated_by(pairs: int) -> Limits:
    return LIMITS.model_copy(update={"calibration_pairs": pairs})


def _louder(machine: Machine, times: float) -> Machine:
    """Noisier in everything, or, where the noise is the pair's, in that alone."""
    if machine.bias is None:
        return replace(machine, noise=machine.noise * times)
    return replace(machine, bias=machine.bias * times)


def bounded(case: Case, runs: int) -> Rows:
    """The bounds that the rule is held to, on one machine."""
    tries = [(0.0, runs), (case.limits.margin, runs), *((gain, runs // POWER_SHARE) for gain in GAINS)]
    null, edge, *gains = judged(case.machine, tries, case.limits, seed=case.seed)
    rows = [*_false(case, "null", null, strict=True), *_false(case, "margin", edge, strict=True)]
    for gain, tally in zip(GAINS, gains, strict=True):
        bound = LEAST_POWER if gain == 0.02 and case.machine.noise <= 0.01 and case.machine.bias is None else None
        ok = None if bound is None else tally.rate >= bound
        rows.append(_row(case, f"power {gain:.0%}", tally.rate, unit="share", bound=bound, ok=ok))
    pairs = null.pairs
    rows.append(_row(case, "null pairs", pairs, unit="pairs", bound=MOST_PAIRS, ok=pairs <= MOST_PAIRS))
    return [*rows, _row(case, "kept pairs", gains[1].pairs_kept, unit="pairs")]


def broken(case: Case, runs: int) -> Rows:
    """No bound: what breaks is reported."""
    runs = runs // BROKEN_SHARE
    tries = [(0.0, runs), (case.limits.margin, runs), (0.02, runs // POWER_SHARE)]
    null, edge, gain = judged(case.machine, tries, case.limits, seed=case.seed, later=case.later)
    rows = [*_false(case, "null", null, strict=False), *_false(case, "margin", edge, strict=False)]
    return [*rows, _row(case, "power 2%", gain.rate, unit="share"), _row(case, "null pairs", null.pairs, unit="pairs")]


def guard(case: Case, runs: int) -> Rows:
    """Six shapes through the whole policy, which costs many times as much."""
    tries = max(runs // SHAPES_SHARE, 20)
    kept, lost = guarded(case.machine, WORLDS[case.detail], tries, case.limits, seed=case.seed)
    return [_row(case, "kept", kept, unit="share"), _row(case, "lost to a shape", lost, unit="share")]


def sided(case: Case, runs: int) -> Rows:
    """Null and +2 % candidates through one rule."""
    if case.detail == OURS:
        null, gain = judged(case.machine, [(0.0, runs), (0.02, runs // BROKEN_SHARE)], case.limits, seed=case.seed)
        values = (null.rate, gain.rate, 2 * null.pairs, 2 * gain.pairs)
    else:
        draw, rule = np.random.default_rng(case.seed), RULES[case.detail]
        off, on = (rule(case.machine, draw, np.full(runs, math.log1p(true))) for true in (0.0, 0.02))
        values = (float(off.kept.mean()), float(on.kept.mean()), float(off.runs.mean()), float(on.runs.mean()))
    columns = (("null kept", "share"), ("power 2%", "share"), ("null runs", "runs"), ("+2 % runs", "runs"))
    return [_row(case, column, value, unit=unit) for (column, unit), value in zip(columns, values, strict=True)]


def whole(case: Case, runs: int) -> Rows:
    """A search of 60 rounds, many times."""
    count = max(runs // SEARCH_SHARE, 10)
    if case.detail == OURS:
        found = searched(case.machine, count, case.limits, seed=_shared_seed(case))
    else:
        found = searched_by(RULES[case.detail], case.machine, 10 * count, seed=_shared_seed(case))
    units = {"wrong": "kept", "runs": "runs"}
    names = ("wrong", "found", "claimed", "at_least", "real", "overclaimed", "runs")
    rows = [_row(case, name, getattr(found, name), unit=units.get(name, "share")) for name in names]
    return [row for row in rows if not math.isnan(row["value"])]


def _shared_seed(case: Case) -> Sequence[int]:
    """Every rule meets the same candidates."""
    return [SEED, zlib.crc32(case.machine.name.encode())]


def _false(case: Case, column: str, tally: Tally, *, strict: bool) -> Rows:
    ok = tally.rate <= MOST and tally.most <= MOST_BOUND if strict else None
    bound = MOST if strict else None
    return [
        _row(case, f"{column} kept", tally.rate, unit="share", bound=bound, ok=ok),
        _row(case, f"{column} kept, at most", tally.most, unit="share", bound=MOST_BOUND if strict else None, ok=ok),
    ]


def _row(
    case: Case, column: str, value: float, *, unit: str, bound: float | None = None, ok: bool | None = None
) -> dict[str, Any]:
    row = {"what": f"{case.name}: {column}", "value": value, "unit": unit, "bound": bound, "ok": ok}
    return row | {"table": case.table, "case": case.name, "column": column}


def _worked(case: Case) -> Rows:
    return case.work(case, RUNS)
