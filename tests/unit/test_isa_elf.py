"""The metadata of AMD code objects, read without tools: every MessagePack form, damaged and hostile files."""

import struct

import pytest

from ridgeline.sandbox.profiles.isa import amdgcn
from ridgeline.sandbox.profiles.isa.amdgcn import from_metadata, numbers_of
from ridgeline.sandbox.profiles.isa.values import NotReadable


def packed(value):
    """MessagePack, in the widest form of each kind."""
    match value:
        case None | bool():
            return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
        case int():
            return struct.pack(">Bq", 0xD3, value)
        case float():
            return struct.pack(">Bd", 0xCB, value)
        case str():
            return struct.pack(">BI", 0xDB, len(value.encode())) + value.encode()
        case bytes():
            return struct.pack(">BI", 0xC6, len(value)) + value
        case list():
            return struct.pack(">BI", 0xDD, len(value)) + b"".join(map(packed, value))
        case dict():
            return struct.pack(">BI", 0xDF, len(value)) + b"".join(packed(k) + packed(v) for k, v in value.items())


def code_object(body, *, machine=224, kind=32, name=b"AMDGPU\0"):
    """A file with one section: a note that holds `body`."""
    padded = name + b"\0" * (-len(name) % 4)
    note = struct.pack("<III", len(name), len(body), kind) + padded + body + b"\0" * (-len(body) % 4)
    header = (
        b"\x7fELF\x02\x01\x01"
        + b"\0" * 9
        + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, 64, 0, 64, 0, 0, 64, 1, 0)
    )
    section = struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 128, len(note), 0, 0, 4, 0)
    return header + section + note


TOLD = {
    "amdhsa.target": "amdgcn-amd-amdhsa--gfx950",
    "amdhsa.kernels": [
        {".name": "tile", ".vgpr_count": 134, ".agpr_count": 6, ".vgpr_spill_count": 0, ".uses_dynamic_stack": False}
    ],
    "more": [None, True, -5, 2.5, b"raw", "long" * 99],
}


def test_what_is_written_is_read():
    data = code_object(packed(TOLD))
    assert amdgcn.machine(data) == amdgcn.AMDGPU
    found = amdgcn.metadata(data)
    assert found == TOLD
    held = from_metadata(numbers_of(found["amdhsa.kernels"][0]), {})
    assert (held.arch_vgpr, held.accum_vgpr, held.vgpr_total, held.vgpr_spills) == (128, 6, 134, 0)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x05", 5), (b"\x7f", 127), (b"\xff", -1), (b"\xe0", -32), (b"\xcc\xff", 255), (b"\xcd\x01\x00", 256),
        (b"\xce\x00\x01\x00\x00", 65536), (b"\xd0\x80", -128), (b"\xd1\xff\x00", -256), (b"\xca\x3f\x80\x00\x00", 1.0),
        (b"\xa3abc", "abc"), (b"\xd9\x03abc", "abc"), (b"\xda\x00\x03abc", "abc"), (b"\xc4\x01x", b"x"),
        (b"\x93\x01\x02\x03", [1, 2, 3]), (b"\xdc\x00\x01\x07", [7]), (b"\x81\xa1a\x01", {"a": 1}),
        (b"\xde\x00\x01\xa1a\xc0", {"a": None}),
    ],
)  # fmt: skip
def test_every_form(data, value):
    assert amdgcn.metadata(code_object(b"\x81\xa1v" + data)) == {"v": value}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",  # never used
        b"\x81\xa1",
        b"\x81\xa9ab",  # text longer than the file
        b"\xdf\xff\xff\xff\xff",  # four thousand million entries
        b"\x81\xa1a" + b"\x91" * 1000,  # lists in lists
        b"\x81\xa2\xff\xff\x01",  # no UTF-8
    ],
)
def test_damaged_metadata_is_refused(body):
    with pytest.raises(NotReadable):
        amdgcn.metadata(code_object(body))


@pytest.mark.parametrize("length", [0, 3, 16, 63, 64, 100, 128, 140, 160])
def test_cut_files_are_refused(length):
    data = code_object(packed(TOLD))[:length]
    if amdgcn.machine(data) is not None:
        with pytest.raises(NotReadable):
            amdgcn.metadata(data)


@pytest.mark.parametrize("fields", [{"kind": 1}, {"name": b"GNU\0"}])
def test_other_notes_say_nothing(fields):
    with pytest.raises(NotReadable, match="no AMDGPU metadata"):
        amdgcn.metadata(code_object(packed(TOLD), **fields))


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ" + b"\0" * 100, b"\x7fELF\x01\x01" + b"\0" * 100])
def test_other_files_have_no_machine(data):
    assert amdgcn.machine(data) is None
