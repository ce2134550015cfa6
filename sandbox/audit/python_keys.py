"""What the key of a cache tells apart: whose identity, whose address, whose values."""

import ast
from collections.abc import Iterator

from ridgeline.graph.finding import KeyPart, KeyTerm
from ridgeline.sandbox.audit.python_source import (
    GRADIENT,
    TENSOR_NAME,
    TENSOR_USE,
    WEIGHT,
    Function,
    PythonSource,
    parameters,
)

ADDRESS = frozenset({"data_ptr", "untyped_storage", "storage", "_typed_storage", "__cuda_array_interface__", "ptr"})
CONTENT = frozenset({"item", "tolist", "sum", "mean", "tobytes", "numpy", "max", "min", "norm"})
LAYOUT = frozenset({"shape", "stride", "dtype", "device", "size", "numel", "ndim", "dim", "is_contiguous"})
COMPUTED = frozenset({"matmul", "mm", "bmm", "linear", "relu", "gelu", "softmax", "silu", "einsum"})
"""Functions that are given whole tensors."""
PLAIN = frozenset(
    {"self", "cls", "fn", "func", "config", "cfg", "module", "mod", "model", "kernel", "device", "stream", "ctx"}
)


def terms(source: PythonSource, key: ast.expr) -> tuple[KeyTerm, ...]:
    """The audit of Python: the terms of a cache's key expression; a name is followed to what it was bound to."""
    return tuple(_terms(source, key, 6))


def identity(terms: tuple[KeyTerm, ...]) -> bool:
    """The audit of Python: whether some term of a cache's key tells tensors apart by which object they are."""
    return any(term.part in ("weight", "activation", "gradient") for term in terms)


def role(source: PythonSource, node: ast.expr) -> KeyPart:
    """What kind of tensor an expression in a cache's key is, by its name and its use; `other` where it need not be one."""
    name = root(node)
    if isinstance(node, ast.Attribute) and WEIGHT.search(node.attr):
        return "weight"
    if name in PLAIN or not name:
        return "other"
    if GRADIENT.search(name):
        return "gradient"
    if WEIGHT.search(name):
        return "weight"
    return "activation" if TENSOR_NAME.fullmatch(name) or _tensor_here(source, node, name) else "other"


def root(node: ast.AST | None) -> str:
    """The variable that an expression of audited Python starts from; empty where it starts from none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _terms(source: PythonSource, key: ast.expr, depth: int) -> Iterator[KeyTerm]:
    if depth <= 0:
        return
    match key:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.JoinedStr(values=parts):
            for part in parts:
                yield from _terms(source, part, depth - 1)
        case ast.BinOp(left=first, right=second):
            yield from _terms(source, first, depth - 1)
            yield from _terms(source, second, depth - 1)
        case ast.FormattedValue(value=value) | ast.Starred(value=value):
            yield from _terms(source, value, depth - 1)
        case ast.Name():
            yield from _names(source, key, depth)
        case ast.Call(args=[inside, *_]) if not isinstance(key.func, ast.Attribute) and not _is_id(source, key):
            yield from _terms(source, inside, depth - 1)
        case _:
            yield _term(source, key)


def _names(source: PythonSource, key: ast.Name, depth: int) -> Iterator[KeyTerm]:
    bound = source.binding(key, key.id)
    if isinstance(bound, ast.expr):
        yield from _terms(source, bound, depth - 1)
        return
    tensor = _is_parameter(source, key) and _tensor_here(source, key, key.id)
    # A tensor as a key is told apart by its identity; that it is one is only likely, so nothing is decided by it.
    yield KeyTerm(text=f"hash({key.id})" if tensor else key.id, name=key.id, part="other")


def _term(source: PythonSource, node: ast.expr) -> KeyTerm:
    text, name = source.quote(node), root(node)
    names = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
    if _is_id(source, node) and isinstance(node, ast.Call):
        about = node.args[0] if node.args else node
        return KeyTerm(text=text, name=root(about), part=role(source, about))
    if names & ADDRESS:
        return KeyTerm(text=text, name=name, part="address")
    if "_version" in names:
        return KeyTerm(
            text=text, name=name, part="weight_version" if role(source, _stem(node)) == "weight" else "layout"
        )
    if names & CONTENT and name:
        return KeyTerm(text=text, name=name, part="content")
    return KeyTerm(text=text, name=name, part="layout" if names & LAYOUT else "other")


def _stem(node: ast.expr) -> ast.expr:
    """The audit of Python: what `._version` is asked of."""
    return next((n.value for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "_version"), node)


def _is_id(source: PythonSource, node: ast.expr) -> bool:
    """The audit of Python: `id(x)`, `hash(x)` and `object.__hash__(x)`."""
    if not isinstance(node, ast.Call) or len(node.args) != 1:
        return False
    if source.dotted(node.func) in {"id", "builtins.id"}:
        return True
    return (
        isinstance(node.func, ast.Attribute) and node.func.attr == "__hash__" and root(node.func) in {"object", "torch"}
    )


def _is_parameter(source: PythonSource, node: ast.Name) -> bool:
    function = source.function(node)
    return function is not None and node.id in parameters(function)


def _tensor_here(source: PythonSource, node: ast.expr, name: str) -> bool:
    function = source.function(node)
    return function is not None and used_as_tensor(function, name)


def used_as_tensor(function: Function, name: str) -> bool:
    """The audit of Python: whether a function asks of a name what only tensors answer, multiplies it, or says that it is one."""
    for inner in ast.walk(function):
        match inner:
            case ast.Attribute(attr=attr, value=value) if attr in TENSOR_USE and root(value) == name:
                return True
            case ast.arg(arg=found, annotation=ast.expr() as told) if found == name and "Tensor" in ast.dump(told):
                return True
            case ast.BinOp(left=left, op=ast.MatMult(), right=right) if name in {root(left), root(right)}:
                return True
            case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr in COMPUTED and _whole_argument(args, name):
                return True
    return False


def _whole_argument(args: list[ast.expr], name: str) -> bool:
    return any(isinstance(arg, ast.Name) and arg.id == name for arg in args)
