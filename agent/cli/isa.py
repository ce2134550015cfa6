"""`isa`: what a compiler makes of a kernel: registers, spills, LDS, instructions, waves. Needs no GPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.analysis.isa_report import HotspotPlacement, Section
    from ridgeline.sandbox.profiles.isa.report import Inspected, Inspection
    from ridgeline.sandbox.profiles.isa.values import Refusal

File = Annotated[Path, typer.Argument(help="Kernel source, compiled code, or a folder with a contract.")]
Kernel = Annotated[str | None, typer.Option(help="Only this kernel, where the file has several.")]
Signature = Annotated[str | None, typer.Option(help='Types of what is passed: "*fp16,*fp16,i32:16".')]
Constants = Annotated[str | None, typer.Option(help="Values of what is constant: BLOCK=128,EVEN=true.")]
Call = Annotated[str | None, typer.Option(help='Or a call to imitate: "run(fp16[4096,4096])".')]
Warps = Annotated[int | None, typer.Option(min=1, max=32, help="Warps of a block.")]
Stages = Annotated[int | None, typer.Option(min=0, max=32, help="Pipeline stages.")]
Target = Annotated[
    str | None, typer.Option(help="gfx90a, gfx942, gfx950, gfx11, gfx12, sm_80 to sm_121; several with commas.")
]
Include = Annotated[list[Path] | None, typer.Option("-I", "--include", help="A folder of headers; may be repeated.")]
Define = Annotated[list[str] | None, typer.Option("-D", "--define", help="A macro, NAME or NAME=VALUE.")]
Std = Annotated[str | None, typer.Option(help="The language's version: c++17.")]
Flags = Annotated[Path | None, typer.Option(help="A text with flags, or the compile_commands.json of a build.")]
Diff = Annotated[Path | None, typer.Option(help="An earlier version to compare with.")]
Trace = Annotated[Path | None, typer.Option(help="A thread trace (ui_output folder) or ncu's source page.")]
Listing = Annotated[bool, typer.Option("--listing", help="Print every instruction.")]
Html = Annotated[Path | None, typer.Option(help="Write a self-contained page with listings.")]
Python = Annotated[str | None, typer.Option(help="Interpreter that has Triton and its nvdisasm; default: this one.")]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds that each compiler process may take.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]
GATED = "against: a gate would count this against the kernel; only a measurement decides"


def register(app: typer.Typer) -> None:
    """Adds `isa` to the command line."""
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
    include: Include = None,
    define: Define = None,
    std: Std = None,
    flags_from: Flags = None,
    timeout: Timeout = 120.0,
    as_json: Json = False,
) -> None:
    """Registers, spills, instructions and waves of a kernel for any GPU, compiled ahead of time on any machine."""
    options = {**locals(), "include": tuple(include or ()), "define": tuple(define or ())}
    from ridgeline.agent.analysis.isa_report import hotspots, sections
    from ridgeline.agent.analysis.isa_request import InspectionRequest, inspect_kernels

    request = InspectionRequest.model_validate({name: options[name] for name in InspectionRequest.model_fields})
    spots = hotspots(trace) if trace is not None else ()
    inspected = inspect_kernels(request)
    before = inspect_kernels(request.model_copy(update={"file": diff})) if diff is not None else None
    kernels = sections(_list_reports(inspected), _list_reports(before or ()), spots)
    refused = [refusal for kernel_targets in inspected for refusal in kernel_targets.refused]
    if as_json:
        console.emit(_make_document(file, kernels, refused))
    else:
        _print_sections(kernels, with_listing=listing)
    for section in kernels if before is not None else ():
        if not section.compared:
            console.note(f"--diff: {section.kernel}: the two have no target in common, so nothing was compared")
    if html is not None:
        _write_page(html, kernels)
    for refusal in refused:
        console.note(
            f"refused: {' for '.join(word for word in (refusal.kernel, refusal.target) if word)}: {refusal.why}"
        )
    if refused:
        raise typer.Exit(2)


def _list_reports(kernels: "Sequence[Inspected]") -> "list[tuple[Inspection, ...]]":
    """Kernels to print for `isa`, of which at least one target has code."""
    return [kernel.inspections for kernel in kernels if kernel.inspections]


def _make_document(file: Path, kernels: "Sequence[Section]", refused: "Sequence[Refusal]") -> dict[str, object]:
    """What `isa --json` prints of one kernel; of several a list of them under `kernels`."""
    left_out = {"refused": [refusal.model_dump(mode="json") for refusal in refused]} if refused else {}
    if len(kernels) == 1:
        return {"file": str(file), **_make_kernel_document(kernels[0]), **left_out}
    return {"file": str(file), "kernels": [_make_kernel_document(section) for section in kernels], **left_out}


def _make_kernel_document(section: "Section") -> dict[str, object]:
    """Reports whole for `isa --json`, listings left out: `--listing` and `--html` are for people."""
    return {
        "kernel": section.kernel,
        "targets": {
            inspection.report.target.arch: inspection.report.model_dump(mode="json")
            for inspection in section.inspections
        },
        "findings": [finding.model_dump(mode="json") for finding in section.findings],
        "hot": {
            inspection.report.target.arch: [_make_hot_line(inspection, *at) for at in (hot.shares if hot else ())]
            for inspection, hot in section.placed
        },
    }


def _make_hot_line(inspection: "Inspection", index: int, share: float) -> dict[str, object]:
    """One hot instruction as a line that `isa` prints; `share`: of all samples of the trace."""
    instruction = inspection.code.instructions[index] if inspection.code else None
    text, source = (instruction.text, instruction.source) if instruction else ("", "")
    return {"index": index, "share": share, "isa": text, "source": source}


def _print_sections(kernels: "Sequence[Section]", *, with_listing: bool) -> None:
    """Prints every kernel's table of machine code, an empty line between two."""
    for at, section in enumerate(kernels):
        if at:
            console.say()
        _print_section(section, with_listing=with_listing)


def _print_section(section: "Section", *, with_listing: bool) -> None:
    """Prints one kernel for `isa`: its numbers for each target, hot loops, findings, then instructions."""
    from ridgeline.agent.analysis.isa_report import header, hot_loop, launches, rows
    from ridgeline.sandbox.profiles.readers.names import display

    reports = [inspection.report for inspection in section.inspections]
    console.say(f"{display(reports[0].plain) or reports[0].kernel}, {reports[0].compiler}\n")
    console.table(header(reports), rows(reports))
    if looks := [text for report in reports if (text := hot_loop(report))]:
        console.say("\nhot loop, by its look")
        for text in looks:
            console.say(f"  {text}")
    if section.findings:
        console.say()
        console.table(
            ("TARGET", "WEIGHT", "AGAINST THE OTHER VERSION"), [(f.target, f.weight, f.text) for f in section.findings]
        )
    for text in launches(reports):
        console.note(f"note: {text}")
    if any(finding.weight == "against" for finding in section.findings):
        console.note(GATED)
    for inspection, placed in section.placed:
        if with_listing or placed:
            _print_instructions(inspection, placed, with_listing=with_listing)


def _print_instructions(inspection: "Inspection", placed: "HotspotPlacement | None", *, with_listing: bool) -> None:
    """Prints a kernel's machine instructions for one target: all, or those that the trace calls hot."""
    from ridgeline.agent.analysis.isa_report import listing

    if inspection.code is None or inspection.report.shape is None:
        return
    shares = dict(placed.shares) if placed else {}
    lines = [row for row in listing(inspection.code, inspection.report.shape.loops, shares) if with_listing or row[0]]
    console.say(f"\n{inspection.report.target.arch}")
    console.table(("TIME", "LOOP", "LIVE", "SOURCE", "INSTRUCTION"), lines)
    for missed in placed.missed if placed else ():
        console.note(f"hot, but not placed: {missed}")


def _write_page(path: Path, kernels: "Sequence[Section]") -> None:
    """Write the page of `isa --html`. Raises UserError where the file cannot be written."""
    from ridgeline.agent.analysis.isa_report import page

    text = page(kernels)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--html: {path}: {error.strerror}; name a file in a folder that can be written") from None
    console.note(f"written: {path}")
