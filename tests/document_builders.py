"""Whole campaigns for the tests of documents: a growing one of six rounds, and one with a backward pass."""

from collections.abc import Iterator

from ridgeline.graph.evidence import Ceilings
from ridgeline.graph.record import (
    Attribution,
    Calibrated,
    Concluded,
    Reflection,
    Restarted,
    Reviewed,
    Rooflined,
    RoundClosed,
    ShapeRoof,
    Spec,
    StopCheck,
)
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Broken, Failed, Repair
from ridgeline.graph.values import Cost
from tests.builders import (
    BASE,
    VALUES,
    make_applied,
    make_artifact,
    make_baseline,
    make_benchmark,
    make_built,
    make_comparison,
    make_contract,
    make_drafted,
    make_failed,
    make_hypothesis,
    make_judged,
    make_limits,
    make_opened,
    make_profiled,
    make_proposed,
    make_round,
    make_row,
    make_scaled,
    make_target,
    make_test,
    make_traced,
)

TRAINING_COLUMNS = ("label", "B", "M", "N", "K", "Check", "Forward TFLOPS", "Backward TFLOPS")


def make_roofline() -> Rooflined:
    ceilings = Ceilings(copy_gbps=20.0, flops_gflops=100.0, method="copy and FMA loops, pinned", machine="machine-0")
    return Rooflined(
        ceilings=ceilings,
        specs=(
            Spec(metric="copy bandwidth", value=20.0, unit="GB/s", source="measured here: copy loop"),
            Spec(metric="L3 cache capacity", value=None, unit="KiB", source="gpu-wiki not found"),
        ),
        bound="compute",
        shapes=(
            ShapeRoof(label="small", flops=524288.0, bytes=49152.0, intensity=10.7, bound="compute", floor_us=5.2),
        ),
    )


def make_calibrated(sd: float, **fields) -> Calibrated:
    """Identical versions whose sixteen pairs alternate by `sd` around a small offset."""
    pairs = tuple((0.0005 + sd * (-1) ** n,) * 2 for n in range(16))
    found = make_comparison(dict.fromkeys(VALUES, pairs), candidate=BASE, seconds=32.0)
    return Calibrated(**{"after_round": 1, "fresh": True, "comparison": found, **fields})


def reflection(number: int, *, kept: bool) -> Reflection:
    return Reflection(
        attribution=f"attribution of round {number}",
        root_cause="" if kept else f"cause of round {number}",
        next_direction=f"direction after round {number}",
        lesson="tile of 64 fits a 32 KiB L1" if number == 2 else None,
        applies="both operands are row-major" if number == 2 else "",
        does_not_apply="a side is below 64" if number == 2 else "",
        cost=Cost(tokens=10),
    )


def make_measured(number: int, factor: float, *, kept: bool, **fields) -> RoundClosed:
    """A round with a benchmark, an interleaved comparison, a trace, and bounds on its gain."""
    commit = f"{number:x}".rjust(2, "0") * 20
    hypothesis = make_hypothesis(id=f"lever-{number}", change=f"change number {number}", **fields)
    trial = make_traced(
        make_scaled(factor, commit=commit),
        make_comparison(candidate=commit, raw=make_artifact("pairs.csv", commit)),
        round=number,
        hypothesis=hypothesis,
        profile=make_profiled({"instructions": 1e6 / factor}, commit=commit, report=make_artifact("cachegrind.out")),
        commit=commit,
    )
    gain = factor - 1
    judged = make_judged(
        "accepted" if kept else "rolled_back",
        None if kept else "noise",
        gain=gain,
        trial=trial,
        lower=gain - 0.01,
        upper=gain + 0.01,
        sentence=f"Round {number}: {'ACCEPTED' if kept else 'ROLLED BACK'} - avg {100 * gain:+.1f}%",
    )
    return make_round(number, judged=judged, reflection=reflection(number, kept=kept))


def make_unbuilt(number: int, trial: Failed) -> RoundClosed:
    judged = make_judged(
        "rolled_back",
        trial.reason,
        gain=None,
        trial=trial,
        correct="unverified",
        faster="unverified",
        sentence=f"Round {number}: ROLLED BACK - {trial.reason}",
    )
    return make_round(number, judged=judged, reflection=reflection(number, kept=False), prediction=None)


def make_wrong(number: int) -> RoundClosed:
    """Built, wrong after one repair."""
    drafted = make_drafted(
        make_proposed(number, make_hypothesis(change="unroll by 4")),
        repairs=(Repair(evidence="MISMATCH label=small", explanation="handle the tail"),),
    )
    built = make_built(make_applied(drafted, commit=f"{number:02x}" * 20))
    broken = Broken(built=built, test=make_test("incorrect", built.applied.commit, detail="MISMATCH label=large"))
    return make_unbuilt(number, Failed(reached=broken, reason="incorrect", detail="MISMATCH label=large"))


def make_concluded(**fields) -> Concluded:
    default = {
        "stop_reason": "T3 5 of 5 rounds",
        "checks": (
            StopCheck(id="T1", description="no performance target", satisfied=False),
            StopCheck(id="T3", description="5 of 5 rounds", satisfied=True),
        ),
        "final": make_comparison(
            dict.fromkeys(VALUES, ((0.1813, 0.1833), (0.1823, 0.1843), (0.1803, 0.1824))),
            raw=make_artifact("final.json"),
        ),
        "project": make_scaled(1.19, source="project"),
        "attribution": Attribution(
            structural=20.0, weight_cache=0.0, headline=20.5, real=20.0, gap=0.5, verdict="clean"
        ),
        "speedup": 1.2,
        "speedup_lower": 1.17,
        "closed_at": "2026-11-21T12:00:00Z",
        "cost": Cost(wall_seconds=60.0),
    }
    return Concluded(**{**default, **fields})


def growing() -> Iterator[History]:
    """The same campaign after every event: opened, roofline, baseline, six rounds with a review, a restart, the end."""
    history = History(opened=make_opened(tips="tips text", limits=make_limits(max_rounds=5)))
    yield history
    for event in _events():
        history = history.model_copy(update=event(history))
        yield history


def _events():
    rounds = (
        make_measured(2, 1.08, kept=True),
        make_measured(3, 1.002, kept=False),
        make_unbuilt(4, make_failed("build_failed", round=4, detail="kernel.c:3: error: expected `;`")),
        make_measured(5, 1.10, kept=True, bucket="W1", real_gain_bound=0.015),
        make_wrong(6),
        make_measured(7, 0.9, kept=False),
    )
    review = Reviewed(
        after_round=4, trigger="2 consecutive rollbacks", directions=("a", "b", "c"), escalation="re-profile"
    )
    restart = Restarted(after_round=6, masked=(2, 5), note="half of the failed versions")
    yield lambda _: {"roofline": make_roofline()}
    yield lambda _: {"baseline": make_baseline()}
    yield lambda _: {"calibrations": (make_calibrated(0.003),)}
    for closed in rounds:
        yield lambda history, closed=closed: {"rounds": (*history.rounds, closed)}
        if closed.round == 4:
            yield lambda _: {"reviews": (review,)}
        if closed.round == 5:
            alarm = "two copies of the best version seem to differ by 2.1%"
            yield lambda history, alarm=alarm: {
                "calibrations": (
                    *history.calibrations,
                    make_calibrated(0.02, after_round=5, fresh=False, alarm=alarm),
                    make_calibrated(0.004, after_round=5),
                )
            }
        if closed.round == 6:
            yield lambda _: {"restarts": (restart,)}
    yield lambda _: {"concluded": make_concluded()}


def complete() -> History:
    """The campaign of `growing` at its end."""
    return list(growing())[-1]


def _training_row(forward: float, backward: float):
    numbers = {"B": 1, "M": 4096, "N": 4096, "K": 4096, "Forward TFLOPS": forward, "Backward TFLOPS": backward}
    return make_row("llama", metrics=numbers)


def training() -> History:
    """Golden vector 26.2: forward and backward throughput of one shape over a baseline and three rounds."""
    contract = make_contract(
        benchmark_output={"columns": TRAINING_COLUMNS},
        scoring={
            "primary_metric": "Combined Step TFLOPS",
            "forward": "Forward TFLOPS",
            "backward": "Backward TFLOPS",
        },
    )
    start = make_benchmark(rows=[_training_row(500, 250)], commit="b" * 40)
    closed = []
    for number, (forward, backward, kept) in enumerate(
        ((520, 258, True), (480, 240, False), (550, 272, True)), start=2
    ):
        commit = f"{number:02x}" * 20
        trial = make_traced(make_benchmark(rows=[_training_row(forward, backward)], commit=commit), commit=commit)
        judged = make_judged("accepted" if kept else "rolled_back", gain=0.03, trial=trial)
        closed.append(make_round(number, judged=judged))
    target = make_target(primary_metric="Combined Step TFLOPS")
    return History(
        opened=make_opened(contract=contract, target=target),
        baseline=make_baseline(quick=start, project=start, representative=("llama",)),
        rounds=tuple(closed),
    )


def long(rounds: int) -> History:
    """A campaign of many rounds, every third one kept."""
    every = tuple(make_measured(n, 1.01 if n % 3 == 0 else 0.99, kept=n % 3 == 0) for n in range(2, rounds + 2))
    return History(opened=make_opened(), roofline=make_roofline(), baseline=make_baseline(), rounds=every)
