"""What is known of a compiled kernel. None is always `not told`, never zero; sizes are bytes."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from ridgeline.graph.errors import WorldError
from ridgeline.graph.kernel_profile import Limiter, Vendor
from ridgeline.graph.values import Named, Value, is_empty

Kind = Literal[
    "matrix", "valu", "salu", "global_load", "global_store", "global_to_lds", "atomic", "lds_read", "lds_write",
    "lds_other", "scratch", "scalar_load", "accum_move", "wait", "barrier", "branch", "nop", "end", "other",
]  # fmt: skip
"""What an instruction is for. NVIDIA: salu = uniform datapath, scratch = local memory, scalar_load = constant bank."""


class Target(Value):
    """What a kernel is compiled for."""

    arch: str
    """gfx942, sm_90."""
    vendor: Vendor
    wave: int
    """Lanes that run together: 64 on CDNA, 32 on RDNA and NVIDIA."""


class Instruction(Value):
    """One instruction of a listing."""

    text: str
    mnemonic: str
    kind: Kind
    lane_bytes: int | None = None
    """Bytes that one lane moves, where the instruction moves data."""
    target: str | None = None
    """Label that it branches to."""
    source: str = ""
    """`file:line` as the compiler noted it."""
    live: int | None = None
    """Vector registers of a thread that hold something when it runs, as NVIDIA's disassembler counts them; of AMD code
    counted here."""


class Code(Value):
    """The instructions of one kernel in order."""

    kernel: str
    instructions: tuple[Instruction, ...]
    labels: tuple[tuple[str, int], ...]
    """Label, and the index of the instruction behind it."""


class Count(Value):
    name: str
    count: int


class Width(Value):
    """How many instructions move so many bytes per lane."""

    kind: Kind
    lane_bytes: int
    count: int


class Pressure(Value):
    """Where most registers hold something at once."""

    source: str
    """`file:line`; the instruction where the compiler noted none."""
    live: int
    """Registers per thread, at most, on that line."""


class Loop(Value):
    """Instructions between a branch back and the label it goes to."""

    label: str
    first: int
    last: int
    """Indices of instructions, both inside."""
    depth: int
    """1 = not inside another loop."""
    counts: tuple[Count, ...]
    """By kind."""
    source: tuple[str, ...] = ()
    """`file:line` that most of it comes from, at most three."""
    hot: bool = False
    """A guess from the code alone: the loop with most matrix work, else most multiply-adds, else most instructions."""


class Shape(Value):
    """What the code consists of."""

    instructions: int
    kinds: tuple[Count, ...]
    widths: tuple[Width, ...]
    matrix: tuple[Count, ...]
    """Matrix instructions by mnemonic, which names their shape and types."""
    waits: tuple[Count, ...]
    """Waits by what they wait for, for example `vmcnt(0)`."""
    loops: tuple[Loop, ...]
    pressure: Annotated[tuple[Pressure, ...], Field(exclude_if=is_empty)] = ()
    """The lines with most live registers, most first, at most five; empty where nobody counts them."""

    def count(self, *kinds: Kind) -> int:
        """Machine code: machine instructions of these kinds."""
        return sum(group.count for group in self.kinds if group.name in kinds)


class Resources(Value):
    """What one thread, wave and block hold."""

    arch_vgpr: int | None = None
    """NVIDIA: registers per thread."""
    accum_vgpr: int | None = None
    vgpr_total: int | None = None
    """What is allocated from the register file: both kinds together."""
    sgpr: int | None = None
    vgpr_spills: int | None = None
    """32-bit registers that the code stores to scratch, counted at each store: what LLVM's metadata tells, and what
    ptxas tells in bytes."""
    sgpr_spills: int | None = None
    scratch_bytes: int | None = None
    """Per lane; NVIDIA: stack frame."""
    lds_bytes: int | None = None
    """Per block, static and dynamic."""
    threads: int | None = None
    """Per block."""
    tensor_columns: int | None = None
    """Columns of tensor memory that a block allocates (sm_100)."""
    code_bytes: int | None = None


class Occupancy(Value):
    """How many waves of a kernel fit on the hardware at once, as registers, LDS and launch allow."""

    waves_per_simd: float
    """AMD: waves per SIMD. NVIDIA: warps per scheduler. Whole blocks only, so it can be a fraction."""
    most: int
    """What the hardware holds per SIMD."""
    share: float
    blocks_per_unit: int | None
    """Blocks per CU or SM; None where the block's size is not known."""
    limiter: Limiter
    limits: tuple[Named, ...]
    """Waves per CU or SM that each resource alone would allow."""
    register_tier: int
    """Waves per SIMD that registers alone allow."""
    registers_for_next: int | None = None
    """Registers per lane at which one more block (wave, where its size is unknown) would fit; None at the top."""
    source: str
    """Where the constants come from."""


class Report(Value):
    """One kernel for one target."""

    kernel: str
    target: Target
    form: Literal["amdgcn", "sass", "ptx", "elf"]
    """What the instructions were read from; elf: resources only."""
    compiler: str
    """Name and version, or where the assembly came from. Other versions give other numbers."""
    resources: Resources
    shape: Shape | None
    """None where instructions could not be read; a note says why."""
    occupancy: Occupancy | None
    notes: tuple[str, ...] = ()
    plain: Annotated[str, Field(exclude_if=is_empty)] = ""
    """The kernel's name as the source has it, where `kernel` is mangled and a tool is here that undoes it."""
    layouts: Annotated["Layouts | None", Field(exclude_if=is_empty)] = None
    """Of Triton: what its GPU IR says of layouts and of the pipeline."""


class Layouts(Value):
    """What Triton's GPU IR (TTGIR) says before it becomes instructions."""

    names: tuple[str, ...]
    """Layouts as the IR defines them, `#mma = #ttg.nvidia_mma<...>`."""
    operations: tuple[Count, ...]
    """Of those that move data between layouts and memories, and those of the pipeline."""
    unswizzled: tuple[str, ...] = ()
    """Shared layouts without swizzle and padding: lanes that step through a column meet in one bank."""


class Assembly(Value):
    """What a compiler gave, or a file holds, for one target, before it is read."""

    target: Target
    compiler: str
    assembly: str | None = None
    form: Literal["amdgcn", "sass", "ptx"] | None = None
    binary: bytes = b""
    shared_bytes: int | None = None
    """Shared memory or LDS per block that the launch asks for."""
    tensor_columns: int | None = None
    threads: int | None = None
    kernel: str | None = None
    resources: Resources | None = None
    """Where a tool told them."""
    plain: str = ""
    """The kernel's name in the source, where `kernel` is mangled."""
    live: tuple[tuple[int, int], ...] = ()
    """Offset of an instruction of SASS, and the registers that hold something when it runs."""
    layouts: Layouts | None = None
    ttgir: str = ""
    notes: tuple[str, ...] = ()


class Refusal(Value):
    """Why one target, or one kernel of several on it, has no report; the others have theirs."""

    target: str
    why: str
    kernel: str = ""
    """Empty where the file has one, or none is named."""


class IsaFinding(Value):
    """One difference between two versions of a kernel on one target."""

    name: Literal["spills", "scratch", "occupancy", "registers", "lds", "width", "matrix", "waits", "barriers", "size"]
    weight: Literal["against", "for", "note"]
    """against: evidence against the second version, which a gate can use. for: the same for it."""
    target: str
    before: float | None
    after: float | None
    text: str


# Why there is no report on a kernel's code. None of these says anything about how good the kernel is.


class NotCompiled(WorldError):
    """The file, or what was said about it, does not give code for this target. `field` names what can be mended.

    `several`: names of the kernels that were found, where one of them had to be named and none was. `launched`: those that
    the call launches, where it launches none of the name that was asked for.
    """

    exit_code = 2

    def __init__(self, field: str, text: str, several: Sequence[str] = (), launched: Sequence[str] = ()) -> None:
        self.field, self.text, self.several, self.launched = field, text, tuple(several), tuple(launched)
        super().__init__(f"{field}: {text}")


class CompilerMissing(WorldError):
    """The compiler, or the tool that reads its output, is not on this machine."""


# Which of several kernels is meant.


class NotReadable(ValueError):
    """The text or file is not the code of a kernel; the message says what is missing.

    `several`: the kernels in it, where one of them had to be named and none was.
    """

    def __init__(self, text: str, several: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.several = tuple(several)


def choose_kernel(names: Sequence[str], kernel: str | None) -> str:
    """Machine code: the kernel of that name, mangled or its own; the only one where no name is given. Raises `NotReadable`."""
    if kernel is None and len(names) == 1:
        return names[0]
    if kernel is not None:
        if kernel in names:
            return kernel
        longer = [name for name in names if _stands_for(name, kernel)]
        if len(longer) == 1:
            return longer[0]
    listed = ", ".join(names) or "none"
    what = f"no kernel {kernel!r}" if kernel else "not exactly one kernel"
    raise NotReadable(f"{what}; those in it: {listed}", () if kernel else names)


def _stands_for(name: str, kernel: str) -> bool:
    """Whether a name in machine code is the kernel's: C++ writes a name and its length into a longer one; FlyDSL numbers its kernels."""
    numbered = name.startswith(f"{kernel}_") and name[len(kernel) + 1 :].isdigit()
    return numbered or (name.startswith("_Z") and f"{len(kernel)}{kernel}" in name)


# The architectures a kernel can be compiled for, by the names people use.

CDNA = ("gfx90a", "gfx942", "gfx950")
RDNA = ("gfx1100", "gfx1101", "gfx1102", "gfx1151", "gfx1200", "gfx1201")
NVIDIA = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
OWN_FEATURES = ("sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
"""What is compiled for with the letter `a`: wgmma, tcgen05 and block-scaled multiplication are nowhere else."""
KNOWN = (*CDNA, *RDNA, *NVIDIA)


class UnknownTarget(ValueError):
    """No architecture of that name; the text lists those that exist."""


def target_of(name: str) -> Target:
    """Machine code: the target of that name, features after a colon left out. Raises `UnknownTarget`."""
    plain = re.sub(r"^sm_?(\d+)[af]?$", r"sm_\1", name.strip().lower().partition(":")[0])
    if plain in (*CDNA, *RDNA):
        return Target(arch=plain, vendor="amd", wave=64 if plain in CDNA else 32)
    if plain in NVIDIA:
        return Target(arch=plain, vendor="nvidia", wave=32)
    raise UnknownTarget(f"unknown target {name!r}; one of {', '.join(KNOWN)}")
