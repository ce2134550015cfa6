"""The shared memory of a worker whose arrays lie on a card: with room for second copies, and for words."""

import ctypes

from ridgeline.sandbox.judge.arena import PAGE, Arena, Array, bands

WORDS = 1 << 16
"""Bytes for what judge and worker tell each other about one call, beyond a frame."""


class CardArena(Arena):
    """An arena that is copied to and from a card; the worker lays the card's memory out alike."""

    def layout(self) -> dict[str, object]:
        """What the worker must know, more than of an arena alone."""
        by_placement = [list(bands(self.rooms, places)) for places in self.offsets]
        return {
            **super().layout(),
            "spans": [[found[0].offset, found[-1].offset + found[-1].length] for found in by_placement],
            "bands": [[[band.offset, band.length] for band in found] for found in by_placement],
            "seconds": self._seconds,
            "words": self._words,
        }

    def say(self, words: bytes) -> None:
        """Leave words for the worker. Raises ValueError for more than WORDS bytes."""
        if len(words) > WORDS:
            raise ValueError(f"{len(words)} bytes of words where {WORDS} have room")
        ctypes.memmove(self._base + self._words, words.ljust(WORDS, b"\0"), WORDS)

    def said(self) -> bytes:
        """The worker's words in their place. A claim."""
        return ctypes.string_at(self._base + self._words, WORDS).rstrip(b"\0")

    def seconds(self) -> dict[str, Array]:
        """What is judged, as it was after everything on the card had ended."""
        return {room.name: self._seen(room, self._seconds[room.name]).copy() for room in self.rooms if room.judged}

    def _more(self, end: int) -> int:
        cursor, self._seconds = end, dict[str, int]()
        for room in self.rooms:
            if room.judged:
                self._seconds[room.name] = cursor
                cursor = -(-(cursor + room.nbytes) // PAGE) * PAGE
        self._words = cursor
        return cursor + WORDS - end
