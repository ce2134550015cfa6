"""What the tools of the server do. Every answer is bounded; a mistake is raised as an error of one line."""

from pathlib import Path
from typing import Any

from ridgeline.agent import campaigns
from ridgeline.agent.approvals import Decided, Waits
from ridgeline.agent.errors import UserError
from ridgeline.agent.mcp.errors import KNOWN, one_line
from ridgeline.agent.mcp.questions import AboutCampaigns, AboutCsv, AboutQueue, AboutReport, AnswerRequest, Decide
from ridgeline.agent.mcp.roots import Roots
from ridgeline.agent.providers.base import plain, without_keys

MOST = 100
"""Entries of a list."""
MOST_ROWS = 500
PART = 40_000
"""Characters of a long text that are given at once."""

Told = dict[str, Any]


class Desk:
    """The campaigns of some folders, as tools."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def status(self, asked: AboutCampaigns) -> Told:
        """Where a campaign stands and whether its ledger is whole, or a line for each campaign there is."""
        from ridgeline.agent.inspection import status_of

        if asked.campaign:
            found: Told = status_of(self._roots.campaign(asked.campaign)).model_dump(mode="json")
            return found
        known = self._roots.all()
        return {"campaigns": [_brief(one) for one in known[:MOST]], "left_out": max(0, len(known) - MOST)}

    def parse_bench_csv(self, asked: AboutCsv) -> Told:
        """The rows and the score of a benchmark's CSV, read as the campaign reads it: against its frozen columns."""
        from ridgeline.graph.policy.score import ScoreError, aggregates
        from ridgeline.sandbox.timing.csv_schema import Problem, read

        if bool(asked.file) == bool(asked.text):
            raise UserError("give one of `file` and `text`")
        campaign = self._roots.campaign(asked.campaign)
        contract = campaigns.history(campaign).contract
        data = asked.text.encode() if asked.text else self._roots.read(asked.file, campaign)
        rows = read(data, contract, requested=(), exact=False)
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
            "score": {one.name: one.value for one in score},
            "higher_is_better": contract.scoring.combined or contract.scoring.higher_is_better,
            "problem": problem,
        }

    def queue(self, asked: AboutQueue) -> Told:
        """What waits for a decision, oldest first, and what is decided and not resumed; of one campaign also the evidence."""
        from ridgeline.agent.approving import asked as chosen
        from ridgeline.agent.approving import decided_questions, open_questions

        if not asked.campaign:
            roots = self._roots.all()
            found = open_questions(roots) if roots else []
            decided = decided_questions(roots) if roots else []
            return {
                "waiting": [_question(*one) for one in found[:MOST]],
                "left_out": max(0, len(found) - MOST),
                "decided": [_decided(*one) for one in decided[:MOST]],
            }
        campaign = self._roots.campaign(asked.campaign)
        open_here = open_questions([campaign])
        told: Told = {
            "waiting": [_question(*one) for one in open_here[:MOST]],
            "decided": [_decided(*one) for one in decided_questions([campaign])],
        }
        if not open_here:
            return told
        one = chosen(campaign, asked.key or open_here[0][1].request.key)
        return {**told, "key": one.request.key, **self._part(Path(one.page), campaign, asked.offset)}

    def approve(self, asked: Decide) -> Told:
        """Approve, reject with a reason, or defer what a campaign waits for. It goes on with `ridgeline resume`."""
        from ridgeline.agent.approving import Answer, store
        from ridgeline.agent.approving import asked as chosen

        campaign = self._roots.campaign(asked.campaign)
        reason = plain(asked.reason, limit=10_000).strip()
        if asked.choice != "approve" and not reason:
            raise UserError(f"reason: needed to {asked.choice}")
        answer = Answer(
            yes=asked.choice == "approve",
            reject=reason if asked.choice == "reject" else None,
            defer=reason if asked.choice == "defer" else None,
            reason=reason,
            by=f"{plain(asked.by, limit=200)} (mcp)",
        )
        stored = store(campaign, chosen(campaign, asked.key), answer)
        after = "" if stored == "defer" else f"ridgeline resume {campaign}"
        return {"campaign": campaign.name, "dir": str(campaign), "key": asked.key, "choice": stored, "next": after}

    def answer(self, asked: AnswerRequest) -> Told:
        """The open request of a campaign that asks by mailbox, or its answer. What cannot be used is refused."""
        from ridgeline.agent.answering import Given, open_question, store

        campaign = self._roots.campaign(asked.campaign)
        request = open_question(campaign)
        about: Told = {"campaign": campaign.name, "dir": str(campaign), "number": request.number}
        if not asked.text:
            page = campaign / "mailbox" / f"{request.number:03d}.request.md"
            return {**about, "purpose": request.ask.purpose, **self._part(page, campaign, asked.offset)}
        if asked.number != request.number:
            raise UserError(f"number: the open request is {request.number}; read it, then answer with its number")
        if not asked.by.strip():
            raise UserError("by: say who or what wrote the answer")
        given = Given(data=asked.text.encode(), source="text", by=f"{asked.by} (mcp)")
        stored = store(campaign, request, given)
        return {**about, "stored": True, "dropped": list(stored.dropped), **_after(campaign)}

    def report(self, asked: AboutReport) -> Told:
        """What was gained and how sure, what was tried, costs, and how to reproduce it; also in the middle."""
        from ridgeline.graph.documents import report as render

        campaign = self._roots.campaign(asked.campaign)
        return {"campaign": campaign.name, **_part(render(campaigns.history(campaign)), asked.offset)}

    def _part(self, page: Path, campaign: Path, offset: int) -> Told:
        return _part(self._roots.read(str(page), campaign).decode(errors="replace"), offset)


def _part(text: str, offset: int) -> Told:
    """So much of a long text, and where it goes on; None at its end. Keys are taken out before a cut can hide one."""
    text = without_keys(text)
    end = offset + PART
    return {"text": text[offset:end], "characters": len(text), "next_offset": end if end < len(text) else None}


def _after(campaign: Path) -> Told:
    """What an answered campaign wants next. Whatever keeps it from going on, the answer is stored."""
    from ridgeline.agent.answering import following

    goes_on = f"ridgeline resume {campaign}"
    try:
        follows = following(campaign)
    except KNOWN as error:
        return {"next_request": None, "next": goes_on, "problem": one_line(error)}
    return {"next_request": follows, "next": "read the next request with `answer`" if follows else goes_on}


def _brief(campaign: Path) -> Told:
    """A line of the list. A campaign that cannot be read is told as such and hides no other."""
    from ridgeline.agent.inspection import status_of

    try:
        found = status_of(campaign)
    except KNOWN as error:
        return {"dir": str(campaign), "problem": one_line(error)}
    shown = (
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
    return found.model_dump(mode="json", include=set(shown))


def _decided(campaign: Path, one: Decided) -> Told:
    from ridgeline.agent.wanted import next_of

    return {
        "campaign": campaign.name,
        "dir": str(campaign),
        "key": one.request.key,
        "choice": one.decision.choice,
        "by": one.decision.by,
        "at": one.decision.at,
        "told": next_of(str(campaign), one),
    }


def _question(campaign: Path, one: Waits) -> Told:
    request = one.request
    return {
        "campaign": campaign.name,
        "dir": str(campaign),
        "key": request.key,
        "gate": request.gate,
        "round": request.round,
        "title": request.title,
        "asked_at": request.asked_at,
        "deferred": one.deferred.model_dump(mode="json") if one.deferred else None,
    }
