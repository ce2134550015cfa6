"""Nodes of setup, once a campaign: target, branch, ceilings, the ledger's first lines, the baseline, the calibration."""

from langgraph.runtime import Runtime

from ridgeline.graph.approval import Decision
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import BrokenBaseline, NeedsAnswer, TargetRefused, missing_package
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Comparison, Machine, TestResult
from ridgeline.graph.limits import Limits
from ridgeline.graph.loop.context import publish, read_history, wait_for_decision
from ridgeline.graph.ports import Base, CandidateCommit, EditRefusal, Ports
from ridgeline.graph.record import BaselineClosed, Calibrated, FirstKernel, Opened, Rooflined, Spec
from ridgeline.graph.reports.approval import ask_about_target
from ridgeline.graph.reports.files import write_first_message
from ridgeline.graph.rules import calibration
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules.archive import has_archive, measure_code
from ridgeline.graph.rules.audit import find_refusal
from ridgeline.graph.rules.bottleneck import classify_bottleneck
from ridgeline.graph.rules.cost import command_cost
from ridgeline.graph.rules.define import Questions, make_first_hypothesis, resolve_target, state_precision
from ridgeline.graph.rules.headroom import make_roofline_record, rests_on_kept_ceilings
from ridgeline.graph.rules.roofline import compute_shape_roofs
from ridgeline.graph.rules.shapes import choose_representative, list_classes
from ridgeline.graph.rules.stop import has_nothing_to_gain
from ridgeline.graph.standing import History
from ridgeline.graph.state import BRANCHES, BaselineSoFar, Request, Setting, State, Update, writes_first_kernel
from ridgeline.graph.target import Target
from ridgeline.graph.trial import Repair
from ridgeline.graph.values import Cost, FileEdit, Hypothesis, Value


def define(state: State, runtime: Runtime[Ports]) -> Update:
    machine = runtime.context.device.machine()
    return {"setting": Setting(target=resolve_request(state["request"], machine), machine=machine)}


def resolve_request(request: Request, machine: Machine) -> Target:
    """Setup of the loop: the target of what was asked for. Raises NeedsAnswer with all that is missing or contradictory."""
    target = resolve_target(
        request.contract,
        instruction=request.instruction,
        created=request.created,
        contract_path=request.contract_path,
        machine=machine,
        overrides=dict(request.overrides),
        branch_prefix=BRANCHES.get(request.limits.preset, "optimize"),
    )
    if isinstance(target, Questions):
        raise NeedsAnswer("; ".join(f"{q.field}: {q.message}" for q in target.questions))
    if request.campaign:
        branch = target.git_branch.replace(target.campaign, request.campaign)
        target = target.model_copy(update={"campaign": request.campaign, "git_branch": branch})
    return target


def adjust_request(request: Request, decision: Decision) -> Request:
    """Setup of the loop: the request as the person who confirmed it changed it. Raises ValueError for limits that cannot be."""
    overrides = {**dict(request.overrides), **dict(decision.target)}
    update = {
        "contract": state_precision(request.contract, instruction=request.instruction, overrides=overrides),
        "overrides": tuple(sorted(overrides.items())),
        "limits": Limits.model_validate({**request.limits.model_dump(), **dict(decision.limits)}),
    }
    return request.model_copy(update=update)


def approve_target(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: a person confirms the target before a branch or a directory is made, and may change it. Raises TargetRefused."""
    setting, request = state["setting"], state["request"]
    assert setting is not None
    if "target" not in request.limits.approve:
        return {}
    question = ask_about_target(setting.target, request.limits, request.contract, request.specs)
    decision = wait_for_decision(runtime.context, question)
    if decision.choice != "approve":
        raise TargetRefused(f"the target was rejected by {decision.by}: {decision.reason or 'no reason given'}")
    if not (decision.target or decision.limits):
        return {"decisions": (decision,)}
    adjusted = adjust_request(request, decision)
    target = resolve_request(adjusted, setting.machine)
    return {
        "request": adjusted,
        "setting": setting.model_copy(update={"target": target}),
        "decisions": (decision,),
    }


def describe_confirmation(decided: tuple[Decision, ...], specs: tuple[Spec, ...] = ()) -> str:
    """Setup of the loop: who confirmed the target, what they changed, and which numbers they go on without."""
    if not decided:
        return "auto-confirmed"
    decision = decided[0]
    changes = ", ".join(f"{name}={value}" for name, value in (*decision.target, *decision.limits))
    unknown = ", ".join(spec.metric for spec in specs if spec.value is None)
    return (
        f"confirmed by {decision.by}, {decision.at}"
        + (f"; adjusted: {changes}" if changes else "")
        + (f"; goes on without a source for: {unknown}" if unknown else "")
    )


# The branch, beside the user's checkout.


def prepare(state: State, runtime: Runtime[Ports]) -> Update:
    setting = state["setting"]
    assert setting is not None
    base = runtime.context.workspace.open(setting.target.git_branch)
    return {"setting": setting.model_copy(update={"base": base})}


# Step 0: the ceilings of this machine, as far as they can be measured; the shapes meet them at the baseline.
#
# `recall` puts what documents state of the product beside them.


def roofline(state: State, runtime: Runtime[Ports]) -> Update:
    setting = state["setting"]
    assert setting is not None
    ceilings = runtime.context.device.ceilings(setting.target.dtype)
    return {"setting": setting.model_copy(update={"ceilings": ceilings})}


# Stage 1, where the kernel's files hold PyTorch alone: a first kernel, tested and committed. Stage 2 follows by itself.


def write_baseline(state: State, runtime: Runtime[Ports]) -> Update:
    """Setup of the loop: the planner's first kernel as the original in PyTorch's place. Raises BrokenBaseline where none is right.

    Nothing is committed to the campaign's branch before the test passes.
    """
    setting, request, ports = state["setting"], state["request"], runtime.context
    assert setting is not None
    assert setting.base is not None
    if not writes_first_kernel(request):
        return {}
    base, about, opened_at = setting.base, make_first_hypothesis(setting.target), ports.clock.now("stage 1 opened")
    briefing = _brief_first_kernel(setting, request, ports)
    edits: tuple[FileEdit, ...] = ()
    repairs: tuple[Repair, ...] = ()
    prompts: tuple[str, ...] = ()
    evidence, cost = "", Cost()
    for _ in range(request.limits.max_repairs + 1):
        answer = ports.planner.write_baseline(briefing, about, edits, evidence)
        prompts, cost = (*prompts, *answer.prompts), cost + answer.cost
        if not answer.edits:
            evidence = answer.refusal or "the planner gave no edits"
            break
        edits = answer.edits
        applied, evidence = _try_first_kernel(answer.edits, about, base, request.contract, ports, opened_at)
        if isinstance(applied, PassingKernel):
            commit = ports.workspace.accept(
                parent=base.commit, tree=applied.edit.tree, message=write_first_message(about, answer), at=opened_at
            )
            first_kernel = FirstKernel(
                upstream=base.commit,
                hypothesis=about,
                opened_at=opened_at,
                explanation=answer.explanation,
                diff=applied.edit.diff,
                test=applied.test,
                repairs=repairs,
                prompts=prompts,
                cost=cost + command_cost(applied.test),
            )
            new = base.model_copy(update={"commit": commit, "tree": applied.edit.tree})
            return {"setting": setting.model_copy(update={"base": new, "first_kernel": first_kernel})}
        repairs = (*repairs, Repair(evidence=evidence, explanation=answer.explanation))
    raise BrokenBaseline(
        f"{request.contract_path}: start: pytorch: no first kernel passed the test, so nothing is committed:"
        f" {_tail(evidence)}; give a model that can write one (--model), write the kernel yourself, or measure PyTorch"
        " itself with --set write_baseline=false"
    )


class PassingKernel(Value):
    """A first kernel that passed the test."""

    __test__ = False
    edit: CandidateCommit
    test: TestResult


def _try_first_kernel(
    edits: tuple[FileEdit, ...], about: Hypothesis, base: Base, contract: Contract, ports: Ports, at: str
) -> tuple[PassingKernel | None, str]:
    """Setup of the loop: the planner's first kernel, read, built and tested; else what was wrong with it."""
    edit = ports.workspace.apply(round=1, parent=base.commit, edits=edits, at=at)
    if isinstance(edit, EditRefusal):
        return None, edit.detail
    if edit.tree == base.tree:
        return None, "the edits leave PyTorch as it was"
    if refused := find_refusal(edit.audit, about, contract):
        return None, refused.detail
    built = ports.builder.build(edit.commit)
    if not built.ok:
        return None, built.exit.output if built.exit else "the build failed without saying why"
    test = ports.checker.check(edit.commit, purpose="stage 1")
    if test.passed and test.own_work == "no":
        return None, f"right, and not its own work: {test.detail}"
    return (PassingKernel(edit=edit, test=test), "") if test.passed else (None, f"{test.kind}: {test.detail}")


def _brief_first_kernel(setting: Setting, request: Request, ports: Ports) -> Briefing:
    """Setup of the loop: what is known before anything was measured: target, machine, documents and the PyTorch."""
    base, target = setting.base, setting.target
    assert base is not None
    return Briefing(
        round=1,
        target=target,
        contract=request.contract,
        machine=setting.machine,
        specs=request.specs,
        sources=ports.workspace.sources(base.commit),
        best_commit=base.commit,
        best_round=1,
        aggregate=None,
        bottleneck="unknown",
        bottleneck_evidence="nothing is measured before the first kernel exists",
        profile=None,
        rounds=(),
        consecutive_rollbacks=0,
        tips=ports.files.tips(target.target_gpu, target.target_op, target.target_backend),
        head=f"stage 1 of {base.commit}",
    )


# Read the tips once, then open the ledger: from here on it is the record. The campaign's files are there before its work.


def recall(state: State, runtime: Runtime[Ports]) -> Update:
    setting, request, ports = state["setting"], state["request"], runtime.context
    assert setting is not None
    assert setting.base is not None
    target, base, decided = setting.target, setting.base, state["decisions"]
    ports.ledger.append(
        Opened(
            target=target,
            contract=request.contract,
            limits=request.limits,
            planner=request.planner,
            machine=setting.machine,
            base_commit=base.commit,
            base_tree=base.tree,
            branch=base.branch,
            contract_path=request.contract_path,
            repository=base.repository,
            confirmation=describe_confirmation(decided, state["request"].specs),
            tips=ports.files.tips(target.target_gpu, target.target_op, target.target_backend),
            version=request.version,
            decisions=decided,
            counts_work=request.counts_work,
            stamps_edits=request.stamps_edits,
            drafts_first=request.drafts_first and request.limits.candidates > 1,
            minimal=ports.workspace.extract(base.commit) if target.execution_mode == "workspace" else None,
            first_kernel=setting.first_kernel,
            champions=request.champions,
        )
    )
    ports.ledger.append(make_roofline_record(setting.ceilings, setting.machine, request.specs))
    publish(ports)
    return {"setting": None, "decisions": ()}


# Round 1: the unmodified code is right, and this is how fast it is.


def baseline_test(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: builds and tests the unmodified code."""
    ports = runtime.context
    opened = read_history(ports).opened
    commit, place = opened.base_commit, opened.contract_path
    opened_at = ports.clock.now("round-1 opened")
    built = ports.builder.build(commit)
    if not built.ok:
        output = built.exit.output if built.exit else ""
        raise BrokenBaseline(
            f"{place}: rebuild.command: the unmodified code does not build: {_tail(output)};"
            f" {missing_package(output) or 'mend one of them'}"
        )
    test = ports.checker.check(commit, purpose="baseline")
    if not test.passed:
        raise BrokenBaseline(
            f"{place}: test_command: the unmodified code fails its own test ({test.kind}): {_tail(test.detail)};"
            f" {missing_package(test.detail) or 'mend one of them'}"
        )
    _require_whole(ports, opened)
    return {"baseline": BaselineSoFar(opened_at=opened_at, test=test)}


def _require_whole(ports: Ports, opened: Opened) -> None:
    """Setup of the loop: raises BrokenBaseline where workspace mode's minimal project does not build, or fails the test."""
    minimal = opened.minimal
    if minimal is None:
        return
    files = list(dict.fromkeys(file.name for file in (*minimal.src, *minimal.tests, *minimal.bench)))
    built = ports.builder.build(minimal.commit)
    if not built.ok:
        output = built.exit.output if built.exit else ""
        raise BrokenBaseline(_describe_incomplete(opened, files, "does not build", output))
    test = ports.checker.check(minimal.commit, purpose="baseline, minimal project")
    if not test.passed:
        raise BrokenBaseline(_describe_incomplete(opened, files, f"fails the test ({test.kind})", test.detail))


def _describe_incomplete(opened: Opened, files: list[str], what: str, output: str) -> str:
    return (
        f"{opened.contract_path}: workspace: the minimal project ({len(files)} files: {', '.join(files[:12])}"
        f"{', ...' if len(files) > 12 else ''}) {what}: {_tail(output)}; name what it lacks under `workspace:`"
        " src, tests or bench, or how it is built under rebuild; or set execution_mode: repo"
    )


def baseline_measure(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: the project's benchmark, the quick command over all shapes, then over the representative ones."""
    ports, so_far = runtime.context, state["baseline"]
    assert so_far is not None
    history = read_history(ports)
    commit, shapes = history.opened.base_commit, history.opened.target.target_shapes
    project = _require_usable(
        ports.timer.benchmark(commit, level="full", source="project", shapes=shapes, repeat=0, purpose="baseline"),
        history.opened.contract_path,
    )
    labels = shapes or tuple(row.label for row in project.rows)
    quick = _require_usable(
        ports.timer.benchmark(commit, level="full", source="quick", shapes=labels, repeat=0, purpose="baseline"),
        history.opened.contract_path,
    )
    try:
        chosen = choose_representative(quick.rows, history.contract)
    except ValueError as error:  # ShapeMissing, SkewMissing, or a work formula that a row cannot fill
        raise BrokenBaseline(
            f"{history.opened.contract_path}: work, core_shapes, skew_shapes: {error}; correct the contract"
        ) from error
    spot = _require_usable(
        ports.timer.benchmark(commit, level="quick", source="quick", shapes=chosen, repeat=0, purpose="baseline"),
        history.opened.contract_path,
    )
    if history.opened.minimal is not None:
        _require_usable(
            ports.timer.benchmark(
                history.opened.minimal.commit,
                level="quick",
                source="quick",
                shapes=chosen,
                repeat=0,
                purpose="minimal project",
            ),
            f"{history.opened.contract_path}: workspace (the minimal project)",
        )
    update = {"project": project, "quick": quick, "spot": spot, "representative": chosen}
    return {"baseline": so_far.model_copy(update=update)}


def baseline_profile(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: counters of the unmodified code, from the best rung this machine permits."""
    ports, so_far = runtime.context, state["baseline"]
    assert so_far is not None
    profile = ports.profiler.profile(read_history(ports).opened.base_commit, purpose="baseline")
    return {"baseline": so_far.model_copy(update={"profile": profile})}


def baseline(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: closes round 1 with the original's build, test, numbers and profile."""
    ports, so_far = runtime.context, state["baseline"]
    assert so_far is not None
    assert so_far.project is not None
    assert so_far.quick is not None
    assert so_far.spot is not None
    history = read_history(ports)
    remeasured = _measure_ceilings_again(state, ports, (so_far.quick, so_far.project))
    roofline = remeasured or history.roofline
    ceilings = roofline.ceilings if roofline else None
    roofs = compute_shape_roofs(so_far.quick.rows, history.contract.work, ceilings)
    cpu = history.opened.machine.kind == "cpu"
    bottleneck, _ = classify_bottleneck(so_far.profile, roofs, so_far.quick.rows, history.contract.scoring, cpu=cpu)
    ports.ledger.append(
        BaselineClosed(
            test=so_far.test,
            project=so_far.project,
            quick=so_far.quick,
            representative=so_far.representative,
            quick_log=so_far.spot.log or so_far.spot.csv,
            classes=list_classes(so_far.quick.rows),
            profile=so_far.profile,
            bottleneck=bottleneck,
            snapshot=ports.workspace.snapshot(history.opened.base_commit),
            shapes=roofs,
            roofline=remeasured,
            code=measure_code(ports.workspace.sources(history.opened.base_commit))
            if has_archive(history.limits)
            else None,
            opened_at=so_far.opened_at,
            cost=command_cost(so_far.test, so_far.project, so_far.quick, so_far.spot, so_far.profile),
        )
    )
    publish(ports)
    return {"baseline": None}


def _measure_ceilings_again(state: State, ports: Ports, runs: tuple[Benchmark, ...]) -> Rooflined | None:
    """Setup of the loop: measure ceilings now, where ones kept from another day would end the campaign before its first round."""
    history = read_history(ports)
    if not rests_on_kept_ceilings(history, runs):
        return None
    opened = history.opened
    measured = ports.device.ceilings(opened.target.dtype, fresh=True)
    return make_roofline_record(measured, opened.machine, state["request"].specs)


def _require_usable(run: Benchmark | BenchmarkFailed, place: str) -> Benchmark:
    if isinstance(run, BenchmarkFailed):
        raise BrokenBaseline(
            f"{place}: {_tail(run.detail)} ({run.reason}, on the unmodified code);"
            f" {missing_package(run.detail) or 'correct the benchmark or the contract'}"
        )
    if bad := [row.label for row in run.rows if row.check != "PASS"]:
        raise BrokenBaseline(
            f"{place}: benchmark_command: the unmodified code fails the benchmark's own check on {', '.join(bad)};"
            " mend one of them"
        )
    return run


TAIL = 600
"""Characters."""


def _tail(text: str) -> str:
    """Setup of the loop: the end of a failed command's words on one line: that is where the reason stands."""
    line = " | ".join(part.strip() for part in text.splitlines() if part.strip())
    return line if len(line) <= TAIL else f"[{len(line) - TAIL} characters before] {line[-TAIL:]}"


# Time the best version against itself, so that every later gain is judged by the noise of this machine.


def calibrate(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: times identical versions in full: before the first candidate is measured, and again when a canary says so.

    Not where the original stands at its ceiling: no candidate will come.
    """
    ports = runtime.context
    history = read_history(ports)
    if calibration.next_calibration(history) == "calibration" and not has_nothing_to_gain(history):
        _record_calibration(ports, history, pairs=history.limits.calibration_pairs, fresh=True)
    return {}


def canary(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: a few pairs of identical versions now and then: does the calibration still hold?"""
    ports = runtime.context
    history = read_history(ports)
    if calibration.next_calibration(history) == "canary":
        _record_calibration(ports, history, pairs=history.limits.canary_pairs, fresh=False)
    return {}


def _record_calibration(ports: Ports, history: History, *, pairs: int, fresh: bool) -> None:
    best, after = fold.standing(history), fold.next_round(history) - 1
    known_noise = calibration.make_known_noise(history.limits) if fresh else None
    run = ports.timer.calibrate(
        best.commit,
        shapes=best.all_shapes,
        pairs=pairs,
        blocks=history.limits.blocks,
        budget_s=history.limits.calibration_minutes * 60,
        fresh=bool(history.calibrations),
        purpose=f"{'calibration' if fresh else 'canary'}-{after}",
        **({"known": known_noise} if known_noise else {}),  # campaigns on record never said so
    )
    failed = run if isinstance(run, BenchmarkFailed) else None
    body = Calibrated(
        after_round=after,
        fresh=fresh,
        comparison=run if isinstance(run, Comparison) else None,
        alarm="" if fresh else _find_alarm(run, history),
        note=f"not measured ({failed.reason}): {failed.detail}" if failed else "",
        cost=command_cost(run),
    )
    ports.ledger.append(body)
    publish(ports)


def _find_alarm(run: Comparison | BenchmarkFailed, history: History) -> str:
    return "" if isinstance(run, BenchmarkFailed) else calibration.find_alarm(run, history)
