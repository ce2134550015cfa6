"""Run or resume a campaign in a process of its own, so that a test can kill it: `drive.py start|resume ...`."""

import sys
from pathlib import Path

from ridgeline.agent.campaign import wiring
from ridgeline.agent.campaign.progress import SilentProgress
from ridgeline.agent.campaign.runner import StartRequest, resume, start
from ridgeline.agent.contract_file import load
from ridgeline.graph.limits import Limits
from ridgeline.graph.values import FileEdit
from tests.world import ScriptedPlanner

SCRIPTS = (
    "speed 120",
    ["speed 130 wrong", "speed 130"],
    "speed 90",
    "speed 160",
    "speed 165 wrong",
)


class TextPlanner(ScriptedPlanner):
    """The scripted planner, for the text project's own file name."""

    def draft(self, briefing, proposal):
        return _renamed(super().draft(briefing, proposal))

    def repair(self, briefing, broken, attempt):
        return _renamed(super().repair(briefing, broken, attempt))


def _renamed(draft):
    edits = tuple(FileEdit(path="kernel.txt", text=edit.text) for edit in draft.edits)
    return draft.model_copy(update={"edits": edits})


def main() -> None:
    wiring.PLANNERS["scripted"] = lambda contract: TextPlanner(*SCRIPTS)
    verb, folder, *recording = sys.argv[1:]
    if verb == "resume":
        resume(Path(folder), SilentProgress())
        return
    request = StartRequest(
        contract=load(Path(folder)),
        instruction="",
        limits=Limits(target_peak_fraction=None, max_restarts=0),
        planner="scripted",
        progress=SilentProgress(),
    )
    start(request, recording=Path(recording[0]) if recording else None)


if __name__ == "__main__":
    main()
