"""What a campaign asks people, as files in its folder: readable, answerable anywhere, and still there after a restart.

`approvals/<key>.request.json` is the question, `<key>.md` the same for people, `<key>.decision.json` the answer.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from ridgeline.agent.errors import UserError
from ridgeline.graph.approval import POLICY, ApprovalRequest, Decision
from ridgeline.graph.documents.approval import told
from ridgeline.graph.ports import Artifacts
from ridgeline.graph.values import Value
from ridgeline.sandbox.durable import write_whole

FOLDER = "approvals"
REQUEST, DECISION, DEFERRED = ".request.json", ".decision.json", ".deferred.json"


class Deferred(Value):
    """Somebody looked and wants to decide later: it stays in the queue."""

    reason: str
    by: str
    at: str


class Waits(Value):
    """One open question."""

    request: ApprovalRequest
    page: str
    """The file for people."""
    deferred: Deferred | None = None


def overdue(request: ApprovalRequest, now: datetime) -> bool:
    """Whether nobody decided in time and the campaign's policy does, as soon as it goes on."""
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
        self._now = now or (lambda: datetime.now(UTC))

    def decision(self, request: ApprovalRequest) -> Decision | None:
        """The answer, or None; the question lies in the folder from the first time it is asked.

        Raises UserError for an answer that is none, naming the file.
        """
        path = self._place(request.key, DECISION)
        if not path.is_file():
            self._ask(request)
            return self._late(request)
        try:
            found = Decision.model_validate_json(path.read_bytes())
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise UserError(f"{path}: {where}: {problem['msg']}; write it with `ridgeline approve`") from None
        if found.key != request.key:
            raise UserError(f"{path}: key: is {found.key}, the open question is {request.key}; delete the file")
        return found

    def waiting(self) -> tuple[Waits, ...]:
        """The questions without an answer, oldest first. Raises UserError for a file that is no question any more."""
        found = []
        for path in sorted(self.folder.glob(f"*{REQUEST}")):
            request = _question(path)
            if not self._place(request.key, DECISION).is_file():
                found.append(
                    Waits(request=request, page=str(self._page(request.key)), deferred=self._deferred(request))
                )
        return tuple(sorted(found, key=lambda one: one.request.asked_at))

    def decide(self, decision: Decision) -> None:
        """Store the answer, once. Raises UserError where the question is not open."""
        if not self._place(decision.key, REQUEST).is_file():
            raise UserError(f"{self.folder}: has no question {decision.key}; see `ridgeline queue`")
        path = self._place(decision.key, DECISION)
        if path.is_file():
            raise UserError(f"{path}: is decided already; a decision is not taken back")
        write_whole(path, decision.model_dump_json(indent=1).encode() + b"\n")

    def defer(self, key: str, deferred: Deferred) -> None:
        """Note that somebody wants to decide later."""
        write_whole(self._place(key, DEFERRED), deferred.model_dump_json(indent=1).encode() + b"\n")

    def _ask(self, request: ApprovalRequest) -> None:
        path = self._place(request.key, REQUEST)
        data = request.model_dump_json(indent=1).encode() + b"\n"
        if path.is_file() and path.read_bytes() == data:
            return
        diff = self._artifacts.get(request.diff).decode(errors="replace") if request.diff and self._artifacts else ""
        write_whole(self._page(request.key), told(request, diff).encode())
        write_whole(path, data)

    def _late(self, request: ApprovalRequest) -> Decision | None:
        """What the policy says when nobody decided in time."""
        now = self._now()
        if not overdue(request, now):
            return None
        decision = Decision(
            key=request.key,
            choice="approve" if request.late == "accept" else "reject",
            reason=f"nobody decided within {request.hours:g} h",
            by=POLICY,
            at=now.isoformat(),
        )
        self.decide(decision)
        return decision

    def _deferred(self, request: ApprovalRequest) -> Deferred | None:
        path = self._place(request.key, DEFERRED)
        try:
            return Deferred.model_validate_json(path.read_bytes()) if path.is_file() else None
        except ValidationError:
            return None  # a note, and nothing is decided by it

    def _page(self, key: str) -> Path:
        return self.folder / f"{key}.md"

    def _place(self, key: str, kind: str) -> Path:
        return self.folder / f"{key}{kind}"


def _question(path: Path) -> ApprovalRequest:
    try:
        return ApprovalRequest.model_validate_json(path.read_bytes())
    except ValidationError:
        raise UserError(f"{path}: cannot be read: is no question any more; `ridgeline resume` asks it again") from None
