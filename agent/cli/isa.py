"""`isa`: what a compiler makes of a kernel: registers, spills, LDS, instructions, waves. Needs no GPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.isa.report import Placed, Section
    from ridgeline.sandbox.profiles.isa.report import Inspected

File = Annotated[Path, typer.Argument(help="Kernel source, compiled code, or a folder with a contract.")]
Kernel = Annotated[str | None, typer.Option(help="Only this kernel, where the file has several.")]
Signature = Annotated[str | None, typer.Option(help='Types of what is passed: "*fp16,*fp16,i32:16".')]
Constants = Annotated[str | None, typer.Option(help="Values of what is constant: BLOCK=128,EVEN=true.")]
Call = Annotated[str | None, typer.Option(help='Or a call to imitate: "run(fp16[4096,4096])".')]
Warps = Annotated[int | None, typer.Option(min=1, max=32, help="Warps of a block.")]
Stages = Annotated[int | None, typer.Option(min=0, max=32, help="Pipeline stages.")]
Target = Annotated[str | None, typer.Option(help="gfx90a, gfx942, gfx950, sm_80, sm_90, sm_100; several with commas.")]
Diff = Annotated[Path | None, typer.Option(help="An earlier version to compare with.")]
Trace = Annotated[Path | None, typer.Option(help="A thread trace (ui_output folder) or ncu's source page.")]
Listing = Annotated[bool, typer.Option("--listing", help="Print every instruction.")]
Html = Annotated[Path | None, typer.Option(help="Write a self-contained page with listings.")]
Python = Annotated[str | None, typer.Option(help="Interpreter that has Triton; default: this one.")]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds that each compiler process may take.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]
GATED = "against: a gate would count this against the kernel; only a measurement decides"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(isa)


def isa(
    file: File,
    kernel: Kernel = None,
    signature: Signature = None,
    constants: Constants = None,
    call: Call = None,
    num_warps: Warps = None,
    num_stages: Stages = None,
    target: Target = None,
    diff: Diff = None,
    trace: Trace = None,
    listing: Listing = False,
    html: Html = None,
    python: Python = None,
    timeout: Timeout = 120.0,
    as_json: Json = False,
) -> None:
    """Registers, spills, instructions and waves of a kernel for any GPU, compiled ahead of time on any machine."""
    given = dict(locals())
    from ridgeline.agent.isa.report import hotspots, sections
    from ridgeline.agent.isa.request import InspectionRequest, inspect_kernels

    asked = InspectionRequest.model_validate({name: given[name] for name in InspectionRequest.model_fields})
    spots = hotspots(trace) if trace is not None else ()
    found = inspect_kernels(asked)
    before = inspect_kernels(asked.model_copy(update={"file": diff})) if diff is not None else None
    told = sections(found, before or (), spots)
    if as_json:
        console.emit(_document(file, told))
    else:
        _tell_all(told, whole=listing)
    for one in told if before is not None else ():
        if not one.compared:
            console.note(f"--diff: {one.kernel}: the two have no target in common, so nothing was compared")
    if html is not None:
        _write(html, told)


def _document(file: Path, told: "Sequence[Section]") -> dict[str, object]:
    """One kernel's object; of several a list of them under `kernels`."""
    if len(told) == 1:
        return {"file": str(file), **_kernel(told[0])}
    return {"file": str(file), "kernels": [_kernel(one) for one in told]}


def _kernel(told: "Section") -> dict[str, object]:
    """Reports whole, listings left out: `--listing` and `--html` are for people."""
    return {
        "kernel": told.kernel,
        "targets": {one.report.target.arch: one.report.model_dump(mode="json") for one in told.inspections},
        "findings": [finding.model_dump(mode="json") for finding in told.findings],
        "hot": {
            one.report.target.arch: [_line(one, *at) for at in (hot.shares if hot else ())] for one, hot in told.placed
        },
    }


def _line(one: "Inspected", index: int, share: float) -> dict[str, object]:
    instruction = one.code.instructions[index] if one.code else None
    text, source = (instruction.text, instruction.source) if instruction else ("", "")
    return {"index": index, "share": share, "isa": text, "source": source}


def _tell_all(told: "Sequence[Section]", *, whole: bool) -> None:
    for at, one in enumerate(told):
        if at:
            console.say()
        _tell(one, whole=whole)


def _tell(told: "Section", *, whole: bool) -> None:
    from ridgeline.agent.isa.report import header, hot_loop, launches, rows

    reports = [one.report for one in told.inspections]
    console.say(f"{reports[0].kernel}, {reports[0].compiler}\n")
    console.table(header(reports), rows(reports))
    if looks := [text for report in reports if (text := hot_loop(report))]:
        console.say("\nhot loop, by its look")
        for text in looks:
            console.say(f"  {text}")
    if told.findings:
        console.say()
        console.table(
            ("TARGET", "WEIGHT", "AGAINST THE OTHER VERSION"), [(f.target, f.weight, f.text) for f in told.findings]
        )
    for text in launches(reports):
        console.note(f"note: {text}")
    if any(finding.weight == "against" for finding in told.findings):
        console.note(GATED)
    for one, placed in told.placed:
        if whole or placed:
            _list(one, placed, whole=whole)


def _list(one: "Inspected", placed: "Placed | None", *, whole: bool) -> None:
    """Every instruction, or those that the trace calls hot."""
    from ridgeline.agent.isa.report import listing

    if one.code is None or one.report.shape is None:
        return
    shares = dict(placed.shares) if placed else {}
    lines = [row for row in listing(one.code, one.report.shape.loops, shares) if whole or row[0]]
    console.say(f"\n{one.report.target.arch}")
    console.table(("TIME", "LOOP", "SOURCE", "INSTRUCTION"), lines)
    for missed in placed.missed if placed else ():
        console.note(f"hot, but not placed: {missed}")


def _write(path: Path, told: "Sequence[Section]") -> None:
    from ridgeline.agent.isa.report import page

    text = page(told)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--html: {path}: {error.strerror}; name a file in a folder that exists") from None
    console.note(f"written: {path}")
