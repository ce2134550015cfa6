"""NVIDIA's disassembler and resource report: from the path, or from inside an installed Triton."""

import importlib.util
import re
import shutil
from pathlib import Path

from ridgeline.sandbox.profiles.isa.child import Place, started
from ridgeline.sandbox.profiles.isa.naming import NotReadable, named
from ridgeline.sandbox.profiles.isa.values import Assembled, Resources

USAGE = re.compile(r"Function\s+(\S+?):\s*\n\s*REG:(\d+)\s+STACK:(\d+)\s+SHARED:(\d+)\s+LOCAL:(\d+)")
RESERVED = 1024
COUNTS_RESERVED = ("sm_90", "sm_100")
"""Here the report counts the system's own KiB as the kernel's: kernels without shared memory show 1024."""
OUTPUT_LIMIT = 32 * 1024 * 1024


def disassembled(given: Assembled, place: Place) -> Assembled:
    """The same with SASS and what its code object says of resources, where the tools are; else with a note."""
    if not given.binary:
        return given
    cubin = place.folder / f"{given.target.arch}.cubin"
    cubin.write_bytes(given.binary)
    resources = _usage(cubin, given.kernel, place)
    text = _sass(cubin, place)
    notes = () if text else ("nvdisasm not found or failed: no SASS, so spills are not known; install CUDA or triton",)
    found = {"resources": resources, "notes": (*given.notes, *notes)}
    return given.model_copy(update={**found, "assembly": text, "form": "sass"} if text else found)


def tool(name: str) -> str | None:
    """Where a CUDA tool is; Triton's wheel brings its own."""
    if found := shutil.which(name):
        return found
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    inside = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / name
    return str(inside) if inside.is_file() else None


def _sass(cubin: Path, place: Place) -> str | None:
    program = tool("nvdisasm")
    if program is None:
        return None
    for flags in (("-c", "-gi"), ("-c",)):  # -gi: source lines, refused where the code has none
        ended = started(place, (program, *flags, str(cubin)), output_bytes=OUTPUT_LIMIT)
        if ended.ok and len(ended.output) < OUTPUT_LIMIT:
            return ended.output
    return None


def _usage(cubin: Path, kernel: str | None, place: Place) -> Resources | None:
    program = tool("cuobjdump")
    if program is None:
        return None
    ended = started(place, (program, "--dump-resource-usage", str(cubin)))
    found = {m[1]: m for m in USAGE.finditer(ended.output)} if ended.ok else {}
    try:
        _, registers, stack, shared, _ = found[named(tuple(found), kernel)].groups()
    except NotReadable:
        return None
    own = int(shared) - (RESERVED if int(shared) >= RESERVED and cubin.stem in COUNTS_RESERVED else 0)
    return Resources(arch_vgpr=int(registers), scratch_bytes=int(stack), lds_bytes=own)
