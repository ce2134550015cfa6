"""ACCEPT and ROLLBACK: one ledger line, the branch on the best version, the files."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import analysis, briefing, history
from ridgeline.graph.documents import commit_message, tip_entry
from ridgeline.graph.nodes.close.publish import publish
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.predict import check
from ridgeline.graph.policy.spent import ran, spent
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import PredictionCheck, RoundClosed
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Applied, Judged, Traced, find, proposed
from ridgeline.graph.values import Cost


def accept(state: State, runtime: Runtime[Ports]) -> Update:
    """Commit the winner with the reason why it works."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    assert trial.formatted is not None
    known = history(ports, before=f"round-{proposed(trial).round}")
    message = commit_message(trial, known, proposed(trial).round)
    commit = ports.workspace.accept(
        parent=fold.standing(known).commit,
        tree=trial.formatted.applied.tree,
        message=message,
        at=proposed(trial).opened_at,
    )
    return _close(state, ports, trial, commit=commit, applied=trial.formatted.applied)


def rollback(state: State, runtime: Runtime[Ports]) -> Update:
    """Record why, and stand on the last accepted version again."""
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    done = _close(state, ports, trial, commit=None, applied=find(trial, Applied))
    ports.workspace.reset(fold.standing(history(ports)).commit)
    return done


def _close(state: State, ports: Ports, trial: Judged, *, commit: str | None, applied: Applied | None) -> Update:
    seen, number = analysis(state), proposed(trial).round
    told = briefing(state, ports)
    best = fold.standing(history(ports, before=f"round-{number}"))
    reflection = ports.planner.reflect(told, trial)
    closed_at = ports.clock.now(f"round-{number} closed")
    body = RoundClosed(
        round=number,
        judged=trial,
        prediction=_prediction(state, trial),
        reflection=reflection,
        bottleneck=seen.bottleneck,
        bottleneck_evidence=seen.evidence,
        commit=commit,
        tree=applied.tree if commit and applied else best.tree,
        snapshot=applied.snapshot if applied else ports.workspace.snapshot(best.commit),
        closed_at=closed_at,
        decisions=state["decisions"],
        cost=spent(trial, reflection, opened_at=seen.opened_at, closed_at=closed_at) + _looked(state, ports),
    )
    ports.ledger.append(body)
    publish(ports)
    if reflection.lesson:
        target = told.target
        entry = tip_entry(body, history(ports).opened)
        ports.files.add_tip(target.target_gpu, target.target_op, target.target_backend, entry)
    return {"trial": None, "proposal": None, "decisions": ()}


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
