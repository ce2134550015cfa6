"""Whether an answer could be used, asked before it is given: by the checks that travelled with its question."""

from collections.abc import Callable

from ridgeline.agent.planners.model_answers import categories, reflected
from ridgeline.agent.planners.model_checks import Checks
from ridgeline.agent.planners.model_cite import resolver
from ridgeline.agent.planners.model_directions import Chosen, checked
from ridgeline.agent.planners.model_edits import edited
from ridgeline.agent.planners.model_parse import Wrong
from ridgeline.graph.values import Value

Line = Callable[[str, int], str | None]
"""A line of the knowledge by path and number; None where there is no such line."""


class Found(Value):
    """What the planner would say of an answer."""

    why: str = ""
    """Why it cannot be used; empty when it can."""
    dropped: tuple[str, ...] = ()
    """Directions that would be left out, each with the reason, where others can be used."""


def found_of(answer: str, checks: Checks, line: Line) -> Found:
    """The planner's own checks, as far as they can be made away from its campaign: the rest it makes itself."""
    match checks.kind:
        case "propose":
            unresolved = resolver(dict(checks.lengths).get, (lambda path, number: "") if checks.more else line)
            chosen = checked(answer, checks, unresolved)
            return Found(why=chosen.why) if isinstance(chosen, Wrong) else _partly(chosen)
        case "edits":
            assert checks.contract is not None
            return _whole(edited(answer, dict(checks.texts), checks.contract))
        case "review":
            return _whole(categories(answer))
        case "reflect":
            return _whole(reflected(answer))


def _partly(chosen: Chosen) -> Found:
    return Found(dropped=chosen.dropped)


def _whole(read: object) -> Found:
    return Found(why=read.why) if isinstance(read, Wrong) else Found()
