"""`init` and `check`: write a contract, and find out whether it holds."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ridgeline.agent.formats.problem import Format
    from ridgeline.agent.scaffold.function import WrittenTask
    from ridgeline.agent.scaffold.rehearsal import Rehearsal

Contract = Annotated[Path, typer.Argument(help="A ridgeline.yaml, or its folder.")]
Folder = Annotated[Path, typer.Argument(help="Folder of the kernel; with --task and --from, the folder to make.")]
Task = Annotated[str | None, typer.Option(help="Copy a ready-made task instead, as a new git repository.")]
Test = Annotated[str | None, typer.Option("--test-command", help="The correctness test, if you know it already.")]
Bench = Annotated[str | None, typer.Option("--benchmark-command", help="The benchmark; {csv} is added if absent.")]
Torch = Annotated[Path | None, typer.Option("--from-pytorch", help="Make a task of a PyTorch file with get_inputs().")]
Kernelbench = Annotated[Path | None, typer.Option("--from-kernelbench", help="Make a task of a KernelBench problem.")]
Flashinfer = Annotated[
    Path | None,
    typer.Option(
        "--from-flashinfer", help="Make a task of a definition of FlashInfer Trace or SOL-ExecBench, in JSON."
    ),
]
Gpumode = Annotated[Path | None, typer.Option("--from-gpumode", help="Make a task of a task.yml of GPU MODE.")]
Processor = Annotated[
    bool, typer.Option("--processor", help="With --from-...: sizes and a contract for this machine's processor.")
]
Entry = Annotated[str | None, typer.Option(help="Function or module of that file; default: Model, or the only one.")]
Anyway = Annotated[bool, typer.Option("--anyway", help="Take a task in which a wrong kernel may be called right.")]
Function = Annotated[str | None, typer.Option(help="Write test, benchmark and contract for this function of PATH.")]
Shapes = Annotated[
    list[str] | None, typer.Option("--shape", help="With --function: sizes to time, n=64,m=3; repeatable.")
]
Values = Annotated[
    list[str] | None, typer.Option("--value", help="With --function: alpha=0.5, or index=0:100 for an array.")
]
Reference = Annotated[
    Path | None,
    typer.Option(help="With --function: Python with reference(inputs...): write a task, which the judge owns."),
]
Like = Annotated[
    str | None,
    typer.Option(
        "--like",
        help="Write the contract of a checkout of a known project: primus-turbo, flydsl; or make a workspace: gpu-kernel-optimizer.",
    ),
]
Instruction = Annotated[str, typer.Option("--instruction", "-i", help="With --like: what to optimize, in your words.")]
Ci = Annotated[
    str | None,
    typer.Option(
        "--ci", help="Write a reusable workflow that fails for a slower branch instead, into PATH: github, gitlab."
    ),
]
Static = Annotated[bool, typer.Option("--static", help="Only validate; run nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]


def register(app: typer.Typer) -> None:
    """Adds `init`, `check`, `graph` and `schema` to the command line."""
    app.command()(init)
    app.command()(check)
    app.command()(graph)
    app.command()(schema)


def init(
    path: Folder,
    task: Task = None,
    test: Test = None,
    benchmark: Bench = None,
    from_pytorch: Torch = None,
    from_kernelbench: Kernelbench = None,
    from_flashinfer: Flashinfer = None,
    from_gpumode: Gpumode = None,
    processor: Processor = False,
    entry: Entry = None,
    anyway: Anyway = False,
    function: Function = None,
    shape: Shapes = None,
    value: Values = None,
    reference: Reference = None,
    like: Like = None,
    instruction: Instruction = "",
    ci: Ci = None,
    as_json: Json = False,
) -> None:
    """Write a commented ridgeline.yaml. With --task or --from-..., a whole task: kernel, reference and contract.

    With --function, test and benchmark of one function of a file or folder: C, C++, CUDA, HIP, Triton or Python.

    Exit code 1 where a task was written in which a wrong kernel may be called right.
    """
    sources: dict[Format, Path | None] = {
        "pytorch": from_pytorch,
        "kernelbench": from_kernelbench,
        "flashinfer": from_flashinfer,
        "gpumode": from_gpumode,
    }
    _require_at_most_one(
        task=task, **{f"from_{name}": path for name, path in sources.items()}, function=function, like=like, ci=ci
    )
    if as_json and function is None:
        raise UserError("--json: is for --function NAME; name the function")
    if ci is not None:
        from ridgeline.agent.scaffold.contract import write_ci

        console.say(f"{write_ci(path, ci)}: written; its first lines say how to use it")
        return
    if like is not None:
        _adopt(path, like, instruction)
        return
    if instruction:
        raise UserError("--instruction: is for --like NAME; a campaign's is given to `ridgeline run`")
    if function is not None:
        _write_harness(path, function, shapes=shape or (), values=value or (), reference=reference, as_json=as_json)
        return
    if orphan := next(
        (name for name, text in (("shape", shape), ("value", value), ("reference", reference)) if text), ""
    ):
        raise UserError(f"--{orphan}: is for --function NAME; name the function")
    if (chosen := next(((name, source) for name, source in sources.items() if source is not None), None)) is not None:
        _make_task(path, *chosen, entry=entry, processor=processor, anyway=anyway)
        return
    if processor:
        raise UserError("--processor: is for --from-..., which makes a task of a problem; name one")
    if task is not None:
        from ridgeline.agent.scaffold.contract import copy

        folder = copy(task, path)
        console.say(f"{folder}: task {task}, committed; run it with `ridgeline run {quote(str(folder))}`")
        return
    from ridgeline.agent.scaffold.contract import write

    file = write(path, test=test, benchmark=benchmark)
    console.say(f"{file}: written; fill in the commands, commit it, then `ridgeline check {quote(str(path))}`")


def _adopt(path: Path, like: str, instruction: str) -> None:
    """`init`: write the contract of a checkout whose layout is known."""
    from ridgeline.agent.scaffold.adapters import ROUTER
    from ridgeline.agent.scaffold.adapters import write as adopt

    adopted = adopt(path, like, instruction=instruction)
    for file in (adopted.contract, *adopted.files):
        console.say(f"{file}: written")
    look = "committed; look at them" if like == ROUTER else "look at them, commit them"
    console.say(f"{look}, then `ridgeline check {quote(str(path))}`")


def _is_in_repository(folder: Path) -> bool:
    """`init`: whether git has a checkout around a folder, so that candidates can be commits."""
    from ridgeline.graph.errors import NotAGitRepository
    from ridgeline.sandbox.workspace.repository import find_repository

    try:
        return bool(find_repository(folder))
    except NotAGitRepository:
        return False


def _make_task(path: Path, kind: "Format", source: Path, *, entry: str | None, processor: bool, anyway: bool) -> None:
    """`init`: write a task of a foreign problem, and leave with 1 where a wrong kernel may pass its test."""
    from ridgeline.agent.formats.reading import open_problem
    from ridgeline.agent.scaffold.contract import begin_repository
    from ridgeline.agent.scaffold.pytorch import Request
    from ridgeline.agent.scaffold.pytorch import write as write_task

    is_new = not path.exists() or not any(path.iterdir())
    problem, file = open_problem(source, kind)
    if entry is not None:
        problem = problem.model_copy(update={"entry": entry})
    request = Request(processor=processor, progress=console.Progress(console.note))
    written = write_task(path, problem, request, file=file)
    where = "look at task.yaml, commit it"
    if is_new and not _is_in_repository(written.folder):
        begin_repository(written.folder, f"Task made of {source.name}")
        where = "it is a git repository of its own, with one commit; look at task.yaml"
    console.say(f"{written.folder}: task made of {source}; {where}, then `ridgeline check`")
    for note in written.notes:
        console.say(f"note: {note}")
    for wrong in written.wrong:
        console.say(f"wrong: {wrong}")
    if written.wrong and not anyway:
        console.complain(
            f"{written.folder}: a wrong kernel may be called right there; mend what is `wrong` in {source} and make it "
            f"again, or in task.yaml until `ridgeline judge lint` finds nothing wrong; --anyway takes it as it is"
        )
        raise typer.Exit(1)


def _write_harness(
    path: Path,
    name: str,
    *,
    shapes: "Sequence[str]",
    values: "Sequence[str]",
    reference: Path | None,
    as_json: bool,
) -> None:
    """`init`: write test, benchmark and contract of a function; leave with 1 where they do not run yet and no gap says why."""
    import sys

    from ridgeline.agent.scaffold.function import write as write_harness

    def ask(question: str, usual: str) -> str:
        return str(typer.prompt(question, default=usual, err=True))

    is_terminal = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
    written = write_harness(
        path, name, shapes=shapes, values=values, reference=reference, ask=ask if is_terminal else None
    )
    signature = written.signature
    target = quote(str(written.contract.parent if written.contract.name == "ridgeline.yaml" else written.contract))
    if as_json:
        console.emit(
            {
                "contract": str(written.contract),
                "folder": str(written.folder),
                "timed": [shape.label for shape in written.shapes if shape.timed],
                "tested": [shape.label for shape in written.shapes if not shape.timed],
                "notes": written.notes,
                "not_understood": written.gaps,
                "untracked": written.untracked,
                "problem": written.problem,
            }
        )
        raise typer.Exit(1 if written.problem and not written.gaps else 0)
    console.say(f"{written.contract}: contract for {signature.name} ({signature.file.name}:{signature.line})")
    console.say(f"{written.folder}: test and benchmark; shapes, arrays and values stand in problem.*")
    console.say(f"timed: {_list_timed(written)}")
    for line in written.notes:
        console.say(f"note: {line}")
    for line in written.gaps:
        console.say(f"not understood: {line}; fill the marked place")
    if written.untracked:
        files = " ".join(map(quote, written.untracked))
        console.say(f"not in git, and the build reads it; a checkout has it after `git add -f {files}`")
    if written.problem and not written.gaps:
        console.complain(
            f"{written.folder}: does not run yet: {written.problem}; correct it, then `ridgeline check {target}`"
        )
        raise typer.Exit(1)
    if written.gaps:
        console.say(f"`ridgeline check {target}` names the places to fill")
        return
    console.say(f"built and tested; commit it, then `ridgeline check {target}` and `ridgeline run {target}`")


def _list_timed(written: "WrittenTask") -> str:
    """The shapes of a written harness that are timed, and how many more are tested."""
    if not written.signature.sizes:
        return f"{written.signature.name}, which has no sizes, as the one shape `only`"
    tested = sum(not shape.timed for shape in written.shapes)
    more = {0: "", 1: "; 1 more shape is tested"}.get(tested, f"; {tested} more shapes are tested")
    return ", ".join(shape.label for shape in written.shapes if shape.timed) + more


def _require_at_most_one(**options: object) -> None:
    """Raises UserError where more than one of these options of a command has a value."""
    names = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if len(names) > 1:
        raise UserError(f"{' and '.join(names)}: give one of them")


def check(contract: Contract, static: Static = False, as_json: Json = False) -> None:
    """Try a contract on the unmodified kernel. Validate, build, test and benchmark once; estimate noise and time."""
    import os

    from ridgeline.agent.campaign import settings
    from ridgeline.agent.contract_file import load

    loaded = load(contract)
    layers = (settings.from_contract(loaded.contract, loaded.path.name), settings.from_environment(os.environ))
    resolved = settings.resolve(layers, model=None)
    if static:
        if as_json:
            console.emit({"contract": str(loaded.path), "ok": True, "warnings": list(loaded.warnings)})
        else:
            console.say(f"{loaded.path}: valid")
        return
    from ridgeline.agent.scaffold.rehearsal import rehearse

    rehearsal = rehearse(loaded, resolved.limits, console.note)
    if as_json:
        origins = dict(resolved.origins)
        console.emit({**rehearsal.model_dump(mode="json"), "ok": not rehearsal.failing, "settings": origins})
    else:
        _print_rehearsal(rehearsal)
    if rehearsal.failing:
        raise typer.Exit(2)


def _print_rehearsal(rehearsal: "Rehearsal") -> None:
    """Prints build, test, benchmark, noise and estimated time of `ridgeline check`, a line each."""
    low, high = rehearsal.minutes_per_round
    built = "nothing to build" if rehearsal.build_s is None else f"{rehearsal.build_s:.1f} s"
    console.say(f"contract   {rehearsal.contract} at {rehearsal.commit[:12]}, on {rehearsal.machine}")
    console.say(f"build      {built}")
    console.say(f"test       passes, {rehearsal.test_s:.1f} s")
    console.say(
        f"benchmark  {len(rehearsal.shapes)} shapes, {rehearsal.benchmark_s:.1f} s: {', '.join(rehearsal.shapes)}"
    )
    if rehearsal.failing:
        console.say(f"FAILING    {', '.join(rehearsal.failing)}: the unmodified kernel must pass every Check")
    if rehearsal.noise_percent:
        differences = ", ".join(f"{value:+.2f} %" for value in rehearsal.noise_percent)
        console.say(f"noise      the kernel against itself, per process pair: {differences} (truth: 0)")
    if rehearsal.pair_s is None:
        console.say(f"estimate   {low:.1f} minutes at least for a round that is measured; no pair was timed")
    else:
        console.say(f"estimate   {low:.1f} to {high:.1f} minutes for a round that is measured, without the planner")
    for expense in rehearsal.expenses:
        times = f"{expense.times} x {expense.each_s:.2f} s"
        console.say(
            f"spends     {expense.step}: {expense.minutes:.1f} minutes at most, {times}, in {rehearsal.rounds} rounds"
        )
    if rehearsal.expenses:
        console.say(f"cheaper    {rehearsal.expenses[0].step}: {rehearsal.expenses[0].cheaper}")
    for warning in rehearsal.warnings:
        console.say(f"advice     {warning}")


# `graph` and `schema`: the machine-readable descriptions of what Ridgeline does and reads.

DiagramJson = Annotated[bool, typer.Option("--json", help="Print nodes and edges as one JSON object.")]
Which = Annotated[str, typer.Argument(help="contract (ridgeline.yaml), ledger (one line of ledger.jsonl) or outcome.")]


def graph(as_json: DiagramJson = False) -> None:
    """The loop, drawn from the compiled graph (Mermaid)."""
    from ridgeline.graph.loop.build import build_loop

    diagram = build_loop().get_graph()
    if not as_json:
        console.say(diagram.draw_mermaid())
        return
    edges = [
        {"from": edge.source, "to": edge.target, "conditional": edge.conditional, "label": str(edge.data or "")}
        for edge in diagram.edges
    ]
    console.emit({"nodes": list(diagram.nodes), "edges": edges})


def schema(which: Which = "contract") -> None:
    """JSON Schema of a file that Ridgeline reads or writes."""
    from pydantic import BaseModel

    from ridgeline.agent.campaign.progress import Outcome
    from ridgeline.graph.contract import Contract
    from ridgeline.graph.record import Line
    from ridgeline.sandbox.store.yaml_file import nearest

    models: dict[str, type[BaseModel]] = {"contract": Contract, "ledger": Line, "outcome": Outcome}
    if which not in models:
        raise UserError(f"WHICH: no schema {which!r}; {nearest(which, models)}")
    console.emit(models[which].model_json_schema())
