"""Frames: one size, nothing but what was packed comes out, and everything else is refused."""

import pytest

from ridgeline.sandbox.harness.judge_frames import (
    CALL,
    MAGIC,
    NONCE_BYTES,
    SIZE,
    TEXT_BYTES,
    Frame,
    FrameError,
    packed,
    unpacked,
)

NONCE = bytes(range(NONCE_BYTES))


@pytest.mark.parametrize(
    "frame",
    [
        Frame(CALL),
        Frame(CALL, NONCE, slot=65535, placement=1, claim_ns=-1, text="why"),
        Frame(CALL, NONCE, claim_ns=2**63 - 1, text="größer"),
    ],
)
def test_a_frame_comes_back_as_it_was(frame: Frame) -> None:
    assert len(packed(frame)) == SIZE
    assert unpacked(packed(frame)) == frame


def test_long_text_is_cut_even_inside_a_letter() -> None:
    text = unpacked(packed(Frame(CALL, text="x" + "ü" * TEXT_BYTES))).text
    assert text.startswith("xüü")
    assert len(text.encode()) <= TEXT_BYTES + 3


@pytest.mark.parametrize(
    "data",
    [
        b"",
        packed(Frame(CALL))[:-1],
        packed(Frame(CALL)) + b"\0",
        bytes(SIZE),
        b"X" + packed(Frame(CALL))[1:],
        MAGIC + b"\xff" * (SIZE - len(MAGIC)),
    ],
    ids=["nothing", "short", "long", "zeros", "magic", "spare"],
)
def test_anything_else_is_no_frame(data: bytes) -> None:
    with pytest.raises(FrameError):
        unpacked(data)
