"""What a worker's process gives up, in this order, just before it becomes the worker."""

import os
import resource

from . import filters, kernel, landlock
from .plan import Plan
from .room import NOBODY

_WRITABLE = ("/tmp", "/dev")
_FACTS = ("cpuinfo", "devices", "driver", "filesystems", "meminfo", "modules", "self", "stat", "version", "sys/vm")
"""What programs ask /proc about at their start."""


def apply(plan: Plan) -> list[str]:
    """Shutting a process in: limits, user, capabilities, files and system calls. What this kernel lacks, in words.

    Raises OSError where something that must work does not.
    """
    for number, most in plan.limits:
        limit(number, most)
    missing = _user(plan)
    if plan.mode == "bubblewrap":  # gives up the rest itself, as it must be able to mount first
        return ["landlock"]
    kernel.drop_capabilities()
    kernel.prctl(kernel.NO_NEW_PRIVILEGES, 1)
    missing += _files(plan)
    if not filters.is_supported():
        return [*missing, "seccomp"]
    try:
        filters.apply(filters.program(gpu=plan.gpu))
    except OSError:
        missing.append("seccomp")
    return missing


def _user(plan: Plan) -> list[str]:
    """Shutting a process in: become nobody, with a count of processes of its own: the limit on them is one of a user in a namespace."""
    missing = []
    if plan.mode == "root":
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        kernel.prctl(kernel.DUMPABLE, 1)  # else its own maps of users are not its own
        try:
            own_users(NOBODY, NOBODY)
        except OSError:
            missing.append("count of processes")
    limit(resource.RLIMIT_NPROC, plan.tasks)
    return missing


def limit(number: int, most: int) -> None:
    """Shutting a process in: hold this process to that much of a resource, or to the less that it is held to already."""
    _, bound = resource.getrlimit(number)
    most = most if bound == resource.RLIM_INFINITY else min(most, bound)
    resource.setrlimit(number, (most, most))


def own_users(user: int, group: int, *, inside: tuple[int, int] = (NOBODY, NOBODY)) -> None:
    """Shutting a process in: enter a user namespace in which this user and group are `inside`, and there is no other."""
    kernel.unshare(kernel.NEW_USER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{inside[0]} {user} 1")
    _write("/proc/self/gid_map", f"{inside[1]} {group} 1")


def _files(plan: Plan) -> list[str]:
    weak = plan.mode == "weak"
    abi = landlock.version()
    if abi == 0:
        return ["landlock"]
    if weak:
        devices = [where for kind, _, where in plan.mounts if kind == "device"]
        readable = [what for kind, what, _ in plan.mounts if kind == "read"]
        facts = [f"/proc/{name}" for name in _FACTS]
        # a driver opens names of its threads for writing, and gives up where it may not
        landlock.apply(
            writable=[plan.folder, *devices, *(["/proc/self"] if plan.gpu else [])], readable=[*readable, *facts]
        )
    else:
        landlock.apply(writable=[plan.folder, *_WRITABLE, *(["/proc"] if plan.gpu else [])], readable=None)
    return [] if abi >= 6 or not weak else ["signals"]


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
