"""A person's request to stop, left as a file so that it works from any terminal and survives a restart."""

from pathlib import Path

from ridgeline.sandbox.store.durable import write_whole

NAME = "stop.request"


class StopFile:
    """Port `Signals`: the campaign concludes after the round in which the file appears."""

    def __init__(self, campaign_dir: Path) -> None:
        self._path = campaign_dir / NAME

    def stop_requested(self, after_round: int) -> bool:
        """Whether somebody asked to stop by the end of that round."""
        return self._path.exists()


def request_stop(campaign_dir: Path, *, why: str = "") -> Path:
    """Ask a campaign to conclude. Asking twice is asking once. Returns the request's file."""
    path = campaign_dir / NAME
    if not path.exists():
        write_whole(path, f"{why}\n".encode())
    return path


def withdraw_stop(campaign_dir: Path) -> bool:
    """Take a request back; whether there was one."""
    path = campaign_dir / NAME
    found = path.exists()
    path.unlink(missing_ok=True)
    return found
