"""Check the hardware numbers in a campaign's files against the knowledge base and against what its ledger holds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.agent.campaign import folders as campaigns
from ridgeline.agent.errors import UserError
from ridgeline.sandbox.store.json_file import NotJson, parse_json

if TYPE_CHECKING:
    from ridgeline.graph.record import Spec
    from ridgeline.knowledge.claims import ClaimsChecked
    from ridgeline.knowledge.library import Library
    from ridgeline.knowledge.registered import MeasuredNumber

FILES = ("README.md", "plans/*.md", "memory/*.json", "rounds/*/*.md", "performance.md", "final_report.md")
"""What a person or a planner writes or reads there; logs and profiles hold raw output of tools."""


def numbers(campaign: str, library: "Library") -> "ClaimsChecked":
    """`knowledge check`: the hardware numbers of one campaign, a folder or a name. Raises `UserError` where there are no such files."""
    from ridgeline.knowledge.claims import check_files

    folder = Path(campaign) if Path(campaign).is_dir() else campaigns.find(campaign)
    files = {path.relative_to(folder).as_posix(): _text(path) for glob in FILES for path in sorted(folder.glob(glob))}
    if not files:
        raise UserError(f"{campaign}: holds none of {', '.join(FILES)}; give a campaign's directory")
    return check_files(files, library, tuple(read_measured_specs(folder / campaigns.LEDGER)))


def wikis_of(campaign: str) -> tuple[Path, ...]:
    """Folders of knowledge that the campaign's contract attached.

    Raises `UserError` for one that cannot be read any more, `StateDamaged` for a campaign whose request cannot.
    """
    folder = Path(campaign) if Path(campaign).is_dir() else campaigns.find(campaign)
    if not (folder / campaigns.REQUEST).is_file():
        return ()
    from ridgeline.agent.campaign.state_files import read_manifest

    manifest = read_manifest(folder)
    wikis = roots(manifest.request.contract, Path(manifest.repository) / manifest.contract_dir)
    return require_readable(wikis, f"{folder.name}: knowledge.wiki")


def read_measured_specs(ledger: Path) -> Iterator["MeasuredNumber"]:
    """Hardware numbers that a ledger holds as measured or reported on its machine; none where there is no ledger."""
    from ridgeline.knowledge.registered import MeasuredNumber

    if not ledger.is_file():
        return
    for line in _text(ledger).splitlines():
        for spec in _read_specs(line):
            if spec.value is not None:
                yield MeasuredNumber(metric=spec.metric, value=spec.value, unit=spec.unit)


def _read_specs(line: str) -> Sequence["Spec"]:
    """Hardware numbers in one line of a ledger; none in one that was cut off by a crash, or is damaged."""
    from pydantic import TypeAdapter, ValidationError

    from ridgeline.graph.record import Spec

    try:
        body = parse_json(line.encode())["body"]
        # the baseline's line has the ceilings that were measured a second time, where any were
        entry = body if body.get("kind") == "roofline" else body.get("roofline") or {}
        return TypeAdapter(tuple[Spec, ...]).validate_python(entry.get("specs", ()))
    except (NotJson, ValidationError, KeyError, TypeError, AttributeError):
        return ()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


# Other folders of knowledge, attached by a contract or on the command line: readable, and under the same rules.

if TYPE_CHECKING:
    from ridgeline.graph.contract import Contract

LAYOUT = "ops/, hardware/, backends/ or cards/"
RULES = "`ridgeline knowledge check --wiki {folder}` names every line"


def roots(contract: "Contract", root: Path) -> tuple[Path, ...]:
    """Folders of knowledge that a contract attaches; relative ones are below `root`, the contract's folder."""
    return tuple(root / folder for folder in contract.knowledge.wiki)


def require_readable(folders: Sequence[Path], field: str) -> tuple[Path, ...]:
    """The same folders of knowledge. Raises `UserError` naming `field`, the folder and the mend for one that cannot be read."""
    for folder in folders:
        if why := unreadable(folder):
            raise UserError(f"{field}: {folder}: {why}")
    return tuple(folders)


def unreadable(folder: Path) -> str:
    """Why a folder of `--knowledge` is no readable wiki, and what to do; empty for one that is."""
    from ridgeline.knowledge.library import paths

    if not folder.is_dir():
        return f"no such folder; give one that holds {LAYOUT}"
    try:
        documents = [path.read_bytes() for path in paths(folder)]
    except OSError as error:
        return f"{error.filename}: cannot be read ({error.strerror}); mend it or leave the folder out"
    return "" if documents else f"holds no documents; give a folder that holds {LAYOUT}"


def unsound(folder: Path) -> str:
    """The first rule of the knowledge base that a readable wiki breaks, and how often; empty for none.

    A planner rests its hypotheses on it: a number there needs its source as much as one that ships with Ridgeline.
    """
    from ridgeline.knowledge.check import check
    from ridgeline.knowledge.library import Library

    library = Library((folder,))
    broken = check(library, root=library.roots[-1].name).problems
    if not broken:
        return ""
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"{broken[0]}{more}; {RULES.format(folder=folder)}"
