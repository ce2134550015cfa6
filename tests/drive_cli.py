"""The command line with the scripted planner of `tests.drive`, in a process of its own that a test can kill."""

import sys

from ridgeline.agent.campaign import wiring
from ridgeline.agent.cli.application import run
from tests.drive import SCRIPTS, TextPlanner


def scripted() -> None:
    """Let `--planner scripted` mean the script, here and in what is resumed."""
    wiring.PLANNERS["scripted"] = lambda contract: TextPlanner(*SCRIPTS)


if __name__ == "__main__":
    scripted()
    sys.exit(run(sys.argv[1:]))
