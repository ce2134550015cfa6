"""Inside a worker: a candidate that is a shared library with a C function."""

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any


class Library:
    """The function, and its arguments as C has them."""

    returns = False
    strided = False

    def __init__(self, spec: dict[str, Any]) -> None:
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
