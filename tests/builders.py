"""Small, valid values for tests: every builder has defaults, and a test names only what it is about.

Builders of evidence and of contracts stand in `tests.builders_evidence` and `tests.builders_campaign`; all are
offered here.
"""

from collections.abc import Mapping, Sequence

from ridgeline.graph.evidence import BuildResult, Exit, Profiled
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import BaselineClosed, PredictionCheck, Reflection, RoundClosed
from ridgeline.graph.standing import History, Standing
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.trial import (
    Applied,
    Built,
    Drafted,
    Evidence,
    Failed,
    Formatted,
    Judged,
    Proposed,
    Timed,
    Traced,
    Verified,
)
from ridgeline.graph.values import Cost, FileEdit, Hypothesis, Prediction
from ridgeline.graph.verdict import Decision, Reason, Verdict
from tests.builders_campaign import make_contract, make_limits, make_opened, make_target
from tests.builders_evidence import (
    BASE,
    CANDIDATE,
    COLUMNS,
    MACHINE,
    METRIC,
    SIZES,
    VALUES,
    make_artifact,
    make_benchmark,
    make_comparison,
    make_machine,
    make_profiled,
    make_row,
    make_rows,
    make_scaled,
    make_test,
)

__all__ = [
    "BASE",
    "CANDIDATE",
    "COLUMNS",
    "MACHINE",
    "METRIC",
    "SIZES",
    "VALUES",
    "make_applied",
    "make_artifact",
    "make_baseline",
    "make_benchmark",
    "make_built",
    "make_comparison",
    "make_contract",
    "make_drafted",
    "make_failed",
    "make_history",
    "make_hypothesis",
    "make_judged",
    "make_limits",
    "make_machine",
    "make_noise",
    "make_opened",
    "make_profiled",
    "make_proposed",
    "make_round",
    "make_row",
    "make_rows",
    "make_scaled",
    "make_standing",
    "make_target",
    "make_test",
    "make_timed",
    "make_traced",
    "make_verdict",
    "make_verified",
]


def make_hypothesis(**fields) -> Hypothesis:
    default = {
        "id": "tile-64",
        "lever": "tile",
        "claim": "I expect the time to fall because a tile of 64 fits L1.",
        "change": "tile the inner loops by 64",
        "category": "tile",
        "bucket": "K1",
        "evidence": ("d1_misses 4.1e7 -> the working set leaves L1 -> tile",),
        "risks": "small shapes pay for the extra loop",
        "verification": "d1_misses fall",
        "prediction": Prediction(counter="instructions", direction="down"),
    }
    return Hypothesis(**{**default, **fields})


def make_proposed(round: int = 2, hypothesis: Hypothesis | None = None, **fields) -> Proposed:
    default = {"round": round, "hypothesis": hypothesis or make_hypothesis(), "opened_at": "2026-11-21T10:05:00Z"}
    return Proposed(**{**default, **fields})


def make_drafted(proposed: Proposed | None = None, **fields) -> Drafted:
    default = {
        "proposed": proposed or make_proposed(),
        "edits": (FileEdit(path="kernel.c", text="int tiled;\n"),),
        "explanation": "A tile of 64 keeps both operands in L1.",
    }
    return Drafted(**{**default, **fields})


def make_applied(drafted: Drafted | None = None, *, commit: str = CANDIDATE, **fields) -> Applied:
    default = {
        "drafted": drafted or make_drafted(),
        "commit": commit,
        "tree": commit[::-1],
        "diff": make_artifact("round.diff", commit),
        "snapshot": (make_artifact("kernel.c", commit),),
        "changed": ("kernel.c",),
    }
    return Applied(**{**default, **fields})


def make_built(applied: Applied | None = None, *, ok: bool = True) -> Built:
    applied = applied or make_applied()
    build_exit = Exit(argv=("cc",), returncode=0 if ok else 1, seconds=0.1)
    return Built(applied=applied, build=BuildResult(ok=ok, commit=applied.commit, exit=build_exit))


def make_verified(built: Built | None = None) -> Verified:
    built = built or make_built()
    return Verified(built=built, test=make_test(commit=built.applied.commit))


def make_timed(*evidence: Evidence, verified: Verified | None = None) -> Timed:
    return Timed(verified=verified or make_verified(), evidence=evidence)


def make_traced(
    *evidence: Evidence,
    round: int = 2,
    hypothesis: Hypothesis | None = None,
    profile: Profiled | None = None,
    split: bool = False,
    commit: str = CANDIDATE,
) -> Traced:
    """A measured trial; without evidence it has one full benchmark 8 per cent better than VALUES."""
    drafted = make_drafted(make_proposed(round, hypothesis), split=split)
    verified = make_verified(make_built(make_applied(drafted, commit=commit)))
    return Traced(
        timed=make_timed(*(evidence or (make_scaled(1.08, commit=commit),)), verified=verified), profile=profile
    )


def make_failed(reason: str = "build_failed", *, round: int = 2, hypothesis=None, reached=None, **fields) -> Failed:
    default = {
        "reached": reached or make_drafted(make_proposed(round, hypothesis)),
        "reason": reason,
        "detail": f"detail of {reason}",
    }
    return Failed(**{**default, **fields})


def make_verdict(
    decision: Decision = "accepted", reason: Reason | None = None, *, gain: float | None = 0.08, **fields
) -> Verdict:
    chosen = reason or {"accepted": "faster", "split": "class_regression"}.get(decision, "not_better")
    default = {
        "decision": decision,
        "reason": chosen,
        "correct": "yes",
        "faster": "yes" if decision == "accepted" else "no",
        "own_work": "unverified",
        "gain": gain,
        "sentence": f"{decision}: {chosen}",
    }
    return Verdict(**{**default, **fields})


def make_judged(
    decision: Decision = "accepted",
    reason: Reason | None = None,
    *,
    gain: float | None = 0.08,
    trial: Traced | Failed | None = None,
    verdict: Verdict | None = None,
    formatted: Formatted | None = None,
    **fields,
) -> Judged:
    """`fields` go into the verdict."""
    return Judged(
        trial=trial or make_traced(),
        verdict=verdict or make_verdict(decision, reason, gain=gain, **fields),
        formatted=formatted,
    )


def make_round(
    round: int = 2,
    decision: Decision = "accepted",
    *,
    reason: Reason | None = None,
    gain: float | None = 0.08,
    hypothesis: Hypothesis | None = None,
    judged: Judged | None = None,
    **fields,
) -> RoundClosed:
    """A closed round. Its candidate's commit is derived from the round's number; `fields` go into RoundClosed."""
    commit = f"{round:x}".rjust(2, "0") * 20
    if judged is None:
        trial = make_traced(
            make_scaled(1 + (gain or 0.0), commit=commit), round=round, hypothesis=hypothesis, commit=commit
        )
        judged = make_judged(decision, reason, gain=gain, trial=trial)
    kept = judged.verdict.accepted
    default = {
        "round": round,
        "judged": judged,
        "prediction": PredictionCheck(
            counter="instructions", expected="down", before=None, after=None, outcome="unclear"
        ),
        "reflection": Reflection(attribution="the tile fits L1"),
        "bottleneck": "memory",
        "bottleneck_evidence": "d1_misses high",
        "commit": commit if kept else None,
        "tree": commit[::-1] if kept else "t" * 40,
        "snapshot": (make_artifact("kernel.c", commit),),
        "closed_at": f"2026-11-21T10:{round % 60:02d}:30Z",
        "cost": Cost(tokens=100, wall_seconds=10.0),
    }
    return RoundClosed(**{**default, **fields})


def make_baseline(values: Mapping[str, float] | None = None, **fields) -> BaselineClosed:
    labels = tuple(values or VALUES)
    default = {
        "test": make_test(commit=BASE),
        "project": make_benchmark(values, commit=BASE, source="project"),
        "quick": make_benchmark(values, commit=BASE),
        "representative": labels,
        "quick_log": make_artifact("quick_baseline.log"),
        "classes": ("all",),
        "profile": make_profiled(commit=BASE),
        "bottleneck": "memory",
        "snapshot": (make_artifact("kernel.c", BASE),),
        "opened_at": "2026-11-21T10:00:00Z",
        "cost": Cost(),
    }
    return BaselineClosed(**{**default, **fields})


def make_noise(labels: Sequence[str] = tuple(VALUES), *, sd: float = 0.0005, pairs: int = 16) -> Noise:
    """What a quiet machine shows of identical versions: pairs alternate around 0, blocks around their pair."""
    rows = tuple((sd * (-1) ** pair - sd, sd * (-1) ** pair + sd) for pair in range(pairs))
    found = estimate_noise((make_comparison(dict.fromkeys(labels, rows), candidate=BASE),))
    assert found is not None
    return found


def make_standing(values: Mapping[str, float] | None = None, **fields) -> Standing:
    """The original as best version, measured at both levels."""
    labels = tuple(values or VALUES)
    default = {
        "round": 1,
        "commit": BASE,
        "tree": "t" * 40,
        "quick": make_benchmark(values, commit=BASE, level="quick"),
        "full": make_benchmark(values, commit=BASE),
        "shapes": labels,
        "all_shapes": labels,
        "core_shapes": labels,
        "contract": make_contract(),
        "noise": make_noise(labels),
    }
    return Standing(**{**default, **fields})


def make_history(*rounds: RoundClosed, limits: Limits | None = None, **fields) -> History:
    """An opened campaign with a baseline and these rounds."""
    default = {"opened": make_opened(limits=limits), "baseline": make_baseline(), "rounds": rounds}
    return History(**{**default, **fields})
