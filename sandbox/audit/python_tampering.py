"""Reaching into the harness: clocks, comparisons and names of modules replaced, frames read, memory searched, code hidden."""

import ast
import re
from collections.abc import Iterator

from ridgeline.sandbox.audit.python_keys import root
from ridgeline.sandbox.audit.python_source import PythonSource
from ridgeline.sandbox.audit.rules import Hit

CLOCKS = re.compile(
    r"time\.(?:time|perf_counter|monotonic|process_time|thread_time)(?:_ns)?"
    r"|timeit\.(?:default_timer|timeit|repeat|Timer(?:\.\w+)?)"
    r"|torch\.(?:cuda|hip|xpu|accelerator)\.(?:Event(?:\.\w+)?|synchronize|current_stream|Stream\.synchronize)"
    r"|torch\.utils\.benchmark(?:\.\w+)*|triton\.testing(?:\.\w+)*|torch\.profiler(?:\.\w+)*"
)
JUDGES = re.compile(
    r"torch\.(?:allclose|isclose|equal|testing(?:\.\w+)*)|torch\.Tensor\.(?:allclose|isclose|equal|__eq__|__ne__)"
    r"|numpy\.(?:allclose|isclose|array_equal|testing(?:\.\w+)*)|builtins\.(?:max|all|any|abs|sum|min|print|open)"
    r"|math\.isclose|unittest(?:\.\w+)*|pytest(?:\.\w+)*"
)
LIBRARY = re.compile(r"(?:torch|triton|numpy|builtins|time|sys|os)\.\w+(?:\.\w+)*")
SETTING = re.compile(
    r"torch\.(?:backends|_dynamo|_inductor|_functorch|_C|autograd\.graph)\b.*|triton\.(?:knobs|runtime)\..*|sys\.(?:path|argv|std\w+)"
    r"|os\.environ.*|torch\.(?:classes|ops)\..*"
)
CODE = re.compile(r"\.(?:__code__|__defaults__|__kwdefaults__|__globals__|__dict__|__class__)$")
FRAMES = frozenset({"f_locals", "f_globals", "f_builtins"})
WALKS = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents"})
PACKED = re.compile(
    r"(?:^|\.)(?:b16|b32|b64|b85|a85)decode$|(?:^|\.)(?:urlsafe_b64decode|standard_b64decode|decompress|unhexlify|fromhex|a2b_\w+)$"
    r"|^marshal\.loads$|^codecs\.decode$|^pickle\.loads$|^binascii\.\w+$"
)
RUNNERS = frozenset({"exec", "eval", "builtins.exec", "builtins.eval", "types.FunctionType", "types.CodeType"})
SETTERS = frozenset(
    {
        "torch.set_default_dtype",
        "torch.set_default_device",
        "torch.set_default_tensor_type",
        "torch.set_num_threads",
        "torch.use_deterministic_algorithms",
        "torch.set_deterministic_debug_mode",
    }
)
MODES = re.compile(r"Torch(?:Function|Dispatch)Mode$|__torch_function__|__torch_dispatch__")
ARRAYS = frozenset(
    {
        "__array__",
        "__array_interface__",
        "__array_function__",
        "__array_ufunc__",
        "__dlpack__",
        "__cuda_array_interface__",
    }
)
"""Methods of a class that give its values when somebody looks at them."""
FOREIGN = re.compile(r"/proc/(?:self|\d+|thread-self)/(?:mem|maps|fd|task)")


def hits(source: PythonSource) -> Iterator[Hit]:
    """Audit of Python tampering: every place that reaches into the process around the candidate."""
    for node in source.nodes:
        match node:
            case ast.Assign(targets=targets):
                yield from _hits_of_assignment(source, targets, node.lineno)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()):
                yield from _hits_of_assignment(source, [target], node.lineno)
            case ast.Delete(targets=targets):
                yield from _hits_of_assignment(source, targets, node.lineno)
            case ast.Attribute(attr=attr) if attr in FRAMES and _callers(source, node.value):
                yield Hit(rule="caller-frame", line=node.lineno)
            case ast.Call():
                yield from _hits_of_call(source, node)
            case ast.ClassDef():
                yield from _subclass(source, node)


def _hits_of_assignment(source: PythonSource, targets: list[ast.expr], line: int) -> Iterator[Hit]:
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from _hits_of_assignment(source, target.elts, line)
        elif module := entry(source, target):
            yield from _module(module, line)
        elif isinstance(target, ast.Attribute | ast.Subscript):
            name = CODE.sub("", source.dotted(target))
            yield from _rule_of_replacement(name, line)
            yield from _environment(source, target, line)
            if isinstance(target, ast.Attribute) and not name:
                yield from _method(source, target, line)


def _rule_of_replacement(name: str, line: int) -> Iterator[Hit]:
    """The audit's rule for putting something else under this name: what that does to everybody."""
    unknown = name.endswith(".?") and HARNESS.fullmatch(name.removesuffix(".?"))
    if CLOCKS.fullmatch(name) or (unknown and name.startswith("time")):
        yield Hit(rule="replaced-clock", line=line)
    elif JUDGES.fullmatch(name) or unknown or name.startswith("__main__."):
        yield Hit(rule="replaced-judge", line=line)
    elif SETTING.fullmatch(name):
        if name.startswith("torch.backends"):
            yield Hit(rule="global-setting", line=line)
    elif name == SOMEBODY or LIBRARY.fullmatch(name.replace("?", "_")):
        yield Hit(rule="patched-library", line=line)


def _module(name: str, line: int) -> Iterator[Hit]:
    """Audit hit for another module under a name: of the harness, of a library, or of somebody else's."""
    if name == "?" or not HARNESS.fullmatch(name):
        yield Hit(rule="shadowed-import", line=line)
    else:
        yield Hit(rule="replaced-clock" if name.startswith("time") else "replaced-judge", line=line)


def _method(source: PythonSource, target: ast.Attribute, line: int) -> Iterator[Hit]:
    """The audit of Python: a method given to one object: `out.float = lambda: ...` on what is returned."""
    statement = source.parents.get(target)
    function = source.function(target)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Lambda) or function is None:
        return
    returned = {n.value.id for n in ast.walk(function) if isinstance(n, ast.Return) and isinstance(n.value, ast.Name)}
    if isinstance(target.value, ast.Name) and target.value.id in returned:
        yield Hit(rule="lazy-output", line=line)


def _environment(source: PythonSource, target: ast.expr, line: int) -> Iterator[Hit]:
    if isinstance(target, ast.Subscript) and source.dotted(target.value) == "os.environ":
        yield from _preload(source.constant(target.slice), line)


def _preload(name: str | None, line: int) -> Iterator[Hit]:
    if name in {"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"}:
        yield Hit(rule="preload", line=line)


def _hits_of_call(source: PythonSource, call: ast.Call) -> Iterator[Hit]:
    name, line = source.dotted(call.func), call.lineno
    texts = [source.constant(arg) for arg in call.args[:3]]
    if name in {"setattr", "delattr", "builtins.setattr", "unittest.mock.patch.object"} and len(call.args) > 1:
        holder = source.dotted(call.args[0])
        yield from _rule_of_replacement(CODE.sub("", f"{holder}.{texts[1] or '?'}"), line) if holder else ()
    elif name in {"unittest.mock.patch", "mock.patch"} and texts and texts[0]:
        yield from _rule_of_replacement(texts[0], line)
    elif name in {"os.putenv", "os.environ.setdefault"} and texts:
        yield from _preload(texts[0], line)
    elif name in WALKS:
        yield Hit(rule="object-walk", line=line)
    elif name in SETTERS:
        yield Hit(rule="global-setting", line=line)
    elif name in RUNNERS:
        yield Hit(rule="hidden-code" if _is_packed(source, call) else "runs-text", line=line)
    for place in changed_names(source, call):
        yield from _module(place, line) if "." not in place else _rule_of_replacement(CODE.sub("", place), line)
    yield from _opened_files(name, texts, line)
    yield from _frames_by_name(source, call, name)


def _opened_files(name: str, texts: list[str | None], line: int) -> Iterator[Hit]:
    """The audit of Python: files that are the process's own memory and channels."""
    if name in {"open", "io.open", "builtins.open", "os.open", "pathlib.Path", "os.listdir", "os.scandir"}:
        path = texts[0] if texts else None
        if path and FOREIGN.search(path):
            yield Hit(rule="foreign-memory", line=line)


def _frames_by_name(source: PythonSource, call: ast.Call, name: str) -> Iterator[Hit]:
    """The audit of Python: `getattr(frame, "f_locals")` and `vars(sys.modules["__main__"])`."""
    if name == "getattr" and len(call.args) > 1 and source.constant(call.args[1]) in FRAMES:
        if _callers(source, call.args[0]):
            yield Hit(rule="caller-frame", line=call.lineno)
    elif call.args and root(call.func) == "vars" and source.dotted(call.args[0]) == "__main__":
        yield Hit(rule="caller-frame", line=call.lineno)


def _callers(source: PythonSource, frame: ast.expr, depth: int = 8) -> bool:
    """The audit of Python: whether an expression is the frame of somebody further up."""
    if depth <= 0:
        return False
    match frame:
        case ast.Attribute(attr="f_back" | "tb_frame" | "frame"):
            return True
        case ast.Subscript(value=value):
            return _callers(source, value, depth - 1) or source.dotted(getattr(value, "func", None)) == "inspect.stack"
        case ast.Call(func=called, args=args):
            name = source.dotted(called)
            outer = bool(args) and not (isinstance(args[0], ast.Constant) and args[0].value == 0)
            walked = name == "getattr" and len(args) > 1 and source.constant(args[1]) == "f_back"
            return (name == "sys._getframe" and outer) or walked
        case ast.Name(id=name):
            bound = source.binding(frame, name)
            return isinstance(bound, ast.expr) and _callers(source, bound, depth - 1)
        case _:
            return False


def _is_packed(source: PythonSource, call: ast.Call) -> bool:
    """The audit of Python: whether what is run comes out of base64, a compressor or a marshalled code object."""
    waiting: list[tuple[ast.expr, int]] = [(arg, 4) for arg in call.args[:1]]
    while waiting:
        expression, depth = waiting.pop()
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and PACKED.search(source.dotted(node.func) or _last_name(node.func)):
                return True
            if isinstance(node, ast.Name) and depth > 0:
                bound = source.binding(node, node.id)
                waiting += [(bound, depth - 1)] if isinstance(bound, ast.expr) and bound is not expression else []
    return False


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _subclass(source: PythonSource, node: ast.ClassDef) -> Iterator[Hit]:
    """Audit hits for tensors that answer otherwise than tensors do, and modes that stay in force after the call."""
    bases = [source.dotted(base) for base in node.bases]
    methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    if any(MODES.search(base) for base in bases):
        yield Hit(rule="global-setting", line=node.lineno)
    elif methods & ARRAYS or ("torch.Tensor" in bases and any(MODES.search(name) for name in methods)):
        yield Hit(rule="lazy-output", line=node.lineno)


# A module's names changed without an assignment to one: through its dictionary, `sys.modules` or `setattr`.

CHANGES = frozenset({"update", "setdefault", "__setitem__", "__ior__", "pop", "popitem", "clear", "__delitem__"})
SOMEBODY = "?.?"
"""A name of a module that is not told: nobody sets an attribute of his own in this way."""
HARNESS = re.compile(r"(?:time|timeit|builtins|pytest|unittest|__main__)(?:\..*)?|(?:numpy|torch)\.testing(?:\..*)?")
"""Modules of which any name is a clock, a comparison or the program itself; a name that is not told may be each."""


def changed_names(source: PythonSource, call: ast.Call) -> Iterator[str]:
    """The audit of Python: dotted names that a call puts something else under; a name that is not told is `?`.

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
    """What `sys.modules[...] = ...` in audited Python takes the place of; `?` where it is not told, empty for another target."""
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
