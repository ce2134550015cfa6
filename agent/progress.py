"""What a running campaign tells whoever watches it. No decision reads it."""

from typing import Protocol

from ridgeline.agent.outcome import Outcome
from ridgeline.graph.record import Body


class Progress(Protocol):
    """Called by the campaign runner, in order, from one thread; must not raise and must not block."""

    def phase(self, name: str, round: int, detail: str = "") -> None:
        """A phase of the loop began, for example `("measure", 4, "unroll the inner loop")`."""
        ...

    def closed(self, body: Body) -> None:
        """A line reached the ledger. The first is always `Opened`."""
        ...

    def finished(self, outcome: Outcome) -> None:
        """The command is about to return; called once, also after an interruption."""
        ...

    def close(self) -> None:
        """Give the terminal back; may be called twice."""
        ...


class SilentProgress:
    """Nobody is watching."""

    def phase(self, name: str, round: int, detail: str = "") -> None:
        """Say nothing."""

    def closed(self, body: Body) -> None:
        """Say nothing."""

    def finished(self, outcome: Outcome) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Nothing to give back."""
