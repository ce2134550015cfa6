"""REPORT: the one pre-registered test of champion against original, then the final record."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed
from ridgeline.graph.nodes.close.publish import publish
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.attribution import attribute
from ridgeline.graph.policy.final import headline
from ridgeline.graph.policy.spent import ran
from ridgeline.graph.policy.stop import reason
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import Concluded
from ridgeline.graph.state import Final, State, Update
from ridgeline.graph.stats.paired import PairedError, check_samples
from ridgeline.graph.values import Cost


def final_test(state: State, runtime: Runtime[Ports]) -> Update:
    """Fresh processes, all shapes, a number of pairs fixed before the campaign began."""
    ports = runtime.context
    known = history(ports)
    best, base = fold.standing(known), known.opened.base_commit
    if best.commit == base:
        return {"final": Final(note="nothing was accepted: the best version is the original")}
    found = ports.timer.compare(
        best=base,
        candidate=best.commit,
        shapes=best.all_shapes,
        first_pair=0,
        pairs=known.limits.final_pairs,
        blocks=known.limits.blocks,
        purpose="final",
    )
    if isinstance(found, BenchmarkFailed):
        return {"final": Final(note=f"the final test failed ({found.reason}): {found.detail}")}
    try:
        check_samples(found)
    except PairedError as error:
        return {"final": Final(note=f"the final test gave no estimate: {error}")}
    return {"final": Final(comparison=found)}


def full_validation(state: State, runtime: Runtime[Ports]) -> Update:
    """The project's own benchmark on best and original, and its full suite on the best."""
    ports, final = runtime.context, state["final"]
    assert final is not None
    known = history(ports)
    best, base = fold.standing(known), known.opened.base_commit
    runs = {
        commit: ports.timer.benchmark(
            commit, level="full", source="project", shapes=known.opened.target.target_shapes, repeat=0, purpose="final"
        )
        for commit in (base, best.commit)
    }
    suite = ports.checker.suite(best.commit)
    named = {base: "the original", best.commit: "the best version"}
    bad = [f"{named[commit]}: {why}" for commit, run in runs.items() if (why := _trouble(run))]
    if suite is not None and not suite.passed:
        bad.append(f"the best version fails the project's full suite ({suite.kind})")
    note = "; ".join((*([final.note] if final.note else ()), *(f"full validation: {why}" for why in bad)))
    update = {"project": _good(runs[best.commit]), "baseline_again": _good(runs[base]), "suite": suite, "note": note}
    return {"final": final.model_copy(update=update)}


def conclude(state: State, runtime: Runtime[Ports]) -> Update:
    """Close the ledger and leave the branch on the best version."""
    ports, final, found = runtime.context, state["final"], state["checks"]
    assert final is not None
    assert found is not None
    known = history(ports, before="concluded")
    claim = headline(final.comparison, known.limits)
    last = state["proposal"]
    asked = last.cost if last and last.hypothesis is None else Cost()  # of no round: nothing came of it
    ports.ledger.append(
        Concluded(
            stop_reason=reason(found),
            checks=found,
            final=final.comparison,
            final_note=final.note,
            project=final.project,
            baseline_again=final.baseline_again,
            suite=final.suite,
            attribution=attribute(known),
            speedup=claim.speedup if claim else None,
            speedup_lower=claim.lower if claim else None,
            closed_at=ports.clock.now("campaign closed"),
            cost=asked + ran(final.comparison, final.project, final.baseline_again, final.suite),
        )
    )
    ports.workspace.reset(fold.standing(known).commit)
    publish(ports)
    return {"final": None}


def _trouble(run: Benchmark | BenchmarkFailed) -> str:
    """Why the project's benchmark gave nothing to show; empty when it did."""
    if isinstance(run, BenchmarkFailed):
        return f"no usable numbers ({run.reason}): {run.detail}"
    failing = ", ".join(row.label for row in run.rows if row.check != "PASS")
    return f"Check is not PASS for {failing}" if failing else ""


def _good(run: Benchmark | BenchmarkFailed) -> Benchmark | None:
    return run if isinstance(run, Benchmark) and all(row.check == "PASS" for row in run.rows) else None
