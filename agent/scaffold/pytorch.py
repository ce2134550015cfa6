"""Makes a task folder out of a PyTorch file: finds its sizes, tries it, and writes what `ridgeline judge` needs."""

import ast
import keyword
import math
import re
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from ridgeline.agent.errors import UserError
from ridgeline.graph.task import NAME, DType
from ridgeline.sandbox.judge.task_file import RESERVED
from ridgeline.sandbox.judge.torch_source import (
    InferredSizes,
    InputFacts,
    RunFacts,
    SourceError,
    SourceShapes,
    StateFacts,
    TensorFacts,
    TorchSource,
    fit_power_law,
    infer_sizes,
)

# The files of a task that was made from a PyTorch file, as text.

FILES = ("task.yaml", "reference.py", "kernel.py", "ridgeline.yaml", "README.md")
SIMPLE = re.compile(r"[A-Za-z_]\w*|\d+")
ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
    "bool": 1,
}  # fmt: skip
LONGEST_FORMULA = 400
SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One array, or a plain value that is written into the reference."""

    name: str
    shape: tuple[str, ...] = ()
    dtype: str = ""
    values: str = "normal"
    bounds: tuple[int, int] | None = None
    within: tuple[float, float] | None = None
    constness: str = "per_call"
    literal: str | None = None
    state: str | None = None
    """Dotted name of the parameter or buffer that it stands for."""
    partly: bool = False
    """Whether a call may read only a part of it."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that the files say."""

    name: str
    file: str
    entry: str
    is_module: bool
    training: bool
    arguments: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    dims: Mapping[str, int]
    made_with: tuple[str, ...]
    """Sizes that a module is made with."""
    has_init: bool
    random_parts: bool
    """Whether a module is made with random tensors that are no parameters and no buffers."""
    small: Mapping[str, int]
    """A second size for correctness alone; empty where there is none."""
    ranges: Mapping[str, tuple[int, int]]
    step: Mapping[str, int]
    bytes: str | None
    flops: str | None
    notes: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """Arrays that a kernel reads."""
        return tuple(argument for argument in self.arguments if argument.literal is None)

    @property
    def function(self) -> str:
        """Name of the kernel's function."""
        return "run" if self.entry != "run" else "run_kernel"


def texts(plan: Plan, source: str) -> dict[str, str]:
    """All files by name."""
    text = source.rstrip() + "\n"
    return {
        "task.yaml": _task(plan),
        "reference.py": text
        + _write_call(plan, "reference", "The outputs for these inputs; asked by the judge alone."),
        "kernel.py": text + _write_call(plan, plan.function, "The version to beat: PyTorch, as it was given."),
        "ridgeline.yaml": _contract(plan),
        "README.md": _readme(plan),
    }


def _task(plan: Plan) -> str:
    """Text of task.yaml."""
    lines = [
        f"# Made from {plan.file} by `ridgeline init`. Try it: `ridgeline judge test task.yaml`.",
        "task: 1",
        f"name: {plan.name}",
        "language: triton            # or python, cuda, hip, c: with another source and, if needed, another entry",
        "source: [kernel.py]",
        f"entry: {plan.function}",
        "reference: reference.py",
        "convention: return          # the kernel returns its outputs",
        "inputs:",
        *(f"  - {_array(argument)}" for argument in plan.inputs),
        "outputs:",
        *(f"  - {_array(argument)}" for argument in plan.outputs),
        "shapes:",
        f"  - {{label: given, dims: {_mapping(plan.dims)}}}",
    ]
    if plan.small:
        lines.append(f"  - {{label: small, dims: {_mapping(plan.small)}, timed: false}}")
    if plan.ranges:
        steps = {name: step for name, step in plan.step.items() if step > 1 and name in plan.ranges}
        ranges = ", ".join(f"{name}: [{low}, {high}]" for name, (low, high) in plan.ranges.items())
        lines.append(f"drawn:                      # sizes that no candidate has seen\n  ranges: {{{ranges}}}")
        lines += [f"  multiples: {_mapping(steps)}"] if steps else []
    lines += [
        "precision: strict           # or relaxed, tf32, emulated",
        "library: reported           # forbidden: operators of PyTorch or a vendor are not accepted as own work",
        "cache: warm",
        f'bytes: "{plan.bytes}"' if plan.bytes else '# bytes: "..."   # least bytes of one call, over the dimensions',
        f'flops: "{plan.flops}"' if plan.flops else '# flops: "..."   # operations of one call, over the dimensions',
    ]
    return "\n".join(lines) + "\n"


def _array(argument: Argument) -> str:
    """One array of task.yaml, as a mapping in a line."""
    shape = ", ".join(extent if SIMPLE.fullmatch(extent) else f'"{extent}"' for extent in argument.shape)
    words = [f"name: {argument.name}", f"shape: [{shape}]", f"dtype: {argument.dtype}"]
    words += [f"constness: {argument.constness}"] if argument.constness != "per_call" else []
    words += [f"values: {argument.values}"] if argument.values != "normal" else []
    words += [f"low: {argument.bounds[0]}, high: {argument.bounds[1]}"] if argument.bounds else []
    words += [f"within: [{argument.within[0]!r}, {argument.within[1]!r}]"] if argument.within else []
    return f"{{{', '.join(words)}}}"


def _mapping(numbers: Mapping[str, int]) -> str:
    return f"{{{', '.join(f'{name}: {number}' for name, number in numbers.items())}}}"


def _write_call(plan: Plan, name: str, meaning: str) -> str:
    """The end of a source: one function of the inputs, by names that the source itself is unlikely to use."""
    body = "\n".join(_module_call(plan) if plan.is_module else _plain_call(plan))
    head = _making(plan) if plan.is_module else f"_given = {plan.entry}\n"
    needs = "import functools as _functools\n" if plan.is_module else ""
    parameters = ", ".join(argument.name for argument in plan.inputs)
    return (
        f"\n\n# Added by `ridgeline init`: the same as a function of arrays alone.\n"
        f"{needs}import torch as _torch\n\n{head}\n\n"
        f"def {name}({parameters}):\n"
        f'    """{meaning}"""\n'
        f"    with _torch.no_grad():\n{textwrap.indent(body, ' ' * 8)}\n"
        f"    return {_write_return(plan)}\n"
    )


def _write_return(plan: Plan) -> str:
    """A single result may come as it is or in a list of one."""
    if len(plan.outputs) > 1:
        return "tuple(one.contiguous() for one in result)"
    return "(result[0] if isinstance(result, list | tuple) else result).contiguous()"


MADE = '''
def _made():
    """The module with the same random numbers at every run: those of float32, in whatever type it is asked for."""
    usual = _torch.get_default_dtype()
    _torch.set_default_dtype(_torch.float32)
    _torch.manual_seed(0)
    try:
        with _torch._C.DisableTorchFunction():
            return {made}
    finally:
        _torch.set_default_dtype(usual)


def _moved(value, device, dtype):
    """A tensor that the module holds as no parameter and no buffer, where and as wide as these are."""
    if type(value) in (list, tuple):
        return type(value)(_moved(one, device, dtype) for one in value)
    if type(value) is not _torch.Tensor:
        return value
    return value.to(device, dtype if dtype == _torch.float64 and value.is_floating_point() else None)

'''


def _making(plan: Plan) -> str:
    """A function that makes the module for some sizes, once."""
    names = plan.made_with
    parameters = "".join(f", {name}" for name in names)
    update = f"    globals().update({', '.join(f'{name}={name}' for name in names)})\n" if names else ""
    construction = f"{plan.entry}({'*get_init_inputs()' if plan.has_init else ''})"
    made_so = f".to(device, dtype){'' if plan.training else '.eval()'}\n"
    head = f"\n@_functools.lru_cache(maxsize=8)\ndef _module(device, dtype{parameters}):\n{update}"
    if not plan.random_parts:
        return f"{head}    _torch.manual_seed(0)\n    return {construction}{made_so}"
    return (
        f"{MADE.format(made=construction)}{head}"
        "    module = _made()\n"
        "    for part in module.modules():\n"
        "        for name, value in list(vars(part).items()):\n"
        "            if type(value) in (_torch.Tensor, list, tuple):\n"
        "                setattr(part, name, _moved(value, device, dtype))\n"
        f"    return module{made_so}"
    )


def _module_call(plan: Plan) -> Iterator[str]:
    """Lines that call the file's module with the arrays of `plan`."""
    float_input = next((argument for argument in plan.inputs if argument.dtype in SHORT), plan.inputs[0])
    dtype = f"{float_input.name}.dtype" if float_input.dtype in SHORT else "_torch.float32"
    yield f"module = _module(\n    {float_input.name}.device,"
    yield f"    {dtype},"
    yield from (f"    {name}={_locate_size(plan, name)}," for name in plan.made_with)
    yield ")"
    state = [f'    "{argument.state}": {argument.name},' for argument in plan.arguments if argument.state]
    yield from ("state = {", *state, "}") if state else ("state = {}",)
    call_arguments = _write_arguments(plan)
    yield f"result = _torch.func.functional_call(module, state, ({call_arguments}{'' if ', ' in call_arguments else ','}))"


def _locate_size(plan: Plan, dim: str) -> str:
    """Where a size can be read: the extent of an array that is equal to it."""
    return next(
        (f"{argument.name}.shape[{argument.shape.index(dim)}]" for argument in plan.inputs if dim in argument.shape), ""
    )


def _plain_call(plan: Plan) -> Iterator[str]:
    yield f"result = _given({_write_arguments(plan)})"


def _write_arguments(plan: Plan) -> str:
    """What the file's own function is called with."""
    return ", ".join(argument.literal or argument.name for argument in plan.arguments if argument.state is None)


def _contract(plan: Plan) -> str:
    """Text of ridgeline.yaml."""
    columns = ", ".join(["label", *plan.dims, "class", "Check", "Time (ms)"])
    work = [f'{kind}: "{formula}"' for kind, formula in (("flops", plan.flops), ("bytes", plan.bytes)) if formula]
    dtype = next((SHORT[argument.dtype] for argument in plan.outputs if argument.dtype in SHORT), plan.outputs[0].dtype)
    judge = "ridgeline judge"
    lines = [
        f"# Made from {plan.file} by `ridgeline init`. The harness is Ridgeline's own: see task.yaml.",
        f"target_op: {plan.name}",
        "target_backend: TRITON",
        "target_gpu: null           # product or architecture, for example MI300X or gfx942; cpu for this processor",
        f"dtype: {dtype}",
        "kernel_source: [kernel.py]",
        "protected: [task.yaml, reference.py]",
        f"test_command: {judge} test task.yaml",
        f"benchmark_command: {judge} bench task.yaml --csv {{csv}}",
        f"quick_command: {judge} bench task.yaml --csv {{csv}} --shapes {{shapes}}",
        f"paired_command: {judge} pair task.yaml {{a}} {{b}} --csv {{csv}} --shapes {{shapes}} --blocks {{blocks}}"
        " --seed {seed}",
        "benchmark_output:",
        f"  columns: [{columns}]",
        "  config_columns: [class]",
        "scoring:",
        "  primary_metric: Time (ms)",
        "  higher_is_better: false",
        "  time_ms: Time (ms)",
        "execution_mode: repo",
        "rebuild: {required: false}",
        "timeouts: {test_s: 1200, benchmark_s: 1800}",
        *([f"work: {{{', '.join(work)}}}"] if work else []),
    ]
    return "\n".join(lines) + "\n"


def _readme(plan: Plan) -> str:
    """Text of README.md."""
    notes = _list_lines(plan.notes or ("nothing out of the ordinary was met",))
    call = f"{plan.function}({', '.join(argument.name for argument in plan.inputs)})"
    inputs = _list_lines(
        [
            f"`{argument.name}` [{', '.join(argument.shape)}], {argument.dtype}, {argument.constness}"
            for argument in plan.inputs
        ]
    )
    return f"""# {plan.name}

Made from `{plan.file}` (`{plan.entry}`) by `ridgeline init`.

| file | is |
|---|---|
| `kernel.py` | the kernel to be made faster: `{call}`; today PyTorch, as given |
| `reference.py` | what is right; the judge runs it in float64 and in the task's own types, and no candidate sees it |
| `task.yaml` | inputs, sizes, precision and what a library may do |
| `ridgeline.yaml` | the contract of a campaign; its commands call the judge |

Inputs:

{inputs}

What was assumed:

{notes}

Commit the folder to a git repository, then `ridgeline check .`, and `ridgeline run .` for a campaign.
"""


def _list_lines(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def least_bytes(arrays: tuple[Argument, ...]) -> str | None:
    """Each array once that a call reads or writes all of: the least that it can move."""
    terms: dict[str, int] = {}
    for array in arrays:
        if array.literal is None and not array.partly:
            product = "*".join(extent if SIMPLE.fullmatch(extent) else f"({extent})" for extent in array.shape) or "1"
            terms[product] = terms.get(product, 0) + ITEM_BYTES[array.dtype] * (
                2 if array.constness == "mutated" else 1
            )
    formula = " + ".join(f"{count}*{product}" for product, count in terms.items())
    return formula if len(formula) <= LONGEST_FORMULA else None


# The arrays of a task that is made of a PyTorch file, how each is drawn, and what a person must know of them.

LARGE_ELEMENTS = 1 << 28
"""Of all tensors together, from which on judging on a processor takes minutes per call."""
FIXED_EXTENT = 8
"""From here on an extent that is the same at all sizes is told; smaller ones are widths of windows and the like."""
FAR = 8.0
"""Numbers that N(0,1) hardly gives."""


@dataclass(frozen=True, kw_only=True)
class SourceAnalysis:
    """A file that was looked at."""

    base: SourceShapes
    facts: RunFacts
    sized: InferredSizes
    small: Mapping[str, int]
    used: set[str]


def shapes_of(sizes: InferredSizes, shapes: SourceShapes) -> Iterator[tuple[str, ...]]:
    """Extents of each tensor as arithmetic, in the order of inputs, state, outputs."""
    at = 0
    for tensor in (*shapes.inputs, *shapes.state, *shapes.outputs):
        yield sizes.extents[at : at + len(tensor.shape)]
        at += len(tensor.shape)


def fixed_buffers(analysis: SourceAnalysis) -> tuple[str, ...]:
    """Buffers that keep the values that the module makes; none where a size can only be read off one of them."""
    buffers, base = set(analysis.facts.constant_buffers), analysis.base
    names = [*(tensor.name for tensor in base.inputs), *(tensor.name for tensor in base.state)]
    shapes = zip(names, shapes_of(analysis.sized, base), strict=False)
    readable_extents = {extent for name, shape in shapes if name not in buffers for extent in shape}
    return (
        analysis.facts.constant_buffers
        if {name for name in analysis.sized.dims if name in analysis.used} <= readable_extents
        else ()
    )


def arguments(analysis: SourceAnalysis) -> Iterator[Argument]:
    """Inputs, then the parameters and buffers that the result depends on."""
    base, facts = analysis.base, analysis.facts
    shapes, used_names, buffers = shapes_of(analysis.sized, base), set(analysis.sized.dims), fixed_buffers(analysis)
    for place, tensor in enumerate(base.inputs):
        distribution = _choose_distribution(tensor, place, facts)
        yield Argument(
            name=_free(tensor.name, used_names), shape=next(shapes), dtype=tensor.dtype, values=distribution.values,
            bounds=distribution.bounds, within=distribution.within, literal=tensor.literal,
            constness="mutated" if place in facts.mutated else "per_call", partly=tensor.name in facts.partial,
        )  # fmt: skip
    for state in base.state:
        shape = next(shapes)
        if state.name not in buffers and (not state.buffer or state.name in facts.buffers):
            values = facts.buffers[state.name] if state.buffer else "normal"
            name = _free(state.name.replace(".", "_"), used_names)
            yield Argument(
                name=name, shape=shape, dtype=state.dtype, values=values, constness="const", state=state.name,
                partly=state.name in facts.partial,
            )  # fmt: skip


class _Distribution(NamedTuple):
    values: str
    bounds: tuple[int, int] | None = None
    within: tuple[float, float] | None = None


def _choose_distribution(tensor: InputFacts, place: int, facts: RunFacts) -> _Distribution:
    """How an input is drawn: from N(0,1) where that has finite results, else as get_inputs() does."""
    if tensor.dtype == "bool" or place in facts.masks:
        return _Distribution("mask")
    if tensor.dtype.startswith(("int", "uint")):
        bounds = tensor.bounds or facts.inputs[place].bounds or (0, 2)
        return _Distribution("integers", (bounds[0], max(bounds[1], bounds[0] + 2)))
    if facts.normal or (facts.inside and place not in facts.inside):
        return _Distribution("normal")
    ends = facts.input_ranges[place] if facts.inside else None
    return _Distribution("uniform" if ends and ends[0] < 0 else "positive", within=ends)


def outputs(analysis: SourceAnalysis, argument_names: set[str]) -> Iterator[Argument]:
    """What comes out."""
    base = analysis.base
    shapes = [*shapes_of(analysis.sized, base)][len(base.inputs) + len(base.state) :]
    names = {*argument_names, *analysis.sized.dims}
    for place, (tensor, shape) in enumerate(zip(base.outputs, shapes, strict=True)):
        name = "out" if len(shapes) == 1 else f"out{place}"
        yield Argument(name=_free(name, names), shape=shape, dtype=tensor.dtype)


def _free(name: str, used_names: set[str]) -> str:
    """A name for an array that nothing else has."""
    plain = re.sub(r"\W", "_", name)
    plain = f"p{plain}" if plain[:1].isdigit() else plain
    while plain in used_names or keyword.iskeyword(plain):
        plain += "_"
    used_names.add(plain)
    return plain


def notes(source: TorchSource, analysis: SourceAnalysis) -> Iterator[str]:
    """What was assumed, one line each."""
    facts, sizing = analysis.facts, analysis.sized
    if sizing.dims == {"one": 1}:
        yield "no size of it can be chosen: unseen sizes cannot be tried, so a kernel for this one size alone passes"
    else:
        yield from _find_fixed_extents(analysis)
    yield from _ranges(analysis)
    if not facts.training:
        yield "its result is random in training mode, so it is judged in eval mode"
    yield from _constants(analysis)
    if partly := [argument.name for argument in arguments(analysis) if argument.partly and argument.literal is None]:
        yield f"{', '.join(partly)}: a call reads only a part, or may; `bytes` leaves it out"
    if not source.is_module:
        yield "all inputs change at every call; write `constness: const` for weights in task.yaml"
    elements = sum(
        elements_of(tensor) for tensor in (*analysis.base.inputs, *analysis.base.state, *analysis.base.outputs)
    )
    if elements > LARGE_ELEMENTS:
        yield f"{elements:.2g} elements: on a processor each judged call takes minutes; lower the sizes in task.yaml"


def _find_fixed_extents(analysis: SourceAnalysis) -> Iterator[str]:
    """Extents of inputs that no unseen size changes."""
    for tensor, shape in zip(analysis.base.inputs, shapes_of(analysis.sized, analysis.base), strict=False):
        if same := [extent for extent in shape if extent.isdecimal() and int(extent) >= FIXED_EXTENT]:
            yield (
                f"{tensor.name}: {' and '.join(same)} stays at all sizes: a kernel for that extent alone passes; "
                "if it may vary, name it as a number of the file that sets shapes alone"
            )


def _ranges(analysis: SourceAnalysis) -> Iterator[str]:
    """Where inputs are drawn otherwise than get_inputs() does, or than usual."""
    facts = analysis.facts
    if not facts.normal and not facts.inside:
        yield "its result is not finite for N(0,1), nor for what get_inputs() gives: inputs are drawn from (0.1, 1)"
    for tensor, ends, place in zip(
        analysis.base.inputs, facts.input_ranges, range(len(facts.input_ranges)), strict=True
    ):
        if place in facts.inside:
            interval = f"[{ends[0]:g}, {ends[1]:g}], as get_inputs() draws it" if ends else "(0.1, 1)"
            yield f"{tensor.name}: its result is not finite for N(0,1): it is drawn from {interval}"
        elif ends is not None and max(abs(ends[0]), abs(ends[1])) > FAR:
            yield (
                f"{tensor.name}: get_inputs() gives [{ends[0]:g}, {ends[1]:g}]; it is drawn from N(0,1), and "
                "sometimes from further out; `values: uniform` with `within` keeps it to a range"
            )


def _constants(analysis: SourceAnalysis) -> Iterator[str]:
    """Which tensors are no inputs, and why."""
    facts, buffers = analysis.facts, fixed_buffers(analysis)
    if buffers:
        yield f"{', '.join(buffers)}: a constant that the module makes, and so no input: a kernel makes it itself"
    if facts.parts:
        yield (
            f"{', '.join(facts.parts)}: made by chance, neither parameter nor buffer: a constant now, made with "
            "seed 0 in reference and kernel alike"
        )
    if any(state.buffer and state.name not in facts.buffers for state in analysis.base.state):
        yield "buffers that do not change the result are no inputs"


def elements_of(tensor: InputFacts | StateFacts | TensorFacts) -> int:
    """How many numbers it holds."""
    return math.prod(tensor.shape)


if TYPE_CHECKING:
    from ridgeline.sandbox.judge.lint import LintFinding

SMALL = 37
"""About the size of a small shape: no multiple of a tile, and quick in float64."""
AFFORDED = 1 << 20
"""Elements of all tensors together, up to which the file is really run at its own size."""


@dataclass(frozen=True, kw_only=True)
class TaskFolder:
    """A task folder that was made."""

    folder: Path
    notes: tuple[str, ...]
    """What was assumed, and what to look at, one line each."""
    wrong: tuple[str, ...]
    """Why a wrong kernel may be called right, one line each: to be mended before anybody works on it."""


def write(folder: Path, file: Path, *, entry: str | None, kernelbench: bool = False) -> TaskFolder:
    """Make a task of the function or module `entry` of `file`. Raises `UserError`, and SourceError for the file.

    `kernelbench`: the file keeps to KernelBench's convention, with `Model`, `get_inputs` and `get_init_inputs`.
    """
    if conflicts := [name for name in FILES if (folder / name).exists()]:
        raise UserError(f"{folder}: has {conflicts[0]} already; give a new folder, or move it away first")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is no folder; give one, or a name that is free")
    with TorchSource(file, entry or ("Model" if kernelbench else None)) as source:
        plan = _make_plan(source, file)
    written = texts(plan, file.read_text(encoding="utf-8"))
    holes, stops = _try_task(plan, written)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    return TaskFolder(
        folder=folder,
        notes=(*plan.notes, *(f"{hole.rule}: {hole.text}" for hole in holes if hole not in stops)),
        wrong=tuple(f"{hole.rule}: {hole.text}" for hole in stops),
    )


def _make_plan(source: TorchSource, file: Path) -> Plan:
    base = source.read_shapes({})
    knobs = {name: value for name, value in source.knobs.items() if NAME.match(name) and name not in RESERVED}
    fixed = range(len(_extents(base)), len(_numbers(base)))
    used = _list_used_names(file.read_text(encoding="utf-8"))
    while True:
        sizing = infer_sizes(lambda sizes: _probe_shape(source, sizes), knobs, fixed=fixed)
        if sizing is None:
            raise SourceError(f"{file.name}: cannot be run twice")
        non_sizes = _inside(sizing, base, used if source.is_module else set())
        if not non_sizes:
            break
        for name in non_sizes:
            del knobs[name]
    sizing = sizing if sizing.dims else _one_size(base, sizing)
    small = _small(source, sizing)
    # what a call reads of its inputs hangs on their sizes, so where that is cheap the file's own are looked at
    elements = sum(elements_of(tensor) for tensor in (*base.inputs, *base.state, *base.outputs))
    facts = source.read_facts({} if elements <= AFFORDED else small)
    return _plan(source, file, SourceAnalysis(base=base, facts=facts, sized=sizing, small=small, used=used))


def _list_used_names(text: str) -> set[str]:
    """Names that are used anywhere but in get_inputs(): sizes among them matter to how a module is made."""
    tree = ast.parse(text)
    nodes = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name == "get_inputs")]
    names = (name for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _probe_shape(source: TorchSource, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    try:
        return _numbers(source.read_shapes(sizes))
    except SourceError:
        return None


def _extents(shapes: SourceShapes) -> tuple[int, ...]:
    """The extents of all tensors, one after the other."""
    tensors = [tensor.shape for tensor in (*shapes.inputs, *shapes.state, *shapes.outputs)]
    return tuple(extent for shape in tensors for extent in shape)


def _numbers(shapes: SourceShapes) -> tuple[int, ...]:
    """Extents, then what may not depend on a size: ranks and bounds."""
    ranks = [len(tensor.shape) for tensor in (*shapes.inputs, *shapes.state, *shapes.outputs)]
    bounds = [bound for tensor in shapes.inputs for bound in tensor.bounds or ()]
    return (*_extents(shapes), *ranks, *bounds)


def _inside(sizes: InferredSizes, source_shapes: SourceShapes, used: set[str]) -> list[str]:
    """Numbers that are no size of the problem, such as a kernel's width, or that the reference could not tell.

    A size is the extent of an input or output; one that a module is made with must be one of what goes in.
    """
    shapes = [*shapes_of(sizes, source_shapes)]
    inputs, state = len(source_shapes.inputs), len(source_shapes.state)
    outside = {extent for shape in (*shapes[:inputs], *shapes[inputs + state :]) for extent in shape}
    input_extents = {extent for shape in shapes[: inputs + state] for extent in shape}
    return [name for name in sizes.dims if name not in outside or (name in used and name not in input_extents)]


def _one_size(shapes: SourceShapes, sizes: InferredSizes) -> InferredSizes:
    """For a file without a size that can be chosen: one dimension of one value, which a table needs."""
    return InferredSizes(dims={"one": 1}, extents=sizes.extents, low={"one": 1}, step={"one": 1})


def _small(source: TorchSource, sizes: InferredSizes) -> dict[str, int]:
    """A small value for each size, if they work together; else empty."""
    small: dict[str, int] = {}
    for name, size in sizes.dims.items():
        low, step = sizes.low[name], sizes.step[name]
        small[name] = min(size, max(low, SMALL // step * step))
    changed = {name: size for name, size in small.items() if name in source.knobs and size != sizes.dims[name]}
    return small if changed and _probe_shape(source, changed) is not None else {}


def _plan(source: TorchSource, file: Path, analysis: SourceAnalysis) -> Plan:
    base, facts = analysis.base, analysis.facts
    for tensor in (*base.inputs, *base.state, *base.outputs):
        if tensor.dtype and tensor.dtype not in get_args(DType):
            raise SourceError(f"{file.name}: has a tensor of {tensor.dtype}; tasks know {', '.join(get_args(DType))}")
    call_arguments = [*arguments(analysis)]
    if not any(argument.literal is None for argument in call_arguments):
        raise SourceError(f"{file.name}: get_inputs() gives no tensor")
    results = [*outputs(analysis, {argument.name for argument in call_arguments})]
    sizing = analysis.sized
    return Plan(
        name=_slug(file.stem),
        file=file.name,
        entry=source.entry,
        is_module=source.is_module,
        training=facts.training,
        arguments=tuple(call_arguments),
        outputs=tuple(results),
        dims=sizing.dims,
        made_with=tuple(name for name in sizing.dims if name in analysis.used) if source.is_module else (),
        has_init=source.has_init,
        random_parts=bool(facts.parts),
        small=analysis.small,
        ranges={
            name: (sizing.low[name], _highest(sizing, name))
            for name in sizing.dims
            if sizing.low[name] < sizing.dims[name]
        },
        step=sizing.step,
        bytes=least_bytes((*call_arguments, *results)),
        flops=fit_power_law(lambda sizes: _flops(source, sizes), sizing.dims)
        if set(sizing.dims) <= set(source.knobs)
        else None,
        notes=tuple(notes(source, analysis)),
    )


def _slug(stem: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_") or "kernel"


def _highest(sizes: InferredSizes, name: str) -> int:
    """Unseen sizes go up to the file's own where that is small, else to a quarter of it."""
    size = sizes.dims[name]
    return size if size <= 256 else max(256, size // 4, sizes.low[name])


def _flops(source: TorchSource, sizes: Mapping[str, int]) -> int | None:
    try:
        return source.read_shapes(sizes).flops
    except SourceError:
        return None


def _try_task(plan: Plan, written: Mapping[str, str]) -> "tuple[tuple[LintFinding, ...], tuple[LintFinding, ...]]":
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
        shape = min(task.shapes, key=lambda task_shape: sum(task_shape.dims.values()))
        inputs = draw(task, shape.dims, "normal", np.random.default_rng(1))
        with Reference(task, folder) as reference:
            reference.trusted(inputs)
            holes = lint_task(task, reference)
    if wrong := [hole for hole in holes if hole.rule == "wrong-shape"]:
        raise SourceError(f"{plan.file}: {wrong[0].text}")
    return holes, blocking(task, holes)
