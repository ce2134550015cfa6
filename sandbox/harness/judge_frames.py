"""The words that judge and worker exchange: frames of one fixed size, no objects, nothing to unpickle.

Both sides import this file; it needs the standard library alone, because one of them runs beside a candidate.
"""

import struct
from typing import NamedTuple

MAGIC = b"RIDGE\x00\x01\n"
LAYOUT = struct.Struct("<8sHHHHq16s216s")
SIZE = LAYOUT.size
"""Bytes of every frame."""
NONCE_BYTES = 16
TEXT_BYTES = 216
NO_NONCE = bytes(NONCE_BYTES)

LOAD, BIND, CALL, PING, REPORT, STOCK, CAPTURE, PROVE, PACK = 1, 2, 3, 4, 5, 6, 7, 8, 9
LOCK, RELEASE = 20, 21
"""To the worker. Descriptors of memory follow LOAD (what to load, and what was compiled before), BIND (an arena and where
the arrays are), REPORT (where the report goes), STOCK (values to keep on the card, and where they are) and PACK (where
what was compiled goes). PROVE asks for sums of the last call's outputs, CAPTURE for the call as a graph; both only where
the device is a card. LOCK, followed by a filter of system calls: start no process from here on. RELEASE: what the last
call returned has been read, let go of it."""
CHAIN = "chain"
"""Text of CAPTURE and CALL: all calls of that slot in a row, one for each placement; `placement` is how many. Of a CALL
a number follows: how often that is done again, one time behind the other."""
HELLO, READY, BOUND, DONE, PONG, FAILED, REPORTED = 101, 102, 103, 104, 105, 106, 107
STOCKED, CAPTURED, PROVED, PACKED = 108, 109, 110, 111
LOCKED, RELEASED = 120, 121
"""From the worker. FAILED: the call returned, and what it returned is no answer; the text says why."""


class FrameError(ValueError):
    """Bytes that are no frame."""


class Frame(NamedTuple):
    """One message. `claim_ns` is what the worker says that a call took."""

    kind: int
    nonce: bytes = NO_NONCE
    slot: int = 0
    """Which arena."""
    placement: int = 0
    """Which address range in it; how many, where all are called in a row."""
    claim_ns: int = 0
    text: str = ""


HEAD, CLAIM, NONCE, TEXT = slice(8, 14), 16, slice(24, 40), 40
"""Where a frame has its kind, slot and placement; what the worker claims; the nonce; the text."""


def packed(frame: Frame) -> bytes:
    """In the file of frames that worker and judge share: a frame as bytes; text beyond its place is cut."""
    text = frame.text.encode()[:TEXT_BYTES]
    return LAYOUT.pack(MAGIC, frame.kind, frame.slot, frame.placement, 0, frame.claim_ns, frame.nonce, text)


def unpacked(data: bytes) -> Frame:
    """In the file of frames that worker and judge share: the frame that these bytes are. Raises FrameError when they are none."""
    if len(data) != SIZE:
        raise FrameError(f"{len(data)} bytes where a frame has {SIZE}")
    magic, kind, slot, placement, spare, claim_ns, nonce, text = LAYOUT.unpack(data)
    if magic != MAGIC or spare:
        raise FrameError("bytes that do not begin as a frame does")
    return Frame(kind, nonce, slot, placement, claim_ns, text.rstrip(b"\0").decode(errors="replace"))
