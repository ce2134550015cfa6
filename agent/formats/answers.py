"""Answers in the formats of problems: what is written of a candidate, and a candidate of what others wrote. Pure functions.

KernelBench: `ModelNew`, a module in the place of `Model`, made with the same arguments after the same seed, so with the
same parameters in the same order. GPU MODE: `submission.py` with `custom_kernel(data)`. FlashInfer Trace: `flashinfer.py`.
"""

import ast
import json

from ridgeline.agent.formats.gpumode import KERNEL, mend
from ridgeline.agent.formats.problem import FormatError, Origin, OriginArray
from ridgeline.graph.task import Task

ANSWER = "ModelNew"
PYTHON = ("triton", "python", "cutedsl", "flydsl")


def require_python(task: Task) -> None:
    """Raises FormatError for a candidate of a foreign problem that is not one file of Python."""
    if task.language not in PYTHON:
        raise FormatError(
            f"{task.name}: language: the format wants Python; {task.language} needs an entry in Python around it"
        )
    if len(task.source) > 1:
        raise FormatError(f"{task.name}: source: the format wants one file, the task has {len(task.source)}; join them")


def write_module(origin: Origin, task: Task, source: str) -> str:
    """An answer in KernelBench's format, of the candidate's file: `ModelNew`, `Model` with another `forward`."""
    require_python(task)
    if origin.format != "kernelbench":
        raise FormatError(f"{origin.name}: is no problem of KernelBench but of {origin.format}; export it to that")
    arrays = {array.name: array for array in origin.arrays}
    words = ", ".join(_word(arrays[name]) for name in task.order)
    original = "" if source.startswith(origin.text.rstrip()) else f"{origin.text.rstrip()}\n\n\n"
    return (
        f"{original}{source.rstrip()}\n\n\n# Added by `ridgeline export`: the same as KernelBench calls it.\n"
        f"_kernel = {task.entry}\n\n\n"
        f"class {ANSWER}({origin.entry}):\n"
        f"    def forward(self, *inputs):\n"
        f"        return _kernel({words})\n"
    )


def _word(array: OriginArray) -> str:
    """An array as Python inside forward() of a KernelBench answer."""
    if not array.state:
        return f"inputs{array.place}"
    return "self" + "".join(f"._modules[{part!r}]" if part.isdigit() else f".{part}" for part in array.state.split("."))


def write_submission(origin: Origin, task: Task, source: str) -> str:
    """An answer in GPU MODE's format, of the candidate's file: `submission.py` with `custom_kernel(data)`."""
    require_python(task)
    if origin.format != "gpumode":
        raise FormatError(f"{origin.name}: is no problem of GPU MODE but of {origin.format}; export it to that")
    places = {array.name: array.place.removeprefix("[0]") for array in origin.arrays}
    words = ", ".join(f"data{places[name]}" for name in task.order)
    return (
        f"{source.rstrip()}\n\n\n# Added by `ridgeline export`: the same for the runner of GPU MODE.\n"
        f"def {KERNEL}(data):\n    return {task.entry}({words})\n"
    )


def read_answer(origin: Origin, task: Task, text: str, *, file: str) -> str:
    """The task's one source file, of an answer in the foreign format that the task was made from. Raises FormatError.

    An answer that has the task's own entry is taken as it is.
    """
    require_python(task)
    if file.endswith(".json"):
        return _read_solution(origin, text, file)
    try:
        defined = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    except SyntaxError as error:
        raise FormatError(f"{file}: line {error.lineno}: {error.msg}; correct it") from None
    if origin.format == "kernelbench" and ANSWER in defined:
        return f"{origin.text.rstrip()}\n\n\n{text.rstrip()}\n{origin.answer}"
    if origin.format == "gpumode" and KERNEL in defined:
        plain = mend(text, ("task", "utils", "reference"), any_device=False)
        return f"{origin.text.rstrip()}\n\n\n{plain.rstrip()}\n{origin.answer}"
    if task.entry in defined:
        return text
    wanted = {"kernelbench": f"class {ANSWER}", "gpumode": f"def {KERNEL}(data)"}.get(origin.format, "")
    raise FormatError(f"{file}: defines neither {task.entry}() {f'nor {wanted}' if wanted else ''}; write one of them")


def _read_solution(origin: Origin, text: str, file: str) -> str:
    """The entry file of a solution of FlashInfer Trace or SOL-ExecBench. Raises FormatError."""
    try:
        fields = json.loads(text)
        sources = {each["path"]: each["content"] for each in fields["sources"]}
        path, _, entry = fields["spec"]["entry_point"].partition("::")
        passes_outputs = bool(fields["spec"].get("destination_passing_style", True))
        source, definition = sources[path], fields["definition"]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{file}: is no solution of FlashInfer Trace ({type(error).__name__}: {error})") from None
    if origin.format != "flashinfer" or definition != origin.name:
        raise FormatError(f"{file}: definition: is {definition}; the task was made from {origin.name}")
    if len(sources) > 1 or not path.endswith(".py"):
        raise FormatError(
            f"{file}: sources: only solutions of one Python file can be judged; this has {len(sources)} of {path}"
        )
    return f"{source.rstrip()}\n\n\nrun = {entry}\n{origin.answer_out if passes_outputs else origin.answer}"
