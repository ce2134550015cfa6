"""`bench`: is B faster than A, for any two commands, commits or checkouts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.bench.bisect import BisectionResult
    from ridgeline.agent.bench.comparison import Answer, ShapeAnswer

NOT_SHOWN = 6
"""As `bench --fail-on` ends where nothing is settled."""

Word = "A command in quotes, a commit, or a folder; cmd:, commit: and dir: say which."
A = Annotated[str, typer.Argument(metavar="A", help=Word, show_default=False)]
B = Annotated[str, typer.Argument(metavar="B", help="What is compared with it, of the same kind.", show_default=False)]
Alpha = Annotated[float | None, typer.Option(help="Error rate of each bound, however often it is looked at; 0.01.")]
Margin = Annotated[float | None, typer.Option(help="B must be faster by more than this share; 0.005.")]
Minutes = Annotated[float, typer.Option("--max-minutes", help="For all of it.")]
Pairs = Annotated[int, typer.Option("--max-pairs", help="Pairs at most.")]
Twins = Annotated[int | None, typer.Option("--calibration-pairs", help="Pairs of A against itself; 0 for none.")]
Blocks = Annotated[int | None, typer.Option(help="ABBA blocks in a pair; 1 for commands, 5 for commits and folders.")]
Regex = Annotated[str | None, typer.Option("--metric-regex", help="Compare the number in its one group, not the time.")]
Csv = Annotated[
    str | None, typer.Option("--csv", help="Compare this column of the CSV that a command prints or writes to {csv}.")
]
Label = Annotated[str | None, typer.Option(help="Column that names the rows of the CSV; default: label.")]
Higher = Annotated[bool, typer.Option("--higher-is-better", help="The reported number is a rate.")]
Engine = Annotated[
    str | None, typer.Option(help="What took the reported numbers: wall, cpu, event, graph or profiler.")
]
CpuTime = Annotated[
    bool,
    typer.Option("--cpu-time", help="Compare processor time, user and system, of a command and all it waits for."),
]
Threads = Annotated[int | None, typer.Option(help="1 pins every command to one core.")]
Gpu = Annotated[bool, typer.Option("--gpu", help="The commands run on a GPU: each block gets an idle card to itself.")]
Timeout = Annotated[float, typer.Option(help="Seconds that one run of a command may take.")]
Seed = Annotated[int, typer.Option(help="Of the order in which commands run.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the pairs into this .png or .svg.")]
Raw = Annotated[Path | None, typer.Option(help="Keep every single timing in this JSON file.")]
FailOn = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        metavar="slower[:MARGIN]",
        help="Exit code 1 where B is slower by more than MARGIN (2%; default --margin) for sure, 6 where that is not shown.",
    ),
]
Expect = Annotated[
    Path | None,
    typer.Option(help="Exit code 1 where B is slower against A than this file says of this machine; 6 if not shown."),
]
Update = Annotated[bool, typer.Option("--update", help="Write this machine's ratio into the file of --expect instead.")]
Junit = Annotated[Path | None, typer.Option(help="Write what --fail-on and --expect found as JUnit XML.")]
Annotate = Annotated[
    str | None,
    typer.Option(metavar="github[:FILE]", help="Print it as GitHub shows it beside a pull request, at FILE."),
]
ContractName = Annotated[
    str,
    typer.Option("--contract", metavar="NAME", help="Of commits and folders: the file that says how both are timed."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only the answer.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]


def register(app: typer.Typer) -> None:
    """Adds `bench` and `bisect` to the command line."""
    app.command()(bench)
    app.command()(bisect)


Contract = Annotated[Path, typer.Argument(metavar="CONTRACT", help="A ridgeline.yaml, or its folder.")]
Good = Annotated[str, typer.Argument(metavar="GOOD", help="A commit that was fast.", show_default=False)]
Bad = Annotated[str, typer.Argument(metavar="BAD", help="A later one that is slow; default: HEAD.")]


def bisect(contract: Contract, good: Good, bad: Bad = "HEAD", as_json: Json = False) -> None:
    """Which commit made the kernel slower? By the contract's quick benchmark, three runs of each commit that is tried; the one
    found is then timed beside the commit before it. Exit code 6 where that does not show it slower.
    """
    from ridgeline.agent.bench.bisect import find_regression

    result = find_regression(contract, good, bad, console.note)
    if result.warning:
        console.note(f"warning: {result.warning}")
    if as_json:
        console.emit(result)
    else:
        _print_bisection(result)
    if not result.shown:
        raise typer.Exit(NOT_SHOWN)


def _print_bisection(result: "BisectionResult") -> None:
    """Prints the bisection's commit, its numbers, and what timing it beside the one before says."""
    console.say(f"{'' if result.shown else 'not shown: '}{result.first_bad}: {result.subject}")
    console.say(
        f"{result.metric}: {result.good:.6g} before, {result.bad:.6g} at BAD; the threshold was {result.threshold:.6g}"
    )
    if len(result.suspects) > 1:
        console.say(
            f"or one of {', '.join(commit[:12] for commit in result.suspects[:-1])}, which could not be measured"
        )
    console.say(f"side by side with the commit before (A) it (B): {result.sentence}")


def bench(
    a: A,
    b: B,
    alpha: Alpha = None,
    margin: Margin = None,
    max_minutes: Minutes = 10.0,
    max_pairs: Pairs = 30,
    calibration_pairs: Twins = None,
    blocks: Blocks = None,
    metric_regex: Regex = None,
    csv: Csv = None,
    label: Label = None,
    higher_is_better: Higher = False,
    engine: Engine = None,
    cpu_time: CpuTime = False,
    threads: Threads = None,
    gpu: Gpu = False,
    timeout: Timeout = 600.0,
    seed: Seed = 0,
    plot: Plot = None,
    raw: Raw = None,
    fail_on: FailOn = None,
    expect: Expect = None,
    update: Update = False,
    junit: Junit = None,
    annotate: Annotate = None,
    contract: ContractName = "ridgeline.yaml",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Is B faster than A? Interleaved pairs, a known error rate, and an honest undecided."""
    options = dict(locals())  # every option is a field of the request
    from ridgeline.agent.bench.request import Request
    from ridgeline.agent.bench.run import INTERRUPTED, compare_versions

    answer = compare_versions(Request.model_validate(options), Path.cwd())
    if as_json:
        console.emit(answer)
    else:
        _print_answer(answer, unit=answer.unit or csv or "number")
    if answer.unwritten:
        raise UserError("\n".join(answer.unwritten))
    if answer.ended == "interrupted":
        raise UserError("interrupted; what is said above is what was known by then", INTERRUPTED)
    if answer.gate and answer.gate.exit_code:
        raise typer.Exit(answer.gate.exit_code)


def _print_answer(answer: "Answer", *, unit: str) -> None:
    """Prints the comparison's sentence, a table of the shapes where there are several, notes and files.

    `unit`: of A and B in that table, or the name of the column that was compared.
    """
    console.say(answer.sentence)
    if len(answer.shapes) > 1:
        console.say()
        header = ("SHAPE", f"A, {unit}", f"B, {unit}", "t_A / t_B", "AT LEAST", "AT MOST")
        console.table(header, [_cells(shape) for shape in answer.shapes])
        if any(shape.lower is None or shape.upper is None for shape in answer.shapes):
            pairs = "1 pair is" if answer.pairs == 1 else f"{answer.pairs} pairs are"
            console.say(f"-: {pairs} too few for a bound there")
    for note in answer.notes:
        console.say(f"note       {note}")
    if answer.gate:
        console.say(f"{answer.gate.outcome:<10} {answer.gate.sentence}")
    for what, path in (("plot", answer.plot), ("raw", answer.raw)):
        if path:
            console.say(f"{what:<10} {path}")


def _cells(shape: "ShapeAnswer") -> tuple[str, ...]:
    """One shape's times and ratios as cells of a printed table; `-` where a bound is not known."""
    ratios = (shape.ratio, shape.lower, shape.upper)
    return (shape.label, f"{shape.a:.6g}", f"{shape.b:.6g}", *("-" if r is None else f"{r:.4f}" for r in ratios))
