"""BASELINE, round 1: the unmodified code is right, and this is how fast it is."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.errors import BrokenBaseline
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed
from ridgeline.graph.nodes.close.publish import publish
from ridgeline.graph.policy.bottleneck import classify
from ridgeline.graph.policy.roofline import shape_roofs
from ridgeline.graph.policy.shapes import classes, representative
from ridgeline.graph.policy.spent import ran
from ridgeline.graph.policy.step0 import rests_on_kept, rooflined
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import BaselineClosed, Rooflined
from ridgeline.graph.state import BaselineSoFar, State, Update


def baseline_test(state: State, runtime: Runtime[Ports]) -> Update:
    """Build and test the unmodified code."""
    ports = runtime.context
    opened = history(ports).opened
    commit, place = opened.base_commit, opened.contract_path
    opened_at = ports.clock.now("round-1 opened")
    built = ports.builder.build(commit)
    if not built.ok:
        output = built.exit.output if built.exit else ""
        raise BrokenBaseline(
            f"{place}: rebuild.command: the unmodified code does not build: {_tail(output)}; mend one of them"
        )
    test = ports.checker.check(commit, purpose="baseline")
    if not test.passed:
        raise BrokenBaseline(
            f"{place}: test_command: the unmodified code fails its own test ({test.kind}): {_tail(test.detail)};"
            " mend one of them"
        )
    return {"baseline": BaselineSoFar(opened_at=opened_at, test=test)}


def baseline_measure(state: State, runtime: Runtime[Ports]) -> Update:
    """The project's benchmark, the quick command over all shapes, then over the representative ones."""
    ports, so_far = runtime.context, state["baseline"]
    assert so_far is not None
    known = history(ports)
    commit, shapes = known.opened.base_commit, known.opened.target.target_shapes
    project = _usable(
        ports.timer.benchmark(commit, level="full", source="project", shapes=shapes, repeat=0, purpose="baseline"),
        known.opened.contract_path,
    )
    labels = shapes or tuple(row.label for row in project.rows)
    quick = _usable(
        ports.timer.benchmark(commit, level="full", source="quick", shapes=labels, repeat=0, purpose="baseline"),
        known.opened.contract_path,
    )
    try:
        chosen = representative(quick.rows, known.contract)
    except ValueError as error:  # SkewMissing, or a work formula that a row cannot fill
        raise BrokenBaseline(
            f"{known.opened.contract_path}: work, skew_shapes: {error}; correct the contract"
        ) from error
    spot = _usable(
        ports.timer.benchmark(commit, level="quick", source="quick", shapes=chosen, repeat=0, purpose="baseline"),
        known.opened.contract_path,
    )
    update = {"project": project, "quick": quick, "spot": spot, "representative": chosen}
    return {"baseline": so_far.model_copy(update=update)}


def baseline_profile(state: State, runtime: Runtime[Ports]) -> Update:
    """Counters of the unmodified code, from the best rung this machine permits."""
    ports, so_far = runtime.context, state["baseline"]
    assert so_far is not None
    profile = ports.profiler.profile(history(ports).opened.base_commit, purpose="baseline")
    return {"baseline": so_far.model_copy(update={"profile": profile})}


def baseline(state: State, runtime: Runtime[Ports]) -> Update:
    """Close round 1."""
    ports, so_far = runtime.context, state["baseline"]
    assert so_far is not None
    assert so_far.project is not None
    assert so_far.quick is not None
    assert so_far.spot is not None
    known = history(ports)
    again = _ceilings_again(state, ports, (so_far.quick, so_far.project))
    roofline = again or known.roofline
    ceilings = roofline.ceilings if roofline else None
    roofs = shape_roofs(so_far.quick.rows, known.contract.work, ceilings)
    cpu = known.opened.machine.kind == "cpu"
    bottleneck, _ = classify(so_far.profile, roofs, so_far.quick.rows, known.contract.scoring, cpu=cpu)
    ports.ledger.append(
        BaselineClosed(
            test=so_far.test,
            project=so_far.project,
            quick=so_far.quick,
            representative=so_far.representative,
            quick_log=so_far.spot.log or so_far.spot.csv,
            classes=classes(so_far.quick.rows),
            profile=so_far.profile,
            bottleneck=bottleneck,
            snapshot=ports.workspace.snapshot(known.opened.base_commit),
            shapes=roofs,
            roofline=again,
            opened_at=so_far.opened_at,
            cost=ran(so_far.test, so_far.project, so_far.quick, so_far.spot, so_far.profile),
        )
    )
    publish(ports)
    return {"baseline": None}


def _ceilings_again(state: State, ports: Ports, runs: tuple[Benchmark, ...]) -> Rooflined | None:
    """Measured now, where ceilings that were kept from another day would end the campaign before its first round."""
    known = history(ports)
    if not rests_on_kept(known, runs):
        return None
    opened = known.opened
    measured = ports.device.ceilings(opened.target.dtype, fresh=True)
    return rooflined(measured, opened.machine, state["request"].specs)


def _usable(run: Benchmark | BenchmarkFailed, place: str) -> Benchmark:
    if isinstance(run, BenchmarkFailed):
        raise BrokenBaseline(
            f"{place}: {_tail(run.detail)} ({run.reason}, on the unmodified code);"
            " correct the benchmark or the contract"
        )
    if bad := [row.label for row in run.rows if row.check != "PASS"]:
        raise BrokenBaseline(
            f"{place}: benchmark_command: the unmodified code fails the benchmark's own check on {', '.join(bad)};"
            " mend one of them"
        )
    return run


def _tail(text: str, limit: int = 600) -> str:
    """The end of a command's words on one line: that is where the reason stands."""
    line = " | ".join(part.strip() for part in text.splitlines() if part.strip())
    return line if len(line) <= limit else f"[{len(line) - limit} characters before] {line[-limit:]}"
