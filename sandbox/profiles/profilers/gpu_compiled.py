"""The compiler's rung: registers, spills and waves of a version's kernel, compiled ahead of time for this card."""

import sys
import time
from pathlib import Path, PurePosixPath

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.evidence import Machine
from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.isa import native
from ridgeline.sandbox.profiles.isa.errors import CompilerMissing, NotCompiled
from ridgeline.sandbox.profiles.isa.given import is_compiled
from ridgeline.sandbox.profiles.isa.noted import FILE_NAME, wanted
from ridgeline.sandbox.profiles.isa.report import TIMEOUT_S, inspect
from ridgeline.sandbox.profiles.isa.targets import UnknownTarget, target_of
from ridgeline.sandbox.profiles.isa.triton import Wanted
from ridgeline.sandbox.profiles.isa.values import Report, Target
from ridgeline.sandbox.workspace.commands import fill
from ridgeline.sandbox.workspace.globs import matches

FILES = 4
"""Kernel files that are tried; the first that gives code is the one."""
LAUNCHED = (".py", *native.CUDA_SUFFIXES, *native.HIP_SUFFIXES)


class Compiled(Value):
    """A report, or why there is none."""

    report: Report | None = None
    why: tuple[str, ...] = ()
    seconds: float = 0.0


def look(contract: Contract, tree: Path, machine: Machine) -> Compiled:
    """What the code of the kernel says, from the first of the contract's kernel files that compiles here.

    A Triton kernel is compiled as the `isa.toml` beside its file says that it is launched.
    """
    began = time.monotonic()
    try:
        target = target_of(machine.arch)
    except UnknownTarget as error:
        return Compiled(why=(f"compiler report: {error}",))
    why: list[str] = []
    for path in _files(contract, tree)[:FILES]:
        found = _inspected(path, contract, target)
        if isinstance(found, Report):
            return Compiled(report=found, seconds=time.monotonic() - began)
        why.append(f"compiler report: {path.name}: {found}")
    nothing = "compiler report: none of the kernel's files is Triton, CUDA, HIP or compiled code"
    return Compiled(why=tuple(why) or (nothing,), seconds=time.monotonic() - began)


def _files(contract: Contract, tree: Path) -> list[Path]:
    known = (path for path in sorted(tree.rglob("*")) if path.suffix in LAUNCHED or is_compiled(path))
    return [
        path for path in known if path.is_file() and matches(path.relative_to(tree).as_posix(), contract.kernel_source)
    ]


def _inspected(path: Path, contract: Contract, target: Target) -> Report | str:
    """One file's report, or why it gives none."""
    kernel = contract.profile.kernel if contract.profile else None
    try:
        asked = _asked(path, kernel)
        if asked is None:
            return f"no {FILE_NAME} beside it says how its kernel is launched"
        return inspect(asked, (target,), python=_python(contract), timeout_s=TIMEOUT_S)[0].report
    except (NotCompiled, CompilerMissing, ProgramMissing) as error:
        return str(error)


def _asked(path: Path, kernel: str | None) -> Wanted | None:
    if path.suffix != ".py" or native.is_flydsl(path):
        return Wanted(file=path, kernel=kernel)
    return wanted(path, kernel) or wanted(path, None)


def _python(contract: Contract) -> str:
    """The project's own interpreter, where its commands name one: it has the compiler that the project uses."""
    argv = fill(contract.profile.command if contract.profile else contract.test_command, {})
    return argv[0] if PurePosixPath(argv[0]).name.startswith("python") else sys.executable
