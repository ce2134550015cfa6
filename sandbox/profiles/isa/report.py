"""From a kernel's file to what its code says: one report per target."""

import re
import sys
import tempfile
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.isa import amdgcn, nvidia, tools, triton
from ridgeline.sandbox.profiles.isa.occupancy import launch_refusals, occupancy
from ridgeline.sandbox.profiles.isa.tools import Place
from ridgeline.sandbox.profiles.isa.values import (
    Assembly,
    Code,
    Count,
    Instruction,
    IsaFinding,
    Kind,
    Loop,
    NotCompiled,
    NotReadable,
    Pressure,
    Refusal,
    Report,
    Resources,
    Shape,
    Target,
    Width,
)

TIMEOUT_S = 120.0


class Inspection(Value):
    """A report and the listing that it was read from."""

    report: Report
    code: Code | None
    ttgir: str = ""
    """Triton's GPU IR, of which `report.layouts` tells."""


class Inspected(Value):
    """One kernel on every target that was asked for."""

    inspections: tuple[Inspection, ...]
    refused: tuple[Refusal, ...] = ()
    """Targets that its compiler refused."""


def inspect(
    request: triton.CompileRequest,
    targets: Sequence[Target],
    *,
    python: str = sys.executable,
    timeout_s: float = TIMEOUT_S,
) -> Inspected:
    """What the machine code of a kernel says, for each target in order; compiled here, or taken as given.

    `timeout_s`: of each process that is started. Nothing is written outside a folder that is removed again.

    Raises:
        CompilerMissing: what the file needs is not on this machine.
        NotCompiled: the file, or what was said about it, gives no code for any of the targets.
    """
    with tempfile.TemporaryDirectory(prefix="ridgeline-isa-") as folder:
        place = Place(python=python, folder=Path(folder), timeout_s=timeout_s)
        if tools.is_compiled(request.file):
            assembled = tools.read_compiled(request.file, request.kernel, targets, place)
            return Inspected(inspections=(read_assembled(_with_launch(assembled, request)),))
        return _inspect_targets(request, targets, _compiler(request, targets, place))


def _inspect_targets(
    request: triton.CompileRequest, targets: Sequence[Target], compile_for: Callable[[Target], Assembly]
) -> Inspected:
    """Machine code: inspect a kernel target by target, so that one that is refused loses no other. Raises the first error where all are."""
    inspections: list[Inspection] = []
    errors: list[tuple[Target, NotCompiled]] = []
    for target in targets:
        try:
            inspections.append(read_assembled(_with_launch(compile_for(target), request)))
        except NotCompiled as error:
            if error.several:
                raise
            errors.append((target, error))
    if not inspections and errors:
        raise errors[0][1]
    refused = tuple(Refusal(target=target.arch, why=error.text) for target, error in errors)
    return Inspected(inspections=tuple(inspections), refused=refused)


def read_assembled(assembled: Assembly) -> Inspection:
    """Parse code and count. Raises `NotCompiled` where the text is not the kernel's code."""
    if assembled.assembly is None or assembled.form is None:
        resources = _resources_of(assembled, assembled.resources or Resources())
        report = _report(assembled, assembled.kernel or "?", resources, None)
        return Inspection(report=report, code=None, ttgir=assembled.ttgir)
    try:
        code = _code(assembled)
    except NotReadable as error:
        raise NotCompiled("--kernel", str(error), error.several) from None
    code_resources = assembled.resources or Resources()
    if assembled.form == "amdgcn":
        code_resources = amdgcn.resources(assembled.assembly, code.kernel)
    elif assembled.form == "sass":
        code_resources = code_resources.model_copy(update={"vgpr_spills": nvidia.spilled_registers(code)})
    elif assembled.form == "ptx":
        code_resources = code_resources.model_copy(update={"tensor_columns": nvidia.tensor_columns(assembled.assembly)})
    report = _report(assembled, code.kernel, _resources_of(assembled, code_resources), code)
    return Inspection(report=report, code=code, ttgir=assembled.ttgir)


def require_known_kind(path: Path) -> None:
    """For `isa`: that a file is a kernel of some kind, by its name. Raises `NotCompiled` for C of a processor, and for any other."""
    if path.suffix not in (*tools.CUDA_SUFFIXES, *tools.HIP_SUFFIXES, ".py") and not tools.is_compiled(path):
        raise NotCompiled(
            path.name, "is neither Triton, FlyDSL or CuTe DSL (.py), CUDA (.cu), HIP (.hip) nor compiled code"
        )


def _compiler(request: triton.CompileRequest, targets: Sequence[Target], place: Place) -> Callable[[Target], Assembly]:
    """What compiles the file for a target. Raises `NotCompiled` for a file of no known kind."""
    path, kernel = request.file, request.kernel
    if path.suffix in tools.CUDA_SUFFIXES:
        return lambda target: tools.cuda(path, kernel, target, place, request.flags)
    if path.suffix in tools.HIP_SUFFIXES:
        return lambda target: tools.hip(path, kernel, target, place, request.flags)
    require_known_kind(path)
    if tools.is_flydsl(path):
        return lambda target: tools.flydsl(path, kernel, target, place)
    if tools.is_cute(path):
        return lambda target: tools.cute(path, kernel, target, place)
    return triton.compiler(request, targets, place)


def _with_launch(assembled: Assembly, request: triton.CompileRequest) -> Assembly:
    """Machine code: with the size of a block as it was asked for, where the code does not say it."""
    warps = dict(request.options).get("num_warps")
    if warps is None or assembled.threads is not None:
        return assembled
    return assembled.model_copy(update={"threads": warps * assembled.target.wave})


def _code(assembled: Assembly) -> Code:
    text = assembled.assembly or ""
    match assembled.form:
        case "amdgcn":
            return amdgcn.parse_code(text, assembled.kernel)
        case "sass":
            return nvidia.sass(text, assembled.kernel, dict(assembled.live))
        case _:
            return nvidia.ptx(text, assembled.kernel)


def _resources_of(assembled: Assembly, resources: Resources) -> Resources:
    """Machine code: what the launch adds: dynamic LDS is in no code object, and neither is the size of an NVIDIA block."""
    changes: dict[str, int] = {}
    if assembled.shared_bytes is not None:  # Triton's is all of it
        changes["lds_bytes"] = assembled.shared_bytes
    if assembled.threads is not None:
        changes["threads"] = assembled.threads
    if assembled.tensor_columns is not None:
        changes["tensor_columns"] = assembled.tensor_columns
    return resources.model_copy(update=changes)


def _report(assembled: Assembly, kernel: str, resources: Resources, code: Code | None) -> Report:
    notes = [*launch_refusals(assembled.target, resources), *assembled.notes]
    if code is not None and resources.tensor_columns is None and nvidia.uses_tensor_memory(code):
        notes.append("tensor memory is used, its columns are not told: fewer blocks may fit than is said of waves")
    if assembled.shared_bytes is None:
        notes.append("LDS that the launch asks for is not in the code: what is said of LDS and waves leaves it out")
    return Report(
        kernel=kernel,
        target=assembled.target,
        form=assembled.form or "elf",
        compiler=assembled.compiler,
        resources=resources,
        shape=shape_of(code) if code else None,
        occupancy=occupancy(assembled.target, resources),
        notes=tuple(notes),
        plain=assembled.plain,
        layouts=assembled.layouts,
    )


# What a listing consists of: instructions by kind, widths, matrix instructions, waits, loops.

WAITED = re.compile(r"(\w+cnt(?:_\w+)?)\((\d+)\)")
MOST_LOOPS = 32
MOST_SPANS = 1000
"""Loops that are looked at: each is compared with each."""
MOST_SOURCES = 3
MOST_PRESSED = 5
FMA = re.compile(r"[FDH]FMA2?\b|v_(?:pk_)?(?:fma|fmac|mac|mad|dot\d)|fma\.rn")
"""Multiply-adds outside matrix units: SASS, AMD, PTX."""
ROUNDS, MOST_DEPTH = 10, 6
"""How often a loop is taken to run within each round of the loop around it."""


def shape_of(code: Code) -> Shape:
    """Machine code: counts of instructions over a whole listing. Static: how often each instruction runs is not known."""
    return Shape(
        instructions=len(code.instructions),
        kinds=_by_kind(code.instructions),
        widths=_widths(code.instructions),
        matrix=_count(i.mnemonic for i in code.instructions if i.kind == "matrix"),
        waits=_count(word for i in code.instructions if i.kind == "wait" for word in _waits(i)),
        loops=loops(code),
        pressure=_pressure(code.instructions),
    )


def _pressure(instructions: Sequence[Instruction]) -> tuple[Pressure, ...]:
    """The source lines whose instructions run with most live registers."""
    most: dict[str, int] = {}
    for instruction in instructions:
        if instruction.live is not None:
            line = instruction.source or instruction.text
            most[line] = max(most.get(line, 0), instruction.live)
    ranked = sorted(most.items(), key=lambda entry: -entry[1])[:MOST_PRESSED]
    return tuple(Pressure(source=line, live=live) for line, live in ranked)


def loops(code: Code) -> tuple[Loop, ...]:
    """Every branch back in the machine code, outermost and longest first; at most 32.

    A branch to itself is the trap that fills up behind a kernel's end, not a loop; neither is a way back from slow
    paths that compilers lay behind the kernel's end.
    """
    spans = _spans(code)
    hot = _hottest(code, [(begin, end) for begin, end, _ in spans])
    longest = [
        Loop(
            label=label,
            first=begin,
            last=end,
            depth=1 + sum(_inside((begin, end), (outer[0], outer[1])) for outer in spans),
            counts=_by_kind(code.instructions[begin : end + 1]),
            source=_sources(code.instructions[begin : end + 1]),
            hot=(begin, end) == hot,
        )
        for begin, end, label in spans[:MOST_LOOPS]
    ]
    return tuple(longest)


def _spans(code: Code) -> list[tuple[int, int, str]]:
    """Machine code: first and last instruction and label of each loop, the longest first."""
    places = dict(code.labels)
    stops = [index for index, instruction in enumerate(code.instructions) if _ends(instruction)]
    ends: dict[str, int] = {}
    for index, instruction in enumerate(code.instructions):
        goal = instruction.target if instruction.kind == "branch" else None
        if goal in places and places[goal] < index and bisect(stops, index) == bisect(stops, places[goal]):
            ends[goal] = index
    spans = sorted(((places[label], end, label) for label, end in ends.items()), key=lambda s: (s[0] - s[1], s[0]))
    return spans[:MOST_SPANS]


def _ends(instruction: Instruction) -> bool:
    return instruction.kind == "end" and not instruction.text.startswith("@")


def _inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


def _hottest(code: Code, spans: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Machine code: the loop whose own instructions, those of loops inside it left out, do most of the work.

    Most matrix instructions, else most multiply-adds, else most instructions; each loop around counts as ten rounds.
    The innermost loop of a pipelined kernel may be no more than a wait at a barrier.
    """
    owner: list[int | None] = [None] * len(code.instructions)
    for number, (begin, end) in enumerate(spans):  # the longest first, so that the innermost has the last word
        owner[begin : end + 1] = [number] * (end + 1 - begin)
    work = [[0, 0, 0] for _ in spans]
    for loop, instruction in zip(owner, code.instructions, strict=True):
        if loop is not None:
            work[loop][0] += instruction.kind == "matrix"
            work[loop][1] += FMA.match(instruction.mnemonic) is not None
            work[loop][2] += 1
    depths = [min(sum(_inside(span, outer) for outer in spans), MOST_DEPTH) for span in spans]
    weights = [tuple(count * ROUNDS**depth for count in own) for own, depth in zip(work, depths, strict=True)]
    return max(zip(weights, spans, strict=True), key=lambda item: item[0], default=(None, None))[1]


def _by_kind(body: Iterable[Instruction]) -> tuple[Count, ...]:
    return _count(i.kind for i in body)


def _widths(body: Iterable[Instruction]) -> tuple[Width, ...]:
    counts = Counter((i.kind, i.lane_bytes) for i in body if i.lane_bytes is not None)
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], -item[0][1]))
    return tuple(Width(kind=kind, lane_bytes=width, count=count) for (kind, width), count in ordered)


def _waits(instruction: Instruction) -> list[str]:
    """Machine code: vmcnt(0) lgkmcnt(0) of one wait are two; other spellings stand for themselves."""
    return [f"{name}({value})" for name, value in WAITED.findall(instruction.text)] or [instruction.mnemonic]


def _sources(body: Iterable[Instruction]) -> tuple[str, ...]:
    return tuple(name for name, _ in Counter(i.source for i in body if i.source).most_common(MOST_SOURCES))


def _count(names: Iterable[str]) -> tuple[Count, ...]:
    return tuple(Count(name=name, count=count) for name, count in Counter(names).most_common())


# What changed between two versions of a kernel on one target, and which of it is evidence against the second.

MOVES: tuple[tuple[Kind, str], ...] = (
    ("global_load", "global loads"),
    ("global_store", "global stores"),
    ("lds_read", "LDS reads"),
    ("lds_write", "LDS writes"),
)
Number = float | int | None


def compare_reports(before: Sequence[Report], after: Sequence[Report]) -> tuple[IsaFinding, ...]:
    """Machine code: every difference, target by target, in the order of `before`."""
    after_by_arch = {report.target.arch: report for report in after}
    return tuple(
        finding
        for report in before
        if (counterpart := after_by_arch.get(report.target.arch)) is not None
        for finding in differences(report, counterpart)
    )


def differences(before: Report, after: Report) -> tuple[IsaFinding, ...]:
    """All in which a kernel's machine code differs on one target. A number that one of the two does not tell gives no finding."""
    findings = [
        _spills(before, after),
        _more_is_worse(before, after, "scratch"),
        _occupancy(before, after),
        _note_finding(before, after, "registers", _registers(before), _registers(after)),
        _note_finding(before, after, "lds", before.resources.lds_bytes, after.resources.lds_bytes),
        *_code_difference(before, after),
    ]
    return tuple(finding for finding in findings if finding is not None)


def _spills(before: Report, after: Report) -> IsaFinding | None:
    was, now = before.resources.vgpr_spills, after.resources.vgpr_spills
    if was is None or now is None or was == now:
        return None
    text = f"register spills rose from {was} to {now}" if now > was else f"register spills fell from {was} to {now}"
    return _finding(after, "spills", was, now, weight="against" if now > was else "for", text=text)


def _more_is_worse(before: Report, after: Report, name: str) -> IsaFinding | None:
    was, now = before.resources.scratch_bytes, after.resources.scratch_bytes
    if was is None or now is None or was == now:
        return None
    word = "rose" if now > was else "fell"
    return _finding(
        after,
        "scratch",
        was,
        now,
        weight="against" if now > was else "for",
        text=f"{name} per lane {word} from {was} to {now} bytes",
    )


def _occupancy(before: Report, after: Report) -> IsaFinding | None:
    if before.occupancy is None or after.occupancy is None:
        return None
    was, now = before.occupancy, after.occupancy
    tier_lost = now.register_tier < was.register_tier
    if now.waves_per_simd == was.waves_per_simd and not tier_lost:
        return None
    fewer_waves = now.waves_per_simd < was.waves_per_simd
    text = f"waves per SIMD {was.waves_per_simd:g} -> {now.waves_per_simd:g}, now limited by {now.limiter}"
    if tier_lost:
        text += f"; registers alone {was.register_tier} -> {now.register_tier}"
    weight = "against" if fewer_waves else "note" if tier_lost else "for"
    return _finding(after, "occupancy", was.waves_per_simd, now.waves_per_simd, weight=weight, text=text)


def _code_difference(before: Report, after: Report) -> list[IsaFinding | None]:
    """Counts of two listings of one form: PTX and SASS have nothing to compare."""
    was, now = before.shape, after.shape
    if was is None or now is None or before.form != after.form:
        return []
    return [
        _note_finding(before, after, "matrix", was.count("matrix"), now.count("matrix")),
        _note_finding(before, after, "waits", was.count("wait"), now.count("wait")),
        _note_finding(before, after, "barriers", was.count("barrier"), now.count("barrier")),
        _note_finding(before, after, "size", was.instructions, now.instructions),
        *(_width(after, was.widths, now.widths, kind, words) for kind, words in MOVES),
    ]


def _width(after: Report, was: tuple[Width, ...], now: tuple[Width, ...], kind: Kind, words: str) -> IsaFinding | None:
    mean_was, mean_now = _mean(was, kind), _mean(now, kind)
    if mean_was is None or mean_now is None or mean_was == mean_now:
        return None
    text = f"{words} move {mean_was:.3g} -> {mean_now:.3g} bytes per lane on average"
    return _finding(after, "width", mean_was, mean_now, weight="note", text=text)


def _mean(widths: tuple[Width, ...], kind: Kind) -> float | None:
    of_kind = [width for width in widths if width.kind == kind]
    count = sum(width.count for width in of_kind)
    return sum(width.count * width.lane_bytes for width in of_kind) / count if count else None


def _registers(report: Report) -> int | None:
    resources = report.resources
    return resources.vgpr_total if resources.vgpr_total is not None else resources.arch_vgpr


def _note_finding(before: Report, after: Report, name: str, was: Number, now: Number) -> IsaFinding | None:
    if was is None or now is None or was == now:
        return None
    return _finding(after, name, was, now, weight="note", text=f"{name} {was:g} -> {now:g}")


def _finding(after: Report, name: str, was: Number, now: Number, *, weight: str, text: str) -> IsaFinding:
    return IsaFinding.model_validate(
        {"name": name, "weight": weight, "target": after.target.arch, "before": was, "after": now, "text": text}
    )
