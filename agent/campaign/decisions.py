"""Open questions of campaigns, and how an answer from the command line or a page becomes a decision."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ridgeline.agent.campaign import folders as campaigns
from ridgeline.agent.campaign.approvals import (
    ApprovalFiles,
    DecidedAlready,
    Deferral,
    OpenDecision,
    Waits,
    describe_decision,
    find_unused_decision,
)
from ridgeline.agent.campaign.device_host import machine_of
from ridgeline.agent.campaign.notify import find_hook
from ridgeline.agent.campaign.state_files import read_manifest, write_manifest
from ridgeline.agent.errors import UserError, UserErrors
from ridgeline.agent.providers.base import plain
from ridgeline.agent.providers.mailbox import Mailbox, MailboxAnswer, MailboxRequest, check_answer, open_request
from ridgeline.agent.providers.tape import FILE, ModelTape, estimate_tokens
from ridgeline.graph.approval import ApprovalRequest, Decision
from ridgeline.graph.errors import NeedsAnswer
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.graph.rules.outcome import CAUSES
from ridgeline.graph.trial import Failed
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.store.ledger import JsonlLedger
from ridgeline.sandbox.workspace.globs import matches

logger = logging.getLogger(__name__)

LARGEST = 1_000_000
"""Bytes of an edited file."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What somebody chose: exactly one of the four."""

    yes: bool = False
    reject: str | None = None
    edit: Path | None = None
    defer: str | None = None
    end: str = ""
    """With `yes` or `reject`: why nothing worth a round is left."""
    round: int | None = None
    """Of `yes`, where several measured changes are asked about: which of them."""
    target: Mapping[str, str] = field(default_factory=dict)
    """With `yes` at the gate `target`: parameters to begin with instead; likewise the next."""
    limits: tuple[str, ...] = ()
    """`key=value` of limits."""
    reason: str = ""
    by: str


def open_questions(folders: Sequence[Path]) -> list[tuple[Path, Waits]]:
    """Open approvals of all campaigns in these folders, oldest first; without folders, of this repository."""
    where = {campaign.resolve() for campaign in _campaigns(folders)}
    questions = [(campaign, question) for campaign in sorted(where) for question in ApprovalFiles(campaign).waiting()]
    return sorted(questions, key=lambda pair: pair[1].request.asked_at)


def open_mailboxes(folders: Sequence[Path]) -> list[tuple[Path, MailboxRequest]]:
    """Campaigns in these folders, or of this repository, whose planner waits for an answer in its mailbox, and what it asks."""
    waiting = {campaign.resolve() for campaign in _campaigns(folders)}
    asked = [(campaign, Mailbox(campaign).open_request()) for campaign in sorted(waiting)]
    ended = {campaign for campaign in waiting if campaigns.read_status(campaign).get("status") == "concluded"}
    return [(campaign, request) for campaign, request in asked if request is not None and campaign not in ended]


def decided_questions(folders: Sequence[Path]) -> list[tuple[Path, OpenDecision]]:
    """Approvals of all campaigns in these folders that were decided and not gone on with, oldest first."""
    where = sorted({campaign.resolve() for campaign in _campaigns(folders)})
    decisions = [(campaign, decision) for campaign in where if (decision := find_unused_decision(campaign)) is not None]
    return sorted(decisions, key=lambda pair: pair[1].decision.at)


def find_question(campaign: Path, key: str | None) -> Waits:
    """A campaign's open approval, or the one of that key, which may have been decided meanwhile.

    Raises UserError where there is none, or several and no key.
    """
    files = ApprovalFiles(campaign)
    questions = files.waiting()
    chosen = [question for question in questions if key in (None, question.request.key)]
    if not chosen and (late := files.decision_of(key) if key else find_unused_decision(campaign)) is not None:
        return Waits(request=late.request, page=files.page(late.request.key), decision=late.decision)
    if not chosen:
        open_keys = f"; open: {', '.join(question.request.key for question in questions)}" if questions else ""
        raise UserError(
            f"{campaign.name}: asks nothing{f' called {key}' if key else ''}{open_keys}; see `ridgeline queue`"
        )
    if len(chosen) > 1:
        raise UserError(f"{campaign.name}: asks several things; add --key {chosen[0].request.key}")
    return chosen[0]


def store_decision(
    campaign: Path, question: Waits, answer: Answer, *, goes_on: bool = False
) -> Literal["approve", "reject", "edit", "defer"]:
    """Keep a person's answer with who and when; `goes_on`: whether whoever answers also resumes the campaign.

    Raises UserError for a rejection without a reason, and for edits that cannot be used, built or tested: the question
    then stays open. DecidedAlready where another answer came
    first, which keeps this one's words.
    """
    files, request, at = ApprovalFiles(campaign), question.request, datetime.now(UTC).isoformat(timespec="seconds")
    if answer.defer is not None:
        refuse_late(question)
        files.defer(request.key, Deferral(reason=answer.defer, by=answer.by, at=at))
        return "defer"
    if answer.reject is not None and not answer.reject.strip():
        raise UserError("--reject: needs a reason; the planner learns from it")
    if answer.edit and request.gate != "change":
        mend = (
            "adjust it: --yes --target NAME=VALUE --set LIMIT=VALUE"
            if request.gate == "target"
            else "reject it with a reason"
        )
        raise UserError(f"--edit: a {request.gate} has no code to edit; {mend}")
    if (answer.target or answer.limits) and not (answer.yes and request.gate == "target"):
        raise UserError("--target, --set: go with --yes where a campaign asks about its target; nothing was decided")
    edits = _edits(campaign, answer.edit) if answer.edit else ()
    choice: Literal["approve", "reject", "edit"] = "edit" if edits else "approve" if answer.yes else "reject"
    decision = Decision(
        key=request.key,
        choice=choice,
        reason=answer.reject or answer.reason,
        edits=edits,
        by=answer.by,
        at=at,
        exhausted="" if choice == "edit" else answer.end.strip(),
        round=_choose_round(request, answer.round) if choice == "approve" else None,
    )
    if choice == "edit" and question.decision is None:
        try_edit(campaign, question, decision)
    if (answer.target or answer.limits) and question.decision is None:
        decision = adjust_target(campaign, answer, decision)
    files.decide(decision)
    _tell(campaign, question, decision, goes_on=goes_on)
    return choice


def adjust_target(campaign: Path, answer: Answer, decision: Decision) -> Decision:
    """The decision with what a person changed of target and limits, which the campaign's `request.json` then has too.

    Raises UserError for what cannot be: the question stays open, and nothing is changed.
    """
    from ridgeline.agent.campaign.settings import adjust_limits
    from ridgeline.graph.loop.setup import adjust_request, resolve_request

    manifest = read_manifest(campaign)
    limits = adjust_limits(manifest.request.limits, answer.limits, model=manifest.model is not None)
    decision = decision.model_copy(update={"target": tuple(sorted(answer.target.items())), "limits": limits})
    adjusted = adjust_request(manifest.request, decision)
    try:
        resolve_request(adjusted, machine_of(adjusted.contract))
    except NeedsAnswer as error:
        raise UserError(f"--target: {error}; the question stays open") from None
    write_manifest(campaign, manifest.model_copy(update={"request": adjusted}))
    return decision


def _choose_round(request: ApprovalRequest, round_number: int | None) -> int | None:
    """Which of several measured changes a person approves. Raises UserError where that is not said, or may not be."""
    if not request.options:
        return None
    acceptable = [option.round for option in request.options if option.acceptable]
    if round_number is None and len(acceptable) == 1:
        return acceptable[0]
    if round_number not in acceptable:
        choices = (
            " or ".join(f"--round {number}" for number in acceptable) or "none of them: reject them, or edit again"
        )
        problem = f"{round_number}: may not be kept" if round_number is not None else "several changes were measured"
        raise UserError(f"--round: {problem}; choose {choices}")
    return round_number


def refuse_late(question: Waits) -> None:
    """Raises DecidedAlready, saying by whom, for an approval that has an answer."""
    if question.decision is not None:
        raise DecidedAlready(f"{question.request.key}: was decided already: {describe_decision(question.decision)}")


def _tell(campaign: Path, question: Waits, decision: Decision, *, goes_on: bool) -> None:
    """Send the campaign's notification of a decision. The decision is stored, whatever becomes of this."""
    place = f" of round {question.request.round}" if question.request.round else ""
    try:
        find_hook(campaign).tell(
            "decided",
            round=question.request.round,
            said=f"{question.request.gate}{place}: {describe_decision(decision)}",
            next="" if goes_on else f"ridgeline resume {campaign}",
        )
    except UserError as error:
        logger.warning("notify: decided: %s", error)


def _edits(campaign: Path, source: Path) -> tuple[FileEdit, ...]:
    """Editable files that a person hands in at an approval: all of a folder, or the one whose name an editable file has."""
    history = fold_ledger(JsonlLedger(campaign / campaigns.LEDGER).lines())
    assert history is not None
    globs = history.contract.editable_globs
    if source.is_dir():
        files = {path.relative_to(source).as_posix(): path for path in sorted(source.rglob("*")) if path.is_file()}
    elif source.is_file():
        names = [glob for glob in globs if Path(glob).name == source.name] or [source.name]
        files = {names[0]: source}
    else:
        raise UserError(f"--edit: {source}: no such file or folder; give the edited files")
    chosen = {name: path for name, path in files.items() if matches(name, globs)}
    if not chosen:
        raise UserError(f"--edit: {source}: has no editable file; editable: {', '.join(globs)}")
    return tuple(FileEdit(path=name, text=_text(path)) for name, path in chosen.items())


def _text(path: Path) -> str:
    """Text of a file that a person edited at an approval. Raises UserError where it is too large or not UTF-8."""
    if path.stat().st_size > LARGEST:
        raise UserError(f"--edit: {path}: is larger than {LARGEST} bytes; give the source, nothing built")
    try:
        return path.read_bytes().decode()  # line ends as they are
    except UnicodeDecodeError as error:
        raise UserError(f"--edit: {path}: byte {error.start} is not UTF-8; save it as UTF-8 text") from None


def _campaigns(folders: Sequence[Path]) -> list[Path]:
    """Campaigns in and below these folders, or of this repository. Raises UserError for a folder that is absent."""
    if not folders:
        return campaigns.around(Path.cwd())
    paths: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder; give a campaign, or a repository with campaigns")
        paths += [folder] if campaigns.is_campaign(folder) else [*campaigns.around(folder), *campaigns.below(folder)[0]]
    return paths


# A person's edit is built and tested when it is given, on the campaign's own machine, before it is a decision.

PATIENCE_S = 60.0
"""So long the process that asked may take to leave."""
LONGEST = 400
"""Characters of the compiler's or the test's words."""
_ERROR = re.compile(r"\b(?:error|fatal)\b", re.IGNORECASE)


def try_edit(campaign: Path, question: Waits, decision: Decision) -> None:
    """Build and test a person's edit as its round will; what that answers is on the campaign's tape, so it is done once.

    Raises UserError with the compiler's or the test's line where it fails, DeviceBusy where a process keeps the
    campaign or its card: the question stays open.
    """
    from ridgeline.agent.campaign.runner import check_machine, read_campaign
    from ridgeline.agent.campaign.wiring import connect
    from ridgeline.graph.loop.round import try_draft
    from ridgeline.graph.rules.person_edit import make_edit
    from ridgeline.sandbox.devices.lease import lease

    if question.request.edit is None:
        raise UserError(
            f"--edit: {question.request.key} was asked by an older Ridgeline; `ridgeline resume` asks it again"
        )
    origin = read_campaign(campaign)
    if not origin.place.repository.is_dir():
        raise UserError(f"--edit: {origin.place.repository}: is not here; an edit is built and tested when it is given")
    with lease("running", wait_s=PATIENCE_S, folder=campaign):
        fingerprint = check_machine(campaign, origin.request, origin.contract_file)
        # no planner is asked: which one the campaign has says nothing here
        ports = connect(
            replace(origin.place, moved_to=fingerprint), origin.request.contract, "catalog", origin.request.limits
        )
        trial = try_draft(ports, make_edit(question.request.edit, decision))
    if isinstance(trial, Failed):
        raise UserError(f"--edit: {CAUSES[trial.reason]}: {line_of(trial.detail)}; the question stays open")


def line_of(output: str) -> str:
    """The first line of a failed edit's output that names an error, as compilers do; else the first line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    message = next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "it says nothing")
    return message if len(message) <= LONGEST else f"{message[: LONGEST - 3]}..."


# An answer to the open question of a mailbox campaign: which question it is for, and whether it can be used.


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What somebody answered, as it came."""

    data: bytes
    """UTF-8; whatever else it is, is refused."""
    source: str
    """What a message calls it, for example the file's name."""
    by: str = ""
    dollars: float | None = None
    """None where nobody knows."""
    tokens: int | None = None
    """None: counted from question and answer."""


@dataclass(frozen=True, kw_only=True)
class StoredAnswer:
    """An accepted answer."""

    path: Path
    dropped: tuple[str, ...]
    """Parts that the planner will leave out, each with its reason."""


def store_answer(campaign: Path, request: MailboxRequest, submission: Submission) -> StoredAnswer:
    """Keep the answer to a mailbox request. Raises UserError or UserErrors where it cannot be used: the request then stays open."""
    text = check_answer(submission.data, request, source=submission.source)
    dropped = _check_parts(text, request, submission.source)
    counts = estimate_tokens(text) + sum(estimate_tokens(message.text) for message in request.ask.messages)
    spent = counts if submission.tokens is None else submission.tokens
    author = plain(submission.by, limit=200)
    about = MailboxAnswer(digest=request.digest, text=text, author=author, tokens=spent, dollars=submission.dollars)
    return StoredAnswer(path=Mailbox(campaign).store(request, about), dropped=dropped)


def open_question(campaign: Path, *, replace: bool = False) -> MailboxRequest:
    """The mailbox request that an answer is for; with `replace`, the newest one even if it is answered and not yet read.

    Raises UserError when there is none.
    """
    box = Mailbox(campaign)
    request = box.open_request()
    if request is not None:
        return request
    requests = box.requests()
    if not requests:
        raise UserError(f"{campaign.name}: has asked nothing; only `--model mailbox` campaigns ask for answers")
    newest = requests[-1]
    history = fold_ledger(JsonlLedger(campaign / campaigns.LEDGER).lines())
    if history is not None and history.concluded is not None:
        raise UserError(
            f"{campaign.name}: has concluded and asks nothing more; read it with `ridgeline report {campaign.name}`"
        )
    if ModelTape(campaign / FILE, repaired=False).find_answer(newest.ask) is not None:
        raise UserError(
            f"{campaign.name}: has no open request ({newest.number:03d} is answered and read); `ridgeline resume` it"
        )
    if not replace:
        raise UserError(f"{campaign.name}: request {newest.number:03d} is answered already; --replace writes it anew")
    return newest


def following(campaign: Path) -> str | None:
    """Resume the campaign as far as nothing has to be measured; the page of its next question, None where none is asked."""
    from ridgeline.agent.campaign.runner import plan_ahead

    return open_request(campaign) if plan_ahead(campaign) else None


def _check_parts(text: str, request: MailboxRequest, source: str) -> tuple[str, ...]:
    """Parts of a mailbox answer that the planner will leave out. Raises UserErrors, a line for each reason, when it can use none.

    The planner's own checks, made here so that a mistake costs none of its tries.
    """
    if not request.checks:
        return ()
    from pydantic import ValidationError

    from ridgeline.agent.planner.checks import Checks
    from ridgeline.agent.planner.directions import assess_answer
    from ridgeline.knowledge.library import Library

    try:
        checks = Checks.model_validate_json(request.checks)
    except ValidationError:
        return ()  # asked by another version of Ridgeline, whose campaign checks the answer itself
    check = assess_answer(text, checks, Library().line)
    if check.why:
        lines = check.why.splitlines()
        reason, *more_reasons = ["; ".join(lines).replace(":; ", ": ", 1)] if request.ask.answer_schema else lines
        raise UserErrors(
            [f"{source}: {reason} (request {request.number:03d} stays open, no try is spent)", *more_reasons]
        )
    return check.dropped
