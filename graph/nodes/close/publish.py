"""Render every file that the last ledger line touches."""

from ridgeline.graph.context import history
from ridgeline.graph.documents import changed, render
from ridgeline.graph.ports import Ports

TREE = "trees/a"
"""Where a person's quick script looks, relative to the campaign's folder, unless told otherwise."""


def publish(ports: Ports, *, lines: int = 1) -> None:
    """A round is closed only when its files exist; files are views and are never read back.

    `lines`: how many the ledger has gained.
    """
    keys = [line.key for line in ports.ledger.lines()]
    for later in range(lines - 1, -1, -1):
        known = history(ports, before=keys[-later]) if later else history(ports)
        ports.files.write(changed(known, worktree=TREE))


def restore_files(ports: Ports) -> None:
    """Render everything once: a crash between a ledger line and its files, or a person, may have left a gap."""
    if ports.ledger.lines():
        ports.files.write(render(history(ports), worktree=TREE))
