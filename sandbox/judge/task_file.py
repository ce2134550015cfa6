"""Find, read and check a `task.yaml`; every problem becomes one line with file, field and mend."""

import ast
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from ridgeline.graph.errors import WorldError
from ridgeline.graph.formula import FormulaError, evaluate
from ridgeline.graph.task import FLOAT8_LARGEST, NAME, Input, Shape, Task
from ridgeline.sandbox.store.yaml_file import NotReadable, document, explain_errors, fields_of_lines, unknown_keys

FILE_NAME = "task.yaml"
COMPILED = ("c", "cuda", "hip")
SUFFIXES = {"c": (".c",), "cuda": (".cu",), "hip": (".hip", ".cpp", ".cu")}
"""Of the first source of a compiled language; everything else is Python."""
INTEGER_TYPES = {"int64": 63, "int32": 31, "int16": 15, "int8": 7, "uint8": 8}
"""Bits of the whole-number types without the sign."""
LARGEST_ELEMENTS = 1 << 34
"""Of one array: 17 thousand million. More is a mistyped extent, and would take all memory before it is seen."""
RESERVED = ("label", "class", "Check", "Time (ms)")
"""Columns of the judge's own table."""


class TaskError(WorldError):
    """A task that cannot be used. The text has one line per problem, `task.yaml: field: what is wrong; mend`."""

    exit_code = 2


class LoadedTask(NamedTuple):
    """A task that agrees with the folder it lies in."""

    task: Task
    folder: Path
    """Absolute; the reference and the candidate's sources are relative to it."""


def load_task(path: Path) -> LoadedTask:
    """For the judge: read and check a task file, or the `task.yaml` of a folder. Raises `TaskError`, several problems at once."""
    file = _find_file(path)
    try:
        fields = document(file, empty="make one with `ridgeline init PATH --from-pytorch FILE`")
    except NotReadable as error:
        raise TaskError(str(error)) from None
    problems = [*unknown_keys(fields, Task)]
    try:
        task = Task.model_validate(fields)
    except ValidationError as error:
        problems += [line for line in explain_errors(error) if line.split(":")[0] not in fields_of_lines(problems)]
        raise _explain(file, problems) from None
    if problems := [*problems, *_names(task), *_values(task), *_sizes(task), *_files(task, file.parent)]:
        raise _explain(file, problems)
    return LoadedTask(task=task, folder=file.parent)


def _explain(file: Path, problems: list[str]) -> TaskError:
    return TaskError("\n".join(f"{file.name}: {line}" for line in problems))


def _find_file(path: Path) -> Path:
    file = path / FILE_NAME if path.is_dir() else path
    if file.is_file():
        return file.resolve()
    if path.is_dir():
        raise TaskError(f"{path}: has no {FILE_NAME}; make one with `ridgeline init {path} --from-pytorch FILE`")
    if not path.exists():
        raise TaskError(f"{path}: no such file; give a {FILE_NAME} or its folder")
    raise TaskError(f"{path}: is not a regular file; give a {FILE_NAME} or its folder")


def _names(task: Task) -> Iterator[str]:
    labels = [shape.label for shape in task.shapes]
    for label in sorted({label for label in labels if labels.count(label) > 1}):
        yield f"shapes: {label!r} labels two shapes; give each its own"
    if not task.timed:
        yield "shapes: none is timed; leave out `timed: false` for at least one"
    if not NAME.match(task.entry):
        yield f"entry: {task.entry!r} is not the name of a function; use letters, digits and _"
    arrays = {tensor.name for tensor in (*task.inputs, *task.outputs)}
    for name in task.shapes[0].dims:
        if not NAME.match(name) or name in (*RESERVED, *arrays):
            yield f"shapes: dimension {name!r} is no free name; use letters, digits and _, and no array's name"
    yield from _arguments(task)


def _arguments(task: Task) -> Iterator[str]:
    """For the judge: the arguments of a task's kernel: each array exactly once, and of the outputs only those that the caller makes."""
    names = task.order
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"arguments: {name!r} is named twice; remove one"
    outputs = {tensor.name for tensor in task.outputs}
    required = {tensor.name for tensor in task.inputs} | (outputs if task.convention == "out" else set())
    for name in sorted(required - set(names)):
        yield f"arguments: {name!r} is missing; the kernel needs every array"
    if task.convention == "return" and (both := sorted(outputs & set(names))):
        yield f"arguments: {', '.join(both)} is returned by the kernel; remove it, or write `convention: out`"


def _values(task: Task) -> Iterator[str]:
    for tensor in task.inputs:
        where = f"inputs.{tensor.name}"
        is_integer = tensor.dtype in INTEGER_TYPES
        if is_integer and tensor.values not in ("integers", "mask"):
            yield f"{where}.values: {tensor.dtype} holds whole numbers; write `values: integers` with low and high"
        if tensor.dtype == "bool" and tensor.values != "mask":
            yield f"{where}.values: bool holds 0 and 1; write `values: mask`"
        if tensor.values == "integers":
            yield from _bounds(tensor, where)
        if tensor.within is not None:
            yield from _check_within(tensor, tensor.within, where)
        if tensor.dtype in FLOAT8_LARGEST:
            yield from _check_largest(tensor, where)
    eights = [tensor.name for tensor in (*task.inputs, *task.outputs) if tensor.dtype in FLOAT8_LARGEST]
    if eights and task.precision in ("tf32", "emulated"):
        mend = "leave it out, or write `relaxed`"
        yield f"precision: {task.precision} is for products of float32, and {', '.join(eights)} is of 8 bits; {mend}"


def _check_largest(tensor: Input, where: str) -> Iterator[str]:
    """For the judge: ends of an 8-bit input that are beyond its type's largest number: e4m3fn has nothing there."""
    largest = FLOAT8_LARGEST[tensor.dtype]
    if tensor.values == "integers" and max(-tensor.low, tensor.high - 1) > largest:
        yield f"{where}: [{tensor.low}, {tensor.high}) goes beyond {largest:g}, the largest {tensor.dtype}; narrow it"
    if tensor.within is not None and max(map(abs, tensor.within)) > largest:
        low, high = tensor.within
        yield f"{where}.within: [{low:g}, {high:g}] goes beyond {largest:g}, the largest {tensor.dtype}; narrow it"


def _check_within(tensor: Input, ends: tuple[float, float], where: str) -> Iterator[str]:
    low, high = ends
    if tensor.values not in ("uniform", "positive"):
        yield f"{where}.within: is for `uniform` and `positive`; remove it, or write one of them as `values`"
    if not -math.inf < low < high < math.inf:
        yield f"{where}.within: [{low:g}, {high:g}] is no range; write [low, high]"
    elif tensor.values == "positive" and low < 0:
        yield f"{where}.within: begins below 0; write `values: uniform` for numbers of either sign"


def _bounds(tensor: Input, where: str) -> Iterator[str]:
    if tensor.high - tensor.low < 2:
        yield f"{where}.high: {tensor.low} is the only value in [{tensor.low}, {tensor.high}); give two or more to draw from"
    top = 1 << INTEGER_TYPES.get(tensor.dtype, 63)
    if tensor.high > top or tensor.low < (0 if tensor.dtype == "uint8" else -top):
        yield f"{where}: [{tensor.low}, {tensor.high}) does not fit {tensor.dtype}; correct the bounds or the dtype"


def _sizes(task: Task) -> Iterator[str]:
    """For the judge: extents and formulas that have no value, said once for the first shape that shows it."""
    fields: set[str] = set()
    for shape in task.shapes:
        for line in (*_dims(shape), *_extents(task, shape), *_work(task, shape)):
            field = line.split(":")[0]
            if field not in fields:
                fields.add(field)
                yield line
    yield from _check_drawn(task)


def _dims(shape: Shape) -> Iterator[str]:
    for name, size in shape.dims.items():
        if size < 1:
            yield f"shapes.{shape.label}.{name}: is {size}; give 1 or more"


def _extents(task: Task, shape: Shape) -> Iterator[str]:
    for kind, tensors in (("inputs", task.inputs), ("outputs", task.outputs)):
        for tensor in tensors:
            elements = 1.0
            for extent in tensor.shape:
                try:
                    size = evaluate(extent, shape.dims)
                except FormulaError as error:
                    yield f"{kind}.{tensor.name}.shape: {error}; use the shapes' dimensions"
                    break
                if size != int(size) or size < 0:
                    yield f"{kind}.{tensor.name}.shape: {extent!r} is {size:g} for {shape.label}; whole numbers only"
                    break
                elements *= size
            if elements > LARGEST_ELEMENTS:
                yield f"{kind}.{tensor.name}.shape: has {elements:.3g} elements for {shape.label}; correct the extents"


def _work(task: Task, shape: Shape) -> Iterator[str]:
    for field, formula in (("bytes", task.bytes), ("flops", task.flops)):
        if formula is None:
            continue
        try:
            least = 0.0 if field == "flops" else 1.0  # moving data is work without a single operation
            if evaluate(formula, shape.dims) < least:
                yield f"{field}: is less than {least:g} for {shape.label}; correct the formula or leave it out"
        except FormulaError as error:
            yield f"{field}: {error}; correct the formula"


def _check_drawn(task: Task) -> Iterator[str]:
    for name, (low, high) in task.drawn.ranges.items():
        step = task.drawn.multiples.get(name, 1)
        if not 1 <= low <= high:
            yield f"drawn.ranges.{name}: [{low}, {high}] is no range of sizes; write [low, high] from 1"
        elif step >= 1 and high // step * step < low:
            yield f"drawn.ranges.{name}: [{low}, {high}] holds no multiple of {step}; widen it"
    for name, step in task.drawn.multiples.items():
        if name not in task.drawn.ranges:
            yield f"drawn.multiples.{name}: has no range to draw from; add drawn.ranges.{name}"
        elif step < 1:
            yield f"drawn.multiples.{name}: is {step}; give 1 or more"


def _files(task: Task, folder: Path) -> Iterator[str]:
    for field, names in (("source", task.source), ("reference", (task.reference,))):
        for name in names:
            yield from _file(field, name, folder)
    if task.reference in task.source:
        yield f"reference: {task.reference} is among the candidate's sources; the reference is the judge's alone"
    if FILE_NAME in task.source:
        yield f"source: {FILE_NAME} is the judge's alone; remove it"
    entry_file = task.source[0]
    suffixes = SUFFIXES.get(task.language, (".py",))
    if not entry_file.endswith(suffixes):
        yield f"source: {entry_file!r} is no {task.language} source; its name must end in {' or '.join(suffixes)}"
    elif _is_file(folder / entry_file):
        yield from _entry(task, _text(folder / entry_file))
    if _is_file(folder / task.reference):
        yield from _reference(task, _text(folder / task.reference))


def _file(field: str, name: str, folder: Path) -> Iterator[str]:
    path = folder / name
    is_there = _is_file(path)
    place = path.resolve() if is_there else Path(os.path.normpath(path))
    if Path(name).is_absolute() or not place.is_relative_to(folder):
        yield f"{field}: {name!r} leaves the task's folder; give a path below {folder}"
    elif not is_there:
        yield f"{field}: {name!r} is no file in {folder}; write it, or correct the name"


def _is_file(path: Path) -> bool:
    """For the judge: whether a task names a file; False, too, for a name that no file can have."""
    return os.path.isfile(path)  # noqa: PTH113 (pathlib's raises)


def _entry(task: Task, text: str) -> Iterator[str]:
    if task.language in COMPILED:
        is_named = re.search(rf"\b{re.escape(task.entry)}\b", text) is not None
    else:
        # a module may make its entry in any way, so what is not even named there is what can be refused
        is_named = task.entry in re.findall(r"\w+", text)
    if not is_named:
        yield f"entry: {task.source[0]} has no {task.entry!r}; write the function, or correct the name"


def _reference(task: Task, text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        yield f"reference: {task.reference}:{line}: is no Python ({error}); correct that line"
        return
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    defined |= {
        n.id for node in tree.body if isinstance(node, ast.Assign) for n in node.targets if isinstance(n, ast.Name)
    }
    defined |= {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    if "reference" in defined or {"oracle", "trusted"} <= defined:
        return
    inputs = ", ".join(alias.name for alias in task.inputs)
    yield f"reference: {task.reference} defines no `reference({inputs})`; write it, outputs as its result"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def select_sizes(task: Task, labels: Sequence[str]) -> tuple[Shape, ...]:
    """For the judge: the timed sizes with these labels; all for none. Raises TaskError for an unknown one."""
    timed_sizes = {shape.label: shape for shape in task.timed}
    if missing := [label for label in labels if label not in timed_sizes]:
        raise TaskError(f"--shapes: {', '.join(missing)}: no timed size of the task; it has {', '.join(timed_sizes)}")
    return tuple(timed_sizes[label] for label in labels) or task.timed
