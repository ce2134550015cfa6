"""What is wrong with a campaign's folder: asked alike by `status`, `report`, `resume` and `fsck`, which so agree."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from ridgeline.agent.campaign import folders
from ridgeline.agent.campaign.tape import find_bad_lines
from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.choice import Choice
from ridgeline.graph.errors import MEND, GitFailed, LedgerCorrupt, NotAGitRepository, SchemaMismatch, StateDamaged
from ridgeline.graph.ports import Base
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.graph.standing import History
from ridgeline.graph.state import Request
from ridgeline.graph.values import SCHEMA, Artifact, Value
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.store.json_file import explain_first, read_json, read_model
from ridgeline.sandbox.store.ledger import JsonlLedger, verify
from ridgeline.sandbox.workspace.git import Git
from ridgeline.sandbox.workspace.repository import Repository

BASE, TAPE, MIRROR = "base.json", "tape.jsonl", "mirror.git"
FILES = (
    folders.LEDGER,
    TAPE,
    "model_tape.jsonl",
    BASE,
    folders.REQUEST,
    folders.STATUS,
    "checkpoints.sqlite",
    "running.lock",
)
FOLDERS = ("artifacts", "trees", "rounds", "logs", "memory", "plans", "final", "approvals", "mailbox", MIRROR)
"""Names in a campaign's folder, and which of them are folders."""


class Manifest(Value):
    """`request.json`: what the campaign was asked for, where it came from, and who thinks."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    repository: str
    """Root of the user's repository, absolute."""
    contract_dir: str
    """The contract's folder inside it."""
    contract_file: str
    recording: str | None = None
    request: Request
    model: Choice | None = None
    """None where a planner that needs no model proposes."""


def read_manifest(campaign: Path) -> Manifest:
    """Raises UserError where there is none, StateDamaged for a damaged one, SchemaMismatch for another version's."""
    path = campaign / folders.REQUEST
    try:
        document = read_json(path)
    except FileNotFoundError:
        raise UserError(f"{path}: not found; give the folder of a campaign; {MEND}") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(schema, int) and schema != SCHEMA:
        raise SchemaMismatch(
            f"{path}: schema: is {schema}, this Ridgeline writes {SCHEMA}; resume with the version it was made with"
        )
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        raise StateDamaged(path, explain_first(error)) from None


def write_manifest(campaign: Path, manifest: Manifest) -> None:
    """Put `request.json` into a campaign's folder. Raises DiskFull."""
    text = json.dumps(manifest.model_dump(mode="json", by_alias=True), indent=1)
    write_whole(campaign / folders.REQUEST, text.encode() + b"\n")


class Damage(Value):
    """One thing in a campaign's folder that is not as Ridgeline left it."""

    file: str
    """Path in the campaign's folder; a branch's name for the branch."""
    problem: str
    """In a few words."""
    mend: str
    """What a person does about it; empty where `fsck --repair` can."""
    blocks: bool = True
    """Whether the campaign cannot go on before it is mended; else the next resume mends it by itself."""

    def describe(self, campaign: Path) -> str:
        """One line, with the command that mends it."""
        mend = self.mend or "`ridgeline fsck CAMPAIGN --repair` mends it"
        return f"{self.file}: {self.problem}; {mend.replace('CAMPAIGN', campaign.name)}"


def require_whole(campaign: Path) -> None:
    """Raises UserError with the first thing that keeps the campaign from going on."""
    for damage in find_damage(campaign):
        if damage.blocks:
            raise UserError(f"{campaign.name}: {damage.describe(campaign)}")


def require_complete(campaign: Path, *, ledger_alone: bool = False) -> None:
    """Raises UserError where a campaign's files are not whole, or the ledger lacks what it had, which the next resume mends.

    `ledger_alone`: for a reader of nothing else.
    A process that is at work writes lines, and writes lost ones again: nothing is lacking then.
    """
    at_work = folders.is_at_work(folders.read_status(campaign))
    for damage in find_damage(campaign):
        if ledger_alone and damage.file != folders.LEDGER:
            continue
        lacks = damage.file == folders.LEDGER and not at_work and not folders.is_at_work(folders.read_status(campaign))
        if damage.blocks or lacks:
            raise UserError(f"{campaign.name}: {damage.describe(campaign)}")


def find_damage(campaign: Path) -> tuple[Damage, ...]:
    """Everything that is wrong, what blocks the campaign first. Reads all of its files, changes none."""
    damages = (*_find_wrong_kinds(campaign),)
    damages = damages or (*_find_contents(campaign),)  # what lies in the place of a file cannot be read as one
    return tuple(sorted(damages, key=lambda damage: not damage.blocks))


def _find_wrong_kinds(campaign: Path) -> Iterator[Damage]:
    """In a campaign's folder: files that are folders, folders that are files."""
    for name in FILES:
        if (campaign / name).is_dir():
            yield Damage(file=name, problem="is a folder, and should be a file", mend="")
    for name in FOLDERS:
        place = campaign / name
        if place.exists() and not place.is_dir():
            yield Damage(file=name, problem="is a file, and should be a folder", mend="")


def _find_contents(campaign: Path) -> Iterator[Damage]:
    """Of files that lie where they should."""
    history: History | None = None
    shown_end = read_shown_end(campaign)
    try:
        history = read_history(campaign)
    except (LedgerCorrupt, SchemaMismatch) as error:
        yield _of_ledger(campaign, error)
    else:
        if history is None and was_opened(campaign):
            state = "is empty" if (campaign / folders.LEDGER).exists() else "is missing"
            yield Damage(file=folders.LEDGER, problem=f"{state}, but events were closed", mend="")
    checked = verify(campaign / folders.LEDGER)
    if checked.ok and checked.problem:
        yield Damage(file=folders.LEDGER, problem="its last line is torn", mend="", blocks=False)
    yield from _find_manifest_damage(campaign, history)
    yield from _find_base(campaign, history)
    yield from _find_tape_damage(campaign)
    yield from _find_status_damage(campaign)
    if history is not None:
        if lost := find_lost_lines(shown_end, history):  # the next resume writes them again from the tape
            yield Damage(file=folders.LEDGER, problem=lost, mend="", blocks=False)
        yield from _find_artifacts(campaign, history)
        yield from _find_mirror(campaign, history)
        yield from _find_branch(campaign, history)


def read_history(campaign: Path) -> History | None:
    """The ledger, folded; None while it has no line. Raises LedgerCorrupt, SchemaMismatch."""
    return fold_ledger(JsonlLedger(campaign / folders.LEDGER).lines())


def read_shown_end(campaign: Path) -> tuple[int, bool]:
    """The newest round that was rendered, and whether the end was: to be asked for before the ledger is read, which is
    written first."""
    numbers = (re.fullmatch(r"round-(\d{1,9})", path.parent.name) for path in campaign.glob("rounds/*/summary.md"))
    newest_round = max((int(number[1]) for number in numbers if number), default=0)
    return newest_round, (campaign / "final_report.md").exists()


def find_lost_lines(shown_end: tuple[int, bool], history: History) -> str:
    """What was rendered from lines that the ledger has no more, as one that was cut at a line; empty where nothing was."""
    last_round = history.rounds[-1].round if history.rounds else 1
    if shown_end[0] > last_round:
        return f"ends with round {last_round}, and round {shown_end[0]} was closed"
    return "has no end, and the campaign was concluded" if shown_end[1] and history.concluded is None else ""


def describe_gap(campaign: Path, lost: str) -> str:
    """The line for what `find_lost_lines` said; empty where it said nothing."""
    mend = f"`ridgeline fsck {campaign.name} --repair` writes them again from the tape"
    return f"{folders.LEDGER}: {lost}; {mend}" if lost else ""


def was_opened(campaign: Path) -> bool:
    """Whether the ledger must have a line: its views are there, or the baseline was tested.

    Not the tests of Stage 1, which writes the first kernel before there is a ledger.
    Not `performance.md`: a campaign that finds no idle device writes its Stop Summary there before the first line.
    """
    if any((campaign / name).exists() for name in ("manifest.yaml", "rounds/round-1", "final_report.md")):
        return True
    try:
        lines = (campaign / TAPE).read_bytes().splitlines()
    except FileNotFoundError:
        return False
    return any(b'"port":"checker"' in line and b"purpose=stage 1" not in line for line in lines)


def _of_ledger(campaign: Path, error: LedgerCorrupt | SchemaMismatch) -> Damage:
    """A ledger that cannot be folded; the lines after the damage are made again from the tape, if that has them."""
    if isinstance(error, SchemaMismatch):
        problem, _, mend = str(error).partition(f"{folders.LEDGER}: ")[2].partition("; ")
        return Damage(file=folders.LEDGER, problem=problem, mend=mend)
    mend = "" if (campaign / TAPE).is_file() else "restore it from a copy: there is no tape to make it again from"
    return Damage(file=folders.LEDGER, problem=f"line {error.line}: {error.why}", mend=mend)


def _find_manifest_damage(campaign: Path, history: History | None) -> Iterator[Damage]:
    """Damage of `request.json`, what the campaign was opened with."""
    mend = "" if history is not None else "restore it from a copy: without a ledger nothing else says it"
    try:
        manifest = read_manifest(campaign)
    except UserError:
        yield Damage(file=folders.REQUEST, problem="is missing", mend=mend)
    except SchemaMismatch as error:
        problem, _, mend = str(error).partition(f"{folders.REQUEST}: ")[2].partition("; ")
        yield Damage(file=folders.REQUEST, problem=problem, mend=mend)
    except StateDamaged as error:
        yield Damage(file=folders.REQUEST, problem=error.why, mend=mend)
    else:
        opened = history.opened if history is not None else None
        request = manifest.request
        if opened is not None and (opened.contract, opened.limits) != (request.contract, request.limits):
            problem = "request: differs from what the ledger says the campaign began with"
            yield Damage(file=folders.REQUEST, problem=problem, mend="")


def _find_base(campaign: Path, history: History | None) -> Iterator[Damage]:
    """`base.json`, which is there once the ledger is; a recording has none."""
    try:
        base = read_model(campaign / BASE, Base)
    except FileNotFoundError:
        if history is not None and not (campaign / "recording.json").exists():
            yield Damage(file=BASE, problem="is missing", mend="")
    except StateDamaged as error:
        mend = "" if history is not None else f"delete it: the campaign has not begun ({error.why})"
        yield Damage(file=BASE, problem=error.why, mend=mend)
    else:
        if history is not None and base.commit != history.opened.upstream_commit:
            yield Damage(file=BASE, problem="commit: is not the one that the ledger begins with", mend="")


def _find_tape_damage(campaign: Path) -> Iterator[Damage]:
    """Damage of `tape.jsonl`, the recorded answers of the ports."""
    for number, why in find_bad_lines(campaign / TAPE):
        if number:
            yield Damage(file=TAPE, problem=f"line {number}: {why}", mend="")
        else:
            yield Damage(file=TAPE, problem=why, mend="", blocks=False)


def _find_status_damage(campaign: Path) -> Iterator[Damage]:
    """Damage of `status.json`, which is a view: the next process writes it anew."""
    try:
        if not isinstance(read_json(campaign / folders.STATUS), dict):
            yield Damage(file=folders.STATUS, problem="is no JSON object", mend="", blocks=False)
    except FileNotFoundError:
        return
    except StateDamaged as error:
        yield Damage(file=folders.STATUS, problem=error.why, mend="", blocks=False)


def list_artifacts(history: History) -> dict[str, Artifact]:
    """Every blob that the ledger names, by its path in the campaign's folder."""
    store = ArtifactStore(Path())
    return {
        str(store.path(blob)): blob for name in type(history).model_fields for blob in _blobs_in(getattr(history, name))
    }


def _blobs_in(value: object) -> Iterator[Artifact]:
    """For the check of a campaign's folder: artifacts anywhere inside a value."""
    if isinstance(value, Artifact):
        yield value
    elif isinstance(value, Value):
        for name in type(value).model_fields:
            yield from _blobs_in(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _blobs_in(item)


def _find_artifacts(campaign: Path, history: History) -> Iterator[Damage]:
    """Blobs that the ledger names and that are gone or are others. Those of a recording may be left out on purpose."""
    if (campaign / "recording.json").exists():
        return
    for path, blob in sorted(list_artifacts(history).items()):
        state = check_blob(campaign / path, blob)
        if state:
            mend = (
                "restore it from a copy, or `ridgeline fsck CAMPAIGN --repair`, which knows sources and changes alone"
            )
            yield Damage(file=path, problem=f"{blob.name} {state}", mend=mend)


def check_blob(path: Path, blob: Artifact) -> Literal["", "is missing", "was changed"]:
    """For the check of a campaign's folder: what is wrong with a stored blob; empty where nothing is."""
    try:
        return "" if hashlib.sha256(path.read_bytes()).hexdigest() == blob.sha256 else "was changed"
    except FileNotFoundError:
        return "is missing"
    except OSError:
        return "was changed"


def _find_mirror(campaign: Path, history: History) -> Iterator[Damage]:
    """The campaign's own repository, where it has lost versions that the campaign stands on. One that is gone altogether, or
    has lost the commit it began with, is made again from the user's by the next resume."""
    if history.concluded is not None or (campaign / "recording.json").exists():
        return
    mirror, root = Git(git_dir=campaign / MIRROR), _repository_of(campaign)
    begin, best = history.opened.upstream_commit, find_best_commit(history)
    lost = [commit for commit in dict.fromkeys((begin, best)) if not mirror.has(commit)]
    user = Repository(root).git if root is not None else None
    lost_too = next((commit for commit in (begin, *lost) if user is None or not user.has(commit)), None)
    if lost and lost_too is not None:
        mend = f"restore it from a copy, or fetch {lost_too[:12]} into your repository, which has it no more"
        yield Damage(file=MIRROR, problem=f"has no commit {lost[0][:12]}", mend=mend)
    elif begin not in lost and lost:
        yield Damage(file=MIRROR, problem=f"has no commit {lost[0][:12]}", mend="")
    elif lost and mirror.git_dir.is_dir():
        mend = "the next resume makes it again from your repository"
        yield Damage(file=MIRROR, problem=f"has no commit {lost[0][:12]}", mend=mend, blocks=False)


def find_best_commit(history: History) -> str:
    """The newest version on the campaign's branch."""
    own_commits = [closed.commit for closed in history.rounds if closed.accepted and closed.commit is not None]
    return own_commits[-1] if own_commits else history.opened.base_commit


def _find_branch(campaign: Path, history: History) -> Iterator[Damage]:
    """The campaign's branch in the user's repository, where a person moved it to a commit of their own."""
    opened = history.opened
    mirror, root = Git(git_dir=campaign / MIRROR), _repository_of(campaign)
    if not opened.contract.git_commit or opened.branch == "none" or root is None or not mirror.git_dir.is_dir():
        return
    try:
        user = Repository(root).git
        if not (user.has(opened.upstream_commit) and mirror.has(opened.upstream_commit)):
            return  # with a broken repository of its own nobody knows what the campaign made
        tip = user.tip(f"refs/heads/{opened.branch}")
    except (NotAGitRepository, GitFailed):
        return
    own_commits = {opened.base_commit, opened.upstream_commit, *(closed.commit for closed in history.rounds)}
    if tip is not None and tip not in own_commits and not mirror.has(tip):
        mend = (
            f"keep those commits with `git branch mine {tip[:12]}`, then"
            f" `git branch -f {opened.branch} {opened.base_commit[:12]}`; resuming brings it to the campaign's own commit"
        )
        yield Damage(file=opened.branch, problem=f"points at {tip[:12]}, which this campaign did not make", mend=mend)


def _repository_of(campaign: Path) -> Path | None:
    """Where the campaign's repository is now; None where it is not here."""
    parents = campaign.resolve().parents
    if len(parents) > 2 and (parents[2] / ".git").exists():
        return parents[2]
    try:
        root = Path(read_manifest(campaign).repository)
    except (UserError, SchemaMismatch, StateDamaged):
        return None
    return root if (root / ".git").exists() else None
