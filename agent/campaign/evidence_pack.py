"""What a pull request needs to be believed, in one folder: patches, raw samples, report, ledger, checksums."""

from datetime import datetime
from email.utils import format_datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.agent.campaign import folders
from ridgeline.agent.errors import UserError
from ridgeline.graph.errors import ArtifactLost
from ridgeline.graph.values import Artifact, Value
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.store.ledger import JsonlLedger

if TYPE_CHECKING:
    from ridgeline.graph.record import RoundClosed
    from ridgeline.graph.standing import History

SUMS = "SHA256SUMS"
LARGEST_DIFF = 1_000_000
"""Bytes of a change that is read to be shown; a longer one is in the evidence pack alone."""


class Pack(Value):
    """What was written."""

    dir: str
    files: int
    patches: int
    missing: tuple[str, ...]
    """Raw files that the campaign's folder has lost."""


def page(campaign: Path) -> str:
    """The campaign's report as one self-contained HTML page. Raises `UserError` before the first event."""
    from ridgeline.graph.reports.html import report_html

    history = folders.history(campaign)
    head = JsonlLedger(campaign / folders.LEDGER).lines()[-1].sha256
    return report_html(history, diffs=diffs(campaign, history), head=head)


def diffs(campaign: Path, history: "History") -> dict[int, str]:
    """The diff of every closed round that has one and whose diff is still in the campaign's folder."""
    store = ArtifactStore(campaign)
    by_round = {closed.round: change_of(store, closed) for closed in history.rounds}
    return {number: text for number, text in by_round.items() if text}


def change_of(store: ArtifactStore, closed: "RoundClosed") -> str:
    """Unified diff of one round of a campaign; empty where there is none, or none that can be read."""
    from ridgeline.graph.reports.figures import applied_of

    chosen = applied_of(closed.judged)
    return read_for_page(store, chosen.diff) if chosen else ""


def read_for_page(store: ArtifactStore, artifact: Artifact) -> str:
    """Text of a campaign's artifact for a page; says so where it is gone or too large."""
    if artifact.size > LARGEST_DIFF:
        return f"[{artifact.size} bytes: too large to be shown here]"
    try:
        return store.get(artifact).decode(errors="replace")
    except ArtifactLost:
        return "[lost: the campaign's folder does not hold it any more]"


def write_pack(campaign: Path, target: Path) -> Pack:
    """Make the evidence pack's folder. Raises `UserError` where it exists with something in it, or the campaign has no event yet."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"--pack: {target}: is there already; name a new folder")
    history = folders.history(campaign)
    files, missing = _files(campaign, history)
    patches = _patches(ArtifactStore(campaign), history)
    files |= {name: text.encode(errors="surrogateescape") for name, text in patches.items()}
    files["README.md"] = _readme(history, patches=len(patches), missing=missing).encode()
    files[SUMS] = "".join(f"{sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())).encode()
    for name, data in files.items():
        write_whole(target / name, data, synced=False)
    return Pack(dir=str(target), files=len(files), patches=len(patches), missing=missing)


def _files(campaign: Path, history: "History") -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Every file of an evidence pack but patches and checksums, and the names of what is lost."""
    from ridgeline.graph.reports.files import render_all
    from ridgeline.graph.reports.final_report import render_final_report

    files = {
        "ledger.jsonl": (campaign / folders.LEDGER).read_bytes(),
        "report.md": render_final_report(history).encode(),
        "report.html": page(campaign).encode(),
    }
    store, missing = ArtifactStore(campaign), []
    for name, content in render_all(history, worktree="").items():
        if not name.startswith(("rounds/", "final/")):
            continue
        try:
            files[name] = store.get(content) if isinstance(content, Artifact) else content.encode()
        except ArtifactLost:
            missing.append(name)
    return files, tuple(missing)


def _patches(store: ArtifactStore, history: "History") -> dict[str, str]:
    """The campaign's kept changes for `git am`, made of the record alone: the repository may be elsewhere by now."""
    from ridgeline.graph.rules.history import lineage

    rounds = lineage(history)
    return {
        f"patches/{number:04d}-round-{closed.round}.patch": _patch(store, history, closed, of=(number, len(rounds)))
        for number, closed in enumerate(rounds, start=1)
    }


def _patch(store: ArtifactStore, history: "History", closed: "RoundClosed", *, of: tuple[int, int]) -> str:
    """One round's change as a mail for `git am`; `of`: its number and how many there are."""
    from ridgeline.graph.reports.figures import applied_of
    from ridgeline.graph.reports.files import commit_message

    chosen = applied_of(closed.judged)
    assert chosen is not None  # nothing is kept that was not applied
    subject, _, body = commit_message(closed.judged, history, closed.round).partition("\n")
    date = format_datetime(datetime.fromisoformat(closed.closed_at))
    # a line that looks like the end of the message would cut it off there
    safe = "\n".join(
        f" {line}" if line.startswith(("---", "diff ", "Index: ", "From ")) else line
        for line in body.strip().split("\n")
    )
    return (
        f"From {closed.commit or chosen.commit} Mon Sep 17 00:00:00 2001\n"
        "From: Ridgeline <ridgeline@localhost>\n"
        f"Date: {date}\n"
        f"Subject: [PATCH {of[0]}/{of[1]}] {subject}\n"
        "MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n"
        f"{safe}\n---\n\n{store.get(chosen.diff).decode(errors='surrogateescape')}-- \nRidgeline\n"
    )


def _readme(history: "History", *, patches: int, missing: tuple[str, ...]) -> str:
    """The page that explains an evidence pack."""
    from ridgeline.graph.reports.final_report import comparison, headline, reproduce
    from ridgeline.graph.rules.history import best_round
    from ridgeline.prompts.render import render

    opened, best = history.opened, best_round(history)
    return render(
        "pack.v1.md",
        title=f"{opened.target.target_op} ({opened.target.target_backend}, {opened.machine.name})",
        headline=headline(history),
        campaign=opened.target.campaign,
        version=opened.version,
        final=history.concluded is not None,
        patches=patches,
        repository=opened.repository,
        base=opened.base_commit,
        tree=best.tree if best else opened.base_tree,
        commands=reproduce(history),
        comparison=comparison(history),
        missing=missing,
    )
