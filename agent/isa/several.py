"""Every kernel of a file: inspected one by one where it is known how they are launched, else listed with commands."""

from collections.abc import Iterator, Sequence

from ridgeline.agent.errors import UserError
from ridgeline.agent.isa.request import Asked, command, each, is_triton, targets, wanted
from ridgeline.sandbox.profiles.isa.errors import NotCompiled
from ridgeline.sandbox.profiles.isa.report import Inspected, inspect

MOST = 32
"""Kernels of one file that are reported without being asked for by name."""


def inspected(asked: Asked) -> tuple[tuple[Inspected, ...], ...]:
    """Of each kernel what its code says for every target; the one that is named, or all.

    Raises:
        UserError: what was given does not say how the file's kernels are launched; names the commands that would.
        NotCompiled, CompilerMissing: as `inspect`.
    """
    return tuple(found for one in each(asked) for found in _split(one))


def _split(asked: Asked) -> Iterator[tuple[Inspected, ...]]:
    """One kernel, or all that a file turns out to hold."""
    try:
        found = _one(asked)
    except NotCompiled as error:
        if not error.several or len(error.several) > MOST:
            raise
        if asked.call is None and is_triton(wanted(asked).file):
            raise UserError(_listed(asked, error.several)) from None
        names = error.several
    else:
        yield found
        return
    for name in names:
        yield _one(asked.model_copy(update={"kernel": name}))


def _one(asked: Asked) -> tuple[Inspected, ...]:
    what = wanted(asked)
    chosen = targets(asked.model_copy(update={"file": what.file}))
    return inspect(what, chosen, python=asked.interpreter, timeout_s=asked.timeout)


def _listed(asked: Asked, names: Sequence[str]) -> str:
    commands = "; or ".join(command(asked, name) for name in names)
    return f"--kernel: {asked.file.name} has {len(names)} kernels, and one signature fits one of them. Run {commands}"
