"""FlashInfer Trace and SOL-ExecBench: definitions and workloads in, solutions and traces out.

Schema: https://bench.flashinfer.ai/docs/flashinfer-trace, and SOL-ExecBench, which adds to it. Pure functions.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ridgeline.agent.formats.problem import FormatError, Origin, Problem, Sizes, choose_sizes
from ridgeline.graph.judgment import QuestionAnswer
from ridgeline.graph.task import FLOAT8_LARGEST, DType, Task
from ridgeline.graph.values import Value
from ridgeline.sandbox.store.yaml_file import explain_errors

Part = TypeVar("Part", bound=BaseModel)
INTEGERS = {"int8": (-128, 128), "int16": (-1024, 1024), "int32": (-1024, 1024), "int64": (-1024, 1024)}
"""From where the field's own runner draws whole numbers."""
FLOATS = ("float64", "float32", "float16", "bfloat16", *FLOAT8_LARGEST)


class _Foreign(BaseModel):
    """A part of a document of theirs. Fields that are not read here are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Axis(_Foreign):
    """A dimension: of one value, free, or arithmetic over others."""

    type: Literal["const", "var", "expr"]
    value: int = 0
    expression: str = ""


class TensorSpec(_Foreign):
    """An input or output; a scalar has no shape."""

    shape: tuple[str, ...] | None
    dtype: str


class Definition(_Foreign):
    """What is computed."""

    name: str = Field(min_length=1)
    axes: dict[str, Axis]
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]
    reference: str = Field(min_length=1)
    constraints: tuple[str, ...] = ()
    custom_inputs_entrypoint: str | None = None
    """Of SOL-ExecBench: the function of `reference` that makes inputs."""
    hf_id: str | None = None
    """Of SOL-ExecBench."""


class WorkloadInput(_Foreign):
    """Where the values of an input come from."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: int | float | bool | None = None


class Workload(_Foreign):
    """Values of the free dimensions, and of the scalars."""

    axes: dict[str, int]
    inputs: dict[str, WorkloadInput]
    uuid: str


def read_problem(definition: str, workloads: str, *, file: str) -> Problem:
    """The problem of a definition (JSON) and its workloads (JSON Lines, bare or in traces). Raises FormatError."""
    form = _parse(Definition, _read_json(definition, file), file)
    chosen = [(line, load) for line, load in _read_workloads(workloads, form.name, file)]
    if not chosen:
        raise FormatError(f"{file}: has no workload; give the file with its workloads, one JSON object in each line")
    notes = [*_refuse_what_cannot_be_drawn(form, [load for _, load in chosen], file)]
    scalars = _scalars(form, chosen[0][1], file)
    alike = [(line, load) for line, load in chosen if _scalars(form, load, file) == scalars]
    if len(alike) < len(chosen):
        values = ", ".join(f"{name}={value}" for name, value in scalars.items())
        notes.append(f"{len(chosen) - len(alike)} workloads with other scalars than {values} are left out")
    sizes, note = choose_sizes(tuple(_group_sizes(alike, form)))
    sizes = tuple(sorted(sizes, key=lambda each: sorted(each.numbers.values())))
    notes += [note] if note else []
    return Problem(
        format="flashinfer",
        name=form.name,
        text=_write_source(form, sizes[0].numbers, scalars),
        file=file,
        entry="run",
        knobs=tuple(sizes[0].numbers),
        sizes=sizes,
        notes=tuple(notes),
        original=definition,
    )


def _read_json(text: str, file: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise FormatError(f"{file}: is not JSON ({error}); give a definition of FlashInfer Trace") from None


def _parse(kind: type[Part], fields: object, file: str) -> Part:
    """A part of a flashinfer-bench file as that model. Raises FormatError with the first field that is wrong."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise FormatError(f"{file}: {next(iter(explain_errors(error)))}") from None


def _read_workloads(text: str, name: str, file: str) -> Iterator[tuple[str, Workload]]:
    """Each workload of this flashinfer-bench definition with its JSON."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{file}: workloads: line {number}"
        fields = _read_json(line, where)
        if isinstance(fields, dict) and isinstance(fields.get("workload"), dict):
            if fields.get("definition") != name:
                continue
            fields = fields["workload"]
        yield json.dumps(fields), _parse(Workload, fields, where)


def _refuse_what_cannot_be_drawn(form: Definition, loads: Sequence[Workload], file: str) -> Iterator[str]:
    """Notes on inputs of a flashinfer-bench problem; raises FormatError for those that the judge cannot draw."""
    for name, spec in {**form.inputs, **form.outputs}.items():
        if spec.dtype not in get_args(DType):
            raise FormatError(f"{file}: {name}: is of {spec.dtype}; tasks know {', '.join(get_args(DType))}")
    kinds = {name: {load.inputs[name].type for load in loads if name in load.inputs} for name in form.inputs}
    for name, spec in form.inputs.items():
        if "safetensors" in kinds[name] and spec.dtype not in FLOATS:
            raise FormatError(
                f"{file}: {name}: whole numbers from a safetensors file have a structure that the judge cannot draw; "
                "write a task by hand whose kernel makes them of inputs that can be drawn (docs/formats.md)"
            )
        if "safetensors" in kinds[name]:
            yield f"{name}: stands in a safetensors file; it is drawn instead, so that no value of it can be learned"
        if "custom" in kinds[name] and spec.dtype not in FLOATS:
            yield f"{name}: whole numbers between the ends of what {form.custom_inputs_entrypoint}() makes, else as they come"
    if any("custom" in kind for kind in kinds.values()) and not form.custom_inputs_entrypoint:
        raise FormatError(f"{file}: custom_inputs_entrypoint: missing, and the workloads want it; name the function")
    if form.constraints:
        yield f"constraints are not looked at where the judge draws sizes: {'; '.join(form.constraints)}"


def _scalars(form: Definition, load: Workload, file: str) -> dict[str, int | float | bool]:
    """A flashinfer-bench workload's values of the inputs that are no tensors. Raises FormatError where it has none."""
    scalars: dict[str, int | float | bool] = {}
    for name, spec in form.inputs.items():
        if spec.shape is None:
            value = load.inputs[name].value if name in load.inputs else None
            if value is None:
                raise FormatError(
                    f"{file}: {name}: the workload {load.uuid} has no value for it; give it one of type scalar"
                )
            scalars[name] = value
    return scalars


def _group_sizes(loads: Iterable[tuple[str, Workload]], form: Definition) -> Iterator[Sizes]:
    """Sizes of a flashinfer-bench problem: one for each different set of free dimensions."""
    free = [name for name, axis in form.axes.items() if axis.type == "var"]
    by_numbers: dict[tuple[int, ...], list[str]] = {}
    for line, load in loads:
        if missing := [name for name in free if name not in load.axes]:
            raise FormatError(f"{form.name}: workload {load.uuid}: axes: {missing[0]} is missing; add it")
        by_numbers.setdefault(tuple(load.axes[name] for name in free), []).append(line)
    for numbers, lines in by_numbers.items():
        label = "_".join(f"{name}{number}" for name, number in zip(free, numbers, strict=True)) or "given"
        yield Sizes(
            label=re.sub(r"[^A-Za-z0-9._-]", "_", label),
            numbers=dict(zip(free, numbers, strict=True)),
            workloads=tuple(lines),
        )


def _write_source(form: Definition, numbers: Mapping[str, int], scalars: Mapping[str, object]) -> str:
    """A flashinfer-bench definition's reference with get_inputs(), as a file of PyTorch."""
    head = [
        form.reference.rstrip(),
        "",
        "",
        "# Added by `ridgeline init`: one size, and inputs as its workload has them.",
    ]
    head += ["import torch as _torch", "", *(f"{name} = {number}" for name, number in numbers.items())]
    if form.custom_inputs_entrypoint:
        known = ", ".join(f"{name!r}: {_extent(form, name)}" for name in form.axes)
        known += "".join(f", {name!r}: {value!r}" for name, value in scalars.items())
        body = [f"    made = {form.custom_inputs_entrypoint}({{{known}}}, _torch.empty(0).device)"]
        parts = [repr(scalars[name]) if name in scalars else f"made[{name!r}]" for name in form.inputs]
    else:
        body = []
        parts = [
            repr(scalars[name]) if name in scalars else _write_draw(form, spec) for name, spec in form.inputs.items()
        ]
    body += ["    return [", *(f"        {part}," for part in parts), "    ]"]
    lines = [*head, "", "", "def get_inputs():", *body]
    if _returns_mapping(form.reference):
        names = ", ".join(form.inputs)
        results = "".join(f"result[{name!r}], " for name in form.outputs)
        lines += ["", "", "_by_name = run", "", "", f"def run({names}):", f"    result = _by_name({names})"]
        lines += [f"    return ({results.strip()})"]
    return "\n".join(lines) + "\n"


def _extent(form: Definition, name: str) -> str:
    """An axis of a flashinfer-bench definition as Python over the free ones."""
    axis = form.axes.get(name)
    if axis is None or axis.type == "var":
        return name
    if axis.type == "const":
        return str(axis.value)
    tree = ast.parse(axis.expression, mode="eval")
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    text = axis.expression
    for inner in sorted(names, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(inner)}\b", f"({_extent(form, inner)})", text)
    return f"({text})"


def _write_draw(form: Definition, spec: TensorSpec) -> str:
    """Python that makes an input as flashinfer-bench's own runner does."""
    extents = ", ".join(_extent(form, name) for name in spec.shape or ())
    shape = f"({extents},)" if extents else "()"
    if spec.dtype in FLOAT8_LARGEST:
        return f"_torch.randn({shape}).to(_torch.{spec.dtype})"
    if spec.dtype in FLOATS:
        return f"_torch.randn({shape}, dtype=_torch.{spec.dtype})"
    if spec.dtype == "bool":
        return f"_torch.rand({shape}) > 0.5"
    low, high = INTEGERS.get(spec.dtype, (0, 128))
    return f"_torch.randint({low}, {high}, {shape}, dtype=_torch.{spec.dtype})"


def _returns_mapping(reference: str) -> bool:
    """Whether run() of a flashinfer-bench definition gives its outputs by name."""
    functions = [node for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef) and node.name == "run"]
    returns = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.Return)]
    return any(isinstance(node.value, ast.Dict) for node in returns)


# What goes out: a solution, and a trace for each workload.

LANGUAGES = {"triton": "triton", "python": "python"}
LANGUAGES_OF_SOL = {"triton": "triton", "python": "pytorch", "cutedsl": "cute_dsl"}
ENTRY_FILE = "main.py"
USES_TRITON = re.compile(r"^\s*(import|from)\s+triton\b", re.MULTILINE)
STATUSES = {"load": "COMPILE_ERROR", "timeout": "TIMEOUT"} | dict.fromkeys(
    ("crash", "memory", "protocol"), "RUNTIME_ERROR"
)
"""Of a candidate that gave no answer, by what the judge says of its process."""
LOST = re.compile(rf"(?:^|: )({'|'.join(STATUSES)}): ")


class Measurement(Value):
    """What the judge says of a candidate, for the workloads of one size."""

    time_ms: float
    base_ms: float
    """Of the version that it was compared with."""


class Report(Value):
    """A judged candidate, for traces."""

    solution: str
    correct: QuestionAnswer
    hardware: str
    libraries: dict[str, str] = {}
    timestamp: str
    """ISO 8601."""
    times: dict[str, Measurement] = {}
    """By label of the size."""


def write_solution(origin: Origin, task: Task, source: str, *, name: str, author: str) -> dict[str, Any]:
    """A flashinfer-bench solution of the definition that the task was made from: one Python file with `run` of its inputs.

    `source` is the candidate's one file. A definition of SOL-ExecBench gets a solution of its own schema.
    """
    form = _parse(Definition, json.loads(origin.original), origin.name)
    is_sol = is_of_sol(origin)
    languages = LANGUAGES_OF_SOL if is_sol else LANGUAGES
    if task.language not in languages:
        raise FormatError(
            f"{task.name}: language: {task.language} has no entry that the field's runner calls without a binding; "
            f"write one in {' or '.join(languages)}"
        )
    written_in = "python" if task.language == "triton" and not USES_TRITON.search(source) else task.language
    spec: dict[str, Any] = {"languages": [languages[written_in]]} if is_sol else {"language": languages[written_in]}
    spec |= {
        "target_hardware": ["LOCAL"] if is_sol else ["cuda"],
        "entry_point": f"{ENTRY_FILE}::run",
        "dependencies": ["torch", *(["triton"] if written_in == "triton" else [])],
        "destination_passing_style": False,
    }
    return {
        "name": name,
        "definition": form.name,
        "author": author,
        "description": "Written by `ridgeline export`.",
        "spec": spec,
        "sources": [{"path": ENTRY_FILE, "content": _write_entry(form, origin, task, source)}],
    }


def is_of_sol(origin: Origin) -> bool:
    """Whether the definition has what only SOL-ExecBench's have."""
    fields = json.loads(origin.original)
    expressions = any(axis.get("type") == "expr" for axis in fields.get("axes", {}).values())
    return expressions or not fields.get("op_type") or bool({"custom_inputs_entrypoint", "hf_id"} & set(fields))


def _write_entry(form: Definition, origin: Origin, task: Task, source: str) -> str:
    """The candidate's file, with `run` as the flashinfer-bench definition has it."""
    inputs = [*form.inputs]
    by_input = {inputs[int(array.place.strip("[]"))]: array.name for array in origin.arrays}
    names = [by_input.get(name) for name in inputs]
    order = [name for name, array in by_input.items()]
    if task.entry == "run" and order == inputs and task.order == tuple(names):
        return source
    by_array = {array: name for name, array in by_input.items()}
    words = ", ".join(by_array[name] for name in task.order)
    kernel = "_kernel" if task.entry == "run" else task.entry
    rename = f"{kernel} = {task.entry}\n\n\n" if kernel != task.entry else "\n"
    return f"{source.rstrip()}\n\n\n{rename}def run({', '.join(inputs)}):\n    return {kernel}({words})\n"


def write_traces(origin: Origin, report: Report) -> Iterator[dict[str, Any]]:
    """flashinfer-bench's traces, one for each workload of a timed size: passed where the judge found the candidate right.

    The judge keeps no largest error, so `correctness` has the field's default of 0 and says in `extra` what was asked.
    A candidate that gave no answer has none, as the field's schema wants it; of one that is undecided there is no trace.
    """
    if report.correct.answer == "unverified":
        return
    lost = LOST.search(report.correct.evidence[0]) if report.correct.evidence else None
    wrong = STATUSES[lost[1]] if lost else "INCORRECT_NUMERICAL"
    status = "PASSED" if report.correct.answer == "yes" else wrong
    for sizes in origin.sizes:
        measurement = report.times.get(sizes.label)
        if report.correct.answer == "yes" and measurement is None:
            continue
        for workload in sizes.workloads:
            evaluation: dict[str, Any] = {
                "status": status,
                "environment": {"hardware": report.hardware, "libs": report.libraries},
                "timestamp": report.timestamp,
                "log": "\n".join(report.correct.evidence),
            }
            if status in ("PASSED", "INCORRECT_NUMERICAL"):
                evaluation["correctness"] = {"extra": {"judge": "ridgeline", "correct": report.correct.answer}}
            if report.correct.answer == "yes" and measurement is not None:
                evaluation["performance"] = {
                    "latency_ms": measurement.time_ms,
                    "reference_latency_ms": measurement.base_ms,
                    "speedup_factor": measurement.base_ms / measurement.time_ms,
                }
            yield {
                "definition": origin.name,
                "workload": json.loads(workload),
                "solution": report.solution,
                "evaluation": evaluation,
            }
