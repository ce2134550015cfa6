"""Commands that the evaluation side adds to the command line, and the tasks it ships."""

import os
import shutil
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

Task = Annotated[str, typer.Option(help="A ready-made task, for example matmul_c or softmax_c, or the folder of one.")]
MaxRounds = Annotated[int | None, typer.Option(help="Stop after this many rounds, 1 to 119.")]
MaxMinutes = Annotated[
    float | None, typer.Option(help="Begin no round after this many minutes; default: 4.5, none with a model.")
]
Planner = Annotated[str | None, typer.Option(help="Who proposes changes without a model; default: catalog.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="The language model that thinks: litellm's provider/model, mailbox, or recorded:FOLDER. Env: RIDGELINE_MODEL."
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="Address of an OpenAI-compatible server, with --model openai/NAME.")
]
Directory = Annotated[Path | None, typer.Option("--dir", help="Folder to make; default: ridgeline-demo/<task>-<time>.")]
Assignments = Annotated[list[str] | None, typer.Option("--set", help="key=value of any limit; may be repeated.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]

ROUNDS = 8
MINUTES = 4.5


def register(app: typer.Typer) -> None:
    """Add the commands; called through the entry-point group `ridgeline.commands`."""
    from ridgeline.evals.decisions import commands as decisions
    from ridgeline.evals.recordings import commands as recordings

    app.command()(demo)
    recordings.register(app)
    decisions.register(app)
    if find_spec("ridgeline.evals.research"):  # in a checkout; a wheel has no research
        from ridgeline.evals.research.rejudge import commands as rejudge

        rejudge.register(app)


def demo(
    task: Task = "matmul_c",
    max_rounds: MaxRounds = ROUNDS,
    max_minutes: MaxMinutes = None,
    planner: Planner = None,
    model: Model = None,
    base_url: BaseUrl = None,
    directory: Directory = None,
    assignments: Assignments = None,
    as_json: Json = False,
) -> None:
    """A whole campaign with nothing to configure. Optimizes a naive C kernel on this machine's processor."""
    from ridgeline.agent import console
    from ridgeline.agent.campaign.folders import WORKSPACE
    from ridgeline.agent.cli.campaign import launch, print_outcome, resolve_settings, thinker
    from ridgeline.agent.contract_file import load
    from ridgeline.agent.errors import UserError
    from ridgeline.agent.scaffold.contract import copy
    from ridgeline.graph.errors import RidgelineError

    mind = thinker(planner, model, base_url, [])
    if max_minutes is None and mind is None:
        max_minutes = MINUTES
    folder = directory or Path("ridgeline-demo") / f"{_name_task(task)}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    is_new = not folder.exists()
    loaded = load(copy(task, folder))
    planner_name = planner or os.environ.get("RIDGELINE_PLANNER", "catalog")
    settings = resolve_settings(
        loaded,
        {"max_rounds": max_rounds, "max_minutes": max_minutes},
        assignments or [],
        model=mind,
    )
    console.note(
        f"demo: task {task} in {folder}, planner {mind.planner if mind else planner_name};"
        " interrupt with Ctrl-C, go on with `ridgeline resume`"
    )
    try:
        outcome = launch(loaded, settings=settings, planner=planner_name, model=mind)
    except (UserError, RidgelineError):
        if is_new and not (folder / WORKSPACE).exists():  # nothing was begun: no card of that kind, a wrong setting
            shutil.rmtree(folder)
        raise
    print_outcome(outcome, as_json=as_json)
    if not as_json and outcome.best_commit:
        console.say(f"\nsee it:    git -C {folder} log --oneline {outcome.branch}")


def _name_task(task: str) -> str:
    """A shipped task's name for a folder: of the recording, where the task lies in one."""
    place = Path(task).resolve()
    return task if not place.is_dir() else place.parent.name if place.name == "task" else place.name
