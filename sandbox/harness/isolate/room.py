"""Builds the file system that a worker sees, and nothing else: read-only, but for a memory file system of its own."""

# importing pathlib would cost each start of a worker 10 ms
# ruff: noqa: PTH102, PTH103, PTH110, PTH112, PTH120, PTH121, PTH211

import os
import os.path

from . import kernel
from .plan import Plan

_OLD, _NEW, _SCRATCH = "/old", "/new", "/scratch"
NOBODY = 65534


def build(plan: Plan) -> None:
    """Replace everything that this process sees by the plan's mounts. It must be the first of its process namespace.

    Raises OSError; nothing outside of this mount namespace has changed then.
    """
    kernel.mount("none", "/", "", kernel.RECURSIVE | kernel.PRIVATE)
    kernel.mount("base", plan.folder, "tmpfs", kernel.NO_SUID | kernel.NO_DEV, "mode=0755")
    for name in (_OLD, _NEW, _SCRATCH):
        os.mkdir(plan.folder + name)
    kernel.pivot(plan.folder, plan.folder + _OLD)
    flags = kernel.NO_SUID | kernel.NO_DEV
    kernel.mount("root", _NEW, "tmpfs", flags, "mode=0755,size=1m")
    size = f"mode=0755,size={plan.scratch_bytes},nr_inodes={plan.scratch_files}"
    kernel.mount("scratch", _SCRATCH, "tmpfs", flags, size)
    for kind, what, where in plan.mounts:
        _place(kind, what, _NEW + where)
    # a file system that came with the tree of another is held too, and nothing runs here before that
    kernel.hold(_NEW, put=flags | kernel.READ_ONLY, recursive=True)
    for kind, _, where in plan.mounts:
        if take := {"scratch": kernel.READ_ONLY, "processes": kernel.READ_ONLY, "device": kernel.NO_DEV}.get(kind):
            kernel.hold(_NEW + where, take=take)
    kernel.change_root(_NEW)


def _place(kind: str, what: str, where: str) -> None:
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
        os.chown(folder, NOBODY, NOBODY)
        os.makedirs(where, exist_ok=True)
        kernel.mount(folder, where, "", kernel.BIND)
    else:
        _bind(_OLD + what, where)


def _bind(what: str, where: str) -> None:
    if os.path.exists(where) and os.path.samefile(what, where):
        return  # inside of something that is there already
    if os.path.isdir(what):
        os.makedirs(where, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(where), exist_ok=True)
        os.close(os.open(where, os.O_CREAT | os.O_WRONLY, 0o444))
    kernel.mount(what, where, "", kernel.BIND | kernel.RECURSIVE)
