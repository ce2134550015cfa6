"""What test.py and bench.py share: values of arguments, loading a version of the function, and what counts as equal.

Nothing here depends on the function; problem.py says what it takes.
"""

import copy
import importlib
import importlib.abc
import importlib.util
import itertools
import math
import random
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
ORDINARY = "ordinary"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
OWN = frozenset({"harness", "problem", "__main__"})
"""Modules of this folder: never those of a version."""
REFUSALS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a function raises for values that it does not take."""
SPECIAL = {"nan": math.nan, "infinity": math.inf, "subnormal": 5e-324}


class Shape(NamedTuple):
    """Sizes of one call; what is not `timed` is tested only."""

    label: str
    config_class: str
    timed: bool
    sizes: Mapping[str, int]


def sibling(name: str) -> types.ModuleType:
    """In the harness that `init` writes: a module of its folder from its source alone."""
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = str(HERE / f"{name}.py")
    exec(compile((HERE / f"{name}.py").read_bytes(), module.__file__, "exec"), module.__dict__)
    return module


def text(rng: random.Random, count: int, mix: str) -> str:
    """In the harness that `init` writes: letters as an argument; one letter for `zeros`, any character for `extremes`."""
    if mix == "zeros":
        return "a" * count
    if mix == "extremes":
        return "".join(chr(rng.choice((rng.randrange(1, 128), rng.randrange(0x100, 0xD7FF)))) for _ in range(count))
    return "".join(rng.choices(LETTERS, k=count))


def octets(rng: random.Random, count: int, mix: str) -> bytes:
    """In the harness that `init` writes: bytes as an argument; 0 for `zeros`, 0 and 255 for `extremes`."""
    if mix == "zeros":
        return bytes(count)
    return bytes(rng.choices((0, 255), k=count)) if mix == "extremes" else rng.randbytes(count)


def wholes(rng: random.Random, count: int, mix: str, low: int = -1000, high: int = 1000) -> list[int]:
    """In the harness that `init` writes: whole numbers from low to high - 1 as an argument."""
    if mix == "zeros":
        return [max(low, 0)] * count
    if mix == "extremes":
        return rng.choices((low, high - 1), k=count)
    return [rng.randrange(low, high) for _ in range(count)]


def reals(rng: random.Random, count: int, mix: str) -> list[float]:
    """In the harness that `init` writes: normal numbers; of very different size for `extremes`; else one NaN, infinity, or subnormals."""
    if mix == "zeros":
        return [0.0] * count
    numbers = [rng.gauss(0.0, 1.0) for _ in range(count)]
    if mix == "extremes":
        return [number * 2.0 ** rng.randrange(-20, 21) for number in numbers]
    if mix == "subnormal":
        return [number * 1e-310 for number in numbers]
    if mix in SPECIAL and count:
        numbers[rng.randrange(count)] = SPECIAL[mix]
    return numbers


def array(rng: random.Random, shape: Sequence[int], mix: str, dtype: str = "float64") -> Any:
    """In the harness that `init` writes: numbers for an argument as a NumPy array."""
    import numpy as np

    if dtype.startswith(("int", "uint", "bool")):
        numbers: list[Any] = list(wholes(rng, math.prod(shape), mix, 0, 2 if dtype == "bool" else 100))
    else:
        numbers = reals(rng, math.prod(shape), mix)
    return np.array(numbers).astype(dtype).reshape(shape)


def tensor(rng: random.Random, shape: Sequence[int], mix: str, dtype: str = "float32") -> Any:
    """In the harness that `init` writes: numbers for an argument as a tensor on the GPU, or on the processor where there is none."""
    import torch

    place = "cuda" if torch.cuda.is_available() else "cpu"
    wide = torch.from_numpy(array(rng, shape, mix, dtype if dtype.startswith(("int", "bool")) else "float64"))
    return wide.to(device=place, dtype=getattr(torch, dtype))


def load(root: Path, file: str, function: str, *, text_from: Path | None = None) -> Callable[..., Any]:
    """In the harness that `init` writes: the function of the version in `root`. `text_from`: the source is that file's, the rest root's.

    Two versions may be loaded in one process: each finds its own siblings, and leaves no module behind.
    """
    path = (root / file).resolve()
    top = path.parent
    while (top / "__init__.py").exists():
        top = top.parent
    name = ".".join(path.relative_to(top).with_suffix("").parts)
    _forget(root)
    sys.path.insert(0, str(top))
    try:
        module = _module(name, text_from) if text_from else importlib.import_module(name)
    finally:
        sys.path.remove(str(top))
    value: Any = module
    for part in function.split("."):
        is_method = isinstance(value, type) and isinstance(vars(value).get(part), types.FunctionType)
        value = getattr(value() if is_method else value, part)
    _forget(root)
    return value


class _FromFile(importlib.abc.MetaPathFinder):
    """Imports one module from another file, whoever imports it: its package may do so before anybody asks for it."""

    def __init__(self, name: str, file: Path) -> None:
        self.name, self.file = name, file

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """In the harness that `init` writes: the version's module's place; None for all others."""
        return importlib.util.spec_from_file_location(name, self.file) if name == self.name else None


def _module(name: str, file: Path) -> types.ModuleType:
    """In the harness that `init` writes: a module of that name from another file, in the package that its name says."""
    finder = _FromFile(name, file)
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)


def _forget(root: Path) -> None:
    base = str(root.resolve())
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
        if name not in OWN and file and str(file).startswith(base) and "site-packages" not in str(file):
            del sys.modules[name]


class Difference(NamedTuple):
    """The first place where a value is not the original's, what stands there, and how many of how many differ."""

    place: tuple[Any, ...]
    got: str
    expected: str
    differ: int
    count: int
    why: str

    def __str__(self) -> str:
        index = f" index={','.join(map(_show, self.place))}" if self.place else ""
        return f"{index} got={self.got} expected={self.expected} differ={self.differ}/{self.count}: {self.why}"


class Raised(str):
    """The type of what a call raised, in the place of a result."""


MISSING = object()
"""Stands where one of two sequences has no element."""


def describe_difference(mine: Sequence[Any], right: Sequence[Any], names: Sequence[str], tolerance: float) -> str:
    """In the harness that `init` writes: the rest of a line of MISMATCH for two calls, from the array's name on; or nothing."""
    listed = ("result", *names, *(f"argument{at}" for at in range(len(names), len(right))))
    for name, value, aim in zip(listed, mine, right, strict=False):
        if found := difference(value, aim, tolerance):
            return f" array={name}{found}"
    return ""


def difference(value: Any, right: Any, tolerance: float) -> Difference | None:
    """In the harness that `init` writes: how a result is not the original's, or None. Floats may differ by `tolerance`."""
    first: Difference | None = None
    differ = count = 0
    for place, mine, aim in _innermost(value, right):
        found = _leaf_difference(mine, aim, tolerance)
        count += found.count if found else math.prod(getattr(aim, "shape", ()))
        differ += found.differ if found else 0
        if found and first is None:
            first = found._replace(place=(*place, *found.place))
    return first._replace(differ=differ, count=count) if first else None


def _innermost(value: Any, right: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Values that hold no others, each with the original's, and where they stand."""
    if isinstance(right, dict) and isinstance(value, dict) and value.keys() == right.keys():
        for key in right:
            yield from _innermost(value[key], right[key], (*place, key))
    elif isinstance(right, list | tuple) and type(value) is type(right):
        for at, (mine, aim) in enumerate(itertools.zip_longest(value, right, fillvalue=MISSING)):
            yield from _innermost(mine, aim, (*place, at))
    elif (
        isinstance(right, str | bytes | bytearray)
        and type(value) is type(right)
        and value != right
        and not isinstance(right, Raised)
    ):
        for at, (mine, aim) in enumerate(itertools.zip_longest(value, right, fillvalue=MISSING)):
            yield (*place, at), mine, aim
    else:
        yield place, value, right


def _leaf_difference(value: Any, right: Any, tolerance: float) -> Difference | None:
    if hasattr(right, "detach"):
        value, right = getattr(value, "detach", lambda: value)(), right.detach()
        value, right = (side.double().cpu().numpy() if hasattr(side, "cpu") else side for side in (value, right))
    if value is MISSING or right is MISSING:
        return _differ(
            value, right, "fewer than the original gives" if value is MISSING else "more than the original gives"
        )
    if isinstance(value, Raised) or isinstance(right, Raised):
        same = type(value) is type(right) and value == right
        return None if same else _differ(value, right, "only one of them raises, or another error")
    if type(value) is not type(right) and not (_is_number(value) and _is_number(right)):
        return _differ(value, right, f"is of type {type(value).__name__}, the original's is {type(right).__name__}")
    if hasattr(right, "dtype") and hasattr(right, "shape") and hasattr(value, "dtype"):
        return _array_difference(value, right, tolerance)
    if isinstance(right, float):
        return None if _is_near(float(value), right, tolerance) else _differ(value, right, FURTHER)
    if isinstance(right, dict):
        return _differ([*value], [*right], "has other keys")
    return None if value == right else _differ(value, right, "differs from the original")


FURTHER = "a number is further from the original's than the tolerance"


def _differ(value: Any, right: Any, why: str) -> Difference:
    return Difference((), _show(value), _show(right), 1, 1, why)


def _show(value: Any) -> str:
    """At most 60 letters of a value, in one line."""
    text = "nothing" if value is MISSING else f"raises {value}" if isinstance(value, Raised) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_near(value: float, right: float, tolerance: float) -> bool:
    if value == right or (math.isnan(value) and math.isnan(right)):
        return True
    return math.isfinite(value) and abs(value - right) <= tolerance * max(abs(value), abs(right)) + 1e-320


def _array_difference(value: Any, right: Any, tolerance: float) -> Difference | None:
    import numpy as np

    if value.shape != right.shape or value.dtype != right.dtype:
        sides = (f"{side.dtype}{list(side.shape)}" for side in (value, right))
        return Difference((), *sides, right.size, right.size, "has another type or shape")
    if right.dtype.kind not in "fc":
        agrees, why = np.asarray(value == right), "differs from the original"
    else:
        finite = np.isfinite(right)
        with np.errstate(all="ignore"):
            scale = float(np.sqrt(np.mean(np.square(right[finite], dtype=np.float64)))) if finite.any() else 0.0
            is_near = np.abs(value - right) <= tolerance * (np.abs(right) + scale)
        agrees, why = (value == right) | (np.isnan(value) & np.isnan(right)) | (is_near & finite), FURTHER
    if agrees.all():
        return None
    place = tuple(int(at) for at in np.argwhere(~agrees)[0])
    got, expected = (_show(side[place].item()) for side in (value, right))
    return Difference(place, got, expected, int((~agrees).sum()), right.size, why)


def copy_arguments(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """In the harness that `init` writes: the same arguments again, which a call cannot have changed."""
    return tuple(value.clone() if hasattr(value, "detach") else copy.deepcopy(value) for value in arguments)


def run(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    """In the harness that `init` writes: what a call gives, or the type of what it raises, and what it made of its arguments."""
    values = copy_arguments(arguments)
    try:
        return (function(*values), *values)
    except REFUSALS as error:  # the original may refuse values: the other version must refuse them too
        return (Raised(type(error).__name__), *values)
