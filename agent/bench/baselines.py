"""A champion against PyTorch: eager, compiled and autotuned, and others' kernels, by the judge's process pairs in one run.

The sides of a task are written here: each may make its outputs as it likes, so that none pays for a copy that PyTorch
would not make. The champion is the same in every pair.
"""

import ast
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from math import exp, inf, log
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field

from ridgeline.agent.campaign import folders
from ridgeline.agent.campaign.champions import list_changed
from ridgeline.agent.errors import UserError
from ridgeline.graph.formula import evaluate
from ridgeline.graph.judgment import JudgeFailed, TimedCall
from ridgeline.graph.rules.history import lineage
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.stats.sequential import LEAST_PAIRS, estimate_gain
from ridgeline.graph.task import Task
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.machine import amd_machine, nvidia_machine, read_cpu
from ridgeline.sandbox.judge.judgment import Gain, to_comparison
from ridgeline.sandbox.judge.options import Options, Surroundings
from ridgeline.sandbox.judge.session import framework_of
from ridgeline.sandbox.judge.task_file import COMPILED, FILE_NAME, load_task
from ridgeline.sandbox.judge.task_judge import time_pair

Who = Literal["start", "eager", "compile", "max_autotune", "rival", "ours"]
TORCH: tuple[Who, ...] = ("eager", "compile", "max_autotune")
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
MODES: Mapping[Who, str] = {
    "eager": "",
    "compile": "PROGRAM = torch.compile(PROGRAM, dynamic=False)",
    "max_autotune": 'PROGRAM = torch.compile(PROGRAM, dynamic=False, mode="max-autotune-no-cudagraphs")',
}
"""What makes each of PyTorch's versions. The judge makes a graph of every side's calls itself, so none needs its own."""
ENTRY, PROGRAM = "ridgeline_entry.py", "ridgeline_program.py"
"""Of a side: what the judge calls, and PyTorch's program."""
MOST_SIZES = 256
"""PyTorch compiles a function anew for so many sizes before it gives up and runs it eagerly."""
LONGEST_PROGRAM = 400
"""Characters of PyTorch's version that are told as they stand."""
SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}


class ShapeTimes(Value):
    """One size: microseconds of a call, all of one run on one machine; whoever was not timed is left out."""

    label: str
    times_us: Mapping[Who, Positive] = {}
    floor_us: Positive | None = None


class SideBySide(Value):
    """What was timed beside a champion, in one run."""

    task: str = ""
    device: str = ""
    types: str = ""
    """Input, accumulation and output, as the task says."""
    engine: str = ""
    """What took the times: event, graph, profiler or wall."""
    date: str = ""
    rival: str = ""
    """Whose kernel `rival` is."""
    rival_source: str = ""
    """Where it is read, with its commit."""
    shapes: tuple[ShapeTimes, ...] = ()
    speedup: Mapping[Who, Positive] = {}
    """Their time over ours from interleaved pairs, over all shapes."""
    lower: Mapping[Who, Positive] = {}
    """Its lower bound at 99 %."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Side:
    """A version to be timed against the champion."""

    who: Who
    folder: Path | None
    """With the task's sources; None for PyTorch's, which are written of `program`."""


@dataclass(frozen=True, kw_only=True)
class BaselineRequest:
    """What is timed, and how much."""

    task_file: Path
    ours: Path | None
    """Folder with the champion's sources, or a campaign's folder; None: those beside the task."""
    start: Path | None = None
    """Those of the original; None: those beside the task, where `ours` is another version."""
    program: Path | None = None
    """PyTorch as one would write it: a file with `reference(inputs...)`; None: the task's own reference."""
    rival: Path | None = None
    only: tuple[Who, ...] = ()
    """Whom to time; empty: everybody."""
    until: float = inf
    """On the monotonic clock: nobody is begun with after it."""


def read_names(words: str) -> tuple[Who, ...]:
    """Names of sides out of an option with commas. Raises UserError for one that there is not."""
    names: tuple[Who, ...] = ("start", *TORCH, "rival")
    chosen = [word for word in words.split(",") if word]
    if unknown := sorted(set(chosen) - set(names)):
        raise UserError(f"--only: {', '.join(unknown)}: no such side; there are {', '.join(names)}")
    return tuple(name for name in names if name in chosen)


def measure_baselines(request: BaselineRequest, options: Options, note: Callable[[str], None]) -> SideBySide:
    """Time each side against the champion until it is clear which is faster, or there were enough pairs.

    `note` is told each step. A side that the judge refuses, or for which no time is left, is not measured, and a note of
    the answer says why. Raises UserError, and what judging raises.
    """
    task, folder = load_task(request.task_file)
    options = options.with_device(task)
    if not options.fit_sizes(task).timed:
        raise UserError(
            f"{request.task_file}: shapes: the timed ones are for a card, and this machine shows none; run it on one"
        )
    with open_sides(request, task, folder) as (task_file, ours, sides):
        run = _Run(task_file=task_file, ours=ours, task=load_task(task_file).task, options=options, until=request.until)
        note("the champion against itself")
        run.calibrate()
        for side, place in sides:
            note(f"{side.who} against the champion")
            note(f"  {run.time(side.who, place)}")
    program = request.program or folder / task.reference
    timed_torch = any(who in TORCH for who in run.gains)
    return SideBySide(
        task=task.name,
        device=_name_device(options),
        types=_describe_types(task),
        engine="event" if options.device == "cuda" else "wall",
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        shapes=run.read_times(),
        speedup={who: gain.speedup for who, gain in run.gains.items()},
        lower={who: gain.speedup_lower for who, gain in run.gains.items() if gain.speedup_lower is not None},
        notes=(*([describe_program(program)] if timed_torch else []), *run.notes),
    )


class _Run:
    """Process pairs of one champion with others; what they said so far."""

    def __init__(self, *, task_file: Path, ours: Path, task: Task, options: Options, until: float) -> None:
        self._task_file, self._ours, self._task, self._options, self._until = task_file, ours, task, options, until
        self._noise: Noise | None = None
        self._calls: dict[Who, list[TimedCall]] = {"ours": []}
        self.gains: dict[Who, Gain] = {}
        self.notes: list[str] = []

    def calibrate(self) -> None:
        """The champion against itself: what noise looks like here. Raises UserError for a champion that is refused."""
        pairs: list[Sequence[TimedCall]] = []
        for _ in range(self._options.calibration_pairs):
            calls = self._pair(self._ours)
            if isinstance(calls, JudgeFailed):
                raise UserError(f"the champion was refused: {calls.detail}", 1)
            pairs.append(calls)
            self._calls["ours"] += calls
        if pairs:
            self._noise = estimate_noise([to_comparison(pairs, "ours", "ours", self._task.shapes)])

    def time(self, who: Who, place: Path) -> str:
        """Pairs of that side and the champion; a line with what they say."""
        pairs: list[Sequence[TimedCall]] = []
        options, gain = self._options, None
        while gain is None or len(pairs) < options.most_pairs:
            if time.monotonic() > self._until:
                if len(pairs) >= LEAST_PAIRS:
                    break  # what they say stands, with the bound of so few
                return self._leave_out(who, f"no time was left after {len(pairs)} process pairs")
            calls = self._pair(place)
            if isinstance(calls, JudgeFailed):
                name = "the champion" if calls.side == "b" else who
                return self._leave_out(who, f"{name} was refused: {calls.detail}")
            pairs.append(calls)
            comparison = to_comparison(pairs, who, "ours", self._task.shapes)
            estimate = estimate_gain([comparison], self._noise, options.limits)
            gain = Gain(estimate=estimate, limits=options.limits, calibration_pairs=options.calibration_pairs)
            if len(pairs) >= options.pairs and gain.decision != "undecided":
                break
        assert gain is not None, "at least one pair was taken"
        self.gains[who] = gain
        self._calls[who] = [call for calls in pairs for call in calls if call.side == "a"]
        self._calls["ours"] += [call for calls in pairs for call in calls if call.side == "b"]
        return gain.answer.evidence[0]

    def _leave_out(self, who: Who, why: str) -> str:
        """In a comparison with baselines: notes why somebody has no time."""
        line = f"{who} is not measured: {' '.join(why.split())}"
        self.notes.append(line)
        return line

    def _pair(self, place: Path) -> tuple[TimedCall, ...] | JudgeFailed:
        """One process pair of what lies there, a, and the champion, b."""
        surroundings = Surroundings()
        blocks, options = self._options.blocks, self._options
        return time_pair(
            self._task_file, place, self._ours, shapes=(), blocks=blocks, options=options, surroundings=surroundings
        )

    def read_times(self) -> tuple[ShapeTimes, ...]:
        """In a comparison with baselines: medians by size; the champion's over all its pairs."""
        return tuple(
            ShapeTimes(
                label=shape.label,
                times_us={
                    who: float(f"{statistics.median(times):.5g}")
                    for who, calls in self._calls.items()
                    if (times := [call.time_us for call in calls if call.label == shape.label])
                },
            )
            for shape in self._task.timed
        )


def mean_us(shapes: Sequence[ShapeTimes], who: Who) -> float | None:
    """Geometric mean over the sizes; None unless every one was timed."""
    return mean_all([shape.times_us.get(who) for shape in shapes])


def mean_all(numbers: Sequence[float | None]) -> float | None:
    """Geometric mean; None where there is none, or one of them is missing."""
    known = [number for number in numbers if number is not None]
    return exp(sum(map(log, known)) / len(known)) if known and len(known) == len(numbers) else None


# The sides as the judge calls them.


@contextmanager
def open_sides(
    request: BaselineRequest, task: Task, folder: Path
) -> Iterator[tuple[Path, Path, list[tuple[Side, Path]]]]:
    """A task in which outputs are returned, the champion's folder, and each side with its own. Raises UserError."""
    _check_task(task, folder, request)
    with tempfile.TemporaryDirectory(prefix="ridgeline-baselines-") as scratch:
        root = Path(scratch)
        champion = _take_champion(request.ours, task, folder, root / "champion") if request.ours else folder
        sides = [
            *([Side(who="start", folder=request.start or folder)] if request.start or request.ours else []),
            *(Side(who=who, folder=None) for who in TORCH),
            *([Side(who="rival", folder=request.rival)] if request.rival else []),
        ]
        chosen = [side for side in sides if not request.only or side.who in request.only]
        ours = _write_kernel(root / "ours", task, champion)
        program = request.program or folder / task.reference
        places = [(side, _write_side(root / side.who, task, side, program)) for side in chosen]
        for path in [folder / task.reference, *sorted(folder.glob("*.py"))]:
            target = ours / path.relative_to(folder)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
        (ours / FILE_NAME).write_text(yaml.safe_dump(_describe_task(task)), encoding="utf-8")
        yield ours / FILE_NAME, ours, places


def _check_task(task: Task, folder: Path, request: BaselineRequest) -> None:
    """Raises UserError for a task whose PyTorch version cannot be written."""
    where = request.task_file
    if task.language in COMPILED:
        raise UserError(
            f"{where}: language: {task.language} and PyTorch are not timed in one pair; wrap the kernel in Python"
        )
    if changed := [tensor.name for tensor in task.inputs if tensor.constness == "mutated"]:
        raise UserError(
            f"{where}: inputs.{changed[0]}: is changed by the kernel; what does so has no version in PyTorch here"
        )
    reference = task.model_copy(update={"source": (task.reference,), "language": "python"})
    if request.program is None and framework_of(reference, folder) != "torch":
        raise UserError(
            f"{where}: reference: is not in PyTorch; give a file with `reference({', '.join(t.name for t in task.inputs)})` as --torch"
        )
    for option, path in (("--torch", request.program), ("--rival", request.rival), ("--start", request.start)):
        if path is not None and not (path.is_file() if option == "--torch" else path.is_dir()):
            raise UserError(f"{option} {path}: no such {'file' if option == '--torch' else 'folder'}; correct the path")


def _describe_task(task: Task) -> dict[str, object]:
    """The fields of the same task with outputs that are returned; what each side does, nobody asks here."""
    changed = task.model_copy(
        update={
            "source": (ENTRY, PROGRAM, *task.source),
            "entry": "call",
            "convention": "return",
            "library": "allowed",
            "arguments": (*(tensor.name for tensor in task.inputs), *task.shapes[0].dims),
        }
    )
    fields: dict[str, object] = changed.model_dump(mode="json")
    return fields


def _take_champion(place: Path, task: Task, folder: Path, to: Path) -> Path:
    """The folder itself, or the best version of the campaign that it is, made of its record. Raises UserError."""
    if not place.is_dir():
        raise UserError(f"--candidate {place}: no such folder; give one with the task's sources, or a campaign's")
    if not folders.is_campaign(place):
        return place
    history = folders.history(place)
    changed = {edit.path: edit.text for edit in list_changed(place, history)} if lineage(history) else {}
    if not changed:
        raise UserError(f"--candidate {place}: nothing was accepted there; the best version is the original")
    for name in task.source:
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = next((text for path, text in changed.items() if path == name or path.endswith(f"/{name}")), None)
        target.write_bytes((folder / name).read_bytes() if text is None else text.encode())
    return to


def _write_side(to: Path, task: Task, side: Side, program: Path) -> Path:
    """For a comparison with baselines: a folder with that side's sources and entry; `to`."""
    return _write_torch(to, task, side.who, program) if side.folder is None else _write_kernel(to, task, side.folder)


def _write_kernel(to: Path, task: Task, version: Path) -> Path:
    """A version's sources and an entry that makes its outputs; `to`. Raises UserError for a source that is not there."""
    to.mkdir()
    for name in task.source:
        if not (version / name).is_file():
            raise UserError(f"{version}: has no {name}, which the task names as source; give a folder with it")
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes((version / name).read_bytes())
    names, outputs = [tensor.name for tensor in task.inputs], [tensor.name for tensor in task.outputs]
    dims = [*task.shapes[0].dims]
    makes = task.convention == "out"
    extents = {
        tuple(shape.dims.values()): tuple(
            tuple(int(evaluate(extent, shape.dims)) for extent in tensor.shape) for tensor in task.outputs
        )
        for shape in task.shapes
    }
    lines = [
        *HEAD_LINES,
        f"KERNEL = getattr(read({task.source[0]!r}), {task.entry!r})",
        f"EXTENTS = {extents!r}",
        "",
        "",
        f"def call({', '.join([*names, *dims])}):",
    ]
    if makes:
        lines.append(f"    extents = EXTENTS[({', '.join(dims)},)]")
        lines += [
            f"    {tensor.name} = torch.empty(extents[{place}], dtype=torch.{tensor.dtype}, device={names[0]}.device)"
            for place, tensor in enumerate(task.outputs)
        ]
        lines += [f"    KERNEL({', '.join(task.order)})", f"    return ({', '.join(outputs)},)"]
    else:
        lines.append(f"    return KERNEL({', '.join(task.order)})")
    _write_entry(to, lines, "")
    return to


def _write_torch(to: Path, task: Task, who: Who, program: Path) -> Path:
    """PyTorch's program and an entry that calls it as it is, or compiled; `to`."""
    for name in task.source:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_text("", encoding="utf-8")
    names = ", ".join(tensor.name for tensor in task.inputs)
    kinds = ", ".join(f"torch.{tensor.dtype}" for tensor in task.outputs)
    lines = [
        *HEAD_LINES,
        f"MODULE = read({PROGRAM!r})",
        'REFERENCE = getattr(MODULE, "reference", None) or MODULE.trusted',
        f"KINDS = ({kinds},)",
        "",
        "",
        f"def PROGRAM({names}):",
        f"    results = REFERENCE({names})",
        "    results = results if isinstance(results, (tuple, list)) else (results,)",
        "    return tuple(result.to(kind).contiguous() for result, kind in zip(results, KINDS))",
        "",
        "",
        "torch.set_grad_enabled(False)",
        *(COMPILER_LINES if MODES[who] else ()),
        MODES[who],
        "",
        f"def call({', '.join([names, *task.shapes[0].dims])}):",
        f"    return PROGRAM({names})",
    ]
    _write_entry(to, lines, program.read_text(encoding="utf-8"))
    return to


HEAD_LINES = (
    "import importlib.util",
    "import sys",
    "from pathlib import Path",
    "",
    "import torch",
    "",
    "",
    "def read(name):",
    "    path = Path(__file__).parent / name",
    "    sys.path.insert(0, str(path.parent))",
    "    spec = importlib.util.spec_from_file_location(path.stem, path)",
    "    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)",
    "    spec.loader.exec_module(module)",
    "    return module",
    "",
    "",
)
"""Of every entry: how a file beside it is read, as the judge's worker reads a candidate's first file."""


COMPILER_LINES = (
    "import torch._dynamo",
    "for name in ('recompile_limit', 'cache_size_limit', 'accumulated_recompile_limit', 'accumulated_cache_size_limit'):",
    "    if hasattr(torch._dynamo.config, name):",
    f"        setattr(torch._dynamo.config, name, {MOST_SIZES})",
)
"""So that no size is run eagerly where it should be compiled; the limit's name hangs on PyTorch's version."""


def _write_entry(to: Path, lines: Sequence[str], program: str) -> None:
    (to / ENTRY).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (to / PROGRAM).write_text(program, encoding="utf-8")


def describe_program(program: Path) -> str:
    """What PyTorch's version computes, in words that need no file where it is short."""
    tree = ast.parse(program.read_text(encoding="utf-8"))
    bodies = [node.body for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "reference"]
    if len(bodies) == len([node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]) == 1:
        text = "; ".join(ast.unparse(line) for line in bodies[0])
        if "\n" not in text and len(text) <= LONGEST_PROGRAM:
            return f"PyTorch is timed as `{text}`"
    return f"PyTorch is timed as {program.parent.name}/{program.name} writes it"


def _describe_types(task: Task) -> str:
    """Types in and out, and what sums are made in where a task says it."""

    def name_all(kinds: Sequence[str]) -> str:
        return " and ".join(dict.fromkeys(SHORT.get(kind, kind) for kind in kinds))

    read, written = name_all([t.dtype for t in task.inputs]), name_all([t.dtype for t in task.outputs])
    both = f"{read} in and out" if read == written else f"{read} in, {written} out"
    half = any(tensor.dtype in ("float16", "bfloat16") for tensor in task.outputs)
    if half:
        return f"{both}, fp32 accumulation"
    return read if read == written == "fp32" else both


def _name_device(options: Options) -> str:
    """The name of the card that is first here, or of the processor."""
    if options.device == "cuda":
        machine = nvidia_machine() or amd_machine()
        return machine.name if machine else ""
    return read_cpu().model
