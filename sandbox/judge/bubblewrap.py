"""The same isolation made by bubblewrap, for users who may not make namespaces themselves."""

import os
import shutil

from ridgeline.graph.errors import ProgramMissing
from ridgeline.sandbox.harness.isolate import filters
from ridgeline.sandbox.harness.isolate.plan import Plan
from ridgeline.sandbox.harness.isolate.room import NOBODY


def wrap(plan: Plan) -> tuple[int, ...]:
    """Put bubblewrap in front of the plan's program. Returns descriptors to close when the plan has been started.

    Raises ProgramMissing.
    """
    tool = shutil.which("bwrap")
    if tool is None:
        raise ProgramMissing("bwrap")
    words = [tool, "--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY), "--unshare-ipc", "--unshare-pid"]
    words += ["--unshare-net", "--unshare-uts", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for kind, what, where in plan.mounts:
        words += _words(kind, what, where, size=plan.scratch_bytes)
    words += ["--remount-ro", "/", "--chdir", plan.folder]
    made: tuple[int, ...] = ()
    if filters.known():
        code = os.memfd_create("filter")
        os.write(code, filters.program(gpu=plan.gpu))
        os.lseek(code, 0, os.SEEK_SET)
        words += ["--seccomp", str(code)]
        plan.keep = [*plan.keep, code]
        made = (code,)
    plan.argv = [*words, "--", *plan.argv]
    return made


def _words(kind: str, what: str, where: str, *, size: int) -> list[str]:
    if kind == "processes":
        return ["--proc", where]
    if kind == "link":
        return ["--symlink", what, where]
    if kind == "folder":
        return ["--dir", where]
    if kind == "scratch":
        return ["--size", str(size), "--tmpfs", where]
    return ["--dev-bind" if kind == "device" else "--ro-bind", what, where]
