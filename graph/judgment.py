"""What Ridgeline's own judge says of a task's candidate: values that the loop, the commands and the judge share."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ridgeline.graph.values import Answer, Value, is_default

JudgePath = Literal["processor", "card", "card, values on the processor"]
"""Where the judge draws values, asks the reference and compares outputs; candidates run on that device."""


class QuestionAnswer(Value):
    """One question, its answer, and what it rests on."""

    answer: Answer
    evidence: tuple[str, ...] = ()


class Judgment(Value):
    """Three questions, and whether the answers together are enough to keep the candidate."""

    task: str
    candidate: dict[str, str]
    """sha256 of each of its files, as they were judged."""
    correct: QuestionAnswer
    faster: QuestionAnswer
    own_work: QuestionAnswer
    accepted: bool
    speedup: float | None = None
    """Against the version it was compared with; None where nothing was timed."""
    speedup_lower: float | None = None
    """One-sided lower bound."""
    calls: int
    """Judged, timed ones included."""
    isolation: str
    defences_off: tuple[str, ...] = ()
    own_work_required: bool = False
    """Whether the task keeps nothing that a library computed (`library: forbidden`)."""
    path: JudgePath = "processor"
    step_s: dict[str, float] = {}
    """Seconds that each step of judging took, by its name."""

    @property
    def passed(self) -> bool:
        """Whether a judgment is right, and the candidate's own work where the task wants that; of time nothing is said."""
        return self.correct.answer == "yes" and (self.own_work.answer == "yes" or not self.own_work_required)

    @property
    def lines(self) -> tuple[str, ...]:
        """The judgement in words, as `ridgeline judge` prints it; evidence is indented."""
        questions = (("correct", self.correct), ("faster", self.faster), ("own work", self.own_work))
        lines = [
            line
            for question, answer in questions
            for line in (
                f"{question}: {answer.answer}",
                *(f"  {each}" for each in "\n".join(answer.evidence).splitlines()),
            )
        ]
        if self.own_work_required and self.correct.answer == "yes" and self.own_work.answer != "yes":
            lines.append("refused: the task forbids libraries (`library: forbidden`), and own work was not shown")
        if not self.own_work_required and self.correct.answer == "yes" and self.own_work.answer == "no":
            lines.append("a result of a library is taken: the task does not forbid it (`library:` in task.yaml)")
        off = (f"switched off: {', '.join(self.defences_off)}",) if self.defences_off else ()
        took = ", ".join(f"{seconds:.1f} s {name}" for name, seconds in self.step_s.items() if seconds)
        calls = f"{self.calls} judged calls, on the {self.path}, isolation: {self.isolation}"
        return (*lines, *((f"took {took}",) if took else ()), calls, *off)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCall:
    """One timed and judged call. Thousands are made in a pair, by the judge alone: nothing checks them again."""

    label: str
    """Of the task's size."""
    block: int
    slot: int
    side: str
    """a or b."""
    time_us: float
    """The judge's clock in microseconds, without what an empty call takes, and without waits for a core that others had."""
    claimed_us: float | None
    """What the worker says that it took; no evidence."""
    at_us: float
    """End, in microseconds on the monotonic clock."""
    waited_us: float | None = None
    """Of the call's wall time, for how long others had its core, by the kernel's count: neither the judge nor its worker.
    None where it is not known for certain: then `time_us` holds such waits."""


class SizeTime(Value):
    """How long the version's calls of one size take."""

    label: str
    dims: dict[str, int]
    config_class: str
    time_ms: float
    """Median of the calls that both processes made, in milliseconds."""


class JudgeFailed(Value):
    """Why there is no judgement, or no time."""

    reason: Literal["refused", "timeout", "unusable"]
    """refused: a candidate's timed call was wrong, or it ended. timeout: the time allowed was over. unusable: the task,
    its reference or a source is not one that can be judged."""
    detail: str
    side: str = ""
    """a or b, whose fault it was; empty where it was nobody's."""
    unclear: Annotated[bool, Field(exclude_if=is_default(False))] = False
    """Refused without a wrong result: its time alone says nothing."""
