"""Finds problems on disk, in whatever format they are, and reads one. All effects of this folder are here.

A problem is named by its place below the folder that was given, so that the names of many stay apart.
"""

import csv
import json
import re
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ridgeline.agent.formats import answers, flashinfer, gpumode
from ridgeline.agent.formats.problem import ORIGIN_FILE, Format, FormatError, Origin, Problem
from ridgeline.graph.judgment import QuestionAnswer
from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.task_file import FILE_NAME as TASK_FILE
from ridgeline.sandbox.judge.task_file import load_task

GPUMODE_FILE = "task.yml"
DEFINITION_FILE, WORKLOAD_FILE = "definition.json", "workload.jsonl"
"""As SOL-ExecBench lays a problem out; FlashInfer Trace has folders of them instead."""
DEFINITIONS, WORKLOADS = "definitions", "workloads"
INPUTS = re.compile(r"^def get_inputs\b", re.MULTILINE)
MODEL = re.compile(r"^class Model\b", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A problem that was not read yet, or a task that is one already."""

    name: str
    path: Path
    format: Format | None
    """None for a task of ours."""


def list_sources(path: Path) -> tuple[Source, ...]:
    """Every foreign problem of a file or folder, by name. Raises FormatError where there is none."""
    if not path.exists():
        raise FormatError(f"{path}: no such file; give a problem, or a folder of problems")
    if path.is_file():
        return (
            Source(
                name=path.parent.name if path.name in NAMED_BY_FOLDER else path.stem, path=path, format=detect(path)
            ),
        )
    sources = sorted(_walk(path, path), key=lambda source: [_natural(part) for part in source.name.split("/")])
    if not sources:
        raise FormatError(
            f"{path}: holds no problem; known are task.yaml, KernelBench and PyTorch files with get_inputs(), "
            f"{DEFINITION_FILE} or {DEFINITIONS}/ (FlashInfer Trace, SOL-ExecBench), {GPUMODE_FILE} (GPU MODE)"
        )
    return tuple(sources)


NAMED_BY_FOLDER = (GPUMODE_FILE, DEFINITION_FILE, TASK_FILE)


def detect(path: Path) -> Format | None:
    """Which foreign format a problem file is of; None for a task of ours. Raises FormatError."""
    if path.name == TASK_FILE:
        return None
    if path.name == GPUMODE_FILE:
        return "gpumode"
    if path.suffix == ".json":
        return "flashinfer"
    text = path.read_text(encoding="utf-8", errors="replace") if path.suffix == ".py" else ""
    if not INPUTS.search(text):
        raise FormatError(
            f"{path}: is no problem; give a {GPUMODE_FILE}, a definition in JSON, or Python with get_inputs()"
        )
    return "kernelbench" if MODEL.search(text) else "pytorch"


def _walk(folder: Path, root: Path) -> Iterator[Source]:
    """Foreign problems of a folder and those below it; a folder that is itself a problem is not looked into."""

    def name(path: Path) -> str:
        return path.relative_to(root).as_posix() if path != root else root.resolve().name

    for file, kind in ((TASK_FILE, None), (GPUMODE_FILE, "gpumode"), (DEFINITION_FILE, "flashinfer")):
        if (folder / file).is_file():
            yield Source(name=name(folder), path=folder / file, format=kind)  # type: ignore[arg-type]
            return
    if (folder / DEFINITIONS).is_dir():
        for path in sorted((folder / DEFINITIONS).rglob("*.json")):
            yield Source(name=path.stem, path=path, format="flashinfer")
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith((".", "__")):
            yield from _walk(path, root)
        elif path.suffix == ".py" and INPUTS.search(path.read_text(encoding="utf-8", errors="replace")):
            yield Source(name=name(path.with_suffix("")), path=path, format=detect(path))
        elif path.suffix == ".json" and _is_definition(path):
            yield Source(name=name(path.with_suffix("")), path=path, format="flashinfer")


def _is_definition(path: Path) -> bool:
    """Whether a JSON file of a folder of foreign problems is a definition of FlashInfer Trace."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(fields, dict) and {"axes", "inputs", "outputs", "reference"} <= set(fields)


def _natural(word: str) -> list[tuple[int, str]]:
    """Sort key of problems' file names that puts 2_x before 10_x."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", word) if part]


def read_source(source: Source) -> Problem:
    """A foreign problem, read. Raises FormatError for one that cannot be judged."""
    path = source.path
    match source.format:
        case "flashinfer":
            return flashinfer.read_problem(_read(path), _read(_find_workloads(path)), file=path.name)
        case "gpumode":
            files = {name: _read(path.parent / place) for name, place in _list_files(path).items()}
            return gpumode.read_problem(_read(path), files, name=source.name, file=f"{path.parent.name}/{path.name}")
        case "kernelbench" | "pytorch":
            entry = "Model" if source.format == "kernelbench" else None
            return Problem(format=source.format, name=path.stem, text=_read(path), file=path.name, entry=entry)
        case None:
            raise FormatError(f"{path}: is a task already")


def open_problem(path: Path, kind: Format) -> tuple[Problem, Path | None]:
    """The one problem at a place, as one of that format, and the file that its text is, if it is one as it stands."""
    if kind in ("kernelbench", "pytorch"):
        if not path.is_file():
            raise FormatError(f"{path}: no such file; give a Python file")
        return open_problem_of(Source(name=path.stem, path=path, format=kind))
    sources = [source for source in list_sources(path) if source.format == kind]
    if len(sources) != 1:
        hold = "no problem" if not sources else f"{len(sources)} problems"
        raise FormatError(f"{path}: holds {hold} of {kind}; give the file of one, or all to `ridgeline suite run`")
    return open_problem_of(sources[0])


def open_problem_of(source: Source) -> tuple[Problem, Path | None]:
    """The problem, and the file that its text is, if it is one as it stands. Raises FormatError."""
    return read_source(source), source.path if source.format in ("kernelbench", "pytorch") else None


def _list_files(path: Path) -> dict[str, str]:
    return gpumode.list_files(_read(path), file=f"{path.parent.name}/{path.name}")


def _find_workloads(definition: Path) -> Path:
    """Workloads beside a foreign problem's definition, or below `workloads` of the set that it is of. Raises FormatError."""
    beside = [definition.with_name(WORKLOAD_FILE), definition.with_suffix(".jsonl")]
    for folder in definition.parents:
        if folder.name == DEFINITIONS:
            inner = definition.relative_to(folder).with_suffix(".jsonl")
            beside += [folder.parent / WORKLOADS / inner, folder.parent / WORKLOADS / inner.name]
            beside += sorted((folder.parent / WORKLOADS).rglob(inner.name))
    for path in beside:
        if path.is_file():
            return path
    raise FormatError(f"{definition.name}: has no workloads; put them beside it as {WORKLOAD_FILE}, one in each line")


def _read(path: Path) -> str:
    """The text of a problem file. Raises FormatError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no text in UTF-8"
        raise FormatError(f"{path}: {why}; give a file that can be read") from None


def read_origin(folder: Path) -> Origin:
    """What foreign problem a task's folder was made from. Raises FormatError."""
    path = folder / ORIGIN_FILE
    if not path.is_file():
        raise FormatError(
            f"{folder}: has no {ORIGIN_FILE}: only a task that `ridgeline init --from-...` made can be exported"
        )
    try:
        return Origin.model_validate(json.loads(_read(path)))
    except ValueError as error:
        raise FormatError(f"{path}: is damaged ({type(error).__name__}); make the task again") from None


@contextmanager
def open_candidate(task_file: Path, candidate: Path | None) -> Iterator[Path | None]:
    """The folder with a candidate's sources to export: the one given, or one made of a single file that is an answer.

    Such a file is a `ModelNew` of KernelBench, a submission.py of GPU MODE, a solution of FlashInfer Trace in JSON, or
    the task's own source. Raises FormatError.
    """
    if candidate is None or candidate.is_dir():
        yield candidate
        return
    task, folder = load_task(task_file)
    text = _read(candidate)
    if (folder / ORIGIN_FILE).is_file():
        text = answers.read_answer(read_origin(folder), task, text, file=candidate.name)
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as place:
        source = Path(place) / task.source[0]
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text, encoding="utf-8")
        yield Path(place)


def read_source_text(task: Task, folder: Path) -> str:
    """The one file of a candidate to export. Raises FormatError."""
    answers.require_python(task)
    return _read(folder / task.source[0])


def read_report(judgement: Path, times: Path | None, *, solution: str, hardware: str) -> flashinfer.Report:
    """For an exported answer: what the judge said of it, with the median time of either side of each size. Raises FormatError."""
    try:
        fields = json.loads(_read(judgement))
        correct = QuestionAnswer.model_validate(fields["correct"])
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"{judgement}: is not what `ridgeline judge candidate --json` prints ({type(error).__name__})"
        ) from None
    if not hardware:
        raise FormatError("--hardware: missing; name the card, for example NVIDIA_H100")
    return flashinfer.Report(
        solution=solution,
        correct=correct,
        hardware=hardware,
        timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
        times=_read_times(times) if times is not None else {},
    )


def _read_times(path: Path) -> dict[str, flashinfer.Measurement]:
    """Medians of the CSV of `ridgeline judge pair`, by label. Raises FormatError."""
    calls: dict[str, dict[str, list[float]]] = {}
    try:
        for row in csv.DictReader(_read(path).splitlines()):
            calls.setdefault(row["label"], {}).setdefault(row["side"], []).append(float(row["time_us"]))
        return {
            label: flashinfer.Measurement(
                time_ms=statistics.median(sides["b"]) / 1e3, base_ms=statistics.median(sides["a"]) / 1e3
            )
            for label, sides in calls.items()
        }
    except (KeyError, ValueError, TypeError) as error:
        raise FormatError(f"{path}: is not what `ridgeline judge pair --csv` writes ({type(error).__name__})") from None
