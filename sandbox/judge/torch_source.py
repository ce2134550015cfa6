"""Reads from a user's PyTorch file which tensors go in and come out at given sizes; it runs in a separate process."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from ridgeline.graph.errors import WorldError, missing_package
from ridgeline.graph.formula import FormulaError, evaluate
from ridgeline.graph.values import Value
from ridgeline.sandbox.judge.children import Child, ChildLimits, ChildLost

HOST = Path(__file__).parents[1] / "harness" / "torch_host.py"
START_S = 180.0
CALL_S = 120.0


class SourceError(WorldError):
    """A file that no task can be made of, or not at these sizes. The text is one line: file, what is wrong."""

    exit_code = 2


class TensorFacts(Value):
    """One tensor, at one size."""

    shape: tuple[int, ...]
    dtype: str
    """As PyTorch names it."""


class InputFacts(TensorFacts):
    """One argument: a tensor, or a plain value that stays as it is."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    bounds: tuple[int, int] | None = None
    """Of whole numbers, the upper one not included; None where it is not known."""
    literal: str | None = None
    """Python text of a value that is no tensor."""
    place: str = ""
    """Where it stands in the arguments, as Python behind their name, for example `[0]['weight']`."""

    @property
    def number(self) -> int | None:
        """For a judged task, of a PyTorch file's input: a whole number that is given as it is: a size, perhaps."""
        return int(self.literal) if self.literal is not None and self.literal.isdecimal() else None


class StateFacts(TensorFacts):
    """A parameter or buffer of a module, by its dotted name."""

    name: str
    buffer: bool


class SourceShapes(Value):
    """The file at one size."""

    inputs: tuple[InputFacts, ...]
    state: tuple[StateFacts, ...]
    outputs: tuple[TensorFacts, ...]
    call: str
    """The arguments as Python, with `<3>` for the input of that number."""
    flops: int
    """Operations of matrix products, convolutions and attention; others are not counted."""


class RunFacts(SourceShapes):
    """What a real run of the file shows beyond shapes."""

    training: bool
    """Whether a module is left as it is made; else only `eval()` makes its result repeatable."""
    normal: bool
    """Whether results are finite for inputs from N(0,1)."""
    input_ranges: tuple[tuple[float, float] | None, ...]
    """Ends of the values that get_inputs() gives, by place; None for what is no float, or one value alone."""
    inside: tuple[int, ...]
    """Places of inputs that must stay between those ends for finite results."""
    mutated: tuple[int, ...]
    """Places of inputs that it changes."""
    blanks: tuple[int, ...]
    """Those of them that are only memory for its result."""
    buffers: dict[str, Literal["positive", "normal", "mask"]]
    """Those that the result depends on, and how an input in their place is drawn."""
    constant_buffers: tuple[str, ...]
    """Those of them that are constants of the operator, neither trained nor made by chance."""
    parts: tuple[str, ...]
    """Tensors that a module holds as neither parameter nor buffer, and that chance made."""
    masks: tuple[int, ...]
    """Places of inputs of floats that hold only 0 and 1."""
    partial: tuple[str, ...]
    """Inputs, parameters and buffers of which a call reads less than all, or of which that is not known."""


class TorchSource:
    """The file. A context manager. Raises SourceError where it cannot be used at all."""

    def __init__(self, file: Path, entry: str | None) -> None:
        """`entry` is a function or module of the file; None where there is only one, or `Model`."""
        if not file.is_file():
            raise SourceError(f"{file}: no such file; give a Python file")
        self._file = file.resolve()
        self.name = file.name
        self.without_memory = True
        """Whether shapes are worked out without memory for tensors; else the file is run for them, on a processor."""
        try:
            self._child = Child(HOST, ChildLimits())
            words = json.dumps({"file": str(self._file), "entry": entry}).encode()
            header = json.loads(self._child.ask([words], timeout_s=START_S).message())
        except ChildLost as lost:
            raise self._failure(str(lost)) from None
        if "error" in header:
            self._child.close()
            raise self._failure(header["error"])
        self.entry: str = header["entry"]
        self.is_module: bool = header["is_module"]
        self.has_init: bool = header["init"]
        """Whether `get_init_inputs` says what the module is made with."""
        self.knobs: dict[str, int] = header["knobs"]
        """Numbers of the file that may be sizes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()

    def read_shapes(self, sizes: Mapping[str, int]) -> SourceShapes:
        """For a judged task: a PyTorch file at these sizes, which may be large (see `without_memory`). Raises SourceError."""
        return SourceShapes.model_validate(self._ask(sizes, real=False))

    def read_facts(self, sizes: Mapping[str, int]) -> RunFacts:
        """For a judged task: a PyTorch file really run at these sizes, which should be small. Raises SourceError."""
        return RunFacts.model_validate(self._ask(sizes, real=True))

    def _ask(self, sizes: Mapping[str, int], *, real: bool) -> object:
        words = json.dumps({"sizes": dict(sizes), "real": real, "meta": self.without_memory and not real}).encode()
        try:
            answer = json.loads(self._child.ask([words], timeout_s=CALL_S).message())
        except ChildLost as lost:
            raise self._failure(str(lost)) from None
        if "error" in answer:
            raise self._failure(answer["error"])
        return answer

    def _failure(self, why: str) -> SourceError:
        return SourceError(f"{self._file.name}: {missing_package(why) or why}")


# Finds how extents depend on the sizes that a program names, by changing those and looking at what comes of it.

SizeProbe = Callable[[Mapping[str, int]], tuple[int, ...] | None]
"""Extents at the sizes given, others as they are; None where the program cannot be run so."""
MOST_KNOBS = 24
POINTS = 5
"""Other values of a size that are looked at: two make a line, the others test it."""
STRIDES = (*range(2, 17), 32, 64)
OFFSETS = range(-16, 17)
DOUBLINGS = 16
SIZE_STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)
"""What a size may have to be a multiple of."""


@dataclass(frozen=True, kw_only=True)
class InferredSizes:
    """The sizes that can be chosen freely, and everything else by them."""

    dims: dict[str, int]
    """As the program has them."""
    extents: tuple[str, ...]
    """Arithmetic over the sizes, in the order of the probe."""
    low: dict[str, int]
    """Smallest value of each that worked, with the others as they are."""
    step: dict[str, int]
    """What each has to be a multiple of."""


@dataclass
class _SizeSearch:
    probe: SizeProbe
    base: tuple[int, ...]
    knobs: dict[str, int]
    fixed: Sequence[int]
    """Places of numbers that may depend on no size."""
    points: dict[str, dict[int, tuple[int, ...]]] = field(default_factory=dict)


def infer_sizes(probe: SizeProbe, knobs: Mapping[str, int], *, fixed: Sequence[int] = ()) -> InferredSizes | None:
    """For a judged task: sizes of a PyTorch file among its numbers, with formulas that held for all tried; None where it does not run."""
    base = probe({})
    if base is None:
        return None
    search = _SizeSearch(probe, base, dict(itertools.islice(knobs.items(), MOST_KNOBS)), fixed)
    for name, value in search.knobs.items():
        search.points[name] = _probe_points(search, name, value)
    dims = [name for name, points in search.points.items() if any(numbers != base for numbers in points.values())]
    while True:
        formulas = _fit_formulas(search, dims)
        wrong = _find_unfit(search, dims, formulas)
        if not wrong:
            break
        dims.remove(min(wrong, key=lambda name: search.knobs[name]))
    limits = {name: _find_limits(search, name, formulas) for name in dims}
    _raise_minimums(search, limits, formulas)
    return InferredSizes(
        dims={name: search.knobs[name] for name in dims},
        extents=tuple(str(formula) for formula in formulas),
        low={name: low for name, (low, _) in limits.items()},
        step={name: step for name, (_, step) in limits.items()},
    )


def _probe_points(search: _SizeSearch, name: str, value: int) -> dict[int, tuple[int, ...]]:
    """For a judged task: numbers of a PyTorch file's tensors at other values of one knob, by value; empty where their count changes."""
    points: dict[int, tuple[int, ...]] = {}
    trial_values = (
        2 * value,
        3 * value,
        value + 1,
        value + 2,
        value // 2,
        value + 7,
        5 * value,
        value + 16,
        value + 64,
    )
    for trial_value in trial_values:
        if (
            trial_value > 0
            and trial_value != value
            and len(points) < POINTS
            and (numbers := search.probe({name: trial_value})) is not None
        ):
            if len(numbers) != len(search.base):
                return {}  # it changes how many tensors there are
            points[trial_value] = numbers
    return points


def _fit_formulas(search: _SizeSearch, dims: Sequence[str]) -> list[str | None]:
    return [_fit_formula(search, dims, place) for place in range(len(search.base))]


def _fit_formula(search: _SizeSearch, dims: Sequence[str], place: int) -> str | None:
    """For a judged task: formula of sizes for one number of a PyTorch file; None where none fits."""
    base = search.base[place]
    moving = [name for name in dims if any(numbers[place] != base for numbers in search.points[name].values())]
    if place in search.fixed:
        return None if moving else str(base)
    if not moving:
        return str(base)
    if len(moving) == 1:
        return _fit_one_size(moving[0], search.knobs[moving[0]], _probe_values(search, moving[0], place))
    return _fit_product(search, moving, place) or _fit_sum(search, moving, place)


def _probe_values(search: _SizeSearch, name: str, place: int) -> dict[int, int]:
    return {
        search.knobs[name]: search.base[place],
        **{at: numbers[place] for at, numbers in search.points[name].items()},
    }


def _fit_one_size(name: str, base: int, values: Mapping[int, int]) -> str | None:
    (low, high), *_ = itertools.combinations(values, 2) if len(values) > 1 else ((0, 0),)
    if low != high and (values[high] - values[low]) % (high - low) == 0:
        slope = (values[high] - values[low]) // (high - low)
        if slope and _formula_holds(line := _fit_line(name, slope, values[low] - slope * low), name, values):
            return line
    for stride, factor, offset in itertools.product(STRIDES, (1, 2, 3, 4), OFFSETS):
        if (factor * base + offset) // stride == values[base]:
            inner = _fit_line(name, factor, offset)
            formula = f"{inner}//{stride}" if inner == name else f"({inner})//{stride}"
            if _formula_holds(formula, name, values):
                return formula
    return None


def _fit_line(name: str, slope: int, offset: int) -> str:
    scaled = name if slope == 1 else f"{slope}*{name}"
    return scaled if offset == 0 else f"{scaled} {'+' if offset > 0 else '-'} {abs(offset)}"


def _formula_holds(formula: str, name: str, values: Mapping[int, int]) -> bool:
    return all(evaluate(formula, {name: at}) == value for at, value in values.items())


def _fit_product(search: _SizeSearch, moving: Sequence[str], place: int) -> str | None:
    """For a judged task: a formula for a PyTorch file's extent: a number times powers of the sizes, which doubling shows."""
    product, factors = search.base[place], []
    for name in moving:
        values = _probe_values(search, name, place)
        at = next(iter(search.points[name]))
        power = next((p for p in (1, 2, 3) if values[at] * search.knobs[name] ** p == product * at**p), None)
        if power is None:
            return None
        factors += [name] * power
    shared = 1
    for name in factors:
        shared *= search.knobs[name]
    if product % shared:
        return None
    formula = "*".join(factors) if product == shared else f"{product // shared}*{'*'.join(factors)}"
    return formula if _formulas_hold(search, moving, place, formula) else None


def _fit_sum(search: _SizeSearch, moving: Sequence[str], place: int) -> str | None:
    """For a judged task: a formula for a PyTorch file's extent: each size times a number of its own, and one more number."""
    rest, terms = search.base[place], []
    for name in moving:
        values, base = _probe_values(search, name, place), search.knobs[name]
        at = next(iter(search.points[name]))
        slope, left = divmod(values[at] - values[base], at - base)
        if left:
            return None
        rest -= slope * base
        terms.append(_fit_line(name, slope, 0))
    formula = " + ".join((*terms, *([str(rest)] if rest else []))).replace("+ -1*", "- ").replace("+ -", "- ")
    return formula if _formulas_hold(search, moving, place, formula) else None


def _formulas_hold(search: _SizeSearch, moving: Sequence[str], place: int, formula: str) -> bool:
    return all(
        evaluate(formula, {**search.knobs, name: at}) == value
        for name in moving
        for at, value in _probe_values(search, name, place).items()
    )


def _find_unfit(search: _SizeSearch, dims: Sequence[str], formulas: Sequence[str | None]) -> list[str]:
    """For a judged task: sizes of a PyTorch file of which one has to be given up; empty when every formula holds, all changed too."""
    for place, formula in enumerate(formulas):
        if formula is None:
            base = search.base[place]
            return [name for name in dims if any(numbers[place] != base for numbers in search.points[name].values())]
    if len(dims) < 2:
        return []
    for turn in (0, 1):
        sizes = {name: list(search.points[name])[min(turn, len(search.points[name]) - 1)] for name in dims}
        if not _as_given(search, sizes, formulas):
            return list(dims)
    return []


def _as_given(search: _SizeSearch, sizes: Mapping[str, int], formulas: Sequence[str | None]) -> bool:
    numbers = search.probe(sizes)
    if numbers is None or len(numbers) != len(formulas):
        return False
    try:
        predicted = [evaluate(formula or "", {**search.knobs, **sizes}) for formula in formulas]
    except FormulaError:
        return False
    return list(numbers) == predicted


def _find_limits(search: _SizeSearch, name: str, formulas: Sequence[str | None]) -> tuple[int, int]:
    """For a judged task: the smallest value of a PyTorch file's size that works, and what all have to be multiples of."""
    base = search.knobs[name]
    for step in (*SIZE_STEPS, base):
        if base % step or step > base:
            continue
        low = next((n for n in (1, 2, 3, 4, 5, 7, 11, 16) if _as_given(search, {name: n * step}, formulas)), None)
        if low is None:
            continue
        multiples = [(low + more) * step for more in (1, 2, 4, 9)]
        if all(_as_given(search, {name: multiple}, formulas) for multiple in multiples):
            return low * step, step
    return base, base


def _raise_minimums(search: _SizeSearch, limits: dict[str, tuple[int, int]], formulas: Sequence[str | None]) -> None:
    """For a judged task: sizes of a PyTorch file that work one by one may not work together; they are doubled until they do."""
    for _ in range(DOUBLINGS):
        if _as_given(search, {name: low for name, (low, _) in limits.items()}, formulas):
            return
        for name, (low, step) in limits.items():
            limits[name] = (min(2 * low, search.knobs[name]), step)


def fit_power_law(count: Callable[[Mapping[str, int]], int | None], dims: Mapping[str, int]) -> str | None:
    """For a judged task: a count in a PyTorch file as a number times powers of the sizes; None where it is none, or zero."""
    base = count({})
    if not base:
        return None
    factors: list[str] = []
    for name, size in dims.items():
        doubled = count({name: 2 * size})
        power = next((p for p in (0, 1, 2, 3) if doubled == base * 2**p), None)
        if power is None:
            return None
        factors += [name] * power
    shared = 1
    for name in factors:
        shared *= dims[name]
    at_once = count({name: 2 * size for name, size in dims.items()})
    if base % shared or at_once != base * 2 ** len(factors):
        return None
    return "*".join((str(base // shared), *factors))
