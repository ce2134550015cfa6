"""Render every file that the last ledger line touches."""

from graph.documents import render
from graph.nodes.context import history
from graph.ports import Ports


def publish(ports: Ports) -> None:
    """A round is closed only when its files exist; files are views and are never read back."""
    ports.files.write(render(history(ports)))
