"""Where an array's bytes are, and whether two arrays have the same ones, in the quickest way: for every call."""

import ctypes
from typing import Any

from numpy.typing import NDArray

_libc = ctypes.CDLL(None)
differs = _libc.memcmp
"""(address, address, bytes): not zero where they differ. Nothing is copied or allocated."""
differs.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
differs.restype = ctypes.c_int


def address(array: NDArray[Any]) -> int:
    """Of its first element."""
    if array.flags.writeable and array.flags.c_contiguous and array.size:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # three times as fast as what follows
    return int(array.__array_interface__["data"][0])


def same_bytes(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Whether two contiguous arrays of one size hold the same bytes: NaN equals itself here, and -0.0 is not 0.0."""
    return bool(differs(address(left), address(right), left.nbytes) == 0)
