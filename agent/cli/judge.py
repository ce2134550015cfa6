"""`judge`: a task's candidate, judged in a process that never runs its code."""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ridgeline.agent import console

if TYPE_CHECKING:
    from ridgeline.agent.bench.baselines import SideBySide
    from ridgeline.graph.judgment import JudgeFailed, Judgment
    from ridgeline.sandbox.judge.options import Options

TaskFile = Annotated[Path, typer.Argument(metavar="TASK", help="A task.yaml; its folder has the reference.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Csv = Annotated[Path, typer.Option(help="Where to write the rows.")]
Shapes = Annotated[str, typer.Option(help="Labels of timed sizes, separated by commas; default: all.")]
Candidate = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the task's sources, or one file: an answer in the format that the task was made from"
        " (ModelNew, submission.py, a solution in JSON); default: the task's own."
    ),
]
Against = Annotated[Path | None, typer.Option(help="Folder with the version to beat; default: the task's own.")]
Device = Annotated[
    str, typer.Option(help="cpu, cuda (AMD too) or auto: a card where the language is of cards and there is one.")
]
Without = Annotated[list[str] | None, typer.Option(help="Switch a defence off, to see what it keeps out.")]


def register(app: typer.Typer) -> None:
    """Adds `judge` and its commands to the command line."""
    group = typer.Typer(
        help="Judge a task's candidate: correct? faster? its own work? Its code runs apart, on values nobody has seen.",
        no_args_is_help=True,
    )
    group.command(name="candidate")(candidate)
    group.command(name="test")(check)
    group.command(name="bench")(bench)
    group.command(name="pair")(pair)
    group.command(name="baselines")(baselines)
    group.command(name="profile")(profile)
    group.command(name="replay")(replay)
    group.command(name="lint")(lint)
    app.add_typer(group, name="judge")
    app.command()(audit)


def candidate(
    task: TaskFile,
    candidate: Candidate = None,
    against: Against = None,
    pairs: Annotated[int, typer.Option(min=2, help="Fresh process pairs before the first look.")] = 4,
    margin: Annotated[float, typer.Option(min=0, help="Least gain that counts, as a share.")] = 0.005,
    without: Without = None,
    device: Device = "auto",
    anyway: Annotated[bool, typer.Option("--anyway", help="Judge a task with known holes as if it had none.")] = False,
    as_json: Json = False,
) -> None:
    """The whole judgement: tests on sizes and values it could not know, then timings of which every call is judged.

    Exit code 0 when the candidate is accepted, 1 when it is not. In a task whose known holes let a wrong kernel pass,
    as `judge lint` tells them, nothing is accepted.
    """
    from ridgeline.agent.verification import WRONG, judge_candidate, open_task, require_device

    require_device(device)
    open_task(task)
    options = _options(without, pairs=pairs, margin=margin, device=device)
    step = console.Progress(console.note)
    judgment = judge_candidate(task, candidate, against, options, anyway=anyway, step=step)
    if as_json:
        console.emit(judgment)
    else:
        _print_judgment(judgment, task, candidate)
        console.say("accepted" if judgment.accepted else "not accepted")
    if not judgment.accepted:
        raise typer.Exit(WRONG)


def check(task: TaskFile, candidate: Candidate = None, without: Without = None, as_json: Json = False) -> None:
    """Correct? Every call on fresh values, on public sizes and on drawn ones. Exit code 1 for MISMATCH."""
    from ridgeline.agent.verification import WRONG, check_candidate

    judgment = check_candidate(task, candidate, _options(without), step=console.Progress(console.note))
    if as_json:
        console.emit(judgment)
    else:
        _print_judgment(judgment, task, candidate)
    if not judgment.passed:
        if not as_json:
            own_only = ": the result is not the candidate's own work" if judgment.correct.answer == "yes" else ""
            console.say(f"MISMATCH{own_only}")
        raise typer.Exit(WRONG)


def bench(task: TaskFile, csv: Csv, shapes: Shapes = "") -> None:
    """Time each size in fresh processes; every timed call is judged."""
    from ridgeline.agent.verification import write_bench
    from ridgeline.graph.judgment import JudgeFailed
    from ridgeline.sandbox.judge.task_judge import HERE, time_version

    with console.Progress(console.note)("timing in fresh processes"):
        timings = time_version(task, None, shapes=_parse_labels(shapes), options=_options(None), surroundings=HERE)
    if isinstance(timings, JudgeFailed):
        _refuse(timings)
    write_bench(csv, timings)


def pair(
    task: TaskFile,
    a: Annotated[Path, typer.Argument(help="Folder of one version.")],
    b: Annotated[Path, typer.Argument(help="Folder of the other.")],
    csv: Csv,
    shapes: Shapes = "",
    blocks: Annotated[int, typer.Option(min=1, help="A B B A blocks per size.")] = 8,
    seed: Annotated[int, typer.Option(help="Accepted and not used: order and values come from the system.")] = 0,
) -> None:
    """Time two versions against each other, A B B A, in one process pair; every timed call is judged."""
    from ridgeline.agent.verification import write_pairs
    from ridgeline.graph.judgment import JudgeFailed
    from ridgeline.sandbox.judge.task_judge import HERE, time_pair

    options = _options(None)
    with console.Progress(console.note)("timing one process pair"):
        timings = time_pair(task, a, b, shapes=_parse_labels(shapes), blocks=blocks, options=options, surroundings=HERE)
    if isinstance(timings, JudgeFailed):
        _refuse(timings)
    write_pairs(csv, timings)


def baselines(
    task: TaskFile,
    candidate: Annotated[
        Path | None,
        typer.Option(help="The champion: a folder with the task's sources, or a campaign's; default: the task's own."),
    ] = None,
    start: Annotated[Path | None, typer.Option(help="Folder with the original; default: the task's own.")] = None,
    program: Annotated[
        Path | None,
        typer.Option(
            "--torch",
            help="PyTorch as one would write it: a file with reference(inputs...); default: pytorch.py beside the task, else its"
            " reference.",
        ),
    ] = None,
    rival: Annotated[Path | None, typer.Option(help="Folder with somebody's kernel as the task's sources.")] = None,
    rival_name: Annotated[str, typer.Option(help="Whose it is.")] = "",
    rival_source: Annotated[str, typer.Option(help="Where it is read, with its commit.")] = "",
    only: Annotated[
        str, typer.Option(help="Of start, eager, compile, max_autotune, rival, by commas, in that order; default: all.")
    ] = "",
    pairs: Annotated[int, typer.Option(min=2, help="Fresh process pairs of each before the first look.")] = 4,
    most_pairs: Annotated[int, typer.Option(min=2, help="Undecided after so many stays undecided.")] = 12,
    blocks: Annotated[int, typer.Option(min=1, help="A B B A blocks per size and pair.")] = 8,
    max_minutes: Annotated[float | None, typer.Option(min=0.1, help="Begin no pair that would end later.")] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="A file for the answer, written after each side; the next run times only who is not in it."),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Time a champion against its start, PyTorch (eager, torch.compile, max-autotune) and a rival, in one run.

    Every timed call is judged; each speedup comes with its lower bound at 99 %. What is refused says why.
    """
    from ridgeline.agent.bench.baselines import BaselineRequest, measure_baselines, read_names
    from ridgeline.agent.verification import require_device
    from ridgeline.sandbox.judge.options import Options

    require_device(device)
    request = BaselineRequest(
        task_file=task,
        ours=candidate,
        start=start,
        program=program,
        rival=rival,
        only=read_names(only),
        keep=keep,
        rival_name=rival_name,
        rival_source=rival_source,
    )
    if max_minutes is not None:
        request = replace(request, until=time.monotonic() + 60 * max_minutes)
    options = Options.model_validate(
        {"pairs": pairs, "most_pairs": max(pairs, most_pairs), "blocks": blocks, "device": device}
    )
    answer = measure_baselines(request, options, console.note)
    if as_json:
        console.emit(answer)
    else:
        _print_baselines(answer)


def _print_baselines(answer: "SideBySide") -> None:
    """A line for each size and side, the gains with their bounds, and notes."""
    from ridgeline.agent.bench.baselines import mean_us
    from ridgeline.graph.reports.text import times_at_least

    sides = [*dict.fromkeys(who for shape in answer.shapes for who in shape.times_us)]
    rows = [[shape.label, *(f"{shape.times_us[who]:.4g}" for who in sides)] for shape in answer.shapes]
    means = [mean_us(answer.shapes, who) for who in sides]
    rows.append(["geometric mean", *(f"{mean:.4g}" if mean else "-" for mean in means)])
    console.table(["us of a call", *sides], rows)
    for who, speedup in answer.speedup.items():
        least = f"at least {times_at_least(answer.lower[who])}" if who in answer.lower else "no bound"
        console.say(f"over {who}: {speedup:.3f}x, {least}")
    for note in answer.notes:
        console.say(note)


def profile(
    task: TaskFile,
    shape: Annotated[str, typer.Option(help="Label of a size, timed or not.")],
    candidate: Candidate = None,
    calls: Annotated[
        int | None, typer.Option(min=1, help="Calls after one that warms up.", show_default="3, on a card 8")
    ] = None,
    device: Device = "auto",
) -> None:
    """Call a version on one size a few times and judge nothing: to be started under a profiler.

    The calls are made in a process of their own, as a profiler that follows processes sees them, with this user's rights.
    """
    from ridgeline.agent.verification import profile_calls

    if code := profile_calls(task, candidate, shape, calls=calls, device=device):
        raise typer.Exit(code)


def replay(
    task: TaskFile,
    call: Annotated[str, typer.Option(help="The words after `call` in a refusal.")],
    candidate: Candidate = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Make one refused call again: the same size and values, in a fresh process. Exit code 1 where it is wrong again."""
    from ridgeline.agent.verification import WRONG, replay_named, require_device

    require_device(device)
    with console.Progress(console.note)("making the call again"):
        lines = replay_named(task, candidate, call, _options(None, device=device))
    if as_json:
        console.emit({"call": call, "right": not lines, "lines": lines})
    else:
        for line in lines or ("right when it is made alone: what it gave hung on earlier calls, or on chance",):
            console.say(line)
    if lines:
        raise typer.Exit(WRONG)


def lint(task: TaskFile, as_json: Json = False) -> None:
    """What is wrong with the task itself: a constant answer, an input that nothing depends on, a broken start."""
    from ridgeline.agent.verification import WRONG, lint_task_file

    with console.Progress(console.note)("asking the reference about every kind of values"):
        findings = lint_task_file(task)
    if as_json:
        console.emit({"findings": [finding.model_dump(mode="json") for finding in findings]})
    else:
        for finding in findings:
            console.say(f"{'wrong' if finding.wrong else 'weak'}: {finding.rule}: {finding.text}")
        count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
        console.say(count if findings else "the task is sound")
    if any(finding.wrong for finding in findings):
        raise typer.Exit(WRONG)


def _parse_labels(shapes: str) -> tuple[str, ...]:
    """Names of sizes out of an option of `judge` with commas; empty means all."""
    return tuple(word for word in shapes.split(",") if word)


def _options(without: list[str] | None, **more: float | str) -> "Options":
    """The judge's options from the command line, with the defences that are switched off."""
    from ridgeline.agent.verification import defences
    from ridgeline.sandbox.judge.options import Options

    return Options.model_validate({"without": defences(without or ()), **more})


def _refuse(failure: "JudgeFailed") -> NoReturn:
    """Prints which side the judge finds wrong, or without a time that says anything, and why; leaves with exit code 1."""
    console.complain(f"{'NO TIME' if failure.unclear else 'MISMATCH'}: side {failure.side}: {failure.detail}")
    raise typer.Exit(1)


def _print_judgment(judgment: "Judgment", task: Path, candidate: Path | None) -> None:
    """Prints the judgment's own lines, and how to repeat the calls that they name."""
    import shlex

    from ridgeline.sandbox.judge.call_names import list_mentions

    for line in judgment.lines:
        console.say(line)
    for call in list_mentions("\n".join(judgment.lines)):
        words = [str(task), *(["--candidate", str(candidate)] if candidate is not None else []), "--call", call]
        console.say(f"to make that call again: ridgeline judge replay {shlex.join(words)}")


# `audit`: read a candidate's source, never run it, and name what could fool a benchmark.

if TYPE_CHECKING:
    from ridgeline.agent.verification import AuditReport

Source = Annotated[
    str, typer.Argument(metavar="PATH|DIFF", help="A source, a folder, a unified diff, or - for standard input.")
]
Contract = Annotated[Path | None, typer.Option(help="A ridgeline.yaml: what may be changed, and the data's type.")]
Python = Annotated[
    str | None, typer.Option(help="Interpreter with torch, in which caches are tried with fresh tensors.")
]

HEADER = ("SEVERITY", "RULE", "PLACE", "SETTLED BY", "CODE")
MEANINGS = {
    "clean": "clean: nothing here needs a closer look",
    "routes": "routes: nothing convicts; a closer check settles each finding",
    "convicted": "convicted: this does what no honest kernel does; a campaign would roll it back unbuilt",
}


def audit(path: Source, contract: Contract = None, python: Python = None, as_json: Json = False) -> None:
    """Caches, replaced clocks, hidden streams, lost precision: what a candidate's source says before it is run.

    Exit code 0 whatever the verdict is: it stands in the answer.
    """
    from ridgeline.agent.verification import audit_path

    text = sys.stdin.buffer.read().decode(errors="replace") if path == "-" else None
    report = audit_path(path, text=text, contract=contract, python=python)
    if as_json:
        console.emit(report)
        return
    _print_findings(report)


def _print_findings(report: "AuditReport") -> None:
    """Prints the audit's findings, what their rules mean, caches that were tried, and the verdict."""
    from ridgeline.agent.verification import rows

    if report.findings:
        console.table(HEADER, rows(report.findings))
        console.say()
    for rule, meaning in dict.fromkeys((finding.rule, finding.meaning) for finding in report.findings):
        console.say(f"{rule}: {meaning}")
    for cache in report.caches:
        console.say(f"{cache.path}:{cache.line} {cache.rule}: {cache.answer}, {cache.why} ({cache.method})")
    count = len(report.examined)
    console.say(f"{MEANINGS[report.verdict]} ({count} {'file' if count == 1 else 'files'} read)")
