"""What one instrument saw, or why it could not look."""

from pathlib import Path

from ridgeline.graph.values import Named, Value


class Seen(Value):
    """Counters and remarks of one instrument."""

    counters: tuple[Named, ...]
    notes: tuple[str, ...] = ()
    report: bytes | None = None
    """The instrument's own file."""
    seconds: float = 0.0


class Unavailable(Value):
    """The instrument does not work here, or not on this program."""

    why: str


class Tree(Value):
    """What is looked at: a built folder, the profile command, the kernel's name, the last-level cache's bytes."""

    path: Path
    argv: tuple[str, ...]
    kernel: str | None
    cache_bytes: int | None
