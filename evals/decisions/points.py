"""The decision points of a recording: each question to a model whose answer changed what was tried."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Literal

from ridgeline.agent.campaign.tape import Tape
from ridgeline.agent.planner.checks import EarlierTry, match_class, summarize_round
from ridgeline.agent.providers.base import Ask
from ridgeline.agent.providers.tape import FILE, ModelTape
from ridgeline.evals.recordings.recording import WORKSPACE, Folder
from ridgeline.evals.recordings.replay import ToldWorkspace, play_tape
from ridgeline.evals.task_folders import Parts, contract_fields, folders, recorded_tasks
from ridgeline.graph.contract import Contract
from ridgeline.graph.record import Line, RoundClosed
from ridgeline.graph.rules import history as fold
from ridgeline.graph.standing import History
from ridgeline.graph.trial import find_proposal
from ridgeline.graph.values import Hypothesis, Value

Kind = Literal["propose", "draft", "repair"]
PURPOSE = re.compile(r"round-(\d+) (propose|draft|repair)\b.* (\d+)")


class Outcome(Value):
    """What came of the round; nobody knew it when the question was asked."""

    hypothesis: Hypothesis
    """Whose turn it was in the end."""
    accepted: bool
    reason: str
    speedup: float | None
    """Measured time of the best version over time of the candidate; None where it was not measured."""


class Decision(Value):
    """One question and its recorded answer."""

    recording: str
    round: int
    kind: Kind
    attempt: int
    """1, and more where the answer before was refused."""
    question: Ask
    answer: str
    tokens: int
    contract: Contract
    classes: tuple[str, ...]
    """Configuration classes of the benchmark."""
    sources: tuple[tuple[str, str], ...]
    """Path and text of the best version's editable files."""
    tried: tuple[EarlierTry, ...]
    """Rounds before this one that may influence planning."""
    outcome: Outcome | None
    """None for a round that was never closed."""
    good: tuple[Hypothesis, ...]
    """Directions that were accepted in this round or later."""

    @property
    def failed(self) -> bool:
        """Whether the recorded round of a decision was rolled back."""
        return self.outcome is not None and not self.outcome.accepted


def decisions(path: Path) -> tuple[Decision, ...]:
    """Decision points of a recording in the order of asking. Raises UserError for no recording, TapeMiss where the repository's answers
    lack one.
    """
    folder = Folder(path)
    lines = folder.lines()
    history = fold.fold_ledger(lines)
    assert history is not None
    tape = ModelTape(folder.path / FILE, repaired=False)
    git = ToldWorkspace(play_tape(Tape(folder.file(WORKSPACE), mode="replay")))
    points: list[Decision] = []
    for ask, number, kind, attempt in _read_questions(tape):
        before, answer = _before(lines, number), tape.find_answer(ask)
        if answer is None or before is None or before.baseline is None:
            continue
        sources, classes = git.sources(fold.standing(before).commit), before.baseline.classes
        points.append(
            Decision(
                recording=folder.name,
                round=number,
                kind=kind,
                attempt=attempt,
                question=ask,
                answer=answer.text,
                tokens=answer.cost.tokens,
                contract=history.contract,
                classes=classes,
                sources=tuple((edit.path, edit.text) for edit in sources if edit.text is not None),
                tried=tuple(_summarize_round(closed, classes) for closed in fold.unmasked_rounds(before)),
                outcome=_outcome(history, number, classes),
                good=tuple(_direction(c, classes) for c in history.rounds if c.accepted and c.round >= number),
            )
        )
    return tuple(points)


def _read_questions(tape: ModelTape) -> Iterator[tuple[Ask, int, Kind, int]]:
    for ask in tape.asks:
        if match := PURPOSE.fullmatch(ask.purpose):
            kind: Kind = "propose" if match[2] == "propose" else "draft" if match[2] == "draft" else "repair"
            yield ask, int(match[1]), kind, int(match[3])


def _before(lines: Sequence[Line], round: int) -> History | None:
    """The recorded campaign as it was when that round began."""
    return fold.fold_ledger(tuple(takewhile(lambda line: line.key != f"round-{round}", lines)))


def _direction(closed: RoundClosed, classes: Sequence[str]) -> Hypothesis:
    """A recorded direction as it was tried, its class spelled as the benchmark does, whatever version recorded it."""
    hypothesis = find_proposal(closed.judged).hypothesis
    return hypothesis.model_copy(update={"target_class": match_class(hypothesis.target_class, classes)})


def _summarize_round(closed: RoundClosed, classes: Sequence[str]) -> EarlierTry:
    return summarize_round(closed).model_copy(update={"hypothesis": _direction(closed, classes)})


def _outcome(history: History, round: int, classes: Sequence[str]) -> Outcome | None:
    closed = next((candidate for candidate in history.rounds if candidate.round == round), None)
    if closed is None:
        return None
    gain = closed.judged.verdict.gain
    return Outcome(
        hypothesis=_direction(closed, classes),
        accepted=closed.accepted,
        reason=closed.judged.verdict.reason,
        speedup=None if gain is None or gain <= -1 else 1 + gain,
    )


# Which task a recorded campaign was run on: its files are at hand, where a recording has none.


def task_of(contract: Contract) -> Parts | None:
    """Folders of the task with the same operator, sources and test; None for a campaign of somebody's own kernel."""
    return _known_parts().get(_name(contract))


@cache
def _known_parts() -> dict[tuple[object, ...], Parts]:
    every = (*recorded_tasks().values(), *folders().values())
    return {_name(Contract.model_validate(contract_fields(parts))): parts for parts in every}


def _name(contract: Contract) -> tuple[object, ...]:
    return (contract.target_op, contract.target_backend, contract.dtype, contract.kernel_source, contract.test_command)
