"""How deep to look after how many rollbacks in a row, and what that finds: machine code, then the best known kernel."""

from collections.abc import Sequence

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Profiled, Row
from ridgeline.graph.rules.gates import is_same_rung
from ridgeline.graph.rules.history import best_profile, best_round, standing
from ridgeline.graph.rules.score import higher_wins, row_score
from ridgeline.graph.rules.stagnation import consecutive_rollbacks
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Traced, find

REPROFILE_AT = 2
"""From the second rollback in a row on, the best version is profiled afresh."""
INSPECT_AT = 3
"""From the third on, its machine code is laid beside the original's and the last candidate's."""
COMPARE_AT = 4
"""From the fourth on, its times beside those of the best known kernel."""
_STEPS = (
    "",
    "diagnose the rollback: did the change reach the hot path? Then another approach to the same bottleneck",
    "profile the best version afresh with every profiler at hand and classify its bottleneck again",
    "inspect the machine code of the hot loop against a reference",
    "compare with the best known kernel for this operator and take a different approach",
)
CODE_COUNTERS = frozenset({"instructions", "branches", "vectorized_loops", "missed_vectorizations", "explicit_vectors"})
"""Of a processor's profile, what is a property of the code that ran."""
CODE_RUNGS = frozenset({"isa", "compiler_report"})
"""Of a card's, what its tools read from the compiled code."""
MOST = 12
"""Numbers of machine code that are laid side by side, those that differ most first."""
DETAIL = 200
"""Characters of why it could not be measured."""
TIERS = (
    (0.5, "far from it: go on with what bounds the kernel"),
    (0.8, "within reach: profile methodically, shape by shape"),
    (1.0, "near it: what is left is in the machine code"),
)
"""Below which share of the best known kernel's speed the rule says what (rule R10)."""


def advise_escalation(streak: int) -> str:
    """What to look at after so many rollbacks in a row; empty after none."""
    return _STEPS[min(max(streak, 0), len(_STEPS) - 1)]


def needs_best_known(history: History) -> bool:
    """Whether the best known kernel is to be measured now: once in a campaign, where the contract names one."""
    deep = consecutive_rollbacks(history.rounds) >= COMPARE_AT
    return deep and history.contract.best_known is not None and read_best_known(history) is None


def read_best_known(history: History) -> Benchmark | BenchmarkFailed | None:
    """Times of the best known kernel, from the round that took them, or why it has none; None before that."""
    return next((closed.best_known for closed in reversed(history.rounds) if closed.best_known is not None), None)


def diagnose(history: History, *, best_known: Benchmark | BenchmarkFailed | None = None) -> tuple[str, ...]:
    """What the rollbacks at the end of `history` had looked at, a line each; empty after fewer than three.

    `best_known`: as the open round measured it, which is not in the history yet.
    """
    streak, lines = consecutive_rollbacks(history.rounds), list[str]()
    if streak >= INSPECT_AT:
        lines += _inspect_machine_code(history)
    if streak >= COMPARE_AT:
        lines += _compare_best_known(history, best_known or read_best_known(history))
    return tuple(lines)


def _inspect_machine_code(history: History) -> list[str]:
    """Numbers of the compiled code: best version against the original, and the last candidate against the best."""
    best, last = best_profile(history), history.rounds[-1]
    traced = find(last.judged, Traced)
    original = history.baseline.profile if history.baseline else None
    lines: list[str] = []
    if best_round(history) is not None:
        lines += compare_machine_code(best, original, names=("best version", "the original"))
    candidate = traced.profile if traced else None
    return lines + compare_machine_code(candidate, best, names=(f"rolled-back round {last.round}", "the best version"))


def compare_machine_code(after: Profiled | None, before: Profiled | None, *, names: tuple[str, str]) -> list[str]:
    """Each number of the code that both were seen with, `before` -> `after`; where nothing can be compared, why."""
    head = f"machine code of {names[0]} against {names[1]}"
    if after is None or before is None:
        return [f"{head}: not both were profiled"]
    if not is_same_rung(before, after):
        return [f"{head}: seen by {before.rung} and {after.rung}, which are not compared"]
    pairs = [
        (counter.name, value, counter.value)
        for counter in after.counters
        if _is_of_code(after, counter.name)
        and (value := before.counter(counter.name)) is not None
        and before.rung_of(counter.name) == after.rung_of(counter.name)
    ]
    if not pairs:
        return [f"{head}: {after.rung} says nothing of it; `ridgeline isa` compiles and reads a kernel"]
    changed = sorted((pair for pair in pairs if pair[1] != pair[2]), key=_rank_change)
    shown = ", ".join(f"{name} {old:g} -> {new:g}" for name, old, new in changed[:MOST])
    same = len(pairs) - len(changed)
    return [
        f"{head}: {shown or 'the same in every number'}{f'; {same} numbers are the same' if same and shown else ''}"
    ]


def _is_of_code(profile: Profiled, name: str) -> bool:
    """Whether a number is a property of the compiled code."""
    return name in CODE_COUNTERS or (bool(profile.origins) and profile.rung_of(name) in CODE_RUNGS)


def _rank_change(pair: tuple[str, float, float]) -> tuple[float, str]:
    """Sort key of changed counters: the largest relative change first."""
    name, old, new = pair
    return -abs(new - old) / max(abs(old), abs(new)), name


def _compare_best_known(history: History, run: Benchmark | BenchmarkFailed | None) -> list[str]:
    """Each shape of the best version beside the best known kernel; told, and nothing is decided by it."""
    known = history.contract.best_known
    if known is None:
        return ["best known kernel: the contract names none (`best_known`), so nothing is compared with it"]
    if not isinstance(run, Benchmark):
        why = f": {run.reason}: {run.detail[:DETAIL]}" if run else ""
        return [f"best known kernel ({known.name}): not measured{why}"]
    best = standing(history)
    rows = {row.label: row for row in (best.full or best.quick).rows}
    return describe_best_known(known.name, run.rows, rows, history.contract.scoring)


def describe_best_known(name: str, theirs: Sequence[Row], ours: dict[str, Row], scoring: Scoring) -> list[str]:
    """The best version's speed as a share of the best known kernel's, by shape, and what the rule says to that."""
    shares = {
        row.label: _share(row_score(ours[row.label], scoring), row_score(row, scoring), scoring)
        for row in theirs
        if row.label in ours and row.check == ours[row.label].check == "PASS"
    }
    if not shares:
        return [f"best known kernel ({name}): no shape is right in both"]
    worst = min(shares, key=lambda label: shares[label])
    text = ", ".join(f"{label} {100 * share:.0f} %" for label, share in shares.items())
    advice = next((words for limit, words in TIERS if shares[worst] < limit), "past it everywhere: go on, and say so")
    return [f"best known kernel ({name}): the best version has {text} of its speed; at {worst} {advice}"]


def _share(ours: float, theirs: float, scoring: Scoring) -> float:
    """Of their speed; of numbers that are better when lower, the other way round."""
    return ours / theirs if higher_wins(scoring) else theirs / ours
