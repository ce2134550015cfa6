"""What went wrong in a version, in the form of the memory's `pitfalls_and_fixes`."""

from ridgeline.graph.documents import figures
from ridgeline.graph.documents.text import clip
from ridgeline.graph.record import Restarted, RoundClosed
from ridgeline.graph.rules.history import masked_versions
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Drafted, find

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Entry = dict[str, Json]
WORDS = 2000
"""Characters of any one text of somebody else's."""

_ERROR_TYPES = {
    "build_failed": "compilation",
    "build_timeout": "timeout",
    "test_timeout": "timeout",
    "test_crashed": "runtime",
    "benchmark_failed": "runtime",
    "tampered": "runtime",
    "convicted": "runtime",
    "unsettled": "runtime",
    "refused_edit": "runtime",
    "incorrect": "accuracy",
    "check_failed": "accuracy",
}


def pitfall(kind: str, message: str, cause: str, *, fix: str = "", lesson: str = "") -> Entry:
    """One entry; texts are cut at `WORDS` characters."""
    return {
        "error_type": kind,
        "error_message": clip(message, WORDS),
        "root_cause": clip(cause, WORDS),
        "fix_applied": clip(fix, WORDS),
        "lesson": clip(lesson, WORDS),
    }


def pitfalls(closed: RoundClosed) -> list[Json]:
    """Every repair of a round, and why the round was not kept."""
    drafted, reflection = find(closed.judged, Drafted), closed.reflection
    found: list[Json] = [
        pitfall("accuracy", item.evidence, "", fix=item.explanation) for item in (drafted.repairs if drafted else ())
    ]
    if not closed.accepted and not closed.replaced:
        verdict, failed = closed.judged.verdict, figures.failure(closed)
        message = failed.detail if failed else verdict.sentence
        kind = _ERROR_TYPES.get(verdict.reason, "performance")
        found.append(pitfall(kind, message, reflection.root_cause, fix="rolled back", lesson=reflection.lesson or ""))
    return found


def restart_notes(history: History, version: int) -> list[Json]:
    """What restarts masked is recorded in the latest version that each of them left unmasked."""
    return [
        pitfall("partial_restart", restart.note, "no new direction", fix=f"masked {list(restart.masked)}")
        for restart in history.restarts
        if latest_unmasked(history, restart) == version
    ]


def latest_unmasked(history: History, restart: Restarted) -> int:
    """Highest version that existed at a restart and that no restart has masked."""
    hidden = masked_versions(history)
    return next((v for v in range(restart.after_round - 1, 0, -1) if v not in hidden), 0)
