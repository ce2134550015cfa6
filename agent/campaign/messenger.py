"""Deliver one event to ntfy, Slack or mail: a program of its own, so that a campaign waits for it no longer than it wants.

The address comes in a variable and not as an argument, which other users of the machine could read.
"""

import json
import os
import shutil
import smtplib
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from getpass import getuser
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from ridgeline.agent.errors import UserError

ADDRESS = "RIDGELINE_ADDRESS"
SMTP = "RIDGELINE_SMTP"
"""`smtp://[user:password@]host[:port]` or `smtps://...`; without it, the machine's own sendmail."""
KINDS = ("ntfy:", "slack:", "mailto:")
NTFY = "https://ntfy.sh/"
TIMEOUT_S = 10.0
PRIORITY = {"waiting": 4, "decided": 3, "stopped": 4, "concluded": 3, "accepted": 2, "test": 3}
"""Of ntfy: 4 makes a noise, 2 makes none."""
SIGN = {"waiting": "raised_hand", "stopped": "warning", "concluded": "checkered_flag", "accepted": "heavy_check_mark"}
SENDMAIL = ("/usr/sbin", "/usr/lib")
"""Where it lies beside the search path."""


class DeliveryFailure(Exception):
    """Why; without the address, which may be a secret."""


def is_address(text: str) -> bool:
    """Whether the words of `--notify` name a receiver and not a command."""
    return text.startswith(KINDS)


def require_address(text: str, origin: str) -> None:
    """Raises UserError, naming `origin`, for an address of notifications that cannot be one."""
    kind, _, place = text.partition(":")
    if kind == "mailto":
        if not all("@" in address.strip("@") and " " not in address for address in place.split(",")):
            raise UserError(f"{origin}: mailto: needs addresses; write for example mailto:ada@example.org")
        if not os.environ.get(SMTP) and _sendmail() is None:
            raise UserError(
                f"{origin}: mailto: this machine has no sendmail; export {SMTP}=smtp://user:password@host:587"
            )
        return
    url = urlsplit(_make_ntfy_address(place) if kind == "ntfy" else place)
    if url.scheme not in ("http", "https") or not url.hostname or not url.path.strip("/"):
        example = (
            "ntfy:my-topic or ntfy:https://host/my-topic" if kind == "ntfy" else "slack:https://hooks.slack.com/..."
        )
        raise UserError(f"{origin}: {kind}: needs an address; write for example {example}")


def hide_secret(text: str) -> str:
    """An address of notifications, for people: what may be a secret is left out."""
    kind, _, place = text.partition(":")
    return (
        text
        if kind == "mailto"
        else f"{kind} at {urlsplit(_make_ntfy_address(place) if kind == 'ntfy' else place).hostname}"
    )


def deliver(address: str, event: Mapping[str, Any]) -> None:
    """Sends a notification to an address of ntfy, Slack or mail. Raises Undelivered."""
    kind, _, place = address.partition(":")
    send: dict[str, Callable[[str, Mapping[str, Any]], None]] = {
        "ntfy": _to_ntfy,
        "slack": _to_slack,
        "mailto": _to_mail,
    }
    try:
        send[kind](place, event)
    except HTTPError as error:
        raise DeliveryFailure(f"{hide_secret(address)} answered {error.code} {error.reason}") from None
    except URLError as error:
        raise DeliveryFailure(f"{hide_secret(address)} cannot be reached: {error.reason}") from None
    except (OSError, smtplib.SMTPException) as error:
        raise DeliveryFailure(f"{hide_secret(address)}: {error}") from None


def text_of(event: Mapping[str, Any]) -> str:
    """A notification's text below its title: what happened in the campaign, what goes on with it."""
    return "\n".join(part for part in (str(event["said"]), str(event.get("next") or "")) if part)


def _to_ntfy(place: str, event: Mapping[str, Any]) -> None:
    """Send a notification as JSON, the one form in which ntfy takes any letter."""
    url = urlsplit(_make_ntfy_address(place))
    message = {
        "topic": url.path.strip("/"),
        "title": event["title"],
        "message": text_of(event),
        "priority": PRIORITY[event["event"]],
        "tags": [SIGN[event["event"]]] if event["event"] in SIGN else [],
        **({"click": event["link"]} if event.get("link") else {}),
    }
    _post(f"{url.scheme}://{url.netloc.rpartition('@')[2]}/", message, user=url.username, password=url.password)


def _to_slack(place: str, event: Mapping[str, Any]) -> None:
    text = f"*{_escape_for_slack(event['title'])}*\n{_escape_for_slack(text_of(event))}"
    _post(place, {"text": text + (f"\n<{event['link']}|Open the page>" if event.get("link") else "")})


def _to_mail(place: str, event: Mapping[str, Any]) -> None:
    """Mail a notification by SMTP where a server is named, else by sendmail. Raises Undelivered."""
    mail = EmailMessage()
    mail["Subject"] = " ".join(str(event["title"]).split())
    mail["From"] = f"{getuser()}@{socket.getfqdn()}"
    mail["To"] = place
    mail.set_content("\n\n".join(part for part in (text_of(event), str(event.get("link") or "")) if part) + "\n")
    server = os.environ.get(SMTP)
    if not server:
        program = _sendmail()
        if program is None:
            raise DeliveryFailure(f"this machine has no sendmail; export {SMTP}")
        result = subprocess.run((program, "-t", "-i"), input=mail.as_bytes(), capture_output=True, check=False)
        if result.returncode:
            raise DeliveryFailure(
                f"sendmail left with {result.returncode}: {result.stderr.decode(errors='replace')[:200]}"
            )
        return
    url = urlsplit(server)
    kind = smtplib.SMTP_SSL if url.scheme == "smtps" else smtplib.SMTP
    with kind(url.hostname or "", url.port or 0, timeout=TIMEOUT_S) as smtp:
        if url.scheme != "smtps" and smtp.has_extn("starttls"):
            smtp.starttls()
        if url.username:
            smtp.login(unquote(url.username), unquote(url.password or ""))
        smtp.send_message(mail)


def _post(url: str, message: Mapping[str, Any], *, user: str | None = None, password: str | None = None) -> None:
    request = Request(url, data=json.dumps(message).encode(), headers={"Content-Type": "application/json"})
    if user is not None or password is not None:
        from base64 import b64encode

        pair = f"{unquote(user or '')}:{unquote(password or '')}".encode()
        request.add_header("Authorization", f"Basic {b64encode(pair).decode()}")
    with urlopen(request, timeout=TIMEOUT_S) as answer:
        answer.read(1000)


def _make_ntfy_address(place: str) -> str:
    """For a campaign's notifications: the address of an ntfy topic; a bare topic is one of ntfy.sh."""
    return place if "://" in place else NTFY + place


def _escape_for_slack(text: object) -> str:
    """The text of a notification with the three signs escaped that mean something to Slack."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _sendmail() -> str | None:
    return shutil.which("sendmail", path=os.pathsep.join((os.environ.get("PATH", os.defpath), *SENDMAIL)))


def main() -> None:
    """Deliver the notification on standard input to the address in the environment."""
    try:
        deliver(os.environ[ADDRESS], json.load(sys.stdin))
    except DeliveryFailure as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
