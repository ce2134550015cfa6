"""The files of a task that was made from a PyTorch file, as text."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
        return tuple(one for one in self.arguments if one.literal is None)

    @property
    def function(self) -> str:
        """Name of the kernel's function."""
        return "run" if self.entry != "run" else "run_kernel"


def texts(plan: Plan, source: str) -> dict[str, str]:
    """All files by name."""
    given = source.rstrip() + "\n"
    return {
        "task.yaml": _task(plan),
        "reference.py": given + _called(plan, "reference", "The outputs for these inputs; asked by the judge alone."),
        "kernel.py": given + _called(plan, plan.function, "The version to beat: PyTorch, as it was given."),
        "ridgeline.yaml": _contract(plan),
        "README.md": _readme(plan),
    }


def _task(plan: Plan) -> str:
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
        *(f"  - {_array(one)}" for one in plan.inputs),
        "outputs:",
        *(f"  - {_array(one)}" for one in plan.outputs),
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
        "precision: strict           # or tf32, emulated",
        "library: reported           # forbidden: operators of PyTorch or a vendor are not accepted as own work",
        "cache: warm",
        f'bytes: "{plan.bytes}"' if plan.bytes else '# bytes: "..."   # least bytes of one call, over the dimensions',
        f'flops: "{plan.flops}"' if plan.flops else '# flops: "..."   # operations of one call, over the dimensions',
    ]
    return "\n".join(lines) + "\n"


def _array(one: Argument) -> str:
    shape = ", ".join(extent if SIMPLE.fullmatch(extent) else f'"{extent}"' for extent in one.shape)
    words = [f"name: {one.name}", f"shape: [{shape}]", f"dtype: {one.dtype}"]
    words += [f"constness: {one.constness}"] if one.constness != "per_call" else []
    words += [f"values: {one.values}"] if one.values != "normal" else []
    words += [f"low: {one.bounds[0]}, high: {one.bounds[1]}"] if one.bounds else []
    words += [f"within: [{one.within[0]!r}, {one.within[1]!r}]"] if one.within else []
    return f"{{{', '.join(words)}}}"


def _mapping(numbers: Mapping[str, int]) -> str:
    return f"{{{', '.join(f'{name}: {number}' for name, number in numbers.items())}}}"


def _called(plan: Plan, name: str, meaning: str) -> str:
    """The end of a source: one function of the inputs, by names that the source itself is unlikely to use."""
    body = "\n".join(_module_call(plan) if plan.is_module else _plain_call(plan))
    head = _making(plan) if plan.is_module else f"_given = {plan.entry}\n"
    needs = "import functools as _functools\n" if plan.is_module else ""
    parameters = ", ".join(one.name for one in plan.inputs)
    return (
        f"\n\n# Added by `ridgeline init`: the same as a function of arrays alone.\n"
        f"{needs}import torch as _torch\n\n{head}\n\n"
        f"def {name}({parameters}):\n"
        f'    """{meaning}"""\n'
        f"    with _torch.no_grad():\n{textwrap.indent(body, ' ' * 8)}\n"
        f"    return {_returned(plan)}\n"
    )


def _returned(plan: Plan) -> str:
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
    made = f"{plan.entry}({'*get_init_inputs()' if plan.has_init else ''})"
    made_so = f".to(device, dtype){'' if plan.training else '.eval()'}\n"
    head = f"\n@_functools.lru_cache(maxsize=8)\ndef _module(device, dtype{parameters}):\n{update}"
    if not plan.random_parts:
        return f"{head}    _torch.manual_seed(0)\n    return {made}{made_so}"
    return (
        f"{MADE.format(made=made)}{head}"
        "    module = _made()\n"
        "    for part in module.modules():\n"
        "        for name, value in list(vars(part).items()):\n"
        "            if type(value) in (_torch.Tensor, list, tuple):\n"
        "                setattr(part, name, _moved(value, device, dtype))\n"
        f"    return module{made_so}"
    )


def _module_call(plan: Plan) -> Iterator[str]:
    first = next((one for one in plan.inputs if one.dtype in SHORT), plan.inputs[0])
    dtype = f"{first.name}.dtype" if first.dtype in SHORT else "_torch.float32"
    yield f"module = _module(\n    {first.name}.device,"
    yield f"    {dtype},"
    yield from (f"    {name}={_told(plan, name)}," for name in plan.made_with)
    yield ")"
    state = [f'    "{one.state}": {one.name},' for one in plan.arguments if one.state]
    yield from ("state = {", *state, "}") if state else ("state = {}",)
    given = _given(plan)
    yield f"result = _torch.func.functional_call(module, state, ({given}{'' if ', ' in given else ','}))"


def _told(plan: Plan, dim: str) -> str:
    """Where a size can be read: the extent of an array that is equal to it."""
    return next((f"{one.name}.shape[{one.shape.index(dim)}]" for one in plan.inputs if dim in one.shape), "")


def _plain_call(plan: Plan) -> Iterator[str]:
    yield f"result = _given({_given(plan)})"


def _given(plan: Plan) -> str:
    """What the file's own function is called with."""
    return ", ".join(one.literal or one.name for one in plan.arguments if one.state is None)


def _contract(plan: Plan) -> str:
    columns = ", ".join(["label", *plan.dims, "class", "Check", "Time (ms)"])
    work = [f'{kind}: "{formula}"' for kind, formula in (("flops", plan.flops), ("bytes", plan.bytes)) if formula]
    dtype = next((SHORT[one.dtype] for one in plan.outputs if one.dtype in SHORT), plan.outputs[0].dtype)
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
    notes = _listed(plan.notes or ("nothing out of the ordinary was met",))
    call = f"{plan.function}({', '.join(one.name for one in plan.inputs)})"
    inputs = _listed([f"`{one.name}` [{', '.join(one.shape)}], {one.dtype}, {one.constness}" for one in plan.inputs])
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


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def least_bytes(arrays: tuple[Argument, ...]) -> str | None:
    """Each array once that a call reads or writes all of: the least that it can move."""
    terms: dict[str, int] = {}
    for one in arrays:
        if one.literal is None and not one.partly:
            product = "*".join(extent if SIMPLE.fullmatch(extent) else f"({extent})" for extent in one.shape) or "1"
            terms[product] = terms.get(product, 0) + ITEM_BYTES[one.dtype] * (2 if one.constness == "mutated" else 1)
    formula = " + ".join(f"{count}*{product}" for product, count in terms.items())
    return formula if len(formula) <= LONGEST_FORMULA else None
