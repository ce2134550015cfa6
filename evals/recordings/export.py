"""Makes a recording of a campaign: played once to hear every answer, freed of names, and played again to be written.

A ledger is a chain and a tape is addressed by its questions, so text in them cannot be replaced in place. The campaign
is played on its own answers with names taken out, and what the graph then writes is the recording: whole, and proven to
replay before anybody gets it.
"""

import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ridgeline.agent.campaign.tape import PROTOCOLS, Tape, tape_port
from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import NAMES, SHAPES, SHORTEST
from ridgeline.agent.providers.tape import FILE as MODEL_TAPE
from ridgeline.agent.providers.tape import ModelTape
from ridgeline.evals.recordings import replay as difference
from ridgeline.evals.recordings import replay as retell
from ridgeline.evals.recordings import replay as script
from ridgeline.evals.recordings.recording import (
    ARTIFACTS,
    LEDGER,
    REQUEST,
    TAPE,
    WORKSPACE,
    Card,
    card_of,
    read_ledger,
    read_request,
    write_card,
)
from ridgeline.evals.recordings.replay import (
    Answer,
    ToldWorkspace,
    ask_workspace,
    perform,
    play_tape,
    record_answers,
    replay,
    wire_recorded,
)
from ridgeline.graph.record import Line
from ridgeline.graph.state import Request
from ridgeline.graph.values import Artifact, Value
from ridgeline.sandbox.judge.task_file import FILE_NAME as TASK_FILE
from ridgeline.sandbox.profiles.readers.files import is_archive, members, rewritten
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.store.durable import UnsyncedFiles
from ridgeline.sandbox.store.ledger import JsonlLedger
from ridgeline.sandbox.workspace.git import Git
from ridgeline.sandbox.workspace.worktree import GitWorkspace

# Takes names of machines, people and folders out of what a campaign recorded, and leaves all else as it is.

OWNED = "root|tmp|work|home|Users|mnt|media|data|scratch|workspace|var/folders"
PRIVATE = re.compile(rf"(?<![\w.])/(?:{OWNED})(?=/[\w.])(?:/[\w.@+~-]+)+")
"""Absolute paths below folders that belong to people. What follows a system's own folders is the same everywhere."""
MAIL = re.compile(r"\b[\w.+-]+@(?!localhost\b)[\w-]+(?:\.[\w-]+)+\b")
DEVICE = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
"""Serial numbers of cards, as nvidia-smi writes them."""
COMMON = frozenset({"root", "user", "ubuntu", "admin", "runner", "home", "localhost", "docker", "host", "linux"})
"""Names that give nobody away, and stand in ordinary text."""
SHORTEST_NAME = 3


class Private(Value):
    """What must not be told. Folders first, since names may stand in them."""

    folders: tuple[tuple[str, str], ...] = ()
    """(folder, what to write instead)."""
    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Whatever else a person named: of a team, a product, a server."""


class Scrub:
    """Replaces in strings, in any JSON value, and in artifacts by what they contain now; counts what it did."""

    def __init__(self, private: Private) -> None:
        self._folders = sorted(private.folders, key=lambda pair: -len(pair[0]))
        self._names = [
            (kind, re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"))
            for kind, names in (("word", private.words), ("host", private.hosts), ("user", private.users))
            for name in sorted(set(names), key=len, reverse=True)
            if kind == "word" or (len(name) >= SHORTEST_NAME and name.lower() not in COMMON)
        ]
        self._replacements: dict[str, Artifact] = {}
        self.counts: Counter[str] = Counter()
        """How often each kind was replaced."""

    def text(self, text: str) -> str:
        """An exported text without anything private."""
        for folder, instead in self._folders:
            if folder in text:
                self.counts["folder"] += text.count(folder)
                text = text.replace(folder, instead)
        text = self._sub("folder", PRIVATE, text, lambda match: "/private/" + match[0].rpartition("/")[2])
        text = self._sub("mail", MAIL, text, "[mail]")
        text = self._sub("device", DEVICE, text, "[device]")
        for kind, pattern in self._names:
            text = self._sub(kind, pattern, text, f"[{kind}]")
        return text

    def data(self, data: bytes) -> bytes:
        """An exported file without anything private, or each file of an archive; what is not text is left as it is."""
        if is_archive(data):
            return rewritten(data, self.data)
        try:
            before = data.decode()
        except UnicodeDecodeError:
            return data
        after = self.text(before)
        return data if after == before else after.encode()

    def replace_artifact(self, sha256: str, instead: Artifact) -> None:
        """Note that an exported artifact has other contents now, and so another name."""
        self._replacements[sha256] = instead

    def value(self, value: Any) -> Any:
        """An exported JSON value without anything private: strings anywhere in it, and artifacts by what they contain now."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, Mapping):
            return self._artifact({name: self.value(item) for name, item in value.items()})
        return value

    def _artifact(self, entry: dict[str, Any]) -> dict[str, Any]:
        instead = self._replacements.get(str(entry.get("sha256")))
        if instead is None or not {"sha256", "size"} <= entry.keys():
            return entry
        return {**entry, "sha256": instead.sha256, "size": instead.size}

    def _sub(self, kind: str, pattern: re.Pattern[str], text: str, instead: Any) -> str:
        text, count = pattern.subn(instead, text)
        if count:
            self.counts[kind] += count
        return text


def artifacts_in(value: Any) -> Sequence[Artifact]:
    """For an exported recording: every artifact that a JSON value names."""
    if isinstance(value, Mapping):
        artifacts = [Artifact.model_validate(value)] if value.keys() == {"sha256", "name", "size"} else []
        return [*artifacts, *(artifact for item in value.values() for artifact in artifacts_in(item))]
    if isinstance(value, list | tuple):
        return [artifact for item in value for artifact in artifacts_in(item)]
    return []


MOST_BYTES = 3_000_000
"""Of a whole recording: a repository keeps many of them."""
TASK = "task"
"""Folder of a recording with the task that was judged."""
MOST_TASK_BYTES = 300_000
"""A task is a few files; a larger folder is a project, which is read where it lies."""
NOWHERE = Path("/kernels")


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    """What an export did."""

    folder: Path
    card: Card
    bytes: int


@dataclass(frozen=True, kw_only=True)
class _FirstPerformance:
    """The first performance."""

    answers: tuple[script.Spoken, ...]
    difference: difference.Difference | None
    """From the campaign's ledger, in words alone."""


def export(campaign: Path, folder: Path, private: Private, *, licence: str, retold: bool = False) -> ExportResult:
    """Write a recording of `campaign` to `folder`, which must not exist. Raises UserError and leaves nothing behind.

    Refused: a campaign in which a key stands, and one that does not replay. `retold`: one that another version of
    Ridgeline ran is written in the words of this one, if every decision is the same.
    """
    if folder.exists():
        raise UserError(f"{folder}: exists already; name a folder that does not, or remove it first")
    request, recorded = read_request(campaign), read_ledger(campaign)
    dialogue = _hear_campaign(campaign, request, recorded, retold=retold)
    answers = dialogue.answers
    cited = _list_cited_artifacts(answers, campaign)
    if keys := [line for name, path in _files(campaign, cited) for line in secrets(path, name)]:
        raise UserError("\n".join(f"{line}; take it out of the project, and campaign again" for line in keys))
    private = private.model_copy(update={"folders": (*_folders(campaign, request, folder.name), *private.folders)})
    with tempfile.TemporaryDirectory(prefix="ridgeline-export-") as scratch:
        copy = Path(scratch) / folder.name
        copy.mkdir()
        scrub = Scrub(private)
        left = _write(copy, campaign, request, answers, cited=cited, scrub=scrub)
        text = dialogue.difference.text if dialogue.difference else ""
        card = card_of(copy, folder.name, licence).model_copy(
            update={"left_out": left, "scrubbed": tuple(sorted(scrub.counts.items())), "retold": scrub.text(text)}
        )
        write_card(copy, card)
        _prove(copy, recorded)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(copy, folder)
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return ExportResult(folder=folder, card=card, bytes=total)


def _hear_campaign(campaign: Path, request: Request, recorded: Sequence[bytes], *, retold: bool) -> _FirstPerformance:
    """For an export: every answer in the order of the questions. Raises UserError for a campaign that does not replay."""
    answers: list[script.Spoken] = []
    with tempfile.TemporaryDirectory(prefix="ridgeline-export-") as scratch:
        work = Path(scratch)
        tape = Tape(campaign / TAPE, mode="replay")
        spoken = script.Overheard(script.tape_lines(campaign / TAPE), answers, tape)
        ports = {name: tape_port(name, None, spoken) for name in PROTOCOLS}
        git, ledger_lines = _git(campaign, work, request), JsonlLedger(campaign / LEDGER).lines()
        if retold:
            ports["planner"] = retell.planner(campaign / TAPE, answers)
            git = retell.same_commits(git, ledger_lines)
        workspace = ToldWorkspace(script.overheard(git, answers))
        played = perform(request, wire_recorded(ports, workspace, ledger_lines, work / LEDGER), work / LEDGER)
    deviation = difference.first_difference(recorded, played.lines)
    if deviation is not None and not (retold and _stories(played.lines) == _stories(recorded)):
        raise UserError(
            f"{campaign / LEDGER}: line {deviation.line}: this version of Ridgeline writes it otherwise than the one"
            f" that ran the campaign; export it with that version ({request.version}), or with --retell where only words"
            f" differ\n{deviation.text}"
        )
    return _FirstPerformance(answers=tuple(answers), difference=deviation)


def _git(campaign: Path, work: Path, request: Request) -> Answer:
    """A campaign's repository as git sees it, or what a recording has of it."""
    if (campaign / WORKSPACE).is_file():
        return play_tape(Tape(campaign / WORKSPACE, mode="replay"))
    return ask_workspace(_workspace(campaign, work, request))


def _workspace(campaign: Path, work: Path, request: Request) -> GitWorkspace:
    """For an export, a workspace on a copy of the campaign's mirror, so that nothing of the campaign is moved."""
    for name in ("mirror.git", "base.json"):
        if not (campaign / name).exists():
            raise UserError(f"{campaign / name}: not found; give the whole folder of a campaign, or a recording")
    shutil.copytree(campaign / "mirror.git", work / "mirror.git")
    shutil.copy(campaign / "base.json", work / "base.json")
    path = PurePosixPath(request.contract_path).parent
    return GitWorkspace(
        repo_root=work / "no repository",
        contract_dir=path,
        campaign_dir=work,
        contract=request.contract,
        artifacts=ArtifactStore(work, later=UnsyncedFiles()),
    )


def _list_cited_artifacts(answers: Sequence[script.Spoken], campaign: Path) -> tuple[Artifact, ...]:
    """Artifacts that an exported recording's answers name and that are there."""
    by_digest = {artifact.sha256: artifact for spoken in answers for artifact in artifacts_in(spoken.answer)}
    store = ArtifactStore(campaign)
    return tuple(artifact for _, artifact in sorted(by_digest.items()) if store.path(artifact).is_file())


def _files(campaign: Path, cited: Sequence[Artifact]) -> Iterator[tuple[str, Path]]:
    """Every file that an exported recording is made of, with the name to call it by."""
    for name in (LEDGER, TAPE, MODEL_TAPE, REQUEST):
        if (campaign / name).is_file():
            yield name, campaign / name
    store = ArtifactStore(campaign)
    for artifact in cited:
        yield f"{store.path(artifact).relative_to(campaign)} ({artifact.name})", store.path(artifact)


def _folders(campaign: Path, request: Request, name: str) -> tuple[tuple[str, str], ...]:
    """The exported campaign's own folders, under a name that is nobody's."""
    document = json.loads((campaign / REQUEST).read_text(encoding="utf-8"))
    neutral = str(NOWHERE / name)
    names = {str(campaign.resolve()): f"{neutral}/agent/workspace/campaign", document["repository"]: neutral}
    return tuple((folder, instead) for folder, instead in names.items() if folder not in ("", "/"))


def _write(
    copy: Path,
    campaign: Path,
    request: Request,
    answers: Sequence[script.Spoken],
    *,
    cited: Sequence[Artifact],
    scrub: Scrub,
) -> tuple[Artifact, ...]:
    """Write everything of a recording but the card; the artifacts that were left out."""
    document = json.loads((campaign / REQUEST).read_text(encoding="utf-8"))
    _artifacts(copy, campaign, cited, scrub)
    clean = scrub.value(document)
    clean["repository"], clean["recording"] = str(NOWHERE / copy.name), None
    (copy / REQUEST).write_text(json.dumps(clean, indent=1) + "\n", encoding="utf-8")
    prompter = script.Prompter([replace(answer, answer=scrub.value(answer.answer)) for answer in answers])
    later = UnsyncedFiles()
    tape, git = Tape(copy / TAPE, later=later), Tape(copy / WORKSPACE, later=later)
    ports = {name: tape_port(name, prompter.port(name), tape) for name in PROTOCOLS}
    workspace = ToldWorkspace(record_answers(prompter.workspace, git))
    ledger_lines = [_clean(line, scrub) for line in JsonlLedger(campaign / LEDGER).lines()]
    perform(read_request(copy), wire_recorded(ports, workspace, ledger_lines, copy / LEDGER), copy / LEDGER)
    _conversation(copy, campaign, scrub)
    _add_task(copy, campaign, request, scrub)
    return _shrink(copy)


def _clean(line: Line, scrub: Scrub) -> Line:
    """A ledger's line without names of this machine or of people, for what is read of it beside the answers."""
    return Line.model_validate(scrub.value(line.model_dump(mode="json")))


def _artifacts(copy: Path, campaign: Path, cited: Sequence[Artifact], scrub: Scrub) -> None:
    theirs, ours = ArtifactStore(campaign), ArtifactStore(copy, later=UnsyncedFiles())
    for artifact in cited:
        before = theirs.get(artifact)
        stored = ours.put(artifact.name, scrub.data(before))
        if stored.sha256 != artifact.sha256:
            scrub.replace_artifact(artifact.sha256, stored)


def _conversation(copy: Path, campaign: Path, scrub: Scrub) -> None:
    """What a recorded campaign's model was asked and answered, each question under the digest of what it says now."""
    if not (campaign / MODEL_TAPE).is_file():
        return
    theirs, ours = ModelTape(campaign / MODEL_TAPE, repaired=False), ModelTape(copy / MODEL_TAPE)
    for ask in theirs.asks:
        clean = type(ask).model_validate(scrub.value(ask.model_dump(mode="json")))
        answer, why = theirs.find_answer(ask), theirs.find_refusal(ask)
        if answer is not None:
            ours.record(clean, type(answer).model_validate(scrub.value(answer.model_dump(mode="json"))))
        elif why is not None:
            ours.refuse(clean, scrub.text(why))


def _add_task(copy: Path, campaign: Path, request: Request, scrub: Scrub) -> None:
    """The judged task that the campaign began with, as `task/`: `ridgeline demo --task` takes that folder.

    A contract with a benchmark of its own has none: whose repository it is, has it. Raises UserError for a key in a file.
    """
    files = _read_task(campaign, request)
    if TASK_FILE not in files or sum(map(len, files.values())) > MOST_TASK_BYTES:
        return
    for name, data in files.items():
        path = copy / TASK / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(scrub.data(data))
        if keys := [*secrets(path, f"{TASK}/{name}")]:
            raise UserError("\n".join(f"{line}; take it out of the project, and campaign again" for line in keys))


def _read_task(campaign: Path, request: Request) -> dict[str, bytes]:
    """The contract's folder at the commit where the campaign began, by name; what a recording keeps of it, of a recording."""
    if (campaign / WORKSPACE).is_file():
        folder = campaign / TASK
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    mirror, base = Git(git_dir=campaign / "mirror.git"), json.loads(read_ledger(campaign)[0])["body"]["base_commit"]
    place = PurePosixPath(request.contract_path).parent
    entries = [entry for entry in mirror.entries(base, str(place)) if PurePosixPath(entry.path).is_relative_to(place)]
    names = [str(PurePosixPath(entry.path).relative_to(place)) for entry in entries]
    if TASK_FILE not in names:
        return {}
    return dict(zip(names, mirror.blobs(tuple(entry.oid for entry in entries)), strict=True))


def _shrink(copy: Path) -> tuple[Artifact, ...]:
    """Leave out the largest blobs until the recording is small enough. Raises UserError where that does not suffice."""
    files = [path for path in copy.rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in files)
    blobs = sorted((path for path in files if ARTIFACTS in path.parts), key=lambda path: -path.stat().st_size)
    left: list[Artifact] = []
    while total > MOST_BYTES and blobs:
        largest = blobs.pop(0)
        total -= largest.stat().st_size
        left.append(Artifact(sha256=largest.name, name=largest.name[:12], size=largest.stat().st_size))
        largest.unlink()
    if total > MOST_BYTES:
        raise UserError(f"{copy.name}: {total / 1e6:.1f} MB without any artifact, more than {MOST_BYTES / 1e6:.0f} MB")
    return tuple(left)


def _prove(copy: Path, recorded: Sequence[bytes]) -> None:
    """Check that an exported recording replays, and tells the same story as the campaign."""
    result = replay(copy)
    if not result.good:
        why = result.first_difference.text if result.first_difference else ", ".join(result.changed) or result.stopped
        raise UserError(f"{copy.name}: the exported recording does not replay: {why}")
    if _stories(read_ledger(copy)) != _stories(recorded):
        raise UserError(f"{copy.name}: a decision changed when names were taken out; report this as a bug")


def _stories(lines: Sequence[bytes]) -> list[tuple[Any, ...]]:
    return [_story(line) for line in lines]


def _story(line: bytes) -> tuple[Any, ...]:
    """For an exported recording: what a line decides, without its words."""
    event = json.loads(line)
    verdict = event["body"].get("judged", {}).get("verdict", {})
    return (event["key"], *(verdict.get(name) for name in ("decision", "reason", "gain", "lower")))


# Keys in what is about to be given away: found by how providers write them and by the environment's own.

KEYS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a provider's key", SHAPES),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")),
    (
        "an access token",
        re.compile(r"\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bhf_[A-Za-z0-9]{20,}|\bxox[abprs]-[\w-]{10,}"),
    ),
    ("a signed token", re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}")),
    ("a password in an address", re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']+:[^\s/@\"']{3,}@")),
    (
        "a value that is named like a secret",
        re.compile(
            r"(?:api[_-]?key|access[_-]?key|auth[_-]?token|client[_-]?secret|passw(?:or)?d|secret[_-]?key)"
            r"[\\\"']*\s*[=:]\s*[\\\"']*(?=[\w+/.-]*\d)(?=[\w+/.-]*[A-Za-z])[\w+/.-]{12,}",
            re.IGNORECASE,
        ),
    ),
)
"""What a key looks like, and what to call it. The key itself is never shown."""
SHAPED_LIKE_KEYS = re.compile(r"\bsk-(?:learn|image|build)\b")
"""Ordinary words of the shape of a key."""


def secrets(path: Path, label: str, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """For an export, `<label>: line N: <what>` for each line of a file that holds a key; also of bytes that are no text."""
    by_value = _list_secrets(os.environ if environment is None else environment)
    data = path.read_bytes()
    if is_archive(data):
        data = b"\n".join(content for _, content in members(data))
    for number, raw in enumerate(data.splitlines(), start=1):
        line = raw.decode("utf-8", "replace")
        for what in _find_secrets(line, by_value):
            yield f"{label}: line {number}: holds {what}"


def _find_secrets(line: str, by_value: Mapping[str, str]) -> Iterator[str]:
    for value, name in by_value.items():
        if value in line:
            yield f"the value of the environment variable {name}"
    plain = SHAPED_LIKE_KEYS.sub("", line)
    for what, pattern in KEYS:
        if pattern.search(plain):
            yield what


def _list_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """For an export: values of variables that are named like secrets; plain words and paths are settings, not keys."""
    return {
        value: name
        for name, value in environment.items()
        if NAMES.search(name) and len(value) >= SHORTEST and not value.startswith("/") and not value.isalpha()
    }
