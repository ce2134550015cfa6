"""System calls that Python has no name for. Linux on x86_64 and aarch64; each raises OSError that names the call."""

import ctypes
import os

NEW_MOUNTS, NEW_HOSTNAME, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEV, NO_EXEC = 0x1, 0x2, 0x4, 0x8
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
DETACH = 2
PARENT_DEATH_SIGNAL, DUMPABLE, DROP_BOUND, SUBREAPER, NO_NEW_PRIVILEGES = 1, 4, 24, 36, 38

_HERE = -100  # AT_FDCWD
_WHOLE_TREE = 0x8000  # AT_RECURSIVE
_MOUNT_SETATTR = 442  # this number and the later ones are the same on every processor
_ARM = os.uname().machine == "aarch64"
_PIVOT_ROOT = 41 if _ARM else 155
_CAPSET = 91 if _ARM else 126
_CLONE = 220 if _ARM else 56
_CHILD_SIGNAL, _SAME_PARENT = 17, 0x8000
_SET_FLAGS, _UP, _RUNNING = 0x8914, 0x1, 0x40

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
_libc.signal.restype = ctypes.c_void_p
_libc.prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)

Word = int | bytes | ctypes.Array[ctypes.c_char] | None


def syscall(name: str, number: int, *words: Word) -> int:
    """Shutting a process in: make the system call of that number; memory is given as bytes or as a buffer. `name` is for the error."""
    arguments = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    return _check_result(name, int(_libc.syscall(ctypes.c_long(number), *arguments)))


def unshare(flags: int) -> None:
    """Shutting a process in: leave the namespaces that the flags name for new ones."""
    _check_result("unshare", _libc.unshare(flags))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Shutting a process in: mount as mount(2) does."""
    words = (os.fsencode(source), os.fsencode(target), kind.encode())
    _check_result(f"mount {target}", _libc.mount(*words, flags, options.encode()))


def hold(target: str, *, put: int = 0, take: int = 0, recursive: bool = False) -> None:
    """Shutting a process in: change the attributes of the mount at the target, or of the whole tree of them. Needs Linux 5.12."""
    words = b"".join(number.to_bytes(8, "little") for number in (put, take, 0, 0))
    path = os.fsencode(target) + b"\0"
    syscall(f"mount_setattr {target}", _MOUNT_SETATTR, _HERE, path, _WHOLE_TREE if recursive else 0, words, len(words))


def change_root(new: str) -> None:
    """Shutting a process in: make `new`, a mount, the root of this mount namespace and let go of everything that was there before."""
    os.chdir(new)
    syscall("pivot_root", _PIVOT_ROOT, b".\0", b".\0")
    _check_result("umount", _libc.umount2(b".", DETACH))
    os.chdir("/")


def pivot(new: str, old: str) -> None:
    """Shutting a process in: make `new` the root; what was there before is found at `old`, a folder inside of it."""
    syscall("pivot_root", _PIVOT_ROOT, os.fsencode(new) + b"\0", os.fsencode(old) + b"\0")
    os.chdir("/")


def prctl(option: int, value: int) -> None:
    """Shutting a process in: set one attribute of this process."""
    _check_result("prctl", _libc.prctl(option, value, 0, 0, 0))


def drop_capabilities() -> None:
    """Shutting a process in: give up every capability, and every way of being given one by a program."""
    for capability in range(64):
        if _libc.prctl(DROP_BOUND, capability, 0, 0, 0) < 0:
            break  # the first number that this kernel does not know, or no right to touch the bound: emptied below
    nobody = (0x20080522).to_bytes(4, "little") + bytes(4)  # version 3, this process
    syscall("capset", _CAPSET, nobody, bytes(24))


def keep_capabilities(numbers: tuple[int, ...]) -> None:
    """Shutting a process in: give up every capability but these, and every way of being given another by a program."""
    for capability in range(64):
        if capability not in numbers and _libc.prctl(DROP_BOUND, capability, 0, 0, 0) < 0:
            break  # the first number that this kernel does not know
    mask = sum(1 << number for number in numbers)
    low, high = (mask & 0xFFFFFFFF).to_bytes(4, "little"), (mask >> 32).to_bytes(4, "little")
    nobody = (0x20080522).to_bytes(4, "little") + bytes(4)
    syscall("capset", _CAPSET, nobody, low * 2 + bytes(4) + high * 2 + bytes(4))


def fork_beside() -> int:
    """Shutting a process in: its copy as another child of its own parent: its id; 0 in the copy. Of a process with one thread."""
    return syscall("clone", _CLONE, _CHILD_SIGNAL | _SAME_PARENT, 0, 0, 0, 0)


def raise_loopback() -> None:
    """Shutting a process in: bring up the one interface of a new network namespace, by which its processes reach one another."""
    import fcntl  # needed by few, and each start of a worker pays for what is imported
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, b"lo".ljust(16, b"\0") + (_UP | _RUNNING).to_bytes(2, "little") + bytes(14))


def ignore_signal(number: int) -> None:
    """Shutting a process in: let the signal do nothing."""
    _libc.signal(number, 1)


def default_signal(number: int) -> None:
    """Shutting a process in: let the signal do what it does to a program that never asked."""
    _libc.signal(number, None)


def _check_result(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result
