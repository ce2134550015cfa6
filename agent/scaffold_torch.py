"""Makes a task folder out of a PyTorch file: finds its sizes, tries it, and writes what `ridgeline judge` needs."""

import ast
import keyword
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from agent.errors import UserError
from agent.scaffold_texts import FILES, Argument, Plan, least_bytes, texts
from graph.task import NAME, DType
from sandbox.judge.sizes import Sized, power_law, sized
from sandbox.judge.task_file import RESERVED
from sandbox.judge.torch_source import Facts, InputSeen, Seen, SourceError, StateSeen, TensorSeen, TorchSource

SMALL = 37
"""About the size of a small shape: no multiple of a tile, and quick in float64."""
LARGE_ELEMENTS = 1 << 28
"""Of all tensors together, from which on judging on a processor takes minutes per call."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """A task folder that was made."""

    folder: Path
    notes: tuple[str, ...]
    """What was assumed, and what to look at, one line each."""


def write(folder: Path, file: Path, *, entry: str | None, kernelbench: bool = False) -> Written:
    """Make a task of the function or module `entry` of `file`. Raises `UserError`, and SourceError for the file.

    `kernelbench`: the file keeps to KernelBench's convention, with `Model`, `get_inputs` and `get_init_inputs`.
    """
    if taken := [name for name in FILES if (folder / name).exists()]:
        raise UserError(f"{folder}: has {taken[0]} already; give a new folder, or move it away first")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is no folder; give one, or a name that is free")
    with TorchSource(file, entry or ("Model" if kernelbench else None)) as source:
        plan = _planned(source, file)
    written = texts(plan, file.read_text(encoding="utf-8"))
    holes = _tried(plan, written)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    return Written(folder=folder, notes=(*plan.notes, *holes))


def _planned(source: TorchSource, file: Path) -> Plan:
    base = source.seen({})
    knobs = {name: value for name, value in source.knobs.items() if NAME.match(name) and name not in RESERVED}
    fixed = range(len(_extents(base)), len(_numbers(base)))
    used = _used(file.read_text(encoding="utf-8"))
    while True:
        found = sized(lambda sizes: _probed(source, sizes), knobs, fixed=fixed)
        if found is None:
            raise SourceError(f"{file.name}: cannot be run twice")
        lost = _inside(found, base, used if source.is_module else set())
        if not lost:
            break
        for name in lost:
            del knobs[name]
    found = found if found.dims else _one_size(base, found)
    small = _small(source, found)
    facts = source.facts(small)
    return _plan(source, file, _Found(base=base, facts=facts, sized=found, small=small, used=used))


@dataclass(frozen=True, kw_only=True)
class _Found:
    base: Seen
    facts: Facts
    sized: Sized
    small: Mapping[str, int]
    used: set[str]


def _used(text: str) -> set[str]:
    """Names that are used anywhere but in get_inputs(): sizes among them matter to how a module is made."""
    tree = ast.parse(text)
    kept = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name == "get_inputs")]
    names = (one for node in kept for one in ast.walk(node) if isinstance(one, ast.Name))
    return {one.id for one in names if isinstance(one.ctx, ast.Load)}


def _probed(source: TorchSource, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    try:
        return _numbers(source.seen(sizes))
    except SourceError:
        return None


def _extents(seen: Seen) -> tuple[int, ...]:
    tensors = [one.shape for one in (*seen.inputs, *seen.state, *seen.outputs)]
    return tuple(extent for shape in tensors for extent in shape)


def _numbers(seen: Seen) -> tuple[int, ...]:
    """Extents, then what may not depend on a size: ranks and bounds."""
    ranks = [len(one.shape) for one in (*seen.inputs, *seen.state, *seen.outputs)]
    bounds = [bound for one in seen.inputs for bound in one.bounds or ()]
    return (*_extents(seen), *ranks, *bounds)


def _shapes(found: Sized, seen: Seen) -> Iterator[tuple[str, ...]]:
    """Extents of each tensor as arithmetic, in the order of `_extents`."""
    at = 0
    for one in (*seen.inputs, *seen.state, *seen.outputs):
        yield found.extents[at : at + len(one.shape)]
        at += len(one.shape)


def _inside(found: Sized, seen: Seen, used: set[str]) -> list[str]:
    """Numbers that are no size of the problem, such as a kernel's width, or that the reference could not tell.

    A size is the extent of an input or output; one that a module is made with must be one of what goes in.
    """
    shapes = [*_shapes(found, seen)]
    inputs, state = len(seen.inputs), len(seen.state)
    outside = {extent for shape in (*shapes[:inputs], *shapes[inputs + state :]) for extent in shape}
    given = {extent for shape in shapes[: inputs + state] for extent in shape}
    return [name for name in found.dims if name not in outside or (name in used and name not in given)]


def _one_size(seen: Seen, found: Sized) -> Sized:
    """For a file without a size that can be chosen: one dimension of one value, which a table needs."""
    return Sized(dims={"one": 1}, extents=found.extents, low={"one": 1}, step={"one": 1})


def _small(source: TorchSource, found: Sized) -> dict[str, int]:
    """A small value for each size, if they work together; else empty."""
    small: dict[str, int] = {}
    for name, size in found.dims.items():
        low, step = found.low[name], found.step[name]
        small[name] = min(size, max(low, SMALL // step * step))
    changed = {name: size for name, size in small.items() if name in source.knobs and size != found.dims[name]}
    return small if changed and _probed(source, changed) is not None else {}


def _plan(source: TorchSource, file: Path, found: _Found) -> Plan:
    base, facts = found.base, found.facts
    for one in (*base.inputs, *base.state, *base.outputs):
        if one.dtype and one.dtype not in get_args(DType):
            raise SourceError(f"{file.name}: has a tensor of {one.dtype}; tasks know {', '.join(get_args(DType))}")
    arguments = [*_arguments(found)]
    if not any(one.literal is None for one in arguments):
        raise SourceError(f"{file.name}: get_inputs() gives no tensor")
    outputs = [*_outputs(found, {one.name for one in arguments})]
    held = found.sized
    return Plan(
        name=_slug(file.stem),
        file=file.name,
        entry=source.entry,
        is_module=source.is_module,
        training=facts.training,
        arguments=tuple(arguments),
        outputs=tuple(outputs),
        dims=held.dims,
        made_with=tuple(name for name in held.dims if name in found.used) if source.is_module else (),
        has_init=source.has_init,
        small=found.small,
        ranges={name: (held.low[name], _highest(held, name)) for name in held.dims if held.low[name] < held.dims[name]},
        step=held.step,
        bytes=least_bytes((*arguments, *outputs)),
        flops=power_law(lambda sizes: _flops(source, sizes), held.dims)
        if set(held.dims) <= set(source.knobs)
        else None,
        notes=tuple(_notes(source, found)),
    )


def _arguments(found: _Found) -> Iterator[Argument]:
    """Inputs, then the parameters and buffers that the result depends on."""
    base, facts = found.base, found.facts
    shapes, taken = _shapes(found.sized, base), set(found.sized.dims)
    for place, one in enumerate(base.inputs):
        name = _free(one.name, taken)
        mutated = "mutated" if place in facts.mutated else "per_call"
        values, bounds = _values(one, place, facts)
        yield Argument(
            name=name, shape=next(shapes), dtype=one.dtype, values=values, bounds=bounds, constness=mutated,
            literal=one.literal,
        )  # fmt: skip
    for state in base.state:
        shape = next(shapes)
        if not state.buffer or state.name in facts.buffers:
            values = "positive" if state.buffer else "normal"
            name = _free(state.name.replace(".", "_"), taken)
            yield Argument(
                name=name, shape=shape, dtype=state.dtype, values=values, constness="const", state=state.name
            )


def _values(one: InputSeen, place: int, facts: Facts) -> tuple[str, tuple[int, int] | None]:
    """How an input is drawn."""
    if one.dtype == "bool" or place in facts.masks:
        return "mask", None
    if one.dtype.startswith(("int", "uint")):
        bounds = one.bounds or facts.inputs[place].bounds or (0, 2)
        return "integers", (bounds[0], max(bounds[1], bounds[0] + 2))
    return ("normal" if facts.normal else "positive"), None


def _outputs(found: _Found, taken: set[str]) -> Iterator[Argument]:
    base = found.base
    shapes = [*_shapes(found.sized, base)][len(base.inputs) + len(base.state) :]
    names = {*taken, *found.sized.dims}
    for place, (one, shape) in enumerate(zip(base.outputs, shapes, strict=True)):
        wanted = "out" if len(shapes) == 1 else f"out{place}"
        yield Argument(name=_free(wanted, names), shape=shape, dtype=one.dtype)


def _free(name: str, taken: set[str]) -> str:
    """A name for an array that nothing else has."""
    plain = re.sub(r"\W", "_", name)
    plain = f"p{plain}" if plain[:1].isdigit() else plain
    while plain in taken or keyword.iskeyword(plain):
        plain += "_"
    taken.add(plain)
    return plain


def _slug(stem: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_") or "kernel"


def _highest(found: Sized, name: str) -> int:
    """Unseen sizes go up to the file's own where that is small, else to a quarter of it."""
    size = found.dims[name]
    return size if size <= 256 else max(256, size // 4, found.low[name])


def _flops(source: TorchSource, sizes: Mapping[str, int]) -> int | None:
    try:
        return source.seen(sizes).flops
    except SourceError:
        return None


def _notes(source: TorchSource, found: _Found) -> Iterator[str]:
    facts, held = found.facts, found.sized
    if held.dims == {"one": 1}:
        yield "no size of it can be chosen: unseen sizes cannot be tried, so a kernel for this one size alone passes"
    if not facts.normal:
        yield "its result is not finite for inputs from N(0,1): inputs are drawn from (0.1, 1) instead"
    if not facts.training:
        yield "its result is random in training mode, so it is judged in eval mode"
    if any(state.buffer and state.name not in facts.buffers for state in found.base.state):
        yield "buffers that do not change the result are no inputs"
    if not source.is_module:
        yield "all inputs change at every call; write `constness: const` for weights in task.yaml"
    elements = sum(_size(one) for one in (*found.base.inputs, *found.base.state, *found.base.outputs))
    if elements > LARGE_ELEMENTS:
        yield f"{elements:.2g} elements: on a processor each judged call takes minutes; lower the sizes in task.yaml"


def _size(one: InputSeen | StateSeen | TensorSeen) -> int:
    total = 1
    for extent in one.shape:
        total *= extent
    return total


def _tried(plan: Plan, written: Mapping[str, str]) -> tuple[str, ...]:
    """Ask the new reference, at its smallest size, before anything is kept; holes of the task, one line each."""
    import numpy as np

    from sandbox.judge.inputs import draw
    from sandbox.judge.lint import lint
    from sandbox.judge.references import Reference
    from sandbox.judge.task_file import load_task

    with tempfile.TemporaryDirectory(prefix="ridgeline-") as place:
        for name, text in written.items():
            (Path(place) / name).write_text(text, encoding="utf-8")
        task, folder = load_task(Path(place))
        shape = min(task.shapes, key=lambda one: sum(one.dims.values()))
        inputs = draw(task, shape.dims, "normal", np.random.default_rng(1))
        with Reference(task, folder) as reference:
            reference.trusted(inputs)
            holes = lint(task, reference)
    if wrong := [hole for hole in holes if hole.rule == "wrong-shape"]:
        raise SourceError(f"{plan.file}: {wrong[0].text}")
    return tuple(f"{hole.rule}: {hole.text}" for hole in holes)
