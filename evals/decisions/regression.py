"""Recorded answers scored again: what a change of prompts, checks or parsers made of numbers that were written down."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from ridgeline.agent.errors import UserError
from ridgeline.evals.decisions.contest import (
    KINDS,
    SHIPPED,
    Answers,
    Contestant,
    gather_points,
    prompt,
    score_contestant,
)
from ridgeline.evals.decisions.points import decisions
from ridgeline.evals.decisions.scores import score, summary
from ridgeline.graph.values import Value
from ridgeline.knowledge.library import Library

RECORDED = "as recorded"
BETTER = {
    "parses": 1,
    "applies": 1,
    "usable": 1,
    "cites": 1,
    "one_change": 1,
    "resolved": 1,
    "repeats": -1,
    "hit_at_1": 1,
    "hit_at_3": 1,
}
"""Score -> whether more of it is better."""
LEAST = 1e-9


class Row(Value):
    """The scores of one wording's answers to one kind of question."""

    prompt: str
    kind: str
    answers: int
    scores: dict[str, float]


class ScoreFile(Value):
    """The file: what was true when it was written."""

    scores: tuple[Row, ...]
    asked_now: tuple[str, ...]
    """Every template that ships, `name@sha256`."""


class Change(Value):
    """One score that is another now."""

    prompt: str
    kind: str
    score: str
    before: float
    now: float

    @property
    def lower(self) -> bool:
        """Whether a recorded answer's score changed for the worse."""
        return (self.now - self.before) * BETTER[self.score] < 0

    @property
    def text(self) -> str:
        """A changed score of recorded answers, for people."""
        way = "LOWER" if self.lower else "better"
        return f"{way}: {self.prompt}, {self.kind}, {self.score}: {self.before:.3f} -> {self.now:.3f}"


class ScoreCheck(Value):
    """What was found."""

    changes: tuple[Change, ...]
    gone: tuple[str, ...]
    """Scores that were written down and have no answers now."""
    reworded: tuple[str, ...]
    """Templates that ship and were others when the file was written; nobody answered them there."""

    @property
    def good(self) -> bool:
        """Whether the scores of recorded answers lost nothing: none is lower, none is gone."""
        return not self.gone and not any(change.lower for change in self.changes)


def measure_recordings(recordings: Sequence[Path], answers: Answers) -> ScoreFile:
    """Everything that is recorded, scored by the code of now."""
    line = Library(()).line
    names = answers.prompts
    points = gather_points(recordings, [prompt(name) for name in names], KINDS) if names else ()
    rows = []
    for name in names:
        for model in answers.models:
            scored = score_contestant(points, Contestant(prompt=name, model=model), answers, line=line)
            rows += [_row(name, kind, totals.model_dump()) for kind in KINDS if (totals := scored.of(kind))]
    answered_points = [point for path in recordings for point in decisions(path)]
    for kind in KINDS:
        if scores := [
            score(point, point.answer, tokens=point.tokens, line=line)
            for point in answered_points
            if point.kind == kind
        ]:
            rows.append(_row(RECORDED, kind, summary(scores).model_dump()))
    return ScoreFile(scores=tuple(rows), asked_now=prompt(SHIPPED).made_of)


def _row(name: str, kind: str, totals: Mapping[str, object]) -> Row:
    scores = {key: float(value) for key in BETTER if isinstance(value := totals.get(key), int | float)}
    return Row(prompt=name, kind=kind, answers=int(str(totals["answers"])), scores=scores)


def read_scores(path: Path) -> ScoreFile:
    """Scores of recorded answers that were written down. Raises UserError for a file that cannot be used."""
    try:
        return ScoreFile.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise UserError(f"{path}: not found; write it with --write") from error
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "the file"
        raise UserError(f"{path}: {where}: {error.errors()[0]['msg']}; write it again with --write") from error


def write(path: Path, written: ScoreFile) -> None:
    """Write scores of recorded answers in lines, so that a change is seen as one."""
    path.write_text(json.dumps(written.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")


def compare_scores(before: ScoreFile, now: ScoreFile) -> ScoreCheck:
    """What differs in scores of recorded answers, in the order of the file."""
    present = {(row.prompt, row.kind): row for row in now.scores}
    changes: list[Change] = []
    gone: list[str] = []
    for row in before.scores:
        counterpart = present.get((row.prompt, row.kind))
        if counterpart is None:
            gone.append(f"{row.prompt}, {row.kind}: {row.answers} answers are gone")
            continue
        for key, value in row.scores.items():
            fresh = counterpart.scores.get(key, 0.0)
            if abs(fresh - value) > LEAST:
                changes.append(Change(prompt=row.prompt, kind=row.kind, score=key, before=value, now=fresh))
    wording_before = {name.partition("@")[0]: name for name in before.asked_now}
    other_words = [name for name in now.asked_now if wording_before.get(name.partition("@")[0]) != name]
    return ScoreCheck(changes=tuple(changes), gone=tuple(gone), reworded=tuple(other_words))
