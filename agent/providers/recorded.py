"""A model whose answers were given before: a recorded campaign made again on another machine, where no key is needed.

What is asked now differs in every measured number from what was asked then, so an answer goes by its place and not by its
question's digest: which question for directions it follows, what was asked, and about which hypothesis. What a direction rests on was
seen in the other campaign, and says so here; lessons and reviews, which tell its numbers alone, are not given again.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import Ask, Message, NotAsked, Reply, without_secrets
from ridgeline.agent.providers.choice import RECORDED, has_model, name_recorded
from ridgeline.agent.providers.mailbox import decode_answer
from ridgeline.agent.providers.tape import FILE as TAPE
from ridgeline.agent.providers.tape import ModelTape, estimate_tokens
from ridgeline.graph.values import SCHEMA, Cost, Value
from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.store.json_file import read_json, read_model

FILE = "recorded_answers.json"
"""The answers as a campaign keeps them, so that it goes on where their folder is not."""
NUMBERED = re.compile(r"\d+\..*")
PLAIN = re.compile(r"\d+\.(propose|drafts|draft|repair|split|baseline)\.(json|txt)")
"""Name of a file with one answer, for example `02.drafts.txt`."""
PURPOSE = re.compile(r"round-(\d+) ([a-z]+)")
ABOUT = re.compile(r"^## Hypothes[ie]s$.*?(?=^## |\Z)", re.M | re.S)
"""The part of a question that names what it is about."""
HYPOTHESIS = re.compile(r"^\[([^\]\n]+)\] ", re.M)
CANDIDATE = re.compile(r"^([#* \t]*CANDIDATE\s+)(\d{1,2})\b", re.M)
"""Begins the edits of one candidate in an answer for all of them."""
PROPOSE, DRAFT, TOGETHER, REVIEW = "propose", "draft", "drafts", "review"
SEEN, WRITTEN = "(seen in ", "(a direction of "
"""Begin what is quoted from a campaign that saw it, or wrote it."""
DIAGNOSE = "must say in `diagnosis`"
"""What the question for directions asks after a rollback."""
NOT_GIVEN = {
    "reflect": "lessons tell the other campaign's numbers and are not given again",
    "diagnose": "lessons tell the other campaign's numbers and are not given again",
    "review": "a review tells the other campaign's numbers and is not given again",
    "deep": "what was done in a deep round is in no answer",
}


class AnswersEnded(NotAsked):
    """A question that nobody answered in the recording: for directions it ends the campaign, else its candidate."""


class Place(Value):
    """Where in a campaign a question is asked."""

    turn: int
    """Questions for directions up to here; 0 before the first."""
    kind: str
    """What is asked: `propose`, `draft`, `drafts` of all candidates, `repair`, `review` ..."""
    about: tuple[str, ...] = ()
    """Hypotheses by name, in the order of the candidates."""

    @property
    def key(self) -> tuple[int, str, tuple[str, ...]]:
        """What two campaigns have in common; all candidates are asked for together, whichever they are."""
        return self.turn, self.kind, () if self.kind == TOGETHER else self.about


class RecordedAnswer(Value):
    """One answer. Those of one place are given in their order."""

    place: Place
    text: str


class RecordedAnswers(Value):
    """All answers of a recorded campaign, in the order in which they were given."""

    schema_version: int = SCHEMA
    source: str
    """Name of the folder that they came from."""
    answers: tuple[RecordedAnswer, ...]

    @property
    def drafts_together(self) -> bool:
        """Whether one answer has the edits of all candidates, as of a mailbox."""
        return any(answer.place.kind == TOGETHER for answer in self.answers)

    @property
    def beside(self) -> int:
        """Most directions of one question whose edits were answered."""
        drafted: dict[int, set[str]] = {}
        for answer in self.answers:
            if answer.place.kind in (DRAFT, TOGETHER):
                drafted.setdefault(answer.place.turn, set()).update(answer.place.about)
        return max(map(len, drafted.values()), default=0)

    @property
    def turns(self) -> int:
        """Questions for directions that were answered."""
        return max((answer.place.turn for answer in self.answers), default=0)


def read_answers(folder: Path) -> RecordedAnswers:
    """The answers of a recording or campaign, or of a folder with files such as `01.propose.json`, `02.drafts.txt`.

    None at all of a campaign that asked nothing, since there was nothing to gain. Raises UserError for what has no answers.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "there is no such folder"
        raise UserError(
            f"--model {RECORDED}{folder}: {what}; give the folder of a recording, or one with files of answers"
        )
    request = _read_request(folder)
    asked = ModelTape(folder / TAPE, repaired=False).said if request is not None else tuple(_read_files(folder))
    answers = tuple(
        RecordedAnswer(place=place, text=without_secrets(text))
        for place, (_, text) in zip(_locate([ask for ask, _ in asked]), asked, strict=True)
        if place.kind not in NOT_GIVEN and text.strip() and not _gives_up(text)
    )
    if request is None and not any(answer.place.kind == PROPOSE for answer in answers):
        raise UserError(
            f"--model {RECORDED}{folder}: is no recording, and has no file such as 01.propose.json with an answer to the"
            " question for directions"
        )
    return RecordedAnswers(source=name_recorded(str(folder)), answers=answers)


def _gives_up(text: str) -> bool:
    """Whether an answer says that nothing is left: that was said of the other campaign's numbers."""
    try:
        answer = json.loads(text)
    except ValueError:
        return False
    return isinstance(answer, dict) and bool(answer.get("exhausted")) and not answer.get("directions")


def _read_request(folder: Path) -> Mapping[str, Any] | None:
    """How a recorded campaign was begun; None where the folder is of no campaign. Raises UserError for one without a model."""
    path = folder / "request.json"
    if not path.is_file():
        return None
    request = read_json(path).get("request")
    if not isinstance(request, dict) or not isinstance(request.get("limits"), dict):
        raise UserError(f"{path}: request.limits: is missing; restore the file from a copy")
    if (planner := str(request.get("planner", ""))) and not has_model(planner):
        raise UserError(f"{path}: request.planner: is {planner}, which asked no model; use --planner {planner}")
    return request


def _read_files(folder: Path) -> Iterator[tuple[Ask, str]]:
    """Answers in files of their own, each as if to a question of its round; a second `propose` begins another one."""
    number, names = 1, list[str]()
    for path in sorted(path for path in folder.iterdir() if NUMBERED.fullmatch(path.name)):
        match = PLAIN.fullmatch(path.name)
        if match is None:
            raise UserError(
                f"{path}: is not named as an answer; write 01.propose.json, then 02.draft.txt (or drafts for all"
                " candidates), repair, split"
            )
        kind, text = match[1], decode_answer(path.read_bytes(), str(path))
        if kind == PROPOSE:
            number, names = number + 1, _read_names(path, text)
        elif number == 1 and kind != "baseline":
            raise UserError(
                f"{path}: stands before any NN.propose.json; number it behind the directions that it is about"
            )
        about = names if kind == TOGETHER else [names.pop(0)] if names and kind == DRAFT else []
        lines = "".join(f"[{name}] \n" for name in about)
        question = Message(role="user", text=f"## Hypotheses\n{lines}" if about else "")
        yield Ask(purpose=f"round-{number} {kind} 1", messages=(question,)), text


def _read_names(path: Path, text: str) -> list[str]:
    """Names of the directions in a file with an answer, in their order. Raises UserError for what is no such answer."""
    try:
        return [str(direction["id"]) for direction in json.loads(text)["directions"]]
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: line {error.lineno}: is not JSON ({error.msg}); the answer is one JSON object"
        ) from None
    except (TypeError, KeyError):
        raise UserError(
            f"{path}: directions: is not a list of objects with an `id` each; write what a campaign by mailbox asks for"
        ) from None


def _locate(asks: Sequence[Ask]) -> Iterator[Place]:
    """The place of each question of a campaign. One that is put again for its bad answer has the same."""
    turn, first = 0, ""
    for ask in asks:
        match = PURPOSE.match(ask.purpose)
        number, kind = (match[1], match[2]) if match else ("", ask.purpose)
        if kind == PROPOSE and number != first:
            turn, first = turn + 1, number
        question = next((message.text for message in ask.messages if message.role == "user"), "")
        about = ABOUT.search(question)
        yield Place(turn=turn, kind=kind, about=tuple(HYPOTHESIS.findall(about[0])) if about else ())


def quote_directions(text: str, source: str, *, diagnose: bool) -> str:
    """Recorded directions as they are given again: what they rest on was seen in the other campaign, and says so.

    What says so already was seen in a campaign before that one. `diagnose`: where what follows from the last rollback
    must be said, they say that they were written before it.
    """
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        answer = json.loads(text[start:end])
        directions = answer["directions"]
        for direction in directions:
            for holder, key in (
                (direction, "bottleneck"),
                (direction, "diagnosis"),
                *((step, "evidence") for step in direction["evidence"]),
            ):
                if holder.get(key) and not str(holder[key]).startswith((SEEN, WRITTEN)):
                    holder[key] = f"{SEEN}{source}, not here) {holder[key]}"
            if diagnose and not direction.get("diagnosis"):
                direction["diagnosis"] = f"{WRITTEN}{source}, written before this rollback)"
    except (ValueError, KeyError, TypeError, AttributeError):
        return text  # no answer that can be used; whoever reads it says why
    return json.dumps(answer, ensure_ascii=False, indent=1)


def renumber_candidates(text: str, recorded: Sequence[str], asked: Sequence[str]) -> str:
    """An answer for all candidates with the numbers that their hypotheses have now; those that are not asked for are left out."""
    pieces = CANDIDATE.split(text)
    kept = [
        f"{head}{asked.index(recorded[int(number) - 1]) + 1}{body}"
        for head, number, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True)
        if 0 < int(number) <= len(recorded) and recorded[int(number) - 1] in asked
    ]
    return "".join((pieces[0], *kept))


def read_limits(folder: Path) -> Mapping[str, str | int]:
    """Limits under which recorded answers were given, as far as the answers depend on them; no restart, for it asks for more."""
    request = _read_request(folder) if folder.is_dir() else None
    if request is None:
        return {"max_restarts": 0}
    recorded = request["limits"]
    preset, candidates = str(recorded.get("preset", "evidence")), int(recorded.get("candidates", 1))
    return {"max_restarts": 0, "preset": preset, "candidates": candidates}


def count_candidates(folder: Path) -> int:
    """Directions at once that recorded answers are enough for: as many as were asked for there, or had edits."""
    return max(1, int(read_limits(folder).get("candidates", 1)), read_answers(folder).beside)


class RecordedModel:
    """Gives the answers of a recording, each once, at its place."""

    tools = False

    def __init__(self, folder: Path, campaign: Path, *, answered: Callable[[], Sequence[Ask]]) -> None:
        """`answered`: the campaign's own questions that have an answer, in order."""
        self._folder = folder
        self._kept = campaign / FILE
        self._answered = answered
        self.name = f"{RECORDED}{name_recorded(str(folder))}"

    def count(self, text: str) -> int:
        return estimate_tokens(text)

    def most(self, ask: Ask) -> Cost:
        """Nothing: whoever answered was paid then."""
        return Cost()

    def ask(self, ask: Ask) -> Reply:
        """The recorded answer to a question of this place. Raises AnswersEnded where there is none.

        A review has an empty one: its directions come from code, and the next answers are given.
        """
        *before, now = _locate([*self._answered(), ask])
        if now.kind == REVIEW:
            return Reply(model=self.name, final=True)
        answers = self._open()
        recorded = [answer for answer in answers.answers if answer.place.key == now.key]
        given = sum(place.key == now.key for place in before)
        if given >= len(recorded):
            if now.kind == PROPOSE and now.turn > answers.turns:
                raise AnswersEnded(self._describe_end(answers.turns))
            why = NOT_GIVEN.get(now.kind, "has no recorded answer")
            raise AnswersEnded(f"{ask.purpose}: {why} ({self.name})")
        answer = recorded[given]
        text = renumber_candidates(answer.text, answer.place.about, now.about) if now.kind == TOGETHER else answer.text
        if now.kind == PROPOSE:
            is_asked = any(DIAGNOSE in message.text for message in ask.messages)
            text = quote_directions(text, answers.source, diagnose=is_asked)
        return Reply(text=text, model=self.name, final=given + 1 == len(recorded))

    def _describe_end(self, turns: int) -> str:
        """Why a campaign of recorded answers ends: all of them were given."""
        if not turns:
            return f"the recorded answers are used up: {self.name} has none to a question for directions"
        return f"the recorded answers are used up: {self.name} has those to {turns} question{'s' if turns > 1 else ''} for directions"

    def _open(self) -> RecordedAnswers:
        """The answers; those that the campaign keeps, where it has begun with them."""
        if self._kept.is_file():
            return read_model(self._kept, RecordedAnswers)
        answers = read_answers(self._folder)
        write_whole(self._kept, answers.model_dump_json(indent=1).encode() + b"\n")
        return answers


def are_drafts_together(folder: Path, campaign: Path) -> bool:
    """Whether the recorded answers have the edits of all candidates in one."""
    kept = campaign / FILE
    return (read_model(kept, RecordedAnswers) if kept.is_file() else read_answers(folder)).drafts_together
