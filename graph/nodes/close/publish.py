"""Render every file that the last ledger line touches."""

from ridgeline.graph.context import history
from ridgeline.graph.documents import changed, render
from ridgeline.graph.ports import Ports

TREE = "trees/a"
"""Where a person's quick script looks, relative to the campaign's folder, unless told otherwise."""


def publish(ports: Ports) -> None:
    """A round is closed only when its files exist; files are views and are never read back."""
    ports.files.write(changed(history(ports), worktree=TREE))


def restore_files(ports: Ports) -> None:
    """Render everything once: a crash between a ledger line and its files, or a person, may have left a gap."""
    if ports.ledger.lines():
        ports.files.write(render(history(ports), worktree=TREE))
