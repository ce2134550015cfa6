"""The judge as the loop and the commands ask it: in this process, with candidates in workers of their own."""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from ridgeline.graph.errors import WorldError
from ridgeline.graph.judgment import JudgeFailed, Judgment, SizeTime, TimedCall
from ridgeline.graph.task import Shape, Task
from ridgeline.sandbox.judge.call_names import CallName, draw_call
from ridgeline.sandbox.judge.correctness import (
    WORST_ELEMENTS,
    Truth,
    describe_element,
    judge_again,
    judged_names,
    truth_of,
)
from ridgeline.sandbox.judge.device_process import (
    CompiledVersion,
    Unfit,
    ask_compiled,
    ask_judgment,
    ask_pair,
    ask_replay,
    is_judged_on_card,
    read_compiled,
    using_number,
    warm_up,
)
from ridgeline.sandbox.judge.dtypes import to_float64
from ridgeline.sandbox.judge.freeze import NotFrozen, freeze_sources
from ridgeline.sandbox.judge.judgment import CandidateJudgment, Step, open_reference
from ridgeline.sandbox.judge.options import HERE, JudgeTimeout, Options, Surroundings
from ridgeline.sandbox.judge.references import ReferenceFailed
from ridgeline.sandbox.judge.session import BrokenWorker, SealedCall
from ridgeline.sandbox.judge.shared_buffers import PLACEMENTS
from ridgeline.sandbox.judge.task_file import TaskError, load_task, select_sizes
from ridgeline.sandbox.judge.timing import TimingRefused

BENCHMARK_BLOCKS = 6
"""A B B A blocks of a benchmark, in which both sides are the same version."""
DIGITS = 6
"""Of a benchmark's time: more of them are noise, and its CSV has as many."""

__all__ = [
    "HERE",
    "CompiledVersion",
    "TaskJudge",
    "compile_versions",
    "judge_correctness",
    "replay_call",
    "time_pair",
    "time_version",
]


T = TypeVar("T")


class CallUnknown(Exception):
    """A call's name that is none, or not of this task. The text is one line."""


class TaskJudge:
    """The judge behind `ports.Judge`: each method judges folders of sources against one task file."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        environment: Callable[[], Mapping[str, str]] = lambda: {},
        number: int = 0,
    ) -> None:
        """`environment`: added to what workers and the reference are told, asked anew for each judgement.

        `number`: of several in one process, each of which checks on a card of its own at the same time.
        """
        self._options = options or Options()
        self._environment = environment
        self._number = number

    def warm_up(self, task_file: Path) -> None:
        """Have the judge begin with what takes long to start, in other processes; what is wrong is told by the first judgement."""
        with contextlib.suppress(TaskError):
            warm_up(task_file, load_task(task_file)[0], self._options, self._environment())

    def check(self, task_file: Path, version: Path, *, timeout_s: float) -> Judgment | JudgeFailed:
        """Judge correctness and own work, without timing."""
        with using_number(self._number):
            surroundings = self._surroundings(timeout_s)
            return _or_failed(lambda: judge_correctness(task_file, version, self._options, surroundings))

    def benchmark(
        self, task_file: Path, version: Path, *, shapes: tuple[str, ...], timeout_s: float
    ) -> tuple[SizeTime, ...] | JudgeFailed:
        """The median time of each size; every timed call is judged."""
        return _or_failed(
            lambda: time_version(
                task_file, version, shapes=shapes, options=self._options, surroundings=self._surroundings(timeout_s)
            )
        )

    def compare(
        self, task_file: Path, a: Path, b: Path, *, shapes: tuple[str, ...], blocks: int, timeout_s: float
    ) -> tuple[TimedCall, ...] | JudgeFailed:
        """One process pair, A B B A; every timed call is judged."""
        return _or_failed(
            lambda: time_pair(
                task_file,
                a,
                b,
                shapes=shapes,
                blocks=blocks,
                options=self._options,
                surroundings=self._surroundings(timeout_s),
            )
        )

    def read_compiled(self, task_file: Path, version: Path) -> bytes:
        """On a card: what this judge's processes of that version had compiled, as `harness/judge_cache.py` packs it."""
        with using_number(self._number), contextlib.suppress(WorldError):
            task, _ = load_task(task_file)
            return read_compiled(task_file, version, self._options.with_device(task))
        return b""

    def _surroundings(self, timeout_s: float) -> Surroundings:
        return Surroundings(environment=self._environment(), until=time.monotonic() + timeout_s)


def _or_failed(judge: Callable[[], T | JudgeFailed]) -> T | JudgeFailed:
    """What the judge answers; what a candidate, a task or the time allowed brings about is a value. WorldError goes on."""
    try:
        return judge()
    except JudgeTimeout as error:
        return JudgeFailed(reason="timeout", detail=str(error))
    except (TaskError, NotFrozen, ReferenceFailed) as error:
        return JudgeFailed(reason="unusable", detail=str(error))


def judge_correctness(
    task_file: Path,
    version: Path | None,
    options: Options,
    surroundings: Surroundings,
    *,
    step: Step = contextlib.nullcontext,
) -> Judgment:
    """For the judge: correctness and own work of a folder's sources (None: of the task's own), without timing.

    `step`: entered with a step's name for as long as that takes.
    Raises TaskError, NotFrozen, ReferenceFailed, JudgeTimeout; WorldError where the machine lacks something.
    """
    task, folder = load_task(task_file)
    options = options.with_device(task)
    if is_judged_on_card(task, options):
        with contextlib.suppress(Unfit), step("testing on the card"):
            return ask_judgment(
                "test", task_file, candidate=version, against=version, options=options, surroundings=surroundings
            )
    task = options.fit_sizes(task)
    with (
        open_reference(task, folder, options, surroundings) as reference,
        freeze_sources(task, version or folder) as frozen,
    ):
        return CandidateJudgment(
            task=task,
            reference=reference,
            new=frozen,
            old=frozen,
            options=options,
            surroundings=surroundings,
            step=step,
        ).judge_correctness()


def replay_call(
    task_file: Path, version: Path | None, call: str, options: Options, surroundings: Surroundings
) -> tuple[str, ...]:
    """For the judge: make one call that a refusal named again, in a fresh process: what is wrong with it; empty where nothing is.

    Calls that were made just before it on purpose are made too. It is made at both places of its arrays.
    Raises CallUnknown for a name that is none, and otherwise as `judge_correctness` does.
    """
    task, folder = load_task(task_file)
    options = options.with_device(task)
    try:
        name = CallName.parse(call, task)
    except ValueError as error:
        raise CallUnknown(f"--call {call}: {error}") from None
    if name.card:
        return _replay_on_card(task_file, task, version, name, options, surroundings)
    with (
        open_reference(task, folder, options, surroundings) as reference,
        freeze_sources(task, version or folder) as frozen,
    ):
        judgment = CandidateJudgment(
            task=task, reference=reference, new=frozen, old=frozen, options=options, surroundings=surroundings
        )
        try:
            calls = draw_call(task, name)
        except ValueError as error:
            raise CallUnknown(f"--call {call}: {error}") from None
        bench = judgment.bench(np.random.default_rng(name.values.seed))
        truths = [judge_again(task, truth_of(reference, inputs.inputs), name.values) for inputs in calls]
        with judgment.opener(frozen)() as session:
            if broken := session.open():
                return (f"{broken.reason}: {broken.detail}",)
            for placement in range(PLACEMENTS):
                for inputs, truth in zip(calls, truths, strict=True):
                    sealed = session.call(name.dims, inputs.inputs, placement=placement, timeout_s=options.call_s)
                    if isinstance(sealed, BrokenWorker):
                        return (f"{sealed.reason}: {sealed.detail}",)
                    if lines := bench.wrong(sealed, truth, exact=inputs.exact):
                        return (*lines, *_list_worst(task, sealed, truth))
    return ()


def _replay_on_card(
    task_file: Path, task: Task, version: Path | None, name: CallName, options: Options, surroundings: Surroundings
) -> tuple[str, ...]:
    """For the judge: the same for a call whose values were drawn on a card."""
    where = f"--call {name}: its values were drawn on a card"
    if not is_judged_on_card(task, options):
        raise CallUnknown(f"{where}; make it again on such a card, with `--device auto` and the PyTorch of then")
    try:
        return ask_replay(task_file, str(name), candidate=version, options=options, surroundings=surroundings)
    except Unfit as error:
        raise CallUnknown(f"{where}, and now {error}") from None
    except ValueError as error:
        raise CallUnknown(f"--call {name}: {error}") from None


def _list_worst(task: Task, sealed: SealedCall, truth: Truth) -> Iterator[str]:
    """The worst elements of each output of a replayed call: place, what came, what is right, and what the trusted program had."""
    for name in judged_names(task):
        came, right = to_float64(sealed.outputs[name], task.dtype_of(name)), truth.oracle[name]
        if came.shape != right.shape:
            continue
        same = (came == right) | (np.isnan(came) & np.isnan(right))
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.where(same, 0.0, np.nan_to_num(np.abs(came - right), nan=np.inf)).reshape(-1)
        for flat in np.argsort(-away, kind="stable")[:WORST_ELEMENTS]:
            if away[flat] > 0:
                place = tuple(int(index) for index in np.unravel_index(int(flat), right.shape))
                yield describe_element(name, place, came[place], right[place], away[flat], truth.trusted[name][place])


def time_version(
    task_file: Path, version: Path | None, *, shapes: Sequence[str], options: Options, surroundings: Surroundings
) -> tuple[SizeTime, ...] | JudgeFailed:
    """For the judge: that version (None: the task's own) in two processes that take turns: both times count.

    Raises as `judge_correctness` does.
    """
    task, folder = load_task(task_file)
    calls = time_pair(
        task_file,
        version or folder,
        version or folder,
        shapes=shapes,
        blocks=BENCHMARK_BLOCKS,
        options=options,
        surroundings=surroundings,
    )
    if isinstance(calls, JudgeFailed):
        return calls
    by_label: dict[str, list[float]] = {}
    for call in calls:
        by_label.setdefault(call.label, []).append(call.time_us / 1e3)
    return tuple(
        SizeTime(
            label=shape.label,
            dims=dict(shape.dims),
            config_class=shape.config_class,
            time_ms=float(f"{statistics.median(by_label[shape.label]):.{DIGITS}g}"),
        )
        for shape in task.timed
        if shape.label in by_label
    )


def time_pair(
    task_file: Path,
    a: Path,
    b: Path,
    *,
    shapes: Sequence[str],
    blocks: int,
    options: Options,
    surroundings: Surroundings,
) -> tuple[TimedCall, ...] | JudgeFailed:
    """One process pair of two folders with the task's sources. Raises as `judge_correctness` does."""
    task, folder = load_task(task_file)
    if not options.fit_sizes(task).timed:
        raise TaskError(
            f"{task_file.name}: shapes: the timed ones are for a card, and this machine shows none; "
            "`ridgeline judge test` tries the small ones"
        )
    timed, options = select_sizes(task, shapes), options.with_device(task)
    calls = None
    if is_judged_on_card(task, options):
        with contextlib.suppress(Unfit):
            calls = ask_pair(task_file, a, b, shapes=shapes, blocks=blocks, options=options, surroundings=surroundings)
    if calls is None:
        calls = _time_here(task, folder, (a, b), timed, blocks, options, surroundings)
    if isinstance(calls, TimingRefused):
        return JudgeFailed(reason="refused", detail=calls.detail, side=calls.side, unclear=calls.unclear)
    return tuple(calls)


def compile_versions(
    task_file: Path, folders: Sequence[Path], options: Options, surroundings: Surroundings
) -> tuple[CompiledVersion, ...]:
    """For the judge: have versions compile for every size at the same time, before any is timed; empty where none is kept.

    Only on a card is it kept for later processes. Raises as `judge_correctness` does.
    """
    task, _ = load_task(task_file)
    if folders and is_judged_on_card(task, options):
        with contextlib.suppress(Unfit):
            return ask_compiled(task_file, folders, options=options, surroundings=surroundings)
    return ()


def _time_here(
    task: Task,
    folder: Path,
    sides: tuple[Path, Path],
    timed: Sequence[Shape],
    blocks: int,
    options: Options,
    surroundings: Surroundings,
) -> list[TimedCall] | TimingRefused:
    """For the judge: one process pair of two versions, with values on the processor."""
    a, b = sides
    with (
        open_reference(task, folder, options, surroundings) as reference,
        freeze_sources(task, a) as sources_a,
        freeze_sources(task, b) as sources_b,
    ):
        return CandidateJudgment(
            task=task, reference=reference, new=sources_b, old=sources_a, options=options, surroundings=surroundings
        ).time_pair(timed, blocks)
