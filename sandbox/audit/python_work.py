"""Whether the work is done, by itself and as precisely as the data wants: casts, libraries, streams, short cuts."""

import ast
import re
from collections.abc import Iterator

from ridgeline.sandbox.audit.python_keys import root
from ridgeline.sandbox.audit.python_source import PythonSource, parameters
from ridgeline.sandbox.audit.rules import Hit

NARROW = re.compile(
    r"(?:torch|triton\.language|numpy|jax\.numpy)\.(?:float16|half|bfloat16|float8\w*|int8|uint8|fp8\w*|tf32)"
)
LIBRARY = re.compile(
    r"torch\.(?:matmul|mm|bmm|addmm|baddbmm|einsum|tensordot|conv\w*|softmax|layer_norm|rms_norm|cumsum|sort|topk|linalg\.\w+"
    r"|compile|_scaled_mm|_int_mm|nn\.functional\.\w+|ops\.aten\.\w+(?:\.\w+)*|nn\.\w+|fft\.\w+|sparse\.\w+|ops\.mkldnn\.\w+)"
    r"|numpy\.(?:matmul|dot|einsum|tensordot|linalg\.\w+)|cupy\..+|flash_attn\..+|xformers\..+|cutlass\..+"
)
CONSTANT = re.compile(r"torch\.(?:zeros|ones|full|zeros_like|ones_like|full_like|eye|arange|tensor|rand\w*)")
EMPTY = re.compile(r"torch\.(?:empty|empty_like|empty_strided|empty_permuted)")
STREAMS = re.compile(r"torch\.(?:cuda|hip|xpu)\.(?:Stream|ExternalStream)")
JOINS = frozenset({"wait_stream", "synchronize", "wait_event", "wait", "record_event", "join"})
GROUPED = re.compile(r"(?:m|tokens|rows)_?per_?(?:group|expert)|group_?size_?m_?fixed|tokens_per_\w+", re.IGNORECASE)
PRECISE = {"tf32", "tf32x3", "medium", "high"}


def hits(source: PythonSource, *, dtype: str) -> Iterator[Hit]:
    """Audit of Python work: every place where less or other work may be done than the caller thinks. `dtype`: of the contract's data."""
    yield from _calls(source, dtype)
    yield from _find_unsynced_streams(source)
    for function in source.functions:
        yield from _find_uncomputed_returns(source, function)
        yield from _branches(source, function)
        yield from _groups(source, function)
        yield from _kernel(source, function)
    for node in source.of(ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) and not _inside_kernel(source, node):
            yield Hit(rule="library-call", line=node.lineno)
    for node in source.of(ast.Try):
        if isinstance(node, ast.Try) and any(_library_inside(source, handler) for handler in node.handlers):
            yield Hit(rule="fallback", line=node.lineno)


def _calls(source: PythonSource, dtype: str) -> Iterator[Hit]:
    for call in source.calls:
        name = source.dotted(call.func)
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if _find_narrowing(source, call, name, method, dtype):
            yield Hit(rule="downgrade", line=call.lineno)
        elif (name and LIBRARY.fullmatch(name)) or (
            method in {"cpu"} and not call.args and not source.is_guarded(call)
        ):
            yield Hit(rule="library-call", line=call.lineno)
    for node in source.of(ast.Assign):
        if isinstance(node, ast.Assign) and any(_reduced_flag(target) for target in node.targets):
            yield Hit(rule="downgrade", line=node.lineno)


def _reduced_flag(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and (
        target.attr == "allow_tf32" or target.attr.startswith("allow_fp16_") or target.attr.startswith("allow_bf16_")
    )


def _find_narrowing(source: PythonSource, call: ast.Call, name: str, method: str, dtype: str) -> bool:
    """Finding of a cast to fewer bits than the data has, or of a product that is asked for in less."""
    if width(dtype) <= 16:
        return any(_eight(source.dotted(arg)) for arg in call.args) and method in {"to", "type", "astype"}
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    options = {keyword.arg: source.constant(keyword.value) for keyword in call.keywords}
    if method in {"half", "bfloat16"} and not call.args:
        return True
    if method in {"to", "type", "astype", "cast", "view"} and any(
        NARROW.fullmatch(source.dotted(arg)) for arg in arguments
    ):
        return method != "view"
    if options.get("input_precision") in PRECISE or name == "torch.set_float32_matmul_precision":
        return source.constant(call.args[0]) in PRECISE if name.endswith("_precision") and call.args else True
    return name.endswith(("autocast", ".amp.autocast")) or (
        method == "dot"
        and any(k.arg == "out_dtype" and NARROW.fullmatch(source.dotted(k.value)) for k in call.keywords)
    )


def width(dtype: str) -> int:
    """The audit of Python: bits of a type by its name, 32 where it says nothing: fp16, bf16, fp8_e4m3, float64."""
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) if digits else 32


def _eight(name: str) -> bool:
    return "float8" in name or name.endswith(("int8", "fp8"))


def _find_unsynced_streams(source: PythonSource) -> Iterator[Hit]:
    """Finding of a CUDA stream in a function, or kept by a file, where nothing waits for it."""
    for call in source.calls:
        if not STREAMS.fullmatch(source.dotted(call.func)):
            continue
        around = source.function(call) or source.tree
        names = {n.attr for n in ast.walk(around) if isinstance(n, ast.Attribute)}
        if isinstance(around, ast.Module) or getattr(around, "name", "") == "__init__":
            names = {n.attr for n in ast.walk(source.tree) if isinstance(n, ast.Attribute)}
        if not names & JOINS:
            yield Hit(rule="side-stream", line=call.lineno)


def _find_uncomputed_returns(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Hit]:
    """Finding of a function that gives back what it has not computed."""
    if _is_kernel(source, function):
        return
    touched = _written_names(function)
    for node in ast.walk(function):
        if not isinstance(node, ast.Return) or node.value is None or source.function(node) is not function:
            continue
        value = node.value
        origin = source.binding(value, value.id) if isinstance(value, ast.Name) else value
        name = source.dotted(origin.func) if isinstance(origin, ast.Call) else ""
        written = isinstance(value, ast.Name) and value.id in touched
        if EMPTY.fullmatch(name) and not written:
            yield Hit(rule="untouched-output", line=node.lineno)
        elif CONSTANT.fullmatch(name) and not written:
            yield Hit(rule="constant-output", line=node.lineno)
        elif isinstance(value, ast.Name) and value.id in parameters(function)[:1] and _idle(function):
            yield Hit(rule="pass-through", line=node.lineno)


def _written_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The audit of Python: names that are handed to a call, written by index or changed in place after they were made."""
    names: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Call(args=args, keywords=keywords):
                names |= {name for arg in (*args, *(k.value for k in keywords)) if (name := root(arg))}
                names |= (
                    {root(node.func)}
                    if isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
                    else set()
                )
            case ast.Assign(targets=[ast.Subscript(value=value)]) | ast.AugAssign(target=value):
                names.add(root(value))
    return names


def _idle(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether an audited function does nothing but return."""
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    names = [n for n in parameters(function) if n not in {"self", "cls"}]
    return len(body) == 1 and len(names) >= 1


def _branches(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Hit]:
    for node in ast.walk(function):
        if not isinstance(node, ast.If | ast.IfExp) or source.function(node) is not function:
            continue
        attributes = {n.attr for n in ast.walk(node.test) if isinstance(n, ast.Attribute)}
        if (
            attributes & {"item", "tolist", "any", "all", "allclose", "equal", "isnan", "count_nonzero"}
            and not _is_kernel(source, function)
        ) or (isinstance(node, ast.If) and _gives_back(node, parameters(function))):
            yield Hit(rule="value-branch", line=node.lineno)
        elif isinstance(node, ast.If) and _early(node) and _find_size_branches(node.test):
            yield Hit(rule="size-branch", line=node.lineno)


def _gives_back(node: ast.If, names: list[str]) -> bool:
    """The audit of Python: `if norm(x[0]) == 1: return x`: an argument comes back as it is, by what a few of its values are."""
    last_statement = node.body[-1]
    if (
        not isinstance(last_statement, ast.Return)
        or not isinstance(last_statement.value, ast.Name)
        or last_statement.value.id not in names
    ):
        return False
    calls = [n for n in ast.walk(node.test) if isinstance(n, ast.Call)]
    indexed_values = (n.value for call in calls for n in ast.walk(call) if isinstance(n, ast.Subscript))
    return any(isinstance(value, ast.Name) and value.id == last_statement.value.id for value in indexed_values)


def _early(node: ast.If) -> bool:
    """Whether an audited body ends the function at once, without an error and without having called a kernel."""
    last_statement = node.body[-1]
    launches = any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript) for s in node.body for n in ast.walk(s)
    )
    return isinstance(last_statement, ast.Return) and not launches


def _find_size_branches(test: ast.expr) -> bool:
    """Finding of a size or shape that is compared with a number that is no border case."""
    sized = any(isinstance(n, ast.Attribute) and n.attr in {"shape", "numel", "size", "stride"} for n in ast.walk(test))
    uses_size_name = any(
        isinstance(n, ast.Name) and re.fullmatch(r"[MNKBn]|n_\w+|num\w*|size|rows|cols", n.id) for n in ast.walk(test)
    )
    numbers = [n.value for n in ast.walk(test) if isinstance(n, ast.Constant) and isinstance(n.value, int)]
    shifted = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.LShift) for n in ast.walk(test))
    return (sized or uses_size_name) and (shifted or any(number >= 64 for number in numbers))


def _groups(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Hit]:
    """Audit hits for group sizes as compile-time constants, and assertions that every group fills whole tiles."""
    for arg in (*function.args.args, *function.args.kwonlyargs):
        if GROUPED.search(arg.arg) and arg.annotation and "constexpr" in ast.dump(arg.annotation):
            yield Hit(rule="uniform-groups", line=arg.lineno)
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and "Mod()" in ast.dump(node.test):
            names = [n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)]
            if any(GROUPED.search(name) for name in names):
                yield Hit(rule="uniform-groups", line=node.lineno)


def _kernel(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Hit]:
    """Audit hits for a Triton kernel that stores and reads nothing."""
    if not _is_kernel(source, function):
        return
    called = {n.func.attr for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
    helpers = any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) for n in ast.walk(function))
    if "store" in called and not called & {"load", "load_tensor_descriptor", "make_block_ptr"} and not helpers:
        yield Hit(rule="constant-output", line=function.lineno)


def _is_kernel(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = (source.dotted(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list)
    return any(name.endswith((".jit", ".kernel")) for name in names)


def _inside_kernel(source: PythonSource, node: ast.AST) -> bool:
    return any(isinstance(a, ast.FunctionDef) and _is_kernel(source, a) for a in source.above(node))


def _library_inside(source: PythonSource, handler: ast.ExceptHandler) -> bool:
    for node in ast.walk(handler):
        if isinstance(node, ast.Call) and LIBRARY.fullmatch(source.dotted(node.func) or "-"):
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return True
    return False
