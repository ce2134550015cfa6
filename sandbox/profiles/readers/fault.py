"""What a recording that cannot be read raises."""

from pathlib import Path


class RecordingError(ValueError):
    """A file that is damaged, empty, cut or of an unknown layout: names the file, the line and the mend."""

    def __init__(self, path: Path, what: str, *, line: int | None = None) -> None:
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {what}")
        self.path = path
        self.what = what
        self.line = line
