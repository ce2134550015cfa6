"""What this machine measured of a version against itself, kept for a day so that the next campaign need not wait."""

import hashlib
import json
import logging
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, model_validator

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import DiskFull
from ridgeline.graph.evidence import Comparison
from ridgeline.graph.values import SCHEMA, Value
from ridgeline.sandbox.store.durable import write_whole

logger = logging.getLogger(__name__)

KEPT_S = 24 * 3600
"""Oldest answer in seconds: noise belongs to a day's load, temperature and neighbours, not to a machine for ever."""


class Asked(Value):
    """What makes two calibrations the same question."""

    machine: str
    """Fingerprint; it covers processor, driver and compiler."""
    host: str = Field(default_factory=platform.node)
    """Machines of one model may share a home folder, but not their noise."""
    content: str
    """The contract's folder at the commit, by git's name for it: when and on what it was committed does not matter."""
    commands: tuple[tuple[str, ...], ...]
    """Build and timed command."""
    conditions: tuple[str, ...] = ()
    """Whatever else decides how the command runs: threads, variables that are passed on, sizes."""
    shapes: tuple[str, ...]
    blocks: int
    engine: str

    @property
    def key(self) -> str:
        """sha256 of the question."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class Kept(Value):
    """One file of the cache."""

    schema_version: int
    key: str
    at: float
    """Seconds since the epoch when the last pair had been timed."""
    asked: int
    """Pairs that were asked for."""
    budget_s: float
    comparison: Comparison
    raw: str
    """The raw pairs, JSON: what `comparison.raw` names."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if hashlib.sha256(self.raw.encode()).hexdigest() != self.comparison.raw.sha256:
            raise ValueError("the raw pairs are not those that the comparison was made from")
        return self

    def enough(self, pairs: int, budget_s: float) -> bool:
        """Whether measuring again could not give more: it has as many pairs, or ran out of no smaller a budget."""
        return self.pairs >= pairs or (self.asked >= pairs and self.budget_s >= budget_s)

    @property
    def pairs(self) -> int:
        return min(len(shape.pairs) for shape in self.comparison.shapes)


class Calibrations:
    """A folder of JSON files, one per question. Nothing in it is needed: what cannot be read is measured again."""

    def __init__(self, folder: Path | None, *, now: Callable[[], float] = time.time) -> None:
        """`folder` None keeps nothing. `now`: seconds since the epoch."""
        self._folder = folder
        self._now = now

    def find(self, asked: Asked, *, pairs: int, budget_s: float) -> Kept | None:
        """The answer to that question, not older than a day and with as many pairs as measuring would give."""
        path = self._path(asked)
        if path is None:
            return None
        kept = self._read(path, asked)
        return kept if kept is not None and kept.enough(pairs, budget_s) else None

    def _read(self, path: Path, asked: Asked) -> Kept | None:
        """Whatever answers that question and is not too old."""
        try:
            kept = Kept.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            logger.info("%s: cannot be used, so it is measured again: %s", path, str(error).splitlines()[0])
            return None
        ours = kept.schema_version == SCHEMA and kept.key == asked.key and kept.comparison.machine == asked.machine
        return kept if ours and 0 <= self._now() - kept.at <= KEPT_S else None

    def keep(self, asked: Asked, comparison: Comparison, raw: str, *, pairs: int, budget_s: float) -> None:
        """Remember an answer; files that are too old go. A folder that cannot be written is no error.

        A short answer, such as a canary's, does not take the place of a longer one.
        """
        path = self._path(asked)
        if path is None:
            return
        kept = Kept(
            schema_version=SCHEMA,
            key=asked.key,
            at=self._now(),
            asked=pairs,
            budget_s=budget_s,
            comparison=comparison,
            raw=raw,
        )
        known = self._read(path, asked)
        if known is not None and known.pairs > kept.pairs:
            return
        try:
            self._forget_old(path.parent)
            write_whole(path, kept.model_dump_json().encode())
        except (OSError, DiskFull) as error:
            logger.info("%s: not kept: %s", path, error)

    def ago(self, kept: Kept) -> str:
        """How long ago it was measured, for people."""
        minutes = round((self._now() - kept.at) / 60)
        return f"{minutes} min ago" if minutes < 90 else f"{round(minutes / 60)} h ago"

    def _path(self, asked: Asked) -> Path | None:
        return None if self._folder is None else self._folder / f"{asked.key}.json"

    def _forget_old(self, folder: Path) -> None:
        for old in folder.glob("*.json"):
            if self._now() - old.stat().st_mtime > KEPT_S:
                old.unlink(missing_ok=True)


def conditions(contract: Contract) -> tuple[str, ...]:
    """How the contract has its commands run, as far as it can change their noise."""
    return (str(contract.threads), str(contract.memory_limit_mb), json.dumps(contract.pass_environment))
