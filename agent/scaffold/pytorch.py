"""Makes a task folder out of a PyTorch file: finds its sizes, tries it, and writes what `ridgeline judge` needs."""

import ast
import keyword
import math
import re
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

import psutil

from ridgeline.agent.console import Progress, silent
from ridgeline.agent.errors import UserError
from ridgeline.agent.formats.problem import ORIGIN_FILE, Origin, OriginArray, Problem, Sizes
from ridgeline.graph.formula import evaluate
from ridgeline.graph.task import NAME, DType
from ridgeline.sandbox.judge.options import has_card
from ridgeline.sandbox.judge.task_file import RESERVED
from ridgeline.sandbox.judge.torch_source import (
    InferredSizes,
    InputFacts,
    RunFacts,
    SourceError,
    SourceShapes,
    TorchSource,
    fit_power_law,
    infer_sizes,
)

# The files of a task that was made from a PyTorch file, as text.

FILES = ("task.yaml", "reference.py", "kernel.py", "ridgeline.yaml", "README.md", ORIGIN_FILE)
SIMPLE = re.compile(r"[A-Za-z_]\w*|\d+")
ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
    "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
LONGEST_FORMULA = 400
SHORT = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip


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
    place: str = ""
    """Where it stands in the arguments of the file's own function."""
    blank: bool = False
    """Whether it is only memory for the result, which reference and kernel make themselves."""


@dataclass(frozen=True, kw_only=True)
class PlannedShape:
    """A size of the task."""

    label: str
    dims: Mapping[str, int]
    timed: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that the files say."""

    name: str
    file: str
    entry: str
    is_module: bool
    training: bool
    call: str
    """The arguments as Python, with `<3>` for the input of that number."""
    arguments: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    dims: Mapping[str, int]
    made_with: tuple[str, ...]
    """Sizes that a module is made with."""
    has_init: bool
    random_parts: bool
    """Whether a module is made with random tensors that are no parameters and no buffers."""
    shapes: tuple[PlannedShape, ...]
    ranges: Mapping[str, tuple[int, int]]
    step: Mapping[str, int]
    bytes: str | None
    flops: str | None
    notes: tuple[str, ...]
    processor: bool = False
    """Whether the task is for this machine's processor."""

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """Arrays that the task's kernel reads."""
        return tuple(argument for argument in self.arguments if argument.literal is None and not argument.blank)

    @property
    def function(self) -> str:
        """Name of the task's kernel function."""
        return "run" if self.entry != "run" else "run_kernel"


def texts(plan: Plan, problem: Problem) -> dict[str, str]:
    """All files of a task made of a PyTorch problem, by name."""
    text = problem.text.rstrip() + "\n"
    return {
        ORIGIN_FILE: _origin(plan, problem).model_dump_json(indent=1) + "\n",
        "task.yaml": _task(plan),
        "reference.py": text + _write_reference(plan),
        "kernel.py": text + _write_kernel(plan),
        "ridgeline.yaml": _contract(plan),
        "README.md": _readme(plan),
    }


def _origin(plan: Plan, problem: Problem) -> Origin:
    """What a made task remembers of the PyTorch file that it came from."""
    return Origin(
        format=problem.format,
        name=problem.name,
        entry=plan.entry,
        text=problem.text,
        original=problem.original,
        answer=_write_answer(plan, problem),
        answer_out=_write_answer(plan, problem, passes_outputs=True) if problem.format == "flashinfer" else "",
        arrays=tuple(
            OriginArray(name=argument.name, place=argument.place, state=argument.state or "")
            for argument in plan.inputs
        ),
        sizes=problem.sizes,
    )


def _task(plan: Plan) -> str:
    """Text of the made task's task.yaml."""
    lines = [
        f"# Made from {plan.file} by `ridgeline init`. Try it: `ridgeline judge test task.yaml`.",
        "task: 1",
        f"name: {plan.name}",
        f"language: {'python' if plan.processor else 'triton'}            # or "
        f"{'triton' if plan.processor else 'python'}, cuda, hip, c: with another source and, if needed, another entry",
        "source: [kernel.py]",
        f"entry: {plan.function}",
        "reference: reference.py",
        "convention: return          # the kernel returns its outputs",
        "inputs:",
        *(f"  - {_array(argument)}" for argument in plan.inputs),
        "outputs:",
        *(f"  - {_array(argument)}" for argument in plan.outputs),
        "shapes:",
        *(
            f"  - {{label: {shape.label}, dims: {_mapping(shape.dims)}{'' if shape.timed else ', timed: false'}}}"
            for shape in plan.shapes
        ),
    ]
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


def _write_reference(plan: Plan) -> str:
    """The end of reference.py: one function of the arrays."""
    if plan.is_module:
        state = [f'    "{argument.state}": {argument.name},' for argument in plan.arguments if argument.state]
        inputs = _write_arguments(plan)
        body = [
            f"module = {_write_making(plan)}",
            *(("state = {", *state, "}") if state else ("state = {}",)),
            f"result = _torch.func.functional_call(module, state, ({inputs}{'' if ', ' in inputs else ','}))",
        ]
    else:
        body = [f"result = _original({_write_arguments(plan)})"]
    head = _making(plan) if plan.is_module else f"_original = {plan.entry}\n"
    needs = "import functools as _functools\n" if plan.is_module else ""
    parameters = ", ".join(argument.name for argument in plan.inputs)
    return (
        f"\n\n# Added by `ridgeline init`: the same as a function of arrays alone.\n"
        f"{needs}import torch as _torch\n\n{head}\n\n"
        f"def reference({parameters}):\n"
        f'    """The outputs for these inputs; asked by the judge alone."""\n'
        f"    with _torch.no_grad():\n{textwrap.indent(chr(10).join(body), ' ' * 8)}\n"
        f"    return {_write_return(plan)}\n"
    )


REBUILT = '''
def _rebuild(module, arrays, copies):
    """The module with other arrays in the places of its parameters and buffers, by the ids of those; shares the rest."""
    if id(module) in copies:
        return copies[id(module)]
    copies[id(module)] = rebuilt = object.__new__(type(module))
    vars(rebuilt).update(
        {
            name: [arrays.get(id(one), one) for one in value] if type(value) is list else value
            for name, value in vars(module).items()
        }
    )
    for kind in ("_parameters", "_buffers"):
        tensors = {name: arrays.get(id(one), one) for name, one in vars(module)[kind].items()}
        vars(rebuilt)[kind] = tensors
    vars(rebuilt)["_modules"] = {
        name: one and _rebuild(one, arrays, copies) for name, one in vars(module)["_modules"].items()
    }
    return rebuilt


def _place(module, arrays):
    """The module itself with other arrays in those places: what it made of its own methods holds it, not a copy."""
    for one in module.modules():
        for kind in ("_parameters", "_buffers"):
            vars(one)[kind].update({name: arrays.get(id(tensor), tensor) for name, tensor in vars(one)[kind].items()})
        for value in vars(one).values():
            if type(value) is list:
                value[:] = [arrays.get(id(each), each) for each in value]
    return module


def _keeps_callables(module):
    """Whether it holds functions, which may hold it: torch.compile of a method does."""
    kept = [value for one in module.modules() for value in vars(one).values()]
    kept += [each for value in kept if type(value) in (list, tuple) for each in value]
    kept += [each for value in kept if type(value) is dict for each in value.values()]
    return any(callable(each) and not isinstance(each, (type, _torch.nn.Module, _torch.Tensor)) for each in kept)

'''


def _write_kernel(plan: Plan) -> str:
    """The end of kernel.py: the same function, with as little around the original as can be.

    A module is made and given its parameters once for each set of them; a call only looks it up: what stands around the
    original here would be gained by leaving it away.
    """
    parameters = ", ".join(argument.name for argument in plan.inputs)
    lines = ["", "", "# Added by `ridgeline init`: the same as a function of arrays alone."]
    lines += ["import functools as _functools"] if plan.is_module else []
    lines += ["import torch as _torch", "", "_torch.set_grad_enabled(False)"]
    if plan.is_module:
        return "\n".join(lines) + f"\n{_making(plan)}\n{_write_binding(plan)}{_write_bound_call(plan)}"
    lines += [f"_original = {plan.entry}", "", "", f"def {plan.function}({parameters}):"]
    lines += [f'    """{MEANING}"""', f"    result = _original({_write_arguments(plan)})"]
    return "\n".join((*lines, f"    return {_write_return(plan)}", ""))


MEANING = "The version to beat: PyTorch, as it was given."


def _write_binding(plan: Plan, *, match: bool = False) -> str:
    """Text of `_bind`, which gives the module of a call its parameters and buffers; `match`: under other names too."""
    parameters = ", ".join(argument.name for argument in plan.inputs)
    state = [argument for argument in plan.inputs if argument.state]
    pairs = ", ".join(f'"{argument.state}": {argument.name}' for argument in state)
    return f'''{REBUILT if state else ""}
_bound = {{}}


def _bind(key, {parameters}):
    """The module that a call with these arrays asks, and what its key stands for, which must live as long."""
    module = {_write_making(plan)}
    state = {{{pairs}}}
    if state:
        keeps_callables = _keeps_callables(module)
        if keeps_callables:
            module = {_write_making(plan).replace("_module(", "_module.__wrapped__(", 1)}
        tensors = {{**dict(module.named_parameters()), **dict(module.named_buffers())}}
{"        tensors = _match(tensors, state)" + chr(10) if match else ""}\
        arrays = {{id(tensors[name]): array for name, array in state.items()}}
        module = _place(module, arrays) if keeps_callables else _rebuild(module, arrays, {{}})
    if len(_bound) >= 64:
        _bound.clear()
    _bound[key] = module, state
    return _bound[key]


'''


def _write_bound_call(plan: Plan) -> str:
    """Text of the kernel's function, which calls a module that `_bind` has made."""
    state = [argument for argument in plan.inputs if argument.state]
    parameters = ", ".join(argument.name for argument in plan.inputs)
    words = [f"id({argument.name})" for argument in state] + [_locate_size(plan, name) for name in plan.made_with]
    key = f"({', '.join(words)}{',' if len(words) == 1 else ''})"
    return (
        f"def {plan.function}({parameters}):\n"
        f'    """{MEANING}"""\n'
        f"    key = {key}\n"
        f"    module, _ = _bound.get(key) or _bind(key, {parameters})\n"
        f"    result = module({_write_arguments(plan)})\n"
        f"    return {_write_return(plan)}\n"
    )


MATCHED = '''
def _match(tensors, state):
    """Tensors of the answer's module by the names of the task's: those of the same names, else the next of that shape."""
    if state.keys() <= tensors.keys():
        return tensors
    shapes = [tuple(array.shape) for array in state.values()]
    others = [tensor for tensor in tensors.values() if tensor.is_floating_point()]
    if [tuple(tensor.shape) for tensor in others] != shapes:
        raise TypeError(
            "ModelNew has other parameters than Model: "
            + ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors.items())
            + "; give it those of Model, in its order: "
            + ", ".join(f"{name} {list(array.shape)}" for name, array in state.items())
        )
    return dict(zip(state, others))

'''
ADDED_TO_ANSWER = "# Added by `ridgeline judge`: the answer as a function of arrays alone."


def _write_answer(plan: Plan, problem: Problem, *, passes_outputs: bool = False) -> str:
    """What makes a candidate of an answer in the problem's own format, put behind its text."""
    head = f"\n\n{ADDED_TO_ANSWER}\n"
    parameters = ", ".join(argument.name for argument in plan.inputs)
    match problem.format:
        case "kernelbench":
            answer = replace(plan, entry="ModelNew")
            imports = "import functools as _functools\nimport torch as _torch\n\n_torch.set_grad_enabled(False)\n"
            binding = f"{_making(answer)}\n{MATCHED}{_write_binding(answer, match=True)}"
            return f"{head}{imports}{binding}{_write_bound_call(answer)}"
        case "gpumode":
            call = f"custom_kernel({_write_arguments(plan)})"
            head += "import torch as _torch\n\n"
        case "flashinfer" if passes_outputs:
            names = [f"result_{place}" for place in range(len(plan.outputs))]
            blanks = [
                f"    {name} = {_write_blank(plan, one)}\n" for name, one in zip(names, plan.outputs, strict=True)
            ]
            head += "import torch as _torch\n\n_answer = run\n"
            call = f"_answer({_write_arguments(plan)}, {', '.join(names)})"
            body = f"{''.join(blanks)}    {call}\n    return {', '.join(names)}\n"
            return f"{head}\n\ndef {plan.function}({parameters}):\n{body}"
        case "flashinfer":
            call = f"_answer({_write_arguments(plan)})"
            head += "_answer = run\n"
        case "pytorch":
            return ""
    return f"{head}\n\ndef {plan.function}({parameters}):\n    return {call}\n"


def _write_return(plan: Plan) -> str:
    """Return of the made kernel: a single result may come as it is or in a list of one."""
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
    """Source of the function of the made reference that makes the PyTorch module for some sizes, once."""
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


def _write_making(plan: Plan) -> str:
    """The call that makes the file's module for the arrays of `plan`."""
    floats = [argument for argument in plan.inputs if SHORT.get(argument.dtype, "fp8") != "fp8"]
    float_input = floats[0] if floats else plan.inputs[0]
    dtype = f"{float_input.name}.dtype" if floats else "_torch.float32"
    sizes = "".join(f", {name}={_locate_size(plan, name)}" for name in plan.made_with)
    return f"_module({float_input.name}.device, {dtype}{sizes})"


def _locate_size(plan: Plan, dim: str) -> str:
    """For the made task, where a size can be read: the extent of an array that is equal to it."""
    return next(
        (f"{argument.name}.shape[{argument.shape.index(dim)}]" for argument in plan.inputs if dim in argument.shape), ""
    )


def _write_arguments(plan: Plan) -> str:
    """What the made reference calls the file's own function with: arrays, plain values, and memory for results."""
    direct = [argument for argument in plan.arguments if argument.state is None]

    def write(match: re.Match[str]) -> str:
        argument = direct[int(match[1])]
        if argument.blank or argument.literal is None:
            return _write_blank(plan, argument) if argument.blank else argument.name
        return argument.literal if argument.literal[0] in "'\"" else _write_extent(plan, argument.literal)

    return re.sub(r"<(\d+)>", write, plan.call)


def _write_blank(plan: Plan, blank: Argument) -> str:
    """In the made task, memory for a result: of the type of an input, where one has it, which is wider in float64."""
    model = next((argument for argument in plan.inputs if argument.dtype == blank.dtype), None)
    dtype = f"{model.name}.dtype" if model else f"_torch.{blank.dtype}"
    extents = ", ".join(_write_extent(plan, extent) for extent in blank.shape)
    return f"_torch.empty(({extents},), dtype={dtype}, device={plan.inputs[0].name}.device)"


def _write_extent(plan: Plan, extent: str) -> str:
    """In the made task: arithmetic over the sizes, as arithmetic over extents of the inputs."""
    return re.sub(
        r"[A-Za-z_]\w*", lambda match: _locate_size(plan, match[0]) if match[0] in plan.dims else match[0], extent
    )


def _contract(plan: Plan) -> str:
    """Text of the made task's ridgeline.yaml."""
    columns = ", ".join(["label", *plan.dims, "class", "Check", "Time (ms)"])
    work = [f'{kind}: "{formula}"' for kind, formula in (("flops", plan.flops), ("bytes", plan.bytes)) if formula]
    dtype = next((SHORT[argument.dtype] for argument in plan.outputs if argument.dtype in SHORT), plan.outputs[0].dtype)
    judge = "ridgeline judge"
    lines = [
        f"# Made from {plan.file} by `ridgeline init`. The harness is Ridgeline's own: see task.yaml.",
        f"target_op: {plan.name}",
        f"target_backend: {'PYTHON' if plan.processor else 'TRITON'}",
        f"target_gpu: {'cpu ' if plan.processor else 'null'}           # product or architecture, for example MI300X or gfx942; "
        "cpu for this processor",
        f"dtype: {dtype}",
        "kernel_source: [kernel.py]",
        "start: pytorch             # with preset router the planner writes the first kernel; else PyTorch is the version to beat",
        f"protected: [task.yaml, reference.py, {ORIGIN_FILE}]",
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
    """Text of the made task's README.md."""
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
| `origin.json` | what the task was made from; `ridgeline export` takes an answer back to that format by it |

Inputs:

{inputs}

What was assumed:

{notes}

Commit the folder to a git repository, then `ridgeline check .`, and `ridgeline run .` for a campaign.
"""


def _list_lines(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def least_bytes(arrays: tuple[Argument, ...]) -> str | None:
    """For the made task, each array once that a call reads or writes all of: the least that it can move."""
    terms: dict[str, int] = {}
    for array in arrays:
        if array.literal is None and not array.partly and not array.blank:
            product = "*".join(extent if SIMPLE.fullmatch(extent) else f"({extent})" for extent in array.shape) or "1"
            terms[product] = terms.get(product, 0) + ITEM_BYTES[array.dtype] * (
                2 if array.constness == "mutated" else 1
            )
    formula = " + ".join(f"{count}*{product}" for product, count in terms.items())
    return formula if len(formula) <= LONGEST_FORMULA else None


# The arrays of a task that is made of a PyTorch file, how each is drawn, and what a person must know of them.

PROCESSOR_ELEMENTS = 1 << 22
"""Of all tensors together, up to which a processor judges a call in a second or so."""
CARD_BYTES = 1 << 30
"""What two processes take of a card before they have arrays, as `plan_memory` in sandbox/judge/device_session.py counts."""
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
    """Extents of each tensor of the made task as arithmetic, in the order of inputs, state, outputs."""
    at = 0
    for tensor in (*shapes.inputs, *shapes.state, *shapes.outputs):
        yield sizes.extents[at : at + len(tensor.shape)]
        at += len(tensor.shape)


def fixed_buffers(analysis: SourceAnalysis) -> tuple[str, ...]:
    """Buffers of the PyTorch module that keep their values in the made task; none where a size can only be read off one."""
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
    """Arguments of the made kernel: inputs, then the parameters and buffers that the result depends on."""
    base, facts = analysis.base, analysis.facts
    shapes, used_names, buffers = shapes_of(analysis.sized, base), set(analysis.sized.dims), fixed_buffers(analysis)
    numbers = iter(analysis.sized.extents[len(_extents(base)) :])
    for place, tensor in enumerate(base.inputs):
        literal = tensor.literal if tensor.number is None else next(numbers)
        distribution = _choose_distribution(tensor, place, facts)
        yield Argument(
            name=_free(tensor.name, used_names), shape=next(shapes), dtype=tensor.dtype, values=distribution.values,
            bounds=distribution.bounds, within=distribution.within, literal=literal,
            constness="mutated" if place in facts.mutated else "per_call", partly=tensor.name in facts.partial,
            place=tensor.place, blank=place in facts.blanks,
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
    """How the made task draws an input: from N(0,1) where that has finite results, else as get_inputs() does."""
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
    """Outputs of the made task."""
    base = analysis.base
    shapes = [*shapes_of(analysis.sized, base)][len(base.inputs) + len(base.state) :]
    names = {*argument_names, *analysis.sized.dims}
    for place, (tensor, shape) in enumerate(zip(base.outputs, shapes, strict=True)):
        name = "out" if len(shapes) == 1 else f"out{place}"
        yield Argument(name=_free(name, names), shape=shape, dtype=tensor.dtype)


def _free(name: str, used_names: set[str]) -> str:
    """A name for an array that nothing else in the made task has."""
    plain = re.sub(r"\W", "_", name)
    plain = f"p{plain}" if plain[:1].isdigit() else plain
    while plain in used_names or keyword.iskeyword(plain):
        plain += "_"
    used_names.add(plain)
    return plain


def notes(source: TorchSource, analysis: SourceAnalysis) -> Iterator[str]:
    """What was assumed of a PyTorch problem, one line each."""
    facts, sizing = analysis.facts, analysis.sized
    if sizing.dims == {"one": 1}:
        yield "no size of it can be chosen: unseen sizes cannot be tried, so a kernel for this one size alone passes"
    else:
        yield from _find_fixed_extents(analysis)
    yield from _ranges(analysis)
    if not facts.training:
        yield "its result is random in training mode, so it is judged in eval mode"
    yield from _constants(analysis)
    arrays = [argument for argument in arguments(analysis) if argument.literal is None]
    if blanks := [argument.name for argument in arrays if argument.blank]:
        yield f"{', '.join(blanks)}: memory for the result, and so no input: a kernel makes it itself and returns it"
    if partly := [argument.name for argument in arrays if argument.partly and not argument.blank]:
        yield f"{', '.join(partly)}: a call reads only a part, or may; `bytes` leaves it out"
    if not source.is_module:
        yield "all inputs change at every call; write `constness: const` for weights in task.yaml"


def _find_fixed_extents(analysis: SourceAnalysis) -> Iterator[str]:
    """Extents of the made task's inputs that no unseen size changes."""
    for tensor, shape in zip(analysis.base.inputs, shapes_of(analysis.sized, analysis.base), strict=False):
        if same := [extent for extent in shape if extent.isdecimal() and int(extent) >= FIXED_EXTENT]:
            yield (
                f"{tensor.name}: {' and '.join(same)} stays at all sizes: a kernel for that extent alone passes; "
                "if it may vary, name it as a number of the file that sets shapes alone"
            )


def _ranges(analysis: SourceAnalysis) -> Iterator[str]:
    """Notes where the made task draws inputs otherwise than get_inputs() does, or than usual."""
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
    """Notes which tensors of the PyTorch problem are no inputs, and why."""
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


@dataclass(frozen=True, kw_only=True)
class Request:
    """How a task is to be made."""

    processor: bool = False
    """For this machine's processor: sizes that it can judge in seconds, and a kernel in Python."""
    progress: Progress = silent


def write(folder: Path, problem: Problem, request: Request | None = None, *, file: Path | None = None) -> TaskFolder:
    """Make a task of the problem. Raises UserError, and SourceError for the problem's text.

    `file`: where that text lies, with what it imports beside it; None where it lies nowhere.
    """
    request = request or Request()
    if conflicts := [name for name in FILES if (folder / name).exists()]:
        raise UserError(f"{folder}: has {conflicts[0]} already; give a new folder, or move it away first")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is no folder; give one, or a name that is free")
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as place:
        if file is None:
            file = Path(place) / f"{Path(problem.file).stem}.py"
            file.write_text(problem.text, encoding="utf-8")
        with request.progress(f"{problem.file}: starting PyTorch"):
            source = TorchSource(file, problem.entry)
        with source:
            plan = _make_plan(source, problem, request)
    written = texts(plan, problem)
    with request.progress(f"{problem.file}: asking the new reference at its smallest size, and looking for holes"):
        holes, stops = _try_task(plan, written)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    return TaskFolder(
        folder=folder,
        notes=(*plan.notes, *(f"{hole.rule}: {hole.text}" for hole in holes if hole not in stops)),
        wrong=tuple(f"{hole.rule}: {hole.text}" for hole in stops),
    )


def _make_plan(source: TorchSource, problem: Problem, request: Request) -> Plan:
    with request.progress(f"{problem.file}: working out which sizes it has"):
        base, sizing, used = _infer(source, problem)
        sizer = Sizer(base, sizing, source.name)
        small = _small(source, sizing, sizer)
    asked_sizes = [_dims_of(sizing, each) for each in problem.sizes if each.timed] or [sizing.dims]
    memory_notes = [*_explain_memory(sizer, max(asked_sizes, key=sizer.elements), request)]
    for line in memory_notes:
        request.progress.tell(f"{problem.file}: {line}")
    # what a call reads of its inputs hangs on their sizes, so where that is cheap the file's own are looked at
    facts_sizes = {} if sizer.elements(sizing.dims) <= AFFORDED else small
    sizer.require_memory({**sizing.dims, **facts_sizes})
    with request.progress(f"{problem.file}: running it at {facts_sizes or 'its own size'}"):
        facts = source.read_facts(facts_sizes)
    analysis = SourceAnalysis(base=base, facts=facts, sized=sizing, small=small, used=used)
    return _plan(source, problem, analysis, request, memory_notes)


RUN_FORMATS = ("gpumode", "flashinfer")
"""Of which problems begin with their smallest size: where that cannot be worked out without memory, it is run."""


def _infer(source: TorchSource, problem: Problem) -> tuple[SourceShapes, InferredSizes, set[str]]:
    """The file at its own size, the sizes among its numbers, and names that are used outside get_inputs()."""
    try:
        base = source.read_shapes({})
    except SourceError:
        if problem.format not in RUN_FORMATS:
            raise
        source.without_memory = False
        base = source.read_shapes({})
    knobs = {name: value for name, value in source.knobs.items() if NAME.match(name) and name not in RESERVED}
    if problem.knobs is not None:
        knobs = {name: value for name, value in knobs.items() if name in problem.knobs}
    fixed = range(len(_free_numbers(base)), len(_numbers(base)))
    used = _list_used_names(problem.text)
    while True:
        sizing = infer_sizes(lambda sizes: _probe_shape(source, sizes), knobs, fixed=fixed)
        if sizing is None:
            raise SourceError(f"{problem.file}: cannot be run twice")
        non_sizes = _inside(sizing, base, used)
        if not non_sizes:
            break
        for name in non_sizes:
            del knobs[name]
    return base, sizing if sizing.dims else _one_size(base, sizing), used


class Sizer:
    """How many numbers and bytes a call takes at a size, known without running it."""

    def __init__(self, base: SourceShapes, sizing: InferredSizes, file: str) -> None:
        tensors = (*base.inputs, *base.state, *base.outputs)
        judged = {id(tensor) for tensor in base.outputs}
        self._file, self.sizing = file, sizing
        self._tensors = [
            (shape, ITEM_BYTES.get(tensor.dtype, 8), id(tensor) in judged)
            for tensor, shape in zip(tensors, shapes_of(sizing, base), strict=True)
            if tensor.dtype
        ]

    def elements(self, dims: Mapping[str, int]) -> int:
        """Elements of all arrays of the made task together."""
        return sum(self._count(shape, dims) for shape, _, _ in self._tensors)

    def bytes(self, dims: Mapping[str, int], *, judged: bool | None = None) -> int:
        """Bytes of all arrays of the made task's call, or of those alone that are (not) judged."""
        return sum(
            width * self._count(shape, dims)
            for shape, width, is_judged in self._tensors
            if judged is None or is_judged == judged
        )

    def card_bytes(self, dims: Mapping[str, int]) -> int:
        """Least free memory of a card that judges it: both versions' arrays, a copy of inputs and outputs, what is right."""
        return 3 * self.bytes(dims) + self.bytes(dims, judged=False) + 3 * self.bytes(dims, judged=True) + CARD_BYTES

    def processor_bytes(self, dims: Mapping[str, int]) -> int:
        """About what judging takes on a processor: two places for either version, and what is right in float64."""
        return 5 * self.bytes(dims) + 3 * 8 * self.elements(dims)

    def shrink(self, dims: Mapping[str, int], most: int) -> dict[str, int]:
        """The made task's size with its largest numbers halved until its arrays have so many elements, or it can be no smaller."""
        small = dict(dims)
        while self.elements(small) > most:
            halved = {
                name: max(self.sizing.low[name], size // 2 // self.sizing.step[name] * self.sizing.step[name])
                for name, size in small.items()
            }
            movable = [name for name in small if halved[name] < small[name]]
            if not movable:
                break
            largest = max(movable, key=lambda name: small[name])
            small[largest] = halved[largest]
        return small

    def require_memory(self, dims: Mapping[str, int]) -> None:
        """Raises SourceError where running it once takes more than this machine has free."""
        free, needed = psutil.virtual_memory().available, 4 * self.bytes(dims)
        if needed > free:
            raise SourceError(
                f"{self._file}: running it at {dict(dims)} takes about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free; "
                "name its sizes as numbers of the file, so that a smaller one can be tried"
            )

    def _count(self, shape: Sequence[str], dims: Mapping[str, int]) -> int:
        return math.prod(int(evaluate(extent, dims)) for extent in shape)


def _explain_memory(sizer: Sizer, dims: Mapping[str, int], request: Request) -> Iterator[str]:
    """What judging the made task's largest size takes, where that is much; and a size for a processor without a card."""
    if sizer.elements(dims) <= PROCESSOR_ELEMENTS:
        return
    sizes = ", ".join(f"{name}={size}" for name, size in dims.items())
    arrays, card = sizer.bytes(dims) / 1e9, sizer.card_bytes(dims) / 1e9
    yield f"{sizes}: {arrays:.2f} GB of arrays; judging it takes {card:.1f} GB of a card"
    if request.processor or has_card():
        return
    fitting = sizer.shrink(dims, PROCESSOR_ELEMENTS)
    if sizer.elements(fitting) > PROCESSOR_ELEMENTS:
        yield "this machine shows no card, and no size of it is small enough for this processor"
        return
    smaller = ", ".join(f"{name}={size}" for name, size in fitting.items())
    yield (
        f"this machine shows no card, and its processor would take {sizer.processor_bytes(dims) / 1e9:.1f} GB and minutes "
        f"for each call; --processor makes the task for it instead: {smaller} ({sizer.bytes(fitting) / 1e6:.1f} MB)"
    )


def _plan_shapes(
    problem: Problem, analysis: SourceAnalysis, sizer: Sizer, *, processor: bool
) -> Iterator[PlannedShape]:
    """Shapes of the made task: the problem's own sizes, or the file's, and a small one; for a processor what it can judge."""
    sizing = analysis.sized
    asked_sizes = problem.sizes or (Sizes(label="given", numbers=sizing.dims),)
    smallest = min(sizer.elements(_dims_of(sizing, each)) for each in asked_sizes)
    planned: dict[tuple[int, ...], PlannedShape] = {}
    for each in sorted(asked_sizes, key=lambda sizes: not sizes.timed):
        dims, label = _dims_of(sizing, each), each.label
        if processor and sizer.elements(dims) > PROCESSOR_ELEMENTS:
            dims = sizer.shrink(dims, PROCESSOR_ELEMENTS)
            label = "_".join(["processor", *(f"{name}{size}" for name, size in dims.items())])
        planned.setdefault(tuple(dims.values()), PlannedShape(label=label, dims=dims, timed=each.timed))
    yield from planned.values()
    if analysis.small and sizer.elements(analysis.small) < smallest:
        yield PlannedShape(label="small", dims=analysis.small, timed=False)


def _dims_of(sizing: InferredSizes, sizes: Sizes) -> dict[str, int]:
    """The made task's dimensions at the problem's numbers."""
    return {name: sizes.numbers.get(name, base) for name, base in sizing.dims.items()}


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
    """The extents of all tensors of the PyTorch problem, one after the other."""
    tensors = [tensor.shape for tensor in (*shapes.inputs, *shapes.state, *shapes.outputs)]
    return tuple(extent for shape in tensors for extent in shape)


def _numbers(shapes: SourceShapes) -> tuple[int, ...]:
    """Extents, whole numbers among the arguments, then what may not depend on a size: ranks and bounds."""
    ranks = [len(tensor.shape) for tensor in (*shapes.inputs, *shapes.state, *shapes.outputs)]
    bounds = [bound for tensor in shapes.inputs for bound in tensor.bounds or ()]
    return (*_free_numbers(shapes), *ranks, *bounds)


def _free_numbers(shapes: SourceShapes) -> tuple[int, ...]:
    """Numbers of the PyTorch problem that may depend on a size."""
    return (*_extents(shapes), *(tensor.number for tensor in shapes.inputs if tensor.number is not None))


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
    """For a PyTorch file without a size that can be chosen: one dimension of one value, which a table needs."""
    return InferredSizes(dims={"one": 1}, extents=sizes.extents, low={"one": 1}, step={"one": 1})


def _small(source: TorchSource, sizes: InferredSizes, sizer: Sizer) -> dict[str, int]:
    """A small value for each size of the made task, if they work together; else empty."""
    small: dict[str, int] = {}
    for name, size in sizes.dims.items():
        low, step = sizes.low[name], sizes.step[name]
        small[name] = min(size, max(low, SMALL // step * step))
    small = sizer.shrink(small, AFFORDED)
    changed = {name: size for name, size in small.items() if name in source.knobs and size != sizes.dims[name]}
    return small if changed and _probe_shape(source, changed) is not None else {}


def _plan(
    source: TorchSource, problem: Problem, analysis: SourceAnalysis, request: Request, memory_notes: Sequence[str]
) -> Plan:
    base, facts, sizing = analysis.base, analysis.facts, analysis.sized
    for tensor in (*base.inputs, *base.state, *base.outputs):
        if tensor.dtype and tensor.dtype not in get_args(DType):
            raise SourceError(
                f"{problem.file}: has a tensor of {tensor.dtype}; tasks know {', '.join(get_args(DType))}"
            )
    call_arguments = [*arguments(analysis)]
    if not any(argument.literal is None for argument in call_arguments):
        raise SourceError(f"{problem.file}: get_inputs() gives no tensor")
    results = [*outputs(analysis, {argument.name for argument in call_arguments})]
    kept_sizes, size_notes = _choose_alike(problem, source, sizing)
    shapes = _plan_shapes(kept_sizes, analysis, Sizer(base, sizing, problem.file), processor=request.processor)
    return Plan(
        name=_slug(Path(problem.name).name),
        file=problem.file,
        entry=source.entry,
        is_module=source.is_module,
        training=facts.training,
        call=base.call,
        arguments=tuple(call_arguments),
        outputs=tuple(results),
        dims=sizing.dims,
        made_with=tuple(name for name in sizing.dims if name in analysis.used) if source.is_module else (),
        has_init=source.has_init,
        random_parts=bool(facts.parts),
        shapes=tuple(shapes),
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
        notes=(*problem.notes, *size_notes, *memory_notes, *notes(source, analysis)),
        processor=request.processor,
    )


def _choose_alike(problem: Problem, source: TorchSource, sizing: InferredSizes) -> tuple[Problem, list[str]]:
    """The problem with those sizes alone that differ in nothing but the task's dimensions; and what was left out."""
    alike = [
        sizes
        for sizes in problem.sizes
        if all(source.knobs.get(name) == number for name, number in sizes.numbers.items() if name not in sizing.dims)
    ]
    if len(alike) == len(problem.sizes):
        return problem, []
    words = ", ".join(name for name in problem.sizes[0].numbers if name not in sizing.dims)
    left = len(problem.sizes) - len(alike)
    return problem.model_copy(update={"sizes": tuple(alike)}), [f"{left} sizes with another {words} are left out"]


def _slug(stem: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_") or "kernel"


def _highest(sizes: InferredSizes, name: str) -> int:
    """Unseen sizes of the made task go up to the file's own where that is small, else to a quarter of it."""
    size = sizes.dims[name]
    return size if size <= 256 else max(256, size // 4, sizes.low[name])


def _flops(source: TorchSource, sizes: Mapping[str, int]) -> int | None:
    try:
        return source.read_shapes(sizes).flops
    except SourceError:
        return None


def _try_task(plan: Plan, written: Mapping[str, str]) -> "tuple[tuple[LintFinding, ...], tuple[LintFinding, ...]]":
    """Ask the made task's reference, at its smallest size, before anything is kept; its holes, and the worst of them."""
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
