"""Triton kernels of a file as their definitions read: names and parameters. Nothing of the file is executed."""

import ast
from collections.abc import Iterator
from pathlib import Path

from ridgeline.graph.values import Value


class Outline(Value):
    """One kernel's name and parameters, in order."""

    name: str
    passed: tuple[str, ...]
    constant: tuple[str, ...]
    """Those marked `tl.constexpr` that have no default."""


def outlines(path: Path) -> tuple[Outline, ...]:
    """The functions at the top of a Python file that `triton.jit` decorates; none where it is not Python."""
    try:
        module = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (SyntaxError, ValueError):
        return ()
    return tuple(_outline(node) for node in module.body if isinstance(node, ast.FunctionDef) and any(_jits(node)))


def _jits(function: ast.FunctionDef) -> Iterator[bool]:
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield ast.unparse(called).rpartition(".")[2] == "jit"


def _outline(function: ast.FunctionDef) -> Outline:
    given = [*function.args.posonlyargs, *function.args.args]
    bare = len(given) - len(function.args.defaults)
    marked = [argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation) for argument in given]
    return Outline(
        name=function.name,
        passed=tuple(one.arg for one, constant in zip(given, marked, strict=True) if not constant),
        constant=tuple(one.arg for at, one in enumerate(given) if marked[at] and at < bare),
    )
