"""What a campaign asks people, as files in its folder: readable, answerable anywhere, and still there after a restart.

`approvals/<key>.request.json` is the question, `<key>.md` the same for people, `<key>.decision.json` the answer,
`<key>.taken` says that the campaign has gone on with it, and `<key>.late.jsonl` keeps answers that came too late.
"""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ridgeline.agent.campaign import folders
from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import plain
from ridgeline.agent.providers.mailbox import open_request
from ridgeline.graph.approval import POLICY, ApprovalRequest, Decision, Option
from ridgeline.graph.ports import Artifacts
from ridgeline.graph.reports.approval import render_request
from ridgeline.graph.values import Value
from ridgeline.sandbox.store.campaign_folder import StopFile
from ridgeline.sandbox.store.durable import append_whole, lock_file, write_whole

FOLDER = "approvals"
REQUEST, DECISION, DEFERRED = ".request.json", ".decision.json", ".deferred.json"
TAKEN, LATE = ".taken", ".late.jsonl"
LOCK = "decide.lock"


class Deferral(Value):
    """Somebody looked and wants to decide later: it stays in the queue."""

    reason: str
    by: str
    at: str


class Waits(Value):
    """One open question."""

    request: ApprovalRequest
    page: str
    """The file for people."""
    deferred: Deferral | None = None
    decision: Decision | None = None
    """The answer that came meanwhile; None while it is open."""


class OpenDecision(Value):
    """A question that was decided, and with which the campaign has not gone on."""

    request: ApprovalRequest
    decision: Decision
    late: tuple[Decision, ...] = ()
    """Answers that came after it: they decide nothing, and are kept."""


class DecidedAlready(UserError):
    """Somebody else's answer came first."""


def is_overdue(request: ApprovalRequest, now: datetime) -> bool:
    """Whether nobody answered a request for approval in time and the campaign's policy decides it, as soon as it goes on."""
    if not request.hours or request.late == "hold":
        return False
    return (now - datetime.fromisoformat(request.asked_at)).total_seconds() / 3600 >= request.hours


class ApprovalFiles:
    """Port `Approvals` on a campaign's folder."""

    def __init__(
        self, campaign_dir: Path, artifacts: Artifacts | None = None, now: Callable[[], datetime] | None = None
    ) -> None:
        self.folder = campaign_dir / FOLDER
        self._artifacts = artifacts
        self._stop = StopFile(campaign_dir)
        self._now = now or (lambda: datetime.now(UTC))

    def decision(self, request: ApprovalRequest) -> Decision | None:
        """A person's answer to an approval, or None; the question lies in the campaign's folder from the first time it is asked.

        Where a person asked to stop, nobody is asked again: what waits undecided is rejected. A measured change is
        asked about once all the same, for it may be worth keeping.

        Raises UserError for an answer that is none, naming the file.
        """
        if not self._place(request.key, DECISION).is_file():
            is_new = not self._place(request.key, REQUEST).is_file()
            self._ask(request)
            if self._stop.stop_requested(request.round) and not (is_new and request.gate == "change"):
                self._decide_by_policy(request, "reject", "the campaign was asked to stop before anybody decided")
            elif is_overdue(request, self._now()):
                choice: Literal["approve", "reject"] = "approve" if request.late == "accept" else "reject"
                self._decide_by_policy(request, choice, f"nobody decided within {request.hours:g} h")
            else:
                return None
        decision = self._read_decision(request.key)
        write_whole(self._place(request.key, TAKEN), b"")
        return decision

    def waiting(self) -> tuple[Waits, ...]:
        """Approvals without an answer, oldest first. Raises UserError for a file that is no question any more."""
        questions = []
        for path in sorted(self.folder.glob(f"*{REQUEST}")):
            request = _read_question(path)
            if not self._place(request.key, DECISION).is_file():
                questions.append(
                    Waits(request=request, page=self.page(request.key), deferred=self._read_deferral(request))
                )
        return tuple(sorted(questions, key=lambda question: question.request.asked_at))

    def find_unused_decision(self) -> OpenDecision | None:
        """The approval decided last, while the campaign has not gone on with it. Raises UserError for an unusable file."""
        requests = [_read_question(path) for path in self.folder.glob(f"*{REQUEST}")]
        newest = max(requests, key=lambda request: request.asked_at, default=None)
        if (
            newest is None
            or not self._place(newest.key, DECISION).is_file()
            or self._place(newest.key, TAKEN).is_file()
        ):
            return None
        return self.decision_of(newest.key)

    def decision_of(self, key: str) -> OpenDecision | None:
        """The decided approval of that key; None where it is open, or none. Raises UserError for an unusable file."""
        if not (self._place(key, REQUEST).is_file() and self._place(key, DECISION).is_file()):
            return None
        request = _read_question(self._place(key, REQUEST))
        return OpenDecision(request=request, decision=self._read_decision(key), late=self._late(key))

    def decide(self, decision: Decision) -> None:
        """Store a person's answer to an approval, once, whoever else answers at the same time.

        Raises UserError where there is no such question, DecidedAlready where it was answered before: then this answer
        is kept beside the one that counts.
        """
        if not self._place(decision.key, REQUEST).is_file():
            raise UserError(f"{self.folder}: has no question {decision.key}; see `ridgeline queue`")
        path = self._place(decision.key, DECISION)
        with lock_file(self.folder / LOCK):
            if not path.is_file():
                write_whole(path, decision.model_dump_json(indent=1).encode() + b"\n")
                return
            earlier = self._read_decision(decision.key)
            late = self._place(decision.key, LATE)
            append_whole(late, decision.model_dump_json().encode() + b"\n")
        raise DecidedAlready(
            f"{decision.key}: was decided already: {describe_decision(earlier)}; a decision is not taken back,"
            f" and your answer ({describe_decision(decision)}) is kept in {late}"
        )

    def defer(self, key: str, deferred: Deferral) -> None:
        """Note in the campaign's folder that somebody wants to decide an approval later."""
        write_whole(self._place(key, DEFERRED), deferred.model_dump_json(indent=1).encode() + b"\n")

    def _ask(self, request: ApprovalRequest) -> None:
        """Write the question of an approval and its page, unless the same question lies there."""
        path = self._place(request.key, REQUEST)
        data = request.model_dump_json(indent=1).encode() + b"\n"
        if path.is_file() and path.read_bytes() == data:
            return
        write_whole(Path(self.page(request.key)), render_request(request, self._diffs(request)).encode())
        write_whole(path, data)

    def _diffs(self, request: ApprovalRequest) -> list[tuple[str, str]]:
        """What was changed, by heading: of every measured change that the approval is about."""
        diffs = [(f"Change of round {option.round}, {name_author(option)}", option.diff) for option in request.options]
        diffs = diffs or [("Change", request.diff)]
        store = self._artifacts
        return [(heading, store.get(diff).decode(errors="replace")) for heading, diff in diffs if diff and store]

    def _decide_by_policy(self, request: ApprovalRequest, choice: Literal["approve", "reject"], reason: str) -> None:
        """The decision of an approval that nobody answered; a person who does so at this very moment comes first."""
        decision = Decision(key=request.key, choice=choice, reason=reason, by=POLICY, at=self._now().isoformat())
        with contextlib.suppress(DecidedAlready):
            self.decide(decision)

    def _read_decision(self, key: str) -> Decision:
        """The stored answer to an approval. Raises UserError, naming file and field, where it is none or for another question."""
        path = self._place(key, DECISION)
        try:
            decision = Decision.model_validate_json(path.read_bytes())
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise UserError(f"{path}: {where}: {problem['msg']}; write it with `ridgeline approve`") from None
        if decision.key != key:
            raise UserError(f"{path}: key: is {decision.key}, the open question is {key}; delete the file")
        return decision

    def _late(self, key: str) -> tuple[Decision, ...]:
        """Answers that came after an approval's decision; empty where their file is absent or unreadable."""
        try:
            lines = self._place(key, LATE).read_bytes().splitlines()
            return tuple(Decision.model_validate_json(line) for line in lines)
        except (FileNotFoundError, ValidationError):
            return ()  # they decide nothing

    def _read_deferral(self, request: ApprovalRequest) -> Deferral | None:
        """The note that somebody decides an approval later; None where there is none."""
        path = self._place(request.key, DEFERRED)
        try:
            return Deferral.model_validate_json(path.read_bytes()) if path.is_file() else None
        except ValidationError:
            return None  # a note, and nothing is decided by it

    def page(self, key: str) -> str:
        """The file for people in which an approval is asked."""
        return str(self.folder / f"{key}.md")

    def _place(self, key: str, kind: str) -> Path:
        """The file of one kind that belongs to an approval, in the campaign's folder."""
        return self.folder / f"{key}{kind}"


def name_author(option: Option) -> str:
    """Who made one of several measured changes of an approval: a person who edited, or the planner."""
    return f"edited by {option.author}" if option.author else "the planner's own"


def describe_decision(decision: Decision) -> str:
    """Who decided which approval, when and why, in a few words."""
    reason = f": {decision.reason}" if decision.reason else ""
    return f"{decision.choice} by {decision.by} at {decision.at}{reason}"


def _read_question(path: Path) -> ApprovalRequest:
    """The question of an approval in its file. Raises UserError where the file holds none."""
    try:
        return ApprovalRequest.model_validate_json(path.read_bytes())
    except ValidationError:
        raise UserError(f"{path}: cannot be read: is no question any more; `ridgeline resume` asks it again") from None


# What a campaign waits for: a decision of a person, an answer to its mailbox, or somebody to go on with it.


def find_open_page(campaign: Path) -> str | None:
    """The page that a waiting campaign wants answered: a question to a person, or one to a model."""
    questions = ApprovalFiles(campaign).waiting()
    return questions[0].page if questions else open_request(campaign)


def question_of(page: str | None) -> str | None:
    """Key of the approval that a page of a waiting campaign asks; None for a question to a model."""
    return Path(page).stem if page and Path(page).parent.name == FOLDER else None


def find_unused_decision(campaign: Path) -> OpenDecision | None:
    """The approval that a campaign has not gone on with; None while a process works on it, and after its end.

    Raises UserError for a file that cannot be read.
    """
    written = folders.read_status(campaign)
    if written.get("status") == "concluded" or (written.get("status") == "running" and folders.is_alive(written)):
        return None
    return ApprovalFiles(campaign).find_unused_decision()


def describe_unused(campaign: str, decided: OpenDecision) -> str:
    """One sentence: who decided which approval, and the command that goes on with it."""
    place = f" of round {decided.request.round}" if decided.request.round else ""
    return (
        f"decided, not resumed: {decided.request.gate}{place}: {describe_decision(decided.decision)};"
        f" go on with `ridgeline resume {campaign}`"
    )


def describe_wait(campaign: str, page: str) -> str:
    """One sentence: whom a campaign waits for, what to read, and the command that answers; `page` as `wanted` gives it."""
    if Path(page).parent.name == FOLDER:
        return f"waits for a person: read {page}, then `ridgeline approve {campaign} --resume`"
    return (
        f"waits for an answer{_read_title(Path(page))}: read {page}, then `ridgeline answer {campaign} FILE --resume`"
    )


def _read_title(page: Path) -> str:
    """What a page of the mailbox asks, as its heading says it: ` (Round 3, repair 1 of 3: its results are wrong)`; empty where none is."""
    try:
        lines = page.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    title = next((line.removeprefix("# ") for line in lines if line.startswith("# Round ")), "")
    return f" ({plain(title, limit=120)})" if title else ""
