"""A command of the user's, or ntfy, Slack or mail, told when a campaign waits, is decided, keeps a change or ends.

It belongs to the user, never to a contract: it is not confined as a project's commands are, so a repository cannot
bring one along. Each event is told at most once, and nothing is decided by how the command ends.
"""

import hashlib
import json
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ridgeline.agent.campaign.folders import link
from ridgeline.agent.campaign.messenger import ADDRESS, SMTP, hide_secret, is_address, require_address
from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import redact
from ridgeline.graph.errors import WorldError
from ridgeline.graph.values import Value
from ridgeline.sandbox.isolation.environment import select_variables
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.store.durable import cache_folder, write_whole

logger = logging.getLogger(__name__)

VARIABLE = "RIDGELINE_NOTIFY"
FILE = "notify.json"
SENDING = (SMTP, "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that only our own sending reads."""
LIMIT_S = 20.0
"""The campaign waits so long at most, so that the command never runs beside a measurement."""
LONGEST = 400
"""Characters of each text: a line on a phone, not the evidence."""
PASSED = (
    "HOME", "USER", "LOGNAME", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
"""What programs that send mail, call a web hook or show a notice need to know; no keys."""


Kind = Literal["waiting", "decided", "accepted", "stopped", "concluded", "test"]


class Event(Value):
    """The JSON object on the command's standard input."""

    event: Kind
    title: str
    """What happened in some words: the subject of a mail, the head of a notice."""
    campaign: str
    dir: str
    """Campaign directory, absolute."""
    round: int
    said: str
    """One line: what is asked, who decided what, the verdict, why it stopped."""
    change: str = ""
    """What is or was tried in that round; empty between rounds."""
    gain: float | None = None
    """Of an accepted change over the best version before it, as a share."""
    speedup: float | None = None
    """Of a concluded campaign: time of the original / time of the best version; None where no final test was made."""
    request: str | None = None
    """Page to read, of a campaign that waits."""
    link: str | None = None
    """Address of the page in a browser; None where no `ridgeline serve` shows this campaign."""
    next: str = ""
    """The command that goes on; empty while the campaign itself does."""
    at: str
    """ISO-8601 UTC."""


class Hook:
    """The command, or nothing where there is none."""

    def __init__(self, argv: Sequence[str], campaign: Path) -> None:
        self._argv = tuple(argv)
        self._campaign = campaign

    def tell(self, kind: Kind, **about: object) -> None:
        """Run the notification command with the event, `about` being fields of `Event`. Whatever goes wrong with it is logged."""
        if self._argv and (problem := self._notify(kind, about)):
            logger.warning("notify: %s: %s", kind, problem)

    def try_out(self) -> None:
        """Send a notification that says it is a test. Raises UserError where that cannot be done."""
        if not self._argv:
            raise UserError(f"--notify-test: nobody is named; give --notify or export {VARIABLE}")
        about = {"round": 0, "said": "A test: messages about campaigns arrive like this one."}
        if problem := self._notify("test", about):
            raise UserError(f"--notify-test: {problem}")

    def _notify(self, kind: Kind, about: Mapping[str, object]) -> str:
        """What went wrong with a notification; empty when nothing did."""
        fields: dict[str, object] = {
            "link": link(self._campaign),
            **{name: _clean_text(value) for name, value in about.items()},
            "event": kind,
            "campaign": self._campaign.name,
            "dir": str(self._campaign),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        event = Event.model_validate({**fields, "title": _title(fields)})
        argv, name, env = self._argv, self._argv[0], select_variables(PASSED)
        if is_address(name):
            # -P: a campaign's folder is no place to import from
            argv = (sys.executable, "-P", "-m", "ridgeline.agent.campaign.messenger")
            env |= {ADDRESS: name, **{key: os.environ[key] for key in SENDING if key in os.environ}}
            name = hide_secret(name)
        try:
            result = run(
                argv,
                cwd=self._campaign,
                timeout_s=LIMIT_S,
                env=env,
                network=True,
                output_bytes=4_000,
                stdin=event.model_dump_json().encode() + b"\n",
            )
        except (WorldError, OSError) as error:
            return str(error)
        if result.timed_out:
            return f"{name} took more than {LIMIT_S:g} s and was ended"
        if result.returncode != 0:
            return f"{name} left with {result.returncode}: {redact(result.output, limit=200)}"
        return ""


def parse_receiver(text: str, origin: str) -> tuple[str, ...]:
    """The notification command as words, its program as a path; or an address of ntfy, Slack or mail as it is.

    Raises UserError, naming `origin`, for a command that cannot be run and for an address that is none.
    """
    if is_address(text.strip()):
        require_address(text.strip(), origin)
        return (text.strip(),)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{origin}: {text!r} cannot be split into words ({error}); mend the quotes") from None
    if not words:
        raise UserError(f"{origin}: is empty; give a command, or leave it out")
    program = shutil.which(words[0])
    if program is None:
        raise UserError(f"{origin}: {words[0]!r} is no program that can be started; install it, or correct the command")
    return (os.path.abspath(program), *words[1:])  # noqa: PTH100 -- a link stays a link: some look at their name


def allow(argv: Sequence[str]) -> None:
    """Remember that this user allowed this notification command on this machine. Raises UserError where that cannot be kept."""
    place = _find_permission(argv)
    try:
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
    except OSError as error:
        raise UserError(f"--notify: {place}: {error.strerror}; export {VARIABLE} instead") from None


def store_command(campaign: Path, argv: Sequence[str]) -> None:
    """Keeps the campaign's own notification command in its folder, for when it is resumed."""
    if argv:
        write_whole(campaign / FILE, json.dumps({"command": list(argv)}).encode() + b"\n")
        (campaign / FILE).chmod(0o600)  # an address may be all that is needed to write there


def find_hook(campaign: Path, environment: Mapping[str, str] | None = None) -> Hook:
    """The notification command: the campaign's own, else the user's for all campaigns (`RIDGELINE_NOTIFY`).

    The campaign's own is left alone where this user did not give it on this machine: folders of campaigns are copied.
    Raises UserError for a variable that names no command.
    """
    argv = _read_receiver(campaign)
    place = _find_permission(argv) if argv else None
    if place is not None and place.is_file():
        return Hook(argv, campaign)
    text = (os.environ if environment is None else environment).get(VARIABLE, "")
    if text.strip():
        return Hook(parse_receiver(text, VARIABLE), campaign)
    if argv:
        command = hide_secret(argv[0]) if is_address(argv[0]) else redact(shlex.join(argv))
        logger.warning(
            "notify: %s was not given on this machine and is not run; export %s to be told", command, VARIABLE
        )
    return Hook((), campaign)


def _read_receiver(campaign: Path) -> tuple[str, ...]:
    """The campaign's own notification command; empty where none is kept."""
    path = campaign / FILE
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return ()
    except ValueError:
        document = None
    words = document.get("command") if isinstance(document, dict) else None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        logger.warning("%s: holds no command any more; nobody is notified", path)
        return ()
    return tuple(words)


def _find_permission(argv: Sequence[str]) -> Path | None:
    """The file that says that this user allowed a notification command."""
    folder = cache_folder("notify")
    return folder / hashlib.sha256(json.dumps(list(argv)).encode()).hexdigest() if folder else None


def _title(about: Mapping[str, object]) -> str:
    """Title of a notification: one line that can be read on a locked phone."""
    campaign, change, gain, speedup = (about.get(name) for name in ("campaign", "change", "gain", "speedup"))
    what = f": {redact(str(change), limit=80)}" if change else ""
    match about["event"]:
        case "waiting":
            return f"{campaign} waits for you{what}"
        case "decided":
            return f"{campaign}: decided, not resumed{what}"
        case "accepted":
            return f"{campaign}: kept{what}" + (f", {100 * gain:+.1f}%" if isinstance(gain, float) else "")
        case "stopped":
            return f"{campaign} stopped in round {about['round']}{what}"
        case "concluded":
            return f"{campaign} concluded" + (f": {speedup:.2f}x" if isinstance(speedup, float) else "")
        case _:
            return "Ridgeline: a test"


def _clean_text(value: object) -> object:
    """Text of a notification without control characters: it may come from a model or a provider."""
    return redact(value, limit=LONGEST) if isinstance(value, str) else value
