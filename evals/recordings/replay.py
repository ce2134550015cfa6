"""Replay: the real graph on a recording's tape, and whether it writes the recorded ledger again, line by line."""

import tempfile
import time
from pathlib import Path
from typing import Any

from ridgeline.agent.tape import PROTOCOLS, Tape, taped
from ridgeline.evals.recordings import difference
from ridgeline.evals.recordings.card import changed_files
from ridgeline.evals.recordings.folder import LEDGER, TAPE, WORKSPACE, Folder
from ridgeline.evals.recordings.stage import Played, perform, wired
from ridgeline.evals.recordings.workspace import ToldWorkspace, playing
from ridgeline.graph.values import Value


class Replayed(Value):
    """What a replay found."""

    recording: str
    equal: bool
    """The ledger that was written is the recorded one, byte for byte."""
    rounds: int
    """Closed rounds of the replayed ledger, the baseline among them."""
    lines: int
    """Lines that are equal, before the first difference."""
    first_difference: difference.Difference | None
    stopped: str
    """The question at which the tape ended; empty when the campaign ran to its end."""
    open: bool
    """The recorded campaign was never concluded: stopping at its open question is right."""
    answers: int
    """On the tapes."""
    unused: int
    """Of these, never asked for: left by a crash, or by a question that is not asked any more."""
    changed: tuple[str, ...]
    """Files that are not those that were exported, by the digests of `recording.json`."""
    seconds: float
    """Wall seconds of the replay itself."""

    @property
    def good(self) -> bool:
        """Equal, and nobody touched the recording since it was exported."""
        return self.equal and not self.changed


class CountedTape(Tape):
    """A finished tape that knows which of its answers were wanted."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, mode="replay")
        self.asked: set[str] = set()

    @property
    def unused(self) -> int:
        """Answers that nobody asked for."""
        return len(self) - len(self.asked)

    def __len__(self) -> int:
        return len(self._answers)

    def answer(self, key: str) -> Any:
        """Like any tape, and counted."""
        self.asked.add(key)
        return super().answer(key)


def replay(path: Path) -> Replayed:
    """Play a recording. Raises UserError for a folder that cannot be played, naming file and line."""
    began = time.perf_counter()
    folder = Folder(path)
    recorded, lines = folder.ledger(), folder.lines()
    tape, git = CountedTape(folder.file(TAPE)), CountedTape(folder.file(WORKSPACE))
    with tempfile.TemporaryDirectory(prefix="ridgeline-replay-") as scratch:
        ledger = Path(scratch) / LEDGER
        answering = {name: taped(name, None, tape) for name in PROTOCOLS}
        ports = wired(answering, ToldWorkspace(playing(git)), lines, ledger)
        played = perform(folder.request(), ports, ledger)
    found = difference.first(recorded, played.lines)
    concluded = lines[-1].key == "concluded"
    return Replayed(
        recording=folder.name,
        equal=found is None and not (concluded and played.stopped),
        rounds=_rounds(played),
        lines=found.line - 1 if found else len(recorded),
        first_difference=found,
        stopped=played.stopped,
        open=not concluded,
        answers=len(tape) + len(git),
        unused=tape.unused + git.unused,
        changed=changed_files(folder.path),
        seconds=round(time.perf_counter() - began, 3),
    )


def _rounds(played: Played) -> int:
    return sum(b'"key":"round-' in line for line in played.lines)
