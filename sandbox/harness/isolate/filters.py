"""The system calls that a worker may not make (seccomp)."""

import ctypes
import os

from . import kernel

DENIED = {
    # of other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # of the file system's shape
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "fanotify_init": (300, 262),
    # of what others do to files
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    # of namespaces
    "setns": (308, 268),
    "unshare": (272, 97),
    # of the kernel: programs, keys, events, faults, rings (which would pass by this filter)
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_secret": (447, 447),
    # of the machine
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "lookup_dcookie": (212, 18),
    "vhangup": (153, 58),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
}
"""Numbers on x86_64 and on aarch64, where None means that there is no such call."""
OF_TOOLS = frozenset(
    {"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd", "perf_event_open"}
    | {"inotify_init", "inotify_init1", "inotify_add_watch"}
)
"""What debuggers and profilers do to the processes that they see, and build tools that wait for files."""
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_SOCKET, _CLONE, _CLONE3, _IOCTL, _PRCTL = (41, 198), (56, 220), 435, (16, 29), (157, 167)
_SECCOMP = (317, 277)
_FILE_LOCK, _FILE_CONTROL = (73, 32), (72, 25)
_LOCK_WORDS, _LOCK_QUESTIONS = (6, 7, 37, 38), (5, 36, 1024, 1025, 1026)
"""Of fcntl(2): what takes or gives a lock, and what asks about locks or leases, or notices what others do."""
_ADVICE = ((221, 223), (187, 213))
"""fadvise64 and readahead: by them one takes pages of a file that others read out of memory, or into it."""
_CACHED, _READ_WITH_FLAGS, _IF_CACHED = (451, 451), (327, 286), 0x8
"""cachestat, preadv2 and its RWF_NOWAIT: they tell whether pages of a file are in memory, which others have put there."""
_STARTS = ((57, None), (58, None), (59, 221), (322, 281))
"""fork, vfork, execve and execveat."""
_THREAD = 0x00010000
"""The flag of clone that makes a thread, not a process."""
_X32 = 0x40000000
"""Calls from here on are those of another ABI, which this table does not know."""
_NAMESPACES = 0x7E020000
"""The flags of clone that make namespaces."""
_PUSH_INPUT, _PUSH_LINUX, _SET_SECCOMP = 0x5412, 0x541C, 22
_LOCAL = 1  # AF_UNIX
_EPERM, _EINVAL, _ENOSYS = 1, 22, 38
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _SIXTH = 0, 4, 16, 24, 56
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_WITH_FILTER, _ALL_THREADS, _KEEP_SPECULATION = 1, 1, 4
"""Without the third, kernels before 5.16 slow down every load of a filtered process, and so the kernel under test."""


def is_supported() -> bool:
    """Shutting a process in: whether the numbers of this processor's system calls are known here."""
    return os.uname().machine in _MACHINES


def program(*, gpu: bool) -> bytes:
    """The filter as the kernel reads it. `gpu`: sockets to processes of the same namespace stay, as drivers ask for
    them at their start.

    Locks of files, which a worker shares with others that read the same libraries, are granted and not taken; so is what
    moves a file's pages into memory and out of it, and nothing says which are there.
    A further filter over all threads may be added, as `without_processes`.
    """
    column, _ = _MACHINES[os.uname().machine]
    steps = [_op(_EQUAL, _FILE_LOCK[column], no=1), _op(_RETURN, _ERROR)]
    for numbers in _ADVICE:
        steps += [_op(_EQUAL, numbers[column], no=1), _op(_RETURN, _ERROR)]
    steps += [_op(_EQUAL, _CACHED[column], no=1), _op(_RETURN, _ERROR | _EPERM)]
    steps += _when(_READ_WITH_FLAGS[column], _SIXTH, [_op(_ANY_BIT, _IF_CACHED, no=1)])
    steps += _file_control_steps(_FILE_CONTROL[column]) + _seccomp_steps(_SECCOMP[column])
    if gpu:
        steps += _when(_SOCKET[column], _FIRST, [_op(_EQUAL, _LOCAL, yes=1)])
    else:
        steps += [_op(_EQUAL, _SOCKET[column], no=1), _op(_RETURN, _ERROR | _EPERM)]
    return _assemble(list(DENIED), ending=steps)


def _assemble(denied: list[str], *, ending: list[bytes]) -> bytes:
    column, architecture = _MACHINES[os.uname().machine]
    steps = [_op(_LOAD, _ARCHITECTURE), _op(_EQUAL, architecture, yes=1), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    if column == 0:
        steps += [_op(_AT_LEAST, _X32, no=1), _op(_RETURN, _ERROR | _ENOSYS)]
    for name in denied:
        if (number := DENIED[name][column]) is not None:
            steps += [_op(_EQUAL, number, no=1), _op(_RETURN, _ERROR | _EPERM)]
    steps += [_op(_EQUAL, _CLONE3, no=1), _op(_RETURN, _ERROR | _ENOSYS)]  # its flags lie in memory: clone is used then
    steps += _when(_CLONE[column], _FIRST, [_op(_ANY_BIT, _NAMESPACES, no=1)])
    steps += _when(_IOCTL[column], _SECOND, [_op(_EQUAL, _PUSH_INPUT, yes=1), _op(_EQUAL, _PUSH_LINUX, no=1)])
    steps += _when(_PRCTL[column], _FIRST, [_op(_EQUAL, _SET_SECCOMP, no=1)])
    steps += ending
    return b"".join((*steps, _op(_RETURN, _ALLOW)))


def command_program() -> bytes:
    """The filter of a contract's commands: of the machine, the kernel and the file system's shape, and of nothing that a build,
    a test or a profiler does."""
    column, _ = _MACHINES[os.uname().machine]
    return _assemble([name for name in DENIED if name not in OF_TOOLS], ending=_seccomp_steps(_SECCOMP[column]))


def apply(code: bytes) -> None:
    """Shutting a process in: hold it and all that come from it to the filter, for ever. Needs no new privileges to be set before."""
    instructions = ctypes.create_string_buffer(code, len(code))
    head = (len(code) // 8).to_bytes(8, "little") + ctypes.addressof(instructions).to_bytes(8, "little")
    column, _ = _MACHINES[os.uname().machine]
    kernel.syscall("seccomp", _SECCOMP[column], _WITH_FILTER, _KEEP_SPECULATION, head)


def without_processes() -> bytes:
    """A further filter, for a worker that has loaded and compiled: no more processes and programs, only threads."""
    column, architecture = _MACHINES[os.uname().machine]
    steps = [_op(_LOAD, _ARCHITECTURE), _op(_EQUAL, architecture, yes=1), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    for numbers in _STARTS:
        if (number := numbers[column]) is not None:
            steps += [_op(_EQUAL, number, no=1), _op(_RETURN, _ERROR | _EPERM)]
    steps += _when(_CLONE[column], _FIRST, [_op(_ANY_BIT, _THREAD, yes=1)])
    return b"".join((*steps, _op(_RETURN, _ALLOW)))


def seccomp_words() -> tuple[int, int, int]:
    """Shutting a process in: the number of seccomp(2), and its first two words as `program` lets them pass."""
    column, _ = _MACHINES[os.uname().machine]
    return _SECCOMP[column], _WITH_FILTER, _ALL_THREADS | _KEEP_SPECULATION


def _file_control_steps(number: int) -> list[bytes]:
    """Shutting a process in: of fcntl(2): locks are granted and not taken, and nothing is said of those of others."""
    inner = [_op(_LOAD, _SECOND)]
    for word in _LOCK_WORDS:
        inner += [_op(_EQUAL, word, no=1), _op(_RETURN, _ERROR)]
    for word in _LOCK_QUESTIONS:
        inner += [_op(_EQUAL, word, no=1), _op(_RETURN, _ERROR | _EINVAL)]
    inner += [_op(_RETURN, _ALLOW)]
    return [_op(_EQUAL, number, no=len(inner)), *inner]


def _seccomp_steps(number: int) -> list[bytes]:
    """Shutting a process in: of seccomp(2), only a further filter for all threads: it cannot allow anything."""
    inner = [_op(_LOAD, _FIRST), _op(_EQUAL, _WITH_FILTER, yes=1), _op(_RETURN, _ERROR | _EPERM)]
    inner += [_op(_LOAD, _SECOND), _op(_EQUAL, _ALL_THREADS | _KEEP_SPECULATION, yes=1), _op(_RETURN, _ERROR | _EPERM)]
    inner += [_op(_RETURN, _ALLOW)]
    return [_op(_EQUAL, number, no=len(inner)), *inner]


def _when(number: int, word: int, tests: list[bytes]) -> list[bytes]:
    """A step of the worker's filter: refuse the call with that number when the tests on one of its words lead to the step after them."""
    inner = [_op(_LOAD, word), *tests, _op(_RETURN, _ERROR | _EPERM), _op(_RETURN, _ALLOW)]
    return [_op(_EQUAL, number, no=len(inner)), *inner]


def _op(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """Shutting a process in: one step of the filter: how many steps to leave out when its test is met, and when it is not."""
    return code.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
