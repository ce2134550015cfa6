"""Nodes of a round, in order: from the profile of the best version to the verdict on one hypothesis.

`decide` is the node `judge`: it asks `rules.acceptance.decide_verdict`, where the reason of every verdict is.
"""

from collections.abc import Sequence
from typing import Literal, cast

from langgraph.runtime import Runtime

from ridgeline.graph.approval import Decision
from ridgeline.graph.briefing import Briefing, Proposal
from ridgeline.graph.deep import DeepRound
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, BuildResult, Measured, TestOutput, TestResult
from ridgeline.graph.limits import Limits
from ridgeline.graph.loop.context import (
    make_briefing,
    read_analysis,
    read_best_counters,
    read_history,
    read_standing,
    wait_for_decision,
)
from ridgeline.graph.ports import CandidateCommit as AppliedEdits
from ridgeline.graph.ports import EditRefusal, Ports
from ridgeline.graph.reports.approval import ask_about_change, ask_about_hypothesis
from ridgeline.graph.reports.files import place_plan
from ridgeline.graph.reports.memory import open_memory
from ridgeline.graph.rules import acceptance
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules.acceptance import choose_measurement
from ridgeline.graph.rules.archive import Solution, find_origin
from ridgeline.graph.rules.audit import classify_simulation, find_refusal, list_weight_caches
from ridgeline.graph.rules.bottleneck import classify_bottleneck
from ridgeline.graph.rules.champion import list_champions, propose_beside, write_champion
from ridgeline.graph.rules.change import explain_forbidden, explain_several_changes
from ridgeline.graph.rules.deep import find_deep_wish, make_hypothesis
from ridgeline.graph.rules.early_end import explain_early_end
from ridgeline.graph.rules.escalation import REPROFILE_AT, needs_best_known
from ridgeline.graph.rules.gates import compare_minimal_projects
from ridgeline.graph.rules.person_edit import choose_approved, make_edit
from ridgeline.graph.rules.race import choose_kept, choose_turn, list_promising, mark_all_outpaced
from ridgeline.graph.rules.readings import sort_readings
from ridgeline.graph.rules.roofline import compute_shape_roofs
from ridgeline.graph.rules.stagnation import consecutive_rollbacks
from ridgeline.graph.rules.tuning import (
    FIRST_SCREEN_PAIR,
    Settings,
    choose_point,
    describe_points,
    describe_settings,
    find_best_point,
    read_gain,
    set_point,
)
from ridgeline.graph.standing import BenchmarkWant, CompareWant, History, Standing
from ridgeline.graph.state import Analysis, State, Update
from ridgeline.graph.trial import (
    Applied,
    Broken,
    Built,
    CacheSimulation,
    Drafted,
    Failed,
    Formatted,
    Judged,
    LocalGate,
    Point,
    Proposed,
    Repair,
    Stage,
    Timed,
    Traced,
    Verified,
    find,
    find_proposal,
    replace_draft,
)
from ridgeline.graph.values import Bottleneck, FileEdit, WebSearch
from ridgeline.graph.verdict import Verdict


def analyze(state: State, runtime: Runtime[Ports]) -> Update:
    ports = runtime.context
    history = read_history(ports)
    best, number = fold.standing(history), fold.next_round(history)
    opened_at = ports.clock.now(f"round-{number} opened")
    profile = fold.best_profile(history)
    if profile is None or consecutive_rollbacks(history.rounds) >= REPROFILE_AT or _is_restarted(history, number):
        profile = ports.profiler.profile(best.commit, purpose=f"round-{number} best")
    ceilings = history.roofline.ceilings if history.roofline else None
    roofs = compute_shape_roofs(best.quick.rows, history.contract.work, ceilings)
    cpu = history.opened.machine.kind == "cpu"
    bottleneck, evidence = classify_bottleneck(profile, roofs, best.quick.rows, history.contract.scoring, cpu=cpu)
    analysis = Analysis(
        round=number,
        opened_at=opened_at,
        profile=profile,
        bottleneck=bottleneck,
        evidence=evidence,
        best_known=_time_best_known(history, ports),
        web=_search_web(history, ports, bottleneck, number),
    )
    return {"analysis": analysis, "proposal": None, "trial": None, "checks": None}


def _time_best_known(history: History, ports: Ports) -> Benchmark | BenchmarkFailed | None:
    """In a round: times of the best known kernel, once in a campaign; None where they are not due."""
    if not needs_best_known(history):
        return None
    best = fold.standing(history)
    return ports.timer.benchmark(
        best.commit, level="full", source="best_known", shapes=best.all_shapes, repeat=0, purpose="best known kernel"
    )


def _search_web(history: History, ports: Ports, bottleneck: Bottleneck, number: int) -> WebSearch | None:
    """What the public web says; None where it is not due: only where a planner found nothing new in the knowledge and
    the reference project, which is what a partial restart says. The query tells operator, types and machine, no source.
    """
    if ports.searcher is None or not _is_restarted(history, number) or find_deep_wish(history) is not None:
        return None
    target = history.opened.target
    about = f"{target.target_op} {target.dtype} kernel {target.target_lang} {target.target_gpu} {bottleneck} bound"
    return ports.searcher.search(f"optimize {about}", purpose=f"round-{number}")


def _is_restarted(history: History, number: int) -> bool:
    """Whether this is the loop's first round after a partial restart, which looks afresh."""
    return bool(history.restarts) and history.restarts[-1].after_round == number - 1


# Ask for exactly one hypothesis, written down before any edit exists.


def propose(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: asks the planner for directions. The plan's file is there before an edit of it is asked for; that of a deep round is given."""
    analysis, ports = read_analysis(state), runtime.context
    if (deep := find_deep_wish(read_history(ports, before=f"round-{analysis.round}"))) is not None:
        return _begin_deep(deep, analysis, ports)
    briefing = make_briefing(state, ports)
    history = read_history(ports, before=f"round-{analysis.round}")
    proposal = propose_beside(list_champions(history, briefing.candidates), briefing, ports.planner.propose)
    if proposal.hypothesis is None:
        exhausted = proposal.exhausted or "the planner has no further direction"
        return {"exhausted": exhausted, "trial": None, "proposal": proposal, "queue": (), "rivals": ()}
    others = tuple(other for other in proposal.others if other.hypothesis is not None)[: briefing.candidates - 1]
    stamped = history.opened.stamps_edits
    start = Proposed(
        round=analysis.round,
        hypothesis=proposal.hypothesis,
        opened_at=analysis.opened_at,
        written_at=ports.clock.now(f"round-{analysis.round} hypothesis written") if stamped else None,
        prompts=proposal.prompts,
        cost=proposal.cost,
        searches=proposal.searches,
        beside=analysis.round if others else None,
        parent=None if briefing.base_round == briefing.best_round else briefing.base_round,
        champion=proposal.champion,
    )
    _write_plan(start, analysis, history, ports)
    return {"trial": _bar_proposal(start), "proposal": proposal, "queue": others, "rivals": ()}


def _begin_deep(deep: DeepRound, analysis: Analysis, ports: Ports) -> Update:
    """In node `propose`: a deep round is tried alone, and its hypothesis names several steps: no rule about a single change bars it."""
    history = read_history(ports, before=f"round-{analysis.round}")
    hypothesis = make_hypothesis(
        deep, round=analysis.round, scoring=history.contract.scoring, evidence=analysis.evidence
    )
    start = Proposed(
        round=analysis.round,
        hypothesis=hypothesis,
        opened_at=analysis.opened_at,
        written_at=(
            ports.clock.now(f"round-{analysis.round} hypothesis written") if history.opened.stamps_edits else None
        ),
        deep=deep,
    )
    _write_plan(start, analysis, history, ports)
    return {"trial": start, "proposal": Proposal(hypothesis=hypothesis), "queue": (), "rivals": ()}


def _write_plan(start: Proposed, analysis: Analysis, history: History, ports: Ports) -> None:
    """In node `propose`: plan and memory of the open round, before its first edit. `history` is that before the open round."""
    bottleneck, evidence = analysis.bottleneck, analysis.evidence
    plan = place_plan(history, start, bottleneck=bottleneck, evidence=evidence, best_known=analysis.best_known)
    memory = open_memory(history, start, profile=analysis.profile, bottleneck=bottleneck, evidence=evidence)
    ports.files.write({**plan, f"memory/v{start.round - 1}.json": memory})


def _bar_proposal(start: Proposed) -> Proposed | Failed:
    """A round's proposal as it is, or failed where a rule forbids it before anything is written."""
    if why := explain_forbidden(start.hypothesis):
        return Failed(reached=start, reason="overfit", detail=why)
    if why := explain_several_changes(start.hypothesis):
        return Failed(reached=start, reason="more_than_one_change", detail=why)
    return start


# Candidates tried side by side: all are drafted, then built and tested, then timed.


def line_up(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: the next direction of the round; where none is left, the next candidate to be built; else nothing.

    Once a person asked to stop, or the planner sees nothing worth a round, no more of them are drafted.
    """
    trial, queue, rivals = state["trial"], state.get("queue", ()), state.get("rivals", ())
    assert isinstance(trial, Applied | Verified | Failed)
    if isinstance(trial, Verified) and (twin := _find_twin(trial, rivals)) is not None:
        why = f"the edits give the code of round {twin}, which is tried beside it"
        trial = Failed(reached=trial, reason="no_change", detail=why)
    ends = bool(state["exhausted"]) or (isinstance(trial, Failed) and trial.reason == "stopped")
    if ends or not queue:
        return _begin_next_build(_sort_by_round((*rivals, trial)), runtime.context)
    before = find_proposal(trial)
    hypothesis = queue[0].hypothesis
    assert hypothesis is not None
    start = Proposed(
        round=before.round + 1,
        hypothesis=hypothesis,
        opened_at=before.opened_at,
        written_at=before.written_at,
        prompts=() if queue[0].champion else before.prompts,
        beside=before.beside,
        parent=before.parent,
        champion=queue[0].champion,
    )
    analysis, ports = read_analysis(state), runtime.context
    _write_plan(start, analysis, read_history(ports, before=f"round-{analysis.round}"), ports)
    return {"trial": _bar_proposal(start), "proposal": queue[0], "queue": queue[1:], "rivals": (*rivals, trial)}


def _begin_next_build(contestants: tuple[Stage, ...], ports: Ports) -> Update:
    """In node `line_up`: the first candidate that waits to be built; all that wait are built ahead where that can be done.

    Not in workspace mode, where a candidate is timed in its minimal project before it is built.
    """
    ready = tuple(trial for trial in contestants if isinstance(trial, Applied))
    trial = ready[0] if ready else contestants[-1]
    if ready and ports.preparer is not None and read_history(ports).opened.minimal is None:
        distinct = tuple({applied.tree: applied for applied in reversed(ready)}.values())[::-1]
        ports.preparer.prepare(
            tuple(applied.commit for applied in distinct), tuple(_name_test(applied) for applied in distinct)
        )
    return {"trial": trial, "queue": (), "rivals": tuple(rival for rival in contestants if rival is not trial)}


def _find_twin(trial: Verified, rivals: Sequence[Stage]) -> int | None:
    """In a round: the round whose candidate has the very same code; None where there is none."""
    tree = trial.built.applied.tree
    same = (rival for rival in rivals if isinstance(rival, Verified) and rival.built.applied.tree == tree)
    return next((find_proposal(rival).round for rival in same), None)


def list_contestants(state: State) -> tuple[Stage, ...]:
    """Every candidate of the open round, by round: one alone, or those tried side by side."""
    trial = state["trial"]
    assert trial is not None
    return _sort_by_round((*state.get("rivals", ()), trial))


def _sort_by_round(contestants: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return tuple(sorted(contestants, key=lambda stage: find_proposal(stage).round))


# A person's approval of a hypothesis, and of a change that would be kept.


def approve_hypothesis(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: asks a person about the hypothesis, before anything is written for it."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Proposed)
    decision = wait_for_decision(ports, ask_about_hypothesis(trial, read_history(ports)))
    decisions = (*state["decisions"], decision)
    if decision.choice == "approve":
        return {"decisions": decisions}
    return {
        "trial": Failed(reached=trial, reason="rejected", detail=describe_rejection(decision)),
        "decisions": decisions,
    }


def approve_change(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: asks a person about a change, after it was measured and would be kept.

    An edit is a change of its own: tested and measured as any other, then asked about beside what it edits.
    """
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    history, options = read_history(ports), (*state.get("alternatives", ()), trial)
    request = ask_about_change(options, history, before=read_best_counters(state, history))
    decision = wait_for_decision(ports, request)
    decisions = (*state["decisions"], decision)
    match decision.choice:
        case "approve":
            approved_change = choose_approved(options, decision)
        case "edit":
            assert request.edit is not None
            return {"trial": make_edit(request.edit, decision), "alternatives": options, "decisions": decisions}
        case "reject":
            options = tuple(
                _reject_change(option, decision) if option.verdict.accepted else option for option in options
            )
            approved_change = options[0]
    alternatives = tuple(option for option in options if option is not approved_change)
    return {"trial": approved_change, "alternatives": alternatives, "decisions": decisions}


def _reject_change(trial: Judged, decision: Decision) -> Judged:
    before = trial.verdict
    why = describe_rejection(decision)
    sentence = f"{before.sentence.split(':')[0]}: ROLLED BACK - measured as kept, but {why}"
    update = {"decision": "rolled_back", "reason": "rejected", "notes": (*before.notes, why), "sentence": sentence}
    return trial.model_copy(update={"verdict": before.model_copy(update=update)})


def describe_rejection(decision: Decision) -> str:
    return f"rejected by {decision.by}: {decision.reason or 'no reason given'}"


# Ask for the edits that test the hypothesis.


def draft(state: State, runtime: Runtime[Ports]) -> Update:
    trial, proposal = state["trial"], state["proposal"]
    assert isinstance(trial, Proposed)
    assert proposal is not None
    answer = (
        write_champion(trial, read_history(runtime.context))
        if trial.champion
        else runtime.context.planner.draft(_brief_about(trial, state, runtime.context), proposal)
    )
    if not answer.edits:
        detail = answer.refusal or "the planner gave no edits"
        # a refusal was asked for too: what it cost stays with the round
        paid = {"cost": trial.cost + answer.cost, "prompts": (*trial.prompts, *answer.prompts)}
        failed = Failed(reached=trial.model_copy(update=paid), reason="no_edit", detail=detail)
        return {"trial": failed, "exhausted": answer.exhausted}
    drafted = Drafted(
        proposed=trial,
        edits=answer.edits,
        edited_at=runtime.context.clock.now(f"round-{trial.round} first edit") if trial.written_at else None,
        explanation=answer.explanation,
        prompts=answer.prompts,
        cost=answer.cost,
    )
    return {"trial": tune_draft(drafted, runtime.context) if trial.hypothesis.tuning else drafted}


# A deep round: the edits are made in many steps in a work tree of its own, and come back as one change.


def go_deep(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: what the worker of a deep round hands in, as a draft; what it cost stays with the round where it is nothing."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Proposed)
    assert trial.deep is not None
    if ports.worker is None:
        why = "nobody can work in a tree here: a deep round needs a model"
        return {"trial": Failed(reached=trial, reason="no_edit", detail=why)}
    work = ports.worker.work(_brief_about(trial, state, ports), trial)
    update = {"steps": work.steps, "tokens": work.cost.tokens, "work_s": work.work_s, "ended": work.ended}
    worked = trial.model_copy(update={"deep": trial.deep.model_copy(update=update)})
    if not work.edits:
        paid = {"cost": trial.cost + work.cost, "prompts": (*trial.prompts, *work.prompts)}
        reached, detail = worked.model_copy(update=paid), work.refusal or work.ended or "the worker gave no edits"
        failed = Failed(reached=reached, reason="stopped" if work.stopped else "no_edit", detail=detail)
        return {"trial": failed, "exhausted": work.exhausted}
    drafted = Drafted(
        proposed=worked,
        edits=work.edits,
        edited_at=ports.clock.now(f"round-{trial.round} first edit") if trial.written_at else None,
        explanation=work.story,
        prompts=work.prompts,
        cost=work.cost,
    )
    return {"trial": drafted}


# A declared sweep over several parameters: its points are screened inside the round, and the best one meets the gate.


def tune_draft(drafted: Drafted, ports: Ports) -> Drafted | Failed:
    """In a round of the loop: the draft at the best point of its sweep; failed where no point can be used."""
    history, hypothesis = read_history(ports), drafted.proposed.hypothesis
    best = fold.standing(history)
    texts = {edit.path: edit.text for edit in (*ports.workspace.sources(best.commit), *drafted.edits)}
    points: tuple[Point, ...] = ()
    while (settings := choose_point(hypothesis.tuning, points, history.limits.tuning_points)) is not None:
        edits = set_point(texts, settings)
        point = _try_point(settings, edits, drafted, best, points, ports)
        if point is None:
            return Failed(reached=drafted.model_copy(update={"tuned": points}), reason="stopped", detail="while tuning")
        points = (*points, point)
    winner, tuned = find_best_point(points), drafted.model_copy(update={"tuned": points})
    if winner is None:
        why = points[0].invalid if points else "the sweep has no point"
        return Failed(reached=tuned, reason="no_edit", detail=f"none of {len(points)} points can be used: {why}")
    words = f"{drafted.explanation} {describe_points(points)}".strip()
    return tuned.model_copy(update={"edits": set_point(texts, winner.settings), "explanation": words})


def _try_point(
    settings: Settings,
    edits: tuple[FileEdit, ...],
    drafted: Drafted,
    best: Standing,
    points: tuple[Point, ...],
    ports: Ports,
) -> Point | None:
    """One point of a round's sweep, by the restrictions and the test that hold for any candidate; None where a stop was asked for.

    Only what would lead is tested: the winner is tested again at the gate anyway.
    """
    start = drafted.proposed
    edit = ports.workspace.apply(round=start.round, parent=best.commit, edits=edits, at=start.opened_at)
    if isinstance(edit, EditRefusal):
        return Point(settings=settings, gain=None, invalid=f"refused: {edit.detail}")
    if edit.tree == best.tree:
        return Point(settings=settings, gain=0.0)
    if refused := find_refusal(edit.audit, start.hypothesis, best.contract):
        return Point(settings=settings, gain=None, invalid=f"{refused.reason}: {refused.detail}")
    build = ports.builder.build(edit.commit)
    if build.stopped:
        return None
    if not build.ok or find_tampering(ports, build):
        why = build.exit.output.strip().splitlines()[-1:] if build.exit else []
        return Point(settings=settings, gain=None, invalid=f"does not build: {''.join(why)[:300]}")
    label = describe_settings(settings)
    run = ports.timer.compare(
        best=best.commit,
        candidate=edit.commit,
        shapes=best.all_shapes,
        first_pair=FIRST_SCREEN_PAIR + len(points),
        pairs=1,
        blocks=read_history(ports).limits.blocks,
        purpose=f"round-{start.round} point {label}",
    )
    if isinstance(run, BenchmarkFailed):
        return (
            None
            if run.reason == "stopped"
            else Point(settings=settings, gain=None, invalid=f"{run.reason}: {run.detail[:300]}")
        )
    gain, leader = read_gain(run), find_best_point(points)
    if leader is None or gain > (leader.gain or 0.0):
        test = ports.checker.check(edit.commit, purpose=f"round-{start.round} point {label}")
        if test.kind == "stopped":
            return None
        if not test.passed:
            return Point(settings=settings, gain=None, invalid=f"{test.kind}: {test.detail[:300]}")
    return Point(settings=settings, gain=gain)


def _brief_about(trial: Stage, state: State, ports: Ports) -> Briefing:
    """In a round: the open round's briefing, under the number of this candidate."""
    return make_briefing(state, ports).model_copy(update={"round": find_proposal(trial).round})


# Commit the edits beside the user's checkout, on top of the best version, and have them read.


def apply(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Drafted)
    history = read_history(ports)
    best, origin = fold.standing(history), find_origin(trial.proposed, history)
    edit = _apply_edits(trial.proposed, trial.edits, origin, ports)
    if isinstance(edit, EditRefusal):
        return {"trial": Failed(reached=trial, reason="refused_edit", detail=edit.detail)}
    applied = _make_applied(trial, edit)
    if edit.tree == origin.tree:
        return {"trial": Failed(reached=applied, reason="no_change", detail="the edits leave every file as it was")}
    if edit.tree == best.tree:
        return {"trial": Failed(reached=applied, reason="no_change", detail="the edits give the best version's code")}
    if refused := find_refusal(edit.audit, trial.proposed.hypothesis, best.contract):
        return {"trial": Failed(reached=applied, reason=refused.reason, detail=refused.detail)}
    applied = applied.model_copy(update={"caches": _simulate_caches(edit, ports)})
    if refused_cache := next((cache for cache in applied.caches if not cache.bounded), None):
        where = f"{refused_cache.path}:{refused_cache.line}: {refused_cache.why}"
        return {"trial": Failed(reached=applied, reason="overfit", detail=where)}
    return {"trial": applied}


def _apply_edits(
    start: Proposed, edits: tuple[FileEdit, ...], origin: Standing | Solution, ports: Ports
) -> AppliedEdits | EditRefusal:
    """In a round: edits on top of its origin. What reading found of a parent that was never kept stays found of its child."""
    edit = ports.workspace.apply(round=start.round, parent=origin.commit, edits=edits, at=start.opened_at)
    if isinstance(edit, EditRefusal) or isinstance(origin, Standing):
        return edit
    return edit.model_copy(update={"audit": tuple(dict.fromkeys((*origin.audit, *edit.audit)))})


def _simulate_caches(edit: AppliedEdits, ports: Ports) -> tuple[CacheSimulation, ...]:
    """In a round: every weight cache that reading found, over fresh steps: what cannot be simulated is no W1."""
    simulations: list[CacheSimulation] = []
    for finding in list_weight_caches(edit.audit):
        simulation = ports.checker.simulate_cache(edit.commit, finding.key)
        answer = classify_simulation(simulation)
        simulations.append(
            CacheSimulation(
                path=finding.path,
                line=finding.line,
                method=simulation.method,
                bounded=answer.answer == "bounded",
                why=answer.why,
            )
        )
    return tuple(simulations)


def _make_applied(trial: Drafted, edit: AppliedEdits) -> Applied:
    return Applied(
        drafted=trial,
        commit=edit.commit,
        tree=edit.tree,
        diff=edit.diff,
        snapshot=edit.snapshot,
        changed=edit.changed,
        audit=edit.audit,
    )


# Workspace mode: a candidate is tried in the minimal project first; what passes there is synced back.


def local_gate(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: build, test and quick benchmark of the candidate's minimal project.

    It only refuses: whether a change is kept is decided in the project itself, on numbers taken there.
    """
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Applied)
    minimal = ports.workspace.extract(trial.commit).commit
    trial = trial.model_copy(update={"local": LocalGate(commit=minimal)})
    built = _judge_build(trial, ports.builder.build(minimal), ports)
    if isinstance(built, Failed) or not built.build.ok:
        return {"trial": built}
    test = ports.checker.check(minimal, purpose=f"round-{trial.drafted.proposed.round}, minimal project")
    tested = _judge_test(built, test, ports)
    if not isinstance(tested, Verified):
        return {"trial": tested}
    return {"trial": _time_minimal_project(trial, minimal, test, ports)}


ROUNDS_APART = 1000
"""More than there are rounds: the best version is timed anew for every try of every candidate."""


def _time_minimal_project(trial: Applied, minimal: str, test: TestResult, ports: Ports) -> Applied | Failed:
    """The candidate's minimal project against the best version's, one quick run each, the best version first."""
    best, limits = read_standing(ports), read_history(ports).limits
    versions = (ports.workspace.extract(best.commit).commit, minimal)
    old, new = (
        ports.timer.benchmark(
            version,
            level="quick",
            source="quick",
            shapes=best.shapes,
            repeat=trial.drafted.proposed.round + ROUNDS_APART * len(trial.drafted.repairs),
            purpose="minimal project",
        )
        for version in versions
    )
    gain, why = compare_minimal_projects(new, old, best.contract.scoring, limits)
    reached = trial.model_copy(update={"local": LocalGate(commit=minimal, test=test, quick=new, gain=gain)})
    return reached if why is None else Failed(reached=reached, reason=why[0], detail=why[1])


def sync_back(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: the kernel's own changes on top of the best version of the project: nothing else leaves the workspace."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Applied)
    core = ports.workspace.select_core(trial.drafted.edits)
    left = tuple(edit.path for edit in trial.drafted.edits if edit not in core)
    if not left:
        return {"trial": trial}
    start = trial.drafted.proposed
    origin = find_origin(start, read_history(ports))
    edit = _apply_edits(start, core, origin, ports)
    if isinstance(edit, EditRefusal):
        return {"trial": Failed(reached=trial, reason="refused_edit", detail=edit.detail)}
    synced = _make_applied(trial.drafted, edit).model_copy(
        update={"caches": trial.caches, "local": trial.local, "left": left}
    )
    if edit.tree == origin.tree:
        why = f"nothing of the kernel changed: only {', '.join(left)}, which stays in the workspace"
        return {"trial": Failed(reached=synced, reason="no_change", detail=why)}
    return {"trial": synced}


# Build the candidate.


def compile_candidate(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Applied)
    built = _judge_build(trial, ports.builder.build(trial.commit), ports)
    if isinstance(built, Built) and (new := find_tampering(ports, built.build)):
        return {"trial": Failed(reached=built, reason="tampered", detail=new)}
    return {"trial": built}


def _judge_build(trial: Applied, build: BuildResult, ports: Ports) -> Built | Failed:
    """A node's stage after a build: built, or broken on its way to a repair; failed where none is left."""
    built, limits = Built(applied=trial, build=build), read_history(ports).limits
    if build.stopped:
        return Failed(reached=built, reason="stopped", detail=build.stopped)
    if build.ok or (limits.repair_builds and count_repairs_left(trial.drafted, limits) > 0):
        return built
    timed_out = build.exit is not None and build.exit.timed_out
    detail = build.exit.output if build.exit else "the build failed without saying why"
    return Failed(reached=built, reason="build_timeout" if timed_out else "build_failed", detail=detail)


def find_tampering(ports: Ports, build: BuildResult) -> str:
    """In a round: what a good build changed of the evaluation, beyond what the original's own build does; empty when nothing.

    The files were restored, but the test or the benchmark may have been built from what they were meanwhile.
    """
    if not build.ok or not build.touched:
        return ""
    new = sorted(build.touched - ports.builder.build(read_history(ports).opened.base_commit).touched)
    if not new:
        return ""
    return f"the build changed what judges it, which the original's build leaves alone: {', '.join(new)}"


# Correctness before any performance conclusion.

FAILED_TEST: dict[
    Literal["incorrect", "timeout", "crash", "tampered", "stopped"],
    Literal["incorrect", "test_timeout", "test_crashed", "tampered", "stopped"],
] = {
    "incorrect": "incorrect",
    "timeout": "test_timeout",
    "crash": "test_crashed",
    "tampered": "tampered",
    "stopped": "stopped",
}
"""Kind of a failed test -> why the trial ended."""


def verify(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Built)
    test = run_test(ports, trial.applied.commit, purpose=_name_test(trial.applied))
    return {"trial": _judge_test(trial, test, ports)}


def _name_test(trial: Applied) -> str:
    """In a round: the purpose of a candidate's test."""
    return f"round-{trial.drafted.proposed.round}"


def _judge_test(trial: Built, test: TestResult, ports: Ports) -> Verified | Broken | Failed:
    """A node's stage after a test: right, wrong on its way to a repair, or failed."""
    match test.kind:
        case "pass":
            return Verified(built=trial, test=test)
        case "incorrect":
            broken = Broken(built=trial, test=test)
            if count_repairs_left(trial.applied.drafted, read_history(ports).limits) > 0:
                return broken
            return Failed(reached=broken, reason="incorrect", detail=test.detail)
        case kind:
            return Failed(reached=trial, reason=FAILED_TEST[kind], detail=test.detail)


# A candidate's test, held against the original's: exit code 0 alone does not say that a test came to its end.

ORIGINAL_AGAIN = ("baseline again 1", "baseline again 2")
"""Runs of the original that show which of its lines vary: asked only where one is missing, once in a campaign."""


def run_test(ports: Ports, commit: str, *, purpose: str) -> TestResult:
    """In a round: the test of `commit`; `incorrect`, and so repairable, where it passed by ending early.

    Where lines are missing the original is run again, since its lines may vary, and then the candidate once.
    """
    test = ports.checker.check(commit, purpose=purpose)
    baseline = read_history(ports).baseline
    original = baseline.test.printed if baseline else None
    if original is None or test.printed is None or explain_early_end((original,), test.printed) is None:
        return test
    originals = (original, *_run_original_again(ports))
    why = explain_early_end(originals, test.printed)
    if why is None:
        return test
    retest = ports.checker.check(commit, purpose=f"{purpose} again")
    why = explain_early_end(originals, retest.printed) if retest.printed else None
    if why is None:  # it passed in full, or failed in plain words
        return retest
    return retest.model_copy(
        update={"passed": False, "kind": "incorrect", "detail": f"{why}\n{retest.detail}".rstrip(), "printed": None}
    )


def _run_original_again(ports: Ports) -> tuple[TestOutput, ...]:
    base = read_history(ports).opened.base_commit
    runs = (ports.checker.check(base, purpose=purpose) for purpose in ORIGINAL_AGAIN)
    return tuple(run.printed for run in runs if run.printed is not None)


# Same hypothesis, smaller fix, at most limits.max_repairs times.


def count_repairs_left(drafted: Drafted, limits: Limits) -> int:
    """In a round: how often the planner may be asked to mend this draft: never, where a person or earlier campaign wrote it."""
    return 0 if drafted.proposed.author or drafted.proposed.champion else limits.max_repairs - len(drafted.repairs)


def repair(state: State, runtime: Runtime[Ports]) -> Update:
    trial = state["trial"]
    assert isinstance(trial, Broken | Built)
    drafted = find(trial, Drafted)
    assert drafted is not None
    attempt = len(drafted.repairs) + 1
    answer = runtime.context.planner.repair(_brief_about(trial, state, runtime.context), trial, attempt)
    evidence = _read_evidence(trial)
    request = Repair(evidence=evidence, explanation=answer.explanation or answer.refusal, cost=answer.cost)
    if not answer.edits:
        detail = f"{evidence}\nrepair {attempt}: {answer.refusal or 'no edits'}"
        reached = _with_draft(trial, drafted.model_copy(update={"repairs": (*drafted.repairs, request)}))
        reason: Literal["incorrect", "build_failed"] = "incorrect" if isinstance(trial, Broken) else "build_failed"
        return {"trial": Failed(reached=reached, reason=reason, detail=detail), "exhausted": answer.exhausted}
    update = {
        "edits": answer.edits,
        "explanation": answer.explanation or drafted.explanation,
        "repairs": (*drafted.repairs, request),
        "prompts": (*drafted.prompts, *answer.prompts),
    }
    return {"trial": drafted.model_copy(update=update)}


def _with_draft(trial: Broken | Built, drafted: Drafted) -> Broken | Built:
    """In a round: the same trial around a draft that remembers the refused repair: asking for it cost something too."""
    if isinstance(trial, Broken):
        return trial.model_copy(update={"built": _build_with_draft(trial.built, drafted)})
    return _build_with_draft(trial, drafted)


def _build_with_draft(built: Built, drafted: Drafted) -> Built:
    return built.model_copy(update={"applied": built.applied.model_copy(update={"drafted": drafted})})


def _read_evidence(trial: Broken | Built) -> str:
    if isinstance(trial, Broken):
        return trial.test.detail
    return trial.build.exit.output if trial.build.exit else ""


# Measure as long as the rules want more. A crash in between costs nothing: what was answered is on the tape.


def measure(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: times the candidate against the best version; of several, each in turn as long as it may still be the one to keep."""
    ports = runtime.context
    history = read_history(ports)
    best = fold.standing(history)
    contestants: list[Stage] = list(list_contestants(state))
    sharing = max(1, sum(isinstance(trial, Verified | Timed) for trial in contestants))
    while (turn := choose_turn(contestants, best, history.limits)) is not None:
        place, want = turn
        trial = contestants[place]
        verified = find(trial, Verified)
        assert verified is not None
        run = take_measurement(
            ports,
            want,
            best=best,
            candidate=verified.built.applied.commit,
            purpose=f"round-{find_proposal(trial).round}",
            blocks=history.limits.blocks,
        )
        so_far = trial.evidence if isinstance(trial, Timed) else ()
        contestants[place] = Timed(verified=verified, evidence=(*so_far, run), sharing=sharing)
    *rivals, trial = (
        Timed(verified=trial, evidence=(), sharing=sharing) if isinstance(trial, Verified) else trial
        for trial in contestants
    )
    return {"trial": trial, "rivals": tuple(rivals)}


def take_measurement(
    ports: Ports, want: BenchmarkWant | CompareWant, *, best: Standing, candidate: str, purpose: str, blocks: int
) -> Measured:
    """For node `measure`: carry out one benchmark or comparison that the preset's rule wants."""
    match want:
        case BenchmarkWant():
            return ports.timer.benchmark(
                candidate if want.which == "candidate" else best.commit,
                level=want.level,
                source="quick",
                shapes=best.all_shapes if want.level == "full" else best.shapes,
                repeat=want.repeat,
                purpose=purpose,
            )
        case CompareWant():
            return ports.timer.compare(
                best=best.commit,
                candidate=candidate,
                shapes=best.all_shapes,
                first_pair=want.first_pair,
                pairs=want.pairs,
                blocks=blocks,
                purpose=purpose,
            )


# Profile the candidate; the counters are compared with the prediction when the round is closed (`rules/lessons.py`).


def trace(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: profiles the candidate; of several those that may be kept, and the fastest."""
    history, contestants = read_history(runtime.context), list_contestants(state)
    promising = list_promising(contestants, fold.standing(history), history.limits)
    *rivals, trial = (
        _trace_candidate(trial, history, runtime.context, profiled=place in promising)
        if isinstance(trial, Timed)
        else trial
        for place, trial in enumerate(contestants)
    )
    return {"trial": trial, "rivals": tuple(rivals)}


def _trace_candidate(trial: Timed, history: History, ports: Ports, *, profiled: bool) -> Traced:
    readings = sort_readings(trial, fold.standing(history), history.limits)
    if not profiled or not trial.evidence or readings.failed is not None:
        return Traced(timed=trial, profile=None)
    commit = trial.verified.built.applied.commit
    return Traced(timed=trial, profile=ports.profiler.profile(commit, purpose=f"round-{find_proposal(trial).round}"))


def decide(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: the verdict; of several candidates one for each, and the one that is kept goes on."""
    history, contestants = read_history(runtime.context), list_contestants(state)
    best, limits = fold.standing(history), history.limits
    start = find_proposal(contestants[-1])
    if start.author or start.champion or len(contestants) > 1:
        # a person is asked what becomes of an edit, not the planner; of several candidates another one may be kept
        limits = limits.model_copy(update={"split": False})
    judged: list[Judged] = []
    for trial in contestants:
        assert isinstance(trial, Traced | Failed)
        verdict = acceptance.decide_verdict(trial, best, limits, best_profile=read_best_counters(state, history))
        judged.append(Judged(trial=trial, verdict=verdict))
    options = mark_all_outpaced(judged, best, limits)
    kept = options[choose_kept(options)]
    others = tuple(option for option in options if option is not kept)
    return {"trial": kept, "rivals": (), "alternatives": (*state.get("alternatives", ()), *others)}


# Winners and losers diverge by configuration class: ask once for a specialised kernel with a dispatch.


def split(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    answer = ports.planner.split(_brief_about(trial, state, ports), trial)
    drafted = find(trial, Drafted)
    assert drafted is not None
    update_cost = {"prompts": (*drafted.prompts, *answer.prompts), "cost": drafted.cost + answer.cost}
    if answer.edits:
        update = {"edits": answer.edits, "explanation": answer.explanation, "split": True, **update_cost}
        return {"trial": drafted.model_copy(update=update)}
    refused = replace_draft(trial.trial, drafted.model_copy(update=update_cost))
    assert isinstance(refused, Traced | Failed)
    history = read_history(ports)
    limits = history.limits.model_copy(update={"split": False})
    verdict = acceptance.decide_verdict(
        refused, fold.standing(history), limits, best_profile=read_best_counters(state, history)
    )
    return {"trial": Judged(trial=refused, verdict=verdict), "exhausted": answer.exhausted}


# Format the changed files; what will be committed is what gets measured again.


def format_candidate(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    applied = find(trial, Applied)
    assert applied is not None
    formatting = ports.builder.format(applied.commit, applied.changed)
    note = f"not formatted: {formatting.detail}" if formatting.detail else ""
    if formatting.edits:
        edits = tuple(edit for edit in applied.drafted.edits if edit.path not in {e.path for e in formatting.edits})
        start = applied.drafted.proposed
        origin = find_origin(start, read_history(ports))
        formatted = _apply_edits(start, (*edits, *formatting.edits), origin, ports)
        if isinstance(formatted, EditRefusal):
            note = f"not formatted: {formatted.detail}"
        else:
            applied = Applied(drafted=applied.drafted, **formatted.model_dump())
    verdict = trial.verdict.model_copy(update={"notes": (*trial.verdict.notes, note)}) if note else trial.verdict
    return {"trial": trial.model_copy(update={"formatted": Formatted(applied=applied), "verdict": verdict})}


# A formatted tree that differs is built, tested and timed again before it may be committed.


def revalidate(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    assert trial.formatted is not None
    formatted, measured = trial.formatted.applied, find(trial, Applied)
    assert measured is not None
    if formatted.tree == measured.tree:
        return {"trial": trial}
    retest = _measure_formatted(ports, formatted)
    evidence = retest.timed.evidence if isinstance(retest, Traced) else ()
    history = read_history(ports)
    verdict = acceptance.decide_verdict(
        retest, fold.standing(history), history.limits, best_profile=read_best_counters(state, history)
    )
    final = trial.verdict if verdict.accepted else _roll_back_formatted(verdict, trial.verdict)
    outcome = Formatted(applied=formatted, evidence=evidence)
    return {"trial": Judged(trial=trial.trial, verdict=final, formatted=outcome)}


def _measure_formatted(ports: Ports, applied: Applied) -> Traced | Failed:
    history = read_history(ports)
    best, number = fold.standing(history), find_proposal(applied).round
    built = Built(applied=applied, build=ports.builder.build(applied.commit))
    if not built.build.ok:
        return Failed(reached=built, reason="build_failed", detail="the formatted code does not build")
    if new := find_tampering(ports, built.build):
        return Failed(reached=built, reason="tampered", detail=new)
    test = run_test(ports, applied.commit, purpose=f"round-{number} formatted")
    if test.kind != "pass":
        return Failed(reached=built, reason=FAILED_TEST[test.kind], detail=test.detail)
    verified = Verified(built=built, test=test)
    evidence: tuple[Measured, ...] = ()
    while want := choose_measurement(
        Timed(verified=verified, evidence=evidence) if evidence else verified, best, history.limits
    ):
        purpose = f"round-{number} formatted"
        run = take_measurement(
            ports, want, best=best, candidate=applied.commit, purpose=purpose, blocks=history.limits.blocks
        )
        evidence = (*evidence, run)
    profile = ports.profiler.profile(applied.commit, purpose=f"round-{number} formatted")
    return Traced(timed=Timed(verified=verified, evidence=evidence), profile=profile)


def _roll_back_formatted(formatted: Verdict, before: Verdict) -> Verdict:
    """Undo in the round what formatting took away: it is not kept."""
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


# A draft on its way to a measurement: applied, built and tested, without asking anybody to mend it.


def try_draft(ports: Ports, drafted: Drafted) -> Verified | Failed:
    """At approval in a round: what a person's edit comes to, by the very nodes that a round takes it through."""
    runtime = Runtime(context=ports)
    trial: object = drafted
    for node in (apply, compile_candidate, verify):
        trial = node(cast("State", {"trial": trial}), runtime)["trial"]
        if isinstance(trial, Failed):
            return trial
    assert isinstance(trial, Verified)
    return trial
