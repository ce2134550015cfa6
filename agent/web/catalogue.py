"""The campaigns of some folders by an id that is no path, and what is known of each, read when it changed."""

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar

from ridgeline.agent.campaign import folders as campaigns
from ridgeline.agent.campaign.approvals import (
    FOLDER,
    REQUEST,
    OpenDecision,
    Waits,
    describe_decision,
    find_unused_decision,
)
from ridgeline.agent.campaign.decisions import open_questions
from ridgeline.agent.campaign.progress import Status
from ridgeline.agent.campaign.state_files import describe_gap, find_lost_lines, read_shown_end
from ridgeline.agent.campaign.status import state_of
from ridgeline.agent.errors import UserError
from ridgeline.agent.fleet.run import is_fleet
from ridgeline.agent.providers.mailbox import open_request
from ridgeline.graph.errors import WorldError
from ridgeline.graph.record import Body
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.graph.rules.result import Claim, Result, claim_speedup, compute_result
from ridgeline.graph.standing import History
from ridgeline.graph.values import Value
from ridgeline.sandbox.store.ledger import JsonlLedger

RESCAN_S = 2.0
"""How long a list of campaigns is believed."""
SEARCH_S = 30.0
"""Between two searches of the folders below, at least; and at least `REST` times what the last one took."""
REST = 50
KEPT = 6
"""Campaigns whose whole record is held in memory."""
PARTS = 48
"""Parts of pages that are held as they were rendered."""
T = TypeVar("T")
Stamp = tuple[int, int]

CORE = threading.RLock()
"""The core keeps its last answers for one thread: whoever folds or renders holds this."""


class Record(Value):
    """What the ledger of one campaign amounts to; none of it before the first event."""

    name: str
    op: str = ""
    machine: str = ""
    begun: str = ""
    """`YYYY-MM-DD HH:MM`, of the machine that it ran on."""
    closed_at: str = ""
    """ISO-8601 UTC, of the last closed round or the end; empty before."""
    result: Result | None = None
    claim: Claim | None = None
    problem: str = ""
    """Why the ledger cannot be read; empty when it can."""
    gap: str = ""
    """What was rendered from lines that the ledger has no more; empty where nothing was."""


class Row(Value):
    """One line of the list."""

    id: str
    record: Record | None
    """None while it is being read."""
    name: str
    place: str
    """Name of the folder that the campaign belongs to: two campaigns may have one name."""
    status: Status
    phase: str
    round: int
    detail: str
    problem: str
    waiting: int
    """Open questions to a person."""
    begun: str
    """As `Record.begun`."""
    last_at: datetime | None
    """When it last closed something or, before its end, began a phase."""
    decision: str = ""
    """What was decided and not gone on with; empty where nothing was."""
    request: str = ""
    """File of the mailbox that asks for an answer; empty where none does."""


@dataclass(frozen=True)
class CampaignRecord:
    """One campaign as it is now."""

    history: History | None
    bodies: tuple[Body, ...]
    head: str
    """sha256 of the last line."""


class Recent(Generic[T]):
    """The values that were asked for last, each as long as its stamp is the same."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[object, tuple[object, T]] = OrderedDict()

    def get(self, key: object, stamp: object) -> T | None:
        """A page that the server rendered before; None where there is none of that stamp."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry[0] != stamp:
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: object, stamp: object, value: T) -> None:
        """Hold a page that the server rendered in place of an older one, and let go of what was not asked for the longest."""
        with self._lock:
            self._entries[key] = (stamp, value)
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)


class Catalogue:
    """Reads, never writes."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._lock = threading.Lock()
        self._path_by_id: dict[str, Path] = {}
        self._scanned = -RESCAN_S
        self._below: tuple[Path, ...] | None = None
        """What the last search of the folders below came upon; None before the first."""
        self._next_search = 0.0
        self.unsearched: tuple[Path, ...] = ()
        """Folders with more below them than is searched."""
        self._records: dict[str, tuple[Stamp, Record]] = {}
        self._recent_records: Recent[CampaignRecord] = Recent(KEPT)
        self._parts: Recent[object] = Recent(PARTS)
        self._wake = threading.Event()

    @property
    def fleets(self) -> tuple[Path, ...]:
        """Fleets among the folders that the server shows."""
        return tuple(folder for folder in self._folders if is_fleet(folder))

    def find_campaigns(self) -> dict[str, Path]:
        """For the web pages: folder of every campaign by its id."""
        if self._below is None:
            self.search()
        with self._lock:
            if time.monotonic() - self._scanned >= RESCAN_S:
                paths = [path.resolve() for folder in self._folders for path in _of(folder)]
                paths += _beside(self._below or ())
                self._path_by_id = {campaigns.id_of(path): path for path in paths}
                self._scanned = time.monotonic()
            return self._path_by_id

    def search(self) -> None:
        """Look for campaigns to show in the folders below, where a while has passed since the last time."""
        began = time.monotonic()
        if began < self._next_search:
            return
        searches = [(folder, *campaigns.below(folder)) for folder in self._folders]
        ended = time.monotonic()
        with self._lock:
            self._below = tuple(path.resolve() for _, paths, _ in searches for path in paths)
            self.unsearched = tuple(folder for folder, _, complete in searches if not complete)
            self._next_search = ended + max(SEARCH_S, REST * (ended - began))

    def render_once(self, key: object, stamp: object, make: Callable[[], T]) -> T:
        """A page that `make` renders, made once for this stamp."""
        with CORE:
            part = self._parts.get(key, stamp)
            if part is None:
                part = make()
                self._parts.put(key, stamp, part)
            return part  # type: ignore[return-value]  # what was put in under this key

    def stamp(self) -> str:
        """A stamp that changes when the web list of all campaigns has something new to show. Reads no ledger."""
        parts = []
        for name, path in self.find_campaigns().items():
            question_count = sum(1 for _ in (path / FOLDER).glob("*.json")) if (path / FOLDER).is_dir() else 0
            parts.append(
                (
                    name,
                    stamp_of(path),
                    _change_time_ns(path / campaigns.STATUS),
                    question_count,
                    self._current(name, path) is not None,
                )
            )
        return sha256(repr(parts).encode()).hexdigest()[:16]

    def asking(self) -> int:
        """How many open questions of all campaigns on the pages wait for a person."""
        return len(self.questions())

    def folder(self, id: str) -> Path:
        """Folder of the campaign that a page's id names. Raises UserError for an id that names none."""
        path = self.find_campaigns().get(id)
        if path is None:
            raise UserError("there is no such campaign")
        return path

    def rows(self) -> list[Row]:
        """Rows of all campaigns for the web list, in no order; what has not been read yet says so and is read meanwhile."""
        rows = [self._row(name, path, self._current(name, path)) for name, path in self.find_campaigns().items()]
        if any(row.record is None for row in rows):
            self._wake.set()
        return rows

    def row(self, id: str) -> Row:
        """One campaign's row of the web list, read now. Raises UserError for an id that names none."""
        path = self.folder(id)
        return self._row(id, path, self._current(id, path) or self._read_ledger(id, path, hold=True))

    def read_record(self, id: str) -> CampaignRecord:
        """A campaign's record for its web page. Raises UserError for an id that names none, WorldError for a damaged ledger."""
        path = self.folder(id)
        stamp = stamp_of(path)
        current = self._recent_records.get(id, stamp)
        if current is not None:
            return current
        lines = JsonlLedger(path / campaigns.LEDGER).lines()
        record = CampaignRecord(
            fold_ledger(lines), tuple(line.body for line in lines), lines[-1].sha256 if lines else ""
        )
        self._recent_records.put(id, stamp, record)
        return record

    def questions(self) -> list[tuple[str, Waits]]:
        """Every open question for the web queue with its campaign's id, oldest first. What cannot be read is told in the list."""
        questions: list[tuple[str, Waits]] = []
        for name, path in self.find_campaigns().items():
            with contextlib.suppress(UserError, ValueError):
                questions += [(name, question) for question in self.waiting(path)]
        return sorted(questions, key=lambda pair: pair[1].request.asked_at)

    def list_unused_decisions(self) -> list[tuple[str, OpenDecision]]:
        """For the web queue: what was decided and not gone on with, with the id of its campaign, oldest first."""
        decisions: list[tuple[str, OpenDecision]] = []
        for name, path in self.find_campaigns().items():
            with contextlib.suppress(UserError, ValueError):
                if any((path / FOLDER).glob(f"*{REQUEST}")) and (decision := find_unused_decision(path)) is not None:
                    decisions.append((name, decision))
        return sorted(decisions, key=lambda pair: pair[1].decision.at)

    def keep_reading(self, ended: threading.Event) -> None:
        """The server's background thread: read what is new of the campaigns until the end is asked for."""
        while not ended.is_set():
            self.search()
            for name, path in self.find_campaigns().items():
                if ended.is_set():
                    return
                if self._current(name, path) is None:
                    self._read_ledger(name, path)
                    time.sleep(0.005)  # whoever waits for a page goes first
            self._wake.wait(RESCAN_S)
            self._wake.clear()

    def _current(self, id: str, path: Path) -> Record | None:
        """A campaign's record that the server holds, where the ledger has not grown since; None where it must be read."""
        with self._lock:
            entry = self._records.get(id)
        return entry[1] if entry is not None and entry[0] == stamp_of(path) else None

    def _read_ledger(self, id: str, path: Path, *, hold: bool = False) -> Record:
        """Read a campaign's ledger for the server; `hold`: its page is next, so the whole of it is held."""
        stamp, shown_end = stamp_of(path), read_shown_end(path)
        try:
            history = (
                self.read_record(id).history if hold else fold_ledger(JsonlLedger(path / campaigns.LEDGER).lines())
            )
        except (WorldError, ValueError) as error:
            record = Record(name=path.name, problem=str(error))
        else:
            with CORE:
                record = _make_record(path, history, shown_end)
        with self._lock:
            self._records[id] = (stamp, record)
        return record

    def _row(self, id: str, path: Path, record: Record | None) -> Row:
        try:
            written, waiting, unread = campaigns.read_status(path), len(self.waiting(path)), ""
        except UserError as error:
            written, waiting, unread = campaigns.read_status(path), 0, str(error)
        except (ValueError, OSError) as error:  # not UTF-8: what else is there is shown
            written, waiting, unread = {}, 0, f"cannot be read: {str(error).splitlines()[0]}"
        answered, ended = None, bool(record and record.result and record.result.concluded)
        asked = ""
        with contextlib.suppress(
            UserError, ValueError, OSError
        ):  # `ridgeline answer` tells of a request that cannot be read
            asked = "" if ended else open_request(path) or ""
        with contextlib.suppress(UserError, ValueError, OSError):  # told as `unread`
            if not waiting and not ended and any((path / FOLDER).glob(f"*{REQUEST}")):
                answered = find_unused_decision(path)
        # a process that is at work writes lost lines again
        gap = describe_gap(path, record.gap) if record and not campaigns.is_at_work(written) else ""
        problem = (record.problem if record else "") or gap or str(written.get("problem", "")) or unread
        return Row(
            id=id,
            request=asked,
            record=record,
            name=record.name if record else path.name,
            place=_place(path),
            status="decided" if answered else state_of(written, concluded=ended),
            phase=str(written.get("phase", ""))[:80],
            round=_number(written.get("round")),
            detail=str(written.get("detail", ""))[:400],
            problem=problem[:400],
            waiting=waiting,
            begun=record.begun if record else "",
            last_at=_last_at(record, written),
            decision=f"{answered.request.gate}: {describe_decision(answered.decision)}"[:400] if answered else "",
        )

    def waiting(self, path: Path) -> list[Waits]:
        """Open questions of one campaign for its web page. Raises UserError for a file that is none.

        Cheap where nothing was ever asked, which is nearly everywhere.
        """
        if not any((path / FOLDER).glob(f"*{REQUEST}")):
            return []
        return [question for _, question in open_questions([path])]


def _place(path: Path) -> str:
    """Where the web list says a campaign lies: the repository of `<repository>/agent/workspace/<campaign>`; elsewhere the folder around."""
    depth = len(campaigns.WORKSPACE.parts)
    inside = path.parts[-1 - depth : -1] == campaigns.WORKSPACE.parts
    return path.parents[depth if inside else 0].name


def stamp_of(campaign: Path) -> Stamp:
    """Size and time of a campaign's ledger, which only ever grows: by it the server knows a page is current."""
    try:
        file_stat = (campaign / campaigns.LEDGER).stat()
    except FileNotFoundError:
        return (0, 0)
    return (file_stat.st_size, file_stat.st_mtime_ns)


def _change_time_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _beside(paths: Sequence[Path]) -> list[Path]:
    """Campaigns that the server's search found, and those that have begun beside them since."""
    folders = [path for path in paths if campaigns.is_campaign(path)]
    for parent in sorted({path.parent for path in paths if path.parent.parts[-2:] == campaigns.WORKSPACE.parts}):
        folders += [path for path in sorted(parent.glob("*")) if campaigns.is_campaign(path)]
    return folders


def _of(folder: Path) -> list[Path]:
    return [folder] if campaigns.is_campaign(folder) else campaigns.around(folder)


def _make_record(path: Path, history: History | None, shown_end: tuple[int, bool]) -> Record:
    """A campaign's record for its web page. `shown_end`: what was rendered before the ledger was read."""
    if history is None:
        return Record(name=path.name)
    opened, conclusion, result = history.opened, history.concluded, compute_result(history)
    ends = [conclusion.closed_at] if conclusion else [closed.closed_at for closed in history.rounds[-1:]]
    return Record(
        name=opened.target.campaign,
        op=f"{opened.target.target_op} ({opened.target.target_backend})",
        machine=opened.machine.name,
        begun=opened.target.created[:16],
        closed_at=ends[0] if ends else history.baseline.opened_at if history.baseline else "",
        result=result,
        claim=claim_speedup(result),
        gap=find_lost_lines(shown_end, history),
    )


def _last_at(record: Record | None, written: Mapping[str, object]) -> datetime | None:
    ended = bool(record and record.result and record.result.concluded)
    updated = written.get("updated")
    moments = [datetime.fromtimestamp(updated, UTC)] if isinstance(updated, int | float) and not ended else []
    with contextlib.suppress(ValueError):
        moments += [_aware(record.closed_at)] if record and record.closed_at else []
    return max(moments, default=None)


def _aware(moment: str) -> datetime:
    """A time in a status file as an instant with its time zone, for the pages. Raises ValueError for what is none."""
    instant = datetime.fromisoformat(moment)
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _number(value: object) -> int:
    """A whole number out of a status file, for the pages; 0 for what is none."""
    return value if isinstance(value, int) else 0
