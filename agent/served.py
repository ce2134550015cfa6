"""Where a browser finds a campaign: the pages of a `ridgeline serve` that runs, or of the address that the user gives."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ridgeline.agent import campaigns
from ridgeline.sandbox.store.durable import cache_folder, overwrite

VARIABLE = "RIDGELINE_URL"
"""Address of the server as the user's own browser reaches it, where that is not the one it listens on."""


@contextlib.contextmanager
def announced(url: str, folders: Sequence[Path]) -> Iterator[None]:
    """Lets the campaigns of these folders link their pages while it lasts. `url`: without a token."""
    folder = cache_folder("serve")
    place = folder / f"{os.getpid()}.json" if folder else None
    roots = [
        str(root) for given in folders for root in (given.resolve(), campaigns.repository(given.resolve())) if root
    ]
    with contextlib.suppress(OSError):  # a link less
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            overwrite(place, json.dumps({"url": url, "folders": roots}).encode())
    try:
        yield
    finally:
        if place is not None:
            place.unlink(missing_ok=True)


def link(
    campaign: Path,
    *,
    round: int | None = None,
    question: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> str | None:
    """Address of a campaign's page, of one of its rounds or of an open question; None where no server shows it."""
    campaign = campaign.resolve()
    base = environment.get(VARIABLE, "").strip() or _server(campaign)
    if not base:
        return None
    name = campaigns.id_of(campaign)
    place = f"queue/{name}/{question}" if question else f"c/{name}" + (f"/r/{round}" if round else "")
    return f"{base.rstrip('/')}/{place}"


def _server(campaign: Path) -> str | None:
    folder = cache_folder("serve")
    for place in sorted(folder.glob("*.json")) if folder else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(place.read_bytes())
            alive = campaigns.is_alive({"pid": int(place.stem)})
            if alive and any(campaign.is_relative_to(root) for root in found["folders"]):
                return str(found["url"])
    return None
