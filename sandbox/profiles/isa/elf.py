"""Reads what an AMD code object (ELF, `.hsaco`) says of its kernels: the metadata note, without any tool.

Layout: LLVM's AMDGPU usage page, "Code Object Metadata": a note of type 32 of the name AMDGPU that holds MessagePack.
"""

import struct

from ridgeline.sandbox.profiles.isa.naming import NotReadable

MAGIC = b"\x7fELF"
AMDGPU, CUDA = 224, 190
METADATA_NOTE = 32
NOTE_SECTION = 7
DEEPEST = 32
Plain = int | str | bool | float | bytes | None | list["Plain"] | dict[str, "Plain"]
FIXED: dict[int, tuple[str, int]] = {
    0xCA: (">f", 4), 0xCB: (">d", 8), 0xCC: (">B", 1), 0xCD: (">H", 2), 0xCE: (">I", 4), 0xCF: (">Q", 8),
    0xD0: (">b", 1), 0xD1: (">h", 2), 0xD2: (">i", 4), 0xD3: (">q", 8),
}  # fmt: skip
SIZED: dict[int, tuple[str, str]] = {
    0xC4: ("bytes", ">B"), 0xC5: ("bytes", ">H"), 0xC6: ("bytes", ">I"),
    0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I"),
    0xDC: ("list", ">H"), 0xDD: ("list", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I"),
}  # fmt: skip
SIMPLE: dict[int, bool | None] = {0xC0: None, 0xC2: False, 0xC3: True}


def machine(data: bytes) -> int | None:
    """The machine number of a 64-bit little-endian ELF file; None for everything else."""
    if len(data) < 64 or data[:4] != MAGIC or data[4] != 2 or data[5] != 1:
        return None
    number: int = struct.unpack_from("<H", data, 18)[0]
    return number


def metadata(data: bytes) -> dict[str, Plain]:
    """The metadata of an AMD code object. Raises `NotReadable` where it has none or is damaged."""
    try:
        for kind, name, body in _notes(data):
            if kind == METADATA_NOTE and name == b"AMDGPU":
                found, _ = _value(body, 0, 0)
                if isinstance(found, dict):
                    return found
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise NotReadable(f"the code object is damaged ({error})") from None
    raise NotReadable("the code object has no AMDGPU metadata note")


def _notes(data: bytes) -> list[tuple[int, bytes, bytes]]:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    found = []
    for index in range(count):
        (kind,) = struct.unpack_from("<I", data, start + index * size + 4)
        offset, length = struct.unpack_from("<QQ", data, start + index * size + 24)
        if kind == NOTE_SECTION:
            found.extend(_in_section(data[offset : offset + length]))
    return found


def _in_section(section: bytes) -> list[tuple[int, bytes, bytes]]:
    found, at = [], 0
    while at + 12 <= len(section):
        name_size, body_size, kind = struct.unpack_from("<III", section, at)
        name = section[at + 12 : at + 12 + name_size].rstrip(b"\0")
        body = at + 12 + (name_size + 3) // 4 * 4
        found.append((kind, name, section[body : body + body_size]))
        at = body + (body_size + 3) // 4 * 4
    return found


def _value(data: bytes, at: int, depth: int) -> tuple[Plain, int]:
    """One MessagePack value and where the next begins."""
    if depth > DEEPEST:
        raise NotReadable("the code object's metadata is nested too deep")
    first = data[at]
    if first in SIMPLE:
        return SIMPLE[first], at + 1
    if first in FIXED:
        form, width = FIXED[first]
        return struct.unpack_from(form, data, at + 1)[0], at + 1 + width
    if first <= 0x7F:
        return first, at + 1
    if first >= 0xE0:
        return first - 256, at + 1
    kind, size, start = _sized(data, at)
    if kind in ("text", "bytes"):
        body = data[start : start + size]
        if len(body) != size:
            raise NotReadable("the code object's metadata is cut short")
        return (body.decode() if kind == "text" else body), start + size
    return _many(data, start, size, mapping=kind == "map", depth=depth)


def _sized(data: bytes, at: int) -> tuple[str, int, int]:
    first = data[at]
    if first <= 0x8F:
        return "map", first & 0x0F, at + 1
    if first <= 0x9F:
        return "list", first & 0x0F, at + 1
    if first <= 0xBF:
        return "text", first & 0x1F, at + 1
    if first not in SIZED:
        raise NotReadable(f"the code object's metadata holds an unknown mark 0x{first:x}")
    kind, form = SIZED[first]
    size: int = struct.unpack_from(form, data, at + 1)[0]
    return kind, size, at + 1 + struct.calcsize(form)


def _many(data: bytes, at: int, size: int, *, mapping: bool, depth: int) -> tuple[Plain, int]:
    if size > len(data):  # each entry takes a byte at least
        raise NotReadable("the code object's metadata is cut short")
    items: list[Plain] = []
    for _ in range(size * 2 if mapping else size):
        item, at = _value(data, at, depth + 1)
        items.append(item)
    if not mapping:
        return items, at
    return {str(key): value for key, value in zip(items[::2], items[1::2], strict=True)}, at
