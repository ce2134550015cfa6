"""Other folders of knowledge, attached by a contract or on the command line: readable, and under the same rules."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.graph.contract import Contract

LAYOUT = "ops/, hardware/, backends/ or cards/"
RULES = "`ridgeline knowledge check --wiki {folder}` names every line"


def roots(contract: "Contract", root: Path) -> tuple[Path, ...]:
    """Folders that a contract attaches; relative ones are below `root`, the contract's folder."""
    return tuple(root / folder for folder in contract.knowledge.wiki)


def attached(folders: Sequence[Path], field: str) -> tuple[Path, ...]:
    """The same folders. Raises `UserError` naming `field`, the folder and the mend for one that cannot be read."""
    for folder in folders:
        if why := unreadable(folder):
            raise UserError(f"{field}: {folder}: {why}")
    return tuple(folders)


def unreadable(folder: Path) -> str:
    """Why a folder is no readable wiki, and what to do; empty for one that is."""
    from ridgeline.knowledge.library import paths

    if not folder.is_dir():
        return f"no such folder; give one that holds {LAYOUT}"
    try:
        found = [path.read_bytes() for path in paths(folder)]
    except OSError as error:
        return f"{error.filename}: cannot be read ({error.strerror}); mend it or leave the folder out"
    return "" if found else f"holds no documents; give a folder that holds {LAYOUT}"


def unsound(folder: Path) -> str:
    """The first rule of the knowledge base that a readable wiki breaks, and how often; empty for none.

    A planner rests its hypotheses on it: a number there needs its source as much as one that ships with Ridgeline.
    """
    from ridgeline.knowledge.check import check
    from ridgeline.knowledge.library import Library

    library = Library((folder,))
    name = library.roots[-1].name
    broken = [problem for problem in check(library).problems if problem.path.startswith(f"{name}/")]
    if not broken:
        return ""
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"{broken[0]}{more}; {RULES.format(folder=folder)}"
