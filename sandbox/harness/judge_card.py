"""Inside a worker: the driver of an NVIDIA or AMD card through ctypes, its functions taken before the candidate's code.

What a candidate puts in the place of PyTorch's own functions changes nothing here. Needs the standard library and the
driver's library, whose context PyTorch has made.
"""

import ctypes
import mmap
from collections import Counter
from typing import Any

CUDA, HIP = "libcuda.so.1", "libamdhip64.so"
PERSISTING_L2 = 0x06
"""CU_LIMIT_PERSISTING_L2_CACHE_SIZE"""
NODES = ("kernel", "memcpy", "memset", "host", "graph", "empty", "wait", "record", "signal", "await", "alloc", "free")
"""Kinds of a graph's nodes by number, the same for CUDA and HIP as far as HIP has them."""
PLAIN = frozenset({"kernel", "memcpy", "memset", "empty", "wait", "record", "alloc", "free"})
"""Kinds that do their work on the card and need nobody outside the graph."""
HIP_DEFAULT = 4
"""hipMemcpyDefault: the direction is found from the addresses."""
_FUNCTIONS = {
    "make_event": ("cuEventCreate", "hipEventCreateWithFlags"),
    "record": ("cuEventRecord", "hipEventRecord"),
    "elapsed": ("cuEventElapsedTime", "hipEventElapsedTime"),
    "sync": ("cuCtxSynchronize", "hipDeviceSynchronize"),
    "copy": ("cuMemcpyAsync", "hipMemcpyAsync"),
    "fill": ("cuMemsetD32Async", "hipMemsetD32Async"),
    "pin": ("cuMemHostRegister_v2", "hipHostRegister"),
    "unpin": ("cuMemHostUnregister", "hipHostUnregister"),
    "nodes": ("cuGraphGetNodes", "hipGraphGetNodes"),
    "node_type": ("cuGraphNodeGetType", "hipGraphNodeGetType"),
}


class DriverError(RuntimeError):
    """A driver's function failed; the text has its name, number and the driver's words for it."""


class Driver:
    """The few functions that a judged call needs, all on the default stream. Raises DriverError where one fails."""

    def __init__(self, *, hip: bool = False) -> None:
        """Raises OSError without the driver's library, AttributeError where a function is missing in it."""
        library = ctypes.CDLL(HIP if hip else CUDA)
        self._hip = hip
        self._do = {name: getattr(library, names[hip]) for name, names in _FUNCTIONS.items()}
        self._limit = None if hip else library.cuCtxSetLimit
        self._limited = None if hip else library.cuCtxGetLimit
        self._reset = None if hip else library.cuCtxResetPersistingL2Cache
        self._explain = library.hipGetErrorString if hip else library.cuGetErrorString
        self._explain.restype = ctypes.c_char_p if hip else ctypes.c_int
        self._start, self._stop = self._event(), self._event()
        self._stream = ctypes.c_void_p(0)

    def start(self) -> None:
        """Inside a worker: begin of what is timed on the card."""
        self._call_driver("record", self._start, self._stream)

    def stop(self) -> None:
        """Inside a worker: end of what is timed on the card."""
        self._call_driver("record", self._stop, self._stream)

    def elapsed_ns(self) -> int:
        """Inside a worker: time between start and stop on the card, after a `sync`; events resolve half a microsecond."""
        elapsed_ms = ctypes.c_float()
        self._call_driver("elapsed", ctypes.byref(elapsed_ms), self._start, self._stop)
        return int(elapsed_ms.value * 1e6)

    def sync(self) -> None:
        """Inside a worker: wait for everything on the card, whatever its stream."""
        self._call_driver("sync")

    def copy(self, target: int, source: int, count: int) -> None:
        """Inside a worker: copy bytes from anywhere to anywhere, in the card's stream order."""
        if count:
            kind = (ctypes.c_int(HIP_DEFAULT),) if self._hip else ()
            where = (ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(count))
            self._call_driver("copy", *where, *kind, self._stream)

    def fill(self, target: int, word: int, count: int) -> None:
        """Inside a worker: write `count` bytes of the card, a multiple of four, all the same word."""
        self._call_driver(
            "fill", ctypes.c_void_p(target), ctypes.c_uint(word), ctypes.c_size_t(count // 4), self._stream
        )

    def pin(self, at: int, count: int) -> bool:
        """Inside a worker: let the card reach this memory by itself; False where that cannot be, and copies are only slower."""
        return int(self._do["pin"](ctypes.c_void_p(at), ctypes.c_size_t(count), ctypes.c_uint(0))) == 0

    def unpin(self, at: int) -> None:
        """Inside a worker: take back that the card reaches this memory by itself."""
        self._do["unpin"](ctypes.c_void_p(at))

    def no_persistence(self) -> None:
        """Inside a worker: nothing may stay in the card's last cache by its own wish: that share is emptied."""
        if self._limit is None or self._limited is None or self._reset is None:
            return
        share = ctypes.c_size_t()
        if self._limited(ctypes.byref(share), ctypes.c_int(PERSISTING_L2)) or share.value:
            self._limit(ctypes.c_int(PERSISTING_L2), ctypes.c_size_t(0))
        self._reset()

    def kinds(self, graph: int) -> dict[str, int]:
        """Inside a worker: nodes of a graph on the card, counted by kind."""
        count = ctypes.c_size_t()
        self._call_driver("nodes", ctypes.c_void_p(graph), None, ctypes.byref(count))
        nodes = (ctypes.c_void_p * max(count.value, 1))()
        if count.value:
            self._call_driver("nodes", ctypes.c_void_p(graph), nodes, ctypes.byref(count))
        return dict(Counter(self._kind(nodes[number]) for number in range(count.value)))

    def _kind(self, node: Any) -> str:
        number = ctypes.c_int()
        self._call_driver("node_type", ctypes.c_void_p(node), ctypes.byref(number))
        return NODES[number.value] if number.value < len(NODES) else f"kind {number.value}"

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self._call_driver("make_event", ctypes.byref(event), ctypes.c_uint(0))
        return event

    def _call_driver(self, name: str, *arguments: Any) -> None:
        if code := int(self._do[name](*arguments)):
            raise DriverError(f"{_FUNCTIONS[name][self._hip]} failed with {code}: {self._explain_code(code)}")

    def _explain_code(self, code: int) -> str:
        """Inside a worker: the driver's words for an error: 700 is an illegal address, 715 an illegal instruction."""
        text = ctypes.c_char_p()
        said = self._explain(code) if self._hip else self._explain(code, ctypes.byref(text)) or text.value
        return said.decode(errors="replace") if isinstance(said, bytes) else "unknown"


class Stock:
    """Long rows of values and signs that the judge drew once; calls take slices of them."""

    def __init__(self, device: Any, memory: mmap.mmap, layout: dict[str, Any]) -> None:
        self._driver, self._memory, self._layout = device.driver, memory, layout
        self._host = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._all = device.torch.empty(len(memory), dtype=device.torch.uint8, device=device.where)
        self._driver.copy(self._all.data_ptr(), self._host, len(memory))
        self._driver.sync()
        self.signs = self._all[slice(*layout["rows"])].view(device.torch.int8).double()
        self._version = 0

    def of(self, key: str) -> Any:
        """Inside a worker: the stocked bytes of that name; None where there are none."""
        return self._all[slice(*self._layout[key])] if key in self._layout else None

    def renew(self, version: int) -> None:
        """Inside a worker: take the decoys anew when they are others than before."""
        if version == self._version:
            return
        self._version = version
        for key, (start, end) in self._layout.items():
            if key.startswith("decoy/"):
                self._driver.copy(self._all.data_ptr() + start, self._host + start, end - start)
