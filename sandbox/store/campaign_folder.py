"""Files of a campaign's folder: artifacts, rendered files and tips, the work clock, a person's wishes, stops, records."""

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ridgeline.graph.approval import Steering
from ridgeline.graph.errors import ArtifactLost, FilesConflict
from ridgeline.graph.ports import Artifacts
from ridgeline.graph.values import Artifact
from ridgeline.sandbox.store.durable import UnsyncedFiles, append_whole, lock_file, overwrite, write_whole
from ridgeline.sandbox.store.json_file import NotJson, parse_json


class ArtifactStore:
    """Port `Artifacts` on a campaign's folder: `<campaign>/artifacts/<first two digits>/<sha256>`."""

    def __init__(self, campaign_dir: Path, *, later: UnsyncedFiles | None = None) -> None:
        """`later`: brings new blobs to the disk before a line of the ledger names them; without it each is synced."""
        self._root = campaign_dir / "artifacts"
        self._later = later

    def put(self, name: str, data: bytes) -> Artifact:
        """Store an artifact's bytes, once, under a name for people. Raises DiskFull."""
        artifact = Artifact(sha256=hashlib.sha256(data).hexdigest(), name=name, size=len(data))
        path = self.path(artifact)
        if _size(path) != len(data):
            write_whole(path, data, synced=self._later is None)
            if self._later is not None:
                self._later.add(path)
        return artifact

    def get(self, artifact: Artifact) -> bytes:
        """The stored artifact's bytes. Raises ArtifactLost when they are gone or are not those that were stored."""
        path = self.path(artifact)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise ArtifactLost(f"{path}: {artifact.name} is missing; restore the campaign's artifacts folder") from None
        if hashlib.sha256(data).hexdigest() != artifact.sha256:
            raise ArtifactLost(f"{path}: {artifact.name} was changed; restore the campaign's artifacts folder")
        return data

    def path(self, artifact: Artifact) -> Path:
        """Where an artifact lies in the campaign's folder."""
        return Path(f"{self._root}/{artifact.sha256[:2]}/{artifact.sha256}")


def _size(path: Path) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116 (asked of every blob, written or not)
    except FileNotFoundError:
        return None


# The files people read: written from the ledger, never read back, and logs that only ever grow.

logger = logging.getLogger(__name__)

APPEND_ONLY = "logs"
"""Folder whose files are never rewritten."""
FOLDERS = (APPEND_ONLY, "rounds", "profiles", "memory", "plans")
"""Of every campaign, from the beginning."""


def make_folders(campaign_dir: Path) -> None:
    """The folders of the documents' tree, empty until something is written."""
    for name in FOLDERS:
        (campaign_dir / name).mkdir(parents=True, exist_ok=True)


class CampaignFiles:
    """Port `Files` on a campaign's folder; tips lie outside it and outlive it."""

    def __init__(self, campaign_dir: Path, tips_root: Path, *, artifacts: Artifacts | None = None) -> None:
        self._dir = campaign_dir
        self._tips_root = tips_root
        self._artifacts = artifacts or ArtifactStore(campaign_dir)

    def write(self, files: Mapping[str, str | Artifact]) -> None:
        """Write each file whole and atomically, leaving alone those that are right; append to those in `logs/`.

        Not synced: what a power failure takes is rendered again from the ledger when the campaign is resumed.

        Raises:
            FilesConflict: a path leads out of the campaign's folder, or something else lies there.
            DiskFull: no space; files written before it stand.
            ArtifactLost: an artifact is not in the store.
        """
        root = self._dir.resolve()
        inside: set[str] = set()
        wishes = Wishes(self._dir)
        for name, content in files.items():
            path = self._inside(name, root, inside)
            if isinstance(content, str):
                content = wishes.overlay(name, content)
            data = content.encode() if isinstance(content, str) else self._artifacts.get(content)
            present = _present(path)
            if name == README and present != data:
                self._render_readme(wishes, path, present, str(content))
            if name.startswith(f"{APPEND_ONLY}/"):
                _grow(path, present or b"", data)
            elif present != data:
                write_whole(path, data, synced=False)

    def _render_readme(self, wishes: "Wishes", path: Path, present: bytes | None, text: str) -> None:
        """Before the README is written: what a person changed in its stop conditions is heard, and their file kept."""
        if present is not None and wishes.take_up_readme():
            aside = _name_aside(path)
            logger.warning(
                "%s: its stop conditions were edited: they are followed from the next round on; your file is %s",
                path,
                aside.name,
            )
            write_whole(aside, present)
        wishes.note_rendered(text)

    def tips(self, gpu: str, op: str, backend: str) -> str | None:
        """Text of the tips for this operator on this device, or None when there is no such file."""
        path = self.tips_path(gpu, op, backend)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else None

    def add_tip(self, gpu: str, op: str, backend: str, entry: str) -> None:
        """Append a stored tip once; folders are made on first use. Raises DiskFull."""
        path = self.tips_path(gpu, op, backend)
        text = entry.strip()
        with lock_file(path.with_name(".lock")):
            present = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            if text not in present:
                gap = "" if not present else "\n" if present.endswith("\n") else "\n\n"
                append_whole(path, f"{gap}{text}\n".encode())

    def tips_path(self, gpu: str, op: str, backend: str) -> Path:
        """Where the tips lie: `<root>/<gpu>/<op>/<backend in lower case>/tips.md`."""
        return self._tips_root.joinpath(_plain(gpu), _plain(op), _plain(backend.lower()), "tips.md")

    def _inside(self, name: str, root: Path, inside: set[str]) -> Path:
        """`root`: the campaign's folder with its links followed. `inside`: folders that were found to lie in it."""
        parts = name.split("/")
        if not name or ".." in parts or name.startswith("/"):
            raise FilesConflict(f"{name!r}: leads out of the campaign's folder {self._dir}")
        folder = name.rpartition("/")[0]
        if folder not in inside and not self._dir.joinpath(folder).resolve().is_relative_to(root):
            raise FilesConflict(f"{name!r}: leads out of the campaign's folder {self._dir}")
        inside.add(folder)
        return self._dir.joinpath(name)


def _present(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        problem = f"{path}: is a folder, but a file of that name must be written; move it away"
        raise FilesConflict(problem) from error


def _grow(path: Path, present: bytes, data: bytes) -> None:
    """Append to a campaign's log what is new. One that somebody edited is moved aside whole, so that nothing is lost."""
    if present.startswith(data):  # the same again, or an earlier state told again after a crash
        return
    if data.startswith(present):
        append_whole(path, data[len(present) :], synced=False)
        return
    aside = _name_aside(path)
    logger.warning("%s: was edited; the edited file is kept as %s", path, aside.name)
    path.rename(aside)
    write_whole(path, data)


def _name_aside(path: Path) -> Path:
    """A free name beside a stored file for what a person made of it."""
    number = 1
    while (aside := path.with_name(f"{path.name}.edited-{number}")).exists():
        number += 1
    return aside


def _plain(part: str) -> str:
    """A device or operator name as one name of a stored folder."""
    return re.sub(r"[^A-Za-z0-9_+.-]+", "-", part).strip("-.") or "unknown"


# How long processes have run a campaign, all of its sessions added.

SESSIONS = "sessions.json"


class WorkClock:
    """Port `Clock`: UTC instants, and the seconds that the campaign was worked on."""

    def __init__(self, campaign_dir: Path) -> None:
        self._path = campaign_dir / SESSIONS

    def now(self, moment: str) -> str:
        """The present instant, ISO-8601 with milliseconds; `moment` is its name on a tape."""
        return datetime.now(UTC).isoformat(timespec="milliseconds")

    def worked_s(self, moment: str) -> float:
        """Seconds of all of a campaign's sessions until now, by the clock's stored file."""
        before_s, began, _ = self._read_times()
        return round(before_s + max(0.0, time.time() - began), 3)

    def seen_s(self) -> float:
        """Seconds of all of a campaign's sessions, the last one until it was last seen; 0 where none was ever stored."""
        before_s, began, last_seen = self._read_times()
        return round(before_s + max(0.0, last_seen - began), 3)

    def begin(self, began: float) -> None:
        """Store that a session of the campaign began then, in seconds since 1970; the one before it lasted until it was last seen."""
        before_s, earlier, last_seen = self._read_times()
        self._write(before_s + max(0.0, last_seen - earlier), began)

    def touch(self) -> None:
        """Store that the campaign's session goes on."""
        before_s, began, _ = self._read_times()
        self._write(before_s, began)

    def _read_times(self) -> tuple[float, float, float]:
        """From the clock's stored file: seconds of closed sessions, when the open one began and when it was last seen."""
        try:
            before_s, began, last_seen = (float(number) for number in json.loads(self._path.read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):  # not begun, or not what we wrote
            return 0.0, time.time(), time.time()
        return before_s, began, last_seen

    def _write(self, before_s: float, began: float) -> None:
        overwrite(self._path, json.dumps([before_s, began, max(began, time.time())]).encode())


# What a person changes of a running campaign: memory that is masked, stop conditions that are edited in its README.

WISHES = "steering.json"
README = "README.md"
_MEMORY = re.compile(r"memory/v(\d+)\.json")
_CONDITIONS = re.compile(r"^## Stop Conditions\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class Wishes:
    """`steering.json`: masks by version, the edited lines of the README, the lines that were rendered last, and the
    plans of the deep rounds that were asked for."""

    def __init__(self, campaign_dir: Path) -> None:
        self._dir = campaign_dir

    def read(self) -> Steering:
        """All stored wishes of a person, with edits of the README that nobody has taken up yet."""
        self.take_up_readme()
        wishes = self._load()
        masks = {int(version): masked for version, masked in wishes["masks"].items()}
        return Steering(
            masked=tuple(sorted(version for version, masked in masks.items() if masked)),
            unmasked=tuple(sorted(version for version, masked in masks.items() if not masked)),
            stops=tuple(wishes["stops"].values()),
            deep=tuple(wishes["deep"]),
        )

    def ask_deep(self, plan: str) -> int:
        """Store one more wish for a deep round; how many were asked for by now."""
        wishes = self._load()
        self._store({**wishes, "deep": [*wishes["deep"], plan]})
        return len(wishes["deep"]) + 1

    def mark(self, version: int, *, masked: bool) -> None:
        """Store a person's wish to mask a version of the memory, or to keep it from being masked."""
        wishes = self._load()
        self._store({**wishes, "masks": {**wishes["masks"], str(version): masked}})

    def take_up_readme(self) -> bool:
        """Store the README's stop conditions that differ from those rendered last; whether it was edited there."""
        present = _present(self._dir / README)
        wishes = self._load()
        if present is None or not wishes["rendered"]:
            return False
        edited = [line for line in _conditions(present.decode(errors="replace")) if line not in wishes["rendered"]]
        if edited:
            shown = {_condition_name(line) for line in edited}
            rendered = [line for line in wishes["rendered"] if _condition_name(line) not in shown]
            stops = {**wishes["stops"], **{_condition_name(line): line for line in edited}}
            self._store({**wishes, "stops": stops, "rendered": [*rendered, *edited]})
        return bool(edited)

    def note_rendered(self, readme: str) -> None:
        """Store these stop conditions as the campaign's own words."""
        wishes, lines = self._load(), _conditions(readme)
        if lines != wishes["rendered"]:
            self._store({**wishes, "rendered": lines})

    def overlay(self, name: str, text: str) -> str:
        """A memory file as the person wants it masked, also before the ledger has heard of it."""
        match = _MEMORY.fullmatch(name)
        masked = self._load()["masks"].get(match[1]) if match else None
        if masked is None:
            return text
        return re.sub(r'"masked": (?:true|false)', f'"masked": {json.dumps(masked)}', text, count=1)

    def _load(self) -> dict[str, Any]:
        """`masks`, `stops`, `rendered` and `deep`; empty where there are none yet, or the file is not one of ours."""
        wishes: dict[str, Any] = {"masks": {}, "stops": {}, "rendered": [], "deep": []}
        try:
            written = parse_json((self._dir / WISHES).read_bytes())
        except (OSError, NotJson):
            written = None
        known = written if isinstance(written, dict) else {}
        return {name: known[name] if _is_wish(name, known.get(name)) else none for name, none in wishes.items()}

    def _store(self, wishes: Mapping[str, object]) -> None:
        write_whole(self._dir / WISHES, json.dumps(wishes, indent=1).encode() + b"\n")


def _is_wish(name: str, value: object) -> bool:
    """Whether Ridgeline could have written that value into `steering.json`."""
    if name in ("rendered", "deep"):
        return isinstance(value, list) and all(isinstance(line, str) for line in value)
    kind, form = (bool, r"\d{1,9}") if name == "masks" else (str, r".*")
    return isinstance(value, dict) and all(
        isinstance(entry, kind) and re.fullmatch(form, key, re.DOTALL) for key, entry in value.items()
    )


def _conditions(readme: str) -> list[str]:
    """The lines of the README's stop conditions, without their bullets."""
    section = _CONDITIONS.search(readme)
    lines = section[1].splitlines() if section else []
    return [line.strip().removeprefix("-").strip() for line in lines if line.strip()]


def _condition_name(line: str) -> str:
    """What a line of the README's stop conditions is about: T1 to T8, or the words before its number."""
    return line[:2] if re.match(r"T[1-8]\b", line) else re.split(r":|>=", line)[0].strip()


# A person's request to stop, left as a file so that it works from any terminal and survives a restart.

NAME = "stop.request"


class StopFile:
    """Port `Signals`: the campaign ends its open round when the file appears, and concludes."""

    def __init__(self, campaign_dir: Path) -> None:
        self._path = campaign_dir / NAME
        self._wishes = Wishes(campaign_dir)

    def steering(self, after_round: int, later_events: int = 0) -> Steering:
        """What a person changed in the stored files of memory and README until now."""
        return self._wishes.read()

    def stop_requested(self, after_round: int, later_events: int = 0) -> bool:
        """Whether somebody asked by the stored file to stop by the end of that round."""
        return self._path.exists()

    @property
    def requests(self) -> int:
        """How often somebody asked by the stored file to stop: the second time ends the final validation too."""
        try:
            return self._path.read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0


def request_stop(campaign_dir: Path, *, why: str = "") -> Path:
    """Ask a campaign to conclude. Returns the request's file, which has a line for each time."""
    path = campaign_dir / NAME
    before = path.read_bytes() if path.exists() else b""
    write_whole(path, before + f"{why}\n".encode())
    return path


# The files that a campaign goes on from: what a command changed in them is put back, and held against the command.

RECORD = ("ledger.jsonl", "tape.jsonl", "model_tape.jsonl", "request.json", "base.json")
"""Nothing of ours writes these while a command of a contract runs."""


class RecordFiles:
    """The record of a campaign around the commands that it runs, for machines on which these can reach it."""

    def __init__(self, campaign_dir: Path) -> None:
        self._paths = tuple(campaign_dir / name for name in RECORD)
        self._records: dict[Path, tuple[tuple[int, ...], bytes] | None] = {}

    def remember(self) -> None:
        """In the store of a campaign: takes what stands in the files of record now as the truth."""
        for path in self._paths:
            record, signs = self._records.get(path), _record_signs(path)
            if signs is None:
                self._records[path] = None
            elif record is None or record[0] != signs:
                self._records[path] = signs, path.read_bytes()

    def restore(self) -> tuple[str, ...]:
        """Put back stored files of record that are not as remembered; their names. Raises DiskFull."""
        changed: list[str] = []
        for path, record in self._records.items():
            if (None if record is None else record[0]) == (signs := _record_signs(path)):
                continue
            if record is None:
                path.unlink()
            elif signs is not None and path.read_bytes() == record[1]:
                continue
            else:
                write_whole(path, record[1])
            changed.append(path.name)
        return tuple(changed)


def _record_signs(path: Path) -> tuple[int, ...] | None:
    """Kind, inode, size and change time in ns of a record in the campaign's folder; None without a file."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_mode, status.st_ino, status.st_size, status.st_ctime_ns
