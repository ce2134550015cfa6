"""Inside a worker: a candidate that is a shared library with a C function."""

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from typing import Any

FRAME_BYTES, MOST_ARGUMENTS = 256, 24
"""As in judge_loop.c."""


class Prepared(ctypes.Structure):
    """`struct prepared` of judge_loop.c."""

    _fields_ = (
        ("head", ctypes.c_char * 8),
        ("entry", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("arguments", ctypes.c_int64 * MOST_ARGUMENTS),
        ("answer", ctypes.c_char * FRAME_BYTES),
    )


class Loop:
    """Takes and answers frames of calls in C: see judge_loop.c. Loaded before the candidate is."""

    def __init__(self, library: str) -> None:
        self._serve = ctypes.CDLL(library).judge_serve
        self._serve.restype = ctypes.c_long
        self._serve.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_long, ctypes.c_char_p)
        self._frame = ctypes.create_string_buffer(FRAME_BYTES)
        self._calls: Any = (Prepared * 0)()

    def prepare(self, calls: Mapping[bytes, tuple[Any, Sequence[Any], Any, bytearray]]) -> None:
        """Inside a worker: the calls that are answered in C, by the head of their frame."""
        every = [_make_prepared(head, *words) for head, words in calls.items()]
        self._calls = (Prepared * len(every))(*every)

    def take(self, wire: int) -> bytes:
        """Inside a worker: answer calls until something else is asked, which is returned; empty at the end of the wire."""
        size = self._serve(wire, ctypes.addressof(self._calls), len(self._calls), self._frame)
        return self._frame.raw[: max(size, 0)]


def _make_prepared(head: bytes, entry: Any, arguments: Sequence[Any], place: Any, answer: bytearray) -> Prepared:
    """Inside a worker: one call in the words of C; no entry for an empty call, which has no arguments."""
    address = ctypes.cast(entry, ctypes.c_void_p).value if arguments else None
    words = (ctypes.c_int64 * MOST_ARGUMENTS)(*(argument.value or 0 for argument in arguments))
    one = Prepared(entry=address, count=len(arguments), arguments=words)
    ctypes.memmove(ctypes.addressof(one), bytes(head), len(head))
    ctypes.memmove(ctypes.addressof(one) + Prepared.answer.offset, bytes(answer), len(answer))
    return one


class Library:
    """The function, and its arguments as C has them."""

    returns = False
    strided = False

    def __init__(self, spec: dict[str, Any]) -> None:
        few = len(spec["order"]) <= MOST_ARGUMENTS
        self.loop = Loop(spec["loop"]) if spec.get("loop") and few else None
        """Answers calls of a candidate in C; none where it was not built or nobody is judged, and Python makes them."""
        self.entry = getattr(ctypes.CDLL(spec["library"]), spec["entry"])
        self.entry.restype = None
        self._order: Sequence[str] = spec["order"]

    def wrap(self, memory: Any, dtype: str, shape: Sequence[int], offset: int) -> ctypes.c_void_p:
        """Inside a worker: a pointer to the array."""
        if not isinstance(memory, mmap.mmap):  # bytes on a card
            return ctypes.c_void_p(memory.data_ptr() + offset)
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory, offset)))

    def arguments(self, arrays: dict[str, Any], dims: dict[str, int]) -> tuple[Any, ...]:
        """Inside a worker: pointers, and dimensions as 64-bit integers, for a candidate in C."""
        return tuple(arrays[name] if name in arrays else ctypes.c_int64(dims[name]) for name in self._order)


def load(spec: dict[str, Any]) -> Library:
    """Inside a worker: the C library that the judge built. Raises OSError or AttributeError where it has not what was promised."""
    return Library(spec)
