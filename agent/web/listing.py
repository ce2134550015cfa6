"""The list of campaigns as it was asked for, sorted and filtered, and what came of the last hours."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, Literal, TypeVar, get_args

from ridgeline.agent.web.catalogue import Row
from ridgeline.graph.reports.result import LONGEST, MERGE, first_screen
from ridgeline.graph.reports.text import clip
from ridgeline.graph.rules.result import Result
from ridgeline.graph.values import Cost, Value

State = Literal["", "asks", "running", "waiting", "decided", "concluded", "stopped", "interrupted"]
Column = Literal["", "name", "begun", "state", "kept", "speedup", "cost"]
STATES: tuple[State, ...] = get_args(State)
DESCENDING: frozenset[Column] = frozenset({"begun", "kept", "speedup", "cost"})
"""Columns whose first order is the greatest first."""
ROWS_A_PAGE = 50
LINES = 8
"""Kept changes, and unsettled matters, that the first screen on a page has room for."""


class ListQuery(Value):
    """What a person wants to see of the list."""

    words: str = ""
    """All of them stand in name, place, kernel or machine."""
    state: State = ""
    sort: Column = ""
    """Empty: who asks a person first, then what runs, then the newest."""
    turned: bool = False
    """The other way round than the column's first order."""
    page: int = 1

    def query(self, **change: object) -> str:
        """The address of the web list with some of it changed, ready for a further parameter: `?q=tile&sort=name&`."""
        from urllib.parse import urlencode

        request = self.model_copy(update=change)
        parameters = {
            "q": request.words,
            "state": request.state,
            "sort": request.sort,
            "turned": "1" if request.turned else "",
        }
        query = urlencode({name: value for name, value in parameters.items() if value})
        return f"/?{query}&" if query else "/?"

    def by(self, column: Column) -> str:
        """The address of the web list sorted by a column, or the other way round where it is sorted by it already."""
        return self.query(sort=column, turned=self.sort == column and not self.turned).rstrip("?&")


class Night(Value):
    """What campaigns did in the last hours."""

    hours: int
    since: datetime
    rows: tuple[Row, ...]
    """Those that need a person first, then the concluded ones, the greatest gain first, then the rest."""
    concluded: int
    need_you: int
    running: int
    kept_changes: int
    rounds: int
    cost: Cost
    """Of these campaigns as a whole, not of these hours."""


def select_rows(rows: Sequence[Row], request: ListQuery) -> list[Row]:
    """The rows of the campaign list that filters and order ask for."""
    words = request.words.lower().split()
    matches = [row for row in rows if _in_state(row, request.state) and all(word in _text(row) for word in words)]
    matches.sort(key=lambda row: row.begun, reverse=True)
    if not request.sort:
        return sorted(matches, key=_urgency)
    return sorted(matches, key=_KEYS[request.sort], reverse=(request.sort in DESCENDING) != request.turned)


def select_night(rows: Sequence[Row], *, hours: int, now: datetime) -> Night:
    """Campaigns of the morning page: those that did something since, or that run or ask now."""
    since = now - timedelta(hours=hours)
    active_rows = [row for row in rows if row.status == "running" or row.waiting or _last_change(row) >= since]
    results = [row.record.result for row in active_rows if row.record and row.record.result]
    return Night(
        hours=hours,
        since=since,
        rows=tuple(sorted(active_rows, key=lambda row: (_after_waking(row), -_speedup(row), row.name))),
        concluded=sum(row.status == "concluded" for row in active_rows),
        need_you=sum(_after_waking(row) == 0 for row in active_rows),
        running=sum(row.status == "running" for row in active_rows),
        kept_changes=sum(len(result.kept) for result in results),
        rounds=sum(result.rounds for result in results),
        cost=sum((result.cost for result in results), Cost()),
    )


def because(stop_reason: str) -> str:
    """For the web list, why a campaign ended, without the numbers that its conditions have in the rules: `8 of 8 rounds`."""
    return clip(re.sub(r"(^|; )T\d+ ", r"\1", stop_reason), 120)


def screen(result: Result, *, headline: str = "") -> list[tuple[str, list[str]]]:
    """For a campaign's web page: (heading, lines) of its report's first screen with long lists cut short.

    `headline`: in the place of its own, as `first_screen` takes it.
    """
    return [
        (heading, lines if heading == MERGE else _shorten(lines))
        for heading, lines in first_screen(result, opening=headline)
        if heading != "Stopped" or result.concluded
    ]


def short_cost(cost: Cost) -> str:
    """A campaign's cost on the web list, `2.3 h, 12,400 tokens, 1.20 USD`; money only where a model was asked."""
    hours = cost.wall_seconds / 3600
    parts = [f"{hours:.1f} h" if hours >= 1 else f"{cost.wall_seconds / 60:.0f} min"]
    if cost.tokens:
        parts += [f"{cost.tokens:,} tokens", "price unknown" if cost.dollars is None else f"{cost.dollars:.2f} USD"]
    return ", ".join(parts)


def _shorten(lines: list[str]) -> list[str]:
    """The newest lines for a web page, each of a length that can be read in passing."""
    more = len(lines) - LINES
    return [clip(line, LONGEST) for line in lines[-LINES:]] + ([f"and {more} before"] if more > 0 else [])


def _in_state(row: Row, state: State) -> bool:
    return not state or (row.waiting > 0 if state == "asks" else row.status == state)


def _text(row: Row) -> str:
    record = row.record
    return " ".join((row.name, row.place, record.op if record else "", record.machine if record else "")).lower()


def _urgency(row: Row) -> int:
    return 0 if row.waiting else {"waiting": 1, "decided": 1, "running": 2}.get(row.status, 3)


def _after_waking(row: Row) -> int:
    """Sort key of the web server's morning page: what is read first."""
    if row.waiting or row.problem or row.status in ("waiting", "decided", "stopped", "interrupted"):
        return 0
    return 1 if row.status == "concluded" else 2


def _last_change(row: Row) -> datetime:
    return row.last_at or datetime.fromtimestamp(0, UTC)


def _speedup(row: Row) -> float:
    claim = row.record.claim if row.record else None
    return claim.speedup if claim else 0.0


def _count_kept(row: Row) -> int:
    result = row.record.result if row.record else None
    return len(result.kept) if result else -1


def _wall_s(row: Row) -> float:
    result = row.record.result if row.record else None
    return result.cost.wall_seconds if result else -1.0


_KEYS: dict[str, Callable[[Row], str | float]] = {
    "name": lambda row: row.name.lower(),
    "begun": lambda row: row.begun,
    "state": lambda row: row.status,
    "kept": _count_kept,
    "speedup": _speedup,
    "cost": _wall_s,
}


# A long list in pages.

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ListPage(Generic[T]):
    """One page of a list."""

    items: Sequence[T]
    page: int
    """The first is 1."""
    pages: int
    """At least 1."""
    total: int
    first_number: int
    """Number of the first item on this page, counted from 1; 0 where there is none."""

    @property
    def last_number(self) -> int:
        """Number of the last item on this page of the web list."""
        return self.first_number + len(self.items) - 1 if self.items else 0

    @staticmethod
    def of(everything: Sequence[T], page: int, size: int) -> "ListPage[T]":
        """A page of the web list; the last one where there are fewer."""
        pages = max(1, -(-len(everything) // size))
        page = min(page, pages)
        items = everything[(page - 1) * size : page * size]
        return ListPage(
            items=items,
            page=page,
            pages=pages,
            total=len(everything),
            first_number=(page - 1) * size + 1 if items else 0,
        )
