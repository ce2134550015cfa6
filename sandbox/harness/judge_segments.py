"""Memory of a card, or of the machine where the processor plays one, that another process can be given: one segment, one descriptor.

Whoever gets a segment's descriptor can reach all of that segment and nothing else: on a card each is an allocation of
its own (CUDA driver API, virtual memory management), in whole units of the card's granularity. Needs the standard
library; tensors need PyTorch, whose context a card's memory is made in. Used by the judge and inside workers.
"""

import ctypes
import fcntl
import mmap
import os
from typing import Any

CUDA = "libcuda.so.1"
PINNED, POSIX_DESCRIPTOR, ON_DEVICE, READ_WRITE = 1, 1, 1, 3
"""CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_LOCATION_TYPE_DEVICE and
CU_MEM_ACCESS_FLAGS_PROT_READWRITE of cuda.h."""
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
"""Whoever could cut the machine's memory short would kill the other process at its next access."""


class SegmentError(RuntimeError):
    """Memory cannot be had or shared; the text names the function and its number."""


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """CUmemAllocationProp of cuda.h."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """CUmemAccessDesc of cuda.h."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Segment:
    """One stretch of shared memory. `tensor` is all of it as bytes; it must not be used after `close`."""

    def __init__(self, memory: Any, address: int, size: int, descriptor: int, tensor: Any, handle: Any) -> None:
        self._memory, self.address, self.size = memory, address, size
        self.descriptor, self.tensor, self._handle = descriptor, tensor, handle

    def close(self) -> None:
        """In a worker or the judge: give this process's end of a segment back. The other's stays until it closes it, or ends."""
        if self._memory is not None:
            self.tensor = None
            self._memory.release(self)
            self._memory = None


class HostMemory:
    """Segments in the machine's memory, for where the processor plays the card."""

    granularity = mmap.PAGESIZE
    kind = "host"

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def create(self, size: int) -> Segment:
        """For workers, the processor as card: a new segment of at least so many bytes, all taken now. Raises SegmentError."""
        descriptor = os.memfd_create("segment", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(descriptor, 0, size)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        except OSError as error:
            os.close(descriptor)
            raise SegmentError(f"{size >> 20} MiB of memory are not to be had: {error.strerror}") from error
        return self.open(descriptor, size)

    def open(self, descriptor: int, size: int) -> Segment:
        """Inside a worker, the processor as card: the segment behind a descriptor, which is the segment's from here on."""
        memory = mmap.mmap(descriptor, size)
        tensor = self._torch.frombuffer(memory, dtype=self._torch.uint8)
        return Segment(self, tensor.data_ptr(), size, descriptor, tensor, memory)

    def release(self, segment: Segment) -> None:
        """In a worker or the judge: close a segment's descriptor; the memory goes with its last user."""
        os.close(segment.descriptor)


class CardMemory:
    """Segments on the card that PyTorch uses. Raises SegmentError where the driver has not what is needed."""

    kind = "vmm"

    def __init__(self, torch: Any, device: int = 0) -> None:
        """PyTorch's context must be current in this thread."""
        self._torch, self._device = torch, device
        try:
            self._library = ctypes.CDLL(CUDA)
        except OSError as error:
            raise SegmentError(f"{CUDA}: {error}") from error
        self._properties = _Properties(PINNED, POSIX_DESCRIPTOR, _Location(ON_DEVICE, device))
        granularity = ctypes.c_size_t()
        self._call("cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(self._properties), 0)
        self.granularity = granularity.value

    def create(self, size: int) -> Segment:
        """For workers on a card: a new segment of at least so many bytes: an allocation of its own. Raises SegmentError."""
        size = -(-size // self.granularity) * self.granularity
        handle = ctypes.c_ulonglong()
        self._call("cuMemCreate", ctypes.byref(handle), _size(size), ctypes.byref(self._properties), _flags())
        try:
            descriptor = ctypes.c_int(-1)
            self._call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, POSIX_DESCRIPTOR, _flags())
        except SegmentError:
            self._call("cuMemRelease", handle)
            raise
        os.set_inheritable(descriptor.value, False)
        return self._map(handle, size, descriptor.value)

    def open(self, descriptor: int, size: int) -> Segment:
        """Inside a worker on a card: the segment behind a descriptor, its own from here on. `size`: what `create` made of it."""
        handle = ctypes.c_ulonglong()
        self._call(
            "cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), POSIX_DESCRIPTOR
        )
        return self._map(handle, size, descriptor)

    def release(self, segment: Segment) -> None:
        """In a worker or the judge: unmap a card's segment and give the allocation back."""
        address = ctypes.c_ulonglong(segment.address)
        self._call("cuMemUnmap", address, _size(segment.size))
        self._call("cuMemAddressFree", address, _size(segment.size))
        self._call("cuMemRelease", segment._handle)
        os.close(segment.descriptor)

    def _map(self, handle: ctypes.c_ulonglong, size: int, descriptor: int) -> Segment:
        address = ctypes.c_ulonglong()
        self._call("cuMemAddressReserve", ctypes.byref(address), _size(size), _size(0), _flags(), _flags())
        self._call("cuMemMap", address, _size(size), _size(0), handle, _flags())
        access = _Access(_Location(ON_DEVICE, self._device), READ_WRITE)
        self._call("cuMemSetAccess", address, _size(size), ctypes.byref(access), _size(1))
        tensor = self._torch.as_tensor(_Bytes(address.value, size), device=f"cuda:{self._device}")
        return Segment(self, address.value, size, descriptor, tensor, handle)

    def _call(self, name: str, *arguments: Any) -> None:
        _call(self._library, name, *arguments)


class IpcMemory:
    """The same through CUDA's older interface, whose handle is bytes, not a descriptor: they lie in memory behind one.

    A handle opens the whole allocation that it belongs to, so each segment is one, in units of 2 MiB, which the driver
    shares among smaller ones.
    """

    granularity = 1 << 21
    kind = "ipc"

    def __init__(self, torch: Any, device: int = 0) -> None:
        """PyTorch's context must be current in this thread."""
        self._torch, self._device = torch, device
        self._library = ctypes.CDLL(CUDA)

    def create(self, size: int) -> Segment:
        """For workers on a card with the older interface: a new segment of at least so many bytes. Raises SegmentError."""
        size = -(-size // self.granularity) * self.granularity
        address, handle = ctypes.c_ulonglong(), _IpcHandle()
        _call(self._library, "cuMemAlloc_v2", ctypes.byref(address), _size(size))
        _call(self._library, "cuIpcGetMemHandle", ctypes.byref(handle), address)
        descriptor = os.memfd_create("handle", os.MFD_CLOEXEC)
        os.write(descriptor, bytes(handle))
        return self._segment(address.value, size, descriptor, "cuMemFree_v2")

    def open(self, descriptor: int, size: int) -> Segment:
        """Inside a worker on a card with the older interface: the segment whose handle lies behind a descriptor."""
        handle, address = _IpcHandle.from_buffer_copy(os.pread(descriptor, 64, 0)), ctypes.c_ulonglong()
        _call(self._library, "cuIpcOpenMemHandle_v2", ctypes.byref(address), handle, 1)
        return self._segment(address.value, size, descriptor, "cuIpcCloseMemHandle")

    def release(self, segment: Segment) -> None:
        """In a worker or the judge: give a card's allocation back, or this process's view of it."""
        _call(self._library, segment._handle, ctypes.c_ulonglong(segment.address))
        os.close(segment.descriptor)

    def _segment(self, address: int, size: int, descriptor: int, release: str) -> Segment:
        tensor = self._torch.as_tensor(_Bytes(address, size), device=f"cuda:{self._device}")
        return Segment(self, address, size, descriptor, tensor, release)


class _IpcHandle(ctypes.Structure):
    """CUipcMemHandle of cuda.h."""

    _fields_ = (("reserved", ctypes.c_ubyte * 64),)


SegmentMemory = HostMemory | CardMemory | IpcMemory


def open_card_memory(torch: Any, kind: str = "") -> SegmentMemory:
    """For workers: segments of the card in the way of that name; else the first that this driver has. Raises SegmentError."""
    if kind == IpcMemory.kind:
        return IpcMemory(torch)
    try:
        memory = CardMemory(torch)
        memory.create(memory.granularity).close()
        return memory
    except SegmentError:
        if kind:
            raise
        return IpcMemory(torch)


def _call(library: Any, name: str, *arguments: Any) -> None:
    """For workers' segments of a card: raises SegmentError where the driver's function fails or is not there."""
    try:
        code = int(getattr(library, name)(*arguments))
    except AttributeError as error:
        raise SegmentError(f"the driver has no {name}") from error
    if code:
        raise SegmentError(f"{name} failed with {code}")


class _Bytes:
    """Memory of a card as PyTorch takes it without a copy (the CUDA array interface, version 3)."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def _size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)


def _flags() -> ctypes.c_ulonglong:
    return ctypes.c_ulonglong(0)
