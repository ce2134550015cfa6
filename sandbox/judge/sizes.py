"""Finds how extents depend on the sizes that a program names, by changing those and looking at what comes of it."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ridgeline.graph.formula import FormulaError, evaluate

Probe = Callable[[Mapping[str, int]], tuple[int, ...] | None]
"""Extents at the sizes given, others as they are; None where the program cannot be run so."""
MOST_KNOBS = 24
POINTS = 5
"""Other values of a size that are looked at: two make a line, the others test it."""
STRIDES = (2, 3, 4, 8, 16)
OFFSETS = range(-16, 17)
DOUBLINGS = 16
STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)
"""What a size may have to be a multiple of."""


@dataclass(frozen=True, kw_only=True)
class Sized:
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
class _Search:
    probe: Probe
    base: tuple[int, ...]
    knobs: dict[str, int]
    fixed: Sequence[int]
    """Places of numbers that may depend on no size."""
    points: dict[str, dict[int, tuple[int, ...]]] = field(default_factory=dict)


def sized(probe: Probe, knobs: Mapping[str, int], *, fixed: Sequence[int] = ()) -> Sized | None:
    """Sizes among the knobs, with formulas that held for every value tried; None where the program does not run."""
    base = probe({})
    if base is None:
        return None
    search = _Search(probe, base, dict(itertools.islice(knobs.items(), MOST_KNOBS)), fixed)
    for name, value in search.knobs.items():
        search.points[name] = _points(search, name, value)
    dims = [name for name, points in search.points.items() if any(seen != base for seen in points.values())]
    while True:
        formulas = _formulas(search, dims)
        wrong = _unfit(search, dims, formulas)
        if not wrong:
            break
        dims.remove(min(wrong, key=lambda name: search.knobs[name]))
    limits = {name: _limits(search, name, formulas) for name in dims}
    _raised(search, limits, formulas)
    return Sized(
        dims={name: search.knobs[name] for name in dims},
        extents=tuple(str(formula) for formula in formulas),
        low={name: low for name, (low, _) in limits.items()},
        step={name: step for name, (_, step) in limits.items()},
    )


def _points(search: _Search, name: str, value: int) -> dict[int, tuple[int, ...]]:
    """What is seen at other values of one knob."""
    found: dict[int, tuple[int, ...]] = {}
    others = (2 * value, 3 * value, value + 1, value + 2, value // 2, value + 7, 5 * value, value + 16, value + 64)
    for other in others:
        if other > 0 and other != value and len(found) < POINTS and (seen := search.probe({name: other})) is not None:
            if len(seen) != len(search.base):
                return {}  # it changes how many tensors there are
            found[other] = seen
    return found


def _formulas(search: _Search, dims: Sequence[str]) -> list[str | None]:
    return [_formula(search, dims, place) for place in range(len(search.base))]


def _formula(search: _Search, dims: Sequence[str], place: int) -> str | None:
    """Arithmetic for one number; None where none fits."""
    base = search.base[place]
    moving = [name for name in dims if any(seen[place] != base for seen in search.points[name].values())]
    if place in search.fixed:
        return None if moving else str(base)
    if not moving:
        return str(base)
    if len(moving) == 1:
        return _of_one(moving[0], search.knobs[moving[0]], _values(search, moving[0], place))
    return _product(search, moving, place) or _sum(search, moving, place)


def _values(search: _Search, name: str, place: int) -> dict[int, int]:
    return {search.knobs[name]: search.base[place], **{at: seen[place] for at, seen in search.points[name].items()}}


def _of_one(name: str, base: int, values: Mapping[int, int]) -> str | None:
    (first, second), *_ = itertools.combinations(values, 2) if len(values) > 1 else ((0, 0),)
    if first != second and (values[second] - values[first]) % (second - first) == 0:
        slope = (values[second] - values[first]) // (second - first)
        if slope and _holds(line := _line(name, slope, values[first] - slope * first), name, values):
            return line
    for stride, factor, offset in itertools.product(STRIDES, (1, 2, 3, 4), OFFSETS):
        if (factor * base + offset) // stride == values[base]:
            inner = _line(name, factor, offset)
            formula = f"{inner}//{stride}" if inner == name else f"({inner})//{stride}"
            if _holds(formula, name, values):
                return formula
    return None


def _line(name: str, slope: int, offset: int) -> str:
    scaled = name if slope == 1 else f"{slope}*{name}"
    return scaled if offset == 0 else f"{scaled} {'+' if offset > 0 else '-'} {abs(offset)}"


def _holds(formula: str, name: str, values: Mapping[int, int]) -> bool:
    return all(evaluate(formula, {name: at}) == value for at, value in values.items())


def _product(search: _Search, moving: Sequence[str], place: int) -> str | None:
    """A number times powers of the sizes, which doubling shows."""
    whole, factors = search.base[place], []
    for name in moving:
        values = _values(search, name, place)
        at = next(iter(search.points[name]))
        power = next((p for p in (1, 2, 3) if values[at] * search.knobs[name] ** p == whole * at**p), None)
        if power is None:
            return None
        factors += [name] * power
    shared = 1
    for name in factors:
        shared *= search.knobs[name]
    if whole % shared:
        return None
    formula = "*".join(factors) if whole == shared else f"{whole // shared}*{'*'.join(factors)}"
    return formula if _fits(search, moving, place, formula) else None


def _sum(search: _Search, moving: Sequence[str], place: int) -> str | None:
    """Each size times a number of its own, and one more number."""
    rest, terms = search.base[place], []
    for name in moving:
        values, base = _values(search, name, place), search.knobs[name]
        at = next(iter(search.points[name]))
        slope, left = divmod(values[at] - values[base], at - base)
        if left:
            return None
        rest -= slope * base
        terms.append(_line(name, slope, 0))
    formula = " + ".join((*terms, *([str(rest)] if rest else []))).replace("+ -1*", "- ").replace("+ -", "- ")
    return formula if _fits(search, moving, place, formula) else None


def _fits(search: _Search, moving: Sequence[str], place: int, formula: str) -> bool:
    return all(
        evaluate(formula, {**search.knobs, name: at}) == value
        for name in moving
        for at, value in _values(search, name, place).items()
    )


def _unfit(search: _Search, dims: Sequence[str], formulas: Sequence[str | None]) -> list[str]:
    """Sizes among which one has to be given up; empty when every formula holds, for all changed at once too."""
    for place, formula in enumerate(formulas):
        if formula is None:
            base = search.base[place]
            return [name for name in dims if any(seen[place] != base for seen in search.points[name].values())]
    if len(dims) < 2:
        return []
    for turn in (0, 1):
        sizes = {name: list(search.points[name])[min(turn, len(search.points[name]) - 1)] for name in dims}
        if not _as_said(search, sizes, formulas):
            return list(dims)
    return []


def _as_said(search: _Search, sizes: Mapping[str, int], formulas: Sequence[str | None]) -> bool:
    seen = search.probe(sizes)
    if seen is None or len(seen) != len(formulas):
        return False
    try:
        said = [evaluate(formula or "", {**search.knobs, **sizes}) for formula in formulas]
    except FormulaError:
        return False
    return list(seen) == said


def _limits(search: _Search, name: str, formulas: Sequence[str | None]) -> tuple[int, int]:
    """The smallest value that works, and what all have to be multiples of."""
    base = search.knobs[name]
    for step in (*STEPS, base):
        if base % step or step > base:
            continue
        low = next((n for n in (1, 2, 3, 4, 5, 7, 11, 16) if _as_said(search, {name: n * step}, formulas)), None)
        if low is None:
            continue
        others = [(low + more) * step for more in (1, 2, 4, 9)]
        if all(_as_said(search, {name: other}, formulas) for other in others):
            return low * step, step
    return base, base


def _raised(search: _Search, limits: dict[str, tuple[int, int]], formulas: Sequence[str | None]) -> None:
    """Smallest sizes that work one by one may not work together; they are doubled until they do."""
    for _ in range(DOUBLINGS):
        if _as_said(search, {name: low for name, (low, _) in limits.items()}, formulas):
            return
        for name, (low, step) in limits.items():
            limits[name] = (min(2 * low, search.knobs[name]), step)


def power_law(count: Callable[[Mapping[str, int]], int | None], dims: Mapping[str, int]) -> str | None:
    """A count as a number times powers of the sizes; None where it is no such product, or zero."""
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
