"""Builds the file system that a worker sees, and nothing else: read-only, but for a memory file system of its own."""

# importing pathlib would cost each start of a worker 10 ms
# ruff: noqa: PTH101, PTH102, PTH103, PTH110, PTH112, PTH114, PTH120, PTH121, PTH211

import os
import os.path

from . import kernel
from .plan import Plan

_OLD, _NEW, _SCRATCH = "/old", "/new", "/scratch"
NOBODY = 65534
_TAKEN = {
    "scratch": kernel.READ_ONLY,
    "processes": kernel.READ_ONLY,
    "write": kernel.READ_ONLY,
    "device": kernel.NO_DEV,
    "terminals": kernel.READ_ONLY | kernel.NO_DEV,
}
"""What is not held of the kinds of mounts that are more than to be read."""


def build(plan: Plan) -> None:
    """Shutting a process in: replace everything that it sees by the plan's mounts. It must be the first of its process namespace.

    Raises OSError; nothing outside of this mount namespace has changed then.
    """
    kernel.mount("none", "/", "", kernel.RECURSIVE | kernel.PRIVATE)
    base = plan.base or plan.folder
    kernel.mount("base", base, "tmpfs", kernel.NO_SUID | kernel.NO_DEV, "mode=0755")
    for name in (_OLD, _NEW, _SCRATCH):
        os.mkdir(base + name)
    kernel.pivot(base, base + _OLD)
    flags = kernel.NO_SUID | kernel.NO_DEV
    kernel.mount("root", _NEW, "tmpfs", flags, "mode=0755,size=1m")
    size = f"mode=0755,size={plan.scratch_bytes},nr_inodes={plan.scratch_files}"
    kernel.mount("scratch", _SCRATCH, "tmpfs", flags, size)
    for kind, what, where in plan.mounts:
        _place(kind, what, _NEW + where, nobody=not plan.same_user)
    if plan.tasks and plan.same_user:  # a worker is another user, whose processes are counted
        handle = os.open(f"{_NEW}/proc/sys/kernel/pid_max", os.O_WRONLY)
        os.write(handle, b"%d" % plan.tasks)
        os.close(handle)
    # a file system that came with the tree of another is held too, and nothing runs here before that
    kernel.hold(_NEW, put=flags | kernel.READ_ONLY, recursive=True)
    for kind, _, where in plan.mounts:
        if take := _TAKEN.get(kind):
            kernel.hold(_NEW + where, take=take)
    kernel.change_root(_NEW)


def _place(kind: str, what: str, where: str, *, nobody: bool) -> None:
    if kind == "link":
        os.makedirs(os.path.dirname(where), exist_ok=True)
        os.symlink(what, where)
    elif kind == "processes":
        os.mkdir(where)
        kernel.mount("proc", where, "proc", kernel.NO_SUID | kernel.NO_DEV | kernel.NO_EXEC, "hidepid=2")
    elif kind == "folder":
        os.mkdir(where)
        os.chown(where, NOBODY, NOBODY)
    elif kind == "scratch":
        folder = f"{_SCRATCH}/{what}"
        os.mkdir(folder)
        if nobody:
            os.chown(folder, NOBODY, NOBODY)
        else:
            os.chmod(folder, 0o1777)
        os.makedirs(where, exist_ok=True)
        kernel.mount(folder, where, "", kernel.BIND)
    elif kind == "empty":
        os.makedirs(where, exist_ok=True)
        kernel.mount("empty", where, "tmpfs", kernel.NO_SUID | kernel.NO_DEV, "mode=0755,size=64k")
    elif kind == "terminals":
        os.makedirs(where, exist_ok=True)
        kernel.mount("devpts", where, "devpts", kernel.NO_SUID | kernel.NO_EXEC, "newinstance,ptmxmode=0666,mode=0620")
    elif kind == "still":
        kernel.mount(where, where, "", kernel.BIND | kernel.RECURSIVE)
    elif kind == "nothing":
        if os.path.exists(where):
            kernel.mount(_OLD + "/dev/null", where, "", kernel.BIND)
    else:
        _bind(_OLD + what, where, over=kind == "write")


def _bind(what: str, where: str, *, over: bool) -> None:
    if not over and os.path.exists(where) and os.path.samefile(what, where):
        return  # inside of something that is there already
    if not os.path.exists(where) and _passes_link(where):
        return  # a link that came with its folder: what it leads to has a mount of its own
    if os.path.isdir(what):
        os.makedirs(where, exist_ok=True)
    elif not os.path.lexists(where):
        os.makedirs(os.path.dirname(where), exist_ok=True)
        os.close(os.open(where, os.O_CREAT | os.O_WRONLY, 0o444))
    kernel.mount(what, where, "", kernel.BIND | kernel.RECURSIVE)


def _passes_link(where: str) -> bool:
    """Shutting a process in: whether that name, or a folder it lies in, is a link: to mount there would follow it out of the room."""
    while len(where) > len(_NEW):
        if os.path.islink(where):
            return True
        where = os.path.dirname(where)
    return False
