"""The files people read: written from the ledger, never read back, and logs that only ever grow."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from ridgeline.graph.errors import FilesConflict
from ridgeline.graph.ports import Artifacts
from ridgeline.graph.values import Artifact
from ridgeline.sandbox.store.artifacts import ArtifactStore
from ridgeline.sandbox.store.durable import append_whole, locked, write_whole

logger = logging.getLogger(__name__)

APPEND_ONLY = "logs"
"""Folder whose files are never rewritten."""


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
        for name, content in files.items():
            path = self._inside(name, root, inside)
            data = content.encode() if isinstance(content, str) else self._artifacts.get(content)
            present = _present(path)
            if name.startswith(f"{APPEND_ONLY}/"):
                _grow(path, present or b"", data)
            elif present != data:
                write_whole(path, data, synced=False)

    def tips(self, gpu: str, op: str, backend: str) -> str | None:
        """Text of the tips for this operator on this device, or None when there is no such file."""
        path = self.tips_path(gpu, op, backend)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else None

    def add_tip(self, gpu: str, op: str, backend: str, entry: str) -> None:
        """Append an entry once; folders are made on first use. Raises DiskFull."""
        path = self.tips_path(gpu, op, backend)
        text = entry.strip()
        with locked(path.with_name(".lock")):
            known = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            if text not in known:
                gap = "" if not known else "\n" if known.endswith("\n") else "\n\n"
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
        told = f"{path}: is a folder, but a file of that name must be written; move it away"
        raise FilesConflict(told) from error


def _grow(path: Path, present: bytes, data: bytes) -> None:
    """Append what is new. A log that somebody edited is moved aside whole, so that nothing is lost."""
    if present.startswith(data):  # the same again, or an earlier state told again after a crash
        return
    if data.startswith(present):
        append_whole(path, data[len(present) :], synced=False)
        return
    number = 1
    while (aside := path.with_name(f"{path.name}.edited-{number}")).exists():
        number += 1
    logger.warning("%s: was edited; the edited file is kept as %s", path, aside.name)
    path.rename(aside)
    write_whole(path, data)


def _plain(part: str) -> str:
    """A device or operator name as one folder name."""
    return re.sub(r"[^A-Za-z0-9_+.-]+", "-", part).strip("-.") or "unknown"
