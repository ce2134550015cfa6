"""Whether a citation resolves: `path:line` of the sources, of the repository, or of the knowledge."""

import re

from agent.planners.model_tools import Books, Reader
from graph.briefing import Briefing

_FORM = re.compile(r"(?P<path>[^\s:]+):L?(?P<first>\d+)(?:-L?(?P<last>\d+))?(?::.*)?")


class Citations:
    """What can be cited in one round."""

    def __init__(self, briefing: Briefing, *, reader: Reader, books: Books) -> None:
        self._commit = briefing.best_commit
        self._sources = {edit.path: edit.text for edit in briefing.sources if edit.text is not None}
        self._reader = reader
        self._books = books

    def unresolved(self, citation: str) -> str:
        """Why it does not resolve, or nothing."""
        match = _FORM.fullmatch(citation)
        if match is None:
            return "is not of the form path:line"
        path, first, last = match["path"], int(match["first"]), int(match["last"] or match["first"])
        if last < first:
            return "ends before it begins"
        text = self._sources.get(path)
        if text is None and path in self._reader.paths(self._commit):
            text = self._reader.text(self._commit, path)
        if text is not None:
            lines = len(text.splitlines())
            return "" if first >= 1 and last <= lines else f"{path} has {lines} lines"
        if self._books.line(path, first) is None or self._books.line(path, last) is None:
            return "there is no such line in the sources or in the knowledge"
        return ""


def focus(sources: tuple[str, ...], path: str) -> tuple[int, ...]:
    """Lines of a file that citations point at."""
    found = (_FORM.fullmatch(citation) for citation in sources)
    return tuple(int(match["first"]) for match in found if match and match["path"] == path)
