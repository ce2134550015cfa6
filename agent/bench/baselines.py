"""A champion against PyTorch: eager, compiled and autotuned, and others' kernels, by the judge's process pairs in one run.

The sides of a task are written here: each may make its outputs as it likes, so that none pays for a copy that PyTorch
would not make. The champion is the same in every pair. PyTorch's compiled versions are trusted: on a card each compiles
once, all at the same time and before anything is timed, and every process of a pair starts with what came of it.
"""

import ast
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from math import exp, inf, log
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError

from ridgeline.agent.campaign import folders
from ridgeline.agent.campaign.champions import list_changed
from ridgeline.agent.errors import UserError
from ridgeline.graph.errors import WorldError
from ridgeline.graph.formula import evaluate
from ridgeline.graph.judgment import JudgeFailed, TimedCall
from ridgeline.graph.rules.history import lineage
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.stats.sequential import LEAST_PAIRS, estimate_gain
from ridgeline.graph.task import Task
from ridgeline.graph.values import Value, is_default, is_empty
from ridgeline.sandbox.devices.machine import amd_machine, nvidia_machine, read_cpu
from ridgeline.sandbox.judge.judgment import Gain, to_comparison
from ridgeline.sandbox.judge.options import JudgeTimeout, Options, Surroundings
from ridgeline.sandbox.judge.session import framework_of
from ridgeline.sandbox.judge.task_file import COMPILED, FILE_NAME, load_task
from ridgeline.sandbox.judge.task_judge import compile_versions, time_pair
from ridgeline.sandbox.store.durable import write_whole

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
BESIDE = "pytorch.py"
"""PyTorch as one would write it, where it lies beside a task."""
MOST_SIZES = 256
"""PyTorch compiles a function anew for so many sizes before it gives up and runs it eagerly."""
MOST_THREADS = 8
"""Of PyTorch's compiler while it tries kernels: each needs memory of its own, and a worker has so much."""
LONGEST_PROGRAM = 400
"""Characters of PyTorch's version that are told as they stand."""
CLAIM = "the card's timer claims"
"""In what the judge says where its own clock does not show what the card's timer does."""
T = TypeVar("T")
SHORT = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip


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
    undecided: Annotated[tuple[Who, ...], Field(exclude_if=is_empty)] = ()
    """Who has no time, since the judge's two clocks disagree on the champion's lead: that one may be the fastest."""
    digests: Annotated[Mapping[Who, str], Field(exclude_if=is_default({}))] = {}
    """Of the sources of whoever was timed: what a later run goes on with must be the same."""


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
    """PyTorch as one would write it: a file with `reference(inputs...)`; None: pytorch.py beside the task, else its reference."""
    rival: Path | None = None
    only: tuple[Who, ...] = ()
    """Whom to time, in this order, for a time that may end before all are; empty: everybody, the rival last."""
    until: float = inf
    """On the monotonic clock: no pair is begun that would end after it."""
    keep: Path | None = None
    """A file that holds the answer after each side; who is in it already is not timed again."""
    rival_name: str = ""
    rival_source: str = ""


def read_names(words: str, option: str = "--only") -> tuple[Who, ...]:
    """Names of sides out of an option with commas, in its order. Raises UserError for one that there is not."""
    names: tuple[Who, ...] = ("start", *TORCH, "rival")
    chosen = [word for word in words.split(",") if word]
    if unknown := sorted(set(chosen) - set(names)):
        raise UserError(f"{option}: {', '.join(unknown)}: no such side; there are {', '.join(names)}")
    return tuple(name for name in dict.fromkeys(chosen) if name in names)


def measure_baselines(request: BaselineRequest, options: Options, note: Callable[[str], None]) -> SideBySide:
    """Time each side against the champion until it is clear which is faster, or there were enough pairs.

    `note` is told each step with the seconds so far. A side that the judge refuses, or for which no time is left, is not
    measured, and a note of the answer says why. Raises UserError, and what judging raises.
    """
    task, folder = load_task(request.task_file)
    request = _find_program(request, folder)
    options = options.with_device(task).model_copy(update={"lesser_clock": True})
    if not options.fit_sizes(task).timed:
        raise UserError(
            f"{request.task_file}: shapes: the timed ones are for a card, and this machine shows none; run it on one"
        )
    began = time.monotonic()

    def tell(line: str) -> None:
        note(f"{time.monotonic() - began:4.0f} s  {line}")

    with open_sides(request, task, folder) as (task_file, ours, sides):
        derived = load_task(task_file).task
        digests: dict[Who, str] = {"ours": _hash_sources(ours, derived)}
        digests |= {side.who: _hash_sources(place, derived) for side, place in sides}
        empty = SideBySide(
            task=task.name,
            device=_name_device(options),
            types=_describe_types(task),
            engine="event" if options.device == "cuda" else "wall",
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            rival=request.rival_name,
            rival_source=request.rival_source,
            digests={"ours": digests["ours"]},
        )
        earlier = _read_earlier(request.keep, empty, digests)
        missing = [(side, place) for side, place in sides if side.who not in earlier.speedup]
        run = _Run(task_file=task_file, ours=ours, task=derived, options=options, until=request.until)
        program = describe_program(request.program or folder / task.reference)

        def answer() -> SideBySide:
            named = {who: digest for who, digest in digests.items() if who in run.gains}
            return _add_run(earlier, run.add_to(empty), digests=named, program=program)

        if missing:
            tell("the champion against itself")
            run.calibrate()
        is_compiled = False
        while missing:
            if not is_compiled and _compiles(missing[0][0].who):  # whoever is before needs not wait for it
                missing, is_compiled = run.compile(missing, tell), True
                continue
            (side, place), *missing = missing
            tell(f"{side.who} against the champion")
            tell(f"  {run.time(side.who, place, waiting=len(missing))}")
            if request.keep:
                _keep(request.keep, answer())
        final = answer()
        if request.keep:
            _keep(request.keep, final)
    return final


def _find_program(request: BaselineRequest, folder: Path) -> BaselineRequest:
    """With PyTorch's program that lies beside the task, where none was given: a reference may compute in wider types."""
    beside = folder / BESIDE
    return replace(request, program=beside) if request.program is None and beside.is_file() else request


def _compiles(who: Who) -> bool:
    """PyTorch's versions that `torch.compile` makes."""
    return "torch.compile" in MODES.get(who, "")


def _hash_sources(place: Path, task: Task) -> str:
    """Of a side's sources, entry included."""
    return sha256(b"\0".join((place / name).read_bytes() for name in task.source)).hexdigest()


def _keep(path: Path, answer: SideBySide) -> None:
    """The answer so far, so that nothing measured is lost. Raises DiskFull."""
    write_whole(path, answer.model_dump_json(indent=2).encode() + b"\n")


def _read_earlier(path: Path | None, empty: SideBySide, digests: Mapping[Who, str]) -> SideBySide:
    """What an earlier run has timed of the same sides; `empty` where there is none. Raises UserError for another's file."""
    if path is None or not path.exists():
        return empty
    try:
        earlier = SideBySide.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise UserError(f"--keep {path}: {error.errors()[0]['msg']}; name another file") from None
    for field in ("task", "device", "engine"):
        if getattr(earlier, field) != getattr(empty, field):
            raise UserError(
                f"--keep {path}: {field}: is of {getattr(earlier, field)}, this is {getattr(empty, field)}; name another file"
            )
    if earlier.digests.get("ours") != digests["ours"]:
        raise UserError(f"--keep {path}: digests.ours: is of another champion; name another file")
    changed = {who for who in digests if who in earlier.digests and earlier.digests[who] != digests[who]}
    return earlier.model_copy(
        update={
            "shapes": tuple(
                shape.model_copy(update={"times_us": _without(shape.times_us, changed)}) for shape in earlier.shapes
            ),
            **{field: _without(getattr(earlier, field), changed) for field in ("speedup", "lower", "digests")},
        }
    )


def _without(by_side: Mapping[Who, T], changed: Set[Who]) -> dict[Who, T]:
    return {who: value for who, value in by_side.items() if who not in changed}


def _add_run(earlier: SideBySide, run: SideBySide, *, digests: Mapping[Who, str], program: str) -> SideBySide:
    """Both in one. The champion's times stay those of the first run; where the others were timed later, a note says beside what."""
    known = {shape.label: shape.times_us for shape in earlier.shapes}
    later = [*run.speedup] if earlier.speedup else []
    notes = [line for line in earlier.notes if " is not measured: " not in line]
    if later:
        beside = ", ".join(f"{shape.times_us['ours']:.5g} us" for shape in run.shapes if "ours" in shape.times_us)
        notes.append(f"{' and '.join(later)}: in a later run, beside the champion at {beside}")
    if any(who in TORCH for who in (*earlier.speedup, *run.speedup)):
        notes = [program, *(line for line in notes if line != program)]
    return run.model_copy(
        update={
            "date": earlier.date,
            "rival": run.rival or earlier.rival,
            "rival_source": run.rival_source or earlier.rival_source,
            "shapes": tuple(
                shape.model_copy(update={"times_us": {**shape.times_us, **known.get(shape.label, {})}})
                for shape in run.shapes
            ),
            "speedup": {**earlier.speedup, **run.speedup},
            "lower": {**earlier.lower, **run.lower},
            "digests": {**earlier.digests, **digests},
            "notes": (*notes, *run.notes),
            "undecided": (
                *(who for who in earlier.undecided if who not in {*run.speedup, *run.undecided}),
                *run.undecided,
            ),
        }
    )


class _Run:
    """Process pairs of one champion with others; what they said so far."""

    def __init__(self, *, task_file: Path, ours: Path, task: Task, options: Options, until: float) -> None:
        self._task_file, self._ours, self._task, self._until = task_file, ours, task, until
        left_s = max(until - time.monotonic(), 0.0)
        self._options = options.model_copy(update={"call_s": max(1.0, min(options.call_s, left_s))})
        self._noise: Noise | None = None
        self._calls: dict[Who, list[TimedCall]] = {"ours": []}
        self._pair_s = 0.0
        """The longest of the champion with itself."""
        self.gains: dict[Who, Gain] = {}
        self.notes: list[str] = []
        self.undecided: list[Who] = []

    def calibrate(self) -> None:
        """The champion against itself: what noise looks like here. Raises UserError for a champion that is refused."""
        pairs: list[Sequence[TimedCall]] = []
        for number in range(self._options.calibration_pairs):
            began = time.monotonic()
            calls = self._pair(self._ours)
            if isinstance(calls, JudgeFailed):
                said = "cannot be timed beside itself" if calls.unclear else "was refused"
                raise UserError(f"the champion {said}: {calls.detail}", 1)
            if number:  # the first process of all starts and compiles what the others find
                self._pair_s = max(self._pair_s, time.monotonic() - began)
            pairs.append(calls)
            self._calls["ours"] += calls
        if pairs:
            self._noise = estimate_noise([to_comparison(pairs, "ours", "ours", self._task.shapes)])

    def compile(self, sides: Sequence[tuple[Side, Path]], tell: Callable[[str], None]) -> list[tuple[Side, Path]]:
        """Before the first of them is timed: PyTorch's compiled versions compile, at the same time; the sides without those that failed."""
        compiled = [(side.who, place) for side, place in sides if _compiles(side.who)]
        if not compiled or time.monotonic() > self._until:
            return list(sides)
        tell(f"compiling, untimed: {' and '.join(who for who, _ in compiled)}")
        surroundings = Surroundings(until=self._until)
        places = [place for _, place in compiled]
        failed: set[Who] = set()
        try:
            versions = compile_versions(self._task_file, places, self._options, surroundings)
        except (JudgeTimeout, WorldError) as error:
            failed |= {who for who, _ in compiled}
            for who, _ in compiled:
                tell(f"  {self._leave_out(who, f'it did not compile: {error}')}")
            versions = ()
        for (who, _), version in zip(compiled, versions, strict=False):
            if version.failure:
                failed.add(who)
                tell(f"  {self._leave_out(who, f'it did not compile in {version.seconds:.0f} s: {version.failure}')}")
            else:
                tell(f"  {who}: in {version.seconds:.0f} s")
        return [(side, place) for side, place in sides if side.who not in failed]

    def time(self, who: Who, place: Path, *, waiting: int) -> str:
        """Pairs of that side and the champion; a line with what they say. So many sides wait for their turn."""
        pairs: list[Sequence[TimedCall]] = []
        options, gain, pair_s = self._options, None, self._pair_s
        while gain is None or len(pairs) < options.most_pairs:
            left_s = self._until - time.monotonic()
            if left_s < pair_s:
                if len(pairs) >= LEAST_PAIRS:
                    break  # what they say stands, with the bound of so few
                return self._leave_out(who, f"no time was left after {len(pairs)} process pairs")
            if len(pairs) >= options.pairs and left_s - pair_s < waiting * options.pairs * self._pair_s:
                break  # undecided; the others have their least first
            began = time.monotonic()
            try:
                calls = self._pair(place)
            except WorldError as error:  # of this side, maybe; the others still have their turn
                return self._leave_out(who, f"after {len(pairs)} process pairs: {error}")
            if isinstance(calls, JudgeFailed):
                self.undecided += [who] if _are_clocks_apart(calls) else []
                return self._leave_out(who, _describe_refusal(who, calls))
            pair_s = time.monotonic() - began
            pairs.append(calls)
            comparison = to_comparison(pairs, who, "ours", self._task.shapes)
            estimate = estimate_gain([comparison], self._noise, options.limits)
            gain = Gain(estimate=estimate, limits=options.limits, calibration_pairs=options.calibration_pairs)
            if len(pairs) >= options.pairs and gain.decision != "undecided":
                break
        assert gain is not None, "at least one pair was taken"
        self.gains[who] = gain
        self._calls[who] = [call for calls in pairs for call in calls if call.side == "a"]
        self._note_lesser(who, pairs)
        self._calls["ours"] += [call for calls in pairs for call in calls if call.side == "b"]
        return gain.answer.evidence[0]

    def _note_lesser(self, who: Who, pairs: Sequence[Sequence[TimedCall]]) -> None:
        """In a comparison with baselines: at which sizes calls in a row showed less of the champion's lead than the card's timer."""
        for shape in self._task.timed if self._options.device == "cuda" else ():
            own = [[call for call in calls if (call.label, call.side) == (shape.label, "a")] for calls in pairs]
            lesser = [calls for calls in own if any(call.time_us < (call.claimed_us or 0.0) for call in calls)]
            if lesser:
                claimed_us = statistics.median(call.claimed_us or 0.0 for calls in lesser for call in calls)
                counted_us = statistics.median(call.time_us for calls in lesser for call in calls)
                self.notes.append(
                    f"{who} at {shape.label}: in {len(lesser)} of {len(pairs)} process pairs calls in a row show less of "
                    "the champion's lead by the judge's clock than the card's timer, and the lesser counts: "
                    f"{counted_us:.4g} us in place of {claimed_us:.4g}"
                )

    def _leave_out(self, who: Who, why: str) -> str:
        """In a comparison with baselines: notes why somebody has no time."""
        line = f"{who} is not measured: {' '.join(why.split())}"
        self.notes.append(line)
        return line

    def _pair(self, place: Path) -> tuple[TimedCall, ...] | JudgeFailed:
        """One process pair of what lies there, a, and the champion, b."""
        blocks, options, surroundings = self._options.blocks, self._options, Surroundings()
        return time_pair(
            self._task_file, place, self._ours, shapes=(), blocks=blocks, options=options, surroundings=surroundings
        )

    def add_to(self, answer: SideBySide) -> SideBySide:
        """In a comparison with baselines: what was timed so far; medians by size, the champion's over all its pairs."""
        shapes = tuple(
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
        gains = self.gains.items()
        return answer.model_copy(
            update={
                "shapes": shapes,
                "speedup": {who: gain.speedup for who, gain in gains},
                "lower": {who: gain.speedup_lower for who, gain in gains if gain.speedup_lower is not None},
                "notes": tuple(self.notes),
                "undecided": tuple(self.undecided),
            }
        )


def _describe_refusal(who: Who, failed: JudgeFailed) -> str:
    """Why a pair of somebody, a, and the champion, b, gave no times. Where two clocks disagree nobody was wrong."""
    if _are_clocks_apart(failed):
        return (
            f"it and the champion are not told apart: the two clocks disagree on the champion's lead: {failed.detail}"
        )
    name = "the champion" if failed.side == "b" else who
    if failed.unclear:
        return f"the time of {name} says nothing: {failed.detail}"
    return f"{name} was refused: {failed.detail}"


def _are_clocks_apart(failed: JudgeFailed) -> bool:
    """Whether a pair has no times since the card's timer and the judge's clock do not show the same lead."""
    return failed.unclear and CLAIM in failed.detail


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
        by_name = {side.who: side for side in sides}
        chosen = [by_name[who] for who in request.only or by_name if who in by_name]
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
            "shapes": task.timed,  # the judge has a version compile for every size that is declared
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
    if not changed and (measured := folders.read_status(place).get("measured")):
        raise UserError(
            f"--candidate {place}: nothing was kept there yet; its open round counts when the question about it is answered"
            f" (`ridgeline answer`): {measured}"
        )
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
        f"THREADS = {who == 'max_autotune'}",
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
    "import os",
    "import torch._dynamo",
    "import torch._inductor.config",
    "for name in ('recompile_limit', 'cache_size_limit', 'accumulated_recompile_limit', 'accumulated_cache_size_limit'):",
    "    if hasattr(torch._dynamo.config, name):",
    f"        setattr(torch._dynamo.config, name, {MOST_SIZES})",
    "SETTINGS = torch._inductor.config",
    "SETTINGS.cpp_cache_precompile_headers = False",
    "found = Path(os.environ.get('TORCHINDUCTOR_CACHE_DIR', '')).is_dir()",
    f"SETTINGS.compile_threads = 1 if found or not THREADS else min({MOST_THREADS}, len(os.sched_getaffinity(0)))",
)
"""So that no size is run eagerly where it should be compiled; the limit's name hangs on PyTorch's version.

Headers compiled in advance are hundreds of megabytes that every process would be handed. Where all is compiled already no
process starts others, which would run beside a timed call; the first takes some where there is much to try."""


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
