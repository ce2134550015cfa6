"""A start that is refused before anything was measured leaves nothing behind: no folder, no branch."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ridgeline.agent.errors import UserError, Waiting
from ridgeline.graph.errors import (
    BranchTaken,
    CampaignError,
    DetachedHead,
    DeviceBusy,
    DirtyTree,
    DiskFull,
    NotAGitRepository,
    ProgramMissing,
)
from ridgeline.graph.record import BaselineClosed, Opened
from ridgeline.sandbox.store.ledger import JsonlLedger
from ridgeline.sandbox.workspace.repository import Repository

REFUSALS = (UserError, CampaignError, NotAGitRepository, DetachedHead, DirtyTree, BranchTaken, ProgramMissing)
"""What a person mends in the contract or the repository; a later start begins from the mended state."""


@contextmanager
def nothing_left(campaign_dir: Path, repository: Path) -> Iterator[None]:
    """Around the whole of a first run: takes back what a refusal leaves, until the baseline is in the ledger.

    Every error goes on to the caller; a disk that is full before anything was recorded becomes a `UserError`.
    """
    made = [folder for folder in (campaign_dir, *campaign_dir.parents) if not folder.exists()]
    try:
        yield
    except Exception as error:
        recorded = (campaign_dir / "ledger.jsonl").exists() or isinstance(error, DeviceBusy | Waiting)  # can be resumed
        if not recorded or (isinstance(error, REFUSALS) and not _measured(campaign_dir)):
            _take_back(campaign_dir, repository, made)
        full = isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno == errno.ENOSPC)
        if full and not recorded:
            raise UserError(
                f"{campaign_dir}: no space left before the campaign began; free some and start it again"
            ) from error
        raise


def _measured(campaign_dir: Path) -> bool:
    return any(isinstance(line.body, BaselineClosed) for line in JsonlLedger(campaign_dir / "ledger.jsonl").lines())


def _take_back(campaign_dir: Path, repository: Path, made: list[Path]) -> None:
    if (campaign_dir / "ledger.jsonl").exists():
        opened = JsonlLedger(campaign_dir / "ledger.jsonl").lines()[0].body
        assert isinstance(opened, Opened)
        # only while it still points where the campaign put it
        Repository(repository).git.attempt("update-ref", "-d", f"refs/heads/{opened.branch}", opened.base_commit)
    for inside in [*campaign_dir.iterdir()] if campaign_dir.is_dir() else []:
        if inside.is_dir() and not inside.is_symlink():
            shutil.rmtree(inside, ignore_errors=True)
        else:
            inside.unlink(missing_ok=True)
    for folder in made:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
