"""Find a campaign's directory from what a person typed, and read how it stands, without changing anything."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.agent.errors import UserError
from ridgeline.graph.errors import StateDamaged
from ridgeline.sandbox.store.durable import cache_folder, overwrite
from ridgeline.sandbox.store.json_file import read_json

if TYPE_CHECKING:
    from ridgeline.graph.standing import History

WORKSPACE = Path("agent/workspace")
DEMO = Path("ridgeline-demo")
LEDGER = "ledger.jsonl"
STATUS = "status.json"
REQUEST = "request.json"
BOOT = Path("/proc/sys/kernel/random/boot_id")
BEGAN = 19
"""Place of a process' start in /proc/PID/stat, counted behind its name: ticks since the boot."""
LATEST_S = 32503680000.0
"""The year 3000, in seconds since 1970: no status is written later."""
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
DEEPEST = 8
"""Levels of folders below the one that is searched."""
MOST_FOLDERS = 20_000
"""Folders that one search looks into: about a second on a local disk."""


def find(name: str | None, start: Path | None = None) -> Path:
    """Directory of a campaign: a path, a name below `agent/workspace`, or without either the newest one here.

    Raises `UserError` when there is none.
    """
    here = start or Path.cwd()
    if name is None:
        return _newest(here)
    path = here / name
    if is_campaign(path):
        return path.resolve()
    if path.is_dir() and (inside := [*_below(path)]):
        return max(inside, key=_age).resolve()
    matches = [campaign for campaign in _around(here) if campaign.name == name]
    if matches:
        return max(matches, key=_age).resolve()
    if path.is_dir():
        raise UserError(f"{name}: holds no campaign (no {LEDGER}); give a campaign's directory")
    campaign_names = sorted(campaign.name for campaign in _around(here))
    mend = f"known here: {', '.join(campaign_names)}" if campaign_names else "start one with `ridgeline run`"
    raise UserError(f"{name}: no such campaign; {mend}")


def is_campaign(path: Path) -> bool:
    """Whether a folder is a campaign; it has a request before it has a status, and that before it has a ledger."""
    return any((path / name).is_file() for name in (LEDGER, STATUS, REQUEST))


def read_status(campaign: Path) -> dict[str, Any]:
    """`status.json` of a campaign, without fields that are not what we write; empty where there is none to read."""
    try:
        status = read_json(campaign / STATUS)
    except (FileNotFoundError, StateDamaged):
        return {}
    fields = status.items() if isinstance(status, dict) else ()
    return {name: value for name, value in fields if _is_plausible(name, value)}


def _is_plausible(name: str, value: object) -> bool:
    """Whether Ridgeline could have written that value into `status.json`."""
    if name in ("round", "pid"):
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    if name == "updated":
        return isinstance(value, int | float) and 0 <= value < LATEST_S
    return isinstance(value, str)


def is_alive(status: dict[str, Any]) -> bool:
    """Whether the process that wrote a campaign's status still runs on this machine."""
    pid, written_by = status.get("pid"), status.get("process")
    if not isinstance(pid, int) or pid <= 0:
        return False
    if written_by:
        return name_process(pid) == str(written_by)
    import psutil

    return bool(psutil.pid_exists(pid))


def name_process(pid: int) -> str:
    """What tells a campaign's process from every other that has its number, later or elsewhere: the machine's boot and when it began.

    Empty where there is no such process, or where the system does not say it.
    """
    try:
        boot = BOOT.read_text(encoding="ascii").strip()
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return f"{boot} {fields[BEGAN]}"


def is_at_work(status: dict[str, Any]) -> bool:
    """Whether a process of this machine works on the campaign, by what it wrote."""
    return status.get("status") == "running" and is_alive(status)


def history(campaign: Path) -> "History":
    """The campaign's ledger, folded. Raises `UserError` while it is empty, `LedgerCorrupt` when it is damaged."""
    from ridgeline.graph.rules.history import fold_ledger
    from ridgeline.sandbox.store.ledger import JsonlLedger

    campaign_history = fold_ledger(JsonlLedger(campaign / LEDGER).lines()) if (campaign / LEDGER).is_file() else None
    if campaign_history is None:
        detail = read_status(campaign).get("detail", "")
        at = f" ({detail})" if detail else ""
        raise UserError(f"{campaign}: has no closed event yet{at}; see `ridgeline status {campaign.name}`")
    return campaign_history


def repository(start: Path) -> Path | None:
    """Root of the git repository around a folder."""
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def around(here: Path) -> list[Path]:
    """Campaign folders below, above and beside a folder: itself, those below it, its repository's and its demos'."""
    return [*_around(here)]


def id_of(campaign: Path) -> str:
    """A campaign's name for addresses that is no path and the same after a restart. `campaign`: resolved."""
    return sha256(str(campaign).encode()).hexdigest()[:12]


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether a campaign's file is one, or a link to one; a link to itself is none."""
    try:
        return entry.is_file()
    except OSError:
        return False


def below(folder: Path) -> tuple[list[Path], bool]:
    """Every campaign of a folder and of those below it, and whether all of them were looked into.

    Hidden folders, links and the inside of campaigns are left out.
    """
    campaigns: list[Path] = []
    level, folder_count = [folder], 0
    for _ in range(DEEPEST + 1):
        deeper: list[Path] = []
        for place in level:
            folder_count += 1
            if folder_count > MOST_FOLDERS:
                return campaigns, False
            inside = _entries(place)
            files = {entry.name for entry in inside if _is_file(entry)}
            if LEDGER in files or {STATUS, REQUEST} <= files:  # other programs write a status.json too
                campaigns.append(place)
                continue
            deeper += [
                Path(child.path)
                for child in inside
                if child.is_dir(follow_symlinks=False) and _is_searchable(child.name)
            ]
        level = deeper
    return campaigns, True


def names(incomplete: str) -> list[str]:
    """Names of campaigns that a shell completes where a campaign is asked for."""
    return sorted({campaign.name for campaign in _around(Path.cwd()) if campaign.name.startswith(incomplete)})


def _newest(here: Path) -> Path:
    """The campaign here that was written last. Raises UserError where there is none."""
    campaigns = [*_around(here)]
    if not campaigns:
        raise UserError("CAMPAIGN: none found here; give its directory, or start one with `ridgeline run`")
    return max(campaigns, key=_age).resolve()


def _around(here: Path) -> Iterator[Path]:
    """Campaigns of a folder, of its repository and of its demos, in no order."""
    if is_campaign(here):
        yield here
    root = repository(here)
    for folder in {here, root} - {None}:
        assert folder is not None
        yield from _below(folder)
    for demo in sorted((here / DEMO).glob("*")):
        yield from _below(demo)


def _below(folder: Path) -> Iterator[Path]:
    """Campaigns in a folder's `agent/workspace`."""
    yield from (path for path in sorted((folder / WORKSPACE).glob("*")) if is_campaign(path))


def _is_searchable(name: str) -> bool:
    """Whether a search for campaigns looks into folders of that name."""
    return not name.startswith(".") and name not in SKIPPED


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Entries of a folder that may hold campaigns, sorted by name; none of a folder that may not be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _age(campaign: Path) -> float:
    """When a campaign's ledger, status or request were written last: seconds since 1970."""
    files = (campaign / LEDGER, campaign / STATUS, campaign / REQUEST)
    return max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)


# Where a browser finds a campaign: the pages of a `ridgeline serve` that runs, or of the address that the user gives.

VARIABLE = "RIDGELINE_URL"
"""Address of the server as the user's own browser reaches it, where that is not the one it listens on."""


@contextlib.contextmanager
def announce_server(url: str, folders: Sequence[Path]) -> Iterator[None]:
    """Lets the campaigns of these folders link their pages while it lasts. `url`: without a token."""
    folder = cache_folder("serve")
    place = folder / f"{os.getpid()}.json" if folder else None
    roots = [
        str(root) for directory in folders for root in (directory.resolve(), repository(directory.resolve())) if root
    ]
    with contextlib.suppress(OSError):  # a link less
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            announcement = {"url": url, "folders": roots, "process": name_process(os.getpid())}
            overwrite(place, json.dumps(announcement).encode())
    try:
        yield
    finally:
        if place is not None:
            place.unlink(missing_ok=True)


def link(campaign: Path, *, round: int | None = None, question: str | None = None) -> str | None:
    """Address of a campaign's page, of one of its rounds or of an open question; None where no server shows it."""
    campaign = campaign.resolve()
    base = os.environ.get(VARIABLE, "").strip() or _server(campaign)
    if not base:
        return None
    name = id_of(campaign)
    place = f"queue/{name}/{question}" if question else f"c/{name}" + (f"/r/{round}" if round else "")
    return f"{base.rstrip('/')}/{place}"


def _server(campaign: Path) -> str | None:
    """Address of a running server that shows the campaign; None where there is none."""
    folder = cache_folder("serve")
    for place in sorted(folder.glob("*.json")) if folder else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            announcement = json.loads(place.read_bytes())
            alive = is_alive({"pid": int(place.stem), "process": announcement.get("process")})
            if alive and any(campaign.is_relative_to(root) for root in announcement["folders"]):
                return str(announcement["url"])
    return None
