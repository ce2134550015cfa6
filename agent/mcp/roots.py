"""Which campaigns a client may name: those in folders that were allowed when the server was started, and no others."""

import os
from collections.abc import Sequence
from pathlib import Path

from ridgeline.agent import campaigns
from ridgeline.agent.errors import UserError

LARGEST_TEXT = 4_000_000
"""Bytes of a file that is read for a client."""


class Roots:
    """The allowed folders, with their links followed."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Raises UserError for a folder that is none."""
        for folder in folders:
            if not folder.is_dir():
                raise UserError(f"{folder}: no such folder; give a repository or a folder of campaigns")
        self.folders = tuple(_followed(folder) for folder in folders)

    def all(self) -> list[Path]:
        """Every campaign in them, those that changed last first."""
        near = {_followed(campaign) for folder in self.folders for campaign in campaigns.around(folder)}
        return sorted(filter(self._inside, near), key=_changed, reverse=True)

    def campaign(self, named: str) -> Path:
        """By its folder, absolute or below an allowed one, or its name. Raises UserError, the same for all others."""
        for place in self._places(named, self.folders):
            if campaigns.is_campaign(place):
                return place
        for campaign in self.all():
            if campaign.name == named:
                return campaign
        raise UserError(f"{named}: no campaign in the allowed folders; `status` without a campaign lists them")

    def read(self, named: str, campaign: Path) -> bytes:
        """A file of the campaign or below an allowed folder. Raises UserError where it is not there or too large."""
        for place in self._places(named, (campaign, *self.folders)):
            if place.is_file():
                if place.stat().st_size > LARGEST_TEXT:
                    raise UserError(f"{named}: is larger than {LARGEST_TEXT} bytes")
                return place.read_bytes()
        raise UserError(f"{named}: no such file in the campaign or the allowed folders")

    def _places(self, named: str, folders: Sequence[Path]) -> list[Path]:
        """What a name may mean; an absolute one means itself, wherever it is joined to."""
        return [place for folder in folders if self._inside(place := _followed(folder / named))]

    def _inside(self, place: Path) -> bool:
        return any(place.is_relative_to(folder) for folder in self.folders)


def _followed(path: Path) -> Path:
    return Path(os.path.realpath(path))  # unlike `Path.resolve`, silent about links that lead in a circle


def _changed(campaign: Path) -> float:
    files = (campaign / campaigns.LEDGER, campaign / campaigns.STATUS)
    return max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)
