"""ACCEPT and ROLLBACK: one ledger line, the branch on the best version, the files."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import analysis, briefing, history
from ridgeline.graph.documents import commit_message, tip_entry
from ridgeline.graph.nodes.close.publish import publish
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.edited import replaced
from ridgeline.graph.policy.predict import check
from ridgeline.graph.policy.spent import ran, spent
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import PredictionCheck, Reflection, RoundClosed
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Applied, Judged, Traced, find, proposed
from ridgeline.graph.values import Cost


def accept(state: State, runtime: Runtime[Ports]) -> Update:
    """Commit the winner with the reason why it works."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    assert trial.formatted is not None
    known = history(ports, before=f"round-{_first(state, trial)}")
    message = commit_message(trial, known, proposed(trial).round)
    commit = ports.workspace.accept(
        parent=fold.standing(known).commit,
        tree=trial.formatted.applied.tree,
        message=message,
        at=proposed(trial).opened_at,
    )
    return _close(state, ports, trial, commit=commit)


def rollback(state: State, runtime: Runtime[Ports]) -> Update:
    """Record why, and stand on the last accepted version again."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    done = _close(state, ports, trial, commit=None)
    ports.workspace.reset(fold.standing(history(ports)).commit)
    return done


def _close(state: State, ports: Ports, trial: Judged, *, commit: str | None) -> Update:
    """One line for the round, or one for each measured change that a person chose from, in one write."""
    told = briefing(state, ports)
    before = history(ports, before=f"round-{_first(state, trial)}")
    options = sorted((trial, *state.get("alternatives", ())), key=lambda one: proposed(one).round)
    bodies: list[RoundClosed] = []
    for number, one in enumerate(options):
        after = options[number + 1] if number + 1 < len(options) else None
        unkept = one is not trial and one.verdict.accepted
        body = _closed(state, ports, one, until=proposed(after).opened_at if after else None)
        made = trial.formatted.applied if trial.formatted and trial.verdict.accepted else None
        reached = made is not None and proposed(one).round >= proposed(trial).round
        update = {
            "judged": replaced(one, trial) if unkept else one,
            "commit": commit if one is trial else None,
            "tree": made.tree if made and reached else fold.standing(before).tree,
            "decisions": tuple(state["decisions"]) if number == 0 else (),  # a checkpoint gives a list back
        }
        bodies.append(body.model_copy(update=update))
    ports.ledger.append(*bodies)
    publish(ports, lines=len(bodies))
    for body in bodies:
        if body.reflection.lesson:
            target = told.target
            entry = tip_entry(body, history(ports).opened)
            ports.files.add_tip(target.target_gpu, target.target_op, target.target_backend, entry)
    return {"trial": None, "proposal": None, "decisions": (), "alternatives": ()}


def _first(state: State, trial: Judged) -> int:
    """Number of the open round: a person's edits of its change have the numbers after it."""
    return min(proposed(one).round for one in (trial, *state.get("alternatives", ())))


def _closed(state: State, ports: Ports, judged: Judged, *, until: str | None) -> RoundClosed:
    """A judged change with what it taught and cost; `until`: when a person's edit of it took its place."""
    seen, start = analysis(state), proposed(judged)
    best = fold.standing(history(ports, before=f"round-{seen.round}"))
    applied = judged.formatted.applied if judged.formatted else find(judged, Applied)
    if start.author:  # a person's change teaches in the person's words: no planner explains it
        reflection, opened_at, looked = Reflection(attribution=judged.verdict.sentence), start.opened_at, Cost()
    else:
        reflection = ports.planner.reflect(briefing(state, ports), judged)
        opened_at, looked = seen.opened_at, _looked(state, ports)
    closed_at = ports.clock.now(f"round-{start.round} closed")
    return RoundClosed(
        round=start.round,
        judged=judged,
        prediction=None if start.author else _prediction(state, judged),
        reflection=reflection,
        bottleneck=seen.bottleneck,
        bottleneck_evidence=seen.evidence,
        commit=None,
        tree=best.tree,
        snapshot=applied.snapshot if applied else ports.workspace.snapshot(best.commit),
        closed_at=closed_at,
        cost=spent(judged, reflection, opened_at=opened_at, closed_at=until or closed_at) + looked,
    )


def _looked(state: State, ports: Ports) -> Cost:
    """What it cost to profile the best version in this round; nothing where an earlier profile was at hand."""
    seen = analysis(state)
    at_hand = fold.best_profile(history(ports, before=f"round-{seen.round}"))
    fresh = seen.profile if seen.profile != at_hand else None
    return ran(fresh)


def _prediction(state: State, trial: Judged) -> PredictionCheck | None:
    traced = find(trial, Traced)
    if traced is None:
        return None
    return check(proposed(trial).hypothesis.prediction, analysis(state).profile, traced.profile)
