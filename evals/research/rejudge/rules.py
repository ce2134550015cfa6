"""The rules: Ridgeline's presets, judged by the very policy that judges campaigns, and those of the field."""

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Literal

from ridgeline.evals.research.rejudge.cases import Case, Process, Side
from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Benchmark, Measured, Row
from ridgeline.graph.limits import PRESETS, Limits
from ridgeline.graph.rules.acceptance import choose_measurement, decide_verdict
from ridgeline.graph.rules.score import aggregate, gain, higher_wins
from ridgeline.graph.standing import BenchmarkWant, CompareWant
from ridgeline.graph.stats.paired import merge_comparisons
from ridgeline.graph.trial import Applied, Timed, Traced, find
from ridgeline.graph.values import Value

Answer = Literal["kept", "dropped", "unrecorded"]
"""unrecorded: the rule wants more measurements than the campaign took, so nobody can say."""
ONE_PERCENT = math.log(1.01)
LEVEL = 0.01
"""Nominal false-accept rate of the rank test."""


class Ruling(Value):
    """What one rule says of one case."""

    answer: Answer
    claimed: float = 0.0
    """ln of the speedup that the rule would report; 0.0 unless kept."""
    why: str = ""


class Rule(Value):
    """A way to decide."""

    name: str
    description: str
    """One line: who decides so, and how."""
    decide: Callable[[Case], Ruling]


def preset(name: str, description: str, limits: Limits) -> Rule:
    """For rejudging: a rule that judges as a preset of Ridgeline, or with any limits, does."""
    return Rule(name=name, description=description, decide=lambda case: _by_policy(case, limits))


def rules() -> tuple[Rule, ...]:
    """All rules to rejudge by, ours first."""
    return (
        preset("evidence", "interleaved pairs, bound above a margin, checked at every look", PRESETS["evidence"]),
        preset("campaign", "single runs; near noise three more, mean and spread", PRESETS["campaign"]),
        preset("router", "one run; any gain that passes the gates", PRESETS["router"]),
        preset("autonomous", "full runs; within noise twice in the same direction", PRESETS["autonomous"]),
        Rule(name="mean", description="one run each, at different times; the smaller mean wins", decide=_mean),
        Rule(name="one-percent-twice", description="at least 1 % in both of two runs", decide=_twice),
        Rule(name="rank-test", description="all samples unpaired, Mann-Whitney one-sided at 1 %", decide=_ranks),
        Rule(name="best-of-k", description="the fastest of all runs of each; the smaller wins", decide=_best_of),
    )


def _by_policy(case: Case, limits: Limits) -> Ruling:
    try:
        trial = run_rules(case, limits)
    except RecordExhausted as wanted:
        return Ruling(answer="unrecorded", why=f"wants {wanted}, which was not taken")
    verdict = decide_verdict(trial, case.standing, limits, best_profile=case.best_profile)
    if not verdict.accepted or verdict.gain is None:
        return Ruling(answer="dropped", why=verdict.reason)
    return Ruling(answer="kept", claimed=math.log1p(verdict.gain), why=verdict.reason)


def _kept_if(condition: bool, claimed: float, why: str) -> Ruling:
    return Ruling(answer="kept", claimed=claimed, why=why) if condition else Ruling(answer="dropped", why=why)


def _mean(case: Case) -> Ruling:
    gain = stored_gain(case)
    if gain is None:
        return Ruling(answer="unrecorded", why="wants a run of each")
    return _kept_if(gain > 0, gain, f"{math.expm1(gain):+.2%}")


def _twice(case: Case) -> Ruling:
    gains = [process.level("best") - process.level("candidate") for process in case.processes[:2]]
    why = ", ".join(f"{math.expm1(gain):+.2%}" for gain in gains)
    if any(gain < ONE_PERCENT for gain in gains):
        return Ruling(answer="dropped", why=why)
    if len(gains) < 2:
        return Ruling(answer="unrecorded", why="wants a second run")
    return _kept_if(True, statistics.fmean(gains), why)


def _best_of(case: Case) -> Ruling:
    if not case.processes:
        return Ruling(answer="unrecorded", why="wants runs of each")
    best, candidate = (min(process.level(side) for process in case.processes) for side in ("best", "candidate"))
    return _kept_if(candidate < best, best - candidate, f"{math.expm1(best - candidate):+.2%} of {len(case.processes)}")


def _ranks(case: Case) -> Ruling:
    """For rejudging: every sample on the scale of its shape, all processes in one heap."""
    best: list[float] = []
    candidate: list[float] = []
    for process in case.processes:
        for shape in process.shapes:
            middle = _usual(case, shape.label)
            best += [math.log(time) - middle for time in shape.best]
            candidate += [math.log(time) - middle for time in shape.candidate]
    if not best:
        return Ruling(answer="unrecorded", why="wants samples")
    chance = rank_test(candidate, best)
    return _kept_if(chance < LEVEL, statistics.fmean(best) - statistics.fmean(candidate), f"p = {chance:.2g}")


def _usual(case: Case, label: str) -> float:
    """For rejudging: mean logarithm of all times of that shape, either version."""
    shapes = [shape for process in case.processes for shape in process.shapes if shape.label == label]
    return statistics.fmean([math.log(time) for shape in shapes for time in (*shape.best, *shape.candidate)])


def rank_test(smaller: Sequence[float], larger: Sequence[float]) -> float:
    """For rejudging: one-sided p of Mann-Whitney that the first are no smaller: normal approximation, corrected for ties.

    Good from about ten values on each side.
    """
    n, m = len(smaller), len(larger)
    ordered = sorted([(value, True) for value in smaller] + [(value, False) for value in larger])
    rank, ranks, ties = 0, 0.0, 0.0
    for _, group in groupby(ordered, key=lambda item: item[0]):
        members = list(group)
        ranks += sum(smaller_side for _, smaller_side in members) * (rank + (len(members) + 1) / 2)
        ties += len(members) ** 3 - len(members)
        rank += len(members)
    total = n + m
    spread = math.sqrt(n * m / 12 * (total + 1 - ties / (total * (total - 1))))
    if spread == 0:
        return 1.0
    return statistics.NormalDist().cdf((ranks - n * (n + 1) / 2 - n * m / 2 + 0.5) / spread)


# Answers what a rule wants measured from what was recorded, as the timer would, and says when nothing is left.


class RecordExhausted(Exception):
    """The rule wants more than was recorded."""


def run_rules(case: Case, limits: Limits) -> Traced:
    """For rejudging: the trial with everything that the rules of `limits` want. Raises Exhausted, naming what is not recorded."""
    trial: Timed | None = None
    while (want := choose_measurement(trial or case.verified, case.standing, limits)) is not None:
        evidence = read_pairs(case, want) if isinstance(want, CompareWant) else run(case, want)
        trial = Timed(verified=case.verified, evidence=(*(trial.evidence if trial else ()), evidence))
    timed = trial or Timed(verified=case.verified, evidence=())
    return Traced(timed=timed, profile=case.profile)


def read_pairs(case: Case, want: CompareWant) -> Measured:
    """Recorded pairs of these numbers, for rejudging."""
    chosen = case.comparisons[want.first_pair : want.first_pair + want.pairs]
    if len(chosen) < want.pairs:
        raise RecordExhausted(f"pair {len(case.comparisons) + 1}")
    return merge_comparisons(chosen)


def run(case: Case, want: BenchmarkWant) -> Benchmark:
    """For rejudging, one ordinary run of one version: the recorded one first, then what single processes of the pairs say.

    Identical versions have no run of their own: the candidate's is that of another process than the best version's.
    """
    reference = case.standing.full or case.standing.quick
    if want.repeat == 0 and want.which == "best":
        return _label(case, reference, want)
    if want.repeat == 0 and case.bench is not None:
        return _label(case, case.bench, want)
    place = want.repeat - (0 if case.bench is None else 1)
    if not 0 <= place < len(case.processes):
        raise RecordExhausted(f"run {want.repeat + 1} of the {want.which}")
    process = case.processes[place]
    scoring = case.standing.contract.scoring
    rows = tuple(_row(row, process, want.which, scoring, _supply_usual(case, row.label)) for row in reference.rows)
    return _label(case, reference.model_copy(update={"rows": rows}), want)


def stored_gain(case: Case) -> float | None:
    """A rule to rejudge by: ln of the speedup by one run of the candidate and the stored run of the best version."""
    if case.bench is None:
        return case.processes[-1].level("best") - case.processes[0].level("candidate") if case.processes else None
    scoring, labels = case.standing.contract.scoring, {row.label for row in case.bench.rows}
    reference = case.standing.full or case.standing.quick
    rows = [row for row in reference.rows if row.label in labels]
    ours, theirs = aggregate(case.bench.rows, scoring), aggregate(rows, scoring)
    return math.log1p(gain(ours, theirs, higher_wins(scoring)))


def _supply_usual(case: Case, label: str) -> float:
    """For rejudging: median over processes of the best version's mean time, in microseconds."""
    return statistics.median([process.mean("best", label) for process in case.processes])


def _row(row: Row, process: Process, side: Side, scoring: Scoring, usual: float) -> Row:
    """For rejudging: a recorded benchmark row of the best version as that process saw that side of it."""
    faster = usual / process.mean(side, row.label)
    factor = faster if higher_wins(scoring) else 1 / faster
    rated = {*scoring.primary_metric, scoring.forward, scoring.backward}
    metrics = (m.model_copy(update={"value": m.value * factor}) if m.name in rated else m for m in row.metrics)
    return row.model_copy(update={"metrics": tuple(metrics), "check": "PASS"})


def _label(case: Case, run: Benchmark, want: BenchmarkWant) -> Benchmark:
    applied = find(case.verified, Applied)
    assert applied is not None
    labels = case.standing.all_shapes if want.level == "full" else case.standing.shapes
    rows = tuple(row for row in run.rows if row.label in labels)
    commit = case.standing.commit if want.which == "best" else applied.commit
    return run.model_copy(update={"commit": commit, "level": want.level, "repeat": want.repeat, "rows": rows})
