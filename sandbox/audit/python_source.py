"""One Python file, parsed and never imported, with what its names stand for."""

import ast
import re
from collections import deque
from collections.abc import Iterator
from functools import cached_property

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LINE_END = re.compile(r"\r\n|\r|\n")
"""Where the interpreter counts a new line; `str.splitlines` knows more of them."""
LONGEST = 400
"""Steps that folding one expression may take: source is written by others, so nothing here may run away."""
WEIGHT = re.compile(r"(?:^|_)(?:w\d*|wt|weights?\d*|qweight|params?|parameters?)(?:_|$)|^[wW]\w?$", re.IGNORECASE)
GRADIENT = re.compile(r"grad|^d(?:y|o|out)$", re.IGNORECASE)
TENSOR_NAME = re.compile(
    r"^(?:[abcqkvxyABCQKVXY]\d?|inp|inputs?|hidden\w*|act\w*|tensor\w*|\w*_tensor|query|key_?states|value_?states)$"
)
TENSOR_USE = frozenset(
    {"data_ptr", "numel", "is_contiguous", "contiguous", "_version", "new_empty", "new_zeros", "untyped_storage"}
)
"""What only tensors are asked; shape, size and device are asked of plans and layouts too."""


class PythonSource:
    """A parsed file. Raises SyntaxError or ValueError where the text is no Python, RecursionError where too deep."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.own_names: frozenset[str] = frozenset()
        """Modules of the candidate itself, as this file imports them."""
        self._lines = [line.encode() for line in LINE_END.split(text)]
        self.tree = ast.parse(text)
        self.nodes = list(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self._bound: dict[ast.AST, dict[str, ast.expr | str | None]] = {}

    def of(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """Every syntax node of these kinds in an audited Python file."""
        return (node for node in self.nodes if isinstance(node, kinds))

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call in an audited Python file, in no particular order."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function with a name in an audited Python file."""
        return [node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The syntax nodes around a node of audited Python, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function(self, node: ast.AST) -> Function | None:
        """The innermost function around a node of audited Python."""
        return next((around for around in self.above(node) if isinstance(around, FUNCTIONS)), None)

    def is_guarded(self, node: ast.AST) -> bool:
        """The audit of Python: whether a node only runs when the file is started as a program."""
        return any(isinstance(around, ast.If) and _names_main(around.test) for around in self.above(node))

    def quote(self, node: ast.AST) -> str:
        """An audited node's own text on one line."""
        first_line, last_line = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if first_line is None or last_line is None:
            return ""
        begin, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        lines = [*self._lines[first_line - 1 : last_line]]
        lines[-1] = lines[-1][:end]
        lines[0] = lines[0][begin:]
        return " ".join(b" ".join(lines).decode(errors="replace").split())

    def dotted(self, node: ast.AST | None, left: int = LONGEST) -> str:
        """What an expression names, from its import on, for example `torch.cuda.Event`; empty where it is not known."""
        if left <= 0:
            return ""
        match node:
            case ast.Name(id=name):
                return self._meaning(node, name, left)
            case ast.Attribute(value=value, attr=attr):
                return _join_names(self.dotted(value, left - 1), attr)
            case ast.Call():
                return self._reflection_name(node, left - 1)
            case ast.Subscript(value=value, slice=index):
                return self._looked_up(value, self.constant(index, left - 1), left - 1)
            case _:
                return ""

    def constant(self, node: ast.AST | None, left: int = LONGEST) -> str | None:
        """The audit of Python: the text that an expression is made of, folded; None where it is none."""
        if left <= 0:
            return None
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.BinOp(left=first, op=ast.Add(), right=second):
                return _concatenate(self.constant(first, left - 1), self.constant(second, left // 2))
            case ast.JoinedStr(values=values):
                return _join_texts([self.constant(value, left // (len(values) + 1)) for value in values], "")
            case ast.FormattedValue(value=value):
                return self.constant(value, left - 1)
            case ast.Call(
                func=ast.Attribute(value=glue, attr="join"), args=[ast.List(elts=parts) | ast.Tuple(elts=parts)]
            ):
                between = self.constant(glue, left - 1)
                constants = [self.constant(part, left // (len(parts) + 1)) for part in parts]
                return None if between is None else _join_texts(constants, between)
            case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=None, step=ast.UnaryOp())):
                backwards = self.constant(value, left - 1)
                return None if backwards is None else backwards[::-1]
            case ast.Name(id=name):
                bound = self.binding(node, name)
                return self.constant(bound, left // 2) if isinstance(bound, ast.expr) else None
            case _:
                return None

    def _meaning(self, node: ast.AST, name: str, left: int) -> str:
        bound = self.binding(node, name)
        if isinstance(bound, str):
            return bound
        if isinstance(bound, ast.expr):
            return self.dotted(bound, left // 2)
        return ""

    def binding(self, node: ast.AST, name: str) -> ast.expr | str | None:
        """The audit of Python: what a name is bound to where it stands: an import's path, an expression, or None for what is not known."""
        for scope in self.above(node):
            if isinstance(scope, (*FUNCTIONS, ast.Module)) and name in (table := self._table(scope)):
                return table[name]
        return name if name in {"id", "getattr", "setattr", "__import__", "exec", "eval", "open", "compile"} else None

    def _table(self, scope: ast.AST) -> dict[str, ast.expr | str | None]:
        if scope not in self._bound:
            self._bound[scope] = dict(_bindings(scope))
        return self._bound[scope]

    def _reflection_name(self, node: ast.Call, left: int) -> str:
        """The audit of Python: names made by `getattr`, `__import__` and `import_module`."""
        called = self.dotted(node.func, left // 2)
        first_argument = node.args[0] if node.args else None
        if called == "getattr" and len(node.args) > 1:
            return _join_names(self.dotted(first_argument, left // 2), self.constant(node.args[1], left // 2) or "")
        if called in {"__import__", "importlib.import_module", "builtins.__import__"}:
            return self.constant(first_argument, left // 2) or ""
        return ""

    def _looked_up(self, value: ast.expr, name: str | None, left: int) -> str:
        """The audit of Python: `sys.modules["time"]`, `vars(torch)["empty"]` and `torch.__dict__["empty"]`."""
        if name is None:
            return ""
        holder = self.dotted(value, left)
        if holder == "sys.modules":
            return name
        if holder.endswith(".__dict__"):
            return f"{holder.removesuffix('.__dict__')}.{name}"
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "vars" and value.args:
            return _join_names(self.dotted(value.args[0], left), name)
        return ""


def parameters(function: Function) -> list[str]:
    """Names of everything that an audited Python function takes."""
    args = function.args
    positional = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return [arg.arg for arg in (*positional, *(a for a in (args.vararg, args.kwarg) if a))]


def _bindings(scope: ast.AST) -> Iterator[tuple[str, ast.expr | str | None]]:
    """Each name of a scope with its last meaning: import path, expression, or None. Inner functions are not entered."""
    if isinstance(scope, FUNCTIONS):
        yield from ((name, None) for name in parameters(scope))
    waiting = deque(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.popleft()
        yield from _bound_by(node)
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def _bound_by(node: ast.AST) -> Iterator[tuple[str, ast.expr | str | None]]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
        case ast.ImportFrom(module=module, names=names):
            yield from ((alias.asname or alias.name, _join_names(module or "", alias.name)) for alias in names)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            if not (isinstance(value, ast.Name) and value.id == name):
                yield name, value
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, value
        case ast.For(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            yield name, None
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, None


def _names_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(test))


def _join_names(holder: str, name: str) -> str:
    return f"{holder}.{name}" if holder and name else ""


def _concatenate(left: str | None, right: str | None) -> str | None:
    return None if left is None or right is None else left + right


def _join_texts(parts: list[str | None], between: str) -> str | None:
    texts = [part for part in parts if part is not None]
    return between.join(texts) if len(texts) == len(parts) else None
