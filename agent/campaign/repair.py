"""`fsck --repair`: makes a campaign's damaged files again from its ledger, its tape and its repository."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from ridgeline.agent.campaign import folders
from ridgeline.agent.campaign.checkpoints import FILE as CHECKPOINTS
from ridgeline.agent.campaign.runner import write_ledger_from_tape
from ridgeline.agent.campaign.state_files import (
    BASE,
    FILES,
    FOLDERS,
    MIRROR,
    TAPE,
    Damage,
    Manifest,
    check_blob,
    find_damage,
    find_lost_lines,
    list_artifacts,
    read_history,
    read_shown_end,
    write_manifest,
)
from ridgeline.agent.campaign.tape import find_bad_lines
from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.choice import MAILBOX, RECORDED, Choice
from ridgeline.graph.errors import ArtifactLost, GitFailed, LedgerCorrupt, SchemaMismatch
from ridgeline.graph.loop.context import TREE
from ridgeline.graph.ports import Base
from ridgeline.graph.record import Opened
from ridgeline.graph.reports.files import render_all
from ridgeline.graph.standing import History
from ridgeline.graph.state import Request
from ridgeline.graph.values import Artifact, Value
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.store.campaign_folder import APPEND_ONLY, ArtifactStore, CampaignFiles
from ridgeline.sandbox.store.durable import overwrite, write_whole
from ridgeline.sandbox.store.ledger import cut_torn_line, verify
from ridgeline.sandbox.workspace.git import DIFF_WORDS, Git


class CheckReport(Value):
    """The JSON object of `ridgeline fsck`."""

    campaign: str
    dir: str
    whole: bool
    """Whether nothing is wrong now."""
    ledger_lines: int
    damage: tuple[Damage, ...]
    """What was wrong before anything was mended."""
    repaired: tuple[str, ...] = ()
    """What was done, in order."""
    left: tuple[Damage, ...] = ()
    """What is wrong still, after --repair."""


def examine(campaign: Path) -> tuple[Damage, ...]:
    """What `fsck` finds wrong with a campaign's folder, views such as `status.json` included."""
    damages = find_damage(campaign)
    if any(damage.file in (*FILES, *FOLDERS) and damage.blocks for damage in damages):
        return damages
    history = read_history(campaign)
    stale = _find_stale(campaign, history) if history is not None else ()
    return (
        *damages,
        *(Damage(file=name, problem="is not what the ledger says", mend="", blocks=False) for name in stale),
    )


def repair(campaign: Path, say: Callable[[str], None]) -> tuple[str, ...]:
    """Mends a campaign's folder as far as it can be; what was done, in order, each announced before the next begins.

    Nothing is thrown away: what was damaged lies beside as `NAME.damaged-N`, a torn line as `NAME.torn`.
    Raises DeviceBusy while a process works on the campaign.
    """
    sentences: list[str] = []

    def tell(sentence: str) -> None:
        sentences.append(sentence)
        say(sentence)

    _move_wrong_kinds(campaign, tell)
    with lease("running", wait_s=0, folder=campaign):
        tail_lost = _cut_ledger(campaign, tell)
        history = read_history(campaign)
        if history is not None:
            _write_base(campaign, history.opened, tell)
            _write_request(campaign, history, tell)
        _drop_bad_answers(campaign, tell)
        tail_lost = tail_lost or (history is None and (campaign / TAPE).is_file())
        tail_lost = tail_lost or (history is not None and bool(find_lost_lines(read_shown_end(campaign), history)))
        if any(damage.file == MIRROR and not damage.mend for damage in find_damage(campaign)):
            _set_aside(campaign / MIRROR, tell)
            tell(f"{MIRROR}: the next resume makes it again from your repository")
        if tail_lost or not _is_checkpoint_database(campaign / CHECKPOINTS):
            _set_aside(campaign / CHECKPOINTS, tell)
        if tail_lost and (campaign / BASE).is_file() and (campaign / folders.REQUEST).is_file():
            before = verify(campaign / folders.LEDGER).lines
            stopped = write_ledger_from_tape(campaign)
            written = verify(campaign / folders.LEDGER).lines - before
            tell(
                f"{folders.LEDGER}: {written} lines written again from the tape, which ends at: {stopped or 'the end'}"
            )
        history = read_history(campaign)
        if history is not None:
            _restore_artifacts(campaign, history, tell)
            _render_stale_views(campaign, history, tell)
        if any(damage.file == folders.STATUS for damage in find_damage(campaign)):
            state = "concluded" if history is not None and history.concluded is not None else "stopped"
            overwrite(campaign / folders.STATUS, f'{{"status": "{state}"}}'.encode())
            tell(f"{folders.STATUS}: written again")
    return tuple(sentences)


def _set_aside(path: Path, tell: Callable[[str], None], *, copied: bool = False) -> None:
    """Keep a campaign's damaged file as `NAME.damaged-N`; nothing where nothing lies there."""
    if not path.exists():
        return
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    if copied:
        write_whole(aside, path.read_bytes())
    else:
        path.rename(aside)
    tell(f"{path.name}: what lay there is kept as {aside.name}")


def _move_wrong_kinds(campaign: Path, tell: Callable[[str], None]) -> None:
    """Set aside what in a campaign's folder is a folder in the place of a file, or the other way round."""
    for name in FILES:
        if (campaign / name).is_dir():
            _set_aside(campaign / name, tell)
    for name in FOLDERS:
        if (campaign / name).is_file():
            _set_aside(campaign / name, tell)


def _cut_ledger(campaign: Path, tell: Callable[[str], None]) -> bool:
    """Repair a ledger: keep the lines before the first damaged one; whether lines were given up."""
    ledger = campaign / folders.LEDGER
    if not ledger.is_file():
        return False
    checked = verify(ledger)
    if checked.ok and checked.problem:
        tell(f"{folders.LEDGER}: its torn last line is cut off and kept in {folders.LEDGER}.torn")
        cut_torn_line(ledger)
    line_count = checked.lines
    try:
        read_history(campaign)
    except SchemaMismatch as error:
        raise UserError(str(error)) from error
    except LedgerCorrupt as error:
        line_count = error.line - 1
    else:
        return False
    data = b"".join(ledger.read_bytes().splitlines(keepends=True)[:line_count])
    _set_aside(ledger, tell, copied=True)
    write_whole(ledger, data)
    tell(f"{folders.LEDGER}: {line_count} whole lines are kept")
    return True


def _write_base(campaign: Path, opened: Opened, tell: Callable[[str], None]) -> None:
    """Write `base.json` again, where it is not what the ledger says."""
    if not any(damage.file == BASE for damage in find_damage(campaign)):
        return
    _set_aside(campaign / BASE, tell)
    mirror, begin = Git(git_dir=campaign / MIRROR), opened.upstream_commit
    base = Base(
        commit=begin,
        tree=opened.base_tree if begin == opened.base_commit else mirror.tree(begin),
        branch=opened.branch,
        repository=opened.repository,
        contract_path=opened.contract_path,
    )
    write_whole(campaign / BASE, base.model_dump_json(indent=1).encode())
    tell(f"{BASE}: written again from the ledger")


def _write_request(campaign: Path, history: History, tell: Callable[[str], None]) -> None:
    """Write a campaign's `request.json` again, where it is not what the ledger says. Who thinks is known of planners without a model
    alone.
    """
    if not any(damage.file == folders.REQUEST for damage in find_damage(campaign)):
        return
    opened = history.opened
    model: Choice | None = None
    if opened.planner.startswith("llm:"):
        model = Choice(name=opened.planner.removeprefix("llm:"))
    elif opened.planner == MAILBOX or opened.planner.startswith(RECORDED):
        model = Choice(name=opened.planner)  # recorded answers lie in the campaign's folder, too
    root = folders.repository(campaign) or campaign
    contract = Path(opened.contract_path)
    request = Request(
        contract=opened.contract,
        contract_path=opened.contract_path,
        instruction="",
        overrides=(),
        limits=opened.limits,
        planner=opened.planner,
        created=opened.target.created,
        version=opened.version,
        campaign=opened.target.campaign,
        specs=history.roofline.specs if history.roofline else (),
        counts_work=opened.counts_work,
        steerable=opened.stamps_edits or _was_steered(campaign),
        stamps_edits=opened.stamps_edits,
        drafts_first=opened.drafts_first or opened.limits.candidates < 2,  # one alone has no order to keep
    )
    manifest = Manifest(
        repository=str(root),
        contract_dir=str(contract.parent),
        contract_file=str(root / contract),
        request=request,
        model=model,
    )
    _set_aside(campaign / folders.REQUEST, tell)
    write_manifest(campaign, manifest)
    server = "; a --base-url, fallbacks and a price of the model are lost" if opened.planner.startswith("llm:") else ""
    tell(f"{folders.REQUEST}: written again from the ledger{server}")


def _was_steered(campaign: Path) -> bool:
    """Whether a campaign's tape says what a person changed, or nothing: of campaigns that stamp no edits not all asked."""
    tape = campaign / TAPE
    return tape.is_file() and b'"port":"signals","method":"steering"' in tape.read_bytes()


def _drop_bad_answers(campaign: Path, tell: Callable[[str], None]) -> None:
    """Drop lines of the tape that hold no answer: what they answered is asked again where a round is open."""
    bad = dict(find_bad_lines(campaign / TAPE))
    if not bad:
        return
    _set_aside(campaign / TAPE, tell, copied=True)
    lines = (campaign / TAPE).read_bytes().splitlines(keepends=True)
    torn = len(lines) if 0 in bad else 0
    sound = [line for number, line in enumerate(lines, start=1) if number not in bad and number != torn]
    write_whole(campaign / TAPE, b"".join(sound))
    tell(f"{TAPE}: {len(lines) - len(sound)} of {len(lines)} lines hold no answer and are left out")


def _is_checkpoint_database(path: Path) -> bool:
    """Whether SQLite can read a campaign's checkpoint file; a file that is not there is none yet."""
    if not path.is_file():
        return True
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            connection.execute("PRAGMA quick_check").fetchone()
        finally:
            connection.close()
    except sqlite3.DatabaseError:
        return False
    return True


def _restore_artifacts(campaign: Path, history: History, tell: Callable[[str], None]) -> None:
    """Lost artifacts that the campaign's commits still hold: sources, and the changes between them."""
    damage = {path: blob for path, blob in list_artifacts(history).items() if check_blob(campaign / path, blob)}
    if not damage or not (campaign / MIRROR).is_dir():
        return
    contents: dict[str, bytes] = {}
    for data in _list_git_contents(Git(git_dir=campaign / MIRROR)):
        contents[hashlib.sha256(data).hexdigest()] = data
    for path, blob in damage.items():
        if blob.sha256 in contents:
            _set_aside(campaign / path, lambda sentence: None)
            write_whole(campaign / path, contents[blob.sha256])
            tell(f"{path}: {blob.name} written again from the campaign's commits")


def _list_git_contents(mirror: Git) -> Iterator[bytes]:
    """Every file of the campaign's mirror, and every commit's change; nothing from a mirror that is damaged itself."""
    try:
        rows = mirror.run("cat-file", "--batch-all-objects", "--batch-check").decode().splitlines()
        oids = [row.split()[0] for row in rows if row.split()[1] == "blob"]
        for oid in oids:
            yield from mirror.blobs((oid,))
        commits = {row.split()[0] for row in rows if row.split()[1] == "commit"}
        for commit in commits:
            diff = mirror.attempt("diff", *DIFF_WORDS, f"{commit}^", commit)
            if diff.returncode == 0:
                yield diff.stdout
    except GitFailed:
        return


def _find_stale(campaign: Path, history: History) -> tuple[str, ...]:
    """Rendered files of a campaign that are missing or are not what the ledger says."""
    store = ArtifactStore(campaign)
    return tuple(
        name
        for name, content in render_all(history, worktree=TREE).items()
        if _is_stale(campaign, name, content, store)
    )


def _is_stale(campaign: Path, name: str, content: str | Artifact, store: ArtifactStore) -> bool:
    """Whether a rendered file of a campaign has to be written; a log that has grown beyond what is rendered has not."""
    try:
        data = content.encode() if isinstance(content, str) else store.get(content)
        present = (campaign / name).read_bytes()
    except ArtifactLost:
        return False  # told of as the artifact itself
    except OSError:
        return True
    return not present.startswith(data) if name.startswith(f"{APPEND_ONLY}/") else present != data


def _render_stale_views(campaign: Path, history: History, tell: Callable[[str], None]) -> None:
    """Writes anew every view of the ledger (rounds, logs, report) that does not say what the ledger says."""
    stale = _find_stale(campaign, history)
    documents = render_all(history, worktree=TREE)
    CampaignFiles(campaign, campaign).write({name: documents[name] for name in stale})
    if stale:
        tell(f"{len(stale)} files rendered again from the ledger: {', '.join(stale[:3])}{', ...' if stale[3:] else ''}")


def check(campaign: Path, say: Callable[[str], None], *, mend: bool) -> CheckReport:
    """What `fsck` finds wrong, said first; with `mend` what can be mended is, and what is wrong still comes last."""
    damage = examine(campaign)
    for item in damage:
        say(item.describe(campaign))
    repaired = repair(campaign, say) if mend and damage else ()
    left = examine(campaign) if repaired else damage
    for item in left if repaired else ():
        say(f"left: {item.describe(campaign)}")
    ledger = campaign / folders.LEDGER
    return CheckReport(
        campaign=campaign.name,
        dir=str(campaign),
        whole=not left,
        ledger_lines=verify(ledger).lines if ledger.is_file() else 0,
        damage=damage,
        repaired=repaired,
        left=left if repaired else (),
    )
