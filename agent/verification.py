"""What `ridgeline judge` does: a task's test, benchmark and paired timing, with candidates in other processes."""

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from ridgeline.agent.contract_file import FILE_NAME, LoadedContract, is_contract, load
from ridgeline.agent.errors import UserError
from ridgeline.agent.formats.reading import open_candidate
from ridgeline.graph.finding import Finding, Simulation
from ridgeline.graph.formula import evaluate
from ridgeline.graph.judgment import Judgment, SizeTime, TimedCall
from ridgeline.graph.rules import audit as caches
from ridgeline.graph.rules.audit import AuditState, summarize_findings
from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.graph.values import Value
from ridgeline.sandbox.audit import diffs
from ridgeline.sandbox.audit.examine import audit, find_added, is_examined
from ridgeline.sandbox.audit.rules import Hit, finding
from ridgeline.sandbox.judge.device_process import Unfit, ask_defects, is_judged_on_card
from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.judgment import CandidateJudgment, Step, judge, open_reference
from ridgeline.sandbox.judge.lint import LintFinding, find_known_defects, lint_task
from ridgeline.sandbox.judge.options import DEFENCES, Options, answer_unverified
from ridgeline.sandbox.judge.session import framework_of
from ridgeline.sandbox.judge.task_file import TaskError, load_task
from ridgeline.sandbox.judge.task_judge import HERE, CallUnknown, judge_correctness, replay_call
from ridgeline.sandbox.judge.worker import HARNESS, WorkerLost, build_library
from ridgeline.sandbox.timing.benchmark_csv import csv_of
from ridgeline.sandbox.workspace.edits import CONTRACT_FILE
from ridgeline.sandbox.workspace.globs import matches

WRONG = 1
"""Exit code: the candidate is not right, or not measurable by its own doing."""
DEVICES = ("auto", "cpu", "cuda")
PAIR_COLUMNS = ("label", "block", "slot", "side", "time_us", "at_us")


def open_task(task_file: Path) -> tuple[Task, Path]:
    """The judge's task and its folder. Raises UserError for a file that is none."""
    try:
        return load_task(task_file)
    except TaskError as error:
        if is_contract(task_file):
            raise UserError(f"{task_file}: is a contract, not a task; use `ridgeline check {task_file}`") from None
        raise UserError(str(error)) from None


def judge_candidate(
    task_file: Path,
    candidate: Path | None,
    against: Path | None,
    options: Options,
    *,
    anyway: bool = False,
    step: Step = nullcontext,
) -> Judgment:
    """`judge candidate`: the whole judgement. Where the task has a known hole nothing is accepted, unless `anyway`."""
    holes: tuple[LintFinding, ...] = ()
    if not anyway:
        with step("looking for holes of the task"):
            holes = find_task_defects(task_file, options)
    with open_candidate(task_file, candidate) as new, open_candidate(task_file, against) as old:
        return withhold_acceptance(judge(task_file, candidate=new, against=old, options=options, step=step), holes)


def check_candidate(task_file: Path, candidate: Path | None, options: Options, *, step: Step = nullcontext) -> Judgment:
    """`judge test`: correctness and own work alone."""
    open_task(task_file)
    with open_candidate(task_file, candidate) as new:
        return judge_correctness(task_file, new, options, HERE, step=step)


def replay_named(task_file: Path, candidate: Path | None, call: str, options: Options) -> tuple[str, ...]:
    """`judge replay`: what is wrong with that call when it is made again; empty where nothing is. Raises UserError for no such call."""
    open_task(task_file)
    try:
        with open_candidate(task_file, candidate) as new:
            return replay_call(task_file, new, call, options, HERE)
    except CallUnknown as error:
        raise UserError(str(error)) from None


def find_task_defects(task_file: Path, options: Options) -> tuple[LintFinding, ...]:
    """Holes of the judge's task that the reference alone shows, and that make verdicts worth nothing."""
    task, folder = open_task(task_file)
    device_options = options.with_device(task)
    if is_judged_on_card(task, device_options):
        with suppress(Unfit):
            return tuple(LintFinding.model_validate(fields) for fields in ask_defects(task_file, device_options))
    task = options.fit_sizes(task)
    with open_reference(task, folder, device_options) as reference:
        return find_known_defects(task, reference)


def withhold_acceptance(judgment: Judgment, holes: Sequence[LintFinding]) -> Judgment:
    """What is left of a judgement where its task has such holes: what is wrong is wrong, but nothing is right."""
    if not holes:
        return judgment
    lines = [f"the task itself: {hole.rule}: {hole.text}" for hole in holes]
    correctness = judgment.correct if judgment.correct.answer == "no" else answer_unverified(*judgment.correct.evidence)
    correct = correctness.model_copy(update={"evidence": (*lines, *correctness.evidence)})
    return judgment.model_copy(update={"correct": correct, "accepted": False})


def write_bench(path: Path, times: Sequence[SizeTime]) -> None:
    """The CSV of `judge bench`: one row per size; the time is the median of its calls."""
    path.write_bytes(csv_of(times))


def write_pairs(path: Path, slots: Sequence[TimedCall]) -> None:
    """The CSV of `judge pair`: one row per timed call, in the order in which they ran."""
    rows = [(s.label, s.block, s.slot, s.side, f"{s.time_us:.4f}", f"{s.at_us:.1f}") for s in slots]
    _write(path, PAIR_COLUMNS, rows)


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def defences(names: Sequence[str]) -> frozenset[str]:
    """The judge's defences with these names. Raises UserError for an unknown one."""
    if unknown := sorted(set(names) - DEFENCES):
        raise UserError(f"--without: {', '.join(unknown)}: no such defence; there are {', '.join(sorted(DEFENCES))}")
    return frozenset(names)


def require_device(name: str) -> None:
    """Raises UserError where the judge's task wants a device that there is not."""
    if name not in DEVICES:
        raise UserError(f"--device: {name!r}: is none; use {', '.join(DEVICES)}")


def lint_task_file(task_file: Path) -> tuple[LintFinding, ...]:
    """`judge lint`: findings about the task itself, its starting version included."""
    task, folder = open_task(task_file)
    options = Options().with_device(task)
    task = options.fit_sizes(task)
    with open_reference(task, folder, options) as reference, freeze_sources(task, folder) as version:
        judged = CandidateJudgment(task=task, reference=reference, new=version, old=version, options=options)
        return lint_task(task, reference, opened=judged.opener(version))


PROFILE_HARNESS = HARNESS / "profile_calls.py"
RANGES = {"uniform": (-1.0, 1.0), "positive": (0.1, 1.0), "mask": (0, 2)}
"""Of values drawn for a profiler, where the task names no others."""


PROFILED_CALLS = {"cpu": 3, "cuda": 8}
"""After the first. On a card a profiler leaves the first five launches out and counts three."""


def profile_calls(task_file: Path, candidate: Path | None, label: str, *, calls: int | None, device: str) -> int:
    """`judge profile`: call a version on one size, `calls` times and once before, in a process without the judge.

    Returns that process's exit code. Raises UserError for a size or device that there is not, WorldError where the sources
    do not build.
    """
    require_device(device)
    task, folder = open_task(task_file)
    options = Options.model_validate({"device": device}).with_device(task)
    shapes = {shape.label: shape for shape in task.shapes}
    if label not in shapes:
        raise UserError(f"--shape: {label!r}: no size of the task; it has {', '.join(shapes)}")
    with (
        open_candidate(task_file, candidate) as sources,
        freeze_sources(task, sources or folder) as version,
        tempfile.TemporaryDirectory() as private,
    ):
        spec = Path(private) / "spec.json"
        try:
            library = build_library(task, version.folder)
        except WorkerLost as loss:
            raise UserError(f"{task_file}: {loss.detail}") from None
        calls = calls or PROFILED_CALLS[options.device]
        spec.write_text(json.dumps(_describe_calls(task, version.folder, library, shapes[label], options, calls)))
        interpreted = {"TRITON_INTERPRET": "1"} if (task.language, options.device) == ("triton", "cpu") else {}
        command = (sys.executable, "-P", "-B", str(PROFILE_HARNESS), str(spec))
        return subprocess.run(command, check=False, env={**os.environ, **interpreted}).returncode


def _describe_calls(
    task: Task, folder: Path, library: Path | None, shape: Shape, options: Options, calls: int
) -> dict[str, object]:
    """What the process of `judge profile` reads; the same words as a worker's of the judge."""

    def describe_array(tensor: Input | Output) -> dict[str, object]:
        values = tensor.values if isinstance(tensor, Input) else None
        within = tensor.within if isinstance(tensor, Input) else None
        low_high = (tensor.low, tensor.high) if isinstance(tensor, Input) and values == "integers" else None
        return {
            "name": tensor.name,
            "dtype": tensor.dtype,
            "shape": [int(evaluate(extent, shape.dims)) for extent in tensor.shape],
            "values": "integers" if values == "mask" else values,
            "range": within or low_high or RANGES.get(values or ""),
        }

    arrays: tuple[Input | Output, ...] = (*task.inputs, *(task.outputs if task.convention == "out" else ()))
    return {
        "library": str(library) if library else None,
        "source": str(folder / task.source[0]),
        "entry": task.entry,
        "order": task.order,
        "outputs": [tensor.name for tensor in task.outputs],
        "returns": task.convention == "return",
        "framework": framework_of(task, folder, "cuda" if options.device == "cuda" else "cpu"),
        "device": options.device,
        "threads": task.threads,
        "arrays": [describe_array(tensor) for tensor in arrays],
        "dims": dict(shape.dims),
        "calls": calls,
    }


# What `ridgeline audit` is asked to read, and the answer in one object.

SKIPPED = frozenset({".git", "__pycache__", "node_modules", "build", "dist", ".venv", "venv", "workspace"})
MOST_FILES = 2000
STDIN = "<stdin>"


class CacheCheck(Value):
    """What the trace, or the simulation with tensors, says about one cache that was found."""

    path: str
    line: int
    rule: str
    hit_rate: str | None
    """Hits over steps of the 4-step trace; None where the key does not tell."""
    answer: caches.CacheVerdict
    why: str
    method: str


class AuditReport(Value):
    """The whole answer."""

    source: str
    verdict: AuditState
    findings: tuple[Finding, ...]
    caches: tuple[CacheCheck, ...]
    examined: tuple[str, ...]
    """Files that were read, by path."""


def audit_path(
    path: str, *, text: str | None = None, contract: Path | None = None, python: str | None = None
) -> AuditReport:
    """`judge audit` of a file, a folder, a diff, or `text` given on standard input. Raises UserError for what is none.

    `python`: an interpreter with torch, in which caches are tried with fresh tensors.
    """
    _require_text(path, text)
    loaded = _contract(path, contract)
    findings, names = _of_text(path, text, loaded) if text is not None else _of_path(Path(path), loaded)
    return AuditReport(
        source=path if text is None else STDIN,
        verdict=summarize_findings(findings),
        findings=tuple(findings),
        caches=tuple(_check_cache(finding, python) for finding in findings if finding.key),
        examined=tuple(names),
    )


def _require_text(path: str, text: str | None) -> None:
    """Raises UserError for a file to audit that is empty or no text: of what cannot be read nothing is said."""
    data = text.encode() if text is not None else Path(path).read_bytes() if Path(path).is_file() else b"a folder"
    if not data.strip() or b"\0" in data:
        why = "is no text" if data.strip() else "is empty"
        raise UserError(f"{STDIN if text is not None else path}: {why}: nothing to read; give a source or a diff")


def _contract(path: str, contract_path: Path | None) -> LoadedContract | None:
    """The contract that `judge audit` was given, or the one in the folder that is audited."""
    if contract_path is not None:
        return load(contract_path)
    folder = Path(path)
    return load(folder) if path != "-" and folder.is_dir() and (folder / FILE_NAME).is_file() else None


def _of_path(path: Path, loaded: LoadedContract | None) -> tuple[list[Finding], list[str]]:
    """The audit's findings in a path and the names of what was examined."""
    if path.is_dir():
        return _of_folder(path, loaded)
    if not path.is_file():
        raise UserError(f"{path}: no such file or folder; name a source, a folder, a diff, or - for standard input")
    text = _read_source(path)
    if path.suffix in {".diff", ".patch"} or diffs.looks_like_diff(text):
        return _of_diff(str(path), text, loaded)
    return list(audit(str(path), text, dtype=_dtype(loaded))), [str(path)]


def _of_text(path: str, text: str, loaded: LoadedContract | None) -> tuple[list[Finding], list[str]]:
    """The audit's findings in text on standard input, a diff, Python, or C, and what was examined."""
    if diffs.looks_like_diff(text):
        return _of_diff(STDIN, text, loaded)
    suffix = ".py" if _is_python(text) else ".cu"
    findings = audit(f"stdin{suffix}", text, dtype=_dtype(loaded))
    return [finding.model_copy(update={"path": STDIN}) for finding in findings], [STDIN]


def _of_folder(folder: Path, loaded: LoadedContract | None) -> tuple[list[Finding], list[str]]:
    """`judge audit FOLDER`: findings in every source below it; with a contract only what a candidate may change."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink()]
    inside = {file.relative_to(folder).as_posix(): file for file in files}
    chosen = {
        name: file for name, file in inside.items() if not SKIPPED & set(Path(name).parts[:-1]) and is_examined(name)
    }
    if loaded is not None and loaded.root.resolve() == folder.resolve():
        globs = loaded.contract.editable_globs
        chosen = {name: file for name, file in inside.items() if matches(name, globs) and is_examined(name)}
    if not chosen:
        raise UserError(f"{folder}: has no source that the audit reads; it reads Python, C, C++, CUDA and HIP")
    if len(chosen) > MOST_FILES:
        raise UserError(f"{folder}: has {len(chosen)} sources; name a folder with at most {MOST_FILES}")
    findings = [
        finding for name, file in chosen.items() for finding in audit(name, _read_source(file), dtype=_dtype(loaded))
    ]
    return findings, list(chosen)


def _of_diff(source: str, text: str, loaded: LoadedContract | None) -> tuple[list[Finding], list[str]]:
    """The audit's findings in what a diff adds, against the files of the contract's folder or of this one where they are there."""
    try:
        files = diffs.parse(text)
    except diffs.NoDiff as error:
        raise UserError(f"{source}: {error}; give a unified diff, as `git diff` writes it") from None
    root = loaded.root if loaded else Path()
    findings: list[Finding] = []
    for file in files:
        before, after, shift = diffs.sides(file, lambda name: _beside(root, name))
        findings += _find_protected(file.path, loaded)
        new = find_added({file.path: before}, {file.path: after}, dtype=_dtype(loaded))
        findings += [finding.model_copy(update={"line": finding.line + shift}) for finding in new]
    return findings, [file.path for file in files]


def _find_protected(path: str, loaded: LoadedContract | None) -> list[Finding]:
    """Audit findings for a change to what the contract protects, or does not let a candidate change."""
    if loaded is None:
        return []
    contract = loaded.contract
    allowed = matches(path, contract.editable_globs) and not matches(path, (*contract.protected, CONTRACT_FILE))
    return [] if allowed else [finding(Hit(rule="protected-path", line=1, code=path), path, [])]


def _check_cache(finding: Finding, python: str | None) -> CacheCheck:
    """How often a cache that the audit found would hit with this key, by its trace or, with `python`, by a simulation."""
    rate, verdict, method = caches.trace_key(finding.key), caches.classify_cache(finding), "4-step trace"
    if python is not None:
        simulation = _simulate(finding, python)
        verdict, method = caches.classify_simulation(simulation), f"8-step simulation ({simulation.method})"
    return CacheCheck(
        path=finding.path,
        line=finding.line,
        rule=finding.rule,
        hit_rate=str(rate) if rate else None,
        answer=verdict.answer,
        why=verdict.why,
        method=method,
    )


def _simulate(finding: Finding, python: str) -> Simulation:
    from ridgeline.sandbox.audit.simulation import simulate

    return simulate(finding.key, python=python)


def _beside(root: Path, name: str) -> str | None:
    """Text of a file below the audited folder; None for what is not there, lies elsewhere or is no text."""
    place = (root / name).resolve()
    if not place.is_relative_to(root.resolve()) or not place.is_file():
        return None
    return place.read_text(encoding="utf-8", errors="replace")


def _read_source(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a file that can be read") from None


def _is_python(text: str) -> bool:
    marks = ("def ", "import ", "@triton", "class ", "from ")
    return any(line.startswith(marks) for line in text.splitlines())


def _dtype(loaded: LoadedContract | None) -> str:
    return loaded.contract.dtype if loaded else "fp32"


def rows(findings: Sequence[Finding]) -> list[tuple[str, str, str, str, str]]:
    """Cells of each finding of the audit: severity, rule, place, code and closer check, convicting ones first."""
    order: Mapping[str, int] = {"convicts": 0, "routes": 1, "notes": 2}
    ranked = sorted(findings, key=lambda finding: (order[finding.severity], finding.path, finding.line))
    return [
        (
            finding.severity,
            finding.rule + (f" ({finding.bucket})" if finding.bucket else ""),
            f"{finding.path}:{finding.line}",
            finding.closer.replace("_", " "),
            finding.code[:80],
        )
        for finding in ranked
    ]
