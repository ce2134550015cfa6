"""The least memory and power that each card of this machine was seen with while idle."""

import json
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ridgeline.sandbox.devices.values import CardSample, Floor
from ridgeline.sandbox.store.durable import write_whole


class Floors:
    """A small file of the user's cache; without a folder they are known to this process only."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / "floors.json" if folder else None
        self._known = self._read()

    def of(self, card: CardSample) -> Floor:
        """What is known of the card."""
        return self._known.get(card.key, Floor())

    def learn(self, card: CardSample) -> None:
        """Take a sample of an idle card. A file that cannot be written is done without."""
        before = self.of(card)
        after = Floor(
            memory_bytes=_least(before.memory_bytes, card.memory_used_bytes),
            power_w=_least(before.power_w, card.power_w),
        )
        if after == before:
            return
        self._known[card.key] = after
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            plain = {key: floor.model_dump() for key, floor in self._known.items()}
            write_whole(self._path, json.dumps(plain).encode(), synced=False)
        except OSError:
            self._path = None

    def _read(self) -> dict[str, Floor]:
        """A file that is not ours any more is begun anew: it can be learned again."""
        try:
            plain = json.loads(self._path.read_text(encoding="utf-8")) if self._path else {}
            return {key: Floor.model_validate(value) for key, value in plain.items()}
        except (OSError, ValueError, AttributeError, ValidationError):
            return {}


Number = TypeVar("Number", int, float)


def _least(one: Number | None, other: Number | None) -> Number | None:
    known = [value for value in (one, other) if value is not None]
    return min(known, default=None)
