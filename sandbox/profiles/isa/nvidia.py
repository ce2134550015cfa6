"""Reads NVIDIA code: SASS as `nvdisasm -c` or `cuobjdump -sass` print it, and PTX.

SASS is what runs. PTX shows the same matrix and copy instructions but neither registers nor spills.
"""

import re
from collections.abc import Iterator, Mapping

from ridgeline.sandbox.profiles.isa.values import Code, Instruction, Kind, NotReadable, choose_kernel

SASS_LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(.*?)\s*;?\s*\}?\s*(?:/\*.*\*/)?\s*$")
SASS_LABEL = re.compile(r"^\s*(\.L\w+):")
SASS_SECTION = re.compile(r"^\s*(?:\.section\s+\.text\.([^,\s]+)|Function\s*:\s*(\S+))")
SASS_SOURCE = re.compile(r'//## File "([^"]*)", line (\d+)')
PREDICATE = re.compile(r"^@!?U?P(?:T|\d+)\s+")
SASS_GOAL = re.compile(r"`\(([^)]+)\)|\b(0x[0-9a-f]+)\s*$")
PTX_ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+)")
PTX_LABEL = re.compile(r"^\s*(\$?\w[\w$]*):\s*(?://.*)?$")
PTX_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)(?:.*inlined_at\s+\d+\s+(\d+))?")
PTX_GUARD = re.compile(r"^@!?%p\w+\s+")
PTX_VECTOR = re.compile(r"\.v(\d)\b")
PTX_TYPE = re.compile(r"\.[busf](\d+)\b|\.b(\d+)x2\b")
TENSOR_ALLOC = re.compile(r"tcgen05\.alloc\.[^;\n]*?,\s*(\d+)\s*;")
TENSOR_WORDS = ("tcgen05.", "LDTM", "STTM", "UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCATOMSWS")
COPY_BYTES = re.compile(r"\]\s*,\s*(0x[0-9a-f]+|\d+)")

SASS: tuple[tuple[str, Kind], ...] = (
    ("HGMMA", "matrix"), ("IGMMA", "matrix"), ("QGMMA", "matrix"), ("BGMMA", "matrix"), ("HMMA", "matrix"),
    ("IMMA", "matrix"), ("DMMA", "matrix"), ("QMMA", "matrix"), ("OMMA", "matrix"), ("BMMA", "matrix"),
    ("UTCHMMA", "matrix"), ("UTCQMMA", "matrix"), ("UTCIMMA", "matrix"), ("UTCOMMA", "matrix"),
    ("WARPGROUP.DEPBAR", "wait"), ("DEPBAR", "wait"), ("LDGDEPBAR", "wait"), ("WARPSYNC", "barrier"),
    ("WARPGROUP.ARRIVE", "wait"), ("SYNCS", "barrier"), ("BAR", "barrier"), ("MEMBAR", "barrier"),
    ("FENCE", "barrier"), ("B2R", "other"), ("UCGABAR", "barrier"),
    ("LDGSTS", "global_to_lds"), ("UTMALDG", "global_to_lds"), ("UBLKCP", "global_to_lds"),
    ("UTMASTG", "global_store"), ("LDGMC", "global_load"), ("LDG", "global_load"), ("LD.", "global_load"),
    ("STG", "global_store"), ("ST.", "global_store"), ("RED", "atomic"), ("ATOMG", "atomic"), ("ATOMS", "atomic"),
    ("ATOM", "atomic"), ("LDSM", "lds_read"), ("LDS", "lds_read"), ("STSM", "lds_write"), ("STS", "lds_write"),
    ("LDL", "scratch"), ("STL", "scratch"), ("LDTM", "accum_move"), ("STTM", "accum_move"),
    ("LDCU", "scalar_load"), ("LDC", "scalar_load"), ("ULDC", "scalar_load"),
    ("BRA", "branch"), ("BRX", "branch"), ("JMP", "branch"), ("CALL", "branch"), ("RET", "branch"), ("BSSY", "other"),
    ("BSYNC", "other"), ("EXIT", "end"), ("NOP", "nop"), ("NANOSLEEP", "nop"), ("SHFL", "lds_other"),
    ("S2UR", "salu"), ("R2UR", "salu"), ("U", "salu"),
)  # fmt: skip
"""First match wins."""
PTX: tuple[tuple[str, Kind], ...] = (
    ("wgmma.mma_async", "matrix"), ("tcgen05.mma", "matrix"), ("mma.sync", "matrix"), ("wmma.mma", "matrix"),
    ("wgmma.", "wait"), ("tcgen05.ld", "accum_move"), ("tcgen05.st", "accum_move"), ("tcgen05.", "other"),
    ("cp.async.wait", "wait"), ("cp.async.commit", "other"), ("cp.async.mbarrier", "barrier"),
    ("cp.async.bulk.wait", "wait"), ("cp.async.bulk.commit", "other"), ("cp.async", "global_to_lds"),
    ("mbarrier", "barrier"), ("bar.", "barrier"), ("barrier", "barrier"), ("fence", "barrier"), ("membar", "barrier"),
    ("ldmatrix", "lds_read"), ("stmatrix", "lds_write"), ("shfl", "lds_other"), ("atom", "atomic"), ("red", "atomic"),
    ("bra", "branch"), ("call", "branch"), ("ret", "end"), ("exit", "end"), ("trap", "end"),
)  # fmt: skip
SPACES: tuple[tuple[str, Kind, Kind], ...] = (
    (".shared", "lds_read", "lds_write"),
    (".local", "scratch", "scratch"),
    (".param", "scalar_load", "other"),
    (".const", "scalar_load", "other"),
)


def sass(text: str, kernel: str | None = None, live: Mapping[int, int] | None = None) -> Code:
    """The instructions of a kernel in SASS; `live`: registers that hold something, by offset. Raises `NotReadable`."""
    name = choose_kernel(sections(text), kernel)
    instructions: list[Instruction] = []
    labels: list[tuple[str, int]] = []
    source = ""
    for line in lines_of(text, name):
        if location := SASS_SOURCE.search(line):
            source = (
                f"{location[1].rpartition('/')[2]}:{location[2]}"  # of inlined code the last is the kernel's own line
            )
        elif label := SASS_LABEL.match(line):
            labels.append((label[1], len(instructions)))
        elif (coded := SASS_LINE.match(line)) and coded[2]:
            offset = int(coded[1], 16)
            labels.append((f"0x{offset:x}", len(instructions)))
            instructions.append(_sass(coded[2], source, (live or {}).get(offset)))
    return _build_code(name, instructions, labels)


def sections(text: str) -> tuple[str, ...]:
    """Names of the kernels in a listing of SASS."""
    return tuple(dict.fromkeys(m[1] or m[2] for line in text.splitlines() if (m := SASS_SECTION.match(line))))


def lines_of(text: str, kernel: str) -> Iterator[str]:
    """The lines of one kernel of a listing of SASS."""
    inside = False
    for line in text.splitlines():
        if section := SASS_SECTION.match(line):
            inside = (section[1] or section[2]) == kernel
        elif inside:
            yield line


def entries(text: str) -> tuple[str, ...]:
    """Names of the kernels in PTX."""
    return tuple(m[1] for line in text.splitlines() if (m := PTX_ENTRY.match(line)))


def ptx(text: str, kernel: str | None = None) -> Code:
    """The instructions of a kernel in PTX. Raises `NotReadable`."""
    name = choose_kernel(entries(text), kernel)
    instructions: list[Instruction] = []
    labels: list[tuple[str, int]] = []
    inside, source = False, ""
    for line in text.splitlines():
        bare = line.split("//")[0].strip()
        if entry := PTX_ENTRY.match(line):
            inside = entry[1] == name
        elif not inside:
            continue
        elif bare == "}" and instructions:
            break
        elif label := PTX_LABEL.match(line):
            labels.append((label[1], len(instructions)))
        elif location := PTX_LOC.match(line):
            source = f"line {location[2] or location[1]}" if location[1] != "0" else source
        elif bare and bare.endswith(";") and not bare.startswith("."):
            instructions.append(_ptx(bare.rstrip(";").strip("{} \t"), source))
    return _build_code(name, instructions, labels)


def spilled_registers(code: Code) -> int:
    """32-bit registers that the code stores to local memory, counted at each store: ptxas' spill stores, in words."""
    widths = (i.lane_bytes or 4 for i in code.instructions if i.mnemonic.split(".")[0] == "STL")
    return sum(max(1, width // 4) for width in widths)


def tensor_columns(text: str) -> int | None:
    """Columns of tensor memory that PTX allocates with numbers in its text; None where it allocates none so."""
    return sum(int(count) for count in TENSOR_ALLOC.findall(text)) or None


def uses_tensor_memory(code: Code) -> bool:
    """Machine code: whether any instruction reads, writes or multiplies in tensor memory."""
    return any(i.mnemonic.startswith(TENSOR_WORDS) for i in code.instructions)


def architecture(text: str) -> str | None:
    """sm_90 and the like, as PTX and disassemblies declare it; the letter of a feature set is left out."""
    match = re.search(r"(?:^|\s)\.target\s+(sm_\d+)|code for (sm_\d+)|EF_CUDA_SM(\d+)", text)
    if match is None:
        return None
    return match[1] or match[2] or f"sm_{match[3]}"


def _build_code(name: str, instructions: list[Instruction], labels: list[tuple[str, int]]) -> Code:
    if not instructions:
        raise NotReadable(f"kernel {name!r} has no instructions")
    goals = {instruction.target for instruction in instructions}
    used_labels = tuple(label for label in labels if label[0] in goals or not label[0].startswith("0x"))
    return Code(kernel=name, instructions=tuple(instructions), labels=used_labels)


def _sass(text: str, source: str, live: int | None) -> Instruction:
    bare = PREDICATE.sub("", text)
    mnemonic = bare.split(None, 1)[0].rstrip(",")
    kind: Kind = next((kind for prefix, kind in SASS if _starts(mnemonic, prefix)), "valu")
    goal = SASS_GOAL.search(bare) if kind == "branch" else None
    return Instruction(
        text=" ".join(text.split()),
        mnemonic=mnemonic,
        kind=kind,
        lane_bytes=_sass_bytes(mnemonic, kind),
        target=(goal[1] or goal[2]) if goal else None,
        source=source,
        live=live,
    )


def _starts(mnemonic: str, prefix: str) -> bool:
    """Machine code: whole words before the first dot, except the one letter that marks the uniform datapath."""
    if prefix == "U" or "." in prefix:
        return mnemonic.startswith(prefix)
    return mnemonic.split(".")[0] == prefix


def _sass_bytes(mnemonic: str, kind: Kind) -> int | None:
    if kind not in ("global_load", "global_store", "global_to_lds", "lds_read", "lds_write", "scratch"):
        return None
    words = mnemonic.split(".")[1:]
    if mnemonic.startswith(("LDSM", "STSM")):  # one register of every lane per 8x8 matrix
        return 4 * int(words[-1]) if words and words[-1].isdigit() else 4
    if mnemonic.startswith("U"):  # bulk copies name no width
        return None
    bits = next((int(word) for word in words if word in ("64", "128", "256")), None)
    narrow = next((int(word[1:]) for word in words if word in ("U8", "S8", "U16", "S16")), None)
    return (bits or narrow or 32) // 8


def _ptx(text: str, source: str) -> Instruction:
    bare = PTX_GUARD.sub("", text)
    mnemonic = bare.split(None, 1)[0] if bare else ""
    kind = _ptx_kind(mnemonic)
    words = bare.replace(",", " ").split()
    return Instruction(
        text=" ".join(text.split()),
        mnemonic=mnemonic,
        kind=kind,
        lane_bytes=_ptx_bytes(mnemonic, bare, kind),
        target=words[-1] if kind == "branch" and len(words) > 1 else None,
        source=source,
    )


def _ptx_kind(mnemonic: str) -> Kind:
    if mnemonic.startswith(("ld.", "st.")):
        loads = mnemonic.startswith("ld.")
        for space, load, store in SPACES:
            if space in mnemonic:
                return load if loads else store
        return "global_load" if loads else "global_store"
    return next((kind for prefix, kind in PTX if mnemonic.startswith(prefix)), "valu")


def _ptx_bytes(mnemonic: str, text: str, kind: Kind) -> int | None:
    if kind == "global_to_lds":
        copied = COPY_BYTES.search(text)
        return int(copied[1], 0) if copied and not mnemonic.startswith("cp.async.bulk") else None
    if mnemonic.startswith(("ldmatrix", "stmatrix")):
        parts = re.search(r"\.x(\d)", mnemonic)
        return 4 * int(parts[1]) if parts else 4
    if kind not in ("global_load", "global_store", "lds_read", "lds_write", "scratch"):
        return None
    vector, width = PTX_VECTOR.search(mnemonic), PTX_TYPE.search(mnemonic)
    return int(vector[1] if vector else 1) * int(width[1] or width[2]) // 8 if width else None
