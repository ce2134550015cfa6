"""Blobs of a campaign, stored once under what they contain."""

import hashlib
import os
from pathlib import Path

from ridgeline.graph.errors import ArtifactLost
from ridgeline.graph.values import Artifact
from ridgeline.sandbox.store.durable import Unsynced, write_whole


class ArtifactStore:
    """Port `Artifacts` on a campaign's folder: `<campaign>/artifacts/<first two digits>/<sha256>`."""

    def __init__(self, campaign_dir: Path, *, later: Unsynced | None = None) -> None:
        """`later`: brings new blobs to the disk before a line of the ledger names them; without it each is synced."""
        self._root = campaign_dir / "artifacts"
        self._later = later

    def put(self, name: str, data: bytes) -> Artifact:
        """Store the bytes, once, under a name for people. Raises DiskFull."""
        artifact = Artifact(sha256=hashlib.sha256(data).hexdigest(), name=name, size=len(data))
        path = self.path(artifact)
        if _size(path) != len(data):
            write_whole(path, data, synced=self._later is None)
            if self._later is not None:
                self._later.add(path)
        return artifact

    def get(self, artifact: Artifact) -> bytes:
        """The stored bytes. Raises ArtifactLost when they are gone or are not those that were stored."""
        path = self.path(artifact)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise ArtifactLost(f"{path}: {artifact.name} is missing; restore the campaign's artifacts folder") from None
        if hashlib.sha256(data).hexdigest() != artifact.sha256:
            raise ArtifactLost(f"{path}: {artifact.name} was changed; restore the campaign's artifacts folder")
        return data

    def path(self, artifact: Artifact) -> Path:
        """Where the blob lies."""
        return Path(f"{self._root}/{artifact.sha256[:2]}/{artifact.sha256}")


def _size(path: Path) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116 (asked of every blob, written or not)
    except FileNotFoundError:
        return None
