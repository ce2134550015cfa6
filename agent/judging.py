"""What `ridgeline judge` does: a task's test, benchmark and paired timing, with candidates in other processes."""

import csv
from collections.abc import Sequence
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.graph.judgment import Judgment, SizeTime, TimedCall
from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.judgment import CandidateJudgment, judge, open_reference
from ridgeline.sandbox.judge.lint import LintFinding, find_known_defects, lint_task
from ridgeline.sandbox.judge.options import DEFENCES, Options, answer_unverified
from ridgeline.sandbox.judge.task_file import TaskError, load_task
from ridgeline.sandbox.timing.benchmark_csv import csv_of

WRONG = 1
"""Exit code: the candidate is not right, or not measurable by its own doing."""
DEVICES = ("auto", "cpu", "cuda")
PAIR_COLUMNS = ("label", "block", "slot", "side", "time_us", "at_us")


def opened(task_file: Path) -> tuple[Task, Path]:
    """The task and its folder. Raises UserError for a file that is none."""
    try:
        return load_task(task_file)
    except TaskError as error:
        raise UserError(str(error)) from None


def judged(
    task_file: Path, candidate: Path | None, against: Path | None, options: Options, *, anyway: bool = False
) -> Judgment:
    """The whole judgement. Where the task has a known hole nothing is accepted, unless `anyway`."""
    holes = () if anyway else known(task_file, options)
    return doubted(judge(task_file, candidate=candidate, against=against, options=options), holes)


def known(task_file: Path, options: Options) -> tuple[LintFinding, ...]:
    """Holes of the task that the reference alone shows, and that make verdicts worth nothing."""
    task, folder = opened(task_file)
    with open_reference(task, folder, options.with_device(task)) as reference:
        return find_known_defects(task, reference)


def doubted(found: Judgment, holes: Sequence[LintFinding]) -> Judgment:
    """What is left of a judgement where the task has such holes: what is wrong is wrong, but nothing is right."""
    if not holes:
        return found
    lines = [f"the task itself: {one.rule}: {one.text}" for one in holes]
    kept = found.correct if found.correct.answer == "no" else answer_unverified(*found.correct.evidence)
    correct = kept.model_copy(update={"evidence": (*lines, *kept.evidence)})
    return found.model_copy(update={"correct": correct, "accepted": False})


def write_bench(path: Path, times: Sequence[SizeTime]) -> None:
    """One row per size; the time is the median of its calls."""
    path.write_bytes(csv_of(times))


def write_pairs(path: Path, slots: Sequence[TimedCall]) -> None:
    """One row per timed call, in the order in which they ran."""
    rows = [(s.label, s.block, s.slot, s.side, f"{s.time_us:.4f}", f"{s.at_us:.1f}") for s in slots]
    _write(path, PAIR_COLUMNS, rows)


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def defences(names: Sequence[str]) -> frozenset[str]:
    """The defences with these names. Raises UserError for an unknown one."""
    if unknown := sorted(set(names) - DEFENCES):
        raise UserError(f"--without: {', '.join(unknown)}: no such defence; there are {', '.join(sorted(DEFENCES))}")
    return frozenset(names)


def require_device(name: str) -> None:
    """Raises UserError for a device that there is not."""
    if name not in DEVICES:
        raise UserError(f"--device: {name!r}: is none; use {', '.join(DEVICES)}")


def linted(task_file: Path) -> tuple[LintFinding, ...]:
    """Findings about the task itself, its starting version included."""
    task, folder = opened(task_file)
    options = Options().with_device(task)
    with open_reference(task, folder, options) as reference, freeze_sources(task, folder) as version:
        judged = CandidateJudgment(task=task, reference=reference, new=version, old=version, options=options)
        return lint_task(task, reference, opened=judged.opener(version))
