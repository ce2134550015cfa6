"""Warm start: the best versions of earlier campaigns, found where campaigns lie, for a campaign that begins.

Nothing that is found is believed. Its code is a candidate's code; its number is told as one of another campaign; a folder
that cannot be read is named and passed over.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from ridgeline.agent.campaign import folders
from ridgeline.agent.errors import UserError
from ridgeline.graph.errors import ArtifactLost, RidgelineError
from ridgeline.graph.evidence import Machine
from ridgeline.graph.record import Champion, RoundClosed
from ridgeline.graph.reports.text import times_at_least
from ridgeline.graph.rules.history import is_overfit, lineage
from ridgeline.graph.rules.result import Claim, claim_speedup, compute_result
from ridgeline.graph.standing import History
from ridgeline.graph.target import Target
from ridgeline.graph.trial import Applied, find_proposal
from ridgeline.graph.trial import find as find_stage
from ridgeline.graph.values import Artifact, FileEdit, Hypothesis, Prediction
from ridgeline.knowledge.definitions import read_definitions
from ridgeline.knowledge.rewrite import code
from ridgeline.knowledge.source import lang_of
from ridgeline.sandbox.store.campaign_folder import ArtifactStore

MOST = 3
"""Champions that one campaign begins with."""
MOST_LOOKED_AT = 200
"""Campaigns whose first line is read, the newest first."""
LARGEST_FILE = 1 << 20
"""Bytes of a file that is taken over."""
LARGEST_LEDGER = 1 << 28
_NAME = re.compile(r"[\w.+-]{1,200}")
_HEADER_END = {"python": re.compile(r"\)[^()]*?:\s*(?:#.*)?$", re.MULTILINE), "c": re.compile(r"\{")}
_WORDS = re.compile(r"\w+|[^\w\s]")


def find_champions(
    target: Target, machine: Machine, *, root: Path, repository: Path, memory: Sequence[Path] = ()
) -> tuple[tuple[Champion, ...], tuple[str, ...]]:
    """For a warm start: champions of earlier campaigns, best proven first, those that can be tried first; a line for each that cannot be
    read.

    `root`: the contract's folder, whose files are the originals. `memory`: folders with more campaigns, at any depth.
    """
    champions: dict[tuple[FileEdit, ...], Champion] = {}
    problems: list[str] = []
    for campaign in _list_campaigns(repository, memory):
        try:
            champion = _read_champion(campaign, target, machine, root)
        except (RidgelineError, OSError, ValueError) as error:  # pydantic's and json's are ValueErrors
            problems.append(f"{campaign.name}: cannot be read for a warm start: {str(error).splitlines()[0]}")
            continue
        if champion is not None:
            before = champions.get(champion.files)
            if before is None or before.lower < champion.lower:
                champions[champion.files] = champion
    ranked = sorted(champions.values(), key=lambda item: (bool(item.mismatch), -item.lower, item.campaign))
    return tuple(ranked[:MOST]), tuple(problems)


def _list_campaigns(repository: Path, memory: Sequence[Path]) -> list[Path]:
    """Folders of earlier campaigns, the newest first, each once."""
    places = [*folders.around(repository), *(campaign for folder in memory for campaign in folders.below(folder)[0])]
    ledgers = {place.resolve(): (place / folders.LEDGER) for place in places}
    times = {place: ledger.stat().st_mtime for place, ledger in ledgers.items() if ledger.is_file()}
    return sorted(times, key=lambda place: (-times[place], str(place)))[:MOST_LOOKED_AT]


def _read_champion(campaign: Path, target: Target, machine: Machine, root: Path) -> Champion | None:
    """What an earlier campaign's record holds of its best version; None where it is about something else, or proved nothing.

    Raises what reading a damaged folder raises.
    """
    ledger = campaign / folders.LEDGER
    if ledger.stat().st_size > LARGEST_LEDGER or not _is_about(ledger, target, machine):
        return None
    history = folders.history(campaign)
    kept, result = lineage(history), compute_result(history)
    claim = claim_speedup(result)
    if history.concluded is None or not kept or not _is_proven(claim):
        return None
    name = history.opened.target.campaign
    if not _NAME.fullmatch(name):
        raise UserError("its ledger gives it a name that no campaign has")
    assert claim is not None
    assert claim.lower is not None
    files = tuple(list_changed(campaign, history))
    originals = _read_originals(root, files)
    edits = tuple(edit for edit in files if originals.get(edit.path) != edit.text)
    if not edits:
        return None  # it is the original here already
    return Champion(
        campaign=name,
        commit=result.best_commit,
        speedup=claim.speedup,
        lower=claim.lower,
        hypothesis=_make_hypothesis(history, claim, target, edits),
        files=edits,
        mismatch=_explain_mismatch(kept, edits, originals),
    )


def _is_about(ledger: Path, target: Target, machine: Machine) -> bool:
    """Whether an earlier campaign was about the same operator, language and machine, by its first line alone."""
    with ledger.open("rb") as lines:
        line = json.loads(lines.readline() or b"{}")
    body = _mapping(line, "body")
    theirs, card = _mapping(body, "target"), _mapping(body, "machine")
    same = "name" if machine.kind == "cpu" else "arch"
    return (
        body.get("kind") == "opened"
        and (theirs.get("target_op"), theirs.get("target_lang")) == (target.target_op, target.target_lang)
        and (card.get("kind"), card.get(same)) == (machine.kind, getattr(machine, same))
    )


def _mapping(document: object, name: str) -> dict[str, object]:
    """A member of an earlier campaign's file, which anybody may have written; empty for anything else than an object."""
    member = document.get(name) if isinstance(document, dict) else None
    return member if isinstance(member, dict) else {}


def _is_proven(claim: Claim | None) -> bool:
    """Whether an earlier campaign's own final test bounds its gain."""
    return (
        claim is not None
        and claim.from_final
        and claim.lower is not None
        and claim.lower > 1
        and math.isfinite(claim.speedup)
    )


def list_changed(campaign: Path, history: History) -> Iterator[FileEdit]:
    """Kernel files that an earlier campaign's champion has otherwise than its original. Raises ArtifactLost, UserError."""
    assert history.baseline is not None
    before = {file.name: file.sha256 for file in history.baseline.snapshot}
    for file in lineage(history)[-1].snapshot:
        if before.get(file.name) != file.sha256:
            if file.size > LARGEST_FILE:
                raise UserError(f"{file.name}: has {file.size} bytes, more than a kernel's source")
            yield FileEdit(path=file.name, text=_read_blob(campaign, file).decode())


def _read_blob(campaign: Path, file: Artifact) -> bytes:
    """A champion's file from its campaign's store, or from an evidence pack. Raises ArtifactLost where neither has it."""
    try:
        return ArtifactStore(campaign).get(file)
    except ArtifactLost:
        name = Path(file.name).name
        pages = (page for page in sorted((campaign / "rounds").rglob(name)) if page.is_file() and not page.is_symlink())
        for page in pages:
            data = page.read_bytes() if page.stat().st_size == file.size else b""
            if sha256(data).hexdigest() == file.sha256:
                return data
        raise


def _read_originals(root: Path, files: Iterable[FileEdit]) -> dict[str, str]:
    """Path -> text of a champion's files that this contract's folder has too; a path that leads out of it is none."""
    originals: dict[str, str] = {}
    for edit in files:
        place = root / edit.path
        if place.is_file() and place.resolve().is_relative_to(root.resolve()):
            originals[edit.path] = place.read_text(encoding="utf-8", errors="replace")
    return originals


def _explain_mismatch(kept: Sequence[RoundClosed], edits: Sequence[FileEdit], originals: Mapping[str, str]) -> str:
    """Why an earlier champion cannot stand in place of the files here: other names, another interface, a gain that needs more."""
    caches = [closed.round for closed in kept if find_proposal(closed.judged).hypothesis.bucket.startswith("W")]
    if caches or any(is_overfit(closed) for closed in kept):
        return f"rests on a weight cache (round {caches[0]})" if caches else "rests on its benchmark's own inputs"
    if not originals:
        return f"no file here is called {', '.join(edit.path for edit in edits)}"
    for edit in edits:
        wanted, present = _headers(edit.path, originals.get(edit.path, "")), _headers(edit.path, edit.text or "")
        if other := sorted(name for name, header in wanted.items() if present.get(name) != header):
            return f"{edit.path}: {other[0]} has another signature there, or is missing"
    return ""


def _headers(path: str, text: str) -> dict[str, tuple[str, ...]]:
    """Name -> words of its head, of every function of a champion that others may call: none that is static or begins with _."""
    headers: dict[str, tuple[str, ...]] = {}
    lang = lang_of(path)
    for item in read_definitions(text, lang) if code(path) else ():
        if item.kind != "function":
            continue
        body = text[item.start : item.end]
        end = _HEADER_END["python" if lang == "python" else "c"].search(body)
        words = tuple(_WORDS.findall(body[: end.start()] if end else body))
        for name in item.names:
            if "static" not in words and not name.startswith("_"):
                headers[name] = words
    return headers


def _make_hypothesis(history: History, claim: Claim, target: Target, edits: Sequence[FileEdit]) -> Hypothesis:
    """An earlier champion as a hypothesis: the sum of its kept rounds, with the prediction of the one that gained most."""
    kept = lineage(history)
    greatest = max(kept, key=lambda closed: closed.judged.verdict.gain or 0.0)
    about = find_proposal(greatest.judged).hypothesis
    name, text = history.opened.target.campaign, "\0".join(f"{edit.path}\0{edit.text}" for edit in edits)
    changes = "; ".join(find_proposal(closed.judged).hypothesis.change for closed in kept)
    applied = find_stage(greatest.judged, Applied)
    return Hypothesis(
        id=f"champion-{name}-{sha256(text.encode()).hexdigest()[:12]}",
        lever="warm-start",
        claim=f"I expect {target.primary_metric} of {target.target_op} to improve because the same code gained"
        f" {claim.speedup:.2f}x (at least {times_at_least(claim.lower, 2)}) in campaign {name}.",
        change=f"the best version of campaign {name}",
        category=about.category,
        bucket=about.bucket,
        evidence=(
            f"campaign {name}, {len(kept)} kept rounds: {changes}"[:2000],
            f"its final test: {claim.speedup:.2f}x, at least {times_at_least(claim.lower, 2)} -> judged again from nothing here",
        ),
        risks="it was found for another original, another day and maybe other shapes",
        verification="the gate: build, test and fresh pairs against the original here",
        prediction=Prediction(
            counter=about.prediction.counter, direction=about.prediction.direction, speedup=claim.speedup
        ),
        high_risk=True,
        sources=(f"{name}:{applied.commit[:12]}",) if applied else (),
    )
