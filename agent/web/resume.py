"""Campaigns that go on by themselves after a decision: `ridgeline resume` as a process of its own, never two for one.

Only with `ridgeline serve --resume`. The process outlives the server; what it says is kept in the campaign's folder.
"""

import contextlib
import logging
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ridgeline.agent.campaign.approvals import ApprovalFiles, is_overdue
from ridgeline.agent.campaign.approvals import describe_decision as answer_in_words
from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import plain, redact, without_keys
from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.graph.errors import DeviceBusy, WorldError
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.isolation.process import launch_detached

logger = logging.getLogger(__name__)

LOG = "serve.log"
LARGEST_LOG = 1_000_000
"""Bytes beyond which the log begins anew."""
SHOWN = 4_000
"""Bytes of its end that a page shows."""
PATIENCE_S = 60.0
"""So long the process that asked may take to leave."""
LOOK_S = 20.0
"""Between two looks at questions whose time may have run out."""
RESUME = (sys.executable, "-P", "-m", "ridgeline", "resume")  # -P: a campaign's folder is no place to import from


class Resumer:
    """The campaigns that this server set going."""

    def __init__(self, command: Sequence[str] = RESUME, *, patience_s: float = PATIENCE_S) -> None:
        self._command = tuple(command)
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._next_reasons: dict[Path, str] = {}
        """Why each campaign that is being seen to has to go on once more; empty where it has not."""
        self._tried: set[Path] = set()

    def go_on(self, campaign: Path, why: str) -> None:
        """Have the web server resume a campaign in the background, as soon as no process holds it. Returns at once."""
        with self._lock:
            if campaign in self._next_reasons:
                self._next_reasons[campaign] = why
                return
            self._next_reasons[campaign] = ""
        threading.Thread(target=self._see_to, args=(campaign, why), name=f"resume {campaign.name}", daemon=True).start()

    def look(self, catalogue: Catalogue) -> None:
        """Resume campaigns that were decided on, wherever that was, and those that nobody decided in time; once for each."""
        now = datetime.now(UTC)
        for name, question in catalogue.questions():
            folder = catalogue.folder(name)
            question_path = folder / question.request.key
            if question_path not in self._tried and is_overdue(question.request, now):
                self._tried.add(question_path)
                self.go_on(folder, f"nobody decided within {question.request.hours:g} h: {question.request.late}")

        for name, decision in catalogue.list_unused_decisions():
            folder = catalogue.folder(name)
            answer = folder / f"{decision.request.key} decided"
            if answer not in self._tried:
                self._tried.add(answer)
                self.go_on(folder, f"{answer_in_words(decision.decision)} ({decision.request.key})")

    def keep_looking(self, catalogue: Catalogue, ended: threading.Event) -> None:
        """The web server's background thread that resumes campaigns, until the end is asked for."""
        while not ended.wait(LOOK_S):
            self.look(catalogue)

    def _see_to(self, campaign: Path, why: str) -> None:
        """Resume one campaign for the web server until nothing new was decided meanwhile; failures go into its log."""
        while why:
            try:
                self._once(campaign, why)
            except (UserError, WorldError, OSError) as error:
                logger.warning("%s: cannot go on: %s", campaign.name, error)
                _note(campaign, f"cannot go on: {redact(str(error))}")
            with self._lock:
                why = self._next_reasons.pop(campaign)
                if why:
                    self._next_reasons[campaign] = ""

    def _once(self, campaign: Path, why: str) -> None:
        """Start `ridgeline resume` once. Raises DeviceBusy where another process keeps the campaign."""
        try:
            with lease("running", wait_s=self._patience_s, folder=campaign):
                pass  # whoever asked the question has left; `resume` itself refuses where somebody else comes first
        except DeviceBusy:
            _note(campaign, "another process works on this campaign; it takes the decision when it asks again")
            return
        if not _has_answer(campaign):
            _note(campaign, "somebody has gone on with it already")
            return
        _note(campaign, f"goes on: {why}")
        argv = (*self._command, str(campaign))
        code = launch_detached(argv, cwd=campaign, log=campaign / LOG, without=("RIDGELINE_TOKEN",)).wait()
        _note(campaign, {0: "ended", 3: "waits for the next answer"}.get(code, f"left with exit code {code}"))


def _has_answer(campaign: Path) -> bool:
    """Whether a resumed campaign finds an answer to what it waits for. Asked by the web server while no process works on it."""
    files, now = ApprovalFiles(campaign), datetime.now(UTC)
    return files.find_unused_decision() is not None or any(
        is_overdue(question.request, now) for question in files.waiting()
    )


def read_log_tail(campaign: Path) -> str:
    """The end of what a `ridgeline resume` that a page started has said; empty where none was."""
    try:
        with (campaign / LOG).open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(0, size - SHOWN))
            data = log.read(SHOWN)
    except OSError:
        return ""
    text = data.decode(errors="replace")
    if size > SHOWN:
        text = text.partition("\n")[2]
    return plain(without_keys(text), limit=SHOWN).strip()


def size_of(campaign: Path) -> int:
    """Bytes of the log of a campaign that the web server resumed: it only grows."""
    with contextlib.suppress(OSError):
        return (campaign / LOG).stat().st_size
    return 0


def _note(campaign: Path, text: str) -> None:
    """A line of the web server's own in a campaign's log. Nothing is lost with one that cannot be written."""
    log = campaign / LOG
    moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    with contextlib.suppress(OSError), log.open("wb" if size_of(campaign) > LARGEST_LOG else "ab") as out:
        out.write(f"--- {moment} {plain(text, limit=1000)}\n".encode())
