"""Results that are kept from call to call: dictionaries, memos, weak references, globals and captured graphs."""

import ast
import re
from collections.abc import Iterator

from ridgeline.graph.finding import KeyTerm
from ridgeline.sandbox.audit.python_keys import PLAIN, identity, role, root, terms, used_as_tensor
from ridgeline.sandbox.audit.python_source import Function, PythonSource, parameters
from ridgeline.sandbox.audit.rules import Hit

MEMO = re.compile(r"(?:^|\.)(?:lru_cache|cache|cached|memoize|memoized)$")
TUNED = re.compile(r"(?:^|\.)(?:jit|autotune|heuristics)$")
ASKED = frozenset({"get", "setdefault", "pop", "__getitem__", "__setitem__", "__contains__"})
WEAK = frozenset({"weakref.ref", "weakref.proxy", "weakref.finalize"})
WEAK_TABLES = frozenset({"weakref.WeakKeyDictionary", "weakref.WeakValueDictionary", "weakref.WeakSet"})


def hits(source: PythonSource) -> Iterator[Hit]:
    """Audit of Python caches: every place where a result may be kept."""
    yield from _tables(source)
    yield from _weak(source)
    for function in source.functions:
        yield from _memo(source, function)
        yield from _returned_state(source, function)
        yield from _call_counts(source, function)
    yield from _replay(source)


def _tables(source: PythonSource) -> Iterator[Hit]:
    """The audit of Python: look-ups whose key holds an identity, an address or values; one hit for each key of a table and function."""
    reported: set[tuple[str, str, ast.AST | None]] = set()
    for node in source.nodes:
        table, key = _looked_up(node)
        if table is None or key is None or not _outlives(source, table):
            continue
        key_terms = () if isinstance(key, ast.Name) and not _is_key(source, node, table) else terms(source, key)
        rule = _rule(source, table, key_terms)
        mark = (rule, source.quote(table), source.function(node))
        if rule and mark not in reported:
            reported.add(mark)
            yield Hit(rule=rule, line=node.lineno, key=key_terms)  # type: ignore[attr-defined]


def _looked_up(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """The audit of Python: table and key of `t[k]`, `t.get(k)`, `k in t` and `setattr(f, k, v)`."""
    match node:
        case ast.Subscript(value=table, slice=key) if not isinstance(key, ast.Slice | ast.Constant):
            return table, key
        case ast.Call(func=ast.Attribute(value=table, attr=name), args=[key, *_]) if name in ASKED:
            return table, key
        case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[table]):
            return table, key
        case ast.Compare(left=key, ops=[ast.Eq() | ast.NotEq()], comparators=[table]):
            is_plain = isinstance(table, ast.Constant | ast.Call) or isinstance(key, ast.Name)
            return (None, None) if is_plain else (table, key)
        case _:
            return None, None


def _is_key(source: PythonSource, node: ast.AST, table: ast.expr) -> bool:
    """Whether a plain name is looked up as a key and does not index an array: a tensor then stands for its identity."""
    if not isinstance(node, ast.Subscript):
        return True
    bound = source.binding(table, table.id) if isinstance(table, ast.Name) else None
    return isinstance(bound, ast.Dict) or (isinstance(bound, ast.Call) and root(bound) in {"dict", "OrderedDict"})


def _outlives(source: PythonSource, table: ast.expr) -> bool:
    """The audit of Python: whether what is asked may live longer than the call: no plain local variable, no kernel's launch grid."""
    name = root(table)
    function = source.function(table)
    if function is None or not name:
        return False
    if isinstance(table, ast.Name) and name in _locals(function):
        defaults = [a.arg for a, d in _defaults(function) if isinstance(d, ast.Dict | ast.List | ast.Set | ast.Call)]
        return name in defaults
    return True


def _rule(source: PythonSource, table: ast.expr, key: tuple[KeyTerm, ...]) -> str:
    parts = {term.part for term in key}
    unknown = [term for term in key if term.text.startswith(("id(", "hash(")) and term.part == "other"]
    if any(term.name not in PLAIN for term in unknown):
        return "identity-cache"
    if identity(key):
        return "weight-cache" if not parts & {"activation", "gradient"} and "weight" in parts else "identity-cache"
    if "address" in parts:
        about = {role(source, ast.Name(id=term.name)) for term in key if term.part == "address"}
        return "weight-cache" if about == {"weight"} and "weight_version" in parts else "address-cache"
    if "content" in parts:
        return "content-cache"
    return "layout-cache" if parts & {"layout"} and _returns_entry(source, table) else ""


def _returns_entry(source: PythonSource, table: ast.expr) -> bool:
    """The audit of Python: whether the function around returns what it finds in the table as it is."""
    function, table_text = source.function(table), source.quote(table)
    if function is None or isinstance(function, ast.Lambda):
        return False
    looked_up = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _from(source, node.value, table_text)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    computed = _passed_on(function, looked_up)
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            if isinstance(node.value, ast.Name) and node.value.id in looked_up - computed:
                return True
            if _from(source, node.value, table_text):
                return True
    return False


def _passed_on(function: Function, names: set[str]) -> set[str]:
    """The audit of Python: names that the function gives to something that may write them, so that what it returns is this call's."""
    return {
        arg.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        for arg in [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(arg, ast.Name) and arg.id in names
    }


def _from(source: PythonSource, node: ast.expr, table: str) -> bool:
    match node:
        case ast.Subscript(value=value):
            return source.quote(value) == table
        case ast.Call(func=ast.Attribute(value=value, attr="get" | "setdefault" | "pop")):
            return source.quote(value) == table
        case _:
            return False


def _weak(source: PythonSource) -> Iterator[Hit]:
    for call in source.calls:
        name = source.dotted(call.func)
        if name in WEAK_TABLES:
            yield Hit(rule="tensor-weakref", line=call.lineno)
        elif name in WEAK and call.args and (part := role(source, call.args[0])) != "other":
            term = KeyTerm(text=source.quote(call), name=root(call.args[0]), part=part)
            yield Hit(rule="tensor-weakref", line=call.lineno, key=() if part == "weight" else (term,))


def _memo(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Hit]:
    """Audit hits for a remembered function that takes tensors; one of sizes is a table of plans."""
    names = [source.dotted(d.func if isinstance(d, ast.Call) else d) or root(d) for d in function.decorator_list]
    remembered = any(MEMO.search(name) for name in names) and not any(TUNED.search(name) for name in names)
    tensors = [name for name in parameters(function) if used_as_tensor(function, name)]
    if remembered and tensors:
        key = tuple(
            KeyTerm(text=f"hash({name})", name=name, part=role(source, _first_use(function, name))) for name in tensors
        )
        yield Hit(rule="memo", line=function.lineno, key=key)


def _first_use(function: Function, name: str) -> ast.expr:
    uses = (n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name)
    return next(uses, ast.Name(id=name))


def _returned_state(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Hit]:
    """The audit of Python: returns a global, an attribute of itself or a default's content, as an earlier call left it."""
    shared = {name for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    defaults = {a.arg for a, d in _defaults(function) if isinstance(d, ast.List | ast.Dict | ast.Set)}
    fresh = _unconditional(function)
    for node in ast.walk(function):
        if not isinstance(node, ast.Return) or node.value is None or source.function(node) is not function:
            continue
        value = node.value
        text = source.quote(value)
        is_attribute = isinstance(value, ast.Attribute) and root(value) == function.name
        is_global = isinstance(value, ast.Name) and value.id in shared
        state = isinstance(value, ast.Attribute) and root(value) == "self" and _is_assigned(source, function, text)
        default = isinstance(value, ast.Subscript) and root(value) in defaults
        if (is_attribute or is_global or state or default) and text not in fresh:
            yield Hit(rule="kept-output", line=node.lineno)


def _unconditional(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The audit of Python: targets that every call assigns or hands to something that may write them."""
    targets: set[str] = set()
    for statement in function.body:
        if isinstance(statement, ast.Assign):
            targets |= {ast.unparse(target) for target in statement.targets}
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            targets |= {ast.unparse(arg) for arg in statement.value.args if isinstance(arg, ast.Name | ast.Attribute)}
    return targets


def _is_assigned(source: PythonSource, function: Function, text: str) -> bool:
    targets = [t for n in ast.walk(function) if isinstance(n, ast.Assign) for t in n.targets]
    return any(source.quote(target) == text for target in targets)


def _call_counts(source: PythonSource, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Hit]:
    """The audit of Python: something that outlives the call is added to, and a branch asks how much."""
    counted = {
        source.quote(node.target)
        for node in ast.walk(function)
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _lasting(source, function, node.target)
    }
    for node in ast.walk(function):
        if (
            isinstance(node, ast.If | ast.IfExp) and any(source.quote(part) in counted for part in ast.walk(node.test))
        ) or (isinstance(node, ast.Call) and root(node.func) == "next" and _branches(source, node)):
            yield Hit(rule="call-count", line=node.lineno)


def _lasting(source: PythonSource, function: Function, target: ast.expr) -> bool:
    """The audit of Python: whether what is added to outlives the call: no local variable, none of a call around it, none begun anew."""
    if _begins_anew(source, function, target) or _of_the_call_around(source, function, root(target)):
        return False
    if isinstance(target, ast.Name):
        stored = (node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        own = {node.id for node in stored if source.function(node) is function}
        shared = [node for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal)]
        outer = (node for node in shared if isinstance(node, ast.Global) or source.function(node) is function)
        inner = {name for node in shared for name in node.names} - own  # else a nested function means this one's local
        return target.id in inner | {name for node in outer for name in node.names}
    name = root(target)
    return name == getattr(function, "name", "") or name == "self" or name not in _locals(function)


def _begins_anew(source: PythonSource, function: Function, target: ast.expr) -> bool:
    """The audit of Python: whether the first that every call does with it is to set it to a constant, as a constructor does."""
    if isinstance(function, ast.Lambda):
        return False
    text = source.quote(target)
    for statement in function.body:
        if isinstance(statement, ast.Global | ast.Nonlocal):
            continue
        if any(isinstance(part, ast.expr) and source.quote(part) == text for part in ast.walk(statement)):
            is_constant = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
            return is_constant and [source.quote(each) for each in statement.targets] == [text]  # type: ignore[attr-defined]
        if any(isinstance(part, ast.Return | ast.Call | ast.Yield) for part in ast.walk(statement)):
            return False
    return False


def _of_the_call_around(source: PythonSource, function: Function, name: str) -> bool:
    """The audit of Python: whether a variable is a local of the function around, and this one is called there and goes nowhere else."""
    around = source.function(function)
    if not isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef) or isinstance(function, ast.Lambda):
        return False
    nonlocals = [n for node in ast.walk(function) if isinstance(node, ast.Nonlocal) for n in node.names]
    own = name in nonlocals or name not in _locals(function)
    begun = any(
        isinstance(statement, ast.Assign) and name in {root(target) for target in statement.targets}
        for statement in around.body
    )
    is_shared = any(isinstance(node, ast.Global) and name in node.names for node in ast.walk(around))
    if function.decorator_list or is_shared or not (own and begun):
        return False
    uses = [node for node in ast.walk(around) if isinstance(node, ast.Name) and node.id == function.name]
    calls = {id(node.func) for node in ast.walk(around) if isinstance(node, ast.Call)}
    return all(id(use) in calls for use in uses)


def _branches(source: PythonSource, node: ast.Call) -> bool:
    outer = node.args and root(node.args[0])
    tests = (around.test for around in source.above(node) if isinstance(around, ast.If | ast.IfExp))
    inside = any(node in ast.walk(test) for test in tests)
    function = source.function(node)
    return bool(outer and inside and function is not None and outer not in _locals(function))


def _replay(source: PythonSource) -> Iterator[Hit]:
    """Audit hits for a captured graph that is replayed where nothing is copied into its inputs."""
    if "CUDAGraph" not in source.text and "make_graphed_callables" not in source.text:
        return
    for call in source.calls:
        function = source.function(call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "replay" and function is not None:
            copies = {n.attr for n in ast.walk(function) if isinstance(n, ast.Attribute)} & {"copy_", "_foreach_copy_"}
            if not copies:
                yield Hit(rule="graph-replay", line=call.lineno)


def _locals(function: Function) -> set[str]:
    """What an audited Python function takes and assigns itself, as far as it does not say `global`."""
    shared = {n for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal) for n in node.names}
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return (stored | set(parameters(function))) - shared


def _defaults(function: Function) -> list[tuple[ast.arg, ast.expr]]:
    """Parameters of an audited Python function that have a default, with it."""
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    plain = list(zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True))
    return plain + [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None]
