"""What a page that follows a campaign is told: small, often, and without reading the ledger."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from ridgeline.agent.campaign import folders
from ridgeline.agent.campaign.approvals import DECISION, FOLDER, REQUEST
from ridgeline.agent.campaign.status import state_of
from ridgeline.agent.web.catalogue import stamp_of
from ridgeline.agent.web.resume import size_of
from ridgeline.graph.values import Value

EVERY_S = 1.0
SILENT_S = 15.0
"""A comment is sent after so long without news, so that a connection that is gone is noticed."""
LONGEST_S = 900.0
"""A stream ends by itself; the browser asks for the next one."""
STREAMS = 40
"""Streams at a time."""


class Beat(Value):
    """How a campaign stands, as far as its small files say."""

    status: str
    phase: str
    round: int
    detail: str
    stamp: str
    """Changes when the page has something new to show."""


class All(Value):
    """How all campaigns stand, as far as the list shows it."""

    stamp: str
    """As `Beat.stamp`."""


class Streams:
    """Counts the open streams of one server."""

    def __init__(self) -> None:
        self._open = 0
        self._ended = False

    def end(self) -> None:
        """The web server stops: every live stream ends by itself within a beat."""
        self._ended = True

    @property
    def full(self) -> bool:
        """Whether one more live stream to a browser would be too many."""
        return self._open >= STREAMS

    async def follow(self, look: Callable[[], Value]) -> AsyncIterator[str]:
        """Server-sent events `now` to a browser: what `look` returned, as JSON, where it differs from the one before."""
        self._open += 1
        try:
            previous, sent_at, began = "", time.monotonic(), time.monotonic()
            while not self._ended and time.monotonic() - began < LONGEST_S:
                now = (await asyncio.to_thread(look)).model_dump_json()
                if now != previous:
                    previous, sent_at = now, time.monotonic()
                    yield f"event: now\ndata: {now}\n\n"
                elif time.monotonic() - sent_at > SILENT_S:
                    sent_at = time.monotonic()
                    yield ": still here\n\n"
                await asyncio.sleep(EVERY_S)
        finally:
            self._open -= 1


def beat(campaign: Path) -> Beat:
    """What a live web page is sent, read now."""
    written = folders.read_status(campaign)
    size, changed = stamp_of(campaign)
    question_count = sum(1 for _ in (campaign / FOLDER).glob(f"*{REQUEST}"))
    answered = sum(1 for _ in (campaign / FOLDER).glob(f"*{DECISION}"))
    number = written.get("round")
    return Beat(
        status=state_of(written, concluded=written.get("status") == "concluded"),
        phase=str(written.get("phase", ""))[:80],
        round=number if isinstance(number, int) else 0,
        detail=str(written.get("detail", ""))[:400],
        stamp=f"{size}-{changed}-{question_count}-{answered}-{size_of(campaign)}",
    )
