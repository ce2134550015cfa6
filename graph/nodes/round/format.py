"""Format the changed files; what will be committed is what gets measured again."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import standing
from ridgeline.graph.ports import Ports, Refused
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Applied, Formatted, Judged, find


def format(state: State, runtime: Runtime[Ports]) -> Update:  # noqa: A001 - the phase's name
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Judged)
    applied = find(trial, Applied)
    assert applied is not None
    done = ports.builder.format(applied.commit, applied.changed)
    note = f"not formatted: {done.detail}" if done.detail else ""
    if done.edits:
        kept = tuple(edit for edit in applied.drafted.edits if edit.path not in {e.path for e in done.edits})
        again = ports.workspace.apply(
            round=applied.drafted.proposed.round,
            parent=standing(ports).commit,
            edits=(*kept, *done.edits),
            at=applied.drafted.proposed.opened_at,
        )
        if isinstance(again, Refused):
            note = f"not formatted: {again.detail}"
        else:
            applied = Applied(drafted=applied.drafted, **again.model_dump())
    verdict = trial.verdict.model_copy(update={"notes": (*trial.verdict.notes, note)}) if note else trial.verdict
    return {"trial": trial.model_copy(update={"formatted": Formatted(applied=applied), "verdict": verdict})}
