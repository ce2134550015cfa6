"""What the judge is asked to do, and which of its defences are on."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from ridgeline.graph.formula import evaluate
from ridgeline.graph.judgment import QuestionAnswer
from ridgeline.graph.limits import Limits
from ridgeline.graph.task import Task
from ridgeline.graph.values import Value

Defence = Literal[
    "fresh_values",
    "addresses",
    "poison",
    "guards",
    "input_hash",
    "mixes",
    "probes",
    "near_pairs",
    "held_out",
    "judged_timing",
    "own_clock",
    "physics",
    "isolation",
    "own_work",
    "long_run",
    "static",
]
"""Each can be switched off, to show what it alone keeps out; a verdict reached so says which were off."""
CARD_LANGUAGES = frozenset({"triton", "cuda", "hip", "flydsl", "cutedsl"})
CARD_NODES = ("/dev/nvidia0", "/dev/kfd")
"""Where the drivers show that there is a card."""
INTERPRETED_ELEMENTS = 1 << 20
"""Of all arrays of a call; an interpreter on a processor takes a minute and more for as many."""
DEFENCES: frozenset[Defence] = frozenset(get_args(Defence))


class Options(Value):
    """How much is measured and how sure it must be. The candidate never learns any of it."""

    without: frozenset[Defence] = frozenset()
    margin: float = Field(default=0.005, ge=0)
    """Least gain that counts, as a share."""
    alpha: float = Field(default=0.01, gt=0, lt=0.5)
    """Chance of calling an equal candidate faster, one-sided."""
    calibration_pairs: int = Field(default=4, ge=0)
    """Process pairs of the version compared with against itself, timed first: what noise looks like here. With 0 some
    six pairs are needed before anything is clear."""
    pairs: int = Field(default=4, ge=2)
    """Fresh process pairs before the first look."""
    most_pairs: int = Field(default=12, ge=2)
    """Undecided after so many stays undecided."""
    blocks: int = Field(default=8, ge=1)
    """A B B A blocks per shape and process pair."""
    oracle_share: float = Field(default=0.04, ge=0, le=1)
    """Timed calls that are compared with the oracle, secretly chosen; the others with the other side's output."""
    long_calls: int = Field(default=3000, ge=0)
    """Calls in one process before a candidate is accepted, as far as `long_s` allows."""
    long_s: float = Field(default=10.0, ge=0)
    """Seconds for them. Where nothing is timed a quarter of both."""
    call_s: float = Field(default=60.0, gt=0)
    """Longest call."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where candidates and the reference run; `cuda` is a card of AMD too. `auto`: a card for languages of cards."""
    device_path: bool = True
    """On a card of NVIDIA, draw values, ask the reference and compare there too, where the reference is in PyTorch."""
    lesser_clock: bool = False
    """On a card, where calls in a row show less of b's lead by the judge's clock than the card's timer claims, and some of it: a's
    times are as much shorter, in place of a refusal. For a comparison of known versions, which nobody has to win."""
    seed: int | None = None
    """For a repeatable test of the judge itself; None draws from the operating system's entropy."""

    @property
    def limits(self) -> Limits:
        """For the judge: the rule of campaigns, as `graph.stats` takes it, with these numbers."""
        looks = tuple(range(1, self.most_pairs + 1))
        return Limits(alpha=self.alpha, margin=self.margin, looks=looks, screen_pairs=self.pairs)

    def has(self, defence: Defence) -> bool:
        """Whether a defence of the judge stands."""
        return defence not in self.without

    def with_device(self, task: Task) -> "Options":
        """The judge's options with the device decided."""
        if self.device != "auto":
            return self
        card = task.language in CARD_LANGUAGES and has_card()
        return self.model_copy(update={"device": "cuda" if card else "cpu"})

    def fit_sizes(self, task: Task) -> Task:
        """The task with the sizes that the device can be asked about: where what is written for a card runs in an
        interpreter on a processor, the small ones, if there are any. None of them may be a timed one.
        """
        if self.with_device(task).device != "cpu" or task.language not in CARD_LANGUAGES:
            return task
        tensors = (*task.inputs, *task.outputs)
        small = tuple(
            shape
            for shape in task.shapes
            if sum(math.prod(evaluate(extent, shape.dims) for extent in tensor.shape) for tensor in tensors)
            <= INTERPRETED_ELEMENTS
        )
        return task.model_copy(update={"shapes": small}) if small else task


def has_card() -> bool:
    """Whether a driver shows the judge a card on this machine."""
    return any(Path(node).exists() for node in CARD_NODES)


class JudgeTimeout(Exception):
    """The time allowed for a judgement is over. Raised between two calls, never in one; it is no verdict."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Where a judgement runs, and until when."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to what workers and the reference are told, such as which card is meant."""
    until: float = math.inf
    """Seconds on the monotonic clock."""

    def check_time(self) -> None:
        """Raises JudgeTimeout where the time is over."""
        if time.monotonic() > self.until:
            raise JudgeTimeout("the time allowed for it is over")


HERE = Surroundings()


def answer_yes(*evidence: str) -> QuestionAnswer:
    """The judge's answer yes."""
    return QuestionAnswer(answer="yes", evidence=evidence)


def answer_no(*evidence: str) -> QuestionAnswer:
    """The judge's answer no."""
    return QuestionAnswer(answer="no", evidence=evidence)


def answer_unverified(*evidence: str) -> QuestionAnswer:
    """The judge gives no answer: it counts as a pass nowhere."""
    return QuestionAnswer(answer="unverified", evidence=evidence)
