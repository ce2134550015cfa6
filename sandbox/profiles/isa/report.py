"""From a kernel's file to what its code says: one report per target."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ridgeline.graph.values import Named, Value
from ridgeline.sandbox.profiles.isa import amdgcn, given, native, nvidia, triton
from ridgeline.sandbox.profiles.isa.child import Place
from ridgeline.sandbox.profiles.isa.errors import NotCompiled
from ridgeline.sandbox.profiles.isa.naming import NotReadable
from ridgeline.sandbox.profiles.isa.occupancy import occupancy
from ridgeline.sandbox.profiles.isa.shape import shape_of
from ridgeline.sandbox.profiles.isa.values import Assembled, Code, Report, Resources, Target

TIMEOUT_S = 120.0


class Inspected(Value):
    """A report and the listing that it was read from."""

    report: Report
    code: Code | None


def inspect(
    wanted: triton.Wanted, targets: Sequence[Target], *, python: str = sys.executable, timeout_s: float = TIMEOUT_S
) -> tuple[Inspected, ...]:
    """What the code of a kernel says, for each target in order; compiled here, or taken as given.

    `timeout_s`: of each process that is started. Nothing is written outside a folder that is removed again.

    Raises:
        CompilerMissing: what the file needs is not on this machine.
        NotCompiled: the file, or what was said about it, gives no code.
    """
    with tempfile.TemporaryDirectory(prefix="ridgeline-isa-") as folder:
        place = Place(python=python, folder=Path(folder), timeout_s=timeout_s)
        return tuple(read(_launched(assembled, wanted)) for assembled in _assembled(wanted, targets, place))


def read(assembled: Assembled) -> Inspected:
    """Parse code and count. Raises `NotCompiled` where the text is not the kernel's code."""
    if assembled.assembly is None or assembled.form is None:
        held = _held(assembled, assembled.resources or Resources())
        return Inspected(report=_report(assembled, assembled.kernel or "?", held, None), code=None)
    try:
        code = _code(assembled)
    except NotReadable as error:
        raise NotCompiled("--kernel", str(error), error.several) from None
    told = assembled.resources or Resources()
    if assembled.form == "amdgcn":
        told = amdgcn.resources(assembled.assembly, code.kernel)
    elif assembled.form == "sass":
        stores = sum(1 for i in code.instructions if i.mnemonic.split(".")[0] == "STL")
        told = told.model_copy(update={"vgpr_spills": stores})
    return Inspected(report=_report(assembled, code.kernel, _held(assembled, told), code), code=code)


def counters(report: Report) -> tuple[Named, ...]:
    """What the loop's gates read: `spills`, and `occupancy` in per cent of what the hardware holds."""
    found = []
    if report.resources.vgpr_spills is not None:
        found.append(Named(name="spills", value=report.resources.vgpr_spills))
    if report.occupancy is not None:
        found.append(Named(name="occupancy", value=100.0 * report.occupancy.share))
    return tuple(found)


def _assembled(wanted: triton.Wanted, targets: Sequence[Target], place: Place) -> tuple[Assembled, ...]:
    path, kernel = wanted.file, wanted.kernel
    if given.is_compiled(path):
        return (given.taken(path, kernel, targets, place),)
    if path.suffix in native.CUDA_SUFFIXES:
        return tuple(native.cuda(path, kernel, target, place) for target in targets)
    if path.suffix in native.HIP_SUFFIXES:
        return tuple(native.hip(path, kernel, target, place) for target in targets)
    if path.suffix != ".py":
        raise NotCompiled(path.name, "is neither Triton or FlyDSL (.py), CUDA (.cu), HIP (.hip) nor compiled code")
    if native.is_flydsl(path):
        return tuple(native.flydsl(path, kernel, target, place) for target in targets)
    return triton.assemble(wanted, targets, place)


def _launched(assembled: Assembled, wanted: triton.Wanted) -> Assembled:
    """With the size of a block as it was asked for, where the code does not say it."""
    warps = dict(wanted.options).get("num_warps")
    if warps is None or assembled.threads is not None:
        return assembled
    return assembled.model_copy(update={"threads": warps * assembled.target.wave})


def _code(assembled: Assembled) -> Code:
    text = assembled.assembly or ""
    match assembled.form:
        case "amdgcn":
            return amdgcn.read(text, assembled.kernel)
        case "sass":
            return nvidia.sass(text, assembled.kernel)
        case _:
            return nvidia.ptx(text, assembled.kernel)


def _held(assembled: Assembled, told: Resources) -> Resources:
    """What the launch adds: dynamic LDS is in no code object, and neither is the size of an NVIDIA block."""
    changes: dict[str, int] = {}
    if assembled.shared_bytes is not None:  # Triton's is all of it
        changes["lds_bytes"] = assembled.shared_bytes
    if assembled.threads is not None:
        changes["threads"] = assembled.threads
    return told.model_copy(update=changes)


def _report(assembled: Assembled, kernel: str, held: Resources, code: Code | None) -> Report:
    notes = list(assembled.notes)
    if assembled.shared_bytes is None:
        notes.append("LDS that the launch asks for is not in the code: what is said of LDS and waves leaves it out")
    return Report(
        kernel=kernel,
        target=assembled.target,
        form=assembled.form or "elf",
        compiler=assembled.compiler,
        resources=held,
        shape=shape_of(code) if code else None,
        occupancy=occupancy(assembled.target, held),
        notes=tuple(notes),
    )
