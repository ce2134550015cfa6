"""Whether a citation resolves: `path:line` of the sources, of the repository, or of the knowledge."""

import re
from collections.abc import Callable

from ridgeline.agent.planners.model_checks import Length
from ridgeline.agent.planners.model_tools import Reader
from ridgeline.graph.briefing import Briefing

_FORM = re.compile(r"(?P<path>[^\s:]+):L?(?P<first>\d+)(?:-L?(?P<last>\d+))?(?::.*)?")


def resolver(length: Length, line: Callable[[str, int], str | None]) -> Callable[[str], str]:
    """Why a citation does not resolve, or nothing. `length`: of the best version's texts; `line`: of the knowledge."""

    def unresolved(citation: str) -> str:
        match = _FORM.fullmatch(citation)
        if match is None:
            return "is not of the form path:line"
        path, first, last = match["path"], int(match["first"]), int(match["last"] or match["first"])
        if last < first:
            return "ends before it begins"
        if (lines := length(path)) is not None:
            return "" if first >= 1 and last <= lines else f"{path} has {lines} lines"
        if line(path, first) is None or line(path, last) is None:
            return "there is no such line in the sources or in the knowledge"
        return ""

    return unresolved


class Texts:
    """The best version's files, as far as they are texts."""

    def __init__(self, briefing: Briefing, reader: Reader) -> None:
        self._commit = briefing.best_commit
        self._sources = {edit.path: edit.text for edit in briefing.sources if edit.text is not None}
        self._reader = reader

    @property
    def paths(self) -> tuple[str, ...]:
        """Sources first."""
        return tuple(dict.fromkeys((*self._sources, *self._reader.paths(self._commit))))

    def length(self, path: str) -> int | None:
        """Lines of a file; None where there is none, or no text."""
        text = self._sources.get(path)
        if text is None and path in self.paths:
            text = self._reader.text(self._commit, path)
        return None if text is None else len(text.splitlines())


def focus(sources: tuple[str, ...], path: str) -> tuple[int, ...]:
    """Lines of a file that citations point at."""
    found = (_FORM.fullmatch(citation) for citation in sources)
    return tuple(int(match["first"]) for match in found if match and match["path"] == path)
