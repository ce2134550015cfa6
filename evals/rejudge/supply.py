"""Answers what a rule wants measured from what was recorded, as the timer would, and says when nothing is left."""

import math
import statistics

from ridgeline.evals.rejudge.cases import Case
from ridgeline.evals.rejudge.samples import Process, Side
from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Benchmark, Measured, Row
from ridgeline.graph.limits import Limits
from ridgeline.graph.policy.measure import wanted
from ridgeline.graph.policy.paired import merge
from ridgeline.graph.policy.score import aggregate, gain, higher_wins
from ridgeline.graph.standing import BenchmarkWant, CompareWant
from ridgeline.graph.trial import Applied, Timed, Traced, find


class Exhausted(Exception):
    """The rule wants more than was recorded."""


def measured(case: Case, limits: Limits) -> Traced:
    """The trial with everything that the rules of `limits` want. Raises Exhausted, naming what is not recorded."""
    trial: Timed | None = None
    while (want := wanted(trial or case.verified, case.standing, limits)) is not None:
        found = compared(case, want) if isinstance(want, CompareWant) else run(case, want)
        trial = Timed(verified=case.verified, evidence=(*(trial.evidence if trial else ()), found))
    timed = trial or Timed(verified=case.verified, evidence=())
    return Traced(timed=timed, profile=case.profile)


def compared(case: Case, want: CompareWant) -> Measured:
    """Recorded pairs of these numbers."""
    chosen = case.comparisons[want.first_pair : want.first_pair + want.pairs]
    if len(chosen) < want.pairs:
        raise Exhausted(f"pair {len(case.comparisons) + 1}")
    return merge(chosen)


def run(case: Case, want: BenchmarkWant) -> Benchmark:
    """One ordinary run of one version: the recorded one first, then what single processes of the pairs say.

    Identical versions have no run of their own: the candidate's is that of another process than the best version's.
    """
    reference = case.standing.full or case.standing.quick
    if want.repeat == 0 and want.which == "best":
        return _labelled(case, reference, want)
    if want.repeat == 0 and case.bench is not None:
        return _labelled(case, case.bench, want)
    place = want.repeat - (0 if case.bench is None else 1)
    if not 0 <= place < len(case.processes):
        raise Exhausted(f"run {want.repeat + 1} of the {want.which}")
    process = case.processes[place]
    scoring = case.standing.contract.scoring
    rows = tuple(_row(row, process, want.which, scoring, _usual(case, row.label)) for row in reference.rows)
    return _labelled(case, reference.model_copy(update={"rows": rows}), want)


def stored_gain(case: Case) -> float | None:
    """ln of the speedup by one run of the candidate and the stored run of the best version, taken at another time."""
    if case.bench is None:
        return case.processes[-1].level("best") - case.processes[0].level("candidate") if case.processes else None
    scoring, labels = case.standing.contract.scoring, {row.label for row in case.bench.rows}
    reference = case.standing.full or case.standing.quick
    rows = [row for row in reference.rows if row.label in labels]
    ours, theirs = aggregate(case.bench.rows, scoring), aggregate(rows, scoring)
    return math.log1p(gain(ours, theirs, higher_wins(scoring)))


def _usual(case: Case, label: str) -> float:
    """Median over processes of the best version's mean time, in microseconds."""
    return statistics.median([process.mean("best", label) for process in case.processes])


def _row(row: Row, process: Process, side: Side, scoring: Scoring, usual: float) -> Row:
    """A recorded row of the best version as that process saw that side of it."""
    faster = usual / process.mean(side, row.label)
    factor = faster if higher_wins(scoring) else 1 / faster
    rated = {*scoring.primary_metric, scoring.forward, scoring.backward}
    metrics = (m.model_copy(update={"value": m.value * factor}) if m.name in rated else m for m in row.metrics)
    return row.model_copy(update={"metrics": tuple(metrics), "check": "PASS"})


def _labelled(case: Case, found: Benchmark, want: BenchmarkWant) -> Benchmark:
    applied = find(case.verified, Applied)
    assert applied is not None
    labels = case.standing.all_shapes if want.level == "full" else case.standing.shapes
    rows = tuple(row for row in found.rows if row.label in labels)
    commit = case.standing.commit if want.which == "best" else applied.commit
    return found.model_copy(update={"commit": commit, "level": want.level, "repeat": want.repeat, "rows": rows})
