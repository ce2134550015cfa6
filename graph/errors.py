"""Why a campaign cannot go on: states of the world, never verdicts on a candidate."""

import re
from collections.abc import Mapping

MEND = "`ridgeline fsck CAMPAIGN` says what is whole, with --repair it mends what it can"
"""What to do about a campaign's damaged file."""
OPTIONAL_PACKAGES: Mapping[str, str] = {
    "inspect_ai": "inspect-ai>=0.3.285,<0.4",
    "langgraph.checkpoint.postgres": "langgraph-checkpoint-postgres>=3.1,<4",
    "litellm": "litellm>=1.105,<1.106",
    "psycopg": "psycopg[binary]>=3.2",
    "ray": "ray>=2.50",
    "torch": "torch>=2.8",
    "triton": "triton>=3.6",
}
"""Requirement by module, of what is not installed with Ridgeline; the same as the extras of pyproject.toml."""
NO_MODULE = re.compile(r"No module named '(\w+)")


def install_command(*modules: str) -> str:
    """The one command that brings these optional packages, for the shell."""
    return f"pip install {' '.join(repr(OPTIONAL_PACKAGES[module]) for module in modules)}"


def missing_package(text: str) -> str | None:
    """Which optional package a program's last words say is missing, and the command that brings it; None for none."""
    match = NO_MODULE.search(text)
    if match is None or match[1] not in OPTIONAL_PACKAGES:
        return None
    return f"the package {match[1]} is not installed there; {install_command(match[1])}"


class RidgelineError(Exception):
    """Whatever ends a command or a call of `ridgeline`: one line, and the command's exit code."""

    exit_code = 2


class CampaignError(RidgelineError):
    """One line for a person: what is wrong and the mend."""

    exit_code = 2


class NeedsAnswer(CampaignError):
    """DEFINE_TARGET has questions that must not be guessed at."""


class BrokenBaseline(CampaignError):
    """The unmodified kernel does not build, is wrong, or cannot be measured: nothing can be optimized on it."""


# What can be wrong with the world. None of these is ever a verdict about a kernel.


class WorldError(RidgelineError):
    """The surroundings failed: device, disk, tool or repository. The text is one line that names the mend.

    Origin: every adapter in `sandbox`. The command line prints the text and leaves with `exit_code`.
    """

    exit_code = 5


class ProgramMissing(WorldError):
    """A program that a command needs cannot be started. `field` is the contract's field that names it, if one does."""

    def __init__(self, program: str, *, field: str = "", why: str = "not found") -> None:
        self.program = program
        self.field = field
        where = f"{field}: " if field else ""
        if field and "/" in program:
            self.exit_code = 2  # a path of the project: the contract is what can be mended, not the machine
        super().__init__(f"{where}program {program!r} {why}; install it, or correct the command")


class GitFailed(WorldError):
    """A git command that had to work did not."""


class NotAGitRepository(WorldError):
    """The contract's folder is not inside a git repository with a working tree."""

    exit_code = 2


class DirtyTree(WorldError):
    """The repository has changes that are not committed, so a commit would not say what was measured."""

    exit_code = 2


class DetachedHead(WorldError):
    """HEAD is not on a branch, so there is nothing that a campaign's branch could be compared with."""

    exit_code = 2


class BranchTaken(WorldError):
    """The campaign's branch belongs to somebody else, or somebody moved it."""

    exit_code = 2


class NoSuchBase(WorldError):
    """The commit a campaign stands on is in neither the repository nor the campaign's mirror."""


class LedgerCorrupt(WorldError):
    """A ledger line is not what was written. `line` counts from 1."""

    exit_code = 2

    def __init__(self, path: str, *, line: int, why: str) -> None:
        self.line = line
        self.why = why
        super().__init__(f"{path}: line {line}: {why}; restore the file from a copy, or: {MEND}")


class StateDamaged(WorldError):
    """A file of a campaign is not what Ridgeline wrote there. `why`: what is wrong with it, in a few words."""

    exit_code = 2

    def __init__(self, path: object, why: str, *, mend: str = "") -> None:
        self.path = str(path)
        self.why = why
        super().__init__(f"{path}: {why}; {mend or MEND}")


class SchemaMismatch(WorldError):
    """The campaign was written by another version of Ridgeline."""

    exit_code = 2


class DiskFull(WorldError):
    """A file system takes no write: full, over quota, read-only or faulty. What had been written before is intact."""

    exit_code = 2

    def __init__(self, path: str, *, why: str = "no space left on the device", mend: str = "free some") -> None:
        super().__init__(
            f"{path}: {why}; {mend} and start again (a campaign: `ridgeline resume`), nothing closed is lost"
        )


class FilesConflict(WorldError):
    """A path in the campaign's folder cannot be written: it leads elsewhere or something else is in its place."""


class ArtifactLost(WorldError):
    """A stored blob is missing or is no longer what its address says."""

    exit_code = 2


class DeviceLost(WorldError):
    """The device that was being measured on went away."""


class DeviceBusy(WorldError):
    """Another process held the device for the whole of the permitted wait."""

    exit_code = 4


class LeaseUnsafe(WorldError):
    """A lock cannot be taken without writing to what another user chose."""

    exit_code = 2


class StopAsked(DeviceBusy):
    """A campaign that waits for an idle GPU was asked to stop: it cannot close its round without one."""


class TargetRefused(CampaignError):
    """A person does not want this target; nothing has been made yet."""
