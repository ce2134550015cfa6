"""A formatted tree that differs is built, tested and timed again before it may be committed."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import counters_of_best, history
from ridgeline.graph.evidence import Measured
from ridgeline.graph.nodes.round.compile import tampered
from ridgeline.graph.nodes.round.measure import take
from ridgeline.graph.nodes.round.tested import tested
from ridgeline.graph.nodes.round.verify import FAILED_TEST
from ridgeline.graph.policy import accept
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.measure import wanted
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Applied, Built, Failed, Formatted, Judged, Timed, Traced, Verified, find, proposed
from ridgeline.graph.verdict import Verdict


def revalidate(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    assert trial.formatted is not None
    formatted, measured = trial.formatted.applied, find(trial, Applied)
    assert measured is not None
    if formatted.tree == measured.tree:
        return {"trial": trial}
    again = _again(ports, formatted)
    evidence = again.timed.evidence if isinstance(again, Traced) else ()
    known = history(ports)
    verdict = accept.judge(again, fold.standing(known), known.limits, best_profile=counters_of_best(state, known))
    kept = trial.verdict if verdict.accepted else _lost(verdict, trial.verdict)
    done = Formatted(applied=formatted, evidence=evidence)
    return {"trial": Judged(trial=trial.trial, verdict=kept, formatted=done)}


def _again(ports: Ports, applied: Applied) -> Traced | Failed:
    known = history(ports)
    best, number = fold.standing(known), proposed(applied).round
    built = Built(applied=applied, build=ports.builder.build(applied.commit))
    if not built.build.ok:
        return Failed(reached=built, reason="build_failed", detail="the formatted code does not build")
    if new := tampered(ports, built.build):
        return Failed(reached=built, reason="tampered", detail=new)
    test = tested(ports, applied.commit, purpose=f"round-{number} formatted")
    if test.kind != "pass":
        return Failed(reached=built, reason=FAILED_TEST[test.kind], detail=test.detail)
    verified = Verified(built=built, test=test)
    evidence: tuple[Measured, ...] = ()
    while want := wanted(Timed(verified=verified, evidence=evidence) if evidence else verified, best, known.limits):
        purpose = f"round-{number} formatted"
        found = take(ports, want, best=best, candidate=applied.commit, purpose=purpose, blocks=known.limits.blocks)
        evidence = (*evidence, found)
    profile = ports.profiler.profile(applied.commit, purpose=f"round-{number} formatted")
    return Traced(timed=Timed(verified=verified, evidence=evidence), profile=profile)


def _lost(formatted: Verdict, before: Verdict) -> Verdict:
    """What formatting took away is not kept."""
    number, words = before.sentence.partition(":")[0], formatted.sentence.partition(" - ")[2]
    return before.model_copy(
        update={
            "decision": "rolled_back",
            "reason": "formatted_not_better",
            "correct": formatted.correct,
            "faster": formatted.faster,
            "own_work": formatted.own_work,
            "gain": formatted.gain,
            "lower": formatted.lower,
            "upper": formatted.upper,
            "shapes": formatted.shapes,
            "notes": (*before.notes, *formatted.notes),
            "sentence": f"{number}: ROLLED BACK - once formatted, {words}",
        }
    )
