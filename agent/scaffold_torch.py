"""Makes a task folder out of a PyTorch file: finds its sizes, tries it, and writes what `ridgeline judge` needs."""

import ast
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from ridgeline.agent.errors import UserError
from ridgeline.agent.scaffold_arrays import Found, arguments, elements_of, notes, outputs, shapes_of
from ridgeline.agent.scaffold_texts import FILES, Plan, least_bytes, texts
from ridgeline.graph.task import NAME, DType
from ridgeline.sandbox.judge.task_file import RESERVED
from ridgeline.sandbox.judge.torch_source import (
    InferredSizes,
    SourceError,
    SourceShapes,
    TorchSource,
    fit_power_law,
    infer_sizes,
)

if TYPE_CHECKING:
    from ridgeline.sandbox.judge.lint import LintFinding

SMALL = 37
"""About the size of a small shape: no multiple of a tile, and quick in float64."""
AFFORDED = 1 << 20
"""Elements of all tensors together, up to which the file is really run at its own size."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """A task folder that was made."""

    folder: Path
    notes: tuple[str, ...]
    """What was assumed, and what to look at, one line each."""
    wrong: tuple[str, ...]
    """Why a wrong kernel may be called right, one line each: to be mended before anybody works on it."""


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
    holes, stops = _tried(plan, written)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    return Written(
        folder=folder,
        notes=(*plan.notes, *(f"{one.rule}: {one.text}" for one in holes if one not in stops)),
        wrong=tuple(f"{one.rule}: {one.text}" for one in stops),
    )


def _planned(source: TorchSource, file: Path) -> Plan:
    base = source.seen({})
    knobs = {name: value for name, value in source.knobs.items() if NAME.match(name) and name not in RESERVED}
    fixed = range(len(_extents(base)), len(_numbers(base)))
    used = _used(file.read_text(encoding="utf-8"))
    while True:
        found = infer_sizes(lambda sizes: _probed(source, sizes), knobs, fixed=fixed)
        if found is None:
            raise SourceError(f"{file.name}: cannot be run twice")
        lost = _inside(found, base, used if source.is_module else set())
        if not lost:
            break
        for name in lost:
            del knobs[name]
    found = found if found.dims else _one_size(base, found)
    small = _small(source, found)
    # what a call reads of its inputs hangs on their sizes, so where that is cheap the file's own are looked at
    elements = sum(elements_of(one) for one in (*base.inputs, *base.state, *base.outputs))
    facts = source.facts({} if elements <= AFFORDED else small)
    return _plan(source, file, Found(base=base, facts=facts, sized=found, small=small, used=used))


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


def _extents(seen: SourceShapes) -> tuple[int, ...]:
    tensors = [one.shape for one in (*seen.inputs, *seen.state, *seen.outputs)]
    return tuple(extent for shape in tensors for extent in shape)


def _numbers(seen: SourceShapes) -> tuple[int, ...]:
    """Extents, then what may not depend on a size: ranks and bounds."""
    ranks = [len(one.shape) for one in (*seen.inputs, *seen.state, *seen.outputs)]
    bounds = [bound for one in seen.inputs for bound in one.bounds or ()]
    return (*_extents(seen), *ranks, *bounds)


def _inside(found: InferredSizes, seen: SourceShapes, used: set[str]) -> list[str]:
    """Numbers that are no size of the problem, such as a kernel's width, or that the reference could not tell.

    A size is the extent of an input or output; one that a module is made with must be one of what goes in.
    """
    shapes = [*shapes_of(found, seen)]
    inputs, state = len(seen.inputs), len(seen.state)
    outside = {extent for shape in (*shapes[:inputs], *shapes[inputs + state :]) for extent in shape}
    given = {extent for shape in shapes[: inputs + state] for extent in shape}
    return [name for name in found.dims if name not in outside or (name in used and name not in given)]


def _one_size(seen: SourceShapes, found: InferredSizes) -> InferredSizes:
    """For a file without a size that can be chosen: one dimension of one value, which a table needs."""
    return InferredSizes(dims={"one": 1}, extents=found.extents, low={"one": 1}, step={"one": 1})


def _small(source: TorchSource, found: InferredSizes) -> dict[str, int]:
    """A small value for each size, if they work together; else empty."""
    small: dict[str, int] = {}
    for name, size in found.dims.items():
        low, step = found.low[name], found.step[name]
        small[name] = min(size, max(low, SMALL // step * step))
    changed = {name: size for name, size in small.items() if name in source.knobs and size != found.dims[name]}
    return small if changed and _probed(source, changed) is not None else {}


def _plan(source: TorchSource, file: Path, found: Found) -> Plan:
    base, facts = found.base, found.facts
    for one in (*base.inputs, *base.state, *base.outputs):
        if one.dtype and one.dtype not in get_args(DType):
            raise SourceError(f"{file.name}: has a tensor of {one.dtype}; tasks know {', '.join(get_args(DType))}")
    given = [*arguments(found)]
    if not any(one.literal is None for one in given):
        raise SourceError(f"{file.name}: get_inputs() gives no tensor")
    results = [*outputs(found, {one.name for one in given})]
    held = found.sized
    return Plan(
        name=_slug(file.stem),
        file=file.name,
        entry=source.entry,
        is_module=source.is_module,
        training=facts.training,
        arguments=tuple(given),
        outputs=tuple(results),
        dims=held.dims,
        made_with=tuple(name for name in held.dims if name in found.used) if source.is_module else (),
        has_init=source.has_init,
        random_parts=bool(facts.parts),
        small=found.small,
        ranges={name: (held.low[name], _highest(held, name)) for name in held.dims if held.low[name] < held.dims[name]},
        step=held.step,
        bytes=least_bytes((*given, *results)),
        flops=fit_power_law(lambda sizes: _flops(source, sizes), held.dims)
        if set(held.dims) <= set(source.knobs)
        else None,
        notes=tuple(notes(source, found)),
    )


def _slug(stem: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_") or "kernel"


def _highest(found: InferredSizes, name: str) -> int:
    """Unseen sizes go up to the file's own where that is small, else to a quarter of it."""
    size = found.dims[name]
    return size if size <= 256 else max(256, size // 4, found.low[name])


def _flops(source: TorchSource, sizes: Mapping[str, int]) -> int | None:
    try:
        return source.seen(sizes).flops
    except SourceError:
        return None


def _tried(plan: Plan, written: Mapping[str, str]) -> "tuple[tuple[LintFinding, ...], tuple[LintFinding, ...]]":
    """Ask the new reference, at its smallest size, before anything is kept; its holes, and the worst of them."""
    import numpy as np

    from ridgeline.sandbox.judge.inputs import draw
    from ridgeline.sandbox.judge.lint import blocking, lint_task
    from ridgeline.sandbox.judge.references import Reference
    from ridgeline.sandbox.judge.task_file import load_task

    with tempfile.TemporaryDirectory(prefix="ridgeline-") as place:
        for name, text in written.items():
            (Path(place) / name).write_text(text, encoding="utf-8")
        task, folder = load_task(Path(place))
        shape = min(task.shapes, key=lambda one: sum(one.dims.values()))
        inputs = draw(task, shape.dims, "normal", np.random.default_rng(1))
        with Reference(task, folder) as reference:
            reference.trusted(inputs)
            holes = lint_task(task, reference)
    if wrong := [hole for hole in holes if hole.rule == "wrong-shape"]:
        raise SourceError(f"{plan.file}: {wrong[0].text}")
    return holes, blocking(task, holes)
