"""Who may ask the server what: decided before any page is, for every request."""

import errno
import hmac
import ipaddress
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ridgeline.graph.reports.text import clip

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
METHODS = frozenset({"GET", "HEAD", "POST"})
LONGEST_TARGET = 2048
"""Characters of path and query."""
MOST_HEADERS = 16_384
"""Bytes of all header names and values."""
LARGEST_BODY = 3_500_000
"""Bytes of a form: edited sources, percent-encoded."""
FORM = "application/x-www-form-urlencoded"
PATH = re.compile(r"/[A-Za-z0-9/_.-]*")
COOKIE = "ridgeline"
REMEMBERED_S = 30 * 24 * 3600
"""How long a browser that has shown the token is known."""
TOKEN_BYTES = 32
SHORTEST_TOKEN = 16
"""Characters."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """What is asked of every request."""

    names: frozenset[str] = LOOPBACK
    """Host names that this server answers to; addresses of other names are somebody else's page (DNS rebinding)."""
    addresses: bool = False
    """Whether any numeric address is a name of this server: a page cannot make one stand for its own."""
    token: str
    """What every request must carry, on this machine too: others may have accounts on it."""
    style: str = ""
    """Text of the one inline style sheet that a page may have."""
    headers: tuple[tuple[bytes, bytes], ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "headers", _protective(self.style))


class Refusal(Exception):
    """Why a request is not answered."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Gatekeeper:
    """ASGI middleware: refuses what is not for us, bounds what is read, and adds the protective headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a browser's request, refuse it, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        bounded = _BoundedBody(receive)
        answer = _ProtectedSend(send, self._access.headers)
        try:
            headers = _headers(scope)
            self._check(scope, headers)
            if (entry := self._entry(scope, headers)) is not None:
                await _redirect(answer, entry, self._access.token, secure=scope["scheme"] == "https")
                return
            await self._app(scope, bounded, answer)
        except Refusal as refused:
            if not answer.started:
                await _refuse(answer, refused)

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Raises Refusal for a request with a method, address, host or form that is not for this server."""
        if scope["method"] not in METHODS:
            raise Refusal(405, "only GET and POST are understood")
        path, query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
        if len(path) + len(query) > LONGEST_TARGET:
            raise Refusal(414, "the address is too long")
        if not PATH.fullmatch(path.decode("latin-1")) or ".." in scope["path"] or "//" in scope["path"]:
            raise Refusal(404, "there is no such page")
        host = headers.get("host", "")
        if not self._ours(host):
            raise Refusal(421, "this server is not the one of that name; use the address that `ridgeline serve` said")
        if scope["method"] == "POST":
            _check_post(scope["scheme"], host, headers)

    def _ours(self, host: str) -> bool:
        """Whether a request's Host header names this server."""
        name = re.sub(r":\d{1,5}$", "", host).lower()
        return name in self._access.names or (self._access.addresses and _numeric(name))

    def _entry(self, scope: Scope, headers: Mapping[str, str]) -> str | None:
        """Where a browser goes on without the token in the address; None for who has shown it. Raises Refusal."""
        token = self._access.token
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _same(bearer, token) or _same(_cookie(headers.get("cookie", "")), _session(token)):
            return None
        try:
            tokens = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=8).get("token", [""])
        except ValueError:
            tokens = [""]
        if scope["method"] == "GET" and _same(tokens[0], token):
            return str(scope["path"])
        raise Refusal(
            401,
            "the token is missing: put ?token=TOKEN behind this address, once in this browser; where `ridgeline serve` runs, it"
            " said the token or the file that holds it",
        )


def keep_token(file: Path) -> str:
    """The web server's token in its file, which only this user may read; made where there is none. Raises OSError where none can be."""
    if (token := _read_token(file)) is not None:
        return token
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_name(f".{secrets.token_hex(8)}.tmp")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(make_token())
    try:
        os.link(fresh, file)
    except FileExistsError:  # of another server that begins now, or one that is not to be trusted
        if _read_token(file) is None:
            fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
    token = _read_token(file)
    if token is None:
        raise PermissionError(errno.EACCES, "is not this user's alone", str(file))
    return token


def _read_token(file: Path) -> str | None:
    """The web server's token; None where there is none, and where somebody else may have written or read it."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle) as opened:
        status = os.fstat(handle)
        private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
        token = opened.read(1000).strip() if private else ""
    return token if len(token) >= SHORTEST_TOKEN else None


def make_token() -> str:
    """A new secret token for the server's address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def _check_post(scheme: str, host: str, headers: Mapping[str, str]) -> None:
    """Refuses a form that was not sent from our own pages."""
    if headers.get("origin") != f"{scheme}://{host}" or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Refusal(403, "the form did not come from a page of this server")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Refusal(415, "only forms are taken")
    length = headers.get("content-length", "")
    if length and (not length.isascii() or not length.isdigit() or len(length) > 12 or int(length) > LARGEST_BODY):
        raise Refusal(413, "the form is too large")


def _headers(scope: Scope) -> dict[str, str]:
    """A request's headers by name. Raises Refusal where a name that decides stands there twice, or there is too much."""
    headers: dict[str, str] = {}
    total = 0
    for name, value in scope["headers"]:
        total += len(name) + len(value)
        text = name.decode("latin-1").lower()
        if text in headers and text in ("host", "origin", "content-length", "content-type", "authorization"):
            raise Refusal(400, f"{text} is there twice")
        headers[text] = value.decode("latin-1")
    if total > MOST_HEADERS:
        raise Refusal(431, "the headers are too long")
    return headers


class _BoundedBody:
    """A body that stops being read when it is larger than any form of ours."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._byte_count = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._byte_count += len(message.get("body", b""))
        if self._byte_count > LARGEST_BODY:
            raise Refusal(413, "the form is too large")
        return message


class _ProtectedSend:
    """Sends, with what tells the browser to run and load nothing of others."""

    def __init__(self, send: Send, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        self._send = send
        self._extra = headers
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message = {**message, "headers": [*message.get("headers", ()), *self._extra]}
        await self._send(message)


def _protective(style: str) -> tuple[tuple[bytes, bytes], ...]:
    """Headers that tell the browser to run and load nothing of others; `style` is the page's own."""
    import base64

    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'self' 'sha256-{digest}'; script-src 'self'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }
    return tuple((name.encode(), value.encode()) for name, value in headers.items())


async def _refuse(send: Send, refused: Refusal) -> None:
    body = f"{refused.why}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    headers.append((b"connection", b"close"))
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _redirect(send: Send, path: str, token: str, *, secure: bool) -> None:
    """Send a browser to the same page, with the token's stand-in in a cookie that no script and no other site can use."""
    marks = f"HttpOnly; SameSite=Strict; Path=/; Max-Age={REMEMBERED_S}" + ("; Secure" if secure else "")
    headers = [(b"location", path.encode()), (b"set-cookie", f"{COOKIE}={_session(token)}; {marks}".encode())]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _same(text: str, secret: str) -> bool:
    """Whether two secrets of the web server are the same, in a time that reveals nothing of either, their lengths included."""
    return hmac.compare_digest(sha256(text.encode()).digest(), sha256(secret.encode()).digest())


def _session(token: str) -> str:
    return sha256(f"cookie of {token}".encode()).hexdigest()


def _cookie(header: str) -> str:
    """The session's value in a browser's cookie; empty where there is none."""
    try:
        cookie = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


def _numeric(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


# What a browser sends with a form, bounded and made harmless for terminals and records.

FIELDS = 64
"""Fields of a form: some files and a few words."""
NAME, WORDS = 100, 2000
"""Characters of a person's name, and of a reason."""


async def fields(request: Request) -> dict[str, str]:
    """What a browser's form sent, by field. Raises Refusal where it is no form, too long, or says one thing twice."""
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError as error:
        raise Refusal(400, "this is not a form") from error
    form = dict(pairs)
    if len(form) != len(pairs):
        raise Refusal(400, "a field is there twice")
    return form


def words(form: Mapping[str, str], name: str, limit: int = WORDS) -> str:
    """One line of text that a browser's form sent, for people. Raises Refusal where it is too long."""
    text = form.get(name, "")
    if len(text) > limit:
        raise Refusal(400, f"{name} is longer than {limit} characters")
    return clip(text, limit)


def source(form_text: str, before: str) -> str:
    """A file edited in the browser, with the line ends that it had: a form sends CRLF."""
    text = form_text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\n", "\r\n") if "\r\n" in before else text
