"""Arithmetic over named columns, for contracts: parsed and walked, never executed as code."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

MAX_LENGTH = 500
"""Longest expression; a work formula fits on one line, and a deeper tree could exhaust the parser."""

BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: math.pow,
}
UNARY: dict[type[ast.unaryop], Callable[[float], float]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


class FormulaError(ValueError):
    """An expression that is not plain arithmetic, names an unknown variable or has no finite value."""


def evaluate(expression: str, variables: Mapping[str, float]) -> float:
    """Value of a formula: + - * / // ** %, min, max, ceil, numbers and the named variables.

    The unit is whatever the formula means. Raises FormulaError.
    """
    try:
        value = _value(_parse(expression), variables)
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        if isinstance(error, FormulaError):
            raise
        raise FormulaError(f"{expression!r} has no value for {dict(variables)}: {error}") from error
    if not math.isfinite(value):
        raise FormulaError(f"{expression!r} is {value} for {dict(variables)}")
    return value


def _parse(expression: str) -> ast.expr:
    """The syntax tree of a formula. Raises FormulaError for one too long or no arithmetic."""
    if len(expression) > MAX_LENGTH:
        raise FormulaError(f"expression has {len(expression)} characters; {MAX_LENGTH} are allowed")
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise FormulaError(f"{expression!r} is not arithmetic: {error}") from error


def _value(node: ast.expr, variables: Mapping[str, float]) -> float:
    """The number that a node of a formula's tree stands for. Raises FormulaError for what is not allowed."""
    match node:
        case ast.Constant(value=bool()):
            raise FormulaError(f"{node.value!r} is not a number")
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return _variable(name, variables)
        case ast.BinOp() if type(node.op) in BINARY:
            return BINARY[type(node.op)](_value(node.left, variables), _value(node.right, variables))
        case ast.UnaryOp() if type(node.op) in UNARY:
            return UNARY[type(node.op)](_value(node.operand, variables))
        case ast.Call():
            return _call(node, variables)
        case _:
            raise FormulaError(f"{ast.unparse(node)!r} is not allowed in a formula ({type(node).__name__})")


def _variable(name: str, variables: Mapping[str, float]) -> float:
    """The value of a formula's variable. Raises FormulaError for a name that is not among them."""
    if name not in variables:
        names = ", ".join(sorted(variables)) or "none"
        raise FormulaError(f"unknown variable {name!r}; known: {names}")
    return float(variables[name])


def _call(node: ast.Call, variables: Mapping[str, float]) -> float:
    """The value of min, max or ceil in a formula. Raises FormulaError for any other function, or wrong arguments."""
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    if name not in ("min", "max", "ceil"):
        raise FormulaError(f"function {name!r} is not allowed; use min, max or ceil")
    if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
        raise FormulaError(f"{name}() takes plain arguments only")
    arguments = [_value(argument, variables) for argument in node.args]
    match name, arguments:
        case "min", [_, *_]:
            return min(arguments)
        case "max", [_, *_]:
            return max(arguments)
        case "ceil", [number]:
            return float(math.ceil(number))
        case _:
            raise FormulaError(f"{name}() has {len(arguments)} arguments")
