"""A module's names changed without an assignment to one: through its dictionary, `sys.modules` or `setattr`."""

import ast
import re
from collections.abc import Iterator

from ridgeline.sandbox.audit.python_source import PythonSource

CHANGES = frozenset({"update", "setdefault", "__setitem__", "__ior__", "pop", "popitem", "clear", "__delitem__"})
SOMEBODY = "?.?"
"""A name of a module that is not told: nobody sets an attribute of his own in this way."""
HARNESS = re.compile(r"(?:time|timeit|builtins|pytest|unittest|__main__)(?:\..*)?|(?:numpy|torch)\.testing(?:\..*)?")
"""Modules of which any name is a clock, a comparison or the program itself; a name that is not told may be each."""


def changed_names(source: PythonSource, call: ast.Call) -> Iterator[str]:
    """Dotted names that a call puts something else under; a name that is not told is `?`.

    What belongs to a variable of unknown meaning, such as `self.__dict__.update(...)`, is nobody's module.
    """
    name, function = source.dotted(call.func), call.func
    if name in {"operator.setitem", "operator.delitem", "dict.__setitem__", "builtins.dict.__setitem__"} and call.args:
        names = tuple(_under(source, call.args[0], call.args[1:2]))
        somebody = isinstance(call.args[0], ast.Attribute) and call.args[0].attr == "__dict__"
        yield from names or ((SOMEBODY,) if somebody else ())
    elif isinstance(function, ast.Attribute) and function.attr in CHANGES:
        keys: list[ast.expr] = [key for arg in call.args[:1] if isinstance(arg, ast.Dict) for key in arg.keys if key]
        keys += call.args[:1] if not keys and function.attr not in {"update", "__ior__"} else []
        keywords = [keyword.arg or "?" for keyword in call.keywords]
        yield from _under(source, function.value, keys, tuple(keywords))


def entry(source: PythonSource, target: ast.expr) -> str:
    """What `sys.modules[...] = ...` takes the place of; `?` where it is not told, empty for another target."""
    if not isinstance(target, ast.Subscript) or source.dotted(target.value) != "sys.modules":
        return ""
    return source.constant(target.slice) or "?"


def _under(
    source: PythonSource, place: ast.expr, keys: list[ast.expr], keywords: tuple[str, ...] = ()
) -> Iterator[str]:
    holder = _namespace(source, place)
    if not holder:
        return
    constants = [source.constant(key) or "?" for key in keys]
    for key in (*constants, *keywords) or ("?",):
        yield key if holder == "sys.modules" else f"{holder}.{key}"


def _namespace(source: PythonSource, place: ast.expr) -> str:
    """The module whose dictionary a Python expression is: `vars(m)`, `m.__dict__`, `sys.modules`; empty for any other."""
    if isinstance(place, ast.Name):
        bound = source.binding(place, place.id)
        place = bound if isinstance(bound, ast.expr) else place
    if isinstance(place, ast.Call) and isinstance(place.func, ast.Name) and place.func.id == "vars" and place.args:
        return source.dotted(place.args[0])
    name = source.dotted(place)
    return name if name == "sys.modules" else name.removesuffix(".__dict__") if name.endswith(".__dict__") else ""
