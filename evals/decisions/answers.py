"""Answers that were given to decision points: kept in one file, taken up from pages that somebody answered by hand."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import Ask
from ridgeline.agent.providers.tape import counted
from ridgeline.evals.decisions.asking import Point, Situation
from ridgeline.graph.values import Value
from ridgeline.sandbox.store.durable import append_whole

FILE = "answers.jsonl"
REQUESTS = "requests"
MARK = "<!-- question "
"""Ends a page, before the question's sha256: an answer belongs to the page that was read, not to that of today."""


class Given(Value):
    """One answer."""

    point: Point
    prompt: str
    """Name of the wording that asked."""
    model: str
    question: str
    """sha256 of the question: another one today means that the prompt, or what it is given, has changed since."""
    text: str
    tokens: int
    dollars: float | None = None
    """None where the price is unknown."""
    seconds: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.prompt, self.model, self.point.name)


class Answers:
    """`answers.jsonl` of a folder: one line an answer; the last of a key counts."""

    def __init__(self, folder: Path) -> None:
        """Raises UserError for a line that is no answer."""
        self.folder = folder
        self._path = folder / FILE
        self._known: dict[tuple[str, str, str], Given] = {}
        for number, line in enumerate(self._lines(), start=1):
            try:
                given = Given.model_validate_json(line)
            except ValidationError as error:
                where = ".".join(map(str, error.errors()[0]["loc"])) or "the line"
                why = error.errors()[0]["msg"]
                raise UserError(
                    f"{self._path}: line {number}: {where}: {why}; restore it, or remove the line"
                ) from error
            self._known[given.key] = given

    def find(self, prompt: str, model: str, point: Point) -> Given | None:
        """None where nobody answered yet."""
        return self._known.get((prompt, model, point.name))

    @property
    def models(self) -> tuple[str, ...]:
        """Names of all who answered."""
        return tuple(dict.fromkeys(given.model for given in self._known.values()))

    @property
    def prompts(self) -> tuple[str, ...]:
        """Names of all wordings that were answered."""
        return tuple(dict.fromkeys(given.prompt for given in self._known.values()))

    def add(self, given: Iterable[Given]) -> int:
        """On the disk before it returns; how many."""
        new = [one for one in given if self._known.get(one.key) != one]
        if new:
            self.folder.mkdir(parents=True, exist_ok=True)
            append_whole(self._path, b"".join(one.model_dump_json().encode() + b"\n" for one in new))
            self._known.update({one.key: one for one in new})
        return len(new)

    def _lines(self) -> Sequence[bytes]:
        return self._path.read_bytes().splitlines() if self._path.is_file() else ()


def requested(answers: Answers, prompt: str, situation: Situation) -> Path:
    """Where the page of a question lies; its answer belongs beside it, as `NAME.answer.md`."""
    return answers.folder / REQUESTS / prompt / f"{situation.point.name}.request.md"


def write_request(answers: Answers, prompt: str, situation: Situation) -> Path:
    """The page of a question, for somebody who knows nothing else."""
    path, ask = requested(answers, prompt, situation), situation.asks[prompt]
    path.parent.mkdir(parents=True, exist_ok=True)
    said = "\n\n".join(message.text for message in ask.messages)
    told = "one JSON object" if ask.answer_schema else "your answer as plain text"
    head = f"Write {told}, and nothing else, into `{path.name.replace('.request.', '.answer.')}` beside this page."
    path.write_text(f"# {situation.point.name}\n\n{head}\n\n{said}\n\n{MARK}{ask.digest} -->\n", encoding="utf-8")
    return path


def taken_up(answers: Answers, prompt: str, situations: Iterable[Situation], *, model: str) -> tuple[Given, ...]:
    """What lies answered beside the pages of this prompt. An empty file is no answer yet."""
    found: list[Given] = []
    for situation in situations:
        path = requested(answers, prompt, situation)
        answer = path.with_name(path.name.replace(".request.", ".answer."))
        if prompt in situation.asks and answer.is_file() and (text := answer.read_text(encoding="utf-8").strip()):
            ask = situation.asks[prompt]
            given = Given(
                point=situation.point,
                prompt=prompt,
                model=model,
                question=_question_of(path),
                text=text,
                tokens=_tokens(ask, text),
            )
            found.append(given)
    return tuple(found)


def _question_of(page: Path) -> str:
    """The digest that stands in a page; empty where the page is gone."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return text.rpartition(MARK)[2][:64] if MARK in text else ""


def _tokens(ask: Ask, text: str) -> int:
    """By size: whoever answered by hand counted nothing."""
    return sum(counted(message.text) for message in ask.messages) + counted(text)
