"""`export`: a candidate in the format that its task was made from."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

TaskFile = Annotated[
    Path, typer.Argument(metavar="TASK", help="A task.yaml, or its folder, that `init --from-...` made.")
]
Candidate = Annotated[Path | None, typer.Option(help="Folder with the sources to export; default: the task's own.")]
Output = Annotated[Path, typer.Option("--out", "-o", help="File to write; a trace goes beside it as .trace.jsonl.")]
Judgement = Annotated[
    Path | None, typer.Option(help="FlashInfer: what `ridgeline judge candidate --json` said of it; writes traces too.")
]
Times = Annotated[
    Path | None, typer.Option(help="With --judgement: the CSV of `ridgeline judge pair`, base a against candidate b.")
]
Name = Annotated[str, typer.Option(help="FlashInfer: name of the solution; default: the task's.")]
Author = Annotated[str, typer.Option(help="FlashInfer: who made it.")]
Hardware = Annotated[str, typer.Option(help="With --judgement: the card, as the traces are to say.")]


def register(app: typer.Typer) -> None:
    """Adds `export` to the command line."""
    app.command()(export)


def export(
    task: TaskFile,
    out: Output,
    candidate: Candidate = None,
    name: Name = "",
    author: Author = "ridgeline",
    judgement: Judgement = None,
    times: Times = None,
    hardware: Hardware = "",
) -> None:
    """Write a candidate as KernelBench (`ModelNew`), GPU MODE (submission.py) or FlashInfer Trace (solution, traces) has it."""
    from ridgeline.agent.formats import answers, flashinfer
    from ridgeline.agent.formats.reading import read_origin, read_source_text
    from ridgeline.agent.verification import open_task

    loaded, folder = open_task(task)
    origin = read_origin(folder)
    if candidate is not None and not candidate.is_dir():
        what = "is a file" if candidate.exists() else "no such folder"
        raise UserError(f"--candidate: {candidate}: {what}; give the folder that holds {loaded.source[0]}")
    source = read_source_text(loaded, candidate or folder)
    if judgement is not None and origin.format != "flashinfer":
        raise UserError(f"--judgement: {origin.format} has no traces; leave it out")
    match origin.format:
        case "kernelbench":
            text = answers.write_module(origin, loaded, source)
        case "gpumode":
            text = answers.write_submission(origin, loaded, source)
        case "flashinfer":
            solution = flashinfer.write_solution(origin, loaded, source, name=name or loaded.name, author=author)
            text = json.dumps(solution, indent=2) + "\n"
        case "pytorch":
            raise UserError(f"{folder}: was made from a plain function; its kernel.py can be imported as it is")
    out.write_text(text, encoding="utf-8")
    console.say(f"{out}: {loaded.name} for {origin.format}")
    if judgement is not None:
        from ridgeline.agent.formats.reading import read_report

        report = read_report(judgement, times, solution=name or loaded.name, hardware=hardware)
        traces = [*flashinfer.write_traces(origin, report)]
        place = out.with_suffix(".trace.jsonl")
        place.write_text("".join(json.dumps(trace) + "\n" for trace in traces), encoding="utf-8")
        console.say(f"{place}: {len(traces)} traces")
