"""Reads AMD assembly as LLVM writes it (CDNA, RDNA 3 and 4): instructions, and what the compiler says about registers and scratch.

Spellings follow AMD's CDNA3 and CDNA4 instruction set documents; metadata keys are those of code object V3 to V6
(LLVM's AMDGPU usage page).
"""

import re
import struct
from typing import TypeGuard

import ormsgpack
import yaml

from ridgeline.sandbox.profiles.isa.liveness import live_registers
from ridgeline.sandbox.profiles.isa.values import Code, Instruction, Kind, NotReadable, Resources, choose_kernel

LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)\b.*?;(.*)$")
PLACE = re.compile(r"([^\s:]*):(\d+):\d+")
COMMENT = re.compile(r"\s*(?:;|//).*$")
LABEL = re.compile(r"([.\w$@]+):")
NUMBER = re.compile(r"^;\s*(NumVgprs|NumAgprs|TotalNumVgprs|ScratchSize|codeLenInByte)\s*[:=]\s*(\d+)")
BITS = {"dword": 4, "short": 2, "ushort": 2, "sshort": 2, "ubyte": 1, "sbyte": 1, "byte": 1}
MEMORY = re.compile(
    r"(?:buffer|global|flat|scratch)_(?:load|store)_(?:lds_)?([a-z]+?)(?:x(\d))?(?:_d16(?:_hi|_format)?)?$"
)
RDNA_BITS = re.compile(r"(?:buffer|global|flat|scratch)_(?:load|store)(?:_tr)?(?:_d16)?(?:_hi)?_[bui](\d+)(?:_|$)")
"""From gfx11 on the width stands in bits: global_load_b128, global_load_d16_hi_b16, global_load_u16."""
LDS_BITS = re.compile(r"_b(\d+)(?:_|$)|_[ui](\d+)(?:_|$)")
METADATA = re.compile(r"^\s*\.amdgpu_metadata\s*$(.*?)^\s*\.end_amdgpu_metadata", re.MULTILINE | re.DOTALL)
LOADER: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
METADATA_LIMIT = 1_000_000
"""Characters; Triton writes a few thousand."""
PREFIXES: tuple[tuple[str, Kind], ...] = (
    ("v_mfma_", "matrix"),
    ("v_smfmac_", "matrix"),
    ("v_wmma_", "matrix"),
    ("v_accvgpr_", "accum_move"),
    ("s_waitcnt", "wait"),
    ("s_wait_", "wait"),
    ("s_barrier", "barrier"),
    ("s_endpgm", "end"),
    ("s_nop", "nop"),
    ("s_delay_alu", "nop"),
    ("s_clause", "nop"),
    ("s_sleep", "nop"),
    ("s_cbranch", "branch"),
    ("s_branch", "branch"),
    ("s_setpc", "branch"),
    ("s_swappc", "branch"),
    ("s_load_", "scalar_load"),
    ("s_buffer_load_", "scalar_load"),
    ("scratch_", "scratch"),
    ("ds_read", "lds_read"),
    ("ds_load", "lds_read"),
    ("ds_write", "lds_write"),
    ("ds_store", "lds_write"),
    ("ds_", "lds_other"),
    ("s_", "salu"),
    ("v_", "valu"),
)
VECTOR = ("buffer_", "global_", "flat_")


def parse_code(text: str, kernel: str | None = None) -> Code:
    """Machine code: the instructions of a kernel, the only one where no name is given. Raises `NotReadable`."""
    name = choose_kernel(kernels(text), kernel)
    instructions: list[Instruction] = []
    labels: list[tuple[str, int]] = []
    inside, source = False, ""
    for line in text.splitlines():
        bare = COMMENT.sub("", line).strip()
        if not inside:
            inside = bare == f"{name}:"
        elif bare.startswith((".Lfunc_end", ".size", ".end_amdhsa_kernel", ".amdhsa_kernel")):
            break
        elif label := LABEL.fullmatch(bare):
            labels.append((label[1], len(instructions)))
        elif bare.startswith("."):
            source = _source(line, source)
        elif bare:
            instructions.append(_instruction(bare, source))
    if not instructions:
        raise NotReadable(f"kernel {name!r} has no instructions")
    live = live_registers(instructions, dict(labels)) or [None] * len(instructions)
    counted = (i.model_copy(update={"live": count}) for i, count in zip(instructions, live, strict=True))
    return Code(kernel=name, instructions=tuple(counted), labels=tuple(labels))


def kernels(text: str) -> tuple[str, ...]:
    """Machine code: names of the kernels that the assembly declares."""
    return tuple(dict.fromkeys(re.findall(r"^\s*\.amdhsa_kernel\s+(\S+)", text, re.MULTILINE)))


def architecture(text: str) -> str | None:
    """Machine code: the processor that the assembly was made for, for example gfx942."""
    match = re.search(r'^\s*\.amdgcn_target\s+"[^"]*?(gfx\w+)', text, re.MULTILINE)
    return match[1] if match else None


def resources(text: str, kernel: str) -> Resources:
    """What the compiler's metadata says of a kernel; what it does not say is None."""
    entry = _metadata(text, kernel)
    comments = {m[1]: int(m[2]) for line in text.splitlines() if (m := NUMBER.match(line.strip()))}
    if len(kernels(text)) != 1:  # comments name no kernel
        comments = {}
    return from_metadata(entry, comments)


def from_metadata(entry: dict[str, int], comments: dict[str, int]) -> Resources:
    """Registers from a kernel's metadata entry; `.vgpr_count` counts both files together from gfx90a on."""
    total, accum = entry.get(".vgpr_count"), entry.get(".agpr_count", 0)
    arch = comments.get("NumVgprs")
    if arch is None and total is not None:
        arch = total - accum
    return Resources(
        arch_vgpr=arch,
        accum_vgpr=None if total is None else accum,
        vgpr_total=comments.get("TotalNumVgprs", total),
        sgpr=entry.get(".sgpr_count"),
        vgpr_spills=entry.get(".vgpr_spill_count"),
        sgpr_spills=entry.get(".sgpr_spill_count"),
        scratch_bytes=entry.get(".private_segment_fixed_size"),
        lds_bytes=entry.get(".group_segment_fixed_size"),
        threads=entry.get(".max_flat_workgroup_size"),
        code_bytes=comments.get("codeLenInByte"),
    )


def numbers_of(entry: object) -> dict[str, int]:
    """Machine code: only the whole numbers of a metadata entry: the file is untrusted."""
    if not isinstance(entry, dict):
        return {}
    return {str(key): value for key, value in entry.items() if _is_count(value)}


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40


def _metadata(text: str, kernel: str) -> dict[str, int]:
    for block in METADATA.findall(text):
        for entry in _entries(block):
            if isinstance(entry, dict) and entry.get(".name") == kernel:
                return numbers_of(entry)
    return {}


def _entries(block: str) -> list[object]:
    """Machine code: of the kernels that one block describes; a block that cannot be read describes none."""
    if len(block) > METADATA_LIMIT:
        return []
    try:
        document = yaml.load(block.replace("\t", "  "), Loader=LOADER)
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    entries = document.get("amdhsa.kernels") if isinstance(document, dict) else None
    return entries if isinstance(entries, list) else []


def _source(line: str, source: str) -> str:
    """Machine code: the line of the kernel's own file: `standard.py:43:13 @[ kernel.py:27:17 ]` is inlined into the last."""
    loc = LOC.match(line)
    places = PLACE.findall(loc[2]) if loc and loc[1] != "0" else []
    return f"{places[-1][0]}:{places[-1][1]}" if places else source


def _instruction(text: str, source: str) -> Instruction:
    mnemonic = text.split(None, 1)[0]
    kind = kind_of(mnemonic, text)
    words = text.replace(",", " ").split()
    goes = words[-1] if kind == "branch" and len(words) > 1 else None
    return Instruction(
        text=" ".join(text.split()),
        mnemonic=mnemonic,
        kind=kind,
        lane_bytes=lane_bytes(mnemonic),
        target=goes,
        source=source,
    )


def kind_of(mnemonic: str, text: str) -> Kind:
    """Machine code: what a machine instruction is for."""
    if mnemonic.startswith(VECTOR):
        return _vector(mnemonic, text)
    return next((kind for prefix, kind in PREFIXES if mnemonic.startswith(prefix)), "other")


def _vector(mnemonic: str, text: str) -> Kind:
    if "_load_lds_" in mnemonic or ("_load_" in mnemonic and text.split()[-1] == "lds"):
        return "global_to_lds"
    if "_load" in mnemonic:
        return "global_load"
    if "_store" in mnemonic:
        return "global_store"
    return "atomic" if "_atomic" in mnemonic else "other"


def lane_bytes(mnemonic: str) -> int | None:
    """Machine code: bytes that one lane moves; None for what moves nothing."""
    if mnemonic.startswith("ds_"):
        return _lds_bytes(mnemonic)
    if bits := RDNA_BITS.match(mnemonic):
        return int(bits[1]) // 8
    width = MEMORY.match(mnemonic)
    if width is None or width[1] not in BITS:
        return None
    return BITS[width[1]] * int(width[2] or 1)


def _lds_bytes(mnemonic: str) -> int | None:
    bits = LDS_BITS.search(mnemonic)
    if bits is None or not mnemonic.startswith(("ds_read", "ds_write", "ds_load", "ds_store")):
        return None
    twice = 2 if re.match(r"ds_(?:read|write|load|store)2", mnemonic) or "_2addr" in mnemonic else 1
    return int(bits[1] or bits[2]) // 8 * twice


# Reads what an AMD code object (ELF, `.hsaco`) says of its kernels: the metadata note, without any tool.
#
# Layout: LLVM's AMDGPU usage page, "Code Object Metadata": a note of type 32 of the name AMDGPU that holds MessagePack.

MAGIC = b"\x7fELF"
AMDGPU, CUDA = 224, 190
METADATA_NOTE = 32
NOTE_SECTION = 7
Plain = int | str | bool | float | bytes | None | list["Plain"] | dict[str, "Plain"]


def machine(data: bytes) -> int | None:
    """The machine number of a 64-bit little-endian ELF file; None for everything else."""
    if len(data) < 64 or data[:4] != MAGIC or data[4] != 2 or data[5] != 1:
        return None
    number: int = struct.unpack_from("<H", data, 18)[0]
    return number


def metadata(data: bytes) -> dict[str, Plain]:
    """Machine code: the metadata of an AMD code object. Raises `NotReadable` where it has none or is damaged."""
    try:
        for kind, name, body in _notes(data):
            if kind == METADATA_NOTE and name == b"AMDGPU":
                fields = ormsgpack.unpackb(body)
                if isinstance(fields, dict):
                    return fields
    except (struct.error, ormsgpack.MsgpackDecodeError) as error:
        raise NotReadable(f"the code object is damaged ({error})") from None
    raise NotReadable("the code object has no AMDGPU metadata note")


def _notes(data: bytes) -> list[tuple[int, bytes, bytes]]:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    notes = []
    for index in range(count):
        (kind,) = struct.unpack_from("<I", data, start + index * size + 4)
        offset, length = struct.unpack_from("<QQ", data, start + index * size + 24)
        if kind == NOTE_SECTION:
            notes.extend(_in_section(data[offset : offset + length]))
    return notes


def _in_section(section: bytes) -> list[tuple[int, bytes, bytes]]:
    notes, at = [], 0
    while at + 12 <= len(section):
        name_size, body_size, kind = struct.unpack_from("<III", section, at)
        name = section[at + 12 : at + 12 + name_size].rstrip(b"\0")
        body = at + 12 + (name_size + 3) // 4 * 4
        notes.append((kind, name, section[body : body + body_size]))
        at = body + (body_size + 3) // 4 * 4
    return notes
