"""Nodes that close a round and the campaign: accept or roll back, the stop check, review, restart, the final test."""

from langgraph.runtime import Runtime

from ridgeline.graph.approval import Steering
from ridgeline.graph.briefing import STOPPED
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed
from ridgeline.graph.loop.context import make_briefing, publish, read_analysis, read_history
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import (
    Concluded,
    PredictionCheck,
    Reflection,
    Restarted,
    Reviewed,
    RoundClosed,
    Steered,
    restart_key,
)
from ridgeline.graph.reports.files import commit_message, tip_entry
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules import stagnation
from ridgeline.graph.rules.archive import has_archive, measure_code
from ridgeline.graph.rules.cost import command_cost, elapsed_minutes, round_cost
from ridgeline.graph.rules.escalation import advise_escalation
from ridgeline.graph.rules.goal import read_stop_lines
from ridgeline.graph.rules.lessons import check_prediction
from ridgeline.graph.rules.person_edit import mark_replaced
from ridgeline.graph.rules.race import mark_outpaced
from ridgeline.graph.rules.readings import is_left_unmeasured
from ridgeline.graph.rules.result import attribute_gain, compute_final_speedup
from ridgeline.graph.rules.roofline import bound_of
from ridgeline.graph.rules.stagnation import (
    check_full_run,
    choose_masked_versions,
    consecutive_rollbacks,
    needs_full_run,
)
from ridgeline.graph.rules.stop import STOP_REQUESTED, describe_stop, evaluate_stop_checks
from ridgeline.graph.standing import History
from ridgeline.graph.state import Final, State, Update
from ridgeline.graph.stats.paired import PairedError, check_samples
from ridgeline.graph.trial import Applied, Judged, Traced, find, find_proposal
from ridgeline.graph.values import Cost


def accept(state: State, runtime: Runtime[Ports]) -> Update:
    """Node at a round's close: commits the winner with the reason why it works."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    assert trial.formatted is not None
    history = read_history(ports, before=f"round-{_open_round_number(state, trial)}")
    message = commit_message(trial, history, find_proposal(trial).round)
    commit = ports.workspace.accept(
        parent=fold.standing(history).commit,
        tree=trial.formatted.applied.tree,
        message=message,
        at=find_proposal(trial).opened_at,
    )
    return _close_round(state, ports, trial, commit=commit)


def rollback(state: State, runtime: Runtime[Ports]) -> Update:
    """Node at a round's close: records why a candidate was not kept, and stands on the last accepted version again."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    update = _close_round(state, ports, trial, commit=None)
    ports.workspace.reset(fold.standing(read_history(ports)).commit)
    return update


def _close_round(state: State, ports: Ports, trial: Judged, *, commit: str | None) -> Update:
    """At a round's close: one ledger line, or one for each of several candidates and of a person's edits, in one write."""
    briefing = make_briefing(state, ports)
    before = read_history(ports, before=f"round-{_open_round_number(state, trial)}")
    options = sorted((trial, *state.get("alternatives", ())), key=lambda judged: find_proposal(judged).round)
    bodies: list[RoundClosed] = []
    for number, option in enumerate(options):
        after = options[number + 1] if number + 1 < len(options) else None
        unkept = option is not trial and option.verdict.accepted
        until = find_proposal(after).opened_at if after else None
        body = _make_closed(state, ports, option, until=until, taught=option is trial, first=number == 0)
        applied = trial.formatted.applied if trial.formatted and trial.verdict.accepted else None
        reached = applied is not None and find_proposal(option).round >= find_proposal(trial).round
        beside = find_proposal(trial).beside is not None and not find_proposal(trial).author
        update = {
            "judged": (mark_outpaced if beside else mark_replaced)(option, trial) if unkept else option,
            "commit": commit if option is trial else None,
            "tree": applied.tree if applied and reached else fold.standing(before).tree,
            "decisions": tuple(state["decisions"]) if number == 0 else (),  # a checkpoint gives a list back
            "exhausted": (state["exhausted"] or body.reflection.exhausted) if option is trial else "",
        }
        bodies.append(body.model_copy(update=update))
    ports.ledger.append(*bodies)
    publish(ports, lines=len(bodies))
    for body in bodies:
        if body.reflection.lesson:
            target = briefing.target
            entry = tip_entry(body, read_history(ports).opened)
            ports.files.add_tip(target.target_gpu, target.target_op, target.target_backend, entry)
    return {"trial": None, "proposal": None, "decisions": (), "alternatives": (), "queue": (), "rivals": ()}


def _open_round_number(state: State, trial: Judged) -> int:
    """At a round's close: number of the open round: a person's edits of its change have the numbers after it."""
    return min(find_proposal(option).round for option in (trial, *state.get("alternatives", ())))


def _make_closed(
    state: State, ports: Ports, judged: Judged, *, until: str | None, taught: bool, first: bool
) -> RoundClosed:
    """At a round's close: its record: a judged change with what it taught and cost.

    `until`: when the next of them began. `taught`: of candidates tried side by side the planner explains one. `first`:
    it bears the cost of what was done for all of them.
    """
    analysis, start = read_analysis(state), find_proposal(judged)
    history = read_history(ports, before=f"round-{analysis.round}")
    best = fold.standing(history)
    applied = judged.formatted.applied if judged.formatted else find(judged, Applied)
    if start.author:  # a person's change teaches in the person's words: no planner explains it
        reflection, opened_at, cost = Reflection(attribution=judged.verdict.sentence), start.opened_at, Cost()
    else:
        briefing = make_briefing(state, ports).model_copy(update={"round": start.round})
        is_known = not (history.limits.unmeasured_apart and is_left_unmeasured(judged))
        asked = is_known and (taught or start.beside is None)
        reflection = (
            ports.planner.reflect(briefing, judged) if asked else Reflection(attribution=judged.verdict.sentence)
        )
        opened_at, cost = analysis.opened_at, _analysis_cost(state, ports) if first else Cost()
    closed_at = ports.clock.now(f"round-{start.round} closed")
    return RoundClosed(
        round=start.round,
        judged=judged,
        prediction=None if start.author else _check_prediction(state, judged),
        reflection=reflection,
        bottleneck=analysis.bottleneck,
        bottleneck_evidence=analysis.evidence,
        best_known=analysis.best_known if first else None,
        commit=None,
        tree=best.tree,
        snapshot=applied.snapshot if applied else ports.workspace.snapshot(best.commit),
        code=measure_code(ports.workspace.sources(applied.commit)) if applied and has_archive(history.limits) else None,
        closed_at=closed_at,
        cost=round_cost(judged, reflection, opened_at=opened_at, closed_at=until or closed_at) + cost,
    )


def _analysis_cost(state: State, ports: Ports) -> Cost:
    """At a round's close: what it cost to profile the best version in it; nothing where an earlier profile was at hand."""
    analysis = read_analysis(state)
    at_hand = fold.best_profile(read_history(ports, before=f"round-{analysis.round}"))
    fresh = analysis.profile if analysis.profile != at_hand else None
    return command_cost(fresh, analysis.best_known)


def _check_prediction(state: State, trial: Judged) -> PredictionCheck | None:
    traced = find(trial, Traced)
    if traced is None:
        return None
    return check_prediction(find_proposal(trial).hypothesis.prediction, read_analysis(state).profile, traced.profile)


# The stop check, after every closed round.


def check_stop(state: State, runtime: Runtime[Ports]) -> Update:
    ports = runtime.context
    if state["request"].steerable:
        _hear_steering(ports)
    history = read_history(ports)
    last_round = history.rounds[-1].round if history.rounds else 1
    mark = f"{last_round}.{len(history.restarts)}"
    exhausted = state["exhausted"] or _read_end(ports)
    stopped = _find_stop(history, ports, exhausted, last_round)
    minutes = _read_minutes(history, ports, f"check after round-{mark}")
    checks = evaluate_stop_checks(
        history, stop_requested=bool(stopped), exhausted=exhausted, elapsed_minutes=minutes, stopped=stopped
    )
    return {"checks": checks, "exhausted": exhausted, "restarts": len(history.restarts)}


def _hear_steering(ports: Ports) -> None:
    """Record in the open loop what a person changed of the campaign since it was last looked: it holds from here on."""
    history = read_history(ports)
    last_round = fold.next_round(history) - 1
    wish = ports.signals.steering(last_round, later_events=_count_later_events(history, last_round))
    if wish == (history.steered[-1].wish if history.steered else Steering()):
        return
    terms = read_stop_lines(
        wish.stops,
        metric=history.contract.scoring.primary_metric[0],
        bound=bound_of(history.baseline.shapes) if history.baseline else "unknown",
        ceilings=history.roofline.ceilings if history.roofline else None,
    )
    repeat = sum(event.after_round == last_round for event in history.steered)
    ports.ledger.append(Steered(after_round=last_round, repeat=repeat, wish=wish, **dict(terms)))
    publish(ports)


def _count_later_events(history: History, last_round: int) -> int:
    """At the loop's stop check: reviews and restarts that came after a round."""
    rounds = [event.after_round for event in history.reviews] + [event.after_round for event in history.restarts]
    return rounds.count(last_round)


def _read_minutes(history: History, ports: Ports, moment: str) -> float:
    """At the loop's stop check: minutes of the campaign that count towards `max_minutes`."""
    if history.opened.counts_work:
        return ports.clock.worked_s(moment) / 60
    began = history.baseline.opened_at if history.baseline else ports.clock.now("round-1 opened")
    return elapsed_minutes(began, ports.clock.now(moment), history.rounds)


def _read_end(ports: Ports) -> str:
    """At the loop's stop check: why nothing is left, as the round or review closed last says: a kill after it loses nothing."""
    for line in reversed(ports.ledger.lines()):
        match line.body:
            case Reviewed() as review:
                return review.exhausted
            case RoundClosed():
                latest = fold.latest_question(read_history(ports))
                return next((closed.exhausted for closed in latest if closed.exhausted), "")
            case Restarted():
                return ""
    return ""


def _find_stop(history: History, ports: Ports, exhausted: str, last_round: int) -> str:
    """At the loop's stop check: who ended the loop, and why; empty while no person has. Not asked where that is on record."""
    if exhausted.startswith(STOPPED):
        return STOP_REQUESTED
    decisions = (decision for closed in fold.latest_question(history) for decision in closed.decisions)
    ending = next((decision for decision in decisions if decision.exhausted), None)
    if ending is not None:
        return f"{ending.by} says that nothing is left: {ending.exhausted}"
    later_events = _count_later_events(history, last_round)
    requested = (
        ports.signals.stop_requested(last_round, later_events=later_events)
        if later_events
        else ports.signals.stop_requested(last_round)
    )
    return STOP_REQUESTED if requested else ""


# Stagnation review: the direction changes; it is a switch, never a stop.


def review(state: State, runtime: Runtime[Ports]) -> Update:
    ports = runtime.context
    last_round = read_history(ports).rounds[-1].round
    history = read_history(ports, before=f"review-after-{last_round}")
    why = stagnation.find_stagnation(history)
    assert why is not None
    full, full_note = _validate_direction_end(ports, history, last_round)
    answer = ports.planner.review(make_briefing(state, ports, before=f"review-after-{last_round}"), why)
    ports.ledger.append(
        Reviewed(
            after_round=last_round,
            trigger=why,
            directions=answer.directions,
            exhausted=answer.exhausted,
            deep=answer.deep,
            escalation=advise_escalation(consecutive_rollbacks(history.rounds)),
            full=full,
            full_note=full_note,
            prompts=answer.prompts,
            cost=answer.cost + command_cost(full),
        )
    )
    publish(ports)
    return {"checks": None, "exhausted": answer.exhausted}


def _validate_direction_end(ports: Ports, history: History, last_round: int) -> tuple[Benchmark | None, str]:
    """At the loop's review: a direction ends with all shapes, when its best version was only seen on some of them."""
    if not needs_full_run(history):
        return None, ""
    best = fold.standing(history)
    run = ports.timer.benchmark(
        best.commit,
        level="full",
        source="quick",
        shapes=best.all_shapes,
        repeat=0,
        purpose=f"direction end after round-{last_round}",
    )
    if isinstance(run, BenchmarkFailed):
        return None, f"round-{best.round} gave no usable numbers over all shapes ({run.reason}): {run.detail}"
    usable, note = check_full_run(run, history)
    return (run if usable else None), note


# Partial restart: about half of what is remembered is masked, the best version stays.


def restart(state: State, runtime: Runtime[Ports]) -> Update:
    ports = runtime.context
    latest = read_history(ports)
    last_round = fold.next_round(latest) - 1
    earlier = latest.restarts[: state.get("restarts", 0)]  # a restart is recorded once, however often its node is run
    repeat = sum(event.after_round == last_round for event in earlier)
    history = read_history(ports, before=restart_key(last_round, repeat))
    masked = choose_masked_versions(history, seed=last_round)
    note = f"{state['exhausted']}; masked {', '.join(f'v{version}' for version in masked) or 'nothing'}"
    proposal = state["proposal"]
    cost = proposal.cost if proposal and proposal.hypothesis is None else Cost()  # of no round: nothing came of it
    ports.ledger.append(Restarted(after_round=last_round, repeat=repeat, masked=masked, note=note, cost=cost))
    publish(ports)
    return {"checks": None, "exhausted": ""}


# The one pre-registered test of champion against original, then the final record.


def final_test(state: State, runtime: Runtime[Ports]) -> Update:
    """The loop's final test: fresh processes, all shapes, a number of pairs fixed before the campaign began."""
    ports = runtime.context
    history = read_history(ports)
    best, base = fold.standing(history), history.opened.base_commit
    if best.commit == base:
        return {"final": Final(note="nothing was accepted: the best version is the original")}
    run = ports.timer.compare(
        best=base,
        candidate=best.commit,
        shapes=best.all_shapes,
        first_pair=0,
        pairs=history.limits.final_pairs,
        blocks=history.limits.blocks,
        purpose="final",
    )
    if isinstance(run, BenchmarkFailed):
        return {"final": Final(note=f"the final test failed ({run.reason}): {run.detail}")}
    try:
        check_samples(run)
    except PairedError as error:
        return {"final": Final(note=f"the final test gave no estimate: {error}")}
    return {"final": Final(comparison=run)}


def full_validation(state: State, runtime: Runtime[Ports]) -> Update:
    """At the loop's end: the project's own benchmark on best and original, and its full suite on the best."""
    ports, final = runtime.context, state["final"]
    assert final is not None
    history = read_history(ports)
    best, base = fold.standing(history), history.opened.base_commit
    runs = {
        commit: ports.timer.benchmark(
            commit,
            level="full",
            source="project",
            shapes=history.opened.target.target_shapes,
            repeat=0,
            purpose="final",
        )
        for commit in (base, best.commit)
    }
    suite = ports.checker.suite(best.commit)
    names = {base: "the original", best.commit: "the best version"}
    bad = [f"{names[commit]}: {why}" for commit, run in runs.items() if (why := _describe_trouble(run))]
    if suite is not None and not suite.passed:
        bad.append(f"the best version fails the project's full suite ({suite.kind})")
    note = "; ".join((*([final.note] if final.note else ()), *(f"full validation: {why}" for why in bad)))
    update = {
        "project": _passing_run(runs[best.commit]),
        "baseline_again": _passing_run(runs[base]),
        "suite": suite,
        "note": note,
    }
    return {"final": final.model_copy(update=update)}


def conclude(state: State, runtime: Runtime[Ports]) -> Update:
    """Node: closes the campaign's ledger and leaves the branch on the best version."""
    ports, final, checks = runtime.context, state["final"], state["checks"]
    assert final is not None
    assert checks is not None
    history = read_history(ports, before="concluded")
    claim = compute_final_speedup(final.comparison, history.limits)
    proposal = state["proposal"]
    cost = proposal.cost if proposal and proposal.hypothesis is None else Cost()  # of no round: nothing came of it
    ports.ledger.append(
        Concluded(
            stop_reason=describe_stop(checks),
            checks=checks,
            final=final.comparison,
            final_note=final.note,
            project=final.project,
            baseline_again=final.baseline_again,
            suite=final.suite,
            attribution=attribute_gain(history),
            speedup=claim.speedup if claim else None,
            speedup_lower=claim.lower if claim else None,
            closed_at=ports.clock.now("campaign closed"),
            worked_s=ports.clock.worked_s("campaign closed") if history.opened.counts_work else None,
            cost=cost + command_cost(final.comparison, final.project, final.baseline_again, final.suite),
        )
    )
    ports.workspace.reset(fold.standing(history).commit)
    publish(ports)
    return {"final": None}


def _describe_trouble(run: Benchmark | BenchmarkFailed) -> str:
    """Why the project's benchmark at the loop's end gave nothing to show; empty when it did."""
    if isinstance(run, BenchmarkFailed):
        return f"no usable numbers ({run.reason}): {run.detail}"
    failing = ", ".join(row.label for row in run.rows if row.check != "PASS")
    return f"Check is not PASS for {failing}" if failing else ""


def _passing_run(run: Benchmark | BenchmarkFailed) -> Benchmark | None:
    return run if isinstance(run, Benchmark) and all(row.check == "PASS" for row in run.rows) else None
