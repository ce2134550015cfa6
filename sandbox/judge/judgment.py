"""The judge's whole answer about one candidate: correct? faster? its own work?"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ridgeline.graph.judgment import Judgment, QuestionAnswer
from ridgeline.graph.stats.intervals import student_quantile
from ridgeline.graph.task import Task
from ridgeline.sandbox.audit.examine import added
from ridgeline.sandbox.judge.correctness import CallJudge, CorrectnessTests
from ridgeline.sandbox.judge.freeze import Frozen, freeze_sources
from ridgeline.sandbox.judge.options import HERE, Options, Surroundings, answer_no, answer_unverified, answer_yes
from ridgeline.sandbox.judge.provenance import Work, judge_own_work
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import CardSession, Session
from ridgeline.sandbox.judge.task_file import load_task
from ridgeline.sandbox.judge.timing import TimedPairs, TimingRefused, block_log_ratios
from ridgeline.sandbox.judge.worker import WorkerMode

TRIM = 0.2
"""Share of blocks cut at either end of a pair."""
FUTILE = math.log(1.05)
"""One that is not ahead, and is at most so much faster, is not waited for."""
LEAST_SPREAD = 1e-4
"""Of pair means in logs: a few equal numbers do not prove that there is no noise."""


NOT_TIMED = answer_unverified("not timed: it is not correct")
NOT_WANTED = answer_unverified("not timed: only tested")
NOT_ASKED = answer_unverified("not looked at: it is not correct")


def judge(
    task_file: Path, *, candidate: Path | None = None, against: Path | None = None, options: Options | None = None
) -> Judgment:
    """Judge the sources of `candidate`, a folder, against those of `against`; default: those beside the task.

    Raises TaskError for a task that cannot be used. A broken candidate is a verdict, never an error.
    """
    task, folder = load_task(task_file)
    asked = (options or Options()).with_device(task)
    with (
        open_reference(task, folder, asked) as reference,
        freeze_sources(task, candidate or folder) as new,
        freeze_sources(task, against or folder) as old,
    ):
        return CandidateJudgment(task=task, reference=reference, new=new, old=old, options=asked).judge()


def open_reference(task: Task, folder: Path, options: Options, surroundings: Surroundings = HERE) -> Reference:
    """The task's reference, on the device that candidates run on."""
    device: Literal["cpu", "cuda"] = "cuda" if options.device == "cuda" else "cpu"
    return Reference(task, folder, device=device, surroundings=surroundings)


@dataclass(kw_only=True)
class CandidateJudgment:
    """One candidate on its way through the questions."""

    task: Task
    reference: Reference
    new: Frozen
    old: Frozen
    options: Options
    surroundings: Surroundings = HERE

    def judge(self) -> Judgment:
        """Correctness first; what is wrong is never timed."""
        seed = self.options.seed
        rng = np.random.default_rng(seed)  # None: from the operating system
        bench = self.bench(rng)
        gate = CorrectnessTests(bench=bench)
        correct = self.convict_by_reading() or gate.check(self.opener(self.new))
        if correct.answer != "yes":
            return self._make_judgment(correct, NOT_TIMED, NOT_ASKED, calls=gate.calls)
        work = self._own_work()
        own = work.answered
        pairs = TimedPairs(bench=bench)
        timed = self._faster(pairs)
        calls = gate.calls + pairs.calls
        if isinstance(timed, TimingRefused):
            detail = f"a timed call was refused: {timed.detail}"
            if timed.side == "b" and timed.unclear:
                return self._make_judgment(correct, answer_unverified(detail), own, calls=calls)
            if timed.side == "b":
                return self._make_judgment(answer_no(detail), answer_unverified(detail), own, calls=calls)
            return self._make_judgment(
                correct, answer_unverified(f"the version compared with: {detail}"), own, calls=calls
            )
        return self._make_judgment(
            correct, self._discount_unseen_gain(timed, pairs, work), own, calls=calls, gain=timed
        )

    def _discount_unseen_gain(self, timed: "Gain", pairs: TimedPairs, work: Work) -> QuestionAnswer:
        """A gain that only the timer in the candidate's process shows: its code must not have been seen to reach it."""
        faster = timed.answered
        unseen = pairs.find_unseen_gain() if self.options.has("own_clock") else None
        if faster.answer != "yes" or unseen is None or not work.reaches:
            return faster
        return answer_unverified(*faster.evidence, f"{unseen}, which the candidate could change: {work.reaches[0]}")

    def bench(self, rng: np.random.Generator) -> CallJudge:
        """Where its calls are judged."""
        return CallJudge(task=self.task, reference=self.reference, options=self.options, rng=rng)

    def judge_correctness(self) -> Judgment:
        """Correctness and own work alone."""
        gate = CorrectnessTests(bench=self.bench(np.random.default_rng()))
        correct = self.convict_by_reading() or gate.check(self.opener(self.new))
        own = self._own_work().answered if correct.answer == "yes" else NOT_ASKED
        return self._make_judgment(correct, NOT_WANTED, own, calls=gate.calls)

    def _own_work(self) -> Work:
        if not self.options.has("own_work"):
            return Work(answered=answer_unverified("not looked at"))
        return judge_own_work(
            self.task, self.new, self.reference, opened=self._open_marked if self.options.device == "cuda" else None
        )

    @contextmanager
    def _open_marked(self, mode: WorkerMode) -> Iterator[Session]:
        """A worker on the card that notes, or whose kernels do nothing."""
        with self._session(self.new) as session:
            session.mode = mode
            yield session

    def convict_by_reading(self) -> QuestionAnswer | None:
        """The short list that convicts by reading; everything else that reading finds only asks for a closer look."""
        if not self.options.has("static"):
            return None
        texts = {
            side: {path.name: _read_text(path) for path in one.files}
            for side, one in (("a", self.old), ("b", self.new))
        }
        first = (*self.task.outputs, *(one for one in self.task.inputs if one.constness == "mutated"))[0]
        dtype = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(first.dtype, "fp32")
        convicting = [one for one in added(texts["a"], texts["b"], dtype=dtype) if one.severity == "convicts"]
        if not convicting:
            return None
        return answer_no(*(f"{one.path}:{one.line}: {one.rule}: {one.meaning}" for one in convicting))

    def opener(self, version: Frozen) -> Callable[[], AbstractContextManager[Session]]:
        """Fresh workers with that version."""
        return lambda: self._session(version)

    def _session(self, version: Frozen) -> Session:
        if self.options.device == "cuda":
            return CardSession(self.task, version.folder, device="cuda", surroundings=self.surroundings)
        session = Session(self.task, version.folder, surroundings=self.surroundings)
        if session.framework == "numpy" and self.task.language == "python":
            session.framework = self.reference.framework
        return session

    def _faster(self, pairs: TimedPairs) -> "Gain | TimingRefused":
        """Process pairs until the answer is clear, or there were enough."""
        opened = {"a": self.opener(self.old), "b": self.opener(self.new)}
        means: list[float] = []
        gain = Gain(means=(), options=self.options)
        while len(means) < self.options.most_pairs:
            slots = pairs.run(opened, self.task.timed, self.options.blocks)
            if isinstance(slots, TimingRefused):
                return slots
            means.append(statistics.fmean(_trimmed_mean(blocks) for blocks in block_log_ratios(slots).values()))
            gain = Gain(means=tuple(means), options=self.options)
            if len(means) >= self.options.pairs and gain.answered.answer != "unverified":
                break
        return gain

    def _make_judgment(
        self,
        correct: QuestionAnswer,
        faster: QuestionAnswer,
        own: QuestionAnswer,
        *,
        calls: int,
        gain: "Gain | None" = None,
    ) -> Judgment:
        allowed = own.answer == "yes" or self.task.library != "forbidden"
        return Judgment(
            task=self.task.name,
            candidate=dict(self.new.sha256),
            correct=correct,
            faster=faster,
            own_work=own,
            accepted=correct.answer == "yes" and faster.answer == "yes" and allowed,
            speedup=math.exp(gain.theta) if gain else None,
            speedup_lower=math.exp(gain.lower) if gain else None,
            calls=calls,
            isolation=Session.isolation_level(),
            defences_off=tuple(sorted(self.options.without)),
            own_work_required=self.task.library == "forbidden",
        )


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Log-ratios of process pairs, and what they say."""

    means: Sequence[float]
    options: Options

    @property
    def theta(self) -> float:
        """Mean log-ratio."""
        return statistics.fmean(self.means)

    @property
    def lower(self) -> float:
        """One-sided lower bound; minus infinity for a single pair."""
        return self.theta - self._reach

    @property
    def _reach(self) -> float:
        count = len(self.means)
        if count < 2:
            return math.inf
        looks = self.options.most_pairs - self.options.pairs + 1  # each look is a chance to be wrong
        spread = max(statistics.stdev(self.means), LEAST_SPREAD) / math.sqrt(count)
        return student_quantile(self.options.alpha / looks, count - 1) * spread

    @property
    def answered(self) -> QuestionAnswer:
        """Faster by more than the margin, not so, or undecided."""
        if len(self.means) < 2:
            return answer_unverified("one process pair proves nothing")
        wanted = math.log1p(self.options.margin)
        said = f"{math.exp(self.theta):.3f}x, at least {math.exp(self.lower):.3f}x, in {len(self.means)} process pairs"
        if self.lower > wanted:
            return answer_yes(said)
        upper = self.theta + self._reach
        if upper < wanted or (self.theta <= 0 and upper < FUTILE):
            return answer_no(said)
        return answer_unverified(f"undecided: {said}")


def _trimmed_mean(values: Sequence[float]) -> float:
    cut = int(TRIM * len(values))
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
