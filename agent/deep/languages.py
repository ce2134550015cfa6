"""What a kernel can be written anew in: languages that the contract's own Python imports."""

from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.ceilings import interpreter_of
from ridgeline.sandbox.isolation.process import run

TIMEOUT_S = 60.0
"""Importing the parents of a module, such as triton, takes seconds."""


class Language(Value):
    """One that has kernels of its own in Python."""

    name: str
    """As `--deep-from` takes it."""
    title: str
    module: str
    """What must be importable."""


LANGUAGES = (
    Language(name="triton", title="Triton", module="triton"),
    Language(name="gluon", title="Gluon", module="triton.experimental.gluon"),
    Language(name="cute", title="the CuTe DSL of CUTLASS", module="cutlass.cute"),
    Language(name="tilelang", title="TileLang", module="tilelang"),
    Language(name="helion", title="Helion", module="helion"),
    Language(name="pallas", title="Pallas", module="jax.experimental.pallas"),
    Language(name="warp", title="Warp", module="warp"),
    Language(name="numba", title="Numba", module="numba"),
)

LOOK = """
import importlib.util, sys
for module in sys.argv[1:]:
    try:
        if importlib.util.find_spec(module) is not None:
            print("found", module)
    except Exception:
        pass
"""
"""Run by the contract's Python: a parent that breaks on import has no language below it."""


def find_languages(contract: Contract, root: Path) -> tuple[Language, ...]:
    """Languages for a deep round that are importable where the kernel runs. Raises UserError where no command names a Python."""
    interpreter = interpreter_of(contract, root)
    if interpreter is None:
        raise UserError(
            "no command of the contract names a Python interpreter, so no language of Python can be looked for"
        )
    modules = [language.module for language in LANGUAGES]
    try:
        ended = run((*interpreter, "-c", LOOK, *modules), cwd=root, timeout_s=TIMEOUT_S)
    except ProgramMissing as error:
        raise UserError(f"{error}; correct the contract's commands") from None
    present = {line.removeprefix("found ") for line in ended.output.splitlines() if line.startswith("found ")}
    return tuple(language for language in LANGUAGES if language.module in present)


def plan_rewrite(name: str, contract: Contract, root: Path) -> str:
    """The plan of a deep round that begins from a language. Raises UserError where it cannot be had."""
    known = {language.name: language for language in LANGUAGES}
    if name not in known:
        raise UserError(f"--deep-from: {name[:40]!r} is unknown; known are {', '.join(known)}")
    present = [language.name for language in find_languages(contract, root)]
    if name not in present:
        raise UserError(
            f"--deep-from: the contract's Python cannot import {known[name].module}; it has: {', '.join(present) or 'none'}"
        )
    return (
        f"Write the kernel anew in {known[name].title} (module {known[name].module}, which is installed): first a plain one"
        " that is right, then the shapes of the benchmark one by one, then what the profile says."
    )
