"""What the tools of the server do. Every answer is bounded; a mistake is raised as an error of one line."""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from ridgeline.agent.campaign import folders as campaigns
from ridgeline.agent.campaign.approvals import OpenDecision, Waits
from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.providers.base import plain, redact, without_keys
from ridgeline.agent.providers.mailbox import GOES_ON as MEASURES_TOO
from ridgeline.agent.providers.mailbox import HAND_IN
from ridgeline.graph.errors import CampaignError, WorldError
from ridgeline.graph.values import Value

# What may go wrong in a tool, as the one line that its client is told.

KNOWN = (UserError, Waiting, CampaignError, WorldError, ValidationError, OSError)
"""A client's mistakes, and a world that is not as it should be; all else is a fault of ours and ends up in the log."""
LONGEST = 2_000
"""Characters: several reasons why an answer cannot be used."""


def one_line(error: Exception) -> str:
    """An answer of an MCP tool without keys and control characters; of a value that does not fit, where and why."""
    match error:
        case ValidationError():
            problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            return redact(f"{where or error.title}: {problem['msg']}", limit=LONGEST)
        case OSError():
            return redact(f"{error.filename or 'file'}: {error.strerror}", limit=LONGEST)
        case _:
            return redact(str(error), limit=LONGEST)


# Which campaigns a client may name: those in folders that were allowed when the server was started, and no others.

LARGEST_TEXT = 4_000_000
"""Bytes of a file that is read for a client."""


class Roots:
    """The allowed folders, with their links followed."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """The folders that an MCP client may look into. Raises UserError for a folder that is none."""
        for folder in folders:
            if not folder.is_dir():
                raise UserError(f"{folder}: no such folder; give a repository or a folder of campaigns")
        self.folders = tuple(_resolve_link(folder) for folder in folders)

    def all(self) -> list[Path]:
        """Every campaign in the folders allowed to an MCP client, those that changed last first."""
        candidates = {_resolve_link(campaign) for folder in self.folders for campaign in campaigns.around(folder)}
        return sorted(filter(self._inside, candidates), key=_change_time, reverse=True)

    def campaign(self, name: str) -> Path:
        """A campaign by the MCP client's word: folder, absolute or below an allowed one, or name. Raises UserError."""
        for place in self._places(name, self.folders):
            if campaigns.is_campaign(place):
                return place
        for campaign in self.all():
            if campaign.name == name:
                return campaign
        raise UserError(f"{name}: no campaign in the allowed folders; `status` without a campaign lists them")

    def read_bytes(self, name: str, campaign: Path) -> bytes:
        """A file for an MCP client, of the campaign or below an allowed folder. Raises UserError where it is not there or too large."""
        for place in self._places(name, (campaign, *self.folders)):
            if place.is_file():
                if place.stat().st_size > LARGEST_TEXT:
                    raise UserError(f"{name}: is larger than {LARGEST_TEXT} bytes")
                return place.read_bytes()
        raise UserError(f"{name}: no such file in the campaign or the allowed folders")

    def existing(self, name: str, field: str) -> Path:
        """A file or folder allowed to an MCP client. Raises UserError, the same for what is not there and what is elsewhere."""
        place = next((place for place in self._places(name, self.folders) if place.exists()), None)
        if place is None:
            raise UserError(f"{field}: {plain(name, limit=200)}: no such file or folder in the allowed folders")
        return place

    def contains(self, place: Path) -> bool:
        """Whether a path lies in a folder allowed to an MCP client, its links followed."""
        return self._inside(_resolve_link(place))

    def _places(self, name: str, folders: Sequence[Path]) -> list[Path]:
        """What a name by an MCP client may mean; an absolute one means itself, wherever it is joined to."""
        return [place for folder in folders if self._inside(place := _resolve_link(folder / name))]

    def _inside(self, place: Path) -> bool:
        """For the tools of coding agents: whether a path lies in an allowed folder."""
        return any(place.is_relative_to(folder) for folder in self.folders)


def _resolve_link(path: Path) -> Path:
    return Path(os.path.realpath(path))  # unlike `Path.resolve`, silent about links that lead in a circle


def _change_time(campaign: Path) -> float:
    files = (campaign / campaigns.LEDGER, campaign / campaigns.STATUS)
    return max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)


# What each tool of the server may be asked: validated here, and the source of the schemas that clients see.

Word = Annotated[str, Field(max_length=1_000, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A name or one line."""
Named = Annotated[Word, Field(min_length=1)]
Offset = Annotated[int, Field(ge=0, le=100_000_000)]
MOST_WAIT_S = 50.0
"""Clients give up a call after a minute, as a rule."""
POLL_S = 0.5
Wait = Annotated[float, Field(ge=0, le=MOST_WAIT_S)]


class AboutCampaigns(Value):
    """Without a campaign, all that are in the allowed folders, the newest first."""

    campaign: Word = ""
    """The campaign's folder, absolute or below an allowed one, or its name."""


class AboutStanding(AboutCampaigns):
    """With `wait_s` one call takes the place of many: it answers as soon as the campaign asks something or ends."""

    wait_s: Wait = 0
    """Seconds to wait, at most, while the campaign named is running."""


class AboutCsv(Value):
    """One of `file` and `text`."""

    campaign: Named
    """Whose benchmark it is; its contract has the columns and the scoring."""
    file: Word = ""
    """A CSV below the campaign's folder or an allowed one."""
    text: Annotated[str, Field(max_length=4_000_000)] = ""
    """The CSV itself."""


class AboutQueue(AboutCampaigns):
    """Without a campaign, the open questions of all; with one, its own, and the evidence of the first or of `key`."""

    key: Word = ""
    """Which question's evidence."""
    offset: Offset = 0
    """Characters of the evidence to leave out: `next_offset` of the part before."""


class Decide(Value):
    """An answer to a question of the queue. It is kept for good, with who gave it."""

    campaign: Named
    key: Named
    """Of the question, from `queue`: a decision never applies to another."""
    choice: Literal["approve", "reject", "defer"]
    by: Named
    """Who decides: the person's name, or yours if you were told to decide yourself."""
    end: Annotated[str, Field(max_length=1_000)] = ""
    """To approve or to reject: why nothing worth a round is left; the campaign then concludes after this round."""
    round: Annotated[int, Field(ge=1)] | None = None
    """To approve, where a person's edit was measured beside the change: which of them."""
    reason: Annotated[str, Field(max_length=10_000)] = ""
    """Needed to reject, where the planner learns from it, and to defer."""


class AnswerRequest(Value):
    """Without `text`, the open request of a mailbox campaign; with it, its answer."""

    campaign: Named
    number: Annotated[int, Field(ge=1)] | None = None
    """Of the request, needed with `text`: an answer never goes to another."""
    text: Annotated[str, Field(max_length=2_000_000)] = ""
    """The whole answer, in the form that the request describes."""
    by: Word = ""
    """Who or what wrote it, needed with `text`."""
    offset: Offset = 0
    """Characters of the request to leave out: `next_offset` of the part before."""


class AboutReport(Value):
    """The report so far, in Markdown."""

    campaign: Named
    offset: Offset = 0
    """Characters to leave out: `next_offset` of the part before."""


MOST = 100
"""Entries of a list."""
MOST_ROWS = 500
PART = 40_000
"""Characters of a long text that are given at once."""

JsonObject = dict[str, Any]
GOES_ON = "go on with the tool `resume`"
SHELL_COMMAND = re.compile(r"`ridgeline (answer|approve|queue|report|resume|start|status|stop)(?: [^`\n]*)?`")


class Desk:
    """The campaigns of some folders, as tools."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def await_standing(self, arguments: AboutStanding) -> None:
        """Until the campaign runs no more, or the seconds are over. Raises UserError for one that is none."""
        if not (arguments.campaign and arguments.wait_s):
            return
        folder, until = self._roots.campaign(arguments.campaign), time.monotonic() + arguments.wait_s
        while campaigns.is_at_work(campaigns.read_status(folder)):
            left_s = until - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(POLL_S, left_s))

    def serve_status(self, arguments: AboutStanding) -> JsonObject:
        """Where a campaign stands and whether its ledger is whole, or a line for each campaign there is."""
        from ridgeline.agent.campaign.status import status_of

        if arguments.campaign:
            status: JsonObject = status_of(self._roots.campaign(arguments.campaign)).model_dump(mode="json")
            return status
        folders = self._roots.all()
        return {"campaigns": [_brief(folder) for folder in folders[:MOST]], "left_out": max(0, len(folders) - MOST)}

    def serve_parse_bench_csv(self, arguments: AboutCsv) -> JsonObject:
        """The rows and the score of a benchmark's CSV, read as the campaign reads it: against its frozen columns."""
        from ridgeline.graph.rules.score import ScoreError, aggregates
        from ridgeline.sandbox.timing.benchmark_csv import Problem, read_rows

        if bool(arguments.file) == bool(arguments.text):
            raise UserError("give one of `file` and `text`")
        campaign = self._roots.campaign(arguments.campaign)
        contract = campaigns.history(campaign).contract
        data = arguments.text.encode() if arguments.text else self._roots.read_bytes(arguments.file, campaign)
        rows = read_rows(data, contract, requested=(), exact=False)
        if isinstance(rows, Problem):
            raise UserError(f"{rows.reason}: {rows.detail}")
        score: tuple[Any, ...] = ()
        problem = ""
        try:
            score = aggregates(rows, contract.scoring)
        except ScoreError as error:
            problem = str(error)
        return {
            "rows": [row.model_dump(mode="json") for row in rows[:MOST_ROWS]],
            "left_out": max(0, len(rows) - MOST_ROWS),
            "score": {metric.name: metric.value for metric in score},
            "higher_is_better": contract.scoring.combined or contract.scoring.higher_is_better,
            "problem": problem,
        }

    def serve_queue(self, arguments: AboutQueue) -> JsonObject:
        """What waits for a decision, oldest first, and what is decided and not resumed; of one campaign also the evidence."""
        from ridgeline.agent.campaign.decisions import decided_questions, open_questions
        from ridgeline.agent.campaign.decisions import find_question as chosen

        if not arguments.campaign:
            roots = self._roots.all()
            questions = open_questions(roots) if roots else []
            decided = decided_questions(roots) if roots else []
            return {
                "waiting": [_question(*question) for question in questions[:MOST]],
                "left_out": max(0, len(questions) - MOST),
                "decided": [_describe_decided(*decision) for decision in decided[:MOST]],
            }
        campaign = self._roots.campaign(arguments.campaign)
        open_here = open_questions([campaign])
        summary: JsonObject = {
            "waiting": [_question(*question) for question in open_here[:MOST]],
            "decided": [_describe_decided(*decision) for decision in decided_questions([campaign])],
        }
        if not open_here:
            return summary
        question = chosen(campaign, arguments.key or open_here[0][1].request.key)
        return {**summary, "key": question.request.key, **self._part(Path(question.page), campaign, arguments.offset)}

    def serve_approve(self, arguments: Decide) -> JsonObject:
        """Approve, reject with a reason, or defer what a campaign waits for. It goes on with the tool `resume`."""
        from ridgeline.agent.campaign.decisions import Answer, store_decision
        from ridgeline.agent.campaign.decisions import find_question as chosen

        campaign = self._roots.campaign(arguments.campaign)
        reason = plain(arguments.reason, limit=10_000).strip()
        if arguments.choice != "approve" and not reason:
            raise UserError(f"reason: needed to {arguments.choice}")
        answer = Answer(
            yes=arguments.choice == "approve",
            reject=reason if arguments.choice == "reject" else None,
            defer=reason if arguments.choice == "defer" else None,
            end=arguments.end,
            round=arguments.round,
            reason=reason,
            by=f"{plain(arguments.by, limit=200)} (mcp)",
        )
        stored = store_decision(campaign, chosen(campaign, arguments.key), answer)
        after = "" if stored == "defer" else GOES_ON
        return {"campaign": campaign.name, "dir": str(campaign), "key": arguments.key, "choice": stored, "next": after}

    def serve_answer(self, arguments: AnswerRequest) -> JsonObject:
        """The open request of a campaign that asks by mailbox, or its answer. What cannot be used is refused."""
        from ridgeline.agent.campaign.decisions import Submission, open_question, store_answer

        campaign = self._roots.campaign(arguments.campaign)
        request = open_question(campaign)
        about: JsonObject = {"campaign": campaign.name, "dir": str(campaign), "number": request.number}
        if not arguments.text:
            page = campaign / "mailbox" / f"{request.number:03d}.request.md"
            return {**about, "purpose": request.ask.purpose, **self._part(page, campaign, arguments.offset)}
        if arguments.number != request.number:
            raise UserError(f"number: the open request is {request.number}; read it, then answer with its number")
        if not arguments.by.strip():
            raise UserError("by: say who or what wrote the answer")
        submission = Submission(data=arguments.text.encode(), source="text", by=f"{arguments.by} (mcp)")
        stored = store_answer(campaign, request, submission)
        return {**about, "stored": True, "dropped": list(stored.dropped), **_after(campaign)}

    def serve_report(self, arguments: AboutReport) -> JsonObject:
        """What was gained and how sure, what was tried, costs, and how to reproduce it; also in the middle."""
        from ridgeline.graph.reports.final_report import render_final_report as render

        campaign = self._roots.campaign(arguments.campaign)
        return {"campaign": campaign.name, **part_of(render(campaigns.history(campaign)), arguments.offset)}

    def _part(self, page: Path, campaign: Path, offset: int) -> JsonObject:
        return part_of(name_tools(self._roots.read_bytes(str(page), campaign).decode(errors="replace")), offset)


def name_tools(text: str) -> str:
    """A page for an MCP client: words for a shell become those of the tools: how an answer is given, and commands that are tools too."""
    text = text.replace(HAND_IN, "as `text` of the tool `answer`, with `number` and `by`")
    text = text.replace(MEASURES_TOO, "the tool `resume` measures")
    return SHELL_COMMAND.sub(r"the tool `\1`", text)


def part_of(text: str, offset: int) -> JsonObject:
    """So much of a long text for an MCP client, and where it goes on; None at its end. Keys are taken out before a cut can hide one."""
    text = without_keys(text)
    end = offset + PART
    return {"text": text[offset:end], "characters": len(text), "next_offset": end if end < len(text) else None}


def _after(campaign: Path) -> JsonObject:
    """For an MCP client: what an answered campaign wants next. Whatever keeps it from going on, the answer is stored."""
    from ridgeline.agent.campaign.decisions import following

    try:
        follows = following(campaign)
    except KNOWN as error:
        return {"next_request": None, "next": GOES_ON, "problem": one_line(error)}
    return {"next_request": follows, "next": "read the next request with `answer`" if follows else GOES_ON}


def _brief(campaign: Path) -> JsonObject:
    """A line of an MCP client's list. A campaign that cannot be read is told as such and hides no other."""
    from ridgeline.agent.campaign.status import status_of

    try:
        status = status_of(campaign)
    except KNOWN as error:
        return {"dir": str(campaign), "problem": one_line(error)}
    fields = (
        "campaign",
        "dir",
        "status",
        "round",
        "accepted",
        "rolled_back",
        "request",
        "decision",
        "problem",
        "updated",
    )
    return status.model_dump(mode="json", include=set(fields))


def _describe_decided(campaign: Path, decision: OpenDecision) -> JsonObject:
    from ridgeline.agent.campaign.approvals import describe_unused

    return {
        "campaign": campaign.name,
        "dir": str(campaign),
        "key": decision.request.key,
        "choice": decision.decision.choice,
        "by": decision.decision.by,
        "at": decision.decision.at,
        "told": name_tools(describe_unused(str(campaign), decision)),
    }


def _question(campaign: Path, question: Waits) -> JsonObject:
    request = question.request
    return {
        "campaign": campaign.name,
        "dir": str(campaign),
        "key": request.key,
        "gate": request.gate,
        "round": request.round,
        "title": request.title,
        "asked_at": request.asked_at,
        "deferred": question.deferred.model_dump(mode="json") if question.deferred else None,
    }
