"""Judges one candidate: correctness, own work, and time against the older version."""

import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from ridgeline.graph.evidence import Comparison, ShapePairs
from ridgeline.graph.judgment import JudgePath, Judgment, QuestionAnswer, TimedCall
from ridgeline.graph.limits import Limits
from ridgeline.graph.stats.noise import estimate_noise
from ridgeline.graph.stats.sequential import Estimate, PairDecision, decide_from_pairs, estimate_gain
from ridgeline.graph.task import Shape, Task
from ridgeline.graph.values import Artifact
from ridgeline.sandbox.audit.examine import find_added
from ridgeline.sandbox.judge.correctness import CallJudge, CorrectnessTests
from ridgeline.sandbox.judge.device_process import Unfit, ask_judgment, is_judged_on_card
from ridgeline.sandbox.judge.dtypes import FLOAT8
from ridgeline.sandbox.judge.freeze import Frozen, freeze_sources
from ridgeline.sandbox.judge.options import (
    CARD_LANGUAGES,
    HERE,
    Options,
    Surroundings,
    answer_no,
    answer_unverified,
    answer_yes,
)
from ridgeline.sandbox.judge.provenance import Work, judge_own_work
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import CardSession, Session
from ridgeline.sandbox.judge.task_file import load_task
from ridgeline.sandbox.judge.timing import LongRun, LongRunAnswers, TimedPairs, TimingRefused, block_log_ratios
from ridgeline.sandbox.judge.worker import WorkerMode

Opener = Callable[[], AbstractContextManager[Any]]
"""Fresh workers with one version, not opened yet."""
Step = Callable[[str], AbstractContextManager[Any]]
"""Entered with the name of a step of a judgement for as long as it takes."""
TESTING = "testing on public sizes and drawn ones"
ASKING = "asking whose work it is"
CALLING = "making many calls in one process"


class Tests(Protocol):
    """Of correctness."""

    calls: int

    def check(self, opened: Any, /) -> QuestionAnswer:
        """Judge whether what these workers compute is right."""


class Pairs(Protocol):
    """Process pairs of one candidate."""

    calls: int

    def run(self, opened: Any, shapes: Sequence[Shape], blocks: int) -> list[TimedCall] | TimingRefused:
        """Times one process pair of the two judged versions."""

    def share_pools(self) -> "Pairs":
        """For the judge: for one version beside itself: with what was learned of sizes, and no times."""

    def find_late_work(self) -> str | None:
        """For the judge: where the newer side is at work after its answers."""

    def find_unseen_gain(self) -> str | None:
        """A claimed gain that the judge's own clock does not show."""

    def find_unasked_gain(self) -> str | None:
        """A claimed gain that the judge's own clock could show, and was not asked about."""


SLOWED_SHARE, SLOWED_LEAST = 0.5, 0.05
"""Of a gain, and at least: what the older version may be slower by beside the judged one than beside itself. Of less, a machine's
own changes cannot be told."""
SLOWED_PAIRS = 2
"""Process pairs of either version with itself, where it was slower by more."""
NOT_TIMED = answer_unverified("not timed: it is not correct")
NOT_WANTED = answer_unverified("not timed: only tested")
UNTIMED_SHARE = 0.25
"""Of the long run's calls and time where nothing is timed: a campaign asks that of every candidate."""
NOT_HERE = answer_unverified("not timed: the timed sizes are for a card, and this machine shows none")
INTERPRETED = "both sides as they run without a card, kernels in an interpreter: it says nothing of a card"
NOT_ASKED = answer_unverified("not looked at: it is not correct")


def judge(
    task_file: Path,
    *,
    candidate: Path | None = None,
    against: Path | None = None,
    options: Options | None = None,
    step: Step = nullcontext,
) -> Judgment:
    """Judge the sources of `candidate`, a folder, against those of `against`; default: those beside the task.

    `step`: entered with a step's name for as long as that takes, for whoever tells a person of it.
    Raises TaskError for a task that cannot be used. A broken candidate is a verdict, never an error.
    """
    task, folder = load_task(task_file)
    device_options = (options or Options()).with_device(task)
    if is_judged_on_card(task, device_options):
        with suppress(Unfit), step("testing and timing on the card"):
            return ask_judgment("judge", task_file, candidate=candidate, against=against, options=device_options)
    task = device_options.fit_sizes(task)
    with (
        open_reference(task, folder, device_options) as reference,
        freeze_sources(task, candidate or folder) as new,
        freeze_sources(task, against or folder) as old,
    ):
        return CandidateJudgment(
            task=task, reference=reference, new=new, old=old, options=device_options, step=step
        ).judge()


def open_reference(task: Task, folder: Path, options: Options, surroundings: Surroundings = HERE) -> Reference:
    """For the judge: the task's reference, on the device that candidates run on."""
    device: Literal["cpu", "cuda"] = "cuda" if options.device == "cuda" else "cpu"
    return Reference(task, folder, device=device, surroundings=surroundings)


@dataclass(kw_only=True)
class CandidateJudgment:
    """Judges the version `new` against `old`: correctness, own work, time."""

    task: Task
    reference: Reference
    new: Frozen
    old: Frozen
    options: Options
    surroundings: Surroundings = HERE
    step: Step = nullcontext
    step_s: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def _spend(self, name: str) -> Iterator[None]:
        """For the judge: a step, told as such, whose seconds are kept."""
        began = time.monotonic()
        try:
            with self.step(name):
                yield
        finally:
            self.step_s[name] = round(self.step_s.get(name, 0.0) + time.monotonic() - began, 1)

    @property
    def path(self) -> JudgePath:
        """For the judge: where values are drawn, the reference is asked and outputs are compared."""
        return "card, values on the processor" if self.options.device == "cuda" else "processor"

    def judge(self) -> Judgment:
        """For the judge: correctness, then own work and time; an incorrect candidate is not timed."""
        seed = self.options.seed
        rng = np.random.default_rng(seed)  # None: from the operating system
        bench = self.bench(rng)
        gate = self._tests(bench)
        with self._spend(TESTING):
            correct = self.convict_by_reading() or gate.check(self.opener(self.new))
        if correct.answer != "yes":
            return self._make_judgment(correct, NOT_TIMED, NOT_ASKED, calls=gate.calls)
        with self._spend(ASKING):
            work = self._own_work()
        own_work = work.answered
        if not self.task.timed:
            return self._make_judgment(correct, NOT_HERE, own_work, calls=gate.calls)
        pairs = self._pairs(bench)
        with self._spend("timing in fresh process pairs"):
            timed = self._time(pairs)
        calls = gate.calls + pairs.calls
        if isinstance(timed, TimingRefused):
            detail = f"a timed call was refused: {timed.detail}"
            if timed.side == "b" and timed.unclear:
                return self._make_judgment(correct, answer_unverified(detail), own_work, calls=calls)
            if timed.side == "b":
                return self._make_judgment(answer_no(detail), answer_unverified(detail), own_work, calls=calls)
            return self._make_judgment(
                correct, answer_unverified(f"the version compared with: {detail}"), own_work, calls=calls
            )
        faster = self._discount_unseen_gain(timed, pairs, work)
        if faster.answer == "yes":
            long_run = self._long_run(bench, pairs, share=1.0)
            with self._spend(CALLING):
                correct, calls = long_run.judge(correct, self.opener(self.new)), calls + long_run.calls
            faster = long_run.discount(faster)
        if self.options.device == "cpu" and self.task.language in CARD_LANGUAGES:
            faster = faster.model_copy(update={"evidence": (*faster.evidence, INTERPRETED)})
        return self._make_judgment(correct, faster, own_work, calls=calls, gain=timed)

    def _tests(self, bench: Any) -> Tests:
        """The judge's tests of correctness."""
        return CorrectnessTests(bench=bench)

    def _pairs(self, bench: Any) -> Pairs:
        """What times this candidate for the judge."""
        return TimedPairs(bench=bench)

    def _long_run(self, bench: Any, pairs: Any, *, share: float) -> LongRunAnswers[Any]:
        """For the judge: many calls in one process, for that share of the time and number that the options say."""
        options = self.options
        is_run = options.has("long_run") and options.device != "cuda" and self.task.timed
        count = round(share * options.long_calls) if is_run else 0
        return LongRun(pairs=pairs, bench=bench, most_calls=count, most_s=share * options.long_s)

    def _discount_unseen_gain(self, timed: "Gain", pairs: Pairs, work: Work) -> QuestionAnswer:
        """For the judge: a gain that only the timer in the candidate's process shows: its code must not have been seen to reach it."""
        faster = timed.answer
        if faster.answer == "yes" and (late := pairs.find_late_work()):
            return answer_unverified(*faster.evidence, late)
        if faster.answer == "yes" and self.options.has("own_clock") and (unasked := pairs.find_unasked_gain()):
            return answer_unverified(*faster.evidence, unasked)
        unseen = pairs.find_unseen_gain() if self.options.has("own_clock") else None
        if faster.answer != "yes" or unseen is None or not work.reaches:
            return faster
        return answer_unverified(*faster.evidence, f"{unseen}, which the candidate could change: {work.reaches[0]}")

    def bench(self, rng: np.random.Generator) -> Any:
        """The judge of the candidate's calls."""
        return CallJudge(task=self.task, reference=self.reference, options=self.options, rng=rng)

    def judge_correctness(self) -> Judgment:
        """For the judge: correctness and own work, without timing."""
        bench = self.bench(np.random.default_rng())
        gate = self._tests(bench)
        with self._spend(TESTING):
            correct, calls = self.convict_by_reading() or gate.check(self.opener(self.new)), gate.calls
        long_run: LongRunAnswers[Any] | None = None
        if correct.answer == "yes":
            long_run = self._long_run(bench, self._pairs(bench), share=UNTIMED_SHARE)
            with self._spend(CALLING):
                correct, calls = long_run.judge(correct, self.opener(self.new)), calls + long_run.calls
        with self._spend(ASKING):
            own_work = self._own_work(long_run).answered if correct.answer == "yes" else NOT_ASKED
        return self._make_judgment(correct, NOT_WANTED, own_work, calls=calls)

    def _own_work(self, long_run: LongRunAnswers[Any] | None = None) -> Work:
        """For the judge: `long_run`: of the same version, made before."""
        if not self.options.has("own_work"):
            return Work(answered=answer_unverified("not looked at"))
        return judge_own_work(
            self.task, self.new, self.reference, opened=self._open_marked, card=self.options.device == "cuda"
        )

    @contextmanager
    def _open_marked(self, mode: WorkerMode) -> Iterator[Session]:
        """For the judge: a worker as those that are timed, that notes, or whose kernels do nothing."""
        with self._session(self.new) as session:
            session.mode = mode
            yield session

    def convict_by_reading(self) -> QuestionAnswer | None:
        """For the judge: audit findings of severity `convicts` that the change adds, as a no; None where there are none."""
        if not self.options.has("static"):
            return None
        texts = {
            side: {path.name: _read_text(path) for path in version.files}
            for side, version in (("a", self.old), ("b", self.new))
        }
        judged = (*self.task.outputs, *(tensor for tensor in self.task.inputs if tensor.constness == "mutated"))[0]
        dtype = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(judged.dtype, "fp32")
        if any(tensor.dtype in FLOAT8 for tensor in (*self.task.inputs, *self.task.outputs)):
            dtype = "fp8"  # a cast to it is the operator's own
        convicting = [
            finding for finding in find_added(texts["a"], texts["b"], dtype=dtype) if finding.severity == "convicts"
        ]
        if not convicting:
            return None
        return answer_no(
            *(f"{finding.path}:{finding.line}: {finding.rule}: {finding.meaning}" for finding in convicting)
        )

    def time_pair(self, shapes: Sequence[Shape], blocks: int) -> list[TimedCall] | TimingRefused:
        """For the judge: one process pair of the old version, a, and the new one, b."""
        pairs = self._pairs(self.bench(np.random.default_rng()))
        return pairs.run({"a": self.opener(self.old), "b": self.opener(self.new)}, shapes, blocks)

    def opener(self, version: Frozen) -> Opener:
        """Fresh workers with the judged version."""
        return lambda: self._session(version)

    def _session(self, version: Frozen) -> Session:
        if self.options.device == "cuda":
            return CardSession(self.task, version.folder, device="cuda", surroundings=self.surroundings)
        session = Session(self.task, version.folder, surroundings=self.surroundings)
        if session.framework == "numpy" and self.task.language == "python":
            session.framework = self.reference.framework
        return session

    def _time(self, pairs: Pairs) -> "Gain | TimingRefused":
        """The judge's timing: the older version against itself, then both against each other until it is clear, or there were enough."""
        old, new, options = self.opener(self.old), self.opener(self.new), self.options
        alike = pairs.share_pools()
        runs = self._run_pairs(alike, {"a": old, "b": old}, options.calibration_pairs)
        pairs.calls += alike.calls
        if isinstance(runs, TimingRefused):
            return replace(runs, side="a")
        noise = estimate_noise([to_comparison(runs, "old", "old", self.task.shapes)]) if runs else None
        timed: list[list[TimedCall]] = []
        gain: Gain | None = None
        while gain is None or len(timed) < options.most_pairs:
            more = self._run_pairs(pairs, {"a": old, "b": new}, 1)
            if isinstance(more, TimingRefused):
                return more
            timed += more
            gain = Gain(
                estimate=estimate_gain([to_comparison(timed, "old", "new", self.task.shapes)], noise, options.limits),
                limits=options.limits,
                calibration_pairs=len(runs),
            )
            if len(timed) >= options.pairs and gain.decision != "undecided":
                break
        if gain.decision == "faster" and runs:
            return replace(gain, slowed=self._find_slowed_other(pairs, runs, timed))
        return gain

    def _find_slowed_other(
        self, pairs: Pairs, alike: Sequence[Sequence[TimedCall]], timed: Sequence[Sequence[TimedCall]]
    ) -> str | None:
        """For the judge: that the older version is slow beside the judged one, not by itself; None where it is not, or little.

        Where it was quicker beside itself, before, the machine may have been another. So both are timed beside themselves
        in turns, and what they differ by then is no doing of one to the other.
        """
        claimed = self._log_ratio((timed, "a"), (timed, "b"))
        slower = self._log_ratio((timed, "a"), (alike, "ab"))
        if slower <= max(SLOWED_LEAST, SLOWED_SHARE * claimed):
            return None
        times: dict[str, list[list[TimedCall]]] = {"old": [], "new": []}
        for side, version in [("old", self.old), ("new", self.new)] * SLOWED_PAIRS:
            themselves, opened = pairs.share_pools(), self.opener(version)
            run = self._run_pairs(themselves, {"a": opened, "b": opened}, 1)
            pairs.calls += themselves.calls
            if isinstance(run, TimingRefused):
                return f"beside itself: {run.detail}"
            times[side] += run
        alone = self._log_ratio((times["old"], "ab"), (times["new"], "ab"))
        if alone >= SLOWED_SHARE * claimed or claimed - alone <= SLOWED_LEAST:
            return None
        return (
            f"beside this version the older one takes {math.exp(slower):.2f} times what it takes beside itself; "
            f"with each beside itself, the gain is {math.exp(alone):.3f}x"
        )

    def _log_ratio(self, one: "SidesOfPairs", other: "SidesOfPairs") -> float:
        """For the judge: logarithm of how much longer the calls of one are than those of the other, over all sizes by their weight."""
        weights = {shape.label: shape.weight for shape in self.task.shapes}
        labels = dict.fromkeys(call.label for call in one[0][0])
        total = sum(weights.get(label, 1.0) for label in labels)
        ratios = {label: math.log(_median_us(*one, label=label) / _median_us(*other, label=label)) for label in labels}
        return sum(weights.get(label, 1.0) * ratio for label, ratio in ratios.items()) / total

    def _run_pairs(
        self, pairs: Pairs, opened: Mapping[str, Opener], count: int
    ) -> list[list[TimedCall]] | TimingRefused:
        runs: list[list[TimedCall]] = []
        for _ in range(count):
            calls = pairs.run(opened, self.task.timed, self.options.blocks)
            if isinstance(calls, TimingRefused):
                return calls
            runs.append(calls)
        return runs

    def _make_judgment(
        self,
        correct: QuestionAnswer,
        faster: QuestionAnswer,
        own_work: QuestionAnswer,
        *,
        calls: int,
        gain: "Gain | None" = None,
    ) -> Judgment:
        allowed = own_work.answer == "yes" or self.task.library != "forbidden"
        return Judgment(
            task=self.task.name,
            candidate=dict(self.new.sha256),
            correct=correct,
            faster=faster,
            own_work=own_work,
            accepted=correct.answer == "yes" and faster.answer == "yes" and allowed,
            speedup=gain.speedup if gain else None,
            speedup_lower=gain.speedup_lower if gain else None,
            calls=calls,
            isolation=Session.isolation_level(),
            defences_off=tuple(sorted(self.options.without)),
            own_work_required=self.task.library == "forbidden",
            path=self.path,
            step_s=dict(self.step_s),
        )


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What the process pairs say, by the rule that campaigns go by (`graph.stats`)."""

    estimate: Estimate
    limits: Limits
    calibration_pairs: int
    """Of identical versions, timed first."""
    slowed: str | None = None
    """Why a gain does not count that the older version's being slow beside this one makes up."""

    @property
    def decision(self) -> PairDecision:
        return decide_from_pairs(self.estimate, self.limits)

    @property
    def speedup(self) -> float:
        """Time of the older version over that of the judged one."""
        return math.exp(self.estimate.theta)

    @property
    def speedup_lower(self) -> float | None:
        """For the judge: one-sided lower bound; None while nothing bounds it."""
        return math.exp(self.estimate.lower) if math.isfinite(self.estimate.lower) else None

    @property
    def answer(self) -> QuestionAnswer:
        """Whether the judged version is faster: by more than the margin, not so, or undecided."""
        least = "" if self.speedup_lower is None else f", at least {self.speedup_lower:.3f}x"
        beside = f" and {self.calibration_pairs} of identical versions" if self.calibration_pairs else ""
        summary = f"{self.speedup:.3f}x{least}, in {self.estimate.pairs} process pairs{beside}"
        match self.decision:
            case "faster" if self.slowed:
                return answer_unverified(summary, self.slowed)
            case "faster":
                return answer_yes(summary)
            case "not_better":
                return answer_no(summary)
            case "lost":
                return answer_no(
                    summary, *(f"{shape.label} is slower" for shape in self.estimate.shapes if shape.slower)
                )
            case "unpromising" | "undecided":
                return answer_unverified(f"undecided: {summary}")


def to_comparison(
    pairs: Sequence[Sequence[TimedCall]], best: str, candidate: str, sizes: Sequence[Shape] = ()
) -> Comparison:
    """For the judge: the calls of these process pairs as the statistics take them: a is `best`. Kept nowhere: `raw` only names it."""
    weights = {size.label: size.weight for size in sizes}
    protected = {size.label for size in sizes if size.protected}
    shapes = tuple(
        ShapePairs(
            label=label,
            weight=weights.get(label, 1.0),
            protected=label in protected,
            pairs=tuple(tuple(block_log_ratios(calls)[label]) for calls in pairs),
            best_us=_median_us(pairs, "a", label=label),
            candidate_us=_median_us(pairs, "b", label=label),
        )
        for label in dict.fromkeys(call.label for call in pairs[0])
    )
    data = json.dumps([shape.pairs for shape in shapes]).encode()
    return Comparison(
        best=best,
        candidate=candidate,
        machine="this",
        engine="wall",
        shapes=shapes,
        raw=Artifact(sha256=hashlib.sha256(data).hexdigest(), name="pairs.json", size=len(data)),
        seconds=0.0,
    )


SidesOfPairs = tuple[Sequence[Sequence[TimedCall]], str]
"""Process pairs, and the sides of them that are meant: `a`, `b`, or `ab` for both."""


def _median_us(pairs: Sequence[Sequence[TimedCall]], sides: str, *, label: str) -> float:
    return statistics.median(
        call.time_us for calls in pairs for call in calls if call.label == label and call.side in sides
    )


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
